//! A user of one node at a job whose home is another: what he would say to the daemon of the origin, and hear
//! from it, goes from daemon to daemon as two streams of bytes. Each is kept until the other side has it and
//! sent again after a silence, so links may break.
//!
//! ```text
//! program --frames--> near (its node) ==Tunnel==> far (the origin) --as a client of its own--> home.rs
//! ```
//!
//! `near` says with every message what it was opened for, so the first one that arrives opens `far`; `far`
//! says where its stream ends. Who has done with it says `over` until the other side says so too.

use std::collections::BTreeMap;

use tutti_protocol::users::refusal::put_answer;
use tutti_protocol::wire::{self, Decoder, Kind};

use super::action::Action;
use super::context::Context;
use super::event::Event;
use super::outbox::{Effect, Outbox};
use super::outlet::Outlet;
use crate::ids::ClientId;
use crate::members::NodeId;
use crate::message::{Answer, Pipe, Request, Routed, User};

/// Bytes on their way to a program that does not read.
const ROOM_BYTES: u64 = 256 << 10;
/// Clients with this bit are far ones.
const FAR: u64 = 1 << 63;
/// Silence after which something is said again.
const RESEND_MS: u64 = 1000;
/// Number of a Suspend frame that says: the front end is stopped already.
const IS_STOPPED: u32 = 1;

/// One end.
#[derive(Debug)]
struct End {
    out: Outlet,
    /// Bytes that have come.
    have: u64,
    /// Bytes that the program has taken.
    taken: u64,
    decoder: Decoder,
    /// Where the other side's stream ends, if it has said so.
    end: Option<u64>,
    /// We have nothing more to say.
    ended: bool,
    /// Whether something is to be said, with or without bytes.
    due: bool,
    sent_ms: u64,
}

impl End {
    fn new() -> Self {
        End {
            out: Outlet::new(0, ROOM_BYTES),
            have: 0,
            taken: 0,
            decoder: Decoder::default(),
            end: None,
            ended: false,
            due: true,
            sent_ms: 0,
        }
    }

    /// Takes in what is new; gives whole frames, and how many of our bytes have arrived since.
    fn handle_pipe(&mut self, pipe: &Pipe, now_ms: u64) -> (Vec<(Kind, u32, Vec<u8>)>, u64) {
        let known = self.have.saturating_sub(pipe.offset);
        if pipe.offset <= self.have && known < pipe.bytes.len() as u64 {
            self.decoder.extend(&pipe.bytes[known as usize..]);
            self.have = pipe.offset + pipe.bytes.len() as u64;
        }
        self.due |= !pipe.bytes.is_empty();
        self.end = self.end.or(pipe.end);
        let before = self.out.base();
        self.out.handle_room(Some(pipe.have), pipe.limit, now_ms);
        let mut frames = Vec::new();
        while let Ok(Some((header, payload))) = self.decoder.next_frame() {
            frames.push((header.kind, header.rank, payload.to_vec()));
        }
        (frames, self.out.base() - before)
    }

    /// All that is to be said now.
    fn poll_pipes(&mut self, now_ms: u64) -> Vec<Pipe> {
        let mut pipes: Vec<Pipe> = Vec::new();
        while let Some((offset, bytes)) = self.out.poll(now_ms) {
            pipes.push(Pipe { offset, bytes, ..self.pipe() });
        }
        let silent = now_ms >= self.sent_ms + RESEND_MS;
        if pipes.is_empty() && (self.due || silent) {
            pipes.push(self.pipe());
        }
        if !pipes.is_empty() {
            (self.due, self.sent_ms) = (false, now_ms);
        }
        pipes
    }

    fn pipe(&self) -> Pipe {
        Pipe {
            open: None,
            offset: self.out.end(),
            bytes: Vec::new(),
            have: self.have,
            limit: self.taken + ROOM_BYTES,
            end: self.ended.then(|| self.out.end()),
            over: false,
        }
    }
}

#[derive(Debug)]
struct Near {
    origin: NodeId,
    user: User,
    request: Request,
    end: End,
    /// The program has gone: only the end is left to be said.
    gone: bool,
}

/// The tunnels that begin or end here.
#[derive(Debug, Default)]
pub(super) struct Tunnels {
    near: BTreeMap<ClientId, Near>,
    far: BTreeMap<ClientId, (NodeId, u64, End)>,
    made: u64,
}

impl Tunnels {
    pub(super) fn is_empty(&self) -> bool {
        self.near.is_empty() && self.far.is_empty()
    }

    pub(super) fn has_near(&self, client: ClientId) -> bool {
        self.near.contains_key(&client)
    }

    fn far_of(&self, node: NodeId, id: u64) -> Option<ClientId> {
        self.far
            .iter()
            .find(|(_, (other, number, _))| (*other, *number) == (node, id))
            .map(|(client, _)| *client)
    }
}

impl Tunnels {
    /// A user of this node wants to be at the origin of a job.
    pub(super) fn open(&mut self, client: ClientId, user: User, request: Request, origin: NodeId) {
        self.near.insert(client, Near { origin, user, request, end: End::new(), gone: false });
    }

    /// Puts what a program at the near end says into its tunnel. `false`: it has none.
    pub(super) fn put(&mut self, client: ClientId, kind: Kind, number: u32, payload: &[u8]) -> bool {
        let Some(near) = self.near.get_mut(&client) else { return false };
        let mut frame = Vec::new();
        wire::put(&mut frame, kind, number, payload);
        near.end.out.push(&frame);
        true
    }

    /// The process at the near end was stopped.
    pub(super) fn stop(&mut self, client: ClientId) -> bool {
        self.put(client, Kind::Suspend, IS_STOPPED, &[])
    }

    pub(super) fn handle_taken(&mut self, client: ClientId, bytes: usize) {
        if let Some(near) = self.near.get_mut(&client) {
            near.end.taken += bytes as u64;
            near.end.due = true;
        }
    }

    pub(super) fn handle_client_gone(&mut self, client: ClientId) {
        if let Some(near) = self.near.get_mut(&client) {
            near.gone = true;
            near.end.sent_ms = 0;
        }
    }

    /// Puts what is for a client at a far end into its tunnel; returns the rest, which is to be done here.
    pub(super) fn take(&mut self, action: Action) -> Option<Action> {
        let (Action::Answer(client, _)
        | Action::ToClient(client, _)
        | Action::Continue(client)
        | Action::Release(client)) = &action
        else {
            return Some(action);
        };
        if client.0 & FAR == 0 {
            return Some(action);
        }
        let (_, _, end) = self.far.get_mut(client)?;
        let mut frame = Vec::new();
        match &action {
            Action::Answer(_, answer) => put_answer(&mut frame, answer),
            Action::ToClient(_, bytes) => frame.extend_from_slice(bytes),
            Action::Continue(_) => wire::put(&mut frame, Kind::Resume, 0, &[]),
            _ => (end.ended, end.due) = (true, true),
        }
        end.out.push(&frame);
        None
    }

    pub(super) fn handle_tunnel(
        &mut self,
        cx: Context<'_>,
        from: NodeId,
        id: u64,
        to_origin: bool,
        pipe: Pipe,
    ) {
        if to_origin {
            self.handle_at_far(cx, from, id, pipe)
        } else {
            self.handle_at_near(cx, from, id, pipe)
        }
    }

    fn handle_at_far(&mut self, cx: Context<'_>, from: NodeId, id: u64, mut pipe: Pipe) {
        let known = self.far_of(from, id);
        if pipe.over {
            if let Some(client) = known {
                self.far.remove(&client);
                cx.out.push(Effect::Event(Event::ClientGone(client)));
            }
            return self.send_over(cx.out, from, id, false);
        }
        let client = match (known, pipe.open.take()) {
            (Some(client), _) => client,
            // The first message; a later one has nothing to build on.
            (None, Some((user, request))) if pipe.have == 0 => {
                self.made += 1;
                let client = ClientId(FAR | self.made);
                self.far.insert(client, (from, id, End::new()));
                cx.out.push(Effect::Event(Event::Request(client, user, request)));
                client
            }
            _ => return self.send_over(cx.out, from, id, false),
        };
        let now_ms = cx.local.now_ms;
        let Some((_, _, end)) = self.far.get_mut(&client) else { return };
        let (frames, arrived) = end.handle_pipe(&pipe, now_ms);
        // Frames of a program are small: they count as taken.
        end.taken = end.have;
        cx.out.push(Effect::Event(Event::Taken(client, arrived as usize)));
        for (kind, number, payload) in frames {
            if (kind, number) == (Kind::Suspend, IS_STOPPED) {
                cx.out.push(Effect::Event(Event::FrontState(client, true)));
            } else {
                cx.out.push(Effect::Event(Event::Frame(client, kind, number, payload)));
            }
        }
    }

    fn handle_at_near(&mut self, cx: Context<'_>, from: NodeId, id: u64, pipe: Pipe) {
        let client = ClientId(id);
        let now_ms = cx.local.now_ms;
        let Some(near) = self.near.get_mut(&client) else {
            // An earlier incarnation's, or one whose end was not heard.
            if !pipe.over {
                self.send_over(cx.out, from, id, true);
            }
            return;
        };
        let (gone, origin) = (near.gone, near.origin);
        let (frames, _) = near.end.handle_pipe(&pipe, now_ms);
        let complete = near.end.end.is_some_and(|end| near.end.have >= end);
        for (kind, number, payload) in frames.into_iter().filter(|_| !gone) {
            if kind == Kind::Resume {
                cx.out.act(Action::Continue(client));
                continue;
            }
            let mut frame = Vec::new();
            wire::put(&mut frame, kind, number, &payload);
            cx.out.act(Action::ToClient(client, frame));
        }
        if complete && !pipe.over {
            self.send_over(cx.out, origin, id, true);
        }
        if complete || pipe.over {
            self.end_near(cx.out, client);
        }
    }

    /// Ends a near end: nothing more comes for the program, which is told so if it has heard nothing.
    fn end_near(&mut self, out: &Outbox, client: ClientId) {
        let Some(near) = self.near.remove(&client).filter(|near| !near.gone) else { return };
        if near.end.have == 0 {
            let text = "the node where the job was submitted does not answer".to_owned();
            out.act(Action::Answer(client, Answer::Refused(text)));
        }
        out.act(Action::Release(client));
    }

    fn send_over(&self, out: &Outbox, to: NodeId, id: u64, to_origin: bool) {
        let pipe = Pipe { over: true, ..End::new().pipe() };
        out.route(to, Routed::Tunnel { id, to_origin, pipe });
    }

    /// Says what is to be said, and ends what has lost its other side.
    pub(super) fn flush(&mut self, cx: Context<'_>) {
        let now_ms = cx.local.now_ms;
        let Some(members) = &cx.local.members else { return };
        let mut outgoing = Vec::new();
        let (mut lost_near, mut lost_far) = (Vec::new(), Vec::new());
        for (client, near) in &mut self.near {
            if !members.is_alive(near.origin) {
                lost_near.push(*client);
            } else if near.gone {
                if now_ms >= near.end.sent_ms + RESEND_MS {
                    near.end.sent_ms = now_ms;
                    outgoing.push((near.origin, client.0, true, Pipe { over: true, ..near.end.pipe() }));
                }
            } else {
                for pipe in near.end.poll_pipes(now_ms) {
                    let open = Some((near.user, near.request.clone()));
                    outgoing.push((near.origin, client.0, true, Pipe { open, ..pipe }));
                }
            }
        }
        for (client, (node, id, end)) in &mut self.far {
            if !members.is_alive(*node) {
                lost_far.push(*client);
                continue;
            }
            outgoing.extend(end.poll_pipes(now_ms).into_iter().map(|pipe| (*node, *id, false, pipe)));
        }
        for (to, id, to_origin, pipe) in outgoing {
            cx.out.route(to, Routed::Tunnel { id, to_origin, pipe });
        }
        lost_near.into_iter().for_each(|client| self.end_near(cx.out, client));
        for client in lost_far {
            self.far.remove(&client);
            cx.out.push(Effect::Event(Event::ClientGone(client)));
        }
    }
}

#[cfg(test)]
impl Tunnels {
    pub(super) fn leftovers(&self) -> Vec<String> {
        let near = self.near.iter().map(|(client, near)| format!("{client:?} at {near:?}"));
        near.chain(self.far.iter().map(|far| format!("far {far:?}"))).collect()
    }
}
