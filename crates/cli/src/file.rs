//! Files that users asked for: whole, or as they were.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes the file under another name beside it, then gives it its own: a full disk leaves what was there, and nothing new. What is no
/// file (a pipe, a terminal) is written to as it is.
///
/// # Errors
/// When it cannot be written; a text for the user.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let found = std::fs::canonicalize(path);
    let target = found.as_deref().unwrap_or(path);
    let written = if std::fs::metadata(target).is_ok_and(|found| !found.is_file()) {
        std::fs::write(target, bytes)
    } else {
        replace(target, bytes)
    };
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn replace(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = beside(target);
    let write = || {
        let mut file = File::create_new(&new)?;
        file.write_all(bytes)?;
        // Some file systems find out only now that there is no room.
        file.sync_all()?;
        if let Ok(old) = std::fs::metadata(target) {
            std::fs::set_permissions(&new, old.permissions())?;
        }
        std::fs::rename(&new, target)
    };
    write().inspect_err(|error| {
        // Another one's is left alone.
        if error.kind() != io::ErrorKind::AlreadyExists {
            let _ = std::fs::remove_file(&new);
        }
    })
}

fn beside(target: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    target.with_file_name(name)
}
