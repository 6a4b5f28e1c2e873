//! DSE: accesses of 16 bytes (table 1), the parts of a remote read (table 2, figure 5), between two nodes,
//! and where a kernel's time goes in the relaxation (figure 6).

use std::{collections::BTreeMap, time::Duration};

use super::Paper;
use crate::{
    figures::{Line, median},
    mpis::{self, Kind},
    table::number,
};

const LIMIT: Duration = Duration::from_secs(60);
/// In us: local and remote.
const OF_PAPER: [(&str, [f64; 2]); 2] = [("read", [1011.0, 2684.0]), ("write", [790.0, 1335.0])];

/// Table 1.
pub fn access(paper: &Paper<'_>) -> Result<(), String> {
    mpis::compile_with(paper.places, Kind::Tutti, "bench/c/dse.c", &["-ltutti"])?;
    let mut found: BTreeMap<(&str, String), Vec<f64>> = BTreeMap::new();
    for _ in 0..paper.rounds {
        for kernel in ["one", "apart"] {
            // Kernels of their own know no namespaces: both ways run on virtual nodes.
            let mut command = paper.ours("mpiexec");
            command.args(["--virtual-nodes", "2", "-n", "2"]).env("TUTTI_DSE_KERNEL", kernel);
            command.arg(paper.places.programs(Kind::Tutti).join("dse")).arg("1000");
            for line in paper.output(&mut command, LIMIT)?.lines() {
                let pair = line.strip_prefix("what=").and_then(|rest| rest.split_once(" mean_us="));
                if let Some((what, Ok(us))) = pair.map(|(what, us)| (what, us.parse())) {
                    found.entry((kernel, what.to_owned())).or_default().push(us);
                }
            }
        }
    }
    println!("### One access of 16 bytes, us (two virtual nodes; mean of 1,000 in a row)\n");
    println!("| | paper, local | paper, remote | apart, local | apart, remote | one, local | one, remote |");
    println!("|---|---|---|---|---|---|---|");
    for (what, [local, remote]) in OF_PAPER {
        let of = |kernel, place: &str| {
            let figures = found.get(&(kernel, format!("{place}-{what}")));
            figures.and_then(|figures| median(figures)).map_or_else(|| "-".into(), number)
        };
        let (apart, one) = (["local", "remote"].map(|place| of("apart", place)), ["local", "remote"]);
        let one = one.map(|place| of("one", place));
        println!("| {what} | {local} | {remote} | {} | {} |", apart.join(" | "), one.join(" | "));
    }
    println!(
        "\napart: kernel and process of an element are two processes, as in the paper; one: they are one."
    );
    if let Some(us) = paper.bare_network().round_trip_us {
        println!("Limit of a remote read: a round trip of bare UDP, {} us.", number(us));
    }
    Ok(())
}

/// Table 2 and figure 5: `tutti trace-op` with kernel and process apart.
pub fn parts(paper: &Paper<'_>) -> Result<(), String> {
    println!("### The paper: a remote read of 16 bytes, us\n");
    println!("| | time | send() | recv() |\n|---|---|---|---|");
    for row in ["T | 2684 | 1507 | 638", "Ta | 649 | 368 | 202", "Tb | 628 | 351 | 210"] {
        println!("| {row} |");
    }
    println!("| Tc | 1009 | 788 | 226 |\n| Td | 1010 | Td - Tb = 382 | |\n");
    println!(
        "Shares: system calls about 70 %, with the rest of the kernels about 95 %, own code about 5 %.\n"
    );
    let file = paper.places.target.join("paper").join(paper.name.replace('/', "-")).with_extension("svg");
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut command = paper.ours("tutti");
    command.args(["trace-op", "read", "--kernel", "apart", "--place", "virtual-nodes", "-o"]).arg(&file);
    let text = paper.output(&mut command, LIMIT)?;
    println!("### Here\n\n```\n{}\n```\n\npicture: {}", text.trim_end(), file.display());
    if let Some(us) = paper.bare_network().round_trip_us {
        println!("Limit of T: a round trip of bare UDP, {} us.", number(us));
    }
    Ok(())
}

/// Parts of a kernel's time by the marks of `tutti.h`, and which of the paper's procedures they are.
const PROCEDURES: [(&str, &str, &[&str]); 4] = [
    ("select(), read()", "waits for its process", &["7"]),
    ("send()", "to its process and to the network", &["2", "8"]),
    ("recv()", "from the network", &["3"]),
    ("memory", "copies to and from global memory", &["4", "5"]),
];

/// Figure 6: the relaxation on 16 elements, each on a virtual node, with kernel and process apart.
pub fn profile(paper: &Paper<'_>) -> Result<(), String> {
    let (elements, steps) = if paper.quick { ("4", "20") } else { ("16", "100") };
    let stamped = paper.places.root.join("bench/c/stamped.h");
    let options = ["-D_POSIX_C_SOURCE=200809L", "-include", &stamped.to_string_lossy(), "-ltutti"];
    mpis::compile_with(paper.places, Kind::Tutti, "examples/sor.c", &options)?;
    let mut all = Vec::new();
    for _ in 0..paper.rounds {
        let mut command = paper.ours("mpiexec");
        command.args(["--virtual-nodes", elements, "-n", elements]).env("TUTTI_DSE_KERNEL", "apart");
        command.arg(paper.places.programs(Kind::Tutti).join("sor")).args(["48", steps]);
        all.extend(paper.lines(&mut command, LIMIT)?);
    }
    println!("### The kernel of an element in SOR 48 x 48, {steps} steps, {elements} elements\n");
    println!(
        "The paper, 16 elements: most time in select(), send(), recv(), read(); it prints no figures.\n"
    );
    println!("| procedure | what | share of the time | calls of an element |\n|---|---|---|---|");
    let mut rest = 100.0;
    for (name, what, marks) in PROCEDURES {
        let (share, calls) = share_of(&all, marks);
        rest -= share;
        println!("| {name} | {what} | {share:.1} % | {calls:.0} |");
    }
    println!("| the rest | waits for other elements in barriers, own code | {rest:.1} % | |");
    println!(
        "\nTimes are means of all elements, by stamps in memory. A kernel without a core counts as waiting."
    );
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("Limit: {cores} cores for {elements} kernels and as many processes.");
    Ok(())
}

/// Share of these marks in the time of the elements, in per cent, and their calls in a mean element.
fn share_of(lines: &[Line], marks: &[&str]) -> (f64, f64) {
    let sum = |mark: &str, key: &str| -> (f64, usize) {
        let figures = lines.iter().filter(|line| line.matches(&format!("mark={mark}")));
        let figures: Vec<f64> = figures.filter_map(|line| line.figure(key)).collect();
        (figures.iter().sum(), figures.len())
    };
    let (whole, elements) = sum("0", "total_us");
    let of = |key| marks.iter().map(|mark| sum(mark, key).0).sum::<f64>();
    (100.0 * of("total_us") / whole.max(f64::MIN_POSITIVE), of("n") / elements.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paper_shares_of_a_kernel_are_means_of_its_elements() {
        let text = "sor element=0 mark=0 n=1 total_us=100\nsor element=0 mark=2 n=3 total_us=20\n\
            sor element=1 mark=0 n=1 total_us=300\nsor element=1 mark=2 n=5 total_us=30\n\
            sor element=1 mark=8 n=2 total_us=50\n";
        let lines: Vec<Line> = text.lines().filter_map(Line::parse).collect();
        assert_eq!(share_of(&lines, &["2", "8"]), (25.0, 5.0));
        assert_eq!(share_of(&lines, &["4"]), (0.0, 0.0));
    }
}
