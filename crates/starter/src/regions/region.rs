//! One published region: operations on its memory, or its messages on their way to the owner.
//!
//! A message is held here until the owner has taken it, which it says by a byte. What is held is bounded by
//! the length that the owner gave: a message that has no room is refused. No client has more of that room
//! than its share while others are there.

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};

use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    recv, sendmsg,
};
use tutti_shm::local_socket;
use tutti_shm::published::area::Area;
use tutti_shm::published::{
    ATOMIC, Answer, Ask, Audience, DATA_BYTES_MAX, MESSAGES, READ, REGION_BYTES_MAX, Status, WRITE, holds,
    is_name, socket_name,
};

/// Room for messages of one region, at most.
const MESSAGES_BYTES_MAX: u64 = 1 << 30;
/// Messages on their way at once: what their socket holds.
const UNDER_WAY_MAX: usize = 16;
/// Messages that are held, at most, however short they are.
const HELD_MAX: usize = 4096;

/// Kind of what is published.
#[derive(Debug)]
pub(super) enum Kind {
    /// Memory.
    Memory(Area),
    /// Messages for the owner.
    Messages(Messages),
}

/// A region.
#[derive(Debug)]
pub(super) struct Region {
    pub owner: u64,
    pub generation: u64,
    pub bytes: u64,
    pub rights: u32,
    pub audience: Audience,
    pub kind: Kind,
    /// Where clients come in.
    pub listener: OwnedFd,
    /// Clients that wait for a change.
    pub waiting: Vec<u64>,
}

/// Outcome of a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// An answer, and what follows it.
    Answer(Answer, Vec<u8>),
    /// As before; the memory has changed.
    Changed(Answer),
    /// Answer that is given when the number has changed.
    Later,
    /// Question that has no answer.
    Silence,
}

fn refused(status: Status) -> Outcome {
    Outcome::Answer(Answer { status, value: 0 }, Vec::new())
}

/// Region that an owner wants to publish.
#[derive(Debug)]
pub(super) struct Offer<'a> {
    pub name: &'a [u8],
    pub bytes: u64,
    pub rights: u32,
    pub audience: Audience,
}

impl Offer<'_> {
    fn is_memory(&self) -> bool {
        self.rights & MESSAGES == 0
    }

    /// Whether its name, its length and its rights are such as a region can have.
    pub(super) fn is_right(&self) -> bool {
        let known = READ | WRITE | ATOMIC;
        let bytes_max = if self.is_memory() { REGION_BYTES_MAX } else { MESSAGES_BYTES_MAX };
        is_name(self.name)
            && (1..=bytes_max).contains(&self.bytes)
            && (self.rights == MESSAGES || (self.rights != 0 && self.rights & !known == 0))
    }
}

impl Region {
    /// Region as it is offered, under its name of user `uid`, and the owner's end of it: the memory, or the
    /// socket of its messages. Nobody can come in yet.
    pub(super) fn create(
        offer: Offer<'_>,
        uid: u32,
        owner: u64,
        generation: u64,
    ) -> Result<(Self, OwnedFd), Status> {
        let is_memory = offer.is_memory();
        let Offer { name, bytes, rights, audience } = offer;
        let name = std::str::from_utf8(name).map_err(|_| Status::Invalid)?;
        let listener = bind(&socket_name(uid, name))?;
        let (kind, gift) = if is_memory {
            let area = Area::create(usize::try_from(bytes).map_err(|_| Status::Invalid)?);
            let area = area.map_err(|_| Status::Memory)?;
            let gift = area.descriptor().try_clone_to_owned().map_err(|_| Status::Memory)?;
            (Kind::Memory(area), gift)
        } else {
            let pair =
                net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
            let (own, gift) = pair.map_err(|_| Status::Memory)?;
            (Kind::Messages(Messages::new(own, bytes as usize)), gift)
        };
        let waiting = Vec::new();
        Ok((Region { owner, generation, bytes, rights, audience, kind, listener, waiting }, gift))
    }

    /// Whether its memory may be mapped for writing by a client.
    pub(super) fn is_mapped_for_writing(&self) -> bool {
        self.rights & (READ | WRITE) == READ | WRITE
    }

    /// Does what a client asks, who was given these rights.
    pub(super) fn apply(
        &mut self,
        client: u64,
        rights: u32,
        clients: usize,
        ask: Ask,
        data: &[u8],
    ) -> Outcome {
        let area = match &mut self.kind {
            Kind::Memory(area) => area,
            Kind::Messages(messages) => {
                return match ask {
                    Ask::Put if rights & MESSAGES == 0 => refused(Status::Right),
                    Ask::Put => refused(messages.put(client, clients, data)),
                    Ask::Changed(_) => Outcome::Silence,
                    _ => refused(Status::Right),
                };
            }
        };
        let needed = match ask {
            Ask::Read(..) | Ask::Wait(..) => READ,
            Ask::Write(_) => WRITE,
            Ask::Add(..) | Ask::Swap(..) | Ask::CompareSwap(..) => ATOMIC,
            Ask::Changed(_) => return Outcome::Changed(Answer { status: Status::Ok, value: 0 }),
            Ask::Put => MESSAGES,
            _ => return refused(Status::Refused),
        };
        if rights & needed == 0 {
            return refused(Status::Right);
        }
        let memory = area.mapped();
        let done = |value| Answer { status: Status::Ok, value };
        match ask {
            Ask::Read(offset, bytes) => {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                if bytes > DATA_BYTES_MAX || !memory.has(offset, bytes) {
                    return refused(Status::Range);
                }
                let mut read = vec![0; bytes];
                memory.read(offset, &mut read);
                Outcome::Answer(done(0), read)
            }
            Ask::Write(offset) => match memory.write(offset, data) {
                true => Outcome::Changed(done(0)),
                false => refused(Status::Range),
            },
            Ask::Add(offset, _)
            | Ask::Swap(offset, _)
            | Ask::CompareSwap(offset, ..)
            | Ask::Wait(offset, ..)
                if !memory.has(offset, 8) =>
            {
                refused(Status::Range)
            }
            Ask::Add(offset, value) => match memory.word(offset) {
                Some(word) => Outcome::Changed(done(word.fetch_add(value, SeqCst))),
                None => refused(Status::Align),
            },
            Ask::Swap(offset, value) => match memory.word(offset) {
                Some(word) => Outcome::Changed(done(word.swap(value, SeqCst))),
                None => refused(Status::Align),
            },
            Ask::CompareSwap(offset, expected, value) => match memory.word(offset) {
                Some(word) => {
                    let found = word.compare_exchange(expected, value, AcqRel, Acquire);
                    Outcome::Changed(done(found.unwrap_or_else(|found| found)))
                }
                None => refused(Status::Align),
            },
            Ask::Wait(offset, comparison, value) => {
                let Some(word) = memory.word(offset) else { return refused(Status::Align) };
                let found = word.load(SeqCst);
                match holds(comparison, found as i64, value) {
                    None => refused(Status::Invalid),
                    Some(true) => Outcome::Answer(done(found), Vec::new()),
                    Some(false) => Outcome::Later,
                }
            }
            _ => refused(Status::Refused),
        }
    }
}

/// Messages that their owner has not taken.
#[derive(Debug)]
pub(super) struct Messages {
    socket: OwnedFd,
    capacity: usize,
    held: usize,
    /// Part of `held` by each client.
    held_by: BTreeMap<u64, usize>,
    under_way: VecDeque<(u64, usize)>,
    queue: VecDeque<(u64, Vec<u8>)>,
}

impl Messages {
    /// Messages of an owner that has the other end of this socket, of so many bytes in all.
    pub(super) fn new(socket: OwnedFd, capacity: usize) -> Self {
        Messages {
            socket,
            capacity,
            held: 0,
            held_by: BTreeMap::new(),
            under_way: VecDeque::new(),
            queue: VecDeque::new(),
        }
    }

    /// To be polled for what the owner has taken.
    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    fn put(&mut self, client: u64, clients: usize, data: &[u8]) -> Status {
        let bytes = data.len().max(1);
        if bytes > self.capacity {
            return Status::Range;
        }
        let own = self.held_by.get(&client).copied().unwrap_or(0);
        let share = self.capacity / clients.max(1);
        let count = self.queue.len() + self.under_way.len();
        if self.held + bytes > self.capacity || (own > 0 && own + bytes > share) || count >= HELD_MAX {
            return Status::Full;
        }
        self.held += bytes;
        *self.held_by.entry(client).or_default() += bytes;
        self.queue.push_back((client, data.to_vec()));
        self.send();
        Status::Ok
    }

    fn send(&mut self) {
        while self.under_way.len() < UNDER_WAY_MAX {
            let Some((client, data)) = self.queue.front() else { return };
            let from = client.to_le_bytes();
            let parts = [IoSlice::new(&from), IoSlice::new(data)];
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let mut none: [MaybeUninit<u8>; 0] = [];
            if sendmsg(&self.socket, &parts, &mut SendAncillaryBuffer::new(&mut none), flags).is_err() {
                // It goes when the owner has taken another one.
                return;
            }
            self.under_way.push_back((*client, data.len().max(1)));
            self.queue.pop_front();
        }
    }

    /// The owner has taken some; false when it is gone.
    pub(super) fn handle_taken(&mut self) -> bool {
        let mut bytes = [0; 8];
        loop {
            match recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok(_) => {
                    if let Some((client, bytes)) = self.under_way.pop_front() {
                        self.held -= bytes;
                        if let Some(held) = self.held_by.get_mut(&client) {
                            *held -= bytes;
                            if *held == 0 {
                                self.held_by.remove(&client);
                            }
                        }
                    }
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => break,
                Err(_) => return false,
            }
        }
        self.send();
        true
    }
}

/// Binds a name; it is not listened to yet.
fn bind(name: &str) -> Result<OwnedFd, Status> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let socket = socket.map_err(|_| Status::Memory)?;
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(|_| Status::Invalid)?;
    local_socket::let_descriptors_pass(socket.as_fd(), false);
    match net::bind(&socket, &address) {
        Ok(()) => Ok(socket),
        Err(Errno::ADDRINUSE) => Err(Status::Busy),
        Err(_) => Err(Status::Memory),
    }
}
