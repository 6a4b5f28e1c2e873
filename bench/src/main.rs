//! `make bench`: our figures beside those of other MPIs and the machine's limits, from one run.
//!
//! Sets up the peers, compiles the same C programs with every MPI's `mpicc`, and runs them in turn (A B C, A
//! B C, ...) so that what slows the machine for a while slows all of them. The table is printed and
//! `target/bench/latest.json` keeps every round. Nothing here decides a test: figures are looked at by
//! people.
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

mod cases;
mod child;
mod figures;
mod gang;
mod mpis;
mod npb;
mod paper;
mod rows;
mod shared;
mod sr;
mod table;

use std::{
    collections::BTreeSet,
    fs,
    process::ExitCode,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use cases::{Case, Way};
use child::End;
use clap::Parser;
use figures::Line;
use mpis::{Kind, Places};
use rows::{Results, Row, Run};
use serde_json::json;

/// Measures Tutti beside MPICH 5, Open MPI 5 and the limits of this machine.
#[derive(Parser)]
struct Options {
    /// Only rows, or experiments of --gang, whose name contains one of these texts (`rtt,launch`); --list
    /// shows the names.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Rounds; the figure is their median.
    #[arg(long)]
    rounds: Option<usize>,
    /// Two short rounds without the slow rows.
    #[arg(long)]
    quick: bool,
    /// The peers to run; empty for none.
    #[arg(long, value_delimiter = ',', default_value = "mpich,openmpi")]
    peers: Vec<String>,
    /// Leave Tutti out.
    #[arg(long)]
    without_tutti: bool,
    /// Print the table as Markdown.
    #[arg(long)]
    markdown: bool,
    /// Run everything at the highest ordinary priority, for a machine with other load (needs root).
    #[arg(long)]
    priority: bool,
    /// Only the write protocol on and off, as in the paper's tables 3 and 4.
    #[arg(long)]
    sr: bool,
    /// Only jobs that share the machine, and what the gang switch costs.
    #[arg(long)]
    gang: bool,
    /// Only a table or figure of a paper, by its name (mbcf/table3); without one, their list.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    paper: Option<String>,
    /// Only programs of NPB, from this folder of its sources (of MPI, release 3.4), with SR, NSR and MPICH;
    /// --only cg,is chooses some.
    #[arg(long, value_name = "DIR")]
    npb: Option<std::ffi::OsString>,
    /// How large the problems of NPB are: S, W, A or B.
    #[arg(long, default_value = "S")]
    class: String,
    /// List the names of the rows and leave.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let rows: Vec<Row> = rows::all().into_iter().filter(|row| wanted(row, &options)).collect();
    if options.list && options.gang {
        for (name, text) in gang::chosen(&options.only, options.quick) {
            println!("{name:28} {text}");
        }
        return ExitCode::SUCCESS;
    }
    if options.list {
        for row in &rows {
            println!("{:28} {}", row.id, row.text);
        }
        return ExitCode::SUCCESS;
    }
    child::become_reaper();
    let measured = match &options.paper {
        Some(what) if what.is_empty() => paper::list(&Places::new()),
        Some(what) => of_paper(&options, what),
        None if options.npb.is_some() => of_npb(&options),
        None if options.gang => gangs(&options),
        None => measure(&options, &rows),
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn wanted(row: &Row, options: &Options) -> bool {
    let named = options.only.is_empty() || options.only.iter().any(|text| row.id.contains(text.as_str()));
    let long = cases::all().iter().any(|case| case.long && row.cases().contains(&case.id));
    named && !(options.quick && long)
}

fn gangs(options: &Options) -> Result<(), String> {
    let chosen = gang::chosen(&options.only, options.quick);
    if chosen.is_empty() {
        return Err("no experiment has such a name (--gang --list shows them all)".into());
    }
    if !rustix::process::geteuid().is_root() {
        return Err("gangs are frozen by cgroups, which needs root".into());
    }
    let places = Places::new();
    mpis::prepare_limits(&places)?;
    let kinds = prepare(&places, options)?;
    if options.priority {
        take_priority()?;
    }
    let results = Results { limits: vec![limits(&places, false)?], ..Results::default() };
    gang::run(&places, &kinds, &chosen, options.quick, options.rounds, loop_ns(&results)?)
}

fn of_npb(options: &Options) -> Result<(), String> {
    let is_chosen = |program: &&npb::Program| {
        options.only.is_empty() || options.only.iter().any(|name| name.eq_ignore_ascii_case(program.name))
    };
    let programs: Vec<&npb::Program> = npb::PROGRAMS.iter().filter(is_chosen).collect();
    if programs.is_empty() {
        return Err("no program has such a name (EP, MG, CG, IS, LU, SP, BT, FT, DT)".into());
    }
    run_npb(options, &programs)
}

/// With ours and MPICH: the wheel of Open MPI has no compiler of Fortran.
fn run_npb(options: &Options, programs: &[&npb::Program]) -> Result<(), String> {
    let places = Places::new();
    let source = npb::check(options.npb.as_deref().map(std::path::Path::new), &options.class)?;
    let peers: Vec<String> = options.peers.iter().filter(|name| *name == "mpich").cloned().collect();
    let kinds = prepare_with(&peers, true, |kind| mpis::prepare_programs(&places, kind, &BTreeSet::new()))?;
    let rounds = options.rounds.unwrap_or(if options.quick { 1 } else { 3 }).max(1);
    npb::Npb { places: &places, kinds: &kinds, source, class: options.class.clone(), rounds }.run(programs)
}

fn of_paper(options: &Options, what: &str) -> Result<(), String> {
    let places = Places::new();
    paper::check(&places, what)?;
    if let Some(programs) = paper::npb_programs(what) {
        return run_npb(options, &programs);
    }
    let programs = paper::programs(what);
    let peers = if programs.is_empty() { &[][..] } else { &options.peers };
    let kinds = prepare_with(peers, true, |kind| mpis::prepare_programs(&places, kind, &programs))?;
    let ns_per_loop = || {
        mpis::prepare_limits(&places)?;
        loop_ns(&Results { limits: vec![limits(&places, false)?], ..Results::default() })
    };
    paper::run(&places, &kinds, what, options.quick, options.rounds, &ns_per_loop)
}

fn measure(options: &Options, rows: &[Row]) -> Result<(), String> {
    if rows.is_empty() {
        return Err("no row has such a name (--list shows them all)".into());
    }
    let places = Places::new();
    let needs_nodes = |row: &Row| row.id.starts_with("net/") || row.id.starts_with("shared/net-");
    let mut rows = rows.to_vec();
    if rows.iter().any(needs_nodes) && !rustix::process::geteuid().is_root() {
        eprintln!("bench: rows between nodes are left out: network namespaces need root");
        rows.retain(|row| !needs_nodes(row));
    }
    let (rows, with_network) = (&rows[..], rows.iter().any(needs_nodes));
    mpis::prepare_limits(&places)?;
    let kinds = prepare(&places, options)?;
    if options.sr {
        if options.priority {
            take_priority()?;
        }
        return sr::run(&places, &kinds, options.rounds.unwrap_or(5).max(1), options.quick);
    }
    let needed: Vec<&'static str> = rows.iter().flat_map(Row::cases).collect();
    let cases: Vec<Case> = cases::all().into_iter().filter(|case| needed.contains(&case.id)).collect();
    let rounds = options.rounds.unwrap_or(if options.quick { 2 } else { 5 }).max(1);

    if options.priority {
        take_priority()?;
    }
    let start = Instant::now();
    let mut results = Results { cores: usable_cores(), ..Results::default() };
    for round in 0..rounds {
        results.limits.push(limits(&places, with_network)?);
        let ns_per_loop = loop_ns(&results)?;
        for case in &cases {
            for &kind in kinds.iter().filter(|kind| case.is_for(**kind)) {
                eprint!("\rbench: round {} of {rounds}: {:14} {:14}\x1b[K", round + 1, case.id, kind.name());
                // One that did not end is not waited for again.
                let key = (case.id.to_owned(), kind, round);
                let hung = results.runs.iter().any(|((id, k, _), run)| {
                    id == case.id && *k == kind && matches!(run, Err(why) if why == "timeout")
                });
                let run = if hung {
                    Err("timeout".into())
                } else {
                    run(&places, kind, case, options.quick, ns_per_loop)
                };
                results.runs.insert(key, run);
            }
        }
    }
    eprint!("\r\x1b[K");
    show(&places, options, rows, &results, &kinds, rounds, start.elapsed())
}

/// Runs this process and all that it starts before everything else of the machine.
fn take_priority() -> Result<(), String> {
    rustix::process::nice(-20).map_err(|error| format!("--priority: nice -20: {error}"))?;
    // The kernel shares cores between sessions first (autogroups), then by nice among the processes of each.
    // When we lead our process group but not our session, a session of our own is not to be had; then nice
    // alone has to do.
    let leads = || rustix::process::getsid(None).is_ok_and(|session| session == rustix::process::getpid());
    if rustix::process::setsid().is_ok() || leads() {
        let _ = fs::write("/proc/self/autogroup", "-20");
    } else {
        eprintln!("bench: --priority: no session of our own: start it by setsid(1)");
    }
    Ok(())
}

/// The MPIs that can be measured; one line for each that cannot.
fn prepare(places: &Places, options: &Options) -> Result<Vec<Kind>, String> {
    prepare_with(&options.peers, !options.without_tutti, |kind| mpis::prepare(places, kind))
}

fn prepare_with(
    peers: &[String],
    is_ours_asked: bool,
    make: impl Fn(Kind) -> Result<(), String>,
) -> Result<Vec<Kind>, String> {
    let mut kinds = Vec::new();
    for kind in [Kind::Mpich, Kind::OpenMpi, Kind::Tutti] {
        let asked = match kind {
            Kind::Tutti => is_ours_asked,
            peer => peers.iter().any(|name| name == peer.name()),
        };
        if asked {
            match make(kind) {
                Ok(()) => kinds.push(kind),
                Err(line) => eprintln!("bench: {line}"),
            }
        }
    }
    if kinds.is_empty() { Err("there is no MPI to measure".into()) } else { Ok(kinds) }
}

fn usable_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The machine's own figures, with the floor of a launch: fork and exec twice, wait for both.
fn limits(places: &Places, with_network: bool) -> Result<Vec<Line>, String> {
    let program = places.limits();
    let ran = child::run(&mut std::process::Command::new(&program), Duration::from_secs(60));
    if ran.end != End::Well {
        return Err(format!("{}: {:?}", program.display(), ran.end));
    }
    let mut lines: Vec<Line> = ran.stdout.lines().filter_map(Line::parse).collect();
    let floor = from_outside(|| {
        let mut command = std::process::Command::new(&program);
        command.arg("floor").arg(&program).arg("nothing");
        command
    })?;
    lines.extend(Line::parse(&format!("limits what=floor {floor}")));
    if with_network {
        let ran = child::run(&mut places.network_limits(), Duration::from_secs(60));
        if ran.end != End::Well {
            eprintln!("bench: network_limits: {:?}: rows between nodes have no limit in this round", ran.end);
        }
        // What was measured before it ended is a limit too.
        lines.extend(ran.stdout.lines().filter_map(Line::parse));
    }
    Ok(lines)
}

fn loop_ns(results: &Results) -> Result<f64, String> {
    let found: Vec<f64> = results
        .limits
        .iter()
        .flatten()
        .filter(|line| line.matches("what=work"))
        .filter_map(|line| line.figure("median_ns"))
        .collect();
    // The least: a core that was slowed down by others did not become another core.
    found.into_iter().reduce(f64::min).ok_or_else(|| "the limits program gave no loop time".into())
}

/// Runs a case once with one MPI.
fn run(places: &Places, kind: Kind, case: &Case, quick: bool, ns_per_loop: f64) -> Run {
    let args = match shared::is_one(case) {
        true => shared::arguments(kind, case),
        false => case.arguments(quick, ns_per_loop),
    };
    let cores = case.cores.min(usable_cores());
    let command = || mpis::command(places, kind, case, cores, &args);
    match case.way {
        Way::Once => {
            let ran = child::run(&mut command(), case.limit());
            if ran.end == End::Well && shared::is_one(case) {
                return Ok(shared::lines(&ran, case));
            }
            lines(&ran, "")
        }
        // Ours run under a daemon, which is what lets them take turns.
        Way::TwoJobs if kind == Kind::Tutti => {
            lines(&child::run(&mut mpis::gangs(places, case, &args), case.limit()), "")
        }
        Way::TwoJobs => {
            let first = child::start(&mut command())?;
            let second = child::start(&mut command())?;
            let (first, second) = (first.finish(case.limit()), second.finish(case.limit()));
            child::kill_descendants(&[]);
            let mut both = lines(&first, " job=0")?;
            both.extend(lines(&second, " job=1")?);
            Ok(both)
        }
        Way::FromOutside => {
            let figures = from_outside(command)?;
            Ok(Line::parse(&format!("launch ranks={} {figures}", case.ranks)).into_iter().collect())
        }
    }
}

fn lines(ran: &child::Ran, mark: &str) -> Run {
    match &ran.end {
        End::Timeout => Err("timeout".into()),
        End::Failed(why) => Err(why.clone()),
        End::Well => {
            Ok(ran.stdout.lines().filter_map(|line| Line::parse(&format!("{line}{mark}"))).collect())
        }
    }
}

/// The whole time of a program as figures of a line: once to warm up, then at least 3 and at most 20 times
/// within 2 s.
fn from_outside(command: impl Fn() -> std::process::Command) -> Result<String, String> {
    let mut took_ns = Vec::new();
    let start = Instant::now();
    for i in 0..21 {
        let ran = child::run(&mut command(), Duration::from_secs(30));
        match ran.end {
            End::Timeout => return Err("timeout".into()),
            End::Failed(why) => return Err(why),
            End::Well if i > 0 => took_ns.push(ran.took.as_secs_f64() * 1e9),
            End::Well => {}
        }
        if took_ns.len() >= 3 && start.elapsed() > Duration::from_secs(2) {
            break;
        }
    }
    let median_ns = figures::median(&took_ns).ok_or("no figure")?;
    let slowest_ns = took_ns.into_iter().fold(0.0, f64::max);
    Ok(format!("median_ns={median_ns} p99_ns={slowest_ns}"))
}

fn show(
    places: &Places,
    options: &Options,
    rows: &[Row],
    results: &Results,
    kinds: &[Kind],
    rounds: usize,
    took: Duration,
) -> Result<(), String> {
    let shown: Vec<table::Shown> = rows.iter().map(|row| table::Shown::new(row, results, kinds)).collect();
    println!(
        "{}, {} cores, Linux {}; {rounds} alternating rounds in {} s; median (p99) of the rounds' medians (p99s)\n",
        cpu(),
        results.cores,
        fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
        took.as_secs()
    );
    print!("{}", table::render(&shown, kinds, options.markdown));
    print!("{}", table::failures(&shown));
    let met = shown.iter().filter(|row| row.met() == Some(true)).count();
    let missed = shown.iter().filter(|row| row.met() == Some(false));
    let (out_of_reach, missed): (Vec<_>, Vec<_>) = missed.partition(|row| row.out_of_reach());
    if met + missed.len() + out_of_reach.len() > 0 {
        let (missed, out_of_reach) = (missed.len(), out_of_reach.len());
        println!(
            "\ngoals: {met} met, {missed} not met, {out_of_reach} below what the machine could do in this run"
        );
    }

    let document = json!({
        "version": 1,
        "seconds_since_1970": SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs()),
        "machine": {"cpu": cpu(), "cores": results.cores},
        "rounds": rounds,
        "quick": options.quick,
        "rows": shown.iter().map(table::Shown::json).collect::<Vec<_>>(),
    });
    let path = places.target.join("bench/latest.json");
    let text = serde_json::to_string_pretty(&document).map_err(|error| error.to_string())?;
    fs::write(&path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
    println!("every round: {}", path.display());
    Ok(())
}

fn cpu() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(':'));
    name.map_or_else(|| "unknown processor".into(), |(_, name)| name.trim().to_owned())
}
