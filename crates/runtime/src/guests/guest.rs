//! Guest of a job: the connections to it and from it, and what waits for them. [`super::Guests`] says when
//! each of them is looked at, and learns from [`OutState`] and [`InState`] what is to be done next.
//!
//! ```text
//! new -> connect -> (greeting, proof) -> frames ... -> close: it takes nothing -> lose: nothing comes either
//! ```

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;

use tutti_channel::SendError;
use tutti_rma::wire;
use tutti_shm::envelope::{CANCEL, CANCELLED, CREDIT, CTS, EAGER, FIN, Head, PART, RTS, STREAM};
use tutti_shm::published::far::Secret;

use super::address::{Address, Hello};
use super::{seal, socket};
use crate::router::Client;

/// Bytes that wait for a connection before no more records are taken.
const QUEUE_BYTES_MAX: usize = 256 << 10;
/// Bytes of a bulk message in a frame.
const FRAGMENT_BYTES: usize = 64 << 10;
/// Bytes behind the head of a frame, at most.
const FRAME_BYTES_MAX: usize = FRAGMENT_BYTES + 64;
/// Bytes taken from one connection before the others are looked at.
const TURN_BYTES: usize = 1 << 20;
const HEAD_BYTES: usize = 8;
const NAME_BYTES: usize = 8;
/// Bytes of a message whose data come in several records, at most.
const STREAM_BYTES_MAX: u64 = 1 << 20;

pub(super) const RECORD: u8 = 1;
pub(super) const BULK: u8 = 2;
pub(super) const LEAVE: u8 = 3;

#[derive(Debug)]
pub(super) struct Guest {
    address: Address,
    /// The connection to it.
    out: Option<OwnedFd>,
    /// Proof that the guest must show on that before it gets anything.
    awaited: Option<Awaited>,
    /// Bytes to send, of which the connection has taken the first `sent`.
    queue: Vec<u8>,
    sent: usize,
    bulk_out: VecDeque<BulkOut>,
    /// The connection from it.
    inbound: Option<OwnedFd>,
    /// Bytes that have come and are no whole frame.
    input: Vec<u8>,
    bulk_in: HashMap<u64, BulkIn>,
    next_name: u64,
    /// Whether the guest has said that it leaves.
    has_left: bool,
    /// Whether the guest takes nothing any more.
    is_closed: bool,
    /// Whether nothing comes from the guest either.
    is_lost: bool,
}

/// A proof that a guest of another node has still to show.
#[derive(Debug)]
struct Awaited {
    /// Greeting that the guest has to get first, as far as the connection has not taken it.
    greeting: Vec<u8>,
    proof: [u8; seal::BYTES],
    received: usize,
}

#[derive(Debug)]
struct BulkOut {
    name: u64,
    tag: u64,
    bytes: usize,
    sent: usize,
}

#[derive(Debug)]
struct BulkIn {
    tag: u64,
    bytes: usize,
    received: usize,
}

/// State of the connection to a guest after something was sent.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutState {
    /// Open: it takes more now or later.
    Open,
    /// Broken: the next look finds it closed.
    Broken,
    /// Closed, or its other end has not proved who it is.
    Closed,
}

/// State of the connection from a guest after something was taken.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InState {
    /// All that has come is taken.
    Empty,
    /// A turn's bytes are taken: there may be more.
    More,
    /// End of the connection, or bytes that are no frame: nothing comes any more.
    Ended,
}

/// A frame is none, or not one that may come now.
struct Malformed;

impl Guest {
    pub(super) fn new(address: Address) -> Self {
        Guest {
            address,
            out: None,
            awaited: None,
            queue: Vec::new(),
            sent: 0,
            bulk_out: VecDeque::new(),
            inbound: None,
            input: Vec::new(),
            bulk_in: HashMap::new(),
            next_name: 0,
            has_left: false,
            is_closed: false,
            is_lost: false,
        }
    }

    pub(super) fn address(&self) -> Address {
        self.address
    }

    /// Whether the guest has said that it leaves.
    pub(super) fn has_left(&self) -> bool {
        self.has_left
    }

    /// Whether nothing comes from the guest any more, nor reaches it.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Whether there is a connection to it.
    pub(super) fn has_out(&self) -> bool {
        self.out.is_some()
    }

    /// Whether there is a connection from it.
    pub(super) fn has_inbound(&self) -> bool {
        self.inbound.is_some()
    }

    /// Whether a connection to it is to be made before anything is sent.
    pub(super) fn wants_out(&self) -> bool {
        self.out.is_none() && !self.is_closed && !self.is_lost
    }

    /// Whether nothing waits for the connection to it.
    pub(super) fn is_quiet(&self) -> bool {
        let is_greeted = self.awaited.as_ref().is_none_or(|awaited| awaited.greeting.is_empty());
        self.is_lost || self.owes_nothing() && is_greeted
    }

    fn owes_nothing(&self) -> bool {
        self.queue.is_empty() && self.bulk_out.is_empty()
    }

    /// Sends by this connection from now on, the greeting first. `secret`: one of another node, which shows
    /// its proof before it gets anything else.
    pub(super) fn begin(
        &mut self,
        socket: OwnedFd,
        hello: [u8; Hello::BYTES],
        secret: Option<&Secret>,
    ) -> OutState {
        self.out = Some(socket);
        let Some(secret) = secret else {
            self.queue.splice(..0, hello);
            return self.flush();
        };
        let (shown, proof) = seal::of(secret, &hello);
        let greeting = [&hello[..], &shown].concat();
        self.awaited = Some(Awaited { greeting, proof, received: 0 });
        self.send_greeting()
    }

    /// Takes from this connection from now on.
    pub(super) fn let_in(&mut self, socket: OwnedFd) {
        self.inbound = Some(socket);
    }

    /// Says that this process leaves its job, if the guest has a connection.
    pub(super) fn leave(&mut self) -> OutState {
        if self.out.is_none() {
            return OutState::Open;
        }
        if self.owes_nothing()
            && let Some(awaited) = &mut self.awaited
        {
            // This much whoever has its address may know.
            begin_frame(&mut awaited.greeting, LEAVE, 0);
            return self.send_greeting();
        }
        self.push_frame(LEAVE, &[], &[]);
        self.flush()
    }

    /// Puts a record into the queue.
    ///
    /// # Errors
    /// When too much waits there, or the guest, whose number is `number`, is lost.
    pub(super) fn push_record(&mut self, number: usize, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        if self.is_lost || self.is_closed {
            return Err(SendError::Exited(number as u32));
        }
        if self.queue.len() - self.sent > QUEUE_BYTES_MAX {
            return Err(SendError::Full);
        }
        self.push_frame(RECORD, head, body);
        Ok(())
    }

    /// Makes room for a bulk message of the guest; it needs the name.
    pub(super) fn accept_bulk(&mut self, bytes: usize, tag: u64) -> u64 {
        let name = self.next_name;
        self.next_name += 1;
        if !self.is_lost {
            self.bulk_in.insert(name, BulkIn { tag, bytes, received: 0 });
        }
        name
    }

    /// Begins to send a bulk message under the name that its receiver gave it; whether it takes any.
    pub(super) fn push_bulk(&mut self, name: u64, bytes: usize, tag: u64) -> bool {
        let is_open = !self.is_lost && !self.is_closed;
        if is_open {
            self.bulk_out.push_back(BulkOut { name, tag, bytes, sent: 0 });
        }
        is_open
    }

    /// Takes what the guest, whose number is `number`, has sent.
    pub(super) fn take_in(&mut self, number: usize, scratch: &mut [u8], client: &mut dyn Client) -> InState {
        let mut taken = 0;
        while let Some(inbound) = &self.inbound {
            match socket::receive(inbound, scratch) {
                Ok(None) => break,
                Ok(Some(0)) | Err(_) => return InState::Ended,
                Ok(Some(bytes)) => {
                    taken += bytes;
                    self.input.extend_from_slice(&scratch[..bytes]);
                }
            }
            let mut input = std::mem::take(&mut self.input);
            match self.take_frames(number, &input, client) {
                Ok(used) => input.drain(..used),
                Err(Malformed) => return InState::Ended,
            };
            self.input = input;
            if taken >= TURN_BYTES {
                return InState::More;
            }
        }
        InState::Empty
    }

    /// Sends what the connection takes, when the guest has shown its proof.
    pub(super) fn push_out(&mut self, scratch: &mut [u8], client: &mut dyn Client) -> OutState {
        match self.take_proof(scratch) {
            Ok(true) => {}
            Ok(false) => return OutState::Open,
            Err(sent) => return sent,
        }
        // The guest closes its end of this connection when it ends.
        let Some(out) = &self.out else { return OutState::Open };
        if !matches!(socket::receive(out, &mut scratch[..1]), Ok(None)) {
            return OutState::Closed;
        }
        loop {
            let sent = self.flush();
            if !self.queue.is_empty() {
                return sent;
            }
            let Some(bulk) = self.bulk_out.front_mut() else { return sent };
            let bytes = FRAGMENT_BYTES.min(bulk.bytes - bulk.sent);
            begin_frame(&mut self.queue, BULK, NAME_BYTES + bytes);
            self.queue.extend_from_slice(&bulk.name.to_le_bytes());
            let at = self.queue.len();
            self.queue.resize(at + bytes, 0);
            client.read(bulk.tag, bulk.sent as u64, &mut self.queue[at..]);
            bulk.sent += bytes;
            if bulk.sent == bulk.bytes {
                client.bulk_sent(bulk.tag);
                self.bulk_out.pop_front();
            }
        }
    }

    /// Sends what comes before all frames to a guest of another node, as far as the connection takes it.
    fn send_greeting(&mut self) -> OutState {
        let (Some(out), Some(awaited)) = (&self.out, &mut self.awaited) else { return OutState::Open };
        while !awaited.greeting.is_empty() {
            match socket::send(out, &awaited.greeting) {
                Ok(Some(bytes)) => drop(awaited.greeting.drain(..bytes)),
                // The connection is not there yet.
                Ok(None) => break,
                Err(_) => return OutState::Closed,
            }
        }
        OutState::Open
    }

    /// Whether a guest may get frames; one of another node has to show its proof first.
    fn take_proof(&mut self, scratch: &mut [u8]) -> Result<bool, OutState> {
        if self.send_greeting() == OutState::Closed {
            return Err(OutState::Closed);
        }
        let (Some(out), Some(awaited)) = (&self.out, &mut self.awaited) else { return Ok(true) };
        if !awaited.greeting.is_empty() {
            return Ok(false);
        }
        while awaited.received < seal::BYTES {
            let rest = &mut scratch[..seal::BYTES - awaited.received];
            let shown = match socket::receive(out, rest) {
                Ok(None) => return Ok(false),
                Ok(Some(bytes @ 1..)) => &rest[..bytes],
                _ => break,
            };
            // As soon as a byte is wrong the rest does not matter.
            if awaited.proof[awaited.received..][..shown.len()] != *shown {
                break;
            }
            awaited.received += shown.len();
        }
        if awaited.received < seal::BYTES {
            return Err(OutState::Closed);
        }
        self.awaited = None;
        Ok(true)
    }

    fn push_frame(&mut self, kind: u8, head: &[u8], body: &[u8]) {
        begin_frame(&mut self.queue, kind, head.len() + body.len());
        self.queue.extend_from_slice(head);
        self.queue.extend_from_slice(body);
    }

    /// Sends what waits in the queue, as far as the connection takes it.
    pub(super) fn flush(&mut self) -> OutState {
        let Some(out) = self.out.as_ref().filter(|_| self.awaited.is_none()) else { return OutState::Open };
        let mut state = OutState::Open;
        while self.sent < self.queue.len() {
            match socket::send(out, &self.queue[self.sent..]) {
                Ok(Some(bytes)) => self.sent += bytes,
                Ok(None) => break,
                Err(_) => {
                    state = OutState::Broken;
                    break;
                }
            }
        }
        if self.sent == self.queue.len() {
            self.queue.clear();
            self.sent = 0;
        } else if self.sent > QUEUE_BYTES_MAX {
            self.queue.drain(..self.sent);
            self.sent = 0;
        }
        state
    }

    /// Takes the whole frames at the beginning; returns their bytes.
    fn take_frames(
        &mut self,
        from: usize,
        input: &[u8],
        client: &mut dyn Client,
    ) -> Result<usize, Malformed> {
        let mut rest = input;
        while let Some((head, behind)) = rest.split_first_chunk::<HEAD_BYTES>() {
            let bytes = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
            if bytes > FRAME_BYTES_MAX || self.has_left {
                return Err(Malformed);
            }
            let Some((content, behind)) = behind.split_at_checked(bytes) else { break };
            match head[0] {
                RECORD if is_sound(content) => {
                    client.record(from, content);
                }
                BULK => self.take_fragment(content, client)?,
                LEAVE => self.has_left = true,
                _ => return Err(Malformed),
            }
            rest = behind;
        }
        Ok(input.len() - rest.len())
    }

    fn take_fragment(&mut self, content: &[u8], client: &mut dyn Client) -> Result<(), Malformed> {
        let (name, data) = content.split_first_chunk::<NAME_BYTES>().ok_or(Malformed)?;
        let name = u64::from_le_bytes(*name);
        let bulk = self.bulk_in.get_mut(&name).ok_or(Malformed)?;
        if data.len() > bulk.bytes - bulk.received {
            return Err(Malformed);
        }
        client.fragment(bulk.tag, bulk.received as u64, data);
        bulk.received += data.len();
        if bulk.received == bulk.bytes {
            let tag = bulk.tag;
            self.bulk_in.remove(&name);
            client.bulk_received(tag);
        }
        Ok(())
    }

    /// Closes the connection to a guest that takes nothing any more: what waits for it is dropped.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        (self.out, self.awaited) = (None, None);
        (self.queue, self.sent) = (Vec::new(), 0);
        self.bulk_out.clear();
    }

    /// Drops both connections; false when it was lost before.
    pub(super) fn lose(&mut self) -> bool {
        if self.is_lost {
            return false;
        }
        self.is_lost = true;
        (self.out, self.awaited, self.inbound) = (None, None, None);
        (self.queue, self.input) = (Vec::new(), Vec::new());
        self.bulk_out.clear();
        self.bulk_in.clear();
        true
    }
}

/// The head of a frame.
pub(super) fn begin_frame(queue: &mut Vec<u8>, kind: u8, bytes: usize) {
    queue.extend_from_slice(&[kind, 0, 0, 0]);
    queue.extend_from_slice(&(bytes as u32).to_le_bytes());
}

/// Whether a record is one that a guest sends: of a message, or of an operation on memory.
fn is_sound(record: &[u8]) -> bool {
    if record.first().is_some_and(|kind| wire::KINDS.contains(kind)) {
        return wire::parse(record).is_some();
    }
    let Some((head, data)) = Head::decode(record) else { return false };
    match head.kind {
        EAGER => head.length == data.len() as u64,
        STREAM => (data.len() as u64) < head.length && head.length <= STREAM_BYTES_MAX,
        PART => !data.is_empty(),
        RTS | CTS | FIN | CREDIT | CANCEL | CANCELLED => data.is_empty(),
        _ => false,
    }
}
