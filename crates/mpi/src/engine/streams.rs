//! Messages on their way through the bulk ring, out and in.

use std::time::Instant;

use super::stage::{Gathered, Packed};

/// A message on its way out through the bulk ring.
#[derive(Debug)]
pub(super) struct Stream {
    /// Number of the message.
    pub(super) message: u32,
    /// Request of the message, which holds the data.
    pub(super) request: u32,
    /// Bytes that are in the ring or gone.
    pub(super) offset: usize,
    pub(super) packed: Packed,
}

/// A message on its way in through the bulk ring.
#[derive(Debug)]
pub(super) struct Sink {
    /// Bytes of the whole message.
    pub(super) bytes: usize,
    /// Bytes that have arrived.
    pub(super) arrived: usize,
    pub(super) gathered: Gathered,
    pub(super) target: Target,
    /// Whether the message was sent without asking, so that its credit is to be given back.
    pub(super) eager: bool,
    /// When it was asked for, if the time it takes is to be learnt.
    pub(super) since: Option<Instant>,
}

#[derive(Debug)]
pub(super) enum Target {
    /// The buffer of a receive.
    Receive(u32),
    /// Memory of ours, until a receive comes.
    Held(Vec<u8>),
}

impl Stream {
    /// From the beginning.
    pub(super) fn new(message: u32, request: u32) -> Self {
        Stream { message, request, offset: 0, packed: Packed::default() }
    }
}

impl Sink {
    /// The sink of an eager message that no receive has taken.
    pub(super) fn new(bytes: usize) -> Self {
        Sink { eager: true, ..Sink::to(Target::Held(Vec::new()), bytes) }
    }

    /// The sink of a message for a receive; `since` if the time it takes is to be learnt.
    pub(super) fn matched(bytes: usize, request: u32, since: Option<Instant>) -> Self {
        Sink { since, ..Sink::to(Target::Receive(request), bytes) }
    }

    pub(super) fn to(target: Target, bytes: usize) -> Self {
        Sink { bytes, arrived: 0, gathered: Gathered::default(), target, eager: false, since: None }
    }
}
