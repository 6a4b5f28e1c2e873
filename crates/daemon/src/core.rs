//! Decisions of a daemon, without sockets, processes or a clock: [`Core::handle`] takes what happened and
//! when, and gives what is to be done. `crate::shell` does it; a simulator can do as if.
//!
//! | part | on | what it holds |
//! |---|---|---|
//! | [`links`] | every node | connections to the parent and the children, who is heard of |
//! | [`relay`] | every node | orders on their way down, states on their way up, merged |
//! | [`parts`] | nodes of a job | its starter, and output that its origin does not have yet |
//! | [`origin`] | the node where a job was submitted | its front end, its output, questions of users |
//! | [`board`] | every node | how loaded all nodes are |
//! | [`tunnel`] | any node | users of other nodes at the origin of a job |
//! | [`regions`] | any node | clients of published regions of other nodes, until they are let in |
//! | [`services`] | any node | lists of all services of the cluster |
//! | [`ledger`] | every node | what each user costs the daemon, and whom it serves next |
//! | [`controller`] | node 0 | the jobs: where they run, how far they are, what is to be with them |
//!
//! Writers: an [`Order`](crate::message::Order) is changed by the controller alone, a
//! [`PartState`](crate::message::PartState) by its node alone; everybody else has a copy. If a daemon stops
//! right here, copies are sent again when a link comes up. Its starters live on; the daemon that is started
//! in its place finds what it has kept of them ([`record::StarterRecord`]), and they come back to it.
//!
//! No part knows another: each takes events and gives what follows from them into an [`Outbox`], and
//! [`Core`] hands it on ([`Core::call`]). What follows from an effect comes before the effects behind it.

use std::collections::VecDeque;

use tutti_protocol::public::PublicRow;

use crate::ids::ClientId;
use crate::members::NodeId;

pub mod action;
pub mod board;
pub mod clocks;
pub mod config;
pub mod configuration;
mod context;
mod controller;
pub mod event;
mod fair;
mod gangs;
pub mod job_event;
pub mod journal;
pub mod ledger;
mod links;
mod local;
mod numbers;
mod origin;
mod outbox;
mod outlet;
mod parts;
pub mod record;
mod regions;
mod relay;
mod routing;
mod services;
#[cfg(test)]
pub(crate) mod sim;
mod tunnel;

use action::Action;
use board::BoardLines;
use clocks::Clocks;
use config::{Config, TICK_MS};
use configuration::Kept;
use context::Context;
use controller::Controller;
use event::Event;
use gangs::Gangs;
use links::Links;
use local::LocalNode;
use origin::Origin;
use outbox::{Effect, Outbox};
use parts::Parts;
use regions::Regions;
use relay::Relay;
pub(crate) use services::SERVICES_MAX;
use services::Services;
use tunnel::Tunnels;

/// Longest time between two ticks where ranks run and nothing changes.
const TICK_STEADY_MS: u64 = 1000;

/// Between the order to end all daemons and one's own end, in ms: it must be heard below, and the ends of
/// jobs above.
const LEAVE_MS: u64 = 300;

/// A daemon that has stood still has read within this time what had come by then, in ms.
const STALE_MS: u64 = 1000;

/// The daemon's mind: its parts, and what goes between them.
#[derive(Debug)]
pub struct Core {
    /// Our own time at the last tick.
    ticked_ms: u64,
    subsystems: Subsystems,
    out: Outbox,
}

/// Parts of a daemon, each with the state that is its own; `routing` says which of them handles what.
#[derive(Debug)]
struct Subsystems {
    local: LocalNode,
    /// After we have stood still: until when questions that come may be old ones, which nobody asks any more.
    stale_until_ms: u64,
    links: Links,
    relay: Relay,
    board: BoardLines,
    parts: Parts,
    origin: Origin,
    tunnels: Tunnels,
    regions: Regions,
    services: Services,
    gangs: Gangs,
    kept: Kept,
    controller: Option<Controller>,
    /// The daemons are to end, when all who must hear it have.
    leaving_ms: Option<u64>,
    actions: VecDeque<Action>,
}

impl Core {
    /// A daemon that has just been started.
    pub fn new(mut config: Config, now: impl Into<Clocks>) -> Self {
        let now = now.into();
        let starters = std::mem::take(&mut config.starters);
        let preferred = starters.first().map(|(_, record)| record.node);
        let out = Outbox::default();
        let subsystems = Subsystems::new(config, preferred, now, &out);
        let mut core = Core { ticked_ms: now.wall_ms, subsystems, out };
        for (job, record) in starters {
            core.call(|it, out| it.parts.restore(Context { local: &it.local, out }, job, record));
        }
        core.flush();
        core.call(|it, out| it.links.dial_if_needed(Context { local: &it.local, out }));
        core
    }

    /// Handles what happened.
    pub fn handle(&mut self, now: impl Into<Clocks>, event: Event) {
        self.subsystems.set_clocks(now.into());
        match event {
            Event::Tick => self.tick(),
            event => self.call(|it, out| it.handle_event(out, event)),
        }
        self.flush();
    }

    /// How long after this time, in ms since 1970, a [`Event::Tick`] is due. Where nothing is done, only
    /// silence counts.
    pub fn wait_ms(&self, now_ms: u64) -> u64 {
        let Subsystems { local, links, parts, .. } = &self.subsystems;
        let (alive_ms, lost_ms) = (local.config.alive_ms(), local.config.lost_ms);
        let due_ms = match self.subsystems.is_quiet() {
            true => links.due_ms(alive_ms, lost_ms).unwrap_or(self.ticked_ms + alive_ms),
            false => self.ticked_ms + TICK_MS,
        };
        // Neighbours that say that they live put off what the links wait for, but not what parts do.
        let due_ms = if parts.is_empty() { due_ms } else { due_ms.min(self.ticked_ms + TICK_STEADY_MS) };
        // A clock that was set back is looked at anew at once.
        let passed_ms = now_ms.checked_sub(local.wall_ms).unwrap_or(alive_ms);
        due_ms.saturating_sub(local.now_ms).min(alive_ms).saturating_sub(passed_ms)
    }

    /// Takes the action that is to be done next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.subsystems.actions.pop_front()
    }

    /// Our number, as soon as we have one.
    pub fn node(&self) -> Option<NodeId> {
        self.subsystems.local.me
    }

    /// Nodes that are there, as far as we know.
    pub fn nodes_alive(&self) -> usize {
        self.subsystems.local.members.as_ref().map_or(0, |members| members.alive().count())
    }

    /// Whether this is the controller, and all nodes are of its machine.
    pub fn is_of_one_machine(&self) -> bool {
        self.subsystems.local.is_of_one_machine()
    }

    /// Memory of this node that all jobs of a user may have, in bytes, and where that is written; none: no
    /// limit.
    pub fn memory_per_node(&self, uid: u32) -> Option<(u64, String)> {
        self.subsystems.local.memory_per_node(uid)
    }

    /// Rows of the jobs that are not over, with what every user of the machine may know of them.
    #[must_use]
    pub fn public_rows(&self, with_arguments: bool) -> Vec<PublicRow> {
        let Subsystems { local, relay, controller, .. } = &self.subsystems;
        controller.as_ref().map_or_else(Vec::new, |it| it.public_rows(local, relay, with_arguments))
    }

    /// Whether nothing of any job is left here.
    pub fn is_idle(&self) -> bool {
        self.subsystems.parts.is_empty() && self.subsystems.origin.is_idle()
    }

    /// Whether this user's program is the front end of a job.
    pub fn is_front_end(&self, client: ClientId) -> bool {
        self.subsystems.origin.is_front_end(client) || self.subsystems.tunnels.has_near(client)
    }

    /// Lets parts handle something, and hands on what they have given out, until nothing more follows: the
    /// next thing is handled after that. All that changes a part goes through here.
    fn call<R>(&mut self, handle: impl FnOnce(&mut Subsystems, &Outbox) -> R) -> R {
        let result = handle(&mut self.subsystems, &self.out);
        self.out.take().into_iter().for_each(|effect| self.hand_on(effect));
        result
    }

    /// Handles an effect, and what follows from it.
    fn hand_on(&mut self, effect: Effect) {
        if matches!(effect, Effect::ShutDown) {
            // The kills go down first.
            self.flush_orders();
        }
        self.call(|it, out| it.apply(out, effect));
    }

    fn tick(&mut self) {
        self.ticked_ms = self.subsystems.local.now_ms;
        self.call(|it, out| it.links.tick(&mut it.local, out));
        for step in Origin::TICK_STEPS {
            self.call(|it, out| step(&mut it.origin, Context { local: &it.local, out }));
        }
        for job in self.subsystems.origin.take_silent_jobs(&self.subsystems.local) {
            self.call(|it, out| it.origin.ask_controller(out, job));
            self.call(|it, out| it.origin.ask_nodes(out, job));
        }
        self.call(|it, out| {
            let cx = Context { local: &it.local, out };
            it.parts.tick(cx);
            it.kept.tick(cx);
            it.regions.tick(cx);
            out.extend(it.services.tick(cx.local));
        });
        self.tick_controller();
        self.call(|it, out| {
            if it.leaving_ms.is_some_and(|leaving_ms| it.local.now_ms >= leaving_ms) {
                out.act(Action::Leave);
            }
        });
    }

    fn tick_controller(&mut self) {
        self.call(|it, out| {
            let controller = it.controller.iter_mut();
            controller.for_each(|controller| controller.release_waiting(Context { local: &it.local, out }));
        });
        let Subsystems { local, controller, .. } = &mut self.subsystems;
        let due = controller.as_mut().map(|controller| controller.take_due(local)).unwrap_or_default();
        for job in due {
            self.call(|it, out| it.judge(out, job));
            self.call(|it, out| {
                let controller = it.controller.iter_mut();
                controller.for_each(|one| one.send_reports(Context { local: &it.local, out }, job));
            });
        }
    }

    /// Sends what has changed to where it is needed: once, however many things have changed.
    fn flush(&mut self) {
        // The controller turns states into orders, orders change parts, and parts of this node have states.
        for _ in 0..8 {
            if !self.flush_states() & !self.flush_orders() {
                break;
            }
        }
        self.flush_output();
        self.call(|it, out| it.tunnels.flush(Context { local: &it.local, out }));
    }

    /// Sends up what is due; on the controller it is judged. `true`: something has changed.
    fn flush_states(&mut self) -> bool {
        let it = &mut self.subsystems;
        if it.controller.is_some() {
            let jobs = it.relay.take_changed();
            jobs.iter().for_each(|job| self.call(|it, out| it.judge(out, *job)));
            return !jobs.is_empty();
        }
        let Some(up) = it.links.upwards() else { return false };
        self.call(|it, out| it.relay.flush_states(Context { local: &it.local, out }, up))
    }

    /// Sends orders down and carries out our own. `true`: something has changed.
    fn flush_orders(&mut self) -> bool {
        let children: Vec<_> = self.subsystems.links.children().collect();
        let orders = self.call(|it, out| it.relay.flush_orders(Context { local: &it.local, out }, &children));
        for (job, order) in &orders {
            self.call(|it, out| it.parts.begin(Context { local: &it.local, out }, *job, order));
            self.call(|it, out| it.parts.carry_out(Context { local: &it.local, out }, *job, order));
            if order.forget {
                self.call(|it, out| it.relay.forget(out, *job));
            }
        }
        !orders.is_empty()
    }

    /// Output goes on its way; starters whose output has room are listened to.
    fn flush_output(&mut self) {
        for job in self.subsystems.parts.jobs() {
            // What this node is the origin of makes room at once.
            while self.call(|it, out| it.parts.send_output(Context { local: &it.local, out }, job)) {}
            self.call(|it, out| it.parts.listen(out, job));
        }
    }
}
