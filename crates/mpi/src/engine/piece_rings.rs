//! Rings of partitioned sends inside a node ([`crate::request::partition::ring`]): who has which, and what
//! moves through them.
//!
//! ```text
//! Psend_init   take_ring: one that is empty again, or make_ring: a new one in the caller's memory
//! Pready       write_pieces; an operation that finds no room is looked at by each progress until it has some
//! Start        read_pieces; an operation that has not all is looked at by each progress until it has
//! Parrived     has_seen_arrived; try_find_arrived, which leaves the last record to progress; read_ring_now
//! free         put_ring_back
//! ```

use std::rc::Rc;

use tutti_shm::arena::{Mapping, Range};

use super::Engine;
use super::message::{Message, Mode};
use crate::abi::*;
use crate::check_mode;
use crate::handle::NONE;
use crate::request::extra::Extra;
use crate::request::partition::pieces::Written;
use crate::request::partition::ring::{End, RING_BYTES, RingOut};
use crate::request::{Request, RequestKind, Started, WhenDone};

/// Rings to one rank, at most: further sends to it at once go by messages.
const RINGS_TO_RANK_MAX: u32 = 4;

impl Engine {
    /// An empty ring to this rank for the send of this number, if there is one.
    pub(crate) fn take_ring(&mut self, to: u32, operation: u32) -> Option<RingOut> {
        // The number may be of another process by now, elsewhere.
        if !self.peers.has(to as usize) {
            return None;
        }
        let idle = &mut self.pieces.idle;
        let at = idle.iter_mut().position(|(other, ring)| *other == to && ring.try_assign(operation))?;
        Some(idle.swap_remove(at).1)
    }

    /// Whether a send to this rank may have a ring of its own.
    pub(crate) fn may_make_ring(&self, to: u32) -> bool {
        let rank = to as usize;
        let made = self.pieces.made.get(&to).copied().unwrap_or(0);
        rank != self.me && self.peers.has(rank) && !check_mode::is_on() && made < RINGS_TO_RANK_MAX
    }

    /// A new ring to this rank in memory that no other rank knows.
    pub(crate) fn make_ring(&mut self, to: u32, operation: u32, memory: Mapping) -> RingOut {
        *self.pieces.made.entry(to).or_default() += 1;
        let mut ring = RingOut::new(Rc::new(memory));
        assert!(ring.try_assign(operation), "a new ring is empty");
        ring
    }

    /// Keeps the ring of a send that is freed, for others to the same rank.
    pub(super) fn put_ring_back(&mut self, index: u32) {
        let Some(made) = self.partitioned_mut(index) else { return };
        if let (Some(to), Some(End::Out(ring))) = (made.peer, made.pieces.ring.take().map(|end| *end)) {
            self.pieces.idle.push((to, ring));
        }
    }

    /// Whether a ring holds what the receiver of a send that is freed has not read.
    pub fn has_unread_pieces(&self) -> bool {
        self.pieces.idle.iter().any(|(_, ring)| !ring.is_empty())
    }

    /// Memory of a ring that a rank of the node has made: mapped once.
    pub(super) fn map_ring(&mut self, offset: u64) -> std::io::Result<Rc<Mapping>> {
        if let Some(memory) = self.pieces.mapped.get(&offset) {
            return Ok(Rc::clone(memory));
        }
        let memory = Rc::new(self.job.map(Range { offset, bytes: RING_BYTES as u64 })?);
        self.pieces.mapped.insert(offset, Rc::clone(&memory));
        Ok(memory)
    }

    /// Declares one partition ready and writes it, if it follows the one before it, nothing waits, and there
    /// is room, or lets it wait with that ([`super::far_pieces`]); false, and nothing is done, otherwise.
    #[inline(always)]
    pub fn try_declare_next(&mut self, request: MPI_Request, partition: i32) -> bool {
        let Some(index) = self.requests.index(request.0) else { return false };
        let Some(made) = self.partitioned_mut(index) else { return false };
        if !made.try_write_next(partition as u32) {
            return made.try_note_next(partition as u32);
        }
        if made.is_all_ready() {
            self.call_receiver(index);
        }
        true
    }

    /// Whether a partition of a receive has arrived, where that is known from one look; false says nothing.
    #[inline(always)]
    pub fn has_seen_arrived(&self, request: MPI_Request, partition: i32) -> bool {
        let Some((_, request)) = self.requests.named(request.0) else { return false };
        match request.extra.as_deref() {
            Some(Extra::Partitioned(made)) => made.is_in_last_run(partition as u32),
            _ => false,
        }
    }

    /// The same where it costs no more than a look into its ring.
    pub fn try_find_arrived(&mut self, request: MPI_Request, partition: i32) -> bool {
        let Some(index) = self.requests.index(request.0) else { return false };
        let Some(made) = self.partitioned_mut(index) else { return false };
        let (found, peer) = (made.find_in_ring(partition as usize), made.peer);
        if found.has_made_room
            && let Some(from) = peer
        {
            self.job.ring(from as usize);
        }
        found.has_arrived
    }

    #[inline(never)]
    fn call_receiver(&mut self, index: u32) {
        let made = self.partitioned_mut(index).expect("the caller has looked");
        made.call_receiver();
        if let Some(to) = made.peer {
            self.job.ring(to as usize);
        }
    }

    /// Writes what is ready of a send into its ring. Whether anything was.
    pub(super) fn write_pieces(&mut self, owner: u32, to: u32, tag: i32) -> bool {
        let made = self.partitioned_mut(owner).expect("the caller has looked");
        if made.pieces.is_looked_at && !made.is_ring_due() {
            // It is still full, and the receiver has been rung.
            return false;
        }
        let mut moved = false;
        loop {
            let made = self.partitioned(owner).expect("the caller has looked");
            let context = made.context;
            if made.pieces.set.count() == 0 {
                if moved && made.is_all_ready() {
                    self.call_receiver(owner);
                }
                return moved;
            }
            if let Some(last) = self.unfinished_part(owner) {
                self.await_piece(owner, last);
                return moved;
            }
            match self.partitioned_mut(owner).expect("as above").write_run() {
                Written::Full => {
                    self.job.ring(to as usize);
                    self.look_again(owner);
                    return moved;
                }
                Written::Data => {}
                Written::Bulk(buffer) => {
                    let message = Message { to, context, tag, buffer, mode: Mode::Standard };
                    if let Started::Pending(index) = self.send(message) {
                        self.partitioned_mut(owner).expect("as above").under_way.push(index);
                    }
                }
            }
            moved = true;
        }
    }

    /// Reads what a started receive's ring holds. Whether there was anything.
    pub(super) fn read_pieces(&mut self, owner: u32, from: u32, tag: i32) -> bool {
        let mut moved = false;
        loop {
            let made = self.partitioned_mut(owner).expect("the caller has looked");
            let context = made.context;
            let read = made.read_ring();
            let (bulk, is_complete) = (made.bulk_place(), made.has_all_pieces());
            if read.any {
                moved = true;
                self.job.ring(from as usize);
            }
            if let Some((place, bytes)) = read.too_long {
                let mut failed = Request::new(RequestKind::Receive, place, context, from as i32, tag);
                (failed.bytes, failed.error, failed.done) = (bytes, MPI_ERR_TRUNCATE, true);
                let index = self.requests.insert(failed);
                self.partitioned_mut(owner).expect("as above").under_way.push(index);
            }
            let Some(buffer) = bulk else {
                if !is_complete {
                    self.look_again(owner);
                }
                return moved;
            };
            let receive = Request::new(RequestKind::Receive, buffer, context, from as i32, tag);
            let index = self.receive(receive);
            if !self.requests.get(index).done {
                self.await_piece(owner, index);
                return moved;
            }
            self.take_message(owner, index);
        }
    }

    /// Each progress looks at this operation's ring, until it need not be any more.
    fn look_again(&mut self, owner: u32) {
        let made = self.partitioned_mut(owner).expect("the caller has looked");
        if !std::mem::replace(&mut made.pieces.is_looked_at, true) {
            self.pieces.looked_at.push(owner);
        }
    }

    /// Looks at the rings of the operations that wait for something in them. Whether anything moved.
    #[inline(never)]
    pub(super) fn progress_rings(&mut self) -> bool {
        let (mut moved, mut at) = (false, 0);
        // One that goes on waiting stands at the end again.
        for _ in 0..self.pieces.looked_at.len() {
            let Some(&owner) = self.pieces.looked_at.get(at) else { break };
            let made = self.partitioned_mut(owner).expect("an operation that is looked at stays");
            if !made.is_ring_due() {
                at += 1;
                continue;
            }
            made.pieces.is_looked_at = false;
            let (peer, tag, is_sender) = (made.peer, made.tag_of(0), made.is_sender());
            self.pieces.looked_at.swap_remove(at);
            let (Some(peer), Some(tag)) = (peer, tag) else { continue };
            moved |= match is_sender {
                true => self.write_pieces(owner, peer, tag),
                false => self.read_pieces(owner, peer, tag),
            };
            self.release_if_over(owner);
        }
        moved
    }

    /// Reads the ring of a receive that waits for something in it, though its sender has not called.
    pub fn read_ring_now(&mut self, owner: u32) {
        let Some(made) = self.partitioned_mut(owner) else { return };
        let (Some(from), Some(tag), false) = (made.peer, made.tag_of(0), made.is_sender()) else { return };
        if made.pieces.is_looked_at {
            made.pieces.is_looked_at = false;
            self.pieces.looked_at.retain(|other| *other != owner);
            self.read_pieces(owner, from, tag);
        }
    }

    /// Lets go of an operation that the user has freed, when nothing of it is to follow.
    pub(super) fn release_if_over(&mut self, owner: u32) {
        let made = self.partitioned(owner).expect("the caller has looked");
        let waits = made.pieces.awaited != NONE || made.pieces.is_looked_at;
        if self.requests.get(owner).when_done == WhenDone::Free && !waits {
            self.release_partitioned(owner);
        }
    }

    /// Whether partitions that are ready have found no room in their ring.
    pub(super) fn has_unwritten_pieces(&self) -> bool {
        let is_sender = |owner: &u32| self.partitioned(*owner).is_some_and(|made| made.is_sender());
        self.pieces.looked_at.iter().any(is_sender)
    }
}
