//! How a call enters the library, and how its error leaves it: through the error handler of the object that
//! the call is about (MPI chapter 9).
//!
//! ```text
//! call(name, comm, body)   enters, runs the body, raises its error on the communicator
//! call_window, call_file   the same on a window, a file
//! continue_*               the same for a call that has entered already, because it tried a short way first
//! ```

use core::ffi::{CStr, c_int};

use super::{Guard, absence, enter, handler_before_fork};
use crate::abi::*;
use crate::check;
use crate::errhandler::{default_of_files, fail, fatal, release, report, retain, run};
use crate::error::{Error, Result};
use crate::initial_errhandler;
use tutti_runtime::log;

/// Runs a call: enters the library, raises the error if there is one.
#[inline(always)]
pub fn call(name: &'static CStr, comm: MPI_Comm, body: impl FnOnce(&mut Guard) -> Result<()>) -> c_int {
    continue_or_enter(None, name, comm, body)
}

/// The same for a call that may have entered already.
#[inline(always)]
pub fn continue_or_enter(
    guard: Option<Guard>,
    name: &'static CStr,
    comm: MPI_Comm,
    body: impl FnOnce(&mut Guard) -> Result<()>,
) -> c_int {
    match guard.or_else(|| check::enter_call(name)) {
        Some(guard) => continue_after(guard, name, comm, body),
        None => outside(name),
    }
}

/// The same for a call about a window: errors are raised on it, or on MPI_COMM_SELF when it is none (MPI
/// 9.3.2).
#[inline(always)]
pub fn call_window(name: &'static CStr, win: MPI_Win, body: impl FnOnce(&mut Guard) -> Result<()>) -> c_int {
    let Some(mut guard) = check::enter_call(name) else { return outside(name) };
    guard.env.call = name;
    match body(&mut guard) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise_on_window(guard, name, win, error),
    }
}

/// A call about a window, of a process that is not running, or is being checked.
#[cold]
#[inline(never)]
pub fn enter_on_window(
    name: &'static CStr,
    win: MPI_Win,
    body: impl FnOnce(&mut Guard) -> Result<()>,
) -> c_int {
    call_window(name, win, body)
}

/// The rest of a call about a window that has entered the library already, because it tried a short way
/// first.
#[inline(never)]
pub fn continue_on_window(
    mut guard: Guard,
    name: &'static CStr,
    win: MPI_Win,
    body: impl FnOnce(&mut Guard) -> Result<()>,
) -> c_int {
    guard.env.call = name;
    match body(&mut guard) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise_on_window(guard, name, win, error),
    }
}

/// The same for a call about a file, or about files that are not open: those errors are raised on
/// MPI_FILE_NULL (MPI 14.7).
#[inline(always)]
pub fn call_file(name: &'static CStr, file: MPI_File, body: impl FnOnce(&mut Guard) -> Result<()>) -> c_int {
    let Some(mut guard) = check::enter_call(name) else { return outside(name) };
    guard.env.call = name;
    match body(&mut guard) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise_on_file(guard, name, file, error),
    }
}

/// The same for the last call about a file: an error that comes when the file has gone is raised by its
/// handler all the same.
pub fn end_file(name: &'static CStr, file: MPI_File, body: impl FnOnce(&mut Guard) -> Result<()>) -> c_int {
    let Some(mut guard) = check::enter_call(name) else { return outside(name) };
    guard.env.call = name;
    let kept = guard.files.find(file).ok().map(|found| found.errhandler);
    kept.into_iter().for_each(retain);
    let code = match body(&mut guard) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => match kept.filter(|_| guard.files.find(file).is_err()) {
            Some(handler) => raise_with(guard, name, handler, file.0, error),
            None => raise_on_file(guard, name, file, error),
        },
    };
    kept.into_iter().for_each(release);
    code
}

/// Raises an error on a file, or on MPI_FILE_NULL when it is none.
#[cold]
#[inline(never)]
pub fn raise_on_file(guard: Guard, name: &CStr, file: MPI_File, error: Error) -> c_int {
    let (file, handler) = match guard.files.find(file) {
        Ok(found) => (file, found.errhandler),
        Err(_) => (MPI_FILE_NULL, default_of_files()),
    };
    raise_with(guard, name, handler, file.0, error)
}

#[cold]
#[inline(never)]
fn raise_on_window(guard: Guard, name: &CStr, win: MPI_Win, error: Error) -> c_int {
    match guard.wins.find(win).map(|window| window.errhandler) {
        Ok(handler) => raise_with(guard, name, handler, win.0, error),
        Err(_) => raise(guard, name, MPI_COMM_NULL, error),
    }
}

/// The rest of a call that has entered the library already, because it tried a short way first.
#[inline(always)]
pub fn continue_after(
    mut guard: Guard,
    name: &'static CStr,
    comm: MPI_Comm,
    body: impl FnOnce(&mut Guard) -> Result<()>,
) -> c_int {
    guard.env.call = name;
    match body(&mut guard) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise(guard, name, comm, error),
    }
}

/// Runs a call on a session; errors go through its error handler.
pub fn on_session(
    name: &'static CStr,
    handle: MPI_Session,
    body: impl FnOnce(&mut Guard) -> Result<()>,
) -> c_int {
    let Some(mut guard) = enter() else { return call(name, MPI_COMM_NULL, |_| Ok(())) };
    let found = guard.env.session(handle).map(|session| session.errhandler);
    let result =
        found.as_ref().map_err(|error| Error::new(error.class, &error.text)).and_then(|_| body(&mut guard));
    match (result, found) {
        (Ok(()), _) => MPI_SUCCESS,
        (Err(error), Ok(handler)) => raise_with(guard, name, handler, handle.0, error),
        (Err(error), Err(_)) => raise(guard, name, MPI_COMM_NULL, error),
    }
}

/// Runs a call whose errors go through a handler that it is given.
pub fn call_with_handler(
    name: &'static CStr,
    handler: MPI_Errhandler,
    body: impl FnOnce(&mut Guard) -> Result<()>,
) -> c_int {
    let Some(mut guard) = enter() else { return outside(name) };
    match body(&mut guard) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise_with(guard, name, handler, MPI_COMM_NULL.0, error),
    }
}

/// The object on which the errors of a call are raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
    /// A communicator.
    Comm(MPI_Comm),
    /// A window.
    Win(MPI_Win),
    /// A file.
    File(MPI_File),
    /// A session.
    Session(MPI_Session),
}

/// Runs a call whose errors are raised on an object of any kind.
pub fn call_on(name: &'static CStr, object: Raised, body: impl FnOnce(&mut Guard) -> Result<()>) -> c_int {
    match object {
        Raised::Comm(comm) => call(name, comm, body),
        Raised::Win(win) => call_window(name, win, body),
        Raised::File(file) => call_file(name, file, body),
        Raised::Session(session) => on_session(name, session, body),
    }
}

/// Runs a call that is allowed before Init and after Finalize, and needs nothing of the process.
pub fn call_anytime(name: &'static CStr, body: impl FnOnce() -> Result<()>) -> c_int {
    match body() {
        Ok(()) => MPI_SUCCESS,
        Err(error) => match enter() {
            Some(guard) => raise(guard, name, MPI_COMM_NULL, error),
            None => raise_anywhere(name, initial_errhandler::handler(), MPI_COMM_SELF.0, error),
        },
    }
}

/// Raises an error on the communicator, file or window of the operation that failed; if there is none, on the
/// communicator of the call. When that is none, [`comm_without_object`] has them.
#[cold]
#[inline(never)]
pub fn raise(mut guard: Guard, name: &CStr, comm: MPI_Comm, error: Error) -> c_int {
    let of_operation = error.context.and_then(|context| guard.comms.of_context(context));
    if let Some((file, handler)) = of_operation.and_then(|comm| guard.files.of_comm(comm)) {
        return raise_with(guard, name, handler, file.0, error);
    }
    if let Some((win, handler)) = of_operation.and_then(|comm| guard.wins.of_comm(comm)) {
        return raise_with(guard, name, handler, win.0, error);
    }
    let of_freed = error.context.filter(|_| of_operation.is_none());
    if let Some((freed, handler)) = of_freed.and_then(|context| guard.comms.freed_with(context)) {
        return raise_with(guard, name, handler, freed.0, error);
    }
    let comm = of_operation.unwrap_or(comm);
    let (comm, handler) = match guard.comms.find(comm) {
        Ok(found) => (comm, found.errhandler),
        Err(_) => comm_without_object(&mut guard, name),
    };
    raise_with(guard, name, handler, comm.0, error)
}

/// Where errors of calls are raised that name no object: on MPI_COMM_SELF (MPI-4.0, 9.3). Before that it
/// was MPI_COMM_WORLD (MPI-3.1, 8.3), and programs that set a handler for that one alone still count on
/// it: while MPI_COMM_SELF has its initial handler, they get theirs.
fn comm_without_object(guard: &mut Guard, name: &CStr) -> (MPI_Comm, MPI_Errhandler) {
    let (world, own) = (guard.comms.world().errhandler, guard.comms.own().errhandler);
    let initial = initial_errhandler::handler();
    if own != initial || world == initial {
        return (MPI_COMM_SELF, own);
    }
    guard.inspect().remark_on_handler(name);
    (MPI_COMM_WORLD, world)
}

/// The same where the process may have no place in its job.
#[cold]
pub fn raise_anywhere(name: &CStr, handler: MPI_Errhandler, object: usize, error: Error) -> c_int {
    if let Some(guard) = enter() {
        return raise_with(guard, name, handler, object, error);
    }
    if matches!(handler, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT) {
        fatal(None, name, &error);
    }
    report(name, handler, object, error)
}

/// Raises an error through a handler; `object` is the handle that the user's function is given.
#[cold]
pub fn raise_with(guard: Guard, name: &CStr, handler: MPI_Errhandler, object: usize, error: Error) -> c_int {
    if matches!(handler, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT) {
        end(guard, name, &error);
    }
    drop(guard);
    report(name, handler, object, error)
}

/// Calls a handler with a code of the user's choice (9.5), with no lock held.
pub fn call_handler(guard: Guard, name: &CStr, handler: MPI_Errhandler, object: usize, code: c_int) {
    match handler {
        MPI_ERRORS_RETURN => {}
        MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT => {
            end(guard, name, &Error::new(code, format_args!("the program raises error code {code}")));
        }
        _ => {
            drop(guard);
            run(handler, object, code);
        }
    }
}

/// A call before Init, after Finalize, or in a forked child.
#[cold]
pub fn outside(name: &CStr) -> c_int {
    let when = absence();
    let handler = handler_before_fork().unwrap_or_else(initial_errhandler::handler);
    if matches!(handler, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT) {
        log::line(format_args!("{} was called {when}", name.to_string_lossy()));
        fail(MPI_ERR_OTHER)
    }
    report(name, handler, MPI_COMM_WORLD.0, Error::new(MPI_ERR_OTHER, format_args!("called {when}")))
}

/// Ends the job after an error.
#[cold]
fn end(guard: Guard, name: &CStr, error: &Error) -> ! {
    let rank = guard.engine.job.rank();
    drop(guard);
    fatal(Some(rank), name, error)
}
