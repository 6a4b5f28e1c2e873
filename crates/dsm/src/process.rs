//! State of a process of the shared memory: which rank, by which way, and how far its program is.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tutti_runtime::job::Job;
use tutti_shm::arena::Range;

use crate::core::unit::Placement;
use crate::core::violation::Violation;
use crate::failure;
use crate::heap::Heap;
use crate::node::Words;

/// How the ranks of the job share memory.
#[derive(Clone, Debug)]
pub enum Way {
    /// By the memory of their node.
    Node(Box<Words>),
    /// By the protocol.
    Nodes,
}

/// Where a rank is in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Rank 0: in `main`.
    Main,
    /// Another rank: in `main`, before it is created. It has no effect on others.
    Replaying,
    /// In the function that CREATE was given.
    Created,
    /// Behind it.
    Ended,
}

/// A rank that has begun.
#[derive(Debug)]
pub struct Running {
    /// The job.
    pub job: Job,
    /// How they share memory.
    pub way: Way,
    /// Where the program is.
    pub stage: Stage,
    /// Ranks beside the first.
    pub processes: Processes,
    /// Objects that were made here, or by all ranks alike.
    pub objects: u64,
    /// Locks that this process holds, in a job on several nodes. While `main` is the only one it asks nobody
    /// for them.
    pub held: Vec<u64>,
    /// Blocks of shared memory.
    pub heap: Heap,
    /// The memory that the arena's address stands for.
    pub view: View,
}

/// Processes beside the first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processes {
    /// How many were created.
    pub created: usize,
    /// How many of them were waited for.
    pub awaited: usize,
    /// Counter of their numbers.
    pub numbering: Option<Numbering>,
    /// No more are to come: one CREATE has made all.
    pub are_all: bool,
}

/// Counter of numbers of processes, in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Numbering {
    /// The lock that guards it.
    pub lock: u64,
    /// Address of a word.
    pub place: usize,
}

/// Memory that the program sees at the arena's address.
#[derive(Clone, Debug)]
pub struct View {
    /// How long it is.
    pub bytes: usize,
    /// Where it lies in the memory of the node.
    pub range: Range,
    /// The frames that ranks of the node share, and which units they are.
    pub shared: Option<(Range, Placement)>,
}

impl Running {
    /// Number of the rank.
    pub fn me(&self) -> usize {
        self.job.world_place()
    }

    /// Whether `main` is the only process of a job on several nodes.
    pub fn is_alone(&self) -> bool {
        matches!(self.way, Way::Nodes) && self.stage == Stage::Main && self.processes.created == 0
    }

    /// The process takes a lock.
    ///
    /// # Errors
    /// When it holds it already.
    pub fn note_lock(&mut self, lock: u64) -> Result<(), Violation> {
        if self.held.contains(&lock) {
            return Err(Violation::HeldAlready { lock, node: self.me() });
        }
        self.held.push(lock);
        Ok(())
    }

    /// The process gives a lock back.
    ///
    /// # Errors
    /// When it does not hold it.
    pub fn note_unlock(&mut self, lock: u64) -> Result<(), Violation> {
        let place = self.held.iter().position(|held| *held == lock);
        let place = place.ok_or(Violation::NotOwn { lock, node: self.me() })?;
        self.held.swap_remove(place);
        Ok(())
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.job.world().len()
    }
}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

/// The rank, once it has begun.
pub fn running() -> MutexGuard<'static, Option<Running>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives something of a rank that has begun; ends the job when it has not, or has left.
pub fn with<T>(action: impl FnOnce(&mut Running) -> T) -> T {
    match running().as_mut() {
        Some(running) => action(running),
        None => failure::end(format_args!(
            "a PARMACS macro is used before main or after its end, or the program was not linked by tutticc"
        )),
    }
}
