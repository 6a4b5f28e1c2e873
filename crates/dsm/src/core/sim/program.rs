//! Random programs without data races.

use std::collections::BTreeMap;

use tutti_testkit::random::Random;

use super::super::blocks::Attributes;
use super::super::member::Member;
use super::super::unit::{HOME_UNITS, UNIT_BYTES};

/// Locks of a program. They are taken in ascending order, so that programs end.
const LOCKS: u64 = 3;
/// Bytes of a unit that programs use, side by side: neighbours have different owners.
const BYTES: usize = 12;
/// Neighbouring units that programs use at each home.
const UNITS: u32 = 4;
/// The first flag of each phase: they are cleared behind it.
const FLAGS: u64 = 1000;
/// Stores of a thousand to a unit with an owner that are not the owner's.
const STRANGERS: u64 = 20;
/// Loads of each node behind a barrier.
const LOOKS: u64 = 6;
/// Bytes of a thousand that are written in a phase and have another value before, from its begin on.
const PASSING: u64 = 600;
/// Different values: few, so that a store often leaves a byte as it was.
const VALUES: u64 = 3;

/// A byte: fixed, or of a block that the program has taken.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Fixed(usize),
    Block { number: usize, offset: usize },
}

impl Place {
    pub(super) fn address(self, blocks: &[u64]) -> usize {
        match self {
            Place::Fixed(address) => address,
            Place::Block { number, offset } => blocks[number] as usize + offset,
        }
    }
}

/// One operation of a program.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Load { place: Place },
    Store { place: Place, value: u8 },
    Lock(u64),
    Unlock(u64),
    Barrier { barrier: u64, count: u64 },
    Set(u64),
    Clear(u64),
    Wait(u64),
    Take { bytes: u64 },
    Give { number: usize },
    Invalidate { first: u32 },
}

impl Op {
    /// Begins a call, which is no access.
    pub(super) fn begin(&self, member: &mut Member, blocks: &[u64]) {
        match self {
            Op::Load { .. } | Op::Store { .. } => unreachable!("an access is no call"),
            Op::Lock(lock) => member.begin_lock(*lock),
            Op::Unlock(lock) => member.begin_unlock(*lock),
            Op::Barrier { barrier, count } => member.begin_barrier(*barrier, *count),
            Op::Set(flag) => member.begin_set(*flag),
            Op::Clear(flag) => member.begin_clear(*flag),
            Op::Wait(flag) => member.begin_wait(*flag),
            Op::Take { bytes } => member.begin_allocate(*bytes, Attributes::default(), "sim"),
            Op::Invalidate { first } => member.begin_invalidate((*first..first + UNITS).collect()),
            Op::Give { number } => member.begin_free(blocks[*number], "sim"),
        }
    }
}

/// How a byte is used in a phase.
#[derive(Clone, Copy, Debug)]
enum Use {
    Read,
    Written { by: usize },
    HandedOver { by: usize, to: usize },
}

/// A program for each node.
pub(super) struct Program {
    pub(super) scripts: Vec<Vec<Op>>,
    /// Bytes at the beginning of the arena that are no blocks.
    pub(super) fixed_bytes: usize,
}

struct Author<'a> {
    random: &'a mut Random,
    nodes: usize,
    guarded: Vec<Vec<Place>>,
    phased: Vec<Place>,
    flags: u64,
    /// Flags that nobody has cleared yet.
    set: Vec<u64>,
    /// Blocks that each node has taken.
    taken: Vec<usize>,
    /// Units that one node writes, but for strangers now and then: no lock guards a part of them.
    owners: BTreeMap<u32, usize>,
}

impl Program {
    /// A program for so many nodes. `is_owned`: some of its units have an owner.
    pub(super) fn new(random: &mut Random, nodes: usize, is_owned: bool) -> Self {
        let mut author = Author {
            guarded: vec![Vec::new(); LOCKS as usize],
            phased: Vec::new(),
            flags: FLAGS,
            set: Vec::new(),
            taken: vec![0; nodes],
            owners: BTreeMap::new(),
            random,
            nodes,
        };
        for home in 0..nodes as u32 {
            for unit in 0..UNITS {
                let unit = home * HOME_UNITS + unit;
                if is_owned && author.random.chance(700) {
                    let owner = author.random.below(nodes as u64) as usize;
                    author.owners.insert(unit, owner);
                }
                let first = unit as usize * UNIT_BYTES + 36;
                (first..first + BYTES).for_each(|address| author.assign(Place::Fixed(address)));
            }
        }
        let mut scripts = vec![Vec::new(); nodes];
        for phase in 0..author.random.between(if is_owned { (3, 5) } else { (1, 4) }) {
            author.write_phase(&mut scripts);
            for script in &mut scripts {
                script.push(Op::Barrier { barrier: phase % 2, count: nodes as u64 });
            }
            if is_owned {
                author.write_looks(&mut scripts);
            }
            author.write_clears(&mut scripts);
        }
        let all: Vec<Place> = author.guarded.concat().into_iter().chain(author.phased.clone()).collect();
        for script in &mut scripts {
            script.extend(all.iter().map(|place| Op::Load { place: *place }));
        }
        Program { scripts, fixed_bytes: nodes * HOME_UNITS as usize * UNIT_BYTES }
    }
}

impl Author<'_> {
    fn owner_of(&self, place: Place) -> Option<usize> {
        let unit = (place.address(&[]) / UNIT_BYTES) as u32;
        self.owners.get(&unit).copied()
    }

    fn assign(&mut self, place: Place) {
        if self.owner_of(place).is_some() {
            return self.phased.push(place);
        }
        match self.random.below(2 * LOCKS) {
            lock if lock < LOCKS => self.guarded[lock as usize].push(place),
            _ => self.phased.push(place),
        }
    }

    fn value(&mut self) -> u8 {
        self.random.below(VALUES) as u8
    }

    /// Adds what each node does until the next barrier: what waits for flags comes last.
    fn write_phase(&mut self, scripts: &mut [Vec<Op>]) {
        let mut waits = vec![Vec::new(); self.nodes];
        let nodes = self.nodes as u64;
        let uses: Vec<(Place, Use)> = self
            .phased
            .clone()
            .into_iter()
            .map(|place| {
                let by = self.random.below(nodes) as usize;
                let to = self.random.below(nodes) as usize;
                let owner = self.owner_of(place).filter(|_| !self.random.chance(STRANGERS));
                let used = match (self.random.below(6), owner) {
                    (0..4, Some(by)) => Use::Written { by },
                    (_, Some(_)) => Use::Read,
                    (0..3, None) => Use::Written { by },
                    (3, None) => Use::HandedOver { by, to },
                    (_, None) => Use::Read,
                };
                (place, used)
            })
            .collect();
        let mut parts: Vec<Vec<Vec<Op>>> = vec![Vec::new(); self.nodes];
        for (place, used) in uses {
            if self.random.chance(500) {
                if let Use::Written { by } = used
                    && self.random.chance(PASSING)
                {
                    let value = self.value();
                    scripts[by].push(Op::Store { place, value });
                }
                self.write_use(place, used, &mut parts, &mut waits);
            }
        }
        for (node, parts) in parts.iter_mut().enumerate() {
            if self.random.chance(500) {
                self.join_accesses(parts);
            }
            for _ in 0..self.random.below(6) {
                let section = self.write_section(0);
                parts.push(section);
            }
            if self.random.chance(300) {
                let first = self.random.below(self.nodes as u64) as u32 * HOME_UNITS;
                parts.push(vec![Op::Invalidate { first }]);
            }
            if self.random.chance(400) {
                let block = self.write_block(node);
                parts.push(block);
            }
        }
        for ((script, mut parts), waits) in scripts.iter_mut().zip(parts).zip(waits) {
            while !parts.is_empty() {
                let which = self.random.below(parts.len() as u64) as usize;
                script.extend(parts.swap_remove(which));
            }
            script.extend(waits);
        }
    }

    /// Makes one part, without a call, of all accesses; some come again.
    fn join_accesses(&mut self, parts: &mut Vec<Vec<Op>>) {
        let is_access = |op: &Op| matches!(op, Op::Load { .. } | Op::Store { .. });
        let (accesses, others) =
            std::mem::take(parts).into_iter().partition::<Vec<_>, _>(|part| part.iter().all(is_access));
        *parts = others;
        let mut joined = Vec::new();
        for _ in 0..2 * accesses.len() {
            let which = self.random.below(accesses.len() as u64) as usize;
            joined.extend(accesses[which].clone());
        }
        joined.extend(accesses.concat());
        parts.push(joined);
    }

    /// All look at what was written, right behind the barrier.
    fn write_looks(&mut self, scripts: &mut [Vec<Op>]) {
        for script in scripts {
            let looks = (0..LOOKS).filter_map(|_| self.random.pick(&self.phased));
            script.extend(looks.map(|place| Op::Load { place }));
        }
    }

    /// Flags that are set are cleared by anybody, and all meet: from the next phase on they are used again.
    fn write_clears(&mut self, scripts: &mut [Vec<Op>]) {
        self.flags = FLAGS;
        for flag in std::mem::take(&mut self.set) {
            let by = self.random.below(self.nodes as u64) as usize;
            scripts[by].push(Op::Clear(flag));
        }
        for script in scripts {
            script.push(Op::Barrier { barrier: 2, count: self.nodes as u64 });
        }
    }

    fn write_use(&mut self, place: Place, used: Use, parts: &mut [Vec<Vec<Op>>], waits: &mut [Vec<Op>]) {
        match used {
            Use::Read => {
                let reader = self.random.below(self.nodes as u64) as usize;
                parts[reader].push(vec![Op::Load { place }]);
            }
            Use::Written { by } => {
                let value = self.value();
                parts[by].push(vec![Op::Store { place, value }, Op::Load { place }]);
            }
            Use::HandedOver { by, to } => {
                self.flags += 1;
                let (value, again) = (self.value(), self.value());
                parts[by].push(vec![Op::Store { place, value }, Op::Set(self.flags)]);
                let taken = [Op::Wait(self.flags), Op::Load { place }, Op::Store { place, value: again }];
                waits[to].extend(taken);
                if self.random.chance(300) {
                    waits[to].push(Op::Clear(self.flags));
                } else {
                    self.set.push(self.flags);
                }
            }
        }
    }

    /// A critical section, perhaps with another one inside.
    fn write_section(&mut self, from: u64) -> Vec<Op> {
        let lock = from + self.random.below(LOCKS - from);
        let (mut ops, mut again) = (vec![Op::Lock(lock)], Vec::new());
        for _ in 0..self.random.below(5) {
            if lock + 1 < LOCKS && self.random.chance(300) {
                ops.extend(self.write_section(lock + 1));
            }
            if let Some(place) = self.random.pick(&self.guarded[lock as usize].clone()) {
                let value = self.value();
                ops.push(if self.random.chance(500) {
                    Op::Load { place }
                } else {
                    again.push(Op::Load { place });
                    Op::Store { place, value }
                });
            }
        }
        // What others send meanwhile is not to undo it.
        ops.extend(again);
        ops.push(Op::Unlock(lock));
        ops
    }

    /// A block that is taken, used and given back.
    fn write_block(&mut self, node: usize) -> Vec<Op> {
        let number = self.taken[node];
        self.taken[node] += 1;
        let mut ops = vec![Op::Take { bytes: 64 }];
        for offset in 0..4 {
            let (place, value) = (Place::Block { number, offset }, self.value());
            ops.extend([Op::Store { place, value }, Op::Load { place }]);
            if offset == 1 {
                ops.extend(self.write_section(0));
                ops.push(Op::Load { place });
            }
        }
        ops.push(Op::Give { number });
        ops
    }
}
