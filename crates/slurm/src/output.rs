//! Texts of the commands: one write to stdout, lines to stderr.

use std::process::ExitCode;

use tutti_os::stderr::print_line;

/// Writes a text to stdout at once.
#[must_use]
pub fn print(text: &str) -> ExitCode {
    if tutti_os::stdout::print(text) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes a line to stderr.
pub fn complain(command: &str, text: &str) {
    print_line(format_args!("{command}: {text}"));
}

/// Writes the two lines about a command line that cannot be read, as glibc and Slurm do.
pub fn complain_of_usage(command: &str, error: &str) {
    complain(command, error);
    print_line(format_args!("Try \"{command} --help\" for more information"));
}

/// Writes a line to stderr as it is: what Slurm's library says begins with no command.
#[must_use]
pub fn refuse_plainly(text: &str) -> ExitCode {
    print_line(format_args!("{text}"));
    ExitCode::FAILURE
}

/// Writes a line about an error to stderr; the exit status.
#[must_use]
pub fn refuse(command: &str, text: &str, status: u8) -> ExitCode {
    complain(command, &format!("error: {text}"));
    ExitCode::from(status)
}
