//! Groups and communicators.

use std::collections::HashMap;
use std::rc::Rc;

use core::ffi::c_int;

use crate::abi::*;
use crate::error::{Error, Result, check};

/// An ordered set of processes, by world rank.
#[derive(Debug, PartialEq, Eq)]
pub struct Group {
    members: Vec<u32>,
    ranks: HashMap<u32, u32>,
}

impl Group {
    /// The group of these world ranks, in this order.
    pub fn new(members: Vec<u32>) -> Self {
        let ranks = members.iter().enumerate().map(|(rank, &world)| (world, rank as u32)).collect();
        Group { members, ranks }
    }

    /// World ranks, in order.
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// Rank of a process in the group.
    pub fn rank_of(&self, world: u32) -> Option<u32> {
        self.ranks.get(&world).copied()
    }

    /// How many members.
    pub fn size(&self) -> usize {
        self.members.len()
    }
}

/// A communicator as this process sees it.
#[derive(Debug)]
pub struct Comm {
    /// Context of point-to-point messages; that of collective ones is one higher.
    pub context: u32,
    /// This process's rank in the local group.
    pub rank: usize,
    /// The local group.
    pub group: Rc<Group>,
    /// The remote group of an intercommunicator.
    pub remote: Option<Rc<Group>>,
    /// Every rank is the world rank: nothing to translate.
    pub identity: bool,
    /// Error handler of the user.
    pub errhandler: MPI_Errhandler,
    /// Name given by the user.
    pub name: Vec<u8>,
    /// Attributes by key.
    pub attributes: HashMap<c_int, usize>,
    /// State of collective operations.
    pub collective: crate::collective::State,
}

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
            attributes: HashMap::new(),
            collective: Default::default(),
        }
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

    /// The group for the translation of a received source; none when nothing is to be translated.
    #[inline(always)]
    pub fn translation(&self) -> Option<Rc<Group>> {
        if self.identity && self.remote.is_none() { None } else { Some(self.peers().clone()) }
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
}

#[cold]
fn bad_rank(rank: c_int, size: usize) -> Error {
    Error::new(MPI_ERR_RANK, format_args!("rank is {rank}, expected 0 to {} or MPI_PROC_NULL", size - 1))
}
