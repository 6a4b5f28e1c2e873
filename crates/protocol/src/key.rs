//! The file of a cluster's key: how one is made. Daemons read it (`key.rs` of the daemon).

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Why no key was made. Each is one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be written.
    #[error("the cluster's key {path}: {source}")]
    File {
        /// Which.
        path: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// File that is there already, by its path.
    #[error("{0} is there already: delete it first if the cluster is to have another key")]
    Taken(String),
    /// None can be made.
    #[error("cannot make a key: {0}")]
    Make(#[from] rcgen::Error),
}

/// Makes a new key, as the text of its file.
///
/// # Errors
/// When the library makes none.
pub fn text() -> Result<String, KeyError> {
    let made = rcgen::generate_simple_self_signed(vec!["tutti".to_owned()])?;
    Ok(made.cert.pem() + &made.signing_key.serialize_pem())
}

/// Makes a new key in a new file, and the folders on the way to it.
///
/// # Errors
/// When the file is there already or cannot be written.
pub fn make(path: &Path) -> Result<(), KeyError> {
    let file_error = |source| KeyError::File { path: path.display().to_string(), source };
    let text = text()?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(file_error)?;
    }
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => KeyError::Taken(path.display().to_string()),
        _ => file_error(error),
    })?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    // A piece of a key would be in the way of the whole one.
    written.inspect_err(|_| drop(std::fs::remove_file(path))).map_err(file_error)
}
