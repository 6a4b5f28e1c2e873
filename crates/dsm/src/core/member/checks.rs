//! Stores of a job that is checked (`TUTTI_DSM_CHECK=1`): homes look for races, and each rank for stores that
//! its notes lack, and for pointers that mean nothing to others.

use std::ops::Range;

use super::frames::Frames;
use super::knowledge::Knowledge;
use super::updates::Updates;
use crate::core::check::{Check, Race, Stamp};
use crate::core::difference;
use crate::core::message;
use crate::core::page::Pages;
use crate::core::unit::UNIT_BYTES;
use crate::core::violation::Violation;

/// Bytes of a pointer, which lies at a multiple of them.
const WORD_BYTES: usize = size_of::<u64>();

/// State of the checks; off at first.
#[derive(Debug)]
pub(super) struct Checks {
    check: Option<Box<Check>>,
    /// Own units with a twin to check by.
    own_twins: Vec<u32>,
    me: usize,
    nodes: usize,
    violation: Option<Violation>,
}

impl Checks {
    pub(super) fn new(me: usize, nodes: usize) -> Self {
        Checks { check: None, own_twins: Vec::new(), me, nodes, violation: None }
    }

    /// The program has done what it may not do; the first such thing counts, and one that ends the job before
    /// one that does not.
    pub(super) fn violate(&mut self, violation: Violation) {
        if self.violation.as_ref().is_none_or(|first| first.is_doubt() && !violation.is_doubt()) {
            self.violation = Some(violation);
        }
    }

    /// The first thing that the program was not allowed to do.
    pub(super) fn take_violation(&mut self) -> Option<Violation> {
        self.violation.take()
    }

    /// From now on stores are checked.
    pub(super) fn begin(&mut self) {
        self.check = Some(Box::default());
    }

    /// Whether stores are checked.
    pub(super) fn is_on(&self) -> bool {
        self.check.is_some()
    }

    /// The program is about to store to a unit, for the first time in this interval or not.
    pub(super) fn note_store(
        &mut self,
        unit: u32,
        is_first: bool,
        pages: &mut Pages,
        frames: &mut impl Frames,
    ) {
        if self.check.is_none() {
            return;
        }
        if pages.is_home(unit) && !pages.is_updated(unit) && is_first {
            frames.make_twin(unit);
            self.own_twins.push(unit);
        } else if pages.note_checked(unit) {
            frames.make_twin(unit);
        }
    }

    /// Differences of a rank, with their stamp.
    pub(super) fn handle_stamped(
        &mut self,
        from: usize,
        record: &[u8],
        pages: &Pages,
        updates: &mut Updates,
        frames: &mut impl Frames,
    ) -> Option<()> {
        let (interval, site, seen, rest) = message::decode_stamp(record, self.nodes)?;
        let stamp = Stamp { rank: from, interval, site };
        let Checks { check, own_twins, me, .. } = self;
        let check = check.as_mut()?;
        let mut is_home = true;
        let mut races = Vec::new();
        if message::is_for_copies(record) {
            updates.begin(from);
        }
        message::decode_differences(rest, pages.units(), |unit, offset, bytes| {
            if !pages.is_served(unit) {
                is_home = false;
                return;
            }
            let stored = offset..offset + bytes.len();
            let before = frames.frame(unit)[stored.clone()].to_vec();
            let is_same = |at: usize| before[at - offset] == bytes[at - offset];
            if own_twins.contains(&unit) {
                // Own stores of this interval: who sends this one cannot have seen them, nor they this one.
                let twin = &frames.twin(unit)[stored.clone()];
                let is_own = |at: &usize| before[at - offset] != twin[at - offset];
                let mut own = stored.clone().filter(is_own).peekable();
                if let Some(first) = own.peek().copied() {
                    let other = own.find(|at| !is_same(*at));
                    let at = other.unwrap_or(first);
                    let own = Stamp { rank: *me, interval: 0, site: frames.site_of(unit) };
                    let offset = unit as u64 * UNIT_BYTES as u64 + at as u64;
                    races.push(Race { offset, first: own, second: stamp, is_same: other.is_none() });
                }
            }
            let race = check.note(unit, stored, stamp, &seen, is_same);
            races.extend(race);
            frames.store(unit, offset, bytes);
            if own_twins.contains(&unit) || (pages.has_twin(unit) && !mutated!(HomeTwinStale)) {
                frames.store_twin(unit, offset, bytes);
            }
            updates.note_stored(from, unit, offset, bytes.len());
        })
        .filter(|()| is_home)?;
        races.into_iter().for_each(|race| self.violate(Violation::Race { race }));
        Some(())
    }

    /// Checks the stores of this interval to own units.
    pub(super) fn check_own(&mut self, known: &Knowledge, frames: &mut impl Frames) {
        for unit in std::mem::take(&mut self.own_twins) {
            let mut from = 0;
            while let Some(run) = difference::next(frames.frame(unit), frames.twin(unit), from) {
                from = run.end;
                self.note_own(unit, run, known, frames);
            }
            frames.drop_twin(unit);
        }
    }

    /// Checks bytes of a unit of this home that this rank has stored.
    pub(super) fn note_own(
        &mut self,
        unit: u32,
        bytes: Range<usize>,
        known: &Knowledge,
        frames: &impl Frames,
    ) {
        let Some(check) = &mut self.check else { return };
        let stamp = Stamp { rank: self.me, interval: known.interval(), site: frames.site_of(unit) };
        if let Some(race) = check.note(unit, bytes.clone(), stamp, known.seen(), |_| false) {
            self.violate(Violation::Race { race });
        }
        self.check_pointers(unit, bytes, frames);
    }

    /// Looks whether bytes that this rank has stored are part of the address of something that no other rank
    /// has there.
    pub(super) fn check_pointers(&mut self, unit: u32, bytes: Range<usize>, frames: &impl Frames) {
        for at in (bytes.start / WORD_BYTES..bytes.end.div_ceil(WORD_BYTES)).map(|word| word * WORD_BYTES) {
            let word = frames.frame(unit)[at..].first_chunk().expect("a unit has whole words");
            let address = u64::from_le_bytes(*word);
            if let Some(place) = frames.private_place(unit, address) {
                let (node, offset) = (self.me, unit as u64 * UNIT_BYTES as u64 + at as u64);
                let site = frames.site_of(unit);
                return self.violate(Violation::Private { node, offset, address, place, site });
            }
        }
    }

    /// Looks whether each byte of a copy that has changed since its first noted store is in a note.
    pub(super) fn check_notes(&mut self, unit: u32, pages: &mut Pages, frames: &mut impl Frames) {
        if !pages.take_checked(unit) {
            return;
        }
        let mut from = 0;
        while let Some(run) = difference::next(frames.frame(unit), frames.twin(unit), from) {
            from = run.end;
            let mut at = run.start;
            while at < run.end {
                let noted = frames.next_noted(unit, at).filter(|noted| noted.start == at);
                let Some(noted) = noted else {
                    let offset = unit as u64 * UNIT_BYTES as u64 + at as u64;
                    self.violate(Violation::Unnoted { node: self.me, offset, site: frames.site_of(unit) });
                    frames.drop_twin(unit);
                    return;
                };
                at = noted.end;
            }
        }
        frames.drop_twin(unit);
    }
}
