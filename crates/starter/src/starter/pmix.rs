//! Handling of the PMIx server by the starter ([`crate::pmix`]).

use rustix::process::Pid;

use super::Starter;
use crate::parts::Parts;
use crate::pmi::PmiEvent;
use crate::pmi::spawning;
use crate::pmi::word::Word;
use crate::pmix::{Pmix, PmixEvent};
use crate::readiness::now_ns;
use tutti_pmix::wire::Command;
use tutti_protocol::wire::{Job, Library};

/// Bytes that the server of this node has to tell the others and has not told yet, at most.
const WORDS_BYTES_MAX: usize = 64 << 20;

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

    /// A rank is dead. One that is in the midst of it may have died since the server has: then that is the
    /// cause.
    pub(super) fn await_pmix_end(&mut self, rank: u32) {
        if !self.parts.ranks.is_ending() && self.parts.ranks.is_attached(rank) {
            self.run_pmix(Pmix::await_end);
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
                PmixEvent::Started(rank) => self.handle_pmix_rank(rank, PmiEvent::Started),
                PmixEvent::Finished(rank) => self.handle_pmix_rank(rank, PmiEvent::Finished),
                PmixEvent::Abort(rank, code) => {
                    self.handle_pmix_rank(rank, |rank| PmiEvent::Abort(rank, code));
                }
                PmixEvent::Text(rank, text) => self.parts.streams.add_lines(rank, &text, now_ns()),
                PmixEvent::Fence(fence, given) => self.send_fence(fence, &given),
                PmixEvent::Word(piece) => self.send_pmix_word(piece),
                PmixEvent::Admitted(order, outcome) => self.handle_admitted(order, outcome),
                PmixEvent::Spawn { number, rank, commands } => self.spawn_over_pmix(number, rank, commands),
                PmixEvent::Clock => self.tell_frozen(),
                PmixEvent::Flushed => {}
                // A job that ends anyway kills its server.
                PmixEvent::Failed(line) if !self.parts.ranks.is_ending() => self.refuse(line, 1),
                PmixEvent::Failed(_) => {}
            }
        }
    }

    /// An event of a rank: the server is the user's, so it may be none of this node.
    fn handle_pmix_rank(&mut self, rank: u32, event: impl FnOnce(u32) -> PmiEvent) {
        let Some(index) = self.parts.ranks.index_of(rank) else { return };
        let event = event(index as u32);
        self.log_debug(|| format!("PMIx: {event:?}"));
        if let PmiEvent::Started(_) = event {
            self.note_library(Library::Pmix);
        }
        if let Some(ended) = self.parts.ranks.handle_pmi(&event) {
            self.handle_ended(ended);
        }
    }

    /// The servers of all nodes get it, this one too.
    fn send_pmix_word(&mut self, piece: Vec<u8>) {
        let waiting: usize = self.later.asks.iter().map(|asked| asked.ask.len()).sum();
        let Some(node) = self.later.job.as_ref().map(Job::node).filter(|_| !self.alone) else { return };
        let is_sent = waiting <= WORDS_BYTES_MAX && self.send_word(&Word::Pmix { node, piece }, None);
        if !is_sent && !self.parts.ranks.is_ending() {
            let line = "the ranks ask more over PMIx than the other nodes can be told (64 MiB on a node)";
            self.refuse(line.into(), 1);
        }
    }

    fn tell_frozen(&mut self) {
        let ns = self.parts.pages.frozen_ns();
        self.run_pmix(|pmix| {
            pmix.tell_frozen(ns);
            Vec::new()
        });
    }

    /// A program of Open MPI wants more processes.
    fn spawn_over_pmix(&mut self, number: u32, rank: u32, commands: Vec<Command>) {
        let environments = commands.iter().map(|command| &command.environment).enumerate();
        let given = environments.flat_map(|(program, list)| {
            list.iter().map(move |text| (program.to_string().into_bytes(), text.clone()))
        });
        let given = given.collect();
        let commands = commands.into_iter().map(|command| {
            let hints = [(&b"wdir"[..], command.directory), (b"host", command.host)];
            let hints = hints.into_iter().filter(|(_, value)| !value.is_empty());
            spawning::Command {
                ranks: command.ranks,
                file: command.file,
                arguments: command.arguments,
                hints: hints.map(|(name, value)| (name.to_vec(), value)).collect(),
                preput: Vec::new(),
            }
        });
        let commands = commands.collect();
        let asker = self.parts.ranks.index_of(rank);
        let asked = asker.map(|asker| self.ask_for_programs(asker as u32, commands, given, number));
        if asked != Some(true) {
            self.answer_pmix_spawn(number, None);
        }
    }

    pub(super) fn answer_pmix_spawn(&mut self, number: u32, order: Option<u32>) {
        self.run_pmix(|pmix| {
            pmix.answer_spawn(number, order);
            Vec::new()
        });
    }
}
