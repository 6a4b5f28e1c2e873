//! The eager stream of a flow: records in order, Modified Ack/Nack, go-back-N.
//!
//! ```text
//!              una            cursor        high          nxt
//!  freed ...    | under way      | to send again | to send   |  free
//! ```
//!
//! The sender keeps a record until it is acknowledged. A Nack sends it back to `una`; each time it goes back
//! is a new *round*, whose number (`rewind`) is in every packet and comes back in a Nack, so that one gap
//! causes one Nack and an old Nack causes nothing. The receiver's `nxt` is published before anything
//! acknowledges it.

use crate::fifo::Fifo;
use crate::packet::Records;
use crate::ports::{FlowMemory, FlowWord, Sink, Taken};
use crate::types::{Rank, Seq};

fn with_offset(seq: Seq, offset: u32) -> u64 {
    u64::from(offset) << 32 | u64::from(seq.0)
}

/// Condition that the sender waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Acknowledgements, if anything.
    Acks,
    /// Room at the receiver, which refused `una`.
    Room,
}

#[derive(Clone, Debug)]
pub(crate) struct Sender {
    pub una: Seq,
    /// Next to transmit.
    pub cursor: Seq,
    /// Behind the highest ever handed out.
    pub high: Seq,
    /// Behind the last in the FIFO.
    pub nxt: Seq,
    pub rewind: u32,
    pub waiting: Waiting,
    /// Number of the last probe, and of the first since data were last sent again.
    pub probe: u32,
    pub probe_first: u32,
    pub fifo: Fifo,
    /// Sums of charges of this round: all sent, and those up to `una`.
    charge_sent: u32,
    charge_una: u32,
    /// A record whose round trip is timed, and when it left.
    pub timed: Option<(Seq, u64)>,
}

/// Effect of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acked {
    /// Acknowledges nothing new.
    Old,
    /// Acknowledges what was never sent: a lie.
    Beyond,
    /// Frees records; their charge and, if the timed one is among them, when it left.
    New { charge: u32, timed_ns: Option<u64> },
}

impl Sender {
    pub(crate) fn new(first: Seq, fifo: Fifo, memory: &mut impl FlowMemory) -> Self {
        let sender = Sender {
            una: first,
            cursor: first,
            high: first,
            nxt: first,
            rewind: 0,
            waiting: Waiting::Acks,
            probe: 0,
            probe_first: 1,
            fifo,
            charge_sent: 0,
            charge_una: 0,
            timed: None,
        };
        sender.publish_all(memory);
        sender
    }

    pub(crate) fn publish_all(&self, memory: &mut impl FlowMemory) {
        memory.publish(FlowWord::SndUna, with_offset(self.una, self.fifo.head));
        memory.publish(FlowWord::SndNxt, with_offset(self.nxt, self.fifo.tail));
        memory.publish(FlowWord::SndHigh, u64::from(self.high.0));
        memory.publish(FlowWord::Rewind, u64::from(self.rewind));
    }

    /// Records in the FIFO.
    #[inline]
    pub(crate) fn held(&self) -> u32 {
        self.nxt.since(self.una).cast_unsigned()
    }

    /// Whether records are under way.
    #[inline]
    pub(crate) fn is_outstanding(&self) -> bool {
        self.cursor != self.una
    }

    /// Whether a record could be sent now, as far as the stream is concerned.
    #[inline]
    pub(crate) fn has_data(&self) -> bool {
        self.cursor != self.nxt && self.waiting == Waiting::Acks
    }

    /// Bytes of truesize under way.
    #[inline]
    pub(crate) fn flight(&self) -> u32 {
        self.charge_sent.wrapping_sub(self.charge_una)
    }

    /// Puts a record in the FIFO. `false`: it is full.
    #[inline]
    pub(crate) fn push(&mut self, memory: &mut impl FlowMemory, head: &[u8], body: &[u8]) -> bool {
        if !self.fifo.push(memory.fifo_mut(), self.nxt, self.held(), head, body) {
            return false;
        }
        self.nxt = self.nxt.plus(1);
        memory.publish(FlowWord::SndNxt, with_offset(self.nxt, self.fifo.tail));
        true
    }

    /// Notes that `cursor..end` leave in a datagram of `charge`: published before the caller hands it out.
    #[inline]
    pub(crate) fn note_sent(&mut self, memory: &mut impl FlowMemory, end: Seq, charge: u32, now_ns: u64) {
        self.charge_sent = self.charge_sent.wrapping_add(charge);
        self.fifo.note_charge(self.cursor, end, self.charge_sent);
        if self.high.is_before(end) {
            // Only what is sent for the first time is timed: of a repeated record one cannot tell which copy
            // was answered.
            if self.timed.is_none() && self.cursor == self.high {
                self.timed = Some((self.cursor, now_ns));
            }
            self.high = end;
            memory.publish(FlowWord::SndHigh, u64::from(end.0));
        }
        self.cursor = end;
    }

    /// The other side has everything before `ack`.
    #[inline]
    pub(crate) fn handle_ack(&mut self, memory: &mut impl FlowMemory, ack: Seq) -> Acked {
        if ack == self.una || ack.is_before(self.una) {
            return Acked::Old;
        }
        if self.high.is_before(ack) {
            return Acked::Beyond;
        }
        let before = self.flight();
        if ack.is_before(self.cursor) {
            self.charge_una = self.fifo.entry(ack.plus(u32::MAX)).charge;
        } else {
            self.cursor = ack;
            self.charge_una = self.charge_sent;
        }
        self.una = ack;
        self.fifo.release(ack, self.nxt);
        memory.publish(FlowWord::SndUna, with_offset(ack, self.fifo.head));
        let timed_ns = match self.timed {
            Some((seq, at)) if seq.is_before(ack) => {
                self.timed = None;
                Some(at)
            }
            _ => None,
        };
        Acked::New { charge: before - self.flight(), timed_ns }
    }

    /// Goes back to `una`: a new round. Returns the charge of what was under way.
    pub(crate) fn rewind(&mut self, memory: &mut impl FlowMemory) -> u32 {
        let flight = self.flight();
        self.cursor = self.una;
        self.charge_sent = self.charge_una;
        self.timed = None;
        self.probe_first = self.probe.wrapping_add(1);
        self.rewind = self.rewind.wrapping_add(1);
        memory.publish(FlowWord::Rewind, u64::from(self.rewind));
        flight
    }

    /// Whether `echo` is the number of a probe sent since the stream last went back.
    pub(crate) fn is_own_probe(&self, echo: u32) -> bool {
        let (first, count) = (self.probe_first, self.probe.wrapping_sub(self.probe_first));
        count < 1 << 31 && echo.wrapping_sub(first) <= count
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Receiver {
    /// Next record expected.
    pub nxt: Seq,
    /// `nxt` was refused for want of room, and the owner has not said yet that there is some.
    pub full: bool,
    /// The newest round that was refused; each at most once.
    pub nacked: u32,
    /// Datagrams taken and not acknowledged yet.
    pub owed: u32,
}

/// Effect of a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// Records were taken.
    Taken { records: u32 },
    /// Brings nothing new: the sender has not heard.
    Duplicate,
    /// A record before it is missing; `nack`: this is the first report of it to the sender.
    Gap { nack: bool },
    /// No room for `nxt`; records before it may have been taken.
    Full { nack: bool },
    /// Cannot come from a sender that keeps to the protocol.
    Wrong,
}

impl Receiver {
    pub(crate) fn new(first: Seq, memory: &mut impl FlowMemory) -> Self {
        let receiver = Receiver { nxt: first, full: false, nacked: u32::MAX, owed: 0 };
        receiver.publish(memory);
        receiver
    }

    #[inline]
    pub(crate) fn publish(&self, memory: &mut impl FlowMemory) {
        memory.publish(FlowWord::RcvNxt, u64::from(self.nxt.0));
    }

    /// Hands the records of a data packet to the sink.
    #[inline]
    pub(crate) fn handle_data(
        &mut self,
        memory: &mut impl FlowMemory,
        sink: &mut impl Sink,
        from: Rank,
        (seq, rewind): (Seq, u32),
        bytes: &[u8],
    ) -> Arrived {
        if self.nxt.is_before(seq) {
            return Arrived::Gap { nack: self.refuse(rewind) };
        }
        let before = self.nxt;
        let mut records = Records::new(seq, bytes);
        for (seq, record) in &mut records {
            if seq != self.nxt {
                continue;
            }
            if sink.record(from, record) == Taken::Full {
                self.full = true;
                return Arrived::Full { nack: self.refuse(rewind) };
            }
            self.nxt = seq.plus(1);
            self.publish(memory);
        }
        if self.nxt != before {
            self.full = false;
            return Arrived::Taken { records: self.nxt.since(before).cast_unsigned() };
        }
        if records.rest().is_empty() { Arrived::Duplicate } else { Arrived::Wrong }
    }

    /// Whether a refusal of this round is news.
    fn refuse(&mut self, rewind: u32) -> bool {
        let news = rewind.wrapping_sub(self.nacked).cast_signed() > 0;
        if news {
            self.nacked = rewind;
        }
        news
    }
}
