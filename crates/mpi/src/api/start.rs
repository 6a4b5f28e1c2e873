//! MPI chapter 11: start and end.

use core::ffi::{c_char, c_int};

use crate::abi::*;
use crate::attribute_calls;
use crate::attributes::Owner;
use crate::errhandler;
use crate::error::{self, check};
use crate::lifecycle::{self, StartError};
use crate::phase::{self, AFTER, BEFORE, FORKED, RUNNING};
use crate::process;
use crate::process::entry::call;
use crate::session::Environment;
use tutti_runtime::{log, stdio};

/// A smaller stack may be used up before MPI runs; the signal that follows would not say so. The kernel takes
/// environment, arguments and a random 8 KiB of it.
const STACK_BYTES_MIN: u64 = 64 << 10;

/// The stack limit, if it is too small for MPI.
#[inline(never)]
fn small_stack_bytes() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the limit.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) };
    (result == 0 && limit.rlim_cur < STACK_BYTES_MIN).then_some(limit.rlim_cur)
}

/// The large frames are in there.
#[inline(never)]
fn start_world(required: c_int) -> Result<(), StartError> {
    lifecycle::start_world(required)
}

fn start(name: &str, required: c_int) -> c_int {
    if let Some(bytes) = small_stack_bytes() {
        let (found, expected) = (bytes >> 10, STACK_BYTES_MIN >> 10);
        log::line(format_args!(
            "{name}: the stack limit (ulimit -s) is {found} KiB, MPI needs {expected} KiB or more"
        ));
        errhandler::fail(MPI_ERR_OTHER)
    }
    match start_world(required) {
        Ok(()) => MPI_SUCCESS,
        Err(StartError::Twice) => {
            log::line(format_args!("{name} was called a second time"));
            MPI_ERR_OTHER
        }
        Err(StartError::Attach(error)) => {
            if error.should_report() {
                log::line(format_args!("{name}: {error}"));
            }
            errhandler::fail(MPI_ERR_OTHER)
        }
    }
}

/// Starts MPI for one thread (11.2.1).
#[inline]
pub unsafe fn MPI_Init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
    start("MPI_Init", MPI_THREAD_SINGLE)
}

/// Starts MPI for threads (11.6.2); every level can be had.
#[inline]
pub unsafe fn MPI_Init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    let levels = [MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED];
    let level = levels.into_iter().find(|level| required <= *level).unwrap_or(MPI_THREAD_MULTIPLE);
    let result = start("MPI_Init_thread", level);
    if !provided.is_null() {
        // SAFETY: the user gives a place for the level.
        unsafe { provided.write(level) };
    }
    result
}

/// Ends MPI (11.2.2).
#[inline]
pub unsafe fn MPI_Finalize() -> c_int {
    // The attributes of MPI_COMM_SELF go first of all, while everything still works (11.2.4).
    let result = call(c"MPI_Finalize", MPI_COMM_SELF, |guard| {
        check(lifecycle::world_phase() == RUNNING, MPI_ERR_OTHER, || {
            "MPI_Init was not called, or MPI_Finalize was".into()
        })?;
        attribute_calls::delete_all(guard, Owner::Comm(MPI_COMM_SELF))
    });
    stdio::flush_printed();
    lifecycle::end_world();
    result
}

/// Ends the job (9.7). Its status is the error code, of which the last 8 bits count; where these are 0 it is
/// 1: a job that was aborted has not succeeded. Other libraries give 0 then.
#[inline]
pub unsafe fn MPI_Abort(_comm: MPI_Comm, errorcode: c_int) -> c_int {
    // Without the lock: it may be called from a handler of signals that has interrupted a call.
    if phase::phase() == FORKED {
        log::line(format_args!("MPI_Abort was called {}", process::absence()));
    }
    errhandler::abort(errorcode)
}

/// Whether MPI_Init was called.
pub(super) fn has_started() -> error::Result<bool> {
    Ok(lifecycle::world_phase() != BEFORE)
}

/// Whether MPI_Finalize has completed.
pub(super) fn has_ended() -> error::Result<bool> {
    Ok(lifecycle::world_phase() == AFTER)
}

pub(super) fn thread_level(env: &Environment) -> error::Result<c_int> {
    Ok(env.thread_level)
}

/// Whether this thread called Init.
pub(super) fn is_main_thread(env: &Environment) -> error::Result<bool> {
    Ok(env.main_thread == process::thread_id())
}
