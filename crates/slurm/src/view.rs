//! A job of the cluster as Slurm's commands show it: its state, reason, identifiers and counts.
//!
//! | Tutti | Slurm |
//! |---|---|
//! | waits, *starts* | PENDING |
//! | runs, *waits for its turn* | RUNNING |
//! | suspended by a user | SUSPENDED |
//! | is being ended | COMPLETING |
//! | over | COMPLETED, FAILED, CANCELLED, TIMEOUT, OUT_OF_MEMORY, NODE_FAIL, by the kind of its end |
//!
//! A job that starts has no time of its start yet, which tools read from whatever is RUNNING. A job whose end
//! is not known is NODE_FAIL, never COMPLETED.

use tutti_client::users;
use tutti_protocol::end::EndKind;
use tutti_protocol::users::{JobRow, JobState};
use tutti_protocol::wait_kind::WaitKind;

use crate::forms;
use crate::note::{Element, Note};

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
            JobState::Starting if self.row.started_ms.is_none() => State::Pending,
            JobState::Starting | JobState::Running => State::Running,
            JobState::Suspended => State::Suspended,
            JobState::Ending => State::Completing,
            JobState::Over => self.end_state(),
        }
    }

    fn end_state(&self) -> State {
        let Some(end) = self.row.end() else { return State::NodeFail };
        match end.kind {
            EndKind::Completed => State::Completed,
            EndKind::TimeLimit => State::Timeout,
            EndKind::Cancelled | EndKind::Dependency | EndKind::Requeued => State::Cancelled,
            EndKind::Memory => State::OutOfMemory,
            EndKind::NodeLost => State::NodeFail,
            EndKind::Failed | EndKind::Deadlock | EndKind::NotStarted => State::Failed,
        }
    }

    /// The user who has cancelled it.
    #[must_use]
    pub fn canceller(&self) -> u32 {
        self.row.end().and_then(|end| end.by_uid).unwrap_or(self.row.uid)
    }

    /// Why it waits, or how it ended: one word.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self.state() {
            State::Pending if self.row.state == JobState::Waiting => self.waits_for(),
            // Slurm's word for a death by a signal too; tools know no other one.
            State::Failed if self.signal() > 0 || self.has_ended_by(EndKind::NotStarted) => {
                "JobLaunchFailure"
            }
            State::Failed => "NonZeroExitCode",
            State::Timeout => "TimeLimit",
            State::OutOfMemory => "OutOfMemory",
            State::NodeFail => "NodeDown",
            State::Cancelled if self.has_ended_by(EndKind::Dependency) => "DependencyNeverSatisfied",
            _ => "None",
        }
    }

    fn has_ended_by(&self, kind: EndKind) -> bool {
        self.row.end().is_some_and(|end| end.kind == kind)
    }

    fn waits_for(&self) -> &'static str {
        match self.row.kind_of_wait().unwrap_or_default() {
            WaitKind::Held if self.row.hold().is_some_and(|held| held.uid != self.row.uid) => "JobHeldAdmin",
            WaitKind::Held => "JobHeldUser",
            WaitKind::Dependency => "Dependency",
            WaitKind::Begin => "BeginTime",
            WaitKind::ArrayLimit => "JobArrayTaskLimit",
            WaitKind::UserLimit => "AssocMaxJobsLimit",
            WaitKind::Resources | WaitKind::Restart => "Resources",
            WaitKind::Reservation if !self.row.reservation().is_empty() => "Reservation",
            WaitKind::Reservation => "ReqNodeNotAvail,_Reserved_for_maintenance",
            WaitKind::Turn => "Priority",
        }
    }

    /// Number of the job: that of the first, of one that was requeued. As in Slurm elements of an array have
    /// a number of their own once they have begun, and the last of them keeps the array's: tools ask for the
    /// array by it.
    #[must_use]
    pub fn number(&self) -> u64 {
        let own = self.row.restart().map_or(self.row.job, |restart| restart.first).0;
        let is_last = |element: &Element| element.shape.count > 0 && element.task == element.shape.max;
        let keeps = |element: &Element| is_last(element) || self.state() == State::Pending;
        self.element().filter(keeps).map_or(own, |element| element.job)
    }

    /// The status with which a process of it has ended, as `wait` has it.
    #[must_use]
    pub fn wait_status(&self) -> u32 {
        u32::from(self.code()) << 8 | u32::from(self.signal())
    }

    /// How often it was requeued.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.row.restart().map_or(0, |restart| restart.count)
    }

    /// The array's number, or its own.
    #[must_use]
    pub fn array_job(&self) -> u64 {
        self.element().map_or_else(|| self.number(), |element| element.job)
    }

    /// The element that it is.
    #[must_use]
    pub fn element(&self) -> Option<Element> {
        let task = self.row.array_task()?;
        Some(Element { job: task.array.0, task: task.task, shape: self.asked.array.unwrap_or_default() })
    }

    /// `17`, `17_3`.
    #[must_use]
    pub fn id(&self) -> String {
        match self.element() {
            Some(element) => format!("{}_{}", element.job, element.task),
            None => self.number().to_string(),
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
        self.row.end().map_or(0, |end| end.code)
    }

    /// The signal by which it ended; 0: none.
    #[must_use]
    pub fn signal(&self) -> u8 {
        match self.state() {
            State::Failed | State::OutOfMemory => self.row.end().map_or(0, |end| end.signal),
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

    /// Whether it is held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.row.hold().is_some() && self.state() == State::Pending
    }

    /// Weight; 0: it is held, as in Slurm.
    #[must_use]
    pub fn priority(&self) -> u32 {
        if self.is_held() { 0 } else { self.row.weight }
    }

    /// When it has begun, or is to begin, as far as that is known.
    #[must_use]
    pub fn begins_ms(&self) -> Option<u64> {
        let waits = || self.row.begins_ms().filter(|_| self.state() == State::Pending && !self.is_held());
        self.row.started_ms.or_else(waits)
    }

    /// Since when it may begin; none: it is held, or waits for other jobs.
    #[must_use]
    pub fn eligible_ms(&self) -> Option<u64> {
        let is_pending = self.state() == State::Pending;
        let waits = self.is_held() || self.row.kind_of_wait() == Some(WaitKind::Dependency);
        if is_pending && waits {
            return None;
        }
        Some(self.row.begins_ms().unwrap_or(0).max(self.row.submitted_ms))
    }

    /// Cores, memory and nodes, as Slurm counts them: `cpu=2,node=1,billing=2`.
    #[must_use]
    pub fn counted(&self) -> String {
        let (cores, nodes) = (self.cores(), self.nodes());
        let memory = match self.row.memory_bytes {
            0 => String::new(),
            bytes => format!(",mem={}", forms::size(bytes.saturating_mul(nodes))),
        };
        format!("cpu={cores}{memory},node={nodes},billing={cores}")
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

    /// How a job has ended, as the controller says it.
    pub(crate) fn end(kind: &str, code: u8, signal: u8) -> Value {
        json!({"kind": kind, "code": code, "signal": signal, "by_uid": null})
    }

    #[test]
    fn state_of_a_job_is_slurms() {
        let over = |end: Value| job(1, json!({"state": "over", "status": 1, "end": end, "ended_ms": 9_000}));
        let waits = |kind: &str| job(1, json!({"state": "waiting", "wait_kind": kind}));
        for (job, long, reason, exit) in [
            (job(1, json!({})), "RUNNING", "None", "0:0"),
            (job(1, json!({"state": "starting", "started_ms": null})), "PENDING", "None", "0:0"),
            (job(1, json!({"state": "starting"})), "RUNNING", "None", "0:0"),
            (waits("dependency"), "PENDING", "Dependency", "0:0"),
            (waits("resources"), "PENDING", "Resources", "0:0"),
            (waits("array-limit"), "PENDING", "JobArrayTaskLimit", "0:0"),
            (waits("held"), "PENDING", "JobHeldUser", "0:0"),
            (waits("begin"), "PENDING", "BeginTime", "0:0"),
            (job(1, json!({"state": "suspended"})), "SUSPENDED", "None", "0:0"),
            (over(end("completed", 0, 0)), "COMPLETED", "None", "0:0"),
            (over(end("failed", 3, 0)), "FAILED", "NonZeroExitCode", "3:0"),
            (over(end("failed", 0, 9)), "FAILED", "JobLaunchFailure", "0:9"),
            (over(end("time-limit", 0, 15)), "TIMEOUT", "TimeLimit", "0:0"),
            (over(end("failed", 124, 0)), "FAILED", "NonZeroExitCode", "124:0"),
            (over(end("cancelled", 0, 0)), "CANCELLED", "None", "0:15"),
            (over(end("dependency", 0, 0)), "CANCELLED", "DependencyNeverSatisfied", "0:15"),
            (over(end("not-started", 0, 0)), "FAILED", "JobLaunchFailure", "0:0"),
            (over(Value::Null), "NODE_FAIL", "NodeDown", "0:0"),
            (over(end("node-lost", 0, 0)), "NODE_FAIL", "NodeDown", "0:0"),
            (over(end("memory", 0, 9)), "OUT_OF_MEMORY", "OutOfMemory", "0:9"),
        ] {
            let found = (job.state().long(), job.reason(), &*job.exit());
            assert_eq!(found, (long, reason, exit), "{:?}", job.row.end());
        }
        let by_root = json!({"kind": "cancelled", "code": 0, "signal": 0, "by_uid": 7});
        assert_eq!(over(by_root).canceller(), 7);
    }

    #[test]
    fn states_are_read_by_both_names() {
        assert_eq!(states("PD,running"), Some(vec![State::Pending, State::Running]));
        assert_eq!(states("all").map(|all| all.len()), Some(STATES.len()));
        assert_eq!(states("BF"), Some(Vec::new()));
        assert_eq!(states("frob"), None);
    }

    #[test]
    fn element_of_an_array_has_the_arrays_number() {
        let of = |number, part: Value| job(number, json!({"in_array": part})).id();
        assert_eq!(of(7, json!({"Task": {"array": 6, "task": 3}})), "6_3");
        assert_eq!(of(7, json!("None")), "7");
    }
}
