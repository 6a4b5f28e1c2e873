//! Counters of an endpoint.

use crate::packet::Rejection;

/// Why a datagram was dropped whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Drop {
    /// Not a packet.
    #[error("malformed: {0}")]
    Malformed(Rejection),
    /// Another job's key.
    #[error("the key is another job's")]
    WrongKey,
    /// Of the job before it was restored, or of a restored one that is not us.
    #[error("another incarnation")]
    WrongIncarnation,
    /// For another rank.
    #[error("for another rank")]
    WrongRank,
    /// From a rank that is not in the partition.
    #[error("from a rank outside the partition")]
    OutsidePartition,
    /// The flow is closed until thaw.
    #[error("the flow is closed")]
    Closed,
    /// The packet acknowledges what was never sent.
    #[error("it acknowledges what was never sent")]
    AckBeyond,
    /// No sender that keeps to the protocol sends this.
    #[error("against the protocol")]
    Wrong,
    /// A bulk message that was never accepted.
    #[error("a bulk message that was not accepted")]
    UnknownBulk,
}

/// Reasons of [`Drop`], as an index into [`Counters::dropped`].
pub const DROP_REASONS: usize = 9;

impl Drop {
    /// Where it is counted.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Drop::Malformed(_) => 0,
            Drop::WrongKey => 1,
            Drop::WrongIncarnation => 2,
            Drop::WrongRank => 3,
            Drop::OutsidePartition => 4,
            Drop::Closed => 5,
            Drop::AckBeyond => 6,
            Drop::Wrong => 7,
            Drop::UnknownBulk => 8,
        }
    }
}

/// Counts since the endpoint was made. They may be read at any time and decide nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams handed out.
    pub datagrams_out: u64,
    /// Datagrams taken in and not dropped.
    pub datagrams_in: u64,
    /// Dropped datagrams by [`Drop::index`].
    pub dropped: [u64; DROP_REASONS],
    /// Records given to be sent.
    pub records_out: u64,
    /// Records taken by the sink.
    pub records_in: u64,
    /// Times that a stream went back.
    pub rewinds: u64,
    /// Data packets with nothing new.
    pub duplicates: u64,
    /// Data packets behind a gap.
    pub gaps: u64,
    /// Times that the sink had no room.
    pub refusals: u64,
    /// Probes sent, of stream and bulk.
    pub probes: u64,
    /// Fragments handed out.
    pub fragments_out: u64,
    /// Fragments stored.
    pub fragments_in: u64,
    /// Fragments found lost.
    pub fragments_lost: u64,
    /// Paths found to be narrower than the longest datagram.
    pub paths_narrowed: u64,
    /// Datagrams that left in pieces.
    pub datagrams_cut: u64,
}

/// How a flow stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowState {
    /// Records in the send FIFO.
    pub held: u32,
    /// Bytes of kernel buffer that what is under way takes at the other side, at most.
    pub flight_bytes: u32,
    /// How much of that may be under way.
    pub window_bytes: u32,
    /// How much of that the other side grants.
    pub credit_bytes: u32,
    /// The smoothed round-trip time, delays of acknowledgements included; 0 if none was measured.
    pub rtt_ns: u64,
    /// The other side has no room and was not heard to have some again.
    pub waits_for_room: bool,
    /// The other side has left.
    pub exited: bool,
    /// Long datagrams do not get through, and travel in pieces.
    pub is_narrow: bool,
}
