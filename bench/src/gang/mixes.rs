//! Mixes of what people run on a shared machine, at once: the time until all of them are done, under our
//! daemon and under plain Linux with each peer in its best setting.

use std::{path::PathBuf, process::Command, time::Duration};

use tutti_testkit::Random;

use super::{
    Bench,
    cluster::{Cluster, PLAIN},
    pairs::begin_at,
    report::{FAILED, Table},
};
use crate::{
    child::{self, End, Running},
    figures::{Line, median},
    mpis::{self, Kind},
};

/// Kinds of jobs that `bench/c/mix.c` can be, each with its number of ranks.
const KINDS: [(&str, u32); 5] = [("fine", 2), ("coarse", 2), ("serial", 1), ("openmp", 1), ("asleep", 1)];
/// Numbers of jobs at once, in turn.
const SIZES: [usize; 3] = [2, 4, 8];
/// Each job computes about so long on a core of its own.
const JOB_S: f64 = 1.0;
const LIMIT: Duration = Duration::from_secs(60);
const LAUNCH_MS: [i64; 2] = [1_000, 4_000];
const LAUNCH_MS_MAX: i64 = 16_000;

/// Runner of a mix.
struct Contender {
    name: &'static str,
    kind: Kind,
    /// Words for a peer's mpiexec; of ours which kinds are offered as fillers.
    words: &'static [&'static str],
}

const CONTENDERS: [Contender; 4] = [
    Contender { name: "Tutti", kind: Kind::Tutti, words: &[] },
    Contender { name: "Tutti, --fill", kind: Kind::Tutti, words: &["coarse", "serial", "asleep"] },
    Contender { name: "MPICH", kind: Kind::Mpich, words: &[] },
    Contender {
        name: "Open MPI, yielding",
        kind: Kind::OpenMpi,
        words: &[
            "--allow-run-as-root",
            "--oversubscribe",
            "--bind-to",
            "none",
            "--mca",
            "mpi_yield_when_idle",
            "1",
        ],
    },
];

pub fn run(bench: &Bench<'_>) -> Result<(), String> {
    for &kind in bench.kinds {
        mpis::compile_with(bench.places, kind, "bench/c/mix.c", &["-fopenmp"])?;
    }
    let contenders: Vec<&Contender> =
        CONTENDERS.iter().filter(|contender| bench.kinds.contains(&contender.kind)).collect();
    let names = contenders.iter().map(|contender| contender.name);
    let columns: Vec<&str> = ["jobs"].into_iter().chain(names).chain(["best of ours / best peer"]).collect();
    let mut table = Table::new("Mixes of jobs at once: s until all are done", &columns);
    let (mut ratios, mut fine) = (Vec::new(), Vec::new());
    for seed in 0..if bench.quick { 6 } else { 20 } {
        let jobs = drawn(seed);
        let took: Vec<Result<f64, String>> = contenders
            .iter()
            .map(|contender| {
                eprint!("\rbench: mix {seed}: {}\x1b[K", contender.name);
                makespan_s(bench, contender, &jobs)
            })
            .collect();
        // A peer that does not end has taken at least so long.
        let best = |ours: bool| {
            let of =
                contenders.iter().zip(&took).filter(|(contender, _)| (contender.kind == Kind::Tutti) == ours);
            of.map(|(_, took)| *took.as_ref().unwrap_or(&LIMIT.as_secs_f64())).reduce(f64::min)
        };
        let ratio = best(true).zip(best(false)).map(|(ours, peer)| ours / peer);
        ratios.extend(ratio);
        if jobs.iter().filter(|job| job.0 == "fine").count() >= 2 {
            fine.extend(ratio);
        }
        let cells = contenders.iter().zip(&took).map(|(contender, took)| match took {
            Ok(seconds) => format!("{seconds:.2}"),
            Err(why) if contender.kind == Kind::Tutti => format!("{FAILED}{why}"),
            Err(why) => why.clone(),
        });
        let name = jobs.iter().map(|job| job.0).collect::<Vec<_>>().join(" ");
        table.row(
            std::iter::once(name)
                .chain(cells)
                .chain([ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"))])
                .collect(),
        );
    }
    let printed = table.print();
    let of = |ratios: &[f64]| {
        let worst = ratios.iter().copied().fold(0.0, f64::max);
        median(ratios).map_or("-".into(), |middle| format!("{middle:.2} in the middle, {worst:.2} at most"))
    };
    println!("\nOurs / best peer: {}; with two fine-grained jobs: {}.", of(&ratios), of(&fine));
    println!("Goals: 1.02 at most; 0.33 with two fine-grained jobs.");
    printed
}

/// The jobs of a seed.
fn drawn(seed: u64) -> Vec<(&'static str, u32)> {
    let mut random = Random::new(seed);
    let jobs = SIZES[seed as usize % SIZES.len()];
    (0..jobs).map(|_| KINDS[random.below(KINDS.len() as u64) as usize]).collect()
}

/// From the moment at which all begin to the end of the last one.
fn makespan_s(bench: &Bench<'_>, contender: &Contender, jobs: &[(&'static str, u32)]) -> Result<f64, String> {
    let is_ours = contender.kind == Kind::Tutti;
    let cluster = if is_ours { Some(Cluster::up(bench.places, &PLAIN)?) } else { None };
    let mut launch_ms = LAUNCH_MS[usize::from(!is_ours)] * jobs.len() as i64 / 2;
    loop {
        let at = begin_at(launch_ms);
        let start = |job: &(&'static str, u32)| start(bench, contender, cluster.as_ref(), *job, &at);
        let running: Vec<Running> = jobs.iter().map(start).collect::<Result<_, _>>()?;
        let lines: Vec<Result<Line, String>> =
            running.into_iter().map(|job| finish(cluster.as_ref(), job)).collect();
        if cluster.is_none() {
            child::kill_descendants(&[]);
        }
        let lines = lines.into_iter().collect::<Result<Vec<Line>, _>>()?;
        let is_late = lines.iter().any(|line| line.figure("late") != Some(0.0));
        if is_late && launch_ms < LAUNCH_MS_MAX {
            launch_ms *= 2;
            continue;
        }
        let ends = lines.iter().filter_map(|line| line.figure("ended_ns"));
        let at_ns: f64 = at.parse().map_err(|_| "the clock".to_owned())?;
        return Ok((ends.fold(at_ns, f64::max) - at_ns) * 1e-9);
    }
}

fn start(
    bench: &Bench<'_>,
    contender: &Contender,
    cluster: Option<&Cluster>,
    (kind, ranks): (&'static str, u32),
    at: &str,
) -> Result<Running, String> {
    let program: PathBuf = bench.places.programs(contender.kind).join("mix");
    let pieces = (JOB_S * 1e6 / crate::cases::LONG_STEP_US) as u64;
    let args = [kind, "--loops", &bench.loops.to_string(), "--pieces", &pieces.to_string(), "--at", at]
        .map(str::to_owned);
    if let Some(cluster) = cluster {
        let options: &[&str] = if contender.words.contains(&kind) { &["--fill"] } else { &[] };
        return cluster.start_with(options, 1, ranks, &program, &args);
    }
    let mut command = Command::new(bench.places.bin(contender.kind).join("mpiexec"));
    mpis::forget_others(&mut command);
    command.args(contender.words).args(["-n", &ranks.to_string()]).arg(program).args(args);
    child::start(&mut command)
}

fn finish(cluster: Option<&Cluster>, job: Running) -> Result<Line, String> {
    let ran = match cluster {
        Some(cluster) => cluster.finish(job, LIMIT)?,
        None => job.finish(LIMIT),
    };
    match ran.end {
        End::Well => {
            ran.stdout.lines().find_map(Line::parse).ok_or_else(|| "no figure in its output".to_owned())
        }
        End::Timeout => Err(format!("over {} s", LIMIT.as_secs())),
        End::Failed(why) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_follow_from_their_seed_and_have_every_kind() {
        assert_eq!(drawn(7), drawn(7));
        assert_eq!([0, 1, 2].map(|seed| drawn(seed).len()), SIZES);
        let all: Vec<_> = (0..20).flat_map(drawn).collect();
        assert!(KINDS.iter().all(|kind| all.contains(kind)));
    }
}
