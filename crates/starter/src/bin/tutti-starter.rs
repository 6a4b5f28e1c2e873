//! `tutti-starter N`: started by the front end with its end of the wire as descriptor N, or by a daemon with
//! it as stdin (0). `tutti-starter writer`: started by a daemon, writes the output files of a submitted job.
//! Of no use to people.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use rustix::process::Signal;
use tutti_os::stderr::print_line;
use tutti_starter::writer;

fn main() -> ExitCode {
    tutti_os::settle_signals();
    let word = std::env::args().nth(1).unwrap_or_default();
    let is_writer = word == "writer";
    let number = if is_writer { 0 } else { word.parse().unwrap_or(-1) };
    let wire = if number == 0 { tutti_os::take_stdin() } else { tutti_os::take_descriptor(number) };
    let Ok(front) = wire else {
        print_line("tutti-starter is started by mpiexec; start that");
        return ExitCode::FAILURE;
    };
    let result = if is_writer {
        // A file that gets too long, and a pipe without a reader, are errors of a write.
        tutti_os::ignore_signal(Signal::XFSZ.as_raw());
        tutti_os::ignore_signal(Signal::PIPE.as_raw());
        writer::run(&front).map_err(|error| error.to_string())
    } else {
        tutti_starter::starter::run(front).map_err(|error| error.to_string())
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_line(format_args!("tutti-starter: {error}"));
            ExitCode::FAILURE
        }
    }
}
