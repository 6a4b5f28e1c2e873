//! `mpiexec`, `mpirun` and `tutti`: one program, which behaves by the name that it is called by.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

mod admit;
mod board;
mod cluster;
mod commands;
mod completion;
mod configuration;
mod description;
mod doctor;
mod dsm_report;
mod elf;
mod engine;
mod file;
mod front;
mod hosts;
mod library;
mod line;
mod link;
mod machine;
mod manual;
mod nodes;
mod options;
mod origin;
mod output;
mod page;
mod plain_name;
mod program;
mod rsh;
mod script;
mod signals;
mod simulate;
mod snapshot;
mod starter;
mod stdio;
mod stdout;
mod suggest;
mod timeline;
mod trace_op;
mod up;

use std::ffi::OsString;
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
    tutti_os::settle_signals();
    tutti_os::settle_stdout();
    // A file that gets too long is as a full disk: an error is printed, and no partial file stays.
    tutti_os::ignore_signal(Signal::XFSZ.as_raw());
    let mut arguments = std::env::args_os();
    let called = arguments.next().unwrap_or_else(|| OsString::from("mpiexec"));
    let name =
        Path::new(&called).file_name().map_or("mpiexec".into(), |name| name.to_string_lossy().into_owned());
    let arguments: Vec<OsString> = arguments.collect();
    // Beside other MPIs, packages install it as `mpiexec.tutti`.
    match name.trim_end_matches(".tutti") {
        "mpirun" => front::run("mpirun", arguments),
        "oshrun" => front::run("oshrun", arguments),
        "mpiexec" => front::run("mpiexec", arguments),
        _ => tutti(arguments),
    }
}

fn tutti(mut arguments: Vec<OsString>) -> ExitCode {
    if arguments.first().is_some_and(|word| word == "--at") {
        if arguments.len() < 3 {
            return stdout::print(None, "--at needs ssh://[USER@]HOST and a command");
        }
        tutti_client::at::set(arguments[1].to_string_lossy().into_owned());
        arguments.drain(..2);
    }
    let command = arguments.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    if tutti_client::at::target().is_none() && !commands::is_of_this_machine(&command) {
        match tutti_client::configured::host() {
            Ok(host) => host.into_iter().for_each(tutti_client::at::set),
            Err(text) => {
                print_line(format_args!("tutti: {text}"));
                return ExitCode::FAILURE;
            }
        }
    }
    match (command.as_str(), tutti_client::at::target()) {
        (tutti_client::at::COMMAND, _) if arguments.len() == 2 => {
            return line::run_near(&arguments[1].to_string_lossy());
        }
        ("relay", _) => {
            let session = arguments.get(2).map(|name| name.to_string_lossy().into_owned());
            return line::run_relay(session.as_deref());
        }
        ("member", _) => return up::member::run(),
        (name, Some(target)) if commands::reads_this_machine(name) => {
            return rsh::run_there(&target, &arguments).unwrap_or_else(|text| {
                print_line(format_args!("tutti {name}: {text}"));
                ExitCode::FAILURE
            });
        }
        _ => {}
    }
    let command = if arguments.is_empty() { OsString::from("help") } else { arguments.remove(0) };
    match command.to_str() {
        Some("run") => front::run("tutti run", arguments),
        Some("alloc") => front::run("tutti alloc", arguments),
        Some(name) if commands::is_known(name) => commands::run(name, arguments),
        Some("--version" | "-V") => commands::run("version", arguments),
        Some("help") if !arguments.is_empty() => {
            let about = arguments.remove(0);
            tutti(vec![about, OsString::from("--help")])
        }
        Some("help" | "--help" | "-h") => stdout::print(Some(commands::help()), ""),
        _ => {
            let near = command.to_str().and_then(|word| suggest::command(word, commands::names()));
            let near = near.map_or_else(String::new, |near| format!("; {near}"));
            stdout::print(
                None,
                &format!("{command:?} is not a command{near} (`tutti --help` lists the commands)"),
            )
        }
    }
}
