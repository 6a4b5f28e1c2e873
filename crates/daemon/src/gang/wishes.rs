//! Wishes of processes that wait for a service of another job: each lends that job the rest of its own turns
//! while it waits ([`tutti_sched::gang`], loans).
//!
//! ```text
//! client: a byte, 1: waits, 0: does not --> this thread: waits = ..., eventfd --> switch thread: Wish::waits
//! ```
//!
//! Each connection has a thread, which reads from it and does nothing else: what a process says concerns its
//! own job's turns alone. Which jobs these are the kernel has said before (`shell/lending.rs`).
//!
//! | bound | value | beyond it |
//! |---|---|---|
//! | threads of a daemon, of a user | [`THREADS_MAX`], [`THREADS_OF_USER_MAX`] | its connection is closed |
//! | changes of a connection in a time | those of a bell ([`super::bell`]) | they are heard when it is over |

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tutti_sched::JobId;

use super::bell::Window;

const THREADS_MAX: usize = 128;
const THREADS_OF_USER_MAX: usize = 32;
/// A thread that nobody wants any more ends so late at most.
const LOOK: Duration = Duration::from_secs(2);
const STACK_BYTES: usize = 128 << 10;
/// Byte of a client that waits.
const WAITS: u8 = 1;

/// The wish of one process, as the switch thread hears it.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Job of the process.
    pub(super) lender: JobId,
    /// Job for which it waits.
    pub(super) borrower: JobId,
    user: u32,
    heard: Arc<Heard>,
}

impl PartialEq for Wish {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.heard, &other.heard)
    }
}

#[derive(Debug, Default)]
struct Heard {
    waits: AtomicBool,
    /// How often that has changed.
    changes: AtomicU64,
    /// The process has gone.
    is_over: AtomicBool,
    /// Whether nobody hears the process any more.
    is_unheard: AtomicBool,
}

impl Wish {
    /// Whether the process waits by now.
    pub(super) fn waits(&self) -> bool {
        self.heard.waits.load(Ordering::SeqCst)
    }

    /// Returns what the wish is about: the job of the process, the one for which it waits, the process's
    /// user.
    pub(crate) fn about(&self) -> (JobId, JobId, u32) {
        (self.lender, self.borrower, self.user)
    }

    /// Number of the change since which the process waits; none: it does not.
    pub(crate) fn waits_since(&self) -> Option<u64> {
        let changes = self.heard.changes.load(Ordering::SeqCst);
        (self.waits() && !self.is_over()).then_some(changes)
    }

    /// Whether nothing comes any more.
    pub(crate) fn is_over(&self) -> bool {
        self.heard.is_over.load(Ordering::SeqCst)
    }

    /// Gives up a wish, a job of which has ended.
    pub(super) fn give_up(&self) {
        self.heard.is_unheard.store(true, Ordering::Relaxed);
    }
}

/// The threads.
#[derive(Clone, Debug)]
pub(crate) struct Listeners {
    /// Bell of the switch thread.
    waker: Arc<OwnedFd>,
    threads: Arc<Mutex<BTreeMap<u32, usize>>>,
}

impl Listeners {
    pub(crate) fn new(waker: OwnedFd) -> Self {
        Listeners { waker: Arc::new(waker), threads: Arc::default() }
    }

    fn threads(&self) -> MutexGuard<'_, BTreeMap<u32, usize>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears a process of a user's on this connection; `permit` is kept as long as that lasts.
    ///
    /// # Errors
    /// When there are too many, or the kernel gives no thread.
    pub(crate) fn hear(
        &self,
        (lender, borrower): (JobId, JobId),
        user: u32,
        stream: UnixStream,
        permit: impl Send + 'static,
    ) -> io::Result<Wish> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(LOOK))?;
        let mut threads = self.threads();
        let count = threads.get(&user).copied().unwrap_or(0);
        if count >= THREADS_OF_USER_MAX || threads.values().sum::<usize>() >= THREADS_MAX {
            return Err(ErrorKind::QuotaExceeded.into());
        }
        let wish = Wish { lender, borrower, user, heard: Arc::default() };
        let (all, heard) = (self.clone(), Arc::clone(&wish.heard));
        let builder = std::thread::Builder::new().name("wish".into()).stack_size(STACK_BYTES);
        builder.spawn(move || {
            // As soon as the switch thread itself would hear it.
            tutti_os::prefer_this_thread();
            all.run(stream, &heard);
            heard.waits.store(false, Ordering::SeqCst);
            heard.is_over.store(true, Ordering::SeqCst);
            all.ring();
            drop(permit);
            let mut threads = all.threads();
            match threads.get_mut(&user) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(threads.remove(&user)),
            }
        })?;
        threads.insert(user, count + 1);
        Ok(wish)
    }

    fn ring(&self) {
        // A bell that is full is a bell that rings.
        let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
    }

    fn run(&self, mut stream: UnixStream, heard: &Heard) {
        let (mut window, mut bytes) = (Window::new(), [0; 64]);
        while !heard.is_unheard.load(Ordering::Relaxed) {
            let last = match stream.read(&mut bytes) {
                Ok(0) => return,
                Ok(read) => bytes[read - 1],
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    continue;
                }
                Err(_) => return,
            };
            let quiet = window.take(Instant::now());
            if !quiet.is_zero() {
                std::thread::sleep(quiet);
            }
            heard.changes.fetch_add(1, Ordering::SeqCst);
            if heard.waits.swap(last == WAITS, Ordering::SeqCst) != (last == WAITS) {
                self.ring();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    const JOBS: (JobId, JobId) = (JobId(1), JobId(2));

    fn listeners() -> Listeners {
        Listeners::new(eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor"))
    }

    fn wait_for(listeners: &Listeners, is_so: impl Fn() -> bool) {
        while !is_so() {
            rustix::io::read(&listeners.waker, &mut [0; 8]).expect("it rings");
        }
    }

    #[test]
    fn wish_is_heard_until_its_process_ends() {
        let listeners = listeners();
        let (mut client, stream) = UnixStream::pair().unwrap();
        let wish = listeners.hear(JOBS, 7, stream, ()).unwrap();
        assert!(!wish.waits() && !wish.is_over());
        client.write_all(&[1]).unwrap();
        wait_for(&listeners, || wish.waits());
        client.write_all(&[1, 0]).unwrap();
        wait_for(&listeners, || !wish.waits());
        client.write_all(&[1]).unwrap();
        wait_for(&listeners, || wish.waits());
        drop(client);
        wait_for(&listeners, || wish.is_over());
        assert!(!wish.waits(), "who has gone waits for nobody");
    }

    #[test]
    fn wishes_of_a_user_are_bounded_and_counted_down() {
        let listeners = listeners();
        let pair = || UnixStream::pair().unwrap();
        let all: Vec<_> = (0..THREADS_OF_USER_MAX)
            .map(|_| {
                let (client, stream) = pair();
                (listeners.hear(JOBS, 7, stream, ()).unwrap(), client)
            })
            .collect();
        let (_client, stream) = pair();
        assert!(listeners.hear(JOBS, 7, stream, ()).is_err());
        let (_other, stream) = pair();
        assert!(listeners.hear(JOBS, 8, stream, ()).is_ok(), "another user has his own");
        drop(all);
        while listeners.threads().contains_key(&7) {
            std::thread::yield_now();
        }
        let (_client, stream) = pair();
        assert!(listeners.hear(JOBS, 7, stream, ()).is_ok());
    }
}
