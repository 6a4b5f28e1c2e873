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
//! Who writes what: an [`Order`] is changed by the controller alone, a
//! [`PartState`](crate::message::PartState) by its node alone; everybody else has a copy. If a daemon stops
//! right here, copies are sent again when a link comes up. Its starters live on; the daemon that is started
//! in its place finds what it has kept of them ([`record::StarterRecord`]), and they come back to it.
//!
//! No part knows another: each takes events and gives what follows from them into an [`Outbox`], and
//! [`Core`] hands it on. What follows from an effect comes before the effects behind it.

use std::collections::VecDeque;

use tutti_protocol::public::PublicRow;
use tutti_sched::market;

use crate::gang::{Command, SwitchEvent};
use crate::ids::{ClientId, LinkId};
use crate::members::NodeId;
use crate::message::{Answer, JobId, Message, Order, Routed};

pub mod action;
pub mod board;
pub mod clocks;
pub mod config;
pub mod configuration;
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
mod services;
#[cfg(test)]
mod sim;
mod tunnel;

use action::{Action, NodeTurns};
use board::BoardLines;
use clocks::Clocks;
use config::Loaded;
use config::{Config, TICK_MS};
use configuration::Kept;
use controller::{Asker, Controller};
use event::{Event, StarterEnd};
use gangs::Gangs;
use links::{Links, Role};
use local::LocalNode;
use numbers::Numbers;
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
    local: LocalNode,
    /// Our own time at the last tick.
    ticked_ms: u64,
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
    out: Outbox,
    actions: VecDeque<Action>,
}

impl Core {
    /// A daemon that has just been started.
    pub fn new(mut config: Config, now: impl Into<Clocks>) -> Self {
        let now = now.into();
        let now_ms = now.wall_ms;
        let journals = std::mem::take(&mut config.journals);
        let (starters, queued) = (std::mem::take(&mut config.starters), std::mem::take(&mut config.queued));
        let known_nodes = config.take_known_nodes();
        let is_controller = config.controller.is_none();
        let mut core = Core {
            ticked_ms: now_ms,
            stale_until_ms: 0,
            links: Links::new(Numbers::new(known_nodes.numbers)),
            relay: Relay::default(),
            board: BoardLines::default(),
            parts: Parts::default(),
            origin: Origin::default(),
            tunnels: Tunnels::default(),
            regions: Regions::default(),
            services: Services::default(),
            gangs: Gangs::default(),
            kept: Kept::default(),
            controller: is_controller
                .then(|| Controller::new(config.first_job, now_ms, config.loaded.rules.clone())),
            leaving_ms: None,
            out: Outbox::default(),
            actions: VecDeque::new(),
            local: LocalNode::new(config, starters.first().map(|(_, record)| record.node), now),
        };
        gangs::forward_members(&core.local, &mut core.out);
        core.kept.members_changed(&core.local, &mut core.out);
        if let Some(ms) = core.local.config.loaded.rules.half_life_ms {
            let slice_ns = core.local.config.loaded.slice_ns;
            core.out.act(Action::Gang(Command::Configure { slice_ns, half_life_ns: ms * 1_000_000 }));
        }
        let (used, age_ns) = std::mem::take(&mut core.local.config.used);
        if is_controller && !used.is_empty() {
            core.out.act(Action::Gang(Command::RestoreUse(used, age_ns)));
        }
        if let Some(controller) = &mut core.controller {
            controller.take_queue(&core.local, &mut core.out, queued);
            controller.take_drains(known_nodes.drains);
            core.out.act(controller.drain_command(&core.local));
        }
        core.origin.begin(core.local.config.about.incarnation, now_ms, journals);
        for (job, record) in starters {
            core.parts.restore(&core.local, &mut core.out, job, record);
            core.settle();
        }
        core.flush();
        core.links.dial_if_needed(&core.local, &mut core.out);
        core.settle();
        core
    }

    /// Handles what happened.
    pub fn handle(&mut self, now: impl Into<Clocks>, event: Event) {
        let passed_ms = self.local.set_clocks(now.into());
        if passed_ms >= self.local.config.lost_ms {
            self.stale_until_ms = self.local.now_ms + STALE_MS;
        }
        self.handle_event(event);
        self.settle();
        self.flush();
    }

    /// How long after this time, in ms since 1970, a [`Event::Tick`] is due. Where nothing is done, only
    /// silence counts.
    pub fn wait_ms(&self, now_ms: u64) -> u64 {
        let (alive_ms, lost_ms) = (self.local.config.alive_ms(), self.local.config.lost_ms);
        let due_ms = match self.is_quiet() {
            true => self.links.due_ms(alive_ms, lost_ms).unwrap_or(self.ticked_ms + alive_ms),
            false => self.ticked_ms + TICK_MS,
        };
        // Neighbours that say that they live put off what the links wait for, but not what parts do.
        let due_ms = if self.parts.is_empty() { due_ms } else { due_ms.min(self.ticked_ms + TICK_STEADY_MS) };
        // A clock that was set back is looked at anew at once.
        let passed_ms = now_ms.checked_sub(self.local.wall_ms).unwrap_or(alive_ms);
        due_ms.saturating_sub(self.local.now_ms).min(alive_ms).saturating_sub(passed_ms)
    }

    /// No change of a job or of the tree is under way here: ranks may run.
    fn is_quiet(&self) -> bool {
        let has_place =
            self.local.me.is_some() && (self.controller.is_some() || self.links.upwards().is_some());
        let has_jobs = self.controller.as_ref().is_some_and(Controller::is_busy)
            || !self.tunnels.is_empty()
            || !self.regions.is_settled()
            || !self.services.is_settled();
        has_place
            && self.links.is_settled()
            && self.parts.is_settled()
            && self.origin.is_idle()
            && !has_jobs
            && self.leaving_ms.is_none()
    }

    /// Takes the action that is to be done next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Our number, as soon as we have one.
    pub fn node(&self) -> Option<NodeId> {
        self.local.me
    }

    /// Nodes that are there, as far as we know.
    pub fn nodes_alive(&self) -> usize {
        self.local.members.as_ref().map_or(0, |members| members.alive().count())
    }

    /// Whether this is the controller, and all nodes are of its machine.
    pub fn is_of_one_machine(&self) -> bool {
        self.local.is_of_one_machine()
    }

    /// Rows of the jobs that are not over, with what every user of the machine may know of them.
    #[must_use]
    pub fn public_rows(&self, with_arguments: bool) -> Vec<PublicRow> {
        let controller = self.controller.as_ref();
        controller.map_or_else(Vec::new, |it| it.public_rows(&self.local, &self.relay, with_arguments))
    }

    /// Whether nothing of any job is left here.
    pub fn is_idle(&self) -> bool {
        self.parts.is_empty() && self.origin.is_idle()
    }

    /// Whether this user's program is the front end of a job.
    pub fn is_front_end(&self, client: ClientId) -> bool {
        self.origin.is_front_end(client) || self.tunnels.has_near(client)
    }

    /// Hands on what the parts have given out, until nothing more follows.
    fn settle(&mut self) {
        for effect in self.out.take() {
            self.apply(effect);
            self.settle();
        }
    }

    fn handle_event(&mut self, event: Event) {
        let (local, out) = (&self.local, &mut self.out);
        match event {
            Event::Tick => self.tick(),
            Event::Accepted(link) => self.links.accept(link, local.now_ms),
            Event::Dialled(link) => self.links.handle_dialled(local, out, link),
            Event::DialFailed(why) => self.links.handle_dial_failed(local, out, &why),
            Event::OtherRelease(why) => self.links.handle_other_release(local, out, &why),
            Event::Message(link, message) => self.handle_message(link, message),
            Event::LinkDown(link) => self.links.handle_link_down(local, out, link),
            Event::Request(client, user, request) => {
                self.origin.handle_request(local, out, client, user, request)
            }
            Event::Frame(client, kind, number, payload) => {
                if !self.tunnels.put(client, kind, number, &payload) {
                    self.origin.handle_frame(local, out, client, kind, number, &payload);
                }
            }
            Event::Taken(client, bytes) => {
                self.tunnels.handle_taken(client, bytes);
                self.origin.handle_taken(local, out, client, bytes);
            }
            Event::FrontState(client, stopped) => {
                if !(stopped && self.tunnels.stop(client)) {
                    self.origin.handle_front_state(local, out, client, stopped);
                }
            }
            Event::ClientGone(client) => {
                self.tunnels.handle_client_gone(client);
                self.regions.handle_client_gone(client);
                self.services.handle_client_gone(client);
                self.origin.handle_client_gone(local, out, client);
            }
            Event::Reattach(job, back) => {
                self.parts.handle_back(local, out, job, &back, self.relay.order(job));
            }
            Event::Starter(job, frames) => self.parts.handle_starter(local, out, job, frames),
            Event::StarterGone(job, end) => self.parts.handle_starter_gone(local, out, job, end),
            Event::Writer(job, event) => self.origin.handle_writer(local, out, job, event),
            Event::Gang(event) => self.handle_gang(event),
            Event::Limited(job, enforced) => self.parts.record_enforced(job, enforced),
            Event::PutOut(job, put_out) => self.parts.record_put_out(local, out, job, put_out),
            Event::Filed(job, filed) => {
                if let Some(controller) = &mut self.controller {
                    controller.handle_filed(local, out, job, &filed);
                }
            }
            Event::DrainsKept(kept) => {
                let controller = self.controller.as_mut();
                if let Some(kept) =
                    controller.and_then(|controller| controller.handle_drains_kept(local, kept))
                {
                    kept.actions.into_iter().for_each(|action| out.act(action));
                    out.route(kept.answer.0, kept.answer.1);
                }
            }
            Event::ConfigurationKept(text) => self.kept.handle_kept(local, out, &text),
            Event::Reloaded(requester, result) => self.handle_reloaded(requester, result),
            // Only the log misses them, should they not arrive.
            Event::Board(own) => {
                let links: Vec<_> = self.links.neighbours().collect();
                self.board.refresh(local, out, &links, *own);
            }
            Event::Turns(turns) => out.route(NodeId::CONTROLLER, Routed::Turns(turns)),
            Event::Region(client, uid, groups, wanted) => {
                self.regions.handle_wanted(local, out, client, (uid, groups), wanted);
            }
            Event::RegionReached(from, id, result) => self.regions.handle_reached(out, from, id, result),
            Event::Services(client, uid) => out.extend(self.services.handle_wanted(local, client, uid)),
            Event::ServicesListed(to, id, services) => {
                out.route(to, Routed::ServicesGiven { id, services });
            }
            Event::Use(found) => out.route(NodeId::CONTROLLER, Routed::Use(found)),
        }
    }

    fn tick(&mut self) {
        self.ticked_ms = self.local.now_ms;
        self.links.tick(&mut self.local, &mut self.out);
        self.settle();
        for step in Origin::TICK_STEPS {
            step(&mut self.origin, &self.local, &mut self.out);
            self.settle();
        }
        for job in self.origin.take_silent_jobs(&self.local) {
            self.origin.ask_controller(&mut self.out, job);
            self.settle();
            self.origin.ask_nodes(&mut self.out, job);
            self.settle();
        }
        self.parts.tick(&self.local, &mut self.out);
        self.kept.tick(&self.local, &mut self.out);
        self.regions.tick(&self.local, &mut self.out);
        self.out.extend(self.services.tick(&self.local));
        self.settle();
        self.tick_controller();
        if self.leaving_ms.is_some_and(|leaving_ms| self.local.now_ms >= leaving_ms) {
            self.out.act(Action::Leave);
        }
    }

    fn tick_controller(&mut self) {
        let Some(controller) = &mut self.controller else { return };
        controller.release_waiting(&self.local, &mut self.out);
        self.settle();
        let Some(controller) = &mut self.controller else { return };
        for job in controller.take_due(&self.local) {
            self.judge(job);
            let Some(controller) = &mut self.controller else { return };
            controller.send_reports(&self.local, &mut self.out, job);
            self.settle();
        }
    }

    /// Memory of this node that all jobs of a user may have, in bytes, and where that is written; none: no
    /// limit.
    pub fn memory_per_node(&self, uid: u32) -> Option<(u64, String)> {
        self.local.memory_per_node(uid)
    }

    /// On the controller: the configuration is taken whole, or not at all.
    fn handle_reloaded(
        &mut self,
        requester: Option<(NodeId, u64)>,
        result: Result<Box<Loaded>, Vec<String>>,
    ) {
        let Some(controller) = &mut self.controller else { return };
        if let Ok(loaded) = &result {
            self.local.config.loaded = Loaded::clone(loaded);
            self.links.configure(&mut self.local, &mut self.out, loaded);
        }
        controller.handle_reloaded(&self.local, &mut self.out, requester, result);
        self.settle();
    }

    fn judge(&mut self, job: JobId) {
        let Some(controller) = &mut self.controller else { return };
        controller.judge(&self.local, &mut self.relay, &mut self.out, job);
        self.settle();
    }

    fn apply(&mut self, effect: Effect) {
        let (local, out) = (&self.local, &mut self.out);
        match effect {
            Effect::Act(action) => self.actions.extend(self.tunnels.take(action)),
            Effect::Route(to, body) => self.route(to, body),
            Effect::Event(event) => self.handle_event(event),
            Effect::LinkedUp => self.relay.resend_all(),
            Effect::LinkedDown(link) => self.relay.greet(link),
            Effect::Unlinked(link) => {
                self.relay.forget_link(link);
                self.board.forget_link(link);
            }
            Effect::MembersChanged => {
                self.relay.members_changed();
                self.kept.members_changed(local, out);
                // A node that comes takes nothing before it is known to be drained.
                self.controller.iter().for_each(|controller| out.act(controller.drain_command(local)));
                gangs::forward_members(local, out);
            }
            Effect::NumberLost => {
                self.parts.drop_all(out);
                self.relay.clear();
            }
            Effect::NumberKnown => self.parts.publish_all(local, out),
            Effect::NodeRenewed(node) => {
                self.controller.iter_mut().for_each(|controller| controller.renew_origin(node));
            }
            Effect::NodeLost(node, name) => {
                let controller = self.controller.iter_mut();
                controller.for_each(|controller| controller.lose_node(local, out, node, &name));
            }
            Effect::PartChanged(state) => self.relay.record_batch(state),
            Effect::OrderKnown(job, order) => self.handle_known(job, order),
            Effect::Enrol(job) => self.try_to_enrol(job),
            Effect::OpenTunnel(client, user, request, origin) => {
                self.tunnels.open(client, user, request, origin);
            }
            Effect::ShutDown => {
                // The kills go down first.
                self.flush_orders();
                self.leave_all();
            }
        }
    }

    /// Hands something to a node, which may be ourselves.
    fn route(&mut self, to: NodeId, body: Routed) {
        let Some(me) = self.local.me else { return };
        if to == me {
            return self.handle_routed(me, body);
        }
        self.pass_on(to, me, body);
    }

    /// Passes a message on to the next node on its way, or drops it: whoever said it says it again.
    fn pass_on(&mut self, to: NodeId, from: NodeId, body: Routed) {
        let (Some(me), Some(members)) = (self.local.me, &self.local.members) else { return };
        let Some(hop) = members.hop(me, to) else { return };
        if let Some(link) = self.links.link_to(hop) {
            self.out.act(Action::Send(link, Message::Route { to, from, body }));
        }
    }

    fn handle_routed(&mut self, from: NodeId, body: Routed) {
        let (local, out) = (&self.local, &mut self.out);
        match body {
            Routed::Request { request_id, user, request, again } => {
                if let Some(controller) = &mut self.controller {
                    let asker = Asker { requester: (from, request_id), user };
                    controller.handle_request(local, &mut self.relay, out, asker, request, again);
                }
            }
            Routed::Answer { request_id, answer } => {
                self.origin.handle_answer(local, out, request_id, answer);
            }
            Routed::Reports { job, request_id, incarnation, first, reports } => {
                self.origin.handle_reports(local, out, job, request_id, (incarnation, first), reports);
            }
            Routed::ReportsReceived { job, incarnation, below, output } => {
                if let Some(controller) = &mut self.controller {
                    controller.handle_output_state(local, out, job, output);
                    controller.handle_contact(local, &mut self.relay, out, from, job, (incarnation, below));
                }
            }
            Routed::Configuration { version } => {
                self.controller.iter_mut().for_each(|controller| controller.note_version(from, version));
            }
            Routed::Data { job, offset, start, bytes } => {
                self.origin.handle_data(local, out, from, job, (offset, start), &bytes);
            }
            Routed::Room { job, have, limit } => self.parts.handle_room(local, out, job, have, limit),
            Routed::Input { job, piece, bytes } => self.parts.handle_input(out, job, piece, bytes),
            Routed::Turns(turns) => {
                let known = local.members.as_ref().and_then(|members| members.nodes.get(&from));
                if let Some(member) = known.filter(|_| local.is_controller()) {
                    out.act(Action::LogTurns(NodeTurns { node: member.about.name.clone(), turns }));
                }
            }
            Routed::Use(found) => {
                let is_member = local.members.as_ref().is_some_and(|members| members.is_alive(from));
                if is_member && local.is_controller() && found.jobs.len() <= market::JOBS_MAX {
                    self.controller.iter_mut().for_each(|controller| controller.handle_use(from, &found));
                    out.act(Action::Gang(Command::Use(from, found)));
                }
            }
            Routed::Used(job, used) => {
                self.controller.iter_mut().for_each(|controller| controller.handle_used(job, used));
            }
            Routed::Tunnel { id, to_origin, pipe } => {
                self.tunnels.handle_tunnel(local, out, from, id, to_origin, pipe);
            }
            Routed::InputTaken { job, piece, unwanted } => {
                self.origin.handle_input_taken(out, from, job, piece, unwanted);
            }
            Routed::ServicesWanted { id } => out.act(Action::ListServices(from, id)),
            Routed::ServicesGiven { id, services } => {
                out.extend(self.services.handle_given(local, from, id, &services));
            }
            Routed::RegionWanted { id, client } => self.regions.handle_asked(out, from, id, client),
            Routed::RegionGiven { id, result } => {
                self.regions.handle_given(local, out, from, id, result);
            }
        }
    }

    fn handle_message(&mut self, link: LinkId, message: Message) {
        let now_ms = self.local.now_ms;
        // What was still under way on a link that has been closed is as if it had not been said.
        let Some(role) = self.links.record_contact(link, now_ms) else { return };
        let (from_above, from_below) = (role == Role::Up, matches!(role, Role::Child(_)));
        if self.links.upwards() == Some(link) {
            if self.links.parent() == Some(NodeId::CONTROLLER) {
                self.local.controller_contact_ms = now_ms;
            }
            self.gangs.forward_liveness(&self.local, &mut self.out, !self.relay.is_empty());
        }
        let (local, out) = (&mut self.local, &mut self.out);
        match message {
            Message::Hello { about, node, preferred, known } if role == Role::Unidentified => {
                self.links.handle_hello(local, out, link, about, (node, preferred), known);
            }
            Message::Welcome { node, members } if from_above => {
                self.links.handle_welcome(local, out, link, node, members);
            }
            Message::Refused(text) if from_above => {
                // Its jobs may take their time to end.
                out.act(Action::Warn(format!("the controller refuses this node: {text}")));
                out.act(Action::GiveUp(format!("the controller refuses this node: {text}")));
            }
            Message::Members(members) if from_above => self.links.handle_members(local, out, members),
            Message::Orders(orders) if from_above => {
                for (job, mut order) in orders {
                    order.clock = order.clock.received(local.boot_ms);
                    self.relay.set_order(job, order);
                }
            }
            Message::States { orders, states } if from_below => {
                let boot_ms = local.boot_ms;
                for (job, mut order) in orders {
                    order.clock = order.clock.received(boot_ms);
                    self.handle_known(job, order);
                }
                states.into_iter().for_each(|state| self.relay.record_batch(state));
            }
            Message::Gone { node, incarnation, by } if from_below => {
                self.links.handle_gone(local, out, node, incarnation, by);
            }
            // Whoever still wants to know asks again.
            Message::Route { body: Routed::Request { .. }, .. } if now_ms < self.stale_until_ms => {}
            Message::Route { to, from, body } if Some(to) == local.me => self.handle_routed(from, body),
            Message::Route { to, from, body } => self.pass_on(to, from, body),
            Message::Gang { number, word } => out.act(Action::Gang(Command::Message(link, number, word))),
            Message::Board(lines) if from_above || from_below => {
                self.board.handle_lines(local, out, link, lines);
            }
            Message::Down if from_above => self.leave_all(),
            Message::Alive { controller_silent_ms } => {
                if from_above {
                    let contact_ms = now_ms.saturating_sub(controller_silent_ms);
                    local.controller_contact_ms = local.controller_contact_ms.max(contact_ms);
                }
                self.links.answer_alive(local, out, link);
            }
            // Said by who is mistaken about the tree: the next link will be right.
            _ => {}
        }
    }

    /// The switch thread says something.
    fn handle_gang(&mut self, event: SwitchEvent) {
        let (local, out) = (&self.local, &mut self.out);
        match event {
            // A link that is gone by now has a successor on which all is said anew.
            SwitchEvent::Relay(link, number, word) => {
                return out.act(Action::Send(link, Message::Gang { number, word }));
            }
            SwitchEvent::LogLine(text) | SwitchEvent::UserLine(_, text) => {
                return out.act(Action::Info(text));
            }
            SwitchEvent::Method(job, method) => {
                return self.parts.record_freeze_method(local, out, job, method);
            }
            _ => {}
        }
        if let Some(controller) = &mut self.controller {
            controller.handle_gang(local, &mut self.relay, out, event);
        }
    }

    /// A node below has this order: from a link that is no more, or from a controller that was before.
    fn handle_known(&mut self, job: JobId, order: Order) {
        match &mut self.controller {
            Some(controller) => {
                controller.adopt_job(&self.local, &mut self.relay, &mut self.out, job, order);
            }
            None => self.relay.learn(job, order),
        }
    }

    /// A job that runs already takes part when both are here: the controller's order and the answer to its
    /// mpiexec.
    fn try_to_enrol(&mut self, job: JobId) {
        if !self.parts.has(job) {
            return;
        }
        match self.origin.take_enrolling(job) {
            None => {}
            Some(Some(client)) => {
                self.out.act(Action::Answer(client, Answer::Job(job)));
                self.out.act(Action::Enrol(client, job));
            }
            Some(None) => {
                let end = StarterEnd::Died("its mpiexec has ended".into());
                self.parts.handle_starter_gone(&self.local, &mut self.out, job, end);
            }
        }
    }

    /// All daemons below end, and then we do.
    fn leave_all(&mut self) {
        for (link, _) in self.links.children() {
            self.out.act(Action::Send(link, Message::Down));
        }
        self.leaving_ms = Some(self.local.now_ms + LEAVE_MS);
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
        self.tunnels.flush(&self.local, &mut self.out);
        self.settle();
    }

    /// Sends up what is due; on the controller it is judged. `true`: something has changed.
    fn flush_states(&mut self) -> bool {
        if self.controller.is_some() {
            let jobs = self.relay.take_changed();
            jobs.iter().for_each(|job| self.judge(*job));
            return !jobs.is_empty();
        }
        let Some(up) = self.links.upwards() else { return false };
        let any = self.relay.flush_states(&self.local, &mut self.out, up);
        self.settle();
        any
    }

    /// Sends orders down and carries out our own. `true`: something has changed.
    fn flush_orders(&mut self) -> bool {
        let children: Vec<_> = self.links.children().collect();
        let orders = self.relay.flush_orders(&self.local, &mut self.out, &children);
        self.settle();
        for (job, order) in &orders {
            self.parts.begin(&self.local, &mut self.out, *job, order);
            self.settle();
            self.parts.carry_out(&self.local, &mut self.out, *job, order);
            self.settle();
            if order.forget {
                self.relay.forget(&mut self.out, *job);
                self.settle();
            }
        }
        !orders.is_empty()
    }

    /// Output goes on its way; starters whose output has room are listened to.
    fn flush_output(&mut self) {
        for job in self.parts.jobs() {
            // What this node is the origin of makes room at once.
            while self.parts.send_output(&self.local, &mut self.out, job) {
                self.settle();
            }
            self.parts.listen(&mut self.out, job);
            self.settle();
        }
    }
}
