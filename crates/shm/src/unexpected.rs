//! Messages that a process has taken out of its rings, or from the network, and no receive has asked for: as
//! they lie in its own memory, where who looks at the frozen process finds them.
//!
//! ```text
//! report.kept -> Root -> Chunk -> Chunk ...      a chunk: its head, then places, each of which begins with a Mark
//! ```
//!
//! Nothing moves and no chunk goes, so a look finds every place at any moment. A mark holds while its number
//! is not 0: the number is written behind everything else when a message comes, and taken back before
//! anything else when it goes.

use std::sync::atomic::compiler_fence;

use crate::sync::{AtomicU64, Ordering};

/// Where an onlooker begins.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Root {
    /// Address of the first chunk; 0: no message was ever kept.
    pub first: AtomicU64,
    /// Address of the word of the lock under which messages are taken: not 0 while that may be going on.
    pub lock: AtomicU64,
}

/// The head of a chunk.
#[repr(C)]
#[derive(Debug)]
pub struct ChunkHead {
    /// Address of the next chunk; 0: it is the last.
    pub next: AtomicU64,
    /// Places behind this head.
    pub places: u32,
    /// Bytes from one place to the next.
    pub stride: u32,
}

/// The beginning of a place.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Mark {
    /// The number of the message in the order of arrival; 0: there is none.
    pub number: AtomicU64,
    /// Bytes of the whole message.
    pub bytes: AtomicU64,
    /// Address of its data.
    pub data: AtomicU64,
    /// How many of them are there.
    pub here: AtomicU64,
    /// World rank of the sender, and the kind by which the message came (`crate::envelope`).
    pub from_kind: AtomicU64,
    /// Context and tag.
    pub matching: AtomicU64,
}

/// Bytes of a [`Root`].
pub const ROOT_BYTES: usize = size_of::<Root>();
/// Bytes of a [`ChunkHead`].
pub const CHUNK_HEAD_BYTES: usize = size_of::<ChunkHead>();
/// Bytes of a [`Mark`].
pub const MARK_BYTES: usize = size_of::<Mark>();

/// A message as its mark says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// In the order of arrival.
    pub number: u64,
    /// Bytes of the whole message.
    pub bytes: u64,
    /// Address of its data.
    pub data: u64,
    /// How many of them are there.
    pub here: u64,
    /// World rank of the sender.
    pub from: u32,
    /// How it came.
    pub kind: u8,
    /// Context of the communicator.
    pub context: u32,
    /// Tag.
    pub tag: i32,
}

impl Mark {
    /// A message is here.
    #[inline(always)]
    pub fn set(&self, entry: &Entry) {
        let Entry { number, bytes, data, here, from, kind, context, tag } = *entry;
        self.bytes.store(bytes, Ordering::Relaxed);
        self.data.store(data, Ordering::Relaxed);
        self.here.store(here, Ordering::Relaxed);
        self.from_kind.store(u64::from(from) | u64::from(kind) << 32, Ordering::Relaxed);
        self.matching.store(u64::from(context) | u64::from(tag as u32) << 32, Ordering::Relaxed);
        self.number.store(number, Ordering::Release);
    }

    /// All its data have come.
    pub fn complete(&self, data: u64, kind: u8) {
        let from_kind = self.from_kind.load(Ordering::Relaxed) as u32;
        self.here.store(0, Ordering::Release);
        self.data.store(data, Ordering::Release);
        self.here.store(self.bytes.load(Ordering::Relaxed), Ordering::Release);
        self.from_kind.store(u64::from(from_kind) | u64::from(kind) << 32, Ordering::Relaxed);
    }

    /// The message goes.
    #[inline(always)]
    pub fn clear(&self) {
        self.number.store(0, Ordering::Relaxed);
        // What follows, the next message at this place too, is not to be seen under the old number. The
        // onlooker sees all that a frozen process has stored, so only the compiler could change the order.
        compiler_fence(Ordering::SeqCst);
    }
}

/// Reads a copy of a mark; nothing when there is no message.
pub fn read_mark(bytes: &[u8; MARK_BYTES]) -> Option<Entry> {
    let [number, bytes, data, here, from_kind, matching] = words(bytes);
    let (from, kind) = (from_kind as u32, (from_kind >> 32) as u8);
    let (context, tag) = (matching as u32, (matching >> 32) as i32);
    (number != 0).then_some(Entry { number, bytes, data, here, from, kind, context, tag })
}

/// The words of a copy of a [`Root`].
pub fn read_root(bytes: &[u8; ROOT_BYTES]) -> (u64, u64) {
    let [first, lock] = words(bytes);
    (first, lock)
}

/// The words of a copy of a [`ChunkHead`]: the next one, its places, the bytes of each.
pub fn read_chunk_head(bytes: &[u8; CHUNK_HEAD_BYTES]) -> (u64, u32, u32) {
    let [next, count] = words(bytes);
    (next, count as u32, (count >> 32) as u32)
}

fn words<const BYTES: usize, const WORDS: usize>(bytes: &[u8; BYTES]) -> [u64; WORDS] {
    const { assert!(BYTES == 8 * WORDS) }
    std::array::from_fn(|word| u64::from_ne_bytes(std::array::from_fn(|at| bytes[8 * word + at])))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn copy(mark: &Mark) -> [u8; MARK_BYTES] {
        let words = [&mark.number, &mark.bytes, &mark.data, &mark.here, &mark.from_kind, &mark.matching];
        let bytes: Vec<u8> =
            words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
        bytes.try_into().expect("as many")
    }

    #[test]
    fn unexpected_mark_round_trips_until_cleared() {
        let mark = Mark::default();
        assert_eq!(read_mark(&copy(&mark)), None);
        let entry =
            Entry { number: 7, bytes: 1 << 40, data: 5, here: 3, from: 9, kind: 2, context: 6, tag: -1 };
        mark.set(&entry);
        assert_eq!(read_mark(&copy(&mark)), Some(entry));
        mark.complete(77, 1);
        assert_eq!(read_mark(&copy(&mark)), Some(Entry { data: 77, here: 1 << 40, kind: 1, ..entry }));
        mark.clear();
        assert_eq!(read_mark(&copy(&mark)), None);
    }
}
