//! A connection of a client or an owner: what has come and is not handled yet, the answer that it has not
//! taken, and how fast it may ask.
//!
//! A client that asks faster than [`RATE_PER_S`] is not read for a while: its questions wait in its own
//! socket. It is not read either while an answer of its lies here. So a flood costs its sender time, and the
//! server no memory.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, send, sendmsg};
use tutti_shm::published::{Answer, Ask, DATA_BYTES_MAX, NoFrame, Opened, Status};

/// Questions of one connection in a second, in the long run; a page of data counts as one.
const RATE_PER_S: u64 = 100_000;
/// Questions that a connection may ask at once after it has been silent.
const BURST: u64 = 10_000;
/// Bytes that count as one question.
const PAGE_BYTES: usize = 4096;
/// Bytes that are read at once.
const ROOM: usize = Ask::BYTES + DATA_BYTES_MAX;

/// A question, and what follows it.
pub(super) type Question = (Ask, Vec<u8>);

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub socket: OwnedFd,
    /// Bytes that have come, and how many of them were handled.
    came: Vec<u8>,
    handled: usize,
    /// An answer that its client does not take.
    out: Vec<u8>,
    budget: Budget,
}

/// Result of reading.
#[derive(Debug)]
pub(super) enum Read {
    /// A question.
    Question(Question),
    /// Returned when nothing more has come for now.
    Nothing,
    /// End of the connection, or what is no question.
    End,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, now_ns: u64) -> Self {
        Connection { socket, came: Vec::new(), handled: 0, out: Vec::new(), budget: Budget::full(now_ns) }
    }

    /// The next question.
    pub(super) fn read(&mut self) -> Read {
        loop {
            match Ask::take(&self.came[self.handled..]) {
                Ok(Some((ask, data, length))) => {
                    let question = (ask, data.to_vec());
                    self.handled += length;
                    return Read::Question(question);
                }
                Ok(None) => {}
                Err(NoFrame) => return Read::End,
            }
            self.came.drain(..self.handled);
            self.handled = 0;
            let kept = self.came.len();
            self.came.resize(kept + ROOM, 0);
            let read = recv(&self.socket, &mut self.came[kept..], RecvFlags::DONTWAIT);
            self.came.truncate(kept + read.map_or(0, |(length, _)| length));
            match read {
                Ok((0, _)) => return Read::End,
                Ok(_) => {}
                Err(Errno::AGAIN | Errno::INTR) => {
                    if self.came.is_empty() {
                        // Thousands of silent clients cost no room.
                        self.came = Vec::new();
                    }
                    return Read::Nothing;
                }
                Err(_) => return Read::End,
            }
        }
    }

    /// Whether a question is here already, of which no descriptor says anything.
    pub(super) fn has_more(&self) -> bool {
        !matches!(Ask::take(&self.came[self.handled..]), Ok(None))
    }

    /// Answers; false when the client is gone.
    pub(super) fn answer(&mut self, answer: Answer, data: &[u8]) -> bool {
        let head = answer.encode(data.len());
        self.out.extend_from_slice(&head);
        self.out.extend_from_slice(data);
        self.flush()
    }

    /// Answers with descriptors; false when the asker has gone, or has not taken earlier answers.
    pub(super) fn give(&self, answer: Answer, opened: Opened, gifts: &[BorrowedFd<'_>]) -> bool {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(gifts));
        let (head, behind) = (answer.encode(Opened::BYTES), opened.encode());
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let parts = [IoSlice::new(&head), IoSlice::new(&behind)];
        sendmsg(&self.socket, &parts, &mut control, flags).is_ok()
    }

    /// Sends what has not been taken; false when the client is gone.
    pub(super) fn flush(&mut self) -> bool {
        while !self.out.is_empty() {
            match send(&self.socket, &self.out, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => drop(self.out.drain(..sent)),
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// The client does not take its answer.
    pub(super) fn is_jammed(&self) -> bool {
        !self.out.is_empty()
    }

    /// Counts a question; when the next one may be handled, if that is not now.
    pub(super) fn charge(&mut self, bytes: usize, now_ns: u64) -> Option<u64> {
        self.budget.take(1 + (bytes / PAGE_BYTES) as u64, now_ns)
    }
}

/// How much a connection may still ask.
#[derive(Debug)]
struct Budget {
    left: u64,
    filled_ns: u64,
}

/// Time for which one question is paid.
const NS_EACH: u64 = 1_000_000_000 / RATE_PER_S;

impl Budget {
    fn full(now_ns: u64) -> Self {
        Budget { left: BURST, filled_ns: now_ns }
    }

    /// Takes so much out of it; none: there is more; else when there will be.
    fn take(&mut self, count: u64, now_ns: u64) -> Option<u64> {
        let new = now_ns.saturating_sub(self.filled_ns) / NS_EACH;
        self.filled_ns += new * NS_EACH;
        self.left = self.left.saturating_add(new).min(BURST).saturating_sub(count);
        // It pauses for some time, not for each question.
        (self.left == 0).then(|| now_ns + BURST / 8 * NS_EACH)
    }
}

/// Answer to a client of a region that does not let it in.
pub(super) const fn refusal(status: Status) -> Answer {
    Answer { status, value: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_client_that_floods_is_slowed_down_to_its_rate() {
        let (mut budget, mut now_ns) = (Budget::full(0), 0);
        let mut asked = 0;
        while now_ns < 1_000_000_000 {
            now_ns += 1_000;
            asked += 1;
            now_ns = budget.take(1, now_ns).unwrap_or(now_ns);
        }
        assert!((RATE_PER_S * 9 / 10..=RATE_PER_S + BURST).contains(&asked), "{asked} in a second");
    }

    #[test]
    fn region_client_that_asks_now_and_then_is_never_slowed_down() {
        let mut budget = Budget::full(0);
        let slowed = (1..100_000_u64).any(|at| budget.take(1, at * 20_000).is_some());
        assert!(!slowed);
    }
}
