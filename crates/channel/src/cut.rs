//! The cut: what is in flight between two frozen ranks, from the words they have published and from the
//! sender's FIFO.
//!
//! The sender keeps a record until it is acknowledged, an acknowledgement says *published*, and a record is
//! claimed (`snd_high`) before its packet exists. So when both ranks are frozen
//! `snd_una <= rcv_nxt <= snd_high <= snd_nxt` holds, whatever the network still carries, and whatever
//! arrives later is a duplicate by its number. The records in flight are exactly those of
//! `[rcv_nxt, snd_high)`; no packet is touched.
//!
//! Words and bytes come from memory that a job can write, so they are taken as hostile: every function here
//! is total and bounded. Copy them first, then ask.

use crate::fifo::PAD;
use crate::packet::{RECORD_HEAD_BYTES, Records, record_bytes};
use crate::ports::{FlowWord, WORDS};
use crate::types::{BulkId, Seq};

/// A FIFO holds fewer records than this.
const RECORDS_MAX: i32 = 1 << 16;

/// The published words of a flow, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowWords {
    /// First record not acknowledged.
    pub snd_una: Seq,
    /// Where it lies in the FIFO, in bytes.
    pub una_offset: u32,
    /// Record after the last in the FIFO.
    pub snd_nxt: Seq,
    /// Record after the highest that may have been in a packet.
    pub snd_high: Seq,
    /// Next record expected from the other side.
    pub rcv_nxt: Seq,
    /// The sender's round.
    pub rewind: u32,
}

impl From<[u64; WORDS]> for FlowWords {
    fn from(words: [u64; WORDS]) -> Self {
        let word = |word: FlowWord| words[word as usize];
        let low = |word: FlowWord| (words[word as usize] & 0xffff_ffff) as u32;
        FlowWords {
            snd_una: Seq(low(FlowWord::SndUna)),
            una_offset: (word(FlowWord::SndUna) >> 32) as u32,
            snd_nxt: Seq(low(FlowWord::SndNxt)),
            snd_high: Seq(low(FlowWord::SndHigh)),
            rcv_nxt: Seq(low(FlowWord::RcvNxt)),
            rewind: low(FlowWord::Rewind),
        }
    }
}

/// A bulk message on its way in, as its receiver has published it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkIn {
    /// Name of the message.
    pub id: BulkId,
    /// How long it is.
    pub bytes: u64,
    /// How many of its first bytes are stored where they belong.
    pub here: u64,
}

impl BulkIn {
    /// The one that the words of a flow speak of: of several from the same rank the one last acknowledged.
    #[must_use]
    pub fn of(words: &[u64; WORDS]) -> Option<BulkIn> {
        let [name, bytes, here] =
            [FlowWord::BulkName, FlowWord::BulkBytes, FlowWord::BulkHere].map(|word| words[word as usize]);
        Some(BulkIn { id: BulkId::from_bits(name.checked_sub(1)?), bytes, here: here.min(bytes) })
    }
}

/// The records in flight from one rank to another: `from..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The first: what its receiver expects next.
    pub from: Seq,
    /// Behind the last that may have been sent.
    pub end: Seq,
}

impl Cut {
    /// How many records are in flight.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.end.since(self.from).cast_unsigned()
    }
}

/// Why there is no cut: a rank was not frozen, two incarnations were mixed, or memory was tampered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// The words of the two sides do not fit together.
    #[error("una {una:?} <= received {rcv:?} <= high {high:?} <= next {nxt:?} does not hold")]
    Order {
        /// The sender's first record not acknowledged.
        una: Seq,
        /// Record that the receiver expects.
        rcv: Seq,
        /// Behind the highest the sender may have sent.
        high: Seq,
        /// Behind the last in the sender's FIFO.
        nxt: Seq,
    },
    /// The record is not where it should lie.
    #[error("record {seq:?} is not at byte {offset} of the FIFO")]
    Record {
        /// The record looked for.
        seq: Seq,
        /// Where it should be.
        offset: usize,
    },
}

/// Records in flight from `sender` to `receiver`, each with the words of its flow to the other.
///
/// # Errors
/// The words do not fit together.
pub fn cut(sender: &FlowWords, receiver: &FlowWords) -> Result<Cut, CutError> {
    let (una, nxt, high, rcv) = (sender.snd_una, sender.snd_nxt, sender.snd_high, receiver.rcv_nxt);
    let held = nxt.since(una);
    let in_order =
        [rcv.since(una), high.since(rcv), nxt.since(high)].iter().all(|gap| (0..=held).contains(gap));
    if !in_order || held > RECORDS_MAX {
        return Err(CutError::Order { una, rcv, high, nxt });
    }
    Ok(Cut { from: rcv, end: high })
}

/// Walks the records of `cut` in the sender's FIFO. After an error it ends.
#[must_use]
pub fn in_flight<'a>(sender: &FlowWords, cut: &Cut, fifo: &'a [u8]) -> InFlight<'a> {
    InFlight { fifo, seq: sender.snd_una, offset: sender.una_offset as usize, from: cut.from, end: cut.end }
}

/// The records of a cut; see [`in_flight`].
#[derive(Clone, Debug)]
pub struct InFlight<'a> {
    fifo: &'a [u8],
    seq: Seq,
    offset: usize,
    from: Seq,
    end: Seq,
}

impl<'a> InFlight<'a> {
    /// The record `seq`, which lies at `offset` or, behind a pad, at the start.
    fn record(&mut self) -> Result<&'a [u8], CutError> {
        let wrong = CutError::Record { seq: self.seq, offset: self.offset };
        let mut offset = if self.offset == self.fifo.len() { 0 } else { self.offset };
        let head = self.fifo.get(offset..offset + RECORD_HEAD_BYTES).ok_or(wrong)?;
        if head[..4] == PAD.to_le_bytes() && head[4..] == self.seq.0.to_le_bytes() {
            offset = 0;
        }
        let (_, record) = Records::new(self.seq, &self.fifo[offset..]).next().ok_or(wrong)?;
        self.offset = offset + record_bytes(record.len());
        Ok(record)
    }
}

impl<'a> Iterator for InFlight<'a> {
    type Item = Result<(Seq, &'a [u8]), CutError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Records before the cut are walked over: they lie between the acknowledged ones and those in flight.
        while self.end.since(self.seq) > 0 {
            let seq = self.seq;
            match self.record() {
                Ok(record) => {
                    self.seq = seq.plus(1);
                    if !seq.is_before(self.from) {
                        return Some(Ok((seq, record)));
                    }
                }
                Err(error) => {
                    self.seq = self.end;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(una: u32, high: u32, nxt: u32, rcv: u32) -> (FlowWords, FlowWords) {
        let sender = FlowWords::from([u64::from(una), u64::from(nxt), u64::from(high), 0, 0, 0, 0, 0]);
        (sender, FlowWords::from([0, 0, 0, u64::from(rcv), 0, 0, 0, 0]))
    }

    #[test]
    fn cut_exists_only_for_consistent_flow_words() {
        let cut_of = |una, high, nxt, rcv| {
            let (sender, receiver) = words(una, high, nxt, rcv);
            cut(&sender, &receiver)
        };
        assert_eq!(cut_of(5, 9, 12, 7), Ok(Cut { from: Seq(7), end: Seq(9) }));
        assert_eq!(cut_of(u32::MAX, 3, 4, 1).unwrap().count(), 2);
        assert_eq!(cut_of(5, 5, 5, 5).unwrap().count(), 0);
        for (una, high, nxt, rcv) in
            [(5, 9, 12, 4), (5, 9, 12, 10), (5, 13, 12, 7), (5, 4, 12, 5), (0, 1, 1 << 20, 0)]
        {
            assert!(cut_of(una, high, nxt, rcv).is_err());
        }
    }

    proptest! {
        #[test]
        fn cut_walk_of_any_memory_terminates(
            words in any::<[u64; WORDS]>(),
            from in any::<u32>(),
            count in 0u32..70_000,
            fifo in prop::collection::vec(any::<u8>(), 0..400),
        ) {
            let cut = Cut { from: Seq(from), end: Seq(from).plus(count) };
            let words = FlowWords { snd_una: Seq(from), ..FlowWords::from(words) };
            prop_assert!(in_flight(&words, &cut, &fifo).count() <= count as usize);
        }
    }
}
