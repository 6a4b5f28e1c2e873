//! How much the ranks of a job may put over PMI.

/// Keys and values of all ranks of a job together: the message that brings them to a node has to be sent.
const JOB_BYTES_MAX: u64 = 32 << 20;
/// Of one rank, at most.
const RANK_BYTES_MAX: u64 = 1 << 20;

/// Bytes of keys and values that each of so many ranks may have in the store.
pub fn share_bytes(ranks: u64) -> usize {
    (JOB_BYTES_MAX / ranks.max(1)).min(RANK_BYTES_MAX) as usize
}
