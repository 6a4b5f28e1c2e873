//! Small partitions travel in pieces: what is ready is sent as records of partitions that lie side by side.
//!
//! ```text
//! message of a piece:  first, how many, their data; first, how many, their data; ...
//! the last record may say that its data are the next message:  first, how many | BULK
//! ```

use core::ops::Range;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use tutti_datatype::Buffer;

use super::set::PartitionSet;
use super::{Introduction, Partitioned, Side};
use crate::engine::numbered::Spread;
use crate::handle::NONE;

/// Bytes of a piece with its records.
pub(crate) const PIECE_BYTES_MAX: usize = 2048;
/// First and number of partitions.
const RECORD_BYTES: usize = size_of::<[u32; 2]>();
/// Partitions up to this many bytes travel in pieces: a piece has room for one at least.
const GATHERED_BYTES_MAX: usize = PIECE_BYTES_MAX - RECORD_BYTES;
/// The data of a record are a message of their own, the next one. No number of partitions is that large.
const BULK: u32 = 1 << 31;

/// State that is kept for all operations.
#[derive(Debug, Default)]
pub(crate) struct PieceBook {
    /// By the request of a piece: the operation that goes on when it is done.
    pub(crate) owners: HashMap<u32, u32, BuildHasherDefault<Spread>>,
    /// Memory for the next piece to be sent.
    pub(crate) memory: Box<[u8]>,
}

/// State of a side that gathers.
#[derive(Debug)]
pub(crate) struct Pieces {
    /// Of a sender: ready and not sent. Of a receiver: arrived.
    pub(crate) set: PartitionSet,
    /// The request of a piece; when it is done, this side goes on. [`NONE`] if there is none.
    pub(crate) awaited: u32,
    /// The receiver can get no more.
    pub(crate) is_broken: bool,
    /// Receiver: where a piece arrives.
    memory: Box<[u8]>,
    /// Receiver: partitions whose data are the next message.
    bulk: Option<Range<u32>>,
}

impl Default for Pieces {
    fn default() -> Self {
        Pieces {
            set: PartitionSet::default(),
            awaited: NONE,
            is_broken: false,
            memory: Box::default(),
            bulk: None,
        }
    }
}

impl Pieces {
    /// A new start: nothing is ready, nothing has arrived.
    pub(super) fn clear(&mut self) {
        self.set.clear();
        self.is_broken = false;
        self.bulk = None;
    }
}

/// Whether partitions of so many bytes travel in pieces.
pub(crate) fn are_gathered(partition_bytes: usize) -> bool {
    partition_bytes <= GATHERED_BYTES_MAX
}

/// Where the data of these partitions lie.
fn bytes_of(range: &Range<u32>, each: usize) -> Range<usize> {
    range.start as usize * each..range.end as usize * each
}

impl Partitioned {
    /// Packs the sender's next piece into `to`, of [`PIECE_BYTES_MAX`]: gives its bytes, and data that are a
    /// message of their own behind it.
    pub(crate) fn pack_piece(&mut self, to: &mut [u8]) -> (usize, Option<Buffer>) {
        let each = self.partition_bytes();
        let mut at = 0;
        while at + RECORD_BYTES <= to.len()
            && let Some(run) = self.pieces.set.take_run()
        {
            let bytes = bytes_of(&run, each);
            let is_bulk = bytes.len() > to.len() - at - RECORD_BYTES;
            let count = run.len() as u32 | if is_bulk { BULK } else { 0 };
            for word in [run.start, count] {
                to[at..at + size_of::<u32>()].copy_from_slice(&word.to_ne_bytes());
                at += size_of::<u32>();
            }
            if is_bulk {
                return (at, Some(self.whole.part(bytes.start, bytes.len())));
            }
            let place = &mut to[at..at + bytes.len()];
            // SAFETY: the user's memory of an active operation, and partitions that there are.
            unsafe { self.whole.load(bytes.start, place.as_mut_ptr(), place.len()) };
            at += bytes.len();
        }
        (at, None)
    }

    /// Where the receiver wants its next message; none if all has come.
    pub(crate) fn next_place(&mut self) -> Option<Buffer> {
        let Side::Receiver(Some(sender)) = self.side else { return None };
        if self.pieces.is_broken || self.pieces.set.count() >= sender.partitions {
            return None;
        }
        if let Some(run) = &self.pieces.bulk {
            let bytes = bytes_of(run, sender.bytes);
            return Some(self.whole.part(bytes.start, bytes.len()));
        }
        let most = sender.partitions.saturating_mul(RECORD_BYTES + sender.bytes).min(PIECE_BYTES_MAX);
        if self.pieces.memory.len() != most {
            self.pieces.memory = vec![0; most].into_boxed_slice();
        }
        Some(Buffer::contiguous(self.pieces.memory.as_mut_ptr(), most))
    }

    /// The message that [`Partitioned::next_place`] asked for has come, of so many bytes. Gives the place and
    /// the bytes of data for which this side has no room.
    pub(crate) fn take_message(&mut self, bytes: usize) -> Option<(Buffer, usize)> {
        let Side::Receiver(Some(Introduction { partitions, bytes: each, .. })) = self.side else {
            return None;
        };
        if let Some(run) = self.pieces.bulk.take() {
            self.pieces.set.insert(run);
            return None;
        }
        let mut too_long = None;
        let mut rest = &self.pieces.memory[..bytes.min(self.pieces.memory.len())];
        while let Some((record, behind)) = rest.split_first_chunk::<RECORD_BYTES>() {
            let [first, count] = [0, 4].map(|at| {
                let word = record[at..at + size_of::<u32>()].try_into().expect("a word has four bytes");
                u32::from_ne_bytes(word)
            });
            let run = first..first.saturating_add(count & !BULK).min(partitions as u32);
            if count & BULK != 0 {
                self.pieces.bulk = Some(run);
                break;
            }
            let place = bytes_of(&run, each);
            let Some((data, behind)) = behind.split_at_checked(place.len()) else { break };
            // SAFETY: the user's memory of an active operation; what lies behind it is dropped.
            unsafe { self.whole.store(place.start, data.as_ptr(), data.len()) };
            if place.end > self.whole.bytes {
                too_long = too_long.or(Some((self.whole.part(place.start, place.len()), place.len())));
            }
            self.pieces.set.insert(run);
            rest = behind;
        }
        too_long
    }
}
