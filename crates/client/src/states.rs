//! The states of a job, as `tutti ps` shows them and the manual page explains them.

use tutti_protocol::users::{JobRow, JobState};

/// Words that `tutti ps --state` takes.
pub const WORDS: [&str; 7] = ["waiting", "starting", "running", "deadlock", "suspended", "ending", "over"];

/// Meaning of each of [`WORDS`].
pub const MEANINGS: [&str; 7] = [
    "The job has no nodes yet. A line below the table says what it waits for.",
    "The job has nodes, and its ranks are being started.",
    "The ranks run, in turns with those of other jobs.",
    "The job runs, but no rank of it can continue: each waits for another one. \
     A line below the table names a cycle of them.",
    "A user has suspended the job (tutti suspend, Ctrl-Z). It uses no processor until it is resumed.",
    "The job is being ended: its processes are killed, and the rest of its output is written.",
    "The job has ended. Its exit status follows in parentheses. Only --all shows it.",
];

/// The state of a row.
pub fn of(row: &JobRow) -> &'static str {
    match row.state {
        JobState::Running if row.deadlock.is_some() => "deadlock",
        state => word(state),
    }
}

/// The word for a state.
pub fn word(state: JobState) -> &'static str {
    match state {
        JobState::Waiting => "waiting",
        JobState::Starting => "starting",
        JobState::Running => "running",
        JobState::Suspended => "suspended",
        JobState::Ending => "ending",
        JobState::Over => "over",
    }
}
