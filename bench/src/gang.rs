//! `make bench-gang`: jobs that share a machine, and what the gang switch costs, beside peers and beside the
//! figures of SCore-D.
//!
//! The peers and the programs of `bench/c` are those of the side-by-side table; those of `examples/` are
//! compiled too. Pictures go to `target/bench-gang`, tables to stdout.

mod cluster;
mod mixes;
mod pairs;
pub mod phases;
mod report;
mod response;
mod switches;
mod together;
pub mod widths;

use std::{path::Path, process::Command, time::Duration};

use tutti_svg::plot::{self, Bar, Bars};

use crate::{
    cases::LONG_STEP_US,
    child::{self, End},
    figures::{Line, median},
    mpis::{self, Kind, Places},
};
use cluster::{Cluster, PLAIN, Setting};
use report::{Table, picture};

/// Example programs that are run in pairs.
const EXAMPLES: [&str; 4] = ["halo", "transpose", "wavefront", "scatter"];
/// Slower ones are drawn as if they were as slow as this.
const SLOWEST_DRAWN: f64 = 6.0;

/// Forms in which the two programs of SCore-D's paper are here: EP and BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Messages and collective operations of MPI.
    Messages,
    /// Tasks and remote invocations, as the paper's were.
    Invocations,
}

impl Written {
    /// Name of the program.
    fn program(self) -> &'static str {
        match self {
            Written::Messages => "gang",
            Written::Invocations => "gang_invoke",
        }
    }

    /// Words for a table's title.
    fn title(self) -> &'static str {
        match self {
            Written::Messages => "EP and BAR by MPI",
            Written::Invocations => "EP and BAR by remote invocations (tutti.hpp)",
        }
    }
}

/// Settings of an experiment.
pub struct Bench<'a> {
    places: &'a Places,
    kinds: &'a [Kind],
    quick: bool,
    rounds: usize,
    /// Loops of a step of [`LONG_STEP_US`].
    loops: u64,
    steps: u32,
}

/// Measures, and prints its table as soon as the rows are there; what fails is a row too, and the error that
/// comes back.
type Run = fn(&Bench<'_>) -> Result<(), String>;

/// Name, what it is, whether it is left out of `--quick`, and how to run it; in this order.
const EXPERIMENTS: [(&str, &str, bool, Run); 10] = [
    ("two-jobs", "two jobs at once under every MPI", false, two_jobs),
    ("more-jobs", "two, four and eight jobs at once", true, more_jobs),
    ("pairs", "two different programs at once", false, pairs),
    ("mixes", "mixes of two, four and eight jobs of all kinds at once", true, mixes::run),
    ("switches", "EP and BAR with a switch in every slice", false, switches::run),
    ("skew", "how far apart ranks go on after a switch", false, rank_skew),
    ("phases", "serial and parallel phases under three policies", false, phases::run),
    ("response", "response times of a mixed workload, by turns and in batch", true, response::run),
    ("channel", "saving and restoring a channel", false, channel),
    ("simulated", "the simulated switch of up to 4,096 nodes", false, simulated),
];

/// The names of those that are chosen, with what they are.
pub fn chosen(only: &[String], quick: bool) -> Vec<(&'static str, &'static str)> {
    let is_named = |name: &str| only.is_empty() || only.iter().any(|text| name.contains(text.as_str()));
    let wanted = EXPERIMENTS.iter().filter(|(name, _, long, _)| is_named(name) && !(quick && *long));
    wanted.map(|&(name, text, _, _)| (name, text)).collect()
}

/// Runs the experiments of these names. One that fails does not keep the others from being made.
pub fn run(
    places: &Places,
    kinds: &[Kind],
    names: &[(&str, &str)],
    quick: bool,
    rounds: Option<usize>,
    ns_per_loop: f64,
) -> Result<(), String> {
    for &kind in kinds {
        mpis::compile_more(places, kind, "bench/c/gang.c")?;
        for example in EXAMPLES {
            mpis::compile_more(places, kind, &format!("examples/{example}.c"))?;
        }
    }
    let loops = ((LONG_STEP_US * 1e3 / ns_per_loop) as u64).max(1);
    let (usual, steps) = if quick { (1, 10_000) } else { (3, 20_000) };
    let rounds = rounds.unwrap_or(usual).max(1);
    let bench = Bench { places, kinds, quick, rounds, loops, steps };
    let mut failed = Vec::new();
    for (name, _, _, run) in EXPERIMENTS.iter().filter(|one| names.iter().any(|name| name.0 == one.0)) {
        if let Err(why) = run(&bench) {
            eprintln!("\r\x1b[Kbench: {name}: {why}");
            failed.push(*name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

/// EP and BAR, in both forms, with these numbers of nodes and these slices only.
///
/// # Errors
/// When a row fails.
pub fn run_switches(places: &Places, nodes: &[u32], slices_ms: &[u32], rounds: usize) -> Result<(), String> {
    mpis::compile_more(places, Kind::Tutti, "bench/c/gang.c")?;
    mpis::compile_cxx(places, "bench/c/gang_invoke.cpp")?;
    let messages = switches::run_of(places, Written::Messages, nodes, slices_ms, rounds);
    switches::run_of(places, Written::Invocations, nodes, slices_ms, rounds).and(messages)
}

fn more_jobs(bench: &Bench<'_>) -> Result<(), String> {
    let mut table = Table::new(
        "More jobs at once: slowest / alone / number of jobs",
        &["", "2 jobs", "4 jobs", "8 jobs"],
    );
    pairs::many_jobs(bench.places, bench.kinds, bench.loops, bench.steps, &mut table);
    table.print()
}

fn pairs(bench: &Bench<'_>) -> Result<(), String> {
    let columns =
        ["", "", "alone, both, s", "both at once / that", "over the rounds", "each beside the other / alone"];
    let mut table = Table::new(
        "Two different programs: until both are done, over the sum of their times alone (ideal: 1)",
        &columns,
    );
    let seconds = if bench.quick { 0.5 } else { 1.5 };
    pairs::mixed(bench.places, bench.kinds, bench.rounds.min(2), seconds, &mut table);
    table.print()
}

fn two_jobs(bench: &Bench<'_>) -> Result<(), String> {
    let found = pairs::two_jobs(bench.places, bench.kinds, bench.rounds, bench.loops, bench.steps);
    let printed = pairs::table(&found, bench.steps).print();
    println!("\nGoals: 2.02 at 100 ms, 2.06 at 10 ms; alone no slower than the best peer.");
    let bars = found.iter().filter_map(|(who, found)| {
        let ratio = median(&found.ratios)?.min(SLOWEST_DRAWN);
        Some((who.name.to_owned(), vec![Bar { name: String::new(), parts: vec![ratio] }]))
    });
    let bars = Bars {
        title: "Two jobs at once: the slower one's time over its time alone".into(),
        note: format!(
            "2 ranks each, 49 us and a barrier; bars of {SLOWEST_DRAWN} are that or more. Two jobs cannot take less than 2"
        ),
        y: "times".into(),
        parts: vec!["slower job / alone".into()],
        groups: bars.collect(),
    };
    picture(bench.places, "jobs.svg", &plot::bars(&bars))?;
    printed
}

/// How far apart two ranks on two nodes go on, seen by the ranks themselves.
fn rank_skew(bench: &Bench<'_>) -> Result<(), String> {
    let mut table = Table::new(
        "Two ranks, a core each, on two nodes: how far apart they go on after a switch",
        &["", "median", "99 %", "n"],
    );
    let budget_ms = if bench.quick { 1500 } else { 4000 };
    for strict in [false, true] {
        let mode = if strict { "strict" } else { "overlapped" };
        match skew(bench.places, strict, budget_ms) {
            Ok(line) => {
                let us = |key: &str| {
                    line.figure(key).map_or_else(|| "-".into(), |ns| format!("{:.0} us", ns / 1000.0))
                };
                let count = line.figure("n").unwrap_or(0.0);
                table.row(vec![mode.into(), us("median_ns"), us("p99_ns"), format!("{count}")]);
            }
            Err(why) => table.failed(vec![mode.into()], &why),
        }
    }
    table.print()
}

fn skew(places: &Places, strict: bool, budget_ms: u32) -> Result<Line, String> {
    let setting = Setting { nodes: 2, slots: Some(1), strict, force: true, ..PLAIN };
    let cluster = Cluster::up(places, &setting)?;
    let args = ["skew".to_owned(), "--budget-ms".into(), budget_ms.to_string()];
    let program = places.programs(Kind::Tutti).join("gang");
    let stdout = cluster.run(2, &program, &args, Duration::from_secs(60))?;
    stdout.lines().find_map(Line::parse).ok_or_else(|| "no figure in its output".into())
}

/// Saving and restoring channels, which needs no daemon.
fn channel(bench: &Bench<'_>) -> Result<(), String> {
    let saved = example(bench, "save_time", &[])?;
    println!("\n### Saving and restoring a channel\n\n{saved}");
    Ok(())
}

/// The simulated switch of up to 4,096 nodes, which needs none either.
fn simulated(bench: &Bench<'_>) -> Result<(), String> {
    let svg = bench.places.target.join("bench-gang/simulated.svg");
    example(bench, "switch_time", &[&svg])?;
    println!("picture: {}", svg.display());
    Ok(())
}

fn example(bench: &Bench<'_>, name: &str, args: &[&Path]) -> Result<String, String> {
    let program = bench.places.target.join("release/examples").join(name);
    let ran = child::start(Command::new(&program).args(args))?.finish(Duration::from_secs(120));
    match ran.end {
        End::Well => Ok(ran.stdout),
        end => Err(format!("{}: {end:?}", program.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_selected_by_substring() {
        let names = |only: &[&str], quick| -> Vec<&str> {
            let only: Vec<String> = only.iter().map(|text| (*text).to_owned()).collect();
            chosen(&only, quick).into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(&["jobs", "skew"], false), ["two-jobs", "more-jobs", "skew"]);
        assert_eq!(names(&["jobs"], true), ["two-jobs"]);
        assert_eq!(names(&[], false).len(), EXPERIMENTS.len());
        assert_eq!(names(&["rtt"], false), [""; 0]);
    }
}
