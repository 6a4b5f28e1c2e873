//! Jobs at once: how long each takes over its time alone, under every MPI in turn.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use super::cluster::{Cluster, PLAIN, Setting};
use super::report::{FAILED, Table};
use crate::{
    child::{self, End, Running},
    figures::{Line, median},
    mpis::{self, Kind, Places},
};

/// No run is waited for longer.
const LIMIT: Duration = Duration::from_secs(30);
const RANKS: u32 = 2;
/// Jobs that begin together have so long to be launched, all of them: by a daemon, and by a peer.
const LAUNCH_MS: [i64; 2] = [500, 2500];

/// Runner of the jobs.
#[derive(Clone, Debug)]
pub enum Who {
    /// A peer's mpiexec, with these words.
    Peer(&'static [&'static str]),
    /// Our daemon.
    Daemon(Setting),
}

/// In what a way to run jobs takes part, beside two jobs of one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// None but these two jobs.
    Two,
    /// In pairs of different programs.
    Pairs,
    /// In those, and where there are more than two jobs.
    All,
}

/// A way to run jobs.
#[derive(Clone, Debug)]
pub struct Contender {
    pub name: &'static str,
    /// Programs that are compared: of which library.
    pub kind: Kind,
    pub who: Who,
    pub part: Part,
}

/// All of them.
pub fn contenders() -> Vec<Contender> {
    let tutti = |slice_ms, real_time| Who::Daemon(Setting { slice_ms, real_time, ..PLAIN });
    let strict = Who::Daemon(Setting { strict: true, ..PLAIN });
    let open = &["--allow-run-as-root", "--oversubscribe"][..];
    let yielding =
        &["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
            [..];
    let all = [
        ("Tutti 100 ms", Kind::Tutti, tutti(100, true), Part::All),
        ("Tutti 10 ms", Kind::Tutti, tutti(10, true), Part::All),
        ("Tutti 100 ms, strict", Kind::Tutti, strict, Part::Two),
        ("Tutti 100 ms, no real time", Kind::Tutti, tutti(100, false), Part::Pairs),
        ("Tutti 10 ms, no real time", Kind::Tutti, tutti(10, false), Part::Two),
        ("MPICH bound", Kind::Mpich, Who::Peer(&["-bind-to", "core"]), Part::Pairs),
        ("MPICH", Kind::Mpich, Who::Peer(&[]), Part::All),
        ("MPICH programs, Tutti 100 ms", Kind::Mpich, tutti(100, true), Part::Pairs),
        ("Open MPI", Kind::OpenMpi, Who::Peer(open), Part::Pairs),
        ("Open MPI unbound, yielding", Kind::OpenMpi, Who::Peer(yielding), Part::All),
    ];
    all.into_iter().map(|(name, kind, who, part)| Contender { name, kind, who, part }).collect()
}

impl Contender {
    fn is_ours(&self) -> bool {
        matches!(self.who, Who::Daemon(_))
    }

    /// Factor on the number of steps of the others: jobs that last ten slices take one more or less by
    /// chance, a twentieth of their time.
    fn longer(&self) -> u32 {
        if matches!(&self.who, Who::Daemon(setting) if setting.slice_ms >= 100) { 4 } else { 1 }
    }
}

/// A program and its arguments.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: &'static str,
    pub args: Vec<String>,
}

impl Program {
    fn new(name: &'static str, args: &str) -> Self {
        Program { name, args: args.split_whitespace().map(str::to_owned).collect() }
    }
}

/// Figures of one contender: the time of a job alone, and of each of several at once, by round.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub alone_s: Vec<f64>,
    /// Slowest of the jobs over its time alone.
    pub ratios: Vec<f64>,
    /// Of different programs, in their order: each one's time alone and its time beside the others, in s.
    pub each_s: Vec<Vec<(f64, f64)>>,
    pub failure: Option<String>,
}

impl Found {
    fn text(&self) -> [String; 3] {
        let alone = median(&self.alone_s).map_or_else(|| "-".into(), |seconds| format!("{seconds:.3}"));
        let Some(ratio) = median(&self.ratios) else {
            return [alone, self.failure.clone().unwrap_or_else(|| "-".into()), String::new()];
        };
        let (low, high) =
            self.ratios.iter().fold((f64::MAX, 0.0_f64), |(low, high), r| (low.min(*r), high.max(*r)));
        [alone, format!("{ratio:.3}"), format!("{low:.3} to {high:.3}")]
    }

    /// Of each program: its time beside the other over its time alone, and both in s; medians.
    fn each(&self) -> String {
        let programs = self.each_s.first().map_or(0, Vec::len);
        let of = |program: usize| {
            let of = |figure: fn(&(f64, f64)) -> f64| {
                median(&self.each_s.iter().map(|round| figure(&round[program])).collect::<Vec<_>>())
            };
            let [alone, beside, ratio] = [of(|took| took.0), of(|took| took.1), of(|took| took.1 / took.0)]
                .map(Option::unwrap_or_default);
            format!("{ratio:.2} ({alone:.2} -> {beside:.2} s)")
        };
        (0..programs).map(of).collect::<Vec<_>>().join(", ")
    }
}

/// Two jobs of the same program in steps of 49 us, by all contenders.
pub fn two_jobs(
    places: &Places,
    kinds: &[Kind],
    rounds: usize,
    loops: u64,
    steps: u32,
) -> Vec<(Contender, Found)> {
    let program =
        |who: &Contender| Program::new("steps", &format!("--steps {} --loops {loops}", steps * who.longer()));
    let mut found: Vec<(Contender, Found)> = contenders()
        .into_iter()
        .filter(|who| kinds.contains(&who.kind))
        .map(|who| (who, Found::default()))
        .collect();
    for round in 0..rounds {
        for (who, found) in found.iter_mut().filter(|(_, found)| found.failure.is_none()) {
            eprint!("\rbench: round {} of {rounds}: two jobs: {}\x1b[K", round + 1, who.name);
            measure(places, who, &[program(who), program(who)], found);
        }
    }
    found
}

/// More jobs of that program.
pub fn many_jobs(places: &Places, kinds: &[Kind], loops: u64, steps: u32, table: &mut Table) {
    for who in contenders().iter().filter(|who| kinds.contains(&who.kind) && who.part == Part::All) {
        // Who does not end with two jobs does not end with more.
        let (mut row, mut failed) = (vec![who.name.to_owned()], None);
        for jobs in [2, 4, 8] {
            eprint!("\rbench: {jobs} jobs: {}\x1b[K", who.name);
            let program = Program::new("steps", &format!("--steps {} --loops {loops}", steps * 2 / jobs));
            let mut found = Found { failure: failed.clone(), ..Found::default() };
            if failed.is_none() {
                measure(places, who, &vec![program; jobs as usize], &mut found);
                failed.clone_from(&found.failure);
            }
            let per_job = found.ratios.first().map(|ratio| ratio / f64::from(jobs));
            row.push(
                per_job.map_or_else(
                    || found.failure.unwrap_or_else(|| "-".into()),
                    |ratio| format!("{ratio:.3}"),
                ),
            );
        }
        table.row(row);
    }
}

/// Pairs of different programs: the time until both are done over the sum of their times alone.
pub fn mixed(places: &Places, kinds: &[Kind], rounds: usize, seconds: f64, table: &mut Table) {
    let pairs = [["halo", "transpose"], ["wavefront", "scatter"]];
    for pair in pairs {
        let calibrated = pair.iter().map(|name| calibrated(places, name, seconds));
        let programs = match calibrated.collect::<Result<Vec<Program>, _>>() {
            Ok(programs) => programs,
            Err(why) => {
                table.failed(vec![pair.join(" + "), "our mpiexec".into()], &why);
                continue;
            }
        };
        for who in contenders().iter().filter(|who| kinds.contains(&who.kind) && who.part != Part::Two) {
            let mut found = Found::default();
            for _ in 0..rounds {
                eprint!("\rbench: {} and {}: {}\x1b[K", pair[0], pair[1], who.name);
                if found.failure.is_none() {
                    measure(places, who, &programs, &mut found);
                }
            }
            let [alone, ratio, spread] = found.text();
            let each = found.each();
            table.row(vec![pair.join(" + "), who.name.into(), alone, ratio, spread, each]);
        }
    }
}

/// Arguments of an example such that it runs for some time, by a short trial under our mpiexec.
fn calibrated(places: &Places, name: &'static str, seconds: f64) -> Result<Program, String> {
    let (before, trial): (&str, u32) = match name {
        "halo" => ("512", 300),
        "transpose" => ("256", 60),
        "wavefront" => ("1024", 60),
        _ => ("2000 4000", 300),
    };
    let mut command = Command::new(places.bin(Kind::Tutti).join("mpiexec"));
    command
        .args(["-n", "2"])
        .arg(places.programs(Kind::Tutti).join(name))
        .args(before.split(' '))
        .arg(trial.to_string());
    let ran = child::start(&mut command)?.finish(LIMIT);
    let took_s =
        time_of(&ran.stdout).ok_or(format!("{name}: no time in {:?} ({:?})", ran.stdout, ran.end))?;
    let steps = (seconds / took_s * f64::from(trial)).max(1.0) as u32;
    Ok(Program::new(name, &format!("{before} {steps}")))
}

/// Each alone, then all at once.
fn measure(places: &Places, who: &Contender, programs: &[Program], found: &mut Found) {
    match try_measure(places, who, programs) {
        Ok(measured) => {
            found.alone_s.push(measured.alone_s);
            found.ratios.push(measured.ratio);
            found.each_s.extend(Some(measured.each_s).filter(|each_s| !each_s.is_empty()));
        }
        // That a peer does not get there is a finding; that we do not is a fault.
        Err(why) => found.failure = Some(if who.is_ours() { format!("{FAILED}{why}") } else { why }),
    }
}

/// Figures that [`Found`] gets of a round.
struct Measured {
    alone_s: f64,
    ratio: f64,
    each_s: Vec<(f64, f64)>,
}

fn try_measure(places: &Places, who: &Contender, programs: &[Program]) -> Result<Measured, String> {
    let cluster = match &who.who {
        Who::Daemon(setting) => Some(Cluster::up(places, setting)?),
        Who::Peer(_) => None,
    };
    let start = |program: &Program| start(places, who, cluster.as_ref(), program);
    let mut alone = Vec::new();
    let same = programs.windows(2).all(|pair| pair[0].name == pair[1].name);
    for program in programs.iter().take(if same { 1 } else { programs.len() }) {
        alone.push(seconds(cluster.as_ref(), start(program)?)?.0);
    }
    let at = begin_at(LAUNCH_MS[usize::from(cluster.is_none())]);
    let together = |program: &Program| {
        let mut program = program.clone();
        if program.name == "steps" {
            program.args.extend(["--at".into(), at.clone()]);
        }
        start(&program)
    };
    let running: Vec<Running> = programs.iter().map(together).collect::<Result<_, _>>()?;
    let took: Vec<(f64, Instant)> =
        running.into_iter().map(|job| seconds(cluster.as_ref(), job)).collect::<Result<_, _>>()?;
    drop(cluster);
    child::kill_descendants(&[]);
    let base: f64 = alone.iter().sum();
    let both = if same { took.iter().map(|took| took.0).fold(0.0, f64::max) } else { stretch_s(&took) };
    let beside = took.iter().map(|took| took.0);
    let each_s = if same { Vec::new() } else { alone.into_iter().zip(beside).collect() };
    Ok(Measured { alone_s: base, ratio: both / base, each_s })
}

/// From where the first of these has begun to where the last has ended: launchers take long, and one after
/// the other, while who runs already has the machine.
fn stretch_s(took: &[(f64, Instant)]) -> f64 {
    let Some(last) = took.iter().map(|(_, ended)| *ended).max() else { return 0.0 };
    took.iter().map(|(took_s, ended)| took_s + (last - *ended).as_secs_f64()).fold(0.0, f64::max)
}

/// A moment by which all jobs have been launched, as the monotonic clock will say it.
pub(super) fn begin_at(launch_ms: i64) -> String {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec * 1_000_000_000 + now.tv_nsec + launch_ms * 1_000_000).to_string()
}

fn start(
    places: &Places,
    who: &Contender,
    cluster: Option<&Cluster>,
    program: &Program,
) -> Result<Running, String> {
    let path = places.programs(who.kind).join(program.name);
    if let Some(cluster) = cluster {
        return cluster.start(1, RANKS, &path, &program.args);
    }
    let Who::Peer(words) = who.who else { return Err("no daemon".into()) };
    let mut command = Command::new(places.bin(who.kind).join("mpiexec"));
    mpis::forget_others(&mut command);
    command.args(words).args(["-n", &RANKS.to_string()]).arg(path).args(&program.args);
    child::start(&mut command)
}

/// Time that a job says that it has taken, and when it ended.
fn seconds(cluster: Option<&Cluster>, running: Running) -> Result<(f64, Instant), String> {
    let ran = match cluster {
        Some(cluster) => cluster.finish(running, LIMIT)?,
        None => running.finish(LIMIT),
    };
    match ran.end {
        End::Well => {
            let took_s = time_of(&ran.stdout).ok_or_else(|| "no time in its output".to_owned())?;
            Ok((took_s, ran.ended))
        }
        End::Timeout => Err(format!("over {} s", LIMIT.as_secs())),
        End::Failed(why) => Err(why),
    }
}

/// The time that a program has taken as it says: `steps ... mean_ns=` of as many steps as all do, or
/// `N steps, ... us per step`.
fn time_of(stdout: &str) -> Option<f64> {
    let line = stdout.lines().find(|line| line.contains("steps"))?;
    if let Some(mean_ns) = Line::parse(line).and_then(|line| line.figure("mean_ns")) {
        return Some(mean_ns * 1e-9);
    }
    let number = |before: &str| line.split(before).next()?.rsplit(' ').next()?.parse::<f64>().ok();
    Some(number(" steps")? * number(" us per step")? * 1e-6)
}

/// The table of the first experiment.
pub fn table(found: &[(Contender, Found)], steps: u32) -> Table {
    let title = format!(
        "Two 2-rank jobs at once: {steps} steps of 49 us and a barrier (4 times as many at 100 ms, or a slice more or less would be seen)"
    );
    let mut table = Table::new(&title, &["", "alone, us a step", "slower one / alone", "over the rounds"]);
    for (who, found) in found {
        let [_, ratio, spread] = found.text();
        let alone =
            median(&found.alone_s).map_or_else(|| "-".into(), |seconds| format!("{:.2}", seconds * 1e6));
        table.row(vec![who.name.into(), alone, ratio, spread]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_time_spans_both_programs() {
        let end = Instant::now() + Duration::from_secs(100);
        let earlier = |seconds| end - Duration::from_secs(seconds);
        assert_eq!(stretch_s(&[(5.0, end)]), 5.0);
        assert_eq!(stretch_s(&[(5.0, end), (1.0, earlier(2))]), 5.0, "one inside the other");
        assert_eq!(stretch_s(&[(3.0, end), (4.0, earlier(2))]), 6.0, "one after the other");
    }

    #[test]
    fn pair_times_are_parsed_from_output() {
        let halo = "512 x 512 points, 2 ranks: 300 steps, mean 4.0, last change 1.0e-2, 50.0 us per step\n";
        assert_eq!(time_of(halo).map(|s| (s * 1e6).round()), Some(15_000.0));
        let steps = time_of("steps ranks=2 loops=4 mean_ns=49000.0 n=50");
        assert_eq!(steps.map(|s| (s * 1e9).round()), Some(49_000.0));
        assert_eq!(time_of("warning: nothing"), None);
    }
}
