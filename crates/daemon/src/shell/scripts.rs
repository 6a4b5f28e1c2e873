//! Begin of parts, and scripts of the keeper around them: the prolog before a starter, the epilog behind it.
//!
//! ```text
//! Start --> prolog --ended with status 0--> due --> the starter begins ... is dead --> epilog --> over
//!             '-- failed, or not over in time: the part ends, the node is drained      '-- failed: the same
//! ```
//!
//! A starter costs a fork and cgroups, some milliseconds, and a scheduler may place a thousand tasks of an
//! array at once: starters begin in turns of [`START_TURN`], and users are answered between two of them.
//!
//! Scripts run as the user of this daemon, who is root or runs his own jobs alone. So a script must be root's
//! or that user's, and nobody else may change it or a folder above it: else it counts as one that has failed.
//! No word of a job's user is in its environment, and none on its command line.
//!
//! If the daemon stops right here, its prolog is killed, and the next daemon begins that anew. An epilog goes
//! on by itself until its time is over ([`crate::script_runner`]).
//!
//! Prologs are as many as parts that begin. While an epilog cannot begin, since so many run for its account
//! ([`super::epilogs`]), no starter of that account begins: whoever ends jobs faster than the node is cleaned
//! waits. Epilogs that wait are the next daemon's, too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tutti_protocol::wire::{self, Job, Kind};

use super::clock::now;
use super::epilogs::{Buried, Owing};
use super::records::File;
use super::script_files::Around;
use super::script_runs::{Preparation, Script, in_thread};
use super::starters::Starter;
use super::{Event, JobId, Shell, ShellEvent};
use crate::core::event::StarterEnd;
use crate::message::Launch;
use crate::script_runner::{Orphaned, command};

/// Time for which starters are begun, one at least, before sockets, users and the clock are looked at again.
const START_TURN: Duration = Duration::from_millis(5);

impl Shell {
    /// Begins a part: its prolog, if there is one; else its starter is due.
    pub(super) fn prepare(&mut self, job: JobId, launch: Arc<Launch>, described: Job) {
        let scripts = &self.settings.node.scripts;
        let Some(prolog) = &scripts.prolog else {
            let number = self.number();
            self.preparing.begin(job, Preparation::new(number, launch, described, Arc::default()));
            return self.put_due(job, number);
        };
        let node = &self.settings.node.name;
        let around = Around::new(job, &launch, &described, node);
        let run = |file: &_| command(file, prolog, scripts.most, Orphaned::Killed);
        let started = Script::start(("prolog", prolog), (&around, node), scripts.most, &self.wards, run);
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
        self.preparing.begin(job, Preparation::new(number, launch, described, group));
    }

    /// The prolog of a part is over: its starter is due, or the part ends.
    pub(super) fn handle_prepared(
        &mut self,
        job: JobId,
        number: u64,
        result: Result<(), String>,
    ) -> Option<Event> {
        let why = match result {
            Ok(()) => {
                self.put_due(job, number);
                return None;
            }
            Err(why) => why,
        };
        let is_stopped = self.preparing.take(job, number)?.group.is_stopped();
        Some(Event::StarterGone(job, if is_stopped { killed_before() } else { StarterEnd::Unprepared(why) }))
    }

    /// The starter of a part may begin, unless epilogs of its account wait.
    fn put_due(&mut self, job: JobId, number: u64) {
        match self.preparing.account_of(job) {
            Some(account) if self.epilogs.has_waiting_of(account) => {
                self.preparing.hold(account, job, number);
            }
            _ => self.preparing.put_due(job, number),
        }
    }

    /// Begins starters that are due, for a while.
    pub(super) fn start_due(&mut self) {
        let began = Instant::now();
        while let Some((job, preparation)) = self.preparing.take_due() {
            let gone = self.start_prepared(job, preparation);
            gone.into_iter().for_each(|event| self.core.handle(now(), event));
            self.act();
            if began.elapsed() >= START_TURN {
                break;
            }
        }
    }

    fn start_prepared(&mut self, job: JobId, preparation: Preparation) -> Option<Event> {
        let Preparation { launch, described, group, frames, record, .. } = preparation;
        if group.is_stopped() {
            return Some(Event::StarterGone(job, killed_before()));
        }
        self.start(job, &launch, described);
        if let Some(record) = record {
            self.record_starter(job, *record);
        }
        let starter = self.starters.get(&job)?;
        frames.iter().for_each(|(kind, number, payload)| starter.put(*kind, *number, payload));
        if frames.iter().any(|(kind, number, _)| *kind == Kind::Kill && *number != wire::SPARE_FILTERS) {
            self.kill_later(job, starter);
        }
        None
    }

    /// Keeps for the next daemon that a part owes an epilog.
    pub(super) fn owe_epilog(&self, job: JobId, file: &File) {
        if let (Some(_), Some(around)) = (&self.settings.node.scripts.epilog, &file.around) {
            self.owed.put(job, &Owing { around: around.clone(), pid: file.pid, since: file.since });
        }
    }

    /// Takes over parts whose epilogs an earlier daemon has not begun. Those of which there are records end
    /// with these ([`Self::end_starter`]); others have ended, and their starters may be dying still.
    pub(super) fn take_over_owed(&mut self) {
        for (job, Owing { around, pid, since }) in self.owed.load() {
            if !self.starters.contains_key(&job) {
                let file = File { around: Some(around), ..File::of_none(pid, since) };
                self.bury_starter(job, Starter::away(file), None);
            }
        }
    }

    /// Ends the starter of a part that is over everywhere. One of an earlier daemon that is not here has the
    /// time in which it may come to hear so.
    pub(super) fn end_starter(&mut self, job: JobId) {
        let Some(starter) = self.starters.get_mut(&job) else { return };
        starter.end();
        if starter.is_away()
            && let Some(starter) = self.starters.remove(&job)
        {
            self.bury_starter(job, starter, None);
        }
    }

    /// The starter of a part is dead: its epilog begins, if there is one, and the part is over. None: others
    /// go before it.
    pub(super) fn handle_buried(&mut self, buried: Buried) -> Option<Event> {
        if self.settings.node.scripts.epilog.is_none() {
            self.owed.remove(buried.job);
            return Some(buried.gone);
        }
        let buried = self.epilogs.begin(buried)?;
        Some(self.begin_epilog(buried))
    }

    /// An epilog is over. If it has failed the core is notified; another one of the same account may begin.
    pub(super) fn handle_epilog_over(&mut self, account: u32, failure: Option<String>) -> Option<Event> {
        if let Some(buried) = self.epilogs.end(account) {
            let gone = self.begin_epilog(buried);
            let _ = self.shell_events.send(ShellEvent::Core(gone));
        }
        if !self.epilogs.has_waiting_of(account) {
            self.preparing.release(account);
        }
        failure.map(Event::EpilogFailed)
    }

    /// The end of the part is the answer, since it is over now.
    fn begin_epilog(&self, buried: Buried) -> Event {
        let Buried { job, around, gone } = buried;
        let (shell_events, account) = (self.shell_events.clone(), around.account());
        let done = move |result: Result<(), String>| {
            drop(shell_events.send(ShellEvent::EpilogOver(account, result.err())));
        };
        let scripts = &self.settings.node.scripts;
        let Some(epilog) = &scripts.epilog else {
            done(Ok(()));
            return gone;
        };
        let (node, most) = (&self.settings.node.name, scripts.most);
        let run = |file: &_| command(file, epilog, most, Orphaned::GoesOn);
        match Script::start(("epilog", epilog), (&around, node), most, &self.wards, run) {
            Ok(script) => drop(in_thread(script, done)),
            Err(why) => done(Err(why)),
        }
        // Killed right here, the daemon leaves one that the next one begins again.
        self.owed.remove(job);
        gone
    }
}

fn killed_before() -> StarterEnd {
    StarterEnd::Died("it was killed before its ranks began".into())
}
