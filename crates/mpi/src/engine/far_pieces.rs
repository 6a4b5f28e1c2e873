//! Small partitions on their way to another node: those that get ready one behind the other are held back and
//! travel together.
//!
//! ```text
//! Pready  the first, or none for 10 us     a piece at once, as a lone message
//!         one that follows                 held back: a number changes, nothing is copied
//!         SEND_BYTES are held back, or all partitions are ready     sent with the call
//! held back    sent by whoever looks at the network next: a call of MPI that makes progress or sends to
//!              another node, else the service thread, after some 50 us, at the latest after its tick of 1 ms
//! ```
//!
//! An operation whose last message still waits is followed up when that has left ([`super::pieces`]), and
//! nothing of it is held back here.
//!
//! What happens if it stops right here: partitions that are held back are in no FIFO, and go when the rank
//! goes on. Nobody knows of them but their sender.

use std::rc::Rc;

use tutti_datatype::Buffer;
use tutti_runtime::service_state;

use super::Engine;
use super::message::{Message, Mode};
use super::remote_client::RemoteClient;
use super::remote_state::Outlet;
use crate::attached::Owned;
use crate::check_mode;
use crate::request::Started;
use crate::request::extra::Extra;
use crate::request::partition::Partitioned;
use crate::request::partition::pieces::PIECE_BYTES_MAX;

/// Bytes of partitions that are worth a message: they fill some datagrams, which leave as one run.
pub(super) const SEND_BYTES: usize = 16 << 10;
/// More than that is ready at once only by one call, and goes as any long message.
const SEND_BYTES_MAX: usize = 64 << 10;

impl Engine {
    /// Whether small partitions to this rank may be held back.
    pub(super) fn gathers_to(&self, to: u32) -> bool {
        let to = to as usize;
        let is_far = to != self.me && !self.peers.has(to) && !self.is_guest(to);
        is_far && self.remote.is_some() && !self.may_have_guests() && !check_mode::is_on()
    }

    /// Sends what is ready of a partitioned send, or holds it back; false, and nothing is done, where it goes
    /// as any long message.
    pub(super) fn try_send_far_pieces(&mut self, owner: u32, to: u32) -> bool {
        let made = self.partitioned(owner).expect("the caller has looked");
        let bytes = made.pieces.set.count() * made.partition_bytes();
        if !self.gathers_to(to) {
            return false;
        }
        if bytes > SEND_BYTES_MAX {
            let (_, _, mut client) = self.network();
            client.take_held_back(owner);
            return false;
        }
        if made.pieces.set.count() == 0 {
            return true;
        }
        if let Some(last) = self.unfinished_part(owner) {
            self.await_piece(owner, last);
            return true;
        }
        let is_due = made.pieces.set.count() >= made.count_worth_sending(SEND_BYTES) as usize;
        let is_held_back = made.pieces.is_held_back;
        let (mut router, route, mut client) = self.network();
        if !is_due && (is_held_back || router.may_gather(route, to as usize)) {
            drop(router);
            self.hold_back(owner);
            return true;
        }
        client.send_pieces(&mut router.outbox(route), owner);
        // All that were left, and little: as any small message.
        let is_small = bytes <= client.state.record_data_max;
        if is_due && is_small && router.may_wait(to as usize) {
            return true;
        }
        if bytes >= SEND_BYTES {
            // Credit that has come lets the next ones go.
            service_state::polled();
            router.poll_as(route, &mut client);
        } else {
            router.transmit_as(route, &mut client);
        }
        if is_due {
            router.note_left(to as usize);
        }
        true
    }

    /// Holds back what is ready of a partitioned send to another node.
    fn hold_back(&mut self, owner: u32) {
        let made = self.partitioned_mut(owner).expect("the caller has looked");
        if !std::mem::replace(&mut made.pieces.is_held_back, true) {
            made.pieces.noted_until = made.count_worth_sending(SEND_BYTES);
            self.remote.as_deref_mut().expect("the caller has looked").state.gathered().owners.push(owner);
        }
    }

    /// Sends what is held back of an operation that the user lets go of.
    pub(super) fn send_held_back(&mut self, owner: u32) {
        let made = self.partitioned(owner).expect("the caller has looked");
        if !made.pieces.is_held_back {
            return;
        }
        let (mut router, route, mut client) = self.network();
        client.send_pieces(&mut router.outbox(route), owner);
        router.transmit_as(route, &mut client);
    }
}

impl RemoteClient<'_> {
    /// Sends all that is held back.
    pub(super) fn send_gathered(&mut self, outbox: &mut impl Outlet) {
        while let Some(&owner) = self.state.gathered().owners.last() {
            self.send_pieces(outbox, owner);
        }
    }

    /// Takes an operation out of those that hold partitions back: it is sent now.
    fn take_held_back(&mut self, owner: u32) {
        let made = self.partitioned(owner);
        if std::mem::take(&mut made.pieces.is_held_back) {
            made.pieces.noted_until = 0;
            self.state.gathered().owners.retain(|other| *other != owner);
        }
    }

    /// Sends what is ready of a partitioned send.
    fn send_pieces(&mut self, outbox: &mut impl Outlet, owner: u32) {
        let mut memory = std::mem::take(&mut self.state.gathered().memory);
        self.take_held_back(owner);
        loop {
            let made = self.partitioned(owner);
            let (Some(to), Some(tag), true) = (made.peer, made.tag_of(0), made.pieces.set.count() > 0) else {
                break;
            };
            if memory.is_empty() {
                memory = vec![0; PIECE_BYTES_MAX].into_boxed_slice();
            }
            let (bytes, bulk) = made.pack_piece(&mut memory);
            let context = made.context;
            let buffer = Buffer::contiguous(memory.as_mut_ptr(), bytes);
            let message = Message { to, context, tag, buffer, mode: Mode::Standard };
            if let Started::Pending(index) = self.start_piece(outbox, message.clone()) {
                let data = std::mem::take(&mut memory);
                let owned = Owned { data, share: 0, pending: Rc::default() };
                self.requests.get_mut(index).extra = Some(Box::new(Extra::Owned(owned)));
                self.partitioned(owner).under_way.push(index);
            }
            if let Some(buffer) = bulk
                && let Started::Pending(index) = self.start_piece(outbox, Message { buffer, ..message })
            {
                self.partitioned(owner).under_way.push(index);
            }
        }
        self.state.gathered().memory = memory;
    }

    /// Puts a message into the FIFO, or behind what waits for room or credit.
    fn start_piece(&mut self, outbox: &mut impl Outlet, message: Message) -> Started {
        self.counters.messages += 1;
        self.counters.bytes += message.buffer.bytes as u64;
        if self.state.try_eager(outbox, &message) {
            self.counters.eager += 1;
            return Started::Done;
        }
        let index = self.queue_send(outbox, message);
        if self.requests.get(index).done {
            self.requests.remove(index);
            return Started::Done;
        }
        Started::Pending(index)
    }

    fn partitioned(&mut self, owner: u32) -> &mut Partitioned {
        match self.requests.get_mut(owner).extra.as_deref_mut() {
            Some(Extra::Partitioned(made)) => made,
            _ => panic!("an operation that holds partitions back stays"),
        }
    }
}

#[cfg(test)]
mod tests;
