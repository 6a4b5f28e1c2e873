//! What the commands ask the daemon of this node, and jobs by the names that users give them.

use std::time::UNIX_EPOCH;

use tutti_client::requests::{self, Answer, Control, JobId, NodeRow, Request};

use crate::forms::NamedJob;
use crate::view::Job;

/// The line of Slurm's commands where no controller answers.
pub const NO_CONTROLLER: &str = "Unable to contact slurm controller (connect failure)";
/// The line about a job that there is not.
pub const NO_JOB: &str = "Invalid job id specified";

/// Now, in ms since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64)
}

/// Jobs that are not steps, by number; and the steps.
///
/// # Errors
/// When no daemon answers; a text for the user.
pub fn jobs() -> Result<(Vec<Job>, Vec<Job>), String> {
    let all: Vec<Job> = rows()?.into_iter().map(Job::of).collect();
    Ok(all.into_iter().partition(|job| job.row.owner().is_none()))
}

fn rows() -> Result<Vec<requests::JobRow>, String> {
    match ask(&Request::Jobs { all: true })? {
        Answer::Jobs(mut rows) => {
            rows.sort_by_key(|row| row.job);
            Ok(rows)
        }
        _ => Err(OTHER_VERSION.into()),
    }
}

/// The nodes.
///
/// # Errors
/// When no daemon answers; a text for the user.
pub fn nodes() -> Result<Vec<NodeRow>, String> {
    match ask(&Request::Nodes)? {
        Answer::Nodes(rows) => Ok(rows),
        _ => Err(OTHER_VERSION.into()),
    }
}

/// The daemon speaks otherwise.
pub const OTHER_VERSION: &str = "the daemon is of another version";

/// Asks; an answer that refuses is an error.
///
/// # Errors
/// When no daemon answers, or it refuses; a text for the user.
pub fn ask(request: &Request) -> Result<Answer, String> {
    let answer = requests::request_if_running_with(request, &mut |_| {})?;
    answer.ok_or_else(|| format!("{NO_CONTROLLER}: `tutti up` starts a cluster"))
}

/// Does something to a job.
///
/// # Errors
/// When no daemon answers, or it refuses; a text for the user.
pub fn control(job: JobId, control: Control) -> Result<(), String> {
    ask(&Request::Control(job, control)).map(drop)
}

/// Jobs of a name.
pub fn named<'a>(jobs: &'a [Job], name: &NamedJob) -> std::vec::IntoIter<&'a Job> {
    let is_meant = |job: &&Job| {
        let is_of_tasks = |task: u32| name.tasks.as_ref().is_none_or(|tasks| tasks.contains(&task));
        match job.element() {
            Some(element) if element.job == name.job => is_of_tasks(element.task),
            _ => job.row.job.0 == name.job && name.tasks.is_none(),
        }
    };
    jobs.iter().filter(is_meant).collect::<Vec<_>>().into_iter()
}
