//! `tutti snapshot`: the state of all channels of a job, written to a file and printed.
//!
//! The ranks are frozen on all nodes for as long as it takes; the cluster does that (the daemon's `core`).

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tutti_os::stderr::escape_control;
use tutti_protocol::wire::Kind;
use tutti_snapshot::Snapshot;

use crate::cluster::{self, Answer, JobId, Request};
use crate::{file, stdout};

/// Bytes of a file, at most: the views of a job have 48 MiB as the daemons send them.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The options of the command.
#[derive(Debug, Args)]
pub struct Options {
    /// Number of the job
    #[arg(required_unless_present = "show")]
    job: Option<u64>,
    /// Write it to a file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one that was written
    #[arg(long, value_name = "FILE", conflicts_with_all = ["job", "output"])]
    show: Option<PathBuf>,
    /// For scripts
    #[arg(long)]
    json: bool,
    /// The wait-for graph, for Graphviz
    #[arg(long, conflicts_with = "json")]
    dot: bool,
}

/// Runs the command.
///
/// # Errors
/// A line for the user.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    let snapshot = match (&options.show, options.job) {
        (Some(file), _) => {
            let bytes = read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            tutti_snapshot::read(&bytes)
                .map_err(|error| format!("{}: {}", file.display(), escape_control(&error.to_string())))?
        }
        (None, Some(job)) => take(JobId(job))?,
        (None, None) => return Err("which job?".into()),
    };
    if let Some(file_name) = &options.output {
        file::write(file_name, &tutti_snapshot::write(&snapshot))?;
    }
    let text = if options.json {
        serde_json::to_string_pretty(&snapshot).expect("snapshots are serialisable") + "\n"
    } else if options.dot {
        snapshot.dot()
    } else {
        snapshot.text()
    };
    Ok(stdout::print(Some(text), ""))
}

/// The bytes of a file, which may be another user's. A descriptor that the shell has opened may be a pipe.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    if file::is_descriptor(path) {
        return tutti_os::read_all(File::open(path)?, FILE_BYTES_MAX);
    }
    tutti_os::read_file(path, FILE_BYTES_MAX)
}

fn take(job: JobId) -> Result<Snapshot, String> {
    let (answer, mut frames) = cluster::request(&Request::Snapshot(job))?;
    if answer != Answer::Done {
        return Err("the daemon is of another version".into());
    }
    let mut text = Vec::new();
    while let Some((head, payload)) = frames.next_frame()? {
        if head.kind == Kind::Output {
            text.extend(payload);
        }
    }
    serde_json::from_slice(&text).map_err(|error| format!("the daemon is of another version: {error}"))
}
