//! Partitioned communication (MPI chapter 4): a message whose parts the sender declares ready one by one.
//!
//! ```text
//! Psend_init  --- INTRODUCTION: number of the first partition, how many, bytes of each --->  Precv_init
//! Pready(i)   --- PARTITION first + i, once for each start --->                              Start, Parrived
//! ```
//!
//! The introductions travel with the user's tag on a context of their own, so that they match in the order of
//! the calls, as the standard has it. Partitions travel on another context; their tag is their number, taken
//! from a sequence of the sending process, which makes them unique among all that it has under way. The
//! receiver posts one receive for each partition of the sender; a partition of its own has arrived when all
//! that overlap it have. A receive that is started before the introduction has come posts them when it comes
//! ([`Guard::introduce`]).
//!
//! What a freeze or a stop leaves behind is what it leaves of ordinary messages: each partition is one.

use core::cell::Cell;
use core::ffi::c_int;

use tutti_datatype::Buffer;

use crate::abi::*;
use crate::collective::schedule::Schedule;
use crate::comm::Channel;
use crate::datatype::Data;
use crate::engine::message::{Message, Mode};
use crate::error::{Error, Result, check};
use crate::handle::NONE;
use crate::process::Guard;
use crate::progress::Progress;
use crate::request::extra::Extra;
use crate::request::partition::{Introduction, Partitioned, Side};
use crate::request::{Named, Outcome, Request, RequestKind, Started};

/// Tags are not negative.
const TAG_MASK: u32 = c_int::MAX as u32;

/// An introduction in a message: first, partitions, bytes (low, high).
const INTRODUCTION_BYTES: usize = size_of::<[u32; 4]>();

/// The tag of partition `index` of a message.
fn number(first: u32, index: usize) -> i32 {
    (first.wrapping_add(index as u32) & TAG_MASK) as i32
}

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

impl Guard {
    fn partitioned(&mut self, arguments: Arguments, side: Side) -> Result<(Partitioned, u32)> {
        let Arguments { data, partitions, peer, tag, comm } = arguments;
        check(partitions >= 0, MPI_ERR_ARG, || format!("partitions is {partitions}, expected 0 or more"))?;
        check(tag >= 0, MPI_ERR_TAG, || format!("tag is {tag}, expected 0 to {}", c_int::MAX))?;
        check(peer != MPI_ANY_SOURCE, MPI_ERR_RANK, || "partitioned messages have no wildcards".into())?;
        self.types.buffer(data)?;
        let whole = data.count.checked_mul(partitions.into()).ok_or_else(|| {
            Error::new(MPI_ERR_COUNT, format_args!("{partitions} times {} elements are too many", data.count))
        })?;
        let whole = self.types.buffer(Data { count: whole, ..data })?;
        let communicator = self.comms.find(comm)?;
        let world = if peer == MPI_PROC_NULL { None } else { Some(communicator.world_rank(peer)?) };
        let context = communicator.context;
        let made = Partitioned {
            peer: world,
            context: context + Channel::Partitions as u32,
            tag,
            rank: peer,
            whole,
            partitions: partitions as usize,
            side,
            active: false,
            under_way: Vec::new(),
            ended: Cell::new(0),
            error: MPI_SUCCESS,
        };
        Ok((made, context + Channel::Introduction as u32))
    }

    fn keep_partitioned(&mut self, made: Partitioned) -> MPI_Request {
        let mut request =
            Request::new(RequestKind::Compound, Buffer::empty(), 0, MPI_ANY_SOURCE, MPI_ANY_TAG);
        request.extra = Some(Box::new(Extra::Partitioned(made)));
        let index = self.engine.requests.insert(request);
        MPI_Request(self.engine.requests.handle(index))
    }

    /// Prepares a partitioned send (4.2.1) and introduces it to its receiver.
    ///
    /// # Errors
    /// Those of the arguments.
    pub fn prepare_partitioned_send(&mut self, arguments: Arguments) -> Result<MPI_Request> {
        let first = self.persistents.next_partition;
        let ready = vec![false; arguments.partitions.max(0) as usize];
        let side = Side::Sender { first, ready, declared: 0 };
        let (made, context) = self.partitioned(arguments, side)?;
        self.persistents.next_partition = first.wrapping_add(made.partitions as u32);
        if let Some(to) = made.peer {
            let bytes = made.partition_bytes();
            let mut words = [first, made.partitions as u32, bytes as u32, (bytes as u64 >> 32) as u32];
            let buffer = Buffer::contiguous(words.as_mut_ptr().cast(), INTRODUCTION_BYTES);
            self.send_copied(Message { to, context, tag: made.tag, buffer, mode: Mode::Standard });
        }
        Ok(self.keep_partitioned(made))
    }

    /// Prepares a partitioned receive (4.2.1); its sender's introduction is awaited from now on.
    ///
    /// # Errors
    /// Those of the arguments.
    pub fn prepare_partitioned_receive(&mut self, arguments: Arguments) -> Result<MPI_Request> {
        let (made, context) = self.partitioned(arguments, Side::Receiver(None))?;
        let (from, tag) = (made.peer, made.tag);
        let handle = self.keep_partitioned(made);
        if let Some(from) = from {
            let mut schedule = Schedule::new(context, tag);
            let words = schedule.memory(INTRODUCTION_BYTES);
            schedule.receive(from, Buffer::contiguous(words, INTRODUCTION_BYTES));
            schedule.await_all();
            schedule.introduce(handle, words.cast());
            let request = self.launch(schedule);
            self.engine.release(request);
        }
        Ok(handle)
    }

    /// The sender of a partitioned receive has introduced itself; a receive that is freed by now does not
    /// mind.
    pub fn introduce(&mut self, receive: MPI_Request, words: [u32; 4]) {
        let Some(index) = self.engine.requests.index(receive.0) else { return };
        let Some(made) = self.engine.partitioned_mut(index) else { return };
        let [first, partitions, low, high] = words;
        let bytes = (u64::from(low) | u64::from(high) << 32) as usize;
        made.side = Side::Receiver(Some(Introduction { first, partitions: partitions as usize, bytes }));
        if made.active {
            self.post_partitions(index);
        }
    }

    /// Posts the receives of all partitions, if the sender is known.
    fn post_partitions(&mut self, index: u32) {
        let Some(made) = self.engine.partitioned_mut(index) else { return };
        let (Side::Receiver(Some(sender)), Some(from)) = (&made.side, made.peer) else { return };
        let sender = *sender;
        let (context, whole) = (made.context, made.whole.clone());
        let posted = (0..sender.partitions)
            .map(|i| {
                let buffer = whole.part(i * sender.bytes, sender.bytes);
                let tag = number(sender.first, i);
                self.engine.receive(Request::new(RequestKind::Receive, buffer, context, from as i32, tag))
            })
            .collect();
        self.engine.partitioned_mut(index).expect("receives do not change it").under_way = posted;
    }

    /// Starts a partitioned operation (4.2.1).
    ///
    /// # Errors
    /// MPI_ERR_REQUEST when it is active already.
    pub fn start_partitioned(&mut self, index: u32) -> Result<()> {
        let made = self.engine.partitioned_mut(index).expect("the caller has looked");
        check(!made.active, MPI_ERR_REQUEST, || "the partitioned request has been started already".into())?;
        (made.active, made.error) = (true, MPI_SUCCESS);
        made.ended.set(0);
        if let Side::Sender { ready, declared, .. } = &mut made.side {
            ready.fill(false);
            *declared = 0;
            made.under_way = vec![NONE; made.partitions];
        }
        self.post_partitions(index);
        Ok(())
    }

    /// Declares a partition ready (4.2.2): it is sent.
    ///
    /// # Errors
    /// MPI_ERR_REQUEST when the request is not an active partitioned send; MPI_ERR_ARG when there is no such
    /// partition, or it has been declared ready before.
    pub fn declare_ready(&mut self, request: MPI_Request, partition: c_int) -> Result<()> {
        let wrong = || Error::new(MPI_ERR_REQUEST, "the request is not an active partitioned send");
        let Named::Pending(index) = self.named_request(request)? else { return Err(wrong()) };
        let made = self.engine.partitioned_mut(index).ok_or_else(wrong)?;
        let i = checked_partition(partition, made.partitions)?;
        let Side::Sender { first, ready, declared } = &mut made.side else { return Err(wrong()) };
        check(!ready[i], MPI_ERR_ARG, || format!("partition {partition} has been declared ready already"))?;
        ready[i] = true;
        *declared += 1;
        let tag = number(*first, i);
        let Some(to) = made.peer else { return Ok(()) };
        let bytes = made.partition_bytes();
        let (context, buffer) = (made.context, made.whole.part(i * bytes, bytes));
        let message = Message { to, context, tag, buffer, mode: Mode::Standard };
        if let Started::Pending(sent) = self.engine.send(message) {
            self.engine.partitioned_mut(index).expect("a send does not change it").under_way[i] = sent;
        }
        Ok(())
    }

    /// Whether a partition of a receive has arrived (4.2.2).
    ///
    /// # Errors
    /// MPI_ERR_REQUEST when the request is not a partitioned receive, MPI_ERR_ARG when there is no such
    /// partition.
    pub fn has_arrived(&mut self, request: MPI_Request, partition: c_int) -> Result<bool> {
        let wrong = || Error::new(MPI_ERR_REQUEST, "the request is not a partitioned receive");
        let index = match self.named_request(request)? {
            Named::Pending(index) | Named::Inactive(index) => index,
            Named::Null => return Ok(true),
            Named::FinishedSend => return Err(wrong()),
        };
        self.look();
        let made = self.engine.partitioned(index).ok_or_else(wrong)?;
        let i = checked_partition(partition, made.partitions)?;
        let Side::Receiver(sender) = &made.side else { return Err(wrong()) };
        if !made.active || made.peer.is_none() {
            return Ok(true);
        }
        let Some(sender) = sender.filter(|sender| made.under_way.len() == sender.partitions) else {
            return Ok(false);
        };
        let parts = &made.under_way[made.overlapping(i, sender.partitions)];
        Ok(parts.iter().all(|&part| self.engine.requests.get(part).done))
    }

    /// Takes the outcome of a partitioned operation that is done; it stays, inactive.
    pub fn take_partitioned(&mut self, index: u32) -> Outcome {
        let made = self.engine.partitioned_mut(index).expect("the caller has looked");
        made.active = false;
        made.ended.set(0);
        let parts = std::mem::take(&mut made.under_way);
        let failed = parts.into_iter().filter(|&part| part != NONE).fold(MPI_SUCCESS, |failed, part| {
            let error = self.engine.requests.remove(part).error;
            if failed == MPI_SUCCESS { error } else { failed }
        });
        let made = self.engine.partitioned_mut(index).expect("as above");
        made.error = failed;
        made.outcome()
    }

    /// The user lets go of it; what is under way goes on.
    pub fn release_partitioned(&mut self, index: u32) {
        let made = self.engine.partitioned_mut(index).expect("the caller has looked");
        for part in std::mem::take(&mut made.under_way) {
            if part != NONE {
                self.engine.release(part);
            }
        }
        self.engine.requests.free(index);
    }
}

fn checked_partition(partition: c_int, partitions: usize) -> Result<usize> {
    check(partition >= 0 && (partition as usize) < partitions, MPI_ERR_ARG, || match partitions {
        0 => format!("partition is {partition}, but the request has no partitions"),
        _ => format!("partition is {partition}, expected 0 to {}", partitions - 1),
    })?;
    Ok(partition as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::steps;
    use crate::handle::Kind;
    use crate::handle::Slab;

    #[test]
    fn partitions_of_a_receive_are_looked_at_once_by_a_wait_however_many_there_are() {
        const PARTITIONS: usize = 2000;
        let mut requests = Slab::new(Kind::Request);
        let under_way: Vec<u32> = (0..PARTITIONS)
            .map(|_| requests.insert(Request::new(RequestKind::Receive, Buffer::empty(), 0, 0, 0)))
            .collect();
        let introduction = Introduction { first: 0, partitions: PARTITIONS, bytes: 8 };
        let made = Partitioned {
            peer: Some(0),
            context: 0,
            tag: 0,
            rank: 0,
            whole: Buffer::empty(),
            partitions: 1,
            side: Side::Receiver(Some(introduction)),
            active: true,
            under_way: under_way.clone(),
            ended: Cell::new(0),
            error: MPI_SUCCESS,
        };
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
