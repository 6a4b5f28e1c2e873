//! Reports of a starter about a job: where its ranks are reached, how they end.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::Counted;
use crate::version::Greeting;

/// The first frame to a daemon that has taken the place of its own. Behind it come again all its reports, and
/// the output that no daemon has taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reattach {
    /// The cluster's number of the job.
    pub job: u64,
    /// [`super::Daemon::token`].
    pub token: u64,
    /// Place of the first byte of output that follows, counted in bytes of Output and Errors frames.
    pub base: u64,
    /// Number (the frame's `rank`) of the last Input frame that has come.
    pub piece: u32,
    /// Whether that has been taken.
    pub taken: bool,
    /// Orders of earlier daemons.
    #[serde(flatten)]
    pub told: Told,
    /// Versions that the starter speaks, and its release; none: of release 0.2.0.
    #[serde(default)]
    pub greeting: Option<Greeting>,
}

/// Orders that a starter has had from daemons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// The job is stopped.
    pub frozen: bool,
    /// Peers have come.
    pub has_peers: bool,
    /// Signals that have come; of release 0.2.0 nothing is known of them.
    #[serde(default)]
    pub signals: SignalsHeard,
}

/// Which signals of a job have come to a starter. A Signal frame of a daemon says the number of its signal, 8
/// bytes, and whether it is the TERM of the job's end, 1 byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalsHeard {
    /// The largest number.
    pub number: u64,
    /// The TERM of its end, too.
    pub term: bool,
}

impl SignalsHeard {
    /// Payload of a Signal frame.
    #[must_use]
    pub fn frame(number: u64, is_term: bool) -> Vec<u8> {
        [&number.to_le_bytes()[..], &[u8::from(is_term)]].concat()
    }

    /// A frame has come. One without a number is of a front end, or of a daemon of an earlier release.
    pub fn hear(&mut self, payload: &[u8]) {
        let Some((number, is_term)) = payload.split_first_chunk() else { return };
        self.number = self.number.max(u64::from_le_bytes(*number));
        self.term |= is_term == [1];
    }
}

/// Where ranks are reached, of a node or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// In the order of ranks: those that the job begins with, then, where a table of all has them, those that
    /// may be started later.
    pub addresses: Vec<SocketAddr>,
    /// Addresses of ranks that may be started later on a node.
    #[serde(default)]
    pub later: Vec<SocketAddr>,
    /// Bytes of a datagram, at most, so that the links of these nodes take it in one piece.
    pub datagram_bytes: u32,
}

impl Reached {
    /// The ranks of several nodes, in the order of the nodes; ranks that are started later go round them.
    pub fn of_all<'a>(nodes: impl IntoIterator<Item = &'a Reached>) -> Reached {
        let nodes: Vec<&Reached> = nodes.into_iter().collect();
        let mut addresses: Vec<SocketAddr> = nodes.iter().flat_map(|node| node.addresses.clone()).collect();
        let rounds = nodes.iter().map(|node| node.later.len()).max().unwrap_or(0);
        addresses
            .extend((0..rounds).flat_map(|round| nodes.iter().filter_map(move |node| node.later.get(round))));
        let datagram_bytes = nodes.iter().map(|node| node.datagram_bytes).min().unwrap_or(u32::MAX);
        Reached { addresses, later: Vec::new(), datagram_bytes }
    }
}

/// Launches that a part of a job is connected to, at most; further ones do not count.
pub const CONNECTED_MAX: usize = 16;

/// A report of the starter to the front end.
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
    /// Ranks that other ranks have asked for are there.
    Later {
        /// Pids of the new ranks.
        pids: Vec<u32>,
        /// Pids of ranks that have ended, whose numbers are used again.
        #[serde(default)]
        gone: Vec<u32>,
    },
    /// The last Input frame has been taken, another may come.
    InputTaken,
    /// No rank of this node reads its stdin any more.
    InputUnwanted,
    /// All ranks are stopped.
    Suspended,
    /// Rank 0 was stopped by its terminal: the whole job is to be.
    Stopped,
    /// Of a job that was started without a daemon: after [`Report::Stopped`] it runs again.
    Continued,
    /// From a daemon: the front end may go, the job continues.
    Detached,
    /// The job is over and is being killed on this node; only the first time, before any report of the cause.
    Ending {
        /// Exit status of the job as far as this node knows.
        status: u8,
    },
    /// A rank ended in a way that the user should read.
    Ended(Ended),
    /// Line for the user that is about no rank.
    Warning(String),
    /// All ranks of this node sleep until something comes for them, or no longer (`starter/stuck.rs`). Not
    /// for the user.
    Stalled(Option<Stalled>),
    /// Idleness on this node: nothing of the job has worked for as long as
    /// [`Job::idle_ms`](super::Job::idle_ms) says, or it works again (`starter/idle.rs`). Not for the user.
    Idle(bool),
    /// The launches that ranks of this node are connected to, by their public numbers
    /// (`tutti_shm::ticket::public_number`): all of them, [`CONNECTED_MAX`] at most. Not for the user.
    Connected(Vec<u64>),
    /// The job could not be started; one line. [`Report::End`] follows.
    Refused(String),
    /// In a job on several nodes: no rank of this one is left, none of them waits for ranks that it has asked
    /// for, and all that is of it in the orders up to this one is over. Only the next order can give it ranks
    /// again.
    Empty(u32),
    /// In a job on several nodes: no rank of this one is left, none can come, and all their output is sent;
    /// the starter waits for Leave.
    Left,
    /// Use of the processes of this node; before the last report.
    Used(Used),
    /// Last report: nothing of the job is left on this node.
    End {
        /// Exit status of the job as far as this node knows.
        status: u8,
    },
    /// All ranks of this node have left the job, and its user wants to know what they have counted
    /// (`TUTTI_STATS`). Comes before [`Report::Left`] and [`Report::End`].
    Counted(Counted),
    /// A rank of this node has begun with MPI, the first on this library.
    Library(Library),
    /// From a daemon: the output that follows is of this node, and begins at this place in all that it has to
    /// say of the job.
    Stands {
        /// Number of the node.
        node: u32,
        /// The place, in bytes of frames.
        place: u64,
    },
    /// From a daemon: number before that of the first piece of stdin. The front end counts its pieces from 1.
    Pieces(u64),
}

/// The library of a rank, as seen by the way in which it has begun with MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Library {
    /// Ours: it has redeemed a ticket.
    Tutti,
    /// Ours, through its face with MPICH's interface: that has redeemed a ticket.
    #[serde(rename = "tutti-mpich")]
    TuttiMpich,
    /// Another one that has spoken PMI.
    Pmi,
    /// Another one that has spoken PMIx.
    Pmix,
}

impl Library {
    /// Column of a table.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Library::Tutti => "Tutti",
            Library::TuttiMpich => "Tutti-MPICH",
            Library::Pmi => "PMI",
            Library::Pmix => "PMIx",
        }
    }

    /// Adds it to those that have been seen; whether it was not among them.
    pub fn note(self, seen: &mut Vec<Library>) -> bool {
        let place = seen.binary_search(&self);
        if let Err(place) = place {
            seen.insert(place, self);
        }
        place.is_err()
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Library::Tutti => "Tutti's library",
            Library::TuttiMpich => "Tutti's library, through MPICH's interface (libmpi.so.12)",
            Library::Pmi => "a library of their own, started by PMI (MPICH or a relative)",
            Library::Pmix => "a library of their own, started by PMIx (Open MPI)",
        })
    }
}

/// Use of the processes of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Time of processors, in us.
    pub cpu_us: u64,
    /// Resident memory of the largest one at its largest.
    pub largest_bytes: u64,
}

impl Used {
    /// Of two nodes together.
    #[must_use]
    pub fn and(self, other: Used) -> Used {
        Used {
            cpu_us: self.cpu_us.saturating_add(other.cpu_us),
            largest_bytes: self.largest_bytes.max(other.largest_bytes),
        }
    }
}

/// All ranks of a node sleep until something comes for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalled {
    /// Another one for each time that they began to.
    pub number: u64,
    /// Deadlock of the ranks: they wait for each other for ever, and the user has a line about the cycle.
    /// Known only of a job's single node.
    pub deadlock: Option<String>,
    /// Ranks of that cycle, in its order; empty: there is none, or a starter of an earlier release does not
    /// say.
    #[serde(default)]
    pub cycle: Vec<u32>,
}

/// How a rank ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Rank of the process in the job.
    pub rank: u32,
    /// The process.
    pub pid: u32,
    /// Cause of the end.
    pub cause: Cause,
}

/// Cause of a rank's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// Killed by a signal.
    Signal {
        /// By this signal.
        signal: i32,
        /// The kernel wrote its memory to a file.
        core_dumped: bool,
    },
    /// Exited with this status.
    Status(i32),
    /// Exited with 0 after MPI_Init, without MPI_Finalize.
    NotFinalized,
    /// Exited with 0 without MPI_Init, for which the ranks that have started it wait.
    NeverInit,
    /// Called MPI_Abort.
    Abort(u32),
    /// The library ended it after an error, of which it has said a line.
    Fatal(u32),
    /// Called shmem_global_exit.
    Exit(u32),
    /// The process that called MPI_Init below a wrapper is dead, its wrapper is not.
    Vanished,
    /// Wrote something on its PMI descriptor that is no PMI.
    NoPmi,
    /// Started without `mpiexec`, which therefore does not see how it ended: not by MPI_Finalize.
    Gone,
    /// Exited with 0 without MPI_Init, and the others wait for it.
    Absent,
    /// Ended, and the kernel does not say how: a filter of system calls forbids to ask, or something has
    /// asked before.
    Unknown,
    /// Killed since the job has reached its limit of memory; a [`Report::Warning`] before this one tells the
    /// user.
    Memory,
    /// Killed since all jobs of its user on the node together have reached their limit of memory. The node's
    /// daemon, which knows the limit, adds a [`Report::Warning`].
    UserMemory,
}

/// The one place of the text about a rank's end: front ends print it, `tutti status` gives it as the cause,
/// the controller logs it, `tutti timeline` draws it.
impl fmt::Display for Ended {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "rank {} (pid {}) ", self.rank, self.pid)?;
        match self.cause {
            Cause::Signal { signal, core_dumped } => {
                let dumped = if core_dumped { ", core dumped" } else { "" };
                write!(out, "was killed by signal {signal} ({}{dumped})", tutti_os::signal_name(signal))
            }
            Cause::Status(status) => write!(out, "exited with status {status}"),
            Cause::NotFinalized => out.write_str("exited without calling MPI_Finalize"),
            Cause::NeverInit => out.write_str(
                "was started by MPI_Comm_spawn and exited without calling MPI_Init; the job is ended",
            ),
            Cause::Abort(code) => write!(out, "called MPI_Abort({})", code.cast_signed()),
            Cause::Fatal(code) => {
                write!(out, "ended the job with code {}: its own line says why", code.cast_signed())
            }
            Cause::Exit(code) => write!(out, "called shmem_global_exit({code})"),
            Cause::NoPmi => out.write_str(
                "wrote on its PMI descriptor (PMI_FD) something that is not PMI; the job is ended",
            ),
            Cause::Vanished => {
                out.write_str("lost its MPI process without MPI_Finalize; its wrapper was ended")
            }
            Cause::Gone => {
                out.write_str("died without calling MPI_Finalize; the ranks that it has started are ended")
            }
            Cause::Absent => out
                .write_str("exited without calling MPI_Init, and other ranks wait for it; the job is ended"),
            Cause::Unknown => {
                out.write_str("has ended, and the system does not say how (is waitid forbidden here?)")
            }
            Cause::Memory => out.write_str("was killed: its job had used up its memory on the node"),
            Cause::UserMemory => {
                out.write_str("was killed: the jobs of its user had used up their memory on the node")
            }
        }
    }
}

impl Ended {
    /// The line for the user; none where a warning before has said more, and of an end without a mistake.
    pub fn notice(&self) -> Option<String> {
        (!matches!(self.cause, Cause::Memory | Cause::UserMemory | Cause::Exit(_))).then(|| self.to_string())
    }
}

impl Cause {
    /// The exit status for a shell.
    pub fn status(self) -> u8 {
        match self {
            Cause::Signal { signal, .. } => 128_i32.saturating_add(signal).clamp(129, 255) as u8,
            Cause::Status(status) => (status & 0xff) as u8,
            Cause::Exit(code) => (code & 0xff) as u8,
            Cause::NotFinalized
            | Cause::NeverInit
            | Cause::Vanished
            | Cause::NoPmi
            | Cause::Gone
            | Cause::Absent
            | Cause::Unknown => 1,
            Cause::Memory | Cause::UserMemory => 137,
            Cause::Abort(code) | Cause::Fatal(code) => {
                // An aborted job never looks like a good one.
                let code = (code & 0xff) as u8;
                if code == 0 { 1 } else { code }
            }
        }
    }
}
