//! Clients of published regions of other nodes, until the region's server lets them in.
//!
//! ```text
//! client --> its node --RegionWanted--> the region's node --Action::ReachRegion--> server
//!        <--           <--RegionGiven--                   <--RegionReached--------
//! ```
//!
//! Who the client is its own node's kernel says; each node believes the others, as for all questions of
//! users. A question is asked again until it is answered, its node is lost, or its time is over: asked twice
//! it costs a pass that nobody shows. Nothing of a region is kept here, and no operation on one comes this
//! way. If the daemon stops right here, its clients see the end of their connections.

use std::collections::{BTreeMap, BTreeSet};

use tutti_shm::published::Status;
use tutti_shm::published::far::{ANY_NODE, Given, Pass, Secret, Wanted};

use super::action::Action;
use super::context::Context;
use super::outbox::Outbox;
use crate::ids::ClientId;
use crate::members::NodeId;
use crate::message::{RegionClient, RegionPlace, Routed};

/// A question is asked again after a silence of so long, in ms.
const REPEAT_MS: u64 = 1000;
/// A node that the list has as lost may be asked for so long, in ms: to a controller that has just begun the
/// nodes come back one by one.
const RETURN_MS: u64 = 3000;
/// A client waits so long, in ms.
const ANSWER_MS_MAX: u64 = 10_000;
/// Questions of one user here at once, and those that go to all nodes.
const ASKED_OF_USER_MAX: usize = 64;
const SEARCHES_OF_USER_MAX: usize = 4;
/// Clients of other nodes for which servers here are asked at once, and those of one user.
const REACHING_MAX: usize = 1024;
const REACHING_OF_USER_MAX: usize = 64;

/// A client of this node.
#[derive(Debug)]
struct Asked {
    client: RegionClient,
    /// Whether it goes to all nodes.
    is_search: bool,
    /// Nodes that have not answered.
    nodes: BTreeSet<NodeId>,
    /// Status that the other ones have answered with.
    refused: Option<Status>,
    begun_ms: u64,
    asked_ms: u64,
}

/// All clients whose questions are under way.
#[derive(Debug, Default)]
pub(super) struct Regions {
    asked: BTreeMap<ClientId, Asked>,
    /// Clients of other nodes, by their node and its number, and their users.
    reaching: BTreeMap<(NodeId, u64), u32>,
}

impl Regions {
    /// Whether nothing here waits for time to pass.
    pub(super) fn is_settled(&self) -> bool {
        self.asked.is_empty()
    }

    /// A user's program of this node, in these groups, wants a region.
    pub(super) fn handle_wanted(
        &mut self,
        cx: Context<'_>,
        client: ClientId,
        (uid, groups): (u32, Vec<u32>),
        wanted: Wanted,
    ) {
        let answer = |given| cx.out.act(Action::GiveRegion(client, given));
        let (Some(me), Some(members)) = (cx.local.me, &cx.local.members) else {
            return answer(Given::Refused(Status::Node));
        };
        let is_search = wanted.node == ANY_NODE;
        let named = |name: &str| is_search || name == wanted.node;
        // A node by its name is awaited for a while: to a new controller it may not have come back yet.
        let known = members
            .nodes
            .iter()
            .filter(|(_, member)| named(&member.about.name) && (member.alive || !is_search));
        let mut nodes: BTreeSet<NodeId> = known.map(|(node, _)| *node).collect();
        let was_here = nodes.remove(&me);
        if nodes.is_empty() {
            return answer(match (was_here, is_search) {
                (true, false) => Given::Here,
                // Its client has looked here.
                (true, true) => Given::Refused(Status::Region),
                (false, _) => Given::Refused(Status::Node),
            });
        }
        let own = self.asked.values().filter(|asked| asked.client.uid == uid);
        let searches = own.clone().filter(|asked| asked.is_search).count();
        if own.count() >= ASKED_OF_USER_MAX || (is_search && searches >= SEARCHES_OF_USER_MAX) {
            return answer(Given::Refused(Status::Memory));
        }
        let Wanted { owner, name, .. } = wanted;
        let (begun_ms, asked_ms) = (cx.local.now_ms, cx.local.now_ms);
        let asked = Asked {
            client: RegionClient { uid, groups, owner, name },
            is_search,
            nodes,
            refused: None,
            begun_ms,
            asked_ms,
        };
        asked.ask(cx.out, client);
        self.asked.insert(client, asked);
    }

    pub(super) fn handle_client_gone(&mut self, client: ClientId) {
        self.asked.remove(&client);
    }

    /// A node has answered.
    pub(super) fn handle_given(
        &mut self,
        cx: Context<'_>,
        from: NodeId,
        id: u64,
        result: Result<RegionPlace, i32>,
    ) {
        let client = ClientId(id);
        let Some(asked) = self.asked.get_mut(&client) else { return };
        if !asked.nodes.remove(&from) {
            return;
        }
        match result {
            Ok(RegionPlace { address, key, proof }) => {
                self.asked.remove(&client);
                let pass = Pass { key: Secret(key), proof: Secret(proof) };
                let node = cx.local.members.as_ref().map_or_else(String::new, |members| members.name(from));
                cx.out.act(Action::GiveRegion(client, Given::There { address, pass, node }));
            }
            Err(status) => {
                asked.note(Status::of(status).filter(|it| *it != Status::Ok).unwrap_or(Status::Refused));
                self.end_if_over(cx.out, client);
            }
        }
    }

    /// A client of another node wants a region of this one.
    pub(super) fn handle_asked(&mut self, out: &Outbox, from: NodeId, id: u64, client: RegionClient) {
        if self.reaching.contains_key(&(from, id)) {
            return;
        }
        let of_user = self.reaching.values().filter(|uid| **uid == client.uid).count();
        if self.reaching.len() >= REACHING_MAX || of_user >= REACHING_OF_USER_MAX {
            return out.route(from, Routed::RegionGiven { id, result: Err(Status::Memory as i32) });
        }
        self.reaching.insert((from, id), client.uid);
        out.act(Action::ReachRegion(from, id, client));
    }

    /// The region's server has answered, or has not in its time.
    pub(super) fn handle_reached(
        &mut self,
        out: &Outbox,
        from: NodeId,
        id: u64,
        result: Result<RegionPlace, i32>,
    ) {
        self.reaching.remove(&(from, id));
        out.route(from, Routed::RegionGiven { id, result });
    }

    pub(super) fn tick(&mut self, cx: Context<'_>) {
        let now_ms = cx.local.now_ms;
        let is_alive = |node: &NodeId| cx.local.members.as_ref().is_some_and(|it| it.is_alive(*node));
        for (client, asked) in &mut self.asked {
            let before = asked.nodes.len();
            if now_ms >= asked.begun_ms + RETURN_MS {
                asked.nodes.retain(is_alive);
            }
            if asked.nodes.len() < before && !asked.is_search {
                asked.note(Status::Node);
            }
            if now_ms >= asked.begun_ms + ANSWER_MS_MAX {
                asked.note(Status::Node);
                asked.nodes.clear();
            }
            if now_ms >= asked.asked_ms + REPEAT_MS {
                asked.asked_ms = now_ms;
                asked.ask(cx.out, *client);
            }
        }
        let over: Vec<ClientId> = self
            .asked
            .iter()
            .filter(|(_, asked)| asked.nodes.is_empty())
            .map(|(client, _)| *client)
            .collect();
        over.into_iter().for_each(|client| self.end_if_over(cx.out, client));
    }

    /// All have refused.
    fn end_if_over(&mut self, out: &Outbox, client: ClientId) {
        let Some(asked) = self.asked.get(&client).filter(|asked| asked.nodes.is_empty()) else { return };
        let status = asked.refused.unwrap_or(Status::Region);
        self.asked.remove(&client);
        out.act(Action::GiveRegion(client, Given::Refused(status)));
    }
}

impl Asked {
    fn ask(&self, out: &Outbox, client: ClientId) {
        for node in &self.nodes {
            out.route(*node, Routed::RegionWanted { id: client.0, client: self.client.clone() });
        }
    }

    /// A node has refused: of several answers the client gets the one that says most.
    fn note(&mut self, status: Status) {
        let says = |status: Status| match status {
            Status::Right => 3,
            Status::Region => 1,
            Status::Node => 0,
            _ => 2,
        };
        if self.refused.is_none_or(|before| says(status) > says(before)) {
            self.refused = Some(status);
        }
    }
}

#[cfg(test)]
impl Regions {
    pub(super) fn leftovers(&self) -> Vec<String> {
        let asked = self.asked.iter().map(|(client, asked)| format!("{client:?} wants {asked:?}"));
        asked.chain(self.reaching.keys().map(|from| format!("a region is reached for {from:?}"))).collect()
    }
}
