//! State of an endpoint that is saved ([`crate::save`]).

use super::{Endpoint, Pending};
use crate::bulk::Incoming;
use crate::config::Config;
use crate::packet::Records;
use crate::ports::FlowMemory;
use crate::save::{Reader, RestoreError, Writer};
use crate::types::{BulkId, Identity, Now, Rank, Seq};

impl<M: FlowMemory> Endpoint<M> {
    pub(crate) fn save_state(&self, writer: &mut Writer<'_>) {
        writer.u32(self.flows.len() as u32);
        for flow in &self.flows {
            writer.u32(flow.rank.0);
            for number in [flow.tx.una, flow.tx.nxt, flow.tx.high, flow.rx.nxt] {
                writer.u32(number.0);
            }
            for number in
                [flow.tx.rewind, flow.tx.probe, flow.rx.nacked, flow.bulk.order(), u32::from(flow.exited)]
            {
                writer.u32(number);
            }
            let mut seq = flow.tx.una;
            while seq != flow.tx.nxt {
                let (place, end) = flow.tx.fifo.run(seq, flow.tx.nxt, u32::MAX);
                for (_, record) in Records::new(seq, &flow.memory.fifo()[place]) {
                    writer.bytes(record);
                }
                seq = end;
            }
        }
        for flow in &self.flows {
            self.save_outgoing(flow.bulk.first(), writer);
        }
        for place in &self.incoming {
            writer.u32(place.turn);
            writer.u32(place.flow.map_or(u32::MAX, u32::from));
            if place.flow.is_some() {
                writer.u64(place.tag);
                writer.u64(place.bytes);
                writer.u32(place.base);
                writer.u32(place.offer_bits());
                place.bitmap().0.iter().for_each(|word| writer.u64(*word));
            }
        }
        self.save_pending(writer);
    }

    fn save_outgoing(&self, first: Option<u16>, writer: &mut Writer<'_>) {
        let mut slot = first;
        while let Some(here) = slot {
            let place = &self.outgoing[usize::from(here)];
            writer.u32(u32::from(here));
            writer.u64(place.id.to_bits());
            writer.u64(place.tag);
            writer.u64(place.bytes);
            writer.u32(place.base);
            writer.u32(place.next);
            slot = place.next_slot;
        }
        writer.u32(u32::MAX);
    }

    fn save_pending(&self, writer: &mut Writer<'_>) {
        writer.u32(self.pending.len() as u32);
        for pending in &self.pending {
            let (kind, slot, rank, number) = match *pending {
                Pending::Sent { slot, to, tag } => (0, slot, to, tag),
                Pending::Refused { slot, to, tag } => (1, slot, to, tag),
                Pending::Received { slot, from, tag } => (2, slot, from, tag),
                Pending::Exited { rank, unread } => (3, 0, rank, u64::from(unread)),
            };
            writer.u32(kind);
            writer.u32(u32::from(slot));
            writer.u32(rank.0);
            writer.u64(number);
        }
    }

    pub(crate) fn restore_state(
        identity: Identity,
        config: Config,
        now: Now,
        reader: &mut Reader<'_>,
        memory: &mut impl FnMut(Rank) -> Option<M>,
    ) -> Result<Self, RestoreError> {
        let mut endpoint = Self::new(identity, config, now, [])?;
        let mut saved = Vec::new();
        let mut peers = Vec::new();
        for _ in 0..reader.count(usize::from(u16::MAX), "too many flows")? {
            let flow = SavedFlow::read(reader, &config)?;
            let memory = memory(flow.rank).ok_or(RestoreError::NoMemory(flow.rank.0))?;
            peers.push((flow.rank, memory));
            saved.push(flow);
        }
        if !saved.is_empty() {
            endpoint = Self::new(identity, config, now, peers)?;
        }
        for (at, flow) in saved.iter().enumerate() {
            endpoint.restore_flow(at, flow)?;
        }
        for at in 0..saved.len() {
            endpoint.restore_outgoing(at, reader)?;
        }
        endpoint.restore_incoming(reader)?;
        endpoint.restore_pending(reader)?;
        endpoint.handle_incarnation(now, identity.incarnation);
        Ok(endpoint)
    }

    fn restore_flow(&mut self, at: usize, saved: &SavedFlow<'_>) -> Result<(), RestoreError> {
        let flow = &mut self.flows[at];
        let (tx, rx, memory) = (&mut flow.tx, &mut flow.rx, &mut flow.memory);
        (tx.una, tx.cursor, tx.nxt) = (saved.una, saved.una, saved.una);
        for record in &saved.records {
            if !tx.push(memory, record, &[]) {
                return Err(RestoreError::FifoTooSmall(saved.rank.0));
            }
        }
        (tx.high, tx.rewind, tx.probe) = (saved.high, saved.rewind, saved.probe);
        tx.publish_all(memory);
        rx.nxt = saved.rcv_nxt;
        rx.nacked = saved.nacked;
        rx.publish(memory);
        flow.bulk.restore_order(saved.order);
        flow.exited = saved.exited;
        Ok(())
    }

    fn restore_outgoing(&mut self, at: usize, reader: &mut Reader<'_>) -> Result<(), RestoreError> {
        loop {
            let slot = reader.u32()?;
            if slot == u32::MAX {
                return Ok(());
            }
            let slot = take_free(&mut self.outgoing_free, slot)?;
            let (id, tag) = (BulkId::from_bits(reader.u64()?), reader.u64()?);
            let (bytes, base, next) = (reader.bulk_bytes(&self.config)?, reader.u32()?, reader.u32()?);
            let place = &mut self.outgoing[usize::from(slot)];
            place.begin(id, tag, bytes, self.config.fragment_bytes());
            if !place.restore(base, next) {
                return Err(RestoreError::Inconsistent("a message has been sent further than it is long"));
            }
            self.flows[at].bulk.push(&mut self.outgoing, slot);
        }
    }

    fn restore_incoming(&mut self, reader: &mut Reader<'_>) -> Result<(), RestoreError> {
        for slot in 0..self.incoming.len() {
            let turn = reader.u32()?;
            self.incoming[slot] = Incoming::free(turn);
            let flow = reader.u32()?;
            if flow == u32::MAX {
                continue;
            }
            if flow as usize >= self.flows.len() {
                return Err(RestoreError::Inconsistent("a message comes from no flow"));
            }
            take_free(&mut self.incoming_free, slot as u32)?;
            let (tag, bytes, base) = (reader.u64()?, reader.bulk_bytes(&self.config)?, reader.u32()?);
            let offer_bits = reader.u32()?;
            let words = reader.words()?;
            let place = &mut self.incoming[slot];
            place.begin(flow as u16, tag, bytes, self.config.fragment_bytes());
            place.restore_offer(offer_bits);
            if !place.is_offered() {
                self.accepted.push_back(slot as u16);
            }
            if !place.restore(base, &words) {
                return Err(RestoreError::Inconsistent("a message has arrived further than it is long"));
            }
        }
        Ok(())
    }

    fn restore_pending(&mut self, reader: &mut Reader<'_>) -> Result<(), RestoreError> {
        let most = self.outgoing.len() + self.incoming.len() + self.flows.len();
        for _ in 0..reader.count(most, "too many events")? {
            let (kind, slot, rank, tag) = (reader.u32()?, reader.u32()?, Rank(reader.u32()?), reader.u64()?);
            let pending = match kind {
                0 => Pending::Sent { slot: take_free(&mut self.outgoing_free, slot)?, to: rank, tag },
                1 => Pending::Refused { slot: take_free(&mut self.outgoing_free, slot)?, to: rank, tag },
                2 => Pending::Received { slot: take_free(&mut self.incoming_free, slot)?, from: rank, tag },
                3 => Pending::Exited { rank, unread: tag as u32 },
                _ => return Err(RestoreError::Inconsistent("an event of no kind")),
            };
            self.pending.push_back(pending);
        }
        Ok(())
    }
}

/// Takes place `slot` out of the free ones.
fn take_free(free: &mut Vec<u16>, slot: u32) -> Result<u16, RestoreError> {
    let at = free.iter().position(|free| u32::from(*free) == slot);
    Ok(free.swap_remove(at.ok_or(RestoreError::Inconsistent("a place is taken twice"))?))
}

struct SavedFlow<'a> {
    rank: Rank,
    una: Seq,
    high: Seq,
    rcv_nxt: Seq,
    rewind: u32,
    probe: u32,
    nacked: u32,
    order: u32,
    exited: bool,
    records: Vec<&'a [u8]>,
}

impl<'a> SavedFlow<'a> {
    fn read(reader: &mut Reader<'a>, config: &Config) -> Result<Self, RestoreError> {
        let mut number = || reader.u32();
        let rank = Rank(number()?);
        let (una, nxt, high, rcv_nxt) = (Seq(number()?), Seq(number()?), Seq(number()?), Seq(number()?));
        let (rewind, probe, nacked, order, exited) =
            (number()?, number()?, number()?, number()?, number()? != 0);
        let held = nxt.since(una).cast_unsigned();
        if held > config.fifo_records || high.since(una).cast_unsigned() > held {
            return Err(RestoreError::Inconsistent("the numbers of a flow do not fit together"));
        }
        let mut records = Vec::with_capacity(held as usize);
        for _ in 0..held {
            let record = reader.bytes()?;
            if record.len() > config.record_bytes_max() {
                return Err(RestoreError::Inconsistent("a record is too long"));
            }
            records.push(record);
        }
        Ok(SavedFlow { rank, una, high, rcv_nxt, rewind, probe, nacked, order, exited, records })
    }
}
