//! Standing in for a rank that has left: the starter of its node answers from the last words of its
//! flows, so that a sender whose last acknowledgement was lost learns that everything arrived, and one that
//! sends to nobody learns that too.

use crate::counters::Drop;
use crate::endpoint::Transmit;
use crate::packet::{Body, DONE, GONE, HEADER_BYTES, Header, Kind, parse, write_bulk_ack, write_header};
use crate::steady;
use crate::types::{Identity, Incarnation, Rank, Seq};

/// A rank that has left.
#[derive(Clone, Debug)]
pub struct ExitedRank {
    identity: Identity,
    /// Which process of each peer it knew, and what it expected from that one, by rank.
    expected: Vec<(Rank, Incarnation, Seq)>,
    /// Record that it would expect from the next process of a peer.
    first_seq: Seq,
}

impl ExitedRank {
    /// `expected`: of each of its flows how many processes both sides had been before, and the final
    /// `rcv_nxt`; `first_seq` is [`Config::first_seq`](crate::Config::first_seq).
    pub fn new(
        identity: Identity,
        first_seq: Seq,
        expected: impl IntoIterator<Item = (Rank, u32, Seq)>,
    ) -> Self {
        let of = |(rank, processes, seq)| (rank, identity.incarnation.after(processes), seq);
        let mut expected: Vec<_> = expected.into_iter().map(of).collect();
        expected.sort_unstable_by_key(|(rank, ..)| *rank);
        ExitedRank { identity, expected, first_seq }
    }

    /// The answer to a datagram, written into `into`. Only what asks for an answer gets one, so two who have
    /// left never talk to each other.
    ///
    /// # Errors
    /// The datagram is not for this rank.
    ///
    /// # Panics
    /// When `into` is shorter than [`CONTROL_BYTES_MAX`](crate::packet::CONTROL_BYTES_MAX).
    pub fn handle_datagram(&self, datagram: &[u8], into: &mut [u8]) -> Result<Option<Transmit>, Drop> {
        let (header, body) = parse(datagram).map_err(Drop::Malformed)?;
        let identity = &self.identity;
        if header.key != identity.key {
            return Err(Drop::WrongKey);
        }
        if header.to != identity.rank {
            return Err(Drop::WrongRank);
        }
        let at = self.expected.binary_search_by_key(&header.from, |(rank, ..)| *rank);
        let (to, known, expected) = self.expected[at.map_err(|_| Drop::OutsidePartition)?];
        if header.kind == Kind::SteadyProbe {
            // It stands still for good.
            return Ok(Some(steady::answer(identity, &header, expected, into)));
        }
        // A peer's next process has a flow of its own, of which the rank has taken nothing.
        let expected = match header.incarnation.0.wrapping_sub(known.0).cast_signed() {
            0 => expected,
            1.. => self.first_seq,
            _ => return Err(Drop::WrongIncarnation),
        };
        let (kind, echo) = match header.kind {
            Kind::Data => (Kind::Ack, 0),
            Kind::Probe => (Kind::Answer, header.echo),
            Kind::Fragment | Kind::BulkProbe => (Kind::BulkAck, header.seq.0),
            _ => return Ok(None),
        };
        let answer = Header {
            key: identity.key,
            incarnation: header.incarnation,
            from: identity.rank,
            to,
            kind,
            flags: GONE | if kind == Kind::BulkAck { DONE } else { 0 },
            seq: Seq(0),
            ack: expected,
            rewind: 0,
            echo,
            credit: u16::MAX,
        };
        let length = match body {
            // It left, so every message that it had accepted was complete: what comes is late.
            Body::Fragment { id, .. } | Body::BulkProbe { id } => {
                write_bulk_ack(id, 0, &[], &mut into[HEADER_BYTES..])
            }
            _ => 0,
        };
        write_header(&answer, length, into);
        let bytes = HEADER_BYTES + length;
        Ok(Some(Transmit { to, bytes, segment_bytes: bytes, lies_in: None }))
    }
}
