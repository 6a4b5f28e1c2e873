//! Regions of other nodes: how a client finds the server of one, and how that knows who comes.
//!
//! ```text
//! client --Wanted--> its node's daemon (SO_PEERCRED) ==links of the daemons==> the owner's node's daemon --Ask::Admit--> server
//!        <--Given--                                  <=======================                          <---- Pass -----
//! client --TCP: Ask::Enter (key), proof, Ask::Open, ...---------------------------------------------------------------> server
//! ```
//!
//! A program may also ask for its own [`Place`]: how other nodes reach it, and a secret that the daemons of a
//! cluster give to the processes of one user alone. Processes of it show each other that they know it
//! (`tutti_runtime::guests`).
//!
//! Who the client is the kernel says to its daemon, and the daemons to the server. A pass is two secrets of
//! 128 bits, for one client, used once, soon: by its key the server knows the client, by its proof the client
//! knows the server. Nobody here waits for the other side of the network for ever.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::door::Door;
use super::{Ask, NAME_BYTES_MAX, NoFrame, SERVICE, Status, is_name};
use crate::local_socket;
use crate::users::is_own_user;

/// Bytes of a node's name, at most.
pub const NODE_BYTES_MAX: usize = 255;
/// In place of a node: any one that has the region.
pub const ANY_NODE: &str = "*";
/// Groups of a client that are vouched for; one that has more is not known to be in the others.
pub const GROUPS_MAX: usize = 4096;
/// A daemon answers within this time.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// The same for what it knows itself.
const PLACE_MAX: Duration = Duration::from_secs(2);
/// A connection is made within this time.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// After so long in silence a side asks whether the other one is there, so often, so many times: a node that
/// is lost is known within 10 s.
const PROBE_AFTER_S: libc::c_int = 5;
const PROBE_EVERY_S: libc::c_int = 1;
const PROBES: libc::c_int = 5;
const UNHEARD_MAX_MS: libc::c_int = 10_000;

/// 128 bits that nobody can guess.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u64; 2]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Bytes of one.
    pub const BYTES: usize = 16;

    /// As it travels.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..8].copy_from_slice(&self.0[0].to_le_bytes());
        out[8..].copy_from_slice(&self.0[1].to_le_bytes());
        out
    }

    /// Reads it.
    pub fn of(bytes: [u8; Self::BYTES]) -> Self {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Secret([word(0), word(8)])
    }

    /// Whether it is that one; how long this takes says nothing.
    pub fn is(&self, other: &Secret) -> bool {
        (self.0[0] ^ other.0[0]) | (self.0[1] ^ other.0[1]) == 0
    }
}

/// Secrets that let one client in, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The client shows it.
    pub key: Secret,
    /// The server shows it.
    pub proof: Secret,
}

impl Pass {
    /// Bytes of it.
    pub const BYTES: usize = 2 * Secret::BYTES;

    /// As it travels.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..Secret::BYTES].copy_from_slice(&self.key.encode());
        out[Secret::BYTES..].copy_from_slice(&self.proof.encode());
        out
    }

    /// Reads it.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let (key, proof) = bytes.split_first_chunk::<{ Secret::BYTES }>()?;
        Some(Pass { key: Secret::of(*key), proof: Secret::of(proof.try_into().ok()?) })
    }
}

/// Description of a client by the daemon that vouches for it, behind the user's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The address at which the client will come.
    pub at: IpAddr,
    /// The client's groups.
    pub groups: Vec<u32>,
}

impl Admission {
    /// As it travels.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = mapped(self.at).to_vec();
        self.groups.iter().take(GROUPS_MAX).for_each(|group| out.extend_from_slice(&group.to_le_bytes()));
        out
    }

    /// Reads it.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (at, groups) = bytes.split_first_chunk::<16>()?;
        if groups.len() % 4 != 0 || groups.len() / 4 > GROUPS_MAX {
            return None;
        }
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        Some(Admission { at: unmapped(*at), groups: groups.chunks_exact(4).map(number).collect() })
    }
}

/// Any address in the form of the longer ones.
fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn unmapped(bytes: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(bytes).to_canonical()
}

/// A region of another node, or a service, as a client asks its own node's daemon for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// User of the region.
    pub owner: u32,
    /// Name that its owner has given it, behind [`SERVICE`] if it is a service.
    pub name: String,
    /// Node where it is, by name, or [`ANY_NODE`].
    pub node: String,
}

impl Wanted {
    /// Bytes before the names: length, owner, length of the first.
    const HEAD_BYTES: usize = 12;
    /// Bytes of one, at most.
    pub const BYTES_MAX: usize = Self::HEAD_BYTES + SERVICE.len() + NAME_BYTES_MAX + NODE_BYTES_MAX;

    /// Whether it makes sense.
    pub fn is_right(&self) -> bool {
        let name = self.name.strip_prefix(SERVICE).unwrap_or(&self.name);
        is_name(name.as_bytes()) && (1..=NODE_BYTES_MAX).contains(&self.node.len())
    }

    /// As it travels.
    pub fn encode(&self) -> Vec<u8> {
        let length = Self::HEAD_BYTES + self.name.len() + self.node.len();
        let head = [length as u32, self.owner, self.name.len() as u32];
        let mut out: Vec<u8> = head.into_iter().flat_map(u32::to_le_bytes).collect();
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(self.node.as_bytes());
        out
    }

    /// Reads what has come. None: it is not whole yet.
    ///
    /// # Errors
    /// When it is none.
    pub fn take(bytes: &[u8]) -> Result<Option<Self>, NoFrame> {
        let Some(head) = bytes.first_chunk::<{ Self::HEAD_BYTES }>() else { return Ok(None) };
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let (length, owner, split) = (word(0) as usize, word(4), word(8) as usize);
        if !(Self::HEAD_BYTES..=Self::BYTES_MAX).contains(&length) || bytes.len() > length {
            return Err(NoFrame);
        }
        let Some(names) = bytes.get(Self::HEAD_BYTES..length) else { return Ok(None) };
        let (name, node) = names.split_at_checked(split).ok_or(NoFrame)?;
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| NoFrame);
        let wanted = Wanted { owner, name: text(name)?, node: text(node)? };
        if wanted.is_right() { Ok(Some(wanted)) } else { Err(NoFrame) }
    }
}

/// Question of a program to its node's daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The way to a region.
    Region(Wanted),
    /// How other nodes reach processes of this one.
    Place,
    /// Waits of this process for a service of this node, now and then: its connection with it comes with the
    /// question. Then a byte each time: 1, it waits; 0, it does not.
    Lend,
    /// All services of the cluster.
    Services,
}

impl Question {
    /// In place of the length of a region's name.
    const PLACE: u32 = u32::MAX;
    const SERVICES: u32 = u32::MAX - 1;
    const LEND: u32 = u32::MAX - 2;

    /// As it travels.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Question::Region(wanted) => wanted.encode(),
            Question::Place => Self::short(Self::PLACE),
            Question::Services => Self::short(Self::SERVICES),
            Question::Lend => Self::short(Self::LEND),
        }
    }

    fn short(kind: u32) -> Vec<u8> {
        [Wanted::HEAD_BYTES as u32, 0, kind].into_iter().flat_map(u32::to_le_bytes).collect()
    }

    /// Reads what has come. None: it is not whole yet.
    ///
    /// # Errors
    /// When it is none.
    pub fn take(bytes: &[u8]) -> Result<Option<Self>, NoFrame> {
        // What comes behind is for whoever hears it.
        let short = [Question::Place, Question::Services, Question::Lend];
        if let Some(short) = short.into_iter().find(|it| it.encode() == bytes) {
            return Ok(Some(short));
        }
        Ok(Wanted::take(bytes)?.map(Question::Region))
    }
}

/// How processes of a node are reached from the cluster's other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node's address.
    pub address: IpAddr,
    /// Secret that all processes of the asking user are told, on every node of the cluster, and nobody else.
    pub secret: Secret,
}

/// The daemon's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// To [`Question::Place`], where there are other nodes.
    Place(Place),
    /// Refusal: there is none, or not for this client.
    Refused(Status),
    /// Region of this node.
    Here,
    /// Region of another node, whose server lets the client in.
    There {
        /// Where.
        address: SocketAddr,
        /// By this.
        pass: Pass,
        /// The node, by name.
        node: String,
    },
}

/// Places in it: kind, length of the node's name, port, address, pass, name.
const KIND: usize = 4;
const NODE_BYTES: usize = 5;
const PORT: usize = 6;
const ADDRESS: usize = 8;
const PASS: usize = ADDRESS + 16;
const NODE: usize = PASS + Pass::BYTES;

impl Given {
    /// Bytes of it.
    pub const BYTES: usize = NODE + NODE_BYTES_MAX;

    /// As it travels.
    ///
    /// # Panics
    /// When the node's name is too long.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        match self {
            Given::Refused(status) => out[..KIND].copy_from_slice(&(*status as i32).to_le_bytes()),
            Given::Here => out[KIND] = 1,
            Given::Place(Place { address, secret }) => {
                out[KIND] = 3;
                out[ADDRESS..PASS].copy_from_slice(&mapped(*address));
                out[PASS..PASS + Secret::BYTES].copy_from_slice(&secret.encode());
            }
            Given::There { address, pass, node } => {
                out[KIND] = 2;
                out[NODE_BYTES] = u8::try_from(node.len()).expect("a name that was asked for");
                out[PORT..ADDRESS].copy_from_slice(&address.port().to_le_bytes());
                out[ADDRESS..PASS].copy_from_slice(&mapped(address.ip()));
                out[PASS..NODE].copy_from_slice(&pass.encode());
                out[NODE..NODE + node.len()].copy_from_slice(node.as_bytes());
            }
        }
        out
    }

    /// Reads it.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let status = Status::of(i32::from_le_bytes(bytes[..KIND].try_into().expect("four bytes")))?;
        let ip =
            |bytes: &[u8; Self::BYTES]| unmapped(bytes[ADDRESS..PASS].try_into().expect("sixteen bytes"));
        Some(match (bytes[KIND], status) {
            (0, status) if status != Status::Ok => Given::Refused(status),
            (1, Status::Ok) => Given::Here,
            (3, Status::Ok) => {
                let (secret, _) = bytes[PASS..].split_first_chunk::<{ Secret::BYTES }>()?;
                Given::Place(Place { address: ip(bytes), secret: Secret::of(*secret) })
            }
            (2, Status::Ok) => {
                let port = u16::from_le_bytes(bytes[PORT..ADDRESS].try_into().expect("two bytes"));
                let node = &bytes[NODE..NODE + usize::from(bytes[NODE_BYTES])];
                Given::There {
                    address: (ip(bytes), port).into(),
                    pass: Pass::decode(&bytes[PASS..NODE])?,
                    node: std::str::from_utf8(node).ok()?.to_owned(),
                }
            }
            _ => return None,
        })
    }
}

/// Where a daemon may be asked.
#[derive(Debug)]
struct Candidate {
    socket: PathBuf,
    /// Whether this process was started with its name: whoever listens there is believed. Anybody may have
    /// made the folders of the others, and would be given what is written to regions.
    is_named: bool,
}

/// Where the daemons of this node may be asked, the likeliest first: the one of this process's job, the one
/// that the user names, its own, root's. They are the sockets of `tutti_protocol::paths`, with another
/// ending.
pub fn sockets() -> Vec<PathBuf> {
    candidates().into_iter().map(|candidate| candidate.socket).collect()
}

/// The socket that `TUTTI_DAEMON` names: also by its folder, as in `tutti_protocol::paths`; `none` is no
/// folder.
fn of_daemon(named: PathBuf) -> PathBuf {
    if named.as_os_str() != "none" && named.is_dir() { named.join("tuttid.sock") } else { named }
}

fn candidates() -> Vec<Candidate> {
    let named = |socket: &Path| Candidate { socket: socket.with_extension("regions"), is_named: true };
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let mut found = Vec::new();
    if let Some(board) = variable(crate::board::VARIABLE) {
        let socket = board.as_bytes().split(|byte| *byte == b':').next().unwrap_or_default();
        found.push(named(Path::new(OsStr::from_bytes(socket))));
    }
    if let Some(socket) = variable("TUTTI_DAEMON") {
        found.push(named(&of_daemon(socket.into())));
        return found;
    }
    // SAFETY: a plain system call.
    let uid = unsafe { libc::geteuid() };
    let folder = match (variable("TUTTI_DIR"), variable("XDG_RUNTIME_DIR")) {
        (Some(folder), _) => Some(folder.into()),
        _ if uid == 0 => None,
        (None, Some(runtime)) => Some(PathBuf::from(runtime).join("tutti")),
        (None, None) => Some(std::env::temp_dir().join(format!("tutti-{uid}"))),
    };
    let folders = folder.into_iter().chain([PathBuf::from("/run/tutti")]);
    found.extend(folders.map(|folder| Candidate { socket: folder.join("tuttid.regions"), is_named: false }));
    found
}

/// Asks this node's daemon.
///
/// # Errors
/// [`Status::Daemon`] where none is there or answers.
pub fn ask_daemon(wanted: &Wanted) -> Result<Given, Status> {
    ask_daemon_within(wanted, ANSWER_MAX)
}

/// The same, within a time.
///
/// # Errors
/// [`Status::Daemon`] where none is there or answers.
pub fn ask_daemon_within(wanted: &Wanted, limit: Duration) -> Result<Given, Status> {
    // The kernel takes no time of zero.
    ask(&Question::Region(wanted.clone()), limit.clamp(Duration::from_millis(1), ANSWER_MAX))
}

/// How this process is reached from other nodes; none where there are no others, or no daemon that answers
/// soon.
pub fn ask_place() -> Option<Place> {
    match ask(&Question::Place, PLACE_MAX) {
        Ok(Given::Place(place)) => Some(place),
        _ => None,
    }
}

/// All services of the cluster, as a text: a line each, node, user's number and name; and the nodes that
/// have not answered, a line each, the name alone.
///
/// # Errors
/// [`Status::Daemon`] where no daemon answers, [`Status::Node`] where there are no other nodes.
pub fn ask_services() -> Result<String, Status> {
    let mut stream = send(&Question::Services, ANSWER_MAX)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(|_| Status::Daemon)?;
    match <&[u8; Given::BYTES]>::try_from(&answer[..]).ok().and_then(Given::decode) {
        Some(Given::Refused(status)) => Err(status),
        _ if answer.is_empty() => Err(Status::Daemon),
        _ => String::from_utf8(answer).map_err(|_| Status::Daemon),
    }
}

/// A connection with this node's daemon, as [`Question::Lend`]; none where there is no daemon.
pub fn lend(service: BorrowedFd<'_>) -> Option<UnixStream> {
    let stream = candidates().iter().find_map(|candidate| connect(candidate, PLACE_MAX))?;
    let words = Question::Lend.encode();
    local_socket::send_with(stream.as_fd(), &words, service).ok().filter(|sent| *sent == words.len())?;
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

/// Puts a question to this node's daemon.
fn send(question: &Question, limit: Duration) -> Result<UnixStream, Status> {
    let found = candidates().iter().find_map(|candidate| connect(candidate, limit));
    let mut stream = found.ok_or(Status::Daemon)?;
    let sent = stream.set_read_timeout(Some(limit)).and_then(|()| stream.write_all(&question.encode()));
    sent.map(|()| stream).map_err(|_| Status::Daemon)
}

fn ask(question: &Question, limit: Duration) -> Result<Given, Status> {
    let mut answer = [0; Given::BYTES];
    send(question, limit)?.read_exact(&mut answer).map_err(|_| Status::Daemon)?;
    Given::decode(&answer).ok_or(Status::Daemon)
}

/// To the daemon that listens there, if it is this user's or root's, and has room within the limit.
fn connect(candidate: &Candidate, limit: Duration) -> Option<UnixStream> {
    let stream = local_socket::connect_to(&candidate.socket, limit).ok()?;
    let daemon = local_socket::peer(stream.as_fd()).ok()?;
    let is_trusted = daemon.uid == 0 || is_own_user(daemon.uid, daemon.pid);
    (is_trusted || candidate.is_named).then_some(stream)
}

/// Goes to the server, as whom this pass is for.
///
/// # Errors
/// When it is not reached, does not know the pass any more (`UnexpectedEof`), or is another's
/// (`PermissionDenied`).
pub fn enter(address: SocketAddr, pass: &Pass) -> io::Result<Door> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_MAX)?;
    show(stream, pass).map(|(door, _)| door)
}

/// Goes to a service, as whom this pass is for: the connection, and the word of the answer. The service is
/// waited for so long at most.
///
/// # Errors
/// As of [`enter`], and when the time is over (`WouldBlock`, `TimedOut`).
pub fn enter_within(address: SocketAddr, pass: &Pass, limit: Duration) -> io::Result<(OwnedFd, u64)> {
    let limit = limit.max(Duration::from_millis(1));
    let stream = TcpStream::connect_timeout(&address, limit.min(CONNECT_MAX))?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    show(stream, pass).map(|(door, word)| (door.into_socket(), word))
}

/// Shows a key, and looks at the proof.
fn show(stream: TcpStream, pass: &Pass) -> io::Result<(Door, u64)> {
    settle(stream.as_fd())?;
    let door = Door::of(stream.into());
    let (answer, proof, _) = door.ask(Ask::Enter(pass.key), &[])?;
    let is_proof = <[u8; Secret::BYTES]>::try_from(&proof[..]).is_ok_and(|it| Secret::of(it).is(&pass.proof));
    if answer.status != Status::Ok || !is_proof {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok((door, answer.value))
}

/// A connection between client and server: what is sent goes at once, and the other side's end is seen, also
/// where its node is lost.
///
/// # Errors
/// When it is no such connection.
pub fn settle(socket: BorrowedFd<'_>) -> io::Result<()> {
    let options = [
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, PROBE_AFTER_S),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, PROBE_EVERY_S),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, PROBES),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, UNHEARD_MAX_MS),
    ];
    for (level, name, value) in options {
        // SAFETY: the value is an int, and lives during the call.
        let set = unsafe {
            let bytes = size_of_val(&value) as libc::socklen_t;
            libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), bytes)
        };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemon_that_is_named_by_its_folder_is_asked_at_its_socket() {
        let scratch = tutti_testkit::Scratch::new("far-daemon");
        assert_eq!(of_daemon(scratch.path().into()), scratch.path().join("tuttid.sock"));
        let socket = scratch.path().join("other.sock");
        assert_eq!(of_daemon(socket.clone()), socket);
        assert_eq!(of_daemon("none".into()), Path::new("none"));
    }
}
