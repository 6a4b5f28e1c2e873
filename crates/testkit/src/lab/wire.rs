//! Messages between the keeper and a machine that comes to be: one packet each, with descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a message, at most.
const BYTES_MAX: usize = 128 << 10;
/// Descriptors of a message, at most.
pub(super) const DESCRIPTORS_MAX: usize = 200;

/// Two ends.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message.
pub(super) fn send<T: Serialize>(
    socket: impl AsFd,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message).map_err(io::Error::other)?;
    assert!(bytes.len() <= BYTES_MAX && descriptors.len() <= DESCRIPTORS_MAX, "a message has its bounds");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)), "there is room");
    }
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next message; `UnexpectedEof` when the other end is closed.
pub(super) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<(T, Vec<OwnedFd>)> {
    let mut bytes = vec![0; BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let message = serde_json::from_slice(&bytes[..received.bytes]).map_err(io::Error::other)?;
    Ok((message, descriptors))
}
