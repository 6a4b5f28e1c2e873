//! Shared memory of SSS-CORE: what the compiler's gathering and the run time's combining bring (tables 7 and
//! 8), and the speed-up over nodes (figures 5 and 6). Nodes are virtual: counts are those of machines, times
//! are those of the cores that they share.

use std::{path::PathBuf, process::Command, time::Duration};

use serde_json::Value;

use super::Paper;
use crate::{
    child::{self, End},
    figures::median,
    mpis::Kind,
    table::number,
};

/// One that sends millions of notes one by one.
const LIMIT: Duration = Duration::from_secs(900);
const RANKS: usize = 8;
/// Counts that are shown, of the part between CREATE and WAIT_FOR_END.
const COUNTS: [&str; 4] = ["notes", "records", "datagrams", "bytes"];

/// A mode of the tables, and its figures in the paper: seconds, #CM, packets, MB.
struct Mode {
    name: &'static str,
    gathers: bool,
    combines: bool,
    of_paper: [&'static str; 4],
}

const fn mode(name: &'static str, gathers: bool, combines: bool, of_paper: [&'static str; 4]) -> Mode {
    Mode { name, gathers, combines, of_paper }
}

const OF_LU: [Mode; 4] = [
    mode("NO", false, false, ["28.20", "5592K", "5206K", "47.73"]),
    mode("MB", false, true, ["14.35", "5592K", "83.5K", "113.00"]),
    mode("IA", true, false, ["2.17", "1.43K", "7.73K", "9.42"]),
    mode("MB & IA", true, true, ["2.16", "1.43K", "7.60K", "9.27"]),
];

const OF_RADIX: [Mode; 4] = [
    mode("NO", false, false, ["21.90", "793K", "3220K", "76.72"]),
    mode("MB", false, true, ["12.13", "793K", "75.8K", "101.08"]),
    mode("IA", true, false, ["1.57", "2.08K", "19.5K", "13.47"]),
    mode("MB & IA", true, true, ["1.24", "2.08K", "10.1K", "13.63"]),
];

/// Facts of a run.
struct Found {
    seconds: f64,
    /// Means of the ranks.
    counts: [f64; COUNTS.len()],
}

/// Table 7.
pub fn lu(paper: &Paper<'_>) -> Result<(), String> {
    let size = if paper.quick { "-n256" } else { "-n512" };
    modes(paper, "lu", &[size, "-b16"], &OF_LU)
}

/// Table 8.
pub fn radix(paper: &Paper<'_>) -> Result<(), String> {
    let size = if paper.quick { "-n131072" } else { "-n1048576" };
    modes(paper, "radix", &[size, "-r1024"], &OF_RADIX)
}

/// Figure 5.
pub fn lu_speed_up(paper: &Paper<'_>) -> Result<(), String> {
    speed_up(paper, "lu", &[if paper.quick { "-n512" } else { "-n1024" }, "-b16"])
}

/// Figure 6.
pub fn radix_speed_up(paper: &Paper<'_>) -> Result<(), String> {
    speed_up(paper, "radix", &[if paper.quick { "-n131072" } else { "-n1048576" }, "-r1024"])
}

fn modes(paper: &Paper<'_>, program: &str, arguments: &[&str], modes: &[Mode]) -> Result<(), String> {
    println!("### {program} {} on {RANKS} virtual nodes: a rank's mean\n", arguments.join(" "));
    println!("| | paper: s | #CM | packets | MB | here: s | #CM | records | datagrams | MB |");
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for Mode { name, gathers, combines, of_paper } in modes {
        let compiled = compile(paper, program, *gathers)?;
        let runs = (0..paper.rounds).map(|_| run(paper, &compiled, program, arguments, RANKS, *combines));
        let runs = runs.collect::<Result<Vec<_>, _>>()?;
        let middle =
            |of: &dyn Fn(&Found) -> f64| median(&runs.iter().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN);
        let [notes, records, datagrams, bytes] =
            std::array::from_fn(|place| middle(&|found: &Found| found.counts[place]));
        println!(
            "| {name} | {} | {} | {notes:.0} | {records:.0} | {datagrams:.0} | {} |",
            of_paper.join(" | "),
            number(middle(&|found: &Found| found.seconds)),
            number(bytes / 1e6),
        );
    }
    println!("\n#CM: notes of stores. The paper's packets are those of one store or combined: our records.");
    println!("Datagrams hold several of them, here also in NO and IA. Acknowledgements count as datagrams.");
    println!("Times are those of {} cores for {RANKS} nodes.", cores());
    Ok(())
}

fn speed_up(paper: &Paper<'_>, program: &str, arguments: &[&str]) -> Result<(), String> {
    println!("### {program} {}: speed-up over virtual nodes, medians\n", arguments.join(" "));
    println!("The paper plots it, and prints no values.\n");
    println!("| nodes | seconds | speed-up |\n|---|---|---|");
    let compiled = compile(paper, program, true)?;
    let mut alone = f64::NAN;
    for ranks in [1, 2, 4, 8] {
        let runs = (0..paper.rounds).map(|_| run(paper, &compiled, program, arguments, ranks, true));
        let seconds: Vec<f64> = runs.map(|found| Ok(found?.seconds)).collect::<Result<_, String>>()?;
        let seconds = median(&seconds).unwrap_or(f64::NAN);
        if ranks == 1 {
            alone = seconds;
        }
        println!("| {ranks} | {} | {:.2} |", number(seconds), alone / seconds);
    }
    println!("\nOne node runs no protocol. Limit: this machine's {} cores.", cores());
    Ok(())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn compile(paper: &Paper<'_>, program: &str, gathers: bool) -> Result<PathBuf, String> {
    let switch = if gathers { "all" } else { "none" };
    let folder = paper.places.programs(Kind::Tutti);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let compiled = folder.join(format!("{program}-{switch}"));
    let mut command = paper.ours("tutticc");
    command.args(["-std=c11", "-O2", "--dsm=adsm"]).arg(format!("--rcop={switch}"));
    command.arg(paper.places.root.join("examples/shared").join(format!("{program}.c.in")));
    paper.output(command.arg("-o").arg(&compiled), Duration::from_secs(120))?;
    Ok(compiled)
}

fn run(
    paper: &Paper<'_>,
    compiled: &PathBuf,
    program: &str,
    arguments: &[&str],
    ranks: usize,
    combines: bool,
) -> Result<Found, String> {
    let mut command: Command = paper.ours("mpiexec");
    command.args(["-n", &ranks.to_string(), "--virtual-nodes", &ranks.to_string()]).arg(compiled);
    command.args(arguments).arg(format!("-p{ranks}")).env("TUTTI_STATS", "json");
    if !combines {
        command.env("TUTTI_DSM_COMBINE", "off");
    }
    let ran = child::run(&mut command, LIMIT);
    match ran.end {
        End::Well => {}
        End::Timeout => return Err(format!("{}: over {} s", paper.name, LIMIT.as_secs())),
        End::Failed(why) => return Err(format!("{}: {why}", paper.name)),
    }
    found_in(&ran.stderr, program).ok_or_else(|| format!("{}: {program} printed no time", paper.name))
}

/// Seconds that a program has printed, and the counts of its ranks, if there are some.
fn found_in(text: &str, program: &str) -> Option<Found> {
    let time = |line: &str| {
        let number = line.strip_prefix(program)?.strip_prefix(": ")?.strip_suffix(" us")?;
        number.parse::<f64>().ok()
    };
    let seconds = text.lines().find_map(time)? / 1e6;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ranks: Vec<Value> = lines.filter(|line| line["shared_memory_of"].is_u64()).collect();
    let counts = COUNTS.map(|name| {
        let sum: u64 = ranks.iter().filter_map(|rank| rank["parallel"][name].as_u64()).sum();
        sum as f64 / ranks.len().max(1) as f64
    });
    Some(Found { seconds, counts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paper_counts_are_the_mean_of_what_ranks_print() {
        let text = "lu: 1500000 us\n\
            {\"shared_memory_of\":0,\"notes\":9,\"parallel\":{\"notes\":4,\"bytes\":10}}\n\
            {\"rank\":0,\"notes\":7}\nlu: text\n\
            {\"shared_memory_of\":1,\"notes\":9,\"parallel\":{\"notes\":6,\"bytes\":0}}\n";
        let found = found_in(text, "lu").expect("a time");
        assert_eq!((found.seconds, found.counts), (1.5, [5.0, 0.0, 0.0, 5.0]));
        assert!(found_in("radix: 1 us\n", "lu").is_none());
    }
}
