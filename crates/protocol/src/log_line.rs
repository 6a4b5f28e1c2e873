//! A line of a daemon's log: `TIME LEVEL NODE: text`.

/// Characters of a time up to its thousandths of a second.
pub const TIME_CHARS: usize = "2026-11-23T13:31:02.123".len();

/// The text of a line, without its time and level; a line that is no entry of the log as it is.
pub fn text_of(line: &str) -> &str {
    let mut words = line.splitn(4, ' ');
    let is_time = |word: &str| word.len() == TIME_CHARS + 1 && word.ends_with('Z');
    let (time, _level, _node, text) = (words.next(), words.next(), words.next(), words.next());
    text.filter(|_| time.is_some_and(is_time)).unwrap_or(line)
}
