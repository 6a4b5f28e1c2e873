//! Response time beside batch (SCore-D, section 1): a mixed workload of short and long parallel programs, by
//! turns of 100 ms and one after the other, by real jobs and by `tutti simulate`.
//!
//! One after the other is the same daemon with turns of an hour: a row keeps the nodes until its jobs end.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::cluster::{Cluster, PLAIN, Setting};
use super::report::Table;
use super::{Bench, Kind};
use crate::{
    child::{self, End, Running},
    figures::median,
    mpis,
};

const LIMIT: Duration = Duration::from_secs(300);
/// Of a step, with a barrier behind it, in us.
const STEP_US: f64 = 2000.0;
const BATCH_SLICE_MS: u32 = 3_600_000;

/// A job: when it is submitted, in s; whether it wants all nodes, or one; how long it takes alone, in s.
type Job = (u64, bool, u64);

/// Two long ones, and short ones that come while they run.
const JOBS: [Job; 10] = [
    (0, true, 8),
    (1, true, 1),
    (2, false, 2),
    (3, true, 1),
    (4, false, 1),
    (5, true, 6),
    (6, false, 1),
    (7, true, 1),
    (8, false, 2),
    (9, true, 1),
];

/// Mean response in s, and mean of response over time alone.
type Means = [f64; 2];

/// Measures both ways by both means, and prints them.
pub fn run(bench: &Bench<'_>) -> Result<(), String> {
    mpis::compile_more(bench.places, Kind::Tutti, "bench/c/steps.c")?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let mut table = Table::new(
        &format!("{} jobs on {cores} nodes of one core", JOBS.len()),
        &["", "mean response, s", "mean slowdown"],
    );
    let row = |means: Means| means.map(|mean| format!("{mean:.1}")).to_vec();
    for (name, slice_ms) in [("real jobs, turns of 100 ms", 100), ("real jobs, batch", BATCH_SLICE_MS)] {
        match real(bench, cores, slice_ms) {
            Ok(means) => table.row([vec![name.into()], row(means)].concat()),
            Err(why) => table.failed(vec![name.into()], &why),
        }
    }
    for (name, policy) in [("tutti simulate, matrix", "matrix"), ("fifo", "fifo"), ("easy", "easy")] {
        match simulated(bench, cores, policy) {
            Ok(mean) => table.row(vec![name.into(), format!("{mean:.1}"), "-".into()]),
            Err(why) => table.failed(vec![name.into()], &why),
        }
    }
    let printed = table.print();
    println!(
        "\nSlowdown: response over the time that a job takes alone. Steps are calibrated on one core alone."
    );
    printed
}

/// Submits each job when it is due; medians over the rounds.
fn real(bench: &Bench<'_>, nodes: u32, slice_ms: u32) -> Result<Means, String> {
    let cluster = Cluster::up(bench.places, &Setting { nodes, slots: Some(1), slice_ms, ..PLAIN })?;
    let program = bench.places.programs(Kind::Tutti).join("steps");
    let loops = (bench.loops as f64 * STEP_US / crate::cases::LONG_STEP_US) as u64;
    let (mut responses, mut slowdowns) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        let begun = Instant::now();
        let mut running: Vec<(Instant, u64, Running)> = Vec::new();
        for (due_s, is_wide, seconds) in JOBS {
            let due = begun + Duration::from_secs(due_s);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let steps = (seconds as f64 * 1e6 / STEP_US) as u64;
            let args = ["--loops".into(), loops.to_string(), "--steps".into(), steps.to_string()];
            let width = if is_wide { nodes } else { 1 };
            running.push((Instant::now(), seconds, cluster.start(width, width, &program, &args)?));
        }
        let mut round = Vec::new();
        for (submitted, seconds, job) in running {
            let ended = cluster.finish(job, LIMIT)?.ended;
            round.push((ended.duration_since(submitted).as_secs_f64(), seconds as f64));
        }
        let count = round.len() as f64;
        responses.push(round.iter().map(|(response, _)| response).sum::<f64>() / count);
        slowdowns.push(round.iter().map(|(response, alone)| response / alone).sum::<f64>() / count);
    }
    Ok([&responses, &slowdowns].map(|figures| median(figures).unwrap_or(f64::NAN)))
}

/// The mean response of the same workload by the scheduler's own code, in s.
fn simulated(bench: &Bench<'_>, nodes: u32, policy: &str) -> Result<f64, String> {
    let file = bench.places.target.join("bench-gang/response.swf");
    let lines = JOBS.iter().enumerate().map(|(number, (due_s, is_wide, seconds))| {
        let width = if *is_wide { nodes } else { 1 };
        let (number, rest) = (number + 1, "-1 1 1 1 1 1 1 -1 -1");
        format!("{number} {due_s} -1 {seconds} {width} -1 -1 {width} {seconds} {rest}\n")
    });
    fs::write(&file, lines.collect::<String>()).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut command = Command::new(bench.places.bin(Kind::Tutti).join("tutti"));
    command.args(["simulate", "--json", "--policy", policy, "--nodes", &nodes.to_string(), "--swf"]);
    let ran = child::run(command.arg(&file), LIMIT);
    match ran.end {
        End::Well => response_in(&ran.stdout).ok_or_else(|| "no response in its output".into()),
        end => Err(format!("tutti simulate: {end:?}")),
    }
}

fn response_in(text: &str) -> Option<f64> {
    let found: Value = serde_json::from_str(text).ok()?;
    found["policies"][0]["response_mean_s"].as_f64()
}
