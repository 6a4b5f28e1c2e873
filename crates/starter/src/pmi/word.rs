//! Words of the PMI servers of a job on several nodes to each other about ranks that were started later, and
//! about published names; and what its PMIx servers tell each other. A word travels as an Ask
//! ([`crate::spawning`]): the hub gives all of them to all starters, in the same order, and knows when all
//! have taken one.
//!
//! ```text
//! NO_RANK, kind, numbers, texts     (an Ask of a rank of ours begins with its number in the world)
//! ```

use super::spawning::Pair;

/// Where an Ask has the number of the rank that asks.
const NO_RANK: u32 = u32::MAX;
/// Keys and values of one word; more are told by several.
pub const PUTS_BYTES_MAX: usize = 64 << 10;
/// Of a word in all: what the hub takes.
const WORD_BYTES_MAX: usize = 130 << 10;

/// A word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// A rank wants more processes: what they find in their store (over PMIx: the number of a program, and a
    /// variable of it), and the Ask of a rank.
    Spawn(Vec<Pair>, Vec<u8>),
    /// All ranks of a group that are on this node are in this barrier.
    Fence {
        /// The order that has started the group.
        group: u32,
        /// Number of the barrier, from 1.
        number: u32,
        /// The node.
        node: u32,
        /// Whether nothing more of this node follows.
        is_last: bool,
        /// Data that they have put since the last one, or a part of it.
        puts: Vec<u8>,
    },
    /// A name for a port.
    Publish {
        /// Number of the rank in the job.
        rank: u32,
        /// The name.
        service: Vec<u8>,
        /// The port.
        port: Vec<u8>,
    },
    /// A name is none any more.
    Unpublish {
        /// Number of the rank in the job.
        rank: u32,
        /// The name.
        service: Vec<u8>,
    },
    /// A piece of what the PMIx server of a node tells the others.
    Pmix {
        /// The node.
        node: u32,
        /// The piece.
        piece: Vec<u8>,
    },
    /// Ranks that the job began with have ended well without MPI_Init: the number of each in the job, and its
    /// pid.
    Absent(Vec<(u32, u32)>),
}

impl Word {
    /// As it travels; none when it is too long.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = NO_RANK.to_le_bytes().to_vec();
        let mut put = |kind: u32, numbers: &[u32], texts: &[&[u8]]| {
            out.extend(kind.to_le_bytes());
            numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
            for text in texts {
                out.extend((text.len() as u32).to_le_bytes());
                out.extend_from_slice(text);
            }
        };
        match self {
            Word::Spawn(preput, ask) => {
                let pairs = preput.iter().flat_map(|(key, value)| [&key[..], &value[..]]);
                let texts: Vec<&[u8]> = pairs.chain([&ask[..]]).collect();
                put(0, &[preput.len() as u32], &texts);
            }
            Word::Fence { group, number, node, is_last, puts } => {
                put(1, &[*group, *number, *node, u32::from(*is_last)], &[puts]);
            }
            Word::Publish { rank, service, port } => put(2, &[*rank], &[service, port]),
            Word::Unpublish { rank, service } => put(3, &[*rank], &[service]),
            Word::Pmix { node, piece } => put(4, &[*node], &[piece]),
            Word::Absent(ranks) => {
                let numbers = ranks.iter().flat_map(|(rank, pid)| [*rank, *pid]);
                let numbers: Vec<u32> = std::iter::once(ranks.len() as u32).chain(numbers).collect();
                put(5, &numbers, &[]);
            }
        }
        (out.len() <= WORD_BYTES_MAX).then_some(out)
    }

    /// Whether an Ask is a word.
    pub fn is_in(ask: &[u8]) -> bool {
        ask.starts_with(&NO_RANK.to_le_bytes())
    }

    /// Reads one.
    pub fn decode(ask: &[u8]) -> Option<Self> {
        let mut rest = ask.strip_prefix(&NO_RANK.to_le_bytes())?;
        let rest = &mut rest;
        let word = match number(rest)? {
            0 => {
                // Each takes bytes, so the word bounds their number.
                let pairs = number(rest)?;
                let preput = (0..pairs).map(|_| Some((text(rest)?, text(rest)?))).collect::<Option<_>>()?;
                Word::Spawn(preput, text(rest)?)
            }
            1 => {
                let (group, fence, node) = (number(rest)?, number(rest)?, number(rest)?);
                let is_last = number(rest)? != 0;
                Word::Fence { group, number: fence, node, is_last, puts: text(rest)? }
            }
            2 => Word::Publish { rank: number(rest)?, service: text(rest)?, port: text(rest)? },
            3 => Word::Unpublish { rank: number(rest)?, service: text(rest)? },
            4 => Word::Pmix { node: number(rest)?, piece: text(rest)? },
            5 => {
                // Each takes bytes, so the word bounds their number.
                let ranks = number(rest)?;
                let of_one = |_| Some((number(rest)?, number(rest)?));
                Word::Absent((0..ranks).map(of_one).collect::<Option<_>>()?)
            }
            _ => return None,
        };
        rest.is_empty().then_some(word)
    }
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u32::from_le_bytes(*bytes))
}

fn text(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let length = number(rest)? as usize;
    let (text, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(text.to_vec())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pmi_words_are_read_as_they_were_written() {
        let name = || b"a name".to_vec();
        for word in [
            Word::Spawn(vec![(name(), b"x".to_vec()), (Vec::new(), name())], b"ask".to_vec()),
            Word::Fence { group: 3, number: 7, node: 1, is_last: true, puts: b"keys".to_vec() },
            Word::Fence { group: 3, number: 7, node: 1, is_last: false, puts: Vec::new() },
            Word::Publish { rank: 5, service: name(), port: b"p".to_vec() },
            Word::Unpublish { rank: 5, service: name() },
            Word::Pmix { node: 2, piece: name() },
            Word::Absent(vec![(3, 77), (5, 80)]),
        ] {
            let ask = word.encode().expect("short");
            assert!(Word::is_in(&ask));
            assert_eq!(Word::decode(&ask).as_ref(), Some(&word));
            assert_eq!(Word::decode(&ask[..ask.len() - 1]), None, "{word:?}");
        }
        assert_eq!(Word::Unpublish { rank: 0, service: vec![0; WORD_BYTES_MAX] }.encode(), None);
    }

    proptest! {
        #[test]
        fn pmi_words_of_any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Word::decode(&[&NO_RANK.to_le_bytes()[..], &bytes].concat());
        }
    }
}
