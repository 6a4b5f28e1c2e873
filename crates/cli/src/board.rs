//! `tutti board`: what the board of this node says ([`tutti_shm::board`]).

use std::process::ExitCode;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tutti_protocol::{paths, size};
use tutti_shm::board::{self, Header, JOB_FROZEN, JOBS_MAX, Job, NODE_UP, Node, Reader, Running};

use crate::stdout;

/// Looks at a line that is being written, before it is said to be torn.
const LOOKS: u32 = 100;

/// Prints the board of the daemon of this node.
pub(crate) fn run(in_json: bool) -> Result<ExitCode, String> {
    let daemon = paths::of_node().join(paths::SOCKET);
    let socket = paths::board(&if paths::is_named() { paths::socket() } else { daemon });
    let reader = Reader::connect(&socket).map_err(|error| {
        format!(
            "no board at {}: {error}; a daemon writes one: tutti up, or mpiexec with turns",
            socket.display()
        )
    })?;
    let text = if in_json { format!("{:#}\n", as_json(&reader)) } else { as_table(&reader) };
    Ok(stdout::print(Some(text), ""))
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A line; none if it is torn and stays so.
fn whole<T>(read: impl Fn() -> Option<T>) -> Option<T> {
    (0..LOOKS).find_map(|_| {
        let line = read();
        if line.is_none() {
            std::thread::yield_now();
        }
        line
    })
}

fn nodes(reader: &Reader, header: &Header) -> impl Iterator<Item = (u64, Option<Node>)> {
    let lines = (0..header.nodes).map(|node| (node, whole(|| reader.node(node as usize))));
    lines.filter(|(_, line)| line.is_none_or(|line| line.state != 0))
}

fn jobs(reader: &Reader) -> impl Iterator<Item = Option<Job>> {
    let lines = (0..JOBS_MAX).map(|place| whole(|| reader.job_at(place)));
    lines.filter(|line| line.is_none_or(|line| line.job().is_some()))
}

/// The jobs that have a node's processors.
fn running(reader: &Reader, node: u64) -> Option<Running> {
    whole(|| reader.running(node as usize))
}

/// The same for a table: numbers, and how many more there are.
fn running_text(line: Option<Running>) -> String {
    let Some(line) = line.filter(|line| line.jobs > 0) else { return "-".into() };
    let named: Vec<String> = line.named().map(|job| job.to_string()).collect();
    match line.jobs.saturating_sub(named.len() as u64) {
        0 => named.join(","),
        more => format!("{},+{more}", named.join(",")),
    }
}

fn age_ms(now_ns: u64, then_ns: u64) -> u64 {
    now_ns.saturating_sub(then_ns) / 1_000_000
}

fn as_json(reader: &Reader) -> Value {
    let (header, now_ns) = (reader.header(), now_ns());
    let node = |(number, line): (u64, Option<Node>)| match line {
        None => json!({ "node": number, "torn": true }),
        Some(line) => json!({
            "node": number,
            "state": if line.state == NODE_UP { "up" } else { "lost" },
            "age_ms": age_ms(now_ns, line.updated_ns),
            "cores": line.cores,
            "jobs": line.jobs,
            "running": running(reader, number).map(|line| line.named().collect::<Vec<_>>()),
            "runnable": line.runnable,
            "load_milli": line.load_milli,
            "memory_bytes": line.memory_bytes,
            "memory_available_bytes": line.memory_available_bytes,
            "memory_pressure": line.memory_pressure,
            "bytes_in_s": line.bytes_in_s,
            "bytes_out_s": line.bytes_out_s,
            "dropped_s": line.dropped_s,
            "retransmitted_s": line.retransmitted_s,
        }),
    };
    let job = |line: Option<Job>| match line {
        None => json!({ "torn": true }),
        Some(line) => json!({
            "job": line.job(),
            "state": state(&line),
            "age_ms": age_ms(now_ns, line.updated_ns),
            "since_ms": age_ms(now_ns, line.since_ns),
            "frozen_ms": frozen_ms(now_ns, &line),
            "thaws": line.thaw_count,
            "slice_left_ms": slice_left_ms(now_ns, &line),
            "generation": line.generation,
            "ranks": line.ranks,
        }),
    };
    json!({
        "kind": if header.kind == board::OF_DAEMON { "daemon" } else { "starter" },
        "own_node": header.own_node,
        "refresh_ms": header.refresh_ms,
        "age_ms": age_ms(now_ns, header.written_ns),
        "congested": header.congested_until_ns > now_ns,
        "nodes": nodes(reader, &header).map(node).collect::<Vec<_>>(),
        "jobs": jobs(reader).map(job).collect::<Vec<_>>(),
    })
}

fn state(line: &Job) -> &'static str {
    if line.state == JOB_FROZEN { "frozen" } else { "running" }
}

fn frozen_ms(now_ns: u64, line: &Job) -> u64 {
    let since_ns = if line.state == JOB_FROZEN { now_ns.saturating_sub(line.since_ns) } else { 0 };
    (line.frozen_ns_total + since_ns) / 1_000_000
}

fn slice_left_ms(now_ns: u64, line: &Job) -> Option<u64> {
    (line.slice_end_ns > 0).then(|| line.slice_end_ns.saturating_sub(now_ns) / 1_000_000)
}

fn as_table(reader: &Reader) -> String {
    let (header, now_ns) = (reader.header(), now_ns());
    let head = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut of_nodes = vec![head(&[
        "NODE",
        "STATE",
        "AGE_MS",
        "CORES",
        "JOBS",
        "RUNNING",
        "RUNNABLE",
        "LOAD",
        "MEMORY",
        "PRESSURE",
        "IN/S",
        "OUT/S",
        "DROPPED/S",
        "AGAIN/S",
    ])];
    for (number, line) in nodes(reader, &header) {
        let own = if number == header.own_node { "*" } else { "" };
        let Some(line) = line else {
            of_nodes.push([vec![format!("{number}{own}"), "torn".into()], vec!["-".into(); 12]].concat());
            continue;
        };
        of_nodes.push(vec![
            format!("{number}{own}"),
            if line.state == NODE_UP { "up" } else { "lost" }.to_owned(),
            age_ms(now_ns, line.updated_ns).to_string(),
            line.cores.to_string(),
            line.jobs.to_string(),
            running_text(running(reader, number)),
            line.runnable.to_string(),
            format!("{}.{:02}", line.load_milli / 1000, line.load_milli % 1000 / 10),
            format!("{}/{}", size::text(line.memory_available_bytes), size::text(line.memory_bytes))
                .replace(' ', ""),
            format!("{}.{:02}%", line.memory_pressure / 100, line.memory_pressure % 100),
            line.bytes_in_s.to_string(),
            line.bytes_out_s.to_string(),
            line.dropped_s.to_string(),
            line.retransmitted_s.to_string(),
        ]);
    }
    let mut of_jobs =
        vec![head(&["JOB", "STATE", "SINCE_MS", "FROZEN_MS", "THAWS", "SLICE_LEFT_MS", "RANKS"])];
    for line in jobs(reader) {
        let Some(line) = line else {
            of_jobs.push([vec!["-".into(), "torn".into()], vec!["-".into(); 5]].concat());
            continue;
        };
        of_jobs.push(vec![
            line.job().map_or_else(String::new, |job| job.to_string()),
            state(&line).to_owned(),
            age_ms(now_ns, line.since_ns).to_string(),
            frozen_ms(now_ns, &line).to_string(),
            line.thaw_count.to_string(),
            slice_left_ms(now_ns, &line).map_or_else(|| "-".into(), |left_ms| left_ms.to_string()),
            line.ranks.to_string(),
        ]);
    }
    let mut text = tutti_client::table::aligned(
        &of_nodes,
        &[true, false, true, true, true, false, true, true, true, true, true, true, true, true],
    );
    if header.congested_until_ns > now_ns {
        text += "the network of this node is congested\n";
    }
    if of_jobs.len() > 1 {
        text.push('\n');
        text += &tutti_client::table::aligned(&of_jobs, &[true, false, true, true, true, true, true]);
    }
    text
}
