//! Requests of the kernel that wait for a lock, and which of them it has interrupted.

use std::collections::{HashMap, VecDeque};

/// Interrupted requests that are remembered though none of the name waits.
const EARLY_MAX: usize = 64;

/// Requests that wait for a lock, by their numbers.
#[derive(Debug, Default)]
pub(super) struct LockWaits {
    /// Whether each has been interrupted.
    waiting: HashMap<u64, bool>,
    /// The last that were interrupted and did not wait: another thread may have read one and not have said
    /// yet that it waits. Requests of other kinds end soon.
    early: VecDeque<u64>,
}

impl LockWaits {
    /// A request waits from now on.
    pub(super) fn begin(&mut self, number: u64) {
        let is_early = self.early.contains(&number);
        self.early.retain(|early| *early != number);
        self.waiting.insert(number, is_early);
    }

    /// A request does not wait any more.
    pub(super) fn end(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// The kernel has interrupted a request.
    pub(super) fn interrupt(&mut self, number: u64) {
        match self.waiting.get_mut(&number) {
            Some(is_interrupted) => *is_interrupted = true,
            None => {
                self.early.push_front(number);
                self.early.truncate(EARLY_MAX);
            }
        }
    }

    /// Whether a request that waits has been interrupted.
    pub(super) fn is_interrupted(&self, number: u64) -> bool {
        self.waiting.get(&number) == Some(&true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_for_a_lock_that_was_interrupted_before_it_began_ends() {
        let mut waits = LockWaits::default();
        for number in 0..1000 {
            waits.interrupt(number);
        }
        waits.begin(999);
        waits.begin(2000);
        assert!(waits.is_interrupted(999) && !waits.is_interrupted(2000));
        waits.interrupt(2000);
        assert!(waits.is_interrupted(2000));
        waits.end(999);
        waits.end(2000);
        assert!(waits.waiting.is_empty() && waits.early.len() < EARLY_MAX);
        // A number that comes again is another request.
        waits.begin(999);
        assert!(!waits.is_interrupted(999));
    }
}
