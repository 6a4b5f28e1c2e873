//! The rank as a deputy: locks whose keeper is on another node, for the ranks of its own.

use super::keeper;
use super::knowledge::Knowledge;
use super::mail::Mail;
use crate::core::message::{Call, Message};
use crate::core::sync::{Granted, Place};
use crate::core::time::VectorTime;
use crate::core::token::{Step, Tokens};
use crate::core::violation::Violation;

/// Which ranks are asked for locks, and the locks of which this rank is the deputy.
#[derive(Debug)]
pub(super) struct Deputy {
    nodes: usize,
    /// Ranks of this node that hand locks over among themselves; none: they ask the keepers.
    mates: Vec<usize>,
    tokens: Tokens,
    lent: u64,
    passed: u64,
}

impl Deputy {
    pub(super) fn new(nodes: usize) -> Self {
        Deputy { nodes, mates: Vec::new(), tokens: Tokens::new(nodes), lent: 0, passed: 0 }
    }

    /// From now on these ranks, of one node, hand locks over among themselves. Each of them does so.
    pub(super) fn begin(&mut self, mates: Vec<usize>) {
        self.mates = if mates.len() > 1 { mates } else { Vec::new() };
    }

    /// Locks that have come from a keeper of another node, and grants for which none was asked.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.lent, self.passed)
    }

    /// The rank that keeps a lock for all.
    pub(super) fn keeper_of(&self, lock: u64) -> usize {
        (lock % self.nodes as u64) as usize
    }

    /// The rank that this rank asks for a lock.
    pub(super) fn asked_for(&self, lock: u64) -> usize {
        let keeper = self.keeper_of(lock);
        if self.mates.is_empty() || self.mates.contains(&keeper) {
            return keeper;
        }
        self.mates[(lock / self.nodes as u64 % self.mates.len() as u64) as usize]
    }

    /// Gives who waits for locks here, and who has them.
    pub(super) fn visit_queues(&self, visit: &mut impl FnMut(Place)) {
        self.tokens.visit_queues(|lock| self.keeper_of(lock), visit);
    }

    /// Applies a message about a lock that is kept elsewhere; the messages that follow. A rank that has seen
    /// `time` asks, or the keeper answers.
    pub(super) fn apply(
        &mut self,
        from: usize,
        call: Call,
        time: &VectorTime,
        known: &Knowledge,
        mail: &mut Mail,
    ) -> Result<Vec<(usize, Message)>, Violation> {
        let asker = || Granted { node: from, seen: time.clone() };
        let (lock, steps, is_passed) = match call {
            Call::Lock { lock } => (lock, self.tokens.lock(lock, asker())?, true),
            Call::Unlock { lock } => (lock, self.tokens.unlock(lock, from, time)?, true),
            Call::Lend { lock, is_wanted } => {
                mail.told(from).join(time);
                let steps = self.tokens.lend(lock, time, is_wanted).unwrap_or_default();
                self.lent += 1;
                (lock, steps, false)
            }
            Call::Recall { lock } => (lock, self.tokens.recall(lock), false),
            _ => unreachable!("a keeper is asked for the rest"),
        };
        let keeper = self.keeper_of(lock);
        let mut messages = Vec::new();
        for step in steps {
            messages.push(match step {
                Step::Grant(granted, time) => {
                    self.passed += u64::from(is_passed);
                    keeper::answer(granted, Call::Grant { value: 0 }, &time, known)
                }
                Step::Borrow => (keeper, Message::new(Call::Borrow { lock }, known.seen().clone())),
                Step::Return(time) => (keeper, returned(lock, keeper, time, known, mail)),
            });
        }
        Ok(messages)
    }
}

/// A lock goes back to its keeper, with the notices that it lacks of what the ranks of this node have seen.
fn returned(lock: u64, keeper: usize, time: VectorTime, known: &Knowledge, mail: &mut Mail) -> Message {
    let told = mail.told(keeper);
    let mut parts = known.since(told, &time);
    told.join(&time);
    if mutated!(ReturnedWithoutNotices) {
        parts.clear();
    }
    Message { parts, ..Message::new(Call::Return { lock }, time) }
}
