//! Texts of the commands: one write to stdout, lines to stderr.

use std::process::ExitCode;

use tutti_os::stderr::print_line;

use crate::getopt::{self, Ends, Line, Spec};
use crate::names::VERSION;

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

/// Writes about an error to stderr, each line of it as one; the exit status.
#[must_use]
pub fn refuse(command: &str, text: &str, status: u8) -> ExitCode {
    text.lines().for_each(|line| complain(command, &format!("error: {line}")));
    ExitCode::from(status)
}

/// Reads the line of a command, and answers what every command is asked alike: its version and its usage.
///
/// # Errors
/// The exit status, when that was all, or the line cannot be read.
pub fn read(command: &str, specs: &[Spec], usage: &str, words: &[String]) -> Result<Line, ExitCode> {
    let line = getopt::parse(specs, words, Ends::AtDashes).map_err(|error| {
        complain_of_usage(command, &error.to_string());
        ExitCode::FAILURE
    })?;
    if line.has("version") {
        return Err(print(&format!("{VERSION}\n")));
    }
    if line.has("help") || line.has("usage") {
        return Err(print(&format!("{usage}\n")));
    }
    Ok(line)
}
