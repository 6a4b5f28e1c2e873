//! MPI 3.8.2 and 3.8.3: matched probes and the receives that go with them.

use core::ffi::c_int;

use crate::abi::*;
use crate::comm::HasComms;
use crate::datatype::Data;
use crate::datatype::HasTypes;
use crate::engine::Found;
use crate::engine::completion::outcome_result;
use crate::error::{Error, Result};
use crate::point_to_point;
use crate::progress::Progress;
use crate::request::{Outcome, Request, RequestKind};

/// A message that was taken out of matching, with its handle and the status that describes it. Remembers the
/// group that the sender's rank counts in.
fn describe(
    call: &mut impl HasComms,
    comm: MPI_Comm,
    (found, handle): (Found, MPI_Message),
) -> Result<(Outcome, MPI_Message)> {
    let communicator = call.comms().find(comm)?;
    let source = communicator.peers().rank_of(found.source).map_or(MPI_ANY_SOURCE, |rank| rank as c_int);
    let group = communicator.translation();
    call.comms_mut().keep_message_group(handle, group);
    Ok((Outcome { source, tag: found.tag, bytes: found.bytes, ..Outcome::EMPTY }, handle))
}

/// Takes a message out of matching, if there is one.
fn matched(
    call: &mut (impl Progress + HasComms),
    comm: MPI_Comm,
    context: u32,
    source: c_int,
    tag: c_int,
) -> Result<Option<(Outcome, MPI_Message)>> {
    let found = call.engine_mut().extract(context, source, tag);
    found.map(|found| describe(call, comm, found)).transpose()
}

/// The receive of an extracted message; `None` for MPI_MESSAGE_NO_PROC.
fn post(
    call: &mut (impl Progress + HasComms + HasTypes),
    data: Data,
    message: &mut MPI_Message,
) -> Result<Option<u32>> {
    let buffer = call.types().buffer(data)?;
    if *message == MPI_MESSAGE_NO_PROC {
        *message = MPI_MESSAGE_NULL;
        return Ok(None);
    }
    let number = call.engine().find_extracted(*message).ok_or_else(|| {
        Error::new(
            MPI_ERR_REQUEST,
            format_args!("message {:#x} is MPI_MESSAGE_NULL, received already or was never one", message.0),
        )
    })?;
    let mut request = Request::new(RequestKind::Receive, buffer, 0, MPI_ANY_SOURCE, MPI_ANY_TAG);
    request.group = call.comms_mut().take_message_group(*message);
    *message = MPI_MESSAGE_NULL;
    Ok(Some(call.engine_mut().receive_extracted(number, request)))
}

/// Waits for a message and takes it out of matching.
pub(super) fn probe(
    call: &mut (impl Progress + HasComms),
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<(MPI_Message, Outcome)> {
    let Some((source, context)) = point_to_point::checked_source(call, source, tag, comm)? else {
        return Ok((MPI_MESSAGE_NO_PROC, Outcome::PROC_NULL));
    };
    // Found and taken in one step: of several threads that wait for a message, one has it.
    let taken = call.await_message(context, source, tag, |engine| engine.extract(context, source, tag));
    let (outcome, handle) = describe(call, comm, taken)?;
    Ok((handle, outcome))
}

/// Looks for a message and takes it out of matching: whether there is one, and which.
pub(super) fn try_probe(
    call: &mut (impl Progress + HasComms),
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<(bool, Option<MPI_Message>, Option<Outcome>)> {
    let found = match point_to_point::checked_source(call, source, tag, comm)? {
        None => Some((Outcome::PROC_NULL, MPI_MESSAGE_NO_PROC)),
        Some((source, context)) => match matched(call, comm, context, source, tag)? {
            None => {
                call.look();
                matched(call, comm, context, source, tag)?
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
    call: &mut (impl Progress + HasComms + HasTypes),
    data: Data,
    message: &mut MPI_Message,
    status: *mut MPI_Status,
) -> Result<()> {
    let (outcome, capacity, context) = match post(call, data, message)? {
        None => (Outcome::PROC_NULL, 0, 0),
        Some(index) => {
            let Request { buffer, context, .. } = call.engine().requests.get(index);
            let (capacity, context) = (buffer.bytes, *context);
            (call.finish_request(index), capacity, context)
        }
    };
    // SAFETY: our contract.
    unsafe { outcome.write(status) };
    outcome_result(&outcome, capacity).map_err(|error| error.in_context(context))
}

/// Starts the receive of a message taken out of matching.
pub(super) fn start_receive(
    call: &mut (impl Progress + HasComms + HasTypes),
    data: Data,
    message: &mut MPI_Message,
) -> Result<MPI_Request> {
    let index = post(call, data, message)?;
    Ok(call.engine_mut().receive_handle(index))
}
