//! Questions of the commands to the daemon of this node, and jobs by the names that users give them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::UNIX_EPOCH;

use tutti_client::history;
use tutti_client::requests::{self, Answer, Control, JobId, NodeRow, NotDone, Request, Submit, SubmitError};

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

/// Jobs that are not steps, by number; and the steps. What stands for an array is none of them: its elements
/// are.
///
/// # Errors
/// When no daemon answers; a text for the user.
pub fn jobs() -> Result<(Vec<Job>, Vec<Job>), String> {
    Ok(parted(rows(true)?))
}

/// The same without those that are over: of these a daemon may know thousands.
///
/// # Errors
/// When no daemon answers; a text for the user.
pub fn open_jobs() -> Result<(Vec<Job>, Vec<Job>), String> {
    Ok(parted(rows(false)?))
}

/// The same with those that the daemon knows no more and the log of this node has.
///
/// # Errors
/// When no daemon answers; a text for the user.
pub fn jobs_with_past() -> Result<(Vec<Job>, Vec<Job>), String> {
    let mut rows = rows(true)?;
    let known: BTreeSet<JobId> = rows.iter().map(|row| row.job).collect();
    rows.extend(history::of_node(false).into_iter().filter(|row| !known.contains(&row.job)));
    rows.sort_by_key(|row| row.job);
    Ok(parted(rows))
}

fn parted(rows: Vec<requests::JobRow>) -> (Vec<Job>, Vec<Job>) {
    let newest = newest(&rows);
    let is_newest = |row: &requests::JobRow| newest.get(&first(row)).is_none_or(|job| *job == row.job);
    let rows = rows.into_iter().filter(|row| row.array().is_none());
    let jobs = rows.filter(|row| row.owner().is_some() || is_newest(row)).map(Job::of);
    jobs.partition(|job| job.row.owner().is_none())
}

/// A requeued job has the number of the first of those whose place it takes.
fn first(row: &requests::JobRow) -> JobId {
    row.restart().map_or(row.job, |restart| restart.first)
}

/// Of jobs that were requeued the last one, by the first one's number.
fn newest(rows: &[requests::JobRow]) -> BTreeMap<JobId, JobId> {
    let mut newest: BTreeMap<JobId, (u32, JobId)> = BTreeMap::new();
    for row in rows {
        if let Some(restart) = row.restart() {
            let known = newest.entry(restart.first).or_insert((restart.count, row.job));
            *known = (*known).max((restart.count, row.job));
        }
    }
    newest.into_iter().map(|(first, (_, job))| (first, job)).collect()
}

/// Target of a user's command: the job, or the whole array where it is named without elements.
#[must_use]
pub fn target(name: &NamedJob, found: &[&Job]) -> Option<JobId> {
    let is_whole = name.tasks.is_none() && name.step.is_none();
    let of_array = |job: &&&Job| job.element().is_some_and(|element| element.job == name.job);
    found.iter().find(of_array).filter(|_| is_whole).map(|_| JobId(name.job))
}

fn rows(all: bool) -> Result<Vec<requests::JobRow>, String> {
    match ask(&Request::Jobs { all })? {
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

/// Slurm's words about a job of another user.
const NOT_PERMITTED: &str = "Access/permission denied";
/// The daemon speaks otherwise.
pub const OTHER_VERSION: &str = "the daemon is of another version";

/// Asks; an answer that refuses is an error.
///
/// # Errors
/// When no daemon answers, or it refuses; a text for the user.
pub fn ask(request: &Request) -> Result<Answer, String> {
    let answer = requests::request_if_running_with(request, &mut |_| {})?;
    answer.ok_or_else(no_daemon)
}

/// Line about what was refused: the daemon's, or Slurm's words where the job is another user's.
#[must_use]
pub fn refusal(refused: NotDone) -> String {
    if refused.is_of_another { NOT_PERMITTED.into() } else { refused.text }
}

/// Submits a job.
///
/// # Errors
/// As [`ask`].
pub fn submit(submit: Submit) -> Result<Answer, String> {
    requests::submit(submit, &mut |_| {}).map_err(|error| match error {
        SubmitError::NoDaemon(_) => no_daemon(),
        SubmitError::Failed(text) => text,
    })
}

/// Does something to a job.
///
/// # Errors
/// When no daemon answers, or it refuses.
pub fn control(job: JobId, control: Control) -> Result<(), NotDone> {
    ask_of_job(&Request::Control(job, control))
}

/// Asks for something to be done to a job.
///
/// # Errors
/// The same.
pub fn ask_of_job(request: &Request) -> Result<(), NotDone> {
    let none = || NotDone { text: no_daemon(), is_of_another: false };
    requests::request_of_job(request)?.map(drop).ok_or_else(none)
}

fn no_daemon() -> String {
    format!("{NO_CONTROLLER}: `tutti up` starts a cluster")
}

/// Jobs of a name.
pub fn named<'a>(jobs: &'a [Job], name: &NamedJob) -> std::vec::IntoIter<&'a Job> {
    let is_meant = |job: &&Job| {
        let is_of_tasks = |task: u32| name.tasks.as_ref().is_none_or(|tasks| tasks.contains(&task));
        match job.element() {
            Some(element) if element.job == name.job => is_of_tasks(element.task),
            _ => [job.number(), job.row.job.0].contains(&name.job) && name.tasks.is_none(),
        }
    };
    jobs.iter().filter(is_meant).collect::<Vec<_>>().into_iter()
}
