//! Wishes of a job of `sbatch`, `salloc` or `srun`: their common options, from the command line, from
//! `#SBATCH` lines and from the variables of the environment, in that order of weight.

pub mod gpus;
pub mod launch;
pub mod script;
pub mod submit;

use tutti_client::node_list;
use tutti_client::requests::NodeRow;
use tutti_protocol::mail::Mail;

use crate::forms::{self, Array, Dependency};
use crate::getopt::{Spec, Takes};
use crate::moments::{self, Day};
use crate::note::{Size, Warning};
use crate::refusal::Refusal;

use Takes::{Maybe, Nothing, Value};
use gpus::Gpus;

/// Options of all three.
pub const SPECS: &[Spec] = &[
    ("account", 'A', Value),
    ("acctg-freq", '\0', Value),
    ("array", 'a', Value),
    ("bb", '\0', Value),
    ("bbf", '\0', Value),
    ("begin", 'b', Value),
    ("bell", '\0', Nothing),
    ("chdir", 'D', Value),
    ("cluster", '\0', Value),
    ("clusters", 'M', Value),
    ("comment", '\0', Value),
    ("compress", '\0', Maybe),
    ("constraint", 'C', Value),
    ("container", '\0', Value),
    ("contiguous", '\0', Nothing),
    ("core-spec", 'S', Value),
    ("cores-per-socket", '\0', Value),
    ("cpu-bind", '\0', Value),
    ("cpu-freq", '\0', Value),
    ("cpus-per-gpu", '\0', Value),
    ("cpus-per-task", 'c', Value),
    ("deadline", '\0', Value),
    ("delay-boot", '\0', Value),
    ("dependency", 'd', Value),
    ("distribution", 'm', Value),
    ("error", 'e', Value),
    ("exact", '\0', Nothing),
    ("exclude", 'x', Value),
    ("exclusive", '\0', Maybe),
    ("export", '\0', Value),
    ("get-user-env", '\0', Maybe),
    ("gpu-bind", '\0', Value),
    ("gpu-freq", '\0', Value),
    ("gpus", 'G', Value),
    ("gpus-per-node", '\0', Value),
    ("gpus-per-task", '\0', Value),
    ("gres", '\0', Value),
    ("gres-flags", '\0', Value),
    ("help", '\0', Nothing),
    ("hint", '\0', Value),
    ("hold", 'H', Nothing),
    ("ignore-pbs", '\0', Nothing),
    ("immediate", 'I', Maybe),
    ("input", 'i', Value),
    ("job-name", 'J', Value),
    ("jobid", '\0', Value),
    ("kill-on-bad-exit", 'K', Maybe),
    ("kill-on-invalid-dep", '\0', Value),
    ("label", 'l', Nothing),
    ("licenses", 'L', Value),
    ("mail-type", '\0', Value),
    ("mail-user", '\0', Value),
    ("mcs-label", '\0', Value),
    ("mem", '\0', Value),
    ("mem-bind", '\0', Value),
    ("mem-per-cpu", '\0', Value),
    ("mem-per-gpu", '\0', Value),
    ("mincpus", '\0', Value),
    ("mpi", '\0', Value),
    ("multi-prog", '\0', Nothing),
    ("network", '\0', Value),
    ("nice", '\0', Maybe),
    ("no-bell", '\0', Nothing),
    ("no-kill", 'k', Maybe),
    ("no-requeue", '\0', Nothing),
    ("no-shell", '\0', Nothing),
    ("nodefile", 'F', Value),
    ("nodelist", 'w', Value),
    ("nodes", 'N', Value),
    ("ntasks", 'n', Value),
    ("ntasks-per-core", '\0', Value),
    ("ntasks-per-gpu", '\0', Value),
    ("ntasks-per-node", '\0', Value),
    ("ntasks-per-socket", '\0', Value),
    ("open-mode", '\0', Value),
    ("output", 'o', Value),
    ("overcommit", 'O', Nothing),
    ("overlap", '\0', Nothing),
    ("oversubscribe", 's', Nothing),
    ("parsable", '\0', Nothing),
    ("partition", 'p', Value),
    ("power", '\0', Value),
    ("prefer", '\0', Value),
    ("priority", '\0', Value),
    ("profile", '\0', Value),
    ("propagate", '\0', Maybe),
    ("pty", '\0', Nothing),
    ("qos", 'q', Value),
    ("quiet", 'Q', Nothing),
    ("reboot", '\0', Nothing),
    ("requeue", '\0', Nothing),
    ("reservation", '\0', Value),
    ("signal", '\0', Value),
    ("sockets-per-node", '\0', Value),
    ("spread-job", '\0', Nothing),
    ("switches", '\0', Value),
    ("task-epilog", '\0', Value),
    ("task-prolog", '\0', Value),
    ("test-only", '\0', Nothing),
    ("thread-spec", '\0', Value),
    ("threads", 'T', Value),
    ("threads-per-core", '\0', Value),
    ("time", 't', Value),
    ("time-min", '\0', Value),
    ("tmp", '\0', Value),
    ("uid", '\0', Value),
    ("gid", '\0', Value),
    ("unbuffered", 'u', Nothing),
    ("usage", '\0', Nothing),
    ("use-min-nodes", '\0', Nothing),
    ("verbose", 'v', Nothing),
    ("version", 'V', Nothing),
    ("wait", 'W', Maybe),
    ("wait-all-nodes", '\0', Value),
    ("wckey", '\0', Value),
    ("wrap", '\0', Value),
];

/// Options that have no meaning where time is shared, or none here. They get one line.
const IGNORED: &[&str] = &[
    "acctg-freq",
    "bell",
    "compress",
    "contiguous",
    "core-spec",
    "cores-per-socket",
    "cpu-freq",
    "delay-boot",
    "distribution",
    "gpu-bind",
    "gpu-freq",
    "gres-flags",
    "hint",
    "mcs-label",
    "mem-bind",
    "network",
    "nice",
    "ntasks-per-core",
    "ntasks-per-socket",
    "power",
    "prefer",
    "priority",
    "profile",
    "propagate",
    "qos",
    "sockets-per-node",
    "spread-job",
    "switches",
    "threads-per-core",
    "time-min",
    "tmp",
    "wckey",
];

/// Options whose meaning holds in any case. They get no line.
const NATURAL: &[&str] = &[
    "cpu-bind",
    "exact",
    "get-user-env",
    "ignore-pbs",
    "immediate",
    "kill-on-invalid-dep",
    "mincpus",
    "no-bell",
    "no-kill",
    "overcommit",
    "overlap",
    "oversubscribe",
    "threads",
    "unbuffered",
    "use-min-nodes",
    "wait-all-nodes",
];

/// Words of `--hint`.
const HINTS: [&str; 5] = ["compute_bound", "memory_bound", "multithread", "nomultithread", "help"];

/// Slurm's words for what it refuses too.
const REFUSED_BY_SLURM: [(&str, &str); 2] =
    [("constraint", "Invalid feature specification"), ("licenses", "Invalid license specification")];

/// Kinds of mail about what never happens here, or is not told of.
const MAILS_OF_NOTHING: [&str; 7] =
    ["INVALID_DEPEND", "STAGE_OUT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50", "ARRAY_TASKS", ""];

/// Options that are refused, and the reason.
const REFUSED: &[(&str, &str)] = &[
    ("bb", "there are no burst buffers"),
    ("bbf", "there are no burst buffers"),
    ("cluster", "there is one cluster: no other one can be named"),
    ("clusters", "there is one cluster: no other one can be named"),
    ("constraint", "nodes have no features"),
    ("container", "containers are not started by Tutti: name a program that starts one"),
    ("gid", "a job has the groups of its user"),
    ("licenses", "there are none"),
    ("multi-prog", "several programs are one job with `tutti run A : B`"),
    ("no-shell", "an allocation ends with its command: `salloc COMMAND`"),
    ("nodefile", "-w names nodes"),
    ("reboot", "nodes are not rebooted"),
    ("task-epilog", "programs before and behind tasks are not run"),
    ("task-prolog", "programs before and behind tasks are not run"),
    ("thread-spec", "cores are slots"),
    ("uid", "a job is its submitter's"),
];

/// Fate of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Does what it does in Slurm.
    Works,
    /// Holds in any case.
    Holds,
    /// Has no effect, which one line says.
    Said,
    /// Is refused.
    Refused,
}

/// Variables that stand for options of `srun`, behind those of the command line.
const OF_SRUN: [(&str, &str); 11] = [
    ("SRUN_CPUS_PER_TASK", "cpus-per-task"),
    ("SLURM_EXCLUSIVE", "exclusive"),
    ("SLURM_LABELIO", "label"),
    ("SLURM_OPEN_MODE", "open-mode"),
    ("SLURM_OVERLAP", "overlap"),
    ("SLURM_STDERRMODE", "error"),
    ("SLURM_STDINMODE", "input"),
    ("SLURM_STDOUTMODE", "output"),
    ("SLURM_TIMELIMIT", "time"),
    ("SLURM_UNBUFFEREDIO", "unbuffered"),
    ("SLURM_WORKING_DIR", "chdir"),
];

/// Whether a variable of Slurm's is of the user's, not of the job around a command.
pub fn is_handed_on(variable: &str) -> bool {
    variable == "SLURM_TIME_FORMAT" || OF_SRUN.iter().any(|(name, _)| *name == variable)
}

/// Fate of an option of [`SPECS`].
#[must_use]
pub fn treatment(name: &str) -> Treatment {
    if NATURAL.contains(&name) {
        Treatment::Holds
    } else if IGNORED.contains(&name) {
        Treatment::Said
    } else if name == "deadline" || REFUSED.iter().any(|(refused, _)| *refused == name) {
        Treatment::Refused
    } else {
        Treatment::Works
    }
}

/// The variables of a job's environment that it is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Export {
    /// The whole environment, and these settings (`ALL,A=1`).
    #[default]
    All,
    /// None but the most needed.
    None,
    /// Names, and settings `NAME=VALUE`.
    Only(Vec<String>),
    /// The whole environment and settings.
    AllAnd(Vec<String>),
}

/// Wishes for a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// `--job-name`.
    name: Option<String>,
    /// `--account`; kept with the job, and not used.
    account: Option<String>,
    /// `--comment`.
    comment: Option<String>,
    /// `--partition`: a queue, or the only partition.
    partition: Option<String>,
    /// `--nodes`: the least number of them.
    nodes: Option<u32>,
    /// `--ntasks`.
    tasks: Option<u32>,
    /// `--ntasks-per-node`.
    per_node: Option<u32>,
    /// Tasks that fill a node, where the tasks alone say how many nodes there are.
    filled: Option<u32>,
    /// `--cpus-per-task`.
    cores: Option<u32>,
    /// `--mem`, in bytes on each node.
    memory: Option<u64>,
    /// `--mem-per-cpu`, in bytes.
    memory_per_core: Option<u64>,
    /// `--gpus` and its like.
    gpus: Gpus,
    /// `--ntasks-per-gpu`, `--cpus-per-gpu`, and `--mem-per-gpu` in bytes; 0: not given.
    of_gpu: (u32, u32, u64),
    /// `--time`, in ms.
    time_ms: Option<u64>,
    /// `--nodelist`.
    hosts: Vec<String>,
    /// `--exclude`.
    excluded: Vec<String>,
    /// `--array`.
    array: Option<Array>,
    /// `--dependency`, and its text.
    dependency: Option<(Dependency, String)>,
    /// `--chdir`.
    folder: Option<String>,
    /// Files of the job's streams.
    files: Files,
    /// `--export`.
    export: Export,
    /// Manner of the command.
    manner: Manner,
    /// `--wrap`.
    wrap: Option<String>,
    /// Further wishes for the scheduler.
    care: Care,
    /// Names of options that have no effect.
    ignored: Vec<&'static str>,
}

/// Files of a job's streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// `--output`.
    output: Option<String>,
    /// `--error`.
    error: Option<String>,
    /// `--input`.
    input: Option<String>,
    /// `--open-mode=append`.
    append: bool,
}

/// Manner of the command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// `--parsable`.
    parsable: bool,
    /// `--wait` of `sbatch`.
    waits: bool,
    /// `--quiet`.
    quiet: bool,
    /// `--verbose`.
    verbose: bool,
    /// `--test-only`.
    test_only: bool,
    /// `--label` of `srun`.
    label: bool,
    /// `--pty` of `srun`.
    pty: bool,
    /// `--help`, `--usage`.
    help: bool,
    /// `--version`.
    version: bool,
    /// `--mpi` of `srun`.
    mpi: Option<String>,
    /// `--jobid` of `srun`.
    job: Option<u64>,
}

/// Further wishes to the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Care {
    /// `--hold`.
    hold: bool,
    /// `--exclusive`: here a wish.
    exclusive: bool,
    /// `--requeue`, `--no-requeue`.
    requeue: Option<bool>,
    /// `--begin`.
    begin: Option<String>,
    /// `--deadline`.
    deadline: Option<String>,
    /// `--signal`: its number, the seconds before the limit, and whether the script alone gets it.
    signal: Option<(u32, u64, bool)>,
    /// `--reservation`; empty: none.
    reservation: String,
    /// `--nice`: shown, and without effect.
    nice: i64,
    /// `--mail-type`, `--mail-user`.
    mail: Mail,
}

impl Wanted {
    /// Takes an option.
    ///
    /// # Errors
    /// When its value is wrong, or it cannot be had.
    pub fn set(&mut self, name: &'static str, value: &str) -> Result<(), Refusal> {
        if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            let is_own = name.starts_with("cluster") && (value == crate::names::CLUSTER || value == "all");
            let is_nothing =
                ["0", "none", ""].contains(&value) && !["no-shell", "multi-prog", "reboot"].contains(&name);
            if is_own || is_nothing && name != "uid" && name != "gid" {
                return Ok(());
            }
            return Err(match REFUSED_BY_SLURM.iter().find(|(refused, _)| *refused == name) {
                Some((_, words)) => Refusal::submission(&format!("{words}: {why}")),
                None => format!("--{name}: {why}").into(),
            });
        }
        check(name, value)?;
        match treatment(name) {
            Treatment::Holds => return Ok(()),
            Treatment::Said => {
                if name == "nice" {
                    self.care.nice = value.parse().unwrap_or(100);
                }
                if !self.ignored.contains(&name) {
                    self.ignored.push(name);
                }
                return Ok(());
            }
            Treatment::Works | Treatment::Refused => {}
        }
        let count = || count(name, value);
        let text = || Some(value.to_owned());
        match name {
            "job-name" => self.name = text(),
            "account" => self.account = text().filter(|value| !value.is_empty()),
            "comment" => self.comment = text(),
            "partition" => self.partition = text().filter(|value| !value.is_empty()),
            "nodes" => self.nodes = Some(node_count(value)?),
            "ntasks" => self.tasks = Some(count()?),
            "ntasks-per-node" => self.per_node = Some(count()?),
            "cpus-per-task" => self.cores = Some(count()?),
            "mem" => self.memory = Some(size(name, value)?).filter(|bytes| *bytes > 0),
            "mem-per-cpu" => self.memory_per_core = Some(size(name, value)?).filter(|bytes| *bytes > 0),
            "gpus" | "gpus-per-node" | "gpus-per-task" | "gres" => self.gpus.set(name, value)?,
            "ntasks-per-gpu" => self.of_gpu.0 = count()?,
            "cpus-per-gpu" => self.of_gpu.1 = count()?,
            "mem-per-gpu" => self.of_gpu.2 = size(name, value)?,
            "time" => self.time_ms = forms::time_limit(value).ok_or_else(|| Refusal::specification(name))?,
            "nodelist" => self.hosts = nodes(name, value)?,
            "exclude" => self.excluded = nodes(name, value)?,
            "array" => {
                let wrong = || Refusal::submission("Invalid job array specification");
                self.array = Some(forms::array(value).ok_or_else(wrong)?);
            }
            "dependency" => {
                let found = forms::dependency(value).map_err(|text| Refusal::submission(&text))?;
                self.dependency = (!value.is_empty()).then(|| (found, value.to_owned()));
            }
            "chdir" => self.folder = text(),
            "export" => self.export = export(value),
            "wrap" => self.wrap = text(),
            _ => self.set_manner(name, value)?,
        }
        Ok(())
    }

    fn set_manner(&mut self, name: &'static str, value: &str) -> Result<(), Refusal> {
        let text = || Some(value.to_owned());
        match name {
            "output" => self.files.output = text(),
            "error" => self.files.error = text(),
            "input" => self.files.input = text(),
            "open-mode" => match value {
                "a" | "append" => self.files.append = true,
                "t" | "truncate" => self.files.append = false,
                _ => return Err(Refusal::specification(name)),
            },
            "hold" => self.care.hold = true,
            "exclusive" => self.care.exclusive = true,
            "requeue" => self.care.requeue = Some(true),
            "no-requeue" => self.care.requeue = Some(false),
            "begin" => {
                self.care.begin = text().filter(|value| value != "now" && !value.is_empty());
                if let Some(text) = self.care.begin.as_deref() {
                    moment(name, text)?;
                }
            }
            "deadline" => self.care.deadline = text(),
            "signal" => {
                self.care.signal = Some(forms::warning(value).ok_or_else(|| Refusal::specification(name))?);
            }
            "reservation" => value.clone_into(&mut self.care.reservation),
            "mail-type" => {
                // Kinds of what never happens here cause no mail.
                let named = value.split(',').filter(|word| !MAILS_OF_NOTHING.contains(&word.trim()));
                let named = named.collect::<Vec<_>>().join(",");
                let events = if named.is_empty() { Some(Vec::new()) } else { Mail::events_of(&named) };
                self.care.mail.events = events.ok_or_else(|| Refusal::specification(name))?;
            }
            "mail-user" if value.is_empty() || Mail::is_address(value) => {
                value.clone_into(&mut self.care.mail.to)
            }
            "mail-user" => return Err(Refusal::specification(name)),
            "parsable" => self.manner.parsable = true,
            "wait" => self.manner.waits = true,
            "quiet" => self.manner.quiet = true,
            "verbose" => self.manner.verbose = true,
            "test-only" => self.manner.test_only = true,
            "label" => self.manner.label = true,
            "pty" => self.manner.pty = true,
            "help" | "usage" => self.manner.help = true,
            "version" => self.manner.version = true,
            "mpi" => self.manner.mpi = text(),
            "jobid" => {
                self.manner.job = Some(value.parse().map_err(|_| Refusal::specification(name))?);
            }
            // `srun -K`: a step of Tutti ends with its first failure in any case.
            "kill-on-bad-exit" => {}
            _ => unreachable!("--{name} is in the table"),
        }
        Ok(())
    }

    /// Settles the number of nodes: no more than tasks, and as many as have cores for them where none were
    /// named. Gives the line about what it has changed, if it has.
    pub fn settle_nodes(
        &mut self,
        nodes: impl FnOnce() -> Result<Vec<NodeRow>, String>,
    ) -> Result<Option<String>, String> {
        let Some(tasks) = self.tasks.filter(|_| self.hosts.is_empty()) else { return Ok(None) };
        if let Some(nodes) = self.nodes.filter(|nodes| *nodes > tasks) {
            self.nodes = Some(tasks);
            return Ok(Some(format!(
                "Warning: can't run {tasks} processes on {nodes} nodes, setting nnodes to {tasks}"
            )));
        }
        let cores = self.cores.unwrap_or(1);
        if self.nodes.is_some() || self.per_node.is_some() || tasks < 2 {
            return Ok(None);
        }
        let mut slots: Vec<u32> = nodes()?
            .iter()
            .filter(|node| node.alive && node.drain().is_none() && !self.excluded.contains(&node.name))
            .map(|node| node.slots)
            .collect();
        slots.sort_unstable_by(|one, other| other.cmp(one));
        let Some(least) = slots.last().map(|slots| slots / cores) else { return Ok(None) };
        let mut left = tasks;
        let needed = slots.iter().position(|slots| {
            left = left.saturating_sub(slots / cores);
            left == 0
        });
        // More tasks than there are cores share the time of all nodes.
        let count = needed.map_or(slots.len(), |last| last + 1) as u32;
        self.nodes = Some(count.min(tasks));
        let is_filled = needed.is_some() && cores > 1 && least > 0 && tasks.div_ceil(least) == count;
        self.filled = Some(least).filter(|_| is_filled && count > 1);
        Ok(None)
    }

    /// No more nodes than tasks: those of a step, whose job has them all.
    pub fn limit_nodes(&mut self) {
        if let (Some(nodes), Some(tasks)) = (self.nodes, self.tasks) {
            self.nodes = Some(nodes.min(tasks));
        }
    }

    /// Slots of each node but the last, where they are not dealt evenly.
    #[must_use]
    pub fn slots_per_node(&self) -> Option<u32> {
        let count = self.per_node.or(self.filled).filter(|_| self.all_nodes() > 1)?;
        Some(count.saturating_mul(self.cores.unwrap_or(1)))
    }

    /// Settles what follows from the number of GPUs, when all options are taken.
    ///
    /// # Errors
    /// When they do not fit together; a text for the user.
    pub fn settle_gpus(&mut self) -> Result<(), String> {
        let (tasks_of_gpu, cores_of_gpu, bytes_of_gpu) = std::mem::take(&mut self.of_gpu);
        if self.gpus.is_nothing() {
            return Ok(());
        }
        if tasks_of_gpu > 0 && self.tasks.is_none() && self.per_node.is_none() {
            let all = self.gpus.on_node(self.all_nodes(), self.all_nodes())?.saturating_mul(self.all_nodes());
            self.tasks = Some(all.saturating_mul(tasks_of_gpu));
        }
        let gpus = self.gpus_of_node()?;
        let tasks = self.all_tasks().div_ceil(self.all_nodes()).max(1);
        if cores_of_gpu > 0 && self.cores.is_none() {
            self.cores = Some(cores_of_gpu.saturating_mul(gpus).div_ceil(tasks).max(1));
        }
        if bytes_of_gpu > 0 && self.memory.is_none() {
            self.memory = Some(bytes_of_gpu.saturating_mul(u64::from(gpus)));
        }
        Ok(())
    }

    /// GPUs on each node; 0: none was asked for.
    ///
    /// # Errors
    /// When they are not as many on each; a text for the user.
    pub fn gpus_of_node(&self) -> Result<u32, String> {
        self.gpus.on_node(self.all_nodes(), self.all_tasks())
    }

    /// Elements of its array, if it is one.
    #[must_use]
    pub fn array(&self) -> Option<&Array> {
        self.array.as_ref()
    }

    /// Whether the answer is the number alone.
    #[must_use]
    pub fn is_parsable(&self) -> bool {
        self.manner.parsable
    }

    /// Whether the command waits for the job's end.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.manner.waits
    }

    /// Whether remarks are left out.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.manner.quiet
    }

    /// Whether nothing is submitted.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.manner.test_only
    }

    /// Number of tasks: as named, or one for each node.
    #[must_use]
    pub fn all_tasks(&self) -> u32 {
        let nodes = self.nodes.unwrap_or_else(|| self.hosts.len().max(1) as u32);
        self.tasks.unwrap_or_else(|| nodes.saturating_mul(self.per_node.unwrap_or(1)))
    }

    /// A signal before its time limit; none: no signal, or no limit.
    #[must_use]
    pub fn warning(&self) -> Option<Warning> {
        let ((signal, seconds, to_script), limit_ms) = self.care.signal.zip(self.time_ms)?;
        Some(Warning { signal, after_ms: limit_ms.saturating_sub(seconds * 1000), to_script })
    }

    /// Size of the job, as it is kept with it.
    #[must_use]
    pub fn size(&self) -> Size {
        Size {
            tasks: self.tasks.or_else(|| self.per_node.map(|_| self.all_tasks())),
            per_node: self.per_node,
            cores: self.cores,
            nodes: self.all_nodes(),
            memory_mib: self.memory.or(self.memory_per_core).map(|bytes| bytes >> 20),
            memory_per_core: self.memory.is_none() && self.memory_per_core.is_some(),
            gpus: self.gpus,
        }
    }

    /// Number of nodes.
    #[must_use]
    pub fn all_nodes(&self) -> u32 {
        let by_tasks = || Some(self.tasks?.div_ceil(self.per_node?));
        let least = self.hosts.len().max(1) as u32;
        // More nodes than tasks are not needed.
        self.nodes.or_else(by_tasks).unwrap_or(least)
    }

    /// Memory on each node in bytes; 0: none was named.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let cores = u64::from(self.cores.unwrap_or(1));
        let tasks = u64::from(self.all_tasks().div_ceil(self.all_nodes()));
        let by_cores = || self.memory_per_core.map(|bytes| bytes.saturating_mul(cores * tasks));
        self.memory.or_else(by_cores).unwrap_or(0)
    }

    /// `srun --wait`: seconds from the end of the first task to that of the others. Here a step ends with its
    /// first task that fails, else with its last one.
    ///
    /// # Errors
    /// When it is no number.
    pub fn take_wait(&mut self, value: &str) -> Result<(), Refusal> {
        let seconds: u32 = value
            .parse()
            .map_err(|_| Refusal::from(format!("Invalid numeric value \"{value}\" for --wait.")))?;
        if seconds > 0 {
            self.ignored.push("wait");
        }
        Ok(())
    }

    /// The line about options without effect; none: there are none.
    #[must_use]
    pub fn ignored_line(&self) -> Option<String> {
        let names: Vec<String> = self.ignored.iter().map(|name| format!("--{name}")).collect();
        (!names.is_empty()).then(|| format!("{} without effect on a cluster of Tutti", names.join(", ")))
    }
}

fn number(name: &str, text: &str, value: &str) -> Result<u32, String> {
    let digits = text.strip_suffix(['k', 'K']);
    let found = digits.unwrap_or(text).parse::<u32>().ok().filter(|number| *number > 0);
    let found = found.and_then(|number| number.checked_mul(if digits.is_some() { 1024 } else { 1 }));
    found.ok_or_else(|| format!("Invalid numeric value \"{value}\" for --{name}."))
}

fn count(name: &str, value: &str) -> Result<u32, String> {
    number(name, value, value)
}

fn size(name: &str, value: &str) -> Result<u64, Refusal> {
    forms::memory(value).ok_or_else(|| Refusal::specification(name))
}

/// The least number of nodes in `N` or `N-MOST`.
fn node_count(value: &str) -> Result<u32, Refusal> {
    let of = |text: &str| {
        let (digits, factor) = match text.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 1024),
            None => (text, 1),
        };
        let found = digits.parse::<u32>().ok().and_then(|number| number.checked_mul(factor));
        found.ok_or_else(|| Refusal::Form(format!("\"{text}\" is not a valid node count")))
    };
    let (least, most) = match value.split_once('-') {
        Some((least, most)) => (of(least)?, Some(of(most)?)),
        None => (of(value.split(',').next().unwrap_or_default())?, None),
    };
    if let Some(most) = most.filter(|most| *most < least) {
        return Err(Refusal::Form(format!(
            "Maximum node count {most} is less than minimum node count {least}"
        )));
    }
    if least == 0 {
        return Err(Refusal::submission("Node count specification invalid"));
    }
    Ok(least)
}

/// A moment, as `--begin` and `--deadline` have it.
fn moment(name: &str, value: &str) -> Result<u64, Refusal> {
    moments::moment(value, Day::Next).map_err(|_| Refusal::specification(name))
}

/// Checks the value of an option that has no effect here: what Slurm refuses is refused.
fn check(name: &str, value: &str) -> Result<(), Refusal> {
    let is_in = |words: &[&str]| words.contains(&value);
    let is_right = match name {
        "mincpus" | "switches" | "threads-per-core" | "ntasks-per-core" | "ntasks-per-socket" => {
            count(name, value.split('@').next().unwrap_or_default())?;
            true
        }
        "core-spec" if value != "0" => {
            count(name, value)?;
            true
        }
        "time-min" => forms::time_limit(value).is_some(),
        "tmp" => forms::memory(value).is_some(),
        "wait-all-nodes" => is_in(&["0", "1"]),
        "kill-on-invalid-dep" => is_in(&["yes", "no"]),
        "exclusive" => is_in(&["", "exclusive", "user", "mcs"]),
        "distribution" => {
            let first = value.split([':', ',', '=']).next().unwrap_or_default();
            ["block", "cyclic", "arbitrary", "plane", "*", "pack", "nopack"]
                .contains(&&*first.to_ascii_lowercase())
        }
        "nice" => {
            let is_number =
                value.strip_prefix('-').unwrap_or(value).bytes().all(|byte| byte.is_ascii_digit());
            if is_number && !value.is_empty() && value.parse::<i32>().is_err() {
                return Err(Refusal::Form("Invalid --nice value, out of range (+/- 2147483645)".into()));
            }
            true
        }
        "hint" => {
            if let Some(word) = value.split(',').find(|word| !HINTS.contains(word)) {
                return Err(format!("unrecognized --hint argument \"{word}\", see --hint=help").into());
            }
            true
        }
        _ => true,
    };
    if is_right { Ok(()) } else { Err(Refusal::specification(name)) }
}

fn nodes(name: &str, value: &str) -> Result<Vec<String>, Refusal> {
    let wrong = || Refusal::submission(&format!("Invalid node name specified: --{name}={value}"));
    node_list::expand(value).ok_or_else(wrong)
}

fn export(value: &str) -> Export {
    let words: Vec<String> = value.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
    match words.first().map(String::as_str) {
        Some("NONE" | "NIL") => Export::None,
        Some("ALL") if words.len() == 1 => Export::All,
        Some("ALL") => Export::AllAnd(words[1..].to_vec()),
        None => Export::All,
        _ => Export::Only(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::getopt::{Ends, parse};

    fn wanted(text: &str) -> Result<Wanted, String> {
        read(text).map_err(|refusal| refusal.to_string())
    }

    fn read(text: &str) -> Result<Wanted, Refusal> {
        let words = shlex::split(text).unwrap();
        let line = parse(SPECS, &words, Ends::AtOperand)?;
        let mut wanted = Wanted::default();
        for (name, value) in line.options {
            wanted.set(name, &value)?;
        }
        Ok(wanted)
    }

    #[test]
    fn options_of_every_tool_are_taken() {
        let line = "--parsable --job-name 'x y' --output '/a b/%j' --export=ALL --comment TEXT -A acc -p tutti -t 30 \
                    --qos=q --mem 954M --nodes=2 --no-requeue --exclude=n[1-2] --ntasks=4 --ntasks-per-node=2 \
                    --cpus-per-task=3 -D /tmp --array=1-4%2 --wckey=submitit --open-mode=append --hint nomultithread";
        let found = wanted(line).unwrap();
        assert_eq!((found.all_nodes(), found.all_tasks(), found.cores), (2, 4, Some(3)));
        assert_eq!(found.name.as_deref(), Some("x y"));
        assert_eq!((found.memory, found.time_ms), (Some(954 << 20), Some(1_800_000)));
        assert_eq!(found.excluded, ["n1", "n2"]);
        assert!(found.manner.parsable && found.files.append);
        let line = found.ignored_line().unwrap();
        assert_eq!(line, "--qos, --wckey, --hint without effect on a cluster of Tutti");
    }

    #[test]
    fn tasks_nodes_and_memory_follow_from_each_other() {
        let of = |text| wanted(text).map(|w| (w.all_nodes(), w.all_tasks(), w.memory_bytes() >> 20));
        assert_eq!(of(""), Ok((1, 1, 0)));
        assert_eq!(of("-N 2-4"), Ok((2, 2, 0)));
        assert_eq!(of("-n 5 --ntasks-per-node 2"), Ok((3, 5, 0)));
        assert_eq!(of("-N2 --ntasks-per-node 3 -c 2 --mem-per-cpu 10"), Ok((2, 6, 60)));
        assert_eq!(of("-w n[1-3]"), Ok((3, 3, 0)));
        assert_eq!(of("--mem=0"), Ok((1, 1, 0)));
        let of_step = |text| {
            let mut wanted = wanted(text).unwrap();
            wanted.limit_nodes();
            (wanted.all_nodes(), wanted.all_tasks())
        };
        assert_eq!(["-N 2 -n 1", "-N 2", "-N 2 -n 3"].map(of_step), [(1, 1), (2, 2), (2, 3)]);
        let of = |text| {
            let mut wanted = wanted(text)?;
            wanted.settle_gpus()?;
            Ok::<_, String>((
                wanted.gpus_of_node()?,
                wanted.all_tasks(),
                wanted.cores,
                wanted.memory_bytes() >> 20,
            ))
        };
        assert_eq!(of("-N 2 --gpus 4 --ntasks-per-gpu 2"), Ok((2, 8, None, 0)));
        assert_eq!(of("-n 2 --gpus-per-task 2 --cpus-per-gpu 3 --mem-per-gpu 10"), Ok((4, 2, Some(6), 40)));
        assert_eq!(of("-N 2 --cpus-per-gpu 3"), Ok((0, 2, None, 0)));
    }

    #[test]
    fn options_that_cannot_be_had_are_refused_in_one_line() {
        for line in [
            "--gres=gpu:a100:1",
            "--gpus x",
            "-L matlab",
            "-M other",
            "--clusters=x",
            "-C haswell",
            "--mail-type=SOMETIMES",
            "--mail-user=a;b",
            "-n x",
            "-t 1x",
            "--mem=1.5G",
            "-a 0-99999999",
            "-d aftercorr:1",
        ] {
            let error = wanted(line).unwrap_err();
            assert!(!error.contains('\n') && !error.is_empty(), "{line}");
        }
        for line in ["--gres=none", "--gpus=0", "-M tutti", "--clusters=all"] {
            assert_eq!(wanted(line).map(|_| ()), Ok(()), "{line}");
        }
    }

    #[test]
    fn export_has_all_none_and_names() {
        assert_eq!(export("ALL"), Export::All);
        assert_eq!(export("NONE"), Export::None);
        assert_eq!(export("A,B=1"), Export::Only(vec!["A".into(), "B=1".into()]));
        assert_eq!(export("ALL,B=1"), Export::AllAnd(vec!["B=1".into()]));
    }

    #[test]
    fn every_option_is_in_one_table_at_most() {
        for (name, _, _) in SPECS {
            let is_refused = REFUSED.iter().any(|(refused, _)| refused == name);
            let tables = [IGNORED.contains(name), NATURAL.contains(name), is_refused];
            assert!(tables.iter().filter(|is_in| **is_in).count() <= 1, "{name}");
            if tables == [false; 3] {
                let value = match *name {
                    "nodes" | "ntasks" | "ntasks-per-node" | "cpus-per-task" | "mem" | "mem-per-cpu"
                    | "time" | "array" | "jobid" | "gpus" | "gpus-per-node" | "gpus-per-task"
                    | "ntasks-per-gpu" | "cpus-per-gpu" | "mem-per-gpu" => "1",
                    "open-mode" => "append",
                    "signal" => "USR1",
                    "dependency" => "singleton",
                    "mail-type" => "ALL",
                    _ => "",
                };
                Wanted::default().set(name, value).unwrap();
            }
        }
    }
}
