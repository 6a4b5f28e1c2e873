//! Ends of jobs: in which of a few ways a job has ended, its exit code and the signal that killed a rank,
//! apart from each other. The controller knows them and hands them on with the job's row and in its log;
//! commands decide by them, and show the line of the cause to people alone.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Kind of a job's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndKind {
    /// All ranks have exited with 0.
    Completed,
    /// A rank has ended otherwise, or the job has done what it may not.
    Failed,
    /// A user has ended it.
    Cancelled,
    /// The job has reached its time limit.
    TimeLimit,
    /// The job has used up its memory, or that of its user.
    Memory,
    /// A node or a daemon that it needs was lost.
    NodeLost,
    /// Another job has taken its place (`tutti requeue`).
    Requeued,
    /// A job behind which it was to start has not ended as it had to.
    Dependency,
    /// The ranks waited for each other for ever.
    Deadlock,
    /// The job could not be started.
    NotStarted,
}

impl EndKind {
    /// Word of the wire and of `--json`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            EndKind::Completed => "completed",
            EndKind::Failed => "failed",
            EndKind::Cancelled => "cancelled",
            EndKind::TimeLimit => "time-limit",
            EndKind::Memory => "memory",
            EndKind::NodeLost => "node-lost",
            EndKind::Requeued => "requeued",
            EndKind::Dependency => "dependency",
            EndKind::Deadlock => "deadlock",
            EndKind::NotStarted => "not-started",
        }
    }
}

/// End of a job that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnd {
    /// Kind of the end.
    pub kind: EndKind,
    /// Exit code of the program; 0 where a signal has killed it, or Tutti has ended the job.
    pub code: u8,
    /// Signal that has killed a rank; 0: none.
    pub signal: u8,
    /// User who has cancelled it.
    pub by_uid: Option<u32>,
}

impl fmt::Display for JobEnd {
    /// In one word: `completed`, `failed:3`, `failed:signal-11`, `time-limit`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.word())?;
        match (self.code, self.signal) {
            (0, 0) => Ok(()),
            (code, 0) => write!(f, ":{code}"),
            (_, signal) => write!(f, ":signal-{signal}"),
        }
    }
}

/// Facts that are known of an end while a job ends; the first ones count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    kind: Option<EndKind>,
    by_uid: Option<u32>,
    signal: u8,
}

impl Ending {
    /// Says in which way the job ends, unless that is known.
    pub fn mark(&mut self, kind: EndKind) {
        self.kind.get_or_insert(kind);
    }

    /// Whether it is known to end in this way.
    #[must_use]
    pub fn is(&self, kind: EndKind) -> bool {
        self.kind == Some(kind)
    }

    /// Says that a user ends the job, unless another way is known.
    pub fn cancel(&mut self, uid: u32) {
        if self.kind.is_none() {
            (self.kind, self.by_uid) = (Some(EndKind::Cancelled), Some(uid));
        }
    }

    /// Says which signal has killed a rank first.
    pub fn kill(&mut self, signal: i32) {
        if self.signal == 0 {
            self.signal = u8::try_from(signal).unwrap_or(0);
        }
    }

    /// The end of a job with this exit status.
    #[must_use]
    pub fn end(self, status: u8) -> JobEnd {
        let kind = if status == 0 { EndKind::Completed } else { self.kind.unwrap_or(EndKind::Failed) };
        let is_own = matches!(kind, EndKind::Failed | EndKind::Memory | EndKind::Deadlock);
        let signal = if kind == EndKind::Completed { 0 } else { self.signal };
        let code = if is_own && signal == 0 { status } else { 0 };
        JobEnd { kind, code, signal, by_uid: self.by_uid.filter(|_| kind == EndKind::Cancelled) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_is_that_of_the_first_reason() {
        let mut ending = Ending::default();
        assert_eq!(ending.end(0).kind, EndKind::Completed);
        assert_eq!((ending.end(3).kind, ending.end(3).code), (EndKind::Failed, 3));
        ending.mark(EndKind::TimeLimit);
        ending.cancel(7);
        ending.kill(15);
        ending.kill(9);
        let end = ending.end(124);
        assert_eq!((end.kind, end.code, end.signal, end.by_uid), (EndKind::TimeLimit, 0, 15, None));
    }

    #[test]
    fn end_has_code_and_signal_apart() {
        let mut ending = Ending::default();
        ending.kill(11);
        let end = ending.end(139);
        assert_eq!((end.kind, end.code, end.signal), (EndKind::Failed, 0, 11));
        assert_eq!(
            (end.to_string(), Ending::default().end(3).to_string()),
            ("failed:signal-11".into(), "failed:3".into())
        );
        let mut ending = Ending::default();
        ending.cancel(1000);
        let end = ending.end(137);
        assert_eq!((end.kind, end.code, end.by_uid), (EndKind::Cancelled, 0, Some(1000)));
        assert_eq!(ending.end(0).by_uid, None, "it has ended well all the same");
    }

    #[test]
    fn word_of_a_kind_is_that_of_the_wire() {
        for kind in [EndKind::Completed, EndKind::TimeLimit, EndKind::NotStarted, EndKind::NodeLost] {
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{}\"", kind.word()));
        }
    }
}
