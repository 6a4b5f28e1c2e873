//! `scancel`: jobs are ended, or get a signal.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::process::ExitCode;

use tutti_client::node_list;
use tutti_client::requests::{Control, JobId, NotDone};

use crate::forms::{self, NamedJob};
use crate::getopt::{self, Spec, Takes};
use crate::identity;
use crate::names::{CLUSTER, no_cluster};
use crate::output::{self, complain, refuse};
use crate::query::{self, NO_JOB};
use crate::selection::Selection;
use crate::view::{Job, State, states};

use Takes::{Nothing, Value};

const NAME: &str = "scancel";
/// Status where no controller answers.
const UNREACHED: u8 = 8;

pub const SPECS: &[Spec] = &[
    ("account", 'A', Value),
    ("batch", 'b', Nothing),
    ("clusters", 'M', Value),
    ("ctld", '\0', Nothing),
    ("full", 'f', Nothing),
    ("help", '\0', Nothing),
    ("hurry", 'H', Nothing),
    ("interactive", 'i', Nothing),
    ("jobname", 'n', Value),
    ("me", '\0', Nothing),
    ("name", '\0', Value),
    ("nodelist", 'w', Value),
    ("partition", 'p', Value),
    ("qos", 'q', Value),
    ("quiet", 'Q', Nothing),
    ("reservation", 'R', Value),
    ("sibling", '\0', Value),
    ("signal", 's', Value),
    ("state", 't', Value),
    ("usage", '\0', Nothing),
    ("user", 'u', Value),
    ("verbose", 'v', Nothing),
    ("version", 'V', Nothing),
    ("wckey", '\0', Value),
];

/// Request of a user.
#[derive(Debug, Default)]
pub struct Asked {
    jobs: Vec<NamedJob>,
    names: Option<Vec<String>>,
    users: Option<Vec<u32>>,
    states: Option<Vec<State>>,
    selection: Selection,
    signal: Option<u32>,
    target: Target,
    verbose: bool,
    quiet: bool,
    /// Whether each job is asked about.
    asks: bool,
}

/// Parts of a job that get a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Target {
    /// Steps.
    #[default]
    Steps,
    /// The script and its steps.
    All,
    /// The script alone.
    Script,
}

/// Status for a job of another user: the lowest byte of the number that the error has in Slurm.
const DENIED: u8 = 210;

/// Runs the command.
pub fn run(words: &[String]) -> ExitCode {
    let usage = "Usage: scancel [-i] [-n name] [--me] [-p partition] [-Q] [-s signal] [-f] [-t state] [-u user] [-v] [-w nodes] [JOB[_TASK][.STEP] ...]";
    let line = match output::read(NAME, SPECS, usage, words) {
        Ok(line) => line,
        Err(status) => return status,
    };
    let asked = match read(&line) {
        Ok(asked) => asked,
        Err(text) => return refuse(NAME, &text, 1),
    };
    let has_filter = asked.names.is_some()
        || asked.users.is_some()
        || asked.states.is_some()
        || asked.selection.is_given();
    if asked.jobs.is_empty() && !has_filter {
        return refuse(NAME, "No job identification provided", 1);
    }
    let (jobs, steps) = match query::jobs() {
        Ok(found) => found,
        Err(text) => return refuse(NAME, &text, UNREACHED),
    };
    cancel(&asked, &jobs, &steps)
}

pub fn read(line: &getopt::Line) -> Result<Asked, String> {
    let mut asked = Asked::default();
    let list = |value: &str| value.split(',').map(str::to_owned).collect::<Vec<_>>();
    for (name, value) in &line.options {
        match *name {
            "name" | "jobname" => asked.names = Some(list(value)),
            "me" => asked.users = Some(vec![identity::own_uid()]),
            "user" => {
                let uid = identity::uid_of(value).ok_or_else(|| format!("Invalid user name: {value}"))?;
                asked.users = Some(vec![uid]);
            }
            "state" => {
                asked.states = Some(states(value).ok_or_else(|| format!("Invalid job state: {value}"))?);
            }
            "nodelist" => {
                let nodes = node_list::expand(value).ok_or_else(|| format!("Invalid node name: {value}"))?;
                asked.selection.set_nodes(nodes);
            }
            "signal" => {
                asked.signal =
                    Some(forms::signal(value).ok_or_else(|| format!("Unknown job signal: {value}"))?);
            }
            "full" => asked.target = Target::All,
            "batch" => asked.target = Target::Script,
            "verbose" => asked.verbose = true,
            "quiet" => asked.quiet = true,
            "clusters" if value != CLUSTER && value != "all" => {
                return Err(no_cluster(value));
            }
            "interactive" => asked.asks = true,
            // Every job is signalled by its daemon, and at once.
            "ctld" | "hurry" => {}
            name => _ = asked.selection.take(name, value),
        }
    }
    for operand in &line.operands {
        let names = forms::job_ids(operand).map_err(|word| format!("Invalid job id {word}"))?;
        asked.jobs.extend(names);
    }
    Ok(asked)
}

fn cancel(asked: &Asked, jobs: &[Job], steps: &[Job]) -> ExitCode {
    let mut status = ExitCode::SUCCESS;
    for name in &asked.jobs {
        let found: Vec<&Job> = query::named(jobs, name).collect();
        let shown =
            name.tasks.as_ref().map_or_else(|| name.job.to_string(), |tasks| shown_tasks(name.job, tasks));
        if asked.verbose {
            complain(NAME, &format!("Terminating job {shown}"));
        }
        if found.is_empty() && asked.verbose {
            complain(NAME, &format!("error: Kill job error on job id {shown}: {NO_JOB}"));
        }
        // An array is ended as one, unless only some of its elements are meant.
        let is_all = asked.signal.is_none() && !asked.asks && found.iter().all(|job| takes(asked, job));
        if let Some(array) = query::target(name, &found).filter(|_| is_all) {
            if let Err(refused) = query::control(array, Control::Kill)
                && found.iter().any(|job| !job.state().is_over())
            {
                fail(&shown, refused, &mut status);
            }
            continue;
        }
        for job in found.into_iter().filter(|job| takes(asked, job)) {
            if let Some(step) = name.step.as_deref().filter(|step| *step != "batch") {
                let own = steps.iter().filter(|step| step.row.owner() == Some(job.row.job));
                match step.parse::<usize>().ok().and_then(|index| own.clone().nth(index)) {
                    Some(step) => act(asked, step, &[], &mut status),
                    None if asked.quiet => {}
                    None => complain(
                        NAME,
                        &format!("error: Kill job error on job step id {}.{step}: {NO_JOB}", job.id()),
                    ),
                }
                continue;
            }
            act(asked, job, steps, &mut status);
        }
    }
    if asked.jobs.is_empty() {
        let meant: Vec<&Job> =
            jobs.iter().filter(|job| !job.state().is_over() && takes(asked, job)).collect();
        // An element that is in another state by then is not meant.
        let as_wholes = asked.signal.is_none() && asked.states.is_none() && !asked.asks;
        let wholes = if as_wholes { wholes(jobs, &meant) } else { BTreeSet::new() };
        if asked.verbose {
            meant.iter().for_each(|job| complain(NAME, &format!("Terminating job {}", job.id())));
        }
        for array in &wholes {
            if let Err(refused) = query::control(*array, Control::Kill) {
                let of_array = meant.iter().filter(|job| array_of(job) == Some(*array));
                of_array.for_each(|job| fail_if_open(job, &job.id(), refused.clone(), &mut status));
            }
        }
        let of_none = |job: &&Job| array_of(job).is_none_or(|array| !wholes.contains(&array));
        meant.into_iter().filter(of_none).for_each(|job| act(asked, job, steps, &mut status));
    }
    status
}

/// `7_3`, `7_[4-5]`.
fn shown_tasks(array: u64, tasks: &[u32]) -> String {
    match tasks {
        [one] => format!("{array}_{one}"),
        several => format!("{array}_[{}]", forms::tasks(several)),
    }
}

fn array_of(job: &Job) -> Option<JobId> {
    job.element().map(|element| JobId(element.job))
}

/// Arrays of which all elements are meant that are not over: one question ends all of them.
fn wholes(jobs: &[Job], meant: &[&Job]) -> BTreeSet<JobId> {
    let mut open = BTreeMap::<JobId, usize>::new();
    for array in jobs.iter().filter(|job| !job.state().is_over()).filter_map(array_of) {
        *open.entry(array).or_default() += 1;
    }
    for array in meant.iter().copied().filter_map(array_of) {
        open.entry(array).and_modify(|open| *open -= 1);
    }
    open.into_iter().filter(|(_, others)| *others == 0).map(|(array, _)| array).collect()
}

fn takes(asked: &Asked, job: &Job) -> bool {
    asked.names.as_ref().is_none_or(|names| names.contains(&job.name()))
        && asked.users.as_ref().is_none_or(|users| users.contains(&job.row.uid))
        && asked.states.as_ref().is_none_or(|states| states.contains(&job.state()))
        && asked.selection.has(job)
}

/// Question of `--interactive` about a job or a step.
fn question(job: &Job) -> String {
    let kind = if job.row.owner().is_some() { "step" } else { "job" };
    format!("Cancel {kind}_id={} name={} partition={CLUSTER} [y/n]? ", job.id(), job.name())
}

/// Asks until the answer is yes or no. The end of stdin is a no.
fn is_confirmed(question: &str, answers: &mut impl BufRead) -> bool {
    loop {
        _ = output::print(question);
        let mut answer = String::new();
        if answers.read_line(&mut answer).unwrap_or(0) == 0 {
            return false;
        }
        match answer.trim_start().chars().next() {
            Some('y' | 'Y') => return true,
            Some('n' | 'N') => return false,
            _ => {}
        }
    }
}

/// Ends a job, or gives the signal to it or to its steps.
fn act(asked: &Asked, job: &Job, steps: &[Job], status: &mut ExitCode) {
    if job.state().is_over() {
        if asked.verbose {
            complain(
                NAME,
                &format!(
                    "error: Kill job error on job id {}: Job/step already completing or completed",
                    job.id()
                ),
            );
        }
        return;
    }
    if asked.asks && !is_confirmed(&question(job), &mut std::io::stdin().lock()) {
        return;
    }
    let own = steps.iter().filter(|step| step.row.owner() == Some(job.row.job) && !step.state().is_over());
    let is_step = job.row.owner().is_some();
    let targets: Vec<(&Job, Control)> = match asked.signal {
        None => vec![(job, Control::Kill)],
        Some(signal) if asked.target == Target::Script && job.row.is_script() => {
            vec![(job, Control::SignalScript(signal))]
        }
        Some(9) if asked.target == Target::All || is_step => vec![(job, Control::Kill)],
        Some(signal) if asked.target == Target::All || is_step => vec![(job, Control::Signal(signal))],
        // As in Slurm the script itself gets none, but KILL is for all of the job.
        Some(9) => vec![(job, Control::Kill)],
        Some(signal) => own.map(|step| (step, Control::Signal(signal))).collect(),
    };
    for (target, control) in targets {
        if let Err(refused) = query::control(target.row.job, control) {
            fail_if_open(target, &job.id(), refused, status);
        }
    }
}

/// A job that has ended meanwhile is no error.
fn fail_if_open(job: &Job, shown: &str, refused: NotDone, status: &mut ExitCode) {
    let is_over = query::jobs().is_ok_and(|(jobs, steps)| {
        let now = jobs.iter().chain(&steps).find(|known| known.row.job == job.row.job);
        now.is_none_or(|now| now.state().is_over())
    });
    if !is_over {
        fail(shown, refused, status);
    }
}

/// The status is that of the first failure, as Slurm's.
fn fail(shown: &str, refused: NotDone, status: &mut ExitCode) {
    if *status == ExitCode::SUCCESS {
        *status = if refused.is_of_another { ExitCode::from(DENIED) } else { ExitCode::FAILURE };
    }
    complain(NAME, &format!("error: Kill job error on job id {shown}: {}", query::refusal(refused)));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::view::tests;

    #[test]
    fn arrays_that_are_meant_as_a_whole_are_ended_as_one() {
        let element = |number: u64, array: u64, state: &str| {
            let task = json!({"Task": {"array": array, "task": number}});
            tests::job(number, json!({"in_array": task, "state": state, "name": "x"}))
        };
        let jobs = [
            tests::job(1, json!({})),
            element(11, 10, "waiting"),
            element(12, 10, "running"),
            element(13, 10, "over"),
            element(21, 20, "waiting"),
            element(22, 20, "waiting"),
        ];
        let of = |meant: &[u64]| {
            let meant: Vec<&Job> = jobs.iter().filter(|job| meant.contains(&job.row.job.0)).collect();
            wholes(&jobs, &meant).into_iter().map(|array| array.0).collect::<Vec<_>>()
        };
        assert_eq!(of(&[1, 11, 12, 21, 22]), [10, 20]);
        assert_eq!(of(&[1, 11, 12, 21]), [10], "one element of the other is not meant");
        assert_eq!(of(&[1, 11]), [0; 0]);
        assert_eq!(of(&[]), [0; 0]);
    }
}
