//! Lines for people, on standard error.

use std::fmt::Display;
use std::io::Write;

/// Writes a line, at once. Who has closed the other end, or has a full disk behind it, does without: nobody ends because of that, as
/// he would by `eprintln`.
pub fn say(line: impl Display) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
