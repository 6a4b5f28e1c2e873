//! Why there is no daemon.

use std::io;
use std::path::PathBuf;

use crate::key::KeyError;

/// Why there is no daemon. Each is one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// The kernel refused something.
    #[error("cannot {action}: {source}")]
    System {
        /// Action that was tried.
        action: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// No credential.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The cluster does not want this daemon.
    #[error("{0}")]
    Refused(String),
    /// Another one lives here.
    #[error("a daemon is running at {} already", .0.display())]
    Taken(PathBuf),
    /// Another one keeps its jobs and history in the same files.
    #[error("another daemon of this node's name{holder} has its state in {}; --state or TUTTI_STATE names another folder", folder.display())]
    StateTaken {
        /// Folder of the files.
        folder: PathBuf,
        /// Process that has them, in parentheses, if that is known.
        holder: String,
    },
    /// Another controller writes the same logs.
    #[error("the controller of another cluster{holder} has its logs in {}; --state or TUTTI_STATE names another folder", folder.display())]
    LogsTaken {
        /// Folder of the logs.
        folder: PathBuf,
        /// Process that has them, in parentheses, if that is known.
        holder: String,
    },
}

/// Makes the error of an action, of what was tried and the kernel's answer.
pub(super) fn failed(action: impl Into<String>) -> impl FnOnce(io::Error) -> ShellError {
    let action = action.into();
    move |source| ShellError::System { action, source }
}
