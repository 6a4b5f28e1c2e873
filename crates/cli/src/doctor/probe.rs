//! Rank of the doctor's job: one on each node, as the user, and real probes between all pairs.
//!
//! ```text
//! facts, the program, TCP to each daemon -> put the port of a UDP socket -> barrier -> get all ports
//!   -> ask every other rank, answer every other's questions, until all have answered or PATIENCE -> barrier (answering) -> a line of JSON
//! ```
//!
//! Ports and barriers go by PMI ([`tutti_protocol::pmi`]), which needs no network between the ranks.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tutti_protocol::ports::{self, Ports};

use crate::doctor::facts::Facts;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::file::{self, Found};

/// A daemon that has not taken a connection by then is not reached.
const CONNECT: Duration = Duration::from_secs(1);
/// Questions that have no answer by then have none, and how long before one is asked again.
const TIMEOUT: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(200);
/// Connections tried at a time.
const AT_ONCE: usize = 32;
/// Token, kind, asking rank, its clock, the other's clock.
const DATAGRAM_BYTES: usize = 8 + 1 + 4 + 8 + 8;

/// Where a node is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Address of its ranks.
    pub data: IpAddr,
    /// Address of its daemon.
    pub control: SocketAddr,
}

/// Task of a rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// By rank.
    pub peers: Vec<Peer>,
    /// In each datagram: what has another one is a stranger's.
    pub token: u64,
    /// The program to look for.
    pub program: Option<OsString>,
}

/// Findings of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub rank: u32,
    pub facts: Facts,
    pub program: Option<Result<Found, String>>,
    /// Daemons that cannot be reached by TCP, and why; those whose UDP port is refused.
    pub tcp: Vec<(u32, String)>,
    pub refused: Vec<u32>,
    /// Ranks that have not answered a datagram.
    pub silent: Vec<u32>,
    /// How far the own clock is ahead of rank 0's, in us.
    pub ahead_us: Option<i64>,
    /// Doubt of that, in us: half of the time that the answer took.
    #[serde(default)]
    pub doubt_us: u64,
}

/// The rank: probes, and prints its report.
///
/// # Errors
/// When it is no rank, or cannot reach its starter; a text for the user.
pub fn run(task: &str) -> Result<(), String> {
    let task: Task = serde_json::from_str(task).map_err(|error| format!("no task: {error}"))?;
    let mut pmi = Pmi::open()?;
    let own = task.peers.get(pmi.rank as usize).ok_or("more ranks than peers")?;
    let ports = std::env::var(ports::VARIABLE).ok().and_then(|text| text.parse::<Ports>().ok());
    let bind = |port| UdpSocket::bind((own.data, port));
    let free = ports.and_then(|ports| ports.range().find_map(|port| bind(port).ok()));
    let socket = free.map_or_else(|| bind(0), Ok);
    let socket = socket.map_err(|error| format!("cannot bind {}: {error}", own.data))?;
    socket.set_nonblocking(true).map_err(|error| error.to_string())?;
    let port = socket.local_addr().map_err(|error| error.to_string())?.port();
    let mut report = Report {
        rank: pmi.rank,
        facts: Facts::read(),
        program: task.program.as_ref().map(|program| file::inspect(program)),
        ..Report::default()
    };
    (report.tcp, report.refused) = daemons_not_reached(&task.peers, pmi.rank, own.data);
    pmi.put("doctor", port)?;
    let mut ports = Vec::new();
    for (rank, peer) in task.peers.iter().enumerate() {
        ports.push(SocketAddr::new(peer.data, pmi.get("doctor", rank as u32)?));
    }
    exchange(&socket, &mut pmi, &task, &ports, &mut report)?;
    let line = serde_json::to_string(&report).expect("a report is serialisable");
    println_whole(&line)
}

fn println_whole(line: &str) -> Result<(), String> {
    tutti_os::stdout::write(format!("{line}\n").as_bytes()).map_err(|error| error.to_string())
}

/// Finds the daemons without a TCP connection, and those that refuse datagrams.
fn daemons_not_reached(peers: &[Peer], own: u32, data: IpAddr) -> (Vec<(u32, String)>, Vec<u32>) {
    let others: Vec<(u32, SocketAddr)> =
        (0..).zip(peers).filter(|(rank, _)| *rank != own).map(|(rank, peer)| (rank, peer.control)).collect();
    let (mut tcp, mut refused) = (Vec::new(), Vec::new());
    for some in others.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            let tried: Vec<_> = some
                .iter()
                .map(|&(rank, control)| {
                    scope.spawn(move || {
                        let connected = TcpStream::connect_timeout(&control, CONNECT);
                        (rank, connected.err().map(|error| error.to_string()), is_refused(data, control))
                    })
                })
                .collect();
            for (rank, error, is_refused) in tried.into_iter().filter_map(|thread| thread.join().ok()) {
                tcp.extend(error.map(|error| (rank, error)));
                refused.extend(is_refused.then_some(rank));
            }
        });
    }
    (tcp, refused)
}

/// Whether the other node reports a closed UDP port, or a firewall does. Silence means nothing: a switch
/// thread answers no stranger.
fn is_refused(data: IpAddr, control: SocketAddr) -> bool {
    let sent = || -> io::Result<usize> {
        let socket = UdpSocket::bind((data, 0))?;
        socket.connect(control)?;
        socket.set_read_timeout(Some(AGAIN))?;
        socket.send(b"tutti doctor")?;
        socket.recv(&mut [0; 16])
    };
    sent().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Sends datagrams to all others and answers theirs, until the second barrier is over.
fn exchange(
    socket: &UdpSocket,
    pmi: &mut Pmi,
    task: &Task,
    ports: &[SocketAddr],
    report: &mut Report,
) -> Result<(), String> {
    let own = pmi.rank;
    let mut silent: Vec<u32> = (0..ports.len() as u32).filter(|rank| *rank != own).collect();
    let (began, mut sent, mut in_barrier) = (Instant::now(), None::<Instant>, false);
    loop {
        let now = Instant::now();
        if !in_barrier && (silent.is_empty() || now >= began + TIMEOUT) {
            report.silent.clone_from(&silent);
            pmi.send("cmd=barrier_in\n")?;
            in_barrier = true;
        }
        if !in_barrier && sent.is_none_or(|sent| now >= sent + AGAIN) {
            for rank in &silent {
                let datagram = Datagram {
                    token: task.token,
                    is_answer: false,
                    rank: own,
                    sent_us: clock_us(),
                    clock_us: 0,
                };
                // What cannot be sent is not answered either.
                let _ = socket.send_to(&datagram.encode(), ports[*rank as usize]);
            }
            sent = Some(now);
        }
        let mut ready =
            [PollFd::new(socket, PollFlags::IN), PollFd::from_borrowed_fd(pmi.stream.as_fd(), PollFlags::IN)];
        let timeout = Timespec::try_from(AGAIN).map_err(|error| error.to_string())?;
        let _ = poll(&mut ready, Some(&timeout));
        let is_released = in_barrier && !ready[1].revents().is_empty();
        let mut bytes = [0; 64];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let Some(datagram) = Datagram::decode(&bytes[..length], task.token) else { continue };
            if !datagram.is_answer {
                let answer = Datagram { is_answer: true, rank: own, clock_us: clock_us(), ..datagram };
                let _ = socket.send_to(&answer.encode(), from);
                continue;
            }
            if datagram.rank == 0 && report.ahead_us.is_none() {
                let now_us = clock_us();
                let middle_us = (datagram.sent_us + now_us) / 2;
                report.ahead_us = Some(middle_us as i64 - datagram.clock_us as i64);
                report.doubt_us = now_us.saturating_sub(datagram.sent_us) / 2;
            }
            silent.retain(|rank| *rank != datagram.rank);
        }
        if is_released {
            return pmi.recv("cmd=barrier_out").and_then(|_| pmi.finish());
        }
    }
}

/// A question, or its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Datagram {
    token: u64,
    is_answer: bool,
    /// The sender.
    rank: u32,
    sent_us: u64,
    clock_us: u64,
}

impl Datagram {
    fn encode(self) -> Vec<u8> {
        let mut bytes = self.token.to_le_bytes().to_vec();
        bytes.push(u8::from(self.is_answer));
        bytes.extend(self.rank.to_le_bytes());
        bytes.extend(self.sent_us.to_le_bytes());
        bytes.extend(self.clock_us.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], token: u64) -> Option<Self> {
        let bytes: &[u8; DATAGRAM_BYTES] = bytes.try_into().ok()?;
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let rank = u32::from_le_bytes(bytes[9..13].try_into().expect("four bytes"));
        let datagram = Datagram {
            token: long(0),
            is_answer: bytes[8] == 1,
            rank,
            sent_us: long(13),
            clock_us: long(21),
        };
        (datagram.token == token).then_some(datagram)
    }
}

fn clock_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// The rank's side of PMI-1, as far as it is needed.
struct Pmi {
    stream: UnixStream,
    rank: u32,
    name: String,
}

impl Pmi {
    fn open() -> Result<Self, String> {
        let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u32>().ok());
        let (Some(descriptor), Some(rank)) = (number("PMI_FD"), number("PMI_RANK")) else {
            return Err("only the ranks of `tutti doctor` are started so".into());
        };
        let stream = tutti_os::take_descriptor(descriptor as i32).map_err(|error| error.to_string())?;
        let mut pmi = Pmi { stream: stream.into(), rank, name: String::new() };
        pmi.request("cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init")?;
        let answer = pmi.request("cmd=get_my_kvsname\n", "cmd=my_kvsname")?;
        pmi.name = value(&answer, "kvsname").ok_or("PMI names no space")?;
        Ok(pmi)
    }

    /// Puts a number under this rank's name, and waits until all have.
    fn put(&mut self, key: &str, number: u16) -> Result<(), String> {
        let line = format!("cmd=put kvsname={} key={key}-{} value={number}\n", self.name, self.rank);
        self.request(&line, "cmd=put_result")?;
        self.request("cmd=barrier_in\n", "cmd=barrier_out").map(drop)
    }

    fn get(&mut self, key: &str, rank: u32) -> Result<u16, String> {
        let line = format!("cmd=get kvsname={} key={key}-{rank}\n", self.name);
        let answer = self.request(&line, "cmd=get_result")?;
        value(&answer, "value")
            .and_then(|value| value.parse().ok())
            .ok_or_else(|| format!("PMI has nothing of rank {rank}"))
    }

    fn finish(&mut self) -> Result<(), String> {
        self.request("cmd=finalize\n", "cmd=finalize_ack").map(drop)
    }

    fn request(&mut self, line: &str, answer: &str) -> Result<String, String> {
        self.send(line)?;
        self.recv(answer)
    }

    fn send(&mut self, line: &str) -> Result<(), String> {
        self.stream.write_all(line.as_bytes()).map_err(|error| format!("cannot reach the starter: {error}"))
    }

    /// A line that begins so.
    fn recv(&mut self, begin: &str) -> Result<String, String> {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while byte != *b"\n" {
            self.stream.read_exact(&mut byte).map_err(|error| format!("the starter is gone: {error}"))?;
            line.push(byte[0]);
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if line.starts_with(begin) { Ok(line) } else { Err(format!("the starter says {line:?}")) }
    }
}

/// The value behind NAME= in a line of PMI.
fn value(line: &str, name: &str) -> Option<String> {
    line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doctor_datagrams_of_strangers_count_for_nothing() {
        let datagram = Datagram { token: 7, is_answer: true, rank: 3, sent_us: 1 << 50, clock_us: 9 };
        let bytes = datagram.encode();
        assert_eq!(Datagram::decode(&bytes, 7), Some(datagram));
        assert_eq!(Datagram::decode(&bytes, 8), None);
        assert!((0..bytes.len()).all(|length| Datagram::decode(&bytes[..length], 7).is_none()));
    }

    #[test]
    fn doctor_sees_which_daemons_are_reached() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let datagrams = UdpSocket::bind(there).unwrap();
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let peer = |control| Peer { data: control_ip(control), control };
        let peers = [peer(there), peer(there), peer(gone)];
        let (tcp, refused) = daemons_not_reached(&peers, 0, control_ip(there));
        assert_eq!((tcp.len(), tcp[0].0, refused), (1, 2, vec![2]));
        drop((listener, datagrams));
    }

    fn control_ip(address: SocketAddr) -> IpAddr {
        address.ip()
    }
}
