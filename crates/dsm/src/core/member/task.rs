//! The call of the program that is under way: its steps, and what it waits for.
//!
//! ```text
//! Idle --fault----------------------------> Fault                    --> Idle
//! Idle --unlock, set, clear, free---------> Release                  --> Idle
//! Idle --barrier--------------------------> Release --> Await --> Acquire --> Idle
//! Idle --lock, wait, allocate, touch------> Await --> Acquire        --> Idle
//! ```

use super::stores::Flush;
use crate::core::message::{Call, Message};
use crate::core::page::{Pages, Store};

/// Goal of a call that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// No goal: no call is under way.
    Nothing,
    /// Units, from their home.
    Page {
        /// The home.
        home: usize,
    },
    /// Homes, which have not applied all stores yet.
    Applied,
    /// An answer of the node that keeps a lock, barrier or flag.
    Answer {
        /// The node.
        keeper: usize,
        /// Thing that it keeps.
        asked: Asked,
    },
}

/// Thing that another node is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A lock.
    Lock(u64),
    /// Arrival of all at a barrier.
    Barrier(u64),
    /// Setting of a flag.
    Flag(u64),
    /// Memory, which is given at once.
    Memory,
}

impl Asked {
    pub(super) fn of(call: &Call) -> Self {
        match call {
            Call::Lock { lock } => Asked::Lock(*lock),
            Call::Arrive { barrier, .. } => Asked::Barrier(*barrier),
            Call::Wait { flag } => Asked::Flag(*flag),
            _ => Asked::Memory,
        }
    }
}

/// Access at which the program faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// A load, or an access of which the processor does not say what it is.
    Load,
    /// A store.
    Store(Store),
}

/// Rest of a call.
#[derive(Debug)]
pub(super) enum Task {
    Idle,
    Fault { unit: u32, touch: Touch },
    Release { flush: Flush, then: Request },
    Await { keeper: usize, asked: Asked, is_full: bool },
    Acquire { flush: Flush, drops: Vec<u32>, grant: Message, is_full: bool },
}

impl Task {
    pub(super) fn goal(&self, pages: &Pages) -> Goal {
        match self {
            Task::Idle => Goal::Nothing,
            Task::Fault { unit, .. } => Goal::Page { home: pages.home_of(*unit) },
            Task::Release { .. } | Task::Acquire { .. } => Goal::Applied,
            Task::Await { keeper, asked, .. } => Goal::Answer { keeper: *keeper, asked: *asked },
        }
    }
}

/// A message to a node that keeps something.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) keeper: usize,
    pub(super) call: Call,
    pub(super) is_answered: bool,
    /// All nodes meet: what all have seen may be forgotten.
    pub(super) is_full: bool,
}
