//! MPI 3.6: buffered sends, and the buffers for them.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::buffered::BufferOwner;
use crate::datatype::Data;
use crate::engine::message::Mode;
use crate::error::Result;
use crate::process::Guard;
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
        Some(message) => guard.send_buffered(message, comm),
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
    Ok(guard.send_handle(Started::Done))
}

/// Attaches a buffer.
pub(super) fn attach(
    guard: &mut Guard,
    owner: impl Into<BufferOwner>,
    address: *mut c_void,
    bytes: i64,
) -> Result<()> {
    guard.attach_buffer(owner.into(), address, bytes)
}

/// Detaches a buffer when it is empty: where it was and how large.
pub(super) fn detach(guard: &mut Guard, owner: impl Into<BufferOwner>) -> Result<(*mut c_void, i128)> {
    let attached = guard.detach_buffer(owner.into())?;
    let is_automatic = attached.address == MPI_BUFFER_AUTOMATIC;
    Ok((attached.address, if is_automatic { 0 } else { attached.bytes as i128 }))
}

/// Waits until a buffer is empty.
pub(super) fn flush(guard: &mut Guard, owner: impl Into<BufferOwner>) -> Result<()> {
    guard.flush_buffer(owner.into()).map(drop)
}

/// Starts waiting until a buffer is empty.
pub(super) fn start_flush(guard: &mut Guard, owner: impl Into<BufferOwner>) -> Result<MPI_Request> {
    guard.start_flush(owner.into())
}
