//! The endpoint block of a rank: what the others, and later the daemon, may know of it.

use crate::sync::{AtomicU32, AtomicU64};

/// The rank has left those that have started it.
pub const PARTED: u32 = 1;
/// The rank is connected with no process beyond its own MPI_COMM_WORLD (MPI 11.10.4), after it was.
pub const SEPARATE: u32 = 2;

/// One per local rank, in the segment.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Endpoint {
    /// Pid in the namespace of the starter, as the kernel names it there; 0 until the rank has attached.
    /// Writer: the starter, before it grants the ticket; of a process without one the process.
    pub pid: AtomicU32,
    /// [`ABSENT`], [`ATTACHED`] or [`FINALIZED`]. Writer: the rank.
    pub state: AtomicU32,
    /// How many processes have been this rank before. Writer: the starter, before it starts the next one.
    pub generation: AtomicU32,
    /// How many contexts have been taken out of the sequence of this rank. Writers: the rank, and ranks of
    /// the node that have used up their own; it stays for the next process, so that none is taken twice.
    pub contexts: AtomicU32,
    /// Bits: [`PARTED`], [`SEPARATE`]. Writer: the rank.
    pub parted: AtomicU32,
    /// Pid in the namespace of the rank, which may be another one. Writer: the rank, before it is attached.
    pub own_pid: AtomicU32,
    /// A secret word that stands in the memory of the rank, and in that of no other process: who has it is
    /// the rank, whatever its pid is elsewhere. 0: none. Writer: as above.
    pub proof: AtomicU64,
    /// Where it stands there.
    pub proof_at: AtomicU64,
    _line0: [u32; 6],
    /// 1 while a thread of the rank waits inside the library, so that it serves its rings at once. Writer:
    /// the rank.
    pub waiting: AtomicU32,
    /// With more ranks than cores: 1 + the core that the rank was on when it last came to a meeting of all; 0
    /// before. Writer: the rank.
    pub core: AtomicU32,
    /// 1 once the rank may store to its mates' memory without [`crate::watch::notify`]. Writer: the rank.
    pub stores_unnoticed: AtomicU32,
    _line1: [u32; 13],
    /// Not 0 while the rank sleeps or is about to. Writer: the rank, see [`crate::doorbell`].
    pub sleeping: AtomicU32,
    /// Threads of the rank that wait for words of its memory and may sleep. Writer: the rank, see
    /// [`crate::watch`].
    pub watching: AtomicU32,
    _line2: [u32; 14],
    /// Rung by whoever has published something for a sleeper; even, changed by one compare-and-swap, never
    /// back.
    pub bell: AtomicU32,
    _line3: [u32; 15],
    /// Steps that the program says it has made (SSS-CORE, C17). Writer: the rank.
    pub progress: AtomicU64,
    /// How many steps a mate may be behind before nobody spins for it. Writer: the rank.
    pub patience: AtomicU64,
    /// Calls of MPI that the rank has made. Writer: the rank. Reader: the node's daemon
    /// ([`crate::call_counts`]).
    pub calls: AtomicU64,
    /// Messages that the process of the rank has sent, as of its last call. Writer and reader as above.
    pub messages: AtomicU64,
    _line4: [u64; 4],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Endpoint>() == 5 * 64 && align_of::<Endpoint>() == 64);

/// The rank has not redeemed its ticket yet.
pub const ABSENT: u32 = 0;
/// The rank has mapped the segment.
pub const ATTACHED: u32 = 1;
/// The rank has left MPI_Finalize; it will neither send nor receive again.
pub const FINALIZED: u32 = 2;
