//! Random bytes on every socket that others than its owner can reach: local ones with and without a file, TCP
//! and UDP.

use std::collections::{BTreeSet, VecDeque};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with,
};
use rustix::process::Pid;

use tutti_testkit::Random;

use crate::machine::ASK;

/// Connections that are kept open.
const OPEN_MAX: usize = 64;
/// Bytes that are sent to a socket at once, at most.
const BYTES_MAX: u64 = 3000;

/// A socket that takes connections or datagrams.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A file, or an abstract name (it begins with `@`).
    Local(String, u32),
    /// Socket of TCP that listens.
    Tcp(SocketAddrV4),
    /// Socket of UDP that is bound.
    Udp(SocketAddrV4),
}

/// All targets that these processes hold. Only root may look.
pub fn targets(pids: impl IntoIterator<Item = Pid>) -> BTreeSet<Target> {
    let inodes: BTreeSet<String> = pids.into_iter().flat_map(sockets).collect();
    let table = |name: &str| std::fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    let mut found = BTreeSet::new();
    for line in table("unix").lines() {
        // Num RefCount Protocol Flags Type St Inode Path
        let fields: Vec<&str> = line.split_whitespace().collect();
        if fields.len() == 8 && fields[3] == "00010000" && inodes.contains(fields[6]) {
            let kind = u32::from_str_radix(fields[4], 16).expect("a number");
            found.insert(Target::Local(fields[7].to_owned(), kind));
        }
    }
    for (name, state, target) in
        [("tcp", "0A", Target::Tcp as fn(SocketAddrV4) -> Target), ("udp", "07", Target::Udp)]
    {
        for line in table(name).lines() {
            // sl local remote st queues timer retransmits uid timeout inode
            let fields: Vec<&str> = line.split_whitespace().collect();
            if fields.len() > 9 && fields[3] == state && inodes.contains(fields[9]) {
                found.extend(address(fields[1]).map(target));
            }
        }
    }
    found
}

/// Inodes of a process's sockets.
fn sockets(pid: Pid) -> Vec<String> {
    let links =
        std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).into_iter().flatten().flatten();
    let targets = links.filter_map(|link| std::fs::read_link(link.path()).ok());
    let inode =
        |to: std::path::PathBuf| Some(to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
    targets.filter_map(inode).collect()
}

/// 0100007F:1F90 is 127.0.0.1:8080.
fn address(text: &str) -> Option<SocketAddrV4> {
    let (ip, port) = text.split_once(':')?;
    let ip = Ipv4Addr::from(u32::from_str_radix(ip, 16).ok()?.to_le_bytes());
    let ip = if ip.is_unspecified() { Ipv4Addr::LOCALHOST } else { ip };
    Some(SocketAddrV4::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Sender of rubbish.
pub struct Sender {
    random: Random,
    open: VecDeque<OwnedFd>,
    /// How often something was taken by a socket.
    pub sent: u64,
}

impl Sender {
    /// Another seed, other rubbish.
    pub fn new(seed: u64) -> Self {
        Sender { random: Random::new(seed), open: VecDeque::new(), sent: 0 }
    }

    /// Random bytes; a third begin as a request does.
    fn bytes(&mut self) -> Vec<u8> {
        let length = 1 + self.random.below(BYTES_MAX);
        let mut bytes: Vec<u8> = (0..length).map(|_| self.random.below(256) as u8).collect();
        if self.random.below(3) == 0 {
            let head = [ASK, 0, self.random.below(BYTES_MAX) as u32].map(u32::to_ne_bytes);
            bytes.splice(..0, head.into_iter().flatten());
        }
        bytes
    }

    /// Sends something to one; what is refused is well.
    pub fn send(&mut self, target: &Target) {
        let bytes = self.bytes();
        let sent = match target {
            Target::Local(name, kind) => local(name, *kind, &bytes),
            Target::Tcp(address) => tcp(*address, &bytes).ok(),
            Target::Udp(address) => {
                let sent = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.send_to(&bytes, address));
                self.sent += u64::from(sent.is_ok());
                return;
            }
        };
        let Some(connection) = sent else { return };
        self.sent += 1;
        // Some stay and say nothing more.
        if self.random.below(2) == 0 {
            self.open.push_back(connection);
            if self.open.len() > OPEN_MAX {
                self.open.pop_front();
            }
        }
    }
}

fn local(name: &str, kind: u32, bytes: &[u8]) -> Option<OwnedFd> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
        None => SocketAddrUnix::new(name),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::from_raw(kind), flags, None).ok()?;
    connect(&socket, &address.ok()?).ok()?;
    let _ = send(&socket, bytes, SendFlags::NOSIGNAL);
    Some(socket)
}

fn tcp(address: SocketAddrV4, bytes: &[u8]) -> std::io::Result<OwnedFd> {
    let mut stream = TcpStream::connect_timeout(&address.into(), Duration::from_secs(1))?;
    stream.set_nonblocking(true)?;
    let _ = stream.write(bytes);
    Ok(stream.into())
}
