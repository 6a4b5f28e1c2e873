//! A simulated node: its agent, and the jobs' parts with their freezers.

use std::collections::BTreeMap;

use super::coverage::Phase;
use crate::agent::Agent;
use crate::types::{Generation, JobId, NodeId, Slots};

/// State in which a part's freezer really is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Real {
    /// The part's processes run.
    Runs,
    /// The freezer has been ordered to freeze.
    Freezing { since_ns: u64 },
    /// All its processes stand still.
    Frozen,
}

/// A job's processes on one node.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) slots: Slots,
    pub(super) real: Real,
    /// The number of the last write to the freezer: what an older one leads to is void.
    pub(super) epoch: u64,
    /// Whether it runs no instruction of its own since ordered to freeze, which its daemon has taken for
    /// frozen.
    pub(super) assumed: bool,
    /// Whether it runs in the turn of another job.
    lent: bool,
    /// Whether it has run so, and is ordered to freeze: FROZEN was said of it before.
    returns: bool,
    /// Since when it runs, and how long it has run before.
    pub(super) since_ns: Option<u64>,
    pub(super) ran_ns: u64,
    pub(super) dying: bool,
    /// The daemon has heard of it. One that is new lets it run until its starter comes.
    pub(super) known: bool,
    /// The switch for which its channels were loaded last, or went on without.
    pub(super) restored: Option<Generation>,
    /// Set while its channels are tested, saved or restored: the phase.
    pub(super) copies: Option<Phase>,
    /// When its channels were found steady since it has been frozen, if they were.
    steady_ns: Option<u64>,
    /// Whether its starter answers nothing that is asked of its channels.
    is_mute: bool,
    /// When it was thawed last.
    thawed_ns: u64,
}

impl Process {
    pub(super) fn new(slots: Slots) -> Self {
        Process {
            slots,
            real: Real::Frozen,
            epoch: 0,
            assumed: false,
            lent: false,
            returns: false,
            since_ns: None,
            ran_ns: 0,
            dying: false,
            known: false,
            restored: None,
            copies: None,
            steady_ns: None,
            is_mute: false,
            thawed_ns: 0,
        }
    }

    /// How long it has run until `now_ns`.
    pub(super) fn ran_until(&self, now_ns: u64) -> u64 {
        self.ran_ns + self.since_ns.map_or(0, |since_ns| now_ns - since_ns)
    }

    /// When its channels were found steady since it has been frozen, if they were.
    pub(super) fn steady_ns(&self) -> Option<u64> {
        self.steady_ns
    }

    /// Notes whether they are steady as of this moment.
    pub(super) fn set_steady(&mut self, steady_ns: Option<u64>) {
        self.steady_ns = steady_ns;
    }

    /// Notes whether its starter answers nothing.
    pub(super) fn set_mute(&mut self, is_mute: bool) {
        self.is_mute = is_mute;
    }

    /// Whether its starter answers nothing that is asked of its channels.
    pub(super) fn is_mute(&self) -> bool {
        self.is_mute
    }

    /// When it was thawed last.
    pub(super) fn thawed_ns(&self) -> u64 {
        self.thawed_ns
    }

    /// Whether it counts as frozen; it may be thawed all the same.
    pub(super) fn is_stopped(&self) -> bool {
        self.real == Real::Frozen || self.lent || self.assumed && matches!(self.real, Real::Freezing { .. })
    }

    /// Runs it in the turn of another job, which is not time of its own.
    pub(super) fn lend(&mut self) {
        (self.real, self.lent, self.assumed) = (Real::Runs, true, false);
    }

    /// See [`Self::lend`].
    pub(super) fn is_lent(&self) -> bool {
        self.lent
    }

    /// Notes that it is ordered to freeze after it has run so.
    pub(super) fn give_back(&mut self) {
        self.returns = true;
    }

    /// FROZEN was said of it before, and it does not stand still yet.
    pub(super) fn returns(&self) -> bool {
        self.returns
    }

    /// Notes that it stops running or begins to.
    pub(super) fn set_runs(&mut self, now_ns: u64, runs: bool) {
        (self.assumed, self.lent, self.returns) = (false, false, false);
        self.ran_ns = self.ran_until(now_ns);
        self.since_ns = runs.then_some(now_ns);
        self.steady_ns = None;
        if runs {
            self.thawed_ns = now_ns;
        }
    }
}

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    /// None while the daemon or the whole node is down.
    pub(super) agent: Option<Agent>,
    pub(super) here: bool,
    /// Grows when the daemon is another one: what was meant for the old one is lost.
    pub(super) incarnation: u32,
    /// Whom it has dialled, and the number of that link: what is under way on an older one is lost.
    pub(super) link: Option<(NodeId, u64)>,
    /// Since when it has none.
    pub(super) alone_since_ns: u64,
    /// Until when nothing comes in or goes out.
    pub(super) cut_until_ns: u64,
    /// Until when what runs here may be other than the controller thinks.
    pub(super) fuzzy_until_ns: u64,
    /// Until when its freezers are slow.
    pub(super) slow_until_ns: u64,
    /// Until when its daemon stands still.
    pub(super) stopped_until_ns: u64,
    /// Number of the next datagrams from here that are lost.
    pub(super) losing: u32,
    /// Until when the switch thread is sending.
    pub(super) busy_ns: u64,
    /// The timer that counts.
    pub(super) timer_ns: Option<u64>,
    pub(super) processes: BTreeMap<JobId, Process>,
}

impl Node {
    pub(super) fn new(agent: Agent) -> Self {
        Node {
            agent: Some(agent),
            here: true,
            incarnation: 0,
            link: None,
            alone_since_ns: 0,
            cut_until_ns: 0,
            fuzzy_until_ns: 0,
            slow_until_ns: 0,
            stopped_until_ns: 0,
            losing: 0,
            busy_ns: 0,
            timer_ns: None,
            processes: BTreeMap::new(),
        }
    }

    /// Node to which the link up from here leads.
    pub(super) fn parent(&self) -> Option<NodeId> {
        self.link.map(|link| link.0)
    }

    /// True if what the controller thinks of this node must be true.
    pub(super) fn is_settled(&self, now_ns: u64) -> bool {
        let executed = self
            .agent
            .as_ref()
            .is_some_and(|agent| agent.switch().executed().is_some() && !agent.switch().is_alone());
        self.here && executed && now_ns >= self.cut_until_ns && now_ns >= self.fuzzy_until_ns
    }
}
