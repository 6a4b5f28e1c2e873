//! A connection to a service. One call is under way at a time.
//!
//! | end of a call | the function |
//! |---|---|
//! | a result, [`THREW`] | has run |
//! | [`VERSION`], [`GONE`], [`BUSY`] | has not run |
//! | [`DEADLINE`], [`LOST`] | may have run |

mod far;
mod lending;

use core::ffi::c_int;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use tutti_shm::published::far::ANY_NODE;
use tutti_shm::published::name::Name;
use tutti_shm::published::service_socket_name;
use tutti_shm::users::{is_one_user, is_own_user};

use lending::Lending;

use super::frame::{Ask, DATA_BYTES_MAX, PACKET_BYTES_MAX, Reply, hash};
use super::stream::{Came, Stream};
use super::{left, now_ns, over_in};
use crate::status::*;

/// A service as its client has it.
#[derive(Debug)]
pub struct Client {
    link: Link,
    lending: Lending,
    signatures: Vec<String>,
    last: u64,
    /// Calls that have left, or a part of them, and have no answer yet.
    waiting: usize,
}

#[derive(Debug)]
enum Link {
    /// To a service of this node, by packets of a local socket.
    Near(OwnedFd),
    /// To one of another node: the bytes, and what its clock is ahead of this one's.
    Far(Stream, i64),
}

/// Outcome of sending a packet.
enum Sent {
    Yes,
    /// No byte has left: there was no room.
    No,
    /// A part has left, so the rest will.
    InPart,
}

/// Text of another user as it may stand on a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

impl Client {
    /// Connects to a service, of this node or of the one that its name says; waits so long for its first
    /// answer, at most.
    ///
    /// # Errors
    /// [`NO_SERVICE`]; [`RIGHT`]: it is not for this user, or another user listens under its name; [`BUSY`]:
    /// it has too many clients; [`DEADLINE`]; [`GONE`]; of another node also [`NODE`] and [`DAEMON`].
    pub fn open(name: &Name<'_>, at_most: Duration) -> Result<Self, c_int> {
        let deadline_ns = over_in(at_most);
        let link = match name.node {
            None => near(name.uid, name.name)?,
            // What is here is nearer.
            Some(node) => match (node == ANY_NODE).then(|| near(name.uid, name.name)) {
                Some(Ok(link)) => link,
                Some(Err(status)) if status != NO_SERVICE => return Err(status),
                _ => far::reach(name.uid, name.name, node, deadline_ns)?,
            },
        };
        let (lending, signatures) = (Lending::default(), Vec::new());
        let mut client = Client { link, lending, signatures, last: 0, waiting: 0 };
        // A service that lets this client in says so by its answer; else it says why, and ends.
        let _ = client.send(&Ask::Open.encode(), deadline_ns);
        let came = client.receive(0, deadline_ns);
        client.lending.end();
        let (status, data) = came.map_err(|status| match status {
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
        let theirs_ns = self.link.theirs_ns(deadline_ns);
        let ask = Ask::Call { number, deadline_ns: theirs_ns, hash, function, data };
        let sent = self.send(&ask.encode(), deadline_ns);
        self.waiting += usize::from(!matches!(sent, Err(BUSY | GONE)));
        sent?;
        let came = self.receive(number, deadline_ns);
        self.lending.end();
        match came? {
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

    /// Length of the queue of this connection: calls that were given up at their deadline and that the
    /// service has not answered yet. None wait at a service that has ended.
    pub fn waiting(&mut self) -> usize {
        // Each call is answered once: what comes beyond that is left to the next call.
        for _ in 0..self.waiting {
            match self.link.receive() {
                Came::Packet(packet) => self.note_answered(&packet),
                Came::Nothing => break,
                Came::End => return 0,
            }
        }
        self.waiting
    }

    /// Counts one call less that waits, if this answers one; each that has left is answered once.
    fn note_answered(&mut self, packet: &[u8]) {
        let is_of_call = Reply::decode(packet).is_some_and(|reply| reply.number != 0);
        self.waiting = self.waiting.saturating_sub(usize::from(is_of_call));
    }

    fn send(&mut self, packet: &[u8], deadline_ns: u64) -> Result<(), c_int> {
        loop {
            match self.link.send(packet)? {
                Sent::Yes => return Ok(()),
                Sent::InPart => return self.flush(deadline_ns),
                Sent::No if self.link.wait(PollFlags::OUT, deadline_ns) => {}
                Sent::No => return Err(BUSY),
            }
        }
    }

    /// Sends the rest of a packet.
    fn flush(&mut self, deadline_ns: u64) -> Result<(), c_int> {
        let Link::Far(stream, _) = &mut self.link else { return Ok(()) };
        while stream.flush() {
            if !stream.is_jammed() {
                return Ok(());
            }
            if !wait(stream.socket(), PollFlags::OUT, deadline_ns) {
                return Err(DEADLINE);
            }
        }
        Err(LOST)
    }

    /// Waits for something to read; false when the time is over. What is not here soon is a matter of turns.
    fn wait_for_answer(&mut self, deadline_ns: u64) -> bool {
        let Link::Near(socket) = &self.link else { return self.link.wait(PollFlags::IN, deadline_ns) };
        if now_ns() >= deadline_ns {
            return false;
        }
        let begins_ns = self.lending.begins_ns().filter(|begins_ns| *begins_ns < deadline_ns);
        let service = PollFd::new(socket, PollFlags::IN);
        let daemon = self.lending.daemon().map(|daemon| PollFd::from_borrowed_fd(daemon, PollFlags::IN));
        let mut both = [service.clone(), daemon.unwrap_or(service)];
        // A last look is worth it.
        let _ = poll(&mut both, Some(&left(begins_ns.unwrap_or(deadline_ns))));
        let has_answer = !both[0].revents().is_empty();
        if !has_answer && !both[1].revents().is_empty() {
            self.lending.lose();
        } else if !has_answer && begins_ns.is_some_and(|begins_ns| now_ns() >= begins_ns) {
            self.lending.begin(socket.as_fd());
        }
        true
    }

    /// The answer with this number; those to calls that were given up are dropped. Each call is answered
    /// once, so that a service which sends more does not keep its client beyond the deadline.
    fn receive(&mut self, number: u64, deadline_ns: u64) -> Result<(c_int, Vec<u8>), c_int> {
        let mut before = self.waiting.saturating_sub(1);
        loop {
            // An answer that is here wins over a deadline that has passed.
            match self.link.receive() {
                Came::End => return Err(LOST),
                Came::Packet(packet) => {
                    self.note_answered(&packet);
                    let reply = Reply::decode(&packet).ok_or(REFUSED)?;
                    if reply.number == number {
                        return Ok((reply.status, reply.data.to_vec()));
                    }
                    if reply.number == 0 && reply.status != OK {
                        return Err(reply.status);
                    }
                    if before == 0 && now_ns() >= deadline_ns {
                        return Err(DEADLINE);
                    }
                    before = before.saturating_sub(1);
                }
                Came::Nothing => {
                    if !self.wait_for_answer(deadline_ns) {
                        return Err(DEADLINE);
                    }
                }
            }
        }
    }
}

/// Waits for the kernel; false when the time is over.
fn wait(socket: BorrowedFd<'_>, flags: PollFlags, deadline_ns: u64) -> bool {
    if now_ns() >= deadline_ns {
        return false;
    }
    let mut one = [PollFd::new(&socket, flags)];
    // A last look is worth it.
    let _ = poll(&mut one, Some(&left(deadline_ns)));
    true
}

impl Link {
    fn wait(&self, flags: PollFlags, deadline_ns: u64) -> bool {
        match self {
            Link::Near(socket) => wait(socket.as_fd(), flags, deadline_ns),
            Link::Far(stream, _) => wait(stream.socket(), flags, deadline_ns),
        }
    }

    /// A time of this node by the clock of the service's.
    fn theirs_ns(&self, here_ns: u64) -> u64 {
        match self {
            Link::Near(_) => here_ns,
            Link::Far(_, ahead_ns) => here_ns.saturating_add_signed(*ahead_ns),
        }
    }

    fn send(&mut self, packet: &[u8]) -> Result<Sent, c_int> {
        match self {
            Link::Near(socket) => loop {
                match net::send(&*socket, packet, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                    Ok(_) => return Ok(Sent::Yes),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return Ok(Sent::No),
                    Err(_) => return Err(GONE),
                }
            },
            Link::Far(stream, _) => {
                // The rest of an earlier call comes first.
                if !stream.flush() {
                    return Err(GONE);
                }
                if stream.is_jammed() {
                    return Ok(Sent::No);
                }
                if !stream.send(packet) {
                    return Err(LOST);
                }
                match (stream.is_jammed(), stream.take_back(packet)) {
                    (false, _) => Ok(Sent::Yes),
                    (true, true) => Ok(Sent::No),
                    (true, false) => Ok(Sent::InPart),
                }
            }
        }
    }

    fn receive(&mut self) -> Came {
        let socket = match self {
            Link::Near(socket) => socket,
            Link::Far(stream, _) => return stream.receive(),
        };
        let mut packet = vec![0; PACKET_BYTES_MAX + 1];
        let mut is_reset = false;
        loop {
            match net::recv(&*socket, &mut packet[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Came::End,
                Ok((_, bytes)) => {
                    packet.truncate(bytes);
                    return Came::Packet(packet);
                }
                Err(Errno::INTR) => {}
                // The service has ended with a question unread; what it said before is still here.
                Err(Errno::CONNRESET) if !is_reset => is_reset = true,
                Err(Errno::AGAIN) => return Came::Nothing,
                Err(_) => return Came::End,
            }
        }
    }
}

/// A connection to a service of this node.
fn near(uid: u32, name: &str) -> Result<Link, c_int> {
    let address = SocketAddrUnix::new_abstract_name(service_socket_name(uid, name).as_bytes());
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
    Ok(Link::Near(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client of a function `f` whose service has sent these replies, and the service's end.
    fn client_of(numbers: impl Iterator<Item = u64>) -> (Client, OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (own, service) =
            net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        for number in numbers {
            let reply = Reply { status: OK, number, data: b"x" }.encode();
            net::send(&service, &reply, SendFlags::DONTWAIT).unwrap();
        }
        let (lending, signatures) = (Lending::default(), vec!["f".to_owned()]);
        (Client { link: Link::Near(own), lending, signatures, last: 0, waiting: 0 }, service)
    }

    #[test]
    fn client_gives_up_at_its_deadline_whatever_else_its_service_sends() {
        let (mut client, _service) = client_of((0..20).map(|number| 1000 + number));
        assert_eq!(client.call("f", &[], Duration::ZERO), Err(DEADLINE));
        assert!(matches!(client.link.receive(), Came::Packet(_)), "it has not read all of them");
        client.waiting = 2;
        assert_eq!(client.waiting(), 0);
        assert!(matches!(client.link.receive(), Came::Packet(_)), "nor more than there are calls");
    }

    #[test]
    fn client_takes_an_answer_behind_those_to_calls_that_were_given_up() {
        let (mut client, _service) = client_of(1..=5);
        (client.last, client.waiting) = (4, 4);
        assert_eq!(client.call("f", &[], Duration::ZERO), Ok((OK, b"x".to_vec())));
        assert_eq!(client.waiting(), 0);
    }

    #[test]
    fn text_of_others_has_no_control_characters() {
        assert_eq!(printable("a\x1b[2Jb\u{9b}c\n\tü"), "a?[2Jb?c??ü");
    }
}
