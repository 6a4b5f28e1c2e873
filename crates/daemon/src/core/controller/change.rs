//! Changes of jobs after their submission (`tutti change`): time limit, weight, name, time to begin.
//!
//! ```text
//! waits  --> its file has it, then who asked is answered
//! runs   --> its order has it ([`Amended`]), which a new controller learns from the nodes
//! ```
//!
//! A user changes a job within the limits of the configuration, as if it were submitted with the new values.
//! What is asked for an array is done to all its tasks that are not over.

use tutti_sched::WEIGHT_MAX;

use super::Controller;
use crate::core::local::LocalNode;
use crate::message::{Answer, Change, JobId, User};

impl Controller {
    /// Whether a user may change a job in this way.
    pub(super) fn check_change(
        &self,
        local: &LocalNode,
        user: User,
        id: JobId,
        change: &Change,
    ) -> Result<(), Answer> {
        self.jobs.check_owner(id, |owner| local.may(user, Some(owner)))?;
        let refused = |text: String| Err(Answer::Refused(text));
        let Some(job) = self.jobs.get(id) else { return Err(self.jobs.refuse_unknown(id)) };
        if job.over {
            return refused(format!("job {id} is over"));
        }
        if job.is_ending() || job.order.clock.since_term.is_some() {
            return refused(format!("job {id} is being ended"));
        }
        if job.launch.enrolled || job.launch.steps.owner.is_some() {
            return refused(format!("job {id} is no job of its own: its values are those of its mpiexec"));
        }
        if change.begin_ms.is_some() && job.queued.is_none() {
            return refused(format!("--begin: job {id} has its nodes already"));
        }
        if change.weight.is_some_and(|weight| !(1..=WEIGHT_MAX).contains(&weight)) {
            return refused(format!("--weight: a whole number from 1 to {WEIGHT_MAX} is expected"));
        }
        let owner = job.launch.user;
        if user.uid == owner.uid
            && let Err(text) = self.check_changed(local, owner, &job.launch.batch.queue, change)
        {
            return refused(text);
        }
        Ok(())
    }
}
