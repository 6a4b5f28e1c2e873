//! Arguments of operations, for memory of ranks and for published regions.

use core::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A range of a gathered write, as C has it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Piece {
    /// Where in the region.
    pub offset: u64,
    /// Data to write.
    pub from: *const c_void,
    /// How much.
    pub bytes: usize,
}

/// Change of a number.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Addend by which it grows.
    Add(i64),
    /// Another one takes its place.
    Swap(i64),
    /// Another one takes its place if it is this.
    CompareSwap(i64, i64),
}

impl Change {
    /// Does it in memory; what was there.
    pub(crate) fn apply(self, word: &AtomicU64) -> u64 {
        match self {
            Change::Add(value) => word.fetch_add(value as u64, SeqCst),
            Change::Swap(value) => word.swap(value as u64, SeqCst),
            Change::CompareSwap(expected, value) => word
                .compare_exchange(expected as u64, value as u64, SeqCst, SeqCst)
                .unwrap_or_else(|found| found),
        }
    }
}
