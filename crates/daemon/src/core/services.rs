//! Lists of all services of the cluster, for programs of users.
//!
//! ```text
//! program --> its node --ServicesWanted--> each node: reads the kernel's list of local sockets
//!         <--          <--ServicesGiven---
//! ```
//!
//! Names of services are no secret: each node shows them to everybody. A node that does not answer in time is
//! named in the list instead. Nothing is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use tutti_shm::published::{Status, far::Given, is_name};

use super::action::Action;
use super::local::LocalNode;
use super::outbox::Effect;
use crate::ids::ClientId;
use crate::members::NodeId;
use crate::message::Routed;

/// A question is asked again after a silence of so long, in ms.
const REPEAT_MS: u64 = 1000;
/// A program waits so long, in ms.
const ANSWER_MS_MAX: u64 = 3000;
/// Questions of one user here at once.
const ASKED_OF_USER_MAX: usize = 4;
/// Services of a node that are listed.
pub(crate) const SERVICES_MAX: usize = 1024;

#[derive(Debug)]
struct Asked {
    uid: u32,
    /// Nodes that have not answered.
    nodes: BTreeSet<NodeId>,
    text: String,
    begun_ms: u64,
    asked_ms: u64,
}

/// All questions under way.
#[derive(Debug, Default)]
pub(super) struct Services {
    asked: BTreeMap<ClientId, Asked>,
}

impl Services {
    /// Whether nothing here waits for time to pass.
    pub(super) fn is_settled(&self) -> bool {
        self.asked.is_empty()
    }

    /// A program of a user wants the list.
    pub(super) fn handle_wanted(&mut self, local: &LocalNode, client: ClientId, uid: u32) -> Vec<Effect> {
        let of_user = self.asked.values().filter(|asked| asked.uid == uid).count();
        let status = match &local.members {
            None => Status::Node,
            Some(_) if of_user >= ASKED_OF_USER_MAX => Status::Memory,
            Some(members) => {
                let nodes: BTreeSet<NodeId> = members.alive().map(|(node, _)| node).collect();
                let (begun_ms, asked_ms) = (local.now_ms, local.now_ms);
                let asked = Asked { uid, nodes, text: String::new(), begun_ms, asked_ms };
                let questions = asked.questions(client).collect();
                self.asked.insert(client, asked);
                return questions;
            }
        };
        vec![Effect::Act(Action::GiveRegion(client, Given::Refused(status)))]
    }

    pub(super) fn handle_client_gone(&mut self, client: ClientId) {
        self.asked.remove(&client);
    }

    /// A node has answered.
    pub(super) fn handle_given(
        &mut self,
        local: &LocalNode,
        from: NodeId,
        id: u64,
        services: &[(u32, String)],
    ) -> Option<Effect> {
        let client = ClientId(id);
        let asked = self.asked.get_mut(&client).filter(|asked| asked.nodes.contains(&from))?;
        asked.nodes.remove(&from);
        let node = local.members.as_ref().map_or_else(String::new, |members| members.name(from));
        let right = services.iter().filter(|(_, name)| is_name(name.as_bytes())).take(SERVICES_MAX);
        for (uid, name) in right {
            let _ = writeln!(asked.text, "{node} {uid} {name}");
        }
        self.end_if_over(local, client)
    }

    pub(super) fn tick(&mut self, local: &LocalNode) -> Vec<Effect> {
        let clients: Vec<ClientId> = self.asked.keys().copied().collect();
        let mut effects = Vec::new();
        for client in clients {
            let Some(asked) = self.asked.get_mut(&client) else { continue };
            if local.now_ms >= asked.asked_ms + REPEAT_MS {
                asked.asked_ms = local.now_ms;
                effects.extend(asked.questions(client));
            }
            effects.extend(self.end_if_over(local, client));
        }
        effects
    }

    /// All have answered, or the time is over.
    fn end_if_over(&mut self, local: &LocalNode, client: ClientId) -> Option<Effect> {
        let is_over = |asked: &Asked| {
            asked.nodes.is_empty() || local.now_ms >= asked.begun_ms.saturating_add(ANSWER_MS_MAX)
        };
        self.asked.get(&client).filter(|asked| is_over(asked))?;
        let mut asked = self.asked.remove(&client)?;
        asked.name_silent(local);
        // The end of the list: an empty one is an answer, too.
        asked.text.push('\n');
        Some(Effect::Act(Action::GiveServices(client, asked.text)))
    }
}

impl Asked {
    /// Names the nodes that have not answered. One that the list has as lost may just not be back at a
    /// controller that has just begun.
    fn name_silent(&mut self, local: &LocalNode) {
        for node in std::mem::take(&mut self.nodes) {
            let node = local.members.as_ref().map_or_else(String::new, |members| members.name(node));
            let _ = writeln!(self.text, "{node}");
        }
    }

    fn questions(&self, client: ClientId) -> impl Iterator<Item = Effect> {
        self.nodes.iter().map(move |node| Effect::Route(*node, Routed::ServicesWanted { id: client.0 }))
    }
}
