//! `mpiexec`, `mpirun` and `tutti`: one program, whose name says which face it shows.
#![forbid(unsafe_code)]

mod elf;
mod front;
mod hosts;
mod options;
mod program;
mod starter;
mod stdio;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
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

fn tutti(mut arguments: Vec<OsString>) -> ExitCode {
    let command = if arguments.is_empty() { OsString::from("--help") } else { arguments.remove(0) };
    match command.to_str() {
        Some("run") => front::run("tutti run", arguments),
        Some("--version" | "-V" | "version") => {
            println!("{}", options::VERSION);
            ExitCode::SUCCESS
        }
        Some("--help" | "-h" | "help") => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("tutti: {:?} is not one of its commands; `tutti --help` lists them", command);
            ExitCode::from(2)
        }
    }
}

const HELP: &str = "\
usage: tutti COMMAND ...

  run -n N PROGRAM [ARGUMENT ...]   run a parallel program (the same as mpiexec; `tutti run --help` lists its options)
  version                           which version this is
";
