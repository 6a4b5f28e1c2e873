//! Which nodes a job gets: as many as were asked for, those with the fewest ranks for their slots first (S2). Time is shared, so a
//! job never waits for a node to be free.

use std::collections::BTreeMap;

use crate::members::{Members, NodeId};
use crate::message::{Host, Submit};
use crate::spread::{SpreadError, first_ranks};

/// Names of nodes that a refusal lists.
const NAMES_MAX: usize = 16;

/// Why a job cannot run here. Each is one line for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// No ranks at all.
    #[error("a job needs at least one rank")]
    NoRanks,
    /// Not so many nodes.
    #[error("{wanted} nodes are more than the {alive} of the cluster")]
    TooFewNodes {
        /// Asked for.
        wanted: u32,
        /// There.
        alive: u32,
    },
    /// The ranks do not fit the nodes.
    #[error(transparent)]
    Spread(#[from] SpreadError),
    /// A name of no node.
    #[error("{name} is no node of this cluster; its nodes are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Names of nodes.
        known: String,
    },
    /// A node that is not there.
    #[error("node {0} does not answer")]
    Lost(String),
    /// More than what the named nodes are to get.
    #[error("{ranks} ranks are more than the {room} that the named hosts are to get")]
    NoRoom {
        /// Ranks of the job.
        ranks: u64,
        /// The sum of what was said.
        room: u64,
    },
}

/// Nodes in order of ranks, and the world rank of each one's first.
type Placed = (Vec<NodeId>, Vec<u32>);

/// The nodes of a job in order of ranks, and the world rank of each one's first.
///
/// # Errors
/// When what is asked for does not fit together, or the cluster is too small.
pub fn place(
    members: &Members,
    load: &BTreeMap<NodeId, u64>,
    submit: &Submit,
) -> Result<Placed, PlacementError> {
    let ranks = submit.job.ranks();
    if ranks == 0 || ranks > u64::from(u32::MAX) {
        return Err(PlacementError::NoRanks);
    }
    let hosts = named(members, &submit.hosts)?;
    if let Some(placed) = by_count(&hosts, ranks, submit)? {
        return Ok(placed);
    }
    let mut free: Vec<(u64, NodeId, u64)> = members
        .alive()
        .filter(|(node, _)| hosts.is_empty() || hosts.iter().any(|(host, _)| host == node))
        .map(|(node, member)| {
            let slots = u64::from(member.about.slots.max(1));
            // In thousandths of its slots.
            (load.get(&node).copied().unwrap_or(0) * 1000 / slots, node, slots)
        })
        .collect();
    if hosts.is_empty() {
        free.sort_unstable();
    } else {
        free.sort_unstable_by_key(|(_, node, _)| hosts.iter().position(|(host, _)| host == node));
    }
    let alive = free.len() as u32;
    let wanted = match (submit.nodes, submit.per_node) {
        (Some(nodes), _) => nodes,
        (None, Some(per_node)) => ranks.div_ceil(u64::from(per_node.max(1))).min(u64::from(u32::MAX)) as u32,
        (None, None) if !hosts.is_empty() => alive.min(ranks.min(u64::from(u32::MAX)) as u32),
        (None, None) => fitting(&free, ranks),
    };
    if wanted == 0 || wanted > alive {
        return Err(PlacementError::TooFewNodes { wanted, alive });
    }
    let firsts = first_ranks(wanted, ranks, submit.per_node)?;
    let mut nodes: Vec<NodeId> = free[..wanted as usize].iter().map(|(_, node, _)| *node).collect();
    if hosts.is_empty() {
        nodes.sort_unstable();
    }
    Ok((nodes, firsts))
}

/// The nodes that a user has named, in his order; one that he names twice is one.
fn named(members: &Members, hosts: &[Host]) -> Result<Vec<(NodeId, Option<u32>)>, PlacementError> {
    let mut nodes: Vec<(NodeId, Option<u32>)> = Vec::new();
    for host in hosts {
        let is_it = |name: &str| name == host.name || short(name) == short(&host.name);
        let Some((node, member)) = members.nodes.iter().find(|(_, member)| is_it(&member.about.name)) else {
            let known: Vec<&str> =
                members.nodes.values().take(NAMES_MAX).map(|member| member.about.name.as_str()).collect();
            return Err(PlacementError::Unknown { name: host.name.clone(), known: known.join(" ") });
        };
        if !member.alive {
            return Err(PlacementError::Lost(host.name.clone()));
        }
        match nodes.iter_mut().find(|(known, _)| known == node) {
            None => nodes.push((*node, host.ranks)),
            // Both families: a name said again is one more rank there.
            Some((_, ranks)) => *ranks = Some(ranks.unwrap_or(1) + host.ranks.unwrap_or(1)),
        }
    }
    Ok(nodes)
}

/// A name without its domain.
fn short(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Where a user has said how many ranks each node gets.
fn by_count(
    hosts: &[(NodeId, Option<u32>)],
    ranks: u64,
    submit: &Submit,
) -> Result<Option<Placed>, PlacementError> {
    if hosts.iter().all(|(_, count)| count.is_none()) || submit.nodes.is_some() || submit.per_node.is_some() {
        return Ok(None);
    }
    let (mut nodes, mut firsts, mut placed) = (Vec::new(), Vec::new(), 0);
    for (node, count) in hosts.iter().filter(|(_, count)| *count != Some(0)) {
        if placed < ranks {
            nodes.push(*node);
            firsts.push(placed as u32);
        }
        placed += u64::from(count.unwrap_or(1));
    }
    if placed < ranks {
        return Err(PlacementError::NoRoom { ranks, room: placed });
    }
    Ok(Some((nodes, firsts)))
}

/// As many nodes as it takes until there is a slot for every rank, or all.
fn fitting(free: &[(u64, NodeId, u64)], ranks: u64) -> u32 {
    let mut room = 0;
    let needed = free.iter().take_while(|(_, _, slots)| {
        let more = room < ranks;
        room += slots;
        more
    });
    needed.count() as u32
}

/// Ranks of each node.
pub fn shares<'a>(
    nodes: &'a [NodeId],
    firsts: &'a [u32],
    ranks: u64,
) -> impl Iterator<Item = (NodeId, u64)> + 'a {
    nodes.iter().enumerate().map(move |(index, node)| {
        let end = firsts.get(index + 1).map_or(ranks, |next| u64::from(*next));
        (*node, end - u64::from(firsts[index]))
    })
}
