//! One daemon's part in the control of gangs: the node's switch and the merging of reports, put together.
//!
//! [`Agent`] is what a daemon drives: it is told what comes from the parent, from the children, from the
//! freezers and from the boards, and says what is to be sent to whom and what is to be done here. Orders go
//! to the children before anything is done.
//!
//! On the controller the parent is the [`crate::controller::Controller`]: [`Output::Parent`] is for
//! [`crate::controller::Controller::handle_report`], and what [`crate::controller::Controller::poll_down`]
//! gives goes into [`Agent::handle_down`].

use std::collections::VecDeque;

use crate::barrier::Merger;
use crate::gang::{Action, Arrival, JobChange, NodeSwitch, Timing};
use crate::message::{Down, Members, Order, Report, Stage};
use crate::tree::Tree;
use crate::types::{JobId, Membership, NodeId, Slots};

/// Work for the daemon, to be done in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Tell this child all that is in force: what the daemon itself says to those below comes first.
    Welcome(NodeId),
    /// Send it to this child.
    Child(NodeId, Down),
    /// Send it to the parent; on the controller: to the controller.
    Parent(Report),
    /// Do it here: bind, freeze, thaw, kill, save, restore. (Stuck too: for a look, it has been reported.)
    Do(Action),
}

/// The control of one daemon.
#[derive(Clone, Debug)]
pub struct Agent {
    me: NodeId,
    switch: NodeSwitch,
    merger: Merger,
    children: Vec<NodeId>,
    /// Nodes that came before they were known here to be children: nothing that goes down goes there.
    unknown_children: Vec<NodeId>,
    out: VecDeque<Output>,
}

impl Agent {
    /// The agent of node `me`, for up to `jobs` jobs on it. A child is late after `late_ns` (ten slices).
    #[must_use]
    pub fn new(me: NodeId, tree: Tree, timing: Timing, late_ns: u64, jobs: usize) -> Self {
        let children = tree.children(me);
        let merger = Merger::new(me, tree, late_ns);
        let switch = NodeSwitch::new(me, timing, jobs);
        Agent { me, switch, merger, children, unknown_children: Vec::new(), out: VecDeque::new() }
    }

    /// A job that has parts at or below this node: its nodes, and its slots and state here if it has a part
    /// here. It may have one on a node that has just joined, of which the list of nodes says nothing here
    /// yet.
    pub fn handle_job(&mut self, now_ns: u64, job: JobId, nodes: &[NodeId], here: Option<(Slots, Arrival)>) {
        let last = nodes.iter().max().map_or(0, |last| last.0);
        self.handle_nodes(now_ns, last + 1);
        self.merger.handle_job(now_ns, job, nodes);
        if let Some((slots, arrival)) = here {
            self.switch.handle_job(now_ns, job, slots, nodes.len() == 1, arrival);
        }
        self.settle(now_ns);
    }

    /// Handles the end of the job on this node, where nothing of it is left; others may still run it.
    pub fn handle_job_ended_here(&mut self, now_ns: u64, job: JobId) {
        self.switch.handle_job_ended(now_ns, job);
        self.merger.handle_own_ended(now_ns, job);
        self.settle(now_ns);
    }

    /// Notes that the tree has so many nodes, lost ones too, or more.
    pub fn handle_nodes(&mut self, now_ns: u64, nodes: u32) {
        if self.merger.handle_nodes(now_ns, nodes) {
            self.find_children();
            self.settle(now_ns);
        }
    }

    /// A child's daemon has come (back) to its place in the tree, and knows nothing of what is in force.
    pub fn handle_child(&mut self, child: NodeId) {
        if !self.children.contains(&child) && !self.unknown_children.contains(&child) {
            self.unknown_children.push(child);
        }
        self.greet(child);
    }

    /// The job has ended everywhere.
    pub fn handle_job_ended(&mut self, now_ns: u64, job: JobId) {
        self.merger.handle_job_ended(job);
        self.handle_job_ended_here(now_ns, job);
    }

    /// A plan or an order of the parent.
    pub fn handle_down(&mut self, now_ns: u64, down: Down) {
        match down {
            Down::Plan(plan) => {
                self.switch.handle_contact(now_ns);
                for &child in &self.children {
                    self.out.push_back(Output::Child(child, Down::Plan(plan.clone())));
                }
                self.switch.handle_plan(now_ns, plan);
            }
            Down::Order(order) => {
                if let Order::Members(members) = &order {
                    self.handle_members(now_ns, members);
                }
                self.switch.handle_order(now_ns, &order);
            }
        }
        self.settle(now_ns);
    }

    /// Anything else was heard of the parent.
    pub fn handle_contact(&mut self, now_ns: u64) {
        self.switch.handle_contact(now_ns);
        self.settle(now_ns);
    }

    /// A report of a child.
    pub fn handle_report(&mut self, now_ns: u64, from: NodeId, report: Report) {
        self.merger.handle_report(now_ns, from, report);
        self.settle(now_ns);
    }

    /// Handles a change of a job on this node.
    pub fn handle_change(&mut self, now_ns: u64, job: JobId, change: JobChange) {
        self.switch.handle_change(now_ns, job, change);
        self.settle(now_ns);
    }

    /// A process of one job here waits for another job here, or no longer: see [`NodeSwitch::handle_wish`].
    pub fn handle_wish(&mut self, now_ns: u64, lender: JobId, borrower: JobId, wanted: bool) -> bool {
        let is_heard = self.switch.handle_wish(now_ns, lender, borrower, wanted);
        self.settle(now_ns);
        is_heard
    }

    /// Time has passed.
    pub fn handle_time(&mut self, now_ns: u64) {
        self.switch.handle_time(now_ns);
        self.merger.handle_time(now_ns);
        self.settle(now_ns);
    }

    /// Takes the next output, if any.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When [`Self::handle_time`] is to be called at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        self.switch.poll_timeout().into_iter().chain(self.merger.poll_timeout()).min()
    }

    /// The node's switch: for looks.
    #[must_use]
    pub fn switch(&self) -> &NodeSwitch {
        &self.switch
    }

    /// The tree as this daemon knows it.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        self.merger.tree()
    }

    fn handle_members(&mut self, now_ns: u64, members: &Members) {
        if self.merger.handle_members(now_ns, members) {
            self.find_children();
        }
    }

    /// The tree is another. Strangers that are children by now have missed what went down meanwhile.
    fn find_children(&mut self) {
        self.children = self.merger.tree().children(self.me);
        let (known, unknown_children) = std::mem::take(&mut self.unknown_children)
            .into_iter()
            .partition(|child| self.children.contains(child));
        self.unknown_children = unknown_children;
        let known: Vec<NodeId> = known;
        known.into_iter().for_each(|child| self.greet(child));
    }

    fn greet(&mut self, child: NodeId) {
        self.out.push_back(Output::Welcome(child));
        let members = self.merger.tree().members();
        let tree = (members.membership > Membership(0)).then(|| Order::Members(members.clone()));
        let orders = tree.into_iter().map(Down::Order).chain(self.switch.in_force());
        self.out.extend(orders.map(|down| Output::Child(child, down)));
        // What jobs were ordered one by one the controller alone knows.
        self.out.push_back(Output::Parent(Report::ChildJoined { node: child }));
    }

    /// Turns what the parts say into what the daemon does.
    fn settle(&mut self, now_ns: u64) {
        while let Some(action) = self.switch.poll_action() {
            match action {
                Action::Forward(order) => self.forward(order),
                Action::Reached(job, stage, generation) => {
                    self.merger.handle_own(now_ns, job, stage, generation);
                }
                Action::Woken(job) => self.merger.handle_own_woken(job),
                Action::Here(generation) => {
                    self.out.push_back(Output::Parent(Report::Here { node: self.me, generation }));
                }
                Action::Stuck(job) => {
                    let late = Report::Late { node: self.me, job, stage: Stage::Frozen };
                    self.out.push_back(Output::Parent(late));
                    self.out.push_back(Output::Do(action));
                }
                _ => self.out.push_back(Output::Do(action)),
            }
        }
        while let Some(report) = self.merger.poll_report() {
            self.out.push_back(Output::Parent(report));
        }
    }

    fn forward(&mut self, order: Order) {
        let send = |child| Output::Child(child, Down::Order(order.clone()));
        match order.job() {
            Some(job) if self.merger.knows(job) => self.out.extend(self.merger.children_of(job).map(send)),
            // Of a job that is not known here yet they may know.
            _ => self.out.extend(self.children.iter().copied().map(send)),
        }
    }
}

#[cfg(test)]
mod tests;
