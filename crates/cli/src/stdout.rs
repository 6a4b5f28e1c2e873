//! The text that a command prints to stdout at once.

use std::io::Write;
use std::process::ExitCode;

use tutti_os::stderr::print_line;

use crate::options::USAGE;

/// Prints a text, or one line when there is none.
pub fn print(text: Option<String>, otherwise: &str) -> ExitCode {
    let Some(text) = text else {
        print_line(format_args!("tutti: {otherwise}"));
        return ExitCode::from(USAGE);
    };
    // A reader that has gone wants no more of it.
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
