//! Front ends over the death of their daemon: the job goes on, and the next daemon awaits its front end.
//!
//! ```text
//! daemon --Stands, output--> front end      the place of what follows, where it is not that behind the last
//! (daemon dies; the controller says to the next one: Placed, it has a front end)
//! daemon: takes no output, for as long as jobs wait for daemons (keep_ms)
//! front end --Return(places)--> daemon --> reports, output behind these places
//! ```
//!
//! Output that the last daemon had taken and not passed on is lost, which one line says.

use std::collections::BTreeMap;

use super::OriginJob;
use super::output::Passed;
use crate::members::NodeId;

/// Output that a front end has, and whether one is to come back.
#[derive(Debug, Default)]
pub(super) struct Comeback {
    /// The front end knows that this node speaks, and up to where it has come.
    pub(super) known: Option<(NodeId, u64)>,
    /// Place of the front end in the output of each node when it came back.
    places: BTreeMap<NodeId, u64>,
    /// Time until which it is awaited.
    pub(super) until_ms: Option<u64>,
}

impl Comeback {
    /// A front end is to come back until then.
    pub(super) fn expect(&mut self, until_ms: u64) {
        self.until_ms = Some(until_ms);
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.until_ms.is_some()
    }

    /// The front end is back, and has come so far.
    pub(super) fn back_at(places: &[(u32, u64)]) -> Self {
        let places = places.iter().map(|(node, place)| (NodeId(*node), *place)).collect();
        Comeback { known: None, places, until_ms: None }
    }

    /// How far the front end had the output of a node when it came back.
    pub(super) fn place_of(&self, node: NodeId) -> Option<u64> {
        self.places.get(&node).copied()
    }
}

impl OriginJob {
    /// Output that the front end has missed, as far as it is here; and bytes of a node that are not.
    pub(super) fn missed(&self) -> (Vec<Passed>, Vec<(NodeId, u64)>) {
        let mut gaps = Vec::new();
        for (&node, &place) in &self.comeback.places {
            let first = self.log.iter().find(|frame| frame.node == node).map(Passed::start);
            let lost_bytes = first.map_or(0, |first| first.saturating_sub(place));
            if lost_bytes > 0 {
                gaps.push((node, lost_bytes));
            }
        }
        let is_new =
            |frame: &&Passed| self.comeback.place_of(frame.node).is_none_or(|place| frame.end > place);
        (self.log.iter().filter(is_new).cloned().collect(), gaps)
    }
}
