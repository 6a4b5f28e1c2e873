//! The fast path of small contiguous messages: no message object, arguments in registers; blocking calls need
//! no request, and a nonblocking receive's is built where it stays.
//!
//! It does exactly what the general way would do, in the case that occurs most, and declines otherwise:
//! nothing else under way between the two ranks, or messages that come in the order in which their receives
//! were posted. A blocking receive looks into the ring for a few microseconds before it posts anything.

use super::Engine;
use super::matching::Matching;
use super::message::{LOCAL_EAGER_BYTES_MAX, Message, Mode};
use super::peer::Peer;
use super::unexpected_message::small_matches;
use crate::abi::MPI_Request;
use crate::check_mode;
use crate::handle::{NONE, Slab};
use crate::request::Request;
use tutti_shm::envelope::EAGER;

/// Polls of a receive before it is posted: about as long as a round trip on a busy machine.
pub const POLLS: u32 = 1000;

/// Room of a receive that is started the fast path: as much as comes without being asked for.
pub const CAPACITY_MAX: usize = LOCAL_EAGER_BYTES_MAX;

/// Result of a look at the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastPath {
    /// No message is there.
    Nothing,
    /// The message was taken: its tag and bytes.
    Taken(i32, usize),
    /// Another message is there, which the general way must take.
    Other,
}

impl Engine {
    /// Sends a small message if ring and credit have room and nothing waits in front of it.
    #[inline(always)]
    pub fn try_send_small(&mut self, to: usize, context: u32, tag: i32, at: *const u8, bytes: usize) -> bool {
        if to == self.me {
            return false;
        }
        let Some(peer) = self.peers.find_mut(to) else { return false };
        if !peer.backlog.is_empty() || !peer.push_small(context, tag, at, bytes) {
            return false;
        }
        peer.rings.ring();
        self.counters.messages += 1;
        self.counters.bytes += bytes as u64;
        self.counters.eager += 1;
        true
    }

    /// The same of a message whose arguments are translated already. A checked one takes the general way.
    #[inline(always)]
    pub fn try_send_quickly(&mut self, message: &Message) -> bool {
        let Message { to, context, tag, ref buffer, mode } = *message;
        mode == Mode::Standard
            && buffer.map.is_none()
            && !check_mode::is_on()
            && self.try_send_small(to as usize, context, tag, buffer.at, buffer.bytes)
    }

    /// Whether a receive from this rank would be the only one that the rank's next message can match.
    #[inline(always)]
    pub fn is_alone(&self, from: usize) -> bool {
        from != self.me && self.peers.has(from) && self.matching.is_idle(from)
    }

    /// Takes the next message of a rank to `at`, if it is there, small, and the one asked for. Only while
    /// [`Engine::is_alone`].
    ///
    /// # Safety
    /// `at` is valid for writing `capacity` bytes.
    #[inline(always)]
    pub unsafe fn try_take_small(
        &mut self,
        from: usize,
        context: u32,
        tag: i32,
        at: *mut u8,
        capacity: usize,
    ) -> FastPath {
        let peer = &mut self.peers[from];
        let Some(message) = peer.rings.inbox.peek() else { return FastPath::Nothing };
        let envelope = message.envelope;
        let bytes = envelope.length as usize;
        let arrived = (envelope.context, envelope.tag, bytes);
        if envelope.kind != EAGER || !small_matches((context, tag, capacity), arrived) {
            return FastPath::Other;
        }
        // SAFETY: our contract; bytes <= capacity.
        unsafe { message.read_inline_to(at, bytes) };
        message.consume();
        peer.release_credit(bytes);
        peer.rings.ring_if_owed();
        FastPath::Taken(envelope.tag, bytes)
    }

    /// Whether a receive from any source would be the only one posted, and no message waits; all ranks must
    /// be of this node.
    #[inline(always)]
    pub fn has_no_waiter(&self) -> bool {
        let ranks = self.peers.ranks();
        self.job.is_whole() && self.guests.is_none() && ranks.iter().all(|from| self.matching.is_idle(from))
    }

    /// Takes the first message that comes from any rank to `at`, if it is small and the one asked for: its
    /// source, tag and bytes. Each rank is looked at so many times, in turn. Only while
    /// [`Engine::has_no_waiter`].
    ///
    /// # Safety
    /// `at` is valid for writing `capacity` bytes.
    #[inline(always)]
    pub unsafe fn try_take_small_from_any(
        &mut self,
        context: u32,
        tag: i32,
        at: *mut u8,
        capacity: usize,
        polls: u32,
    ) -> Option<(usize, i32, usize)> {
        let ranks = self.peers.ranks().len();
        self.peers.meet();
        for _ in 0..polls as usize * ranks {
            let from = self.matching.next_in_turn();
            if from == self.me || !self.peers.has_met(from) {
                continue;
            }
            // SAFETY: our contract.
            match unsafe { self.try_take_small(from, context, tag, at, capacity) } {
                FastPath::Nothing => {}
                FastPath::Taken(tag, bytes) => return Some((from, tag, bytes)),
                FastPath::Other => return None,
            }
        }
        None
    }

    /// Starts a receive from a world rank into contiguous memory. `None` when a message waits that the
    /// general way must take.
    ///
    /// # Safety
    /// `at` is valid for writing `capacity` bytes until the receive is done.
    #[inline(always)]
    pub unsafe fn try_start_receive_small(
        &mut self,
        from: usize,
        context: u32,
        tag: i32,
        at: *mut u8,
        capacity: usize,
    ) -> Option<MPI_Request> {
        if self.matching.has_unexpected(from) {
            let request = Request::plain(at, capacity, context, from, tag);
            // SAFETY: our contract.
            return unsafe { self.try_start_with_waiting(from, request) };
        }
        let mut request = Request::plain(at, capacity, context, from, tag);
        request.posted = self.matching.next_number();
        let (index, handle) = self.requests.insert_named(request);
        self.matching.append_from(&mut self.requests, from, index);
        Some(MPI_Request(handle))
    }

    /// The same when messages wait: takes the oldest one, if it is the one asked for and its few bytes fit.
    ///
    /// # Safety
    /// The request's buffer is valid for writing.
    #[inline(never)]
    unsafe fn try_start_with_waiting(&mut self, from: usize, mut request: Request) -> Option<MPI_Request> {
        let (context, tag, buffer) = (request.context, request.tag, &request.buffer);
        let (tag, bytes) = self.matching.take_first_short(from, context, tag, buffer.bytes, |data| {
            // SAFETY: our contract; the data are no longer than the buffer.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), buffer.at, data.len()) }
        })?;
        self.release_credit(from, bytes);
        (request.tag, request.bytes, request.done) = (tag, bytes, true);
        Some(MPI_Request(self.requests.insert_named(request).1))
    }
}

impl Peer {
    /// Takes the next message of this peer, whose world rank is `from`, if it is small and for this receive,
    /// the oldest that is posted for the peer ([`Matching::only_candidate`]): its tag and bytes.
    #[inline(always)]
    pub(super) fn take_expected(
        &mut self,
        from: usize,
        index: u32,
        matching: &mut Matching,
        requests: &mut Slab<Request>,
    ) -> Option<(i32, usize)> {
        let message = self.rings.inbox.peek()?;
        let (envelope, request) = (message.envelope, requests.get_mut(index));
        let bytes = envelope.length as usize;
        let is_expected = envelope.kind == EAGER
            && request.is_plain
            && small_matches(
                (request.context, request.tag, request.buffer.bytes),
                (envelope.context, envelope.tag, bytes),
            );
        if !is_expected {
            return None;
        }
        // SAFETY: the user keeps a receive buffer valid until the receive is done (MPI 3.7), and the message
        // fits.
        unsafe { message.read_inline_to(request.buffer.at, bytes) };
        if request.next == NONE {
            message.consume();
        } else {
            message.consume_among_many();
        }
        (request.tag, request.bytes) = (envelope.tag, bytes);
        matching.take_candidate(from, std::mem::replace(&mut request.next, NONE));
        self.release_credit(bytes);
        Some((envelope.tag, bytes))
    }
}
