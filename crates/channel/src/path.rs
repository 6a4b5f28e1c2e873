//! Whether long datagrams get through to the other side of a flow. A path may become narrower than the nodes
//! have agreed on, or never have been so wide, and a switch or a router may say nothing of what it drops;
//! short datagrams, and so all questions and their answers, go on getting through.
//!
//! ```text
//!          a long one vanished TIMES_MAX times            PathAnswer
//!   wide ------------------------------------> narrow ----------------> wide
//!                                               |  ^ every TRIAL_NS, while there is something to send:
//!                                               '--' a PathProbe, as long as a datagram can be
//! ```
//!
//! *Vanished*: the other side has answered and it was not there, although it was sent again each time. On a
//! narrow path long datagrams travel in pieces ([`crate::pieces`]). Each side finds out for what it sends
//! itself.

use crate::types::Seq;

/// One datagram in ten is lost in a bad network; one in 100,000 is then taken for one that cannot get
/// through, which costs time only.
pub(crate) const TIMES_MAX: u32 = 5;
/// How often a long one is tried.
const TRIAL_NS: u64 = 10_000_000_000;

/// State of the path to the other side, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    narrow: bool,
    /// The record that the stream goes back to, and how often it has to the same.
    una: Seq,
    times: u32,
    /// Number of the last trial, and when the next is due.
    trial: u32,
    trial_at: u64,
    /// Number of the next datagram that is cut.
    pub number: u32,
}

impl Path {
    pub(crate) fn new(first: Seq) -> Self {
        Path { narrow: false, una: first, times: 0, trial: 0, trial_at: 0, number: 0 }
    }

    /// Long datagrams are to be cut.
    #[inline]
    pub(crate) fn is_narrow(&self) -> bool {
        self.narrow
    }

    /// The long datagram that begins with record `una` was not there. Whether it cannot get through.
    pub(crate) fn has_vanished(&mut self, una: Seq) -> bool {
        self.times = if self.una == una { self.times + 1 } else { 1 };
        self.una = una;
        self.times >= TIMES_MAX
    }

    /// Whether that is news.
    pub(crate) fn become_narrow(&mut self, now_ns: u64) -> bool {
        self.times = 0;
        self.trial_at = now_ns + TRIAL_NS;
        !std::mem::replace(&mut self.narrow, true)
    }

    /// Number of a trial, if one is due.
    pub(crate) fn poll_trial(&mut self, now_ns: u64) -> Option<u32> {
        if !self.narrow || now_ns < self.trial_at {
            return None;
        }
        self.trial_at = now_ns + TRIAL_NS;
        self.trial = self.trial.wrapping_add(1);
        Some(self.trial)
    }

    /// A trial has got through.
    pub(crate) fn handle_answer(&mut self, echo: u32) {
        if echo == self.trial {
            self.narrow = false;
        }
    }

    /// The rank was frozen, or its clock has jumped: at most the usual time from now on. A thaw alone, of
    /// which there may be many in a second, puts nothing off.
    pub(crate) fn rearm(&mut self, now_ns: u64) {
        self.trial_at = self.trial_at.min(now_ns + TRIAL_NS);
    }
}
