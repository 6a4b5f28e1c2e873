//! Description of a job, which each of its nodes gets.

use serde::{Deserialize, Serialize};
use tutti_os::session::Session;
use tutti_protocol::batch::Batch;
use tutti_protocol::environment::Environment;
use tutti_protocol::gpus::Gpus;
use tutti_protocol::output::Output;
use tutti_protocol::terms::Terms;
use tutti_protocol::wire::{Job, Text};
use tutti_sched::{Demand, JobId};

use super::user::User;
use crate::members::NodeId;

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
    pub output: Option<Output>,
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
    /// ([`Order::incarnation`](super::Order::incarnation)): its part is there, or lost.
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
