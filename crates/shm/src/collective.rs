//! Collective blocks: flags and small data of collective operations among the ranks of one node.
//!
//! A segment has [`BLOCKS`] blocks. A communicator takes one at its first collective; the last member that
//! frees the communicator gives it back. Sequence numbers of a block never go back, so a late reader of the
//! previous owner cannot be deceived.
//!
//! Each member has [`MEMBER_LINES`] lines and [`DATA_BYTES`] of data, all written by that member alone:
//!
//! | line | holds |
//! |---|---|
//! | 0, 1 | slot of an even / odd operation: sequence word (the commit), then up to [`INLINE_BYTES`] of data |
//! | 2 | `done`: the last operation whose slots this member has finished reading |
//! | 3 | the second sequence word of operations with two steps |
//!
//! Operation `k` uses slot `k & 1`. A member may overwrite its slot for `k` when all members that read
//! `k - 2` have finished it: they have arrived at `k - 1`, or their `done` says so.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Blocks of a segment.
pub const BLOCKS: usize = 64;
/// Lines of each member in a block.
pub const MEMBER_LINES: usize = 4;
/// Data that travel beside the sequence word.
pub const INLINE_BYTES: usize = 56;
/// Bytes of one of the two data slots of a member.
pub const SLOT_BYTES: usize = 4096;
/// Bytes of a member's data area: one slot for even, one for odd operations.
pub const DATA_BYTES: usize = 2 * SLOT_BYTES;

/// First line of a block.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct BlockHeader {
    /// 0 free, 1 taken; changed by compare-and-swap.
    pub taken: AtomicU32,
    /// Members that have not yet freed the communicator.
    pub members: AtomicU32,
    /// Sequence number that the next owner starts behind. Writer: the last member to leave.
    pub base: AtomicU64,
}

impl BlockHeader {
    /// Takes the block for a communicator of so many members, if it is free. They learn of it from the one
    /// that has taken it.
    pub fn try_take(&self, members: u32) -> bool {
        let is_taken = self.taken.load(Ordering::Relaxed) == 0
            && self.taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if is_taken {
            self.members.store(members, Ordering::Relaxed);
        }
        is_taken
    }

    /// A member has freed the communicator after so many operations; all count alike. The last one gives the
    /// block back.
    pub fn leave(&self, sequence: u64) {
        if self.members.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.base.store(sequence, Ordering::Relaxed);
            self.taken.store(0, Ordering::Release);
        }
    }
}

/// A flag line of a member.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct FlagLine {
    /// Sequence number of the operation, stored last.
    pub sequence: AtomicU64,
    /// Data in front of the commit.
    pub inline: [AtomicU64; 7],
}

/// The lines of one member.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Member {
    /// Slots of even and odd operations.
    pub slots: [FlagLine; 2],
    /// Line 2, see the table.
    pub done: FlagLine,
    /// Line 3, see the table.
    pub second: FlagLine,
}

#[cfg(not(loom))]
const _: () =
    assert!(size_of::<Member>() == MEMBER_LINES * crate::LINE_BYTES && size_of::<BlockHeader>() == 64);

#[cfg(all(test, loom))]
mod model;
