//! The way to the other nodes, as the protocol uses it. The channel loses nothing and keeps the order of a
//! pair.

/// Whether a record was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Sent, in order with those before it.
    Taken,
    /// No room yet.
    Full,
    /// The node has left.
    Gone,
}

/// The way to the other nodes.
pub trait Port {
    /// Hands a record over.
    fn try_send(&mut self, to: usize, head: &[u8], body: &[u8]) -> Sent;
    /// Bytes of the longest record.
    fn record_bytes_max(&self) -> usize;
    /// The last record handed over to a node is one that [`Port::is_applied`] is about.
    fn note_awaited(&mut self, to: usize);
    /// Whether all of those have been applied there.
    fn is_applied(&mut self, to: usize) -> bool;
}
