//! Parameters that a daemon is given at its start, and the times that follow from them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tutti_protocol::config::Rules;
use tutti_protocol::reservation::Reservation;
use tutti_protocol::settings::Setting;
use tutti_protocol::users::Drained;
use tutti_sched::Policy;

use super::journal::Journal;
use super::record::{Queued, StarterRecord};
use crate::members::{About, NodeId};
use crate::message::JobId;

/// Longest time between two ticks while there is something to do.
pub const TICK_MS: u64 = 100;
/// A link says Alive at most so rarely: others may hold a shorter silence for a death.
const ALIVE_MS_MAX: u64 = 1250;

/// A configuration that the controller has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The sections of the cluster.
    pub text: Arc<str>,
    /// Rules of admission that follow from them.
    pub rules: Rules,
    /// How long a row runs, in ns.
    pub slice_ns: u64,
    /// Settings of the cluster, for people.
    pub settings: Vec<Setting>,
    /// Notes for the keeper of the cluster, a line each.
    pub notes: Vec<String>,
}

/// Records that a controller keeps of nodes, by name.
#[derive(Clone, Debug, Default)]
pub struct KnownNodes {
    /// Nodes that are drained.
    pub drains: BTreeMap<String, Drained>,
    /// Nodes that are reserved.
    pub reservations: Vec<Reservation>,
    /// The number of each.
    pub numbers: BTreeMap<String, NodeId>,
    /// Lists of nodes are numbered from here on at the earliest, in ms.
    pub first_ms: u64,
}

/// Parameters that a daemon is given at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Description of this node.
    pub about: About,
    /// Where the controller is; none: it is the controller.
    pub controller: Option<std::net::SocketAddr>,
    /// Children of a node in the control tree.
    pub arity: u32,
    /// A node that is not heard of for so long is lost, in ms.
    pub lost_ms: u64,
    /// Jobs on several nodes wait so long for a controller that is lost, in ms.
    pub keep_ms: u64,
    /// User of the daemon: besides the owner of a job, this user may do anything.
    pub owner: u32,
    /// Number of the first job.
    pub first_job: u64,
    /// The incarnation of the incarnation before this one, if all that is left of what it has begun is in
    /// `starters`.
    pub before: Option<u64>,
    /// Records that an earlier incarnation has kept of its starters.
    pub starters: Vec<(JobId, StarterRecord)>,
    /// Journals that an earlier incarnation has kept of the output files of jobs submitted here.
    pub journals: Vec<(JobId, Journal)>,
    /// On the controller: the jobs that waited for nodes in an earlier incarnation of it.
    pub queued: Vec<(JobId, Queued)>,
    /// On the controller: what users had used so long ago, in ns, under an earlier incarnation of it.
    pub used: (Vec<(u32, u64)>, u64),
    /// On the controller: what an earlier incarnation of it has kept of nodes.
    pub known_nodes: KnownNodes,
    /// On the controller: how jobs get their nodes and rows, for who asks.
    pub policy: Policy,
    /// On the controller: the configuration of the cluster.
    pub loaded: Loaded,
    /// Settings of this node, for people.
    pub settings: Vec<Setting>,
    /// Name of a user, for lines that say who did something.
    pub user_name: fn(u32) -> Option<String>,
    /// Name of a group, for its limits and shares.
    pub group_name: fn(u32) -> Option<String>,
}

impl Config {
    /// Hands over what an earlier incarnation has kept of nodes.
    pub(super) fn take_known_nodes(&mut self) -> KnownNodes {
        let first_ms = self.known_nodes.first_ms;
        std::mem::replace(&mut self.known_nodes, KnownNodes { first_ms, ..KnownNodes::default() })
    }

    /// Interval at which each link is told that we live.
    pub fn alive_ms(&self) -> u64 {
        (self.lost_ms / 4).clamp(TICK_MS / 2, ALIVE_MS_MAX)
    }

    /// Least time between two such words on a link: who is told now need not be told a little later.
    pub(super) fn nearly_alive_ms(&self) -> u64 {
        self.alive_ms() * 3 / 4
    }

    /// A daemon that has stood still (a laptop that slept, a clock that was set) does not hold the others'
    /// silence against them: between two events no more time passes than this.
    pub(super) fn step_ms(&self) -> u64 {
        (2 * self.alive_ms()).max(5 * TICK_MS)
    }
}
