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
mod guest;
mod newcomer;
mod seal;
mod socket;
mod watch;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use tutti_channel::SendError;
use tutti_shm::endpoint::Endpoint;
use tutti_shm::published::far::Secret;

use crate::net::DATAGRAM_BYTES_MAX;
use crate::router::Client;
use address::Hello;
pub use address::{Address, ProcessName};
use guest::{Guest, InState, OutState};
use newcomer::Newcomer;
use watch::Watch;
pub use watch::{Serve, serve_meanwhile};

/// Connections of which it is not known yet whom they are from, at most; then the oldest is closed.
const NEWCOMERS_MAX: usize = 1024;
/// With so many guests a connection is made at once; further ones are made at the first message.
const EAGER_CONNECTIONS: usize = 128;
/// Bytes of a record, at most.
pub const RECORD_BYTES_MAX: usize = DATAGRAM_BYTES_MAX;
const READ_BYTES: usize = 64 << 10;
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
        self.guest(number).address().name
    }

    /// Whether nothing comes from a guest any more, nor reaches it.
    pub fn is_lost(&self, number: usize) -> bool {
        self.guest(number).is_lost()
    }

    /// Whether a guest has said that it leaves.
    pub fn has_left(&self, number: usize) -> bool {
        self.guest(number).has_left()
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
        let Address { name, key, .. } = self.guest(number).address();
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
        if self.list.iter().filter(|guest| guest.has_out()).count() < EAGER_CONNECTIONS {
            self.connect(number);
        }
    }

    /// Makes the connection to a guest, if there is none: the kernel takes it, whatever the guest does.
    pub fn connect(&mut self, number: usize) {
        let own = self.own;
        let guest = &mut self.list[number - self.first];
        if !guest.wants_out() {
            return;
        }
        let address = guest.address();
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
                let sent = guest.begin(socket, hello, is_far.then_some(&self.secret));
                self.settle(number, sent);
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
        self.list.iter().all(Guest::is_quiet)
    }

    /// Says to all guests that this process leaves its job: nothing is sent after it.
    pub fn leave(&mut self) {
        for number in self.first..self.end() {
            let sent = self.guest_mut(number).leave();
            self.settle(number, sent);
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
        self.guest_mut(to).push_record(to, head, body)?;
        self.connect(to);
        let sent = self.guest_mut(to).flush();
        self.settle(to, sent);
        Ok(())
    }

    /// Makes room for a bulk message of a guest; it needs the name.
    pub fn accept_bulk(&mut self, from: usize, bytes: usize, tag: u64) -> u64 {
        self.guest_mut(from).accept_bulk(bytes, tag)
    }

    /// Begins to send a bulk message under the name that its receiver gave it.
    pub fn send_bulk(&mut self, to: usize, name: u64, bytes: usize, tag: u64) {
        if self.guest_mut(to).push_bulk(name, bytes, tag) {
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

    fn guest_mut(&mut self, number: usize) -> &mut Guest {
        &mut self.list[number - self.first]
    }

    /// Deals with what has become of a connection to a guest.
    fn settle(&mut self, number: usize, state: OutState) {
        match state {
            OutState::Open => {}
            OutState::Broken => self.again.push(out_number(number)),
            OutState::Closed => self.close(number),
        }
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
            self.newcomers.push_back(Newcomer::new(accepted, door == INET_DOOR));
            self.again.push(NEWCOMER);
        }
    }

    /// Takes the hellos that have come.
    fn greet(&mut self) {
        for mut newcomer in std::mem::take(&mut self.newcomers) {
            match newcomer.take() {
                Ok(None) => self.newcomers.push_back(newcomer),
                Ok(Some(hello)) if hello.key == self.own.key && newcomer.has_proved(&self.secret) => {
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
        if guest.is_lost()
            || guest.has_inbound()
            || self.watch.change(newcomer.socket(), in_number(number)).is_err()
        {
            return;
        }
        guest.let_in(newcomer.into_socket());
        // Whoever polls makes a place for the guest first.
        self.again.push(in_number(number));
        self.approach(number);
    }

    /// Takes what a guest has sent.
    fn take_in(&mut self, number: usize, client: &mut dyn Client) {
        match self.list[number - self.first].take_in(number, &mut self.scratch, client) {
            InState::Empty => {}
            InState::More => self.again.push(in_number(number)),
            InState::Ended => self.lose(number),
        }
    }

    /// Sends what the connection to a guest takes.
    fn push_out(&mut self, number: usize, client: &mut dyn Client) {
        self.connect(number);
        let sent = self.list[number - self.first].push_out(&mut self.scratch, client);
        self.settle(number, sent);
    }

    /// A guest takes nothing any more. What it has sent before may still lie in the other connection, whose
    /// end tells; there may be one that waits at a door.
    fn close(&mut self, number: usize) {
        let guest = &mut self.list[number - self.first];
        guest.close();
        if !guest.has_inbound() {
            self.doomed.push(number);
        }
    }

    /// Loses the doomed guests from which no connection waits at a door either.
    fn judge(&mut self, doomed: &[usize]) {
        self.accept(LOCAL_DOOR);
        self.accept(INET_DOOR);
        self.greet();
        for &number in doomed {
            if !self.guest(number).has_inbound() {
                self.lose(number);
            }
        }
    }

    /// A guest that does not keep the rules is lost.
    pub fn expel(&mut self, number: usize) {
        self.lose(number);
    }

    fn lose(&mut self, number: usize) {
        if self.guest_mut(number).lose() {
            self.lost.push(number);
        }
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
