//! Where the flow to one rank of another node keeps what a snapshot reads of it.

use std::ptr::NonNull;

use tutti_channel::{FlowMemory, FlowWord};
use tutti_shm::flow::FlowWords;
use tutti_shm::sync::Ordering;

/// The memory of a flow in the rank segment.
#[derive(Debug)]
pub struct SegmentFlow {
    words: NonNull<FlowWords>,
    fifo: NonNull<u8>,
    fifo_bytes: usize,
}

// SAFETY: the pointers lead into the job's segment, which outlives them (contract of `Job::flow`); this rank
// alone writes there, and whoever has the value has the right to.
unsafe impl Send for SegmentFlow {}

impl SegmentFlow {
    /// # Safety
    /// Both areas lie in a mapping that outlives the value, `fifo` is valid for `fifo_bytes`, and nobody else
    /// writes there.
    pub(crate) unsafe fn new(words: NonNull<FlowWords>, fifo: NonNull<u8>, fifo_bytes: usize) -> Self {
        SegmentFlow { words, fifo, fifo_bytes }
    }
}

impl FlowMemory for SegmentFlow {
    #[inline]
    fn publish(&mut self, word: FlowWord, value: u64) {
        // SAFETY: see `new`; the words are atomics.
        unsafe { self.words.as_ref() }.words[word as usize].store(value, Ordering::Release);
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    }

    #[inline]
    fn fifo(&self) -> &[u8] {
        // SAFETY: see `new`; only this value's `fifo_mut` writes.
        unsafe { std::slice::from_raw_parts(self.fifo.as_ptr(), self.fifo_bytes) }
    }

    #[inline]
    fn fifo_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.fifo.as_ptr(), self.fifo_bytes) }
    }
}
