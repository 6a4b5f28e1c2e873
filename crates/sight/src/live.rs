//! The cluster at this moment, for readers that follow it: everything once, then changes only.
//!
//! One frame is made each second, for all readers together. There is no queue: a reader that is slow finds
//! the newest frame, and gets everything again, with the number of frames that it has missed.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};
use tutti_client::report::{Id, Job, Node, Report, User, limits_of};
use tutti_os::stderr::escape_control;
use tutti_protocol::users::{JobRow, NodeRow};

/// Kinds of what there is, as members of a frame.
const KINDS: [&str; 3] = ["jobs", "nodes", "users"];

/// State of the cluster at a moment, as text for readers.
#[derive(Debug, Default)]
pub struct Frame {
    /// Number of the frame, from 1.
    pub number: u64,
    /// Moment and what is of the cluster as a whole: the members of an object, without braces.
    head: String,
    /// By kind and key: the object.
    items: [BTreeMap<String, String>; 3],
    /// Differences from the frame before: members, without braces.
    changes: String,
}

impl Frame {
    /// The frame behind another one.
    pub fn after(before: &Frame, report: &Report, nodes: &[NodeRow]) -> Frame {
        let number = before.number + 1;
        let head = format!(
            r#""number":{number},"at_ms":{},"daemon":{},"rows":{}"#,
            report.at_ms, report.daemon, report.row_count
        );
        let text = |key: &str, value: Value| (escape_control(key), neutral(value).to_string());
        let jobs = report.jobs.iter().map(|one| text(&name_of(&one.id), job(one)));
        let all_nodes = report.nodes.iter().map(|one| {
            let row = nodes.iter().find(|row| row.name == one.name);
            text(&one.name, node(one, row))
        });
        let users = report.users.iter().map(|one| text(&one.name, user(one)));
        let items = [jobs.collect(), all_nodes.collect(), users.collect()];
        let changes = changes(&before.items, &items);
        Frame { number, head, items, changes }
    }

    /// An event for a reader that has seen this frame last (0: none).
    pub fn event(&self, last: u64) -> String {
        let head = &self.head;
        if last != 0 && last + 1 == self.number {
            return format!("event: changes\nid: {}\ndata: {{{head}{}}}\n\n", self.number, self.changes);
        }
        let missed = if last == 0 { 0 } else { self.number.saturating_sub(last + 1) };
        format!("event: all\nid: {}\ndata: {}\n\n", self.number, self.whole(missed))
    }

    /// The whole state as one object.
    pub fn whole(&self, missed: u64) -> String {
        let mut text = format!("{{{},\"missed\":{missed}", self.head);
        for (kind, items) in KINDS.iter().zip(&self.items) {
            put_members(&mut text, kind, items.iter());
        }
        text.push('}');
        text
    }
}

fn put_members<'a>(text: &mut String, kind: &str, items: impl Iterator<Item = (&'a String, &'a String)>) {
    let members: Vec<String> = items.map(|(key, value)| format!("{}:{value}", json!(key))).collect();
    let _ = write!(text, ",\"{kind}\":{{{}}}", members.join(","));
}

fn changes(before: &[BTreeMap<String, String>; 3], now: &[BTreeMap<String, String>; 3]) -> String {
    let mut text = String::new();
    let mut gone = serde_json::Map::new();
    for ((kind, before), now) in KINDS.iter().zip(before).zip(now) {
        let changed = now.iter().filter(|(key, value)| before.get(*key) != Some(*value));
        let mut changed = changed.peekable();
        if changed.peek().is_some() {
            put_members(&mut text, kind, changed);
        }
        let left: Vec<&String> = before.keys().filter(|key| !now.contains_key(*key)).collect();
        if !left.is_empty() {
            gone.insert((*kind).to_owned(), json!(left));
        }
    }
    if !gone.is_empty() {
        let _ = write!(text, ",\"gone\":{}", Value::Object(gone));
    }
    text
}

/// The same without characters that deceive a reader: control characters, marks of direction.
pub fn neutral(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(escape_control(&text)),
        Value::Array(values) => values.into_iter().map(neutral).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(key, value)| (escape_control(&key), neutral(value))).collect()
        }
        other => other,
    }
}

/// Number of a job in links and questions: a task of an array has one of its own.
fn name_of(id: &Id) -> String {
    if id.key.other.is_some() { id.number.clone() } else { id.key.job.to_string() }
}

/// Array and task of a job that is one (`12_3`).
fn task_of(id: &Id) -> Option<&str> {
    (name_of(id) != id.number).then_some(&id.number)
}

fn job(job: &Job) -> Value {
    json!({
        "job": name_of(&job.id),
        "task": task_of(&job.id),
        "other": job.id.key.other.is_some(),
        "user": job.id.user,
        "state": job.state,
        "ranks": job.size.ranks,
        "nodes": job.size.nodes,
        "node_ranks": job.size.node_ranks,
        "node_count": job.size.node_count,
        "since_ms": job.time.since_ms,
        "runs": job.time.runs,
        "weight": job.share.weight,
        "asked": job.share.asked_permille,
        "had": job.share.had_permille,
        "busy": job.share.busy_permille,
        "rows": job.place.rows,
        "slots": job.place.slots,
        "messages": job.place.sent.messages,
        "messages_s": job.place.sent.per_s,
        "name": job.label.name,
        "command": job.label.command,
        "remarks": job.label.remarks,
        "deadlock": job.deadlock.as_ref().map(|one| json!({ "line": one.line, "cycle": one.cycle })),
    })
}

fn node(node: &Node, row: Option<&NodeRow>) -> Value {
    let mut rows: BTreeMap<u32, Vec<(u32, String)>> = BTreeMap::new();
    for ((row, slot), key) in &node.cells {
        rows.entry(*row).or_default().push((*slot, key.job.to_string()));
    }
    json!({
        "name": node.name,
        "state": node.state,
        "why": row.and_then(NodeRow::drain).map(|drain| &drain.why),
        "slots": node.slots,
        "ranks": node.ranks,
        "memory_bytes": node.memory_bytes,
        "declared_bytes": node.declared_bytes,
        "rows": rows,
        "beside": node.beside.iter().map(|(key, ranks)| (key.job, ranks)).collect::<Vec<_>>(),
    })
}

fn user(user: &User) -> Value {
    json!({
        "user": user.name,
        "jobs": user.count.running,
        "waiting": user.count.waiting,
        "ranks": user.count.ranks,
        "share_ppm": user.standing.map(|one| one.share_ppm),
        "used_ppm": user.used_ppm,
        "gets_ppm": user.standing.map(|one| one.effective_ppm),
        "limits": limits_of(user),
    })
}

/// Ranks of a job with node and process, and what else only its own page shows.
pub fn details(row: &JobRow) -> Value {
    let first = |at: usize| row.first_ranks.get(at).copied();
    let of_node = |(at, name): (usize, &String)| {
        let pids = row.pids.iter().find(|(node, _)| node == name).map(|(_, pids)| pids);
        json!({ "node": name, "first": first(at), "pids": pids })
    };
    neutral(json!({
        "submitted_ms": row.submitted_ms,
        "started_ms": row.started_ms,
        "limit_ms": row.limit_ms,
        "memory_bytes": row.memory_bytes,
        "turns": row.turns,
        "exclusive": row.exclusive,
        "output": row.output,
        "origin": row.origin,
        "parts": row.nodes.iter().enumerate().map(of_node).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use tutti_client::filter::Filter;
    use tutti_client::report::{Answers, Before};
    use tutti_protocol::array::{ArrayTask, InArray};
    use tutti_sched::JobId;

    use super::*;
    use crate::samples;

    fn report(answers: &Answers) -> Report {
        Report::new(answers, &Before::default(), &Filter::default())
    }

    fn data(event: &str) -> Value {
        let data = event.lines().find_map(|line| line.strip_prefix("data: ")).expect("data");
        serde_json::from_str(data).expect("JSON")
    }

    #[test]
    fn frame_has_changes_for_one_that_has_seen_the_last_and_all_for_others() {
        let mut answers = samples::answers(10_000, [6000, 3000]);
        let first = Frame::after(&Frame::default(), &report(&answers), &answers.nodes);
        answers.jobs.remove(0);
        answers.at_ms += 1000;
        let second = Frame::after(&first, &report(&answers), &answers.nodes);
        let all = data(&first.event(0));
        assert_eq!(all["jobs"]["1"]["asked"], 750, "{all:#}");
        assert_eq!(all["nodes"]["n0"]["rows"]["0"][0], json!([0, "1"]), "{all:#}");
        let changes = data(&second.event(1));
        assert_eq!(changes["gone"]["jobs"], json!(["1"]), "{changes:#}");
        assert!(changes["jobs"]["4"].is_null(), "the one that waits has not changed: {changes:#}");
        assert_eq!(changes["jobs"]["2"]["asked"], 1000, "{changes:#}");
        let third = Frame::after(&second, &report(&answers), &answers.nodes);
        let quiet = data(&third.event(2));
        assert!(quiet["jobs"].is_null() && quiet["gone"].is_null(), "{quiet:#}");
        // Frames 2 and 3 were missed.
        let fourth = Frame::after(&third, &report(&answers), &answers.nodes);
        let late = data(&fourth.event(1));
        assert_eq!((late["missed"].clone(), late["number"].clone()), (2.into(), 4.into()));
        assert_eq!(late["jobs"].as_object().map(serde_json::Map::len), Some(4), "{late:#}");
    }

    #[test]
    fn frame_names_a_task_of_an_array_by_its_own_number_and_by_its_array() {
        let mut answers = samples::answers(10_000, [6000, 3000]);
        answers.jobs[1].in_array = InArray::Task(ArrayTask { array: JobId(1), task: 7 });
        let all = data(&Frame::after(&Frame::default(), &report(&answers), &answers.nodes).event(0));
        assert_eq!(
            (&all["jobs"]["2"]["job"], &all["jobs"]["2"]["task"]),
            (&json!("2"), &json!("1_7")),
            "{all:#}"
        );
        assert_eq!(all["jobs"]["1"]["task"], Value::Null, "{all:#}");
    }

    #[test]
    fn frame_has_the_cycle_of_a_deadlock_as_numbers() {
        let mut answers = samples::answers(10_000, [6000, 3000]);
        answers.jobs[0].deadlock = Some("any words".into());
        answers.jobs[0].deadlock_cycle = vec![2, 0, 5];
        let frame = Frame::after(&Frame::default(), &report(&answers), &answers.nodes);
        let all = data(&frame.event(0));
        let expected = json!({ "line": "any words", "cycle": [2, 0, 5] });
        assert_eq!(all["jobs"]["1"]["deadlock"], expected, "{all:#}");
        assert_eq!(all["jobs"]["2"]["deadlock"], Value::Null, "{all:#}");
    }

    #[test]
    fn frame_neutralises_names_of_users() {
        let mut answers = samples::answers(10_000, [6000, 3000]);
        let name = "a\u{1b}[31m\u{202e}b</script>\nid: 9";
        answers.jobs[0].name = name.into();
        answers.jobs[0].command = name.into();
        answers.nodes[0].name = name.into();
        let frame = Frame::after(&Frame::default(), &report(&answers), &answers.nodes);
        let event = frame.event(0);
        assert!(!event.contains(['\u{1b}', '\u{202e}']), "{event}");
        assert_eq!(event.lines().count(), 4, "{event}");
        let all = data(&event);
        assert_eq!(all["jobs"]["1"]["name"], r"a\u{1b}[31m\u{202e}b</script>\nid: 9");
    }
}
