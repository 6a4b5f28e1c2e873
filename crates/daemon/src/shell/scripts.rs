//! Scripts of the keeper around the parts of jobs on this node: the prolog before a starter, the epilog
//! behind it.
//!
//! ```text
//! Start --> prolog --ended with status 0--> the starter begins ... is dead --> epilog --> nothing more
//!             '-- failed, or not over in time: the part ends, the node is drained    '-- failed: drained too
//! ```
//!
//! Scripts run as the user of this daemon, who is root or runs his own jobs alone. So a script must be root's
//! or that user's, and nobody else may change it or a folder above it: else it counts as one that has failed.
//! No word of a job's user is in its environment, and none on its command line.
//!
//! If the daemon stops right here, it takes the prolog with it, and the next daemon begins that
//! anew. An epilog goes on by itself.

use std::sync::Arc;

use tutti_protocol::wire::{self, Job, Kind};

use super::script_files::Around;
use super::script_runs::{Preparation, Script, in_thread};
use super::{Event, JobId, Shell, ShellEvent};
use crate::core::event::StarterEnd;
use crate::message::Launch;

impl Shell {
    /// Begins a part: its prolog, if there is one, else its starter.
    pub(super) fn prepare(&mut self, job: JobId, launch: Arc<Launch>, described: Job) {
        let scripts = &self.settings.node.scripts;
        let Some(prolog) = &scripts.prolog else { return self.start(job, &launch, described) };
        let node = &self.settings.node.name;
        let around = Around::new(job, &launch, &described, node);
        let started = Script::start(("prolog", prolog), (&around, node), scripts.most, &self.wards);
        let number = self.number();
        let shell_events = self.shell_events.clone();
        let done = move |result| drop(shell_events.send(ShellEvent::Prepared(job, number, result)));
        let group = match started {
            Ok(script) => in_thread(script, done),
            Err(why) => {
                done(Err(why));
                Arc::default()
            }
        };
        let (frames, record) = (Vec::new(), None);
        self.preparing.begin(job, Preparation { number, launch, described, group, frames, record });
    }

    /// The prolog of a part is over: its starter begins, or the part ends.
    pub(super) fn handle_prepared(
        &mut self,
        job: JobId,
        number: u64,
        result: Result<(), String>,
    ) -> Option<Event> {
        let Preparation { launch, described, group, frames, record, .. } =
            self.preparing.take(job, number)?;
        if group.is_stopped() {
            let text = "it was killed before its ranks began".into();
            return Some(Event::StarterGone(job, StarterEnd::Died(text)));
        }
        if let Err(why) = result {
            return Some(Event::StarterGone(job, StarterEnd::Unprepared(why)));
        }
        self.start(job, &launch, described);
        if let Some(record) = record {
            self.record_starter(job, *record);
        }
        let starter = self.starters.get(&job)?;
        frames.iter().for_each(|(kind, number, payload)| starter.put(*kind, *number, payload));
        if frames.iter().any(|(kind, number, _)| *kind == Kind::Kill && *number != wire::SPARE_FILTERS) {
            starter.kill_later(job, &self.shell_events);
        }
        None
    }

    /// The starter of a part is dead: its epilog begins, if there is one. Whoever fails is told to the core.
    pub(super) fn begin_epilog(&self, around: &Around) {
        let scripts = &self.settings.node.scripts;
        let Some(epilog) = &scripts.epilog else { return };
        let shell_events = self.shell_events.clone();
        let failed = move |why| drop(shell_events.send(ShellEvent::Core(Event::EpilogFailed(why))));
        let node = &self.settings.node.name;
        match Script::start(("epilog", epilog), (around, node), scripts.most, &self.wards) {
            Ok(script) => drop(in_thread(script, move |result| result.err().into_iter().for_each(failed))),
            Err(why) => failed(why),
        }
    }
}
