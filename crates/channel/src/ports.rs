//! Ports of an endpoint, given by its owner: memory of each flow, a sink for what arrives, a source for bulk
//! data.

use crate::types::Rank;

/// The words of a flow that others may look at while the rank is frozen. Each is 64 bits and has one writer,
/// the rank.
///
/// | word | value |
/// |---|---|
/// | `SndUna` | first record not acknowledged; in the high half where it lies in the FIFO, in bytes |
/// | `SndNxt` | record after the last in the FIFO; in the high half the end of it in the FIFO, in bytes |
/// | `SndHigh` | record after the highest that may ever have been in a packet: written BEFORE the packet is handed out |
/// | `RcvNxt` | next record expected: all before it have been taken by the sink. This word is the commit of a receive |
/// | `Rewind` | the sender's round of (re)transmission |
/// | `BulkName` | one more than the name of a bulk message that is coming in, the one last acknowledged; 0: none. Stored behind the two that follow, and 0 before they change |
/// | `BulkBytes` | how long it is |
/// | `BulkHere` | how many of its first bytes are stored where they belong: at least what was acknowledged in one piece |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FlowWord {
    /// First record not acknowledged.
    SndUna = 0,
    /// Record after the last in the FIFO.
    SndNxt = 1,
    /// Record after the highest ever handed out.
    SndHigh = 2,
    /// Next record expected.
    RcvNxt = 3,
    /// Round of (re)transmission.
    Rewind = 4,
    /// Which bulk message is coming in.
    BulkName = 5,
    /// How long it is.
    BulkBytes = 6,
    /// How many of its first bytes are stored.
    BulkHere = 7,
}

/// How many words a flow publishes.
pub const WORDS: usize = 8;

/// The memory of one flow: its published words and the bytes of its send FIFO. The runtime lets both lie in
/// the rank segment, a simulation in plain memory.
pub trait FlowMemory {
    /// Stores a word so that whoever sees it sees all that was written before: an aligned 8-byte Release
    /// store, and a compiler fence behind it, so that nothing written later in the program becomes visible
    /// earlier (bytes of the FIFO are used again only after `SndUna` has moved past them).
    fn publish(&mut self, word: FlowWord, value: u64);

    /// The send FIFO: always the same bytes, a multiple of 8 of them, at most 1 GiB.
    fn fifo(&self) -> &[u8];

    /// The same, to be written. Only the endpoint writes it.
    fn fifo_mut(&mut self) -> &mut [u8];
}

/// Whether a record was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The record is published where the rank finds it; its sender may forget it.
    Yes,
    /// The sink has no room. Nothing of the record may have been kept; the sender waits until
    /// [`handle_room`](crate::Endpoint::handle_room) is called.
    Full,
}

/// Where arriving data go. Both functions copy what they want to keep; neither may call the endpoint.
pub trait Sink {
    /// The next record of the stream of `from`. Must be published on return: the acknowledgement that follows
    /// lets the sender free it. A rank that is frozen inside has not received it until `RcvNxt` says so.
    fn record(&mut self, from: Rank, record: &[u8]) -> Taken;

    /// Bytes that belong at `offset` of the bulk message accepted with `tag`. The same bytes may come again
    /// before the message is complete, never after.
    fn fragment(&mut self, tag: u64, offset: u64, bytes: &[u8]);
}

/// Where the data of bulk messages come from.
pub trait Source {
    /// Fills `into` with the bytes at `offset` of the message sent with `tag`. They may be asked for again
    /// until the message's [`BulkSent`](crate::Event::BulkSent).
    fn read(&mut self, tag: u64, offset: u64, into: &mut [u8]);

    /// The same bytes where they lie, if the whole message lies in one piece: then its fragments are handed
    /// out without their data ([`Transmit::lies_in`](crate::Transmit::lies_in)), which nobody has to copy.
    fn slice(&self, tag: u64, offset: u64, bytes: usize) -> Option<&[u8]> {
        let _ = (tag, offset, bytes);
        None
    }
}

/// Flow memory in plain memory of this process: for simulations, tests and benchmarks.
#[derive(Clone, Debug)]
pub struct PlainMemory {
    /// The published words, by [`FlowWord`].
    pub words: [u64; WORDS],
    fifo: Vec<u8>,
}

impl PlainMemory {
    /// A flow whose FIFO has `fifo_bytes`.
    #[must_use]
    pub fn new(fifo_bytes: usize) -> Self {
        PlainMemory { words: [0; WORDS], fifo: vec![0; fifo_bytes] }
    }
}

impl FlowMemory for PlainMemory {
    #[inline]
    fn publish(&mut self, word: FlowWord, value: u64) {
        self.words[word as usize] = value;
    }

    #[inline]
    fn fifo(&self) -> &[u8] {
        &self.fifo
    }

    #[inline]
    fn fifo_mut(&mut self) -> &mut [u8] {
        &mut self.fifo
    }
}
