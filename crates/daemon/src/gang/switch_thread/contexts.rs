//! Channels of jobs in strict switches: their starters test, save and compare them, and are asked by the main
//! loop, since the switch thread touches no memory of users.
//!
//! ```text
//! switch thread --SwitchEvent::Context--> main loop --Kind::Context--> starter
//!               <--Command::ContextDone--           <--Kind::ContextDone--
//! ```
//!
//! Answers of an earlier switch count for nothing. Who does not answer in time is said to be
//! ([`Action::Unanswered`]), and is asked again after its next answer. If the starter or the main loop stops
//! right here, the switch goes on without after half the time that makes a node late.

use tutti_protocol::turns::TurnKind;
use tutti_protocol::wire::ContextStep;
use tutti_sched::JobId;
use tutti_sched::gang::JobChange;

use super::SwitchThread;
use crate::gang::clock::now_ns;
use crate::gang::command::{ContextDone, SwitchEvent};

/// Slices for which an answer about channels is waited for: half of those after which a node is late.
pub(super) const CHANNEL_SLICES: u64 = 5;
/// Steps that there are.
const STEPS: usize = 3;

/// Question to the starter of a job.
#[derive(Clone, Copy, Debug)]
struct Question {
    /// Of the switch.
    generation: u64,
    asked_ns: u64,
    /// Whether it was not answered in time.
    is_late: bool,
}

/// Questions about the channels of a job.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: [Option<Question>; STEPS],
    /// Whether it was said that its channels were not steady, and that nothing was answered.
    said: [bool; 2],
}

impl Questions {
    fn put(&mut self, step: ContextStep, generation: u64, asked_ns: u64) {
        self.open[step as usize - 1] = Some(Question { generation, asked_ns, is_late: false });
    }

    fn take(&mut self, step: ContextStep, generation: u64) -> Option<Question> {
        self.open[step as usize - 1].take_if(|question| question.generation == generation)
    }

    /// Notes that the switch goes on without; returns whether that is to be said.
    fn give_up(&mut self) -> bool {
        self.open.iter_mut().flatten().for_each(|question| question.is_late = true);
        !std::mem::replace(&mut self.said[1], true)
    }
}

impl SwitchThread {
    /// Asks the starter of a job to do this with its channels. A job of one node has none.
    pub(super) fn ask_starter(&mut self, id: JobId, step: ContextStep) {
        let (Some(node), Some(job)) = (&self.node, self.jobs.get_mut(&id)) else { return };
        let now_ns = now_ns();
        let generation = node.agent.switch().executed().map_or(0, |switch| switch.generation.0);
        job.questions().put(step, generation, now_ns);
        if job.nodes.len() < 2 {
            return self.handle_context_done(now_ns, id, ContextDone { step, generation, is_well: true });
        }
        let within_ns = self.slice_ns * CHANNEL_SLICES / 2;
        (self.emit)(SwitchEvent::Context(id, step, generation, within_ns));
    }

    /// The starter of a job has done it.
    pub(super) fn handle_context_done(&mut self, now_ns: u64, id: JobId, done: ContextDone) {
        let ContextDone { step, generation, is_well } = done;
        let (Some(node), Some(job)) = (&mut self.node, self.jobs.get_mut(&id)) else { return };
        let Some(question) = job.questions().take(step, generation) else { return };
        let (kind, change) = match step {
            ContextStep::Test => (TurnKind::Steady, JobChange::Steady),
            ContextStep::Save => (TurnKind::Save, JobChange::Saved),
            ContextStep::Restore => (TurnKind::Restore, JobChange::Restored),
        };
        let is_steady = is_well || step != ContextStep::Test;
        if is_steady && !question.is_late {
            self.recorder.put(kind, id, question.asked_ns, now_ns);
        }
        if !is_steady && !question.is_late && !std::mem::replace(&mut job.questions().said[0], true) {
            let why = "a node of it was late, or does not reach another";
            let text = format!("job {id}: a switch went on although its channels were not steady: {why}");
            (self.emit)(SwitchEvent::UserLine(job.user, text));
        }
        node.agent.handle_change(now_ns, id, change);
    }

    /// The starter of a job has not answered in time.
    pub(super) fn give_up_question(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.questions().give_up() {
            let text = format!("job {id}: its starter did not answer in time: a switch went on without");
            (self.emit)(SwitchEvent::UserLine(job.user, text));
        }
    }
}
