//! Gang switches and phases: the experiments of `make bench-gang`, one at a time, beside the papers' figures.

use super::Paper;
use crate::{
    figures::median,
    gang::{
        self,
        phases::{cg_alone, compile_cg},
    },
};

/// Table 3 of SCore-D: a channel's context.
pub fn channel(paper: &Paper<'_>) -> Result<(), String> {
    println!("### The paper: saving and restoring the context of a channel, ms\n");
    println!("| send FIFO | receive FIFO | save | restore |\n|---|---|---|---|");
    for row in ["empty | empty | 0.94 | 0.37", "full | empty | 2.40 | 1.84", "empty | full | 4.66 | 2.96"] {
        println!("| {row} |");
    }
    println!("| full | full | 6.12 | 4.43 |\n");
    println!(
        "Here a full receive FIFO is memory of the job and is not copied. A switch copies with --strict alone."
    );
    experiment(paper, "channel")
}

/// Figure 4: EP with a switch in every slice of 100 ms.
pub fn ep(paper: &Paper<'_>) -> Result<(), String> {
    println!("The paper, EP, slices of 100 ms: about 2 % slower on 2 nodes, about 4 % on 32.");
    gang_switches(paper, &[2, 4, 8, 16, 32], &[100])
}

/// Figure 5: BAR.
pub fn bar(paper: &Paper<'_>) -> Result<(), String> {
    println!("The paper, BAR on 32 nodes: about 10 % slower with slices of 100 ms, about 2 % with 500 ms.");
    gang_switches(paper, &[2, 4, 8, 16, 32], &[100, 200, 500])
}

/// Figure 7: the parts of a switch.
pub fn parts(paper: &Paper<'_>) -> Result<(), String> {
    println!("The paper, 32 nodes, slices of 200 ms: freeze below 1 ms; save and restore most of the rest.");
    gang_switches(paper, &[32], &[200])
}

/// Figure 8: those of EP in detail.
pub fn parts_of_ep(paper: &Paper<'_>) -> Result<(), String> {
    println!("The paper, EP, 32 nodes, 100 ms: about 3 ms for freeze, save and restore, about 1 ms hidden.");
    gang_switches(paper, &[32], &[100])
}

/// Figures 6 and 7 of the SR8000 paper.
pub fn phases(paper: &Paper<'_>) -> Result<(), String> {
    println!("### The paper: CG, time beside n times that of one job\n");
    println!("| policy | 2 jobs | 4 jobs |\n|---|---|---|");
    println!("| time slicing | +0.9 to +2.8 % | +3.0 to +7.0 % |");
    println!("| shared slots without hints | +13.8 to +22.3 % | the same |");
    println!("| shared slots with hints | -6.3 to +12.3 % | -56.7 to +21.7 % |\n");
    println!("One job alone takes about 1.7 times as long with hints.");
    experiment(paper, "phases")
}

/// Figure 8: the speed-up of the solver over processors, beside the paper's formula.
pub fn speed_up(paper: &Paper<'_>) -> Result<(), String> {
    let program = compile_cg(paper.places)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let solutions = if paper.quick { 40 } else { 200 };
    let mut found: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); cores];
    for _ in 0..paper.rounds {
        for (at, (parallel, total)) in found.iter_mut().enumerate() {
            let alone = cg_alone(&program, at + 1, solutions)?;
            parallel.push(alone.parallel_ms);
            total.push(alone.total_ms);
        }
    }
    println!(
        "The paper, CG class A: the acceleration A of the parallel part stays a little over 5; the speed-up S1"
    );
    println!("falls behind that of the formula from 6 processors on.\n");
    println!("### Conjugate gradients by OpenMP, medians\n");
    println!("| threads | time, ms | S1: measured | A: parallel part | S0: formula with A = threads |");
    println!("|---|---|---|---|---|");
    let middle = |figures: &[f64]| median(figures).unwrap_or(f64::NAN);
    let (parallel, total) = (middle(&found[0].0), middle(&found[0].1));
    let rate = parallel / total;
    for (at, (parallels, totals)) in found.iter().enumerate() {
        let threads = (at + 1) as f64;
        let (faster, whole) = (parallel / middle(parallels), total / middle(totals));
        let formula = gang::phases::speed_up(rate, threads);
        println!("| {threads} | {:.1} | {whole:.2} | {faster:.2} | {formula:.2} |", middle(totals));
    }
    println!("\nParallel on one thread: {:.1} % of the time. This machine has {cores} cores.", rate * 100.0);
    Ok(())
}

fn experiment(paper: &Paper<'_>, name: &str) -> Result<(), String> {
    needs_root(paper)?;
    gang::run(paper.places, &[], &[(name, "")], paper.quick, Some(paper.rounds), (paper.ns_per_loop)()?)
}

/// A quick run has the least and the most nodes only up to 8.
fn gang_switches(paper: &Paper<'_>, nodes: &[u32], slices_ms: &[u32]) -> Result<(), String> {
    needs_root(paper)?;
    let most = if paper.quick { 8 } else { 32 };
    let mut nodes: Vec<u32> = nodes.iter().map(|count| (*count).min(most)).collect();
    nodes.dedup();
    if paper.quick {
        nodes.retain(|count| *count == 2 || *count == 8);
    }
    gang::run_switches(paper.places, &nodes, slices_ms, paper.rounds)
}

fn needs_root(paper: &Paper<'_>) -> Result<(), String> {
    if paper.has_namespaces() {
        return Ok(());
    }
    Err(format!("{}: gangs are frozen by cgroups, which needs root", paper.name))
}
