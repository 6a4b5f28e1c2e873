//! MPI chapter 8: virtual topologies.

use core::ffi::{CStr, c_int};

use crate::abi::*;
use crate::argument::{array, put};
use crate::comm::{Edges, Graph, Grid, Topology, balance};
use crate::errhandler::call;
use crate::error::{Error, Result, check};
use crate::info;
use crate::process::Guard;

/// Runs a call that makes a communicator with a topology.
#[inline(always)]
unsafe fn make(
    name: &'static CStr,
    parent: MPI_Comm,
    newcomm: *mut MPI_Comm,
    body: impl FnOnce(&mut Guard) -> Result<MPI_Comm>,
) -> c_int {
    call(name, parent, |guard| {
        guard.intracomm(parent)?;
        check(!newcomm.is_null(), MPI_ERR_ARG, || "newcomm is a null pointer".into())?;
        let made = body(guard)?;
        // SAFETY: the user gives a place for the communicator.
        unsafe { put(newcomm, "newcomm", made) }
    })
}

/// Writes as many values as there is room for.
unsafe fn fill(
    values: impl ExactSizeIterator<Item = c_int>,
    to: *mut c_int,
    room: c_int,
    name: &str,
) -> Result<()> {
    check(room >= 0, MPI_ERR_ARG, || format!("the room for {name} is {room}, expected 0 or more"))?;
    let count = values.len().min(room as usize);
    check(!to.is_null() || count == 0, MPI_ERR_ARG, || format!("{name} is a null pointer"))?;
    for (i, value) in values.take(count).enumerate() {
        // SAFETY: the user gives this much room.
        unsafe { to.add(i).write(value) };
    }
    Ok(())
}

/// Whether there is room for all.
fn check_room(room: c_int, needed: usize, name: &str) -> Result<()> {
    check(room >= 0 && room as usize >= needed, MPI_ERR_ARG, || {
        format!("{name} is {room}, expected {needed} or more")
    })
}

/// Which kind of topology (8.5.5).
#[inline]
pub unsafe fn MPI_Topo_test(comm: MPI_Comm, status: *mut c_int) -> c_int {
    call(c"MPI_Topo_test", comm, |guard| {
        let kind = match guard.comm(comm)?.topology.as_deref() {
            None => MPI_UNDEFINED,
            Some(Topology::Cart(_)) => MPI_CART,
            Some(Topology::Graph(_)) => MPI_GRAPH,
            Some(Topology::DistGraph(_)) => MPI_DIST_GRAPH,
        };
        // SAFETY: the user gives a place for the kind.
        unsafe { put(status, "status", kind) }
    })
}

/// The grid that a call describes.
unsafe fn grid_argument(
    guard: &Guard,
    comm: MPI_Comm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
) -> Result<Grid> {
    // SAFETY: the user gives two arrays of ndims numbers.
    let (dims, periods) = unsafe { (array(dims, ndims, "dims")?, array(periods, ndims, "periods")?) };
    Grid::new(dims, periods, guard.intracomm(comm)?.size())
}

/// A grid (8.5.1).
#[inline]
pub unsafe fn MPI_Cart_create(
    comm_old: MPI_Comm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    _reorder: c_int,
    comm_cart: *mut MPI_Comm,
) -> c_int {
    let body = |guard: &mut Guard| {
        // SAFETY: as the user's.
        let grid = unsafe { grid_argument(guard, comm_old, ndims, dims, periods) }?;
        guard.arrange(comm_old, grid.places(), Topology::Cart(grid))
    };
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Cart_create", comm_old, comm_cart, body) }
}

/// Balanced dimensions (8.5.2).
#[inline]
pub unsafe fn MPI_Dims_create(nnodes: c_int, ndims: c_int, dims: *mut c_int) -> c_int {
    call(c"MPI_Dims_create", MPI_COMM_SELF, |_| {
        // SAFETY: the user gives an array of ndims numbers.
        let mut filled = unsafe { array(dims.cast_const(), ndims, "dims") }?.to_vec();
        balance(nnodes, &mut filled)?;
        // SAFETY: as above.
        unsafe { fill(filled.into_iter(), dims, ndims, "dims") }
    })
}

/// The rank that this process would have in a grid (8.5.8).
#[inline]
pub unsafe fn MPI_Cart_map(
    comm: MPI_Comm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    newrank: *mut c_int,
) -> c_int {
    call(c"MPI_Cart_map", comm, |guard| {
        // SAFETY: as the user's.
        let places = unsafe { grid_argument(guard, comm, ndims, dims, periods) }?.places();
        let rank = guard.comm(comm)?.rank;
        // SAFETY: the user gives a place for the rank.
        unsafe { put(newrank, "newrank", if rank < places { rank as c_int } else { MPI_UNDEFINED }) }
    })
}

/// How many dimensions (8.5.5).
#[inline]
pub unsafe fn MPI_Cartdim_get(comm: MPI_Comm, ndims: *mut c_int) -> c_int {
    call(c"MPI_Cartdim_get", comm, |guard| {
        let count = guard.grid(comm)?.dims.len();
        // SAFETY: the user gives a place for the count.
        unsafe { put(ndims, "ndims", count as c_int) }
    })
}

/// The grid, and where this process stands (8.5.5).
#[inline]
pub unsafe fn MPI_Cart_get(
    comm: MPI_Comm,
    maxdims: c_int,
    dims: *mut c_int,
    periods: *mut c_int,
    coords: *mut c_int,
) -> c_int {
    call(c"MPI_Cart_get", comm, |guard| {
        let grid = guard.grid(comm)?;
        check_room(maxdims, grid.dims.len(), "maxdims")?;
        // SAFETY: the user gives three arrays of maxdims numbers.
        unsafe {
            fill(grid.dims.iter().map(|(size, _)| *size), dims, maxdims, "dims")?;
            fill(grid.dims.iter().map(|(_, period)| c_int::from(*period)), periods, maxdims, "periods")?;
            fill(grid.coordinates(guard.comm(comm)?.rank).into_iter(), coords, maxdims, "coords")
        }
    })
}

/// Who stands at these coordinates (8.5.5).
#[inline]
pub unsafe fn MPI_Cart_rank(comm: MPI_Comm, coords: *const c_int, rank: *mut c_int) -> c_int {
    call(c"MPI_Cart_rank", comm, |guard| {
        let grid = guard.grid(comm)?;
        // SAFETY: the user gives an array of as many numbers as the grid has dimensions.
        let at = unsafe { array(coords, grid.dims.len() as c_int, "coords") }?;
        let wide: Vec<i64> = at.iter().copied().map(i64::from).collect();
        let found = grid.rank(&wide).ok_or_else(|| {
            Error::new(MPI_ERR_ARG, format_args!("coords is {at:?}, which is outside of the grid"))
        })?;
        // SAFETY: the user gives a place for the rank.
        unsafe { put(rank, "rank", found as c_int) }
    })
}

/// Where a rank stands (8.5.5).
#[inline]
pub unsafe fn MPI_Cart_coords(comm: MPI_Comm, rank: c_int, maxdims: c_int, coords: *mut c_int) -> c_int {
    call(c"MPI_Cart_coords", comm, |guard| {
        let grid = guard.grid(comm)?;
        let rank = guard.checked_member(comm, rank)?;
        check_room(maxdims, grid.dims.len(), "maxdims")?;
        // SAFETY: the user gives an array of maxdims numbers.
        unsafe { fill(grid.coordinates(rank).into_iter(), coords, maxdims, "coords") }
    })
}

/// The partners of a shift (8.5.6).
#[inline]
pub unsafe fn MPI_Cart_shift(
    comm: MPI_Comm,
    direction: c_int,
    disp: c_int,
    rank_source: *mut c_int,
    rank_dest: *mut c_int,
) -> c_int {
    call(c"MPI_Cart_shift", comm, |guard| {
        let grid = guard.grid(comm)?;
        check(direction >= 0 && (direction as usize) < grid.dims.len(), MPI_ERR_ARG, || {
            format!("direction is {direction}, expected 0 to {}", grid.dims.len() as i64 - 1)
        })?;
        let (source, destination) = grid.shift(guard.comm(comm)?.rank, direction as usize, disp);
        // SAFETY: the user gives places for two ranks.
        unsafe {
            put(rank_source, "rank_source", source)?;
            put(rank_dest, "rank_dest", destination)
        }
    })
}

/// The part of a grid that has this process and some of the dimensions (8.5.7).
#[inline]
pub unsafe fn MPI_Cart_sub(comm: MPI_Comm, remain_dims: *const c_int, newcomm: *mut MPI_Comm) -> c_int {
    let body = |guard: &mut Guard| {
        let dimensions = guard.grid(comm)?.dims.len();
        // SAFETY: the user gives an array of as many numbers as the grid has dimensions.
        let kept = unsafe { array(remain_dims, dimensions as c_int, "remain_dims") }?;
        let kept: Vec<bool> = kept.iter().map(|&keep| keep != 0).collect();
        guard.part_of_grid(comm, &kept)
    };
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Cart_sub", comm, newcomm, body) }
}

/// The graph that a call describes.
unsafe fn graph_argument(
    guard: &Guard,
    comm: MPI_Comm,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
) -> Result<Graph> {
    let size = guard.intracomm(comm)?.size();
    check(nnodes >= 0 && nnodes as usize <= size, MPI_ERR_ARG, || {
        format!("nnodes is {nnodes}, expected 0 to {size}")
    })?;
    // SAFETY: the user gives an array of nnodes numbers, the last of which is the length of the other.
    unsafe {
        let index = array(index, nnodes, "index")?;
        Graph::new(index, array(edges, index.last().copied().unwrap_or(0), "edges")?)
    }
}

/// A graph that every process describes in full (8.5.3).
#[inline]
pub unsafe fn MPI_Graph_create(
    comm_old: MPI_Comm,
    nnodes: c_int,
    indx: *const c_int,
    edges: *const c_int,
    _reorder: c_int,
    comm_graph: *mut MPI_Comm,
) -> c_int {
    let body = |guard: &mut Guard| {
        // SAFETY: as the user's.
        let graph = unsafe { graph_argument(guard, comm_old, nnodes, indx, edges) }?;
        guard.arrange(comm_old, nnodes as usize, Topology::Graph(graph))
    };
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Graph_create", comm_old, comm_graph, body) }
}

/// The rank that this process would have in a graph (8.5.8).
#[inline]
pub unsafe fn MPI_Graph_map(
    comm: MPI_Comm,
    nnodes: c_int,
    indx: *const c_int,
    edges: *const c_int,
    newrank: *mut c_int,
) -> c_int {
    call(c"MPI_Graph_map", comm, |guard| {
        // SAFETY: as the user's.
        unsafe { graph_argument(guard, comm, nnodes, indx, edges) }?;
        let rank = guard.comm(comm)?.rank as c_int;
        // SAFETY: the user gives a place for the rank.
        unsafe { put(newrank, "newrank", if rank < nnodes { rank } else { MPI_UNDEFINED }) }
    })
}

/// How many nodes and edges (8.5.5).
#[inline]
pub unsafe fn MPI_Graphdims_get(comm: MPI_Comm, nnodes: *mut c_int, nedges: *mut c_int) -> c_int {
    call(c"MPI_Graphdims_get", comm, |guard| {
        let graph = guard.graph(comm)?;
        // SAFETY: the user gives places for two counts.
        unsafe {
            put(nnodes, "nnodes", graph.index.len() as c_int)?;
            put(nedges, "nedges", graph.edges.len() as c_int)
        }
    })
}

/// The graph (8.5.5).
#[inline]
pub unsafe fn MPI_Graph_get(
    comm: MPI_Comm,
    maxindex: c_int,
    maxedges: c_int,
    indx: *mut c_int,
    edges: *mut c_int,
) -> c_int {
    call(c"MPI_Graph_get", comm, |guard| {
        let graph = guard.graph(comm)?;
        // SAFETY: the user gives two arrays with this much room.
        unsafe {
            fill(graph.index.iter().copied(), indx, maxindex, "indx")?;
            fill(graph.edges.iter().copied(), edges, maxedges, "edges")
        }
    })
}

/// How many neighbours a node has (8.5.5).
#[inline]
pub unsafe fn MPI_Graph_neighbors_count(comm: MPI_Comm, rank: c_int, nneighbors: *mut c_int) -> c_int {
    call(c"MPI_Graph_neighbors_count", comm, |guard| {
        let graph = guard.graph(comm)?;
        let count = graph.neighbours(guard.checked_member(comm, rank)?).len();
        // SAFETY: the user gives a place for the count.
        unsafe { put(nneighbors, "nneighbors", count as c_int) }
    })
}

/// The neighbours of a node (8.5.5).
#[inline]
pub unsafe fn MPI_Graph_neighbors(
    comm: MPI_Comm,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: *mut c_int,
) -> c_int {
    call(c"MPI_Graph_neighbors", comm, |guard| {
        let graph = guard.graph(comm)?;
        let found = graph.neighbours(guard.checked_member(comm, rank)?);
        // SAFETY: the user gives an array with this much room.
        unsafe { fill(found.iter().copied(), neighbors, maxneighbors, "neighbors") }
    })
}

/// Ranks with their weights, which are 1 where the user gives none.
unsafe fn weighted(
    guard: &Guard,
    comm: MPI_Comm,
    degree: c_int,
    ranks: *const c_int,
    weights: *const c_int,
    name: &str,
) -> Result<Vec<(c_int, c_int)>> {
    // SAFETY: the user gives an array of this many ranks.
    let ranks = unsafe { array(ranks, degree, name) }?;
    for (i, &rank) in ranks.iter().enumerate() {
        guard
            .checked_member(comm, rank)
            .map_err(|error| Error::new(error.class, format_args!("{name}[{i}]: {}", error.text)))?;
    }
    if is_unweighted(weights) {
        return Ok(ranks.iter().map(|&rank| (rank, 1)).collect());
    }
    // SAFETY: the user gives as many weights.
    let weights = unsafe { weight_array(weights, degree) }?;
    Ok(ranks.iter().copied().zip(weights.iter().copied()).collect())
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

/// A graph of which each process describes its own edges (8.5.4).
#[inline]
pub unsafe fn MPI_Dist_graph_create_adjacent(
    comm_old: MPI_Comm,
    indegree: c_int,
    sources: *const c_int,
    sourceweights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destweights: *const c_int,
    info: MPI_Info,
    _reorder: c_int,
    comm_dist_graph: *mut MPI_Comm,
) -> c_int {
    let body = |guard: &mut Guard| {
        info::hints(info)?;
        // SAFETY: the user gives the arrays of two lists.
        let (sources, destinations) = unsafe {
            (
                weighted(guard, comm_old, indegree, sources, sourceweights, "sources")?,
                weighted(guard, comm_old, outdegree, destinations, destweights, "destinations")?,
            )
        };
        let is_weighted = !is_unweighted(sourceweights) && !is_unweighted(destweights);
        let size = guard.intracomm(comm_old)?.size();
        guard.arrange(comm_old, size, Topology::DistGraph(Edges { sources, destinations, is_weighted }))
    };
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Dist_graph_create_adjacent", comm_old, comm_dist_graph, body) }
}

/// A graph of which each process describes any edges (8.5.4).
#[inline]
pub unsafe fn MPI_Dist_graph_create(
    comm_old: MPI_Comm,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    weights: *const c_int,
    info: MPI_Info,
    _reorder: c_int,
    comm_dist_graph: *mut MPI_Comm,
) -> c_int {
    let body = |guard: &mut Guard| {
        info::hints(info)?;
        // SAFETY: the user gives two arrays of n numbers.
        let (sources, degrees) = unsafe { (array(sources, n, "sources")?, array(degrees, n, "degrees")?) };
        for (i, &degree) in degrees.iter().enumerate() {
            check(degree >= 0, MPI_ERR_ARG, || format!("degrees[{i}] is {degree}, expected 0 or more"))?;
            guard
                .checked_member(comm_old, sources[i])
                .map_err(|error| Error::new(error.class, format_args!("sources[{i}]: {}", error.text)))?;
        }
        let total = degrees.iter().sum();
        // SAFETY: the user gives as many destinations and weights as the degrees say.
        let ends = unsafe { weighted(guard, comm_old, total, destinations, weights, "destinations") }?;
        let starts = sources.iter().zip(degrees).flat_map(|(&from, &degree)| (0..degree).map(move |_| from));
        let named: Vec<[c_int; 3]> =
            starts.zip(ends).map(|(from, (to, weight))| [from, to, weight]).collect();
        let edges = guard.distribute_edges(comm_old, &named, !is_unweighted(weights))?;
        let size = guard.intracomm(comm_old)?.size();
        guard.arrange(comm_old, size, Topology::DistGraph(edges))
    };
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Dist_graph_create", comm_old, comm_dist_graph, body) }
}

/// How many neighbours this process has (8.5.5).
#[inline]
pub unsafe fn MPI_Dist_graph_neighbors_count(
    comm: MPI_Comm,
    indegree: *mut c_int,
    outdegree: *mut c_int,
    weighted: *mut c_int,
) -> c_int {
    call(c"MPI_Dist_graph_neighbors_count", comm, |guard| {
        let edges = guard.edges(comm)?;
        // SAFETY: the user gives places for two counts and a flag.
        unsafe {
            put(indegree, "indegree", edges.sources.len() as c_int)?;
            put(outdegree, "outdegree", edges.destinations.len() as c_int)?;
            put(weighted, "weighted", c_int::from(edges.is_weighted))
        }
    })
}

/// The neighbours of this process (8.5.5).
#[inline]
pub unsafe fn MPI_Dist_graph_neighbors(
    comm: MPI_Comm,
    maxindegree: c_int,
    sources: *mut c_int,
    sourceweights: *mut c_int,
    maxoutdegree: c_int,
    destinations: *mut c_int,
    destweights: *mut c_int,
) -> c_int {
    call(c"MPI_Dist_graph_neighbors", comm, |guard| {
        let edges = guard.edges(comm)?;
        // SAFETY: the user gives arrays with this much room.
        unsafe {
            put_edges(edges, &edges.sources, maxindegree, sources, sourceweights, "sources")?;
            put_edges(edges, &edges.destinations, maxoutdegree, destinations, destweights, "destinations")
        }
    })
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
        fill(list.iter().map(|(rank, _)| *rank), ranks, room, name)?;
        if edges.is_weighted && !is_unweighted(weights) && weights != MPI_WEIGHTS_EMPTY {
            fill(list.iter().map(|(_, weight)| *weight), weights, room, "the weights")?;
        }
    }
    Ok(())
}
