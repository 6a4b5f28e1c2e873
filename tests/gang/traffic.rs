//! Two jobs whose messages are under way at every switch: each finds out whether one is lost, repeated, out
//! of order, damaged or not its own.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tutti_testkit::{Need, skip_part};
use tutti_tests::{Scratch, compile};

use crate::Cluster;
use crate::harness::{LIMIT, Running, await_that};
use crate::log::read;
use crate::turns::Turns;

/// Until so many turns have been seen.
const PATIENCE: Duration = Duration::from_secs(80);

/// The program, and what ends it.
pub struct Traffic {
    scratch: Scratch,
    program: PathBuf,
    /// Options of `tutti run`.
    options: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    /// Arguments of the program behind the stamp and the file.
    arguments: &'static [&'static str],
}

const SOURCE: &str = "tests/gang/programs/traffic.c";

impl Traffic {
    pub fn new(name: &str) -> Self {
        let scratch = Scratch::new(&format!("{name}-files"));
        let program = compile(SOURCE, scratch.path());
        Traffic { scratch, program, options: &[], env: &[], arguments: &[] }
    }

    /// The same, where receives come before their messages.
    fn first(name: &str) -> Self {
        Traffic { arguments: &["first"], ..Traffic::new(name) }
    }

    /// Linked with MPICH, by its own compiler wrapper; none where there is none.
    fn of_mpich(name: &str) -> Option<Self> {
        let mpicc = tutti_tests::peers::mpich()?.join("bin/mpicc");
        let scratch = Scratch::new(&format!("{name}-files"));
        let program = scratch.path().join("traffic");
        let mut command = Command::new(mpicc);
        command.arg("-O2").arg("-o").arg(&program).arg(tutti_tests::root().join(SOURCE));
        tutti_tests::run(&mut command, LIMIT).expect_success();
        // Through UCX, its default, it hangs between nodes of one machine, also under its own mpiexec
        // (MPIR_CVAR_NOLOCAL=1).
        let env = &[("MPIR_CVAR_CH4_NETMOD", "ofi"), ("FI_PROVIDER", "tcp")];
        Some(Traffic { scratch, program, options: &["--own-mpi"], env, arguments: &[] })
    }

    /// The same with Open MPI.
    pub fn of_open_mpi(name: &str) -> Option<Self> {
        let mpicc = tutti_tests::peers::open_mpi()?.join("bin/mpicc");
        let scratch = Scratch::new(&format!("{name}-files"));
        let program = scratch.path().join("traffic");
        let mut command = Command::new(mpicc);
        command.arg("-O2").arg("-o").arg(&program).arg(tutti_tests::root().join(SOURCE));
        tutti_tests::run(&mut command, LIMIT).expect_success();
        Some(Traffic { scratch, program, options: &[], env: &[], arguments: &[] })
    }

    fn go(&self) -> PathBuf {
        self.scratch.path().join("go")
    }

    /// Starts a job of `ranks` ranks on `nodes` nodes; it runs when this returns.
    #[track_caller]
    pub fn start(
        &self,
        cluster: &Cluster,
        stamp: u32,
        nodes: u32,
        ranks: u32,
        faults: Option<&str>,
    ) -> Running {
        let (nodes, ranks, stamp) = (nodes.to_string(), ranks.to_string(), stamp.to_string());
        let (program, go) = (self.program.to_string_lossy(), self.go());
        let words = ["-N", &nodes, "-n", &ranks, &program, &stamp, &go.to_string_lossy()];
        let mut command = cluster.command(&[&["run"], self.options, &words, self.arguments].concat());
        command.envs(self.env.iter().copied());
        if let Some(faults) = faults {
            command
                .env("LD_PRELOAD", tutti_tests::testing_library())
                .env("TUTTI_FAULTS", faults)
                .env("TUTTI_STATS", "json");
        }
        let mut job = Running::start_command(&mut command);
        job.await_line("traffic: up");
        job
    }

    /// All jobs are to end, and have found nothing wrong.
    #[track_caller]
    pub fn end(&self, jobs: Vec<Running>) {
        for said in self.end_saying(jobs) {
            assert_eq!(said, "");
        }
    }

    /// The same of jobs that were started with faults, which have made some of each kind and had to do with
    /// them.
    #[track_caller]
    fn end_faulty(&self, jobs: Vec<Running>) {
        for said in self.end_saying(jobs) {
            let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
            let counted: Vec<Value> = lines.map(|line| line["datagrams"].clone()).collect();
            let sum = |pointer: &str| -> u64 {
                counted
                    .iter()
                    .filter_map(|rank| rank.pointer(pointer))
                    .map(|count| count.as_u64().expect("a count"))
                    .sum()
            };
            let made = ["/made/lost", "/made/doubled", "/made/late"].map(sum);
            let met = ["/duplicates", "/gaps"].map(sum);
            println!(
                "{} datagrams; lost, doubled, late: {made:?}; seen twice, before others: {met:?}",
                sum("/sent")
            );
            assert!(made.iter().chain(&met).all(|count| *count > 0), "{said}");
            if self.arguments == ["first"] {
                Self::has_written(&said);
            }
        }
    }

    /// Of the bytes of the job, most were written to receives that came first.
    #[track_caller]
    fn has_written(said: &str) {
        let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
        let jobs: Vec<Value> = lines.map(|line| line["job"].clone()).filter(Value::is_object).collect();
        let [job] = &jobs[..] else { panic!("no line of the job, or several: {said}") };
        let percent = job["written_percent"].as_f64().unwrap_or_else(|| panic!("no share: {said}"));
        println!(
            "{} messages written, {percent} % of the bytes; {} announced",
            job["written"], job["announced"]
        );
        assert!(percent > 50.0, "{said}");
    }

    /// Ends the jobs; gives what each said on stderr.
    #[track_caller]
    fn end_saying(&self, jobs: Vec<Running>) -> Vec<String> {
        std::fs::write(self.go(), "").expect("a file");
        let ends = jobs.into_iter().map(|job| {
            let (status, said, lines) = job.end_with_output();
            assert_eq!(status, 0, "{said} {lines:?}");
            let last = lines.last().expect("a line");
            let count =
                last.strip_prefix("traffic: ").and_then(|rest| rest.split_once(' ')).map(|rest| rest.0);
            let count: u64 =
                count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{lines:?}"));
            println!("{last}");
            assert!(count >= 100 && last.ends_with(" messages, each once, in order, whole"), "{last}");
            said
        });
        ends.collect()
    }
}

/// Two jobs of `ranks` ranks each take at least so many turns on two nodes.
#[track_caller]
fn take_turns(name: &str, up: &[&str], ranks: u32, faults: bool, turns: u64) {
    take_turns_of(&Traffic::new(name), name, up, ranks, faults, turns);
}

#[track_caller]
fn take_turns_of(traffic: &Traffic, name: &str, up: &[&str], ranks: u32, faults: bool, turns: u64) {
    let netns = up.contains(&"--netns");
    if netns && !rustix::process::geteuid().is_root() {
        skip_part(Need::NetworkNamespace, "network namespaces need root");
        return;
    }
    let cluster = Cluster::up(name, 2, &[&["--slice", "5"], up].concat());
    let seed = tutti_testkit::seed();
    let faults_of = |job| faults.then(|| format!("loss=1%,dup=0.5%,reorder=2%,seed={}", seed + job));
    let jobs: Vec<_> = (1..=2)
        .map(|job| traffic.start(&cluster, job, 2, ranks, faults_of(u64::from(job)).as_deref()))
        .collect();
    let Some(mut seen) = Turns::of(&[&jobs[0], &jobs[1]]) else { return };
    seen.await_more(turns, PATIENCE);
    if faults {
        traffic.end_faulty(jobs)
    } else {
        traffic.end(jobs)
    }
    if up.contains(&"--strict") {
        have_been_steady(&cluster, turns);
    }
}

/// Channels of jobs whose messages are under way at each of so many turns are found steady.
#[track_caller]
fn have_been_steady(cluster: &Cluster, turns: u64) {
    let took_us = || {
        let tests = read(cluster).into_iter().filter(|turn| turn.what == "steady");
        let mut took_us: Vec<u64> = tests.map(|turn| turn.to_us - turn.from_us).collect();
        took_us.sort_unstable();
        took_us
    };
    // Each turn ends on two nodes. Beside other work a starter may be late, and is asked again after that.
    // The log is written once a second.
    await_that("a tenth of them are in the log", || took_us().len() as u64 >= turns / 10);
    let took_us = took_us();
    println!("{} steady state tests, {:?} us in the middle", took_us.len(), took_us.get(took_us.len() / 2));
}

#[test]
fn messages_arrive_once_in_order_through_strict_switches() {
    take_turns("gang-strict", &["--strict"], 4, false, 100);
}

// Paper: S18
#[test]
fn messages_of_a_frozen_job_reach_no_other() {
    take_turns("gang-others", &[], 4, false, 300);
}

// Paper: S19
#[test]
fn messages_arrive_once_in_order_through_2000_switches_on_a_faulty_network() {
    take_turns("gang-bad", &["--netns", "--slots", "1"], 2, true, 2000);
}

// Paper: S19
#[test]
fn messages_arrive_once_in_order_through_200_strict_switches_on_a_faulty_network() {
    take_turns("gang-bad-strict", &["--netns", "--slots", "1", "--strict"], 2, true, 200);
}

/// Messages that are written to receives that came first, with receives that are cancelled.
// Paper: M4
#[test]
fn written_messages_arrive_once_through_200_switches_on_a_faulty_network() {
    let name = "gang-bad-written";
    take_turns_of(&Traffic::first(name), name, &["--netns", "--slots", "1"], 2, true, 200);
}

/// Two jobs of MPICH's own library, which knows nothing of turns, and one of ours.
#[test]
fn mpich_programs_take_turns() {
    let Some(foreign) = Traffic::of_mpich("gang-mpich") else { return };
    let own = Traffic::new("gang-mpich-own");
    let cluster = Cluster::up("gang-mpich", 2, &["--slice", "5"]);
    let jobs: Vec<_> = (1..=2).map(|job| foreign.start(&cluster, job, job, 2, None)).collect();
    let beside = own.start(&cluster, 3, 2, 2, None);
    let Some(mut seen) = Turns::of(&[&jobs[0], &jobs[1], &beside]) else { return };
    seen.await_more(200, PATIENCE);
    foreign.end(jobs);
    own.end(vec![beside]);
}

#[test]
fn open_mpi_programs_take_turns() {
    let Some(foreign) = Traffic::of_open_mpi("gang-open-mpi") else { return };
    let own = Traffic::new("gang-open-mpi-own");
    let cluster = Cluster::up("gang-open-mpi", 2, &["--slice", "5"]);
    let jobs: Vec<_> = (1..=2).map(|job| foreign.start(&cluster, job, job, 2, None)).collect();
    let beside = own.start(&cluster, 3, 2, 2, None);
    let Some(mut seen) = Turns::of(&[&jobs[0], &jobs[1], &beside]) else { return };
    seen.await_more(200, PATIENCE);
    foreign.end(jobs);
    own.end(vec![beside]);
}

fn turns_of_soak(usual: u64) -> u64 {
    std::env::var("TUTTI_TURNS").ok().and_then(|turns| turns.parse().ok()).unwrap_or(usual)
}

#[test]
#[ignore = "long: make soak-gang"]
fn messages_arrive_once_in_order_soak() {
    soak(Traffic::new, "gang-soak", turns_of_soak(20_000));
}

// Paper: M4
#[test]
#[ignore = "long: make soak-writes"]
fn written_messages_arrive_once_soak() {
    soak(Traffic::first, "gang-soak-written", turns_of_soak(2000));
}

/// Two jobs on four nodes take so many turns, by overlapped switches and by strict ones.
#[track_caller]
fn soak(traffic: fn(&str) -> Traffic, name: &str, turns: u64) {
    for (name, up) in [(name, &["--netns"][..]), (&*format!("{name}-strict"), &["--netns", "--strict"])] {
        let cluster = Cluster::up(name, 4, &[&["--slice", "5", "--slots", "1"], up].concat());
        let traffic = traffic(name);
        let seed = tutti_testkit::seed();
        let faults = |job| format!("loss=1%,dup=0.5%,reorder=2%,seed={}", seed + u64::from(job));
        let jobs: Vec<_> =
            (1..=2).map(|job| traffic.start(&cluster, job, 4, 4, Some(&faults(job)))).collect();
        let Some(mut seen) = Turns::of(&[&jobs[0], &jobs[1]]) else { return };
        seen.await_more(turns, Duration::from_millis(turns * 100));
        traffic.end_faulty(jobs);
    }
}
