//! A small file that one controller leaves for the next. It is read as a whole, and replaced as a whole: who
//! stops in the middle leaves the old one.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::filing::sync;

/// When a file counts as replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The next daemon reads it. A power cut may cost the change, or all.
    Renamed,
    /// Brought to the disk, which may take its time.
    OnDisk,
}

/// A longer file is none.
pub(super) fn read<T: DeserializeOwned>(path: &Path, bytes_max: u64) -> io::Result<T> {
    let mut text = String::new();
    File::open(path)?.take(bytes_max).read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

/// Another file comes in its place.
pub(super) fn replace(path: &Path, value: &impl Serialize, until: Until) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let written = || -> io::Result<()> {
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        if until == Until::Renamed {
            return std::fs::rename(&new, path);
        }
        sync(&file)?;
        std::fs::rename(&new, path)?;
        path.parent().map_or(Ok(()), |folder| sync(&File::open(folder)?))
    };
    written().inspect_err(|_| drop(std::fs::remove_file(&new)))
}
