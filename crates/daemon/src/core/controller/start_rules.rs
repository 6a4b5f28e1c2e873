//! Conditions of a job's start besides the ends of others: a time (`--begin`), no earlier job of its name
//! (`--after-same-name`), no ranks on some nodes (`--exclude`).
//!
//! The first two keep the job from the scheduler, with a line that says why. The nodes that it is not to have
//! are in what the scheduler is asked for.

use tutti_protocol::batch::{EXCLUDED_MAX, StartRules};
use tutti_protocol::mail::Mail;
use tutti_protocol::wait_kind::WaitKind;

use super::job::JobRecord;
use super::jobs::Jobs;
use crate::core::local::LocalNode;
use crate::message::{JobId, Submit};

/// Refuses rules that contradict the rest of a submission.
///
/// # Errors
/// A text for the user.
pub(super) fn check(submit: &Submit) -> Result<(), String> {
    let rules: &StartRules = submit.batch.rules();
    if rules.behind_same_name && submit.batch.name.trim().is_empty() {
        return Err("--after-same-name: the job has no name: --name NAME".into());
    }
    if rules.excluded.len() > EXCLUDED_MAX {
        return Err(format!("--exclude: {EXCLUDED_MAX} nodes at most"));
    }
    let to = &submit.batch.mail().to;
    if !to.is_empty() && !Mail::is_address(to) {
        return Err("--mail-user: an address is one word of letters, digits and . _ + - @ % =".into());
    }
    if let Some(warning) = submit.batch.warning() {
        if submit.batch.limit().is_none() {
            return Err("--signal: the job has no time limit: --time LIMIT".into());
        }
        if !(1..=64).contains(&warning.signal) {
            return Err(format!("--signal: {} is not a signal", warning.signal));
        }
    }
    Ok(())
}

/// Why a job's rules keep it from the scheduler.
pub(super) fn rule_text(jobs: &Jobs, local: &LocalNode, id: JobId) -> Option<(WaitKind, String)> {
    let job = jobs.get(id)?;
    let rules = job.launch.batch.rules();
    if rules.begin_ms.is_some_and(|begin_ms| local.wall_ms < begin_ms) {
        return Some((WaitKind::Begin, "until its time to begin (--begin)".into()));
    }
    let other = rules.behind_same_name.then(|| namesake(jobs, id, job)).flatten()?;
    let text = format!("until job {other}, which has the same name, is over (--after-same-name)");
    Some((WaitKind::Dependency, text))
}

/// An earlier job of the same user and name that is not over. The other tasks of its array do not count. A
/// job that begins anew is as early as the first whose place it takes: others may wait for it.
fn namesake(jobs: &Jobs, id: JobId, job: &JobRecord) -> Option<JobId> {
    let (user, name, array) = (job.launch.user.uid, &job.launch.batch.name, job.array_id());
    let is_of_array = |other: JobId, record: &JobRecord| {
        array.is_some_and(|array| array == other || record.array_id() == Some(array))
    };
    let is_one = |(other, record): &(&JobId, &JobRecord)| {
        let launch = &record.launch;
        let is_same = launch.user.uid == user && launch.batch.name == *name && launch.steps.owner.is_none();
        let is_earlier = place(**other, record) < place(id, job);
        is_earlier && is_same && !record.is_over() && !is_of_array(**other, record)
    };
    jobs.records.iter().find(is_one).map(|(other, _)| *other)
}

/// Place of a job in the order of all: the number of the first whose place it takes, and its own.
fn place(id: JobId, job: &JobRecord) -> (JobId, JobId) {
    (job.launch.batch.restart().map_or(id, |restart| restart.first), id)
}
