//! Guests: processes of other launches, with which this one has communicators (MPI 11.9).
//!
//! A guest has a number here, behind all world ranks that the job has room for, so that whoever works with
//! world ranks works with guests. The number is this process's own; between processes an [`Address`] says
//! who is meant. When a guest is lost and nothing names it any more, its number may be another's:
//!
//! ```text
//! introduce, or it connects -> take_new -> ... messages ... -> take_lost -> forget -> introduce another
//! ```
//!
//! Sockets of a guest that was forgotten are closed. What the watch has told of them before makes a look at
//! the next guest of that number, which does no harm.
//!
//! Each direction between two processes has a connection of its own, made by the sender. So two that connect
//! to each other at the same time need no rule.
//!
//! ```text
//! connection   hello (whom it is for: a key; whom it is from: an address), then frames
//! between nodes: hello, seal --> <-- proof, then frames
//! frame        | kind | 0 0 0 | bytes: u32 | ...       little endian
//! ```
//!
//! | frame | content |
//! |---|---|
//! | RECORD | a record of the engine, with its head |
//! | BULK | name of a bulk message, then its next bytes |
//! | LEAVE | nothing: the sender has left its job, and all is said |
//!
//! On a node the kernel says whose process is at the other end. Between nodes both show that their daemons
//! have told them the user's secret ([`seal`]): the seal and the proof are made from it and from the hello.
//! Without daemons there is no secret, and the key in the hello is all.
//!
//! A connection of another user, with another key, or with anything else in front is closed. A stream that is
//! no sequence of frames makes its guest lost. The kernel says when a process has died: its connections end.
//! Nothing here waits: [`Guests::poll`] moves what can be moved, and the thread of [`watch`] rings when there
//! is more.

pub mod address;
mod seal;
mod socket;
mod watch;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use tutti_channel::SendError;
use tutti_rma::wire;
use tutti_shm::endpoint::Endpoint;
use tutti_shm::envelope::{CANCEL, CANCELLED, CREDIT, CTS, EAGER, FIN, Head, PART, RTS, STREAM};
use tutti_shm::published::far::Secret;

use crate::net::DATAGRAM_BYTES_MAX;
use crate::router::Client;
use address::Hello;
pub use address::{Address, ProcessName};
use watch::Watch;
pub use watch::{Serve, serve_meanwhile};

/// Connections of which it is not known yet whom they are from, at most; then the oldest is closed.
const NEWCOMERS_MAX: usize = 1024;
/// With so many guests a connection is made at once; further ones are made at the first message.
const EAGER_CONNECTIONS: usize = 128;
/// Bytes that wait for a connection before no more records are taken.
const QUEUE_BYTES_MAX: usize = 256 << 10;
/// Bytes of a bulk message in a frame.
const FRAGMENT_BYTES: usize = 64 << 10;
/// Bytes behind the head of a frame, at most.
const FRAME_BYTES_MAX: usize = FRAGMENT_BYTES + 64;
/// Bytes of a record, at most.
pub const RECORD_BYTES_MAX: usize = DATAGRAM_BYTES_MAX;
/// Bytes taken from one connection before the others are looked at.
const TURN_BYTES: usize = 1 << 20;
const READ_BYTES: usize = 64 << 10;
const HEAD_BYTES: usize = 8;
const NAME_BYTES: usize = 8;

/// Bytes of a message whose data come in several records, at most.
const STREAM_BYTES_MAX: u64 = 1 << 20;

const RECORD: u8 = 1;
const BULK: u8 = 2;
const LEAVE: u8 = 3;

/// Numbers of sockets that are no guest's.
const LOCAL_DOOR: u64 = u64::MAX;
const INET_DOOR: u64 = u64::MAX - 1;
const NEWCOMER: u64 = u64::MAX - 2;

/// All guests of this process.
#[derive(Debug)]
pub struct Guests {
    /// Number of the first guest.
    first: usize,
    own: Address,
    local_door: OwnedFd,
    inet_door: Option<OwnedFd>,
    /// Secret that processes of this user on all nodes know.
    secret: Secret,
    watch: Watch,
    list: Vec<Guest>,
    /// By names and keys: a job may use the number of a rank again.
    numbers: HashMap<(ProcessName, u64), usize>,
    /// Numbers of guests that are forgotten.
    free: Vec<usize>,
    /// Guests that have come since [`Guests::take_new`].
    new: Vec<usize>,
    newcomers: VecDeque<Newcomer>,
    /// Sockets that can go on although nothing new has come.
    again: Vec<u64>,
    /// Sockets that are to be tried again after a while: something is short.
    later: Vec<u64>,
    /// Guests that take no connection, and from which none is known yet.
    doomed: Vec<usize>,
    /// Guests that were lost since [`Guests::take_lost`].
    lost: Vec<usize>,
    scratch: Box<[u8]>,
}

/// A connection whose hello has not come whole.
#[derive(Debug)]
struct Newcomer {
    socket: OwnedFd,
    /// Whether the connection comes from another node: a seal follows its hello.
    is_far: bool,
    greeting: [u8; Hello::BYTES + seal::BYTES],
    received: usize,
}

#[derive(Debug)]
struct Guest {
    address: Address,
    /// The connection to it.
    out: Option<OwnedFd>,
    /// Proof that the guest must show on that before it gets anything.
    awaited: Option<Awaited>,
    /// Bytes to send, of which the connection has taken the first `sent`.
    queue: Vec<u8>,
    sent: usize,
    bulk_out: VecDeque<BulkOut>,
    /// The connection from it.
    inbound: Option<OwnedFd>,
    /// Bytes that have come and are no whole frame.
    input: Vec<u8>,
    bulk_in: HashMap<u64, BulkIn>,
    next_name: u64,
    /// Whether the guest has said that it leaves.
    has_left: bool,
    /// Whether the guest takes nothing any more.
    is_closed: bool,
    /// Whether nothing comes from the guest either.
    is_lost: bool,
}

/// A proof that a guest of another node has still to show.
#[derive(Debug)]
struct Awaited {
    /// Greeting that the guest has to get first, as far as the connection has not taken it.
    greeting: Vec<u8>,
    proof: [u8; seal::BYTES],
    received: usize,
}

#[derive(Debug)]
struct BulkOut {
    name: u64,
    tag: u64,
    bytes: usize,
    sent: usize,
}

#[derive(Debug)]
struct BulkIn {
    tag: u64,
    bytes: usize,
    received: usize,
}

/// A frame is none, or not one that may come now.
struct Malformed;

impl Guests {
    /// Opens the doors of a process: world rank `rank` of the job with this secret number, whose guests have
    /// numbers from `first` on. `endpoint` is rung when something comes. With `ip` processes of other nodes
    /// may connect, too, which know the same secret.
    ///
    /// # Errors
    /// When there are no more descriptors or threads.
    pub fn open(
        name: ProcessName,
        key: u64,
        first: usize,
        (ip, secret): (Option<IpAddr>, Secret),
        endpoint: &Endpoint,
    ) -> io::Result<Guests> {
        let mut own = Address { name, key, inet: None };
        let local_door = socket::listen_local(&own.local_socket())?;
        let inet_door = match ip.map(socket::listen_inet).transpose()? {
            None => None,
            Some((door, address)) => {
                own.inet = Some(address);
                Some(door)
            }
        };
        let watch = Watch::start(endpoint)?;
        watch.add(&local_door, LOCAL_DOOR)?;
        if let Some(door) = &inet_door {
            watch.add(door, INET_DOOR)?;
        }
        Ok(Guests {
            first,
            own,
            local_door,
            inet_door,
            secret,
            watch,
            list: Vec::new(),
            numbers: HashMap::new(),
            free: Vec::new(),
            new: Vec::new(),
            newcomers: VecDeque::new(),
            again: Vec::new(),
            later: Vec::new(),
            doomed: Vec::new(),
            lost: Vec::new(),
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
        })
    }

    /// Where this process takes connections.
    pub fn own_address(&self) -> Address {
        self.own
    }

    /// One more than the highest number of a guest.
    pub fn end(&self) -> usize {
        self.first + self.list.len()
    }

    /// Whether a number is that of a guest.
    pub fn has(&self, number: usize) -> bool {
        (self.first..self.end()).contains(&number)
    }

    /// The name of a guest.
    pub fn name(&self, number: usize) -> ProcessName {
        self.guest(number).address.name
    }

    /// Whether nothing comes from a guest any more, nor reaches it.
    pub fn is_lost(&self, number: usize) -> bool {
        self.guest(number).is_lost
    }

    /// Whether a guest has said that it leaves.
    pub fn has_left(&self, number: usize) -> bool {
        self.guest(number).has_left
    }

    /// The number of the process with this address: its world rank if it is of this job; none if this job has
    /// no such rank.
    pub fn introduce(&mut self, address: Address) -> Option<usize> {
        if address.name.job == self.own.name.job {
            return Some(address.name.rank as usize).filter(|rank| *rank < self.first);
        }
        if let Some(number) = self.numbers.get(&(address.name, address.key)) {
            return Some(*number);
        }
        let number = self.free.pop().unwrap_or(self.end());
        match self.list.get_mut(number - self.first) {
            Some(place) => *place = Guest::new(address),
            None => self.list.push(Guest::new(address)),
        }
        self.numbers.insert((address.name, address.key), number);
        self.new.push(number);
        Some(number)
    }

    /// Whether guests have come since [`Guests::take_new`].
    pub fn has_new(&self) -> bool {
        !self.new.is_empty()
    }

    /// Guests that have come since the last call, new numbers in their order.
    pub fn take_new(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.new)
    }

    /// Forgets a guest that is lost, so that another one may get its number. False if that is not known to
    /// all yet.
    ///
    /// # Panics
    /// When it is not lost.
    pub fn forget(&mut self, number: usize) -> bool {
        assert!(self.is_lost(number), "guest {number} may still send");
        if [&self.lost, &self.doomed, &self.new].iter().any(|list| list.contains(&number)) {
            return false;
        }
        let Address { name, key, .. } = self.guest(number).address;
        if self.numbers.remove(&(name, key)).is_some() {
            self.free.push(number);
        }
        true
    }

    /// Whether a guest of this job is known.
    pub fn knows_job(&self, job: u64) -> bool {
        self.numbers.keys().any(|(name, _)| name.job == job)
    }

    /// Connects to a guest, unless there are many: so its end is known even if no message goes there.
    pub fn approach(&mut self, number: usize) {
        if self.list.iter().filter(|guest| guest.out.is_some()).count() < EAGER_CONNECTIONS {
            self.connect(number);
        }
    }

    /// Makes the connection to a guest, if there is none: the kernel takes it, whatever the guest does.
    pub fn connect(&mut self, number: usize) {
        let own = self.own;
        let guest = &mut self.list[number - self.first];
        if guest.out.is_some() || guest.is_closed || guest.is_lost {
            return;
        }
        let address = guest.address;
        let local = socket::connect_local(&address.local_socket());
        let connected = match (local, address.inet) {
            (Err(error), Some(inet)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                socket::connect_inet(inet).map(|socket| (socket, true))
            }
            (local, _) => local.map(|socket| (socket, false)),
        };
        let watched = connected.and_then(|(socket, is_far)| {
            self.watch.add(&socket, out_number(number))?;
            Ok((socket, is_far))
        });
        match watched {
            Ok((socket, is_far)) => {
                let hello = Hello { key: address.key, from: own }.encode();
                guest.out = Some(socket);
                if is_far {
                    let (shown, proof) = seal::of(&self.secret, &hello);
                    let greeting = [&hello[..], &shown].concat();
                    guest.awaited = Some(Awaited { greeting, proof, received: 0 });
                    self.send_greeting(number);
                } else {
                    guest.queue.splice(..0, hello);
                    self.flush(number);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.later.push(out_number(number)),
            Err(_) => self.close(number),
        }
    }

    /// Whether a look is due although no socket has changed.
    pub fn wants_look(&self) -> bool {
        !self.again.is_empty() || !self.later.is_empty() || !self.doomed.is_empty()
    }

    /// Whether nothing waits for a connection.
    pub fn is_quiet(&self) -> bool {
        let is_greeted =
            |guest: &Guest| guest.awaited.as_ref().is_none_or(|awaited| awaited.greeting.is_empty());
        let owes_nothing = |guest: &Guest| guest.queue.is_empty() && guest.bulk_out.is_empty();
        self.list.iter().all(|guest| guest.is_lost || owes_nothing(guest) && is_greeted(guest))
    }

    /// Says to all guests that this process leaves its job: nothing is sent after it.
    pub fn leave(&mut self) {
        for number in self.first..self.end() {
            let guest = self.guest(number);
            if guest.out.is_none() {
                continue;
            }
            if guest.awaited.is_some() && guest.queue.is_empty() && guest.bulk_out.is_empty() {
                // This much whoever has its address may know.
                let awaited = self.list[number - self.first].awaited.as_mut();
                awaited.into_iter().for_each(|awaited| begin_frame(&mut awaited.greeting, LEAVE, 0));
                self.send_greeting(number);
                continue;
            }
            self.push_frame(number, LEAVE, &[], &[]);
            self.flush(number);
        }
    }

    /// The guests that were lost since the last call.
    pub fn take_lost(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.lost)
    }

    /// Puts a record into the queue to a guest.
    ///
    /// # Errors
    /// When too much waits there, or the guest is lost.
    pub fn try_send(&mut self, to: usize, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        if self.guest(to).is_lost || self.guest(to).is_closed {
            return Err(SendError::Exited(to as u32));
        }
        if self.guest(to).queue.len() - self.guest(to).sent > QUEUE_BYTES_MAX {
            return Err(SendError::Full);
        }
        self.push_frame(to, RECORD, head, body);
        self.connect(to);
        self.flush(to);
        Ok(())
    }

    /// Makes room for a bulk message of a guest; it needs the name.
    pub fn accept_bulk(&mut self, from: usize, bytes: usize, tag: u64) -> u64 {
        let guest = &mut self.list[from - self.first];
        let name = guest.next_name;
        guest.next_name += 1;
        if !guest.is_lost {
            guest.bulk_in.insert(name, BulkIn { tag, bytes, received: 0 });
        }
        name
    }

    /// Begins to send a bulk message under the name that its receiver gave it.
    pub fn send_bulk(&mut self, to: usize, name: u64, bytes: usize, tag: u64) {
        let guest = &mut self.list[to - self.first];
        if !guest.is_lost && !guest.is_closed {
            guest.bulk_out.push_back(BulkOut { name, tag, bytes, sent: 0 });
            self.again.push(out_number(to));
        }
    }

    /// Moves whatever can be moved. Returns whether anything has.
    pub fn poll(&mut self, client: &mut dyn Client) -> bool {
        let mut numbers = self.watch.take();
        numbers.append(&mut self.again);
        let moved = !numbers.is_empty();
        numbers.append(&mut self.later);
        let doomed = std::mem::take(&mut self.doomed);
        numbers.sort_unstable();
        numbers.dedup();
        for &number in &numbers {
            match number {
                LOCAL_DOOR | INET_DOOR => self.accept(number),
                NEWCOMER => self.greet(),
                _ if (number >> 1) as usize >= self.end() => {}
                _ if number & 1 == 0 => self.take_in((number >> 1) as usize, client),
                _ => self.push_out((number >> 1) as usize, client),
            }
        }
        // Last: who comes now may have the number of a guest of which the watch has told.
        if !doomed.is_empty() {
            self.judge(&doomed);
        }
        moved
    }

    fn guest(&self, number: usize) -> &Guest {
        &self.list[number - self.first]
    }

    fn accept(&mut self, door: u64) {
        loop {
            let from = if door == LOCAL_DOOR { Some(&self.local_door) } else { self.inet_door.as_ref() };
            let accepted = from.map_or(Ok(None), socket::accept);
            let Ok(accepted) = accepted else {
                // No descriptor is free, or this one connection has failed: others wait.
                self.later.push(door);
                return;
            };
            let Some(accepted) = accepted else { return };
            let may_come = door == INET_DOOR || socket::peer_is_same_user(&accepted).unwrap_or(false);
            if !may_come || self.watch.add(&accepted, NEWCOMER).is_err() {
                continue;
            }
            if self.newcomers.len() == NEWCOMERS_MAX {
                self.newcomers.pop_front();
            }
            let (is_far, greeting) = (door == INET_DOOR, [0; Hello::BYTES + seal::BYTES]);
            self.newcomers.push_back(Newcomer { socket: accepted, is_far, greeting, received: 0 });
            self.again.push(NEWCOMER);
        }
    }

    /// Takes the hellos that have come.
    fn greet(&mut self) {
        for mut newcomer in std::mem::take(&mut self.newcomers) {
            match newcomer.take() {
                Ok(None) => self.newcomers.push_back(newcomer),
                Ok(Some(hello))
                    if hello.key == self.own.key
                        && (!newcomer.is_far || newcomer.has_proved(&self.secret)) =>
                {
                    self.let_in(hello.from, newcomer);
                }
                _ => {}
            }
        }
    }

    fn let_in(&mut self, from: Address, newcomer: Newcomer) {
        let number = match self.introduce(from) {
            Some(number) if number >= self.first => number,
            _ => return,
        };
        let guest = &mut self.list[number - self.first];
        // One that is lost does not come back, and a second connection is nobody's.
        if guest.is_lost
            || guest.inbound.is_some()
            || self.watch.change(&newcomer.socket, in_number(number)).is_err()
        {
            return;
        }
        guest.inbound = Some(newcomer.socket);
        // Whoever polls makes a place for the guest first.
        self.again.push(in_number(number));
        self.approach(number);
    }

    /// Takes what a guest has sent.
    fn take_in(&mut self, number: usize, client: &mut dyn Client) {
        let mut taken = 0;
        loop {
            let guest = &mut self.list[number - self.first];
            let Some(inbound) = &guest.inbound else { return };
            match socket::receive(inbound, &mut self.scratch) {
                Ok(None) => return,
                Ok(Some(0)) | Err(_) => return self.lose(number),
                Ok(Some(bytes)) => {
                    taken += bytes;
                    guest.input.extend_from_slice(&self.scratch[..bytes]);
                }
            }
            let mut input = std::mem::take(&mut guest.input);
            match guest.take_frames(number, &input, client) {
                Ok(used) => input.drain(..used),
                Err(Malformed) => return self.lose(number),
            };
            self.list[number - self.first].input = input;
            if taken >= TURN_BYTES {
                self.again.push(in_number(number));
                return;
            }
        }
    }

    /// Sends what the connection to a guest takes.
    fn push_out(&mut self, number: usize, client: &mut dyn Client) {
        self.connect(number);
        if !self.take_proof(number) {
            return;
        }
        // The guest closes its end of this connection when it ends.
        let guest = &mut self.list[number - self.first];
        let Some(out) = &guest.out else { return };
        if !matches!(socket::receive(out, &mut self.scratch[..1]), Ok(None)) {
            return self.close(number);
        }
        loop {
            self.flush(number);
            let guest = &mut self.list[number - self.first];
            if !guest.queue.is_empty() {
                return;
            }
            let Some(bulk) = guest.bulk_out.front_mut() else { return };
            let bytes = FRAGMENT_BYTES.min(bulk.bytes - bulk.sent);
            begin_frame(&mut guest.queue, BULK, NAME_BYTES + bytes);
            guest.queue.extend_from_slice(&bulk.name.to_le_bytes());
            let at = guest.queue.len();
            guest.queue.resize(at + bytes, 0);
            client.read(bulk.tag, bulk.sent as u64, &mut guest.queue[at..]);
            bulk.sent += bytes;
            if bulk.sent == bulk.bytes {
                client.bulk_sent(bulk.tag);
                guest.bulk_out.pop_front();
            }
        }
    }

    /// Sends what comes before all frames to a guest of another node, as far as the connection takes it.
    fn send_greeting(&mut self, number: usize) {
        let guest = &mut self.list[number - self.first];
        let (Some(out), Some(awaited)) = (&guest.out, &mut guest.awaited) else { return };
        while !awaited.greeting.is_empty() {
            match socket::send(out, &awaited.greeting) {
                Ok(Some(bytes)) => drop(awaited.greeting.drain(..bytes)),
                // The connection is not there yet.
                Ok(None) => return,
                Err(_) => return self.close(number),
            }
        }
    }

    /// Whether a guest may get frames; one of another node has to show its proof first.
    fn take_proof(&mut self, number: usize) -> bool {
        self.send_greeting(number);
        let guest = &mut self.list[number - self.first];
        let (Some(out), Some(awaited)) = (&guest.out, &mut guest.awaited) else { return true };
        if !awaited.greeting.is_empty() {
            return false;
        }
        while awaited.received < seal::BYTES {
            let rest = &mut self.scratch[..seal::BYTES - awaited.received];
            let shown = match socket::receive(out, rest) {
                Ok(None) => return false,
                Ok(Some(bytes @ 1..)) => &rest[..bytes],
                _ => break,
            };
            // As soon as a byte is wrong the rest does not matter.
            if awaited.proof[awaited.received..][..shown.len()] != *shown {
                break;
            }
            awaited.received += shown.len();
        }
        if awaited.received < seal::BYTES {
            self.close(number);
            return false;
        }
        guest.awaited = None;
        true
    }

    fn push_frame(&mut self, to: usize, kind: u8, head: &[u8], body: &[u8]) {
        let queue = &mut self.list[to - self.first].queue;
        begin_frame(queue, kind, head.len() + body.len());
        queue.extend_from_slice(head);
        queue.extend_from_slice(body);
    }

    /// Sends what waits in a queue, as far as the connection takes it.
    fn flush(&mut self, number: usize) {
        let guest = &mut self.list[number - self.first];
        let Some(out) = guest.out.as_ref().filter(|_| guest.awaited.is_none()) else { return };
        while guest.sent < guest.queue.len() {
            match socket::send(out, &guest.queue[guest.sent..]) {
                Ok(Some(bytes)) => guest.sent += bytes,
                Ok(None) => break,
                Err(_) => {
                    // The next look finds the connection closed.
                    self.again.push(out_number(number));
                    break;
                }
            }
        }
        if guest.sent == guest.queue.len() {
            guest.queue.clear();
            guest.sent = 0;
        } else if guest.sent > QUEUE_BYTES_MAX {
            guest.queue.drain(..guest.sent);
            guest.sent = 0;
        }
    }

    /// A guest takes nothing any more. What it has sent before may still lie in the other connection, whose
    /// end tells; there may be one that waits at a door.
    fn close(&mut self, number: usize) {
        let guest = &mut self.list[number - self.first];
        guest.close();
        if guest.inbound.is_none() {
            self.doomed.push(number);
        }
    }

    /// Loses the doomed guests from which no connection waits at a door either.
    fn judge(&mut self, doomed: &[usize]) {
        self.accept(LOCAL_DOOR);
        self.accept(INET_DOOR);
        self.greet();
        for &number in doomed {
            if self.guest(number).inbound.is_none() {
                self.lose(number);
            }
        }
    }

    /// A guest that does not keep the rules is lost.
    pub fn expel(&mut self, number: usize) {
        self.lose(number);
    }

    fn lose(&mut self, number: usize) {
        let guest = &mut self.list[number - self.first];
        if !guest.is_lost {
            guest.is_lost = true;
            (guest.out, guest.awaited, guest.inbound) = (None, None, None);
            (guest.queue, guest.input) = (Vec::new(), Vec::new());
            guest.bulk_out.clear();
            guest.bulk_in.clear();
            self.lost.push(number);
        }
    }
}

impl Newcomer {
    /// Takes the hello, when it is there; an error when it will not come.
    fn take(&mut self) -> io::Result<Option<Hello>> {
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

    /// Whether its seal is that of the user; if so it has the proof of this process.
    fn has_proved(&self, secret: &Secret) -> bool {
        let (hello, shown) = self.greeting.split_at(Hello::BYTES);
        let (seal, proof) = seal::of(secret, hello);
        // The socket is empty, so it takes a few bytes.
        seal::is_same(shown, &seal) && matches!(socket::send(&self.socket, &proof), Ok(Some(seal::BYTES)))
    }
}

impl Guest {
    fn new(address: Address) -> Self {
        Guest {
            address,
            out: None,
            awaited: None,
            queue: Vec::new(),
            sent: 0,
            bulk_out: VecDeque::new(),
            inbound: None,
            input: Vec::new(),
            bulk_in: HashMap::new(),
            next_name: 0,
            has_left: false,
            is_closed: false,
            is_lost: false,
        }
    }

    /// Takes the whole frames at the beginning; returns their bytes.
    fn take_frames(
        &mut self,
        from: usize,
        input: &[u8],
        client: &mut dyn Client,
    ) -> Result<usize, Malformed> {
        let mut rest = input;
        while let Some((head, behind)) = rest.split_first_chunk::<HEAD_BYTES>() {
            let bytes = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
            if bytes > FRAME_BYTES_MAX || self.has_left {
                return Err(Malformed);
            }
            let Some((content, behind)) = behind.split_at_checked(bytes) else { break };
            match head[0] {
                RECORD if is_sound(content) => {
                    client.record(from, content);
                }
                BULK => self.take_fragment(content, client)?,
                LEAVE => self.has_left = true,
                _ => return Err(Malformed),
            }
            rest = behind;
        }
        Ok(input.len() - rest.len())
    }

    fn take_fragment(&mut self, content: &[u8], client: &mut dyn Client) -> Result<(), Malformed> {
        let (name, data) = content.split_first_chunk::<NAME_BYTES>().ok_or(Malformed)?;
        let name = u64::from_le_bytes(*name);
        let bulk = self.bulk_in.get_mut(&name).ok_or(Malformed)?;
        if data.len() > bulk.bytes - bulk.received {
            return Err(Malformed);
        }
        client.fragment(bulk.tag, bulk.received as u64, data);
        bulk.received += data.len();
        if bulk.received == bulk.bytes {
            let tag = bulk.tag;
            self.bulk_in.remove(&name);
            client.bulk_received(tag);
        }
        Ok(())
    }

    /// Closes the connection to a guest that takes nothing any more: what waits for it is dropped.
    fn close(&mut self) {
        self.is_closed = true;
        (self.out, self.awaited) = (None, None);
        (self.queue, self.sent) = (Vec::new(), 0);
        self.bulk_out.clear();
    }
}

/// The head of a frame.
fn begin_frame(queue: &mut Vec<u8>, kind: u8, bytes: usize) {
    queue.extend_from_slice(&[kind, 0, 0, 0]);
    queue.extend_from_slice(&(bytes as u32).to_le_bytes());
}

/// Whether a record is one that a guest sends: of a message, or of an operation on memory.
fn is_sound(record: &[u8]) -> bool {
    if record.first().is_some_and(|kind| wire::KINDS.contains(kind)) {
        return wire::parse(record).is_some();
    }
    let Some((head, data)) = Head::decode(record) else { return false };
    match head.kind {
        EAGER => head.length == data.len() as u64,
        STREAM => (data.len() as u64) < head.length && head.length <= STREAM_BYTES_MAX,
        PART => !data.is_empty(),
        RTS | CTS | FIN | CREDIT | CANCEL | CANCELLED => data.is_empty(),
        _ => false,
    }
}

/// Number that stands for the connection from a guest.
fn in_number(guest: usize) -> u64 {
    guest as u64 * 2
}

/// Number that stands for the connection to a guest.
fn out_number(guest: usize) -> u64 {
    in_number(guest) + 1
}

#[cfg(test)]
mod tests;
