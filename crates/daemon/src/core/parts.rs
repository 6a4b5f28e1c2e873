//! The parts of jobs on this node: one starter each. Orders are carried out as frames of the starter's wire; its reports become
//! the part's state, its output goes to the job's home.
//!
//! A starter outlives its daemon. The next daemon has what was kept of it (`Core::take_back`), waits for it (`BACK_MS`), and hears
//! all its reports again, and the output that its home has not acknowledged. Until then the part is neither here nor lost.
//!
//! A job that was started without a daemon (`Launch::enrolled`) has its `mpiexec` in place of the starter: the same frames, but no
//! output. It does not need us: when this daemon ends or loses its part, the wire is closed and the job goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tutti_node::wire::{self, Back, Kind, Part as WirePart, Report};

use super::outlet::Outlet;
use super::{Action, Core, Kept};
use crate::gang::Means;
use crate::members::NodeId;
use crate::memory;
use crate::message::{
    Answer, Control, Fence, Held, JobId, Launch, Order, PartState, Phase, Request, Routed, Run, State,
};

/// Output that the home takes of each node before it has said anything.
pub(super) const FIRST_ROOM_BYTES: u64 = 128 << 10;

/// The starters of an earlier life have this time to come back.
const BACK_MS: u64 = 10_000;
/// Jobs that have been here and are over, of which this is remembered: nobody starts them again.
const PAST_MAX: usize = 4096;

#[derive(Debug)]
struct Part {
    launch: Arc<Launch>,
    outlet: Outlet,
    state: PartState,
    /// The starter lives, and has not said that nothing is left.
    alive: bool,
    /// It is at its wire: not one of an earlier life that we wait for.
    here: bool,
    /// How many daemons it has had before.
    lives: u64,
    /// Some output of a job that is being killed had no room: what follows is not kept either.
    drops: bool,
    /// The starter waits for its next frames to be asked for.
    ready: bool,
    told_peers: bool,
    told_leave: bool,
    /// Number of the last barrier of PMI that was handed on.
    told_fence: u32,
    run: Run,
    /// Number of the snapshot for which it was told to stand still.
    told_hold: Option<u64>,
    /// Whether its mpiexec was told that its ranks wait for each other for ever.
    told_stuck: bool,
    /// The size of the terminals that was handed on.
    window: Option<(u16, u16)>,
    /// Number of the last signal that was handed on.
    signals: u64,
    /// Number of the last piece of stdin that came, as far as its starter knows it.
    piece: u64,
    /// It has been taken.
    taken: bool,
    unwanted: bool,
}

/// The parts of jobs on this node.
#[derive(Debug, Default)]
pub(super) struct Parts {
    parts: BTreeMap<JobId, Part>,
    past: BTreeSet<JobId>,
    /// Until when starters may come back.
    back_until_ms: u64,
}

impl Parts {
    pub(super) fn launch(&self, job: JobId) -> Option<Arc<Launch>> {
        self.parts.get(&job).map(|part| Arc::clone(&part.launch))
    }

    /// Pids of the ranks here, if they run.
    pub(super) fn pids(&self, job: JobId) -> Vec<u32> {
        self.parts.get(&job).map_or_else(Vec::new, |part| part.state.pids.clone())
    }

    /// The pids in order of ranks, if the starter has bound each to one core.
    pub(super) fn bound(&self, job: JobId) -> Vec<u32> {
        let one_each = |part: &&Part| part.state.cores.iter().all(|cores| cores.parse::<u32>().is_ok());
        self.parts.get(&job).filter(one_each).map_or_else(Vec::new, |part| part.state.pids.clone())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Part {
    fn new(launch: Arc<Launch>, lives: u64, outlet: Outlet) -> Self {
        Part {
            launch,
            outlet,
            state: PartState { version: lives << 32, ..PartState::default() },
            alive: true,
            here: true,
            lives,
            drops: false,
            ready: false,
            told_peers: false,
            told_leave: false,
            told_fence: 0,
            run: Run::Go,
            told_hold: None,
            told_stuck: false,
            window: None,
            signals: 0,
            piece: 0,
            taken: false,
            unwanted: false,
        }
    }

    /// What its starter says of a snapshot; whether that was one.
    fn take_held(&mut self, kind: Kind, payload: &[u8]) -> bool {
        let Some((number, rest)) = payload.split_first_chunk::<8>() else { return false };
        let number = u64::from_le_bytes(*number);
        let held = match (kind, &mut self.state.held) {
            (Kind::Held, _) => Held { number, seen: String::from_utf8_lossy(rest).into(), released: None },
            (_, Some(held)) if held.number == number => {
                let whole = wire::two_numbers(payload).is_some_and(|(_, whole)| whole == 1);
                Held { number, seen: "".into(), released: Some(whole) }
            }
            // It never stood still.
            _ => Held { number, seen: "".into(), released: Some(false) },
        };
        self.state.held = Some(held);
        true
    }
}

impl Core {
    /// What the order says about this node becomes true.
    pub(super) fn carry_out(&mut self, job: JobId, order: &Order) {
        let Some(me) = self.me else { return };
        if order.forget {
            if self.parts.parts.remove(&job).is_some() {
                self.act(Action::End(job));
            }
            self.parts.past.insert(job);
            while self.parts.past.len() > PAST_MAX {
                self.parts.past.pop_first();
            }
            return;
        }
        let Some(launch) = order.launch.clone() else { return };
        let Some(index) = launch.index(me) else { return };
        if !self.parts.parts.contains_key(&job) {
            self.begin_part(job, Arc::clone(&launch), index, order);
        }
        let Some(part) = self.parts.parts.get_mut(&job).filter(|part| part.alive) else { return };
        // What is kept counts as said to the starter: one that is away hears it when it comes, from this life or from the next.
        if !part.here {
            return;
        }
        self.pass_order_on(job, order);
        // After the fact: what is said to a starter twice does less harm than what is never said.
        self.keep(job, order);
    }

    /// For the daemon that follows this one.
    fn keep(&mut self, job: JobId, order: &Order) {
        let (Some(node), Some(part)) = (self.me.or(self.wish), self.parts.parts.get(&job)) else { return };
        if part.launch.enrolled.is_none() {
            let kept = Kept { node, order: order.clone(), lives: part.lives, alive: true };
            self.act(Action::Keep(job, Box::new(kept)));
        }
    }

    /// Tells the starter what is new in the order.
    fn pass_order_on(&mut self, job: JobId, order: &Order) {
        let (Some(me), Some(part)) = (self.me, self.parts.parts.get_mut(&job)) else { return };
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
                self.relay.note(State { job, node: me, part: part.state.clone() });
            }
        }
        let hold = order.hold.filter(|_| order.run != Run::Kill);
        if let Some(told) = part.told_hold
            && hold.is_none_or(|hold| hold.number != told)
        {
            part.told_hold = None;
            frames.push((Kind::Release, 0, [told, 0].map(u64::to_le_bytes).concat()));
        }
        if let Some(hold) = hold
            && part.told_hold.is_none()
        {
            part.told_hold = Some(hold.number);
            frames.push((Kind::Hold, 0, [hold.number, hold.data_bytes].map(u64::to_le_bytes).concat()));
        }
        let told_stuck = std::mem::replace(&mut part.told_stuck, order.stuck.is_some());
        if let Some(line) = order.stuck.as_deref().filter(|_| part.launch.enrolled.is_some() && !told_stuck) {
            let warning = serde_json::to_vec(&Report::Warning(line.to_owned()));
            frames.push((Kind::Report, 0, warning.expect("reports are serialisable")));
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

    fn begin_part(&mut self, job: JobId, launch: Arc<Launch>, index: usize, order: &Order) {
        let part = Part::new(Arc::clone(&launch), 0, Outlet::new(0, FIRST_ROOM_BYTES));
        self.parts.parts.insert(job, part);
        let is_ours = launch.lives.get(index) == Some(&self.config.about.incarnation);
        if !is_ours || order.peers.is_some() || self.parts.past.contains(&job) {
            return self.lose_part(job);
        }
        if launch.enrolled.is_some() {
            self.try_to_enrol(job);
        } else if order.run != Run::Kill {
            let described = self.describe(&launch, index);
            self.act(Action::Start(job, launch, Box::new(described)));
        } else if let Some(part) = self.parts.parts.get_mut(&job) {
            part.alive = false;
            part.state.phase = Phase::Over;
            part.state.written = Some(0);
        }
        self.note_part(job);
    }

    /// A job that runs already takes part when both are here: the head's order and the answer to its mpiexec.
    pub(super) fn try_to_enrol(&mut self, job: JobId) {
        if !self.parts.parts.contains_key(&job) {
            return;
        }
        match self.take_enrolling(job) {
            None => {}
            Some(Some(client)) => {
                self.act(Action::Answer(client, Answer::Job(job)));
                self.act(Action::Enrol(client, job));
            }
            Some(None) => self.handle_starter_gone(job, "its mpiexec went away"),
        }
    }

    /// What an earlier life has kept of a starter.
    pub(super) fn take_back(&mut self, job: JobId, kept: Kept) {
        let Some(launch) = kept.order.launch.clone() else { return };
        self.parts.back_until_ms = self.now_ms + BACK_MS;
        let mut part = Part::new(launch, kept.lives + 1, Outlet::new(0, FIRST_ROOM_BYTES));
        part.here = false;
        part.run = kept.order.run;
        (part.told_fence, part.window) = (kept.order.fence.number, kept.order.window);
        part.signals = kept.order.signals.last().map_or(0, |(number, _)| *number);
        self.parts.parts.insert(job, part);
        // No life's states are taken for another's, even if this one ends before it has a number.
        self.keep(job, &kept.order);
        self.handle_known(job, kept.order);
        if !kept.alive {
            self.lose_part(job);
        }
    }

    /// A starter of an earlier life, or one that thinks so, is back.
    pub(super) fn handle_back(&mut self, job: JobId, back: &Back) {
        let is_lost = |part: &Part| part.state.version == u64::MAX;
        if self.parts.parts.get(&job).is_none_or(is_lost) {
            // Declared lost, or over everywhere.
            return self.act(Action::End(job));
        }
        let old = self.parts.parts.remove(&job).expect("it is there");
        let lives = old.lives + u64::from(old.here);
        let mut part = Part::new(old.launch, lives, Outlet::new(back.base, FIRST_ROOM_BYTES));
        // It may never have heard what its last daemon said: it is told again unless it is so.
        part.run = if back.frozen { Run::Stop } else { Run::Go };
        (part.signals, part.told_fence, part.window) = (old.signals, old.told_fence, old.window);
        part.told_peers = back.has_peers;
        part.state.suspended = back.frozen;
        (part.piece, part.taken) = (u64::from(back.piece), back.taken);
        self.parts.parts.insert(job, part);
        self.act(Action::Listen(job));
        if let Some(order) = self.relay.order(job).cloned() {
            self.keep(job, &order);
            self.carry_out(job, &order);
        }
    }

    /// What was here of a job is gone, and nobody can say how it ended.
    fn lose_part(&mut self, job: JobId) {
        let name = &self.config.about.name;
        let text = format!("the ranks on node {name} were lost with its daemon; the job is ended");
        let Some(part) = self.parts.parts.get_mut(&job) else { return };
        part.alive = false;
        part.state = PartState {
            version: u64::MAX,
            phase: Phase::Over,
            ending: Some(1),
            status: 1,
            refused: Some(text),
            ..PartState::default()
        };
        self.act(Action::End(job));
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
        let bytes = launch.terms.memory_bytes;
        let (name, limit) = (&self.config.about.name, memory::text(bytes));
        let reached = format!("the job's memory on node {name} reached {limit} (--memory)");
        let memory = (bytes > 0).then_some(wire::MemoryLimit { bytes, reached });
        wire::Job { part, memory, input_inherited: false, ..launch.job.clone() }
    }

    pub(super) fn handle_starter(&mut self, job: JobId, frames: Vec<(Kind, u32, Vec<u8>)>) {
        let Some(part) = self.parts.parts.get_mut(&job) else { return };
        part.ready = true;
        let mut reports = Vec::new();
        let mut changed = false;
        for (kind, number, payload) in frames {
            match kind {
                // Of a job that is being killed only what there is room for is kept: its end must be heard.
                Kind::Output | Kind::Errors
                    if part.drops || part.run == Run::Kill && !part.outlet.has_room() =>
                {
                    part.drops = true;
                }
                Kind::Output | Kind::Errors => {
                    let mut frame = Vec::new();
                    wire::put(&mut frame, kind, number, &payload);
                    part.outlet.push(&frame);
                }
                Kind::Fence => {
                    part.state.fence = Arc::new(Fence { number, puts: payload });
                    changed = true;
                }
                Kind::Held | Kind::Released => changed |= part.take_held(kind, &payload),
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
            Report::Addresses(reached) => {
                state.reached = reached;
                reach(state, Phase::Ready);
            }
            Report::Started { pids, cores } => {
                (state.pids, state.cores) = (pids, cores);
                reach(state, Phase::Running);
                self.tell_gang_of_part(job, true);
            }
            Report::Stopped => {
                let user = part.launch.user;
                if part.launch.enrolled.is_some() {
                    // It stands still already: nobody need tell it.
                    (part.run, state.suspended) = (part.run.max(Run::Stop), true);
                }
                self.demand(user, Request::Control(job, Control::Suspend));
            }
            Report::Continued => {
                let user = part.launch.user;
                part.run = if part.run == Run::Stop { Run::Go } else { part.run };
                state.suspended = false;
                self.demand(user, Request::Control(job, Control::Resume));
            }
            Report::Detached => {}
            Report::Suspended => state.suspended = part.run == Run::Stop,
            Report::Ending { status } => {
                state.ending.get_or_insert(status);
            }
            Report::Ended(ended) => state.ended.push(ended),
            Report::Warning(text) => state.warnings.push(text),
            Report::Still(still) => state.still = still,
            Report::Refused(text) => {
                state.refused.get_or_insert(text);
            }
            Report::Left => {
                reach(state, Phase::Left);
                self.tell_gang_of_part(job, false);
            }
            Report::End { status } => {
                state.status = status;
                state.written = Some(part.outlet.end());
                reach(state, Phase::Over);
                part.alive = false;
                self.tell_gang_of_part(job, false);
            }
            Report::InputTaken | Report::InputUnwanted => {
                part.unwanted |= report == Report::InputUnwanted;
                part.taken = true;
                self.say_input_taken(job);
            }
        }
    }

    pub(super) fn handle_starter_gone(&mut self, job: JobId, why: &str) {
        let Some(part) = self.parts.parts.get_mut(&job).filter(|part| part.alive) else { return };
        part.alive = false;
        let state = &mut part.state;
        state.phase = Phase::Over;
        state.written = Some(part.outlet.end());
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
        part.state.version = part.state.version.saturating_add(1);
        self.relay.note(State { job, node: me, part: part.state.clone() });
    }

    /// How its ranks here are held while others have the cores.
    pub(super) fn note_means(&mut self, job: JobId, means: Means) {
        let Some(part) = self.parts.parts.get_mut(&job) else { return };
        if part.state.held_by.replace(means) != Some(means) {
            self.note_part(job);
        }
    }

    /// We are another node now.
    pub(super) fn drop_parts(&mut self) {
        for job in std::mem::take(&mut self.parts.parts).into_keys() {
            self.act(Action::End(job));
            self.tell_gang_of_part(job, false);
        }
        self.relay.clear();
    }

    /// Our number is known: so is whose states these are.
    pub(super) fn note_all_parts(&mut self) {
        let jobs: Vec<JobId> = self.parts.parts.keys().copied().collect();
        for job in jobs {
            let Some(part) = self.parts.parts.get(&job).filter(|part| part.here || !part.alive) else {
                continue;
            };
            // A starter that came back before we had our number: the switch thread has not been told of its ranks.
            if part.alive && part.state.phase == Phase::Running {
                self.tell_gang_of_part(job, true);
            }
            self.note_part(job);
        }
    }

    pub(super) fn handle_room(&mut self, job: JobId, have: Option<u64>, limit: u64) {
        let Some(part) = self.parts.parts.get_mut(&job) else { return };
        let before = part.outlet.base();
        part.outlet.handle_room(have, limit, self.now_ms);
        let (base, home) = (part.outlet.base(), part.launch.home);
        if base > before {
            self.act(Action::ToStarter(job, Kind::Taken, 0, base.to_le_bytes().to_vec()));
        }
        if have.is_none() {
            // The home may have nothing to wait for.
            self.route(home, Routed::Data { job, offset: base, start: base, bytes: Vec::new() });
        }
    }

    pub(super) fn handle_input(&mut self, job: JobId, piece: u64, bytes: Vec<u8>) {
        let Some(part) = self.parts.parts.get_mut(&job) else { return };
        // A starter that is back knows the lower half of the number.
        if part.piece as u32 == piece as u32 {
            part.piece = piece;
        }
        let has = piece <= part.piece;
        if part.unwanted || !part.alive || has && part.taken {
            self.say_input_taken(job);
        } else if !has && part.here {
            (part.piece, part.taken) = (piece, false);
            self.act(Action::ToStarter(job, Kind::Input, piece as u32, bytes));
        }
    }

    fn say_input_taken(&mut self, job: JobId) {
        let Some(part) = self.parts.parts.get(&job) else { return };
        let (home, unwanted) = (part.launch.home, part.unwanted || !part.alive);
        self.route(home, Routed::InputTaken { job, piece: part.piece, unwanted });
    }

    /// Output goes on its way; starters whose output has room are listened to.
    pub(super) fn flush_parts(&mut self) {
        let jobs: Vec<JobId> = self.parts.parts.keys().copied().collect();
        for job in jobs {
            let now_ms = self.now_ms;
            while let Some(part) = self.parts.parts.get_mut(&job)
                && let Some((offset, bytes)) = part.outlet.poll(now_ms)
            {
                let (home, start) = (part.launch.home, part.outlet.base());
                self.route(home, Routed::Data { job, offset, start, bytes });
            }
            let Some(part) = self.parts.parts.get_mut(&job) else { continue };
            let listens = part.alive && (part.outlet.has_room() || part.run == Run::Kill);
            if listens && std::mem::take(&mut part.ready) {
                self.act(Action::Listen(job));
            }
        }
    }

    pub(super) fn tick_parts(&mut self) {
        if self.now_ms < self.parts.back_until_ms {
            return;
        }
        let away = self.parts.parts.iter().filter(|(_, part)| part.alive && !part.here);
        let lost: Vec<JobId> = away.map(|(job, _)| *job).collect();
        lost.into_iter().for_each(|job| self.lose_part(job));
    }
}

#[cfg(test)]
impl Parts {
    pub(super) fn leftovers(&self) -> Vec<String> {
        self.parts.iter().map(|(job, part)| format!("part of job {job}: {:?}", part.state)).collect()
    }

    pub(super) fn check_bounds(&self) {
        for part in self.parts.values() {
            let kept = part.outlet.end() - part.outlet.base();
            assert!(kept <= 2 * super::outlet::KEPT_BYTES as u64, "{kept} bytes of output are kept");
        }
    }
}
