//! Library time: monotonic time without what the job has stood still, so that a
//! silence in which nobody could speak is none.
//!
//! One clock per process, over the daemon page ([`tutti_shm::daemon_page`]); without a page nobody freezes
//! the process, and it is monotonic time.

use std::sync::Arc;

pub use tutti_shm::daemon_page::{Page, Time, Turns};

/// Reads library time. Clones are the same clock.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<Page>>);

impl Clock {
    /// By what the page says.
    pub fn over(page: Option<Page>) -> Self {
        Clock(page.map(Arc::new))
    }

    /// Library time.
    #[inline]
    pub fn now(&self) -> Time {
        match &self.0 {
            Some(page) => page.clock(monotonic_ns),
            None => Time { ns: monotonic_ns(), thaw_count: 0 },
        }
    }

    /// The node's daemon is about to freeze the job: no rank gets a lock of a file.
    pub(crate) fn are_file_locks_closed(&self) -> bool {
        self.0.as_ref().is_some_and(|page| page.are_file_locks_closed())
    }

    /// Turns of this job, as the daemon has told it.
    pub fn turns(&self) -> Turns {
        self.0.as_ref().map_or(Turns::default(), |page| page.turns())
    }
}

/// The kernel's clock, which goes on while the job stands still: that of the board.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is valid for writing; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
