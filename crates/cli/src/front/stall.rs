//! Whether the ranks of a job on virtual nodes wait for each other for ever, where no daemon looks: no
//! starter sees all ranks.
//!
//! ```text
//! Stalled of all starters -> Hold n -> Held n of all -> Release n -> Released n of all, each whole -> one line
//!                                                                                   (none: again after a while)
//!                                                                       (terminated: Terminated n)
//! a starter says that its ranks go on --> taken back
//! ```
//!
//! While a daemon has the job (`enrolment.rs`) it judges, by the same rules (`tutti_snapshot::Stall`): then
//! nothing is begun here, and what was begun is given up. If `mpiexec` stops or dies in the middle, the
//! starters let their ranks go on by themselves.

use std::time::{Duration, Instant, SystemTime};

use tutti_protocol::wire::{self, Job, Kind, Stalled};
use tutti_snapshot::{DEADLOCK_ENDED, Snapshot, Stall};

/// A snapshot that takes longer is given up.
const SNAPSHOT_MS: u64 = 5_000;
/// Lines that are said of this, at most.
const LINES_MAX: usize = 8;

/// Actions for the front end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StallAction {
    /// A frame for the starters.
    Put(Kind, Vec<u8>),
    /// A line for the user.
    Print(String),
    /// The ranks wait for each other for ever: what the user wants done then is to be done.
    Deadlock,
}

/// A snapshot that is being taken.
#[derive(Debug)]
struct Taking {
    number: u64,
    since_ms: u64,
    /// View of each node, as JSON.
    seen: Vec<Option<Vec<u8>>>,
    /// All have looked, and were ordered to let their ranks go on.
    is_released: bool,
    /// Whether the ranks of each node stood still until then.
    whole: Vec<Option<bool>>,
}

/// The judge of a job.
#[derive(Debug)]
pub struct StallJudge {
    /// Ranks that the job began with, and the end of their numbers if they may start others.
    ranks: u64,
    room: Option<u64>,
    began: Instant,
    /// The last report of each node.
    stalled: Vec<Option<Stalled>>,
    stall: Stall,
    taking: Option<Taking>,
    /// Number of the last snapshot.
    last_hold: u64,
    /// The user was notified of a deadlock that lasts, and how many lines were said.
    is_told: bool,
    lines: usize,
}

impl StallJudge {
    /// Of a job on so many virtual nodes; none: it has none, and its one starter judges.
    pub fn new(job: &Job, nodes: usize) -> Option<Self> {
        let ranks = job.ranks();
        let room = job.universe.map(u64::from).filter(|universe| *universe > ranks);
        (nodes > 0).then(|| StallJudge {
            ranks,
            room,
            began: Instant::now(),
            stalled: vec![None; nodes],
            stall: Stall::default(),
            taking: None,
            last_hold: 0,
            is_told: false,
            lines: 0,
        })
    }

    /// The ranks of a node are stalled, or no longer.
    pub fn handle_stalled(&mut self, node: usize, stalled: Option<Stalled>) {
        self.stalled[node] = stalled;
    }

    /// A node's frame of a snapshot; whether it is of one of ours.
    pub fn handle_held(&mut self, node: usize, kind: Kind, payload: &[u8]) -> bool {
        let Some((number, rest)) = payload.split_first_chunk::<8>() else { return false };
        let number = u64::from_le_bytes(*number);
        if let Some(taking) = self.taking.as_mut().filter(|taking| taking.number == number) {
            match kind {
                Kind::Held => taking.seen[node] = Some(rest.to_vec()),
                _ => {
                    let is_whole = wire::two_numbers(payload).is_some_and(|(_, whole)| whole == 1);
                    taking.whole[node] = Some(is_whole);
                }
            }
        }
        number <= self.last_hold
    }

    /// When there is something to do although nothing comes. `may_begin`: the job runs, and no daemon has it.
    pub fn wake_at(&self, may_begin: bool) -> Option<Instant> {
        let due_ms = match &self.taking {
            Some(taking) => Some(taking.since_ms + SNAPSHOT_MS),
            None => self.stall.due_ms().filter(|_| may_begin),
        };
        due_ms.map(|due_ms| self.began + Duration::from_millis(due_ms))
    }

    /// A daemon has the job.
    pub fn give_up(&mut self) -> Option<StallAction> {
        let taking = self.taking.take();
        (self.stall, self.is_told) = (Stall::default(), false);
        taking.filter(|taking| !taking.is_released).map(|taking| taking.release())
    }

    /// No daemon has the job, and something has come, or time has passed. Of a job that is ending nothing is
    /// reported: its end says why.
    pub fn handle_time(&mut self, now: Instant, may_begin: bool) -> Vec<StallAction> {
        let now_ms = now.saturating_duration_since(self.began).as_millis() as u64;
        let all: Option<Vec<u64>> =
            self.stalled.iter().map(|stalled| Some(stalled.as_ref()?.number)).collect();
        self.stall.record(all.unwrap_or_default(), None);
        let mut actions = Vec::new();
        if let Some(taking) = &mut self.taking {
            let is_over = taking.whole.iter().all(Option::is_some);
            let is_late = now_ms >= taking.since_ms + SNAPSHOT_MS;
            if !taking.is_released && (is_late || taking.seen.iter().all(Option::is_some)) {
                taking.is_released = true;
                actions.push(taking.release());
            }
            if is_over || is_late {
                let snapshot = taking.snapshot(self.ranks, self.room);
                self.taking = None;
                self.stall.handle_snapshot(snapshot.as_ref(), now_ms);
                if self.stall.has_terminated() {
                    let number = self.last_hold.to_le_bytes().to_vec();
                    actions.push(StallAction::Put(Kind::Terminated, number));
                }
            }
        } else if may_begin && self.stall.is_due(now_ms) {
            actions.push(self.begin(now_ms));
        }
        if may_begin {
            self.report(&mut actions);
        }
        actions
    }

    /// All ranks are to stand still.
    fn begin(&mut self, now_ms: u64) -> StallAction {
        let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        // Above those of a daemon that had the job before, and below those of one that comes: a starter takes
        // no lower number than its last one.
        let number = (since_1970.as_micros() as u64).max(self.last_hold + 1);
        let nodes = self.stalled.len();
        let (seen, whole) = (vec![None; nodes], vec![None; nodes]);
        self.last_hold = number;
        self.taking = Some(Taking { number, since_ms: now_ms, seen, is_released: false, whole });
        self.stall.begin();
        // Without data of messages.
        StallAction::Put(Kind::Hold, [number, 0].map(u64::to_le_bytes).concat())
    }

    /// The user is told what has changed.
    fn report(&mut self, actions: &mut Vec<StallAction>) {
        let notice = self.stall.deadlock();
        if std::mem::replace(&mut self.is_told, notice.is_some()) == notice.is_some() {
            return;
        }
        self.lines += 1;
        if self.lines <= LINES_MAX {
            let line = notice.map_or(DEADLOCK_ENDED, |notice| &notice.line);
            actions.push(StallAction::Print(line.to_owned()));
        }
        if notice.is_some() {
            actions.push(StallAction::Deadlock);
        }
    }
}

impl Taking {
    fn release(&self) -> StallAction {
        StallAction::Put(Kind::Release, [self.number, 0].map(u64::to_le_bytes).concat())
    }

    /// Snapshot of what the nodes have seen; none if a rank has run meanwhile, or one of them says nothing
    /// that can be read.
    fn snapshot(&self, ranks: u64, room: Option<u64>) -> Option<Snapshot> {
        let is_whole = self.whole.iter().all(|whole| *whole == Some(true));
        let views = self.seen.iter().map(|seen| serde_json::from_slice(seen.as_ref()?).ok());
        let nodes = views.collect::<Option<_>>().filter(|_| is_whole)?;
        Some(Snapshot { job: 0, command: String::new(), ranks, taken_ms: 0, room, nodes })
    }
}

#[cfg(test)]
mod tests;
