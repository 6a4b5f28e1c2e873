//! Word of a rank that moves to its successor.

use super::words::{put_bytes, put_list, take, take_all, take_bytes, take_list};
use super::{files, membership, types};
use crate::abi::MPI_Group;
use crate::comm::moved::{HeldGroup, Membership};
use crate::datatype::moved::HeldTypes;
use crate::engine::moved::Waiting;
use crate::file::moved::{HeldFile, Opening};

/// Word of a rank to its successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Refusal of all moves: the successor is not needed.
    Withdrawn,
    /// Files that the successor opens; it answers whether it can.
    Files(Vec<Opening>),
    /// Place of the successor.
    Place(Place),
}

/// Place that a successor takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Places in communicators, that in MPI_COMM_WORLD first.
    pub memberships: Vec<Membership>,
    /// Groups that the program has handles of.
    pub groups: Vec<HeldGroup>,
    /// Datatypes of the program.
    pub types: HeldTypes,
    /// Open files, in the order of [`Word::Files`].
    pub files: Vec<HeldFile>,
    /// Bytes of the state, which follows if there are any.
    pub state_bytes: u64,
    /// Messages that wait for their receives, each sender's in order.
    pub waiting: Vec<Waiting>,
}

const WITHDRAWN: u32 = 0;
const PLACE: u32 = 1;
const FILES: u32 = 2;

impl Word {
    /// As it travels.
    pub(super) fn encode(&self) -> Vec<u32> {
        let place = match self {
            Word::Withdrawn => return vec![WITHDRAWN],
            Word::Files(openings) => {
                let mut words = vec![FILES, openings.len() as u32];
                openings.iter().for_each(|opening| files::put_opening(&mut words, opening));
                return words;
            }
            Word::Place(place) => place,
        };
        let bytes = place.state_bytes;
        let mut words = vec![PLACE, bytes as u32, (bytes >> 32) as u32];
        words.extend([place.memberships.len(), place.groups.len(), place.waiting.len()].map(|n| n as u32));
        place.memberships.iter().for_each(|membership| membership::put(&mut words, membership));
        for (handle, members) in &place.groups {
            words.push(handle.0 as u32);
            put_list(&mut words, members.iter().copied());
        }
        types::put(&mut words, &place.types);
        words.push(place.files.len() as u32);
        place.files.iter().for_each(|file| files::put_file(&mut words, file));
        for message in &place.waiting {
            words.extend([message.from, message.context, message.tag as u32]);
            put_bytes(&mut words, &message.data);
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
        if kind == FILES {
            let [number] = take(&mut rest)?;
            let openings = take_all(&mut rest, number, files::take_opening)?;
            return rest.is_empty().then_some(Word::Files(openings));
        }
        let [low, high, memberships, groups, waiting] = take(&mut rest)?;
        let memberships = take_all(&mut rest, memberships, membership::take)?;
        let groups = take_all(&mut rest, groups, take_group)?;
        let types = types::take_types(&mut rest)?;
        let [number] = take(&mut rest)?;
        let files = take_all(&mut rest, number, files::take_file)?;
        let waiting = take_all(&mut rest, waiting, take_message)?;
        let state_bytes = u64::from(low) | u64::from(high) << 32;
        let place = Place { memberships, groups, types, files, state_bytes, waiting };
        (kind == PLACE && rest.is_empty()).then_some(Word::Place(place))
    }
}

fn take_group(rest: &mut &[u32]) -> Option<HeldGroup> {
    let [handle] = take(rest)?;
    Some((MPI_Group(handle as usize), take_list(rest)?))
}

fn take_message(rest: &mut &[u32]) -> Option<Waiting> {
    let [from, context, tag] = take(rest)?;
    Some(Waiting { from, context, tag: tag as i32, data: take_bytes(rest)?.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::MPI_Datatype;
    use crate::datatype::moved::{HeldLayout, HeldType};

    #[test]
    fn handover_round_trips_and_a_part_of_it_is_refused() {
        let message = |from, tag, bytes: usize| Waiting {
            from,
            context: 600,
            tag,
            data: (0..bytes).map(|byte| byte as u8).collect(),
        };
        let layout = |combiner, types| HeldLayout {
            handle: None,
            combiner,
            integers: vec![3, -1],
            addresses: vec![-1 << 40, 5],
            counts: vec![1 << 35],
            types,
        };
        let leaf = HeldLayout { handle: Some(40), ..HeldLayout::default() };
        let vector = |handle, layout, is_committed, name: &[u8]| HeldType {
            handle: MPI_Datatype(handle),
            layout,
            is_committed,
            name: name.to_vec(),
        };
        let place = Place {
            memberships: membership::tests::some(),
            groups: vec![(MPI_Group(77), vec![3, 1]), (MPI_Group(78), vec![2])],
            types: HeldTypes {
                layouts: vec![leaf, layout(2, vec![0]), layout(9, vec![1, 0])],
                types: vec![vector(5000, 1, true, b"plane"), vector(5001, 2, false, b"")],
            },
            files: vec![files::tests::held()],
            state_bytes: 5 << 32 | 7,
            waiting: vec![message(0, 3, 0), message(2, -1, 5), message(2, 4, 4)],
        };
        let openings = vec![files::tests::opening(), files::tests::opening()];
        for word in [Word::Withdrawn, Word::Files(openings), Word::Place(place)] {
            let words = word.encode();
            assert_eq!(Word::decode(&words), Some(word));
            assert_eq!(Word::decode(&[&words[..], &[0]].concat()), None);
            for end in 0..words.len() {
                assert_eq!(Word::decode(&words[..end]), None, "{end} words");
            }
        }
    }
}
