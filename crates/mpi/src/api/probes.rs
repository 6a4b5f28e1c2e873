//! MPI 3.8.1: what has come, without receiving it.

use core::ffi::c_int;

use crate::abi::*;
use crate::engine::Found;
use crate::errhandler::call;
use crate::error::Result;
use crate::process::{Guard, Process};
use crate::request::Outcome;

/// What a probe found, as a status.
fn outcome(guard: &Guard, comm: MPI_Comm, found: Found) -> Result<Outcome> {
    let source = guard.comm(comm)?.peers().rank_of(found.source).map_or(MPI_ANY_SOURCE, |rank| rank as c_int);
    Ok(Outcome { source, tag: found.tag, bytes: found.bytes, ..Outcome::EMPTY })
}

/// What has come.
fn probed(
    guard: &mut Guard,
    comm: MPI_Comm,
    context: u32,
    source: c_int,
    tag: c_int,
) -> Result<Option<Outcome>> {
    guard.engine.probe(context, source, tag).map(|found| outcome(guard, comm, found)).transpose()
}

/// Waits for a message without receiving it (3.8.1).
#[inline]
pub unsafe fn MPI_Probe(source: c_int, tag: c_int, comm: MPI_Comm, status: *mut MPI_Status) -> c_int {
    call(c"MPI_Probe", comm, |guard| {
        let outcome = match guard.checked_source(source, tag, comm)? {
            None => Outcome::PROC_NULL,
            Some((source, context)) => {
                // It may be gone by the time this thread runs again: another one may have received it.
                let find = |process: &mut Process| process.engine.probe(context, source, tag);
                let found = guard.await_message(context, source, tag, find);
                outcome(guard, comm, found)?
            }
        };
        // SAFETY: the user gives a status or MPI_STATUS_IGNORE.
        unsafe { outcome.write(status) };
        Ok(())
    })
}

/// Looks for a message without receiving it (3.8.1).
#[inline]
pub unsafe fn MPI_Iprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Iprobe", comm, |guard| {
        let outcome = match guard.checked_source(source, tag, comm)? {
            None => Some(Outcome::PROC_NULL),
            Some((source, context)) => match probed(guard, comm, context, source, tag)? {
                None => {
                    guard.progress(None);
                    probed(guard, comm, context, source, tag)?
                }
                found => found,
            },
        };
        // SAFETY: the user gives a place for the flag, and a status or MPI_STATUS_IGNORE.
        unsafe {
            flag.write(c_int::from(outcome.is_some()));
            if let Some(outcome) = outcome {
                outcome.write(status);
            }
        }
        Ok(())
    })
}
