//! Ports (MPI 11.9): a process opens one, another one connects to it by its name, and both groups get an
//! intercommunicator. Also MPI_Comm_join (11.10.5), whose two processes meet over a socket of the user.
//!
//! Ports connect processes of one job. All of it are ranks of one world, so there are no new paths and no new
//! names: what the two roots say to each other goes over MPI_COMM_SELF's contexts, which are the same on all
//! ranks and carry nothing else between two of them.
//!
//! | message | from, to | context | tag | content |
//! |---|---|---|---|---|
//! | request | connecting root, opener | `TaggedCreation` | number of the port | number of the connection |
//! | answer | opener, connecting root | `Creation` | of the connection | 1 accepted, 0 refused |
//! | groups | both | `Creation` | of the connection | as of MPI_Intercomm_create |
//! | groups of a join | both | `Introduction` | number of the lower rank | the same |
//!
//! A task receives the requests, as long as the opener is in MPI at all. It queues them while the port is
//! open. Later it refuses them, so it runs until the process leaves the job: a port number is never used
//! again.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use core::ffi::c_int;

use tutti_datatype::Buffer;

use super::agreement::Meeting;
use super::open_ports::{Connection, Port};
use super::{CONTEXTS_PER_COMM, Channel, Group};
use crate::abi::*;
use crate::collective::schedule::Schedule;
use crate::collective::task::{Done, Task, Turn};
use crate::error::{Error, Result, check};
use crate::process::{Guard, Process};
use crate::request::WhenDone;
use crate::wait_goal::{Goal, Outside};

/// Connections that wait for an MPI_Comm_accept of one port, at most.
const WAITING_MAX: usize = 1024;
/// Ports of one process that are open, at most.
const OPEN_MAX: usize = 4096;
/// First word of every port's name.
const SCHEME: &str = "tutti";
/// Context of MPI_COMM_SELF.
const CONTEXT: u32 = CONTEXTS_PER_COMM;
/// What makes the key of a join another than that of any port.
const JOIN: u64 = u64::MAX;

impl Connection {
    /// Where both roots meet. Two ranks may connect to each other under the same number.
    pub(super) fn meeting(self, me: u32, other: u32) -> Meeting {
        let opener = if self.from == me { other } else { me };
        Meeting::new(vec![me, other], me, CONTEXT, Channel::Creation, self.tag(opener))
    }

    fn tag(self, opener: u32) -> i32 {
        (self.number * 2 + u32::from(self.from > opener)) as i32
    }
}

/// What stands in the name of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    /// World rank of the opener.
    rank: u32,
    number: i32,
    key: u64,
}

impl Name {
    fn new(job: u64, rank: u32, number: i32) -> Name {
        Name { rank, number, key: key(job, u64::from(rank) << 32 | number as u64) }
    }

    /// Reads a name; only one that this job has made.
    fn parse(job: u64, text: &[u8]) -> Option<Name> {
        let mut words = std::str::from_utf8(text).ok()?.split(':');
        if words.next()? != SCHEME {
            return None;
        }
        let (rank, number) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let name = Name { rank, number, key: u64::from_str_radix(words.next()?, 16).ok()? };
        (words.next().is_none() && name == Name::new(job, rank, number)).then_some(name)
    }

    fn text(self) -> String {
        format!("{SCHEME}:{}:{}:{:016x}", self.rank, self.number, self.key)
    }
}

/// A key that only the job's own processes can make, from its random number (SplitMix64, twice).
fn key(job: u64, subject: u64) -> u64 {
    let mix = |mut word: u64| {
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    };
    mix(mix(job.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ subject)
}

impl Guard {
    /// Opens a port; gives its name.
    ///
    /// # Errors
    /// MPI_ERR_INTERN when this process has too many.
    pub fn open_port(&mut self) -> Result<String> {
        check(self.ports.open.len() < OPEN_MAX && self.ports.last_port < i32::MAX, MPI_ERR_INTERN, || {
            format!("this process has {OPEN_MAX} ports open, no more are possible")
        })?;
        self.ports.last_port += 1;
        let number = self.ports.last_port;
        let port = Rc::new(Port { is_open: Cell::new(true), waiting: RefCell::default() });
        self.ports.open.insert(number, port.clone());
        let me = self.world_rank();
        let mut schedule = Schedule::new(CONTEXT + Channel::TaggedCreation as u32, number);
        schedule.task(Task::new(|turn| receive_requests(port, turn, me, number)));
        let request = self.launch(schedule);
        // The user has no handle of it.
        self.engine.requests.get_mut(request).when_done = WhenDone::Free;
        Ok(Name::new(self.engine.job.id(), me, number).text())
    }

    /// Closes a port; whoever waits for an accept is refused.
    ///
    /// # Errors
    /// MPI_ERR_PORT when this process has not opened it, or has closed it.
    pub fn close_port(&mut self, name: &[u8]) -> Result<()> {
        let (number, port) = self.own_port(name)?;
        self.ports.open.remove(&number);
        port.is_open.set(false);
        let waiting = std::mem::take(&mut *port.waiting.borrow_mut());
        let me = self.world_rank();
        for connection in waiting {
            let meeting = connection.meeting(me, connection.from);
            if let Some(send) = self.send_numbers(&meeting, connection.from, &[0]) {
                self.finish_request(send);
            }
        }
        Ok(())
    }

    /// A port of this process by its name.
    fn own_port(&self, name: &[u8]) -> Result<(i32, Rc<Port>)> {
        let parsed = self.port_of_job(name)?;
        check(parsed.rank == self.world_rank(), MPI_ERR_PORT, || {
            format!("port {} was opened by rank {}, expected one of this process", quoted(name), parsed.rank)
        })?;
        let port = self.ports.open.get(&parsed.number).cloned();
        let port = port.ok_or_else(|| Error::new(MPI_ERR_PORT, closed(name)))?;
        Ok((parsed.number, port))
    }

    fn port_of_job(&self, name: &[u8]) -> Result<Name> {
        let parsed = Name::parse(self.engine.job.id(), name);
        parsed.filter(|parsed| self.engine.job.is_present(parsed.rank as usize)).ok_or_else(|| {
            let text = format_args!(
                "port_name is {}, expected one that MPI_Open_port gave in this job: ports of other launches are not reached",
                quoted(name)
            );
            Error::new(MPI_ERR_PORT, text)
        })
    }

    /// An intercommunicator with the group that connects next to a port of the root's (11.9.2). `name` is
    /// asked at the root only.
    ///
    /// # Errors
    /// MPI_ERR_COMM, MPI_ERR_ROOT; MPI_ERR_PORT on all when the root cannot accept there; MPI_ERR_GROUP when
    /// the groups overlap.
    pub fn accept(
        &mut self,
        name: impl FnOnce() -> Result<Vec<u8>>,
        root: c_int,
        comm: MPI_Comm,
    ) -> Result<MPI_Comm> {
        self.meet_other_group(root, comm, |guard| {
            let (number, port) = guard.own_port(&name()?)?;
            let context = CONTEXT + Channel::TaggedCreation as u32;
            let goal = Goal::Message { context, source: MPI_ANY_SOURCE, tag: number };
            let waited = port.clone();
            let next = guard.wait(None, goal, move |_| {
                let next = waited.waiting.borrow_mut().pop_front();
                if next.is_none() && !waited.is_open.get() { Some(None) } else { next.map(Some) }
            });
            let connection = next.ok_or_else(|| Error::new(MPI_ERR_PORT, "the port was closed meanwhile"))?;
            let meeting = connection.meeting(guard.world_rank(), connection.from);
            if let Some(send) = guard.send_numbers(&meeting, connection.from, &[1]) {
                guard.finish_request(send);
            }
            Ok(meeting)
        })
    }

    /// An intercommunicator with the group that accepts at a port (11.9.2). `name` is asked at the root only.
    ///
    /// # Errors
    /// As [`Guard::accept`].
    pub fn connect(
        &mut self,
        name: impl FnOnce() -> Result<Vec<u8>>,
        root: c_int,
        comm: MPI_Comm,
    ) -> Result<MPI_Comm> {
        self.meet_other_group(root, comm, |guard| {
            let (name, me) = (name()?, guard.world_rank());
            let port = guard.port_of_job(&name)?;
            check(port.rank != me, MPI_ERR_PORT, || {
                format!("port {} is of this process itself, expected another's", quoted(&name))
            })?;
            let connection = Connection { from: me, number: guard.ports.next_connection() };
            let request =
                Meeting::new(vec![me, port.rank], me, CONTEXT, Channel::TaggedCreation, port.number);
            let words = [connection.number];
            let send = guard.send_numbers(&request, port.rank, &words);
            let meeting = connection.meeting(me, port.rank);
            let answer = guard.receive_numbers(&meeting, port.rank);
            if let Some(send) = send {
                guard.finish_request(send);
            }
            check(answer.first() == Some(&1), MPI_ERR_PORT, || closed(&name))?;
            Ok(meeting)
        })
    }

    fn meet_other_group(
        &mut self,
        root: c_int,
        comm: MPI_Comm,
        other: impl FnOnce(&mut Guard) -> Result<Meeting>,
    ) -> Result<MPI_Comm> {
        let intracomm = self.intracomm(comm)?;
        let (root, group) = (intracomm.checked_root(root)?, intracomm.group.clone());
        let meeting = self.whole(comm)?;
        let made = self.bridge(&meeting, root, group, other)?;
        Ok(self.keep_child(comm, made))
    }

    /// An intercommunicator with the process at the other end of a connected stream socket (11.10.5). It is
    /// quiet before and after.
    ///
    /// # Errors
    /// MPI_ERR_ARG when the descriptor is no such socket or the other end no process that joins;
    /// MPI_ERR_OTHER when that one is of another job, or this one itself.
    pub fn join(&mut self, socket: c_int) -> Result<MPI_Comm> {
        let me = self.world_rank();
        let number = self.ports.next_connection();
        let key = key(self.engine.job.id(), JOIN);
        let mut exchange = Exchange::new(Greeting { key, rank: me, number });
        let other = self.wait(None, Goal::Outside(Outside::Socket), |_: &mut Process| {
            exchange.advance(socket).transpose()
        });
        let other =
            other.map_err(|error| Error::new(MPI_ERR_ARG, format_args!("fd is {socket}: {error}")))?;
        let is_ours = other.key == key && self.engine.job.is_present(other.rank as usize);
        check(is_ours && other.rank != me, MPI_ERR_OTHER, || {
            let which = if is_ours { "this process itself" } else { "of another launch" };
            format!(
                "the process at the other end of descriptor {socket} is {which}, expected another of this job"
            )
        })?;
        let tag = if me < other.rank { number } else { other.number };
        let meeting = Meeting::new(vec![me, other.rank], me, CONTEXT, Channel::Introduction, tag as i32);
        let alone = Meeting::new(vec![me], me, CONTEXT, Channel::Creation, 0);
        let made = self.bridge(&alone, 0, Rc::new(Group::new(vec![me])), |_| Ok(meeting))?;
        Ok(self.keep_child(MPI_COMM_SELF, made))
    }
}

/// The task of a port, which never ends.
async fn receive_requests(port: Rc<Port>, turn: Rc<Turn>, me: u32, number: i32) -> Done {
    let context = CONTEXT + Channel::TaggedCreation as u32;
    let mut words = Box::new([0_u32; 1]);
    let refusal = Box::new([0_u32; 1]);
    loop {
        let buffer = Buffer::contiguous(words.as_mut_ptr().cast(), size_of_val(&*words));
        let posted = turn.receive(MPI_ANY_SOURCE, context, number, buffer);
        let from = turn.finished(posted).await.source as u32;
        let connection = Connection { from, number: words[0] };
        if port.is_open.get() && port.waiting.borrow().len() < WAITING_MAX {
            port.waiting.borrow_mut().push_back(connection);
            continue;
        }
        let buffer = Buffer::contiguous(refusal.as_ptr().cast_mut().cast(), size_of_val(&*refusal));
        let context = CONTEXT + Channel::Creation as u32;
        if let Some(sent) = turn.send(from, context, connection.tag(me), buffer) {
            turn.finished(sent).await;
        }
    }
}

/// What each process of a join sends first, and all that it sends, over the user's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Greeting {
    key: u64,
    /// World rank.
    rank: u32,
    /// Number of the connection.
    number: u32,
}

impl Greeting {
    const MAGIC: [u8; 8] = *b"tuttiMPI";
    const BYTES: usize = 24;

    fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&Self::MAGIC);
        bytes[8..16].copy_from_slice(&self.key.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.rank.to_le_bytes());
        bytes[20..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; Self::BYTES]) -> Option<Greeting> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let key = u64::from_le_bytes(bytes[8..16].try_into().expect("8 bytes"));
        (bytes[..8] == Self::MAGIC).then(|| Greeting { key, rank: word(16), number: word(20) })
    }
}

/// Both greetings on their way.
#[derive(Debug)]
struct Exchange {
    own: [u8; Greeting::BYTES],
    sent: usize,
    other: [u8; Greeting::BYTES],
    received: usize,
}

impl Exchange {
    fn new(own: Greeting) -> Exchange {
        Exchange { own: own.encode(), sent: 0, other: [0; Greeting::BYTES], received: 0 }
    }

    /// Moves what the socket takes and has, without blocking; the other's greeting when all has moved.
    fn advance(&mut self, socket: c_int) -> io::Result<Option<Greeting>> {
        while self.sent < Greeting::BYTES {
            let (rest, flags) = (&self.own[self.sent..], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
            // SAFETY: the buffer is valid for its length.
            let sent = unsafe { libc::send(socket, rest.as_ptr().cast(), rest.len(), flags) };
            match moved(sent)? {
                Some(bytes) => self.sent += bytes,
                None => break,
            }
        }
        while self.received < Greeting::BYTES {
            let rest = &mut self.other[self.received..];
            // SAFETY: as above.
            let received =
                unsafe { libc::recv(socket, rest.as_mut_ptr().cast(), rest.len(), libc::MSG_DONTWAIT) };
            match moved(received)? {
                Some(0) => return Err(io::Error::other("the other end was closed")),
                Some(bytes) => self.received += bytes,
                None => break,
            }
        }
        if self.sent < Greeting::BYTES || self.received < Greeting::BYTES {
            return Ok(None);
        }
        let other = Greeting::decode(&self.other);
        other.map(Some).ok_or_else(|| io::Error::other("the other end sent no greeting of MPI_Comm_join"))
    }
}

/// How many bytes a call on a socket has moved; none: not now.
fn moved(result: isize) -> io::Result<Option<usize>> {
    if result >= 0 {
        return Ok(Some(result as usize));
    }
    match io::Error::last_os_error() {
        error if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        error => Err(error),
    }
}

fn closed(name: &[u8]) -> String {
    format!("port {} is closed, or has {WAITING_MAX} connections waiting", quoted(name))
}

/// A text of the user as it is shown in an error.
pub(super) fn quoted(name: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(&name[..name.len().min(80)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_name_is_read_by_its_own_job_only() {
        let name = Name::new(7, 3, 9);
        let text = name.text();
        assert_eq!(Name::parse(7, text.as_bytes()), Some(name));
        assert_eq!(Name::parse(8, text.as_bytes()), None);
        for wrong in
            ["", "tutti", "tutti:3:9", "tutti:3:9:0", &format!("{text}:1"), &text.replace(":3:", ":4:")]
        {
            assert_eq!(Name::parse(7, wrong.as_bytes()), None, "{wrong}");
        }
        assert!(text.len() < MPI_MAX_PORT_NAME as usize);
    }

    #[test]
    fn port_connections_of_two_ranks_to_each_other_have_their_own_tags() {
        let (there, back) = (Connection { from: 1, number: 5 }, Connection { from: 2, number: 5 });
        assert_ne!(there.tag(2), back.tag(1));
        assert!(Connection { from: 2, number: u32::MAX >> 2 }.tag(1) > 0);
    }

    #[test]
    fn port_join_exchanges_greetings_of_any_fragments() {
        let (mut a, b) = std::os::unix::net::UnixStream::pair().unwrap();
        let greeting = Greeting { key: 5, rank: 1, number: 2 };
        let socket = std::os::fd::AsRawFd::as_raw_fd(&b);
        let mut exchange = Exchange::new(Greeting { rank: 2, ..greeting });
        for byte in greeting.encode() {
            assert_eq!(exchange.advance(socket).unwrap(), None);
            std::io::Write::write_all(&mut a, &[byte]).unwrap();
        }
        assert_eq!(exchange.advance(socket).unwrap(), Some(greeting));
        let mut exchange = Exchange::new(greeting);
        std::io::Write::write_all(&mut a, &[0; Greeting::BYTES]).unwrap();
        assert!(exchange.advance(socket).is_err());
        drop(a);
        assert!(Exchange::new(greeting).advance(socket).is_err());
        assert!(Exchange::new(greeting).advance(-1).is_err());
    }
}
