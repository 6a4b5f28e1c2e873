//! The sizes at which collectives change their algorithm, all of them: inside a node (`flags`) and by
//! messages (`algorithms`).

use tutti_shm::collective::SLOT_BYTES;

/// Where collectives are messages (between nodes, nonblocking, persistent): broadcasts above this size are
/// scattered and gathered again, when there are more than two ranks.
pub(super) const WHOLE_BROADCAST_BYTES_MAX: usize = 64 << 10;
/// Reductions to a root above this size are scattered and gathered again, when there are more than two ranks.
pub(super) const WHOLE_REDUCE_BYTES_MAX: usize = 16 << 10;

/// Reductions to a root that are rounded, or by a function of the program, are combined in the order of the
/// slots up to this size, which is that of a slot.
pub(super) const ORDERED_REDUCE_BYTES_MAX: usize = SLOT_BYTES;

/// Contributions that must be combined in one order travel side by side up to this size of all of them
/// together, so that between nodes each message is an eager one. Above it each rank reduces a part of the
/// elements, and reductions to a root go in portions.
pub(super) const GATHERED_BYTES_MAX: usize = 64 << 10;

/// Reductions to all up to this size are exchanged as a whole; above it each rank reduces a part of the
/// elements.
pub(super) const WHOLE_ALLREDUCE_BYTES_MAX: usize = 2 << 10;
/// The same of two ranks, which send the same bytes either way.
pub(super) const WHOLE_ALLREDUCE_OF_TWO_BYTES_MAX: usize = 64 << 10;

/// The sizes at which collectives inside a node change their algorithm: up to which size work goes through
/// the slots, several times in turn if need be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Broadcast.
    pub(super) broadcast: usize,
    /// Reduction to all.
    pub(super) allreduce: usize,
    /// From so many bytes on members copy from each other's memories.
    pub single_copy: usize,
    /// The same of what each member has for each other.
    pub(super) exchange_copy: usize,
    /// The root of a large broadcast brings each receiver a part.
    pub(super) root_helps: bool,
}

/// From so many members on a pair that exchanges for the first time costs more by its rings, whose pages come
/// on first use, than by a call of the kernel.
const MANY: usize = 128;
const MANY_EXCHANGE_BYTES_MIN: usize = 512;

impl Limits {
    /// Limits measured to be best; those of all members must be the same. Every turn of the slots brings all
    /// ranks together, which costs little while each has a core and a switch of processes each otherwise;
    /// what every rank reads from every other grows with their number.
    pub fn new(ranks: usize, oversubscribed: bool) -> Self {
        // How often the slots are filled, at most.
        let (broadcast, allreduce) = match (oversubscribed, ranks) {
            (true, _) => (2, 1),
            (false, 2..=4) => (4, 4),
            (false, _) => (4, 2),
        };
        Limits {
            broadcast: broadcast * SLOT_BYTES,
            allreduce: allreduce * SLOT_BYTES,
            single_copy: SLOT_BYTES + 1,
            exchange_copy: if ranks < MANY { SLOT_BYTES + 1 } else { MANY_EXCHANGE_BYTES_MIN },
            root_helps: !oversubscribed,
        }
    }
}
