//! A rank that was started later has ended, and its number gets another process.
//!
//! ```text
//! rank r                     a mate m                                the starter
//! FINALIZED, process ends -> no communicator, group or request
//!                            of m has r, or m waits with this:
//!                            m zeroes the rings of r and m, then
//!                            forgotten[m][r] = generation of r    -> all mates that are attached have
//!                                                                    said so: it zeroes the rest of r,
//!                                                                    generation + 1, starts a process
//! ```
//!
//! So no process has a position in the rings of a rank whose process is new, and none takes a message of the
//! old one. A mate that is not attached has none yet, or no more: the starter zeroes its rings to r, which
//! nobody uses. A mate that has exchanged nothing with r leaves the rings alone: they are zero. That may be
//! late, when r is another process already; then the generation that it names is an old one.
//!
//! Between nodes ([`Mapping::begin_far`] and what follows) the flows between r and m take the place of the
//! rings. Starters tell each other which ranks have ended, and where all have forgotten them. A rank of
//! another node is known by how many of its processes have ended; a flow by the sum of that of both sides,
//! which stands in all its packets as the incarnation.
//!
//! ```text
//! m is attached -> forgotten[m][r] = ended[r]: m begins its flow to r by that
//! the starter: ended[r] += 1 -> m has nothing of r: the flow begins anew, forgotten[m][r] = ended[r]
//!                                                            -> all attached ranks of the node have said so
//! ```
//!
//! A counter in the header says how many later ranks have ended, so that mates need not look at each.

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::doorbell;
use crate::endpoint::{ABSENT, ATTACHED, Endpoint, FINALIZED, PARTED};
use crate::layout::Layout;
use crate::report::Report;
use crate::segment::{Mapping, Segment};
use crate::sync::{AtomicU32, Ordering};

/// Unit of memory that the kernel gives back at once; where its pages are larger, zeros are written instead.
const PAGE_BYTES: usize = 4096;

impl Mapping {
    fn forgotten(&self, layout: &Layout, by: usize, rank: usize) -> &AtomicU32 {
        // SAFETY: the layout says that an atomic lies there; it lives as long as the mapping.
        unsafe { self.at::<AtomicU32>(layout.forgotten_at(by, rank)).as_ref() }
    }

    fn endpoint(&self, layout: &Layout, rank: usize) -> &Endpoint {
        // SAFETY: the layout says that an endpoint lies there; its fields are atomics.
        unsafe { self.at::<Endpoint>(layout.endpoint_at(rank)).as_ref() }
    }

    /// The generation of a rank that has left, if `by` has not forgotten it yet. Both are counted on this
    /// node.
    pub fn left(&self, layout: &Layout, by: usize, rank: usize) -> Option<u32> {
        let endpoint = self.endpoint(layout, rank);
        let has_left = endpoint.state.load(Ordering::Acquire) == FINALIZED;
        let generation = endpoint.generation.load(Ordering::Acquire);
        let forgotten = self.forgotten(layout, by, rank).load(Ordering::Relaxed);
        (has_left && forgotten != generation + 1).then_some(generation)
    }

    /// `by` has forgotten the process of a rank that has left.
    pub fn forget(&self, layout: &Layout, by: usize, rank: usize, generation: u32) {
        self.forgotten(layout, by, rank).store(generation + 1, Ordering::Release);
    }

    fn far_ended(&self, layout: &Layout, rank: usize) -> u32 {
        // SAFETY: the layout says that an atomic lies there; it lives as long as the mapping.
        unsafe { self.at::<AtomicU32>(layout.far_ended_at(rank)).as_ref() }.load(Ordering::SeqCst)
    }

    fn far_forgotten(&self, layout: &Layout, by: usize, rank: usize) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.at::<AtomicU32>(layout.far_forgotten_at(by, rank)).as_ref() }
    }

    /// How many processes of a world rank, which is on another node, have ended, as `by` knows it from now
    /// on; it has nothing of them. `by` is counted on this node, and attached.
    pub fn begin_far(&self, layout: &Layout, by: usize, rank: usize) -> u32 {
        if !layout.has_later_far() {
            return 0;
        }
        // Behind the store that says that it is attached: the starter looks at that one last.
        crate::sync::fence(Ordering::SeqCst);
        let ended = self.far_ended(layout, rank);
        self.far_forgotten(layout, by, rank).store(ended, Ordering::Release);
        ended
    }

    /// How many processes of a rank of another node have ended, if `by` has not forgotten the last of them.
    pub fn left_far(&self, layout: &Layout, by: usize, rank: usize) -> Option<u32> {
        if !layout.has_later_far() {
            return None;
        }
        let ended = self.far_ended(layout, rank);
        (self.far_forgotten(layout, by, rank).load(Ordering::Relaxed) != ended).then_some(ended)
    }

    /// `by` has forgotten the processes of a rank of another node that have ended.
    pub fn forget_far(&self, layout: &Layout, by: usize, rank: usize, ended: u32) {
        self.far_forgotten(layout, by, rank).store(ended, Ordering::Release);
    }

    /// How many processes have been a rank of this node before its present one.
    pub fn processes_before(&self, layout: &Layout, rank: usize) -> u32 {
        self.endpoint(layout, rank).generation.load(Ordering::Acquire)
    }

    /// Whether a rank, counted on this node, has left or has left those that started it: it may end soon.
    pub fn is_ending(&self, layout: &Layout, rank: usize) -> bool {
        let endpoint = self.endpoint(layout, rank);
        endpoint.state.load(Ordering::Acquire) == FINALIZED
            || endpoint.parted.load(Ordering::Relaxed) & PARTED != 0
    }

    /// Zeroes the rings between two ranks, in both directions; pages that hold nothing else are given back.
    ///
    /// # Safety
    /// No process uses them meanwhile, and none has positions in them afterwards.
    pub unsafe fn zero_rings(&self, layout: &Layout, one: usize, other: usize) {
        for at in [layout.pair_at(one, other), layout.pair_at(other, one)] {
            // SAFETY: our contract.
            unsafe { self.zero(at, layout.pair_bytes()) };
        }
    }

    /// # Safety
    /// Nobody uses these bytes meanwhile.
    unsafe fn zero(&self, at: usize, bytes: usize) {
        let end = at + bytes;
        let pages = at.next_multiple_of(PAGE_BYTES)..end / PAGE_BYTES * PAGE_BYTES;
        assert!(end <= self.bytes());
        // SAFETY: the range is in the mapping, which is shared memory of a file, and not in use by contract.
        unsafe {
            let base = self.at::<u8>(0).as_ptr();
            let is_freed = !pages.is_empty()
                && libc::madvise(base.add(pages.start).cast(), pages.len(), libc::MADV_REMOVE) == 0;
            if is_freed {
                base.add(at).write_bytes(0, pages.start - at);
                base.add(pages.end).write_bytes(0, end - pages.end);
            } else {
                base.add(at).write_bytes(0, bytes);
            }
        }
    }
}

impl Segment {
    /// Whether every other rank that is attached has forgotten this one, whose process is dead; counted on
    /// this node.
    pub fn is_forgotten(&self, rank: usize) -> bool {
        let (mapping, layout) = (self.mapping(), self.layout());
        (0..self.present() as usize).filter(|mate| *mate != rank).all(|mate| {
            let is_attached = mapping.endpoint(layout, mate).state.load(Ordering::Acquire) == ATTACHED;
            !is_attached || mapping.left(layout, mate, rank).is_none()
        })
    }

    /// Notes how many processes of a world rank of another node have ended: ranks of this one may forget
    /// them.
    pub fn note_far_end(&self, rank: usize, ended: u32) {
        let (mapping, layout) = (self.mapping(), self.layout());
        if layout.has_later_far() {
            // SAFETY: the layout says that an atomic lies there.
            let word = unsafe { mapping.at::<AtomicU32>(layout.far_ended_at(rank)).as_ref() };
            word.store(ended, Ordering::SeqCst);
        }
    }

    /// Whether every rank of this node that is attached has forgotten the processes of a rank of another node
    /// that have ended.
    pub fn is_forgotten_far(&self, rank: usize) -> bool {
        let (mapping, layout) = (self.mapping(), self.layout());
        crate::sync::fence(Ordering::SeqCst);
        (0..self.present() as usize).all(|mate| {
            let is_attached = mapping.endpoint(layout, mate).state.load(Ordering::SeqCst) == ATTACHED;
            !is_attached || mapping.left_far(layout, mate, rank).is_none()
        })
    }

    /// How many processes both sides of a flow have had before, as a rank of this node knows it.
    pub fn flow_processes(&self, local_rank: usize, to: usize) -> u32 {
        let (mapping, layout) = (self.mapping(), self.layout());
        if !layout.has_later_far() {
            return 0;
        }
        let theirs = mapping.far_forgotten(layout, local_rank, to).load(Ordering::Acquire);
        mapping.processes_before(layout, local_rank).wrapping_add(theirs)
    }

    /// Whether a rank, counted on this node, has left or has left those that started it: it may end soon.
    pub fn is_ending(&self, rank: usize) -> bool {
        self.mapping().is_ending(self.layout(), rank)
    }

    /// A later rank has ended: its mates may forget it. They are woken if they sleep.
    pub fn announce_end(&self) {
        self.mapping().announce_end();
        let (mapping, layout) = (self.mapping(), self.layout());
        for mate in 0..self.present() as usize {
            doorbell::ring_if_sleeping(mapping.endpoint(layout, mate));
        }
    }

    /// Makes the number of a rank, counted on this node, ready for another process: all mates had forgotten
    /// it at some time ([`Segment::is_forgotten`]). Those that are attached since then have not said so, and
    /// have nothing of it.
    pub fn renew(&self, rank: usize) {
        let (mapping, layout) = (self.mapping(), self.layout());
        let endpoint = mapping.endpoint(layout, rank);
        let generation = &endpoint.generation;
        let next = generation.load(Ordering::Relaxed) + 1;
        endpoint.state.store(ABSENT, Ordering::Release);
        for mate in 0..self.present() as usize {
            let state = mapping.endpoint(layout, mate).state.load(Ordering::Acquire);
            // Those of the rank to itself hold the greetings of its mates, who do not greet again
            // ([`crate::greetings`]).
            if mate != rank && state == FINALIZED {
                // SAFETY: neither has a process that uses them.
                unsafe { mapping.zero_rings(layout, rank, mate) };
            }
            mapping.forgotten(layout, rank, mate).store(0, Ordering::Relaxed);
        }
        // SAFETY: the process of the rank is dead, and mates only read what is atomic: zero is what it was
        // before the first process.
        unsafe {
            let (at, kept) = (layout.endpoint_at(rank), std::mem::offset_of!(Endpoint, contexts));
            mapping.zero(at, kept);
            // Mates may take a context out of the sequence meanwhile.
            let behind = kept + size_of::<u32>();
            mapping.zero(at + behind, size_of::<Endpoint>() - behind);
            mapping.zero(layout.report_at(rank), size_of::<Report>());
            let (at, bytes) = layout.flows_of(rank);
            mapping.zero(at, bytes);
        }
        generation.store(next, Ordering::Release);
        if let Some(share) = self.arena(rank as u32).map(|arena| arena.share()) {
            punch(self.descriptor(), share.offset, share.bytes);
        }
    }
}

/// Gives the pages of a range of a file back: they are zero again.
fn punch(file: BorrowedFd<'_>, offset: u64, bytes: u64) {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: a system call on a descriptor that is open.
    unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as libc::off_t, bytes as libc::off_t) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::greetings::{Greeted, Greetings};
    use crate::layout::Geometry;

    #[test]
    fn reuse_waits_for_all_mates_and_leaves_nothing_of_the_former_process() {
        let geometry = Geometry { world_ranks: 1, local_ranks: 1, room: 3, cores: 1, ..Geometry::default() };
        let segment = Segment::create(geometry).unwrap();
        assert!(segment.add_ranks(2));
        let (mapping, layout) = (segment.mapping(), *segment.layout());
        let state =
            |rank: usize, state| mapping.endpoint(&layout, rank).state.store(state, Ordering::Release);
        (0..3).for_each(|rank| state(rank, ATTACHED));
        mapping.endpoint(&layout, 2).contexts.store(9, Ordering::Relaxed);
        let greeted = [Some(0), Some(1)];
        // SAFETY: the place of the greetings.
        let greetings = unsafe { mapping.at::<Greetings>(layout.greetings_at(2)).as_ref() };
        greeted.iter().flatten().for_each(|by| greetings.greet(*by));
        for at in [layout.envelopes_at(0, 2), layout.slots_at(2, 0), layout.pair_at(1, 2)] {
            // SAFETY: inside of the mapping.
            unsafe { mapping.at::<u64>(at).write(7) };
        }
        assert!(!segment.is_ending(2));
        state(2, FINALIZED);
        assert!(segment.is_ending(2) && !segment.is_forgotten(2));
        assert_eq!(mapping.left(&layout, 0, 2), Some(0));
        assert_eq!(mapping.left(&layout, 0, 1), None);
        // SAFETY: there are no processes.
        unsafe { mapping.zero_rings(&layout, 0, 2) };
        mapping.forget(&layout, 0, 2, 0);
        assert!(!segment.is_forgotten(2), "rank 1 has not");
        state(1, FINALIZED);
        assert!(segment.is_forgotten(2));
        // Meanwhile another one comes, which has never heard of it.
        segment.renew(1);
        state(1, ATTACHED);
        segment.renew(2);
        let endpoint = mapping.endpoint(&layout, 2);
        let words = [&endpoint.state, &endpoint.generation, &endpoint.contexts];
        assert_eq!(words.map(|word| word.load(Ordering::Relaxed)), [ABSENT, 1, 9]);
        for at in [layout.envelopes_at(0, 2), layout.slots_at(2, 0), layout.pair_at(1, 2)] {
            // SAFETY: as above.
            assert_eq!(unsafe { mapping.at::<u64>(at).read() }, 0, "at {at}");
        }
        let mut taken = Greeted::default();
        taken.grow(3);
        assert_eq!([0, 1].map(|_| taken.take(greetings, 3)), greeted, "mates do not greet again");
        // A late word about the former process says nothing about this one.
        mapping.forget(&layout, 0, 2, 0);
        state(2, FINALIZED);
        assert_eq!(mapping.left(&layout, 0, 2), Some(1));
    }
}
