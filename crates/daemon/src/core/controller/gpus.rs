//! GPUs of nodes: which ones a job has. How many a node has left the scheduler counts, as it counts memory
//! (`tutti_sched`); when it has placed a job, the lowest that no job has there are the job's, until it is
//! over, also while it is frozen or suspended. The launch has their numbers, so a new controller learns them
//! from the nodes, and a step has those of its job.

use tutti_protocol::gpus::{Gpus, VISIBLE};

use super::jobs::Jobs;
use crate::core::local::LocalNode;
use crate::members::{Members, NodeId};
use crate::message::{JobId, Launch};

/// GPUs of a node that jobs have which are not over.
pub(super) fn taken(jobs: &Jobs, node: NodeId) -> Gpus {
    let open = jobs.records.values().filter(|job| !job.is_over());
    open.fold(Gpus::NONE, |taken, job| taken.with(job.launch.gpus_on(node)))
}

/// GPUs of the job of a step.
pub(super) fn of_owner(jobs: &Jobs, owner: Option<JobId>) -> Vec<(NodeId, Gpus)> {
    owner.and_then(|owner| jobs.get(owner)).map(|job| job.launch.gpus().to_vec()).unwrap_or_default()
}

/// GPUs for a job that has just got these nodes.
///
/// # Errors
/// When a node has fewer than the scheduler has counted, as after a start of its daemon with other ones: a
/// text for the user.
pub(super) fn choose(
    jobs: &Jobs,
    members: &Members,
    launch: &Launch,
    nodes: &[NodeId],
) -> Result<Vec<(NodeId, Gpus)>, String> {
    let wanted = launch.terms.gpus;
    if launch.steps.owner.is_some() {
        return Ok(launch.gpus().to_vec());
    }
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let of_node = |node: &NodeId| {
        let all = members.nodes.get(node).map_or(Gpus::NONE, |member| member.about.gpus());
        let chosen = all.without(taken(jobs, *node)).lowest(wanted);
        let name = || members.name(*node);
        chosen.map(|gpus| (*node, gpus)).ok_or_else(|| {
            format!("node {} has no longer the {wanted} GPUs that are to be the job's", name())
        })
    };
    nodes.iter().map(of_node).collect()
}

/// Programs of a job find its GPUs of this node alone. A node without counted ones changes nothing.
pub(in crate::core) fn set_variable(local: &LocalNode, launch: &Launch, job: &mut tutti_protocol::wire::Job) {
    let Some(me) = local.me.filter(|_| !local.config.about.gpus().is_empty()) else { return };
    let pair = (VISIBLE.into(), launch.gpus_on(me).to_string().as_str().into());
    job.programs.iter_mut().for_each(|program| program.variables.push(pair.clone()));
}
