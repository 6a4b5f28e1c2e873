//! Lines for people on standard error, and text of others made safe for a terminal.

use std::fmt::Display;
use std::io::Write;

/// Writes a line, or several, at once. A closed pipe or a full disk is no error, as it would be with
/// `eprintln`. Names, and words of a file that cannot be read, are in many of them: what is not what it shows
/// is escaped, though most of them have that done where they are made.
pub fn print_line(line: impl Display) {
    let line = plain(without_numbers(format!("{line}\n")));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The same text where all letters but ends of lines and tabulators are what they show.
fn plain(text: String) -> String {
    let is_plain = |letter: char| matches!(letter, '\n' | '\t') || !is_deceptive(letter);
    if text.chars().all(is_plain) {
        return text;
    }
    let piece = |letter: char| {
        if is_plain(letter) { letter.to_string() } else { escape_control(letter.encode_utf8(&mut [0; 4])) }
    };
    text.chars().map(piece).collect()
}

/// The words of an error are for people; the number behind them is not.
fn without_numbers(mut line: String) -> String {
    const MARK: &str = " (os error ";
    let mut from = 0;
    while let Some(at) = line[from..].find(MARK).map(|at| from + at) {
        let rest = &line[at + MARK.len()..];
        let digits = rest.len() - rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let end = at + MARK.len() + digits + 1;
        if digits > 0 && rest[digits..].starts_with(')') {
            line.replace_range(at..end, "");
            from = at;
        } else {
            from = at + 1;
        }
    }
    line
}

/// Whether a letter moves the cursor, turns the direction of what is beside it, or is not seen: a line with
/// it says something else than it shows.
#[must_use]
pub fn is_deceptive(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Text that another process has written, as a part of a line: what is not what it shows is escaped.
pub fn escape_control(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if is_deceptive(c) {
            // As \r where there is a short form.
            if c.is_control() { line.extend(c.escape_default()) } else { line.extend(c.escape_unicode()) }
        } else {
            line.push(c);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::{escape_control, plain, without_numbers};

    #[test]
    fn line_for_people_has_no_numbers_of_errors() {
        let error = std::io::Error::from_raw_os_error(13);
        let line = without_numbers(format!("cannot read a: {error}; cannot read b: {error}"));
        assert_eq!(line, "cannot read a: Permission denied; cannot read b: Permission denied");
        assert_eq!(without_numbers("see (os error x) (os error 1".into()), "see (os error x) (os error 1");
    }

    #[test]
    fn line_for_people_is_what_it_shows() {
        let text = "cannot read ä\u{1b}[2J\u{202e}: unknown variant `\u{9b}1m`\n\twhat next\n";
        let seen = "cannot read ä\\u{1b}[2J\\u{202e}: unknown variant `\\u{9b}1m`\n\twhat next\n";
        assert_eq!(plain(text.into()), seen);
        assert_eq!(plain(seen.into()), seen);
    }

    #[test]
    fn log_line_escapes_control_characters() {
        assert_eq!(escape_control("./ä \"b\" 'c'"), "./ä \"b\" 'c'");
        assert_eq!(escape_control("a\u{1b}[2J\r\nb\u{9b}1m\u{7f}"), "a\\u{1b}[2J\\r\\nb\\u{9b}1m\\u{7f}");
    }

    #[test]
    fn log_line_escapes_marks_that_turn_or_hide_text() {
        let text = "a\u{202e}b\u{2066}c\u{200b}d\u{2028}e\u{feff}f\u{ad}g";
        assert_eq!(escape_control(text), "a\\u{202e}b\\u{2066}c\\u{200b}d\\u{2028}e\\u{feff}f\\u{ad}g");
        let seen = "\u{5e9}\u{5dc}\u{5d5} \u{645}\u{631} \u{65e5}\u{672c} e\u{301} \u{1f600}";
        assert_eq!(escape_control(seen), seen, "letters that are read from the right, or have accents");
    }
}
