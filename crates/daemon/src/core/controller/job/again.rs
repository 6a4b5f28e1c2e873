//! Jobs that begin anew: by command (`tutti requeue`), or since a node was lost (`--requeue`).
//!
//! ```text
//! running --requeue--> a new job behind this one, as behind `--after`, is filed --filed--> this one is ended
//!         --a node is lost--> it ends; a new job behind it is filed
//! ```
//!
//! The new job has a number of its own; its row names the first of them all and counts ([`Restart`]). What
//! was said to the first one counts for the newest: commands, and jobs that wait for it. The new job is in
//! its file before the old one is ended, so a controller that dies in between loses neither: the next one
//! ends the old one when it hears of it. A job begins anew [`RESTARTS_MAX`] times at most.

use tutti_protocol::batch::{After, Restart};
use tutti_protocol::output::name_job;
use tutti_protocol::variables;

use super::JobRecord;
use crate::members::NodeId;
use crate::message::{EndKind, JobId, Launch};

/// Exit status of what is killed.
const KILLED: u8 = 128 + 9;
/// A job begins anew so often, at most.
const RESTARTS_MAX: u32 = 100;

/// A random number of a job that follows from that of another one of its user: what such jobs know of each
/// other is that user's.
pub(in crate::core::controller) fn mixed(number: u64, job: u64) -> u64 {
    // SplitMix64.
    let word = number.wrapping_add(job.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word ^ word >> 31).max(1)
}

impl JobRecord {
    /// Why it cannot begin anew; none: it can.
    pub(in crate::core::controller) fn why_not_again(&self) -> Option<String> {
        let id = self.id;
        let launch = &self.launch;
        if launch.steps.owner.is_some() || launch.enrolled || !self.detached {
            Some(format!("job {id} is not requeued: `tutti submit` alone starts such jobs"))
        } else if self.queued.is_some() {
            Some(format!("job {id} has not begun: it waits as it is"))
        } else if launch.demand().is_none() {
            Some(format!("job {id} is not requeued: an earlier release has started it"))
        } else if launch.batch.restart().is_some_and(|restart| restart.count >= RESTARTS_MAX) {
            Some(format!("job {id} has been requeued {RESTARTS_MAX} times, which are as many as may be"))
        } else {
            None
        }
    }

    /// The job that takes its place, which has this number.
    pub(in crate::core::controller) fn again(&self, new: JobId, origin: NodeId) -> Launch {
        let mut launch = Launch::clone(&self.launch);
        let restart = launch.batch.restart().unwrap_or(Restart { first: self.id, count: 0 });
        let restart = Restart { count: restart.count + 1, ..restart };
        launch.batch.set_restart(Some(restart));
        launch.batch.after = vec![After { job: self.id, ok: false, not_ok: false }];
        let rules = launch.batch.rules_mut();
        (rules.held, rules.begin_ms) = (false, None);
        (launch.key, launch.job.id) = (mixed(launch.key, new.0), mixed(launch.job.id, new.0));
        launch.request_id = mixed(launch.request_id, new.0) | 1 << 63;
        (launch.nodes, launch.first_ranks, launch.incarnations) = (Vec::new(), Vec::new(), Vec::new());
        launch.origin = origin;
        launch.set_gpus(Vec::new());
        if let Some(allocation) = &mut launch.steps.allocation {
            allocation.parts = Vec::new();
        }
        let set = [
            (variables::RESTARTS, restart.count.to_string()),
            (variables::FIRST_JOB, restart.first.to_string()),
        ];
        for program in &mut launch.job.programs {
            let own = [variables::RESTARTS, variables::FIRST_JOB, variables::ALLOCATION];
            program.variables.retain(|(name, _)| own.iter().all(|own| name.as_bytes() != own.as_bytes()));
            program.variables.extend(set.iter().map(|(name, value)| ((*name).into(), value.as_str().into())));
        }
        if let Some(output) = &mut launch.output {
            // The same files, begun anew.
            for name in [&mut output.out, &mut output.errors].into_iter().flatten() {
                *name = name_job(name, restart.first);
            }
        }
        launch
    }

    /// Whether a user has asked for its end, also before this controller.
    pub(in crate::core::controller) fn is_ended_by_user(&self) -> bool {
        self.end.is_by_user() || self.order.clock.grace_ms.is_some()
    }

    /// Another job takes its place, and is in its file: it ends.
    pub(in crate::core::controller) fn end_for(&mut self, new: JobId) {
        if self.is_ending() {
            return;
        }
        let text = format!("it was requeued as job {new}");
        self.end.mark_by_user();
        self.warn_of_end(EndKind::Requeued, text.clone(), text);
        self.end_by(None, KILLED);
    }
}
