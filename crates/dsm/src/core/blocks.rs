//! The heap of shared memory, at node 0: blocks of the arena, their attributes, and which lines of the
//! program have taken them.

use std::collections::BTreeMap;
use std::ops::Range;

use tutti_shmem::heap::Heap;

use super::unit::{LARGE_BYTES, LARGE_FROM_BYTES, Run, UNIT_BYTES};
use super::violation::Violation;

/// Size of the pages of a block, which come at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageSize {
    /// 4 KiB.
    #[default]
    Small,
    /// 2 MiB: the block begins with one, and shares none.
    Large,
}

/// Way in which stores to a block come to copies of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Copies are dropped, and fetched when they are used.
    #[default]
    Invalidate,
    /// Stores go to all copies at a release.
    Update,
}

/// Attributes of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Of its pages.
    pub size: PageSize,
    /// Of its stores.
    pub protocol: Protocol,
}

/// Blocks of the arena, and which lines of the program have taken them.
#[derive(Clone, Debug)]
pub struct Blocks {
    heap: Heap,
    /// Where the part begins whose stores go to all copies; the end of the heap: there is none.
    updated_from: usize,
    sites: BTreeMap<u64, String>,
    /// Blocks of large pages: where each begins, and its bytes.
    large: BTreeMap<u64, u64>,
}

impl Blocks {
    /// A heap of so many bytes, all free, with a part at its end for blocks whose stores go to all copies.
    pub fn new(bytes: usize, updated_from: usize) -> Self {
        Blocks { heap: Heap::new(bytes), updated_from, sites: BTreeMap::new(), large: BTreeMap::new() }
    }

    /// Takes memory; where it begins. Large blocks begin with a unit, and share none with others.
    ///
    /// # Errors
    /// When there is not so much.
    pub fn allocate(&mut self, bytes: u64, attributes: Attributes, site: &str) -> Result<u64, Violation> {
        let Attributes { size, protocol } = attributes;
        let align = match size {
            PageSize::Large => LARGE_BYTES,
            PageSize::Small if bytes >= UNIT_BYTES as u64 => UNIT_BYTES,
            PageSize::Small => 1,
        };
        let length = bytes.checked_next_multiple_of(align as u64);
        let length = length.and_then(|length| usize::try_from(length).ok());
        let part = self.part(protocol);
        // A large page has one home where homes change that seldom, if the arena is long enough.
        let far = part.start.max(LARGE_FROM_BYTES)..part.end;
        let found = length.and_then(|length| {
            let far = (size == PageSize::Large).then(|| self.take(far, length, align));
            far.flatten().or_else(|| self.take(part.clone(), length, align))
        });
        let Some(offset) = found else {
            let taken: usize = self.sites_in(&part).map(|(_, bytes, _)| bytes).sum();
            return Err(Violation::Full {
                site: site.to_owned(),
                bytes,
                is_updated: protocol == Protocol::Update,
                left: part.len().saturating_sub(taken) as u64,
                size: part.len() as u64,
                users: self.largest_users(&part),
            });
        };
        self.sites.insert(offset as u64, site.to_owned());
        if size == PageSize::Large {
            self.large.insert(offset as u64, length.unwrap_or_default() as u64);
        }
        Ok(offset as u64)
    }

    /// The lines that have taken most of what is not updated.
    pub fn users(&self) -> String {
        self.largest_users(&self.part(Protocol::Invalidate))
    }

    /// The part of the heap for blocks of a protocol.
    fn part(&self, protocol: Protocol) -> Range<usize> {
        match protocol {
            Protocol::Update if self.updated_from < self.heap.bytes() => self.updated_from..self.heap.bytes(),
            _ => 0..self.updated_from.min(self.heap.bytes()),
        }
    }

    /// Takes memory inside a part.
    fn take(&mut self, part: Range<usize>, length: usize, align: usize) -> Option<usize> {
        let offset = self.heap.allocate_behind(part.start, length, align)?;
        if offset + length <= part.end {
            return Some(offset);
        }
        self.heap.free(offset);
        None
    }

    /// Blocks in a part: where each begins, its bytes, and the line that has taken it.
    fn sites_in(&self, part: &Range<usize>) -> impl Iterator<Item = (u64, usize, &str)> {
        let bytes = |offset: u64| self.heap.size_of(offset as usize).unwrap_or(0);
        let found = self.sites.range(part.start as u64..part.end as u64);
        found.map(move |(offset, site)| (*offset, bytes(*offset), site.as_str()))
    }

    /// Units of blocks of large pages.
    pub fn large(&self) -> impl Iterator<Item = Run> {
        let units = |bytes: &u64| (*bytes / UNIT_BYTES as u64) as u32;
        self.large.iter().map(move |(offset, bytes)| Run { first: units(offset), count: units(bytes) })
    }

    /// The block of large pages around a place, as a number: its first unit above 32 bits of their count. 0:
    /// there is none.
    pub fn large_at(&self, offset: u64) -> u64 {
        let unit = (offset / UNIT_BYTES as u64) as u32;
        let found = self.large().find(|run| run.units().contains(&unit));
        found.map_or(0, |run| u64::from(run.first) << u32::BITS | u64::from(run.count))
    }

    /// Gives a block back.
    ///
    /// # Errors
    /// When none begins there.
    pub fn free(&mut self, offset: u64, site: &str) -> Result<(), Violation> {
        self.sites.remove(&offset);
        self.large.remove(&offset);
        let given = usize::try_from(offset).ok().and_then(|offset| self.heap.free(offset));
        given.map(drop).ok_or_else(|| Violation::NotAllocated { site: site.to_owned() })
    }

    /// Whether a unit that was touched has some of a block.
    ///
    /// # Errors
    /// When it has none.
    pub fn touch(&self, offset: u64, node: usize) -> Result<(), Violation> {
        let unit = UNIT_BYTES as u64;
        let (begin, end) = (offset / unit * unit, (offset / unit + 1) * unit);
        let before = self.sites.range(..end).next_back();
        let block_end =
            |block: u64| block + self.heap.size_of(block as usize).map_or(0, |bytes| bytes.max(1) as u64);
        match before {
            Some((&block, _)) if block_end(block) > begin => Ok(()),
            Some((&block, site)) => {
                let beyond = offset - block_end(block);
                let nearest = format!("{beyond} bytes behind that of {site}");
                Err(Violation::Beyond { node, offset, nearest })
            }
            None => Err(Violation::Beyond { node, offset, nearest: "there is none before it".to_owned() }),
        }
    }

    /// How many bytes the block has that begins at a place.
    pub fn bytes_of(&self, offset: u64) -> Option<u64> {
        self.sites.get(&offset)?;
        self.heap.size_of(usize::try_from(offset).ok()?).map(|bytes| bytes as u64)
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> u64 {
        self.heap.bytes() as u64
    }

    /// Where the last block ends, rounded up to a whole unit.
    pub fn end(&self) -> u64 {
        let last = self.sites.keys().next_back().copied();
        let end = last.map_or(0, |last| last + self.heap.size_of(last as usize).unwrap_or(0) as u64);
        end.next_multiple_of(UNIT_BYTES as u64)
    }

    /// The three lines that have taken most of a part.
    fn largest_users(&self, part: &Range<usize>) -> String {
        let mut by_site: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, bytes, site) in self.sites_in(part) {
            *by_site.entry(site).or_default() += bytes;
        }
        let mut sorted: Vec<_> = by_site.into_iter().collect();
        sorted.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let named: Vec<_> =
            sorted.iter().take(3).map(|(site, bytes)| format!("{site} ({bytes} bytes)")).collect();
        if named.is_empty() { "nothing".to_owned() } else { named.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_keeps_blocks_apart_whose_stores_go_to_all_copies() {
        let update = Attributes { protocol: Protocol::Update, ..Attributes::default() };
        let mut blocks = Blocks::new(9 << 12, 8 << 12);
        assert_eq!(blocks.allocate(100, update, "a.c:1"), Ok(8 << 12));
        assert_eq!(blocks.allocate(8 << 12, Attributes::default(), "a.c:2"), Ok(0));
        let text = blocks.allocate(1, Attributes::default(), "a.c:3").unwrap_err().to_string();
        assert!(text.contains("G_MALLOC of 1 bytes: 0 are left of the 32768 of TUTTI_DSM_SIZE"), "{text}");
        let text = blocks.allocate(4000, update, "a.c:4").unwrap_err().to_string();
        assert!(text.contains("G_MALLOC_UPDATE of 4000 bytes: 3996 are left of the 4096 beside"), "{text}");
        assert!(text.ends_with("taken by a.c:1 (100 bytes)"), "{text}");
        let mut blocks = Blocks::new(2 << 12, 2 << 12);
        assert_eq!(blocks.allocate(100, update, "a.c:5"), Ok(0), "there is no such part");
    }

    #[test]
    fn heap_that_is_full_names_the_lines_that_have_most() {
        let mut blocks = Blocks::new(1 << 16, 1 << 16);
        assert_eq!(blocks.allocate(100, Attributes::default(), "a.c:1").unwrap(), 0);
        assert_eq!(
            blocks.allocate(5000, Attributes::default(), "a.c:2").unwrap(),
            4096,
            "large blocks share no unit"
        );
        assert_eq!(blocks.allocate(10, Attributes::default(), "a.c:3").unwrap(), 128);
        let text = blocks.allocate(1 << 20, Attributes::default(), "a.c:4").unwrap_err().to_string();
        assert!(text.starts_with("a.c:4: G_MALLOC of 1048576 bytes: "), "{text}");
        assert!(
            text.contains("of the 65536 of TUTTI_DSM_SIZE") && text.contains("a.c:2 (8192 bytes), a.c:1"),
            "{text}"
        );
        assert_eq!(blocks.touch(4095, 1), Ok(()));
        assert_eq!(blocks.touch(12287, 1), Ok(()));
        let text = blocks.touch(12288, 1).unwrap_err().to_string();
        assert!(
            text.starts_with("rank 1 touches byte 12288") && text.ends_with("0 bytes behind that of a.c:2")
        );
        assert!(blocks.free(4096, "a.c:5").is_ok());
        assert!(blocks.free(4096, "a.c:6").unwrap_err().to_string().starts_with("a.c:6: G_FREE"));
    }
}
