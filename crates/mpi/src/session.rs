//! Sessions of this process (MPI 11.3), and the process sets: from handles and names to what they are.

use std::rc::Rc;

use core::ffi::{CStr, c_int};

use crate::abi::*;
use crate::attached::{Attached, Origin};
use crate::comm::{Comms, Group};
use crate::error::{Error, Result};
use crate::handle::{Kind, Slab};

/// The process sets that there are.
pub(crate) const PSETS: [&[u8]; 2] = [b"mpi://WORLD", b"mpi://SELF"];

/// Environment of this process: what it was promised and told.
#[derive(Debug)]
pub struct Environment {
    /// MPI_UNIVERSE_SIZE: how many processes the user expects.
    pub universe_size: c_int,
    /// MPI_APPNUM: which of several programs of the job this one is, if the launcher tells.
    pub app_number: Option<c_int>,
    /// Thread level given by Init.
    pub thread_level: c_int,
    /// Thread that called Init.
    pub main_thread: libc::pid_t,
    /// Open sessions.
    pub sessions: Slab<Session>,
    /// The process's buffer for buffered sends.
    pub buffer: Option<Attached>,
    /// The function that was called last, if it was not done at once.
    pub call: &'static CStr,
}

/// A call that reaches what its process was promised.
pub trait HasEnvironment {
    /// Threads, sessions, and the place among programs.
    fn env(&self) -> &Environment;

    /// Threads, sessions, and the place among programs, to be changed.
    fn env_mut(&mut self) -> &mut Environment;
}

/// A session of this process.
#[derive(Debug)]
pub struct Session {
    /// Error handler; one of its references is ours.
    pub errhandler: MPI_Errhandler,
    /// Thread level that was asked for.
    pub thread_level: c_int,
    /// State shared with the groups and communicators that go back to it.
    pub origin: Rc<Origin>,
}

impl Environment {
    /// Environment of a process that starts.
    pub(crate) fn new(
        universe_size: c_int,
        app_number: Option<c_int>,
        thread_level: c_int,
        main_thread: libc::pid_t,
    ) -> Self {
        Environment {
            universe_size,
            app_number,
            thread_level,
            main_thread,
            sessions: Slab::new(Kind::Session),
            buffer: None,
            call: c"MPI_Init",
        }
    }

    /// Whether several threads may be in calls at once: one user of the library has MPI_THREAD_MULTIPLE, or
    /// another has threads beside a session.
    pub fn has_threads(&self) -> bool {
        self.thread_level == MPI_THREAD_MULTIPLE
            || self.thread_level != MPI_THREAD_SINGLE && !self.sessions.is_empty()
    }

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
}

/// The processes of a set.
///
/// # Errors
/// MPI_ERR_ARG when there is no such set.
pub(crate) fn process_set(comms: &Comms, name: &[u8]) -> Result<Rc<Group>> {
    // Capital letters are as good as small ones in such names.
    let matches = |pset: &[u8]| name.len() == pset.len() && name.eq_ignore_ascii_case(pset);
    let found = PSETS.iter().position(|pset| matches(pset)).ok_or_else(|| {
        let name = String::from_utf8_lossy(name);
        Error::new(MPI_ERR_ARG, format_args!("pset_name is \"{name}\", expected mpi://WORLD or mpi://SELF"))
    })?;
    Ok([comms.world(), comms.own()][found].group.clone())
}
