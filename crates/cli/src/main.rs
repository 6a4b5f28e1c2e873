//! `mpiexec`, `mpirun` and `tutti`: one program, which behaves by the name that it is called by.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod cluster;
mod commands;
mod description;
mod doctor;
mod elf;
mod file;
mod front;
mod history;
mod hosts;
mod library;
mod link;
mod manual;
mod nodes;
mod options;
mod others;
mod output;
mod program;
mod script;
mod snapshot;
mod starter;
mod stdio;
mod timeline;
mod up;
mod users;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use rustix::process::{Resource, Signal, getrlimit};
use tutti_os::stderr::print_line;

/// A smaller stack is used up before anything is done; the signal that follows would not tell why.
const STACK_BYTES_MIN: u64 = 128 << 10;

fn main() -> ExitCode {
    let limit = getrlimit(Resource::Stack).current;
    if let Some(bytes) = limit.filter(|bytes| *bytes < STACK_BYTES_MIN) {
        let (found, expected) = (bytes >> 10, STACK_BYTES_MIN >> 10);
        print_line(format_args!(
            "tutti: the stack limit (ulimit -s) is {found} KiB, expected {expected} KiB or more"
        ));
        return ExitCode::FAILURE;
    }
    run()
}

/// The large frames are in there.
#[inline(never)]
fn run() -> ExitCode {
    // A file that gets too long is as a full disk: an error is printed, and no partial file stays.
    tutti_os::ignore_signal(Signal::XFSZ.as_raw());
    let mut arguments = std::env::args_os();
    let called = arguments.next().unwrap_or_else(|| OsString::from("mpiexec"));
    let name =
        Path::new(&called).file_name().map_or("mpiexec".into(), |name| name.to_string_lossy().into_owned());
    let arguments: Vec<OsString> = arguments.collect();
    match name.as_str() {
        "mpirun" => front::run("mpirun", arguments),
        "mpiexec" => front::run("mpiexec", arguments),
        _ => tutti(arguments),
    }
}

/// The commands of `tutti`: how they are called, and what they do.
const COMMANDS: [(&str, &str); 21] = [
    (
        "run [OPTION ...] -n N PROGRAM ...",
        "run a parallel program on the cluster, with -N on that many nodes",
    ),
    ("submit [OPTION ...] -n N PROGRAM ...", "the same without waiting for it"),
    ("wait JOB ...", "wait until jobs are over; the exit status is the first of theirs that is not 0"),
    (
        "ps [--all] [--user USER] [--state STATE] [--name NAME] [--json]",
        "the jobs of the cluster, and of others here",
    ),
    ("status JOB [--json]", "one job"),
    ("nodes [--json]", "the nodes of the cluster"),
    ("snapshot JOB [-o FILE] | --show FILE", "what is in flight in a job, who waits for whom, deadlocks"),
    ("timeline JOB | --all [-o FILE]", "draw who ran where and when, as a page for a browser"),
    ("doctor [PROGRAM] [--json]", "what keeps Tutti from working well here, and what to do"),
    ("attach JOB", "become the front end of a job that has none"),
    ("logs [-f] JOB", "what a job has written; -f: until it is over"),
    ("suspend JOB ... [--json]", "suspend jobs"),
    ("resume JOB ... [--json]", "jobs go on"),
    ("signal SIGNAL JOB ... [--json]", "every rank gets a signal"),
    ("kill JOB ... [--json]", "jobs are killed"),
    ("up --nodes N [--netns]", "start a cluster of N daemons on this machine"),
    ("down", "end the daemons of a cluster, and its jobs"),
    ("keygen FILE", "make the key of a cluster"),
    ("completion SHELL", "print the completions for bash, zsh or fish"),
    ("man PAGE", "print a manual page, mpiexec, tutti or tuttid, in roff"),
    ("version", "say which version this is"),
];

fn tutti(mut arguments: Vec<OsString>) -> ExitCode {
    let command = if arguments.is_empty() { OsString::from("help") } else { arguments.remove(0) };
    let argument = arguments.first().and_then(|argument| argument.to_str()).unwrap_or("");
    match command.to_str() {
        Some("run") => front::run("tutti run", arguments),
        Some(name) if commands::NAMES.contains(&name) => commands::run(name, arguments),
        Some("completion") => print(manual::completion(argument), "completion wants bash, zsh or fish"),
        Some("man") => print(manual::page(argument), "man wants mpiexec, tutti or tuttid"),
        Some("version" | "--version" | "-V") => print(Some(format!("{}\n", options::VERSION)), ""),
        Some("help" | "--help" | "-h") => print(Some(help()), ""),
        _ => print(None, &format!("{command:?} is not a command; `tutti --help` lists the commands")),
    }
}

fn help() -> String {
    let lines = COMMANDS.iter().map(|(usage, help)| format!("  {usage:36} {help}\n"));
    format!("usage: tutti COMMAND ...\n\n{}", lines.collect::<String>())
}

/// Prints a text, or one line when there is none.
fn print(text: Option<String>, otherwise: &str) -> ExitCode {
    let Some(text) = text else {
        print_line(format_args!("tutti: {otherwise}"));
        return ExitCode::from(2);
    };
    // A reader that has gone wants no more of it.
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
