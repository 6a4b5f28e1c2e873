//! Messages that travel over the control tree.
//!
//! | message | way | meaning |
//! |---|---|---|
//! | [`Plan`] | down | the rows of a matrix version; travels before the first switch that names it |
//! | [`Order::Switch`] | down, to all | overlapped: freeze what is not in the row, thaw what is. Strict: the paper's FREEZE |
//! | [`Order::Save`], `Restore`, `Run` | down, to the job's nodes | strict only: the paper's messages of the same names |
//! | [`Order::Kill`], `Suspend`, `Resume` | down, to the job's nodes | legal in any state |
//! | [`Order::Members`] | down, to all | who is lost and who does not count; all standing reports are repeated |
//! | [`Report`] | up, merged per job and stage | FROZEN, SAVED, RESTORED, IDLE, ... |
//!
//! An order is forwarded to the children first, and always, also if it is old news here: after a change of
//! the tree the controller repeats what is in force, and a child may not have heard it. It is executed once:
//! every order says of itself which generation (or serial number) it belongs to.

use serde::{Deserialize, Serialize};

use crate::types::{Generation, JobId, Membership, NodeId, Slots, Version};

/// How a switch is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Mode {
    /// Freeze A, wait a bounded time, thaw B; FROZEN(A) flows up behind.
    #[default]
    Overlapped,
    /// The paper's protocol: FREEZE, FROZEN, SAVE, SAVED, RESTORE, RESTORED, RUN with a barrier after each
    /// step.
    Strict,
}

/// SWITCH: from now on this row of that version of the matrix runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Switch {
    /// The matrix version that `row` belongs to.
    pub version: Version,
    /// The row's place in the plan of that version; [`Switch::NOBODY`] is none.
    pub row: u32,
    /// The number of this switch.
    pub generation: Generation,
    /// When to execute it, in the cluster's common time; 0 is at once.
    pub at_ns: u64,
    /// Overlapped or strict.
    pub mode: Mode,
    /// Time left of the slice when the switch is sent; 0: nobody waits for its end.
    pub left_ns: u64,
}

/// The rows of one version of the matrix: the jobs that run together.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Plan {
    /// The number of this plan.
    pub version: Version,
    /// The jobs of each row, in ascending order.
    pub rows: Vec<Vec<JobId>>,
    /// Parts that have other slots than those with which their job began: all of them, in every plan.
    pub moved: Vec<Moved>,
}

/// A part of a job that is to be bound to other slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Moved {
    /// The job.
    pub job: JobId,
    /// The node.
    pub node: NodeId,
    /// Slots of the part from this version on.
    pub slots: Slots,
}

impl Switch {
    /// The row in which nobody runs.
    pub const NOBODY: u32 = u32::MAX;
}

impl Plan {
    /// True if `job` stands in `row`.
    #[must_use]
    pub fn holds(&self, row: u32, job: JobId) -> bool {
        self.rows.get(row as usize).is_some_and(|row| row.binary_search(&job).is_ok())
    }

    /// The plan with those jobs only of which `keep` is true: what a subtree needs.
    #[must_use]
    pub fn only(&self, keep: impl Fn(JobId) -> bool) -> Plan {
        let rows = self.rows.iter().map(|row| row.iter().copied().filter(|&job| keep(job)).collect());
        let moved = self.moved.iter().copied().filter(|moved| keep(moved.job)).collect();
        Plan { version: self.version, rows: rows.collect(), moved }
    }
}

/// Message that goes down the tree.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Down {
    /// The rows of a version, to all; [`Plan::only`] makes it small for a subtree.
    Plan(Plan),
    /// An order.
    Order(Order),
}

/// An order of the controller, on its way down.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Another row.
    Switch(Switch),
    /// Copy the channel state of the frozen job; answered by [`Stage::Saved`].
    Save(JobId, Generation),
    /// Load the channel state of the job; answered by [`Stage::Restored`].
    Restore(JobId, Generation),
    /// Thaw the job, which has been restored on all nodes.
    Run(JobId, Generation),
    /// End the job, whatever state it is in.
    Kill(JobId),
    /// Freeze the job whatever the row, until it is resumed. The number grows with each suspend and resume of
    /// a job.
    Suspend(JobId, u64),
    /// Let the job run in its rows again.
    Resume(JobId, u64),
    /// The tree has changed.
    Members(Members),
}

impl Order {
    /// The job that the order is for; None if it is for all.
    #[must_use]
    pub fn job(&self) -> Option<JobId> {
        match *self {
            Order::Save(job, _) | Order::Restore(job, _) | Order::Run(job, _) => Some(job),
            Order::Kill(job) | Order::Suspend(job, _) | Order::Resume(job, _) => Some(job),
            Order::Switch(_) | Order::Members(_) => None,
        }
    }
}

/// Members of the tree.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Members {
    /// The number of this state.
    pub membership: Membership,
    /// Nodes that are gone: their children are adopted by the nearest ancestor left. Ascending.
    pub lost: Vec<NodeId>,
    /// Nodes that are late by more than ten slices: they forward, but no barrier waits for them, and their
    /// jobs stay frozen, until they say [`Report::Here`]. Ascending.
    pub expelled: Vec<NodeId>,
}

/// Stage of a job (or of a node), as a report tells it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Stage {
    /// All its ranks are frozen.
    Frozen,
    /// The job's channel state has been copied.
    Saved,
    /// The job's channel state has been loaded.
    Restored,
    /// All its ranks have been asleep for a millisecond.
    Idle,
    /// The job is suspended and frozen; the generation is the serial number of the order.
    Suspended,
}

/// The stages that every switch waits for, strict ones for all of them: who lacks is late. They come first in
/// [`STAGES`].
pub(crate) const STEPS: [Stage; 3] = [Stage::Frozen, Stage::Saved, Stage::Restored];

/// The stages, each at its own index in [`Stage::index`].
pub const STAGES: [Stage; 5] = [Stage::Frozen, Stage::Saved, Stage::Restored, Stage::Idle, Stage::Suspended];

impl Stage {
    /// Place of the stage in [`STAGES`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A report on its way up. `Reached` is merged by every node of the tree ([`crate::barrier::Merger`]); the
/// others are passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Report {
    /// Every node of the job below (and including) the sender has reached the stage, in this generation or a
    /// later one.
    Reached {
        /// Of this job.
        job: JobId,
        /// Stage that has been reached.
        stage: Stage,
        /// The least of the generations that the nodes reported.
        generation: Generation,
        /// The state of the tree in which this was merged; a report of another one counts for nothing.
        membership: Membership,
    },
    /// A rank of an idle job is awake.
    Woken {
        /// The job.
        job: JobId,
    },
    /// A node has not reached a stage of a job for longer than ten slices, or has been silent that long. Said
    /// again while it is so.
    Late {
        /// The node.
        node: NodeId,
        /// The job.
        job: JobId,
        /// Stage of the job that others have reached.
        stage: Stage,
    },
    /// An expelled node has frozen all that it should, up to this generation.
    Here {
        /// The node.
        node: NodeId,
        /// The newest that it knows.
        generation: Generation,
    },
    /// A daemon has come (back) to its place in the tree. Its parent says so, who does not know all that is
    /// in force.
    ChildJoined {
        /// The node.
        node: NodeId,
    },
}
