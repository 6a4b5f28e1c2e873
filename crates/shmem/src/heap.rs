//! Which parts of the symmetric heap are taken. All PEs ask for the same in the same order and get the same
//! offsets, because the first hole that fits is taken, whatever happened elsewhere.

use std::collections::BTreeMap;

/// Blocks are multiples of a cache line, so two of them never share one.
pub const ALIGN: usize = 64;

/// Taken and free parts of the heap, by offset.
#[derive(Clone, Debug)]
pub struct Heap {
    bytes: usize,
    /// Free parts: offset and bytes; neighbours are one.
    free: BTreeMap<usize, usize>,
    /// Taken parts: offset, and bytes as asked for.
    taken: BTreeMap<usize, usize>,
}

impl Heap {
    /// A heap of so many bytes, all free.
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes / ALIGN * ALIGN;
        let free = if bytes > 0 { BTreeMap::from([(0, bytes)]) } else { BTreeMap::new() };
        Heap { bytes, free, taken: BTreeMap::new() }
    }

    /// Size of the heap, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes `bytes` at a multiple of `align`, a power of two; none when no hole is large enough.
    pub fn allocate(&mut self, bytes: usize, align: usize) -> Option<usize> {
        self.allocate_behind(0, bytes, align)
    }

    /// The same from an offset on.
    pub fn allocate_behind(&mut self, begin: usize, bytes: usize, align: usize) -> Option<usize> {
        let align = align.max(ALIGN);
        let length = bytes.max(1).checked_next_multiple_of(ALIGN)?;
        let (hole, size, offset) = self.free.iter().find_map(|(&hole, &size)| {
            let offset = hole.max(begin).checked_next_multiple_of(align)?;
            (offset.checked_add(length)? <= hole + size).then_some((hole, size, offset))
        })?;
        self.free.remove(&hole);
        self.put_free(hole, offset);
        self.put_free(offset + length, hole + size);
        self.taken.insert(offset, bytes);
        Some(offset)
    }

    /// Gives a block back; its size, or none if no block begins there.
    pub fn free(&mut self, offset: usize) -> Option<usize> {
        let bytes = self.taken.remove(&offset)?;
        let (mut begin, mut end) = (offset, offset + bytes.max(1).next_multiple_of(ALIGN));
        if let Some(size) = self.free.remove(&end) {
            end += size;
        }
        if let Some((&hole, &size)) = self.free.range(..begin).next_back()
            && hole + size == begin
        {
            self.free.remove(&hole);
            begin = hole;
        }
        self.put_free(begin, end);
        Some(bytes)
    }

    /// Changes the size of a block that stays where it is; whether it can: no other cache line is needed or
    /// left over.
    pub fn resize(&mut self, offset: usize, bytes: usize) -> bool {
        let length = |bytes: usize| bytes.max(1).checked_next_multiple_of(ALIGN);
        match self.taken.get_mut(&offset) {
            Some(taken) if length(*taken) == length(bytes) => {
                *taken = bytes;
                true
            }
            _ => false,
        }
    }

    /// The size of the block that begins at an offset.
    pub fn size_of(&self, offset: usize) -> Option<usize> {
        self.taken.get(&offset).copied()
    }

    /// Bytes that are free, in one piece or many.
    pub fn free_bytes(&self) -> usize {
        self.free.values().sum()
    }

    fn put_free(&mut self, from: usize, to: usize) {
        if from < to {
            self.free.insert(from, to - from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIGN, Heap};
    use proptest::prelude::*;

    #[test]
    fn heap_takes_the_first_hole_that_fits() {
        let mut heap = Heap::new(1000);
        assert_eq!(heap.bytes(), 960);
        let blocks: Vec<_> = (0..3).map(|_| heap.allocate(100, 1)).collect();
        assert_eq!(blocks, [Some(0), Some(128), Some(256)]);
        assert_eq!(heap.free(128), Some(100));
        assert_eq!(heap.free(128), None, "it is free already");
        assert_eq!((heap.allocate(200, 1), heap.allocate(128, 1)), (Some(384), Some(128)));
        assert_eq!(heap.allocate(1000, 1), None);
        assert_eq!(heap.allocate(8, 512), None, "a hole that fits but for the alignment");
    }

    #[test]
    fn heap_block_that_grows_in_place_has_its_new_size() {
        let mut heap = Heap::new(1024);
        assert_eq!((heap.allocate(10, 1), heap.allocate(100, 1)), (Some(0), Some(64)));
        assert!(heap.resize(0, 60), "its cache line is its own");
        assert_eq!(heap.size_of(0), Some(60));
        assert!(!heap.resize(0, 65) && !heap.resize(64, 64) && !heap.resize(128, 10));
        assert!(!heap.resize(0, usize::MAX));
        assert_eq!((heap.size_of(0), heap.size_of(64)), (Some(60), Some(100)));
        assert_eq!((heap.free(0), heap.free(64)), (Some(60), Some(100)));
        assert_eq!(heap.free_bytes(), heap.bytes());
    }

    proptest! {
        #[test]
        fn heap_blocks_never_overlap_and_all_come_back(
            steps in prop::collection::vec((0_usize..3000, 0_u32..10, any::<bool>(), any::<prop::sample::Index>()), 1..200)
        ) {
            let mut heap = Heap::new(64 << 10);
            let mut twin = Heap::new(64 << 10);
            let mut blocks: Vec<(usize, usize)> = Vec::new();
            for (bytes, shift, give_back, which) in steps {
                if give_back && !blocks.is_empty() {
                    let (offset, bytes) = blocks.swap_remove(which.index(blocks.len()));
                    prop_assert_eq!(heap.free(offset), Some(bytes));
                    prop_assert_eq!(twin.free(offset), Some(bytes));
                } else {
                    let found = heap.allocate(bytes, 1 << shift);
                    prop_assert_eq!(found, twin.allocate(bytes, 1 << shift), "PEs agree");
                    if let Some(offset) = found {
                        prop_assert!(offset % ALIGN.max(1 << shift) == 0 && offset + bytes <= heap.bytes());
                        for (other, size) in &blocks {
                            prop_assert!(offset + bytes.max(1) <= *other || other + size.max(&1) <= offset);
                        }
                        prop_assert_eq!(heap.size_of(offset), Some(bytes));
                        blocks.push((offset, bytes));
                    }
                }
            }
            for (offset, _) in blocks {
                heap.free(offset);
            }
            prop_assert_eq!(heap.free_bytes(), heap.bytes());
            prop_assert_eq!(heap.allocate(64 << 10, 1), Some(0), "one hole again");
        }
    }
}
