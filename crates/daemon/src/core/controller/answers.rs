//! Answers of the controller that are remembered: the same question again has the same answer.

use std::collections::{BTreeMap, VecDeque};

use crate::members::NodeId;
use crate::message::{Answer, User};

/// Answers that are remembered.
const ANSWERS_MAX: usize = 4096;

/// A question: the node that asks it, and its number there.
pub(in crate::core) type Requester = (NodeId, u64);

/// Origin of a question: who asks, and as which user.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Asker {
    pub(in crate::core) requester: Requester,
    pub(in crate::core) user: User,
}

/// The last answers to questions that change something.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The newest answer to each question, and its number.
    answers: BTreeMap<Requester, (u64, Answer)>,
    /// Questions by the numbers of their answers.
    order: VecDeque<(u64, Requester)>,
    next: u64,
}

impl Answers {
    pub(super) fn remember(&mut self, requester: Requester, answer: Answer) {
        self.answers.insert(requester, (self.next, answer));
        self.order.push_back((self.next, requester));
        self.next += 1;
        if self.order.len() > ANSWERS_MAX
            && let Some((number, oldest)) = self.order.pop_front()
            && self.answers.get(&oldest).is_some_and(|(newest, _)| *newest == number)
        {
            self.answers.remove(&oldest);
        }
    }

    /// Answer that was given to this question.
    pub(super) fn get(&self, requester: Requester) -> Option<&Answer> {
        self.answers.get(&requester).map(|(_, answer)| answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::JobId;

    #[test]
    fn answers_keep_the_newest_of_each_question_and_a_bounded_number() {
        let mut answers = Answers::default();
        let of = |number: u64| (NodeId(0), number);
        let known = |answers: &Answers, number| answers.get(of(number)).cloned();
        answers.remember(of(1), Answer::Done);
        answers.remember(of(1), Answer::Job(JobId(7)));
        (2..ANSWERS_MAX as u64).for_each(|number| answers.remember(of(number), Answer::Done));
        assert_eq!(known(&answers, 1), Some(Answer::Job(JobId(7))));
        // The first answer is forgotten, not the second one to the same question.
        answers.remember(of(10_000), Answer::Done);
        assert_eq!(known(&answers, 1), Some(Answer::Job(JobId(7))));
        answers.remember(of(10_001), Answer::Done);
        assert_eq!((known(&answers, 1), known(&answers, 2)), (None, Some(Answer::Done)));
        assert_eq!((answers.answers.len(), answers.order.len()), (ANSWERS_MAX, ANSWERS_MAX));
    }
}
