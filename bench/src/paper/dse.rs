//! DSE: accesses of 16 bytes (table 1), and the parts of a remote read (table 2, figure 5), between two
//! nodes.

use std::{collections::BTreeMap, time::Duration};

use super::Paper;
use crate::{
    figures::median,
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
    if let Some((us, _)) = paper.bare_network()? {
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
    if let Some((us, _)) = paper.bare_network()? {
        println!("Limit of T: a round trip of bare UDP, {} us.", number(us));
    }
    Ok(())
}
