//! Parts of a job on this node, as a launch makes them. [`crate::launch`] fills them, resource by resource;
//! [`crate::starter`] works on them until nothing of the job is left, and drops them.

use std::os::fd::OwnedFd;

use tutti_os::cgroup::Cgroup;
use tutti_protocol::wire::MemoryLimit;
use tutti_shm::peers::Peers;
use tutti_shm::segment::Segment;

use crate::connections::Connections;
use crate::exited::Exited;
use crate::foreign::Foreign;
use crate::input::Inputs;
use crate::keeper::Keeper;
use crate::output::Streams;
use crate::pages::Pages;
use crate::ranks::Ranks;
use crate::regions::Regions;
use crate::spawning::Spawning;
use crate::stand_in::StandIns;
use crate::tickets::Tickets;

/// Parts that a launch makes.
#[derive(Debug, Default)]
pub struct Parts {
    /// The ranks forked so far.
    pub ranks: Ranks,
    /// Output of the ranks.
    pub streams: Streams,
    /// Input of the ranks.
    pub inputs: Inputs,
    /// The servers by which programs of other MPIs start.
    pub foreign: Option<Foreign>,
    /// The socket for their tickets.
    pub tickets: Option<Tickets>,
    /// The terminal of rank 0, both sides, where it is the controlling one: held until the end, since its
    /// closing is a hang-up.
    pub terminal: Option<(OwnedFd, OwnedFd)>,
    /// The shared segment.
    pub segment: Option<Segment>,
    /// Pages from which ranks read how the job stands.
    pub pages: Pages,
    /// In a job on several nodes the sockets of the ranks of this one. They stay open until the job ends:
    /// sending to a rank that has left is no error of the sender's.
    pub sockets: Vec<OwnedFd>,
    /// The memfd with the addresses of all ranks, and its contents.
    pub peers: Option<(OwnedFd, Peers)>,
    /// The process that serves regions for other jobs, once a rank has published one.
    pub regions: Option<Regions>,
    /// Ranks for which the starter answers.
    pub silent: Silent,
    /// Where a child reports that it could not become the program; closed when all have.
    pub failures: Option<OwnedFd>,
    /// Pids of ranks whose numbers have been given to others since the front end was notified.
    pub gone: Vec<u32>,
    /// Ranks that other ranks have asked for, until all of them have become their programs.
    pub spawnings: Vec<Spawning>,
    /// Launches that they are connected to.
    pub connections: Connections,
    /// The cgroup of them all.
    pub cgroup: Option<Cgroup>,
    /// Memory that they may have there; none: any amount.
    pub memory: Option<MemoryLimit>,
    /// The keeper, for the case that this process and mpiexec are killed at once.
    pub keeper: Option<Keeper>,
    /// Names of programs by rank, for messages.
    pub names: Vec<String>,
}

/// Ranks that do not answer other nodes by themselves.
#[derive(Debug, Default)]
pub struct Silent {
    /// Ranks that have left.
    pub exited: Exited,
    /// Ranks that stand still.
    pub stopped: StandIns,
}
