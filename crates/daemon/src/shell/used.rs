//! Record of what users have used, on the controller, for the controller after this one: a file beside its
//! folder of waiting jobs, `NAME.used`.
//!
//! Writer: the controller's main loop, at most every [`KEEP_MS`] and only if something has changed. What
//! happens if it stops right here: the file is replaced as a whole, so the next controller reads the old or
//! the new one, and forgets what was used in the last seconds. It is not brought to the disk: a power cut may
//! cost more, or all. A file that is no such file counts as none.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::kept::{self, Until};

/// Between two files.
const KEEP_MS: u64 = 5_000;
/// A longer file is none: 30 bytes a user.
const BYTES_MAX: u64 = 4 << 20;

/// Content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Used {
    /// When that was, in ms since 1970.
    at_ms: u64,
    /// By user, in ns of a whole row.
    used: Vec<(u32, u64)>,
}

/// The file.
#[derive(Debug)]
pub(super) struct UsedFile {
    path: PathBuf,
    kept_ms: u64,
    kept: Vec<(u32, u64)>,
    /// Whether the file could not be written, and that was said.
    is_broken: bool,
}

impl UsedFile {
    /// Beside this folder.
    pub(super) fn new(folder: &Path) -> Self {
        let path = folder.with_extension("used");
        UsedFile { path, kept_ms: 0, kept: Vec::new(), is_broken: false }
    }

    /// Loads what an earlier controller has left, and how old it is, in ns. A clock that was set back since
    /// makes it new.
    pub(super) fn load(&mut self, now_ms: u64) -> (Vec<(u32, u64)>, u64) {
        match kept::read(&self.path, BYTES_MAX) {
            Ok(Used { at_ms, used }) => (used, now_ms.saturating_sub(at_ms).saturating_mul(1_000_000)),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!("{} is not read, all users begin anew: {error}", self.path.display());
                }
                Default::default()
            }
        }
    }

    /// Keeps what users have used by now.
    pub(super) fn keep(&mut self, now_ms: u64, used: &[(u32, u64)]) {
        // A clock that was set back begins anew.
        if (self.kept_ms..self.kept_ms + KEEP_MS).contains(&now_ms) || used == self.kept {
            return;
        }
        self.kept_ms = now_ms;
        self.kept = used.to_vec();
        let result = self.write(now_ms);
        if let Err(error) = &result
            && !self.is_broken
        {
            let path = self.path.display();
            tracing::warn!(
                "cannot write {path}, a new controller will not know what users have used: {error}"
            );
        }
        self.is_broken = result.is_err();
    }

    fn write(&self, at_ms: u64) -> io::Result<()> {
        let used = Used { at_ms, used: self.kept.clone() };
        kept::replace(&self.path, &used, Until::Renamed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_file_is_read_by_the_next_controller_and_rubbish_is_none() {
        let folder = std::env::temp_dir().join(format!("tutti-used-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("node0.queue");
        let mut file = UsedFile::new(&path);
        assert_eq!(file.load(0), (Vec::new(), 0));
        file.keep(100_000, &[(7, 5)]);
        // Too soon, and then nothing new.
        file.keep(100_001, &[(7, 6)]);
        assert_eq!(UsedFile::new(&path).load(103_000), (vec![(7, 5)], 3_000_000_000));
        file.keep(110_000, &[(7, 6), (8, 1)]);
        assert_eq!(UsedFile::new(&path).load(90_000), (vec![(7, 6), (8, 1)], 0));
        for rubbish in [&b"{"[..], b"\xff", b"[1]", b"{\"at_ms\":1,\"used\":[[-1,2]]}"] {
            std::fs::write(&file.path, rubbish).unwrap();
            assert_eq!(UsedFile::new(&path).load(5), (Vec::new(), 0));
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
