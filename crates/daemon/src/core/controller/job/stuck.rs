//! Jobs whose ranks wait for each other for ever: said once to the user, and in the list for as long as it is
//! so. What else is done its user has chosen (`--on-deadlock`): nothing, or it is suspended or ended. An
//! origin does that itself with a job that it has only enrolled.
//!
//! ```text
//! parts: Still(n) each --all of them--> hold, snapshot without data --deadlock()--> one line; STATE deadlock
//!                                                                  \--terminated-> order.terminated = number of the hold
//!                                                                  \--none-------> again after a while, as long as they are still
//! a part says that its ranks go on --> taken back
//! ```
//!
//! That the parts are still is a hint (`starter/stuck.rs`), by which nobody is disturbed who does
//! anything; the snapshot, of one moment at which all ranks stand, says whether it is a deadlock. The starter
//! of a job on one node has judged by itself, and said so. If a controller dies in between the next one
//! learns the stillness from the parts and judges anew; an origin says the same line only once.

use std::collections::BTreeMap;

use tutti_protocol::batch::{DEADLOCKED, OnDeadlock};
use tutti_protocol::users::SuspendedBy;
use tutti_protocol::wire::{Report, Stalled};
use tutti_snapshot::{DEADLOCK_ENDED, DeadlockNotice};

use super::JobRecord;
use crate::core::clocks::Clocks;
use crate::members::NodeId;
use crate::message::{EndKind, PartState, Run};

/// Deadlock that a starter has found by itself.
fn notice(stalled: &Stalled) -> Option<DeadlockNotice> {
    let line = stalled.deadlock.as_deref()?.into();
    Some(DeadlockNotice { line, cycle: stalled.cycle[..].into() })
}

impl JobRecord {
    /// The parts have said something, or a snapshot has been had. `true`: it has just been suspended for it.
    pub(in crate::core::controller) fn judge_stall(
        &mut self,
        states: Option<&BTreeMap<NodeId, PartState>>,
        (now_ms, now): (u64, Clocks),
    ) -> bool {
        let nodes = self.launch.nodes.clone();
        if self.record_stall(nodes.iter().map(|node| states?.get(node)), now_ms) {
            self.hold(Vec::new(), 0, now_ms, now.wall_ms);
        }
        if let Some(hold) = self.stuck.terminated().filter(|_| self.order.run != Run::Kill) {
            self.order.set_terminated(hold);
        }
        self.report_stall();
        self.act_on_deadlock(now)
    }

    /// Once for each deadlock, what its user has chosen. `true`: it has just been suspended.
    fn act_on_deadlock(&mut self, now: Clocks) -> bool {
        if !self.stuck.poll_deadlock() || self.is_ending() || self.order.run != Run::Go {
            return false;
        }
        match self.launch.batch.on_deadlock {
            OnDeadlock::Report => false,
            OnDeadlock::Suspend => {
                self.report(Report::Warning("the job is suspended (--on-deadlock suspend)".into()));
                self.suspend_by_rule(SuspendedBy::Deadlock, now);
                true
            }
            OnDeadlock::End => {
                self.report(Report::Warning("the job is ended (--on-deadlock end)".into()));
                self.end.mark_by_user();
                let text = "its ranks waited for each other for ever (--on-deadlock end)";
                self.end.record_cause(EndKind::Deadlock, text.into());
                self.end_by(None, DEADLOCKED);
                false
            }
        }
    }

    /// Records what the parts say of it; `true`: a snapshot is wanted.
    fn record_stall<'a>(&mut self, parts: impl Iterator<Item = Option<&'a PartState>>, now_ms: u64) -> bool {
        let judges = self.reported_started && !self.is_ending();
        let all: Option<Vec<_>> = parts.map(|part| part?.stalled.as_ref()).collect();
        let all = all.filter(|_| judges).unwrap_or_default();
        let numbers: Vec<u64> = all.iter().map(|stalled| stalled.number).collect();
        let own = if let [alone] = all[..] { notice(alone) } else { None };
        self.stuck.record(numbers, own);
        let asks = self.stuck.is_due(now_ms) && self.order.run == Run::Go && self.taking.is_none();
        if asks {
            self.stuck.begin();
        }
        asks
    }

    /// The user is told what has changed, unless a starter tells him.
    fn report_stall(&mut self) {
        let line = self.stuck.untold().map(|notice| notice.line.clone());
        if self.launch.enrolled {
            self.order.stuck.clone_from(&line);
        }
        if !self.stuck.poll_untold() || self.is_ending() || !self.stuck.take_line() {
            return;
        }
        self.report(Report::Warning(line.as_deref().unwrap_or(DEADLOCK_ENDED).to_owned()));
    }
}
