//! Samples of what daemons answer, for the tests of reports and of what shows them.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tutti_protocol::public::PublicRow;
use tutti_protocol::users::{self as reported, JobRow, JobState, NodeRow, Prices};
use tutti_sched::NodeId;
use tutti_testkit::Random;

use super::Answers;

/// A job that runs, with what a test says of it.
pub(crate) fn row(job: u64, more: Value) -> JobRow {
    let mut value = json!({
        "job": job, "uid": 4_000_000_001_u32, "state": "running", "ranks": 2, "nodes": ["n0"],
        "first_ranks": [0], "command": format!("./job{job}"), "submitted_ms": 500, "started_ms": 1000,
        "ended_ms": null, "status": null, "weight": 100, "exclusive": false, "memory_bytes": 0,
        "gang": true, "turns": 1, "waits": null, "pids": [],
    });
    for (name, field) in more.as_object().expect("fields") {
        value[name] = field.clone();
    }
    serde_json::from_value(value).expect("a row")
}

pub(crate) fn node(number: u32, name: &str) -> NodeRow {
    let value = json!({ "node": number, "name": name, "alive": true, "slots": 4, "ranks": 4,
        "memory_bytes": 1_u64 << 30, "declared_bytes": 1 << 20, "parent": null, "address": "127.0.0.1" });
    serde_json::from_value(value).expect("a node")
}

pub(crate) fn other(job: u64, uid: u32) -> PublicRow {
    let state = JobState::Running;
    PublicRow { job, uid, state, ranks: 3, nodes: 1, since_ms: 2000, command: "theirs".into() }
}

pub(crate) fn place(job: u64, served_ms: u64, rows: &[u32], slots: &[(u32, &[u32])]) -> reported::Place {
    let slots = slots.iter().map(|(node, slots)| (NodeId(*node), slots.to_vec())).collect();
    let (job, rows) = (tutti_sched::JobId(job), rows.to_vec());
    reported::Place { job, served_ms, rows, slots, messages: served_ms.saturating_mul(10) }
}

/// Jobs 1 and 2 share the slots 0 and 1 of n0; job 3 has 2 and 3 in both rows; job 4 waits.
pub(crate) fn answers(at_ms: u64, served: [u64; 2]) -> Answers {
    let places = vec![
        place(1, served[0], &[0], &[(0, &[0, 1])]),
        place(2, served[1], &[1], &[(0, &[0, 1])]),
        place(3, 0, &[0, 1], &[(0, &[2, 3])]),
    ];
    Answers {
        at_ms,
        daemon: true,
        jobs: vec![
            row(1, json!({ "weight": 300 })),
            row(2, json!({ "name": "second" })),
            row(3, json!({ "uid": 4_000_000_002_u32 })),
            row(
                4,
                json!({ "state": "waiting", "started_ms": null, "nodes": [], "first_ranks": [],
                           "waits": "no node has 9 slots" }),
            ),
        ],
        others: vec![other(1, 4_000_000_009)],
        nodes: vec![node(0, "n0"), node(1, "n1")],
        prices: Prices { places, ..Prices::default() },
        ..Answers::default()
    }
}

/// The same with numbers that no honest daemon says in some places. What cannot be read with them stays as it
/// is.
pub(crate) fn with_rubbish_numbers(answers: &Answers, random: &mut Random) -> Answers {
    let mut found = answers.clone();
    found.jobs = changed(&found.jobs, random).unwrap_or(found.jobs);
    found.others = changed(&found.others, random).unwrap_or(found.others);
    found.nodes = changed(&found.nodes, random).unwrap_or(found.nodes);
    found.prices = changed(&found.prices, random).unwrap_or(found.prices);
    found
}

fn changed<T: Serialize + DeserializeOwned>(rows: &T, random: &mut Random) -> Option<T> {
    let mut value = serde_json::to_value(rows).expect("rows are serialisable");
    change_numbers(&mut value, random);
    serde_json::from_value(value).ok()
}

fn change_numbers(value: &mut Value, random: &mut Random) {
    const NUMBERS: [u64; 6] = [0, 1, 1000, u32::MAX as u64, i64::MAX as u64, u64::MAX];
    match value {
        Value::Number(_) if random.below(4) == 0 => {
            *value = json!(NUMBERS[random.below(NUMBERS.len() as u64) as usize]);
        }
        Value::Array(values) => values.iter_mut().for_each(|value| change_numbers(value, random)),
        Value::Object(fields) => fields.values_mut().for_each(|value| change_numbers(value, random)),
        _ => {}
    }
}
