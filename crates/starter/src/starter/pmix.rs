//! What the starter does about its PMIx server ([`crate::pmix`]).

use rustix::process::Pid;

use super::Starter;
use crate::parts::Parts;
use crate::pmi::PmiEvent;
use crate::pmix::{Pmix, PmixEvent};
use crate::readiness::now_ns;
use tutti_protocol::wire::Library;

impl Starter {
    /// The server, which lives until its ranks are dead and what they have sent has come.
    pub(super) fn pmix_server(&self) -> Option<Pid> {
        self.parts.foreign.as_ref().and_then(|foreign| foreign.pmix.as_ref()).map(Pmix::pid)
    }

    /// Looks whether the server still works. Where jobs are frozen by signals it is stopped with the ranks,
    /// and a daemon that does it for its turns tells nobody.
    pub(super) fn look_at_pmix(&mut self, now_ns: u64) {
        let due_ns = self.parts.foreign.as_ref().and_then(|foreign| foreign.pmix.as_ref()?.due_ns());
        if due_ns.is_some_and(|due_ns| now_ns >= due_ns) {
            let is_frozen = self.frozen || self.suspended;
            let Parts { foreign, ranks, .. } = &mut self.parts;
            let pmix = foreign.as_mut().and_then(|foreign| foreign.pmix.as_mut());
            let is_stopped = pmix.is_some_and(|pmix| pmix.is_stopped());
            // The ranks after the server: they are stopped in one go, and go on in one.
            let is_alone = is_stopped && !is_frozen && !ranks.are_any_stopped();
            self.run_pmix(|pmix| pmix.handle_time(now_ns, is_alone));
        }
    }

    /// All ranks are dead. What a rank has sent to explain its end may still be on its way.
    pub(super) fn end_pmix(&mut self) {
        if self.parts.ranks.status() != 0 && !self.hurried {
            self.run_pmix(Pmix::flush_blocking);
        }
        self.parts.foreign.iter_mut().for_each(|foreign| foreign.pmix = None);
    }

    /// Runs a step of the server and acts on its events.
    pub(super) fn run_pmix(&mut self, step: impl FnOnce(&mut Pmix) -> Vec<PmixEvent>) {
        let Some(pmix) = self.parts.foreign.as_mut().and_then(|foreign| foreign.pmix.as_mut()) else {
            return;
        };
        for event in step(pmix) {
            match event {
                PmixEvent::Ready => self.launch_if_ready(),
                // The kernel may have refused a process to it.
                PmixEvent::Rank(rank, _) if rank as usize >= self.parts.ranks.count() => {}
                PmixEvent::Rank(_, event) => {
                    self.log_debug(|| format!("PMIx: {event:?}"));
                    if let PmiEvent::Started(_) = event {
                        self.note_library(Library::Pmix);
                    }
                    if let Some(ended) = self.parts.ranks.handle_pmi(&event) {
                        self.handle_ended(ended);
                    }
                }
                PmixEvent::Text(rank, text) => self.parts.streams.add_lines(rank, &text, now_ns()),
                PmixEvent::Fence(fence, given) => self.send_fence(fence, &given),
                PmixEvent::Flushed => {}
                // A job that ends anyway kills its server.
                PmixEvent::Failed(line) if !self.parts.ranks.is_ending() => self.refuse(line, 1),
                PmixEvent::Failed(_) => {}
            }
        }
    }
}
