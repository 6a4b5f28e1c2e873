//! Regions for other jobs: what a client, the process that serves them and their owner send each other.
//!
//! ```text
//! owner (a rank) --pair of sockets--> server (`tutti_starter::regions`, outside of what is frozen) <-- client (any process)
//!     Publish, Ready, Withdraw, Changed                        Open, Read, Write, ..., Put, Wait, Changed
//!                                                              Admit: a daemon, for a client of another node ([`far`])
//!                                                              Enter: that client, over TCP, before all else
//! ```
//!
//! A region is reached by the connection that its client has opened, and by nothing else. The server listens
//! on an abstract socket for each name, [`socket_name`]: the kernel says who connects, and who listens. Every
//! frame is one packet of a SEQPACKET socket, or a piece of a stream; each but `Changed` is answered once, in
//! order.
//!
//! | frame | head | behind it |
//! |---|---|---|
//! | [`Ask`] | its length (4), kind (4), three words of 8 bytes | what is written or sent, or a name |
//! | [`Answer`] | its length (4), status (4), a word of 8 bytes | what was read, or an [`Opened`] |
//!
//! Descriptors come with the answers to `Publish` and `Open`: the memory or the socket of messages, if the
//! asker may have it, and the [`lines`].

pub mod area;
pub mod door;
pub mod far;
pub mod lines;
pub mod name;

/// Bytes that a frame carries behind its head, at most.
pub const DATA_BYTES_MAX: usize = 32 << 10;
/// Bytes of a name, at most.
pub const NAME_BYTES_MAX: usize = 64;
/// Regions that one job publishes on a node, at most.
pub const REGIONS_MAX: usize = 256;
/// Bytes of a region, at most.
pub const REGION_BYTES_MAX: u64 = 1 << 40;

/// Right to read the region's memory.
pub const READ: u32 = 1;
/// Right to write the region's memory.
pub const WRITE: u32 = 2;
/// Right to change elements of the region atomically.
pub const ATOMIC: u32 = 4;
/// Right to send messages to the region, which is no memory then.
pub const MESSAGES: u32 = 8;

/// How an operation ended; the numbers are those of `tutti.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// Request that makes no sense.
    Invalid = -1,
    /// The region was closed.
    Region = -3,
    /// The client has no such right.
    Right = -4,
    /// The region ends before.
    Range = -5,
    /// The number is not aligned.
    Align = -6,
    /// Request that was not understood.
    Refused = -7,
    /// Lack of room for the message.
    Full = -8,
    /// The owner has ended.
    Gone = -9,
    /// Lack of memory, or too much is open.
    Memory = -10,
    /// The name is in use.
    Busy = -12,
    /// Lack of a daemon on this node that can be asked.
    Daemon = -15,
    /// The cluster has no such node, or it does not answer.
    Node = -16,
}

impl Status {
    /// The one with this number.
    pub fn of(number: i32) -> Option<Self> {
        use Status::*;
        [Ok, Invalid, Region, Right, Range, Align, Refused, Full, Gone, Memory, Busy, Daemon, Node]
            .into_iter()
            .find(|status| *status as i32 == number)
    }
}

/// Whether this is a name that a region may have.
pub fn is_name(name: &[u8]) -> bool {
    let is_right = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(is_right)
}

/// Name of the abstract socket for a region of a user.
pub fn socket_name(uid: u32, name: &str) -> String {
    format!("tutti-region/{uid}/{name}")
}

/// Prefix of the name of a service ([`far::Wanted`]), which no region has.
pub const SERVICE: &str = "service:";

/// Name of the abstract socket for a service of a user.
pub fn service_socket_name(uid: u32, name: &str) -> String {
    format!("tutti-service/{uid}/{name}")
}

/// Name of the abstract socket for what a client of another node wants: a region, or a service.
pub fn wanted_socket_name(uid: u32, name: &str) -> String {
    match name.strip_prefix(SERVICE) {
        Some(service) => service_socket_name(uid, service),
        None => socket_name(uid, name),
    }
}

/// Users that may open a region, beside its owner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// A user.
    User(u32),
    /// A group.
    Group(u32),
    /// Everybody.
    Everybody,
}

impl Audience {
    fn word(self) -> u64 {
        match self {
            Audience::User(uid) => u64::from(uid),
            Audience::Group(gid) => 1 << 32 | u64::from(gid),
            Audience::Everybody => 2 << 32,
        }
    }

    fn of_word(word: u64) -> Option<Self> {
        match word >> 32 {
            0 => Some(Audience::User(word as u32)),
            1 => Some(Audience::Group(word as u32)),
            2 => Some(Audience::Everybody),
            _ => None,
        }
    }

    /// Whether a process of this user and these groups belongs to it.
    pub fn has(self, uid: u32, groups: &[u32]) -> bool {
        match self {
            Audience::User(user) => user == uid,
            Audience::Group(group) => groups.contains(&group),
            Audience::Everybody => true,
        }
    }
}

/// How a word is compared; the numbers are those of `tutti.h`.
pub fn holds(comparison: u32, found: i64, value: i64) -> Option<bool> {
    Some(match comparison {
        1 => found == value,
        2 => found != value,
        3 => found > value,
        4 => found >= value,
        5 => found < value,
        6 => found <= value,
        _ => return None,
    })
}

/// Bytes that are no frame: what follows them cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFrame;

/// A question, what follows its head, and the length of both.
pub type Asked<'a> = (Ask, &'a [u8], usize);

/// Request in a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A client wants these rights of the region that its connection leads to.
    Open(u32),
    /// Bytes of its memory.
    Read(u64, u64),
    /// Writes what follows.
    Write(u64),
    /// The number there grows.
    Add(u64, u64),
    /// Another number takes its place.
    Swap(u64, u64),
    /// Another number takes its place if it is the first one.
    CompareSwap(u64, u64, u64),
    /// Sends what follows as a message.
    Put,
    /// The answer comes when the number there compares with a value: offset, comparison, value.
    Wait(u64, u32, i64),
    /// Numbers have changed for which clients may wait. It has no answer.
    Changed(u64),
    /// An owner wants memory, or messages, to be published under the name that follows: bytes, rights.
    Publish(u64, u32, Audience),
    /// The owner has mapped the memory: clients may come.
    Ready(u64),
    /// The owner closes it.
    Withdraw(u64),
    /// A daemon vouches for a client of another node, that is this user: what follows is an
    /// [`far::Admission`]. The answer has the port, and a [`far::Pass`] behind it.
    Admit(u32),
    /// A client of another node shows its key. Behind the answer is the proof of the same pass.
    Enter(far::Secret),
}

impl Ask {
    /// Bytes of its head.
    pub const BYTES: usize = 32;

    /// The head as it travels, before so many bytes.
    pub fn encode(self, data_bytes: usize) -> [u8; Self::BYTES] {
        let (kind, words): (u32, [u64; 3]) = match self {
            Ask::Open(rights) => (1, [u64::from(rights), 0, 0]),
            Ask::Read(offset, bytes) => (2, [offset, bytes, 0]),
            Ask::Write(offset) => (3, [offset, 0, 0]),
            Ask::Add(offset, value) => (4, [offset, value, 0]),
            Ask::Swap(offset, value) => (5, [offset, value, 0]),
            Ask::CompareSwap(offset, expected, value) => (6, [offset, expected, value]),
            Ask::Put => (7, [0; 3]),
            Ask::Wait(offset, comparison, value) => (8, [offset, u64::from(comparison), value as u64]),
            Ask::Changed(key) => (9, [key, 0, 0]),
            Ask::Publish(bytes, rights, audience) => (10, [bytes, u64::from(rights), audience.word()]),
            Ask::Ready(key) => (11, [key, 0, 0]),
            Ask::Withdraw(key) => (12, [key, 0, 0]),
            Ask::Admit(uid) => (13, [uid.into(), 0, 0]),
            Ask::Enter(far::Secret([first, second])) => (14, [first, second, 0]),
        };
        let mut out = [0; Self::BYTES];
        out[..4].copy_from_slice(&((Self::BYTES + data_bytes) as u32).to_le_bytes());
        out[4..8].copy_from_slice(&kind.to_le_bytes());
        for (to, word) in out[8..].chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Takes a whole frame off the beginning of what has come. None: it is not whole yet.
    ///
    /// # Errors
    /// When it is none.
    pub fn take(bytes: &[u8]) -> Result<Option<Asked<'_>>, NoFrame> {
        let Some(head) = bytes.first_chunk::<{ Self::BYTES }>() else { return Ok(None) };
        let length = u32::from_le_bytes(head[..4].try_into().expect("four bytes")) as usize;
        if !(Self::BYTES..=Self::BYTES + DATA_BYTES_MAX).contains(&length) {
            return Err(NoFrame);
        }
        let ask = Self::decode(head).ok_or(NoFrame)?;
        Ok(bytes.get(Self::BYTES..length).map(|data| (ask, data, length)))
    }

    fn decode(head: &[u8; Self::BYTES]) -> Option<Self> {
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let (first, second, third) = (word(8), word(16), word(24));
        let small = |word: u64| u32::try_from(word).ok();
        Some(match u32::from_le_bytes(head[4..8].try_into().expect("four bytes")) {
            1 => Ask::Open(small(first)?),
            2 => Ask::Read(first, second),
            3 => Ask::Write(first),
            4 => Ask::Add(first, second),
            5 => Ask::Swap(first, second),
            6 => Ask::CompareSwap(first, second, third),
            7 => Ask::Put,
            8 => Ask::Wait(first, small(second)?, third as i64),
            9 => Ask::Changed(first),
            10 => Ask::Publish(first, small(second)?, Audience::of_word(third)?),
            11 => Ask::Ready(first),
            12 => Ask::Withdraw(first),
            13 => Ask::Admit(small(first)?),
            14 => Ask::Enter(far::Secret([first, second])),
            _ => return None,
        })
    }
}

/// The head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How it ended.
    pub status: Status,
    /// Number that was there, or the rights that were given.
    pub value: u64,
}

impl Answer {
    /// Bytes of it.
    pub const BYTES: usize = 16;

    /// As it travels, before so many bytes.
    pub fn encode(self, data_bytes: usize) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..4].copy_from_slice(&((Self::BYTES + data_bytes) as u32).to_le_bytes());
        out[4..8].copy_from_slice(&(self.status as i32).to_le_bytes());
        out[8..].copy_from_slice(&self.value.to_le_bytes());
        out
    }

    /// Takes a whole frame off the beginning of what has come. None: it is not whole yet.
    ///
    /// # Errors
    /// When it is none.
    pub fn take(bytes: &[u8]) -> Result<Option<(Self, &[u8])>, NoFrame> {
        let Some(head) = bytes.first_chunk::<{ Self::BYTES }>() else { return Ok(None) };
        let length = u32::from_le_bytes(head[..4].try_into().expect("four bytes")) as usize;
        let status = i32::from_le_bytes(head[4..8].try_into().expect("four bytes"));
        if !(Self::BYTES..=Self::BYTES + DATA_BYTES_MAX).contains(&length) {
            return Err(NoFrame);
        }
        let value = u64::from_le_bytes(head[8..].try_into().expect("eight bytes"));
        let answer = Answer { status: Status::of(status).ok_or(NoFrame)?, value };
        Ok(bytes.get(Self::BYTES..length).map(|data| (answer, data)))
    }
}

/// Description of a region that comes with the answer to [`Ask::Open`] and [`Ask::Publish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Line of the region.
    pub line: u32,
    /// Whether its memory comes along: its descriptor is the first one, and may be written as the rights say.
    pub is_mapped: bool,
    /// Grows with each region that the server publishes.
    pub generation: u64,
    /// Length of the region.
    pub bytes: u64,
}

impl Opened {
    /// Bytes of it.
    pub const BYTES: usize = 24;

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..4].copy_from_slice(&self.line.to_le_bytes());
        out[4] = u8::from(self.is_mapped);
        out[8..16].copy_from_slice(&self.generation.to_le_bytes());
        out[16..].copy_from_slice(&self.bytes.to_le_bytes());
        out
    }

    /// Reads it.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let line = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
        let is_right = (line as usize) < REGIONS_MAX && word(16) <= REGION_BYTES_MAX;
        is_right.then(|| Opened { line, is_mapped: bytes[4] != 0, generation: word(8), bytes: word(16) })
    }
}

#[cfg(test)]
mod tests;
