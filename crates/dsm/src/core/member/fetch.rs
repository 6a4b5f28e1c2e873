//! Units on their way from a home to a rank that has none of them.
//!
//! ```text
//! rank                         home
//! Fetches::advance --FETCH---> Answers::handle_fetch
//! Fetches::handle_page <-PAGE- Answers::pump            pieces, in order, as far as there is room
//! ```
//!
//! A fault allocates nothing, so nothing here does.

use super::frames::Frames;
use super::port::{Port, Sent};
use crate::core::message;
use crate::core::page::Pages;
use crate::core::unit::{HOME_UNITS, Run, UNIT_BYTES};

/// Units on their way here.
#[derive(Clone, Copy, Debug)]
struct Fetch {
    run: Run,
    is_sent: bool,
    got_bytes: usize,
}

/// Requests of this rank; there is one at a time.
#[derive(Debug)]
pub(super) struct Fetches {
    under_way: Option<Fetch>,
    /// The last run that was fetched: a fault at its end asks for more.
    streak: Run,
    requests: u64,
    units: u64,
}

impl Fetches {
    pub(super) fn new() -> Self {
        Fetches { under_way: None, streak: Run { first: 0, count: 0 }, requests: 0, units: 0 }
    }

    /// Requests so far, and units that came by them.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.requests, self.units)
    }

    /// Whether a unit is on its way.
    pub(super) fn brings(&self, unit: u32) -> bool {
        self.under_way.is_some_and(|fetch| fetch.run.units().contains(&unit))
    }

    /// Asks for an absent unit, and perhaps for those behind it; the run, when it is here.
    pub(super) fn advance(&mut self, unit: u32, pages: &Pages, port: &mut impl Port) -> Option<Run> {
        let run = self.predict(unit, pages);
        let fetch = self.under_way.get_or_insert(Fetch { run, is_sent: false, got_bytes: 0 });
        if !fetch.is_sent {
            let home = pages.home_of(unit);
            fetch.is_sent = port.try_send(home, &message::encode_fetch(fetch.run), &[]) != Sent::Full;
            self.requests += u64::from(fetch.is_sent);
        }
        let Fetch { run, got_bytes, .. } = *fetch;
        if got_bytes < run.count as usize * UNIT_BYTES {
            return None;
        }
        self.units += u64::from(run.count);
        (self.under_way, self.streak) = (None, run);
        Some(run)
    }

    /// A piece of what was asked for. None: it is not.
    pub(super) fn handle_page(
        &mut self,
        from: usize,
        record: &[u8],
        pages: &Pages,
        frames: &mut impl Frames,
    ) -> Option<()> {
        let (first, offset, bytes) = message::decode_page(record)?;
        let home = pages.home_of(first.min(pages.units() - 1));
        let fetch = self.under_way.as_mut().filter(|fetch| fetch.run.first == first && home == from)?;
        let room = fetch.run.count as usize * UNIT_BYTES;
        if offset != fetch.got_bytes || bytes.len() > room - offset {
            return None;
        }
        store_piece(first, offset, bytes, pages, frames);
        fetch.got_bytes += bytes.len();
        Some(())
    }

    /// Units asked for with one: a fault behind the last run asks for one of twice its length.
    fn predict(&self, unit: u32, pages: &Pages) -> Run {
        let home = pages.home_of(unit);
        let is_wanted =
            |next: u32| !pages.is_present(next) && !pages.is_blind(next) && pages.home_of(next) == home;
        if pages.is_large(unit) {
            let around = pages.homes().large_around(unit);
            let first = (around.first..unit).rev().take_while(|&next| is_wanted(next)).last().unwrap_or(unit);
            let end = around.end().min(pages.units());
            let count = (unit + 1..end).take_while(|&next| is_wanted(next)).count() as u32;
            return Run { first, count: unit + 1 - first + count };
        }
        let wanted = if unit == self.streak.end() { (2 * self.streak.count).clamp(1, HOME_UNITS) } else { 1 };
        let end = (unit + wanted).min(pages.homes().end_of(unit)).min(pages.units());
        let count = (unit..end).take_while(|&next| next == unit || is_wanted(next)).count();
        Run { first: unit, count: count as u32 }
    }
}

/// Stores a piece of a run of units, but for what this rank has stored to units that were not here.
fn store_piece(first: u32, offset: usize, bytes: &[u8], pages: &Pages, frames: &mut impl Frames) {
    let mut from = 0;
    while from < bytes.len() {
        let (unit, begin) = (first + ((offset + from) / UNIT_BYTES) as u32, (offset + from) % UNIT_BYTES);
        let count = (UNIT_BYTES - begin).min(bytes.len() - from);
        store_part(unit, begin, &bytes[from..from + count], pages, frames);
        from += count;
    }
}

/// The same inside a unit.
fn store_part(unit: u32, begin: usize, bytes: &[u8], pages: &Pages, frames: &mut impl Frames) {
    let end = begin + bytes.len();
    let mut at = begin;
    while at < end {
        let keeps = pages.is_blind(unit) && !mutated!(PageOverStores);
        let noted = keeps.then(|| frames.next_noted(unit, at)).flatten().unwrap_or(end..end);
        let upto = noted.start.min(end);
        frames.store(unit, at, &bytes[at - begin..upto - begin]);
        at = noted.end;
    }
}

/// Loads bytes of a unit of this home for a copy. Stores of this rank that a comparison with a twin has to
/// find are not among them: the release tells copies of bytes that are not those of the twin then, and of
/// none that has had another value meanwhile.
fn load_released(unit: u32, begin: usize, into: &mut [u8], pages: &Pages, frames: &impl Frames) {
    if pages.is_twinned(unit) && !mutated!(UnreleasedSent) {
        into.copy_from_slice(&frames.twin(unit)[begin..begin + into.len()]);
    } else {
        frames.load(unit, begin, into);
    }
}

/// An answer on its way.
#[derive(Clone, Copy, Debug)]
struct Answer {
    run: Run,
    sent_bytes: usize,
}

/// Answers of this home; one at a time to each node.
#[derive(Debug)]
pub(super) struct Answers {
    me: usize,
    by_node: Vec<Option<Answer>>,
}

impl Answers {
    pub(super) fn new(me: usize, nodes: usize) -> Self {
        Answers { me, by_node: vec![None; nodes] }
    }

    /// Whether none waits for room.
    pub(super) fn is_empty(&self) -> bool {
        self.by_node.iter().all(Option::is_none)
    }

    /// A rank asks for units: which. None: they have no home here, or it has asked already.
    pub(super) fn handle_fetch(&mut self, from: usize, record: &[u8], pages: &Pages) -> Option<Run> {
        let run = message::decode_fetch(record, pages.units())?;
        let is_right =
            from != self.me && run.units().all(|unit| pages.is_served(unit)) && self.by_node[from].is_none();
        self.by_node[from] = Some(is_right.then_some(Answer { run, sent_bytes: 0 })?);
        Some(run)
    }

    /// Sends what there is room for.
    pub(super) fn pump(&mut self, to: usize, pages: &Pages, port: &mut impl Port, frames: &impl Frames) {
        let mut piece = [0; UNIT_BYTES];
        let room = (port.record_bytes_max() - message::PAGE_HEAD_BYTES).min(UNIT_BYTES);
        while let Some(answer) = &mut self.by_node[to] {
            let rest = answer.run.count as usize * UNIT_BYTES - answer.sent_bytes;
            let unit = answer.run.first + (answer.sent_bytes / UNIT_BYTES) as u32;
            let begin = answer.sent_bytes % UNIT_BYTES;
            let piece = &mut piece[..room.min(UNIT_BYTES - begin)];
            load_released(unit, begin, piece, pages, frames);
            match port.try_send(to, &message::encode_page(answer.run, answer.sent_bytes), piece) {
                Sent::Taken => answer.sent_bytes += piece.len(),
                Sent::Full => return,
                Sent::Gone => return self.by_node[to] = None,
            }
            if rest == piece.len() {
                self.by_node[to] = None;
            }
        }
    }
}
