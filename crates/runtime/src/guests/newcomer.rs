//! A connection of which it is not known yet whom it is from: its hello, and between nodes its seal, have not
//! come whole.

use std::io;
use std::os::fd::OwnedFd;

use tutti_shm::published::far::Secret;

use super::address::Hello;
use super::{seal, socket};

#[derive(Debug)]
pub(super) struct Newcomer {
    socket: OwnedFd,
    /// Whether the connection comes from another node: a seal follows its hello.
    is_far: bool,
    greeting: [u8; Hello::BYTES + seal::BYTES],
    received: usize,
}

impl Newcomer {
    pub(super) fn new(socket: OwnedFd, is_far: bool) -> Self {
        Newcomer { socket, is_far, greeting: [0; Hello::BYTES + seal::BYTES], received: 0 }
    }

    /// Takes the hello, when it is there; an error when it will not come.
    pub(super) fn take(&mut self) -> io::Result<Option<Hello>> {
        let whole = if self.is_far { self.greeting.len() } else { Hello::BYTES };
        while self.received < whole {
            match socket::receive(&self.socket, &mut self.greeting[self.received..whole])? {
                None => return Ok(None),
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(bytes) => self.received += bytes,
            }
        }
        let hello = Hello::decode(&self.greeting[..Hello::BYTES]);
        hello.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Whether it is of this node, or its seal is that of the user; if so it has the proof of this process.
    pub(super) fn has_proved(&self, secret: &Secret) -> bool {
        if !self.is_far {
            return true;
        }
        let (hello, shown) = self.greeting.split_at(Hello::BYTES);
        let (seal, proof) = seal::of(secret, hello);
        // The socket is empty, so it takes a few bytes.
        seal::is_same(shown, &seal) && matches!(socket::send(&self.socket, &proof), Ok(Some(seal::BYTES)))
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// The connection, when it is known whom it is from.
    pub(super) fn into_socket(self) -> OwnedFd {
        self.socket
    }
}
