//! A window as this process sees it: its ranks, and how the memory of each is reached.

use std::cell::Cell;
use std::ptr::NonNull;
use std::rc::Rc;

use core::ffi::c_int;

use tutti_rma::Process;
use tutti_rma::accumulate::Change;
use tutti_rma::attached::Table;
use tutti_rma::control::{Control, Thread};
use tutti_rma::part::{Part, Reach};
use tutti_rma::wire::Name;
use tutti_shm::arena::{Mapping, Range};
use tutti_shm::gate::{STRIPES, UNIT_BYTES};
use tutti_shm::opened::Opened;
use tutti_shm::sync::{EXCHANGE_ORDERS_ALL, full_fence};

use super::epoch::Epochs;
use crate::abi::*;
use crate::comm::Group;
use crate::error::{Error, Result, check};
use crate::info::Info;

/// A window.
#[derive(Debug)]
pub struct Window {
    /// The communicator of its own over which its ranks meet.
    pub comm: MPI_Comm,
    /// Ranks of the window.
    pub group: Rc<Group>,
    /// Which of them this process is.
    pub rank: usize,
    /// Which of those on this node.
    pub mate: u32,
    /// Whether its ranks are on several nodes, or of several launches.
    pub is_spread: bool,
    /// Some of them are of other launches.
    pub has_guests: bool,
    /// Names that others give the memory of this rank.
    pub regions: Regions,
    /// Epochs that are open now.
    pub epochs: Epochs,
    /// Whether what this process has stored is still to be made seen.
    pub fence: Fence,
    /// Change that the last accumulation here made to elements: programs do the same again and again.
    pub last_change: Cell<Option<(MPI_Op, MPI_Datatype, Change)>>,
    /// Memory of its ranks, in their order.
    pub peers: Box<[Peer]>,
    /// Where the values of its predefined attributes stand.
    pub values: Box<Values>,
    /// Hints that hold.
    pub hints: Info,
    /// Error handler; one of its references is ours.
    pub errhandler: MPI_Errhandler,
    /// Name given by the user.
    pub name: Vec<u8>,
    /// The words beside all ranks' memory, and the memory itself unless the user has given it.
    pub mapping: Mapping,
    /// Range that this process has taken from its share for it.
    pub taken: Option<Range>,
}

/// When a flush needs a fence: after plain stores. Where the processor's exchange of a word orders all that
/// stands before it, an atomic operation has done that too.
#[derive(Debug)]
pub struct Fence {
    is_due: Cell<bool>,
    is_always: Cell<bool>,
}

impl Default for Fence {
    fn default() -> Self {
        Self::new()
    }
}

impl Fence {
    /// Fence of a new window.
    pub fn new() -> Self {
        Fence { is_due: Cell::new(true), is_always: Cell::new(!EXCHANGE_ORDERS_ALL) }
    }

    /// The program may write memory of others without a call from now on: each flush fences.
    pub fn share(&self) {
        self.is_always.set(true);
    }

    /// Plain stores to a rank's memory were done, or may have been.
    #[inline(always)]
    pub fn note_stores(&self) {
        self.is_due.set(true);
    }

    /// An exchange was done, and no plain store after it.
    #[inline(always)]
    pub fn note_exchange(&self) {
        self.is_due.set(false);
    }

    /// Makes what was stored before seen before all that is done after it. Gives whether that took a fence.
    #[inline(always)]
    pub fn pass(&self) -> bool {
        let is_due = self.is_due.replace(false) || self.is_always.get();
        if is_due {
            full_fence();
        }
        is_due
    }
}

/// The values of predefined attributes (12.2.6), at addresses that stay.
#[derive(Debug)]
#[repr(C)]
pub struct Values {
    /// MPI_WIN_BASE
    pub base: usize,
    /// MPI_WIN_SIZE
    pub bytes: MPI_Aint,
    /// MPI_WIN_DISP_UNIT
    pub disp_unit: c_int,
    /// MPI_WIN_CREATE_FLAVOR
    pub flavor: c_int,
    /// MPI_WIN_MODEL
    pub model: c_int,
}

/// Names that others give the memory of this rank in a window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Regions {
    /// Ranks of other nodes of the job.
    pub nodes: Option<Name>,
    /// Ranks of other launches.
    pub guests: Option<Name>,
}

/// Bytes of memory after which the stripes of a gate begin anew.
const STRIPES_BYTES: u64 = (UNIT_BYTES * STRIPES) as u64;

/// One rank's memory in a window.
#[derive(Debug)]
pub struct Peer {
    /// Rank in the world.
    pub world: u32,
    /// Bytes of a step of displacements.
    pub disp_unit: usize,
    /// Where its memory lies in this process, if it does.
    pub mapped: Option<NonNull<u8>>,
    /// Memory of the rank; of a dynamic window none.
    pub memory: Part,
    /// The words beside it; none of a rank of another node.
    pub control: Option<Control>,
    /// Name that a rank of another node, or of another launch, gives its memory for this one.
    pub region: Option<Name>,
    /// Whether it is such a rank, and has been given operations since the last flush.
    pub is_dirty: bool,
    /// Table of what it has attached, of a dynamic window.
    pub attached: Option<Table>,
    /// Process of the rank.
    pub process: Process,
    /// Whether it is this process.
    pub is_self: bool,
    /// How many of its openings have been used up ([`tutti_rma::control::Count::Posted`]).
    pub posts_used: u64,
    /// How many of its ends have been used up.
    pub completions_used: u64,
}

/// A rank of another node, and what it calls its memory.
#[derive(Clone, Copy, Debug)]
pub struct RemotePeer {
    /// Rank in the world.
    pub world: usize,
    /// Name of its memory.
    pub region: Name,
}

impl Window {
    /// The index of a target; none for MPI_PROC_NULL.
    ///
    /// # Errors
    /// MPI_ERR_RANK when there is no such rank.
    #[inline(always)]
    pub fn target(&self, rank: c_int) -> Result<Option<usize>> {
        if (rank as usize) < self.peers.len() && rank >= 0 {
            return Ok(Some(rank as usize));
        }
        check(rank == MPI_PROC_NULL, MPI_ERR_RANK, || {
            format!("target_rank is {rank}, expected 0 to {} or MPI_PROC_NULL", self.peers.len() - 1)
        })?;
        Ok(None)
    }

    /// A target's memory, and which byte of it a displacement is; none of what may not be accessed now, of a
    /// dynamic window, and for wrong arguments. The byte may lie outside.
    #[inline(always)]
    pub fn place_of(&self, rank: c_int, disp: MPI_Aint) -> Option<(&Part, usize)> {
        let rank = usize::try_from(rank).ok()?;
        let peer = self.peers.get(rank)?;
        let offset = usize::try_from(disp).ok()?.checked_mul(peer.disp_unit)?;
        (self.epochs.may_access(rank) && peer.attached.is_none()).then_some((&peer.memory, offset))
    }

    /// The ranks of this window that a group has.
    ///
    /// # Errors
    /// MPI_ERR_GROUP when it has others too.
    pub fn ranks_of(&self, group: &Group) -> Result<Vec<usize>> {
        let members = group.members().iter();
        let ranks: Option<Vec<usize>> =
            members.map(|world| Some(self.group.rank_of(*world)? as usize)).collect();
        ranks.ok_or_else(|| {
            Error::new(MPI_ERR_GROUP, "the group has a member that is not in the window's group")
        })
    }

    /// The words beside this rank's memory.
    pub fn own_control(&self) -> Control {
        self.control_of(self.rank)
    }

    /// The words beside the memory of a rank of this node.
    ///
    /// # Panics
    /// When it is on another one.
    pub fn control_of(&self, rank: usize) -> Control {
        self.peers[rank].control.expect("a rank of this node")
    }

    /// A rank's memory on another node; none of one of this node.
    #[inline]
    pub fn remote(&self, rank: usize) -> Option<RemotePeer> {
        let peer = &self.peers[rank];
        peer.region.map(|region| RemotePeer { world: peer.world as usize, region })
    }

    /// Whether memory is attached as the program goes on.
    pub fn is_dynamic(&self) -> bool {
        self.values.flavor == MPI_WIN_FLAVOR_DYNAMIC
    }
}

impl Peer {
    /// The memory that has `bytes` bytes from byte `begin` of the target on, and where in it byte 0 of the
    /// target would lie. Of a dynamic window bytes are counted from address 0.
    ///
    /// # Errors
    /// MPI_ERR_RMA_RANGE when it does not have them.
    #[inline(always)]
    pub fn part(&self, me: u32, begin: isize, bytes: usize) -> Result<(Part, isize)> {
        let Some(table) = &self.attached else {
            let size = self.memory.bytes();
            let is_inside = begin >= 0 && (begin as usize).checked_add(bytes).is_some_and(|end| end <= size);
            return if is_inside { Ok((self.memory, 0)) } else { Err(self.out_of_range(begin, bytes)) };
        };
        let Some(range) = table.find(begin as u64, bytes as u64) else {
            return Err(self.out_of_range(begin, bytes));
        };
        // Stripes of the gate are counted from a multiple of all of them, so that they are the same whichever
        // range an element is reached by.
        let base = range.address & !(STRIPES_BYTES - 1);
        let length = (range.address - base + range.bytes) as usize;
        let own = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(base as usize));
        let reach = match own.filter(|_| self.is_self) {
            // SAFETY: the user has attached the range and keeps it (12.2.4). What lies before it is not
            // accessed: the bytes wanted are in the range.
            Some(base) => Reach::Mapped(unsafe { Opened::new(base, length) }),
            None => Reach::Other(tutti_rma::Remote { process: self.process, address: base }, length),
        };
        let control = self.control.as_ref().expect("a table of attached memory is on this node");
        let part = Part::new(reach, control.gate(me, Thread::Program));
        Ok((part, (base as isize).wrapping_neg()))
    }

    #[cold]
    fn out_of_range(&self, begin: isize, bytes: usize) -> Error {
        if self.attached.is_some() {
            let text = format_args!(
                "{bytes} bytes at address {begin:#x} are not in memory that the target has attached"
            );
            return Error::new(MPI_ERR_RMA_RANGE, text);
        }
        let size = self.memory.bytes();
        Error::new(
            MPI_ERR_RMA_RANGE,
            format_args!("{bytes} bytes from byte {begin} of the target's window on, which has {size} bytes"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fence_is_due_after_stores_and_in_shared_memory() {
        let (own, shared) = (Fence::new(), Fence::new());
        shared.share();
        own.pass();
        assert_eq!(own.pass(), !EXCHANGE_ORDERS_ALL);
        assert!(shared.pass() && shared.pass());
        own.note_stores();
        assert!(own.pass());
        own.note_stores();
        own.note_exchange();
        assert_eq!(own.pass(), !EXCHANGE_ORDERS_ALL);
        own.note_exchange();
        own.note_stores();
        assert!(own.pass());
    }
}
