//! Channels of a job of several nodes in a strict switch: asked whether they are steady, copied, loaded.
//!
//! ```text
//! frozen -- TestSteady --> testing -- Steady --> FROZEN is said ... SAVE -- Save --> saving -- Saved --> SAVED is said
//!                             |                                                        |
//!                             '------ channel_ns later: Unanswered, silent -----------'   said as well, and nothing more asked
//! ```
//!
//! Nothing here is needed for the safety of a message: the cut is (`tutti_channel::cut`). So whoever does not
//! answer, say a starter that its user has stopped, costs others [`super::Timing::channel_ns`], once.

use super::{Action, JobChange, NodeSwitch};
use crate::gang::state::{Local, Question};
use crate::message::{Mode, Stage};
use crate::types::JobId;

impl Local {
    /// Whether something is asked of its channels that has not been answered.
    pub(super) fn is_asked(&self) -> bool {
        self.question().testing || self.is_copied()
    }

    /// Whether its channels are being copied or loaded.
    pub(super) fn is_copied(&self) -> bool {
        self.saving.is_some() || self.restoring.is_some()
    }

    /// Notes that something is about to be asked of its channels; false if nothing is.
    fn begin_question(&mut self, now_ns: u64, patience_ns: u64) -> bool {
        let is_asked = !self.is_only_here() && !self.question().silent && patience_ns > 0;
        if is_asked {
            self.question_mut().until_ns = Some(now_ns + patience_ns);
        }
        is_asked
    }

    /// Notes an answer.
    fn end_question(&mut self) {
        self.question_mut().silent = false;
        if !self.is_asked() {
            self.question_mut().until_ns = None;
        }
    }
}

impl NodeSwitch {
    /// The job is frozen. In a strict switch its channels are tested before that is said.
    pub(super) fn settle_frozen(&mut self, now_ns: u64, at: usize) {
        let is_strict = self.mode() == Mode::Strict;
        let local = &mut self.jobs[at];
        if is_strict && local.begin_question(now_ns, self.timing.channel_ns) {
            local.question_mut().testing = true;
            self.actions.push_back(Action::TestSteady(local.job));
        }
        self.report_frozen(at);
    }

    /// An answer about the channels of a job, in time or not.
    pub(super) fn handle_answer(&mut self, now_ns: u64, job: JobId, change: JobChange) {
        let Some(at) = self.find(job) else { return };
        match change {
            JobChange::Steady => self.end_test(at),
            JobChange::Saved => self.end_save(at),
            _ => self.end_restore(at),
        }
        self.jobs[at].end_question();
        self.apply(now_ns);
    }

    fn end_test(&mut self, at: usize) {
        if std::mem::take(&mut self.jobs[at].question_mut().testing) {
            self.report_frozen(at);
        }
    }

    fn end_save(&mut self, at: usize) {
        let local = &mut self.jobs[at];
        if let Some(generation) = local.saving.take() {
            self.actions.push_back(Action::Reached(local.job, Stage::Saved, generation));
        }
    }

    fn end_restore(&mut self, at: usize) {
        let local = &mut self.jobs[at];
        if let Some(generation) = local.restoring.take() {
            self.actions.push_back(Action::Reached(local.job, Stage::Restored, generation));
        }
    }

    /// Copies and loads the channel state of jobs for which that has been ordered. The order may come before
    /// the job is frozen: a daemon that is new finds its jobs running.
    pub(super) fn save_and_restore(&mut self, now_ns: u64) {
        let (generation, patience_ns) = (self.generation(), self.timing.channel_ns);
        for at in 0..self.jobs.len() {
            let local = &mut self.jobs[at];
            if !local.is_frozen() || local.dying || local.question().testing {
                continue;
            }
            let saves = local.save > local.saved;
            if saves {
                (local.saved, local.saving) = (local.save, local.save);
            }
            let restores = local.restore > local.restored && local.restore == Some(generation);
            if restores {
                (local.restored, local.restoring) = (local.restore, local.restore);
            }
            if (saves || restores) && local.question().silent {
                self.actions.push_back(Action::Unanswered(local.job));
                self.end_save(at);
                self.end_restore(at);
            } else if saves || restores {
                local.begin_question(now_ns, patience_ns);
                let copies = [
                    saves.then_some(Action::Save(local.job)),
                    restores.then_some(Action::Restore(local.job)),
                ];
                self.actions.extend(copies.into_iter().flatten());
            }
        }
    }

    /// Whatever has not been answered in time is not waited for.
    pub(super) fn check_unanswered(&mut self, now_ns: u64) {
        for at in 0..self.jobs.len() {
            let local = &mut self.jobs[at];
            if local.dying || local.question().until_ns.is_none_or(|until_ns| now_ns < until_ns) {
                continue;
            }
            *local.question_mut() = Question { until_ns: None, silent: true, ..*local.question() };
            self.actions.push_back(Action::Unanswered(local.job));
            self.end_test(at);
            self.end_save(at);
            self.end_restore(at);
        }
    }
}

#[cfg(test)]
mod tests;
