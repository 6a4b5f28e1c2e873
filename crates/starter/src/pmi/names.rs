//! Names of ports that ranks have published, for the programs of their job. On several nodes all starters
//! have the same.

use std::collections::BTreeMap;

/// Names that are published at once, at most.
const NAMES_MAX: usize = 1024;

/// Wish of a rank about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameChange {
    /// Publication of a name for a port: the name, the port.
    Publish(Vec<u8>, Vec<u8>),
    /// Withdrawal of a name.
    Unpublish(Vec<u8>),
}

impl NameChange {
    /// The line that answers it.
    pub(super) fn answer(&self, is_done: bool) -> &'static str {
        match (self, is_done) {
            (NameChange::Publish(..), true) => "cmd=publish_result rc=0 info=ok",
            (NameChange::Publish(..), false) => {
                "cmd=publish_result rc=-1 msg=name_is_published info=duplicate"
            }
            (NameChange::Unpublish(_), true) => "cmd=unpublish_result rc=0 info=ok",
            (NameChange::Unpublish(_), false) => "cmd=unpublish_result rc=-1 msg=no_such_name info=not_found",
        }
    }
}

/// The names, each with the rank that has published it and its port.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<Vec<u8>, (u32, Vec<u8>)>);

impl Names {
    /// A new name; `false` if there is one already, or too many.
    pub(super) fn publish(&mut self, rank: u32, service: &[u8], port: &[u8]) -> bool {
        let is_new = !self.0.contains_key(service) && self.0.len() < NAMES_MAX;
        if is_new {
            self.0.insert(service.to_vec(), (rank, port.to_vec()));
        }
        is_new
    }

    /// Whether there was such a name.
    pub(super) fn unpublish(&mut self, service: &[u8]) -> bool {
        self.0.remove(service).is_some()
    }

    /// The port of a name.
    pub(super) fn port(&self, service: &[u8]) -> Option<&[u8]> {
        self.0.get(service).map(|(_, port)| &port[..])
    }

    /// Forgets ranks that are gone, and what they have published.
    pub(super) fn forget(&mut self, ranks: &[u32]) {
        self.0.retain(|_, (publisher, _)| !ranks.contains(publisher));
    }
}
