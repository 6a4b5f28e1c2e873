//! Demands: what a job asks for, and what it gets.

use serde::{Deserialize, Serialize};

use crate::phases::Phases;
use crate::shares::Owner;
use crate::types::{Bytes, JobId, NodeId, Slots};

/// The weight of a job for which none is given.
pub const WEIGHT_DEFAULT: u32 = 100;
/// The largest weight.
pub const WEIGHT_MAX: u32 = 10_000;
/// As many ranks as a job can have on a node, where they may be more than its slots.
pub const RANKS_MAX: u32 = 1 << 16;

/// Where the ranks are to be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Place {
    /// On any `nodes` nodes, dealt evenly: the first ones have one more if it does not come out even.
    Any {
        /// How many nodes.
        nodes: u32,
        /// How many ranks in all.
        ranks: u32,
    },
    /// On as few nodes as have a slot for each; on all nodes if there are too few slots, and that is allowed.
    Fewest {
        /// How many ranks in all.
        ranks: u32,
    },
    /// `per_node` ranks on each node, on the last one what is left.
    PerNode {
        /// Ranks on each node.
        per_node: u32,
        /// How many ranks in all.
        ranks: u32,
    },
    /// On these nodes, so many ranks on each.
    Given(Vec<(NodeId, u32)>),
}

impl Place {
    /// How many ranks in all.
    #[must_use]
    pub fn ranks(&self) -> u64 {
        match self {
            Place::Any { ranks, .. } | Place::Fewest { ranks } | Place::PerNode { ranks, .. } => {
                u64::from(*ranks)
            }
            Place::Given(parts) => parts.iter().map(|part| u64::from(part.1)).sum(),
        }
    }

    /// How they are dealt to nodes that are not given; none: that is not settled yet, or they are given.
    pub(crate) fn split(&self) -> Option<Split> {
        match *self {
            Place::Any { nodes, ranks } => {
                Some(Split { nodes, low: ranks / nodes, more: ranks % nodes, high: ranks.div_ceil(nodes) })
            }
            Place::PerNode { per_node, ranks } if ranks % per_node == 0 => {
                Some(Split { nodes: ranks / per_node, low: per_node, more: 0, high: per_node })
            }
            Place::PerNode { per_node, ranks } => {
                let more = ranks / per_node;
                Some(Split { nodes: more + 1, low: ranks % per_node, more, high: per_node })
            }
            Place::Fewest { .. } | Place::Given(_) => None,
        }
    }
}

/// Ranks as they are dealt to nodes: `high` to the first `more` nodes, `low` to the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Split {
    pub(crate) nodes: u32,
    pub(crate) low: u32,
    pub(crate) more: u32,
    pub(crate) high: u32,
}

/// Demand of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Demand {
    /// Where its ranks are to be.
    pub place: Place,
    /// Weight of the job: its share of the time, beside the others': 1 to [`WEIGHT_MAX`].
    pub weight: u32,
    /// Whether the job has its nodes to itself, all the time.
    pub exclusive: bool,
    /// Whether the job takes turns. One that does not has its nodes, and runs all the time, whoever's turn it
    /// is.
    pub gang: bool,
    /// A node may get more ranks than it has slots.
    pub oversubscribe: bool,
    /// Memory that it declares to need on each node; 0 is not known.
    pub memory_bytes: u64,
    /// GPUs that it has alone on each node, from its start to its end.
    #[serde(default, rename = "gpus")]
    pub gpus_each: u32,
    /// Holder of the job.
    #[serde(flatten)]
    pub holder: Holder,
    /// Policy by which a job with serial and parallel phases shares its node with others that have them.
    #[serde(default)]
    pub phases: Option<Phases>,
    /// Whether the job is a filler: it has turns only while no job that is none wants one.
    #[serde(default)]
    pub fill: bool,
    /// Nodes that it is not to have.
    #[serde(default)]
    pub avoided: Vec<NodeId>,
    /// How long it runs, at most; none: for ever.
    #[serde(default)]
    pub time_max_ns: Option<u64>,
    /// Number of the reservation in which it runs: it gets nodes of that alone.
    #[serde(default)]
    pub of_reservation: Option<u32>,
    /// Whether it waits for nodes that are lost: it had them, or as many, before.
    #[serde(default)]
    pub after_loss: bool,
}

/// Holder of a job: its user, and the job whose step it is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Holder {
    /// User of the job.
    #[serde(default)]
    pub owner: Owner,
    /// Job of which it is a step: it has slots of that one's and stands in its rows, without room of its own.
    #[serde(default)]
    pub within: Option<JobId>,
}

impl Demand {
    /// A job of `ranks` ranks on `nodes` nodes, with the default weight.
    #[must_use]
    pub fn any(nodes: u32, ranks: u32) -> Self {
        Demand::at(Place::Any { nodes, ranks })
    }

    /// A job with the default weight.
    #[must_use]
    pub fn at(place: Place) -> Self {
        Demand {
            place,
            weight: WEIGHT_DEFAULT,
            exclusive: false,
            gang: true,
            oversubscribe: false,
            memory_bytes: 0,
            gpus_each: 0,
            holder: Holder::default(),
            phases: None,
            fill: false,
            avoided: Vec::new(),
            time_max_ns: None,
            of_reservation: None,
            after_loss: false,
        }
    }

    /// The same, on none of these nodes.
    #[must_use]
    pub fn avoiding(mut self, nodes: Vec<NodeId>) -> Self {
        self.avoided = nodes;
        self
    }

    /// The same, with so many GPUs alone on each node.
    #[must_use]
    pub fn with_gpus(mut self, gpus: u32) -> Self {
        self.gpus_each = gpus;
        self
    }

    /// How long it runs, at most; none: for ever.
    #[must_use]
    pub fn lasts_ns(&self) -> Option<u64> {
        self.time_max_ns
    }

    /// Says how long it runs, at most.
    pub fn set_lasts(&mut self, lasts_ns: Option<u64>) {
        self.time_max_ns = lasts_ns;
    }

    /// Number of the reservation in which it runs.
    #[must_use]
    pub fn reservation(&self) -> Option<u32> {
        self.of_reservation
    }

    /// Says in which reservation it runs.
    pub fn set_reservation(&mut self, reservation: Option<u32>) {
        self.of_reservation = reservation;
    }

    /// Whether it waits for nodes that are lost.
    #[must_use]
    pub fn awaits_lost(&self) -> bool {
        self.after_loss
    }

    /// The same of a job that had nodes before, and waits for those of them that are lost.
    #[must_use]
    pub fn awaiting_lost(mut self) -> Self {
        self.after_loss = true;
        self
    }

    /// GPUs that it has alone on each node.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.gpus_each
    }

    /// Whether both ask for the same on the same terms: where one finds no room the other one finds none.
    pub(crate) fn asks_like(&self, other: &Demand) -> bool {
        let (user, other_user) = (self.holder.owner.user, other.holder.owner.user);
        let terms = |of: &Demand| (of.exclusive, of.gang, of.oversubscribe, of.memory_bytes, of.gpus_each);
        let more = |of: &Demand| (of.phases, of.fill, of.time_max_ns, of.of_reservation, of.after_loss);
        user == other_user
            && terms(self) == terms(other)
            && more(self) == more(other)
            && (&self.place, &self.avoided, self.holder.within)
                == (&other.place, &other.avoided, other.holder.within)
    }

    /// Whether it is not to have ranks on a node.
    #[must_use]
    pub fn avoids(&self, node: NodeId) -> bool {
        self.avoided.contains(&node)
    }

    /// Whether the job shares the slots of its node with others.
    pub(crate) fn shares_slots(&self) -> bool {
        self.phases.is_some_and(Phases::shares)
    }

    /// Refuses what no cluster could give.
    pub(crate) fn check(&self) -> Result<(), SubmitError> {
        if !(1..=WEIGHT_MAX).contains(&self.weight) {
            return Err(SubmitError::Weight { requested: self.weight });
        }
        if self.phases.is_some() && (self.exclusive || !self.gang) {
            return Err(SubmitError::PhasesTerms);
        }
        if self.fill && (self.exclusive || !self.gang || self.phases.is_some()) {
            return Err(SubmitError::FillTerms);
        }
        match &self.place {
            Place::Fewest { ranks: 0 } | Place::Any { ranks: 0, .. } | Place::Any { nodes: 0, .. } => {
                Err(SubmitError::Nothing)
            }
            Place::PerNode { ranks: 0, .. } | Place::PerNode { per_node: 0, .. } => Err(SubmitError::Nothing),
            Place::Any { nodes, ranks } if nodes > ranks => {
                Err(SubmitError::FewerRanksThanNodes { nodes: *nodes, ranks: *ranks })
            }
            Place::Any { nodes, ranks } if ranks.div_ceil(*nodes) > RANKS_MAX => {
                Err(SubmitError::TooManyRanks { ranks: ranks.div_ceil(*nodes), most: RANKS_MAX })
            }
            Place::Given(parts) => check_given(parts),
            _ => Ok(()),
        }
    }
}

fn check_given(parts: &[(NodeId, u32)]) -> Result<(), SubmitError> {
    if parts.is_empty() || parts.iter().any(|part| part.1 == 0) {
        return Err(SubmitError::Nothing);
    }
    if let Some(part) = parts.iter().find(|part| part.1 > RANKS_MAX) {
        return Err(SubmitError::TooManyRanks { ranks: part.1, most: RANKS_MAX });
    }
    let mut nodes: Vec<_> = parts.iter().map(|part| part.0).collect();
    nodes.sort_unstable();
    match nodes.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(SubmitError::NodeTwice { node: pair[0] }),
        None => Ok(()),
    }
}

/// The ranks of a job on one node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Part {
    /// The node.
    pub node: NodeId,
    /// How many ranks.
    pub ranks: u32,
    /// The slots that they share: one each, or all of the node if there are more ranks than slots.
    pub slots: Slots,
    /// The job's phases share the other slots of the node with jobs that do the same: `slots` are its serial
    /// ones.
    #[serde(default)]
    pub shared: bool,
}

/// Why a job was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SubmitError {
    /// The demand has no node or no rank.
    #[error("a job needs at least one node and one rank")]
    Nothing,
    /// A job with this number is here.
    #[error("job {job} is here already")]
    JobTwice {
        /// Number of the job.
        job: JobId,
    },
    /// The weight is out of range.
    #[error("a weight is 1 to {WEIGHT_MAX}, not {requested}")]
    Weight {
        /// Weight asked for.
        requested: u32,
    },
    /// Some nodes would have no rank.
    #[error("{ranks} ranks cannot be on {nodes} nodes")]
    FewerRanksThanNodes {
        /// Nodes asked for.
        nodes: u32,
        /// Ranks asked for.
        ranks: u32,
    },
    /// More ranks than a node can hold.
    #[error(
        "{ranks} ranks on one node are more than the {most} that it takes (oversubscribe allows up to {RANKS_MAX})"
    )]
    TooManyRanks {
        /// Ranks asked for.
        ranks: u32,
        /// Ranks that the largest node takes.
        most: u32,
    },
    /// More nodes than there are with enough slots.
    #[error("the job needs {requested} nodes; {there} have the slots for it")]
    TooFewNodes {
        /// Nodes asked for.
        requested: u32,
        /// Nodes that could ever hold a part of it.
        there: u32,
    },
    /// More ranks than all nodes have slots.
    #[error("{ranks} ranks are more than the {slots} slots of the cluster, and may not share them")]
    TooFewSlots {
        /// Ranks asked for.
        ranks: u32,
        /// Slots of all nodes.
        slots: u64,
    },
    /// More memory than enough nodes have.
    #[error(
        "{} of memory on {} more than this cluster has for jobs: {there} of its nodes have so much, the largest has {}",
        Bytes(*requested_bytes),
        if *nodes == 1 { "one node is".into() } else { format!("each of {nodes} nodes are") },
        Bytes(*most_bytes)
    )]
    TooMuchMemory {
        /// Asked for on each node.
        requested_bytes: u64,
        /// Nodes asked for.
        nodes: u32,
        /// Nodes that could ever hold a part of it.
        there: u32,
        /// The most that a node has for jobs.
        most_bytes: u64,
    },
    /// More GPUs than enough nodes have.
    #[error(
        "{} on {} more than this cluster has for jobs: {there} of its nodes have so many, the most that one has is {most}",
        if *requested == 1 { "1 GPU".into() } else { format!("{requested} GPUs") },
        match (*nodes, *requested) {
            (1, 1) => "one node is".into(),
            (1, _) => "one node are".into(),
            _ => format!("each of {nodes} nodes are"),
        }
    )]
    TooManyGpus {
        /// Asked for on each node.
        requested: u32,
        /// Nodes asked for.
        nodes: u32,
        /// Nodes that could ever hold a part of it.
        there: u32,
        /// The most that a node has.
        most: u32,
    },
    /// A node in the list is not in the cluster.
    #[error("node {node} is not in the cluster")]
    UnknownNode {
        /// The node.
        node: NodeId,
    },
    /// A node is in the list twice.
    #[error("node {node} is given twice")]
    NodeTwice {
        /// The node.
        node: NodeId,
    },
    /// Phases are for what takes turns with others on a node.
    #[error("--phases is for jobs that take turns: not with --exclusive or --no-gang")]
    PhasesTerms,
    /// A filler is behind others on its slots.
    #[error("--fill is for jobs that take turns: not with --exclusive, --no-gang or --phases")]
    FillTerms,
    /// Phases are shared on one node.
    #[error("--phases is for jobs with all ranks on one node: this one needs {nodes}")]
    PhasesWide {
        /// Nodes that it needs.
        nodes: u32,
    },
    /// More ranks than a node has serial slots.
    #[error("--phases gives a node of {slots} slots {most} ranks at most, not {ranks}")]
    PhasesRanks {
        /// Ranks asked for.
        ranks: u32,
        /// Ranks that a node takes.
        most: u32,
        /// Slots of the largest node.
        slots: u32,
    },
    /// The queue is full.
    #[error("{waiting} jobs wait already")]
    QueueFull {
        /// How many wait.
        waiting: usize,
    },
}
