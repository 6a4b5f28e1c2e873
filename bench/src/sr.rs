//! `make bench BENCH=--sr`: the write protocol (the paper's SR) against none (NSR), in the form of the
//! paper's tables 3 and 4, beside the peers. The four are run in turn; a figure is the median over the
//! rounds.

use std::fmt::Write;
use std::time::Duration;

use crate::cases::{Case, Nodes, PLAIN};
use crate::child::{self, End};
use crate::figures::{Line, median};
use crate::mpis::{self, Kind, Places};

/// Round trips, Table 3 of the paper, and above it the sizes for which there is a write protocol here.
const ROUND_TRIP: &str = "0,4,16,64,256,1024,4096,16384,65536,262144,1048576,4194304";
/// Bandwidth, Table 4 of the paper.
const STREAM: &str = "4,16,64,256,1024,4096,16384,65536,262144,1048576";
/// Sizes of receives that are told of, and that only messages of 8 bytes come into.
const UNMATCHED: &str = "64,1024,16384,65536,262144,1048576,4194304";

/// A column of the tables: its title, its MPI, whether the write protocol is off.
const COLUMNS: [(&str, Kind, bool); 4] = [
    ("SR", Kind::Tutti, false),
    ("NSR", Kind::Tutti, true),
    ("MPICH 5.0.2", Kind::Mpich, false),
    ("Open MPI 5.0.11", Kind::OpenMpi, false),
];

/// Measures and prints both tables, of the MPIs that there are.
///
/// # Errors
/// When a program of ours fails; a peer that fails has no figure.
pub fn run(places: &Places, kinds: &[Kind], rounds: usize, quick: bool) -> Result<(), String> {
    let columns: Vec<_> = COLUMNS.into_iter().filter(|column| kinds.contains(&column.1)).collect();
    let budget = if quick { "20" } else { "100" };
    for (title, unit, sizes, more, select, key, scale) in [
        ("Round trip", "us", ROUND_TRIP, "", "what=rtt", "median_ns", 1e-3),
        ("Bandwidth", "MB/s", STREAM, "--stream", "what=stream", "median_gbs", 1e3),
    ] {
        let args: Vec<String> = ["--sizes", sizes, "--budget-ms", budget, more]
            .iter()
            .filter(|arg| !arg.is_empty())
            .map(|arg| arg.to_string())
            .collect();
        let mut found: Vec<Vec<Line>> = vec![Vec::new(); columns.len()];
        for round in 0..rounds {
            for (&(name, kind, off), lines) in columns.iter().zip(&mut found) {
                eprint!("\rbench: {title}: round {} of {rounds}: {name}\x1b[K", round + 1);
                let case = Case { id: "sr", program: "sr", ..PLAIN };
                lines.extend(one(places, &case, kind, off, &args)?);
            }
        }
        eprint!("\r\x1b[K");
        let figure = |lines: &[Line], bytes: &str| {
            let select = format!("{select} bytes={bytes}");
            let figures: Vec<f64> = lines
                .iter()
                .filter(|line| line.matches(&select))
                .filter_map(|line| line.figure(key))
                .collect();
            median(&figures).map_or_else(|| "-".into(), |value| crate::table::number(value * scale))
        };
        println!("{}", table(title, unit, sizes, &columns, |column, bytes| figure(&found[column], bytes)));
    }
    unmatched(places, rounds, budget)
}

/// Prints what a receive costs that its sender was told of, and whose message is not what it waits for.
fn unmatched(places: &Places, rounds: usize, budget: &str) -> Result<(), String> {
    let args = ["--sizes", UNMATCHED, "--budget-ms", budget, "--unmatched"].map(str::to_owned);
    let ours: Vec<_> = COLUMNS.into_iter().filter(|column| column.1 == Kind::Tutti).collect();
    let has_namespaces = rustix::process::geteuid().is_root();
    for (place, nodes) in [("inside a node", Nodes::One), ("between two nodes", Nodes::Two)] {
        if nodes == Nodes::Two && !has_namespaces {
            continue;
        }
        let case = Case { id: "sr", program: "sr", nodes, ..PLAIN };
        let mut found: Vec<Vec<Line>> = vec![Vec::new(); ours.len()];
        for _ in 0..rounds {
            for (&(_, kind, off), lines) in ours.iter().zip(&mut found) {
                lines.extend(one(places, &case, kind, off, &args)?);
            }
        }
        let title = format!("Round trip of 8 B into receives of so many bytes, {place}");
        let figure = |column: usize, bytes: &str| {
            let select = format!("what=unmatched bytes={bytes}");
            let lines = found[column].iter().filter(|line| line.matches(&select));
            let figures: Vec<f64> = lines.filter_map(|line| line.figure("median_ns")).collect();
            median(&figures).map_or_else(|| "-".into(), |ns| crate::table::number(ns * 1e-3))
        };
        println!("{}", table(&title, "us", UNMATCHED, &ours, figure));
    }
    Ok(())
}

/// One run of one column. A peer that fails has no lines.
///
/// # Errors
/// When a program of ours fails.
pub fn one(
    places: &Places,
    case: &Case,
    kind: Kind,
    off: bool,
    args: &[String],
) -> Result<Vec<Line>, String> {
    let mut command = mpis::command(places, kind, case, case.cores, args);
    if off {
        command.env("TUTTI_WRITE_PROTOCOL", "off");
    }
    let ran = child::run(&mut command, Duration::from_secs(60));
    match ran.end {
        End::Well => Ok(ran.stdout.lines().filter_map(Line::parse).collect()),
        _ if kind != Kind::Tutti => Ok(Vec::new()),
        End::Timeout => Err("sr: timeout".into()),
        End::Failed(why) => Err(format!("sr: {why}")),
    }
}

/// A table as Markdown: a line for each column of figures, as in the paper.
fn table(
    title: &str,
    unit: &str,
    sizes: &str,
    columns: &[(&str, Kind, bool)],
    figure: impl Fn(usize, &str) -> String,
) -> String {
    let sizes: Vec<&str> = sizes.split(',').collect();
    let mut text = format!(
        "{title} [{unit}]\n\n| bytes | {} |\n|---|{}\n",
        sizes.join(" | "),
        "---|".repeat(sizes.len())
    );
    for (at, (name, ..)) in columns.iter().enumerate() {
        let cells: Vec<String> = sizes.iter().map(|bytes| figure(at, bytes)).collect();
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // Paper: M18
    #[test]
    fn write_protocol_table_has_a_line_per_protocol() {
        let text =
            table("Round trip", "us", "0,4", &COLUMNS[..2], |column, bytes| format!("{column}/{bytes}"));
        assert_eq!(
            text,
            "Round trip [us]\n\n| bytes | 0 | 4 |\n|---|---|---|\n| SR | 0/0 | 0/4 |\n| NSR | 1/0 | 1/4 |\n"
        );
    }
}
