//! Pages from which the ranks of a job on this node read how it stands: their turns, their parallel slots,
//! the board of a node without a daemon.
//!
//! | page | read by | written here |
//! |---|---|---|
//! | turns ([`tutti_shm::daemon_page`]) | ranks, library time | suspensions; all of it where no daemon is left |
//! | parallel slots ([`tutti_shm::phases`]) | ranks that share them | ends of ranks and daemons |
//! | board ([`tutti_shm::board`]) | whoever looks on | the job's own line |
//!
//! [`crate::launch`] makes them before the first fork; [`crate::starter`] says what becomes of the job.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use tutti_protocol::paths;
use tutti_protocol::wire::{Job, SharedSlots};
use tutti_shm::board::{self, Board, JobLine, Node};
use tutti_shm::daemon_page::{DaemonPage, Hold, Page};
use tutti_shm::phases::{self, Agreement, PhasesPage};

use crate::readiness::now_ns;

/// Pages of a job, as far as it has them.
#[derive(Debug, Default)]
pub struct Pages {
    /// The page of its turns, and the same file as the ranks get it.
    turns: Option<(DaemonPage, OwnedFd)>,
    /// The suspension that the page of turns has.
    suspension: Hold,
    /// The page of its phases, if it shares parallel slots.
    phases: Option<PhasesPage>,
    /// Line of the job on a board of its own, for a node without a daemon, and the same file for reading.
    board: Option<(JobLine, OwnedFd)>,
}

/// A page that a job must have and that could not be made.
#[derive(Debug)]
pub(crate) struct PagesError {
    /// Action that failed, behind "cannot".
    pub(crate) action: &'static str,
    pub(crate) source: io::Error,
}

fn failed<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> PagesError {
    move |source| PagesError { action, source: source.into() }
}

impl Pages {
    /// The pages of a job on a node with so many cores.
    ///
    /// # Errors
    /// When there is no memory for one that it must have. A board may be missing.
    pub(crate) fn create(job: &Job, cores: u64) -> Result<Pages, PagesError> {
        let page = DaemonPage::create().map_err(failed("make the page of the job's turns"))?;
        let reading = page.reading_end().map_err(failed("open the page of the job's turns"))?;
        let share = |SharedSlots { lease_ns, yield_min_ns, weight }| {
            PhasesPage::create(Agreement { lease_ns, yield_min_ns, weight })
                .map_err(failed("make the page of the job's phases"))
        };
        let phases = job.shared_slots.map(share).transpose()?;
        let board = board(job, cores);
        Ok(Pages { turns: Some((page, reading)), suspension: Hold::default(), phases, board })
    }

    /// The page of turns for a rank.
    pub(crate) fn turns_end(&self) -> Option<BorrowedFd<'_>> {
        self.turns.as_ref().map(|(_, reading)| reading.as_fd())
    }

    /// Says on them that the job is suspended, or goes on. To be called before the ranks go on.
    pub(crate) fn set_suspended(&mut self, is_suspended: bool) {
        if let Some((page, _)) = &self.turns {
            let update = if is_suspended { Hold::begin } else { Hold::end };
            update(&mut self.suspension, page, now_ns());
        }
        if let Some((line, _)) = &mut self.board {
            if is_suspended { line.freeze(now_ns()) } else { line.thaw(now_ns()) }
        }
    }

    /// Takes back what a daemon that is gone has said of turns and slots.
    pub(crate) fn end_turn(&self) {
        self.turns.iter().for_each(|(page, _)| page.settle(now_ns()));
        self.phases.iter().for_each(PhasesPage::settle);
    }

    /// Time that the job has stood still, without the time since it last began to, in ns.
    pub(crate) fn past_frozen_ns(&self) -> u64 {
        self.turns.as_ref().map_or(0, |(page, _)| page.turns().frozen_ns_total)
    }

    /// Time that the job has stood still until now for any reason, in ns.
    pub(crate) fn frozen_ns(&self) -> u64 {
        let page = self.turns_end().and_then(|end| Page::read(end).ok());
        page.map_or(0, |page| page.frozen_ns(now_ns()))
    }

    /// Whether a rank asks for parallel slots.
    pub(crate) fn has_slot_request(&self) -> bool {
        self.phases.as_ref().is_some_and(PhasesPage::has_request)
    }

    /// Frees what a dead process had of the parallel slots.
    pub(crate) fn end_phases(&self, pid: u32) {
        self.phases.iter().for_each(|page| page.end(pid));
    }

    /// Descriptors that a rank keeps, and where it finds them.
    pub(crate) fn slots(&self) -> Option<([BorrowedFd<'_>; 2], Option<CString>)> {
        let ends = self.phases.as_ref()?.kept();
        let [page, bell] = ends.map(|end| end.as_raw_fd());
        Some((ends, CString::new(format!("{}={page}:{bell}", phases::VARIABLE)).ok()))
    }

    /// Where a rank finds the board.
    pub(crate) fn board_variable(&self, job: &Job) -> Option<CString> {
        let daemon = job
            .daemon
            .as_ref()
            .map(|daemon| OsString::from(&daemon.socket).into())
            // The one that the user has named takes the job in, too.
            .or_else(|| paths::is_named().then(paths::socket))
            .unwrap_or_else(|| paths::of_node().join(paths::SOCKET));
        let mut value = OsString::from(format!("{}=", board::VARIABLE));
        value.push(paths::board(&daemon));
        if let Some((_, file)) = &self.board {
            value.push(format!(":/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
        }
        CString::new(value.into_vec()).ok()
    }
}

/// The board of this job alone, written once: a node with a daemon has a better one.
fn board(job: &Job, cores: u64) -> Option<(JobLine, OwnedFd)> {
    let board = Board::create(board::OF_STARTER, 0).ok()?;
    let reading = board.reading_end().ok()?;
    let (mut nodes, mut jobs) = board.split();
    let (now_ns, node) = (now_ns(), job.node() as usize);
    let line = Node { updated_ns: now_ns, state: board::NODE_UP, cores, jobs: 1, ..Node::default() };
    nodes.write(node, &line);
    nodes.publish(node as u64, node as u64 + 1, now_ns);
    let local = job.local_ranks();
    Some((jobs.begin(job.id, local.end - local.start, now_ns)?, reading))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of turns alone.
    fn pages() -> Pages {
        let page = DaemonPage::create().expect("memory");
        let reading = page.reading_end().expect("it is ours");
        Pages { turns: Some((page, reading)), ..Pages::default() }
    }

    #[test]
    fn pages_count_a_suspension_once_it_is_over() {
        let mut pages = pages();
        assert_eq!((pages.frozen_ns(), pages.past_frozen_ns()), (0, 0));
        pages.set_suspended(true);
        let begun = now_ns();
        while now_ns() < begun + 1_000_000 {
            std::hint::spin_loop();
        }
        assert_eq!(pages.past_frozen_ns(), 0);
        pages.set_suspended(false);
        let suspended = pages.frozen_ns();
        assert!(suspended >= 1_000_000, "{suspended}");
        assert_eq!((pages.frozen_ns(), pages.past_frozen_ns()), (suspended, suspended));
    }

    #[test]
    fn pages_that_are_missing_say_that_nothing_is_suspended() {
        let mut pages = Pages::default();
        pages.set_suspended(true);
        pages.end_turn();
        assert!(pages.turns_end().is_none() && pages.slots().is_none() && !pages.has_slot_request());
        assert_eq!(pages.frozen_ns(), 0);
    }
}
