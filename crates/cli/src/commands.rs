//! The commands of `tutti` that ask the cluster something, or do something to a job.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};
use tutti_client::filter::Filter;
use tutti_client::job_name::JobName;
use tutti_client::name_list::{self, NameList};
use tutti_client::{at, states};
use tutti_os::stderr::print_line;
use tutti_protocol::daemon_options::{complaint, print_asked};

use crate::cluster::{Control, Request};
use crate::completion::{self, Completed, Shell};
use crate::manual::{self, Page};
use crate::options::{self, Launcher};
use crate::{
    admit, board, configuration, doctor, dsm_report, front, machine, page, signals, simulate, snapshot,
    stdout, timeline, trace_op, up,
};

mod account;
mod advise;
mod answer;
mod change;
mod drain;
mod follow;
mod jobs;
mod list;
mod logs;
mod nodes;
mod past;
mod reserve;
mod selection;
mod services;
mod shares;
mod status;
mod submit;
mod top;
mod wait;
mod why;

/// Text of `tutti version`.
const VERSION: &str = concat!("tutti ", env!("CARGO_PKG_VERSION"), "\n");

/// Needs of a command, where its configuration names another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// Answers of the daemons there.
    Any,
    /// Files of the machine on which a daemon runs, or a terminal all the time: it runs there.
    Files,
    /// Files or the shell here, whatever host the configuration names.
    Own,
    /// The same; where its line names a host, files of that one.
    OwnFiles,
}

use Needs::{Any, Files, Own, OwnFiles};

/// Needs and usage of each command, in the order of the help.
const USAGES: &[(Needs, &str)] = &[
    (Any, "run [OPTION ...] -n N PROGRAM ..."),
    (Any, "submit [OPTION ...] -n N PROGRAM ..."),
    (Any, "alloc [OPTION ...] [-n N] [COMMAND ...]"),
    (Any, "wait JOB ..."),
    (Any, "ps [--all | --history | --watch] [--limit N] [-l] [--user USER] [--state STATE] [--json]"),
    (Files, "top [-i SECONDS] [--user USER] [--state STATE] [--once | --json]"),
    (Any, "status JOB [--json]"),
    (Files, "account [--user USER] [--last TIME] [--by-user | --by-month] [--json]"),
    (Files, "why JOB"),
    (Any, "nodes [--json]"),
    (Any, "drain NODE ... --why TEXT"),
    (Any, "undrain NODE ..."),
    (Any, "reserve NODES --user USERS --for TIME | --until TIME [--from TIME] [--name NAME] | [--json]"),
    (Any, "unreserve NAME ..."),
    (Any, "prices [--json]"),
    (Files, "advise [--json]"),
    (Files, "board [--json]"),
    (Any, "services [--json]"),
    (Any, "call SERVICE [FUNCTION [ARGUMENT ...]]"),
    (Files, "snapshot JOB [-o FILE] | --show FILE"),
    (Any, "dsm-report [FOLDER] [--json]"),
    (Files, "timeline JOB | --all | --since MOMENT [-o FILE]"),
    (Any, "simulate --swf FILE | --lublin JOBS"),
    (Any, "trace-op read|write|fetch-add [-s BYTES]"),
    (Files, "doctor [PROGRAM] [--json]"),
    (Files, "machine [--again] [--json]"),
    (Any, "attach JOB"),
    (Files, "logs [-f] JOB"),
    (Any, "suspend JOB ... | --user USER [--json]"),
    (Any, "resume JOB ... | --user USER [--json]"),
    (Any, "signal SIGNAL JOB ... [--json]"),
    (Any, "kill [--kill-after SECONDS] JOB ... | --user USER [--json]"),
    (Any, "hold JOB ... | --user USER [--json]"),
    (Any, "requeue JOB ... | --user USER [--json]"),
    (Any, "change JOB ... [--time LIMIT] [--weight N] [--name NAME] [--begin TIME]"),
    (Any, "release JOB ... | --user USER [--json]"),
    (OwnFiles, "config check [FILE] | config show"),
    (Any, "reload"),
    (Files, "page [JOB] [--share]"),
    (OwnFiles, "up --nodes N [--netns]"),
    (OwnFiles, "down"),
    (OwnFiles, "keygen FILE"),
    (Own, "admit"),
    (Own, "completion SHELL [PROGRAM]"),
    (Own, "man PAGE"),
    (Any, "version"),
];
/// Commands that only our own programs call: they are about this machine.
const HIDDEN: [&str; 3] = ["relay", "member", at::COMMAND];

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
        /// Only those with these names; a comma of a name is \,
        #[arg(long, short, value_name = "NAME", value_parser = name_list::parse)]
        name: Vec<NameList>,
        /// Declared and effective weights, why they differ, and on which MPI library ranks run
        #[arg(long, short, conflicts_with_all = ["json", "limit"])]
        long: bool,
        /// For scripts
        #[arg(long)]
        json: bool,
        /// With --json: the jobs of other users' daemons on this machine too, as USER/NUMBER
        #[arg(long, requires = "json")]
        others: bool,
        /// With --all or --history: of those that are over the newest alone, so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        limit: Option<u32>,
        /// Again whenever something changes; with --json a line for each job that is new, different or gone
        #[arg(long, short, conflicts_with_all = ["all", "long", "others", "history", "limit"])]
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
    /// Reserve nodes for users for a time, or list what is reserved
    Reserve(reserve::Options),
    /// Remove reservations: their jobs go on
    Unreserve {
        /// Their names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
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
    /// Whether a login may come to this node, for pam_exec
    Admit,
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
    let line = |(_, usage): &(Needs, &'static str)| {
        let name = name_of(usage);
        let about = command.find_subcommand(name).and_then(clap::Command::get_about);
        format!("  {usage:36} {}\n", about.map(ToString::to_string).unwrap_or_default())
    };
    format!("usage: tutti COMMAND ...\n\n{}", USAGES.iter().map(line).collect::<String>())
}

/// All commands.
pub fn names() -> impl Iterator<Item = &'static str> {
    USAGES.iter().map(|(_, usage)| name_of(usage))
}

fn name_of(usage: &'static str) -> &'static str {
    usage.split(' ').next().unwrap_or(usage)
}

fn needs(name: &str) -> Option<Needs> {
    USAGES.iter().find(|(_, usage)| name_of(usage) == name).map(|(needs, _)| *needs)
}

/// [`run`] knows the command.
pub fn is_known(name: &str) -> bool {
    name == "submit" || Command::has_subcommand(name)
}

/// Whether a command needs files of the machine on which a daemon runs, or a terminal all the time: for
/// another host it runs there.
pub fn reads_this_machine(name: &str) -> bool {
    matches!(needs(name), Some(Files | OwnFiles))
}

/// Whether a command is about this machine, whatever host its configuration names.
pub fn is_of_this_machine(name: &str) -> bool {
    matches!(needs(name), Some(Own | OwnFiles)) || HIDDEN.contains(&name)
}

/// Runs a command.
pub fn run(name: &str, arguments: Vec<OsString>) -> ExitCode {
    if name == "submit" {
        return submit::run(arguments);
    }
    let words = [OsString::from("tutti"), name.into()].into_iter().chain(arguments);
    let command = match Line::try_parse_from(words) {
        Ok(line) => line.command,
        Err(error) => {
            if !error.use_stderr() {
                return print_asked(&error);
            }
            print_line(format_args!("tutti {name}: {}", complaint(&error)));
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

fn filter(user: Vec<String>, state: Vec<String>, names: &[NameList]) -> Filter {
    Filter { user, state, name: name_list::all(names) }
}

fn perform(command: Command) -> Result<ExitCode, String> {
    match command {
        Command::Ps { user, state, name, json, limit, past, .. } if past.is_asked() => {
            past::run(&past, &filter(user, state, &name), limit, json)
        }
        Command::Ps { user, state, name, json, watch: true, .. } => {
            follow::run(&filter(user, state, &name), json, jobs::print_jobs)
        }
        Command::Ps { all, user, state, name, long, json, others, limit, .. } => {
            let filter = filter(user, state, &name);
            let over = list::Over::of(all, &filter, limit)?;
            if long {
                shares::list(over.is_some(), &filter)
            } else {
                list::run(over, &filter, (json, others))
            }
        }
        Command::Top(_) => top::run(),
        Command::Prices { json } => shares::prices(json),
        Command::Advise { json } => advise::run(json),
        Command::Wait { jobs } => Ok(wait::run(&jobs)),
        Command::Status { job, json } => status::run(job.resolve()?, json),
        Command::Account(options) => account::run(&options),
        Command::Why { job } => why::run(job.resolve()?),
        Command::Nodes { json } => nodes::run(json),
        Command::Drain { nodes, why } => {
            Ok(drain::run("drain", &nodes, |node| Request::Drain(node, why.clone())))
        }
        Command::Undrain { nodes } => Ok(drain::run("undrain", &nodes, Request::Undrain)),
        Command::Reserve(options) => reserve::run(&options),
        Command::Unreserve { names } => Ok(reserve::remove(&names)),
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
        Command::Admit => admit::run(),
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

fn kill_after(text: &str) -> Result<Duration, String> {
    options::seconds(text).ok_or_else(|| format!("{} is expected", options::SECONDS))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn commands_have_a_usage_each() {
        let line = command_line();
        let known: BTreeSet<&str> = line.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(names().collect::<BTreeSet<_>>(), known);
        assert_eq!(names().count(), known.len(), "a command is there twice");
    }

    #[test]
    fn commands_run_where_their_files_are() {
        let of = |name| (reads_this_machine(name), is_of_this_machine(name));
        assert_eq!((of("logs"), of("ps"), of("man")), ((true, false), (false, false), (false, true)));
        assert_eq!((of("up"), of(at::COMMAND)), ((true, true), (false, true)));
    }
}
