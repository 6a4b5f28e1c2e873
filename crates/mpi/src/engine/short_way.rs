//! The short way of small contiguous messages: no request, no message object; arguments in registers.
//!
//! It does exactly what the general way would do when nothing else is under way between the two ranks, and declines otherwise.
//! A blocking receive looks into the ring for a few microseconds before it posts anything.

use super::{EAGER, Engine};
use crate::abi::MPI_ANY_TAG;

/// Polls of a receive before it is posted: about as long as a round trip on a busy machine.
pub const POLLS: u32 = 1000;

/// What a look at the next message has given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
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
        let peer = &mut self.peers[to];
        if to == self.me || !peer.backlog.is_empty() || !peer.push_small(context, tag, at, bytes) {
            return false;
        }
        self.counters.messages += 1;
        self.counters.bytes += bytes as u64;
        self.counters.eager += 1;
        self.job.ring(to);
        true
    }

    /// Whether a receive from this rank would be the only one that the rank's next message can match.
    #[inline(always)]
    pub fn is_alone(&self, from: usize) -> bool {
        from != self.me && self.matching.is_idle(from)
    }

    /// Takes the next message of a rank to `at`, if it is there, small, and the one asked for. Only while [`Engine::is_alone`].
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
    ) -> Short {
        let peer = &mut self.peers[from];
        let Some(message) = peer.rings.inbox.peek() else { return Short::Nothing };
        let envelope = message.envelope;
        let bytes = envelope.length as usize;
        let asked_for = envelope.kind == EAGER
            && envelope.context == context
            && (envelope.tag == tag || tag == MPI_ANY_TAG)
            && bytes <= capacity;
        if !asked_for {
            return Short::Other;
        }
        // SAFETY: our contract; bytes <= capacity.
        unsafe { message.read_inline_to(at, bytes) };
        message.consume();
        peer.release_credit(bytes);
        if peer.rings.inbox.take_owed_bell() {
            self.job.ring(from);
        }
        Short::Taken(envelope.tag, bytes)
    }
}
