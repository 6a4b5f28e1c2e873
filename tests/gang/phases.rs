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
    if !is_steady_first(switch, leaves, &phases[0].1, phases[1].1[0]) {
        return false;
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

/// Whether the channels of the job that leaves have been tested on each node: after its ranks there stood
/// still, and before FROZEN was there. False where a node was late, and the switch went on without.
#[track_caller]
fn is_steady_first(switch: &Switch, leaves: u64, froze: &[&Turn], frozen: &Turn) -> bool {
    let tested = switch.iter().filter(|turn| turn.what == "steady" && turn.job == leaves);
    let by_node: BTreeMap<&str, &Turn> = tested.map(|turn| (turn.node.as_str(), turn)).collect();
    if by_node.len() < froze.len() {
        return false;
    }
    for freeze in froze {
        let steady = by_node[freeze.node.as_str()];
        let is_between = freeze.to_us <= steady.from_us && steady.to_us <= frozen.from_us;
        assert!(is_between, "{}: FROZEN does not wait for steady channels: {switch:#?}", freeze.node);
    }
    true
}

fn switches(turns: Vec<Turn>) -> BTreeMap<u64, Switch> {
    let mut switches = BTreeMap::<u64, Switch>::new();
    turns.into_iter().for_each(|turn| switches.entry(turn.generation).or_default().push(turn));
    switches
}

// Paper: S14, S17, R2, R3, R6, R7
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

/// Time from `at` on in which by their gaps neither of two ranks stood still, until one of them has written
/// down no more.
fn together(mut at: u64, one: &[Gap], other: &[Gap]) -> Vec<Gap> {
    let ends = [one, other].map(|gaps| gaps.last().map_or(0, |gap| gap.1));
    let until = ends[0].min(ends[1]);
    let mut all: Vec<Gap> = one.iter().chain(other).copied().collect();
    all.sort_unstable();
    let mut both = Vec::new();
    for (from, to) in all.into_iter().filter(|gap| gap.0 < until) {
        if from > at {
            both.push((at, from));
        }
        at = at.max(to);
    }
    both
}

#[test]
fn ranks_that_run_at_once_are_seen_to() {
    assert_eq!(together(5, &[(0, 10), (20, 30)], &[(10, 20), (30, 40)]), []);
    assert_eq!(together(5, &[(0, 10), (20, 30)], &[(10, 19), (30, 40)]), [(19, 20)]);
    assert_eq!(together(1, &[(0, 10), (21, 30)], &[(5, 20), (30, 40)]), [(20, 21)]);
}

// Paper: R2
#[test]
fn strict_switch_runs_no_two_jobs_at_once() {
    let cluster = Cluster::up("gang-apart", 2, &["--slice", "20", "--slots", "1", "--strict"]);
    let place = ["-N", "2", "-n", "2"];
    let jobs = ["gang-apart-one", "gang-apart-two"].map(|name| Gaps::start(&cluster, name, &place));
    let Some(mut turns) = Turns::of(&[&jobs[0].job, &jobs[1].job]) else { return };
    turns.await_more(40, LIMIT);
    let node = |rank| format!("node{rank}");
    let since = |log: &[Turn], rank| {
        let first = |job| frozen(log, &node(rank), job).first().map(|gap| gap.0);
        first(1).zip(first(2)).map(|(one, other)| one.max(other))
    };
    await_that("each job has been frozen on each node", || {
        let log = read(&cluster);
        [0, 1].iter().all(|rank| since(&log, *rank).is_some())
    });
    for rank in [0, 1] {
        let since = since(&read(&cluster), rank).expect("it was there");
        let [one, other] = [0, 1].map(|job: usize| jobs[job].read(rank));
        // The first line of a rank says when it has begun to look.
        let since = [&one, &other]
            .map(|gaps| gaps.first().map_or(u64::MAX, |gap| gap.0))
            .into_iter()
            .fold(since, u64::max);
        let of_turns = |gaps: &[Gap]| gaps.iter().filter(|gap| gap.0 >= since).count();
        assert!(of_turns(&one) >= 10 && of_turns(&other) >= 10, "{}: {one:?} {other:?}", node(rank));
        let at_once = together(since, &one, &other);
        assert_eq!(at_once, [], "{}, from and to in us: {one:?} {other:?}", node(rank));
    }
    cluster.tutti(&["kill", "1", "2"]).expect_success();
    jobs.into_iter().for_each(|gaps| assert_eq!(gaps.job.end().0, 137));
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
        ("node1", &["switch", "freeze", "steady", "save", "restore", "thaw"][..]),
        ("node0", &["switch", "freeze", "steady", "frozen", "save", "saved", "restore", "restored", "thaw"]),
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
