//! Orders of new ranks: those of this node are started, all or none, and how that went is said.

use tutti_pmix::wire::Newcomers;
use tutti_protocol::wire::{self, Job, Kind};
use tutti_shm::numbers::node_of_later;
use tutti_shm::spawn::Spawned;

use crate::launch;
use crate::pmi::Pmi;
use crate::pmi::group::Placement;
use crate::pmi::spawning::Pair;
use crate::spawning::{Ask, Asked, Outcome, Over, Spawning, Start, Wanted};
use crate::starter::Starter;

use super::programs::{Hosts, programs_of};

impl Starter {
    /// The hub's order: ranks of a node, perhaps of this one, are to be started.
    pub(in crate::starter) fn handle_spawn(&mut self, order: u32, payload: &[u8]) {
        if self.later.keep_early(order, payload) {
            return;
        }
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
    pub(super) fn begin_spawn(
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
    pub(in crate::starter) fn add_spawning(&mut self, spawning: Spawning) {
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
    pub(in crate::starter) fn handle_admitted(&mut self, order: u32, outcome: Result<(), String>) {
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
            self.parts.silent.exited.forget(*index);
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
    pub(super) fn withdraw(&mut self, local: &[u32]) {
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

    /// The same for all, before a death is judged.
    pub(in crate::starter) fn handle_spawnings(&mut self) {
        (0..self.parts.spawnings.len()).rev().for_each(|index| self.handle_spawning(index));
    }

    /// Handles what has come from ranks that are becoming their programs.
    pub(in crate::starter) fn handle_spawning(&mut self, index: usize) {
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
