//! Counters of the engine; `stats` shows them to the user.

/// Counts since Init (the paper's table 5).
///
/// Counters of a small message stand apart: counted side by side they would be put together in a register of
/// vectors first, in more instructions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Messages sent.
    pub messages: u64,
    /// Messages streamed through the bulk ring without asking.
    pub streamed: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Messages announced.
    pub rendezvous: u64,
    /// Messages sent inside the envelope ring.
    pub eager: u64,
    /// Messages written to advertised receives (the paper's write protocol), whichever way their bytes went.
    pub remote_write: u64,
    /// Bytes of those messages.
    pub written_bytes: u64,
    /// Messages received that no receive was posted for: the paper's crossing list.
    pub unexpected: u64,
    /// Receives advertised to their senders (send-requests).
    pub rtr: u64,
    /// Advertised receives of others that a message of ours had crossed.
    pub stale: u64,
    /// Advertised receives of others that were not used because too many messages were on their way.
    pub uncertain: u64,
    /// Bytes copied by this rank from or to another's memory.
    pub copied_bytes: u64,
    /// How often the job has been thawed on this node ([`Engine::counted`](super::Engine::counted)).
    pub thaws: u64,
    /// How long it has stood still here.
    pub frozen_us: u64,
}
