//! `tutti why`: why a job does not go on, or that it does.

use std::process::ExitCode;

use tutti_os::stderr::escape_control;
use tutti_snapshot::arrows;

use super::answer::OTHER_VERSION;
use super::status::{connected_jobs, suspension};
use crate::cluster::{self, Answer, JobId, JobRow, JobState, Request};
use crate::stdout;

/// Prints it.
///
/// # Errors
/// When there is no such job, or no daemon answers; a text for the user.
pub(super) fn run(job: JobId) -> Result<ExitCode, String> {
    let rows = match cluster::request(&Request::Job(job))?.0 {
        Answer::Jobs(rows) => rows,
        _ => return Err(OTHER_VERSION.into()),
    };
    let text: String =
        rows.iter().flat_map(lines).map(|line| format!("job {job} {}\n", escape_control(&line))).collect();
    Ok(stdout::print(Some(text), ""))
}

/// Lines about the state of a job: the reason first.
fn lines(row: &JobRow) -> Vec<String> {
    let mut lines = Vec::new();
    match row.state {
        JobState::Waiting => {
            lines.push(format!("waits: {}", row.waits.as_deref().unwrap_or("the scheduler looks for nodes")));
        }
        JobState::Starting => {
            let behind = if row.fill { "; a filler has only what jobs with turns leave" } else { "" };
            lines.push(format!("starts on {}{behind}", row.nodes.join(", ")));
        }
        JobState::Running => lines.extend(running(row)),
        JobState::Suspended => {
            lines.push(format!("is suspended{}: tutti resume {} lets it go on", suspension(row), row.job));
        }
        JobState::Ending => lines.push("is being ended".into()),
        JobState::Over => lines.push(format!("is over with status {}", row.status.unwrap_or(1))),
    }
    if let Some(cause) = &row.cause {
        lines.push(format!("ends: {cause}"));
    }
    lines
}

fn running(row: &JobRow) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(deadlock) = &row.deadlock {
        lines.push(format!("can never go on: {deadlock}"));
        if let Some(cycle) = arrows(row.cycle()) {
            lines.push(format!("is a cycle: {cycle}"));
        }
    }
    if !row.unfrozen.is_empty() {
        lines.push(format!("is not scheduled until {} have frozen it", row.unfrozen.join(", ")));
    }
    if lines.is_empty() && row.fill {
        lines.push("goes on as a filler: it has what jobs with turns leave of the cores".into());
    } else if lines.is_empty() && row.gang {
        if !row.connected.is_empty() {
            let jobs = connected_jobs(row);
            lines.push(format!("is connected to {jobs}: the same turns where their slots allow"));
        }
        lines.push(format!("goes on: it takes turns, {} slices so far", row.turns));
    } else if lines.is_empty() {
        lines.push("goes on: it takes no turns and runs all the time".into());
    }
    lines
}
