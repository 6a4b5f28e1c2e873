//! Communicators: what they hold, how they are found by handle, and how ranks are translated.
//!
//! [`group`] is the algebra of groups; [`agreement`] how the members of a communicator exchange a few
//! numbers; [`creation`] and [`intercomm`] and [`machine`] make communicators with it; [`arranged`] makes
//! those with a [`topology`]; [`ports`] bring groups together that have no communicator, also of other
//! launches ([`spanning`]); [`calls`] goes from handles to all of these and back, and ends them; [`freed`]
//! has what operations need of those that ended; [`moved`] has what ranks that move hand over.

pub mod agreement;
mod arranged;
pub(crate) mod calls;
mod creation;
mod freed;
pub mod from_groups;
pub mod group;
pub mod intercomm;
mod lookup;
pub mod machine;
pub(crate) mod moved;
mod names;
pub mod open_ports;
pub mod ports;
mod reuse;
pub mod spanning;
pub mod spawn;
pub mod topology;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use core::ffi::c_int;

use crate::abi::*;
use crate::attached::{Attached, Origin};
use crate::attributes;
use crate::error::{Error, Result, check};
use crate::handle::Slab;
use crate::info::Info;

pub use group::{Group, Likeness};
pub use topology::{Edges, Graph, Grid, Topology, balance};

/// A communicator as this process sees it.
#[derive(Debug)]
pub struct Comm {
    /// Context of point-to-point messages; see [`Channel`] for its others.
    pub context: u32,
    /// Rank of this process in the local group.
    pub rank: usize,
    /// The local group.
    pub group: Rc<Group>,
    /// The remote group of an intercommunicator.
    pub remote: Option<Rc<Group>>,
    /// Ranks that are the world's by the same number, so that nothing is to be translated: all of them, or
    /// none if one is another.
    untranslated: u32,
    /// Error handler; one of its references is ours.
    pub errhandler: MPI_Errhandler,
    /// Name given by the user.
    pub name: Vec<u8>,
    /// Attributes that users cache on it.
    pub attributes: attributes::Set,
    /// Hints given by the user that we know.
    pub hints: Info,
    /// Topology: who is whose neighbour, if somebody has said so.
    pub topology: Option<Rc<Topology>>,
    /// How many agreements over [`Channel::Creation`] this process has begun; the tag of their messages.
    pub creations: i32,
    /// Whether it goes back to a group of a session: of the environment's attributes it then has the tags'
    /// bound only (9.1.2).
    pub of_session: bool,
    /// Session that it goes back to, where it is known.
    pub origin: Option<Rc<Origin>>,
    /// Place of the buffer for buffered sends that is attached to it; persistent ones share it.
    pub buffer: Rc<RefCell<Option<Attached>>>,
    /// State of collective operations.
    pub collective: crate::collective::state::State,
}

/// The communicators and groups of a process, and what it needs to make more of them.
#[derive(Debug)]
pub struct Comms {
    /// MPI_COMM_WORLD and MPI_COMM_SELF.
    predefined: [Comm; 2],
    /// Communicators made by the user.
    made: Slab<Comm>,
    /// Communicators that are freed, as far as operations may need them.
    freed: Vec<freed::Freed>,
    /// Groups made by the user.
    groups: Slab<Rc<Group>>,
    /// The intercommunicator with those who started this process, or MPI_COMM_NULL.
    parent: MPI_Comm,
    /// The program has freed, not disconnected, a communicator with processes of another MPI_COMM_WORLD: they
    /// stay connected.
    stays_connected: bool,
    /// Ports that this process has opened.
    ports: Rc<open_ports::Ports>,
    /// Groups for the translation of sources, of messages taken out of matching, by handle.
    message_groups: HashMap<usize, Option<Rc<Group>>>,
}

/// A call that reaches communicators and groups.
pub trait HasComms {
    /// Communicators and groups.
    fn comms(&self) -> &Comms;

    /// Communicators and groups, to be changed.
    fn comms_mut(&mut self) -> &mut Comms;
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
    /// Introduction of a partitioned send to its receiver, before its first message.
    Introduction = 4,
    /// Partitions; their numbers are the tags.
    Partitions = 5,
}

/// How many contexts a communicator has.
pub use tutti_shm::envelope::CONTEXTS_PER_COMM;

impl Comm {
    /// An intracommunicator.
    pub fn new(context: u32, rank: usize, group: Rc<Group>) -> Self {
        let origin = group.origin();
        let untranslated = group.untranslated();
        Comm {
            context,
            rank,
            group,
            remote: None,
            untranslated,
            errhandler: MPI_ERRORS_ARE_FATAL,
            name: Vec::new(),
            attributes: attributes::Set::default(),
            hints: Info::default(),
            topology: None,
            creations: 0,
            of_session: false,
            origin,
            buffer: Rc::default(),
            collective: Default::default(),
        }
    }

    /// An intercommunicator.
    pub fn between(context: u32, rank: usize, group: Rc<Group>, remote: Rc<Group>) -> Self {
        Comm { remote: Some(remote), untranslated: 0, ..Comm::new(context, rank, group) }
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
        if let Some(same) = self.same_rank(rank) {
            return Ok(same);
        }
        let members = self.peers().members();
        match members.get(rank as u32 as usize) {
            Some(&member) => Ok(member),
            None => Err(bad_rank(rank, members.len())),
        }
    }

    /// World rank of a destination or source where nothing is to be translated; none elsewhere, and of what
    /// is no rank.
    #[inline(always)]
    pub fn same_rank(&self, rank: c_int) -> Option<u32> {
        ((rank as u32) < self.untranslated).then_some(rank as u32)
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
        self.untranslated == 0
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

#[cold]
fn bad_rank(rank: c_int, size: usize) -> Error {
    Error::new(MPI_ERR_RANK, format_args!("rank is {rank}, expected 0 to {} or MPI_PROC_NULL", size - 1))
}
