//! Sessions of this process (MPI 11.3), and the process sets: from handles and names to what they are.

use std::rc::Rc;

use crate::abi::*;
use crate::comm::Group;
use crate::error::{Error, Result};
use crate::process::{Guard, Session};

/// The process sets that there are.
pub(crate) const PSETS: [&[u8]; 2] = [b"mpi://WORLD", b"mpi://SELF"];

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
