//! The nodes: their slots, memory and GPUs, and who has been let in.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::demand::{Demand, Part, Place, RANKS_MAX, Split, SubmitError};
use crate::reserved::Reserved;
use crate::types::{JobId, NodeId, SLOTS_MAX};
use crate::wait::Wait;

/// One node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) slots: u32,
    /// 0 is not known: then memory keeps nobody out.
    memory_bytes: u64,
    pub(crate) here: bool,
    /// Takes nothing new: what is here stays.
    closed: bool,
    /// Kept for another job than the one that is looked at.
    held: bool,
    /// Memory of the jobs that are here, suspended ones too.
    charged_bytes: u64,
    gpus: u32,
    /// GPUs of the jobs that are here, suspended ones too.
    charged_gpus: u32,
    residents: u32,
    exclusive: Vec<JobId>,
}

/// Amount that some jobs have of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    pub(crate) jobs: u32,
    pub(crate) bytes: u64,
    pub(crate) gpus: u32,
    /// Whether one of them is exclusive.
    pub(crate) exclusive: bool,
}

/// All nodes, by their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    nodes: Vec<Node>,
    /// Memory charged for each part of a job, in bytes, where that is not 0.
    charges: BTreeMap<(JobId, NodeId), u64>,
    pub(crate) reserved: Reserved,
}

impl Machine {
    /// Adds a node, or changes what a known one has.
    pub(crate) fn set(&mut self, node: NodeId, slots: u32, memory_bytes: u64) {
        let at = node.0 as usize;
        self.know(node);
        let known = &mut self.nodes[at];
        (known.slots, known.memory_bytes, known.here) = (slots.min(SLOTS_MAX), memory_bytes, true);
    }

    /// Says how many GPUs a node has.
    pub(crate) fn set_gpus(&mut self, node: NodeId, gpus: u32) {
        self.know(node);
        self.nodes[node.0 as usize].gpus = gpus;
    }

    /// Numbers may have gaps: nodes before this one may not be here.
    fn know(&mut self, node: NodeId) {
        while self.nodes.len() <= node.0 as usize {
            self.nodes.push(Node {
                slots: 0,
                memory_bytes: 0,
                here: false,
                closed: false,
                held: false,
                charged_bytes: 0,
                gpus: 0,
                charged_gpus: 0,
                residents: 0,
                exclusive: Vec::new(),
            });
        }
    }

    /// Drains these nodes, of which some may not be here yet, and no others: nothing new comes to them.
    pub(crate) fn drain(&mut self, nodes: &[NodeId]) {
        nodes.iter().for_each(|node| self.know(*node));
        for (node, known) in (0..).map(NodeId).zip(&mut self.nodes) {
            known.closed = nodes.contains(&node);
        }
    }

    /// The nodes as they are for a job that runs there already: neither drained nor reserved.
    pub(crate) fn undrained(&self) -> Cow<'_, Machine> {
        if self.nodes.iter().all(|node| !node.closed) && self.reserved.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut machine = self.clone();
        machine.nodes.iter_mut().for_each(|node| node.closed = false);
        machine.reserved = Reserved::default();
        Cow::Owned(machine)
    }

    /// The nodes as they are for a job that had its nodes under an earlier controller: empty, whatever is
    /// there.
    pub(crate) fn emptied(&self) -> Machine {
        let mut machine =
            Machine { nodes: self.nodes.clone(), charges: BTreeMap::new(), reserved: Reserved::default() };
        for node in &mut machine.nodes {
            (node.closed, node.held, node.exclusive) = (false, false, Vec::new());
            (node.charged_bytes, node.charged_gpus, node.residents) = (0, 0, 0);
        }
        machine
    }

    /// Keeps these nodes from the job that is looked at, and no others.
    pub(crate) fn hold<'a>(&mut self, nodes: impl Iterator<Item = &'a NodeId>) {
        self.nodes.iter_mut().for_each(|node| node.held = false);
        for node in nodes {
            self.nodes[node.0 as usize].held = true;
        }
    }

    /// The nodes to which a new job may come, whatever is there now.
    pub(crate) fn open_to(&self, demand: &Demand) -> Cow<'_, Machine> {
        let is_shut =
            |(node, known): (NodeId, &Node)| known.closed || self.reserved.obstacle(node, demand).is_some();
        let shut: Vec<bool> = (0..).map(NodeId).zip(&self.nodes).map(is_shut).collect();
        if !shut.contains(&true) {
            return Cow::Borrowed(self);
        }
        let mut machine = self.clone();
        let nodes = machine.nodes.iter_mut().zip(shut).filter(|(_, shut)| *shut);
        nodes.for_each(|(node, _)| node.here = false);
        Cow::Owned(machine)
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
    pub(crate) fn slots_of(&self, node: NodeId) -> u64 {
        self.nodes.get(node.0 as usize).filter(|node| node.here).map_or(0, |node| u64::from(node.slots))
    }

    pub(crate) fn slots(&self) -> u64 {
        self.nodes.iter().filter(|node| node.here).map(|node| u64::from(node.slots)).sum()
    }

    /// Ranks that a node takes of this job.
    pub(crate) fn ranks_most(&self, node: NodeId, demand: &Demand) -> u32 {
        match self.node(node) {
            Some(known) if known.here && known.slots > 0 && !demand.avoids(node) => {
                if demand.oversubscribe {
                    RANKS_MAX
                } else {
                    known.slots
                }
            }
            _ => 0,
        }
    }

    /// True if a part of the job may come to this node now, as far as memory, GPUs, exclusive jobs and
    /// reservations go.
    pub(crate) fn admits(&self, node: NodeId, demand: &Demand) -> bool {
        self.could_admit(node, demand)
            && self.reserved.obstacle(node, demand).is_none()
            && self.node(node).is_some_and(|known| {
                let is_shut = known.closed || known.held || !known.exclusive.is_empty();
                let is_taken = is_shut || demand.exclusive && known.residents > 0;
                !is_taken
                    && (known.memory_bytes == 0
                        || known.charged_bytes + demand.memory_bytes <= known.memory_bytes)
                    && demand.gpus() <= known.gpus.saturating_sub(known.charged_gpus)
            })
    }

    /// True if the node is kept for another job than the one that is looked at.
    pub(crate) fn is_held(&self, node: NodeId) -> bool {
        self.node(node).is_some_and(|known| known.held)
    }

    /// Jobs that have a part on the node.
    pub(crate) fn residents(&self, node: NodeId) -> u32 {
        self.node(node).map_or(0, |known| known.residents)
    }

    /// Memory charged for a part of a job.
    pub(crate) fn charged_bytes(&self, job: JobId, node: NodeId) -> u64 {
        self.charges.get(&(job, node)).copied().unwrap_or(0)
    }

    /// True if a part of the job could come to this node beside jobs that have so much of it.
    pub(crate) fn has_room_beside(&self, node: NodeId, demand: &Demand, held: &Held) -> bool {
        self.node(node).is_some_and(|known| {
            let keeps_out = held.exclusive || demand.exclusive && held.jobs > 0;
            !keeps_out
                && (known.memory_bytes == 0 || held.bytes + demand.memory_bytes <= known.memory_bytes)
                && demand.gpus() <= known.gpus.saturating_sub(held.gpus)
        })
    }

    /// True if the job could have a part on this node if it were empty.
    pub(crate) fn could_come(&self, node: NodeId, demand: &Demand) -> bool {
        let is_named = match &demand.place {
            Place::Given(parts) => parts.iter().any(|part| part.0 == node),
            _ => true,
        };
        is_named && self.could_admit(node, demand)
    }

    /// True if a part of the job could come to this node if it were empty.
    pub(crate) fn could_admit(&self, node: NodeId, demand: &Demand) -> bool {
        self.node(node).is_some_and(|known| {
            known.here
                && !demand.avoids(node)
                && (known.memory_bytes == 0 || demand.memory_bytes <= known.memory_bytes)
                && demand.gpus() <= known.gpus
        })
    }

    /// A part of the job is on each of these nodes from now on.
    pub(crate) fn charge(&mut self, job: JobId, demand: &Demand, parts: &[Part]) {
        for part in parts {
            let node = &mut self.nodes[part.node.0 as usize];
            node.residents += 1;
            node.charged_gpus += demand.gpus();
            if demand.exclusive {
                node.exclusive.push(job);
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

    /// The job, which was taken with this demand, has left these nodes.
    pub(crate) fn release(&mut self, job: JobId, demand: &Demand, parts: &[Part]) {
        for part in parts {
            self.charge_memory(job, part.node, 0);
            let node = &mut self.nodes[part.node.0 as usize];
            node.residents -= 1;
            node.charged_gpus -= demand.gpus();
            node.exclusive.retain(|&owner| owner != job);
        }
    }

    /// The demand of a new job as [`Self::settle`] has it; of one that had nodes before, what it had, also
    /// where too few of them are here.
    pub(crate) fn settle_new(&self, demand: &Demand) -> Result<Demand, SubmitError> {
        match self.settle(demand) {
            Err(_) if demand.awaits_lost() && !matches!(demand.place, Place::Fewest { .. }) => {
                demand.check().map(|()| demand.clone())
            }
            Err(error) if demand.awaits_lost() => {
                let mut whole = self.clone();
                whole.nodes.iter_mut().for_each(|node| node.here = true);
                whole.settle(demand).map_err(|_| error)
            }
            settled => settled,
        }
    }

    /// The demand with the number of nodes settled, if the cluster, were it empty, could hold it.
    pub(crate) fn settle(&self, demand: &Demand) -> Result<Demand, SubmitError> {
        demand.check()?;
        let place = match &demand.place {
            Place::Given(parts) => {
                self.check_given(demand, parts)?;
                demand.place.clone()
            }
            Place::Fewest { ranks } => Place::Any { nodes: self.fewest(demand, *ranks)?, ranks: *ranks },
            place => place.clone(),
        };
        if let Some(split) = place.split() {
            let most_bytes = self.nodes.iter().filter(|node| node.here).map(|node| node.memory_bytes).max();
            check_split(&self.able(&Demand { memory_bytes: 0, ..demand.clone().with_gpus(0) }), split)?;
            self.check_gpus(demand, split)?;
            let able = self.able(demand);
            check_split(&able, split).map_err(|_| SubmitError::TooMuchMemory {
                requested_bytes: demand.memory_bytes,
                nodes: split.nodes,
                there: able.len() as u32,
                most_bytes: most_bytes.unwrap_or(0),
            })?;
        }
        let demand = Demand { place, ..demand.clone() };
        if demand.phases.is_some() {
            self.check_phases(&demand)?;
        }
        Ok(demand)
    }

    /// Checks that enough nodes have the GPUs.
    fn check_gpus(&self, demand: &Demand, split: Split) -> Result<(), SubmitError> {
        let able = self.able(&Demand { memory_bytes: 0, ..demand.clone() });
        check_split(&able, split).map_err(|_| SubmitError::TooManyGpus {
            requested: demand.gpus(),
            nodes: split.nodes,
            there: able.len() as u32,
            most: self.nodes.iter().filter(|node| node.here).map(|node| node.gpus).max().unwrap_or(0),
        })
    }

    /// A job with phases is on one node, with a serial slot for each rank.
    fn check_phases(&self, demand: &Demand) -> Result<(), SubmitError> {
        let (nodes, ranks) = match &demand.place {
            Place::Given(parts) => (parts.len() as u32, parts.iter().map(|part| part.1).max().unwrap_or(0)),
            place => place.split().map_or((1, 0), |split| (split.nodes, split.high)),
        };
        if nodes > 1 {
            return Err(SubmitError::PhasesWide { nodes });
        }
        let slots = self.nodes.iter().filter(|node| node.here).map(|node| node.slots).max().unwrap_or(0);
        let most = serial_slots(slots);
        if demand.shares_slots() && ranks > most {
            return Err(SubmitError::PhasesRanks { ranks, most, slots });
        }
        Ok(())
    }

    /// How many ranks the nodes take that could admit the job, were they empty; most first.
    fn able(&self, demand: &Demand) -> Vec<u32> {
        let able = (0..self.len()).map(NodeId).filter(|&node| self.could_admit(node, demand));
        let mut most: Vec<_> =
            able.map(|node| self.ranks_most(node, demand)).filter(|&most| most > 0).collect();
        most.sort_unstable_by(|a, b| b.cmp(a));
        most
    }

    /// As few nodes as have a slot for each rank; all, if there are none such and ranks may share slots.
    fn fewest(&self, demand: &Demand, ranks: u32) -> Result<u32, SubmitError> {
        let slots = self.able(&Demand { oversubscribe: false, ..demand.clone() });
        let nodes = (1..=slots.len() as u32).find(|&nodes| check_any(&slots, nodes, ranks).is_ok());
        let there = slots.len() as u32;
        match nodes {
            Some(nodes) => Ok(nodes),
            None if demand.oversubscribe && there > 0 => Ok(there.min(ranks)),
            // Memory or GPUs keep them all out: on one node it would be the same.
            None if (demand.memory_bytes > 0 || demand.gpus() > 0) && there == 0 => Ok(1),
            None => Err(SubmitError::TooFewSlots { ranks, slots: self.slots() }),
        }
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
        let nodes = || parts.iter().filter_map(|part| self.node(part.0));
        let there = nodes().filter(|node| demand.gpus() <= node.gpus).count();
        if there < parts.len() {
            return Err(SubmitError::TooManyGpus {
                requested: demand.gpus(),
                nodes: parts.len() as u32,
                there: there as u32,
                most: nodes().map(|node| node.gpus).max().unwrap_or(0),
            });
        }
        let there = parts.iter().filter(|part| self.could_admit(part.0, demand)).count();
        if there < parts.len() {
            return Err(SubmitError::TooMuchMemory {
                requested_bytes: demand.memory_bytes,
                nodes: parts.len() as u32,
                there: there as u32,
                most_bytes: nodes().map(|node| node.memory_bytes).max().unwrap_or(0),
            });
        }
        Ok(())
    }

    /// Why nodes do not admit the job now, whatever rows there are; none: enough of them do.
    pub(crate) fn why_not(&self, demand: &Demand) -> Option<Wait> {
        let (requested, mut nodes): (u32, Vec<NodeId>) = match &demand.place {
            Place::Given(parts) => (parts.len() as u32, parts.iter().map(|part| part.0).collect()),
            place => (place.split()?.nodes, (0..self.len()).map(NodeId).collect()),
        };
        let of = |nodes: &[NodeId], is_well: &dyn Fn(&Node) -> bool| {
            nodes.iter().filter_map(|&node| self.node(node)).filter(|node| is_well(node)).count() as u32
        };
        let up = of(&nodes, &|node| node.here);
        if up < requested {
            return Some(Wait::Nodes { requested, there: up });
        }
        nodes.retain(|node| self.node(*node).is_some_and(|known| known.here && !known.closed));
        let undrained = nodes.len() as u32;
        if undrained < requested {
            return Some(Wait::Drained { requested, there: undrained });
        }
        let obstacle = nodes.iter().find_map(|node| self.reserved.obstacle(*node, demand));
        nodes.retain(|node| self.reserved.obstacle(*node, demand).is_none());
        if let Some(reservation) = obstacle.filter(|_| (nodes.len() as u32) < requested) {
            return Some(Wait::Reserved { requested, there: nodes.len() as u32, reservation });
        }
        let count = |is_well: &dyn Fn(&Node) -> bool| of(&nodes, is_well);
        let is_open = |node: &Node| node.here && !node.closed && node.exclusive.is_empty();
        let open = count(&is_open);
        if open < requested {
            let owners = nodes.iter().filter_map(|&node| self.node(node)?.exclusive.first().copied());
            return owners.min().map(|owner| Wait::Taken { requested, there: open, owner });
        }
        let is_empty = |node: &Node| is_open(node) && (node.residents == 0 || !demand.exclusive);
        let empty = count(&is_empty);
        if empty < requested {
            return Some(Wait::Occupied { requested, there: empty });
        }
        let has_gpus = |node: &Node| demand.gpus() <= node.gpus.saturating_sub(node.charged_gpus);
        let there = count(&|node| is_empty(node) && has_gpus(node));
        if there < requested {
            return Some(Wait::Gpus { requested_gpus: demand.gpus(), requested, there });
        }
        let free = |node: &Node| node.memory_bytes.saturating_sub(node.charged_bytes);
        let has_room = |node: &Node| {
            is_empty(node) && has_gpus(node) && (node.memory_bytes == 0 || free(node) >= demand.memory_bytes)
        };
        let there = count(&has_room);
        let most = nodes.iter().filter_map(|&node| self.node(node)).filter(|node| is_empty(node)).map(free);
        (there < requested).then(|| Wait::Memory {
            requested_bytes: demand.memory_bytes,
            requested,
            there,
            free_bytes: most.max().unwrap_or(0),
        })
    }
}

/// As many slots of a node as jobs that share the others can have for their serial phases: one at least stays
/// parallel, but on the smallest nodes.
pub(crate) fn serial_slots(slots: u32) -> u32 {
    slots.saturating_sub(1).max(slots.min(2))
}

/// Whether nodes that take so many ranks, in descending order, hold `ranks` dealt evenly to `nodes`.
fn check_any(most: &[u32], nodes: u32, ranks: u32) -> Result<(), SubmitError> {
    let split = Place::Any { nodes, ranks }.split().expect("it is dealt evenly");
    check_split(most, split)
}

/// The same for any way to deal them.
fn check_split(most: &[u32], split: Split) -> Result<(), SubmitError> {
    let Split { nodes, low, more, high } = split;
    let count = |at_least: u32| most.iter().filter(|&&most| most >= at_least).count() as u32;
    if most.first().is_some_and(|&first| high > first) {
        return Err(SubmitError::TooManyRanks { ranks: high, most: most[0] });
    }
    let there = count(low.max(1));
    if there < nodes || low == 0 || count(high) < more {
        return Err(SubmitError::TooFewNodes { requested: nodes, there });
    }
    Ok(())
}

/// Whether nodes with so many slots, so much memory (0: not known) and so many GPUs, were they empty, could
/// hold the job.
///
/// # Errors
/// Says what they have.
pub fn could_hold(
    nodes: impl IntoIterator<Item = (NodeId, u32, u64, u32)>,
    demand: &Demand,
) -> Result<(), SubmitError> {
    let mut machine = Machine::default();
    for (node, slots, memory_bytes, gpus) in nodes {
        machine.set(node, slots, memory_bytes);
        machine.set_gpus(node, gpus);
    }
    machine.settle(demand).map(drop)
}
