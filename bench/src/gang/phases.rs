//! Figures 6 and 7 of the SR8000 paper: jobs with serial and parallel phases under its three policies, on 8
//! virtual processors: computing is sleeping.

use std::{path::Path, process::Command, time::Duration};

use super::{
    Bench,
    cluster::{Cluster, PLAIN, Setting},
    report::Table,
};
use crate::{
    child::{self, End},
    figures::median,
    mpis::Kind,
};

/// Processors: 4 serial slots and 4 parallel ones.
const SLOTS: u32 = 8;
/// A round: so many us serial, so many parallel.
const SERIAL_US: u64 = 270;
const PARALLEL_US: u64 = 500;
const LIMIT: Duration = Duration::from_secs(120);
/// By the order of the paper; the limited rate is ours.
const POLICIES: [(&str, &str); 4] = [
    ("time slicing", "--phases=time"),
    ("shared slots", "--phases=shared"),
    ("with hints", "--phases=hints"),
    ("with hints, 20 ms", "--phases=hints:20000"),
];

/// A job: rounds, and how long its parts are beside those above.
type Job = (u64, u64);

pub fn run(bench: &Bench<'_>) -> Result<(), String> {
    let program = compile(bench)?;
    let rounds = if bench.quick { 300 } else { 1000 };
    let columns = ["", "jobs", "alone, ms", "each, ms", "spread", "makespan / n x alone", "makespan / bound"];
    let title = "Serial and parallel phases on 8 virtual processors (0.27 ms + 0.5 ms a round)";
    let mut table = Table::new(title, &columns);
    let equal = |jobs: usize| vec![(rounds, 1); jobs];
    let unequal = vec![(rounds, 1), (rounds, 1), (rounds, 1), (rounds / 10, 10)];
    for (name, option) in POLICIES {
        for (what, jobs) in
            [("1", equal(1)), ("2", equal(2)), ("4", equal(4)), ("4, one with parts x 10", unequal.clone())]
        {
            match measure(bench, &program, option, &jobs) {
                Ok(cells) => table.row([vec![name.into(), what.into()], cells].concat()),
                Err(why) => table.failed(vec![name.into(), what.into()], &why),
            }
        }
    }
    let printed = table.print();
    println!("\nBound: the parallel phases one after the other. Goal with hints: 1.10, spread 10 %.");
    printed
}

fn compile(bench: &Bench<'_>) -> Result<std::path::PathBuf, String> {
    let program = bench.places.target.join("bench-gang/phases");
    std::fs::create_dir_all(program.parent().expect("a folder")).map_err(|error| error.to_string())?;
    let mut compiler = Command::new(bench.places.bin(Kind::Tutti).join("mpicc"));
    compiler.args(["-O2", "-o"]).arg(&program);
    compiler.args(["tests/native/programs/phases.c", "-ltutti"]);
    match child::start(&mut compiler)?.finish(LIMIT).end {
        End::Well => Ok(program),
        end => Err(format!("mpicc: {end:?}")),
    }
}

/// Alone, each, spread, makespan beside n times alone and beside the bound; medians over the rounds.
fn measure(bench: &Bench<'_>, program: &Path, option: &str, jobs: &[Job]) -> Result<Vec<String>, String> {
    let cluster = Cluster::up(bench.places, &Setting { slots: Some(SLOTS), ..PLAIN })?;
    let (mut alone, mut each, mut spreads, mut makespans) = (vec![], vec![], vec![], vec![]);
    for _ in 0..bench.rounds {
        alone.push(at_once(&cluster, program, option, &jobs[..1])?[0]);
        let times = at_once(&cluster, program, option, jobs)?;
        let last = times.iter().copied().fold(0.0, f64::max);
        let first = times.iter().copied().fold(last, f64::min);
        spreads.push((last - first) / last);
        makespans.push(last);
        each = times;
    }
    let middle = |figures: &[f64]| median(figures).unwrap_or(f64::NAN);
    let (alone, makespan) = (middle(&alone), middle(&makespans));
    // The program does not only sleep: what a round takes alone is the measure.
    let round_us = alone * 1e3 / jobs[0].0 as f64;
    let parallel_us = round_us * PARALLEL_US as f64 / (SERIAL_US + PARALLEL_US) as f64;
    let parallel: f64 = jobs.iter().map(|(rounds, long)| (rounds * long) as f64 * parallel_us / 1e3).sum();
    let bound = parallel.max(alone);
    let times: Vec<String> = each.iter().map(|time| format!("{time:.0}")).collect();
    Ok(vec![
        format!("{alone:.0}"),
        times.join(" "),
        format!("{:.0} %", middle(&spreads) * 100.0),
        format!("{:.2}", makespan / (alone * jobs.len() as f64)),
        format!("{:.2}", makespan / bound),
    ])
}

/// How long each of these jobs takes, in ms.
fn at_once(cluster: &Cluster, program: &Path, option: &str, jobs: &[Job]) -> Result<Vec<f64>, String> {
    let start = |&(rounds, long): &Job| {
        let args = [rounds, SERIAL_US * long, PARALLEL_US * long].map(|number| number.to_string());
        cluster.start_with(&[option], 1, 1, program, &args)
    };
    let running: Vec<_> = jobs.iter().map(start).collect::<Result<_, _>>()?;
    let ended: Vec<_> = running.into_iter().map(|job| cluster.finish(job, LIMIT)).collect();
    let time = |ran: Result<child::Ran, String>| {
        let text = ran?.stdout;
        let line = text.lines().find_map(|line| line.strip_prefix("phases: ")?.strip_suffix(" ms"));
        line.and_then(|time| time.parse().ok()).ok_or_else(|| "no time in its output".to_owned())
    };
    ended.into_iter().map(time).collect()
}
