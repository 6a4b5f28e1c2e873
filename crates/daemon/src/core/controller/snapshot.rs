//! Snapshots of jobs: the controller has all parts of a job stand still, gathers what each node sees, and
//! lets them go on.
//!
//! ```text
//! asked -> order.hold = n -> Held n of all parts -> order.hold = none -> Released n of all parts, each whole -> answer
//! ```
//!
//! Whatever stops in between, the parts go on by themselves (`tutti_starter`): a hold that was not
//! whole on all nodes is no snapshot. An order of an earlier controller's never holds: it is not learnt.

use std::collections::BTreeMap;

use super::job::JobRecord;
use super::listing::name;
use crate::core::Core;
use crate::members::{Members, NodeId};
use crate::message::{Answer, Held, Hold, JobId, Launch, PartState, Phase, Routed, Run, User};

/// A snapshot that takes longer is given up.
const SNAPSHOT_MS: u64 = 5_000;
/// Bytes of messages' data in a snapshot, at most; what does not fit is listed without them.
const DATA_BYTES_MAX: u64 = 8 << 20;

/// A snapshot under way.
#[derive(Debug)]
pub(super) struct Taking {
    number: u64,
    /// Who has asked: node, number of the question; nobody: the controller itself, since all ranks are still.
    requester: Vec<(NodeId, u64)>,
    since_ms: u64,
    /// What the nodes have seen, as soon as all have.
    seen: Option<Vec<String>>,
}

impl JobRecord {
    /// All ranks are to stand still for a snapshot.
    pub(super) fn hold(&mut self, requester: Vec<(NodeId, u64)>, data_bytes: u64, now_ms: u64, wall_ms: u64) {
        // Above those of a controller before this one.
        let number = (wall_ms * 1000).max(self.last_hold + 1);
        self.last_hold = number;
        self.taking = Some(Taking { number, requester, since_ms: now_ms, seen: None });
        self.order.hold = Some(Hold { number, data_bytes });
    }

    /// What comes of a snapshot, when parts have said something or time has passed.
    fn judge_snapshot(
        &mut self,
        states: &BTreeMap<NodeId, PartState>,
        members: &Members,
        (now_ms, wall_ms): (u64, u64),
    ) -> Option<(Vec<(NodeId, u64)>, Answer)> {
        let taking = self.taking.as_mut()?;
        let number = taking.number;
        let parts = |node: NodeId| states.get(&node)?.held.as_ref().filter(|held| held.number == number);
        let held: Vec<Option<&Held>> = self.launch.nodes.iter().map(|node| parts(*node)).collect();
        let first_without = |is_well: &dyn Fn(&Held) -> bool| {
            let at = held.iter().position(|held| !held.is_some_and(is_well))?;
            Some(name(members, self.launch.nodes[at]))
        };
        let is_late = now_ms >= taking.since_ms + SNAPSHOT_MS;
        let has_ended = self.over || self.order.run == Run::Kill;
        let ends =
            has_ended || taking.seen.is_none() && states.values().any(|part| part.phase == Phase::Over);
        let answer = if ends {
            Answer::Refused(format!("job {} has ended meanwhile", self.id))
        } else if let Some(seen) = &taking.seen {
            match (
                first_without(&|held| held.released.is_some()),
                first_without(&|held| held.released == Some(true)),
            ) {
                (Some(node), _) if is_late => {
                    Answer::Refused(format!("node {node} has not reported that its ranks run again"))
                }
                (Some(_), _) => return None,
                (None, Some(node)) => {
                    Answer::Refused(format!("the ranks on node {node} ran again too early; try again"))
                }
                (None, None) => {
                    Answer::Snapshot(as_json(self.id, &self.command, &self.launch, seen, wall_ms))
                }
            }
        } else {
            match first_without(&|_| true) {
                Some(node) if is_late => {
                    Answer::Refused(format!("node {node} does not report the state of its ranks"))
                }
                Some(_) => return None,
                None => {
                    taking.seen = Some(held.iter().flatten().map(|held| held.seen.to_string()).collect());
                    self.order.hold = None;
                    return None;
                }
            }
        };
        self.order.hold = None;
        Some((self.taking.take()?.requester, answer))
    }
}

/// A `tutti_snapshot::Snapshot` as JSON, of which the views are JSON already.
fn as_json(job: JobId, command: &str, launch: &Launch, views: &[String], taken_ms: u64) -> String {
    let command = serde_json::to_string(command).expect("text is serialisable");
    let (ranks, views) = (launch.job.ranks(), views.join(","));
    format!(r#"{{"job":{job},"command":{command},"ranks":{ranks},"taken_ms":{taken_ms},"nodes":[{views}]}}"#)
}

impl Core {
    /// A user wants a snapshot; the answer comes when it is there. A question that is asked again waits on.
    pub(super) fn begin_snapshot(
        &mut self,
        from: NodeId,
        request_id: u64,
        user: User,
        id: JobId,
    ) -> Option<Answer> {
        let owner = self
            .controller
            .as_ref()
            .and_then(|controller| controller.jobs.get(&id))
            .map(|job| job.launch.user);
        let Some(owner) = owner else { return Some(Answer::Refused(format!("there is no job {id}"))) };
        if !self.may(user, Some(owner)) {
            return Some(Answer::Refused(format!("job {id} is another user's")));
        }
        let (now_ms, wall_ms) = (self.now_ms, self.wall_ms);
        let job = self.controller.as_mut().and_then(|controller| controller.jobs.get_mut(&id))?;
        if job.over || job.is_ending() {
            return Some(Answer::Refused(format!("job {id} is over")));
        }
        if !job.reported_started {
            return Some(Answer::Refused(format!("job {id} has not started yet")));
        }
        match &mut job.taking {
            // The controller's own has no data in it: the question comes again in a second.
            Some(taking) if taking.requester.is_empty() => {}
            Some(taking) if taking.requester.contains(&(from, request_id)) => {}
            Some(taking) => taking.requester.push((from, request_id)),
            None => {
                job.hold(
                    vec![(from, request_id)],
                    DATA_BYTES_MAX / job.launch.nodes.len() as u64,
                    now_ms,
                    wall_ms,
                );
                self.publish(id);
            }
        }
        None
    }

    /// What the parts have said may end a snapshot, or it is late.
    pub(super) fn judge_snapshot(&mut self, id: JobId) {
        let now = (self.now_ms, self.wall_ms);
        let none = BTreeMap::new();
        let Some(members) = &self.members else { return };
        let Some(job) = self.controller.as_mut().and_then(|controller| controller.jobs.get_mut(&id)) else {
            return;
        };
        let states = self.relay.states(id).unwrap_or(&none);
        let Some((requester, answer)) = job.judge_snapshot(states, members, now) else { return };
        if requester.is_empty() {
            job.stuck.handle_snapshot(&answer, now.0);
        }
        for (node, request_id) in requester {
            self.route(node, Routed::Answer { request_id, answer: answer.clone() });
        }
    }
}
