//! State that a node keeps for all: locks, barriers, flags (PARMACS calls them pauses), and the heap, at node
//! 0. Each carries the vector time of those who have released it. A keeper never waits: what cannot be
//! granted yet is queued, first come, first served.

use std::collections::{BTreeMap, VecDeque};

use super::blocks::{Attributes, Blocks};
use super::time::VectorTime;
use super::unit::Move;
use super::violation::Violation;

/// A node that gets something now, and what it has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The node.
    pub node: usize,
    /// Time that it had seen when it asked.
    pub seen: VectorTime,
}

/// A node that wants a lock: for its program, or as the deputy of its ranks ([`super::token`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The node.
    pub granted: Granted,
    /// The ranks of its node hand the lock over among themselves.
    pub is_deputy: bool,
}

/// Steps that follow from a request for a lock, or from its return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The node that gets the lock.
    pub to: Option<Asker>,
    /// Time that it is to see.
    pub time: VectorTime,
    /// Others wait behind it.
    pub is_wanted: bool,
    /// The deputy that has it, when it is to give it back.
    pub recalled: Option<usize>,
}

/// A place in the queue for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The lock.
    pub lock: u64,
    /// The rank that has it, or one that knows more.
    pub holder: usize,
    /// The rank that waits.
    pub asker: usize,
    /// The holder is a keeper or deputy with a queue of its own, in which the node of this place waits.
    pub is_deputy: bool,
}

#[derive(Debug)]
struct Lock {
    holder: Option<Holder>,
    queue: VecDeque<Asker>,
    time: VectorTime,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    node: usize,
    is_deputy: bool,
    is_recalled: bool,
}

impl Lock {
    /// Gives the lock to the first in the queue, if it is free; else a deputy that has it is asked, once.
    fn hand_over(&mut self) -> Handover {
        let to = if self.holder.is_none() { self.queue.pop_front() } else { None };
        let is_wanted = !self.queue.is_empty();
        if let Some(Asker { granted, is_deputy }) = &to {
            self.holder = Some(Holder { node: granted.node, is_deputy: *is_deputy, is_recalled: is_wanted });
        }
        let holder =
            self.holder.as_mut().filter(|holder| holder.is_deputy && is_wanted && !holder.is_recalled);
        let recalled = holder.map(|holder| {
            holder.is_recalled = true;
            holder.node
        });
        Handover { to, time: self.time.clone(), is_wanted, recalled }
    }
}

#[derive(Debug)]
struct Barrier {
    count: u64,
    arrived: Vec<Granted>,
    time: VectorTime,
    /// Units of which those who have arrived want to be the home.
    wishes: Vec<Move>,
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
    /// Nodes whose process has ended.
    ended: usize,
    /// The time of all who have given memory back.
    freed: VectorTime,
    /// Runs of units whose home has moved by barriers that are kept here.
    moves: usize,
}

/// Runs of units whose home moves, at most: each may take a mapping or two of the process for good, of which
/// the system gives some 65,000.
const MOVES_MAX: usize = 8192;

impl Kept {
    /// Admits as many of the moves as there is room for.
    pub fn admit(&mut self, mut moves: Vec<Move>) -> Vec<Move> {
        moves.truncate(MOVES_MAX - self.moves);
        self.moves += moves.len();
        moves
    }

    /// Makes an empty state of so many nodes, with a heap of so many bytes.
    pub fn new(nodes: usize, bytes: usize) -> Self {
        Kept {
            nodes,
            locks: BTreeMap::new(),
            barriers: BTreeMap::new(),
            flags: BTreeMap::new(),
            blocks: Blocks::new(bytes, bytes),
            ended: 0,
            freed: VectorTime::zero(nodes),
            moves: 0,
        }
    }

    /// A node wants a lock.
    ///
    /// # Errors
    /// When it has it.
    pub fn lock(&mut self, lock: u64, asker: Asker) -> Result<Handover, Violation> {
        let nodes = self.nodes;
        let kept = self.locks.entry(lock).or_insert_with(|| Lock {
            holder: None,
            queue: VecDeque::new(),
            time: VectorTime::zero(nodes),
        });
        let node = asker.granted.node;
        if kept.holder.is_some_and(|holder| holder.node == node) {
            return Err(Violation::HeldAlready { lock, node });
        }
        kept.queue.push_back(asker);
        Ok(kept.hand_over())
    }

    /// A node gives a lock back, with its time.
    ///
    /// # Errors
    /// When it does not have it.
    pub fn unlock(&mut self, lock: u64, node: usize, time: &VectorTime) -> Result<Handover, Violation> {
        let holder = self.locks.get(&lock).and_then(|kept| kept.holder);
        let is_held = |holder: Holder| holder.node == node;
        let Some(kept) = self.locks.get_mut(&lock).filter(|_| holder.is_some_and(is_held)) else {
            return Err(match holder {
                Some(Holder { is_deputy: true, .. }) => Violation::NotHeldHere { lock, node },
                _ => Violation::NotHeld { lock, node, holder: holder.map(|holder| holder.node) },
            });
        };
        kept.time.join(time);
        kept.holder = None;
        Ok(kept.hand_over())
    }

    /// Gives who waits for a lock, and who has it.
    pub fn visit_queues(&self, visit: &mut impl FnMut(Place)) {
        for (&lock, kept) in &self.locks {
            let Some(Holder { node: holder, is_deputy, .. }) = kept.holder else { continue };
            let place = |asker: &Asker| Place { lock, holder, asker: asker.granted.node, is_deputy };
            kept.queue.iter().for_each(|asker| visit(place(asker)));
        }
    }

    /// A node comes to a barrier of `count`, with its time, and the units of which it wants to be the home.
    /// The wishes of all who have come, when all have.
    ///
    /// # Errors
    /// When others have another count.
    pub fn arrive(
        &mut self,
        barrier: u64,
        count: u64,
        asker: Granted,
        wishes: Vec<Move>,
    ) -> Result<(Grants, Vec<Move>), Violation> {
        let nodes = self.nodes;
        let kept = self.barriers.entry(barrier).or_insert_with(|| Barrier {
            count,
            arrived: Vec::new(),
            time: VectorTime::zero(nodes),
            wishes: Vec::new(),
        });
        if kept.arrived.is_empty() {
            kept.count = count;
        } else if kept.count != count {
            let (node, expected) = (asker.node, kept.count);
            return Err(Violation::BarrierCount { barrier, node, found: count, expected });
        }
        kept.time.join(&asker.seen);
        kept.arrived.push(asker);
        kept.wishes.extend(wishes);
        let is_full = kept.arrived.len() as u64 == count;
        let leaving = if is_full { std::mem::take(&mut kept.arrived) } else { Vec::new() };
        let wishes = if is_full { std::mem::take(&mut kept.wishes) } else { Vec::new() };
        let grants = ((leaving, kept.time.clone()), wishes);
        self.find_deserted()?;
        Ok(grants)
    }

    /// The process of a node has ended.
    ///
    /// # Errors
    /// When others wait at a barrier that can be full no more.
    pub fn end(&mut self) -> Result<(), Violation> {
        self.ended += 1;
        self.find_deserted()
    }

    /// A barrier at which some wait, of more than there still are: who waits is there, so each that has ended
    /// is one of those that are awaited.
    fn find_deserted(&self) -> Result<(), Violation> {
        let (ended, nodes) = (self.ended, self.nodes);
        let left = nodes.saturating_sub(ended) as u64;
        for (&barrier, Barrier { count, arrived, .. }) in &self.barriers {
            if let Some(first) = arrived.first().filter(|_| ended > 0 && *count > left) {
                let (node, count) = (first.node, *count);
                return Err(Violation::Deserted { barrier, node, count, ended, nodes });
            }
        }
        Ok(())
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
        attributes: Attributes,
        site: &str,
    ) -> Result<(u64, VectorTime), Violation> {
        Ok((self.blocks.allocate(bytes, attributes, site)?, self.freed.clone()))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(node: usize) -> Granted {
        Granted { node, seen: VectorTime::zero(3) }
    }

    fn nodes(grants: &Grants) -> Vec<usize> {
        grants.0.iter().map(|granted| granted.node).collect()
    }

    fn left(kept: &mut Kept, barrier: u64, count: u64, node: usize) -> Vec<usize> {
        nodes(&kept.arrive(barrier, count, asker(node), Vec::new()).unwrap().0)
    }

    fn wants(node: usize, is_deputy: bool) -> Asker {
        Asker { granted: asker(node), is_deputy }
    }

    fn given(handover: &Handover) -> Option<usize> {
        handover.to.as_ref().map(|to| to.granted.node)
    }

    #[test]
    fn lock_goes_to_those_who_wait_in_order() {
        let mut kept = Kept::new(3, 0);
        assert_eq!(given(&kept.lock(7, wants(1, false)).unwrap()), Some(1));
        assert_eq!(given(&kept.lock(7, wants(0, false)).unwrap()), None);
        assert_eq!(given(&kept.lock(7, wants(2, false)).unwrap()), None);
        let wrong = Err(Violation::HeldAlready { lock: 7, node: 1 });
        assert_eq!(kept.lock(7, wants(1, false)), wrong);
        let time = VectorTime::from_entries(vec![0, 4, 0]);
        let handover = kept.unlock(7, 1, &time).unwrap();
        assert_eq!((given(&handover), handover.time), (Some(0), time.clone()));
        let wrong = kept.unlock(7, 1, &time);
        assert_eq!(wrong, Err(Violation::NotHeld { lock: 7, node: 1, holder: Some(0) }));
        assert_eq!(kept.unlock(8, 1, &time), Err(Violation::NotHeld { lock: 8, node: 1, holder: None }));
    }

    #[test]
    fn lock_that_is_lent_is_recalled_once_when_others_wait() {
        let mut kept = Kept::new(3, 0);
        let lent = kept.lock(7, wants(1, true)).unwrap();
        assert_eq!((given(&lent), lent.is_wanted, lent.recalled), (Some(1), false, None));
        assert_eq!(kept.lock(7, wants(0, false)).unwrap().recalled, Some(1));
        assert_eq!(kept.lock(7, wants(2, true)).unwrap().recalled, None, "it has been asked");
        let time = VectorTime::zero(3);
        assert_eq!(kept.unlock(7, 0, &time), Err(Violation::NotHeldHere { lock: 7, node: 0 }));
        let next = kept.unlock(7, 1, &time).unwrap();
        assert_eq!((given(&next), next.recalled), (Some(0), None), "who is no deputy gives it back anyway");
        let next = kept.lock(7, wants(1, true)).unwrap();
        assert_eq!((given(&next), next.recalled), (None, None));
        let next = kept.unlock(7, 0, &time).unwrap();
        assert_eq!((given(&next), next.is_wanted, next.recalled), (Some(2), true, None), "Lend says it");
    }

    #[test]
    fn barrier_lets_all_go_when_the_last_has_come() {
        let mut kept = Kept::new(3, 0);
        assert_eq!(left(&mut kept, 1, 2, 2), [0_usize; 0]);
        let wrong = kept.arrive(1, 3, asker(0), Vec::new());
        assert_eq!(wrong, Err(Violation::BarrierCount { barrier: 1, node: 0, found: 3, expected: 2 }));
        assert_eq!(left(&mut kept, 1, 2, 0), [2, 0]);
        assert_eq!(left(&mut kept, 1, 1, 1), [1], "a round has a count of its own");
    }

    #[test]
    fn barrier_is_deserted_when_too_few_are_left_to_come() {
        let mut kept = Kept::new(3, 0);
        assert_eq!(left(&mut kept, 1, 2, 0), [0_usize; 0]);
        assert_eq!(kept.end(), Ok(()), "two are left");
        assert_eq!(left(&mut kept, 1, 2, 1), [0, 1]);
        assert_eq!(kept.end(), Ok(()), "nobody waits");
        let deserted = Violation::Deserted { barrier: 1, node: 1, count: 2, ended: 2, nodes: 3 };
        assert_eq!(kept.arrive(1, 2, asker(1), Vec::new()), Err(deserted));
        let mut kept = Kept::new(3, 0);
        assert_eq!(left(&mut kept, 4, 3, 1), [0_usize; 0]);
        let deserted = Violation::Deserted { barrier: 4, node: 1, count: 3, ended: 1, nodes: 3 };
        assert_eq!(kept.end(), Err(deserted));
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
}
