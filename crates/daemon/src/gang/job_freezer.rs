//! How a job is stopped and let go on a node, by its mechanism ([`super::freeze_mechanism`]), and what it is
//! told of that.
//!
//! A job that sleeps everywhere takes nobody's time, and whoever is frozen cannot wake up. So one that sleeps
//! when its turn ends is left as it is, and is said to stand still: it *dozes*. It is looked at every few
//! milliseconds; when it has worked for more than [`BUDGET_NS`] and then more than one part in
//! [`REFILL_PART`] of the time, it is stopped after all, and gets its turn. So a server that waits for a
//! question answers while another job has the cores. All jobs of a user here that doze have that part
//! together: with a hundred of them each has a hundredth of it.
//!
//! Ranks are notified of each step with their job on the page that each of its starters has for that, by
//! the proxy of its user ([`super::proxy`]): that it goes on before it does, that it stands still as
//! soon as can be.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::cgroup_freezer::Activity;
use super::clock::now_ns;
use super::command::{Filling, LocalRanks};
use super::file_locks::{FileLocks, LockWait};
use super::freeze_mechanism::{FreezeFailure, FreezeMechanism};
use super::freeze_state::FreezeState;
use super::proxy::Told;
use super::worker::Worker;
use tutti_protocol::users::FreezeMethod;
use tutti_shm::board::JobLine;

/// Work that a job that dozes may do at once, in ns.
const BUDGET_NS: u64 = 5_000_000;
/// Time for which nobody looks whether a job stands still of which it is enough that it was told so. Half of
/// what is said to be too long.
const ASSUMED_CHECK_NS: u64 = 500_000_000;
/// The same, where somebody wants to know after all; then twice as long each time.
const EXPEDITED_NS: u64 = 40_000;
/// Part of the time, one in so many, that the jobs of a user that doze get back into their budgets.
const REFILL_PART: u64 = 20;
/// Time after the order to freeze in which neighbours are not heard, where the next step waits for it: each
/// would wake the thread up.
const AWAITED_NS: u64 = 1_000_000;

/// Load of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Hardly any work since the last look, and none now.
    Idle,
    Light,
    /// Half of the time or more, or would if there were more cores.
    Heavy,
}

#[derive(Debug)]
pub(super) struct JobFreezer {
    mechanism: FreezeMechanism,
    state: FreezeState,
    /// The pages of its starters here.
    pages: Vec<Told>,
    file_locks: FileLocks,
    /// The switch and the end of its slice, as its pages have them or will when it goes on.
    turn: Option<(u64, u64)>,
    is_turn_sent: bool,
    /// Whether the job stands still in the middle of its turn.
    is_held_inside: bool,
    /// Line of the job on the board.
    line: Option<JobLine>,
    place: Filling,
    /// Jobs of its user that doze here, itself counted.
    dozing: u64,
}

impl JobFreezer {
    /// Of a job whose ranks on this node are these.
    pub(super) fn of(ranks: &LocalRanks, worker: &Worker) -> Option<Self> {
        Some(JobFreezer {
            mechanism: FreezeMechanism::of(ranks, worker)?,
            state: FreezeState::default(),
            pages: Vec::new(),
            file_locks: FileLocks::new(now_ns()),
            turn: None,
            is_turn_sent: false,
            is_held_inside: false,
            line: None,
            place: ranks.place,
            dozing: 1,
        })
    }

    /// Adopts the pages: the ranks are notified of their turns from now on, and may have locks of files.
    pub(super) fn tell(&mut self, pages: Vec<Told>) {
        let now_ns = now_ns();
        self.file_locks.open(now_ns, &self.pages);
        self.send();
        let is_unlocking = self.state == FreezeState::Unlocking;
        (self.pages, self.file_locks, self.turn) = (pages, FileLocks::new(now_ns), None);
        if is_unlocking {
            self.request_freeze(now_ns);
        } else if self.is_held() || self.is_held_inside {
            // It stands still already.
            let since_ns = if self.is_held() { self.requested_ns() } else { now_ns };
            self.pages.iter_mut().for_each(|page| page.begin(since_ns));
            self.send();
        }
    }

    /// Sends the words on its pages on their way to its ranks.
    fn send(&self) {
        self.pages.iter().for_each(Told::send);
    }

    /// The same, and it is there before anything else is done with it, unless its user keeps us waiting.
    fn send_first(&self) {
        self.send();
        self.pages.iter().for_each(Told::wait);
    }

    /// Shows the job on the board from now on.
    pub(super) fn show(&mut self, line: Option<JobLine>) {
        self.line = line;
    }

    pub(super) fn method(&self) -> FreezeMethod {
        self.mechanism.method()
    }

    /// `true`: it sleeps, and is left as it is until it works.
    pub(super) fn try_exempt(&mut self) -> bool {
        let asleep = self.mechanism.is_asleep();
        if asleep {
            self.state = FreezeState::Exempt { budget_ns: BUDGET_NS };
        }
        asleep
    }

    /// Whether it dozes.
    pub(super) fn is_dozing(&self) -> bool {
        matches!(self.state, FreezeState::Exempt { .. })
    }

    /// Sets how many jobs of its user doze here.
    pub(super) fn set_dozing(&mut self, jobs: u64) {
        self.dozing = jobs.max(1);
    }

    /// Whether the job is left as it is, since it sleeps or fills.
    pub(super) fn is_exempt(&self) -> bool {
        matches!(self.state, FreezeState::Exempt { .. } | FreezeState::Filling)
    }

    /// Whether the job may run beside that one although that one has the slots: it is behind. What it costs
    /// in caches and memory is measured ([`tutti_sched::fill_trial`]).
    pub(super) fn may_fill_beside(&self, other: &JobFreezer) -> bool {
        let is_filler = |place| matches!(place, Filling::Behind | Filling::Unable);
        is_filler(other.place) || other.place == Filling::Before
    }

    /// Whether the job is a filler that the kernel puts behind others.
    pub(super) fn is_behind(&self) -> bool {
        self.place == Filling::Behind && self.method() == FreezeMethod::Cgroup
    }

    /// Whether the job is a filler itself, or fillers can be put behind it.
    pub(super) fn is_before(&self) -> bool {
        self.place != Filling::Beside
    }

    /// Leaves the job as it is: it fills.
    pub(super) fn fill(&mut self) {
        self.state = FreezeState::Filling;
    }

    /// Lets the job run in the turn of another one, whose time it is; who fills anyway goes on.
    pub(super) fn lend(&mut self, since_ns: u64) {
        let before_ns = match self.state {
            FreezeState::Filling | FreezeState::Lent { .. } => return,
            FreezeState::Exempt { budget_ns } => Some(budget_ns),
            _ => None,
        };
        if before_ns.is_none() {
            self.thaw();
        }
        self.state = FreezeState::Lent { since_ns, before_ns };
    }

    /// Ends the loan: that turn is over, or the other job does not wait any more. `true`: it sleeps on
    /// outside its turns, as it did before, where it may.
    pub(super) fn give_back(&mut self, now_ns: u64, may_exempt: bool) -> bool {
        let FreezeState::Lent { before_ns, .. } = self.state else { return self.is_exempt() };
        // What it has worked by now others have paid.
        let _ = self.try_load(now_ns);
        match before_ns.filter(|_| may_exempt) {
            Some(budget_ns) => self.state = FreezeState::Exempt { budget_ns },
            None => self.freeze(now_ns),
        }
        self.is_exempt()
    }

    /// Since when it runs in the turn of another job.
    pub(super) fn lent_since_ns(&self) -> Option<u64> {
        if let FreezeState::Lent { since_ns, .. } = self.state { Some(since_ns) } else { None }
    }

    /// Whether the job runs beside those who have its slots.
    pub(super) fn is_filling(&self) -> bool {
        self.state == FreezeState::Filling
    }

    /// Tells it to stand still, as soon as no rank has a lock of a file, or one keeps it for too long.
    pub(super) fn freeze(&mut self, now_ns: u64) {
        // Who stands still already gives nothing back.
        let may_wait = !self.is_held_inside;
        if may_wait && self.state != FreezeState::Unlocking && self.file_locks.try_wait(now_ns, &self.pages) {
            self.state = FreezeState::Unlocking;
        }
        if self.state != FreezeState::Unlocking {
            self.request_freeze(now_ns);
        }
    }

    fn request_freeze(&mut self, now_ns: u64) {
        self.state = FreezeState::Requested { is_unchecked: true };
        self.pages.iter_mut().for_each(|page| page.begin(now_ns));
        self.send();
        self.line.iter_mut().for_each(|line| line.freeze(now_ns));
        self.mechanism.freeze(now_ns);
    }

    /// Takes the failure since the last call.
    pub(super) fn take_failure(&mut self) -> Option<FreezeFailure> {
        self.mechanism.take_failure()
    }

    /// How long it was not frozen because of a lock of a file, or that it was with one, since the last call.
    pub(super) fn take_lock_wait(&mut self) -> Option<LockWait> {
        self.file_locks.take_wait()
    }

    /// Assumes that the job, which has just been ordered to freeze, does. `true`: nobody has to wait for
    /// more: none of its ranks runs an instruction of its own. That it does stand still is looked for much
    /// later, for those who keep the machines.
    pub(super) fn try_assume(&mut self, now_ns: u64) -> bool {
        let is_enough = self.mechanism.is_certain();
        if is_enough {
            self.state = FreezeState::Assumed;
            self.defer(now_ns, ASSUMED_CHECK_NS);
        }
        is_enough
    }

    /// See [`Self::try_assume`].
    pub(super) fn is_assumed(&self) -> bool {
        self.state == FreezeState::Assumed
    }

    /// Whether it is time to see if the job is frozen.
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        match self.state {
            FreezeState::Assumed => now_ns >= self.poll_ns(),
            // Processes that a job starts behind our back are stopped again (`Stopper::try_confirm`).
            FreezeState::Requested { .. } | FreezeState::Confirmed | FreezeState::Unlocking => true,
            FreezeState::Running
            | FreezeState::Exempt { .. }
            | FreezeState::Filling
            | FreezeState::Lent { .. } => false,
        }
    }

    /// Somebody wants to know by now whether it stands still.
    pub(super) fn expedite(&mut self, now_ns: u64) {
        self.defer(now_ns, EXPEDITED_NS);
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
        let before = std::mem::take(&mut self.state);
        if let FreezeState::Exempt { .. } | FreezeState::Filling | FreezeState::Lent { .. } = before {
            return;
        }
        let now_ns = now_ns();
        self.file_locks.open(now_ns, &self.pages);
        self.is_held_inside = false;
        self.is_turn_sent = true;
        if before == FreezeState::Unlocking {
            return self.send();
        }
        self.pages.iter_mut().for_each(|page| page.end(now_ns));
        self.send_first();
        self.line.iter_mut().for_each(|line| line.thaw(now_ns));
        self.mechanism.thaw(now_ns);
    }

    /// Stops the job in the middle of its turn, or lets it go on: its parallel slots are another's. False
    /// where there is no cgroup.
    pub(super) fn hold(&mut self, now_ns: u64, held: bool) -> bool {
        if self.method() != FreezeMethod::Cgroup {
            return false;
        }
        match held {
            true => self.pages.iter_mut().for_each(|page| page.begin(now_ns)),
            false => self.pages.iter_mut().for_each(|page| page.end(now_ns)),
        }
        self.send_first();
        self.mechanism.hold(held);
        self.is_held_inside = held;
        true
    }

    /// Whether the job has more processes than the switch thread looks at: another thread stops it, and lets
    /// it go on.
    pub(super) fn is_crowd(&self) -> bool {
        self.mechanism.is_crowd()
    }

    /// The switch that it runs in, and when its slice ends; 0: nobody waits for its end.
    pub(super) fn publish_turn(&mut self, generation: u64, slice_end_ns: u64) {
        let turn = Some((generation, slice_end_ns));
        // Mostly it was said before the thaw: nobody is woken up for it again.
        if self.turn != turn || !self.is_turn_sent {
            self.pages.iter_mut().for_each(|page| page.publish_turns(generation, slice_end_ns));
            // Who stands still is told when it goes on.
            (self.turn, self.is_turn_sent) = (turn, !self.is_held());
            if self.is_turn_sent {
                self.send();
            }
        }
        self.line.iter_mut().for_each(|line| line.publish_turn(generation, slice_end_ns, now_ns()));
    }

    /// Whether the job has been ordered to freeze and has not said that it has.
    pub(super) fn is_freezing(&self) -> bool {
        self.state == FreezeState::Unlocking || self.mechanism.is_freezing()
    }

    /// Whether the job has been ordered to freeze, and not to go on.
    pub(super) fn is_held(&self) -> bool {
        self.mechanism.is_held()
    }

    /// Latest end of the next step's wait for the job, if it has just been ordered to freeze.
    pub(super) fn awaited_until_ns(&self, now_ns: u64) -> Option<u64> {
        if self.state == FreezeState::Unlocking {
            return None;
        }
        let until_ns = self.requested_ns() + AWAITED_NS;
        (self.is_freezing() && !self.mechanism.is_deferred() && now_ns < until_ns).then_some(until_ns)
    }

    /// Puts off the look, since nobody waits until the job stands still: it is looked at after so long.
    pub(super) fn defer(&mut self, now_ns: u64, pause_ns: u64) {
        self.state.check();
        self.mechanism.defer(now_ns, pause_ns);
    }

    /// How long it took from [`Self::freeze`] until now; 0: nobody has looked in time.
    pub(super) fn took_ns(&self, now_ns: u64) -> u64 {
        if self.mechanism.is_deferred() { 0 } else { now_ns.saturating_sub(self.requested_ns()) }
    }

    /// Whether the job has been ordered to freeze and not been looked at since, and somebody waits for it.
    pub(super) fn is_unchecked(&self) -> bool {
        self.state == FreezeState::Requested { is_unchecked: true }
    }

    /// When it was last ordered to freeze.
    pub(super) fn requested_ns(&self) -> u64 {
        self.mechanism.requested_ns()
    }

    /// When to look again.
    pub(super) fn poll_ns(&self) -> u64 {
        if self.state == FreezeState::Unlocking {
            return self.file_locks.poll_ns();
        }
        self.mechanism.poll_ns()
    }

    /// Returns the files that tell, late, of a change, if any does.
    pub(super) fn events(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.mechanism.events()
    }

    /// `true`: all of it has just been found to stand still.
    pub(super) fn try_confirm(&mut self, now_ns: u64) -> bool {
        if self.state == FreezeState::Unlocking {
            if self.file_locks.try_end_wait(now_ns, &self.pages) {
                self.request_freeze(now_ns);
            }
            return false;
        }
        self.state.check();
        let is_frozen = self.mechanism.try_confirm(now_ns);
        if is_frozen {
            self.state = FreezeState::Confirmed;
        }
        is_frozen
    }

    /// Measures the load of the job since the last look; none: it stands still, or it is too early. Who dozes
    /// sleeps until he has worked for too long: then he is stopped, and awake.
    pub(super) fn try_load(&mut self, now_ns: u64) -> Option<Load> {
        let activity = self.mechanism.try_activity(now_ns)?;
        let Activity { asleep, worked_ns, passed_ns, .. } = activity;
        let FreezeState::Exempt { budget_ns } = self.state else {
            return Some(match asleep {
                true => Load::Idle,
                false if activity.is_hard() => Load::Heavy,
                false => Load::Light,
            });
        };
        let left_ns = rest_ns(budget_ns, (worked_ns, passed_ns), self.dozing);
        match left_ns {
            Some(budget_ns) => self.state = FreezeState::Exempt { budget_ns },
            None => self.freeze(now_ns),
        }
        Some(if left_ns.is_some() { Load::Idle } else { Load::Light })
    }
}

/// The rest of the budget of a job that dozes when it has worked for so long in so much time, beside others
/// of its user; none: it has used it up.
fn rest_ns(budget_ns: u64, (worked_ns, passed_ns): (u64, u64), dozing: u64) -> Option<u64> {
    (budget_ns + passed_ns / (REFILL_PART * dozing)).min(BUDGET_NS).checked_sub(worked_ns)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};
    use std::sync::Arc;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use rustix::io::Errno;
    use rustix::process::{Pid, Signal};
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
    fn job_freezer_falls_back_to_signals() {
        let group = refusing("tutti-brake-signals");
        let (mut starter, rank) = start();
        let user = rustix::process::geteuid().as_raw();
        let pids = vec![rank.as_raw_nonzero().get() as u32];
        let starters = vec![starter.id()];
        let ranks = LocalRanks { user, groups: vec![group], pids, starters, ..LocalRanks::default() };
        let mut freezer = JobFreezer::of(&ranks, &Worker::start().unwrap().0).unwrap();
        assert_eq!(freezer.method(), FreezeMethod::Cgroup);
        freezer.freeze(0);
        let failure = Some(FreezeFailure { error: Errno::SPIPE, by_signals: true });
        assert_eq!(
            (freezer.method(), freezer.take_failure(), freezer.take_failure()),
            (FreezeMethod::Signals, failure, None)
        );
        assert!(!freezer.try_assume(0), "that it stands still must be seen");
        while !freezer.try_confirm(0) {
            std::thread::yield_now();
        }
        assert!(Stat::of(rank).unwrap().is_stopped());
        freezer.thaw();
        while Stat::of(rank).unwrap().is_stopped() {
            std::thread::yield_now();
        }
        rustix::process::kill_process_group(Pid::from_child(&starter), Signal::KILL).unwrap();
        starter.wait().unwrap();
        remove("tutti-brake-signals");
    }

    /// A hundred jobs of a user that work for 4 % of the time each, outside of their turns.
    #[test]
    fn job_freezer_budget_of_dozing_jobs_is_their_users() {
        let most_ns = |dozing: u64| {
            let (mut budget_ns, mut worked_ns, mut looks) = (BUDGET_NS, 0, 0);
            while let Some(left_ns) = rest_ns(budget_ns, (400_000, 10_000_000), dozing) {
                (budget_ns, worked_ns, looks) = (left_ns, worked_ns + 400_000, looks + 1);
                if looks == 10_000 {
                    return None;
                }
            }
            Some(worked_ns)
        };
        assert_eq!(most_ns(1), None, "one alone is never stopped");
        assert!(most_ns(100).is_some_and(|worked_ns| worked_ns <= BUDGET_NS + BUDGET_NS / 20));
    }

    #[test]
    fn job_freezer_without_any_method_counts_as_late() {
        let group = refusing("tutti-brake-late");
        let ranks = LocalRanks { groups: vec![group], ..LocalRanks::default() };
        let mut freezer = JobFreezer::of(&ranks, &Worker::start().unwrap().0).unwrap();
        for _ in 0..2 {
            freezer.freeze(0);
            assert!(!freezer.try_assume(0) && !freezer.try_confirm(1_000) && freezer.is_freezing());
            freezer.thaw();
        }
        let failure = Some(FreezeFailure { error: Errno::SPIPE, by_signals: false });
        assert_eq!((freezer.take_failure(), freezer.take_failure()), (failure, None), "once");
        remove("tutti-brake-late");
    }
}
