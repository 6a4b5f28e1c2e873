//! MPI chapter 3: blocking and nonblocking sends and receives, probes.

use core::ffi::{CStr, c_int, c_void};

use crate::abi::*;
use crate::engine::{Mode, Started};
use crate::errhandler::{call, go_on, outside};
use crate::error::Result;
use crate::point_to_point::{Data, FINISHED_SEND, outcome_result};
use crate::process::{self, Guard};
use crate::request::Outcome;

/// A blocking send: the short way here, in registers; anything else, wrong arguments included, in a function of its own.
#[inline(always)]
fn send(name: &'static CStr, data: Data, dest: c_int, tag: c_int, comm: MPI_Comm, mode: Mode) -> c_int {
    let Some(mut guard) = process::enter_running() else {
        return enter_and_send(name, data, dest, tag, comm, mode);
    };
    if mode == Mode::Standard && guard.try_send_small(data, dest, tag, comm) {
        guard.leave();
        return MPI_SUCCESS;
    }
    send_slowly(guard, name, data, dest, tag, comm, mode)
}

/// The process is not running, or it is being checked.
#[cold]
#[inline(never)]
fn enter_and_send(
    name: &'static CStr,
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Mode,
) -> c_int {
    match process::enter_call(name) {
        Some(guard) => send_slowly(guard, name, data, dest, tag, comm, mode),
        None => outside(name),
    }
}

#[inline(never)]
fn send_slowly(
    guard: Guard,
    name: &'static CStr,
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Mode,
) -> c_int {
    go_on(guard, name, comm, |guard| {
        if let Started::Pending(index) = guard.start_send(data, dest, tag, comm, mode)? {
            guard.finish_request(index);
        }
        Ok(())
    })
}

/// Starts a standard send, the short way if it can be gone.
///
/// # Safety
/// `request` is valid for writing.
#[inline(always)]
unsafe fn start_send(
    name: &'static CStr,
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let Some(mut guard) = process::enter_running() else {
        // SAFETY: our contract.
        return unsafe { enter_and_start_send(name, data, dest, tag, comm, Mode::Standard, request) };
    };
    if guard.try_send_small(data, dest, tag, comm) {
        // SAFETY: our contract.
        unsafe { request.write(FINISHED_SEND) };
        guard.leave();
        return MPI_SUCCESS;
    }
    // SAFETY: our contract.
    unsafe { start_send_slowly(guard, name, data, dest, tag, comm, Mode::Standard, request) }
}

/// Starts a send.
///
/// # Safety
/// `request` is valid for writing.
#[inline(never)]
unsafe fn start_send_slowly(
    guard: Guard,
    name: &'static CStr,
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Mode,
    request: *mut MPI_Request,
) -> c_int {
    go_on(guard, name, comm, |guard| {
        let started = guard.start_send(data, dest, tag, comm, mode)?;
        // SAFETY: our contract.
        unsafe { request.write(guard.send_handle(started)) };
        Ok(())
    })
}

/// Starts a send without the short way: a synchronous one, or the process is not running or being checked.
///
/// # Safety
/// `request` is valid for writing.
#[inline(never)]
unsafe fn enter_and_start_send(
    name: &'static CStr,
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Mode,
    request: *mut MPI_Request,
) -> c_int {
    match process::enter_call(name) {
        // SAFETY: our contract.
        Some(guard) => unsafe { start_send_slowly(guard, name, data, dest, tag, comm, mode, request) },
        None => outside(name),
    }
}

/// A blocking receive, the short way if the message comes soon.
///
/// # Safety
/// The user's buffer is valid; `status` is MPI_STATUS_IGNORE or valid for writing.
#[inline(always)]
unsafe fn receive(
    name: &'static CStr,
    data: Data,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    let Some(mut guard) = process::enter_running() else {
        // SAFETY: our contract.
        return unsafe { enter_and_receive(name, data, source, tag, comm, status) };
    };
    // SAFETY: our contract.
    unsafe {
        if let Some(outcome) = guard.try_receive_small(data, source, tag, comm) {
            outcome.write(status);
            guard.leave();
            return MPI_SUCCESS;
        }
        receive_slowly(guard, name, data, source, tag, comm, status)
    }
}

/// The process is not running, or it is being checked.
///
/// # Safety
/// As [`receive`].
#[cold]
#[inline(never)]
unsafe fn enter_and_receive(
    name: &'static CStr,
    data: Data,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    match process::enter_call(name) {
        // SAFETY: our contract.
        Some(guard) => unsafe { receive_slowly(guard, name, data, source, tag, comm, status) },
        None => outside(name),
    }
}

#[inline(never)]
unsafe fn receive_slowly(
    guard: Guard,
    name: &'static CStr,
    data: Data,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: our caller's contract.
    go_on(guard, name, comm, |guard| unsafe { finish_receive(guard, data, source, tag, comm, status) })
}

/// Receives and waits for the message.
unsafe fn finish_receive(
    guard: &mut Guard,
    data: Data,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    let (outcome, capacity) = match guard.start_receive(data, source, tag, comm)? {
        None => (Outcome::PROC_NULL, 0),
        Some(index) => {
            let capacity = guard.engine.requests.get(index).buffer.bytes;
            (guard.finish_request(index), capacity)
        }
    };
    // SAFETY: the user gives a status or MPI_STATUS_IGNORE.
    unsafe { outcome.write(status) };
    outcome_result(&outcome, capacity)
}

/// Starts a receive, the short way if it can be gone.
///
/// # Safety
/// The user's buffer is valid; `request` is valid for writing.
#[inline(always)]
unsafe fn start_receive(
    name: &'static CStr,
    data: Data,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let Some(mut guard) = process::enter_running() else {
        // SAFETY: our contract.
        return unsafe { enter_and_start_receive(name, data, source, tag, comm, request) };
    };
    // SAFETY: our contract.
    unsafe {
        if let Some(handle) = guard.try_start_receive_small(data, source, tag, comm) {
            request.write(handle);
            guard.leave();
            return MPI_SUCCESS;
        }
        start_receive_slowly(guard, name, data, source, tag, comm, request)
    }
}

/// The process is not running, or it is being checked.
///
/// # Safety
/// As [`start_receive`].
#[cold]
#[inline(never)]
unsafe fn enter_and_start_receive(
    name: &'static CStr,
    data: Data,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    match process::enter_call(name) {
        // SAFETY: our contract.
        Some(guard) => unsafe { start_receive_slowly(guard, name, data, source, tag, comm, request) },
        None => outside(name),
    }
}

#[inline(never)]
unsafe fn start_receive_slowly(
    guard: Guard,
    name: &'static CStr,
    data: Data,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    go_on(guard, name, comm, |guard| {
        let started = guard.start_receive(data, source, tag, comm)?;
        let handle = guard.receive_handle(started);
        // SAFETY: our caller's contract.
        unsafe { request.write(handle) };
        Ok(())
    })
}

/// Sends (3.2.1).
#[inline]
pub unsafe fn MPI_Send(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send(c"MPI_Send", Data::new(buf, count, datatype), dest, tag, comm, Mode::Standard)
}

/// Sends to a receive that is posted already (3.4).
#[inline]
pub unsafe fn MPI_Rsend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send(c"MPI_Rsend", Data::new(buf, count, datatype), dest, tag, comm, Mode::Standard)
}

/// Sends and waits for the receive to start (3.4).
#[inline]
pub unsafe fn MPI_Ssend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send(c"MPI_Ssend", Data::new(buf, count, datatype), dest, tag, comm, Mode::Synchronous)
}

/// Starts a send (3.7.2).
#[inline]
pub unsafe fn MPI_Isend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the user gives a place for the request.
    unsafe { start_send(c"MPI_Isend", Data::new(buf, count, datatype), dest, tag, comm, request) }
}

/// Starts a send to a receive that is posted already (3.7.2).
#[inline]
pub unsafe fn MPI_Irsend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the user gives a place for the request.
    unsafe { start_send(c"MPI_Irsend", Data::new(buf, count, datatype), dest, tag, comm, request) }
}

/// Starts a synchronous send (3.7.2).
#[inline]
pub unsafe fn MPI_Issend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let data = Data::new(buf, count, datatype);
    // SAFETY: the user gives a place for the request.
    unsafe { enter_and_start_send(c"MPI_Issend", data, dest, tag, comm, Mode::Synchronous, request) }
}

/// Receives (3.2.4).
#[inline]
pub unsafe fn MPI_Recv(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the user gives a valid buffer, and a status or MPI_STATUS_IGNORE.
    unsafe { receive(c"MPI_Recv", Data::new(buf, count, datatype), source, tag, comm, status) }
}

/// Starts a receive (3.7.2).
#[inline]
pub unsafe fn MPI_Irecv(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the user gives a valid buffer and a place for the request.
    unsafe { start_receive(c"MPI_Irecv", Data::new(buf, count, datatype), source, tag, comm, request) }
}

/// Sends and receives at once (3.10).
#[inline]
pub unsafe fn MPI_Sendrecv(
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
    status: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Sendrecv", comm, |guard| {
        let (from, to) = (Data::new(sendbuf, sendcount, sendtype), Data::new(recvbuf, recvcount, recvtype));
        // SAFETY: the user gives a status or MPI_STATUS_IGNORE.
        unsafe { send_receive(guard, from, dest, sendtag, to, source, recvtag, comm, status) }
    })
}

/// Sends from and receives into one buffer (3.10).
#[inline]
pub unsafe fn MPI_Sendrecv_replace(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Sendrecv_replace", comm, |guard| {
        let data = Data::new(buf, count, datatype);
        let buffer = guard.buffer(data)?;
        let mut copy = vec![0_u8; buffer.bytes];
        // SAFETY: the user's memory is valid for the length of the message.
        unsafe { buffer.load(0, copy.as_mut_ptr(), buffer.bytes) };
        let from = Data::new(copy.as_ptr().cast(), copy.len() as i64, MPI_BYTE);
        // SAFETY: the user gives a status or MPI_STATUS_IGNORE; the copy lives until the send is finished.
        unsafe { send_receive(guard, from, dest, sendtag, data, source, recvtag, comm, status) }
    })
}

/// Sends (3.2.1). Large count.
#[inline]
pub unsafe fn MPI_Send_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send(c"MPI_Send_c", Data::new(buf, count, datatype), dest, tag, comm, Mode::Standard)
}

/// Sends to a receive that is posted already (3.4). Large count.
#[inline]
pub unsafe fn MPI_Rsend_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send(c"MPI_Rsend_c", Data::new(buf, count, datatype), dest, tag, comm, Mode::Standard)
}

/// Sends and waits for the receive to start (3.4). Large count.
#[inline]
pub unsafe fn MPI_Ssend_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send(c"MPI_Ssend_c", Data::new(buf, count, datatype), dest, tag, comm, Mode::Synchronous)
}

/// Starts a send (3.7.2). Large count.
#[inline]
pub unsafe fn MPI_Isend_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the user gives a place for the request.
    unsafe { start_send(c"MPI_Isend_c", Data::new(buf, count, datatype), dest, tag, comm, request) }
}

/// Starts a send to a receive that is posted already (3.7.2). Large count.
#[inline]
pub unsafe fn MPI_Irsend_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the user gives a place for the request.
    unsafe { start_send(c"MPI_Irsend_c", Data::new(buf, count, datatype), dest, tag, comm, request) }
}

/// Starts a synchronous send (3.7.2). Large count.
#[inline]
pub unsafe fn MPI_Issend_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let data = Data::new(buf, count, datatype);
    // SAFETY: the user gives a place for the request.
    unsafe { enter_and_start_send(c"MPI_Issend_c", data, dest, tag, comm, Mode::Synchronous, request) }
}

/// Receives (3.2.4). Large count.
#[inline]
pub unsafe fn MPI_Recv_c(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the user gives a valid buffer, and a status or MPI_STATUS_IGNORE.
    unsafe { receive(c"MPI_Recv_c", Data::new(buf, count, datatype), source, tag, comm, status) }
}

/// Starts a receive (3.7.2). Large count.
#[inline]
pub unsafe fn MPI_Irecv_c(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the user gives a valid buffer and a place for the request.
    unsafe { start_receive(c"MPI_Irecv_c", Data::new(buf, count, datatype), source, tag, comm, request) }
}

/// Sends and receives at once (3.10). Large count.
#[inline]
pub unsafe fn MPI_Sendrecv_c(
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
    status: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Sendrecv_c", comm, |guard| {
        let (from, to) = (Data::new(sendbuf, sendcount, sendtype), Data::new(recvbuf, recvcount, recvtype));
        // SAFETY: the user gives a status or MPI_STATUS_IGNORE.
        unsafe { send_receive(guard, from, dest, sendtag, to, source, recvtag, comm, status) }
    })
}

/// Sends from and receives into one buffer (3.10). Large count.
#[inline]
pub unsafe fn MPI_Sendrecv_replace_c(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Sendrecv_replace_c", comm, |guard| {
        let data = Data::new(buf, count, datatype);
        let buffer = guard.buffer(data)?;
        let mut copy = vec![0_u8; buffer.bytes];
        // SAFETY: the user's memory is valid for the length of the message.
        unsafe { buffer.load(0, copy.as_mut_ptr(), buffer.bytes) };
        let from = Data::new(copy.as_ptr().cast(), copy.len() as i64, MPI_BYTE);
        // SAFETY: the user gives a status or MPI_STATUS_IGNORE; the copy lives until the send is finished.
        unsafe { send_receive(guard, from, dest, sendtag, data, source, recvtag, comm, status) }
    })
}

/// A send and a receive that cannot wait for each other.
unsafe fn send_receive(
    guard: &mut Guard,
    from: Data,
    dest: c_int,
    sendtag: c_int,
    to: Data,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    // All arguments are checked before anything is posted, so that an error leaves no operation behind.
    guard.checked_source(source, recvtag, comm)?;
    guard.buffer(to)?;
    let started = guard.start_send(from, dest, sendtag, comm, Mode::Standard)?;
    // SAFETY: as our caller's.
    let received = unsafe {
        match guard.try_receive_small(to, source, recvtag, comm) {
            Some(outcome) => {
                outcome.write(status);
                Ok(())
            }
            None => finish_receive(guard, to, source, recvtag, comm, status),
        }
    };
    if let Started::Pending(index) = started {
        guard.finish_request(index);
    }
    received
}

/// What a probe found, as a status.
fn probed(guard: &Guard, comm: MPI_Comm, context: u32, source: c_int, tag: c_int) -> Option<Outcome> {
    let found = guard.engine.probe(context, source, tag)?;
    let source = guard.comm(comm).ok()?.peers().rank_of(found.source)? as c_int;
    Some(Outcome { source, tag: found.tag, bytes: found.bytes, ..Outcome::EMPTY })
}

/// Waits for a message without receiving it (3.8.1).
#[inline]
pub unsafe fn MPI_Probe(source: c_int, tag: c_int, comm: MPI_Comm, status: *mut MPI_Status) -> c_int {
    call(c"MPI_Probe", comm, |guard| {
        let outcome = match guard.checked_source(source, tag, comm)? {
            None => Outcome::PROC_NULL,
            Some((source, context)) => {
                guard.await_message(context, source, tag);
                probed(guard, comm, context, source, tag).expect("a message found stays until it is received")
            }
        };
        // SAFETY: the user gives a status or MPI_STATUS_IGNORE.
        unsafe { outcome.write(status) };
        Ok(())
    })
}

/// Looks for a message without receiving it (3.8.1).
#[inline]
pub unsafe fn MPI_Iprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Iprobe", comm, |guard| {
        let outcome = match guard.checked_source(source, tag, comm)? {
            None => Some(Outcome::PROC_NULL),
            Some((source, context)) => probed(guard, comm, context, source, tag).or_else(|| {
                guard.progress(None);
                probed(guard, comm, context, source, tag)
            }),
        };
        // SAFETY: the user gives a place for the flag, and a status or MPI_STATUS_IGNORE.
        unsafe {
            flag.write(c_int::from(outcome.is_some()));
            if let Some(outcome) = outcome {
                outcome.write(status);
            }
        }
        Ok(())
    })
}
