//! Steps: jobs that `mpiexec` starts in a script that has an allocation.
//!
//! ```text
//! tutti submit job.sh --> job 7: slots on n1, n2; script on n1 --mpiexec--> job 8, step of 7: ranks on n1, n2
//!                              '- suspended, killed, at its limit, its script has ended: so are its steps
//! ```
//!
//! A step is a job with a number, a front end, output, a status and signals of its own. What it has of nodes,
//! memory and time is its job's: the scheduler puts it into the slots and the rows of that one
//! (`tutti_sched`, `matrix/steps.rs`), and neither limits of users nor the load of nodes count it again. A
//! job is over when its script and all its steps are.
//!
//! Which job a front end belongs to the daemon of its node asks the kernel (`Script::caller`): whatever the
//! environment says, a step cannot be of another job, and what is started in a script with `mpiexec` or
//! `tutti run` cannot leave the job's nodes. A new controller learns both from the launches that nodes keep.

use std::collections::BTreeMap;

use tutti_protocol::variables;
use tutti_sched::{Demand, Holder, Place};

use super::{Controller, log};
use crate::core::context::Context;
use crate::core::job_event::JobEvent;
use crate::core::local::LocalNode;
use crate::core::relay::Relay;
use crate::members::{Members, NodeId};
use crate::message::{Allocation, EndKind, Host, JobId, Run, Submit, User};

/// Why steps end with the script of their job.
const SCRIPT_ENDED: &str = "the script of its job has ended";
/// Why they end with their job.
const JOB_ENDED: &str = "its job is ended";
/// Exit status of what is killed.
const KILLED: u8 = 128 + 9;
/// Steps of a job at once, at most.
const STEPS_MAX: usize = 256;

impl Controller {
    /// The job whose step is asked for; none: it is to be a job of its own.
    ///
    /// # Errors
    /// When it can be no step: a text for the user.
    pub(super) fn owner_of_step(&self, user: User, submit: &Submit) -> Result<Option<JobId>, String> {
        let caller = submit.script.caller.and_then(|id| Some((id, self.jobs.get(id)?)));
        // What a rank of a step starts is a step beside it.
        let owner = caller.and_then(|(id, job)| match job.launch.steps.owner {
            Some(owner) => Some((owner, self.jobs.get(owner)?)),
            None => Some((id, job)),
        });
        let owner =
            owner.filter(|(_, job)| job.launch.steps.allocation.is_some() && job.launch.user.uid == user.uid);
        match owner {
            Some((id, job)) if job.is_ending() || job.is_over() || job.order.clock.since_term.is_some() => {
                Err(format!("job {id} is being ended: it starts no more steps"))
            }
            Some((id, _)) => Ok(Some(id)),
            None if submit.script.is_step => Err(format!(
                "{} is set, but this process is not part of a job's script: unset it to start a job of its own",
                variables::ALLOCATION
            )),
            None => Ok(None),
        }
    }

    /// A step has what its job has: its terms, and some of its nodes.
    ///
    /// # Errors
    /// When it wants something else: a text for the user.
    pub(super) fn enter_job(
        &self,
        members: &Members,
        owner: JobId,
        submit: &mut Submit,
    ) -> Result<(), String> {
        let Some(launch) = self.jobs.get(owner).map(|job| &job.launch) else { return Ok(()) };
        let Some(allocation) = &launch.steps.allocation else { return Ok(()) };
        let (terms, batch) = (&submit.terms, &submit.batch);
        let own = [
            (terms.exclusive, "--exclusive"),
            (terms.memory_bytes > 0, "--memory"),
            (terms.gpus > 0, "--gpus"),
            (terms.phases.is_some(), "--phases"),
            (terms.fill, "--fill"),
            (!terms.gang, "--no-gang"),
            (batch.weight.is_some(), "--weight"),
            (!batch.queue.is_empty(), "--queue"),
            (!batch.after.is_empty(), "--after"),
            (batch.rules().held, "--hold"),
            (batch.rules().begin_ms.is_some(), "--begin"),
            (batch.rules().behind_same_name, "--after-same-name"),
            (!batch.rules().excluded.is_empty(), "--exclude"),
            (batch.array().is_some(), "--array"),
            (batch.is_requeued_if_lost(), "--requeue"),
            (submit.script.is_script, "tutti alloc"),
        ];
        if let Some((_, option)) = own.iter().find(|(is_given, _)| *is_given) {
            return Err(format!("{option} is for jobs: a step has what its job {owner} has"));
        }
        submit.terms = launch.terms;
        // Its nodes are its job's, also those that nobody else may have.
        submit.terms.exclusive = false;
        let ranks = submit.job.ranks();
        if ranks > u64::from(allocation.ranks) {
            return Err(too_many(ranks, u64::from(allocation.ranks), owner));
        }
        if self.steps_of(owner).len() >= STEPS_MAX {
            return Err(format!(
                "job {owner} has {STEPS_MAX} steps at once, which are as many as it may have"
            ));
        }
        let is_spread = submit.nodes.is_some() || submit.per_node.is_some();
        let host = |(node, ranks): (NodeId, u32)| Host { name: members.name(node), ranks: Some(ranks) };
        if !submit.hosts.is_empty() {
            return name_ranks(members, owner, allocation, is_spread, &mut submit.hosts);
        }
        let busy = self.busy(owner);
        let free = |(node, ranks): &(NodeId, u32)| {
            let busy = u64::from(*ranks).min(busy.get(node).copied().unwrap_or(0)) as u32;
            (*node, ranks - busy)
        };
        let rest: Vec<_> = allocation.parts.iter().map(free).filter(|part| part.1 > 0).collect();
        let there: u64 = rest.iter().map(|part| u64::from(part.1)).sum();
        let mut parts = allocation.parts.clone();
        if is_spread {
            // Nodes without other steps come first.
            parts.sort_by_key(|part| busy.get(&part.0).copied().unwrap_or(0));
        } else if ranks > 0 && ranks <= there {
            parts = rest;
        }
        submit.hosts = parts.into_iter().map(host).collect();
        Ok(())
    }

    /// Demand that is asked of the scheduler for a job, or for a step of one.
    ///
    /// # Errors
    /// When it could never be: a text for the user.
    pub(super) fn check_demand(
        &self,
        local: &LocalNode,
        user: User,
        owner: Option<JobId>,
        demand: Demand,
    ) -> Result<Demand, String> {
        let Some(owner) = owner else { return self.check_never(local, user, &demand).map(|()| demand) };
        let most = self.jobs.get(owner).map_or(0, |job| job.launch.ranks());
        let ranks = demand.place.ranks();
        if ranks > most {
            return Err(too_many(ranks, most, owner));
        }
        let holder = Holder { within: Some(owner), ..demand.holder };
        Ok(Demand { holder, memory_bytes: 0, ..demand.with_gpus(0) })
    }

    /// Ranks of a job's steps on each node.
    fn busy(&self, owner: JobId) -> BTreeMap<NodeId, u64> {
        let mut busy = BTreeMap::new();
        for step in self.steps_of(owner).into_iter().filter_map(|id| self.jobs.get(id)) {
            let asked = step.queued.as_ref().map(|queued| &queued.demand().place);
            let places = match asked {
                Some(Place::Given(parts)) => {
                    parts.iter().map(|(node, ranks)| (*node, u64::from(*ranks))).collect()
                }
                _ => step.launch.places(),
            };
            places.into_iter().for_each(|(node, ranks)| *busy.entry(node).or_default() += ranks);
        }
        busy
    }

    /// The steps of a job that are not over.
    pub(super) fn steps_of(&self, owner: JobId) -> Vec<JobId> {
        if self.jobs.get(owner).is_none_or(|job| job.launch.steps.allocation.is_none()) {
            return Vec::new();
        }
        let is_open = |id: &JobId| self.jobs.get(*id).is_some_and(|step| !step.is_over());
        self.jobs.relations.steps(owner).filter(is_open).collect()
    }

    /// A job has steps that are not over.
    pub(super) fn has_steps(&self, owner: JobId) -> bool {
        !self.steps_of(owner).is_empty()
    }

    /// The job of a step, if that is suspended.
    pub(super) fn suspended_owner(&self, step: JobId) -> Option<JobId> {
        let owner = self.jobs.get(step)?.launch.steps.owner?;
        self.jobs.get(owner).filter(|job| job.order.run == Run::Stop).map(|_| owner)
    }

    /// A job is near its time limit: its steps get the signal that it gets.
    pub(super) fn warn_steps(&mut self, cx: Context<'_>, relay: &mut Relay, owner: JobId, signal: u32) {
        let text =
            format!("signal {signal} ({}) before the time limit", tutti_os::signal_name(signal as i32));
        log::log(cx, owner, JobEvent { event: "warned", text, ..JobEvent::default() });
        for id in self.steps_of(owner) {
            if let Some(step) = self.jobs.get_mut(id) {
                step.signal(signal);
            }
            self.publish(relay, id);
        }
    }

    /// A job has reached its time limit: its steps get the signal now, and its script later.
    pub(super) fn end_steps_at_limit(&mut self, cx: Context<'_>, relay: &mut Relay, owner: JobId) {
        let cause =
            self.jobs.get(owner).and_then(|job| job.end.cause().map(str::to_owned)).unwrap_or_default();
        for id in self.steps_of(owner) {
            if let Some(step) = self.jobs.get_mut(id) {
                step.end.mark_by_user();
                step.end.record_cause(EndKind::TimeLimit, format!("job {owner}: {cause}"));
                step.signal_end();
            }
            self.publish(relay, id);
            self.judge(cx, relay, id);
        }
    }

    /// Ends the steps of a job whose script is over, or which is being ended itself.
    pub(super) fn end_steps_of_ended(&mut self, cx: Context<'_>, relay: &mut Relay, owner: JobId) {
        let Some(job) = self.jobs.get(owner) else { return };
        let uid = job.launch.user.uid;
        let cause = match (job.is_ending(), job.order.leave) {
            (true, _) => JOB_ENDED,
            (false, true) => SCRIPT_ENDED,
            (false, false) => return,
        };
        for id in self.steps_of(owner) {
            let Some(step) = self.jobs.get_mut(id).filter(|step| !step.is_ending()) else { continue };
            step.end.mark_by_user();
            step.end.cancel(uid, cause.into());
            step.end_by(None, KILLED);
            self.publish(relay, id);
            self.judge(cx, relay, id);
        }
    }
}

fn too_many(ranks: u64, most: u64, owner: JobId) -> String {
    format!(
        "{ranks} ranks are more than the {most} of job {owner}: -n of its submission says how many it has"
    )
}

/// The nodes that a user has named are the job's, and have as many ranks as it has there if he does not say.
fn name_ranks(
    members: &Members,
    owner: JobId,
    allocation: &Allocation,
    is_spread: bool,
    hosts: &mut [Host],
) -> Result<(), String> {
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
    for host in hosts {
        let is_it = |part: &&(NodeId, u32)| short(&members.name(part.0)) == short(&host.name);
        let Some((_, ranks)) = allocation.parts.iter().find(is_it) else {
            let names: Vec<String> = allocation.parts.iter().map(|part| members.name(part.0)).collect();
            return Err(format!("{} is not a node of job {owner}, which has {}", host.name, names.join(" ")));
        };
        if !is_spread {
            host.ranks.get_or_insert(*ranks);
        }
    }
    Ok(())
}
