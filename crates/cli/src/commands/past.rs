//! `tutti ps --history`: jobs of days and weeks before, from the history of the page.

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::Value;
use tutti_client::filter::Filter;
use tutti_client::moments::{self, elapsed, instant};
use tutti_client::name_list;
use tutti_client::table::aligned;
use tutti_client::users;
use tutti_os::stderr::{escape_control, print_line};

use crate::{page, stdout};

/// Jobs that are listed where no number is given: the newest ones.
const LIMIT: u32 = 1000;
/// Jobs that the page is asked for at once, and values of one kind that it looks for.
const PAGE_MAX: usize = 5000;
const MEANT_MAX: usize = 100;
/// States that the history tells apart.
const STATES: [&str; 3] = ["waiting", "running", "over"];

/// Part of the history that is listed.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Those of the last days too, from the history of the page
    #[arg(long, conflicts_with_all = ["all", "long", "others"])]
    history: bool,
    /// With --history: those that were there since this moment (2026-11-28, \"2026-11-28 14:30\", 12h, 7d)
    #[arg(long, value_name = "MOMENT", requires = "history", value_parser = moment)]
    since: Option<u64>,
    /// With --history: those that were there before this moment
    #[arg(long, value_name = "MOMENT", requires = "history", value_parser = moment)]
    until: Option<u64>,
}

impl Options {
    /// Whether the history is asked for.
    pub(super) fn is_asked(&self) -> bool {
        self.history
    }
}

fn moment(text: &str) -> Result<u64, String> {
    let now_ms = tutti_client::gather::now_ms();
    moments::parse(text, now_ms).ok_or_else(|| format!("{} is expected", moments::EXPECTED))
}

/// Answer of the page.
#[derive(Debug, Deserialize)]
struct Found {
    jobs: Vec<Value>,
    /// Older ones are left out; a page of release 0.2.0 does not say it.
    more: Option<bool>,
    gaps: Vec<(u64, Option<u64>, String)>,
}

/// A job, as far as the table shows it.
#[derive(Debug, Deserialize)]
struct Row {
    job: u64,
    uid: Option<u32>,
    user: Option<String>,
    name: Option<String>,
    command: Option<String>,
    ranks: Option<u64>,
    #[serde(flatten)]
    times: Times,
    status: Option<u8>,
}

#[derive(Debug, Deserialize)]
struct Times {
    submitted_ms: u64,
    started_ms: Option<u64>,
    ended_ms: Option<u64>,
    cpu_us: Option<u64>,
}

/// Prints the jobs that are asked for, oldest first.
///
/// # Errors
/// When there is no page, or it does not answer; a text for the user.
pub(super) fn run(
    options: &Options,
    filter: &Filter,
    limit: Option<u32>,
    json: bool,
) -> Result<ExitCode, String> {
    filter.check()?;
    if let Some(other) = filter.state.iter().find(|word| !STATES.contains(&word.as_str())) {
        let states = STATES.join(", ");
        return Err(format!("--state {other}: the history tells only these apart: {states}"));
    }
    moments::check_order(options.since, options.until)?;
    let limit = limit.unwrap_or(LIMIT) as usize;
    let Found { jobs, more, gaps } = ask(options, filter, limit)?;
    let rows = jobs.iter().filter_map(|value| {
        let row = Row::deserialize(value).ok()?;
        let (name, uid) = (row.name.as_deref().unwrap_or_default(), row.uid.unwrap_or(u32::MAX));
        filter.takes(state(&row), name, uid).then_some((row, value))
    });
    let mut rows: Vec<(Row, &Value)> = rows.collect();
    rows.reverse();
    let rest = more.unwrap_or(jobs.len() >= limit).then(|| rest(jobs.last()));
    let gaps = gaps.iter().map(|(from_ms, until_ms, why)| {
        let until = until_ms.map_or_else(|| "now".into(), instant);
        format!("gap from {} to {until}: {}", instant(*from_ms), escape_control(why))
    });
    if json {
        let values: Vec<&Value> = rows.iter().map(|(_, value)| *value).collect();
        let text = serde_json::to_string_pretty(&values).expect("rows are serialisable") + "\n";
        gaps.chain(rest).for_each(|line| print_line(format_args!("tutti ps: {line}")));
        return Ok(stdout::print(Some(text), ""));
    }
    let rows: Vec<Row> = rows.into_iter().map(|(row, _)| row).collect();
    let mut text = table(&rows);
    text.extend(gaps.chain(rest).map(|line| line + "\n"));
    Ok(stdout::print(Some(text), ""))
}

/// Asks the page for jobs, page by page, until there are so many.
fn ask(options: &Options, filter: &Filter, limit: usize) -> Result<Found, String> {
    let mut found = Found { jobs: Vec::new(), more: Some(false), gaps: Vec::new() };
    let question = question(options, filter);
    loop {
        let count = (limit - found.jobs.len()).min(PAGE_MAX);
        let behind = found.jobs.last().map_or_else(String::new, |last| {
            let number = |name: &str| last[name].as_i64().unwrap_or(0);
            format!("&behind_ms={}&behind_job={}", number("submitted_ms"), number("job"))
        });
        let page: Found = page::ask(&format!("{question}&limit={count}{behind}"))?;
        let is_last = page.jobs.is_empty() || page.more != Some(true);
        found.jobs.extend(page.jobs);
        (found.more, found.gaps) = (page.more, page.gaps);
        if is_last || found.jobs.len() >= limit {
            return Ok(found);
        }
    }
}

/// Question to the page: no fewer jobs than the filter takes.
fn question(options: &Options, filter: &Filter) -> String {
    let mut path = "/api/history?".to_owned();
    for (name, value) in [("since_ms", options.since), ("until_ms", options.until)] {
        path.extend(value.map(|ms| format!("&{name}={ms}")));
    }
    let uids: Option<Vec<String>> =
        filter.user.iter().map(|user| users::number(user).map(|uid| uid.to_string())).collect();
    let [names, states] = [&filter.name, &filter.state].map(|words| Some(words.clone()));
    for (name, words) in [("uid", uids), ("name", names), ("state", states)] {
        let words = words.filter(|words| !words.is_empty() && words.len() <= MEANT_MAX);
        path.extend(words.map(|words| format!("&{name}={}", page::encoded(&name_list::join(&words)))));
    }
    path
}

/// Line about the jobs that are left out behind the last one.
fn rest(last: Option<&Value>) -> String {
    let until = last.and_then(|last| last["submitted_ms"].as_u64());
    let until = until.map_or_else(|| "MOMENT".into(), |ms| format!("\"{}\"", instant(ms + 999)));
    format!("older jobs are left out: --limit lists more, --until {until} those before")
}

fn state(row: &Row) -> &'static str {
    match (row.times.started_ms, row.times.ended_ms) {
        (_, Some(_)) => "over",
        (Some(_), None) => "running",
        (None, None) => "waiting",
    }
}

fn table(rows: &[Row]) -> String {
    let head = ["JOB", "STATE", "USER", "RANKS", "SUBMITTED", "WAITED", "TIME", "CPU", "NAME", "COMMAND"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        let Times { submitted_ms, started_ms, ended_ms, cpu_us } = row.times;
        let text = |text: &Option<String>| {
            let text = text.as_deref().unwrap_or_default();
            if text.is_empty() { "-".into() } else { escape_control(text) }
        };
        table.push(vec![
            row.job.to_string(),
            match row.status {
                Some(status) => format!("over({status})"),
                None => state(row).to_owned(),
            },
            text(&row.user),
            row.ranks.map_or_else(|| "-".into(), |ranks| ranks.to_string()),
            instant(submitted_ms),
            elapsed(submitted_ms, started_ms.or(ended_ms)),
            started_ms.map_or_else(|| "-".into(), |started_ms| elapsed(started_ms, ended_ms)),
            cpu_us.map_or_else(|| "-".into(), |cpu_us| elapsed(0, Some(cpu_us / 1000))),
            text(&row.name),
            text(&row.command),
        ]);
    }
    aligned(&table, &[true, false, false, true, false, true, true, true, false, false])
}
