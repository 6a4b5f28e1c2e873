//! The state of a partitioned message (MPI 4). What calls do with it: [`crate::partitioned`].

use core::cell::Cell;
use core::ffi::c_int;

use tutti_datatype::Buffer;

use crate::engine::steps;
use crate::handle::{NONE, Slab};
use crate::request::{Outcome, Request};

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
    pub(crate) side: Side,
    /// Started and not completed.
    pub(crate) active: bool,
    /// Requests of the partitions on their way, by the sender's partition; [`NONE`] when finished. Empty
    /// until they are posted.
    pub(crate) under_way: Vec<u32>,
    /// So many of them are known to have ended: a wait looks at each once.
    pub(crate) ended: Cell<usize>,
    /// First error of a partition.
    pub(crate) error: c_int,
}

/// What a side knows.
#[derive(Debug)]
pub(crate) enum Side {
    /// Which partitions the user has declared ready, and how many.
    Sender { first: u32, ready: Vec<bool>, declared: usize },
    /// What the sender has told, once it has.
    Receiver(Option<Introduction>),
}

/// What a receiver must know of its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Introduction {
    /// Number of the first partition.
    pub(crate) first: u32,
    /// How many there are.
    pub(crate) partitions: usize,
    /// Bytes of each.
    pub(crate) bytes: usize,
}

impl Partitioned {
    /// Whether it is started and not completed.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// The requests of the parts that have been started.
    pub fn under_way(&self) -> impl Iterator<Item = u32> {
        self.under_way.iter().copied().filter(|index| *index != NONE)
    }

    /// Whether everything has been sent or received.
    pub fn is_done(&self, requests: &Slab<Request>) -> bool {
        let started = match &self.side {
            Side::Sender { declared, .. } => *declared == self.partitions,
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

    /// What the user's status says when it is done.
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
    pub(crate) fn partition_bytes(&self) -> usize {
        self.whole.bytes.checked_div(self.partitions).unwrap_or(0)
    }

    /// The sender's partitions that overlap one of ours. All sides have the same number of bytes, so
    /// fractions can be compared.
    pub(crate) fn overlapping(&self, partition: usize, of_sender: usize) -> std::ops::Range<usize> {
        partition * of_sender / self.partitions..((partition + 1) * of_sender).div_ceil(self.partitions)
    }
}
