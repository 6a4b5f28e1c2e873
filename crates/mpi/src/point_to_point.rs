//! From the arguments of point-to-point calls to operations of the engine, and back to statuses.

use core::ffi::c_int;

use crate::abi::*;
use crate::check::inspection::Inspect;
use crate::check_mode;
use crate::comm::HasComms;
use crate::datatype::Data;
use crate::datatype::HasTypes;
use crate::engine::fast_path::{self, FastPath};
use crate::engine::message::{Message, Mode};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::request::{Outcome, Request, RequestKind, Started};

/// Sends a small message the fast path; false when the general way must be gone.
#[inline(always)]
pub fn try_send_small(
    call: &mut (impl Progress + HasComms + HasTypes),
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> bool {
    if dest < 0 || tag < 0 {
        return false;
    }
    let Some((at, bytes)) = call.types().plain(data) else { return false };
    let Ok(communicator) = call.comms().find(comm) else { return false };
    let Ok(to) = communicator.world_rank(dest) else { return false };
    let context = communicator.context;
    call.engine_mut().try_send_small(to as usize, context, tag, at, bytes)
}

/// Receives a small message the fast path, if it comes soon; `None` when the general way must be gone.
///
/// # Safety
/// The user's buffer is valid.
#[inline(always)]
pub unsafe fn try_receive_small(
    call: &mut (impl Progress + HasComms + HasTypes),
    data: Data,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Option<Outcome> {
    if source == MPI_ANY_SOURCE {
        // SAFETY: our contract.
        return unsafe { try_receive_any(call, data, tag, comm) };
    }
    if source < 0 || (tag < 0 && tag != MPI_ANY_TAG) {
        return None;
    }
    let (at, capacity) = call.types().plain(data)?;
    let communicator = call.comms().find(comm).ok()?;
    let from = communicator.world_rank(source).ok()? as usize;
    let context = communicator.context;
    if !call.engine().is_alone(from) {
        return None;
    }
    // A receive that will be advertised is advertised soon.
    let hurry = call.rank().core_sharing.shares_core() || call.engine().would_advertise(from, capacity);
    let polls = if hurry { 1 } else { fast_path::POLLS };
    for _ in 0..polls {
        // SAFETY: our contract.
        match unsafe { call.engine_mut().try_take_small(from, context, tag, at, capacity) } {
            FastPath::Nothing => {}
            FastPath::Taken(tag, bytes) => return Some(Outcome { source, tag, bytes, ..Outcome::EMPTY }),
            FastPath::Other => return None,
        }
    }
    None
}

/// The same from any source.
///
/// # Safety
/// As [`try_receive_small`].
#[inline(never)]
unsafe fn try_receive_any(
    call: &mut (impl Progress + HasComms + HasTypes),
    data: Data,
    tag: c_int,
    comm: MPI_Comm,
) -> Option<Outcome> {
    let (at, capacity) = call.types().plain(data)?;
    let context = call.comms().find(comm).ok()?.context;
    if (tag < 0 && tag != MPI_ANY_TAG) || !call.engine().has_no_waiter() {
        return None;
    }
    let polls = if call.rank().core_sharing.shares_core() { 1 } else { fast_path::POLLS };
    // SAFETY: our contract.
    let (from, tag, bytes) =
        unsafe { call.engine_mut().try_take_small_from_any(context, tag, at, capacity, polls)? };
    let source = call.comms().find(comm).ok()?.rank_of_world(from as u32)?;
    Some(Outcome { source, tag, bytes, ..Outcome::EMPTY })
}

/// Starts a receive the fast path; `None` when the general way must be gone.
///
/// # Safety
/// The user's buffer is valid until the receive is done.
#[inline(always)]
pub unsafe fn try_start_receive_small(
    call: &mut (impl Progress + HasComms + HasTypes),
    data: Data,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Option<MPI_Request> {
    if tag < 0 {
        core::hint::cold_path();
        if tag != MPI_ANY_TAG {
            return None;
        }
    }
    let (at, capacity) = call.types().plain(data)?;
    let communicator = call.comms().find(comm).ok()?;
    let (from, context) = (communicator.same_rank(source)? as usize, communicator.context);
    if capacity > fast_path::CAPACITY_MAX {
        return None;
    }
    // SAFETY: our contract.
    unsafe { call.engine_mut().try_start_receive_small(from, context, tag, at, capacity) }
}

/// Starts a send; `None` when the destination is MPI_PROC_NULL.
///
/// # Errors
/// Those of the arguments.
#[inline(always)]
pub fn start_send(
    call: &mut (impl Progress + Inspect + HasComms + HasTypes),
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<Started> {
    Ok(match message(call, data, dest, tag, comm, mode)? {
        Some(message) => {
            if check_mode::is_on() {
                call.inspect().check_overlap(&message.buffer, RequestKind::Send);
            }
            call.engine_mut().send(message)
        }
        None => Started::Done,
    })
}

/// The arguments of a send, translated; `None` when the destination is MPI_PROC_NULL.
///
/// # Errors
/// Those of the arguments.
#[inline(always)]
pub fn message(
    call: &(impl HasComms + HasTypes),
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<Option<Message>> {
    let communicator = call.comms().find(comm)?;
    if tag < 0 {
        return Err(bad_tag(tag, ""));
    }
    let buffer = call.types().buffer(data)?;
    if dest == MPI_PROC_NULL {
        return Ok(None);
    }
    let (to, context) = (communicator.world_rank(dest)?, communicator.context);
    Ok(Some(Message { to, context, tag, buffer, mode }))
}

/// Starts a receive; `None` when the source is MPI_PROC_NULL.
///
/// # Errors
/// Those of the arguments.
#[inline(always)]
pub fn start_receive(
    call: &mut (impl Progress + Inspect + HasComms + HasTypes),
    data: Data,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<Option<u32>> {
    let (source, context) = match checked_source(call, source, tag, comm)? {
        Some(found) => found,
        None => {
            call.types().buffer(data)?;
            return Ok(None);
        }
    };
    let mut request = Request::new(RequestKind::Receive, call.types().buffer(data)?, context, source, tag);
    request.group = call.comms().find(comm)?.translation();
    if check_mode::is_on() {
        call.inspect().check_overlap(&request.buffer, RequestKind::Receive);
    }
    Ok(Some(call.engine_mut().receive(request)))
}

/// World rank (or MPI_ANY_SOURCE) and context of a receive or probe; `None` for MPI_PROC_NULL.
///
/// # Errors
/// MPI_ERR_COMM, MPI_ERR_TAG, MPI_ERR_RANK.
#[inline(always)]
pub fn checked_source(
    call: &impl HasComms,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<Option<(c_int, u32)>> {
    let communicator = call.comms().find(comm)?;
    if tag < 0 && tag != MPI_ANY_TAG {
        return Err(bad_tag(tag, " or MPI_ANY_TAG"));
    }
    Ok(match source {
        MPI_PROC_NULL => None,
        MPI_ANY_SOURCE => Some((source, communicator.context)),
        _ => Some((communicator.world_rank(source)? as c_int, communicator.context)),
    })
}

#[cold]
fn bad_tag(tag: c_int, wildcard: &str) -> Error {
    Error::new(MPI_ERR_TAG, format_args!("tag is {tag}, expected 0 to {}{wildcard}", c_int::MAX))
}
