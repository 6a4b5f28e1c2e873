//! Many runs of elements in another process's memory, changed together: two calls of the kernel for some
//! hundred runs in place of two for each.

use tutti_shm::gate::{Gate, UNIT_BYTES};
use tutti_shm::opened::copy;

use super::{Fault, own};
use crate::accumulate::{Change, alone_in};
use crate::device::Access;
use crate::os::{Direction, Ranges, Remote};

/// Runs of a batch: what one call of the kernel takes.
const RUNS_MAX: usize = 1024;
/// Bytes of a batch: while they are changed, others wait.
const BATCH_BYTES: usize = UNIT_BYTES;
/// A run that is as long is changed by itself.
pub(super) const LONG_BYTES: usize = 4096;

/// Runs of whole elements that follow one another in the origin, in rising order at the target.
pub(super) struct Batch<'a> {
    gate: &'a Gate,
    remote: Remote,
    change: Change,
    /// Origin and result of the first run.
    origin: *const u8,
    result: Option<*mut u8>,
    runs: Vec<(usize, usize)>,
    bytes: usize,
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

    /// Adds a run, which is inside the memory.
    ///
    /// # Errors
    /// What the kernel says of those before it.
    pub(super) fn add(&mut self, offset: usize, bytes: usize) -> Result<(), Fault> {
        let follows = self.runs.last().is_none_or(|(last, length)| last + length <= offset);
        if !follows || self.runs.len() == RUNS_MAX || self.bytes + bytes > BATCH_BYTES {
            self.change()?;
        }
        self.runs.push((offset, bytes));
        self.bytes += bytes;
        Ok(())
    }

    /// Passes data of the origin, and of the result, that are changed in another way.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.origin = self.origin.wrapping_add(bytes);
        self.result = self.result.map(|result| result.wrapping_add(bytes));
    }

    /// Where the data of the next run are, if none waits.
    pub(super) fn places(&self) -> (*const u8, Option<*mut u8>) {
        (self.origin, self.result)
    }

    /// Changes what has been added.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn change(&mut self) -> Result<(), Fault> {
        let (runs, bytes) = (std::mem::take(&mut self.runs), std::mem::take(&mut self.bytes));
        if bytes == 0 {
            return Ok(());
        }
        if self.change.writes() {
            own::check_bytes(self.origin, bytes, Access::Read)?;
        }
        if let Some(result) = self.result {
            own::check_bytes(result, bytes, Access::Write)?;
        }
        self.stage.resize(bytes, 0);
        alone_in(self.gate, &runs, || {
            self.copy(&runs, Direction::Gather)?;
            // SAFETY: origin and result by the contract of `new`, and both were looked at.
            unsafe {
                if let Some(result) = self.result {
                    copy(self.stage.as_ptr(), result, bytes);
                }
                self.change.apply(self.stage.as_mut_ptr(), bytes, self.origin, None);
            }
            if self.change.writes() { self.copy(&runs, Direction::Scatter) } else { Ok(()) }
        })?;
        self.skip(bytes);
        Ok(())
    }

    fn copy(&mut self, runs: &[(usize, usize)], direction: Direction) -> Result<(), Fault> {
        // SAFETY: the stage has room for all of them.
        let mut ranges = unsafe { Ranges::new(self.remote.process, direction, self.stage.as_mut_ptr()) };
        for (offset, bytes) in runs {
            ranges.add(self.remote.address + *offset as u64, *bytes)?;
        }
        Ok(ranges.flush()?)
    }
}
