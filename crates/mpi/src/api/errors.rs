//! MPI chapter 9: error handlers, classes, codes and texts.

use core::ffi::{CStr, c_int};

use crate::abi::*;
use crate::comm::Comms;
use crate::errhandler::{self, Object};
use crate::error::{Error, Result};
use crate::process::entry::{self, call, call_window};
use crate::session::Environment;
use crate::win::Windows;
use crate::{error_codes, process};

pub(super) fn set_handler_of_comm(comms: &mut Comms, comm: MPI_Comm, handler: MPI_Errhandler) -> Result<()> {
    let communicator = comms.find_mut(comm)?;
    errhandler::check_for(Object::Comm, handler)?;
    errhandler::retain(handler);
    errhandler::release(std::mem::replace(&mut communicator.errhandler, handler));
    Ok(())
}

/// The error handler of a communicator; the user gets a reference.
pub(super) fn handler_of_comm(comms: &Comms, comm: MPI_Comm) -> Result<MPI_Errhandler> {
    let handler = comms.find(comm)?.errhandler;
    errhandler::retain(handler);
    Ok(handler)
}

pub(super) fn set_handler_of_session(
    env: &mut Environment,
    session: MPI_Session,
    handler: MPI_Errhandler,
) -> Result<()> {
    errhandler::check_for(Object::Session, handler)?;
    errhandler::retain(handler);
    if let Some(session) = env.sessions.find_mut(session.0) {
        errhandler::release(std::mem::replace(&mut session.errhandler, handler));
    }
    Ok(())
}

/// The error handler of a session; the user gets a reference.
pub(super) fn handler_of_session(env: &Environment, session: MPI_Session) -> Result<MPI_Errhandler> {
    let handler = env.session(session)?.errhandler;
    errhandler::retain(handler);
    Ok(handler)
}

pub(super) fn set_handler_of_window(wins: &mut Windows, win: MPI_Win, handler: MPI_Errhandler) -> Result<()> {
    let window = wins.find_mut(win)?;
    errhandler::check_for(Object::Win, handler)?;
    errhandler::retain(handler);
    errhandler::release(std::mem::replace(&mut window.errhandler, handler));
    Ok(())
}

/// The error handler of a window; the user gets a reference.
pub(super) fn handler_of_window(wins: &Windows, win: MPI_Win) -> Result<MPI_Errhandler> {
    let handler = wins.find(win)?.errhandler;
    errhandler::retain(handler);
    Ok(handler)
}

/// Calls the error handler of a window.
pub(super) fn call_handler_of_window(name: &'static CStr, win: MPI_Win, errorcode: c_int) -> c_int {
    if let Some(guard) = process::enter()
        && let Ok(found) = guard.wins.find(win)
    {
        let handler = found.errhandler;
        entry::call_handler(guard, name, handler, win.0, errorcode);
        return MPI_SUCCESS;
    }
    call_window(name, win, |guard| guard.wins.find(win).map(drop))
}

/// Calls the error handler of a communicator (9.5).
#[inline]
pub unsafe fn MPI_Comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) -> c_int {
    const NAME: &CStr = c"MPI_Comm_call_errhandler";
    if let Some(guard) = process::enter()
        && let Ok(found) = guard.comms.find(comm)
    {
        let handler = found.errhandler;
        entry::call_handler(guard, NAME, handler, comm.0, errorcode);
        return MPI_SUCCESS;
    }
    call(NAME, comm, |guard| guard.comms.find(comm).map(drop))
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

/// The text of an error code. For the last error of this thread it tells what was wrong. Programs ask for all
/// from 0 to MPI_ERR_LASTCODE.
pub(super) fn description(code: c_int) -> Result<Vec<u8>> {
    let of_class = || errhandler::class_string(code).map(String::into_bytes);
    let of_none =
        || (0..MPI_ERR_LASTCODE).contains(&code).then(|| format!("error code {code}: none is known").into());
    error_codes::text_of(code).or_else(of_class).or_else(of_none).ok_or_else(|| {
        Error::new(MPI_ERR_ARG, format_args!("errorcode is {code}, which is not an error code"))
    })
}
