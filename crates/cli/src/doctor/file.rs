//! A program as this process, and so this user, sees it on this machine.

use std::ffi::OsStr;
use std::io::Read;
use std::path::PathBuf;

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use crate::program;

/// Bytes of a program of which a hash is made, at most.
const HASHED_BYTES_MAX: u64 = 2 << 30;

/// Facts about a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// How long it is.
    pub bytes: u64,
    /// SHA-256 in hexadecimal; none: it may be executed but not read, or is longer than any program.
    pub sha256: Option<String>,
}

/// Finds a program as `mpiexec` would, and reads it.
///
/// # Errors
/// When it cannot run; a text for the user.
pub fn inspect(word: &OsStr) -> Result<Found, String> {
    let path = program::find(word, None, None, std::env::var_os("PATH").as_deref())
        .map_err(|error| error.to_string())?;
    let path = std::path::absolute(&path).unwrap_or(path);
    // Length and hash are of one file, though another one may take its name meanwhile.
    let opened = tutti_os::open_file(&path);
    let facts = opened.as_ref().map_or_else(|_| path.metadata(), |file| file.metadata());
    let bytes = facts.map_or(0, |found| found.len());
    let readable = opened.ok().filter(|_| bytes <= HASHED_BYTES_MAX);
    let sha256 = readable.and_then(|file| hash(file.take(HASHED_BYTES_MAX)).ok());
    Ok(Found { path, bytes, sha256 })
}

fn hash(mut file: impl Read) -> std::io::Result<String> {
    let (mut context, mut bytes) = (Context::new(&SHA256), vec![0; 1 << 20]);
    loop {
        match file.read(&mut bytes) {
            Ok(0) => return Ok(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()),
            Ok(read) => context.update(&bytes[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doctor_program_is_found_and_hashed() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash(&b"abc"[..]).unwrap(), abc);
        let found = inspect(OsStr::new("sh")).unwrap();
        assert!(found.path.is_absolute() && found.bytes > 0 && found.sha256.is_some());
        assert_eq!(
            inspect(OsStr::new("./no-such-program")),
            Err("cannot find the program ./no-such-program: no such file".into())
        );
    }
}
