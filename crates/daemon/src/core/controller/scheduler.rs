//! What the scheduler is told of jobs that have their nodes.

use tutti_sched::shares::Owner;
use tutti_sched::{Demand, Place};

use super::job::JobRecord;
use super::placement;
use crate::core::action::Action;
use crate::core::outbox::Outbox;
use crate::gang::Command;

/// The scheduler is told of a job that runs already.
pub(super) fn submit_running(out: &mut Outbox, job: &JobRecord, owner: Owner) {
    let demand = Demand { owner, ..demand_in_place(job) };
    out.act(Action::Gang(Command::Submit(job.id, Box::new(demand), true)));
}

pub(super) fn suspend(out: &mut Outbox, job: &JobRecord, suspended: bool) {
    if job.launch.terms.gang {
        out.act(Action::Gang(Command::Suspend(job.id, suspended)));
    }
}

/// Nothing of the job runs any more: others may have its nodes.
pub(super) fn leave(out: &mut Outbox, job: &JobRecord) {
    if job.queued.is_some() {
        out.act(Action::Queue(job.id, None));
    }
    out.act(Action::Gang(Command::JobOver(job.id)));
}

/// What it asks for where it is already.
fn demand_in_place(job: &JobRecord) -> Demand {
    let launch = &job.launch;
    let shares = placement::shares(&launch.nodes, &launch.first_ranks, launch.job.ranks());
    let place = Place::Given(shares.map(|(node, ranks)| (node, ranks as u32)).collect());
    let terms = launch.terms;
    Demand {
        place,
        weight: terms.weight,
        exclusive: terms.exclusive,
        gang: terms.gang,
        oversubscribe: true,
        memory_bytes: terms.memory_bytes,
        owner: Owner::default(),
        phases: terms.phases,
        fill: terms.fill,
    }
}
