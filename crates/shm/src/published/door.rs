//! A connection to the server of published regions, as its clients and owners have it: each question is
//! answered before the next one. Who waits for an answer sleeps in the kernel.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use crate::users::{is_one_user, is_own_user};

use super::{Answer, Ask, DATA_BYTES_MAX, NoFrame, socket_name};

/// Descriptors that come with an answer, at most.
const DESCRIPTORS_MAX: usize = 2;

/// A connection. Packets are sent whole, so what has no answer may be said while another thread waits for
/// one.
#[derive(Debug)]
pub struct Door {
    socket: OwnedFd,
    /// Held until the answer is there.
    asking: Mutex<()>,
}

/// What came.
pub type Answered = (Answer, Vec<u8>, Vec<OwnedFd>);

impl Door {
    /// The server of a region of a user on this node. Whoever else listens under its name is none.
    ///
    /// # Errors
    /// When nobody does (`ConnectionRefused`), or another user (`PermissionDenied`).
    pub fn connect(uid: u32, name: &str) -> io::Result<Self> {
        let name = socket_name(uid, name);
        // SAFETY: the fresh descriptor is owned by nobody else; the address is filled within its bounds
        // (zip), and its length is that of the name.
        unsafe {
            let socket = OwnedFd::from_raw_fd(checked(libc::socket(
                libc::AF_UNIX,
                libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC,
                0,
            ))?);
            let mut address: libc::sockaddr_un = std::mem::zeroed();
            address.sun_family = libc::AF_UNIX as libc::sa_family_t;
            if name.len() >= address.sun_path.len() {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            for (to, from) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
                *to = from as libc::c_char;
            }
            let bytes = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
            retry(|| {
                let address = (&raw const address).cast();
                libc::connect(socket.as_raw_fd(), address, bytes as libc::socklen_t) as isize
            })?;
            let peer = peer_of(socket.as_fd())?;
            if peer.uid != uid || !(is_one_user(uid) || is_own_user(uid, peer.pid)) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            Ok(Door::of(socket))
        }
    }

    /// A connection whose other end is to be given to the server.
    ///
    /// # Errors
    /// When the kernel gives none.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let mut ends = [0; 2];
        // SAFETY: the kernel stores two fresh descriptors, which nobody else owns.
        unsafe {
            let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
            checked(libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()))?;
            Ok((Door::of(OwnedFd::from_raw_fd(ends[0])), OwnedFd::from_raw_fd(ends[1])))
        }
    }

    /// One that was received.
    pub fn of(socket: OwnedFd) -> Self {
        Door { socket, asking: Mutex::new(()) }
    }

    /// The connection itself.
    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// When the server has ended, or is none.
    pub fn ask(&self, ask: Ask, data: &[u8]) -> io::Result<Answered> {
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        self.send(ask, data)?;
        let mut bytes = vec![0; Answer::BYTES + DATA_BYTES_MAX];
        let (mut length, mut descriptors) = (0, Vec::new());
        loop {
            let received = receive(self.socket.as_fd(), &mut bytes[length..], &mut descriptors)?;
            if received == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            length += received;
            match Answer::take(&bytes[..length]) {
                Ok(Some((answer, data))) => return Ok((answer, data.to_vec(), descriptors)),
                Ok(None) => {}
                Err(NoFrame) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Says something that has no answer.
    pub fn say(&self, ask: Ask) {
        let _ = self.send(ask, &[]);
    }

    fn send(&self, ask: Ask, data: &[u8]) -> io::Result<()> {
        let head = ask.encode(data.len());
        let packet = [&head[..], data].concat();
        let mut sent = 0;
        while sent < packet.len() {
            let rest = &packet[sent..];
            // SAFETY: the buffer is valid for its length.
            sent += retry(|| unsafe {
                libc::send(self.socket.as_raw_fd(), rest.as_ptr().cast(), rest.len(), libc::MSG_NOSIGNAL)
            })? as usize;
        }
        Ok(())
    }

    /// Waits for a message; its length, 0 when no more come. For the socket of messages.
    ///
    /// # Errors
    /// When the kernel says so.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        receive(self.socket.as_fd(), into, &mut Vec::new())
    }

    /// A message was taken: there is room for another one.
    pub fn acknowledge(&self) {
        // SAFETY: the buffer is valid for its length.
        let _ = retry(|| unsafe {
            libc::send(self.socket.as_raw_fd(), [1_u8].as_ptr().cast(), 1, libc::MSG_NOSIGNAL)
        });
    }

    /// Nothing comes any more: who waits for a message is told so.
    pub fn shut(&self) {
        // SAFETY: a plain system call.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
    }
}

/// The process at the other end of a local socket, and its user.
///
/// # Errors
/// When the kernel does not tell.
pub(super) fn peer_of(socket: BorrowedFd<'_>) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes into the structure, whose length it is given, and which lives for the call.
    checked(unsafe {
        let into = (&raw mut peer).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, into, &mut length)
    })?;
    Ok(peer)
}

fn receive(socket: BorrowedFd<'_>, into: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    // SAFETY: zeroed is a valid value of these plain structures; the pointers stay valid during the call; the
    // control buffer is aligned for cmsghdr and has room; descriptors that arrive are owned by nobody else.
    unsafe {
        let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let mut control = [0_u64; 4];
        const { assert!(size_of::<[u64; 4]>() >= 16 + DESCRIPTORS_MAX * size_of::<libc::c_int>()) };
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        let received = retry(|| libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC))?;
        let first = libc::CMSG_FIRSTHDR(&header);
        if !first.is_null()
            && (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_RIGHTS
        {
            let bytes = (*first).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let numbers = libc::CMSG_DATA(first).cast::<libc::c_int>();
            for index in 0..bytes / size_of::<libc::c_int>() {
                descriptors.push(OwnedFd::from_raw_fd(numbers.add(index).read_unaligned()));
            }
        }
        Ok(received as usize)
    }
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn retry(mut call: impl FnMut() -> isize) -> io::Result<isize> {
    loop {
        let result = call();
        if result >= 0 {
            return Ok(result);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
