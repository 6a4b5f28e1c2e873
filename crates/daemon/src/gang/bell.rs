//! Rings of jobs that share parallel slots: each job has a thread that waits for them in the job's own
//! memory, and passes them on to the switch thread by memory and a bell of the daemon's own.
//!
//! ```text
//! rank: rings += 1, futex wake --> this thread: inside = ..., has_rung = true, eventfd --> switch thread: Bell::take
//! ```
//!
//! | bound | value | beyond it |
//! |---|---|---|
//! | threads of a user | [`THREADS_MAX`] | the job does not share |
//! | rings of a user's jobs in [`WINDOW`] | [`RINGS_MAX`] | they are heard when it is over |

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tutti_shm::phases::Rings;

const THREADS_MAX: usize = 16;
const RINGS_MAX: u32 = 50;
const WINDOW: Duration = Duration::from_millis(2);
/// A bell that nobody wants any more ends so late at most.
const LOOK: Duration = Duration::from_millis(500);
/// Jobs whose ranks do not count their rings are looked at so often.
const LOOK_UNCOUNTED: Duration = Duration::from_millis(5);
const STACK_BYTES: usize = 256 << 10;

/// A job's rings, as the switch thread hears them.
#[derive(Debug)]
pub(super) struct Bell(Arc<Heard>);

#[derive(Debug, Default)]
struct Heard {
    has_rung: AtomicBool,
    /// A process of the job is in a region, or waits at the beginning of one. Written before `has_rung`.
    is_inside: AtomicBool,
    ends: AtomicBool,
}

impl Bell {
    /// Since the last call it has rung, and a process of the job was inside a region by then, or was not.
    pub(super) fn take(&self) -> Option<bool> {
        let has_rung =
            self.0.has_rung.load(Ordering::Relaxed) && self.0.has_rung.swap(false, Ordering::SeqCst);
        has_rung.then(|| self.0.is_inside.load(Ordering::SeqCst))
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.ends.store(true, Ordering::Relaxed);
    }
}

/// Rings of a user's jobs in the current [`WINDOW`].
#[derive(Debug)]
pub(super) struct Window {
    since: Instant,
    rings: u32,
}

impl Window {
    pub(super) fn new() -> Self {
        Window { since: Instant::now(), rings: 0 }
    }

    /// One more; so long it is not to be heard.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.since);
        if passed >= WINDOW {
            *self = Window { since: now, rings: 0 };
        }
        self.rings += 1;
        if self.rings <= RINGS_MAX { Duration::ZERO } else { WINDOW.saturating_sub(passed) }
    }
}

/// The bells of a user's jobs.
#[derive(Clone, Debug)]
pub(super) struct Bells {
    /// Bell of the switch thread.
    waker: Arc<OwnedFd>,
    threads: Arc<AtomicUsize>,
    window: Arc<Mutex<Window>>,
}

impl Bells {
    pub(super) fn new(waker: Arc<OwnedFd>) -> Self {
        Bells { waker, threads: Arc::default(), window: Arc::new(Mutex::new(Window::new())) }
    }

    /// Listens to one more.
    ///
    /// # Errors
    /// When there are too many, or the kernel gives no thread.
    pub(super) fn listen(&self, rings: Rings) -> io::Result<Bell> {
        if self.threads.load(Ordering::Relaxed) >= THREADS_MAX {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let bell = Bell(Arc::default());
        let heard = Arc::clone(&bell.0);
        let all = self.clone();
        let builder = std::thread::Builder::new().name("bell".into()).stack_size(STACK_BYTES);
        self.threads.fetch_add(1, Ordering::Relaxed);
        let thread = builder.spawn(move || {
            // As soon as the switch thread itself would hear it.
            tutti_os::prefer_this_thread();
            all.run(&rings, &heard);
            all.threads.fetch_sub(1, Ordering::Relaxed);
        });
        thread.map(drop).inspect_err(|_| {
            self.threads.fetch_sub(1, Ordering::Relaxed);
        })?;
        Ok(bell)
    }

    fn run(&self, rings: &Rings, bell: &Heard) {
        let mut heard = rings.count();
        while !bell.ends.load(Ordering::Relaxed) {
            let are_counted = rings.are_counted();
            rings.wait(heard, if are_counted { LOOK } else { LOOK_UNCOUNTED });
            let count = rings.count();
            if std::mem::replace(&mut heard, count) == count && are_counted {
                continue;
            }
            let quiet = self.window.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
            if !quiet.is_zero() {
                std::thread::sleep(quiet);
            }
            bell.is_inside.store(rings.is_inside(), Ordering::SeqCst);
            if !bell.has_rung.swap(true, Ordering::SeqCst) {
                // A bell that is full is a bell that rings.
                let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bell_window_bounds_the_rings_of_a_user() {
        let began = Instant::now();
        let mut window = Window { since: began, rings: 0 };
        let heard = (0..1000).filter(|_| window.take(began).is_zero()).count();
        assert_eq!(heard, RINGS_MAX as usize);
        assert_eq!(window.take(began + WINDOW / 2), WINDOW / 2);
        assert!(window.take(began + WINDOW).is_zero());
    }
}
