//! MPI 3.10: a send and a receive in one call.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::engine::message::{Mode, Started};
use crate::errhandler::call;
use crate::error::Result;
use crate::point_to_point::Data;
use crate::process::Guard;

use super::receives::finish_receive;

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
