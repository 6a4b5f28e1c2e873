//! Clients of other nodes, as a server of regions lets them in ([`tutti_service::entrance`]): a key is good
//! once, for one region of one generation.

use tutti_service::entrance::Entrance;

use super::client::Connection;

/// Region to which a pass lets a client in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    pub line: u32,
    pub generation: u64,
}

/// Clients of other nodes that have not shown their keys yet.
pub(super) type Network = Entrance<Admitted, Connection>;
