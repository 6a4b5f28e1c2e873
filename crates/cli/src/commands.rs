//! The commands of `tutti` that ask the cluster something, or do something to a job.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};
use serde_json::json;
use tutti_os::stderr::{escape_control, print_line};
use tutti_protocol::array::{Array, ArrayTask};
use tutti_protocol::daemon_options::complaint;
use tutti_protocol::paths;
use tutti_protocol::public::PublicRow;
use tutti_protocol::settings::version_text;
use tutti_protocol::users::SuspendedBy;
use tutti_protocol::{size, time_limit};
use tutti_snapshot::Deadlock;

use tutti_client::at;

use crate::cluster::{self, Answer, Control, FreezeMethod, JobId, JobRow, JobState, NodeRow, Request};
use crate::completion::{self, Completed, Shell};
use crate::manual::{self, Page};
use crate::options::{self, Launcher};
use crate::{
    board, configuration, doctor, dsm_report, front, machine, output, page, signals, simulate, snapshot,
    stdout, timeline, trace_op, up,
};
use tutti_client::filter::Filter;
use tutti_client::job_name::JobName;
use tutti_client::moments::{elapsed, instant};
use tutti_client::table::aligned;
use tutti_client::{history, others, states, users};

mod account;
mod advise;
mod change;
mod drain;
mod follow;
mod logs;
mod past;
mod selection;
mod services;
mod shares;
mod top;
mod why;

/// Characters of another user's command that are shown, as of one's own.
const COMMAND_CHARS: usize = 60;
/// Exit status of `tutti wait` for a job whose status is not known, as `wait` of shells has it.
const UNKNOWN_STATUS: u8 = 127;

/// Text for a user whose daemon gives an answer that this command does not know.
const OTHER_VERSION: &str = "the daemon is of another version";

/// Text of `tutti version`.
const VERSION: &str = concat!("tutti ", env!("CARGO_PKG_VERSION"), "\n");

/// How the commands of `tutti` are called.
const USAGES: [&str; 43] = [
    "run [OPTION ...] -n N PROGRAM ...",
    "submit [OPTION ...] -n N PROGRAM ...",
    "alloc [OPTION ...] [-n N] [COMMAND ...]",
    "wait JOB ...",
    "ps [--all | --history | --watch] [-l] [--user USER] [--state STATE] [--json]",
    "top [-i SECONDS] [--user USER] [--state STATE] [--once | --json]",
    "status JOB [--json]",
    "account [--user USER] [--last TIME] [--by-user | --by-month] [--json]",
    "why JOB",
    "nodes [--json]",
    "drain NODE ... --why TEXT",
    "undrain NODE ...",
    "prices [--json]",
    "advise [--json]",
    "board [--json]",
    "services [--json]",
    "call SERVICE [FUNCTION [ARGUMENT ...]]",
    "snapshot JOB [-o FILE] | --show FILE",
    "dsm-report [FOLDER] [--json]",
    "timeline JOB | --all | --since MOMENT [-o FILE]",
    "simulate --swf FILE | --lublin JOBS",
    "trace-op read|write|fetch-add [-s BYTES]",
    "doctor [PROGRAM] [--json]",
    "machine [--again] [--json]",
    "attach JOB",
    "logs [-f] JOB",
    "suspend JOB ... | --user USER [--json]",
    "resume JOB ... | --user USER [--json]",
    "signal SIGNAL JOB ... [--json]",
    "kill [--kill-after SECONDS] JOB ... | --user USER [--json]",
    "hold JOB ... | --user USER [--json]",
    "requeue JOB ... | --user USER [--json]",
    "change JOB ... [--time LIMIT] [--weight N] [--name NAME] [--begin TIME]",
    "release JOB ... | --user USER [--json]",
    "config check [FILE] | config show",
    "reload",
    "page [JOB] [--share]",
    "up --nodes N [--netns]",
    "down",
    "keygen FILE",
    "completion SHELL [PROGRAM]",
    "man PAGE",
    "version",
];

#[derive(Debug, Parser)]
#[command(name = "tutti", disable_help_subcommand = true, subcommand_value_name = "COMMAND")]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The jobs of the cluster, and of others on this machine
    Ps {
        /// Those that are over too
        #[arg(long, short)]
        all: bool,
        /// Only those of these users
        #[arg(long, short, value_name = "USER", value_delimiter = ',')]
        user: Vec<String>,
        /// Only those in these states; over: --all too
        #[arg(long, short, value_name = "STATE", value_delimiter = ',', value_parser = states::WORDS)]
        state: Vec<String>,
        /// Only those with these names
        #[arg(long, short, value_name = "NAME", value_delimiter = ',')]
        name: Vec<String>,
        /// Declared and effective weights, and why they differ
        #[arg(long, short, conflicts_with = "json")]
        long: bool,
        /// For scripts
        #[arg(long)]
        json: bool,
        /// With --json: the jobs of other users' daemons on this machine too, as USER/NUMBER
        #[arg(long, requires = "json")]
        others: bool,
        /// Again whenever something changes; with --json a line for each job that is new, different or gone
        #[arg(long, short, conflicts_with_all = ["all", "long", "others", "history"])]
        watch: bool,
        #[command(flatten)]
        past: past::Options,
    },
    /// Nodes, jobs and users, live
    Top(tutti_client::top_options::Options),
    /// Wait until jobs are over; the exit status is the first of theirs that is not 0
    Wait {
        /// Their numbers
        #[arg(required = true, value_name = "JOB", value_parser = selection::number)]
        jobs: Vec<JobName>,
    },
    /// One job
    Status {
        /// Its number
        #[arg(value_parser = selection::number)]
        job: JobName,
        /// For scripts
        #[arg(long)]
        json: bool,
    },
    /// Why a job does not go on, or that it does
    Why {
        /// Its number
        #[arg(value_parser = selection::number)]
        job: JobName,
    },
    /// Use of jobs: start, end, processor time, memory of the largest process
    Account(account::Options),
    /// The nodes of the cluster
    Nodes {
        /// For scripts
        #[arg(long)]
        json: bool,
    },
    /// Send no new ranks to nodes: those that are there stay
    Drain {
        /// Their names
        #[arg(required = true, value_name = "NODE")]
        nodes: Vec<String>,
        /// The reason, as `tutti nodes` shows it
        #[arg(long, value_name = "TEXT")]
        why: String,
    },
    /// Send ranks to drained nodes again
    Undrain {
        /// Their names
        #[arg(required = true, value_name = "NODE")]
        nodes: Vec<String>,
    },
    /// What is wanted of the nodes, and what users have used of their shares
    Prices {
        /// For scripts
        #[arg(long)]
        json: bool,
    },
    /// Which running jobs leave slots, and which jobs could fill them
    Advise {
        /// For scripts
        #[arg(long)]
        json: bool,
    },
    /// How loaded the nodes are and which jobs run on this one, as programs can read it
    Board {
        /// For scripts
        #[arg(long)]
        json: bool,
    },
    /// Functions that processes offer by a name, on all nodes
    Services {
        /// For scripts
        #[arg(long)]
        json: bool,
    },
    /// Call a function of a service
    Call(services::CallOptions),
    /// Become the front end of a job that has none
    Attach {
        /// Its number
        #[arg(value_parser = selection::number)]
        job: JobName,
    },
    /// What a job has written: all that is in its files, of one without files the last MiB
    Logs {
        /// Its number
        #[arg(value_parser = selection::number)]
        job: JobName,
        /// What it writes from now on too, until it is over
        #[arg(long, short)]
        follow: bool,
    },
    /// Suspend jobs
    Suspend(selection::Options),
    /// Resume suspended jobs
    Resume(selection::Options),
    /// Send a signal to every rank of jobs
    Signal {
        /// Its name or number
        signal: String,
        #[command(flatten)]
        selection: selection::Options,
    },
    /// Kill jobs
    Kill {
        #[command(flatten)]
        selection: selection::Options,
        /// Send TERM first, and KILL so long after it: seconds, or 2m, 1h
        #[arg(long, value_name = "SECONDS", value_parser = kill_after)]
        kill_after: Option<Duration>,
    },
    /// Keep waiting jobs from getting nodes until they are released
    Hold(selection::Options),
    /// End jobs of `tutti submit` and begin them anew, under numbers of their own
    Requeue(selection::Options),
    /// Change limits and names of jobs that wait or run
    Change(change::Options),
    /// Let held jobs have nodes again
    Release(selection::Options),
    /// Write and print the state of all channels of a job: messages in flight, which ranks wait for which
    Snapshot(snapshot::Options),
    /// Draw which job ran where and when
    Timeline(timeline::Options),
    /// Show which lines of a program with shared memory have caused traffic
    DsmReport(dsm_report::Options),
    /// Try policies on a workload, on paper
    Simulate(simulate::Options),
    /// Take an operation on remote memory apart, and show where its time goes
    TraceOp(trace_op::Options),
    /// Find what keeps Tutti from working well here, and what to do about it
    Doctor(doctor::Options),
    /// What this machine is like: caches, and what copies, wake-ups and calls of the kernel take
    Machine(machine::Options),
    /// Check a configuration, or show what holds
    Config {
        #[command(subcommand)]
        command: configuration::Command,
    },
    /// Have the controller read its configuration anew, while jobs run
    Reload {
        /// For scripts
        #[arg(long)]
        json: bool,
    },
    /// Print the link to the page of the cluster, or to a job on it; it shows the output of your jobs
    Page {
        /// Its number
        job: Option<u64>,
        /// A link for others, which shows no output
        #[arg(long)]
        share: bool,
    },
    /// Start a cluster of daemons on this machine
    Up(up::Options),
    /// End the daemons of a cluster, and its jobs
    Down,
    /// Make the key of a cluster
    Keygen {
        /// The file to make
        file: std::path::PathBuf,
    },
    /// Print the completions of a shell
    Completion {
        /// The shell
        shell: Shell,
        /// Those of one program only
        program: Option<Completed>,
    },
    /// Print a manual page in roff
    Man {
        /// The page
        page: Page,
    },
    /// Print the version
    Version,
}

/// The whole command line of `tutti`, as its manual page and the shells see it.
pub fn command_line() -> clap::Command {
    let run = options::command("run", Launcher::Run)
        .about("Run a parallel program on the cluster, with -N on that many nodes");
    let submit =
        options::command("submit", Launcher::Submit).about("The same without waiting for it: a batch job");
    let alloc = options::command("alloc", Launcher::Alloc)
        .about("Run a shell or a command that has nodes of the cluster for mpiexec");
    Line::command().about("time-shared parallel computing").subcommands([run, submit, alloc])
}

/// The text of `tutti --help`.
pub fn help() -> String {
    let command = command_line();
    let line = |usage: &&str| {
        let name = usage.split(' ').next().unwrap_or(usage);
        let about = command.find_subcommand(name).and_then(clap::Command::get_about);
        format!("  {usage:36} {}\n", about.map(ToString::to_string).unwrap_or_default())
    };
    format!("usage: tutti COMMAND ...\n\n{}", USAGES.iter().map(line).collect::<String>())
}

/// All commands.
pub fn names() -> impl Iterator<Item = &'static str> {
    USAGES.iter().map(|usage| usage.split(' ').next().unwrap_or(usage))
}

/// [`run`] knows the command.
pub fn is_known(name: &str) -> bool {
    name == "submit" || Command::has_subcommand(name)
}

/// Whether a command needs files of the machine on which a daemon runs, or a terminal all the time: for
/// another host it runs there.
pub fn reads_this_machine(name: &str) -> bool {
    const READERS: [&str; 16] = [
        "top", "logs", "history", "timeline", "board", "doctor", "account", "up", "down", "keygen", "config",
        "why", "advise", "snapshot", "page", "machine",
    ];
    READERS.contains(&name)
}

/// Whether a command is about this machine, whatever host its configuration names.
pub fn is_of_this_machine(name: &str) -> bool {
    const OWN: [&str; 9] =
        ["config", "up", "down", "keygen", "completion", "man", "relay", "member", at::COMMAND];
    OWN.contains(&name)
}

/// Runs a command.
pub fn run(name: &str, arguments: Vec<OsString>) -> ExitCode {
    if name == "submit" {
        return submit(&arguments);
    }
    let words = [OsString::from("tutti"), name.into()].into_iter().chain(arguments);
    let command = match Line::try_parse_from(words) {
        Ok(line) => line.command,
        Err(error) => {
            if error.use_stderr() {
                print_line(format_args!("tutti {name}: {}", complaint(&error)));
            } else {
                // A reader that has gone wants no more of it.
                let _ = error.print();
            }
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    match perform(command) {
        Ok(status) => status,
        Err(text) => {
            print_line(format_args!("tutti {name}: {text}"));
            ExitCode::FAILURE
        }
    }
}

fn perform(command: Command) -> Result<ExitCode, String> {
    match command {
        Command::Ps { user, state, name, json, past, .. } if past.is_asked() => {
            past::run(&past, &Filter { user, state, name }, json)
        }
        Command::Ps { user, state, name, json, watch: true, .. } => {
            follow::run(&Filter { user, state, name }, json, print_jobs)
        }
        Command::Ps { all, user, state, name, long, json, others, .. } => {
            let filter = Filter { user, state, name };
            if long { shares::list(all, &filter) } else { ps(all, &filter, json, others) }
        }
        Command::Top(_) => top::run(),
        Command::Prices { json } => shares::prices(json),
        Command::Advise { json } => advise::run(json),
        Command::Wait { jobs } => Ok(wait(&jobs)),
        Command::Status { job, json } => status(job.resolve()?, json),
        Command::Account(options) => account::run(&options),
        Command::Why { job } => why::run(job.resolve()?),
        Command::Nodes { json } => match cluster::request(&Request::Nodes)?.0 {
            Answer::Nodes(rows) => show(&rows, json, print_nodes),
            _ => Err("the daemon is of another version".into()),
        },
        Command::Drain { nodes, why } => {
            Ok(drain::run("drain", &nodes, |node| Request::Drain(node, why.clone())))
        }
        Command::Undrain { nodes } => Ok(drain::run("undrain", &nodes, Request::Undrain)),
        Command::Board { json } => board::run(json),
        Command::Services { json } => services::list(json),
        Command::Call(options) => services::call(&options),
        Command::Attach { job } => Ok(front::attach(job.resolve()?)),
        Command::Logs { job, follow } => logs::run(job.resolve()?, follow),
        Command::Suspend(selection) => selection::control(&selection, Control::Suspend, "suspended"),
        Command::Resume(selection) => selection::control(&selection, Control::Resume, "resumed"),
        Command::Signal { signal, selection } => {
            selection::control(&selection, Control::Signal(signals::number(&signal)?), "sent the signal")
        }
        Command::Kill { selection, kill_after: None } => {
            selection::control(&selection, Control::Kill, "killed")
        }
        Command::Kill { selection, kill_after: Some(after) } => {
            selection::control(&selection, Control::End(after.as_millis() as u64), "asked to end")
        }
        Command::Change(options) => change::run(&options),
        Command::Requeue(selection) => selection::control(&selection, Control::Requeue, "requeued"),
        Command::Hold(selection) => selection::control(&selection, Control::Hold, "held"),
        Command::Release(selection) => selection::control(&selection, Control::Release, "released"),
        Command::Snapshot(options) => snapshot::run(&options),
        Command::Timeline(options) => timeline::run(&options),
        Command::DsmReport(options) => dsm_report::run(&options),
        Command::Simulate(options) => simulate::run(&options),
        Command::TraceOp(options) => trace_op::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Machine(options) => machine::run(&options),
        Command::Config { command } => configuration::run(command),
        Command::Reload { json } => configuration::reload(json),
        Command::Page { job, share } => page::run(job, share),
        Command::Up(options) => up::up(&options),
        Command::Down => up::down(),
        Command::Keygen { file } => {
            tutti_protocol::key::make(&file).map_err(|error| error.to_string()).map(|()| ExitCode::SUCCESS)
        }
        Command::Completion { shell, program } => {
            let programs = program.map_or(Completed::ALL.to_vec(), |program| vec![program]);
            let texts = programs.iter().map(|program| completion::text(shell, *program, command_line()));
            Ok(stdout::print(Some(texts.collect()), ""))
        }
        Command::Man { page } => Ok(stdout::print(Some(manual::text(page, command_line())), "")),
        Command::Version => Ok(stdout::print(Some(VERSION.to_owned()), "")),
    }
}

fn submit(arguments: &[OsString]) -> ExitCode {
    if let Some(target) = at::target() {
        return submit_at(&target, arguments);
    }
    let front::Submission { submit, in_json, origin } = match front::submission(arguments) {
        Ok(submission) => submission,
        Err(status) => return status,
    };
    if let Err(text) = front::start_daemon_if_missing() {
        print_line(format_args!("tutti submit: {text}"));
        return ExitCode::FAILURE;
    }
    let answer = cluster::request(&Request::Submit(Box::new(submit))).map(|(answer, _)| answer);
    if let (Ok(Answer::Job(job)), Some(origin)) = (&answer, &origin) {
        origin.follow(*job);
    }
    report_number(answer, in_json)
}

/// Submits on another host, where the command line is read.
fn submit_at(target: &str, arguments: &[OsString]) -> ExitCode {
    let in_json = match options::parse_as(arguments, Launcher::Submit) {
        Ok(options::Request::Run(options)) => options.beside.json,
        Ok(_) => return front::submission(arguments).map_or_else(|status| status, |_| ExitCode::SUCCESS),
        Err(_) => false,
    };
    let start = front::start_of(arguments, at::Launcher::Submit);
    report_number(start.and_then(|start| cluster::start_at(target, start)), in_json)
}

fn report_number(answer: Result<Answer, String>, in_json: bool) -> ExitCode {
    match answer {
        Ok(Answer::Job(job)) if in_json => stdout::print(Some(format!("{}\n", json!({ "job": job }))), ""),
        Ok(Answer::Job(job)) => stdout::print(Some(format!("job {job}\n")), ""),
        Ok(_) => stdout::print(None, "the daemon is of another version"),
        Err(text) => {
            print_line(format_args!("tutti submit: {text}"));
            ExitCode::FAILURE
        }
    }
}

/// Where there is no daemon, nothing runs.
fn ps(all: bool, filter: &Filter, json: bool, with_others: bool) -> Result<ExitCode, String> {
    let all = all || filter.state.iter().any(|state| state == "over");
    filter.check()?;
    // Whoever names a socket or a host means a daemon.
    let is_at = at::target().is_some();
    let answer = if (paths::is_named() || is_at) && !all {
        Some(cluster::request(&Request::Jobs { all })?.0)
    } else {
        cluster::request_if_running(&Request::Jobs { all })?
    };
    let is_alone = answer.is_none();
    let mut others = if is_at || json && !with_others { Vec::new() } else { others::jobs() };
    // One that leaves removes its socket. One that has died leaves it there, and perhaps jobs that run: an
    // empty table would deny them.
    let has_died = || paths::socket().exists() || paths::on_demand().join(paths::SOCKET).exists();
    if is_alone && !all && others.is_empty() && has_died() {
        cluster::request(&Request::Jobs { all })?;
    }
    let mut rows = match answer {
        None => Vec::new(),
        Some(Answer::Jobs(rows)) => rows,
        Some(_) => return Err("the daemon is of another version".into()),
    };
    if all && !is_at {
        // What the daemon knows of itself is newer.
        let mut before = history::of_node(is_alone);
        before.retain(|old| rows.iter().all(|row| row.job != old.job));
        rows.extend(before);
        rows.sort_by_key(|row| row.job);
    }
    // Root's daemon has listed them already.
    others.retain(|other| rows.iter().all(|row| (row.uid, row.job.0) != (other.uid, other.job)));
    rows.retain(|row| filter.takes(states::of(row), &row.name, row.uid));
    others.retain(|other| filter.takes(states::word(other.state), "", other.uid));
    if !json {
        return Ok(stdout::print(Some(print_jobs(&rows, &others)), ""));
    }
    let own = rows.iter().map(|row| serde_json::to_value(row).expect("rows are serialisable"));
    let theirs = others.iter().map(|other| {
        let mut value = serde_json::to_value(other).expect("rows are serialisable");
        value["job"] = json!(number_of(other));
        value
    });
    show(&own.chain(theirs).collect::<Vec<_>>(), true, |_| String::new())
}

/// The number of another user's job: no own number looks like it.
fn number_of(other: &PublicRow) -> String {
    format!("{}/{}", users::name(other.uid), other.job)
}

/// A job that the daemon knows, else one of the log.
fn status(job: JobId, json: bool) -> Result<ExitCode, String> {
    let answer = cluster::request_if_running(&Request::Job(job));
    let is_alone = matches!(answer, Ok(None));
    match answer {
        Ok(Some(Answer::Jobs(rows))) => return show(&rows, json, print_status),
        Ok(Some(_)) => return Err("the daemon is of another version".into()),
        Ok(None) | Err(_) => {}
    }
    let rows: Vec<JobRow> = history::of_job(job, is_alone).into_iter().collect();
    match answer {
        Err(text) if rows.is_empty() && text.starts_with(&format!("job {job} is over")) => {
            Err(format!("job {job} is over, and the log does not have it any more"))
        }
        Err(text) if rows.is_empty() => Err(text),
        _ if rows.is_empty() => Err(format!("there is no job {job} in the log, and no daemon to ask")),
        _ => show(&rows, json, print_status),
    }
}

/// Waits for all of them; the first status in their order that is not 0. One whose status neither a daemon
/// nor the log knows gets a line, and counts as [`UNKNOWN_STATUS`].
fn wait(jobs: &[JobName]) -> ExitCode {
    let from_log = |job| history::of_job(job, false)?.status;
    let status_of = |name: &JobName| {
        let job = name.resolve()?;
        match cluster::wait_for(job) {
            Ok(status) => status.ok_or_else(|| format!("the status of job {name} is not known")),
            Err(text) => from_log(job).ok_or(text),
        }
    };
    let statuses = jobs.iter().map(|name| {
        status_of(name).unwrap_or_else(|text| {
            print_line(format_args!("tutti wait: {text}"));
            UNKNOWN_STATUS
        })
    });
    let statuses: Vec<u8> = statuses.collect();
    ExitCode::from(statuses.into_iter().find(|status| *status != 0).unwrap_or(0))
}

fn show<T: serde::Serialize>(rows: &[T], json: bool, print: fn(&[T]) -> String) -> Result<ExitCode, String> {
    let text = if json {
        serde_json::to_string_pretty(rows).expect("rows are serialisable") + "\n"
    } else {
        print(rows)
    };
    Ok(stdout::print(Some(text), ""))
}

fn kill_after(text: &str) -> Result<Duration, String> {
    options::seconds(text).ok_or_else(|| format!("{} is expected", options::SECONDS))
}

fn print_jobs(rows: &[JobRow], others: &[PublicRow]) -> String {
    let mut table = vec![
        ["JOB", "STATE", "RANKS", "NODES", "TIME", "USER", "TURNS", "NAME", "COMMAND"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for row in rows {
        let state = match (row.state, row.status) {
            (JobState::Over, Some(status)) => format!("over({status})"),
            _ => states::of(row).to_owned(),
        };
        table.push(vec![
            row.number(),
            state,
            row.ranks.to_string(),
            row.nodes.len().to_string(),
            duration(row),
            users::name(row.uid),
            // The least of its nodes.
            match row.held_by.iter().map(|(_, means)| *means).max() {
                _ if !row.gang => "no",
                _ if row.fill => "fills",
                means => means.map_or("-", by),
            }
            .to_owned(),
            if row.name.is_empty() { "-".into() } else { escape_control(&row.name) },
            escape_control(&row.command),
        ]);
    }
    for other in others {
        let running = [JobState::Running, JobState::Suspended].contains(&other.state);
        table.push(vec![
            number_of(other),
            states::word(other.state).to_owned(),
            other.ranks.to_string(),
            other.nodes.to_string(),
            if running { elapsed(other.since_ms, None) } else { "-".into() },
            users::name(other.uid),
            "-".into(),
            "-".into(),
            escape_control(&other.command).chars().take(COMMAND_CHARS).collect(),
        ]);
    }
    let mut text = aligned(&table, &[true, false, true, true, true, false, false, false, false]);
    text.push_str(&reasons(rows));
    for row in rows.iter().filter(|row| !row.unfrozen.is_empty()) {
        text.push_str(&format!("job {} is not frozen yet on {}\n", row.job, row.unfrozen.join(", ")));
    }
    for row in rows {
        for (node, put_out) in &row.put_out {
            text.push_str(&format!("job {} is {put_out} ({node})\n", row.job));
        }
    }
    for (job, deadlock) in rows.iter().filter_map(|row| Some((row.job, row.deadlock.as_ref()?))) {
        text.push_str(&format!("job {job}: {}\n", escape_control(deadlock)));
    }
    text
}

/// Why jobs wait, a line for each; for several tasks of an array that wait for the same, one.
fn reasons(rows: &[JobRow]) -> String {
    let mut of_tasks: BTreeMap<(JobId, &str), Vec<u32>> = BTreeMap::new();
    for (row, why) in rows.iter().filter_map(|row| Some((row, row.waits.as_deref()?))) {
        if let Some(ArrayTask { array, task }) = row.array_task() {
            of_tasks.entry((array, why)).or_default().push(task);
        }
    }
    let mut text = String::new();
    for (row, why) in rows.iter().filter_map(|row| Some((row, row.waits.as_deref()?))) {
        let number = match row.array_task() {
            None => row.number(),
            Some(task) => match of_tasks.remove(&(task.array, why)) {
                None => continue,
                Some(tasks) if tasks.len() == 1 => row.number(),
                Some(tasks) => format!("{}_[{}]", task.array, Array { tasks, at_once: 0 }),
            },
        };
        text.push_str(&format!("job {number} waits: {}\n", escape_control(why)));
    }
    text
}

/// The jobs that it is connected to.
fn connected_jobs(row: &JobRow) -> String {
    let jobs: Vec<String> = row.connected.iter().map(|job| format!("job {job}")).collect();
    jobs.join(", ")
}

fn print_status(rows: &[JobRow]) -> String {
    let mut text = String::new();
    for row in rows {
        text.push_str(&format!("job      {}\n", row.job));
        if !row.name.is_empty() {
            text.push_str(&format!("name     {}\n", escape_control(&row.name)));
        }
        text.push_str(&format!("state    {}{}\n", states::of(row), suspension(row)));
        if let Some(status) = row.status {
            text.push_str(&format!("status   {status}\n"));
        }
        if let Some(end) = row.end() {
            text.push_str(&format!("end by   {end}\n"));
        }
        if let Some(cause) = &row.cause {
            text.push_str(&format!("cause    {}\n", escape_control(cause)));
        }
        text.push_str(&format!(
            "command  {}\nuser     {}\nranks    {}\ntime     {}{}\n",
            row.command,
            users::name(row.uid),
            row.ranks,
            duration(row),
            row.limit_ms
                .map_or_else(String::new, |limit_ms| format!(" of {}", time_limit::text_ms(limit_ms)))
        ));
        if let Some(started_ms) = row.started_ms {
            text.push_str(&format!("start    {}\n", instant(started_ms)));
        }
        if let Some(ended_ms) = row.ended_ms {
            text.push_str(&format!("end      {}\n", instant(ended_ms)));
        }
        if let Some(used) = history::used().get(&row.job) {
            let largest = size::text(used.largest_bytes);
            text.push_str(&format!(
                "used     {} s of processors, largest process {largest}\n",
                used.cpu_us as f64 / 1e6
            ));
        }
        if let Some(why) = &row.waits {
            text.push_str(&format!("waits    {}\n", escape_control(why)));
        }
        if let Some(restart) = row.restart() {
            text.push_str(&format!("requeued {} times, first job {}\n", restart.count, restart.first));
        }
        if let Some(begin_ms) = row.begins_ms() {
            text.push_str(&format!("begin    not before {}\n", instant(begin_ms)));
        }
        if let Some(array) = row.array() {
            text.push_str(&format!("array    {array}\n"));
        }
        if let Some(task) = row.array_task() {
            text.push_str(&format!("array    {}, task {}\n", task.array, task.task));
        }
        if let Some(line) = row.part_in_script() {
            text.push_str(&format!("{line}\n"));
        }
        if !row.connected.is_empty() {
            let jobs = connected_jobs(row);
            text.push_str(&format!(
                "with     {jobs}, connected to it: the same turns where their slots allow\n"
            ));
        }
        if !row.unfrozen.is_empty() {
            text.push_str(&format!("frozen   not yet on {}\n", row.unfrozen.join(", ")));
        }
        if let Some(deadlock) = &row.deadlock {
            text.push_str(&format!("deadlock {}\n", escape_control(deadlock)));
            if let Some(cycle) = Deadlock::arrows_of(deadlock) {
                text.push_str(&format!("cycle    {cycle}\n"));
            }
        }
        text.push_str(&format!("nodes    {}\n", row.nodes.join(" ")));
        for name in &row.output {
            text.push_str(&format!("output   {} on {}\n", escape_control(&output::shown(name)), row.origin));
        }
        if let Some(lost) = lost(row) {
            text.push_str(&format!("lost     {}\n", escape_control(&lost)));
        }
        if row.exclusive {
            text.push_str("alone    yes: no other job has ranks on its nodes\n");
        }
        if row.memory_bytes > 0 {
            let held = match row.limits_memory {
                _ if row.nodes.is_empty() => "",
                true => ", enforced",
                false => ", counted only",
            };
            text.push_str(&format!("memory   {} on each node{held}\n", size::text(row.memory_bytes)));
        }
        if row.gpus() > 0 {
            text.push_str(&format!("gpus     {} on each node\n", row.gpus()));
        }
        if row.gang {
            text.push_str(&format!("weight   {}\nslices   {}\n", row.weight, row.turns));
            if row.fill {
                text.push_str("fills    it has what jobs that are no fillers leave (--fill)\n");
                for (node, put_out) in &row.put_out {
                    text.push_str(&format!("fills    not on {node}: {put_out}\n"));
                }
            }
        } else {
            text.push_str("turns    none: it runs all the time\n");
        }
        for (node, means) in &row.held_by {
            text.push_str(&format!("turns    {node}: {}\n", by(*means)));
        }
        for (node, pids) in &row.pids {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            text.push_str(&format!("pids     {node}: {}\n", pids.join(" ")));
        }
    }
    text
}

fn print_nodes(rows: &[NodeRow]) -> String {
    let mut table = vec![
        [
            "NODE", "NAME", "STATE", "SLOTS", "RANKS", "PARENT", "MEMORY", "GPUS", "LIMIT", "STOPS",
            "POLICY", "SWITCH", "CONFIG", "ADDRESS",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for row in rows {
        table.push(vec![
            row.node.0.to_string(),
            row.name.clone(),
            row.state().to_owned(),
            row.slots.to_string(),
            row.ranks.to_string(),
            row.parent.map_or_else(|| "-".into(), |parent| parent.to_string()),
            match row.memory_bytes {
                0 => "-".into(),
                bytes => format!("{}/{}", short(row.declared_bytes), short(bytes)),
            },
            match row.gpus().count() {
                0 => "-".into(),
                count => format!("{}/{count}", row.taken_gpus().count()),
            },
            if row.limits_memory { "enforced" } else { "counted" }.to_owned(),
            by(if row.freezes { FreezeMethod::Cgroup } else { FreezeMethod::Signals }).to_owned(),
            row.policy.clone().unwrap_or_else(|| "-".into()),
            row.preferred.name().to_owned(),
            version_text(row.configuration),
            row.address.clone(),
        ]);
    }
    let right = [true, false, false, true, true, true, true, true, false, false, false, false, false, false];
    let mut right = right.to_vec();
    if rows.iter().all(|row| row.gpus().is_empty()) {
        // Most clusters count none.
        table.iter_mut().for_each(|line| drop(line.remove(7)));
        right.remove(7);
    }
    aligned(&table, &right) + &drain::reasons(rows) + &releases(rows)
}

/// A line about the daemons' releases, in the middle of an upgrade.
fn releases(rows: &[NodeRow]) -> String {
    let alive = || rows.iter().filter(|row| row.alive);
    let all: BTreeSet<&str> = alive().map(|row| row.release.as_str()).collect();
    if all.len() < 2 {
        return String::new();
    }
    let of = |release: &&str| {
        let nodes = alive().filter(|row| row.release == **release).map(|row| row.name.as_str());
        format!(
            "{} on {}",
            if release.is_empty() { "unknown" } else { release },
            nodes.collect::<Vec<_>>().join(" ")
        )
    };
    format!("releases: {}\n", all.iter().map(of).collect::<Vec<_>>().join(", "))
}

/// An amount of memory as users write it.
fn short(bytes: u64) -> String {
    let text = size::text(bytes);
    text.trim_end_matches("iB").trim_end_matches("bytes").replace(' ', "")
}

/// By what a job takes its turns.
fn by(means: FreezeMethod) -> &'static str {
    match means {
        FreezeMethod::Cgroup => "cgroup",
        FreezeMethod::Signals => "signals",
        FreezeMethod::Nothing => "none",
    }
}

/// Since when a job is suspended, and by which user.
fn suspension(row: &JobRow) -> String {
    let Some(suspended) = &row.suspended else { return String::new() };
    let by = match suspended.why {
        SuspendedBy::User => users::name(suspended.uid),
        SuspendedBy::Deadlock => "--on-deadlock suspend".into(),
        SuspendedBy::Idle => "--on-idle suspend".into(),
    };
    format!(" since {} by {by}", instant(suspended.since_ms))
}

/// Number of bytes of a job's output that are in no file, and why.
fn lost(row: &JobRow) -> Option<String> {
    let state = &row.output_state;
    let why = state.refused.as_ref().or(state.trouble.as_ref()).filter(|_| state.lost_bytes > 0)?;
    Some(format!("{} bytes of the output are in no file: {why}", state.lost_bytes))
}

/// Minutes and seconds since the ranks ran.
fn duration(row: &JobRow) -> String {
    row.started_ms.map_or_else(|| "-".into(), |started_ms| elapsed(started_ms, row.ended_ms))
}
