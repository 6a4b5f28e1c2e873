//! Many runs of elements in another process's memory, changed together: two calls of the kernel for some
//! hundred runs in place of two for each.
//!
//! ```text
//! runs in the order of the data  --sorted by place-->  those that meet are one  --batches-->  kernel
//! ```
//!
//! A transposed type has its runs in an order in which none follows another one in memory: sorted, they are
//! whole rows again.

use tutti_shm::gate::{Gate, UNIT_BYTES};
use tutti_shm::opened::copy;

use super::{Fault, own};
use crate::accumulate::{Change, alone_in};
use crate::device::Access;
use crate::os::{Direction, RANGES_MAX, Ranges, Remote};

/// A run that is as long is changed by itself.
pub(super) const LONG_BYTES: usize = 4096;
/// Runs that are sorted at once.
const SORTED_MAX: usize = 1 << 16;
/// Bytes of a batch: while they are changed, others wait.
const BATCH_BYTES: usize = UNIT_BYTES;

/// A run of whole elements.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Where it begins at the target.
    offset: usize,
    bytes: usize,
    /// Where its data are, behind those of the first run.
    at: usize,
}

impl Run {
    fn end(&self) -> usize {
        self.offset + self.bytes
    }
}

/// Runs whose data follow one another at the origin.
pub(super) struct Batch<'a> {
    gate: &'a Gate,
    remote: Remote,
    change: Change,
    /// Origin and result of the first run.
    origin: *const u8,
    result: Option<*mut u8>,
    runs: Vec<Run>,
    bytes: usize,
    /// Bytes that are read of the target, changed, and written back.
    stage: Vec<u8>,
}

impl<'a> Batch<'a> {
    /// No run yet.
    ///
    /// # Safety
    /// `origin` is valid for reading the bytes of all runs that will be added, unless the change keeps them;
    /// `result` for writing them. Neither overlaps the target.
    pub(super) unsafe fn new(
        gate: &'a Gate,
        remote: Remote,
        change: Change,
        origin: *const u8,
        result: Option<*mut u8>,
    ) -> Self {
        Batch { gate, remote, change, origin, result, runs: Vec::new(), bytes: 0, stage: Vec::new() }
    }

    /// Adds a run, which is inside the memory and shorter than [`LONG_BYTES`].
    ///
    /// # Errors
    /// What the kernel says of those before it.
    pub(super) fn add(&mut self, offset: usize, bytes: usize) -> Result<(), Fault> {
        if self.runs.len() == SORTED_MAX {
            self.change()?;
        }
        self.runs.push(Run { offset, bytes, at: self.bytes });
        self.bytes += bytes;
        Ok(())
    }

    /// Where the data of the next run are, when none waits.
    pub(super) fn places(&self) -> (*const u8, Option<*mut u8>) {
        (self.origin, self.result)
    }

    /// Passes data of the origin, and of the result, that are changed in another way; no run waits.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.origin = self.origin.wrapping_add(bytes);
        self.result = self.result.map(|result| result.wrapping_add(bytes));
    }

    /// Changes what has been added.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn change(&mut self) -> Result<(), Fault> {
        let (mut runs, bytes) = (std::mem::take(&mut self.runs), std::mem::take(&mut self.bytes));
        if bytes == 0 {
            return Ok(());
        }
        if self.change.writes() {
            own::check_bytes(self.origin, bytes, Access::Read)?;
        }
        if let Some(result) = self.result {
            own::check_bytes(result, bytes, Access::Write)?;
        }
        runs.sort_by_key(|run| run.offset);
        if runs.windows(2).any(|pair| pair[0].end() > pair[1].offset) {
            // Runs that have bytes in common are changed in the order of the data.
            runs.sort_by_key(|run| run.at);
        }
        let mut left = runs.as_slice();
        while !left.is_empty() {
            let (ranges, count) = first_ranges(left);
            self.change_ranges(&ranges, &left[..count])?;
            left = &left[count..];
        }
        self.skip(bytes);
        Ok(())
    }

    /// Changes runs that lie in these ranges, one behind the other.
    fn change_ranges(&mut self, ranges: &[(usize, usize)], runs: &[Run]) -> Result<(), Fault> {
        self.stage.resize(ranges.iter().map(|(_, bytes)| bytes).sum(), 0);
        alone_in(self.gate, ranges, || {
            self.copy(ranges, Direction::Gather)?;
            let mut place = 0;
            for data in runs.chunk_by(|run, next| run.at + run.bytes == next.at) {
                let (at, bytes) = (data[0].at, data.iter().map(|run| run.bytes).sum());
                let elements = self.stage[place..][..bytes].as_mut_ptr();
                // SAFETY: origin and result by the contract of `new`, and both were looked at.
                unsafe {
                    if let Some(result) = self.result {
                        copy(elements, result.wrapping_add(at), bytes);
                    }
                    self.change.apply(elements, bytes, self.origin.wrapping_add(at), None);
                }
                place += bytes;
            }
            if self.change.writes() { self.copy(ranges, Direction::Scatter) } else { Ok(()) }
        })
    }

    fn copy(&mut self, places: &[(usize, usize)], direction: Direction) -> Result<(), Fault> {
        // SAFETY: the stage has room for all of them.
        let mut ranges = unsafe { Ranges::new(self.remote.process, direction, self.stage.as_mut_ptr()) };
        for (offset, bytes) in places {
            ranges.add(self.remote.address + *offset as u64, *bytes)?;
        }
        Ok(ranges.flush()?)
    }
}

/// Ranges in rising order that the first runs make, and how many runs: as many as one batch takes. A run that
/// begins before the end of the last one begins a new batch.
fn first_ranges(runs: &[Run]) -> (Vec<(usize, usize)>, usize) {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    let (mut bytes, mut end) = (0, 0);
    for (count, run) in runs.iter().enumerate() {
        let is_full = bytes + run.bytes > BATCH_BYTES || ranges.len() == RANGES_MAX;
        if count > 0 && (run.offset < end || is_full) {
            return (ranges, count);
        }
        match ranges.last_mut() {
            Some((_, length)) if run.offset == end && *length + run.bytes <= LONG_BYTES => {
                *length += run.bytes;
            }
            _ => ranges.push((run.offset, run.bytes)),
        }
        (bytes, end) = (bytes + run.bytes, run.end());
    }
    (ranges, runs.len())
}
