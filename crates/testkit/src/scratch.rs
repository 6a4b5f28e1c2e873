//! A folder for what a test writes.

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
        std::fs::create_dir_all(&tmp).unwrap_or_else(|error| panic!("{}: {error}", tmp.display()));
        let tmp = tmp.canonicalize().expect("just made");
        let path = tmp.join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self(path)
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
