//! The wire between the front end and a starter: a stream socket that carries frames both ways.
//!
//! ```text
//! | kind: u32 | rank: u32 | bytes: u32 | payload |      host byte order, since it never leaves the host
//! ```
//!
//! | frame | from | number | payload |
//! |---|---|---|---|
//! | Group | root's daemon, before Job | flags | descriptors ([`tutti_os::cgroup::Granted`]) |
//! | Job | front end, first | - | [`Job`] as JSON |
//! | Peers | front end, after [`Report::Addresses`] of every node | - | [`Reached`] of all world ranks as JSON: now the ranks start |
//! | Signal | front end, daemon | signal number | -; of a daemon [`SignalsHeard`] |
//! | Input | front end | rank | bytes for its stdin; the next one only after [`Report::InputTaken`]; empty: end of file |
//! | Suspend, Resume | front end | - | - |
//! | Kill | front end, daemon | 0; [`SPARE_FILTERS`] | - |
//! | Thaw | daemon | - | - |
//! | Terminated | daemon | - | number of a snapshot |
//! | Window | front end | rows << 16, columns | - |
//! | Detach | front end, to a daemon | - | - |
//! | Leave | front end, after [`Report::Left`] or [`Report::Empty`] of every node | 0; [`FOR_GOOD`] | - |
//! | Fence | starter, when all ranks of its node are in a barrier of PMI | number, from 1 | keys and values (PMI) that they have put since the last |
//! | Fence | front end, when all nodes are in it | the same number | those of all nodes, one after the other |
//! | Ask | starter, of a job on several nodes | number, from 1 | a rank of its node wants more ranks (`starter/spawning.rs`) |
//! | Spawn | front end, one after the other | number, from 1 | node of a starter and number of its Ask (u32 each), the Ask: all starters start their share |
//! | Spawned | starter | the number of Spawn | how that went, a line |
//! | SpawnEnd | front end, when all have said so | the number of Spawn | the lines of all: the ranks stay, or all are taken back |
//! | Taken | daemon | - | place below which it has the output for good (u64) |
//! | Reattach | starter, first, to a daemon that has followed its own | - | [`Reattach`] as JSON |
//! | Hold, Release | daemon | - | number and bytes of a snapshot (`starter/hold.rs`) |
//! | Held, Released | starter | - | number of a snapshot, what is seen; whether it is whole |
//! | Context | daemon, of a job that is frozen for a strict switch | [`ContextStep`] | generation of the switch, ns that it may take |
//! | ContextDone | starter | the same | the same generation; 1: all is well |
//! | Output, Errors | starter | rank | what it wrote: whole lines, or a part after a silence |
//! | Report | starter | - | [`Report`] as JSON; [`Report::End`] is the last frame |
//! | Request; Answer | user; daemon | - | what the user wants, and the answer, as JSON; never on the wire to a starter |
//! | Files, Write, Flush; Opened, Written | daemon; writer | number of a file | [`crate::writer`]; never on the wire to a starter |
//!
//! A frame of a kind that a later release has added ([`LATER`]) is skipped by its length; the JSON of a known
//! one may have fields that are not known, and those that are new have defaults (SPECIFICATION.md,
//! "Releases").
//!
//! Ranks are world ranks, and a front end is `mpiexec` or a daemon. End of file on either side means that the
//! other one is dead: the starter then kills the job, unless another daemon may follow ([`Job::daemon`]).
//!
//! A job on several nodes has one starter for each, and the front end is their hub:
//!
//! ```text
//! front end                 starter 0        starter 1
//!    | Job, Part 0 ----------> |                |
//!    | Job, Part 1 ---------------------------> |      each makes segment, cgroup, and a UDP socket per rank
//!    | <---------- Addresses 0 | <- Addresses 1 |
//!    | Peers ----------------> | -------------> |      each forks its ranks
//!    | <---------------------- Ending, Ended 1 -|      a rank there has died
//!    | Kill -----------------> |                |
//!    | <---------------- End 0 | <-------- End 1|
//! ```
//!
//! A starter whose ranks have all ended well stays: their sockets are open, and late packets of others are
//! acknowledged. It sends Left, or Empty where ranks of other nodes may ask for some, and exits when all
//! others have.

use serde::Serialize;

mod counted;
mod job;
mod report;

pub use counted::{COUNTERS, Counted};
pub(crate) use job::BorrowedText;
pub use job::{
    Adopted, Binding, Daemon, Inherits, Input, Job, MemoryLimit, Part, Program, SharedSlots, Text,
};
pub use report::{
    CONNECTED_MAX, Cause, Ended, Library, Reached, Reattach, Report, SignalsHeard, Stalled, Told, Used,
};

/// Bytes of a frame's head.
pub const HEAD_BYTES: usize = 12;
/// Payload of an Input, Output or Errors frame, at most.
pub const DATA_BYTES_MAX: usize = 64 << 10;
/// Payload of any frame, at most: a job's arguments and environment are bounded by the kernel far below.
pub const PAYLOAD_BYTES_MAX: usize = 256 << 20;
/// Bytes that the ranks of all nodes put in a barrier of PMI or give in a fence of PMIx, at most.
pub const PUTS_BYTES_MAX: usize = 64 << 20;

/// Numbers of kinds, now and later: another one is not of this protocol.
pub const LATER: std::ops::RangeInclusive<u32> = 1..=255;

/// In place of a rank in [`Kind::Leave`]: no daemon will follow this one.
pub const FOR_GOOD: u32 = 1;

/// In place of a rank in [`Kind::Kill`]: the job has ended itself, here or elsewhere. All is killed but the
/// filters of dead ranks, which write what they have.
pub const SPARE_FILTERS: u32 = 1;
/// Bit beside the number of a signal: the processes of the ranks get it, and nothing that they have started.
pub const SIGNAL_ALONE: u32 = 1 << 16;

/// Defines the kinds, and the list of them for decoding: one that is not in the list would be taken for one
/// of a later release.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal,)*) => {
        /// Kinds of frames.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Kind {
            $($(#[$doc])* $kind = $number,)*
            /// A kind more, as a later release may have it: from a daemon to a starter and to a front end.
            #[cfg(feature = "next-wire")]
            Next = 200,
        }

        const KINDS: &[Kind] = &[
            $(Kind::$kind,)*
            #[cfg(feature = "next-wire")]
            Kind::Next,
        ];
    };
}

kinds! {
    /// The description of the job.
    Job = 1,
    /// A signal for every rank's process group.
    Signal = 2,
    /// Bytes for a rank's stdin.
    Input = 3,
    /// Stop the job, then report [`Report::Suspended`].
    Suspend = 4,
    /// Let a stopped job run again.
    Resume = 5,
    /// End the job at once.
    Kill = 6,
    /// The addresses of all ranks of a job on several nodes.
    Peers = 7,
    /// No rank of the job is left on any node.
    Leave = 8,
    /// All ranks of a node, or of all nodes, are in a barrier of PMI; what they have put since the last one.
    Fence = 9,
    /// The terminal of the front end has another size: rows in the upper half, columns in the lower.
    Window = 10,
    /// To a daemon: the front end detaches, the job continues. Never on the wire to a starter.
    Detach = 11,
    /// From a daemon: it has the output below a place (u64).
    Taken = 12,
    /// To a daemon, the first frame of a starter whose own has died: [`Reattach`] as JSON.
    Reattach = 13,
    /// The daemon that has stopped the job by signals is gone: the job runs again, unless its user has
    /// suspended it.
    Thaw = 14,
    /// From a daemon: freeze the job for a snapshot. Its number (u64), bytes of data that it may have (u64).
    Hold = 15,
    /// A rank's stdout.
    Output = 16,
    /// A rank's stderr.
    Errors = 17,
    /// News for the front end.
    Report = 18,
    /// The ranks are frozen: number of the hold (u64), then what is seen of them, a `tutti_snapshot::View`
    /// as JSON.
    Held = 19,
    /// Ranks run again: number of the hold (u64), 1 if they were frozen from Held to Release (u64).
    Released = 20,
    /// From a daemon: the snapshot of this number (u64) is complete, or given up.
    Release = 21,
    /// To a starter: the job had terminated when the ranks were frozen for the hold of this number (u64);
    /// those that wanted to be told are told.
    Terminated = 28,
    /// From root's daemon, first: the cgroup of the job, as descriptors ([`tutti_os::cgroup::Granted`]).
    Group = 27,
    /// From a daemon: test, save or restore the channels of the job, which is frozen ([`ContextStep`]): the
    /// generation of the switch (u64), ns that it may take (u64).
    Context = 44,
    /// To a daemon: that is done: the generation (u64), 1 if all is well (u64).
    ContextDone = 45,
    /// To a writer of output files: which ([`crate::writer`]).
    Files = 22,
    /// Bytes for one of them.
    Write = 23,
    /// Asks how far it came.
    Flush = 24,
    /// From a writer: the files are there, or not.
    Opened = 25,
    /// How far it came.
    Written = 26,
    /// A rank wants more ranks.
    Ask = 34,
    /// All starters are to start their share of them.
    Spawn = 35,
    /// How that went on a node.
    Spawned = 36,
    /// How that went on all nodes.
    SpawnEnd = 37,
    /// To a daemon: what a user wants, as JSON. Never on the wire to a starter.
    Request = 32,
    /// From a daemon: the answer, as JSON.
    Answer = 33,
}

/// Work on the channels of a frozen job, in a strict switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ContextStep {
    /// Wait until they are steady.
    Test = 1,
    /// Copy their network context.
    Save = 2,
    /// Compare the copy with what is there.
    Restore = 3,
}

impl ContextStep {
    /// The step that stands in place of a rank.
    #[must_use]
    pub fn of_number(number: u32) -> Option<Self> {
        [Self::Test, Self::Save, Self::Restore].into_iter().find(|step| *step as u32 == number)
    }
}

/// A frame without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Kind of the frame.
    pub kind: Kind,
    /// The rank that it is about, or the number that the table of this module says.
    pub rank: u32,
    /// Length of the payload.
    pub bytes: usize,
}

/// The peer does not speak this protocol.
#[derive(Debug, thiserror::Error)]
#[error("a frame of kind {kind} with {bytes} bytes is not one of this version")]
pub struct BadFrame {
    kind: u32,
    bytes: u32,
}

/// Appends a frame to `out`.
///
/// # Panics
/// When the payload is larger than [`PAYLOAD_BYTES_MAX`].
pub fn put(out: &mut Vec<u8>, kind: Kind, rank: u32, payload: &[u8]) {
    assert!(payload.len() <= PAYLOAD_BYTES_MAX, "a payload of {} bytes", payload.len());
    out.reserve(HEAD_BYTES + payload.len());
    out.extend_from_slice(&(kind as u32).to_ne_bytes());
    out.extend_from_slice(&rank.to_ne_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_ne_bytes());
    out.extend_from_slice(payload);
}

/// How long the frame is that begins here; none: its head is not whole.
pub fn frame_bytes(bytes: &[u8]) -> Option<usize> {
    let length = bytes.get(HEAD_BYTES - 4..HEAD_BYTES)?;
    Some(HEAD_BYTES + u32::from_ne_bytes(length.try_into().expect("four bytes")) as usize)
}

/// The frame with which root's daemon gives a starter the descriptors of its cgroup, with their flags in
/// place of a rank.
pub fn group_frame(flags: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    put(&mut frame, Kind::Group, flags, &[]);
    frame
}

/// Appends a frame of two numbers.
pub fn put_numbers(out: &mut Vec<u8>, kind: Kind, first: u64, second: u64) {
    put(out, kind, 0, &[first.to_le_bytes(), second.to_le_bytes()].concat());
}

/// The two numbers of such a frame.
pub fn two_numbers(payload: &[u8]) -> Option<(u64, u64)> {
    let (first, rest) = payload.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*first), u64::from_le_bytes(*rest.first_chunk()?)))
}

/// Appends a frame whose payload is `value` as JSON.
pub fn put_json(out: &mut Vec<u8>, kind: Kind, value: &impl Serialize) {
    put_json_of(out, kind, 0, value);
}

/// The same with a number in its head. The text is written where it is sent from: a list of thousands of jobs
/// has megabytes.
///
/// # Panics
/// As [`put`].
pub fn put_json_of(out: &mut Vec<u8>, kind: Kind, rank: u32, value: &impl Serialize) {
    put(out, kind, rank, &[]);
    let begin = out.len();
    serde_json::to_writer(&mut *out, value).expect("no value that is sent is unserialisable");
    let bytes = out.len() - begin;
    assert!(bytes <= PAYLOAD_BYTES_MAX, "a payload of {bytes} bytes");
    out[begin - 4..begin].copy_from_slice(&(bytes as u32).to_ne_bytes());
}

/// Collects bytes into frames.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    taken: usize,
}

impl Decoder {
    /// Adds what was read from the socket.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Gives back the memory of a long frame that has been taken.
    pub fn shrink(&mut self) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.shrink_to_fit();
    }

    /// Bytes that are no whole frame yet, or have not been asked for.
    pub fn waiting(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// When the bytes are not of this protocol.
    pub fn next_frame(&mut self) -> Result<Option<(FrameHeader, &[u8])>, BadFrame> {
        loop {
            let rest = &self.bytes[self.taken..];
            if rest.len() < HEAD_BYTES {
                return Ok(None);
            }
            let word = |at: usize| u32::from_ne_bytes(rest[at..at + 4].try_into().expect("four bytes"));
            let (kind, rank, bytes) = (word(0), word(4), word(8));
            if !LATER.contains(&kind) || bytes as usize > PAYLOAD_BYTES_MAX {
                return Err(BadFrame { kind, bytes });
            }
            let end = HEAD_BYTES + bytes as usize;
            if rest.len() < end {
                return Ok(None);
            }
            let start = self.taken + HEAD_BYTES;
            self.taken += end;
            if let Some(kind) = KINDS.iter().copied().find(|known| *known as u32 == kind) {
                let header = FrameHeader { kind, rank, bytes: bytes as usize };
                return Ok(Some((header, &self.bytes[start..self.taken])));
            }
        }
    }
}

#[cfg(test)]
mod tests;
