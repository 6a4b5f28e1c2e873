//! MPI 3.9: persistent requests.

use core::ffi::c_int;
use std::rc::Rc;

use crate::abi::*;
use crate::datatype::Data;
use crate::engine::message::Mode;
use crate::error::{Error, Result};
use crate::process::Guard;
use crate::request::extra::NOTHING;
use crate::request::{Named, Request, RequestKind, Started};

/// A persistent send: arguments are checked now, the operation starts later.
pub(super) fn send(
    guard: &mut Guard,
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    how: How,
) -> Result<MPI_Request> {
    let mode = if how == How::Synchronous { Mode::Synchronous } else { Mode::Standard };
    // Translated now: the user may free datatype and communicator before the operation starts.
    let message = guard.message(data, dest, tag, comm, mode)?;
    let index = guard.persistent(Rc::new(move |guard: &mut Guard| {
        let started = match &message {
            None => Started::Done,
            Some(message) if how == How::Buffered => {
                super::buffered::send_message(guard, message.clone(), comm)?;
                Started::Done
            }
            Some(message) if how == How::Standard && guard.engine.try_send_quickly(message) => Started::Done,
            Some(message) => guard.engine.send(message.clone()),
        };
        Ok([started.into(), NOTHING])
    }));
    Ok(MPI_Request(guard.engine.requests.handle(index)))
}

/// How a persistent send is started.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Standard,
    Synchronous,
    Buffered,
}

/// A persistent receive.
pub(super) fn receive(
    guard: &mut Guard,
    data: Data,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<MPI_Request> {
    let found = guard.checked_source(source, tag, comm)?;
    let (buffer, group) = (guard.types.buffer(data)?, guard.comms.find(comm)?.translation());
    let index = guard.persistent(Rc::new(move |guard: &mut Guard| {
        let started = found.map(|(source, context)| {
            let mut request = Request::new(RequestKind::Receive, buffer.clone(), context, source, tag);
            request.group = group.clone();
            guard.engine.receive(request)
        });
        Ok([started.into(), NOTHING])
    }));
    Ok(MPI_Request(guard.engine.requests.handle(index)))
}

/// Starts a persistent operation.
pub(super) fn start(guard: &mut Guard, request: MPI_Request) -> Result<()> {
    match guard.engine.named_request(request)? {
        Named::Inactive(index) | Named::Pending(index) => guard.start_persistent(index),
        Named::Null | Named::FinishedSend => {
            Err(Error::new(MPI_ERR_REQUEST, "the request is not a persistent one"))
        }
    }
}

/// Starts several persistent operations.
pub(super) fn start_all(guard: &mut Guard, requests: &[MPI_Request]) -> Result<()> {
    requests.iter().try_for_each(|&request| start(guard, request))
}
