//! The send FIFO of a flow: a ring of records in memory of the owner, each `length, number, data` as it goes
//! into a packet, so that a stretch of FIFO is a packet's payload. A record never wraps; where it would,
//! [`PAD`] stands in its stead and the ring goes on at its start.
//!
//! Where each record lies is kept in an index of this process. A reader of the shared bytes walks instead,
//! from the offset that `SndUna` gives ([`crate::cut::in_flight`]).

use crate::packet::{record_bytes, write_record_head};
use crate::types::Seq;

/// Stands as the length where the ring goes on at its start.
pub(crate) const PAD: u32 = u32::MAX;

/// Where a record lies and what its last transmission costs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    pub offset: u32,
    pub bytes: u32,
    /// Sum of the charges of this round's datagrams up to the one that carries this record.
    pub charge: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Fifo {
    capacity: u32,
    /// Offset of the first record.
    pub head: u32,
    /// Offset behind the last.
    pub tail: u32,
    index: Box<[Entry]>,
}

impl Fifo {
    pub(crate) fn new(capacity: usize, records: u32) -> Self {
        let index = vec![Entry::default(); records as usize].into_boxed_slice();
        Fifo { capacity: capacity as u32, head: 0, tail: 0, index }
    }

    #[inline]
    pub(crate) fn entry(&self, seq: Seq) -> &Entry {
        &self.index[seq.0 as usize & (self.index.len() - 1)]
    }

    /// Appends record `seq` behind `count` others. `false`: full.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &mut [u8], seq: Seq, count: u32, head: &[u8], body: &[u8]) -> bool {
        let length = head.len() + body.len();
        let need = record_bytes(length) as u32;
        let Some(at) = self.place(bytes, seq, count, need) else { return false };
        let record = &mut bytes[at as usize..(at + need) as usize];
        write_record_head(seq, length as u32, record);
        record[8..8 + head.len()].copy_from_slice(head);
        record[8 + head.len()..8 + length].copy_from_slice(body);
        // What lies between records goes into packets and snapshots: it must not be what lay there before.
        record[8 + length..].fill(0);
        let mask = self.index.len() - 1;
        self.index[seq.0 as usize & mask] = Entry { offset: at, bytes: need, charge: 0 };
        self.tail = if at + need == self.capacity { 0 } else { at + need };
        true
    }

    #[inline]
    fn place(&self, bytes: &mut [u8], seq: Seq, count: u32, need: u32) -> Option<u32> {
        if count as usize == self.index.len() {
            return None;
        }
        if count > 0 && self.tail <= self.head {
            return (self.head - self.tail >= need).then_some(self.tail);
        }
        if self.capacity - self.tail >= need {
            return Some(self.tail);
        }
        if count == 0 || self.head < need {
            return None;
        }
        write_record_head(seq, PAD, &mut bytes[self.tail as usize..]);
        Some(0)
    }

    /// Whether more than half of the FIFO is taken by `count` records.
    #[inline]
    pub(crate) fn is_half_full(&self, count: u32) -> bool {
        let used = match count {
            0 => 0,
            _ if self.tail > self.head => self.tail - self.head,
            _ => self.capacity - (self.head - self.tail),
        };
        used > self.capacity / 2 || count as usize > self.index.len() / 2
    }

    /// Forgets all records before `una`, of `una..nxt` that stay. An empty FIFO starts at its start again: a
    /// short message always uses the same bytes, which are in the cache.
    #[inline]
    pub(crate) fn release(&mut self, una: Seq, nxt: Seq) {
        if una == nxt {
            (self.head, self.tail) = (0, 0);
        } else {
            self.head = self.entry(una).offset;
        }
    }

    /// The longest run of whole records from `from` (before `nxt`) that lies in one piece and takes at most
    /// `bytes_max`: its place and the record behind it.
    #[inline]
    pub(crate) fn run(&self, from: Seq, nxt: Seq, bytes_max: u32) -> (std::ops::Range<usize>, Seq) {
        let first = self.entry(from);
        let (start, mut end, mut seq) = (first.offset, first.offset + first.bytes, from.plus(1));
        while seq != nxt {
            let entry = self.entry(seq);
            if entry.offset != end || end + entry.bytes - start > bytes_max {
                break;
            }
            end += entry.bytes;
            seq = seq.plus(1);
        }
        (start as usize..end as usize, seq)
    }

    /// Notes that the records `from..to` were sent in a datagram that brings this round's charges to
    /// `charge`.
    #[inline]
    pub(crate) fn note_charge(&mut self, from: Seq, to: Seq, charge: u32) {
        let mask = self.index.len() - 1;
        let mut seq = from;
        while seq != to {
            self.index[seq.0 as usize & mask].charge = charge;
            seq = seq.plus(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Records;

    #[test]
    fn fifo_records_wrap_whole_and_fill_exactly() {
        let mut bytes = vec![0; 256];
        let mut fifo = Fifo::new(256, 16);
        let (mut una, mut nxt) = (Seq(u32::MAX - 5), Seq(u32::MAX - 5));
        let mut lengths = std::collections::VecDeque::new();
        let mut wrapped = 0;
        for step in 0..2000u32 {
            let length = (step * 7 % 61) as usize;
            let data = vec![step as u8; length];
            if fifo.push(&mut bytes, nxt, nxt.since(una) as u32, &data[..length / 2], &data[length / 2..]) {
                lengths.push_back((step, length));
                nxt = nxt.plus(1);
                wrapped += u32::from(fifo.entry(nxt.plus(u32::MAX)).offset == 0);
                continue;
            }
            assert!(una != nxt, "an empty FIFO refused a record");
            let mut seq = una;
            let mut all = lengths.iter();
            while seq != nxt {
                let (place, end) = fifo.run(seq, nxt, 128);
                assert!(place.len() <= 128);
                for (_, record) in Records::new(seq, &bytes[place.clone()]) {
                    let &(step, length) = all.next().unwrap();
                    assert_eq!(record, vec![step as u8; length]);
                }
                seq = end;
            }
            assert!(all.next().is_none());
            for _ in 0..=step % 5 {
                if una != nxt {
                    una = una.plus(1);
                    lengths.pop_front();
                }
            }
            fifo.release(una, nxt);
        }
        assert!(wrapped > 50);
    }
}
