//! A folder for files that a daemon runs for its keeper.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A folder that no other user can change, itself or by one above it, and that all can reach. The source tree
/// may belong to another user than the one who tests.
pub struct KeeperFolder(PathBuf);

impl KeeperFolder {
    /// Makes the folder; `name` is the test's.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tutti-{name}-{}", std::process::id()));
        // Remains of a test that was killed, under the same number of a process.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("it is ours");
        Self(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for KeeperFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
