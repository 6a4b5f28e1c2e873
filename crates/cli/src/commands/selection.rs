//! Commands that do something to several jobs: which ones, by number, user, name or state, and a line for
//! each.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use serde_json::json;
use tutti_os::stderr::{escape_control, print_line};
use tutti_protocol::array::ArrayTask;

use super::answer::OTHER_VERSION;
use crate::cluster::{self, Answer, Control, JobRow, Request};
use crate::stdout;
use tutti_client::filter::Filter;
use tutti_client::job_name::JobName;
use tutti_client::name_list::{self, NameList};
use tutti_client::states;

/// Numbers in one range, at most.
const RANGE_MAX: u64 = 10_000;

/// Which jobs are meant.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Their numbers: 7, 7-12 or 7,9; 12_3 or 12_[3-5]: tasks of an array
    #[arg(value_name = "JOB", required_unless_present_any = ["user", "name", "state"], value_parser = numbers)]
    jobs: Vec<Numbers>,
    /// Those of these users
    #[arg(long, short, value_name = "USER", value_delimiter = ',')]
    user: Vec<String>,
    /// Those with these names; a comma of a name is \,
    #[arg(long, short, value_name = "NAME", value_parser = name_list::parse)]
    name: Vec<NameList>,
    /// Those in these states
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = states::WORDS)]
    state: Vec<String>,
    /// For scripts
    #[arg(long)]
    json: bool,
}

/// The numbers of one word of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Numbers(Vec<JobName>);

/// Reads the number of one job.
///
/// # Errors
/// When it is none, or that of another user's daemon, as `tutti ps` shows it; a text for the user.
pub(super) fn number(text: &str) -> Result<JobName, String> {
    check_own(text)?;
    text.parse()
}

/// Refuses what `tutti ps` shows of other users: USER/NUMBER.
fn check_own(text: &str) -> Result<(), String> {
    let foreign = text.split_once('/').filter(|(_, number)| number.parse::<u64>().is_ok());
    let Some((user, number)) = foreign else { return Ok(()) };
    let user = escape_control(user);
    Err(format!("job {number} of {user} has another daemon, which only {user} and root can ask"))
}

fn numbers(text: &str) -> Result<Numbers, String> {
    check_own(text)?;
    if let Some(tasks) = JobName::tasks(text) {
        return tasks.map(Numbers);
    }
    let mut found = Vec::new();
    for part in text.split(',') {
        if part.contains('_') {
            found.push(part.parse()?);
            continue;
        }
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number =
            |text: &str| text.parse::<u64>().map_err(|_| "a number is expected, or a range such as 7-12");
        let (first, last) = (number(first)?, number(last)?);
        if last < first || last - first >= RANGE_MAX {
            return Err(format!("{part} is no range of at most {RANGE_MAX} numbers"));
        }
        found.extend((first..=last).map(JobName::Number));
    }
    Ok(Numbers(found))
}

/// Job in a list of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    job: u64,
    /// Array that it stands for.
    whole: bool,
    /// Array of which it is a task.
    array: Option<u64>,
}

impl Place {
    fn of(row: &JobRow) -> Self {
        let array = row.array_task().map(|task| task.array.0);
        Place { job: row.job.0, whole: row.array().is_some(), array }
    }
}

/// Jobs that are acted on, of those that were taken. What is done to an array is done to all its tasks: an
/// array is one job where all its open tasks are taken, and otherwise those of its tasks that are.
fn meant(places: &[Place], taken: Vec<bool>) -> Vec<u64> {
    let taken: BTreeMap<u64, bool> = places.iter().map(|place| place.job).zip(taken).collect();
    let is_taken = |job: u64| taken.get(&job).copied().unwrap_or(false);
    // Arrays of which a task is not taken.
    let in_part: BTreeSet<u64> =
        places.iter().filter(|place| !is_taken(place.job)).filter_map(|place| place.array).collect();
    let is_acted_on = |array: u64| is_taken(array) && !in_part.contains(&array);
    let of_own = |place: &&Place| match place.array {
        Some(array) => !is_acted_on(array),
        None => !place.whole || is_acted_on(place.job),
    };
    places.iter().filter(|place| is_taken(place.job)).filter(of_own).map(|place| place.job).collect()
}

/// Does it to each; a line for each of several, and for each refusal.
pub(super) fn control(options: &Options, control: Control, done: &str) -> Result<ExitCode, String> {
    let mut jobs: Vec<JobName> = options.jobs.iter().flat_map(|numbers| numbers.0.iter().copied()).collect();
    let is_filtered = !(options.user.is_empty() && options.name.is_empty() && options.state.is_empty());
    if is_filtered {
        let (user, state) = (options.user.clone(), options.state.clone());
        let filter = Filter { user, state, name: name_list::all(&options.name) };
        filter.check()?;
        let Answer::Jobs(rows) = cluster::request(&Request::Jobs { all: false })?.0 else {
            return Err(OTHER_VERSION.into());
        };
        let is_named = |row: &JobRow| {
            let of_array = |task: ArrayTask| {
                let names = [JobName::Task(task.array.0, task.task), JobName::Number(task.array.0)];
                names.iter().any(|name| jobs.contains(name))
            };
            jobs.is_empty()
                || jobs.contains(&JobName::Number(row.job.0))
                || row.array_task().is_some_and(of_array)
        };
        let places: Vec<Place> = rows.iter().map(Place::of).collect();
        let taken = rows
            .iter()
            .map(|row| filter.takes(states::of(row), &row.name, row.uid) && is_named(row))
            .collect();
        jobs = meant(&places, taken).into_iter().map(JobName::Number).collect();
        if jobs.is_empty() {
            return Err("no job is meant".into());
        }
    }
    let command = std::env::args().nth(1).unwrap_or_default();
    let (mut text, mut refused, mut numbers) = (String::new(), Vec::new(), Vec::new());
    for name in &jobs {
        let job = name.resolve();
        numbers.extend(job.as_ref().map(|job| job.0));
        match job.and_then(|job| cluster::request(&Request::Control(job, control))) {
            Ok(_) if jobs.len() > 1 || is_filtered => text.push_str(&format!("job {name} is {done}\n")),
            Ok(_) => {}
            Err(why) => {
                print_line(format_args!("tutti {command}: {why}"));
                let job =
                    if let JobName::Number(number) = name { json!(number) } else { json!(name.to_string()) };
                refused.push(json!({ "job": job, "why": why }));
            }
        }
    }
    let jobs = numbers;
    let is_well = refused.is_empty();
    if options.json {
        let value =
            if is_well { json!({ "jobs": jobs }) } else { json!({ "jobs": jobs, "refused": refused }) };
        text = format!("{value}\n");
    }
    let printed = stdout::print(Some(text), "");
    Ok(if is_well { printed } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn array_is_acted_on_as_one_job_where_all_its_tasks_are_meant() {
        let whole = |job| Place { job, whole: true, array: None };
        let task = |job, array| Place { job, whole: false, array: Some(array) };
        let places =
            [Place { job: 1, whole: false, array: None }, whole(10), task(11, 10), task(12, 10), whole(20)];
        let of =
            |jobs: &[u64]| meant(&places, places.iter().map(|place| jobs.contains(&place.job)).collect());
        assert_eq!(of(&[1, 10, 11, 12]), [1, 10]);
        assert_eq!(of(&[1, 10, 11]), [1, 11], "the other task is in another state");
        assert_eq!(of(&[10]), [0; 0], "all its tasks are in another state");
        assert_eq!(of(&[11, 12]), [11, 12], "the array has another name");
        assert_eq!(of(&[20]), [20], "none of its tasks is open");
        assert_eq!(of(&[]), [0; 0]);
    }

    #[test]
    fn jobs_are_numbers_ranges_and_lists() {
        let of = |text: &str| {
            numbers(text)
                .map(|numbers| numbers.0.iter().map(JobName::to_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(of("7"), Ok("7".into()));
        assert_eq!(of("7-9,12"), Ok("7 8 9 12".into()));
        assert_eq!(of("12_3,14"), Ok("12_3 14".into()));
        assert_eq!(of("12_[1-2,5]"), Ok("12_1 12_2 12_5".into()));
        for wrong in ["12_", "12_[5-1]", "", "x", "9-7", "1-", "-3", "0-99999999"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert!(of("bob/5").is_err_and(|text| text.contains("only bob and root")));
        assert!(number("bob/5").is_err_and(|text| text.contains("only bob and root")));
        assert!(number("7").is_ok() && number("x").is_err() && number("7-8").is_err());
    }
}
