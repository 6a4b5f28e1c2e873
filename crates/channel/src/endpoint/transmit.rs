//! Transmission: the datagrams that leave an endpoint.

use super::{BulkReply, Endpoint, Transmit};
use crate::bulk::Outgoing;
use crate::flow::Flow;
use crate::packet::{
    ACK_NOW, CONTROL_BYTES_MAX, DONE, FRAGMENT_BYTES_BEFORE, FRAGMENT_HEAD_BYTES, HEADER_BYTES, Header, Kind,
    REFUSED, SHORT_BYTES, write_bulk_ack, write_fragment_head, write_header,
};
use crate::pieces;
use crate::ports::{FlowMemory, Source};
use crate::types::{BulkId, Now, Rank, Seq};

impl<M: FlowMemory> Endpoint<M> {
    /// Writes the next datagram, or a burst of bulk fragments to one rank, into `into`. `None`: nothing to
    /// send now. What was handed out may be lost, sent late or twice.
    ///
    /// # Panics
    /// When `into` is shorter than [`Config::transmit_bytes_min`](crate::Config::transmit_bytes_min). With
    /// [`Config::burst_datagrams`](crate::Config::burst_datagrams) times the longest datagram, bursts are as
    /// long as they may be.
    #[inline]
    pub fn poll_transmit(&mut self, now: Now, source: &mut impl Source, into: &mut [u8]) -> Option<Transmit> {
        assert!(into.len() >= self.config.transmit_bytes_min(), "a buffer shorter than a datagram");
        self.observe(now);
        while let Some(reply) = self.replies.pop_front() {
            if let Some(transmit) = self.transmit_reply(reply, into) {
                return Some(transmit);
            }
        }
        while let Some(at) = self.ready.pop_front() {
            let at = usize::from(at);
            self.flows[at].queued = false;
            if let Some(transmit) = self.transmit_flow(at, now, source, into) {
                if self.has_more(at) {
                    self.mark(at);
                }
                self.note_deadline(at);
                return Some(transmit);
            }
            self.flows[at].note_silence(now.ns, &self.config);
            self.note_deadline(at);
        }
        None
    }

    /// Whether the flow may have more to send; asked again when its turn comes.
    #[inline]
    fn has_more(&self, at: usize) -> bool {
        let flow = &self.flows[at];
        flow.wants.any() || flow.tx.has_data() || !flow.bulk.is_empty()
    }

    #[inline]
    fn transmit_flow(
        &mut self,
        at: usize,
        now: Now,
        source: &mut impl Source,
        into: &mut [u8],
    ) -> Option<Transmit> {
        if self.flows[at].wants.any()
            && let Some(transmit) = self.transmit_control(at, into)
        {
            return Some(transmit);
        }
        if !self.flows[at].exited {
            let load = if self.flows[at].path.is_narrow() {
                self.transmit_in_pieces(at, now, source, into)
            } else {
                self.transmit_load(at, now, source, into)
            };
            if load.is_some() {
                return load;
            }
        }
        self.flows[at].wants.ack.then(|| self.write_control(at, Kind::Ack, 0, into))
    }

    /// Records or fragments; where there are both they take turns.
    #[inline]
    fn transmit_load(
        &mut self,
        at: usize,
        now: Now,
        source: &mut impl Source,
        into: &mut [u8],
    ) -> Option<Transmit> {
        let bulk_first = self.flows[at].bulk.take_turn();
        if bulk_first && let Some(transmit) = self.transmit_bulk(at, now, source, into) {
            return Some(transmit);
        }
        if let Some(transmit) = self.transmit_data(at, now, into) {
            self.flows[at].bulk.give_turn();
            return Some(transmit);
        }
        if bulk_first { None } else { self.transmit_bulk(at, now, source, into) }
    }

    /// The same, one datagram at a time and in pieces where it is long.
    #[cold]
    fn transmit_in_pieces(
        &mut self,
        at: usize,
        now: Now,
        source: &mut impl Source,
        into: &mut [u8],
    ) -> Option<Transmit> {
        if let Some(trial) = self.flows[at].path.poll_trial(now.ns) {
            return Some(self.write_trial(at, trial, into));
        }
        let mut whole = std::mem::take(&mut self.whole);
        let sent = self.transmit_load(at, now, source, &mut whole);
        let sent = sent.map(|sent| self.cut(at, &whole[..sent.bytes], into));
        self.whole = whole;
        sent
    }

    fn cut(&mut self, at: usize, whole: &[u8], into: &mut [u8]) -> Transmit {
        let flow = &mut self.flows[at];
        if whole.len() <= SHORT_BYTES {
            into[..whole.len()].copy_from_slice(whole);
            return one(flow.rank, whole.len());
        }
        let mut header = flow.header(&self.identity, self.shares.share(), Kind::Piece);
        header.seq = Seq(flow.path.number);
        flow.path.number = flow.path.number.wrapping_add(1);
        let bytes = pieces::cut(&header, whole, into);
        // The datagram itself has been counted.
        self.counters.datagrams_out += bytes.div_ceil(SHORT_BYTES) as u64 - 1;
        self.counters.datagrams_cut += 1;
        Transmit { to: flow.rank, bytes, segment_bytes: SHORT_BYTES, lies_in: None }
    }

    /// The longest datagram there is, with nothing in it.
    fn write_trial(&mut self, at: usize, trial: u32, into: &mut [u8]) -> Transmit {
        let bytes = self.config.datagram_bytes;
        let flow = &mut self.flows[at];
        let mut header = flow.header(&self.identity, self.shares.share(), Kind::PathProbe);
        header.echo = trial;
        write_header(&header, bytes - HEADER_BYTES, into);
        into[HEADER_BYTES..bytes].fill(0);
        self.counters.probes += 1;
        self.counters.datagrams_out += 1;
        one(flow.rank, bytes)
    }

    /// Datagrams that may leave together: one that is to be cut leaves by itself.
    #[inline]
    pub(super) fn burst_max(&self, at: usize) -> usize {
        if self.flows[at].path.is_narrow() { 1 } else { self.config.burst_datagrams }
    }

    /// Everything small but a plain acknowledgement, which had better ride on data.
    #[cold]
    fn transmit_control(&mut self, at: usize, into: &mut [u8]) -> Option<Transmit> {
        let flow = &mut self.flows[at];
        if std::mem::take(&mut flow.wants.nack) {
            let echo = flow.rx.nacked;
            return Some(self.write_control(at, Kind::Nack, echo, into));
        }
        if let Some(echo) = flow.wants.answer.take() {
            return Some(self.write_control(at, Kind::Answer, echo, into));
        }
        if let Some(echo) = flow.wants.path_answer.take() {
            return Some(self.write_control(at, Kind::PathAnswer, echo, into));
        }
        if std::mem::take(&mut flow.wants.probe) && !flow.exited {
            flow.tx.probe = flow.tx.probe.wrapping_add(1);
            let echo = flow.tx.probe;
            self.counters.probes += 1;
            return Some(self.write_control(at, Kind::Probe, echo, into));
        }
        // Records that are still to be sent carry the question themselves.
        if flow.wants.ask && flow.tx.cursor == flow.tx.nxt {
            flow.wants.ask = false;
            if flow.tx.is_outstanding() && !flow.exited {
                return Some(self.write_question(at, into));
            }
        }
        if self.flows[at].wants.bulk_probe {
            let probe = self.transmit_bulk_probe(at, into);
            self.flows[at].wants.bulk_probe = probe.is_some();
            return probe;
        }
        None
    }

    /// Asks for an acknowledgement. Other than the answer to a probe it says nothing of what is lost, so it
    /// may be asked for while records are under way.
    fn write_question(&mut self, at: usize, into: &mut [u8]) -> Transmit {
        let flow = &mut self.flows[at];
        let mut header = flow.header(&self.identity, self.shares.share(), Kind::Ack);
        header.flags |= ACK_NOW;
        write_header(&header, 0, into);
        self.counters.datagrams_out += 1;
        one(flow.rank, HEADER_BYTES)
    }

    fn write_control(&mut self, at: usize, kind: Kind, echo: u32, into: &mut [u8]) -> Transmit {
        let flow = &mut self.flows[at];
        let mut header = flow.header(&self.identity, self.shares.share(), kind);
        header.echo = echo;
        if kind == Kind::Probe {
            (header.seq, header.rewind) = (flow.tx.cursor, flow.tx.rewind);
        }
        write_header(&header, 0, into);
        self.counters.datagrams_out += 1;
        one(flow.rank, HEADER_BYTES)
    }

    /// Datagrams with records: as many as may leave, all of one length but the last, so that they travel as
    /// one run.
    #[inline]
    fn transmit_data(&mut self, at: usize, now: Now, into: &mut [u8]) -> Option<Transmit> {
        let burst_max = self.burst_max(at);
        let flow = &mut self.flows[at];
        let payload_max = self.config.datagram_bytes - HEADER_BYTES;
        let (mut count, mut bytes, mut segment_bytes) = (0, 0, into.len());
        while count < burst_max && flow.tx.has_data() {
            let (place, end) = flow.tx.fifo.run(flow.tx.cursor, flow.tx.nxt, payload_max as u32);
            let length = HEADER_BYTES + place.len();
            let charge = self.config.charges.of(length);
            let flight = flow.flight();
            if length > segment_bytes.min(into.len() - bytes) || !flow.window.allows(flight, charge) {
                break;
            }
            let mut header = flow.header(&self.identity, self.shares.share(), Kind::Data);
            (header.seq, header.rewind) = (flow.tx.cursor, flow.tx.rewind);
            // The sender has to stop, or soon will: the window is full, or half of the FIFO waits for
            // acknowledgements.
            let stops = !flow.window.allows(flight + charge, self.config.charge_max());
            let asks = flow.wants.ask && end == flow.tx.nxt;
            if stops || asks || flow.tx.fifo.is_half_full(flow.tx.held()) {
                header.flags |= ACK_NOW;
                flow.wants.ask &= end != flow.tx.nxt;
            }
            let datagram = &mut into[bytes..bytes + length];
            write_header(&header, place.len(), datagram);
            datagram[HEADER_BYTES..].copy_from_slice(&flow.memory.fifo()[place]);
            flow.tx.note_sent(&mut flow.memory, end, charge, now.ns);
            (count, bytes) = (count + 1, bytes + length);
            if count > 1 && length < segment_bytes {
                break;
            }
            segment_bytes = length;
        }
        if count == 0 {
            return None;
        }
        flow.note_departure(now.ns, &self.config);
        self.counters.datagrams_out += count as u64;
        Some(Transmit { to: flow.rank, bytes, segment_bytes, lies_in: None })
    }

    pub(super) fn transmit_fragments(
        &mut self,
        at: usize,
        slot: usize,
        now: Now,
        source: &mut impl Source,
        into: &mut [u8],
    ) -> Option<Transmit> {
        let (fragment_bytes, charge) = (self.config.fragment_bytes(), self.config.charge_max());
        let burst_max = self.burst_max(at);
        let (flow, place) = (&mut self.flows[at], &mut self.outgoing[slot]);
        let lies_in =
            if flow.path.is_narrow() { None } else { source.slice(place.tag, 0, 1).map(|_| place.tag) };
        let written_bytes = if lies_in.is_some() { 0 } else { fragment_bytes };
        let segment_bytes = FRAGMENT_BYTES_BEFORE + written_bytes;
        let room = flow.window.room(flow.flight(), charge) as usize;
        let count_max = room.min(burst_max).min(into.len() / segment_bytes);
        if count_max == 0 {
            return None;
        }
        let (mut count, mut bytes) = (0, 0);
        let mut header = flow.header(&self.identity, self.shares.share(), Kind::Fragment);
        // Lost ones are the end of a run: its beginning is what the receiver expects, and has places ready
        // for.
        let mut lost = place.lost_count();
        while count < count_max {
            let new = if count + lost < count_max { place.sendable_new() } else { None };
            let Some(fragment) = new.or_else(|| place.sendable()) else { break };
            lost -= usize::from(new.is_none());
            // The last two that may leave: the sender waits from here on, and one of them may be lost.
            let stops = count + 2 >= room;
            let (offset, length) =
                write_head(flow, place, &mut header, (fragment, fragment_bytes, stops), &mut into[bytes..]);
            let datagram = &mut into[bytes..bytes + FRAGMENT_BYTES_BEFORE + length.min(written_bytes)];
            if lies_in.is_none() {
                source.read(place.tag, offset, &mut datagram[FRAGMENT_BYTES_BEFORE..]);
            }
            bytes += datagram.len();
            count += 1;
            if length < fragment_bytes {
                break;
            }
        }
        self.note_fragments(at, now, count);
        let to = self.flows[at].rank;
        Some(Transmit { to, bytes, segment_bytes: segment_bytes.min(bytes), lies_in })
    }

    /// Notes that so many fragments of a flow leave.
    #[inline]
    pub(super) fn note_fragments(&mut self, at: usize, now: Now, count: usize) {
        let flow = &mut self.flows[at];
        flow.bulk.note_sent(now.ns, count as u32 * self.config.charge_max());
        flow.note_departure(now.ns, &self.config);
        self.counters.datagrams_out += count as u64;
        self.counters.fragments_out += count as u64;
    }

    fn transmit_bulk_probe(&mut self, at: usize, into: &mut [u8]) -> Option<Transmit> {
        let mut slot = self.flows[at].bulk.first();
        while let Some(here) = slot {
            let place = &mut self.outgoing[usize::from(here)];
            if std::mem::take(&mut place.probe_wanted) {
                let id = place.id;
                let flow = &mut self.flows[at];
                let mut header = flow.header(&self.identity, self.shares.share(), Kind::BulkProbe);
                header.seq = Seq(flow.bulk.take_question_order());
                write_header(&header, 8, into);
                into[HEADER_BYTES..HEADER_BYTES + 8].copy_from_slice(&id.to_bits().to_le_bytes());
                self.counters.probes += 1;
                self.counters.datagrams_out += 1;
                return Some(one(flow.rank, HEADER_BYTES + 8));
            }
            slot = place.next_slot;
        }
        None
    }

    /// An acknowledgement of a bulk message; `None`: it has become complete meanwhile, and that is told
    /// instead.
    fn transmit_reply(&mut self, reply: BulkReply, into: &mut [u8]) -> Option<Transmit> {
        const { assert!(CONTROL_BYTES_MAX <= 256) };
        let (at, id, echo, flags) = match reply {
            BulkReply::Done { flow, id, echo } => (flow, id, echo, DONE),
            BulkReply::Refused { flow, id, echo } => (flow, id, echo, REFUSED),
            BulkReply::State(slot) => {
                let place = &mut self.incoming[usize::from(slot)];
                if !std::mem::take(&mut place.ack_queued) {
                    return None;
                }
                (place.flow?, BulkId { slot: u32::from(slot), turn: place.turn }, place.echo(), 0)
            }
        };
        let (base, (words, used)) = match flags {
            0 => (self.incoming[id.slot as usize].base, self.incoming[id.slot as usize].bitmap()),
            _ => (0, Default::default()),
        };
        let flow: &mut Flow<M> = &mut self.flows[usize::from(at)];
        let mut header = flow.header(&self.identity, self.shares.share(), Kind::BulkAck);
        header.flags |= flags;
        header.echo = echo;
        let length = write_bulk_ack(id, base, &words[..used], &mut into[HEADER_BYTES..]);
        write_header(&header, length, into);
        self.counters.datagrams_out += 1;
        let to = flow.rank;
        self.note_deadline(usize::from(at));
        Some(one(to, HEADER_BYTES + length))
    }
}

/// Writes what stands before the data of a fragment, which leaves with that; gives the place of the data in
/// the message, and their bytes. `stops`: the sender has to stop behind it, or soon will.
#[inline]
pub(super) fn write_head<M>(
    flow: &mut Flow<M>,
    place: &mut Outgoing,
    header: &mut Header,
    (fragment, fragment_bytes, stops): (u32, usize, bool),
    into: &mut [u8],
) -> (u64, usize) {
    let offset = u64::from(fragment) * fragment_bytes as u64;
    let length = (place.bytes - offset).min(fragment_bytes as u64) as usize;
    let order = flow.bulk.take_order();
    place.note_sent(fragment, order);
    header.seq = Seq(order);
    let probe_flags = if stops || place.sendable().is_none() { ACK_NOW } else { 0 };
    header.flags = header.flags & !ACK_NOW | probe_flags;
    write_header(header, FRAGMENT_HEAD_BYTES + length, into);
    write_fragment_head(place.id, offset, &mut into[HEADER_BYTES..]);
    (offset, length)
}

fn one(to: Rank, bytes: usize) -> Transmit {
    Transmit { to, bytes, segment_bytes: bytes, lies_in: None }
}
