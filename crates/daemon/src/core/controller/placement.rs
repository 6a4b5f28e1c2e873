//! Demand of a job, as its user has said it: the nodes that he names, or as many as he wants of any.
//! Which ones those are is the scheduler's to say (`tutti_sched`).

use std::collections::BTreeSet;

use tutti_protocol::reservation::Reservation;
use tutti_protocol::wire::Input;
use tutti_sched::{Demand, Holder, Place, SubmitError, could_hold};
use tutti_shm::layout::LOCAL_RANKS_MAX;

use crate::members::{Members, NodeId};
use crate::message::{Host, Submit};
use tutti_protocol::spread::{SpreadError, first_ranks};

/// Names of nodes that a refusal lists.
const NAMES_MAX: usize = 16;

/// Why a job cannot run here. Each is one line for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlacementError {
    /// No ranks at all.
    #[error("a job needs at least one rank")]
    NoRanks,
    /// Not so many nodes.
    #[error(
        "{wanted} nodes are more than the {alive} of the cluster: `tutti up --nodes N` makes more on one machine, tuttid --join on others"
    )]
    TooFewNodes {
        /// Asked for.
        wanted: u32,
        /// Nodes that are there.
        alive: u32,
    },
    /// The ranks do not fit the nodes.
    #[error(transparent)]
    Spread(#[from] SpreadError),
    /// A name of no node.
    #[error("{name} is not a node of this cluster; its nodes are {known}")]
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
    /// More on one node than it takes.
    #[error("{ranks} ranks of a job on one node are more than the {LOCAL_RANKS_MAX} that it takes")]
    Crowded {
        /// Ranks on the node with most of them.
        ranks: u64,
    },
    /// Stdin is for a rank that there is not.
    #[error("-stdin names rank {rank}, the job has {ranks} ranks")]
    Stdin {
        /// The rank.
        rank: u32,
        /// Ranks of the job.
        ranks: u64,
    },
    /// A node that the job is to have and is not to have.
    #[error("--exclude names {0}, which the job is to have too")]
    Excluded(String),
    /// A node that the job's reservation does not have.
    #[error("node {0} is not of reservation {1}")]
    Outside(String, String),
    /// No nodes of this cluster could ever hold it.
    #[error(transparent)]
    Demand(#[from] SubmitError),
}

/// The reservation in which a job runs.
pub(crate) struct Within {
    name: String,
    nodes: BTreeSet<NodeId>,
}

impl Within {
    /// The nodes that are there.
    pub(crate) fn new(members: &Members, reservation: &Reservation) -> Self {
        let there = members.nodes.iter().filter(|(_, member)| reservation.nodes.contains(&member.about.name));
        Within { name: reservation.name.clone(), nodes: there.map(|(node, _)| *node).collect() }
    }

    /// Whether a node is of it.
    pub(crate) fn has(&self, node: NodeId) -> bool {
        self.nodes.contains(&node)
    }
}

/// Nodes in order of ranks, and the world rank of each one's first.
type Firsts = (Vec<NodeId>, Vec<u32>);

/// Says how many ranks a job has for which its user has not said so (one program, of 0 ranks): one for each
/// slot of its nodes, or as many on each as he has said. Of nodes that differ those with the fewest `ranks`
/// on them are taken.
///
/// # Errors
/// When the nodes are not there.
pub(crate) fn fill(
    members: &Members,
    ranks: impl Fn(NodeId) -> u64,
    submit: &mut Submit,
) -> Result<(), PlacementError> {
    let [program] = &submit.job.programs[..] else { return Ok(()) };
    if program.ranks > 0 {
        return Ok(());
    }
    let slots = |node: &NodeId| members.nodes[node].about.slots.max(1);
    let hosts = named(members, &submit.hosts)?;
    let mut nodes: Vec<(NodeId, Option<u32>)> = match hosts.is_empty() {
        true => members.alive().map(|(node, _)| (node, None)).collect(),
        false => hosts,
    };
    let alive = nodes.len() as u32;
    let wanted = submit.nodes.unwrap_or(if submit.hosts.is_empty() { 1 } else { alive });
    if wanted == 0 || wanted > alive {
        return Err(PlacementError::TooFewNodes { wanted, alive });
    }
    let first = slots(&nodes[0].0);
    let alike =
        submit.per_node.or_else(|| nodes.iter().all(|(node, _)| slots(node) == first).then_some(first));
    let all = if let (true, Some(per_node)) = (submit.hosts.is_empty(), alike) {
        (submit.nodes, submit.per_node) = (Some(wanted), Some(per_node));
        u64::from(wanted) * u64::from(per_node)
    } else {
        if submit.hosts.is_empty() {
            nodes.sort_by_key(|(node, _)| ranks(*node));
        }
        nodes.truncate(wanted as usize);
        let of_node = |(node, count): &(NodeId, Option<u32>)| {
            let ranks = submit.per_node.or(*count).unwrap_or_else(|| slots(node));
            Host { name: members.nodes[node].about.name.clone(), ranks: Some(ranks) }
        };
        submit.hosts = nodes.iter().map(of_node).collect();
        (submit.nodes, submit.per_node) = (None, None);
        submit.hosts.iter().map(|host| u64::from(host.ranks.unwrap_or(0))).sum()
    };
    submit.job.programs[0].ranks = u32::try_from(all).map_err(|_| PlacementError::NoRanks)?;
    Ok(())
}

/// Demand of the job on the scheduler, `within` its reservation.
///
/// # Errors
/// When what is asked for does not fit together, or the cluster could not hold it if it were empty.
pub(crate) fn demand(
    members: &Members,
    submit: &Submit,
    within: Option<&Within>,
) -> Result<Demand, PlacementError> {
    let ranks = submit.job.ranks();
    if ranks == 0 || ranks > u64::from(u32::MAX) {
        return Err(PlacementError::NoRanks);
    }
    if let Input::Rank(rank) = submit.job.input
        && u64::from(rank) >= ranks
    {
        return Err(PlacementError::Stdin { rank, ranks });
    }
    let hosts = named(members, &submit.hosts)?;
    let place = if hosts.is_empty() {
        anywhere(members.alive().count() as u32, ranks, submit)?
    } else {
        Place::Given(on_hosts(&hosts, ranks, submit)?)
    };
    let most = most_on_a_node(&place, members.alive().count() as u64);
    // A script is one rank; how many its steps have on a node they say themselves.
    if most > u64::from(LOCAL_RANKS_MAX) && !submit.script.is_script {
        return Err(PlacementError::Crowded { ranks: most });
    }
    let terms = submit.terms;
    let demand = Demand {
        weight: terms.weight,
        exclusive: terms.exclusive,
        gang: terms.gang,
        oversubscribe: !submit.job.no_oversubscribe,
        memory_bytes: terms.memory_bytes,
        holder: Holder::default(),
        phases: terms.phases,
        fill: terms.fill,
        ..Demand::at(place)
    };
    let avoided = outside(members, &demand.place, within)?.chain(excluded(members, submit)?);
    let demand = demand.with_gpus(terms.gpus).avoiding(avoided.collect());
    let nodes = members.alive().map(|(node, member)| {
        let about = &member.about;
        (node, about.slots, about.memory_bytes, about.gpus().count())
    });
    could_hold(nodes, &demand)?;
    Ok(demand)
}

/// Ranks on the node that has most of them, at least, wherever the scheduler places them.
fn most_on_a_node(place: &Place, alive: u64) -> u64 {
    match place {
        Place::Fewest { ranks } => u64::from(*ranks).div_ceil(alive.max(1)),
        Place::Any { nodes, ranks } => u64::from(*ranks).div_ceil(u64::from(*nodes).max(1)),
        Place::PerNode { per_node, ranks } => u64::from(*per_node.min(ranks)),
        Place::Given(nodes) => nodes.iter().map(|(_, ranks)| u64::from(*ranks)).max().unwrap_or(0),
    }
}

/// Of `alive` nodes whichever the scheduler likes.
fn anywhere(alive: u32, ranks: u64, submit: &Submit) -> Result<Place, PlacementError> {
    let per_node = submit.per_node.map(|per_node| per_node.max(1));
    let wanted = match (submit.nodes, per_node) {
        (Some(nodes), _) => nodes,
        (None, Some(per_node)) => ranks.div_ceil(u64::from(per_node)).min(u64::from(u32::MAX)) as u32,
        (None, None) => return Ok(Place::Fewest { ranks: ranks as u32 }),
    };
    if wanted == 0 || wanted > alive {
        return Err(PlacementError::TooFewNodes { wanted, alive });
    }
    first_ranks(wanted, ranks, per_node)?;
    Ok(match per_node {
        None => Place::Any { nodes: wanted, ranks: ranks as u32 },
        Some(per_node) => Place::PerNode { per_node, ranks: ranks as u32 },
    })
}

/// On the nodes that the user has named, in his order.
fn on_hosts(
    hosts: &[(NodeId, Option<u32>)],
    ranks: u64,
    submit: &Submit,
) -> Result<Vec<(NodeId, u32)>, PlacementError> {
    let (nodes, firsts) = match by_count(hosts, ranks, submit)? {
        Some(placed) => placed,
        None => {
            let alive = hosts.len() as u32;
            let wanted = match (submit.nodes, submit.per_node) {
                (Some(nodes), _) => nodes,
                (None, Some(per_node)) => {
                    ranks.div_ceil(u64::from(per_node.max(1))).min(u64::from(u32::MAX)) as u32
                }
                (None, None) => alive.min(ranks as u32),
            };
            if wanted == 0 || wanted > alive {
                return Err(PlacementError::TooFewNodes { wanted, alive });
            }
            let firsts = first_ranks(wanted, ranks, submit.per_node)?;
            (hosts[..wanted as usize].iter().map(|(node, _)| *node).collect(), firsts)
        }
    };
    Ok(shares(&nodes, &firsts, ranks).map(|(node, ranks)| (node, ranks as u32)).collect())
}

/// The nodes that a user has named, in his order; one that he names twice is one.
fn named(members: &Members, hosts: &[Host]) -> Result<Vec<(NodeId, Option<u32>)>, PlacementError> {
    let mut nodes: Vec<(NodeId, Option<u32>)> = Vec::new();
    for host in hosts {
        let (node, _) = named_node(members, &host.name)?;
        if !members.is_alive(node) {
            return Err(PlacementError::Lost(host.name.clone()));
        }
        match nodes.iter_mut().find(|(known, _)| *known == node) {
            None => nodes.push((node, host.ranks)),
            // Both families: a name said again is one more rank there.
            Some((_, ranks)) => *ranks = Some(ranks.unwrap_or(1) + host.ranks.unwrap_or(1)),
        }
    }
    Ok(nodes)
}

/// The node that a user has named, and the name by which it goes.
///
/// # Errors
/// When there is none.
pub(super) fn named_node(members: &Members, wanted: &str) -> Result<(NodeId, String), PlacementError> {
    let named =
        |is_it: &dyn Fn(&str) -> bool| members.nodes.iter().find(|(_, member)| is_it(&member.about.name));
    let found = named(&|name| name == wanted).or_else(|| named(&|name| short(name) == short(wanted)));
    found.map(|(node, member)| (*node, member.about.name.clone())).ok_or_else(|| {
        let names = members.nodes.values().take(NAMES_MAX).map(|member| member.about.name.as_str());
        PlacementError::Unknown { name: wanted.to_owned(), known: names.collect::<Vec<_>>().join(" ") }
    })
}

/// Nodes that a job is not to have.
///
/// # Errors
/// When there is no such node, or the job names it elsewhere as its own.
fn excluded(members: &Members, submit: &Submit) -> Result<Vec<NodeId>, PlacementError> {
    let mut nodes = BTreeSet::new();
    for name in &submit.batch.rules().excluded {
        nodes.insert(named_node(members, name)?.0);
    }
    for host in &submit.hosts {
        let (node, name) = named_node(members, &host.name)?;
        if nodes.contains(&node) {
            return Err(PlacementError::Excluded(name));
        }
    }
    Ok(nodes.into_iter().collect())
}

/// Nodes that a reservation does not have.
///
/// # Errors
/// When the job names one of them.
fn outside<'a>(
    members: &'a Members,
    place: &Place,
    within: Option<&'a Within>,
) -> Result<impl Iterator<Item = NodeId> + use<'a>, PlacementError> {
    if let (Place::Given(parts), Some(within)) = (place, within)
        && let Some((node, _)) = parts.iter().find(|(node, _)| !within.has(*node))
    {
        return Err(PlacementError::Outside(members.name(*node), within.name.clone()));
    }
    let all = members.nodes.keys().copied();
    Ok(all.filter(move |node| within.is_some_and(|within| !within.has(*node))))
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
) -> Result<Option<Firsts>, PlacementError> {
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

/// Ranks of each node.
pub(crate) fn shares<'a>(
    nodes: &'a [NodeId],
    firsts: &'a [u32],
    ranks: u64,
) -> impl Iterator<Item = (NodeId, u64)> + 'a {
    nodes.iter().enumerate().map(move |(index, node)| {
        let end = firsts.get(index + 1).map_or(ranks, |next| u64::from(*next));
        (*node, end - u64::from(firsts[index]))
    })
}
