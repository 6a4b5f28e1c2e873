//! Tail of a log of JSON lines that another process writes and puts aside as `NAME.1` when it is long.
//!
//! A position is the file's inode and the bytes of whole lines that were taken. It survives restarts, and the
//! moment at which the log is put aside. Lines are read anew from the last whole one: a writer on a full disk
//! may cut off a piece.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes that one call takes, and of a line, at most.
const CHUNK_BYTES: usize = 1 << 20;

/// Place in a log up to which lines were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The file's inode.
    pub inode: u64,
    /// Bytes of whole lines.
    pub offset: u64,
}

/// Lines that were taken at once.
#[derive(Debug, Default)]
pub struct Taken {
    /// Whole lines, without their ends.
    pub lines: Vec<Vec<u8>>,
    /// Lines before these are gone.
    pub is_lost: bool,
    /// Set where there may be more.
    pub is_full: bool,
}

/// Reader of a log.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    file: Option<File>,
    position: Option<Position>,
}

impl Tail {
    /// Reader that goes on from a position; without one, from the oldest line that there is.
    pub fn new(path: &Path, position: Option<Position>) -> Self {
        Tail { path: path.to_owned(), file: None, position }
    }

    /// Position behind what was taken.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Goes back to a position: what was taken since could not be kept.
    pub fn rewind(&mut self, position: Option<Position>) {
        (self.file, self.position) = (None, position);
    }

    /// Begins with what is written from now on.
    pub fn skip_to_end(&mut self) {
        self.file = None;
        self.position =
            self.path.metadata().ok().map(|found| Position { inode: found.ino(), offset: found.len() });
    }

    /// Takes the next lines, a MiB of them at most.
    pub fn take(&mut self) -> Taken {
        let mut taken = Taken::default();
        // The file that was put aside, and the one behind it.
        for _ in 0..2 {
            if self.file.is_none() && !self.open(&mut taken) {
                return taken;
            }
            self.take_lines(&mut taken);
            if !taken.lines.is_empty() || !self.is_put_aside() {
                return taken;
            }
            self.file = None;
        }
        taken
    }

    fn aside(&self) -> PathBuf {
        let mut aside = self.path.as_os_str().to_owned();
        aside.push(".1");
        aside.into()
    }

    /// Opens the file of the position, else the oldest one. `false`: there is none.
    fn open(&mut self, taken: &mut Taken) -> bool {
        let found = |path: &Path| File::open(path).ok().and_then(|file| Some((file.metadata().ok()?, file)));
        let (aside, newest) = (found(&self.aside()), found(&self.path));
        if let Some(position) = self.position {
            let is_it = |entry: &&(std::fs::Metadata, File)| entry.0.ino() == position.inode;
            // Its last line has been taken, so the one behind it follows.
            let is_done = |entry: &(std::fs::Metadata, File)| {
                entry.0.ino() == position.inode && entry.0.len() <= position.offset
            };
            if aside.as_ref().is_some_and(is_done) && newest.is_some() {
                return self.begin(newest);
            }
            if let Some(entry) = [&aside, &newest].into_iter().flatten().find(is_it) {
                self.file = entry.1.try_clone().ok();
                return self.file.is_some();
            }
            taken.is_lost = true;
        }
        self.begin(aside.or(newest))
    }

    /// From the first line of a file.
    fn begin(&mut self, entry: Option<(std::fs::Metadata, File)>) -> bool {
        let Some((found, file)) = entry else { return false };
        self.position = Some(Position { inode: found.ino(), offset: 0 });
        self.file = Some(file);
        true
    }

    fn take_lines(&mut self, taken: &mut Taken) {
        let (Some(file), Some(position)) = (&self.file, &mut self.position) else { return };
        let bytes = file.metadata().map_or(0, |found| found.len());
        if bytes < position.offset {
            // Another content under the same inode.
            (position.offset, taken.is_lost) = (0, true);
        }
        let mut chunk = vec![0; CHUNK_BYTES.min((bytes - position.offset) as usize)];
        let Ok(read) = file.read_at(&mut chunk, position.offset) else { return };
        chunk.truncate(read);
        taken.is_full = read == CHUNK_BYTES;
        match chunk.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => {
                position.offset += end as u64 + 1;
                taken.lines.extend(chunk[..end].split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
            }
            // A line that is as long as that is none.
            None if taken.is_full => {
                position.offset += read as u64;
                taken.is_lost = true;
            }
            None => {}
        }
    }

    /// Another file has the log's name, and this one is at its end.
    fn is_put_aside(&self) -> bool {
        let Some(position) = self.position else { return false };
        self.path.metadata().is_ok_and(|found| found.ino() != position.inode)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn texts(taken: &Taken) -> Vec<String> {
        taken.lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    #[test]
    fn tail_goes_on_over_restarts_and_over_a_log_put_aside() {
        let folder = std::env::temp_dir().join(format!("tutti-tail-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("log");
        let append = |text: &str| {
            let mut file = File::options().append(true).create(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        let mut tail = Tail::new(&path, None);
        assert!(tail.take().lines.is_empty(), "there is no log yet");
        append("a\nb\nhalf");
        assert_eq!(texts(&tail.take()), ["a", "b"]);
        append(" a line\n");
        let kept = tail.position();
        assert_eq!(texts(&tail.take()), ["half a line"]);
        // A restart, from what was kept.
        let mut tail = Tail::new(&path, kept);
        append("c\n");
        assert_eq!(texts(&tail.take()), ["half a line", "c"]);
        append("d\n");
        let kept = tail.position();
        std::fs::rename(&path, folder.join("log.1")).unwrap();
        append("e\n");
        assert_eq!(texts(&tail.take()), ["d"]);
        assert_eq!(texts(&tail.take()), ["e"]);
        let mut tail = Tail::new(&path, kept);
        assert_eq!([texts(&tail.take()), texts(&tail.take())], [["d"], ["e"]]);
        // Put aside twice meanwhile: the gap is known.
        let mut tail = Tail::new(&path, Some(Position { inode: 1, offset: 7 }));
        let taken = tail.take();
        assert!(taken.is_lost && texts(&taken)[0] == "a", "{taken:?}");
        tail.skip_to_end();
        append("f\n");
        let taken = tail.take();
        assert!(!taken.is_lost && texts(&taken) == ["f"], "{taken:?}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A writer that was killed, a disk that was full: whatever is in the file, each whole line is taken
    /// once, and those that are events are understood.
    #[test]
    fn tail_takes_each_whole_line_of_rubbish_once() {
        let folder = std::env::temp_dir().join(format!("tutti-tail-rubbish-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("log");
        let mut random = tutti_testkit::Random::new(tutti_testkit::seed());
        let mut file = File::options().append(true).create(true).open(&path).unwrap();
        let mut tail = Tail::new(&path, None);
        let (mut written, mut understood) = (Vec::new(), 0);
        let (mut taken, mut events) = (Vec::new(), 0);
        for round in 0..200_u64 {
            for _ in 0..random.below(4) {
                let line: Vec<u8> = match random.below(3) {
                    0 => format!(r#"{{"ms":{round},"event":"started","job":7}}"#).into_bytes(),
                    1 => br#"{"ms":1,"event":"over","job":"#.to_vec(),
                    _ => (0..random.below(60)).map(|_| random.below(256) as u8).collect(),
                };
                let line: Vec<u8> = line.into_iter().filter(|byte| *byte != b'\n').collect();
                understood += usize::from(line.ends_with(br#""job":7}"#));
                // In two pieces, between which the reader looks.
                let cut = random.below(line.len() as u64 + 1) as usize;
                file.write_all(&line[..cut]).unwrap();
                let found = tail.take();
                events += crate::log::parse::<crate::log::Event>(&found.lines).len();
                taken.extend(found.lines);
                file.write_all(&[&line[cut..], b"\n"].concat()).unwrap();
                written.push(line);
            }
        }
        let found = tail.take();
        events += crate::log::parse::<crate::log::Event>(&found.lines).len();
        taken.extend(found.lines);
        assert_eq!((taken, events), (written, understood));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
