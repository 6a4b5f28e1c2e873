//! Jobs of the cluster, and of others on this machine, as a table for people.

use std::collections::BTreeMap;

use tutti_client::moments::elapsed;
use tutti_client::table::aligned;
use tutti_client::{states, users};
use tutti_os::stderr::escape_control;
use tutti_protocol::array::{Array, ArrayTask};
use tutti_protocol::public::PublicRow;

use crate::cluster::{FreezeMethod, JobId, JobRow, JobState};

/// Characters of another user's command that are shown, as of one's own.
const COMMAND_CHARS: usize = 60;

/// Number of another user's job: no own number looks like it.
pub(super) fn number_of(other: &PublicRow) -> String {
    format!("{}/{}", users::name(other.uid), other.job)
}

pub(super) fn print_jobs(rows: &[JobRow], others: &[PublicRow]) -> String {
    let mut table = vec![
        ["JOB", "STATE", "RANKS", "NODES", "TIME", "USER", "TURNS", "NAME", "COMMAND"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for row in rows {
        let state = match (row.state, row.status) {
            (JobState::Over, Some(status)) => format!("over({status})"),
            _ => states::of(row).to_owned(),
        };
        table.push(vec![
            row.number(),
            state,
            row.ranks.to_string(),
            row.nodes.len().to_string(),
            duration(row),
            users::name(row.uid),
            // The least of its nodes.
            match row.held_by.iter().map(|(_, means)| *means).max() {
                _ if !row.gang => "no",
                _ if row.fill => "fills",
                means => means.map_or("-", by),
            }
            .to_owned(),
            if row.name.is_empty() { "-".into() } else { escape_control(&row.name) },
            escape_control(&row.command),
        ]);
    }
    for other in others {
        let running = [JobState::Running, JobState::Suspended].contains(&other.state);
        table.push(vec![
            number_of(other),
            states::word(other.state).to_owned(),
            other.ranks.to_string(),
            other.nodes.to_string(),
            if running { elapsed(other.since_ms, None) } else { "-".into() },
            users::name(other.uid),
            "-".into(),
            "-".into(),
            escape_control(&other.command).chars().take(COMMAND_CHARS).collect(),
        ]);
    }
    let mut text = aligned(&table, &[true, false, true, true, true, false, false, false, false]);
    text.push_str(&reasons(rows));
    for row in rows.iter().filter(|row| !row.unfrozen.is_empty()) {
        text.push_str(&format!("job {} is not frozen yet on {}\n", row.job, row.unfrozen.join(", ")));
    }
    for row in rows {
        for (node, put_out) in &row.put_out {
            text.push_str(&format!("job {} is {put_out} ({node})\n", row.job));
        }
    }
    for (job, deadlock) in rows.iter().filter_map(|row| Some((row.job, row.deadlock.as_ref()?))) {
        text.push_str(&format!("job {job}: {}\n", escape_control(deadlock)));
    }
    text
}

/// Why jobs wait, a line for each; for several tasks of an array that wait for the same, one.
fn reasons(rows: &[JobRow]) -> String {
    let mut of_tasks: BTreeMap<(JobId, &str), Vec<u32>> = BTreeMap::new();
    for (row, why) in rows.iter().filter_map(|row| Some((row, row.waits.as_deref()?))) {
        if let Some(ArrayTask { array, task }) = row.array_task() {
            of_tasks.entry((array, why)).or_default().push(task);
        }
    }
    let mut text = String::new();
    for (row, why) in rows.iter().filter_map(|row| Some((row, row.waits.as_deref()?))) {
        let number = match row.array_task() {
            None => row.number(),
            Some(task) => match of_tasks.remove(&(task.array, why)) {
                None => continue,
                Some(tasks) if tasks.len() == 1 => row.number(),
                Some(tasks) => format!("{}_[{}]", task.array, Array { tasks, at_once: 0 }),
            },
        };
        text.push_str(&format!("job {number} waits: {}\n", escape_control(why)));
    }
    text
}

/// Minutes and seconds since the ranks ran.
pub(super) fn duration(row: &JobRow) -> String {
    row.started_ms.map_or_else(|| "-".into(), |started_ms| elapsed(started_ms, row.ended_ms))
}

/// By what a job takes its turns.
pub(super) fn by(means: FreezeMethod) -> &'static str {
    match means {
        FreezeMethod::Cgroup => "cgroup",
        FreezeMethod::Signals => "signals",
        FreezeMethod::Nothing => "none",
    }
}
