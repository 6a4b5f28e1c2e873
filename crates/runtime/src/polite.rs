//! A rank that waits with long messages while the network of its node is congested (`TUTTI_POLITE=1`).
//!
//! The board says whether it is: one load. [`crate::net`] asks before it begins to send a long message, and
//! looks again after [`LOOK_NS`]; a rank that waits sleeps meanwhile. After [`HELD_NS_MAX`] one message goes
//! all the same, so nobody waits for ever. Nothing here waits itself.

use tutti_shm::board::Reader;

use crate::board;

/// Variable of the environment that asks for it.
pub const VARIABLE: &str = "TUTTI_POLITE";
/// Between two looks at the board.
const LOOK_NS: u64 = 10_000_000;
/// Longest time for which a message is held back.
const HELD_NS_MAX: u64 = 1_000_000_000;

/// Whether long messages of this process are held back.
#[derive(Debug)]
pub(crate) struct Politeness {
    board: Option<&'static Reader>,
    since_ns: Option<u64>,
}

impl Politeness {
    /// As the environment says; without a board nobody knows of any congestion.
    pub(crate) fn of_environment() -> Self {
        let is_asked = std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
        Politeness { board: is_asked.then(board::of_node).flatten(), since_ns: None }
    }

    /// A long message is to be sent at this monotonic time: whether it waits.
    #[inline]
    pub(crate) fn must_wait(&mut self, now_ns: impl Fn() -> u64) -> bool {
        let Some(board) = self.board else { return false };
        let now_ns = now_ns();
        self.judge(now_ns, board.is_congested(now_ns))
    }

    fn judge(&mut self, now_ns: u64, is_congested: bool) -> bool {
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        let waits = is_congested && now_ns.saturating_sub(since_ns) < HELD_NS_MAX;
        if !waits {
            self.since_ns = None;
        }
        waits
    }

    /// Until the next look; none: nothing is held back.
    #[inline]
    pub(crate) fn look_ns(&self) -> Option<u64> {
        self.since_ns.map(|_| LOOK_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Paper: C25
    #[test]
    fn polite_message_waits_while_the_network_is_congested_but_not_for_ever() {
        let mut politeness = Politeness { board: None, since_ns: None };
        assert!(!politeness.must_wait(|| 5), "without a board");
        assert!(!politeness.judge(5, false) && politeness.look_ns().is_none());
        assert!(politeness.judge(10, true) && politeness.look_ns() == Some(LOOK_NS));
        assert!(politeness.judge(9 + HELD_NS_MAX, true));
        assert!(!politeness.judge(10 + HELD_NS_MAX, true) && politeness.look_ns().is_none());
        assert!(politeness.judge(11 + HELD_NS_MAX, true), "the next one waits too");
        assert!(!politeness.judge(12 + HELD_NS_MAX, false), "and goes as soon as there is room");
    }
}
