//! The thread that sleeps until a socket of [`super::Guests`] can go on, and rings this rank's bell then.
//! Whoever makes progress works on the sockets.
//!
//! Where memory of this process is open to guests ([`serve_meanwhile`]) their operations must not wait for a
//! call of the program. Then the thread works on the sockets itself, under the process lock, unless a thread
//! of the program is in a wait: that one looks by itself. It looks again a tick later, since such a wait may
//! have ended without a look. While a guest waits for a lock here it goes on by ticks and passes locks on,
//! also beside a wait: that may sleep, and nobody rings when the network of the job brings a lock back.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tutti_shm::doorbell;
use tutti_shm::endpoint::Endpoint;

use crate::{background, rank};

/// Sockets that are told at once.
const EVENTS_MAX: usize = 64;
/// How long the thread leaves to the program what it has told it.
const TICK_MS: libc::c_int = 1;
const ENDLESS: libc::c_int = -1;

/// Works on the sockets of guests, if told so, and passes locks on. Returns whether there may be more soon
/// that nobody rings for. Called under the process lock.
pub type Serve = fn(takes_in: bool) -> bool;

static SERVE: OnceLock<Serve> = OnceLock::new();

/// From now on what guests send is taken in while the program computes. The caller has acquired the process
/// lock, which is needed from now on.
pub fn serve_meanwhile(serve: Serve) {
    rank::LOCK.need_while_held();
    // The same function each time.
    let _ = SERVE.set(serve);
}

/// Sockets, by numbers of the caller's.
#[derive(Debug)]
pub(super) struct Watch {
    epoll: Arc<OwnedFd>,
    ready: Arc<Ready>,
}

#[derive(Debug, Default)]
struct Ready {
    is_any: AtomicBool,
    which: Mutex<Vec<u64>>,
}

struct Bell(NonNull<Endpoint>);

// SAFETY: the endpoint lies in the segment, which stays mapped until the process ends; its fields are
// atomics.
unsafe impl Send for Bell {}

impl Watch {
    /// Starts the thread, which rings `endpoint`.
    pub(super) fn start(endpoint: &Endpoint) -> io::Result<Watch> {
        // SAFETY: it takes no pointer.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor of our own.
        let epoll = Arc::new(unsafe { OwnedFd::from_raw_fd(epoll) });
        let ready = Arc::new(Ready::default());
        let (watched, told, bell) = (epoll.clone(), ready.clone(), Bell(NonNull::from(endpoint)));
        background::spawn("tutti-guests", move || run(&watched, &told, &bell))?;
        Ok(Watch { epoll, ready })
    }

    /// From now on `number` is told each time that something has changed at the socket. A socket that is
    /// closed is forgotten by the kernel.
    pub(super) fn add(&self, socket: &OwnedFd, number: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, number)
    }

    /// From now on another number is notified of a socket.
    pub(super) fn change(&self, socket: &OwnedFd, number: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket, number)
    }

    fn control(&self, how: libc::c_int, socket: &OwnedFd, number: u64) -> io::Result<()> {
        let events = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
        let mut event = libc::epoll_event { events, u64: number };
        // SAFETY: the event is valid during the call.
        let added = unsafe {
            let (epoll, socket) = (self.epoll.as_raw_fd(), socket.as_raw_fd());
            libc::epoll_ctl(epoll, how, socket, &raw mut event)
        };
        if added == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The numbers that were told since the last call.
    #[inline]
    pub(super) fn take(&self) -> Vec<u64> {
        if !self.ready.is_any.load(Ordering::Relaxed) || !self.ready.is_any.swap(false, Ordering::SeqCst) {
            return Vec::new();
        }
        std::mem::take(&mut *self.ready.which.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn run(epoll: &OwnedFd, ready: &Ready, bell: &Bell) {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
    let mut tick = ENDLESS;
    while !rank::has_left() {
        // SAFETY: room for so many events.
        let count = unsafe {
            libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), EVENTS_MAX as libc::c_int, tick)
        };
        let Ok(count) = usize::try_from(count) else {
            if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return;
        };
        if count == 0 {
            tick = if serve(ready) { TICK_MS } else { ENDLESS };
            continue;
        }
        let mut which = ready.which.lock().unwrap_or_else(PoisonError::into_inner);
        which.extend(events[..count].iter().map(|event| event.u64));
        // A socket that never rests must not fill memory while nobody looks.
        which.sort_unstable();
        which.dedup();
        drop(which);
        ready.is_any.store(true, Ordering::SeqCst);
        // SAFETY: see the Send implementation.
        doorbell::ring_if_sleeping(unsafe { bell.0.as_ref() });
        if SERVE.get().is_some() {
            serve(ready);
            tick = TICK_MS;
        }
    }
}

/// Works on the sockets, if no thread of the program waits and so does, and passes locks on; whether to look
/// again soon.
fn serve(ready: &Ready) -> bool {
    let Some(serve) = SERVE.get() else { return false };
    let Some(rank) = rank::enter() else { return false };
    let is_alone = rank.waits.waiting() == 0;
    let has_more = serve(is_alone);
    drop(rank);
    has_more || ready.is_any.load(Ordering::SeqCst)
}
