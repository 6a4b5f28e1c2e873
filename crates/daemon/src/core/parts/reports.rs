//! Reports of starters: what they say becomes the state of the part.
//!
//! A starter is its user's, who may speak in its place: what it says has room in a message between daemons,
//! or its job is ended.

use std::sync::Arc;

use tutti_os::cgroup::UsedUp;
use tutti_protocol::size;
use tutti_protocol::wire::{self, Kind, Report};
use tutti_snapshot::View;

use super::{Kept, Part, Parts};
use crate::core::action::Action;
use crate::core::context::Context;
use crate::core::event::StarterEnd;
use crate::core::local::LocalNode;
use crate::members::NodeId;
use crate::message::{
    ASK_BYTES_MAX, Control, Fence, Held, JobId, PartState, Phase, Request, Routed, Run, SPAWNED_BYTES_MAX,
    STATE_BYTES_MAX, USER_REPORTED_BYTES_MAX, USER_STATE_BYTES_MAX, User,
};

/// Line for a user whose jobs have used up his memory here.
fn user_memory(local: &LocalNode, uid: u32) -> String {
    let (user, node) = (local.user_name(uid), &local.config.about.name);
    match local.memory_per_node(uid) {
        Some((bytes, place)) => {
            let limit = size::text(bytes);
            format!("the jobs of {user} on node {node} reached {limit} of memory (memory_per_node): {place}")
        }
        // It has been lifted since.
        None => format!("the jobs of {user} on node {node} had used up their memory (memory_per_node)"),
    }
}

/// Line for the user of a job that has used up here what it may have itself.
pub(super) fn job_memory(local: &LocalNode, bytes: u64) -> String {
    let (name, limit) = (&local.config.about.name, size::text(bytes));
    format!("the job's memory on node {name} reached {limit} (--memory)")
}

impl Parts {
    pub(in crate::core) fn handle_starter(
        &mut self,
        cx: Context<'_>,
        job: JobId,
        frames: Vec<(Kind, u32, Vec<u8>)>,
    ) {
        // A snapshot that takes too much is left out; whatever else does ends the job.
        let view_bytes_max = self.room_of_user(cx.local, job);
        let Some(part) = self.parts.get_mut(&job).filter(|part| !part.is_lost()) else { return };
        part.ready = true;
        let mut reports = Vec::new();
        let mut changed = false;
        for (kind, number, payload) in frames {
            match kind {
                Kind::Output | Kind::Errors if payload.len() > wire::DATA_BYTES_MAX => {
                    let text = excess("a piece of output", payload.len(), wire::DATA_BYTES_MAX);
                    return self.silence_part(cx, job, &text);
                }
                // Of a job that is being killed only what there is room for is kept: its end must be heard.
                Kind::Output | Kind::Errors if part.drops || part.is_killed() && !part.outlet.has_room() => {
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
                Kind::Ask => {
                    part.state.ask = Arc::new(Fence { number, puts: payload });
                    changed = true;
                }
                Kind::Spawned => {
                    part.state.spawned = Arc::new(Fence { number, puts: payload });
                    changed = true;
                }
                Kind::Held | Kind::Released => {
                    changed |= part.take_held(cx.local.me, kind, &payload, view_bytes_max);
                }
                Kind::Report => reports.extend(serde_json::from_slice::<Report>(&payload).ok()),
                _ => {}
            }
        }
        if reports.is_empty() && !changed {
            return;
        }
        reports.into_iter().for_each(|report| self.handle_starter_report(cx, job, report));
        let part = cx.local.me.zip(self.parts.get_mut(&job));
        let excess = part.and_then(|(me, part)| {
            part.kept = Kept::of(&part.state);
            part.excess(me)
        });
        match excess.or_else(|| self.excess_of_user(cx.local, job)) {
            Some(text) => self.silence_part(cx, job, &text),
            None => self.publish_part(cx, job),
        }
    }

    /// Bytes that all parts of a job's user say, but for those that are not counted; none: the user has no
    /// bound.
    fn kept_of_user(&self, local: &LocalNode, job: JobId, counts: impl Fn(JobId) -> bool) -> Option<Kept> {
        let uid = self.parts.get(&job)?.launch.user.account().uid;
        if uid == local.config.owner {
            return None;
        }
        let theirs =
            self.parts.iter().filter(|(job, part)| part.launch.user.account().uid == uid && counts(**job));
        Some(theirs.fold(Kept::default(), |sum, (_, part)| sum.and(part.kept)))
    }

    /// Bytes that the parts of the job's user leave to what this one says.
    fn room_of_user(&self, local: &LocalNode, job: JobId) -> usize {
        let others = self.kept_of_user(local, job, |other| other != job);
        others.map_or(usize::MAX, |others| USER_STATE_BYTES_MAX.saturating_sub(others.all))
    }

    /// Why what all parts of a job's user say takes too much.
    fn excess_of_user(&self, local: &LocalNode, job: JobId) -> Option<String> {
        let kept = self.kept_of_user(local, job, |_| true)?;
        let of = |what, bytes, bytes_max| (bytes > bytes_max).then(|| excess(what, bytes, bytes_max));
        let reported = of("the reports of the user's jobs", kept.reported, USER_REPORTED_BYTES_MAX);
        reported.or_else(|| of("what the user's jobs have to say", kept.all, USER_STATE_BYTES_MAX))
    }

    /// Ends a job whose starter says more than it may: nothing of that goes any further.
    fn silence_part(&mut self, cx: Context<'_>, job: JobId, text: &str) {
        let text = format!("node {}: {text}; the job is ended", cx.local.config.about.name);
        self.end_part(cx, job, text);
        self.forward_part(cx, job, false);
    }

    fn handle_starter_report(&mut self, cx: Context<'_>, job: JobId, report: Report) {
        let Some(part) = self.parts.get_mut(&job) else { return };
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
                self.forward_part(cx, job, true);
            }
            Report::Later { pids, mut gone } => {
                // As many as a user likes to name.
                gone.sort_unstable();
                state.pids.retain(|pid| gone.binary_search(pid).is_err());
                state.pids.extend(pids);
            }
            Report::Stopped => {
                let user = part.launch.user;
                if part.launch.enrolled {
                    // It stands still already: nobody need tell it.
                    (part.run, state.suspended) = (part.run.max(Run::Stop), true);
                }
                cx.out.post_request(user, Request::Control(job, Control::Suspend));
            }
            Report::Continued => {
                let user = part.launch.user;
                part.run = if part.run == Run::Stop { Run::Go } else { part.run };
                state.suspended = false;
                cx.out.post_request(user, Request::Control(job, Control::Resume));
            }
            // A daemon's own.
            Report::Detached | Report::Stands { .. } | Report::Pieces(_) => {}
            Report::Suspended => state.suspended = part.run == Run::Stop,
            Report::Ending { status } => {
                state.ending.get_or_insert(status);
            }
            Report::Ended(ended) => {
                if ended.cause == wire::Cause::UserMemory {
                    let text = user_memory(cx.local, part.launch.user.account().uid);
                    state.warnings.push(format!("rank {} was killed: {text}", ended.rank));
                }
                state.ended.push(ended);
            }
            Report::Warning(text) => state.warnings.push(text),
            Report::Counted(counted) => state.note_counted(counted),
            Report::Connected(mut jobs) => {
                jobs.truncate(wire::CONNECTED_MAX);
                state.connected = jobs;
            }
            Report::Empty(order) => state.empty = Some(order),
            Report::Stalled(stalled) => state.stalled = stalled,
            Report::Idle(idle) => state.idle = idle,
            Report::Library(library) => state.note_library(library),
            Report::Refused(text) => {
                state.refused.get_or_insert(text);
            }
            Report::Left => {
                reach(state, Phase::Left);
                self.forward_part(cx, job, false);
            }
            Report::Used(used) => cx.out.route(NodeId::CONTROLLER, Routed::Used(job, used)),
            Report::End { status } => {
                state.status = status;
                state.written = Some(part.outlet.end());
                reach(state, Phase::Over);
                part.alive = false;
                self.forward_part(cx, job, false);
            }
            Report::InputTaken | Report::InputUnwanted => {
                part.unwanted |= report == Report::InputUnwanted;
                part.taken = true;
                self.ack_input(cx.out, job);
            }
        }
    }

    pub(in crate::core) fn handle_starter_gone(&mut self, cx: Context<'_>, job: JobId, end: StarterEnd) {
        let Some(part) = self.parts.get_mut(&job).filter(|part| part.alive) else { return };
        part.alive = false;
        let unprepared = matches!(end, StarterEnd::Unprepared(_));
        let (status, why, used_up) = match end {
            StarterEnd::Unprepared(why) => (1, format!("node {}: {why}", cx.local.config.about.name), None),
            StarterEnd::Died(why) => (1, why, None),
            StarterEnd::UsedUp(whose) => {
                let limit = part.launch.terms.memory_bytes;
                let reached = match whose {
                    UsedUp::Job => job_memory(cx.local, limit),
                    UsedUp::User => user_memory(cx.local, part.launch.user.account().uid),
                };
                (wire::Cause::Memory.status(), format!("the starter was killed: {reached}"), Some(whose))
            }
        };
        let state = &mut part.state;
        state.set_unprepared(unprepared);
        state.phase = Phase::Over;
        state.written = Some(part.outlet.end());
        state.status = state.status.max(status);
        if let Some(whose) = used_up.filter(|_| state.ending.is_some()) {
            warn_of_memory(state, whose, why);
        } else if part.run != Run::Kill {
            state.refused.get_or_insert(why);
        }
        state.ending.get_or_insert(status);
        self.forward_part(cx, job, false);
        self.publish_part(cx, job);
    }
}

/// A script of the keeper has failed here: no new ranks come until the keeper has seen to it.
pub(in crate::core) fn drain_own_node(cx: Context<'_>, why: String) {
    let owner = User::new(cx.local.config.owner, cx.local.config.owner);
    cx.out.act(Action::Warn(format!("{why}; this node is drained")));
    cx.out.post_request(owner, Request::Drain(cx.local.config.about.name.clone(), why));
}

/// The kernel has killed a starter for `why` while that was ending the job, often for the same reason: it is
/// told of the limit before. What a part says of why it ends is a consequence for the controller; a warning
/// is not. Nothing where the end of a rank has told of the same limit.
fn warn_of_memory(state: &mut PartState, whose: UsedUp, why: String) {
    let told = match whose {
        UsedUp::Job => wire::Cause::Memory,
        UsedUp::User => wire::Cause::UserMemory,
    };
    if !state.ended.iter().any(|ended| ended.cause == told) {
        state.warnings.push(why);
    }
}

fn excess(what: &str, bytes: usize, bytes_max: usize) -> String {
    format!("{what} takes {bytes} bytes, and there is room for {bytes_max}")
}

impl Part {
    /// Why there is no room for what its starter has said.
    fn excess(&self, me: NodeId) -> Option<String> {
        let (state, launch) = (&self.state, &self.launch);
        let of = |what, bytes, bytes_max| (bytes > bytes_max).then(|| excess(what, bytes, bytes_max));
        of("the starter's report of its ranks", state.reported_bytes(), launch.reported_bytes_max(me))
            .or_else(|| {
                let puts = state.fence.puts.len();
                of("what the ranks have put over PMI", puts, launch.fence_bytes_max(me))
            })
            .or_else(|| of("what a rank asks for", state.ask.puts.len(), ASK_BYTES_MAX))
            .or_else(|| of("how new ranks began", state.spawned.puts.len(), SPAWNED_BYTES_MAX))
            .or_else(|| of("the starter's report", state.bytes(), STATE_BYTES_MAX))
    }

    /// Takes in what its starter says of a snapshot; returns whether that was one.
    fn take_held(&mut self, me: Option<NodeId>, kind: Kind, payload: &[u8], room: usize) -> bool {
        let Some((number, rest)) = payload.split_first_chunk::<8>() else { return false };
        let number = u64::from_le_bytes(*number);
        let held = match (kind, &mut self.state.held) {
            (Kind::Held, _) => {
                let Some(hold) = self.sent_hold.filter(|hold| hold.number == number) else { return false };
                // Who says that he is its starter need not keep to it.
                let ranks = me.map_or(0, |me| self.launch.ranks_on(me));
                let bytes_max = View::bytes_max(ranks, self.launch.job.ranks(), hold.data_bytes);
                self.state.held = None;
                let bytes_max = bytes_max.min(STATE_BYTES_MAX.min(room).saturating_sub(self.state.bytes()));
                let seen = View::fitting(String::from_utf8_lossy(rest).into_owned(), bytes_max);
                Held { number, seen: seen.into(), released: None }
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_a_dying_starter_has_not_reported_is_a_warning() {
        let why = "the starter was killed: the job's memory on node a reached 64 MiB (--memory)";
        let warnings = |causes: &[wire::Cause], whose| {
            let of = |cause: &wire::Cause| wire::Ended { rank: 0, pid: 7, cause: *cause };
            let mut state = PartState::of_version(1);
            state.ending = Some(137);
            state.ended = causes.iter().map(of).collect();
            // Words of a rank's program decide nothing.
            state.warnings = vec![format!("rank 0 was killed: {why}")];
            warn_of_memory(&mut state, whose, why.to_owned());
            state.warnings.len() - 1
        };
        assert_eq!(warnings(&[], UsedUp::Job), 1);
        assert_eq!(warnings(&[wire::Cause::Status(1), wire::Cause::UserMemory], UsedUp::Job), 1);
        assert_eq!(warnings(&[wire::Cause::Status(1), wire::Cause::Memory], UsedUp::Job), 0);
        assert_eq!(warnings(&[wire::Cause::Memory], UsedUp::User), 1);
        assert_eq!(warnings(&[wire::Cause::UserMemory], UsedUp::User), 0);
    }
}
