//! A job of the cluster as Slurm's commands show it: its state, reason, identifiers and counts.
//!
//! | Tutti | Slurm |
//! |---|---|
//! | waits | PENDING |
//! | starts, runs, *waits for its turn* | RUNNING |
//! | suspended by a user | SUSPENDED |
//! | is being ended | COMPLETING |
//! | over | COMPLETED, FAILED, CANCELLED, TIMEOUT, OUT_OF_MEMORY, NODE_FAIL, by its status and cause |
//!
//! A job whose end is not known is NODE_FAIL, never COMPLETED.

use tutti_client::users;
use tutti_protocol::users::{JobRow, JobState};

use crate::note::{Element, Note};

/// Status of a job that has reached its time limit.
const TIMED_OUT: u8 = 124;

/// A state, by Slurm's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Pending,
    Running,
    Suspended,
    Completing,
    Completed,
    Failed,
    Cancelled,
    Timeout,
    NodeFail,
    OutOfMemory,
}

/// States, with their long and short names.
pub const STATES: [(State, &str, &str); 10] = [
    (State::Pending, "PENDING", "PD"),
    (State::Running, "RUNNING", "R"),
    (State::Suspended, "SUSPENDED", "S"),
    (State::Completing, "COMPLETING", "CG"),
    (State::Completed, "COMPLETED", "CD"),
    (State::Failed, "FAILED", "F"),
    (State::Cancelled, "CANCELLED", "CA"),
    (State::Timeout, "TIMEOUT", "TO"),
    (State::NodeFail, "NODE_FAIL", "NF"),
    (State::OutOfMemory, "OUT_OF_MEMORY", "OOM"),
];

/// States of Slurm that no job has here. They may be asked for.
const OTHERS: [&str; 14] = [
    "BOOT_FAIL",
    "BF",
    "CONFIGURING",
    "CF",
    "DEADLINE",
    "DL",
    "PREEMPTED",
    "PR",
    "REQUEUED",
    "RQ",
    "STOPPED",
    "ST",
    "SPECIAL_EXIT",
    "SE",
];

impl State {
    /// The long name.
    #[must_use]
    pub fn long(self) -> &'static str {
        STATES.iter().find(|(state, _, _)| *state == self).map_or("", |(_, long, _)| long)
    }

    /// The short name.
    #[must_use]
    pub fn short(self) -> &'static str {
        STATES.iter().find(|(state, _, _)| *state == self).map_or("", |(_, _, short)| short)
    }

    /// Whether the job has ended.
    #[must_use]
    pub fn is_over(self) -> bool {
        !matches!(self, State::Pending | State::Running | State::Suspended | State::Completing)
    }
}

/// States by names with commas between them; none: one is no state. `all` is every state.
#[must_use]
pub fn states(text: &str) -> Option<Vec<State>> {
    let mut found = Vec::new();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        let word = word.trim().to_ascii_uppercase();
        if word == "ALL" {
            found.extend(STATES.iter().map(|(state, _, _)| *state));
        } else if let Some((state, _, _)) =
            STATES.iter().find(|(_, long, short)| *long == word || *short == word)
        {
            found.push(*state);
        } else if !OTHERS.contains(&word.as_str()) {
            return None;
        }
    }
    Some(found)
}

/// A job and what was asked for it.
#[derive(Clone, Debug)]
pub struct Job {
    /// Row of the controller.
    pub row: JobRow,
    /// Note of its submission; empty for a job of Tutti's own commands.
    pub asked: Note,
}

impl Job {
    /// A job as the controller says it.
    #[must_use]
    pub fn of(row: JobRow) -> Job {
        let asked = Note::of(row.note()).unwrap_or_default();
        Job { row, asked }
    }

    /// State.
    #[must_use]
    pub fn state(&self) -> State {
        match self.row.state {
            JobState::Waiting => State::Pending,
            JobState::Starting | JobState::Running => State::Running,
            JobState::Suspended => State::Suspended,
            JobState::Ending => State::Completing,
            JobState::Over => self.end_state(),
        }
    }

    fn end_state(&self) -> State {
        let cause = self.row.cause.as_deref().unwrap_or_default();
        match self.row.status {
            None => State::NodeFail,
            Some(0) => State::Completed,
            Some(TIMED_OUT) if cause.contains("time limit") => State::Timeout,
            Some(_) if cause.starts_with("it was killed by ") => State::Cancelled,
            Some(_) if cause.starts_with("dependency failed: ") => State::Cancelled,
            Some(_) if cause.contains("the job's memory on node ") => State::OutOfMemory,
            Some(_) if cause.contains("does not answer any more") => State::NodeFail,
            // TERM or INT that a user sent, and the job has heeded.
            Some(_) if cause.contains(") was sent by ") => State::Cancelled,
            Some(_) => State::Failed,
        }
    }

    /// The user who has cancelled it.
    #[must_use]
    pub fn canceller(&self) -> u32 {
        let cause = self.row.cause.as_deref().unwrap_or_default();
        let name = cause.rsplit(" by ").next().unwrap_or_default();
        let name = name.strip_prefix("user ").unwrap_or(name).trim();
        match name {
            "root" => 0,
            name if name == users::name(self.row.uid) => self.row.uid,
            name => crate::identity::uid_of(name).unwrap_or(self.row.uid),
        }
    }

    /// Why it waits, or how it ended: one word.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self.state() {
            State::Pending => self.waits_for(),
            State::Failed if self.signal() > 0 => "RaisedSignal",
            State::Failed => "NonZeroExitCode",
            State::Timeout => "TimeLimit",
            State::OutOfMemory => "OutOfMemory",
            State::NodeFail => "NodeDown",
            State::Cancelled if self.is_never_satisfied() => "DependencyNeverSatisfied",
            _ => "None",
        }
    }

    fn is_never_satisfied(&self) -> bool {
        self.row.cause.as_deref().is_some_and(|cause| cause.starts_with("dependency failed: "))
    }

    fn waits_for(&self) -> &'static str {
        let waits = self.row.waits.as_deref().unwrap_or_default();
        if let Some(held) = self.row.hold() {
            if held.uid == self.row.uid { "JobHeldUser" } else { "JobHeldAdmin" }
        } else if waits.contains(" is over") || waits.contains("has ended with") {
            // Elements of an array that runs a few at once wait for each other.
            match self.asked.array {
                Some(element) if element.at_once > 0 && self.asked.dependency().is_empty() => {
                    "JobArrayTaskLimit"
                }
                _ => "Dependency",
            }
        } else if waits.is_empty() && !self.asked.dependency().is_empty() {
            "Dependency"
        } else if waits.contains("begin") {
            "BeginTime"
        } else if waits.is_empty() {
            "Priority"
        } else {
            "Resources"
        }
    }

    /// The array's number, or its own.
    #[must_use]
    pub fn array_job(&self) -> u64 {
        self.element().map_or(self.row.job.0, |element| element.job)
    }

    /// The element that it is, with the array's number.
    #[must_use]
    pub fn element(&self) -> Option<Element> {
        let element = self.asked.array?;
        Some(Element { job: if element.job == 0 { self.row.job.0 } else { element.job }, ..element })
    }

    /// `17`, `17_3`.
    #[must_use]
    pub fn id(&self) -> String {
        match self.element() {
            Some(element) => format!("{}_{}", element.job, element.task),
            None => self.row.job.to_string(),
        }
    }

    /// Name that its user gave it, else its command's name.
    #[must_use]
    pub fn name(&self) -> String {
        if !self.row.name.is_empty() {
            return self.row.name.clone();
        }
        let word = self.row.command.split_whitespace().next().unwrap_or_default();
        word.rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// User.
    #[must_use]
    pub fn user(&self) -> String {
        users::name(self.row.uid)
    }

    /// Exit status, without a signal.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self.state() {
            State::Timeout | State::Cancelled | State::NodeFail => 0,
            _ => self.row.status.filter(|_| self.signal() == 0).unwrap_or(0),
        }
    }

    /// The signal by which it ended; 0: none.
    #[must_use]
    pub fn signal(&self) -> u8 {
        match self.state() {
            State::Failed | State::OutOfMemory => {
                self.row.status.map_or(0, |status| status.saturating_sub(128)).min(64)
            }
            State::Cancelled if self.row.started_ms.is_some() => 15,
            _ => 0,
        }
    }

    /// `code:signal`.
    #[must_use]
    pub fn exit(&self) -> String {
        format!("{}:{}", self.code(), self.signal())
    }

    /// Number of nodes: what it has, or wants.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        let placed = self.row.nodes.len() as u64;
        if placed > 0 { placed } else { u64::from(self.asked.size.nodes.max(1)) }
    }

    /// Number of tasks.
    #[must_use]
    pub fn tasks(&self) -> u64 {
        match self.asked.size.tasks {
            Some(tasks) => u64::from(tasks),
            None => (self.row.ranks / u64::from(self.asked.size.cores.unwrap_or(1).max(1))).max(1),
        }
    }

    /// Number of cores: its slots.
    #[must_use]
    pub fn cores(&self) -> u64 {
        self.row.ranks.max(1)
    }

    /// Seconds for which it has run.
    #[must_use]
    pub fn elapsed_s(&self, now_ms: u64) -> u64 {
        let until = if self.state().is_over() { self.row.ended_ms } else { Some(now_ms) };
        let since = self.row.started_ms.zip(until);
        since.map_or(0, |(from, to)| to.saturating_sub(from) / 1000)
    }

    /// The file of its stdout or stderr, as far as it is known.
    #[must_use]
    pub fn file(&self, is_error: bool) -> String {
        let files = &self.row.output;
        let found = if is_error { files.last() } else { files.first() };
        found.map_or_else(|| "/dev/null".into(), |file| file.replace("%%", "%"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A job with these properties in place of the usual ones.
    pub(crate) fn job(number: u64, more: Value) -> Job {
        let mut row = json!({
            "job": number, "uid": 0, "state": "running", "ranks": 2, "nodes": ["n1"], "command": "slurm_script",
            "submitted_ms": 1_000, "started_ms": 2_000, "ended_ms": null, "status": null, "weight": 100,
            "exclusive": false, "memory_bytes": 0, "gang": true, "turns": 0, "waits": null, "pids": []
        });
        for (name, value) in more.as_object().expect("properties") {
            row[name] = value.clone();
        }
        Job::of(serde_json::from_value(row).expect("a row"))
    }

    #[test]
    fn state_of_a_job_is_slurms() {
        let over = |status: Value, cause: &str| {
            job(1, json!({"state": "over", "status": status, "cause": cause, "ended_ms": 9_000}))
        };
        for (job, long, reason, exit) in [
            (job(1, json!({})), "RUNNING", "None", "0:0"),
            (job(1, json!({"state": "starting"})), "RUNNING", "None", "0:0"),
            (
                job(1, json!({"state": "waiting", "waits": "until job 5 is over"})),
                "PENDING",
                "Dependency",
                "0:0",
            ),
            (job(1, json!({"state": "waiting", "waits": "for memory"})), "PENDING", "Resources", "0:0"),
            (job(1, json!({"state": "suspended"})), "SUSPENDED", "None", "0:0"),
            (over(json!(0), ""), "COMPLETED", "None", "0:0"),
            (over(json!(3), "rank 0 exited with status 3"), "FAILED", "NonZeroExitCode", "3:0"),
            (over(json!(137), "rank 0 was killed"), "FAILED", "RaisedSignal", "0:9"),
            (over(json!(124), "it reached its time limit of 1m (--time)"), "TIMEOUT", "TimeLimit", "0:0"),
            (over(json!(124), ""), "FAILED", "NonZeroExitCode", "124:0"),
            (over(json!(137), "it was killed by root"), "CANCELLED", "None", "0:15"),
            (
                over(json!(1), "dependency failed: job 2 has ended with status 1"),
                "CANCELLED",
                "DependencyNeverSatisfied",
                "0:15",
            ),
            (over(Value::Null, ""), "NODE_FAIL", "NodeDown", "0:0"),
            (
                over(json!(137), "rank 0 was killed: the job's memory on node a reached 64 MiB (--memory)"),
                "OUT_OF_MEMORY",
                "OutOfMemory",
                "0:9",
            ),
        ] {
            assert_eq!(
                (job.state().long(), job.reason(), &*job.exit()),
                (long, reason, exit),
                "{:?}",
                job.row.cause
            );
        }
        assert_eq!(over(json!(137), "it was killed by root").canceller(), 0);
    }

    #[test]
    fn states_are_read_by_both_names() {
        assert_eq!(states("PD,running"), Some(vec![State::Pending, State::Running]));
        assert_eq!(states("all").map(|all| all.len()), Some(STATES.len()));
        assert_eq!(states("BF"), Some(Vec::new()));
        assert_eq!(states("frob"), None);
    }

    #[test]
    fn first_element_of_an_array_has_the_arrays_number() {
        let element = |job: u64, task: u32| Note {
            array: Some(Element { job, task, ..Element::default() }),
            ..Note::default()
        };
        let of = |number, note: Note| job(number, json!({"kept_note": note.text().unwrap()})).id();
        assert_eq!(of(6, element(0, 2)), "6_2");
        assert_eq!(of(7, element(6, 3)), "6_3");
        assert_eq!(of(7, Note::default()), "7");
    }
}
