//! Knowledge of two ranks of different nodes about each other's receives: those that are advertised
//! ([`Offers`]), and for each pair the numbers of the race rule ([`FarWrites`]). What is done with it stands
//! in [`super::far_write`].

use tutti_runtime::wrong::Wrong;

use super::rtr::{AdvertisedReceive, Arrived, RtrReceiver, RtrSender};

/// Receives that are advertised and have no message yet, over all senders: each holds a place among the bulk
/// messages of this process.
const OFFERS_MAX: usize = 64;
/// Tags of bulk messages into advertised receives have it; the rest is the number of the offer.
pub(super) const OFFERED: u64 = 1 << 40;
/// Knowledge that two ranks of different nodes have of each other's receives.
#[derive(Debug)]
pub(super) struct FarWrites {
    /// Receives of the peer.
    pub requests: RtrSender,
    /// Messages sent to it.
    pub sent: u64,
    /// The last receive that it has advertised.
    pub heard: u64,
    /// Receives advertised to it.
    pub told: RtrReceiver,
    /// Messages taken from it.
    pub taken: u64,
    /// RTR_VOID without an answer.
    pub voids: u32,
    /// Context and tag of a message that the peer announced although its receive is not large and came first:
    /// receives that such a message matches are advertised, too, until one comes eagerly.
    pub small: Option<(u32, i32)>,
}

impl Default for FarWrites {
    /// State of a pair before anything is sent or advertised.
    fn default() -> Self {
        FarWrites {
            requests: RtrSender::lasting(),
            sent: 0,
            heard: 0,
            told: RtrReceiver::default(),
            taken: 0,
            voids: 0,
            small: None,
        }
    }
}

impl FarWrites {
    /// Whether the peer has ever advertised a receive.
    pub(super) fn is_advertised(&self) -> bool {
        self.heard > 0
    }

    /// A message's record was put into the FIFO: it takes its request, if there is one.
    #[inline]
    pub(super) fn note_sent(&mut self, context: u32, tag: i32) {
        self.sent += 1;
        self.requests.record(self.sent, context, tag);
    }

    /// Receives of the peer that wait for their messages.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.requests.count()
    }

    /// The receive to which the next message of such an envelope is written.
    pub(super) fn find(&self, context: u32, tag: i32) -> Option<AdvertisedReceive> {
        self.requests.find(context, tag).copied()
    }

    /// A message of the peer has come.
    #[inline]
    pub(super) fn note_taken(&mut self) {
        self.taken += 1;
    }

    /// A receive that was just posted may be advertised, as the next one.
    pub(super) fn tell(&mut self, first_pending: Option<u64>) -> [u64; 3] {
        let number = self.told.upcoming();
        self.told.add(number);
        [number, first_pending.unwrap_or(number), self.taken]
    }

    /// A receive of the peer is advertised.
    pub(super) fn hear(
        &mut self,
        mut receive: AdvertisedReceive,
        numbers: [u64; 3],
    ) -> Result<Arrived, Wrong> {
        let [number, pending_from, seen] = numbers;
        if number <= self.heard || pending_from > number || seen > self.sent || self.requests.is_full() {
            return Err(Wrong::Order);
        }
        (receive.number, receive.seen, self.heard) = (number, seen, number);
        Ok(self.requests.handle_request(receive, pending_from, 0, self.sent))
    }

    /// The answer RTR_VOIDED is in the FIFO: nothing behind it is written to this receive.
    #[cold]
    pub(super) fn forget(&mut self, number: u64) {
        self.requests.withdraw(number);
    }
}

/// A receive that is advertised, until its message is there or it is withdrawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    /// In the tag of its bulk message.
    pub id: u64,
    pub from: usize,
    /// Number under which it was advertised.
    pub number: u64,
    pub request: u32,
    /// Of its room.
    pub name: u64,
    /// FAR_WRITE has come.
    pub written: bool,
    /// Complete: all bytes are there.
    pub landed: bool,
    /// To be withdrawn when its sender agrees.
    pub cancelled: bool,
}

/// The receives that are advertised.
#[derive(Debug, Default)]
pub(super) struct Offers {
    pub list: Vec<Offer>,
    pub last: u64,
    /// Rooms whose messages come: sender, name, bytes.
    pub confirmed: Vec<(usize, u64, usize)>,
    /// Rooms to be taken back.
    pub void: Vec<u64>,
    /// Some rank has announced a message that is not large to a receive that came first.
    pub tells_small: bool,
}

impl Offers {
    /// Whether there is room for one more.
    pub(super) fn has_room(&self) -> bool {
        self.list.len() < OFFERS_MAX
    }

    /// The request that a bulk message goes to by its tag; none: it was advertised, and is not any more.
    #[inline]
    pub(super) fn receive_of(&self, tag: u64) -> Option<u32> {
        if tag & OFFERED == 0 {
            return Some(tag as u32);
        }
        self.list.iter().find(|offer| offer.id == tag).map(|offer| offer.request)
    }

    /// Whether the message of the receive with this tag has been announced.
    #[inline]
    pub(super) fn is_written(&self, tag: u64) -> bool {
        self.list.iter().any(|offer| offer.id == tag && offer.written)
    }

    pub(super) fn position(&self, from: usize, number: u64) -> Option<usize> {
        self.list.iter().position(|offer| (offer.from, offer.number) == (from, number))
    }

    /// The bulk message with this tag is complete: the request that is done by it.
    pub(super) fn land(&mut self, tag: u64) -> Option<u32> {
        if tag & OFFERED == 0 {
            return Some(tag as u32);
        }
        let at = self.list.iter().position(|offer| offer.id == tag)?;
        self.list[at].landed = true;
        self.list[at].written.then(|| self.list.swap_remove(at).request)
    }

    /// Notes that its message has been announced, of which so many bytes come: whether they are all there.
    pub(super) fn write(&mut self, at: usize, bytes: usize) -> bool {
        let offer = &mut self.list[at];
        offer.written = true;
        if offer.landed {
            self.list.swap_remove(at);
            return true;
        }
        self.confirmed.push((offer.from, offer.name, bytes));
        false
    }

    /// A receive gets no message by the room that it was advertised with.
    pub(super) fn close(&mut self, at: usize) {
        let offer = self.list.swap_remove(at);
        self.void.push(offer.name);
    }

    /// Receives of a rank that are to be withdrawn: it answers no more.
    pub(super) fn cancelled_of(&self, from: usize) -> Vec<u64> {
        let waits = |offer: &&Offer| offer.from == from && offer.cancelled && !offer.written;
        self.list.iter().filter(waits).map(|offer| offer.number).collect()
    }
}
