//! Mechanism by which the processes of a job are stopped on a node: its cgroups, one for each of its virtual
//! nodes, or signals where there are none ([`super::cgroup_freezer`], [`super::stopper`]).
//!
//! ```text
//! of (ranks) -> Cgroups --the kernel refuses to freeze one: all are thawed--> Signals
//!            -> Signals
//! ```
//!
//! Where signals cannot be sent either the job runs on, and counts as late. The failure is taken once
//! ([`FreezeMechanism::take_failure`]) as long as it stays the same.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::process::Pid;
use tutti_os::stat::owner;
use tutti_protocol::users::FreezeMethod;

use super::cgroup_freezer::{Activity, CgroupFreezer};
use super::command::LocalRanks;
use super::freeze_progress::FreezeProgress;
use super::stopper::Stopper;
use super::worker::Worker;

/// Failure to freeze a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FreezeFailure {
    pub(super) error: Errno,
    /// Whether the job is stopped by signals from now on; else it goes on running.
    pub(super) by_signals: bool,
}

#[derive(Debug)]
enum Freezers {
    Cgroups(Vec<CgroupFreezer>),
    Signals(Vec<Stopper>),
}

/// The same with all of them, whatever they are.
macro_rules! with {
    ($freezers:expr, $iter:ident, $all:ident => $what:expr) => {
        match $freezers {
            Freezers::Cgroups(all) => {
                #[allow(unused_mut, reason = "some of what is done needs it")]
                let mut $all = all.$iter();
                $what
            }
            Freezers::Signals(all) => {
                #[allow(unused_mut, reason = "some of what is done needs it")]
                let mut $all = all.$iter();
                $what
            }
        }
    };
}

/// Mechanism of one job.
#[derive(Debug)]
pub(super) struct FreezeMechanism {
    freezers: Freezers,
    /// Of its ranks, for signals where its cgroup cannot be frozen.
    starters: Vec<u32>,
    worker: Worker,
    user: u32,
    /// The kernel has not frozen it when it was told to.
    refused: Option<Errno>,
    /// The same, until somebody is notified.
    unreported: Option<FreezeFailure>,
}

impl FreezeMechanism {
    /// Mechanism of a job whose ranks on this node are these; none if there is nothing to stop.
    pub(super) fn of(ranks: &LocalRanks, worker: &Worker) -> Option<Self> {
        let LocalRanks { user, groups, pids, starters, .. } = ranks;
        // Which ranks are in which of several nobody has said.
        let rank = pids.first().copied().filter(|_| groups.len() == 1);
        let freezers: Option<Vec<_>> =
            groups.iter().map(|group| CgroupFreezer::open(group, rank).ok()).collect();
        let freezers = match freezers.filter(|freezers| !freezers.is_empty()) {
            Some(freezers) => Freezers::Cgroups(freezers),
            None => Freezers::Signals(stoppers(starters, *user, worker)?),
        };
        let (starters, worker, user) = (starters.clone(), worker.clone(), *user);
        Some(FreezeMechanism { freezers, starters, worker, user, refused: None, unreported: None })
    }

    pub(super) fn method(&self) -> FreezeMethod {
        match self.freezers {
            Freezers::Cgroups(_) => FreezeMethod::Cgroup,
            Freezers::Signals(_) => FreezeMethod::Signals,
        }
    }

    /// Whether the kernel does all of it by itself, and has not refused: who has been ordered to stand still
    /// runs no instruction of its own any more.
    pub(super) fn is_certain(&self) -> bool {
        self.method() == FreezeMethod::Cgroup && self.refused.is_none()
    }

    /// Whether the job has more processes than the switch thread looks at.
    pub(super) fn is_crowd(&self) -> bool {
        if let Freezers::Signals(all) = &self.freezers { all.iter().any(Stopper::is_crowd) } else { false }
    }

    /// Tells all to stand still.
    pub(super) fn freeze(&mut self, now_ns: u64) {
        let refused = match &mut self.freezers {
            Freezers::Cgroups(all) => {
                all.iter_mut().filter_map(|one| one.freeze(now_ns).err()).fold(None, |_, error| Some(error))
            }
            Freezers::Signals(all) => {
                all.iter_mut().for_each(|one| one.freeze(now_ns));
                None
            }
        };
        match refused {
            Some(error) => self.fall_back(now_ns, error),
            None => self.refused = None,
        }
    }

    /// The kernel does not freeze its cgroup: it is stopped by signals. Where these cannot be sent either it
    /// runs on, and counts as late.
    fn fall_back(&mut self, now_ns: u64, error: Errno) {
        let signals = stoppers(&self.starters, self.user, &self.worker);
        let by_signals = signals.is_some();
        if let (Some(mut stoppers), Freezers::Cgroups(freezers)) = (signals, &mut self.freezers) {
            freezers.iter_mut().for_each(|one| one.thaw(now_ns));
            stoppers.iter_mut().for_each(|one| one.freeze(now_ns));
            self.freezers = Freezers::Signals(stoppers);
        }
        // Once as long as nothing changes.
        if self.refused.replace(error) != Some(error) {
            self.unreported = Some(FreezeFailure { error, by_signals });
        }
    }

    /// Takes the failure since the last call.
    pub(super) fn take_failure(&mut self) -> Option<FreezeFailure> {
        self.unreported.take()
    }

    /// Lets all go on.
    pub(super) fn thaw(&mut self, now_ns: u64) {
        with!(&mut self.freezers, iter_mut, all => all.by_ref().for_each(|one| one.thaw(now_ns)));
    }

    /// Stops all inside a turn, or lets them go on; nothing where there is no cgroup.
    pub(super) fn hold(&self, held: bool) {
        if let Freezers::Cgroups(all) = &self.freezers {
            all.iter().for_each(|one| one.hold(held));
        }
    }

    /// Whether all sleep, as far as is known.
    pub(super) fn is_asleep(&self) -> bool {
        with!(&self.freezers, iter, all => all.all(|one| one.is_asleep()))
    }

    /// Whether one has been ordered to stand still and has not said that it does.
    pub(super) fn is_freezing(&self) -> bool {
        with!(&self.freezers, iter, all => all.any(|one| one.progress().is_requested()))
    }

    /// Whether one has been ordered to stand still, and not to go on.
    pub(super) fn is_held(&self) -> bool {
        with!(&self.freezers, iter, all => all.any(|one| one.progress().is_held()))
    }

    /// Whether nobody waits until one stands still.
    pub(super) fn is_deferred(&self) -> bool {
        with!(&self.freezers, iter, all => all.any(|one| one.progress().is_deferred()))
    }

    /// Puts off the look at those that do not stand still yet: they are looked at after so long.
    pub(super) fn defer(&mut self, now_ns: u64, pause_ns: u64) {
        with!(&mut self.freezers, iter_mut, all => {
            let freezing = all.by_ref().filter(|one| one.progress().is_requested());
            freezing.for_each(|one| one.defer(now_ns, pause_ns));
        });
    }

    /// When they were last ordered to stand still.
    pub(super) fn requested_ns(&self) -> u64 {
        with!(&self.freezers, iter, all => {
            all.by_ref().map(|one| one.progress().requested_ns()).max().unwrap_or(0)
        })
    }

    /// When to look again.
    pub(super) fn poll_ns(&self) -> u64 {
        with!(&self.freezers, iter, all => {
            let freezing = all.by_ref().map(|one| one.progress()).filter(|progress| progress.is_requested());
            freezing.map(FreezeProgress::poll_ns).min().unwrap_or(u64::MAX)
        })
    }

    /// Returns the files that tell, late, of a change, if any does.
    pub(super) fn events(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let freezers =
            if let Freezers::Cgroups(freezers) = &self.freezers { freezers.as_slice() } else { &[] };
        freezers.iter().filter_map(CgroupFreezer::events)
    }

    /// `true`: all have been found to stand still, the last of them just now.
    pub(super) fn try_confirm(&mut self, now_ns: u64) -> bool {
        let news = with!(&mut self.freezers, iter_mut, all => {
            all.by_ref().filter_map(|one| one.try_confirm(now_ns).then_some(())).count()
        });
        news > 0 && !self.is_freezing()
    }

    /// Measures the work of all since the last look; none: one stands still, or there is nothing to compare
    /// with.
    pub(super) fn try_activity(&mut self, now_ns: u64) -> Option<Activity> {
        let none = Activity { asleep: true, worked_ns: 0, wanted_ns: 0, passed_ns: 0 };
        with!(&mut self.freezers, iter_mut, all => {
            all.try_fold(none, |sum, one| Some(sum.and(one.try_activity(now_ns)?)))
        })
    }
}

/// Makes the stoppers of all that descends from these processes of a user's; none if nobody is there.
fn stoppers(starters: &[u32], user: u32, worker: &Worker) -> Option<Vec<Stopper>> {
    let starters = starters.iter().filter_map(|starter| Pid::from_raw(*starter as i32));
    let theirs = starters.filter(|starter| owner(*starter) == Some(user));
    let stoppers: Vec<Stopper> = theirs.map(|starter| Stopper::new(starter, user, worker.clone())).collect();
    (!stoppers.is_empty()).then_some(stoppers)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tutti_os::cgroup::JobGroup;
    use tutti_testkit::Scratch;

    use super::*;

    /// A folder that looks like a cgroup, until it is dropped.
    struct Folder(Scratch);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = Scratch::new(name);
            for file in ["cgroup.freeze", "cgroup.events"] {
                std::fs::write(folder.path().join(file), "frozen 0\n").unwrap();
            }
            Folder(folder)
        }

        fn group(&self) -> Arc<JobGroup> {
            Arc::new(JobGroup::new(std::fs::File::open(self.0.path()).unwrap().into()).unwrap())
        }

        fn say_frozen(&self) {
            std::fs::write(self.0.path().join("cgroup.events"), "frozen 1\n").unwrap();
        }

        fn frozen_byte(&self) -> u8 {
            std::fs::read(self.0.path().join("cgroup.freeze")).unwrap()[0]
        }
    }

    fn of(groups: Vec<Arc<JobGroup>>) -> Option<FreezeMechanism> {
        let ranks = LocalRanks { groups, ..LocalRanks::default() };
        FreezeMechanism::of(&ranks, &Worker::start().unwrap().0)
    }

    #[test]
    fn freeze_mechanism_is_confirmed_when_the_last_of_its_cgroups_stands_still() {
        let folders = ["mechanism-one", "mechanism-two"].map(Folder::new);
        let mut mechanism = of(folders.iter().map(Folder::group).collect()).unwrap();
        assert_eq!((mechanism.method(), mechanism.is_held()), (FreezeMethod::Cgroup, false));
        mechanism.freeze(1_000);
        assert!(mechanism.is_certain() && mechanism.is_held() && mechanism.is_freezing());
        assert_eq!(
            (folders.each_ref().map(Folder::frozen_byte), mechanism.requested_ns()),
            ([b'1'; 2], 1_000)
        );
        folders[1].say_frozen();
        assert!(!mechanism.try_confirm(2_000) && mechanism.is_freezing(), "one of two");
        folders[0].say_frozen();
        assert!(mechanism.try_confirm(3_000) && !mechanism.is_freezing() && mechanism.is_held());
        assert!(!mechanism.try_confirm(4_000), "it is said once");
        assert_eq!(mechanism.poll_ns(), u64::MAX, "there is nothing to look for");
        mechanism.thaw(5_000);
        assert_eq!((folders.each_ref().map(Folder::frozen_byte), mechanism.is_held()), ([b'0'; 2], false));
    }

    #[test]
    fn freeze_mechanism_that_is_deferred_rings_no_bell_and_is_looked_at_later() {
        let folder = Folder::new("mechanism-deferred");
        let mut mechanism = of(vec![folder.group()]).unwrap();
        mechanism.freeze(0);
        assert_eq!((mechanism.events().count(), mechanism.is_deferred()), (1, false));
        mechanism.defer(1_000, 7_000_000);
        assert_eq!((mechanism.events().count(), mechanism.is_deferred()), (0, true));
        assert_eq!(mechanism.poll_ns(), 7_001_000);
    }

    #[test]
    fn freeze_mechanism_held_inside_its_turn_is_not_held_outside() {
        let folder = Folder::new("mechanism-inside");
        let mechanism = of(vec![folder.group()]).unwrap();
        mechanism.hold(true);
        assert_eq!((folder.frozen_byte(), mechanism.is_held()), (b'1', false));
        mechanism.hold(false);
        assert_eq!(folder.frozen_byte(), b'0');
    }

    #[test]
    fn freeze_mechanism_of_nothing_is_none() {
        assert!(of(Vec::new()).is_none(), "no cgroup, and no process to send a signal to");
    }
}
