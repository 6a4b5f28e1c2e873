//! MPI 3.9: persistent requests.

use std::cell::RefCell;
use std::rc::Rc;

use core::ffi::c_int;

use crate::abi::*;
use crate::buffered::Places;
use crate::comm::HasComms;
use crate::compound;
use crate::datatype::Data;
use crate::datatype::HasTypes;
use crate::engine::message::Mode;
use crate::error::{Error, Result};
use crate::point_to_point;
use crate::progress::Progress;
use crate::request::extra::NOTHING;
use crate::request::persistent::HasPersistents;
use crate::request::{Named, Request, RequestKind, Started};
use crate::session::HasEnvironment;

/// A persistent send: arguments are checked now, the operation starts later.
pub(super) fn send(
    call: &mut (impl Progress + HasComms + HasTypes + HasPersistents + HasEnvironment),
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    how: How,
) -> Result<MPI_Request> {
    let mode = if how == How::Synchronous { Mode::Synchronous } else { Mode::Standard };
    // Translated now: the user may free datatype and communicator before the operation starts.
    let message = point_to_point::message(call, data, dest, tag, comm, mode)?;
    let message = message.map(|message| Rc::new(RefCell::new(message)));
    let renewed = message.clone();
    let places = Places::of(call.comms(), comm)?;
    let index = compound::persistent(call, move |call| {
        let started = match message.as_deref().map(RefCell::borrow).as_deref() {
            None => Started::Done,
            Some(message) if how == How::Buffered => {
                super::buffered::send_message(call, message.clone(), &places)?;
                Started::Done
            }
            Some(message) if how == How::Standard && call.engine_mut().try_send_quickly(message) => {
                Started::Done
            }
            Some(message) => call.engine_mut().send(message.clone()),
        };
        Ok([started.into(), NOTHING])
    });
    if let Some(message) = renewed {
        call.keep_renewal(index, move |number_now| {
            let to = message.borrow().to;
            message.borrow_mut().to = number_now(to);
        });
    }
    Ok(MPI_Request(call.engine().requests.handle(index)))
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
    call: &mut (impl Progress + HasComms + HasTypes + HasPersistents),
    data: Data,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<MPI_Request> {
    let found = point_to_point::checked_source(call, source, tag, comm)?;
    let (buffer, comm) = (call.types().buffer(data)?, call.comms().find(comm)?);
    let (context, peers) = (comm.context, Rc::clone(comm.peers()));
    let partner = found.map(|(source, _)| Rc::new(RefCell::new((source, comm.translation()))));
    let renewed = partner.clone();
    let index = compound::persistent(call, move |call| {
        let started = partner.as_ref().map(|partner| {
            let (source, group) = &*partner.borrow();
            let mut request = Request::new(RequestKind::Receive, buffer.clone(), context, *source, tag);
            request.group.clone_from(group);
            call.engine_mut().receive(request)
        });
        Ok([started.into(), NOTHING])
    });
    if let Some(partner) = renewed {
        let peers = RefCell::new(peers);
        call.keep_renewal(index, move |number_now| {
            let renewed = Rc::new(peers.borrow().renumbered(number_now));
            let (source, group) = &mut *partner.borrow_mut();
            if let Ok(number) = u32::try_from(*source) {
                *source = number_now(number) as c_int;
            }
            // Their numbers may differ from their ranks.
            if renewed.members() != peers.borrow().members() {
                *group = Some(Rc::clone(&renewed));
            }
            peers.replace(renewed);
        });
    }
    Ok(MPI_Request(call.engine().requests.handle(index)))
}

/// Starts a persistent operation.
pub(super) fn start(call: &mut (impl Progress + HasPersistents), request: MPI_Request) -> Result<()> {
    match call.engine().named_request(request)? {
        Named::Inactive(index) | Named::Pending(index) => compound::start_persistent(call, index),
        Named::Null | Named::FinishedSend => {
            Err(Error::new(MPI_ERR_REQUEST, "the request is not a persistent one"))
        }
    }
}

/// Starts several persistent operations.
pub(super) fn start_all(call: &mut (impl Progress + HasPersistents), requests: &[MPI_Request]) -> Result<()> {
    requests.iter().try_for_each(|&request| start(call, request))
}
