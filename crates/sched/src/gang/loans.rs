//! Loans: a job in its turn whose rank waits for a service of another job lets that job run in its place.
//!
//! ```text
//! asked --lender has its turn, borrower is frozen--> on loan --no longer so, or given up--> asked
//!                Action::Lend(borrower)                      Action::Return(borrower)
//! ```
//!
//! - A loan is a wish that stands until it is given up. Which wishes can be had by now is looked at after
//!   every event; nothing of a loan outlives the turn in which it is had.
//! - The borrower counts as frozen all the time: no report, no row and no account changes by it. The lender's
//!   slice goes on, and is charged to him: the scheduler knows nothing of loans.
//! - A borrower that is to be thawed keeps what it has: [`Action::Thaw`] ends the loan. Whoever else wants
//!   its slots, suspends or kills it gets it back first.
//! - Strict switches, and a node that is alone, lend nothing: there others wait until who leaves is frozen.
//! - Nobody lends what is on loan: a borrower is frozen, so no wish of its own can be had.

use super::{Action, NodeSwitch};
use crate::message::Mode;
use crate::types::JobId;

/// Wishes of a node, at most; more are not heard.
const WISHES_MAX: usize = 64;

/// One job wants another one to run in its turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Wish {
    lender: JobId,
    borrower: JobId,
    /// Processes of the lender that wish it.
    count: u32,
}

/// The wishes of all jobs here.
#[derive(Clone, Debug)]
pub(super) struct Loans {
    wishes: Vec<Wish>,
}

impl Loans {
    pub(super) fn new() -> Self {
        Loans { wishes: Vec::with_capacity(WISHES_MAX) }
    }

    /// Forgets the job, of which nothing is left here.
    pub(super) fn forget(&mut self, job: JobId) {
        self.wishes.retain(|wish| wish.lender != job && wish.borrower != job);
    }

    /// True if the wish is heard, or given up.
    fn set(&mut self, lender: JobId, borrower: JobId, wanted: bool) -> bool {
        let at = self.wishes.iter().position(|wish| (wish.lender, wish.borrower) == (lender, borrower));
        match (at, wanted) {
            (Some(at), true) => self.wishes[at].count += 1,
            (Some(at), false) if self.wishes[at].count > 1 => self.wishes[at].count -= 1,
            (Some(at), false) => drop(self.wishes.remove(at)),
            (None, true) if self.wishes.len() < WISHES_MAX => {
                self.wishes.push(Wish { lender, borrower, count: 1 });
            }
            (None, _) => return false,
        }
        true
    }
}

impl NodeSwitch {
    /// A process of the lender waits for the borrower, or no longer: once for each that does. Both are jobs
    /// of this node. False if it is not heard, since there are too many.
    pub fn handle_wish(&mut self, now_ns: u64, lender: JobId, borrower: JobId, wanted: bool) -> bool {
        let is_sane = lender != borrower && self.find(lender).is_some() && self.find(borrower).is_some();
        let is_heard = (is_sane || !wanted) && self.loans.set(lender, borrower, wanted);
        if is_heard {
            self.apply(now_ns);
        }
        is_heard
    }

    /// The job in whose turn this one runs.
    #[must_use]
    pub fn lender_of(&self, borrower: JobId) -> Option<JobId> {
        self.find(borrower).and_then(|at| self.jobs[at].lender())
    }

    /// Takes back what must not be on loan any more. Comes before anybody is thawed.
    pub(super) fn end_loans(&mut self, now_ns: u64) {
        for at in 0..self.jobs.len() {
            let Some(lender) = self.jobs[at].lender() else { continue };
            let borrower = self.jobs[at].job;
            let is_wished = self.loans.wishes.iter().any(|it| (it.lender, it.borrower) == (lender, borrower));
            // One whose own turn comes is thawed below, and is not stopped for that moment.
            let has_turn = self.wanted(at) && self.may_thaw(at);
            let goes_on = has_turn || is_wished && self.may_lend(lender, at);
            if self.jobs[at].is_dying() {
                // Its end is on its way, and needs it to run.
                self.jobs[at].forget_lender();
            } else if !goes_on {
                self.take_back(now_ns, at);
            }
        }
    }

    fn take_back(&mut self, now_ns: u64, at: usize) {
        self.jobs[at].freeze(now_ns, self.timing.stuck_ns);
        self.actions.push_back(Action::Return(self.jobs[at].job));
    }

    /// Lends what may be lent by now: one at a time for each lender.
    pub(super) fn begin_loans(&mut self) {
        for at in 0..self.loans.wishes.len() {
            let Wish { lender, borrower, .. } = self.loans.wishes[at];
            let Some(taker) = self.find(borrower) else { continue };
            if self.jobs[taker].lender().is_none()
                && !self.wanted(taker)
                && self.jobs.iter().all(|local| local.lender() != Some(lender))
                && self.may_lend(lender, taker)
            {
                self.jobs[taker].begin_loan(lender);
                self.actions.push_back(Action::Lend(borrower));
            }
        }
    }

    /// True if the lender has its turn, and nobody but it has anything of the borrower's slots.
    fn may_lend(&self, lender: JobId, borrower: usize) -> bool {
        let Some(giver) = self.find(lender) else { return false };
        let (from, to) = (&self.jobs[giver], &self.jobs[borrower]);
        let gives = from.is_thawed() && self.wanted(giver);
        let takes = to.is_frozen() && !to.is_suspended() && !to.is_dying() && !to.channels.are_copied();
        let mut others = (0..self.jobs.len()).filter(|other| *other != giver && *other != borrower);
        let is_in_the_way = |other: usize| {
            let local = &self.jobs[other];
            let runs = local.is_thawed() || local.lender().is_some() || self.wanted(other);
            !local.is_dying() && runs && !local.slots.is_disjoint(&to.slots)
        };
        let is_overlapped = self.mode() == Mode::Overlapped && self.alone.is_none();
        is_overlapped && gives && takes && !others.any(is_in_the_way)
    }
}
