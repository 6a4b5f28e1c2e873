//! `tutti snapshot`: the state of all channels of a job, written to a file and printed.
//!
//! The ranks are frozen on all nodes for as long as it takes; the cluster does that (the daemon's `core`).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tutti_protocol::wire::Kind;
use tutti_snapshot::Snapshot;

use crate::cluster::{self, Answer, JobId, Request};
use crate::{file, stdout};

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
            let bytes =
                std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            tutti_snapshot::read(&bytes).map_err(|error| format!("{}: {error}", file.display()))?
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
