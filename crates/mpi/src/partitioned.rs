//! Partitioned communication (MPI chapter 4): a message whose parts the sender declares ready one by one.
//!
//! ```text
//! Psend_init  --- INTRODUCTION: number of the first partition, how many, bytes of each, ring -> Precv_init
//! Pready(i)   --- PARTITION first + i, once for each start --->                              Start, Parrived
//! ```
//!
//! The introductions travel with the user's tag on a context of their own, so that they match in the order of
//! the calls, as the standard has it. Partitions travel on another context; their tag is their number, taken
//! from a sequence of the sending process, which makes them unique among all that it has under way. The
//! receiver posts one receive for each partition of the sender; a partition of its own has arrived when all
//! that overlap it have. A receive that is started before the introduction has come posts them when it comes
//! (`Engine::introduce_partitions`).
//!
//! Small partitions are gathered: those that are ready travel as one message, a piece, which says what it has
//! (`engine/pieces.rs`). Both sides know from the bytes of the sender's partitions that it is so. Inside a
//! node they go through a ring that the sender makes and the introduction names
//! (`request/partition/ring.rs`).
//!
//! A freeze or a stop leaves behind what it leaves of ordinary messages: each partition or piece is one, or a
//! record in the ring.

use core::ffi::c_int;

use tutti_datatype::Buffer;

use crate::abi::*;
use crate::collective::schedule::Schedule;
use crate::comm::{Channel, Comms};
use crate::datatype::{Data, Types};
use crate::engine::Engine;
use crate::engine::message::{Message, Mode};
use crate::engine::partitions::checked_partition;
use crate::error::{Error, Result, check};
use crate::progress::Progress;
use crate::request::Named;
use crate::request::partition::ring::{End, RING_BYTES};
use crate::request::partition::{Matching, Partitioned, Side};

/// An introduction in a message: first, partitions, bytes (low, high), and, if there is a ring, where it is
/// (low, high).
const INTRODUCTION_BYTES: usize = size_of::<[u32; 6]>();
/// A send of fewer partitions has no ring.
const RING_PARTITIONS_MIN: usize = 16;

/// The arguments of `MPI_Psend_init` and `MPI_Precv_init`.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// One partition.
    pub data: Data,
    /// How many.
    pub partitions: c_int,
    /// The other side.
    pub peer: c_int,
    /// Tag.
    pub tag: c_int,
    /// Communicator.
    pub comm: MPI_Comm,
}

fn partitioned(comms: &Comms, types: &Types, arguments: Arguments, side: Side) -> Result<(Partitioned, u32)> {
    let Arguments { data, partitions, peer, tag, comm } = arguments;
    check(partitions >= 0, MPI_ERR_ARG, || format!("partitions is {partitions}, expected 0 or more"))?;
    check(tag >= 0, MPI_ERR_TAG, || format!("tag is {tag}, expected 0 to {}", c_int::MAX))?;
    check(peer != MPI_ANY_SOURCE, MPI_ERR_RANK, || "partitioned messages have no wildcards".into())?;
    types.buffer(data)?;
    let whole = data.count.checked_mul(partitions.into()).ok_or_else(|| {
        Error::new(MPI_ERR_COUNT, format_args!("{partitions} times {} elements are too many", data.count))
    })?;
    let whole = types.buffer(Data { count: whole, ..data })?;
    let communicator = comms.find(comm)?;
    let world = if peer == MPI_PROC_NULL { None } else { Some(communicator.world_rank(peer)?) };
    let context = communicator.context;
    let matching = Matching { context: context + Channel::Partitions as u32, tag, rank: peer, side };
    let made = Partitioned::new(world, matching, whole, partitions as usize);
    Ok((made, context + Channel::Introduction as u32))
}

/// Prepares a partitioned send (4.2.1): what it is, and the introduction for its receiver. `next` is the
/// number of the next partition of this process.
///
/// # Errors
/// Those of the arguments.
pub fn prepare_send(
    comms: &Comms,
    types: &Types,
    arguments: Arguments,
    next: &mut u32,
) -> Result<(Partitioned, Option<Introductory>)> {
    let first = *next;
    let (made, context) = partitioned(comms, types, arguments, Side::sender(first))?;
    let numbers = if made.is_gathered() { 1 } else { made.partitions };
    *next = first.wrapping_add(numbers as u32);
    let bytes = made.partition_bytes() as u64;
    let words = [first, made.partitions as u32, bytes as u32, (bytes >> 32) as u32, 0, 0];
    let introduction = made.peer.map(|to| Introductory { to, context, tag: made.tag, words });
    Ok((made, introduction))
}

/// Message of a partitioned send to its receiver before its first partition.
#[derive(Clone, Copy, Debug)]
pub struct Introductory {
    to: u32,
    context: u32,
    tag: i32,
    words: [u32; 6],
}

impl Introductory {
    /// Names the ring of the send.
    pub fn name_ring(&mut self, offset: u64) {
        [self.words[4], self.words[5]] = [offset as u32, (offset >> 32) as u32];
    }

    /// The message, whose data are in this value.
    pub fn message(&mut self) -> Message {
        let Introductory { to, context, tag, words } = *self;
        // Ranks of other nodes, which get no ring, may have a library that knows of none.
        let bytes = if words[4..] == [0; 2] { size_of::<[u32; 4]>() } else { INTRODUCTION_BYTES };
        let buffer = Buffer::contiguous(self.words.as_mut_ptr().cast(), bytes);
        Message { to, context, tag, buffer, mode: Mode::Standard }
    }
}

/// Gives a prepared send of many small partitions to a rank of this node a ring, if there can be one: where
/// it is.
pub fn open_ring(call: &mut impl Progress, made: &mut Partitioned) -> Option<u64> {
    let (to, Side::Sender { first, .. }) = (made.peer?, &made.side) else { return None };
    if made.partitions < RING_PARTITIONS_MIN || !made.is_gathered() {
        return None;
    }
    let first = *first;
    let ring = match call.engine_mut().take_ring(to, first) {
        Some(ring) => ring,
        None if !call.engine().may_make_ring(to) => return None,
        None => {
            let memory = call.rank().map_shared(RING_BYTES)?;
            call.engine_mut().make_ring(to, first, memory)
        }
    };
    let offset = ring.offset();
    made.pieces.ring = Some(Box::new(End::Out(ring)));
    Some(offset)
}

/// Prepares a partitioned receive (4.2.1), and what is awaited from its sender.
///
/// # Errors
/// Those of the arguments.
pub fn prepare_receive(
    comms: &Comms,
    types: &Types,
    arguments: Arguments,
) -> Result<(Partitioned, Option<Awaited>)> {
    let (made, context) = partitioned(comms, types, arguments, Side::Receiver(None))?;
    let awaited = made.peer.map(|from| Awaited { from, context, tag: made.tag });
    Ok((made, awaited))
}

/// The introduction that a partitioned receive awaits.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    from: u32,
    context: u32,
    tag: i32,
}

impl Awaited {
    /// The schedule that tells the receive of it.
    pub fn schedule(self, receive: MPI_Request) -> Schedule {
        let mut schedule = Schedule::new(self.context, self.tag);
        let words = schedule.memory(INTRODUCTION_BYTES);
        // SAFETY: as many bytes, aligned to 16. One that names no ring is shorter.
        unsafe { words.cast::<[u32; 6]>().write([0; 6]) };
        schedule.receive(self.from, Buffer::contiguous(words, INTRODUCTION_BYTES));
        schedule.await_all();
        schedule.introduce(receive, words.cast());
        schedule
    }
}

/// Whether a partition of a receive has arrived (4.2.2).
///
/// # Errors
/// MPI_ERR_REQUEST when the request is not a partitioned receive, MPI_ERR_ARG when there is no such
/// partition.
pub fn has_arrived(call: &mut impl Progress, request: MPI_Request, partition: c_int) -> Result<bool> {
    let wrong = || Error::new(MPI_ERR_REQUEST, "the request is not a partitioned receive");
    let index = match call.engine().named_request(request)? {
        Named::Pending(index) | Named::Inactive(index) => index,
        Named::Null => return Ok(true),
        Named::FinishedSend => return Err(wrong()),
    };
    let is_there = |engine: &Engine| {
        let made = engine.partitioned(index).filter(|made| !made.is_sender()).ok_or_else(wrong)?;
        let i = checked_partition(partition, made.partitions)?;
        Ok(!made.active || made.peer.is_none() || made.has_arrived(i, &engine.requests))
    };
    if is_there(call.engine())? {
        return Ok(true);
    }
    call.engine_mut().read_ring_now(index);
    if is_there(call.engine())? {
        return Ok(true);
    }
    call.look();
    is_there(call.engine())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::steps;
    use crate::handle::Kind;
    use crate::handle::Slab;
    use crate::request::partition::Introduction;
    use crate::request::{Request, RequestKind};

    #[test]
    fn partitions_of_a_receive_are_looked_at_once_by_a_wait_however_many_there_are() {
        const PARTITIONS: usize = 2000;
        let mut requests = Slab::new(Kind::Request);
        let under_way: Vec<u32> = (0..PARTITIONS)
            .map(|_| requests.insert(Request::new(RequestKind::Receive, Buffer::empty(), 0, 0, 0)))
            .collect();
        let introduction = Introduction { first: 0, partitions: PARTITIONS, bytes: 1 << 20 };
        let matching = Matching { context: 0, tag: 0, rank: 0, side: Side::Receiver(Some(introduction)) };
        let mut made = Partitioned::new(Some(0), matching, Buffer::empty(), 1);
        made.activate();
        made.under_way.clone_from(&under_way);
        let looked_at = steps::of(|| {
            for &index in &under_way {
                assert!(!made.is_done(&requests));
                requests.get_mut(index).done = true;
            }
            assert!(made.is_done(&requests) && made.is_done(&requests));
        });
        assert!(looked_at <= 3 * PARTITIONS as u64, "{looked_at} looks at {PARTITIONS} partitions");
    }
}
