//! `tutti-starter N`: started by the front end with its end of the wire as descriptor N, or by a daemon with it as stdin (0).
//! `tutti-starter writer`: started by a daemon, writes the output files of a submitted job. Of no use to people.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use rustix::process::Signal;
use tutti_node::say::say;
use tutti_node::{os, writer};

fn main() -> ExitCode {
    let word = std::env::args().nth(1).unwrap_or_default();
    let is_writer = word == "writer";
    let number = if is_writer { 0 } else { word.parse().unwrap_or(-1) };
    let wire = if number == 0 { os::take_stdin() } else { os::take_descriptor(number) };
    let Ok(front) = wire else {
        say("tutti-starter is started by mpiexec; start that");
        return ExitCode::FAILURE;
    };
    let result = if is_writer {
        // A file that gets too long, and a pipe that nobody reads any more, are errors that are said.
        os::ignore_signal(Signal::XFSZ.as_raw());
        os::ignore_signal(Signal::PIPE.as_raw());
        writer::run(&front).map_err(|error| error.to_string())
    } else {
        tutti_node::starter::run(front).map_err(|error| error.to_string())
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("tutti-starter: {error}"));
            ExitCode::FAILURE
        }
    }
}
