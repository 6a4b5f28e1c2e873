//! Lines for the user: each goes out in one write, so that those of several ranks do not mix.

use std::fmt;
use std::io::Write;
use std::os::fd::RawFd;

/// Writes `tutti: ` and `what` as one line to standard error. There is nobody to tell when that fails.
pub fn line(what: fmt::Arguments<'_>) {
    let line = without_numbers(format!("tutti: {what}\n"));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Bytes of a line that is said without the heap.
const LINE_MAX: usize = 1024;

/// A line that is put together on the stack; what is longer is cut.
struct Line {
    bytes: [u8; LINE_MAX],
    length: usize,
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.length..];
        let count = text.len().min(room.len());
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}

/// Says a line from a handler, wherever the program was: it takes no heap and no lock.
pub fn line_without_heap(descriptor: RawFd, what: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; LINE_MAX], length: 0 };
    let _ = fmt::write(&mut line, format_args!("tutti: {what}\n"));
    // SAFETY: the bytes are there during the call.
    unsafe { libc::write(descriptor, line.bytes.as_ptr().cast(), line.length) };
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
