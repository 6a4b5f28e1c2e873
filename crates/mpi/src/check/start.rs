//! Whether the program is checked: all ranks of a job or none, because checking changes what travels between
//! them.
//!
//! Every rank says its mode in its report, a rank that checks waits until all have; so all come to the same
//! conclusion.

use std::time::{Duration, Instant};

use super::ranks_text;
use super::state::Check;
use crate::check_mode::{self, Mode};
use tutti_runtime::job::Job;
use tutti_runtime::log;
use tutti_shm::sync::Ordering;

/// The variable of the environment.
const VARIABLE: &str = "TUTTI_CHECK";
/// After so long a wait for the others a line says who is missing.
const PATIENCE: Duration = Duration::from_secs(10);

/// Finds out how this process checks. Called once, when it has entered its job and before anything else is
/// made.
pub fn start(job: &Job) -> Option<Box<Check>> {
    let mode = wanted(job);
    job.report(job.rank()).check.store(mode as u32 + 1, Ordering::Release);
    if mode == Mode::Off || !all_agree(job, mode) {
        return None;
    }
    check_mode::set(mode);
    Some(Box::new(Check::new()))
}

fn wanted(job: &Job) -> Mode {
    let Some(text) = std::env::var_os(VARIABLE) else { return Mode::Off };
    match text.to_str() {
        Some("" | "0" | "off" | "no") => Mode::Off,
        Some("1" | "on" | "yes") => Mode::On,
        Some("warn") => Mode::Warn,
        _ => {
            if job.rank() == job.local_ranks().first() {
                let text = text.to_string_lossy();
                log::line(format_args!(
                    "{VARIABLE} is \"{text}\", expected 1, warn or 0; nothing is checked"
                ));
            }
            Mode::Off
        }
    }
}

/// Waits until all ranks of the node have said how they check. When they differ, the first that checks says
/// so.
fn all_agree(job: &Job, mine: Mode) -> bool {
    let said = |rank: usize| job.report(rank).check.load(Ordering::Acquire);
    let began = Instant::now();
    let mut is_said = false;
    for rank in began_with(job) {
        while said(rank) == 0 {
            if began.elapsed() > PATIENCE && !is_said && job.rank() == job.local_ranks().first() {
                is_said = true;
                let missing: Vec<usize> = began_with(job).filter(|&rank| said(rank) == 0).collect();
                log::line(format_args!(
                    "check: rank {} waits in MPI_Init for {}",
                    job.rank(),
                    ranks_text(&missing)
                ));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let others: Vec<usize> = began_with(job).filter(|&rank| said(rank) != mine as u32 + 1).collect();
    if others.is_empty() {
        return true;
    }
    let first = began_with(job).find(|&rank| said(rank) > Mode::Off as u32 + 1);
    if first == Some(job.rank()) {
        log::line(format_args!(
            "check: {VARIABLE} is not the same on all ranks (different from rank {} on {}); nothing is checked",
            job.rank(),
            ranks_text(&others)
        ));
    }
    false
}

/// Ranks whose mode is the job's: all that it began with on this node, and the world of this rank.
fn began_with(job: &Job) -> impl Iterator<Item = usize> {
    let (here, world) = (*job.local_ranks(), job.world());
    (0..world.len()).map(move |place| world[place] as usize).filter(move |rank| here.contains(*rank))
}
