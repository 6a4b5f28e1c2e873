//! The state of a partitioned message (MPI 4). What calls do with it: [`crate::partitioned`].

pub(crate) mod pieces;
pub(crate) mod ring;
mod set;

use core::cell::Cell;
use core::ffi::c_int;

use tutti_datatype::Buffer;

use crate::abi::MPI_SUCCESS;
use crate::engine::steps;
use crate::handle::{NONE, Slab};
use crate::request::{Outcome, Request};
use pieces::{Pieces, are_gathered};
use set::PartitionSet;

/// Tags are not negative.
const TAG_MASK: u32 = c_int::MAX as u32;

/// One side of a partitioned message.
#[derive(Debug)]
pub struct Partitioned {
    /// The other side; none when it is MPI_PROC_NULL.
    pub(crate) peer: Option<u32>,
    /// Context of the partitions.
    pub(crate) context: u32,
    /// Tag of the user.
    pub(crate) tag: c_int,
    /// Rank of the other side in the communicator.
    pub(crate) rank: c_int,
    /// All data of this side.
    pub(crate) whole: Buffer,
    /// How many partitions this side has.
    pub(crate) partitions: usize,
    /// Bytes of each of them.
    each: usize,
    pub(crate) side: Side,
    /// Started and not completed.
    pub(crate) active: bool,
    /// Requests of the partitions on their way, by the sender's partition; [`NONE`] when finished. Empty
    /// until they are posted. Where partitions travel in pieces: those of messages that were sent and did not
    /// end at once, and of messages that have failed.
    pub(crate) under_way: Vec<u32>,
    /// Number of them that are known to have ended: a wait looks at each once.
    ended: Cell<usize>,
    /// Where partitions travel in pieces: what is ready, or has come.
    pub(crate) pieces: Pieces,
    /// First error of a partition.
    pub(crate) error: c_int,
}

/// Knowledge of a side.
#[derive(Debug)]
pub(crate) enum Side {
    /// The number of its first partition, and those that the user has declared ready.
    Sender { first: u32, ready: PartitionSet },
    /// Introduction by the sender, once it has sent it.
    Receiver(Option<Introduction>),
}

/// Facts that a receiver must know of its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Introduction {
    /// Number of the first partition.
    pub(crate) first: u32,
    /// How many there are.
    pub(crate) partitions: usize,
    /// Bytes of each.
    pub(crate) bytes: usize,
}

/// Matching and state of one side.
#[derive(Debug)]
pub(crate) struct Matching {
    /// Context of the partitions.
    pub(crate) context: u32,
    /// Tag of the user.
    pub(crate) tag: c_int,
    /// Rank of the other side in the communicator.
    pub(crate) rank: c_int,
    /// Sender or receiver.
    pub(crate) side: Side,
}

impl Side {
    /// A sender whose first partition has this number.
    pub(crate) fn sender(first: u32) -> Self {
        Side::Sender { first, ready: PartitionSet::default() }
    }
}

impl Partitioned {
    /// An inactive operation.
    pub(crate) fn new(peer: Option<u32>, matching: Matching, whole: Buffer, partitions: usize) -> Self {
        let Matching { context, tag, rank, side } = matching;
        let each = whole.bytes.checked_div(partitions).unwrap_or(0);
        Partitioned {
            peer,
            context,
            tag,
            rank,
            whole,
            partitions,
            each,
            side,
            active: false,
            under_way: Vec::new(),
            ended: Cell::new(0),
            pieces: Pieces::default(),
            error: MPI_SUCCESS,
        }
    }

    /// Whether it is started and not completed.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Starts it.
    pub(crate) fn activate(&mut self) {
        (self.active, self.error) = (true, MPI_SUCCESS);
        self.ended.set(0);
        self.pieces.clear();
        let (is_gathered, partitions) = (self.is_gathered(), self.partitions);
        if let Side::Sender { ready, .. } = &mut self.side {
            ready.clear();
            self.under_way = vec![NONE; if is_gathered { 0 } else { partitions }];
        }
    }

    /// Ends it: gives the requests of its parts.
    pub(crate) fn deactivate(&mut self) -> Vec<u32> {
        self.active = false;
        self.ended.set(0);
        std::mem::take(&mut self.under_way)
    }

    pub(crate) fn is_sender(&self) -> bool {
        matches!(self.side, Side::Sender { .. })
    }

    /// Whether all partitions of a sender are ready.
    pub(crate) fn is_all_ready(&self) -> bool {
        matches!(&self.side, Side::Sender { ready, .. } if ready.count() == self.partitions)
    }

    /// Whether the sender's partitions travel in pieces; false where it is not known.
    pub(crate) fn is_gathered(&self) -> bool {
        match &self.side {
            Side::Sender { .. } => are_gathered(self.each),
            Side::Receiver(sender) => sender.is_some_and(|sender| are_gathered(sender.bytes)),
        }
    }

    /// The tag of a partition of the sender, where that is known. Pieces have that of the first one.
    pub(crate) fn tag_of(&self, index: usize) -> Option<i32> {
        let first = match &self.side {
            Side::Sender { first, .. } => *first,
            Side::Receiver(sender) => (*sender)?.first,
        };
        Some((first.wrapping_add(index as u32) & TAG_MASK) as i32)
    }

    /// The requests of the parts that have been started.
    pub fn under_way(&self) -> impl Iterator<Item = u32> {
        let piece = if self.is_sender() { NONE } else { self.pieces.awaited };
        self.under_way.iter().copied().chain([piece]).filter(|index| *index != NONE)
    }

    /// Whether a partition of a started receiver has arrived.
    pub(crate) fn has_arrived(&self, partition: usize, requests: &Slab<Request>) -> bool {
        let Side::Receiver(Some(sender)) = &self.side else { return false };
        let theirs = self.overlapping(partition, sender.partitions);
        if self.is_gathered() {
            return self.pieces.set.covers(&(theirs.start as u32..theirs.end as u32));
        }
        self.under_way.len() == sender.partitions
            && self.under_way[theirs].iter().all(|&part| requests.get(part).done)
    }

    /// Whether everything has been sent or received.
    pub fn is_done(&self, requests: &Slab<Request>) -> bool {
        let started = match &self.side {
            Side::Sender { .. } => {
                self.is_all_ready() && self.pieces.awaited == NONE && self.pieces.set.count() == 0
            }
            Side::Receiver(Some(_)) if self.is_gathered() => self.has_all_pieces(),
            Side::Receiver(sender) => sender.is_some_and(|sender| self.under_way.len() == sender.partitions),
        };
        if self.peer.is_none() || !started {
            return self.peer.is_none();
        }
        let has_ended = |&&index: &&u32| {
            steps::count(1);
            index == NONE || requests.get(index).done
        };
        let ended = self.ended.get();
        let ended = ended + self.under_way[ended..].iter().take_while(has_ended).count();
        self.ended.set(ended);
        ended == self.under_way.len()
    }

    /// The other side, the tag and the context of a started operation that waits at its ring, which has no
    /// request for that.
    pub(crate) fn wait_at_ring(&self) -> Option<(u32, c_int, u32)> {
        let waits = self.active && self.pieces.is_looked_at;
        Some((self.peer.filter(|_| waits)?, self.tag, self.context))
    }

    /// Outcome for the user's status when it is done.
    pub fn outcome(&self) -> Outcome {
        match &self.side {
            Side::Sender { .. } => Outcome { error: self.error, ..Outcome::EMPTY },
            Side::Receiver(_) if self.peer.is_none() => Outcome::PROC_NULL,
            Side::Receiver(sender) => Outcome {
                source: self.rank,
                tag: self.tag,
                error: self.error,
                bytes: sender.map_or(0, |sender| sender.partitions * sender.bytes),
                cancelled: false,
            },
        }
    }

    /// Bytes of one partition of this side.
    #[inline(always)]
    pub(crate) fn partition_bytes(&self) -> usize {
        self.each
    }

    /// Says how the data lie from now on.
    pub(crate) fn replace_whole(&mut self, whole: Buffer) {
        self.each = whole.bytes.checked_div(self.partitions).unwrap_or(0);
        self.whole = whole;
    }

    /// The sender's partitions that overlap one of ours. All sides have the same number of bytes, so
    /// fractions can be compared.
    #[inline]
    pub(crate) fn overlapping(&self, partition: usize, of_sender: usize) -> std::ops::Range<usize> {
        if of_sender == self.partitions {
            return partition..partition + 1;
        }
        partition * of_sender / self.partitions..((partition + 1) * of_sender).div_ceil(self.partitions)
    }
}
