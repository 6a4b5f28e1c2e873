//! How a part begins, how it comes back to a daemon that was started anew, and how it is lost.

use std::sync::Arc;

use tutti_protocol::wire::{self, Reattach};

use super::{Part, Parts};
use crate::core::action::Action;
use crate::core::context::Context;
use crate::core::outbox::Effect;
use crate::core::outlet::{FIRST_ROOM_BYTES, Outlet};
use crate::core::record::StarterRecord;
use crate::message::{JobId, Launch, Order, PartState, Phase, Run};

/// The starters of an earlier incarnation have this time to come back.
const BACK_MS: u64 = 10_000;

impl Parts {
    /// A job that is new here. The controller has chosen this daemon for it, or the one before. What that one
    /// has begun has left a file ([`Parts::restore`]); without one the job may begin here, if the
    /// controller says so.
    pub(super) fn begin_part(
        &mut self,
        cx: Context<'_>,
        job: JobId,
        launch: Arc<Launch>,
        index: usize,
        order: &Order,
    ) {
        let (incarnation, daemons_before) =
            order.incarnation(&launch, launch.nodes[index]).unwrap_or_default();
        let is_ours = incarnation == cx.local.config.about.incarnation;
        let was_next = cx.local.config.before == Some(incarnation) && !launch.enrolled;
        let old = self.parts.remove(&job).map_or(0, |part| part.state.version);
        let mut part = Part::new(Arc::clone(&launch), daemons_before, Outlet::new(0, FIRST_ROOM_BYTES));
        if !is_ours {
            // Behind all that the daemon before has said of it, and before all that the next one that begins
            // says.
            part.state.version |= 1 << 31;
        }
        part.state.version = part.state.version.max(old);
        self.parts.insert(job, part);
        if order.peers.is_some() || self.past.contains(&job) || !is_ours && !was_next {
            return self.lose_part(cx, job);
        }
        if launch.enrolled {
            cx.out.push(Effect::Enrol(job));
        } else if order.run != Run::Kill && is_ours {
            let number = Some(job.0);
            let described = wire::Job { number, ..self.describe(cx.local, &launch, index) };
            cx.out.act(Action::Start(job, launch, Box::new(described)));
        } else if let Some(part) = self.parts.get_mut(&job) {
            part.alive = false;
            if order.run == Run::Kill {
                part.state.phase = Phase::Over;
                part.state.written = Some(0);
            } else {
                part.state.unbegun = Some(cx.local.config.about.incarnation);
            }
        }
        self.publish_part(cx, job);
    }

    pub(in crate::core) fn has(&self, job: JobId) -> bool {
        self.parts.contains_key(&job)
    }

    /// For the daemon that follows this one.
    pub(super) fn keep(&mut self, cx: Context<'_>, job: JobId, order: &Order) {
        let (Some(node), Some(part)) = (cx.local.me.or(cx.local.preferred), self.parts.get(&job)) else {
            return;
        };
        if !part.launch.enrolled {
            let record = StarterRecord {
                node,
                order: order.clone(),
                daemons_before: part.daemons_before,
                alive: true,
            };
            cx.out.act(Action::RecordStarter(job, Box::new(record)));
        }
    }

    /// Restores what an earlier incarnation has kept of a starter.
    pub(in crate::core) fn restore(&mut self, cx: Context<'_>, job: JobId, record: StarterRecord) {
        let Some(launch) = record.order.launch.clone() else { return };
        self.back_until_ms = cx.local.now_ms + BACK_MS;
        let mut part = Part::new(launch, record.daemons_before + 1, Outlet::new(0, FIRST_ROOM_BYTES));
        part.here = false;
        part.run = record.order.run;
        (part.sent_fence, part.window) = (record.order.fence.number, record.order.window);
        part.signals = record.order.signals.last().map_or(0, |(number, _)| *number);
        part.sent_term = record.order.clock.term.is_some_and(|term| term <= part.signals);
        self.parts.insert(job, part);
        // No life's states are taken for another's, even if this one ends before it has a number.
        self.keep(cx, job, &record.order);
        cx.out.push(Effect::OrderKnown(job, record.order));
        if !record.alive {
            self.lose_part(cx, job);
        }
    }

    /// A starter of an earlier incarnation, or one that thinks so, is back.
    pub(in crate::core) fn handle_back(
        &mut self,
        cx: Context<'_>,
        job: JobId,
        back: &Reattach,
        order: Option<&Order>,
    ) {
        if self.parts.get(&job).is_none_or(Part::is_lost) {
            // Declared lost, or over everywhere.
            return cx.out.act(Action::End(job));
        }
        let old = self.parts.remove(&job).expect("it is there");
        let daemons_before = old.daemons_before + u64::from(old.here);
        let mut part = Part::new(old.launch, daemons_before, Outlet::new(back.base, FIRST_ROOM_BYTES));
        // It may never have heard what its last daemon said: it is told again unless it is so.
        part.run = if back.told.frozen { Run::Stop } else { Run::Go };
        (part.sent_fence, part.window) = (old.sent_fence, old.window);
        // Its last daemon may have died before it kept that it said so.
        part.signals = old.signals.max(back.told.signals.number);
        part.sent_term = old.sent_term || back.told.signals.term;
        part.sent_peers = back.told.has_peers;
        part.state.suspended = back.told.frozen;
        part.state.enforced = old.state.enforced;
        (part.piece, part.taken) = (u64::from(back.piece), back.taken);
        self.parts.insert(job, part);
        cx.out.act(Action::Listen(job));
        if let Some(order) = order {
            self.keep(cx, job, order);
            self.carry_out(cx, job, order);
        }
    }

    /// Ends a part that was here and is gone, so that nobody can say how it ended.
    fn lose_part(&mut self, cx: Context<'_>, job: JobId) {
        let name = &cx.local.config.about.name;
        self.end_part(
            cx,
            job,
            format!("the ranks on node {name} were lost with its daemon; the job is ended"),
        );
    }

    /// The part is over here, whatever its starter does or says.
    pub(super) fn end_part(&mut self, cx: Context<'_>, job: JobId, text: String) {
        let Some(part) = self.parts.get_mut(&job) else { return };
        part.alive = false;
        part.state = PartState::given_up(text);
        cx.out.act(Action::End(job));
        self.publish_part(cx, job);
    }

    pub(in crate::core) fn tick(&mut self, cx: Context<'_>) {
        self.end_parts_without_controller(cx);
        if cx.local.now_ms < self.back_until_ms {
            return;
        }
        let away = self.parts.iter().filter(|(_, part)| part.alive && !part.here);
        let lost: Vec<JobId> = away.map(|(job, _)| *job).collect();
        lost.into_iter().for_each(|job| self.lose_part(cx, job));
    }

    /// Ranks of several nodes stand still or run as the controller has said last, until there is one again.
    /// When none comes they end, as they do where the node's own daemon is gone: by themselves each node's
    /// would stand frozen, or wait for others that do, for ever.
    fn end_parts_without_controller(&mut self, cx: Context<'_>) {
        let silent_ms = cx.local.controller_silent_ms();
        if silent_ms < cx.local.config.lost_ms + cx.local.config.keep_ms {
            return;
        }
        let waiting = self.parts.iter().filter(|(_, part)| part.alive && part.launch.nodes.len() > 1);
        let waiting: Vec<JobId> = waiting.map(|(job, _)| *job).collect();
        for job in waiting {
            let name = &cx.local.config.about.name;
            let seconds = silent_ms / 1000;
            let text = format!(
                "node {name} has had no message from the controller for {seconds} s; the job is ended"
            );
            cx.out.act(Action::Warn(format!("job {job}: {text}")));
            self.end_part(cx, job, text);
            self.forward_part(cx, job, false);
        }
    }
}
