//! Whether the ranks of a job wait for each other for ever: the starter polls from time to time, and reports
//! it once. The job is never killed for it.
//!
//! ```text
//! every half a second: bells of all ranks, all asleep? -> a quarter of a second later, the same?
//!     one node:      -> view -> bells again, the same? -> deadlock()? -> one line, Still(deadlock)
//!                                                                     -> all armed, for whatever comes? -> the ranks are notified
//!                                    (the job is checked, and all are in it -> one rank prints what each waits for)
//!     several nodes: -> Still                                              (the controller takes a snapshot when all nodes have said so)
//!     a bell rung or a function begun or ended since -> Still(none), and a line if one was said
//! ```
//!
//! A function that a signal has started runs while the bells stand still. So what its end leaves behind is
//! another stillness: it is judged at once, however long the job was still before.
//!
//! No rank is frozen for it. A rank that is asleep before and after with the same bell was never woken in
//! between, and one whose signals are the same has run no function, so what is seen is of one moment. Of a
//! job on several nodes no node sees all ranks: that they are stalled is a hint there, and the controller has
//! them frozen.

use super::Starter;
use tutti_protocol::wire::{Report, Stalled};
use tutti_shm::observe::Signals;
use tutti_shm::segment::Segment;
use tutti_snapshot::{DEADLOCK_ENDED, Deadlock, Snapshot, view};

/// Between two looks: each costs a job that runs a few loads, and a core a wake-up.
const POLL_NS: u64 = 500_000_000;
/// Behind a look that has found all ranks asleep for the first time. With the former it is how long a
/// deadlock takes to be named.
const CONFIRM_NS: u64 = 250_000_000;
/// A job that is stalled without a deadlock is judged again at the next poll, two polls later, four, and so
/// on up to so many: threads of a rank may compute, and end.
const CHECKS_MAX: u32 = 240;
/// Lines about this for one job, at most.
const LINES_MAX: usize = 8;

/// View of a rank that sleeps or has left: its bell, and its signals, unless one is about to start a
/// function.
type Rest = (u32, Option<Signals>);

/// Why no rank of a job goes on.
enum Stuck {
    /// Ranks that wait for each other.
    Deadlock(Deadlock),
    /// The job has terminated; what each rank is armed with.
    Terminated(Vec<Option<u32>>),
}

/// Watch over the job's ranks, with what was seen so far.
#[derive(Debug)]
pub(super) struct Watch {
    due_ns: u64,
    /// All ranks when all that have not left were asleep.
    rest: Option<Vec<Rest>>,
    /// The last report.
    stalled: Option<Stalled>,
    /// Looks until the job is judged again, and how many there were before the last time.
    judge_in: u32,
    check_interval: u32,
    /// Lines that were printed.
    lines: usize,
    /// The ranks print it themselves.
    is_announced: bool,
}

impl Watch {
    /// Begins to look.
    pub(super) fn from(now_ns: u64) -> Self {
        Watch {
            due_ns: now_ns + POLL_NS,
            rest: None,
            stalled: None,
            judge_in: 0,
            check_interval: 0,
            lines: 0,
            is_announced: false,
        }
    }

    /// When to look next.
    pub(super) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// The state at this poll: all ranks, if all are at rest; whether that is the same as before.
    fn is_same(&mut self, rest: Option<Vec<Rest>>, now_ns: u64) -> bool {
        let is_same = rest.is_some() && self.rest == rest;
        self.due_ns = now_ns + if rest.is_some() && !is_same { CONFIRM_NS } else { POLL_NS };
        if !is_same {
            (self.rest, self.judge_in, self.check_interval) = (rest, 0, 0);
        }
        is_same
    }

    /// At a look that is the same as before: whether the job is to be judged.
    fn may_judge(&mut self) -> bool {
        if self.judge_in > 0 {
            self.judge_in -= 1;
            return false;
        }
        self.check_interval = (2 * self.check_interval).clamp(1, CHECKS_MAX);
        self.judge_in = self.check_interval - 1;
        true
    }

    fn may_report(&mut self) -> bool {
        self.lines += 1;
        self.lines <= LINES_MAX
    }
}

impl Starter {
    pub(super) fn handle_watch_time(&mut self, now_ns: u64) {
        let Some(watch) = self.watch.as_mut().filter(|watch| now_ns >= watch.due_ns) else { return };
        watch.due_ns = now_ns + POLL_NS;
        self.judge_absent(now_ns);
        let (Some(watch), Some(segment)) = (&mut self.watch, &self.parts.segment) else { return };
        let is_same = watch.is_same(rest(segment), now_ns);
        let (Some(watch), Some(segment)) = (&mut self.watch, &self.parts.segment) else { return };
        if !is_same {
            return self.report_wakeup();
        }
        if watch.stalled.is_some() || self.alone && !watch.may_judge() {
            return;
        }
        let found = match self.judge_alone() {
            Some(Stuck::Terminated(armed)) => return segment.announce_terminated(&armed),
            Some(Stuck::Deadlock(found)) => Some(found),
            None => None,
        };
        self.note_separate();
        if found.as_ref().is_some_and(|found| found.cycle.is_empty())
            && let Some(ended) = self.parts.ranks.handle_wait_for_absent()
        {
            return self.handle_ended(ended);
        }
        if self.leave_to_checker(found.as_ref()) {
            return;
        }
        let cycle = found.as_ref().map_or_else(Vec::new, Deadlock::ranks_of_cycle);
        let deadlock = found.map(|found| found.line());
        let Some(watch) = self.watch.as_mut().filter(|_| !self.alone || deadlock.is_some()) else { return };
        watch.stalled = Some(Stalled { number: now_ns, deadlock: deadlock.clone(), cycle });
        let (reported, line) =
            (watch.stalled.clone(), deadlock.filter(|_| !watch.is_announced && watch.may_report()));
        if let Some(text) = line {
            self.report(&Report::Warning(text));
        }
        self.report(&Report::Stalled(reported));
    }

    fn report_wakeup(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        let Some(reported) = watch.stalled.take() else { return };
        let may_print = reported.deadlock.is_some() && !watch.is_announced && watch.may_report();
        self.report(&Report::Stalled(None));
        if may_print {
            self.report(&Report::Warning(DEADLOCK_ENDED.into()));
        }
    }

    /// Whether the ranks of a job of this node alone wait for ever.
    fn judge_alone(&self) -> Option<Stuck> {
        let segment = self.parts.segment.as_ref().filter(|_| self.alone)?;
        let ranks = segment.present() as usize;
        // Functions that signals start run while the rank's own threads sleep.
        let still = |rank| Some((segment.stillness(rank)?, segment.signals(rank)?));
        let bells = || -> Option<Vec<_>> { (0..ranks).map(still).collect() };
        let (before, armed) = (bells()?, segment.armed());
        let snapshot = Snapshot {
            job: 0,
            command: String::new(),
            ranks: ranks as u64,
            taken_ms: 0,
            room: None,
            nodes: vec![view(segment, 0)],
        };
        let found = snapshot.deadlock().filter(|_| bells() == Some(before))?;
        let has_terminated = tutti_snapshot::has_terminated(&snapshot, &found);
        Some(if has_terminated { Stuck::Terminated(armed) } else { Stuck::Deadlock(found) })
    }

    /// A job that is being checked says by itself that no rank can go on, once: it knows the names of
    /// communicators and types, and may be ended for it. Whether it does.
    fn leave_to_checker(&mut self, found: Option<&Deadlock>) -> bool {
        let (Some(segment), Some(watch), Some(found)) = (&self.parts.segment, &mut self.watch, found) else {
            return false;
        };
        let is_of_all = || segment.remaining().count() == found.ranks.len();
        let is_left = !watch.is_announced && segment.is_checked() && is_of_all();
        if is_left {
            watch.is_announced = true;
            segment.announce_deadlock();
        }
        is_left
    }
}

/// All ranks of the node, if all are at rest. Signals are looked at only then.
fn rest(segment: &Segment) -> Option<Vec<Rest>> {
    let ranks = 0..segment.present() as usize;
    let bells: Option<Vec<u32>> = ranks.map(|rank| segment.rest(rank)).collect();
    let with_signals = |(rank, bell)| (bell, segment.signals(rank));
    bells.map(|bells| bells.into_iter().enumerate().map(with_signals).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The looks, counted from the first, at which a job is judged of which this is seen.
    fn judged(looks: impl Iterator<Item = Option<Vec<Rest>>>) -> Vec<usize> {
        let mut watch = Watch::from(0);
        let is_judged = |look| watch.is_same(look, 0) && watch.may_judge();
        let check_interval: Vec<bool> = looks.map(is_judged).collect();
        check_interval.iter().enumerate().filter(|(_, judged)| **judged).map(|(at, _)| at).collect()
    }

    #[test]
    fn deadlock_search_backs_off_and_restarts_after_progress() {
        let stalled = |bell: u32| Some(vec![(bell, Some(Signals::default())), (3, None)]);
        let expected = [1, 2, 4, 8, 16, 32, 64, 128, 256, 496];
        assert_eq!(judged(std::iter::repeat_n(stalled(1), 600)), expected);
        let moved = std::iter::repeat_n(stalled(1), 100).chain([
            stalled(3),
            stalled(3),
            None,
            stalled(3),
            stalled(3),
        ]);
        assert_eq!(judged(moved), [1, 2, 4, 8, 16, 32, 64, 101, 104]);
        assert_eq!(judged(std::iter::repeat_n(None, 9)), [0; 0]);
    }

    /// The bells stay what they are while a function of a signal runs.
    #[test]
    fn deadlock_search_restarts_when_a_function_of_a_signal_has_ended() {
        let look = |at_rest| Some(vec![(1, Some(Signals { open: 1, at_rest, ..Signals::default() }))]);
        let looks = std::iter::repeat_n(look(0), 100).chain(std::iter::repeat_n(look(1), 3));
        assert_eq!(judged(looks), [1, 2, 4, 8, 16, 32, 64, 101, 102]);
    }
}
