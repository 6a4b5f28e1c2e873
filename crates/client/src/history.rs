//! Jobs that are over and that no daemon knows any more, from the controller's log of events
//! (`paths::EVENTS`), which `tutti timeline` draws too.
//!
//! Called by commands of users. A daemon that `mpiexec` has started leaves when it is not needed; its log
//! stays, and the next one continues it and its numbers.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::Deserialize;
use tutti_protocol::array::{ArrayTask, InArray};
use tutti_protocol::batch::Restart;
use tutti_protocol::end::JobEnd;
use tutti_protocol::output::OutputState;
use tutti_protocol::paths;
use tutti_protocol::wire::Used;

use crate::requests::{JobId, JobRow, JobState, Terms};

/// The latest jobs of each user in the log are listed, so many.
const JOBS_MAX: usize = 1000;
/// Bytes of a line, at most: no daemon writes longer ones.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Of a job whose daemon ended before it did.
const UNKNOWN: &str = "its end is not in the log: its daemon ended first";
/// A controller that began so long ago knows all jobs that outlived the one before it: nodes that come back
/// later find them ended.
const KNOWN_MS: u64 = 2 * 60 * 1000;

/// A line of the log.
#[derive(Deserialize)]
struct Event {
    ms: u64,
    event: String,
    job: Option<u64>,
    #[serde(default)]
    nodes: Vec<String>,
    #[serde(default)]
    text: String,
    status: Option<u8>,
    cpu_us: Option<u64>,
    largest_bytes: Option<u64>,
    uid: Option<u32>,
    ranks: Option<u64>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    output: Vec<String>,
    #[serde(default)]
    first_ranks: Vec<u32>,
    output_state: Option<OutputState>,
    #[serde(default)]
    note: String,
    end: Option<JobEnd>,
    array_task: Option<String>,
    restart: Option<Restart>,
}

/// The jobs of all logs of this node ([`paths::histories`]) that are over, by number. With `is_alone` no
/// daemon has answered.
pub fn of_node(is_alone: bool) -> Vec<JobRow> {
    let mut found = BTreeMap::new();
    for folder in paths::histories() {
        for row in rows(&folder, paths::is_left(&folder, is_alone)) {
            found.entry(row.job).or_insert(row);
        }
    }
    found.into_values().collect()
}

/// Use of jobs, by number, as far as the logs of this node have it: those of the controller do.
pub fn used() -> BTreeMap<JobId, Used> {
    paths::histories().iter().rev().flat_map(|folder| used_in(folder)).collect()
}

fn used_in(folder: &Path) -> BTreeMap<JobId, Used> {
    let events: Vec<Event> = lines(&folder.join(paths::EVENTS), false).unwrap_or_default();
    let used = |event: &Event| {
        let (cpu_us, largest_bytes) = event.cpu_us.zip(event.largest_bytes)?;
        Some((JobId(event.job?), Used { cpu_us, largest_bytes }))
    };
    events.iter().filter_map(used).collect()
}

/// A job of the logs, however long ago it ended; none: no log has it.
pub fn of_job(job: JobId, is_alone: bool) -> Option<JobRow> {
    let folders = paths::histories().into_iter();
    folders.filter_map(|folder| row(&folder, job, paths::is_left(&folder, is_alone))).next()
}

/// The jobs of the log in a folder that are over, by number, the latest of each user. With `is_alone` no
/// daemon continues it: then all of them are.
fn rows(folder: &Path, is_alone: bool) -> Vec<JobRow> {
    let (mut rows, mut counts) = (all(folder, is_alone), BTreeMap::<u32, usize>::new());
    rows.iter().for_each(|row| *counts.entry(row.uid).or_default() += 1);
    rows.retain(|row| {
        let rest = counts.entry(row.uid).or_default();
        *rest -= 1;
        *rest < JOBS_MAX
    });
    rows
}

/// A job of a log, however long ago it ended; none: the log does not have it.
fn row(folder: &Path, job: JobId, is_alone: bool) -> Option<JobRow> {
    all(folder, is_alone).into_iter().find(|row| row.job == job)
}

fn all(folder: &Path, is_alone: bool) -> Vec<JobRow> {
    let own = rustix::process::geteuid().as_raw();
    let events: Vec<Event> = lines(&folder.join(paths::EVENTS), false).unwrap_or_default();
    let begun_ms = events.iter().filter(|event| event.event == "begun").map(|event| event.ms).max();
    let now_ms = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64);
    let lost_ms = begun_ms.filter(|begun_ms| begun_ms + KNOWN_MS <= now_ms).unwrap_or(0);
    let mut rows = from_events(events, own);
    let is_lost = |row: &JobRow| row.state != JobState::Over && (is_alone || row.submitted_ms < lost_ms);
    for row in rows.iter_mut().filter(|row| is_lost(row)) {
        (row.state, row.cause) = (JobState::Over, Some(UNKNOWN.into()));
    }
    rows.retain(|row| row.state == JobState::Over);
    rows
}

fn from_events(events: Vec<Event>, own: u32) -> Vec<JobRow> {
    let mut jobs: BTreeMap<u64, JobRow> = BTreeMap::new();
    for event in events {
        let Some(id) = event.job else { continue };
        if event.event == "submitted" {
            jobs.insert(id, submitted(id, event, own));
            continue;
        }
        // The answer to its user was that there is no such job.
        if event.event == "refused" {
            jobs.remove(&id);
            continue;
        }
        let Some(job) = jobs.get_mut(&id) else { continue };
        match event.event.as_str() {
            "placed" => job.nodes = event.nodes,
            "output" => {
                (job.output, job.first_ranks) = (event.output, event.first_ranks);
                job.output_state = event.output_state.unwrap_or_default();
            }
            "started" => (job.started_ms, job.state) = (Some(event.ms), JobState::Running),
            "over" => {
                (job.ended_ms, job.state) = (Some(event.ms), JobState::Over);
                (job.status, job.cause) = (event.status, Some(event.text).filter(|text| !text.is_empty()));
                job.set_end(event.end);
                let used = event.cpu_us.zip(event.largest_bytes);
                job.set_used(used.map(|(cpu_us, largest_bytes)| Used { cpu_us, largest_bytes }));
            }
            _ => {}
        }
    }
    jobs.into_values().collect()
}

fn submitted(id: u64, event: Event, own: u32) -> JobRow {
    let terms = Terms::default();
    let array_task = event.array_task.as_deref().and_then(ArrayTask::parse);
    JobRow {
        in_reservation: String::new(),
        deadlock_cycle: Vec::new(),
        job: JobId(id),
        uid: event.uid.unwrap_or(own),
        state: JobState::Waiting,
        name: event.name,
        kept_note: event.note,
        limit_ms: None,
        ranks: event.ranks.unwrap_or(0),
        nodes: event.nodes,
        command: event.text,
        submitted_ms: event.ms,
        started_ms: None,
        ended_ms: None,
        status: None,
        weight: terms.weight,
        exclusive: terms.exclusive,
        memory_bytes: terms.memory_bytes,
        node_gpus: terms.gpus,
        seen_libraries: Vec::new(),
        gang: terms.gang,
        fill: terms.fill,
        effective_milli: 0,
        busy_permille: None,
        turns: 0,
        suspended: None,
        waits: None,
        deadlock: None,
        unfrozen: Vec::new(),
        connected: Vec::new(),
        cause: None,
        pids: Vec::new(),
        held_by: Vec::new(),
        enforced: Vec::new(),
        put_out: Vec::new(),
        enrolled: false,
        first_ranks: Default::default(),
        limits_memory: Default::default(),
        output: Vec::new(),
        origin: String::new(),
        output_state: Default::default(),
        script: false,
        step_of: None,
        on_hold: None,
        in_array: array_task.map_or(InArray::None, InArray::Task),
        not_before_ms: None,
        how_ended: None,
        wait_kind: None,
        in_place_of: event.restart,
        process_use: None,
    }
}

/// The lines of a log that can be understood, those put aside first. `is_named`: the user has named its
/// folder, and may mean that of another user.
///
/// # Errors
/// When it cannot be opened.
pub fn lines<T: for<'a> Deserialize<'a>>(path: &Path, is_named: bool) -> std::io::Result<Vec<T>> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".1");
    let mut found = Vec::new();
    let newest = paths::open_events(path, is_named)?;
    let aside = paths::open_events(Path::new(&aside), is_named).ok();
    for file in aside.into_iter().chain([newest]) {
        let mut reader = BufReader::new(file);
        // A line that was cut off by a full disk or a dead daemon is no reason to show nothing.
        while let Some(line) = next_line(&mut reader) {
            found.extend(serde_json::from_slice::<T>(&line));
        }
    }
    Ok(found)
}

/// The next line; none: the file ends, or is no log.
fn next_line(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    reader.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).ok()?;
    (!line.is_empty() && (line.len() as u64) < LINE_BYTES_MAX).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_has_jobs_that_are_over_and_what_became_of_them() {
        let folder = std::env::temp_dir().join(format!("tutti-history-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let old = r#"{"ms":1,"event":"submitted","job":1,"uid":7,"ranks":4,"nodes":["a"],"text":"./x 3"}
{"ms":2,"event":"started","job":1}
"#;
        let new = r#"{"ms":9,"event":"over","job":1,"status":3,"cpu_us":5,"largest_bytes":6,"text":"rank 0 exited with status 3"}
{"ms":10,"event":"submitted","job":2,"name":"test","nodes":["a"],"text":"./y"}
{"ms":11,"event":"started","job":2}
{"ms":12,"event":"submitted","job":3,"nodes":["a"],"text":"./z"}
{"ms":12,"event":"refused","job":3,"text":"a full disk"}
{"ms":13,"event":"ov"#;
        std::fs::write(folder.join("events.jsonl.1"), old).unwrap();
        std::fs::write(folder.join("events.jsonl"), new).unwrap();
        let found = rows(&folder, false);
        assert_eq!(found.len(), 1, "job 2 may run");
        let one = &found[0];
        assert_eq!((one.job, one.uid, one.ranks, one.status), (JobId(1), 7, 4, Some(3)));
        assert_eq!(used_in(&folder), [(JobId(1), Used { cpu_us: 5, largest_bytes: 6 })].into());
        assert_eq!((one.started_ms, one.ended_ms), (Some(2), Some(9)));
        assert_eq!(one.cause.as_deref(), Some("rank 0 exited with status 3"));
        let found = rows(&folder, true);
        assert_eq!(
            (found[1].state, found[1].status, found[1].cause.as_deref()),
            (JobState::Over, None, Some(UNKNOWN))
        );
        let begun = r#"{"ms":20,"event":"begun"}"#;
        let now_ms = UNIX_EPOCH.elapsed().unwrap().as_millis();
        let lately = format!("{{\"ms\":{now_ms},\"event\":\"begun\"}}");
        for (line, lost) in [(begun, 2), (&*lately, 1)] {
            std::fs::write(
                folder.join("events.jsonl"),
                format!("{}\n{line}\n", new.replace("\n{\"ms\":13,\"event\":\"ov", "")),
            )
            .unwrap();
            assert_eq!(rows(&folder, false).len(), lost, "{line}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(rows(&folder, true).is_empty());
    }

    #[test]
    fn history_of_a_user_is_not_pushed_out_by_another() {
        let folder = std::env::temp_dir().join(format!("tutti-history-of-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut log = String::new();
        for (job, uid) in std::iter::once((1, 7)).chain((2..JOBS_MAX as u64 + 50).map(|job| (job, 8))) {
            log.push_str(&format!(
                "{{\"ms\":1,\"event\":\"submitted\",\"job\":{job},\"uid\":{uid},\"text\":\"x\"}}\n\
                 {{\"ms\":2,\"event\":\"over\",\"job\":{job},\"status\":{}}}\n",
                job % 2
            ));
        }
        std::fs::write(folder.join(paths::EVENTS), log).unwrap();
        let found = rows(&folder, false);
        assert_eq!((found[0].job, found[0].uid, found.len()), (JobId(1), 7, JOBS_MAX + 1));
        let oldest = row(&folder, JobId(2), false).expect("the log has it");
        assert_eq!((oldest.uid, oldest.status), (8, Some(0)));
        assert!(row(&folder, JobId(JOBS_MAX as u64 + 50), false).is_none());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
