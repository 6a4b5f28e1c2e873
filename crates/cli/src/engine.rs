//! Engines: systems around this process that have nodes for it, and start daemons there. Called where a job
//! needs a cluster and no daemon answers.

use std::time::{Duration, Instant};

use tutti_protocol::variables;

use crate::cluster::{self, Answer, Request};

pub mod slurm;

/// Daemons have this time to find each other.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Between two looks.
const POLL: Duration = Duration::from_millis(20);

/// A connection to a daemon was made; where there is none, the engine around this process is asked first to
/// start the daemons of its nodes.
///
/// # Errors
/// When there is none and none can be started; a text for the user.
pub fn connect_or_start() -> Result<(), String> {
    match cluster::connect() {
        // Another `mpiexec` may have begun to start them.
        Ok(_) => slurm::of_this_process().map_or(Ok(()), |job| job.await_if_ours()),
        Err(text) => match slurm::of_this_process().filter(|_| is_wanted()) {
            Some(job) => job.start(),
            None => Err(text),
        },
    }
}

/// The same where a job needs a cluster that is not an engine's: without an engine nothing is done.
///
/// # Errors
/// When the engine's daemons do not start; a text for the user.
pub fn start_if_missing() -> Result<(), String> {
    if slurm::of_this_process().is_some() && is_wanted() { connect_or_start() } else { Ok(()) }
}

/// The user has not forbidden it, and means no other daemon.
pub fn is_wanted() -> bool {
    let is_off = std::env::var_os(variables::ENGINE).is_some_and(|value| value == variables::NO_ENGINE);
    !is_off && !tutti_protocol::paths::is_named()
}

/// Names of the nodes whose daemons are there; none: no daemon answers.
fn alive() -> Vec<String> {
    match cluster::request_with(&Request::Nodes, &mut |_| {}) {
        Ok((Answer::Nodes(rows), _)) => {
            rows.into_iter().filter(|row| row.alive).map(|row| row.name).collect()
        }
        _ => Vec::new(),
    }
}

/// Waits until the daemons of all these nodes are there; `has_failed` says why they will not be.
fn await_nodes(nodes: &[String], mut has_failed: impl FnMut() -> Option<String>) -> Result<(), String> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let there = if cluster::is_there() { alive() } else { Vec::new() };
        let missing: Vec<&str> =
            nodes.iter().filter(|node| !there.contains(node)).map(String::as_str).collect();
        if missing.is_empty() {
            return Ok(());
        }
        if let Some(text) = has_failed() {
            return Err(text);
        }
        if Instant::now() >= deadline {
            let seconds = TIMEOUT.as_secs();
            return Err(format!("the daemons of {} did not join in {seconds} s", missing.join(", ")));
        }
        std::thread::sleep(POLL);
    }
}
