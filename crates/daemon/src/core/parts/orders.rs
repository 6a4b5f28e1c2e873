//! Frames of a starter's wire for what an order says: only what the starter does not know yet.

use tutti_protocol::wire::{self, Kind, Part as WirePart, Report};
use tutti_shm::ticket::NODE_VARIABLE;

use super::reports::job_memory;
use super::{Part, Parts};
use crate::core::action::Action;
use crate::core::context::Context;
use crate::core::controller::gpus;
use crate::core::local::LocalNode;
use crate::members::NodeId;
use crate::message::{JobId, Launch, Order, Run, SpawnOrder};

/// Kind, number and payload.
type Frame = (Kind, u32, Vec<u8>);

impl Parts {
    /// Tells the starter what is new in the order.
    pub(super) fn pass_order_on(&mut self, cx: Context<'_>, job: JobId, order: &Order) {
        let Some(part) = self.parts.get_mut(&job) else { return };
        let was_suspended = part.state.suspended;
        let frames = part.take_frames(order);
        if was_suspended && !part.state.suspended {
            self.publish_part(cx, job);
        }
        for (kind, number, payload) in frames {
            cx.out.act(Action::ToStarter(job, kind, number, payload));
        }
    }

    /// The job as the starter of this node is notified of it.
    pub(super) fn describe(&self, local: &LocalNode, launch: &Launch, index: usize) -> wire::Job {
        let members = local.members.as_ref().expect("a node with orders has a list of members");
        let machine = &local.config.about.machine;
        let shares =
            |node: &NodeId| members.nodes.get(node).is_some_and(|member| &member.about.machine == machine);
        let part = (launch.nodes.len() > 1).then(|| WirePart {
            node: index as u32,
            first_ranks: launch.first_ranks.clone(),
            address: local.config.about.data,
            key: launch.key,
            shares_machine: launch.nodes.iter().filter(|node| shares(node)).count() > 1,
            // The shell knows it.
            ports: None,
            names: launch.nodes.iter().map(|node| members.name(*node)).collect(),
        });
        let bytes = launch.terms.memory_bytes;
        let memory = (bytes > 0).then(|| wire::MemoryLimit { bytes, reached: job_memory(local, bytes) });
        let shared_slots = launch.terms.phases.filter(|phases| phases.shares()).map(|phases| {
            let (rules, weight) = (phases.rules(), launch.terms.weight);
            wire::SharedSlots { lease_ns: rules.lease_ns, yield_min_ns: rules.yield_min_ns, weight }
        });
        let mut job = wire::Job { part, memory, shared_slots, input_inherited: false, ..launch.job.clone() };
        gpus::set_variable(local, launch, &mut job);
        if let Some(node) = launch.nodes.get(index) {
            let name = (NODE_VARIABLE.into(), members.name(*node).as_str().into());
            job.programs.iter_mut().for_each(|program| program.variables.push(name.clone()));
        }
        job
    }
}

impl Part {
    /// Takes the frames for what the starter has not been told of the order. From now on it has.
    fn take_frames(&mut self, order: &Order) -> Vec<Frame> {
        let mut frames = Vec::new();
        let several = self.launch.nodes.len() > 1;
        if let Some(peers) = &order.peers
            && several
            && !std::mem::replace(&mut self.sent_peers, true)
        {
            frames.push((Kind::Peers, 0, serde_json::to_vec(peers).expect("addresses are serialisable")));
        }
        let has_ended_itself = order.end.is_some_and(|end| end.by.is_some());
        frames.extend(self.take_run(order.run, has_ended_itself));
        self.take_hold(order, &mut frames);
        frames.extend(self.take_stuck(order));
        if let Some(number) = order.terminated()
            && number > self.sent_terminated
        {
            self.sent_terminated = number;
            frames.push((Kind::Terminated, 0, number.to_le_bytes().to_vec()));
        }
        if let Some((rows, columns)) = order.window
            && std::mem::replace(&mut self.window, order.window) != order.window
        {
            frames.push((Kind::Window, u32::from(rows) << 16 | u32::from(columns), Vec::new()));
        }
        for (number, signal) in &order.signals {
            if *number > self.signals {
                self.signals = *number;
                let is_term = order.clock.term == Some(*number);
                if !(is_term && std::mem::replace(&mut self.sent_term, true)) {
                    frames.push((Kind::Signal, *signal, wire::SignalsHeard::frame(*number, is_term)));
                }
            }
        }
        if order.fence.number > self.sent_fence && several {
            self.sent_fence = order.fence.number;
            frames.push((Kind::Fence, order.fence.number, order.fence.puts.clone()));
        }
        if several {
            self.take_spawn(&order.spawn, &mut frames);
        }
        if order.leave && several && !std::mem::replace(&mut self.sent_leave, true) {
            frames.push((Kind::Leave, 0, Vec::new()));
        }
        frames
    }

    /// Ranks that others have asked for: an order, and the end of this one or of the one before.
    fn take_spawn(&mut self, spawn: &SpawnOrder, frames: &mut Vec<Frame>) {
        if spawn.number > self.sent_spawn.0 {
            self.sent_spawn.0 = spawn.number;
            let asked = spawn.asked.get(spawn.by as usize).copied().unwrap_or(0);
            let payload = [&spawn.by.to_le_bytes()[..], &asked.to_le_bytes(), &spawn.ask].concat();
            frames.push((Kind::Spawn, spawn.number, payload));
        }
        if spawn.ended > self.sent_spawn.1 {
            self.sent_spawn.1 = spawn.ended;
            let end = (Kind::SpawnEnd, spawn.ended, spawn.outcomes.clone());
            let at =
                frames.iter().position(|(kind, number, _)| *kind == Kind::Spawn && *number > spawn.ended);
            frames.insert(at.unwrap_or(frames.len()), end);
        }
    }

    /// Whether it is to run; who is being killed does nothing else any more. What was spared may be killed
    /// later.
    fn take_run(&mut self, run: Run, spares_filters: bool) -> Option<Frame> {
        match (self.run, run) {
            (Run::Kill, Run::Kill) if self.spares_filters && !spares_filters => {}
            (Run::Kill, _) => return None,
            (known, run) if known == run => return None,
            _ => {}
        }
        self.run = run;
        self.spares_filters = run == Run::Kill && spares_filters;
        self.state.suspended &= run != Run::Go && !self.spares_filters;
        let (kind, how) = match run {
            Run::Go => (Kind::Resume, 0),
            Run::Stop => (Kind::Suspend, 0),
            Run::Kill if spares_filters => (Kind::Kill, wire::SPARE_FILTERS),
            Run::Kill => (Kind::Kill, 0),
        };
        Some((kind, how, Vec::new()))
    }

    /// Whether it is to stand still for a snapshot.
    fn take_hold(&mut self, order: &Order, frames: &mut Vec<Frame>) {
        let hold = order.hold.filter(|_| order.run != Run::Kill);
        if let Some(told) = self.sent_hold
            && hold.is_none_or(|hold| hold.number != told.number)
        {
            self.sent_hold = None;
            frames.push((Kind::Release, 0, [told.number, 0].map(u64::to_le_bytes).concat()));
        }
        if let Some(hold) = hold
            && self.sent_hold.is_none()
        {
            self.sent_hold = Some(hold);
            frames.push((Kind::Hold, 0, [hold.number, hold.data_bytes].map(u64::to_le_bytes).concat()));
        }
    }

    /// Whether its ranks wait for each other for ever, for an mpiexec that runs them itself.
    fn take_stuck(&mut self, order: &Order) -> Option<Frame> {
        let sent_stuck = std::mem::replace(&mut self.sent_stuck, order.stuck.is_some());
        let line = order.stuck.as_deref().filter(|_| self.launch.enrolled && !sent_stuck)?;
        let warning = serde_json::to_vec(&Report::Warning(line.to_owned()));
        Some((Kind::Report, 0, warning.expect("reports are serialisable")))
    }
}
