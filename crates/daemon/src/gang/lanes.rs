//! The switch thread's own way to its neighbours in the tree: datagrams, which no thread of usual priority has to hand on (W14).
//!
//! One UDP socket, at the address and port where the daemon hears other daemons by TCP. A lane begins with a link of the daemons: its keys are
//! drawn from the link's (`seal`), its words are repeated until they have come, else go over the link (`lane`), and it ends with
//! the link. A child sends to where it dials; a parent answers to where the newest datagram came from, so only the child has to
//! be able to reach the other.
//!
//! What if it stops right here: a word is with the other side, in a datagram that is repeated, or on the link; and if the link breaks,
//! everything in force is said anew on the next one.
//!
//! The thread goes before everybody else, so strangers must not keep it busy: beyond [`REFUSED_MAX`] datagrams that count for nothing in
//! [`REST_NS`], the socket is not looked at for the rest of that time; words go over the links meanwhile.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::SendFlags;
use serde::Serialize;
use tutti_sched::{NodeId, Report};

use crate::core::LinkId;
use lane::{Lane, Text};
pub(crate) use seal::LABEL;
use seal::Seal;
pub use seal::{SECRET_BYTES, Secret};
pub use words::Word;
pub(super) use words::{encode, read_word};

mod lane;
mod seal;
mod words;

/// Datagrams that count for nothing, in [`REST_NS`].
const REFUSED_MAX: u32 = 100;
/// See [`REFUSED_MAX`].
const REST_NS: u64 = 10_000_000;
/// Between two lines for the log about the same thing.
const NEWS_NS: u64 = 10_000_000_000;
/// So long a lane may take to begin.
const BEGIN_NS: u64 = 5_000_000_000;
/// Datagrams read before anything else is looked at.
const READ_MAX: u32 = 64;
/// As long as one is at most, and one byte more: what is longer is none.
const BYTES: usize = seal::HEAD_BYTES + lane::TEXT_BYTES + seal::TAG_BYTES;
/// A word is made in here; a plan of thousands of jobs is longer, and takes memory of its own.
const MADE_BYTES: usize = 4 * lane::WORD_BYTES;

/// The neighbour at the other end of a link.
#[derive(Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// The link.
    pub link: LinkId,
    /// Who it is.
    pub node: NodeId,
    /// It is the parent, and we have dialled.
    pub is_parent: bool,
    /// Where the link goes.
    pub address: SocketAddr,
    /// What only both ends of the link know.
    pub secret: Secret,
}

impl std::fmt::Debug for Neighbour {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Neighbour { link, node, is_parent, address, .. } = self;
        write!(formatter, "{node:?} by {link:?}, parent: {is_parent}, {address}")
    }
}

/// What has come from a neighbour.
#[derive(Debug)]
pub(super) enum Heard {
    Down(Word),
    Up(NodeId, Report),
}

/// What has become of datagrams and words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    /// Datagrams of neighbours.
    heard: u64,
    /// Datagrams of nobody we know.
    strangers: u64,
    /// Not sealed by who they say, or changed.
    forged: u64,
    /// They had come before.
    again: u64,
    /// Words that went over a link.
    by_link: u64,
    /// Words of neighbours that are of another version.
    odd: u64,
}

/// A count that is said when it has grown, once in a while.
#[derive(Debug, Default)]
struct Told {
    count: u64,
    again_ns: u64,
}

impl Told {
    /// True if it is to be said now, and then not for a while.
    fn is_news(&mut self, now_ns: u64, count: u64) -> bool {
        let is_news = count > self.count && now_ns >= self.again_ns;
        if is_news {
            *self = Told { count, again_ns: now_ns + NEWS_NS };
        }
        is_news
    }
}

#[derive(Debug)]
struct End {
    to: Neighbour,
    address: Option<SocketAddr>,
    seal: Seal,
    lane: Lane,
    /// What was last said of it for the log: datagrams get through.
    known: bool,
    /// When it may be said that none get through, and that they do: whoever reads the first line hears of its end at once.
    news_ns: [u64; 2],
}

pub(super) struct Lanes {
    socket: Option<UdpSocket>,
    ends: Vec<End>,
    tally: Tally,
    /// Since when datagrams that count for nothing are counted, and how many there were.
    refused: (u64, u32),
    /// What was last said of those that were refused.
    refused_told: Told,
    /// The same of words that are not understood.
    odd_told: Told,
    made: Vec<u8>,
}

/// What a neighbour is told over the daemons' link: number and bytes of a word.
pub(super) type Over<'a> = &'a mut dyn FnMut(LinkId, u64, &[u8]);

impl Lanes {
    /// Without a socket all words go over the links.
    pub(super) fn new(socket: Option<UdpSocket>) -> Self {
        let made = Vec::with_capacity(MADE_BYTES);
        Lanes {
            socket,
            ends: Vec::new(),
            tally: Tally::default(),
            refused: (0, 0),
            refused_told: Told::default(),
            odd_told: Told::default(),
            made,
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
        let lane = Lane::new(now_ns);
        self.ends.push(End { to, address, seal, lane, known: true, news_ns: [now_ns + BEGIN_NS; 2] });
    }

    /// A link is gone.
    pub(super) fn close(&mut self, link: LinkId) {
        self.ends.retain(|end| end.to.link != link);
    }

    /// A word for a child, which hears the next one within `calm_ns`; 0: or does not.
    pub(super) fn say_down(&mut self, now_ns: u64, child: NodeId, word: &Word, calm_ns: u64, over: Over<'_>) {
        self.say(now_ns, |to| !to.is_parent && to.node == child, word, calm_ns, over);
    }

    /// A report for the parent, who hears the next one within `calm_ns`; 0: or does not.
    pub(super) fn say_up(&mut self, now_ns: u64, report: &Report, calm_ns: u64, over: Over<'_>) {
        self.say(now_ns, |to| to.is_parent, report, calm_ns, over);
    }

    /// What cannot be said now, since there is no link, is repeated when one comes up.
    fn say(
        &mut self,
        now_ns: u64,
        whom: impl Fn(&Neighbour) -> bool,
        word: &impl Serialize,
        calm_ns: u64,
        over: Over<'_>,
    ) {
        let Some(end) = self.ends.iter_mut().find(|end| whom(&end.to)) else { return };
        self.made.clear();
        self.made = encode(word, std::mem::take(&mut self.made));
        let (link, by_link) = (end.to.link, &mut self.tally.by_link);
        end.lane.push(now_ns, &self.made, calm_ns, &mut |number, word| {
            *by_link += 1;
            over(link, number, word);
        });
    }

    /// Sends what is to be sent, and over the links what has not come otherwise.
    pub(super) fn flush(&mut self, now_ns: u64, over: Over<'_>) {
        let Some(socket) = &self.socket else { return };
        for end in &mut self.ends {
            let Some(address) = end.address else { continue };
            let (link, by_link) = (end.to.link, &mut self.tally.by_link);
            end.lane.handle_time(now_ns, &mut |number, word| {
                *by_link += 1;
                over(link, number, word);
            });
            let mut text = [0; lane::TEXT_BYTES];
            while let Some((number, length)) = end.lane.poll(now_ns, &mut text) {
                let mut datagram = [0; BYTES];
                datagram[seal::HEAD_BYTES..][..length].copy_from_slice(&text[..length]);
                let length = end.seal.seal(number, &mut datagram, length);
                // Who is not reached is as one who has not heard.
                let _ = rustix::net::sendto(socket, &datagram[..length], SendFlags::DONTWAIT, &address);
            }
        }
    }

    /// A word has come over a link.
    pub(super) fn take(&mut self, link: LinkId, number: u64, word: &[u8]) -> Option<Heard> {
        let end = self.ends.iter_mut().find(|end| end.to.link == link)?;
        if !end.lane.take(number) {
            return None;
        }
        let heard = decode(&end.to, word);
        self.tally.odd += u64::from(heard.is_none());
        heard
    }

    /// Several neighbours may speak at once.
    pub(super) fn are_several(&self) -> bool {
        self.ends.len() > 1
    }

    /// What is to be polled, if it is time to look.
    pub(super) fn socket(&self, now_ns: u64) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().filter(|_| self.rests_until(now_ns).is_none()).map(AsFd::as_fd)
    }

    fn rests_until(&self, now_ns: u64) -> Option<u64> {
        let (since_ns, count) = self.refused;
        (count > REFUSED_MAX && now_ns < since_ns + REST_NS).then_some(since_ns + REST_NS)
    }

    /// When [`Self::flush`] is to be called at the latest, or the socket looked at.
    pub(super) fn timeout_ns(&self, now_ns: u64) -> Option<u64> {
        let reached = self.ends.iter().filter(|end| end.address.is_some() && self.socket.is_some());
        reached.filter_map(|end| end.lane.timeout_ns()).chain(self.rests_until(now_ns)).min()
    }

    /// Reads what has come; `deliver` gets the words.
    pub(super) fn read(&mut self, now_ns: u64, deliver: &mut dyn FnMut(Heard)) {
        for _ in 0..READ_MAX {
            let Some(socket) = &self.socket else { return };
            if self.rests_until(now_ns).is_some() {
                return;
            }
            let mut datagram = [0; BYTES + 1];
            let Ok((length, from)) = socket.recv_from(&mut datagram) else { return };
            let mut spoke = false;
            self.handle(now_ns, &mut datagram[..length], from, &mut |word| {
                spoke = true;
                deliver(word);
            });
            if !self.are_several() && spoke {
                // Mostly the only neighbour has said one thing, and the next wait ends at once if not.
                return;
            }
        }
    }

    fn handle(&mut self, now_ns: u64, datagram: &mut [u8], from: SocketAddr, deliver: &mut dyn FnMut(Heard)) {
        let head = Seal::head(datagram).filter(|_| datagram.len() <= BYTES);
        let end = head.and_then(|(tag, number)| {
            self.ends.iter_mut().find(|end| end.seal.is_from(tag)).map(|end| (end, number))
        });
        let Some((end, number)) = end else {
            self.tally.strangers += 1;
            return self.refuse(now_ns);
        };
        let opened = end.seal.open(number, datagram);
        let read = opened.and_then(|(text, is_newest)| {
            Text::parse(text).map(|text| (text, is_newest)).ok_or(seal::Refused::Forged)
        });
        match read {
            Ok((text, is_newest)) => {
                if is_newest && !end.to.is_parent {
                    end.address = Some(from);
                }
                self.tally.heard += 1;
                let (to, odd) = (&end.to, &mut self.tally.odd);
                end.lane.handle(now_ns, number, &text, &mut |word| match decode(to, word) {
                    Some(word) => deliver(word),
                    None => *odd += 1,
                });
            }
            Err(why) => {
                match why {
                    seal::Refused::Forged => self.tally.forged += 1,
                    seal::Refused::Again => self.tally.again += 1,
                }
                self.refuse(now_ns);
            }
        }
    }

    /// Something for the person who keeps the machines. It is looked for when something else is to be done: nobody wakes up for it.
    pub(super) fn poll_news(&mut self, now_ns: u64) -> Option<String> {
        if self.odd_told.is_news(now_ns, self.tally.odd) {
            return Some(format!(
                "{} words of other nodes' switch threads are not understood so far: all daemons of a cluster must be of one version",
                self.tally.odd
            ));
        }
        self.socket.as_ref()?;
        let refused = self.tally.strangers + self.tally.forged + self.tally.again;
        if self.refused_told.is_news(now_ns, refused) {
            let Tally { strangers, forged, again, .. } = self.tally;
            return Some(format!(
                "refused at the switch thread's port so far: {strangers} datagrams of strangers, {forged} forged, {again} repeated"
            ));
        }
        let changed = |end: &&mut End| {
            let is_open = end.lane.is_open();
            is_open != end.known && now_ns >= end.news_ns[usize::from(is_open)]
        };
        let end = self.ends.iter_mut().find(changed)?;
        end.known = end.lane.is_open();
        end.news_ns[usize::from(end.known)] = now_ns + NEWS_NS;
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
        if now_ns >= self.refused.0 + REST_NS {
            self.refused = (now_ns, 0);
        }
        self.refused.1 += 1;
    }
}

fn decode(from: &Neighbour, word: &[u8]) -> Option<Heard> {
    if from.is_parent {
        read_word(word).map(Heard::Down)
    } else {
        read_word(word).map(|report| Heard::Up(from.node, report))
    }
}

/// What `make fuzz` does with any bytes.
#[cfg(test)]
#[path = "../../fuzz/targets/datagrams.rs"]
mod datagrams;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
