//! What a daemon thinks, without sockets, processes or a clock: [`Core::handle`] takes what happened and
//! when, and gives what is to be done. `crate::shell` does it; a simulator can do as if.
//!
//! | part | on | what it holds |
//! |---|---|---|
//! | [`links`] | every node | connections to the parent and the children, who is heard of |
//! | [`relay`] | every node | orders on their way down, states on their way up, merged |
//! | [`parts`] | nodes of a job | its starter, and output that its origin does not have yet |
//! | [`origin`] | the node where a job was submitted | its front end, its output, questions of users |
//! | [`tunnel`] | any node | users of other nodes at the origin of a job |
//! | [`controller`] | node 0 | the jobs: where they run, how far they are, what is to be with them |
//!
//! Who writes what: an [`Order`] is changed by the controller alone, a
//! [`PartState`](crate::message::PartState) by its node alone; everybody else has a copy. If a daemon stops
//! right here, copies are sent again when a link comes up. Its starters live on; the daemon that is started
//! in its place finds what it has kept of them ([`StarterRecord`]), and they come back to it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use tutti_os::cgroup::Enforced;
use tutti_protocol::wire::{Job, Kind, Reattach};
use tutti_protocol::writer::{Open, Opened, Written};

use crate::gang::{Command, SwitchEvent};
use crate::members::{About, Members, NodeId};
use crate::message::{Answer, JobId, Launch, Message, Order, Request, Routed, User};
use tutti_protocol::turns::TurnBatch;
use tutti_sched::{Demand, Policy};

mod controller;
mod gangs;
mod links;
mod origin;
mod outlet;
mod parts;
mod relay;
#[cfg(test)]
mod sim;
mod tunnel;

pub use controller::JobEvent;
pub use gangs::{NodeTurns, Residents};
use links::Role;

pub use crate::ids::{ClientId, LinkId};
pub use origin::Journal;

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// Time passes; at the latest when [`Core::wait_ms`] says.
    Tick,
    /// A daemon has dialled us.
    Accepted(LinkId),
    /// What [`Action::Dial`] asked for is there.
    Dialled(LinkId),
    /// It is not to be had, and why not.
    DialFailed(String),
    /// A daemon says something.
    Message(LinkId, Message),
    /// A connection is gone.
    LinkDown(LinkId),
    /// A user asks for something.
    Request(ClientId, User, Request),
    /// The front end of a job says something.
    Frame(ClientId, Kind, u32, Vec<u8>),
    /// A user's program has taken so many bytes.
    Taken(ClientId, usize),
    /// The process of a front end has been stopped, or goes on.
    FrontState(ClientId, bool),
    /// A user's program is gone.
    ClientGone(ClientId),
    /// A starter of an earlier incarnation of this daemon is back; nothing more is read from it until
    /// [`Action::Listen`].
    Reattach(JobId, Reattach),
    /// A starter says something; nothing more is read from it until [`Action::Listen`].
    Starter(JobId, Vec<(Kind, u32, Vec<u8>)>),
    /// A starter is dead, or could not be started.
    StarterGone(JobId, String),
    /// The writer of a job's output files says something.
    Writer(JobId, WriterEvent),
    /// The switch thread says something.
    Gang(SwitchEvent),
    /// Which limits the kernel sees to, of a job's part here that is about to begin.
    Limited(JobId, Enforced),
    /// What it has done lately.
    Turns(TurnBatch),
    /// On the controller: the file of a job that waits has been written ([`Action::Queue`]), or why not.
    Filed(JobId, Result<(), String>),
}

/// What a writer of output files says.
#[derive(Debug)]
pub enum WriterEvent {
    /// The files are there, or not.
    Opened(Opened),
    /// How far it came with the batch.
    Written(Written),
    /// It has ended, or could not be started.
    Gone(String),
}

/// What is to be done.
#[derive(Debug)]
pub enum Action {
    /// Connect to a daemon.
    Dial(std::net::SocketAddr),
    /// Say something to a daemon.
    Send(LinkId, Message),
    /// Close a connection.
    Close(LinkId),
    /// Answer a user.
    Answer(ClientId, Answer),
    /// Bytes of frames for a front end.
    ToClient(ClientId, Vec<u8>),
    /// A front end that was stopped is to go on.
    Continue(ClientId),
    /// Nothing more is said to this user.
    Release(ClientId),
    /// Start a starter and give it this job.
    Start(JobId, std::sync::Arc<Launch>, Box<Job>),
    /// The connection of this program is a starter's wire from now on, of a job that runs already.
    Enrol(ClientId, JobId),
    /// Say something to a starter.
    ToStarter(JobId, Kind, u32, Vec<u8>),
    /// Read from a starter.
    Listen(JobId),
    /// Kill a starter, if it lives; its death ends what it has started. Nothing of the job is kept here any
    /// more.
    End(JobId),
    /// Something for the switch thread.
    Gang(Command),
    /// The ranks of a job run here: the switch thread is told of them, and of the cgroups that the kernel
    /// says they are in.
    RanksStarted(JobId, Residents),
    /// The switch thread's neighbour, and whether it is the parent, is at the other end of this link.
    OpenSwitchLink(LinkId, NodeId, bool),
    /// Keep this for the case that the daemon dies and its starter does not.
    RecordStarter(JobId, Box<StarterRecord>),
    /// Keep this for the case that the daemon dies while a job's output is being written.
    RecordOutput(JobId, Box<Journal>),
    /// It is not needed any more.
    ForgetOutput(JobId),
    /// Start a writer, as this user with these groups, for the output files of a job.
    OpenFiles(JobId, User, Vec<u32>, Box<Open>),
    /// Frames for it.
    WriteFiles(JobId, Vec<u8>),
    /// It may go.
    CloseFiles(JobId),
    /// On the controller: keep a job that waits for nodes, for the controller after this one; none: it waits
    /// no more.
    Queue(JobId, Option<Box<Queued>>),
    /// Something for the log of events.
    Log(JobEvent),
    /// What a node's switch thread has done, for the log of turns.
    LogTurns(NodeTurns),
    /// One line for the person who keeps the machines.
    Info(String),
    /// The same, of what is not as it should be.
    Warn(String),
    /// The daemon's incarnation is over.
    Leave,
}

/// So often time passes at least, while there is something to do.
pub const TICK_MS: u64 = 100;
/// The same where ranks run and nothing changes.
const TICK_STEADY_MS: u64 = 1000;

/// Between the order to end all daemons and one's own end, in ms: it must be heard below, and the ends of
/// jobs above.
const LEAVE_MS: u64 = 300;

/// What a daemon is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// What it says of itself.
    pub about: About,
    /// Where the controller is; none: it is the controller.
    pub controller: Option<std::net::SocketAddr>,
    /// Children of a node in the control tree.
    pub arity: u32,
    /// A node that is not heard of for so long is lost, in ms.
    pub lost_ms: u64,
    /// Jobs on several nodes wait so long for a controller that is lost, in ms.
    pub keep_ms: u64,
    /// Whose daemon it is: besides the owner of a job, this user may do anything.
    pub owner: u32,
    /// Number of the first job.
    pub first_job: u64,
    /// The incarnation of the incarnation before this one, if all that is left of what it has begun is in
    /// `starters`.
    pub before: Option<u64>,
    /// What an earlier incarnation has kept of its starters.
    pub starters: Vec<(JobId, StarterRecord)>,
    /// What an earlier incarnation has kept of the output files of jobs that were submitted here.
    pub journals: Vec<(JobId, Journal)>,
    /// On the controller: the jobs that waited for nodes in an earlier incarnation of it.
    pub queued: Vec<(JobId, Queued)>,
    /// On the controller: how jobs get their nodes and rows, for who asks.
    pub policy: Policy,
    /// What a user is called, for lines that say who did it.
    pub user_name: fn(u32) -> Option<String>,
}

/// A job that waits for nodes, for the controller that follows this one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queued {
    /// Without nodes.
    pub launch: Launch,
    /// What it waits for.
    pub demand: Demand,
    /// It is to stand still from its start.
    pub suspended: bool,
    /// Of the jobs that it waits for: those that are over, with their status if that is known.
    #[serde(default)]
    pub over: Vec<(JobId, Option<u8>)>,
}

/// What is kept of a starter beyond the daemon's death.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StarterRecord {
    /// Our number.
    pub node: NodeId,
    /// What was to be with the job.
    pub order: Order,
    /// How many daemons the starter has had before.
    pub daemons_before: u64,
    /// It still lives. Says who reads it again.
    pub alive: bool,
}

/// A daemon that has stood still has read within this time what had come by then, in ms.
const STALE_MS: u64 = 1000;

/// A link says Alive at most so rarely: others may hold a shorter silence for a death.
const ALIVE_MS_MAX: u64 = 1250;

impl Config {
    /// So often each link is told that we live.
    pub fn alive_ms(&self) -> u64 {
        (self.lost_ms / 4).clamp(TICK_MS / 2, ALIVE_MS_MAX)
    }

    /// Who is told now need not be told a little later.
    fn nearly_alive_ms(&self) -> u64 {
        self.alive_ms() * 3 / 4
    }

    /// A daemon that has stood still (a laptop that slept, a clock that was set) does not hold the others'
    /// silence against them: between two events no more time passes than this.
    fn step_ms(&self) -> u64 {
        (2 * self.alive_ms()).max(5 * TICK_MS)
    }
}

/// The daemon's mind.
#[derive(Debug)]
pub struct Core {
    config: Config,
    /// Our own time: it goes on in small steps only.
    now_ms: u64,
    /// What the clock says, in ms since 1970.
    wall_ms: u64,
    /// Our own time at the last tick.
    ticked_ms: u64,
    /// When the switch thread was last told that somebody above lives.
    liveness_sent_ms: u64,
    /// When the controller was last heard of, by us or by whoever is above.
    controller_contact_ms: u64,
    /// After we have stood still: until when questions that come may be old ones, which nobody asks any more.
    stale_until_ms: u64,
    /// Our number, as soon as we have one.
    me: Option<NodeId>,
    /// The number that an earlier incarnation had.
    preferred: Option<NodeId>,
    members: Option<Members>,
    links: links::Links,
    relay: relay::Relay,
    parts: parts::Parts,
    origin: origin::Origin,
    tunnels: tunnel::Tunnels,
    controller: Option<controller::Controller>,
    /// The daemons are to end, when all who must hear it have.
    leaving_ms: Option<u64>,
    actions: VecDeque<Action>,
}

impl Core {
    /// A daemon that has just been started, at a time in ms since 1970.
    pub fn new(mut config: Config, now_ms: u64) -> Self {
        let is_controller = config.controller.is_none();
        let journals = std::mem::take(&mut config.journals);
        let (starters, queued) = (std::mem::take(&mut config.starters), std::mem::take(&mut config.queued));
        let mut core = Core {
            now_ms,
            wall_ms: now_ms,
            ticked_ms: now_ms,
            liveness_sent_ms: 0,
            controller_contact_ms: now_ms,
            stale_until_ms: 0,
            preferred: starters.first().map(|(_, starters)| starters.node),
            me: is_controller.then_some(NodeId::CONTROLLER),
            members: is_controller.then(|| Members::new(config.arity, config.about.clone(), now_ms)),
            links: links::Links::default(),
            relay: relay::Relay::default(),
            parts: parts::Parts::default(),
            origin: origin::Origin::default(),
            tunnels: tunnel::Tunnels::default(),
            controller: is_controller.then(|| controller::Controller::new(config.first_job, now_ms)),
            leaving_ms: None,
            actions: VecDeque::new(),
            config,
        };
        core.forward_members();
        core.take_queue(queued);
        core.origin.begin(core.config.about.incarnation, now_ms, journals);
        for (job, starters) in starters {
            core.restore_part(job, starters);
        }
        core.flush();
        core.dial_if_needed();
        core
    }

    /// Something happened.
    pub fn handle(&mut self, now_ms: u64, event: Event) {
        let passed_ms = now_ms.saturating_sub(self.wall_ms);
        self.now_ms += passed_ms.min(self.config.step_ms());
        self.wall_ms = now_ms;
        if passed_ms >= self.config.lost_ms {
            self.stale_until_ms = self.now_ms + STALE_MS;
        }
        match event {
            Event::Tick => {
                self.ticked_ms = self.now_ms;
                self.tick_links();
                self.tick_origin();
                self.tick_parts();
                self.tick_controller();
                if self.leaving_ms.is_some_and(|leaving_ms| self.now_ms >= leaving_ms) {
                    self.act(Action::Leave);
                }
            }
            Event::Accepted(link) => self.links.accept(link, self.now_ms),
            Event::Dialled(link) => self.handle_dialled(link),
            Event::DialFailed(why) => self.handle_dial_failed(&why),
            Event::Message(link, message) => self.handle_message(link, message),
            Event::LinkDown(link) => self.handle_link_down(link),
            Event::Request(client, user, request) => self.handle_request(client, user, request),
            Event::Frame(client, kind, number, payload) => self.handle_frame(client, kind, number, &payload),
            Event::Taken(client, bytes) => self.handle_taken(client, bytes),
            Event::FrontState(client, stopped) => self.handle_front_state(client, stopped),
            Event::ClientGone(client) => self.handle_client_gone(client),
            Event::Reattach(job, back) => self.handle_back(job, &back),
            Event::Starter(job, frames) => self.handle_starter(job, frames),
            Event::StarterGone(job, why) => self.handle_starter_gone(job, &why),
            Event::Writer(job, event) => self.handle_writer(job, event),
            Event::Gang(event) => self.handle_gang(event),
            Event::Limited(job, enforced) => self.record_enforced(job, enforced),
            // Only the log misses them, should they not arrive.
            Event::Filed(job, filed) => self.handle_filed(job, &filed),
            Event::Turns(turns) => self.route(NodeId::CONTROLLER, Routed::Turns(turns)),
        }
        self.flush();
    }

    /// How long after this time, in ms since 1970, a [`Event::Tick`] is due. Where nothing is done, only
    /// silence counts.
    pub fn wait_ms(&self, now_ms: u64) -> u64 {
        let (alive_ms, lost_ms) = (self.config.alive_ms(), self.config.lost_ms);
        let due_ms = match self.is_quiet() {
            true => self.links.due_ms(alive_ms, lost_ms).unwrap_or(self.ticked_ms + alive_ms),
            false => self.ticked_ms + TICK_MS,
        };
        // Neighbours that say that they live put off what the links wait for, but not what parts do.
        let due_ms = if self.parts.is_empty() { due_ms } else { due_ms.min(self.ticked_ms + TICK_STEADY_MS) };
        // A clock that was set back is looked at anew at once.
        let passed_ms = now_ms.checked_sub(self.wall_ms).unwrap_or(alive_ms);
        due_ms.saturating_sub(self.now_ms).min(alive_ms).saturating_sub(passed_ms)
    }

    /// No change of a job or of the tree is under way here: ranks may run.
    fn is_quiet(&self) -> bool {
        let has_place = self.me.is_some() && (self.controller.is_some() || self.links.upwards().is_some());
        let has_jobs =
            self.controller.as_ref().is_some_and(controller::Controller::is_busy) || !self.tunnels.is_empty();
        has_place
            && self.links.is_settled()
            && self.parts.is_settled()
            && self.origin.is_idle()
            && !has_jobs
            && self.leaving_ms.is_none()
    }

    /// What is to be done next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Our number, as soon as we have one.
    pub fn node(&self) -> Option<NodeId> {
        self.me
    }

    /// Nodes that are there, as far as we know.
    pub fn nodes_alive(&self) -> usize {
        self.members.as_ref().map_or(0, |members| members.alive().count())
    }

    /// Nothing of any job is left here.
    pub fn is_idle(&self) -> bool {
        self.parts.is_empty() && self.origin.is_idle()
    }

    /// This user's program is the front end of a job.
    pub fn is_front_end(&self, client: ClientId) -> bool {
        self.origin.is_front_end(client) || self.tunnels.has_near(client)
    }

    fn act(&mut self, action: Action) {
        if let Some(action) = self.take_for_tunnel(action) {
            self.actions.push_back(action);
        }
    }

    /// Hands something to a node, which may be ourselves.
    fn route(&mut self, to: NodeId, body: Routed) {
        let Some(me) = self.me else { return };
        if to == me {
            return self.handle_routed(me, body);
        }
        self.pass_on(to, me, body);
    }

    /// What cannot be passed on now is dropped: whoever said it says it again.
    fn pass_on(&mut self, to: NodeId, from: NodeId, body: Routed) {
        let (Some(me), Some(members)) = (self.me, &self.members) else { return };
        let Some(hop) = members.hop(me, to) else { return };
        if let Some(link) = self.links.link_to(hop) {
            self.act(Action::Send(link, Message::Route { to, from, body }));
        }
    }

    fn handle_routed(&mut self, from: NodeId, body: Routed) {
        match body {
            Routed::Request { request_id, user, request, again } => {
                self.handle_routed_request(from, request_id, user, request, again)
            }
            Routed::Answer { request_id, answer } => self.handle_answer(request_id, answer),
            Routed::Reports { job, request_id, incarnation, first, reports } => {
                self.handle_reports(job, request_id, incarnation, first, reports)
            }
            Routed::ReportsReceived { job, incarnation, below, output } => {
                self.handle_output_state(job, output);
                self.handle_contact(from, job, incarnation, below);
            }
            Routed::Data { job, offset, start, bytes } => self.handle_data(from, job, offset, start, &bytes),
            Routed::Room { job, have, limit } => self.handle_room(job, have, limit),
            Routed::Input { job, piece, bytes } => self.handle_input(job, piece, bytes),
            Routed::Turns(turns) => self.handle_turns(from, turns),
            Routed::Tunnel { id, to_origin, pipe } => self.handle_tunnel(from, id, to_origin, pipe),
            Routed::InputTaken { job, piece, unwanted } => {
                self.handle_input_taken(from, job, piece, unwanted)
            }
        }
    }

    fn handle_message(&mut self, link: LinkId, message: Message) {
        // What was still under way on a link that has been closed is as if it had not been said.
        let Some(role) = self.links.record_contact(link, self.now_ms) else { return };
        let (from_above, from_below) = (role == Role::Up, matches!(role, Role::Child(_)));
        if self.links.upwards() == Some(link) {
            if self.links.parent() == Some(NodeId::CONTROLLER) {
                self.controller_contact_ms = self.now_ms;
            }
            self.forward_liveness();
        }
        match message {
            Message::Hello { about, node, preferred, known } if role == Role::Unidentified => {
                self.handle_hello(link, about, node, preferred, known)
            }
            Message::Welcome { node, members } if from_above => self.handle_welcome(link, node, members),
            Message::Refused(text) if from_above => {
                self.act(Action::Warn(format!("the controller refuses this node: {text}")));
                self.act(Action::Leave);
            }
            Message::Members(members) if from_above => self.handle_members(members),
            Message::Orders(orders) if from_above => self.handle_orders(orders),
            Message::States { orders, states } if from_below => {
                orders.into_iter().for_each(|(job, order)| self.handle_known(job, order));
                states.into_iter().for_each(|state| self.relay.record_batch(state));
            }
            Message::Gone { node, incarnation, by } if from_below => self.handle_gone(node, incarnation, by),
            // Whoever still wants to know asks again.
            Message::Route { body: Routed::Request { .. }, .. } if self.now_ms < self.stale_until_ms => {}
            Message::Route { to, from, body } if Some(to) == self.me => self.handle_routed(from, body),
            Message::Route { to, from, body } => self.pass_on(to, from, body),
            Message::Gang { number, word } => self.act(Action::Gang(Command::Message(link, number, word))),
            Message::Down if from_above => self.leave_all(),
            Message::Alive { controller_silent_ms } => {
                if from_above {
                    self.controller_contact_ms =
                        self.controller_contact_ms.max(self.now_ms.saturating_sub(controller_silent_ms));
                }
                self.answer_alive(link);
            }
            // Said by who is mistaken about the tree: the next link will be right.
            _ => {}
        }
    }

    /// All daemons below end, and then we do.
    fn leave_all(&mut self) {
        let children: Vec<LinkId> = self.links.children().map(|(link, _)| link).collect();
        children.into_iter().for_each(|link| self.act(Action::Send(link, Message::Down)));
        self.leaving_ms = Some(self.now_ms + LEAVE_MS);
    }

    /// What has changed goes where it is needed: once, however many things have changed.
    fn flush(&mut self) {
        // The controller turns states into orders, orders change parts, and parts of this node have states.
        for _ in 0..8 {
            if !self.flush_states() & !self.flush_orders() {
                break;
            }
        }
        self.flush_parts();
        self.flush_tunnels();
    }
}
