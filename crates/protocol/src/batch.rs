//! Options that a batch user sets for a job beside what it runs and where: its name, its time limit, the jobs
//! behind which it starts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use tutti_sched::JobId;

use crate::array::{Array, ArrayTask, InArray};
use crate::mail::Mail;

/// Characters of a job's name, at most.
pub const NAME_CHARS_MAX: usize = 64;
/// Bytes of a job's note, at most.
pub const NOTE_BYTES_MAX: usize = 4096;
/// Jobs that one job may wait for, at most.
pub const BATCH_AFTER_MAX: usize = 256;

/// Exit status of a job that is ended since its ranks wait for each other for ever (EDEADLK).
pub const DEADLOCKED: u8 = 35;

/// Reaction to ranks that wait for each other for ever, besides the line that says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDeadlock {
    /// No more than the line.
    #[default]
    Report,
    /// Suspend the job, as its user does.
    Suspend,
    /// Kill the job, with status [`DEADLOCKED`].
    End,
}

/// `--on-idle suspend` without a time: ten minutes.
pub const IDLE_DEFAULT_MS: u64 = 600_000;

/// The line for the user when that is done.
pub const IDLE_SUSPENDED: &str = "the job is suspended: nothing of it has worked (--on-idle suspend)";

/// Reaction to a job that does no work for a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnIdle {
    /// Keep the job in its place.
    #[default]
    Keep,
    /// Suspend the job after so many ms, as its user does.
    Suspend(u64),
}

impl OnIdle {
    /// After so many ms it is suspended; none: it is kept.
    #[must_use]
    pub fn suspend_ms(self) -> Option<u64> {
        if let OnIdle::Suspend(ms) = self { Some(ms) } else { None }
    }
}

/// The options of a batch user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Name of the job, as its user calls it; empty: none.
    pub name: String,
    /// `--time`: how long its ranks may run, without the time for which it was suspended.
    pub time_ms: Option<u64>,
    /// `--timeout`: the same, as `mpiexec` has it.
    pub timeout_ms: Option<u64>,
    /// Origin of [`Self::time_ms`], if not `--time`: a limit and its place.
    #[serde(default)]
    pub time_from: String,
    /// The queue that it is given to; empty: none.
    #[serde(default)]
    pub queue: String,
    /// The weight that its user has named.
    #[serde(default)]
    pub weight: Option<u32>,
    /// Reaction to ranks that wait for each other for ever.
    #[serde(default)]
    pub on_deadlock: OnDeadlock,
    /// Reaction to ranks that do no work.
    #[serde(default)]
    pub on_idle: OnIdle,
    /// Jobs that must be over before this one starts.
    pub after: Vec<After>,
    /// `--kill-after`: between TERM at its limit and KILL; none: as long as usual.
    #[serde(default)]
    pub kill_after_ms: Option<u64>,
    /// Conditions of its start besides.
    #[serde(default)]
    pub start_rules: StartRules,
    /// Part that it has in an array.
    #[serde(default)]
    pub array_part: InArray,
    /// Text that the submitting program keeps with the job, and daemons do not read; [`NOTE_BYTES_MAX`]
    /// bytes at most.
    #[serde(default)]
    pub annotation: String,
    /// A signal before its time limit.
    #[serde(default)]
    pub before_limit: Option<Warning>,
    /// Whether it begins anew when a node of it is lost (`--requeue`).
    #[serde(default)]
    pub requeued_if_lost: bool,
    /// The job whose place it takes, since that one was requeued. The controller alone says so.
    #[serde(default)]
    pub restarted: Option<Restart>,
    /// Mail that its user gets.
    #[serde(default, rename = "mail")]
    pub wanted_mail: Mail,
    /// Number of its submission.
    #[serde(default)]
    pub sent_as: Sending,
}

/// Number by which a submission is known that is sent again, since a daemon has died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sending {
    /// Random number that the front end draws; 0: none.
    pub number: u64,
    /// Set where it was sent before, to a daemon that has died without an answer. It may be a job.
    pub is_repeated: bool,
}

/// Place of a job in a row of jobs of which each takes the place of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// The first of them.
    pub first: JobId,
    /// Number of those before it.
    pub count: u32,
}

/// Conditions under which a job starts, besides the ends of others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRules {
    /// Set for a job that is held from its submission on (`--hold`).
    pub held: bool,
    /// Time before which it gets no nodes, in ms since 1970 (`--begin`).
    #[serde(default)]
    pub begin_ms: Option<u64>,
    /// Set for a job that gets no nodes while an earlier job of its user and name is not over
    /// (`--after-same-name`).
    #[serde(default)]
    pub behind_same_name: bool,
    /// Names of nodes on which it gets no ranks (`--exclude`).
    #[serde(default)]
    pub excluded: Vec<String>,
    /// Name of the reservation in which it runs (`--reservation`); empty: none.
    #[serde(default)]
    pub reservation: String,
}

/// A signal that all ranks get before the time limit (`--signal`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Number of the signal.
    pub signal: u32,
    /// Time before the limit, in ms.
    pub before_ms: u64,
}

/// Nodes that a job may exclude, at most.
pub const EXCLUDED_MAX: usize = 4096;

/// A job that another one waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct After {
    /// Number of the job.
    pub job: JobId,
    /// Only its status 0 will do (`--after-ok`).
    pub ok: bool,
    /// Only another status will do (`--after-not-ok`).
    #[serde(default)]
    pub not_ok: bool,
}

impl Batch {
    /// Bytes of its texts and lists.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let rules = &self.start_rules;
        let texts = [&self.name, &self.time_from, &self.queue, &self.annotation, &self.wanted_mail.to];
        let texts = texts.into_iter().chain(&rules.excluded).chain([&rules.reservation]);
        let lists = self.after.len() * size_of::<After>() + self.wanted_mail.events.len();
        texts.map(String::len).sum::<usize>() + rules.excluded.len() * size_of::<String>() + lists
    }

    /// Text that the submitting program keeps with the job.
    #[must_use]
    pub fn note(&self) -> &str {
        &self.annotation
    }

    /// As the controller keeps it: others read the name on their terminals.
    #[must_use]
    pub fn cleaned(mut self) -> Self {
        let shown = |c: char| if tutti_os::stderr::is_deceptive(c) { ' ' } else { c };
        self.name = self.name.trim().chars().take(NAME_CHARS_MAX).map(shown).collect();
        self
    }

    /// Number of its submission.
    #[must_use]
    pub fn sending(&self) -> Sending {
        self.sent_as
    }

    /// Sets the number of its submission.
    pub fn set_sending(&mut self, sending: Sending) {
        self.sent_as = sending;
    }

    /// Sets the time between TERM at its limit and KILL (`--kill-after`).
    pub fn set_kill_after(&mut self, time: Duration) {
        self.kill_after_ms = Some(time.as_millis() as u64);
    }

    /// Time between TERM at its limit and KILL, as its user has said it.
    #[must_use]
    pub fn kill_after(&self) -> Option<Duration> {
        self.kill_after_ms.map(Duration::from_millis)
    }

    /// Conditions of its start besides the ends of others.
    #[must_use]
    pub fn rules(&self) -> &StartRules {
        &self.start_rules
    }

    /// The same, to be changed.
    pub fn rules_mut(&mut self) -> &mut StartRules {
        &mut self.start_rules
    }

    /// Tasks of the array that it stands for.
    #[must_use]
    pub fn array(&self) -> Option<&Array> {
        self.array_part.whole()
    }

    /// Task of an array that it is.
    #[must_use]
    pub fn array_task(&self) -> Option<ArrayTask> {
        self.array_part.task()
    }

    /// A signal that its ranks get before its time limit.
    #[must_use]
    pub fn warning(&self) -> Option<Warning> {
        self.before_limit
    }

    /// Has its ranks get a signal before its time limit.
    pub fn set_warning(&mut self, warning: Warning) {
        self.before_limit = Some(warning);
    }

    /// Whether it begins anew when a node of it is lost.
    #[must_use]
    pub fn is_requeued_if_lost(&self) -> bool {
        self.requeued_if_lost
    }

    /// Has it begin anew when a node of it is lost, or not.
    pub fn set_requeued_if_lost(&mut self, is_requeued: bool) {
        self.requeued_if_lost = is_requeued;
    }

    /// The job whose place it takes; none: it is the first.
    #[must_use]
    pub fn restart(&self) -> Option<Restart> {
        self.restarted
    }

    /// Says whose place it takes.
    pub fn set_restart(&mut self, restart: Option<Restart>) {
        self.restarted = restart;
    }

    /// Mail that its user gets.
    #[must_use]
    pub fn mail(&self) -> &Mail {
        &self.wanted_mail
    }

    /// The same, to be changed.
    pub fn mail_mut(&mut self) -> &mut Mail {
        &mut self.wanted_mail
    }

    /// Part that it has in an array.
    #[must_use]
    pub fn part_in_array(&self) -> &InArray {
        &self.array_part
    }

    /// Gives it a part in an array, or none.
    pub fn set_array(&mut self, part: InArray) {
        self.array_part = part;
    }

    /// How long its ranks may run, and by which option.
    #[must_use]
    pub fn limit(&self) -> Option<(u64, &str)> {
        let time = if self.time_from.is_empty() { "--time" } else { &self.time_from };
        let limits = [(self.time_ms, time), (self.timeout_ms, "--timeout")];
        limits.into_iter().filter_map(|(ms, option)| Some((ms?, option))).min_by_key(|(ms, _)| *ms)
    }
}
