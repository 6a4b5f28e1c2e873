//! How records and bulk messages of an engine leave: whoever has a network implements it.

/// Fate of a record that was offered to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// The record will arrive.
    Taken,
    /// No room for now.
    Full,
    /// The rank has left.
    Gone,
}

/// How records leave.
pub trait Port {
    /// Offers a record, head and body in one, to a rank.
    fn offer(&mut self, to: usize, head: &[u8], body: &[u8]) -> Offered;
    /// Makes room for a bulk message of a rank, and names it.
    fn accept_bulk(&mut self, from: usize, bytes: usize, tag: u64) -> Room {
        let _ = (from, bytes, tag);
        Room::Never
    }
    /// Begins to send a bulk message under the name that its receiver gave it.
    fn send_bulk(&mut self, to: usize, name: u64, bytes: usize, tag: u64) -> Offered {
        let _ = (to, name, bytes, tag);
        Offered::Gone
    }
    /// Takes room back.
    fn cancel_bulk(&mut self, from: usize, name: u64) {
        let _ = (from, name);
    }
    /// Whether there are bulk messages at all.
    fn has_bulk(&self) -> bool {
        false
    }
}

/// Whether there is room for a bulk message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Name of the message.
    Named(u64),
    /// Not for now.
    Full,
    /// No room ever.
    Never,
}
