//! The ring of a partitioned send to a rank of its node ([`tutti_shm::piece_ring`]), in memory that both map.
//!
//! ```text
//! record:  first partition, how many, their data, empty up to a multiple of 8
//!          first, how many | BULK     their data are the next message
//! ```

use core::ops::Range;
use core::ptr::NonNull;
use std::rc::Rc;

use tutti_datatype::Buffer;
use tutti_shm::arena::Mapping;
use tutti_shm::piece_ring::{Consumer, Head, Parts, Producer};

/// The data of a record are a message of their own, the next one. No number of partitions is that large.
pub(super) const BULK: u32 = 1 << 31;
/// Bytes of a ring with its head.
pub(crate) const RING_BYTES: usize = 32 << 10;
/// Words of its records.
const ROOM: usize = (RING_BYTES - size_of::<Head>()) / WORD_BYTES;
/// Longest data of a record; what is longer is a message, straight into its place.
pub(crate) const DATA_BYTES_MAX: usize = 4096;
/// Bytes of a word.
pub(super) const WORD_BYTES: usize = size_of::<u64>();

const _: () = assert!(DATA_BYTES_MAX / WORD_BYTES < ROOM / 4);

fn parts(memory: &Mapping) -> Parts {
    assert!(memory.range().bytes as usize >= RING_BYTES, "the memory of a ring");
    let head = memory.base();
    // SAFETY: the mapping is long enough, page-aligned, and stays as long as the end that is made; any bytes
    // are a head. A ring has one sender, and one receiver since its place was sent to it.
    unsafe { Parts::new(head.cast(), head.add(size_of::<Head>()).cast(), ROOM) }
}

/// Words of a record with so many bytes of data.
#[inline(always)]
fn words_of(bytes: usize) -> usize {
    1 + bytes.div_ceil(WORD_BYTES)
}

/// The sender's end.
#[derive(Debug)]
pub(crate) struct RingOut {
    memory: Rc<Mapping>,
    end: Producer,
}

impl RingOut {
    /// The sender's end of a new, empty ring: nobody reads it before its place was sent.
    pub(crate) fn new(memory: Rc<Mapping>) -> Self {
        let end = Producer::new(parts(&memory));
        RingOut { memory, end }
    }

    /// Where the ring lies in the arena of the node.
    pub(crate) fn offset(&self) -> u64 {
        self.memory.range().offset
    }

    /// Whether all has been taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.end.is_empty()
    }

    /// Gives the ring to another send, unless something is left in it.
    pub(crate) fn try_assign(&mut self, operation: u32) -> bool {
        self.end.try_assign(operation)
    }

    /// Whether the receiver has made room since a record last found none.
    pub(crate) fn has_more_room(&self) -> bool {
        self.end.has_more_room()
    }

    /// Writes a record of these partitions, at least one; `data` are theirs, none if they are the next
    /// message. False, and nothing is written, where there is no room.
    ///
    /// # Safety
    /// The memory behind `data` is valid for reading these bytes of it, at most [`DATA_BYTES_MAX`].
    #[inline(always)]
    pub(crate) unsafe fn try_write(
        &mut self,
        partitions: &Range<u32>,
        data: Option<(&Buffer, Range<usize>)>,
    ) -> bool {
        let bytes = data.as_ref().map_or(0, |(_, range)| range.len());
        let words = words_of(bytes);
        let Some(place) = self.end.place(words) else { return false };
        let place = place.as_ptr().cast::<u8>();
        let count = partitions.len() as u32 | if data.is_some() { 0 } else { BULK };
        // SAFETY: as many words are the record's, and the receiver does not look there before they are
        // published; the data by our contract.
        unsafe {
            place.cast::<[u32; 2]>().write([partitions.start, count]);
            let to = place.add(WORD_BYTES);
            match data {
                // One word, which the most common partitions have, needs no call.
                Some((buffer, range)) if bytes == WORD_BYTES && buffer.map.is_none() => {
                    to.cast::<u64>().write(buffer.at.add(range.start).cast::<u64>().read_unaligned());
                }
                Some((buffer, range)) => buffer.load(range.start, to, bytes),
                None => {}
            }
        }
        self.end.commit(words);
        true
    }

    /// Calls a receiver that waits to look at what has been written.
    #[inline(always)]
    pub(crate) fn call(&mut self) {
        self.end.call();
    }
}

/// Record that the receiver finds next.
#[derive(Debug)]
pub(crate) enum Record {
    /// Partitions and where their data lie, until [`RingIn::take`].
    Data(Range<u32>, *const u8),
    /// Partitions whose data are the next message.
    Bulk(Range<u32>),
}

/// One end of a ring.
#[derive(Debug)]
pub(crate) enum End {
    /// End of the sender.
    Out(RingOut),
    /// End of the receiver.
    In(RingIn),
    /// The receiver could not map it.
    Lost,
}

/// The receiver's end.
#[derive(Debug)]
pub(crate) struct RingIn {
    /// Where the ring is, as long as this is.
    _memory: Rc<Mapping>,
    end: Consumer,
    /// Words of the record that was last looked at.
    record: usize,
}

impl RingIn {
    /// The receiver's end for this send, which has written nothing that was taken.
    pub(crate) fn new(memory: Rc<Mapping>, operation: u32) -> Self {
        let end = Consumer::new(parts(&memory), operation);
        RingIn { _memory: memory, end, record: 0 }
    }

    /// Whether the sender has called since this was last asked.
    #[inline(always)]
    pub(crate) fn is_called(&mut self) -> bool {
        self.end.is_called()
    }

    /// The next record; `each` are the bytes of a partition.
    ///
    /// # Panics
    /// When there is what no sender writes.
    #[inline(always)]
    pub(crate) fn peek(&mut self, each: usize) -> Option<Record> {
        let (place, most) = self.end.peek()?;
        let place: NonNull<u8> = place.cast();
        // SAFETY: the sender has written the record, whose first word this is, and leaves it until it is
        // taken.
        let [first, count] = unsafe { place.cast::<[u32; 2]>().read() };
        let run = first..first.saturating_add(count & !BULK);
        if count & BULK != 0 {
            self.record = words_of(0);
            return Some(Record::Bulk(run));
        }
        self.record = run.len().checked_mul(each).map_or(usize::MAX, words_of);
        assert!(self.record <= most, "{run:?} are no record of a ring");
        // SAFETY: the record goes on behind its first word, or ends there.
        Some(Record::Data(run, unsafe { place.add(WORD_BYTES) }.as_ptr()))
    }

    /// Done with the record that was found; the sender is notified by [`RingIn::publish`].
    #[inline(always)]
    pub(crate) fn take(&mut self) {
        self.end.take(self.record);
    }

    /// Tells the sender what has been taken.
    pub(crate) fn publish(&mut self) {
        self.end.publish();
    }

    /// The same when it is much; whether it was.
    #[inline(always)]
    pub(crate) fn publish_much(&mut self) -> bool {
        self.end.publish_much()
    }
}

#[cfg(test)]
mod tests;
