//! The ports of this process that are open ([`super::ports`]).

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use tutti_runtime::cluster_names::ClusterName;
use tutti_runtime::user_names::UserName;

/// The ports of this process.
#[derive(Debug, Default)]
pub struct Ports {
    /// Those that are open, by their numbers.
    pub(super) open: HashMap<i32, Rc<Port>>,
    /// Number of the last port.
    pub(super) last_port: i32,
    /// Names that this process has published for other launches, by their services.
    pub(super) published: HashMap<Vec<u8>, (UserName, Option<ClusterName>)>,
    /// Number of the last connection or join that this process has begun.
    last_connection: u32,
}

impl Ports {
    /// Names are those of processes that have not left.
    pub fn take_names_back(&mut self) {
        self.published.clear();
    }

    /// The number of the next connection: at most 30 bits, so that a tag has room for a direction.
    pub(super) fn next_connection(&mut self) -> u32 {
        self.last_connection = self.last_connection.wrapping_add(1) & (u32::MAX >> 2);
        self.last_connection
    }
}

/// What a port and its task share.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) is_open: Cell<bool>,
    pub(super) waiting: RefCell<VecDeque<Connection>>,
}

/// A connection that a root has asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    /// World rank of the connecting root.
    pub(super) from: u32,
    /// Its number there.
    pub(super) number: u32,
    /// That root stands behind the opener of the port, on both sides alike.
    pub(super) is_behind: bool,
}
