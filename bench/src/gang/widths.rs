//! Parallel programs of different width at once (figure 3 of SSS-CORE): flying cubes on 7 nodes and ray
//! tracing on 9, each alone and both by turns, on a cluster of 9 nodes with one slot each.

use std::time::Duration;

use super::cluster::{Cluster, PLAIN, Setting};
use super::pairs::begin_at;
use super::report::Table;
use crate::{
    child::Running,
    figures::{Line, median},
    mpis::{self, Kind, Places},
};

const NODES: u32 = 9;
/// The display, and a worker for two faces each, or for every eighth unit of pixels.
const PROGRAMS: [(&str, u32); 2] = [("cubes", 7), ("rays", 9)];
/// All jobs are launched by then; if one is not, all are begun again with twice the time.
const LAUNCH_MS: i64 = 1000;
const LAUNCH_MS_MAX: i64 = 16_000;
const LIMIT: Duration = Duration::from_secs(120);

/// Prints frames in a second, alone and at once.
///
/// # Errors
/// When a job fails.
pub fn run(places: &Places, quick: bool, rounds: usize) -> Result<(), String> {
    mpis::compile_more(places, Kind::Tutti, "bench/c/frames.c")?;
    let cluster = Cluster::up(places, &Setting { nodes: NODES, slots: Some(1), slice_ms: 100, ..PLAIN })?;
    let budget_ms = if quick { 2000 } else { 5000 };
    let mut alone = [const { Vec::new() }; PROGRAMS.len()];
    let mut at_once = alone.clone();
    for _ in 0..rounds {
        for (program, found) in PROGRAMS.iter().zip(&mut alone) {
            found.extend(frames(places, &cluster, &[*program], budget_ms)?);
        }
        let both = frames(places, &cluster, &PROGRAMS, budget_ms)?;
        both.into_iter().zip(&mut at_once).for_each(|(figure, found)| found.push(figure));
    }
    let columns = ["", "nodes", "alone, frames/s", "at once, frames/s", "share of alone"];
    let mut table = Table::new("Programs of different width at once, by turns of 100 ms", &columns);
    let middle = |figures: &[f64]| median(figures).unwrap_or(f64::NAN);
    let mut sum = 0.0;
    for ((name, nodes), (alone, at_once)) in PROGRAMS.iter().zip(alone.iter().zip(&at_once)) {
        let (alone, at_once) = (middle(alone), middle(at_once));
        sum += at_once / alone;
        let cells = [format!("{alone:.1}"), format!("{at_once:.1}"), format!("{:.2}", at_once / alone)];
        table.row([vec![(*name).to_owned(), nodes.to_string()], cells.to_vec()].concat());
    }
    table.print()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("\nShares together: {sum:.2}; limit: 1, as long as both want all of {cores} cores.");
    Ok(())
}

/// Frames in a second of each of these programs, in one common time.
fn frames(
    places: &Places,
    cluster: &Cluster,
    programs: &[(&str, u32)],
    budget_ms: u32,
) -> Result<Vec<f64>, String> {
    let binary = places.programs(Kind::Tutti).join("frames");
    let mut launch_ms = LAUNCH_MS;
    loop {
        let at = begin_at(launch_ms);
        let budget = budget_ms.to_string();
        let start = |(name, nodes): &(&str, u32)| {
            let args = [*name, "--budget-ms", &budget, "--at", &at].map(str::to_owned);
            cluster.start(*nodes, *nodes, &binary, &args)
        };
        let running: Vec<Running> = programs.iter().map(start).collect::<Result<_, _>>()?;
        // All of them come to their ends before the first error is looked at.
        let ended: Vec<_> = running.into_iter().map(|job| cluster.finish(job, LIMIT)).collect();
        let ended = ended.into_iter().collect::<Result<Vec<_>, _>>()?;
        let lines: Vec<Line> =
            ended.iter().filter_map(|ran| ran.stdout.lines().find_map(Line::parse)).collect();
        if launch_ms < LAUNCH_MS_MAX && lines.iter().any(|line| line.figure("late").is_some()) {
            launch_ms *= 2;
            continue;
        }
        let figures: Vec<f64> = lines.iter().filter_map(|line| line.figure("frames_per_s")).collect();
        let is_whole = figures.len() == programs.len();
        return is_whole.then_some(figures).ok_or_else(|| "frames: no figure in its output".into());
    }
}
