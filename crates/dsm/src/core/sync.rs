//! State that a node keeps for all: locks, barriers, flags (PARMACS calls them pauses), and the heap, at node
//! 0. Each carries the vector time of those who have released it. A keeper never waits: what cannot be
//! granted yet is queued, first come, first served.

use std::collections::{BTreeMap, VecDeque};

use thiserror::Error;
use tutti_shmem::heap::Heap;

use super::check::Race;
use super::time::VectorTime;
use super::unit::{LARGE_BYTES, LARGE_FROM_BYTES, Run, UNIT_BYTES};

/// Mistake of a program; it ends the job.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Violation {
    /// UNLOCK by a rank that does not hold it.
    #[error("rank {node} gives back lock {lock}, which {}", match .holder { Some(holder) => format!("rank {holder} holds"), None => "is free".to_owned() })]
    NotHeld {
        /// Which lock.
        lock: u64,
        /// The rank that gave it back.
        node: usize,
        /// The rank that has it.
        holder: Option<usize>,
    },
    /// LOCK by the rank that holds it.
    #[error("rank {node} asks for lock {lock}, which it holds already: it would wait for ever")]
    HeldAlready {
        /// Which lock.
        lock: u64,
        /// The rank.
        node: usize,
    },
    /// Ranks that meet at a barrier do not agree how many they are.
    #[error(
        "rank {node} comes to barrier {barrier} of {found} ranks; others wait at it as one of {expected}"
    )]
    BarrierCount {
        /// Which barrier.
        barrier: u64,
        /// The rank that came last.
        node: usize,
        /// Text of the message.
        found: u64,
        /// Answers of the others.
        expected: u64,
    },
    /// No such block.
    #[error("{site}: G_FREE of an address that G_MALLOC has not given, or that is free already")]
    NotAllocated {
        /// The line of the program.
        site: String,
    },
    /// A load or store beside all blocks.
    #[error("rank {node} touches byte {offset} of shared memory, which is in no block: {nearest}")]
    Beyond {
        /// The rank.
        node: usize,
        /// Where, in the arena.
        offset: u64,
        /// The last block before it.
        nearest: String,
    },
    /// Two ranks store to a byte, and nothing orders them.
    #[error(
        "data race: rank {} and rank {} store to byte {} of shared memory with no lock, barrier or pause between",
        .race.first.rank, .race.second.rank, .race.offset
    )]
    Race {
        /// Which.
        race: Race,
    },
    /// A store that would not go home.
    #[error(
        "rank {node} stores to byte {offset} of shared memory by code that makes no notes, beside noted stores to the same page: compile all with tutticc, or use --dsm=twin"
    )]
    Unnoted {
        /// The rank.
        node: usize,
        /// Where, in the arena.
        offset: u64,
        /// The place of the instruction that stored to the page first.
        site: u64,
    },
    /// The arena is full.
    #[error(
        "{site}: G_MALLOC of {bytes} bytes: {left} are left of the {size} of TUTTI_DSM_SIZE; most are taken by {users}"
    )]
    Full {
        /// The line of the program.
        site: String,
        /// Thing asked for.
        bytes: u64,
        /// Free memory.
        left: u64,
        /// The whole memory.
        size: u64,
        /// The lines that have most.
        users: String,
    },
}

/// A node that gets something now, and what it has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The node.
    pub node: usize,
    /// Time that it had seen when it asked.
    pub seen: VectorTime,
}

#[derive(Debug)]
struct Lock {
    holder: Option<usize>,
    queue: VecDeque<Granted>,
    time: VectorTime,
}

#[derive(Debug)]
struct Barrier {
    count: u64,
    arrived: Vec<Granted>,
    time: VectorTime,
}

#[derive(Debug)]
struct Flag {
    is_set: bool,
    waiting: Vec<Granted>,
    time: VectorTime,
}

/// Nodes that go on, and the time that they are to see.
pub type Grants = (Vec<Granted>, VectorTime);

/// State that this node keeps.
#[derive(Debug)]
pub struct Kept {
    nodes: usize,
    locks: BTreeMap<u64, Lock>,
    barriers: BTreeMap<u64, Barrier>,
    flags: BTreeMap<u64, Flag>,
    blocks: Blocks,
    /// The time of all who have given memory back.
    freed: VectorTime,
}

impl Kept {
    /// Makes an empty state of so many nodes, with a heap of so many bytes.
    pub fn new(nodes: usize, bytes: usize) -> Self {
        Kept {
            nodes,
            locks: BTreeMap::new(),
            barriers: BTreeMap::new(),
            flags: BTreeMap::new(),
            blocks: Blocks::new(bytes),
            freed: VectorTime::zero(nodes),
        }
    }

    /// A node wants a lock.
    ///
    /// # Errors
    /// When it has it.
    pub fn lock(&mut self, lock: u64, asker: Granted) -> Result<Grants, Violation> {
        let nodes = self.nodes;
        let kept = self.locks.entry(lock).or_insert_with(|| Lock {
            holder: None,
            queue: VecDeque::new(),
            time: VectorTime::zero(nodes),
        });
        if kept.holder == Some(asker.node) {
            return Err(Violation::HeldAlready { lock, node: asker.node });
        }
        if kept.holder.is_some() {
            kept.queue.push_back(asker);
            return Ok((Vec::new(), kept.time.clone()));
        }
        kept.holder = Some(asker.node);
        Ok((vec![asker], kept.time.clone()))
    }

    /// A node gives a lock back, with its time.
    ///
    /// # Errors
    /// When it does not have it.
    pub fn unlock(&mut self, lock: u64, node: usize, time: &VectorTime) -> Result<Grants, Violation> {
        let holder = self.locks.get(&lock).and_then(|kept| kept.holder);
        let Some(kept) = self.locks.get_mut(&lock).filter(|_| holder == Some(node)) else {
            return Err(Violation::NotHeld { lock, node, holder });
        };
        kept.time.join(time);
        let next = kept.queue.pop_front();
        kept.holder = next.as_ref().map(|next| next.node);
        Ok((next.into_iter().collect(), kept.time.clone()))
    }

    /// Gives who waits for a lock: the lock, who holds it, who waits.
    pub fn visit_queues(&self, mut visit: impl FnMut(u64, usize, usize)) {
        for (lock, kept) in &self.locks {
            let Some(holder) = kept.holder else { continue };
            kept.queue.iter().for_each(|asker| visit(*lock, holder, asker.node));
        }
    }

    /// A node comes to a barrier of `count`, with its time.
    ///
    /// # Errors
    /// When others have another count.
    pub fn arrive(&mut self, barrier: u64, count: u64, asker: Granted) -> Result<Grants, Violation> {
        let nodes = self.nodes;
        let kept = self.barriers.entry(barrier).or_insert_with(|| Barrier {
            count,
            arrived: Vec::new(),
            time: VectorTime::zero(nodes),
        });
        if kept.arrived.is_empty() {
            kept.count = count;
        } else if kept.count != count {
            let (node, expected) = (asker.node, kept.count);
            return Err(Violation::BarrierCount { barrier, node, found: count, expected });
        }
        kept.time.join(&asker.seen);
        kept.arrived.push(asker);
        let is_full = kept.arrived.len() as u64 == count;
        let leaving = if is_full { std::mem::take(&mut kept.arrived) } else { Vec::new() };
        Ok((leaving, kept.time.clone()))
    }

    /// A node sets a flag, with its time.
    pub fn set(&mut self, flag: u64, time: &VectorTime) -> Grants {
        let kept = self.flag(flag);
        kept.is_set = true;
        kept.time.join(time);
        (std::mem::take(&mut kept.waiting), kept.time.clone())
    }

    /// A node clears a flag.
    pub fn clear(&mut self, flag: u64) {
        self.flag(flag).is_set = false;
    }

    /// A node waits until a flag is set.
    pub fn wait(&mut self, flag: u64, asker: Granted) -> Grants {
        let kept = self.flag(flag);
        if kept.is_set {
            return (vec![asker], kept.time.clone());
        }
        kept.waiting.push(asker);
        (Vec::new(), kept.time.clone())
    }

    /// Takes memory; where it begins. Its taker sees everything that those saw who gave memory back: their
    /// stores to it come before those of its new owner.
    ///
    /// # Errors
    /// When there is not so much.
    pub fn allocate(
        &mut self,
        bytes: u64,
        size: PageSize,
        site: &str,
    ) -> Result<(u64, VectorTime), Violation> {
        Ok((self.blocks.allocate(bytes, size, site)?, self.freed.clone()))
    }

    /// Gives memory back, with the time of the node that does.
    ///
    /// # Errors
    /// When no block begins there.
    pub fn free(&mut self, offset: u64, site: &str, time: &VectorTime) -> Result<(), Violation> {
        self.freed.join(time);
        self.blocks.free(offset, site)
    }

    /// The heap.
    pub fn blocks(&mut self) -> &mut Blocks {
        &mut self.blocks
    }

    fn flag(&mut self, flag: u64) -> &mut Flag {
        let nodes = self.nodes;
        self.flags.entry(flag).or_insert_with(|| Flag {
            is_set: false,
            waiting: Vec::new(),
            time: VectorTime::zero(nodes),
        })
    }
}

/// Size of the pages of a block, which come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSize {
    /// 4 KiB.
    Small,
    /// 2 MiB: the block begins with one, and shares none.
    Large,
}

/// Blocks of the arena, and which lines of the program have taken them.
#[derive(Clone, Debug)]
pub struct Blocks {
    heap: Heap,
    sites: BTreeMap<u64, String>,
    /// Blocks of large pages: where each begins, and its bytes.
    large: BTreeMap<u64, u64>,
}

impl Blocks {
    /// A heap of so many bytes, all free.
    pub fn new(bytes: usize) -> Self {
        Blocks { heap: Heap::new(bytes), sites: BTreeMap::new(), large: BTreeMap::new() }
    }

    /// Takes memory; where it begins. Large blocks begin with a unit, and share none with others.
    ///
    /// # Errors
    /// When there is not so much.
    pub fn allocate(&mut self, bytes: u64, size: PageSize, site: &str) -> Result<u64, Violation> {
        let align = match size {
            PageSize::Large => LARGE_BYTES,
            PageSize::Small if bytes >= UNIT_BYTES as u64 => UNIT_BYTES,
            PageSize::Small => 1,
        };
        let length = bytes.checked_next_multiple_of(align as u64);
        let length = length.and_then(|length| usize::try_from(length).ok());
        // A large page has one home where homes change that seldom, if the arena is long enough.
        let heap = &mut self.heap;
        let found = length.and_then(|length| {
            let far =
                (size == PageSize::Large).then(|| heap.allocate_behind(LARGE_FROM_BYTES, length, align));
            far.flatten().or_else(|| heap.allocate(length, align))
        });
        let Some(offset) = found else {
            return Err(Violation::Full {
                site: site.to_owned(),
                bytes,
                left: self.heap.free_bytes() as u64,
                size: self.heap.bytes() as u64,
                users: self.largest_users(),
            });
        };
        self.sites.insert(offset as u64, site.to_owned());
        if size == PageSize::Large {
            self.large.insert(offset as u64, length.unwrap_or_default() as u64);
        }
        Ok(offset as u64)
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

    /// The three lines that have taken most.
    fn largest_users(&self) -> String {
        let mut by_site: BTreeMap<&str, usize> = BTreeMap::new();
        for (offset, site) in &self.sites {
            *by_site.entry(site).or_default() += self.heap.size_of(*offset as usize).unwrap_or(0);
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

    fn asker(node: usize) -> Granted {
        Granted { node, seen: VectorTime::zero(3) }
    }

    fn nodes(grants: &Grants) -> Vec<usize> {
        grants.0.iter().map(|granted| granted.node).collect()
    }

    #[test]
    fn lock_goes_to_those_who_wait_in_order() {
        let mut kept = Kept::new(3, 0);
        assert_eq!(nodes(&kept.lock(7, asker(1)).unwrap()), [1]);
        assert_eq!(nodes(&kept.lock(7, asker(0)).unwrap()), [0_usize; 0]);
        assert_eq!(nodes(&kept.lock(7, asker(2)).unwrap()), [0_usize; 0]);
        assert_eq!(kept.lock(7, asker(1)), Err(Violation::HeldAlready { lock: 7, node: 1 }));
        let time = VectorTime::from_entries(vec![0, 4, 0]);
        let (granted, seen) = kept.unlock(7, 1, &time).unwrap();
        assert_eq!((granted[0].node, seen), (0, time.clone()));
        let wrong = kept.unlock(7, 1, &time);
        assert_eq!(wrong, Err(Violation::NotHeld { lock: 7, node: 1, holder: Some(0) }));
        assert_eq!(kept.unlock(8, 1, &time), Err(Violation::NotHeld { lock: 8, node: 1, holder: None }));
    }

    #[test]
    fn barrier_lets_all_go_when_the_last_has_come() {
        let mut kept = Kept::new(3, 0);
        assert_eq!(nodes(&kept.arrive(1, 2, asker(2)).unwrap()), [0_usize; 0]);
        let wrong = kept.arrive(1, 3, asker(0));
        assert_eq!(wrong, Err(Violation::BarrierCount { barrier: 1, node: 0, found: 3, expected: 2 }));
        assert_eq!(nodes(&kept.arrive(1, 2, asker(0)).unwrap()), [2, 0]);
        assert_eq!(nodes(&kept.arrive(1, 1, asker(1)).unwrap()), [1], "a round has a count of its own");
    }

    #[test]
    fn flag_stays_set_until_it_is_cleared() {
        let mut kept = Kept::new(3, 0);
        assert_eq!(nodes(&kept.wait(5, asker(1))), [0_usize; 0]);
        assert_eq!(nodes(&kept.set(5, &VectorTime::zero(3))), [1]);
        assert_eq!(nodes(&kept.wait(5, asker(2))), [2]);
        kept.clear(5);
        assert_eq!(nodes(&kept.wait(5, asker(2))), [0_usize; 0]);
    }

    #[test]
    fn heap_that_is_full_names_the_lines_that_have_most() {
        let mut kept = Kept::new(3, 1 << 16);
        assert_eq!(kept.allocate(100, PageSize::Small, "a.c:1").unwrap().0, 0);
        assert_eq!(
            kept.allocate(5000, PageSize::Small, "a.c:2").unwrap().0,
            4096,
            "large blocks share no unit"
        );
        assert_eq!(kept.allocate(10, PageSize::Small, "a.c:3").unwrap().0, 128);
        let text = kept.allocate(1 << 20, PageSize::Small, "a.c:4").unwrap_err().to_string();
        assert!(text.starts_with("a.c:4: G_MALLOC of 1048576 bytes: "), "{text}");
        assert!(
            text.contains("of the 65536 of TUTTI_DSM_SIZE") && text.contains("a.c:2 (8192 bytes), a.c:1"),
            "{text}"
        );
        assert_eq!(kept.blocks().touch(4095, 1), Ok(()));
        assert_eq!(kept.blocks().touch(12287, 1), Ok(()));
        let text = kept.blocks().touch(12288, 1).unwrap_err().to_string();
        assert!(
            text.starts_with("rank 1 touches byte 12288") && text.ends_with("0 bytes behind that of a.c:2")
        );
        assert!(kept.free(4096, "a.c:5", &VectorTime::zero(3)).is_ok());
        assert!(
            kept.free(4096, "a.c:6", &VectorTime::zero(3))
                .unwrap_err()
                .to_string()
                .starts_with("a.c:6: G_FREE")
        );
    }
}
