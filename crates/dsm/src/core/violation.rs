//! Mistakes of a program with shared memory: each ends the job with its line, but for a race in which both
//! store the same value.

use thiserror::Error;

use super::check::Race;

/// Memory that each process has for itself, at an address of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Private {
    /// The stack.
    Stack,
    /// Anything else.
    Other,
}

impl std::fmt::Display for Private {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(match self {
            Private::Stack => "a variable of a function",
            Private::Other => "memory of malloc or of a library",
        })
    }
}

/// Mistake of a program; it ends the job.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Violation {
    /// UNLOCK by a rank that does not hold it.
    #[error("rank {node} gives back lock {lock}, which {}", match .holder { Some(holder) => format!("rank {holder} holds"), None => "is free".to_owned() })]
    NotHeld {
        /// Number of the lock.
        lock: u64,
        /// The rank that gave it back.
        node: usize,
        /// The rank that has it.
        holder: Option<usize>,
    },
    /// The same, as that rank itself knows it.
    #[error("rank {node} gives back lock {lock}, which it does not hold")]
    NotOwn {
        /// Number of the lock.
        lock: u64,
        /// The rank that gave it back.
        node: usize,
    },
    /// UNLOCK by a rank where no rank of its node holds it.
    #[error("rank {node} gives back lock {lock}, which no rank of its node holds")]
    NotHeldHere {
        /// Number of the lock.
        lock: u64,
        /// The rank that gave it back.
        node: usize,
    },
    /// LOCK by the rank that holds it.
    #[error("rank {node} asks for lock {lock}, which it holds already: it would wait for ever")]
    HeldAlready {
        /// Which lock.
        lock: u64,
        /// The rank.
        node: usize,
    },
    /// Ranks that meet at a barrier do not agree how many they are.
    #[error(
        "rank {node} comes to barrier {barrier} of {found} ranks; others wait at it as one of {expected}"
    )]
    BarrierCount {
        /// Which barrier.
        barrier: u64,
        /// The rank that came last.
        node: usize,
        /// Text of the message.
        found: u64,
        /// Answers of the others.
        expected: u64,
    },
    /// Ranks wait at a barrier for some that have ended.
    #[error(
        "rank {node} waits at barrier {barrier} of {count} ranks for ever: {ended} of {nodes} ranks have returned from the function that CREATE was given"
    )]
    Deserted {
        /// Which barrier.
        barrier: u64,
        /// A rank that waits.
        node: usize,
        /// How many were to meet.
        count: u64,
        /// How many ranks come to nothing more.
        ended: usize,
        /// All ranks.
        nodes: usize,
    },
    /// No such block.
    #[error("{site}: G_FREE of an address that G_MALLOC has not given, or that is free already")]
    NotAllocated {
        /// The line of the program.
        site: String,
    },
    /// A load or store beside all blocks.
    #[error("rank {node} touches byte {offset} of shared memory, which is in no block: {nearest}")]
    Beyond {
        /// The rank.
        node: usize,
        /// Where, in the arena.
        offset: u64,
        /// The last block before it.
        nearest: String,
    },
    /// Two ranks store to a byte, and nothing orders them.
    #[error("{race}")]
    Race {
        /// Which.
        race: Race,
    },
    /// A store that would not go home.
    #[error(
        "rank {node} stores to byte {offset} of shared memory by code that makes no notes, beside noted stores to the same page: compile all with tutticc, or use --dsm=twin"
    )]
    Unnoted {
        /// The rank.
        node: usize,
        /// Where, in the arena.
        offset: u64,
        /// The place of the instruction that stored to the page first.
        site: u64,
    },
    /// A pointer in shared memory that leads other ranks astray.
    #[error(
        "rank {node} stores {address:#x}, the address of {place}, at byte {offset} of shared memory: other processes have something else there, or nothing; G_MALLOC gives memory that all have"
    )]
    Private {
        /// The rank.
        node: usize,
        /// Where the pointer lies, in the arena.
        offset: u64,
        /// Address that it holds.
        address: u64,
        /// The same, as words.
        place: Private,
        /// The place of the instruction that stored to the page first.
        site: u64,
    },
    /// A loop that waits until a byte changes, which nothing has it see.
    #[error(
        "rank {node} spins on byte {offset} of shared memory: another rank has stored there, and no lock, barrier or pause lets this one see it"
    )]
    Spin {
        /// The rank.
        node: usize,
        /// Where, in the arena.
        offset: u64,
        /// The place of the instruction that loads it.
        site: u64,
    },
    /// The arena is full.
    #[error(
        "{site}: {} of {bytes} bytes: {left} are left of the {size} {}; most are taken by {users}",
        if *.is_updated { "G_MALLOC_UPDATE" } else { "G_MALLOC" },
        if *.is_updated { "beside TUTTI_DSM_SIZE that are an eighth of it" } else { "of TUTTI_DSM_SIZE" }
    )]
    Full {
        /// The line of the program.
        site: String,
        /// Thing asked for.
        bytes: u64,
        /// Whether in the part whose stores go to all copies.
        is_updated: bool,
        /// Free memory.
        left: u64,
        /// The whole memory.
        size: u64,
        /// The lines that have most.
        users: String,
    },
}

impl Violation {
    /// Whether the program may go on: nothing is known to be wrong.
    pub fn is_doubt(&self) -> bool {
        matches!(self, Violation::Race { race } if race.is_same)
    }
}
