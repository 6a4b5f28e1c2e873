//! Requests of users to a daemon on its local socket, and its answers.

use serde::{Deserialize, Serialize};
use tutti_os::PriorityClass;
use tutti_os::cgroup::Enforced;
use tutti_os::session::Session;
use tutti_sched::fill_trial::PutOut;
use tutti_sched::market::NodePrices;
use tutti_sched::shares::Standing;
use tutti_sched::{JobId, NodeId, Processor};

use crate::array::{Array, ArrayTask, InArray};
use crate::batch::{Batch, Restart};
use crate::end::JobEnd;
use crate::environment::Environment;
use crate::gpus::Gpus;
use crate::output::{Output, OutputState};
use crate::reservation::Reservation;
use crate::settings::Setting;
use crate::terms::Terms;
use crate::wait_kind::WaitKind;
use crate::wire::{Job, Library, Program, Text, Used};

pub mod refusal;
pub mod watch;

use refusal::Reason;
use watch::{Changes, Watch};

/// A request of a user, on the local socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Start a job; the connection is its front end from now on.
    Run(Box<Submit>),
    /// Start a job without a front end.
    Submit(Box<Submit>),
    /// A job that has been started on this node without a daemon takes part from now on; the connection is
    /// its starter's wire. Nothing of its output comes this way. Its cgroups are the kernel's entries for its
    /// ranks.
    Enrol(Box<Submit>),
    /// Become the front end of a job.
    Attach(JobId),
    /// Output that the job has written lately.
    Logs(JobId),
    /// All jobs; those that are over too.
    Jobs {
        /// Whether jobs that are over are listed too.
        all: bool,
    },
    /// One job.
    Job(JobId),
    /// One job, as soon as it is over.
    Wait(JobId),
    /// Do something to a job.
    Control(JobId, Control),
    /// The state of all channels of a job.
    Snapshot(JobId),
    /// All nodes.
    Nodes,
    /// Settings that hold, and where each comes from.
    Configuration,
    /// Use by users, and what is wanted of the machines.
    Prices,
    /// The controller reads its configuration anew.
    Reload,
    /// End all daemons.
    Down,
    /// In place of [`Self::Run`], under its number, from a node to the controller: who has asked for the job
    /// has gone. If it has no number it gets none.
    Withdraw,
    /// No new ranks come to the node of this name, for this reason; those that are there stay.
    Drain(String, String),
    /// Let new ranks come to the node again.
    Undrain(String),
    /// A token with which another program may read the output of this user's jobs. The daemon of this node
    /// answers it.
    Token,
    /// The same as [`Self::Logs`] for the user of a token.
    LogsFor(JobId, String),
    /// A job gets other values.
    Change(JobId, Change),
    /// Changes since a state. A controller that does not know this request keeps silent: readers ask for
    /// lists then.
    Watch(Box<Watch>),
    /// A number for a job that is about to begin on this node without a daemon, and takes part later.
    Number,
    /// Be the front end of a job again, whose daemon has gone meanwhile.
    Return(Box<Return>),
    /// Reserve nodes.
    Reserve(Box<Reservation>),
    /// Remove the reservation of this name.
    Unreserve(String),
    /// All reservations that are not over.
    Reservations,
}

/// State of a front end that is back after its daemon has gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    /// Job that it is the front end of.
    pub job: JobId,
    /// The job ends with it.
    pub coupled: bool,
    /// By node: the place in the output up to which it has come ([`Stands`](crate::wire::Report::Stands)).
    pub places: Vec<(u32, u64)>,
    /// Number before the first piece of its stdin ([`Pieces`](crate::wire::Report::Pieces)).
    pub pieces: u64,
}

/// Values that a job gets in place of those that it has; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Time limit of its ranks, in ms.
    pub time_ms: Option<u64>,
    /// Share of the time.
    pub weight: Option<u32>,
    /// Name that its user gives it.
    pub name: Option<String>,
    /// When it may get nodes, in ms since 1970; of a job that waits.
    pub begin_ms: Option<u64>,
    /// Set once its front end has left it alone. A value from a program does not count.
    #[serde(default)]
    pub detached: bool,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let values = [
            self.time_ms.map(|ms| format!("--time {}", crate::time_limit::text_ms(ms))),
            self.weight.map(|weight| format!("--weight {weight}")),
            self.name.as_ref().map(|name| format!("--name {name}")),
            self.begin_ms.map(|ms| format!("--begin {ms} ms")),
        ];
        f.write_str(&values.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

/// Characters of the reason for which a node is drained, at most.
pub const WHY_CHARS_MAX: usize = 200;

/// Since when a node is drained, by which user, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drained {
    /// Since when, in ms since 1970.
    pub since_ms: u64,
    /// By which user.
    pub uid: u32,
    /// Why.
    pub why: String,
}

/// Bytes of a text of a job in memory beside its own.
const TEXT_BYTES: usize = 64;

impl Request {
    /// Bytes that it takes in memory, about: nothing of what is short.
    pub fn bytes(&self) -> usize {
        match self {
            Request::Run(submit) | Request::Submit(submit) | Request::Enrol(submit) => {
                let files = submit.output.as_ref().map_or(0, Output::bytes);
                let said = programs_bytes(&submit.job) + submit.batch.bytes() + files;
                submit.environment.bytes() + said + submit.directory.as_bytes().len()
            }
            _ => 0,
        }
    }
}

/// Bytes that the programs of a job take in memory, about.
pub fn programs_bytes(job: &Job) -> usize {
    let text = |text: &Text| TEXT_BYTES + text.as_bytes().len();
    let program = |program: &Program| {
        let variables = program.variables.iter().flat_map(|(name, value)| [name, value]);
        let names = [&program.file].into_iter().chain(&program.directory);
        let texts = program.arguments.iter().chain(variables).chain(names);
        size_of::<Program>() + texts.map(text).sum::<usize>()
    };
    job.programs.iter().map(program).sum()
}

/// Use by users, and what is wanted of the machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prices {
    /// Slots of jobs that can run and slots that there are, over the last ten seconds.
    pub processor: Processor,
    /// Half of what was used is forgotten after so long, in ms; 0: at once.
    pub half_life_ms: u64,
    /// Users with jobs that can run.
    pub users: Vec<Standing>,
    /// Memory and network of the nodes.
    #[serde(default)]
    pub nodes: Vec<NodePrices>,
    /// Jobs that are left out of their rows because they have flooded the network.
    #[serde(default)]
    pub left_out: Vec<JobId>,
    /// Time that jobs have had, and where they are in the matrix, by number.
    #[serde(default)]
    pub places: Vec<Place>,
    /// Users with daemons of their own whose jobs and this daemon's share the machine by turns, by uid.
    #[serde(default)]
    pub sharers: Vec<u32>,
    /// Another user's daemon is here whose processes `/proc` hides: its jobs and ours take no turns.
    #[serde(default)]
    pub hides_others: bool,
}

/// Time that a job has had, where it is in the matrix, and messages that its ranks have sent, as far as is
/// known: up to a second ago.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The job.
    pub job: JobId,
    /// Time in which it was to run and was not idle, in ms.
    pub served_ms: u64,
    /// The rows that it is in, from 0 on; empty: none, or not known.
    pub rows: Vec<u32>,
    /// Slots by node, from 0 on, of a job that takes turns; empty: not known.
    pub slots: Vec<(NodeId, Vec<u32>)>,
    /// Messages that its ranks have sent, as they say themselves.
    #[serde(default)]
    pub messages: u64,
}

/// Orders that a job can get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Control {
    /// Suspends it.
    Suspend,
    /// Lets it run again.
    Resume,
    /// Kills it.
    Kill,
    /// Every rank gets this signal.
    Signal(u32),
    /// The terminals of its ranks get this size: rows, columns.
    Window(u16, u16),
    /// Detaches its front end; the job continues.
    Detach,
    /// Kills it, since its front end is gone without a word.
    Abandon,
    /// Every rank gets TERM; what is left of the job after so many ms is killed.
    End(u64),
    /// Keeps nodes from it while it is held. A job that has its nodes cannot be held.
    Hold,
    /// Lets it have nodes again.
    Release,
    /// Ends it; a new job takes its place.
    Requeue,
    /// The process of its script gets this signal, and nothing else of the job.
    SignalScript(u32),
}

/// Since when a waiting job is held, and by which user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldBy {
    /// Since when, in ms since 1970.
    pub since_ms: u64,
    /// By which user.
    pub uid: u32,
}

/// A job as a user submits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submit {
    /// Description of what is to run.
    pub job: Job,
    /// On how many nodes; none: as many as its ranks need.
    pub nodes: Option<u32>,
    /// Ranks on each node.
    pub per_node: Option<u32>,
    /// The nodes it may have, in order, by name; empty: all.
    pub hosts: Vec<Host>,
    /// How it shares them.
    #[serde(default)]
    pub terms: Terms,
    /// Name, time and what it waits for.
    #[serde(default)]
    pub batch: Batch,
    /// The files of its output, of a job without a front end; none: the last MiB of it is kept, and nothing
    /// else.
    #[serde(default)]
    pub output: Option<Output>,
    /// Environment of the front end.
    pub environment: Environment,
    /// Working directory of the front end.
    pub directory: Text,
    /// File mode creation mask of the front end.
    pub umask: u32,
    /// The user's other groups. A value from the program does not count: the daemon asks the kernel.
    #[serde(default)]
    pub groups: Vec<u32>,
    /// Limits and priorities of the session that submits. As for the groups.
    #[serde(default)]
    pub session: Option<Box<Session>>,
    /// Random number that every packet of the job carries: the daemon draws it.
    #[serde(default)]
    pub key: u64,
    /// Scripts and their steps.
    #[serde(default)]
    pub script: Script,
}

/// Part that a job has in scripts and their steps, and the number that it has got before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// Set where its program is a script that runs once, on the first node. The ranks are those that
    /// `mpiexec` in the script may start, as steps of the job.
    pub is_script: bool,
    /// Set for what is to be a step of the job whose script has started this front end, and is refused
    /// elsewhere.
    pub is_step: bool,
    /// The job whose starter is above the front end's process. A value from the program does not count: the
    /// daemon asks the kernel.
    pub caller: Option<JobId>,
    /// Answer to [`Request::Number`], of a job that runs already.
    #[serde(default)]
    pub reserved: Option<u64>,
}

/// A node that a user has named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Name of the node.
    pub name: String,
    /// Ranks that it is to get, if given.
    pub ranks: Option<u32>,
}

/// The answer to a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// The job has this number.
    Job(JobId),
    /// Done, with nothing to tell.
    Done,
    /// From the controller to a node: the job's origin.
    Origin(NodeId),
    /// The jobs.
    Jobs(Vec<JobRow>),
    /// The nodes.
    Nodes(Vec<NodeRow>),
    /// Settings that hold.
    Configuration(Vec<Setting>),
    /// Use by users, and what is wanted of the machines.
    Prices(Box<Prices>),
    /// The configuration of this version holds; what is to be known of it, a line each.
    Reloaded(u64, Vec<String>),
    /// The configuration is wrong, and nothing has changed: a line for each mistake.
    Mistakes(Vec<String>),
    /// From the controller to a node: a snapshot as JSON (`tutti_snapshot`). To a user it comes as frames of
    /// output behind Done.
    Snapshot(String),
    /// Refusal, since it cannot be done; one line.
    Refused(String),
    /// The token; it counts for some hours, at the daemon that made it.
    Token(String),
    /// Changes.
    Changes(Box<Changes>),
    /// The reservations.
    Reservations(Vec<Reservation>),
    /// Refusal for a reason by which programs decide; one line for the user. It travels as
    /// [`Answer::Refused`] with the reason beside it.
    Because(Reason, String),
}

/// A job for people to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRow {
    /// Number of the job.
    pub job: JobId,
    /// User of the job.
    pub uid: u32,
    /// State of the job.
    pub state: JobState,
    /// Name that its user gives it; empty: none.
    #[serde(default)]
    pub name: String,
    /// How long its ranks may run, in ms, without the time for which it was suspended.
    #[serde(default)]
    pub limit_ms: Option<u64>,
    /// Number of its ranks.
    pub ranks: u64,
    /// Names of its nodes, in order of ranks.
    pub nodes: Vec<String>,
    /// Rank of each node's first one.
    #[serde(default)]
    pub first_ranks: Vec<u32>,
    /// Command that runs, shortened.
    pub command: String,
    /// When it was submitted, in ms since 1970.
    pub submitted_ms: u64,
    /// When its ranks ran.
    pub started_ms: Option<u64>,
    /// When it was over.
    pub ended_ms: Option<u64>,
    /// Exit status, when it is over.
    pub status: Option<u8>,
    /// Share of the time that it gets beside the others'.
    pub weight: u32,
    /// No other job has ranks on its nodes.
    pub exclusive: bool,
    /// Memory that it declares on each node; 0: none.
    pub memory_bytes: u64,
    /// The kernel holds it to that on all its nodes; else it is only counted.
    #[serde(default)]
    pub limits_memory: bool,
    /// Set where its mpiexec has started it, and it continues without daemons.
    #[serde(default)]
    pub enrolled: bool,
    /// Whether it takes turns.
    pub gang: bool,
    /// Whether it is a filler.
    #[serde(default)]
    pub fill: bool,
    /// Effective weight beside the jobs of other users, in thousandths; 0: not known.
    #[serde(default)]
    pub effective_milli: u64,
    /// How much of its slots' time it uses, in thousandths, over the last minute or two; none: not known.
    #[serde(default)]
    pub busy_permille: Option<u32>,
    /// Slices that it has had, as far as is known: up to a second ago.
    pub turns: u64,
    /// Since when it is suspended, and by which user.
    #[serde(default)]
    pub suspended: Option<Suspended>,
    /// Why it waits for nodes.
    pub waits: Option<String>,
    /// Line about the ranks that wait for each other for ever, if some do.
    #[serde(default)]
    pub deadlock: Option<String>,
    /// Nodes that have not frozen it yet: it is not scheduled until they have.
    #[serde(default)]
    pub unfrozen: Vec<String>,
    /// Jobs that it is connected to, and has the same turns with where their slots allow.
    #[serde(default)]
    pub connected: Vec<JobId>,
    /// Why it ended, if not by itself: the line that its front end has got, or would have.
    #[serde(default)]
    pub cause: Option<String>,
    /// The files of its output: patterns with their folder, as the user has named them, and the job's number
    /// in them.
    #[serde(default)]
    pub output: Vec<String>,
    /// The node that writes them: where the job was submitted.
    #[serde(default)]
    pub origin: String,
    /// State of those files.
    #[serde(default)]
    pub output_state: OutputState,
    /// Pids by node.
    pub pids: Vec<(String, Vec<u32>)>,
    /// How its ranks are held while others have the cores, by node.
    #[serde(default)]
    pub held_by: Vec<(String, FreezeMethod)>,
    /// Which of its limits the kernel sees to, by node, where that is known; elsewhere they are counted.
    #[serde(default)]
    pub enforced: Vec<(String, Enforced)>,
    /// Nodes on which it, a filler, does not fill, since it costs a job there too much.
    #[serde(default)]
    pub put_out: Vec<(String, PutOut)>,
    /// Set where its program is a script that runs once, on the first of its nodes; `ranks` are those that
    /// its steps may have.
    #[serde(default)]
    pub script: bool,
    /// The job whose step it is.
    #[serde(default)]
    pub step_of: Option<JobId>,
    /// Set while it waits and is held.
    #[serde(default)]
    pub on_hold: Option<HeldBy>,
    /// Part that it has in an array.
    #[serde(default)]
    pub in_array: InArray,
    /// Text that the program which submitted it keeps with it; empty: none.
    #[serde(default)]
    pub kept_note: String,
    /// Time before which it gets no nodes, in ms since 1970; said while it waits.
    #[serde(default)]
    pub not_before_ms: Option<u64>,
    /// In which way it has ended, when it is over; none: that is not known.
    #[serde(default, rename = "end")]
    pub how_ended: Option<JobEnd>,
    /// The job whose place it takes, since that one was requeued.
    #[serde(default, rename = "restart")]
    pub in_place_of: Option<Restart>,
    /// Kind of what it waits for.
    #[serde(default)]
    pub wait_kind: Option<WaitKind>,
    /// Use of its processes, when it is over and that is known.
    #[serde(default, rename = "used")]
    pub process_use: Option<Used>,
    /// GPUs that it has alone on each node; 0: none.
    #[serde(default, rename = "gpus")]
    pub node_gpus: u32,
    /// Libraries on which ranks have begun with MPI, as their starters have seen it.
    #[serde(default, rename = "libraries")]
    pub seen_libraries: Vec<Library>,
    /// Reservation in which it runs; empty: none.
    #[serde(default, rename = "reservation")]
    pub in_reservation: String,
    /// Ranks of the cycle of [`JobRow::deadlock`], in its order; empty: there is none, or that is not known.
    #[serde(default, rename = "cycle")]
    pub deadlock_cycle: Vec<u32>,
}

impl JobRow {
    /// Reservation in which it runs; empty: none.
    #[must_use]
    pub fn reservation(&self) -> &str {
        &self.in_reservation
    }

    /// Ranks of the cycle of [`JobRow::deadlock`], in its order; empty: there is none, or that is not known.
    #[must_use]
    pub fn cycle(&self) -> &[u32] {
        &self.deadlock_cycle
    }

    /// GPUs that it has alone on each node; 0: none.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.node_gpus
    }

    /// Libraries on which ranks have begun with MPI, as their starters have seen it.
    #[must_use]
    pub fn libraries(&self) -> &[Library] {
        &self.seen_libraries
    }

    /// Tasks of the array that it stands for.
    #[must_use]
    pub fn array(&self) -> Option<&Array> {
        self.in_array.whole()
    }

    /// Task of an array that it is.
    #[must_use]
    pub fn array_task(&self) -> Option<ArrayTask> {
        self.in_array.task()
    }

    /// The number of the job as users write it: `12`, or `12_3` for a task of an array.
    #[must_use]
    pub fn number(&self) -> String {
        self.array_task().map_or_else(|| self.job.to_string(), |task| task.to_string())
    }

    /// How it has ended; none: it is not over, or nobody knows.
    #[must_use]
    pub fn end(&self) -> Option<JobEnd> {
        self.how_ended
    }

    /// Says how it has ended.
    pub fn set_end(&mut self, end: Option<JobEnd>) {
        self.how_ended = end;
    }

    /// The job whose place it takes; none: it is the first.
    #[must_use]
    pub fn restart(&self) -> Option<Restart> {
        self.in_place_of
    }

    /// Kind of what it waits for; none: it has its nodes.
    #[must_use]
    pub fn kind_of_wait(&self) -> Option<WaitKind> {
        self.wait_kind
    }

    /// Use of its processes; none: it is not over, or that is not known.
    #[must_use]
    pub fn used(&self) -> Option<Used> {
        self.process_use
    }

    /// Says what its processes have used.
    pub fn set_used(&mut self, used: Option<Used>) {
        self.process_use = used;
    }

    /// When it may get nodes, in ms since 1970; none: at once, or it has them.
    #[must_use]
    pub fn begins_ms(&self) -> Option<u64> {
        self.not_before_ms
    }

    /// Since when it is held, and by which user; none: it is not, or has its nodes.
    #[must_use]
    pub fn hold(&self) -> Option<HeldBy> {
        self.on_hold
    }

    /// Text that the program which submitted it keeps with it; empty: none.
    #[must_use]
    pub fn note(&self) -> &str {
        &self.kept_note
    }

    /// Whether its program is a script that runs once.
    #[must_use]
    pub fn is_script(&self) -> bool {
        self.script
    }

    /// The job whose step it is.
    #[must_use]
    pub fn owner(&self) -> Option<JobId> {
        self.step_of
    }

    /// Part that the job has in scripts: a line of `tutti status`.
    #[must_use]
    pub fn part_in_script(&self) -> Option<String> {
        match self.step_of {
            Some(owner) => Some(format!("step     of job {owner}")),
            None => {
                self.script.then(|| "script   runs once, on the first node; its steps have the ranks".into())
            }
        }
    }
}

/// Since when a job is suspended, and by which user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspended {
    /// Since when, in ms since 1970.
    pub since_ms: u64,
    /// By which user.
    pub uid: u32,
    /// Why.
    #[serde(default)]
    pub why: SuspendedBy,
}

/// Why a job is suspended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SuspendedBy {
    /// A user wanted it.
    #[default]
    User,
    /// Deadlock: its ranks wait for each other for ever (`--on-deadlock suspend`).
    Deadlock,
    /// Idleness: it did no work (`--on-idle suspend`).
    Idle,
}

/// How the ranks of a job are held while others have the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FreezeMethod {
    /// The freezer of their cgroup.
    Cgroup,
    /// SIGSTOP and SIGCONT.
    Signals,
    /// No way: there is no cgroup, and they may not be stopped by signals.
    Nothing,
}

/// States of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Waiting for nodes.
    Waiting,
    /// Starting: its nodes make ready.
    Starting,
    /// Running.
    Running,
    /// Suspended.
    Suspended,
    /// Being ended.
    Ending,
    /// Over.
    Over,
}

/// A node for people to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRow {
    /// Number of the node.
    pub node: NodeId,
    /// Name of the node.
    pub name: String,
    /// Set while the node is there.
    pub alive: bool,
    /// Number of its cores.
    pub slots: u32,
    /// How far the kernel prefers its switch thread.
    #[serde(default)]
    pub preferred: PriorityClass,
    /// Ranks on it.
    pub ranks: u64,
    /// Memory for jobs; 0: not known.
    #[serde(default)]
    pub memory_bytes: u64,
    /// The kernel holds jobs to what they declare; else it is only counted.
    #[serde(default)]
    pub limits_memory: bool,
    /// Jobs are stopped by the freezer of their cgroups, else by signals.
    #[serde(default)]
    pub freezes: bool,
    /// Memory that the jobs on it have declared.
    #[serde(default)]
    pub declared_bytes: u64,
    /// How jobs get their nodes and rows; said of the controller.
    #[serde(default)]
    pub policy: Option<String>,
    /// The version of the configuration that it has stored, as far as it is known; 0: none.
    #[serde(default)]
    pub configuration: u64,
    /// Parent of the node in the control tree.
    pub parent: Option<NodeId>,
    /// Address of its ranks.
    pub address: String,
    /// Where its daemon is reached.
    #[serde(default)]
    pub control: Option<std::net::SocketAddr>,
    /// The release of its daemon; empty: not known.
    #[serde(default)]
    pub release: String,
    /// Set where no new ranks come to it.
    #[serde(default)]
    pub drained: Option<Drained>,
    /// GPUs for jobs.
    #[serde(default, rename = "gpus")]
    pub counted_gpus: Gpus,
    /// GPUs that jobs have.
    #[serde(default, rename = "taken_gpus")]
    pub taken_gpu_set: Gpus,
}

impl NodeRow {
    /// GPUs for jobs.
    #[must_use]
    pub fn gpus(&self) -> Gpus {
        self.counted_gpus
    }

    /// GPUs that jobs have.
    #[must_use]
    pub fn taken_gpus(&self) -> Gpus {
        self.taken_gpu_set
    }

    /// Since when no new ranks come to it, and why; none: they come.
    #[must_use]
    pub fn drain(&self) -> Option<&Drained> {
        self.drained.as_ref()
    }

    /// The state of the node in one word: `up`, `lost`, `draining` (with ranks of earlier jobs) or `drained`.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (self.alive, &self.drained) {
            (false, _) => "lost",
            (true, None) => "up",
            (true, Some(_)) if self.ranks > 0 => "draining",
            (true, Some(_)) => "drained",
        }
    }
}
