//! Where things lie in the rank segment. Offsets follow from the [`Geometry`] alone, so starter and ranks
//! agree without a table.
//!
//! ```text
//! | header | endpoints | rings to rank 0 | rings to rank 1 | ... | collective blocks | reports | flows of rank 0 | ... | names | forgotten, ended |
//!                        '- one per sender: bulk descriptors and counters, envelope lines, bulk slots
//!                                             one per rank of another node: words, send FIFO -'
//! ```
//!
//! The ranks that the job began with receive through at most [`RECEIVE_BYTES_MAX`] of rings from each other.
//! There is room for more ranks ([`Geometry::room`]), whose rings are as large. Pages come on first use.

use crate::LINE_BYTES;
use crate::collective::{BLOCKS, DATA_BYTES, MEMBER_LINES};
use crate::endpoint::Endpoint;
use crate::flow::FlowWords;
use crate::names::NAMES_BYTES;
use crate::numbers::Numbers;
use crate::report::Report;

/// Bytes of rings into one rank, at most.
pub const RECEIVE_BYTES_MAX: usize = 2 << 20;
/// Ranks of one job on one node, at most.
pub const LOCAL_RANKS_MAX: u32 = 2048;
/// Ranks beyond those that the user expects for which there is room, if no number was given.
pub const SPARE_RANKS: u32 = 64;
/// Bytes of the send FIFOs of one rank, at most; with very many ranks on other nodes [`FIFO_BYTES_MIN`] each.
pub const SEND_BYTES_MAX: usize = 2 << 20;
/// Bytes of the send FIFOs of one rank, with those to ranks that may be started later, where each has as much
/// as without these.
const ROOMY_BYTES_MAX: usize = 64 << 20;
/// Bytes of the FIFO to one rank of another node.
pub const FIFO_BYTES_MIN: usize = 32 << 10;
/// Bytes of the FIFO to one rank of another node: more would only grow old in it.
pub const FIFO_BYTES_MAX: usize = 256 << 10;
/// Bytes of one bulk slot, where few ranks share the node.
pub const BULK_SLOT_BYTES_MAX: usize = 17 << 10;
/// Bytes of one bulk slot, at least.
pub const BULK_SLOT_BYTES_MIN: usize = 1024;
/// Slots of a bulk ring: their descriptors fill one line.
pub const BULK_SLOTS: usize = 8;

const HEADER_BYTES: usize = 4096;
const ENVELOPE_LINES_MAX: usize = 128;
const ENVELOPE_LINES_MIN: usize = 16;
/// The lines of a pair that hold its words: envelopes consumed (two), bulk descriptors, slots emptied, eager
/// bytes released; two joint copies (of written and of announced messages); requests claimed, requests void.
const CONTROL_LINES: usize = FIRST_LINES + 2 * JOINT_LINES + 2;
/// Control lines before the joint copies.
const FIRST_LINES: usize = 5;
/// Lines of a joint copy: see [`crate::coop_copy`].
const JOINT_LINES: usize = 3;

/// The numbers that a segment is made from. The starter writes them into the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Geometry {
    /// Ranks that the job began with, on all nodes.
    pub world_ranks: u32,
    /// Ranks of this node among them.
    pub local_ranks: u32,
    /// World rank of this node's first rank; the others follow it.
    pub first_rank: u32,
    /// Cores that the ranks of this node may use together; fewer than `local_ranks` means oversubscribed.
    pub cores: u32,
    /// Pid of the starter, for PR_SET_PTRACER.
    pub starter_pid: u32,
    /// Number of this node in the job, from 0.
    pub node: u32,
    /// Ranks of this node that there is room for, with those that are started later; with fewer than
    /// `local_ranks` for no more than those.
    pub room: u32,
    /// MPI_UNIVERSE_SIZE: how many ranks the user expects; 0: as many as there are.
    pub universe: u32,
    /// Nodes of the job; 0: one.
    pub nodes: u32,
    /// Ranks of all nodes that there is room for; with fewer than there are for no more than those.
    pub world_room: u32,
    /// Random number of the job, for names and messages.
    pub job: u64,
}

impl Geometry {
    /// Ranks of this node that there is room for.
    pub fn room(&self) -> u32 {
        self.room.max(self.local_ranks)
    }

    /// Ranks of all nodes that there is room for.
    pub fn world_room(&self) -> u32 {
        self.world_room.max(self.world_ranks).max(self.room())
    }

    /// World ranks of this node that there is room for.
    pub fn numbers(&self) -> Numbers {
        let of_node = [self.first_rank, self.local_ranks, self.room()];
        Numbers::new(of_node, self.world_ranks, self.node, self.nodes)
    }

    /// Whether all ranks of the job are on this node.
    pub fn is_whole(&self) -> bool {
        self.world_ranks <= self.local_ranks
    }
}

/// Offsets computed from a geometry.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Ranks on this node that there is room for.
    pub local_ranks: usize,
    /// Lines of each envelope ring, a power of two.
    pub envelope_lines: usize,
    /// Bytes of each bulk slot.
    pub slot_bytes: usize,
    pair_bytes: usize,
    receive_bytes: usize,
    rings_at: usize,
    collectives_at: usize,
    block_bytes: usize,
    reports_at: usize,
    /// Bytes of a send FIFO.
    pub fifo_bytes: usize,
    numbers: Numbers,
    remote_ranks: usize,
    flows_at: usize,
    flows_bytes: usize,
    names_at: usize,
    forgotten_at: usize,
    far_at: usize,
    world_room: usize,
    total_bytes: usize,
}

impl Layout {
    /// The layout for a geometry.
    ///
    /// # Panics
    /// When the geometry has no local rank, or room for more than [`LOCAL_RANKS_MAX`].
    pub fn new(geometry: &Geometry) -> Self {
        let ranks = geometry.room() as usize;
        let is_possible = geometry.local_ranks > 0 && ranks <= LOCAL_RANKS_MAX as usize;
        assert!(is_possible, "a segment for {} local ranks and room for {ranks}", geometry.local_ranks);
        let (envelope_lines, slot_bytes) = ring_sizes(geometry.local_ranks as usize);
        let pair_bytes = pair_bytes(envelope_lines, slot_bytes);
        let receive_bytes = page_up(pair_bytes * ranks);
        let rings_at = HEADER_BYTES + page_up(ranks * size_of::<Endpoint>());
        let collectives_at = rings_at + receive_bytes * ranks;
        let block_bytes = page_up(LINE_BYTES + ranks * MEMBER_LINES * LINE_BYTES) + ranks * DATA_BYTES;
        let reports_at = collectives_at + BLOCKS * block_bytes;
        let flows_at = reports_at + page_up(ranks * size_of::<Report>());
        let remote_ranks = (geometry.world_room() - geometry.room()) as usize;
        // Room for later ranks leaves the FIFOs of the others as they are, unless it were too much.
        let began = fifo_bytes(geometry.world_ranks.saturating_sub(geometry.local_ranks) as usize);
        let has_room = began * remote_ranks <= ROOMY_BYTES_MAX;
        let fifo_bytes = if has_room { began } else { fifo_bytes(remote_ranks) };
        let flows_bytes = page_up(remote_ranks * size_of::<FlowWords>()) + remote_ranks * fifo_bytes;
        let names_at = flows_at + ranks * flows_bytes;
        let forgotten_at = names_at + page_up(NAMES_BYTES);
        let far_at = forgotten_at + page_up(ranks * ranks * size_of::<u32>());
        let world_room = geometry.world_room() as usize;
        let has_later = remote_ranks > 0 && world_room > geometry.world_ranks as usize;
        let far_bytes = if has_later { (ranks + 1) * world_room * size_of::<u32>() } else { 0 };
        let total_bytes = far_at + page_up(far_bytes);
        Layout {
            local_ranks: ranks,
            envelope_lines,
            slot_bytes,
            pair_bytes,
            receive_bytes,
            rings_at,
            collectives_at,
            block_bytes,
            reports_at,
            fifo_bytes,
            numbers: geometry.numbers(),
            remote_ranks,
            flows_at,
            flows_bytes,
            names_at,
            forgotten_at,
            far_at,
            world_room: if has_later { world_room } else { 0 },
            total_bytes,
        }
    }

    /// Bytes of the whole segment; its pages are used only as far as ranks talk.
    pub fn total_bytes(&self) -> usize {
        self.total_bytes
    }

    /// Offset of a rank's endpoint block.
    pub fn endpoint_at(&self, rank: usize) -> usize {
        assert!(rank < self.local_ranks);
        HEADER_BYTES + rank * size_of::<Endpoint>()
    }

    /// Offset of the rings that `from` writes and `to` reads: control lines first.
    pub fn pair_at(&self, from: usize, to: usize) -> usize {
        assert!(from < self.local_ranks && to < self.local_ranks);
        self.rings_at + to * self.receive_bytes + from * self.pair_bytes
    }

    /// Offset of a pair's bulk descriptors; the next line counts the slots emptied.
    pub fn descriptors_at(&self, from: usize, to: usize) -> usize {
        self.pair_at(from, to) + 2 * LINE_BYTES
    }

    /// Offset of the line where `to` counts the eager bytes of `from` that its receives have taken.
    pub fn released_at(&self, from: usize, to: usize) -> usize {
        self.pair_at(from, to) + 4 * LINE_BYTES
    }

    /// Offset of a joint copy of messages from `from` to `to`: 0 for those that the sender opens, 1 for the
    /// receiver's.
    pub fn joint_at(&self, from: usize, to: usize, which: usize) -> usize {
        assert!(which < 2);
        self.pair_at(from, to) + (FIRST_LINES + which * JOINT_LINES) * LINE_BYTES
    }

    /// Offset of the line where `from` says which receive request of `to` it serves; the line behind it is
    /// `to`'s answer.
    pub fn requests_at(&self, from: usize, to: usize) -> usize {
        self.pair_at(from, to) + (FIRST_LINES + 2 * JOINT_LINES) * LINE_BYTES
    }

    /// Offset of the envelope lines of a pair.
    pub fn envelopes_at(&self, from: usize, to: usize) -> usize {
        self.pair_at(from, to) + CONTROL_LINES * LINE_BYTES
    }

    /// Offset of the bulk slots of a pair.
    pub fn slots_at(&self, from: usize, to: usize) -> usize {
        self.envelopes_at(from, to) + self.envelope_lines * LINE_BYTES
    }

    /// Offset of the words in which others greet a rank: where the bulk data of the rank to itself would be.
    pub fn greetings_at(&self, rank: usize) -> usize {
        self.slots_at(rank, rank)
    }

    /// Offset of a collective block: header line, then [`MEMBER_LINES`] lines for each local rank.
    pub fn block_at(&self, block: usize) -> usize {
        assert!(block < BLOCKS);
        self.collectives_at + block * self.block_bytes
    }

    /// Offset of a rank's report.
    pub fn report_at(&self, rank: usize) -> usize {
        assert!(rank < self.local_ranks);
        self.reports_at + rank * size_of::<Report>()
    }

    /// Offset of the words of the flow from a local rank to world rank `to`, which is on another node.
    pub fn flow_words_at(&self, from: usize, to: usize) -> usize {
        assert!(from < self.local_ranks);
        self.flows_at + from * self.flows_bytes + self.flow_index(to) * size_of::<FlowWords>()
    }

    /// Offset of that flow's send FIFO, [`Layout::fifo_bytes`] long.
    pub fn fifo_at(&self, from: usize, to: usize) -> usize {
        assert!(from < self.local_ranks);
        let end = self.flows_at + (from + 1) * self.flows_bytes;
        end - (self.remote_ranks - self.flow_index(to)) * self.fifo_bytes
    }

    /// Offset of the table of published names.
    pub fn names_at(&self) -> usize {
        self.names_at
    }

    /// Offset of the word where `by` says how many processes of a rank it has forgotten
    /// ([`crate::reuse`]).
    pub fn forgotten_at(&self, by: usize, rank: usize) -> usize {
        assert!(by < self.local_ranks && rank < self.local_ranks);
        self.forgotten_at + (by * self.local_ranks + rank) * size_of::<u32>()
    }

    /// Whether ranks of other nodes may be started later.
    pub fn has_later_far(&self) -> bool {
        self.world_room > 0
    }

    /// Offset of the word where the starter says how many processes of a world rank, which is on another
    /// node, have ended. Only with [`Layout::has_later_far`], as what follows.
    pub fn far_ended_at(&self, rank: usize) -> usize {
        assert!(rank < self.world_room);
        self.far_at + rank * size_of::<u32>()
    }

    /// Offset of the word where `by` says how many processes of that rank it has forgotten.
    pub fn far_forgotten_at(&self, by: usize, rank: usize) -> usize {
        assert!(by < self.local_ranks && rank < self.world_room);
        self.far_at + ((by + 1) * self.world_room + rank) * size_of::<u32>()
    }

    /// The flows of a local rank: where they begin, and their bytes.
    pub fn flows_of(&self, from: usize) -> (usize, usize) {
        assert!(from < self.local_ranks);
        (self.flows_at + from * self.flows_bytes, self.flows_bytes)
    }

    /// Bytes of the rings of a pair, from [`Layout::pair_at`] on.
    pub fn pair_bytes(&self) -> usize {
        self.pair_bytes
    }

    /// The world ranks of this node that there is room for.
    #[inline(always)]
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// The ranks of other nodes, counted without ours.
    fn flow_index(&self, to: usize) -> usize {
        assert!(!self.numbers.contains(to), "rank {to} is on this node");
        to - self.numbers.below(to)
    }

    /// Offset of a member's data area in a collective block.
    pub fn block_data_at(&self, block: usize, member: usize) -> usize {
        assert!(member < self.local_ranks);
        self.block_at(block) + self.block_bytes - (self.local_ranks - member) * DATA_BYTES
    }
}

/// The control lines, the envelopes, the slots, and one line more: so the heads of the rings into one rank
/// fall into different cache sets (51 ns instead of 169 ns for 63 rings).
fn pair_bytes(envelope_lines: usize, slot_bytes: usize) -> usize {
    (CONTROL_LINES + envelope_lines + 1) * LINE_BYTES + BULK_SLOTS * slot_bytes
}

/// A power of two.
fn fifo_bytes(remote_ranks: usize) -> usize {
    let share = (SEND_BYTES_MAX / remote_ranks.max(1)).max(1);
    (1 << share.ilog2()).clamp(FIFO_BYTES_MIN, FIFO_BYTES_MAX)
}

/// Envelope lines and bytes of a bulk slot: as many as there is memory for; first the slots become smaller.
fn ring_sizes(ranks: usize) -> (usize, usize) {
    let (mut lines, mut slot_bytes) = (ENVELOPE_LINES_MAX, BULK_SLOT_BYTES_MAX);
    while pair_bytes(lines, slot_bytes) * ranks > RECEIVE_BYTES_MAX {
        if slot_bytes > BULK_SLOT_BYTES_MIN {
            slot_bytes = (slot_bytes / 2).max(BULK_SLOT_BYTES_MIN);
        } else if lines > ENVELOPE_LINES_MIN {
            lines /= 2;
        } else {
            break;
        }
    }
    (lines, slot_bytes)
}

fn page_up(bytes: usize) -> usize {
    bytes.next_multiple_of(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(local_ranks: u32) -> Geometry {
        Geometry { world_ranks: local_ranks, local_ranks, cores: 2, job: 1, ..Geometry::default() }
    }

    fn layout(local_ranks: u32) -> Layout {
        Layout::new(&geometry(local_ranks))
    }

    #[test]
    fn layout_areas_do_not_overlap_and_are_aligned() {
        for ranks in [1, 2, 3, 4, 16, 63, 64, 200] {
            let l = layout(ranks);
            let n = ranks as usize;
            assert!(l.endpoint_at(n - 1) + size_of::<Endpoint>() <= l.pair_at(0, 0));
            for to in 0..n {
                for from in 0..n {
                    let end = l.slots_at(from, to) + BULK_SLOTS * l.slot_bytes;
                    let next = if from + 1 < n {
                        l.pair_at(from + 1, to)
                    } else {
                        l.pair_at(0, to) + l.receive_bytes
                    };
                    assert!(end <= next && l.slots_at(from, to).is_multiple_of(LINE_BYTES));
                }
            }
            assert!(l.pair_at(0, n - 1) + l.receive_bytes <= l.block_at(0));
            assert!(l.block_at(0) + LINE_BYTES * (1 + n * MEMBER_LINES) <= l.block_data_at(0, 0));
            assert_eq!(l.block_data_at(BLOCKS - 1, n - 1) + DATA_BYTES, l.report_at(0));
            assert!(l.report_at(n - 1) + size_of::<Report>() <= l.total_bytes());
        }
    }

    #[test]
    fn layout_room_for_more_ranks_leaves_the_rings_as_they_are() {
        for ranks in [1, 2, 16, 64] {
            let (plain, roomy) = (layout(ranks), Geometry { room: 80, ..geometry(ranks) });
            let roomy = Layout::new(&roomy);
            assert_eq!((plain.envelope_lines, plain.slot_bytes), (roomy.envelope_lines, roomy.slot_bytes));
            assert_eq!(roomy.local_ranks, 80);
            assert!(roomy.pair_at(79, 79) + roomy.pair_bytes <= roomy.block_at(0));
        }
    }

    #[test]
    fn layout_flows_do_not_overlap() {
        for (world_ranks, local_ranks, first_rank, node, later) in [
            (4, 2, 0, 0, 0),
            (4, 2, 2, 1, 0),
            (100, 3, 50, 1, 0),
            (5, 1, 4, 1, 0),
            (4, 2, 0, 0, 7),
            (4, 2, 2, 1, 7),
        ] {
            let geometry = Geometry { world_ranks, local_ranks, first_rank, cores: 2, ..Geometry::default() };
            let room = local_ranks + crate::numbers::share_of_later(later, node, 2);
            let geometry = Geometry { node, nodes: 2, room, world_room: world_ranks + later, ..geometry };
            let l = Layout::new(&geometry);
            let (numbers, n) = (*l.numbers(), room as usize);
            let others: Vec<usize> =
                (0..(world_ranks + later) as usize).filter(|rank| !numbers.contains(*rank)).collect();
            let mut areas = Vec::new();
            for from in 0..n {
                for &to in &others {
                    let words = l.flow_words_at(from, to);
                    assert!(words.is_multiple_of(LINE_BYTES) && l.fifo_at(from, to).is_multiple_of(4096));
                    areas.push((words, words + size_of::<FlowWords>()));
                    areas.push((l.fifo_at(from, to), l.fifo_at(from, to) + l.fifo_bytes));
                }
            }
            areas.sort_unstable();
            assert!(areas.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            assert!(areas[0].0 >= l.report_at(n - 1) + size_of::<Report>());
            assert_eq!(areas.last().unwrap().1, l.names_at());
            assert!(l.names_at() + NAMES_BYTES <= l.total_bytes());
            assert_eq!(l.has_later_far(), later > 0);
            if later > 0 {
                let last = (world_ranks + later) as usize - 1;
                assert!(l.forgotten_at(n - 1, n - 1) < l.far_ended_at(0));
                assert!(l.far_ended_at(last) < l.far_forgotten_at(0, 0));
                assert!(l.far_forgotten_at(n - 1, last) + 4 <= l.total_bytes());
            }
        }
        assert_eq!(fifo_bytes(3), FIFO_BYTES_MAX);
        assert_eq!((fifo_bytes(31), fifo_bytes(5000)), (64 << 10, FIFO_BYTES_MIN));
    }

    #[test]
    fn layout_rings_of_a_rank_are_at_most_two_mebibytes() {
        for ranks in [2, 16, 64, 128, 200] {
            assert!(layout(ranks).receive_bytes <= RECEIVE_BYTES_MAX + 4096, "{ranks} ranks");
        }
    }
}
