//! Deadlock: every rank of the job waits, and nothing is on its way that could end a wait.
//!
//! A rank that would sleep says in its report what it waits for, looks once more at everything, counts the
//! look if it found nothing, and sleeps for [`NAP`] at most. The lowest rank that has not left the job
//! compares all reports: if every rank has waited since one moment without moving anything, and each has
//! looked twice since then, the second look began after that moment and would have found whatever was sent
//! before it; and since then nobody has sent anything. So it is true for good (the argument stands in
//! `tutti_shm::report`).
//!
//! Whether anything moved is seen by the positions of this rank's ends of all rings ([`Engine::footprint`]),
//! so nothing is counted on the way of messages.
//!
//! Nothing is said of a job on several nodes, nor of a process with several threads under
//! MPI_THREAD_MULTIPLE, where another thread may be about to send, nor while a rank waits for what is no rank
//! ([`wait_goal::is_outside`]).

use std::time::Duration;

use super::state::{Seen, Waiting};
use super::{LAST_CALL, Severity, function, line_up, ranks_text};
use crate::abi::*;
use crate::comm::{CONTEXTS_PER_COMM, Channel};
use crate::engine::Engine;
use crate::process::Guard;
use crate::request::{Request, RequestKind};
use crate::wait_goal::{self, Goal};
use tutti_runtime::log;
use tutti_runtime::wait::{Backoff, Waiter};
use tutti_runtime::waiting::Idle;
use tutti_shm::endpoint::{ATTACHED, FINALIZED};
use tutti_shm::report::Report;
use tutti_shm::sync::Ordering;

/// A rank that sleeps looks again after so long.
const NAP: Duration = Duration::from_millis(20);
/// After so long in one wait a line-up is printed as a hint.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pending operations that a rank names.
const OPERATIONS_MAX: usize = 3;

/// Nothing to do for now: the last thing before a sleep is a look whether anybody can still go on.
#[cold]
pub fn idle(guard: &mut Guard, goal: Goal<'_>, backoff: Backoff, waiter: &mut Waiter) -> Idle {
    match backoff {
        Backoff::Poll => guard.rank.in_between(core::hint::spin_loop),
        Backoff::Yield => guard.rank.offer_core(),
        Backoff::Sleep if guard.rank.waits.waiting() > 1 => {
            // Another thread waits too and may find what this one waits for.
            guard.rank.in_between(|| std::thread::sleep(Duration::from_millis(1)));
            waiter.reset();
        }
        Backoff::Sleep => return look_before_sleep(guard, goal, waiter),
    }
    Idle::Look
}

/// Looks whether anybody can still go on; if nothing has moved, the thread sleeps for a short time.
fn look_before_sleep(guard: &mut Guard, goal: Goal<'_>, waiter: &mut Waiter) -> Idle {
    guard.engine.publish_all();
    let is_outside = wait_goal::is_outside(guard, goal);
    guard.report_waiting(is_outside);
    if guard.progress(None) {
        waiter.reset();
        return Idle::Look;
    }
    let footprint = guard.engine.footprint();
    if guard.waiting().is_some_and(|waiting| waiting.footprint == Some(footprint)) {
        let looks = &guard.own_report().looks;
        looks.store(looks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        guard.check_deadlock();
    }
    Idle::Rest(NAP)
}

impl Engine {
    /// A number that changes whenever this rank puts something into a ring or takes something out of one.
    fn footprint(&self) -> u64 {
        self.ring_positions().fold(0, |sum, position| sum.wrapping_mul(31).wrapping_add(position))
    }
}

impl Guard {
    fn waiting(&mut self) -> Option<&mut Waiting> {
        self.check.as_mut().map(|check| &mut check.waiting)
    }

    fn own_report(&self) -> &Report {
        self.engine.job.report(self.engine.job.rank())
    }

    /// Publishes what this rank waits for, when it has not since something moved.
    fn report_waiting(&mut self, is_outside: bool) {
        let footprint = self.engine.footprint();
        let now_ns = self.engine.job.clock().now().ns;
        let Some(waiting) = self.waiting() else { return };
        waiting.since.get_or_insert(now_ns);
        if waiting.footprint.replace(footprint) == Some(footprint) {
            return;
        }
        let is_alone = self.thread_level < MPI_THREAD_MULTIPLE || threads_of_process() == 1;
        let text = self.waits_text();
        let report = self.own_report();
        report.blocked.store(0, Ordering::Release);
        report.moves.store(report.moves.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        report.write(&text);
        report.blocked.store(u32::from(is_alone && !is_outside), Ordering::Release);
    }

    /// What this rank waits for: "MPI_Recv: for a message from rank 1 with tag 7 on MPI_COMM_WORLD".
    fn waits_text(&self) -> String {
        let is_pending = |request: &Request| {
            !request.done && matches!(request.kind, RequestKind::Send | RequestKind::Receive)
        };
        let pending = || self.engine.requests.iter().map(|(_, request)| request).filter(|r| is_pending(r));
        let is_users = |request: &&Request| request.context.is_multiple_of(CONTEXTS_PER_COMM);
        let mut parts: Vec<String> =
            pending().filter(is_users).take(OPERATIONS_MAX).map(|request| self.waits_for(request)).collect();
        let more = pending().filter(is_users).count().saturating_sub(OPERATIONS_MAX);
        if more > 0 {
            parts.push(format!("{more} more"));
        }
        let mut absent: Vec<usize> = pending()
            .filter(|r| !is_users(r) && r.kind == RequestKind::Receive && r.peer >= 0)
            .map(|request| request.peer as usize)
            .collect();
        absent.sort_unstable();
        absent.dedup();
        if !absent.is_empty() {
            let context = pending().find(|r| !is_users(r)).map_or(0, |request| request.context);
            let what = match context % CONTEXTS_PER_COMM {
                channel if channel == Channel::Collective as u32 => "in the collective call",
                channel if channel <= Channel::TaggedCreation as u32 => "to make a communicator",
                _ => "with a part of a message",
            };
            parts.push(format!("{} {what} on {}", ranks_text(&absent), self.context_name(context)));
        }
        if parts.is_empty() {
            function().into()
        } else {
            format!("{}: for {}", function(), parts.join(", and "))
        }
    }

    fn waits_for(&self, request: &Request) -> String {
        let comm = self.context_name(request.context);
        let partner = match request.peer {
            MPI_ANY_SOURCE => "any rank".to_string(),
            world => self.rank_name(request.context, world as u32),
        };
        let tag = if request.tag == MPI_ANY_TAG { "any tag".into() } else { format!("tag {}", request.tag) };
        if request.kind == RequestKind::Receive {
            return format!("a message from {partner} with {tag} on {comm}");
        }
        format!("{partner} to receive {} with {tag} on {comm}", request.buffer.describe())
    }

    /// The lowest rank that is left compares the reports of all.
    fn check_deadlock(&mut self) {
        let job = &self.engine.job;
        if !job.is_whole() || (0..job.rank()).any(|rank| !self.has_left(rank)) {
            return;
        }
        // In this order: a rank's looks grow after its moves. What begins a comparison is read the other way
        // round.
        let looks = self.looks_of_all();
        let moves = self.moves_if_blocked();
        let Some(waiting) = self.waiting() else { return };
        let (seen, is_said) = (waiting.seen.take(), waiting.is_said);
        let Some(moves) = moves else {
            self.hint_if_due(&looks);
            return;
        };
        let Some(seen) = seen.filter(|seen| seen.moves == moves) else {
            let looks = self.looks_of_all();
            if let Some(waiting) = self.waiting() {
                waiting.seen = Some(Seen { moves, looks });
            }
            return;
        };
        let has_looked_twice = |rank: usize| looks[rank].wrapping_sub(seen.looks[rank]) >= 2;
        if !is_said && (0..moves.len()).all(|rank| moves[rank].is_none() || has_looked_twice(rank)) {
            if let Some(waiting) = self.waiting() {
                waiting.is_said = true;
            }
            self.report_deadlock();
        } else if let Some(waiting) = self.waiting() {
            waiting.seen = Some(seen);
        }
    }

    fn has_left(&self, rank: usize) -> bool {
        self.engine.job.endpoint(rank).state.load(Ordering::Acquire) == FINALIZED
    }

    fn looks_of_all(&self) -> Vec<u32> {
        let job = &self.engine.job;
        (0..job.ranks()).map(|rank| job.report(rank).looks.load(Ordering::Acquire)).collect()
    }

    /// The moves of all ranks, none for those that have left; nothing when a rank is not blocked.
    fn moves_if_blocked(&self) -> Option<Vec<Option<u32>>> {
        let job = &self.engine.job;
        let one = |rank: usize| {
            if self.has_left(rank) {
                return Some(None);
            }
            let report = job.report(rank);
            let is_attached = job.endpoint(rank).state.load(Ordering::Acquire) == ATTACHED;
            let is_blocked = is_attached && report.blocked.load(Ordering::Acquire) == 1;
            is_blocked.then(|| Some(report.moves.load(Ordering::Acquire)))
        };
        (0..job.ranks()).map(one).collect()
    }

    fn report_deadlock(&mut self) {
        let line = |rank: usize| match self.has_left(rank) {
            true => (rank, "has left with MPI_Finalize".to_string()),
            false => (rank, format!("waiting in {}", self.engine.job.report(rank).read())),
        };
        let lines: Vec<(usize, String)> = (0..self.engine.job.ranks()).map(line).collect();
        let text = format!("deadlock: no rank can go on{}", line_up(&lines));
        self.find(Severity::Error, text);
    }

    /// A wait takes long, which may be right: says what the ranks do so far, once.
    fn hint_if_due(&mut self, before: &[u32]) {
        let now_ns = self.engine.job.clock().now().ns;
        let Some(waiting) = self.waiting() else { return };
        let waited = |since_ns| Duration::from_nanos(now_ns.saturating_sub(since_ns));
        if waiting.is_hinted || waiting.since.is_none_or(|since_ns| waited(since_ns) < PATIENCE) {
            return;
        }
        waiting.is_hinted = true;
        // Whoever waits has looked when this is over.
        std::thread::sleep(4 * NAP);
        let (me, looks) = (self.engine.job.rank(), self.looks_of_all());
        let line = |rank: usize| {
            let text = self.engine.job.report(rank).read();
            let waits = rank == me || looks[rank] != before[rank];
            let text = match text.split(':').next().unwrap_or_default() {
                _ if self.has_left(rank) => "has left with MPI_Finalize".into(),
                _ if waits => format!("waiting in {text}"),
                call => format!("not waiting in MPI; {LAST_CALL}{}", call.trim_start_matches(LAST_CALL)),
            };
            (rank, text)
        };
        let lines: Vec<(usize, String)> = (0..looks.len()).map(line).collect();
        log::line(format_args!(
            "check: rank {me} has waited for {} s, which may be right; the ranks so far{}",
            PATIENCE.as_secs(),
            line_up(&lines)
        ));
    }
}

/// Threads of this process; many when that cannot be seen.
fn threads_of_process() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(usize::MAX, |tasks| tasks.count())
}
