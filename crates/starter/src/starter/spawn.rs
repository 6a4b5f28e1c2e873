//! Ranks ask for more ranks. These are further ranks of the job, numbered behind those that are there, all or
//! none; a number is never used again.
//!
//! ```text
//! request -> room, tickets, forks -> all have become their programs -> answer: the first of them
//!                 |                     '- one could not -> all are withdrawn -> answer: which ones, and why
//!                 '- no room, no process: answer at once
//! ```

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use tutti_os::Failure;
use tutti_protocol::wire::{Program, Text};
use tutti_shm::spawn::{Answer, Request, Spawned};

use super::Starter;
use crate::launch;
use crate::spawning::Spawning;

impl Starter {
    /// A rank asks for more.
    pub(super) fn spawn(&mut self, rank: u32, request: &Request) {
        if self.parts.ranks.is_ending() {
            return;
        }
        let parent = self.parts.segment.as_ref().map_or(0, |segment| segment.geometry().first_rank) + rank;
        if let Err(text) = self.try_spawn(parent, request) {
            self.log_debug(|| format!("rank {parent} gets no more ranks: {text}"));
            self.answer(rank, &Answer { number: request.number, first: None, failed: Vec::new(), text });
        }
    }

    fn try_spawn(&mut self, parent: u32, request: &Request) -> Result<(), String> {
        let Some(job) = self.job.clone() else {
            return Err(match self.alone {
                true => "the kernel has refused this job a process before".into(),
                false => {
                    "more ranks can be started only in a job that mpiexec has started on one node by itself"
                        .into()
                }
            });
        };
        let wanted: u64 = request.programs.iter().map(|program| u64::from(program.ranks)).sum();
        let (Some(segment), Some(tickets)) = (&self.parts.segment, &mut self.parts.tickets) else {
            return Err("the job is about to end".into());
        };
        let (present, room) = (segment.present(), segment.geometry().room());
        let ranks = u32::try_from(wanted).ok().filter(|ranks| *ranks > 0 && segment.add_ranks(*ranks));
        let Some(ranks) = ranks else {
            return Err(format!(
                "{wanted} more ranks: the job has started {present}, and has room for {room} in all (mpiexec --universe N makes more)"
            ));
        };
        if let Err(error) = tickets.add(ranks as usize) {
            self.job = None;
            return Err(format!("cannot draw random bytes: {error}"));
        }
        let place =
            Spawned { first: present, ranks, context: request.context, parent, number: request.number };
        // They get the environment of those that ask for them.
        let Some(origin) = job.programs.get(job.program_of(parent.into())).or(job.programs.first()) else {
            return Err("the job has no program".into());
        };
        let text = |bytes: &[u8]| Text::from(OsStr::from_bytes(bytes).to_owned());
        let program = |program: &tutti_shm::spawn::Program| Program {
            file: text(&program.file),
            arguments: program.arguments.iter().map(|argument| text(argument)).collect(),
            ranks: program.ranks,
            directory: (!program.directory.is_empty()).then(|| text(&program.directory)),
            ..origin.clone()
        };
        let programs: Vec<Program> = request.programs.iter().map(program).collect();
        match launch::spawn(&job, &programs, place, &mut self.parts) {
            Ok(failures) => {
                self.parts.spawnings.push(Spawning::new(place, failures));
                Ok(())
            }
            Err(error) => {
                // Numbers that have no process: none comes behind them.
                self.job = None;
                self.withdraw(place);
                Err(error.to_string())
            }
        }
    }

    /// Takes back those that have been started.
    fn withdraw(&mut self, place: Spawned) {
        let first = self.parts.ranks.index_of(place.first).unwrap_or(0) as u32;
        for index in first..first + place.ranks {
            self.parts.tickets.iter_mut().for_each(|tickets| tickets.revoke(index));
            if (index as usize) < self.parts.ranks.count() {
                self.parts.ranks.withdraw(index);
            } else {
                // Its number stays without a process.
                self.parts.segment.iter().for_each(|segment| segment.mark_left(index as usize));
            }
        }
    }

    /// Something has come from ranks that are becoming their programs.
    pub(super) fn handle_spawning(&mut self, index: usize) {
        let Some(spawning) = self.parts.spawnings.get_mut(index) else { return };
        let (is_over, has_failed, place) = (spawning.is_over(), !spawning.failed.is_empty(), spawning.place);
        if has_failed {
            // At once: the death of the one that has failed may be judged next.
            self.withdraw(place);
        }
        if !is_over {
            return;
        }
        let Spawning { failed, .. } = self.parts.spawnings.remove(index);
        let text = failed.first().map(|failure| self.failure_text(failure));
        self.log_debug(|| format!("rank {} has started {place:?}: {text:?}", place.parent));
        let answer = Answer {
            number: place.number,
            first: text.is_none().then_some(place.first),
            failed: failed.iter().map(|failure| failure.rank.saturating_sub(place.first)).collect(),
            text: text.unwrap_or_default(),
        };
        let parent = self.parts.ranks.index_of(place.parent).unwrap_or(0) as u32;
        self.answer(parent, &answer);
    }

    /// The same for all, before a death is judged.
    pub(super) fn handle_spawnings(&mut self) {
        (0..self.parts.spawnings.len()).rev().for_each(|index| self.handle_spawning(index));
    }

    fn failure_text(&self, failure: &Failure) -> String {
        let name = self.parts.ranks.index_of(failure.rank).and_then(|at| self.parts.names.get(at));
        launch::failure_text(name.map_or("the program", String::as_str), failure)
    }

    fn answer(&self, rank: u32, answer: &Answer) {
        if let Some(tickets) = &self.parts.tickets {
            tickets.send(rank, &answer.encode());
        }
    }
}
