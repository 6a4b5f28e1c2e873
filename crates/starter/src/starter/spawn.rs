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

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tutti_os::Failure;
use tutti_pmix::wire::Newcomers;
use tutti_protocol::wire::{self, Job, Kind, Program, Report, Text};
use tutti_shm::layout::LOCAL_RANKS_MAX;
use tutti_shm::numbers::node_of_later;
use tutti_shm::segment::Segment;
use tutti_shm::spawn::{Answer, Request, Spawned};

use super::Starter;
use crate::environment::is_of_pmix;
use crate::launch;
use crate::pmi::Pmi;
use crate::pmi::group::Placement;
use crate::pmi::spawning::{Command, Pair};
use crate::pmi::word::Word;
use crate::readiness::now_ns;
use crate::spawning::{Allocation, Ask, Asked, Outcome, Over, Spawning, Start, Waiting, Wanted};

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
    }

    /// A rank asks for more.
    pub(super) fn spawn(&mut self, rank: u32, request: &Request) {
        if self.parts.ranks.is_ending() {
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
            return false;
        }
        let ask = Ask { parent, request: Request { number, context: 0, programs } };
        if self.alone {
            self.begin_or_wait(ask, Some(given));
            return true;
        }
        let is_full = self.later.asks.len() + self.later.again.len() >= ASKS_MAX;
        let word = ask.encode().and_then(|ask| Word::Spawn(given, ask).encode());
        let Some(ask) = word.filter(|_| !is_full) else { return false };
        self.put_ask(Asked { ask, ends_ns: now_ns() + WAIT_NS, name: None });
        true
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
                ranks.is_withdrawn(*index) || ranks.has_ended(*index) || segment.is_ending(*index as usize)
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

    /// The hub's order: ranks of a node, perhaps of this one, are to be started.
    pub(super) fn handle_spawn(&mut self, order: u32, payload: &[u8]) {
        if order != self.later.begun + 1 {
            // A daemon may say it again.
            return;
        }
        let word = |at: usize| {
            payload.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
        };
        let wanted = payload.get(8..).and_then(Wanted::decode);
        let (Some(node), Some(number), Some(wanted)) = (word(0), word(4), wanted) else {
            return self.lose_front("sent invalid ranks to be started");
        };
        let own = self.later.job.as_ref().map(Job::node);
        let is_mine = own == Some(node);
        let mut asked = None;
        if is_mine && number == self.later.asked && !self.later.asks.is_empty() {
            asked = self.later.asks.pop_front();
            self.reconnect.iter_mut().for_each(|reconnect| reconnect.keep_ask(None));
            self.send_ask();
        }
        match wanted {
            Wanted::Ranks(ask, preput) => self.begin_spawn(order, &ask, preput.as_deref(), is_mine, asked),
            Wanted::Word(word) => self.begin_word(order, &word, asked),
        }
    }

    /// Starts the share of this node.
    fn begin_spawn(
        &mut self,
        order: u32,
        ask: &Ask,
        preput: Option<&[Pair]>,
        is_mine: bool,
        asked: Option<Asked>,
    ) {
        self.later.begun = order;
        let asker = self.parts.ranks.index_of(ask.parent).filter(|_| is_mine);
        let mut spawning = Spawning::new(order, asker.map(|asker| (asker as u32, ask.request.number)));
        spawning.asked = asked;
        if preput.is_some() {
            spawning.over = Over::Ranks(None);
        }
        if let Err(text) = self.try_spawn(ask, preput, &mut spawning) {
            self.log_debug(|| format!("rank {} gets no more ranks: {text}", ask.parent));
            spawning.refuse(text);
        }
        self.add_spawning(spawning);
    }

    /// An order has begun.
    pub(super) fn add_spawning(&mut self, spawning: Spawning) {
        let is_over = spawning.is_known();
        self.parts.spawnings.push(spawning);
        if is_over {
            self.handle_known(self.parts.spawnings.len() - 1);
        }
    }

    fn try_spawn(
        &mut self,
        ask: &Ask,
        given: Option<&[Pair]>,
        spawning: &mut Spawning,
    ) -> Result<(), String> {
        let Ask { parent, request } = ask;
        let Some(allocation) = &mut self.later.allocation else {
            return Err("the ranks of a node have not started yet".into());
        };
        // Before anything is taken for it, and the same on all nodes. The library sends no such request.
        let is_text = |text: &Vec<u8>| !text.contains(&0);
        let is_program = |program: &tutti_shm::spawn::Program| {
            let mut texts = [&program.file, &program.directory].into_iter().chain(&program.arguments);
            program.ranks > 0 && !program.file.is_empty() && texts.all(is_text)
        };
        if request.programs.is_empty() || !request.programs.iter().all(is_program) {
            return Err("the request names no programs that can be executed".into());
        }
        // The same on all nodes, whatever becomes of it here.
        let hosts = match &self.later.job {
            Some(job) => Hosts::of(job, *parent),
            None => Hosts::default(),
        };
        let wishes = request.programs.iter().map(|program| Ok((program.ranks, hosts.node(&program.host)?)));
        let wishes = wishes.collect::<Result<Vec<_>, String>>()?;
        let ranks = allocation.take(&wishes).inspect_err(|_| {
            spawning.excess = Some(wishes.iter().fold(0, |sum, (ranks, _)| sum.saturating_add(*ranks)));
        })?;
        let later = allocation.later();
        let job = self.later.job.clone().ok_or("the kernel has refused this job random bytes before")?;
        let Some(segment) = &self.parts.segment else {
            return Err(format!("the job is over on node {}", hosts.name(job.node() as usize)));
        };
        let numbers = *segment.layout().numbers();
        let place = Spawned { ranks, context: request.context, parent: *parent, number: request.number };
        let mine = place.ranks.iter().map(|rank| numbers.index_of(*rank as usize));
        spawning.local = mine.filter(|index| *index < numbers.len()).map(|index| index as u32).collect();
        // They get the environment of those that ask for them.
        let Some(origin) = job.programs.get(job.program_of(u64::from(*parent))).or(job.programs.first())
        else {
            return Err("the job has no program".into());
        };
        let programs = programs_of(request, origin, given.filter(|_| self.pmix_server().is_some()));
        let Some(foreign) = self.parts.foreign.as_mut() else { return Err("the job is over".into()) };
        let start = Start { place, programs, later };
        match (&mut foreign.pmix, given) {
            (Some(pmix), Some(_)) => {
                pmix.admit(newcomers(spawning.order, &start, &job), spawning.local.clone());
                if !spawning.local.is_empty() {
                    spawning.await_server(start);
                    return Ok(());
                }
            }
            (Some(pmix), None) => pmix.forget_variables(&spawning.local),
            (None, Some(preput)) => {
                let group = begin_group(&mut foreign.pmi, spawning.order, &start, preput, &job);
                spawning.over = Over::Ranks(group);
            }
            (None, None) => {}
        }
        self.start(start, None, spawning)
    }

    /// The PMIx server expects the ranks of an order, or refuses them.
    pub(super) fn handle_admitted(&mut self, order: u32, outcome: Result<(), String>) {
        let all = self.parts.spawnings.iter_mut().enumerate();
        let taken = all.filter_map(|(at, one)| Some((at, one.take_start(order)?))).next();
        let Some((at, (start, mut spawning))) = taken else { return };
        if let Err(text) = self.start(start, outcome.err(), &mut spawning) {
            self.log_debug(|| format!("order {order} starts none: {text}"));
            spawning.refuse(text);
        }
        let is_over = spawning.is_known();
        self.parts.spawnings[at] = spawning;
        if is_over {
            self.handle_known(at);
        }
    }

    /// Starts those of this node. `refusal`: they get no processes, for this reason.
    fn start(
        &mut self,
        start: Start,
        refusal: Option<String>,
        spawning: &mut Spawning,
    ) -> Result<(), String> {
        let Start { place, programs, later } = start;
        let (Some(segment), Some(tickets)) = (&self.parts.segment, &mut self.parts.tickets) else {
            return Err("the job is over".into());
        };
        let job = self.later.job.clone().ok_or("the kernel has refused this job random bytes before")?;
        segment.set_later(later);
        if spawning.local.is_empty() {
            spawning.place = Some(place);
            return Ok(());
        }
        let present = segment.present();
        // Some have the numbers of ranks that have ended.
        let (again, new): (Vec<u32>, Vec<u32>) = spawning.local.iter().partition(|index| **index < present);
        let drawn = again.iter().try_for_each(|index| tickets.renew(*index));
        if let Err(error) = drawn.and_then(|()| tickets.add(new.len())) {
            self.later.job = None;
            return Err(format!("cannot draw random bytes: {error}"));
        }
        for index in &again {
            segment.renew(*index as usize);
            self.parts.absent.0.forget(*index);
        }
        let count = present + new.len() as u32;
        if !segment.add_ranks(new.len() as u32) {
            return Err("the segment has no room for them".into());
        }
        let group = if let Over::Ranks(group) = spawning.over { group } else { None };
        let spawned = match refusal {
            None => launch::spawn(&job, &programs, &place, group, &mut self.parts)
                .map_err(|error| error.to_string()),
            Some(text) => Err(text),
        };
        spawning.place = Some(place);
        spawned.map(|failures| spawning.await_programs(failures)).inspect_err(|_| {
            // Those that have got no process have ended: their numbers are used again.
            self.parts.ranks.add_absent(count as usize);
            self.parts.names.resize(count as usize, String::new());
            self.withdraw(&spawning.local);
        })
    }

    /// Takes back those that have been started here.
    fn withdraw(&mut self, local: &[u32]) {
        for &index in local {
            self.parts.tickets.iter_mut().for_each(|tickets| tickets.revoke(index));
            // One that has ended has not got its next process.
            let is_there = (index as usize) < self.parts.ranks.count();
            if is_there && !self.parts.ranks.has_ended(index) {
                self.parts.ranks.withdraw(index);
            } else {
                // It has got no process, or that is dead: the others may forget it.
                self.parts.segment.iter().for_each(|segment| segment.mark_left(index as usize));
                self.announce_end(index);
            }
        }
    }

    /// Handles what has come from ranks that are becoming their programs.
    pub(super) fn handle_spawning(&mut self, index: usize) {
        let Some(spawning) = self.parts.spawnings.get_mut(index) else { return };
        let is_over = spawning.poll_over();
        let (has_failed, local) = (!spawning.failed.is_empty(), spawning.local.clone());
        if has_failed {
            // At once: the death of the one that has failed may be judged next.
            self.withdraw(&local);
        }
        if is_over {
            self.handle_known(index);
        }
    }

    /// The same for all, before a death is judged.
    pub(super) fn handle_spawnings(&mut self) {
        (0..self.parts.spawnings.len()).rev().for_each(|index| self.handle_spawning(index));
    }

    /// Handles an order of which it is known how the ranks of this node began.
    fn handle_known(&mut self, index: usize) {
        let Some(spawning) = self.parts.spawnings.get(index) else { return };
        let order = spawning.order;
        let place = |rank: u32| spawning.place.as_ref()?.ranks.iter().position(|one| *one == rank);
        let failed = spawning.failed.iter().filter_map(|failure| Some(place(failure.rank)? as u32)).collect();
        let of_first = spawning.failed.first().map(|failure| self.failure_text(failure));
        let text = spawning.refusal().map(str::to_owned).or(of_first).unwrap_or_default();
        let mut outcome = Outcome { failed, text, ..Outcome::default() };
        if self.alone {
            return self.end_spawn(order, &outcome.encode());
        }
        self.add_ends(&mut outcome);
        let outcome = outcome.encode();
        let mut frame = Vec::new();
        wire::put(&mut frame, Kind::Spawned, order, &outcome);
        self.reconnect.iter_mut().for_each(|reconnect| reconnect.keep_spawned(frame.clone()));
        self.put(&frame);
    }

    /// Which ranks have ended, and which of them are forgotten here.
    fn add_ends(&self, outcome: &mut Outcome) {
        let (Some(segment), Some(allocation), Some(job)) =
            (&self.parts.segment, &self.later.allocation, &self.later.job)
        else {
            return;
        };
        let (ranks, numbers) = (&self.parts.ranks, segment.layout().numbers());
        outcome.node = job.node();
        outcome.ending = self.ending_ranks();
        let is_news = |rank: &u32| !allocation.is_free(*rank) && !allocation.has_ended(*rank);
        let later = segment.geometry().local_ranks..segment.present();
        let ended = later.filter(|index| ranks.has_ended(*index)).map(|index| ranks.world_rank(index));
        outcome.ended = ended.filter(is_news).collect();
        let is_forgotten = |rank: &u32| match numbers.index_of(*rank as usize) {
            index if index < numbers.len() => segment.is_forgotten(index),
            _ => segment.is_forgotten_far(*rank as usize),
        };
        outcome.forgotten = allocation.remembered(outcome.node).filter(is_forgotten).collect();
    }

    /// Takes what all nodes say of ranks that have ended: the same everywhere, and in the same order.
    fn take_ends(&mut self, outcomes: &[Outcome]) {
        let (Some(segment), Some(allocation)) = (&self.parts.segment, &mut self.later.allocation) else {
            return;
        };
        let numbers = segment.layout().numbers();
        let mut has_news = false;
        for rank in outcomes.iter().flat_map(|outcome| &outcome.ended) {
            let Some(ended) = allocation.note_ended(*rank) else { continue };
            if !numbers.contains(*rank as usize) {
                segment.note_far_end(*rank as usize, ended);
                has_news = true;
            }
        }
        if has_news {
            segment.announce_end();
        }
        for outcome in outcomes {
            outcome.forgotten.iter().for_each(|rank| allocation.note_forgotten(*rank, outcome.node));
        }
        segment.set_later(allocation.later());
    }

    /// Asks again for ranks that a rank of this node wants and that found no room; perhaps there is soon.
    fn asks_again(&mut self, asked: Asked, excess: u32, ending: u32) -> bool {
        let now_ns = now_ns();
        let room = self.later.allocation.as_ref().map_or(0, Allocation::room);
        if now_ns >= asked.ends_ns || excess > room.saturating_add(ending) {
            return false;
        }
        let waited_ns = WAIT_NS - (asked.ends_ns - now_ns).min(WAIT_NS);
        self.later.again.push((now_ns + (waited_ns / 4).clamp(LOOK_NS, LOOK_NS_MAX), asked));
        true
    }

    /// Ends a spawn of which it is known how the ranks of all nodes began: they stay, or all are taken back.
    pub(super) fn end_spawn(&mut self, order: u32, outcomes: &[u8]) {
        let Some(index) = self.parts.spawnings.iter().position(|spawning| spawning.order == order) else {
            return;
        };
        let Spawning { place, local, asker, over, asked, excess, .. } = self.parts.spawnings.remove(index);
        let outcomes = Outcome::each(outcomes);
        if !self.alone {
            self.take_ends(&outcomes);
        }
        let Outcome { failed, text, ending, .. } = Outcome::of_all(outcomes);
        if let (Some(asked), Some(excess)) = (asked, excess)
            && self.asks_again(asked, excess, ending)
        {
            return;
        }
        self.log_debug(|| format!("order {order} has started {place:?}: {text:?}"));
        let is_good = text.is_empty() && failed.is_empty();
        if !is_good {
            self.withdraw(&local);
        } else if !local.is_empty() {
            let pids = local.iter().filter_map(|index| self.parts.ranks.pid_of(*index)).collect();
            let gone = std::mem::take(&mut self.parts.gone);
            self.report(&Report::Later { pids, gone });
        }
        match over {
            Over::Nothing => {}
            Over::Ranks(group) => return self.end_spawn_over_pmi(order, group, asker, &text, is_good),
            Over::Name(rank, change, is_done) => {
                return self.run_pmi(|pmi| pmi.answer_name(rank, &change, is_done));
            }
        }
        let first = place.filter(|_| is_good).and_then(|place| place.ranks.first().copied());
        if let (Some((rank, number)), Some(tickets)) = (asker, &self.parts.tickets) {
            tickets.send(rank, &Answer { number, first, failed, text }.encode());
        }
    }

    fn end_spawn_over_pmi(
        &mut self,
        order: u32,
        group: Option<u32>,
        asker: Option<(u32, u32)>,
        text: &str,
        is_good: bool,
    ) {
        let is_over_pmix = self.pmix_server().is_some();
        if let Some(foreign) = self.parts.foreign.as_mut().filter(|_| !is_good) {
            group.into_iter().for_each(|group| foreign.pmi.end_group(group));
            foreign.pmix.iter_mut().for_each(|pmix| pmix.dismiss(order));
        }
        let Some((rank, number)) = asker else { return };
        if !is_good {
            let rank = self.parts.ranks.world_rank(rank);
            let line = format!("rank {rank} gets no more processes (MPI_Comm_spawn): {text}");
            self.report(&Report::Warning(line));
        }
        match is_over_pmix {
            true => self.answer_pmix_spawn(number, is_good.then_some(order)),
            false => self.run_pmi(|pmi| pmi.answer_spawn(rank, number, is_good)),
        }
    }

    fn failure_text(&self, failure: &Failure) -> String {
        let name = self.parts.ranks.index_of(failure.rank).and_then(|at| self.parts.names.get(at));
        let text = launch::failure_text(name.map_or("the program", String::as_str), failure);
        match &self.later.job {
            Some(job) if !self.alone => {
                format!("{text} (node {})", Hosts::of(job, failure.rank).name(job.node() as usize))
            }
            _ => text,
        }
    }
}

/// Programs that ranks of other ranks execute. `variables`: with the number of its program each.
fn programs_of(request: &Request, origin: &Program, variables: Option<&[Pair]>) -> Vec<Program> {
    let text = |bytes: &[u8]| Text::from(OsStr::from_bytes(bytes).to_owned());
    let program = |(number, program): (usize, &tutti_shm::spawn::Program)| {
        let own = variables.unwrap_or_default().iter();
        let own = own.filter(|(of, _)| *of == number.to_string().as_bytes()).filter_map(|(_, pair)| {
            let at = pair.iter().position(|byte| *byte == b'=')?;
            // Those of its own the new rank gets.
            (!is_of_pmix(&pair[..at])).then(|| (text(&pair[..at]), text(&pair[at + 1..])))
        });
        Program {
            file: text(&program.file),
            arguments: program.arguments.iter().map(|argument| text(argument)).collect(),
            ranks: program.ranks,
            directory: (!program.directory.is_empty()).then(|| text(&program.directory)),
            variables: origin.variables.iter().cloned().chain(own).collect(),
            ..origin.clone()
        }
    };
    request.programs.iter().enumerate().map(program).collect()
}

/// The node of each of the ranks.
fn nodes_of(start: &Start, job: &Job) -> Vec<u32> {
    let nodes = job.part.as_ref().map_or(1, |part| part.first_ranks.len());
    let node_of =
        |rank: &u32| node_of_later((*rank as usize).saturating_sub(job.ranks() as usize), nodes) as u32;
    start.place.ranks.iter().map(node_of).collect()
}

/// The ranks, as the PMIx server expects them.
fn newcomers(order: u32, start: &Start, job: &Job) -> Newcomers {
    Newcomers {
        order,
        ranks: start.place.ranks.clone(),
        nodes: nodes_of(start, job),
        programs: start.programs.iter().map(|program| program.ranks).collect(),
        parent: start.place.parent,
    }
}

/// The group of PMI of new ranks, if some are of this node.
fn begin_group(pmi: &mut Pmi, order: u32, start: &Start, preput: &[Pair], job: &Job) -> Option<u32> {
    pmi.forget_names(&start.place.ranks);
    let nodes = nodes_of(start, job);
    let at = Placement { nodes: &nodes, here: job.node() };
    let programs: Vec<u32> = start.programs.iter().map(|program| program.ranks).collect();
    nodes.contains(&at.here).then(|| pmi.begin_group(order, &programs, preput, at))
}

fn program_over_pmi(command: Command, here: &Path) -> tutti_shm::spawn::Program {
    let hint = |name: &[u8]| command.hints.iter().find(|(key, _)| key == name).map(|(_, value)| &value[..]);
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    let directory = here.join(hint(b"wdir").or(hint(b"wd")).map(path).unwrap_or_default());
    let name = path(&command.file);
    let file = if command.file.contains(&b'/') {
        directory.join(&name)
    } else {
        let of_user = hint(b"path").map(|path| directory.join(OsStr::from_bytes(path)));
        let programs = std::env::var_os("PATH").unwrap_or_default();
        let mut places =
            of_user.into_iter().chain([directory.clone()]).chain(std::env::split_paths(&programs));
        // Else it cannot be executed, which says which one.
        places.find_map(|place| Some(place.join(&name)).filter(|file| file.is_file())).unwrap_or(name)
    };
    let arguments = std::iter::once(command.file.clone()).chain(command.arguments.iter().cloned()).collect();
    let bytes = |path: PathBuf| path.into_os_string().into_vec();
    let host = hint(b"host").unwrap_or_default().to_vec();
    tutti_shm::spawn::Program {
        ranks: command.ranks,
        file: bytes(file),
        arguments,
        directory: bytes(directory),
        host,
    }
}

/// The names of the nodes.
#[derive(Debug, Default)]
struct Hosts {
    names: Vec<String>,
    /// The node of the rank that asks.
    here: usize,
}

impl Hosts {
    fn of(job: &Job, parent: u32) -> Self {
        let Some(part) = &job.part else { return Hosts::default() };
        let nodes = part.first_ranks.len();
        let name = |node: usize| part.names.get(node).cloned().unwrap_or_else(|| format!("node{node}"));
        let here = match u64::from(parent).checked_sub(job.ranks()) {
            Some(behind) => tutti_shm::numbers::node_of_later(behind as usize, nodes),
            None => part.first_ranks.partition_point(|first| *first <= parent).saturating_sub(1),
        };
        Hosts { names: (0..nodes).map(name).collect(), here }
    }

    fn name(&self, node: usize) -> &str {
        self.names.get(node).map_or("", String::as_str)
    }

    /// The node that is wished for, if one is.
    fn node(&self, host: &[u8]) -> Result<Option<usize>, String> {
        if host.is_empty() || self.names.is_empty() {
            return Ok(None);
        }
        if host == b"localhost" {
            return Ok(Some(self.here));
        }
        let found = self.names.iter().position(|name| name.as_bytes() == host);
        found.map(Some).ok_or_else(|| {
            let host = String::from_utf8_lossy(host);
            format!("host {host} is none of the job's nodes ({})", self.names.join(", "))
        })
    }
}
