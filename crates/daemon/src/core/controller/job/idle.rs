//! Jobs that do no work: their user may have them suspended (`--on-idle suspend=TIME`).
//!
//! A starter reports its part as idle (`starter/idle.rs`); when all parts are, the job is suspended as by its
//! user, once, until one of them works again. An origin does that itself with a job that it has only
//! enrolled.

use std::collections::BTreeMap;

use tutti_protocol::batch::{IDLE_SUSPENDED, OnIdle};
use tutti_protocol::users::SuspendedBy;
use tutti_protocol::wire::Report;

use super::JobRecord;
use crate::core::clocks::Clocks;
use crate::members::NodeId;
use crate::message::{PartState, Run};

impl JobRecord {
    /// The parts have said something. `true`: it has just been suspended for it.
    pub(in crate::core::controller) fn judge_idle(
        &mut self,
        states: Option<&BTreeMap<NodeId, PartState>>,
        now: Clocks,
    ) -> bool {
        let mut nodes = self.launch.nodes.iter();
        let is_idle = self.reported_started
            && nodes.all(|node| states.and_then(|states| states.get(node)).is_some_and(|part| part.idle));
        let is_new = !std::mem::replace(&mut self.idle_acted, is_idle) && is_idle;
        let may_act = !self.is_ending() && self.order.run == Run::Go && !self.launch.enrolled;
        if !is_new || !may_act || self.launch.batch.on_idle == OnIdle::Keep {
            return false;
        }
        self.report(Report::Warning(IDLE_SUSPENDED.into()));
        self.suspend_by_rule(SuspendedBy::Idle, now);
        true
    }
}
