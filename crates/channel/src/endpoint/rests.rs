//! Which message is sent from, and the ends of several messages in one burst.
//!
//! A burst is as many fragments as the kernel takes as one run. What is left of a message behind its last
//! whole burst may be a few fragments, whose run costs the kernel nearly as much as a whole one. So such a
//! rest waits while other messages to the same rank have more to send, [`PASSED_MAX`] bursts at most; then
//! the rests leave together: whole fragments first, since all of a run are of one length but its last.

use super::transmit::write_head;
use super::{Endpoint, Transmit};
use crate::packet::{FRAGMENT_BYTES_BEFORE, Kind};
use crate::ports::{FlowMemory, Source};
use crate::types::Now;

/// Bursts of other messages that go past a rest.
const PASSED_MAX: u32 = 32;

impl<M: FlowMemory> Endpoint<M> {
    /// A burst of fragments of the first message of the flow that has more than a rest to send, else of the
    /// rests.
    #[inline]
    pub(super) fn transmit_bulk(
        &mut self,
        at: usize,
        now: Now,
        source: &mut impl Source,
        into: &mut [u8],
    ) -> Option<Transmit> {
        let fragment_bytes = self.config.fragment_bytes();
        let (mut rests, mut first) = (0, None);
        let mut slot = self.flows[at].bulk.first();
        while let Some(here) = slot {
            let place = &self.outgoing[usize::from(here)];
            if place.sendable().is_some() {
                first.get_or_insert(here);
                if !place.is_tail(fragment_bytes) {
                    if self.flows[at].bulk.try_pass(rests, PASSED_MAX) {
                        return self.transmit_fragments(at, usize::from(here), now, source, into);
                    }
                    break;
                }
                rests += 1;
            }
            slot = place.next_slot;
        }
        if rests > 1 {
            return self.transmit_rests(at, now, source, into);
        }
        self.flows[at].bulk.note_rests();
        self.transmit_fragments(at, usize::from(first?), now, source, into)
    }

    /// A run of fragments of several messages. Their data are copied: it is little.
    fn transmit_rests(
        &mut self,
        at: usize,
        now: Now,
        source: &mut impl Source,
        into: &mut [u8],
    ) -> Option<Transmit> {
        let longest = FRAGMENT_BYTES_BEFORE + self.config.fragment_bytes();
        let burst_max = self.burst_max(at);
        let flow = &mut self.flows[at];
        let room = flow.window.room(flow.flight(), self.config.charge_max()) as usize;
        let count_max = room.min(burst_max).min(into.len() / longest);
        let mut run = Run { count: 0, bytes: 0, segment_bytes: longest, is_ended: false };
        for are_whole in [true, false] {
            let mut slot = self.flows[at].bulk.first();
            while let Some(here) = slot {
                while !run.is_ended
                    && run.count < count_max
                    && self.add_tail((at, here), are_whole, room, &mut run, source, into)
                {}
                slot = self.outgoing[usize::from(here)].next_slot;
            }
        }
        if run.count == 0 {
            return None;
        }
        self.flows[at].bulk.note_rests();
        self.note_fragments(at, now, run.count);
        let (to, segment_bytes) = (self.flows[at].rank, run.segment_bytes.min(run.bytes));
        Some(Transmit { to, bytes: run.bytes, segment_bytes, lies_in: None })
    }

    /// Puts the next fragment of a rest at the end of a run, if it fits there. Whether it did.
    fn add_tail(
        &mut self,
        (at, slot): (usize, u16),
        is_whole: bool,
        room: usize,
        run: &mut Run,
        source: &mut impl Source,
        into: &mut [u8],
    ) -> bool {
        let fragment_bytes = self.config.fragment_bytes();
        let (flow, place) = (&mut self.flows[at], &mut self.outgoing[usize::from(slot)]);
        let Some(fragment) = place.sendable_new().filter(|_| place.is_tail(fragment_bytes)) else {
            return false;
        };
        let left = place.bytes - u64::from(fragment) * fragment_bytes as u64;
        let datagram_bytes = FRAGMENT_BYTES_BEFORE + left.min(fragment_bytes as u64) as usize;
        if (left >= fragment_bytes as u64) != is_whole
            || (run.count > 0 && datagram_bytes > run.segment_bytes)
        {
            return false;
        }
        if run.count == 0 {
            run.segment_bytes = datagram_bytes;
        }
        run.is_ended = datagram_bytes < run.segment_bytes;
        let datagram = &mut into[run.bytes..run.bytes + datagram_bytes];
        let mut header = flow.header(&self.identity, self.shares.share(), Kind::Fragment);
        let fragment = (fragment, fragment_bytes, run.count + 2 >= room);
        let (offset, _) = write_head(flow, place, &mut header, fragment, datagram);
        source.read(place.tag, offset, &mut datagram[FRAGMENT_BYTES_BEFORE..]);
        (run.count, run.bytes) = (run.count + 1, run.bytes + datagram_bytes);
        true
    }
}

/// A run that is being put together.
struct Run {
    count: usize,
    bytes: usize,
    /// Of each datagram; a shorter one is the last.
    segment_bytes: usize,
    is_ended: bool,
}
