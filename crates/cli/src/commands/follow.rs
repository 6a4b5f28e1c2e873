//! `tutti ps --watch`: the jobs, again whenever they change, until the reader has seen enough.
//!
//! | stdout | what is printed |
//! |---|---|
//! | a terminal | the table in place of the one before, each second |
//! | a file, a pipe | the table again when more than the times has changed, below an empty line |
//! | `--json` | a line for each job that is new or different, and one for each that has gone |

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::termios::tcgetwinsize;
use serde_json::json;
use tutti_client::filter::Filter;
use tutti_client::follow::Follower;
use tutti_client::report::Answers;
use tutti_client::states;
use tutti_os::stderr::print_line;
use tutti_protocol::public::PublicRow;

use crate::cluster::{JobId, JobRow};

/// From one question to the next.
const PAUSE: Duration = Duration::from_secs(1);
/// A daemon that is started in the place of another one is awaited for so long.
const RECONNECT_MAX: Duration = Duration::from_secs(60);
/// Clears the screen, and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Table of jobs, and of those of other users' daemons.
pub(super) type Print = fn(&[JobRow], &[PublicRow]) -> String;

/// Shows jobs until the reader has gone.
///
/// # Errors
/// When no daemon answers, be it from the beginning or for a minute; a text for the user.
pub(super) fn run(filter: &Filter, in_json: bool, print: Print) -> Result<ExitCode, String> {
    filter.check()?;
    let mut follower = Follower::new(filter.selection());
    let mut shown = Shown::default();
    let mut answered: Option<Instant> = None;
    let mut is_silent = false;
    loop {
        let answers = follower.answers(&mut |text| print_line(format_args!("tutti ps: {text}")));
        let answers = match answers {
            // Without a daemon there are those of other users.
            Ok(answers) if answers.daemon || answered.is_none() => answers,
            missing if answered.is_some_and(|at| at.elapsed() < RECONNECT_MAX) => {
                if !std::mem::replace(&mut is_silent, true) {
                    let why = missing.err().unwrap_or_else(|| "the daemon has ended".into());
                    let seconds = RECONNECT_MAX.as_secs();
                    print_line(format_args!("tutti ps: {why}; a new daemon is awaited for {seconds} s"));
                }
                std::thread::sleep(PAUSE);
                continue;
            }
            missing => return Err(missing.err().unwrap_or_else(|| "the daemon has ended".into())),
        };
        is_silent = false;
        if answers.daemon {
            answered = Some(Instant::now());
        }
        let text = if in_json { shown.lines(&answers, filter) } else { shown.table(&answers, filter, print) };
        if !tutti_os::stdout::print(&text) {
            return Ok(ExitCode::FAILURE);
        }
        // A reader that has seen enough may go while nothing changes.
        if !tutti_os::stdout::is_read_after(PAUSE) {
            return Ok(ExitCode::FAILURE);
        }
    }
}

/// State that the reader has.
#[derive(Debug, Default)]
struct Shown {
    rows: BTreeMap<JobId, JobRow>,
    /// Table without its times.
    facts: Option<String>,
}

impl Shown {
    fn lines(&mut self, answers: &Answers, filter: &Filter) -> String {
        let is_taken = |row: &&JobRow| filter.takes(states::of(row), &row.name, row.uid);
        let rows: BTreeMap<JobId, JobRow> =
            answers.jobs.iter().filter(is_taken).map(|row| (row.job, row.clone())).collect();
        let mut text = String::new();
        for (job, row) in rows.iter().filter(|(job, row)| self.rows.get(*job) != Some(*row)) {
            let mut value = serde_json::to_value(row).expect("rows are serialisable");
            value["job"] = json!(job);
            text.push_str(&format!("{value}\n"));
        }
        for job in self.rows.keys().filter(|job| !rows.contains_key(*job)) {
            text.push_str(&format!("{}\n", json!({ "job": job, "state": "gone" })));
        }
        self.rows = rows;
        text
    }

    fn table(&mut self, answers: &Answers, filter: &Filter, print: Print) -> String {
        let mut rows = answers.jobs.clone();
        rows.retain(|row| filter.takes(states::of(row), &row.name, row.uid));
        let mut others = answers.others.clone();
        others.retain(|other| answers.jobs.iter().all(|row| (row.uid, row.job.0) != (other.uid, other.job)));
        others.retain(|other| filter.takes(states::word(other.state), "", other.uid));
        let table = print(&rows, &others);
        let stdout = std::io::stdout();
        if stdout.is_terminal() {
            let lines = tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_row));
            return format!("{CLEAR}{}", of_screen(&table, lines));
        }
        // The time of a job that runs passes, which is no change.
        rows.iter_mut().for_each(|row| (row.started_ms, row.submitted_ms) = (None, 0));
        others.iter_mut().for_each(|other| other.since_ms = 0);
        let others: Vec<_> = others.iter().map(|other| (other.uid, other.job, other.state)).collect();
        let rows: Vec<_> =
            rows.iter().map(|row| (row.job, states::of(row), &row.nodes, &row.waits)).collect();
        let facts = format!("{rows:?} {others:?}");
        let first = self.facts.is_none();
        if self.facts.replace(facts.clone()) == Some(facts) {
            return String::new();
        }
        if first { table } else { format!("\n{table}") }
    }
}

/// As much of a table as a screen has room for; 0 lines: not known.
fn of_screen(table: &str, lines: usize) -> String {
    let count = table.lines().count();
    // The cursor is below the last one.
    let room = if lines < 3 { count } else { lines - 1 };
    if count <= room {
        return table.to_owned();
    }
    let mut text: Vec<String> = table.lines().take(room - 1).map(str::to_owned).collect();
    text.push(format!("... and {} lines more", count - (room - 1)));
    text.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watched_table_is_cut_to_the_screen() {
        let table = "a\nb\nc\nd\n";
        assert_eq!(of_screen(table, 0), table);
        assert_eq!(of_screen(table, 5), table);
        assert_eq!(of_screen(table, 4), "a\nb\n... and 2 lines more\n");
    }

    #[test]
    fn watched_jobs_are_printed_again_when_they_change() {
        let row = |job: u64, state: &str| -> JobRow {
            serde_json::from_value(json!({
                "job": job, "uid": 1, "state": state, "ranks": 2, "nodes": [], "command": "x",
                "submitted_ms": 1, "started_ms": null, "ended_ms": null, "status": null, "weight": 100,
                "exclusive": false, "memory_bytes": 0, "gang": true, "turns": 0, "waits": null, "pids": [],
            }))
            .expect("a row")
        };
        let answers = |jobs: Vec<JobRow>| Answers { jobs, daemon: true, ..Answers::default() };
        let (mut shown, filter) = (Shown::default(), Filter::default());
        let steps = [
            (vec![row(1, "waiting"), row(2, "running")], 2, "\"state\":\"waiting\""),
            (vec![row(1, "waiting"), row(2, "running")], 0, ""),
            (vec![row(1, "running")], 2, "{\"job\":2,\"state\":\"gone\"}"),
        ];
        for (jobs, count, part) in steps {
            let text = shown.lines(&answers(jobs), &filter);
            assert!(text.lines().count() == count && text.contains(part), "{text}");
        }
    }
}
