//! What a daemon thinks, without sockets, processes or a clock: [`Core::handle`] takes what happened and when, and gives what is to
//! be done. `crate::shell` does it; a simulator can do as if.
//!
//! | part | on | what it holds |
//! |---|---|---|
//! | [`links`] | every node | connections to the parent and the children, who is heard of |
//! | [`relay`] | every node | orders on their way down, states on their way up, merged |
//! | [`parts`] | nodes of a job | its starter, and output that its home does not have yet |
//! | [`home`] | the node where a job was submitted | its front end, its output, questions of users |
//! | [`tunnel`] | any node | users of other nodes at the home of a job |
//! | [`head`] | node 0 | the jobs: where they run, how far they are, what is to be with them |
//!
//! Who writes what: an [`Order`](crate::message::Order) is changed by the head alone, a [`PartState`](crate::message::PartState) by
//! its node alone; everybody else has a copy. If a daemon stops right here, copies are sent again when a link comes up, and
//! what only it knew (its parts) ends with it.

use std::collections::VecDeque;

use tutti_node::wire::{Job, Kind};

use crate::gang::{Command, Said};
use crate::members::{About, Members, NodeId};
use crate::message::{Answer, JobId, Launch, Message, Request, Routed, State, User};

mod gangs;
mod head;
mod home;
mod links;
mod outlet;
mod parts;
mod relay;
mod tunnel;

pub use head::JobEvent;
use head::placement;

/// A connection between daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// A connection of a user's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// Time passes; at least every [`TICK_MS`].
    Tick,
    /// A daemon has dialled us.
    Accepted(LinkId),
    /// What [`Action::Dial`] asked for is there.
    Dialled(LinkId),
    /// It is not to be had.
    DialFailed,
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
    /// A starter says something; nothing more is read from it until [`Action::Listen`].
    Starter(JobId, Vec<(Kind, u32, Vec<u8>)>),
    /// A starter is dead, or could not be started.
    StarterGone(JobId, String),
    /// The switch thread says something.
    Gang(Said),
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
    /// Say something to a starter.
    ToStarter(JobId, Kind, u32, Vec<u8>),
    /// Read from a starter.
    Listen(JobId),
    /// Kill a starter; its death ends what it has started.
    End(JobId),
    /// Something for the switch thread.
    Gang(Command),
    /// Something for the log of events.
    Log(JobEvent),
    /// One line for the person who keeps the machines.
    Say(String),
    /// The daemon's life is over.
    Leave,
}

/// At least so often time passes.
pub const TICK_MS: u64 = 100;

/// Between the order to end all daemons and one's own end, in ms: it must be heard below, and the ends of jobs above.
const LEAVE_MS: u64 = 300;

/// What a daemon is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// What it says of itself.
    pub about: About,
    /// Where the head is; none: it is the head.
    pub head: Option<std::net::SocketAddr>,
    /// Children of a node in the control tree.
    pub arity: u32,
    /// A node that is not heard of for so long is lost, in ms.
    pub lost_ms: u64,
    /// Whose daemon it is: besides the owner of a job, this user may do anything.
    pub owner: u32,
    /// Number of the first job.
    pub first_job: u64,
}

/// The daemon's mind.
#[derive(Debug)]
pub struct Core {
    config: Config,
    now_ms: u64,
    /// Our number, as soon as we have one.
    me: Option<NodeId>,
    members: Option<Members>,
    links: links::Links,
    relay: relay::Relay,
    parts: parts::Parts,
    home: home::Homes,
    tunnels: tunnel::Tunnels,
    head: Option<head::Head>,
    /// The daemons are to end, when all who must hear it have.
    leaving_ms: Option<u64>,
    actions: VecDeque<Action>,
}

impl Core {
    /// A daemon that has just been started, at a time in ms since 1970.
    pub fn new(config: Config, now_ms: u64) -> Self {
        let is_head = config.head.is_none();
        let mut core = Core {
            now_ms,
            me: is_head.then_some(NodeId::HEAD),
            members: is_head.then(|| Members::new(config.arity, config.about.clone())),
            links: links::Links::default(),
            relay: relay::Relay::default(),
            parts: parts::Parts::default(),
            home: home::Homes::default(),
            tunnels: tunnel::Tunnels::default(),
            head: is_head.then(|| head::Head::new(config.first_job)),
            leaving_ms: None,
            actions: VecDeque::new(),
            config,
        };
        core.tell_gang_of_members();
        core.dial_if_needed();
        core
    }

    /// Something happened.
    pub fn handle(&mut self, now_ms: u64, event: Event) {
        self.now_ms = self.now_ms.max(now_ms);
        match event {
            Event::Tick => {
                self.tick_links();
                self.tick_home();
                self.tick_parts();
                self.tick_head();
                if self.leaving_ms.is_some_and(|leaving_ms| self.now_ms >= leaving_ms) {
                    self.act(Action::Leave);
                }
            }
            Event::Accepted(link) => self.links.accept(link, self.now_ms),
            Event::Dialled(link) => self.handle_dialled(link),
            Event::DialFailed => self.links.dial_failed(self.now_ms),
            Event::Message(link, message) => self.handle_message(link, message),
            Event::LinkDown(link) => self.handle_link_down(link),
            Event::Request(client, user, request) => self.handle_request(client, user, request),
            Event::Frame(client, kind, number, payload) => self.handle_frame(client, kind, number, &payload),
            Event::Taken(client, bytes) => self.handle_taken(client, bytes),
            Event::FrontState(client, stopped) => self.handle_front_state(client, stopped),
            Event::ClientGone(client) => self.handle_client_gone(client),
            Event::Starter(job, frames) => self.handle_starter(job, frames),
            Event::StarterGone(job, why) => self.handle_starter_gone(job, &why),
            Event::Gang(said) => self.handle_gang(said),
        }
        self.flush();
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
        self.parts.is_empty() && self.home.is_idle()
    }

    /// This user's program is the front end of a job.
    pub fn is_front_end(&self, client: ClientId) -> bool {
        self.home.is_front_end(client) || self.tunnels.has_near(client)
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
            Routed::Ask { ask, user, request } => self.handle_ask(from, ask, user, request),
            Routed::Answer { ask, answer } => self.handle_answer(ask, answer),
            Routed::Reports { job, first, reports } => self.handle_reports(job, first, reports),
            Routed::Heard { job, below } => self.handle_heard(job, below),
            Routed::Data { job, offset, bytes } => self.handle_data(from, job, offset, &bytes),
            Routed::Room { job, have, limit } => self.handle_room(job, have, limit),
            Routed::Input { job, piece, bytes } => self.handle_input(job, piece, bytes),
            Routed::Tunnel { id, to_home, pipe } => self.handle_tunnel(from, id, to_home, pipe),
            Routed::InputTaken { job, piece, unwanted } => {
                self.handle_input_taken(from, job, piece, unwanted)
            }
        }
    }

    fn handle_message(&mut self, link: LinkId, message: Message) {
        self.links.heard(link, self.now_ms);
        if self.links.upwards() == Some(link) {
            self.act(Action::Gang(Command::Heard));
        }
        match message {
            Message::Hello { about, node } => self.handle_hello(link, about, node),
            Message::Welcome { node, members } => self.handle_welcome(link, node, members),
            Message::Refused(text) => {
                self.act(Action::Say(format!("the head does not take this node: {text}")));
                self.act(Action::Leave);
            }
            Message::Members(members) => self.handle_members(members),
            Message::Orders { whole, orders } => self.handle_orders(whole, orders),
            Message::States(states) => self.handle_states(states),
            Message::Gone(node) => self.handle_gone(node),
            Message::Route { to, from, body } if Some(to) == self.me => self.handle_routed(from, body),
            Message::Route { to, from, body } => self.pass_on(to, from, body),
            Message::Gang(word) => self.act(Action::Gang(Command::Down(word))),
            Message::GangReport(report) => self.handle_gang_report(link, report),
            Message::Down if self.head.is_none() => self.leave_all(),
            Message::Down | Message::Alive => {}
        }
    }

    /// All daemons below end, and then we do.
    fn leave_all(&mut self) {
        let children: Vec<LinkId> = self.links.children().map(|(link, _)| link).collect();
        children.into_iter().for_each(|link| self.act(Action::Send(link, Message::Down)));
        self.leaving_ms = Some(self.now_ms + LEAVE_MS);
    }

    /// States that came from below, or are our own.
    fn handle_states(&mut self, states: Vec<State>) {
        for state in states {
            self.relay.note(state);
        }
    }

    /// What has changed goes where it is needed: once, however many things have changed.
    fn flush(&mut self) {
        // The head turns states into orders, orders change parts, and parts of this node have states.
        for _ in 0..8 {
            if !self.flush_states() & !self.flush_orders() {
                break;
            }
        }
        self.flush_parts();
        self.flush_tunnels();
    }
}
