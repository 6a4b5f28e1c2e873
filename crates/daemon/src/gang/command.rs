//! Messages between the main loop and the switch thread: [`Command`] down, [`SwitchEvent`] up.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tutti_os::cgroup::JobGroup;
use tutti_protocol::users::FreezeMethod;
use tutti_protocol::wire::ContextStep;
use tutti_sched::controller::{Lags, Notice};
use tutti_sched::market::{NodePrices, NodeUse};
use tutti_sched::shares::{Owner, Standing};
use tutti_sched::{
    Demand, JobId, NodeId, Policy, Processor, SLICE_DEFAULT_NS, Slots, SubmitError, Wait, Window,
};

use super::fetcher::Handover;
use super::switch_links::Neighbour;
use super::wishes::Wish;
use crate::ids::LinkId;

/// How gangs are scheduled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GangSettings {
    /// How long a row of the matrix runs, in ns.
    pub slice_ns: u64,
    /// The paper's protocol, with a barrier after each step.
    pub strict: bool,
    /// Switch at the end of every slice, also to the same row.
    pub force_switch: bool,
    /// How jobs get their nodes and rows.
    pub policy: Policy,
    /// On the controller: numbers of switches and plans begin here at the earliest.
    #[serde(default)]
    pub first: u64,
}

impl Default for GangSettings {
    fn default() -> Self {
        GangSettings {
            slice_ns: SLICE_DEFAULT_NS,
            strict: false,
            force_switch: false,
            policy: Policy::default(),
            first: 0,
        }
    }
}

/// Resources of a node for jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeResources {
    /// Whether the node is there.
    pub alive: bool,
    /// Cores of the node.
    pub slots: u32,
    /// Memory of the node; 0: not known.
    pub memory_bytes: u64,
    /// How many GPUs it has.
    pub gpus: u32,
}

/// Command from the main loop to the switch thread.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// The nodes of the cluster.
    Members {
        /// Ours.
        me: NodeId,
        /// Children of a node in the tree.
        arity: u32,
        /// By number.
        nodes: Vec<NodeResources>,
    },
    /// On the controller: no new ranks come to these nodes, and to all others they do.
    Drain(Vec<NodeId>),
    /// On the controller: reservations that are not over, by number; their nodes, and in how many ms they
    /// begin.
    Reserve(Vec<(u32, Vec<NodeId>, u64)>),
    /// On the controller: a job that waits runs so long at most, in ns; none: for ever.
    Lasts(JobId, Option<u64>),
    /// A job with parts on this node or below.
    Job(JobId, Vec<NodeId>),
    /// The ranks of a job run here.
    RanksStarted(JobId, Box<LocalRanks>),
    /// Pages that the starters of a job here have for the switch thread.
    Pages(JobId, Handover),
    /// End of a job's part: nothing of it is left here.
    PartEnded(JobId),
    /// End of a job: nothing of it is left anywhere.
    JobForgotten(JobId),
    /// On the controller: a job wants nodes; or it runs already, on given ones.
    Submit(JobId, Box<Demand>, bool),
    /// On the controller: the ranks of a job run on all its nodes.
    JobStarted(JobId),
    /// On the controller: no rank of a job is left anywhere, or it does not wait any more.
    JobOver(JobId),
    /// On the controller: a job that waits wants no nodes any more; it is answered.
    Withdraw(JobId),
    /// On the controller: a job has another weight.
    Weight(JobId, u32),
    /// On the controller: a job is suspended, or goes on.
    Suspend(JobId, bool),
    /// On the controller: two jobs are connected to each other, or no longer.
    Connected(JobId, JobId, bool),
    /// A link to a neighbour in the tree has come up.
    OpenLink(Neighbour),
    /// A link is gone.
    CloseLink(LinkId),
    /// A word that has come over a link, with its number.
    Message(LinkId, u64, Vec<u8>),
    /// A filler may run beside those who have its slots, or not: it costs them too much, or that is tried.
    MayFill(JobId, bool),
    /// A process of a job here is heard, which waits for another job here now and then.
    Wish(Wish),
    /// The starter of a job here has done what was asked of its channels.
    ContextDone(JobId, ContextDone),
    /// The parent lives.
    ParentAlive,
    /// A child is there (again): it is told what is in force.
    ChildJoined(NodeId),
    /// On the controller: the machine is shared with daemons of other users, or no longer.
    Share(Option<Window>),
    /// On the controller: another configuration holds.
    Configure {
        /// How long a row of the matrix runs, in ns.
        slice_ns: u64,
        /// Half of what users have used is forgotten after so long, in ns; 0: at once.
        half_life_ns: u64,
    },
    /// On the controller: what users had used so long ago, in ns each, under an earlier controller.
    RestoreUse(Vec<(u32, u64)>, u64),
    /// On the controller: the shares of a job's user are others.
    Owner(JobId, Owner),
    /// On the controller: what jobs have had of a node's memory and network.
    Use(NodeId, Box<NodeUse>),
    /// The end: everything is thawed.
    Stop,
}

/// Answer of a starter about the channels of its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextDone {
    /// Step that is done.
    pub step: ContextStep,
    /// Generation of the switch for which it was asked.
    pub generation: u64,
    /// Whether they are steady, copied, or unchanged.
    pub is_well: bool,
}

/// How a job on a node stands to fillers, by the kernel's word on its cgroups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filling {
    /// Stands beside fillers: it is none, and the kernel does not put them behind it.
    #[default]
    Beside,
    /// Stands before fillers: it is none, and they are behind it.
    Before,
    /// Filler, behind everybody who is [`Self::Before`].
    Behind,
    /// Filler that cannot be put behind anybody.
    Unable,
}

/// The ranks of a job that run here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalRanks {
    /// Number of their user.
    pub user: u32,
    /// User who answers for that one.
    pub account: u32,
    /// Cgroups of the ranks, if they are in some: one, or one for each virtual node.
    pub groups: Vec<Arc<JobGroup>>,
    /// Pids of the ranks, in order. Who says so may be a user: they count only as far as the kernel says the
    /// same.
    pub pids: Vec<u32>,
    /// The starters of those, as the kernel says.
    pub starters: Vec<u32>,
    /// Each has a core of its own, and is moved to those of the job's slots.
    pub bound: bool,
    /// How it stands to fillers.
    pub place: Filling,
}

/// Service that a job has had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServedJob {
    /// Which.
    pub job: JobId,
    /// Slices that the job has had.
    pub turns: u64,
    /// Weight of the job beside the others, in thousandths.
    pub effective_milli: u64,
    /// How much of its slots' time it uses, in thousandths; none: not known yet.
    pub busy_permille: Option<u32>,
    /// Time in which it was to run and was not idle, in ms.
    pub served_ms: u64,
}

/// Report on what jobs and users have had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedReport {
    /// Each job.
    pub jobs: Vec<ServedJob>,
    /// Users with jobs that can run.
    pub users: Vec<Standing>,
    /// Use of the slots by all users, in ns.
    pub used: Vec<(u32, u64)>,
    /// Demand for the slots.
    pub processor: Processor,
    /// Prices of the nodes' memory and network.
    pub prices: Vec<NodePrices>,
    /// Jobs that are left out of their rows because they have flooded the network.
    pub left_out: Vec<JobId>,
    /// The matrix: row, and a job in it.
    pub rows: Vec<(u32, JobId)>,
    /// Slots of the jobs that take turns, of the first [`super::mailbox::PARTS_MAX`] parts.
    pub slots: Vec<(JobId, NodeId, Slots)>,
}

/// Event from the switch thread to the main loop.
#[derive(Clone, Debug, PartialEq)]
pub enum SwitchEvent {
    /// A word for the thread at the other end of a link, with its number. It comes by its outbox.
    Relay(LinkId, u64, Vec<u8>),
    /// How a job's ranks here are held while others have the cores.
    Method(JobId, FreezeMethod),
    /// A job has other slots here.
    Moved(JobId),
    /// The starter of a job here is to do this with its channels, in the switch of this generation, within so
    /// many ns.
    Context(JobId, ContextStep, u64, u64),
    /// On the controller: the job has these nodes, and so many ranks on each.
    Placed(JobId, Vec<(NodeId, u32)>),
    /// On the controller: why the job has none yet.
    Waits(JobId, Wait),
    /// On the controller: it will never have any.
    Refused(JobId, SubmitError),
    /// On the controller: a job that waited was taken back, and what was said of it before is void.
    Withdrawn(JobId),
    /// On the controller: the slices that jobs have had.
    Served(ServedReport),
    /// On the controller: a node has become late, is expelled, is back, or in time again.
    Notice(Notice),
    /// On the controller: whom jobs wait for that stand still.
    Lags(Lags),
    /// For the person who keeps the machines.
    LogLine(String),
    /// The same about a job of this user's, who may have many.
    UserLine(u32, String),
}
