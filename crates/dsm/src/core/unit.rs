//! Units of coherence: pages of the arena, numbered from its first byte on.

/// Bytes of a unit.
pub const UNIT_BYTES: usize = 4096;

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

/// Which node is the home of a unit: a function of the address alone.
#[derive(Clone, Copy, Debug)]
pub struct Homes {
    nodes: u32,
}

impl Homes {
    /// Homes on so many nodes.
    pub fn new(nodes: usize) -> Self {
        assert!(nodes > 0, "memory has a home");
        Homes { nodes: nodes as u32 }
    }

    /// The home of a unit.
    pub fn of(self, unit: u32) -> usize {
        (unit / HOME_UNITS % self.nodes) as usize
    }

    /// The first unit behind `unit` that has another home, if there are others.
    pub fn end_of(self, unit: u32) -> u32 {
        (unit / HOME_UNITS + 1) * HOME_UNITS
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
}
