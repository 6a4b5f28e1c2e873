//! Settings of a configuration, and where each value comes from, for people.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// Default, where no flag, file or variable says anything.
    Default,
    /// A flag of the daemon.
    Flag(String),
    /// A line of the file.
    File(String, u32),
    /// An environment variable.
    Environment(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::Flag(flag) => write!(f, "--{}", flag.replace('_', "-")),
            Source::File(path, line) => write!(f, "{path}:{line}"),
            Source::Environment(name) => f.write_str(name),
        }
    }
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Section and name of the key, as `cluster.slice`.
    pub key: String,
    /// Value that holds, as it is written in the file; of a default the words for it.
    pub value: String,
    /// Where that comes from.
    pub source: Source,
}

/// The version of a configuration: a number of its text. Two that say the same have one version; 0 is none.
#[must_use]
pub fn version(text: &str) -> u64 {
    if text.is_empty() {
        return 0;
    }
    // FNV-1a.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // 32 bits for people to compare.
    u64::from((hash ^ (hash >> 32)) as u32).max(1)
}

/// A version as people read it.
#[must_use]
pub fn version_text(version: u64) -> String {
    if version == 0 { "-".into() } else { format!("{version:08x}") }
}
