//! How errors reach the user (MPI chapter 9): through the error handler of the communicator.

use core::ffi::{CStr, c_int};

use tutti_shm::ticket::Notice;

use crate::abi::*;
use crate::error::Error;
use crate::process::{self, Guard};

/// An error handler made by the user.
#[derive(Clone, Copy, Debug)]
pub struct Handler {
    /// Address of its C function.
    pub function: usize,
    /// Communicators, and the user, that refer to it.
    pub references: u32,
}

/// The function as it is called: the fixed arguments; a variadic C function takes them the same way.
type Function = unsafe extern "C-unwind" fn(*mut MPI_Comm, *mut c_int, ...);

/// Runs a call of the face: enters the library, raises the error if there is one.
#[inline(always)]
pub fn call(
    name: &'static CStr,
    comm: MPI_Comm,
    body: impl FnOnce(&mut Guard) -> crate::error::Result<()>,
) -> c_int {
    let Some(mut guard) = process::enter() else { return outside(name) };
    match body(&mut guard) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise(guard, name, comm, error),
    }
}

/// Raises an error on a communicator, or on MPI_COMM_SELF when it is not a communicator (MPI 9.3.1).
#[cold]
#[inline(never)]
pub fn raise(mut guard: Guard, name: &CStr, comm: MPI_Comm, error: Error) -> c_int {
    let handler = guard.comm(comm).unwrap_or(&guard.predefined_comms[1]).errhandler;
    let function = name.to_string_lossy().into_owned();
    let rank = guard.engine.job.rank();
    let class = error.class;
    match handler {
        MPI_ERRORS_RETURN => guard.last_error = Some((class, format!("{function}: {error}").into())),
        MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT => {
            eprintln!("tutti: rank {rank}: {function}: {error}");
            abort(Some(guard), class);
        }
        _ => {
            guard.last_error = Some((class, format!("{function}: {error}").into()));
            if let Some(handler) = guard.errhandlers.find(handler.0).copied() {
                drop(guard);
                let (mut comm, mut code) = (comm, class);
                // SAFETY: the user gave this address as that of an error handler function; no lock is held and nothing is
                // borrowed while it runs.
                unsafe {
                    let function = std::mem::transmute::<usize, Function>(handler.function);
                    function(&mut comm, &mut code);
                }
            }
        }
    }
    class
}

/// A call before Init or after Finalize.
#[cold]
fn outside(name: &CStr) -> c_int {
    let when = if process::phase() == process::BEFORE { "before MPI_Init" } else { "after MPI_Finalize" };
    eprintln!("tutti: {} was called {when}", name.to_string_lossy());
    abort(None, MPI_ERR_OTHER)
}

/// Ends the job with an exit code (MPI_Abort).
pub fn abort(guard: Option<Guard>, code: c_int) -> ! {
    if let Some(guard) = &guard
        && let Some(starter) = guard.engine.job.starter()
    {
        starter.tell(Notice::Abort(code as u32));
    }
    // Buffered output of the program is worth more than a core dump here: exit handlers of stdio run, ours do nothing.
    // SAFETY: flushing all streams is always allowed.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(exit_status(code))
    }
}

/// An exit status that says failure whatever the code.
fn exit_status(code: c_int) -> c_int {
    if code & 0xff == 0 { 1 } else { code & 0xff }
}
