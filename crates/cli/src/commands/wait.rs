//! `tutti wait`: until jobs are over.

use std::process::ExitCode;

use tutti_client::history;
use tutti_client::job_name::JobName;
use tutti_os::stderr::print_line;

use crate::cluster;

/// Exit status of `tutti wait` for a job whose status is not known, as `wait` of shells has it.
const UNKNOWN_STATUS: u8 = 127;

/// Waits for all of them; the first status in their order that is not 0. One whose status neither a daemon
/// nor the log knows gets a line, and counts as [`UNKNOWN_STATUS`].
pub(super) fn run(jobs: &[JobName]) -> ExitCode {
    let from_log = |job| history::of_job(job, false)?.status;
    let status_of = |name: &JobName| {
        let job = name.resolve()?;
        match cluster::wait_for(job) {
            Ok(status) => status
                .or_else(|| from_log(job))
                .ok_or_else(|| format!("the status of job {name} is not known")),
            Err(text) => from_log(job).ok_or(text),
        }
    };
    let statuses = jobs.iter().map(|name| {
        status_of(name).unwrap_or_else(|text| {
            print_line(format_args!("tutti wait: {text}"));
            UNKNOWN_STATUS
        })
    });
    let statuses: Vec<u8> = statuses.collect();
    ExitCode::from(statuses.into_iter().find(|status| *status != 0).unwrap_or(0))
}
