//! `test-rank WORD ...`: does what the words say, one after the other, then exits with 0.
//!
//! A word may begin with `RANK:` and is then for that rank alone.
//!
//! | word | what it does |
//! |---|---|
//! | dial | connects to the starter and says nothing; attach then speaks there |
//! | attach, finalize, abort=N | redeems its ticket, says that it has finalized, asks for the end of the job |
//! | exchange | attaches, sends a datagram to every rank of other nodes, waits for theirs and prints who and where it is |
//! | ticket | redeems its ticket on another connection and prints the answer |
//! | stranger | says rubbish on the starter's socket, then opens 200 connections that say nothing |
//! | exit=N, signal=N | ends so |
//! | hang | never ends |
//! | say=TEXT, warn=TEXT | prints a line on stdout, on stderr |
//! | raw=TEXT | prints without a newline |
//! | spray=N,M | prints N lines of M bytes, all its rank's letter; on stderr that it has paused long in one |
//! | stray | leaves a grandchild in a session of its own behind |
//! | fork | leaves a grandchild behind that ignores every polite signal |
//! | strays=N | the same for N that sleep, each in a session of its own |
//! | listen=NAME | listens on an abstract socket for ever, prints a line for it, and one for each that connects |
//! | touch=FILE, await=FILE | makes a file, waits until there is one |

use std::collections::BTreeSet;
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Command, exit};
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendFlags, SocketAddrUnix, SocketType, connect, recvmsg,
    send, socket,
};
use tutti_runtime::attach::attach;
use tutti_runtime::job::Job;
use tutti_shm::sync::Ordering;
use tutti_shm::ticket::{Attach, Face, Notice, TICKET_VARIABLE, Ticket, Welcome};
use tutti_transport::udp::Udp;
use tutti_transport::{Datagram, Outgoing, Transport};

/// No test lasts longer.
const LIMIT: Duration = Duration::from_secs(60);
/// A part of a line waits so long for the rest of it in a starter (`PART_NS`).
const PAUSE: Duration = Duration::from_millis(500);

fn main() {
    let rank = std::env::var("TUTTI_RANK").unwrap_or_default();
    let mut starter = None;
    for word in std::env::args().skip(1) {
        let word = match word.split_once(':') {
            Some((only, word)) if only.parse::<u32>().is_ok() => {
                if only != rank {
                    continue;
                }
                word.to_owned()
            }
            _ => word,
        };
        let (verb, value) = word.split_once('=').unwrap_or((&word, ""));
        act(verb, value, &rank, &mut starter);
    }
}

fn act(verb: &str, value: &str, rank: &str, starter: &mut Option<OwnedFd>) {
    let number = || value.parse::<i32>().expect("a number");
    match verb {
        "dial" => *starter = Some(dial()),
        "attach" => {
            let (socket, answer) = redeem(starter.take().unwrap_or_else(dial));
            assert_eq!(answer, Some(Welcome::Granted), "rank {rank}");
            *starter = Some(socket);
        }
        "exchange" => exchange(),
        "ticket" => println!("{:?}", redeem(dial()).1.expect("an answer")),
        "finalize" => tell(starter, Notice::Finalized),
        "abort" => tell(starter, Notice::Abort(number() as u32)),
        "stranger" => be_a_stranger(),
        "exit" => exit(number()),
        "signal" => {
            let signal = rustix::process::Signal::from_named_raw(number()).expect("a signal");
            // Twice, since Rust's own handler takes the first SIGSEGV.
            for _ in 0..2 {
                rustix::process::kill_process(rustix::process::getpid(), signal).expect("our own process");
            }
        }
        "hang" => {
            std::thread::sleep(LIMIT);
            panic!("nobody ended this rank");
        }
        "say" => println!("{value}"),
        "warn" => eprintln!("{value}"),
        "raw" => {
            print!("{value}");
            std::io::stdout().flush().expect("stdout");
        }
        "spray" => spray(value, rank),
        "stray" => {
            Command::new("setsid").args(["-f", "sleep", "1000"]).status().expect("setsid");
        }
        "fork" => {
            let ignoring = "(trap '' TERM INT HUP QUIT; while :; do sleep 1000; done) &";
            Command::new("sh").args(["-c", ignoring]).status().expect("sh");
        }
        "strays" => {
            let script = "i=0; while [ $i -lt $0 ]; do setsid -f sleep 1000; i=$((i + 1)); done";
            Command::new("sh").args(["-c", script, value]).status().expect("sh");
        }
        "listen" => listen(value),
        "touch" => drop(std::fs::File::create(value).expect("a file")),
        "await" => {
            let start = Instant::now();
            while !std::path::Path::new(value).exists() {
                assert!(start.elapsed() < LIMIT, "{value} was awaited");
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        _ => panic!("{verb} is none of the words"),
    }
}

fn ticket() -> Ticket {
    std::env::var(TICKET_VARIABLE).expect("a ticket").parse().expect("a ticket")
}

fn dial() -> OwnedFd {
    let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
    let address = SocketAddrUnix::new_abstract_name(ticket().socket.as_bytes()).expect("a short name");
    connect(&socket, &address).expect("the starter listens");
    socket
}

fn redeem(socket: OwnedFd) -> (OwnedFd, Option<Welcome>) {
    let ticket = ticket();
    let attach = Attach { rank: ticket.rank, secret: ticket.secret, face: Face::Own };
    send(&socket, &attach.encode(), SendFlags::NOSIGNAL).expect("the starter is there");
    let mut bytes = [0; 64];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let read =
        recvmsg(&socket, &mut [std::io::IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::empty());
    let answer = Welcome::decode(&bytes[..read.expect("an answer").bytes]);
    (socket, answer)
}

/// Reaches all other ranks of a job on several nodes: what a rank is given is enough for it.
fn exchange() {
    let job = Job::enter(attach().expect("a place"));
    let (rank, ranks) = (job.rank(), job.local_ranks());
    let local = ranks.first()..ranks.first() + ranks.len();
    let network = job.network().expect("a job on several nodes");
    let socket = network.socket.try_clone().expect("a descriptor");
    let mut udp = Udp::attach(socket, network.peers.addresses()).expect("a UDP socket");
    let mut missing: BTreeSet<u32> = (0..job.ranks() as u32).collect();
    missing.retain(|&peer| job.node_of(peer as usize) != job.node() as usize);
    let (others, head) = (missing.clone(), network.peers.key().to_le_bytes());
    let body = (rank as u32).to_le_bytes();
    for &peer in &others {
        // Every socket of the job is open by now: nothing is lost.
        assert_eq!(udp.send(&[Outgoing { peer, head: &head, body: &body }]).expect("a network"), 1);
    }
    let start = Instant::now();
    while !missing.is_empty() {
        let mut take = |datagram: Datagram<'_>| {
            assert_eq!(datagram.bytes, [&head[..], &datagram.peer.to_le_bytes()[..4]].concat());
            assert!(missing.remove(&datagram.peer), "rank {} speaks twice", datagram.peer);
        };
        udp.receive(&mut take).expect("a network");
        assert!(start.elapsed() < LIMIT, "rank {rank} has not heard {missing:?}");
    }
    assert_eq!(job.endpoint(rank).pid.load(Ordering::Relaxed), std::process::id());
    println!(
        "rank {rank} of {}, node {} of {}, with {local:?}, heard {others:?}",
        job.ranks(),
        job.node(),
        job.nodes()
    );
    job.leave();
}

fn tell(starter: &Option<OwnedFd>, notice: Notice) {
    let starter = starter.as_ref().expect("attach comes first");
    send(starter, &notice.encode(), SendFlags::NOSIGNAL).expect("the starter is there");
}

fn be_a_stranger() {
    let socket = dial();
    send(&socket, b"GET / HTTP/1.1\r\n\r\n", SendFlags::NOSIGNAL).expect("the starter is there");
    for _ in 0..200 {
        std::mem::forget(dial());
    }
}

fn listen(name: &str) {
    let address = SocketAddr::from_abstract_name(name).expect("a short name");
    let listener = UnixListener::bind_addr(&address).expect("the name is free");
    println!("listens");
    for connection in listener.incoming() {
        drop(connection.expect("a connection"));
        println!("asked");
    }
}

fn spray(value: &str, rank: &str) {
    let (lines, bytes) = value.split_once(',').expect("two numbers");
    let (lines, bytes): (usize, usize) = (lines.parse().expect("lines"), bytes.parse().expect("bytes"));
    let letter = b'a' + rank.parse::<u8>().expect("a rank");
    let mut line = vec![letter; bytes - 1];
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    let mut longest = Duration::ZERO;
    for _ in 0..lines {
        let mut before = None;
        // Cut as C's stdio cuts: in the middle of lines.
        for part in line.chunks(4093) {
            let begun = Instant::now();
            stdout.write_all(part).expect("stdout");
            stdout.flush().expect("stdout");
            // Whoever reads has seen nothing for no longer than from this begin to the next part's end.
            longest = longest.max(before.map_or(Duration::ZERO, |before: Instant| before.elapsed()));
            before = Some(begun);
        }
    }
    if longest >= PAUSE {
        eprintln!("rank {rank} has paused in a line");
    }
}
