//! One client's connection: packets of a local socket, or of a stream from another node. No call waits.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags};

use crate::frame::PACKET_BYTES_MAX;
pub(super) use crate::stream::Came;
use crate::stream::Stream;

#[derive(Debug)]
enum Link {
    Near(OwnedFd),
    Far(Stream),
}

/// A client, or a daemon that says who comes.
#[derive(Debug)]
pub(super) struct Connection {
    link: Link,
    uid: u32,
    is_let_in: bool,
    /// Word of it about clients of other nodes is believed.
    may_vouch: bool,
}

impl Connection {
    /// Connection of a client of this node.
    pub(super) fn near(socket: OwnedFd, uid: u32, is_let_in: bool, may_vouch: bool) -> Self {
        Connection { link: Link::Near(socket), uid, is_let_in, may_vouch }
    }

    /// One that has shown the key of a pass for this user.
    pub(super) fn far(stream: Stream, uid: u32) -> Self {
        Connection { link: Link::Far(stream), uid, is_let_in: true, may_vouch: false }
    }

    /// The user, and whether the service is for it.
    pub(super) fn user(&self) -> (u32, bool) {
        (self.uid, self.is_let_in)
    }

    pub(super) fn may_vouch(&self) -> bool {
        self.may_vouch
    }

    /// Sockets to poll, and for what: a client that takes no answer is asked nothing meanwhile.
    pub(super) fn polled(&self) -> (BorrowedFd<'_>, PollFlags) {
        match &self.link {
            Link::Near(socket) => (socket.as_fd(), PollFlags::IN),
            Link::Far(stream) if stream.is_jammed() => (stream.socket(), PollFlags::OUT),
            Link::Far(stream) => (stream.socket(), PollFlags::IN),
        }
    }

    /// A packet has come of which the kernel does not tell any more.
    pub(super) fn has_packet(&self) -> bool {
        matches!(&self.link, Link::Far(stream) if stream.has_packet() && !stream.is_jammed())
    }

    pub(super) fn receive(&mut self) -> Came {
        let socket = match &mut self.link {
            Link::Near(socket) => socket,
            Link::Far(stream) => {
                return match stream.flush() {
                    false => Came::End,
                    true if stream.is_jammed() => Came::Nothing,
                    true => stream.receive(),
                };
            }
        };
        let mut packet = vec![0; PACKET_BYTES_MAX + 1];
        loop {
            match net::recv(&*socket, &mut packet[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Came::End,
                Ok((_, bytes)) => {
                    packet.truncate(bytes);
                    return Came::Packet(packet);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Came::Nothing,
                Err(_) => return Came::End,
            }
        }
    }

    /// False where it has ended, or is of this node and takes no answers.
    pub(super) fn send(&mut self, packet: &[u8]) -> bool {
        match &mut self.link {
            Link::Near(socket) => {
                net::send(&*socket, packet, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
            }
            Link::Far(stream) => stream.send(packet),
        }
    }
}
