//! Surroundings of a part of the daemon while it handles something: the node as all parts see it, and where
//! it gives out what follows. [`Core`](super::Core) passes on what was given out when the part has returned.

use super::local::LocalNode;
use super::outbox::Outbox;

/// Node and outbox of a part that handles something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    pub(super) local: &'a LocalNode,
    pub(super) out: &'a Outbox,
}
