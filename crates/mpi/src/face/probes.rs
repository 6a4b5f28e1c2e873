//! MPI 3.8.1: what has come, without receiving it.

use core::ffi::c_int;

use crate::abi::*;
use crate::errhandler::call;
use crate::process::Guard;
use crate::request::Outcome;

/// What a probe found, as a status.
fn probed(guard: &Guard, comm: MPI_Comm, context: u32, source: c_int, tag: c_int) -> Option<Outcome> {
    let found = guard.engine.probe(context, source, tag)?;
    let source = guard.comm(comm).ok()?.peers().rank_of(found.source)? as c_int;
    Some(Outcome { source, tag: found.tag, bytes: found.bytes, ..Outcome::EMPTY })
}

/// Waits for a message without receiving it (3.8.1).
#[inline]
pub unsafe fn MPI_Probe(source: c_int, tag: c_int, comm: MPI_Comm, status: *mut MPI_Status) -> c_int {
    call(c"MPI_Probe", comm, |guard| {
        let outcome = match guard.checked_source(source, tag, comm)? {
            None => Outcome::PROC_NULL,
            Some((source, context)) => {
                guard.await_message(context, source, tag);
                probed(guard, comm, context, source, tag).expect("a message found stays until it is received")
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
            Some((source, context)) => probed(guard, comm, context, source, tag).or_else(|| {
                guard.progress(None);
                probed(guard, comm, context, source, tag)
            }),
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
