//! A service: its functions, its connections, and the loop that serves them.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use core::ffi::c_int;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use tutti_shm::published::{Audience, is_name};
use tutti_shm::users::{is_one_user, is_own_user};

use super::frame::{Ask, DATA_BYTES_MAX, PACKET_BYTES_MAX, Reply, hash};
use super::{left, now_ns, socket_name};
use crate::status::*;

/// Clients at once, and those of one user.
pub const CLIENTS_MAX: usize = 1024;
/// Clients of one user at once.
pub const CLIENTS_OF_USER_MAX: usize = 128;
/// Packets of one connection before others get their turn.
const PACKETS_PER_TURN: usize = 16;
/// Where the kernel gives no descriptor for a new client, it waits so long.
const PAUSE_NS: u64 = 20_000_000;

/// A call that a function answers: a status and its data.
#[derive(Debug, Default)]
pub struct Served {
    /// User of the client.
    pub uid: u32,
    answer: Option<(c_int, Vec<u8>)>,
}

impl Served {
    /// Answers it, once: with data, or with [`THREW`] and a text.
    ///
    /// # Errors
    /// [`TOO_LONG`]: it can still be answered. [`INVALID`]: a second answer, or another status.
    pub fn answer(&mut self, status: c_int, data: &[u8]) -> Result<(), c_int> {
        if data.len() > DATA_BYTES_MAX {
            return Err(TOO_LONG);
        }
        if self.answer.is_some() || !(status == OK || status == THREW) {
            return Err(INVALID);
        }
        self.answer = Some((status, data.to_vec()));
        Ok(())
    }
}

/// Function for a call: it gets the arguments, and answers.
pub type Run = Box<dyn FnMut(&[u8], &mut Served) + Send>;

struct Function {
    signature: String,
    hash: u64,
    run: Run,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.signature)
    }
}

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    uid: u32,
}

/// A name under which functions are offered.
#[derive(Debug)]
pub struct Service {
    listener: OwnedFd,
    audience: Audience,
    functions: Vec<Function>,
    connections: Vec<Connection>,
    /// Read ends a wait of [`Service::serve`].
    bell: OwnedFd,
    accepts_from_ns: u64,
}

/// Ends the loop of a service, from any thread.
#[derive(Debug)]
pub struct Stop(OwnedFd);

impl Stop {
    /// [`Service::serve`] returns, also when it is called later, once.
    pub fn stop(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

/// Groups of the process at the other end of a local socket.
#[allow(unsafe_code)]
fn groups_of(socket: &OwnedFd, own: u32) -> Vec<u32> {
    use std::os::fd::AsRawFd;
    let mut groups = vec![0_u32; 1 << 12];
    let mut bytes = size_of_val(&groups[..]) as libc::socklen_t;
    // SAFETY: the kernel writes at most so many bytes into the vector, and says how many.
    let status = unsafe {
        let into = groups.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERGROUPS, into, &mut bytes)
    };
    groups.truncate(if status == 0 { bytes as usize / size_of::<u32>() } else { 0 });
    groups.push(own);
    groups
}

impl Service {
    /// Offers a name, of letters, digits and `. _ -`, to an audience; this user is always one of it.
    ///
    /// # Errors
    /// [`BUSY`]: the name is in use. [`INVALID`]: it is no name. [`MEMORY`].
    pub fn open(name: &str, audience: Audience) -> Result<(Self, Stop), c_int> {
        if !is_name(name.as_bytes()) {
            return Err(INVALID);
        }
        let uid = rustix::process::geteuid().as_raw();
        let address =
            SocketAddrUnix::new_abstract_name(socket_name(uid, name).as_bytes()).map_err(|_| INVALID)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let listener = listener.map_err(|_| MEMORY)?;
        net::bind(&listener, &address).map_err(|_| BUSY)?;
        net::listen(&listener, CLIENTS_OF_USER_MAX as i32).map_err(|_| MEMORY)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|_| MEMORY)?;
        let stop = Stop(bell.try_clone().map_err(|_| MEMORY)?);
        let (functions, connections) = (Vec::new(), Vec::new());
        Ok((Service { listener, audience, functions, connections, bell, accepts_from_ns: 0 }, stop))
    }

    /// Offers a function by its signature, one line of text that its clients give too.
    ///
    /// # Errors
    /// [`INVALID`]: no line, or a function with this name is there. [`TOO_LONG`]: all signatures together.
    pub fn add(&mut self, signature: &str, run: Run) -> Result<(), c_int> {
        let name = |text: &str| text.split('(').next().unwrap_or_default().to_owned();
        let is_taken = self.functions.iter().any(|other| name(&other.signature) == name(signature));
        if is_taken || signature.is_empty() || signature.contains(|c: char| c.is_control()) {
            return Err(INVALID);
        }
        if self.signatures().len() + signature.len() + 1 > DATA_BYTES_MAX {
            return Err(TOO_LONG);
        }
        self.functions.push(Function { signature: signature.to_owned(), hash: hash(signature), run });
        Ok(())
    }

    fn signatures(&self) -> String {
        self.functions.iter().map(|function| format!("{}\n", function.signature)).collect()
    }

    /// Serves clients until [`Stop::stop`] is called, or a time by CLOCK_MONOTONIC: how many calls there
    /// were.
    ///
    /// # Errors
    /// [`MEMORY`] when the kernel has none.
    pub fn serve(&mut self, until_ns: Option<u64>) -> Result<usize, c_int> {
        let mut calls = 0;
        let mut ready = VecDeque::new();
        let mut packet = vec![0; PACKET_BYTES_MAX + 1];
        loop {
            let (is_stopped, has_clients) = self.wait(until_ns, &mut ready)?;
            if is_stopped {
                return Ok(calls);
            }
            // From behind: a connection that is closed moves the last one to its place.
            while let Some(at) = ready.pop_back() {
                calls += self.serve_one(at, &mut packet);
            }
            if has_clients {
                self.accept();
            }
            if until_ns.is_some_and(|until| now_ns() >= until) {
                return Ok(calls);
            }
        }
    }

    /// Waits for something: whether it is stopped, whether clients come; places of connections with packets.
    fn wait(&self, until_ns: Option<u64>, ready: &mut VecDeque<usize>) -> Result<(bool, bool), c_int> {
        let accepts = now_ns() >= self.accepts_from_ns;
        let until_ns =
            if accepts { until_ns } else { Some(until_ns.unwrap_or(u64::MAX).min(self.accepts_from_ns)) };
        let timeout: Option<Timespec> = until_ns.map(left);
        let flags = |is_wanted| if is_wanted { PollFlags::IN } else { PollFlags::empty() };
        let mut all = Vec::with_capacity(2 + self.connections.len());
        all.push(PollFd::new(&self.bell, PollFlags::IN));
        all.push(PollFd::new(&self.listener, flags(accepts)));
        all.extend(self.connections.iter().map(|connection| PollFd::new(&connection.socket, PollFlags::IN)));
        match poll(&mut all, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok((false, false)),
            Err(_) => return Err(MEMORY),
        }
        if !all[0].revents().is_empty() {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.bell, &mut count);
            return Ok((true, false));
        }
        ready.extend(
            all[2..].iter().enumerate().filter(|(_, one)| !one.revents().is_empty()).map(|(at, _)| at),
        );
        Ok((false, !all[1].revents().is_empty()))
    }

    /// Takes packets of a connection; how many calls there were. One that sends no packet, takes no answers
    /// or has ended is closed.
    fn serve_one(&mut self, at: usize, packet: &mut [u8]) -> usize {
        let mut calls = 0;
        for _ in 0..PACKETS_PER_TURN {
            let socket = &self.connections[at].socket;
            let bytes = match net::recv(socket, &mut *packet, RecvFlags::DONTWAIT) {
                Ok((_, bytes)) => bytes,
                Err(Errno::AGAIN) => return calls,
                Err(Errno::INTR) => continue,
                Err(_) => 0,
            };
            let Some(ask) = (bytes > 0).then(|| Ask::decode(&packet[..bytes])).flatten() else {
                self.connections.swap_remove(at);
                return calls;
            };
            calls += usize::from(ask != Ask::Open);
            let uid = self.connections[at].uid;
            let reply = self.reply_to(uid, ask);
            if !send(&self.connections[at].socket, &reply) {
                self.connections.swap_remove(at);
                return calls;
            }
        }
        calls
    }

    /// The packet that answers a question.
    fn reply_to(&mut self, uid: u32, ask: Ask<'_>) -> Vec<u8> {
        match ask {
            Ask::Open => Reply { status: OK, number: 0, data: self.signatures().as_bytes() }.encode(),
            Ask::Call { number, deadline_ns, hash, function, data } => {
                let found = self.functions.get_mut(function as usize).filter(|found| found.hash == hash);
                let Some(function) = found else { return refusal(number, VERSION) };
                if now_ns() >= deadline_ns {
                    return refusal(number, DEADLINE);
                }
                let mut served = Served { uid, answer: None };
                (function.run)(data, &mut served);
                let none = || (THREW, b"\0the function has not answered".to_vec());
                let (status, data) = served.answer.unwrap_or_else(none);
                Reply { status, number, data: &data }.encode()
            }
        }
    }

    /// Lets clients in whom the service is for.
    fn accept(&mut self) {
        for _ in 0..PACKETS_PER_TURN {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match net::accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return,
                Err(_) => {
                    self.accepts_from_ns = now_ns() + PAUSE_NS;
                    return;
                }
            };
            let Ok(peer) = sockopt::socket_peercred(&socket) else { continue };
            let (uid, gid) = (peer.uid.as_raw(), peer.gid.as_raw());
            let is_own = is_own_user(uid, peer.pid.as_raw_nonzero().get());
            let is_meant = is_one_user(uid) && self.audience.has(uid, &groups_of(&socket, gid));
            let of_user = self.connections.iter().filter(|other| other.uid == uid).count();
            if !is_own && !is_meant && self.audience != Audience::Everybody {
                send(&socket, &refusal(0, RIGHT));
            } else if of_user >= CLIENTS_OF_USER_MAX || self.connections.len() >= CLIENTS_MAX {
                send(&socket, &refusal(0, BUSY));
            } else {
                self.connections.push(Connection { socket, uid });
            }
        }
    }
}

fn refusal(number: u64, status: c_int) -> Vec<u8> {
    Reply { status, number, data: &[] }.encode()
}

/// Whether there was room for it: a client that takes no answers is none.
fn send(socket: &OwnedFd, packet: &[u8]) -> bool {
    net::send(socket.as_fd(), packet, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
}
