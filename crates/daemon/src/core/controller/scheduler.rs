//! Commands that tell the scheduler of jobs that have their nodes.

use tutti_sched::shares::Owner;
use tutti_sched::{Demand, Holder, Place};

use super::job::JobRecord;
use crate::core::action::Action;
use crate::core::outbox::Outbox;
use crate::gang::Command;

/// The scheduler is notified of a job that its front end has started.
pub(super) fn submit_running(out: &Outbox, job: &JobRecord, owner: Owner) {
    submit_in_place(out, job, demand_in_place(job, owner));
}

/// The scheduler is notified of a job that an earlier controller had: it keeps the nodes that it got from
/// that one, whatever has come there meanwhile, and also while some of them are not back.
pub(super) fn submit_found(out: &Outbox, job: &JobRecord, owner: Owner) {
    let demand = demand_in_place(job, owner);
    submit_in_place(out, job, if job.launch.enrolled { demand } else { demand.awaiting_lost() });
}

fn submit_in_place(out: &Outbox, job: &JobRecord, demand: Demand) {
    out.act(Action::Gang(Command::Submit(job.id, Box::new(demand), true)));
}

pub(super) fn suspend(out: &Outbox, job: &JobRecord, suspended: bool) {
    if job.launch.terms.gang {
        out.act(Action::Gang(Command::Suspend(job.id, suspended)));
    }
}

/// Tells the scheduler that nothing of the job runs any more: others may have its nodes.
pub(super) fn leave(out: &Outbox, job: &JobRecord) {
    if job.queued.is_some() {
        out.act(Action::Queue(job.id, None));
    }
    out.act(Action::Gang(Command::JobOver(job.id)));
}

/// Demand of a job for the nodes that it has already.
fn demand_in_place(job: &JobRecord, owner: Owner) -> Demand {
    let launch = &job.launch;
    let parts = launch.places().into_iter().map(|(node, ranks)| (node, ranks as u32));
    let place = Place::Given(parts.collect());
    let terms = launch.terms;
    // A step's are its job's.
    let (memory_bytes, gpus) = match launch.steps.owner {
        Some(_) => (0, 0),
        None => (terms.memory_bytes, terms.gpus),
    };
    let demand = Demand {
        weight: terms.weight,
        exclusive: terms.exclusive,
        gang: terms.gang,
        oversubscribe: true,
        memory_bytes,
        holder: Holder { owner, within: launch.steps.owner },
        phases: terms.phases,
        fill: terms.fill,
        ..Demand::at(place)
    };
    demand.with_gpus(gpus)
}
