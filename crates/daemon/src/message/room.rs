//! Room in a message between daemons: how long orders and states are, and how long users may make them.

use tutti_protocol::output::Output;
use tutti_protocol::pmi::share_bytes;
use tutti_protocol::users::programs_bytes;
use tutti_protocol::wire::Ended;
use tutti_snapshot::VIEWS_BYTES_MAX;

use super::launch::Launch;
use super::order::Order;
use super::part::PartState;
use crate::members::NodeId;

/// Bytes of a message between daemons, at most: a longer one breaks the link.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Bytes of the state of a part, or of an order, at most, about: each has room in a message, and so have all
/// views of a job, in the answer to who wants them.
pub(crate) const STATE_BYTES_MAX: usize = 56 << 20;
const _: () = assert!(STATE_BYTES_MAX + (8 << 20) <= MESSAGE_BYTES_MAX && VIEWS_BYTES_MAX <= STATE_BYTES_MAX);
/// Bytes that the parts of a user's jobs on a node may say in lines, pids, cores, addresses and ends, and in
/// all, at most. The owner of the daemon has no such bound.
pub(crate) const USER_REPORTED_BYTES_MAX: usize = 4 << 20;
pub(crate) const USER_STATE_BYTES_MAX: usize = 40 << 20;
/// Bytes of a state or an order that is as short as can be, about, and of an address, or a line, beside its
/// text.
const BASE_BYTES: usize = 512;
const ADDRESS_BYTES: usize = 48;
/// Bytes of a group's number, and of what is said of a session, about.
const GROUP_BYTES: usize = 5;
const SESSION_BYTES: usize = 768;
const LINE_BYTES: usize = 64;
/// Bytes of a job that is as short as can be, in the memory of the controller.
const JOB_BYTES: usize = 2 << 10;

/// Bytes of the lines of all parts of a job together, at most, by ranks; and what each part, and each of its
/// ranks, has beside it for pids, cores, addresses and ends.
const LINES_BYTES_MAX: u64 = 4 << 20;
const PART_BYTES: u64 = 16 << 10;
/// Bytes of what a rank may ask for, and of how that began on a node, at most.
pub(crate) const ASK_BYTES_MAX: usize = 132 << 10;
pub(crate) const SPAWNED_BYTES_MAX: usize = 8 << 10;
const RANK_BYTES: u64 = 512;
/// Ranks of a node that have room for what is said of them, at most: a job that runs already may claim more.
const RANKS_MAX: u64 = 4096;
/// Ranks of a node that are started later, at most.
const LATER_RANKS_MAX: u64 = 512;

impl Launch {
    /// How long it is in a message, about: with all that a user may make as long as he likes.
    pub(crate) fn bytes(&self) -> usize {
        self.said_bytes() + self.environment.bytes() + self.groups.len() * GROUP_BYTES + SESSION_BYTES
    }

    /// Bytes that the order takes in memory beside its environment, about.
    pub(crate) fn memory_bytes_held(&self) -> usize {
        JOB_BYTES + self.said_bytes()
    }

    /// Bytes of these that its user has said.
    pub(crate) fn said_bytes(&self) -> usize {
        let files = self.output.as_ref().map_or(0, Output::bytes) + self.directory.as_bytes().len();
        let limit = self.job.memory.as_ref().map_or(0, |limit| limit.reached.len());
        let groups = self.groups.len() * size_of::<u32>();
        programs_bytes(&self.job) + self.batch.bytes() + files + limit + groups
    }

    /// Bytes that the part of a node may say in lines, pids, cores, addresses and ends
    /// ([`PartState::reported_bytes`]), at most.
    pub(crate) fn reported_bytes_max(&self, node: NodeId) -> usize {
        let (here, all) = (self.ranks_on(node).min(RANKS_MAX), self.job.ranks().max(1));
        let of_lines = u128::from(LINES_BYTES_MAX) * u128::from(here) / u128::from(all);
        let later = u64::from(self.job.universe.unwrap_or(0)).min(LATER_RANKS_MAX);
        (PART_BYTES + (here + later) * RANK_BYTES) as usize + of_lines as usize
    }

    /// Bytes of keys and values that the ranks of a node may put over PMI for one barrier, at most. Alone it
    /// tells nobody.
    pub(crate) fn fence_bytes_max(&self, node: NodeId) -> usize {
        if self.nodes.len() > 1 { share_bytes(self.job.ranks()) * self.ranks_on(node) as usize } else { 0 }
    }
}

impl Order {
    /// How long it is in a message, about.
    pub(crate) fn bytes(&self) -> usize {
        let launch = self.launch.as_ref().map_or(0, |launch| launch.bytes());
        let peers = self.peers.as_ref().map_or(0, |peers| peers.addresses.len() * ADDRESS_BYTES);
        let stuck = self.stuck.as_ref().map_or(0, |line| line.len());
        let spawn =
            self.spawn.ask.len() + self.spawn.outcomes.len() + self.spawn.asked.len() * size_of::<u32>();
        BASE_BYTES + launch + peers + stuck + self.fence.puts.len() + spawn
    }
}

impl PartState {
    /// How long it is in a message, about.
    pub(crate) fn bytes(&self) -> usize {
        let seen = self.held.as_ref().map_or(0, |held| held.seen.len());
        let spawn = self.ask.puts.len() + self.spawned.puts.len();
        BASE_BYTES + self.reported_bytes() + self.fence.puts.len() + seen + spawn
    }

    /// How long it is without what ranks have put over PMI and what is seen of them.
    pub(crate) fn reported_bytes(&self) -> usize {
        let deadlock = self.stalled.as_ref().and_then(|stalled| stalled.deadlock.as_ref());
        let cycle = self.stalled.as_ref().map_or(0, |stalled| stalled.cycle.len());
        let lines = self.warnings.iter().chain(&self.cores).chain(&self.refused).chain(deadlock);
        let lines: usize = lines.map(|line| LINE_BYTES + line.len()).sum();
        let ends = self.ended.len() * size_of::<Ended>().max(LINE_BYTES);
        let addresses = self.reached.addresses.len() + self.reached.later.len();
        let connected = self.connected.len() * size_of::<u64>();
        let ranks = cycle * size_of::<u32>();
        lines + ends + connected + ranks + self.pids.len() * size_of::<u64>() + addresses * ADDRESS_BYTES
    }
}
