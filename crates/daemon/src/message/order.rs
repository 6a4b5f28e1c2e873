//! Orders: what is to be with a job. The controller alone changes them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tutti_protocol::batch::NAME_CHARS_MAX;
use tutti_protocol::end::Ending;
use tutti_protocol::users::{Change, Suspended};
use tutti_protocol::wire::Reached;

use super::launch::Launch;
use crate::core::clocks::Elapsed;
use crate::members::NodeId;

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
    /// The job had terminated as of the hold of this number: its ranks are notified.
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
        let Change { time_ms, weight, begin_ms, detached, .. } = *change;
        // As long as the name of a job can be.
        let name = change.name.as_ref().map(|name| name.chars().take(NAME_CHARS_MAX).collect());
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
    /// Stands still until it is ordered to go on.
    Stop,
    /// Is killed.
    Kill,
}
