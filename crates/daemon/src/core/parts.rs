//! The parts of jobs on this node: one starter each. Orders are carried out as frames of the starter's wire; its reports become
//! the part's state, its output goes to the job's home.

use std::collections::BTreeMap;
use std::sync::Arc;

use tutti_node::wire::{self, Kind, Part as WirePart, Report};

use super::outlet::Outlet;
use super::{Action, Core};
use crate::members::NodeId;
use crate::message::{Control, Fence, JobId, Launch, Order, PartState, Phase, Request, Routed, Run, State};

/// Output that the home takes of each node before it has said anything.
pub(super) const FIRST_ROOM_BYTES: u64 = 128 << 10;

#[derive(Debug)]
struct Part {
    launch: Arc<Launch>,
    outlet: Outlet,
    state: PartState,
    /// The starter lives.
    alive: bool,
    /// The starter waits for its next frames to be asked for.
    ready: bool,
    told_peers: bool,
    told_leave: bool,
    /// Number of the last barrier of PMI that was handed on.
    told_fence: u32,
    run: Run,
    /// The size of the terminals that was handed on.
    window: Option<(u16, u16)>,
    /// Number of the last signal that was handed on.
    signals: u64,
    /// Number of the last piece of stdin that came.
    piece: u64,
    unwanted: bool,
}

/// The parts of jobs on this node.
#[derive(Debug, Default)]
pub(super) struct Parts {
    parts: BTreeMap<JobId, Part>,
}

impl Parts {
    pub(super) fn launch(&self, job: JobId) -> Option<Arc<Launch>> {
        self.parts.get(&job).map(|part| Arc::clone(&part.launch))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Core {
    /// What the order says about this node becomes true.
    pub(super) fn carry_out(&mut self, job: JobId, order: &Order) {
        let Some(me) = self.me else { return };
        if order.forget {
            if let Some(part) = self.parts.parts.remove(&job).filter(|part| part.alive) {
                debug_assert!(part.state.phase < Phase::Over, "a starter that is over is dead");
                self.act(Action::End(job));
            }
            return;
        }
        let Some(launch) = order.launch.clone() else { return };
        let Some(index) = launch.index(me) else { return };
        if !self.parts.parts.contains_key(&job) {
            self.start_part(job, launch, index, order.run);
        }
        let Some(part) = self.parts.parts.get_mut(&job).filter(|part| part.alive) else { return };
        let mut frames = Vec::new();
        if let Some(peers) = &order.peers
            && part.launch.nodes.len() > 1
            && !std::mem::replace(&mut part.told_peers, true)
        {
            frames.push((Kind::Peers, 0, serde_json::to_vec(peers).expect("addresses are serialisable")));
        }
        if part.run != order.run && part.run != Run::Kill {
            let kind = match order.run {
                Run::Go => Kind::Resume,
                Run::Stop => Kind::Suspend,
                Run::Kill => Kind::Kill,
            };
            part.run = order.run;
            frames.push((kind, 0, Vec::new()));
            if order.run == Run::Go && std::mem::take(&mut part.state.suspended) {
                part.state.version += 1;
                let state = State { job, node: me, part: part.state.clone() };
                self.relay.note(state);
            }
        }
        if let Some((rows, columns)) = order.window
            && std::mem::replace(&mut part.window, order.window) != order.window
        {
            frames.push((Kind::Window, u32::from(rows) << 16 | u32::from(columns), Vec::new()));
        }
        for (number, signal) in &order.signals {
            if *number > part.signals {
                frames.push((Kind::Signal, *signal, Vec::new()));
                part.signals = *number;
            }
        }
        if order.fence.number > part.told_fence && part.launch.nodes.len() > 1 {
            part.told_fence = order.fence.number;
            frames.push((Kind::Fence, order.fence.number, order.fence.puts.clone()));
        }
        if order.leave && part.launch.nodes.len() > 1 && !std::mem::replace(&mut part.told_leave, true) {
            frames.push((Kind::Leave, 0, Vec::new()));
        }
        frames
            .into_iter()
            .for_each(|(kind, number, payload)| self.act(Action::ToStarter(job, kind, number, payload)));
    }

    fn start_part(&mut self, job: JobId, launch: Arc<Launch>, index: usize, run: Run) {
        let mut part = Part {
            outlet: Outlet::new(FIRST_ROOM_BYTES),
            state: PartState { version: 1, ..PartState::default() },
            alive: run != Run::Kill,
            ready: false,
            told_peers: false,
            told_leave: false,
            told_fence: 0,
            run: Run::Go,
            window: None,
            signals: 0,
            piece: 0,
            unwanted: false,
            launch,
        };
        if part.alive {
            let described = self.describe(&part.launch, index);
            self.act(Action::Start(job, Arc::clone(&part.launch), Box::new(described)));
        } else {
            part.state.phase = Phase::Over;
        }
        self.parts.parts.insert(job, part);
        self.note_part(job);
    }

    /// The job as the starter of this node is told of it.
    fn describe(&self, launch: &Launch, index: usize) -> wire::Job {
        let members = self.members.as_ref().expect("a node with orders has a list of members");
        let machine = &self.config.about.machine;
        let shares =
            |node: &NodeId| members.nodes.get(node).is_some_and(|member| &member.about.machine == machine);
        let part = (launch.nodes.len() > 1).then(|| WirePart {
            node: index as u32,
            first_ranks: launch.first_ranks.clone(),
            address: self.config.about.data,
            key: launch.key,
            shares_machine: launch.nodes.iter().filter(|node| shares(node)).count() > 1,
        });
        wire::Job { part, input_inherited: false, ..launch.job.clone() }
    }

    pub(super) fn handle_starter(&mut self, job: JobId, frames: Vec<(Kind, u32, Vec<u8>)>) {
        let Some(part) = self.parts.parts.get_mut(&job) else { return };
        part.ready = true;
        let mut reports = Vec::new();
        let mut changed = false;
        for (kind, number, payload) in frames {
            match kind {
                // Of a job that is being killed only what there is room for is kept: its end must be heard.
                Kind::Output | Kind::Errors if part.run == Run::Kill && !part.outlet.has_room() => {}
                Kind::Output | Kind::Errors => {
                    let mut frame = Vec::new();
                    wire::put(&mut frame, kind, number, &payload);
                    part.outlet.push(&frame);
                }
                Kind::Fence => {
                    part.state.fence = Arc::new(Fence { number, puts: payload });
                    changed = true;
                }
                Kind::Report => reports.extend(serde_json::from_slice::<Report>(&payload).ok()),
                _ => {}
            }
        }
        if reports.is_empty() && !changed {
            return;
        }
        reports.into_iter().for_each(|report| self.handle_starter_report(job, report));
        self.note_part(job);
    }

    fn handle_starter_report(&mut self, job: JobId, report: Report) {
        let Some(part) = self.parts.parts.get_mut(&job) else { return };
        let state = &mut part.state;
        let reach = |state: &mut PartState, phase| state.phase = state.phase.max(phase);
        match report {
            Report::Addresses(addresses) => {
                state.addresses = addresses;
                reach(state, Phase::Ready);
            }
            Report::Started { pids, cores } => {
                (state.pids, state.cores) = (pids, cores);
                reach(state, Phase::Running);
                self.tell_gang_of_part(job, true);
            }
            Report::Stopped => {
                let user = part.launch.user;
                self.demand(user, Request::Control(job, Control::Suspend));
            }
            Report::Detached => {}
            Report::Suspended => state.suspended = part.run == Run::Stop,
            Report::Ending { status } => {
                state.ending.get_or_insert(status);
            }
            Report::Ended(ended) => state.ended.push(ended),
            Report::Warning(text) => state.warnings.push(text),
            Report::Refused(text) => {
                state.refused.get_or_insert(text);
            }
            Report::Left => reach(state, Phase::Left),
            Report::End { status } => {
                state.status = status;
                state.written = part.outlet.end();
                reach(state, Phase::Over);
                part.alive = false;
                self.tell_gang_of_part(job, false);
            }
            Report::InputTaken | Report::InputUnwanted => {
                part.unwanted |= report == Report::InputUnwanted;
                let body = Routed::InputTaken { job, piece: part.piece, unwanted: part.unwanted };
                let home = part.launch.home;
                self.route(home, body);
            }
        }
    }

    pub(super) fn handle_starter_gone(&mut self, job: JobId, why: &str) {
        let Some(part) = self.parts.parts.get_mut(&job).filter(|part| part.alive) else { return };
        part.alive = false;
        let state = &mut part.state;
        state.phase = Phase::Over;
        state.written = part.outlet.end();
        state.ending.get_or_insert(1);
        state.status = state.status.max(1);
        if part.run != Run::Kill {
            state.refused.get_or_insert_with(|| why.to_owned());
        }
        self.tell_gang_of_part(job, false);
        self.note_part(job);
    }

    fn note_part(&mut self, job: JobId) {
        let (Some(me), Some(part)) = (self.me, self.parts.parts.get_mut(&job)) else { return };
        part.state.version += 1;
        self.relay.note(State { job, node: me, part: part.state.clone() });
    }

    pub(super) fn handle_room(&mut self, job: JobId, have: u64, limit: u64) {
        if let Some(part) = self.parts.parts.get_mut(&job) {
            part.outlet.handle_room(have, limit, self.now_ms);
        }
    }

    pub(super) fn handle_input(&mut self, job: JobId, piece: u64, bytes: Vec<u8>) {
        let Some(part) = self.parts.parts.get_mut(&job) else { return };
        if part.unwanted || !part.alive {
            let body = Routed::InputTaken { job, piece, unwanted: true };
            let home = part.launch.home;
            self.route(home, body);
        } else if piece == part.piece + 1 {
            part.piece = piece;
            self.act(Action::ToStarter(job, Kind::Input, 0, bytes));
        }
    }

    /// Output goes on its way; starters whose output has room are listened to.
    pub(super) fn flush_parts(&mut self) {
        let jobs: Vec<JobId> = self.parts.parts.keys().copied().collect();
        for job in jobs {
            let now_ms = self.now_ms;
            while let Some(part) = self.parts.parts.get_mut(&job)
                && let Some((offset, bytes)) = part.outlet.poll(now_ms)
            {
                let home = part.launch.home;
                self.route(home, Routed::Data { job, offset, bytes });
            }
            let Some(part) = self.parts.parts.get_mut(&job) else { continue };
            let listens = part.alive && (part.outlet.has_room() || part.run == Run::Kill);
            if listens && std::mem::take(&mut part.ready) {
                self.act(Action::Listen(job));
            }
        }
    }

    pub(super) fn tick_parts(&mut self) {}
}
