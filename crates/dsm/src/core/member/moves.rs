//! Homes that move to the only writer: a unit whose home is another rank, and that this rank alone has
//! written in several rounds. A round is what lies between two barriers of all ranks.
//!
//! ```text
//! writer   Arrive, with its wishes: units that it alone wrote in a round before, and wrote in this one
//! keeper   all have come: wishes stay of units that no other rank has written in this round
//! all      Grant, with the moves: the home is another one from here on
//! ```
//!
//! No page moves. The writer has a copy with all stores that happened before the barrier: no other rank has
//! stored in this round, and what others stored before it has seen at the last barrier. The old home has them
//! too, and keeps a copy. Where ranks of its node share its frame each of them takes one of its own, and
//! fetches the unit when it needs it. The keeper alone decides, by the notices of all ranks, which it has: so
//! all ranks hear the same, and where it lacks notices none moves.
//!
//! Nothing is on its way to a home when a rank comes to the barrier: its release waits until homes have
//! applied what it has stored, and a call that fetches is over. A rank that leaves the barrier first may ask
//! the new home before that has heard of the move. The request says so: nobody else asks a rank for what it
//! has wished, so it answers at once. Two barriers cannot be mixed up: the new home has to come to the next.

use std::collections::{BTreeMap, BTreeSet};

use super::knowledge::Knowledge;
use crate::core::message::Message;
use crate::core::page::Pages;
use crate::core::time::VectorTime;
use crate::core::unit::{Move, moves_of};

/// Rounds in which a rank alone writes a unit before it wishes to be its home at the end of another.
const ROUNDS: u8 = 1;

/// Units that come to this rank, and those that may.
#[derive(Debug)]
pub(super) struct Moves {
    me: usize,
    is_on: bool,
    /// Units of other homes that this rank alone has written, and in how many rounds since others did.
    alone: BTreeMap<u32, u8>,
    wished: Vec<Move>,
    come: u64,
}

impl Moves {
    pub(super) fn new(me: usize) -> Self {
        Moves { me, is_on: false, alone: BTreeMap::new(), wished: Vec::new(), come: 0 }
    }

    /// From now on homes move.
    pub(super) fn begin(&mut self) {
        self.is_on = true;
    }

    /// Units whose home has come here.
    pub(super) fn count(&self) -> u64 {
        self.come
    }

    /// Wishes of this rank, which has released all that it has stored, and comes to a barrier of all.
    pub(super) fn wish(&mut self, known: &Knowledge, pages: &Pages) -> Vec<Move> {
        if !self.is_on {
            return Vec::new();
        }
        let own = self.own(known, pages);
        let is_wanted = |unit: &u32| self.alone.get(unit).is_some_and(|rounds| *rounds >= ROUNDS);
        let wanted = own.into_iter().filter(|unit| is_wanted(unit) && pages.may_come(*unit));
        self.wished = moves_of(&wanted.map(|unit| (unit, self.me)).collect());
        self.wished.clone()
    }

    /// A round ends: all have met, and have this grant. Gives the wishes of this rank, which are over.
    pub(super) fn end_round(&mut self, grant: &Message, known: &Knowledge, pages: &Pages) -> Vec<Move> {
        if self.is_on {
            self.count_round(&grant.time, known, pages);
        }
        for one in grant.moves.iter().filter(|one| one.rank == self.me) {
            self.come += u64::from(one.run.count);
            self.alone.retain(|unit, _| !one.run.units().contains(unit));
        }
        std::mem::take(&mut self.wished)
    }

    fn count_round(&mut self, time: &VectorTime, known: &Knowledge, pages: &Pages) {
        let (me, mut own, alone) = (self.me, self.own(known, pages), &mut self.alone);
        let is_known = known.visit_since_met(time, |node, run| {
            if node == me {
                return;
            }
            while let Some((&unit, _)) = alone.range(run.units()).next() {
                alone.remove(&unit);
            }
            while let Some(&unit) = own.range(run.units()).next() {
                own.remove(&unit);
            }
        });
        if !is_known {
            return alone.clear();
        }
        for unit in own {
            let rounds = alone.entry(unit).or_default();
            *rounds = rounds.saturating_add(1);
        }
    }

    /// Units of homes elsewhere that this rank has written in this round.
    fn own(&self, known: &Knowledge, pages: &Pages) -> BTreeSet<u32> {
        let mut own = BTreeSet::new();
        known.visit_since_met(known.seen(), |node, run| {
            if node == self.me {
                own.extend(run.units().filter(|unit| !pages.is_here(*unit)));
            }
        });
        own
    }
}

/// Wishes that are granted, when all have met and see a time: of units that no other rank has written in this
/// round. None where notices are lacking.
pub(super) fn granted(wishes: Vec<Move>, time: &VectorTime, known: &Knowledge) -> Vec<Move> {
    if wishes.is_empty() || mutated!(MovedThoughShared) {
        return wishes;
    }
    let mut homes = BTreeMap::new();
    let mut disputed = BTreeSet::new();
    for (unit, rank) in wishes.iter().flat_map(|one| one.run.units().map(|unit| (unit, one.rank))) {
        if homes.insert(unit, rank).is_some() {
            disputed.insert(unit);
        }
    }
    let is_known = known.visit_since_met(time, |node, run| {
        disputed.extend(homes.range(run.units()).filter(|(_, rank)| **rank != node).map(|(unit, _)| *unit));
    });
    if !is_known {
        return Vec::new();
    }
    homes.retain(|unit, _| !disputed.contains(unit));
    moves_of(&homes)
}
