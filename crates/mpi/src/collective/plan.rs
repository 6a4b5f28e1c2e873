//! From work to a schedule of messages: the choice of the algorithm, and the pieces that all algorithms use.
//!
//! Messages are the way of communicators on several nodes, of operations that do not wait, and of whatever
//! the memory of a node is no way for. Most operations go directly: every process sends to every other what
//! that one needs, receives posted first. That moves no byte twice, takes one or two steps, and lets
//! reductions go in the order of ranks.

use tutti_datatype::Buffer;

use super::schedule::{Operation, Schedule};
use crate::comm::Group;

use std::rc::Rc;

/// Where work is done: what a schedule needs of a communicator.
#[derive(Clone, Debug)]
pub struct Place {
    pub(super) context: u32,
    pub(super) tag: i32,
    pub(super) me: usize,
    pub(super) local: Rc<Group>,
    pub(super) remote: Option<Rc<Group>>,
}

/// A schedule in the making, and who is who.
#[derive(Debug)]
pub struct Plan {
    /// The steps.
    pub schedule: Schedule,
    /// Rank of this process in the local group.
    pub me: usize,
    pub(super) local: Rc<Group>,
    pub(super) remote: Option<Rc<Group>>,
}

impl Plan {
    /// Ranks of the local group.
    pub fn size(&self) -> usize {
        self.local.size()
    }

    /// Ranks of the remote group.
    pub fn remote_size(&self) -> usize {
        self.remote.as_ref().map_or(0, |group| group.size())
    }

    /// Starts a send to a rank of the local group; nothing for no data.
    pub fn send(&mut self, to: usize, buffer: Buffer) {
        if buffer.bytes > 0 {
            self.schedule.send(self.local.members()[to], buffer);
        }
    }

    /// Starts a receive from a rank of the local group; nothing for no data.
    pub fn receive(&mut self, from: usize, buffer: Buffer) -> Option<Operation> {
        (buffer.bytes > 0).then(|| self.schedule.receive(self.local.members()[from], buffer))
    }

    /// Starts a send to a rank of the remote group; nothing for no data.
    pub fn send_across(&mut self, to: usize, buffer: Buffer) {
        if buffer.bytes > 0 {
            self.schedule.send(remote_member(&self.remote, to), buffer);
        }
    }

    /// Starts a receive from a rank of the remote group; nothing for no data.
    pub fn receive_across(&mut self, from: usize, buffer: Buffer) {
        if buffer.bytes > 0 {
            self.schedule.receive(remote_member(&self.remote, from), buffer);
        }
    }

    /// Starts an empty message, which only says that this process is there.
    pub fn notify(&mut self, to: usize) {
        self.schedule.send(self.local.members()[to], Buffer::empty());
    }

    /// Starts the receive of an empty message.
    pub fn post_receive(&mut self, from: usize) {
        self.schedule.receive(self.local.members()[from], Buffer::empty());
    }

    /// Starts an empty message to a rank of the remote group.
    pub fn notify_across(&mut self, to: usize) {
        self.schedule.send(remote_member(&self.remote, to), Buffer::empty());
    }

    /// Starts the receive of an empty message from a rank of the remote group.
    pub fn post_receive_across(&mut self, from: usize) {
        self.schedule.receive(remote_member(&self.remote, from), Buffer::empty());
    }

    /// The other ranks of the local group, beginning behind this one, so that not all begin with the same.
    pub fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (me, size) = (self.me, self.size());
        (1..size).map(move |i| (me + i) % size)
    }
}

fn remote_member(remote: &Option<Rc<Group>>, rank: usize) -> u32 {
    remote.as_ref().expect("only intercommunicators have work across").members()[rank]
}
