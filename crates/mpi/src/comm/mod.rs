//! Communicators: what they hold, how they are found by handle, and how ranks are translated.
//!
//! [`group`] is the algebra of groups; [`agreement`] how the members of a communicator exchange a few numbers; [`creation`] and
//! [`intercomm`] and [`machine`] make communicators with it; [`arranged`] makes
//! those with a [`topology`]; [`lifetime`] ends them.

pub mod agreement;
mod arranged;
mod creation;
mod from_groups;
mod group;
mod intercomm;
mod lifetime;
mod machine;
mod topology;

use std::rc::Rc;

use core::ffi::c_int;

use crate::abi::*;
use crate::attributes;
use crate::error::{Error, Result, check};
use crate::info::Info;
use crate::process::Guard;

pub use from_groups::StringTag;
pub use group::{Group, Likeness};
pub use intercomm::Bridge;
pub use machine::{RESOURCE_KEY, SHARED_MEMORY};
pub use topology::{Edges, Graph, Grid, Topology, balance};

/// A communicator as this process sees it.
#[derive(Debug)]
pub struct Comm {
    /// Context of point-to-point messages; see [`Channel`] for its others.
    pub context: u32,
    /// This process's rank in the local group.
    pub rank: usize,
    /// The local group.
    pub group: Rc<Group>,
    /// The remote group of an intercommunicator.
    pub remote: Option<Rc<Group>>,
    /// Every rank is the world rank: nothing to translate.
    pub identity: bool,
    /// Error handler; one of its references is ours.
    pub errhandler: MPI_Errhandler,
    /// Name given by the user.
    pub name: Vec<u8>,
    /// What users cache on it.
    pub attributes: attributes::Set,
    /// Hints given by the user that we know.
    pub hints: Info,
    /// Who is whose neighbour, if somebody has said so.
    pub topology: Option<Rc<Topology>>,
    /// How many agreements over [`Channel::Creation`] this process has begun; the tag of their messages.
    pub creations: i32,
    /// It goes back to a group of a session: of the environment's attributes it has the tags' bound only (9.1.2).
    pub of_session: bool,
    /// State of collective operations.
    pub collective: crate::collective::State,
}

/// The contexts of a communicator, as distances from its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Channel {
    /// Messages of the user.
    PointToPoint = 0,
    /// Collective operations.
    Collective = 1,
    /// Agreements that make communicators, in the order of the calls.
    Creation = 2,
    /// The same for calls with a tag of the user, which is the message's tag.
    TaggedCreation = 3,
    /// What a partitioned send tells its receiver before its first message.
    Introduction = 4,
    /// Partitions; their numbers are the tags.
    Partitions = 5,
}

/// How many contexts a communicator has.
pub use tutti_shm::envelope::CONTEXTS_PER_COMM;

impl Comm {
    /// An intracommunicator.
    pub fn new(context: u32, rank: usize, group: Rc<Group>) -> Self {
        let identity = group.members().iter().enumerate().all(|(i, &world)| i as u32 == world);
        Comm {
            context,
            rank,
            group,
            remote: None,
            identity,
            errhandler: MPI_ERRORS_ARE_FATAL,
            name: Vec::new(),
            attributes: attributes::Set::default(),
            hints: Info::default(),
            topology: None,
            creations: 0,
            of_session: false,
            collective: Default::default(),
        }
    }

    /// An intercommunicator.
    pub fn between(context: u32, rank: usize, group: Rc<Group>, remote: Rc<Group>) -> Self {
        Comm { remote: Some(remote), identity: false, ..Comm::new(context, rank, group) }
    }

    /// How many processes are in the local group.
    pub fn size(&self) -> usize {
        self.group.size()
    }

    /// The group that a rank argument of a point-to-point call counts in.
    pub fn peers(&self) -> &Rc<Group> {
        self.remote.as_ref().unwrap_or(&self.group)
    }

    /// World rank of a destination or source, which is not a wildcard.
    ///
    /// # Errors
    /// MPI_ERR_RANK when it is not in the group.
    #[inline(always)]
    pub fn world_rank(&self, rank: c_int) -> Result<u32> {
        let members = self.peers().members();
        if rank as u32 as usize >= members.len() {
            return Err(bad_rank(rank, members.len()));
        }
        Ok(if self.identity { rank as u32 } else { members[rank as usize] })
    }

    /// The rank in a point-to-point call of a world rank that a message came from.
    #[inline(always)]
    pub fn rank_of_world(&self, rank: u32) -> Option<c_int> {
        if !self.needs_translation() {
            return Some(rank as c_int);
        }
        self.peers().rank_of(rank).map(|rank| rank as c_int)
    }

    /// The group for the translation of a received source; none when nothing is to be translated.
    #[inline(always)]
    pub fn translation(&self) -> Option<Rc<Group>> {
        self.needs_translation().then(|| self.peers().clone())
    }

    /// Whether the ranks of messages differ from those of the world.
    #[inline(always)]
    pub fn needs_translation(&self) -> bool {
        !self.identity || self.remote.is_some()
    }

    /// Checks a root argument of an intracommunicator.
    ///
    /// # Errors
    /// MPI_ERR_ROOT when it is not a rank.
    #[inline]
    pub fn checked_root(&self, root: c_int) -> Result<usize> {
        check(root >= 0 && (root as usize) < self.size(), MPI_ERR_ROOT, || {
            format!("root is {root}, expected 0 to {}", self.size() - 1)
        })?;
        Ok(root as usize)
    }

    /// How two communicators are alike (7.4.1).
    pub fn compare(&self, other: &Comm) -> Likeness {
        if self.context == other.context {
            return MPI_IDENT;
        }
        let likeness = match (&self.remote, &other.remote) {
            (None, None) => self.group.compare(&other.group),
            (Some(mine), Some(theirs)) => {
                let (local, remote) = (self.group.compare(&other.group), mine.compare(theirs));
                // The values grow with the difference, and so the greater one holds for both groups.
                local.max(remote)
            }
            _ => MPI_UNEQUAL,
        };
        if likeness == MPI_IDENT { MPI_CONGRUENT } else { likeness }
    }
}

impl Guard {
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

#[cold]
fn bad_rank(rank: c_int, size: usize) -> Error {
    Error::new(MPI_ERR_RANK, format_args!("rank is {rank}, expected 0 to {} or MPI_PROC_NULL", size - 1))
}
