//! Which algorithm does which work by messages.

use super::plan::{Place, Plan};
use super::schedule::Schedule;
use super::sizes::{
    GATHERED_BYTES_MAX, ORDERED_REDUCE_BYTES_MAX, WHOLE_ALLREDUCE_BYTES_MAX,
    WHOLE_ALLREDUCE_OF_TWO_BYTES_MAX, WHOLE_BROADCAST_BYTES_MAX, WHOLE_REDUCE_BYTES_MAX,
};
use super::state::Call;
use super::work::{Reduction, Root, Work};
use super::{direct, edges, reduction, remote, tree};
use crate::comm::{Channel, Comm};
use crate::events::{self, Event};
use crate::tally::{self, Algorithm};

/// Shows tools the algorithm of an operation of `ranks` ranks.
pub(super) fn raise(algorithm: Algorithm, ranks: usize) {
    tally::COLLECTIVES[algorithm as usize].count();
    events::raise(Event::Collective, || [algorithm as u64, ranks as u64, 0, 0]);
}

impl Place {
    /// The place for one more operation on a communicator, with a tag of its own; all ranks ask in the same
    /// order for each kind of call.
    pub fn next(comm: &mut Comm, call: Call) -> Self {
        Place {
            context: comm.context + Channel::Collective as u32,
            tag: comm.collective.next_tag(call),
            me: comm.rank,
            local: comm.group.clone(),
            remote: comm.remote.clone(),
        }
    }

    /// The schedule for work at this place.
    pub fn plan(&self, work: &Work) -> Schedule {
        self.plan_behind(self.schedule(), work)
    }

    /// A schedule without steps.
    pub fn schedule(&self) -> Schedule {
        Schedule::new(self.context, self.tag)
    }

    /// Which operation on the communicator it is, in a checked program.
    pub fn number(&self) -> i32 {
        self.tag >> 1
    }

    /// Whether there are two groups.
    pub fn is_inter(&self) -> bool {
        self.remote.is_some()
    }

    /// World ranks of all members and where this process stands among them; those of two groups in order.
    pub fn members(&self) -> (Vec<u32>, usize) {
        let mut members = self.local.members().to_vec();
        let Some(remote) = &self.remote else { return (members, self.me) };
        let mine = members[self.me];
        members.extend(remote.members());
        members.sort_unstable();
        let me = members.iter().position(|&world| world == mine).expect("a member of its own group");
        (members, me)
    }

    /// The steps for work, behind those that a schedule has.
    pub fn plan_behind(&self, schedule: Schedule, work: &Work) -> Schedule {
        let mut plan = Plan { schedule, me: self.me, local: self.local.clone(), remote: self.remote.clone() };
        plan.schedule.is_mutual = !matches!(
            work,
            Work::Broadcast { .. } | Work::Gather { .. } | Work::Scatter { .. } | Work::Scan { .. }
        );
        if let Some(remote) = &plan.remote {
            raise(Algorithm::TwoGroups, plan.local.members().len() + remote.members().len());
            remote::steps(&mut plan, work);
        } else {
            let algorithm = steps(&mut plan, work);
            raise(algorithm, plan.size());
        }
        plan.schedule.await_all();
        plan.schedule
    }
}

/// The algorithm for an intracommunicator.
fn steps(plan: &mut Plan, work: &Work) -> Algorithm {
    let few = plan.size() <= 2;
    match work {
        Work::Barrier => tree::barrier(plan),
        Work::Broadcast { buffer, root } => {
            if !few && buffer.bytes > WHOLE_BROADCAST_BYTES_MAX {
                direct::broadcast(plan, buffer, local(*root));
                return Algorithm::Direct;
            }
            tree::broadcast(plan, buffer, local(*root));
        }
        Work::Gather { own, all, root, .. } => {
            direct::gather(plan, own.as_ref(), all.as_ref(), local(*root));
            return Algorithm::Direct;
        }
        Work::Scatter { all, own, root, .. } => {
            direct::scatter(plan, all.as_ref(), own.as_ref(), local(*root));
            return Algorithm::Direct;
        }
        Work::Allgather { own, all, .. } => {
            direct::allgather(plan, own.as_ref(), all);
            return Algorithm::Direct;
        }
        Work::Alltoall { send, receive, .. } => {
            direct::alltoall(plan, send.as_ref(), receive);
            return Algorithm::Direct;
        }
        Work::Reduce(reduction, root) => {
            // The order counts for two as well: of zeros of both signs, or of two that are no numbers,
            // MPI_MAX takes one.
            let in_order = plan.size() > 1
                && !reduction.reducer.is_exact()
                && reduction.bytes <= ORDERED_REDUCE_BYTES_MAX;
            if in_order {
                let room = GATHERED_BYTES_MAX / plan.size();
                tree::reduce_in_order(plan, reduction, local(*root), room);
            } else if !few && reduction.bytes > WHOLE_REDUCE_BYTES_MAX {
                reduction::reduce(plan, reduction, local(*root));
                return Algorithm::Reduction;
            } else {
                tree::reduce(plan, reduction, local(*root));
            }
        }
        Work::Allreduce(reduction) => {
            let whole_max = if few { WHOLE_ALLREDUCE_OF_TWO_BYTES_MAX } else { WHOLE_ALLREDUCE_BYTES_MAX };
            // Two exchange theirs, and each keeps the order.
            let in_order = !few && !reduction.reducer.is_exact();
            if reduction.bytes > whole_max || in_order && !is_gathered(reduction, plan.size()) {
                reduction::allreduce(plan, reduction);
                return Algorithm::Reduction;
            }
            if in_order {
                tree::allreduce_in_order(plan, reduction);
            } else {
                tree::allreduce(plan, reduction);
            }
        }
        Work::ReduceScatter { reduction, counts } => {
            reduction::reduce_scatter(plan, reduction, counts);
            return Algorithm::Reduction;
        }
        Work::Scan { reduction, exclusive } => {
            reduction::scan(plan, reduction, *exclusive);
            return Algorithm::Reduction;
        }
        Work::Neighbours(edges) => {
            edges::exchange(plan, edges);
            return Algorithm::Edges;
        }
    }
    Algorithm::Tree
}

/// Whether the contributions of so many ranks travel side by side.
fn is_gathered(reduction: &Reduction, ranks: usize) -> bool {
    reduction.bytes.saturating_mul(ranks) <= GATHERED_BYTES_MAX
}

fn local(root: Root) -> usize {
    match root {
        Root::Local(root) => root,
        _ => panic!("an intracommunicator has no {root:?}"),
    }
}

#[cfg(test)]
mod tests;
