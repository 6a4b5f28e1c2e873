//! Words that the ranks tell each other before some of them move.

use super::words::{put_bytes, take, take_bytes};
use crate::comm::agreement::Meeting;
use crate::error::Result;
use crate::progress::Progress;

/// Words of a rank in a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// Whether it wishes to move; then, whether it has a successor.
    pub is_set: bool,
    /// Number of the successor in the job.
    pub number: u32,
    /// Objection of the rank; then, why it has no successor.
    pub text: String,
}

/// Longest text of a rank; the rest is cut off.
const TEXT_BYTES_MAX: usize = 1000;

/// Words of all ranks, in their order.
pub(super) fn gather(call: &mut impl Progress, meeting: &Meeting, own: &Said) -> Result<Vec<Said>> {
    let words = meeting.gather_numbers(call, &own.encode())?;
    let mut rest = &words[..];
    Ok((0..meeting.members.len()).map(|_| Said::decode(&mut rest)).collect())
}

impl Said {
    fn encode(&self) -> Vec<u32> {
        let text = &self.text.as_bytes()[..self.text.len().min(TEXT_BYTES_MAX)];
        let mut words = vec![u32::from(self.is_set), self.number];
        put_bytes(&mut words, text);
        words
    }

    /// Takes the words of the next rank.
    ///
    /// # Panics
    /// When they are not there: all ranks run one version of the library.
    fn decode(rest: &mut &[u32]) -> Self {
        let [is_set, number] = take(rest).expect("two words");
        let text = String::from_utf8_lossy(&take_bytes(rest).expect("a text")).into_owned();
        Said { is_set: is_set != 0, number, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_ranks_follow_each_other() {
        let all = [
            Said { is_set: true, number: 7, text: String::new() },
            Said { text: "has an open window".into(), ..Said::default() },
            Said { is_set: true, text: "abcd".into(), ..Said::default() },
        ];
        let words: Vec<u32> = all.iter().flat_map(Said::encode).collect();
        let mut rest = &words[..];
        for said in all {
            assert_eq!(Said::decode(&mut rest), said);
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn text_of_a_rank_is_cut_off() {
        let long = Said { text: "x".repeat(5000), ..Said::default() };
        let words = long.encode();
        assert_eq!(Said::decode(&mut &words[..]).text.len(), TEXT_BYTES_MAX);
    }
}
