//! A place in a communicator, as it travels to a successor.

use super::words;
use super::words::{put_bytes, put_list, take_all, take_bytes, take_list};
use crate::abi::{MPI_Comm, MPI_Errhandler};
use crate::comm::moved::{Membership, Properties};
use crate::comm::{Edges, Graph, Grid, Topology};
use crate::info::Info;

const NO_TOPOLOGY: u32 = 0;
const CART: u32 = 1;
const GRAPH: u32 = 2;
const DIST_GRAPH: u32 = 3;

/// Appends the words of a place.
pub(super) fn put(words: &mut Vec<u32>, membership: &Membership) {
    words.extend([membership.handle.0 as u32, membership.context, membership.rank]);
    words.extend(membership.counts);
    put_list(words, membership.members.iter().copied());
    words.push(u32::from(membership.remote.is_some()));
    put_list(words, membership.remote.iter().flatten().copied());
    put_properties(words, &membership.properties);
}

fn put_properties(words: &mut Vec<u32>, properties: &Properties) {
    words.extend([properties.errhandler.0 as u32, properties.hints.len() as u32]);
    for (key, value) in properties.hints.iter() {
        put_bytes(words, key);
        put_bytes(words, value);
    }
    put_bytes(words, &properties.name);
    put_topology(words, properties.topology.as_ref());
}

/// Takes a place.
pub(super) fn take(rest: &mut &[u32]) -> Option<Membership> {
    let [handle, context, rank] = words::take(rest)?;
    let (counts, members) = (words::take(rest)?, take_list(rest)?);
    let ([has_remote], remote) = (words::take(rest)?, take_list(rest)?);
    Some(Membership {
        handle: MPI_Comm(handle as usize),
        context,
        rank,
        counts,
        members,
        remote: (has_remote != 0).then_some(remote),
        properties: take_properties(rest)?,
    })
}

fn take_properties(rest: &mut &[u32]) -> Option<Properties> {
    let [errhandler, keys] = words::take(rest)?;
    let mut hints = Info::default();
    for (key, value) in take_all(rest, keys, |rest| Some((take_bytes(rest)?, take_bytes(rest)?)))? {
        hints.set(&key, &value);
    }
    let (errhandler, name) = (MPI_Errhandler(errhandler as usize), take_bytes(rest)?);
    Some(Properties { errhandler, name, hints, topology: take_topology(rest)? })
}

fn put_topology(words: &mut Vec<u32>, topology: Option<&Topology>) {
    let ints = |list: &[i32]| list.iter().map(|number| *number as u32).collect::<Vec<_>>();
    let pairs =
        |list: &[(i32, i32)]| list.iter().flat_map(|(a, b)| [*a as u32, *b as u32]).collect::<Vec<_>>();
    match topology {
        None => words.push(NO_TOPOLOGY),
        Some(Topology::Cart(grid)) => {
            words.push(CART);
            put_list(
                words,
                grid.dims.iter().flat_map(|(size, ends_meet)| [*size as u32, u32::from(*ends_meet)]),
            );
        }
        Some(Topology::Graph(graph)) => {
            words.push(GRAPH);
            put_list(words, ints(&graph.index));
            put_list(words, ints(&graph.edges));
        }
        Some(Topology::DistGraph(edges)) => {
            words.extend([DIST_GRAPH, u32::from(edges.is_weighted)]);
            put_list(words, pairs(&edges.sources));
            put_list(words, pairs(&edges.destinations));
        }
    }
}

/// Takes a topology; none within: the communicator has none.
fn take_topology(rest: &mut &[u32]) -> Option<Option<Topology>> {
    let ints = |list: Vec<u32>| list.into_iter().map(|number| number as i32).collect::<Vec<_>>();
    let pairs = |list: Vec<u32>| {
        list.chunks_exact(2).map(|pair| (pair[0] as i32, pair[1] as i32)).collect::<Vec<_>>()
    };
    let [kind] = words::take(rest)?;
    Some(match kind {
        NO_TOPOLOGY => None,
        CART => {
            let dims =
                pairs(take_list(rest)?).into_iter().map(|(size, ends_meet)| (size, ends_meet != 0)).collect();
            Some(Topology::Cart(Grid { dims }))
        }
        GRAPH => {
            let (index, edges) = (ints(take_list(rest)?), ints(take_list(rest)?));
            Some(Topology::Graph(Graph { index, edges }))
        }
        DIST_GRAPH => {
            let [is_weighted] = words::take(rest)?;
            let (sources, destinations) = (pairs(take_list(rest)?), pairs(take_list(rest)?));
            Some(Topology::DistGraph(Edges { sources, destinations, is_weighted: is_weighted != 0 }))
        }
        _ => return None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::abi::{MPI_COMM_WORLD, MPI_ERRORS_RETURN};

    /// Places of each kind.
    pub(in super::super) fn some() -> Vec<Membership> {
        let world = Membership {
            handle: MPI_COMM_WORLD,
            context: 0,
            rank: 1,
            counts: [1, 2, 3],
            members: vec![0, 5, 2],
            remote: None,
            properties: Properties {
                errhandler: MPI_ERRORS_RETURN,
                name: b"MPI_COMM_WORLD".to_vec(),
                hints: Info::default(),
                topology: None,
            },
        };
        let made = |handle: usize, remote: Option<Vec<u32>>, topology| {
            let mut hints = Info::default();
            hints.set(b"mpi_assert_no_any_tag", b"true");
            hints.set(b"mpi_assert_exact_length", b"false");
            let properties = Properties {
                errhandler: MPI_ERRORS_RETURN,
                name: Vec::new(),
                hints,
                topology: Some(topology),
            };
            let context = 6 * handle as u32;
            Membership { handle: MPI_Comm(handle), context, remote, properties, ..world.clone() }
        };
        let edges = Edges { sources: vec![(1, -1)], destinations: vec![(2, 7), (0, 1)], is_weighted: true };
        vec![
            world.clone(),
            made(5000, Some(vec![7, 3]), Topology::Cart(Grid::default())),
            made(5001, Some(Vec::new()), Topology::DistGraph(edges)),
            made(5002, None, Topology::Cart(Grid { dims: vec![(3, true), (1, false)] })),
            made(5003, None, Topology::Graph(Graph { index: vec![2, 3], edges: vec![1, 1, 0] })),
        ]
    }
}
