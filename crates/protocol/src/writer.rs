//! Messages between a daemon and the writer of a job's output files, as JSON in frames of the wire.

use serde::{Deserialize, Serialize};

use crate::wire::Text;

/// The first message to a writer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// The identity that it is to take; none: it has it already.
    pub identity: Option<Identity>,
    /// Whether its stdout is to be locked.
    pub locks: bool,
    /// File mode creation mask of the writer.
    pub umask: u32,
    /// The folder in which relative names are.
    pub directory: Text,
    /// The files, by number.
    pub files: Vec<Text>,
    /// Whether they begin empty. Otherwise what is in them stays.
    pub truncate: bool,
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Other groups.
    pub groups: Vec<u32>,
}

/// The answer to [`Open`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opened {
    /// The files are there.
    Ready {
        /// Lengths of the files, by number; none: it has none, as a terminal or a pipe.
        lengths: Vec<Option<u64>>,
        /// Number of the first one in its file system.
        inode: u64,
    },
    /// One is not; a line for the user.
    Refused(String),
}

/// State of the frames in front of a Flush.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Bytes that are in their files, from the first on.
    pub bytes: u64,
    /// Why the next one is not; a line for the user.
    pub error: Option<String>,
    /// Lengths of those that were written to.
    pub lengths: Vec<(u32, u64)>,
}
