//! MPI 3.10: a send and a receive in one call, or as one request.

use core::ffi::c_int;

use crate::abi::*;
use crate::check::inspection::Inspect;
use crate::comm::HasComms;
use crate::datatype::Data;
use crate::datatype::HasTypes;
use crate::engine::completion::outcome_result;
use crate::engine::message::Mode;
use crate::error::Result;
use crate::point_to_point;
use crate::progress::Progress;
use crate::request::Started;
use crate::request::extra::Part;

use super::receives::finish_receive;

/// A send and a receive that cannot wait for each other.
///
/// # Safety
/// The user's buffers are valid; `status` is MPI_STATUS_IGNORE or valid for writing.
pub(super) unsafe fn send_receive(
    call: &mut (impl Progress + Inspect + HasComms + HasTypes),
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
    point_to_point::checked_source(call, source, recvtag, comm)?;
    call.types().buffer(to)?;
    let started = point_to_point::start_send(call, from, dest, sendtag, comm, Mode::Standard)?;
    // SAFETY: as our caller's.
    let received = unsafe {
        match point_to_point::try_receive_small(call, to, source, recvtag, comm) {
            Some(outcome) => {
                outcome.write(status);
                Ok(())
            }
            None => finish_receive(call, to, source, recvtag, comm, status),
        }
    };
    if let Started::Pending(index) = started {
        let sent = call.finish_request(index);
        return received.and_then(|()| outcome_result(&sent, 0));
    }
    received
}

/// The same from and into one buffer.
///
/// # Safety
/// As [`send_receive`].
pub(super) unsafe fn send_receive_replace(
    call: &mut (impl Progress + Inspect + HasComms + HasTypes),
    data: Data,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    let buffer = call.types().buffer(data)?;
    let mut copy = vec![0_u8; buffer.bytes];
    // SAFETY: the user's memory is valid for the length of the message.
    unsafe { buffer.load(0, copy.as_mut_ptr(), buffer.bytes) };
    let from = Data::new(copy.as_ptr().cast(), copy.len() as i64, MPI_BYTE);
    // SAFETY: our contract; the copy lives until the send is finished.
    unsafe { send_receive(call, from, dest, sendtag, data, source, recvtag, comm, status) }
}

/// Starts a send and a receive as one request.
pub(super) fn start(
    call: &mut (impl Progress + Inspect + HasComms + HasTypes),
    from: Data,
    dest: c_int,
    sendtag: c_int,
    to: Data,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
) -> Result<MPI_Request> {
    point_to_point::message(call, from, dest, sendtag, comm, Mode::Standard)?;
    let received: Part = point_to_point::start_receive(call, to, source, recvtag, comm)?.into();
    let sent: Part = point_to_point::start_send(call, from, dest, sendtag, comm, Mode::Standard)?.into();
    let index = call.engine_mut().combine([received, sent]);
    Ok(MPI_Request(call.engine().requests.handle(index)))
}

/// Starts a send from and a receive into one buffer.
pub(super) fn start_replace(
    call: &mut (impl Progress + Inspect + HasComms + HasTypes),
    data: Data,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
) -> Result<MPI_Request> {
    point_to_point::checked_source(call, source, recvtag, comm)?;
    if let Some(message) = point_to_point::message(call, data, dest, sendtag, comm, Mode::Standard)? {
        call.engine_mut().send_copied(message);
    }
    // The copy belongs to the send, so the receive alone is what the user waits for.
    let received = point_to_point::start_receive(call, data, source, recvtag, comm)?;
    Ok(call.engine_mut().receive_handle(received))
}
