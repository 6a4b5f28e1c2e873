//! Fences of all ranks on this node. Their numbers are the same on all nodes, since all ranks are in all of
//! them, one after the other. One that a node gives up is over for all: those that come to it later are not
//! taken for those of the next one.

use std::collections::{BTreeMap, BTreeSet};

/// The fences that are not over.
#[derive(Debug, Default)]
pub struct Fences {
    /// Number of the last one that the ranks of this node have come to.
    last: u32,
    /// Request of each one that the ranks of this node wait in.
    waiting: BTreeMap<u32, u64>,
    /// Fences that other nodes have given up, and the ranks of this node have not come to.
    given_up: BTreeSet<u32>,
}

impl Fences {
    /// Number of the fence that the ranks of this node come to now.
    pub fn next(&self) -> u32 {
        self.last + 1
    }

    /// The ranks of this node are in a fence, which has this request; `false`: it has been given up.
    pub fn begin(&mut self, number: u32, request: u64) -> bool {
        self.last = number;
        let is_over = self.given_up.remove(&number);
        if !is_over {
            self.waiting.insert(number, request);
        }
        !is_over
    }

    /// All nodes are in a fence: gives its request, if it is not over yet.
    pub fn end(&mut self, number: u32) -> Option<u64> {
        self.waiting.remove(&number)
    }

    /// A node has given up a fence: gives the request that waits in it here.
    pub fn give_up(&mut self, number: u32) -> Option<u64> {
        if number > self.last {
            self.given_up.insert(number);
        }
        self.waiting.remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fence_that_another_node_has_given_up_is_over_when_the_ranks_come() {
        let mut fences = Fences::default();
        assert_eq!(fences.give_up(2), None);
        assert_eq!((fences.next(), fences.begin(1, 10)), (1, true));
        assert_eq!((fences.next(), fences.begin(2, 11)), (2, false));
        assert_eq!((fences.next(), fences.begin(3, 12)), (3, true));
        assert_eq!((fences.end(2), fences.end(1), fences.end(1)), (None, Some(10), None));
        assert_eq!((fences.give_up(3), fences.end(3)), (Some(12), None));
        // It was over before.
        assert_eq!((fences.give_up(1), fences.given_up.len()), (None, 0));
    }
}
