//! MPI 3.9 and 3.10: persistent requests; a send and a receive as one request.

use core::ffi::{c_int, c_void};
use std::rc::Rc;

use crate::abi::*;
use crate::engine::message::{Mode, Started};
use crate::errhandler::call;
use crate::error::{Error, Result, check};
use crate::extra::{NOTHING, Part};
use crate::point_to_point::{Data, Named};
use crate::process::Guard;
use crate::request::{Request, RequestKind};

/// A persistent send: arguments are checked now, the operation starts later.
fn send_init(
    guard: &mut Guard,
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    how: How,
) -> Result<MPI_Request> {
    let mode = if let How::Mode(mode) = how { mode } else { Mode::Standard };
    // Translated now: the user may free datatype and communicator before the operation starts.
    let message = guard.message(data, dest, tag, comm, mode)?;
    let index = guard.persistent(Rc::new(move |guard: &mut Guard| {
        let started = match (message.clone(), how) {
            (None, _) => Started::Done,
            (Some(message), How::Mode(_)) => guard.engine.send(message),
            (Some(message), How::Buffered) => {
                guard.send_buffered(message, comm)?;
                Started::Done
            }
        };
        Ok([started.into(), NOTHING])
    }));
    Ok(MPI_Request(guard.engine.requests.handle(index)))
}

/// How a persistent send is started.
#[derive(Clone, Copy)]
enum How {
    Mode(Mode),
    Buffered,
}

fn recv_init(
    guard: &mut Guard,
    data: Data,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<MPI_Request> {
    let found = guard.checked_source(source, tag, comm)?;
    let (buffer, group) = (guard.buffer(data)?, guard.comm(comm)?.translation());
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

fn start(guard: &mut Guard, request: MPI_Request) -> Result<()> {
    match guard.named_request(request)? {
        Named::Inactive(index) | Named::Pending(index) => guard.start_persistent(index),
        Named::Null | Named::FinishedSend => {
            Err(Error::new(MPI_ERR_REQUEST, "the request is not a persistent one"))
        }
    }
}

/// Starts a persistent operation (3.9).
#[inline]
pub unsafe fn MPI_Start(request: *mut MPI_Request) -> c_int {
    call(c"MPI_Start", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives a request.
        start(guard, unsafe { *request })
    })
}

/// Starts several persistent operations (3.9).
#[inline]
pub unsafe fn MPI_Startall(count: c_int, array_of_requests: *mut MPI_Request) -> c_int {
    call(c"MPI_Startall", MPI_COMM_SELF, |guard| {
        check(count >= 0, MPI_ERR_COUNT, || format!("count is {count}, expected 0 or more"))?;
        for i in 0..count as usize {
            // SAFETY: the user gives an array of `count` requests.
            start(guard, unsafe { *array_of_requests.add(i) })?;
        }
        Ok(())
    })
}

/// Prepares a send (3.9).
#[inline]
pub unsafe fn MPI_Send_init(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Send_init", comm, |guard| {
        let handle =
            send_init(guard, Data::new(buf, count, datatype), dest, tag, comm, How::Mode(Mode::Standard))?;
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(handle) };
        Ok(())
    })
}

/// Prepares a send to a receive that is posted already (3.9).
#[inline]
pub unsafe fn MPI_Rsend_init(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Rsend_init", comm, |guard| {
        let handle =
            send_init(guard, Data::new(buf, count, datatype), dest, tag, comm, How::Mode(Mode::Standard))?;
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(handle) };
        Ok(())
    })
}

/// Prepares a synchronous send (3.9).
#[inline]
pub unsafe fn MPI_Ssend_init(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ssend_init", comm, |guard| {
        let handle =
            send_init(guard, Data::new(buf, count, datatype), dest, tag, comm, How::Mode(Mode::Synchronous))?;
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(handle) };
        Ok(())
    })
}

/// Prepares a buffered send (3.9).
#[inline]
pub unsafe fn MPI_Bsend_init(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Bsend_init", comm, |guard| {
        let handle = send_init(guard, Data::new(buf, count, datatype), dest, tag, comm, How::Buffered)?;
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(handle) };
        Ok(())
    })
}

/// Prepares a receive (3.9).
#[inline]
pub unsafe fn MPI_Recv_init(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Recv_init", comm, |guard| {
        let handle = recv_init(guard, Data::new(buf, count, datatype), source, tag, comm)?;
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(handle) };
        Ok(())
    })
}

/// Starts a send and a receive as one request (3.10).
#[inline]
pub unsafe fn MPI_Isendrecv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Isendrecv", comm, |guard| {
        let (from, to) = (Data::new(sendbuf, sendcount, sendtype), Data::new(recvbuf, recvcount, recvtype));
        guard.message(from, dest, sendtag, comm, Mode::Standard)?;
        let received: Part = guard.start_receive(to, source, recvtag, comm)?.into();
        let sent: Part = guard.start_send(from, dest, sendtag, comm, Mode::Standard)?.into();
        let index = guard.combine([received, sent]);
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(MPI_Request(guard.engine.requests.handle(index))) };
        Ok(())
    })
}

/// Starts a send from and a receive into one buffer (3.10).
#[inline]
pub unsafe fn MPI_Isendrecv_replace(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Isendrecv_replace", comm, |guard| {
        let data = Data::new(buf, count, datatype);
        guard.checked_source(source, recvtag, comm)?;
        if let Some(message) = guard.message(data, dest, sendtag, comm, Mode::Standard)? {
            guard.send_copied(message);
        }
        // The copy belongs to the send, so the receive alone is what the user waits for.
        let received = guard.start_receive(data, source, recvtag, comm)?;
        let handle = guard.receive_handle(received);
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(handle) };
        Ok(())
    })
}

/// Prepares a send (3.9). Large count.
#[inline]
pub unsafe fn MPI_Send_init_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Send_init_c", comm, |guard| {
        let handle =
            send_init(guard, Data::new(buf, count, datatype), dest, tag, comm, How::Mode(Mode::Standard))?;
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(handle) };
        Ok(())
    })
}

/// Prepares a send to a receive that is posted already (3.9). Large count.
#[inline]
pub unsafe fn MPI_Rsend_init_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Rsend_init_c", comm, |guard| {
        let handle =
            send_init(guard, Data::new(buf, count, datatype), dest, tag, comm, How::Mode(Mode::Standard))?;
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(handle) };
        Ok(())
    })
}

/// Prepares a synchronous send (3.9). Large count.
#[inline]
pub unsafe fn MPI_Ssend_init_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ssend_init_c", comm, |guard| {
        let handle =
            send_init(guard, Data::new(buf, count, datatype), dest, tag, comm, How::Mode(Mode::Synchronous))?;
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(handle) };
        Ok(())
    })
}

/// Prepares a buffered send (3.9). Large count.
#[inline]
pub unsafe fn MPI_Bsend_init_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Bsend_init_c", comm, |guard| {
        let handle = send_init(guard, Data::new(buf, count, datatype), dest, tag, comm, How::Buffered)?;
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(handle) };
        Ok(())
    })
}

/// Prepares a receive (3.9). Large count.
#[inline]
pub unsafe fn MPI_Recv_init_c(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Recv_init_c", comm, |guard| {
        let handle = recv_init(guard, Data::new(buf, count, datatype), source, tag, comm)?;
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(handle) };
        Ok(())
    })
}

/// Starts a send and a receive as one request (3.10). Large count.
#[inline]
pub unsafe fn MPI_Isendrecv_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Isendrecv_c", comm, |guard| {
        let (from, to) = (Data::new(sendbuf, sendcount, sendtype), Data::new(recvbuf, recvcount, recvtype));
        guard.message(from, dest, sendtag, comm, Mode::Standard)?;
        let received: Part = guard.start_receive(to, source, recvtag, comm)?.into();
        let sent: Part = guard.start_send(from, dest, sendtag, comm, Mode::Standard)?.into();
        let index = guard.combine([received, sent]);
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(MPI_Request(guard.engine.requests.handle(index))) };
        Ok(())
    })
}

/// Starts a send from and a receive into one buffer (3.10). Large count.
#[inline]
pub unsafe fn MPI_Isendrecv_replace_c(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Isendrecv_replace_c", comm, |guard| {
        let data = Data::new(buf, count, datatype);
        guard.checked_source(source, recvtag, comm)?;
        if let Some(message) = guard.message(data, dest, sendtag, comm, Mode::Standard)? {
            guard.send_copied(message);
        }
        // The copy belongs to the send, so the receive alone is what the user waits for.
        let received = guard.start_receive(data, source, recvtag, comm)?;
        let handle = guard.receive_handle(received);
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(handle) };
        Ok(())
    })
}
