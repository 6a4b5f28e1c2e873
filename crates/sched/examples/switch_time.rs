//! Prints the simulated time of a gang switch at 2 to 4,096 nodes, and what the two ways of placing jobs lose
//! of a machine. The first table is also drawn: `cargo run --release -p tutti-sched --example switch_time
//! [FILE.svg]`.

use tutti_sched::sim::Costs;
use tutti_sched::sim::measure::{SwitchTime, switch_time};
use tutti_sched::sim::mix::{self, Lost, Mix};
use tutti_sched::{Mode, Policy};
use tutti_svg::plot::{self, Lines, Series};

const ARITY: u32 = 4;
const SWITCHES: u32 = 10;
const SEED: u64 = 1;
const MIXES: u64 = 10;

fn main() -> std::io::Result<()> {
    let sizes = || (1..=12).map(|level| 1_u32 << level);
    let measure =
        |mode| sizes().map(move |nodes| switch_time(nodes, ARITY, mode, Costs::default(), SWITCHES, SEED));
    let overlapped: Vec<_> = measure(Mode::Overlapped).collect();
    let strict: Vec<_> = measure(Mode::Strict).collect();
    print_times(&overlapped, &strict);
    print_lost();
    if let Some(file) = std::env::args().nth(1) {
        std::fs::write(&file, draw(&overlapped, &strict))?;
        println!("\nThe plot is in {file}.");
    }
    Ok(())
}

fn print_times(overlapped: &[SwitchTime], strict: &[SwitchTime]) {
    println!(
        "Simulated gang switch, tree of arity {ARITY}, means of {SWITCHES} switches between two jobs on all nodes, in us"
    );
    println!(
        "from the controller's decision; costs of a hop, a freeze and a thaw as measured on one machine (switch thread at real-time priority).\n"
    );
    println!("               | overlapped                   | strict");
    println!(" nodes  height | last thaw      skew   FROZEN | FROZEN    SAVED RESTORED last thaw  skew");
    let us = |ns: u64| ns / 1000;
    for (a, b) in overlapped.iter().zip(strict) {
        println!(
            "{:6} {:7} | {:9} {:9} {:8} | {:6} {:8} {:8} {:9} {:5}",
            a.nodes,
            a.height,
            us(a.last_ns),
            us(a.skew_ns),
            us(a.frozen_ns),
            us(b.frozen_ns),
            us(b.saved_ns),
            us(b.restored_ns),
            us(b.last_ns),
            us(b.skew_ns),
        );
    }
}

fn print_lost() {
    println!(
        "\nLost capacity: {MIXES} mixes of 300 jobs of 1 to 64 nodes on 64 nodes of one slot, in per cent of all slots while there are jobs;"
    );
    println!(
        "internal: inside of partitions of the tree; external: holes. Slowdown: mean of (end - submission) / time alone.\n"
    );
    println!(
        " policy       holes   sizes          | used  internal  external | slowdown  makespan s  rows at most"
    );
    for (sizes, powers_permille) in [("powers of two", 1000), ("half of them", 500), ("any", 0)] {
        for policy in [Policy::RoundRobin, Policy::Dqt] {
            for fill_holes in [false, true] {
                let every_ns = 300_000_000;
                let mixes = (1..=MIXES).map(|seed| {
                    mix::run(Mix {
                        seed,
                        nodes: 64,
                        jobs: 300,
                        every_ns,
                        powers_permille,
                        policy,
                        fill_holes,
                    })
                });
                let lost: Vec<_> = mixes.collect();
                let mean = |of: fn(&Lost) -> u64| lost.iter().map(of).sum::<u64>() as f64 / MIXES as f64;
                println!(
                    " {:11}  {:6}  {sizes:13}  | {:4.1}  {:8.1}  {:8.1} | {:8.1}  {:10.1}  {:12}",
                    format!("{policy:?}"),
                    if fill_holes { "filled" } else { "left" },
                    mean(|lost| lost.used) / 10.0,
                    mean(|lost| lost.internal) / 10.0,
                    mean(|lost| lost.external) / 10.0,
                    mean(|lost| lost.slowdown) / 100.0,
                    mean(|lost| lost.makespan_ns) / 1e9,
                    lost.iter().map(|lost| lost.rows).max().unwrap_or(0),
                );
            }
        }
    }
}

/// The times over the logarithm of the nodes.
fn draw(overlapped: &[SwitchTime], strict: &[SwitchTime]) -> String {
    let series = |name: &str, times: &[SwitchTime]| Series {
        name: name.into(),
        points: times.iter().map(|time| (f64::from(time.nodes), time.last_ns as f64 / 1000.0)).collect(),
        dashed: false,
    };
    plot::lines(&Lines {
        title: "Simulated gang switch: until the last node runs the next job".into(),
        note: format!(
            "tree of arity {ARITY}; costs of a hop, a freeze and a thaw as measured on one machine"
        ),
        x: "nodes".into(),
        y: "us".into(),
        powers: true,
        from: 0.0,
        series: vec![series("overlapped", overlapped), series("strict", strict)],
    })
}
