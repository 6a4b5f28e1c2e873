//! Lines for people, on standard error.

use std::fmt::Display;
use std::io::Write;

/// Writes a line, at once. Who has closed the other end, or has a full disk behind it, does without: nobody ends because of that, as
/// he would by `eprintln`.
pub fn say(line: impl Display) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// What somebody else has written, as a part of a line: a character that would steer a terminal, or end the line, is spelt out.
pub fn plain(text: &str) -> String {
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
    use super::plain;

    #[test]
    fn log_line_escapes_control_characters() {
        assert_eq!(plain("./ä \"b\" 'c'"), "./ä \"b\" 'c'");
        assert_eq!(plain("a\u{1b}[2J\r\nb\u{9b}1m\u{7f}"), "a\\u{1b}[2J\\r\\nb\\u{9b}1m\\u{7f}");
    }
}
