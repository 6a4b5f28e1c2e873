//! Operations on the memory of ranks of other nodes and of other launches, and what waits for them.
//!
//! A call hands its operation over and returns when all of it is in the send FIFO, or when a long one has
//! begun. Origins of short ones may be used again then, that of a long put after the next flush.
//! Fetched data come later; a flush waits for them, and until the target has applied everything.

use core::ffi::c_int;

use tutti_datatype::Buffer;
use tutti_rma::control::Count;
use tutti_rma::done::DoneAt;
use tutti_rma::engine::Pushed;
use tutti_rma::operation::{Action, Operation, Places};
use tutti_rma::part;
use tutti_rma::wire::Code;
use tutti_shm::window_lock::Mode;

use super::window::RemotePeer;
use crate::abi::*;
use crate::comm::HasComms;
use crate::engine::LOST;
use crate::engine::way::Way;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::request::FINISHED_SEND;
use crate::request::extra::{Extra, Noted, RemoteOperation, refused};
use crate::request::{Request, RequestKind};
use crate::wait_goal::Goal;
use crate::win::HasWindows;

/// The target of an operation that was found to be on another node.
const IS_REMOTE: &str = "a target without memory here is on another node";

fn noted(operation: Operation, done: Option<DoneAt>) -> Operation {
    match done {
        Some(done) => operation.noted(done),
        None => operation,
    }
}

fn gone(call: &impl Progress, world: usize) -> Error {
    if call.engine().is_guest(world) {
        return Error::new(MPI_ERR_PROC_ABORTED, LOST);
    }
    Error::new(MPI_ERR_OTHER, format_args!("rank {world} of MPI_COMM_WORLD has left the job"))
}

/// Marks a target as one that a flush has to wait for.
fn remote_target(call: &mut impl HasWindows, win: MPI_Win, rank: usize) -> Result<RemotePeer> {
    let window = call.wins_mut().find_mut(win)?;
    window.peers[rank].is_dirty = true;
    Ok(window.remote(rank).expect(IS_REMOTE))
}

/// Hands something over to a rank of another node, when there is room for it.
fn hand_over(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    to: RemotePeer,
    mut push: impl FnMut(&mut Way<'_>) -> Pushed,
) -> Result<()> {
    let mut way = Way::to(call.engine_mut(), to.world);
    let mut pushed = push(&mut way);
    if pushed == Pushed::Part {
        way.hurry(to.world);
        await_other_node(call, win, to, |way| {
            pushed = push(way);
            pushed != Pushed::Part
        })?;
    }
    match pushed {
        Pushed::Gone => Err(gone(call, to.world)),
        _ => {
            Way::to(call.engine_mut(), to.world).send(to.world);
            Ok(())
        }
    }
}

/// Waits for something that a rank of another node does by itself: nobody has to call anything, but for a
/// lock.
fn await_other_node(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    to: RemotePeer,
    mut is_over: impl FnMut(&mut Way<'_>) -> bool,
) -> Result<()> {
    let window = call.wins().find(win)?;
    let (comm, has_guests) = (window.comm, window.has_guests);
    let context = call.comms().find(comm)?.context;
    let goal = Goal::OtherNode { context, to: to.world, has_guests };
    call.wait(None, goal, |engine| is_over(&mut Way::to(engine, to.world)).then_some(()));
    Ok(())
}

fn start_operation(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    rank: c_int,
    make: impl FnOnce(RemotePeer) -> Operation,
) -> Result<()> {
    let to = remote_target(call, win, rank as usize)?;
    let mut operation = make(to);
    hand_over(call, win, to, |memory| memory.push(&mut operation))
}

/// Writes to a rank of another node.
///
/// # Safety
/// The origin is valid for reading, a long one until the next flush.
#[cold]
pub(super) unsafe fn put_to_node(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    rank: c_int,
    data: &Buffer,
    from: Buffer,
    done: Option<DoneAt>,
) -> Result<bool> {
    let ranges = part::ranges(data, 1, 1);
    // A short one has been copied when the call returns, so nothing is to be waited for.
    let done = done.filter(|_| Operation::is_long_put(&ranges));
    // SAFETY: our contract.
    start_operation(call, win, rank, |to| unsafe {
        noted(Operation::new(to.world, to.region, Action::Write { from }, ranges), done).with_lasting_origin()
    })?;
    Ok(done.is_some())
}

/// Reads from a rank of another node.
///
/// # Safety
/// The origin is valid for writing until the next flush.
#[cold]
pub(super) unsafe fn get_from_node(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    rank: c_int,
    data: &Buffer,
    into: Buffer,
    done: Option<DoneAt>,
) -> Result<bool> {
    let ranges = part::ranges(data, 1, 1);
    // SAFETY: our contract.
    start_operation(call, win, rank, |to| unsafe {
        noted(Operation::new(to.world, to.region, Action::Read { into }, ranges), done)
    })?;
    Ok(done.is_some())
}

/// Changes elements of a rank of another node.
///
/// # Safety
/// The origin is valid for reading, the result for writing until the next flush.
#[cold]
pub(super) unsafe fn change_on_node(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    rank: c_int,
    (data, data_bytes): (&Buffer, usize),
    code: Code,
    origin: *const u8,
    (result, done): (Option<*mut u8>, Option<DoneAt>),
) -> Result<()> {
    let ranges = part::ranges(data, data_bytes, code.element.stride());
    // SAFETY: our contract; the call returns when the origin has been copied.
    start_operation(call, win, rank, |to| unsafe {
        noted(Operation::new(to.world, to.region, Action::Change { code, origin, result }, ranges), done)
    })
}

/// Replaces an element of a rank of another node if it has a certain value.
///
/// # Safety
/// The three addresses are valid for an element, the result until the next flush.
#[cold]
pub(super) unsafe fn swap_on_node(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    rank: c_int,
    at: (u64, usize),
    [compare, origin, result]: [*mut u8; 3],
) -> Result<()> {
    // SAFETY: our contract.
    let operands = unsafe {
        [std::slice::from_raw_parts(compare, at.1), std::slice::from_raw_parts(origin, at.1)].concat()
    };
    // SAFETY: our contract.
    start_operation(call, win, rank, |to| unsafe {
        Operation::new(to.world, to.region, Action::Swap { operands, result }, Places::One([at]))
    })
}

/// Starts an operation that its request ends. `start` says whether it is under way and will be noted.
///
/// # Errors
/// Those of `start`.
#[inline]
pub fn start_request<C: Progress + HasComms + HasWindows>(
    call: &mut C,
    win: MPI_Win,
    rank: c_int,
    start: impl FnOnce(&mut C, Option<DoneAt>) -> Result<bool>,
) -> Result<MPI_Request> {
    if !call.wins().find(win)?.is_spread {
        start(call, None)?;
        return Ok(FINISHED_SEND);
    }
    start_request_far(call, win, rank, start)
}

#[cold]
fn start_request_far<C: Progress + HasComms + HasWindows>(
    call: &mut C,
    win: MPI_Win,
    rank: c_int,
    start: impl FnOnce(&mut C, Option<DoneAt>) -> Result<bool>,
) -> Result<MPI_Request> {
    let rank = call.wins().find(win)?.target(rank)?;
    let Some(rank) = rank.filter(|rank| call.wins().find(win).is_ok_and(|win| win.remote(*rank).is_some()))
    else {
        start(call, None)?;
        return Ok(FINISHED_SEND);
    };
    // Nothing fails between the start and the request, which keeps the words that the end is noted in.
    let context = call.comms().find(call.wins().find(win)?.comm)?.context;
    let remote = RemoteOperation { done: Noted::new(), rank };
    match start(call, Some(remote.done.at())) {
        Ok(true) => {}
        Ok(false) => return Ok(FINISHED_SEND),
        Err(error) => {
            // A part of it may be under way.
            remote.done.abandon();
            return Err(error);
        }
    }
    let mut request = Request::new(RequestKind::Compound, Buffer::empty(), 0, MPI_ANY_SOURCE, MPI_ANY_TAG);
    request.context = context;
    request.extra = Some(Box::new(Extra::Remote(remote)));
    let index = call.engine_mut().requests.insert(request);
    Ok(MPI_Request(call.engine().requests.handle(index)))
}

/// Waits until what was fetched from a target is here.
///
/// # Errors
/// MPI_ERR_RMA_RANGE when the target has refused an operation.
#[cold]
pub fn await_answers(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    rank: c_int,
) -> Result<()> {
    let Some(rank) = call.wins().find(win)?.target(rank)? else { return Ok(()) };
    let Some(to) = call.wins().find(win)?.remote(rank) else { return Ok(()) };
    let mut way = Way::to(call.engine_mut(), to.world);
    way.hurry(to.world);
    if way.has_answers_outstanding(to.world) {
        await_other_node(call, win, to, |way| !way.has_answers_outstanding(to.world))?;
    }
    check_refusal(call, rank, to)
}

/// Asks dynamic windows' targets for what they have refused, behind the operations.
fn settle_dynamic(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    rank: usize,
) -> Result<()> {
    if call.wins().find(win)?.is_dynamic() { settle(call, win, rank) } else { Ok(()) }
}

/// Asks a target for an answer behind the operations, where nothing else says that they have ended: those
/// on guests, and on memory that only the target knows.
fn settle_last(call: &mut (impl Progress + HasComms + HasWindows), win: MPI_Win, rank: usize) -> Result<()> {
    let world = call.wins().find(win)?.peers[rank].world as usize;
    if call.engine().is_guest(world) { settle(call, win, rank) } else { settle_dynamic(call, win, rank) }
}

fn settle(call: &mut (impl Progress + HasComms + HasWindows), win: MPI_Win, rank: usize) -> Result<()> {
    let window = call.wins().find(win)?;
    if !window.peers[rank].is_dirty {
        return Ok(());
    }
    let to = window.remote(rank).expect(IS_REMOTE);
    hand_over(call, win, to, |memory| memory.settle(to.world, to.region))
}

fn await_done(call: &mut (impl Progress + HasComms + HasWindows), win: MPI_Win, rank: usize) -> Result<()> {
    let Some(to) = call.wins().find(win)?.remote(rank) else { return Ok(()) };
    let mut way = Way::to(call.engine_mut(), to.world);
    way.hurry(to.world);
    if !way.is_done(to.world) {
        await_other_node(call, win, to, |way| way.is_done(to.world))?;
    }
    call.wins_mut().find_mut(win)?.peers[rank].is_dirty = false;
    check_refusal(call, rank, to)
}

fn check_refusal(call: &mut impl Progress, rank: usize, to: RemotePeer) -> Result<()> {
    let mut way = Way::to(call.engine_mut(), to.world);
    if way.has_left(to.world) {
        return Err(gone(call, to.world));
    }
    match way.take_refusal(to.world, to.region) {
        Some(refusal) => Err(refused(refusal, rank)),
        None => Ok(()),
    }
}

fn dirty(call: &impl HasWindows, win: MPI_Win) -> Result<Vec<usize>> {
    let peers = call.wins().find(win)?.peers.iter().enumerate();
    Ok(peers.filter(|(_, peer)| peer.is_dirty).map(|(rank, _)| rank).collect())
}

/// All operations on a rank of another node, or on all, are done there.
///
/// # Errors
/// MPI_ERR_RMA_RANGE when one was refused; MPI_ERR_OTHER when the rank has left; MPI_ERR_PROC_ABORTED
/// when one of another launch is lost.
#[cold]
pub(super) fn flush_nodes(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    rank: Option<usize>,
) -> Result<()> {
    let ranks = match rank {
        Some(rank) if call.wins().find(win)?.peers[rank].is_dirty => vec![rank],
        Some(_) => return Ok(()),
        None => dirty(call, win)?,
    };
    // All are asked before one is awaited. One that has left does not keep others from being done.
    let mut done = Ok(());
    for rank in &ranks {
        done = done.and(settle_last(call, win, *rank));
        if let Some(to) = call.wins().find(win)?.remote(*rank) {
            Way::to(call.engine_mut(), to.world).hurry(to.world);
        }
    }
    for rank in ranks {
        done = done.and(await_done(call, win, rank));
    }
    done
}

/// Ends what is under way in a window that is being freed, or at a fence.
pub(super) fn end_all(call: &mut (impl Progress + HasComms + HasWindows), win: MPI_Win) -> Result<()> {
    if call.wins().find(win)?.is_spread { flush_nodes(call, win, None) } else { Ok(()) }
}

/// Asks for the lock of a rank of another node; [`await_lock`] has it.
#[cold]
pub(super) fn ask_lock(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    rank: usize,
    mode: Mode,
) -> Result<()> {
    let to = call.wins().find(win)?.remote(rank).expect(IS_REMOTE);
    hand_over(call, win, to, |way| way.lock(to.world, to.region, mode))
}

/// Waits until the lock is granted.
#[cold]
pub(super) fn await_lock(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    rank: usize,
) -> Result<()> {
    await_done(call, win, rank)
}

/// Gives it back behind the operations, which are done when it returns.
#[cold]
pub(super) fn unlock_on_node(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    rank: usize,
    is_granted: bool,
) -> Result<()> {
    settle_last(call, win, rank)?;
    if is_granted {
        let to = remote_target(call, win, rank)?;
        hand_over(call, win, to, |memory| memory.unlock(to.world, to.region))?;
    }
    await_done(call, win, rank)
}

/// Tells a rank of another node that this one has opened its memory, or ended its operations, which come
/// before.
#[cold]
pub(super) fn count_on_node(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    rank: usize,
    count: Count,
) -> Result<()> {
    let window = call.wins().find(win)?;
    let (to, own) = (window.remote(rank).expect(IS_REMOTE), window.rank as u32);
    if count == Count::Completed {
        settle_dynamic(call, win, rank)?;
    }
    hand_over(call, win, to, |memory| memory.count(to.world, to.region, count, own))?;
    if count == Count::Completed {
        call.wins_mut().find_mut(win)?.peers[rank].is_dirty = false;
        return await_answers(call, win, rank as c_int);
    }
    Ok(())
}

/// Ranks of other nodes that wait for a lock here may be next.
#[cold]
pub(super) fn pass_lock_on(call: &mut (impl Progress + HasWindows), win: MPI_Win) -> Result<()> {
    if !call.wins().find(win)?.is_spread {
        return Ok(());
    }
    if let Some(mut memory) = call.rank().remote_memory() {
        memory.advance();
    }
    if let Some(mut memory) = call.engine_mut().guest_memory() {
        memory.advance();
    }
    Ok(())
}
