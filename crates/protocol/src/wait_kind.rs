//! Kinds of reasons for which a job has no nodes yet. Commands decide by them, and show the line of the
//! reason to people alone.

use serde::{Deserialize, Serialize};

/// Kind of a reason for which a job waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitKind {
    /// Others wait longer, or the scheduler has not been asked yet.
    #[default]
    Turn,
    /// A user holds it.
    Held,
    /// Other jobs are to end first.
    Dependency,
    /// The time to begin has not come.
    Begin,
    /// As many tasks of its array have nodes as may at once.
    ArrayLimit,
    /// The user or group has as much as it may.
    UserLimit,
    /// The nodes have no room for it.
    Resources,
    /// The controller has been restarted, and waits for its nodes.
    Restart,
    /// Waits for its reservation to begin, or nodes that it needs are reserved for others.
    Reservation,
}
