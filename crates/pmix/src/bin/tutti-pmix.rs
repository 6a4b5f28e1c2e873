//! `tutti-pmix`: started by `tutti-starter` with its end of a socket as stdin. Of no use to people.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use tutti_os::stderr::print_line;

fn main() -> ExitCode {
    tutti_os::settle_signals();
    let Ok(starter) = tutti_os::take_stdin() else {
        print_line("tutti-pmix is started by tutti-starter; start mpiexec");
        return ExitCode::FAILURE;
    };
    match tutti_pmix::server::run(starter) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_line(format_args!("tutti-pmix: {error}"));
            ExitCode::FAILURE
        }
    }
}
