//! Runs of the simulator ([`tutti_channel::sim`]), a million events of them. `TUTTI_SIM_SEED=n` runs that
//! seed instead. `make soak` runs fresh seeds for as long as one likes.

use std::time::{Duration, Instant, SystemTime};

use tutti_channel::sim::{Options, Report, World};

/// A number given by the environment.
fn given(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// Runs some seeds, or the one that is given, with what `change` makes of their options.
fn run(seeds: std::ops::Range<u64>, change: impl Fn(Options) -> Options) -> Report {
    let seeds = given("TUTTI_SIM_SEED").map_or(seeds, |seed| seed..seed + 1);
    let mut all = Report::default();
    for seed in seeds {
        all += World::new(change(Options::from_seed(seed))).run();
    }
    println!("{all:?}");
    all
}

// Paper: S12
#[test]
fn simulation_delivers_every_record_once_in_order() {
    let all = run(0..50, |options| options);
    if given("TUTTI_SIM_SEED").is_none() {
        assert!(
            all.events >= 1_000_000 && all.records > 50_000 && all.bulk > 500,
            "too little happened: {all:?}"
        );
        assert!(
            all.lost > 10_000 && all.repeated > 1000 && all.refusals > 1000 && all.restores > 100,
            "{all:?}"
        );
        assert!(all.pieces > 10_000, "{all:?}");
    }
}

#[test]
fn simulation_resumes_ranks_frozen_at_any_event() {
    let often = |options| Options { fault_every_ns: 200_000, kill: false, refuse_permille: 20, ..options };
    let all = run(1000..1015, often);
    if given("TUTTI_SIM_SEED").is_none() {
        assert!(
            all.freezes > 2000 && all.cuts > 5000 && all.in_flight > 5000,
            "too little happened: {all:?}"
        );
        assert!(all.steady > 300, "{all:?}");
        assert!(all.claimed > 1_000_000, "hardly anything was said of bulk messages: {all:?}");
    }
}

#[test]
fn simulation_killed_rank_stalls_no_other_rank() {
    let all = run(2000..2010, |options| Options { kill: true, ranks: 4, ..options });
    assert!(all.records > 1000, "too little happened: {all:?}");
}

#[test]
#[ignore = "runs for TUTTI_SIM_SECONDS: make soak"]
fn soak() {
    let time = Duration::from_secs(given("TUTTI_SIM_SECONDS").unwrap_or(60));
    let start = Instant::now();
    let first = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock").as_nanos() as u64;
    let (mut all, mut seeds) = (Report::default(), 0);
    while start.elapsed() < time {
        // A failure prints its seed; here it is printed before, too, in case the machine is what fails.
        let seed = first.wrapping_add(seeds);
        all += World::new(Options::from_seed(seed)).run();
        seeds += 1;
        if seeds % 100 == 0 {
            println!("{seeds} seeds from {first}, {:.0} s: {all:?}", start.elapsed().as_secs_f64());
        }
    }
    println!("{seeds} seeds from {first}: nothing wrong in {all:?}");
}
