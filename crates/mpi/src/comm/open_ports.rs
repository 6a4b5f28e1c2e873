//! The ports of this process that are open ([`super::ports`]).

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use tutti_runtime::cluster_names::ClusterName;
use tutti_runtime::user_names::UserName;

/// A name that this process has published: on this node, and on others.
type Published = (UserName, Option<ClusterName>);

/// Ports that are open, by their numbers.
pub(super) type OpenPorts = Rc<RefCell<HashMap<i32, Rc<Port>>>>;

/// The ports of this process.
#[derive(Debug, Default)]
pub struct Ports {
    /// Ports that are open, which their task has too.
    pub(super) open: OpenPorts,
    /// Number of the last port.
    pub(super) last_port: Cell<i32>,
    /// Names that this process has published for other launches, by their services.
    pub(super) published: RefCell<HashMap<Vec<u8>, Published>>,
}

impl Ports {
    /// Names are those of processes that have not left.
    pub fn take_names_back(&self) {
        self.published.borrow_mut().clear();
    }

    /// Whether one was opened: the task of all goes on.
    pub(super) fn are_served(&self) -> bool {
        self.last_port.get() > 0
    }

    /// Whether a rank waits for its connection at one of them.
    pub(super) fn are_asked_by(&self, rank: u32) -> bool {
        let asks = |port: &Rc<Port>| port.waiting.borrow().iter().any(|connection| connection.from == rank);
        self.open.borrow().values().any(asks)
    }
}

/// State that a port and its task share.
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
    /// Number of the connection at that root.
    pub(super) number: u32,
    /// Whether that root stands behind the opener of the port, on both sides alike.
    pub(super) is_behind: bool,
}
