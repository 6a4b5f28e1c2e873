//! Locks that are lent to a node: its ranks hand them over without their keeper. One rank of the node, the
//! deputy of the lock, is asked in place of the keeper when that is on another node.
//!
//! ```text
//! rank --Lock---> deputy --Borrow-> keeper    the token is on another node
//!                 deputy <--Lend--- keeper    with the time and the notices of those who had the lock
//! rank <-Grant--- deputy
//! rank --Unlock-> deputy --Grant--> the next rank of the node, with the time of who released
//!                 deputy <-Recall-- keeper    others wait
//!                 deputy --Return-> keeper    with time and notices: no rank of the node waits, or enough
//!                                             have had the lock since
//! ```
//!
//! | token | holder | queue | leads to |
//! |---|---|---|---|
//! | away | none | not empty | one Borrow, until Lend comes |
//! | here | none | empty | nothing: the next rank of the node gets it at once |
//! | here, wanted | none | empty, or [`PASSES_MAX`] were served | Return, and Borrow for those in the queue |
//! | here | a rank | any | nothing until its Unlock |
//!
//! A Recall may meet its Return on the way. It comes before the next Lend, so it finds the token away, and
//! counts for nothing.

use std::collections::{BTreeMap, VecDeque};

use super::sync::{Granted, Place};
use super::time::VectorTime;
use super::violation::Violation;

/// Ranks of a node that get a lock while other nodes wait for it.
pub const PASSES_MAX: u32 = 16;

/// Step of a deputy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A rank of the node gets the lock, and sees this time.
    Grant(Granted, VectorTime),
    /// The keeper is asked for the token.
    Borrow,
    /// The keeper gets the token, and the time of those who had the lock.
    Return(VectorTime),
}

/// Place of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Away,
    Asked,
    Here { is_wanted: bool, passes: u32 },
}

#[derive(Debug)]
struct Token {
    state: State,
    holder: Option<usize>,
    queue: VecDeque<Granted>,
    time: VectorTime,
}

/// Locks of which this rank is the deputy.
#[derive(Debug)]
pub struct Tokens {
    nodes: usize,
    tokens: BTreeMap<u64, Token>,
}

impl Tokens {
    /// No tokens, in a job of so many ranks.
    pub fn new(nodes: usize) -> Self {
        Tokens { nodes, tokens: BTreeMap::new() }
    }

    /// A rank of the node wants a lock.
    ///
    /// # Errors
    /// When it has it.
    pub fn lock(&mut self, lock: u64, asker: Granted) -> Result<Vec<Step>, Violation> {
        let nodes = self.nodes;
        let token = self.tokens.entry(lock).or_insert_with(|| Token {
            state: State::Away,
            holder: None,
            queue: VecDeque::new(),
            time: VectorTime::zero(nodes),
        });
        if token.holder == Some(asker.node) {
            return Err(Violation::HeldAlready { lock, node: asker.node });
        }
        token.queue.push_back(asker);
        Ok(token.advance())
    }

    /// A rank of the node gives a lock back, with its time.
    ///
    /// # Errors
    /// When it does not have it.
    pub fn unlock(&mut self, lock: u64, node: usize, time: &VectorTime) -> Result<Vec<Step>, Violation> {
        let token = self.tokens.get_mut(&lock).filter(|token| token.holder.is_some());
        let Some(token) = token else { return Err(Violation::NotHeldHere { lock, node }) };
        if token.holder != Some(node) {
            return Err(Violation::NotHeld { lock, node, holder: token.holder });
        }
        if !mutated!(PassedWithoutTime) {
            token.time.join(time);
        }
        token.holder = None;
        Ok(token.advance())
    }

    /// The token comes, with the time of those who had the lock. `is_wanted`: others wait behind this node.
    /// None: it was not asked for.
    pub fn lend(&mut self, lock: u64, time: &VectorTime, is_wanted: bool) -> Option<Vec<Step>> {
        let token = self.tokens.get_mut(&lock).filter(|token| token.state == State::Asked)?;
        token.state = State::Here { is_wanted, passes: 0 };
        token.time.join(time);
        Some(token.advance())
    }

    /// Other nodes wait for a lock.
    pub fn recall(&mut self, lock: u64) -> Vec<Step> {
        let Some(token) = self.tokens.get_mut(&lock) else { return Vec::new() };
        if let State::Here { is_wanted, .. } = &mut token.state {
            *is_wanted = !mutated!(RecallIgnored);
        }
        token.advance()
    }

    /// Gives who waits for a lock here, and who has it; the keeper waits for those that are lent.
    pub fn visit_queues(&self, keeper_of: impl Fn(u64) -> usize, visit: &mut impl FnMut(Place)) {
        for (&lock, token) in &self.tokens {
            let keeper = keeper_of(lock);
            let is_away = !matches!(token.state, State::Here { .. });
            let Some(holder) = token.holder.or(is_away.then_some(keeper)) else { continue };
            let place = |asker| Place { lock, holder, asker, is_deputy: is_away };
            token.queue.iter().for_each(|asker| visit(place(asker.node)));
            if !is_away {
                visit(place(keeper));
            }
        }
    }
}

impl Token {
    fn advance(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        while self.holder.is_none() {
            match &mut self.state {
                State::Here { is_wanted: true, passes } if self.queue.is_empty() || *passes >= PASSES_MAX => {
                    self.state = State::Away;
                    steps.push(Step::Return(self.time.clone()));
                }
                State::Here { is_wanted, passes } => {
                    let Some(next) = self.queue.pop_front() else { break };
                    *passes += u32::from(*is_wanted);
                    self.holder = Some(next.node);
                    steps.push(Step::Grant(next, self.time.clone()));
                }
                State::Away if !self.queue.is_empty() => {
                    self.state = State::Asked;
                    steps.push(Step::Borrow);
                }
                State::Away | State::Asked => break,
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: u64 = 7;

    fn asker(node: usize) -> Granted {
        Granted { node, seen: VectorTime::zero(2) }
    }

    fn time(entry: u32) -> VectorTime {
        VectorTime::from_entries(vec![entry, 0])
    }

    #[test]
    fn token_goes_from_rank_to_rank_with_the_time_of_each() {
        let mut tokens = Tokens::new(2);
        assert_eq!(tokens.lock(LOCK, asker(0)), Ok(vec![Step::Borrow]));
        assert_eq!(tokens.lock(LOCK, asker(1)), Ok(vec![]), "it has been asked for");
        assert_eq!(tokens.lend(LOCK, &time(3), false), Some(vec![Step::Grant(asker(0), time(3))]));
        assert_eq!(tokens.lend(LOCK, &time(3), false), None, "it was not asked for again");
        let already = Violation::HeldAlready { lock: LOCK, node: 0 };
        assert_eq!(tokens.lock(LOCK, asker(0)), Err(already));
        let wrong = Violation::NotHeld { lock: LOCK, node: 1, holder: Some(0) };
        assert_eq!(tokens.unlock(LOCK, 1, &time(0)), Err(wrong));
        assert_eq!(tokens.unlock(LOCK, 0, &time(5)), Ok(vec![Step::Grant(asker(1), time(5))]));
        assert_eq!(tokens.unlock(LOCK, 1, &time(0)), Ok(vec![]), "it stays here");
        assert_eq!(tokens.lock(LOCK, asker(0)), Ok(vec![Step::Grant(asker(0), time(5))]));
        assert_eq!(tokens.recall(LOCK), []);
        assert_eq!(tokens.unlock(LOCK, 0, &time(6)), Ok(vec![Step::Return(time(6))]));
        assert_eq!(tokens.recall(LOCK), [], "it met its answer");
        let wrong = Violation::NotHeldHere { lock: LOCK, node: 0 };
        assert_eq!(tokens.unlock(LOCK, 0, &time(0)), Err(wrong));
    }

    #[test]
    fn token_leaves_a_node_whose_ranks_go_on_wanting_it() {
        let mut tokens = Tokens::new(2);
        assert_eq!(tokens.lock(LOCK, asker(0)), Ok(vec![Step::Borrow]));
        let mut steps = tokens.lend(LOCK, &time(0), false).expect("it was asked for");
        // As long as no other node wants it, nothing is counted.
        for turn in 0..3 * PASSES_MAX as usize {
            assert_eq!(steps, [Step::Grant(asker(turn % 2), time(0))]);
            assert_eq!(tokens.lock(LOCK, asker((turn + 1) % 2)), Ok(vec![]));
            steps = tokens.unlock(LOCK, turn % 2, &time(0)).expect("it holds it");
        }
        assert_eq!(tokens.recall(LOCK), []);
        let mut passes = 0;
        while let [Step::Grant(..)] = steps[..] {
            assert_eq!(tokens.lock(LOCK, asker((passes + 1) % 2)), Ok(vec![]));
            steps = tokens.unlock(LOCK, passes % 2, &time(0)).expect("it holds it");
            passes += 1;
        }
        assert_eq!(steps, [Step::Return(time(0)), Step::Borrow]);
        assert_eq!(passes, PASSES_MAX as usize + 1, "who had it when it was wanted, and those behind");
    }
}
