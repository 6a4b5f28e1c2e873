//! The commands of `tutti` that ask the cluster something, or do something to a job.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand};
use rustix::process::Signal;
use serde_json::json;
use tutti_node::wire::{Head, Kind};

use crate::cluster::{self, Answer, Control, JobId, JobRow, JobState, NodeRow, Request};
use crate::{front, up};

/// The commands of this module.
pub const NAMES: [&str; 13] = [
    "submit", "ps", "status", "nodes", "attach", "logs", "suspend", "resume", "signal", "kill", "up", "down",
    "keygen",
];

#[derive(Debug, Parser)]
#[command(name = "tutti", disable_help_subcommand = true)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The jobs of the cluster
    Ps {
        /// Those that are over too
        #[arg(long, short)]
        all: bool,
        /// For scripts
        #[arg(long)]
        json: bool,
    },
    /// One job
    Status {
        job: u64,
        /// For scripts
        #[arg(long)]
        json: bool,
    },
    /// The nodes of the cluster
    Nodes {
        /// For scripts
        #[arg(long)]
        json: bool,
    },
    /// Become the front end of a job that has none
    Attach { job: u64 },
    /// What a job has written lately
    Logs { job: u64 },
    /// Jobs stand still
    Suspend {
        #[arg(required = true)]
        jobs: Vec<u64>,
    },
    /// Jobs go on
    Resume {
        #[arg(required = true)]
        jobs: Vec<u64>,
    },
    /// Every rank gets a signal
    Signal {
        /// A name, such as USR1, or a number
        signal: String,
        #[arg(required = true)]
        jobs: Vec<u64>,
    },
    /// Jobs are killed
    Kill {
        #[arg(required = true)]
        jobs: Vec<u64>,
    },
    /// Start a cluster of daemons on this machine
    Up(up::Options),
    /// End the daemons of a cluster, and its jobs
    Down,
    /// Make the key of a cluster
    Keygen { file: std::path::PathBuf },
}

/// Signals by name; any other by its number.
const SIGNALS: [(&str, Signal); 16] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("ABRT", Signal::ABORT),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("SEGV", Signal::SEGV),
    ("USR2", Signal::USR2),
    ("PIPE", Signal::PIPE),
    ("ALRM", Signal::ALARM),
    ("TERM", Signal::TERM),
    ("CONT", Signal::CONT),
    ("STOP", Signal::STOP),
    ("TSTP", Signal::TSTP),
    ("WINCH", Signal::WINCH),
    ("XCPU", Signal::XCPU),
];

/// Runs a command.
pub fn run(name: &str, mut arguments: Vec<OsString>) -> ExitCode {
    if name == "submit" {
        return submit(&mut arguments);
    }
    let words = [OsString::from("tutti"), name.into()].into_iter().chain(arguments);
    let command = match Line::try_parse_from(words) {
        Ok(line) => line.command,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    match perform(command) {
        Ok(status) => status,
        Err(text) => {
            eprintln!("tutti {name}: {text}");
            ExitCode::FAILURE
        }
    }
}

fn perform(command: Command) -> Result<ExitCode, String> {
    match command {
        Command::Ps { all, json } => list(&Request::Jobs { all }, json, print_jobs),
        Command::Status { job, json } => list(&Request::Job(JobId(job)), json, print_status),
        Command::Nodes { json } => match cluster::ask(&Request::Nodes)?.0 {
            Answer::Nodes(rows) => show(&rows, json, print_nodes),
            _ => Err("the daemon is of another version".into()),
        },
        Command::Attach { job } => Ok(front::attach(JobId(job))),
        Command::Logs { job } => logs(JobId(job)),
        Command::Suspend { jobs } => control(&jobs, Control::Suspend),
        Command::Resume { jobs } => control(&jobs, Control::Resume),
        Command::Signal { signal, jobs } => control(&jobs, Control::Signal(signal_number(&signal)?)),
        Command::Kill { jobs } => control(&jobs, Control::Kill),
        Command::Up(options) => up::up(&options),
        Command::Down => up::down(),
        Command::Keygen { file } => {
            tutti_daemon::key::make(&file).map_err(|error| error.to_string()).map(|()| ExitCode::SUCCESS)
        }
    }
}

fn submit(arguments: &mut Vec<OsString>) -> ExitCode {
    let in_json = arguments.first().is_some_and(|word| word == "--json");
    if in_json {
        arguments.remove(0);
    }
    let submission = match front::submission(arguments) {
        Ok(submission) => submission,
        Err(status) => return status,
    };
    match cluster::ask(&Request::Submit(Box::new(submission))) {
        Ok((Answer::Job(job), _)) if in_json => {
            crate::print(Some(format!("{}\n", json!({ "job": job }))), "")
        }
        Ok((Answer::Job(job), _)) => crate::print(Some(format!("job {job}\n")), ""),
        Ok(_) => crate::print(None, "the daemon is of another version"),
        Err(text) => {
            eprintln!("tutti submit: {text}");
            ExitCode::FAILURE
        }
    }
}

fn list(request: &Request, json: bool, print: fn(&[JobRow]) -> String) -> Result<ExitCode, String> {
    match cluster::ask(request)?.0 {
        Answer::Jobs(rows) => show(&rows, json, print),
        _ => Err("the daemon is of another version".into()),
    }
}

fn show<T: serde::Serialize>(rows: &[T], json: bool, print: fn(&[T]) -> String) -> Result<ExitCode, String> {
    let text = if json {
        serde_json::to_string_pretty(rows).expect("rows are serialisable") + "\n"
    } else {
        print(rows)
    };
    Ok(crate::print(Some(text), ""))
}

/// Every job is tried; the first refusal is the error.
fn control(jobs: &[u64], control: Control) -> Result<ExitCode, String> {
    let tried: Vec<_> =
        jobs.iter().map(|job| cluster::ask(&Request::Control(JobId(*job), control))).collect();
    tried.into_iter().collect::<Result<Vec<_>, _>>().map(|_| ExitCode::SUCCESS)
}

fn logs(job: JobId) -> Result<ExitCode, String> {
    let (_, mut frames) = cluster::ask(&Request::Logs(job))?;
    let (mut out, mut errors) = (std::io::stdout().lock(), std::io::stderr().lock());
    while let Some((Head { kind, .. }, payload)) = frames.next()? {
        let written = match kind {
            Kind::Output => out.write_all(&payload),
            Kind::Errors => errors.write_all(&payload),
            _ => Ok(()),
        };
        if written.is_err() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A signal's number from its name, with or without SIG, or its number.
fn signal_number(text: &str) -> Result<u32, String> {
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let number = SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, signal)| signal.as_raw() as u32);
    let number = number.or_else(|| name.parse().ok()).filter(|number| (1..=64).contains(number));
    number.ok_or_else(|| format!("{text:?} is no signal"))
}

fn print_jobs(rows: &[JobRow]) -> String {
    let mut text = format!(
        "{:>5} {:<9} {:>5} {:>5} {:>8}  {:<20} {}\n",
        "JOB", "STATE", "RANKS", "NODES", "TIME", "USER", "COMMAND"
    );
    for row in rows {
        let state = match (row.state, row.status) {
            (JobState::Over, Some(status)) => format!("over({status})"),
            (state, _) => name_of(state).to_owned(),
        };
        text.push_str(&format!(
            "{:>5} {state:<9} {:>5} {:>5} {:>8}  {:<20} {}\n",
            row.job.0,
            row.ranks,
            row.nodes.len(),
            duration(row),
            row.uid,
            row.command
        ));
    }
    text
}

fn print_status(rows: &[JobRow]) -> String {
    let mut text = String::new();
    for row in rows {
        text.push_str(&format!("job      {}\nstate    {}\n", row.job, name_of(row.state)));
        if let Some(status) = row.status {
            text.push_str(&format!("status   {status}\n"));
        }
        text.push_str(&format!(
            "command  {}\nuser     {}\nranks    {}\ntime     {}\n",
            row.command,
            row.uid,
            row.ranks,
            duration(row)
        ));
        text.push_str(&format!("nodes    {}\n", row.nodes.join(" ")));
        for (node, pids) in &row.pids {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            text.push_str(&format!("pids     {node}: {}\n", pids.join(" ")));
        }
    }
    text
}

fn print_nodes(rows: &[NodeRow]) -> String {
    let mut text = format!(
        "{:>4} {:<16} {:<6} {:>5} {:>5} {:>6}  {}\n",
        "NODE", "NAME", "STATE", "SLOTS", "RANKS", "PARENT", "ADDRESS"
    );
    for row in rows {
        let state = if row.alive { "up" } else { "lost" };
        let parent = row.parent.map_or_else(|| "-".into(), |parent| parent.to_string());
        text.push_str(&format!(
            "{:>4} {:<16} {state:<6} {:>5} {:>5} {parent:>6}  {}\n",
            row.node.0, row.name, row.slots, row.ranks, row.address
        ));
    }
    text
}

fn name_of(state: JobState) -> &'static str {
    match state {
        JobState::Starting => "starting",
        JobState::Running => "running",
        JobState::Suspended => "suspended",
        JobState::Ending => "ending",
        JobState::Over => "over",
    }
}

/// Minutes and seconds since the ranks ran.
fn duration(row: &JobRow) -> String {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let Some(started_ms) = row.started_ms else { return "-".into() };
    let seconds = row.ended_ms.unwrap_or(now_ms).saturating_sub(started_ms) / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}
