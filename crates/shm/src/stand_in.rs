//! Operations on the memory of a rank that stands still, done by its starter: what the initiator sends, on
//! another node, and what comes back.
//!
//! ```text
//! initiator --QUESTION--> socket of the rank, which its starter reads    nothing: it cannot be done there
//!           <--ANSWER---
//! ```
//!
//! | datagram | content |
//! |---|---|
//! | QUESTION | magic 8, key of the job 8, from 4, to 4, number of the request 8, region 8, its generation 8, record |
//! | ANSWER | magic 8, key of the job 8, number of the request 8, record |
//!
//! The record is that of the operation, as `wire` of the crate rma has it, the answer's that of the answer.
//! The region is named by its number in the rank's directory ([`crate::directory`]).

const QUESTION: u64 = u64::from_le_bytes(*b"TUTTIASK");
const ANSWER: u64 = u64::from_le_bytes(*b"TUTTIANS");
/// Bytes before the record.
const QUESTION_HEAD: usize = 48;
const ANSWER_HEAD: usize = 24;
/// Bytes of a datagram, at most.
pub const DATAGRAM_BYTES_MAX: usize = 65507;
/// Bytes of a record that is asked for, at most; its answer is no longer.
pub const RECORD_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - QUESTION_HEAD;

/// Place of a region, as mates look it up ([`crate::directory`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the region in the directory of its rank.
    pub region: u64,
    /// Generation of the region.
    pub generation: u64,
}

/// Thing asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// The job's random number.
    pub key: u64,
    /// World rank of the initiator.
    pub from: u32,
    /// World rank of the target.
    pub to: u32,
    /// Requests that the initiator has sent to the target before this one.
    pub number: u64,
    /// The region.
    pub place: Place,
    /// The request.
    pub record: &'a [u8],
}

/// Answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The job's random number.
    pub key: u64,
    /// Number of the question.
    pub number: u64,
    /// The answer to the request.
    pub record: &'a [u8],
}

fn words<const N: usize>(datagram: &[u8]) -> Option<([u64; N], &[u8])> {
    let (head, record) = datagram.split_at_checked(8 * N)?;
    let word = |at: usize| head[8 * at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    Some((std::array::from_fn(word), record))
}

fn datagram(words: &[u64], record: &[u8]) -> Vec<u8> {
    let head = words.iter().flat_map(|word| word.to_le_bytes());
    head.chain(record.iter().copied()).collect()
}

impl<'a> Question<'a> {
    /// As it travels.
    pub fn encode(&self) -> Vec<u8> {
        let ranks = u64::from(self.from) | u64::from(self.to) << 32;
        let Place { region, generation } = self.place;
        datagram(&[QUESTION, self.key, ranks, self.number, region, generation], self.record)
    }

    /// Reads one; none if it is none.
    pub fn decode(datagram: &'a [u8]) -> Option<Self> {
        let ([magic, key, ranks, number, region, generation], record) =
            words::<{ QUESTION_HEAD / 8 }>(datagram)?;
        let place = Place { region, generation };
        let (from, to) = (ranks as u32, (ranks >> 32) as u32);
        (magic == QUESTION).then_some(Question { key, from, to, number, place, record })
    }
}

impl<'a> Answer<'a> {
    /// As it travels.
    pub fn encode(&self) -> Vec<u8> {
        datagram(&[ANSWER, self.key, self.number], self.record)
    }

    /// Reads one; none if it is none.
    pub fn decode(datagram: &'a [u8]) -> Option<Self> {
        let ([magic, key, number], record) = words::<{ ANSWER_HEAD / 8 }>(datagram)?;
        (magic == ANSWER).then_some(Answer { key, number, record })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_in_datagrams_come_back_as_they_were() {
        let place = Place { region: 4095, generation: u64::MAX };
        let question = Question { key: 7, from: 1, to: u32::MAX, number: 9, place, record: b"record" };
        let sent = question.encode();
        assert_eq!(Question::decode(&sent), Some(question));
        assert_eq!(Answer::decode(&sent), None);
        for length in 0..QUESTION_HEAD {
            assert_eq!(Question::decode(&sent[..length]), None);
        }
        let answer = Answer { key: 7, number: 9, record: &[] };
        assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        assert_eq!(Question::decode(&answer.encode()), None);
    }
}
