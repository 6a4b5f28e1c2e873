//! `make paper`: the tables and figures of the papers, by their names: ours beside what the paper printed
//! and today's limit, from one run.
//!
//! docs/internals/checklist.toml lists them; what is weak or to come there has no entry here. Each of ours
//! is a run of the programs of `bench/c`, of an example, or of `make bench-gang`. Figures of the papers are
//! copied from their tables; a plot whose values are not printed has those that its text names. Between
//! nodes means two network namespaces of this machine (root), else two virtual nodes.

mod dse;
mod memory;
mod messages;
mod shared;
mod sheet;
mod switches;

use std::{collections::BTreeSet, process::Command, time::Duration};

use tutti_testkit::papers::{List, State};

use crate::{
    child::{self, End},
    figures::Line,
    gang,
    mpis::{self, Kind, Places},
    npb,
};
use sheet::{Row, Sheet};

/// Needs of a table that is redone.
pub struct Paper<'a> {
    places: &'a Places,
    /// Peers that there are, and ours.
    kinds: &'a [Kind],
    quick: bool,
    rounds: usize,
    /// Measures one loop of `work()` in bench/c, for what needs it.
    ns_per_loop: &'a dyn Fn() -> Result<f64, String>,
    /// The name of the table.
    name: &'static str,
}

/// Figures of bare UDP between two nodes, as far as they were measured.
#[derive(Debug, Default, PartialEq)]
struct Limit {
    round_trip_us: Option<f64>,
    stream_mbs: Option<f64>,
}

impl Limit {
    fn read(output: &str) -> Self {
        let lines: Vec<Line> = output.lines().filter_map(Line::parse).collect();
        let of = |what: &str, key: &str| {
            lines.iter().filter(|line| line.matches(what)).find_map(|line| line.figure(key))
        };
        Limit {
            round_trip_us: of("what=network_rtt", "median_ns").map(|ns| ns / 1e3),
            stream_mbs: of("what=network_stream", "median_gbs").map(|gbs| gbs * 1e3),
        }
    }
}

/// Why a run has not ended well.
fn lack(end: &End) -> Option<String> {
    match end {
        End::Well => None,
        End::Timeout => Some("it takes too long".into()),
        End::Failed(why) => Some(why.clone()),
    }
}

type Run = fn(&Paper<'_>) -> Result<(), String>;

/// The tables and figures that can be redone, and how.
const RESULTS: [(&str, Run); 29] = [
    ("score-d/table2", messages::layer),
    ("score-d/table3", switches::channel),
    ("score-d/figure4", switches::ep),
    ("score-d/figure5", switches::bar),
    ("score-d/figure7", switches::parts),
    ("score-d/figure8", switches::parts_of_ep),
    ("mbcf/table1", memory::latency),
    ("mbcf/table2", memory::bandwidth),
    ("mbcf/table3", messages::round_trip),
    ("mbcf/table4", messages::bandwidth),
    ("mbcf/figure7", messages::bandwidth),
    ("sr8000/figure6", switches::phases),
    ("sr8000/figure7", switches::phases),
    ("sr8000/figure8", switches::speed_up),
    ("dse/table1", dse::access),
    ("dse/table2", dse::parts),
    ("dse/figure5", dse::parts),
    ("dse/figure6", dse::profile),
    ("sss/figure3", widths),
    ("sss/table1", memory::pages),
    ("sss/table2", memory::bandwidth),
    ("sss/table3", memory::latency),
    ("sss/figure4", memory::sockets),
    ("sss/table4", messages::round_trip),
    ("sss/table5", messages::bandwidth),
    ("sss/table7", shared::lu),
    ("sss/table8", shared::radix),
    ("sss/figure5", shared::lu_speed_up),
    ("sss/figure6", shared::radix_speed_up),
];

/// Tables that are runs of NPB's programs: which of them; none: all that the papers have.
const NPB: [(&str, Option<&str>); 9] = [
    ("mbcf/table5", None),
    ("mbcf/table6", Some("EP")),
    ("mbcf/table7", Some("MG")),
    ("mbcf/table8", Some("CG")),
    ("mbcf/table9", Some("IS")),
    ("mbcf/table10", Some("LU")),
    ("mbcf/table11", Some("SP")),
    ("mbcf/table12", Some("BT")),
    ("sss/table6", None),
];

/// The programs of NPB that a table is about.
pub fn npb_programs(what: &str) -> Option<Vec<&'static npb::Program>> {
    let (_, chosen) = NPB.iter().find(|(name, _)| *name == what)?;
    let is_chosen = |program: &&npb::Program| match chosen {
        Some(name) => program.name == *name,
        None => program.is_of_papers(),
    };
    Some(npb::PROGRAMS.iter().filter(is_chosen).collect())
}

/// Prints the names of all tables and figures, with what each is and how far it is here.
///
/// # Errors
/// When the list cannot be read.
pub fn list(places: &Places) -> Result<(), String> {
    println!("make paper WHAT=NAME redoes one of these:\n");
    for table in List::read(&places.root)?.tables {
        let here = match table.state {
            State::Held => String::new(),
            State::Weak(what) => format!(" (not redone: {what})"),
            State::Next(what) => format!(" (next: {what})"),
            State::NotHere(why) => format!(" (not here: {why})"),
        };
        println!("{:16} {}{here}", table.name, table.text);
    }
    Ok(())
}

/// Whether a table can be redone; else why not, in one line.
///
/// # Errors
/// When no paper has it, or nothing here redoes it.
pub fn check(places: &Places, what: &str) -> Result<(), String> {
    let tables = List::read(&places.root)?.tables;
    let Some(table) = tables.into_iter().find(|table| table.name == what) else {
        return Err(format!("no paper has {what} (`make paper` lists the tables and figures)"));
    };
    match table.state {
        State::Held => Ok(()),
        State::Weak(why) | State::Next(why) | State::NotHere(why) => {
            Err(format!("{what} is not redone here: {why}"))
        }
    }
}

/// The programs of bench/c that the peers run in it: if there are none, no peer has a row.
pub fn programs(what: &str) -> BTreeSet<&'static str> {
    let is_of_messages = messages::NAMES.contains(&what);
    is_of_messages.then_some("sr").into_iter().collect()
}

/// Redoes one, whose name [`check`] has taken.
///
/// # Errors
/// When it cannot be measured: one line.
pub fn run(
    places: &Places,
    kinds: &[Kind],
    what: &str,
    quick: bool,
    rounds: Option<usize>,
    ns_per_loop: &dyn Fn() -> Result<f64, String>,
) -> Result<(), String> {
    let found = RESULTS.iter().find(|(name, _)| *name == what);
    let &(name, run) = found.ok_or_else(|| format!("{what} is not redone here"))?;
    let rounds = rounds.unwrap_or(if quick { 1 } else { 3 }).max(1);
    run(&Paper { places, kinds, quick, rounds, ns_per_loop, name })
}

/// Figure 3 of SSS-CORE: programs of different width at once.
fn widths(paper: &Paper<'_>) -> Result<(), String> {
    println!("The paper shows flying cubes on 7 nodes beside ray tracing on 9, and prints no figures.");
    gang::widths::run(paper.places, paper.quick, paper.rounds)
}

impl Paper<'_> {
    /// Whether two nodes can be two network namespaces.
    fn has_namespaces(&self) -> bool {
        rustix::process::geteuid().is_root()
    }

    /// Places of the two ranks, as the tables name them.
    fn between(&self) -> &'static str {
        if self.has_namespaces() { "two network namespaces of this machine" } else { "two virtual nodes" }
    }

    /// Options of our mpiexec for two ranks on two nodes.
    fn two_nodes(&self) -> [&'static str; 4] {
        [if self.has_namespaces() { "--netns" } else { "--virtual-nodes" }, "2", "-n", "2"]
    }

    /// A command of our installation tree that hears of no daemon and of no other MPI.
    fn ours(&self, program: &str) -> Command {
        let mut command = Command::new(self.places.bin(Kind::Tutti).join(program));
        mpis::forget_others(&mut command);
        command.env("TUTTI_DAEMON", "none");
        command
    }

    /// Runs it and gives what it printed.
    fn output(&self, command: &mut Command, limit: Duration) -> Result<String, String> {
        let ran = child::run(command, limit);
        match ran.end {
            End::Well => Ok(ran.stdout),
            End::Timeout => Err(format!("{}: over {} s", self.name, limit.as_secs())),
            End::Failed(why) => Err(format!("{}: {why}", self.name)),
        }
    }

    /// Lines of figures.
    fn lines(&self, command: &mut Command, limit: Duration) -> Result<Vec<Line>, String> {
        Ok(self.output(command, limit)?.lines().filter_map(Line::parse).collect())
    }

    /// Bare UDP between two nodes: round trip of 4 B and stream of 1 MiB. Namespaces only; where it loses a
    /// datagram, or takes too long, the table lacks what it has not measured.
    fn bare_network(&self) -> Limit {
        if !self.has_namespaces() {
            return Limit::default();
        }
        let ran = child::run(&mut self.places.network_limits(), Duration::from_secs(60));
        if let Some(why) = lack(&ran.end) {
            eprintln!(
                "\r\x1b[Kbench: {}: bare UDP: {why}: what it has not measured is no row here",
                self.name
            );
        }
        Limit::read(&ran.stdout)
    }

    /// Prints a table, and draws it into `target/paper`.
    fn show(&self, sheet: &Sheet) -> Result<(), String> {
        eprint!("\r\x1b[K");
        println!("{}", sheet.text());
        let folder = self.places.target.join("paper");
        let file = folder.join(self.name.replace('/', "-")).with_extension("svg");
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(&file, sheet.picture()))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        println!("picture: {}", file.display());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paper_results_are_those_that_the_list_calls_held() {
        let list = List::read(&Places::new().root).expect("the list");
        let held = list.tables.iter().filter(|table| table.state == State::Held);
        let held: Vec<&str> = held.map(|table| table.name.as_str()).collect();
        let of_npb = NPB.iter().map(|(name, _)| *name);
        let mut known: Vec<&str> = RESULTS.iter().map(|(name, _)| *name).chain(of_npb).collect();
        known.sort_by_key(|name| list.tables.iter().position(|table| table.name == *name));
        assert_eq!(known, held);
    }

    #[test]
    fn paper_limit_is_what_was_measured_before_the_network_lost_something() {
        let half = "limits what=network_rtt median_ns=3400 p99_ns=9000\na datagram was lost\n";
        let found = Limit::read(half);
        assert_eq!(found, Limit { round_trip_us: Some(3.4), stream_mbs: None });
        let whole = format!("{half}limits what=network_stream median_gbs=3.5\n");
        assert_eq!(Limit::read(&whole).stream_mbs, Some(3500.0));
        assert_eq!(Limit::read(""), Limit::default());
        assert_eq!(lack(&End::Well), None);
        assert_eq!(lack(&End::Failed("status 134".into())), Some("status 134".into()));
    }

    #[test]
    fn paper_that_has_no_such_table_is_one_line() {
        let places = Places::new();
        for (what, said) in [
            ("mbcf/table13", "no paper has mbcf/table13 (`make paper` lists the tables and figures)"),
            ("", "no paper has  (`make paper` lists the tables and figures)"),
        ] {
            let refused = check(&places, what).expect_err(what);
            assert!(refused.starts_with(said) && refused.lines().count() == 1, "{refused}");
        }
        assert_eq!(check(&places, "mbcf/table3"), Ok(()));
    }
}
