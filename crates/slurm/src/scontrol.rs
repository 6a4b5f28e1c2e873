//! `scontrol`: what there is, in detail, and what is done to a job besides ending it.

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
    let usage = "Usage: scontrol [-o] show {job|node|partition|reservation|config|hostnames|hostlist} [NAME] | create reservation Nodes=LIST Users=USERS StartTime=TIME Duration=MINUTES | delete ReservationName=NAME | suspend, resume, hold, release, requeue JOB ... | update JobId=JOB [TimeLimit=LIMIT] [JobName=NAME] [StartTime=TIME]";
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
const PLAIN: [&str; 5] =
    ["slurm_load_jobs error", " for job ", " for keyword:", "invalid keyword", "too few arguments"];

fn control_all(command: &str, names: &[&str]) -> Result<String, String> {
    if names.is_empty() {
        return Err(format!("too few arguments for keyword:{command}"));
    }
    let (jobs, _) = query::jobs()?;
    for name in names {
        let named = forms::job_ids(name).map_err(|_| format!("{NO_JOB} for job {name}"))?;
        for one in &named {
            let found: Vec<&Job> = query::named(&jobs, one).collect();
            if found.is_empty() {
                return Err(format!("{NO_JOB} for job {name}"));
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
    if job.state().is_over() {
        return Err(format!("Job has already finished for job {}", job.id()));
    }
    query::control(job.row.job, control)
        .map_err(|refused| format!("{} for job {}", query::refusal(refused), job.id()))
}

/// Gives jobs other values: `JobId=17 TimeLimit=10`.
fn update(words: &[&str]) -> Result<String, String> {
    if words.is_empty() {
        return Err("too few arguments for update keyword".into());
    }
    let (mut change, mut named) = (Change::default(), None);
    let (mut is_more, mut is_less) = (false, false);
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("Invalid input: {word}"))?;
        match key.to_ascii_lowercase().as_str() {
            "jobid" | "job" => named = Some(value),
            "timelimit" => {
                let digits = value.strip_prefix(['+', '-']).unwrap_or(value);
                let limit =
                    forms::time_limit(digits).ok_or_else(|| format!("Invalid TimeLimit value: {value}"))?;
                change.time_ms = Some(limit.ok_or("a time limit cannot be taken away, only changed")?);
                (is_more, is_less) = (value.starts_with('+'), value.starts_with('-'));
            }
            "jobname" | "name" => change.name = Some(value.to_owned()),
            "starttime" => change.begin_ms = Some(moments::moment(value, Day::Next)?),
            "nodename" => {
                return Err("nodes are not changed here: `tutti drain` and `tutti undrain` do it".into());
            }
            _ => return Err(format!("Update of this parameter is not supported: {word}")),
        }
    }
    let name = named.ok_or("No valid entity in update command: name a job, JobId=JOB")?;
    if change == Change::default() {
        return Err("No changes specified".into());
    }
    let named = forms::job_ids(name).map_err(|_| format!("{NO_JOB} for job {name}"))?;
    let (jobs, _) = query::jobs()?;
    for one in &named {
        let found: Vec<&Job> = query::named(&jobs, one).collect();
        if found.is_empty() {
            return Err(format!("{NO_JOB} for job {name}"));
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
        ("AccountingStorageType", "accounting_storage/none".to_owned()),
        ("ClusterName", CLUSTER.into()),
        ("DefMemPerNode", "UNLIMITED".into()),
        ("KillWait", "10 sec".into()),
        ("JobRequeue", "1".into()),
        // As in Slurm: one more than the largest index.
        ("MaxArraySize", (forms::ARRAY_SIZE_MAX + 1).to_string()),
        ("MaxJobCount", "4000".into()),
        ("MaxMemPerNode", "UNLIMITED".into()),
        ("MinJobAge", format!("{} sec", MIN_JOB_AGE_MS / 1000)),
        ("SchedulerType", "sched/gang".into()),
        ("SelectType", "select/cons_tres".into()),
        ("SLURM_VERSION", VERSION.trim_start_matches("slurm ").into()),
        ("SlurmctldHost[0]", controller),
    ] {
        let _ = writeln!(text, "{name:<23} = {value}");
    }
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
    vec![
        vec![("PartitionName", CLUSTER.into())],
        vec![("AllowGroups", "ALL".into()), ("AllowAccounts", "ALL".into()), ("AllowQos", "ALL".into())],
        vec![("AllocNodes", "ALL".into()), ("Default", "YES".into()), ("QoS", "N/A".into())],
        vec![("DefaultTime", "NONE".into()), ("DisableRootJobs", "NO".into()), ("Hidden", "NO".into())],
        vec![
            ("MaxNodes", "UNLIMITED".into()),
            ("MaxTime", "UNLIMITED".into()),
            ("MinNodes", "0".into()),
            ("MaxCPUsPerNode", "UNLIMITED".into()),
        ],
        vec![("Nodes", node_list::fold(&names))],
        vec![("PriorityTier", "1".into()), ("RootOnly", "NO".into()), ("OverSubscribe", "FORCE".into())],
        vec![
            ("State", "UP".into()),
            ("TotalCPUs", slots.to_string()),
            ("TotalNodes", nodes.len().to_string()),
            ("SelectTypeParameters", "NONE".into()),
        ],
        vec![("DefMemPerNode", "UNLIMITED".into()), ("MaxMemPerNode", "UNLIMITED".into())],
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
            ("CoresPerSocket", node.slots.to_string()),
        ],
        vec![
            ("CPUAlloc", node.ranks.min(u64::from(node.slots)).to_string()),
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
        ],
        vec![("Partitions", CLUSTER.into())],
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
    if names.is_empty() {
        let is_old = |job: &Job| job.row.ended_ms.is_some_and(|ended_ms| ended_ms + MIN_JOB_AGE_MS < now_ms);
        found.extend(jobs.iter().filter(|job| !(job.state().is_over() && is_old(job))));
        if found.is_empty() {
            return Ok("No jobs in the system\n".into());
        }
    }
    for name in names {
        let named = forms::job_ids(name).map_err(|_| format!("slurm_load_jobs error: {NO_JOB}"))?;
        let before = found.len();
        found.extend(named.iter().flat_map(|one| query::named(&jobs, one)));
        if found.len() == before {
            return Err(format!("slurm_load_jobs error: {NO_JOB}"));
        }
    }
    Ok(found.into_iter().map(|one| record(&job(one, now_ms), in_one_line)).collect())
}

fn or_null(text: &str) -> String {
    if text.is_empty() { "(null)".into() } else { text.into() }
}

fn job(job: &Job, now_ms: u64) -> Record {
    let (row, state) = (&job.row, job.state());
    let moment = |ms: Option<u64>| ms.map_or_else(|| "Unknown".into(), |ms| forms::moment(ms, None));
    let until_ms = if state.is_over() {
        row.ended_ms
    } else {
        row.started_ms.zip(row.limit_ms).map(|(from, limit)| from + limit)
    };
    let mut lines: Record = Vec::new();
    let mut first = vec![("JobId", job.number().to_string())];
    if let Some(element) = job.element() {
        first.push(("ArrayJobId", element.job.to_string()));
        first.push(("ArrayTaskId", element.task.to_string()));
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
        ("Priority", row.weight.to_string()),
        ("Nice", "0".into()),
        ("Account", or_null(job.asked.account())),
        ("QOS", "normal".into()),
    ]);
    lines.push(vec![
        ("JobState", state.long().into()),
        ("Reason", job.reason().into()),
        (
            "Dependency",
            if state == State::Pending { or_null(job.asked.dependency()) } else { "(null)".into() },
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
        ("EligibleTime", moment(Some(row.submitted_ms))),
    ]);
    lines.push(vec![
        ("StartTime", moment(row.started_ms)),
        ("EndTime", moment(until_ms)),
        ("Deadline", "N/A".into()),
    ]);
    lines.push(vec![
        ("Partition", CLUSTER.into()),
        ("AllocNode:Sid", format!("{}:0", or_null(job.asked.submit_host()))),
    ]);
    let placed: &[String] = if state == State::Pending { &[] } else { &row.nodes };
    lines.push(vec![("ReqNodeList", "(null)".into()), ("ExcNodeList", "(null)".into())]);
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
    let counted = if row.memory_bytes == 0 { String::new() } else { format!(",mem={memory}") };
    let (cores, nodes) = (job.cores(), job.nodes());
    lines.push(vec![("TRES", format!("cpu={cores}{counted},node={nodes},billing={cores}"))]);
    lines.push(vec![("MinCPUsNode", "1".into()), ("MinMemoryNode", memory), ("MinTmpDiskNode", "0".into())]);
    lines.push(vec![("Features", "(null)".into()), ("DelayBoot", "00:00:00".into())]);
    lines.push(vec![
        ("OverSubscribe", if row.exclusive { "NO" } else { "YES" }.into()),
        ("Contiguous", "0".into()),
        ("Licenses", "(null)".into()),
        ("Network", "(null)".into()),
    ]);
    if !row.reservation().is_empty() {
        lines.push(vec![("Reservation", row.reservation().to_owned())]);
    }
    let is_wrapped = job.asked.script().is_empty() && row.is_script();
    let command = if job.asked.script().is_empty() { &row.command } else { job.asked.script() };
    lines.push(vec![("Command", or_null(if is_wrapped { "" } else { command }))]);
    lines.push(vec![("WorkDir", or_null(job.asked.folder()))]);
    if !job.asked.comment().is_empty() {
        lines.push(vec![("Comment", job.asked.comment().to_owned())]);
    }
    lines.push(vec![("StdErr", job.file(true))]);
    lines.push(vec![("StdIn", "/dev/null".into())]);
    lines.push(vec![("StdOut", job.file(false))]);
    lines.push(vec![("Power", String::new())]);
    if row.gpus() > 0 {
        lines.push(vec![("TresPerNode", format!("gres:gpu:{}", row.gpus()))]);
    }
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
        let text = record(&job(&one, 62_000), true);
        assert_eq!(text.lines().count(), 1);
        for field in [
            "JobId=7 JobName=mesh UserId=root(0) ",
            " JobState=RUNNING Reason=None Dependency=(null) ",
            " ExitCode=0:0 RunTime=00:01:00 TimeLimit=00:01:00 ",
            " NodeList=n1 BatchHost=n1 NumNodes=1 NumCPUs=2 NumTasks=2 CPUs/Task=1 ",
            " Command=/a/job.sh WorkDir=/work dir Comment=c StdErr=/a/100%.out StdIn=/dev/null StdOut=/a/100%.out ",
        ] {
            assert!(text.contains(field) || text.starts_with(field), "{field} in {text}");
        }
        let lines = record(&job(&one, 62_000), false);
        assert!(lines.starts_with("JobId=7 JobName=mesh\n   UserId=root(0) ") && lines.ends_with("\n\n"));
    }

    #[test]
    fn job_is_shown_in_its_lines_whatever_its_user_has_noted() {
        let note = Note { comment: "c\n\nJobId=8 \u{1b}[2J\u{202e}".into(), ..Note::default() };
        let one = tests::job(7, json!({"name": "mesh", "kept_note": note.text().unwrap()}));
        let text = record(&job(&one, 62_000), true);
        assert!(
            text.contains(" Comment=c\\n\\nJobId=8 \\u{1b}[2J\\u{202e} ") && text.lines().count() == 1,
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
