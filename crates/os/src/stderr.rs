//! Lines for people on standard error, and text of others made safe for a terminal.

use std::fmt::Display;
use std::io::Write;

/// Writes a line, at once. A closed pipe or a full disk is no error, as it would be with `eprintln`.
pub fn print_line(line: impl Display) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Text that another process has written, as a part of a line: control characters are escaped.
pub fn escape_control(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::escape_control;

    #[test]
    fn log_line_escapes_control_characters() {
        assert_eq!(escape_control("./ä \"b\" 'c'"), "./ä \"b\" 'c'");
        assert_eq!(escape_control("a\u{1b}[2J\r\nb\u{9b}1m\u{7f}"), "a\\u{1b}[2J\\r\\nb\\u{9b}1m\\u{7f}");
    }
}
