//! Handling of records and bulk data of other nodes by the engine, and of a receive that finds such a
//! message waiting.

use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;

use tutti_channel::{BULK_BYTES_MAX, BulkError, SendError, Taken};
use tutti_datatype::{Buffer, SignatureWord};
use tutti_runtime::job::Job;
use tutti_runtime::router::{Client, Lend, Outbox, RouteId, Router};
use tutti_runtime::wrong::{self, Wrong};
use tutti_shm::envelope::{
    CANCEL, CANCELLED, CREDIT, CTS, EAGER, FAR_RTR, FAR_WRITE, FIN, Head, NAMED, NAMES, PART, RTR_VOID,
    RTR_VOIDED, RTS, STREAM,
};

use super::arrival::{raise_answered, raise_unexpected};
use super::counters::Counters;
use super::far_receives::OFFERED;
use super::matching::Matching;
use super::message::{Mode, REMOTE_EAGER_BYTES_MAX, deliver_moved, finish_receive};
use super::remote_state::{Accept, Cts, Inbound, Outgoing, Outlet, State, Target, send_record};
use super::unexpected_message::{Body, SHORT_BYTES, Unexpected};
use crate::events::{self, Event};
use crate::request::Requests;

/// Kinds of records that are messages.
const KINDS: std::ops::Range<u8> = 1..0x20;

/// Everything that concerns ranks of other nodes.
#[derive(Debug)]
pub(super) struct Remote {
    /// The network, shared with other interfaces of the process.
    pub router: Rc<RefCell<Router>>,
    /// Ours in it.
    pub route: RouteId,
    /// State of the engine for ranks of other nodes, besides the channel.
    pub state: State,
    /// Ranks that have ended and are not forgotten, as of so many ends of later ranks.
    left: (u32, Vec<usize>),
}

impl Remote {
    /// The way to the ranks of other nodes. `lend` is for other interfaces of the
    /// process.
    pub(super) fn new(router: Rc<RefCell<Router>>, job: &Job, lend: Option<Lend>) -> Self {
        let state = State::new(job.ranks(), router.borrow().record_bytes_max(), job.names());
        let route = router.borrow_mut().register(KINDS, lend);
        Remote { router, route, state, left: (0, Vec::new()) }
    }

    /// Ranks that have ended and that this process has not forgotten.
    pub(super) fn left_ranks(&mut self, job: &Job) -> &[usize] {
        let (seen, left) = &mut self.left;
        let ended = job.ended();
        if job.has_later_far() && ended != std::mem::replace(seen, ended) {
            let here = job.local_ranks();
            *left = (0..job.ranks())
                .filter(|rank| !here.contains(*rank) && job.left_far(*rank).is_some())
                .collect();
        }
        left
    }

    /// Notes that a rank that has ended is forgotten.
    pub(super) fn note_forgotten(&mut self, rank: usize) {
        self.left.1.retain(|left| *left != rank);
    }

    /// Whether a send waits for its receive.
    pub(super) fn is_rendezvous(&self, to: usize, message: u32, request: u32) -> bool {
        self.state.is_rendezvous(to, message, request)
    }

    /// How far a send or a receive has come by records.
    pub(super) fn moved_bytes(&self, peer: usize, request: u32) -> Option<usize> {
        self.state.moved_bytes(peer, request)
    }

    /// Whether something waits for room, or for a place among the bulk messages.
    pub(super) fn owes(&self) -> bool {
        self.state.owes()
    }

    /// Whether nothing is owed to other nodes.
    pub(super) fn is_flushed(&self) -> bool {
        self.router.borrow().is_quiet() && self.state.is_flushed()
    }
}

/// Handler of records and bulk messages of the network, for the engine.
pub(super) struct RemoteClient<'a> {
    pub state: &'a mut State,
    pub requests: &'a mut Requests,
    pub matching: &'a mut Matching,
    pub counters: &'a mut Counters,
}

// SAFETY: the user keeps a receive buffer valid, and looks at nothing in it, until the receive is done (MPI
// 3.7), a send buffer until the send is done; what is asked for is a part of it that has not come.
unsafe impl Client for RemoteClient<'_> {
    fn record(&mut self, from: usize, record: &[u8]) -> Taken {
        if let Err(wrong) = self.take_record(from, record) {
            wrong::count(from, wrong);
        }
        Taken::Yes
    }

    fn fragment(&mut self, tag: u64, offset: u64, bytes: &[u8]) {
        let Some(receive) = self.state.offers.receive_of(tag) else { return };
        let buffer = &self.requests.get(receive).buffer;
        // SAFETY: the user keeps a receive buffer valid until the receive is done (MPI 3.7); bytes is a
        // slice.
        unsafe { buffer.store(offset as usize, bytes.as_ptr(), bytes.len()) };
    }

    fn place(&mut self, tag: u64, offset: u64, bytes: usize) -> Option<NonNull<u8>> {
        let request = self.requests.get(self.state.offers.receive_of(tag)?);
        let (buffer, offset) = (&request.buffer, offset as usize);
        // Nothing may change behind the end of a message that is shorter than its receive, and only its
        // record says how long it is.
        let is_known = tag & OFFERED == 0 || self.state.offers.is_written(tag);
        let message_bytes = request.bytes.min(buffer.bytes);
        let is_inside = is_known && buffer.map.is_none() && offset + bytes <= message_bytes;
        is_inside.then(|| NonNull::new(buffer.at.wrapping_add(offset)))?
    }

    fn read(&mut self, tag: u64, offset: u64, into: &mut [u8]) {
        let buffer = &self.requests.get(tag as u32).buffer;
        // SAFETY: the user keeps a send buffer valid until the send is done (MPI 3.7); the channel asks for
        // bytes of the message.
        unsafe { buffer.load(offset as usize, into.as_mut_ptr(), into.len()) };
    }

    fn slice(&self, tag: u64, offset: u64, bytes: usize) -> Option<&[u8]> {
        let buffer = &self.requests.get(tag as u32).buffer;
        // SAFETY: as above, and nobody writes there: the send is not done while the channel asks.
        (buffer.map.is_none())
            .then(|| unsafe { std::slice::from_raw_parts(buffer.at.add(offset as usize), bytes) })
    }

    fn bulk_sent(&mut self, tag: u64) {
        self.requests.finish(tag as u32);
    }

    fn bulk_received(&mut self, tag: u64) {
        if let Some(receive) = self.state.offers.land(tag) {
            finish_receive(self.requests, receive);
        }
    }

    fn bulk_refused(&mut self, to: usize, tag: u64) {
        let peer = &mut self.state.peers[to];
        if !peer.has_exited {
            // The rank has cleared it under a name that it does not have.
            wrong::count(to, Wrong::Answer);
        }
        let request = tag as u32;
        peer.rendezvous.push(self.requests.get(request).posted as u32, request);
    }

    fn peer_exited(&mut self, rank: usize) {
        self.state.peers[rank].has_exited = true;
        self.state.questions.handle_exit(rank);
        self.withdraw_cancelled(rank);
    }

    fn advance(&mut self, outbox: &mut Outbox<'_>) {
        self.send_gathered(outbox);
        self.settle_rooms(outbox);
        self.push_bulk(outbox);
        self.push_out(outbox);
    }
}

impl RemoteClient<'_> {
    /// Applies a record, or nothing of one that is wrong.
    pub(super) fn take_record(&mut self, from: usize, record: &[u8]) -> Result<(), Wrong> {
        let (head, data) = Head::decode(record).ok_or(Wrong::Form)?;
        match head.kind {
            EAGER | STREAM | RTS => {
                self.check_message(from, &head, data)?;
                self.take_message(from, &head, data);
            }
            PART => self.take_part(from, data)?,
            CTS => {
                let request = self.take_rts(from, head.number)?;
                let send = self.requests.get(request);
                raise_answered(from, send);
                let bytes = send.buffer.bytes;
                self.state.to_send.push_back(Cts { to: from, name: head.word, request, bytes });
            }
            FIN => {
                let request = self.take_rts(from, head.number)?;
                raise_answered(from, self.requests.get(request));
                self.requests.finish(request);
            }
            CREDIT => self.state.peers[from].learn_released(head.word)?,
            CANCEL => {
                if self.matching.withdraw_announced(from, head.number) {
                    let answer = Head { kind: CANCELLED, number: head.number, ..Head::default() };
                    self.state.send_control(from, answer);
                }
            }
            CANCELLED => {
                let request = self.take_rts(from, head.number)?;
                self.requests.get_mut(request).cancelled = true;
                self.requests.finish(request);
            }
            NAMES => {
                let (head, port) = self.state.questions.answer(from, &head, data).ok_or(Wrong::Form)?;
                self.state.put_off(from, Outgoing::Record(Box::new((head, port))));
            }
            NAMED => self.state.questions.take_answer(from, &head, data)?,
            FAR_RTR | FAR_WRITE | RTR_VOID | RTR_VOIDED => self.take_of_far_write(from, &head, data)?,
            _ => return Err(Wrong::Kind),
        }
        Ok(())
    }

    /// Whether a message is what its head says, and its sender has credit for what is to be kept of it.
    fn check_message(&mut self, from: usize, head: &Head, data: &[u8]) -> Result<(), Wrong> {
        let (bytes, here) = (head.length, data.len() as u64);
        let is_right = match head.kind {
            EAGER => here == bytes,
            STREAM => here < bytes && bytes <= REMOTE_EAGER_BYTES_MAX as u64,
            _ => here == 0 && bytes <= BULK_BYTES_MAX,
        };
        if !is_right {
            return Err(Wrong::Length);
        }
        let peer = &mut self.state.peers[from];
        if head.kind == STREAM && peer.inbound.is_some() {
            return Err(Wrong::Order);
        }
        peer.learn_released(head.word)?;
        if head.kind == RTS { Ok(()) } else { peer.take_eager(bytes) }
    }

    fn take_message(&mut self, from: usize, head: &Head, data: &[u8]) {
        let bytes = head.length as usize;
        let body = match head.kind {
            EAGER => None,
            STREAM => Some(Body::Streaming(self.state.peers[from].open_inbound(bytes, data))),
            _ => Some(Body::Rendezvous { message: head.number, address: 0 }),
        };
        let word = SignatureWord(head.signature);
        let found = self.matching.take_posted(self.requests, from, head.context, head.tag);
        self.state.peers[from].far.note_taken();
        if let Some(index) = found {
            self.note_matched(from, index, head);
        }
        match (found, body) {
            (Some(index), None) => {
                let request = self.requests.get_mut(index);
                request.suspect_unless_taken(word, bytes);
                (request.peer, request.tag, request.bytes) = (from as i32, head.tag, bytes);
                // SAFETY: the user keeps a receive buffer valid until the receive is done (MPI 3.7).
                unsafe { request.buffer.store(0, data.as_ptr(), data.len()) };
                self.state.release_credit(from, bytes);
                finish_receive(self.requests, index);
            }
            (Some(index), Some(body)) => {
                let body = signed(word, body);
                let message = Unexpected { context: head.context, tag: head.tag, bytes, body };
                deliver(self.state, self.requests, from, message, index);
            }
            (None, body) => {
                self.counters.unexpected += 1;
                let body = signed(word, body.unwrap_or_else(|| keep(data)));
                let message = Unexpected { context: head.context, tag: head.tag, bytes, body };
                raise_unexpected(from, &message);
                self.matching.keep(from, message);
            }
        }
    }

    fn take_part(&mut self, from: usize, data: &[u8]) -> Result<(), Wrong> {
        let inbound = self.state.peers[from].inbound.as_mut().ok_or(Wrong::Order)?;
        if data.len() > inbound.bytes - inbound.arrived {
            return Err(Wrong::Length);
        }
        match &mut inbound.target {
            // SAFETY: the user keeps a receive buffer valid until the receive is done (MPI 3.7).
            Target::Receive(index) => unsafe {
                self.requests.get(*index).buffer.store(inbound.arrived, data.as_ptr(), data.len());
            },
            Target::Held(held) => held.extend_from_slice(data),
        }
        inbound.arrived += data.len();
        if inbound.arrived < inbound.bytes {
            return Ok(());
        }
        let Some(Inbound { number, bytes, target, .. }) = self.state.peers[from].inbound.take() else {
            return Ok(());
        };
        match target {
            Target::Receive(index) => {
                self.state.release_credit(from, bytes);
                finish_receive(self.requests, index);
            }
            Target::Held(held) => self.matching.complete_stream(from, number, held.into_boxed_slice()),
        }
        Ok(())
    }

    /// The request of a message that was announced to a rank, which answers.
    fn take_rts(&mut self, from: usize, number: u32) -> Result<u32, Wrong> {
        self.state.peers[from].rendezvous.take(number).ok_or(Wrong::Answer)
    }
}

impl RemoteClient<'_> {
    /// Puts into the FIFOs what they take.
    pub(super) fn push_out(&mut self, outbox: &mut impl Outlet) {
        let mut position = 0;
        while let Some(&to) = self.state.busy.get(position) {
            while let Some(outgoing) = self.state.peers[to].backlog.pop_front() {
                if let Some(again) = self.push_one(to, outgoing, outbox) {
                    self.state.peers[to].backlog.push_front(again);
                    break;
                }
            }
            if self.state.peers[to].backlog.is_empty() {
                self.state.busy.swap_remove(position);
            } else {
                position += 1;
            }
        }
    }

    /// Sends one thing of the backlog, or gives back what is left of it when the FIFO is full.
    fn push_one(&mut self, to: usize, outgoing: Outgoing, outbox: &mut impl Outlet) -> Option<Outgoing> {
        match outgoing {
            Outgoing::Control(head) => {
                let sent = send_record(outbox, to, &head, &Buffer::empty(), 0, 0);
                if sent && head.kind == RTR_VOIDED {
                    self.state.peers[to].far.forget(head.word);
                }
                (!sent).then_some(Outgoing::Control(head))
            }
            Outgoing::Record(record) => {
                match outbox.try_send(to, &record.0.encode()[..record.0.bytes()], &record.1) {
                    Err(SendError::Full) => Some(Outgoing::Record(record)),
                    Err(SendError::Exited(_)) => {
                        self.state.questions.handle_exit(to);
                        None
                    }
                    Err(error) => panic!("a record to rank {to} is refused: {error}"),
                    Ok(()) => None,
                }
            }
            Outgoing::Send { request, mode } => self.launch(to, request, mode, outbox),
            Outgoing::Rest { request, mut offset } => {
                let buffer = &self.requests.get(request).buffer;
                let head = Head { kind: PART, ..Head::default() };
                while offset < buffer.bytes {
                    let bytes = self.state.record_data_max.min(buffer.bytes - offset);
                    if !send_record(outbox, to, &head, buffer, offset, bytes) {
                        return Some(Outgoing::Rest { request, offset });
                    }
                    offset += bytes;
                }
                self.requests.finish(request);
                None
            }
        }
    }

    /// Starts a message in the way that fits it.
    fn launch(&mut self, to: usize, request: u32, mode: Mode, outbox: &mut impl Outlet) -> Option<Outgoing> {
        let bytes = self.requests.get(request).buffer.bytes;
        let asks = self.state.peers[to].asks(bytes, mode);
        if asks && let Some(left) = self.launch_written(to, request, mode, outbox) {
            return left;
        }
        let pending = self.requests.get(request);
        let context = self.state.context_at(to, pending.context);
        let peer = &mut self.state.peers[to];
        let first = if asks { 0 } else { bytes.min(self.state.record_data_max) };
        let head = Head {
            kind: if asks {
                RTS
            } else if first == bytes {
                EAGER
            } else {
                STREAM
            },
            context,
            tag: pending.tag,
            number: peer.next_message,
            length: bytes as u64,
            word: peer.released(),
            signature: pending.buffer.word().0,
        };
        if !send_record(outbox, to, &head, &pending.buffer, 0, first) {
            return Some(Outgoing::Send { request, mode });
        }
        peer.next_message = peer.next_message.wrapping_add(1);
        peer.far.note_sent(context, head.tag);
        if asks {
            self.counters.rendezvous += 1;
            events::raise(Event::Announced, || [to as u64, u64::from(head.tag as u32), bytes as u64, 0]);
            peer.rendezvous.push(head.number, request);
            self.requests.get_mut(request).posted = u64::from(head.number);
            return None;
        }
        peer.charge(bytes);
        if first == bytes {
            self.counters.eager += 1;
            self.requests.finish(request);
            return None;
        }
        self.counters.streamed += 1;
        let rest = Outgoing::Rest { request, offset: first };
        self.push_one(to, rest, outbox)
    }

    /// Accepts and sends in bulk as far as there are places.
    pub(super) fn push_bulk(&mut self, outbox: &mut impl Outlet) {
        while let Some(accept) = self.state.to_accept.front() {
            match outbox.accept_bulk(accept.from, accept.bytes, u64::from(accept.request)) {
                Ok(word) => {
                    let (from, number) = (accept.from, accept.number);
                    self.state.send_control(from, Head { kind: CTS, number, word, ..Head::default() });
                }
                Err(BulkError::Full) => break,
                // Its sender has left, or it is longer than any rank sends: nothing comes.
                Err(BulkError::Exited(_)) => {}
                Err(BulkError::TooLong { .. }) => wrong::count(accept.from, Wrong::Length),
                Err(error) => panic!("a message of rank {} cannot be accepted: {error}", accept.from),
            }
            self.state.to_accept.pop_front();
        }
        while let Some(clear) = self.state.to_send.front() {
            match outbox.send_bulk(clear.to, clear.name, clear.bytes, u64::from(clear.request)) {
                Ok(()) => {}
                // To who has left nothing is sent: it stays announced, for who looks for such sends.
                Err(BulkError::Exited(_)) => {
                    let (to, request) = (clear.to, clear.request);
                    let number = self.requests.get(request).posted as u32;
                    self.state.peers[to].rendezvous.push(number, request);
                }
                Err(BulkError::Full) => break,
                Err(error) => panic!("a message cannot be sent to rank {}: {error}", clear.to),
            }
            self.state.to_send.pop_front();
        }
    }
}

/// Brings a message and the receive that takes it together.
pub(super) fn deliver(
    state: &mut State,
    requests: &mut Requests,
    from: usize,
    message: Unexpected,
    index: u32,
) {
    let request = requests.get_mut(index);
    let bytes = message.bytes;
    (request.peer, request.tag, request.bytes) = (from as i32, message.tag, bytes);
    match message.body {
        Body::Short(data) => deliver_held(state, requests, from, &data[..bytes], index),
        Body::Long(data) => deliver_held(state, requests, from, &data, index),
        Body::Moved(data) => deliver_moved(requests, &data, index),
        Body::Streaming(number) => {
            let inbound = state.peers[from].inbound.as_mut().filter(|inbound| inbound.number == number);
            let inbound = inbound.expect("a streaming message is open until it is complete");
            let Target::Held(data) = std::mem::replace(&mut inbound.target, Target::Receive(index)) else {
                panic!("message {number} of rank {from} was matched twice");
            };
            // SAFETY: the user keeps a receive buffer valid until the receive is done (MPI 3.7).
            unsafe { request.buffer.store(0, data.as_ptr(), data.len()) };
        }
        Body::Rendezvous { message: number, .. } if bytes == 0 => {
            state.send_control(from, Head { kind: FIN, number, ..Head::default() });
            finish_receive(requests, index);
        }
        Body::Rendezvous { message: number, .. } => {
            state.to_accept.push_back(Accept { from, number, request: index, bytes });
        }
        Body::Signed(word, body) => {
            request.suspect_unless_taken(word, bytes);
            deliver(state, requests, from, Unexpected { body: *body, ..message }, index);
        }
        Body::Local { .. } => panic!("a message of this node came over the network"),
    }
}

fn deliver_held(state: &mut State, requests: &mut Requests, from: usize, data: &[u8], index: u32) {
    // SAFETY: the user keeps a receive buffer valid until the receive is done (MPI 3.7); data is a slice.
    unsafe { requests.get(index).buffer.store(0, data.as_ptr(), data.len()) };
    state.release_credit(from, data.len());
    finish_receive(requests, index);
}

/// A body with what its sender says of the data, if it does.
fn signed(word: SignatureWord, body: Body) -> Body {
    if word == SignatureWord(0) { body } else { Body::Signed(word, Box::new(body)) }
}

/// The data of an unexpected message.
fn keep(data: &[u8]) -> Body {
    match data.len() {
        bytes if bytes <= SHORT_BYTES => {
            let mut short = [0; SHORT_BYTES];
            short[..bytes].copy_from_slice(data);
            Body::Short(short)
        }
        _ => Body::Long(data.into()),
    }
}
