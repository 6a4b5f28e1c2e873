//! `tutti status`: all that is known of a job.

use std::fmt::Display;
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

/// The lines of a job: a word in nine columns, and what there is.
#[derive(Default)]
struct Sheet(String);

impl Sheet {
    fn line(&mut self, word: &str, value: impl Display) {
        self.0 += &format!("{word:<8} {value}\n");
    }

    fn lines<T: Display>(&mut self, word: &str, values: impl IntoIterator<Item = T>) {
        values.into_iter().for_each(|value| self.line(word, value));
    }
}

fn print_status(rows: &[JobRow]) -> String {
    let mut sheet = Sheet::default();
    for row in rows {
        put_state(&mut sheet, row);
        put_start(&mut sheet, row);
        put_output(&mut sheet, row);
        put_terms(&mut sheet, row);
    }
    sheet.0
}

/// Subject and state of the job.
fn put_state(sheet: &mut Sheet, row: &JobRow) {
    sheet.line("job", row.job);
    sheet.lines("name", Some(escape_control(&row.name)).filter(|name| !name.is_empty()));
    sheet.line("state", format_args!("{}{}", states::of(row), suspension(row)));
    sheet.lines("status", row.status);
    sheet.lines("end by", row.end());
    sheet.lines("cause", row.cause.as_deref().map(escape_control));
    sheet.line("command", &row.command);
    sheet.line("user", users::name(row.uid));
    sheet.line("ranks", row.ranks);
    let limit = row.limit_ms.map_or_else(String::new, |ms| format!(" of {}", time_limit::text_ms(ms)));
    sheet.line("time", format_args!("{}{limit}", duration(row)));
    sheet.lines("start", row.started_ms.map(instant));
    sheet.lines("end", row.ended_ms.map(instant));
    if let Some(used) = history::used().get(&row.job) {
        let (seconds, largest) = (used.cpu_us as f64 / 1e6, size::text(used.largest_bytes));
        sheet.line("used", format_args!("{seconds} s of processors, largest process {largest}"));
    }
}

/// Reasons why it has not started, and what it belongs to.
fn put_start(sheet: &mut Sheet, row: &JobRow) {
    sheet.lines("waits", row.waits.as_deref().map(escape_control));
    if let Some(restart) = row.restart() {
        sheet.line("requeued", format_args!("{} times, first job {}", restart.count, restart.first));
    }
    sheet.lines("begin", row.begins_ms().map(|ms| format!("not before {}", instant(ms))));
    sheet.lines("array", row.array());
    sheet.lines("array", row.array_task().map(|task| format!("{}, task {}", task.array, task.task)));
    sheet.0.extend(row.part_in_script().map(|line| format!("{line}\n")));
    if !row.connected.is_empty() {
        let jobs = connected_jobs(row);
        sheet.line("with", format_args!("{jobs}, connected to it: the same turns where their slots allow"));
    }
    if !row.unfrozen.is_empty() {
        sheet.line("frozen", format_args!("not yet on {}", row.unfrozen.join(", ")));
    }
    if let Some(deadlock) = &row.deadlock {
        sheet.line("deadlock", escape_control(deadlock));
        sheet.lines("cycle", arrows(row.cycle()));
    }
}

/// Nodes, libraries and output.
fn put_output(sheet: &mut Sheet, row: &JobRow) {
    sheet.line("nodes", row.nodes.join(" "));
    sheet.lines("library", row.libraries());
    for name in &row.output {
        sheet.line("output", format_args!("{} on {}", escape_control(&output::shown(name)), row.origin));
    }
    sheet.lines("lost", lost(row).as_deref().map(escape_control));
}

/// Terms and turns.
fn put_terms(sheet: &mut Sheet, row: &JobRow) {
    sheet.lines("alone", row.exclusive.then_some("yes: no other job has ranks on its nodes"));
    if row.memory_bytes > 0 {
        let held = match row.limits_memory {
            _ if row.nodes.is_empty() => "",
            true => ", enforced",
            false => ", counted only",
        };
        sheet.line("memory", format_args!("{} on each node{held}", size::text(row.memory_bytes)));
    }
    if row.gpus() > 0 {
        sheet.line("gpus", format_args!("{} on each node", row.gpus()));
    }
    if row.gang {
        sheet.line("weight", row.weight);
        sheet.line("slices", row.turns);
    } else {
        sheet.line("turns", "none: it runs all the time");
    }
    if row.gang && row.fill {
        sheet.line("fills", "it has what jobs that are no fillers leave (--fill)");
        sheet.lines("fills", row.put_out.iter().map(|(node, put_out)| format!("not on {node}: {put_out}")));
    }
    sheet.lines("turns", row.held_by.iter().map(|(node, means)| format!("{node}: {}", by(*means))));
    for (node, pids) in &row.pids {
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        sheet.line("pids", format_args!("{node}: {}", pids.join(" ")));
    }
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
