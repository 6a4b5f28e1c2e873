//! Standing in for a rank that has left: the starter of its node answers from the last words of its
//! flows, so that a sender whose last acknowledgement was lost learns that everything arrived, and one that
//! sends to nobody learns that too.

use crate::counters::Drop;
use crate::endpoint::Transmit;
use crate::packet::{Body, DONE, GONE, HEADER_BYTES, Header, Kind, parse, write_bulk_ack, write_header};
use crate::types::{Identity, Rank, Seq};

/// A rank that has left.
#[derive(Clone, Debug)]
pub struct ExitedRank {
    identity: Identity,
    /// What it expected from each peer, by rank.
    expected: Vec<(Rank, Seq)>,
}

impl ExitedRank {
    /// `expected`: the final `rcv_nxt` of each of its flows.
    pub fn new(identity: Identity, expected: impl IntoIterator<Item = (Rank, Seq)>) -> Self {
        let mut expected: Vec<_> = expected.into_iter().collect();
        expected.sort_unstable_by_key(|(rank, _)| *rank);
        ExitedRank { identity, expected }
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
        if header.incarnation != identity.incarnation {
            return Err(Drop::WrongIncarnation);
        }
        if header.to != identity.rank {
            return Err(Drop::WrongRank);
        }
        let at = self.expected.binary_search_by_key(&header.from, |(rank, _)| *rank);
        let (to, expected) = self.expected[at.map_err(|_| Drop::OutsidePartition)?];
        let (kind, echo) = match header.kind {
            Kind::Data => (Kind::Ack, 0),
            Kind::Probe => (Kind::Answer, header.echo),
            Kind::Fragment | Kind::BulkProbe => (Kind::BulkAck, header.seq.0),
            _ => return Ok(None),
        };
        let answer = Header {
            key: identity.key,
            incarnation: identity.incarnation,
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
