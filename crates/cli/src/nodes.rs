//! On how many nodes a job runs, and which ranks on which: consecutive ranks are on one node. Nodes are
//! virtual ones of this machine, or those of a cluster; which of them and with which ranks is then its
//! controller's to say.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use tutti_os::netns::{NAMESPACES_MAX, Namespaces, NetnsError};
use tutti_protocol::spread::{SpreadError, first_ranks};

use tutti_protocol::users::Host;

use crate::options::Options;

/// Environment variable for the network between ranks.
pub const TRANSPORT_VARIABLE: &str = "TUTTI_TRANSPORT";

/// Nodes of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// Node of this machine alone, without a network.
    One,
    /// Virtual nodes that reach each other over the loopback interface; the world rank of each one's first
    /// rank.
    Virtual(Vec<u32>),
    /// Virtual nodes with a network namespace each, and the MTU of their cables.
    Namespaces {
        /// As above.
        firsts: Vec<u32>,
        /// Of each node, the last of the rest.
        mtus: Vec<u32>,
    },
    /// Nodes of the cluster, which its controller chooses; how many, if that was said.
    Cluster(Wanted),
}

/// Nodes that are wanted of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// How many nodes, if given.
    pub nodes: Option<u32>,
    /// Which ones, in order; empty: any.
    pub hosts: Vec<Host>,
}

/// Why the nodes cannot be had. Each is one line for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodesError {
    /// Two options.
    #[error(
        "--nodes or hosts, --virtual-nodes and --netns are ways to say how many nodes there are: give one of them"
    )]
    Both,
    /// The ranks do not fit the nodes.
    #[error(transparent)]
    Spread(#[from] SpreadError),
    /// More than can know each other.
    #[error("--netns takes at most {NAMESPACES_MAX} nodes, not {0}")]
    TooMany(u32),
    /// MTU without cables.
    #[error("--netns-mtu is about the cables that --netns makes, and --netns was not given")]
    MtuOfNothing,
    /// The environment has another value.
    #[error("{TRANSPORT_VARIABLE} has the value {0:?}, expected udp or shm")]
    Transport(String),
}

impl Nodes {
    /// From the options, and where they are silent from the environment.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn of(options: &Options, ranks: u64, hosts: Vec<Host>) -> Result<Self, NodesError> {
        let transport =
            std::env::var_os(TRANSPORT_VARIABLE).map(|value| value.to_string_lossy().into_owned());
        Nodes::choose(options, ranks, hosts, transport.as_deref())
    }

    /// Whether the job's nodes are those of the cluster.
    pub fn are_of_cluster(options: &Options, hosts: &[Host]) -> bool {
        let is_virtual = options.virtual_nodes.count.is_some() || options.virtual_nodes.namespaces.is_some();
        !is_virtual && (options.nodes.is_some() || !hosts.is_empty() || options.cluster)
    }

    fn choose(
        options: &Options,
        ranks: u64,
        hosts: Vec<Host>,
        transport: Option<&str>,
    ) -> Result<Self, NodesError> {
        let named = options.nodes.is_some() || !hosts.is_empty();
        let firsts = |nodes| first_ranks(nodes, ranks, options.ranks_per_node);
        match (options.virtual_nodes.count, options.virtual_nodes.namespaces, transport) {
            _ if !options.virtual_nodes.mtus.is_empty() && options.virtual_nodes.namespaces.is_none() => {
                Err(NodesError::MtuOfNothing)
            }
            _ if Nodes::are_of_cluster(options, &hosts) => {
                Ok(Nodes::Cluster(Wanted { nodes: options.nodes, hosts }))
            }
            _ if named => Err(NodesError::Both),
            (_, _, Some(other)) if !["", "udp", "shm"].contains(&other) => {
                Err(NodesError::Transport(other.to_owned()))
            }
            (Some(_), Some(_), _) => Err(NodesError::Both),
            (None, Some(nodes), _) if nodes > NAMESPACES_MAX => Err(NodesError::TooMany(nodes)),
            (None, Some(nodes), _) => {
                Ok(Nodes::Namespaces { firsts: firsts(nodes)?, mtus: options.virtual_nodes.mtus.clone() })
            }
            (Some(nodes), None, _) => Ok(Nodes::Virtual(firsts(nodes)?)),
            // Every rank is a node of its own.
            (None, None, Some("udp")) => Ok(Nodes::Virtual((0..ranks as u32).collect())),
            (None, None, _) => Ok(Nodes::One),
        }
    }

    /// World rank of each node's first rank; empty when there is one node and no network.
    pub fn first_ranks(&self) -> &[u32] {
        match self {
            Nodes::One | Nodes::Cluster(_) => &[],
            Nodes::Virtual(firsts) | Nodes::Namespaces { firsts, .. } => firsts,
        }
    }

    /// Makes the namespaces, if there are to be any.
    ///
    /// # Errors
    /// When the kernel does not let us.
    pub fn make(&self) -> Result<Option<Namespaces>, NetnsError> {
        match self {
            Nodes::Namespaces { firsts, mtus } => Namespaces::create(firsts.len() as u32, mtus).map(Some),
            _ => Ok(None),
        }
    }
}

/// The address of a node that has no namespace.
///
/// A machine may have IPv6 alone.
pub fn loopback() -> IpAddr {
    let is_there = |address: &IpAddr| UdpSocket::bind((*address, 0)).is_ok();
    let addresses = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    addresses.into_iter().find(is_there).unwrap_or(addresses[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Request, parse};

    fn chosen(line: &str, ranks: u64, transport: Option<&str>) -> Result<Nodes, NodesError> {
        let words: Vec<_> = line.split_ascii_whitespace().chain(["a.out"]).map(Into::into).collect();
        let Ok(Request::Run(options)) = parse(&words) else { panic!("{line}") };
        Nodes::choose(&options, ranks, Vec::new(), transport)
    }

    #[test]
    fn nodes_option_overrides_environment() {
        assert_eq!(chosen("", 4, None), Ok(Nodes::One));
        assert_eq!(chosen("", 4, Some("shm")), Ok(Nodes::One));
        assert_eq!(chosen("", 3, Some("udp")), Ok(Nodes::Virtual(vec![0, 1, 2])));
        assert_eq!(chosen("--virtual-nodes 2", 4, Some("udp")), Ok(Nodes::Virtual(vec![0, 2])));
        assert_eq!(
            chosen("--netns 2", 4, None),
            Ok(Nodes::Namespaces { firsts: vec![0, 2], mtus: Vec::new() })
        );
        assert_eq!(
            chosen("--netns 2 --netns-mtu 9000,1500", 4, None),
            Ok(Nodes::Namespaces { firsts: vec![0, 2], mtus: vec![9000, 1500] })
        );
        assert_eq!(chosen("--virtual-nodes 2 --netns-mtu 1500", 4, None), Err(NodesError::MtuOfNothing));
        assert_eq!(chosen("--nodes 2 --netns-mtu 1500", 4, None), Err(NodesError::MtuOfNothing));
        assert_eq!(chosen("--netns 129", 4000, None), Err(NodesError::TooMany(129)));
        assert_eq!(chosen("--netns 2 --virtual-nodes 2", 4, None), Err(NodesError::Both));
        assert_eq!(
            chosen("--virtual-nodes 5", 4, None),
            Err(SpreadError::MoreThanRanks { nodes: 5, ranks: 4 }.into())
        );
        assert_eq!(chosen("", 4, Some("tcp")), Err(NodesError::Transport("tcp".into())));
    }
}
