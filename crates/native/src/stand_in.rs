//! Operations on a rank of another node that stands still: its starter does them ([`tutti_shm::stand_in`]).
//!
//! ```text
//! initiator  records by the channel; not answered within PATIENCE: the same ones to the starter, one by one
//!            whichever answers a record first ends it; the other one finds it claimed
//! ```
//!
//! Askings are for operations that are waited for, before which nothing of the pair is under way that has no
//! answer. The starter keeps one answer of a pair, so a process asks for the first record of the pair that is
//! not answered, whichever thread waits for it, and for no other. A rank whose starter has answered is asked
//! for by it at once the next time, until it answers itself.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tutti_rma::operation::{Kept, Operation};
use tutti_runtime::job::Job;
use tutti_runtime::remote_memory::{Otherwise, RemoteMemory};
use tutti_runtime::stamps;
use tutti_shm::stand_in::{Answer, DATAGRAM_BYTES_MAX, Place, Question, RECORD_BYTES_MAX};

use crate::handle::Handle;

/// A rank that computes answers within a millisecond, on a busy machine later.
const PATIENCE: Duration = Duration::from_millis(20);
/// Time for which an answer is waited for before the rank's own is looked for again; and after which a thread
/// looks whether its record has become the first.
const LOOK: Duration = Duration::from_millis(1);
/// Datagrams that are looked at for an answer: some are late.
const LATE: usize = 8;
/// Between two questions: at first, and at last.
const AGAIN: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(200)];

/// Ranks whose starters have answered the last operation.
static AWAY: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn away() -> MutexGuard<'static, BTreeSet<u32>> {
    AWAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the starter a socket on which it may stand in for this rank; its port, or 0 without one.
pub(crate) fn listen(job: &Job) -> u16 {
    let made = || -> io::Result<u16> {
        let (network, starter) = job.network().zip(job.starter()).ok_or(io::ErrorKind::Unsupported)?;
        let own = UdpSocket::from(network.socket.try_clone()?).local_addr()?;
        let socket = UdpSocket::bind((own.ip(), 0))?;
        let port = socket.local_addr()?.port();
        starter.give_socket(socket.as_fd())?;
        Ok(port)
    };
    made().unwrap_or(0)
}

/// An operation that the target's starter may do.
pub(crate) struct Asking<'a> {
    handle: &'a Handle,
    key: u64,
    me: u32,
    operation: &'a Operation,
    /// Records of it that are not answered; maybe the first ones of these are.
    parts: VecDeque<Kept>,
    to: SocketAddr,
    /// Once there is one.
    socket: Option<UdpSocket>,
    /// When the next question is due, and how long after it another one.
    due: Instant,
    again: Duration,
    was_away: bool,
    is_answered: bool,
}

impl<'a> Asking<'a> {
    /// None where nobody stands in, or its time is measured: what a starter does has no stamps.
    pub(crate) fn new(
        job: &Job,
        handle: &'a Handle,
        operation: &'a Operation,
        parts: Vec<Kept>,
    ) -> Option<Self> {
        let peers = &job.network()?.peers;
        let to = SocketAddr::new(peers.addresses().get(handle.rank as usize)?.ip(), handle.port);
        if handle.port == 0 || parts.is_empty() || stamps::begin().is_some() {
            return None;
        }
        let was_away = away().contains(&handle.rank);
        Some(Asking {
            handle,
            key: peers.key(),
            me: job.rank() as u32,
            operation,
            parts: parts.into(),
            to,
            socket: None,
            due: Instant::now() + if was_away { Duration::ZERO } else { PATIENCE },
            again: AGAIN[0],
            was_away,
            is_answered: false,
        })
    }

    /// The operation has ended, by whichever way.
    pub(crate) fn end(self) {
        if self.is_answered {
            away().insert(self.handle.rank);
        } else if self.was_away {
            away().remove(&self.handle.rank);
        }
    }

    fn send(&mut self, part: &Kept) {
        if self.socket.is_none() {
            let any: IpAddr =
                if self.to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            let made = UdpSocket::bind((any, 0)).and_then(|socket| {
                socket.connect(self.to)?;
                socket.set_read_timeout(Some(LOOK))?;
                Ok(socket)
            });
            // Without one the rank answers when it goes on.
            self.socket = made.ok();
        }
        let record = self.operation.record(part);
        if record.len() > RECORD_BYTES_MAX {
            return;
        }
        let Handle { rank, slot, generation, .. } = *self.handle;
        let question = Question {
            key: self.key,
            from: self.me,
            to: rank,
            number: part.number,
            place: Place { region: slot.into(), generation },
            record: &record,
        };
        // What is lost is asked again.
        let _ = self.socket.as_ref().map(|socket| socket.send(&question.encode()));
    }
}

impl Otherwise for Asking<'_> {
    fn of(&self) -> usize {
        self.handle.rank as usize
    }

    fn due(&self) -> Option<Instant> {
        (!self.parts.is_empty()).then_some(self.due)
    }

    fn look(&mut self, memory: &mut RemoteMemory) -> bool {
        let to = self.of();
        while self.parts.front().is_some_and(|part| !memory.awaits(to, part)) {
            self.parts.pop_front();
        }
        let Some(first) = self.parts.front() else { return false };
        let is_next = memory.first_kept(to) == Some(first.number);
        if !is_next {
            // Another thread asks.
            self.due = Instant::now() + LOOK;
        }
        is_next
    }

    fn ask(&mut self) -> Option<Vec<u8>> {
        let part = *self.parts.front()?;
        self.due = Instant::now() + self.again;
        self.again = (self.again * 2).min(AGAIN[1]);
        self.send(&part);
        let mut bytes = vec![0; DATAGRAM_BYTES_MAX];
        for _ in 0..LATE {
            let length = self.socket.as_ref()?.recv(&mut bytes).ok()?;
            let Some(answer) = Answer::decode(&bytes[..length]).filter(|answer| answer.key == self.key)
            else {
                continue;
            };
            // Others are of records before, and come late.
            if answer.number == part.number {
                self.is_answered = true;
                (self.due, self.again) = (Instant::now(), AGAIN[0]);
                return Some(answer.record.to_vec());
            }
        }
        None
    }
}
