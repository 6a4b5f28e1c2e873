//! Handling of an envelope that has arrived, and of a receive that finds its message waiting.

use tutti_datatype::{Buffer, SignatureWord};
use tutti_shm::envelope_ring::{Envelope, Message as RingMessage};

use super::lanes::{Lane, SingleCopy, State};
use super::message::{LOCAL_EAGER_BYTES_MAX, Message, Mode, deliver_moved, finish_receive};
use super::peer::{CARRIED_AT, CARRIES};
use super::streams::{Sink, Stream};
use super::unexpected_message::{Body, SHORT_BYTES, Unexpected};
use super::{ENVELOPES_PER_TURN, Engine};
use crate::check_mode;
use crate::events::{self, Event};
use crate::request::{Request, RequestKind, Started};
use tutti_shm::envelope::{CANCEL, CANCELLED, COOP, CTS, EAGER, FIN, RTR, RTS, STREAM, WRITE};

impl Engine {
    /// Takes what has arrived from one peer.
    #[inline(never)]
    pub(super) fn take_envelopes(&mut self, from: usize) {
        let mut answers = Answers::default();
        for _ in 0..ENVELOPES_PER_TURN {
            let peer = &mut self.peers[from];
            let Some(message) = peer.rings.inbox.peek() else { break };
            let envelope = message.envelope;
            if envelope.kind == EAGER {
                let found =
                    self.matching.take_posted(&mut self.requests, from, envelope.context, envelope.tag);
                match found {
                    Some(index) => {
                        let request = self.requests.get_mut(index);
                        accept(request, from, &envelope);
                        if request.rtr != 0 {
                            peer.advertising.matched(request.rtr, false);
                        }
                        read_into(&message, &request.buffer, envelope.length as usize);
                        message.consume();
                        peer.release_credit(envelope.length as usize);
                        finish_receive(&mut self.requests, index);
                    }
                    None => {
                        let unexpected = keep(&message, &envelope);
                        message.consume();
                        self.counters.unexpected += 1;
                        raise_unexpected(from, &unexpected);
                        self.matching.keep(from, unexpected);
                    }
                }
            } else {
                let arguments = std::array::from_fn(|i| message.argument(i));
                if envelope.kind == RTS && envelope.flags == CARRIES {
                    let posted =
                        self.matching.take_posted(&mut self.requests, from, envelope.context, envelope.tag);
                    if let Some(index) = posted {
                        let request = self.requests.get_mut(index);
                        accept(request, from, &envelope);
                        if request.rtr != 0 {
                            peer.advertising.matched(request.rtr, false);
                        }
                        let bytes = envelope.length as usize;
                        let data = message.inline(CARRIED_AT + bytes).wrapping_add(CARRIED_AT);
                        // SAFETY: the user keeps a receive buffer valid until the receive is done (MPI 3.7);
                        // the data lie in the message.
                        unsafe { request.buffer.store(0, data, bytes) };
                        message.consume();
                        finish_receive(&mut self.requests, index);
                        if !answers.try_add(arguments[0] as u32) {
                            self.send_answers(from, &mut answers);
                            answers.try_add(arguments[0] as u32);
                        }
                        continue;
                    }
                }
                message.consume();
                self.take_control(from, &envelope, arguments);
            }
        }
        if answers.count > 0 {
            self.send_answers(from, &mut answers);
        }
        if self.peers[from].rings.inbox.take_owed_bell() {
            // A sender that found the ring full may sleep until it hears of room.
            self.peers[from].rings.ring();
        }
    }

    /// Tells the sender of announced messages whose data were with them that they are received.
    fn send_answers(&mut self, to: usize, answers: &mut Answers) {
        let Answers { first, count } = std::mem::take(answers);
        self.send_control_of(to, FIN, [u64::from(first), u64::from(count - 1), 0, 0, 0]);
    }

    #[inline(never)]
    fn take_control(&mut self, from: usize, envelope: &Envelope, arguments: [u64; 5]) {
        let (number, address) = (arguments[0] as u32, arguments[1]);
        let word = SignatureWord(arguments[2]);
        match envelope.kind {
            STREAM | RTS => {
                let body = if envelope.kind == STREAM {
                    Body::Streaming(number)
                } else {
                    Body::Rendezvous { message: number, address }
                };
                if envelope.kind == STREAM {
                    self.peers[from].sinks.push(number, Sink::new(envelope.length as usize));
                }
                let body = if check_mode::is_on() { Body::Signed(word, Box::new(body)) } else { body };
                let message = Unexpected {
                    context: envelope.context,
                    tag: envelope.tag,
                    bytes: envelope.length as usize,
                    body,
                };
                match self.matching.take_posted(&mut self.requests, from, envelope.context, envelope.tag) {
                    Some(index) => {
                        let (rtr, large) =
                            (self.requests.get(index).rtr, message.bytes > LOCAL_EAGER_BYTES_MAX);
                        if rtr != 0 {
                            self.peers[from].advertising.matched(rtr, large);
                        }
                        self.deliver_unexpected(from, message, index);
                    }
                    None => {
                        self.counters.unexpected += 1;
                        raise_unexpected(from, &message);
                        self.matching.keep(from, message);
                    }
                }
            }
            COOP => self.take_coop(from, envelope, arguments),
            RTR => self.take_rtr(from, envelope, arguments),
            WRITE => self.take_written(from, envelope, arguments),
            CTS => {
                let request = self.take_rts(from, number);
                raise_answered(from, self.requests.get(request));
                // Where single copies work the first one that does not may have met memory that none reads.
                if self.peers[from].single_copy_works
                    && !std::mem::replace(&mut self.peers[from].streamed, true)
                {
                    self.refuse_device_memory(self.requests.get(request));
                }
                self.peers[from].streams.push_back(Stream::new(number, request));
                self.push_out(from);
            }
            FIN => {
                for behind in 0..=arguments[1] as u32 {
                    let request = self.take_rts(from, number.wrapping_add(behind));
                    raise_answered(from, self.requests.get(request));
                    self.finish(request);
                }
            }
            CANCEL => {
                if self.matching.withdraw_announced(from, number) {
                    self.send_control(from, CANCELLED, number);
                }
            }
            CANCELLED => {
                let request = self.take_rts(from, number);
                self.finish_cancelled(request);
            }
            other => panic!("an envelope of unknown kind {other} from rank {from}"),
        }
    }

    pub(super) fn take_rts(&mut self, from: usize, number: u32) -> u32 {
        let rendezvous = self.peers[from].rendezvous.take(number);
        rendezvous.unwrap_or_else(|| panic!("rank {from} answers message {number}, which was not announced"))
    }

    /// Brings a message and the receive that takes it together.
    pub(super) fn deliver_unexpected(&mut self, from: usize, message: Unexpected, index: u32) {
        if !self.peers.has(from) {
            return self.deliver_from_node(from, message, index);
        }
        let request = self.requests.get_mut(index);
        (request.peer, request.tag, request.bytes) = (from as i32, message.tag, message.bytes);
        match message.body {
            Body::Short(data) => self.deliver_held(from, &data[..message.bytes], index),
            Body::Long(data) => self.deliver_held(from, &data, index),
            Body::Moved(data) => deliver_moved(&mut self.requests, &data, index),
            Body::Streaming(number) => self.redirect_sink(from, number, index),
            Body::Rendezvous { message: number, address } => {
                if message.bytes > LOCAL_EAGER_BYTES_MAX {
                    self.note_arrival(from);
                    self.peers[from].advertising.encourage();
                }
                let state = State::Undecided { address, arrived: self.polls };
                let copy = SingleCopy { request: index, message: number, state, since: None };
                self.add_copy(from, Lane::RendezvousIn, copy);
            }
            Body::Signed(word, body) => {
                request.suspect_unless_taken(word, message.bytes);
                self.deliver_unexpected(from, Unexpected { body: *body, ..message }, index);
            }
            Body::Local { request: send, buffer } => {
                copy_between(&buffer, &request.buffer);
                finish_receive(&mut self.requests, index);
                self.requests.finish(send);
            }
        }
    }

    fn deliver_held(&mut self, from: usize, data: &[u8], index: u32) {
        // SAFETY: the user keeps a receive buffer valid until the receive is done (MPI 3.7); data is a slice.
        unsafe { self.requests.get(index).buffer.store(0, data.as_ptr(), data.len()) };
        self.release_credit(from, data.len());
        finish_receive(&mut self.requests, index);
    }

    /// A message to this process itself.
    pub(super) fn send_to_self(&mut self, message: Message) -> Started {
        let Message { context, tag, buffer, mode, .. } = message;
        let (bytes, word) = (buffer.bytes, buffer.word());
        if !check_mode::is_on()
            && let Some(index) = self.matching.take_posted(&mut self.requests, self.me, context, tag)
        {
            let request = self.requests.get_mut(index);
            (request.peer, request.tag, request.bytes) = (self.me as i32, tag, bytes);
            copy_between(&buffer, &request.buffer);
            finish_receive(&mut self.requests, index);
            return Started::Done;
        }
        let (body, started) = if mode == Mode::Standard && bytes <= LOCAL_EAGER_BYTES_MAX {
            let mut data = vec![0; bytes].into_boxed_slice();
            // SAFETY: the user's memory is valid for the length of the message.
            unsafe { buffer.load(0, data.as_mut_ptr(), bytes) };
            (Body::Long(data), Started::Done)
        } else {
            let request = Request::new(RequestKind::Send, buffer.clone(), context, self.me as i32, tag);
            let request = self.requests.insert(request);
            (Body::Local { request, buffer }, Started::Pending(request))
        };
        if check_mode::is_on() {
            return self.deliver_to_self(Unexpected { context, tag, bytes, body }, word, started);
        }
        self.matching.keep(self.me, Unexpected { context, tag, bytes, body });
        started
    }

    /// The same with what is known of its data, while the program is being checked.
    #[cold]
    fn deliver_to_self(&mut self, message: Unexpected, word: SignatureWord, started: Started) -> Started {
        let message = Unexpected { body: Body::Signed(word, Box::new(message.body)), ..message };
        let (context, tag) = (message.context, message.tag);
        match self.matching.take_posted(&mut self.requests, self.me, context, tag) {
            Some(index) => self.deliver_unexpected(self.me, message, index),
            None => self.matching.keep(self.me, message),
        }
        started
    }
}

/// Messages with numbers one behind the other that one answer is for.
#[derive(Debug, Default)]
struct Answers {
    first: u32,
    count: u32,
}

impl Answers {
    /// Adds a message; false if its number does not follow.
    #[inline(always)]
    fn try_add(&mut self, number: u32) -> bool {
        if self.count == 0 {
            self.first = number;
        }
        let follows = number == self.first.wrapping_add(self.count);
        self.count += u32::from(follows);
        follows
    }
}

/// Shows tools that the receiver of an announced message has answered.
#[inline(always)]
pub(super) fn raise_answered(from: usize, request: &Request) {
    events::raise(Event::Answered, || [from as u64, request.tag as u64, request.buffer.bytes as u64, 0]);
}

/// Shows tools a message that came before its receive.
#[inline(always)]
pub(super) fn raise_unexpected(from: usize, message: &Unexpected) {
    events::raise(Event::Unexpected, || [from as u64, message.tag as u64, message.bytes as u64, 0]);
}

#[inline(always)]
fn accept(request: &mut Request, from: usize, envelope: &Envelope) {
    request.peer = from as i32;
    request.tag = envelope.tag;
    request.bytes = envelope.length as usize;
}

/// Inline data to the receive's buffer, as far as it reaches.
#[inline(always)]
fn read_into(message: &RingMessage<'_>, buffer: &Buffer, bytes: usize) {
    if buffer.map.is_none() {
        // SAFETY: the user keeps a receive buffer valid until the receive is done (MPI 3.7).
        unsafe { message.read_inline_to(buffer.at, bytes.min(buffer.bytes)) };
    } else {
        // SAFETY: as above.
        unsafe { buffer.store(0, message.inline(bytes), bytes) };
    }
}

/// An unexpected eager message, with its data copied out of the ring.
fn keep(message: &RingMessage<'_>, envelope: &Envelope) -> Unexpected {
    let bytes = envelope.length as usize;
    let body = if bytes <= SHORT_BYTES {
        let mut data = [0; SHORT_BYTES];
        message.read_inline(&mut data[..bytes]);
        Body::Short(data)
    } else {
        let mut data = vec![0; bytes].into_boxed_slice();
        message.read_inline(&mut data);
        Body::Long(data)
    };
    Unexpected { context: envelope.context, tag: envelope.tag, bytes, body }
}

/// Copies a message inside this process, through a piece of stack where both ends have gaps.
fn copy_between(from: &Buffer, to: &Buffer) {
    let bytes = from.bytes.min(to.bytes);
    // SAFETY: both are buffers of pending operations of the user, valid for their lengths; MPI forbids that
    // they overlap, so only equal addresses of nothing could meet.
    unsafe {
        if from.map.is_none() {
            to.store(0, from.at, bytes);
        } else if to.map.is_none() {
            from.load(0, to.at, bytes);
        } else {
            let (mut short, mut long) = ([0; 1024], Vec::new());
            let portion = from.portion().max(to.portion());
            let piece = if portion > short.len() {
                long.resize(portion, 0);
                &mut long[..]
            } else {
                &mut short
            };
            let mut offset = 0;
            while offset < bytes {
                let part = piece.len().min(bytes - offset);
                from.load(offset, piece.as_mut_ptr(), part);
                to.store(offset, piece.as_ptr(), part);
                offset += part;
            }
        }
    }
}
