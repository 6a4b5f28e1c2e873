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
use crate::message::{Mode, Stage};
use crate::types::{Generation, JobId};

/// Channels of a job: what is asked of them, which copies were ordered, and which begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channels {
    /// Whether there are none, since the job has no other node.
    are_none: bool,
    /// Whether they are being tested: FROZEN is not said before that is over.
    is_tested: bool,
    /// When an answer is not waited for any more.
    until_ns: Option<u64>,
    /// Whether the last question was not answered in time: nothing is asked until an answer comes.
    is_silent: bool,
    save: Copies,
    restore: Copies,
}

/// Copies of one direction, by the generations of their orders.
#[derive(Clone, Copy, Debug, Default)]
struct Copies {
    ordered: Option<Generation>,
    begun: Option<Generation>,
    under_way: Option<Generation>,
}

impl Copies {
    fn order(&mut self, generation: Generation) {
        self.ordered = self.ordered.max(Some(generation));
    }

    /// Begins the one that is ordered; false if it was begun before.
    fn begin(&mut self) -> bool {
        let is_new = self.ordered > self.begun;
        if is_new {
            (self.begun, self.under_way) = (self.ordered, self.ordered);
        }
        is_new
    }
}

impl Channels {
    /// Channels of which nothing was asked yet.
    pub(super) fn new(are_none: bool) -> Self {
        let (save, restore) = (Copies::default(), Copies::default());
        Channels { are_none, is_tested: false, until_ns: None, is_silent: false, save, restore }
    }

    /// Whether something is asked of them that has not been answered.
    pub(super) fn are_asked(&self) -> bool {
        self.is_tested || self.are_copied()
    }

    /// Whether they are being copied or loaded.
    pub(super) fn are_copied(&self) -> bool {
        self.save.under_way.is_some() || self.restore.under_way.is_some()
    }

    /// Whether they are being tested.
    pub(super) fn are_tested(&self) -> bool {
        self.is_tested
    }

    /// When an answer is not waited for any more.
    pub(super) fn waits_until_ns(&self) -> Option<u64> {
        self.until_ns
    }

    /// Notes a SAVE.
    pub(super) fn order_save(&mut self, generation: Generation) {
        self.save.order(generation);
    }

    /// Notes a RESTORE.
    pub(super) fn order_restore(&mut self, generation: Generation) {
        self.restore.order(generation);
    }

    /// Ends what is asked: the job goes on.
    pub(super) fn end_question(&mut self) {
        (self.is_tested, self.until_ns) = (false, None);
    }

    /// Begins a test; false if nothing is asked.
    fn begin_test(&mut self, now_ns: u64, patience_ns: u64) -> bool {
        let begins = self.ask(now_ns, patience_ns);
        self.is_tested |= begins;
        begins
    }

    /// Begins the copies that are ordered: whether they are saved, and whether restored.
    fn begin_copies(&mut self, generation: Generation) -> (bool, bool) {
        let saves = self.save.begin();
        let restores = self.restore.ordered == Some(generation) && self.restore.begin();
        (saves, restores)
    }

    /// Notes that something is about to be asked; false if nothing is.
    fn ask(&mut self, now_ns: u64, patience_ns: u64) -> bool {
        let is_asked = !self.are_none && !self.is_silent && patience_ns > 0;
        if is_asked {
            self.until_ns = Some(now_ns + patience_ns);
        }
        is_asked
    }

    /// Notes an answer.
    fn take_answer(&mut self) {
        self.is_silent = false;
        if !self.are_asked() {
            self.until_ns = None;
        }
    }

    /// Gives up what has not been answered in time; false if there is nothing.
    fn give_up(&mut self, now_ns: u64) -> bool {
        let is_late = self.until_ns.is_some_and(|until_ns| now_ns >= until_ns);
        if is_late {
            (self.until_ns, self.is_silent) = (None, true);
        }
        is_late
    }
}

impl NodeSwitch {
    /// The job is frozen. In a strict switch its channels are tested before that is said.
    pub(super) fn settle_frozen(&mut self, now_ns: u64, at: usize) {
        let is_strict = self.mode() == Mode::Strict;
        let local = &mut self.jobs[at];
        if is_strict && local.channels.begin_test(now_ns, self.timing.channel_ns) {
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
        self.jobs[at].channels.take_answer();
        self.apply(now_ns);
    }

    fn end_test(&mut self, at: usize) {
        if std::mem::take(&mut self.jobs[at].channels.is_tested) {
            self.report_frozen(at);
        }
    }

    fn end_save(&mut self, at: usize) {
        let local = &mut self.jobs[at];
        if let Some(generation) = local.channels.save.under_way.take() {
            self.actions.push_back(Action::Reached(local.job, Stage::Saved, generation));
        }
    }

    fn end_restore(&mut self, at: usize) {
        let local = &mut self.jobs[at];
        if let Some(generation) = local.channels.restore.under_way.take() {
            self.actions.push_back(Action::Reached(local.job, Stage::Restored, generation));
        }
    }

    /// Copies and loads the channel state of jobs for which that has been ordered. The order may come before
    /// the job is frozen: a daemon that is new finds its jobs running.
    pub(super) fn save_and_restore(&mut self, now_ns: u64) {
        let (generation, patience_ns) = (self.generation(), self.timing.channel_ns);
        for at in 0..self.jobs.len() {
            let local = &mut self.jobs[at];
            if !local.is_frozen() || local.is_dying() || local.channels.is_tested {
                continue;
            }
            let (saves, restores) = local.channels.begin_copies(generation);
            if (saves || restores) && local.channels.is_silent {
                self.actions.push_back(Action::Unanswered(local.job));
                self.end_save(at);
                self.end_restore(at);
            } else if saves || restores {
                local.channels.ask(now_ns, patience_ns);
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
            if local.is_dying() || !local.channels.give_up(now_ns) {
                continue;
            }
            self.actions.push_back(Action::Unanswered(local.job));
            self.end_test(at);
            self.end_save(at);
            self.end_restore(at);
        }
    }
}

#[cfg(test)]
mod tests;
