//! Long operations: their bytes travel as a bulk message of the channel, straight from memory to memory.
//!
//! ```text
//! put   initiator --OFFER--> target: checks, makes room   --CLEAR(name)--> initiator sends the message
//! get   initiator makes room --FETCH(name)--> target: checks, sends the message
//! ```
//!
//! | state at | is there from | until |
//! |---|---|---|
//! | [`Way::PutOut`], initiator | OFFER has left | the message has arrived, or STATUS |
//! | [`Way::PutIn`], target | OFFER was right | the message has arrived |
//! | [`Way::GetIn`], initiator | FETCH has left | the message has arrived, or STATUS: then the room is taken back |
//! | [`Way::GetOut`], target | FETCH was right | the message has arrived at the initiator |
//!
//! Bytes are read from a region when they are sent, and when they are sent again. So an initiator keeps back
//! what could change them until the message has arrived. A region that is closed meanwhile is not touched any
//! more; who closes one that others may still work on retires it first, and waits until no message has to do
//! with it.

use std::collections::VecDeque;
use std::ptr::NonNull;

use tutti_datatype::Buffer;

use crate::wire::Name;

/// A put of so many bytes goes as a bulk message: a shorter one is over before its target has answered.
pub const PUT_BYTES_MIN: usize = 256 << 10;
/// The same of a get, which needs no answer before.
pub const GET_BYTES_MIN: usize = 64 << 10;
/// The longest.
pub const BYTES_MAX: usize = 1 << 30;
/// Gets that a pair has under way at once, at most.
pub const GETS_MAX: usize = 8;
/// Gets of a rank that are served at once, at most. It is more than [`GETS_MAX`]: a get is over when its
/// bytes have come, which the target learns later.
pub const GETS_SERVED_MAX: usize = 1024;

/// Purpose of a bulk message.
#[derive(Debug)]
pub(super) enum Way {
    PutOut { to: usize, region: Name, number: u32, from: Buffer },
    PutIn { from: usize, number: u32, place: Place, name: Option<u64> },
    GetIn { from: usize, region: Name, number: u32, into: Buffer, name: u64 },
    GetOut { to: usize, place: Place },
}

/// Bytes of a region of this rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub region: Name,
    pub offset: u64,
}

impl Way {
    pub(super) fn peer(&self) -> usize {
        match self {
            Way::PutOut { to: peer, .. }
            | Way::GetOut { to: peer, .. }
            | Way::PutIn { from: peer, .. }
            | Way::GetIn { from: peer, .. } => *peer,
        }
    }
}

#[derive(Debug)]
pub(super) struct Bulk {
    pub way: Way,
    pub bytes: usize,
    /// The channel sends it: it ends by an event.
    pub is_sent: bool,
}

/// Name of a message in the channel: its slot in the low half, and how often that was used before in 24 bits
/// above. Bytes that come under the name of a message that is over meet no later one.
pub(super) type Tag = u64;

/// Bits of a tag that count uses of its slot.
const USES: u32 = (1 << 24) - 1;

#[derive(Debug, Default)]
struct BulkSlot {
    uses: u32,
    bulk: Option<Bulk>,
}

/// The messages of a rank.
#[derive(Debug, Default)]
pub(super) struct Bulks {
    slots: Vec<BulkSlot>,
    free: Vec<u32>,
    /// To be given room.
    pub to_accept: VecDeque<Tag>,
    /// To be sent, with the receiver's name.
    pub to_send: VecDeque<(Tag, u64)>,
    /// Room that is not needed any more, with its name.
    pub to_cancel: Vec<(usize, u64)>,
}

impl Bulks {
    pub(super) fn insert(&mut self, way: Way, bytes: usize) -> Tag {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(BulkSlot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[number as usize];
        slot.bulk = Some(Bulk { way, bytes, is_sent: false });
        u64::from(slot.uses) << 32 | u64::from(number)
    }

    pub(super) fn get(&self, tag: Tag) -> Option<&Bulk> {
        let slot = self.slots.get(tag as u32 as usize)?;
        slot.bulk.as_ref().filter(|_| u64::from(slot.uses) == tag >> 32)
    }

    pub(super) fn get_mut(&mut self, tag: Tag) -> Option<&mut Bulk> {
        let slot = self.slots.get_mut(tag as u32 as usize)?;
        slot.bulk.as_mut().filter(|_| u64::from(slot.uses) == tag >> 32)
    }

    pub(super) fn remove(&mut self, tag: Tag) -> Option<Bulk> {
        self.get(tag)?;
        let number = tag as u32;
        let slot = &mut self.slots[number as usize];
        slot.uses = (slot.uses + 1) & USES;
        let bulk = slot.bulk.take();
        self.free.push(number);
        self.to_accept.retain(|waiting| *waiting != tag);
        self.to_send.retain(|(waiting, _)| *waiting != tag);
        bulk
    }

    /// Messages of a rank of which this holds.
    pub(super) fn of(&self, peer: usize, is_it: impl Fn(&Bulk) -> bool) -> Vec<Tag> {
        let is_of_it = |bulk: &Bulk| bulk.way.peer() == peer && is_it(bulk);
        let all = self.slots.iter().enumerate();
        let of_it = all.filter(|(_, slot)| slot.bulk.as_ref().is_some_and(is_of_it));
        of_it.map(|(number, slot)| u64::from(slot.uses) << 32 | number as u64).collect()
    }

    /// The region elsewhere that a message of this rank's operations is for.
    pub(super) fn region_out(&self, tag: Tag) -> Option<Name> {
        match self.get(tag)?.way {
            Way::PutOut { region, .. } | Way::GetIn { region, .. } => Some(region),
            Way::PutIn { .. } | Way::GetOut { .. } => None,
        }
    }

    /// Whether a message goes from a region of this rank, or comes to it.
    pub(super) fn has_region(&self, name: Name) -> bool {
        self.slots.iter().filter_map(|slot| slot.bulk.as_ref()).any(|bulk| match &bulk.way {
            Way::PutIn { place, .. } | Way::GetOut { place, .. } => place.region == name,
            Way::PutOut { .. } | Way::GetIn { .. } => false,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len() && self.to_cancel.is_empty()
    }
}

/// Where so many bytes of contiguous memory lie.
pub(super) fn address(memory: &Buffer, offset: u64, bytes: usize) -> Option<NonNull<u8>> {
    let end = usize::try_from(offset).ok()?.checked_add(bytes)?;
    let is_inside = memory.map.is_none() && end <= memory.bytes;
    is_inside.then(|| NonNull::new(memory.at.wrapping_add(offset as usize)))?
}
