//! The memory of one ordered pair of ranks, its ends, and copies of it; messages that can be recomputed from
//! their number.

use std::ptr::NonNull;

use tutti_shm::LINE_BYTES;
use tutti_shm::bulk_ring::{self, Chunk, Parts};
use tutti_shm::endpoint::Endpoint;
use tutti_shm::envelope_ring::{self, Envelope};
use tutti_shm::layout::{BULK_SLOTS, Geometry};
use tutti_shm::segment::Segment;

/// Lines of the envelope rings here: few, so that they wrap and fill up often.
pub(crate) const LINES: usize = 16;
/// Bytes of the largest chunk here: it fits the smallest slot.
pub(crate) const CHUNK_BYTES_MAX: usize = 1024;
/// The most inline bytes of a message in such a ring.
pub(crate) const INLINE_BYTES_MAX: usize = 232;

/// A segment of two ranks; the tests use the rings from rank 0 to rank 1 and back.
pub(crate) struct Memory(Segment);

impl Memory {
    pub(crate) fn new() -> Self {
        let geometry = Geometry { world_ranks: 2, local_ranks: 2, cores: 2, job: 1, ..Geometry::default() };
        Memory(Segment::create(geometry).expect("a segment"))
    }

    /// Another mapping of the same memory; a forked child needs one, it does not inherit ours.
    pub(crate) fn again(&self) -> Self {
        Memory(
            Segment::open(self.0.descriptor().try_clone_to_owned().expect("dup")).expect("our own segment"),
        )
    }

    pub(crate) fn endpoint(&self, rank: usize) -> &Endpoint {
        // SAFETY: the layout says that an endpoint lies there; its fields are atomics.
        unsafe { self.0.at::<Endpoint>(self.0.layout().endpoint_at(rank)).as_ref() }
    }

    fn lines(&self, from: usize) -> NonNull<envelope_ring::Line> {
        self.0.at(self.0.layout().envelopes_at(from, 1 - from))
    }

    fn consumed(&self, from: usize) -> NonNull<envelope_ring::Consumed> {
        self.0.at(self.0.layout().pair_at(from, 1 - from))
    }

    fn parts(&self, from: usize) -> Parts {
        let (layout, to) = (self.0.layout(), 1 - from);
        Parts {
            descriptors: self.0.at(layout.descriptors_at(from, to)),
            emptied: self.0.at(layout.descriptors_at(from, to) + LINE_BYTES),
            slots: self.0.at(layout.slots_at(from, to)),
            slot_lines: layout.slot_bytes / LINE_BYTES,
        }
    }

    /// The sender's ends of the rings out of `from`. The caller makes them once per test and memory.
    pub(crate) fn senders(&self, from: usize) -> (envelope_ring::Producer, bulk_ring::Producer) {
        // SAFETY: the segment is fresh and stays mapped while the ends are used (each test keeps it to its
        // end).
        unsafe {
            let envelopes = envelope_ring::Producer::new(self.lines(from), LINES, self.consumed(from));
            (envelopes, bulk_ring::Producer::new(self.parts(from)))
        }
    }

    /// The receiver's ends of the rings out of `from`. The caller makes them once per test and memory.
    pub(crate) fn receivers(&self, from: usize) -> (envelope_ring::Consumer, bulk_ring::Consumer) {
        // SAFETY: as in `senders`.
        unsafe {
            let envelopes = envelope_ring::Consumer::new(self.lines(from), LINES, self.consumed(from));
            (envelopes, bulk_ring::Consumer::new(self.parts(from)))
        }
    }

    /// Makes the rings from 0 to 1 here equal to those of `other`, whose user is frozen.
    pub(crate) fn copy_rings_of(&self, other: &Memory) {
        let layout = self.0.layout();
        let begin = layout.pair_at(0, 1);
        let bytes = layout.slots_at(0, 1) + BULK_SLOTS * layout.slot_bytes - begin;
        // SAFETY: both segments have the same layout and the range lies inside; nobody writes while we copy.
        unsafe {
            let (from, to) = (other.0.at::<u8>(begin), self.0.at::<u8>(begin));
            std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), bytes);
        }
    }

    /// `end` as it would go on in this copy. One of its kind at a time: the original works on other memory.
    pub(crate) fn consumer_here(&self, end: &envelope_ring::Consumer) -> envelope_ring::Consumer {
        // SAFETY: this memory is a copy of the end's ring and outlives what we return in every test.
        unsafe { end.on_copy(self.lines(0), self.consumed(0)) }
    }

    pub(crate) fn producer_here(&self, end: &envelope_ring::Producer) -> envelope_ring::Producer {
        // SAFETY: as in `consumer_here`.
        unsafe { end.on_copy(self.lines(0), self.consumed(0)) }
    }

    pub(crate) fn bulk_consumer_here(&self, end: &bulk_ring::Consumer) -> bulk_ring::Consumer {
        // SAFETY: as in `consumer_here`.
        unsafe { end.on_copy(self.parts(0)) }
    }

    pub(crate) fn bulk_producer_here(&self, end: &bulk_ring::Producer) -> bulk_ring::Producer {
        // SAFETY: as in `consumer_here`.
        unsafe { end.on_copy(self.parts(0)) }
    }
}

/// A message that knows its number, with data whose every word looks like a header that could stand in that
/// place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub envelope: Envelope,
    pub inline: Vec<u8>,
}

impl Message {
    pub(crate) fn new(n: u64, bytes: usize) -> Self {
        let envelope = Envelope {
            kind: 2 + (n % 250) as u8,
            flags: bytes as u8,
            context: n as u32,
            tag: (n >> 32) as i32 - 7,
            length: bytes as u64,
        };
        let words = (0..).flat_map(|i: u64| (2 | (n % 256) << 8 | 1 << 16 | (n + i) << 32).to_ne_bytes());
        Message { envelope, inline: words.take(bytes).collect() }
    }

    /// The number and size that a message claims.
    fn claimed(envelope: &Envelope) -> (u64, usize) {
        (u64::from(envelope.context), envelope.length as usize)
    }
}

/// Takes the oldest message; `None` when nothing is there.
///
/// # Panics
/// When the message is not the `n`-th or is not whole.
pub(crate) fn take(ring: &mut envelope_ring::Consumer, n: u64) -> Option<usize> {
    let found = ring.peek()?;
    let (number, bytes) = Message::claimed(&found.envelope);
    assert_eq!(number, n, "message {number} stands where {n} should: {:?}", found.envelope);
    assert!(bytes <= found.inline_capacity(), "{bytes} bytes claimed: {:?}", found.envelope);
    let mut inline = vec![0; bytes];
    found.read_inline(&mut inline);
    assert_eq!(
        Message { envelope: found.envelope, inline },
        Message::new(n, bytes),
        "message {n} is not whole"
    );
    found.consume();
    Some(bytes)
}

/// Bytes of the `n`-th bulk chunk.
pub(crate) fn chunk_bytes(n: u64) -> usize {
    [CHUNK_BYTES_MAX, 1, 777, 64][n as usize % 4]
}

/// The bytes themselves.
pub(crate) fn chunk_data(n: u64) -> impl Iterator<Item = u8> {
    (0..chunk_bytes(n)).map(move |i| (n as usize * 31 + i) as u8)
}

/// Puts the `n`-th chunk into the ring; false when it is full.
#[must_use]
pub(crate) fn put_chunk(ring: &mut bulk_ring::Producer, n: u64) -> bool {
    put_chunk_of(ring, n, &chunk_data(n).collect::<Vec<_>>())
}

/// The same when its data have been computed before.
#[must_use]
pub(crate) fn put_chunk_of(ring: &mut bulk_ring::Producer, n: u64, data: &[u8]) -> bool {
    let Some(slot) = ring.free_slot() else { return false };
    // SAFETY: a free slot is ours, and the data are not longer than it.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), slot.as_ptr(), data.len()) };
    ring.commit(Chunk { message: n as u32, bytes: data.len() });
    true
}

/// Takes the oldest chunk, which must be the `n`-th; false when nothing is there.
#[must_use]
pub(crate) fn take_chunk(ring: &mut bulk_ring::Consumer, n: u64) -> bool {
    let Some((chunk, slot)) = ring.peek() else { return false };
    assert_eq!(chunk, Chunk { message: n as u32, bytes: chunk_bytes(n) });
    // SAFETY: a full slot is not written before we advance, and holds so many bytes.
    let data = unsafe { std::slice::from_raw_parts(slot.as_ptr(), chunk.bytes) };
    assert!(data.iter().copied().eq(chunk_data(n)), "chunk {n} is not whole");
    ring.advance();
    true
}
