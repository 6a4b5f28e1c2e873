//! Texts of the commands: one write to stdout, lines to stderr.

use std::io::Write;
use std::process::ExitCode;

use tutti_os::stderr::print_line;

/// Writes a text to stdout at once.
#[must_use]
pub fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    // A reader that has gone wants no more of it.
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Writes a line to stderr.
pub fn complain(command: &str, text: &str) {
    print_line(format_args!("{command}: {text}"));
}

/// Writes a line about an error to stderr; the exit status.
#[must_use]
pub fn refuse(command: &str, text: &str, status: u8) -> ExitCode {
    complain(command, &format!("error: {text}"));
    ExitCode::from(status)
}
