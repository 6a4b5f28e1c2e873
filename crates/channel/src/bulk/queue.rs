//! Bulk messages of a flow on their way out: a list through the endpoint's places, and what is under way of
//! them together.

use super::{Outgoing, REORDER};

#[derive(Clone, Debug, Default)]
pub(crate) struct BulkQueue {
    first: Option<u16>,
    last: Option<u16>,
    /// Order of the next transmission.
    order: u32,
    /// Bytes of truesize of fragments under way.
    flight: u32,
    /// A fragment whose round trip is timed, and when it left.
    timed: Option<(u32, u64)>,
    /// Bursts that have gone past rests of messages.
    rests_passed: u32,
    /// Bulk has the next turn, before records.
    has_turn: bool,
}

impl BulkQueue {
    /// The place of the first message; each names the next one.
    #[inline]
    pub(crate) fn first(&self) -> Option<u16> {
        self.first
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Adds the message in `slot` behind all others.
    pub(crate) fn push(&mut self, places: &mut [Outgoing], slot: u16) {
        match self.last.replace(slot) {
            Some(last) => places[usize::from(last)].next_slot = Some(slot),
            None => self.first = Some(slot),
        }
    }

    /// Removes the message in `slot`, of which `flying` bytes of truesize were under way.
    pub(crate) fn remove(&mut self, places: &mut [Outgoing], slot: u16, flying: u32) {
        self.flight -= flying;
        let next = places[usize::from(slot)].next_slot.take();
        if self.first == Some(slot) {
            self.first = next;
            self.last = self.last.filter(|_| next.is_some());
            return;
        }
        let mut before = self.first;
        while let Some(here) = before {
            let place = &mut places[usize::from(here)];
            if place.next_slot == Some(slot) {
                place.next_slot = next;
                break;
            }
            before = place.next_slot;
        }
        if self.last == Some(slot) {
            self.last = before;
        }
    }

    /// The order of a transmission that leaves now.
    #[inline]
    pub(crate) fn take_order(&mut self) -> u32 {
        let order = self.order;
        self.order = order.wrapping_add(1);
        order
    }

    /// The order of a question: so far ahead that what was sent before it and is missing in the answer is
    /// lost.
    pub(crate) fn take_question_order(&mut self) -> u32 {
        self.order = self.order.wrapping_add(REORDER);
        self.take_order()
    }

    #[inline]
    pub(crate) fn order(&self) -> u32 {
        self.order
    }

    /// As it was saved.
    pub(crate) fn restore_order(&mut self, order: u32) {
        self.order = order;
    }

    /// Bytes of truesize under way.
    #[inline]
    pub(crate) fn flight(&self) -> u32 {
        self.flight
    }

    /// Notes that fragments of so many bytes of truesize have got their orders and leave.
    #[inline]
    pub(crate) fn note_sent(&mut self, now_ns: u64, bytes: u32) {
        self.timed.get_or_insert((self.order.wrapping_sub(1), now_ns));
        self.flight += bytes;
    }

    /// Notes that fragments of so many bytes have arrived or are lost, by an answer to the transmission
    /// `echo`; when the transmission left whose round trip this ends.
    #[inline]
    pub(crate) fn note_answered(&mut self, bytes: u32, echo: u32) -> Option<u64> {
        self.flight -= bytes;
        let (_, at_ns) = self.timed.take_if(|(order, _)| echo.wrapping_sub(*order).cast_signed() >= 0)?;
        Some(at_ns)
    }

    /// Notes that all under way are lost.
    pub(crate) fn lose_all(&mut self) {
        self.flight = 0;
    }

    /// No round trip is timed: the rank was frozen.
    pub(crate) fn forget_timed(&mut self) {
        self.timed = None;
    }

    /// Whether bulk goes before records this time.
    #[inline]
    pub(crate) fn take_turn(&mut self) -> bool {
        std::mem::take(&mut self.has_turn)
    }

    /// Records have left: messages that are there have the next turn.
    #[inline]
    pub(crate) fn give_turn(&mut self) {
        self.has_turn = !self.is_empty();
    }

    /// Whether a burst may go past the rests before it, of which there are so many.
    #[inline]
    pub(crate) fn try_pass(&mut self, rests: u32, most: u32) -> bool {
        if rests == 0 {
            return true;
        }
        let may_pass = self.rests_passed < most;
        self.rests_passed += u32::from(may_pass);
        may_pass
    }

    /// The rests leave.
    #[inline]
    pub(crate) fn note_rests(&mut self) {
        self.rests_passed = 0;
    }
}
