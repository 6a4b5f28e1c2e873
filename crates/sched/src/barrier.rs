//! Barriers over the control tree: reports of one job and stage are merged on their way up.
//!
//! Every daemon has one [`Merger`]. A node does not say "I have reached the barrier of switch 7", it says how
//! things stand: "frozen, as of generation 9". The merged report is the least of the generations of those
//! that count, and goes up when it has changed; the controller asks for "at least 7". So a node that was slow
//! and executed 9 without ever seeing 7 needs no special case, a repeated report does no harm, and a job
//! needs five small records for life, however many switches there are.
//!
//! | event | effect |
//! |---|---|
//! | [`Merger::handle_own`] | this node's part stands so |
//! | [`Merger::handle_own_ended`] | this node's part has ended before the others |
//! | [`Merger::handle_report`] | a child's subtree stands so; counts only if it was merged in the same state of the tree |
//! | [`Merger::handle_members`] | the tree has changed: all open barriers are looked at again, all standing reports repeated |
//! | [`Merger::handle_job`], [`Merger::handle_job_ended`] | a job that has nodes at or below this one |
//! | [`Merger::poll_report`] | what goes to the parent; on the controller: what holds for the whole job |
//!
//! What is late: a child that has lacked for longer than the limit while others have reported, or this node
//! itself ([`Merger::handle_time`]).

use std::collections::{BTreeMap, VecDeque};

use crate::message::{Members, Report, STAGES, STEPS, Stage};
use crate::tree::Tree;
use crate::types::{Generation, JobId, Membership, NodeId};

/// The merging part of one daemon.
#[derive(Clone, Debug)]
pub struct Merger {
    me: NodeId,
    tree: Tree,
    jobs: BTreeMap<JobId, Job>,
    out: VecDeque<Report>,
    /// How long a child may lack while others have reported.
    late_ns: u64,
}

/// State of a job, as known here.
#[derive(Clone, Debug)]
struct Job {
    /// None: children have spoken of it, nobody else.
    nodes: Vec<NodeId>,
    /// Whether this node has a part of the job that counts.
    member: bool,
    own: [Option<Generation>; STAGES.len()],
    children: Vec<Child>,
    sent: [Option<(Membership, Generation)>; STAGES.len()],
    /// Since when some have reached a later FROZEN, SAVED, RESTORED than others.
    uneven_since_ns: [Option<u64>; STEPS.len()],
}

/// Jobs that children speak of and that nobody else has spoken of yet.
const UNKNOWN_MAX: usize = 64;

/// Generation reached by those of whose part nothing is left.
const GONE: Generation = Generation(u64::MAX);

/// A child with nodes of the job that count.
#[derive(Clone, Debug)]
struct Child {
    node: NodeId,
    /// Some node of the job is below it.
    reaches: bool,
    /// Some node of the job below it counts.
    counts: bool,
    reported: [Option<(Membership, Generation)>; STAGES.len()],
}

impl Merger {
    /// The merger of node `me`. A child that lacks for `late_ns` while others have reported is late; each
    /// level of the tree below it adds a tenth, so that the deepest one who can tell tells.
    #[must_use]
    pub fn new(me: NodeId, tree: Tree, late_ns: u64) -> Self {
        Merger { me, tree, jobs: BTreeMap::new(), out: VecDeque::new(), late_ns }
    }

    /// In the tree as it is: a controller begins alone.
    fn limit_ns(&self) -> u64 {
        let levels = u64::from(self.tree.height().saturating_sub(self.tree.depth(self.me) + 1));
        self.late_ns + self.late_ns / 10 * levels
    }

    /// The tree as this daemon knows it.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Grows the tree to so many nodes, if it has fewer. True if that is new: all jobs are looked at again.
    pub fn handle_nodes(&mut self, now_ns: u64, nodes: u32) -> bool {
        let is_new = self.tree.nodes() < nodes;
        while self.tree.nodes() < nodes {
            self.tree.grow();
        }
        if is_new {
            self.check_all(now_ns);
        }
        is_new
    }

    /// A job with parts on `nodes` begins. It is needed on all nodes between them and the controller. Said
    /// again, when this node's own part is there, it changes nothing: what children have said by then they do
    /// not repeat. What they have said before counts. All its nodes are known by now
    /// ([`Self::handle_nodes`]), or nobody would wait for them.
    pub fn handle_job(&mut self, now_ns: u64, job: JobId, nodes: &[NodeId]) {
        if self.knows(job) {
            return;
        }
        let record = self.jobs.entry(job).or_insert_with(Job::unknown);
        record.nodes = nodes.to_vec();
        record.check_record(self.me, &self.tree);
        for stage in STAGES {
            self.settle(now_ns, job, stage);
        }
    }

    /// True if it has been said where the job is.
    #[must_use]
    pub fn knows(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|record| !record.nodes.is_empty())
    }

    /// A job has ended.
    pub fn handle_job_ended(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }

    /// The children through which orders for `job` reach its nodes; expelled ones too.
    pub fn children_of(&self, job: JobId) -> impl Iterator<Item = NodeId> + '_ {
        let children = self.jobs.get(&job).into_iter().flat_map(|record| &record.children);
        children.filter(|child| child.reaches).map(|child| child.node)
    }

    /// Notes that this node's part of `job` has reached the stage, as of `generation`.
    pub fn handle_own(&mut self, now_ns: u64, job: JobId, stage: Stage, generation: Generation) {
        let Some(record) = self.jobs.get_mut(&job) else { return };
        let own = &mut record.own[stage.index()];
        *own = (*own).max(Some(generation));
        self.settle(now_ns, job, stage);
    }

    /// Notes the end of `job` on this node: it has reached every stage of every generation, and no barrier
    /// waits for it.
    pub fn handle_own_ended(&mut self, now_ns: u64, job: JobId) {
        for stage in STAGES {
            self.handle_own(now_ns, job, stage, GONE);
        }
    }

    /// A rank of this node's part of an idle job is awake.
    pub fn handle_own_woken(&mut self, job: JobId) {
        if let Some(record) = self.jobs.get_mut(&job) {
            record.own[Stage::Idle.index()] = None;
            record.wake(job, &mut self.out);
        }
    }

    /// A report of child `from`.
    pub fn handle_report(&mut self, now_ns: u64, from: NodeId, report: Report) {
        match report {
            Report::Reached { job, stage, generation, membership } => {
                let record = self.known_or_new(job);
                let Some(child) = record.children.iter_mut().find(|child| child.node == from) else {
                    // It may know of a change of the tree that has not come here: remember it for then.
                    record.children.push(Child::new(from));
                    return self.handle_report(now_ns, from, report);
                };
                let reported = &mut child.reported[stage.index()];
                *reported = (*reported).max(Some((membership, generation)));
                self.settle(now_ns, job, stage);
            }
            Report::Woken { job } => {
                let Some(record) = self.jobs.get_mut(&job) else { return };
                if let Some(child) = record.children.iter_mut().find(|child| child.node == from) {
                    child.reported[Stage::Idle.index()] = None;
                }
                record.wake(job, &mut self.out);
            }
            Report::Late { .. } | Report::Here { .. } | Report::ChildJoined { .. } => {
                self.out.push_back(report)
            }
        }
    }

    /// The tree has changed: every open barrier is looked at again. False if it is old news.
    pub fn handle_members(&mut self, now_ns: u64, members: &Members) -> bool {
        let is_new = self.tree.handle_members(members);
        if is_new {
            self.check_all(now_ns);
        }
        is_new
    }

    fn check_all(&mut self, now_ns: u64) {
        let jobs: Vec<_> = self.jobs.keys().copied().collect();
        for job in jobs {
            let record = self.jobs.get_mut(&job).expect("its key was there");
            record.check_record(self.me, &self.tree);
            record.uneven_since_ns = [None; STEPS.len()];
            for stage in STAGES {
                self.settle(now_ns, job, stage);
            }
        }
    }

    /// Looks for children that are late, and names them.
    pub fn handle_time(&mut self, now_ns: u64) {
        let (limit_ns, membership) = (self.limit_ns(), self.tree.membership());
        for (&job, record) in &mut self.jobs {
            for stage in STEPS {
                let is_due = |since_ns: u64| now_ns >= since_ns + limit_ns;
                if !record.uneven_since_ns[stage.index()].is_some_and(is_due) {
                    continue;
                }
                let best = record.furthest(stage, membership);
                let lacks = |child: &&Child| child.counts && child.standing(stage, membership) < best;
                let late = record.children.iter().filter(lacks);
                self.out.extend(late.map(|child| Report::Late { node: child.node, job, stage }));
                // Above the controller there is nobody who could say so.
                if record.member && record.own[stage.index()] < best {
                    self.out.push_back(Report::Late { node: self.me, job, stage });
                }
                record.uneven_since_ns[stage.index()] = Some(now_ns);
            }
        }
    }

    /// When [`Self::handle_time`] is to be called at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        let since = self.jobs.values().flat_map(|record| record.uneven_since_ns);
        since.flatten().min().map(|since_ns| since_ns + self.limit_ns())
    }

    /// The next report for the parent; on the controller: for the controller itself.
    pub fn poll_report(&mut self) -> Option<Report> {
        self.out.pop_front()
    }

    /// Merged state of a job and stage on the controller: the least generation that all nodes that count have
    /// reached.
    #[must_use]
    pub fn merged(&self, job: JobId, stage: Stage) -> Option<Generation> {
        self.jobs.get(&job)?.merged(stage, self.tree.membership())
    }

    /// A daemon that is new may hear children speak of a job before it has heard of it: what they say is
    /// kept, of so many.
    fn known_or_new(&mut self, job: JobId) -> &mut Job {
        let unknown =
            |jobs: &BTreeMap<JobId, Job>| jobs.values().filter(|record| record.nodes.is_empty()).count();
        if !self.jobs.contains_key(&job) && unknown(&self.jobs) >= UNKNOWN_MAX {
            // The oldest: it is over, or will never be heard of.
            let first = self.jobs.iter().find(|(_, record)| record.nodes.is_empty()).map(|(job, _)| *job);
            first.map(|first| self.jobs.remove(&first));
        }
        self.jobs.entry(job).or_insert_with(Job::unknown)
    }

    /// Sends the merged state of a job and stage if it has changed.
    fn settle(&mut self, now_ns: u64, job: JobId, stage: Stage) {
        let membership = self.tree.membership();
        let Some(record) = self.jobs.get_mut(&job) else { return };
        let merged = record.merged(stage, membership);
        let most = record.furthest(stage, membership);
        if let Some(since_ns) = record.uneven_since_ns.get_mut(stage.index()) {
            *since_ns = if most > merged { since_ns.or(Some(now_ns)) } else { None };
        }
        if let Some(generation) = merged
            && record.sent[stage.index()] != Some((membership, generation))
        {
            record.sent[stage.index()] = Some((membership, generation));
            self.out.push_back(Report::Reached { job, stage, generation, membership });
        }
    }
}

impl Job {
    fn unknown() -> Self {
        Job {
            nodes: Vec::new(),
            member: false,
            own: [None; STAGES.len()],
            children: Vec::new(),
            sent: [None; STAGES.len()],
            uneven_since_ns: [None; STEPS.len()],
        }
    }

    /// Works out anew who has a part of the job in this state of the tree; what they have said stays.
    fn check_record(&mut self, me: NodeId, tree: &Tree) {
        self.member = self.nodes.contains(&me) && tree.counts(me);
        for child in &mut self.children {
            (child.reaches, child.counts) = (false, false);
        }
        if tree.children(me).is_empty() {
            return;
        }
        for &node in self.nodes.iter().filter(|&&node| node != me && tree.is_here(node)) {
            let Some(hop) = tree.next_hop(me, node) else { continue };
            let at = self.children.iter().position(|child| child.node == hop).unwrap_or_else(|| {
                self.children.push(Child::new(hop));
                self.children.len() - 1
            });
            let child = &mut self.children[at];
            child.reaches = true;
            child.counts |= tree.counts(node);
        }
    }

    /// Generations reached by each of those that count.
    fn reported(
        &self,
        stage: Stage,
        membership: Membership,
    ) -> impl Iterator<Item = Option<Generation>> + '_ {
        let own = self.member.then_some(self.own[stage.index()]);
        let children = self.children.iter().filter(|child| child.counts);
        own.into_iter().chain(children.map(move |child| child.standing(stage, membership)))
    }

    /// The most that one of those has reached who still have somebody to stop: nobody is late beside those
    /// who have left.
    fn furthest(&self, stage: Stage, membership: Membership) -> Option<Generation> {
        self.reported(stage, membership).flatten().filter(|reported| *reported != GONE).max()
    }

    /// The least of what all have reached; None if one has reached nothing, or nobody counts.
    fn merged(&self, stage: Stage, membership: Membership) -> Option<Generation> {
        self.reported(stage, membership).min().flatten()
    }

    /// Somebody is awake: what was said of idleness is void, up to the controller.
    fn wake(&mut self, job: JobId, out: &mut VecDeque<Report>) {
        if self.sent[Stage::Idle.index()].take().is_some() {
            out.push_back(Report::Woken { job });
        }
    }
}

impl Child {
    fn new(node: NodeId) -> Self {
        Child { node, reaches: false, counts: false, reported: [None; STAGES.len()] }
    }

    fn standing(&self, stage: Stage, membership: Membership) -> Option<Generation> {
        self.reported[stage.index()].filter(|reported| reported.0 == membership).map(|reported| reported.1)
    }
}

#[cfg(test)]
mod tests;
