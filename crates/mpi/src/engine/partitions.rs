//! Partitioned operations as the engine has them ([`crate::partitioned`] prepares them): each large partition
//! is a message of its own, small ones travel in pieces ([`super::pieces`]).

use core::ffi::c_int;

use tutti_datatype::Buffer;

use super::Engine;
use super::message::{Message, Mode};
use crate::abi::*;
use crate::error::{Error, Result, check};
use crate::handle::NONE;
use crate::request::extra::Extra;
use crate::request::partition::ring::{End, RingIn};
use crate::request::partition::{Introduction, Partitioned, Side};
use crate::request::{Named, Outcome, Request, RequestKind, Started, WhenDone};

impl Engine {
    /// Keeps an operation that has been prepared; gives its handle.
    pub fn keep_partitioned(&mut self, made: Partitioned) -> MPI_Request {
        let mut request =
            Request::new(RequestKind::Compound, Buffer::empty(), 0, MPI_ANY_SOURCE, MPI_ANY_TAG);
        request.extra = Some(Box::new(Extra::Partitioned(made)));
        let index = self.requests.insert(request);
        MPI_Request(self.requests.handle(index))
    }

    /// The sender of a partitioned receive has introduced itself; a receive that is freed by now does not
    /// mind.
    pub fn introduce_partitions(&mut self, receive: MPI_Request, words: [u32; 6]) {
        let Some(index) = self.requests.index(receive.0) else { return };
        let [first, partitions, ..] = words;
        let [bytes, ring] = [2, 4].map(|at| u64::from(words[at]) | u64::from(words[at + 1]) << 32);
        let ring = match ring {
            0 => None,
            offset => {
                let end = self.map_ring(offset).map(|memory| End::In(RingIn::new(memory, first)));
                Some(Box::new(end.unwrap_or(End::Lost)))
            }
        };
        let Some(made) = self.partitioned_mut(index) else { return };
        let bytes = bytes as usize;
        made.pieces.ring = ring;
        made.side = Side::Receiver(Some(Introduction { first, partitions: partitions as usize, bytes }));
        if made.active {
            self.post_partitions(index);
        }
    }

    /// Posts the receives of all partitions, if the sender is known.
    fn post_partitions(&mut self, index: u32) {
        let Some(made) = self.partitioned_mut(index) else { return };
        let (Side::Receiver(Some(sender)), Some(from)) = (&made.side, made.peer) else { return };
        let (sender, is_gathered) = (*sender, made.is_gathered());
        let (context, whole) = (made.context, made.whole.clone());
        let tags: Vec<i32> = (0..if is_gathered { 1 } else { sender.partitions })
            .filter_map(|partition| made.tag_of(partition))
            .collect();
        if is_gathered {
            self.refuse_lost_ring(index, from);
            self.receive_pieces(index, from, tags[0]);
            return;
        }
        let posted = tags
            .into_iter()
            .enumerate()
            .map(|(i, tag)| {
                let buffer = whole.part(i * sender.bytes, sender.bytes);
                self.receive(Request::new(RequestKind::Receive, buffer, context, from as i32, tag))
            })
            .collect();
        self.partitioned_mut(index).expect("receives do not change it").under_way = posted;
    }

    /// A receive whose sender has a ring that could not be mapped gets nothing.
    fn refuse_lost_ring(&mut self, index: u32, from: u32) {
        let made = self.partitioned_mut(index).expect("the caller has looked");
        if !matches!(made.pieces.ring.as_deref(), Some(End::Lost)) {
            return;
        }
        made.pieces.is_broken = true;
        let mut failed =
            Request::new(RequestKind::Receive, Buffer::empty(), made.context, from as i32, made.tag);
        (failed.error, failed.done) = (MPI_ERR_NO_MEM, true);
        let failed = self.requests.insert(failed);
        self.partitioned_mut(index).expect("as above").under_way.push(failed);
    }

    /// Starts a partitioned operation (4.2.1).
    ///
    /// # Errors
    /// MPI_ERR_REQUEST when it is active already.
    pub fn start_partitioned(&mut self, index: u32) -> Result<()> {
        let made = self.partitioned_mut(index).expect("the caller has looked");
        check(!made.active, MPI_ERR_REQUEST, || "the partitioned request has been started already".into())?;
        made.activate();
        self.post_partitions(index);
        Ok(())
    }

    /// Declares partitions `low` to `high` ready, both included (4.2.2); [`Engine::send_ready`] sends them if
    /// they are small.
    ///
    /// # Errors
    /// MPI_ERR_REQUEST when the request is not an active partitioned send; MPI_ERR_ARG when there is no such
    /// partition, or it has been declared ready before.
    pub fn declare_ready(&mut self, request: MPI_Request, low: c_int, high: c_int) -> Result<()> {
        let wrong = || Error::new(MPI_ERR_REQUEST, "the request is not an active partitioned send");
        let Named::Pending(index) = self.named_request(request)? else { return Err(wrong()) };
        let made = self.partitioned_mut(index).ok_or_else(wrong)?;
        let is_gathered = made.is_gathered();
        let Side::Sender { ready, .. } = &mut made.side else { return Err(wrong()) };
        if low > high {
            return Ok(());
        }
        let low = checked_partition(low, made.partitions)?;
        let range = low as u32..checked_partition(high, made.partitions)? as u32 + 1;
        if let Some(partition) = ready.first_of(&range) {
            let text = format_args!("partition {partition} has been declared ready already");
            return Err(Error::new(MPI_ERR_ARG, text));
        }
        ready.insert(range.clone());
        let Some(to) = made.peer else { return Ok(()) };
        if is_gathered {
            made.pieces.set.insert(range);
            return Ok(());
        }
        range
            .map(|partition| partition as usize)
            .for_each(|partition| self.send_partition(index, to, partition));
        Ok(())
    }

    /// Sends a partition as a message of its own.
    fn send_partition(&mut self, index: u32, to: u32, partition: usize) {
        let Some(made) = self.partitioned(index) else { return };
        let Some(tag) = made.tag_of(partition) else { return };
        let bytes = made.partition_bytes();
        let (context, buffer) = (made.context, made.whole.part(partition * bytes, bytes));
        let message = Message { to, context, tag, buffer, mode: Mode::Standard };
        if let Started::Pending(sent) = self.send(message) {
            self.partitioned_mut(index).expect("a send does not change it").under_way[partition] = sent;
        }
    }

    /// Sends small partitions that have been declared ready.
    pub fn send_ready(&mut self, request: MPI_Request) {
        let Ok(Named::Pending(index)) = self.named_request(request) else { return };
        if let Some(made) = self.partitioned(index)
            && let (Some(to), Some(tag)) = (made.peer, made.tag_of(0))
        {
            self.send_pieces(index, to, tag);
        }
    }

    /// Takes the outcome of a partitioned operation that is done; it stays, inactive.
    pub fn take_partitioned(&mut self, index: u32) -> Outcome {
        let made = self.partitioned_mut(index).expect("the caller has looked");
        let parts = made.deactivate();
        let failed = parts.into_iter().filter(|&part| part != NONE).fold(MPI_SUCCESS, |failed, part| {
            let error = self.requests.remove(part).error;
            if failed == MPI_SUCCESS { error } else { failed }
        });
        let made = self.partitioned_mut(index).expect("as above");
        made.error = failed;
        made.outcome()
    }

    /// The user lets go of it; what is under way goes on.
    pub fn release_partitioned(&mut self, index: u32) {
        self.send_held_back(index);
        let made = self.partitioned_mut(index).expect("the caller has looked");
        if made.pieces.awaited != NONE || made.pieces.is_looked_at {
            // More pieces follow ([`super::pieces`]), and then it goes.
            self.requests.get_mut(index).when_done = WhenDone::Free;
            return;
        }
        for part in made.deactivate() {
            if part != NONE {
                self.release(part);
            }
        }
        self.put_ring_back(index);
        self.requests.free(index);
    }

    /// A partitioned message's data lie in an array section: `whole` says how.
    ///
    /// # Errors
    /// MPI_ERR_REQUEST when the request is none.
    pub fn attach_partitions(&mut self, whole: Buffer, request: MPI_Request) -> Result<()> {
        if let Named::Inactive(index) = self.named_request(request)?
            && let Some(made) = self.partitioned_mut(index)
        {
            made.replace_whole(whole);
        }
        Ok(())
    }
}

/// The index of a partition argument.
///
/// # Errors
/// MPI_ERR_ARG when there is no such partition.
pub fn checked_partition(partition: c_int, partitions: usize) -> Result<usize> {
    check(partition >= 0 && (partition as usize) < partitions, MPI_ERR_ARG, || match partitions {
        0 => format!("partition is {partition}, but the request has no partitions"),
        _ => format!("partition is {partition}, expected 0 to {}", partitions - 1),
    })?;
    Ok(partition as usize)
}
