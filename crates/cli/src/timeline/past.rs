//! History that the logs do not have any more, from the page: jobs, and gaps.

use serde::Deserialize;
use tutti_os::stderr::print_line;

use super::log::{self, History, Mark, Node, Span, order};
use crate::page;

/// Answer of the page, as far as it is drawn.
#[derive(Debug, Default, Deserialize)]
struct Found {
    jobs: Vec<Job>,
    gaps: Vec<(u64, Option<u64>, String)>,
}

#[derive(Debug, Deserialize)]
struct Job {
    job: u64,
    user: Option<String>,
    #[serde(flatten)]
    what: What,
    nodes: Vec<String>,
    submitted_ms: u64,
    started_ms: Option<u64>,
    ended_ms: Option<u64>,
    status: Option<u8>,
}

#[derive(Debug, Deserialize)]
struct What {
    name: Option<String>,
    command: Option<String>,
}

/// Adds jobs of a span that began before the logs, and the gaps of the history there. Where no page answers
/// one line says so.
pub(super) fn add(history: &mut History, (from_us, to_us): Span) {
    let first_us = history.jobs.values().map(|job| job.submitted_us).min().unwrap_or(u64::MAX);
    if first_us <= from_us {
        return;
    }
    let path = format!("/api/timeline?since_ms={}&until_ms={}", from_us / 1000, to_us / 1000);
    match page::ask(&path) {
        Ok(found) => put(history, found, (from_us, to_us)),
        Err(text) => {
            print_line(format_args!("tutti timeline: older jobs than the log has are left out: {text}"))
        }
    }
}

fn put(history: &mut History, found: Found, (from_us, to_us): Span) {
    for job in found.jobs {
        let id = job.job;
        if history.jobs.contains_key(&id) {
            continue;
        }
        let us = |ms: u64| ms * 1000;
        let run = job.started_ms.map(|started_ms| (us(started_ms), job.ended_ms.map_or(to_us, us)));
        for name in &job.nodes {
            let at = history.nodes.iter().position(|node| node.name == *name);
            let at = at.unwrap_or_else(|| {
                history.nodes.push(Node { name: name.clone(), ..Node::default() });
                history.nodes.len() - 1
            });
            history.nodes[at].runs.entry(id).or_default().extend(run.filter(|(from, to)| to > from));
        }
        let past = log::Job {
            command: job.what.command.unwrap_or_default(),
            user: job.user,
            name: job.what.name.filter(|name| !name.is_empty()),
            nodes: job.nodes,
            submitted_us: us(job.submitted_ms),
            started_us: job.started_ms.map(us),
            over_us: job.ended_ms.map(us),
            status: job.status,
            suspended: Vec::new(),
        };
        history.jobs.insert(id, past);
    }
    history.nodes.sort_by_key(|node| order(&node.name));
    for (begin_ms, end_ms, why) in found.gaps {
        let us = (begin_ms * 1000).max(from_us);
        let seconds = end_ms.map_or(to_us, |ms| ms * 1000).saturating_sub(us) / 1_000_000;
        let text = format!("the history has a gap of {seconds} s: {why}");
        history.marks.push(Mark { us, job: None, node: None, text, fault: true });
    }
    history.marks.sort_by_key(|mark| mark.us);
    history.until_us =
        history.until_us.max(history.jobs.values().filter_map(|job| job.over_us).max().unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeline_has_jobs_of_the_history_that_the_log_has_not() {
        let mut history = History::default();
        let known = log::Job { submitted_us: 50_000_000, command: "./known".into(), ..log::Job::default() };
        history.jobs.insert(2, known);
        history.nodes.push(Node { name: "n10".into(), ..Node::default() });
        let text = r#"{"jobs":[
            {"job":1,"user":"a","name":"","command":"./old","nodes":["n2","n10"],"submitted_ms":1000,
             "started_ms":2000,"ended_ms":5000,"status":0},
            {"job":2,"user":"a","name":null,"command":"./other","nodes":[],"submitted_ms":50000,
             "started_ms":null,"ended_ms":null,"status":null}],
            "gaps":[[3000,9000,"no daemon answered"]]}"#;
        put(&mut history, serde_json::from_str(text).expect("an answer"), (0, 60_000_000));
        let names: Vec<&str> = history.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["n2", "n10"]);
        assert_eq!(history.nodes[0].runs[&1], [(2_000_000, 5_000_000)]);
        assert_eq!(history.jobs[&2].command, "./known", "the log goes before the history");
        assert_eq!(history.marks[0].text, "the history has a gap of 6 s: no daemon answered");
    }
}
