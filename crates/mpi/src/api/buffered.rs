//! MPI 3.6: buffered sends, and the buffers for them.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::buffered::PROCESS_BUFFER;
use crate::engine::message::Mode;
use crate::error::Result;
use crate::point_to_point::Data;
use crate::process::Guard;
use crate::request::Started;

/// What a buffer is attached to.
pub(super) trait BufferOwner {
    /// The key of its buffer.
    ///
    /// # Errors
    /// That of a handle of nothing.
    fn key(self, guard: &Guard) -> Result<usize>;
}

/// The process.
pub(super) struct ProcessBuffer;

impl BufferOwner for ProcessBuffer {
    fn key(self, _: &Guard) -> Result<usize> {
        Ok(PROCESS_BUFFER)
    }
}

impl BufferOwner for MPI_Comm {
    fn key(self, guard: &Guard) -> Result<usize> {
        guard.comm(self).map(|_| self.0)
    }
}

impl BufferOwner for MPI_Session {
    fn key(self, guard: &Guard) -> Result<usize> {
        guard.session(self).map(|_| self.0)
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
    owner: impl BufferOwner,
    address: *mut c_void,
    bytes: i64,
) -> Result<()> {
    let key = owner.key(guard)?;
    guard.attach_buffer(key, address, bytes)
}

/// Detaches a buffer when it is empty: where it was and how large.
pub(super) fn detach(guard: &mut Guard, owner: impl BufferOwner) -> Result<(*mut c_void, i128)> {
    let key = owner.key(guard)?;
    let attached = guard.detach_buffer(key)?;
    let is_automatic = attached.address == MPI_BUFFER_AUTOMATIC;
    Ok((attached.address, if is_automatic { 0 } else { attached.bytes as i128 }))
}

/// Waits until a buffer is empty.
pub(super) fn flush(guard: &mut Guard, owner: impl BufferOwner) -> Result<()> {
    let key = owner.key(guard)?;
    guard.flush_buffer(key).map(drop)
}

/// Starts waiting until a buffer is empty.
pub(super) fn start_flush(guard: &mut Guard, owner: impl BufferOwner) -> Result<MPI_Request> {
    let key = owner.key(guard)?;
    guard.start_flush(key)
}
