//! Records that a daemon leaves in files for the one that follows it.

use serde::{Deserialize, Serialize};
use tutti_protocol::users::HeldBy;
use tutti_sched::Demand;

use crate::members::NodeId;
use crate::message::{JobId, Launch, Order};

/// A job that waits for nodes, for the controller that follows this one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queued {
    /// Without nodes.
    pub launch: Launch,
    /// Demand that the job waits for.
    pub demand: Demand,
    /// Whether it is to stand still from its start.
    pub suspended: bool,
    /// Of the jobs that it waits for: those that are over, with their status if that is known.
    #[serde(default)]
    pub over: Vec<(JobId, Option<u8>)>,
    /// Since when it is held, and by which user.
    #[serde(default)]
    pub on_hold: Option<HeldBy>,
    /// In a file of several jobs: where its environment is, which others have too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_at: Option<u64>,
}

/// Record of a starter that is kept beyond the daemon's death.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StarterRecord {
    /// Our number.
    pub node: NodeId,
    /// Order that the job was to follow.
    pub order: Order,
    /// How many daemons the starter has had before.
    pub daemons_before: u64,
    /// Whether it still lives. Set by who reads it again.
    pub alive: bool,
}
