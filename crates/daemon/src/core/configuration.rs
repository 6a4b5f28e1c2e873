//! The configuration of the cluster (`tutti.toml` without `[node]`): the controller hands its text to all
//! nodes in the list of nodes ([`Members::configuration`](crate::members::Members)), so that the next
//! controller has it, on whatever node.
//!
//! ```text
//! controller: reads its file --> Members (text), down the tree
//! each node:  file NAME.cluster.toml --> Configuration (version), to the controller
//! ```
//!
//! A node says which version it has when the file is written, and says it again now and then: what is lost on
//! its way is said anew. What happens if it stops right here: the file is replaced as a whole, so there is
//! the old text or the new one, and the next daemon of the node gets the list anew.

use std::sync::Arc;

use tutti_protocol::config::Rules;
use tutti_protocol::settings;

use super::action::Action;
use super::context::Context;
use crate::members::NodeId;
use crate::message::Routed;

/// A node says again which version it has, in ms.
const REPEAT_MS: u64 = 30_000;

/// Copy of the cluster's configuration that a node keeps.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Text that was last given to be written.
    wanted: Option<Arc<str>>,
    /// The version that is on the disk.
    version: Option<u64>,
    sent_ms: u64,
    /// Rules that the kernel of this node was last given to see to; none: nothing since the daemon began.
    given: Option<Arc<Rules>>,
}

impl Kept {
    /// The list of nodes has changed, and perhaps the text with it.
    pub(super) fn members_changed(&mut self, cx: Context<'_>) {
        let Some(members) = &cx.local.members else { return };
        if self.given.as_ref() != Some(&members.of_nodes) {
            self.given = Some(Arc::clone(&members.of_nodes));
            cx.out.act(Action::LimitUsers);
        }
        if self.wanted.as_ref() != Some(&members.configuration) {
            self.wanted = Some(Arc::clone(&members.configuration));
            self.version = None;
            cx.out.act(Action::KeepConfiguration(Arc::clone(&members.configuration)));
        } else {
            // The controller may be another.
            self.sent_ms = 0;
        }
    }

    /// Notes that the text is on the disk, and tells the controller.
    pub(super) fn handle_kept(&mut self, cx: Context<'_>, text: &str) {
        if self.wanted.as_deref() == Some(text) {
            self.version = Some(settings::version(text));
            self.send(cx);
        }
    }

    pub(super) fn tick(&mut self, cx: Context<'_>) {
        if self.version.is_some() && cx.local.now_ms >= self.sent_ms + REPEAT_MS {
            self.send(cx);
        }
    }

    fn send(&mut self, cx: Context<'_>) {
        let Some(version) = self.version else { return };
        self.sent_ms = cx.local.now_ms;
        cx.out.route(NodeId::CONTROLLER, Routed::Configuration { version });
    }
}
