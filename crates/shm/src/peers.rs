//! The table of a job that runs on several nodes: which ranks are where, and under which addresses they are
//! reached.
//!
//! The front end puts it together from what the starters report, each starter writes it into a sealed memfd,
//! and every rank gets that descriptor with its [`crate::ticket::Welcome`]. It never changes.
//!
//! ```text
//! | magic: u64 | version: u32 | nodes: u32 | ranks: u32 | bytes of a datagram: u32 | key: u64 | began: u32 | reader: u32 |
//! | first rank: u32 | ... for each node
//! | address: 16 bytes, IPv4 mapped | port: u16 | 0: u16 | ... for each rank            host byte order but for the address
//! ```
//!
//! `reader` is the oldest version whose readers find everything where they look for it: what a later release
//! adds stands behind the addresses. `began` ranks are those that the job began with; the addresses behind
//! theirs are of ranks that may be started later ([`crate::numbers`]).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::Range;

use crate::numbers::node_of_later;

const MAGIC: u64 = u64::from_be_bytes(*b"TUTTITAB");
const VERSION: u32 = 4;
/// The oldest version whose readers find what they look for.
const READER_MIN: u32 = 4;
/// The oldest version that is read.
const VERSION_MIN: u32 = 4;
const HEAD_BYTES: usize = 40;
const ADDRESS_BYTES: usize = 20;

/// Where the ranks of a job are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    key: u64,
    /// Bytes that every node's link takes in one piece.
    datagram_bytes: u32,
    /// World rank of each node's first rank.
    first_ranks: Vec<u32>,
    /// Ranks that the job began with.
    began: u32,
    /// By world rank.
    addresses: Vec<SocketAddr>,
}

/// Why a table is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the job's table of peers is not one of version {VERSION}: {0}")]
pub struct BadPeers(String);

impl Peers {
    /// A table from the world rank of each node's first rank and the addresses by world rank; `key` is the
    /// job's random number that every packet carries, `datagram_bytes` what the links of all its nodes take
    /// in one piece. The job begins with `began` ranks.
    ///
    /// # Errors
    /// When a node has no rank, or the ranks of nodes do not follow each other.
    pub fn new(
        key: u64,
        datagram_bytes: u32,
        first_ranks: Vec<u32>,
        began: u32,
        addresses: Vec<SocketAddr>,
    ) -> Result<Self, BadPeers> {
        let ascending = first_ranks.is_sorted_by(|one, next| one < next);
        let last = first_ranks.last().copied();
        if first_ranks.first() != Some(&0)
            || !ascending
            || last.is_none_or(|last| last >= began)
            || began as usize > addresses.len()
        {
            let (nodes, ranks) = (first_ranks.len(), addresses.len());
            return Err(BadPeers(format!(
                "{nodes} nodes with the first ranks {first_ranks:?} of {began}, {ranks} addresses"
            )));
        }
        Ok(Peers { key, datagram_bytes, first_ranks, began, addresses })
    }

    /// The job's random number that every packet carries.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Bytes of a datagram, at most, so that it travels between any two nodes in one piece, as far as their
    /// links say.
    pub fn datagram_bytes(&self) -> usize {
        self.datagram_bytes as usize
    }

    /// Nodes of the job.
    pub fn nodes(&self) -> usize {
        self.first_ranks.len()
    }

    /// Ranks that the job began with.
    pub fn began(&self) -> usize {
        self.began as usize
    }

    /// Addresses by world rank.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The node of a world rank.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn node_of(&self, rank: usize) -> usize {
        assert!(rank < self.addresses.len(), "rank {rank} of {}", self.addresses.len());
        if let Some(behind) = rank.checked_sub(self.began as usize) {
            return node_of_later(behind, self.nodes());
        }
        self.first_ranks.partition_point(|first| *first as usize <= rank) - 1
    }

    /// The world ranks that the job began with on a node.
    ///
    /// # Panics
    /// When the job has no such node.
    pub fn ranks_of(&self, node: usize) -> Range<usize> {
        let end = self.first_ranks.get(node + 1).map_or(self.began as usize, |first| *first as usize);
        self.first_ranks[node] as usize..end
    }

    /// The table as it stands in the memfd.
    pub fn encode(&self) -> Vec<u8> {
        let mut out =
            Vec::with_capacity(HEAD_BYTES + 4 * self.nodes() + ADDRESS_BYTES * self.addresses.len());
        out.extend_from_slice(&MAGIC.to_ne_bytes());
        for word in [VERSION, self.nodes() as u32, self.addresses.len() as u32, self.datagram_bytes] {
            out.extend_from_slice(&word.to_ne_bytes());
        }
        out.extend_from_slice(&self.key.to_ne_bytes());
        [self.began, READER_MIN].iter().for_each(|word| out.extend_from_slice(&word.to_ne_bytes()));
        self.first_ranks.iter().for_each(|first| out.extend_from_slice(&first.to_ne_bytes()));
        for address in &self.addresses {
            let ip = match address.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            out.extend_from_slice(&ip.octets());
            out.extend_from_slice(&address.port().to_ne_bytes());
            out.extend_from_slice(&[0; 2]);
        }
        out
    }

    /// Reads a table.
    ///
    /// # Errors
    /// When it is not one of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadPeers> {
        let odd = || BadPeers(format!("{} bytes", bytes.len()));
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES).ok_or_else(odd)?;
        let word = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_ne_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        if long(0) != MAGIC || word(8) < VERSION_MIN || word(36) > VERSION {
            let (magic, version, reader) = (long(0), word(8), word(36));
            return Err(BadPeers(format!(
                "magic {magic:#x}, version {version}, for readers from {reader} on"
            )));
        }
        let (nodes, ranks) = (word(12) as usize, word(16) as usize);
        let (firsts, addresses) = rest.split_at_checked(nodes.saturating_mul(4)).ok_or_else(odd)?;
        let (addresses, _) =
            addresses.split_at_checked(ranks.saturating_mul(ADDRESS_BYTES)).ok_or_else(odd)?;
        let firsts =
            firsts.chunks_exact(4).map(|four| u32::from_ne_bytes(four.try_into().expect("four bytes")));
        let address = |bytes: &[u8]| {
            let ip: [u8; 16] = bytes[..16].try_into().expect("16 bytes");
            let port = u16::from_ne_bytes(bytes[16..18].try_into().expect("two bytes"));
            SocketAddr::new(Ipv6Addr::from(ip).to_canonical(), port)
        };
        let addresses = addresses.chunks_exact(ADDRESS_BYTES).map(address).collect();
        Peers::new(long(24), word(20), firsts.collect(), word(32), addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_of(began: u32) -> Peers {
        let address = |rank: u16| SocketAddr::new([10, 0, 0, rank as u8].into(), 1000 + rank);
        let mut addresses: Vec<SocketAddr> = (0..5).map(address).collect();
        addresses[4] = "[fd00::7]:99".parse().unwrap();
        Peers::new(0x0123_4567_89ab_cdef, 1472, vec![0, 2, 3], began, addresses).unwrap()
    }

    fn table() -> Peers {
        table_of(5)
    }

    #[test]
    fn peer_table_knows_the_nodes_of_later_ranks() {
        let peers = Peers::decode(&table_of(4).encode()).unwrap();
        assert_eq!((0..5).map(|rank| peers.node_of(rank)).collect::<Vec<_>>(), [0, 0, 1, 2, 0]);
        assert_eq!(peers.ranks_of(2), 3..4);
    }

    #[test]
    fn peer_table_round_trips() {
        let peers = Peers::decode(&table().encode()).unwrap();
        assert_eq!(peers, table());
        assert_eq!((0..5).map(|rank| peers.node_of(rank)).collect::<Vec<_>>(), [0, 0, 1, 2, 2]);
        assert_eq!((0..3).map(|node| peers.ranks_of(node)).collect::<Vec<_>>(), [0..2, 2..3, 3..5]);
    }

    #[test]
    fn peer_table_of_any_bytes_is_refused_or_valid() {
        let good = table().encode();
        for length in 0..good.len() {
            assert!(Peers::decode(&good[..length]).is_err(), "{length} bytes");
        }
        for at in 0..HEAD_BYTES - 16 {
            let mut bad = good.clone();
            bad[at] ^= 0xff;
            // Any size may be agreed on; the channels refuse one that is too small. A later version is read.
            let is_later = (8..12).contains(&at) && Peers::decode(&bad) == Ok(table());
            assert!(Peers::decode(&bad).is_err() || (20..24).contains(&at) || is_later, "byte {at}");
        }
        let more = [&good[..], &[7; 30]].concat();
        assert_eq!(Peers::decode(&more), Ok(table()), "a later release has added something");
        let mut only_later = good.clone();
        only_later[36] = VERSION as u8 + 1;
        assert!(Peers::decode(&only_later).unwrap_err().to_string().ends_with("for readers from 5 on"));
        let addresses = table().addresses;
        for firsts in [vec![], vec![1], vec![0, 0], vec![0, 3, 2], vec![0, 5]] {
            assert!(Peers::new(0, 1472, firsts.clone(), 5, addresses.clone()).is_err(), "{firsts:?}");
        }
        assert!(Peers::new(0, 1472, vec![0], 1, Vec::new()).is_err());
    }
}
