//! Lines for the user: each goes out in one write, so that those of several ranks do not mix.

use std::fmt;
use std::io::Write;

/// Writes `tutti: ` and `what` as one line to standard error. There is nobody to tell when that fails.
pub fn line(what: fmt::Arguments<'_>) {
    let line = without_numbers(format!("tutti: {what}\n"));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The words of an error of the system are for people; the number behind them is not.
fn without_numbers(line: String) -> String {
    const MARK: &str = " (os error ";
    let mut parts = line.split(MARK);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| match part.split_once(')') {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => text + rest,
        _ => text + MARK + part,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_words_of_errors_alone() {
        let error = std::io::Error::from_raw_os_error(13);
        assert_eq!(
            without_numbers(format!("a: {error}; b: {error}\n")),
            "a: Permission denied; b: Permission denied\n"
        );
        for line in ["", "plain", "x (os error y)", "x (os error 1"] {
            assert_eq!(without_numbers(line.into()), line);
        }
    }
}
