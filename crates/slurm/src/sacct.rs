//! `sacct`: jobs and their steps with states, times and use.

use std::collections::BTreeMap;
use std::process::ExitCode;

use tutti_client::node_list;

use crate::forms::{self, NamedJob};
use crate::getopt::{self, Spec, Takes};
use crate::identity;
use crate::moments::{self, Day};
use crate::names::CLUSTER;
use crate::output::{self, print, refuse};
use crate::query;
use crate::selection::Selection;
use crate::table;
use crate::view::{Job, State, states};

pub mod columns;

use Takes::{Nothing, Value};

const NAME: &str = "sacct";

pub const SPECS: &[Spec] = &[
    ("accounts", 'A', Value),
    ("allclusters", 'L', Nothing),
    ("allocations", 'X', Nothing),
    ("allusers", 'a', Nothing),
    ("array", '\0', Nothing),
    ("brief", 'b', Nothing),
    ("clusters", 'M', Value),
    ("completion", 'c', Nothing),
    ("delimiter", '\0', Value),
    ("duplicates", 'D', Nothing),
    ("endtime", 'E', Value),
    ("format", 'o', Value),
    ("group", 'g', Value),
    ("help", 'h', Nothing),
    ("helpformat", 'e', Nothing),
    ("jobs", 'j', Value),
    ("json", '\0', Nothing),
    ("local", '\0', Nothing),
    ("long", 'l', Nothing),
    ("name", '\0', Value),
    ("ncpus", 'I', Value),
    ("nnodes", 'i', Value),
    ("noconvert", '\0', Nothing),
    ("nodelist", 'N', Value),
    ("noheader", 'n', Nothing),
    ("parsable", 'p', Nothing),
    ("parsable2", 'P', Nothing),
    ("partition", 'r', Value),
    ("qos", 'q', Value),
    ("starttime", 'S', Value),
    ("state", 's', Value),
    ("truncate", 'T', Nothing),
    ("uid", '\0', Value),
    ("units", '\0', Value),
    ("usage", '\0', Nothing),
    ("user", 'u', Value),
    ("verbose", 'v', Nothing),
    ("version", 'V', Nothing),
    ("yaml", '\0', Nothing),
];

/// Question of a user.
#[derive(Debug, Default)]
pub struct Asked {
    columns: Vec<columns::Column>,
    jobs: Option<Vec<NamedJob>>,
    names: Option<Vec<String>>,
    users: Option<Vec<u32>>,
    states: Option<Vec<State>>,
    selection: Selection,
    since_ms: Option<u64>,
    until_ms: Option<u64>,
    manner: Manner,
}

/// Form of the table.
#[derive(Debug, Default)]
struct Manner {
    no_header: bool,
    jobs_alone: bool,
    /// Between columns; none: columns have their widths.
    delimiter: Option<String>,
    /// One stands behind the last column too.
    closes: bool,
    units: Option<char>,
}

/// Runs the command.
pub fn run(words: &[String]) -> ExitCode {
    let usage = "Usage: sacct [-X] [-n] [-P|-p] [-j jobs] [-o columns] [-S start] [-E end] [-s states] [-u users] [--name names]";
    let line = match output::read(NAME, SPECS, usage, words) {
        Ok(line) => line,
        Err(status) => return status,
    };
    if line.has("helpformat") {
        return print(&columns::help());
    }
    let listed = read(&line).and_then(|asked| list(&asked));
    match listed {
        Ok(text) => print(&text),
        Err(text) => refuse(NAME, &text, 1),
    }
}

pub fn read(line: &getopt::Line) -> Result<Asked, String> {
    let mut asked = Asked::default();
    let mut delimiter = "|".to_owned();
    let set = std::env::var("SACCT_FORMAT").ok().filter(|format| !format.is_empty());
    let (mut is_parsable, mut format) = (false, set.unwrap_or_else(|| columns::DEFAULT.to_owned()));
    let list = |value: &str| value.split(',').map(|word| word.trim().to_owned()).collect::<Vec<_>>();
    for (name, value) in &line.options {
        match *name {
            "allocations" => asked.manner.jobs_alone = true,
            "noheader" => asked.manner.no_header = true,
            "parsable" => (is_parsable, asked.manner.closes) = (true, true),
            "parsable2" => (is_parsable, asked.manner.closes) = (true, false),
            "delimiter" => delimiter = value.clone(),
            "brief" => format = columns::BRIEF.into(),
            "long" => format = columns::LONG.into(),
            "format" => format = value.clone(),
            "jobs" => {
                let jobs = forms::job_ids(value).map_err(|word| format!("Invalid job id: {word}"))?;
                asked.jobs.get_or_insert_default().extend(jobs);
            }
            "name" => asked.names = Some(list(value)),
            "user" | "uid" => {
                let uids = list(value).into_iter().map(|user| identity::uid_of(&user).ok_or(user));
                let uids: Result<Vec<u32>, String> = uids.collect();
                asked.users = Some(uids.map_err(|user| format!("Invalid user id: {user}"))?);
            }
            "state" => {
                asked.states = Some(states(value).ok_or_else(|| format!("Invalid state: {value}"))?);
            }
            "starttime" => asked.since_ms = Some(moments::moment(value, Day::Today)?),
            "endtime" => asked.until_ms = Some(moments::moment(value, Day::Today)?),
            "units" => {
                let unit = value.chars().next().map(|unit| unit.to_ascii_uppercase());
                let unit = unit.filter(|unit| "KMGT".contains(*unit));
                asked.manner.units = Some(unit.ok_or_else(|| format!("Invalid units: {value}"))?);
            }
            "clusters" if value != CLUSTER && value != "all" => {
                return Err(format!("--clusters={value}: there is one cluster: {CLUSTER}"));
            }
            "json" | "yaml" => {
                return Err("--json and --yaml are not there: `tutti account --json` has all jobs".into());
            }
            "nodelist" => {
                let nodes = node_list::expand(value).ok_or_else(|| format!("Invalid node name: {value}"))?;
                asked.selection.set_nodes(nodes);
            }
            "group" | "ncpus" | "nnodes" | "completion" | "truncate" => {
                return Err(format!("--{name} is not there: `tutti account --json` has all jobs"));
            }
            name => _ = asked.selection.take(name, value),
        }
    }
    if is_parsable {
        asked.manner.delimiter = Some(delimiter);
    }
    asked.columns = columns::read(&format)?;
    Ok(asked)
}

/// A line: a job, its script, or a step of it.
enum Part<'a> {
    Job,
    Script,
    Step(usize, &'a Job),
}

fn list(asked: &Asked) -> Result<String, String> {
    let (jobs, steps) = known(asked)?;
    let now_ms = query::now_ms();
    let takes = |job: &&Job| {
        let begun_ms = job.row.started_ms.unwrap_or(job.row.submitted_ms);
        let is_in_time = asked.until_ms.is_none_or(|until_ms| job.row.submitted_ms <= until_ms)
            && asked.since_ms.is_none_or(|since_ms| {
                job.row.ended_ms.is_none_or(|ended_ms| ended_ms >= since_ms) || begun_ms >= since_ms
            });
        let own = || {
            asked.users.is_some()
                || asked.jobs.is_some()
                || job.row.uid == identity::own_uid()
                || identity::own_uid() == 0
        };
        is_in_time
            && own()
            && asked.selection.has(job)
            && asked.users.as_ref().is_none_or(|users| users.contains(&job.row.uid))
            && asked.names.as_ref().is_none_or(|names| names.contains(&job.name()))
            && asked.states.as_ref().is_none_or(|states| states.contains(&job.state()))
            && asked.jobs.as_ref().is_none_or(|names| {
                names.iter().any(|name| query::named(std::slice::from_ref(job), name).next().is_some())
            })
    };
    let mut of_job: BTreeMap<u64, Vec<&Job>> = BTreeMap::new();
    for step in &steps {
        of_job.entry(step.row.owner().map_or(0, |job| job.0)).or_default().push(step);
    }
    let mut text = header(asked);
    let wanted: Vec<&Job> = jobs.iter().filter(takes).collect();
    for entry in entries(&wanted) {
        let job = entry.0;
        let named_step = |index: &str| {
            let names = asked
                .jobs
                .iter()
                .flatten()
                .filter(|name| query::named(std::slice::from_ref(job), name).next().is_some());
            let names: Vec<&NamedJob> = names.collect();
            names.is_empty() || names.iter().any(|name| name.step.as_deref().is_none_or(|step| step == index))
        };
        if named_step("") {
            text.push_str(&row(asked, job, &Part::Job, &entry.1, now_ms));
        }
        if asked.manner.jobs_alone || job.state() == State::Pending {
            continue;
        }
        if job.row.is_script() && named_step("batch") {
            text.push_str(&row(asked, job, &Part::Script, &[], now_ms));
        }
        for (index, step) in of_job.get(&job.row.job.0).into_iter().flatten().enumerate() {
            if named_step(&index.to_string()) {
                text.push_str(&row(asked, job, &Part::Step(index, step), &[], now_ms));
            }
        }
    }
    Ok(text)
}

/// Jobs that the daemon knows; and what the log has besides, where a job is named that it does not know, or a
/// time without names.
fn known(asked: &Asked) -> Result<(Vec<Job>, Vec<Job>), String> {
    let (jobs, steps) = query::jobs()?;
    let is_missing = |name: &NamedJob| query::named(&jobs, name).next().is_none();
    let needs_past = match &asked.jobs {
        Some(named) => named.iter().any(is_missing),
        None => asked.names.is_none() && asked.since_ms.is_some(),
    };
    if needs_past { query::jobs_with_past() } else { Ok((jobs, steps)) }
}

/// Jobs, with the elements of an array that wait as one.
fn entries<'a>(jobs: &[&'a Job]) -> Vec<(&'a Job, Vec<u32>)> {
    let mut entries: Vec<(&Job, Vec<u32>)> = Vec::new();
    for &job in jobs {
        let waiting = job.element().filter(|_| job.state() == State::Pending);
        let same = |entry: &&mut (&Job, Vec<u32>)| {
            !entry.1.is_empty() && waiting.is_some_and(|element| entry.0.array_job() == element.job)
        };
        match (waiting, entries.iter_mut().find(same)) {
            (Some(element), Some(entry)) => entry.1.push(element.task),
            (Some(element), None) => entries.push((job, vec![element.task])),
            (None, _) => entries.push((job, Vec::new())),
        }
    }
    entries
}

fn header(asked: &Asked) -> String {
    if asked.manner.no_header {
        return String::new();
    }
    let names: Vec<String> = asked.columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut text = joined(asked, &names);
    if asked.manner.delimiter.is_none() {
        let dashes: Vec<String> =
            asked.columns.iter().map(|(_, width)| "-".repeat(width.unsigned_abs() as usize)).collect();
        text.push_str(&joined(asked, &dashes));
    }
    text
}

fn joined(asked: &Asked, values: &[String]) -> String {
    let Some(delimiter) = &asked.manner.delimiter else {
        let fields = values.iter().zip(&asked.columns).map(|(value, (_, width))| {
            let size = width.unsigned_abs() as usize;
            let is_long = value.chars().count() > size && size > 0;
            let value =
                if is_long { value.chars().take(size - 1).chain(['+']).collect() } else { value.clone() };
            table::fit(&value, Some(size), *width > 0)
        });
        // Each column ends with a blank.
        return fields.map(|field| field + " ").collect::<String>() + "\n";
    };
    let end = if asked.manner.closes { delimiter } else { "" };
    format!("{}{end}\n", values.join(delimiter))
}

fn row(asked: &Asked, job: &Job, part: &Part<'_>, waiting: &[u32], now_ms: u64) -> String {
    let values = asked.columns.iter().map(|(name, _)| field(asked, name, job, part, waiting, now_ms));
    // What they have of the job's user is what it shows.
    joined(asked, &values.map(|value| table::shown(&value)).collect::<Vec<_>>())
}

fn field(asked: &Asked, name: &str, job: &Job, part: &Part<'_>, waiting: &[u32], now_ms: u64) -> String {
    let of = if let Part::Step(_, step) = part { step } else { job };
    let is_job = matches!(part, Part::Job);
    let time_format = std::env::var("SLURM_TIME_FORMAT").ok();
    let moment =
        |ms: Option<u64>| ms.map_or_else(|| "Unknown".into(), |ms| forms::moment(ms, time_format.as_deref()));
    let suffix = match part {
        Part::Job => String::new(),
        Part::Script => ".batch".into(),
        Part::Step(index, _) => format!(".{index}"),
    };
    let state = of.state();
    let is_placed = state != State::Pending && !of.row.nodes.is_empty();
    let cores = if matches!(part, Part::Script) { 1.max(of.cores() / of.nodes()) } else { of.cores() };
    let cpu_s = of.elapsed_s(now_ms) * cores;
    let used = of.row.used();
    match name {
        "JobID" if !waiting.is_empty() => {
            let at_once = job.element().filter(|element| element.shape.at_once > 0);
            let at_once = at_once.map_or_else(String::new, |element| format!("%{}", element.shape.at_once));
            format!("{}_[{}{at_once}]", job.array_job(), forms::tasks(waiting))
        }
        "JobID" => job.id() + &suffix,
        "JobIDRaw" if !waiting.is_empty() => job.array_job().to_string(),
        "JobIDRaw" => format!("{}{suffix}", job.number()),
        "JobName" => match part {
            Part::Script => "batch".into(),
            _ => of.name(),
        },
        "State" if is_job && state == State::Cancelled => format!("CANCELLED by {}", job.canceller()),
        "State" => state.long().into(),
        "ExitCode" | "DerivedExitCode" => of.exit(),
        "NodeList" if !is_placed => "None assigned".into(),
        "NodeList" if matches!(part, Part::Script) => of.row.nodes[0].clone(),
        "NodeList" => node_list::fold(&of.row.nodes),
        "Partition" if is_job => CLUSTER.into(),
        "Cluster" => CLUSTER.into(),
        "Account" => job.asked.account().to_owned(),
        "User" if is_job => job.user(),
        "UID" if is_job => job.row.uid.to_string(),
        "Comment" if is_job => job.asked.comment().to_owned(),
        "QOS" if is_job => "normal".into(),
        "Priority" if is_job => job.row.weight.to_string(),
        "Reason" if is_job => job.reason().into(),
        "Submit" | "Eligible" => moment(Some(of.row.submitted_ms)),
        "Start" => moment(of.row.started_ms),
        "End" => moment(of.row.ended_ms.filter(|_| state.is_over())),
        "Elapsed" => forms::long_time(of.elapsed_s(now_ms)),
        "ElapsedRaw" => of.elapsed_s(now_ms).to_string(),
        "CPUTime" => forms::long_time(cpu_s),
        "CPUTimeRAW" => cpu_s.to_string(),
        "Timelimit" if is_job => {
            job.row.limit_ms.map_or_else(|| "UNLIMITED".into(), |ms| forms::long_time(ms / 1000))
        }
        "TimelimitRaw" if is_job => {
            job.row.limit_ms.map_or_else(|| "UNLIMITED".into(), |ms| ms.div_ceil(60_000).to_string())
        }
        "WorkDir" if is_job => job.asked.folder().to_owned(),
        "AllocCPUS" | "NCPUS" if state == State::Pending && name == "AllocCPUS" => "0".into(),
        "AllocCPUS" | "NCPUS" | "ReqCPUS" => cores.to_string(),
        "AllocNodes" if !is_placed => "0".into(),
        "AllocNodes" | "NNodes" | "ReqNodes" => {
            if matches!(part, Part::Script) {
                "1".into()
            } else {
                of.nodes().to_string()
            }
        }
        "NTasks" => match part {
            Part::Job => String::new(),
            Part::Script => "1".into(),
            Part::Step(_, step) => step.tasks().to_string(),
        },
        "ReqMem" => match (job.row.memory_bytes, asked.manner.units) {
            (0, _) => "0".into(),
            (bytes, None) => forms::size(bytes),
            (bytes, Some(unit)) => in_units(bytes, unit),
        },
        "MaxRSS" | "AveRSS" if is_job => String::new(),
        "MaxRSS" | "AveRSS" => used.map_or_else(String::new, |used| memory(used.largest_bytes, asked)),
        "TotalCPU" => used.map_or_else(|| "00:00:00".into(), |used| forms::cpu_time(used.cpu_us)),
        "AveCPU" if !is_job => {
            used.map_or_else(String::new, |used| forms::long_time(used.cpu_us / 1_000_000))
        }
        // What is not measured is empty, never invented.
        _ => String::new(),
    }
}

fn in_units(bytes: u64, unit: char) -> String {
    let shift = 10 * (1 + "KMGT".find(unit).unwrap_or(0));
    // As in Slurm a whole number has no decimals.
    match bytes.trailing_zeros() as usize >= shift {
        true => format!("{}{unit}", bytes >> shift),
        false => format!("{:.2}{unit}", bytes as f64 / (1_u64 << shift) as f64),
    }
}

/// Memory as it was measured: in K, unless units are asked for.
fn memory(bytes: u64, asked: &Asked) -> String {
    match asked.manner.units {
        None => format!("{}K", bytes >> 10),
        Some(unit) => in_units(bytes, unit),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::getopt::Ends;
    use crate::view::tests::{self, job};

    fn asked(text: &str) -> Result<Asked, String> {
        let words = shlex::split(text).unwrap();
        read(&getopt::parse(SPECS, &words, Ends::AtDashes).map_err(|error| error.to_string())?)
    }

    fn shown(text: &str, job: &Job) -> String {
        let asked = asked(text).unwrap();
        header(&asked) + &row(&asked, job, &Part::Job, &[], 62_000)
    }

    #[test]
    fn account_has_slurms_columns() {
        let one = job(
            7,
            json!({"state": "over", "status": 3, "ended_ms": 62_000, "end": tests::end("failed", 3, 0)}),
        );
        assert_eq!(shown("-n --format=jobid,state%20 -X", &one), format!("{:>12} {:>20} \n", 7, "FAILED"));
        assert_eq!(
            shown("-P -o JobID,State,ExitCode,Elapsed", &one),
            "JobID|State|ExitCode|Elapsed\n7|FAILED|3:0|00:01:00\n"
        );
        assert_eq!(shown("-p -n -o JobIDRaw,NodeList", &one), "7|n1|\n");
        assert_eq!(shown("-n -o nodelist%-6", &one), "n1     \n");
        // The beginning of a name means the first of Slurm's list that begins so.
        assert_eq!(shown("-nP -o job,maxr,ReqMem", &one), "7||0\n");
        assert_eq!(shown("-nP -o SubmitLine,AdminComment,TimelimitRaw", &one), "||UNLIMITED\n");
        let cancelled = job(
            8,
            json!({"state": "over", "status": 137, "ended_ms": 9_000, "end": {"kind": "cancelled", "code": 0, "signal": 0, "by_uid": 0}}),
        );
        assert_eq!(shown("-nP -o State", &cancelled), "CANCELLED by 0\n");
        assert_eq!(shown("-n -o State", &cancelled), "CANCELLED+ \n");
        let default = shown("", &one);
        assert_eq!(default.lines().count(), 3);
        assert!(default.lines().nth(1).is_some_and(|line| line.starts_with("------------ ---------- ")));
        let waiting = job(9, json!({"state": "waiting", "nodes": [], "started_ms": null}));
        assert_eq!(
            shown("-nP -o NodeList,Start,End,State", &waiting),
            "None assigned|Unknown|Unknown|PENDING\n"
        );
    }

    #[test]
    fn account_refuses_what_slurm_refuses() {
        assert_eq!(asked("-nu root -o Account%256 | tail -1").unwrap_err(), "invalid option -- '1'");
        assert_eq!(asked("-o frob").unwrap_err(), "Invalid field requested: \"frob\"");
        assert!(asked("-S yesterday-ish").is_err() && asked("-j x").is_err());
        for text in ["-S 2026-11-28", "-S 2026-11-26T04:00 -E now", "-S now-2days", "-S today"] {
            asked(text).unwrap();
        }
    }

    #[test]
    fn every_column_has_a_value_or_is_empty() {
        let one = job(7, json!({}));
        let all: Vec<&str> = columns::COLUMNS.iter().map(|(name, _)| *name).collect();
        let text = shown(&format!("-P -o {}", all.join(",")), &one);
        assert_eq!(shown("-P -o ALL", &one), text);
        assert_eq!(
            text.lines().map(|line| line.matches('|').count()).collect::<Vec<_>>(),
            [all.len() - 1; 2]
        );
    }
}
