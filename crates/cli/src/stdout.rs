//! The text that a command prints to stdout at once.

use std::process::ExitCode;

use tutti_os::stderr::print_line;

use crate::options::USAGE;

/// Prints a text, or one line when there is none.
pub fn print(text: Option<String>, otherwise: &str) -> ExitCode {
    let Some(text) = text else {
        print_line(format_args!("tutti: {otherwise}"));
        return ExitCode::from(USAGE);
    };
    if tutti_os::stdout::print(&text) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
