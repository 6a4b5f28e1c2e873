//! Why there is no lab, or why it does not do something: one line each.

use std::path::{Path, PathBuf};

/// Why there is no lab, or why it did not do something.
#[derive(Debug)]
pub enum LabError {
    /// Making namespaces is not allowed to this user.
    NotAllowed {
        /// The kernel's answer.
        error: String,
    },
    /// No /dev/net/tun for us.
    Tun {
        /// The kernel's answer.
        error: std::io::Error,
    },
    /// The machine is too small.
    Memory {
        /// Machines asked for.
        nodes: u32,
        /// Memory that they need, about.
        needed_mib: u64,
        /// Memory that is there.
        free_mib: u64,
    },
    /// Too many machines, or none.
    Count {
        /// Asked for.
        nodes: u32,
        /// Most that there may be.
        most: u32,
    },
    /// Failure to come up.
    Start(String),
    /// The keeper does not answer.
    Gone {
        /// The lab's folder.
        folder: PathBuf,
        /// Error that occurred.
        error: std::io::Error,
    },
    /// The keeper refuses.
    Refused(String),
    /// A machine that is off.
    Off {
        /// Folder of the machine.
        machine: PathBuf,
        /// Error that occurred.
        error: std::io::Error,
    },
    /// A machine that cannot be entered.
    Enter {
        /// Folder of the machine.
        machine: PathBuf,
        /// Error that occurred.
        error: std::io::Error,
    },
    /// No such user.
    NoUser {
        /// As given.
        name: String,
    },
    /// Daemons that did not become a cluster.
    Cluster(String),
}

impl std::fmt::Display for LabError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = |folder: &Path| folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match self {
            LabError::NotAllowed { error } => {
                write!(
                    f,
                    "this user may not make namespaces ({error}): run it as root, or allow user namespaces"
                )
            }
            LabError::Tun { error } => write!(
                f,
                "cables with loss, duplication, reordering, a delay or a rate need /dev/net/tun ({error}); plain cables do not"
            ),
            LabError::Memory { nodes, needed_mib, free_mib } => write!(
                f,
                "{nodes} machines need about {needed_mib} MiB of memory, and {free_mib} MiB are free: take fewer"
            ),
            LabError::Count { nodes, most } => write!(f, "a lab has 1 to {most} machines, not {nodes}"),
            LabError::Start(line) | LabError::Refused(line) | LabError::Cluster(line) => f.write_str(line),
            LabError::Gone { folder, error } => {
                write!(f, "the keeper of lab {} does not answer: {error}", name(folder))
            }
            LabError::Off { machine, error } => {
                write!(f, "{} is off ({error}): tutti-lab boot starts it", name(machine))
            }
            LabError::Enter { machine, error } => write!(f, "cannot enter {}: {error}", name(machine)),
            LabError::NoUser { name } => {
                write!(
                    f,
                    "the machines have no user {name}: they have root, and in a lab of root's alice and bob"
                )
            }
        }
    }
}

impl std::error::Error for LabError {}
