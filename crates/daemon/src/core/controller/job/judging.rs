//! Judgement of a job: what its parts say becomes what is to be with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tutti_protocol::wire::{Cause, Ended, Reached, Report};

use super::{JobRecord, News, Reported};
use crate::core::clocks::Clocks;
use crate::members::NodeId;
use crate::message::{EndKind, Fence, PartState, Phase, Renewed, Run, SpawnOrder};

impl JobRecord {
    /// Makes what is to be of what the parts say. Ranks may have put so much over PMI. A job is not over
    /// before its steps are.
    pub(in crate::core::controller) fn judge(
        &mut self,
        states: &BTreeMap<NodeId, PartState>,
        now: Clocks,
        (puts_bytes_max, has_steps): (usize, bool),
    ) {
        let wall_ms = now.wall_ms;
        if self.queued.is_some() {
            return self.judge_waiting(wall_ms);
        }
        self.judge_start(states, now);
        for (node, part) in states {
            self.handle_part(*node, part);
            if let Some(incarnation) = part.unbegun {
                self.renew(*node, incarnation);
            }
        }
        let parts: Vec<Option<&PartState>> = self
            .launch
            .nodes
            .iter()
            .filter(|node| !self.lost.contains(node))
            .map(|node| states.get(node))
            .collect();
        let all = |phase| parts.iter().all(|part| part.is_some_and(|part| part.phase >= phase));
        let whole = self.lost.is_empty();
        if whole && all(Phase::Ready) && self.order.peers.is_none() && !self.is_ending() {
            self.order.peers = Some(Reached::of_all(parts.iter().flatten().map(|part| &part.reached)));
        }
        let suspended = self.order.run == Run::Stop
            && parts.iter().all(|part| part.is_some_and(|part| part.suspended || part.phase >= Phase::Left));
        if suspended && !std::mem::replace(&mut self.reported_suspended, true) {
            self.report(Report::Suspended);
        }
        if whole {
            self.judge_fence(&parts, puts_bytes_max);
        }
        if whole && parts.len() > 1 {
            self.order_ranks(&parts);
        }
        if whole && self.reported_started {
            let grown = |(node, pids): &mut (NodeId, Vec<u32>)| {
                let known = states.get(node).filter(|part| part.pids.len() > pids.len());
                known.into_iter().for_each(|part| pids.clone_from(&part.pids));
            };
            self.pids.iter_mut().for_each(grown);
        }
        self.order.leave |= self.is_left(&parts);
        if all(Phase::Over) && !self.over && !has_steps {
            self.over = true;
            self.ended_ms = Some(wall_ms);
            let statuses: Vec<u8> = parts.iter().flatten().map(|part| part.status).collect();
            statuses.into_iter().for_each(|status| self.end.record_status(status));
            self.end.finish();
        }
        // A part that is back after the death of its daemon says anew, step by step, how far it is: until it
        // is over again it has not said how much it has written.
        if self.over && all(Phase::Over) {
            let nodes = self.launch.nodes.iter().filter(|node| !self.lost.contains(node));
            self.report_end(nodes.filter_map(|node| Some((*node, states.get(node)?.written?))).collect());
        }
        if self.order.run == Run::Kill {
            self.order.end = Some(self.end.order());
        }
    }

    /// All ranks have begun. The news may come together with that of their end: it is told first.
    fn judge_start(&mut self, states: &BTreeMap<NodeId, PartState>, now: Clocks) {
        if self.reported_started || self.is_ending() || !self.lost.is_empty() {
            return;
        }
        let parts: Option<Vec<&PartState>> = self.launch.nodes.iter().map(|node| states.get(node)).collect();
        let has_begun = |part: &&PartState| part.phase >= Phase::Running && !part.pids.is_empty();
        let Some(parts) = parts.filter(|parts| parts.iter().all(has_begun)) else { return };
        self.reported_started = true;
        self.record_start(now);
        self.pids = self.launch.nodes.iter().map(|node| (*node, states[node].pids.clone())).collect();
        let pids = parts.iter().flat_map(|part| part.pids.clone()).collect();
        let cores = parts.iter().flat_map(|part| part.cores.clone()).collect();
        self.report(Report::Started { pids, cores });
    }

    /// A job without parts stands still and ends by word alone.
    fn judge_waiting(&mut self, wall_ms: u64) {
        if self.order.run == Run::Stop && !std::mem::replace(&mut self.reported_suspended, true) {
            self.report(Report::Suspended);
        }
        if self.order.run == Run::Kill && !self.over {
            self.over = true;
            self.ended_ms = Some(wall_ms);
            self.report_end(Vec::new());
        }
    }

    /// All ranks are in a barrier of PMI: all nodes get what has been put, as long as there is room.
    fn judge_fence(&mut self, parts: &[Option<&PartState>], puts_bytes_max: usize) {
        // Over PMIx a fence may be given up: it has no end of its own, and the next one has its own number.
        let number = |part: &Option<&PartState>| part.map(|part| part.fence.number);
        let Some(next) = parts.first().and_then(number).filter(|next| *next > self.order.fence.number) else {
            return;
        };
        if self.is_ending() || !parts.iter().all(|part| number(part) == Some(next)) {
            return;
        }
        let puts: Vec<u8> = parts.iter().flatten().flat_map(|part| part.fence.puts.iter().copied()).collect();
        if puts.len() <= puts_bytes_max {
            return self.order.fence = Arc::new(Fence { number: next, puts });
        }
        let text = format!(
            "what the ranks have put over PMI takes {} bytes, and your other jobs leave room for {puts_bytes_max}",
            puts.len()
        );
        let line = format!("{text}; the job is ended");
        self.warn_of_end(EndKind::Failed, text, line);
        self.end_by(None, 1);
    }

    /// True when parts say what their ranks have newly put over PMI.
    pub(in crate::core::controller) fn has_new_puts(&self, states: &BTreeMap<NodeId, PartState>) -> bool {
        states.values().any(|part| part.fence.number > self.order.fence.number)
    }

    /// No rank is left on any node, and none is asked for: a part gets ranks by the next order alone, and
    /// only one that has ranks, or waits for an order, can cause one.
    fn is_left(&self, parts: &[Option<&PartState>]) -> bool {
        let SpawnOrder { number, ended, .. } = *self.order.spawn;
        let is_empty = |part: &PartState| ended == number && part.empty == Some(number);
        parts.iter().all(|part| part.is_some_and(|part| part.phase >= Phase::Left || is_empty(part)))
    }

    /// Ranks that others have asked for: when it is known of all nodes how the last ones began, it is said to
    /// all, and the next ones are ordered.
    fn order_ranks(&mut self, parts: &[Option<&PartState>]) {
        let known = |number| parts.iter().all(|part| part.is_some_and(|part| part.spawned.number == number));
        let SpawnOrder { number, ended, .. } = *self.order.spawn;
        if ended < number && known(number) {
            let spawn = Arc::make_mut(&mut self.order.spawn);
            spawn.ended = number;
            spawn.outcomes =
                parts.iter().flatten().flat_map(|part| part.spawned.puts.iter().copied()).collect();
        }
        let SpawnOrder { number, ended, ref asked, .. } = *self.order.spawn;
        let of_place = |place: usize| asked.get(place).copied().unwrap_or(0);
        let next = (0..parts.len())
            .find(|place| parts[*place].is_some_and(|part| part.ask.number > of_place(*place)));
        if ended == number
            && !self.order.leave
            && !self.is_ending()
            && let Some((place, part)) = next.and_then(|place| Some((place, parts[place]?)))
        {
            let spawn = Arc::make_mut(&mut self.order.spawn);
            spawn.asked.resize(parts.len(), 0);
            spawn.asked[place] = part.ask.number;
            (spawn.number, spawn.by, spawn.ask) = (number + 1, place as u32, part.ask.puts.clone());
        }
    }

    /// Ranks that were started since it began.
    pub(in crate::core::controller) fn later_ranks(&self) -> u64 {
        let pids: usize = self.pids.iter().map(|(_, pids)| pids.len()).sum();
        (pids as u64).saturating_sub(self.launch.job.ranks())
    }

    /// A part whose daemon died before it began it begins with the one that is there now, unless the job ran
    /// for an earlier controller: then it may be one that was over.
    fn renew(&mut self, node: NodeId, incarnation: u64) {
        let Some((named, before)) = self.order.incarnation(&self.launch, node).filter(|_| !self.is_ending())
        else {
            return;
        };
        if !self.chosen || self.order.peers.is_some() {
            self.end_by(Some(node), 1);
            self.end.mark(EndKind::NodeLost);
            self.report(Report::Refused("a daemon died before it began its part; the job is ended".into()));
        } else if named != incarnation {
            self.order.renewed.retain(|renewed| renewed.node != node);
            self.order.renewed.push(Renewed { node, incarnation, before: before + 1 });
        }
    }

    /// Takes in what one part says.
    fn handle_part(&mut self, node: NodeId, part: &PartState) {
        self.counted.extend(part.counted().map(|counted| (node, counted)));
        if part.phase >= Phase::Left && self.reported_left.insert(node) {
            self.news.left.push((node, part.status));
        }
        if let Some(status) = part.ending {
            self.end_by(Some(node), status);
        }
        // Of a node that was lost the user has been told so, whatever it says should it come back.
        let is_first = match self.end.ender() {
            Some(ender) => ender == node,
            // Of a job on one node ranks may fail alone, while it goes on.
            None => self.launch.nodes.len() == 1 && !self.is_ending(),
        };
        let is_news = !self.end.is_by_user() && is_first && !self.lost.contains(&node);
        let reported = self.reported.get(&node).copied().unwrap_or_default();
        part.warnings
            .iter()
            .skip(reported.warnings)
            .for_each(|text| self.report(Report::Warning(text.clone())));
        let new: Vec<Ended> = part.ended.iter().skip(reported.ended).copied().collect();
        for ended in new {
            self.end.record_status(ended.cause.status());
            if let Cause::Signal { signal, .. } = ended.cause
                && self.end.status() == ended.cause.status()
            {
                self.end.record_kill(signal);
            }
            if is_news {
                self.report(Report::Ended(ended));
            }
        }
        if let Some(text) = part.refused.clone().filter(|_| is_news && !reported.ending) {
            self.report(Report::Refused(text));
        }
        if reported.put_out != part.put_out && part.phase < Phase::Left {
            self.news.fillings.push((node, part.put_out));
        }
        if part.is_unprepared() && !reported.unprepared {
            self.news.unprepared.push((node, part.refused.clone().unwrap_or_default()));
        }
        let (warnings, ended, ending) = (part.warnings.len(), part.ended.len(), part.ending.is_some());
        let (put_out, unprepared) = (part.put_out, part.is_unprepared());
        self.reported.insert(node, Reported { warnings, ended, ending, put_out, unprepared });
    }

    /// Takes what is new since the last call.
    pub(in crate::core::controller) fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }
}
