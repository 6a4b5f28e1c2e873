//! Figures 6 and 7 of the SR8000 paper: jobs with serial and parallel phases under its three policies. On 8
//! virtual processors computing is sleeping; a solver by OpenMP computes on the cores that there are.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{
    Bench,
    cluster::{Cluster, PLAIN, Setting},
    report::Table,
};
use crate::{
    child::{self, End},
    figures::{Line, median},
    mpis::{self, Kind, Places},
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

/// The program of the jobs.
struct Work {
    program: PathBuf,
    /// Arguments of the program.
    arguments: fn(&Job) -> Vec<String>,
    /// The share of its time alone that is parallel.
    parallel: f64,
    /// Of the node.
    slots: u32,
}

pub fn run(bench: &Bench<'_>) -> Result<(), String> {
    let arguments = |&(rounds, long): &Job| {
        [rounds, SERIAL_US * long, PARALLEL_US * long].map(|number| number.to_string()).to_vec()
    };
    let parallel = PARALLEL_US as f64 / (SERIAL_US + PARALLEL_US) as f64;
    let work = Work { program: compile(bench)?, arguments, parallel, slots: SLOTS };
    let rounds = if bench.quick { 300 } else { 1000 };
    let title = "Serial and parallel phases on 8 virtual processors (0.27 ms + 0.5 ms a round)";
    let unequal = vec![(rounds, 1), (rounds, 1), (rounds, 1), (rounds / 10, 10)];
    let printed = policies(bench, &work, title, rounds, &[("4, one with parts x 10", unequal)]);
    println!("\nBound: the parallel phases one after the other. Goal with hints: 1.10, spread 10 %.");
    printed?;
    conjugate_gradients(bench)
}

/// The same with a solver that computes (bench/c/cg.c, OpenMP), on as many cores as there are.
fn conjugate_gradients(bench: &Bench<'_>) -> Result<(), String> {
    let (program, cores) = (compile_cg(bench.places)?, std::thread::available_parallelism());
    let cores = cores.map_or(1, usize::from);
    let alone = cg_alone(&program, cores, if bench.quick { 40 } else { 200 })?;
    let work = Work {
        program,
        arguments: |&(solutions, _)| vec![solutions.to_string()],
        parallel: alone.parallel_ms / alone.total_ms,
        slots: cores as u32,
    };
    let title = format!("Conjugate gradients by OpenMP on {cores} cores");
    let printed = policies(bench, &work, &title, if bench.quick { 200 } else { 1000 }, &[]);
    println!(
        "\nFewer cores than the paper's 8: what its serial parts leave free is at most {} of them.",
        cores - 1
    );
    printed
}

/// Each policy with 1, 2 and 4 equal jobs, and more.
fn policies(
    bench: &Bench<'_>,
    work: &Work,
    title: &str,
    rounds: u64,
    more: &[(&str, Vec<Job>)],
) -> Result<(), String> {
    let columns = ["", "jobs", "alone, ms", "each, ms", "spread", "makespan / n x alone", "makespan / bound"];
    let mut table = Table::new(title, &columns);
    let equal = [("1", 1), ("2", 2), ("4", 4)].map(|(name, jobs)| (name, vec![(rounds, 1); jobs]));
    for (name, option) in POLICIES {
        for (what, jobs) in equal.iter().chain(more) {
            match measure(bench, work, option, jobs) {
                Ok(cells) => table.row([vec![name.into(), (*what).into()], cells].concat()),
                Err(why) => table.failed(vec![name.into(), (*what).into()], &why),
            }
        }
    }
    table.print()
}

/// Builds the solver with gcc's OpenMP.
pub fn compile_cg(places: &Places) -> Result<PathBuf, String> {
    let folder = places.programs(Kind::Tutti);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    mpis::compile_with(places, Kind::Tutti, "bench/c/cg.c", &["-fopenmp", "-ltutti"])?;
    Ok(folder.join("cg"))
}

/// Figures that the solver prints of a run.
#[derive(Clone, Copy, Debug)]
pub struct Alone {
    /// In parallel parts.
    pub parallel_ms: f64,
    /// All of it.
    pub total_ms: f64,
}

/// The paper's formula (1): how much faster a program is, of which a share `rate` is `accelerated` times as
/// fast.
#[must_use]
pub fn speed_up(rate: f64, accelerated: f64) -> f64 {
    1.0 / (rate / accelerated + (1.0 - rate))
}

/// Runs the solver without any job beside it, on so many threads.
pub fn cg_alone(program: &Path, threads: usize, solutions: u64) -> Result<Alone, String> {
    let mut command = Command::new(program);
    // As the starter sets it: threads of gcc's OpenMP that wait do not spin for long.
    command.env("OMP_NUM_THREADS", threads.to_string()).env("GOMP_SPINCOUNT", "10000");
    let ran = child::run(command.arg(solutions.to_string()), LIMIT);
    match ran.end {
        End::Well => {}
        end => return Err(format!("cg: {end:?}")),
    }
    let line = ran.stdout.lines().filter_map(Line::parse).find(|line| line.name == "cg");
    let figure = |key: &str| line.as_ref().and_then(|line| line.figure(key));
    let (parallel_ms, total_ms) = (figure("parallel_ms"), figure("total_ms"));
    let found = parallel_ms.zip(total_ms).ok_or("cg: no figure in its output")?;
    Ok(Alone { parallel_ms: found.0, total_ms: found.1 })
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
fn measure(bench: &Bench<'_>, work: &Work, option: &str, jobs: &[Job]) -> Result<Vec<String>, String> {
    let cluster = Cluster::up(bench.places, &Setting { slots: Some(work.slots), ..PLAIN })?;
    let (mut alone, mut each, mut spreads, mut makespans) = (vec![], vec![], vec![], vec![]);
    for _ in 0..bench.rounds {
        alone.push(at_once(&cluster, work, option, &jobs[..1])?[0]);
        let times = at_once(&cluster, work, option, jobs)?;
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
    let parallel_us = round_us * work.parallel;
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
fn at_once(cluster: &Cluster, work: &Work, option: &str, jobs: &[Job]) -> Result<Vec<f64>, String> {
    let start = |job: &Job| cluster.start_with(&[option], 1, 1, &work.program, &(work.arguments)(job));
    let running: Vec<_> = jobs.iter().map(start).collect::<Result<_, _>>()?;
    let ended: Vec<_> = running.into_iter().map(|job| cluster.finish(job, LIMIT)).collect();
    let time = |ran: Result<child::Ran, String>| {
        let text = ran?.stdout;
        let line = text.lines().find_map(|line| line.strip_prefix("phases: ")?.strip_suffix(" ms"));
        line.and_then(|time| time.parse().ok()).ok_or_else(|| "no time in its output".to_owned())
    };
    ended.into_iter().map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::speed_up;

    // Paper: R17
    #[test]
    fn speed_up_of_half_the_processors_needs_a_rate_of_six_sevenths() {
        assert!((speed_up(6.0 / 7.0, 8.0) - 4.0).abs() < 1e-12);
        assert!((speed_up(1.0, 8.0) - 8.0).abs() < 1e-12 && (speed_up(0.0, 8.0) - 1.0).abs() < 1e-12);
    }
}
