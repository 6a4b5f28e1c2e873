//! MPI chapter 8: virtual topologies.

use core::ffi::c_int;

use crate::abi::*;
use crate::argument::{array, fill};
use crate::comm::Comms;
use crate::comm::HasComms;
use crate::comm::calls;
use crate::comm::{Edges, Graph, Grid, Topology, balance};
use crate::error::{Error, Result, check};
use crate::info;
use crate::progress::Progress;

/// Whether there is room for all.
fn check_room(room: c_int, needed: usize, name: &str) -> Result<()> {
    check(room >= 0 && room as usize >= needed, MPI_ERR_ARG, || {
        format!("{name} is {room}, expected {needed} or more")
    })
}

/// Which kind of topology.
pub(super) fn kind(comms: &Comms, comm: MPI_Comm) -> Result<c_int> {
    Ok(match comms.find(comm)?.topology.as_deref() {
        None => MPI_UNDEFINED,
        Some(Topology::Cart(_)) => MPI_CART,
        Some(Topology::Graph(_)) => MPI_GRAPH,
        Some(Topology::DistGraph(_)) => MPI_DIST_GRAPH,
    })
}

pub(super) fn create_grid(
    call: &mut (impl Progress + HasComms),
    comm: MPI_Comm,
    dims: &[c_int],
    periods: &[c_int],
) -> Result<MPI_Comm> {
    let grid = Grid::new(dims, periods, call.comms().intracomm(comm)?.size())?;
    calls::arrange(call, comm, grid.places(), Topology::Cart(grid))
}

/// Balanced dimensions.
pub(super) fn balanced(nodes: c_int, dims: &[c_int]) -> Result<Vec<c_int>> {
    let mut filled = dims.to_vec();
    balance(nodes, &mut filled)?;
    Ok(filled)
}

/// The rank that this process would have in a grid.
pub(super) fn place_in_grid(
    comms: &Comms,
    comm: MPI_Comm,
    dims: &[c_int],
    periods: &[c_int],
) -> Result<c_int> {
    let places = Grid::new(dims, periods, comms.intracomm(comm)?.size())?.places();
    let rank = comms.find(comm)?.rank;
    Ok(if rank < places { rank as c_int } else { MPI_UNDEFINED })
}

/// How many dimensions.
pub(super) fn dimensions(comms: &Comms, comm: MPI_Comm) -> Result<usize> {
    Ok(comms.grid(comm)?.dims.len())
}

/// The sizes of a grid, whether they are periodic, and the coordinates of this process.
pub(super) fn grid(
    comms: &Comms,
    comm: MPI_Comm,
    room: c_int,
) -> Result<(Vec<c_int>, Vec<c_int>, Vec<c_int>)> {
    let grid = comms.grid(comm)?;
    check_room(room, grid.dims.len(), "maxdims")?;
    let (sizes, periods) = grid.dims.iter().map(|&(size, period)| (size, c_int::from(period))).unzip();
    Ok((sizes, periods, grid.coordinates(comms.find(comm)?.rank)))
}

/// The rank at these coordinates.
///
/// # Safety
/// `coords` is null or has as many numbers as the grid has dimensions.
pub(super) unsafe fn rank_at(comms: &Comms, comm: MPI_Comm, coords: *const c_int) -> Result<usize> {
    let grid = comms.grid(comm)?;
    // SAFETY: our contract.
    let at = unsafe { array(coords, grid.dims.len() as c_int, "coords") }?;
    let wide: Vec<i64> = at.iter().copied().map(i64::from).collect();
    grid.rank(&wide).ok_or_else(|| {
        Error::new(MPI_ERR_ARG, format_args!("coords is {at:?}, which is outside of the grid"))
    })
}

/// Where a rank stands.
pub(super) fn coordinates(comms: &Comms, comm: MPI_Comm, rank: c_int, room: c_int) -> Result<Vec<c_int>> {
    let grid = comms.grid(comm)?;
    let rank = comms.checked_member(comm, rank)?;
    check_room(room, grid.dims.len(), "maxdims")?;
    Ok(grid.coordinates(rank))
}

/// The partners of a shift: source and destination.
pub(super) fn shift(
    comms: &Comms,
    comm: MPI_Comm,
    direction: c_int,
    distance: c_int,
) -> Result<(c_int, c_int)> {
    let grid = comms.grid(comm)?;
    check(direction >= 0 && (direction as usize) < grid.dims.len(), MPI_ERR_ARG, || {
        format!("direction is {direction}, expected 0 to {}", grid.dims.len() as i64 - 1)
    })?;
    Ok(grid.shift(comms.find(comm)?.rank, direction as usize, distance))
}

/// The part of a grid that has this process and some of the dimensions.
///
/// # Safety
/// `remain` is null or has as many numbers as the grid has dimensions.
pub(super) unsafe fn part_of_grid(
    call: &mut (impl Progress + HasComms),
    comm: MPI_Comm,
    remain: *const c_int,
) -> Result<MPI_Comm> {
    call.comms().intracomm(comm)?;
    let dimensions = call.comms().grid(comm)?.dims.len();
    // SAFETY: our contract.
    let kept = unsafe { array(remain, dimensions as c_int, "remain_dims") }?;
    let kept: Vec<bool> = kept.iter().map(|&keep| keep != 0).collect();
    calls::part_of_grid(call, comm, &kept)
}

/// The graph that a call describes.
unsafe fn graph_argument(
    comms: &Comms,
    comm: MPI_Comm,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
) -> Result<Graph> {
    let size = comms.intracomm(comm)?.size();
    check(nnodes >= 0 && nnodes as usize <= size, MPI_ERR_ARG, || {
        format!("nnodes is {nnodes}, expected 0 to {size}")
    })?;
    // SAFETY: the user gives an array of nnodes numbers, the last of which is the length of the other.
    unsafe {
        let index = array(index, nnodes, "index")?;
        Graph::new(index, array(edges, index.last().copied().unwrap_or(0), "edges")?)
    }
}

/// A graph that every process describes in full.
///
/// # Safety
/// `index` has `nodes` numbers, the last of which is the length of `edges`.
pub(super) unsafe fn create_graph(
    call: &mut (impl Progress + HasComms),
    comm: MPI_Comm,
    nodes: c_int,
    index: *const c_int,
    edges: *const c_int,
) -> Result<MPI_Comm> {
    // SAFETY: our contract.
    let graph = unsafe { graph_argument(call.comms(), comm, nodes, index, edges) }?;
    calls::arrange(call, comm, nodes as usize, Topology::Graph(graph))
}

/// The rank that this process would have in a graph.
///
/// # Safety
/// As [`create_graph`].
pub(super) unsafe fn place_in_graph(
    call: &impl HasComms,
    comm: MPI_Comm,
    nodes: c_int,
    index: *const c_int,
    edges: *const c_int,
) -> Result<c_int> {
    // SAFETY: our contract.
    unsafe { graph_argument(call.comms(), comm, nodes, index, edges) }?;
    let rank = call.comms().find(comm)?.rank as c_int;
    Ok(if rank < nodes { rank } else { MPI_UNDEFINED })
}

/// How many nodes and edges.
pub(super) fn graph_sizes(comms: &Comms, comm: MPI_Comm) -> Result<(usize, usize)> {
    let graph = comms.graph(comm)?;
    Ok((graph.index.len(), graph.edges.len()))
}

/// The graph: index and edges.
pub(super) fn graph(comms: &Comms, comm: MPI_Comm) -> Result<(Vec<c_int>, Vec<c_int>)> {
    let graph = comms.graph(comm)?;
    Ok((graph.index.to_vec(), graph.edges.to_vec()))
}

/// How many neighbours a node has.
pub(super) fn neighbours_in_graph(comms: &Comms, comm: MPI_Comm, rank: c_int) -> Result<usize> {
    Ok(comms.graph(comm)?.neighbours(comms.checked_member(comm, rank)?).len())
}

/// The neighbours of a node.
pub(super) fn graph_neighbours(comms: &Comms, comm: MPI_Comm, rank: c_int) -> Result<Vec<c_int>> {
    Ok(comms.graph(comm)?.neighbours(comms.checked_member(comm, rank)?).to_vec())
}

/// Ranks with their weights, which are 1 where the user gives none.
unsafe fn weighted(
    comms: &Comms,
    comm: MPI_Comm,
    degree: c_int,
    ranks: *const c_int,
    weights: *const c_int,
    name: &str,
) -> Result<Vec<(c_int, c_int)>> {
    // SAFETY: the user gives an array of this many ranks.
    let ranks = unsafe { array(ranks, degree, name) }?;
    check_ends(comms, comm, ranks, name)?;
    if is_unweighted(weights) {
        return Ok(ranks.iter().map(|&rank| (rank, 1)).collect());
    }
    // SAFETY: the user gives as many weights.
    let weights = unsafe { weight_array(weights, degree) }?;
    Ok(ranks.iter().copied().zip(weights.iter().copied()).collect())
}

/// Checks the ends of edges. A neighbour may be MPI_PROC_NULL, as any source or destination of a call (3.10):
/// it has its place in the buffers of neighbourhood collectives, which nothing comes to or goes from.
fn check_ends(comms: &Comms, comm: MPI_Comm, ranks: &[c_int], name: &str) -> Result<()> {
    for (i, &rank) in ranks.iter().enumerate().filter(|(_, rank)| **rank != MPI_PROC_NULL) {
        comms.checked_member(comm, rank).map_err(|error| {
            Error::new(error.class, format_args!("{name}[{i}]: {} or MPI_PROC_NULL", error.text))
        })?;
    }
    Ok(())
}

unsafe fn weight_array<'a>(weights: *const c_int, count: c_int) -> Result<&'a [c_int]> {
    if weights == MPI_WEIGHTS_EMPTY.cast_const() {
        check(count == 0, MPI_ERR_ARG, || {
            format!("the weights are MPI_WEIGHTS_EMPTY, but there are {count} edges")
        })?;
        return Ok(&[]);
    }
    // SAFETY: as the caller's.
    let weights = unsafe { array(weights, count, "the weights") }?;
    for (i, &weight) in weights.iter().enumerate() {
        check(weight >= 0, MPI_ERR_ARG, || format!("weight {i} is {weight}, expected 0 or more"))?;
    }
    Ok(weights)
}

fn is_unweighted(weights: *const c_int) -> bool {
    weights == MPI_UNWEIGHTED.cast_const()
}

/// A graph of which each process describes its own edges.
///
/// # Safety
/// The arrays have as many numbers as their degrees say.
pub(super) unsafe fn create_adjacent(
    call: &mut (impl Progress + HasComms),
    comm: MPI_Comm,
    indegree: c_int,
    sources: *const c_int,
    source_weights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destination_weights: *const c_int,
    info: MPI_Info,
) -> Result<MPI_Comm> {
    let size = call.comms().intracomm(comm)?.size();
    info::hints(info)?;
    // SAFETY: our contract.
    let (sources, destinations) = unsafe {
        (
            weighted(call.comms(), comm, indegree, sources, source_weights, "sources")?,
            weighted(call.comms(), comm, outdegree, destinations, destination_weights, "destinations")?,
        )
    };
    let is_weighted = !is_unweighted(source_weights) && !is_unweighted(destination_weights);
    calls::arrange(call, comm, size, Topology::DistGraph(Edges { sources, destinations, is_weighted }))
}

/// A graph of which each process describes any edges.
///
/// # Safety
/// `destinations` and `weights` have as many numbers as all degrees together.
pub(super) unsafe fn create_dist_graph(
    call: &mut (impl Progress + HasComms),
    comm: MPI_Comm,
    sources: &[c_int],
    degrees: &[c_int],
    destinations: *const c_int,
    weights: *const c_int,
    info: MPI_Info,
) -> Result<MPI_Comm> {
    let size = call.comms().intracomm(comm)?.size();
    info::hints(info)?;
    check_ends(call.comms(), comm, sources, "sources")?;
    for (i, &degree) in degrees.iter().enumerate() {
        check(degree >= 0, MPI_ERR_ARG, || format!("degrees[{i}] is {degree}, expected 0 or more"))?;
    }
    let total = degrees.iter().try_fold(0_i32, |sum, &degree| sum.checked_add(degree));
    let total = total.ok_or_else(|| Error::new(MPI_ERR_ARG, "the degrees have a sum above 2147483647"))?;
    // SAFETY: our contract.
    let ends = unsafe { weighted(call.comms(), comm, total, destinations, weights, "destinations") }?;
    let starts = sources.iter().zip(degrees).flat_map(|(&from, &degree)| (0..degree).map(move |_| from));
    let named: Vec<[c_int; 3]> = starts.zip(ends).map(|(from, (to, weight))| [from, to, weight]).collect();
    let edges = calls::distribute_edges(call, comm, &named, !is_unweighted(weights))?;
    calls::arrange(call, comm, size, Topology::DistGraph(edges))
}

/// How many neighbours this process has, in and out, and whether they have weights.
pub(super) fn degrees(comms: &Comms, comm: MPI_Comm) -> Result<(usize, usize, bool)> {
    let edges = comms.edges(comm)?;
    Ok((edges.sources.len(), edges.destinations.len(), edges.is_weighted))
}

/// The neighbours of this process.
///
/// # Safety
/// The arrays have the room that is given.
pub(super) unsafe fn put_neighbours(
    comms: &Comms,
    comm: MPI_Comm,
    indegree: c_int,
    sources: *mut c_int,
    source_weights: *mut c_int,
    outdegree: c_int,
    destinations: *mut c_int,
    destination_weights: *mut c_int,
) -> Result<()> {
    let edges = comms.edges(comm)?;
    // SAFETY: our contract.
    unsafe {
        put_edges(edges, &edges.sources, indegree, sources, source_weights, "sources")?;
        put_edges(edges, &edges.destinations, outdegree, destinations, destination_weights, "destinations")
    }
}

unsafe fn put_edges(
    edges: &Edges,
    list: &[(c_int, c_int)],
    room: c_int,
    ranks: *mut c_int,
    weights: *mut c_int,
    name: &str,
) -> Result<()> {
    // SAFETY: as the caller's.
    unsafe {
        fill(ranks, room, list.iter().map(|(rank, _)| *rank), name)?;
        if edges.is_weighted && !is_unweighted(weights) && weights != MPI_WEIGHTS_EMPTY {
            fill(weights, room, list.iter().map(|(_, weight)| *weight), "the weights")?;
        }
    }
    Ok(())
}
