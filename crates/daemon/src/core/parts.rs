//! The parts of jobs on this node: one starter each. Orders are carried out as frames of the starter's wire;
//! its reports become the part's state, its output goes to the job's origin.
//!
//! A starter outlives its daemon. The next daemon has what was kept of it (`Core::restore_part`), waits for
//! it (`BACK_MS`), and hears all its reports again, and the output that its origin has not acknowledged.
//! Until then the part is neither here nor lost.
//!
//! A job that was started without a daemon (`Launch::enrolled`) has its `mpiexec` in place of the starter:
//! the same frames, but no output. It does not need us: when this daemon ends or loses its part, the wire is
//! closed and the job goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::outlet::Outlet;
use tutti_os::cgroup::Enforced;

use super::{Action, Core};
#[cfg(test)]
use crate::message::STATE_BYTES_MAX;
use crate::message::{Hold, JobId, Launch, Order, PartState, Phase, Run, State};
use tutti_protocol::users::FreezeMethod;

mod lifecycle;
mod orders;
mod reports;
mod stdio;

/// Output that the origin takes of each node before it has said anything.
pub(super) const FIRST_ROOM_BYTES: u64 = 128 << 10;

/// Jobs that have been here and are over, of which this is remembered: nobody starts them again.
const PAST_MAX: usize = 4096;

#[derive(Debug)]
struct Part {
    launch: Arc<Launch>,
    outlet: Outlet,
    state: PartState,
    /// The starter lives, and has not said that nothing is left.
    alive: bool,
    /// It is at its wire: not one of an earlier incarnation that we wait for.
    here: bool,
    /// How many daemons it has had before.
    daemons_before: u64,
    /// Some output of a job that is being killed had no room: what follows is not kept either.
    drops: bool,
    /// The starter waits for its next frames to be asked for.
    ready: bool,
    sent_peers: bool,
    sent_leave: bool,
    /// Number of the last barrier of PMI that was handed on.
    sent_fence: u32,
    run: Run,
    /// The snapshot for which it was told to stand still.
    sent_hold: Option<Hold>,
    /// Whether its mpiexec was told that its ranks wait for each other for ever.
    sent_stuck: bool,
    /// The size of the terminals that was handed on.
    window: Option<(u16, u16)>,
    /// Number of the last signal that was handed on.
    signals: u64,
    /// Number of the last piece of stdin that came, as far as its starter knows it.
    piece: u64,
    /// It has been taken.
    taken: bool,
    unwanted: bool,
}

/// The parts of jobs on this node.
#[derive(Debug, Default)]
pub(super) struct Parts {
    parts: BTreeMap<JobId, Part>,
    past: BTreeSet<JobId>,
    /// Until when starters may come back.
    back_until_ms: u64,
}

impl Parts {
    pub(super) fn launch(&self, job: JobId) -> Option<Arc<Launch>> {
        self.parts.get(&job).map(|part| Arc::clone(&part.launch))
    }

    /// Pids of the ranks here, if they run.
    pub(super) fn pids(&self, job: JobId) -> Vec<u32> {
        self.parts.get(&job).map_or_else(Vec::new, |part| part.state.pids.clone())
    }

    /// The starter has bound each rank to one core.
    pub(super) fn is_bound(&self, job: JobId) -> bool {
        let one_each = |part: &Part| part.state.cores.iter().all(|cores| cores.parse::<u32>().is_ok());
        self.parts.get(&job).is_some_and(one_each)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// All that may come next comes from starters, from ranks or from the controller: no time is waited for.
    pub(super) fn is_settled(&self) -> bool {
        self.parts.values().all(|part| part.outlet.is_empty() && (part.here || !part.alive))
    }
}

impl Part {
    fn new(launch: Arc<Launch>, daemons_before: u64, outlet: Outlet) -> Self {
        Part {
            launch,
            outlet,
            state: PartState { version: daemons_before << 32, ..PartState::default() },
            alive: true,
            here: true,
            daemons_before,
            drops: false,
            ready: false,
            sent_peers: false,
            sent_leave: false,
            sent_fence: 0,
            run: Run::Go,
            sent_hold: None,
            sent_stuck: false,
            window: None,
            signals: 0,
            piece: 0,
            taken: false,
            unwanted: false,
        }
    }

    /// Nothing that its starter says counts any more ([`Core::end_part`]).
    fn is_lost(&self) -> bool {
        self.state.version == u64::MAX
    }
}

impl Core {
    /// What the order says about this node becomes true.
    pub(super) fn carry_out(&mut self, job: JobId, order: &Order) {
        let Some(me) = self.me else { return };
        if order.forget {
            if self.parts.parts.remove(&job).is_some() {
                self.act(Action::End(job));
            }
            self.parts.past.insert(job);
            while self.parts.past.len() > PAST_MAX {
                self.parts.past.pop_first();
            }
            return;
        }
        let Some(launch) = order.launch.clone() else { return };
        let Some(index) = launch.index(me) else { return };
        if self.parts.parts.get(&job).is_none_or(|part| part.state.unbegun.is_some()) {
            self.begin_part(job, Arc::clone(&launch), index, order);
        }
        let Some(part) = self.parts.parts.get_mut(&job).filter(|part| part.alive) else { return };
        // What is kept counts as said to the starter: one that is away hears it when it comes, from this
        // incarnation or from the next.
        if !part.here {
            return;
        }
        self.pass_order_on(job, order);
        // After the fact: what is said to a starter twice does less harm than what is never said.
        self.keep(job, order);
    }

    fn publish_part(&mut self, job: JobId) {
        let (Some(me), Some(part)) = (self.me, self.parts.parts.get_mut(&job)) else { return };
        part.state.version = part.state.version.saturating_add(1);
        self.relay.record_batch(State { job, node: me, part: part.state.clone() });
    }

    /// How its ranks here are held while others have the cores.
    pub(super) fn record_freeze_method(&mut self, job: JobId, method: FreezeMethod) {
        let Some(part) = self.parts.parts.get_mut(&job) else { return };
        if part.state.held_by.replace(method) != Some(method) {
            self.publish_part(job);
        }
    }

    /// Which of its limits the kernel sees to.
    pub(super) fn record_enforced(&mut self, job: JobId, enforced: Enforced) {
        // It is said with what the starter says first.
        if let Some(part) = self.parts.parts.get_mut(&job) {
            part.state.enforced = Some(enforced);
        }
    }

    /// We are another node now.
    pub(super) fn drop_parts(&mut self) {
        for job in std::mem::take(&mut self.parts.parts).into_keys() {
            self.act(Action::End(job));
            self.forward_part(job, false);
        }
        self.relay.clear();
    }

    /// Our number is known: so is whose states these are.
    pub(super) fn publish_all_parts(&mut self) {
        let jobs: Vec<JobId> = self.parts.parts.keys().copied().collect();
        for job in jobs {
            let Some(part) = self.parts.parts.get(&job).filter(|part| part.here || !part.alive) else {
                continue;
            };
            // A starter that came back before we had our number: the switch thread has not been told of its
            // ranks.
            if part.alive && part.state.phase == Phase::Running {
                self.forward_part(job, true);
            }
            self.publish_part(job);
        }
    }
}

#[cfg(test)]
impl Parts {
    pub(super) fn leftovers(&self) -> Vec<String> {
        self.parts.iter().map(|(job, part)| format!("part of job {job}: {:?}", part.state)).collect()
    }

    pub(super) fn check_bounds(&self) {
        for part in self.parts.values() {
            let record = part.outlet.end() - part.outlet.base();
            assert!(record <= 2 * super::outlet::BUFFER_BYTES as u64, "{record} bytes of output are kept");
            let bytes = part.state.bytes();
            assert!(bytes <= STATE_BYTES_MAX, "a state of {bytes} bytes");
        }
    }
}
