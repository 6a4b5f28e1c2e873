//! The phases of strict switches on real nodes, by the times in the log: their order, and what ranks see of
//! them.

use std::collections::{BTreeMap, BTreeSet};

use tutti_tests::{Scratch, compile};

use crate::Cluster;
use crate::harness::{LIMIT, Running, await_that};
use crate::log::{Turn, read, two_jobs};
use crate::turns::Turns;

/// Whom a phase is about, and where it stands in the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The job that leaves, on each of its nodes.
    Leaves(&'static str),
    /// The same, when the controller has it from all of them.
    HasLeft(&'static str),
    /// The job that comes, on each of its nodes.
    Comes(&'static str),
    /// The same, when the controller has it from all of them.
    HasCome(&'static str),
}

/// As SCore-D has them; the last one is RUN.
const PHASES: [Phase; 7] = [
    Phase::Leaves("freeze"),
    Phase::HasLeft("frozen"),
    Phase::Leaves("save"),
    Phase::HasLeft("saved"),
    Phase::Comes("restore"),
    Phase::HasCome("restored"),
    Phase::Comes("thaw"),
];

/// The turns of one generation.
type Switch = Vec<Turn>;

/// Turns of a phase, if it was done by one job on all nodes that have to do it.
fn done(switch: &Switch, phase: Phase, nodes: usize) -> Option<(u64, Vec<&Turn>)> {
    let (Phase::Leaves(what) | Phase::HasLeft(what) | Phase::Comes(what) | Phase::HasCome(what)) = phase;
    let turns: Vec<&Turn> = switch.iter().filter(|turn| turn.what == what).collect();
    let on: BTreeSet<&str> = turns.iter().map(|turn| turn.node.as_str()).collect();
    let due = match phase {
        Phase::Leaves(_) | Phase::Comes(_) => nodes,
        Phase::HasLeft(_) | Phase::HasCome(_) => 1,
    };
    let job = turns.first()?.job;
    let is_whole = on.len() == due && turns.len() == due && turns.iter().all(|turn| turn.job == job);
    is_whole.then_some((job, turns))
}

/// False where nodes had less to do than all phases with the same two jobs. Each phase is through everywhere
/// before the next one begins.
#[track_caller]
fn assert_in_order(switch: &Switch, nodes: usize) -> bool {
    let Some(phases) = PHASES.iter().map(|phase| done(switch, *phase, nodes)).collect::<Option<Vec<_>>>()
    else {
        return false;
    };
    let (leaves, comes) = (phases[0].0, phases[4].0);
    let whose = PHASES.iter().zip(&phases).all(|(phase, (job, _))| {
        *job == if matches!(phase, Phase::Leaves(_) | Phase::HasLeft(_)) { leaves } else { comes }
    });
    assert!(whose && leaves != comes, "{switch:#?}");
    for turn in &phases[0].1 {
        let told = switch.iter().find(|told| told.what == "switch" && told.node == turn.node);
        let told = told.expect("who freezes has been told of a switch");
        assert!(told.from_us <= turn.from_us, "{} freezes before it is told: {switch:#?}", turn.node);
    }
    for pair in phases.windows(2) {
        let last = pair[0].1.iter().max_by_key(|turn| turn.to_us).expect("there are some");
        let first = pair[1].1.iter().min_by_key(|turn| turn.from_us).expect("there are some");
        assert!(
            last.to_us <= first.from_us,
            "generation {}: {} began on {} {} us before {} was over on {}: {switch:#?}",
            first.generation,
            first.what,
            first.node,
            last.to_us - first.from_us,
            last.what,
            last.node
        );
    }
    true
}

fn switches(turns: Vec<Turn>) -> BTreeMap<u64, Switch> {
    let mut switches = BTreeMap::<u64, Switch>::new();
    turns.into_iter().for_each(|turn| switches.entry(turn.generation).or_default().push(turn));
    switches
}

// Paper: S17, R2, R3, R6, R7
#[test]
fn strict_switch_phases_are_barriers() {
    // One node above the other: what is said goes through an inner node.
    let up = ["--slice", "20", "--slots", "1", "--strict", "--arity", "1"];
    let cluster = Cluster::up("gang-phases", 3, &up);
    let Some(_jobs) = two_jobs(&cluster, 3, 3) else { return };
    // A node may be late on a crowded machine, and is left out of some switches; of 50 in a row most are
    // whole as soon as it is not.
    await_that("the log has 40 whole switches, in order, among 50", || {
        let in_order: Vec<bool> =
            switches(read(&cluster)).values().map(|switch| assert_in_order(switch, 3)).collect();
        in_order.windows(50).any(|some| some.iter().filter(|is| **is).count() >= 40)
    });
}

/// Ranks that write down when they did not run, and what they have written.
struct Gaps {
    job: Running,
    scratch: Scratch,
}

/// A stretch in which a rank looked at no clock, in us.
type Gap = (u64, u64);

/// Gaps that are not longer the ranks do not write down (GAP_US in gaps.c). Two jobs that begin within a
/// slice are frozen for as long.
const GAP_US: u64 = 1_000;

impl Gaps {
    #[track_caller]
    fn start(cluster: &Cluster, name: &str, place: &[&str]) -> Self {
        let scratch = Scratch::new(&format!("{name}-files"));
        let program = compile("tests/gang/programs/gaps.c", scratch.path());
        let (program, folder) = (program.to_string_lossy(), scratch.path().to_string_lossy());
        let mut job = cluster.start(&[&["run"], place, &[&program, &folder]].concat());
        job.await_line("gaps: up");
        Gaps { job, scratch }
    }

    /// By rank.
    fn read(&self, rank: u32) -> Vec<Gap> {
        let file = self.scratch.path().join(format!("gaps.{rank}"));
        let text = std::fs::read_to_string(file).unwrap_or_default();
        // What follows the last newline is being written.
        let lines = text.rsplit_once('\n').map_or("", |(lines, _)| lines).lines();
        let gap = |line: &str| {
            let (from, to) = line.split_once(' ').expect("two numbers");
            (from.parse().expect("a number"), to.parse().expect("a number"))
        };
        lines.map(gap).collect()
    }
}

/// When, by the log, a job stood still on a node: from the moment when it was found frozen until it began to
/// be thawed.
fn frozen(turns: &[Turn], node: &str, job: u64) -> Vec<Gap> {
    let of_job = turns.iter().filter(|turn| turn.node == node && turn.job == job);
    let (mut since, mut frozen) = (None, Vec::new());
    for turn in of_job {
        match turn.what.as_str() {
            "freeze" => since = Some(turn.to_us),
            "thaw" => frozen.extend(since.take().map(|since| (since, turn.from_us))),
            _ => {}
        }
    }
    frozen
}

// Paper: S23
#[test]
fn strict_switch_phases_are_measured() {
    let cluster = Cluster::up("gang-parts", 2, &["--slice", "20", "--slots", "1", "--strict"]);
    let gaps = Gaps::start(&cluster, "gang-parts", &["-N", "2", "-n", "2"]);
    let other = cluster.start(&["run", "-N", "2", "-n", "2", "sh", "-c", "while :; do :; done"]);
    await_that("it runs", || cluster.job(2).contains("\"running\""));
    let Some(mut turns) = Turns::of(&[&gaps.job]) else { return };
    turns.await_more(20, LIMIT);
    let mut seen = [0, 0];
    await_that("each node has measured what its rank has seen", || {
        let log = read(&cluster);
        for rank in [0, 1] {
            let gaps = gaps.read(rank);
            let Some((first, last)) = gaps.first().zip(gaps.last()) else { return false };
            let frozen = frozen(&log, &format!("node{rank}"), 1);
            let is_seen = |frozen: &&Gap| frozen.1 - frozen.0 > GAP_US;
            let told =
                frozen.iter().filter(|frozen| frozen.0 >= first.0 && frozen.1 <= last.1).filter(is_seen);
            seen[rank as usize] = told.clone().count();
            for frozen in told {
                let stood = gaps.iter().any(|gap| gap.0 <= frozen.0 && gap.1 >= frozen.1);
                assert!(stood, "rank {rank} ran while, by the log, it was frozen: {frozen:?} of {gaps:?}");
            }
        }
        seen.iter().all(|seen| *seen >= 15)
    });
    println!("{seen:?} times");
    // What is measured is said for every part: whoever adds it up has the switch.
    let log = read(&cluster);
    for (node, due) in [
        ("node1", &["switch", "freeze", "save", "restore", "thaw"][..]),
        ("node0", &["switch", "freeze", "frozen", "save", "saved", "restore", "restored", "thaw"]),
    ] {
        for part in due {
            assert!(log.iter().any(|turn| turn.node == node && turn.what == *part), "{node} {part}");
        }
    }
    // Nobody stands still the moment he is told to.
    let froze = log.iter().filter(|turn| turn.what == "freeze" && turn.job == 1);
    assert!(froze.clone().count() >= 30 && froze.clone().all(|turn| turn.to_us > turn.from_us), "{log:?}");
    for (number, job) in [("1", gaps.job), ("2", other)] {
        cluster.tutti(&["kill", number]).expect_success();
        assert_eq!(job.end().0, 137);
    }
}
