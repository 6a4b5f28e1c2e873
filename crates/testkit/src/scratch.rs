//! A folder for what a test writes.

use std::io;
use std::path::{Path, PathBuf};

/// A folder of its own for a test, removed when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder, under `target/tmp`; `name` is the test's, which has one of it at a time. What a test
    /// that was killed has left under the same number of a process is removed.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let tmp = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp");
        Self::within(&tmp, name).unwrap_or_else(|error| panic!("{}: {error}", tmp.display()))
    }

    /// Makes the folder in memory, for a test that writes thousands of files: on a disk each file that takes
    /// the place of another is written out at once. Under `target/tmp` where memory has no such place.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn in_memory(name: &str) -> Self {
        Self::within(Path::new("/dev/shm"), &format!("tutti-{name}")).unwrap_or_else(|_| Self::new(name))
    }

    fn within(tmp: &Path, name: &str) -> io::Result<Self> {
        std::fs::create_dir_all(tmp)?;
        let path = tmp.canonicalize()?.join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        // Not where somebody has made it first.
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
