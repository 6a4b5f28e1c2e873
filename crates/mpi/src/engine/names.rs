//! Published names ([`tutti_shm::names`]), as the ranks of a job reach them.
//!
//! The table lies on the node of rank 0. Ranks of that node work on it at once. Others send rank 0 a record
//! with a number, and the answer has the same one. Whoever looks at the network for rank 0 answers, its
//! service thread too: nobody waits for a rank that computes. A rank 0 that has left the job answers nothing;
//! its starter says that it has left.

use std::collections::HashMap;

use tutti_runtime::wrong::Wrong;
use tutti_shm::envelope::{Head, NAMED};
use tutti_shm::names::{Names, Question, Refusal};

/// The rank that answers for the table.
pub(super) const KEEPER: usize = 0;

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The table does not allow it.
    Refused(Refusal),
    /// Rank 0, which keeps the table, has left the job.
    Gone,
}

/// Answer to a question: the name of the port that was looked up.
pub type Answer = Result<Vec<u8>, NoAnswer>;

/// Questions between nodes.
#[derive(Debug)]
pub(super) struct Questions {
    /// The table of this node.
    names: Names,
    /// Number of the last question of this rank.
    last: u32,
    /// By the numbers of the questions; none that has not come.
    answers: HashMap<u32, Option<Answer>>,
    keeper_has_left: bool,
}

impl Questions {
    pub(super) fn new(names: Names) -> Self {
        Questions { names, last: 0, answers: HashMap::new(), keeper_has_left: false }
    }

    /// A number for a question of ours.
    pub(super) fn next_number(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.answers.insert(self.last, None);
        self.last
    }

    /// The answer to a question of rank `from`, as a record; none to what is no question.
    pub(super) fn answer(&self, from: usize, head: &Head, data: &[u8]) -> Option<(Head, Vec<u8>)> {
        let question = Question::decode(head.tag, head.length, data)?;
        let (tag, port) = match self.names.answer(from as u32, question) {
            Ok(port) => (0, port),
            Err(refusal) => (refusal as i32, Vec::new()),
        };
        let length = port.len() as u64;
        Some((Head { kind: NAMED, number: head.number, tag, length, ..Head::default() }, port))
    }

    /// The answer to a question of ours.
    pub(super) fn take_answer(&mut self, from: usize, head: &Head, data: &[u8]) -> Result<(), Wrong> {
        let place = self.answers.get_mut(&head.number).filter(|place| from == KEEPER && place.is_none());
        let place = place.ok_or(Wrong::Answer)?;
        let answer = match Refusal::from_code(head.tag) {
            Some(refusal) => Err(NoAnswer::Refused(refusal)),
            None => Ok(data.to_vec()),
        };
        *place = Some(answer);
        Ok(())
    }

    /// A rank has left the job.
    pub(super) fn handle_exit(&mut self, rank: usize) {
        self.keeper_has_left |= rank == KEEPER;
    }

    /// The answer under a number, when it is there.
    pub(super) fn poll(&mut self, number: u32) -> Option<Answer> {
        let is_over = self.keeper_has_left || self.answers.get(&number).is_some_and(Option::is_some);
        is_over.then(|| self.answers.remove(&number).flatten().unwrap_or(Err(NoAnswer::Gone)))
    }
}
