//! The list of reservations, and the changes of it that are on their way to the disk.

use std::collections::VecDeque;

use tutti_protocol::reservation::Reservation;

use super::answers::Requester;
use crate::core::action::Action;
use crate::core::local::LocalNode;
use crate::gang::Command;
use crate::members::NodeId;

/// A clock that is set by less is none of the scheduler's business, in ms.
const CLOCK_MS: u64 = 1000;

/// A change that is not kept yet.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) requester: Requester,
    pub(super) new: Result<Reservation, String>,
}

/// Knowledge of the scheduler.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// Numbers, and whether each has begun.
    reservations: Vec<(u32, bool)>,
    /// How far the clock of the wall was before that of the machine.
    ahead_ms: u64,
}

/// All reservations, and changes on their way to the disk.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    pub(super) all: Vec<Reservation>,
    /// The first is being written.
    pub(super) changes: VecDeque<Change>,
    pub(super) told: Option<Told>,
}

impl Reservations {
    /// Question that is answered when the file is written.
    pub(super) fn answers(&self, requester: Requester) -> bool {
        self.changes.iter().any(|change| change.requester == requester)
    }

    /// Reservations that are not over, in the order of their times.
    pub(super) fn list(&self, now_ms: u64) -> Vec<Reservation> {
        let mut all: Vec<_> = self.all.iter().filter(|one| !one.is_over(now_ms)).cloned().collect();
        all.sort_by_key(|one| (one.from_ms, one.number));
        all
    }

    /// The reservation of this name that is not over.
    pub(super) fn of(&self, name: &str, now_ms: u64) -> Option<&Reservation> {
        self.all.iter().find(|one| one.name == name && !one.is_over(now_ms))
    }

    /// The list as it is after the next change.
    pub(super) fn changed(&self, now_ms: u64) -> Option<Vec<Reservation>> {
        let mut all = self.list(now_ms);
        match &self.changes.front()?.new {
            Ok(new) => {
                // One that an earlier controller has kept is in the list already.
                all.retain(|one| one.name != new.name);
                all.push(new.clone());
            }
            Err(name) => all.retain(|one| one.name != *name),
        }
        Some(all)
    }

    /// Contents to be written next.
    pub(super) fn write_next(&self, now_ms: u64) -> Option<Action> {
        self.changed(now_ms).map(Action::KeepReservations)
    }

    /// Knowledge that the scheduler is to have now.
    pub(super) fn state(&self, local: &LocalNode) -> Told {
        let now_ms = local.wall_ms;
        let all = self.all.iter().filter(|one| !one.is_over(now_ms));
        let reservations = all.map(|one| (one.number, one.is_open(now_ms))).collect();
        Told { reservations, ahead_ms: now_ms.saturating_sub(local.boot_ms) }
    }

    /// Whether the scheduler knows how it is now, or nothing is to be known.
    pub(super) fn is_up_to_date(&self, local: &LocalNode) -> bool {
        let state = self.state(local);
        let is_empty = state.reservations.is_empty()
            && self.told.as_ref().is_none_or(|told| told.reservations.is_empty());
        is_empty
            || self.told.as_ref().is_some_and(|told| {
                told.reservations == state.reservations && told.ahead_ms.abs_diff(state.ahead_ms) < CLOCK_MS
            })
    }

    /// Word to the scheduler which nodes are reserved, and when.
    pub(super) fn command(&self, local: &LocalNode) -> Action {
        let members = local.members.iter().flat_map(|members| &members.nodes);
        let members: Vec<(&str, NodeId)> =
            members.map(|(node, member)| (member.about.name.as_str(), *node)).collect();
        let all = self.all.iter().filter(|one| !one.is_over(local.wall_ms));
        let told = all.map(|one| {
            let nodes = members.iter().filter(|(name, _)| one.nodes.iter().any(|node| node == name));
            let in_ms = one.from_ms.saturating_sub(local.wall_ms);
            (one.number, nodes.map(|(_, node)| *node).collect(), in_ms)
        });
        Action::Gang(Command::Reserve(told.collect()))
    }

    /// Why a job that names a reservation waits for that.
    pub(super) fn text(&self, name: &str, now_ms: u64) -> Option<String> {
        match self.of(name, now_ms) {
            Some(one) if one.is_open(now_ms) => None,
            Some(_) => Some(format!("until reservation {name} begins (tutti reserve)")),
            None => Some(format!("reservation {name} is over, or was removed")),
        }
    }
}
