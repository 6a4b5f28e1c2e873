//! How a job is stopped and let go: its cgroups, or signals where there are none. It has one of either on a node, and one for each of
//! its virtual nodes if it was started with some.
//!
//! A job that sleeps everywhere takes nobody's time, and whoever is frozen cannot wake up. So one that sleeps when its turn ends is left
//! as it is, and is said to stand still: it *dozes*. It is looked at every few milliseconds; when it has worked for more than [`GIVEN_NS`] and
//! then more than one part in [`GIVEN_PART`] of the time, it is stopped after all, and gets its turn. So a server that waits for a question
//! answers while another job has the cores.
//!
//! What is done with a job its ranks are told before it is done, on the page that each of its starters has for that.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;
use tutti_os::stat::owner;

use super::errands::Errands;
use super::freezer::{Activity, Freezer};
use super::page::{self, Teller};
use super::stopper::Stopper;
use super::{FreezeMethod, Here, now_ns};

/// So long a job that dozes may work at once.
const GIVEN_NS: u64 = 5_000_000;
/// So long nobody looks whether a job stands still of which it is enough that it was told so. Half of what is said to be too long.
const TRUST_NS: u64 = 500_000_000;
/// The same, where somebody wants to know after all; then twice as long each time.
const HURRY_NS: u64 = 40_000;
/// It gets back one part of the time in so many.
const GIVEN_PART: u64 = 20;
/// So long after it has been told to freeze neighbours are not heard, where the next step waits for it: each would wake the thread up.
const AWAITED_NS: u64 = 1_000_000;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It has hardly worked, and does not now.
    Sleeps,
    Works,
    /// Half of the time or more, or would if there were more cores.
    WorksHard,
}

#[derive(Debug)]
pub(super) struct Brake {
    by: By,
    /// It dozes: so long it may still work, in ns.
    dozes: Option<u64>,
    /// It was told to freeze, and that was enough: see [`Self::try_trust`].
    trusted: bool,
    /// See [`Self::is_fresh`].
    fresh: bool,
    /// The pages of its starters here.
    pages: Vec<Teller>,
    /// Of its ranks, for signals where its cgroup cannot be frozen.
    starters: Vec<u32>,
    errands: Errands,
    user: u32,
    /// The kernel has not frozen it when it was told to.
    refused: Option<Errno>,
    /// The same, until somebody is told.
    news: Option<Trouble>,
}

/// What went wrong when a cgroup was to be frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) error: Errno,
    /// It is stopped by signals from now on; else it goes on running.
    pub(super) by_signals: bool,
}

#[derive(Debug)]
enum By {
    Cgroups(Vec<Freezer>),
    Signals(Vec<Stopper>),
}

/// The same with all of them, whatever they are.
macro_rules! with {
    ($brake:expr, $iter:ident, $all:ident => $what:expr) => {
        match $brake {
            By::Cgroups(all) => {
                #[allow(unused_mut, reason = "some of what is done needs it")]
                let mut $all = all.$iter();
                $what
            }
            By::Signals(all) => {
                #[allow(unused_mut, reason = "some of what is done needs it")]
                let mut $all = all.$iter();
                $what
            }
        }
    };
}

impl Brake {
    /// Of a job whose ranks on this node are these.
    pub(super) fn of(here: &Here, errands: &Errands) -> Option<Self> {
        let Here { user, groups, pids, starters, .. } = here;
        // Which ranks are in which of several nobody has said.
        let rank = pids.first().copied().filter(|_| groups.len() == 1);
        let freezers: Option<Vec<_>> = groups.iter().map(|group| Freezer::open(group, rank).ok()).collect();
        let by = match freezers.filter(|freezers| !freezers.is_empty()) {
            Some(freezers) => By::Cgroups(freezers),
            None => By::Signals(stoppers(starters, *user, errands)?),
        };
        Some(Brake {
            by,
            dozes: None,
            trusted: false,
            fresh: false,
            pages: pages(starters, *user),
            starters: starters.clone(),
            errands: errands.clone(),
            user: *user,
            refused: None,
            news: None,
        })
    }

    pub(super) fn means(&self) -> FreezeMethod {
        match self.by {
            By::Cgroups(_) => FreezeMethod::Cgroup,
            By::Signals(_) => FreezeMethod::Signals,
        }
    }

    /// `true`: it sleeps, and is left as it is until it works.
    pub(super) fn try_doze(&mut self) -> bool {
        let asleep = with!(&self.by, iter, all => all.all(|one| one.is_asleep()));
        self.dozes = asleep.then_some(GIVEN_NS);
        asleep
    }

    /// It is left as it is, since it sleeps.
    pub(super) fn dozes(&self) -> bool {
        self.dozes.is_some()
    }

    pub(super) fn freeze(&mut self, now_ns: u64) {
        (self.dozes, self.trusted, self.fresh) = (None, false, true);
        self.pages.iter_mut().for_each(|page| page.begin(now_ns));
        let refused = match &mut self.by {
            By::Cgroups(all) => {
                all.iter_mut().filter_map(|one| one.freeze(now_ns).err()).fold(None, |_, error| Some(error))
            }
            By::Signals(all) => {
                all.iter_mut().for_each(|one| one.freeze(now_ns));
                None
            }
        };
        match refused {
            Some(error) => self.fall_back(now_ns, error),
            None => self.refused = None,
        }
    }

    /// The kernel does not freeze its cgroup: it is stopped by signals. Where these cannot be sent either it runs on, and counts as late.
    fn fall_back(&mut self, now_ns: u64, error: Errno) {
        let signals = stoppers(&self.starters, self.user, &self.errands);
        let by_signals = signals.is_some();
        if let (Some(mut stoppers), By::Cgroups(freezers)) = (signals, &mut self.by) {
            freezers.iter_mut().for_each(|one| one.thaw(now_ns));
            stoppers.iter_mut().for_each(|one| one.freeze(now_ns));
            self.by = By::Signals(stoppers);
        }
        // Once as long as nothing changes.
        if self.refused.replace(error) != Some(error) {
            self.news = Some(Trouble { error, by_signals });
        }
    }

    /// What went wrong since the last call.
    pub(super) fn take_trouble(&mut self) -> Option<Trouble> {
        self.news.take()
    }

    /// It has just been told to freeze. `true`: nobody has to wait for more: none of its ranks runs an instruction of its own. That it
    /// does stand still is looked for much later, for those who keep the machines.
    pub(super) fn try_trust(&mut self, now_ns: u64) -> bool {
        self.trusted = matches!(self.by, By::Cgroups(_)) && self.refused.is_none();
        if self.trusted {
            self.calm(now_ns, TRUST_NS);
        }
        self.trusted
    }

    /// See [`Self::try_trust`].
    pub(super) fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Somebody wants to know by now whether it stands still.
    pub(super) fn hurry(&mut self, now_ns: u64) {
        self.calm(now_ns, HURRY_NS);
    }

    /// Freezes who dozes, and is said to stand still already: sleepers take 0.2 ms.
    pub(super) fn freeze_blocking(&mut self, now_ns: u64) {
        self.freeze(now_ns);
        for _ in 0..20 {
            if self.try_confirm(now_ns) {
                return;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    pub(super) fn thaw(&mut self) {
        if self.dozes.take().is_some() {
            return;
        }
        let now_ns = now_ns();
        self.trusted = false;
        self.pages.iter_mut().for_each(|page| page.end(now_ns));
        with!(&mut self.by, iter_mut, all => all.by_ref().for_each(|one| one.thaw(now_ns)));
    }

    /// It has more processes than the switch thread looks at: another thread stops it, and lets it go on.
    pub(super) fn is_crowd(&self) -> bool {
        if let By::Signals(all) = &self.by { all.iter().any(Stopper::is_crowd) } else { false }
    }

    /// The switch that it runs in, and when its slice ends; 0: nobody waits for its end.
    pub(super) fn tell(&self, generation: u64, slice_end_ns: u64) {
        self.pages.iter().for_each(|page| page.publish_turns(generation, slice_end_ns));
    }

    /// It has been told to freeze and has not said that it has.
    pub(super) fn is_freezing(&self) -> bool {
        with!(&self.by, iter, all => all.any(|one| one.still().is_asked()))
    }

    /// It has been told to freeze, and not to go on.
    pub(super) fn is_still(&self) -> bool {
        with!(&self.by, iter, all => all.any(|one| one.still().is_still()))
    }

    /// It has just been told to freeze, and the next step waits until it does: at most until then.
    pub(super) fn awaited_until_ns(&self, now_ns: u64) -> Option<u64> {
        let calm = with!(&self.by, iter, all => all.any(|one| one.still().is_calm()));
        let until_ns = self.asked_ns() + AWAITED_NS;
        (self.is_freezing() && !calm && now_ns < until_ns).then_some(until_ns)
    }

    /// Nobody waits until it stands still: it is looked at after so long.
    pub(super) fn calm(&mut self, now_ns: u64, pause_ns: u64) {
        self.fresh = false;
        with!(&mut self.by, iter_mut, all => all.by_ref().filter(|one| one.still().is_asked()).for_each(|one| one.calm(now_ns, pause_ns)));
    }

    /// How long it took from [`Self::freeze`] until now; 0: nobody has looked in time.
    pub(super) fn took_ns(&self, now_ns: u64) -> u64 {
        let calm = with!(&self.by, iter, all => all.any(|one| one.still().is_calm()));
        if calm { 0 } else { now_ns.saturating_sub(self.asked_ns()) }
    }

    /// It has been told to freeze and not been looked at since, and somebody waits for it.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// When it was last told to freeze.
    pub(super) fn asked_ns(&self) -> u64 {
        with!(&self.by, iter, all => all.by_ref().map(|one| one.still().asked_ns()).max().unwrap_or(0))
    }

    /// When to look again.
    pub(super) fn look_ns(&self) -> u64 {
        let look = |freezing: bool, look_ns| if freezing { look_ns } else { u64::MAX };
        with!(&self.by, iter, all => all.by_ref().map(|one| look(one.still().is_asked(), one.still().look_ns())).min())
            .unwrap_or(u64::MAX)
    }

    /// What tells, late, of a change, if anything does.
    pub(super) fn events(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let freezers = if let By::Cgroups(freezers) = &self.by { freezers.as_slice() } else { &[] };
        freezers.iter().filter_map(Freezer::events)
    }

    /// `true`: all of it has just been found to stand still.
    pub(super) fn try_confirm(&mut self, now_ns: u64) -> bool {
        self.fresh = false;
        let news = with!(&mut self.by, iter_mut, all => all.by_ref().filter_map(|one| one.try_confirm(now_ns).then_some(())).count())
            > 0;
        news && !self.is_freezing()
    }

    /// What its processes have done since the last look; none: it stands still, or it is too early. Who dozes sleeps until he has
    /// worked for too long: then he is stopped, and awake.
    pub(super) fn try_doing(&mut self, now_ns: u64) -> Option<Doing> {
        let none = Activity { asleep: true, worked_ns: 0, wanted_ns: 0, passed_ns: 0 };
        let activity = with!(&mut self.by, iter_mut, all => {
            all.try_fold(none, |sum, one| Some(sum.and(one.try_activity(now_ns)?)))
        })?;
        let Activity { asleep, worked_ns, passed_ns, .. } = activity;
        let Some(given_ns) = self.dozes else {
            return Some(match asleep {
                true => Doing::Sleeps,
                false if activity.is_hard() => Doing::WorksHard,
                false => Doing::Works,
            });
        };
        let left_ns = (given_ns + passed_ns / GIVEN_PART).min(GIVEN_NS).checked_sub(worked_ns);
        match left_ns {
            Some(_) => self.dozes = left_ns,
            None => self.freeze(now_ns),
        }
        Some(if left_ns.is_some() { Doing::Sleeps } else { Doing::Works })
    }
}

/// What stops by signals all that descends from these processes of a user's; none if nobody is there.
fn stoppers(starters: &[u32], user: u32, errands: &Errands) -> Option<Vec<Stopper>> {
    let starters = starters.iter().filter_map(|starter| Pid::from_raw(*starter as i32));
    let theirs = starters.filter(|starter| owner(*starter) == Some(user));
    let stoppers: Vec<Stopper> = theirs.map(|starter| Stopper::new(starter, user, errands.clone())).collect();
    (!stoppers.is_empty()).then_some(stoppers)
}

/// The pages of these starters. Without them a job takes its turns all the same, and does not know of them.
fn pages(starters: &[u32], user: u32) -> Vec<Teller> {
    let starters = starters.iter().filter_map(|starter| Pid::from_raw(*starter as i32));
    let now_ns = now_ns();
    starters.filter_map(|starter| page::adopt(starter, user, now_ns)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};
    use std::sync::Arc;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use rustix::process::Signal;
    use tutti_os::cgroup::JobGroup;
    use tutti_os::stat::Stat;

    use super::*;

    /// A folder that looks like a cgroup to which nothing can be written.
    fn refusing(name: &str) -> Arc<JobGroup> {
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        mknodat(CWD, folder.join("cgroup.freeze"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        std::fs::write(folder.join("cgroup.events"), "frozen 0\n").unwrap();
        let group = JobGroup::new(std::fs::File::open(&folder).unwrap().into()).unwrap();
        Arc::new(group)
    }

    fn remove(name: &str) {
        std::fs::remove_dir_all(std::env::temp_dir().join(format!("{name}-{}", std::process::id()))).unwrap();
    }

    /// A shell that has started a rank.
    fn start() -> (Child, Pid) {
        let mut shell = Command::new("sh");
        let mut shell = shell.args(["-c", "sleep 60; true"]).process_group(0).spawn().unwrap();
        loop {
            if let Some(rank) = tutti_os::descendants::all_of(Pid::from_child(&shell)).first() {
                return (shell, *rank);
            }
            assert!(shell.try_wait().unwrap().is_none(), "it lives");
            std::thread::yield_now();
        }
    }

    #[test]
    fn brake_falls_back_to_signals() {
        let group = refusing("tutti-brake-signals");
        let (mut starter, rank) = start();
        let user = rustix::process::geteuid().as_raw();
        let pids = vec![rank.as_raw_nonzero().get() as u32];
        let starters = page::starters_of(&pids, user);
        let here = Here { user, groups: vec![group], pids, starters, bound: false };
        let mut brake = Brake::of(&here, &Errands::start().unwrap().0).unwrap();
        assert_eq!(brake.means(), FreezeMethod::Cgroup);
        brake.freeze(0);
        let trouble = Some(Trouble { error: Errno::SPIPE, by_signals: true });
        assert_eq!(
            (brake.means(), brake.take_trouble(), brake.take_trouble()),
            (FreezeMethod::Signals, trouble, None)
        );
        assert!(!brake.try_trust(0), "that it stands still must be seen");
        while !brake.try_confirm(0) {
            std::thread::yield_now();
        }
        assert!(Stat::of(rank).unwrap().is_stopped());
        brake.thaw();
        while Stat::of(rank).unwrap().is_stopped() {
            std::thread::yield_now();
        }
        rustix::process::kill_process_group(Pid::from_child(&starter), Signal::KILL).unwrap();
        starter.wait().unwrap();
        remove("tutti-brake-signals");
    }

    #[test]
    fn brake_without_any_means_counts_as_late() {
        let group = refusing("tutti-brake-late");
        let here = Here { groups: vec![group], ..Here::default() };
        let mut brake = Brake::of(&here, &Errands::start().unwrap().0).unwrap();
        for _ in 0..2 {
            brake.freeze(0);
            assert!(!brake.try_trust(0) && !brake.try_confirm(1_000) && brake.is_freezing());
            brake.thaw();
        }
        let trouble = Some(Trouble { error: Errno::SPIPE, by_signals: false });
        assert_eq!((brake.take_trouble(), brake.take_trouble()), (trouble, None), "once");
        remove("tutti-brake-late");
    }
}
