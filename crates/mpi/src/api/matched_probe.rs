//! MPI 3.8.2 and 3.8.3: matched probes and the receives that go with them.

use core::ffi::c_int;

use crate::abi::*;
use crate::datatype::Data;
use crate::engine::completion::outcome_result;
use crate::engine::{Engine, Found};
use crate::error::{Error, Result};
use crate::process::Guard;
use crate::progress::Progress;
use crate::request::{Outcome, Request, RequestKind};

/// A message that was taken out of matching, with its handle and the status that describes it. Remembers the
/// group that the sender's rank counts in.
fn describe(
    guard: &mut Guard,
    comm: MPI_Comm,
    (found, handle): (Found, MPI_Message),
) -> Result<(Outcome, MPI_Message)> {
    let communicator = guard.comms.find(comm)?;
    let source = communicator.peers().rank_of(found.source).map_or(MPI_ANY_SOURCE, |rank| rank as c_int);
    let group = communicator.translation();
    guard.comms.keep_message_group(handle, group);
    Ok((Outcome { source, tag: found.tag, bytes: found.bytes, ..Outcome::EMPTY }, handle))
}

/// Takes a message out of matching, if there is one.
fn matched(
    guard: &mut Guard,
    comm: MPI_Comm,
    context: u32,
    source: c_int,
    tag: c_int,
) -> Result<Option<(Outcome, MPI_Message)>> {
    let found = guard.engine.extract(context, source, tag);
    found.map(|found| describe(guard, comm, found)).transpose()
}

/// The receive of an extracted message; `None` for MPI_MESSAGE_NO_PROC.
fn post(guard: &mut Guard, data: Data, message: &mut MPI_Message) -> Result<Option<u32>> {
    let buffer = guard.types.buffer(data)?;
    if *message == MPI_MESSAGE_NO_PROC {
        *message = MPI_MESSAGE_NULL;
        return Ok(None);
    }
    let number = guard.engine.find_extracted(*message).ok_or_else(|| {
        Error::new(
            MPI_ERR_REQUEST,
            format_args!("message {:#x} is MPI_MESSAGE_NULL, received already or was never one", message.0),
        )
    })?;
    let mut request = Request::new(RequestKind::Receive, buffer, 0, MPI_ANY_SOURCE, MPI_ANY_TAG);
    request.group = guard.comms.take_message_group(*message);
    *message = MPI_MESSAGE_NULL;
    Ok(Some(guard.engine.receive_extracted(number, request)))
}

/// Waits for a message and takes it out of matching.
pub(super) fn probe(
    guard: &mut Guard,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<(MPI_Message, Outcome)> {
    let Some((source, context)) = guard.checked_source(source, tag, comm)? else {
        return Ok((MPI_MESSAGE_NO_PROC, Outcome::PROC_NULL));
    };
    // Found and taken in one step: of several threads that wait for a message, one has it.
    let take = |engine: &mut Engine| engine.extract(context, source, tag);
    let taken = guard.await_message(context, source, tag, take);
    let (outcome, handle) = describe(guard, comm, taken)?;
    Ok((handle, outcome))
}

/// Looks for a message and takes it out of matching: whether there is one, and which.
pub(super) fn try_probe(
    guard: &mut Guard,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<(bool, Option<MPI_Message>, Option<Outcome>)> {
    let found = match guard.checked_source(source, tag, comm)? {
        None => Some((Outcome::PROC_NULL, MPI_MESSAGE_NO_PROC)),
        Some((source, context)) => match matched(guard, comm, context, source, tag)? {
            None => {
                guard.look();
                matched(guard, comm, context, source, tag)?
            }
            found => found,
        },
    };
    let (outcome, handle) = found.unzip();
    Ok((handle.is_some(), handle, outcome))
}

/// Receives a message taken out of matching. An error is one of the message's communicator.
///
/// # Safety
/// `status` is MPI_STATUS_IGNORE or valid for writing.
pub(super) unsafe fn receive(
    guard: &mut Guard,
    data: Data,
    message: &mut MPI_Message,
    status: *mut MPI_Status,
) -> Result<()> {
    let (outcome, capacity, context) = match post(guard, data, message)? {
        None => (Outcome::PROC_NULL, 0, 0),
        Some(index) => {
            let Request { buffer, context, .. } = guard.engine.requests.get(index);
            let (capacity, context) = (buffer.bytes, *context);
            (guard.finish_request(index), capacity, context)
        }
    };
    // SAFETY: our contract.
    unsafe { outcome.write(status) };
    outcome_result(&outcome, capacity).map_err(|error| error.in_context(context))
}

/// Starts the receive of a message taken out of matching.
pub(super) fn start_receive(guard: &mut Guard, data: Data, message: &mut MPI_Message) -> Result<MPI_Request> {
    let index = post(guard, data, message)?;
    Ok(guard.engine.receive_handle(index))
}
