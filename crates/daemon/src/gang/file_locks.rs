//! The locks of files that ranks have when their job is to be frozen ([`tutti_shm::report`], locks of files).
//! Who wants the same range, say a job of another row, would wait for their next turn.
//!
//! ```text
//! try_wait: no rank gets a lock from now on -> is one held? no: freeze
//!                                                           yes: try_end_wait, every POLL_NS
//! try_end_wait: none is held, or one for too long: freeze
//! open: before the job goes on
//! ```
//!
//! Words of ranks are brought by the proxy of their user ([`super::proxy`]). A job whose ranks have
//! never opened a file that they may lock is frozen at once, and the first time that one has it is too:
//! nobody knows yet. The others do not wait: who comes is thawed at once, and for this moment shares
//! its cores with a rank that ends its access. Only strict switches wait for it, as they do for each
//! freeze.
//!
//! **Bounds.** What ranks say may be wrong: they have written it themselves. A job is waited for
//! [`BUDGET_NS`] at most, and gets back one part of the time in [`REFILL_PART`]: a rank that never gives its
//! lock back costs others no more than that. If the thread stops right here, the job runs, and gets no lock:
//! its starter opens them when the daemon is gone.

use super::proxy::Told;

/// A call of the kernel moves 4 MiB at most, which takes some milliseconds, and the kernel may give the core
/// to another rank for some more.
const BUDGET_NS: u64 = 10_000_000;
/// Part of the time, one in so many, that a job gets back into its budget.
const REFILL_PART: u64 = 50;
/// Between two looks.
const POLL_NS: u64 = 100_000;

/// A job has not been frozen at once, or has been frozen with a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockWait {
    /// When it was to be frozen.
    pub(super) from_ns: u64,
    /// When it was, or went on.
    pub(super) to_ns: u64,
    /// A rank has kept its lock.
    pub(super) is_kept: bool,
}

/// Locks of a job's ranks on this node.
#[derive(Debug)]
pub(super) struct FileLocks {
    budget_ns: u64,
    /// The budget is as of then.
    budgeted_ns: u64,
    /// When the wait for a lock began, if the job waits.
    since_ns: Option<u64>,
    /// When to look again.
    poll_ns: u64,
    /// Wait of which nobody has been notified yet.
    unreported: Option<LockWait>,
}

impl FileLocks {
    /// Of a job's ranks.
    pub(super) fn new(now_ns: u64) -> Self {
        FileLocks { budget_ns: BUDGET_NS, budgeted_ns: now_ns, since_ns: None, poll_ns: 0, unreported: None }
    }

    /// The job is to be frozen, of which its ranks are told by these pages. `true`: not yet. `false`: the
    /// caller sends what it says next, and with it that no locks are to be had.
    pub(super) fn try_wait(&mut self, now_ns: u64, pages: &[Told]) -> bool {
        pages.iter().for_each(|page| page.close_file_locks(true));
        if !are_held(pages) {
            return false;
        }
        let refill_ns = now_ns.saturating_sub(self.budgeted_ns) / REFILL_PART;
        self.budget_ns = (self.budget_ns + refill_ns).min(BUDGET_NS);
        (self.budgeted_ns, self.since_ns) = (now_ns, Some(now_ns));
        !self.try_end_wait(now_ns, pages)
    }

    /// `true`: the job is to be frozen now. None of its ranks has a lock, or one has kept it for too long.
    pub(super) fn try_end_wait(&mut self, now_ns: u64, pages: &[Told]) -> bool {
        let Some(since_ns) = self.since_ns else { return true };
        let is_kept = are_held(pages);
        if is_kept && now_ns.saturating_sub(since_ns) + POLL_NS < self.budget_ns {
            self.poll_ns = now_ns + POLL_NS;
            return false;
        }
        self.end_wait(now_ns, is_kept);
        true
    }

    /// The job goes on; it may have been about to be frozen. The caller sends it.
    pub(super) fn open(&mut self, now_ns: u64, pages: &[Told]) {
        self.end_wait(now_ns, false);
        pages.iter().for_each(|page| page.close_file_locks(false));
    }

    /// When to look again.
    pub(super) fn poll_ns(&self) -> u64 {
        self.poll_ns
    }

    /// Takes the wait that has ended since the last call.
    pub(super) fn take_wait(&mut self) -> Option<LockWait> {
        self.unreported.take()
    }

    fn end_wait(&mut self, now_ns: u64, is_kept: bool) {
        let Some(from_ns) = self.since_ns.take() else { return };
        self.budget_ns = self.budget_ns.saturating_sub(now_ns.saturating_sub(from_ns));
        self.budgeted_ns = now_ns;
        self.unreported = Some(LockWait { from_ns, to_ns: now_ns, is_kept });
    }
}

/// True if a rank has a lock, or is about to, once it has been told that it gets none.
fn are_held(pages: &[Told]) -> bool {
    let ranks = || pages.iter().filter(|page| page.may_have_file_locks());
    ranks().for_each(Told::send);
    ranks().for_each(Told::wait);
    ranks().any(Told::has_file_locks)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering;

    use tutti_shm::daemon_page::{DaemonPage, Page};
    use tutti_shm::layout::Geometry;
    use tutti_shm::segment::{HeaderPage, Segment};

    use super::*;
    use crate::gang::proxy::Proxy;

    /// Stand-in for a starter, with its segment and its page: this process is one.
    struct Starter {
        segment: Segment,
        page: DaemonPage,
    }

    impl Starter {
        fn new() -> (Self, FileLocks, Vec<Told>) {
            let geometry = Geometry { world_ranks: 2, local_ranks: 2, ..Geometry::default() };
            let starter =
                Starter { segment: Segment::create(geometry).unwrap(), page: DaemonPage::create().unwrap() };
            let user = rustix::process::geteuid().as_raw();
            let ranks = HeaderPage::read(starter.segment.descriptor()).unwrap();
            let page = DaemonPage::adopt(starter.page.descriptor(), user, 0).unwrap();
            let pages = vec![Proxy::inline().told(page, Some(ranks))];
            starter.segment.mapping().announce_file_locks();
            pages[0].send();
            (starter, FileLocks::new(0), pages)
        }

        fn hold(&self, count: u32) {
            self.segment.mapping().file_locks().store(count, Ordering::SeqCst);
        }

        fn is_closed(&self) -> bool {
            let page = self.page.reading_end().unwrap();
            Page::read(page.as_fd()).unwrap().are_file_locks_closed()
        }
    }

    #[test]
    fn file_locks_of_a_frozen_job_are_given_back_first() {
        let (starter, mut locks, pages) = Starter::new();
        assert!(!locks.try_wait(1_000, &pages) && starter.is_closed(), "no rank has one");
        locks.open(2_000, &pages);
        pages[0].send();
        assert!(!starter.is_closed());
        assert_eq!(locks.take_wait(), None);
        starter.hold(2);
        assert!(locks.try_wait(10_000, &pages) && starter.is_closed());
        starter.hold(1);
        assert!(!locks.try_end_wait(200_000, &pages), "one of two is given back");
        assert_eq!(locks.poll_ns(), 200_000 + POLL_NS);
        starter.hold(0);
        assert!(locks.try_end_wait(300_000, &pages));
        let wait = LockWait { from_ns: 10_000, to_ns: 300_000, is_kept: false };
        assert_eq!((locks.take_wait(), locks.take_wait()), (Some(wait), None));
    }

    #[test]
    fn file_locks_of_a_job_that_has_opened_no_file_are_not_looked_at() {
        let geometry = Geometry { world_ranks: 2, local_ranks: 2, ..Geometry::default() };
        let (segment, page) = (Segment::create(geometry).unwrap(), DaemonPage::create().unwrap());
        let user = rustix::process::geteuid().as_raw();
        let teller = DaemonPage::adopt(page.descriptor(), user, 0).unwrap();
        let pages = [Proxy::inline().told(teller, Some(HeaderPage::read(segment.descriptor()).unwrap()))];
        assert!(!FileLocks::new(0).try_wait(1_000, &pages));
        let is_closed = || Page::read(page.descriptor()).unwrap().are_file_locks_closed();
        assert!(!is_closed(), "nothing was sent for it");
        pages[0].send();
        assert!(is_closed(), "it goes with what is sent next");
    }

    #[test]
    fn file_lock_that_is_kept_delays_few_freezes() {
        let (starter, mut locks, pages) = Starter::new();
        starter.hold(u32::MAX);
        let mut now_ns = 0;
        let mut freeze = |turn_ns: u64| {
            let from_ns = now_ns;
            if locks.try_wait(now_ns, &pages) {
                while !locks.try_end_wait(now_ns, &pages) {
                    now_ns = locks.poll_ns();
                }
            }
            let wait = locks.take_wait().unwrap();
            assert_eq!((wait.from_ns, wait.to_ns, wait.is_kept), (from_ns, now_ns, true));
            locks.open(now_ns, &pages);
            pages[0].send();
            now_ns += turn_ns;
            wait.to_ns - wait.from_ns
        };
        assert!(freeze(10_000_000) <= BUDGET_NS);
        let later_ns: u64 = (0..100).map(|_| freeze(10_000_000)).sum();
        assert!(later_ns <= 100 * 10_000_000 / REFILL_PART, "{later_ns} ns");
        freeze(10 * BUDGET_NS * REFILL_PART);
        assert!(freeze(0) > BUDGET_NS - 2 * POLL_NS, "it has got all of it back, and no more");
    }

    #[test]
    fn file_locks_of_a_job_that_goes_on_at_once_are_open() {
        let (starter, mut locks, pages) = Starter::new();
        starter.hold(1);
        assert!(locks.try_wait(0, &pages));
        locks.open(50_000, &pages);
        pages[0].send();
        assert!(!starter.is_closed() && locks.try_end_wait(60_000, &pages));
        assert_eq!(locks.take_wait(), Some(LockWait { from_ns: 0, to_ns: 50_000, is_kept: false }));
    }
}
