//! How orders of new ranks went, on all nodes: the answer to the rank that has asked, or its next attempt.

use tutti_os::Failure;
use tutti_protocol::wire::Report;
use tutti_shm::spawn::Answer;

use crate::launch;
use crate::readiness::now_ns;
use crate::spawning::{Allocation, Asked, Outcome, Over, Spawning};
use crate::starter::Starter;

use super::programs::Hosts;
use super::{LOOK_NS, LOOK_NS_MAX, WAIT_NS};

impl Starter {
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
    pub(in crate::starter) fn end_spawn(&mut self, order: u32, outcomes: &[u8]) {
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
            self.refuse_programs(rank, text);
        }
        match is_over_pmix {
            true => self.answer_pmix_spawn(number, is_good.then_some(order)),
            false => self.run_pmi(|pmi| pmi.answer_spawn(rank, number, is_good)),
        }
    }

    pub(super) fn failure_text(&self, failure: &Failure) -> String {
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
