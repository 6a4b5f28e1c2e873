//! The last steps of a run, printed when it fails. Written at every step, so packets are kept as they are and
//! put into words only then.

use std::collections::VecDeque;
use std::fmt;

use super::network::Arrivals;
use crate::counters::Drop;
use crate::packet::{HEADER_BYTES, parse};

const STEPS: usize = 300;

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// In words.
    Log(String),
    /// A rank took a datagram in, or dropped it.
    Taken { rank: usize, packet: Packet, dropped: Option<Drop> },
    /// A datagram left, and its copies arrive after this long.
    Sent { rank: usize, to: usize, packet: Packet, arrivals: Arrivals },
}

/// The header of a datagram, and its length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    head: [u8; HEADER_BYTES],
    bytes: usize,
}

impl Packet {
    pub(super) fn of(datagram: &[u8]) -> Self {
        let mut head = [0; HEADER_BYTES];
        let bytes = datagram.len();
        let known = bytes.min(HEADER_BYTES);
        head[..known].copy_from_slice(&datagram[..known]);
        Packet { head, bytes }
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The header alone is parsed as a packet of its length with nothing in it.
        let mut whole = vec![0; self.bytes.max(HEADER_BYTES)];
        whole[..HEADER_BYTES].copy_from_slice(&self.head);
        match parse(&whole) {
            Ok((head, _)) => {
                write!(out, "{:?} seq {} ack {} rewind {}", head.kind, head.seq.0, head.ack.0, head.rewind)?;
                write!(out, " echo {} flags {} credit {}", head.echo, head.flags, head.credit)?;
            }
            Err(error) => write!(out, "{error}")?,
        }
        write!(out, ", {} B", self.bytes)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Log(words) => write!(out, "{words}"),
            Step::Taken { rank, packet, dropped: None } => write!(out, "{rank} < {packet}"),
            Step::Taken { rank, packet, dropped: Some(reason) } => {
                write!(out, "{rank} < {packet}: dropped, {reason}")
            }
            Step::Sent { rank, to, packet, arrivals } => {
                write!(out, "{rank} > {to} {packet}, after {arrivals:?}")
            }
        }
    }
}

/// The last steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace(VecDeque<(u64, u64, Step)>);

impl Trace {
    pub(super) fn note(&mut self, event: u64, time_ns: u64, step: Step) {
        if self.0.len() == STEPS {
            self.0.pop_front();
        }
        self.0.push_back((event, time_ns, step));
    }

    pub(super) fn print(&self) {
        for (event, time_ns, step) in &self.0 {
            eprintln!("{event:>7} {time_ns:>12} {step}");
        }
    }
}
