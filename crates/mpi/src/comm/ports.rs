//! Ports (MPI 11.9): a process opens one, another one connects to it by its name, and both groups get an
//! intercommunicator. Also MPI_Comm_join (11.10.5), whose two processes meet over a socket of the user.
//!
//! What the two roots say to each other goes over MPI_COMM_SELF's contexts, which are the same on all ranks
//! and carry nothing else between two of them. A root of another launch is a guest ([`super::spanning`]): the
//! port's name has the opener's address, and with the connection the opener learns that of the other root.
//!
//! | message | from, to | context | tag | content |
//! |---|---|---|---|---|
//! | request | connecting root, opener | `TaggedCreation` | 0 | numbers of the connection and of the port |
//! | answer | opener, connecting root | `Creation` | of the connection | 1 accepted, 0 refused |
//! | groups | both | `Creation` | of the connection | as of MPI_Intercomm_create |
//! | groups of a join | both | `Introduction` | number of the lower rank | the same |
//!
//! One task receives the requests for all ports of a process, as long as that is in MPI at all. It queues
//! them while their port is open. Others it refuses, so it runs until the process leaves the
//! job: a port number is never used again.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use core::ffi::c_int;

use tutti_datatype::Buffer;
use tutti_runtime::guests::Address;

use super::agreement::Meeting;
use super::open_ports::{Connection, OpenPorts, Port, Ports};
use super::{CONTEXTS_PER_COMM, Channel, Comm, Group};
use crate::abi::*;
use crate::collective::schedule::Schedule;
use crate::collective::task::{Done, Task, Turn};
use crate::engine::Engine;
use crate::error::{Error, Result, check};
use crate::progress::Progress;
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
/// Tag of requests: no other message of their context has it ([`super::from_groups`]).
const REQUESTS: i32 = 0;

impl Connection {
    /// Where both roots meet. Two ranks may connect to each other under the same number.
    pub(super) fn meeting(self, me: u32, other: u32) -> Meeting {
        Meeting::new(vec![me, other], me, CONTEXT, Channel::Creation, self.tag())
    }

    fn tag(self) -> i32 {
        (self.number * 2 + u32::from(self.is_behind)) as i32
    }
}

/// Content of the name of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    /// World rank of the opener in its job.
    rank: u32,
    number: i32,
    /// Only the opener's job can make it.
    key: u64,
    /// The opener's, for other launches.
    address: Address,
}

impl Name {
    fn new(job: u64, number: i32, address: Address) -> Name {
        let rank = address.name.rank;
        Name { rank, number, key: key(job, u64::from(rank) << 32 | number as u64), address }
    }

    /// Reads a name; only one that nobody has changed.
    fn parse(text: &[u8]) -> Option<Name> {
        let mut words = std::str::from_utf8(text).ok()?.split(':');
        if words.next()? != SCHEME {
            return None;
        }
        let (rank, number) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let key = u64::from_str_radix(words.next()?, 16).ok()?;
        let address = from_hex(words.next()?)?;
        let sum = u64::from_str_radix(words.next()?, 16).ok()?;
        let name = Name { rank, number, key, address };
        (words.next().is_none() && rank == address.name.rank && sum == name.sum()).then_some(name)
    }

    /// Whether the job with this secret number has made it.
    fn is_of(&self, job: u64) -> bool {
        *self == Name::new(job, self.number, self.address)
    }

    /// Checksum that only those can make who know the opener's key.
    fn sum(&self) -> u64 {
        let start = key(self.key, u64::from(self.rank) << 32 | self.number as u64);
        let of_address = self.address.words().into_iter().fold(start, |sum, word| key(sum, u64::from(word)));
        key(self.address.key, of_address)
    }

    fn text(&self) -> String {
        let address: String = self.address.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{SCHEME}:{}:{}:{:016x}:{address}:{:016x}", self.rank, self.number, self.key, self.sum())
    }
}

/// An address out of two digits for each byte.
fn from_hex(text: &str) -> Option<Address> {
    let digits = text.as_bytes();
    let byte = |pair: &[u8]| {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)
    };
    let bytes: Vec<u8> = digits.chunks_exact(2).map(byte).collect::<Option<_>>()?;
    Address::from_bytes(&bytes).filter(|_| digits.len() == 2 * Address::BYTES)
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

impl Ports {
    /// Opens a port; gives its name.
    ///
    /// # Errors
    /// MPI_ERR_INTERN when this process has too many.
    pub(super) fn open(&self, call: &mut impl Progress) -> Result<String> {
        let has_room = self.open.borrow().len() < OPEN_MAX && self.last_port.get() < i32::MAX;
        check(has_room, MPI_ERR_INTERN, || {
            format!("this process has {OPEN_MAX} ports open, no more are possible")
        })?;
        let address = call.engine_mut().own_address()?;
        let number = self.last_port.get() + 1;
        self.last_port.set(number);
        let port = Rc::new(Port { is_open: Cell::new(true), waiting: RefCell::default() });
        self.open.borrow_mut().insert(number, port);
        if number == 1 {
            self.serve(call);
        }
        Ok(Name::new(call.engine().job.id(), number, address).text())
    }

    /// Starts the task of all ports.
    fn serve(&self, call: &mut impl Progress) {
        let open = self.open.clone();
        let mut schedule = Schedule::new(CONTEXT + Channel::TaggedCreation as u32, REQUESTS);
        schedule.task(Task::new(|turn| receive_requests(open, turn)));
        let request = call.launch(schedule);
        // The user has no handle of it.
        call.engine_mut().requests.get_mut(request).when_done = WhenDone::Free;
    }

    /// Closes a port; whoever waits for an accept is refused.
    ///
    /// # Errors
    /// MPI_ERR_PORT when this process has not opened it, or has closed it.
    pub(super) fn close(&self, call: &mut impl Progress, name: &[u8]) -> Result<()> {
        let (number, port) = self.own(call.engine(), name)?;
        self.open.borrow_mut().remove(&number);
        port.is_open.set(false);
        let waiting = std::mem::take(&mut *port.waiting.borrow_mut());
        let me = call.engine().world_rank();
        for connection in waiting {
            let meeting = connection.meeting(me, connection.from);
            if let Some(send) = meeting.send_numbers(call, connection.from, &[0]) {
                call.finish_request(send);
            }
        }
        Ok(())
    }

    /// A port of this process by its name.
    fn own(&self, engine: &Engine, name: &[u8]) -> Result<(i32, Rc<Port>)> {
        let parsed = port_of(name)?;
        let is_own = parsed.is_of(engine.job.id());
        check(is_own && parsed.rank == engine.world_rank(), MPI_ERR_PORT, || {
            let job = if is_own { "" } else { " of another launch" };
            format!(
                "port {} was opened by rank {}{job}, expected one of this process",
                quoted(name),
                parsed.rank
            )
        })?;
        let port = self.open.borrow().get(&parsed.number).cloned();
        let port = port.ok_or_else(|| Error::new(MPI_ERR_PORT, closed(name)))?;
        Ok((parsed.number, port))
    }

    /// The root's part of MPI_Comm_accept: its meeting with the root that connects next.
    ///
    /// # Errors
    /// MPI_ERR_PORT when this process cannot accept there.
    pub(super) fn accept(&self, call: &mut impl Progress, name: &[u8]) -> Result<Meeting> {
        let (_, port) = self.own(call.engine(), name)?;
        let context = CONTEXT + Channel::TaggedCreation as u32;
        let goal = Goal::Message { context, source: MPI_ANY_SOURCE, tag: REQUESTS };
        let next = call.wait(None, goal, move |_| {
            let next = port.waiting.borrow_mut().pop_front();
            if next.is_none() && !port.is_open.get() { Some(None) } else { next.map(Some) }
        });
        let connection = next.ok_or_else(|| Error::new(MPI_ERR_PORT, "the port was closed meanwhile"))?;
        let meeting = connection.meeting(call.engine().world_rank(), connection.from);
        if let Some(send) = meeting.send_numbers(call, connection.from, &[1]) {
            call.finish_request(send);
        }
        Ok(meeting)
    }
}

fn port_of(name: &[u8]) -> Result<Name> {
    Name::parse(name).ok_or_else(|| {
        let text = format_args!("port_name is {}, expected one that MPI_Open_port gave", quoted(name));
        Error::new(MPI_ERR_PORT, text)
    })
}

/// The opener of a port, as this process numbers it.
fn opener(call: &mut impl Progress, port: Name) -> Result<u32> {
    let engine = call.engine_mut();
    if port.is_of(engine.job.id()) && engine.job.is_present(port.rank as usize) {
        return Ok(port.rank);
    }
    let own = engine.own_address()?;
    let known = engine.introduce([port.address]).filter(|_| own.name.job != port.address.name.job);
    known
        .map(|numbers| numbers[0])
        .ok_or_else(|| Error::new(MPI_ERR_PORT, "port_name was not given by this job, which it names"))
}

/// The root's part of MPI_Comm_connect: its meeting with the opener of the port.
///
/// # Errors
/// MPI_ERR_PORT when it does not accept.
pub(super) fn connect(call: &mut impl Progress, name: &[u8]) -> Result<Meeting> {
    let me = call.engine().world_rank();
    let port = port_of(name)?;
    let opener = opener(call, port)?;
    check(opener != me, MPI_ERR_PORT, || {
        format!("port {} is of this process itself, expected another's", quoted(name))
    })?;
    let is_behind = call.engine().precedes(opener, me);
    let connection = Connection { from: me, number: call.engine_mut().contexts.next_connection(), is_behind };
    let request = Meeting::new(vec![me, opener], me, CONTEXT, Channel::TaggedCreation, REQUESTS);
    let words = [connection.number, u32::from(is_behind), port.number as u32];
    let send = request.send_numbers(call, opener, &words);
    let meeting = connection.meeting(me, opener);
    let answer = meeting.receive_numbers(call, opener);
    if let Some(send) = send {
        call.finish_request(send);
    }
    let answer = answer.map_err(|_| {
        let text = "is of a process that has ended, is not reached from here, or refuses this one";
        Error::new(MPI_ERR_PORT, format_args!("port {} {text}", quoted(name)))
    })?;
    check(answer.first() == Some(&1), MPI_ERR_PORT, || closed(name))?;
    Ok(meeting)
}

/// An intercommunicator with the process at the other end of a connected stream socket (11.10.5). The socket
/// is quiet before and after.
///
/// # Errors
/// MPI_ERR_ARG when the descriptor is no such socket or the other end no process that joins; MPI_ERR_OTHER
/// when that one is this one itself.
pub(super) fn join(call: &mut impl Progress, socket: c_int) -> Result<Comm> {
    let me = call.engine().world_rank();
    let number = call.engine_mut().contexts.next_connection();
    let address = call.engine_mut().own_address()?;
    let mut exchange = Exchange::new(Greeting { address, number });
    let other = call.wait(None, Goal::Outside(Outside::Socket), |_| exchange.advance(socket).transpose());
    let other = other.map_err(|error| Error::new(MPI_ERR_ARG, format_args!("fd is {socket}: {error}")))?;
    let engine = call.engine_mut();
    let rank = engine.introduce([other.address]).map(|numbers| numbers[0]);
    let is_there = |rank: u32| engine.is_guest(rank as usize) || engine.job.is_present(rank as usize);
    let rank = rank.filter(|rank| *rank != me && is_there(*rank));
    let rank = rank.ok_or_else(|| {
        let text = "is this process itself, expected another one";
        Error::new(MPI_ERR_OTHER, format_args!("the process at the other end of descriptor {socket} {text}"))
    })?;
    let tag = if engine.precedes(me, rank) { number } else { other.number };
    let meeting = Meeting::new(vec![me, rank], me, CONTEXT, Channel::Introduction, tag as i32);
    let alone = Meeting::new(vec![me], me, CONTEXT, Channel::Creation, 0);
    alone.bridge(call, 0, Rc::new(Group::new(vec![me])), |_| Ok(meeting))
}

/// The task of all ports, which never ends.
async fn receive_requests(open: OpenPorts, turn: Rc<Turn>) -> Done {
    let context = CONTEXT + Channel::TaggedCreation as u32;
    let mut words = Box::new([0_u32; 3]);
    let refusal = Box::new([0_u32; 1]);
    // Refusals under way: a process that takes none in keeps no others waiting.
    let mut refusals: Vec<u32> = Vec::new();
    loop {
        let buffer = Buffer::contiguous(words.as_mut_ptr().cast(), size_of_val(&*words));
        let posted = turn.receive(MPI_ANY_SOURCE, context, REQUESTS, buffer);
        let from = turn.finished(posted).await.source as u32;
        let connection = Connection { from, number: words[0] & u32::MAX >> 2, is_behind: words[1] != 0 };
        let asked = open.borrow().get(&words[2].cast_signed()).cloned();
        if let Some(port) = asked.filter(|port| port.waiting.borrow().len() < WAITING_MAX) {
            port.waiting.borrow_mut().push_back(connection);
            continue;
        }
        let buffer = Buffer::contiguous(refusal.as_ptr().cast_mut().cast(), size_of_val(&*refusal));
        let context = CONTEXT + Channel::Creation as u32;
        refusals.retain(|sent| !turn.drops_finished(*sent));
        refusals.extend(turn.send(from, context, connection.tag(), buffer));
    }
}

/// Message that each process of a join sends first, and all that it sends, over the user's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Greeting {
    address: Address,
    /// Number of the connection.
    number: u32,
}

impl Greeting {
    const MAGIC: [u8; 8] = *b"tuttiMPI";
    const BYTES: usize = 12 + Address::BYTES;

    fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&Self::MAGIC);
        bytes[8..12].copy_from_slice(&self.number.to_le_bytes());
        bytes[12..].copy_from_slice(&self.address.bytes());
        bytes
    }

    fn decode(bytes: &[u8; Self::BYTES]) -> Option<Greeting> {
        let number = u32::from_le_bytes(bytes[8..12].try_into().expect("4 bytes"));
        let address = Address::from_bytes(&bytes[12..])?;
        (bytes[..8] == Self::MAGIC).then_some(Greeting { address, number })
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
    use tutti_runtime::guests::ProcessName;

    use super::*;

    #[test]
    fn port_name_that_was_changed_is_refused() {
        let name = Name::new(7, 9, address(3));
        let text = name.text();
        let read = Name::parse(text.as_bytes()).unwrap();
        assert!(read == name && read.is_of(7) && !read.is_of(8));
        for wrong in
            ["", "tutti", "tutti:3:9", "tutti:3:9:0", &format!("{text}:1"), &text.replace(":3:", ":4:")]
        {
            assert_eq!(Name::parse(wrong.as_bytes()), None, "{wrong}");
        }
        for at in 0..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[at] = if wrong[at] == b'1' { b'2' } else { b'1' };
            assert_eq!(Name::parse(&wrong), None, "byte {at}");
            assert_eq!(Name::parse(&text.as_bytes()[..at]), None, "{at} bytes");
        }
        assert!(text.len() < MPI_MAX_PORT_NAME as usize);
    }

    fn address(rank: u32) -> Address {
        Address { name: ProcessName { job: 77, rank }, key: 5, inet: Some("[fd00::1]:9".parse().unwrap()) }
    }

    #[test]
    fn port_connections_of_two_ranks_to_each_other_have_their_own_tags() {
        let there = Connection { from: 1, number: 5, is_behind: false };
        let back = Connection { from: 2, number: 5, is_behind: true };
        assert_ne!(there.tag(), back.tag());
        assert!(Connection { number: u32::MAX >> 2, ..back }.tag() > 0);
    }

    #[test]
    fn port_join_exchanges_greetings_of_any_fragments() {
        let (mut a, b) = std::os::unix::net::UnixStream::pair().unwrap();
        let greeting = Greeting { address: address(1), number: 2 };
        let socket = std::os::fd::AsRawFd::as_raw_fd(&b);
        let mut exchange = Exchange::new(Greeting { number: 3, ..greeting });
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
