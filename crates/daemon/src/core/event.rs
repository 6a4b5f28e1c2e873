//! Events that a daemon's core takes in.

use tutti_os::cgroup::{Enforced, UsedUp};
use tutti_protocol::turns::TurnBatch;
use tutti_protocol::wire::{Kind, Reattach};
use tutti_protocol::writer::{Opened, Written};
use tutti_sched::fill_trial::PutOut;
use tutti_sched::market::NodeUse;
use tutti_shm::published::far::Wanted;

use super::config::Loaded;
use crate::gang::SwitchEvent;
use crate::ids::{ClientId, LinkId};
use crate::members::NodeId;
use crate::message::{JobId, Message, RegionPlace, Request, User};

/// Event that a daemon's core handles.
#[derive(Debug)]
pub enum Event {
    /// Time passes; at the latest when [`Core::wait_ms`](super::Core::wait_ms) says.
    Tick,
    /// A daemon has dialled us.
    Accepted(LinkId),
    /// The link that [`Action::Dial`](super::action::Action::Dial) asked for is there.
    Dialled(LinkId),
    /// The link is not to be had, and why not.
    DialFailed(String),
    /// The daemon that was dialled has no version of the wire in common with us; a line about both.
    OtherRelease(String),
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
    /// [`Action::Listen`](super::action::Action::Listen).
    Reattach(JobId, Reattach),
    /// A starter says something; nothing more is read from it until `Action::Listen`.
    Starter(JobId, Vec<(Kind, u32, Vec<u8>)>),
    /// A starter is dead, or could not be started.
    StarterGone(JobId, StarterEnd),
    /// The keeper's epilog has failed on this node, and how.
    EpilogFailed(String),
    /// The writer of a job's output files says something.
    Writer(JobId, WriterEvent),
    /// The switch thread says something.
    Gang(SwitchEvent),
    /// Which limits the kernel sees to, of a job's part here that is about to begin.
    Limited(JobId, Enforced),
    /// A filler is put out on this node, or may fill again.
    PutOut(JobId, Option<PutOut>),
    /// Users with daemons of their own share this machine with ours by turns: who, and whether `/proc` hides
    /// others, with whom nothing is shared.
    Sharers(Vec<u32>, bool),
    /// The switch thread has done this lately.
    Turns(TurnBatch),
    /// The sections of the configuration that hold for all nodes are on the disk.
    ConfigurationKept(std::sync::Arc<str>),
    /// On the controller: the list of drained nodes is kept (`Action::KeepDrains`), or why not.
    DrainsKept(Result<(), String>),
    /// On the controller: the reservations are kept (`Action::KeepReservations`), or why not.
    ReservationsKept(Result<(), String>),
    /// On the controller: the configuration has been read anew, or has these mistakes.
    Reloaded(Option<(NodeId, u64)>, Result<Box<Loaded>, Vec<String>>),
    /// How loaded this node is, each time its board is refreshed.
    Board(Box<(tutti_shm::board::Node, tutti_shm::board::Running)>),
    /// Use that jobs have made of this node's memory and network.
    Use(Box<NodeUse>),
    /// On the controller: the file of a job that waits has been written (`Action::Queue`), or why not.
    Filed(JobId, Result<(), String>),
    /// A user's program, of this user with these groups, wants a published region of another node.
    Region(ClientId, u32, Vec<u32>, Wanted),
    /// Answer to [`Action::ReachRegion`](super::action::Action::ReachRegion), or the number of a status.
    RegionReached(NodeId, u64, Result<RegionPlace, i32>),
    /// A user's program, of this user, wants to know the services of the cluster.
    Services(ClientId, u32),
    /// Answer to [`Action::ListServices`](super::action::Action::ListServices): users and names.
    ServicesListed(NodeId, u64, Vec<(u32, String)>),
}

/// How a starter has ended.
#[derive(Debug)]
pub enum StarterEnd {
    /// For the user: why it never began, or how it has died.
    Died(String),
    /// The kernel has killed it, since this memory was used up.
    UsedUp(UsedUp),
    /// The keeper's prolog has failed, so it was not started.
    Unprepared(String),
}

/// Report of a writer of output files.
#[derive(Debug)]
pub enum WriterEvent {
    /// The files are there, or not.
    Opened(Opened),
    /// How far it came with the batch.
    Written(Written),
    /// The writer has ended, or could not be started.
    Gone(String),
}
