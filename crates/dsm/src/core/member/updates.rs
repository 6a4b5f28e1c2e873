//! Units whose stores go to all copies, in place of notices that drop them (the update protocol). Their home
//! is the only sender: so a copy gets updates and pages in the order in which the home has stored them.
//!
//! ```text
//! writer                home                                  ranks with copies
//! fetch --FETCH-------> Updates::join; the page follows
//! release --DIFFERENCE> Updates::begin, note_stored
//!                       Updates::pump --UPDATE--------------> handle_update: frame, and twin
//!                                     <-----------APPLIED---- as far as all has come
//!                       handle_left   <--------------LEFT---- of a unit that is not there
//! release is over <---SETTLED--- all copies have it
//! ```
//!
//! The home's own stores go the same way from its release on. A release that is over has reached all copies.
//! So nothing waits at an acquire, and a byte on its way is touched by no program without a race: a home
//! keeps the place of what was stored, and loads it when it sends. A page that a home with a twin sends is
//! that of the twin: what the home changes and changes back before its release no update would mend.
//!
//! A copy that is being fetched takes updates too: pieces of its page have come before them. One that is
//! absent drops them, and says LEFT, so that its home sends no more until the next FETCH. LEFT goes while the
//! unit is neither here nor on its way: so it never comes behind a FETCH that brings the unit.

use std::collections::VecDeque;
use std::ops::Range;

use super::fetch::Fetches;
use super::frames::Frames;
use super::port::{Port, Sent};
use crate::core::message::{self, Differences};
use crate::core::page::Pages;
use crate::core::unit::UNIT_BYTES;

/// Units of a home that are not here: it hears of so many at once, and of others after their next update.
const LEFT_MAX: usize = 64;

/// Bytes of a unit that were stored, on their way to a copy.
#[derive(Clone, Debug)]
struct Stored {
    unit: u32,
    bytes: Range<u16>,
    /// The record of differences that they came with, by the order of this home.
    place: u64,
}

/// Rank with copies of units of this home.
#[derive(Debug, Default)]
struct Holder {
    queue: VecDeque<Stored>,
    /// Places up to which all was sent, and was applied there.
    sent: u64,
    applied: u64,
}

impl Holder {
    /// Whether it has all that was stored up to a place.
    fn has(&self, place: u64) -> bool {
        self.applied >= place || (self.queue.is_empty() && self.applied == self.sent)
    }
}

/// Rank that has stored to units of this home.
#[derive(Clone, Debug, Default)]
struct Writer {
    /// Records of it so far, and the place of the last.
    records: u64,
    place: u64,
    /// Records of which it has heard that all copies have them.
    told: u64,
}

/// State of this rank beside a home.
#[derive(Clone, Debug, Default)]
struct Home {
    /// Records of differences to it, and those that all copies have.
    sent: u64,
    settled: u64,
    /// The place up to which its updates are applied here, and of which it has heard.
    applied: u64,
    told: u64,
    /// Units of it that it updates though they are not here; more than [`LEFT_MAX`] have to wait.
    left: Vec<u32>,
}

impl Home {
    fn new() -> Self {
        Home { left: Vec::with_capacity(LEFT_MAX), ..Home::default() }
    }
}

/// Updates of this rank: as a home, as a writer and as one with copies.
#[derive(Debug)]
pub(super) struct Updates {
    me: usize,
    /// The first unit of which copies are updated, and words of bits for each: which ranks have one.
    first: u32,
    words: usize,
    ranks_with: Vec<u64>,
    /// Records of differences so far, those of this rank's releases too.
    place: u64,
    holders: Vec<Holder>,
    writers: Vec<Writer>,
    homes: Vec<Home>,
    record: Differences,
    counts: Counts,
}

/// Counts of updates.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Records to copies, and their bytes.
    pub(super) sent_records: u64,
    /// See above.
    pub(super) sent_bytes: u64,
    /// Records that copies here have taken.
    pub(super) applied_records: u64,
    /// Runs of bytes in them for units that are not here.
    pub(super) unused_runs: u64,
}

impl Updates {
    /// Updates between so many ranks, with records of so many bytes at most.
    pub(super) fn new(me: usize, ranks: usize, pages: &Pages, record_bytes_max: usize) -> Self {
        let (first, words) = (pages.updated_from().min(pages.units()), ranks.div_ceil(u64::BITS as usize));
        Updates {
            me,
            first,
            words,
            ranks_with: vec![0; (pages.units() - first) as usize * words],
            place: 0,
            holders: (0..ranks).map(|_| Holder::default()).collect(),
            writers: vec![Writer::default(); ranks],
            homes: (0..ranks).map(|_| Home::new()).collect(),
            record: Differences::new(record_bytes_max),
            counts: Counts::default(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// A rank gets units of this home: from now on their updates too, as far as there are such.
    pub(super) fn join(&mut self, rank: usize, units: Range<u32>) {
        for unit in units.filter(|unit| *unit >= self.first) {
            let at = (unit - self.first) as usize * self.words + rank / u64::BITS as usize;
            self.ranks_with[at] |= 1 << (rank % u64::BITS as usize);
        }
    }

    /// A record of a rank's stores begins, for [`Updates::note_stored`].
    pub(super) fn begin(&mut self, writer: usize) {
        self.place += 1;
        self.writers[writer].place = self.place;
        self.writers[writer].records += 1;
    }

    /// A rank has stored to a unit of this home: others with copies get it.
    pub(super) fn note_stored(&mut self, writer: usize, unit: u32, offset: usize, count: usize) {
        let Some(number) = unit.checked_sub(self.first).filter(|_| count > 0) else { return };
        let bytes = offset as u16..(offset + count) as u16;
        for word in 0..self.words {
            let mut bits = self.ranks_with[number as usize * self.words + word];
            while bits != 0 {
                let rank = word * u64::BITS as usize + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if rank != writer {
                    let stored = Stored { unit, bytes: bytes.clone(), place: self.place };
                    self.holders[rank].queue.push_back(stored);
                }
            }
        }
    }

    /// A record of differences has gone to a home, which says when all copies have it.
    pub(super) fn note_sent(&mut self, home: usize) {
        self.homes[home].sent += 1;
    }

    /// Whether all copies have what this rank has stored.
    pub(super) fn is_settled(&self) -> bool {
        let is_own_there = self.has_all(self.writers[self.me].place);
        is_own_there
            && (mutated!(ReleaseUnsettled) || self.homes.iter().all(|home| home.settled == home.sent))
    }

    /// Whether nothing waits to be sent to others, or for others to apply it.
    pub(super) fn is_empty(&self) -> bool {
        let is_told = |(rank, writer): (usize, &Writer)| rank == self.me || writer.told == writer.records;
        self.holders.iter().all(|holder| holder.queue.is_empty())
            && self.writers.iter().enumerate().all(is_told)
            && self.homes.iter().all(|home| home.told == home.applied && home.left.is_empty())
    }

    fn has_all(&self, place: u64) -> bool {
        self.holders.iter().all(|holder| holder.has(place))
    }

    /// Sends what a rank has to hear of, as far as there is room.
    pub(super) fn pump(&mut self, to: usize, port: &mut impl Port, frames: &impl Frames) {
        while !self.holders[to].queue.is_empty() {
            let (whole, rest) = self.fill(to, frames);
            match port.try_send(to, self.record.record(), &[]) {
                Sent::Full => break,
                Sent::Taken => self.note_update_sent(to, whole, rest),
                Sent::Gone => {
                    let holder = &mut self.holders[to];
                    holder.queue.clear();
                    holder.applied = holder.sent;
                }
            }
        }
        let home = &self.homes[to];
        if home.told != home.applied
            && port.try_send(to, &message::encode_number(message::APPLIED, home.applied), &[]) != Sent::Full
        {
            self.homes[to].told = self.homes[to].applied;
        }
        let Writer { records, place, told } = self.writers[to];
        let is_due = to != self.me && told != records;
        if is_due
            && (self.has_all(place) || mutated!(SettledBeforeApplied))
            && port.try_send(to, &message::encode_number(message::SETTLED, records), &[]) != Sent::Full
        {
            self.writers[to].told = records;
        }
    }

    /// Tells a home which units it updates though they are not here, as far as there is room.
    pub(super) fn pump_left(&mut self, to: usize, pages: &Pages, fetches: &Fetches, port: &mut impl Port) {
        let left = &mut self.homes[to].left;
        while let Some(&unit) = left.last() {
            let is_wanted = pages.is_present(unit) || fetches.brings(unit);
            if !is_wanted && mutated!(LeftBehindFetch) {
                return;
            }
            let is_due = !is_wanted || mutated!(LeftBehindFetch);
            let record = message::encode_number(message::LEFT, u64::from(unit));
            if is_due && !mutated!(AbsentUpdated) && port.try_send(to, &record, &[]) == Sent::Full {
                return;
            }
            left.pop();
        }
    }

    /// Makes a record of the first places that wait for a rank: how many go wholly, and how many bytes of the
    /// next one.
    fn fill(&mut self, to: usize, frames: &impl Frames) -> (usize, usize) {
        let Updates { holders, record, .. } = self;
        let queue = &holders[to].queue;
        let mut bytes = [0; UNIT_BYTES];
        let (mut whole, mut rest) = (0, 0);
        let mut open: Option<(u32, u16)> = None;
        record.begin_update();
        while let Some(stored) = queue.get(whole) {
            let is_behind = open.is_some_and(|(unit, end)| unit == stored.unit && end <= stored.bytes.start);
            if !is_behind {
                if open.take().is_some() {
                    record.end();
                }
                if !record.begin(stored.unit) {
                    break;
                }
            }
            let begin = usize::from(stored.bytes.start);
            let loaded = &mut bytes[..stored.bytes.len()];
            frames.load(stored.unit, begin, loaded);
            let count = record.put(begin, loaded);
            open = Some((stored.unit, (begin + count) as u16));
            if count < stored.bytes.len() {
                rest = count;
                break;
            }
            whole += 1;
        }
        if open.is_some() {
            record.end();
        }
        // A place is there when all of it is.
        let place = queue.get(whole).map_or_else(|| queue[whole - 1].place, |next| next.place - 1);
        record.end_update(place);
        (whole, rest)
    }

    fn note_update_sent(&mut self, to: usize, whole: usize, rest: usize) {
        let holder = &mut self.holders[to];
        let last = holder.queue.drain(..whole).next_back();
        if let Some(next) = holder.queue.front_mut() {
            next.bytes.start += rest as u16;
            holder.sent = next.place - 1;
        } else if let Some(last) = last {
            holder.sent = last.place;
        }
        self.counts.sent_records += 1;
        self.counts.sent_bytes += self.record.record().len() as u64;
    }

    /// Stores of others arrive at a copy. None: they are not of the home of these units.
    pub(super) fn handle_update(
        &mut self,
        from: usize,
        record: &[u8],
        pages: &Pages,
        fetches: &Fetches,
        frames: &mut impl Frames,
    ) -> Option<()> {
        let (place, rest) = message::decode_update(record)?;
        if from == self.me || place < self.homes[from].applied {
            return None;
        }
        let mut is_right = true;
        let (left, mut unused_runs) = (&mut self.homes[from].left, 0);
        message::decode_differences(rest, pages.units(), |unit, offset, bytes| {
            if pages.home_of(unit) != from || !pages.is_updated(unit) {
                is_right = false;
            } else if pages.is_present(unit) || (fetches.brings(unit) && !mutated!(UpdateDroppedInFetch)) {
                store(unit, offset, bytes, pages.has_twin(unit) && !mutated!(UpdateBesideTwin), frames);
            } else {
                unused_runs += 1;
                if left.len() < LEFT_MAX && !left.contains(&unit) {
                    left.push(unit);
                }
            }
        })
        .filter(|()| is_right)?;
        self.counts.applied_records += 1;
        self.counts.unused_runs += unused_runs;
        self.homes[from].applied = place;
        Some(())
    }

    /// A rank has all updates up to a place. None: so many have not gone to it.
    pub(super) fn handle_applied(&mut self, from: usize, record: &[u8]) -> Option<()> {
        let holder = &mut self.holders[from];
        let place = message::decode_number(record)?;
        holder.applied = (holder.applied..=holder.sent).contains(&place).then_some(place)?;
        Some(())
    }

    /// A rank has no copy of a unit any more. None: it is none of this home of which copies are updated.
    pub(super) fn handle_left(&mut self, from: usize, record: &[u8], pages: &Pages) -> Option<()> {
        let unit = u32::try_from(message::decode_number(record)?).ok()?;
        let number = unit.checked_sub(self.first).filter(|_| unit < pages.units() && pages.is_home(unit))?;
        let at = number as usize * self.words + from / u64::BITS as usize;
        self.ranks_with[at] &= !(1 << (from % u64::BITS as usize));
        Some(())
    }

    /// All copies have so many records of this rank. None: so many have not gone to that home.
    pub(super) fn handle_settled(&mut self, from: usize, record: &[u8]) -> Option<()> {
        let home = &mut self.homes[from];
        let records = message::decode_number(record)?;
        home.settled = (home.settled..=home.sent).contains(&records).then_some(records)?;
        Some(())
    }
}

/// Stores bytes of another rank. They are none of those that this rank's next release sends.
pub(super) fn store(unit: u32, offset: usize, bytes: &[u8], is_twinned: bool, frames: &mut impl Frames) {
    frames.store(unit, offset, bytes);
    if is_twinned {
        frames.store_twin(unit, offset, bytes);
    }
}
