//! Small partitions travel in pieces: what is ready is sent as records of partitions that lie side by side,
//! in messages, or through a ring inside a node ([`super::ring`]).
//!
//! ```text
//! message of a piece:  first, how many, their data; first, how many, their data; ...
//! the last record may say that its data are the next message:  first, how many | BULK
//! ```

use core::ops::Range;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::rc::Rc;

use tutti_datatype::Buffer;
use tutti_shm::arena::Mapping;

use super::ring::{BULK, DATA_BYTES_MAX, End, Record, RingOut, WORD_BYTES};
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

/// State that is kept for all operations.
#[derive(Debug, Default)]
pub(crate) struct PieceBook {
    /// By the request of a piece: the operation that goes on when it is done.
    pub(crate) owners: HashMap<u32, u32, BuildHasherDefault<Spread>>,
    /// Memory for the next piece to be sent.
    pub(crate) memory: Box<[u8]>,
    /// Rings that no send has, with the ranks that read them.
    pub(crate) idle: Vec<(u32, RingOut)>,
    /// How many rings there are to a rank.
    pub(crate) made: HashMap<u32, u32, BuildHasherDefault<Spread>>,
    /// Memory of the rings of others, by offset.
    pub(crate) mapped: HashMap<u64, Rc<Mapping>>,
    /// Operations that wait for something in their ring: each progress looks there.
    pub(crate) looked_at: Vec<u32>,
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
    /// The ring of a send to this node, which it keeps over its starts.
    pub(crate) ring: Option<Box<End>>,
    /// Each progress looks at the ring.
    pub(crate) is_looked_at: bool,
    /// Sender: partitions that follow each other are only noted until so many are ready and not sent, since
    /// they are held back or a message is awaited; 0 where the next one is looked at.
    pub(crate) noted_until: u32,
    /// Sender to another node: what is ready is held back.
    pub(crate) is_held_back: bool,
    /// Sender: the ring had no room for what is ready, and the receiver has been rung.
    pub(crate) is_full: bool,
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
            ring: None,
            is_looked_at: false,
            noted_until: 0,
            is_held_back: false,
            is_full: false,
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
        self.noted_until = 0;
        self.bulk = None;
    }
}

/// Whether partitions of so many bytes travel in pieces.
pub(crate) fn are_gathered(partition_bytes: usize) -> bool {
    partition_bytes <= GATHERED_BYTES_MAX
}

/// Fate of a run that was to be written.
#[derive(Debug)]
pub(crate) enum Written {
    /// The ring has no room for it.
    Full,
    /// Partitions with their data.
    Data,
    /// Partitions, whose data are to be sent.
    Bulk(Buffer),
}

/// Outcome of a look into a ring.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// Whether a record was there.
    pub(crate) any: bool,
    /// The place and the bytes of data for which this side has no room.
    pub(crate) too_long: Option<(Buffer, usize)>,
}

/// Outcome of a look for one partition.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Whether the sender was told of room, and must be rung.
    pub(crate) has_made_room: bool,
    /// Whether the partition has arrived; where not, more must be done to know.
    pub(crate) has_arrived: bool,
}

/// Where the data of these partitions lie.
fn bytes_of(range: &Range<u32>, each: usize) -> Range<usize> {
    range.start as usize * each..range.end as usize * each
}

/// Copies the data of a record, which begin at a word, to their place, as far as there is one.
///
/// # Safety
/// The memory behind `whole` is valid for writing, `data` for reading the place's bytes.
#[inline(always)]
unsafe fn store_record(whole: &Buffer, place: &Range<usize>, data: *const u8) {
    let is_word = place.len() == WORD_BYTES && place.end <= whole.bytes;
    // SAFETY: our contract.
    unsafe {
        if is_word && whole.map.is_none() {
            let to = whole.at.add(place.start).cast::<u64>();
            to.write_unaligned(data.cast::<u64>().read());
        } else {
            whole.store(place.start, data, place.len());
        }
    }
}

impl Partitioned {
    /// Packs the sender's next piece into `to`, of [`PIECE_BYTES_MAX`]: gives its bytes, and data that are a
    /// message of their own behind it.
    pub(crate) fn pack_piece(&mut self, to: &mut [u8]) -> (usize, Option<Buffer>) {
        let each = self.each;
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
        if self.has_all_pieces() {
            return None;
        }
        let bulk = self.bulk_place();
        if bulk.is_some() {
            return bulk;
        }
        let most = sender.partitions.saturating_mul(RECORD_BYTES + sender.bytes).min(PIECE_BYTES_MAX);
        if self.pieces.memory.len() != most {
            self.pieces.memory = vec![0; most].into_boxed_slice();
        }
        Some(Buffer::contiguous(self.pieces.memory.as_mut_ptr(), most))
    }

    /// Where data belong that are the next message.
    pub(crate) fn bulk_place(&self) -> Option<Buffer> {
        let Side::Receiver(Some(sender)) = self.side else { return None };
        let bytes = bytes_of(self.pieces.bulk.as_ref()?, sender.bytes);
        Some(self.whole.part(bytes.start, bytes.len()))
    }

    /// Whether a receiver that gathers has all, or can get no more.
    pub(crate) fn has_all_pieces(&self) -> bool {
        let Side::Receiver(Some(sender)) = &self.side else { return false };
        self.pieces.is_broken || self.pieces.set.count() >= sender.partitions
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

    /// Declares the partition ready that follows the one before it and writes it into the ring; false, and
    /// nothing is done, where it is another one, something waits before it, or there is no room.
    #[inline(always)]
    pub(crate) fn try_write_next(&mut self, partition: u32) -> bool {
        let Partitioned { pieces, side, whole, each, partitions, .. } = self;
        let (Side::Sender { ready, .. }, Some(End::Out(ring))) = (side, pieces.ring.as_deref_mut()) else {
            return false;
        };
        let is_free = self.active && pieces.set.count() == 0 && self.under_way.is_empty();
        if !is_free || partition as usize >= *partitions || !ready.is_next(partition) {
            return false;
        }
        let run = partition..partition + 1;
        let bytes = bytes_of(&run, *each);
        // SAFETY: the user's memory of an active operation, and a partition that there is; one that is
        // gathered is no longer than a record.
        let written = unsafe { ring.try_write(&run, Some((whole, bytes))) };
        if written {
            ready.insert_next();
        }
        written
    }

    /// Declares the partition ready that follows the one before it, where that waits to be sent, and lets it
    /// wait too; false, and nothing is done, where it is another one or the sender has more to do.
    #[inline(always)]
    pub(crate) fn try_note_next(&mut self, partition: u32) -> bool {
        let Pieces { set, noted_until, .. } = &mut self.pieces;
        let Side::Sender { ready, .. } = &mut self.side else { return false };
        let is_noted = self.active && set.count() + 1 < *noted_until as usize;
        let is_one = (partition as usize) < self.partitions;
        if !is_noted || !is_one || !ready.is_next(partition) || !set.is_next(partition) {
            return false;
        }
        ready.insert_next();
        set.insert_next();
        true
    }

    /// How many partitions that are ready and not sent are worth a message: so many bytes, or the rest.
    pub(crate) fn count_worth_sending(&self, bytes: usize) -> u32 {
        let Side::Sender { ready, .. } = &self.side else { return 0 };
        let rest = self.pieces.set.count() + self.partitions - ready.count();
        bytes.div_ceil(self.each.max(1)).min(rest) as u32
    }

    /// Writes the first run that is ready and not sent into the ring. There is one.
    pub(crate) fn write_run(&mut self) -> Written {
        let Pieces { set, ring, is_full, .. } = &mut self.pieces;
        let Some(End::Out(ring)) = ring.as_deref_mut() else { panic!("a send without a ring") };
        let run = set.first_run().expect("the caller has looked");
        let bytes = bytes_of(&run, self.each);
        let is_bulk = bytes.len() > DATA_BYTES_MAX;
        let data = (!is_bulk).then(|| (&self.whole, bytes.clone()));
        // SAFETY: the user's memory of an active operation, and partitions that there are.
        if !unsafe { ring.try_write(&run, data) } {
            ring.call();
            *is_full = true;
            return Written::Full;
        }
        *is_full = false;
        set.take_run();
        if is_bulk {
            ring.call();
        }
        if is_bulk { Written::Bulk(self.whole.part(bytes.start, bytes.len())) } else { Written::Data }
    }

    /// All partitions of a sender are ready and written.
    #[inline(always)]
    pub(crate) fn call_receiver(&mut self) {
        if let Some(End::Out(ring)) = self.pieces.ring.as_deref_mut() {
            ring.call();
        }
    }

    /// Whether its ring must be looked at: that of a sender that has found no room when there is more, and
    /// that of a receiver when its sender has called.
    #[inline(always)]
    pub(crate) fn is_ring_due(&mut self) -> bool {
        let is_full = self.pieces.is_full;
        match self.pieces.ring.as_deref_mut() {
            Some(End::In(ring)) => ring.is_called(),
            Some(End::Out(ring)) => !is_full || ring.has_more_room(),
            _ => true,
        }
    }

    /// Looks for a partition of a started receive, in the ring if need be. Data are all that it takes, and it
    /// leaves the last of a start and what has no room to [`Partitioned::read_ring`].
    pub(crate) fn find_in_ring(&mut self, partition: usize) -> Found {
        let mut found = Found::default();
        let Side::Receiver(Some(Introduction { partitions, bytes: each, .. })) = self.side else {
            return found;
        };
        if !self.active || partition >= self.partitions || !are_gathered(each) {
            return found;
        }
        let theirs = self.overlapping(partition, partitions);
        let theirs = theirs.start as u32..theirs.end as u32;
        let Pieces { set, bulk, ring, is_looked_at, .. } = &mut self.pieces;
        found.has_arrived = set.covers(&theirs);
        let (Some(End::In(ring)), None, true) = (ring.as_deref_mut(), bulk, *is_looked_at) else {
            return found;
        };
        let mut any = false;
        while !found.has_arrived
            && let Some(Record::Data(run, data)) = ring.peek(each)
        {
            let place = bytes_of(&run, each);
            let is_last = set.count() + run.len() >= partitions;
            if is_last || run.end as usize > partitions || place.end > self.whole.bytes {
                break;
            }
            // SAFETY: the user's memory of an active operation, in which the place lies. The data lie in the
            // ring until the record is taken.
            unsafe { store_record(&self.whole, &place, data) };
            set.insert(run);
            ring.take();
            (any, found.has_arrived) = (true, set.covers(&theirs));
        }
        found.has_made_room = any && ring.publish_much();
        found
    }

    /// Whether a partition of a receive is in the last run of those that have arrived, where both sides have
    /// as many: the usual case, which costs a look.
    #[inline(always)]
    pub(crate) fn is_in_last_run(&self, partition: u32) -> bool {
        let Side::Receiver(Some(sender)) = &self.side else { return false };
        sender.partitions == self.partitions && self.pieces.set.has_in_last(partition)
    }

    /// Reads the records in the ring, up to the end of this start, or to data that are the next message.
    pub(crate) fn read_ring(&mut self) -> Read {
        let mut read = Read::default();
        let Side::Receiver(Some(Introduction { partitions, bytes: each, .. })) = self.side else {
            return read;
        };
        let Pieces { set, bulk, ring, is_broken: false, .. } = &mut self.pieces else { return read };
        let Some(End::In(ring)) = ring.as_deref_mut() else { return read };
        while bulk.is_none()
            && set.count() < partitions
            && let Some(record) = ring.peek(each)
        {
            read.any = true;
            match record {
                Record::Data(run, data) => {
                    assert!(run.end as usize <= partitions, "{run:?} of {partitions} partitions");
                    let place = bytes_of(&run, each);
                    // SAFETY: the user's memory of an active operation; what lies behind it is dropped. The
                    // data lie in the ring until the record is taken.
                    unsafe { store_record(&self.whole, &place, data) };
                    if place.end > self.whole.bytes && read.too_long.is_none() {
                        read.too_long = Some((self.whole.part(place.start, place.len()), place.len()));
                    }
                    set.insert(run);
                }
                Record::Bulk(run) => *bulk = Some(run),
            }
            ring.take();
        }
        if read.any {
            ring.publish();
        }
        read
    }
}
