//! A message that no receive has taken yet, and which receive takes it.

use tutti_datatype::{Buffer, SignatureWord};

use crate::abi::MPI_ANY_TAG;

/// Entries of a queue that a search passes before it builds an index.
pub(super) const WALK_MAX: usize = 64;
/// With fewer entries an index is dropped.
pub(super) const INDEXED_MIN: usize = WALK_MAX / 2;

/// A message that no receive has taken yet.
#[derive(Debug)]
pub(super) struct Unexpected {
    pub context: u32,
    pub tag: i32,
    /// Bytes of the whole message.
    pub bytes: usize,
    pub body: Body,
}

/// Where the data of an unexpected message are.
#[derive(Debug)]
pub(super) enum Body {
    /// Here, few.
    Short([u8; SHORT_BYTES]),
    /// Here.
    Long(Box<[u8]>),
    /// On their way through the bulk ring, to the sink of this message number.
    Streaming(u32),
    /// In the sender's memory.
    Rendezvous { message: u32, address: u64 },
    /// In our own memory: a send to self, with its request.
    Local { request: u32, buffer: Buffer },
    /// Here, and no credit stands for them: the sender or the receiver has moved since.
    Moved(Box<[u8]>),
    /// With what the sender says of its data, while the program is being checked.
    Signed(SignatureWord, Box<Body>),
}

/// Name by which an unexpected message is asked for. The kinds have numbers of their own: those of streams
/// from other nodes count up here, those of announced messages at their sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Name {
    /// Number of the stream as which its data come.
    Stream(u32),
    /// Number under which its sender has announced it.
    Announced(u32),
    /// Request of a send of the process to itself.
    Local(u32),
}

impl Body {
    /// Plain body, without what is known of its data.
    fn plain(&self) -> &Body {
        match self {
            Body::Signed(_, body) => body.plain(),
            body => body,
        }
    }

    /// Whether its data come under this message number.
    pub(super) fn is_streaming(&self, number: u32) -> bool {
        matches!(self.plain(), Body::Streaming(mine) if *mine == number)
    }

    /// Whether all its data are here.
    pub(super) fn is_whole(&self) -> bool {
        !matches!(self.plain(), Body::Streaming(_) | Body::Rendezvous { .. })
    }

    /// Whether its data come without being asked for.
    pub(super) fn is_on_its_way(&self) -> bool {
        matches!(self.plain(), Body::Streaming(_))
    }

    /// Data of the message, so many bytes.
    ///
    /// # Panics
    /// When they are not here.
    pub(super) fn into_data(self, bytes: usize) -> Box<[u8]> {
        match self {
            Body::Short(data) => data[..bytes].into(),
            Body::Long(data) | Body::Moved(data) => data,
            other => panic!("the data of a message are not here: {other:?}"),
        }
    }

    /// Name by which it is asked for, if that is another thing than what it matches.
    pub(super) fn name(&self) -> Option<Name> {
        match self.plain() {
            Body::Streaming(number) => Some(Name::Stream(*number)),
            Body::Rendezvous { message, .. } => Some(Name::Announced(*message)),
            Body::Local { request, .. } => Some(Name::Local(*request)),
            _ => None,
        }
    }

    /// All its data have come.
    pub(super) fn complete(&mut self, data: Box<[u8]>) {
        match self {
            Body::Signed(_, body) => body.complete(data),
            body => *body = Body::Long(data),
        }
    }
}

/// Data that are kept without an allocation.
pub(super) const SHORT_BYTES: usize = 40;

/// Whether a receive takes a message: context and tag of each, the source aside.
#[inline(always)]
pub(super) fn matches(receive: (u32, i32), message: (u32, i32)) -> bool {
    receive.0 == message.0 && (receive.1 == message.1 || receive.1 == MPI_ANY_TAG)
}

/// Whether a small message matches: a receive takes it, and has room for it. Context, tag and capacity;
/// context, tag and bytes.
#[inline(always)]
pub(super) fn small_matches(receive: (u32, i32, usize), message: (u32, i32, usize)) -> bool {
    matches((receive.0, receive.1), (message.0, message.1)) && message.2 <= receive.2
}
