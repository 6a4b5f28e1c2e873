//! Ranks ask for more ranks. These are further ranks of the job, numbered behind those that are there, all or
//! none. Numbers of ranks that have ended are used again ([`tutti_shm::reuse`]); a request that needs such
//! numbers waits for them.
//!
//! ```text
//! request -> room, tickets, forks -> all have become their programs -> answer: the first of them
//!                 |                     '- one could not -> all are withdrawn -> answer: which ones, and why
//!                 '- no room, no process: answer at once
//! ```
//!
//! In a job on several nodes all starters do so under the hub's order ([`crate::spawning`]).

use std::path::PathBuf;

use tutti_protocol::wire::{self, Job, Kind, Report};
use tutti_shm::layout::LOCAL_RANKS_MAX;
use tutti_shm::segment::Segment;
use tutti_shm::spawn::{Answer, Request};

use crate::pmi::spawning::{Command, Pair};
use crate::pmi::word::Word;
use crate::readiness::now_ns;
use crate::spawning::{Allocation, Ask, Asked, Spawning, Waiting};

mod order;
mod outcome;
mod programs;

use super::Starter;
use programs::program_over_pmi;

/// Asks of ranks of this node that wait for the hub's order, at most.
const ASKS_MAX: usize = 64;
/// Requests that wait for the end of others, at most.
const WAITING_MAX: usize = 64;
/// Between two looks at them; between two asks of a node at first, and at most.
const LOOK_NS: u64 = 5_000_000;
const LOOK_NS_MAX: u64 = 200_000_000;
/// A rank that has left those that started it, or MPI, has this time to end and to be forgotten.
const WAIT_NS: u64 = 10_000_000_000;

impl Starter {
    /// The ranks of this node have started; from now on they may ask for more.
    pub(super) fn allow_later_ranks(&mut self, job: Job) {
        let later = self.parts.segment.as_ref().map_or(0, |segment| {
            let geometry = segment.geometry();
            geometry.world_room() - geometry.world_ranks
        });
        self.later.allocation = Some(Allocation::new(&job, later));
        self.later.job = Some(job);
        for (order, payload) in self.later.take_early() {
            self.handle_spawn(order, &payload);
        }
    }

    /// A rank asks for more.
    pub(super) fn spawn(&mut self, rank: u32, request: &Request) {
        // What a rank has sent may come behind its end.
        if self.parts.ranks.is_ending() || !self.parts.ranks.may_ask(rank) {
            return;
        }
        let ask = Ask { parent: self.parts.ranks.world_rank(rank), request: request.clone() };
        if self.alone {
            return self.begin_or_wait(ask, None);
        }
        if self.later.asks.len() + self.later.again.len() >= ASKS_MAX {
            let text = format!("{ASKS_MAX} requests of this node for more ranks wait already");
            let answer = Answer { number: request.number, first: None, failed: Vec::new(), text };
            return self.parts.tickets.iter().for_each(|tickets| tickets.send(rank, &answer.encode()));
        }
        // It came in a message that was as short.
        let Some(ask) = ask.encode() else { return };
        self.put_ask(Asked { ask, ends_ns: now_ns() + WAIT_NS, name: None });
    }

    pub(super) fn put_ask(&mut self, asked: Asked) {
        self.later.asks.push_back(asked);
        if self.later.asks.len() == 1 {
            self.send_ask();
        }
    }

    /// A program of MPICH wants more processes.
    pub(super) fn spawn_over_pmi(&mut self, rank: u32, commands: Vec<Command>) {
        let wanted = commands.iter().fold(0_u32, |sum, command| sum.saturating_add(command.ranks));
        let preput = commands.first().map(|command| command.preput.clone()).unwrap_or_default();
        // The number is that of the ranks that the answer is about.
        if !self.ask_for_programs(rank, commands, preput, wanted) {
            let answered = if wanted > LOCAL_RANKS_MAX { 1 } else { wanted };
            self.run_pmi(|pmi| pmi.answer_spawn(rank, answered, false));
        }
    }

    /// A rank, counted on this node, wants more processes over PMI or PMIx; `given`: what comes with them
    /// ([`Word::Spawn`]). Programs are searched where it is, and in PATH. `false`: none will be started.
    pub(super) fn ask_for_programs(
        &mut self,
        rank: u32,
        commands: Vec<Command>,
        given: Vec<Pair>,
        number: u32,
    ) -> bool {
        let parent = self.parts.ranks.world_rank(rank);
        let here =
            self.parts.ranks.pid_of(rank).and_then(|pid| std::fs::read_link(format!("/proc/{pid}/cwd")).ok());
        let here = here.unwrap_or_else(|| PathBuf::from("/"));
        let wanted = commands.iter().fold(0_u32, |sum, command| sum.saturating_add(command.ranks));
        let programs = commands.into_iter().map(|command| program_over_pmi(command, &here)).collect();
        if wanted > LOCAL_RANKS_MAX {
            let text = format!("{wanted} are more than a job may have on a node ({LOCAL_RANKS_MAX})");
            self.refuse_programs(parent, &text);
            return false;
        }
        let ask = Ask { parent, request: Request { number, context: 0, programs } };
        if self.alone {
            self.begin_or_wait(ask, Some(given));
            return true;
        }
        let is_full = self.later.asks.len() + self.later.again.len() >= ASKS_MAX;
        let word = ask.encode().and_then(|ask| Word::Spawn(given, ask).encode());
        let Some(ask) = word.filter(|_| !is_full) else {
            let text = match is_full {
                true => format!("{ASKS_MAX} requests of this node for more ranks wait already"),
                false => {
                    "its commands and their environments are too long to be told to the other nodes".into()
                }
            };
            self.refuse_programs(parent, &text);
            return false;
        };
        self.put_ask(Asked { ask, ends_ns: now_ns() + WAIT_NS, name: None });
        true
    }

    /// Says why a rank gets no more processes over PMI or PMIx.
    pub(super) fn refuse_programs(&mut self, parent: u32, text: &str) {
        let line = format!("rank {parent} gets no more processes (MPI_Comm_spawn): {text}");
        self.report(&Report::Warning(line));
    }

    /// Begins at once, or when ranks that are about to end have ended, if there is room only then.
    fn begin_or_wait(&mut self, ask: Ask, preput: Option<Vec<Pair>>) {
        self.take_back_numbers();
        let wanted: u32 =
            ask.request.programs.iter().fold(0, |sum, program| sum.saturating_add(program.ranks));
        let room = self.later.allocation.as_ref().map_or(0, Allocation::room);
        let is_decided =
            wanted <= room || wanted > room + self.ending_ranks() || self.later.waiting.len() >= WAITING_MAX;
        if is_decided && !self.awaits_server() {
            return self.begin_spawn(self.later.begun + 1, &ask, preput.as_deref(), true, None);
        }
        let now_ns = now_ns();
        self.later.waiting.push_back(Waiting {
            ask,
            preput,
            due_ns: now_ns + LOOK_NS,
            ends_ns: now_ns + WAIT_NS,
        });
    }

    /// Looks again at requests that wait.
    pub(super) fn handle_spawn_time(&mut self, now_ns: u64) {
        if self.spawn_due_ns().is_none_or(|due_ns| now_ns < due_ns) {
            return;
        }
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.later.again).into_iter().partition(|(due_ns, _)| *due_ns <= now_ns);
        self.later.again = later;
        due.into_iter().for_each(|(_, asked)| self.put_ask(asked));
        self.take_back_numbers();
        self.drop_asks();
        for mut waiting in std::mem::take(&mut self.later.waiting) {
            let programs = &waiting.ask.request.programs;
            let wanted: u32 = programs.iter().fold(0, |sum, program| sum.saturating_add(program.ranks));
            let room = self.later.allocation.as_ref().map_or(0, Allocation::room);
            let is_decided =
                wanted <= room || wanted > room + self.ending_ranks() || now_ns >= waiting.ends_ns;
            if is_decided && !self.awaits_server() {
                self.begin_spawn(self.later.begun + 1, &waiting.ask, waiting.preput.as_deref(), true, None);
            } else {
                waiting.due_ns = now_ns + LOOK_NS;
                self.later.waiting.push_back(waiting);
            }
        }
    }

    /// Requests of ranks of this node that have ended wait no longer.
    pub(super) fn drop_asks(&mut self) {
        let ranks = &self.parts.ranks;
        let may_ask = |rank: u32| ranks.index_of(rank).is_none_or(|index| ranks.may_ask(index as u32));
        self.later.waiting.retain(|waiting| may_ask(waiting.ask.parent));
    }

    pub(super) fn spawn_due_ns(&self) -> Option<u64> {
        let again = self.later.again.iter().map(|(due_ns, _)| *due_ns);
        self.later.waiting.iter().map(|waiting| waiting.due_ns).chain(again).min()
    }

    /// Later ranks whose numbers may soon be free.
    fn ending_ranks(&self) -> u32 {
        let (Some(segment), Some(allocation)) = (&self.parts.segment, &self.later.allocation) else {
            return 0;
        };
        let ranks = &self.parts.ranks;
        let later = segment.geometry().local_ranks..segment.present();
        later
            .filter(|index| !allocation.is_free(ranks.world_rank(*index)))
            .filter(|index| {
                // Those that were taken back have been killed, and may not be dead yet.
                let is_killed = ranks.is_withdrawn(*index) || ranks.is_ended_alone(*index);
                is_killed || ranks.has_ended(*index) || segment.is_ending(*index as usize)
            })
            .count() as u32
    }

    /// Whether ranks have got their numbers that the PMIx server does not expect yet: no others get theirs.
    fn awaits_server(&self) -> bool {
        self.parts.spawnings.iter().any(Spawning::awaits_server)
    }

    /// The numbers of ranks that have ended and that all others have forgotten are free.
    fn take_back_numbers(&mut self) {
        if self.awaits_server() {
            return;
        }
        let (Some(segment), Some(allocation)) = (&self.parts.segment, &mut self.later.allocation) else {
            return;
        };
        if !self.alone {
            return;
        }
        let ranks = &self.parts.ranks;
        for index in segment.geometry().local_ranks..segment.present() {
            let rank = ranks.world_rank(index);
            if ranks.has_ended(index) && !allocation.is_free(rank) && segment.is_forgotten(index as usize) {
                allocation.give_back(rank);
            }
        }
        segment.set_later(allocation.later());
    }

    /// A rank is dead: if it was started later and had left, others may forget it.
    pub(super) fn announce_end(&self, index: u32) {
        if self.parts.ranks.has_ended(index) {
            self.parts.segment.iter().for_each(Segment::announce_end);
        }
    }

    /// No rank may be left here, and another node's may ask for some.
    pub(super) fn may_get_ranks(&self) -> bool {
        let (Some(job), Some(allocation)) = (&self.later.job, &self.later.allocation) else { return false };
        let is_open = !self.may_leave && !self.parts.ranks.is_ending() && self.is_reachable();
        !self.alone && is_open && allocation.has_room_on(job.node())
    }

    /// Tells the hub as of which order no rank is left here, once for each order.
    pub(super) fn report_emptiness(&mut self) {
        let order = self.later.begun;
        if self.later.empty == Some(order) || !self.parts.ranks.all_dead() || !self.may_get_ranks() {
            return;
        }
        let is_ours = |spawning: &Spawning| spawning.asked.is_some() || !spawning.local.is_empty();
        let waits = !self.later.asks.is_empty() || !self.later.again.is_empty();
        if !waits && !self.parts.spawnings.iter().any(is_ours) {
            self.later.empty = Some(order);
            self.report(&Report::Empty(order));
        }
    }

    /// Tells the hub of the next Ask.
    fn send_ask(&mut self) {
        let Some(ask) = self.later.asks.front() else { return };
        self.later.asked += 1;
        let mut frame = Vec::new();
        wire::put(&mut frame, Kind::Ask, self.later.asked, &ask.ask);
        self.reconnect.iter_mut().for_each(|reconnect| reconnect.keep_ask(Some(frame.clone())));
        self.put(&frame);
    }
}
