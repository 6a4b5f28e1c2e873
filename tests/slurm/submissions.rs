//! Many submissions at once.

use std::path::Path;
use std::time::Instant;

use crate::Slurm;
use crate::harness::await_that;

/// Bytes of the records of jobs that wait.
fn queue_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum()
}

/// Each task of an array is in the queue's files before the answer; after the daemon's death there are all.
#[test]
fn array_of_a_thousand_outlives_the_daemon_as_a_whole_or_not_at_all() {
    let slurm = Slurm::up("slurm-thousand", 1, &["--slots", "1"]);
    let began = Instant::now();
    slurm.submit("--hold --array=0-999 -o none --wrap=true");
    println!("an array of 1000 is submitted in {:.2?}", began.elapsed());
    let waiting = || slurm.run("squeue -h -r -t PD -o '%i'").stdout.lines().count();
    assert_eq!(waiting(), 1000);
    // The second one is on its way when the daemon dies.
    let mut second = slurm.command("exec sbatch --hold --array=0-999 -o none --wrap=true");
    let mut second = second.stdout(std::process::Stdio::null()).spawn().expect("sbatch");
    let folder = slurm.cluster.state_folder_of(0).join("node0.queue");
    let first_bytes = queue_bytes(&folder);
    await_that("it is being written", || queue_bytes(&folder) > first_bytes);
    slurm.cluster.replace(0);
    await_that("the new daemon answers", || slurm.run("squeue -h").code() == 0);
    assert!(second.wait().expect("our child").success(), "it is asked for again");
    await_that("both are there", || waiting() == 2000);
}
