//! Calendar of a simulation: what is to happen, and when.

use std::cmp::Ordering;

use super::coverage::Kind;
use crate::message::{Down, Report};
use crate::types::{Generation, JobId, NodeId};

/// Event of a simulation.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Down {
        to: NodeId,
        link: (NodeId, u64),
        down: Down,
    },
    Up {
        from: NodeId,
        link: (NodeId, u64),
        report: Report,
    },
    Freezer {
        node: NodeId,
        job: JobId,
        epoch: u64,
        frozen: bool,
    },
    FreezeRequested {
        node: NodeId,
        job: JobId,
        epoch: u64,
        frozen: bool,
    },
    Counts {
        node: NodeId,
        job: JobId,
        epoch: u64,
    },
    /// The starter of a job has tested its channels, or asks the others once more.
    Tested {
        node: NodeId,
        job: JobId,
        epoch: u64,
        begun_ns: u64,
    },
    Saved {
        node: NodeId,
        job: JobId,
    },
    Restored {
        node: NodeId,
        job: JobId,
        generation: Generation,
    },
    Dead {
        node: NodeId,
        job: JobId,
    },
    Timer {
        node: NodeId,
    },
    Controller,
    Launched {
        job: JobId,
    },
    Fault,
    LossSeen {
        node: NodeId,
    },
    NodeBack {
        node: NodeId,
    },
    DaemonBack {
        node: NodeId,
    },
    List {
        node: NodeId,
    },
    Dial {
        node: NodeId,
        incarnation: u32,
    },
    StarterBack {
        node: NodeId,
        incarnation: u32,
        job: JobId,
    },
    Strike {
        node: NodeId,
        job: JobId,
        kind: Kind,
    },
    ControllerBack,
    Admit {
        node: NodeId,
    },
    AdoptEnd {
        job: JobId,
    },
    Unhold {
        job: JobId,
    },
    Heartbeat,
    Mood {
        job: JobId,
    },
    Wish {
        node: NodeId,
        wish: Option<(JobId, JobId)>,
    },
}

/// When it does; those of one time in the order in which they were entered.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) at_ns: u64,
    pub(super) number: u64,
    pub(super) event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        // The earliest is the greatest.
        (other.at_ns, other.number).cmp(&(self.at_ns, self.number))
    }
}
