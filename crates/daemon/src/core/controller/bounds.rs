//! Bounds of what the controller holds of a user: his jobs that are not over, with all that he has said of
//! them, have room up to a bound.
//!
//! | what | at most |
//! |---|---|
//! | jobs of a user | [`USER_JOBS_MAX`] |
//! | what he has said of them: arguments, variables, names, each different environment once | [`USER_BYTES_MAX`] |
//! | a name of a folder or a file | [`NAME_BYTES_MAX`] |
//! | keys and values that a user's jobs on several nodes have put over PMI | [`USER_PUTS_BYTES_MAX`] |
//! | a line of refusal; why a job that is over has ended | [`REFUSAL_BYTES_MAX`], [`JobRecord::shed`] |
//!
//! Files of jobs that wait have each environment once too, so they have the same bound, about.
//!
//! A job that is over keeps what the list shows ([`JobRecord::shed`]), and there are so many of them at most.

use std::collections::BTreeMap;

use tutti_protocol::users::Submit;

use super::job::JobRecord;
use crate::message::{Environments, JobId, Launch};

/// Ten arrays of 1000 tasks, and some beside them.
const USER_JOBS_MAX: usize = 12_000;
/// In memory, beside what every job takes and [`JOB_FREE_BYTES`].
const USER_BYTES_MAX: usize = 16 << 20;
/// Bytes that each job may say uncounted: a task of an array of `sbatch` says a little more.
const JOB_FREE_BYTES: usize = 1 << 10;
/// Two jobs that have put all they may. A simulation reaches less.
const USER_PUTS_BYTES_MAX: usize = if cfg!(test) { 3 << 20 } else { 64 << 20 };
/// Bytes of the name of a folder or a file, at most: the kernel takes no longer ones.
const NAME_BYTES_MAX: usize = 4095;
/// A refusal may name what a user has said.
pub(super) const REFUSAL_BYTES_MAX: usize = 1 << 10;
/// Refuses names of folders and files that no kernel takes.
///
/// # Errors
/// Where one is too long: a text for the user.
pub(super) fn check_names(submit: &Submit) -> Result<(), String> {
    let programs = submit.job.programs.iter();
    let programs = programs.flat_map(|program| [&program.file].into_iter().chain(&program.directory));
    let files = submit.output.iter().flat_map(|output| [&output.out, &output.errors]).flatten();
    let mut names = [&submit.directory].into_iter().chain(programs).chain(files);
    match names.find(|name| name.as_bytes().len() > NAME_BYTES_MAX) {
        None => Ok(()),
        Some(name) => Err(format!(
            "the name of a folder or a file has {} bytes: {NAME_BYTES_MAX} are possible at most",
            name.as_bytes().len()
        )),
    }
}

/// Room for further jobs of its user beside these.
///
/// # Errors
/// When it has not: a text for the user.
pub(super) fn check_room<'a>(
    jobs: impl Iterator<Item = &'a JobRecord>,
    launch: &Launch,
    more: usize,
) -> Result<(), String> {
    let account = launch.user.account().uid;
    let open = |job: &&JobRecord| job.launch.user.account().uid == account;
    let jobs: Vec<&JobRecord> = jobs.filter(open).collect();
    if jobs.len() + more > USER_JOBS_MAX {
        return Err(format!(
            "you have {} jobs that are not over, and may have {USER_JOBS_MAX}: wait until some are over",
            jobs.len()
        ));
    }
    let new = || std::iter::repeat_n(launch, more);
    let all = || jobs.iter().map(|job| &*job.launch).chain(new());
    let environments = Environments::bytes_of(all().map(|launch| &launch.environment));
    let counted = |launch: &Launch| launch.said_bytes().saturating_sub(JOB_FREE_BYTES);
    if environments + all().map(counted).sum::<usize>() > USER_BYTES_MAX {
        let mib = USER_BYTES_MAX >> 20;
        return Err(format!(
            "your {} jobs that are not over hold {mib} MiB of arguments and environments: wait until some are over",
            jobs.len()
        ));
    }
    Ok(())
}

/// Bytes that the other jobs of a job's user leave to what its ranks have put over PMI.
pub(super) fn room_for_puts(jobs: &BTreeMap<JobId, JobRecord>, id: JobId) -> usize {
    let account = |job: &JobRecord| job.launch.user.account().uid;
    let Some(of_job) = jobs.get(&id).map(account) else { return 0 };
    let others = jobs.iter().filter(|(other, job)| **other != id && account(job) == of_job);
    USER_PUTS_BYTES_MAX.saturating_sub(others.map(|(_, job)| job.order.fence.puts.len()).sum())
}
