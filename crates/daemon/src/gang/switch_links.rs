//! The switch thread's own way to its neighbours in the tree: datagrams, which no thread of usual priority
//! has to hand on.
//!
//! One UDP socket, at the address and port where the daemon hears other daemons by TCP. A switch link begins
//! with a link of the daemons: its keys are drawn from the link's (`seal`), its messages are repeated until
//! they have come, else go over the link (`switch_link`), and it ends with the link. A child sends to where
//! it dials; a parent answers to where the newest datagram came from, so only the child has to be able to
//! reach the other.
//!
//! What if it stops right here: a message is with the other side, in a datagram that is repeated, or on the
//! link; and if the link breaks, everything in force is said anew on the next one.
//!
//! The thread goes before everybody else, so strangers must not keep it busy: beyond [`REFUSED_MAX`]
//! datagrams that count for nothing in [`PAUSE_NS`], the socket is not looked at for the rest of that time;
//! messages go over the links meanwhile.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::SendFlags;
use serde::Serialize;
use tutti_sched::{NodeId, Report};

use crate::ids::LinkId;
pub use message::SwitchMessage;
pub(super) use message::{decode_message, encode};
pub(crate) use seal::LABEL;
use seal::Seal;
pub use seal::{SECRET_BYTES, Secret};
use switch_link::{Payload, SwitchLink};

mod message;
mod seal;
mod switch_link;

/// Datagrams that count for nothing, in [`PAUSE_NS`].
const REFUSED_MAX: u32 = 100;
/// See [`REFUSED_MAX`].
const PAUSE_NS: u64 = 10_000_000;
/// Between two lines for the log about the same thing.
const LOG_NS: u64 = 10_000_000_000;
/// Time that a switch link may take to begin.
const BEGIN_NS: u64 = 5_000_000_000;
/// Datagrams read before anything else is looked at.
const READ_MAX: u32 = 64;
/// As long as one is at most, and one byte more: what is longer is none.
const BYTES: usize = seal::HEADER_BYTES + switch_link::PAYLOAD_BYTES + seal::TAG_BYTES;
/// A message is made in here; a plan of thousands of jobs is longer, and takes memory of its own.
const ENCODED_BYTES: usize = 4 * switch_link::MESSAGE_BYTES;

/// The neighbour at the other end of a link.
#[derive(Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// The link.
    pub link: LinkId,
    /// Node at the other end.
    pub node: NodeId,
    /// Whether that node is the parent, and we have dialled.
    pub is_parent: bool,
    /// Where the link goes.
    pub address: SocketAddr,
    /// Secret that only both ends of the link know.
    pub secret: Secret,
}

impl std::fmt::Debug for Neighbour {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Neighbour { link, node, is_parent, address, .. } = self;
        write!(formatter, "{node:?} by {link:?}, parent: {is_parent}, {address}")
    }
}

/// Message that has come from a neighbour.
#[derive(Debug)]
pub(super) enum Received {
    Down(SwitchMessage),
    Up(NodeId, Report),
}

/// Counts of datagrams and messages, by what has become of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    /// Datagrams of neighbours.
    received: u64,
    /// Datagrams of nobody we know.
    unknown: u64,
    /// Not sealed by who they say, or changed.
    forged: u64,
    /// Datagrams that had come before.
    replayed: u64,
    /// Words that went over a link.
    by_link: u64,
    /// Words of neighbours that are of a later release.
    undecodable: u64,
}

/// A count that is said when it has grown, once in a while.
#[derive(Debug, Default)]
struct LogLimit {
    count: u64,
    again_ns: u64,
}

impl LogLimit {
    /// True if it is to be said now, and then not for a while.
    fn is_due(&mut self, now_ns: u64, count: u64) -> bool {
        let is_due = count > self.count && now_ns >= self.again_ns;
        if is_due {
            *self = LogLimit { count, again_ns: now_ns + LOG_NS };
        }
        is_due
    }
}

#[derive(Debug)]
struct End {
    to: Neighbour,
    address: Option<SocketAddr>,
    seal: Seal,
    switch_link: SwitchLink,
    /// Whether datagrams get through, as was last said for the log.
    known: bool,
    /// When it may be said that none get through, and that they do: whoever reads the first line hears of its
    /// end at once.
    log_ns: [u64; 2],
}

pub(super) struct SwitchLinks {
    socket: Option<UdpSocket>,
    ends: Vec<End>,
    tally: Tally,
    /// Since when datagrams that count for nothing are counted, and how many there were.
    refused: (u64, u32),
    /// Count of datagrams that were refused, as was last said for the log.
    refused_log: LogLimit,
    /// The same of messages that are not understood.
    undecodable_log: LogLimit,
    encoded: Vec<u8>,
}

/// Way to a neighbour over the daemons' link, for the number and the bytes of a message.
pub(super) type Over<'a> = &'a mut dyn FnMut(LinkId, u64, &[u8]);

impl SwitchLinks {
    /// Without a socket all messages go over the links.
    pub(super) fn new(socket: Option<UdpSocket>) -> Self {
        let encoded = Vec::with_capacity(ENCODED_BYTES);
        SwitchLinks {
            socket,
            ends: Vec::new(),
            tally: Tally::default(),
            refused: (0, 0),
            refused_log: LogLimit::default(),
            undecodable_log: LogLimit::default(),
            encoded,
        }
    }

    /// A link has come up.
    pub(super) fn open(&mut self, now_ns: u64, to: Neighbour) {
        if self.ends.iter().any(|end| end.to.link == to.link) {
            return;
        }
        // There is one link to a neighbour: the newest.
        self.ends.retain(|end| end.to.node != to.node && !(end.to.is_parent && to.is_parent));
        let address = to.is_parent.then_some(to.address);
        let seal = Seal::new(&to.secret, to.is_parent);
        let switch_link = SwitchLink::new(now_ns);
        self.ends.push(End { to, address, seal, switch_link, known: true, log_ns: [now_ns + BEGIN_NS; 2] });
    }

    /// A link is gone.
    pub(super) fn close(&mut self, link: LinkId) {
        self.ends.retain(|end| end.to.link != link);
    }

    /// A message for a child, which hears the next one within `ack_delay_ns`; 0: or does not.
    pub(super) fn send_down(
        &mut self,
        now_ns: u64,
        child: NodeId,
        message: &SwitchMessage,
        ack_delay_ns: u64,
        over: Over<'_>,
    ) {
        self.send(now_ns, |to| !to.is_parent && to.node == child, message, ack_delay_ns, over);
    }

    /// A report for the parent, who hears the next one within `ack_delay_ns`; 0: or does not.
    pub(super) fn send_up(&mut self, now_ns: u64, report: &Report, ack_delay_ns: u64, over: Over<'_>) {
        self.send(now_ns, |to| to.is_parent, report, ack_delay_ns, over);
    }

    /// Sends a message to the neighbour; what cannot be said now, since there is no link, is repeated when
    /// one comes up.
    fn send(
        &mut self,
        now_ns: u64,
        is_target: impl Fn(&Neighbour) -> bool,
        message: &impl Serialize,
        ack_delay_ns: u64,
        over: Over<'_>,
    ) {
        let Some(end) = self.ends.iter_mut().find(|end| is_target(&end.to)) else { return };
        self.encoded.clear();
        self.encoded = encode(message, std::mem::take(&mut self.encoded));
        let (link, by_link) = (end.to.link, &mut self.tally.by_link);
        end.switch_link.push(now_ns, &self.encoded, ack_delay_ns, &mut |number, message| {
            *by_link += 1;
            over(link, number, message);
        });
    }

    /// Sends what is to be sent, and over the links what has not come otherwise.
    pub(super) fn flush(&mut self, now_ns: u64, over: Over<'_>) {
        let Some(socket) = &self.socket else { return };
        for end in &mut self.ends {
            let Some(address) = end.address else { continue };
            let (link, by_link) = (end.to.link, &mut self.tally.by_link);
            end.switch_link.handle_time(now_ns, &mut |number, message| {
                *by_link += 1;
                over(link, number, message);
            });
            let mut text = [0; switch_link::PAYLOAD_BYTES];
            while let Some((number, length)) = end.switch_link.poll(now_ns, &mut text) {
                let mut datagram = [0; BYTES];
                datagram[seal::HEADER_BYTES..][..length].copy_from_slice(&text[..length]);
                let length = end.seal.seal(number, &mut datagram, length);
                // Who is not reached is as one who has not heard.
                let _ = rustix::net::sendto(socket, &datagram[..length], SendFlags::DONTWAIT, &address);
            }
        }
    }

    /// A message has come over a link.
    pub(super) fn take(&mut self, link: LinkId, number: u64, message: &[u8]) -> Option<Received> {
        let end = self.ends.iter_mut().find(|end| end.to.link == link)?;
        if !end.switch_link.take(number) {
            return None;
        }
        let received = decode(&end.to, message);
        self.tally.undecodable += u64::from(received.is_none());
        received
    }

    /// Several neighbours may speak at once.
    pub(super) fn has_several(&self) -> bool {
        self.ends.len() > 1
    }

    /// Returns the socket that is to be polled, if it is time to look.
    pub(super) fn socket(&self, now_ns: u64) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().filter(|_| self.paused_until(now_ns).is_none()).map(AsFd::as_fd)
    }

    fn paused_until(&self, now_ns: u64) -> Option<u64> {
        let (since_ns, count) = self.refused;
        (count > REFUSED_MAX && now_ns < since_ns + PAUSE_NS).then_some(since_ns + PAUSE_NS)
    }

    /// When [`Self::flush`] is to be called at the latest, or the socket looked at.
    pub(super) fn timeout_ns(&self, now_ns: u64) -> Option<u64> {
        let reached = self.ends.iter().filter(|end| end.address.is_some() && self.socket.is_some());
        reached.filter_map(|end| end.switch_link.timeout_ns()).chain(self.paused_until(now_ns)).min()
    }

    /// Reads what has come; `deliver` gets the messages.
    pub(super) fn read(&mut self, now_ns: u64, deliver: &mut dyn FnMut(Received)) {
        for _ in 0..READ_MAX {
            let Some(socket) = &self.socket else { return };
            if self.paused_until(now_ns).is_some() {
                return;
            }
            let mut datagram = [0; BYTES + 1];
            let Ok((length, from)) = socket.recv_from(&mut datagram) else { return };
            let mut delivered = false;
            self.handle(now_ns, &mut datagram[..length], from, &mut |message| {
                delivered = true;
                deliver(message);
            });
            if !self.has_several() && delivered {
                // Mostly the only neighbour has said one thing, and the next wait ends at once if not.
                return;
            }
        }
    }

    fn handle(
        &mut self,
        now_ns: u64,
        datagram: &mut [u8],
        from: SocketAddr,
        deliver: &mut dyn FnMut(Received),
    ) {
        let header = Seal::header(datagram).filter(|_| datagram.len() <= BYTES);
        let end = header.and_then(|(tag, number)| {
            self.ends.iter_mut().find(|end| end.seal.is_from(tag)).map(|end| (end, number))
        });
        let Some((end, number)) = end else {
            self.tally.unknown += 1;
            return self.refuse(now_ns);
        };
        let opened = end.seal.open(number, datagram);
        let read = opened.and_then(|(text, is_newest)| {
            Payload::parse(text).map(|text| (text, is_newest)).ok_or(seal::Refused::Forged)
        });
        match read {
            Ok((text, is_newest)) => {
                if is_newest && !end.to.is_parent {
                    end.address = Some(from);
                }
                self.tally.received += 1;
                let (to, undecodable) = (&end.to, &mut self.tally.undecodable);
                end.switch_link.handle(now_ns, number, &text, &mut |message| match decode(to, message) {
                    Some(message) => deliver(message),
                    None => *undecodable += 1,
                });
            }
            Err(why) => {
                match why {
                    seal::Refused::Forged => self.tally.forged += 1,
                    seal::Refused::Replayed => self.tally.replayed += 1,
                }
                self.refuse(now_ns);
            }
        }
    }

    /// Returns a line for the person who keeps the machines. It is looked for when something else is to be
    /// done: nobody wakes up for it.
    pub(super) fn poll_log_line(&mut self, now_ns: u64) -> Option<String> {
        if self.undecodable_log.is_due(now_ns, self.tally.undecodable) {
            return Some(format!(
                "{} messages of other nodes' switch threads are of a later release, and left out",
                self.tally.undecodable
            ));
        }
        self.socket.as_ref()?;
        let refused = self.tally.unknown + self.tally.forged + self.tally.replayed;
        if self.refused_log.is_due(now_ns, refused) {
            let Tally { unknown, forged, replayed, .. } = self.tally;
            return Some(format!(
                "refused at the switch thread's port so far: {unknown} datagrams of unknown senders, {forged} forged, {replayed} repeated"
            ));
        }
        let changed = |end: &&mut End| {
            let is_open = end.switch_link.is_open();
            is_open != end.known && now_ns >= end.log_ns[usize::from(is_open)]
        };
        let end = self.ends.iter_mut().find(changed)?;
        end.known = end.switch_link.is_open();
        end.log_ns[usize::from(end.known)] = now_ns + LOG_NS;
        let node = end.to.node.0;
        Some(if end.known {
            format!("datagrams of the switch thread get through to node {node} again")
        } else {
            format!(
                "no datagrams of the switch thread get through to node {node} (UDP, its daemon's port): switches are slower"
            )
        })
    }

    fn refuse(&mut self, now_ns: u64) {
        if now_ns >= self.refused.0 + PAUSE_NS {
            self.refused = (now_ns, 0);
        }
        self.refused.1 += 1;
    }
}

fn decode(from: &Neighbour, message: &[u8]) -> Option<Received> {
    if from.is_parent {
        decode_message(message).map(Received::Down)
    } else {
        decode_message(message).map(|report| Received::Up(from.node, report))
    }
}

/// Fuzz target: what `make fuzz` does with any bytes.
#[cfg(test)]
#[path = "../../fuzz/targets/datagrams.rs"]
mod datagrams;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
