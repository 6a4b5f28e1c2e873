//! Network context of the ranks of a node: what a strict switch copies at SAVE, and holds against what is
//! there
//! at RESTORE. It is all of their channels that other processes can see: the words of each flow, and the part
//! of its send FIFO that is in use.
//!
//! ```text
//! "TutN"  version (4)  length of what follows (8)
//! key (8)
//! flows: from, to, words, pieces of the FIFO, each with its offset
//! CRC-32 of all before (4)
//! ```
//!
//! When all ranks are frozen and their channels are steady, the contexts of all nodes are the job's network:
//! no record is anywhere else. The rest of an endpoint, its tables of bulk messages and its timers, lies in
//! its
//! rank's own memory and stands still with it. So a context is not written back: where it differs, a process
//! has run or written meanwhile, and only what is there fits the memory of the rank.
//!
//! Words and bytes come from memory that a job can write, so they are taken as hostile: all here is total and
//! bounded.

use std::collections::BTreeMap;

use crate::cut::FlowWords;
use crate::ports::{FlowWord, WORDS};
use crate::save::{HEAD_BYTES, RestoreError, Writer, open};
use crate::types::{Key, Rank};

const MAGIC: [u8; 4] = *b"TutN";
const VERSION: u32 = 1;
/// Pieces in which the used part of a ring lies, at most.
const PIECES: usize = 2;

/// A flow by its ends: rank of this node, rank of another one.
type Ends = (u32, u32);

/// A saved context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context(Vec<u8>);

/// Difference between a saved context and what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// The words of a flow are others.
    #[error("the flow from rank {from} to rank {to} has changed")]
    Words {
        /// Rank of this node.
        from: u32,
        /// Rank of another node.
        to: u32,
    },
    /// A record that waits in the FIFO of a flow is another.
    #[error("a message from rank {from} to rank {to} has changed")]
    Records {
        /// Sender of the message.
        from: u32,
        /// Receiver of the message.
        to: u32,
    },
    /// The saved context is damaged.
    #[error("what was saved cannot be read: {0}")]
    Damaged(RestoreError),
}

/// Writes a context, flow by flow.
#[derive(Debug)]
pub struct ContextWriter(Vec<u8>);

impl ContextWriter {
    /// Begins the context of ranks of a job.
    #[must_use]
    pub fn new(key: Key) -> Self {
        let mut bytes = MAGIC.to_vec();
        let mut writer = Writer(&mut bytes);
        writer.u32(VERSION);
        writer.u64(0);
        writer.u64(key.0);
        ContextWriter(bytes)
    }

    /// Adds the flow of `from`, a rank of this node, to `to`: its words, and its FIFO if any record is in it
    /// ([`is_in_use`]).
    pub fn flow(&mut self, from: Rank, to: Rank, words: &[u64; WORDS], fifo: &[u8]) {
        let mut writer = Writer(&mut self.0);
        writer.u32(from.0);
        writer.u32(to.0);
        words.iter().for_each(|word| writer.u64(*word));
        let pieces = pieces(words, fifo);
        writer.u32(pieces.len() as u32);
        for (offset, bytes) in pieces {
            writer.u32(offset);
            writer.bytes(bytes);
        }
    }

    /// Ends the context.
    #[must_use]
    pub fn finish(mut self) -> Context {
        let length = (self.0.len() - HEAD_BYTES) as u64;
        self.0[8..HEAD_BYTES].copy_from_slice(&length.to_le_bytes());
        let crc = crate::crc32(&self.0);
        self.0.extend_from_slice(&crc.to_le_bytes());
        Context(self.0)
    }
}

impl Context {
    /// How long it is.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// The first difference between this context and what is there by now.
    #[must_use]
    pub fn difference(&self, now: &Context) -> Option<Difference> {
        if self == now && open(&self.0, MAGIC, VERSION).is_ok() {
            return None;
        }
        let (saved, found) = match (self.flows(), now.flows()) {
            (Ok(saved), Ok(found)) => (saved, found),
            (Err(error), _) | (_, Err(error)) => return Some(Difference::Damaged(error)),
        };
        let ends = saved.keys().chain(found.keys());
        let differs = |ends: &&Ends| saved.get(*ends) != found.get(*ends);
        let (from, to) = *ends.into_iter().find(differs)?;
        let words = |flows: &BTreeMap<Ends, SavedFlow<'_>>| flows.get(&(from, to)).map(|flow| flow.words);
        let are_same = words(&saved) == words(&found);
        Some(if are_same { Difference::Records { from, to } } else { Difference::Words { from, to } })
    }

    fn flows(&self) -> Result<BTreeMap<Ends, SavedFlow<'_>>, RestoreError> {
        let mut reader = open(&self.0, MAGIC, VERSION)?;
        let _key = reader.u64()?;
        let mut flows = BTreeMap::new();
        while !reader.0.is_empty() {
            let ends = (reader.u32()?, reader.u32()?);
            let mut words = [0; WORDS];
            for word in &mut words {
                *word = reader.u64()?;
            }
            let count = reader.count(PIECES, "a FIFO is in too many pieces")?;
            let pieces: Result<Vec<_>, RestoreError> =
                (0..count).map(|_| Ok((reader.u32()?, reader.bytes()?))).collect();
            flows.insert(ends, SavedFlow { words, pieces: pieces? });
        }
        Ok(flows)
    }
}

/// A flow of a context.
#[derive(Debug, PartialEq, Eq)]
struct SavedFlow<'a> {
    words: [u64; WORDS],
    pieces: Vec<(u32, &'a [u8])>,
}

/// Whether any record waits in the FIFO of a flow with these words.
#[must_use]
pub fn is_in_use(words: &[u64; WORDS]) -> bool {
    let words = FlowWords::from(*words);
    words.snd_una != words.snd_nxt
}

/// The used part of a FIFO: from its first record to the end of its last, round its end if need be.
fn pieces<'a>(words: &[u64; WORDS], fifo: &'a [u8]) -> Vec<(u32, &'a [u8])> {
    if !is_in_use(words) {
        return Vec::new();
    }
    let offset = |word: FlowWord| ((words[word as usize] >> 32) as usize).min(fifo.len());
    let (first, end) = (offset(FlowWord::SndUna), offset(FlowWord::SndNxt));
    if first < end {
        vec![(first as u32, &fifo[first..end])]
    } else {
        vec![(first as u32, &fifo[first..]), (0, &fifo[..end])]
    }
}

#[cfg(test)]
mod tests;
