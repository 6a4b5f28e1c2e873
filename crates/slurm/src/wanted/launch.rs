//! `srun` and `salloc`: they become `tutti run` and `tutti alloc`, whose signals, streams and statuses are
//! theirs. In a job `srun` starts a step of it; elsewhere it makes an allocation first, in which it is
//! called again.
//!
//! Stdin goes to the first task; `--input` names all, another one, none, or a file.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use tutti_client::node_list;
use tutti_protocol::batch::After;

use crate::getopt::{self, Ends, Spec, Takes};
use crate::moments::{self, Day};
use crate::names::VERSION;
use crate::note::{MARK, Note, Origin};
use crate::output::{complain, print, refuse, refuse_plainly};
use crate::patterns::{self, Values};
use crate::refusal::Refusal;
use crate::wanted::{Export, OF_SRUN, SPECS, Wanted, is_handed_on, submit};
use crate::{identity, query};

/// Names of MPI interfaces that tasks have in any case, or do without.
const MPI_KINDS: [&str; 2] = ["none", "pmi"];

/// The same outside of jobs: in a job they are its size.
const SIZES: [(&str, &str); 4] = [
    ("SLURM_NNODES", "nodes"),
    ("SLURM_NPROCS", "ntasks"),
    ("SLURM_NTASKS", "ntasks"),
    ("SLURM_NTASKS_PER_NODE", "ntasks-per-node"),
];

/// Takes what variables say of options. A word of an option without value is yes or no.
fn take_variables(
    wanted: &mut Wanted,
    is_in_job: bool,
    value: impl Fn(&str) -> Option<String>,
) -> Result<(), Refusal> {
    let sizes = if is_in_job { &[] } else { SIZES.as_slice() };
    for (variable, option) in OF_SRUN.iter().chain(sizes) {
        let Some(value) = value(variable) else { continue };
        let has_value = SPECS.iter().any(|(name, _, takes)| name == option && *takes == Takes::Value);
        let is_no = value.eq_ignore_ascii_case("no") || value.parse() == Ok(0);
        match has_value {
            true if value.is_empty() => {}
            true => wanted.set(option, &value)?,
            false if is_no => {}
            false => wanted.set(option, "")?,
        }
    }
    Ok(())
}

/// A file of this installation. This program is somewhere below its folder, where `bin/tutti` is too.
fn installed(place: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let prefix = own.ancestors().skip(1).find(|folder| folder.join("bin/tutti").is_file());
    prefix.unwrap_or(Path::new("/usr")).join(place)
}

/// The launcher of this installation.
fn launcher() -> PathBuf {
    installed("bin/tutti")
}

fn own_program() -> OsString {
    std::env::current_exe().unwrap_or_default().into_os_string()
}

fn become_program(mut command: Command, name: &str) -> ExitCode {
    let error = command.exec();
    refuse(name, &format!("cannot execute {}: {error}", command.get_program().to_string_lossy()), 1)
}

/// An option as this command has it: `--wait` of `srun` has a number of seconds.
fn of_command(name: &str, spec: Spec) -> Spec {
    match spec {
        ("wait", letter, _) if name == "srun" => ("wait", letter, Takes::Value),
        spec => spec,
    }
}

/// Reads a command line; the status with which the command is done, if it is.
fn read(name: &str, words: &[String]) -> Result<(Wanted, Vec<String>), ExitCode> {
    let specs: Vec<Spec> = SPECS.iter().map(|spec| of_command(name, *spec)).collect();
    let line =
        getopt::parse(&specs, words, Ends::AtOperand).map_err(|error| Refusal::from(error).print(name))?;
    let mut wanted = Wanted::default();
    if name == "srun" {
        let is_in_job = std::env::var_os("TUTTI_ALLOCATION").is_some();
        take_variables(&mut wanted, is_in_job, |name| std::env::var(name).ok())
            .map_err(|refusal| refusal.print(name))?;
    }
    for (option, value) in &line.options {
        if (name, *option) == ("srun", "wait") {
            wanted.take_wait(value).map_err(|refusal| refusal.print(name))?;
            continue;
        }
        wanted.set(option, value).map_err(|refusal| refusal.print(name))?;
    }
    if wanted.manner.version {
        return Err(print(&format!("{VERSION}\n")));
    }
    if wanted.manner.help {
        return Err(print(&format!("Usage: {name} [OPTIONS ...] COMMAND [ARGUMENTS ...]\n")));
    }
    if line.operands.iter().any(|word| word == ":") {
        return Err(refuse(name, "heterogeneous jobs are not supported by Tutti", 1));
    }
    if !wanted.manner.quiet {
        wanted.ignored_line().into_iter().for_each(|line| complain(name, &line));
    }
    if let Err(text) = submit::check_partition(&wanted) {
        return Err(refuse(
            name,
            &format!("{text}\nUnable to allocate resources: Invalid partition name specified"),
            1,
        ));
    }
    if let Err(text) = wanted.settle_gpus().and_then(|()| wanted.gpus_of_node()) {
        return Err(refuse(name, &text, 1));
    }
    let care = &wanted.care;
    let missing =
        [(care.hold, "--hold"), (care.deadline.is_some(), "--deadline"), (wanted.array.is_some(), "--array")];
    if let Some((_, option)) = missing.iter().find(|(is_asked, _)| *is_asked) {
        return Err(refuse(name, &format!("{option} is for sbatch"), 1));
    }
    Ok((wanted, line.operands))
}

/// `salloc`: an allocation for a command, or for a shell.
pub fn salloc(words: &[String]) -> ExitCode {
    let (wanted, command) = match read("salloc", words) {
        Ok(read) => read,
        Err(status) => return status,
    };
    let wanted = match settled("salloc", wanted) {
        Ok(wanted) => wanted,
        Err(status) => return status,
    };
    let shell =
        || std::env::var("SHELL").ok().filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into());
    let program = if command.is_empty() { vec![shell()] } else { command };
    let name = wanted.name.clone().unwrap_or_else(|| "interactive".into());
    let how: &[&str] = if wanted.manner.quiet { &["--quiet"] } else { &[] };
    become_allocation(&wanted, "salloc", &name, how, &program)
}

fn become_allocation(
    wanted: &Wanted,
    command: &str,
    name: &str,
    how: &[&str],
    program: &[String],
) -> ExitCode {
    match begin_terms(wanted, name) {
        Ok(terms) => become_program(allocation(wanted, name, (how, &terms), program), command),
        Err(text) => refuse(command, &text, 1),
    }
}

/// Options of `tutti alloc` that say when it begins, where not, and what signal it gets before its end.
fn begin_terms(wanted: &Wanted, name: &str) -> Result<Vec<String>, String> {
    let mut terms = Vec::new();
    let mut add = |option: &str, value: String| terms.extend([option.to_owned(), value]);
    if !wanted.excluded.is_empty() {
        add("--exclude", wanted.excluded.join(","));
    }
    if let Some(text) = &wanted.care.begin {
        let after_ms = moments::moment(text, Day::Next)?.saturating_sub(query::now_ms());
        add("--begin", format!("+{}s", after_ms.div_ceil(1000)));
    }
    if let Some((dependency, _)) = &wanted.dependency {
        for After { job, ok, not_ok } in submit::resolve(dependency, name)? {
            let option = match (ok, not_ok) {
                (true, _) => "--after-ok",
                (_, true) => "--after-not-ok",
                _ => "--after-any",
            };
            add(option, job.to_string());
        }
    }
    if let Some((signal, seconds, _)) = wanted.care.signal {
        add("--signal", format!("{signal}@{seconds}"));
    }
    Ok(terms)
}

/// A step is on nodes of its job: one that is not to have some of them names the others.
fn check_excluded(wanted: &Wanted) -> Result<(), String> {
    let nodes = std::env::var("SLURM_JOB_NODELIST").ok().and_then(|list| node_list::expand(&list));
    match wanted.excluded.iter().find(|node| nodes.iter().flatten().any(|own| own == *node)) {
        Some(node) => Err(format!("--exclude: {node} is a node of this job; --nodelist names the others")),
        None => Ok(()),
    }
}

/// The same with its number of nodes, or the status of the command.
fn settled(name: &str, mut wanted: Wanted) -> Result<Wanted, ExitCode> {
    let changed = wanted.settle_nodes(query::nodes).map_err(|text| refuse(name, &text, 1))?;
    changed.into_iter().for_each(|line| complain(name, &line));
    Ok(wanted)
}

/// `tutti alloc` with a command that finds Slurm's variables.
fn allocation(
    wanted: &Wanted,
    name: &str,
    (how, terms): (&[&str], &[String]),
    program: &[String],
) -> Command {
    let cores = wanted.cores.unwrap_or(1);
    let (tasks, nodes) = (wanted.all_tasks(), wanted.all_nodes());
    let here =
        std::env::current_dir().map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default();
    let source = Origin {
        folder: here.clone(),
        submit_folder: here,
        submit_host: identity::host_name(),
        ..Origin::default()
    };
    let note = Note { size: wanted.size(), source, ..Note::default() };
    let mut command = Command::new(launcher());
    // What a job around this command has set is not the new one's.
    for (variable, _) in std::env::vars_os() {
        let variable = variable.to_string_lossy().into_owned();
        if variable.starts_with("SLURM_") && !is_handed_on(&variable) || variable == MARK {
            command.env_remove(variable);
        }
    }
    command.env(MARK, note.text().unwrap_or_default()).env("SLURM_JOB_NAME", name);
    command.args(["alloc", "-q", "-J", name, "-N", &nodes.to_string()]);
    command.args(["-n", &tasks.max(nodes).saturating_mul(cores).to_string()]);
    if let Some(slots) = wanted.slots_per_node() {
        command.args(["--ppn", &slots.to_string()]);
    }
    command.args(terms);
    place(wanted, &mut command);
    if wanted.memory_bytes() > 0 {
        command.args(["--memory", &format!("{}M", wanted.memory_bytes().div_ceil(1 << 20))]);
    }
    if let Some(count) = wanted.gpus_of_node().ok().filter(|count| *count > 0) {
        command.args(["--gpus", &count.to_string()]);
    }
    if !wanted.care.reservation.is_empty() {
        command.args(["--reservation", &wanted.care.reservation]);
    }
    if let Some(folder) = &wanted.folder {
        command.args(["--wdir", folder]);
    }
    command.arg(own_program()).arg("allocation").args(how).arg("--").args(program);
    command
}

/// Time and nodes, as both commands of Tutti take them.
fn place(wanted: &Wanted, command: &mut Command) {
    if let Some(ms) = wanted.time_ms {
        command.args(["--time", &format!("{}s", ms.div_ceil(1000))]);
    }
    if !wanted.hosts.is_empty() {
        command.args(["--host", &wanted.hosts.join(",")]);
    }
}

/// `srun`: a step of the job around it, or a job of its own.
pub fn srun(words: &[String]) -> ExitCode {
    let (mut wanted, program) = match read("srun", words) {
        Ok(read) => read,
        Err(status) => return status,
    };
    if wanted.manner.mpi.as_deref() == Some("list") {
        return print("MPI plugin types are...\n\tnone\n\tpmi\n");
    }
    let Some(file) = program.first() else {
        return refuse("srun", "No command given to execute.", 1);
    };
    if let Some(kind) = wanted.manner.mpi.as_deref().filter(|kind| !MPI_KINDS.contains(kind)) {
        return refuse(
            "srun",
            &format!("--mpi={kind} is not there: programs of Tutti's MPI and of MPICH need none"),
            1,
        );
    }
    let around = std::env::var(MARK).ok().filter(|_| std::env::var_os("TUTTI_ALLOCATION").is_some());
    if wanted.manner.test_only {
        let tested = match settled("srun", wanted) {
            Ok(wanted) => submit::tested(&wanted),
            Err(status) => return status,
        };
        return match tested {
            Ok(line) => {
                complain("srun", &line);
                ExitCode::SUCCESS
            }
            Err(text) => refuse_plainly(&text),
        };
    }
    let Some(note) = around.map(|text| Note::of(&text).unwrap_or_default()) else {
        if wanted.manner.job.is_some() {
            return refuse("srun", "--jobid: a step is started from inside of its job", 1);
        }
        let name = wanted.name.clone().unwrap_or_else(|| file.rsplit('/').next().unwrap_or(file).to_owned());
        let wanted = match settled("srun", wanted) {
            Ok(wanted) => wanted,
            Err(status) => return status,
        };
        // Inside of the allocation the same line is a step's, which enters the folder.
        let wanted = Wanted { folder: None, ..wanted };
        let again: Vec<String> = std::iter::once(srun_file()).chain(words.iter().cloned()).collect();
        return become_allocation(&wanted, "srun", &name, &["--quiet"], &again);
    };
    if let Err(text) = check_gpus(&wanted, &note).and_then(|()| check_excluded(&wanted)) {
        return refuse("srun", &text, 1);
    }
    let nodes = environment_number("SLURM_NNODES").unwrap_or(note.size.nodes.max(1));
    let is_named = wanted.tasks.is_some() || wanted.per_node.is_some() || wanted.nodes.is_some();
    if wanted.tasks.is_none() && wanted.per_node.is_none() {
        wanted.tasks =
            environment_number("SLURM_NTASKS").or(note.size.tasks).filter(|_| wanted.nodes.is_none());
    }
    if wanted.nodes.is_none() && wanted.hosts.is_empty() {
        let most = wanted.tasks.unwrap_or(nodes).max(1);
        wanted.nodes = Some(nodes.min(most))
            .filter(|_| wanted.per_node.is_none() || !is_named || wanted.tasks.is_none());
    }
    wanted.limit_nodes();
    match step(&wanted, &program) {
        Ok(command) => become_program(command, "srun"),
        Err(text) => refuse("srun", &text, 1),
    }
}

/// A step has the GPUs of its job, and no more.
fn check_gpus(wanted: &Wanted, note: &Note) -> Result<(), String> {
    let size = &note.size;
    let own = size.gpus.on_node(size.nodes, size.tasks.unwrap_or(size.nodes))?;
    let asked = wanted.gpus_of_node()?;
    if asked > own {
        return Err(format!(
            "Unable to create step: {asked} GPUs on a node are more than the {own} of its job"
        ));
    }
    Ok(())
}

/// The name by which this program is `srun`.
fn srun_file() -> String {
    installed("share/tutti/slurm/bin/srun").to_string_lossy().into_owned()
}

fn environment_number(name: &str) -> Option<u32> {
    std::env::var(name).ok()?.parse().ok().filter(|number| *number > 0)
}

fn step(wanted: &Wanted, program: &[String]) -> Result<Command, String> {
    let mut command = Command::new(launcher());
    let tasks = wanted.all_tasks();
    command.args(["run", "-q", "-n", &tasks.to_string()]);
    if let Some(nodes) = wanted.nodes.filter(|nodes| *nodes > 1) {
        command.args(["-N", &nodes.to_string()]);
    }
    if let Some(count) = wanted.per_node.filter(|_| wanted.nodes.is_some_and(|nodes| nodes > 1)) {
        command.args(["--ppn", &count.to_string()]);
    }
    let name =
        wanted.name.clone().unwrap_or_else(|| program[0].rsplit('/').next().unwrap_or_default().to_owned());
    command.args(["-J", &name]);
    place(wanted, &mut command);
    if let Some(folder) = &wanted.folder {
        command.args(["--wdir", folder]);
    }
    if wanted.manner.label {
        // As wide as the number of the last task.
        let columns = tasks.saturating_sub(1).to_string().len();
        command.args(["--output", &format!("tag:{columns}")]);
    }
    if wanted.manner.pty {
        command.arg("--pty");
    }
    stdin(wanted, &mut command)?;
    match &wanted.export {
        Export::All => {}
        Export::None => {
            command.arg("--envnone");
        }
        Export::AllAnd(words) | Export::Only(words) => {
            for word in words.iter().filter(|word| word.contains('=')) {
                command.args(["-x", word]);
            }
        }
    }
    command.env("SLURM_STEP_ID", step_number().to_string());
    command.env("SLURM_STEP_NODELIST", node_list::fold(&step_nodes(wanted)));
    if let Some(name) = &wanted.name {
        command.env("SLURM_JOB_NAME", name);
    }
    if wanted.gpus.of_task > 0 {
        command.env("SLURM_GPUS_PER_TASK", wanted.gpus.of_task.to_string());
    }
    command.arg(own_program()).arg("task");
    for (option, pattern) in [("--output", &wanted.files.output), ("--error", &wanted.files.error)] {
        let Some(pattern) = pattern.as_deref().filter(|pattern| *pattern != "all") else { continue };
        let pattern = if pattern == "none" { "/dev/null" } else { pattern };
        empty(pattern, wanted.files.append)?;
        command.arg(format!("{option}={pattern}"));
    }
    if let Some(pattern) = wanted.files.input.as_deref().filter(|file| patterns::is_of_tasks(file)) {
        command.arg(format!("--input={pattern}"));
    }
    if wanted.files.append {
        command.arg("--append");
    }
    command.arg("--").args(program);
    Ok(command)
}

/// Nodes of a step: those that it names, or the first ones of its job.
fn step_nodes(wanted: &Wanted) -> Vec<String> {
    if !wanted.hosts.is_empty() {
        return wanted.hosts.clone();
    }
    let list = std::env::var("SLURM_JOB_NODELIST").unwrap_or_default();
    let mut nodes = node_list::expand(&list).unwrap_or_default();
    nodes.truncate(wanted.all_nodes() as usize);
    nodes
}

/// Steps that the job has had: the number of the next one.
fn step_number() -> usize {
    // Steps are of the number that the job has here.
    let job = environment_number("TUTTI_JOBID").map(u64::from);
    let (_, steps) = query::jobs().unwrap_or_default();
    steps.iter().filter(|step| step.row.owner().map(|job| job.0) == job).count()
}

/// A file of all tasks is emptied once, before they write to its end.
fn empty(pattern: &str, append: bool) -> Result<(), String> {
    if append || patterns::is_of_tasks(pattern) || pattern == "/dev/null" {
        return Ok(());
    }
    let text = |name: &str| std::env::var(name).unwrap_or_default();
    let (job, array) = (text("SLURM_JOB_ID"), text("SLURM_ARRAY_JOB_ID"));
    let values = Values {
        array: if array.is_empty() { job.clone() } else { array },
        job,
        task_of_array: std::env::var("SLURM_ARRAY_TASK_ID").ok().and_then(|task| task.parse().ok()),
        name: text("SLURM_JOB_NAME"),
        user: tutti_client::users::name(identity::own_uid()),
        step: step_number().to_string(),
        ..Values::default()
    };
    let path = patterns::expand(pattern, &values, true);
    let opened = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(false)
        .open(&path)
        .and_then(|file| if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) });
    opened.map_err(|error| format!("Could not open stdout file {path}: {error}"))
}

fn stdin(wanted: &Wanted, command: &mut Command) -> Result<(), String> {
    match wanted.files.input.as_deref() {
        // A task that does not read would keep the others' pieces back: who wants all says it.
        None => {}
        // Each task opens its own.
        Some(file) if patterns::is_of_tasks(file) => {
            command.args(["--stdin", "none"]);
        }
        Some("none") => {
            command.args(["--stdin", "none"]);
        }
        Some("all") => {
            command.args(["--stdin", "all"]);
        }
        Some(rank) if rank.parse::<u32>().is_ok() => {
            command.args(["--stdin", rank]);
        }
        Some(file) => {
            let opened = std::fs::File::open(file)
                .map_err(|error| format!("Could not open stdin file {file}: {error}"))?;
            command.stdin(opened).args(["--stdin", "all"]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_stand_for_options_of_srun() {
        let of = |is_in_job, given: &[(&str, &str)]| {
            let mut wanted = Wanted::default();
            let value = |name: &str| {
                given.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            take_variables(&mut wanted, is_in_job, value).map(|()| wanted)
        };
        let wanted = of(
            false,
            &[
                ("SLURM_NTASKS", "3"),
                ("SRUN_CPUS_PER_TASK", "2"),
                ("SLURM_LABELIO", "1"),
                ("SLURM_EXCLUSIVE", "1"),
                ("SLURM_STDINMODE", "none"),
                ("SLURM_TIMELIMIT", "2"),
            ],
        )
        .unwrap();
        assert_eq!((wanted.tasks, wanted.cores, wanted.time_ms), (Some(3), Some(2), Some(120_000)));
        assert!(wanted.manner.label && wanted.files.input.as_deref() == Some("none"));
        let wanted = of(true, &[("SLURM_NTASKS", "3"), ("SLURM_LABELIO", "0")]).unwrap();
        assert!(wanted.tasks.is_none() && !wanted.manner.label);
        assert!(of(true, &[("SLURM_TIMELIMIT", "soon")]).is_err());
    }
}
