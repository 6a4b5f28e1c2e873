//! Changes of what there is, for readers that follow it. Called by `requests`; nothing is kept of a reader.
//!
//! All that there is is compared with what was before at most twice a second, and only when a reader asks,
//! for all readers together. Jobs that are over are not followed.

use std::collections::{BTreeMap, BTreeSet};

use tutti_protocol::users::watch::{Handed, Items, Key, Ledger, SELECTED_MAX, Watch, digest};
use tutti_protocol::users::{NodeRow, Place, Prices};

use super::{Controller, listing};
use crate::core::local::LocalNode;
use crate::core::relay::Relay;
use crate::members::NodeId;
use crate::message::{Answer, JobId, JobRow};

/// All is compared no more often.
const REFRESH_MS: u64 = 500;

/// Changes, and when all was compared last.
#[derive(Debug, Default)]
pub(super) struct Watched {
    ledger: Option<Ledger>,
    compared_ms: u64,
}

impl Watched {
    /// The ledger, if all is to be compared now. The moment at which a controller is asked first tells its
    /// ledger from those of its predecessors.
    fn due(&mut self, local: &LocalNode) -> Option<&mut Ledger> {
        let is_due = self.ledger.is_none() || local.now_ms >= self.compared_ms + REFRESH_MS;
        if !is_due {
            return None;
        }
        self.compared_ms = local.now_ms;
        Some(self.ledger.get_or_insert_with(|| Ledger::new(local.wall_ms)))
    }
}

impl Controller {
    /// Changes since the state that a reader has.
    pub(super) fn watch(&mut self, local: &LocalNode, relay: &Relay, watch: &Watch) -> Answer {
        if !watch.selection.is_bounded() {
            let text = format!("at most {SELECTED_MAX} users, states or names can be selected");
            return Answer::Refused(text);
        }
        let mut watched = std::mem::take(&mut self.watched);
        let lists = Lists::of(self, local);
        if let Some(ledger) = watched.due(local) {
            let jobs = self.list(local, relay, self.jobs.open());
            let jobs: Vec<(Key, u64)> = jobs.iter().map(|row| (Key::Job(row.job), digest(row))).collect();
            ledger.replace(jobs.into_iter().chain(lists.digests()));
        }
        let ledger = watched.ledger.as_mut().expect("it was due at first");
        let changed: BTreeSet<Key> = ledger.delta(watch.since).changed.into_iter().collect();
        let open = self.jobs.open().filter(|(id, _)| changed.contains(&Key::Job(*id)));
        let rows = self.list(local, relay, open);
        let mut rows: BTreeMap<JobId, JobRow> = rows.into_iter().map(|row| (row.job, row)).collect();
        let handed = Handed::new(ledger, watch, |key| match key {
            Key::Job(job) => rows.get(&job).map(digest),
            key => lists.digest_of(key),
        });
        let (mut items, mut others) = (Items::default(), Vec::new());
        for key in handed.keys() {
            match key {
                Key::Job(job) => match rows.remove(&job) {
                    Some(row) if watch.selection.takes(&row) => items.jobs.push(row),
                    _ => others.push(key),
                },
                key => lists.put(key, local, &mut items),
            }
        }
        let changes = handed.changes(ledger, items, others);
        self.watched = watched;
        Answer::Changes(Box::new(changes))
    }
}

/// All that there is beside the jobs.
struct Lists {
    places: BTreeMap<JobId, Place>,
    nodes: BTreeMap<NodeId, NodeRow>,
    prices: Prices,
    settings: u64,
}

impl Lists {
    fn of(controller: &Controller, local: &LocalNode) -> Self {
        let mut prices = controller.prices();
        let places = std::mem::take(&mut prices.places).into_iter().map(|place| (place.job, place));
        let nodes = listing::list_nodes(&controller.jobs, &controller.versions, &controller.drains, local)
            .into_iter();
        Lists {
            places: places.collect(),
            nodes: nodes.map(|row| (row.node, row)).collect(),
            prices,
            settings: digest(&local.config.loaded.settings),
        }
    }

    fn digests(&self) -> impl Iterator<Item = (Key, u64)> {
        let places = self.places.keys().map(|job| Key::Place(*job));
        let nodes = self.nodes.keys().map(|node| Key::Node(*node));
        let keys = places.chain(nodes).chain([Key::Prices, Key::Settings]);
        keys.filter_map(|key| Some((key, self.digest_of(key)?)))
    }

    fn digest_of(&self, key: Key) -> Option<u64> {
        match key {
            Key::Job(_) => None,
            Key::Place(job) => self.places.get(&job).map(digest),
            Key::Node(node) => self.nodes.get(&node).map(digest),
            Key::Prices => Some(digest(&self.prices)),
            Key::Settings => Some(self.settings),
        }
    }

    fn put(&self, key: Key, local: &LocalNode, items: &mut Items) {
        match key {
            Key::Job(_) => {}
            Key::Place(job) => items.places.extend(self.places.get(&job).cloned()),
            Key::Node(node) => items.nodes.extend(self.nodes.get(&node).cloned()),
            Key::Prices => items.prices = Some(Box::new(self.prices.clone())),
            Key::Settings => items.settings = Some(local.config.loaded.settings.clone()),
        }
    }
}
