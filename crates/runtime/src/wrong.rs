//! Records of other nodes that no right interface sends. Each is left out and counted by its reason: a rank
//! that has lost its mind, or was taken over, ends no other one and gets nothing by them. Whoever knows the
//! key of a job can still say what is wrong in a right form; that harms only what it shares with the one it
//! says it to.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::log;

/// Fault of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A record that is shorter than its head, or whose content cannot be read.
    Form,
    /// No interface has such records.
    Kind,
    /// A record that does not hold what it announces, or announces more than a message may have.
    Length,
    /// A part of no message, or a message before the last one has ended.
    Order,
    /// An answer to what was not asked.
    Answer,
    /// More than the sender was given credit for, or credit for more than was sent.
    Credit,
}

impl Wrong {
    /// All of them.
    pub const ALL: [Wrong; 6] =
        [Wrong::Form, Wrong::Kind, Wrong::Length, Wrong::Order, Wrong::Answer, Wrong::Credit];

    /// One word for users.
    pub fn name(self) -> &'static str {
        match self {
            Wrong::Form => "form",
            Wrong::Kind => "kind",
            Wrong::Length => "length",
            Wrong::Order => "order",
            Wrong::Answer => "answer",
            Wrong::Credit => "credit",
        }
    }
}

static COUNTS: [AtomicU64; Wrong::ALL.len()] = [const { AtomicU64::new(0) }; Wrong::ALL.len()];

/// A record of a rank is left out. The first one of this process is reported to the user.
#[cold]
pub fn count(from: usize, wrong: Wrong) {
    let is_first = Wrong::ALL.iter().all(|reason| counted(*reason) == 0);
    COUNTS[wrong as usize].fetch_add(1, Relaxed);
    if is_first {
        let reason = wrong.name();
        log::line(format_args!(
            "rank {from} has sent a record that is wrong ({reason}); such records are left out and counted"
        ));
    }
}

/// How many were left out by this process for a reason.
pub fn counted(wrong: Wrong) -> u64 {
    COUNTS[wrong as usize].load(Relaxed)
}
