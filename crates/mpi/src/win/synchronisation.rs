//! Synchronisation of windows (MPI 12.5). On ranks of this node an operation is done when its call returns;
//! what is left is the order in which processors see it, and who waits for whom.

use core::ffi::c_int;

use tutti_rma::control::Count;
use tutti_shm::sync::{EXCHANGE_ORDERS_ALL, full_fence};
use tutti_shm::window_lock::{Mode, Ticket};

use super::epoch::Held;
use crate::abi::*;
use crate::check::inspection::Inspect;
use crate::collective;
use crate::collective::work::Work;
use crate::comm::HasComms;
use crate::engine::LOST;
use crate::error::{Result, check};
use crate::progress::Progress;
use crate::wait_goal::{Goal, Members, Outside};
use crate::win::HasWindows;
use crate::win::other_nodes;

/// Asserts that a call may be given.
fn check_assert(assert: c_int, allowed: c_int) -> Result<()> {
    check(assert & !allowed == 0, MPI_ERR_ASSERT, || {
        format!(
            "assert is {assert:#x}, which has flags that this call does not know ({:#x})",
            assert & !allowed
        )
    })
}

/// All ranks of the window end their operations, and begin new ones (12.5.1).
///
/// # Errors
/// MPI_ERR_RMA_SYNC inside another epoch; MPI_ERR_ASSERT.
pub fn fence_window(
    call: &mut (impl Progress + Inspect + HasComms + HasWindows),
    win: MPI_Win,
    assert: c_int,
) -> Result<()> {
    check_assert(assert, MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED)?;
    let window = call.wins_mut().find_mut(win)?;
    window.epochs.fence(assert)?;
    let comm = window.comm;
    full_fence();
    other_nodes::end_all(call, win)?;
    collective::collect(call, comm, &Work::Barrier)
}

/// Opens an access epoch; waits until all of the group have opened their memory (12.5.2).
///
/// # Errors
/// MPI_ERR_RMA_SYNC inside another epoch; MPI_ERR_GROUP; MPI_ERR_ASSERT.
pub fn start_epoch(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    group: MPI_Group,
    assert: c_int,
) -> Result<()> {
    check_assert(assert, MPI_MODE_NOCHECK)?;
    let group = call.comms().group(group)?;
    let window = call.wins_mut().find_mut(win)?;
    let ranks = window.ranks_of(&group)?;
    window.epochs.start(ranks.clone())?;
    await_counts(call, win, &ranks, Count::Posted)
}

/// Ends it (12.5.2).
///
/// # Errors
/// MPI_ERR_RMA_SYNC without one.
pub fn complete_epoch(call: &mut (impl Progress + HasComms + HasWindows), win: MPI_Win) -> Result<()> {
    let window = call.wins_mut().find_mut(win)?;
    let ranks = window.epochs.complete()?;
    full_fence();
    count_at(call, win, &ranks, Count::Completed)
}

/// Opens this process's memory to a group (12.5.2).
///
/// # Errors
/// As [`start_epoch`].
pub fn post_epoch(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    group: MPI_Group,
    assert: c_int,
) -> Result<()> {
    check_assert(assert, MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT)?;
    let group = call.comms().group(group)?;
    let window = call.wins_mut().find_mut(win)?;
    let ranks = window.ranks_of(&group)?;
    window.epochs.post(ranks.clone())?;
    count_at(call, win, &ranks, Count::Posted)
}

/// Waits until all of the group have ended their operations on this process's memory (12.5.2).
///
/// # Errors
/// MPI_ERR_RMA_SYNC without an exposure epoch.
pub fn await_epoch(call: &mut (impl Progress + HasComms + HasWindows), win: MPI_Win) -> Result<()> {
    let ranks = call.wins().find(win)?.epochs.posted()?.to_vec();
    await_counts(call, win, &ranks, Count::Completed)?;
    call.wins_mut().find_mut(win)?.epochs.end_exposure();
    Ok(())
}

/// The same without waiting: whether they have.
///
/// # Errors
/// As [`await_epoch`].
pub fn test_epoch(call: &mut (impl Progress + HasComms + HasWindows), win: MPI_Win) -> Result<bool> {
    let window = call.wins().find(win)?;
    let ranks = window.epochs.posted()?.to_vec();
    let own = window.own_control();
    let is_missing =
        |rank: usize| own.get(rank as u32, Count::Completed) <= window.peers[rank].completions_used;
    if let Some(rank) = ranks.iter().copied().find(|rank| is_missing(*rank)) {
        let (context, world) = (call.comms().find(window.comm)?.context, window.peers[rank].world);
        check(!call.engine().has_lost(context, world), MPI_ERR_PROC_ABORTED, || LOST.into())?;
        call.look();
        return Ok(false);
    }
    await_counts(call, win, &ranks, Count::Completed)?;
    call.wins_mut().find_mut(win)?.epochs.end_exposure();
    Ok(true)
}

/// Tells ranks that this one has opened its memory, or ended its operations.
fn count_at(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    ranks: &[usize],
    count: Count,
) -> Result<()> {
    for rank in ranks {
        let window = call.wins().find(win)?;
        let peer = &window.peers[*rank];
        match &peer.control {
            Some(control) => {
                control.add(window.rank as u32, count);
                call.engine().job.ring(peer.world as usize);
            }
            None => other_nodes::count_on_node(call, win, *rank, count)?,
        }
    }
    Ok(())
}

/// Waits until ranks have notified it, once for each.
fn await_counts(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    ranks: &[usize],
    count: Count,
) -> Result<()> {
    for rank in ranks {
        let window = call.wins_mut().find_mut(win)?;
        let own = window.own_control();
        let (comm, has_guests) = (window.comm, window.has_guests);
        let peer = &mut window.peers[*rank];
        let used = match count {
            Count::Posted => &mut peer.posts_used,
            Count::Completed => &mut peer.completions_used,
        };
        let before = *used;
        *used += 1;
        let (world, rank) = (peer.world, *rank as u32);
        let missing: &Members<'_> = &|visit| visit(world);
        let context = call.comms().find(comm)?.context;
        let goal = Goal::Window { context, missing };
        let is_told = || own.get(rank, count) > before;
        if has_guests {
            await_or_loss(call, goal, (context, world), is_told)?;
        } else {
            call.watch(goal, is_told);
        }
    }
    Ok(())
}

/// Waits until a rank has done something, or a rank of another launch is lost.
fn await_or_loss(
    call: &mut impl Progress,
    goal: Goal<'_>,
    (context, world): (u32, u32),
    is_over: impl Fn() -> bool,
) -> Result<()> {
    call.wait(None, goal, |engine| (is_over() || engine.has_lost(context, world)).then_some(()));
    check(is_over(), MPI_ERR_PROC_ABORTED, || LOST.into())
}

/// Locks a rank's memory (12.5.3).
///
/// # Errors
/// MPI_ERR_LOCKTYPE, MPI_ERR_RANK, MPI_ERR_ASSERT; MPI_ERR_RMA_SYNC inside another epoch.
pub fn lock_window(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    kind: c_int,
    rank: c_int,
    assert: c_int,
) -> Result<()> {
    let mode = match kind {
        MPI_LOCK_EXCLUSIVE => Some(Mode::Exclusive),
        MPI_LOCK_SHARED => Some(Mode::Shared),
        _ => None,
    };
    check(mode.is_some(), MPI_ERR_LOCKTYPE, || {
        format!("lock_type is {kind}, expected MPI_LOCK_EXCLUSIVE or MPI_LOCK_SHARED")
    })?;
    check_assert(assert, MPI_MODE_NOCHECK)?;
    let window = call.wins().find(win)?;
    let Some(rank) = window.target(rank)? else { return Ok(()) };
    window.epochs.check_lock(rank)?;
    let held = match mode.filter(|_| assert & MPI_MODE_NOCHECK == 0) {
        Some(mode) if window.peers[rank].control.is_none() => {
            other_nodes::ask_lock(call, win, rank, mode)?;
            other_nodes::await_lock(call, win, rank)?;
            Held::Granted
        }
        Some(mode) => Held::Ticket(take_lock(call, win, rank, mode)?),
        None => Held::Unchecked,
    };
    call.wins_mut().find_mut(win)?.epochs.lock(rank, held);
    Ok(())
}

/// The same for memory on this node whose lock is free; else `None`, wrong arguments included: nothing is
/// done, and the general way must be gone.
#[inline(always)]
pub fn try_lock_here(
    call: &mut (impl Progress + HasWindows),
    win: MPI_Win,
    kind: c_int,
    rank: c_int,
    assert: c_int,
) -> Option<()> {
    let mode = match kind {
        MPI_LOCK_EXCLUSIVE => Mode::Exclusive,
        MPI_LOCK_SHARED => Mode::Shared,
        _ => return None,
    };
    let me = call.engine().world_rank();
    let window = call.wins_mut().try_find_mut(win)?;
    let rank = usize::try_from(rank).ok().filter(|rank| *rank < window.peers.len())?;
    let control = window.peers[rank].control.filter(|_| assert == 0 && window.epochs.may_lock(rank))?;
    let (ticket, next) = control.lock().try_take(mode, me)?;
    window.epochs.lock(rank, Held::Ticket(ticket));
    next.into_iter().for_each(|next| ring_next_of(call, win, next));
    Some(())
}

/// Gives the lock back (12.5.3).
///
/// # Errors
/// MPI_ERR_RANK; MPI_ERR_RMA_SYNC when it is not locked.
pub fn unlock_window(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    rank: c_int,
) -> Result<()> {
    let window = call.wins_mut().find_mut(win)?;
    let Some(rank) = window.target(rank)? else { return Ok(()) };
    let held = window.epochs.unlock(rank)?;
    give_lock_back(call, win, rank, held)
}

/// The same for memory on this node that was locked by a ticket, or `None` as with
/// [`try_lock_here`].
#[inline(always)]
pub fn try_unlock_here(call: &mut (impl Progress + HasWindows), win: MPI_Win, rank: c_int) -> Option<()> {
    if !EXCHANGE_ORDERS_ALL {
        return None;
    }
    let window = call.wins_mut().try_find_mut(win)?;
    let rank = usize::try_from(rank).ok().filter(|rank| *rank < window.peers.len())?;
    let control = window.peers[rank].control?;
    let ticket = window.epochs.unlock_ticket(rank)?;
    control.lock().release(ticket).into_iter().for_each(|next| ring_next_of(call, win, next));
    Some(())
}

/// Locks all ranks' memory, shared (12.5.3).
///
/// # Errors
/// MPI_ERR_ASSERT; MPI_ERR_RMA_SYNC inside another epoch.
pub fn lock_window_all(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    assert: c_int,
) -> Result<()> {
    check_assert(assert, MPI_MODE_NOCHECK)?;
    let window = call.wins_mut().find_mut(win)?;
    window.epochs.check_lock_all()?;
    let mut held = window.epochs.room();
    if assert & MPI_MODE_NOCHECK == 0
        && let Err(error) = take_all_locks(call, win, &mut held)
    {
        // A rank is lost: those that are granted, or will be, are given back.
        for (rank, held) in held.into_iter().enumerate() {
            if let Some(held) = held {
                let granted = match held {
                    Held::Granted => other_nodes::await_lock(call, win, rank),
                    _ => Ok(()),
                };
                let _ = granted.and_then(|()| give_lock_back(call, win, rank, held));
            }
        }
        return Err(error);
    }
    call.wins_mut().find_mut(win)?.epochs.lock_all(held);
    Ok(())
}

/// Takes the locks of all ranks, shared; `held` says which are taken or asked for.
fn take_all_locks(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    held: &mut [Option<Held>],
) -> Result<()> {
    let window = call.wins().find(win)?;
    // Those of other nodes are asked all at once.
    let remote: Vec<usize> = match window.is_spread {
        true => (0..held.len()).filter(|rank| window.peers[*rank].region.is_some()).collect(),
        false => Vec::new(),
    };
    for rank in &remote {
        other_nodes::ask_lock(call, win, *rank, Mode::Shared)?;
        held[*rank] = Some(Held::Granted);
    }
    for (rank, held) in held.iter_mut().enumerate().filter(|(_, held)| held.is_none()) {
        *held = Some(Held::Ticket(take_lock(call, win, rank, Mode::Shared)?));
    }
    for rank in remote {
        other_nodes::await_lock(call, win, rank)?;
    }
    Ok(())
}

/// Gives all locks back (12.5.3).
///
/// # Errors
/// MPI_ERR_RMA_SYNC without [`lock_window_all`].
pub fn unlock_window_all(call: &mut (impl Progress + HasComms + HasWindows), win: MPI_Win) -> Result<()> {
    let held = call.wins_mut().find_mut(win)?.epochs.unlock_all()?;
    let mut done = Ok(());
    if held.iter().all(Option::is_none) {
        // MPI_MODE_NOCHECK: there are no locks behind which the operations end.
        full_fence();
        done = other_nodes::end_all(call, win);
    }
    // All are given back, also if a rank has left.
    for (rank, held) in held.iter().enumerate() {
        if let Some(held) = held {
            done = done.and(give_lock_back(call, win, rank, *held));
        }
    }
    call.wins_mut().find_mut(win)?.epochs.keep(held);
    done
}

/// Waits for a place in the queue to come first.
fn take_lock(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    rank: usize,
    mode: Mode,
) -> Result<Ticket> {
    let me = call.engine().world_rank();
    let window = call.wins().find(win)?;
    let (comm, lock, keeper) = (window.comm, window.control_of(rank).lock(), window.peers[rank].world);
    let has_guests = window.has_guests;
    let ticket = lock.ask(mode, me);
    if !lock.is_due(ticket) {
        let context = call.comms().find(comm)?.context;
        let goal = match has_guests {
            // A guest may be before.
            true => Goal::Outside(Outside::Launch),
            false => Goal::WindowLock { context, keeper, lock, ticket },
        };
        call.watch(goal, || lock.is_due(ticket));
    }
    if let Some(next) = lock.enter(ticket) {
        ring_next(call, win, next)?;
    }
    Ok(ticket)
}

fn give_lock_back(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    rank: usize,
    held: Held,
) -> Result<()> {
    let Held::Ticket(ticket) = held else {
        full_fence();
        let is_remote = call.wins().find(win)?.peers[rank].control.is_none();
        let is_granted = matches!(held, Held::Granted);
        return if is_remote { other_nodes::unlock_on_node(call, win, rank, is_granted) } else { Ok(()) };
    };
    if !EXCHANGE_ORDERS_ALL {
        full_fence();
    }
    let lock = call.wins().find(win)?.control_of(rank).lock();
    if let Some(next) = lock.release(ticket) {
        ring_next(call, win, next)?;
    }
    Ok(())
}

/// The same of a window that is there.
#[cold]
fn ring_next_of(call: &mut (impl Progress + HasWindows), win: MPI_Win, next: u32) {
    ring_next(call, win, next).expect("its window has just been used");
}

/// Rings the rank whose turn may have come: this one for a rank of another node.
fn ring_next(call: &mut (impl Progress + HasWindows), win: MPI_Win, next: u32) -> Result<()> {
    if next == call.engine().world_rank() {
        return other_nodes::pass_lock_on(call, win);
    }
    call.engine().job.ring(next as usize);
    Ok(())
}

/// The operations on a rank, or on all, are done there (12.5.4).
///
/// # Errors
/// MPI_ERR_RANK; MPI_ERR_RMA_SYNC outside an epoch opened by a lock.
#[inline]
pub fn flush_window(
    call: &mut (impl Progress + HasComms + HasWindows),
    win: MPI_Win,
    rank: Option<c_int>,
) -> Result<()> {
    let window = call.wins().find(win)?;
    let rank = match rank {
        Some(rank) => match window.target(rank)? {
            Some(rank) => Some(rank),
            None => return Ok(()),
        },
        None => None,
    };
    window.epochs.check_flush(rank)?;
    window.fence.pass();
    if window.is_spread { other_nodes::flush_nodes(call, win, rank) } else { Ok(()) }
}

/// The same in a window whose ranks are all on this node; else `None`, wrong arguments included: nothing
/// is done, and the general way must be gone.
#[inline(always)]
pub fn try_flush_here(call: &impl HasWindows, win: MPI_Win, rank: c_int) -> Option<()> {
    let window = call.wins().try_find(win)?;
    let rank = usize::try_from(rank).ok().filter(|rank| *rank < window.peers.len())?;
    if window.is_spread || !window.epochs.may_flush(rank) {
        return None;
    }
    window.fence.pass();
    Some(())
}

/// Loads and stores of this process and operations on its memory see each other (12.5.4).
///
/// # Errors
/// MPI_ERR_WIN.
pub fn sync_window(call: &mut (impl Progress + HasWindows), win: MPI_Win) -> Result<()> {
    call.wins().find(win)?;
    full_fence();
    call.progress(None);
    Ok(())
}
