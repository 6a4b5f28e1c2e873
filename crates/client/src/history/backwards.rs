//! Lines of a log from its end to its beginning: whoever wants the newest jobs does not read all that there
//! were.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tutti_protocol::paths;

use super::LINE_BYTES_MAX;

/// Bytes that are read at once: the newest jobs are in the first piece or two.
const PIECE_BYTES: u64 = 64 << 10;

/// Reader of a log and of the one that was put aside before it.
#[derive(Debug)]
pub(super) struct Backwards {
    /// The older one first.
    files: Vec<File>,
    /// Bytes that are read at once, unless a line is longer.
    pub(super) piece_bytes: u64,
    /// Place in the last of them of the first byte in `piece`; none: it has not been looked at.
    at: Option<u64>,
    /// Bytes that have been read, and whose lines have not been given.
    piece: Vec<u8>,
    /// Bytes of the piece in which the end of a line was looked for in vain.
    looked: usize,
    read: u64,
}

impl Backwards {
    /// Reader behind the last line. `is_named`: the user has named the folder of the log, and may mean that
    /// of another user.
    ///
    /// # Errors
    /// When the log cannot be opened.
    pub(super) fn open(path: &Path, is_named: bool) -> io::Result<Self> {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".1");
        let newest = paths::open_events(path, is_named)?;
        let aside = paths::open_events(Path::new(&aside), is_named).ok();
        let files = aside.into_iter().chain([newest]).collect();
        Ok(Backwards { files, piece_bytes: PIECE_BYTES, at: None, piece: Vec::new(), looked: 0, read: 0 })
    }

    /// Bytes that were read so far.
    pub(super) fn read_bytes(&self) -> u64 {
        self.read
    }

    /// The line before; none: there is none, or what is there is no log.
    pub(super) fn next_line(&mut self) -> Option<Vec<u8>> {
        loop {
            let new = self.piece.len() - self.looked;
            if let Some(end) = self.piece[..new].iter().rposition(|byte| *byte == b'\n') {
                let line = self.piece.split_off(end + 1);
                self.piece.pop();
                self.looked = 0;
                if !line.is_empty() {
                    return Some(line);
                }
                continue;
            }
            self.looked = self.piece.len();
            if self.at == Some(0) {
                // The first line has no end of another one before it.
                (self.at, self.looked) = (None, 0);
                self.files.pop();
                if !self.piece.is_empty() {
                    return Some(std::mem::take(&mut self.piece));
                }
            } else if self.piece.len() as u64 >= LINE_BYTES_MAX || !self.read_piece() {
                return None;
            }
        }
    }

    /// Reads the piece before.
    fn read_piece(&mut self) -> bool {
        let Some(file) = self.files.last() else { return false };
        let end = self.at.or_else(|| file.metadata().map(|found| found.len()).ok());
        let Some(end) = end else { return false };
        let start = end.saturating_sub(self.piece_bytes.max(self.piece.len() as u64));
        let mut bytes = vec![0; (end - start) as usize];
        // One that is shorter now has been begun anew.
        if file.read_exact_at(&mut bytes, start).is_err() {
            return false;
        }
        self.read += end - start;
        bytes.append(&mut self.piece);
        (self.piece, self.at) = (bytes, Some(start));
        true
    }
}

#[cfg(test)]
mod tests {
    use tutti_testkit::{Random, Scratch};

    use super::*;

    fn all(path: &Path) -> (Vec<String>, u64) {
        let mut log = Backwards::open(path, true).expect("a log");
        let mut lines = Vec::new();
        while let Some(line) = log.next_line() {
            lines.push(String::from_utf8(line).expect("text"));
        }
        (lines, log.read_bytes())
    }

    #[test]
    fn log_is_read_from_its_end_whatever_the_length_of_its_lines() {
        let scratch = Scratch::new("backwards");
        let (path, aside) = (scratch.path().join("log"), scratch.path().join("log.1"));
        assert!(Backwards::open(&path, true).is_err());
        let mut random = Random::new(tutti_testkit::seed());
        for round in 0..20 {
            let mut written = Vec::new();
            for file in [&aside, &path] {
                let mut text = String::new();
                for number in 0..random.below(200) {
                    let long = if random.chance(30) { PIECE_BYTES * 3 } else { 100 };
                    let line = format!("{round} {number} {}", "x".repeat(random.below(long) as usize));
                    text.push_str(&line);
                    text.push_str(if random.chance(100) { "\n\n" } else { "\n" });
                    written.push(line);
                }
                // A writer may be in the midst of its last line.
                if random.chance(500) {
                    text.pop();
                }
                std::fs::write(file, text).expect("a file");
            }
            let (mut found, read) = all(&path);
            found.reverse();
            assert!(found == written, "round {round}: {} lines of {}", found.len(), written.len());
            let bytes = [&path, &aside].map(|file| file.metadata().expect("a file").len());
            assert_eq!(read, bytes[0] + bytes[1], "each byte is read once");
        }
    }

    #[test]
    fn newest_lines_cost_no_reading_of_those_before() {
        let scratch = Scratch::new("backwards-few");
        let path = scratch.path().join("log");
        std::fs::write(&path, "a line of the log\n".repeat(200_000)).expect("a file");
        let mut log = Backwards::open(&path, true).expect("a log");
        (0..1000).for_each(|_| assert_eq!(log.next_line().as_deref(), Some(&b"a line of the log"[..])));
        assert_eq!(log.read_bytes(), PIECE_BYTES);
    }
}
