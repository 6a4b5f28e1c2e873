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

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::{Resource, getrlimit, setrlimit};
use tutti_shm::published::area::Area;
use tutti_shm::published::far::{Admission, Secret};
use tutti_shm::published::lines::Lines;
use tutti_shm::published::{
    ATOMIC, Answer, Ask, Audience, MESSAGES, Opened, READ, REGION_BYTES_MAX, REGIONS_MAX, Status, WRITE,
    is_name, socket_name,
};
use tutti_shm::users::{is_one_user, is_own_user};

use super::client::{Connection, Question, Read, refusal};
use super::network::{Admitted, Network};
use super::region::{Kind, Messages, Outcome, Region};
use crate::readiness::now_ns;
use tutti_service::entrance::VISITORS_MAX;

/// Clients at once, and those of one user.
const CLIENTS_MAX: usize = 1024;
const CLIENTS_OF_USER_MAX: usize = 128;
/// Owners at once: ranks of a node.
const OWNERS_MAX: usize = 4096;
/// Questions of one connection before others get their turn.
const QUESTIONS_PER_TURN: usize = 16;
/// New connections of one listener before others get their turn.
const ACCEPTED_PER_TURN: usize = 16;
/// Room for messages of one region, at most.
const MESSAGES_BYTES_MAX: u64 = 1 << 30;
/// Where the kernel gives no descriptor for a new client, it waits so long.
const PAUSE: Duration = Duration::from_millis(20);

/// Source that is ready, as the kernel keeps it: the kind above the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Control,
    Owner(u64),
    Listener(u32),
    Client(u64),
    Messages(u32),
    /// A listener on the network.
    Network(u32),
    /// A connection from the network that has shown no key yet.
    Visitor(u64),
}

const KIND_BITS: u32 = 8;

impl Source {
    fn data(self) -> epoll::EventData {
        let (kind, number) = match self {
            Source::Control => (0, 0),
            Source::Owner(number) => (1, number),
            Source::Listener(line) => (2, line.into()),
            Source::Client(number) => (3, number),
            Source::Messages(line) => (4, line.into()),
            Source::Network(number) => (5, number.into()),
            Source::Visitor(number) => (6, number),
        };
        epoll::EventData::new_u64(number << KIND_BITS | kind)
    }

    fn of(data: epoll::EventData) -> Self {
        let number = data.u64() >> KIND_BITS;
        match data.u64() & 0xff {
            0 => Source::Control,
            1 => Source::Owner(number),
            2 => Source::Listener(number as u32),
            3 => Source::Client(number),
            4 => Source::Messages(number as u32),
            5 => Source::Network(number as u32),
            _ => Source::Visitor(number),
        }
    }
}

/// A client of a region.
#[derive(Debug)]
struct Client {
    connection: Connection,
    uid: u32,
    line: u32,
    generation: u64,
    /// Whether the region is for it.
    is_let_in: bool,
    /// Whether what it says of clients of other nodes is believed: it is root's, or this user's.
    may_vouch: bool,
    /// Whether it comes from another node, so it gets no descriptors.
    is_far: bool,
    /// Rights that it has been given, once it has asked.
    rights: u32,
    /// Status of its region, once that has ended.
    ended: Option<Status>,
    /// Question whose answer it waits for.
    waits: Option<Ask>,
    /// Time when it is read again, after it has asked too fast.
    paused_until_ns: Option<u64>,
}

struct Server<'a> {
    control: &'a OwnedFd,
    lines: &'a Lines,
    epoll: OwnedFd,
    uid: u32,
    clients_max: usize,
    next: u64,
    owners: BTreeMap<u64, Connection>,
    clients: BTreeMap<u64, Client>,
    clients_of: HashMap<u32, usize>,
    regions: BTreeMap<u32, Region>,
    network: Network,
    /// Clients that have asked more than was handled.
    unfinished: VecDeque<u64>,
}

/// Serves until the starter has ended.
pub(super) fn run(control: &OwnedFd, lines: &Lines) {
    let Ok(epoll) = epoll::create(epoll::CreateFlags::CLOEXEC) else { return };
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let kept = 3 * REGIONS_MAX as u64 + VISITORS_MAX as u64 + 64;
    let clients_max = descriptors.saturating_sub(kept).clamp(16, CLIENTS_MAX as u64) as usize;
    let mut server = Server {
        control,
        lines,
        epoll,
        uid: rustix::process::geteuid().as_raw(),
        clients_max,
        next: 0,
        owners: BTreeMap::new(),
        clients: BTreeMap::new(),
        clients_of: HashMap::new(),
        regions: BTreeMap::new(),
        network: Network::default(),
        unfinished: VecDeque::new(),
    };
    server.add(control.as_fd(), Source::Control);
    while server.turn() {}
}

impl Server<'_> {
    fn add(&self, descriptor: BorrowedFd<'_>, source: Source) -> bool {
        epoll::add(&self.epoll, descriptor, source.data(), epoll::EventFlags::IN).is_ok()
    }

    /// Waits for whatever happens next, and handles it; false when the starter has ended.
    fn turn(&mut self) -> bool {
        let paused = self.clients.values().filter_map(|client| client.paused_until_ns);
        let due_ns = paused.chain(self.network.due_ns()).min();
        let timeout = match (self.unfinished.is_empty(), due_ns) {
            (false, _) => Some(Duration::ZERO),
            (true, Some(due_ns)) => Some(Duration::from_nanos(due_ns.saturating_sub(now_ns()) + 1)),
            (true, None) => None,
        };
        let timeout = timeout.map(|time| Timespec::try_from(time).expect("a short time"));
        let mut events = Vec::with_capacity(256);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return false,
        }
        let unfinished = std::mem::take(&mut self.unfinished);
        let ready: Vec<Source> = events.iter().map(|event| Source::of(event.data)).collect();
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
            if self.add(socket.as_fd(), Source::Owner(self.next)) {
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
                    match self.publish(owner, &data, bytes, rights, audience) {
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

    fn publish(
        &mut self,
        owner: u64,
        name: &[u8],
        bytes: u64,
        rights: u32,
        audience: Audience,
    ) -> Result<(), Status> {
        let is_memory = rights & MESSAGES == 0;
        let known = READ | WRITE | ATOMIC;
        let bytes_max = if is_memory { REGION_BYTES_MAX } else { MESSAGES_BYTES_MAX };
        let is_right = is_name(name)
            && (1..=bytes_max).contains(&bytes)
            && (rights == MESSAGES || (rights != 0 && rights & !known == 0));
        if !is_right {
            return Err(Status::Invalid);
        }
        let line = (0..REGIONS_MAX as u32).find(|line| !self.regions.contains_key(line));
        let line = line.ok_or(Status::Memory)?;
        let name = std::str::from_utf8(name).map_err(|_| Status::Invalid)?;
        let listener = bind(&socket_name(self.uid, name))?;
        let failed = |_| Status::Memory;
        let (kind, gift) = if is_memory {
            let area = Area::create(usize::try_from(bytes).map_err(|_| Status::Invalid)?);
            let area = area.map_err(|_| Status::Memory)?;
            let gift = area.descriptor().try_clone_to_owned().map_err(|_| Status::Memory)?;
            (Kind::Memory(area), gift)
        } else {
            let (own, gift) =
                net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                    .map_err(failed)?;
            if !self.add(own.as_fd(), Source::Messages(line)) {
                return Err(Status::Memory);
            }
            (Kind::Messages(Messages::new(own, bytes as usize)), gift)
        };
        self.next += 1;
        let generation = self.next;
        let opened = Opened { line, is_mapped: is_memory, generation, bytes };
        let region =
            Region { owner, generation, bytes, rights, audience, kind, listener, waiting: Vec::new() };
        self.regions.insert(line, region);
        let answer = Answer { status: Status::Ok, value: rights.into() };
        let socket = self.owners.get(&owner).map(|owner| &owner.socket);
        let is_sent = socket.is_some_and(|socket| {
            send_opened(socket, answer, opened, &[gift.as_fd(), self.lines.descriptor()])
        });
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
            && self.add(region.listener.as_fd(), Source::Listener(line));
        if is_open { Status::Ok } else { Status::Memory }
    }

    fn end_region(&mut self, line: u32, status: Status) {
        let Some(region) = self.regions.remove(&line) else { return };
        self.lines.end(line as usize, status);
        let mut lost = Vec::new();
        for (number, client) in &mut self.clients {
            if (client.line, client.generation) != (line, region.generation) {
                continue;
            }
            client.ended = Some(status);
            if client.waits.take().is_some() && !client.connection.answer(refusal(status), &[]) {
                lost.push(*number);
            }
        }
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
            if self.is_full_for(uid) {
                // It sees that at once, and others are not kept out by it.
                continue;
            }
            self.next += 1;
            let client = Client {
                connection: Connection::new(socket, now_ns()),
                uid,
                line,
                generation: region.generation,
                is_let_in,
                may_vouch: uid == 0 || uid == self.uid,
                is_far: false,
                rights: 0,
                ended: None,
                waits: None,
                paused_until_ns: None,
            };
            if self.add(client.connection.socket.as_fd(), Source::Client(self.next)) {
                self.insert_client(self.next, client);
            }
        }
    }

    fn is_full_for(&self, uid: u32) -> bool {
        let count = self.clients_of.get(&uid).copied().unwrap_or(0);
        self.clients.len() >= self.clients_max || count >= CLIENTS_OF_USER_MAX
    }

    fn insert_client(&mut self, number: u64, client: Client) {
        *self.clients_of.entry(client.uid).or_default() += 1;
        self.clients.insert(number, client);
    }

    /// A daemon vouches for a client of another node. False when it is to go.
    fn admit(&mut self, number: u64, uid: u32, data: &[u8]) -> bool {
        let Some(client) = self.clients.get(&number) else { return false };
        let (line, generation) = (client.line, client.generation);
        let made = match (Admission::decode(data), self.regions.get(&line), client.ended) {
            _ if !client.may_vouch => Err(Status::Right),
            (_, _, Some(status)) => Err(status),
            (None, ..) => Err(Status::Refused),
            (_, None, _) => Err(Status::Region),
            (Some(Admission { at, groups }), Some(region), None) => {
                if uid != self.uid && !region.audience.has(uid, &groups) {
                    Err(Status::Right)
                } else if self.is_full_for(uid) {
                    Err(Status::Memory)
                } else {
                    let admitted = Admitted { line, generation };
                    let epoll = &self.epoll;
                    let add = |socket: BorrowedFd<'_>, number| {
                        let source = Source::Network(number as u32);
                        epoll::add(epoll, socket, source.data(), epoll::EventFlags::IN).is_ok()
                    };
                    self.network.admit(at, uid, admitted, now_ns(), add).ok_or(Status::Memory)
                }
            }
        };
        let Some(client) = self.clients.get_mut(&number) else { return false };
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
            if self.add(socket.as_fd(), Source::Visitor(self.next)) {
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
        let Admitted { line, generation } = admitted;
        let done = Answer { status: Status::Ok, value: 0 };
        if self.is_full_for(uid) || !connection.answer(done, &proof.encode()) {
            return;
        }
        let is_there = self.regions.get(&line).is_some_and(|region| region.generation == generation);
        let client = Client {
            connection,
            uid,
            line,
            generation,
            is_let_in: true,
            may_vouch: false,
            is_far: true,
            rights: 0,
            ended: (!is_there).then_some(Status::Region),
            waits: None,
            paused_until_ns: None,
        };
        self.insert_client(number, client);
        self.settle_interest(number);
    }

    fn handle_client(&mut self, number: u64) {
        for _ in 0..QUESTIONS_PER_TURN {
            let Some(client) = self.clients.get_mut(&number) else { return };
            if !client.connection.flush() {
                return self.end_client(number);
            }
            if client.connection.is_jammed() {
                break;
            }
            if client.waits.is_some() || client.paused_until_ns.is_some() {
                // Nothing is polled of it: it has gone.
                return self.end_client(number);
            }
            let question = match client.connection.read() {
                Read::Question(question) => question,
                Read::Nothing => break,
                Read::End => return self.end_client(number),
            };
            let bytes = match question.0 {
                Ask::Read(_, bytes) => bytes as usize,
                _ => question.1.len(),
            };
            client.paused_until_ns = client.connection.charge(bytes, now_ns());
            if !self.answer_client(number, &question) {
                return self.end_client(number);
            }
            let client = self.clients.get(&number);
            if client.is_some_and(|client| client.waits.is_some() || client.paused_until_ns.is_some()) {
                break;
            }
        }
        self.settle_interest(number);
    }

    /// Answers a question; false when the client is to go.
    fn answer_client(&mut self, number: u64, (ask, data): &Question) -> bool {
        let Some(client) = self.clients.get_mut(&number) else { return false };
        if let Ask::Admit(uid) = *ask {
            return self.admit(number, uid, data);
        }
        let has_answer = !matches!(ask, Ask::Changed(_));
        let status = match client.ended {
            Some(status) => Some(status),
            None if !client.is_let_in => Some(Status::Right),
            None => None,
        };
        if let Some(status) = status {
            return !has_answer || client.connection.answer(refusal(status), &[]);
        }
        let line = client.line;
        let Some(region) = self.regions.get_mut(&line) else { return false };
        if let Ask::Open(wanted) = *ask {
            return open(client, region, self.lines, wanted);
        }
        let clients = match &region.kind {
            Kind::Messages(_) => self.clients.values().filter(|client| client.line == line).count(),
            Kind::Memory(_) => 0,
        };
        let Some(client) = self.clients.get_mut(&number) else { return false };
        match region.apply(number, client.rights, clients, *ask, data) {
            Outcome::Answer(answer, read) => client.connection.answer(answer, &read),
            Outcome::Silence => true,
            Outcome::Changed(answer) => {
                let is_there = !has_answer || client.connection.answer(answer, &[]);
                self.look_again(line);
                is_there
            }
            Outcome::Later => {
                client.waits = Some(*ask);
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
            let Some(client) = self.clients.get_mut(&number) else { continue };
            let Some(ask) = client.waits else { continue };
            match region.apply(number, client.rights, 0, ask, &[]) {
                Outcome::Answer(answer, _) => {
                    client.waits = None;
                    over.push((number, client.connection.answer(answer, &[])));
                }
                _ => region.waiting.push(number),
            }
        }
        for (number, is_there) in over {
            self.lines.remove_waiter(line as usize);
            if is_there { self.settle_interest(number) } else { self.end_client(number) }
        }
    }

    fn end_client(&mut self, number: u64) {
        let Some(client) = self.clients.remove(&number) else { return };
        if let Some(count) = self.clients_of.get_mut(&client.uid) {
            *count -= 1;
            if *count == 0 {
                self.clients_of.remove(&client.uid);
            }
        }
        if client.ended.is_none() && client.waits.is_some() {
            self.lines.remove_waiter(client.line as usize);
        }
        if client.ended.is_none() {
            // What it has changed without saying so, because it was killed.
            self.look_again(client.line);
        }
    }

    /// Settles what is polled of a client: its questions, or that it takes its answer, or only its end.
    fn settle_interest(&mut self, number: u64) {
        let Some(client) = self.clients.get(&number) else { return };
        let connection = &client.connection;
        let flags = if connection.is_jammed() {
            epoll::EventFlags::OUT
        } else if client.waits.is_some() || client.paused_until_ns.is_some() {
            // The end of a local one is said in any case.
            epoll::EventFlags::RDHUP
        } else {
            if connection.has_more() {
                self.unfinished.push_back(number);
            }
            epoll::EventFlags::IN
        };
        let _ = epoll::modify(&self.epoll, &connection.socket, Source::Client(number).data(), flags);
    }

    /// Clients that have asked too fast are read again.
    fn handle_time(&mut self) {
        let now_ns = now_ns();
        self.network.expire(now_ns);
        let is_due = |client: &Client| client.paused_until_ns.is_some_and(|due_ns| due_ns <= now_ns);
        let due: Vec<u64> =
            self.clients.iter().filter(|(_, client)| is_due(client)).map(|(number, _)| *number).collect();
        for number in due {
            self.clients.entry(number).and_modify(|client| client.paused_until_ns = None);
            self.settle_interest(number);
        }
    }

    fn handle_messages(&mut self, line: u32) {
        let Some(Region { kind: Kind::Messages(messages), .. }) = self.regions.get_mut(&line) else {
            return;
        };
        if !messages.handle_taken() {
            // Its owner does not take any more.
            let _ = epoll::delete(&self.epoll, messages.socket());
        }
    }
}

/// A client asks for rights.
fn open(client: &mut Client, region: &Region, lines: &Lines, wanted: u32) -> bool {
    let wanted = if wanted == 0 { region.rights } else { wanted };
    if wanted & !region.rights != 0 {
        return client.connection.answer(refusal(Status::Right), &[]);
    }
    client.rights = wanted;
    let answer = Answer { status: Status::Ok, value: wanted.into() };
    if client.is_far {
        let (line, generation, bytes) = (client.line, region.generation, region.bytes);
        let opened = Opened { line, is_mapped: false, generation, bytes };
        return client.connection.answer(answer, &opened.encode());
    }
    let writes = wanted & (READ | WRITE) == READ | WRITE;
    let memory = match &region.kind {
        Kind::Memory(area) if writes => area.descriptor().try_clone_to_owned().ok(),
        Kind::Memory(area) if wanted & READ != 0 => area.reading_end().ok(),
        _ => None,
    };
    let opened = Opened {
        line: client.line,
        is_mapped: memory.is_some(),
        generation: region.generation,
        bytes: region.bytes,
    };
    let mut gifts: Vec<BorrowedFd<'_>> = memory.iter().map(|memory| memory.as_fd()).collect();
    gifts.push(lines.descriptor());
    send_opened(&client.connection.socket, answer, opened, &gifts)
}

/// Binds a name; it is not listened to yet.
fn bind(name: &str) -> Result<OwnedFd, Status> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let socket = socket.map_err(|_| Status::Memory)?;
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(|_| Status::Invalid)?;
    match net::bind(&socket, &address) {
        Ok(()) => Ok(socket),
        Err(Errno::ADDRINUSE) => Err(Status::Busy),
        Err(_) => Err(Status::Memory),
    }
}

/// Answers with descriptors; false when the asker has gone, or has not taken earlier answers.
fn send_opened(socket: &OwnedFd, answer: Answer, opened: Opened, gifts: &[BorrowedFd<'_>]) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(gifts));
    let (head, behind) = (answer.encode(Opened::BYTES), opened.encode());
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    net::sendmsg(socket, &[IoSlice::new(&head), IoSlice::new(&behind)], &mut control, flags).is_ok()
}
