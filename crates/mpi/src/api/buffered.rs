//! MPI 3.6: buffered sends, and the buffers for them.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::attached::Attached;
use crate::buffered::{self, BufferOwner, Places};
use crate::comm::HasComms;
use crate::datatype::Data;
use crate::datatype::HasTypes;
use crate::engine::message::{Message, Mode};
use crate::error::Result;
use crate::point_to_point;
use crate::progress::Progress;
use crate::request::Started;
use crate::session::HasEnvironment;

/// The process.
pub(super) struct ProcessBuffer;

impl From<ProcessBuffer> for BufferOwner {
    fn from(_: ProcessBuffer) -> Self {
        BufferOwner::Process
    }
}

impl From<MPI_Comm> for BufferOwner {
    fn from(comm: MPI_Comm) -> Self {
        BufferOwner::Comm(comm)
    }
}

impl From<MPI_Session> for BufferOwner {
    fn from(session: MPI_Session) -> Self {
        BufferOwner::Session(session)
    }
}

/// Sends from a copy of the data.
pub(super) fn send(
    call: &mut (impl Progress + HasComms + HasTypes + HasEnvironment),
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    match point_to_point::message(call, data, dest, tag, comm, Mode::Standard)? {
        Some(message) => {
            let places = Places::of(call.comms(), comm)?;
            send_message(call, message, &places)
        }
        None => Ok(()),
    }
}

/// The same with a request, which is done at once.
pub(super) fn start_send(
    call: &mut (impl Progress + HasComms + HasTypes + HasEnvironment),
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<MPI_Request> {
    send(call, data, dest, tag, comm)?;
    Ok(call.engine().send_handle(Started::Done))
}

/// Sends a message from a copy of its data.
pub(super) fn send_message(
    call: &mut (impl Progress + HasEnvironment),
    message: Message,
    places: &Places,
) -> Result<()> {
    call.progress(None);
    let owned = places.attached(call.env())?.take(&message.buffer)?;
    call.engine_mut().send_owned(message, owned);
    Ok(())
}

/// Attaches a buffer.
pub(super) fn attach(
    call: &mut (impl HasComms + HasEnvironment),
    owner: impl Into<BufferOwner>,
    address: *mut c_void,
    bytes: i64,
) -> Result<()> {
    let owner = owner.into();
    let attached = buffered::prepare(call.comms(), call.env(), owner, address, bytes)?;
    set(call, owner, Some(attached))
}

fn set(
    call: &mut (impl HasComms + HasEnvironment),
    owner: BufferOwner,
    buffer: Option<Attached>,
) -> Result<()> {
    match owner {
        BufferOwner::Process => call.env_mut().buffer = buffer,
        BufferOwner::Comm(comm) => {
            call.comms().find(comm)?.buffer.replace(buffer);
        }
        BufferOwner::Session(session) => {
            call.env().session(session)?.origin.buffer.replace(buffer);
        }
    }
    Ok(())
}

/// Detaches a buffer when it is empty: where it was and how large.
pub(super) fn detach(
    call: &mut (impl Progress + HasComms + HasEnvironment),
    owner: impl Into<BufferOwner>,
) -> Result<(*mut c_void, i128)> {
    let owner = owner.into();
    let attached = buffered::attached_to(call.comms(), call.env(), owner)?;
    buffered::flush(call, &attached);
    set(call, owner, None)?;
    let is_automatic = attached.address == MPI_BUFFER_AUTOMATIC;
    Ok((attached.address, if is_automatic { 0 } else { attached.bytes as i128 }))
}

/// Waits until a buffer is empty.
pub(super) fn flush(
    call: &mut (impl Progress + HasComms + HasEnvironment),
    owner: impl Into<BufferOwner>,
) -> Result<()> {
    let attached = buffered::attached_to(call.comms(), call.env(), owner.into())?;
    buffered::flush(call, &attached);
    Ok(())
}

/// Starts waiting until a buffer is empty.
pub(super) fn start_flush(
    call: &mut (impl Progress + HasComms + HasEnvironment),
    owner: impl Into<BufferOwner>,
) -> Result<MPI_Request> {
    let attached = buffered::attached_to(call.comms(), call.env(), owner.into())?;
    Ok(call.engine_mut().start_flush(attached))
}
