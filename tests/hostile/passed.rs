//! Descriptors that a user passes over a socket: whoever lets go of the last one of a file closes it, and may
//! wait for that as long as the user likes.

use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType, connect,
    sendmsg, socket, sockopt,
};

use crate::Machine;
use crate::machine::ASK;
use crate::rubbish::{Target, targets};

const HONEST: usize = 0;
const HOSTILE: usize = 1;
/// Connections that are tried on each socket.
const TIMES: usize = 8;
/// Longer than any test.
const LINGER: Duration = Duration::from_secs(3600);

/// A connection of TCP whose close waits, since its other end takes nothing more; and that end.
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut stream = TcpStream::connect(listener.local_addr().expect("it has one")).expect("it listens");
    let (other, _) = listener.accept().expect("it has connected");
    stream.set_nonblocking(true).expect("a socket");
    while stream.write(&[0; 1 << 16]).is_ok() {}
    sockopt::set_socket_linger(&stream, Some(LINGER)).expect("a socket");
    (stream, other)
}

/// Sends bytes and such a connection along, of which nothing is kept here.
fn pass(over: BorrowedFd<'_>, bytes: &[u8]) -> (Result<usize, Errno>, TcpStream) {
    let (stream, other) = lingering();
    let descriptors = [stream.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = sendmsg(over, &[IoSlice::new(bytes)], &mut control, flags);
    if sent.is_err() {
        // It is the last one here.
        sockopt::set_socket_linger(&stream, None).expect("a socket");
    }
    (sent, other)
}

/// Whether this kernel keeps descriptors from who wants none.
fn kernel_refuses() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(|text| text.parse::<u32>());
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
    (next(), next()) >= (6, 16)
}

#[test]
fn descriptors_that_a_user_passes_keep_neither_daemon_nor_starter_of_another_waiting() {
    if !kernel_refuses() {
        return println!("before Linux 6.16 nobody can refuse descriptors");
    }
    let Some(machine) = Machine::up("hostile-passed", 1, 2, &[]) else { return };
    let mut job = machine.start(HONEST, &["run", "-n", "1", "sh", "-c", "echo up; exec sleep 3600"]);
    job.await_line("up");
    let starters = targets(machine.users.processes(machine.uid(HONEST)));
    let names: Vec<_> = starters
        .into_iter()
        .filter_map(|target| match target {
            Target::Local(name, kind) => Some((name.strip_prefix('@')?.as_bytes().to_vec(), kind)),
            _ => None,
        })
        .collect();
    assert!(!names.is_empty(), "the honest user's starter listens");
    let (passed, kept) = machine.as_user(HOSTILE, |machine| {
        let (mut passed, mut kept) = (0, Vec::new());
        let mut try_one = |stream: OwnedFd, bytes: &[u8]| {
            let (result, other) = pass(stream.as_fd(), bytes);
            passed += usize::from(result.is_ok());
            kept.push((stream, other));
        };
        for at in 0..TIMES {
            let stream = std::os::unix::net::UnixStream::connect(machine.socket()).expect("the daemon lives");
            // A request whose rest does not come, or what is none.
            let bytes = if at % 2 == 0 { Machine::frame(ASK, b"{}")[..8].to_vec() } else { vec![0xff; 64] };
            try_one(stream.into(), &bytes);
            let (name, kind) = &names[at % names.len()];
            let stream = socket(AddressFamily::UNIX, SocketType::from_raw(*kind), None).expect("a socket");
            let address = SocketAddrUnix::new_abstract_name(name).expect("a name");
            if connect(&stream, &address).is_ok() {
                try_one(stream, &[0; 24]);
            }
        }
        (passed, kept)
    });
    assert_eq!(passed, 0, "the kernel hands none over");
    // Whoever has some of them now would close them here.
    let (streams, others): (Vec<_>, Vec<_>) = kept.into_iter().unzip();
    drop(streams);
    machine.tutti(HONEST, &["ps"]).expect_success();
    machine.tutti(HONEST, &["run", "-n", "1", "true"]).expect_success();
    job.signal(rustix::process::Signal::TERM);
    job.end();
    drop(others);
}
