//! MPI chapter 9: error handlers, classes, codes and texts.

use core::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::abi::*;
use crate::errhandler::{self, Object, call};
use crate::error::{Error, Result, check};
use crate::process::Guard;
use crate::{error_codes, process};

/// The handler of MPI_FILE_NULL, which new files get (14.7).
static DEFAULT_OF_FILES: AtomicUsize = AtomicUsize::new(MPI_ERRORS_RETURN.0);

pub(super) fn set_handler_of_comm(guard: &mut Guard, comm: MPI_Comm, handler: MPI_Errhandler) -> Result<()> {
    let communicator = guard.comm_mut(comm)?;
    errhandler::check_for(Object::Comm, handler)?;
    errhandler::retain(handler);
    errhandler::release(std::mem::replace(&mut communicator.errhandler, handler));
    Ok(())
}

/// The error handler of a communicator; the user gets a reference.
pub(super) fn handler_of_comm(guard: &Guard, comm: MPI_Comm) -> Result<MPI_Errhandler> {
    let handler = guard.comm(comm)?.errhandler;
    errhandler::retain(handler);
    Ok(handler)
}

pub(super) fn set_handler_of_session(
    guard: &mut Guard,
    session: MPI_Session,
    handler: MPI_Errhandler,
) -> Result<()> {
    errhandler::check_for(Object::Session, handler)?;
    errhandler::retain(handler);
    if let Some(session) = guard.sessions.find_mut(session.0) {
        errhandler::release(std::mem::replace(&mut session.errhandler, handler));
    }
    Ok(())
}

/// The error handler of a session; the user gets a reference.
pub(super) fn handler_of_session(guard: &Guard, session: MPI_Session) -> Result<MPI_Errhandler> {
    let handler = guard.session(session)?.errhandler;
    errhandler::retain(handler);
    Ok(handler)
}

fn check_null_file(file: MPI_File) -> Result<()> {
    check(file == MPI_FILE_NULL, MPI_ERR_FILE, || format!("file {:#x} is closed or was never one", file.0))
}

pub(super) fn set_handler_of_file(_: &Guard, file: MPI_File, handler: MPI_Errhandler) -> Result<()> {
    check_null_file(file)?;
    errhandler::check_for(Object::File, handler)?;
    errhandler::retain(handler);
    errhandler::release(MPI_Errhandler(DEFAULT_OF_FILES.swap(handler.0, Ordering::Relaxed)));
    Ok(())
}

/// The error handler that new files get; the user gets a reference.
pub(super) fn handler_of_file(_: &Guard, file: MPI_File) -> Result<MPI_Errhandler> {
    check_null_file(file)?;
    let handler = MPI_Errhandler(DEFAULT_OF_FILES.load(Ordering::Relaxed));
    errhandler::retain(handler);
    Ok(handler)
}

/// Calls the error handler of a communicator (9.5).
#[inline]
pub unsafe fn MPI_Comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) -> c_int {
    const NAME: &core::ffi::CStr = c"MPI_Comm_call_errhandler";
    if let Some(guard) = process::enter()
        && let Ok(found) = guard.comm(comm)
    {
        let handler = found.errhandler;
        errhandler::call_handler(guard, NAME, handler, comm.0, errorcode);
        return MPI_SUCCESS;
    }
    call(NAME, comm, |guard| guard.comm(comm).map(drop))
}

/// Calls the error handler that new files get (9.5).
#[inline]
pub unsafe fn MPI_File_call_errhandler(fh: MPI_File, errorcode: c_int) -> c_int {
    const NAME: &core::ffi::CStr = c"MPI_File_call_errhandler";
    if fh == MPI_FILE_NULL
        && let Some(guard) = process::enter()
    {
        let handler = MPI_Errhandler(DEFAULT_OF_FILES.load(Ordering::Relaxed));
        errhandler::call_handler(guard, NAME, handler, fh.0, errorcode);
        return MPI_SUCCESS;
    }
    call(NAME, MPI_COMM_SELF, |_| check_null_file(fh))
}

/// The user lets go of an error handler.
pub(super) fn free_handler(handler: MPI_Errhandler) -> Result<MPI_Errhandler> {
    errhandler::free(handler)?;
    Ok(MPI_ERRHANDLER_NULL)
}

/// The class of an error code.
pub(super) fn class(code: c_int) -> Result<c_int> {
    Ok(error_codes::class_of(code))
}

/// The text of an error code. For the last error of this thread it tells what was wrong.
pub(super) fn description(code: c_int) -> Result<Vec<u8>> {
    error_codes::text_of(code).or_else(|| errhandler::class_string(code).map(String::into_bytes)).ok_or_else(
        || Error::new(MPI_ERR_ARG, format_args!("errorcode is {code}, which is not an error code")),
    )
}
