//! Many submissions, at once and one after the other.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::Slurm;
use crate::harness::await_that;

/// Submissions a minute of the soak.
const PER_MINUTE: u32 = 1000;
/// Memory that the daemon may have beside what it had at its start, in KiB: jobs that are over are kept for 5
/// minutes in 10 MiB of it, as the daemon counts, some 5 KiB each.
const GROWTH_KIB_MAX: u64 = 24 << 10;

fn daemon_kib(slurm: &Slurm) -> u64 {
    let pid = slurm.cluster.daemon(0).as_raw_nonzero();
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("its memory");
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
}

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
    // Each of them costs the daemon the same, however many there are.
    let began = Instant::now();
    slurm.ok("scancel --me");
    println!("they are cancelled in {:.2?}", began.elapsed());
    assert_eq!(waiting(), 0);
    let states = slurm.ok("squeue -h -r -t all -o %T");
    assert!(states.lines().all(|state| state == "CANCELLED"), "{states}");
}

/// Submissions of several at once, which share what is written, while the daemon is killed again and again:
/// whatever number somebody has been given is a job afterwards, and each submission is one job.
#[test]
fn submissions_beside_each_other_are_each_one_job_though_the_daemon_dies() {
    let slurm = Slurm::up("slurm-beside", 1, &["--slots", "1"]);
    let (clients, each) = (4, 8);
    let answered = AtomicUsize::new(0);
    let numbers: BTreeSet<u64> = std::thread::scope(|scope| {
        let submit = || {
            let submit = |_| {
                let mut number = None;
                // Between two daemons there is none to ask.
                await_that("a daemon takes it", || {
                    let ran = slurm.run("sbatch --parsable --hold -o none --wrap=true");
                    number = (ran.code() == 0).then(|| ran.stdout.trim_end().parse().expect("a number"));
                    number.is_some()
                });
                answered.fetch_add(1, Ordering::Relaxed);
                number.expect("it was taken")
            };
            (0..each).map(submit).collect::<Vec<u64>>()
        };
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(submit)).collect();
        for deaths in 1..=3 {
            let due = deaths * clients.len() * each / 5;
            await_that("some have their numbers", || answered.load(Ordering::Relaxed) >= due);
            slurm.cluster.replace(0);
        }
        clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect()
    });
    assert_eq!(numbers.len(), clients * each, "{numbers:?}");
    await_that("the new daemon answers", || slurm.run("squeue -h").code() == 0);
    let listed = slurm.ok("squeue -h -t PD -o %i");
    let listed: BTreeSet<u64> = listed.lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(listed, numbers);
}

/// TUTTI_TEST_MINUTES (10) minutes of submissions by `sbatch`, as fast as 1,000 a minute or as the machine
/// can.
#[test]
#[ignore = "minutes: make soak-submissions"]
fn submissions_by_the_thousand_leave_the_daemon_its_memory_soak() {
    let minutes = std::env::var("TUTTI_TEST_MINUTES").ok().and_then(|text| text.parse().ok());
    let count = minutes.unwrap_or(10) * PER_MINUTE;
    let slurm = Slurm::up("slurm-submissions", 1, &["--slots", "4"]);
    let before_kib = daemon_kib(&slurm);
    let (began, mut longest, mut most_kib) = (Instant::now(), Duration::ZERO, before_kib);
    for number in 1..=count {
        let due = Duration::from_secs(60) * number / PER_MINUTE;
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        slurm.submit("-o /dev/null --wrap=true");
        if number % 100 == 0 {
            let asked = Instant::now();
            let listed = slurm.ok("squeue -h -t all").lines().count();
            longest = longest.max(asked.elapsed());
            most_kib = most_kib.max(daemon_kib(&slurm));
            let took = asked.elapsed();
            println!("{number} after {:.1?}: {listed} listed in {took:.0?}, {most_kib} KiB", began.elapsed());
        }
    }
    let rate = f64::from(count) / began.elapsed().as_secs_f64() * 60.0;
    let open = slurm.ok("squeue -h").lines().count();
    println!("{count} submissions, {rate:.0} a minute, {open} not over at the end");
    println!("squeue took {longest:.0?} at most; the daemon had {before_kib} KiB, and {most_kib} at most");
    await_that("all are over", || slurm.ok("squeue -h").is_empty());
    assert!(most_kib < before_kib + GROWTH_KIB_MAX, "{most_kib} KiB");
}
