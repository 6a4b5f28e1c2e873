//! The file of a snapshot: a header line, then JSON. See docs/user/snapshots.md.
//!
//! ```text
//! TUTTI-SNAPSHOT 2 <bytes of what follows> <their CRC-32 in hexadecimal>\n
//! { ... }\n
//! ```

use crate::state::Snapshot;

const MAGIC: &str = "TUTTI-SNAPSHOT";
/// The version that is written, and the only one that is read.
const VERSION: u32 = 2;
/// Bytes of the first line, at most.
const HEAD_BYTES_MAX: usize = 80;

/// Why a file is no snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// Other content.
    #[error("it is not a snapshot")]
    Foreign,
    /// Of another version.
    #[error("it is of version {0}, and this program reads version {VERSION}")]
    Version(u32),
    /// Cut off, or longer than its header tells.
    #[error("{found} bytes are there, and {expected} were written")]
    Length {
        /// As written.
        expected: usize,
        /// As found.
        found: usize,
    },
    /// Changed.
    #[error("it is damaged: the checksum is {found:08x}, and {expected:08x} was written")]
    Checksum {
        /// As written.
        expected: u32,
        /// Of the bytes there are.
        found: u32,
    },
    /// The checksum is right and the contents are not.
    #[error("it is not a valid snapshot: {0}")]
    Contents(String),
}

/// The bytes of the file.
pub fn write(snapshot: &Snapshot) -> Vec<u8> {
    let mut body = serde_json::to_vec(snapshot).expect("snapshots are serialisable");
    body.push(b'\n');
    let mut bytes =
        format!("{MAGIC} {VERSION} {} {:08x}\n", body.len(), tutti_channel::crc32(&body)).into_bytes();
    bytes.extend(body);
    bytes
}

/// A snapshot from the bytes of a file.
///
/// # Errors
/// They are none.
pub fn read(bytes: &[u8]) -> Result<Snapshot, FileError> {
    let end = bytes.iter().take(HEAD_BYTES_MAX).position(|byte| *byte == b'\n').ok_or(FileError::Foreign)?;
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| FileError::Foreign)?;
    let mut words = head.split(' ');
    if words.next() != Some(MAGIC) {
        return Err(FileError::Foreign);
    }
    let version: u32 = words.next().and_then(|word| word.parse().ok()).ok_or(FileError::Foreign)?;
    if version != VERSION {
        return Err(FileError::Version(version));
    }
    let expected = words.next().and_then(|word| word.parse().ok()).ok_or(FileError::Foreign)?;
    let crc = words.next().and_then(|word| u32::from_str_radix(word, 16).ok()).ok_or(FileError::Foreign)?;
    let body = &bytes[end + 1..];
    if body.len() != expected {
        return Err(FileError::Length { expected, found: body.len() });
    }
    let found = tutti_channel::crc32(body);
    if found != crc {
        return Err(FileError::Checksum { expected: crc, found });
    }
    serde_json::from_slice(body).map_err(|error| FileError::Contents(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::View;

    fn snapshot() -> Snapshot {
        let nodes = vec![View { omitted: 3, ..View::default() }];
        Snapshot { job: 7, command: "./a.out\n\"x\"".into(), ranks: 4, taken_ms: 1 << 40, room: None, nodes }
    }

    #[test]
    fn snapshot_file_round_trips() {
        assert_eq!(read(&write(&snapshot())), Ok(snapshot()));
    }

    #[test]
    fn snapshot_file_damage_is_one_line() {
        let bytes = write(&snapshot());
        for end in 0..bytes.len() {
            assert!(
                matches!(read(&bytes[..end]), Err(FileError::Foreign | FileError::Length { .. })),
                "{end}"
            );
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let error = read(&changed).expect_err("it was changed").to_string();
            assert!(!error.contains('\n'), "{error}");
        }
        let text = String::from_utf8(bytes).unwrap();
        for other in [1, 3] {
            let bytes = text.replacen(" 2 ", &format!(" {other} "), 1);
            assert_eq!(read(bytes.as_bytes()), Err(FileError::Version(other)));
        }
        assert_eq!(read(b"ELF\n"), Err(FileError::Foreign));
    }
}
