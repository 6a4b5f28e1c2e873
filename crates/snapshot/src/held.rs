//! The messages that a rank has taken and no receive has asked for, out of its own memory
//! (`tutti_shm::unexpected`).
//!
//! The rank is frozen, whatever it does: it may be in the middle of taking one, which is noticed by its lock.
//! Everything that is read is hostile: it is bounded, and what does not look right ends the reading.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use tutti_shm::unexpected::{self, CHUNK_HEAD_BYTES, Entry, MARK_BYTES, ROOT_BYTES};

/// A chunk counts as so many bytes at least: short ones are read no more often.
const CHUNK_BYTES_MIN: usize = 4096;
/// Places of a chunk, at most.
const PLACES_MAX: u32 = 1024;
/// Bytes of a place, at most.
const STRIDE_MAX: u32 = 1024;

/// Messages that were found in a process.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// In the order of arrival.
    pub messages: Vec<Entry>,
    /// The process was stopped while it may have been taking messages.
    pub taking: bool,
    /// Whether there are chunks that were not read.
    pub more: bool,
}

/// A process's memory.
#[derive(Debug)]
pub(super) struct Memory(File);

impl Memory {
    /// Of this process.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/mem")).map(Memory)
    }

    /// Reads so many bytes at an address.
    pub(crate) fn read(&self, address: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut copy = vec![0; bytes];
        self.0.read_exact_at(&mut copy, address)?;
        Ok(copy)
    }

    fn array<const BYTES: usize>(&self, address: u64) -> io::Result<[u8; BYTES]> {
        let mut copy = [0; BYTES];
        self.0.read_exact_at(&mut copy, address)?;
        Ok(copy)
    }

    /// The messages that hang on the root at this address, as far as so many bytes may be read, of which is
    /// taken what was.
    pub(crate) fn kept(&self, root: u64, bytes_max: &mut usize) -> io::Result<Found> {
        let (first, lock) = unexpected::read_root(&self.array::<ROOT_BYTES>(root)?);
        let taking = lock != 0 && self.array::<4>(lock)? != [0; 4];
        let mut found = Found { messages: Vec::new(), taking, more: false };
        let mut at = first;
        while at != 0 {
            let (next, places, stride) = unexpected::read_chunk_head(&self.array::<CHUNK_HEAD_BYTES>(at)?);
            if places > PLACES_MAX || stride > STRIDE_MAX || (stride as usize) < MARK_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "there is something else"));
            }
            let bytes = places as usize * stride as usize;
            let Some(rest) = bytes_max.checked_sub(bytes.max(CHUNK_BYTES_MIN)) else {
                found.more = true;
                break;
            };
            *bytes_max = rest;
            let address = at.wrapping_add(CHUNK_HEAD_BYTES as u64);
            let bytes = self.read(address, bytes)?;
            let marks = bytes.chunks_exact(stride as usize).filter_map(|place| place.first_chunk());
            found.messages.extend(marks.filter_map(unexpected::read_mark));
            at = next;
        }
        found.messages.sort_by_key(|message| message.number);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use tutti_shm::sync::Ordering;
    use tutti_shm::unexpected::{ChunkHead, Mark, Root};

    use super::*;

    const BYTES: usize = 1 << 20;

    #[repr(C)]
    #[derive(Default)]
    struct Place {
        mark: Mark,
        other: [u64; 3],
    }

    #[repr(C)]
    struct Chunk {
        head: ChunkHead,
        places: [Place; 4],
    }

    fn address<T>(of: &T) -> u64 {
        std::ptr::from_ref(of).addr() as u64
    }

    fn chunk(stride: u32) -> Box<Chunk> {
        let head = ChunkHead { next: 0.into(), places: 4, stride };
        Box::new(Chunk { head, places: Default::default() })
    }

    fn kept(number: u64) -> Entry {
        Entry { number, bytes: 8, data: 1, here: 8, from: 3, kind: 1, context: 6, tag: -2 }
    }

    #[test]
    fn snapshot_lists_unexpected_messages_in_order() {
        let memory = Memory::open(std::process::id()).expect("our own");
        let (root, lock) = (Box::new(Root::default()), Box::new(AtomicU32::new(0)));
        root.lock.store(address(&*lock), Ordering::Relaxed);
        assert!(memory.kept(address(&*root), &mut { BYTES }).expect("nothing").messages.is_empty());
        let chunks = [chunk(size_of::<Place>() as u32), chunk(size_of::<Place>() as u32)];
        root.first.store(address(&*chunks[0]), Ordering::Relaxed);
        chunks[0].head.next.store(address(&*chunks[1]), Ordering::Relaxed);
        for (chunk, place, number) in [(0, 3, 9), (1, 0, 2), (1, 3, 4)] {
            chunks[chunk].places[place].mark.set(&kept(number));
        }
        chunks[0].places[0].mark.set(&kept(1));
        chunks[0].places[0].mark.clear();
        let found = memory.kept(address(&*root), &mut { BYTES }).expect("all of it");
        assert_eq!((found.messages, found.taking), ([2, 4, 9].map(kept).to_vec(), false));
        lock.store(2, Ordering::Relaxed);
        assert!(memory.kept(address(&*root), &mut { BYTES }).expect("all of it").taking);
        assert!(!memory.kept(address(&*root), &mut { BYTES }).expect("all of it").more);
        // A loop ends, with what may be read.
        chunks[1].head.next.store(address(&*chunks[0]), Ordering::Relaxed);
        let mut bytes = BYTES;
        let found = memory.kept(address(&*root), &mut bytes).expect("as much as may be read");
        assert!(found.more && found.messages.len() <= 2 * BYTES / CHUNK_BYTES_MIN, "{found:?}");
        assert!(bytes < CHUNK_BYTES_MIN);
        assert!(
            memory.kept(address(&*root), &mut 0).is_ok_and(|found| found.more && found.messages.is_empty())
        );
    }

    #[test]
    fn snapshot_of_invalid_unexpected_queue_is_an_error() {
        let memory = Memory::open(std::process::id()).expect("our own");
        let root = Box::new(Root::default());
        root.first.store(8, Ordering::Relaxed);
        assert!(memory.kept(address(&*root), &mut { BYTES }).is_err());
        assert!(memory.kept(u64::MAX - 3, &mut { BYTES }).is_err());
        for stride in [0, MARK_BYTES as u32 - 1, u32::MAX] {
            let chunk = chunk(stride);
            root.first.store(address(&*chunk), Ordering::Relaxed);
            assert!(memory.kept(address(&*root), &mut { BYTES }).is_err(), "{stride}");
        }
    }
}
