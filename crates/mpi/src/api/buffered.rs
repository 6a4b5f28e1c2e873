//! MPI 3.6: buffered sends, and the buffers for them.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::attached::Attached;
use crate::buffered::{self, BufferOwner};
use crate::datatype::Data;
use crate::engine::message::{Message, Mode};
use crate::error::Result;
use crate::process::Guard;
use crate::progress::Progress;
use crate::request::Started;

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
pub(super) fn send(guard: &mut Guard, data: Data, dest: c_int, tag: c_int, comm: MPI_Comm) -> Result<()> {
    match guard.message(data, dest, tag, comm, Mode::Standard)? {
        Some(message) => send_message(guard, message, comm),
        None => Ok(()),
    }
}

/// The same with a request, which is done at once.
pub(super) fn start_send(
    guard: &mut Guard,
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<MPI_Request> {
    send(guard, data, dest, tag, comm)?;
    Ok(guard.engine.send_handle(Started::Done))
}

/// Sends a message from a copy of its data.
pub(super) fn send_message(guard: &mut Guard, message: Message, comm: MPI_Comm) -> Result<()> {
    guard.progress(None);
    let owned = buffered::of_send(&guard.comms, &guard.env, comm)?.take(&message.buffer)?;
    guard.engine.send_owned(message, owned);
    Ok(())
}

/// Attaches a buffer.
pub(super) fn attach(
    guard: &mut Guard,
    owner: impl Into<BufferOwner>,
    address: *mut c_void,
    bytes: i64,
) -> Result<()> {
    let owner = owner.into();
    let attached = buffered::prepare(&guard.comms, &guard.env, owner, address, bytes)?;
    set(guard, owner, Some(attached))
}

fn set(guard: &mut Guard, owner: BufferOwner, buffer: Option<Attached>) -> Result<()> {
    match owner {
        BufferOwner::Process => guard.env.buffer = buffer,
        BufferOwner::Comm(comm) => guard.comms.find_mut(comm)?.buffer = buffer,
        BufferOwner::Session(session) => {
            guard.env.session(session)?.origin.buffer.replace(buffer);
        }
    }
    Ok(())
}

/// Detaches a buffer when it is empty: where it was and how large.
pub(super) fn detach(guard: &mut Guard, owner: impl Into<BufferOwner>) -> Result<(*mut c_void, i128)> {
    let owner = owner.into();
    let attached = buffered::attached_to(&guard.comms, &guard.env, owner)?;
    buffered::flush(guard, &attached);
    set(guard, owner, None)?;
    let is_automatic = attached.address == MPI_BUFFER_AUTOMATIC;
    Ok((attached.address, if is_automatic { 0 } else { attached.bytes as i128 }))
}

/// Waits until a buffer is empty.
pub(super) fn flush(guard: &mut Guard, owner: impl Into<BufferOwner>) -> Result<()> {
    let attached = buffered::attached_to(&guard.comms, &guard.env, owner.into())?;
    buffered::flush(guard, &attached);
    Ok(())
}

/// Starts waiting until a buffer is empty.
pub(super) fn start_flush(guard: &mut Guard, owner: impl Into<BufferOwner>) -> Result<MPI_Request> {
    let attached = buffered::attached_to(&guard.comms, &guard.env, owner.into())?;
    Ok(guard.engine.start_flush(attached))
}
