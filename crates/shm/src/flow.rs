//! The words of a flow to a rank of another node, as they lie in the segment: while the rank is frozen the
//! daemon reads the cut from them. What each says is the channel's business; here is only where they lie.

use crate::sync::AtomicU64;

/// Words of a flow. Writer of each: the rank that the flow belongs to.
pub const FLOW_WORDS: usize = 8;

/// One per local rank and rank of another node.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct FlowWords {
    /// By the channel's numbers of its words.
    pub words: [AtomicU64; FLOW_WORDS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<FlowWords>() == 64);
