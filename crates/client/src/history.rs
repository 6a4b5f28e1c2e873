//! Jobs that are over and that no daemon knows any more, from the controller's log of events
//! (`paths::EVENTS`), which `tutti timeline` draws too.
//!
//! Called by commands of users. A daemon that `mpiexec` has started leaves when it is not needed; its log
//! stays, and the next one continues it and its numbers. The log is read from its end, and no further than
//! the [`Bound`] asks for: what a job has come to is known when its submission is found.

mod backwards;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
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
use backwards::Backwards;

/// The latest jobs of each user in the log are listed, so many, where nobody says how many.
const JOBS_MAX: usize = 1000;
/// Bytes of the log that are read for them, about.
const READ_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a line, at most: no daemon writes longer ones.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Events behind a submission that say what became of the job.
const READ_EVENTS: [&[u8]; 5] = [b"placed", b"output", b"started", b"over", b"refused"];
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

/// Part of a line that decides whether the rest of it is looked at.
#[derive(Deserialize)]
struct Head<'a> {
    ms: u64,
    #[serde(borrow)]
    event: Cow<'a, str>,
    job: Option<u64>,
    uid: Option<u32>,
}

/// Jobs that are listed, at most, and what is read for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The latest ones of each user.
    of_user: usize,
    /// The latest ones of all users.
    of_all: usize,
    /// Bytes of each log, from its end, about.
    read_bytes: u64,
}

impl Bound {
    /// The last thousand jobs of each user, wherever in the log they are.
    pub const WHOLE_LOG: Bound = Bound { of_user: JOBS_MAX, of_all: usize::MAX, read_bytes: u64::MAX };

    /// The last thousand jobs of each user in the newest part of the log.
    pub const LATELY: Bound = Bound { read_bytes: READ_BYTES_MAX, ..Bound::WHOLE_LOG };

    /// The newest ones of all users together, whatever must be read for them.
    #[must_use]
    pub fn newest(of_all: usize) -> Self {
        Bound { of_user: usize::MAX, of_all, read_bytes: u64::MAX }
    }

    /// Keeps those of the rows, by number, that are not over or within the bound; whether some are left out.
    pub fn apply(self, rows: &mut Vec<JobRow>) -> bool {
        let (mut of_all, mut of_user) = (0, BTreeMap::<u32, usize>::new());
        let before = rows.len();
        rows.reverse();
        rows.retain(|row| {
            if row.state != JobState::Over {
                return true;
            }
            let of_this = of_user.entry(row.uid).or_default();
            let is_kept = of_all < self.of_all && *of_this < self.of_user;
            (of_all, *of_this) = (of_all + 1, *of_this + 1);
            is_kept
        });
        rows.reverse();
        rows.len() < before
    }
}

/// Jobs that are over.
#[derive(Debug, Default)]
pub struct Past {
    /// Rows by number.
    pub rows: Vec<JobRow>,
    /// Older ones are left out, or there may be some.
    pub is_cut: bool,
}

/// The jobs of all logs of this node ([`paths::histories`]) that are over, by number. With `is_alone` no
/// daemon has answered.
pub fn of_node(is_alone: bool) -> Vec<JobRow> {
    newest(is_alone, Bound::WHOLE_LOG, |_| true).rows
}

/// The newest of them that are wanted.
pub fn newest(is_alone: bool, bound: Bound, is_wanted: impl Fn(&JobRow) -> bool) -> Past {
    let (mut found, mut is_cut) = (BTreeMap::new(), false);
    for folder in paths::histories() {
        let past = rows(&folder, paths::is_left(&folder, is_alone), bound, &is_wanted);
        is_cut |= past.is_cut;
        for row in past.rows {
            found.entry(row.job).or_insert(row);
        }
    }
    Past { rows: found.into_values().collect(), is_cut }
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

/// The jobs of the log in a folder that are over and wanted, by number, as far as the bound has room. With
/// `is_alone` no daemon continues it: then all of them are over.
fn rows(folder: &Path, is_alone: bool, bound: Bound, is_wanted: &dyn Fn(&JobRow) -> bool) -> Past {
    let mut past = Past::default();
    let Some(mut jobs) = Jobs::open(folder, is_alone, None) else { return past };
    jobs.read_bytes_max = bound.read_bytes;
    let (own, mut counts) = (jobs.own, HashMap::<u32, usize>::new());
    let is_full = |counts: &HashMap<u32, usize>, uid| counts.get(&uid).copied().unwrap_or(0) >= bound.of_user;
    // Once some are left out, the rest of a user who has as many as are listed is not looked at.
    while let Some(row) = jobs.next(|head| !(past.is_cut && is_full(&counts, head.uid.unwrap_or(own)))) {
        if !is_wanted(&row) {
            continue;
        }
        if past.rows.len() >= bound.of_all {
            past.is_cut = true;
            break;
        }
        if is_full(&counts, row.uid) {
            past.is_cut = true;
            continue;
        }
        *counts.entry(row.uid).or_default() += 1;
        past.rows.push(row);
    }
    past.is_cut |= jobs.is_cut;
    past.rows.sort_by_key(|row| row.job);
    past
}

/// A job of a log, however long ago it ended; none: the log does not have it.
fn row(folder: &Path, job: JobId, is_alone: bool) -> Option<JobRow> {
    Jobs::open(folder, is_alone, Some(job.0))?.next(|_| true)
}

/// Jobs of a log that are over, from the one that was submitted last to the first.
#[derive(Debug)]
struct Jobs {
    log: Backwards,
    is_alone: bool,
    /// The only job that is looked for.
    only: Option<u64>,
    /// User of jobs of which the log does not say whose they are.
    own: u32,
    now_ms: u64,
    read_bytes_max: u64,
    /// Set where that bound has ended it.
    is_cut: bool,
    /// Lines about jobs whose submission has not been met, the last one first.
    later: HashMap<u64, Vec<Vec<u8>>>,
    /// Jobs whose submission has been met: an older one with the same number is another.
    met: HashSet<u64>,
    /// A controller that has begun behind the lines to come knows all jobs that outlived the one before it.
    is_known: bool,
}

impl Jobs {
    fn open(folder: &Path, is_alone: bool, only: Option<u64>) -> Option<Self> {
        Some(Jobs {
            log: Backwards::open(&folder.join(paths::EVENTS), false).ok()?,
            is_alone,
            only,
            own: rustix::process::geteuid().as_raw(),
            now_ms: UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64),
            read_bytes_max: u64::MAX,
            is_cut: false,
            later: HashMap::new(),
            met: HashSet::new(),
            is_known: false,
        })
    }

    /// The next one that is over, of those whose submission is taken.
    fn next(&mut self, takes: impl Fn(&Head<'_>) -> bool) -> Option<JobRow> {
        while let Some(line) = self.log.next_line() {
            if self.log.read_bytes() > self.read_bytes_max {
                self.is_cut = true;
                return None;
            }
            let is_looked_for =
                |job: &u64| self.only.is_none_or(|only| only == *job) && !self.met.contains(job);
            if let Some((event, job)) = begin_of(&line)
                && event != b"submitted"
            {
                if READ_EVENTS.contains(&event) && is_looked_for(&job) {
                    self.later.entry(job).or_default().push(line);
                }
                continue;
            }
            // A line that was cut off by a full disk or a dead daemon is no reason to show nothing.
            let Ok(head) = serde_json::from_slice::<Head<'_>>(&line) else { continue };
            self.is_known |= head.event == "begun" && head.ms.saturating_add(KNOWN_MS) <= self.now_ms;
            let Some(job) = head.job.filter(is_looked_for) else { continue };
            if head.event != "submitted" {
                self.later.entry(job).or_default().push(line);
                continue;
            }
            if !takes(&head) {
                self.met.insert(job);
                self.later.remove(&job);
                continue;
            }
            // What is damaged behind its head is no submission: an older one may be it.
            let Ok(submission) = serde_json::from_slice::<Event>(&line) else { continue };
            self.met.insert(job);
            let later = self.later.remove(&job).unwrap_or_default();
            if let Some(row) = self.row(submission, &later) {
                return Some(row);
            }
        }
        None
    }

    /// The job of a submission and of the lines behind it, the last one first, if it is over.
    fn row(&self, submission: Event, later: &[Vec<u8>]) -> Option<JobRow> {
        let later = later.iter().rev().filter_map(|line| serde_json::from_slice(line).ok());
        let mut row = from_events(std::iter::once(submission).chain(later), self.own).pop()?;
        if row.state != JobState::Over && (self.is_alone || self.is_known) {
            (row.state, row.cause) = (JobState::Over, Some(UNKNOWN.into()));
        }
        (row.state == JobState::Over).then_some(row)
    }
}

/// Event and job of a line, if it begins as daemons write it; the rest is not looked at. None: the line has
/// to be read as a whole.
fn begin_of(line: &[u8]) -> Option<(&[u8], u64)> {
    let (_, rest) = number(line.strip_prefix(b"{\"ms\":")?)?;
    let rest = rest.strip_prefix(b",\"event\":\"")?;
    let (event, rest) = rest.split_at(rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?);
    let (job, rest) = number(rest.strip_prefix(b"\",\"job\":")?)?;
    matches!(rest.first(), Some(b',' | b'}')).then_some((event, job))
}

/// Number with which a text begins, and the rest.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let (digits, rest) = text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count());
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

fn from_events(events: impl IntoIterator<Item = Event>, own: u32) -> Vec<JobRow> {
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
mod tests;
