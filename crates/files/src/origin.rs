//! Where the server of a job's files is, and how both sides know each other: what `TUTTI_ORIGIN` says to the
//! starters and ranks of the job. It travels with the job's environment, which the user's processes alone can
//! read.

use std::ffi::OsStr;
use std::fmt;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::frames::Secret;

/// The variable.
pub const VARIABLE: &str = "TUTTI_ORIGIN";

/// The way to the files.
#[derive(Clone, PartialEq, Eq)]
pub struct Origin {
    /// By it the server knows its clients.
    pub client_key: Secret,
    /// By it they know the server.
    pub server_proof: Secret,
    /// Where it listens.
    pub address: SocketAddr,
    /// Working directory of the job.
    pub directory: PathBuf,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Origin at {} of {}", self.address, self.directory.display())
    }
}

impl Origin {
    /// Of this process's environment; none: the job has none.
    pub fn of_environment() -> Option<Self> {
        std::env::var_os(VARIABLE).and_then(|text| Origin::parse(&text))
    }

    /// The value of the variable.
    pub fn text(&self) -> Vec<u8> {
        let mut out =
            format!("{},{},{},", hex(&self.client_key), hex(&self.server_proof), self.address).into_bytes();
        out.extend_from_slice(self.directory.as_os_str().as_bytes());
        out
    }

    /// Reads it.
    pub fn parse(text: &OsStr) -> Option<Self> {
        let mut parts = text.as_bytes().splitn(4, |byte| *byte == b',');
        let (key, proof) = (of_hex(parts.next()?)?, of_hex(parts.next()?)?);
        let address = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
        let directory = Path::new(OsStr::from_bytes(parts.next()?));
        directory.is_absolute().then(|| Origin {
            client_key: key,
            server_proof: proof,
            address,
            directory: directory.into(),
        })
    }
}

fn hex(secret: &Secret) -> String {
    secret.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn of_hex(text: &[u8]) -> Option<Secret> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 32 && text.is_ascii())?;
    let mut secret = [0; 16];
    for (at, byte) in secret.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(secret)
}

/// Whether two secrets are the same; how long this takes says nothing.
pub(crate) fn is_same(one: &Secret, other: &Secret) -> bool {
    one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_is_read_as_it_was_written() {
        let address = "10.0.0.1:99".parse().expect("an address");
        let origin =
            Origin { client_key: [0xa5; 16], server_proof: [7; 16], address, directory: "/home/a, b".into() };
        assert_eq!(Origin::parse(OsStr::from_bytes(&origin.text())), Some(origin));
        for wrong in ["", ",,,", "zz,zz,10.0.0.1:1,/x", "é"] {
            assert_eq!(Origin::parse(OsStr::new(wrong)), None);
        }
    }
}
