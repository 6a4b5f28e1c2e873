//! Rows about jobs that every user of a machine may read of the others on it: `tutti ps` shows them.
//!
//! ```text
//! daemon (a controller): listens on the abstract socket tutti-jobs/UID/PID
//! tutti ps:        connects to every such name, believes it if the kernel says that UID listens there
//! daemon:          writes its jobs as JSON, closes; it reads nothing
//! ```
//!
//! Apart from how users share the machine's time (`shell/neighbours.rs`): there a listener counts as a user,
//! here it does not.

use serde::{Deserialize, Serialize};

use crate::users::JobState;

/// How the names of the sockets begin.
pub const NAME: &str = "tutti-jobs/";
/// Environment variable of a daemon, and of the `mpiexec` that starts it: others see the arguments of its
/// jobs too.
pub const ARGUMENTS_VARIABLE: &str = "TUTTI_SHOW_ARGUMENTS";
/// Jobs of one daemon that are shown.
pub const ROWS_MAX: usize = 100;
/// Bytes of the whole list: they fit the buffer of a socket, so the daemon never waits for a reader.
pub const LIST_BYTES_MAX: usize = 64 << 10;

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicRow {
    /// Number of the job at its daemon.
    pub job: u64,
    /// User of the job; only root's daemon may report jobs of other users.
    pub uid: u32,
    /// State of the job.
    pub state: JobState,
    /// Number of its ranks.
    pub ranks: u64,
    /// Number of its nodes.
    pub nodes: u64,
    /// Since when it runs, or waits, in ms since 1970.
    pub since_ms: u64,
    /// Program that it runs, with arguments only where its owner wants that.
    pub command: String,
}

/// A command line as others see it: the program alone, without folders, unless arguments are shown.
#[must_use]
pub fn command(line: &str, with_arguments: bool) -> String {
    let program = || line.split_whitespace().next().and_then(|word| word.rsplit('/').next());
    if with_arguments { line.to_owned() } else { program().unwrap_or_default().to_owned() }
}

/// The list as it is sent: as many rows as have room.
#[must_use]
pub fn encode(mut rows: Vec<PublicRow>) -> Vec<u8> {
    rows.truncate(ROWS_MAX);
    loop {
        let bytes = serde_json::to_vec(&rows).expect("rows are serialisable");
        if bytes.len() <= LIST_BYTES_MAX {
            return bytes;
        }
        rows.truncate(rows.len() / 2);
    }
}

/// The rows of a list that the daemon of a user has sent. It is hostile: its rows about other users are
/// dropped, and the number of its own is bounded.
#[must_use]
pub fn decode(bytes: &[u8], listener: u32) -> Vec<PublicRow> {
    let rows: Vec<PublicRow> = match bytes.len() <= LIST_BYTES_MAX {
        true => serde_json::from_slice(bytes).unwrap_or_default(),
        false => Vec::new(),
    };
    rows.into_iter().filter(|row| listener == 0 || row.uid == listener).take(ROWS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(job: u64, uid: u32) -> PublicRow {
        let command = "x".repeat(60);
        PublicRow { job, uid, state: JobState::Running, ranks: 2, nodes: 1, since_ms: 5, command }
    }

    #[test]
    fn public_list_is_bounded_and_speaks_only_for_its_user() {
        let rows: Vec<PublicRow> = (0..5000).map(|job| row(job, 7)).collect();
        let bytes = encode(rows);
        assert!(bytes.len() <= LIST_BYTES_MAX);
        assert_eq!(decode(&bytes, 7).len(), ROWS_MAX);
        assert!(decode(&bytes, 8).is_empty(), "user 8 says something of user 7");
        assert_eq!(decode(&bytes, 0).len(), ROWS_MAX);
        let long = PublicRow { command: "x".repeat(LIST_BYTES_MAX), ..row(1, 7) };
        assert_eq!(encode(vec![long]), b"[]");
        assert!(decode(b"[{\"job\":1}]", 7).is_empty() && decode(b"\xff", 7).is_empty());
        assert!(decode(&vec![b' '; LIST_BYTES_MAX + 1], 7).is_empty());
    }

    #[test]
    fn public_command_hides_arguments_and_folders() {
        assert_eq!(command("/home/a/bin/solve --key=secret", false), "solve");
        assert_eq!(command("./solve 3", true), "./solve 3");
        assert_eq!(command("", false), "");
    }
}
