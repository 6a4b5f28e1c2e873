//! Messages between daemons (as bytes, [`tutti_protocol::codec`]), and of users to daemons (as JSON,
//! in frames of the starter's wire). What may change in both: SPECIFICATION.md, "Releases".
//!
//! The protocol between daemons is one of states, not of events: whatever is said may be said again, and a
//! link that comes back begins with all that holds, both ways: what is to be goes down, what is, and the
//! orders that it follows, goes up. Nothing has to be remembered of a link that broke, and a controller that
//! has lost its memory gets it back from the nodes.
//!
//! | message | way | meaning |
//! |---|---|---|
//! | Hello | a node to whom it dials | who I am; and my number, if I have one |
//! | Welcome | head to a new node | your number, and who there is: dial your parent |
//! | Members | down | the list has changed |
//! | Orders | down | what is to be with these jobs |
//! | States | up | what is with these jobs on these nodes, several changes in one message; on a new link also their orders |
//! | Gone | up | a child does not answer any more |
//! | Route | any | something for one node, handed on hop by hop |
//! | Gang | any | what switch threads say to each other and datagrams do not carry |
//! | Down | down | the end of all daemons |
//! | Board | any | words of the nodes' boards that have changed |
//! | Alive | any | we live; and how long ago the controller did, as far as we know |

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tutti_os::cgroup::Enforced;
use tutti_os::session::Session;
use tutti_protocol::gpus::Gpus;
use tutti_protocol::wire::{Counted, Ended, Job, Reached, Report, Stalled, Text, Used};

use tutti_sched::Demand;
use tutti_sched::fill_trial::PutOut;
use tutti_sched::market::NodeUse;
pub use tutti_sched::{Bytes, JobId};

use crate::core::clocks::Elapsed;
use crate::members::{About, Members, NodeId};
use tutti_protocol::turns::TurnBatch;
use tutti_protocol::users::FreezeMethod;

pub mod room;

pub(crate) use room::{
    ASK_BYTES_MAX, MESSAGE_BYTES_MAX, SPAWNED_BYTES_MAX, STATE_BYTES_MAX, USER_REPORTED_BYTES_MAX,
    USER_STATE_BYTES_MAX,
};
pub use tutti_protocol::batch::{After, BATCH_AFTER_MAX, Batch, NAME_CHARS_MAX, NOTE_BYTES_MAX};
pub use tutti_protocol::end::{EndKind, Ending, JobEnd};
pub use tutti_protocol::environment::{Environment, Environments};
pub use tutti_protocol::output;
pub use tutti_protocol::terms::Terms;
pub use tutti_protocol::users::{
    Answer, Change, Control, Host, JobRow, JobState, NodeRow, Request, Return, Script, Submit, Suspended,
};

/// From daemon to daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The first on every link, from the one who dialled.
    Hello {
        /// Description of the node that dialled.
        about: About,
        /// Number of the node, if it has one and takes the other for its parent.
        node: Option<NodeId>,
        /// The number that it had, for a controller that does not know it.
        preferred: Option<NodeId>,
        /// The list as it knows it, for such a controller.
        known: Option<Members>,
    },
    /// The controller's answer to a node without a number.
    Welcome {
        /// The node's number.
        node: NodeId,
        /// List of the nodes.
        members: Members,
    },
    /// The controller does not want the node; one line.
    Refused(String),
    /// The list has changed.
    Members(Members),
    /// Orders: what is to be.
    Orders(Vec<(JobId, Order)>),
    /// States: what is.
    States {
        /// On a new link: the orders that hold here.
        orders: Vec<(JobId, Order)>,
        /// By part.
        states: Vec<State>,
    },
    /// A child does not answer.
    Gone {
        /// The child.
        node: NodeId,
        /// In which of its incarnations.
        incarnation: u64,
        /// Parent of the child, who says so.
        by: NodeId,
    },
    /// For one node.
    Route {
        /// Whom it is for.
        to: NodeId,
        /// Whom it is from.
        from: NodeId,
        /// Content of the message.
        body: Routed,
    },
    /// The neighbour's switch thread says something to ours: a word that has not come as a datagram.
    Gang {
        /// Number of the word on this link.
        number: u64,
        /// As the threads write them.
        #[serde(with = "serde_bytes")]
        word: Vec<u8>,
    },
    /// All daemons end.
    Down,
    /// Sign of life: there is nothing else to say.
    Alive {
        /// How long the sender has heard nothing of the controller, directly or by its parents, in ms.
        controller_silent_ms: u64,
    },
    /// Lines of the nodes' boards, as far as the neighbour does not know them yet.
    Board(Vec<BoardLine>),
    /// A kind more, as a later release may have it.
    #[cfg(feature = "next-wire")]
    Next(Vec<String>),
}

impl Message {
    /// The first version of the wire that has it: it does not go to a daemon of an earlier one.
    pub(crate) fn since(&self) -> u32 {
        match self {
            Message::Hello { .. }
            | Message::Welcome { .. }
            | Message::Refused(_)
            | Message::Members(_)
            | Message::Orders(_)
            | Message::States { .. }
            | Message::Gone { .. }
            | Message::Route { .. }
            | Message::Gang { .. }
            | Message::Down
            | Message::Alive { .. }
            | Message::Board(_) => 3,
            // No harm is done where it is left out: it goes to everybody.
            #[cfg(feature = "next-wire")]
            Message::Next(_) => 3,
        }
    }

    /// Name of the kind, for the log: what the message says may be a user's secret.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Message::Hello { .. } => "Hello",
            Message::Welcome { .. } => "Welcome",
            Message::Refused(_) => "Refused",
            Message::Members(_) => "Members",
            Message::Orders(_) => "Orders",
            Message::States { .. } => "States",
            Message::Gone { .. } => "Gone",
            Message::Route { .. } => "Route",
            Message::Gang { .. } => "Gang",
            Message::Down => "Down",
            Message::Alive { .. } => "Alive",
            Message::Board(_) => "Board",
            #[cfg(feature = "next-wire")]
            Message::Next(_) => "Next",
        }
    }
}

/// Words of a node's line on the boards that have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardLine {
    /// The node.
    pub node: NodeId,
    /// How long ago it was measured.
    pub age_ms: u64,
    /// Places and values; the time of the measurement is not among them.
    pub words: Vec<(u8, u64)>,
}

/// Message to one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Routed {
    /// A user of the sender asks the controller.
    Request {
        /// Number of the question at its node: an answer names it, and the same one asked again is one.
        request_id: u64,
        /// User who asks; the sender vouches for him.
        user: User,
        /// Request of the user.
        request: Request,
        /// Whether it has been asked before.
        again: bool,
    },
    /// The controller's answer.
    Answer {
        /// The question.
        request_id: u64,
        /// The answer.
        answer: Answer,
    },
    /// Reports of the controller for a job's front end, from number `first` on, until all have been heard.
    Reports {
        /// The job.
        job: JobId,
        /// The question that submitted it.
        request_id: u64,
        /// The controller's incarnation, in which the reports are numbered.
        incarnation: u64,
        /// Number of the first.
        first: u64,
        /// The reports.
        reports: Vec<Notice>,
    },
    /// The origin of a job has the reports below this number. Also asks whether there is still such a job.
    ReportsReceived {
        /// The job.
        job: JobId,
        /// The controller's incarnation.
        incarnation: u64,
        /// The number.
        below: u64,
        /// State of the files of its output, if it has any.
        #[serde(default)]
        output: Option<Box<output::OutputState>>,
    },
    /// A part of what a node's ranks wrote: the bytes of Output and Errors frames.
    Data {
        /// The job.
        job: JobId,
        /// Place of the first byte in all that the node has to say of the job.
        offset: u64,
        /// Place of the first byte that the node still has; a frame begins there.
        start: u64,
        /// The bytes.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// The origin has the bytes below `have`, and room to `limit`.
    Room {
        /// The job.
        job: JobId,
        /// Bytes that need not be kept any more; none: the origin knows nothing of the bytes before those
        /// that are kept.
        have: Option<u64>,
        /// Bytes that may be sent.
        limit: u64,
    },
    /// A piece of stdin for the ranks of a node that get it; empty: its end.
    Input {
        /// The job.
        job: JobId,
        /// Number of the piece, from 1; the next one is sent after [`Routed::InputTaken`].
        piece: u64,
        /// The bytes.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// For the controller's log: what the sender's switch thread has done lately.
    Turns(TurnBatch),
    /// For the controller: what jobs have had of the sender's memory and network.
    Use(Box<NodeUse>),
    /// Between a user's node and the origin of the job that he wants.
    Tunnel {
        /// Number of the user's connection at his node.
        id: u64,
        /// Whether it goes to the origin.
        to_origin: bool,
        /// Message of the tunnel.
        pipe: Pipe,
    },
    /// The sender has stored this version of the cluster's configuration.
    Configuration {
        /// See `tutti_protocol::settings::version`.
        version: u64,
    },
    /// A piece of stdin has been taken.
    InputTaken {
        /// The job.
        job: JobId,
        /// Number of the piece.
        piece: u64,
        /// Whether nobody reads any more.
        unwanted: bool,
    },
    /// A user of the sender wants a published region of the receiver.
    RegionWanted {
        /// Number of the user's connection at his node.
        id: u64,
        /// Client, and the region that it wants.
        client: RegionClient,
    },
    /// The answer.
    RegionGiven {
        /// The question.
        id: u64,
        /// Where it is reached, or the number of a status of `tutti_shm::published`.
        result: Result<RegionPlace, i32>,
    },
    /// For the controller: what the processes of a job have used on the sender, once, when they are gone.
    Used(JobId, Used),
    /// A user of the sender wants to know the services of the receiver.
    ServicesWanted {
        /// Number of the user's connection at his node.
        id: u64,
    },
    /// The answer.
    ServicesGiven {
        /// The question.
        id: u64,
        /// Users and names.
        services: Vec<(u32, String)>,
    },
}

/// A client of a published region; its node's daemon vouches for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionClient {
    /// User whose client it is.
    pub uid: u32,
    /// Groups of the client.
    pub groups: Vec<u32>,
    /// User of the region that is wanted.
    pub owner: u32,
    /// The region's name.
    pub name: String,
}

/// Where the server of a published region lets a client in, once.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionPlace {
    /// Where.
    pub address: SocketAddr,
    /// Key that the client shows.
    pub key: [u64; 2],
    /// Proof that the server shows.
    pub proof: [u64; 2],
}

impl std::fmt::Debug for RegionPlace {
    /// Without the secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RegionPlace({})", self.address)
    }
}

/// A user, as the kernel tells who is at the other end of the local socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The account whose uid this is, where it is not an account of its own: that of a range of `/etc/subuid`
    /// or of a user namespace.
    #[serde(default)]
    pub owner: Option<Account>,
}

/// Account, whose shares, limits and counts are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Account {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl User {
    /// One that is an account of its own.
    #[must_use]
    pub const fn new(uid: u32, gid: u32) -> Self {
        User { uid, gid, owner: None }
    }

    /// Account whose shares, limits and counts its jobs have. What it may do, and as whom they run, its own
    /// uid says.
    #[must_use]
    pub fn account(&self) -> Account {
        self.owner.unwrap_or(Account { uid: self.uid, gid: self.gid })
    }
}

/// Notice of the controller to the origin of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// Where it runs; the first of all.
    Placed {
        /// The nodes.
        nodes: Vec<NodeId>,
        /// User of the job.
        user: User,
        /// Nodes whose ranks get the front end's stdin.
        takers: Vec<NodeId>,
        /// The files that it writes to.
        #[serde(default)]
        output: Option<Box<output::OutputPlan>>,
        /// Whether it has a front end.
        #[serde(default)]
        has_front_end: bool,
    },
    /// For the front end as it is.
    Report(Report),
    /// The job goes on: so does its front end.
    Resumed,
    /// The job is over; what each node has had to write by then comes first.
    End {
        /// Exit status of the job.
        status: u8,
        /// Bytes of output by node.
        written: Vec<(NodeId, u64)>,
        /// Why, if not by itself.
        #[serde(default)]
        cause: Option<String>,
        /// Counts of the ranks of all nodes, if its user wants to know.
        #[serde(default)]
        counted: Option<Counted>,
        /// Number of the report, in this incarnation of the controller, whose warning says the cause already.
        #[serde(default)]
        cause_report: Option<u64>,
    },
}

/// A message of one of the two streams of a tunnel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pipe {
    /// User, and what he wants, from the user's side.
    pub open: Option<(User, Request)>,
    /// Place of the first byte.
    pub offset: u64,
    /// Bytes of frames.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
    /// Bytes of the other stream that have come.
    pub have: u64,
    /// Bytes of it that may come.
    pub limit: u64,
    /// Where this stream ends.
    pub end: Option<u64>,
    /// The tunnel is forgotten.
    pub over: bool,
}

/// Everything that a node needs to start its part of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The job, without a part.
    pub job: Job,
    /// User of the job.
    pub user: User,
    /// The user's other groups.
    pub groups: Vec<u32>,
    /// Limits and priorities of the session that has submitted it.
    #[serde(default)]
    pub session: Option<Box<Session>>,
    /// Environment of the front end.
    pub environment: Environment,
    /// Working directory of the job.
    pub directory: Text,
    /// File mode creation mask of the job.
    pub umask: u32,
    /// How it shares nodes and time.
    #[serde(default)]
    pub terms: Terms,
    /// Name of the job, its time and what it waits for.
    #[serde(default)]
    pub batch: Batch,
    /// The files of its output; none: its origin keeps the last of it.
    #[serde(default)]
    pub output: Option<output::Output>,
    /// Where its output goes.
    pub origin: NodeId,
    /// Nodes of the job, in order of ranks; none while it waits for them.
    pub nodes: Vec<NodeId>,
    /// World rank of each node's first rank.
    pub first_ranks: Vec<u32>,
    /// Random number that every packet of the job carries.
    pub key: u64,
    /// Whether nobody waits for it.
    pub detached: bool,
    /// When it was submitted, in ms since 1970.
    pub submitted_ms: u64,
    /// The question of its origin that submitted it.
    pub request_id: u64,
    /// Incarnation of each node's daemon that is to start it. One of a later incarnation does not
    /// ([`Order::incarnation`]): its part is there, or lost.
    pub incarnations: Vec<u64>,
    /// Whether it runs already, on its origin: its `mpiexec` has started it and has its output.
    pub enrolled: bool,
    /// Part that it has in scripts and their steps.
    #[serde(default)]
    pub steps: Steps,
    /// Demand on the scheduler, as JSON, of a job that may begin anew; empty: it may not.
    #[serde(default)]
    pub asked_for: String,
    /// GPUs that it has alone on each node where it has some, from the moment at which it has its nodes; of a
    /// step those of its job.
    #[serde(default)]
    pub gpu_sets: Vec<(NodeId, Gpus)>,
}

/// Part that a job has in scripts and their steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// Slots where its program is a script that runs once, on the first node. Its steps have these slots.
    pub allocation: Option<Allocation>,
    /// Job of which it is a step, in whose slots it runs, and with which it ends.
    pub owner: Option<JobId>,
}

/// Slots that a job has for the steps of its script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// Ranks on all nodes.
    pub ranks: u32,
    /// Ranks on each node, in order; none while it waits for its nodes.
    pub parts: Vec<(NodeId, u32)>,
}

impl Launch {
    /// Demand on the scheduler, if the job may begin anew.
    pub fn demand(&self) -> Option<Demand> {
        serde_json::from_str(&self.asked_for).ok()
    }

    /// Sets what the job, which may begin anew, asks the scheduler for then.
    pub fn set_demand(&mut self, demand: Option<&Demand>) {
        let text = |demand| serde_json::to_string(demand).expect("a demand is serialisable");
        self.asked_for = demand.map(text).unwrap_or_default();
    }

    /// GPUs that it has, by nodes.
    pub fn gpus(&self) -> &[(NodeId, Gpus)] {
        &self.gpu_sets
    }

    /// Gives it these GPUs.
    pub fn set_gpus(&mut self, gpus: Vec<(NodeId, Gpus)>) {
        self.gpu_sets = gpus;
    }

    /// GPUs that it has on a node.
    pub fn gpus_on(&self, node: NodeId) -> Gpus {
        let own = self.gpu_sets.iter().filter(|(other, _)| *other == node);
        own.fold(Gpus::NONE, |all, (_, gpus)| all.with(*gpus))
    }

    /// Number of ranks; of a script those that its steps may have.
    pub fn ranks(&self) -> u64 {
        self.steps
            .allocation
            .as_ref()
            .map_or_else(|| self.job.ranks(), |allocation| u64::from(allocation.ranks))
    }

    /// Nodes, in order, with the ranks that it has, or may have, there.
    pub fn places(&self) -> Vec<(NodeId, u64)> {
        match &self.steps.allocation {
            Some(allocation) => {
                allocation.parts.iter().map(|(node, ranks)| (*node, u64::from(*ranks))).collect()
            }
            None => self.nodes.iter().map(|node| (*node, self.ranks_on(*node))).collect(),
        }
    }

    /// Whether it has something of a node.
    pub fn has_node(&self, node: NodeId) -> bool {
        let parts = self.steps.allocation.iter().flat_map(|allocation| &allocation.parts);
        self.index(node).is_some() || parts.clone().any(|part| part.0 == node)
    }

    /// Place of a node among the nodes of the job.
    pub fn index(&self, node: NodeId) -> Option<usize> {
        self.nodes.iter().position(|other| *other == node)
    }

    /// Ranks on a node.
    pub fn ranks_on(&self, node: NodeId) -> u64 {
        let Some(index) = self.index(node) else { return 0 };
        let first = |index: usize| self.first_ranks.get(index).map(|first| u64::from(*first));
        let end = first(index + 1).unwrap_or(self.job.ranks());
        end.saturating_sub(first(index).unwrap_or(0))
    }
}

/// Order for a job: what is to be with it. The controller alone changes it; it only ever goes forward.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Grows with every change: an older one that comes late is not taken.
    pub version: u64,
    /// How to start it. Said once on a link.
    pub launch: Option<Arc<Launch>>,
    /// Where all ranks are reached: now they start.
    pub peers: Option<Reached>,
    /// Run, stand still, or die.
    pub run: Run,
    /// Hold of a job that stands still for a snapshot.
    pub hold: Option<Hold>,
    /// No rank is left anywhere: starters may leave.
    pub leave: bool,
    /// Size of the terminals, if it has changed since the start: rows, columns.
    pub window: Option<(u16, u16)>,
    /// Signals for all ranks, numbered from 1; the last few.
    pub signals: Vec<(u64, u32)>,
    /// The last barrier of PMI in which all ranks were, and what all have put for it.
    pub fence: Arc<Fence>,
    /// The last of the ranks that other ranks have asked for.
    #[serde(default)]
    pub spawn: Arc<SpawnOrder>,
    /// Line about ranks that wait for each other for ever: for the user of a job that its `mpiexec` has
    /// started on several virtual nodes.
    #[serde(default)]
    pub stuck: Option<Arc<str>>,
    /// Time of the job, for a controller that takes it over.
    #[serde(default)]
    pub clock: Clock,
    /// Why it ends, for a controller that takes it over.
    pub end: Option<End>,
    /// Daemons that start its parts in place of those that the launch names, which had not begun.
    #[serde(default)]
    pub renewed: Vec<Renewed>,
    /// The job is over everywhere: forget it.
    pub forget: bool,
    /// The job had terminated as of the hold of this number: its ranks are told.
    #[serde(default)]
    pub(crate) terminated_hold: Option<u64>,
    /// Values that were changed since its submission, for a controller that takes it over.
    #[serde(default)]
    pub amended: Amended,
}

/// Values of a job that were changed since its submission.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amended(Change);

impl Amended {
    /// Takes what a change names; the rest stays.
    pub fn add(&mut self, change: &Change) {
        let Change { time_ms, weight, name, begin_ms, detached } = change.clone();
        let known = &mut self.0;
        (known.time_ms, known.weight) = (time_ms.or(known.time_ms), weight.or(known.weight));
        (known.name, known.begin_ms) = (name.or(known.name.take()), begin_ms.or(known.begin_ms));
        known.detached |= detached;
    }

    /// The job's front end has left it alone.
    pub fn is_detached(&self) -> bool {
        self.0.detached
    }

    /// Gives a job these values.
    pub fn apply(&self, launch: &mut Launch) {
        let Change { time_ms, weight, name, begin_ms, detached } = self.0.clone();
        launch.detached |= detached;
        let mut batch = std::mem::take(&mut launch.batch);
        if time_ms.is_some() {
            batch.time_ms = time_ms;
            batch.timeout_ms = None;
            batch.time_from.clear();
        }
        if let Some(weight) = weight {
            (launch.terms.weight, batch.weight) = (weight, Some(weight));
        }
        if let Some(name) = name {
            batch.name = name;
        }
        if begin_ms.is_some() {
            batch.rules_mut().begin_ms = begin_ms;
        }
        launch.batch = batch.cleaned();
    }
}

impl Order {
    /// Number of the hold as of which the job had terminated.
    pub(crate) fn terminated(&self) -> Option<u64> {
        self.terminated_hold
    }

    /// The job had terminated as of the hold of this number.
    pub(crate) fn set_terminated(&mut self, hold: u64) {
        self.terminated_hold = Some(hold);
    }

    /// An order to run a job that was just submitted.
    pub fn of(launch: Arc<Launch>) -> Self {
        Order {
            version: 1,
            launch: Some(launch),
            peers: None,
            run: Run::Go,
            hold: None,
            leave: false,
            window: None,
            signals: Vec::new(),
            fence: Arc::default(),
            spawn: Arc::default(),
            stuck: None,
            clock: Clock::default(),
            end: None,
            renewed: Vec::new(),
            forget: false,
            terminated_hold: None,
            amended: Amended::default(),
        }
    }

    /// Values that were changed since the job's submission.
    pub fn amended(&self) -> &Amended {
        &self.amended
    }

    /// The same, to be changed.
    pub fn amended_mut(&mut self) -> &mut Amended {
        &mut self.amended
    }

    /// The daemon that is to start the part of a node of the job, and how many were to before it.
    pub fn incarnation(&self, launch: &Launch, node: NodeId) -> Option<(u64, u64)> {
        let renewed = self.renewed.iter().find(|renewed| renewed.node == node);
        renewed
            .map(|renewed| (renewed.incarnation, renewed.before))
            .or_else(|| Some((*launch.incarnations.get(launch.index(node)?)?, 0)))
    }
}

/// Time of a job, as far as the controller knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// When its ranks ran, in ms since 1970 by the controller's clock; said of a job with a time limit, and
    /// of one that was suspended.
    pub started_ms: Option<u64>,
    /// Suspension of the job, if it is suspended.
    pub suspended: Option<Suspended>,
    /// How long it has run, without the time suspended; counted of a job with a time limit.
    #[serde(default)]
    pub ran: Elapsed,
    /// Time since TERM, which was sent at its limit or because a user ends it.
    #[serde(default)]
    pub since_term: Option<Elapsed>,
    /// A user ends it: KILL comes so long after TERM, in ms.
    #[serde(default)]
    pub grace_ms: Option<u64>,
    /// Whether its ranks have got the signal that they are to get before the limit.
    #[serde(default)]
    pub warned: bool,
    /// The number of that TERM among the signals of the order. A controller that knows less may number it in
    /// another way: it is handed on once all the same.
    #[serde(default)]
    pub term: Option<u64>,
}

impl Clock {
    /// Keeps what has happened by another order of the job, older or newer.
    pub fn keep_facts(&mut self, other: &Clock) {
        self.warned |= other.warned;
        if self.since_term.is_none() {
            (self.since_term, self.grace_ms, self.term) = (other.since_term, other.grace_ms, other.term);
        }
    }

    /// As it goes over a link.
    #[must_use]
    pub fn sent(&self, boot_ms: u64) -> Self {
        let since_term = self.since_term.map(|since| since.sent(boot_ms));
        Clock { ran: self.ran.sent(boot_ms), since_term, ..*self }
    }

    /// As it is for whoever has it from a link.
    #[must_use]
    pub fn received(&self, boot_ms: u64) -> Self {
        let since_term = self.since_term.map(|since| since.received(boot_ms));
        Clock { ran: self.ran.received(boot_ms), since_term, ..*self }
    }
}

/// A node's daemon has died before it began its part of a job, and the one that follows it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    /// The node.
    pub node: NodeId,
    /// The incarnation of the daemon that is to begin.
    pub incarnation: u64,
    /// How many were to before it.
    pub before: u64,
}

/// A job stands still for a snapshot (`tutti_starter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Number of the hold: a later one has a higher one.
    pub number: u64,
    /// Bytes of messages' data that a node may tell.
    pub data_bytes: u64,
}

/// Answer of a node to a hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Of the hold.
    pub number: u64,
    /// View of its starter, as JSON; nothing any more when the controller has it.
    pub seen: Arc<str>,
    /// The ranks go on; whether they had stood still from the look until they were told to.
    pub released: Option<bool>,
}

/// A barrier of PMI, for programs of other MPIs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// Number of the barrier, from 1; 0: there has been none.
    pub number: u32,
    /// Keys and values that were put since the one before, as starters say them.
    #[serde(with = "serde_bytes")]
    pub puts: Vec<u8>,
}

/// Ranks that other ranks of a job on several nodes have asked for: one order after the other. What starters
/// say in it is theirs (`tutti_starter::spawning`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnOrder {
    /// Number of the order, from 1; 0: there has been none.
    pub number: u32,
    /// Place of the node whose starter has asked.
    pub by: u32,
    /// Request of that starter.
    #[serde(with = "serde_bytes")]
    pub ask: Vec<u8>,
    /// Number of the last ask of each node that has been ordered, by places.
    pub asked: Vec<u32>,
    /// Number of the last order of which it is known how it began everywhere.
    pub ended: u32,
    /// How that one did, on all nodes.
    #[serde(with = "serde_bytes")]
    pub outcomes: Vec<u8>,
}

/// End of a job, as far as the controller knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The node whose part ended it: filters of dead ranks may still write what they have. None: all is
    /// killed at once.
    pub by: Option<NodeId>,
    /// Exit status.
    pub status: u8,
    /// A user asked for it.
    pub by_user: bool,
    /// In which way it ends.
    #[serde(default)]
    pub way: Ending,
}

/// Run, stand still, or die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Run {
    /// Runs.
    Go,
    /// Stands still until it is told to go on.
    Stop,
    /// Is killed.
    Kill,
}

/// State of a job on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The job.
    pub job: JobId,
    /// The node.
    pub node: NodeId,
    /// How far it is.
    pub part: PartState,
}

/// How far a part of a job is. It only ever goes forward, but for `suspended`,
/// `stalled` and `idle`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartState {
    /// Grows with every change: an older one that comes late is not taken.
    pub version: u64,
    /// How far.
    pub phase: Phase,
    /// Where its ranks are reached, from [`Phase::Ready`] on.
    pub reached: Reached,
    /// Pids in the order of ranks, from [`Phase::Running`] on.
    pub pids: Vec<u32>,
    /// Cores in the order of ranks.
    pub cores: Vec<String>,
    /// All its processes stand still.
    pub suspended: bool,
    /// How they are held while others have the cores, when that is known.
    #[serde(default)]
    pub held_by: Option<FreezeMethod>,
    /// Which of its limits the kernel sees to, when that is known: not of a starter that an earlier daemon
    /// has started.
    #[serde(default)]
    pub enforced: Option<Enforced>,
    /// Reason for which a filler does not fill: it costs a job here too much.
    #[serde(default)]
    pub put_out: Option<PutOut>,
    /// The last snapshot.
    pub held: Option<Held>,
    /// All its ranks sleep until something comes for them.
    #[serde(default)]
    pub stalled: Option<Stalled>,
    /// Whether nothing of it has worked for as long as its user has said (`--on-idle`).
    #[serde(default)]
    pub idle: bool,
    /// Launches that its ranks are connected to, by their public numbers, as its starter says it.
    #[serde(default)]
    pub connected: Vec<u64>,
    /// The job is over here, with this status.
    pub ending: Option<u8>,
    /// Ranks that ended in a way that the user should read.
    pub ended: Vec<Ended>,
    /// Reason for which it could not be started.
    pub refused: Option<String>,
    /// The daemon that was to begin it died before it did. This one, of this incarnation, would.
    #[serde(default)]
    pub unbegun: Option<u64>,
    /// Lines for the user.
    pub warnings: Vec<String>,
    /// Exit status as far as this node knows.
    pub status: u8,
    /// The last barrier of PMI that all its ranks have reached.
    pub fence: Arc<Fence>,
    /// The last time that a rank has asked for more ranks, as its starter says it.
    #[serde(default)]
    pub ask: Arc<Fence>,
    /// How its share of the last [`SpawnOrder`] began, as its starter says it.
    #[serde(default)]
    pub spawned: Arc<Fence>,
    /// No rank was left here as of this order of new ranks, as its starter says it.
    #[serde(default)]
    pub empty: Option<u32>,
    /// Bytes of output, when it is over and they are known.
    pub written: Option<u64>,
    /// Counts of its ranks, if its user wants to know.
    #[serde(default)]
    counted: Option<Box<Counted>>,
    /// A field more, as a later release may have it.
    #[cfg(feature = "next-wire")]
    #[serde(default)]
    pub next: tutti_protocol::version::Next,
}

impl PartState {
    /// The first one of a part, of this version.
    pub fn of_version(version: u64) -> Self {
        PartState { version, ..PartState::default() }
    }

    /// The last one of a part that is over whatever its starter says: the line says why.
    pub fn given_up(text: String) -> Self {
        PartState {
            version: u64::MAX,
            phase: Phase::Over,
            ending: Some(1),
            status: 1,
            refused: Some(text),
            ..PartState::default()
        }
    }

    /// Counts of its ranks, as its starter says it.
    pub fn note_counted(&mut self, counted: Counted) {
        self.counted = Some(Box::new(counted));
    }

    /// Counts of its ranks, if its user wants to know.
    pub fn counted(&self) -> Option<Counted> {
        self.counted.as_deref().copied()
    }
}

/// How far a part of a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Preparation: its starter is being started.
    #[default]
    Preparing,
    /// Everything is there; the ranks start when all nodes are so far.
    Ready,
    /// Ranks are forked.
    Running,
    /// No rank is left here, and none can come.
    Left,
    /// End: nothing is left here.
    Over,
}
