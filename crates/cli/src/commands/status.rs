//! `tutti status`: all that is known of a job.

use std::process::ExitCode;

use tutti_client::moments::instant;
use tutti_client::{history, states, users};
use tutti_os::stderr::escape_control;
use tutti_protocol::users::SuspendedBy;
use tutti_protocol::{size, time_limit};
use tutti_snapshot::arrows;

use super::answer::show;
use super::jobs::{by, duration};
use crate::cluster::{self, FoundJob, JobId, JobRow};
use crate::output;

/// A job that the daemon knows, else one of the log.
pub(super) fn run(job: JobId, json: bool) -> Result<ExitCode, String> {
    let found = cluster::find_job(job);
    if let Ok(FoundJob::Known(rows)) = &found {
        return show(rows, json, print_status);
    }
    let rows: Vec<JobRow> = history::of_job(job, found == Ok(FoundJob::NoDaemon)).into_iter().collect();
    match found {
        _ if !rows.is_empty() => show(&rows, json, print_status),
        Ok(FoundJob::Forgotten) => Err(format!("job {job} is over, and the log does not have it any more")),
        Ok(_) => Err(format!("there is no job {job} in the log, and no daemon to ask")),
        Err(text) => Err(text),
    }
}

fn print_status(rows: &[JobRow]) -> String {
    let mut text = String::new();
    for row in rows {
        text.push_str(&format!("job      {}\n", row.job));
        if !row.name.is_empty() {
            text.push_str(&format!("name     {}\n", escape_control(&row.name)));
        }
        text.push_str(&format!("state    {}{}\n", states::of(row), suspension(row)));
        if let Some(status) = row.status {
            text.push_str(&format!("status   {status}\n"));
        }
        if let Some(end) = row.end() {
            text.push_str(&format!("end by   {end}\n"));
        }
        if let Some(cause) = &row.cause {
            text.push_str(&format!("cause    {}\n", escape_control(cause)));
        }
        text.push_str(&format!(
            "command  {}\nuser     {}\nranks    {}\ntime     {}{}\n",
            row.command,
            users::name(row.uid),
            row.ranks,
            duration(row),
            row.limit_ms
                .map_or_else(String::new, |limit_ms| format!(" of {}", time_limit::text_ms(limit_ms)))
        ));
        if let Some(started_ms) = row.started_ms {
            text.push_str(&format!("start    {}\n", instant(started_ms)));
        }
        if let Some(ended_ms) = row.ended_ms {
            text.push_str(&format!("end      {}\n", instant(ended_ms)));
        }
        if let Some(used) = history::used().get(&row.job) {
            let largest = size::text(used.largest_bytes);
            text.push_str(&format!(
                "used     {} s of processors, largest process {largest}\n",
                used.cpu_us as f64 / 1e6
            ));
        }
        if let Some(why) = &row.waits {
            text.push_str(&format!("waits    {}\n", escape_control(why)));
        }
        if let Some(restart) = row.restart() {
            text.push_str(&format!("requeued {} times, first job {}\n", restart.count, restart.first));
        }
        if let Some(begin_ms) = row.begins_ms() {
            text.push_str(&format!("begin    not before {}\n", instant(begin_ms)));
        }
        if let Some(array) = row.array() {
            text.push_str(&format!("array    {array}\n"));
        }
        if let Some(task) = row.array_task() {
            text.push_str(&format!("array    {}, task {}\n", task.array, task.task));
        }
        if let Some(line) = row.part_in_script() {
            text.push_str(&format!("{line}\n"));
        }
        if !row.connected.is_empty() {
            let jobs = connected_jobs(row);
            text.push_str(&format!(
                "with     {jobs}, connected to it: the same turns where their slots allow\n"
            ));
        }
        if !row.unfrozen.is_empty() {
            text.push_str(&format!("frozen   not yet on {}\n", row.unfrozen.join(", ")));
        }
        if let Some(deadlock) = &row.deadlock {
            text.push_str(&format!("deadlock {}\n", escape_control(deadlock)));
            if let Some(cycle) = arrows(row.cycle()) {
                text.push_str(&format!("cycle    {cycle}\n"));
            }
        }
        text.push_str(&format!("nodes    {}\n", row.nodes.join(" ")));
        for library in row.libraries() {
            text.push_str(&format!("library  {library}\n"));
        }
        for name in &row.output {
            text.push_str(&format!("output   {} on {}\n", escape_control(&output::shown(name)), row.origin));
        }
        if let Some(lost) = lost(row) {
            text.push_str(&format!("lost     {}\n", escape_control(&lost)));
        }
        if row.exclusive {
            text.push_str("alone    yes: no other job has ranks on its nodes\n");
        }
        if row.memory_bytes > 0 {
            let held = match row.limits_memory {
                _ if row.nodes.is_empty() => "",
                true => ", enforced",
                false => ", counted only",
            };
            text.push_str(&format!("memory   {} on each node{held}\n", size::text(row.memory_bytes)));
        }
        if row.gpus() > 0 {
            text.push_str(&format!("gpus     {} on each node\n", row.gpus()));
        }
        if row.gang {
            text.push_str(&format!("weight   {}\nslices   {}\n", row.weight, row.turns));
            if row.fill {
                text.push_str("fills    it has what jobs that are no fillers leave (--fill)\n");
                for (node, put_out) in &row.put_out {
                    text.push_str(&format!("fills    not on {node}: {put_out}\n"));
                }
            }
        } else {
            text.push_str("turns    none: it runs all the time\n");
        }
        for (node, means) in &row.held_by {
            text.push_str(&format!("turns    {node}: {}\n", by(*means)));
        }
        for (node, pids) in &row.pids {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            text.push_str(&format!("pids     {node}: {}\n", pids.join(" ")));
        }
    }
    text
}

/// The jobs that it is connected to.
pub(super) fn connected_jobs(row: &JobRow) -> String {
    let jobs: Vec<String> = row.connected.iter().map(|job| format!("job {job}")).collect();
    jobs.join(", ")
}

/// Since when a job is suspended, and by which user.
pub(super) fn suspension(row: &JobRow) -> String {
    let Some(suspended) = &row.suspended else { return String::new() };
    let by = match suspended.why {
        SuspendedBy::User => users::name(suspended.uid),
        SuspendedBy::Deadlock => "--on-deadlock suspend".into(),
        SuspendedBy::Idle => "--on-idle suspend".into(),
    };
    format!(" since {} by {by}", instant(suspended.since_ms))
}

/// Number of bytes of a job's output that are in no file, and why.
pub(super) fn lost(row: &JobRow) -> Option<String> {
    let state = &row.output_state;
    let why = state.refused.as_ref().or(state.trouble.as_ref()).filter(|_| state.lost_bytes > 0)?;
    Some(format!("{} bytes of the output are in no file: {why}", state.lost_bytes))
}
