//! `make bench-gang`: jobs that share a machine, and what the gang switch costs, beside peers and beside the figures of SCore-D.
//!
//! The peers and the programs of `bench/c` are those of the side-by-side table; those of `examples/` are compiled too. Pictures go to
//! `target/bench-gang`, tables to stdout.

mod cluster;
mod pairs;
mod report;
mod switches;

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

/// Runs all of it.
pub fn run(
    places: &Places,
    kinds: &[Kind],
    quick: bool,
    rounds: Option<usize>,
    ns_per_loop: f64,
) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("gangs are frozen by cgroups, which needs root".into());
    }
    for &kind in kinds {
        mpis::compile_more(places, kind, "bench/c/gang.c")?;
        for example in EXAMPLES {
            mpis::compile_more(places, kind, &format!("examples/{example}.c"))?;
        }
    }
    let loops = ((LONG_STEP_US * 1e3 / ns_per_loop) as u64).max(1);
    let (usual, steps, seconds) = if quick { (1, 10_000, 0.5) } else { (3, 20_000, 1.5) };
    let rounds = rounds.unwrap_or(usual).max(1);
    jobs(places, kinds, rounds, loops, steps)?;
    if !quick {
        let mut table = Table::new(
            "More jobs at once: slowest / alone / number of jobs",
            &["", "2 jobs", "4 jobs", "8 jobs"],
        );
        pairs::many_jobs(places, kinds, loops, steps, &mut table);
        eprint!("\r\x1b[K");
        table.print();
    }
    let columns = ["", "", "alone, both, s", "both at once / that", "over the rounds"];
    let mut table = Table::new(
        "Two different programs: until both are done, over the sum of their times alone (ideal: 1)",
        &columns,
    );
    pairs::mixed(places, kinds, rounds.min(2), seconds, &mut table)?;
    eprint!("\r\x1b[K");
    table.print();
    switches::run(places, quick)?;
    rank_skew(places, if quick { 1500 } else { 4000 })?;
    examples(places)
}

fn jobs(places: &Places, kinds: &[Kind], rounds: usize, loops: u64, steps: u32) -> Result<(), String> {
    let found = pairs::two_jobs(places, kinds, rounds, loops, steps);
    eprint!("\r\x1b[K");
    pairs::table(&found, steps).print();
    println!("\nGoals: 2.02 at 100 ms, 2.06 at 10 ms; alone no slower than the best peer.");
    let bars = found.iter().filter_map(|(who, found)| {
        let ratio = median(&found.ratios)?.min(SLOWEST_DRAWN);
        let words =
            who.name.split(", ").next().unwrap_or(who.name).replace("Open MPI", "Open").replace(" ms", "");
        Some((
            words,
            vec![Bar { name: who.name.split(", ").nth(1).unwrap_or("").into(), parts: vec![ratio] }],
        ))
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
    picture(places, "jobs.svg", &plot::bars(&bars))
}

/// How far apart two ranks on two nodes go on, seen by the ranks themselves.
fn rank_skew(places: &Places, budget_ms: u32) -> Result<(), String> {
    let mut table = Table::new(
        "Two ranks, a core each, on two nodes: how far apart they go on after a switch",
        &["", "median", "99 %", "n"],
    );
    for strict in [false, true] {
        let setting = Setting { nodes: 2, slots: Some(1), strict, force: true, ..PLAIN };
        let cluster = Cluster::up(places, &setting)?;
        let args = ["skew".to_owned(), "--budget-ms".into(), budget_ms.to_string()];
        let ran = cluster
            .start(2, 2, &places.programs(Kind::Tutti).join("gang"), &args)?
            .finish(Duration::from_secs(60));
        let line = ran.stdout.lines().find_map(Line::parse).ok_or(format!("skew: {:?}", ran.end))?;
        let us =
            |key: &str| line.figure(key).map_or_else(|| "-".into(), |ns| format!("{:.0} us", ns / 1000.0));
        let mode = if strict { "strict" } else { "overlapped" };
        let count = line.figure("n").unwrap_or(0.0);
        table.row(vec![mode.into(), us("median_ns"), us("p99_ns"), format!("{count}")]);
    }
    table.print();
    Ok(())
}

/// What needs no daemon: saving and restoring channels, and the simulated switch of up to 4,096 nodes.
fn examples(places: &Places) -> Result<(), String> {
    let folder = places.target.join("release/examples");
    let output = |program: &Path, args: &[&Path]| {
        let ran = child::start(Command::new(program).args(args))?.finish(Duration::from_secs(120));
        match ran.end {
            End::Well => Ok(ran.stdout),
            end => Err(format!("{}: {end:?}", program.display())),
        }
    };
    let saved = output(&folder.join("save_time"), &[])?;
    println!("\n### Saving and restoring a channel\n\n{saved}");
    let svg = places.target.join("bench-gang/simulated.svg");
    output(&folder.join("switch_time"), &[&svg])?;
    println!("picture: {}", svg.display());
    Ok(())
}
