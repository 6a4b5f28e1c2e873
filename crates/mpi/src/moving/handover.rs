//! Word of a rank that moves to its successor.

use super::said::{bytes_of, words_of};
use crate::engine::moved::Waiting;

/// Word of a rank to its successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Refusal of all moves: the successor is not needed.
    Withdrawn,
    /// Place of the successor.
    Place(Place),
}

/// Place that a successor takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Context of MPI_COMM_WORLD.
    pub context: u32,
    /// How far its members have counted.
    pub counts: [u32; 3],
    /// Members of MPI_COMM_WORLD, by their numbers in the job.
    pub members: Vec<u32>,
    /// Bytes of the state, which follows if there are any.
    pub state_bytes: u64,
    /// Messages of MPI_COMM_WORLD that wait for their receives, each sender's in order.
    pub waiting: Vec<Waiting>,
}

const WITHDRAWN: u32 = 0;
const PLACE: u32 = 1;

impl Word {
    /// As it travels.
    pub(super) fn encode(&self) -> Vec<u32> {
        let place = match self {
            Word::Withdrawn => return vec![WITHDRAWN],
            Word::Place(place) => place,
        };
        let bytes = place.state_bytes;
        let mut words = vec![PLACE, place.rank, place.context, bytes as u32, (bytes >> 32) as u32];
        words.extend(place.counts);
        words.extend([place.members.len() as u32, place.waiting.len() as u32]);
        words.extend(&place.members);
        for message in &place.waiting {
            words.extend([message.from, message.channel, message.tag as u32, message.data.len() as u32]);
            words.extend(words_of(&message.data));
        }
        words
    }

    /// Reads it; none: it is no such word.
    pub(super) fn decode(words: &[u32]) -> Option<Self> {
        let mut rest = words;
        let [kind] = take(&mut rest)?;
        if kind == WITHDRAWN && rest.is_empty() {
            return Some(Word::Withdrawn);
        }
        let [rank, context, low, high] = take(&mut rest)?;
        let (counts, [members, waiting]) = (take(&mut rest)?, take(&mut rest)?);
        let (members, behind) = rest.split_at_checked(members as usize)?;
        rest = behind;
        let message = |rest: &mut &[u32]| {
            let [from, channel, tag, bytes] = take(rest)?;
            let (data, behind) = rest.split_at_checked((bytes as usize).div_ceil(4))?;
            *rest = behind;
            Some(Waiting { from, channel, tag: tag as i32, data: bytes_of(data, bytes as usize).into() })
        };
        let waiting = (0..waiting).map(|_| message(&mut rest)).collect::<Option<_>>()?;
        let state_bytes = u64::from(low) | u64::from(high) << 32;
        let place = Place { rank, context, counts, members: members.to_vec(), state_bytes, waiting };
        (kind == PLACE && rest.is_empty()).then_some(Word::Place(place))
    }
}

fn take<const N: usize>(rest: &mut &[u32]) -> Option<[u32; N]> {
    let (words, behind) = rest.split_at_checked(N)?;
    *rest = behind;
    words.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handover_round_trips_and_a_part_of_it_is_refused() {
        let message = |from, tag, bytes: usize| Waiting {
            from,
            channel: 0,
            tag,
            data: (0..bytes).map(|byte| byte as u8).collect(),
        };
        let place = Place {
            rank: 1,
            context: 600,
            counts: [1, 2, 3],
            members: vec![0, 5, 2],
            state_bytes: 5 << 32 | 7,
            waiting: vec![message(0, 3, 0), message(2, -1, 5), message(2, 4, 4)],
        };
        for word in [Word::Withdrawn, Word::Place(place)] {
            let words = word.encode();
            assert_eq!(Word::decode(&words), Some(word));
            assert_eq!(Word::decode(&[&words[..], &[0]].concat()), None);
            for end in 0..words.len() {
                assert_eq!(Word::decode(&words[..end]), None, "{end} words");
            }
        }
    }
}
