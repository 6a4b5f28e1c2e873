//! History from the logs of a controller, put in order: jobs and nodes, and on each node who ran when.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Deserialize;
use tutti_protocol::turns::{TurnBatch, TurnKind};

use tutti_client::history::lines;
use tutti_client::users;

/// A span of time, in us since 1970.
pub type Span = (u64, u64);

/// All that is drawn.
#[derive(Debug, Default)]
pub struct History {
    /// By number.
    pub jobs: BTreeMap<u64, Job>,
    /// In the order of their names.
    pub nodes: Vec<Node>,
    /// Events, by time.
    pub marks: Vec<Mark>,
    /// The last thing that is known.
    pub until_us: u64,
    /// Turns of which there is no record.
    pub lost: u64,
}

/// A job.
#[derive(Debug, Default)]
pub struct Job {
    /// Command that runs.
    pub command: String,
    /// User of the job, if the log has it.
    pub user: Option<String>,
    /// Name of the job, if it has one.
    pub name: Option<String>,
    /// Nodes of the job, by name.
    pub nodes: Vec<String>,
    /// When it was submitted, when its ranks ran, when it was over.
    pub submitted_us: u64,
    pub started_us: Option<u64>,
    pub over_us: Option<u64>,
    pub status: Option<u8>,
    /// When it was suspended.
    pub suspended: Vec<Span>,
}

impl Job {
    /// Name of the job, else its program without folders.
    pub fn short_name(&self) -> &str {
        let program = || self.command.split_whitespace().next().and_then(|word| word.rsplit('/').next());
        self.name.as_deref().or_else(program).unwrap_or("")
    }
}

/// A node.
#[derive(Debug, Default)]
pub struct Node {
    pub name: String,
    /// When it was lost.
    pub lost: Vec<Span>,
    /// When each job ran here.
    pub runs: BTreeMap<u64, Vec<Span>>,
    /// Every freeze and thaw: what, when, generation, job, how long in us.
    pub turns: Vec<(TurnKind, u64, u64, u64, u64)>,
}

/// Event at one moment.
#[derive(Debug)]
pub struct Mark {
    pub us: u64,
    pub job: Option<u64>,
    /// A node, by name; none: it is not of one node.
    pub node: Option<String>,
    /// In one line.
    pub text: String,
    /// Whether it is bad news.
    pub fault: bool,
}

/// A line of the log of events.
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
    uid: Option<u32>,
    name: Option<String>,
}

/// A line of the log of turns.
#[derive(Deserialize)]
struct Turns {
    node: String,
    #[serde(flatten)]
    stretch: TurnBatch,
}

/// Reads the logs of events and of turns, the old halves first, up to this moment (in us since 1970).
/// `is_named`: the user has named their folder.
///
/// # Errors
/// When there is no log of events; a text for the user.
pub fn read((events, turns): (&Path, &Path), is_named: bool, until_us: u64) -> Result<History, String> {
    let mut known = lines::<Event>(events, is_named).map_err(|error| why_no_log(events, is_named, &error))?;
    known.retain(|event| event.ms * 1000 <= until_us);
    // A cluster on which no job ever took turns has none.
    let mut turns = lines::<Turns>(turns, is_named).unwrap_or_default();
    for Turns { stretch, .. } in &mut turns {
        let since_us = stretch.since_us;
        stretch.turns.retain(|turn| since_us.saturating_add(turn.1) <= until_us);
    }
    Ok(put_in_order(known, turns))
}

/// A daemon keeps the log, and a short job never asks one.
fn why_no_log(events: &Path, is_named: bool, error: &io::Error) -> String {
    let folder = events.parent().unwrap_or(events).display();
    match error.kind() {
        io::ErrorKind::NotFound if !is_named => format!(
            "no daemon has kept a log in {folder}: jobs of mpiexec that end within 50 ms are in none, those of \
             tutti run and tutti submit always are"
        ),
        io::ErrorKind::NotFound => format!("there is no log of a daemon in {folder}"),
        _ => format!("cannot read {}: {error}", events.display()),
    }
}

fn put_in_order(events: Vec<Event>, turns: Vec<Turns>) -> History {
    let mut history = History::default();
    let mut nodes: BTreeMap<(String, u64, String), Node> = BTreeMap::new();
    for event in &events {
        history.until_us = history.until_us.max(event.ms * 1000);
        for name in &event.nodes {
            nodes.entry(order(name)).or_default().name.clone_from(name);
        }
        history.take_event(event, &mut nodes);
    }
    for Turns { node, stretch } in turns {
        history.lost += stretch.lost;
        let entry = nodes.entry(order(&node)).or_default();
        entry.name = node;
        for (what, at_us, generation, job, took_us) in stretch.turns {
            let us = stretch.since_us.saturating_add(at_us);
            history.until_us = history.until_us.max(us);
            entry.turns.push((what, us, generation, job, took_us));
        }
    }
    history.nodes = nodes.into_values().collect();
    history.marks.sort_by_key(|mark| mark.us);
    let until_us = history.until_us;
    for job in history.jobs.values_mut() {
        job.suspended
            .iter_mut()
            .filter(|span| span.1 == u64::MAX)
            .for_each(|span| span.1 = job.over_us.unwrap_or(until_us));
    }
    for node in &mut history.nodes {
        node.lost.iter_mut().filter(|span| span.1 == u64::MAX).for_each(|span| span.1 = until_us);
        node.turns.sort_by_key(|turn| turn.1);
        node.work_out(&history.jobs, until_us);
    }
    history
}

/// node2 comes before node10.
pub(super) fn order(name: &str) -> (String, u64, String) {
    let digits = name.len() - name.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    let (stem, number) = name.split_at(name.len() - digits);
    (stem.to_owned(), number.parse().unwrap_or(0), name.to_owned())
}

impl History {
    fn take_event(&mut self, event: &Event, nodes: &mut BTreeMap<(String, u64, String), Node>) {
        let us = event.ms * 1000;
        let mut text = event.text.clone();
        let mut fault = false;
        let mut node = event.nodes.first().filter(|_| event.job.is_none()).cloned();
        if let Some(id) = event.job {
            let job = self.jobs.entry(id).or_default();
            // A full disk, or a log that was too long, has lost the entry of its submission.
            if job.submitted_us == 0 {
                job.submitted_us = us;
            }
            match event.event.as_str() {
                "submitted" => {
                    (job.command, job.nodes, job.submitted_us) =
                        (event.text.clone(), event.nodes.clone(), us);
                    (job.user, job.name) = (event.uid.map(users::name), event.name.clone());
                }
                // The next events tell when and where it starts.
                "placed" => return job.nodes.clone_from(&event.nodes),
                "ranks-started" => return,
                "waits" => text = format!("waits: {text}"),
                "started" => {
                    job.started_us = Some(us);
                    text = "its ranks run".into();
                }
                "suspended" => job.suspended.push((us, u64::MAX)),
                "resumed" => {
                    job.suspended.iter_mut().filter(|span| span.1 == u64::MAX).for_each(|span| span.1 = us)
                }
                "over" => {
                    (job.over_us, job.status) = (Some(us), event.status);
                    let cause = if text.is_empty() { text } else { format!(": {text}") };
                    text = format!("over, status {}{cause}", event.status.unwrap_or(0));
                    fault = event.status != Some(0);
                }
                "ranks-ended" => {
                    node = event.nodes.first().cloned();
                    text = format!("its ranks have ended, status {}", event.status.unwrap_or(0));
                }
                "rank-ended" => fault = true,
                "said" => fault = true,
                _ => {}
            }
        } else if let Some(name) = &node {
            let entry = nodes.entry(order(name)).or_default();
            match event.event.as_str() {
                "node-lost" => {
                    entry.lost.push((us, u64::MAX));
                    fault = true;
                }
                "node-late" | "node-expelled" => fault = true,
                // The first time is no news.
                "node-up" if entry.lost.last().is_none_or(|span| span.1 != u64::MAX) => return,
                "node-up" => entry.lost.iter_mut().for_each(|span| span.1 = span.1.min(us)),
                _ => {}
            }
        }
        if text.is_empty() || event.event == "submitted" {
            text = if text.is_empty() { event.event.clone() } else { format!("submitted: {text}") };
        }
        self.marks.push(Mark { us, job: event.job, node, text, fault });
    }
}

impl Node {
    /// From the turns: when each job ran here.
    fn work_out(&mut self, jobs: &BTreeMap<u64, Job>, until_us: u64) {
        let mut turns: BTreeMap<u64, Vec<(TurnKind, u64)>> = BTreeMap::new();
        for &(what, us, _, job, _) in &self.turns {
            turns.entry(job).or_default().push((what, us));
        }
        for (&id, job) in jobs.iter().filter(|(_, job)| job.nodes.contains(&self.name)) {
            let Some(started_us) = job.started_us else { continue };
            let over_us = job.over_us.unwrap_or(until_us);
            let (mut since, mut runs) = (Some(started_us), Vec::new());
            for &(what, us) in turns.get(&id).into_iter().flatten() {
                match what {
                    TurnKind::Freeze => {
                        runs.extend(since.take().filter(|since| us > *since).map(|since| (since, us)))
                    }
                    TurnKind::Thaw => since = since.or(Some(us.max(started_us))),
                    _ => {}
                }
            }
            runs.extend(since.filter(|since| over_us > *since).map(|since| (since, over_us)));
            runs.iter_mut().for_each(|run| run.1 = run.1.min(over_us).max(run.0));
            self.runs.insert(id, without(runs, &job.suspended));
        }
    }
}

/// Cuts `taken` out of spans; both ascending.
fn without(spans: Vec<Span>, taken: &[Span]) -> Vec<Span> {
    taken.iter().fold(spans, |spans, &(from, to)| {
        let cut = |(start, end): Span| [(start, end.min(from)), (start.max(to), end)];
        spans.into_iter().flat_map(cut).filter(|(start, end)| end > start).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(events: &str, turns: &str) -> History {
        let parse = |text: &str| text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let turns = turns.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        put_in_order(parse(events), turns)
    }

    #[test]
    fn timeline_job_runs_except_while_frozen_or_suspended() {
        let events = r#"{"ms":1,"event":"node-up","nodes":["node10"]}
{"ms":1,"event":"node-up","nodes":["node2"]}
{"ms":10,"event":"submitted","job":4,"nodes":["node2","node10"],"text":"./a.out"}
{"ms":20,"event":"started","job":4}
{"ms":50,"event":"suspended","job":4}
{"ms":60,"event":"resumed","job":4}
half a li
{"ms":90,"event":"over","job":4,"status":3}"#;
        let turns = r#"{"node":"node2","since_us":25000,"lost":2,"turns":[["switch",0,7,0,0],["freeze",5000,7,4,30],["thaw",15000,8,4,4]]}"#;
        let history = read_text(events, turns);
        let names: Vec<&str> = history.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["node2", "node10"]);
        assert_eq!(history.nodes[0].runs[&4], [(20_000, 30_000), (40_000, 50_000), (60_000, 90_000)]);
        assert_eq!(history.nodes[1].runs[&4], [(20_000, 50_000), (60_000, 90_000)]);
        assert_eq!((history.lost, history.until_us, history.jobs[&4].status), (2, 90_000, Some(3)));
        let faults: Vec<&str> =
            history.marks.iter().filter(|mark| mark.fault).map(|mark| mark.text.as_str()).collect();
        assert_eq!(faults, ["over, status 3"]);
    }

    #[test]
    fn timeline_lost_node_and_unfinished_job() {
        let events = r#"{"ms":1,"event":"node-up","nodes":["a"]}
{"ms":2,"event":"submitted","job":1,"nodes":["a"],"text":"x"}
{"ms":3,"event":"started","job":1}
{"ms":5,"event":"node-lost","nodes":["a"]}
{"ms":8,"event":"node-up","nodes":["a"]}
{"ms":9,"event":"node-lost","nodes":["a"]}
{"ms":10,"event":"said","job":1,"text":"a was lost"}"#;
        let history = read_text(events, "");
        assert_eq!(history.nodes[0].lost, [(5000, 8000), (9000, 10_000)]);
        assert_eq!(history.nodes[0].runs[&1], [(3000, 10_000)]);
    }

    #[test]
    fn timeline_job_whose_submission_is_lost_begins_with_its_first_entry() {
        let events = r#"{"ms":20,"event":"placed","job":4,"nodes":["a"]}
{"ms":30,"event":"over","job":4,"status":0}"#;
        let history = read_text(events, "");
        assert_eq!((history.jobs[&4].submitted_us, history.jobs[&4].over_us), (20_000, Some(30_000)));
    }

    #[test]
    fn timeline_ignores_later_events() {
        let folder = std::env::temp_dir().join(format!("tutti-log-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (events, turns) = (folder.join("events"), folder.join("turns"));
        std::fs::write(
            &events,
            "{\"ms\":10,\"event\":\"node-up\",\"nodes\":[\"a\"]}\n{\"ms\":50,\"event\":\"node-up\",\"nodes\":[\"b\"]}\n",
        )
        .unwrap();
        std::fs::write(
            &turns,
            "{\"node\":\"a\",\"since_us\":20000,\"lost\":0,\"turns\":[[\"switch\",0,1,0,0],[\"switch\",15000,2,0,0]]}\n",
        )
        .unwrap();
        let history = read((&events, &turns), false, 30_000).unwrap();
        assert_eq!((history.nodes.len(), history.nodes[0].turns.len(), history.until_us), (1, 1, 20_000));
        assert_eq!(read((&events, &turns), false, u64::MAX).unwrap().until_us, 50_000);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
