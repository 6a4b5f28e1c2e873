//! The memory of ranks of this node that has been opened: mapped here when it is first used.

use core::ffi::c_int;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tutti_runtime::job::Job;
use tutti_runtime::word_wait;
use tutti_shm::arena::{Mapping, Range};
use tutti_shm::directory::Directory;
use tutti_shm::opened::Opened;
use tutti_shm::watch;

use crate::handle::{Handle, WRITE};
use crate::status::*;

/// Mappings of mates' memory that are kept.
const MAPPINGS_MAX: usize = 1024;

/// By place in the arena.
static MATES: Mutex<BTreeMap<(u64, u64), Mapping>> = Mutex::new(BTreeMap::new());

pub(crate) fn opened(mapping: &Mapping) -> Opened {
    // SAFETY: it stays mapped while it is used: under the process lock, or until the user gives it back.
    unsafe { Opened::new(mapping.base(), mapping.range().bytes as usize) }
}

/// Memory that a look at a region works on, and the rights to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here {
    pub memory: Opened,
    pub rights: c_int,
}

/// Works on a region of a rank of this node: it stays open meanwhile.
pub(crate) fn visit<T>(
    job: &Job,
    handle: &Handle,
    work: impl FnOnce(Here) -> Result<T, c_int>,
) -> Result<T, c_int> {
    let mut mates = MATES.lock().unwrap_or_else(PoisonError::into_inner);
    let ranks = job.local_ranks();
    if mates.len() >= MAPPINGS_MAX {
        // None of them is in use here.
        mates.clear();
    }
    let mut map = |range: Range| -> Result<Opened, c_int> {
        let key = (range.offset, range.bytes);
        if let Some(mapping) = mates.get(&key) {
            return Ok(opened(mapping));
        }
        let mapping = job.map(range).map_err(|_| MEMORY)?;
        let memory = opened(&mapping);
        mates.insert(key, mapping);
        if mates.len() == 1 && !watch::register() {
            word_wait::store_unnoticed(job);
        }
        Ok(memory)
    };
    let bytes = Directory::bytes(ranks.len()).next_multiple_of(4096) as u64;
    let directory = map(Range { offset: handle.directory, bytes })?;
    let directory = Directory::new(directory, ranks.len()).ok_or(NO_REGION_STATUS)?;
    let own = ranks.index_of(job.rank());
    let visit = directory.visit(own, handle.slot as usize, handle.generation).ok_or(NO_REGION_STATUS)?;
    let line = visit.line;
    let whole = map(line.range)?;
    let base = whole.address(line.begin as usize, line.bytes as usize).ok_or(NO_REGION_STATUS)?;
    // SAFETY: a part of a mapping that is kept under the lock that we hold.
    let memory = unsafe { Opened::new(base, line.bytes as usize) };
    work(Here { memory, rights: line.rights as c_int })
}

/// Whether a region has a right and all of these ranges.
pub(crate) fn check(here: &Here, right: c_int, ranges: &[(u64, usize)]) -> c_int {
    if here.rights & right == 0 {
        return NO_RIGHT;
    }
    let is_inside = |&(offset, bytes): &(u64, usize)| {
        usize::try_from(offset).is_ok_and(|offset| here.memory.address(offset, bytes).is_some())
    };
    if ranges.iter().all(is_inside) { OK } else { OUT_OF_RANGE }
}

/// Writes to a rank of this node, and wakes it if it waits for that.
///
/// # Safety
/// `from` is valid for reading so many bytes.
pub(crate) unsafe fn write(job: &Job, handle: &Handle, offset: u64, from: *const u8, bytes: usize) -> c_int {
    let done = visit(job, handle, |here| {
        let status = check(&here, WRITE, &[(offset, bytes)]);
        if status != OK {
            return Err(status);
        }
        // SAFETY: our contract; the range was checked.
        unsafe { here.memory.store(offset as usize, from, bytes) };
        Ok(())
    });
    if done.is_ok() {
        watch::notify(job.endpoint(handle.rank as usize));
    }
    done.err().unwrap_or(OK)
}
