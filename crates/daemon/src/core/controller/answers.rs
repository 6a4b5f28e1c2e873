//! Answers of the controller that are remembered: the same question again has the same answer.

use std::collections::VecDeque;

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
    answers: VecDeque<(Requester, Answer)>,
}

impl Answers {
    pub(super) fn remember(&mut self, requester: Requester, answer: Answer) {
        self.answers.push_back((requester, answer));
        if self.answers.len() > ANSWERS_MAX {
            self.answers.pop_front();
        }
    }

    /// Answer that was given to this question.
    pub(super) fn get(&self, requester: Requester) -> Option<&Answer> {
        self.answers.iter().rev().find(|(known, _)| *known == requester).map(|(_, answer)| answer)
    }
}
