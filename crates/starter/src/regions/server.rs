//! The loop of the server: owners publish and withdraw, clients come in and ask.
//!
//! | may | who, by the kernel's word |
//! |---|---|
//! | publish, withdraw | whose connection came from the starter: a rank of its job |
//! | come in | whom the region is for, and its owner's user (SO_PEERCRED, SO_PEERGROUPS) |
//! | come in from another node | whom a daemon, root's or the owner's user's, vouches for ([`super::network`]) |
//! | ask | who has come in, with the rights that it was given then |
//!
//! One question of each connection that is ready is handled after another: who floods waits for its turn as
//! all do, and for its budget ([`super::client`]).

use std::collections::{BTreeMap, VecDeque};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{self, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags};
use rustix::process::{Resource, getrlimit, setrlimit};
use tutti_shm::published::far::{Admission, Secret};
use tutti_shm::published::lines::Lines;
use tutti_shm::published::{Answer, Ask, Opened, REGIONS_MAX, Status};
use tutti_shm::users::{is_one_user, is_own_user};

use super::client::{Connection, Question, Read, refusal};
use super::clients::{Client, Clients};
use super::network::{Admitted, Network};
use super::region::{Kind, Offer, Outcome, Region};
use super::sources::{Interest, Source, Sources};
use crate::readiness::now_ns;
use tutti_service::entrance::VISITORS_MAX;

/// Clients at once.
const CLIENTS_MAX: usize = 1024;
/// Owners at once: ranks of a node.
const OWNERS_MAX: usize = 4096;
/// Questions of one connection before others get their turn.
const QUESTIONS_PER_TURN: usize = 16;
/// New connections of one listener before others get their turn.
const ACCEPTED_PER_TURN: usize = 16;
/// Where the kernel gives no descriptor for a new client, it waits so long.
const PAUSE: Duration = Duration::from_millis(20);

struct Server<'a> {
    control: &'a OwnedFd,
    lines: &'a Lines,
    sources: Sources,
    uid: u32,
    next: u64,
    owners: BTreeMap<u64, Connection>,
    clients: Clients,
    regions: BTreeMap<u32, Region>,
    network: Network,
    /// Clients that have asked more than was handled.
    unfinished: VecDeque<u64>,
}

/// Serves until the starter has ended.
pub(super) fn run(control: &OwnedFd, lines: &Lines) {
    let Ok(sources) = Sources::new() else { return };
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let kept = 3 * REGIONS_MAX as u64 + VISITORS_MAX as u64 + 64;
    let clients_max = descriptors.saturating_sub(kept).clamp(16, CLIENTS_MAX as u64) as usize;
    let mut server = Server {
        control,
        lines,
        sources,
        uid: rustix::process::geteuid().as_raw(),
        next: 0,
        owners: BTreeMap::new(),
        clients: Clients::new(clients_max),
        regions: BTreeMap::new(),
        network: Network::default(),
        unfinished: VecDeque::new(),
    };
    server.sources.add(control.as_fd(), Source::Control);
    while server.turn() {}
}

impl Server<'_> {
    /// Waits for whatever happens next, and handles it; false when the starter has ended.
    fn turn(&mut self) -> bool {
        let due_ns = self.clients.due_ns().into_iter().chain(self.network.due_ns()).min();
        let timeout = match (self.unfinished.is_empty(), due_ns) {
            (false, _) => Some(Duration::ZERO),
            (true, Some(due_ns)) => Some(Duration::from_nanos(due_ns.saturating_sub(now_ns()) + 1)),
            (true, None) => None,
        };
        let Ok(ready) = self.sources.wait(timeout) else { return false };
        let unfinished = std::mem::take(&mut self.unfinished);
        for source in &ready {
            match *source {
                Source::Control => {
                    if !self.handle_control() {
                        return false;
                    }
                }
                Source::Owner(owner) => self.handle_owner(owner),
                Source::Listener(line) => self.handle_listener(line),
                Source::Client(client) => self.handle_client(client),
                Source::Messages(line) => self.handle_messages(line),
                Source::Network(number) => self.handle_network(number),
                Source::Visitor(visitor) => self.handle_visitor(visitor),
            }
        }
        for client in unfinished {
            if !ready.contains(&Source::Client(client)) {
                self.handle_client(client);
            }
        }
        if due_ns.is_some() {
            self.handle_time();
        }
        true
    }

    /// A new owner, or the end of the starter.
    fn handle_control(&mut self) -> bool {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut parts = [std::io::IoSliceMut::new(&mut byte)];
        match net::recvmsg(self.control, &mut parts, &mut control, flags) {
            Ok(received) if received.bytes == 0 => return false,
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR) => return true,
            Err(_) => return false,
        }
        let rights = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        if let Some(socket) = rights.filter(|_| self.owners.len() < OWNERS_MAX) {
            self.next += 1;
            if self.sources.add(socket.as_fd(), Source::Owner(self.next)) {
                self.owners.insert(self.next, Connection::new(socket, now_ns()));
            }
        }
        true
    }

    fn handle_owner(&mut self, owner: u64) {
        for _ in 0..QUESTIONS_PER_TURN {
            let Some(connection) = self.owners.get_mut(&owner) else { return };
            if !connection.flush() {
                return self.end_owner(owner);
            }
            let (ask, data) = match connection.read() {
                Read::Question(question) => question,
                Read::Nothing => return,
                Read::End => return self.end_owner(owner),
            };
            let is_own = |key: u64| {
                let line = u32::try_from(key).ok()?;
                self.regions.get(&line).filter(|region| region.owner == owner).map(|_| line)
            };
            let status = match ask {
                Ask::Publish(bytes, rights, audience) => {
                    match self.publish(owner, Offer { name: &data, bytes, rights, audience }) {
                        Ok(()) => continue,
                        Err(status) => status,
                    }
                }
                Ask::Ready(key) => is_own(key).map_or(Status::Region, |line| self.let_clients_come(line)),
                Ask::Withdraw(key) => is_own(key).map_or(Status::Region, |line| {
                    self.end_region(line, Status::Region);
                    Status::Ok
                }),
                Ask::Changed(key) => {
                    is_own(key).into_iter().for_each(|line| self.look_again(line));
                    continue;
                }
                _ => Status::Refused,
            };
            let answered = self.owners.get_mut(&owner).map(|owner| owner.answer(refusal(status), &[]));
            if answered == Some(false) {
                return self.end_owner(owner);
            }
        }
    }

    fn end_owner(&mut self, owner: u64) {
        self.owners.remove(&owner);
        let own = self.regions.iter().filter(|(_, region)| region.owner == owner);
        let lines: Vec<u32> = own.map(|(line, _)| *line).collect();
        lines.into_iter().for_each(|line| self.end_region(line, Status::Gone));
    }

    fn publish(&mut self, owner: u64, offer: Offer<'_>) -> Result<(), Status> {
        if !offer.is_right() {
            return Err(Status::Invalid);
        }
        let line = (0..REGIONS_MAX as u32).find(|line| !self.regions.contains_key(line));
        let line = line.ok_or(Status::Memory)?;
        let generation = self.next + 1;
        let (region, gift) = Region::create(offer, self.uid, owner, generation)?;
        if let Kind::Messages(messages) = &region.kind
            && !self.sources.add(messages.socket().as_fd(), Source::Messages(line))
        {
            return Err(Status::Memory);
        }
        self.next = generation;
        let is_mapped = matches!(region.kind, Kind::Memory(_));
        let opened = Opened { line, is_mapped, generation, bytes: region.bytes };
        let answer = Answer { status: Status::Ok, value: region.rights.into() };
        self.regions.insert(line, region);
        let gifts = [gift.as_fd(), self.lines.descriptor()];
        let is_sent = self.owners.get(&owner).is_some_and(|owner| owner.give(answer, opened, &gifts));
        if !is_sent {
            self.regions.remove(&line);
            self.end_owner(owner);
        }
        Ok(())
    }

    /// The owner has mapped it: clients may come, and nobody else can map it for writing unless it is for
    /// that.
    fn let_clients_come(&mut self, line: u32) -> Status {
        let Some(region) = self.regions.get(&line) else { return Status::Region };
        if let Kind::Memory(area) = &region.kind
            && !region.is_mapped_for_writing()
        {
            // Before Linux 5.1 the owner's user is not kept from it; others are by the file's mode.
            let _ = area.seal();
        }
        self.lines.open(line as usize, region.generation);
        let is_open = net::listen(&region.listener, 64).is_ok()
            && self.sources.add(region.listener.as_fd(), Source::Listener(line));
        if is_open { Status::Ok } else { Status::Memory }
    }

    fn end_region(&mut self, line: u32, status: Status) {
        let Some(region) = self.regions.remove(&line) else { return };
        self.lines.end(line as usize, status);
        let lost = self.clients.end_region(Admitted { line, generation: region.generation }, status);
        lost.into_iter().for_each(|client| self.end_client(client));
        region.waiting.iter().for_each(|client| self.settle_interest(*client));
    }

    fn handle_listener(&mut self, line: u32) {
        for _ in 0..ACCEPTED_PER_TURN {
            let Some(region) = self.regions.get(&line) else { return };
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match net::accept_with(&region.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    return std::thread::sleep(PAUSE);
                }
                Err(_) => return,
            };
            let Ok(peer) = net::sockopt::socket_peercred(&socket) else { continue };
            let uid = peer.uid.as_raw();
            if !is_one_user(uid) && !is_own_user(uid, peer.pid.as_raw_nonzero().get()) {
                // It may be anybody.
                continue;
            }
            let mut groups = tutti_os::peer_groups(socket.as_fd());
            groups.push(peer.gid.as_raw());
            let is_let_in = uid == self.uid || region.audience.has(uid, &groups);
            if self.clients.is_full_for(uid) {
                // It sees that at once, and others are not kept out by it.
                continue;
            }
            self.next += 1;
            let of = Admitted { line, generation: region.generation };
            let may_vouch = uid == 0 || uid == self.uid;
            let client = Client::near(Connection::new(socket, now_ns()), uid, of, is_let_in, may_vouch);
            if self.sources.add(client.connection.socket.as_fd(), Source::Client(self.next)) {
                self.clients.insert(self.next, client);
            }
        }
    }

    /// A daemon vouches for a client of another node. False when it is to go.
    fn admit(&mut self, number: u64, uid: u32, data: &[u8]) -> bool {
        let Some(client) = self.clients.get(number) else { return false };
        let admitted = client.of();
        let made = match (Admission::decode(data), self.regions.get(&admitted.line), client.ended()) {
            _ if !client.may_vouch() => Err(Status::Right),
            (_, _, Some(status)) => Err(status),
            (None, ..) => Err(Status::Refused),
            (_, None, _) => Err(Status::Region),
            (Some(Admission { at, groups }), Some(region), None) => {
                if uid != self.uid && !region.audience.has(uid, &groups) {
                    Err(Status::Right)
                } else if self.clients.is_full_for(uid) {
                    Err(Status::Memory)
                } else {
                    let sources = &self.sources;
                    let add =
                        |socket: BorrowedFd<'_>, number| sources.add(socket, Source::Network(number as u32));
                    self.network.admit(at, uid, admitted, now_ns(), add).ok_or(Status::Memory)
                }
            }
        };
        let Some(client) = self.clients.get_mut(number) else { return false };
        match made {
            Ok((port, pass)) => {
                let answer = Answer { status: Status::Ok, value: port.into() };
                client.connection.answer(answer, &pass.encode())
            }
            Err(status) => client.connection.answer(refusal(status), &[]),
        }
    }

    /// Somebody comes by the network.
    fn handle_network(&mut self, listener: u32) {
        for _ in 0..ACCEPTED_PER_TURN {
            let socket = match self.network.accept(listener as usize) {
                Ok(socket) => socket,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    return std::thread::sleep(PAUSE);
                }
                Err(_) => return,
            };
            self.next += 1;
            if self.sources.add(socket.as_fd(), Source::Visitor(self.next)) {
                self.network.add_visitor(self.next, Connection::new(socket, now_ns()), now_ns());
            }
        }
    }

    /// Handles a visitor: with its key first it becomes a client; whoever shows anything else is let go.
    fn handle_visitor(&mut self, number: u64) {
        let Some(connection) = self.network.visitor(number) else { return };
        let key = match connection.read() {
            Read::Question((Ask::Enter(key), _)) => key,
            Read::Nothing => return,
            Read::Question(_) | Read::End => return drop(self.network.take_visitor(number)),
        };
        self.enter(number, &key);
    }

    fn enter(&mut self, number: u64, key: &Secret) {
        let Some(mut connection) = self.network.take_visitor(number) else { return };
        let Some((uid, admitted, proof)) = self.network.redeem(key) else { return };
        let done = Answer { status: Status::Ok, value: 0 };
        if self.clients.is_full_for(uid) || !connection.answer(done, &proof.encode()) {
            return;
        }
        let region = self.regions.get(&admitted.line);
        let is_there = region.is_some_and(|region| region.generation == admitted.generation);
        let ended = (!is_there).then_some(Status::Region);
        self.clients.insert(number, Client::far(connection, uid, admitted, ended));
        self.settle_interest(number);
    }

    fn handle_client(&mut self, number: u64) {
        for _ in 0..QUESTIONS_PER_TURN {
            let Some(client) = self.clients.get_mut(number) else { return };
            if !client.connection.flush() {
                return self.end_client(number);
            }
            if client.connection.is_jammed() {
                break;
            }
            if client.is_unread() {
                // Nothing is polled of it: it has gone.
                return self.end_client(number);
            }
            let question = match client.read(now_ns()) {
                Read::Question(question) => question,
                Read::Nothing => break,
                Read::End => return self.end_client(number),
            };
            if !self.answer_client(number, &question) {
                return self.end_client(number);
            }
            if self.clients.get(number).is_some_and(Client::is_unread) {
                break;
            }
        }
        self.settle_interest(number);
    }

    /// Answers a question; false when the client is to go.
    fn answer_client(&mut self, number: u64, (ask, data): &Question) -> bool {
        let Some(client) = self.clients.get_mut(number) else { return false };
        if let Ask::Admit(uid) = *ask {
            return self.admit(number, uid, data);
        }
        let has_answer = !matches!(ask, Ask::Changed(_));
        if let Some(status) = client.refused() {
            return !has_answer || client.connection.answer(refusal(status), &[]);
        }
        let line = client.of().line;
        let Some(region) = self.regions.get_mut(&line) else { return false };
        if let Ask::Open(wanted) = *ask {
            return client.open(region, self.lines, wanted);
        }
        let clients = match &region.kind {
            Kind::Messages(_) => self.clients.count_of(line),
            Kind::Memory(_) => 0,
        };
        let Some(client) = self.clients.get_mut(number) else { return false };
        match region.apply(number, client.rights(), clients, *ask, data) {
            Outcome::Answer(answer, read) => client.connection.answer(answer, &read),
            Outcome::Silence => true,
            Outcome::Changed(answer) => {
                let is_there = !has_answer || client.connection.answer(answer, &[]);
                self.look_again(line);
                is_there
            }
            Outcome::Later => {
                client.wait(*ask);
                region.waiting.push(number);
                self.lines.add_waiter(line as usize);
                // It may have changed before the others could see that somebody waits.
                self.look_again(line);
                true
            }
        }
    }

    /// A region has changed: those who wait for that are answered.
    fn look_again(&mut self, line: u32) {
        let Some(region) = self.regions.get_mut(&line) else { return };
        let waiting = std::mem::take(&mut region.waiting);
        let mut over = Vec::new();
        for number in waiting {
            let Some(client) = self.clients.get_mut(number) else { continue };
            let Some(ask) = client.waits() else { continue };
            match region.apply(number, client.rights(), 0, ask, &[]) {
                Outcome::Answer(answer, _) => over.push((number, client.end_wait(answer))),
                _ => region.waiting.push(number),
            }
        }
        for (number, is_there) in over {
            self.lines.remove_waiter(line as usize);
            if is_there { self.settle_interest(number) } else { self.end_client(number) }
        }
    }

    fn end_client(&mut self, number: u64) {
        let Some(client) = self.clients.remove(number) else { return };
        if client.ended().is_none() && client.waits().is_some() {
            self.lines.remove_waiter(client.of().line as usize);
        }
        if client.ended().is_none() {
            // What it has changed without saying so, because it was killed.
            self.look_again(client.of().line);
        }
    }

    /// Settles what is polled of a client: its questions, or that it takes its answer, or only its end.
    fn settle_interest(&mut self, number: u64) {
        let Some(client) = self.clients.get(number) else { return };
        let interest = client.interest();
        if interest == Interest::Questions && client.connection.has_more() {
            self.unfinished.push_back(number);
        }
        self.sources.change(number, &client.connection.socket, interest);
    }

    /// Clients that have asked too fast are read again.
    fn handle_time(&mut self) {
        let now_ns = now_ns();
        self.network.expire(now_ns);
        self.clients.take_due(now_ns).into_iter().for_each(|number| self.settle_interest(number));
    }

    fn handle_messages(&mut self, line: u32) {
        let Some(Region { kind: Kind::Messages(messages), .. }) = self.regions.get_mut(&line) else {
            return;
        };
        if !messages.handle_taken() {
            // Its owner does not take any more.
            self.sources.remove(messages.socket());
        }
    }
}
