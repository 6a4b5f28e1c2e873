//! EP and BAR, with which SCore-D was measured: what a forced switch in every slice costs, and its phases by
//! the daemons' own log.

use std::{collections::BTreeMap, process::Command, time::Duration};

use tutti_svg::plot::{self, Bar, Bars, Lines, Series};

use super::cluster::{Cluster, PLAIN, Setting, Turn};
use super::report::{Table, picture};
use super::together::Work;
use super::{Bench, Written};
use crate::{
    child::{self, End},
    figures::{Line, median},
    mpis::{self, Places},
};

/// Name and places of a line.
type Reference = (&'static str, &'static [(f64, f64)]);
/// Figures of the paper for 100 ms on 2 and 32 nodes, in per cent (4 and 10 on 32; about 2 less on 2).
const PAPER_100_MS: [Reference; 2] =
    [("SCore-D EP", &[(2.0, 2.0), (32.0, 4.0)]), ("SCore-D BAR", &[(2.0, 8.0), (32.0, 10.0)])];
/// The same of 500 ms: of BAR, on 32 nodes.
const PAPER_500_MS: [Reference; 1] = [("SCore-D BAR", &[(32.0, 2.0)])];
/// The paper's phases in ms: freeze below 1, save and restore of empty FIFOs (its table 3), the rest about 1.
const PAPER_PHASES: [f64; 5] = [1.0, 0.94, 0.005, 0.37, 1.0];
const PHASES: [&str; 5] = ["freeze", "save", "schedule", "restore", "run"];
const PHASES_EXPLAINED: &str = "\nPhases: medians of EP / BAR in us, between what the controller sees: SWITCH, FROZEN (strict: with steady channels), SAVED, SWITCH, RESTORED, last thaw.";

/// Measurements of one setting.
#[derive(Clone, Debug)]
struct Found {
    nodes: u32,
    slice_ms: u32,
    strict: bool,
    ep: Slower,
    bar: Slower,
    /// The same of two such jobs by turns, over the one alone, where that was measured.
    two: Option<[Slower; 2]>,
    /// EP where a switch is nothing but its system calls, where that was measured.
    bare: Option<Slower>,
    /// Median of each phase of EP's and BAR's switches, in us.
    phases: [[f64; 5]; 2],
    /// Between the first and the last node's thaw, in us: median and 99th percentile.
    skew: (f64, f64),
    switches: usize,
}

/// How much slower a program is with switches, in per cent: median, least and most of the rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Slower {
    median: f64,
    least: f64,
    most: f64,
}

impl Slower {
    fn of(rounds: &[f64]) -> Self {
        Slower { median: quantile(rounds, 0.5), least: quantile(rounds, 0.0), most: quantile(rounds, 1.0) }
    }

    fn text(self) -> String {
        format!("{:+.2} % ({:+.1} to {:+.1})", self.median, self.least, self.most)
    }
}

/// Form of the programs, how long and how often each runs.
#[derive(Clone, Copy, Debug)]
struct Effort {
    written: Written,
    rounds: usize,
    budget_ms: u32,
}

/// Measures all settings, prints a table for each number of nodes, draws the pictures of what there is.
pub fn run(bench: &Bench<'_>) -> Result<(), String> {
    if bench.quick {
        run_of(bench.places, Written::Messages, &[2, 8], &[100], 1)
    } else {
        run_of(bench.places, Written::Messages, &[2, 4, 8, 16, 32], &[100, 200, 500], 3)
    }
}

/// The same of these numbers of nodes and slices, in one form. Pictures are of MPI's.
pub fn run_of(
    places: &Places,
    written: Written,
    sizes: &[u32],
    slices_ms: &[u32],
    rounds: usize,
) -> Result<(), String> {
    let effort = Effort { written, rounds, budget_ms: 1000 };
    mpis::prepare_bare_switch(places)?;
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for &nodes in sizes {
        let mut table = table(written, nodes);
        for &slice_ms in slices_ms {
            eprint!("\rbench: EP and BAR: {nodes} nodes, {slice_ms} ms\x1b[K");
            match side_by_side(places, nodes, slice_ms, effort) {
                Ok(found) => {
                    found.iter().for_each(|found| table.row(found.row()));
                    all.extend(found);
                }
                Err(why) => table.failed(vec![nodes.to_string(), format!("{slice_ms} ms")], &why),
            }
        }
        if let Err(why) = table.print() {
            failed.push(format!("{nodes} nodes: {why}"));
        }
    }
    println!("{PHASES_EXPLAINED}");
    if written == Written::Messages {
        draw(places, &all)?;
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join(", ")) }
}

/// How much slower EP is at the least with a switch off and on in every slice: a datagram each way and two
/// writes to the freezers.
fn bare_switch(places: &Places, nodes: u32, slice_ms: u32, effort: Effort) -> Result<Slower, String> {
    let numbers = [nodes, slice_ms, effort.budget_ms, effort.rounds as u32].map(|number| number.to_string());
    let mut command = Command::new(places.bare_switch());
    for (option, number) in ["--nodes", "--slice-ms", "--budget-ms", "--rounds"].iter().zip(&numbers) {
        command.args([option, number.as_str()]);
    }
    let ran = child::run(&mut command, Duration::from_secs(60));
    match ran.end {
        End::Well => {}
        End::Timeout => return Err("the bare switch does not end".into()),
        End::Failed(why) => return Err(format!("the bare switch: {why}")),
    }
    let line = ran.stdout.lines().find_map(Line::parse).ok_or("the bare switch: no figure in its output")?;
    let of = |key| line.figure(key).ok_or("the bare switch: no figure in its output");
    Ok(Slower { median: of("slower_percent")?, least: of("least")?, most: of("most")? })
}

/// Both modes and the same without switches, by turns: what else goes on on the machine concerns all of them.
fn side_by_side(places: &Places, nodes: u32, slice_ms: u32, effort: Effort) -> Result<[Found; 2], String> {
    let plain = Setting { nodes, slots: Some(1), slice_ms, ..PLAIN };
    let settings = [
        plain.clone(),
        Setting { force: true, ..plain.clone() },
        Setting { force: true, strict: true, ..plain.clone() },
        Setting { strict: true, ..plain },
    ];
    let names = ["plain", "overlapped", "strict", "strict-plain"];
    let clusters: Vec<Cluster> = settings
        .iter()
        .zip(names)
        .map(|(setting, name)| Cluster::up_as(places, setting, name))
        .collect::<Result<_, _>>()?;
    // Pieces a second, and ns a barrier, of each round.
    let mut figures: [[Vec<f64>; 2]; 3] = Default::default();
    // At least so many slices.
    let budget_ms = effort.budget_ms.max(3 * slice_ms);
    for _ in 0..effort.rounds {
        for (cluster, [ep, bar]) in clusters[..3].iter().zip(&mut figures) {
            let work =
                |what, figure| Work { program: effort.written.program(), nodes, what, figure, budget_ms };
            ep.push(work("ep", "pieces_per_s").alone(places, cluster)?);
            bar.push(work("bar", "mean_ns").alone(places, cluster)?);
        }
    }
    let by_turns = [&clusters[0], &clusters[3]];
    let two = if slice_ms == 100 { Some(two_jobs(places, by_turns, nodes, slice_ms, effort)?) } else { None };
    let bare = if slice_ms == 100 { Some(bare_switch(places, nodes, slice_ms, effort)?) } else { None };
    let [base, forced @ ..] = figures;
    let found = |at: usize| {
        let turns = clusters[at + 1].turns();
        // The jobs of a cluster are numbered from 1: EP, BAR, EP, ...
        let of = |first: u64| -> Vec<Switch> {
            (0..effort.rounds as u64).flat_map(|round| phases(&turns, first + 2 * round)).collect()
        };
        let [ep, bar] = [of(1), of(2)];
        let skews: Vec<f64> = ep.iter().chain(&bar).map(|switch| switch.skew_us).collect();
        let slower = |ratio: fn(f64, f64) -> f64, what: usize| {
            let rounds = base[what].iter().zip(&forced[at][what]);
            let ratios: Vec<f64> =
                rounds.map(|(base, forced)| (ratio(*base, *forced) - 1.0) * 100.0).collect();
            Slower::of(&ratios)
        };
        Found {
            nodes,
            slice_ms,
            strict: at == 1,
            ep: slower(|base, forced| base / forced, 0),
            bar: slower(|base, forced| forced / base, 1),
            two: two.map(|two| two[at]),
            bare: bare.filter(|_| at == 0),
            phases: [medians(&ep), medians(&bar)],
            skew: (quantile(&skews, 0.5), quantile(&skews, 0.99)),
            switches: ep.len() + bar.len(),
        }
    };
    Ok([found(0), found(1)])
}

/// How much less two jobs of EP and two of BAR get done by turns than one alone: in both modes, where nobody
/// forces switches, each the two programs.
fn two_jobs(
    places: &Places,
    clusters: [&Cluster; 2],
    nodes: u32,
    slice_ms: u32,
    effort: Effort,
) -> Result<[[Slower; 2]; 2], String> {
    // As many slices of the one as of the other.
    let budget_ms = 2 * slice_ms * effort.budget_ms.div_ceil(slice_ms);
    let works = [("ep", "pieces_per_s"), ("bar", "mean_ns")];
    let program = effort.written.program();
    let works = works.map(|(what, figure)| Work { program, nodes, what, figure, budget_ms });
    let mut rounds: [[Vec<f64>; 2]; 2] = Default::default();
    for _ in 0..effort.rounds {
        for (at, work) in works.into_iter().enumerate() {
            // Of BAR the time of a barrier is known: so many there were of it.
            let done = |figures: Vec<f64>| -> f64 {
                figures.into_iter().map(|figure| if at == 0 { figure } else { 1.0 / figure }).sum()
            };
            let alone = done(work.of(places, clusters[0], 1)?);
            for (cluster, rounds) in clusters.into_iter().zip(&mut rounds) {
                rounds[at].push((alone / done(work.of(places, cluster, 2)?) - 1.0) * 100.0);
            }
        }
    }
    Ok(rounds.map(|rounds| rounds.map(|rounds| Slower::of(&rounds))))
}

/// One forced switch of a job: its phases and how far apart the nodes thawed.
#[derive(Clone, Debug)]
struct Switch {
    phases_us: [f64; 5],
    skew_us: f64,
}

/// The switches of a job: SWITCH, FROZEN, (SAVED,) SWITCH, (RESTORED,) and the thaws of all nodes.
fn phases(turns: &[Turn], job: u64) -> Vec<Switch> {
    let mut found = Vec::new();
    let at_head = |turn: &Turn| turn.node == "node0";
    for (index, frozen) in
        turns.iter().enumerate().filter(|(_, turn)| at_head(turn) && turn.what == "frozen" && turn.job == job)
    {
        let before = turns[..index].iter().rev().find(|turn| at_head(turn) && turn.what == "switch");
        let after = &turns[index..];
        let Some(again) = after.iter().position(|turn| at_head(turn) && turn.what == "switch") else {
            continue;
        };
        // By the number of the switch: a node may be ahead of the controller's own record of it, or behind
        // the next one.
        let generation = after[again].generation;
        let coming = || turns.iter().filter(|turn| turn.generation == generation && turn.job == job);
        let mut thawed = BTreeMap::new();
        for turn in coming().filter(|turn| turn.what == "thaw") {
            thawed.insert(&turn.node, (turn.us, turn.us + turn.took_us));
        }
        let (Some(before), Some(last)) = (before, thawed.values().map(|thaw| thaw.1).max()) else { continue };
        let first = thawed.values().map(|thaw| thaw.0).min().unwrap_or(last);
        let latest = thawed.values().map(|thaw| thaw.0).max().unwrap_or(first);
        let saved = after[..again].iter().find(|turn| turn.what == "saved" && turn.job == job);
        let saved = saved.map_or(frozen.us, |turn| turn.us);
        let back = after[again].us;
        let restored = coming().find(|turn| turn.what == "restored").map_or(back, |turn| turn.us);
        let marks = [before.us, frozen.us, saved, back, restored, last];
        found.push(Switch {
            phases_us: std::array::from_fn(|phase| marks[phase + 1].saturating_sub(marks[phase]) as f64),
            skew_us: (latest - first) as f64,
        });
    }
    found
}

fn medians(switches: &[Switch]) -> [f64; 5] {
    std::array::from_fn(|phase| {
        median(&switches.iter().map(|switch| switch.phases_us[phase]).collect::<Vec<_>>()).unwrap_or(0.0)
    })
}

fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(((sorted.len().saturating_sub(1)) as f64 * share).round() as usize).copied().unwrap_or(0.0)
}

fn mode(strict: bool) -> &'static str {
    if strict { "strict" } else { "overlapped" }
}

fn table(written: Written, nodes: u32) -> Table {
    let title = format!(
        "{} on {nodes} nodes with a switch in every slice, off and on, over the same without (SCore-D on 32 at 100 ms: 4 % and 10 %); two jobs of each by turns, over one alone",
        written.title()
    );
    let columns = ["nodes", "slice", "switch", "EP", "BAR", "EP, system calls alone", "two EP", "two BAR"];
    Table::new(&title, &[&columns, &PHASES[..], &["thaw skew", "99 %", "n"]].concat())
}

impl Found {
    fn row(&self) -> Vec<String> {
        let mut row = vec![
            self.nodes.to_string(),
            format!("{} ms", self.slice_ms),
            mode(self.strict).into(),
            self.ep.text(),
            self.bar.text(),
        ];
        row.push(self.bare.map_or(String::new(), Slower::text));
        row.extend(self.two.map_or(["".into(), "".into()], |two| two.map(Slower::text)));
        // EP's and BAR's, in us.
        let [ep, bar] = self.phases;
        row.extend(ep.iter().zip(bar).map(|(ep, bar)| format!("{ep:.0} / {bar:.0}")));
        row.extend([
            format!("{:.0} us", self.skew.0),
            format!("{:.0} us", self.skew.1),
            self.switches.to_string(),
        ]);
        row
    }
}

/// Cost of a switch over the nodes, beside the paper's.
fn cost(all: &[Found], slice_ms: u32, paper: &[Reference]) -> Lines {
    let series = |name: &str, strict: bool, figure: fn(&Found) -> Option<f64>| Series {
        name: format!("{name} {}", mode(strict)),
        points: all
            .iter()
            .filter(|found| found.slice_ms == slice_ms && found.strict == strict)
            .filter_map(|found| Some((f64::from(found.nodes), figure(found)?)))
            .collect(),
        dashed: false,
    };
    let mut lines = vec![
        series("EP,", false, |found| Some(found.ep.median)),
        series("BAR,", false, |found| Some(found.bar.median)),
        series("EP,", true, |found| Some(found.ep.median)),
        series("BAR,", true, |found| Some(found.bar.median)),
        series("two EP by turns,", false, |found| Some(found.two?[0].median)),
        series("two EP by turns,", true, |found| Some(found.two?[0].median)),
    ];
    let bare = series("EP, system calls alone,", false, |found| Some(found.bare?.median));
    lines.push(Series { dashed: true, ..bare });
    lines.retain(|line| !line.points.is_empty());
    let reference =
        |(name, points): &Reference| Series { name: (*name).into(), points: points.to_vec(), dashed: true };
    lines.extend(paper.iter().map(reference));
    Lines {
        title: format!("What a switch in every slice of {slice_ms} ms costs"),
        note: "all nodes on one machine of two cores; SCore-D: 32 machines, from its text".into(),
        x: "nodes".into(),
        y: "slowdown, per cent".into(),
        powers: true,
        from: 0.0,
        series: lines,
    }
}

fn draw(places: &Places, all: &[Found]) -> Result<(), String> {
    for (name, slice_ms, paper) in
        [("cost.svg", 100, &PAPER_100_MS[..]), ("cost-500.svg", 500, &PAPER_500_MS)]
    {
        if all.iter().any(|found| found.slice_ms == slice_ms) {
            picture(places, name, &plot::lines(&cost(all, slice_ms, paper)))?;
        }
    }
    let at = |strict: bool| all.iter().filter(move |found| found.slice_ms == 100 && found.strict == strict);
    let group = |strict: bool| {
        let bars = at(strict).map(|found| Bar {
            name: found.nodes.to_string(),
            parts: found.phases[0].iter().map(|us| us / 1000.0).collect(),
        });
        (format!("Tutti, {}: nodes", mode(strict)), bars.collect::<Vec<_>>())
    };
    let phases = Bars {
        title: "The phases of a switch (EP, slices of 100 ms)".into(),
        note: "medians, at the controller; all nodes on one machine of two cores. SCore-D: freeze below 1 ms, its table 3, hidden overhead".into(),
        y: "ms".into(),
        parts: PHASES.iter().map(|name| (*name).to_owned()).collect(),
        groups: vec![
            group(false),
            group(true),
            ("SCore-D".into(), vec![Bar { name: "32".into(), parts: PAPER_PHASES.to_vec() }]),
        ],
    };
    picture(places, "phases.svg", &plot::bars(&phases))?;
    let series = |name: &str, strict: bool, figure: fn(&Found) -> f64| Series {
        name: format!("{name} {}", mode(strict)),
        points: at(strict).map(|found| (f64::from(found.nodes), figure(found))).collect(),
        dashed: false,
    };
    let skew = Lines {
        title: "Co-scheduling skew: from the first node's thaw to the last one's".into(),
        note: "slices of 100 ms, EP and BAR; all nodes on one machine of two cores. SCore-D could only estimate it (about 4 ms on 32 nodes)".into(),
        x: "nodes".into(),
        y: "us".into(),
        powers: true,
        from: 0.0,
        series: vec![
            series("median,", false, |found| found.skew.0),
            series("99 %,", false, |found| found.skew.1),
            series("median,", true, |found| found.skew.0),
            series("99 %,", true, |found| found.skew.1),
        ],
    };
    picture(places, "skew.svg", &plot::lines(&skew))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(what: &str, node: &str, us: u64, generation: u64, took_us: u64) -> Turn {
        let job = if what == "switch" { 0 } else { 1 };
        Turn { what: what.into(), node: node.into(), us, generation, job, took_us }
    }

    #[test]
    fn report_shows_the_papers_figures() {
        let slower = Slower { median: 1.0, ..Slower::default() };
        let found = |slice_ms| Found {
            nodes: 4,
            slice_ms,
            strict: false,
            ep: slower,
            bar: slower,
            two: None,
            bare: None,
            phases: [[0.0; 5]; 2],
            skew: (0.0, 0.0),
            switches: 1,
        };
        let all = [found(100), found(500)];
        let names = |lines: Lines| lines.series.into_iter().map(|line| line.name).collect::<Vec<_>>();
        let ours = ["EP, overlapped", "BAR, overlapped"];
        assert_eq!(
            names(cost(&all, 100, &PAPER_100_MS)),
            [&ours[..], &["SCore-D EP", "SCore-D BAR"]].concat()
        );
        let long = cost(&all, 500, &PAPER_500_MS);
        assert_eq!(long.series[2].points, [(32.0, 2.0)]);
        assert_eq!(names(long), [&ours[..], &["SCore-D BAR"]].concat());
    }

    #[test]
    fn report_splits_a_forced_switch_into_phases() {
        let turns = [
            turn("switch", "node0", 100, 1, 0),
            turn("freeze", "node0", 101, 1, 20),
            turn("frozen", "node0", 300, 1, 0),
            turn("saved", "node0", 320, 1, 0),
            turn("switch", "node0", 330, 2, 0),
            turn("restored", "node0", 400, 2, 0),
            turn("thaw", "node1", 410, 2, 5),
            turn("thaw", "node0", 460, 2, 10),
            // Of the next one, before the controller has written down that it has begun.
            turn("thaw", "node1", 100_320, 4, 5),
            turn("switch", "node0", 100_330, 3, 0),
            turn("thaw", "node1", 100_400, 4, 5),
        ];
        let found = phases(&turns, 1);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].phases_us, [200.0, 20.0, 10.0, 70.0, 70.0]);
        assert_eq!(found[0].skew_us, 50.0);
        // Overlapped there is nothing to save.
        let turns: Vec<Turn> =
            turns.into_iter().filter(|turn| turn.what != "saved" && turn.what != "restored").collect();
        assert_eq!(phases(&turns, 1)[0].phases_us, [200.0, 0.0, 30.0, 0.0, 140.0]);
    }
}
