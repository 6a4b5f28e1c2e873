//! The ticket: how a process proves to the starter that it is rank `r` of a job.
//!
//! The starter listens on an abstract `SOCK_SEQPACKET` socket and puts one ticket per rank in its
//! environment. The first process that redeems it is the rank, wherever it stands below wrappers such as
//! `bash -c`, `gdb` or `valgrind`.
//!
//! | message | from | meaning |
//! |---|---|---|
//! | [`Attach`] | rank | redeem my ticket; the kernel's SO_PEERCRED says who asks |
//! | [`Welcome`] | starter | status; on `Granted` descriptors travel along (SCM_RIGHTS): the segment; in a job on several nodes also the table of peers ([`crate::peers`]) and the rank's UDP socket |
//! | [`Notice`] | rank | `Finalized`, `Abort`, `Fatal` or `Exit` with its exit code; `Regions` or `StandIn` with a descriptor |
//!
//! | [`Connection`] | rank | it has communicators with processes of another launch, or none any more |
//!
//! A rank may ask for more ranks later ([`crate::spawn`]).
//!
//! The connection stays open for the life of the rank. It is close-on-exec and never tells of a death (a
//! forked child holds it open); deaths are seen by pidfd.

use std::fmt;
use std::str::FromStr;

/// Environment variable that holds the ticket.
pub const TICKET_VARIABLE: &str = "TUTTI_TICKET";

/// Environment variable that says which of the job's programs a rank runs (MPI_APPNUM).
pub const APPLICATION_VARIABLE: &str = "TUTTI_APPNUM";

/// Environment variable with the number of ranks of the job.
pub const SIZE_VARIABLE: &str = "TUTTI_SIZE";

/// Environment variable with the number of this node, where several nodes of the job share a machine.
pub const VIRTUAL_NODE_VARIABLE: &str = "TUTTI_VIRTUAL_NODE";

/// Environment variable with the name of this node, where a daemon has started the job.
pub const NODE_VARIABLE: &str = "TUTTI_NODE";

/// Environment variable that names the initial error handler (`-initial-errhandler` of mpiexec), if one was
/// asked for.
pub const INITIAL_HANDLER_VARIABLE: &str = "TUTTI_INITIAL_ERRHANDLER";

/// First word of every message.
pub const PROTOCOL: u32 = 0x5455_0005;

/// Versions that a library and a starter of this release speak with each other, first and last. They are
/// replaced one after the other, so both say it, and speak the last that both know. A message of a kind that
/// the other one does not know is skipped; its length and meaning never change.
pub const VERSIONS: (u32, u32) = (5, if cfg!(feature = "next-wire") { 6 } else { 5 });

/// Whether there is one that both speak.
const fn agree(ours: (u32, u32), theirs: (u32, u32)) -> bool {
    let (first, last) = (
        if ours.0 > theirs.0 { ours.0 } else { theirs.0 },
        if ours.1 < theirs.1 { ours.1 } else { theirs.1 },
    );
    first <= last
}

/// Descriptors that come with a [`Welcome`], at most.
pub const GIFTS_MAX: usize = 4;
const _: () = assert!(GIFTS_MAX <= crate::local_socket::DESCRIPTORS_MAX);

/// Ticket as it stands in a rank's environment: `<socket>:<rank>:<secret>`, the last in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Name of the abstract socket, without its leading zero byte; printable, no colon.
    pub socket: String,
    /// World rank.
    pub rank: u32,
    /// 128 random bits, another value for each rank.
    pub secret: [u8; 16],
}

/// Why a text is not a ticket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("TUTTI_TICKET has the value {0:?}, expected <socket>:<rank>:<32 hexadecimal digits>")]
pub struct BadTicket(pub String);

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.socket, self.rank)?;
        self.secret.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Ticket {
    type Err = BadTicket;

    fn from_str(text: &str) -> Result<Self, BadTicket> {
        parse(text).ok_or_else(|| BadTicket(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Ticket> {
    let mut parts = text.split(':');
    let (socket, rank, hex) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || socket.is_empty() || socket.len() > 100 || hex.len() != 32 {
        return None;
    }
    let mut secret = [0; 16];
    for (byte, digits) in secret.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(Ticket { socket: socket.to_owned(), rank: rank.parse().ok()?, secret })
}

/// Interface through which a rank has begun with MPI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Face {
    /// Interface of the standard, of OpenSHMEM or of shared memory.
    #[default]
    Own = 0,
    /// MPICH's (`libmpi.so.12`).
    Mpich = 1,
}

/// The rank's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attach {
    /// Rank named on the ticket.
    pub rank: u32,
    /// Secret of the ticket.
    pub secret: [u8; 16],
    /// Interface through which it is redeemed.
    pub face: Face,
}

impl Attach {
    /// Bytes of the encoded message.
    pub const BYTES: usize = 36;
    /// Bytes of it from a library that does not say its face.
    const BYTES_MIN: usize = 32;

    /// The message as it travels: protocol, rank, secret, first and last version, face; host byte order,
    /// since it never leaves the host.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[0..4].copy_from_slice(&PROTOCOL.to_ne_bytes());
        out[4..8].copy_from_slice(&self.rank.to_ne_bytes());
        out[8..24].copy_from_slice(&self.secret);
        put_versions(&mut out[24..32]);
        out[32..36].copy_from_slice(&(self.face as u32).to_ne_bytes());
        out
    }

    /// Reads a message, which a later release may have made longer; `None` when there is no version in
    /// common, or it is something else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let first = bytes.get(..Self::BYTES_MIN)?;
        let is_mpich = bytes.get(..Self::BYTES).is_some_and(|all| word(all, 32) == Face::Mpich as u32);
        (word(first, 0) == PROTOCOL && agree(VERSIONS, (word(first, 24), word(first, 28)))).then(|| Attach {
            rank: word(first, 4),
            secret: first[8..24].try_into().expect("16 bytes"),
            face: if is_mpich { Face::Mpich } else { Face::Own },
        })
    }
}

/// The starter's answer to [`Attach`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Welcome {
    /// You are the rank; the segment's descriptor comes with this message, and in a job on several nodes
    /// those of the table of peers and of the rank's socket.
    Granted = 1,
    /// Another process has redeemed this ticket already.
    AlreadyRedeemed = 2,
    /// The secret is wrong, the rank does not exist, or the caller is another user.
    Refused = 3,
    /// The message's protocol is not the starter's.
    OtherProtocol = 4,
    /// The process that has redeemed this ticket has ended.
    Ended = 5,
}

impl Welcome {
    /// Bytes of the encoded message.
    pub const BYTES: usize = 16;

    /// The message as it travels: protocol, status, first and last version.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[0..4].copy_from_slice(&PROTOCOL.to_ne_bytes());
        out[4..8].copy_from_slice(&(self as u32).to_ne_bytes());
        put_versions(&mut out[8..]);
        out
    }

    /// Reads a message, which a later release may have made longer; `None` when it is not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..Self::BYTES)?;
        if word(bytes, 0) != PROTOCOL {
            return None;
        }
        let all = [
            Welcome::Granted,
            Welcome::AlreadyRedeemed,
            Welcome::Refused,
            Welcome::OtherProtocol,
            Welcome::Ended,
        ];
        all.into_iter().find(|status| *status as u32 == word(bytes, 4))
    }
}

/// Notice of a rank to the starter, after the ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// MPI_Finalize has returned or is about to; an exit from now on is a normal one.
    Finalized,
    /// MPI_Abort: end the job with this exit code (0..=255).
    Abort(u32),
    /// An error of which the rank has said a line itself: end the job with this exit code (0..=255).
    Fatal(u32),
    /// shmem_global_exit: end the job with this exit code (0..=255), which may be 0.
    Exit(u32),
    /// The descriptor that comes along is this rank's connection to the server of regions for other jobs
    /// ([`crate::published`]).
    Regions,
    /// The descriptor that comes along is a socket on which the starter may do what other nodes ask of this
    /// rank's memory ([`crate::stand_in`]).
    StandIn,
}

impl Notice {
    /// Bytes of the encoded message.
    pub const BYTES: usize = 12;

    /// The message as it travels: protocol, kind, code.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let (kind, code) = match *self {
            Notice::Finalized => (1_u32, 0),
            Notice::Abort(code) => (2, code),
            Notice::Exit(code) => (3, code),
            Notice::Regions => (4, 0),
            Notice::Fatal(code) => (5, code),
            Notice::StandIn => (7, 0),
        };
        let mut out = [0; Self::BYTES];
        out[0..4].copy_from_slice(&PROTOCOL.to_ne_bytes());
        out[4..8].copy_from_slice(&kind.to_ne_bytes());
        out[8..12].copy_from_slice(&code.to_ne_bytes());
        out
    }

    /// Reads a message; `None` when it is not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        match (word(bytes, 0), word(bytes, 4)) {
            (PROTOCOL, 1) => Some(Notice::Finalized),
            (PROTOCOL, 2) => Some(Notice::Abort(word(bytes, 8))),
            (PROTOCOL, 3) => Some(Notice::Exit(word(bytes, 8))),
            (PROTOCOL, 4) => Some(Notice::Regions),
            (PROTOCOL, 5) => Some(Notice::Fatal(word(bytes, 8))),
            (PROTOCOL, 7) => Some(Notice::StandIn),
            _ => None,
        }
    }
}

/// Notice of a rank to its starter about another launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The launch's public number ([`public_number`]).
    pub job: u64,
    /// The rank has a communicator with processes of it.
    pub is_open: bool,
}

impl Connection {
    /// Bytes of the encoded message.
    pub const BYTES: usize = 16;

    /// The message as it travels: protocol, kind, number.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let kind = if self.is_open { 5_u32 } else { 6 };
        let mut out = [0; Self::BYTES];
        out[0..4].copy_from_slice(&PROTOCOL.to_ne_bytes());
        out[4..8].copy_from_slice(&kind.to_ne_bytes());
        out[8..16].copy_from_slice(&self.job.to_ne_bytes());
        out
    }

    /// Reads a message; `None` when it is not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let is_open = match (word(bytes, 0), word(bytes, 4)) {
            (PROTOCOL, 5) => true,
            (PROTOCOL, 6) => false,
            _ => return None,
        };
        let job = u64::from_ne_bytes(bytes[8..16].try_into().expect("eight bytes"));
        Some(Connection { job, is_open })
    }
}

/// The number by which other launches know a job with this random number, which they are not to know. Never
/// 0, which stands for no other job.
pub fn public_number(job: u64) -> u64 {
    /// Mask that makes it another number.
    const PUBLIC: u64 = 0x7475_7474_6970_7562;
    // SplitMix64.
    let word = (job ^ PUBLIC).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word ^ word >> 31).max(1)
}

fn put_versions(out: &mut [u8]) {
    out[..4].copy_from_slice(&VERSIONS.0.to_ne_bytes());
    out[4..8].copy_from_slice(&VERSIONS.1.to_ne_bytes());
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticket_round_trips_through_the_environment() {
        let ticket = Ticket { socket: "tutti-1-2".into(), rank: 7, secret: [0xa5; 16] };
        assert_eq!(ticket.to_string().parse(), Ok(ticket));
    }

    #[test]
    fn ticket_of_any_other_text_is_refused() {
        for text in [
            "",
            "a",
            "a:1",
            "a:1:zz",
            "a:x:00112233445566778899aabbccddeeff",
            ":1:00112233445566778899aabbccddeeff",
        ] {
            assert_eq!(text.parse::<Ticket>(), Err(BadTicket(text.into())));
        }
    }

    #[test]
    fn ticket_of_a_neighbouring_release_is_taken_and_of_a_distant_one_refused() {
        let (first, last) = VERSIONS;
        let attach = Attach { rank: 3, secret: [9; 16], face: Face::Mpich };
        let with = |versions: (u32, u32), more: usize| {
            let mut bytes = attach.encode().to_vec();
            bytes[24..28].copy_from_slice(&versions.0.to_ne_bytes());
            bytes[28..32].copy_from_slice(&versions.1.to_ne_bytes());
            bytes.extend(vec![7; more]);
            Attach::decode(&bytes)
        };
        for versions in [(first, last), (first - 1, first), (last, last + 1), (first - 1, last + 7)] {
            assert_eq!(with(versions, 0), Some(attach), "{versions:?}");
            assert_eq!(with(versions, 5), Some(attach), "{versions:?}, and what it says besides");
        }
        // One that does not say its face.
        let shorter = &attach.encode()[..Attach::BYTES_MIN];
        assert_eq!(Attach::decode(shorter), Some(Attach { face: Face::Own, ..attach }));
        for versions in [(last + 1, last + 1), (first - 2, first - 1), (last, first - 1)] {
            assert_eq!(with(versions, 0), None, "{versions:?}");
        }
        let longer = [&Welcome::Granted.encode()[..], &[1; 9]].concat();
        assert_eq!(Welcome::decode(&longer), Some(Welcome::Granted));
    }

    #[test]
    fn ticket_messages_round_trip_and_others_are_refused() {
        for face in [Face::Own, Face::Mpich] {
            let attach = Attach { rank: 3, secret: [9; 16], face };
            assert_eq!(Attach::decode(&attach.encode()), Some(attach));
        }
        assert_eq!(Welcome::decode(&Welcome::Refused.encode()), Some(Welcome::Refused));
        for notice in [
            Notice::Finalized,
            Notice::Abort(77),
            Notice::Fatal(6),
            Notice::Exit(0),
            Notice::Regions,
            Notice::StandIn,
        ] {
            assert_eq!(Notice::decode(&notice.encode()), Some(notice));
            assert_eq!(Attach::decode(&notice.encode()), None);
        }
        assert_eq!(Notice::decode(&[0; 12]), None);
        for is_open in [true, false] {
            let connection = Connection { job: 0x0123_4567_89ab_cdef, is_open };
            assert_eq!(Connection::decode(&connection.encode()), Some(connection));
            assert_eq!(crate::spawn::Request::decode(&connection.encode()), None);
        }
        assert_eq!(Connection::decode(&[0; Connection::BYTES]), None);
    }
}
