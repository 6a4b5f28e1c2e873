//! Messages between nodes: in pieces as long as a record, in order, whole again where they arrive.

use std::collections::VecDeque;

use super::port::{Port, Sent};
use crate::core::message::{self, Call, Message};
use crate::core::time::VectorTime;

/// A message on its way.
#[derive(Debug)]
struct Outgoing {
    bytes: Vec<u8>,
    sent_bytes: usize,
    /// The next release waits until it has been applied: nobody answers it, and who hears of that release may
    /// ask its receiver for what it changes.
    is_awaited: bool,
}

/// Another node.
#[derive(Debug)]
struct Peer {
    /// Knowledge by messages between the two.
    told: VectorTime,
    outgoing: VecDeque<Outgoing>,
    incoming: Vec<u8>,
}

/// Messages to and from each node.
#[derive(Debug)]
pub(super) struct Mail {
    peers: Vec<Peer>,
    messages: u64,
}

impl Mail {
    pub(super) fn new(nodes: usize) -> Self {
        let peer =
            |_| Peer { told: VectorTime::zero(nodes), outgoing: VecDeque::new(), incoming: Vec::new() };
        Mail { peers: (0..nodes).map(peer).collect(), messages: 0 }
    }

    /// Messages handed over so far.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// Time that a node is known to have seen.
    pub(super) fn told(&mut self, node: usize) -> &mut VectorTime {
        &mut self.peers[node].told
    }

    /// Whether none waits for room.
    pub(super) fn is_empty(&self) -> bool {
        self.peers.iter().all(|peer| peer.outgoing.is_empty())
    }

    /// Whether one that a release waits for has not gone.
    pub(super) fn has_awaited(&self) -> bool {
        self.peers.iter().any(|peer| peer.outgoing.iter().any(|message| message.is_awaited))
    }

    /// Hands a message over.
    pub(super) fn post(&mut self, to: usize, message: &Message) {
        self.messages += 1;
        let is_awaited = matches!(message.call, Call::Set { .. } | Call::Clear { .. } | Call::Free { .. })
            && !mutated!(ClearOvertaken);
        self.peers[to].outgoing.push_back(Outgoing { bytes: message.encode(), sent_bytes: 0, is_awaited });
    }

    /// Sends what there is room for.
    pub(super) fn pump(&mut self, to: usize, port: &mut impl Port) {
        let room = port.record_bytes_max() - message::MESSAGE_HEAD_BYTES;
        let outgoing = &mut self.peers[to].outgoing;
        while let Some(first) = outgoing.front_mut() {
            let end = (first.sent_bytes + room).min(first.bytes.len());
            let is_last = end == first.bytes.len();
            let head = [message::MESSAGE, u8::from(is_last), 0, 0];
            match port.try_send(to, &head, &first.bytes[first.sent_bytes..end]) {
                Sent::Taken if is_last => {
                    if first.is_awaited {
                        port.note_awaited(to);
                    }
                    outgoing.pop_front();
                }
                Sent::Taken => first.sent_bytes = end,
                Sent::Full => return,
                Sent::Gone => return outgoing.clear(),
            }
        }
    }

    /// A piece of a message; the message with the last of them. An error: it is none of ours.
    pub(super) fn handle_piece(
        &mut self,
        from: usize,
        record: &[u8],
        units: u32,
    ) -> Result<Option<Message>, NotOurs> {
        let (head, bytes) = record.split_at_checked(message::MESSAGE_HEAD_BYTES).ok_or(NotOurs)?;
        let incoming = &mut self.peers[from].incoming;
        if incoming.len() + bytes.len() > message::MESSAGE_BYTES_MAX {
            // The next message has room again.
            *incoming = Vec::new();
            return Err(NotOurs);
        }
        incoming.extend(bytes);
        if head[1] == 0 {
            return Ok(None);
        }
        let whole = std::mem::take(incoming);
        Message::decode(&whole, self.peers.len(), units).map(Some).ok_or(NotOurs)
    }
}

/// Sign of a record that no node of ours has sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotOurs;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_that_refuses_a_long_message_takes_the_next_one() {
        let mut mail = Mail::new(2);
        let piece = vec![0; message::MESSAGE_HEAD_BYTES + message::MESSAGE_BYTES_MAX / 2 + 1];
        assert!(matches!(mail.handle_piece(1, &piece, 5), Ok(None)));
        assert!(mail.handle_piece(1, &piece, 5).is_err());
        let message = Message::new(Call::End, VectorTime::zero(2));
        let next = [vec![message::MESSAGE, 1, 0, 0], message.encode()].concat();
        assert!(matches!(mail.handle_piece(1, &next, 5), Ok(Some(found)) if found == message));
    }
}
