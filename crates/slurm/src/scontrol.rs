//! `scontrol`: what there is, in detail, and what is done to a job besides ending it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::ExitCode;

use tutti_client::node_list;
use tutti_client::requests::{Control, NodeRow, Request};
use tutti_protocol::users::Change;

use crate::forms;
use crate::getopt::{Spec, Takes};
use crate::moments::{self, Day};
use crate::names::{CLUSTER, VERSION};
use crate::output::{self, complain, print, refuse, refuse_plainly};
use crate::query::{self, NO_JOB};
use crate::reservations::Record;
use crate::squeue::MIN_JOB_AGE_MS;
use crate::table;
use crate::view::{Job, State};
use crate::{identity, reservations, sinfo};

use Takes::{Nothing, Value};

const NAME: &str = "scontrol";

pub const SPECS: &[Spec] = &[
    ("all", 'a', Nothing),
    ("clusters", 'M', Value),
    ("details", 'd', Nothing),
    ("federation", 'F', Nothing),
    ("future", '\0', Nothing),
    ("help", 'h', Nothing),
    ("hide", '\0', Nothing),
    ("json", '\0', Nothing),
    ("local", '\0', Nothing),
    ("oneliner", 'o', Nothing),
    ("quiet", 'Q', Nothing),
    ("sibling", '\0', Nothing),
    ("uid", 'u', Value),
    ("verbose", 'v', Nothing),
    ("version", 'V', Nothing),
    ("yaml", '\0', Nothing),
];

/// Keywords that are refused, and the command that does it here.
const REFUSED: [(&str, &str); 4] = [
    ("reconfigure", "`tutti config reload` does it"),
    ("shutdown", "`tutti down` does it"),
    ("takeover", "another node becomes the controller by itself"),
    ("reboot", "nodes are not rebooted"),
];

/// Runs the command.
pub fn run(words: &[String]) -> ExitCode {
    let usage = "Usage: scontrol [-o] show {job|node|partition|reservation|config|hostnames|hostlist} [NAME] | create reservation Nodes=LIST Users=USERS StartTime=TIME Duration=MINUTES | delete ReservationName=NAME | suspend, resume, hold, release, requeue JOB ... | update JobId=JOB [TimeLimit=LIMIT] [JobName=NAME] [StartTime=TIME] | update NodeName=NODES State={DRAIN|RESUME} [Reason=TEXT]";
    let line = match output::read(NAME, SPECS, usage, words) {
        Ok(line) => line,
        Err(status) => return status,
    };
    if line.has("json") || line.has("yaml") {
        return refuse(NAME, "--json and --yaml are not there: `tutti status JOB --json` has a job", 1);
    }
    let operands: Vec<&str> = line.operands.iter().map(String::as_str).collect();
    let Some((command, rest)) = operands.split_first() else {
        return refuse(NAME, "name what is to be done: it asks no questions", 1);
    };
    let done = match *command {
        "show" => show(rest, line.has("oneliner")),
        "ping" => query::nodes().map(|_| format!("Slurmctld(primary) at {} is UP\n", identity::host_name())),
        "version" => Ok(format!("{VERSION}\n")),
        "suspend" | "resume" | "hold" | "uhold" | "release" | "requeue" => control_all(command, rest),
        "update" => update(rest),
        "create" => reservations::create(rest),
        "delete" => reservations::delete(rest),
        other => match REFUSED.iter().find(|(name, _)| *name == other) {
            Some((_, why)) => Err(format!("{other} is not there: {why}")),
            None => Err(format!("invalid keyword: {other}")),
        },
    };
    match done {
        Ok(text) => print(&text),
        // What Slurm's library says begins with no command.
        Err(text) if PLAIN.iter().any(|known| text.contains(known)) => refuse_plainly(&text),
        Err(text) => refuse(NAME, &text, 1),
    }
}

/// Parts of lines that begin with no command.
const PLAIN: [&str; 10] = [
    "slurm_suspend error",
    "scontrol_print_job error",
    "is not supported: ",
    "No changes specified",
    "No valid entity",
    "slurm_load_jobs error",
    " for job ",
    " for keyword:",
    "invalid keyword",
    "too few arguments",
];

fn control_all(command: &str, names: &[&str]) -> Result<String, String> {
    if names.is_empty() {
        return Err(format!("too few arguments for keyword:{command}"));
    }
    let (jobs, _) = query::jobs()?;
    for name in names {
        let none = || match command {
            "hold" | "uhold" | "release" => format!("slurm_suspend error: {NO_JOB}"),
            _ => format!("{NO_JOB} for job {name}"),
        };
        let named = forms::job_ids(name).map_err(|_| none())?;
        for one in &named {
            let found: Vec<&Job> = query::named(&jobs, one).collect();
            if found.is_empty() {
                return Err(none());
            }
            if let Some(array) = query::target(one, &found).filter(|_| command != "requeue") {
                query::control(array, control_of(command)?)
                    .map_err(|refused| format!("{} for job {name}", query::refusal(refused)))?;
                continue;
            }
            for job in found {
                act(command, job)?;
            }
        }
    }
    Ok(String::new())
}

fn control_of(command: &str) -> Result<Control, String> {
    match command {
        "suspend" => Ok(Control::Suspend),
        "resume" => Ok(Control::Resume),
        "hold" | "uhold" => Ok(Control::Hold),
        "release" => Ok(Control::Release),
        "requeue" => Ok(Control::Requeue),
        _ => Err(format!("{command} is not there")),
    }
}

fn act(command: &str, job: &Job) -> Result<(), String> {
    let control = control_of(command)?;
    if control == Control::Requeue && !job.asked.may_requeue() {
        return Err(format!("Requested operation is presently disabled for job {}", job.id()));
    }
    let (state, id) = (job.state(), job.id());
    match command {
        "hold" | "uhold" | "release" if state.is_over() => {
            return Err("slurm_suspend error: Job has already finished".into());
        }
        // In Slurm it is held then if it is requeued.
        "hold" | "uhold" | "release" if state != State::Pending => return Ok(()),
        "suspend" if state.is_over() => {
            return Err(format!("Job/step already completing or completed for job {id}"));
        }
        _ if state.is_over() => return Err(format!("Job has already finished for job {id}")),
        "suspend" | "resume" | "requeue" if state == State::Pending => {
            return Err(format!("Job is pending execution for job {id}"));
        }
        "resume" if state != State::Suspended => return Err(format!("Job is not suspended for job {id}")),
        _ => {}
    }
    query::control(job.row.job, control)
        .map_err(|refused| format!("{} for job {}", query::refusal(refused), job.id()))
}

/// Gives jobs other values: `JobId=17 TimeLimit=10`.
fn update(words: &[&str]) -> Result<String, String> {
    if words.is_empty() {
        return Err("too few arguments for update keyword".into());
    }
    let is_of_nodes = |word: &&str| word.get(..9).is_some_and(|key| key.eq_ignore_ascii_case("nodename="));
    if words.iter().any(is_of_nodes) {
        return update_nodes(words);
    }
    let (mut change, mut named) = (Change::default(), None);
    let (mut is_more, mut is_less, mut is_ignored) = (false, false, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (key, value) = match word.split_once('=') {
            Some(pair) => pair,
            // `job 17`.
            None if ["job", "jobid"].contains(&&*word.to_ascii_lowercase()) => {
                (*word, *words.next().unwrap_or(&""))
            }
            None => return Err(format!("Invalid input: {word}")),
        };
        match key.to_ascii_lowercase().as_str() {
            "jobid" | "job" => named = Some(value),
            "priority" | "nice" | "qos" | "requeue" => {
                complain(NAME, &format!("{key} without effect on a cluster of Tutti"));
                is_ignored = true;
            }
            "partition" | "partitionname" if value == CLUSTER => is_ignored = true,
            "timelimit" => {
                let digits = value.strip_prefix(['+', '-']).unwrap_or(value);
                let limit = forms::time_limit(digits).ok_or("Invalid TimeLimit value")?;
                change.time_ms = Some(limit.ok_or("a time limit cannot be taken away, only changed")?);
                (is_more, is_less) = (value.starts_with('+'), value.starts_with('-'));
            }
            "jobname" | "name" => change.name = Some(value.to_owned()),
            "starttime" => change.begin_ms = Some(moments::moment(value, Day::Next)?),
            _ => return Err(format!("Update of this parameter is not supported: {word}")),
        }
    }
    let name = named.ok_or("No valid entity in update command: name a job, JobId=JOB")?;
    if change == Change::default() && !is_ignored {
        return Err("No changes specified".into());
    }
    let named = forms::job_ids(name).map_err(|_| format!("{NO_JOB} for job {name}"))?;
    let (jobs, _) = query::jobs()?;
    for one in &named {
        let found: Vec<&Job> = query::named(&jobs, one).collect();
        if found.is_empty() {
            return Err(format!("{NO_JOB} for job {name}"));
        }
        if change == Change::default() {
            continue;
        }
        for job in found {
            let mut change = change.clone();
            // `TimeLimit=+10` counts from the limit that the job has.
            if let Some(by_ms) = change.time_ms.filter(|_| is_more || is_less) {
                let now_ms = job
                    .row
                    .limit_ms
                    .ok_or_else(|| format!("no time limit to change for job {}", job.id()))?;
                let less = now_ms.checked_sub(by_ms).filter(|ms| *ms > 0);
                let changed = if is_more { Some(now_ms.saturating_add(by_ms)) } else { less };
                change.time_ms = Some(changed.ok_or_else(|| {
                    format!("TimeLimit decrement larger than current time limit for job {}", job.id())
                })?);
            }
            query::ask_of_job(&Request::Change(job.row.job, change))
                .map_err(|refused| format!("{} for job {}", query::refusal(refused), job.id()))?;
        }
    }
    Ok(String::new())
}

/// `update NodeName=NODES State=DRAIN Reason=TEXT`, and `State=RESUME`.
fn update_nodes(words: &[&str]) -> Result<String, String> {
    let (mut nodes, mut state, mut reason) = (Vec::new(), None, None);
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("Invalid input: {word}"))?;
        match key.to_ascii_lowercase().as_str() {
            "nodename" => {
                nodes =
                    node_list::expand(value).ok_or_else(|| format!("Invalid node name specified {value}"))?;
            }
            "state" => state = Some(value.to_ascii_uppercase()),
            "reason" => reason = Some(value.to_owned()).filter(|text| !text.is_empty()),
            _ => return Err(format!("Update of this parameter is not supported: {word}")),
        }
    }
    let state = state.ok_or("No changes specified")?;
    let request = |node: &String| match state.as_str() {
        "DRAIN" => {
            let why =
                reason.clone().ok_or("You must specify a reason when DRAINING a node. Request denied")?;
            Ok(Request::Drain(node.clone(), why))
        }
        "RESUME" | "UNDRAIN" | "IDLE" => Ok(Request::Undrain(node.clone())),
        _ => Err(format!("State={state} is not there: DRAIN keeps new jobs from a node, RESUME ends that")),
    };
    for node in &nodes {
        query::ask(&request(node)?)?;
    }
    Ok(String::new())
}

fn show(words: &[&str], in_one_line: bool) -> Result<String, String> {
    let Some((what, names)) = words.split_first() else {
        return Err("too few arguments for keyword:show".into());
    };
    // `show job=17` is `show job 17`.
    let (what, given) = what.split_once('=').map_or((*what, None), |(what, name)| (what, Some(name)));
    let names: Vec<&str> = given.into_iter().chain(names.iter().copied()).collect();
    let names = names.as_slice();
    let is = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(what));
    if is(&["hostname", "hostnames"]) {
        return host_names(names.first().copied());
    }
    if is(&["hostlist", "hostlistsorted"]) {
        let list = names.first().ok_or("too few arguments for keyword:show hostlist")?;
        let mut names = node_list::expand(list).ok_or_else(|| format!("Invalid hostlist: {list}"))?;
        if is(&["hostlistsorted"]) {
            names.sort();
        }
        return Ok(node_list::fold(&names) + "\n");
    }
    if is(&["config", "configuration"]) {
        return config();
    }
    if is(&["partition", "partitions"]) {
        if let Some(name) = names.first().filter(|name| **name != CLUSTER) {
            return Err(format!("Partition {name} not found"));
        }
        return Ok(record(&partition(&query::nodes()?), in_one_line));
    }
    if is(&["node", "nodes"]) {
        let nodes = query::nodes()?;
        let wanted = names.first().map(|list| node_list::expand(list).unwrap_or_default());
        let is_wanted = |node: &&NodeRow| wanted.as_ref().is_none_or(|names| names.contains(&node.name));
        let found: Vec<&NodeRow> = nodes.iter().filter(is_wanted).collect();
        if found.is_empty() {
            return Err(format!("Node {} not found", names.first().unwrap_or(&"")));
        }
        return Ok(found.into_iter().map(|one| record(&node(one), in_one_line)).collect());
    }
    if is(&["reservation", "reservations", "res"]) {
        let found = reservations::show(names.first().copied())?;
        let shown: String = found.iter().map(|one| record(one, in_one_line)).collect();
        return Ok(if shown.is_empty() { reservations::none() } else { shown });
    }
    if is(&["step", "steps"]) {
        return show_steps(names, in_one_line);
    }
    if is(&["licenses", "license"]) {
        return Ok("No licenses configured in Slurm.\n".into());
    }
    if is(&["topology"]) {
        complain(NAME, "error: No topology information available");
        return Ok(String::new());
    }
    if is(&["burstbuffer", "federation"]) {
        return Ok(String::new());
    }
    if is(&["job", "jobs", "jobid"]) {
        return show_jobs(names, in_one_line);
    }
    Err(format!("invalid entity:{what} for keyword:show"))
}

fn host_names(list: Option<&str>) -> Result<String, String> {
    let from_job = std::env::var("SLURM_JOB_NODELIST").ok();
    let list = list.map(str::to_owned).or(from_job).unwrap_or_default();
    if list.is_empty() {
        complain(NAME, "error: host list is empty");
        return Ok(String::new());
    }
    let names = node_list::expand(&list).ok_or_else(|| format!("Invalid hostlist: {list}"))?;
    Ok(names.into_iter().map(|name| name + "\n").collect())
}

fn config() -> Result<String, String> {
    let nodes = query::nodes()?;
    let controller = nodes.first().map(|node| node.name.clone()).unwrap_or_default();
    let mut text = format!("Configuration data as of {}\n", forms::moment(query::now_ms(), None));
    for (name, value) in [
        ("AccountingStorageEnforce", "none".to_owned()),
        ("AccountingStorageType", "accounting_storage/none".into()),
        ("ClusterName", CLUSTER.into()),
        ("DefMemPerNode", "UNLIMITED".into()),
        ("EnforcePartLimits", "NO".into()),
        ("GresTypes", if nodes.iter().any(|node| node.gpus().count() > 0) { "gpu" } else { "(null)" }.into()),
        ("InactiveLimit", "0 sec".into()),
        ("JobRequeue", "1".into()),
        ("JobSubmitPlugins", "(null)".into()),
        ("KillOnBadExit", "1".into()),
        ("KillWait", "10 sec".into()),
        ("LaunchParameters", "(null)".into()),
        ("Licenses", "(null)".into()),
        // As in Slurm: one more than the largest index.
        ("MaxArraySize", (forms::ARRAY_SIZE_MAX + 1).to_string()),
        ("MaxJobCount", "4000".into()),
        ("MaxMemPerNode", "UNLIMITED".into()),
        ("MaxStepCount", "40000".into()),
        ("MaxTasksPerNode", "512".into()),
        ("MinJobAge", format!("{} sec", MIN_JOB_AGE_MS / 1000)),
        ("MpiDefault", "none".into()),
        ("PreemptMode", "OFF".into()),
        ("PreemptType", "preempt/none".into()),
        ("PriorityType", "priority/basic".into()),
        ("PrologFlags", "(null)".into()),
        ("ProctrackType", "proctrack/cgroup".into()),
        ("SchedulerType", "sched/gang".into()),
        ("SelectType", "select/cons_tres".into()),
        ("SLURM_VERSION", VERSION.trim_start_matches("slurm ").into()),
        ("SlurmctldHost[0]", controller.clone()),
        ("TaskPlugin", "task/none".into()),
        ("WaitTime", "0 sec".into()),
    ] {
        let _ = writeln!(text, "{name:<23} = {value}");
    }
    let _ = writeln!(text, "\nSlurmctld(primary) at {controller} is UP");
    Ok(text)
}

fn record(lines: &Record, in_one_line: bool) -> String {
    let lines = lines.iter().map(|line| {
        let fields: Vec<String> =
            line.iter().map(|(name, value)| format!("{name}={}", table::shown(value))).collect();
        fields.join(" ")
    });
    let lines: Vec<String> = lines.collect();
    if in_one_line { lines.join(" ") + "\n" } else { lines.join("\n   ") + "\n\n" }
}

fn partition(nodes: &[NodeRow]) -> Record {
    let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let slots = nodes.iter().map(|node| node.slots).fold(0, u32::saturating_add);
    let mib = nodes.iter().map(|node| node.memory_bytes >> 20).fold(0, u64::saturating_add);
    vec![
        vec![("PartitionName", CLUSTER.into())],
        vec![("AllowGroups", "ALL".into()), ("AllowAccounts", "ALL".into()), ("AllowQos", "ALL".into())],
        vec![("AllocNodes", "ALL".into()), ("Default", "YES".into()), ("QoS", "N/A".into())],
        vec![
            ("DefaultTime", "NONE".into()),
            ("DisableRootJobs", "NO".into()),
            ("ExclusiveUser", "NO".into()),
            ("GraceTime", "0".into()),
            ("Hidden", "NO".into()),
        ],
        vec![
            ("MaxNodes", "UNLIMITED".into()),
            ("MaxTime", "UNLIMITED".into()),
            ("MinNodes", "0".into()),
            ("LLN", "NO".into()),
            ("MaxCPUsPerNode", "UNLIMITED".into()),
        ],
        vec![("Nodes", node_list::fold(&names))],
        vec![
            ("PriorityJobFactor", "1".into()),
            ("PriorityTier", "1".into()),
            ("RootOnly", "NO".into()),
            ("ReqResv", "NO".into()),
            ("OverSubscribe", "FORCE".into()),
        ],
        vec![("OverTimeLimit", "NONE".into()), ("PreemptMode", "OFF".into())],
        vec![
            ("State", "UP".into()),
            ("TotalCPUs", slots.to_string()),
            ("TotalNodes", nodes.len().to_string()),
            ("SelectTypeParameters", "NONE".into()),
        ],
        vec![("JobDefaults", "(null)".into())],
        vec![("DefMemPerNode", "UNLIMITED".into()), ("MaxMemPerNode", "UNLIMITED".into())],
        vec![("TRES", format!("cpu={slots},mem={mib}M,node={},billing={slots}", nodes.len()))],
    ]
}

fn node(node: &NodeRow) -> Record {
    let state = sinfo::state(node).to_ascii_uppercase();
    let state = match state.as_str() {
        "DRAINED" => "IDLE+DRAIN".into(),
        "DRAINING" => "MIXED+DRAIN".into(),
        _ => state,
    };
    let mib = |bytes: u64| (bytes >> 20).to_string();
    let mut lines = vec![
        vec![
            ("NodeName", node.name.clone()),
            ("Arch", std::env::consts::ARCH.into()),
            ("CoresPerSocket", format!("{} ", node.slots)),
        ],
        vec![
            ("CPUAlloc", node.ranks.min(u64::from(node.slots)).to_string()),
            ("CPUEfctv", node.slots.to_string()),
            ("CPUTot", node.slots.to_string()),
            ("CPULoad", "N/A".into()),
        ],
        vec![("AvailableFeatures", "(null)".into())],
        vec![("ActiveFeatures", "(null)".into())],
        vec![("Gres", sinfo::gres(node))],
        vec![
            ("NodeAddr", node.address.clone()),
            ("NodeHostName", node.name.clone()),
            ("Version", node.release.clone()),
        ],
        vec![
            ("RealMemory", mib(node.memory_bytes)),
            ("AllocMem", mib(node.declared_bytes)),
            ("FreeMem", "N/A".into()),
            ("Sockets", "1".into()),
            ("Boards", "1".into()),
        ],
        vec![
            ("State", state),
            ("ThreadsPerCore", "1".into()),
            ("TmpDisk", "0".into()),
            ("Weight", "1".into()),
            ("Owner", "N/A".into()),
            ("MCS_label", "N/A".into()),
        ],
        vec![("Partitions", format!("{CLUSTER} "))],
        vec![("CfgTRES", format!("cpu={0},mem={1}M,billing={0}", node.slots, mib(node.memory_bytes)))],
        vec![(
            "AllocTRES",
            if node.ranks > 0 {
                format!("cpu={}", node.ranks.min(u64::from(node.slots)))
            } else {
                String::new()
            },
        )],
        vec![("CapWatts", "n/a".into())],
        vec![("CurrentWatts", "0".into()), ("AveWatts", "0".into())],
        vec![
            ("ExtSensorsJoules", "n/s".into()),
            ("ExtSensorsWatts", "0".into()),
            ("ExtSensorsTemp", "n/s".into()),
        ],
    ];
    if let Some(drained) = node.drain() {
        lines.push(vec![("Reason", drained.why.clone())]);
    }
    lines
}

fn show_jobs(names: &[&str], in_one_line: bool) -> Result<String, String> {
    let (jobs, _) = query::jobs()?;
    let now_ms = query::now_ms();
    let mut found: Vec<&Job> = Vec::new();
    let mut is_each = false;
    if names.is_empty() {
        let is_old = |job: &Job| job.row.ended_ms.is_some_and(|ended_ms| ended_ms + MIN_JOB_AGE_MS < now_ms);
        found.extend(jobs.iter().filter(|job| !(job.state().is_over() && is_old(job))));
        if found.is_empty() {
            return Ok("No jobs in the system\n".into());
        }
    }
    for name in names {
        let named = forms::job_ids(name).map_err(|_| format!("scontrol_print_job error: {NO_JOB}"))?;
        is_each |= named.iter().any(|one| one.tasks.is_some());
        let before = found.len();
        found.extend(named.iter().flat_map(|one| query::named(&jobs, one)));
        if found.len() == before {
            return Err(format!("slurm_load_jobs error: {NO_JOB}"));
        }
    }
    let mut text = String::new();
    let mut arrays = BTreeSet::new();
    for one in &found {
        let array =
            one.element().filter(|_| one.state() == State::Pending && !is_each).map(|element| element.job);
        let Some(array) = array else {
            text.push_str(&record(&job(one, &[], now_ms), in_one_line));
            continue;
        };
        if arrays.insert(array) {
            let others = found
                .iter()
                .filter(|other| other.state() == State::Pending)
                .filter_map(|other| other.element());
            let waiting: Vec<u32> =
                others.filter(|other| other.job == array).map(|other| other.task).collect();
            text.push_str(&record(&job(one, &waiting, now_ms), in_one_line));
        }
    }
    Ok(text)
}

/// Steps of jobs that run, the script among them.
fn show_steps(names: &[&str], in_one_line: bool) -> Result<String, String> {
    let (jobs, steps) = query::jobs()?;
    let name = names.first().copied();
    let named = name.map(|name| forms::job_id(name).ok_or_else(|| format!("Job step {name} not found")));
    let named = named.transpose()?;
    let mut text = String::new();
    for job in jobs.iter().filter(|job| job.state() != State::Pending && !job.state().is_over()) {
        if named.as_ref().is_some_and(|named| query::named(std::slice::from_ref(job), named).next().is_none())
        {
            continue;
        }
        let own = steps.iter().filter(|step| step.row.owner() == Some(job.row.job)).enumerate();
        let mut all: Vec<(String, &Job)> = own
            .filter(|(_, step)| !step.state().is_over())
            .map(|(index, step)| (index.to_string(), step))
            .collect();
        if job.row.is_script() {
            all.push(("batch".into(), job));
        }
        let wanted = named.as_ref().and_then(|named| named.step.as_deref());
        for (step, of) in all.iter().filter(|(step, _)| wanted.is_none_or(|wanted| wanted == step)) {
            text.push_str(&record(&step_record(job, step, of), in_one_line));
        }
    }
    match (name, text.is_empty()) {
        (Some(name), true) => Err(format!("Job step {name} not found")),
        _ => Ok(text),
    }
}

fn step_record(job: &Job, name: &str, of: &Job) -> Record {
    let is_script = name == "batch";
    let nodes: &[String] = if is_script { &of.row.nodes[..of.row.nodes.len().min(1)] } else { &of.row.nodes };
    let started = of.row.started_ms.map_or_else(|| "Unknown".into(), |ms| forms::moment(ms, None));
    vec![
        vec![
            ("StepId", format!("{}.{name}", job.id())),
            ("UserId", job.row.uid.to_string()),
            ("StartTime", started),
            ("TimeLimit", "UNLIMITED".into()),
        ],
        vec![
            ("State", of.state().long().into()),
            ("Partition", CLUSTER.into()),
            ("NodeList", node_list::fold(nodes)),
        ],
        vec![
            ("Nodes", nodes.len().to_string()),
            ("CPUs", if is_script { 0 } else { of.cores() }.to_string()),
            ("Tasks", if is_script { 1 } else { of.tasks() }.to_string()),
            ("Name", if is_script { "batch".into() } else { of.name() }),
            ("Network", "(null)".into()),
        ],
        vec![("TRES", if is_script { "(null)".into() } else { of.counted() })],
        vec![("ResvPorts", "(null)".into())],
        vec![("CPUFreqReq", "Default".into())],
        vec![("SrunHost:Pid", "(null):0".into())],
    ]
}

fn or_null(text: &str) -> String {
    if text.is_empty() { "(null)".into() } else { text.into() }
}

/// Elements of an array that wait are one record, with the indices of all, unless one is named.
fn job(job: &Job, waiting: &[u32], now_ms: u64) -> Record {
    let (row, state) = (&job.row, job.state());
    let moment = |ms: Option<u64>| ms.map_or_else(|| "Unknown".into(), |ms| forms::moment(ms, None));
    let until_ms = if state.is_over() {
        row.ended_ms
    } else {
        job.begins_ms().zip(row.limit_ms).map(|(from, limit)| from + limit)
    };
    let mut lines: Record = Vec::new();
    let mut first = vec![("JobId", job.number().to_string())];
    if let Some(element) = job.element() {
        first.push(("ArrayJobId", element.job.to_string()));
        let at_once =
            if element.shape.at_once > 0 { format!("%{}", element.shape.at_once) } else { String::new() };
        first.push((
            "ArrayTaskId",
            if waiting.len() > 1 { forms::tasks(waiting) + &at_once } else { element.task.to_string() },
        ));
        if element.shape.at_once > 0 {
            first.push(("ArrayTaskThrottle", element.shape.at_once.to_string()));
        }
    }
    first.push(("JobName", job.name()));
    lines.push(first);
    lines.push(vec![
        ("UserId", format!("{}({})", job.user(), row.uid)),
        (
            "GroupId",
            identity::group_of(row.uid)
                .map_or_else(|| "(null)".into(), |(gid, name)| format!("{name}({gid})")),
        ),
        ("MCS_label", "N/A".into()),
    ]);
    lines.push(vec![
        ("Priority", job.priority().to_string()),
        ("Nice", job.asked.source.nice.to_string()),
        ("Account", or_null(job.asked.account())),
        ("QOS", "normal".into()),
    ]);
    lines.push(vec![
        ("JobState", state.long().into()),
        ("Reason", job.reason().into()),
        (
            "Dependency",
            or_null(&if state == State::Pending { job.asked.open_dependency() } else { String::new() }),
        ),
    ]);
    lines.push(vec![
        ("Requeue", u8::from(row.is_script()).to_string()),
        ("Restarts", job.restarts().to_string()),
        ("BatchFlag", u8::from(row.is_script()).to_string()),
        ("Reboot", "0".into()),
        ("ExitCode", job.exit()),
    ]);
    let limit = row.limit_ms.map_or_else(|| "UNLIMITED".into(), |ms| forms::long_time(ms / 1000));
    lines.push(vec![
        ("RunTime", forms::long_time(job.elapsed_s(now_ms))),
        ("TimeLimit", limit),
        ("TimeMin", "N/A".into()),
    ]);
    lines.push(vec![
        ("SubmitTime", moment(Some(row.submitted_ms))),
        ("EligibleTime", moment(job.eligible_ms())),
    ]);
    lines.push(vec![("AccrueTime", moment(job.eligible_ms()))]);
    lines.push(vec![
        ("StartTime", moment(job.begins_ms())),
        ("EndTime", moment(until_ms)),
        ("Deadline", "N/A".into()),
    ]);
    lines.push(vec![
        ("SuspendTime", "None".into()),
        ("SecsPreSuspend", "0".into()),
        ("LastSchedEval", moment(Some(row.started_ms.unwrap_or(row.submitted_ms)))),
        ("Scheduler", "Main".into()),
    ]);
    lines.push(vec![
        ("Partition", CLUSTER.into()),
        ("AllocNode:Sid", format!("{}:0", or_null(job.asked.submit_host()))),
    ]);
    let placed: &[String] = if state == State::Pending { &[] } else { &row.nodes };
    let source = &job.asked.source;
    lines.push(vec![
        ("ReqNodeList", or_null(&source.named_nodes)),
        ("ExcNodeList", or_null(&source.excluded_nodes)),
    ]);
    lines.push(vec![("NodeList", node_list::fold(placed))]);
    if let Some(head) = placed.first() {
        lines.push(vec![("BatchHost", head.clone())]);
    }
    lines.push(vec![
        ("NumNodes", job.nodes().to_string()),
        ("NumCPUs", job.cores().to_string()),
        ("NumTasks", job.tasks().to_string()),
        ("CPUs/Task", job.asked.size.cores.unwrap_or(1).to_string()),
        ("ReqB:S:C:T", "0:0:*:*".into()),
    ]);
    let memory = if row.memory_bytes == 0 { "0".into() } else { forms::size(row.memory_bytes) };
    lines.push(vec![("TRES", job.counted())]);
    let size = &job.asked.size;
    let per_node = size.per_node.unwrap_or(0);
    lines.push(vec![
        ("Socks/Node", "*".into()),
        ("NtasksPerN:B:S:C", format!("{per_node}:0:*:*")),
        ("CoreSpec", "*".into()),
    ]);
    let memory = match size.memory_mib.filter(|_| size.memory_per_core) {
        Some(mib) => ("MinMemoryCPU", forms::size(mib << 20)),
        None => ("MinMemoryNode", memory),
    };
    let least = size.cores.unwrap_or(1).saturating_mul(per_node.max(1));
    lines.push(vec![("MinCPUsNode", least.to_string()), memory, ("MinTmpDiskNode", "0".into())]);
    lines.push(vec![("Features", "(null)".into()), ("DelayBoot", "00:00:00".into())]);
    lines.push(vec![
        ("OverSubscribe", if row.exclusive { "NO" } else { "OK" }.into()),
        ("Contiguous", "0".into()),
        ("Licenses", "(null)".into()),
        ("Network", "(null)".into()),
    ]);
    if !row.reservation().is_empty() {
        lines.push(vec![("Reservation", row.reservation().to_owned())]);
    }
    let is_wrapped = job.asked.script().is_empty() && row.is_script();
    let command = if job.asked.script().is_empty() { row.command.clone() } else { job.asked.command() };
    lines.push(vec![("Command", or_null(if is_wrapped { "" } else { &command }))]);
    lines.push(vec![("WorkDir", or_null(job.asked.folder()))]);
    if !job.asked.comment().is_empty() {
        // A blank ends it, as in Slurm.
        lines.push(vec![("Comment", format!("{} ", job.asked.comment()))]);
    }
    lines.push(vec![("StdErr", job.file(true))]);
    lines.push(vec![("StdIn", "/dev/null".into())]);
    lines.push(vec![("StdOut", job.file(false))]);
    lines.push(vec![("Power", String::new())]);
    if row.gpus() > 0 {
        lines.push(vec![("TresPerNode", format!("gres:gpu:{}", row.gpus()))]);
    }
    // As in Slurm an empty line is the last one.
    lines.push(Vec::new());
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::note::{Note, Origin};
    use crate::view::tests;

    #[test]
    fn job_is_shown_in_lines_and_in_one() {
        let note = Note {
            source: Origin { folder: "/work dir".into(), script: "/a/job.sh".into(), ..Origin::default() },
            comment: "c".into(),
            ..Note::default()
        };
        let one = tests::job(
            7,
            json!({"name": "mesh", "kept_note": note.text().unwrap(), "output": ["/a/100%%.out"], "limit_ms": 60_000}),
        );
        let text = record(&job(&one, &[], 62_000), true);
        assert_eq!(text.lines().count(), 1);
        for field in [
            "JobId=7 JobName=mesh UserId=root(0) ",
            " JobState=RUNNING Reason=None Dependency=(null) ",
            " ExitCode=0:0 RunTime=00:01:00 TimeLimit=00:01:00 ",
            " NodeList=n1 BatchHost=n1 NumNodes=1 NumCPUs=2 NumTasks=2 CPUs/Task=1 ",
            " Command=/a/job.sh WorkDir=/work dir Comment=c  StdErr=/a/100%.out StdIn=/dev/null StdOut=/a/100%.out ",
        ] {
            assert!(text.contains(field) || text.starts_with(field), "{field} in {text}");
        }
        let lines = record(&job(&one, &[], 62_000), false);
        assert!(
            lines.starts_with("JobId=7 JobName=mesh\n   UserId=root(0) ")
                && lines.ends_with("   Power=\n   \n\n")
        );
    }

    #[test]
    fn job_is_shown_in_its_lines_whatever_its_user_has_noted() {
        let note = Note { comment: "c\n\nJobId=8 \u{1b}[2J\u{202e}".into(), ..Note::default() };
        let one = tests::job(7, json!({"name": "mesh", "kept_note": note.text().unwrap()}));
        let text = record(&job(&one, &[], 62_000), true);
        assert!(
            text.contains(" Comment=c\\n\\nJobId=8 \\u{1b}[2J\\u{202e}  ") && text.lines().count() == 1,
            "{text}"
        );
    }

    #[test]
    fn host_names_are_one_in_a_line() {
        assert_eq!(host_names(Some("n[9-10],m")).as_deref(), Ok("n9\nn10\nm\n"));
        assert_eq!(host_names(Some("")).as_deref(), Ok(""));
        assert!(host_names(Some("n[")).is_err());
        assert_eq!(show(&["hostlist", "n9,n10,m"], false).as_deref(), Ok("n[9-10],m\n"));
    }

    #[test]
    fn partition_and_nodes_have_slurms_fields() {
        let nodes = [sinfo::tests::node(0, 0, true), sinfo::tests::node(1, 2, true)];
        let text = record(&partition(&nodes), true);
        assert!(
            text.starts_with("PartitionName=tutti ") && text.contains(" TotalCPUs=4 TotalNodes=2 "),
            "{text}"
        );
        let text = record(&node(&nodes[1]), true);
        assert!(text.starts_with("NodeName=node1 ") && text.contains(" State=MIXED "), "{text}");
    }
}
