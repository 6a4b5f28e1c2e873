//! Ways of what happens: [`Subsystems`] gives each event, message and effect to the part that it is for.
//! [`Core`](super::Core) calls this, and hands on what follows.

use tutti_sched::market;

use super::action::{Action, NodeTurns};
use super::board::BoardLines;
use super::clocks::Clocks;
use super::config::{Config, Loaded};
use super::configuration::Kept;
use super::context::Context;
use super::controller::{Asker, Controller};
use super::event::{Event, StarterEnd};
use super::gangs::{self, Gangs};
use super::links::{Links, Role};
use super::local::LocalNode;
use super::numbers::Numbers;
use super::origin::Origin;
use super::outbox::{Effect, Outbox};
use super::parts::{self, Parts};
use super::regions::Regions;
use super::relay::Relay;
use super::services::Services;
use super::tunnel::Tunnels;
use super::{LEAVE_MS, STALE_MS, Subsystems};
use crate::gang::{Command, SwitchEvent};
use crate::ids::LinkId;
use crate::members::NodeId;
use crate::message::{Answer, JobId, Message, Order, Routed};

impl Subsystems {
    /// Parts of a daemon that has just been started; an earlier one of this node may have had this number.
    pub(super) fn new(mut config: Config, preferred: Option<NodeId>, now: Clocks, out: &Outbox) -> Self {
        let now_ms = now.wall_ms;
        let journals = std::mem::take(&mut config.journals);
        let queued = std::mem::take(&mut config.queued);
        let (used, age_ns) = std::mem::take(&mut config.used);
        let known_nodes = config.take_known_nodes();
        let is_controller = config.controller.is_none();
        let controller =
            is_controller.then(|| Controller::new(config.first_job, now_ms, config.loaded.rules.clone()));
        let mut new = Subsystems {
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
            controller,
            leaving_ms: None,
            actions: std::collections::VecDeque::new(),
            local: LocalNode::new(config, preferred, now),
        };
        let cx = Context { local: &new.local, out };
        gangs::forward_members(cx);
        new.kept.members_changed(cx);
        let loaded = &cx.local.config.loaded;
        if let Some(ms) = loaded.rules.half_life_ms {
            let (slice_ns, half_life_ns) = (loaded.slice_ns, ms * 1_000_000);
            out.act(Action::Gang(Command::Configure { slice_ns, half_life_ns }));
        }
        if is_controller && !used.is_empty() {
            out.act(Action::Gang(Command::RestoreUse(used, age_ns)));
        }
        if let Some(controller) = &mut new.controller {
            controller.take_queue(cx, queued);
            controller.take_drains(known_nodes.drains);
            out.act(controller.drain_command(cx.local));
            controller.take_reservations(known_nodes.reservations);
            out.act(controller.reserve_command(cx.local));
        }
        new.origin.begin(cx.local.config.about.incarnation, now_ms, journals);
        new
    }

    /// The clocks say this now.
    pub(super) fn set_clocks(&mut self, now: Clocks) {
        let passed_ms = self.local.set_clocks(now);
        if passed_ms >= self.local.config.lost_ms {
            self.stale_until_ms = self.local.now_ms + STALE_MS;
        }
    }

    /// No change of a job or of the tree is under way here: ranks may run.
    pub(super) fn is_quiet(&self) -> bool {
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

    pub(super) fn handle_event(&mut self, out: &Outbox, event: Event) {
        let cx = Context { local: &self.local, out };
        match event {
            // Its steps are taken one by one.
            Event::Tick => {}
            Event::Accepted(link) => self.links.accept(link, cx.local.now_ms),
            Event::Dialled(link) => self.links.handle_dialled(cx, link),
            Event::DialFailed(why) => self.links.handle_dial_failed(cx, &why),
            Event::OtherRelease(why) => self.links.handle_other_release(cx, &why),
            Event::Message(link, message) => self.handle_message(out, link, message),
            Event::LinkDown(link) => self.links.handle_link_down(cx, link),
            Event::Request(client, user, request) => self.origin.handle_request(cx, client, user, request),
            Event::Frame(client, kind, number, payload) => {
                if !self.tunnels.put(client, kind, number, &payload) {
                    self.origin.handle_frame(cx, client, kind, number, &payload);
                }
            }
            Event::Taken(client, bytes) => {
                self.tunnels.handle_taken(client, bytes);
                self.origin.handle_taken(cx, client, bytes);
            }
            Event::FrontState(client, stopped) => {
                if !(stopped && self.tunnels.stop(client)) {
                    self.origin.handle_front_state(cx, client, stopped);
                }
            }
            Event::ClientGone(client) => {
                self.tunnels.handle_client_gone(client);
                self.regions.handle_client_gone(client);
                self.services.handle_client_gone(client);
                self.origin.handle_client_gone(cx, client);
            }
            Event::Reattach(job, back) => {
                self.parts.handle_back(cx, job, &back, self.relay.order(job));
            }
            Event::Starter(job, frames) => self.parts.handle_starter(cx, job, frames),
            Event::StarterGone(job, end) => self.parts.handle_starter_gone(cx, job, end),
            Event::EpilogFailed(why) => parts::drain_own_node(cx, why),
            Event::Writer(job, event) => self.origin.handle_writer(cx, job, event),
            Event::Gang(event) => self.handle_gang(out, event),
            Event::Limited(job, enforced) => self.parts.record_enforced(job, enforced),
            Event::PutOut(job, put_out) => self.parts.record_put_out(cx, job, put_out),
            Event::Sharers(sharers, hides_others) => {
                if let Some(controller) = &mut self.controller {
                    controller.set_sharers(sharers, hides_others);
                }
            }
            Event::Filed(job, filed) => {
                if let Some(controller) = &mut self.controller {
                    controller.handle_filed(cx, job, &filed);
                }
            }
            Event::DrainsKept(kept) => {
                let controller = self.controller.as_mut();
                let kept = controller.and_then(|controller| controller.handle_drains_kept(cx.local, kept));
                kept.into_iter().for_each(|kept| kept.give_out(out));
            }
            Event::ReservationsKept(kept) => {
                let controller = self.controller.as_mut();
                let kept =
                    controller.and_then(|controller| controller.handle_reservations_kept(cx.local, kept));
                kept.into_iter().for_each(|kept| kept.give_out(out));
            }
            Event::ConfigurationKept(text) => self.kept.handle_kept(cx, &text),
            Event::Reloaded(requester, result) => self.handle_reloaded(out, requester, result),
            // Only the log misses them, should they not arrive.
            Event::Board(own) => {
                let links: Vec<_> = self.links.neighbours().collect();
                self.board.refresh(cx, &links, *own);
            }
            Event::Turns(turns) => out.route(NodeId::CONTROLLER, Routed::Turns(turns)),
            Event::Region(client, uid, groups, wanted) => {
                self.regions.handle_wanted(cx, client, (uid, groups), wanted);
            }
            Event::RegionReached(from, id, result) => self.regions.handle_reached(out, from, id, result),
            Event::Services(client, uid) => out.extend(self.services.handle_wanted(cx.local, client, uid)),
            Event::ServicesListed(to, id, services) => {
                out.route(to, Routed::ServicesGiven { id, services });
            }
            Event::Use(found) => out.route(NodeId::CONTROLLER, Routed::Use(found)),
        }
    }

    /// Effects reach the part, or the shell, that they are for.
    pub(super) fn apply(&mut self, out: &Outbox, effect: Effect) {
        let cx = Context { local: &self.local, out };
        match effect {
            Effect::Act(action) => self.actions.extend(self.tunnels.take(action)),
            Effect::Route(to, body) => self.route(out, to, body),
            Effect::Event(event) => self.handle_event(out, event),
            Effect::LinkedUp => self.relay.resend_all(),
            Effect::LinkedDown(link) => self.relay.greet(link),
            Effect::Unlinked(link) => {
                self.relay.forget_link(link);
                self.board.forget_link(link);
            }
            Effect::MembersChanged => {
                self.relay.members_changed();
                self.kept.members_changed(cx);
                // A node that comes takes nothing before it is known to be drained.
                if let Some(controller) = &mut self.controller {
                    out.act(controller.drain_command(cx.local));
                    out.act(controller.reserve_command(cx.local));
                }
                gangs::forward_members(cx);
            }
            Effect::NumberLost => {
                self.parts.drop_all(out);
                self.relay.clear();
            }
            Effect::NumberKnown => self.parts.publish_all(cx),
            Effect::NodeRenewed(node) => {
                self.controller.iter_mut().for_each(|controller| controller.renew_origin(node));
            }
            Effect::NodeLost(node, name) => {
                let controller = self.controller.iter_mut();
                controller.for_each(|controller| controller.lose_node(cx, node, &name));
            }
            Effect::PartChanged(state) => self.relay.record_batch(state),
            Effect::OrderKnown(job, order) => self.handle_known(out, job, order),
            Effect::Enrol(job) => self.try_to_enrol(out, job),
            Effect::OpenTunnel(client, user, request, origin) => {
                self.tunnels.open(client, user, request, origin);
            }
            Effect::ShutDown => self.leave_all(out),
        }
    }

    /// Hands something to a node, which may be ourselves.
    fn route(&mut self, out: &Outbox, to: NodeId, body: Routed) {
        let Some(me) = self.local.me else { return };
        if to == me {
            return self.handle_routed(out, me, body);
        }
        self.pass_on(out, to, me, body);
    }

    /// Passes a message on to the next node on its way, or drops it: whoever said it says it again.
    fn pass_on(&self, out: &Outbox, to: NodeId, from: NodeId, body: Routed) {
        let (Some(me), Some(members)) = (self.local.me, &self.local.members) else { return };
        let Some(hop) = members.hop(me, to) else { return };
        if let Some(link) = self.links.link_to(hop) {
            out.act(Action::Send(link, Message::Route { to, from, body }));
        }
    }

    fn handle_routed(&mut self, out: &Outbox, from: NodeId, body: Routed) {
        let cx = Context { local: &self.local, out };
        match body {
            Routed::Request { request_id, user, request, again } => {
                if let Some(controller) = &mut self.controller {
                    let asker = Asker { requester: (from, request_id), user };
                    controller.handle_request(cx, &mut self.relay, asker, request, again);
                }
            }
            Routed::Answer { request_id, answer, reason } => {
                self.origin.handle_answer(cx, request_id, answer.join(reason));
            }
            Routed::Reports { job, request_id, incarnation, first, reports } => {
                self.origin.handle_reports(cx, job, request_id, (incarnation, first), reports);
            }
            Routed::ReportsReceived { job, incarnation, below, output } => {
                if let Some(controller) = &mut self.controller {
                    controller.handle_output_state(cx, job, output);
                    controller.handle_contact(cx, &mut self.relay, from, job, (incarnation, below));
                }
            }
            Routed::Configuration { version } => {
                self.controller.iter_mut().for_each(|controller| controller.note_version(from, version));
            }
            Routed::Data { job, offset, start, bytes } => {
                self.origin.handle_data(cx, from, job, (offset, start), &bytes);
            }
            Routed::Room { job, have, limit } => self.parts.handle_room(cx, job, have, limit),
            Routed::Input { job, piece, bytes } => self.parts.handle_input(out, job, piece, bytes),
            Routed::Turns(turns) => {
                let known = cx.local.members.as_ref().and_then(|members| members.nodes.get(&from));
                if let Some(member) = known.filter(|_| cx.local.is_controller()) {
                    out.act(Action::LogTurns(NodeTurns { node: member.about.name.clone(), turns }));
                }
            }
            Routed::Use(found) => {
                let is_member = cx.local.members.as_ref().is_some_and(|members| members.is_alive(from));
                if is_member && cx.local.is_controller() && found.jobs.len() <= market::JOBS_MAX {
                    self.controller.iter_mut().for_each(|controller| controller.handle_use(from, &found));
                    out.act(Action::Gang(Command::Use(from, found)));
                }
            }
            Routed::Used(job, used) => {
                self.controller.iter_mut().for_each(|controller| controller.handle_used(job, used));
            }
            Routed::Tunnel { id, to_origin, pipe } => {
                self.tunnels.handle_tunnel(cx, from, id, to_origin, pipe);
            }
            Routed::InputTaken { job, piece, unwanted } => {
                self.origin.handle_input_taken(out, from, job, piece, unwanted);
            }
            Routed::ServicesWanted { id } => out.act(Action::ListServices(from, id)),
            Routed::ServicesGiven { id, services } => {
                out.extend(self.services.handle_given(cx.local, from, id, &services));
            }
            Routed::RegionWanted { id, client } => self.regions.handle_asked(out, from, id, client),
            Routed::RegionGiven { id, result } => {
                self.regions.handle_given(cx, from, id, result);
            }
        }
    }

    fn handle_message(&mut self, out: &Outbox, link: LinkId, message: Message) {
        let now_ms = self.local.now_ms;
        // What was still under way on a link that has been closed is as if it had not been said.
        let Some(role) = self.links.record_contact(link, now_ms) else { return };
        let (from_above, from_below) = (role == Role::Up, matches!(role, Role::Child(_)));
        if self.links.upwards() == Some(link) {
            if self.links.parent() == Some(NodeId::CONTROLLER) {
                self.local.controller_contact_ms = now_ms;
            }
            self.gangs.forward_liveness(Context { local: &self.local, out }, !self.relay.is_empty());
        }
        let local = &mut self.local;
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
                    self.handle_known(out, job, order);
                }
                states.into_iter().for_each(|state| self.relay.record_batch(state));
            }
            Message::Gone { node, incarnation, by } if from_below => {
                self.links.handle_gone(local, out, node, incarnation, by);
            }
            // Whoever still wants to know asks again.
            Message::Route { body: Routed::Request { .. }, .. } if now_ms < self.stale_until_ms => {}
            Message::Route { to, from, body } if Some(to) == local.me => self.handle_routed(out, from, body),
            Message::Route { to, from, body } => self.pass_on(out, to, from, body),
            Message::Gang { number, word } => out.act(Action::Gang(Command::Message(link, number, word))),
            Message::Board(lines) if from_above || from_below => {
                self.board.handle_lines(Context { local, out }, link, lines);
            }
            Message::Down if from_above => self.leave_all(out),
            Message::Alive { controller_silent_ms } => {
                if from_above {
                    let contact_ms = now_ms.saturating_sub(controller_silent_ms);
                    local.controller_contact_ms = local.controller_contact_ms.max(contact_ms);
                }
                self.links.answer_alive(Context { local, out }, link);
            }
            // Said by who is mistaken about the tree: the next link will be right.
            Message::Hello { .. }
            | Message::Welcome { .. }
            | Message::Refused(_)
            | Message::Members(_)
            | Message::Orders(_)
            | Message::States { .. }
            | Message::Gone { .. }
            | Message::Board(_)
            | Message::Down => {}
        }
    }

    /// The switch thread says something.
    fn handle_gang(&mut self, out: &Outbox, event: SwitchEvent) {
        let cx = Context { local: &self.local, out };
        match event {
            // A link that is gone by now has a successor on which all is said anew.
            SwitchEvent::Relay(link, number, word) => {
                return out.act(Action::Send(link, Message::Gang { number, word }));
            }
            SwitchEvent::LogLine(text) | SwitchEvent::UserLine(_, text) => {
                return out.act(Action::Info(text));
            }
            SwitchEvent::Method(job, method) => {
                return self.parts.record_freeze_method(cx, job, method);
            }
            _ => {}
        }
        if let Some(controller) = &mut self.controller {
            controller.handle_gang(cx, &mut self.relay, event);
        }
    }

    /// A node below has this order: from a link that is no more, or from a controller that was before.
    pub(super) fn handle_known(&mut self, out: &Outbox, job: JobId, order: Order) {
        match &mut self.controller {
            Some(controller) => {
                let cx = Context { local: &self.local, out };
                controller.adopt_job(cx, &mut self.relay, job, order);
            }
            None => self.relay.learn(job, order),
        }
    }

    /// A job that runs already takes part when both are here: the controller's order and the answer to its
    /// mpiexec.
    fn try_to_enrol(&mut self, out: &Outbox, job: JobId) {
        if !self.parts.has(job) {
            return;
        }
        match self.origin.take_enrolling(job) {
            None => {}
            Some(Some(client)) => {
                out.act(Action::Answer(client, Answer::Job(job)));
                out.act(Action::Enrol(client, job));
            }
            Some(None) => {
                let end = StarterEnd::Died("its mpiexec has ended".into());
                self.parts.handle_starter_gone(Context { local: &self.local, out }, job, end);
            }
        }
    }

    /// All daemons below end, and then we do.
    fn leave_all(&mut self, out: &Outbox) {
        for (link, _) in self.links.children() {
            out.act(Action::Send(link, Message::Down));
        }
        self.leaving_ms = Some(self.local.now_ms + LEAVE_MS);
    }

    /// States of a job have changed, or something else that its order depends on.
    pub(super) fn judge(&mut self, out: &Outbox, job: JobId) {
        let cx = Context { local: &self.local, out };
        self.controller.iter_mut().for_each(|controller| controller.judge(cx, &mut self.relay, job));
    }

    /// On the controller: the configuration is taken whole, or not at all.
    fn handle_reloaded(
        &mut self,
        out: &Outbox,
        requester: Option<(NodeId, u64)>,
        result: Result<Box<Loaded>, Vec<String>>,
    ) {
        let Some(controller) = &mut self.controller else { return };
        if let Ok(loaded) = &result {
            self.local.config.loaded = Loaded::clone(loaded);
            self.links.configure(&mut self.local, out, loaded);
        }
        controller.handle_reloaded(Context { local: &self.local, out }, requester, result);
    }
}
