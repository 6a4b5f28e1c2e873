//! MPI 3.8.2 and 3.8.3: matched probes and the receives that go with them.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::engine::Found;
use crate::errhandler::call;
use crate::error::{Error, Result};
use crate::point_to_point::{Data, outcome_result};
use crate::process::{Guard, Process};
use crate::request::{Outcome, Request, RequestKind};

/// A message that was taken out of matching, with its handle and the status that describes it. Remembers the
/// group that the sender's rank counts in.
fn describe(
    guard: &mut Guard,
    comm: MPI_Comm,
    (found, handle): (Found, MPI_Message),
) -> Result<(Outcome, MPI_Message)> {
    let communicator = guard.comm(comm)?;
    let source = communicator.peers().rank_of(found.source).map_or(MPI_ANY_SOURCE, |rank| rank as c_int);
    let group = communicator.translation();
    guard.message_groups.insert(handle.0, group);
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
fn receive(guard: &mut Guard, data: Data, message: &mut MPI_Message) -> Result<Option<u32>> {
    let buffer = guard.buffer(data)?;
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
    request.group = guard.message_groups.remove(&message.0).flatten();
    *message = MPI_MESSAGE_NULL;
    Ok(Some(guard.engine.receive_extracted(number, request)))
}

/// Waits for a message and takes it out of matching (3.8.2).
#[inline]
pub unsafe fn MPI_Mprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Mprobe", comm, |guard| {
        let (outcome, handle) = match guard.checked_source(source, tag, comm)? {
            None => (Outcome::PROC_NULL, MPI_MESSAGE_NO_PROC),
            Some((source, context)) => {
                // Found and taken in one step: of several threads that wait for a message, one has it.
                let take = |process: &mut Process| process.engine.extract(context, source, tag);
                let taken = guard.await_message(context, source, tag, take);
                describe(guard, comm, taken)?
            }
        };
        // SAFETY: the user gives a place for the message, and a status or MPI_STATUS_IGNORE.
        unsafe {
            message.write(handle);
            outcome.write(status);
        }
        Ok(())
    })
}

/// Looks for a message and takes it out of matching (3.8.2).
#[inline]
pub unsafe fn MPI_Improbe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Improbe", comm, |guard| {
        let found = match guard.checked_source(source, tag, comm)? {
            None => Some((Outcome::PROC_NULL, MPI_MESSAGE_NO_PROC)),
            Some((source, context)) => match matched(guard, comm, context, source, tag)? {
                None => {
                    guard.progress(None);
                    matched(guard, comm, context, source, tag)?
                }
                found => found,
            },
        };
        // SAFETY: the user gives places for flag and message, and a status or MPI_STATUS_IGNORE.
        unsafe {
            flag.write(c_int::from(found.is_some()));
            if let Some((outcome, handle)) = found {
                message.write(handle);
                outcome.write(status);
            }
        }
        Ok(())
    })
}

/// Waits for the receive of an extracted message. An error is one of the message's communicator.
///
/// # Safety
/// `status` is MPI_STATUS_IGNORE or valid for writing.
unsafe fn finish_matched(guard: &mut Guard, index: Option<u32>, status: *mut MPI_Status) -> Result<()> {
    let (outcome, capacity, context) = match index {
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

/// Receives a message taken out of matching (3.8.3).
#[inline]
pub unsafe fn MPI_Mrecv(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Mrecv", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives a message.
        let index = receive(guard, Data::new(buf, count, datatype), unsafe { &mut *message })?;
        // SAFETY: the user gives a status or MPI_STATUS_IGNORE.
        unsafe { finish_matched(guard, index, status) }
    })
}

/// Starts the receive of a message taken out of matching (3.8.3).
#[inline]
pub unsafe fn MPI_Imrecv(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Imrecv", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives a message.
        let index = receive(guard, Data::new(buf, count, datatype), unsafe { &mut *message })?;
        let handle = guard.receive_handle(index);
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(handle) };
        Ok(())
    })
}

/// Receives a message taken out of matching (3.8.3). Large count.
#[inline]
pub unsafe fn MPI_Mrecv_c(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Mrecv_c", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives a message.
        let index = receive(guard, Data::new(buf, count, datatype), unsafe { &mut *message })?;
        // SAFETY: the user gives a status or MPI_STATUS_IGNORE.
        unsafe { finish_matched(guard, index, status) }
    })
}

/// Starts the receive of a message taken out of matching (3.8.3). Large count.
#[inline]
pub unsafe fn MPI_Imrecv_c(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Imrecv_c", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives a message.
        let index = receive(guard, Data::new(buf, count, datatype), unsafe { &mut *message })?;
        let handle = guard.receive_handle(index);
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(handle) };
        Ok(())
    })
}
