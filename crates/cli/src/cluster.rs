//! The cluster as a user's program sees it: requests to the daemon of this node, and a job as it is
//! submitted.

use std::ffi::OsString;

use rustix::fs::Mode;
use tutti_protocol::variables;
use tutti_protocol::wire::{Job, Text};

use crate::nodes::Wanted;

pub use tutti_client::requests::*;

/// A job with all of this process that its ranks are to have; its output goes to this front end.
///
/// # Errors
/// When the working directory is gone; a text for the user.
pub fn submission(
    job: &Job,
    nodes: &Wanted,
    per_node: Option<u32>,
    terms: Terms,
    batch: &Batch,
) -> Result<Submit, String> {
    let directory =
        std::env::current_dir().map_err(|error| format!("cannot name the working directory: {error}"))?;
    let umask = rustix::process::umask(Mode::empty());
    rustix::process::umask(umask);
    let text = |text: OsString| -> Text { text.into() };
    let origin = origin_of(job);
    Ok(Submit {
        job: job.clone(),
        nodes: nodes.nodes,
        hosts: nodes.hosts.clone(),
        per_node,
        terms,
        batch: batch.clone(),
        output: None,
        environment: std::env::vars_os()
            .map(|(name, value)| (text(name), text(value)))
            .filter(|(name, _)| origin.is_none() || name.as_bytes() != variables::ORIGIN.as_bytes())
            .chain(origin.clone())
            .collect(),
        directory: text(directory.into_os_string()),
        umask: umask.as_raw_mode(),
        // These the daemon knows from the kernel.
        groups: Vec::new(),
        session: None,
        key: 0,
        script: Script::default(),
    })
}

/// Where the files of its origin are served, for the starters: as its first program is told.
fn origin_of(job: &Job) -> Option<(Text, Text)> {
    let variables = job.programs.first()?.variables.iter();
    variables.rev().find(|(name, _)| name.as_bytes() == variables::ORIGIN.as_bytes()).cloned()
}
