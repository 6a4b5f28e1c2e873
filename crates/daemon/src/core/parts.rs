//! The parts of jobs on this node: one starter each. Orders are carried out as frames of the starter's wire;
//! its reports become the part's state, its output goes to the job's origin.
//!
//! A starter outlives its daemon. The next daemon has what was kept of it (`Parts::restore`), waits for
//! it (`BACK_MS`), and hears all its reports again, and the output that its origin has not acknowledged.
//! Until then the part is neither here nor lost.
//!
//! A job that was started without a daemon (`Launch::enrolled`) has its `mpiexec` in place of the starter:
//! the same frames, but no output. It does not need us: when this daemon ends or loses its part, the wire is
//! closed and the job goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tutti_os::cgroup::Enforced;

use super::action::{Action, Residents};
use super::context::Context;
use super::outbox::{Effect, Outbox};
#[cfg(test)]
use super::outlet::BUFFER_BYTES;
use super::outlet::Outlet;
use crate::gang::Command;
#[cfg(test)]
use crate::message::STATE_BYTES_MAX;
use crate::message::{Hold, JobId, Launch, Order, PartState, Phase, Run, State};
use tutti_protocol::users::FreezeMethod;
use tutti_sched::fill_trial::PutOut;

mod lifecycle;
mod orders;
mod reports;
mod stdio;

pub(super) use reports::drain_own_node;

/// Jobs that have been here and are over, of which this is remembered: nobody starts them again.
const PAST_MAX: usize = 4096;

#[derive(Debug)]
struct Part {
    launch: Arc<Launch>,
    outlet: Outlet,
    state: PartState,
    /// The starter lives, and has not said that nothing is left.
    alive: bool,
    /// Whether the starter is at its wire: not one of an earlier incarnation that we wait for.
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
    /// Numbers of the last order of new ranks that was handed on, and of the last end of one.
    sent_spawn: (u32, u32),
    run: Run,
    /// Told to end since the job has ended itself: filters of dead ranks write what they have.
    spares_filters: bool,
    /// The snapshot for which it was ordered to stand still.
    sent_hold: Option<Hold>,
    /// Whether its mpiexec was told that its ranks wait for each other for ever.
    sent_stuck: bool,
    /// Number of the last hold at which it was told to have terminated.
    sent_terminated: u64,
    /// The size of the terminals that was handed on.
    window: Option<(u16, u16)>,
    /// Number of the last signal that was handed on, and whether the TERM of the job's end was.
    signals: u64,
    sent_term: bool,
    /// Number of the last piece of stdin that came, as far as its starter knows it.
    piece: u64,
    /// Whether that piece has been taken.
    taken: bool,
    unwanted: bool,
    kept: Kept,
}

/// Bytes of a part's state, as of its last report.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    reported: usize,
    all: usize,
}

impl Kept {
    fn of(state: &PartState) -> Self {
        Kept { reported: state.reported_bytes(), all: state.bytes() }
    }

    fn and(self, other: Kept) -> Kept {
        Kept { reported: self.reported + other.reported, all: self.all + other.all }
    }
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
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// All that may come next comes from starters, from ranks or from the controller: no time is waited for.
    pub(super) fn is_settled(&self) -> bool {
        self.parts.values().all(|part| part.outlet.is_empty() && (part.here || !part.alive))
    }
}

impl Part {
    /// Whether all of it is killed, so its output waits for no room.
    fn is_killed(&self) -> bool {
        self.run == Run::Kill && !self.spares_filters
    }

    /// The starter has bound each rank to one core.
    fn is_bound(&self) -> bool {
        self.state.cores.iter().all(|cores| cores.parse::<u32>().is_ok())
    }

    fn new(launch: Arc<Launch>, daemons_before: u64, outlet: Outlet) -> Self {
        Part {
            launch,
            outlet,
            state: PartState::of_version(daemons_before << 32),
            alive: true,
            here: true,
            daemons_before,
            drops: false,
            ready: false,
            sent_peers: false,
            sent_leave: false,
            sent_fence: 0,
            sent_spawn: (0, 0),
            run: Run::Go,
            spares_filters: false,
            sent_hold: None,
            sent_stuck: false,
            sent_terminated: 0,
            window: None,
            signals: 0,
            sent_term: false,
            piece: 0,
            taken: false,
            unwanted: false,
            kept: Kept::default(),
        }
    }

    /// Whether nothing that its starter says counts any more ([`Parts::end_part`]).
    fn is_lost(&self) -> bool {
        self.state.version == u64::MAX
    }
}

impl Parts {
    /// Begins here what the order says about this node, or forgets it.
    pub(super) fn begin(&mut self, cx: Context<'_>, job: JobId, order: &Order) {
        let Some(me) = cx.local.me else { return };
        if order.forget {
            if self.parts.remove(&job).is_some() {
                cx.out.act(Action::End(job));
            }
            self.past.insert(job);
            while self.past.len() > PAST_MAX {
                self.past.pop_first();
            }
            return;
        }
        let Some(launch) = order.launch.clone() else { return };
        let Some(index) = launch.index(me) else { return };
        if self.parts.get(&job).is_none_or(|part| part.state.unbegun.is_some()) {
            self.begin_part(cx, job, launch, index, order);
        }
    }

    /// Carries out here what the order says about this node.
    pub(super) fn carry_out(&mut self, cx: Context<'_>, job: JobId, order: &Order) {
        let Some(launch) = order.launch.as_ref().filter(|_| !order.forget) else { return };
        if cx.local.me.and_then(|me| launch.index(me)).is_none() {
            return;
        }
        // What is kept counts as said to the starter: one that is away hears it when it comes, from this
        // incarnation or from the next.
        if self.parts.get(&job).is_none_or(|part| !part.alive || !part.here) {
            return;
        }
        self.pass_order_on(cx, job, order);
        // After the fact: what is said to a starter twice does less harm than what is never said. A starter
        // that comes back says which signals it has had.
        self.keep(cx, job, order);
    }

    fn publish_part(&mut self, cx: Context<'_>, job: JobId) {
        let (Some(me), Some(part)) = (cx.local.me, self.parts.get_mut(&job)) else { return };
        part.state.version = part.state.version.saturating_add(1);
        cx.out.push(Effect::PartChanged(State { job, node: me, part: part.state.clone() }));
    }

    /// For the switch thread: the ranks of a job run here, or nothing of it is left here.
    fn forward_part(&self, cx: Context<'_>, job: JobId, runs: bool) {
        if !runs {
            return cx.out.act(Action::Gang(Command::PartEnded(job)));
        }
        let (Some(me), Some(part)) = (cx.local.me, self.parts.get(&job)) else { return };
        let launch = &part.launch;
        if !launch.terms.gang {
            return;
        }
        let mut pids = part.state.pids.clone();
        // A starter may say anything; one of several nodes has as many as it was given.
        let most = if launch.enrolled { launch.job.ranks() } else { launch.ranks_on(me) };
        pids.truncate(most as usize);
        let bound = cx.local.has_machine_alone() && part.is_bound();
        let (user, fill) = (launch.user.uid, launch.terms.fill);
        let account = launch.user.account().uid;
        let residents = Residents { number: launch.job.id, user, account, pids, bound, fill };
        cx.out.act(Action::RanksStarted(job, residents));
    }

    /// How its ranks here are held while others have the cores.
    pub(super) fn record_freeze_method(&mut self, cx: Context<'_>, job: JobId, method: FreezeMethod) {
        let Some(part) = self.parts.get_mut(&job) else { return };
        if part.state.held_by.replace(method) != Some(method) {
            self.publish_part(cx, job);
        }
    }

    /// Whether it is put out here, as a filler.
    pub(super) fn record_put_out(&mut self, cx: Context<'_>, job: JobId, put_out: Option<PutOut>) {
        let Some(part) = self.parts.get_mut(&job) else { return };
        if std::mem::replace(&mut part.state.put_out, put_out) != put_out {
            self.publish_part(cx, job);
        }
    }

    /// Which of its limits the kernel sees to.
    pub(super) fn record_enforced(&mut self, job: JobId, enforced: Enforced) {
        // It is said with what the starter says first.
        if let Some(part) = self.parts.get_mut(&job) {
            part.state.enforced = Some(enforced);
        }
    }

    /// We are another node now.
    pub(super) fn drop_all(&mut self, out: &Outbox) {
        for job in std::mem::take(&mut self.parts).into_keys() {
            out.act(Action::End(job));
            out.act(Action::Gang(Command::PartEnded(job)));
        }
    }

    /// Our number is known: so is whose states these are.
    pub(super) fn publish_all(&mut self, cx: Context<'_>) {
        let jobs: Vec<JobId> = self.parts.keys().copied().collect();
        for job in jobs {
            let Some(part) = self.parts.get(&job).filter(|part| part.here || !part.alive) else {
                continue;
            };
            // A starter that came back before we had our number: the switch thread has not been notified of
            // its ranks.
            if part.alive && part.state.phase == Phase::Running {
                self.forward_part(cx, job, true);
            }
            self.publish_part(cx, job);
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
            assert!(record <= 2 * BUFFER_BYTES as u64, "{record} bytes of output are kept");
            let bytes = part.state.bytes();
            assert!(bytes <= STATE_BYTES_MAX, "a state of {bytes} bytes");
        }
    }
}
