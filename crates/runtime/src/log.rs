//! Lines for the user: each goes out in one write, so that those of several ranks do not mix.

use std::fmt;
use std::io::Write;

/// Writes `tutti: ` and `what` as one line to standard error. There is nobody to tell when that fails.
pub fn line(what: fmt::Arguments<'_>) {
    let line = format!("tutti: {what}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
