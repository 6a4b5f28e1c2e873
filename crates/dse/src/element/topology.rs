//! Topologies: which elements are neighbours, and the way from one to another. An element reaches itself and
//! its neighbours. What is for others is refused; or, where the topology routes, forwarded
//! ([`crate::element::relay`]) from neighbour to neighbour along [`next_hop`].

use core::ffi::c_int;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::element::{Elements, running};
use crate::fault::{Code, refuse};

/// A topology of so many elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Each is connected to each.
    Full,
    /// To the one before and the one behind.
    Ring,
    /// To element 0.
    Star,
    /// A binary tree: the parent of `n` is `(n - 1) / 2`.
    Tree,
    /// Numbers that differ in one bit.
    Hypercube,
    /// Rows of so many columns.
    Mesh(usize),
    /// The same, with the ends of rows and columns connected.
    Torus(usize),
}

/// Choice of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Topology: which elements are neighbours.
    pub topology: Topology,
    /// Whether messages for others are forwarded.
    pub routes: bool,
}

/// How an element is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The topology connects the two.
    Direct,
    /// By way of others.
    Forwarded,
}

/// With this bit a topology routes.
const ROUTES: c_int = 16;

const FULL: Choice = Choice { topology: Topology::Full, routes: false };
static CHOSEN: Mutex<Choice> = Mutex::new(FULL);

fn chosen() -> Choice {
    *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Topology {
    /// The topology of a number in `tutti_dse.h`, or why there is none.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of(kind: c_int, columns: c_int, count: usize) -> Result<Topology, String> {
        let columns = usize::try_from(columns).unwrap_or(0);
        match kind {
            0 => Ok(Topology::Full),
            1 => Ok(Topology::Ring),
            2 => Ok(Topology::Star),
            3 => Ok(Topology::Tree),
            4 if count.is_power_of_two() => Ok(Topology::Hypercube),
            4 => Err(format!("a hypercube has a power of two of elements, not {count}")),
            5 | 6 if columns == 0 || !count.is_multiple_of(columns) => {
                Err(format!("{count} elements make no rows of {columns} columns"))
            }
            5 => Ok(Topology::Mesh(columns)),
            6 => Ok(Topology::Torus(columns)),
            _ => Err(format!("there is no topology {kind}, topologies are 0 to 6")),
        }
    }

    /// Whether two different elements of so many are connected.
    pub fn connects(self, a: usize, b: usize, count: usize) -> bool {
        let (low, high) = (a.min(b), a.max(b));
        if low == high {
            return false;
        }
        let near = |x: usize, y: usize| x.abs_diff(y) == 1;
        let near_round = |x: usize, y: usize, n: usize| near(x, y) || x.abs_diff(y) == n - 1;
        match self {
            Topology::Full => true,
            Topology::Ring => near_round(low, high, count),
            Topology::Star => low == 0,
            Topology::Tree => (high - 1) / 2 == low,
            Topology::Hypercube => (a ^ b).is_power_of_two(),
            Topology::Mesh(columns) | Topology::Torus(columns) => {
                let ((row_a, column_a), (row_b, column_b)) =
                    ((a / columns, a % columns), (b / columns, b % columns));
                let is_torus = matches!(self, Topology::Torus(_));
                let is_near = |x, y, n| if is_torus { near_round(x, y, n) } else { near(x, y) };
                (row_a == row_b && is_near(column_a, column_b, columns))
                    || (column_a == column_b && is_near(row_a, row_b, count / columns))
            }
        }
    }

    /// The neighbour of `from` on a shortest way to `to`, and the length of the way.
    pub fn way(self, from: usize, to: usize, count: usize) -> (usize, usize) {
        if from == to {
            return (from, 0);
        }
        // Distances from the end; every topology is connected.
        let mut hops = vec![usize::MAX; count];
        hops[to] = 0;
        let mut open = VecDeque::from([to]);
        while let Some(here) = open.pop_front() {
            for other in (0..count).filter(|other| self.connects(here, *other, count)) {
                if hops[other] == usize::MAX {
                    hops[other] = hops[here] + 1;
                    open.push_back(other);
                }
            }
        }
        let neighbours = (0..count).filter(|other| self.connects(from, *other, count));
        (neighbours.min_by_key(|other| hops[*other]).unwrap_or(to), hops[from])
    }
}

/// The choice of these numbers in `tutti_dse.h`.
pub fn choice(kind: c_int, columns: c_int, elements: &Elements) -> Result<Choice, Code> {
    let topology = Topology::of(kind & !ROUTES, columns, elements.count)
        .map_err(|what| refuse(Code::Invalid, "topology", format_args!("{what}")))?;
    Ok(Choice { topology, routes: kind & ROUTES != 0 })
}

/// From now on this holds.
pub(crate) fn set(choice: Choice) {
    *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) = choice;
}

/// The elements have ended.
pub(crate) fn forget() {
    set(FULL);
}

/// The neighbour to whom an element hands what is for another.
pub(crate) fn next_of(elements: &Elements, to: usize) -> usize {
    chosen().topology.way(elements.me, to, elements.count).0
}

/// How an element is reached; refused where the topology does not connect the two and does not route.
pub fn check(function: &'static str, elements: &Elements, there: usize) -> Result<Way, Code> {
    let Choice { topology, routes } = chosen();
    if topology == Topology::Full
        || there == elements.me
        || topology.connects(elements.me, there, elements.count)
    {
        return Ok(Way::Direct);
    }
    if routes {
        return Ok(Way::Forwarded);
    }
    let (me, (next, hops)) = (elements.me, topology.way(elements.me, there, elements.count));
    Err(refuse(
        Code::NotANeighbour,
        function,
        format_args!("element {there} is no neighbour of element {me}: {hops} hops away, by way of {next}"),
    ))
}

/// The neighbour on a shortest way to an element, and the length of the way.
pub fn next_hop(to: c_int) -> Result<(c_int, c_int), Code> {
    let elements = running("next_hop")?;
    let to = elements.index("next_hop", to)?;
    let (next, hops) = chosen().topology.way(elements.me, to, elements.count);
    Ok((next as c_int, hops as c_int))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hops(topology: Topology, from: usize, count: usize) -> Vec<usize> {
        (0..count).map(|to| topology.way(from, to, count).1).collect()
    }

    #[test]
    fn topology_ways_have_the_known_lengths() {
        assert_eq!(hops(Topology::Full, 1, 4), [1, 0, 1, 1]);
        assert_eq!(hops(Topology::Ring, 0, 6), [0, 1, 2, 3, 2, 1]);
        assert_eq!(hops(Topology::Star, 2, 4), [1, 2, 0, 2]);
        assert_eq!(hops(Topology::Tree, 3, 7), [2, 1, 3, 0, 2, 4, 4]);
        assert_eq!(hops(Topology::Hypercube, 0, 8), [0, 1, 1, 2, 1, 2, 2, 3]);
        assert_eq!(hops(Topology::Mesh(3), 0, 6), [0, 1, 2, 1, 2, 3]);
        assert_eq!(hops(Topology::Torus(3), 0, 9), [0, 1, 1, 1, 2, 2, 1, 2, 2]);
    }

    // Paper: D9
    #[test]
    fn topology_ways_lead_from_neighbour_to_neighbour() {
        for topology in
            [Topology::Ring, Topology::Star, Topology::Tree, Topology::Mesh(4), Topology::Torus(2)]
        {
            for (from, to) in (0..8).flat_map(|from| (0..8).map(move |to| (from, to))) {
                let (next, length) = topology.way(from, to, 8);
                assert!(from == to || topology.connects(from, next, 8));
                assert!(from == to || topology.way(next, to, 8).1 == length - 1);
            }
        }
    }

    #[test]
    fn topology_of_a_wrong_size_is_refused() {
        assert!(Topology::of(4, 0, 6).is_err());
        assert!(Topology::of(5, 4, 6).is_err());
        assert!(Topology::of(6, -1, 6).is_err());
        assert!(Topology::of(7, 0, 6).is_err());
        assert_eq!(Topology::of(5, 3, 6), Ok(Topology::Mesh(3)));
    }
}
