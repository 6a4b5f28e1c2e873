//! The wire between the front end and a starter: a stream socket that carries frames both ways.
//!
//! ```text
//! | kind: u32 | rank: u32 | bytes: u32 | payload |      host byte order, since it never leaves the host
//! ```
//!
//! | frame | from | rank | payload |
//! |---|---|---|---|
//! | Job | front end, first | - | [`Job`] as JSON |
//! | Peers | front end, after [`Report::Addresses`] of every node | - | [`Reached`] of all world ranks as JSON: now the ranks start |
//! | Signal | front end | signal number | - |
//! | Input | front end | rank | bytes for its stdin; the next one only after [`Report::InputTaken`]; empty: end of file |
//! | Suspend, Resume, Kill | front end | - | - |
//! | Window | front end | rows << 16, columns | - |
//! | Detach | front end, to a daemon | - | - |
//! | Leave | front end, after [`Report::Left`] of every node | - | - |
//! | Fence | starter, when all ranks of its node are in a barrier of PMI | number, from 1 | keys and values ([`crate::pmi`]) that they have put since the last |
//! | Fence | front end, when all nodes are in it | the same number | those of all nodes, one after the other |
//! | Taken | daemon | - | place below which it has the output for good (u64) |
//! | Back | starter, first, to a daemon that has followed its own | - | [`Back`] as JSON |
//! | Hold, Release | daemon | - | number and bytes of a snapshot (`starter/hold.rs`) |
//! | Held, Released | starter | - | number of a snapshot, what is seen; whether it is whole |
//! | Output, Errors | starter | rank | what it wrote: whole lines, or a part after a silence |
//! | Report | starter | - | [`Report`] as JSON; [`Report::End`] is the last frame |
//!
//! Ranks are world ranks. End of file on either side means that the other one is dead: the starter then kills the job.
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
//! A starter whose ranks have all ended well stays: their sockets are open, and what others still send is answered for (W8).
//! It says Left and leaves when all others have said so.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Serialize};

/// Bytes of a frame's head.
pub const HEAD_BYTES: usize = 12;
/// Payload of an Input, Output or Errors frame, at most.
pub const DATA_BYTES_MAX: usize = 64 << 10;
/// Payload of any frame, at most: a job's arguments and environment are bounded by the kernel far below.
pub const PAYLOAD_BYTES_MAX: usize = 256 << 20;

/// In place of a rank in [`Kind::Leave`]: no daemon will follow this one.
pub const FOR_GOOD: u32 = 1;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// The description of the job.
    Job = 1,
    /// A signal for every rank's process group.
    Signal = 2,
    /// Bytes for a rank's stdin.
    Input = 3,
    /// Stop the job, then report [`Report::Suspended`].
    Suspend = 4,
    /// Let a stopped job go on.
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
    /// To a daemon: the front end goes, the job goes on. Never on the wire to a starter.
    Detach = 11,
    /// From a daemon: it has the output below a place (u64).
    Taken = 12,
    /// To a daemon, the first frame of a starter whose own has died: [`Back`] as JSON.
    Back = 13,
    /// Who has stopped the job in its turn, by signals, is gone: it goes on, unless its user has stopped it.
    Thaw = 14,
    /// From a daemon: the job stands still for a snapshot. Its number (u64), bytes of data that it may have (u64).
    Hold = 15,
    /// A rank's stdout.
    Output = 16,
    /// A rank's stderr.
    Errors = 17,
    /// Something that the front end should know.
    Report = 18,
    /// The ranks stand still: number of the hold (u64), then what is seen of them, a [`crate::snapshot::View`] as JSON.
    Held = 19,
    /// They go on: number of the hold (u64), 1 if they have stood still from Held to Release (u64).
    Released = 20,
    /// From a daemon: the snapshot of this number (u64) is complete, or given up.
    Release = 21,
    /// To a daemon: what a user wants, as JSON. Never on the wire to a starter.
    Ask = 32,
    /// From a daemon: the answer, as JSON.
    Answer = 33,
}

/// Every kind, for decoding.
const KINDS: [Kind; 23] = [
    Kind::Job,
    Kind::Signal,
    Kind::Input,
    Kind::Suspend,
    Kind::Resume,
    Kind::Kill,
    Kind::Peers,
    Kind::Leave,
    Kind::Fence,
    Kind::Window,
    Kind::Detach,
    Kind::Taken,
    Kind::Back,
    Kind::Thaw,
    Kind::Hold,
    Kind::Release,
    Kind::Output,
    Kind::Errors,
    Kind::Report,
    Kind::Held,
    Kind::Released,
    Kind::Ask,
    Kind::Answer,
];

/// A frame without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What it is.
    pub kind: Kind,
    /// The rank or signal that it is about.
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
    let json = serde_json::to_vec(value).expect("the types of this module have no unserialisable values");
    put(out, kind, 0, &json);
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

    /// Bytes that are no whole frame yet, or have not been asked for.
    pub fn waiting(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// When the bytes are not of this protocol.
    pub fn next_frame(&mut self) -> Result<Option<(Head, &[u8])>, BadFrame> {
        let rest = &self.bytes[self.taken..];
        if rest.len() < HEAD_BYTES {
            return Ok(None);
        }
        let word = |at: usize| u32::from_ne_bytes(rest[at..at + 4].try_into().expect("four bytes"));
        let (kind, rank, bytes) = (word(0), word(4), word(8));
        let known = KINDS.into_iter().find(|known| *known as u32 == kind);
        let Some(kind) = known.filter(|_| bytes as usize <= PAYLOAD_BYTES_MAX) else {
            return Err(BadFrame { kind, bytes });
        };
        let end = HEAD_BYTES + bytes as usize;
        if rest.len() < end {
            return Ok(None);
        }
        let start = self.taken + HEAD_BYTES;
        self.taken += end;
        Ok(Some((Head { kind, rank, bytes: bytes as usize }, &self.bytes[start..self.taken])))
    }
}

/// A text of the operating system: arguments, paths and values need not be UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Text {
    /// The usual case.
    Utf8(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

impl Text {
    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Text::Utf8(text) => text.as_bytes(),
            Text::Bytes(bytes) => bytes,
        }
    }
}

impl From<OsString> for Text {
    fn from(text: OsString) -> Self {
        text.into_string().map_or_else(|text| Text::Bytes(text.into_vec()), Text::Utf8)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Text::Utf8(text.to_owned())
    }
}

impl From<&Text> for OsString {
    fn from(text: &Text) -> Self {
        std::ffi::OsStr::from_bytes(text.as_bytes()).to_owned()
    }
}

/// A job as the front end describes it. Environment, working directory, limits and affinity are inherited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Random number of the job, for the names of its socket and cgroup. The front end draws it, so that it can clean up
    /// after a starter that died before it had said anything.
    pub id: u64,
    /// Pid of the front end: when it is not the starter's parent any more, the job is over.
    pub front_end: u32,
    /// The programs, in order of ranks.
    pub programs: Vec<Program>,
    /// Which ranks get the front end's stdin.
    pub input: Input,
    /// The front end's stdin is to be inherited; else it comes in frames.
    pub input_inherited: bool,
    /// Stdout of the ranks is a terminal of this size (rows, columns); none: a pipe.
    pub terminal: Option<(u16, u16)>,
    /// Stdin, stdout and stderr of rank 0 are that terminal, and it is its controlling one: keys are its to hear.
    pub pty: bool,
    /// Which cores a rank may use.
    pub binding: Binding,
    /// Cores of a rank, when the user said so.
    pub cores_per_rank: Option<u32>,
    /// More ranks than cores are an error.
    pub no_oversubscribe: bool,
    /// What of it is this starter's; none: all.
    pub part: Option<Part>,
    /// Say on stderr what the starter does.
    pub debug: bool,
    /// The front end is a daemon, whose death is not the job's; none: it is.
    #[serde(default)]
    pub daemon: Option<Daemon>,
    /// What its ranks on this node may have of memory, where the kernel can see to that; none: anything.
    #[serde(default)]
    pub memory: Option<MemoryLimit>,
}

/// Memory that the ranks of a node may have together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// So much.
    pub bytes: u64,
    /// What the user reads of who has been killed for it: "the job's memory on node ... reached ...".
    pub reached: String,
}

/// How a starter finds its daemon again, when that has died and another has taken its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Daemon {
    /// The local socket.
    pub socket: Text,
    /// The cluster's number of the job.
    pub job: u64,
    /// Random number that shows that it is the starter.
    pub token: u64,
    /// So long it tries, in ms.
    pub patience_ms: u64,
}

/// What a starter says to a daemon that has taken the place of its own. Behind it comes again all that it has ever reported, and
/// the output that no daemon has taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Back {
    /// The cluster's number of the job.
    pub job: u64,
    /// [`Daemon::token`].
    pub token: u64,
    /// Place of the first byte of output that follows, counted in bytes of Output and Errors frames.
    pub base: u64,
    /// Number (the frame's `rank`) of the last Input frame that has come.
    pub piece: u32,
    /// It has been taken.
    pub taken: bool,
    /// The job is stopped.
    pub frozen: bool,
    /// Peers have come.
    pub has_peers: bool,
}

/// The part of one node in a job that runs on several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Number of the node, from 0.
    pub node: u32,
    /// World rank of each node's first rank.
    pub first_ranks: Vec<u32>,
    /// Address of this node on which its ranks are reached.
    pub address: IpAddr,
    /// Random number that every packet of the job carries.
    pub key: u64,
    /// The nodes are virtual ones: they share the cores of this machine.
    pub shares_machine: bool,
}

impl Job {
    /// Ranks of all programs.
    pub fn ranks(&self) -> u64 {
        self.programs.iter().map(|program| u64::from(program.ranks)).sum()
    }

    /// Which of the programs a world rank runs.
    pub fn program_of(&self, rank: u64) -> usize {
        let mut end = 0;
        let begins_behind = |program: &&Program| {
            end += u64::from(program.ranks);
            end <= rank
        };
        self.programs.iter().take_while(begins_behind).count()
    }

    /// World ranks of this starter.
    pub fn local_ranks(&self) -> Range<u64> {
        match &self.part {
            None => 0..self.ranks(),
            Some(part) => {
                let first = |node: usize| part.first_ranks.get(node).copied().map(u64::from);
                let node = part.node as usize;
                first(node).unwrap_or(0)..first(node + 1).unwrap_or(self.ranks())
            }
        }
    }

    /// Number of this starter's node.
    pub fn node(&self) -> u32 {
        self.part.as_ref().map_or(0, |part| part.node)
    }

    /// Text for the names of what belongs to this starter alone: job, and node if there are several.
    pub fn name(&self) -> String {
        name_of(self.id, self.part.as_ref().map(|part| part.node))
    }
}

/// [`Job::name`] for those who know the job's number only.
pub fn name_of(job: u64, node: Option<u32>) -> String {
    node.map_or_else(|| format!("{job:016x}"), |node| format!("{job:016x}-{node}"))
}

/// One program of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The file to execute.
    pub file: Text,
    /// Its arguments; the first is its name.
    pub arguments: Vec<Text>,
    /// How many ranks run it.
    pub ranks: u32,
    /// Working directory, if not the front end's.
    pub directory: Option<Text>,
    /// Which variables of the front end's environment it gets.
    pub inherits: Inherits,
    /// Variables set for it.
    pub variables: Vec<(Text, Text)>,
}

/// Which variables of the front end's environment a program gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Inherits {
    /// All.
    All,
    /// These and the few without which nothing starts (PATH, HOME, ...).
    Only(Vec<Text>),
}

/// Which ranks get the front end's stdin; the others read end of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// None.
    None,
    /// Every rank gets all of it.
    All,
    /// One rank.
    Rank(u32),
}

/// Which cores a rank may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Binding {
    /// All of the job.
    None,
    /// One each, or `cores_per_rank`.
    Core,
    /// A fair share as a set.
    Share,
}

/// Where ranks are reached, of a node or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// In the order of ranks.
    pub addresses: Vec<SocketAddr>,
    /// Bytes of a datagram, at most, so that the links of these nodes take it in one piece.
    pub datagram_bytes: u32,
}

impl Reached {
    /// The ranks of several nodes, in the order of the nodes.
    pub fn of_all<'a>(nodes: impl IntoIterator<Item = &'a Reached>) -> Reached {
        let mut all = Reached { addresses: Vec::new(), datagram_bytes: u32::MAX };
        for node in nodes {
            all.addresses.extend(&node.addresses);
            all.datagram_bytes = all.datagram_bytes.min(node.datagram_bytes);
        }
        all
    }
}

/// What the starter tells the front end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// Everything is there for the ranks of this node, in order. They start when Peers has come.
    Addresses(Reached),
    /// The ranks of this node are forked.
    Started {
        /// Pids in the order of ranks.
        pids: Vec<u32>,
        /// Cores in the order of ranks, as a list such as `0-1,4`; empty when not bound.
        cores: Vec<String>,
    },
    /// The last Input frame has been taken, another may come.
    InputTaken,
    /// No rank of this node reads its stdin any more.
    InputUnwanted,
    /// All ranks are stopped.
    Suspended,
    /// Rank 0 was stopped by its terminal: the whole job is to be.
    Stopped,
    /// Of a job that was started without a daemon: after [`Report::Stopped`] it goes on.
    Continued,
    /// From a daemon: the front end may go, the job goes on.
    Detached,
    /// The job is over and is being killed on this node; only the first time, before anything is said of why.
    Ending {
        /// Exit status of the job as far as this node knows.
        status: u8,
    },
    /// A rank ended in a way that the user should read.
    Ended(Ended),
    /// One line for the user that is about no rank.
    Warning(String),
    /// All ranks of this node sleep until something comes for them, or no longer (`starter/stuck.rs`). Not for the user.
    Still(Option<Still>),
    /// The job could not be started; one line. [`Report::End`] follows.
    Refused(String),
    /// In a job on several nodes: no rank of this one is left and all their output is sent; the starter waits for Leave.
    Left,
    /// Nothing of the job is left on this node; the last report.
    End {
        /// Exit status of the job as far as this node knows.
        status: u8,
    },
}

/// All ranks of a node sleep until something comes for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Still {
    /// Another one for each time that they began to.
    pub number: u64,
    /// They wait for each other for ever, and the user has been told so: who waits for whom. Known only of a job's single node.
    pub deadlock: Option<String>,
}

/// How a rank ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its rank in the job.
    pub rank: u32,
    /// The process.
    pub pid: u32,
    /// What happened.
    pub cause: Cause,
}

/// What happened to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// It was killed.
    Signal {
        /// By this signal.
        signal: i32,
        /// The kernel wrote its memory to a file.
        core_dumped: bool,
    },
    /// It exited.
    Status(i32),
    /// It called MPI_Init, not MPI_Finalize, and exited with 0.
    NotFinalized,
    /// It called MPI_Abort, or an error was fatal.
    Abort(u32),
    /// The process that called MPI_Init below a wrapper is dead, its wrapper lives on.
    Vanished,
    /// What it wrote on its PMI descriptor is no PMI.
    NoPmi,
    /// It was killed since the job has reached its limit of memory; a [`Report::Warning`] before this one says so.
    Memory,
}

impl Cause {
    /// Exit status that stands for it in a shell.
    pub fn status(self) -> u8 {
        match self {
            Cause::Signal { signal, .. } => 128_i32.saturating_add(signal).clamp(129, 255) as u8,
            Cause::Status(status) => (status & 0xff) as u8,
            Cause::NotFinalized | Cause::Vanished | Cause::NoPmi => 1,
            Cause::Memory => 137,
            Cause::Abort(code) => {
                // An aborted job never looks like a good one.
                let code = (code & 0xff) as u8;
                if code == 0 { 1 } else { code }
            }
        }
    }
}

#[cfg(test)]
mod tests;
