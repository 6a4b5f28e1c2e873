//! Ranks that other ranks have asked for (MPI_Comm_spawn): which numbers they have, on which nodes, and what
//! the starters of a job on several nodes tell each other about them.
//!
//! ```text
//! rank -> its starter -Ask-> hub -Spawn n-> all starters: the same numbers, each forks its share
//!                                   <-Spawned n- each: all have become their programs, or why not
//!                                 -SpawnEnd n-> all: they stay, or each takes its share back; the first answers its rank
//! ```
//!
//! What the PMI servers of the nodes tell each other goes the same way ([`crate::pmi::word`]): it is an order
//! that starts nothing.
//!
//! The hub (`mpiexec`, or the controller) only orders and gathers: what the frames hold is the starters'. All
//! starters see the same requests in the same order, so each knows the numbers and nodes of all new ranks by
//! itself ([`Allocation`]).
//!
//! With how its ranks began a starter says which of its ranks have ended, and which of all it has heard this
//! of are forgotten by its ranks ([`tutti_shm::reuse`]). All hear that in the same order, too, so all know
//! when a number is free again. A request for which there is no room then is asked again, as long as ranks
//! are about to end.
//!
//! A starter without ranks stays for those that others may ask for. It says as of which order it has none
//! (`Empty n`). It gets ranks by the next order alone, and only who has ranks, or waits for an order, can
//! cause one. So if all are empty as of the same order, and that one has ended, the job is over.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::pmi::NameChange;
use crate::pmi::spawning::Pair;
use crate::pmi::word::Word;
use serde::{Deserialize, Serialize};
use tutti_os::Failure;
use tutti_protocol::wire::{Job, Program};
use tutti_shm::numbers::{node_of_later, share_of_later};
use tutti_shm::spawn::{Request, Spawned};

/// Runs of failures that a starter tells, at most: those of one program on a node are one.
const RUNS_MAX: usize = 64;
/// Ranks that have ended, or are forgotten, that it tells at a time.
const ENDED_MAX: usize = 512;

/// Knowledge of the starter about ranks that were started later.
#[derive(Debug, Default)]
pub struct Later {
    /// The job, when its ranks have started: they may ask for more.
    pub job: Option<Job>,
    /// The numbers that are in use.
    pub allocation: Option<Allocation>,
    /// Orders that have come before the ranks of this node have started, with their numbers.
    early: Vec<(u32, Vec<u8>)>,
    /// Number of the last order that was begun.
    pub begun: u32,
    /// Asks of ranks of this node that have no order yet; the first one is on its way to the hub.
    pub asks: VecDeque<Asked>,
    /// Asks for which there was no room, with when they are to be sent again.
    pub again: Vec<(u64, Asked)>,
    /// Number of the last Ask that was sent.
    pub asked: u32,
    /// Requests of ranks of the job's only node that wait for the end of others.
    pub waiting: VecDeque<Waiting>,
    /// The order as of which the hub knows that no rank is left here.
    pub empty: Option<u32>,
}

/// Orders that wait for the start of this node's ranks, at most.
const EARLY_MAX: usize = 64;

impl Later {
    /// Keeps an order for the start of this node's ranks, as those of another node ask as soon as they run;
    /// false: they have started.
    pub fn keep_early(&mut self, order: u32, payload: &[u8]) -> bool {
        let is_early = self.allocation.is_none() && self.early.len() < EARLY_MAX;
        if is_early {
            self.early.push((order, payload.to_vec()));
        }
        is_early
    }

    /// The orders that were kept, when the ranks have started.
    pub fn take_early(&mut self) -> Vec<(u32, Vec<u8>)> {
        std::mem::take(&mut self.early)
    }
}

/// An Ask, and when it is refused if there is no room until then.
#[derive(Clone, Debug)]
pub struct Asked {
    /// As it travels.
    pub ask: Vec<u8>,
    /// On the starter's clock.
    pub ends_ns: u64,
    /// The rank that waits for it, if it is about a name of PMI, and what it wants.
    pub name: Option<(u32, NameChange)>,
}

/// A request for which there is room as soon as ranks that have left have ended.
#[derive(Debug)]
pub struct Waiting {
    /// The request.
    pub ask: Ask,
    /// Pairs that the store of the new ranks has from the beginning, if they are asked for over PMI.
    pub preput: Option<Vec<Pair>>,
    /// When to look again.
    pub due_ns: u64,
    /// When it is refused.
    pub ends_ns: u64,
}

/// Such ranks.
#[derive(Debug)]
pub struct Spawning {
    /// The number of the hub's order.
    pub order: u32,
    /// World ranks and places of all of them; none: they have no numbers.
    pub place: Option<Spawned>,
    /// Ranks of this node, as they are counted here.
    pub local: Vec<u32>,
    /// A rank of this node has asked for them: which one, and the number of its request.
    pub asker: Option<(u32, u32)>,
    /// Request of this starter for them.
    pub asked: Option<Asked>,
    /// Number of ranks beyond those that there is room for.
    pub excess: Option<u32>,
    /// Part of PMI in a spawn.
    pub over: Over,
    /// Ranks that could not become their programs.
    pub failed: Vec<Failure>,
    /// Why none was started here.
    refusal: Option<String>,
    /// Start of those of this node when the PMIx server expects them.
    start: Option<Start>,
    /// Pipe whose other ends are closed when all have become their programs, or are dead; none: it is known.
    failures: Option<OwnedFd>,
}

/// Data with which ranks are started.
#[derive(Debug)]
pub struct Start {
    /// World ranks and places of all of them.
    pub place: Spawned,
    /// Programs of the ranks, with what they inherit from those that have asked for them.
    pub programs: Vec<Program>,
    /// Later ranks of the job, these among them.
    pub later: u32,
}

/// The place of one of the ranks that other ranks have asked for.
#[derive(Clone, Copy, Debug)]
pub struct SpawnedRank<'a> {
    /// All of them.
    pub all: &'a Spawned,
    /// Rank among them.
    pub rank: usize,
    /// Number of its program.
    pub program: usize,
    /// Group of PMI, if it was asked for over that.
    pub group: Option<u32>,
}

/// Part of PMI in an order.
#[derive(Debug)]
pub enum Over {
    /// Spawn without PMI, or one that nobody here waits for.
    Nothing,
    /// Ranks are asked for over it; their group, if some are of this node.
    Ranks(Option<u32>),
    /// A rank of this node has changed a name, and whether that was possible.
    Name(u32, NameChange, bool),
}

impl Spawning {
    /// Begins an order of which nothing is known yet.
    pub fn new(order: u32, asker: Option<(u32, u32)>) -> Self {
        let (failed, refusal, failures) = (Vec::new(), None, None);
        let local = Vec::new();
        Spawning {
            order,
            place: None,
            local,
            over: Over::Nothing,
            asker,
            asked: None,
            excess: None,
            failed,
            refusal,
            start: None,
            failures,
        }
    }

    /// None is started here, for this reason.
    pub fn refuse(&mut self, text: String) {
        self.refusal = Some(text);
    }

    /// Why none was started here.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Keeps what those of this node start with when the PMIx server expects them.
    pub fn await_server(&mut self, start: Start) {
        self.place = Some(start.place.clone());
        self.start = Some(start);
    }

    /// Whether they have numbers, and the PMIx server does not expect them yet.
    pub fn awaits_server(&self) -> bool {
        self.start.is_some()
    }

    /// The PMIx server expects them, or refuses them: what they start with, and what is known of them. In its
    /// place is what knows nothing.
    pub fn take_start(&mut self, order: u32) -> Option<(Start, Spawning)> {
        let start = if self.order == order { self.start.take() } else { None };
        Some((start?, std::mem::replace(self, Spawning::new(order, None))))
    }

    /// Whether it is known of all of this node how they began.
    pub fn is_known(&self) -> bool {
        self.failures.is_none() && self.start.is_none()
    }

    /// Notes that they are forked; `failures` is the pipe on which they report.
    pub fn await_programs(&mut self, failures: OwnedFd) {
        self.failures = Some(failures);
    }

    /// To be polled as long as it is there, then given to [`Spawning::poll_over`].
    pub fn failures(&self) -> Option<BorrowedFd<'_>> {
        self.failures.as_ref().map(AsFd::as_fd)
    }

    /// Whether it has just become known of all of this node how they began.
    pub fn poll_over(&mut self) -> bool {
        loop {
            let Some(pipe) = &self.failures else { return false };
            let mut bytes = [0_u8; Failure::BYTES];
            match rustix::io::read(pipe, &mut bytes) {
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return false,
                Ok(Failure::BYTES) => self.failed.extend(Failure::decode(&bytes)),
                _ => {
                    self.failures = None;
                    return true;
                }
            }
        }
    }
}

/// Wish of a rank, as it travels between starters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// World rank of the one that asks.
    pub parent: u32,
    /// Request of that rank.
    pub request: Request,
}

impl Ask {
    /// As it travels; none when it is too long.
    pub fn encode(&self) -> Option<Vec<u8>> {
        Some([&self.parent.to_ne_bytes()[..], &self.request.encode()?].concat())
    }

    /// Reads one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (parent, request) = bytes.split_first_chunk()?;
        Some(Ask { parent: u32::from_ne_bytes(*parent), request: Request::decode(request)? })
    }
}

/// Subject of an order of the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// New ranks; with what their store has from the beginning (or their variables), if they are asked for
    /// over PMI (or PMIx).
    Ranks(Ask, Option<Vec<Pair>>),
    /// Word of a PMI server to the others.
    Word(Word),
}

impl Wanted {
    /// Reads an Ask of any kind.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if !Word::is_in(bytes) {
            return Ask::decode(bytes).map(|ask| Wanted::Ranks(ask, None));
        }
        Some(match Word::decode(bytes)? {
            Word::Spawn(preput, ask) => Wanted::Ranks(Ask::decode(&ask)?, Some(preput)),
            word => Wanted::Word(word),
        })
    }
}

/// How new ranks began on a node: one line of JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Ranks that could not become their programs, counted from the first one that was wanted; ascending.
    #[serde(with = "runs")]
    pub failed: Vec<u32>,
    /// Why they could not, or why none was started; empty: they are there.
    pub text: String,
    /// The node that says so.
    #[serde(default)]
    pub node: u32,
    /// Ranks of the node that have ended since it said so last.
    #[serde(default)]
    pub ended: Vec<u32>,
    /// Ranks that have ended and that all of the node have forgotten since.
    #[serde(default)]
    pub forgotten: Vec<u32>,
    /// How many of its ranks have ended or are about to, without those whose numbers are free.
    #[serde(default)]
    pub ending: u32,
}

impl Outcome {
    /// A line.
    pub fn encode(&self) -> Vec<u8> {
        let mut short = self.clone();
        short.failed.sort_unstable();
        // The rest is told with the next order.
        short.ended.truncate(ENDED_MAX);
        short.forgotten.truncate(ENDED_MAX);
        let mut line = serde_json::to_vec(&short).expect("numbers and a text");
        line.push(b'\n');
        line
    }

    /// Outcomes of all nodes, one line each.
    pub fn each(lines: &[u8]) -> Vec<Self> {
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let text = || "a starter of another version has answered".into();
        lines
            .map(|line| {
                serde_json::from_slice(line)
                    .unwrap_or_else(|_| Outcome { text: text(), ..Outcome::default() })
            })
            .collect()
    }

    /// How the new ranks began, on all nodes.
    pub fn of_all(outcomes: Vec<Self>) -> Self {
        let mut all = Outcome::default();
        for one in outcomes {
            all.ending += one.ending;
            all.failed.extend(one.failed);
            if all.text.is_empty() {
                all.text = one.text;
            }
        }
        all.failed.sort_unstable();
        all
    }
}

/// Ascending numbers as runs: the first, the step to the next, how many. New ranks go round the nodes, so
/// those of one program on a node are such a run.
mod runs {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tutti_shm::layout::LOCAL_RANKS_MAX;

    use super::RUNS_MAX;

    pub(super) fn serialize<S: Serializer>(numbers: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
        let mut runs: Vec<(u32, u32, u32)> = Vec::new();
        for number in numbers {
            match runs.last_mut() {
                Some((first, step, count @ 1)) if *number > *first => (*step, *count) = (number - *first, 2),
                Some((first, step, count)) if *count > 1 && *number == *first + *step * *count => *count += 1,
                _ => runs.push((*number, 0, 1)),
            }
        }
        runs.truncate(RUNS_MAX);
        runs.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
        let runs = Vec::<(u32, u32, u32)>::deserialize(deserializer)?;
        let numbers = runs.into_iter().flat_map(|(first, step, count)| {
            (0..count.min(LOCAL_RANKS_MAX)).map(move |at| first.saturating_add(step.saturating_mul(at)))
        });
        Ok(numbers.take(LOCAL_RANKS_MAX as usize).collect())
    }
}

/// Which numbers behind those that the job began with are in use. The same on all of its nodes.
#[derive(Debug)]
pub struct Allocation {
    began: u32,
    /// Numbers that there is room for on each node, and how many of them were given there.
    rooms: Vec<u32>,
    used: Vec<u32>,
    /// Numbers whose ranks have ended and are forgotten, highest first.
    free: Vec<u32>,
    /// How many processes of a number have ended and are forgotten; those that are not here: none.
    processes: HashMap<u32, u32>,
    /// Ranks that have ended, and the nodes that have forgotten them.
    ended: BTreeMap<u32, Vec<u32>>,
}

impl Allocation {
    /// Makes an allocation with nothing in use. `later`: how many there is room for, on all nodes.
    pub fn new(job: &Job, later: u32) -> Self {
        let nodes = job.part.as_ref().map_or(1, |part| part.first_ranks.len().max(1)) as u32;
        let rooms: Vec<u32> = (0..nodes).map(|node| share_of_later(later, node, nodes)).collect();
        Allocation::of(job.ranks() as u32, rooms)
    }

    fn of(began: u32, rooms: Vec<u32>) -> Self {
        let (used, free) = (vec![0; rooms.len()], Vec::new());
        Allocation { began, rooms, used, free, processes: HashMap::new(), ended: BTreeMap::new() }
    }

    fn node_of(&self, rank: u32) -> usize {
        node_of_later((rank - self.began) as usize, self.rooms.len())
    }

    fn is_used(&self, rank: u32) -> bool {
        let Some(behind) = rank.checked_sub(self.began) else { return false };
        let nodes = self.rooms.len() as u32;
        behind / nodes < self.used[self.node_of(rank)] && !self.is_free(rank)
    }

    /// A starter says that a rank of its node has ended. How many processes of its number have ended then, if
    /// that is news.
    pub fn note_ended(&mut self, rank: u32) -> Option<u32> {
        if !self.is_used(rank) || self.ended.contains_key(&rank) {
            return None;
        }
        self.ended.insert(rank, Vec::new());
        Some(self.processes.get(&rank).copied().unwrap_or(0) + 1)
    }

    /// Whether a starter has said that the present process of a rank has ended.
    pub fn has_ended(&self, rank: u32) -> bool {
        self.ended.contains_key(&rank)
    }

    /// Ranks that have ended, of which a node has not said that they are forgotten there.
    pub fn remembered(&self, node: u32) -> impl Iterator<Item = u32> {
        self.ended.iter().filter(move |(_, nodes)| !nodes.contains(&node)).map(|(rank, _)| *rank)
    }

    /// A node has forgotten a rank that has ended; if all have, its number is free.
    pub fn note_forgotten(&mut self, rank: u32, node: u32) {
        let Some(nodes) = self.ended.get_mut(&rank) else { return };
        if node < self.rooms.len() as u32 && !nodes.contains(&node) {
            nodes.push(node);
        }
        if nodes.len() == self.rooms.len() {
            self.ended.remove(&rank);
            *self.processes.entry(rank).or_default() += 1;
            self.give_back(rank);
        }
    }

    /// Ranks that were started since the job began, without those whose numbers are free again.
    pub fn later(&self) -> u32 {
        self.used.iter().sum::<u32>() - self.free.len() as u32
    }

    /// Whether a number is free again.
    pub fn is_free(&self, rank: u32) -> bool {
        self.free.contains(&rank)
    }

    /// How many more there is room for.
    pub fn room(&self) -> u32 {
        self.rooms.iter().sum::<u32>() - self.later()
    }

    /// Whether a node may ever get ranks.
    pub fn has_room_on(&self, node: u32) -> bool {
        self.rooms.get(node as usize).is_some_and(|room| *room > 0)
    }

    /// A rank has ended, and its number may be another's.
    ///
    /// # Panics
    /// When it is not in use.
    pub fn give_back(&mut self, rank: u32) {
        assert!(self.is_used(rank), "rank {rank} is not in use");
        self.free.push(rank);
        self.free.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// Takes numbers for so many ranks of each program on a node, or on those that have had the fewest.
    ///
    /// # Errors
    /// The text of why there is no room; nothing is taken then.
    pub fn take(&mut self, programs: &[(u32, Option<usize>)]) -> Result<Vec<u32>, String> {
        let (mut used, mut free, mut numbers) = (self.used.clone(), self.free.clone(), Vec::new());
        let nodes = self.rooms.len() as u32;
        let mut present = self.present();
        for (ranks, wish) in programs {
            for _ in 0..*ranks {
                let has_room = |node: &usize| present[*node] < self.rooms[*node];
                let node = match wish {
                    Some(node) => Some(*node).filter(has_room),
                    None => (0..self.rooms.len()).filter(has_room).min_by_key(|node| present[*node]),
                };
                let Some(node) = node else { return Err(self.refusal(programs, *wish)) };
                present[node] += 1;
                if let Some(at) = free.iter().rposition(|rank| self.node_of(*rank) == node) {
                    numbers.push(free.remove(at));
                } else {
                    numbers.push(self.began + node as u32 + used[node] * nodes);
                    used[node] += 1;
                }
            }
        }
        (self.used, self.free) = (used, free);
        Ok(numbers)
    }

    /// Later ranks of each node, without those whose numbers are free.
    fn present(&self) -> Vec<u32> {
        let mut present = self.used.clone();
        self.free.iter().for_each(|rank| present[self.node_of(*rank)] -= 1);
        present
    }

    fn refusal(&self, programs: &[(u32, Option<usize>)], wish: Option<usize>) -> String {
        let wanted: u64 = programs.iter().map(|(ranks, _)| u64::from(*ranks)).sum();
        let (present, room) = (self.began + self.later(), self.began + self.rooms.iter().sum::<u32>());
        let of_node = wish.filter(|_| self.rooms.len() > 1).map_or_else(String::new, |node| {
            format!(", {} more on that node", self.rooms[node] - self.present()[node])
        });
        format!(
            "{wanted} more ranks: the job has started {present}, and has room for {room} in all{of_node} (mpiexec --universe N makes more, without mpiexec TUTTI_UNIVERSE=N)"
        )
    }
}

#[cfg(test)]
mod tests;
