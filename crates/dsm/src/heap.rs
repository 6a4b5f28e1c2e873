//! Blocks of shared memory that a rank knows.

use std::collections::BTreeMap;

use crate::core::blocks::Blocks;

/// The heap as far as one rank knows it.
#[derive(Debug)]
pub struct Heap {
    /// The heap as all ranks know it before CREATE.
    pub common: Blocks,
    /// Bytes of the blocks that this rank has taken since, by where each begins, in a job on several nodes.
    own: BTreeMap<u64, u64>,
}

impl Heap {
    /// A heap of which this rank has taken nothing by itself.
    pub fn new(common: Blocks) -> Heap {
        Heap { common, own: BTreeMap::new() }
    }

    /// Takes note of a block of so many bytes that this rank has taken at `offset`.
    pub(crate) fn note_own(&mut self, offset: u64, bytes: u64) {
        self.own.insert(offset, bytes);
    }

    /// Forgets a block that was given back: its bytes, if this rank knows them.
    pub(crate) fn forget(&mut self, offset: u64) -> Option<u64> {
        self.own.remove(&offset).or_else(|| self.common.bytes_of(offset))
    }
}
