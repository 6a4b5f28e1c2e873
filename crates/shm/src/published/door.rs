//! A connection to the server of published regions, as its clients and owners have it: each question is
//! answered before the next one. Who waits for an answer sleeps in the kernel.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::local_socket;
use crate::users::{is_one_user, is_own_user};

use super::{Answer, Ask, DATA_BYTES_MAX, NoFrame, socket_name};

/// A server takes its clients in within this time, also where its job has to wait for its turn.
const CONNECT_MAX: Duration = Duration::from_secs(20);

/// A connection. Packets are sent whole, so what has no answer may be said while another thread waits for
/// one.
#[derive(Debug)]
pub struct Door {
    socket: OwnedFd,
    /// Held until the answer is there.
    asking: Mutex<()>,
}

/// Answer that came, with its data and descriptors.
pub type Answered = (Answer, Vec<u8>, Vec<OwnedFd>);

impl Door {
    /// The server of a region of a user on this node. Whoever else listens under its name is none.
    ///
    /// # Errors
    /// When nobody does (`ConnectionRefused`), another user (`PermissionDenied`), or one that takes nobody in
    /// (`WouldBlock`).
    pub fn connect(uid: u32, name: &str) -> io::Result<Self> {
        let name = socket_name(uid, name);
        let socket = local_socket::connect(&name, CONNECT_MAX)?;
        let peer = local_socket::peer(socket.as_fd())?;
        if peer.uid != uid || !(is_one_user(uid) || is_own_user(uid, peer.pid)) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(Door::of(socket))
    }

    /// A connection whose other end is to be given to the server.
    ///
    /// # Errors
    /// When the kernel gives none.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (own, given) = local_socket::pair()?;
        Ok((Door::of(own), given))
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
            let received =
                local_socket::receive(self.socket.as_fd(), &mut bytes[length..], &mut descriptors)?;
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
            sent += local_socket::send(self.socket.as_fd(), &packet[sent..])?;
        }
        Ok(())
    }

    /// Waits for a message; its length, 0 when no more come. For the socket of messages.
    ///
    /// # Errors
    /// When the kernel says so.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        local_socket::receive(self.socket.as_fd(), into, &mut Vec::new())
    }

    /// A message was taken: there is room for another one.
    pub fn acknowledge(&self) {
        let _ = local_socket::send(self.socket.as_fd(), &[1]);
    }

    /// Shuts the door: nothing comes any more, and who waits for a message is told so.
    pub fn shut(&self) {
        // SAFETY: a plain system call.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
    }
}
