//! Bulk messages: how they begin and end.

use super::{BulkError, BulkReply, Endpoint, Pending};
use crate::bulk::Incoming;
use crate::ports::FlowMemory;
use crate::types::{BulkId, Rank};

impl<M: FlowMemory> Endpoint<M> {
    /// Accepts a bulk message of `bytes` from `from` and names it. The name is to be sent to `from` in a
    /// record; `tag` is what the sink is called with. When the message is complete there is an event.
    ///
    /// # Errors
    /// Nothing was accepted.
    pub fn accept_bulk(&mut self, from: Rank, bytes: u64, tag: u64) -> Result<BulkId, BulkError> {
        let (slot, id) = self.open_incoming(from, bytes, tag)?;
        self.accepted.push_back(slot);
        if bytes == 0 {
            self.complete_incoming(slot);
        }
        Ok(id)
    }

    /// Accepts a bulk message of at least a byte that may never come. Until its first bytes are here it is
    /// not [`expected`](Self::expected): nothing of another message is received into its memory, which so
    /// stays as it is if [`cancel_bulk`](Self::cancel_bulk) takes the offer back.
    ///
    /// # Errors
    /// Nothing was accepted.
    pub fn offer_bulk(&mut self, from: Rank, bytes: u64, tag: u64) -> Result<BulkId, BulkError> {
        assert!(bytes > 0, "an offer for an empty message");
        let (slot, id) = self.open_incoming(from, bytes, tag)?;
        self.incoming[usize::from(slot)].offer();
        Ok(id)
    }

    /// The message that an offer was made for comes, and is of `bytes`, at most as many as were offered: from
    /// now on it is [`expected`](Self::expected), and complete when so many are here. An offer that is
    /// complete, or was taken back, stays so. `false`: more of it is here already, and nothing has changed.
    pub fn confirm_bulk(&mut self, id: BulkId, bytes: u64) -> bool {
        let slot = id.slot as u16;
        let is_named = |place: &&mut Incoming| place.turn == id.turn && place.flow.is_some();
        let Some(place) = self.incoming.get_mut(usize::from(slot)).filter(is_named) else { return true };
        let (flow, was_offered, offered_bytes) = (place.flow, place.is_offered(), place.bytes);
        if !place.confirm(bytes, self.config.fragment_bytes()) {
            return false;
        }
        if was_offered {
            self.accepted.push_back(slot);
        }
        if place.is_complete() {
            self.complete_incoming(slot);
        } else if let Some(flow) = flow.filter(|_| bytes < offered_bytes) {
            // What was published says how long it is.
            self.flows[usize::from(flow)].hide_bulk(slot);
        }
        true
    }

    fn open_incoming(&mut self, from: Rank, bytes: u64, tag: u64) -> Result<(u16, BulkId), BulkError> {
        let flow = self.check_bulk(from, bytes)?;
        let slot = self.incoming_free.pop().ok_or(BulkError::Full)?;
        let place = &mut self.incoming[usize::from(slot)];
        let id = BulkId { slot: u32::from(slot), turn: place.turn };
        place.begin(flow as u16, tag, bytes, self.config.fragment_bytes());
        Ok((slot, id))
    }

    /// Takes an acceptance back: nothing is stored any more, and there is no event. The name is used up, so a
    /// sender that has not sent the whole message hears of it as of a refusal, and one that has as of its
    /// arrival.
    pub fn cancel_bulk(&mut self, id: BulkId) {
        let Some(place) = self.incoming.get_mut(id.slot as usize).filter(|place| place.turn == id.turn)
        else {
            return;
        };
        let Some(flow) = place.flow.take() else { return };
        place.turn = place.turn.wrapping_add(1);
        let slot = id.slot as u16;
        self.accepted.retain(|accepted| *accepted != slot);
        self.flows[usize::from(flow)].hide_bulk(slot);
        self.incoming_free.push(slot);
    }

    /// Begins to send a bulk message of `bytes` to `to`, who has accepted it as `id`. `tag` is what the
    /// source is called with. When it has arrived there is an event.
    ///
    /// # Errors
    /// Nothing is sent.
    pub fn send_bulk(&mut self, to: Rank, id: BulkId, bytes: u64, tag: u64) -> Result<(), BulkError> {
        let at = self.check_bulk(to, bytes)?;
        let slot = self.outgoing_free.pop().ok_or(BulkError::Full)?;
        self.outgoing[usize::from(slot)].begin(id, tag, bytes, self.config.fragment_bytes());
        if bytes == 0 {
            self.pending.push_back(Pending::Sent { slot, to, tag });
            return Ok(());
        }
        self.flows[at].bulk.push(&mut self.outgoing, slot);
        self.mark(at);
        Ok(())
    }

    fn check_bulk(&self, rank: Rank, bytes: u64) -> Result<usize, BulkError> {
        let at = self.flow(rank).ok_or(BulkError::OutsidePartition(rank.0))?;
        let most = self.config.bulk_bytes_max();
        if bytes > most {
            return Err(BulkError::TooLong { found: bytes, most });
        }
        if self.flows[at].exited {
            return Err(BulkError::Exited(rank.0));
        }
        Ok(at)
    }

    /// The message of this flow that its receiver calls `id`.
    #[inline]
    pub(super) fn find_outgoing(&self, at: usize, id: BulkId) -> Option<u16> {
        let mut slot = self.flows[at].bulk.first();
        while let Some(here) = slot {
            let place = &self.outgoing[usize::from(here)];
            if place.id == id {
                return Some(here);
            }
            slot = place.next_slot;
        }
        None
    }

    /// The message is over for its sender: it arrived, or was refused.
    pub(super) fn end_outgoing(&mut self, at: usize, slot: u16, arrived: bool) {
        let (to, tag) = (self.flows[at].rank, self.outgoing[usize::from(slot)].tag);
        let flying = self.outgoing[usize::from(slot)].lose_all() * self.config.charge_max();
        self.flows[at].bulk.remove(&mut self.outgoing, slot, flying);
        self.pending.push_back(match arrived {
            true => Pending::Sent { slot, to, tag },
            false => Pending::Refused { slot, to, tag },
        });
    }

    /// The message in `slot` is complete: its name is used up, so a late copy of a fragment finds nobody.
    pub(super) fn complete_incoming(&mut self, slot: u16) {
        let place = &mut self.incoming[usize::from(slot)];
        let Some(flow) = place.flow.take() else { return };
        let (tag, id) = (place.tag, BulkId { slot: u32::from(slot), turn: place.turn });
        place.turn = place.turn.wrapping_add(1);
        if let Some(at) = self.accepted.iter().position(|accepted| *accepted == slot) {
            self.accepted.remove(at);
        }
        let (from, echo) = (self.flows[usize::from(flow)].rank, place.echo());
        self.flows[usize::from(flow)].hide_bulk(slot);
        self.pending.push_back(Pending::Received { slot, from, tag });
        self.queue_reply(BulkReply::Done { flow, id, echo });
    }

    /// Where the queue is full the reply is left out: its sender will ask again.
    pub(super) fn queue_reply(&mut self, reply: BulkReply) {
        if self.replies.len() < self.replies.capacity() {
            self.replies.push_back(reply);
        }
    }

    /// The state of the message in `slot` is to be reported to its sender, and published before: once for
    /// many fragments.
    #[inline]
    pub(super) fn queue_bulk_ack(&mut self, slot: u16) {
        let place = &mut self.incoming[usize::from(slot)];
        place.owed = 0;
        if let Some(flow) = place.flow {
            self.flows[usize::from(flow)].show_bulk(slot, place, self.config.fragment_bytes());
        }
        if !place.ack_queued {
            place.ack_queued = true;
            self.queue_state(slot);
        }
    }

    fn queue_state(&mut self, slot: u16) {
        if self.replies.len() < self.replies.capacity() {
            self.replies.push_back(BulkReply::State(slot));
        } else {
            self.incoming[usize::from(slot)].ack_queued = false;
        }
    }

    /// The timer for acknowledgements of bulk messages of this flow has fired.
    pub(super) fn queue_owed_bulk_acks(&mut self, at: usize) {
        for slot in 0..self.incoming.len() as u16 {
            let place = &self.incoming[usize::from(slot)];
            if place.flow == Some(at as u16) && place.owed > 0 {
                self.queue_bulk_ack(slot);
            }
        }
    }

    /// Every message of the flow with fragments under way asks what has arrived.
    pub(super) fn want_bulk_probes(&mut self, at: usize) {
        let mut slot = self.flows[at].bulk.first();
        while let Some(here) = slot {
            let place = &mut self.outgoing[usize::from(here)];
            place.probe_wanted |= place.flying_count > 0;
            slot = place.next_slot;
        }
    }
}
