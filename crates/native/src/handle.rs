//! Handles: what names a region to any rank of the job, and the rights that a region is open with.

use core::ffi::c_int;

use tutti_rma::wire::Name;
use tutti_runtime::job::Job;

/// Rights: read, write, atomic operations, messages into a queue.
pub const READ: c_int = 1;
/// Right to write it.
pub const WRITE: c_int = 2;
/// Right to change its elements atomically.
pub const ATOMIC: c_int = 4;
/// Messages may be put into it.
pub const QUEUE: c_int = 8;

/// Words of a handle.
pub(crate) const WORDS: usize = 6;

/// Names a region to whoever has it; plain data that may be sent to any rank of the job.
/// The default names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Handle {
    pub(crate) rank: u32,
    pub(crate) slot: u16,
    /// Of the socket on which its starter stands in for the rank; 0: of none.
    pub(crate) port: u16,
    pub(crate) generation: u64,
    pub(crate) directory: u64,
    pub(crate) id: u32,
    pub(crate) id_generation: u32,
    pub(crate) bytes: u64,
    pub(crate) check: u64,
}

impl Handle {
    /// The region as ranks of other nodes name it.
    pub(crate) fn name(&self) -> Name {
        Name { id: self.id, generation: self.id_generation }
    }

    pub(crate) fn sum(&self, job: u64) -> u64 {
        let words = [
            u64::from(self.rank) << 32 | u64::from(self.slot) | u64::from(self.port) << 16,
            self.generation,
            self.directory,
            u64::from(self.id) << 32 | u64::from(self.id_generation),
            self.bytes,
        ];
        words
            .into_iter()
            .fold(job, |sum, word| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
    }

    /// Whether a rank of this job has made it.
    pub(crate) fn is_right(&self, job: &Job) -> bool {
        self.check == self.sum(job.id()) && (self.rank as usize) < job.ranks()
    }

    /// Whether the region has a range.
    pub(crate) fn has(&self, (offset, bytes): (u64, usize)) -> bool {
        offset.checked_add(bytes as u64).is_some_and(|end| end <= self.bytes)
    }

    /// As it travels in a record.
    pub(crate) fn words(&self) -> [u64; WORDS] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [
            pair(self.rank, u32::from(self.slot) | u32::from(self.port) << 16),
            self.generation,
            self.directory,
            pair(self.id, self.id_generation),
            self.bytes,
            self.check,
        ]
    }

    /// Handle that came in a record.
    pub(crate) fn from_words(words: [u64; WORDS]) -> Handle {
        Handle {
            rank: words[0] as u32,
            slot: (words[0] >> 32) as u16,
            port: (words[0] >> 48) as u16,
            generation: words[1],
            directory: words[2],
            id: words[3] as u32,
            id_generation: (words[3] >> 32) as u32,
            bytes: words[4],
            check: words[5],
        }
    }
}
