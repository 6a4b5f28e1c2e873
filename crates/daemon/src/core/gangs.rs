//! What the switch thread is told of nodes and jobs, and its words on their way over the tree.

use super::{Action, Core, LinkId};
use crate::gang::{Command, NodeResources, SwitchEvent};
use crate::members::NodeId;
use crate::message::{JobId, Message};
use tutti_protocol::turns::TurnBatch;

/// So often the switch thread is told that somebody above lives, at most; and where there are no jobs.
const LIVENESS_MS: u64 = 1000;
const LIVENESS_IDLE_MS: u64 = 5000;

/// The ranks of a job on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residents {
    /// The job's number in the name of its cgroup.
    pub number: u64,
    /// Whose it is.
    pub user: u32,
    /// As the starter says, in order of ranks.
    pub pids: Vec<u32>,
    /// The starter has bound each to one core.
    pub bound: bool,
}

/// A line of the log of turns.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct NodeTurns {
    /// The node, by name.
    pub node: String,
    /// What was done there.
    #[serde(flatten)]
    pub turns: TurnBatch,
}

impl Core {
    pub(super) fn handle_gang(&mut self, event: SwitchEvent) {
        match event {
            // A link that is gone by now has a successor on which all is said anew.
            SwitchEvent::Relay(link, number, word) => {
                self.act(Action::Send(link, Message::Gang { number, word }))
            }
            SwitchEvent::LogLine(text) => self.act(Action::Info(text)),
            SwitchEvent::Method(job, method) => self.record_freeze_method(job, method),
            SwitchEvent::Placed(job, parts) => self.handle_placed(job, &parts),
            SwitchEvent::Waits(job, why) => self.handle_waits(job, &why),
            SwitchEvent::Refused(job, why) => self.handle_refused(job, &why),
            SwitchEvent::Served(turns) => self.record_turns(&turns),
            SwitchEvent::Notice(notice) => self.report_late(notice),
            SwitchEvent::Lags(lags) => self.record_lags(lags),
        }
    }

    /// On the controller: for the log.
    pub(super) fn handle_turns(&mut self, from: NodeId, turns: TurnBatch) {
        let known = self.members.as_ref().and_then(|members| members.nodes.get(&from));
        let (true, Some(node)) = (self.controller.is_some(), known.map(|member| member.about.name.clone()))
        else {
            return;
        };
        self.act(Action::LogTurns(NodeTurns { node, turns }));
    }

    pub(super) fn forward_members(&mut self) {
        let (Some(me), Some(members)) = (self.me, &self.members) else { return };
        // Numbers may have gaps: nodes that an earlier controller knew and that have not come back.
        let last = members.nodes.last_key_value().map_or(0, |(node, _)| node.0);
        let place = |node| {
            members.nodes.get(&NodeId(node)).map_or_else(NodeResources::default, |member| NodeResources {
                alive: member.alive,
                slots: member.about.slots,
                memory_bytes: member.about.memory_bytes,
            })
        };
        let nodes = (0..=last).map(place).collect();
        let command = Command::Members { me, arity: members.arity, nodes };
        self.act(Action::Gang(command));
    }

    /// The switch thread runs by turns the jobs that are here alone when nobody above has been heard of for
    /// 10 s. It need not be woken up for each message.
    pub(super) fn forward_liveness(&mut self) {
        let grace_ms = if self.relay.is_empty() { LIVENESS_IDLE_MS } else { LIVENESS_MS };
        // A parent may live without a controller, from which all turns come.
        let controller_alive = self.controller_silent_ms() < self.config.lost_ms;
        if controller_alive && self.now_ms >= self.liveness_sent_ms + grace_ms {
            self.liveness_sent_ms = self.now_ms;
            self.act(Action::Gang(Command::ParentAlive));
        }
    }

    pub(super) fn open_parent_link(&mut self, link: LinkId) {
        if let (Some(parent), Some(_)) = (self.links.parent(), self.me) {
            self.act(Action::OpenSwitchLink(link, parent, true));
        }
    }

    pub(super) fn open_child_link(&mut self, link: LinkId, node: NodeId) {
        self.act(Action::OpenSwitchLink(link, node, false));
        self.act(Action::Gang(Command::ChildJoined(node)));
    }

    /// The ranks of a job run here, or nothing of it is left here.
    pub(super) fn forward_part(&mut self, job: JobId, runs: bool) {
        if !runs {
            return self.act(Action::Gang(Command::PartEnded(job)));
        }
        let (Some(me), Some(launch)) = (self.me, self.parts.launch(job)) else { return };
        if !launch.terms.gang {
            return;
        }
        let mut pids = self.parts.pids(job);
        // A starter may say anything; one of several nodes has as many as it was given.
        let most = if launch.enrolled { launch.job.ranks() } else { launch.ranks_on(me) };
        pids.truncate(most as usize);
        let bound = self.has_machine_alone() && self.parts.is_bound(job);
        let residents = Residents { number: launch.job.id, user: launch.user.uid, pids, bound };
        self.act(Action::RanksStarted(job, residents));
    }

    /// This is the controller, and all nodes are of its machine.
    pub fn is_of_one_machine(&self) -> bool {
        let machine = &self.config.about.machine;
        let mut members = self.members.iter().flat_map(|members| members.nodes.values());
        self.controller.is_some() && members.all(|member| !member.alive || &member.about.machine == machine)
    }

    /// No other node has cores of this machine.
    fn has_machine_alone(&self) -> bool {
        let machine = &self.config.about.machine;
        let members = self.members.iter().flat_map(|members| members.nodes.values());
        members.filter(|member| member.alive && &member.about.machine == machine).count() <= 1
    }

    /// On the controller: the ranks of a job run on all its nodes. One that an earlier controller had may be
    /// suspended, which the scheduler does not know.
    pub(super) fn forward_start(&mut self, job: JobId, is_suspended: bool) {
        self.act(Action::Gang(Command::JobStarted(job)));
        if is_suspended {
            self.suspend_in_scheduler(job, true);
        }
    }
}
