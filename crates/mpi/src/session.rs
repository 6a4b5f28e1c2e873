//! Who uses the library: the world model (MPI_Init to MPI_Finalize) and sessions (MPI 11.2 and 11.3), in any order and at the
//! same time. A process takes its place in the job once, for the first of them; it leaves when the world model has ended and no
//! session is open, or, if there never was a world model, when the process ends, for it may open another session until then.

use core::ffi::c_int;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tutti_runtime::attach::AttachError;

use crate::abi::*;
use crate::comm::Group;
use crate::error::{Error, Result, check};
use crate::process::{self, AFTER, BEFORE, Guard, RUNNING};

/// A session of this process.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// Error handler; one of its references is ours.
    pub errhandler: MPI_Errhandler,
    /// Thread level that was asked for.
    pub thread_level: c_int,
}

/// The process sets that there are.
pub const PSETS: [&[u8]; 2] = [b"mpi://WORLD", b"mpi://SELF"];

/// Phase of the world model.
static WORLD: AtomicU8 = AtomicU8::new(BEFORE);
/// Open sessions.
static SESSIONS: AtomicUsize = AtomicUsize::new(0);
/// Held while the library starts or ends.
static CHANGE: Mutex<()> = Mutex::new(());

/// Phase of the world model: MPI_Initialized and MPI_Finalized tell it.
pub fn world_phase() -> u8 {
    WORLD.load(Ordering::Acquire)
}

/// Why the library did not start.
#[derive(Debug)]
pub enum StartError {
    /// The world model was started before.
    Twice,
    /// The place in the job cannot be had.
    Attach(AttachError),
}

/// Starts the world model.
///
/// # Errors
/// When it was started before, or the place in the job cannot be had.
pub fn start_world(required: c_int) -> std::result::Result<(), StartError> {
    let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
    if world_phase() != BEFORE {
        return Err(StartError::Twice);
    }
    start_or_raise(required).map_err(StartError::Attach)?;
    WORLD.store(RUNNING, Ordering::Release);
    Ok(())
}

/// Ends the world model. The caller has deleted what hangs on MPI_COMM_SELF.
pub fn end_world() {
    let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
    WORLD.store(AFTER, Ordering::Release);
    if SESSIONS.load(Ordering::Acquire) == 0 {
        leave();
    }
}

/// One more session.
///
/// # Errors
/// MPI_ERR_UNSUPPORTED_OPERATION when this process has left its job; MPI_ERR_OTHER when it cannot take its place.
pub fn open(session: Session) -> Result<MPI_Session> {
    let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
    check(process::phase() != AFTER, MPI_ERR_UNSUPPORTED_OPERATION, || {
        "this process has left its job with MPI_Finalize and the end of its last session".into()
    })?;
    let is_first = process::phase() == BEFORE;
    start_or_raise(session.thread_level).map_err(|error| Error::new(MPI_ERR_OTHER, error))?;
    if is_first {
        // SAFETY: the function is static and takes no argument.
        unsafe { libc::atexit(leave_at_exit) };
    }
    SESSIONS.fetch_add(1, Ordering::AcqRel);
    let mut guard = process::enter()
        .ok_or_else(|| Error::new(MPI_ERR_OTHER, format_args!("called {}", process::absence())))?;
    let index = guard.sessions.insert(session);
    Ok(MPI_Session(guard.sessions.handle(index)))
}

/// One session less; the handle is stale already.
pub fn closed() {
    let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
    if SESSIONS.fetch_sub(1, Ordering::AcqRel) == 1 && world_phase() == AFTER {
        leave();
    }
}

fn start_or_raise(required: c_int) -> std::result::Result<(), AttachError> {
    if process::phase() == BEFORE {
        return process::start(required);
    }
    process::raise_thread_level(required);
    Ok(())
}

fn leave() {
    if let Some(guard) = process::enter() {
        process::finish(guard);
    }
}

/// A process that only had sessions leaves when it ends, if it has closed them all.
extern "C" fn leave_at_exit() {
    if world_phase() != RUNNING && SESSIONS.load(Ordering::Acquire) == 0 {
        leave();
    }
}

impl Guard {
    /// A session by handle.
    ///
    /// # Errors
    /// MPI_ERR_SESSION when it names none.
    pub fn session(&self, handle: MPI_Session) -> Result<&Session> {
        self.sessions.find(handle.0).ok_or_else(|| {
            let what = if handle == MPI_SESSION_NULL {
                "is MPI_SESSION_NULL"
            } else {
                "is finalized or was never one"
            };
            Error::new(MPI_ERR_SESSION, format_args!("session {:#x} {what}", handle.0))
        })
    }

    /// The processes of a set.
    ///
    /// # Errors
    /// MPI_ERR_ARG when there is no such set.
    pub fn process_set(&self, name: &[u8]) -> Result<Rc<Group>> {
        // Capital letters are as good as small ones in such names.
        let matches = |pset: &[u8]| name.len() == pset.len() && name.eq_ignore_ascii_case(pset);
        let found = PSETS.iter().position(|pset| matches(pset)).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            Error::new(
                MPI_ERR_ARG,
                format_args!("pset_name is \"{name}\", expected mpi://WORLD or mpi://SELF"),
            )
        })?;
        Ok(self.predefined_comms[found].group.clone())
    }
}
