//! Operations on regions: write, gathered write, read, atomic changes, messages for queues; their completion;
//! the elastic barrier.
//!
//! | target | an operation is |
//! |---|---|
//! | a rank of this node | done when the call returns |
//! | a rank of another node | a record; noted operations are answered, posted ones are acknowledged by the barrier |

use core::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tutti_datatype::reduce::Operation as Reduction;
use tutti_datatype::{Buffer, Element};
use tutti_rma::accumulate::Update;
use tutti_rma::done::DoneAt;
use tutti_rma::engine::Pushed;
use tutti_rma::operation::{Action, Operation};
use tutti_rma::wire::{Code, Name, Refusal};
use tutti_runtime::rank::{self, LockedRank, Rank};
use tutti_runtime::stamps::{self, Mark};
use tutti_runtime::{remote_memory, word_wait};
use tutti_shm::opened::copy;
use tutti_shm::queue::Queue;
use tutti_shm::watch;

pub use crate::change::{Change, Piece};
use crate::completion::{Done, End, started};
use crate::handle::{ATOMIC, Handle, QUEUE, READ, WRITE};
use crate::mates::{self, Here, check};
use crate::multicast;
use crate::published;
use crate::region::{self, Taker};
use crate::stand_in::Asking;
use crate::status::*;

/// A region of this node has been worked on since then, if stamps are kept.
#[inline(always)]
fn stamp_mapped(begun_ns: Option<u64>, bytes: usize) {
    if let Some(begun_ns) = begun_ns {
        stamps::note(Mark::Mapped, begun_ns, bytes);
    }
}

/// Queues of other nodes for which a thread of this rank hands over a message that it has begun.
static SENDING: Mutex<Vec<(usize, Name)>> = Mutex::new(Vec::new());

fn sending() -> MutexGuard<'static, Vec<(usize, Name)>> {
    SENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An operation of this rank on a region: the rank while it is locked, and whose region it is.
struct Access<'a> {
    rank: LockedRank,
    handle: &'a Handle,
    /// The target is on this node.
    is_here: bool,
}

impl<'a> Access<'a> {
    fn begin(handle: &'a Handle, end: End) -> Result<Self, c_int> {
        let rank = rank::enter().ok_or_else(|| end.with(NOT_RUNNING))?;
        if !handle.is_right(&rank.job) {
            return Err(end.with(NO_REGION_STATUS));
        }
        let is_here = rank.job.local_ranks().contains(handle.rank as usize);
        Ok(Access { rank, handle, is_here })
    }

    /// Works on the memory of a target on this node; what it says is the end of the operation.
    fn work_here(&self, end: End, work: impl FnOnce(Here) -> Result<(), c_int>) -> c_int {
        let status = mates::visit(&self.rank.job, self.handle, work).err().unwrap_or(OK);
        if status == OK {
            watch::notify(self.rank.job.endpoint(self.handle.rank as usize));
        }
        end.with(status)
    }

    /// Hands an operation over whole. A queue knows the sender of a part of a message and no more, so those
    /// of another thread for the same queue wait until all of the message has left.
    fn hand_over(&mut self, operation: &mut Operation, queue: Option<(usize, Name)>) -> Pushed {
        let is_busy = || queue.is_some_and(|queue| sending().contains(&queue));
        // Several threads wait, and one goes on.
        while is_busy() {
            remote_memory::wait(&mut self.rank, |_| !is_busy());
        }
        let Some(mut memory) = self.rank.remote_memory() else { return Pushed::Gone };
        let mut pushed = memory.push(operation);
        if pushed == Pushed::Part {
            sending().extend(queue);
            memory.hurry(self.handle.rank as usize);
            remote_memory::wait(&mut self.rank, |memory| {
                pushed = memory.push(operation);
                pushed != Pushed::Part
            });
            if let Some(queue) = queue {
                sending().retain(|busy| *busy != queue);
                self.rank.wake_own();
            }
        }
        pushed
    }

    /// Starts an operation on a target of another node.
    ///
    /// # Safety
    /// Origins are valid during the call; results until the operation has ended.
    unsafe fn start_far(&mut self, action: Action, ranges: Vec<(u64, usize)>, end: End) -> c_int {
        let (handle, to) = (self.handle, self.handle.rank as usize);
        let queue = matches!(action, Action::Enqueue { .. }).then(|| (to, handle.name()));
        // A long operation changes nothing if a part of it would be refused; ranges of a message are its own.
        if queue.is_none() && !ranges.iter().all(|range| handle.has(*range)) {
            return end.with(OUT_OF_RANGE);
        }
        let own = Done::default();
        let noted = match end {
            End::Posted => None,
            End::Noted(done) => Some(done),
            // SAFETY: this call waits for the end.
            End::Wait => Some(unsafe { DoneAt::new(NonNull::from(&own)) }),
        };
        // SAFETY: our contract; what is written has been copied when all of it is handed over.
        let mut operation = unsafe { Operation::new(to, handle.name(), action, ranges) };
        if let Some(done) = noted {
            operation = operation.noted(done);
        }
        if matches!(end, End::Wait) && handle.port != 0 {
            operation = operation.keeping_its_records();
        }
        let Some(mut memory) = self.rank.remote_memory() else { return end.with(NO_REGION_STATUS) };
        let pushed = self.hand_over(&mut operation, queue);
        if pushed == Pushed::Gone {
            return GONE;
        }
        match end {
            End::Wait => {
                memory.hurry(to);
                let is_over = || own.count.load(Acquire) != 0;
                let kept = operation.take_kept();
                match Asking::new(&self.rank.job, handle, &operation, kept) {
                    Some(mut asking) => {
                        remote_memory::wait_or(&mut self.rank, &mut asking, is_over);
                        asking.end();
                    }
                    None => remote_memory::wait(&mut self.rank, |_| is_over()),
                }
                own.status.load(Acquire)
            }
            End::Noted(_) => {
                memory.send(to);
                started().note(to);
                OK
            }
            End::Posted => {
                memory.send(to);
                started().note_posted(to, handle.name());
                OK
            }
        }
    }
}

/// Writes pieces of this process's memory into a region: all of them or, when it is refused, none.
///
/// # Safety
/// The pieces are valid for reading.
pub unsafe fn write(handle: &Handle, pieces: &[Piece], end: End) -> c_int {
    if published::is_published(handle) {
        // SAFETY: our contract.
        return unsafe { published::write(handle, pieces, end) };
    }
    let mut access = match Access::begin(handle, end) {
        Ok(access) => access,
        Err(status) => return status,
    };
    let ranges: Vec<_> =
        pieces.iter().map(|piece| (piece.offset, piece.bytes)).filter(|range| range.1 > 0).collect();
    if ranges.is_empty() && !access.is_here {
        return end.with(OK);
    }
    if access.is_here {
        return access.work_here(end, |here| {
            let status = check(&here, WRITE, &ranges);
            if status != OK {
                return Err(status);
            }
            let begun_ns = stamps::begin();
            for piece in pieces {
                // SAFETY: our contract; the range was checked.
                unsafe { here.memory.store(piece.offset as usize, piece.from.cast(), piece.bytes) };
            }
            stamp_mapped(begun_ns, ranges.iter().map(|range| range.1).sum());
            Ok(())
        });
    }
    // Records are cut over all ranges: what is written lies behind one another.
    let packed: Vec<u8>;
    let from = if let [one] = pieces {
        Buffer::contiguous(one.from.cast_mut().cast(), one.bytes)
    } else {
        // SAFETY: our contract.
        let slice =
            |piece: &Piece| unsafe { std::slice::from_raw_parts(piece.from.cast::<u8>(), piece.bytes) };
        packed = pieces.iter().filter(|piece| piece.bytes > 0).flat_map(slice).copied().collect();
        Buffer::contiguous(packed.as_ptr().cast_mut(), packed.len())
    };
    // SAFETY: both are valid during the call.
    unsafe { access.start_far(Action::Write { from }, ranges, end) }
}

/// Reads from a region.
///
/// # Safety
/// `into` is valid for writing so many bytes until the operation has ended.
pub unsafe fn read(handle: &Handle, offset: u64, into: *mut c_void, bytes: usize, end: End) -> c_int {
    if published::is_published(handle) {
        // SAFETY: our contract.
        return unsafe { published::read(handle, offset, into, bytes, end) };
    }
    let mut access = match Access::begin(handle, end) {
        Ok(access) => access,
        Err(status) => return status,
    };
    if access.is_here {
        return access.work_here(end, |here| {
            let status = check(&here, READ, &[(offset, bytes)]);
            if status != OK {
                return Err(status);
            }
            let begun_ns = stamps::begin();
            // SAFETY: our contract; the range was checked.
            unsafe { here.memory.load(offset as usize, into.cast(), bytes) };
            stamp_mapped(begun_ns, bytes);
            Ok(())
        });
    }
    if bytes == 0 {
        return end.with(OK);
    }
    let into = Buffer::contiguous(into.cast(), bytes);
    // SAFETY: our contract.
    unsafe { access.start_far(Action::Read { into }, vec![(offset, bytes)], end) }
}

/// Changes an aligned number of 8 bytes atomically; what was there goes to `found`.
///
/// # Safety
/// `found` is valid for writing until the operation has ended.
pub unsafe fn change(handle: &Handle, offset: u64, change: Change, found: *mut i64, end: End) -> c_int {
    if published::is_published(handle) {
        // SAFETY: our contract.
        return unsafe { published::change(handle, offset, change, found, end) };
    }
    let mut access = match Access::begin(handle, end) {
        Ok(access) => access,
        Err(status) => return status,
    };
    if access.is_here {
        return access.work_here(end, |here| {
            let status = check(&here, ATOMIC, &[(offset, 8)]);
            if status != OK {
                return Err(status);
            }
            let word = here.memory.atomic_u64(offset as usize).ok_or(UNALIGNED)?;
            let begun_ns = stamps::begin();
            let before = change.apply(word);
            // SAFETY: our contract.
            unsafe { copy((&raw const before).cast(), found.cast(), 8) };
            stamp_mapped(begun_ns, 8);
            Ok(())
        });
    }
    let value;
    let element = Element::Signed(8);
    let result = found.cast::<u8>();
    let action = match change {
        Change::CompareSwap(expected, new) => {
            Action::Swap { operands: [expected.to_ne_bytes(), new.to_ne_bytes()].concat(), result }
        }
        Change::Add(number) | Change::Swap(number) => {
            value = number;
            let is_add = matches!(change, Change::Add(_));
            let update = if is_add { Update::Reduce(Reduction::SUM) } else { Update::Replace };
            let origin = (&raw const value).cast();
            Action::Change { code: Code { element, update }, origin, result: Some(result) }
        }
    };
    // SAFETY: our contract; the origin is a variable of this call.
    unsafe { access.start_far(action, vec![(offset, 8)], end) }
}

/// Puts a message into a queue. Nothing of it is there when it is refused.
///
/// # Safety
/// The message is valid for reading.
pub unsafe fn put(handle: &Handle, from: *const c_void, bytes: usize, end: End) -> c_int {
    if bytes > i32::MAX as usize {
        return end.with(OUT_OF_RANGE);
    }
    if published::is_published(handle) {
        // SAFETY: our contract.
        return unsafe { published::put(handle, from, bytes, end) };
    }
    let mut access = match Access::begin(handle, end) {
        Ok(access) => access,
        Err(status) => return status,
    };
    if access.is_here {
        let me = access.rank.job.rank() as u32;
        return access.work_here(end, |here| {
            if here.rights & QUEUE == 0 {
                return Err(NO_RIGHT);
            }
            let queue = Queue::open(here.memory).ok_or(NO_REGION_STATUS)?;
            if bytes > queue.message_bytes_max() {
                return Err(OUT_OF_RANGE);
            }
            let reservation = queue.reserve(me, bytes).ok_or(FULL)?;
            // SAFETY: our contract.
            unsafe { queue.fill(reservation, 0, from.cast(), bytes) };
            queue.commit(reservation);
            Ok(())
        });
    }
    let from = Buffer::contiguous(from.cast_mut().cast(), bytes);
    // SAFETY: our contract.
    unsafe { access.start_far(Action::Enqueue { from }, vec![(0, bytes)], end) }
}

/// Takes the next message out of a queue of this rank: its bytes and its sender. One that is longer than
/// `room` stays.
///
/// # Safety
/// `into` is valid for writing `room` bytes.
pub unsafe fn take(
    handle: &Handle,
    into: *mut c_void,
    room: usize,
    is_awaited: bool,
) -> Result<(usize, u32), (c_int, usize)> {
    loop {
        let rank = rank::enter().ok_or((NOT_RUNNING, 0))?;
        let queue = region::own_queue(handle, Taker::Calls).map_err(|status| (status, 0))?;
        if let Some(message) = queue.peek() {
            if message.bytes > room {
                return Err((OUT_OF_RANGE, message.bytes));
            }
            // SAFETY: our contract; the process lock makes this thread the one that takes.
            unsafe { queue.take(message, into.cast()) };
            return Ok((message.bytes, message.from));
        }
        if !is_awaited {
            return Err((EMPTY, 0));
        }
        let memory = region::memory_of(&queue).ok_or((NO_REGION_STATUS, 0))?;
        drop(rank);
        // Another thread may close the queue meanwhile.
        let is_over = || memory.is_closed() || queue.has_message();
        word_wait::until_by(word_wait::Partner::Any, queue.base().addr().get(), is_over);
    }
}

/// The elastic barrier: covers the operations that this rank has started before.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Barrier {
    done: Done,
    /// Ends that it waits for.
    expected: i32,
    number: u32,
}

/// Starts it.
///
/// # Safety
/// The barrier stays where it is until it is over.
pub unsafe fn start_barrier(barrier: NonNull<Barrier>) -> c_int {
    std::sync::atomic::fence(SeqCst);
    // SAFETY: our contract.
    unsafe { barrier.write(Barrier::default()) };
    let Some(mut rank) = rank::enter() else { return NOT_RUNNING };
    let (number, touched) = started().begin_fence();
    // SAFETY: our contract.
    unsafe { barrier.write(Barrier { done: Done::default(), expected: touched.len() as i32, number }) };
    // SAFETY: our contract.
    let done = unsafe { DoneAt::new(barrier.cast()) };
    // A rank that has acknowledged a multicast may have to hand it on.
    // SAFETY: the lock is ours; our contract.
    let covered = unsafe { multicast::cover(done) };
    // SAFETY: our contract.
    unsafe { (*barrier.as_ptr()).expected += covered };
    for to in touched {
        let Some(mut memory) = rank.remote_memory() else {
            done.get().end();
            continue;
        };
        let mut pushed = memory.settle_all(to, done);
        if pushed == Pushed::Part {
            memory.hurry(to);
            remote_memory::wait(&mut rank, |memory| {
                pushed = memory.settle_all(to, done);
                pushed != Pushed::Part
            });
        }
        if pushed == Pushed::Gone {
            done.get().fail(Refusal::Gone);
            done.get().end();
        }
        memory.hurry(to);
    }
    OK
}

/// Whether it is over; waits for that if it `is_awaited`. The first refusal of a posted operation is its
/// status.
pub fn end_barrier(barrier: &Barrier, is_awaited: bool) -> c_int {
    let Some(mut rank) = rank::enter() else { return NOT_RUNNING };
    let is_over = || barrier.done.count.load(Acquire) >= barrier.expected.into();
    if !is_over() {
        if !is_awaited {
            remote_memory::look(&mut rank);
            return if is_over() { result(&rank, barrier) } else { PENDING };
        }
        remote_memory::wait(&mut rank, |_| is_over());
    }
    result(&rank, barrier)
}

/// The status of one that is over. What it covers is left to no other one, so it keeps the first refusal.
fn result(rank: &Rank, barrier: &Barrier) -> c_int {
    let covered = started().end_fence(barrier.number);
    if let Some(mut memory) = rank.remote_memory() {
        for (to, name) in covered {
            if let Some(refusal) = memory.take_refusal(to, name) {
                barrier.done.fail(refusal);
            }
        }
    }
    barrier.done.status.load(Acquire)
}
