//! `tutti-starter N`: started by the front end with its end of the wire as descriptor N, or by a daemon with it as stdin (0); of no
//! use to people.
#![forbid(unsafe_code)]

use tutti_node::say::say;

fn main() -> std::process::ExitCode {
    let number = std::env::args().nth(1).and_then(|number| number.parse().ok()).unwrap_or(-1);
    let wire =
        if number == 0 { tutti_node::os::take_stdin() } else { tutti_node::os::take_descriptor(number) };
    let Ok(front) = wire else {
        say("tutti-starter is started by mpiexec; start that");
        return std::process::ExitCode::FAILURE;
    };
    match tutti_node::starter::run(front) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("tutti-starter: {error}"));
            std::process::ExitCode::FAILURE
        }
    }
}
