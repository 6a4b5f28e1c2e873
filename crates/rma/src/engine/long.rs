//! Long operations in the engine ([`super::bulk`]): it begins, clears, sends, stores and ends them.

use std::ptr::NonNull;

use tutti_datatype::Buffer;

use super::bulk::{self, Way};
use super::{Engine, Offered, Port, Pushed, Room, peer};
use crate::operation::Operation;
use crate::region::{Region, Rights};
use crate::wire::{self, Begin, Range, Refusal};

/// Whether bytes of a region may be read or written.
pub(super) fn region_bytes(region: Option<&Region>, range: Range, right: Rights) -> Result<(), Refusal> {
    region.ok_or(Refusal::NoRegion)?.bytes_at(range.offset, range.bytes as usize, right).map(drop)
}

impl Engine {
    /// Begins a long operation; none: it goes by records.
    pub(super) fn push_bulk(&mut self, operation: &mut Operation, port: &mut dyn Port) -> Option<Pushed> {
        let (to, is_read, note) = (operation.to, operation.is_read(), operation.note_whole());
        let (memory, range) = operation.as_bulk().filter(|_| port.has_bulk())?;
        let (memory, bytes) = (memory.clone(), range.bytes as usize);
        if is_read && peer(&mut self.peers, to).gets() == bulk::GETS_MAX {
            return Some(Pushed::Part);
        }
        let number = peer(&mut self.peers, to).await_answer(Buffer::empty(), false, note);
        let way = match is_read {
            true => Way::GetIn { from: to, region: operation.region, number, into: memory, name: 0 },
            false => Way::PutOut { to, region: operation.region, number, from: memory },
        };
        let bulk = self.bulks.insert(way, bytes);
        let mut room = None;
        if is_read {
            let Room::Named(named) = port.accept_bulk(to, bytes, bulk) else {
                self.bulks.remove(bulk);
                peer(&mut self.peers, to).end_answer(number);
                return None;
            };
            if let Some(Way::GetIn { name, .. }) = self.bulks.get_mut(bulk).map(|bulk| &mut bulk.way) {
                *name = named;
            }
            room = Some(named);
        }
        let begin = if is_read { Begin::Fetch } else { Begin::Offer };
        wire::write_request(begin, operation.region, number, &[range], &mut self.head);
        let name_bytes = room.map(u64::to_le_bytes);
        let body = name_bytes.as_ref().map_or(&[][..], |bytes| bytes);
        let offered = port.offer(to, &self.head, body);
        let target = peer(&mut self.peers, to);
        if offered != Offered::Taken {
            target.end_answer(number);
            self.bulks.remove(bulk);
            if let Some(room) = room {
                port.cancel_bulk(to, room);
            }
            return Some(if offered == Offered::Full { Pushed::Part } else { Pushed::Gone });
        }
        target.begin_long(number, bulk, is_read);
        target.note_asked();
        operation.begin_bulk();
        Some(if operation.is_handed_over() { Pushed::All } else { Pushed::Part })
    }

    /// The target has made room for a put.
    pub(super) fn handle_clear(&mut self, from: usize, number: u32, name: u64) {
        let Some(bulk) = peer(&mut self.peers, from).bulk_of(number) else { return };
        let is_new = !self.bulks.to_send.iter().any(|(waiting, _)| *waiting == bulk);
        let is_put = |sent: &bulk::Bulk| matches!(sent.way, Way::PutOut { .. }) && !sent.is_sent;
        if is_new && self.bulks.get(bulk).is_some_and(is_put) {
            self.bulks.to_send.push_back((bulk, name));
        }
    }

    /// Whether the channel sends the bytes of this operation: only its event ends it, whatever the target
    /// says.
    pub(super) fn sends_for(&self, to: usize, number: u32) -> bool {
        let bulk = self.peers.get(to).and_then(|peer| peer.bulk_of(number));
        bulk.and_then(|bulk| self.bulks.get(bulk)).is_some_and(|bulk| bulk.is_sent)
    }

    /// An operation of this rank was refused, and its answer is taken. What the channel sends already ends by
    /// its event.
    pub(super) fn refuse_bulk(&mut self, number: bulk::Tag) {
        if self.bulks.get(number).is_some_and(|bulk| !bulk.is_sent) {
            self.end_bulk(number, None);
        }
    }

    /// Takes a message out; room for one that will not come is given back. Of one that has come the name is
    /// used up: giving that back does nothing.
    fn end_bulk(&mut self, number: bulk::Tag, refusal: Option<Refusal>) {
        let Some(bulk) = self.bulks.remove(number) else { return };
        let (to, region, answer) = match bulk.way {
            Way::PutOut { to, region, number, .. } => {
                peer(&mut self.peers, to).end_long(false);
                (to, region, number)
            }
            Way::GetIn { from, region, number, name, .. } => {
                peer(&mut self.peers, from).end_long(true);
                self.bulks.to_cancel.push((from, name));
                (from, region, number)
            }
            Way::PutIn { from, name, .. } => {
                self.bulks.to_cancel.extend(name.map(|name| (from, name)));
                return;
            }
            Way::GetOut { .. } => return,
        };
        let target = peer(&mut self.peers, to);
        // The number may be another operation's by now, if the peer has answered what it should not.
        if target.bulk_of(answer).is_some_and(|bulk| bulk == number)
            && let Some(awaited) = target.end_answer(answer)
        {
            self.note_end(to, region, awaited.note, refusal);
        }
    }

    /// Makes room, sends, and takes room back, as far as the channel lets it.
    pub(super) fn pump_bulk(&mut self, port: &mut dyn Port) {
        for (from, name) in std::mem::take(&mut self.bulks.to_cancel) {
            port.cancel_bulk(from, name);
        }
        while let Some(number) = self.bulks.to_accept.front().copied() {
            let Some(bulk) = self.bulks.get_mut(number) else { break };
            let bytes = bulk.bytes;
            let Way::PutIn { from, number: answer, name, place } = &mut bulk.way else { break };
            let (from, answer, region) = (*from, *answer, place.region);
            match port.accept_bulk(from, bytes, number) {
                Room::Named(named) => {
                    *name = Some(named);
                    self.bulks.to_accept.pop_front();
                    self.owe(from, wire::clear(answer, named));
                }
                Room::Full => break,
                Room::Never => {
                    self.bulks.remove(number);
                    self.refuse(from, region, answer, Refusal::Malformed);
                }
            }
        }
        while let Some((number, name)) = self.bulks.to_send.front().copied() {
            let Some(bulk) = self.bulks.get_mut(number) else { break };
            match port.send_bulk(bulk.way.peer(), name, bulk.bytes, number) {
                Offered::Taken => {
                    bulk.is_sent = true;
                    self.bulks.to_send.pop_front();
                }
                Offered::Full => break,
                Offered::Gone => self.handle_bulk_refused(number),
            }
        }
    }

    /// A bulk message of this rank has arrived whole; whether that ends an operation of this rank.
    pub fn handle_bulk_sent(&mut self, tag: u64) -> bool {
        let is_own = self.bulks.get(tag).is_some_and(|bulk| matches!(bulk.way, Way::PutOut { .. }));
        self.end_bulk(tag, None);
        is_own
    }

    /// A bulk message for this rank has arrived whole.
    pub fn handle_bulk_received(&mut self, tag: u64) {
        self.end_bulk(tag, None);
    }

    /// The receiver does not know the name, or has left.
    pub fn handle_bulk_refused(&mut self, tag: u64) {
        self.end_bulk(tag, Some(Refusal::Malformed));
    }

    /// A rank has left: what the channel sends to it ends by its event.
    pub(super) fn end_bulks_of(&mut self, rank: usize) {
        for number in self.bulks.of(rank, |bulk| !bulk.is_sent) {
            self.end_bulk(number, Some(Refusal::Gone));
        }
    }

    /// Where bytes of a message belong that has come or goes: contiguous memory only.
    pub fn bulk_place(&self, tag: u64, offset: u64, bytes: usize) -> Option<NonNull<u8>> {
        let bulk = self.bulks.get(tag)?;
        let end = usize::try_from(offset).ok()?.checked_add(bytes)?;
        if end > bulk.bytes {
            return None;
        }
        let in_region = |place: &bulk::Place, right| {
            let at = place.offset.checked_add(offset)?;
            self.region(place.region)?.bytes_at(at, bytes, right).ok()
        };
        match &bulk.way {
            Way::PutOut { from: memory, .. } | Way::GetIn { into: memory, .. } => {
                bulk::address(memory, offset, bytes)
            }
            Way::PutIn { place, .. } => in_region(place, Rights::WRITE),
            Way::GetOut { place, .. } => in_region(place, Rights::READ),
        }
    }

    /// Stores bytes of a message that comes. Those for memory that is closed are dropped.
    pub fn store_bulk(&self, tag: u64, offset: u64, bytes: &[u8]) {
        if let Some(place) = self.bulk_place(tag, offset, bytes.len()) {
            // SAFETY: so many bytes of open memory, or of a result that stays (contract of
            // `Operation::new`).
            unsafe { std::ptr::copy(bytes.as_ptr(), place.as_ptr(), bytes.len()) };
        } else if let Some(Way::GetIn { into, .. }) = self.bulks.get(tag).map(|bulk| &bulk.way)
            && (offset as usize).checked_add(bytes.len()).is_some_and(|end| end <= into.bytes)
        {
            // SAFETY: as above.
            unsafe { into.store(offset as usize, bytes.as_ptr(), bytes.len()) };
        }
    }

    /// Loads bytes of a message that goes. Those of memory that is closed are zeros.
    pub fn load_bulk(&self, tag: u64, offset: u64, into: &mut [u8]) {
        if let Some(place) = self.bulk_place(tag, offset, into.len()) {
            // SAFETY: so many bytes of open memory, or of an origin that stays (contract of
            // `Operation::new`).
            unsafe { std::ptr::copy(place.as_ptr(), into.as_mut_ptr(), into.len()) };
        } else if let Some(Way::PutOut { from, .. }) = self.bulks.get(tag).map(|bulk| &bulk.way)
            && (offset as usize).checked_add(into.len()).is_some_and(|end| end <= from.bytes)
        {
            // SAFETY: as above.
            unsafe { from.load(offset as usize, into.as_mut_ptr(), into.len()) };
        } else {
            into.fill(0);
        }
    }
}

#[cfg(test)]
mod tests;
