//! Units of coherence: pages of the arena, numbered from its first byte on.

use std::collections::BTreeMap;

/// Where the arena begins, on all ranks. Free under AddressSanitizer and valgrind.
pub const BASE: usize = 0x2000_0000_0000;

/// Bytes of a unit.
pub const UNIT_BYTES: usize = 4096;

/// Bytes of a large page: its units come at once.
pub const LARGE_BYTES: usize = 2 << 20;
/// Units of one.
const LARGE_UNITS: u32 = (LARGE_BYTES / UNIT_BYTES) as u32;
/// From here on a large page has one home.
pub const LARGE_FROM_BYTES: usize = PIECES[0].0 as usize * UNIT_BYTES;

/// Neighbouring units that have the same home: a run of them is fetched at once.
pub const HOME_UNITS: u32 = 16;

/// Units that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first of them.
    pub first: u32,
    /// How many.
    pub count: u32,
}

impl Run {
    /// One unit.
    pub fn of(unit: u32) -> Self {
        Run { first: unit, count: 1 }
    }

    /// The unit behind the last.
    pub fn end(self) -> u32 {
        self.first + self.count
    }

    /// Units of the run.
    pub fn units(self) -> std::ops::Range<u32> {
        self.first..self.end()
    }
}

/// Units as runs, in ascending order; each is named once.
pub fn runs_of(units: &mut Vec<u32>) -> Vec<Run> {
    units.sort_unstable();
    units.dedup();
    let mut runs: Vec<Run> = Vec::new();
    for &unit in units.iter() {
        match runs.last_mut() {
            Some(run) if run.end() == unit => run.count += 1,
            _ => runs.push(Run::of(unit)),
        }
    }
    runs
}

/// Units whose home moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The units.
    pub run: Run,
    /// Rank that is their home then.
    pub rank: usize,
}

/// Moves of units, in ascending order, as few as say it.
pub fn moves_of(homes: &BTreeMap<u32, usize>) -> Vec<Move> {
    let mut moves: Vec<Move> = Vec::new();
    for (&unit, &rank) in homes {
        match moves.last_mut() {
            Some(last) if last.run.end() == unit && last.rank == rank => last.run.count += 1,
            _ => moves.push(Move { run: Run::of(unit), rank }),
        }
    }
    moves
}

/// Pieces of the arena: before this unit they have so many. They grow, so that a large arena has few.
const PIECES: [(u32, u32); 3] = [(1 << 15, HOME_UNITS), (1 << 21, 1 << 9), (u32::MAX, 1 << 16)];

/// Rank that is the home of a unit at first: a function of the address alone. Homes go round, piece by
/// piece.
#[derive(Clone, Copy, Debug)]
pub struct Homes {
    ranks: u32,
}

impl Homes {
    /// Homes at so many ranks.
    pub fn new(ranks: usize) -> Self {
        assert!(ranks > 0, "memory has a home");
        Homes { ranks: ranks as u32 }
    }

    /// The home of a unit at first.
    pub fn of(self, unit: u32) -> usize {
        (unit / piece_units(unit) % self.ranks) as usize
    }

    /// The units around one that are fetched together where pages are large: they have one home.
    pub fn large_around(self, unit: u32) -> Run {
        let count = piece_units(unit).min(LARGE_UNITS);
        Run { first: unit / count * count, count }
    }

    /// The end of the units around one that are fetched together: they have one home.
    pub fn end_of(self, unit: u32) -> u32 {
        (unit / HOME_UNITS + 1) * HOME_UNITS
    }
}

fn piece_units(unit: u32) -> u32 {
    PIECES.iter().find(|(end, _)| unit < *end).map_or(HOME_UNITS, |(_, units)| *units)
}

/// Homes as one rank sees them: its own, and those of its node, whose frames the ranks of the node share. A
/// home that has moved has its unit in a frame of its own.
#[derive(Clone, Debug)]
pub struct Placement {
    homes: Homes,
    /// By rank: its node.
    nodes: Vec<usize>,
    me: usize,
    /// Stores to units from this one on go to all copies. Each rank has copies of its own of these.
    updated_from: u32,
    /// Units whose home has moved, and to which rank.
    moved: BTreeMap<u32, usize>,
}

impl Placement {
    /// Rank `me` of so many as `nodes` names nodes.
    pub fn new(me: usize, nodes: &[usize]) -> Self {
        let (homes, moved) = (Homes::new(nodes.len()), BTreeMap::new());
        Placement { homes, nodes: nodes.to_vec(), me, updated_from: u32::MAX, moved }
    }

    /// The same where stores to units from one on go to all copies, in place of notices.
    pub fn with_updates(self, from: u32) -> Self {
        Placement { updated_from: from, ..self }
    }

    /// The first unit of those; [`u32::MAX`]: there are none.
    pub fn updated_from(&self) -> u32 {
        self.updated_from
    }

    /// Whether stores to a unit go to all copies.
    pub fn is_updated(&self, unit: u32) -> bool {
        unit >= self.updated_from
    }

    /// The same where no ranks share frames, as if each had a node of its own.
    pub fn apart(&self) -> Placement {
        Placement::new(self.me, &(0..self.nodes.len()).collect::<Vec<_>>())
    }

    /// Homes of all units at first.
    pub fn homes(&self) -> Homes {
        self.homes
    }

    /// The home of a unit.
    pub fn home_of(&self, unit: u32) -> usize {
        self.moved.get(&unit).copied().unwrap_or_else(|| self.homes.of(unit))
    }

    /// Whether ranks of this node share the frame of a unit.
    pub fn is_shared(&self, unit: u32) -> bool {
        self.is_here(unit)
            && !self.moved.contains_key(&unit)
            && !self.is_updated(unit)
            && self.mates().len() > 1
    }

    /// The home of a unit is another rank.
    pub fn move_to(&mut self, unit: u32, rank: usize) {
        self.moved.insert(unit, rank);
    }

    /// Nodes of the ranks.
    pub fn nodes(&self) -> &[usize] {
        &self.nodes
    }

    /// Ranks of this node, in order.
    pub fn mates(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|rank| self.nodes[*rank] == self.nodes[self.me]).collect()
    }

    /// Whether this rank is the home of a unit.
    pub fn is_home(&self, unit: u32) -> bool {
        self.home_of(unit) == self.me
    }

    /// Whether the frame of the home of a unit is the one of this rank: the home is on this node, and the
    /// ranks of the node share it.
    pub fn is_here(&self, unit: u32) -> bool {
        if let Some(&home) = self.moved.get(&unit) {
            return home == self.me;
        }
        let home = self.homes.of(unit);
        home == self.me || (self.nodes[home] == self.nodes[self.me] && !self.is_updated(unit))
    }

    /// Runs of units, of so many, whose home is on this node.
    pub fn runs_here(&self, units: u32) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut first = 0;
        while first < units {
            let mut end = ((first / piece_units(first) + 1) * piece_units(first)).min(units);
            if first < self.updated_from {
                end = end.min(self.updated_from);
            }
            let count = end - first;
            match runs.last_mut() {
                _ if !self.is_here(first) => {}
                Some(run) if run.end() == first => run.count += count,
                _ => runs.push(Run { first, count }),
            }
            first += count;
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_runs_join_neighbours_and_name_each_once() {
        let mut units = vec![7, 3, 4, 9, 8, 4];
        let runs = runs_of(&mut units);
        assert_eq!(runs, [Run { first: 3, count: 2 }, Run { first: 7, count: 3 }]);
        assert!(runs_of(&mut Vec::new()).is_empty());
    }

    #[test]
    fn unit_homes_change_behind_each_run() {
        let homes = Homes::new(3);
        let of: Vec<_> = (0..5).map(|run| homes.of(run * HOME_UNITS)).collect();
        assert_eq!(of, [0, 1, 2, 0, 1]);
        assert_eq!(homes.of(HOME_UNITS - 1), 0);
        assert_eq!(homes.end_of(3), HOME_UNITS);
    }

    #[test]
    fn unit_home_that_moves_shares_no_frame() {
        let mut placement = Placement::new(1, &[0, 1, 1, 2]);
        let [first, shared, alone] = [0, HOME_UNITS, 3 * HOME_UNITS];
        assert!(placement.is_shared(shared) && !placement.is_shared(first));
        placement.move_to(first, 1);
        placement.move_to(alone, 2);
        assert!(!placement.is_shared(first), "a frame of this rank alone");
        placement.move_to(shared, 3);
        placement.move_to(shared, 1);
        assert!(placement.is_home(shared) && !placement.is_shared(shared), "so it stays when it comes back");
        assert!(placement.is_home(first) && placement.is_here(first) && !placement.is_home(first + 1));
        assert!(placement.home_of(alone) == 2 && !placement.is_here(alone), "a frame of its mate alone");
        let homes = [(3, 1), (4, 1), (5, 2), (7, 2)].into_iter().collect();
        let moves = moves_of(&homes);
        let named: Vec<(u32, u32, usize)> =
            moves.iter().map(|one| (one.run.first, one.run.count, one.rank)).collect();
        assert_eq!(named, [(3, 2, 1), (5, 1, 2), (7, 1, 2)]);
    }

    #[test]
    fn unit_large_pages_have_one_home_behind_the_first_pieces() {
        let homes = Homes::new(3);
        let unit = (LARGE_FROM_BYTES / UNIT_BYTES) as u32 + 700;
        let run = homes.large_around(unit);
        assert_eq!((run.first, run.count), (unit - 700 + 512, 512));
        assert!(run.units().all(|one| homes.of(one) == homes.of(unit)));
        assert_eq!(homes.large_around(17), Run { first: HOME_UNITS, count: HOME_UNITS });
    }

    #[test]
    fn unit_placement_names_exactly_the_units_of_a_node() {
        let placement = Placement::new(2, &[0, 1, 1, 0, 2]);
        assert_eq!(placement.mates(), [1, 2]);
        for units in [5, 40, 1 << 15, (1 << 15) + 700, (1 << 21) + 70_000] {
            let runs = placement.runs_here(units);
            let named: u64 = runs.iter().map(|run| u64::from(run.count)).sum();
            let expected = (0..units).filter(|unit| placement.is_here(*unit)).count();
            assert_eq!(named, expected as u64, "{units}");
            assert!(runs.iter().all(|run| run.units().all(|unit| placement.is_here(unit))));
            assert!(runs.len() < 4000, "{} pieces", runs.len());
        }
        assert!((0..200).filter(|unit| placement.is_home(*unit)).all(|unit| placement.is_here(unit)));
        let placement = placement.with_updates(37);
        let here = (0..200).filter(|unit| placement.is_here(*unit));
        let named: Vec<u32> = placement.runs_here(200).into_iter().flat_map(Run::units).collect();
        assert_eq!(here.collect::<Vec<_>>(), named);
        assert!(!placement.is_home(20) && placement.is_here(20) && !placement.is_here(5 * HOME_UNITS + 1));
    }
}
