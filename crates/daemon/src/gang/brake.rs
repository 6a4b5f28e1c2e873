//! How a job is stopped and let go: its cgroups, or signals where there are none. It has one of either on a node, and one for each of
//! its virtual nodes if it was started with some.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use rustix::process::Pid;

use super::freezer::Freezer;
use super::stopper::Stopper;

#[derive(Debug)]
pub(super) enum Brake {
    Cgroups(Vec<Freezer>),
    Signals(Vec<Stopper>),
}

/// The same with all of them, whatever they are.
macro_rules! with {
    ($brake:expr, $iter:ident, $all:ident => $what:expr) => {
        match $brake {
            Brake::Cgroups(all) => {
                #[allow(unused_mut, reason = "some of what is done needs it")]
                let mut $all = all.$iter();
                $what
            }
            Brake::Signals(all) => {
                #[allow(unused_mut, reason = "some of what is done needs it")]
                let mut $all = all.$iter();
                $what
            }
        }
    };
}

impl Brake {
    /// Of a job of this user whose cgroups would be there, and whose ranks on this node are these.
    pub(super) fn of(cgroups: &[PathBuf], ranks: &[u32], user: u32) -> Option<Self> {
        let freezers: Option<Vec<_>> = cgroups.iter().map(|path| Freezer::open(path).ok()).collect();
        if let Some(freezers) = freezers.filter(|freezers| !freezers.is_empty()) {
            return Some(Brake::Cgroups(freezers));
        }
        let mut stoppers: Vec<Stopper> = Vec::new();
        for rank in ranks.iter().filter_map(|pid| Pid::from_raw(*pid as i32)) {
            if let Some(stopper) = Stopper::of_rank(rank, user)
                && stoppers.iter().all(|known| known.starter() != stopper.starter())
            {
                stoppers.push(stopper);
            }
        }
        (!stoppers.is_empty()).then_some(Brake::Signals(stoppers))
    }

    pub(super) fn freeze(&mut self, now_ns: u64) {
        with!(self, iter_mut, all => all.by_ref().for_each(|one| one.freeze(now_ns)));
    }

    pub(super) fn thaw(&mut self) {
        with!(self, iter_mut, all => all.by_ref().for_each(|one| one.thaw()));
    }

    /// It has been told to freeze and has not said that it has.
    pub(super) fn is_freezing(&self) -> bool {
        with!(self, iter, all => all.any(|one| one.is_freezing()))
    }

    /// When it was last told to freeze.
    pub(super) fn asked_ns(&self) -> u64 {
        with!(self, iter, all => all.by_ref().map(|one| one.asked_ns()).max().unwrap_or(0))
    }

    /// When to look again.
    pub(super) fn look_ns(&self) -> u64 {
        let look = |freezing: bool, look_ns| if freezing { look_ns } else { u64::MAX };
        with!(self, iter, all => all.by_ref().map(|one| look(one.is_freezing(), one.look_ns())).min())
            .unwrap_or(u64::MAX)
    }

    /// What tells, late, of a change, if anything does.
    pub(super) fn events(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let freezers = if let Brake::Cgroups(freezers) = self { freezers.as_slice() } else { &[] };
        freezers.iter().filter(|freezer| freezer.is_freezing()).map(Freezer::events)
    }

    /// `true`: all of it has just been found to stand still.
    pub(super) fn try_confirm(&mut self, now_ns: u64) -> bool {
        let news = with!(self, iter_mut, all => all.by_ref().filter_map(|one| one.try_confirm(now_ns).then_some(())).count())
            > 0;
        news && !self.is_freezing()
    }

    /// Whether its processes have slept since the last look; none: it stands still, or there is nothing to compare with.
    pub(super) fn try_activity(&mut self, now_ns: u64) -> Option<bool> {
        with!(self, iter_mut, all => all.try_fold(true, |asleep, one| Some(one.try_activity(now_ns)? && asleep)))
    }
}
