//! Deadlock: no rank of the job can ever go on.
//!
//! The starter finds it, as for every job (`tutti_snapshot::deadlock`), and has the lowest rank that has not
//! left say so ([`tutti_shm::report`]). A rank that is being checked writes what it waits for, in the words
//! of the program, before each sleep; so these texts stand there when all sleep.

use std::time::Duration;

use super::inspection::Inspection;
use super::{LAST_CALL, Severity, function, line_up, ranks_text};
use crate::abi::*;
use crate::comm::{CONTEXTS_PER_COMM, Channel};
use crate::request::{Request, RequestKind};
use tutti_runtime::log;
use tutti_runtime::wait::Backoff;
use tutti_runtime::waiting::Idle;
use tutti_shm::endpoint::FINALIZED;
use tutti_shm::report::Report;
use tutti_shm::sync::Ordering;

/// Ranks that looked at a moment sleep again after so long, if there is nothing for them.
const SETTLE: Duration = Duration::from_millis(80);
/// After so long in one wait a line-up is printed as a hint.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pending operations that a rank names.
const OPERATIONS_MAX: usize = 3;

/// A thread has found nothing; before it sleeps the rank's report says for what it waits.
#[cold]
pub fn idle(mut inspection: Inspection<'_>, backoff: Backoff) -> Idle {
    if backoff != Backoff::Sleep {
        return Idle::Usual;
    }
    let text = inspection.waits_text();
    inspection.own_report().write(&text);
    if inspection.own_report().verdict.swap(0, Ordering::Acquire) != 0 {
        inspection.report_deadlock();
    }
    inspection.hint_if_due();
    Idle::Rest(PATIENCE)
}

impl Inspection<'_> {
    fn own_report(&self) -> &Report {
        self.engine.job.report(self.engine.job.rank())
    }

    /// Describes the wait of this rank: "MPI_Recv: for a message from rank 1 with tag 7 on MPI_COMM_WORLD".
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

    fn has_left(&self, rank: usize) -> bool {
        self.engine.job.endpoint(rank).state.load(Ordering::Acquire) == FINALIZED
    }

    fn report_deadlock(&mut self) {
        let line = |rank: usize| match self.has_left(rank) {
            true => (rank, "has left with MPI_Finalize".to_string()),
            false => (rank, format!("waiting in {}", self.engine.job.report(rank).read())),
        };
        let lines: Vec<(usize, String)> = self.engine.job.present_ranks().iter().map(line).collect();
        let text = format!("deadlock: no rank can go on{}", line_up(&lines));
        self.find(Severity::Error, text);
    }

    /// A wait takes long, which may be right: says what the ranks do so far, once a call.
    fn hint_if_due(&mut self) {
        let now_ns = self.engine.job.clock().now().ns;
        let first = self.engine.job.present_ranks().iter().find(|&rank| !self.has_left(rank));
        let is_first = first == Some(self.engine.job.rank());
        let Some(check) = self.check.as_deref_mut() else { return };
        let since_ns = *check.waiting.since.get_or_insert(now_ns);
        let waited = Duration::from_nanos(now_ns.saturating_sub(since_ns));
        if waited < PATIENCE || check.waiting.is_hinted || !is_first {
            return;
        }
        check.waiting.is_hinted = true;
        // Whoever waits sleeps when this is over.
        std::thread::sleep(SETTLE);
        let job = &self.engine.job;
        let me = job.rank();
        let line = |rank: usize| {
            let text = job.report(rank).read();
            let waits = rank == me || job.endpoint(rank).sleeping.load(Ordering::Relaxed) != 0;
            let text = match text.split(':').next().unwrap_or_default() {
                _ if self.has_left(rank) => "has left with MPI_Finalize".into(),
                _ if waits => format!("waiting in {text}"),
                call => format!("not waiting in MPI; {LAST_CALL}{}", call.trim_start_matches(LAST_CALL)),
            };
            (rank, text)
        };
        let lines: Vec<(usize, String)> = job.present_ranks().iter().map(line).collect();
        log::line(format_args!(
            "check: rank {me} has waited for {} s, which may be right; the ranks so far{}",
            PATIENCE.as_secs(),
            line_up(&lines)
        ));
    }
}
