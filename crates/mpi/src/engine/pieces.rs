//! Small partitions on their way ([`crate::request::partition::pieces`]).
//!
//! A sender sends what is ready at once, unless the piece before still waits: then what gets ready is
//! gathered until that one has left. So a partition is never held back by one that is not ready, and a
//! receiver that is slow gets few long pieces. The pieces of a message have one tag and come in order; a
//! receiver has one receive posted. To ranks of other nodes more is gathered ([`super::far_pieces`]).

use std::rc::Rc;

use tutti_datatype::Buffer;

use super::Engine;
use super::message::{INLINE_BYTES_MAX, Message, Mode};
use crate::abi::*;
use crate::attached::Owned;
use crate::handle::NONE;
use crate::request::extra::Extra;
use crate::request::partition::pieces::PIECE_BYTES_MAX;
use crate::request::{Request, RequestKind, Started};

/// A piece travels inside the envelope ring.
const _: () = assert!(PIECE_BYTES_MAX <= INLINE_BYTES_MAX);

impl Engine {
    /// Sends what is ready of a partitioned send to `to`.
    pub(super) fn send_pieces(&mut self, owner: u32, to: u32, tag: i32) {
        if self.partitioned(owner).is_some_and(|made| made.pieces.ring.is_some()) {
            self.write_pieces(owner, to, tag);
            return;
        }
        if self.try_send_far_pieces(owner, to) {
            return;
        }
        loop {
            let made = self.partitioned(owner).expect("the caller has looked");
            if made.pieces.set.count() == 0 {
                return;
            }
            let context = made.context;
            if let Some(last) = self.unfinished_part(owner) {
                self.await_piece(owner, last);
                return;
            }
            let mut memory = std::mem::take(&mut self.pieces.memory);
            if memory.is_empty() {
                memory = vec![0; PIECE_BYTES_MAX].into_boxed_slice();
            }
            let made = self.partitioned_mut(owner).expect("as above");
            let (bytes, bulk) = made.pack_piece(&mut memory);
            let buffer = Buffer::contiguous(memory.as_mut_ptr(), bytes);
            let message = Message { to, context, tag, buffer, mode: Mode::Standard };
            match self.send(message.clone()) {
                Started::Done => self.pieces.memory = memory,
                Started::Pending(index) => {
                    let owned = Owned { data: memory, share: 0, pending: Rc::default() };
                    self.requests.get_mut(index).extra = Some(Box::new(Extra::Owned(owned)));
                    self.partitioned_mut(owner).expect("as above").under_way.push(index);
                }
            }
            if let Some(buffer) = bulk
                && let Started::Pending(index) = self.send(Message { buffer, ..message })
            {
                self.partitioned_mut(owner).expect("as above").under_way.push(index);
            }
        }
    }

    /// The last message of a send that is not all ready, if that still waits: what gets ready is gathered
    /// until it has left.
    pub(super) fn unfinished_part(&self, owner: u32) -> Option<u32> {
        let made = self.partitioned(owner)?;
        let last = made.under_way.last().copied()?;
        (!made.is_all_ready() && !self.requests.get(last).done).then_some(last)
    }

    /// Posts the receive of the next message of a partitioned receive.
    pub(super) fn receive_pieces(&mut self, owner: u32, from: u32, tag: i32) {
        if self.partitioned(owner).is_some_and(|made| made.pieces.ring.is_some()) {
            self.read_pieces(owner, from, tag);
            return;
        }
        loop {
            let made = self.partitioned_mut(owner).expect("the caller has looked");
            let Some(buffer) = made.next_place() else { return };
            let context = made.context;
            let receive = Request::new(RequestKind::Receive, buffer, context, from as i32, tag);
            let index = self.receive(receive);
            if !self.requests.get(index).done {
                self.await_piece(owner, index);
                return;
            }
            self.take_message(owner, index);
        }
    }

    /// An operation goes on when this request is done. One that waits for another goes on when that is
    /// followed up, though it may be done by now, and then waits for this one.
    pub(super) fn await_piece(&mut self, owner: u32, index: u32) {
        let made = self.partitioned_mut(owner).expect("the caller has looked");
        if made.pieces.awaited == NONE {
            made.pieces.awaited = index;
            // Only the last one is sent before.
            made.pieces.noted_until = made.count_worth_sending(usize::MAX);
            self.requests.advance_when_done(index);
            self.pieces.owners.insert(index, owner);
        }
    }

    /// A message of a receive has come.
    pub(super) fn take_message(&mut self, owner: u32, index: u32) {
        let request = self.requests.get(index);
        let (error, bytes) = (request.error, request.bytes);
        let made = self.partitioned_mut(owner).expect("the caller has looked");
        let too_long = match error {
            MPI_SUCCESS | MPI_ERR_TRUNCATE => made.take_message(bytes),
            _ => {
                made.pieces.is_broken = true;
                None
            }
        };
        if error == MPI_SUCCESS && too_long.is_none() {
            self.requests.free(index);
            return;
        }
        // It stays and says why.
        made.under_way.push(index);
        if let Some((place, bytes)) = too_long {
            let request = self.requests.get_mut(index);
            (request.error, request.buffer, request.bytes) = (MPI_ERR_TRUNCATE, place, bytes);
        }
    }

    /// The request of a piece is done: its operation goes on.
    pub fn go_on_with_pieces(&mut self, done: u32) {
        let Some(owner) = self.pieces.owners.remove(&done) else { return };
        let made = self.partitioned_mut(owner).expect("an operation with an awaited piece stays");
        (made.pieces.awaited, made.pieces.noted_until) = (NONE, 0);
        let (Some(peer), Some(tag)) = (made.peer, made.tag_of(0)) else { return };
        if made.is_sender() {
            self.send_pieces(owner, peer, tag);
        } else {
            self.take_message(owner, done);
            self.receive_pieces(owner, peer, tag);
        }
        self.release_if_over(owner);
    }
}
