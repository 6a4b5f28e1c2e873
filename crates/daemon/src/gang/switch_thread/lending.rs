//! Loans, as the switch thread handles them: it hears who waits, opens the freezer of the job that is waited
//! for, and closes it again.

use tutti_protocol::turns::TurnKind;
use tutti_sched::JobId;
use tutti_sched::gang::JobChange;

use super::SwitchThread;
use crate::gang::clock::now_ns;
use crate::gang::wishes::Wish;

/// Forgets the wishes of a job that has ended.
pub(super) fn forget(wishes: &mut Vec<(Wish, bool)>, job: JobId) {
    wishes.retain(|(wish, _)| {
        let stays = wish.lender != job && wish.borrower != job;
        if !stays {
            wish.give_up();
        }
        stays
    });
}

impl SwitchThread {
    /// Tells the agent who has begun to wait, and who does not any more.
    pub(super) fn hear_wishes(&mut self, now_ns: u64) {
        let Some(node) = &mut self.node else { return };
        for (wish, is_known) in &mut self.wishes {
            let waits = wish.waits();
            // A job of which the agent does not know yet is asked about again.
            if waits != *is_known
                && (node.agent.handle_wish(now_ns, wish.lender, wish.borrower, waits) || !waits)
            {
                *is_known = waits;
            }
        }
        self.wishes.retain(|(wish, is_known)| *is_known || !wish.is_over());
    }

    /// The job runs in the turn of another one from now on.
    pub(super) fn lend(&mut self, id: JobId) {
        let (Some(node), Some(job)) = (&self.node, self.jobs.get_mut(&id)) else { return };
        let Some(freezer) = &mut job.freezer else { return };
        let began_ns = now_ns();
        self.slice.publish_turn(node, id, freezer);
        freezer.lend(began_ns);
        job.begin_look(began_ns);
        self.phases.set_runs(now_ns(), id, true);
    }

    /// Ends the run of the job in the turn of another one.
    pub(super) fn take_back(&mut self, id: JobId) {
        self.phases.set_runs(now_ns(), id, false);
        let (Some(node), Some(job)) = (&mut self.node, self.jobs.get_mut(&id)) else { return };
        let Some(freezer) = &mut job.freezer else { return };
        let now_ns = now_ns();
        if let Some(since_ns) = freezer.lent_since_ns() {
            self.recorder.put(TurnKind::Lent, id, since_ns, now_ns);
        }
        let may_exempt = node.agent.switch().may_exempt(id);
        if freezer.give_back(now_ns, may_exempt) {
            job.begin_look(now_ns);
            node.agent.handle_change(now_ns, id, JobChange::Exempt);
        }
    }

    /// Jobs whose time is used by others, who do not sleep: their own sleep is not idleness.
    pub(super) fn lenders(&mut self, now_ns: u64) -> Vec<JobId> {
        let Some(node) = &self.node else { return Vec::new() };
        let switch = node.agent.switch();
        let lent = self.jobs.iter_mut().filter_map(|(id, job)| Some((switch.lender_of(*id)?, job)));
        lent.filter_map(|(lender, job)| job.looks_awake(now_ns).then_some(lender)).collect()
    }
}
