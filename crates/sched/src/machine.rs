//! The nodes: their slots, their memory, and who has been let in.

use std::collections::BTreeMap;

use crate::demand::{Demand, Part, Place, SubmitError};
use crate::types::{JobId, NodeId, SLOTS_MAX};

/// One node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) slots: u32,
    /// 0 is not known: then memory keeps nobody out.
    memory_bytes: u64,
    pub(crate) here: bool,
    /// Memory of the jobs that are here, suspended ones too.
    charged_bytes: u64,
    residents: u32,
    exclusive: Option<JobId>,
}

/// All nodes, by their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    nodes: Vec<Node>,
    /// What each part of a job is charged, where that is not 0.
    charges: BTreeMap<(JobId, NodeId), u64>,
}

impl Machine {
    /// Adds a node, or changes what a known one has.
    pub(crate) fn set(&mut self, node: NodeId, slots: u32, memory_bytes: u64) {
        let at = node.0 as usize;
        while self.nodes.len() <= at {
            self.nodes.push(Node {
                slots: 0,
                memory_bytes: 0,
                here: false,
                charged_bytes: 0,
                residents: 0,
                exclusive: None,
            });
        }
        let known = &mut self.nodes[at];
        (known.slots, known.memory_bytes, known.here) = (slots.min(SLOTS_MAX), memory_bytes, true);
    }

    /// The node is gone.
    pub(crate) fn lose(&mut self, node: NodeId) {
        if let Some(node) = self.nodes.get_mut(node.0 as usize) {
            node.here = false;
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.nodes.len() as u32
    }

    pub(crate) fn node(&self, node: NodeId) -> Option<&Node> {
        self.nodes.get(node.0 as usize)
    }

    /// Slots of all nodes that are here.
    pub(crate) fn slots(&self) -> u64 {
        self.nodes.iter().filter(|node| node.here).map(|node| u64::from(node.slots)).sum()
    }

    /// Ranks that a node takes of this job.
    pub(crate) fn ranks_most(&self, node: NodeId, demand: &Demand) -> u32 {
        match self.node(node) {
            Some(known) if known.here && known.slots > 0 => {
                if demand.oversubscribe {
                    SLOTS_MAX
                } else {
                    known.slots
                }
            }
            _ => 0,
        }
    }

    /// True if a part of the job may come to this node now, as far as memory and exclusive jobs go.
    pub(crate) fn admits(&self, node: NodeId, demand: &Demand) -> bool {
        self.could_admit(node, demand)
            && self.node(node).is_some_and(|known| {
                known.exclusive.is_none()
                    && !(demand.exclusive && known.residents > 0)
                    && (known.memory_bytes == 0
                        || known.charged_bytes + demand.memory_bytes <= known.memory_bytes)
            })
    }

    /// True if a part of the job could come to this node if it were empty.
    fn could_admit(&self, node: NodeId, demand: &Demand) -> bool {
        self.node(node).is_some_and(|known| {
            known.here && (known.memory_bytes == 0 || demand.memory_bytes <= known.memory_bytes)
        })
    }

    /// A part of the job is on each of these nodes from now on.
    pub(crate) fn charge(&mut self, job: JobId, demand: &Demand, parts: &[Part]) {
        for part in parts {
            let node = &mut self.nodes[part.node.0 as usize];
            node.residents += 1;
            if demand.exclusive {
                node.exclusive = Some(job);
            }
            self.charge_memory(job, part.node, demand.memory_bytes);
        }
    }

    /// A part of the job uses so much memory.
    pub(crate) fn charge_memory(&mut self, job: JobId, node: NodeId, bytes: u64) {
        let before = match bytes {
            0 => self.charges.remove(&(job, node)),
            _ => self.charges.insert((job, node), bytes),
        };
        let charged = &mut self.nodes[node.0 as usize].charged_bytes;
        *charged = *charged - before.unwrap_or(0) + bytes;
    }

    /// The job has left these nodes.
    pub(crate) fn release(&mut self, job: JobId, parts: &[Part]) {
        for part in parts {
            self.charge_memory(job, part.node, 0);
            let node = &mut self.nodes[part.node.0 as usize];
            node.residents -= 1;
            node.exclusive = node.exclusive.filter(|&owner| owner != job);
        }
    }

    /// The demand with the number of nodes settled, if the cluster, were it empty, could hold it.
    pub(crate) fn settle(&self, demand: &Demand) -> Result<Demand, SubmitError> {
        demand.check()?;
        let able = || (0..self.len()).map(NodeId).filter(|&node| self.could_admit(node, demand));
        let mut most: Vec<_> =
            able().map(|node| self.ranks_most(node, demand)).filter(|&most| most > 0).collect();
        most.sort_unstable_by(|a, b| b.cmp(a));
        let place = match &demand.place {
            Place::Given(parts) => {
                self.check_given(demand, parts)?;
                demand.place.clone()
            }
            Place::Any { nodes, ranks } => {
                check_any(&most, *nodes, *ranks)?;
                demand.place.clone()
            }
            Place::Fewest { ranks } => {
                let nodes = (1..=most.len() as u32).find(|&nodes| check_any(&most, nodes, *ranks).is_ok());
                let there = most.len() as u32;
                let nodes = nodes.ok_or(SubmitError::TooFewNodes { asked: there + 1, there })?;
                Place::Any { nodes, ranks: *ranks }
            }
        };
        Ok(Demand { place, ..demand.clone() })
    }

    fn check_given(&self, demand: &Demand, parts: &[(NodeId, u32)]) -> Result<(), SubmitError> {
        for &(node, ranks) in parts {
            let most = self.ranks_most(node, demand);
            if most == 0 {
                return Err(SubmitError::UnknownNode { node });
            }
            if ranks > most {
                return Err(SubmitError::TooManyRanks { ranks, most });
            }
        }
        let there = parts.iter().filter(|part| self.could_admit(part.0, demand)).count();
        if there < parts.len() {
            return Err(SubmitError::TooFewNodes { asked: parts.len() as u32, there: there as u32 });
        }
        Ok(())
    }
}

/// Whether nodes that take so many ranks, in descending order, hold `ranks` dealt evenly to `nodes`.
fn check_any(most: &[u32], nodes: u32, ranks: u32) -> Result<(), SubmitError> {
    let (low, more) = (ranks / nodes, ranks % nodes);
    let high = ranks.div_ceil(nodes);
    let count = |at_least: u32| most.iter().filter(|&&most| most >= at_least).count() as u32;
    if most.first().is_some_and(|&first| high > first) {
        return Err(SubmitError::TooManyRanks { ranks: high, most: most[0] });
    }
    let there = count(low.max(1));
    if there < nodes || nodes > ranks || count(high) < more {
        return Err(SubmitError::TooFewNodes { asked: nodes, there });
    }
    Ok(())
}
