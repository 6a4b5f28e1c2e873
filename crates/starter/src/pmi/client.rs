//! A rank as the server of PMI has it: its socket, what has come and is not handled yet, the answer that
//! waits for room, and what it waits for itself.
//!
//! ```text
//! reads lines --barrier_in--> in a barrier --all are there--> reads lines
//!             --spawn, publish_name--> asks others --their answer--> reads lines
//!             --no line of PMI, or its end--> not read any more
//! ```
//!
//! While an answer waits, and while it is in a barrier or asks others, nothing is read from it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::NoPmi;
use super::line::Lines;
use super::spawning::{Blocks, Command};

/// Bytes that are read from a rank before others get their turn.
pub(super) const READ_BYTES: usize = 16 << 10;
/// Group of a rank that is in none.
const NO_GROUP: u32 = u32::MAX;

/// A rank's place.
#[derive(Debug, Default)]
pub(super) struct PmiClient {
    /// None: it has closed its end, or is not read any more.
    socket: Option<OwnedFd>,
    lines: Lines,
    /// The answer that waits for room.
    out: Vec<u8>,
    /// Whether it is in a barrier.
    waits: bool,
    /// Whether it has asked for processes, or for what all nodes are to know of a name.
    asks: bool,
    group: u32,
    /// Which of the group's ranks of this node.
    place: u32,
    /// Lines of a request for more processes are being read.
    blocks: Blocks,
    /// The user has a line about the store being full.
    reported_full: bool,
}

impl PmiClient {
    /// Rank of a group, by this end of its socket.
    pub(super) fn new(socket: OwnedFd, group: u32) -> Self {
        PmiClient { socket: Some(socket), group, ..PmiClient::default() }
    }

    /// Rank that does not speak PMI, and is in no group.
    pub(super) fn silent() -> Self {
        PmiClient { group: NO_GROUP, ..PmiClient::default() }
    }

    pub(super) fn group(&self) -> u32 {
        self.group
    }

    /// Which of the group's ranks of this node it is.
    pub(super) fn place(&self) -> u32 {
        self.place
    }

    pub(super) fn set_place(&mut self, place: u32) {
        self.place = place;
    }

    /// Whether it is in a barrier.
    pub(super) fn is_in_barrier(&self) -> bool {
        self.waits
    }

    pub(super) fn enter_barrier(&mut self) {
        self.waits = true;
    }

    pub(super) fn leave_barrier(&mut self) {
        self.waits = false;
        self.answer(b"cmd=barrier_out rc=0");
    }

    /// Begins to ask others for something: nothing is read from it until [`Self::end_asking`].
    pub(super) fn begin_asking(&mut self) {
        self.asks = true;
    }

    /// The answer of others has come.
    pub(super) fn end_asking(&mut self, answer: &str) {
        self.asks = false;
        self.answer(answer.as_bytes());
    }

    /// A block of a request for more processes begins.
    pub(super) fn begin_block(&mut self) {
        self.blocks.begin();
    }

    /// Whether the next line is inside of such a block.
    pub(super) fn is_in_block(&self) -> bool {
        self.blocks.is_open()
    }

    /// Takes a line of such a block ([`Blocks::take_line`]).
    pub(super) fn take_block_line(&mut self, line: &[u8]) -> Option<Vec<Command>> {
        self.blocks.take_line(line)
    }

    /// Whether its user has no line yet about the store being full; he has one from now on.
    pub(super) fn is_first_full(&mut self) -> bool {
        !std::mem::replace(&mut self.reported_full, true)
    }

    /// Descriptor and events to poll it for; none for now.
    pub(super) fn polled(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let flags = match self {
            PmiClient { out, .. } if !out.is_empty() => PollFlags::OUT,
            PmiClient { waits: true, .. } | PmiClient { asks: true, .. } => return None,
            _ => PollFlags::IN,
        };
        Some((self.socket.as_ref()?.as_fd(), flags))
    }

    /// Whether its next line may be taken.
    pub(super) fn is_readable(&self) -> bool {
        self.socket.is_some() && self.out.is_empty() && !self.waits && !self.asks
    }

    /// Reads once; `false` when there was nothing.
    pub(super) fn read(&mut self) -> bool {
        let Some(socket) = self.socket.as_ref().filter(|_| self.is_readable()) else { return false };
        let mut bytes = [0_u8; READ_BYTES];
        match recv(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((read, _)) if read > 0 => {
                self.lines.extend(&bytes[..read]);
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            // Deaths are seen elsewhere: a program may close what it does not use.
            _ => {
                self.socket = None;
                false
            }
        }
    }

    /// Takes its next line, if there is one and it may be taken.
    ///
    /// # Errors
    /// When it does not speak PMI.
    pub(super) fn next_line(&mut self) -> Result<Option<Vec<u8>>, NoPmi> {
        if !self.is_readable() {
            return Ok(None);
        }
        Ok(self.lines.next_line()?.map(<[u8]>::to_vec))
    }

    /// Ends reading from it.
    pub(super) fn close(&mut self) {
        self.socket = None;
        self.lines.clear();
    }

    /// Sends it a line, now or when there is room.
    pub(super) fn answer(&mut self, line: &[u8]) {
        if self.socket.is_some() {
            self.out.extend_from_slice(line);
            self.out.push(b'\n');
            self.flush();
        }
    }

    /// Sends what waits for room, as far as there is some.
    pub(super) fn flush(&mut self) {
        while let Some(socket) = self.socket.as_ref().filter(|_| !self.out.is_empty()) {
            match send(socket, &self.out, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.out.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // Its reader is gone; what it sent before may still be read.
                Err(_) => self.out.clear(),
            }
        }
    }

    /// Bytes that it makes this process hold: of its answer, and of lines.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> (usize, usize) {
        (self.out.len(), self.lines.waiting_bytes())
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    /// A rank, and its own end.
    fn client() -> (PmiClient, OwnedFd) {
        let (own, end) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        (PmiClient::new(own, 4), end)
    }

    fn say(end: &OwnedFd, bytes: &[u8]) {
        assert_eq!(send(end, bytes, SendFlags::empty()), Ok(bytes.len()));
    }

    fn heard(end: &OwnedFd) -> Vec<u8> {
        let mut bytes = [0; 4096];
        let length = recv(end, &mut bytes[..], RecvFlags::DONTWAIT).map_or(0, |(length, _)| length);
        bytes[..length].to_vec()
    }

    fn flags(client: &PmiClient) -> Option<PollFlags> {
        client.polled().map(|(_, flags)| flags)
    }

    #[test]
    fn pmi_client_in_a_barrier_is_not_read_until_that_is_over() {
        let (mut client, end) = client();
        say(&end, b"cmd=barrier_in\ncmd=finalize\n");
        assert!(client.read());
        assert_eq!(client.next_line(), Ok(Some(b"cmd=barrier_in".to_vec())));
        client.enter_barrier();
        assert_eq!((client.next_line(), flags(&client), client.is_in_barrier()), (Ok(None), None, true));
        say(&end, b"more");
        assert!(!client.read());
        client.leave_barrier();
        assert_eq!(heard(&end), b"cmd=barrier_out rc=0\n");
        assert_eq!(
            (client.next_line(), flags(&client)),
            (Ok(Some(b"cmd=finalize".to_vec())), Some(PollFlags::IN))
        );
    }

    #[test]
    fn pmi_client_that_asks_others_is_not_read_until_they_answer() {
        let (mut client, end) = client();
        client.begin_asking();
        say(&end, b"cmd=finalize\n");
        assert_eq!((client.read(), flags(&client)), (false, None));
        client.end_asking("cmd=publish_result info=ok");
        assert_eq!(heard(&end), b"cmd=publish_result info=ok\n");
        assert!(client.read());
    }

    #[test]
    fn pmi_client_that_takes_no_answer_is_polled_for_room_alone() {
        let (mut client, end) = client();
        let line = [b'x'; 4000];
        let mut said = 0;
        while client.held_bytes().0 == 0 {
            client.answer(&line);
            said += line.len() + 1;
            assert!(said < 64 << 20, "a socket holds less");
        }
        assert_eq!((flags(&client), client.is_readable()), (Some(PollFlags::OUT), false));
        let mut taken = 0;
        while taken < said {
            taken += heard(&end).len();
            client.flush();
        }
        assert_eq!((taken, flags(&client), client.is_readable()), (said, Some(PollFlags::IN), true));
    }

    #[test]
    fn pmi_client_whose_end_is_closed_is_not_polled_any_more() {
        let (mut client, end) = client();
        drop(end);
        assert!(!client.read());
        client.answer(b"cmd=finalize_ack");
        assert_eq!((flags(&client), client.held_bytes()), (None, (0, 0)));
        assert_eq!(flags(&PmiClient::silent()), None);
    }

    #[test]
    fn pmi_client_is_said_to_be_full_once() {
        let (mut client, _end) = client();
        assert_eq!([client.is_first_full(), client.is_first_full()], [true, false]);
    }
}
