//! Receiving: what an endpoint does with the datagrams that arrive.

use super::{BulkReply, Endpoint, Expected, Pending};
use crate::bulk::{Incoming, NotStored};
use crate::counters::Drop;
use crate::packet::{
    ACK_NOW, Body, CREDIT_UNIT_BYTES, DONE, FRAGMENT_BYTES_BEFORE, FULL, GONE, HEADER_BYTES, Header, Kind,
    REFUSED, SHORT_BYTES, parse, parse_fragment,
};
use crate::path::TIMES_MAX;
use crate::ports::{FlowMemory, Sink, Taken};
use crate::stream::{Acked, Arrived, Waiting};
use crate::timers::NEVER;
use crate::types::{BulkId, Now, Rank};

/// Fragments of a message after which it is acknowledged at once.
const BULK_ACK_EVERY: u32 = 16;
/// Fragments that are expected, at most: as many as travel as one (UDP GRO).
const EXPECTED_MAX: u32 = 64;

/// Where data go that are there already.
struct InPlace;

impl Sink for InPlace {
    fn record(&mut self, _: Rank, _: &[u8]) -> Taken {
        Taken::Full
    }

    fn fragment(&mut self, _: u64, _: u64, _: &[u8]) {}
}

impl<M: FlowMemory> Endpoint<M> {
    /// Takes a datagram in. What it brings goes to `sink`; afterwards there may be something to transmit and
    /// events.
    ///
    /// # Errors
    /// It was dropped whole, and counted; nothing has changed. The owner need do nothing about it.
    #[inline]
    pub fn handle_datagram(&mut self, now: Now, datagram: &[u8], sink: &mut impl Sink) -> Result<(), Drop> {
        self.observe(now);
        let result = self.take_in(now, datagram, sink);
        match result {
            Ok(()) => self.counters.datagrams_in += 1,
            Err(reason) => self.counters.dropped[reason.index()] += 1,
        }
        result
    }

    /// Guesses the next datagrams, so that they can be received where they belong: the fragments
    /// behind the furthest one that was stored of the message that was last heard of, else those of the
    /// message accepted longest ago; of one that lacks but its short end only when there is no other, as its
    /// sender keeps such for later. A guess, and no promise of anybody's.
    #[inline]
    pub fn expected(&self) -> Option<Expected> {
        let fragment_bytes = self.config.fragment_bytes();
        let continues = |place: &&Incoming| !place.is_tail(fragment_bytes);
        let last = Some(&self.incoming[usize::from(self.stored)])
            .filter(|place| place.flow.is_some() && !place.is_offered());
        let place = last.filter(continues).or_else(|| {
            let mut accepted = self.accepted.iter().map(|slot| &self.incoming[usize::from(*slot)]);
            let first = accepted.clone().next();
            accepted.find(continues).or(last).or(first)
        })?;
        let (first, count) = place.missing(place.behind, EXPECTED_MAX);
        let offset = u64::from(first) * fragment_bytes as u64;
        let bytes = (place.bytes - offset).min(u64::from(count) * fragment_bytes as u64) as usize;
        Some(Expected { tag: place.tag, offset, bytes })
    }

    /// Takes a fragment in whose data already lie where [`expected`](Endpoint::expected) said, `offset` bytes
    /// into the message accepted with `tag`. `false`: it is not that fragment, or none, and nothing has
    /// changed; the datagram is to be given whole to [`handle_datagram`](Endpoint::handle_datagram).
    #[inline]
    pub fn handle_placed(&mut self, now: Now, head: &[u8], data: &[u8], tag: u64, offset: u64) -> bool {
        let Some((header, id, place)) = parse_fragment(head, data.len()) else { return false };
        let Ok(at) = self.check_header(&header) else { return false };
        let Ok(Some(message)) = self.find_incoming(at, id) else { return false };
        if place != offset
            || message.tag != tag
            || self.flows[at].closed
            || message.check(offset, data.len(), self.config.fragment_bytes()).is_err()
        {
            return false;
        }
        self.observe(now);
        let Ok(progress) = self.take_ack(at, now, &header) else { return false };
        self.take_fragment(at, now, &header, (id, offset, data), &mut InPlace);
        if progress {
            self.flows[at].note_progress(now.ns, &self.config);
        }
        self.note_deadline(at);
        self.counters.datagrams_in += 1;
        true
    }

    #[inline]
    fn take_in(&mut self, now: Now, datagram: &[u8], sink: &mut impl Sink) -> Result<(), Drop> {
        let (header, body) = parse(datagram).map_err(Drop::Malformed)?;
        let at = self.check_header(&header)?;
        self.check_body(at, &header, &body)?;
        let progress = self.take_ack(at, now, &header)?;
        match body {
            Body::Data(records) => self.take_data(at, now, &header, records, sink)?,
            Body::Fragment { id, offset, bytes } => {
                self.take_fragment(at, now, &header, (id, offset, bytes), sink)
            }
            Body::BulkAck { id, base, words } => self.take_bulk_ack(at, now, &header, id, (base, words))?,
            Body::BulkProbe { id } => self.answer_bulk(at, &header, id),
            Body::Piece { offset, whole, bytes } => {
                self.take_piece(at, now, &header, (offset, whole, bytes), sink)?;
            }
            Body::Empty => self.take_control(at, now, &header),
        }
        if progress {
            self.flows[at].note_progress(now.ns, &self.config);
        }
        self.note_deadline(at);
        Ok(())
    }

    /// A piece of a datagram; the last one to come brings the datagram.
    #[cold]
    fn take_piece(
        &mut self,
        at: usize,
        now: Now,
        header: &Header,
        (offset, whole, bytes): (usize, usize, &[u8]),
        sink: &mut impl Sink,
    ) -> Result<(), Drop> {
        let Some(slot) = self.pieces.take((at as u16, header.seq.0), offset, whole, bytes) else {
            return Ok(());
        };
        let (memory, place) = self.pieces.lend(slot);
        let result = self.take_complete(now, header, &memory[place], sink);
        self.pieces.take_back(memory);
        result
    }

    /// A datagram that has come in pieces: only what can be long comes so.
    fn take_complete(
        &mut self,
        now: Now,
        piece: &Header,
        datagram: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), Drop> {
        let (header, body) = parse(datagram).map_err(Drop::Malformed)?;
        let is_load = matches!(body, Body::Data(_) | Body::Fragment { .. });
        if !is_load || header.from != piece.from {
            return Err(Drop::Wrong);
        }
        self.take_in(now, datagram, sink)
    }

    /// Whether the packet is of this job, for this rank, and from one of the partition: then its flow.
    #[inline]
    fn check_header(&self, header: &Header) -> Result<usize, Drop> {
        if header.key != self.identity.key {
            return Err(Drop::WrongKey);
        }
        if header.to != self.identity.rank {
            return Err(Drop::WrongRank);
        }
        let at = self.flow(header.from).ok_or(Drop::OutsidePartition)?;
        if header.incarnation != self.flows[at].incarnation {
            return Err(Drop::WrongIncarnation);
        }
        Ok(at)
    }

    /// Whether everything in the packet can be true: checked before anything of it changes anything.
    #[inline]
    fn check_body(&self, at: usize, header: &Header, body: &Body<'_>) -> Result<(), Drop> {
        let flow = &self.flows[at];
        if flow.tx.high.is_before(header.ack) {
            return Err(Drop::AckBeyond);
        }
        match *body {
            Body::Data(_) | Body::Fragment { .. } if flow.closed => Err(Drop::Closed),
            Body::Data(_) => {
                let ahead = header.seq.since(flow.rx.nxt);
                if ahead > self.config.fifo_records.cast_signed() { Err(Drop::Wrong) } else { Ok(()) }
            }
            Body::Fragment { id, offset, bytes } => match self.find_incoming(at, id)? {
                Some(place) => match place.check(offset, bytes.len(), self.config.fragment_bytes()) {
                    Err(NotStored::Wrong) => Err(Drop::Wrong),
                    _ => Ok(()),
                },
                None => Ok(()),
            },
            Body::Piece { whole, .. } if !self.pieces.fits(whole) => Err(Drop::Wrong),
            Body::Empty if matches!(header.kind, Kind::SteadyProbe | Kind::SteadyAnswer) => Err(Drop::Wrong),
            _ => Ok(()),
        }
    }

    /// The message called `id`; `None`: it is complete. A name that was never given out is answered by a
    /// refusal when it is asked for, not here.
    #[inline]
    fn find_incoming(&self, at: usize, id: BulkId) -> Result<Option<&Incoming>, Drop> {
        let place = self.incoming.get(id.slot as usize).ok_or(Drop::UnknownBulk)?;
        if id.turn == place.turn {
            return if place.flow == Some(at as u16) { Ok(Some(place)) } else { Err(Drop::UnknownBulk) };
        }
        if id.turn.wrapping_sub(place.turn).cast_signed() < 0 { Ok(None) } else { Err(Drop::UnknownBulk) }
    }

    /// Takes in what every packet says: acknowledgement, credit, room. Returns whether it was progress.
    #[inline]
    fn take_ack(&mut self, at: usize, now: Now, header: &Header) -> Result<bool, Drop> {
        self.silent_since[at] = NEVER;
        let flow = &mut self.flows[at];
        flow.window.credit = u32::from(header.credit) * CREDIT_UNIT_BYTES;
        let mut progress = match flow.tx.handle_ack(&mut flow.memory, header.ack) {
            Acked::Beyond => return Err(Drop::AckBeyond),
            Acked::Old => false,
            Acked::New { charge, timed_ns } => {
                if let Some(at_ns) = timed_ns {
                    flow.window.round_trip(now.ns.saturating_sub(at_ns));
                }
                flow.window.acked(charge);
                true
            }
        };
        if flow.tx.waiting == Waiting::Room && header.flags & FULL == 0 && header.ack == flow.tx.una {
            flow.tx.waiting = Waiting::Acks;
            progress = true;
        }
        if header.flags & GONE != 0 && !flow.exited {
            self.take_leave(at);
            progress = true;
        }
        if progress {
            self.mark(at);
        }
        Ok(progress)
    }

    #[cold]
    fn take_leave(&mut self, at: usize) {
        let flow = &mut self.flows[at];
        flow.exited = true;
        flow.tx.rewind(&mut flow.memory);
        self.pending.push_back(Pending::Exited { rank: flow.rank, unread: flow.tx.held() });
        // A rank leaves when all that it accepted is complete, so what was sent to the end has arrived.
        while let Some(slot) = self.flows[at].bulk.first() {
            let place = &self.outgoing[usize::from(slot)];
            self.end_outgoing(at, slot, place.next == place.fragments);
        }
    }

    #[inline]
    fn take_data(
        &mut self,
        at: usize,
        now: Now,
        header: &Header,
        records: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), Drop> {
        let flow = &mut self.flows[at];
        self.shares.note_active(now.ns, &mut flow.active_in);
        let place = (header.seq, header.rewind);
        let arrived = flow.rx.handle_data(&mut flow.memory, sink, flow.rank, place, records);
        match arrived {
            Arrived::Taken { records } => {
                self.counters.records_in += u64::from(records);
                flow.rx.owed += 1;
                if header.flags & ACK_NOW != 0 || flow.rx.owed >= self.config.ack_every_datagrams {
                    flow.wants.ack = true;
                } else {
                    flow.owe_ack(now.ns, &self.config);
                }
            }
            Arrived::Duplicate => {
                self.counters.duplicates += 1;
                flow.wants.ack = true;
            }
            Arrived::Gap { nack } => {
                self.counters.gaps += 1;
                flow.wants.nack |= nack;
            }
            Arrived::Full { nack } => {
                self.counters.refusals += 1;
                flow.wants.nack |= nack;
            }
            Arrived::Wrong => return Err(Drop::Wrong),
        }
        if self.flows[at].wants.any() {
            self.mark(at);
        }
        Ok(())
    }

    #[inline]
    fn take_fragment(
        &mut self,
        at: usize,
        now: Now,
        header: &Header,
        (id, offset, bytes): (BulkId, u64, &[u8]),
        sink: &mut impl Sink,
    ) {
        self.shares.note_active(now.ns, &mut self.flows[at].active_in);
        let slot = id.slot as usize;
        if id.turn != self.incoming[slot].turn {
            // Complete, and the sender has not heard.
            return self.queue_reply(BulkReply::Done { flow: at as u16, id, echo: header.seq.0 });
        }
        let place = &mut self.incoming[slot];
        place.note_order(header.seq);
        if let Ok(fragment) = place.check(offset, bytes.len(), self.config.fragment_bytes()) {
            sink.fragment(place.tag, offset, bytes);
            place.note_stored(fragment);
            if place.end_offer() {
                self.accepted.push_back(slot as u16);
            }
            self.stored = slot as u16;
            self.counters.fragments_in += 1;
        }
        if place.is_complete() {
            return self.complete_incoming(slot as u16);
        }
        place.owed += 1;
        if place.owed >= BULK_ACK_EVERY || header.flags & ACK_NOW != 0 {
            self.queue_bulk_ack(slot as u16);
        } else {
            self.flows[at].owe_bulk_ack(now.ns, &self.config);
        }
    }

    #[inline]
    fn take_bulk_ack(
        &mut self,
        at: usize,
        now: Now,
        header: &Header,
        id: BulkId,
        (base, words): (u32, &[u8]),
    ) -> Result<(), Drop> {
        // An acknowledgement of a message that is over is late.
        let Some(slot) = self.find_outgoing(at, id) else { return Ok(()) };
        let charge = self.config.charge_max();
        let (place, flow) = (&mut self.outgoing[usize::from(slot)], &mut self.flows[at]);
        let done = header.flags & DONE != 0;
        // Its name is used up, and it cannot be complete: the receiver has taken its room back.
        let is_given_up = done && place.next < place.fragments;
        if header.flags & REFUSED != 0 || is_given_up {
            self.end_outgoing(at, slot, false);
        } else {
            if place.next < base {
                return Err(Drop::Wrong);
            }
            let acked = place.handle_ack(if done { place.next } else { base }, words, header.echo);
            let is_long = FRAGMENT_BYTES_BEFORE as u64 + place.bytes > SHORT_BYTES as u64;
            let has_vanished = is_long && place.vanished >= TIMES_MAX;
            let sent_ns = flow.bulk.note_answered((acked.arrived + acked.lost) * charge, header.echo);
            flow.window.acked(acked.arrived * charge);
            flow.window.lost(acked.lost * charge);
            self.counters.fragments_lost += u64::from(acked.lost);
            if let Some(sent_ns) = sent_ns {
                flow.window.round_trip(now.ns.saturating_sub(sent_ns));
            }
            if has_vanished {
                self.note_narrow(at, now.ns);
            }
            let place = &self.outgoing[usize::from(slot)];
            if place.is_complete() || done {
                self.end_outgoing(at, slot, true);
            } else if acked.arrived + acked.lost == 0 {
                return Ok(());
            }
        }
        self.flows[at].note_progress(now.ns, &self.config);
        self.mark(at);
        Ok(())
    }

    /// The sender of a message asks what is here.
    #[cold]
    fn answer_bulk(&mut self, at: usize, header: &Header, id: BulkId) {
        let (flow, echo) = (at as u16, header.seq.0);
        match self.find_incoming(at, id) {
            Ok(Some(_)) => {
                let place = &mut self.incoming[id.slot as usize];
                place.note_order(header.seq);
                self.queue_bulk_ack(id.slot as u16);
            }
            Ok(None) => self.queue_reply(BulkReply::Done { flow, id, echo }),
            Err(_) => {
                self.counters.dropped[Drop::UnknownBulk.index()] += 1;
                self.queue_reply(BulkReply::Refused { flow, id, echo });
            }
        }
    }

    fn take_control(&mut self, at: usize, now: Now, header: &Header) {
        let flow = &mut self.flows[at];
        match header.kind {
            Kind::Probe => {
                flow.wants.answer = Some(header.echo);
                self.mark(at);
            }
            Kind::Nack if header.echo == flow.tx.rewind && header.ack == flow.tx.una => {
                let lost = if header.flags & FULL != 0 { 0 } else { self.config.charge_max() };
                self.go_back(at, now, header, lost);
            }
            Kind::Answer if flow.tx.is_own_probe(header.echo) && header.ack == flow.tx.una => {
                let lost = if header.flags & FULL != 0 { 0 } else { flow.tx.flight() };
                self.go_back(at, now, header, lost);
            }
            Kind::PathProbe => {
                flow.wants.path_answer = Some(header.echo);
                self.mark(at);
            }
            Kind::PathAnswer => flow.path.handle_answer(header.echo),
            Kind::Ack if header.flags & ACK_NOW != 0 => {
                flow.wants.ack = true;
                self.mark(at);
            }
            _ => (),
        }
    }

    /// Long datagrams do not get through: those that are lost, and all others, go in pieces.
    #[cold]
    fn note_narrow(&mut self, at: usize, now_ns: u64) {
        if self.config.datagram_bytes > SHORT_BYTES && self.flows[at].path.become_narrow(now_ns) {
            self.counters.paths_narrowed += 1;
        }
    }

    /// The stream goes back to what the other side expects; if it has no room there, it waits.
    #[cold]
    fn go_back(&mut self, at: usize, now: Now, header: &Header, lost: u32) {
        let payload_max = (self.config.datagram_bytes - HEADER_BYTES) as u32;
        let flow = &mut self.flows[at];
        if flow.exited {
            return;
        }
        if flow.tx.is_outstanding() {
            let (first, _) = flow.tx.fifo.run(flow.tx.una, flow.tx.nxt, payload_max);
            let is_long = HEADER_BYTES + first.len() > SHORT_BYTES;
            let has_vanished = header.flags & FULL == 0 && is_long && flow.path.has_vanished(flow.tx.una);
            if has_vanished {
                self.note_narrow(at, now.ns);
            }
            let flow = &mut self.flows[at];
            flow.tx.rewind(&mut flow.memory);
            flow.window.lost(lost);
            self.counters.rewinds += 1;
        }
        let flow = &mut self.flows[at];
        if header.flags & FULL == 0 || flow.tx.nxt == flow.tx.una {
            flow.tx.waiting = Waiting::Acks;
            flow.note_progress(now.ns, &self.config);
        } else if flow.tx.waiting != Waiting::Room {
            flow.tx.waiting = Waiting::Room;
            flow.note_progress(now.ns, &self.config);
        }
        self.mark(at);
    }
}
