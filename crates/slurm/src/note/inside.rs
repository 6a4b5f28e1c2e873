//! Where a job runs: this program sets Slurm's variables from what Tutti says, then becomes the script, the
//! task or the command of an allocation. No process of it stays.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::process::Signal;
use tutti_client::node_list;
use tutti_client::requests::Control;
use tutti_protocol::gpus::VISIBLE;
use tutti_protocol::variables::{ARRAY_ID, ARRAY_TASK, FIRST_JOB, RESTARTS};

use crate::names::{CLUSTER, SCRIPT_NAME};
use crate::note::{Element, MARK, Note, Warning};
use crate::output::{complain, refuse};
use crate::patterns::{self, Values};
use crate::wanted::submit::PIECE;
use crate::{identity, query};

/// Status of a program that cannot be executed.
const NOT_EXECUTED: u8 = 126;
/// Status of a program that is not there.
const NOT_FOUND: u8 = 127;

/// The job around this process, as its environment says it.
#[derive(Debug)]
struct Around {
    note: Note,
    /// Number.
    job: u64,
    /// Nodes, with the slots of each.
    nodes: Vec<(String, u32)>,
    /// The element of an array that it is.
    element: Option<Element>,
    /// How often it was requeued.
    restarts: u64,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Around {
    fn of_environment() -> Option<Around> {
        let note = variable(MARK).and_then(|text| Note::of(&text)).unwrap_or_default();
        let number = |name: &str| variable(name)?.parse().ok();
        let job = number("SLURM_JOB_ID").or_else(|| number(FIRST_JOB)).or_else(|| number("TUTTI_JOBID"))?;
        let restarts = number(RESTARTS).unwrap_or(0);
        let nodes = variable("TUTTI_ALLOCATION").unwrap_or_default();
        let nodes = nodes.split(',').filter_map(|word| {
            let (name, slots) = word.rsplit_once(':')?;
            Some((name.to_owned(), slots.parse().ok()?))
        });
        let shape = note.array.unwrap_or_default();
        let element = number(ARRAY_ID).zip(number(ARRAY_TASK));
        let element = element.map(|(job, task)| Element { job, task: task as u32, shape });
        Some(Around { note, job, nodes: nodes.collect(), element, restarts })
    }

    /// The array's number, or its own.
    fn array(&self) -> String {
        self.element.map_or(self.job, |element| element.job).to_string()
    }

    fn names(&self) -> Vec<String> {
        self.nodes.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Tasks of each node.
    fn tasks(&self) -> Vec<u32> {
        let cores = self.note.size.cores.unwrap_or(1).max(1);
        self.nodes.iter().map(|(_, slots)| (slots / cores).max(1)).collect()
    }

    /// Variables of the job, as Slurm sets them.
    fn variables(&self) -> Vec<(&'static str, String)> {
        let note = &self.note;
        let slots: Vec<u32> = self.nodes.iter().map(|(_, slots)| *slots).collect();
        let (list, count) = (node_list::fold(&self.names()), self.nodes.len().max(1).to_string());
        let uid = identity::own_uid();
        let job = self.job.to_string();
        let mut all = vec![
            ("SLURM_JOB_ID", job.clone()),
            ("SLURM_JOBID", job.clone()),
            ("SLURM_JOB_NODELIST", list.clone()),
            ("SLURM_NODELIST", list),
            ("SLURM_JOB_NUM_NODES", count.clone()),
            ("SLURM_NNODES", count),
            ("SLURM_JOB_CPUS_PER_NODE", node_list::fold_counts(&slots)),
            ("SLURM_TASKS_PER_NODE", node_list::fold_counts(&self.tasks())),
            ("SLURM_CPUS_ON_NODE", slots.first().copied().unwrap_or(1).to_string()),
            ("SLURM_JOB_PARTITION", CLUSTER.into()),
            ("SLURM_JOB_QOS", "normal".into()),
            ("SLURM_JOB_USER", tutti_client::users::name(uid)),
            ("SLURM_JOB_UID", uid.to_string()),
            ("SLURM_JOB_GID", rustix::process::getgid().as_raw().to_string()),
            ("SLURM_SUBMIT_DIR", note.source.submit_folder.clone()),
            ("SLURM_SUBMIT_HOST", note.source.submit_host.clone()),
            ("SLURM_CLUSTER_NAME", CLUSTER.into()),
            ("SLURM_WORKING_CLUSTER", format!("{CLUSTER}:{}:6817:9728:102", identity::host_name())),
            ("SLURM_CONF", "/dev/null".into()),
            ("SLURM_PRIO_PROCESS", "0".into()),
            ("SLURM_NODE_ALIASES", "(null)".into()),
        ];
        if let Some(tasks) = note.size.tasks {
            all.extend([("SLURM_NTASKS", tasks.to_string()), ("SLURM_NPROCS", tasks.to_string())]);
        }
        all.extend(note.size.per_node.map(|count| ("SLURM_NTASKS_PER_NODE", count.to_string())));
        all.extend(note.size.cores.map(|count| ("SLURM_CPUS_PER_TASK", count.to_string())));
        let memory = if note.size.memory_per_core { "SLURM_MEM_PER_CPU" } else { "SLURM_MEM_PER_NODE" };
        all.extend(note.size.memory_mib.map(|mib| (memory, mib.to_string())));
        all.extend(self.gpus(std::env::var(VISIBLE).ok().as_deref()));
        if self.restarts > 0 {
            all.push(("SLURM_RESTART_COUNT", self.restarts.to_string()));
        }
        if !note.account.is_empty() {
            all.push(("SLURM_JOB_ACCOUNT", note.account.clone()));
        }
        if let Some((Element { job: array, task, shape }, _)) = self.element.zip(note.array) {
            all.extend([
                ("SLURM_ARRAY_JOB_ID", array.to_string()),
                ("SLURM_ARRAY_TASK_ID", task.to_string()),
                ("SLURM_ARRAY_TASK_COUNT", shape.count.to_string()),
                ("SLURM_ARRAY_TASK_MIN", shape.min.to_string()),
                ("SLURM_ARRAY_TASK_MAX", shape.max.to_string()),
                ("SLURM_ARRAY_TASK_STEP", shape.step.to_string()),
            ]);
        }
        all
    }
}

impl Around {
    /// Variables about GPUs, of which this node's are `visible`.
    fn gpus(&self, visible: Option<&str>) -> Vec<(&'static str, String)> {
        let asked = self.note.size.gpus;
        if asked.is_nothing() {
            return Vec::new();
        }
        let counts = [
            ("SLURM_GPUS", asked.all),
            ("SLURM_GPUS_PER_NODE", asked.of_node),
            ("SLURM_GPUS_PER_TASK", asked.of_task),
        ];
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        let mut all: Vec<_> = counts.map(|(name, count)| (name, count.to_string())).collect();
        if let Some(visible) = visible {
            let count = visible.split(',').filter(|number| !number.is_empty()).count();
            all.extend([("SLURM_JOB_GPUS", visible.to_owned()), ("SLURM_GPUS_ON_NODE", count.to_string())]);
        }
        all
    }
}

/// GPUs of a task among those of its node, `each` for every task; none: there are too few, and it has all.
fn gpus_of_task(visible: &str, each: u32, local_rank: u32) -> Option<String> {
    let all: Vec<&str> = visible.split(',').filter(|number| !number.is_empty()).collect();
    let first = each.checked_mul(local_rank)? as usize;
    Some(all.get(first..first + each as usize)?.join(",")).filter(|own| !own.is_empty())
}

/// Variables of a process of the job on this node.
fn of_process(node: &str, node_index: usize, rank: u32, local_rank: u32) -> Vec<(&'static str, String)> {
    vec![
        ("SLURM_NODEID", node_index.to_string()),
        ("SLURM_PROCID", rank.to_string()),
        ("SLURM_LOCALID", local_rank.to_string()),
        ("SLURM_TASK_PID", std::process::id().to_string()),
        ("SLURMD_NODENAME", node.to_owned()),
        ("SLURM_TOPOLOGY_ADDR", node.to_owned()),
        ("SLURM_TOPOLOGY_ADDR_PATTERN", "node".into()),
    ]
}

/// Variables of a step with so many tasks: its nodes are those that `srun` has named, or the task's own.
fn of_step(asked: &[String], own: &str, tasks: u32) -> Vec<(&'static str, String)> {
    let own = [own.to_owned()];
    let nodes = if asked.contains(&own[0]) { asked } else { &own };
    let count = nodes.len() as u32;
    // The first nodes have one more where they are not even.
    let dealt: Vec<u32> = (0..count).map(|node| tasks / count + u32::from(node < tasks % count)).collect();
    vec![
        ("SLURM_STEP_NODELIST", node_list::fold(nodes)),
        ("SLURM_STEP_NUM_NODES", count.to_string()),
        ("SLURM_STEP_TASKS_PER_NODE", node_list::fold_counts(&dealt)),
    ]
}

/// Becomes the script of a job.
pub fn run_script(words: &[String]) -> ExitCode {
    let Some(around) = Around::of_environment().filter(|_| variable(MARK).is_some()) else {
        complain("sbatch", "slurm_script is started by jobs of sbatch alone");
        return ExitCode::FAILURE;
    };
    let mut pieces: Vec<OsString> = Vec::new();
    while let Some(piece) = std::env::var_os(format!("{PIECE}_{}", pieces.len())) {
        pieces.push(piece);
    }
    let script = match script_file(&pieces) {
        Ok(file) => file,
        Err(error) => {
            return refuse("sbatch", &format!("cannot make the script's file: {error}"), NOT_EXECUTED);
        }
    };
    let mut command = Command::new(format!("/proc/self/fd/{}", script.as_raw_fd()));
    command.args(words);
    for index in 0..pieces.len() {
        command.env_remove(format!("{PIECE}_{index}"));
    }
    let node = around.nodes.first().map(|(name, _)| name.clone()).unwrap_or_default();
    command.envs(around.variables()).envs(of_process(&node, 0, 0, 0));
    command.env("SLURM_JOB_NAME", job_name(&around)).env("SLURM_GTIDS", "0").env("ENVIRONMENT", "BATCH");
    if let Some(warning) = around.note.warning
        && let Err(error) = start_timer(warning)
    {
        return refuse("sbatch", &format!("cannot start the timer of --signal: {error}"), NOT_EXECUTED);
    }
    execute(command, "the script's interpreter")
}

/// Starts a process that sends a signal at its time. It ends with the script, whose child it is.
fn start_timer(warning: Warning) -> std::io::Result<()> {
    let words = [
        "timer".to_owned(),
        warning.after_ms.to_string(),
        warning.signal.to_string(),
        if warning.to_script { std::process::id() } else { 0 }.to_string(),
        // Of its own number, whatever number Slurm's variables have.
        variable("TUTTI_JOBID").unwrap_or_default(),
    ];
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop)
}

/// Waits, then sends a signal to the script, or to the steps of the job: `timer AFTER_MS SIGNAL SCRIPT JOB`,
/// where SCRIPT is its pid or 0.
pub fn run_timer(words: &[String]) -> ExitCode {
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let [after_ms, signal, script, job] = numbers[..] else {
        return refuse("sbatch", "a timer has four numbers", NOT_FOUND);
    };
    // A script that has ended before this holds has another parent than its timer.
    let parent = rustix::process::getppid();
    if rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_err()
        || rustix::process::getppid() != parent
    {
        return ExitCode::FAILURE;
    }
    std::thread::sleep(Duration::from_millis(after_ms));
    if script > 0 {
        let signal = i32::try_from(signal).ok().and_then(Signal::from_named_raw);
        let sent = parent.zip(signal).map(|(script, signal)| rustix::process::kill_process(script, signal));
        return if sent.is_some_and(|sent| sent.is_ok()) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let (_, steps) = query::open_jobs().unwrap_or_default();
    let own = steps.iter().filter(|step| step.row.owner().is_some_and(|owner| owner.0 == job));
    for step in own.filter(|step| !step.state().is_over()) {
        // One that has ended meanwhile needs none.
        let _ = query::control(step.row.job, Control::Signal(signal as u32));
    }
    ExitCode::SUCCESS
}

/// A name is the row's, which the job does not see: it is in the variable that `sbatch` sets.
fn job_name(_around: &Around) -> String {
    variable("SLURM_JOB_NAME").unwrap_or_else(|| SCRIPT_NAME.into())
}

/// The script in memory: nothing of it stays behind, however the job ends. It is inherited on purpose: the
/// interpreter opens it by its number.
fn script_file(pieces: &[OsString]) -> std::io::Result<File> {
    let file = rustix::fs::memfd_create(SCRIPT_NAME, MemfdFlags::empty())?;
    let mut file = File::from(file);
    for piece in pieces {
        file.write_all(piece.as_bytes())?;
    }
    file.rewind()?;
    Ok(file)
}

/// Becomes a task of a step: `task [--output PATTERN] [--error PATTERN] [--append] [--first N:COUNT] --
/// PROGRAM ...`.
pub fn run_task(words: &[String]) -> ExitCode {
    let Some(at) = words.iter().position(|word| word == "--") else {
        return refuse("srun", "a task has no program", NOT_FOUND);
    };
    let (options, program) = (&words[..at], &words[at + 1..]);
    let Some((file, arguments)) = program.split_first() else {
        return refuse("srun", "a task has no program", NOT_FOUND);
    };
    let number = |name: &str| variable(name).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    let (rank, size, local) = (number("TUTTI_RANK"), number("TUTTI_SIZE").max(1), number("TUTTI_LOCAL_RANK"));
    let step = variable("TUTTI_JOBID").unwrap_or_default();
    let around = Around::of_environment();
    let names = around.as_ref().map(Around::names).unwrap_or_default();
    let index =
        node_index(&names, &identity::host_name(), rank.saturating_sub(local), number("TUTTI_LOCAL_SIZE"));
    let node = names.get(index).cloned().unwrap_or_else(identity::host_name);
    let mut command = Command::new(file);
    command.args(arguments);
    let step_id = variable("SLURM_STEP_ID").unwrap_or_else(|| "0".into());
    match &around {
        Some(around) => {
            command.envs(around.variables());
        }
        None => {
            command.env("SLURM_JOB_ID", &step).env("SLURM_JOBID", &step);
        }
    }
    command.envs(of_process(&node, index, rank, local));
    let each = number("SLURM_GPUS_PER_TASK");
    let visible = variable(VISIBLE).filter(|_| each > 0);
    if let Some(own) = visible.and_then(|visible| gpus_of_task(&visible, each, local)) {
        command.env(VISIBLE, own);
    }
    let size = size.to_string();
    for name in ["SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"] {
        command.env(name, &size);
    }
    command.env("SLURM_STEP_ID", &step_id).env("SLURM_STEPID", &step_id);
    let asked = variable("SLURM_STEP_NODELIST").and_then(|list| node_list::expand(&list)).unwrap_or_default();
    command.envs(of_step(&asked, &node, number("TUTTI_SIZE").max(1)));
    let here: Vec<String> = (0..number("TUTTI_LOCAL_SIZE").max(1))
        .map(|task| (rank.saturating_sub(local) + task).to_string())
        .collect();
    command.env("SLURM_GTIDS", here.join(","));
    let values = Values {
        job: around.as_ref().map_or_else(|| step.clone(), |around| around.job.to_string()),
        array: around.as_ref().map_or_else(|| step.clone(), Around::array),
        is_array: false,
        task_of_array: around.as_ref().and_then(|around| around.element).map(|element| element.task),
        rank: rank.to_string(),
        node_index: index.to_string(),
        node,
        name: variable("SLURM_JOB_NAME").unwrap_or_default(),
        user: tutti_client::users::name(identity::own_uid()),
        step: step_id,
    };
    let value = |name: &str| options.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let append = options.iter().any(|word| word == "--append");
    for (option, is_error) in [("--output", false), ("--error", true)] {
        let Some(pattern) = value(option) else { continue };
        let path = patterns::expand(pattern, &values, true);
        let is_own = patterns::is_of_tasks(pattern);
        let opened = OpenOptions::new().create(true).append(true).open(&path).and_then(|file| {
            // A file of several tasks has been emptied by srun.
            if is_own && !append && file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            Ok(file)
        });
        match opened {
            Ok(file) if is_error => drop(command.stderr(file)),
            Ok(file) => {
                if value("--error").is_none() {
                    match file.try_clone() {
                        Ok(file) => drop(command.stderr(file)),
                        Err(error) => return refuse("srun", &format!("cannot write {path}: {error}"), 1),
                    }
                }
                command.stdout(file);
            }
            Err(error) => return refuse("srun", &format!("cannot write {path}: {error}"), 1),
        }
    }
    if let Some(pattern) = value("--input") {
        let path = patterns::expand(pattern, &values, true);
        match File::open(&path) {
            Ok(file) => drop(command.stdin(file)),
            Err(error) => return refuse("srun", &format!("Could not open stdin file {path}: {error}"), 1),
        }
    }
    execute_task(command, file)
}

/// Becomes a task. One that cannot be executed ends with the number of the error, as in Slurm.
fn execute_task(mut command: Command, file: &str) -> ExitCode {
    let error = command.exec();
    let number = error.raw_os_error().and_then(|number| u8::try_from(number).ok());
    refuse("slurmstepd", &not_executed(file, &error), number.unwrap_or(NOT_EXECUTED))
}

/// Words about a program that cannot be executed.
fn not_executed(shown: &str, error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split_once(" (os error").map_or(text.as_str(), |(text, _)| text);
    format!("execve(): {shown}: {text}")
}

/// Becomes the command of an allocation: `allocation [--quiet] [--name NAME] -- COMMAND ...`.
pub fn run_allocation(words: &[String]) -> ExitCode {
    let Some(at) = words.iter().position(|word| word == "--") else {
        return refuse("salloc", "an allocation has no command", NOT_FOUND);
    };
    let (options, program) = (&words[..at], &words[at + 1..]);
    let (Some((file, arguments)), Some(around)) = (program.split_first(), Around::of_environment()) else {
        return refuse("salloc", "an allocation has no command", NOT_FOUND);
    };
    if !options.iter().any(|word| word == "--quiet") {
        complain("salloc", &format!("Granted job allocation {}", around.job));
    }
    let mut command = Command::new(file);
    command.args(arguments).envs(around.variables());
    command.env("SLURM_JOB_NAME", job_name(&around));
    execute(command, file)
}

/// Place of a task's node among those of the job: by the machine's name, else by the ranks before it, which
/// are evenly spread. `first` is the first rank of the node, `count` the ranks on it.
fn node_index(names: &[String], host: &str, first: u32, count: u32) -> usize {
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
    let by_name = names.iter().position(|name| short(name) == short(host));
    let by_rank = || first.checked_div(count).map_or(0, |index| index as usize);
    by_name.unwrap_or_else(|| by_rank().min(names.len().saturating_sub(1)))
}

fn execute(mut command: Command, shown: &str) -> ExitCode {
    let error = command.exec();
    let status = if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTED };
    let program = command.get_program();
    let shown = if program == OsStr::new(shown) {
        shown.to_owned()
    } else {
        format!("{shown} ({})", program.to_string_lossy())
    };
    refuse("slurmstepd", &not_executed(&shown, &error), status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::{Shape, Size};
    use crate::wanted::gpus::Gpus;

    fn around(note: Note) -> Around {
        let element = note.array.map(|shape| Element { job: 6, task: 3, shape });
        Around { note, job: 7, nodes: vec![("n1".into(), 4), ("n2".into(), 2)], element, restarts: 0 }
    }

    #[test]
    fn environment_has_what_was_asked_for_and_no_more() {
        let value = |around: &Around, name: &str| {
            around.variables().into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
        };
        let plain = around(Note::default());
        assert_eq!(value(&plain, "SLURM_JOB_NODELIST").as_deref(), Some("n[1-2]"));
        assert_eq!(value(&plain, "SLURM_TASKS_PER_NODE").as_deref(), Some("4,2"));
        for name in ["SLURM_NTASKS", "SLURM_CPUS_PER_TASK", "SLURM_MEM_PER_NODE", "SLURM_ARRAY_TASK_ID"] {
            assert_eq!(value(&plain, name), None, "{name}");
        }
        let shape = Shape { count: 2, min: 1, max: 3, step: 2, at_once: 0 };
        let asked = around(Note {
            size: Size { tasks: Some(3), cores: Some(2), ..Size::default() },
            array: Some(shape),
            ..Note::default()
        });
        for (name, expected) in [
            ("SLURM_NTASKS", "3"),
            ("SLURM_CPUS_PER_TASK", "2"),
            ("SLURM_TASKS_PER_NODE", "2,1"),
            ("SLURM_JOB_CPUS_PER_NODE", "4,2"),
            ("SLURM_ARRAY_JOB_ID", "6"),
            ("SLURM_ARRAY_TASK_ID", "3"),
            ("SLURM_ARRAY_TASK_STEP", "2"),
        ] {
            assert_eq!(value(&asked, name).as_deref(), Some(expected), "{name}");
        }
    }

    #[test]
    fn gpus_are_in_the_environment_of_jobs_with_some() {
        assert_eq!(around(Note::default()).gpus(Some("0,1")), []);
        let gpus = Gpus { of_node: 2, ..Gpus::default() };
        let asked = around(Note { size: Size { gpus, ..Size::default() }, ..Note::default() });
        let text = |(name, value): (&str, String)| format!("{name}={value}");
        let found: Vec<String> = asked.gpus(Some("1,3")).into_iter().map(text).collect();
        assert_eq!(found, ["SLURM_GPUS_PER_NODE=2", "SLURM_JOB_GPUS=1,3", "SLURM_GPUS_ON_NODE=2"]);
        let of_task = |each, local| gpus_of_task("1,3,4,5", each, local);
        assert_eq!((of_task(2, 1).as_deref(), of_task(1, 2).as_deref()), (Some("4,5"), Some("4")));
        assert_eq!((of_task(2, 2), of_task(1, u32::MAX), gpus_of_task("", 1, 0)), (None, None, None));
    }

    #[test]
    fn step_has_the_nodes_that_were_named_or_its_own() {
        let of = |asked: &[&str], own: &str, tasks| {
            let asked: Vec<String> = asked.iter().map(|name| (*name).to_owned()).collect();
            of_step(&asked, own, tasks).into_iter().map(|(_, value)| value).collect::<Vec<_>>()
        };
        assert_eq!(of(&["n1", "n2"], "n2", 3), ["n[1-2]", "2", "2,1"]);
        assert_eq!(of(&["n1"], "n2", 2), ["n2", "1", "2"]);
        assert_eq!(of(&[], "n2", 1), ["n2", "1", "1"]);
    }

    #[test]
    fn program_that_is_not_there_is_named_without_numbers() {
        let error = Command::new("/nothing/of/this").exec();
        assert_eq!(not_executed("x", &error), "execve(): x: No such file or directory");
    }

    #[test]
    fn task_finds_its_node_by_name_or_by_rank() {
        let names = ["a".to_owned(), "b".to_owned()];
        assert_eq!(node_index(&names, "b.example.org", 0, 1), 1);
        assert_eq!(node_index(&names, "host", 2, 2), 1);
        assert_eq!(node_index(&names, "host", 9, 1), 1);
        assert_eq!(node_index(&[], "host", 0, 0), 0);
    }

    #[test]
    fn script_in_memory_is_what_was_submitted() {
        let file = script_file(&["#!/bin/sh\n".into(), "exit 3\n".into()]).unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "#!/bin/sh\nexit 3\n");
        assert_eq!(Command::new(path).status().unwrap().code(), Some(3));
    }
}
