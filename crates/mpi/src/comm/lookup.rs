//! From handles to communicators and groups, and back.

use std::rc::Rc;

use super::group::Group;
use super::{CONTEXTS_PER_COMM, Comm};
use crate::abi::*;
use crate::error::{Error, Result, check};
use crate::process::{Guard, Process};

impl Process {
    /// A communicator by handle.
    ///
    /// # Errors
    /// MPI_ERR_COMM when it names none.
    #[inline(always)]
    pub fn comm(&self, handle: MPI_Comm) -> Result<&Comm> {
        if handle == MPI_COMM_WORLD {
            return Ok(&self.predefined_comms[0]);
        }
        if handle == MPI_COMM_SELF {
            return Ok(&self.predefined_comms[1]);
        }
        self.comms.find(handle.0).ok_or_else(|| bad_comm(handle))
    }

    /// The intercommunicator of a handle, with its remote group.
    ///
    /// # Errors
    /// MPI_ERR_COMM when it names none, or an intracommunicator.
    pub fn intercomm(&self, handle: MPI_Comm) -> Result<(&Comm, &Rc<Group>)> {
        let comm = self.comm(handle)?;
        let remote = comm.remote.as_ref().ok_or_else(|| {
            let what = "is an intracommunicator, expected an intercommunicator";
            Error::new(MPI_ERR_COMM, format_args!("communicator {:#x} {what}", handle.0))
        })?;
        Ok((comm, remote))
    }
}

impl Guard {
    /// The communicator that has a context.
    pub fn comm_of_context(&self, context: u32) -> Option<MPI_Comm> {
        let context = context - context % CONTEXTS_PER_COMM;
        if let Some(index) = self.predefined_comms.iter().position(|comm| comm.context == context) {
            return Some([MPI_COMM_WORLD, MPI_COMM_SELF][index]);
        }
        let found = self.comms.iter().find(|(_, comm)| comm.context == context);
        found.map(|(index, _)| MPI_Comm(self.comms.handle(index)))
    }

    /// The rank that a process has in the communicator of a context: a peer's, as it is named in calls.
    pub fn rank_in_context(&self, context: u32, world: u32) -> Option<u32> {
        let comm = self.comm(self.comm_of_context(context)?).ok()?;
        comm.peers().rank_of(world).or_else(|| comm.group.rank_of(world))
    }

    /// A communicator by handle, to be changed.
    ///
    /// # Errors
    /// MPI_ERR_COMM when it names none.
    pub fn comm_mut(&mut self, handle: MPI_Comm) -> Result<&mut Comm> {
        match handle {
            MPI_COMM_WORLD => Ok(&mut self.predefined_comms[0]),
            MPI_COMM_SELF => Ok(&mut self.predefined_comms[1]),
            _ => self.comms.find_mut(handle.0).ok_or_else(|| bad_comm(handle)),
        }
    }

    /// The intracommunicator of a handle.
    ///
    /// # Errors
    /// MPI_ERR_COMM when it names none, or an intercommunicator.
    pub fn intracomm(&self, handle: MPI_Comm) -> Result<&Comm> {
        let comm = self.comm(handle)?;
        check(comm.remote.is_none(), MPI_ERR_COMM, || {
            format!("communicator {:#x} is an intercommunicator, expected an intracommunicator", handle.0)
        })?;
        Ok(comm)
    }

    /// Keeps a new communicator; gives its handle.
    pub fn keep_comm(&mut self, comm: Comm) -> MPI_Comm {
        let index = self.comms.insert(comm);
        MPI_Comm(self.comms.handle(index))
    }

    /// A group by handle.
    ///
    /// # Errors
    /// MPI_ERR_GROUP when it names none.
    pub fn group(&self, handle: MPI_Group) -> Result<Rc<Group>> {
        if handle == MPI_GROUP_EMPTY {
            return Ok(Rc::default());
        }
        self.groups.find(handle.0).cloned().ok_or_else(|| {
            let what =
                if handle == MPI_GROUP_NULL { "is MPI_GROUP_NULL" } else { "is freed or was never one" };
            Error::new(MPI_ERR_GROUP, format_args!("group {:#x} {what}", handle.0))
        })
    }

    /// Keeps a group; gives its handle, which for the empty one is that of the standard.
    pub fn keep_group(&mut self, group: Rc<Group>) -> MPI_Group {
        if group.size() == 0 {
            return MPI_GROUP_EMPTY;
        }
        let index = self.groups.insert(group);
        MPI_Group(self.groups.handle(index))
    }
}

#[cold]
fn bad_comm(handle: MPI_Comm) -> Error {
    let what = if handle == MPI_COMM_NULL { "is MPI_COMM_NULL" } else { "is freed or was never one" };
    Error::new(MPI_ERR_COMM, format_args!("communicator {:#x} {what}", handle.0))
}
