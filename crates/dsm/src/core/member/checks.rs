//! Stores of a job that is checked (`TUTTI_DSM_CHECK=1`): homes look for races, and each rank for stores that
//! its notes lack.

use super::frames::Frames;
use super::knowledge::Knowledge;
use crate::core::check::{Check, Stamp};
use crate::core::difference;
use crate::core::message;
use crate::core::page::Pages;
use crate::core::unit::UNIT_BYTES;
use crate::core::violation::Violation;

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

    /// The program has done what it may not do; the first such thing counts.
    pub(super) fn violate(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
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
        if pages.is_home(unit) && is_first {
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
        frames: &mut impl Frames,
    ) -> Option<()> {
        let (interval, site, seen, rest) = message::decode_stamp(record, self.nodes)?;
        let stamp = Stamp { rank: from, interval, site };
        let Checks { check, own_twins, violation, .. } = self;
        let check = check.as_mut()?;
        let mut is_home = true;
        message::decode_differences(rest, pages.units(), |unit, offset, bytes| {
            if !pages.is_home(unit) {
                is_home = false;
                return;
            }
            frames.store(unit, offset, bytes);
            if own_twins.contains(&unit) {
                frames.store_twin(unit, offset, bytes);
            }
            if let Some(race) = check.note(unit, offset..offset + bytes.len(), stamp, &seen) {
                violation.get_or_insert(Violation::Race { race });
            }
        })
        .filter(|()| is_home)
    }

    /// Checks the stores of this interval to own units.
    pub(super) fn check_own(&mut self, known: &Knowledge, frames: &mut impl Frames) {
        let Checks { check: Some(check), own_twins, me, violation, .. } = self else { return };
        for unit in own_twins.drain(..) {
            let stamp = Stamp { rank: *me, interval: known.interval(), site: frames.site_of(unit) };
            let mut from = 0;
            while let Some(run) = difference::next(frames.frame(unit), frames.twin(unit), from) {
                from = run.end;
                if let Some(race) = check.note(unit, run, stamp, known.seen()) {
                    violation.get_or_insert(Violation::Race { race });
                }
            }
            frames.drop_twin(unit);
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
