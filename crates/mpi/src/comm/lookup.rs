//! From handles to communicators and groups, and back.

use std::collections::HashMap;
use std::rc::Rc;

use super::group::Group;
use super::{CONTEXTS_PER_COMM, Comm, Comms};
use crate::abi::*;
use crate::error::{Error, Result, check};
use crate::handle::{Kind, Slab};

impl Comms {
    /// Communicators that every process has.
    pub fn new(predefined: [Comm; 2]) -> Self {
        Comms {
            predefined,
            made: Slab::new(Kind::Comm),
            freed: Vec::new(),
            groups: Slab::new(Kind::Group),
            parent: MPI_COMM_NULL,
            ports: Default::default(),
            stays_connected: false,
            message_groups: HashMap::new(),
        }
    }

    /// MPI_COMM_WORLD.
    pub fn world(&self) -> &Comm {
        &self.predefined[0]
    }

    /// MPI_COMM_SELF.
    pub fn own(&self) -> &Comm {
        &self.predefined[1]
    }

    /// The communicators that the user has made.
    pub fn made(&self) -> &Slab<Comm> {
        &self.made
    }

    /// The groups that the user has made.
    pub fn groups(&self) -> &Slab<Rc<Group>> {
        &self.groups
    }

    /// The intercommunicator with those who started this process, or MPI_COMM_NULL.
    pub fn parent(&self) -> MPI_Comm {
        self.parent
    }

    /// Keeps the group in which the sender of a message counts that was taken out of matching.
    pub fn keep_message_group(&mut self, message: MPI_Message, group: Option<Rc<Group>>) {
        self.message_groups.insert(message.0, group);
    }

    /// Takes it back for the receive of the message.
    pub fn take_message_group(&mut self, message: MPI_Message) -> Option<Rc<Group>> {
        self.message_groups.remove(&message.0).flatten()
    }

    /// Names are those of processes that have not left.
    pub fn take_names_back(&self) {
        self.ports.take_names_back();
    }

    /// A communicator by handle.
    ///
    /// # Errors
    /// MPI_ERR_COMM when it names none.
    #[inline(always)]
    pub fn find(&self, handle: MPI_Comm) -> Result<&Comm> {
        if handle == MPI_COMM_WORLD {
            return Ok(&self.predefined[0]);
        }
        if handle == MPI_COMM_SELF {
            return Ok(&self.predefined[1]);
        }
        self.made.find(handle.0).ok_or_else(|| bad_comm(handle))
    }

    /// The intercommunicator of a handle, with its remote group.
    ///
    /// # Errors
    /// MPI_ERR_COMM when it names none, or an intracommunicator.
    pub fn intercomm(&self, handle: MPI_Comm) -> Result<(&Comm, &Rc<Group>)> {
        let comm = self.find(handle)?;
        let remote = comm.remote.as_ref().ok_or_else(|| {
            let what = "is an intracommunicator, expected an intercommunicator";
            Error::new(MPI_ERR_COMM, format_args!("communicator {:#x} {what}", handle.0))
        })?;
        Ok((comm, remote))
    }

    /// The communicator that has a context.
    pub fn of_context(&self, context: u32) -> Option<MPI_Comm> {
        let context = context - context % CONTEXTS_PER_COMM;
        if let Some(index) = self.predefined.iter().position(|comm| comm.context == context) {
            return Some([MPI_COMM_WORLD, MPI_COMM_SELF][index]);
        }
        let found = self.made.iter().find(|(_, comm)| comm.context == context);
        found.map(|(index, _)| MPI_Comm(self.made.handle(index)))
    }

    /// The rank that a process has in the communicator of a context: a peer's, as it is named in calls.
    pub fn rank_in_context(&self, context: u32, world: u32) -> Option<u32> {
        let comm = self.find(self.of_context(context)?).ok()?;
        comm.peers().rank_of(world).or_else(|| comm.group.rank_of(world))
    }

    /// A communicator by handle, to be changed.
    ///
    /// # Errors
    /// MPI_ERR_COMM when it names none.
    pub fn find_mut(&mut self, handle: MPI_Comm) -> Result<&mut Comm> {
        match handle {
            MPI_COMM_WORLD => Ok(&mut self.predefined[0]),
            MPI_COMM_SELF => Ok(&mut self.predefined[1]),
            _ => self.made.find_mut(handle.0).ok_or_else(|| bad_comm(handle)),
        }
    }

    /// The intracommunicator of a handle.
    ///
    /// # Errors
    /// MPI_ERR_COMM when it names none, or an intercommunicator.
    pub fn intracomm(&self, handle: MPI_Comm) -> Result<&Comm> {
        let comm = self.find(handle)?;
        check(comm.remote.is_none(), MPI_ERR_COMM, || {
            format!("communicator {:#x} is an intercommunicator, expected an intracommunicator", handle.0)
        })?;
        Ok(comm)
    }

    /// Keeps a new communicator; gives its handle.
    pub fn keep(&mut self, comm: Comm) -> MPI_Comm {
        let index = self.made.insert(comm);
        MPI_Comm(self.made.handle(index))
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

    /// The user lets go of a group; whether it was there.
    pub fn free_group(&mut self, handle: MPI_Group) -> bool {
        self.groups.index(handle.0).map(|index| self.groups.remove(index)).is_some()
    }
}

#[cold]
fn bad_comm(handle: MPI_Comm) -> Error {
    let what = if handle == MPI_COMM_NULL { "is MPI_COMM_NULL" } else { "is freed or was never one" };
    Error::new(MPI_ERR_COMM, format_args!("communicator {:#x} {what}", handle.0))
}
