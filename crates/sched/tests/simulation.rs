//! Runs of the simulator ([`tutti_sched::sim`]), a million events of them. `TUTTI_SIM_SEED=n` runs that seed
//! instead.

use std::time::{Duration, Instant, SystemTime};

use tutti_sched::sim::measure::{SwitchTime, switch_time};
use tutti_sched::sim::mix::{self, Lost, Mix};
use tutti_sched::sim::{Costs, Options, Report, World};
use tutti_sched::{Mode, Policy};

/// A number given by the environment.
fn given(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// Runs some seeds, or the one that is given, with what `change` makes of their options.
fn run(seeds: std::ops::Range<u64>, change: impl Fn(Options) -> Options) -> Report {
    run_worlds(seeds, |options| World::new(change(options)))
}

fn run_worlds(seeds: std::ops::Range<u64>, world: impl Fn(Options) -> World) -> Report {
    let seeds = given("TUTTI_SIM_SEED").map_or(seeds, |seed| seed..seed + 1);
    let mut all = Report::default();
    for seed in seeds {
        all += world(Options::from_seed(seed)).run();
    }
    println!("{all:?}\n{}", all.fault_coverage);
    all
}

#[test]
fn simulation_gangs_run_together_and_get_their_shares() {
    let quiet = |options| Options { fault_every_ns: 0, faults_ns: 500_000_000, moods: false, ..options };
    let all = run(0..12, quiet);
    if given("TUTTI_SIM_SEED").is_none() {
        assert!(all.events > 400_000 && all.switches > 2500, "too little happened: {all:?}");
        assert_eq!((all.left_out, all.expelled), (0, 0), "nobody is late: {all:?}");
    }
}

#[test]
fn simulation_overlapped_switch_survives_every_fault() {
    let all = run(100..160, |options| Options { mode: Mode::Overlapped, ..options });
    if given("TUTTI_SIM_SEED").is_none() {
        assert!(all.events > 800_000 && all.switches > 5000, "too little happened: {all:?}");
        assert!(all.losses > 50 && all.restarts > 50 && all.cuts > 50 && all.stuck > 10, "{all:?}");
        assert!(all.membership > 50 && all.common > 500, "{all:?}");
        assert!(all.overlaps > 100 && all.left_out > 10 && all.idle > 100, "{all:?}");
        assert!(all.kills_suspended > 2 && all.stops > 50 && all.heads > 50 && all.adopted > 50, "{all:?}");
        assert_eq!(
            all.fault_coverage.rare(Mode::Overlapped, 5),
            [],
            "faults of all kinds in all steps: {}",
            all.fault_coverage
        );
    }
}

/// Jobs run in the turns of others, at any moment of a switch and of every fault: nobody has less for it, and
/// nobody is found running where he is said to be frozen.
#[test]
fn simulation_loans_cost_their_lenders_alone() {
    let quiet = |options| Options { fault_every_ns: 0, faults_ns: 500_000_000, moods: false, ..options };
    let world = |options, mode| World::new(Options { mode, ..options }).lending();
    let calm = run_worlds(400..412, |options| world(quiet(options), Mode::Overlapped));
    let all = run_worlds(420..460, |options| world(options, Mode::Overlapped));
    if given("TUTTI_SIM_SEED").is_none() {
        let (few, many) = (calm.loans(), all.loans());
        assert!(few > 1000 && many > 2000, "too little was lent: {few} {many}");
        assert_eq!((calm.left_out, calm.expelled), (0, 0), "nobody is late: {calm:?}");
    }
    let strict = run_worlds(400..404, |options| world(options, Mode::Strict));
    assert_eq!(strict.loans(), 0, "strict switches lend nothing");
}

/// Jobs with GPUs and jobs in reservations, with every fault: no two jobs have a GPU, frozen or not, and no
/// job is in the way of a reservation.
#[test]
fn simulation_gpus_and_reservations_are_never_shared() {
    let busy = |options: Options| Options { jobs_max: 40, fault_every_ns: 20_000_000, ..options };
    let gangs =
        run_worlds(500..512, |options| World::new(Options { heads_die: false, ..busy(options) }).scarce());
    let heads = run_worlds(530..542, |options| World::new(busy(options)).scarce());
    if given("TUTTI_SIM_SEED").is_none() {
        for all in [gangs, heads] {
            let (gpus, reserved) = all.scarce();
            assert!(gpus > 20 && reserved > 5, "too little happened: {gpus} {reserved}");
        }
    }
}

// Paper: S17
#[test]
fn simulation_strict_switch_keeps_the_order_of_steps() {
    let all = run(200..300, |options| Options { mode: Mode::Strict, ..options });
    if given("TUTTI_SIM_SEED").is_none() {
        assert!(all.events > 1_000_000 && all.switches > 3000, "too little happened: {all:?}");
        assert!(all.losses > 20 && all.restarts > 20 && all.cuts > 20 && all.expelled > 20, "{all:?}");
        assert!(all.membership > 20, "{all:?}");
        assert!(all.kills_suspended > 5 && all.stops > 20 && all.heads > 50 && all.adopted > 20, "{all:?}");
        assert_eq!(
            all.fault_coverage.rare(Mode::Strict, 4),
            [],
            "faults of all kinds in all steps: {}",
            all.fault_coverage
        );
    }
}

/// Found by soaking: a part on a node that its parent did not know yet, a job that came to an expelled node,
/// parts bound anew.
#[test]
fn simulation_former_failing_seeds_pass() {
    for seed in [1795401735058085247, 1795401682249112053, 1795375571631998732] {
        run(seed..seed + 1, |options| options);
    }
}

/// A cluster of so many nodes with faults for two seconds, and with as many again as it takes that all is
/// well.
fn run_large(seeds: std::ops::Range<u64>, nodes: u32, mode: Mode) -> Report {
    let change = |options| Options {
        nodes,
        arity: 4,
        slice_ns: u64::from(nodes) * 100_000,
        mode,
        fault_every_ns: 30_000_000,
        faults_ns: 2_000_000_000,
        jobs: 3,
        jobs_max: 4,
        force_switch: true,
        moods: false,
        heads_die: false,
        ..options
    };
    run(seeds, change)
}

#[test]
fn simulation_1024_nodes_survive_faults_in_both_modes() {
    for mode in [Mode::Overlapped, Mode::Strict] {
        let all = run_large(1..3, 1024, mode);
        if given("TUTTI_SIM_SEED").is_none() {
            assert!(all.events > 500_000 && all.faults > 30 && all.switches > 50, "{all:?}");
        }
    }
}

#[test]
fn simulation_4096_nodes_survive_faults() {
    let all = run_large(3..4, 4096, Mode::Strict);
    if given("TUTTI_SIM_SEED").is_none() {
        assert!(all.events > 500_000 && all.faults > 30 && all.switches > 20, "{all:?}");
    }
}

#[test]
fn simulation_run_is_a_function_of_its_seed() {
    let report = |seed| World::new(Options::from_seed(seed)).run();
    assert_eq!(report(7), report(7));
    assert_ne!(report(7), report(8));
}

/// Switch times over all sizes with the measured costs. Starters answer in the middle of theirs: the latest
/// answer of many is later than that of few, whatever the tree does.
fn times(mode: Mode) -> Vec<SwitchTime> {
    let costs = Costs { save_ns: (250_000, 250_000), test_ns: (600_000, 600_000), ..Costs::default() };
    (1..=12).map(|level| switch_time(1 << level, 4, mode, costs, 3, 1)).collect()
}

// Paper: S7
#[test]
fn simulation_switch_time_is_logarithmic() {
    for mode in [Mode::Overlapped, Mode::Strict] {
        let times = times(mode);
        let at = |nodes: u32| times.iter().find(|time| time.nodes == nodes).expect("it is measured");
        // Four times the nodes are one level more: so many hops for each broadcast and barrier, and the slow
        // wake-ups.
        let ways = if mode == Mode::Strict { 7 } else { 1 };
        for level in 1..=5 {
            let (few, many) = (at(1 << (2 * level)), at(1 << (2 * level + 2)));
            let grows_ns = many.last_ns.saturating_sub(few.last_ns);
            assert!(grows_ns <= ways * 120_000, "{mode:?}: {few:?} to {many:?}");
        }
        let (small, large) = (at(16), at(4096));
        assert!(large.last_ns < 6 * small.last_ns, "{mode:?}: 256 times the nodes: {small:?} {large:?}");
    }
}

// Paper: S23
#[test]
fn simulation_strict_switch_reports_its_phases() {
    let time = switch_time(64, 4, Mode::Strict, Costs::default(), 5, 1);
    assert!(0 < time.frozen_ns && time.frozen_ns < time.saved_ns, "{time:?}");
    assert!(time.saved_ns < time.restored_ns && time.restored_ns < time.last_ns, "{time:?}");
}

fn lost(policy: Policy, fill_holes: bool, powers_permille: u64) -> Lost {
    mix::run(Mix {
        seed: 1,
        nodes: 64,
        jobs: 300,
        every_ns: 300_000_000,
        powers_permille,
        policy,
        fill_holes,
    })
}

#[test]
fn simulation_filled_holes_lose_less_capacity() {
    for policy in [Policy::RoundRobin, Policy::Dqt] {
        let (bare, filled) = (lost(policy, false, 500), lost(policy, true, 500));
        assert!(
            filled.used > bare.used && filled.makespan_ns <= bare.makespan_ns,
            "{policy:?}: {bare:?} {filled:?}"
        );
        assert!(filled.slowdown < bare.slowdown, "{policy:?}: {bare:?} {filled:?}");
    }
}

#[test]
fn dqt_powers_of_two_have_no_internal_fragmentation() {
    let (powers, others) = (lost(Policy::Dqt, false, 1000), lost(Policy::Dqt, false, 0));
    assert_eq!(powers.internal, 0, "{powers:?}");
    assert!(others.internal > 0, "{others:?}");
}

#[test]
#[ignore = "runs for TUTTI_SIM_SECONDS: make soak-gang"]
fn soak() {
    if given("TUTTI_SIM_SEED").is_some() {
        run(0..1, |options| options);
        return;
    }
    let time = Duration::from_secs(given("TUTTI_SIM_SECONDS").unwrap_or(60));
    let start = Instant::now();
    let first = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock").as_nanos() as u64;
    let (mut all, mut seeds) = (Report::default(), 0);
    while start.elapsed() < time {
        all += World::new(Options::from_seed(first.wrapping_add(seeds))).run();
        seeds += 1;
    }
    println!("{seeds} seeds from {first}: nothing wrong in {all:?}");
}
