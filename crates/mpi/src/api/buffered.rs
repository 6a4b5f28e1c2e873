//! MPI 3.6: buffered sends, and the buffers for them.

use core::ffi::{c_int, c_void};

use super::sessions::on_session;
use crate::abi::*;
use crate::argument::put;
use crate::buffered::PROCESS_BUFFER;
use crate::engine::message::{Mode, Started};
use crate::errhandler::call;
use crate::error::{Result, check};
use crate::point_to_point::Data;
use crate::process::Guard;

fn buffered(guard: &mut Guard, data: Data, dest: c_int, tag: c_int, comm: MPI_Comm) -> Result<()> {
    match guard.message(data, dest, tag, comm, Mode::Standard)? {
        Some(message) => guard.send_buffered(message, comm),
        None => Ok(()),
    }
}

/// Detaches a buffer and tells the user where it was.
unsafe fn detach<T: TryFrom<i64>>(
    guard: &mut Guard,
    owner: usize,
    address: *mut c_void,
    size: *mut T,
) -> Result<()> {
    let attached = guard.detach_buffer(owner)?;
    let automatic = attached.address == MPI_BUFFER_AUTOMATIC;
    let bytes = if automatic { 0 } else { attached.bytes as i64 };
    // SAFETY: the user gives places for an address (declared as void * by the standard) and a size.
    unsafe {
        address.cast::<*mut c_void>().write(attached.address);
        if let Ok(bytes) = T::try_from(bytes) {
            size.write(bytes);
        }
    }
    Ok(())
}

/// Sends from a copy of the data (3.4).
#[inline]
pub unsafe fn MPI_Bsend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Bsend", comm, |guard| buffered(guard, Data::new(buf, count, datatype), dest, tag, comm))
}

/// Sends from a copy of the data; the request is done at once (3.7.2).
#[inline]
pub unsafe fn MPI_Ibsend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ibsend", comm, |guard| {
        buffered(guard, Data::new(buf, count, datatype), dest, tag, comm)?;
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(guard.send_handle(Started::Done)) };
        Ok(())
    })
}

/// Attaches a buffer for buffered sends (3.6).
#[inline]
pub unsafe fn MPI_Buffer_attach(buffer: *mut c_void, size: c_int) -> c_int {
    call(c"MPI_Buffer_attach", MPI_COMM_SELF, |guard| {
        guard.attach_buffer(PROCESS_BUFFER, buffer, i64::from(size))
    })
}

/// Gives an attached buffer back when it is empty (3.6).
#[inline]
pub unsafe fn MPI_Buffer_detach(buffer_addr: *mut c_void, size: *mut c_int) -> c_int {
    call(c"MPI_Buffer_detach", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives places for the address and the size.
        unsafe { detach(guard, PROCESS_BUFFER, buffer_addr, size) }
    })
}

/// Attaches a buffer for buffered sends (3.6).
#[inline]
pub unsafe fn MPI_Comm_attach_buffer(comm: MPI_Comm, buffer: *mut c_void, size: c_int) -> c_int {
    call(c"MPI_Comm_attach_buffer", comm, |guard| {
        guard.comm(comm)?;
        guard.attach_buffer(comm.0, buffer, i64::from(size))
    })
}

/// Gives an attached buffer back when it is empty (3.6).
#[inline]
pub unsafe fn MPI_Comm_detach_buffer(comm: MPI_Comm, buffer_addr: *mut c_void, size: *mut c_int) -> c_int {
    call(c"MPI_Comm_detach_buffer", comm, |guard| {
        guard.comm(comm)?;
        // SAFETY: the user gives places for the address and the size.
        unsafe { detach(guard, comm.0, buffer_addr, size) }
    })
}

/// Sends from a copy of the data (3.4). Large count.
#[inline]
pub unsafe fn MPI_Bsend_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Bsend_c", comm, |guard| buffered(guard, Data::new(buf, count, datatype), dest, tag, comm))
}

/// Sends from a copy of the data; the request is done at once (3.7.2). Large count.
#[inline]
pub unsafe fn MPI_Ibsend_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ibsend_c", comm, |guard| {
        buffered(guard, Data::new(buf, count, datatype), dest, tag, comm)?;
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(guard.send_handle(Started::Done)) };
        Ok(())
    })
}

/// Attaches a buffer for buffered sends (3.6). Large count.
#[inline]
pub unsafe fn MPI_Buffer_attach_c(buffer: *mut c_void, size: MPI_Count) -> c_int {
    call(c"MPI_Buffer_attach_c", MPI_COMM_SELF, |guard| guard.attach_buffer(PROCESS_BUFFER, buffer, size))
}

/// Gives an attached buffer back when it is empty (3.6). Large count.
#[inline]
pub unsafe fn MPI_Buffer_detach_c(buffer_addr: *mut c_void, size: *mut MPI_Count) -> c_int {
    call(c"MPI_Buffer_detach_c", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives places for the address and the size.
        unsafe { detach(guard, PROCESS_BUFFER, buffer_addr, size) }
    })
}

/// Attaches a buffer for buffered sends (3.6). Large count.
#[inline]
pub unsafe fn MPI_Comm_attach_buffer_c(comm: MPI_Comm, buffer: *mut c_void, size: MPI_Count) -> c_int {
    call(c"MPI_Comm_attach_buffer_c", comm, |guard| {
        guard.comm(comm)?;
        guard.attach_buffer(comm.0, buffer, size)
    })
}

/// Gives an attached buffer back when it is empty (3.6). Large count.
#[inline]
pub unsafe fn MPI_Comm_detach_buffer_c(
    comm: MPI_Comm,
    buffer_addr: *mut c_void,
    size: *mut MPI_Count,
) -> c_int {
    call(c"MPI_Comm_detach_buffer_c", comm, |guard| {
        guard.comm(comm)?;
        // SAFETY: the user gives places for the address and the size.
        unsafe { detach(guard, comm.0, buffer_addr, size) }
    })
}

/// Waits until an attached buffer is empty (3.6).
#[inline]
pub unsafe fn MPI_Buffer_flush() -> c_int {
    call(c"MPI_Buffer_flush", MPI_COMM_SELF, |guard| guard.flush_buffer(PROCESS_BUFFER).map(drop))
}

/// Waits until an attached buffer is empty (3.6).
#[inline]
pub unsafe fn MPI_Comm_flush_buffer(comm: MPI_Comm) -> c_int {
    call(c"MPI_Comm_flush_buffer", comm, |guard| {
        guard.comm(comm)?;
        guard.flush_buffer(comm.0).map(drop)
    })
}

/// Starts waiting until an attached buffer is empty.
unsafe fn start_flush(guard: &mut Guard, owner: usize, request: *mut MPI_Request) -> Result<()> {
    check(!request.is_null(), MPI_ERR_REQUEST, || "request is a null pointer".into())?;
    let started = guard.start_flush(owner)?;
    // SAFETY: the user gives a place for the request.
    unsafe { put(request, "request", started) }
}

/// Starts waiting until an attached buffer is empty (3.6).
#[inline]
pub unsafe fn MPI_Buffer_iflush(request: *mut MPI_Request) -> c_int {
    call(c"MPI_Buffer_iflush", MPI_COMM_SELF, |guard| {
        // SAFETY: as the user's.
        unsafe { start_flush(guard, PROCESS_BUFFER, request) }
    })
}

/// Starts waiting until an attached buffer is empty (3.6).
#[inline]
pub unsafe fn MPI_Comm_iflush_buffer(comm: MPI_Comm, request: *mut MPI_Request) -> c_int {
    call(c"MPI_Comm_iflush_buffer", comm, |guard| {
        guard.comm(comm)?;
        // SAFETY: as the user's.
        unsafe { start_flush(guard, comm.0, request) }
    })
}

/// Attaches a buffer to a session (3.6).
#[inline]
pub unsafe fn MPI_Session_attach_buffer(session: MPI_Session, buffer: *mut c_void, size: c_int) -> c_int {
    on_session(c"MPI_Session_attach_buffer", session, |guard| {
        guard.attach_buffer(session.0, buffer, i64::from(size))
    })
}

/// Attaches a buffer to a session (3.6). Large count.
#[inline]
pub unsafe fn MPI_Session_attach_buffer_c(
    session: MPI_Session,
    buffer: *mut c_void,
    size: MPI_Count,
) -> c_int {
    on_session(c"MPI_Session_attach_buffer_c", session, |guard| guard.attach_buffer(session.0, buffer, size))
}

/// Gives the buffer of a session back when it is empty (3.6).
#[inline]
pub unsafe fn MPI_Session_detach_buffer(
    session: MPI_Session,
    buffer_addr: *mut c_void,
    size: *mut c_int,
) -> c_int {
    on_session(c"MPI_Session_detach_buffer", session, |guard| {
        // SAFETY: the user gives places for the address and the size.
        unsafe { detach(guard, session.0, buffer_addr, size) }
    })
}

/// Gives the buffer of a session back when it is empty (3.6). Large count.
#[inline]
pub unsafe fn MPI_Session_detach_buffer_c(
    session: MPI_Session,
    buffer_addr: *mut c_void,
    size: *mut MPI_Count,
) -> c_int {
    on_session(c"MPI_Session_detach_buffer_c", session, |guard| {
        // SAFETY: the user gives places for the address and the size.
        unsafe { detach(guard, session.0, buffer_addr, size) }
    })
}

/// Waits until the buffer of a session is empty (3.6).
#[inline]
pub unsafe fn MPI_Session_flush_buffer(session: MPI_Session) -> c_int {
    on_session(c"MPI_Session_flush_buffer", session, |guard| guard.flush_buffer(session.0).map(drop))
}

/// Starts waiting until the buffer of a session is empty (3.6).
#[inline]
pub unsafe fn MPI_Session_iflush_buffer(session: MPI_Session, request: *mut MPI_Request) -> c_int {
    on_session(c"MPI_Session_iflush_buffer", session, |guard| {
        // SAFETY: as the user's.
        unsafe { start_flush(guard, session.0, request) }
    })
}
