//! The thread that sleeps until a socket of [`super::Guests`] can go on, and rings this rank's bell then. It
//! touches nothing else: whoever makes progress works on the sockets.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tutti_shm::doorbell;
use tutti_shm::endpoint::Endpoint;

use crate::{background, rank};

/// Sockets that are told at once.
const EVENTS_MAX: usize = 64;

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

    /// From now on another number is told of a socket.
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
    while !rank::has_left() {
        // SAFETY: room for so many events.
        let count = unsafe {
            libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), EVENTS_MAX as libc::c_int, -1)
        };
        let Ok(count) = usize::try_from(count) else {
            if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return;
        };
        let mut which = ready.which.lock().unwrap_or_else(PoisonError::into_inner);
        which.extend(events[..count].iter().map(|event| event.u64));
        // A socket that never rests must not fill memory while nobody looks.
        which.sort_unstable();
        which.dedup();
        drop(which);
        ready.is_any.store(true, Ordering::SeqCst);
        // SAFETY: see the Send implementation.
        doorbell::ring_if_sleeping(unsafe { bell.0.as_ref() });
    }
}
