//! Actions of agents on their nodes: freezers that are slow or stuck, copies of channels.

use super::calendar::Event;
use super::coverage::{Kind, Phase};
use super::node::Real;
use super::world::{World, channel_ns};
use crate::gang::{Action, JobChange};
use crate::types::{JobId, NodeId};

impl World {
    /// Does what an agent says on its node.
    pub(super) fn act(&mut self, node: NodeId, action: &Action) {
        let now_ns = self.now_ns;
        let costs = self.options.costs;
        let at = node.0 as usize;
        let written_ns = self.nodes[at].busy_ns.max(now_ns) + self.random.between(costs.write_ns);
        match *action {
            Action::Lend(job) => {
                self.check_loan(node, job);
                self.report.count_loan();
                let Some(process) = self.nodes[at].processes.get_mut(&job) else { return };
                process.lend();
                process.epoch += 1;
            }
            Action::Freeze(job) | Action::Return(job) => {
                let slow = now_ns < self.nodes[at].slow_until_ns;
                // As often in a switch of many nodes as of few.
                let stuck = self.faulty && self.random.below(500 * self.nodes.len().div_ceil(40) as u64) == 0;
                let takes_ns = match (stuck, slow) {
                    (true, _) => self.random.between((500_000_000, 2_000_000_000)),
                    (false, true) => self.random.between((1_000_000, 8_000_000)),
                    (false, false) => self.random.between(costs.freeze_ns),
                };
                self.report.stuck += u64::from(stuck);
                let Some(process) = self.nodes[at].processes.get_mut(&job) else { return };
                process.real = Real::Freezing { since_ns: now_ns };
                process.set_runs(now_ns, false);
                if matches!(action, Action::Return(_)) {
                    process.give_back();
                }
                process.epoch += 1;
                let epoch = process.epoch;
                if stuck {
                    self.report.fault_coverage.0[Kind::Stop as usize][Phase::Freezes as usize] += 1;
                }
                let by_cgroup = node.0 % 4 != 3;
                let agent = self.nodes[at].agent.as_ref();
                if by_cgroup && agent.is_some_and(|agent| agent.switch().may_assume_frozen(job)) {
                    self.push(written_ns, Event::Counts { node, job, epoch });
                }
                self.push(written_ns + takes_ns, Event::Freezer { node, job, epoch, frozen: true });
                self.enter(node, job, Phase::Freezes);
            }
            Action::Thaw(job) => {
                self.check_thaw(node, job);
                self.report.thaws += 1;
                let takes_ns = self.random.between(costs.thaw_ns);
                let Some(process) = self.nodes[at].processes.get_mut(&job) else { return };
                process.real = Real::Runs;
                process.set_runs(now_ns, true);
                process.epoch += 1;
                let epoch = process.epoch;
                self.push(written_ns + takes_ns, Event::Freezer { node, job, epoch, frozen: false });
                self.enter(node, job, Phase::Runs);
            }
            Action::Kill(job) => {
                if let Some(process) = self.nodes[at].processes.get_mut(&job) {
                    process.dying = true;
                }
                let dead_ns = now_ns + self.random.between((23_000, 2_000_000));
                self.push(dead_ns, Event::Dead { node, job });
            }
            Action::Save(job) => {
                self.check_save(node, job);
                let done_ns = written_ns + self.random.between(costs.save_ns);
                self.push(done_ns, Event::Saved { node, job });
                self.begin_copy(node, job, Phase::Saves);
            }
            Action::Restore(job) => {
                let done_ns = written_ns + self.random.between(costs.save_ns);
                let generation = self.executed(node);
                self.push(done_ns, Event::Restored { node, job, generation });
                self.begin_copy(node, job, Phase::Restores);
            }
            Action::Bind(job, slots) => {
                if let Some(process) = self.nodes[at].processes.get_mut(&job) {
                    process.slots = slots;
                }
            }
            Action::TestSteady(job) => {
                let is_mute = self.faulty && self.random.below(200) == 0;
                let Some(process) = self.nodes[at].processes.get_mut(&job) else { return };
                process.set_mute(is_mute);
                let epoch = process.epoch;
                self.push(written_ns, Event::Tested { node, job, epoch, begun_ns: now_ns });
                self.begin_copy(node, job, Phase::Tests);
            }
            Action::Unanswered(job) => {
                self.report.count_test(false);
                self.end_copy(node, job);
                let generation = self.executed(node);
                if let Some(process) = self.nodes[at].processes.get_mut(&job) {
                    process.restored = process.restored.max(Some(generation));
                }
            }
            Action::Stuck(_) => {}
            _ => unreachable!("the agent keeps {action:?} to itself"),
        }
    }

    /// The starter of a job, which is frozen here, has asked those of its other nodes what their ranks have
    /// taken. Those answer that have all of theirs frozen. Who has asked for half of the time that its daemon
    /// waits gives up.
    pub(super) fn handle_tested(&mut self, node: NodeId, job: JobId, epoch: u64, begun_ns: u64) {
        let now_ns = self.now_ns;
        let is_it = |process: &super::node::Process| process.epoch == epoch && !process.is_mute();
        if !self.nodes[node.0 as usize].processes.get(&job).is_some_and(is_it) {
            return;
        }
        let is_steady = self.peers(node).all(|peer| {
            let part = self.nodes[peer].processes.get(&job);
            part.is_none_or(|part| part.real == Real::Frozen)
        });
        if !is_steady && now_ns < begun_ns + channel_ns(self.options.slice_ns) / 2 {
            // Asked later and later.
            let waited_ns = (now_ns - begun_ns) / 2;
            let again_ns = now_ns + self.random.between(self.options.costs.test_ns).max(waited_ns);
            return self.push(again_ns, Event::Tested { node, job, epoch, begun_ns });
        }
        if let Some(process) = self.nodes[node.0 as usize].processes.get_mut(&job) {
            process.set_steady(is_steady.then_some(now_ns));
        }
        self.report.count_test(is_steady);
        self.end_copy(node, job);
        self.with_any(node, |agent| agent.handle_change(now_ns, job, JobChange::Steady));
    }

    /// Nodes to which the ranks of one have channels: in a large cluster some, at distances of powers of two.
    fn peers(&self, node: NodeId) -> impl Iterator<Item = usize> {
        let (count, at) = (self.nodes.len(), node.0 as usize);
        let is_large = count >= 100;
        let next = move |distance: usize| if is_large { distance * 2 } else { distance + 1 };
        let distances = std::iter::successors(Some(1), move |distance| Some(next(*distance)));
        distances.take_while(move |distance| *distance < count).map(move |distance| (at + distance) % count)
    }

    /// Tells the agent that the job has been ordered to freeze, which is enough.
    pub(super) fn handle_counts(&mut self, node: NodeId, job: JobId, epoch: u64) {
        let Some(process) = self.nodes[node.0 as usize].processes.get_mut(&job) else { return };
        let now_ns = self.now_ns;
        if process.epoch == epoch {
            process.assumed = true;
            self.with_any(node, |agent| agent.handle_change(now_ns, job, JobChange::FreezeRequested));
        }
    }

    pub(super) fn handle_freezer(&mut self, node: NodeId, job: JobId, epoch: u64, frozen: bool) {
        let at = node.0 as usize;
        let Some(process) = self.nodes[at].processes.get_mut(&job) else { return };
        if process.epoch != epoch {
            return;
        }
        if frozen {
            process.real = Real::Frozen;
            self.enter(node, job, Phase::Waits);
        }
        self.handle(Event::FreezeRequested { node, job, epoch, frozen });
    }

    /// The daemon sees what the freezer has done.
    pub(super) fn handle_freeze_requested(&mut self, node: NodeId, job: JobId, epoch: u64, frozen: bool) {
        let at = node.0 as usize;
        if self.nodes[at].processes.get(&job).is_none_or(|process| process.epoch != epoch) {
            return;
        }
        let now_ns = self.now_ns;
        if frozen {
            self.with_any(node, |agent| agent.handle_change(now_ns, job, JobChange::Frozen));
        } else {
            self.thawed[at] = now_ns;
            let awake = self.moods.get(&job).is_none_or(|mood| mood.is_awake(now_ns));
            self.with_any(node, |agent| {
                agent.handle_change(now_ns, job, JobChange::Thawed);
                if awake {
                    agent.handle_change(now_ns, job, JobChange::Awake);
                }
            });
        }
    }

    pub(super) fn begin_copy(&mut self, node: NodeId, job: JobId, phase: Phase) {
        if let Some(process) = self.nodes[node.0 as usize].processes.get_mut(&job) {
            process.copies = Some(phase);
        }
        self.enter(node, job, phase);
    }

    pub(super) fn end_copy(&mut self, node: NodeId, job: JobId) {
        if let Some(process) = self.nodes[node.0 as usize].processes.get_mut(&job) {
            process.copies = None;
        }
    }
}
