//! Door of a service: its sockets, its clients, and which of them it lets in.

use core::ffi::c_int;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use tutti_shm::local_socket;
use tutti_shm::published::far::Admission;
use tutti_shm::published::{Answer, Ask, Audience, Status, is_name, service_socket_name};
use tutti_shm::users::{is_one_user, is_own_user, peer_groups};

use super::connection::Connection;
use super::network::Network;
use super::refusal;
use crate::now_ns;
use crate::status::*;

/// Clients at once.
pub const CLIENTS_MAX: usize = 1024;
/// Clients of one user at once.
pub const CLIENTS_OF_USER_MAX: usize = 128;
/// Clients that are let in before others get their turn.
const ACCEPTED_PER_TURN: usize = 16;
/// Where the kernel gives no descriptor for a new client, it waits so long.
const PAUSE_NS: u64 = 20_000_000;

/// Findings of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ready {
    /// New clients of this node.
    Near,
    /// New clients of others, at this listener.
    Far(usize),
    /// Words of a client that has shown no key.
    Visitor(u64),
    /// A client's question.
    Client(usize),
}

/// The sockets of a service.
#[derive(Debug)]
pub(super) struct Door {
    listener: OwnedFd,
    audience: Audience,
    uid: u32,
    connections: Vec<Connection>,
    network: Network,
    accepts_from_ns: u64,
}

impl Door {
    pub(super) fn open(name: &str, audience: Audience) -> Result<Self, c_int> {
        if !is_name(name.as_bytes()) {
            return Err(INVALID);
        }
        let uid = rustix::process::geteuid().as_raw();
        let address = SocketAddrUnix::new_abstract_name(service_socket_name(uid, name).as_bytes());
        let address = address.map_err(|_| INVALID)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let listener = listener.map_err(|_| MEMORY)?;
        local_socket::let_descriptors_pass(listener.as_fd(), false);
        net::bind(&listener, &address).map_err(|_| BUSY)?;
        net::listen(&listener, CLIENTS_OF_USER_MAX as i32).map_err(|_| MEMORY)?;
        let (connections, network) = (Vec::new(), Network::default());
        Ok(Door { listener, audience, uid, connections, network, accepts_from_ns: 0 })
    }

    /// When there is something to do besides what is polled; passes that are over end here.
    pub(super) fn due_ns(&mut self) -> Option<u64> {
        let now_ns = now_ns();
        self.network.expire(now_ns);
        if self.connections.iter().any(Connection::has_packet) {
            return Some(now_ns);
        }
        let paused = (now_ns < self.accepts_from_ns).then_some(self.accepts_from_ns);
        paused.into_iter().chain(self.network.due_ns()).min()
    }

    /// All that is to be polled, and its names: clients last.
    pub(super) fn polled(&self) -> (Vec<PollFd<'_>>, Vec<Ready>) {
        let (mut all, mut named) = (Vec::new(), Vec::new());
        if now_ns() >= self.accepts_from_ns {
            all.push(PollFd::new(&self.listener, PollFlags::IN));
            named.push(Ready::Near);
            for (at, listener) in self.network.listeners().enumerate() {
                all.push(PollFd::from_borrowed_fd(listener, PollFlags::IN));
                named.push(Ready::Far(at));
            }
        }
        for (number, socket) in self.network.visitors() {
            all.push(PollFd::from_borrowed_fd(socket, PollFlags::IN));
            named.push(Ready::Visitor(number));
        }
        for (at, connection) in self.connections.iter().enumerate() {
            let (socket, flags) = connection.polled();
            all.push(PollFd::from_borrowed_fd(socket, flags));
            named.push(Ready::Client(at));
        }
        (all, named)
    }

    /// Results of a poll, and clients whose packets have come already, in the order of [`Door::polled`].
    pub(super) fn also_ready(&self, mut ready: Vec<Ready>) -> Vec<Ready> {
        let more = self.connections.iter().enumerate().filter(|(_, one)| one.has_packet());
        let more: Vec<Ready> = more.map(|(at, _)| Ready::Client(at)).collect();
        if !more.is_empty() {
            ready.extend(more.into_iter().filter(|one| !ready.contains(one)).collect::<Vec<_>>());
            ready.sort_by_key(|one| match one {
                Ready::Client(at) => at + 1,
                _ => 0,
            });
        }
        ready
    }

    pub(super) fn connection(&mut self, at: usize) -> &mut Connection {
        &mut self.connections[at]
    }

    /// Closes a connection; the last one comes to its place.
    pub(super) fn close(&mut self, at: usize) {
        self.connections.swap_remove(at);
    }

    /// Lets in who has come.
    pub(super) fn handle(&mut self, ready: Ready) {
        match ready {
            Ready::Near => self.accept(),
            Ready::Far(listener) => {
                if self.network.accept(listener, now_ns()).is_err() {
                    self.accepts_from_ns = now_ns() + PAUSE_NS;
                }
            }
            Ready::Visitor(number) => {
                if let Some((stream, uid)) = self.network.enter(number, now_ns())
                    && !self.is_full_for(uid)
                {
                    self.connections.push(Connection::far(stream, uid));
                }
            }
            Ready::Client(_) => {}
        }
    }

    fn is_full_for(&self, uid: u32) -> bool {
        let of_user = self.connections.iter().filter(|other| other.user().0 == uid).count();
        of_user >= CLIENTS_OF_USER_MAX || self.connections.len() >= CLIENTS_MAX
    }

    /// Lets clients of this node in whom the service is for, and daemons.
    fn accept(&mut self) {
        for _ in 0..ACCEPTED_PER_TURN {
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
            let groups = || [peer_groups(socket.as_fd()), vec![gid]].concat();
            let is_meant = is_one_user(uid) && self.audience.has(uid, &groups());
            let is_let_in = is_own || is_meant || self.audience == Audience::Everybody;
            let may_vouch = uid == 0 || is_own;
            let is_full = self.is_full_for(uid);
            let mut connection = Connection::near(socket, uid, is_let_in, may_vouch);
            if !is_let_in && !may_vouch {
                connection.send(&refusal(0, RIGHT));
            } else if is_full {
                connection.send(&refusal(0, BUSY));
            } else {
                self.connections.push(connection);
            }
        }
    }

    /// A packet that is no client's: a daemon vouches for a client of another node. The answer; none: it is
    /// nothing of the kind.
    pub(super) fn admit(&mut self, at: usize, packet: &[u8]) -> Option<Vec<u8>> {
        let (Ask::Admit(uid), data, _) = Ask::take(packet).ok()?? else { return None };
        let refused = |status| Answer { status, value: 0 }.encode(0).to_vec();
        if !self.connections[at].may_vouch() {
            return Some(refused(Status::Right));
        }
        let Admission { at: address, groups } = Admission::decode(data)?;
        if uid != self.uid && !self.audience.has(uid, &groups) {
            return Some(refused(Status::Right));
        }
        if self.is_full_for(uid) {
            return Some(refused(Status::Memory));
        }
        Some(match self.network.admit(address, uid, now_ns()) {
            Some((port, pass)) => {
                let pass = pass.encode();
                let answer = Answer { status: Status::Ok, value: port.into() };
                [&answer.encode(pass.len())[..], &pass].concat()
            }
            None => refused(Status::Memory),
        })
    }
}
