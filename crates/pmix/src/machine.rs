//! State that the servers of a job share: namespaces, published names, operations of several processes,
//! keys of processes of other nodes. Each has the same, since it is changed by words alone, and all get the
//! words of all in one order. It is pure: a word goes in, what is to be done on this node comes out.
//!
//! ```text
//! upcall on node n -> Word, with a number of n's choice -> all servers, in one order -> on n: the answer
//!                                                                    '-> elsewhere: a rank is asked for keys
//! ```
//!
//! A word travels in pieces ([`pieces`], [`Pieces`]) by the road of the starters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tutti_protocol::codec;

use crate::gathers::{Gathers, Given, Kind};
use crate::names::{Found, Lookup, Names, Range, Value};
use crate::spaces::{Process, Space, Spaces};
use crate::status;
use crate::wire::{MESSAGE_BYTES_MAX, Newcomers};

/// Bytes of a piece.
const PIECE_BYTES: usize = 64 << 10;
/// Numbers of groups go down from this one.
const FIRST_CONTEXT: u64 = u32::MAX as u64;

/// A word of a server to all. `number`: which of its requests it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// A process publishes entries.
    Publish {
        /// Number.
        number: u64,
        /// The process.
        owner: Process,
        /// The processes that may see them.
        range: Range,
        /// Whether they go with the first that reads them.
        is_read_once: bool,
        /// Keys and values.
        entries: Vec<(String, Value)>,
    },
    /// A process takes entries back; no keys: all.
    Unpublish {
        /// Number.
        number: u64,
        /// The process.
        owner: Process,
        /// Keys.
        keys: Vec<String>,
    },
    /// A process wants entries.
    Lookup {
        /// Number.
        number: u64,
        /// Wish of the process.
        lookup: Lookup,
    },
    /// All processes of the node are in an operation.
    Gather {
        /// Number.
        number: u64,
        /// Kind.
        kind: Kind,
        /// The processes of all nodes.
        processes: Vec<Process>,
        /// Bytes that those of the node have given.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
        /// Whether they want a number for their group.
        wants_context: bool,
    },
    /// A process has waited as long as it wanted.
    GiveUp {
        /// Number.
        number: u64,
    },
    /// A process wants the keys of one of another node.
    AskKeys {
        /// Number.
        number: u64,
        /// The other one.
        process: Process,
    },
    /// The keys.
    Keys {
        /// The node that has asked.
        to: u32,
        /// Number of that node's request.
        number: u64,
        /// 0, or why there are none.
        status: i32,
        /// As libpmix gives them.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// The processes of a node have waited as long as they wanted in the fence of all with this number.
    EndFence(u32),
}

/// The answer to a request of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Result: it is done, or has failed ([`status`]).
    Status(i32),
    /// An operation of several processes is over: what all have given, the number of their group, and its
    /// members.
    Gathered(Vec<u8>, Option<u64>, Vec<Process>),
    /// Entries that were wanted.
    Found(Vec<Found>),
    /// Namespace of new ranks.
    Space(String),
}

/// Action to be done on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A request has its answer.
    Answer(u64, Answer),
    /// A node wants the keys of a process of this one, with this number.
    AskRank(u32, u64, Process),
    /// The fence of all with this number is over without those that are not in it yet.
    EndFence(u32),
}

/// State that the servers share.
#[derive(Debug)]
pub struct Machine {
    /// Number of this node.
    here: u32,
    /// The namespaces.
    pub spaces: Spaces,
    names: Names,
    gathers: Gathers,
    next_context: u64,
}

impl Machine {
    /// At the beginning of a job.
    pub fn new(here: u32, first: Space) -> Self {
        let (spaces, names, gathers) = (Spaces::new(first), Names::default(), Gathers::default());
        Machine { here, spaces, names, gathers, next_context: FIRST_CONTEXT }
    }

    /// New ranks: gives their namespace, and the names of those that are over.
    pub fn admit(&mut self, new: &Newcomers) -> (Space, Vec<String>) {
        let (space, over) = self.spaces.add(new);
        over.iter().for_each(|name| self.names.forget_space(name));
        (space, over)
    }

    /// A word of a node.
    pub fn handle_word(&mut self, node: u32, word: Word) -> Vec<Deed> {
        let mut deeds = Vec::new();
        match word {
            Word::Publish { number, owner, range, is_read_once, entries } => {
                let is_done = self.names.publish(node, &owner, range, is_read_once, entries);
                let status = if is_done { status::SUCCESS } else { status::DUPLICATE_KEY };
                self.answer(node, number, Answer::Status(status), &mut deeds);
                while let Some((node, number, found)) = self.names.poll_waiting() {
                    self.answer(node, number, Answer::Found(found), &mut deeds);
                }
            }
            Word::Unpublish { number, owner, keys } => {
                let is_done = self.names.unpublish(&owner, &keys);
                let status = if is_done { status::SUCCESS } else { status::NOT_FOUND };
                self.answer(node, number, Answer::Status(status), &mut deeds);
            }
            Word::Lookup { number, lookup } => {
                if let Some(found) = self.names.lookup(node, number, lookup) {
                    let answer = match found.is_empty() {
                        true => Answer::Status(status::NOT_FOUND),
                        false => Answer::Found(found),
                    };
                    self.answer(node, number, answer, &mut deeds);
                }
            }
            Word::Gather { number, kind, processes, bytes, wants_context } => {
                let given = Given { node, number, bytes, wants_context };
                self.gather(kind, processes, given, &mut deeds);
            }
            Word::GiveUp { number } => {
                let late = || Answer::Status(status::TIMEOUT);
                if self.names.give_up(node, number) {
                    self.answer(node, number, late(), &mut deeds);
                }
                for given in self.gathers.give_up(node, number) {
                    self.answer(given.node, given.number, late(), &mut deeds);
                }
            }
            Word::EndFence(fence) => deeds.push(Deed::EndFence(fence)),
            Word::AskKeys { number, process } => match self.spaces.node(&process) {
                Some(owner) if owner == self.here => deeds.push(Deed::AskRank(node, number, process)),
                Some(_) => {}
                None => self.answer(node, number, Answer::Status(status::NOT_FOUND), &mut deeds),
            },
            Word::Keys { to, number, status, bytes } => {
                let answer = match status {
                    status::SUCCESS => Answer::Gathered(bytes, None, Vec::new()),
                    _ => Answer::Status(status),
                };
                self.answer(to, number, answer, &mut deeds);
            }
        }
        deeds
    }

    fn answer(&self, node: u32, number: u64, answer: Answer, deeds: &mut Vec<Deed>) {
        if node == self.here {
            deeds.push(Deed::Answer(number, answer));
        }
    }

    fn gather(&mut self, kind: Kind, processes: Vec<Process>, given: Given, deeds: &mut Vec<Deed>) {
        let nodes = self.spaces.nodes(&processes).filter(|nodes| nodes.contains(&given.node));
        let Some(nodes) = nodes else {
            return self.answer(given.node, given.number, Answer::Status(status::NOT_FOUND), deeds);
        };
        let members = match kind {
            Kind::Construct(_) => processes.clone(),
            _ => Vec::new(),
        };
        let Some(all) = self.gathers.add(kind, processes, given, &nodes) else { return };
        let context = all.iter().any(|given| given.wants_context).then_some(self.next_context);
        self.next_context -= u64::from(context.is_some());
        let bytes: Vec<u8> = all.iter().flat_map(|given| &given.bytes).copied().collect();
        if let Some(own) = all.iter().find(|given| given.node == self.here) {
            deeds.push(Deed::Answer(own.number, Answer::Gathered(bytes, context, members)));
        }
    }
}

/// A word as it travels: pieces, the last of which begins with 1, all others with 0.
pub fn pieces(word: &Word) -> Vec<Vec<u8>> {
    let bytes = codec::encode_behind(word, Vec::new());
    let count = bytes.len().div_ceil(PIECE_BYTES);
    let piece = |(at, piece): (usize, &[u8])| [&[u8::from(at + 1 == count)], piece].concat();
    bytes.chunks(PIECE_BYTES).enumerate().map(piece).collect()
}

/// Pieces of words of all nodes, until the words are whole.
#[derive(Debug, Default)]
pub struct Pieces(BTreeMap<u32, Vec<u8>>);

impl Pieces {
    /// The next piece of a node; the word, if it was its last one. What is no word is passed over: the
    /// servers of a job are one version.
    pub fn take(&mut self, node: u32, piece: &[u8]) -> Option<Word> {
        let (is_last, piece) = piece.split_first()?;
        let kept = self.0.entry(node).or_default();
        if kept.len() + piece.len() <= MESSAGE_BYTES_MAX {
            kept.extend_from_slice(piece);
        }
        (*is_last == 1).then(|| self.0.remove(&node)).flatten().and_then(|bytes| codec::decode(&bytes).ok())
    }
}

#[cfg(test)]
mod tests;
