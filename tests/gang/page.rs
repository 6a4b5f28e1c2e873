//! Page that tells ranks of their turns: how often, how long they stood still. They cannot change it, and it
//! stays right when daemons die.

use std::path::PathBuf;
use std::time::Duration;

use tutti_testkit::{Need, skip};
use tutti_tests::{Scratch, compile};

use crate::Cluster;
use crate::cluster::SLOWLY_LOST;
use crate::harness::{LIMIT, Running, await_that};
use crate::log;
use crate::turns::Turns;

/// Between what is done with a rank and what it is told: a fifth of a slice here.
const SLACK_US: u64 = 100_000;

/// Ranks that compute, and what ends them.
struct Watch {
    program: PathBuf,
    go: PathBuf,
    /// As it began: see [`stolen_us`].
    stolen_us: u64,
    _scratch: Scratch,
}

/// Report of a rank at its end.
#[derive(Debug)]
struct Said {
    thaws: u64,
    frozen_us: u64,
    still_us: u64,
    waited_us: u64,
    wall_us: u64,
    /// The host's, meanwhile, on all cores: for a rank it is time in which it neither ran nor waited.
    stolen_us: u64,
}

/// Time of the machine's cores that the host of a virtual machine has taken since it began.
fn stolen_us() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("the kernel's counts");
    // cpu user nice system idle iowait irq softirq steal, in hundredths of a second.
    stat.split_whitespace().nth(8).and_then(|ticks| ticks.parse::<u64>().ok()).expect("a count") * 10_000
}

/// The clock of the controller's log.
fn monotonic_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000 + now.tv_nsec.cast_unsigned() / 1000
}

impl Watch {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(&format!("{name}-files"));
        let program = compile("tests/gang/programs/turns.c", scratch.path());
        Watch { program, go: scratch.path().join("go"), stolen_us: stolen_us(), _scratch: scratch }
    }

    #[track_caller]
    fn start(&self, cluster: &Cluster, place: &[&str]) -> Running {
        let (program, go) = (self.program.to_string_lossy(), self.go.to_string_lossy());
        let mut job = cluster.start(&[&["run"], place, &[&program, &go]].concat());
        job.await_line("turns: up");
        job
    }

    /// Ends the jobs; gives the reports of all ranks.
    #[track_caller]
    fn end(&self, jobs: Vec<Running>) -> Vec<Said> {
        std::fs::write(&self.go, "").expect("a file");
        let ends = jobs.into_iter().map(|job| {
            let (status, said, lines) = job.end_with_output();
            assert_eq!((status, said.as_str()), (0, ""), "{lines:?}");
            lines
        });
        let lines: Vec<String> = ends.flatten().filter(|line| line.starts_with("turns: rank")).collect();
        let stolen_us = stolen_us() - self.stolen_us;
        lines.iter().map(|line| Said::of(line, stolen_us)).collect()
    }
}

impl Said {
    #[track_caller]
    fn of(line: &str, stolen_us: u64) -> Self {
        println!("{line}");
        let number = |name: &str| {
            let mut words = line.split(' ').skip_while(|word| *word != name);
            words.nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{line}"))
        };
        Said {
            thaws: number("thaws"),
            frozen_us: number("frozen_us"),
            still_us: number("still_us"),
            waited_us: number("waited_us"),
            wall_us: number("wall_us"),
            stolen_us,
        }
    }

    /// Checks that the rank was notified of all the time in which, as the kernel says, it neither ran nor
    /// waited for a core. A rank that is ordered to stand still and has no core to do it on waits for one.
    #[track_caller]
    fn assert_right(&self) {
        let Said { frozen_us, still_us, waited_us, wall_us, stolen_us, .. } = *self;
        assert!(frozen_us + stolen_us + SLACK_US >= still_us, "{self:?}");
        assert!(frozen_us <= (still_us + waited_us + SLACK_US).min(wall_us + SLACK_US), "{self:?}");
    }
}

/// A rank that reads when its slice ends.
struct Slices {
    job: Running,
    go: PathBuf,
    _scratch: Scratch,
}

impl Slices {
    #[track_caller]
    fn start(cluster: &Cluster, name: &str) -> Self {
        let scratch = Scratch::new(&format!("{name}-files"));
        let program = compile("tests/gang/programs/slices.c", scratch.path());
        let go = scratch.path().join("go");
        let words = ["run", "-N", "1", "-n", "1", &program.to_string_lossy(), &go.to_string_lossy()];
        let mut job = cluster.start(&words);
        job.await_line("slices: up");
        Slices { job, go, _scratch: scratch }
    }

    #[track_caller]
    fn end(self) {
        std::fs::write(&self.go, "").expect("a file");
        let (status, said) = self.job.end();
        assert_eq!((status, said.as_str()), (0, ""));
    }
}

#[test]
fn daemon_page_shows_the_end_of_the_slice() {
    let cluster = Cluster::up("gang-page-ends", 1, &["--slots", "1"]);
    let mut first = Slices::start(&cluster, "gang-page-ends-first");
    first.job.await_line("slices: alone");
    let mut second = Slices::start(&cluster, "gang-page-ends-second");
    // Each ends after the moment that was told, which lay ahead.
    for slice in 1..=5 {
        first.job.await_line(&format!("slices: {slice}"));
        second.job.await_line(&format!("slices: {slice}"));
    }
    second.end();
    first.job.await_line("slices: alone");
    first.end();
}

/// Two jobs with two ranks a node take turns of half a second until each has had some.
#[track_caller]
fn take_turns(cluster: &Cluster, watch: &Watch, signals: bool) {
    let place = ["-N", "2", "-n", "4"];
    let jobs: Vec<_> = (0..2).map(|_| watch.start(cluster, &place)).collect();
    if signals {
        // Cgroups show nothing here; the daemon's log counts what both jobs had on its node.
        await_that("each job has had its turns", || log::thaws(cluster) >= 8);
    } else {
        let Some(mut turns) = Turns::of(&[&jobs[0], &jobs[1]]) else { return };
        turns.await_more(6, LIMIT);
    }
    let said = watch.end(jobs);
    assert_eq!(said.len(), 8);
    for rank in said {
        assert!(rank.thaws >= 2, "{rank:?}");
        rank.assert_right();
    }
}

#[test]
fn daemon_page_shows_thaws_and_frozen_time_read_only() {
    let cluster = Cluster::up("gang-page", 2, &["--slice", "500"]);
    take_turns(&cluster, &Watch::new("gang-page"), false);
}

#[test]
fn daemon_page_is_right_with_strict_switches() {
    let cluster = Cluster::up("gang-page-strict", 2, &["--slice", "500", "--strict"]);
    take_turns(&cluster, &Watch::new("gang-page-strict"), false);
}

#[test]
fn daemon_page_is_right_with_signals() {
    let Some(cluster) = Cluster::up_without_cgroups("gang-page-signals", 2, &["--slice", "500"]) else {
        skip(Need::MountNamespace, "no mount namespaces here");
        return;
    };
    take_turns(&cluster, &Watch::new("gang-page-signals"), true);
}

#[test]
fn daemon_page_shows_forced_switches() {
    let cluster = Cluster::up("gang-page-forced", 1, &["--slice", "5", "--force-switch"]);
    let watch = Watch::new("gang-page-forced");
    let job = watch.start(&cluster, &["-N", "1", "-n", "1"]);
    // It stands still too shortly to be seen from outside each time.
    let since_us = monotonic_us();
    await_that("it was switched off and on", || log::thaws_since(&cluster, since_us) >= 40);
    let said = watch.end(vec![job]);
    assert!(said[0].thaws >= 40 && said[0].frozen_us > 0, "{said:?}");
    assert!(said[0].frozen_us < said[0].wall_us, "{said:?}");
}

/// A tool is told by an event what the counters say (MPI 15.3.8).
#[test]
fn thawed_event_comes_to_a_rank_that_waits_under_forced_switches() {
    let cluster = Cluster::up("gang-page-event", 1, &["--slice", "5", "--force-switch"]);
    let scratch = Scratch::new("gang-page-event-files");
    let program = compile("tests/gang/programs/thawed.c", scratch.path());
    let words = ["run", "-N", "1", "-n", "2", &program.to_string_lossy(), "20"];
    let ran = cluster.run(&words).expect_success();
    assert_eq!((&*ran.stdout, &*ran.stderr), ("thawed: ok\n", ""), "{ran}");
}

#[test]
fn daemon_page_counts_suspension_and_turns_once() {
    let cluster = Cluster::up("gang-page-held", 1, &["--slice", "500"]);
    let watch = Watch::new("gang-page-held");
    let place = ["-N", "1", "-n", "2"];
    let jobs: Vec<_> = (0..2).map(|_| watch.start(&cluster, &place)).collect();
    let Some(mut turns) = Turns::of(&[&jobs[0], &jobs[1]]) else { return };
    for _ in 0..3 {
        turns.await_more(1, LIMIT);
        cluster.tutti(&["suspend", "1"]).expect_success();
        // A duration is what is tested: the page counts it as frozen once, the part of it that is a turn too.
        std::thread::sleep(Duration::from_millis(700));
        cluster.tutti(&["resume", "1"]).expect_success();
    }
    turns.await_more(1, LIMIT);
    watch.end(jobs).iter().for_each(Said::assert_right);
}

/// The daemon is killed while one job is frozen and the other runs; each has its time right all the same.
#[track_caller]
fn survive(cluster: &Cluster, node: u32, watch: &Watch, jobs: Vec<Running>) {
    let Some(mut turns) = Turns::of(&[&jobs[0], &jobs[1]]) else { return };
    turns.await_more(2, LIMIT);
    let gone = cluster.kill_daemon(node);
    await_that("both run", || !turns.is_frozen_anywhere(0) && !turns.is_frozen_anywhere(1));
    // A duration is what is tested: time without a daemon must not count as frozen.
    std::thread::sleep(Duration::from_millis(1500));
    gone.start();
    turns.await_more(2, LIMIT);
    let said = watch.end(jobs);
    assert_eq!(said.len(), 4);
    said.iter().for_each(Said::assert_right);
}

#[test]
fn daemon_page_is_right_after_a_daemon_restart() {
    let cluster = Cluster::up("gang-page-deaths", 2, &[&["--slice", "500"], &SLOWLY_LOST[..]].concat());
    let watch = Watch::new("gang-page-deaths");
    // The origin of the jobs is the controller, which lives on.
    let place = ["-N", "1", "-host", "node1", "-n", "2"];
    let jobs = (0..2).map(|_| watch.start(&cluster, &place)).collect();
    survive(&cluster, 1, &watch, jobs);
}

#[test]
fn daemon_page_is_right_after_an_on_demand_daemon_restart() {
    let cluster = Cluster::up("gang-page-mpiexec", 1, &["--slice", "500"]);
    let watch = Watch::new("gang-page-mpiexec");
    let start = |_| {
        let mut command = tutti_tests::program("mpiexec");
        command.args(["-n", "2"]).arg(&watch.program).arg(&watch.go);
        command.env("TUTTI_DIR", &cluster.folder).env("TUTTI_DAEMON", cluster.folder.join("tuttid.sock"));
        let mut job = Running::start_command(&mut command);
        job.await_line("turns: up");
        job
    };
    survive(&cluster, 0, &watch, (0..2).map(start).collect());
}
