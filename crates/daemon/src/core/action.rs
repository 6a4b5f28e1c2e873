//! Actions that a daemon's core asks for.

use std::collections::BTreeMap;

use tutti_os::session::Session;
use tutti_protocol::reservation::Reservation;
use tutti_protocol::turns::TurnBatch;
use tutti_protocol::users::Drained;
use tutti_protocol::wire::{Job, Kind};
use tutti_protocol::writer::Open;
use tutti_shm::published::far::Given;

use super::job_event::JobEvent;
use super::journal::Journal;
use super::record::{Queued, StarterRecord};
use crate::gang::Command;
use crate::ids::{ClientId, LinkId};
use crate::members::NodeId;
use crate::message::{Answer, JobId, Launch, Message, RegionClient, User};

/// Action for the shell to carry out.
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
    /// Say nothing more to this user.
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
    /// Give this command to the switch thread.
    Gang(Command),
    /// The ranks of a job run here: the switch thread is notified of them, and of the cgroups that the kernel
    /// says they are in.
    RanksStarted(JobId, Residents),
    /// The switch thread's neighbour, and whether it is the parent, is at the other end of this link.
    OpenSwitchLink(LinkId, NodeId, bool),
    /// Keep this for the case that the daemon dies and its starter does not.
    RecordStarter(JobId, Box<StarterRecord>),
    /// Keep this for the case that the daemon dies while a job's output is being written.
    RecordOutput(JobId, Box<Journal>),
    /// Remove what was kept of a job's output: it is not needed any more.
    ForgetOutput(JobId),
    /// Start a writer, as this user with these groups, for the output files of a job.
    OpenFiles(JobId, User, Vec<u32>, Box<Open>),
    /// Frames for it.
    WriteFiles(JobId, Vec<u8>),
    /// Let the writer go.
    CloseFiles(JobId),
    /// On the controller: keep a job that waits for nodes, for the controller after this one; none: it waits
    /// no more.
    Queue(JobId, Option<Box<Queued>>),
    /// On the controller: keep which nodes are drained, by name, for the controller after this one.
    KeepDrains(BTreeMap<String, Drained>),
    /// On the controller: keep the reservations for the controller after this one.
    KeepReservations(Vec<Reservation>),
    /// On the controller: send mail.
    SendMail(Box<Letter>),
    /// On the controller: keep the numbers of nodes by name for the next controller, before anything else.
    KeepNumbers(BTreeMap<String, NodeId>),
    /// Keep the sections of the configuration that hold for all nodes.
    KeepConfiguration(std::sync::Arc<str>),
    /// The limits of users on this node may be others: those who have jobs are held to what holds now.
    LimitUsers,
    /// On the controller: read the configuration anew; for this question, or because of a signal.
    Reload(Option<(NodeId, u64)>),
    /// Add an entry to the log of events.
    Log(JobEvent),
    /// Add what a node's switch thread has done to the log of turns.
    LogTurns(NodeTurns),
    /// Show a node on the board, as it was measured so many ms ago.
    ShowNode(NodeId, Box<(tutti_shm::board::Node, tutti_shm::board::Running)>, u64),
    /// Answer a program that wants a region of another node.
    GiveRegion(ClientId, Given),
    /// Have the server of a region of this node let a client of that node in, for its question of this
    /// number.
    ReachRegion(NodeId, u64, RegionClient),
    /// Answer a program that wants to know the services of the cluster.
    GiveServices(ClientId, String),
    /// List this node's services, for that node's question of this number.
    ListServices(NodeId, u64),
    /// Line for the person who keeps the machines.
    Info(String),
    /// The same, of what is not as it should be.
    Warn(String),
    /// The daemon's incarnation is over.
    Leave,
    /// The same, and why it cannot do its work.
    GiveUp(String),
}

/// Mail about a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The job.
    pub job: JobId,
    /// User of the job, as whom it is sent.
    pub user: User,
    /// The user's other groups.
    pub groups: Vec<u32>,
    /// Address.
    pub to: String,
    /// Subject, in one line.
    pub subject: String,
    /// Text.
    pub text: String,
    /// Limits of the user's session: the command that sends it has no others.
    pub session: Option<Box<Session>>,
}

/// The ranks of a job on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residents {
    /// The job's number in the name of its cgroup.
    pub number: u64,
    /// Number of the user.
    pub user: u32,
    /// User who answers for that user.
    pub account: u32,
    /// As the starter says, in order of ranks.
    pub pids: Vec<u32>,
    /// The starter has bound each to one core.
    pub bound: bool,
    /// Whether it is a filler.
    pub fill: bool,
}

/// A line of the log of turns.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct NodeTurns {
    /// The node, by name.
    pub node: String,
    /// Turns of that node.
    #[serde(flatten)]
    pub turns: TurnBatch,
}
