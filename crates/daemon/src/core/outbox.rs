//! Output of a part of the daemon: what the shell is to do, what other nodes are told, and what has to
//! happen in other parts. [`Core`](super::Core) alone knows the parts, and hands it to them.

use std::cell::RefCell;

use super::action::Action;
use super::event::Event;
use crate::ids::{ClientId, LinkId};
use crate::members::NodeId;
use crate::message::{JobId, Order, Request, Routed, State, User};

/// In place of a user's program that is gone, or for what the daemon asks by itself.
pub(super) const NO_CLIENT: ClientId = ClientId(0);

/// Effect of what a part has been told.
#[derive(Debug)]
pub(super) enum Effect {
    /// Action for the shell, or for the other end of a tunnel.
    Act(Action),
    /// Message for a node, which may be this one.
    Route(NodeId, Routed),
    /// The same as if the shell had said it: a user at the other end of a tunnel does something, or the
    /// daemon asks by itself.
    Event(Event),
    /// A link leads to our parent.
    LinkedUp,
    /// A link leads to one of our children.
    LinkedDown(LinkId),
    /// A link is gone.
    Unlinked(LinkId),
    /// The list of nodes has changed.
    MembersChanged,
    /// Our number is another's now.
    NumberLost,
    /// Our number is known.
    NumberKnown,
    /// On the controller: the daemon of a node is a new one.
    NodeRenewed(NodeId),
    /// On the controller: a node of this name is gone.
    NodeLost(NodeId, String),
    /// State of a part of a job here, when it has changed.
    PartChanged(State),
    /// A node below, or an earlier incarnation of this one, had this order.
    OrderKnown(JobId, Order),
    /// A job that runs already takes part as soon as its order and its mpiexec are both here.
    Enrol(JobId),
    /// A user wants to be at the origin of a job.
    OpenTunnel(ClientId, User, Request, NodeId),
    /// On the controller: all daemons are to end, when they have their orders.
    ShutDown,
}

/// Collects what a part gives out, in order. Whoever has it puts in; [`Core`](super::Core) alone takes out.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    effects: RefCell<Vec<Effect>>,
}

impl Outbox {
    pub(super) fn push(&self, effect: Effect) {
        self.effects.borrow_mut().push(effect);
    }

    pub(super) fn extend(&self, effects: impl IntoIterator<Item = Effect>) {
        effects.into_iter().for_each(|effect| self.push(effect));
    }

    pub(super) fn act(&self, action: Action) {
        self.push(Effect::Act(action));
    }

    pub(super) fn route(&self, to: NodeId, body: Routed) {
        self.push(Effect::Route(to, body));
    }

    /// A question of the daemon's own, whose answer nobody waits for.
    pub(super) fn post_request(&self, user: User, request: Request) {
        self.push(Effect::Event(Event::Request(NO_CLIENT, user, request)));
    }

    /// All that there is.
    pub(super) fn take(&mut self) -> Vec<Effect> {
        std::mem::take(self.effects.get_mut())
    }
}
