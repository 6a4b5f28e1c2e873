//! Virtual topologies (MPI chapter 8): who is whose neighbour. Nothing here communicates.

use core::ffi::c_int;

use crate::abi::*;
use crate::error::{Result, check};

/// The topology of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A grid.
    Cart(Grid),
    /// A graph that everybody knows.
    Graph(Graph),
    /// A graph of which each process knows its own edges.
    DistGraph(Edges),
}

/// A grid of processes; ranks count the last dimension fastest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// Number of processes and whether the ends meet, for each dimension.
    pub dims: Vec<(c_int, bool)>,
}

/// A graph as MPI_Graph_create takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Where the neighbours of each node end.
    pub index: Vec<c_int>,
    /// All neighbours.
    pub edges: Vec<c_int>,
}

/// The edges of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// Neighbours that send to it, with weights.
    pub sources: Vec<(c_int, c_int)>,
    /// Neighbours that it sends to, with weights.
    pub destinations: Vec<(c_int, c_int)>,
    /// Whether the weights mean something.
    pub is_weighted: bool,
}

impl Topology {
    /// Whom the process of a rank receives from and sends to in neighbourhood collectives (8.6), in the
    /// standard's order. MPI_PROC_NULL stands beyond the ends of a grid, and where a distributed graph has
    /// it.
    pub fn neighbours(&self, rank: usize) -> (Vec<c_int>, Vec<c_int>) {
        match self {
            Topology::Cart(grid) => {
                let both = |dimension| {
                    let (source, destination) = grid.shift(rank, dimension, 1);
                    [source, destination]
                };
                let all: Vec<c_int> = (0..grid.dims.len()).flat_map(both).collect();
                (all.clone(), all)
            }
            Topology::Graph(graph) => (graph.neighbours(rank).to_vec(), graph.neighbours(rank).to_vec()),
            Topology::DistGraph(edges) => {
                let ranks = |list: &[(c_int, c_int)]| list.iter().map(|(rank, _)| *rank).collect();
                (ranks(&edges.sources), ranks(&edges.destinations))
            }
        }
    }
}

impl Grid {
    /// A grid with these arguments of a call.
    ///
    /// # Errors
    /// MPI_ERR_DIMS when a dimension has no process, or the grid more than `ranks`.
    pub fn new(dims: &[c_int], periods: &[c_int], ranks: usize) -> Result<Self> {
        for (i, &size) in dims.iter().enumerate() {
            check(size > 0, MPI_ERR_DIMS, || format!("dims[{i}] is {size}, expected 1 or more"))?;
        }
        let grid =
            Grid { dims: dims.iter().zip(periods).map(|(&size, &period)| (size, period != 0)).collect() };
        let places = dims.iter().fold(1_i64, |product, &size| product.saturating_mul(i64::from(size)));
        check(places <= ranks as i64, MPI_ERR_DIMS, || {
            format!("the grid has {places} places, but the communicator {ranks} processes")
        })?;
        Ok(grid)
    }

    /// How many processes stand in it.
    pub fn places(&self) -> usize {
        self.dims.iter().map(|(size, _)| *size as usize).product()
    }

    /// Where a rank stands.
    pub fn coordinates(&self, rank: usize) -> Vec<c_int> {
        let mut rest = rank;
        let mut coordinates: Vec<c_int> = self
            .dims
            .iter()
            .rev()
            .map(|&(size, _)| {
                let here = rest % size as usize;
                rest /= size as usize;
                here as c_int
            })
            .collect();
        coordinates.reverse();
        coordinates
    }

    /// Rank at these coordinates; none beyond an end.
    pub fn rank(&self, coordinates: &[i64]) -> Option<usize> {
        let mut rank = 0;
        for (&(size, is_periodic), &at) in self.dims.iter().zip(coordinates) {
            let size = i64::from(size);
            let at = if is_periodic { at.rem_euclid(size) } else { at };
            if !(0..size).contains(&at) {
                return None;
            }
            rank = rank * size as usize + at as usize;
        }
        Some(rank)
    }

    /// Source and destination of a rank, when everybody sends `disp` places along a dimension.
    pub fn shift(&self, rank: usize, dimension: usize, disp: c_int) -> (c_int, c_int) {
        let at = |distance: i64| {
            let mut coordinates: Vec<i64> = self.coordinates(rank).into_iter().map(i64::from).collect();
            coordinates[dimension] += distance;
            self.rank(&coordinates).map_or(MPI_PROC_NULL, |rank| rank as c_int)
        };
        (at(-i64::from(disp)), at(i64::from(disp)))
    }

    /// The grid of the dimensions kept, and for a rank: which of these grids it is in, and where in it.
    pub fn part(&self, rank: usize, kept: &[bool]) -> (Grid, usize, usize) {
        let (mut grid, mut color, mut key) = (Grid::default(), 0, 0);
        for ((&dimension, &at), &is_kept) in self.dims.iter().zip(&self.coordinates(rank)).zip(kept) {
            let (count, at) = (dimension.0 as usize, at as usize);
            if is_kept {
                grid.dims.push(dimension);
                key = key * count + at;
            } else {
                color = color * count + at;
            }
        }
        (grid, color, key)
    }
}

impl Graph {
    /// A graph with these arguments of a call.
    ///
    /// # Errors
    /// MPI_ERR_ARG when the index or an edge makes no sense.
    pub fn new(index: &[c_int], edges: &[c_int]) -> Result<Self> {
        let mut last = 0;
        for (i, &end) in index.iter().enumerate() {
            check(end >= last, MPI_ERR_ARG, || format!("index[{i}] is {end}, expected {last} or more"))?;
            last = end;
        }
        for (i, &edge) in edges.iter().enumerate() {
            check(edge >= 0 && (edge as usize) < index.len(), MPI_ERR_ARG, || {
                format!("edges[{i}] is {edge}, expected 0 to {}", index.len() as i64 - 1)
            })?;
        }
        Ok(Graph { index: index.to_vec(), edges: edges.to_vec() })
    }

    /// The neighbours of a node.
    pub fn neighbours(&self, node: usize) -> &[c_int] {
        let first = if node == 0 { 0 } else { self.index[node - 1] as usize };
        &self.edges[first..self.index[node] as usize]
    }
}

/// Fills the zeros of `dims` so that the product is `nodes`, as near to a cube as can be, the largest first
/// (8.5.2).
///
/// # Errors
/// MPI_ERR_DIMS when the dimensions given do not divide the number of nodes.
pub fn balance(nodes: c_int, dims: &mut [c_int]) -> Result<()> {
    check(nodes > 0, MPI_ERR_DIMS, || format!("nnodes is {nodes}, expected 1 or more"))?;
    let mut product = 1_i64;
    for (i, &size) in dims.iter().enumerate() {
        check(size >= 0, MPI_ERR_DIMS, || format!("dims[{i}] is {size}, expected 0 or more"))?;
        product = product.saturating_mul(i64::from(size.max(1)));
    }
    let free = dims.iter().filter(|&&size| size == 0).count();
    let fits = if free == 0 { product == i64::from(nodes) } else { i64::from(nodes) % product == 0 };
    check(fits, MPI_ERR_DIMS, || {
        format!("the dimensions given have {product} places, which does not fit {nodes} nodes")
    })?;
    if free == 0 {
        return Ok(());
    }
    let found = balanced_factors(i64::from(nodes) / product, free);
    for (place, factor) in dims.iter_mut().filter(|size| **size == 0).zip(found) {
        *place = factor as c_int;
    }
    Ok(())
}

/// `count` factors of a number in falling order: the first and the last as near to each other as can be, and
/// of several such choices the one whose first factor is the smallest, then the second ...
fn balanced_factors(number: i64, count: usize) -> Vec<i64> {
    let mut divisors: Vec<i64> = (1..).take_while(|d| d * d <= number).filter(|d| number % d == 0).collect();
    let large: Vec<i64> = divisors.iter().rev().map(|d| number / d).filter(|d| d * d > number).collect();
    divisors.extend(large);
    // Beside this one everything is balanced: its spread is larger than any.
    let (mut best, mut spread) = (Vec::new(), number);
    for &first in divisors.iter().filter(|&&first| power(first, count) >= number) {
        loop {
            let lowest = (first - spread + 1).max(1);
            if power(lowest, count - 1).saturating_mul(first) > number {
                return best;
            }
            let mut found = vec![first];
            if !extend(&divisors, number / first, count - 1, lowest, &mut found) {
                break;
            }
            spread = first - found[count - 1];
            best = found;
            if spread == 0 {
                return best;
            }
        }
    }
    best
}

/// Adds `count` factors of a number, none above the last of `found` or below `lowest`; the first as small as
/// can be, then the second ...
fn extend(divisors: &[i64], number: i64, count: usize, lowest: i64, found: &mut Vec<i64>) -> bool {
    if count == 0 {
        return number == 1;
    }
    let limit = found[found.len() - 1];
    for &factor in divisors.iter().filter(|&&factor| lowest <= factor && factor <= limit) {
        if power(lowest, count - 1).saturating_mul(factor) > number {
            return false;
        }
        if number % factor == 0 && power(factor, count) >= number {
            found.push(factor);
            if extend(divisors, number / factor, count - 1, lowest, found) {
                return true;
            }
            found.pop();
        }
    }
    false
}

/// A power, or the largest number.
fn power(base: i64, exponent: usize) -> i64 {
    base.saturating_pow(exponent as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cart_ranks_and_coordinates_are_inverse() {
        let grid = Grid::new(&[2, 3, 4], &[0, 1, 0], 24).unwrap();
        for rank in 0..24 {
            let coordinates: Vec<i64> = grid.coordinates(rank).into_iter().map(i64::from).collect();
            assert_eq!(grid.rank(&coordinates), Some(rank));
        }
        assert_eq!(grid.coordinates(17), [1, 1, 1]);
        assert_eq!(grid.rank(&[1, -2, 1]), Some(17), "the second dimension is periodic");
        assert_eq!(grid.rank(&[2, 0, 0]), None);
        assert_eq!(grid.shift(17, 0, 1), (5, MPI_PROC_NULL));
        assert_eq!(grid.shift(17, 1, 2), (21, 13));
        assert_eq!(grid.shift(17, 1, c_int::MIN), (13, 21));
    }

    #[test]
    fn cart_of_no_dimension_has_one_rank() {
        let grid = Grid::new(&[], &[], 1).unwrap();
        assert_eq!((grid.places(), grid.coordinates(0), grid.rank(&[])), (1, vec![], Some(0)));
    }

    #[test]
    fn cart_sub_keeps_the_order() {
        let grid = Grid::new(&[2, 3, 4], &[0, 1, 0], 24).unwrap();
        let (part, color, key) = grid.part(17, &[false, true, true]);
        assert_eq!((part.dims, color, key), (vec![(3, true), (4, false)], 1, 5));
    }

    #[test]
    fn dims_create_is_balanced() {
        let balanced = |nodes, dims: &[c_int]| {
            let mut dims = dims.to_vec();
            balance(nodes, &mut dims).map(|()| dims)
        };
        assert_eq!(balanced(6, &[0, 0]).unwrap(), [3, 2]);
        assert_eq!(balanced(7, &[0, 0]).unwrap(), [7, 1]);
        assert_eq!(balanced(6, &[0, 3, 0]).unwrap(), [2, 3, 1]);
        assert_eq!(balanced(64, &[0, 0, 0]).unwrap(), [4, 4, 4]);
        assert_eq!(balanced(60, &[0, 0, 0]).unwrap(), [5, 4, 3]);
        assert_eq!(balanced(1, &[0, 0]).unwrap(), [1, 1]);
        assert_eq!(balanced(12, &[3, 4]).unwrap(), [3, 4]);
        assert_eq!(balanced(7, &[0, 3]).unwrap_err().class, MPI_ERR_DIMS);
        assert_eq!(balanced(12, &[3, 3]).unwrap_err().class, MPI_ERR_DIMS);
        assert_eq!(balanced(0, &[0]).unwrap_err().class, MPI_ERR_DIMS);
        assert_eq!(balanced(4, &[-1]).unwrap_err().class, MPI_ERR_DIMS);
        assert_eq!(balanced(72, &[0, 0, 0]).unwrap(), [6, 4, 3]);
        assert_eq!(balanced(c_int::MAX - 1, &[0; 30]).unwrap()[..7], [331, 151, 31, 11, 7, 3, 3]);
        assert_eq!(balanced(1 << 30, &[0; 31]).unwrap()[29..], [2, 1]);
        assert_eq!(balanced(c_int::MAX, &[0, 0, 0]).unwrap(), [c_int::MAX, 1, 1]);
    }

    #[test]
    fn topology_neighbors_are_in_standard_order() {
        let grid = Topology::Cart(Grid::new(&[3, 2], &[1, 0], 6).unwrap());
        assert_eq!(grid.neighbours(0).0, [4, 2, MPI_PROC_NULL, 1]);
        let graph = Topology::Graph(Graph::new(&[2, 3, 3], &[1, 2, 0]).unwrap());
        assert_eq!(graph.neighbours(0).1, [1, 2]);
        assert!(graph.neighbours(2).1.is_empty());
        assert_eq!(Graph::new(&[2, 1], &[0]).unwrap_err().class, MPI_ERR_ARG);
        assert_eq!(Graph::new(&[1], &[1]).unwrap_err().class, MPI_ERR_ARG);
    }

    /// All ways to write a number as so many factors in falling order.
    fn factorings(number: i64, count: usize, limit: i64) -> Vec<Vec<i64>> {
        if count == 0 {
            return if number == 1 { vec![Vec::new()] } else { Vec::new() };
        }
        let firsts = (1..=limit.min(number)).rev().filter(|first| number % first == 0);
        firsts
            .flat_map(|first| {
                let rests = factorings(number / first, count - 1, first);
                rests.into_iter().map(move |rest| [&[first], &rest[..]].concat())
            })
            .collect()
    }

    #[test]
    fn dims_create_is_as_balanced_as_brute_force() {
        for number in 1..=600 {
            for count in 1..=5 {
                let best = factorings(number, count, number)
                    .into_iter()
                    .min_by_key(|found| (found[0] - found[count - 1], found.clone()))
                    .expect("a number has factors");
                let mut dims = vec![0; count];
                balance(number as c_int, &mut dims).unwrap();
                let dims: Vec<i64> = dims.into_iter().map(i64::from).collect();
                assert_eq!(dims, best, "{number} in {count} dimensions");
                // Beside a dimension that is given the others are as balanced.
                let mut given = vec![0; count + 1];
                given[count / 2] = 3;
                balance(3 * number as c_int, &mut given).unwrap();
                given.remove(count / 2);
                assert_eq!(given.into_iter().map(i64::from).collect::<Vec<_>>(), best);
            }
        }
    }
}
