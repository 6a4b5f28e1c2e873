//! `tutti account`: what jobs have used, from the controller and the log of events. Times are those of the
//! node's clock; what is not known (a starter that was killed, an earlier release) is `-`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use tutti_os::stderr::escape_control;
use tutti_protocol::end::JobEnd;
use tutti_protocol::time_limit;
use tutti_protocol::wire::Used;

use crate::cluster::{self, Answer, JobRow, JobState, Request};
use crate::stdout;
use tutti_client::filter::Filter;
use tutti_client::moments::{elapsed, instant};
use tutti_client::table::aligned;
use tutti_client::{history, states, users};

/// Options of `tutti account`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Only jobs of these users
    #[arg(long, short, value_name = "USER", value_delimiter = ',')]
    user: Vec<String>,
    /// Only jobs that began in the last so long: 12h, 30d
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    last: Option<Duration>,
    /// A line for each user instead of each job
    #[arg(long)]
    by_user: bool,
    /// A line for each user and month in which jobs began, by this machine's time
    #[arg(long, conflicts_with = "by_user")]
    by_month: bool,
    /// For scripts
    #[arg(long)]
    json: bool,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    time_limit::parse(text).ok_or_else(|| "a time is expected, such as 90m, 12h or 30d".into())
}

/// A job that has run or runs.
#[derive(Clone, Debug, Serialize)]
struct Account {
    job: u64,
    user: String,
    uid: u32,
    name: String,
    state: String,
    ranks: u64,
    nodes: Vec<String>,
    start_ms: Option<u64>,
    end_ms: Option<u64>,
    elapsed_ms: u64,
    cpu_ms: Option<u64>,
    largest_bytes: Option<u64>,
    status: Option<u8>,
    /// How it has ended, with exit code and signal apart.
    end: Option<JobEnd>,
    command: String,
}

/// The jobs of a user together, or those of a month.
#[derive(Clone, Debug, Default, Serialize)]
struct OfUser {
    #[serde(skip_serializing_if = "String::is_empty")]
    month: String,
    user: String,
    uid: u32,
    jobs: u64,
    failed: u64,
    /// Time of all ranks: what they could have had of cores.
    rank_ms: u64,
    cpu_ms: u64,
    largest_bytes: u64,
}

/// Prints the account of the jobs that are asked for.
pub(super) fn run(options: &Options) -> Result<ExitCode, String> {
    let filter = Filter { user: options.user.clone(), state: Vec::new(), name: Vec::new() };
    filter.check()?;
    let answer = cluster::request_if_running(&Request::Jobs { all: true })?;
    let mut rows = match &answer {
        None => Vec::new(),
        Some(Answer::Jobs(rows)) => rows.clone(),
        Some(_) => return Err("the daemon is of another version".into()),
    };
    let mut before = history::of_node(answer.is_none());
    before.retain(|old| rows.iter().all(|row| row.job != old.job));
    rows.extend(before);
    rows.sort_by_key(|row| row.job);
    let now_ms = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64);
    let since_ms = options.last.map_or(0, |last| now_ms.saturating_sub(last.as_millis() as u64));
    let is_asked = |row: &JobRow| {
        row.started_ms.is_some_and(|started_ms| started_ms >= since_ms)
            && filter.takes(states::of(row), &row.name, row.uid)
    };
    let used = history::used();
    let asked = rows.iter().filter(|row| is_asked(row));
    let accounts: Vec<Account> = asked.map(|row| account(row, used.get(&row.job).copied(), now_ms)).collect();
    if options.by_user {
        return Ok(show(&by_user(&accounts, |_| String::new()), options.json, print_users));
    }
    if options.by_month {
        return Ok(show(&by_user(&accounts, month_of), options.json, print_months));
    }
    Ok(show(&accounts, options.json, print_jobs))
}

fn show<T: Serialize>(rows: &[T], json: bool, print: fn(&[T]) -> String) -> ExitCode {
    let in_json = || serde_json::to_string_pretty(rows).expect("rows are serialisable") + "\n";
    stdout::print(Some(if json { in_json() } else { print(rows) }), "")
}

fn account(row: &JobRow, used: Option<Used>, now_ms: u64) -> Account {
    let start_ms = row.started_ms;
    let is_over = row.state == JobState::Over;
    // Of a job whose end is not in the log nothing is known behind its start.
    let until_ms = if is_over { row.ended_ms.or(start_ms) } else { Some(now_ms) };
    Account {
        job: row.job.0,
        user: users::name(row.uid),
        uid: row.uid,
        name: row.name.clone(),
        state: states::of(row).to_owned(),
        ranks: row.ranks,
        nodes: row.nodes.clone(),
        start_ms,
        end_ms: row.ended_ms.filter(|_| is_over),
        elapsed_ms: until_ms
            .zip(start_ms)
            .map_or(0, |(until_ms, start_ms)| until_ms.saturating_sub(start_ms)),
        cpu_ms: used.map(|used| used.cpu_us / 1000),
        largest_bytes: used.map(|used| used.largest_bytes),
        status: row.status,
        end: row.end(),
        command: row.command.clone(),
    }
}

/// The month in which a job began: `2026-11`.
fn month_of(one: &Account) -> String {
    let start = one.start_ms.map(instant).unwrap_or_default();
    start.get(.."2026-11".len()).unwrap_or_default().to_owned()
}

fn by_user(accounts: &[Account], month_of: impl Fn(&Account) -> String) -> Vec<OfUser> {
    let mut users: BTreeMap<(String, u32), OfUser> = BTreeMap::new();
    for one in accounts {
        let month = month_of(one);
        let of_user = users.entry((month.clone(), one.uid)).or_default();
        (of_user.month, of_user.user, of_user.uid) = (month, one.user.clone(), one.uid);
        of_user.jobs += 1;
        of_user.failed += u64::from(one.status.is_some_and(|status| status != 0));
        of_user.rank_ms += one.elapsed_ms * one.ranks;
        of_user.cpu_ms += one.cpu_ms.unwrap_or(0);
        of_user.largest_bytes = of_user.largest_bytes.max(one.largest_bytes.unwrap_or(0));
    }
    users.into_values().collect()
}

/// Processor time to the hundredth of a second.
fn time_of(ms: u64) -> String {
    if ms < 60_000 { format!("{}.{:02}", ms / 1000, ms / 10 % 100) } else { elapsed(0, Some(ms)) }
}

fn print_jobs(accounts: &[Account]) -> String {
    let title = [
        "JOB", "USER", "STATE", "HOW", "RANKS", "NODES", "START", "END", "TIME", "CPU", "LARGEST", "NAME",
        "COMMAND",
    ];
    let mut table = vec![title.map(str::to_owned).to_vec()];
    for one in accounts {
        let state = one.status.map_or_else(|| one.state.clone(), |status| format!("{}({status})", one.state));
        table.push(vec![
            one.job.to_string(),
            one.user.clone(),
            state,
            one.end.map_or_else(|| "-".into(), |end| end.to_string()),
            one.ranks.to_string(),
            one.nodes.len().to_string(),
            one.start_ms.map_or_else(|| "-".into(), instant),
            one.end_ms.map_or_else(|| "-".into(), instant),
            elapsed(0, Some(one.elapsed_ms)),
            one.cpu_ms.map_or_else(|| "-".into(), time_of),
            one.largest_bytes.map_or_else(|| "-".into(), rounded),
            if one.name.is_empty() { "-".into() } else { escape_control(&one.name) },
            escape_control(&one.command),
        ]);
    }
    let right = [true, false, false, false, true, true, false, false, true, true, true, false, false];
    aligned(&table, &right)
}

const OF_USER: [&str; 6] = ["USER", "JOBS", "FAILED", "RANKS*TIME", "CPU", "LARGEST"];

fn words(one: &OfUser) -> [String; 6] {
    [
        one.user.clone(),
        one.jobs.to_string(),
        one.failed.to_string(),
        elapsed(0, Some(one.rank_ms)),
        time_of(one.cpu_ms),
        rounded(one.largest_bytes),
    ]
}

fn print_users(users: &[OfUser]) -> String {
    let mut table = vec![OF_USER.map(str::to_owned).to_vec()];
    table.extend(users.iter().map(|one| words(one).to_vec()));
    aligned(&table, &[false, true, true, true, true, true])
}

fn print_months(months: &[OfUser]) -> String {
    let mut table = vec![[&["MONTH"], &OF_USER[..]].concat().iter().map(|word| (*word).to_owned()).collect()];
    table.extend(months.iter().map(|one| [std::slice::from_ref(&one.month), &words(one)[..]].concat()));
    aligned(&table, &[false, false, true, true, true, true, true])
}

/// An amount of memory to the MiB.
fn rounded(bytes: u64) -> String {
    format!("{}M", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use tutti_protocol::end::Ending;

    use super::*;

    fn one(job: u64, uid: u32, elapsed_ms: u64, status: u8) -> Account {
        Account {
            job,
            user: uid.to_string(),
            uid,
            name: String::new(),
            state: "over".into(),
            ranks: 4,
            nodes: vec!["a".into()],
            start_ms: Some(0),
            end_ms: Some(elapsed_ms),
            elapsed_ms,
            cpu_ms: Some(elapsed_ms / 2),
            largest_bytes: Some(job << 20),
            status: Some(status),
            end: Some(Ending::default().end(status)),
            command: "./a".into(),
        }
    }

    #[test]
    fn account_of_users_sums_their_jobs() {
        let jobs = [one(1, 7, 1000, 0), one(2, 8, 10, 1), one(3, 7, 3_600_000, 0)];
        let users = by_user(&jobs, |_| String::new());
        let shown = print_users(&users);
        let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["7", "2", "0", "4:00:04", "30:00", "3M"]);
        assert_eq!(lines[2], ["8", "1", "1", "0:00", "0.00", "2M"]);
    }

    #[test]
    fn account_of_months_has_each_user_in_each_month() {
        let day_ms = 24 * 3_600_000;
        let late = Account { start_ms: Some(60 * day_ms), ..one(3, 7, 2000, 0) };
        let early = Account { start_ms: Some(15 * day_ms), ..one(1, 7, 1000, 1) };
        let other = Account { start_ms: Some(15 * day_ms), ..one(2, 8, 10, 0) };
        let shown = print_months(&by_user(&[early, other, late], month_of));
        let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["1970-01", "7", "1", "1", "0:04", "0.50", "1M"]);
        assert_eq!(lines[2][..2], ["1970-01", "8"]);
        assert_eq!(lines[3], ["1970-03", "7", "1", "0", "0:08", "1.00", "3M"]);
    }

    #[test]
    fn account_of_a_job_has_start_end_processor_time_and_memory() {
        let shown = print_jobs(&[one(5, 7, 61_000, 3)]);
        let line: Vec<&str> = shown.lines().nth(1).expect("a job").split_whitespace().collect();
        assert_eq!(line[..6], ["5", "7", "over(3)", "failed:3", "4", "1"]);
        assert_eq!(&line[line.len() - 5..], ["1:01", "30.50", "5M", "-", "./a"], "{shown}");
    }
}
