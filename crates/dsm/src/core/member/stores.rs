//! Stores to copies on their way to the homes: bytes that notes name, and bytes in which a copy is not its
//! twin. A release sends all of them, an acquire those of copies that it is about to drop. What a home stores
//! to units of which copies are updated goes to those at once.

use std::ops::Range;

use super::checks::Checks;
use super::frames::Frames;
use super::knowledge::Knowledge;
use super::port::{Port, Sent};
use super::updates::{self, Updates};
use crate::core::difference;
use crate::core::message::{self, Differences};
use crate::core::page::Pages;
use crate::core::unit::UNIT_BYTES;

/// Copies whose stores go to their homes.
#[derive(Debug)]
pub(super) struct Flush {
    units: Vec<u32>,
    /// The next of them, and its first byte that has not gone.
    next: usize,
    offset: usize,
    /// The next note of those that leave one by one, and how many of its bytes have gone.
    single: usize,
    single_bytes: usize,
}

impl Flush {
    pub(super) fn new(mut units: Vec<u32>, pages: &Pages) -> Self {
        // Those of one home after each other: they share records.
        units.sort_unstable_by_key(|&unit| (pages.home_of(unit), unit));
        Flush { units, next: 0, offset: 0, single: 0, single_bytes: 0 }
    }

    pub(super) fn units(&self) -> &[u32] {
        &self.units
    }

    /// Ends without sending anything: the stores are lost.
    pub(super) fn abandon(&mut self, pages: &mut Pages, checks: &mut Checks, frames: &mut impl Frames) {
        while let Some(unit) = self.units.pop() {
            end_flush(unit, pages, checks, frames);
        }
        pages.drop_flushed();
    }
}

/// The record of stores that is being made.
#[derive(Debug)]
pub(super) struct Stores {
    me: usize,
    differences: Differences,
    /// Bytes about each unit in it.
    put: Vec<(u32, usize)>,
    /// The way on from homes to copies.
    pub(super) updates: Updates,
    sent_records: u64,
    sent_bytes: u64,
}

impl Stores {
    /// Stores of this rank, in records of so many bytes at most.
    pub(super) fn new(me: usize, record_bytes_max: usize, updates: Updates) -> Self {
        Stores {
            me,
            differences: Differences::new(record_bytes_max),
            put: Vec::new(),
            updates,
            sent_records: 0,
            sent_bytes: 0,
        }
    }

    /// Records sent so far, and their bytes.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.sent_records, self.sent_bytes)
    }

    /// Sends notes that are not combined, each in a record of its own; whether all have gone. Those of a unit
    /// that was flushed early may go again: no other node stores to these bytes before this release.
    pub(super) fn advance_singles(
        &mut self,
        flush: &mut Flush,
        pages: &Pages,
        port: &mut impl Port,
        frames: &mut impl Frames,
    ) -> bool {
        if frames.single(0).is_none() {
            return true;
        }
        while let Some((unit, range)) = frames.single(flush.single) {
            // One to which nothing was stored has no right value.
            if pages.is_noted(unit) && pages.is_home(unit) {
                self.updates.begin(self.me);
                self.updates.note_stored(self.me, unit, range.start, range.len());
                (flush.single, flush.single_bytes) = (flush.single + 1, 0);
            } else if pages.is_noted(unit) && flush.single_bytes < range.len() {
                let begin = range.start + flush.single_bytes;
                self.differences.clear();
                self.differences.begin(unit);
                let count = self.differences.put(begin, &frames.frame(unit)[begin..range.end]);
                self.differences.end();
                if pages.is_updated(unit) {
                    self.differences.mark_updated();
                }
                if !self.send(pages.home_of(unit), port) {
                    return false;
                }
                flush.single_bytes += count;
            } else {
                (flush.single, flush.single_bytes) = (flush.single + 1, 0);
            }
        }
        frames.drop_singles();
        // What is left are twins.
        flush.units.iter().for_each(|&unit| frames.drop_notes(unit));
        true
    }

    /// Sends the stores of copies to their homes; whether all have gone.
    pub(super) fn advance_flush(
        &mut self,
        flush: &mut Flush,
        pages: &mut Pages,
        known: &Knowledge,
        checks: &mut Checks,
        port: &mut impl Port,
        frames: &mut impl Frames,
    ) -> bool {
        while let Some(&first) = flush.units.get(flush.next) {
            if pages.is_home(first) {
                self.publish(first, pages, known, checks, frames);
                end_flush(first, pages, checks, frames);
                flush.next += 1;
                continue;
            }
            if checks.is_on() && flush.offset == 0 {
                let mut from = 0;
                while let Some(run) = next_stored(first, from, pages, frames) {
                    from = run.end;
                    checks.check_pointers(first, run, frames);
                }
            }
            let home = pages.home_of(first);
            let (next, offset) = self.fill(flush, pages, checks.is_on().then_some(known), frames);
            if !self.differences.is_empty() {
                if !self.send(home, port) {
                    return false;
                }
                self.put.iter().for_each(|(unit, bytes)| frames.note_sent(*unit, *bytes));
            }
            for &unit in &flush.units[flush.next..next] {
                end_flush(unit, pages, checks, frames);
            }
            (flush.next, flush.offset) = (next, offset);
        }
        pages.drop_flushed();
        true
    }

    /// Makes a record of what fits of units of one home; where to go on in the next record. In a job that is
    /// checked it says when its stores were made, so that homes find races.
    fn fill(
        &mut self,
        flush: &Flush,
        pages: &Pages,
        stamp: Option<&Knowledge>,
        frames: &impl Frames,
    ) -> (usize, usize) {
        let (mut next, mut offset) = (flush.next, flush.offset);
        let (first, home) = (flush.units[next], pages.home_of(flush.units[next]));
        if let Some(known) = stamp {
            self.differences.begin_stamped(known.interval(), frames.site_of(first), known.seen());
        } else {
            self.differences.clear();
        }
        self.put.clear();
        while let Some(&unit) = flush.units.get(next).filter(|unit| pages.home_of(**unit) == home) {
            if !self.differences.begin(unit) {
                break;
            }
            let before = self.differences.record().len();
            let rest = self.put_unit(unit, offset, pages, frames);
            self.differences.end();
            if pages.is_updated(unit) && self.differences.record().len() > before {
                self.differences.mark_updated();
            }
            self.put.push((unit, self.differences.record().len().saturating_sub(before)));
            match rest {
                Some(rest) => offset = rest,
                None => (next, offset) = (next + 1, 0),
            }
            // A stamp is about one unit.
            if rest.is_some() || stamp.is_some() {
                break;
            }
        }
        (next, offset)
    }

    /// Has copies of a unit of this home get what this rank has stored.
    fn publish(
        &mut self,
        unit: u32,
        pages: &Pages,
        known: &Knowledge,
        checks: &mut Checks,
        frames: &impl Frames,
    ) {
        if mutated!(OwnStoresUnsent) {
            return;
        }
        self.updates.begin(self.me);
        let mut from = 0;
        while let Some(run) = next_stored(unit, from, pages, frames) {
            from = run.end;
            self.updates.note_stored(self.me, unit, run.start, run.len());
            checks.note_own(unit, run, known, frames);
        }
    }

    /// Stores of others arrive at this home. None: it is the home of no such unit.
    pub(super) fn handle_differences(
        &mut self,
        from: usize,
        record: &[u8],
        pages: &Pages,
        frames: &mut impl Frames,
    ) -> Option<()> {
        let mut is_home = true;
        if message::is_for_copies(record) {
            self.updates.begin(from);
        }
        message::decode_differences(record, pages.units(), |unit, offset, bytes| {
            if pages.is_served(unit) {
                let is_twinned = pages.is_twinned(unit) && !mutated!(HomeTwinStale);
                updates::store(unit, offset, bytes, is_twinned, frames);
                self.updates.note_stored(from, unit, offset, bytes.len());
            } else {
                is_home = false;
            }
        })
        .filter(|()| is_home)
    }

    /// Adds what of a unit fits from `offset` on; where to go on in the next record.
    fn put_unit(
        &mut self,
        unit: u32,
        mut offset: usize,
        pages: &Pages,
        frames: &impl Frames,
    ) -> Option<usize> {
        while let Some(mut run) = next_stored(unit, offset, pages, frames) {
            if mutated!(WholeWords) {
                run = run.start / 8 * 8..run.end.next_multiple_of(8);
            }
            if mutated!(WholeUnits) {
                run = if offset == 0 { 0..UNIT_BYTES } else { offset..UNIT_BYTES };
            }
            let count = self.differences.put(run.start, &frames.frame(unit)[run.clone()]);
            offset = run.start + count;
            if offset < run.end {
                return Some(offset);
            }
        }
        None
    }

    /// Sends the record that was made; whether there was room.
    fn send(&mut self, home: usize, port: &mut impl Port) -> bool {
        if port.try_send(home, self.differences.record(), &[]) == Sent::Full {
            return false;
        }
        port.note_awaited(home);
        if message::is_for_copies(self.differences.record()) {
            self.updates.note_sent(home);
        }
        self.sent_records += 1;
        self.sent_bytes += self.differences.record().len() as u64;
        true
    }
}

/// The first run of bytes of a copy from `from` on that the program has stored: by notes, by its twin, or by
/// both.
fn next_stored(unit: u32, from: usize, pages: &Pages, frames: &impl Frames) -> Option<Range<usize>> {
    let is_noted = pages.is_noted(unit) && !mutated!(NotesForgotten);
    let noted = is_noted.then(|| frames.next_noted(unit, from)).flatten();
    let is_compared = pages.is_twinned(unit);
    let compared =
        is_compared.then(|| difference::next(frames.frame(unit), frames.twin(unit), from)).flatten();
    match (noted, compared) {
        (Some(noted), Some(compared)) => Some(if noted.start <= compared.start { noted } else { compared }),
        (noted, compared) => noted.or(compared),
    }
}

/// The stores of a copy have gone to its home: a twin and notes are not needed any more.
fn end_flush(unit: u32, pages: &mut Pages, checks: &mut Checks, frames: &mut impl Frames) {
    checks.check_notes(unit, pages, frames);
    if pages.is_twinned(unit) {
        frames.drop_twin(unit);
    }
    if !mutated!(NotesKept) {
        frames.drop_notes(unit);
    }
    pages.note_flushed(unit);
}
