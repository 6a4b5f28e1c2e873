//! Slots that a job has for the steps of its script ([`super::steps`]).

use tutti_protocol::variables;
use tutti_protocol::wire::{Binding, Job};

use crate::members::{Members, NodeId};
use crate::message::{Allocation, Launch};

/// Slots that a job has for the steps of its script, whose only rank is the script; none: its program runs on
/// each rank.
///
/// # Errors
/// When it has several programs: a text for the user.
pub(super) fn allocate(job: &mut Job, is_script: bool) -> Result<Option<Allocation>, String> {
    let [program] = &mut job.programs[..] else {
        return if is_script { Err("a script is the only program of its job".into()) } else { Ok(None) };
    };
    if !is_script {
        return Ok(None);
    }
    let ranks = std::mem::replace(&mut program.ranks, 1);
    // What it starts has all cores of the job.
    (job.binding, job.cores_per_rank, job.no_oversubscribe) = (Binding::None, None, false);
    Ok(Some(Allocation { ranks, parts: Vec::new() }))
}

/// The script finds in its environment what it may use; nothing follows from it but what `mpiexec` asks for.
pub(super) fn set_variable(launch: &mut Launch, members: &Members) {
    let Some(allocation) = &launch.steps.allocation else { return };
    let part = |(node, ranks): &(NodeId, u32)| format!("{}:{ranks}", members.name(*node));
    let text: Vec<String> = allocation.parts.iter().map(part).collect();
    let pair = (variables::ALLOCATION.into(), text.join(",").as_str().into());
    launch.job.programs.iter_mut().for_each(|program| program.variables.push(pair.clone()));
}
