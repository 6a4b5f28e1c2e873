//! A connection to a service. One call is under way at a time.
//!
//! | end of a call | the function |
//! |---|---|
//! | a result, [`THREW`] | has run |
//! | [`VERSION`], [`GONE`], [`BUSY`] | has not run |
//! | [`DEADLINE`], [`LOST`] | may have run |

use core::ffi::c_int;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use tutti_shm::users::{is_one_user, is_own_user};

use super::frame::{Ask, DATA_BYTES_MAX, PACKET_BYTES_MAX, Reply, hash};
use super::{left, now_ns, over_in, socket_name};
use crate::status::*;

/// A service as its client has it.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    signatures: Vec<String>,
    last: u64,
}

/// Text of another user as it may stand on a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

impl Client {
    /// Connects to the service of a user; waits so long for its first answer, at most.
    ///
    /// # Errors
    /// [`NO_SERVICE`]; [`RIGHT`]: it is not for this user, or another user listens under its name; [`BUSY`]:
    /// it has too many clients; [`DEADLINE`]; [`GONE`].
    pub fn open(uid: u32, name: &str, at_most: Duration) -> Result<Self, c_int> {
        let deadline_ns = over_in(at_most);
        let address = SocketAddrUnix::new_abstract_name(socket_name(uid, name).as_bytes());
        let address = address.map_err(|_| INVALID)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let socket = socket.map_err(|_| MEMORY)?;
        match net::connect(&socket, &address) {
            Ok(()) => {}
            Err(Errno::CONNREFUSED) => return Err(NO_SERVICE),
            Err(Errno::AGAIN) => return Err(BUSY),
            Err(_) => return Err(MEMORY),
        }
        let peer = sockopt::socket_peercred(&socket).map_err(|_| GONE)?;
        let found = peer.uid.as_raw();
        if found != uid || !(is_one_user(uid) || is_own_user(uid, peer.pid.as_raw_nonzero().get())) {
            return Err(RIGHT);
        }
        let mut client = Client { socket, signatures: Vec::new(), last: 0 };
        // A service that lets this client in says so by its answer; else it says why, and ends.
        let _ = client.send(&Ask::Open.encode(), deadline_ns);
        let (status, data) = client.receive(0, deadline_ns).map_err(|status| match status {
            LOST => GONE,
            other => other,
        })?;
        if status != OK {
            return Err(status);
        }
        let text = String::from_utf8_lossy(&data);
        client.signatures = text.lines().map(printable).collect();
        Ok(client)
    }

    /// Signatures of all functions.
    pub fn signatures(&self) -> &[String] {
        &self.signatures
    }

    /// Calls a function: its status and its data, [`THREW`] and a text where it has thrown.
    ///
    /// # Errors
    /// The table of this module, and [`TOO_LONG`].
    pub fn call(
        &mut self,
        signature: &str,
        data: &[u8],
        at_most: Duration,
    ) -> Result<(c_int, Vec<u8>), c_int> {
        let deadline_ns = over_in(at_most);
        let function = self.signatures.iter().position(|one| one == signature).ok_or(VERSION)?;
        if data.len() > DATA_BYTES_MAX {
            return Err(TOO_LONG);
        }
        self.last += 1;
        let (number, function, hash) = (self.last, function as u32, hash(signature));
        self.send(&Ask::Call { number, deadline_ns, hash, function, data }.encode(), deadline_ns)?;
        match self.receive(number, deadline_ns)? {
            (OK, data) => Ok((OK, data)),
            (THREW, data) => {
                // A type, a zero, a text.
                let text = String::from_utf8_lossy(&data);
                let parts: Vec<_> = text.splitn(2, '\0').map(printable).collect();
                Ok((THREW, parts.join("\0").into_bytes()))
            }
            (status, _) => Err(status),
        }
    }

    fn wait(&self, flags: PollFlags, deadline_ns: u64) -> bool {
        let mut one = [PollFd::new(&self.socket, flags)];
        !matches!(poll(&mut one, Some(&left(deadline_ns))), Ok(0))
    }

    fn send(&self, packet: &[u8], deadline_ns: u64) -> Result<(), c_int> {
        loop {
            match net::send(&self.socket, packet, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if !self.wait(PollFlags::OUT, deadline_ns) || now_ns() >= deadline_ns {
                        return Err(BUSY);
                    }
                }
                Err(_) => return Err(GONE),
            }
        }
    }

    /// The answer with this number; those to calls that were given up are dropped.
    fn receive(&self, number: u64, deadline_ns: u64) -> Result<(c_int, Vec<u8>), c_int> {
        let mut packet = vec![0; PACKET_BYTES_MAX + 1];
        let mut is_reset = false;
        loop {
            // An answer that is here wins over a deadline that has passed.
            let received = net::recv(&self.socket, &mut packet[..], RecvFlags::DONTWAIT);
            match received {
                Ok((_, 0)) => return Err(LOST),
                Ok((_, bytes)) => {
                    let reply = Reply::decode(&packet[..bytes]).ok_or(REFUSED)?;
                    if reply.number == number {
                        return Ok((reply.status, reply.data.to_vec()));
                    }
                    if reply.number == 0 && reply.status != OK {
                        return Err(reply.status);
                    }
                }
                Err(Errno::INTR) => {}
                // The service has ended with a question unread; what it said before is still here.
                Err(Errno::CONNRESET) if !is_reset => is_reset = true,
                Err(Errno::AGAIN) => {
                    if now_ns() >= deadline_ns {
                        return Err(DEADLINE);
                    }
                    self.wait(PollFlags::IN, deadline_ns);
                }
                Err(_) => return Err(LOST),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_has_no_control_characters() {
        assert_eq!(printable("a\x1b[2Jb\u{9b}c\n\tü"), "a?[2Jb?c??ü");
    }
}
