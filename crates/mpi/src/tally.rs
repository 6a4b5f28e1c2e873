//! Plain counts of what the process has done outside of the engine: collective operations by algorithm and
//! accesses to files. The code that does it adds, under the process lock or around a system call; `variables`
//! shows it to tools. It must never allocate, lock or fail.

use std::sync::atomic::{AtomicU64, Ordering};

/// One count.
#[derive(Debug, Default)]
pub struct Tally(AtomicU64);

impl Tally {
    const fn new() -> Self {
        Tally(AtomicU64::new(0))
    }

    /// Adds; several threads may.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// One more, by a thread that has the process lock: no locked instruction.
    #[inline(always)]
    pub fn count(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// The value.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a collective operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Messages along a tree.
    Tree = 0,
    /// Messages from each rank to each.
    Direct = 1,
    /// A reduction in parts.
    Reduction = 2,
    /// Along the edges of a topology.
    Edges = 3,
    /// Between the two groups of an intercommunicator.
    TwoGroups = 4,
    /// Single copies between the memories of a node.
    SingleCopy = 5,
    /// Slots in the memory of a node.
    Slots = 6,
}

/// Collective operations by [`Algorithm`].
pub static COLLECTIVES: [Tally; 7] = [const { Tally::new() }; 7];
/// Bytes that this process has read from files.
pub static FILE_BYTES_READ: Tally = Tally::new();
/// Bytes that it has written to files.
pub static FILE_BYTES_WRITTEN: Tally = Tally::new();
/// Collective accesses of this rank that went through aggregators.
pub static FILES_AGGREGATED: Tally = Tally::new();
/// The bytes of this rank in them.
pub static FILE_BYTES_AGGREGATED: Tally = Tally::new();
