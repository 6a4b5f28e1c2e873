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

use super::super::answers::Requester;
use super::{JobRecord, Taking};
use crate::members::{Members, NodeId};
use crate::message::{Answer, Held, Hold, JobId, Launch, PartState, Phase, Run};

/// A snapshot that takes longer is given up.
const SNAPSHOT_MS: u64 = 5_000;
/// Bytes of messages' data in a snapshot, at most; what does not fit is listed without them.
const DATA_BYTES_MAX: u64 = 8 << 20;

impl JobRecord {
    /// A user wants a snapshot; none: the answer comes when it is there. A question that is asked again waits
    /// on.
    pub(in crate::core::controller) fn begin_snapshot(
        &mut self,
        requester: Requester,
        (now_ms, wall_ms): (u64, u64),
    ) -> Option<Answer> {
        if self.over || self.is_ending() {
            return Some(Answer::Refused(format!("job {} is over", self.id)));
        }
        if !self.reported_started {
            return Some(Answer::Refused(format!("job {} has not started yet", self.id)));
        }
        match &mut self.taking {
            // The controller's own has no data in it: the question comes again in a second.
            Some(taking) if taking.requesters.is_empty() => {}
            Some(taking) if taking.requesters.contains(&requester) => {}
            Some(taking) => taking.requesters.push(requester),
            None => {
                let data_bytes = DATA_BYTES_MAX / self.launch.nodes.len() as u64;
                self.hold(vec![requester], data_bytes, now_ms, wall_ms);
            }
        }
        None
    }

    /// All ranks are to stand still for a snapshot.
    pub(in crate::core::controller) fn hold(
        &mut self,
        requesters: Vec<Requester>,
        data_bytes: u64,
        now_ms: u64,
        wall_ms: u64,
    ) {
        // Above those of a controller before this one.
        let number = (wall_ms * 1000).max(self.last_hold + 1);
        self.last_hold = number;
        self.taking = Some(Taking { number, requesters, since_ms: now_ms, seen: None });
        self.order.hold = Some(Hold { number, data_bytes });
    }

    /// Judges what comes of a snapshot, when parts have said something or time has passed.
    pub(in crate::core::controller) fn judge_snapshot(
        &mut self,
        states: &BTreeMap<NodeId, PartState>,
        members: &Members,
        (now_ms, wall_ms): (u64, u64),
    ) -> Option<(Vec<Requester>, Answer)> {
        let taking = self.taking.as_mut()?;
        let number = taking.number;
        let parts = |node: NodeId| states.get(&node)?.held.as_ref().filter(|held| held.number == number);
        let held: Vec<Option<&Held>> = self.launch.nodes.iter().map(|node| parts(*node)).collect();
        let first_without = |is_well: &dyn Fn(&Held) -> bool| {
            let at = held.iter().position(|held| !held.is_some_and(is_well))?;
            Some(members.name(self.launch.nodes[at]))
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
        let requesters = self.taking.take()?.requesters;
        if requesters.is_empty() {
            self.stuck.handle_snapshot(&answer, self.last_hold, now_ms);
        }
        Some((requesters, answer))
    }
}

/// A `tutti_snapshot::Snapshot` as JSON, of which the views are JSON already.
fn as_json(job: JobId, command: &str, launch: &Launch, views: &[String], taken_ms: u64) -> String {
    let command = serde_json::to_string(command).expect("text is serialisable");
    let (ranks, views) = (launch.job.ranks(), views.join(","));
    let room = launch.job.universe.filter(|universe| u64::from(*universe) > ranks);
    let room = room.map_or_else(String::new, |room| format!(r#""room":{room},"#));
    format!(
        r#"{{"job":{job},"command":{command},"ranks":{ranks},"taken_ms":{taken_ms},{room}"nodes":[{views}]}}"#
    )
}
