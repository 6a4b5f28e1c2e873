//! Job of this process: its endpoint, and for each peer of its node the rings in both directions.
//!
//! Ranks are world ranks everywhere; [`Job::local_ranks`] knows those of this node. A job may have room for
//! more ranks than are there ([`Job::ranks`], [`Job::present_ranks`]), which are started later and have a
//! world of their own ([`Job::world`]).

use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tutti_rma::Process;
use tutti_shm::arena::{self, Arena};
use tutti_shm::bulk_ring::{self, Parts};
use tutti_shm::collective::{BlockHeader, Member};
use tutti_shm::coop_copy::{self, Joint};
use tutti_shm::endpoint::{ATTACHED, Endpoint, FINALIZED, PARTED, SEPARATE};
use tutti_shm::envelope_ring;
use tutti_shm::greetings::Greetings;
use tutti_shm::layout::{Geometry, Layout};
use tutti_shm::names::{NAMES_BYTES, Names};
use tutti_shm::numbers::Numbers;
use tutti_shm::report::Report;
use tutti_shm::segment::Mapping;
use tutti_shm::spawn::Spawned;
use tutti_shm::sync::{AtomicU32, AtomicU64, Ordering, fence};
use tutti_shm::ticket::Notice;
use tutti_shm::{LINE_BYTES, doorbell};

use crate::adoption;
use crate::attach::{Network, Place, Starter};
use crate::clock::Clock;
use crate::end;
use crate::flow::SegmentFlow;
use crate::process_name::{self, Found};
use crate::yama;

/// The rings between this process and one peer of its node.
#[derive(Debug)]
pub struct Rings {
    /// Envelopes to the peer.
    pub out: envelope_ring::Producer,
    /// Bulk data to the peer.
    pub bulk_out: bulk_ring::Producer,
    /// Envelopes from the peer.
    pub inbox: envelope_ring::Consumer,
    /// Bulk data from the peer.
    pub bulk_in: bulk_ring::Consumer,
    /// Messages to the peer that both copy: those that this rank opens, and those that the peer opens.
    pub joints_out: [Joint; 2],
    /// Messages from the peer that both copy: those that the peer opens, and those that this rank opens.
    pub joints_in: [Joint; 2],
    /// The advertised receive of the peer that we serve last, and those of ours that it serves. Writers: this
    /// rank, the peer.
    claims: [NonNull<AtomicU64>; 2],
    /// Up to which number the peer has taken its advertised receives back, and we ours. Writers: the peer,
    /// this rank.
    voids: [NonNull<AtomicU64>; 2],
    /// Eager bytes of ours that the peer's receives have taken. Writer: the peer.
    released_by_peer: NonNull<AtomicU64>,
    /// Eager bytes of the peer that our receives have taken. Writer: this rank.
    released_to_peer: NonNull<AtomicU64>,
    /// The peer's endpoint.
    endpoint: NonNull<Endpoint>,
}

// SAFETY: the words lie in the job's segment, which outlives the rings (contract of `Job::rings`), and are
// atomics.
unsafe impl Send for Rings {}

impl Rings {
    /// How many eager bytes, overhead included, the peer's receives have taken since the start.
    #[inline]
    pub fn released_by_peer(&self) -> u64 {
        // SAFETY: see the Send implementation.
        unsafe { self.released_by_peer.as_ref() }.load(Ordering::Acquire)
    }

    /// Says that the next message is for this advertised receive of the peer; returns up to which number the
    /// peer has taken such receives back. Either the peer sees the claim in [`Rings::void`], or we see here
    /// that it has taken the receive back.
    pub fn claim(&self, receive: u64) -> u64 {
        // SAFETY: see the Send implementation.
        unsafe { self.claims[0].as_ref() }.store(receive, Ordering::Release);
        fence(Ordering::SeqCst);
        self.void_by_peer()
    }

    /// Up to which number the peer has taken its advertised receives back.
    pub fn void_by_peer(&self) -> u64 {
        // SAFETY: see the Send implementation.
        unsafe { self.voids[0].as_ref() }.load(Ordering::Acquire)
    }

    /// Takes our advertised receives back up to this number; returns the one that the peer has claimed last.
    pub fn void(&self, upto: u64) -> u64 {
        // SAFETY: see the Send implementation.
        unsafe { self.voids[1].as_ref() }.store(upto, Ordering::Release);
        fence(Ordering::SeqCst);
        // SAFETY: as above.
        unsafe { self.claims[1].as_ref() }.load(Ordering::Acquire)
    }

    /// Tells the peer how many of its eager bytes our receives have taken since the start.
    #[inline]
    pub fn release_to_peer(&self, bytes: u64) {
        // SAFETY: see the Send implementation.
        unsafe { self.released_to_peer.as_ref() }.store(bytes, Ordering::Release);
    }

    /// Whether anything has gone either way.
    pub fn are_used(&self) -> bool {
        self.out.is_used() || self.inbox.is_used() || self.inbox.is_ready()
    }

    /// Wakes the peer if it sleeps; after something was published for it.
    #[inline(always)]
    pub fn ring(&self) {
        // SAFETY: as for the counters.
        doorbell::ring_if_sleeping(unsafe { self.endpoint.as_ref() });
    }

    /// The same if it is owed that: it was notified of room, and the caller's pass over the inbox ends.
    #[inline(always)]
    pub fn ring_if_owed(&mut self) {
        if self.inbox.take_owed_bell() {
            self.ring();
        }
    }
}

/// A process's view of its job. Clones are the same view.
#[derive(Clone, Debug)]
pub struct Job {
    /// Where the segment in `place` is mapped.
    segment: Mapping,
    geometry: Geometry,
    layout: Layout,
    /// World ranks of this node.
    numbers: Numbers,
    local_rank: usize,
    world: Arc<RwLock<Arc<[u32]>>>,
    clock: Clock,
    place: Arc<Place>,
    /// By what the processes of the other ranks of this node are found.
    found: Found,
    /// The connection to the starter; a process that was started without one gets it when it needs it.
    starter: Arc<OnceLock<Starter>>,
}

impl Job {
    /// Enters the job: publishes this process in its endpoint.
    pub fn enter(mut place: Place) -> Self {
        let geometry = *place.segment.geometry();
        let job = Job {
            segment: place.segment.mapping(),
            geometry,
            layout: *place.segment.layout(),
            numbers: *place.segment.layout().numbers(),
            local_rank: place.local_rank as usize,
            world: Arc::new(RwLock::new(match &place.spawned {
                Some(Spawned { ranks, .. }) => ranks[..].into(),
                None => (0..geometry.world_ranks).collect(),
            })),
            clock: Clock::over(place.page.take()),
            starter: Arc::new(place.starter.take().map_or_else(OnceLock::new, OnceLock::from)),
            found: Found::new(geometry.room() as usize),
            place: Arc::new(place),
        };
        let starter = job.starter();
        starter.map(Starter::socket).into_iter().for_each(end::set_connection);
        starter.and_then(Starter::pid).into_iter().for_each(yama::allow_starter);
        let endpoint = job.endpoint(job.rank());
        process_name::publish(endpoint, starter.is_none().then(std::process::id));
        endpoint.state.store(ATTACHED, Ordering::Release);
        job
    }

    /// World rank of this process.
    #[inline(always)]
    pub fn rank(&self) -> usize {
        self.numbers.rank_at(self.local_rank)
    }

    /// Ranks that the job has room for, on all nodes.
    #[inline]
    pub fn ranks(&self) -> usize {
        self.geometry.world_room() as usize
    }

    /// The ranks of MPI_COMM_WORLD, in order: those that were started together with this one, or those that
    /// have taken their places.
    pub fn world(&self) -> Arc<[u32]> {
        Arc::clone(&self.world.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Others have taken the places of ranks of MPI_COMM_WORLD: these are its ranks from now on.
    pub fn renew_world(&self, ranks: &[u32]) {
        *self.world.write().unwrap_or_else(PoisonError::into_inner) = ranks.into();
    }

    /// Place of this process in MPI_COMM_WORLD.
    pub fn world_place(&self) -> usize {
        let own = self.rank();
        let place = self.world().iter().position(|rank| *rank as usize == own);
        place.expect("a process is in its own world")
    }

    /// Starters of this process, if not mpiexec.
    pub fn spawned(&self) -> Option<&Spawned> {
        self.place.spawned.as_ref()
    }

    /// Ranks of this node that have been started.
    pub fn present_ranks(&self) -> Numbers {
        let present = self.segment.present().clamp(self.geometry.local_ranks, self.geometry.room());
        self.numbers.up_to(present as usize)
    }

    /// How many more ranks there is room for when those have ended that are about to: on this node, and
    /// perhaps all of the others.
    pub fn room_when_ended(&self) -> usize {
        let room = self.geometry.world_room() - self.geometry.world_ranks;
        let later = self.geometry.local_ranks as usize..self.present_ranks().len();
        let stay = later.filter(|rank| !self.segment.is_ending(&self.layout, *rank)).count();
        (room as usize).saturating_sub(stay)
    }

    /// How many more ranks there is room for, on all nodes, as far as this one knows.
    pub fn room_for_later(&self) -> usize {
        let room = self.geometry.world_room() - self.geometry.world_ranks;
        room.saturating_sub(self.segment.later()) as usize
    }

    /// Whether a rank has been started; of those of other nodes that there is room for it is not known.
    pub fn is_present(&self, rank: usize) -> bool {
        if self.numbers.contains(rank) { self.present_ranks().contains(rank) } else { rank < self.ranks() }
    }

    /// MPI_UNIVERSE_SIZE: how many ranks the user expects.
    pub fn universe(&self) -> usize {
        (self.geometry.universe as usize).max(self.geometry.world_ranks as usize)
    }

    /// World ranks of this node that there is room for.
    #[inline(always)]
    pub fn local_ranks(&self) -> &Numbers {
        &self.numbers
    }

    /// Number of this node in the job.
    pub fn node(&self) -> u32 {
        self.geometry.node
    }

    /// Nodes of the job.
    pub fn nodes(&self) -> usize {
        self.network().map_or(1, |network| network.peers.nodes())
    }

    /// Number of the node of a rank.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn node_of(&self, rank: usize) -> usize {
        assert!(rank < self.ranks(), "rank {rank} of {}", self.ranks());
        self.network().map_or(0, |network| network.peers.node_of(rank))
    }

    /// How the ranks of other nodes are reached; none in a job that has one node.
    pub fn network(&self) -> Option<&Network> {
        self.place.network.as_ref()
    }

    /// Library time, and what the daemon tells of the job's turns.
    #[inline]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// More ranks than cores: whoever waits must make room.
    pub fn is_oversubscribed(&self) -> bool {
        self.present_ranks().len() > self.geometry.cores as usize
    }

    /// The same of the ranks that this node began with: all of them know it alike at any time.
    pub fn began_oversubscribed(&self) -> bool {
        self.geometry.local_ranks > self.geometry.cores
    }

    /// Random number of the job.
    pub fn id(&self) -> u64 {
        self.geometry.job
    }

    /// The endpoint of a rank of this node.
    #[inline(always)]
    pub fn endpoint(&self, rank: usize) -> &Endpoint {
        // SAFETY: the layout says that an endpoint lies there; its fields are atomics; the segment lives as
        // long as self.
        unsafe { self.segment.at(self.layout.endpoint_at(self.numbers.index_of(rank))).as_ref() }
    }

    /// The process of a rank of this node, to copy from and to.
    pub fn process_of(&self, rank: usize) -> Process {
        self.found.of(self.numbers.index_of(rank), self.endpoint(rank))
    }

    /// The report of a local rank.
    pub fn report(&self, rank: usize) -> &Report {
        // SAFETY: as for endpoint.
        unsafe { self.segment.at(self.layout.report_at(self.numbers.index_of(rank))).as_ref() }
    }

    /// Locks of files that the ranks of this node have, or try to get: from now on this rank may be one.
    pub(crate) fn node_file_locks(&self) -> &AtomicU32 {
        self.segment.announce_file_locks();
        self.segment.file_locks()
    }

    /// Whether all ranks of the job are on this node.
    pub fn is_whole(&self) -> bool {
        self.geometry.is_whole()
    }

    /// The table of published names, of use on the node of rank 0.
    pub fn names(&self) -> Names {
        // SAFETY: the layout keeps the table apart, zeroed and aligned; it stays mapped until the process
        // ends.
        unsafe { Names::new(self.segment.at::<[u64; NAMES_BYTES / 8]>(self.layout.names_at()).cast()) }
    }

    /// The rings to and from `peer`, a rank of this node.
    ///
    /// # Safety
    /// Called once for each peer in the life of the process (but for [`Job::forget`]): the rings' positions
    /// are kept in the values returned, which must not outlive the job.
    pub unsafe fn rings(&self, peer: usize) -> Rings {
        let (layout, segment) = (&self.layout, &self.segment);
        let (me, peer) = (self.local_rank, self.numbers.index_of(peer));
        let count = layout.envelope_lines;
        let bulk = |from, to| Parts {
            descriptors: segment.at(layout.descriptors_at(from, to)),
            emptied: segment.at(layout.descriptors_at(from, to) + LINE_BYTES),
            slots: segment.at(layout.slots_at(from, to)),
            slot_lines: layout.slot_bytes / LINE_BYTES,
        };
        let joint = |from: usize, to: usize, which| {
            let line = |i: usize| segment.at(layout.joint_at(from, to, which) + i * LINE_BYTES);
            let (own, other) = if from == me { (1, 2) } else { (2, 1) };
            coop_copy::Parts { claims: line(0), own: line(own), other: line(other) }
        };
        let credit = |from, to| segment.at(layout.released_at(from, to));
        let lines = |from, to| segment.at(layout.envelopes_at(from, to));
        let consumed = |from, to| segment.at(layout.pair_at(from, to));
        // SAFETY: a fresh segment is zeroed; the layout keeps the parts apart; made once by our contract.
        unsafe {
            Rings {
                out: envelope_ring::Producer::new(lines(me, peer), count, consumed(me, peer)),
                bulk_out: bulk_ring::Producer::new(bulk(me, peer)),
                inbox: envelope_ring::Consumer::new(lines(peer, me), count, consumed(peer, me)),
                bulk_in: bulk_ring::Consumer::new(bulk(peer, me)),
                joints_out: [0, 1].map(|which| Joint::new(joint(me, peer, which))),
                joints_in: [0, 1].map(|which| Joint::new(joint(peer, me, which))),
                claims: [segment.at(layout.requests_at(me, peer)), segment.at(layout.requests_at(peer, me))],
                voids: [
                    segment.at(layout.requests_at(me, peer) + LINE_BYTES),
                    segment.at(layout.requests_at(peer, me) + LINE_BYTES),
                ],
                released_by_peer: credit(me, peer),
                released_to_peer: credit(peer, me),
                endpoint: segment.at(layout.endpoint_at(peer)),
            }
        }
    }

    /// Ranks that have begun to exchange messages with a rank of this node.
    #[inline(always)]
    pub fn greetings(&self, rank: usize) -> &Greetings {
        // SAFETY: as for endpoint; the rings of a rank to itself are not used.
        unsafe { self.segment.at(self.layout.greetings_at(self.numbers.index_of(rank))).as_ref() }
    }

    /// Share of this rank in the memory behind the segment. [`crate::rank::Rank::arena`] keeps it: two values
    /// of it would give out the same ranges.
    pub(crate) fn arena(&self) -> Option<Arena> {
        self.place.segment.arena(self.local_rank as u32)
    }

    /// Maps a range that a rank of this node has taken from its share.
    ///
    /// # Errors
    /// Those of [`arena::Mapping::new`].
    pub fn map(&self, range: arena::Range) -> std::io::Result<arena::Mapping> {
        arena::Mapping::new(self.place.segment.descriptor(), range)
    }

    /// The same at a multiple of `align`, a power of two from the page on.
    ///
    /// # Errors
    /// As above.
    pub fn map_aligned(&self, range: arena::Range, align: usize) -> std::io::Result<arena::Mapping> {
        arena::Mapping::aligned(self.place.segment.descriptor(), range, align)
    }

    /// Maps a range of this rank's share over memory of this process.
    ///
    /// # Errors
    /// Those of [`arena::Mapping::replace`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn map_over(&self, range: arena::Range, at: NonNull<u8>) -> std::io::Result<()> {
        // SAFETY: our contract.
        unsafe { arena::Mapping::replace(self.place.segment.descriptor(), range, at) }
    }

    /// Bytes of the send FIFO to a rank of another node.
    pub fn fifo_bytes(&self) -> usize {
        self.layout.fifo_bytes
    }

    /// The memory of the flow to `peer`, a rank of another node.
    ///
    /// # Safety
    /// Called once for each peer; the value must not outlive the job.
    pub unsafe fn flow(&self, peer: usize) -> SegmentFlow {
        let (layout, segment, me) = (&self.layout, &self.segment, self.local_rank);
        let (words, fifo) =
            (segment.at(layout.flow_words_at(me, peer)), segment.at(layout.fifo_at(me, peer)));
        // SAFETY: the layout keeps the areas apart, and they end inside the segment; made once by our
        // contract.
        unsafe { SegmentFlow::new(words, fifo, layout.fifo_bytes) }
    }

    /// Wakes `peer`, a rank of this node, if it sleeps; after something was published for it.
    #[inline(always)]
    pub fn ring(&self, peer: usize) {
        doorbell::ring_if_sleeping(self.endpoint(peer));
    }

    /// Wakes `peer` if it sleeps; after something was published for it by a sequentially consistent swap.
    #[inline(always)]
    pub fn ring_after_swap(&self, peer: usize) {
        doorbell::ring_after_swap(self.endpoint(peer));
    }

    /// Says which core this process is on; 1 + its number.
    pub fn publish_core(&self) -> u32 {
        // SAFETY: no arguments. An error (-1) is no core.
        let core = (unsafe { libc::sched_getcpu() } + 1) as u32;
        let told = &self.endpoint(self.rank()).core;
        // Others look at this line: it is written only when there is news.
        if told.load(Ordering::Relaxed) != core {
            told.store(core, Ordering::Relaxed);
        }
        core
    }

    /// Header of a collective block.
    pub fn block(&self, block: usize) -> &BlockHeader {
        // SAFETY: as for endpoint.
        unsafe { self.segment.at(self.layout.block_at(block)).as_ref() }
    }

    /// Flag lines of a member in a collective block; members are numbered within the communicator.
    #[inline(always)]
    pub fn member(&self, block: usize, member: usize) -> &Member {
        assert!(member < self.layout.local_ranks);
        let offset = self.layout.block_at(block) + LINE_BYTES + member * size_of::<Member>();
        // SAFETY: as for endpoint.
        unsafe { self.segment.at(offset).as_ref() }
    }

    /// Data area of a member in a collective block: two slots of `collective::SLOT_BYTES`.
    #[inline(always)]
    pub fn member_data(&self, block: usize, member: usize) -> NonNull<u8> {
        self.segment.at(self.layout.block_data_at(block, member))
    }

    /// How many ranks that were started later have ended, on this node.
    pub fn ended(&self) -> u32 {
        self.segment.ended()
    }

    /// The generation of a rank of this node that was started later and has left, as long as this process
    /// has not forgotten it ([`tutti_shm::reuse`]).
    pub fn left(&self, rank: usize) -> Option<u32> {
        let index = self.numbers.index_of(rank);
        let is_later = index >= self.geometry.local_ranks as usize && index != self.local_rank;
        if is_later { self.segment.left(&self.layout, self.local_rank, index) } else { None }
    }

    /// Forgets the process of a rank that has left, which nothing here names any more: its number may get
    /// another one. Gives the rings to that one, in place of those that `is_used` or not.
    ///
    /// # Safety
    /// The rings of the rank that were given before are not used any more.
    pub unsafe fn forget(&self, rank: usize, generation: u32, is_used: bool) -> Rings {
        let index = self.numbers.index_of(rank);
        if is_used {
            // SAFETY: the rank has left, and our contract.
            unsafe { self.segment.zero_rings(&self.layout, self.local_rank, index) };
        }
        // SAFETY: in place of those before, with nothing in them.
        let rings = unsafe { self.rings(rank) };
        self.found.forget(index);
        self.segment.forget(&self.layout, self.local_rank, index, generation);
        rings
    }

    /// How many processes both sides of the flow to a rank of another node have had before, from now on: this
    /// one has nothing of them. Called once the process is in the job, when the flow begins.
    pub(crate) fn begin_far(&self, rank: usize) -> u32 {
        let theirs = self.segment.begin_far(&self.layout, self.local_rank, rank);
        self.segment.processes_before(&self.layout, self.local_rank).wrapping_add(theirs)
    }

    /// A rank of another node has ended, and this process has not forgotten it: how many of its processes
    /// have ended, and how many those of both sides are then.
    pub fn left_far(&self, rank: usize) -> Option<(u32, u32)> {
        let ended = self.segment.left_far(&self.layout, self.local_rank, rank)?;
        Some((ended, self.segment.processes_before(&self.layout, self.local_rank).wrapping_add(ended)))
    }

    /// Notes that nothing here names a process of that rank that has ended any more.
    pub fn forget_far(&self, rank: usize, ended: u32) {
        self.segment.forget_far(&self.layout, self.local_rank, rank, ended);
    }

    /// Whether ranks of other nodes may be started later.
    pub fn has_later_far(&self) -> bool {
        self.layout.has_later_far()
    }

    /// Takes the next place in the sequence of contexts of a rank of this node, unless there are `count`
    /// already. No process of the job gets it again.
    pub fn take_context(&self, rank: usize, count: u32) -> Option<u32> {
        let more = |taken: u32| (taken < count).then(|| taken + 1);
        let taken = &self.endpoint(rank).contexts;
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()
    }

    /// Notes that this rank has left those that have started it.
    pub fn part(&self) {
        self.endpoint(self.rank()).parted.fetch_or(PARTED, Ordering::Relaxed);
    }

    /// Notes that this rank is connected with its own MPI_COMM_WORLD alone.
    pub fn separate(&self) {
        self.endpoint(self.rank()).parted.fetch_or(SEPARATE, Ordering::Release);
    }

    /// Notes that it may be connected with others again.
    pub fn connect(&self) {
        self.endpoint(self.rank()).parted.fetch_and(!SEPARATE, Ordering::Relaxed);
    }

    /// Says to everyone, and to the starter, that this rank has finalized.
    pub fn leave(&self) {
        self.endpoint(self.rank()).state.store(FINALIZED, Ordering::Release);
        if let Some(starter) = self.starter() {
            starter.tell(Notice::Finalized);
            end::forget_connection();
        }
    }

    /// Says to the starter that the process may end from now on, though it may come back until then.
    pub fn rest(&self) {
        if let Some(starter) = self.starter() {
            starter.tell(Notice::Finalized);
        }
    }

    /// The connection to the starter; none in a process that was started without one, as long as it has not
    /// needed one.
    pub fn starter(&self) -> Option<&Starter> {
        self.starter.get()
    }

    /// The same; a process that was started without a starter gets one.
    ///
    /// # Errors
    /// When it cannot be had; a text for the user.
    pub fn starter_or_adopted(&self) -> Result<&Starter, String> {
        if self.starter.get().is_none() {
            let starter = adoption::adopt(&self.place.segment)?;
            // Forked by this process's child, in our namespace.
            yama::allow_starter(self.segment.starter_pid());
            end::set_connection(starter.socket());
            let _ = self.starter.set(starter);
        }
        Ok(self.starter.get().expect("it has just been set"))
    }
}
