//! Guests ([`tutti_runtime::guests`]) as peers of the engine: the records and bulk messages of ranks of other
//! nodes ([`super::remote`]), over the connections between launches.
//!
//! - **Contexts.** A context is unique in one job. So a communicator that guests are members of has one in
//!   each job, and a sender names the receiver's ([`State::context_at`]).
//! - **Ends.** With a guest that is lost end all messages to and from it, with MPI_ERR_PROC_ABORTED. If it
//!   has not said that it leaves, its job ends: then nothing is received any more from any source, or in
//!   collective operations, in a communicator with processes of that job. So no member waits for one that has
//!   given up. Such sends to members that live are taken back unless they are matched, for the same reason.

use std::collections::{BTreeSet, HashSet};
use std::io;

use tutti_rma::engine::Engine as Memory;
use tutti_runtime::attach::random_number;
use tutti_runtime::guests::{self, Address, Guests, ProcessName};
use tutti_shm::endpoint::FINALIZED;
use tutti_shm::envelope::{CANCEL, CONTEXTS_PER_COMM, Head};
use tutti_shm::published::far::{self, Secret};
use tutti_shm::sync::Ordering;
use tutti_shm::ticket::{Connection, public_number};

use super::guest_memory::{GuestClient, GuestMemory, Names, ToGuests};
use super::message::Message;
use super::remote_client::{RemoteClient, deliver};
use super::remote_state::{Outgoing, Peer, State};
use super::unexpected_message::Unexpected;
use super::{Engine, Found, Left};
use crate::abi::{MPI_ANY_SOURCE, MPI_ERR_INTERN, MPI_ERR_PROC_ABORTED};
use crate::error::{Error, Result};
use crate::request::{Request, RequestKind, Started};

/// Everything that concerns guests.
#[derive(Debug)]
pub(super) struct Guestbook {
    guests: Guests,
    state: State,
    memory: Memory,
    /// Names that guests give their memory.
    names: Names,
    /// First contexts of communicators with processes of a job that ends.
    broken: HashSet<u32>,
    /// Guests that are lost and not forgotten.
    lost: Vec<usize>,
    /// Jobs of which the starter knows that there are communicators with them.
    connected: BTreeSet<u64>,
}

impl Guestbook {
    /// Whether a send waits for its receive.
    pub(super) fn is_rendezvous(&self, to: usize, message: u32, request: u32) -> bool {
        self.state.is_rendezvous(to, message, request)
    }

    /// Whether something waits for room.
    pub(super) fn owes(&self) -> bool {
        self.state.owes() || !self.memory.is_flushed()
    }

    /// Guests that are lost and not forgotten.
    pub(super) fn lost(&self) -> &[usize] {
        &self.lost
    }

    /// Whether nothing is owed to guests.
    pub(super) fn is_flushed(&self) -> bool {
        self.guests.is_quiet() && self.state.is_flushed() && self.memory.is_flushed()
    }
}

impl Engine {
    /// World rank of this process.
    pub fn world_rank(&self) -> u32 {
        self.me as u32
    }

    /// Takes a context that no process of the job uses (`Contexts::take`).
    ///
    /// # Errors
    /// MPI_ERR_INTERN when the numbers are used up.
    pub fn new_context(&mut self) -> Result<u32> {
        self.contexts.take(&self.job)
    }

    /// Whether some of these processes are guests.
    pub fn spans(&self, members: &[u32]) -> bool {
        self.may_have_guests() && members.iter().any(|&rank| self.is_guest(rank as usize))
    }

    /// Whether all of these processes are ranks of this node.
    pub fn are_here(&self, members: &[u32]) -> bool {
        let here = self.job.local_ranks();
        members.iter().all(|&rank| here.contains(rank as usize))
    }

    /// Whether a process comes before another one, on both sides of a connection alike.
    pub fn precedes(&self, one: u32, other: u32) -> bool {
        if self.spans(&[one, other]) {
            self.process_name(one) < self.process_name(other)
        } else {
            one < other
        }
    }

    /// Address of this process, from now on open to connections.
    ///
    /// # Errors
    /// MPI_ERR_INTERN when there are no more descriptors or threads.
    pub fn own_address(&mut self) -> Result<Address> {
        self.open_to_guests().map_err(|error| {
            let text = format_args!("this process cannot take connections of other launches: {error}");
            Error::new(MPI_ERR_INTERN, text)
        })
    }

    /// The context here of a communicator of these members, each with what it has proposed, in an order that
    /// is the same on all of them: of each job the first one's holds.
    pub fn agree_on_context(&mut self, proposals: &[(u32, u32)]) -> u32 {
        let is_guest = |rank: u32| self.is_guest(rank as usize);
        let own = proposals.iter().find(|(rank, _)| !is_guest(*rank));
        let (_, own) = *own.expect("this process is a member of what it makes");
        if !self.may_have_guests() {
            return own;
        }
        let mut jobs = Vec::new();
        for &(rank, context) in proposals {
            if !self.is_guest(rank as usize) {
                continue;
            }
            let job = self.process_name(rank).job;
            if !jobs.contains(&job) {
                jobs.push(job);
                self.set_context_of_job(own, job, context);
            }
        }
        own
    }

    /// Whether a number is that of a guest.
    #[inline]
    pub fn is_guest(&self, rank: usize) -> bool {
        rank >= self.job.ranks()
    }

    /// Whether other launches may connect to this process, or have.
    #[inline]
    pub fn may_have_guests(&self) -> bool {
        self.guests.is_some()
    }

    /// Where this process takes connections of other launches; from now on it does. Those of other nodes
    /// reach it if its job is on several, or the daemon of its node knows others.
    ///
    /// # Errors
    /// When there are no more descriptors or threads.
    pub fn open_to_guests(&mut self) -> io::Result<Address> {
        if let Some(book) = &self.guests {
            return Ok(book.guests.own_address());
        }
        let key = random_number()?;
        // Outside the job nobody shall know its number. 0 stands for no other job.
        let job = public_number(self.job.id());
        let name = ProcessName { job, rank: self.me as u32 };
        let (first, endpoint) = (self.job.ranks(), self.job.endpoint(self.me));
        let place = far::ask_place();
        let ip = match self.job.network() {
            Some(network) => Some(network.peers.addresses()[self.me].ip()),
            None => place.map(|place| place.address),
        };
        let secret = place.map_or(Secret([0; 2]), |place| place.secret);
        let guests = Guests::open(name, key, first, (ip, secret), endpoint)?;
        let state = State::new(first, guests::RECORD_BYTES_MAX, self.job.names());
        let address = guests.own_address();
        let memory = Memory::new(self.me as u32, guests::RECORD_BYTES_MAX);
        let (names, broken, lost, connected) = (Names::new(), HashSet::new(), Vec::new(), BTreeSet::new());
        self.guests = Some(Box::new(Guestbook { guests, state, memory, names, broken, lost, connected }));
        Ok(address)
    }

    /// The numbers of the processes with these addresses: guests, or ranks of this job; none if it has no
    /// such rank.
    ///
    /// # Panics
    /// Before [`Engine::open_to_guests`].
    pub fn introduce(&mut self, addresses: impl IntoIterator<Item = Address>) -> Option<Vec<u32>> {
        let book = self.guests.as_deref_mut().expect("a process that knows guests has doors");
        let numbers = addresses.into_iter().map(|address| book.guests.introduce(address)).collect::<Vec<_>>();
        self.meet_guests();
        let book = self.guests.as_deref_mut().expect("as above");
        let numbers: Vec<usize> = numbers.into_iter().collect::<Option<_>>()?;
        for number in numbers.iter().filter(|number| **number >= self.job.ranks()) {
            book.guests.approach(*number);
        }
        Some(numbers.into_iter().map(|number| number as u32).collect())
    }

    /// The name of a process among those of all launches.
    ///
    /// # Panics
    /// When it is no guest and this process has no doors.
    pub fn process_name(&self, rank: u32) -> ProcessName {
        let book = self.guests.as_deref().expect("a process that knows guests has doors");
        match rank as usize >= self.job.ranks() {
            true => book.guests.name(rank as usize),
            false => ProcessName { job: book.guests.own_address().name.job, rank },
        }
    }

    /// Sets what the first context of a communicator, `own` here, is for the processes of another launch. The
    /// starter hears of that launch, so that both get the same turns.
    pub fn set_context_of_job(&mut self, own: u32, job: u64, theirs: u32) {
        if let Some(book) = self.guests.as_deref_mut() {
            book.state.contexts.insert((own, job), theirs);
            if book.connected.insert(job) {
                self.tell_connection(Connection { job, is_open: true });
            }
        }
    }

    /// Notes that there are communicators with processes of these launches only.
    pub fn keep_connected(&mut self, jobs: &BTreeSet<u64>) {
        let Some(book) = self.guests.as_deref_mut() else { return };
        let gone: Vec<u64> = book.connected.difference(jobs).copied().collect();
        book.connected.retain(|job| jobs.contains(job));
        gone.into_iter().for_each(|job| self.tell_connection(Connection { job, is_open: false }));
    }

    fn tell_connection(&self, connection: Connection) {
        self.job.starter().into_iter().for_each(|starter| starter.tell_connection(connection));
    }

    /// Whether this is a guest that has ended, or has left its job.
    #[inline]
    pub fn is_lost(&self, rank: i32) -> bool {
        let is_lost = |rank| self.guests.as_deref().is_some_and(|book| book.guests.is_lost(rank));
        usize::try_from(rank).is_ok_and(|rank| self.is_guest(rank) && is_lost(rank))
    }

    /// Whether no message for such a receive will come.
    #[cold]
    pub fn is_hopeless(&self, context: u32, source: i32) -> bool {
        let Some(book) = self.guests.as_deref() else { return false };
        let is_wide = source == MPI_ANY_SOURCE || !context.is_multiple_of(CONTEXTS_PER_COMM);
        self.is_lost(source) || (is_wide && book.broken.contains(&first_of(context)))
    }

    /// Whether a rank of a communicator, or another one that it may have waited for, is lost: `context` is
    /// the communicator's first.
    pub fn has_lost(&self, context: u32, rank: u32) -> bool {
        let is_broken = |book: &Guestbook| book.broken.contains(&context);
        self.guests.as_deref().is_some_and(is_broken) || self.is_lost(rank as i32)
    }

    /// A message that a receive with these arguments would take, or that none will come.
    ///
    /// # Errors
    /// MPI_ERR_PROC_ABORTED when none will come.
    #[inline]
    pub fn probe_or_loss(&mut self, context: u32, source: i32, tag: i32) -> Option<Result<Found>> {
        let found = self.probe(context, source, tag);
        if found.is_none() && self.may_have_guests() && self.is_hopeless(context, source) {
            return Some(Err(Error::new(MPI_ERR_PROC_ABORTED, LOST)));
        }
        found.map(Ok)
    }

    /// Whether guests are to be looked at although nobody rings.
    pub fn wants_look(&self) -> bool {
        self.guests.as_deref().is_some_and(|book| book.guests.wants_look())
    }

    /// Says to all guests that this process leaves its job; it is quiet when they can know.
    pub fn leave_guests(&mut self) {
        if let Some(book) = self.guests.as_deref_mut() {
            book.guests.leave();
        }
    }

    /// Guests that are new have places in all tables.
    fn meet_guests(&mut self) {
        let Some(book) = self.guests.as_deref_mut() else { return };
        let state = &mut book.state;
        for number in book.guests.take_new() {
            let peer = Peer::of_job(book.guests.name(number).job);
            match state.peers.get_mut(number) {
                // The number was that of a guest that is forgotten.
                Some(place) => *place = peer,
                None => state.peers.push(peer),
            }
        }
        self.matching.grow(book.guests.end());
    }

    /// Forgets a guest that is lost, unless something with it is under way: its number may be another's. The
    /// caller has nothing that names it.
    pub(super) fn try_forget_guest(&mut self, guest: usize) -> Left {
        let is_named = |request: &Request| !request.done && request.peer == guest as i32;
        if self.requests.iter().any(|(_, request)| is_named(request)) || !self.matching.discard(guest) {
            return Left::Kept;
        }
        let Some(book) = self.guests.as_deref_mut() else { return Left::Forgotten };
        if !book.guests.forget(guest) {
            return Left::Kept;
        }
        let job = book.state.peers[guest].job;
        book.lost.retain(|lost| *lost != guest);
        book.state.forget(guest);
        book.memory.forget(guest);
        book.names.retain(|(of, _)| *of != guest);
        if !book.guests.knows_job(job) {
            let Guestbook { state, broken, .. } = book;
            state.contexts.retain(|(first, of), _| {
                let stays = *of != job;
                if !stays {
                    broken.remove(first);
                }
                stays
            });
        }
        Left::Forgotten
    }

    fn guest_parts(&mut self) -> (&mut Guests, RemoteClient<'_>) {
        let (guests, client) = self.guest_client();
        (guests, client.messages)
    }

    fn guest_client(&mut self) -> (&mut Guests, GuestClient<'_>) {
        let Engine { guests, requests, matching, counters, .. } = self;
        let Guestbook { guests, state, memory, names, .. } =
            guests.as_deref_mut().expect("a guest is known by its process");
        let messages = RemoteClient { state, requests, matching, counters };
        (guests, GuestClient { messages, memory, names, overdrawn: None })
    }

    /// The memory of guests' ranks; none of a process that cannot have guests.
    pub fn guest_memory(&mut self) -> Option<GuestMemory<'_>> {
        let Guestbook { guests, memory, names, .. } = self.guests.as_deref_mut()?;
        Some(GuestMemory { guests, memory, names })
    }

    /// For who is no thread of the program: takes in what guests have sent, if told so, and gives them the
    /// locks of this process that have come free. Whether there may be more soon that nobody rings for: one
    /// of them waits for a lock, or not all that came has been taken in.
    pub(crate) fn serve_guests(&mut self, takes_in: bool) -> bool {
        if takes_in && self.may_have_guests() {
            self.progress_guests();
        } else if let Some(mut memory) = self.guest_memory() {
            // Who waits may sleep, and no bell says that the network of the job has brought a lock back.
            memory.advance();
            self.ring_for_guests();
        }
        self.guests.as_deref().is_some_and(|book| book.memory.has_waiting() || book.guests.wants_look())
    }

    /// Rings ranks of this node for which something has changed here.
    fn ring_for_guests(&mut self) {
        let Engine { guests, job, .. } = self;
        let Some(book) = guests.as_deref_mut() else { return };
        for rank in book.memory.rings() {
            if job.local_ranks().contains(rank as usize) {
                job.ring(rank as usize);
            }
        }
    }

    /// Starts a send to a guest.
    pub(super) fn send_to_guest(&mut self, message: Message) -> Started {
        let to = message.to as usize;
        let (guests, client) = self.guest_parts();
        let is_lost = guests.is_lost(to);
        if !is_lost && client.state.try_eager(guests, &message) {
            client.counters.eager += 1;
            return Started::Done;
        }
        let mut request =
            Request::new(RequestKind::Send, message.buffer, message.context, to as i32, message.tag);
        request.bytes = request.buffer.bytes;
        if is_lost {
            (request.error, request.done) = (MPI_ERR_PROC_ABORTED, true);
            return Started::Pending(self.requests.insert(request));
        }
        let index = self.requests.insert(request);
        let (guests, mut client) = self.guest_parts();
        let ticket = client.state.put_off(to, Outgoing::Send { request: index, mode: message.mode });
        client.requests.get_mut(index).posted = ticket;
        client.push_out(guests);
        if self.requests.get(index).done {
            self.requests.remove(index);
            return Started::Done;
        }
        Started::Pending(index)
    }

    /// Withdraws a send to a guest that is not matched yet; the guest is asked, if it knows of it.
    pub(super) fn cancel_send_to_guest(&mut self, to: usize, posted: u64, index: u32) {
        let number = posted as u32;
        let (guests, mut client) = self.guest_parts();
        let peer = &mut client.state.peers[to];
        let waits = |one: &Outgoing| matches!(one, Outgoing::Send { request, .. } if *request == index);
        if peer.backlog.withdraw(posted, waits) {
            if peer.backlog.is_empty() {
                client.state.busy.retain(|busy| *busy != to);
            }
            self.finish_cancelled(index);
        } else if client.state.is_rendezvous(to, number, index) {
            client.state.send_control(to, Head { kind: CANCEL, number, ..Head::default() });
            client.push_out(guests);
        }
    }

    /// Brings a message of a guest and the receive that takes it together.
    pub(super) fn deliver_from_guest(&mut self, from: usize, message: Unexpected, index: u32) {
        if self.is_lost(from as i32) && !message.body.is_whole() {
            let request = self.requests.get_mut(index);
            (request.peer, request.tag) = (from as i32, message.tag);
            return self.fail_receive(index);
        }
        let (guests, mut client) = self.guest_parts();
        deliver(client.state, client.requests, from, message, index);
        client.push_bulk(guests);
        client.push_out(guests);
    }

    /// An unexpected eager message of a guest has reached a receive's buffer.
    pub(super) fn release_credit_of_guest(&mut self, from: usize, bytes: usize) {
        if let Some(book) = self.guests.as_deref_mut() {
            book.state.release_credit(from, bytes);
        }
    }

    /// Whether a receive that has found no message will never find one.
    #[cold]
    pub(super) fn waits_in_vain(&self, index: u32) -> bool {
        let request = self.requests.get(index);
        self.is_hopeless(request.context, request.peer)
    }

    /// A send in a collective operation that cannot end is taken back, unless its receive has matched it.
    #[inline]
    pub(super) fn unless_vain(&mut self, started: Started) -> Started {
        if let Started::Pending(index) = started
            && self.may_have_guests()
        {
            self.take_back_if_vain(index);
        }
        started
    }

    #[cold]
    fn take_back_if_vain(&mut self, index: u32) {
        let request = self.requests.get(index);
        let is_send = request.kind == RequestKind::Send;
        if is_send && !request.done && self.is_broken(request.context) {
            self.cancel(index);
        }
    }

    /// Ends sends that are to be taken back and that nobody answers, since their receivers of this job have
    /// left. Whether any were to be taken back: a wait looks again soon.
    pub fn end_vain_sends(&mut self) -> bool {
        if self.guests.as_deref().is_none_or(|book| book.broken.is_empty()) {
            return false;
        }
        let is_vain = |request: &Request| {
            request.kind == RequestKind::Send && !request.done && self.is_broken(request.context)
        };
        let vain: Vec<(u32, usize, u32)> = self
            .requests
            .iter()
            .filter(|(_, request)| is_vain(request))
            .map(|(index, request)| (index, request.peer as usize, request.posted as u32))
            .collect();
        for &(index, peer, number) in &vain {
            if !self.peers.has(peer) {
                self.forget_vain_send_to_node(index, peer, number);
            } else if self.job.endpoint(peer).state.load(Ordering::Acquire) == FINALIZED
                && self.poll_all_of(peer)
            {
                self.forget_vain_send(index, peer, number);
            }
        }
        !vain.is_empty()
    }

    /// Takes what a rank that has left has sent: it sends no more. Whether that was all.
    fn poll_all_of(&mut self, peer: usize) -> bool {
        self.poll(peer);
        !self.peers[peer].rings.inbox.is_ready()
    }

    /// Such a send, unless the receiver has answered before it left. It is owed to nobody.
    fn forget_vain_send(&mut self, index: u32, peer: usize, number: u32) {
        let announced = &mut self.peers[peer].rendezvous;
        if announced.get(number) == Some(&index) {
            announced.take(number);
            self.finish_cancelled(index);
        }
    }

    /// Whether this is a context of collective operations of which a member is lost.
    fn is_broken(&self, context: u32) -> bool {
        let book = self.guests.as_deref();
        !context.is_multiple_of(CONTEXTS_PER_COMM)
            && book.is_some_and(|book| book.broken.contains(&first_of(context)))
    }

    /// A receive from a guest that is lost has nothing to wait for.
    #[cold]
    pub(super) fn fail_receive(&mut self, index: u32) {
        self.requests.get_mut(index).error = MPI_ERR_PROC_ABORTED;
        self.finish(index);
    }

    /// Moves whatever can be moved to and from guests.
    #[inline(never)]
    pub(super) fn progress_guests(&mut self) -> bool {
        // A guest that comes while connections are taken in may send at once.
        let mut moved = false;
        loop {
            let (guests, mut client) = self.guest_client();
            let looked = guests.poll(&mut client);
            if let Some(guest) = client.overdrawn {
                guests.expel(guest);
            }
            client.messages.push_bulk(guests);
            client.messages.push_out(guests);
            client.memory.pump(&mut ToGuests(guests));
            let (has_new, lost) = (guests.has_new(), guests.take_lost());
            self.ring_for_guests();
            if has_new {
                self.meet_guests();
            }
            for guest in lost {
                self.lose_guest(guest);
                moved = true;
            }
            moved |= looked;
            if !has_new {
                return moved;
            }
        }
    }

    /// All that is under way with a guest ends.
    #[cold]
    fn lose_guest(&mut self, guest: usize) {
        let (_, client) = self.guest_parts();
        let state = client.state;
        let job = state.peers[guest].job;
        state.peers[guest] = Peer::of_job(job);
        state.busy.retain(|busy| *busy != guest);
        state.to_accept.retain(|accept| accept.from != guest);
        state.to_send.retain(|clear| clear.to != guest);
        let of_job = state.contexts.keys().filter(|(_, of)| *of == job).map(|(first, _)| *first);
        let of_job: Vec<u32> = of_job.collect();
        if let Some(book) = self.guests.as_deref_mut() {
            book.memory.handle_exit(guest);
            book.lost.push(guest);
            if !book.guests.has_left(guest) {
                book.broken.extend(of_job);
            }
        }
        self.ring_for_guests();
        let ends = |request: &Request| match request.kind {
            _ if request.done => false,
            RequestKind::Send => request.peer == guest as i32 || self.is_broken(request.context),
            RequestKind::Receive => self.is_hopeless(request.context, request.peer),
            _ => false,
        };
        let ending: Vec<u32> =
            self.requests.iter().filter(|(_, request)| ends(request)).map(|(index, _)| index).collect();
        for index in ending {
            let request = self.requests.get(index);
            // What is under way from another process ends as ever.
            let is_of_guest = request.peer == guest as i32;
            let was_posted =
                request.kind == RequestKind::Receive && self.matching.withdraw(&mut self.requests, index);
            if was_posted || is_of_guest {
                self.fail_receive(index);
            } else {
                self.take_back_if_vain(index);
            }
        }
    }
}

/// Why an operation with a guest has failed.
pub const LOST: &str = "a process of another launch, with which there was a communicator, has ended";

/// The first context of the communicator that has this one.
fn first_of(context: u32) -> u32 {
    context / CONTEXTS_PER_COMM * CONTEXTS_PER_COMM
}
