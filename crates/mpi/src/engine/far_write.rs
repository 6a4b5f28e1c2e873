//! The write protocol between nodes: receives are advertised to their senders, and messages leave with the
//! call, straight into place. The race rule is that of a node ([`super::rtr`]).
//!
//! ```text
//! receiver                                        sender
//! posts, nothing waits: offers room for its
//! bytes (a bulk name), FAR_RTR  -------------->   keeps it, or finds that a message has crossed it (stale)
//!                                                 a message that would be announced matches: FAR_WRITE, with
//!                                                 the data if they fit, else fragments under the name; no
//! takes FAR_WRITE: it matches that receive  <--   answer is waited for
//! cancels it: RTR_VOID  ---------------------->   forgets it with RTR_VOIDED
//! has RTR_VOIDED: it is withdrawn  <-----------
//! ```
//!
//! Records come once and in order, each way ([`tutti_channel`]), so positions are counts of messages, and a
//! receive that is to be cancelled stays posted until its sender has said that it writes to it no more: what
//! was sent before stands before that in the stream. Fragments may come before their FAR_WRITE, since the
//! room is there; the receive is done when both are.
//!
//! Large receives are advertised, and small ones like one to which a message was announced although it came
//! first: what need not be announced leaves with its call anyway, and is cheaper so.
//!
//! A receive that another message takes (one that need not be announced, one that crossed) has its room taken
//! back. The sender knows: a message takes the first request that it matches, written or not.

use tutti_channel::BULK_BYTES_MAX;
use tutti_runtime::wrong::{self, Wrong};
use tutti_shm::envelope::{FAR_RTR, FAR_WRITE, Head, RTR_VOID, RTR_VOIDED, RTS};

use super::Engine;
use super::far_receives::{FarWrites, OFFERED, Offer};
use super::message::{Message, Mode, REMOTE_WRITE_BYTES_MIN, finish_receive};
use super::remote_client::{Remote, RemoteClient};
use super::remote_state::{Cts, Outgoing, Outlet, Peer, State, send_record};
use super::rtr::{AdvertisedReceive, Arrived, overlap};
use crate::abi::MPI_ANY_TAG;
use tutti_datatype::SignatureWord;

/// Bytes behind the head of FAR_RTR: number, first pending one, messages seen.
const RTR_BYTES: usize = 24;

impl Engine {
    /// Whether receives that are not large are advertised to some rank of another node.
    #[inline(always)]
    pub(super) fn tells_small(&self) -> bool {
        self.remote.as_deref().is_some_and(|remote| remote.state.offers.tells_small)
    }

    /// Whether a receive of so many bytes from a rank of another node would be advertised to it.
    pub(super) fn may_advertise_far(&self, from: usize, bytes: usize) -> bool {
        // A receive of a communicator with guests may fail where it stands; its sender does not know.
        if bytes == 0 || bytes as u64 > BULK_BYTES_MAX || self.may_have_guests() {
            return false;
        }
        self.remote.as_deref().is_some_and(|remote| remote.state.may_tell(from, bytes))
    }

    /// Before a message is sent that may be written: what has arrived tells where to.
    pub(super) fn look_for_far_rtr(&mut self, message: &Message) {
        let may_be_written = |remote: &Remote| {
            let peer = &remote.state.peers[message.to as usize];
            peer.far.is_advertised() && peer.asks(message.buffer.bytes, message.mode)
        };
        if self.remote.as_deref().is_some_and(may_be_written) {
            self.progress_remote(false);
        }
    }

    /// Tells a receive that was just posted to its sender on another node, if the rule allows it.
    #[cold]
    pub(super) fn send_far_rtr(&mut self, index: u32) {
        let from = self.requests.get(index).peer as usize;
        let (mut router, route, mut client) = self.network();
        if !client.tell(&mut router.outbox(route), index) {
            return;
        }
        client.push_out(&mut router.outbox(route));
        if !router.may_wait(from) {
            router.transmit_as(route, &mut client);
        }
    }

    /// Withdraws a receive that was advertised and has no message, when its sender agrees.
    #[cold]
    pub(super) fn cancel_advertised_far(&mut self, index: u32) {
        let request = self.requests.get(index);
        let (from, number) = (request.peer as usize, request.rtr);
        let (mut router, route, mut client) = self.network();
        client.cancel_advertised(from, number);
        client.push_out(&mut router.outbox(route));
        router.transmit_as(route, &mut client);
    }
}

#[cfg(test)]
impl Engine {
    /// How many receives of a rank of another node wait for messages.
    pub(super) fn requests_advertised(&self, by: usize) -> usize {
        self.remote.as_deref().map_or(0, |remote| remote.state.peers[by].far.waiting())
    }
}

impl State {
    /// Whether one more receive may be advertised to a rank.
    fn may_tell(&self, from: usize, bytes: usize) -> bool {
        let peer = &self.peers[from];
        let is_worth_it = bytes > REMOTE_WRITE_BYTES_MIN || peer.far.small.is_some();
        is_worth_it && peer.far.told.has_room() && !peer.has_exited && self.offers.has_room()
    }
}

impl RemoteClient<'_> {
    /// Makes room for the message of a receive that was just posted, and tells its sender. False: the rule
    /// does not allow it, or there is no room.
    fn tell(&mut self, outbox: &mut impl Outlet, index: u32) -> bool {
        let request = self.requests.get(index);
        let (from, bytes) = (request.peer as usize, request.buffer.bytes);
        let FarWrites { told, small, .. } = &self.state.peers[from].far;
        let is_asked_for = |(context, tag)| overlap(request.context, request.tag, context, tag);
        if bytes <= REMOTE_WRITE_BYTES_MIN && !small.is_some_and(is_asked_for) {
            return false;
        }
        let may = self.matching.may_advertise(self.requests, index, |number| told.is_advertised(number));
        let Some(first_pending) = may else { return false };
        let id = OFFERED | ((self.state.offers.last + 1) % OFFERED);
        let Ok(name) = outbox.offer_bulk(from, bytes, id) else { return false };
        let head = Head {
            kind: FAR_RTR,
            context: request.context,
            tag: request.tag,
            length: bytes as u64,
            word: name,
            ..Head::default()
        };
        let numbers = self.state.peers[from].far.tell(first_pending);
        let number = numbers[0];
        self.requests.get_mut(index).rtr = number;
        let offers = &mut self.state.offers;
        offers.last += 1;
        let (written, landed, cancelled) = (false, false, false);
        offers.list.push(Offer { id, from, number, request: index, name, written, landed, cancelled });
        let numbers = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.state.put_off(from, Outgoing::Record(Box::new((head, numbers))));
        self.counters.rtr += 1;
        true
    }

    /// Takes back the rooms that no message comes to; those to which one comes are as long as that.
    pub(super) fn settle_rooms(&mut self, outbox: &mut impl Outlet) {
        for (from, name, bytes) in self.state.offers.confirmed.drain(..) {
            if !outbox.confirm_bulk(name, bytes) {
                wrong::count(from, Wrong::Length);
            }
        }
        self.state.offers.void.drain(..).for_each(|name| outbox.cancel_bulk(name));
    }

    /// A message that is not written has come to a posted receive. One that was announced would have been
    /// written had its sender known of the receive.
    pub(super) fn note_matched(&mut self, from: usize, index: u32, head: &Head) {
        let asks = head.kind == RTS;
        let request = self.requests.get_mut(index);
        let number = std::mem::take(&mut request.rtr);
        let is_small = request.buffer.bytes <= REMOTE_WRITE_BYTES_MIN;
        let far = &mut self.state.peers[from].far;
        if number != 0 {
            far.told.matched(number, asks || is_small);
            far.small = far.small.filter(|_| asks || !is_small);
            if let Some(at) = self.state.offers.position(from, number) {
                self.state.offers.close(at);
            }
        } else if asks && is_small {
            (far.small, self.state.offers.tells_small) = (Some((head.context, head.tag)), true);
        } else if asks {
            far.told.encourage();
        }
    }

    fn cancel_advertised(&mut self, from: usize, number: u64) {
        let Some(at) = self.state.offers.position(from, number) else { return };
        if self.state.peers[from].has_exited {
            return self.withdraw(from, number);
        }
        if !std::mem::replace(&mut self.state.offers.list[at].cancelled, true) {
            self.state.peers[from].far.voids += 1;
            self.state.send_control(from, Head { kind: RTR_VOID, word: number, ..Head::default() });
        }
    }

    /// The receives of a rank that has left which are to be withdrawn are.
    pub(super) fn withdraw_cancelled(&mut self, from: usize) {
        for number in self.state.offers.cancelled_of(from) {
            self.withdraw(from, number);
        }
    }

    /// A receive that was advertised gets no message any more.
    fn withdraw(&mut self, from: usize, number: u64) {
        let offers = &mut self.state.offers;
        let Some(at) = offers.position(from, number).filter(|at| !offers.list[*at].written) else { return };
        let index = offers.list[at].request;
        offers.close(at);
        self.state.peers[from].far.told.withdrawn();
        if self.matching.withdraw(self.requests, index) {
            let request = self.requests.get_mut(index);
            (request.cancelled, request.rtr) = (true, 0);
            self.requests.finish(index);
        }
    }

    /// Applies a record of the write protocol, or nothing of one that is wrong.
    pub(super) fn take_of_far_write(&mut self, from: usize, head: &Head, data: &[u8]) -> Result<(), Wrong> {
        // Guests advertise nothing, and nothing is advertised to them.
        if self.state.peers[from].job != 0 {
            return Err(Wrong::Kind);
        }
        match head.kind {
            FAR_RTR => self.take_far_rtr(from, head, data),
            FAR_WRITE => self.take_far_write(from, head, data),
            RTR_VOID => {
                if head.word == 0 || head.word > self.state.peers[from].far.heard {
                    return Err(Wrong::Answer);
                }
                // Messages that wait for room before the answer may still be written there.
                self.state.send_control(from, Head { kind: RTR_VOIDED, ..*head });
                Ok(())
            }
            _ => {
                let voids = &mut self.state.peers[from].far.voids;
                *voids = voids.checked_sub(1).ok_or(Wrong::Answer)?;
                let offers = &self.state.offers;
                let asked = |at: &usize| offers.list[*at].cancelled;
                // Where there is no such receive any more a message has come first.
                if offers.position(from, head.word).filter(asked).is_some() {
                    self.withdraw(from, head.word);
                }
                Ok(())
            }
        }
    }

    fn take_far_rtr(&mut self, from: usize, head: &Head, data: &[u8]) -> Result<(), Wrong> {
        let data: &[u8; RTR_BYTES] = data.try_into().map_err(|_| Wrong::Form)?;
        if head.length == 0 || head.length > BULK_BYTES_MAX || head.tag < MPI_ANY_TAG {
            return Err(Wrong::Length);
        }
        let (words, _) = data.as_chunks::<8>();
        let numbers = [0, 1, 2].map(|at| u64::from_le_bytes(words[at]));
        let receive = AdvertisedReceive {
            number: 0,
            context: head.context,
            tag: head.tag,
            capacity: head.length as usize,
            address: head.word,
            seen: 0,
            prefers_ring: false,
        };
        match self.state.peers[from].far.hear(receive, numbers)? {
            Arrived::Usable => {}
            Arrived::Stale => self.counters.stale += 1,
            Arrived::Uncertain => self.counters.uncertain += 1,
        }
        Ok(())
    }

    fn take_far_write(&mut self, from: usize, head: &Head, data: &[u8]) -> Result<(), Wrong> {
        let at = self.state.offers.position(from, head.word).ok_or(Wrong::Answer)?;
        let offer = self.state.offers.list[at];
        let room = self.requests.get(offer.request).buffer.bytes;
        if head.length > BULK_BYTES_MAX || offer.written {
            return Err(Wrong::Length);
        }
        let bytes = head.length as usize;
        let wanted = bytes.min(room);
        let is_whole = data.len() == wanted;
        // Where all that there is room for has come, it was a message that needs all of it.
        let has_too_much = offer.landed && (is_whole || wanted < room);
        if has_too_much || !(is_whole || data.is_empty()) {
            return Err(Wrong::Length);
        }
        if self.matching.find_posted(self.requests, from, head.context, head.tag) != Some(offer.request) {
            return Err(Wrong::Order);
        }
        let index = offer.request;
        self.matching.take_posted(self.requests, from, head.context, head.tag);
        let far = &mut self.state.peers[from].far;
        far.note_taken();
        far.told.matched(offer.number, true);
        let request = self.requests.get_mut(index);
        request.suspect_unless_taken(SignatureWord(head.signature), bytes);
        (request.peer, request.tag, request.bytes) = (from as i32, head.tag, bytes);
        let is_done = is_whole || self.state.offers.write(at, wanted);
        if is_whole {
            // SAFETY: the user keeps a receive buffer valid until the receive is done (MPI 3.7); data is a
            // slice, no longer than the buffer.
            unsafe { request.buffer.store(0, data.as_ptr(), data.len()) };
            self.state.offers.close(at);
        }
        if is_done {
            finish_receive(self.requests, index);
        }
        Ok(())
    }

    /// Starts a message that is written to a receive that its receiver has advertised; `None`: it matches
    /// none. Else what is left of it. What fits into a record goes with it; of what is longer than its
    /// receive, as much as there is room for.
    pub(super) fn launch_written(
        &mut self,
        to: usize,
        request: u32,
        mode: Mode,
        outbox: &mut impl Outlet,
    ) -> Option<Option<Outgoing>> {
        let pending = self.requests.get(request);
        let (context, tag, bytes) = (pending.context, pending.tag, pending.buffer.bytes);
        let record_data_max = self.state.record_data_max;
        let peer: &mut Peer = &mut self.state.peers[to];
        // To who has left the message stays announced, for who looks for such sends.
        let receive = peer.far.find(context, tag).filter(|_| !peer.has_exited)?;
        let wanted = bytes.min(receive.capacity);
        let fits = wanted <= record_data_max;
        let head = Head {
            kind: FAR_WRITE,
            context,
            tag,
            number: peer.next_message,
            length: bytes as u64,
            word: receive.number,
            signature: pending.buffer.word().0,
        };
        if !send_record(outbox, to, &head, &pending.buffer, 0, if fits { wanted } else { 0 }) {
            return Some(Some(Outgoing::Send { request, mode }));
        }
        peer.next_message = peer.next_message.wrapping_add(1);
        peer.far.note_sent(context, tag);
        self.requests.get_mut(request).posted = u64::from(head.number);
        if fits {
            // Its receive is there, so a synchronous one is done too.
            self.requests.finish(request);
        } else {
            self.state.to_send.push_back(Cts { to, name: receive.address, request, bytes: wanted });
        }
        self.counters.remote_write += 1;
        self.counters.written_bytes += bytes as u64;
        Some(None)
    }
}

#[cfg(test)]
mod model;
