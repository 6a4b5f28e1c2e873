//! Nodes that do not freeze what they should, as the scheduler says it: for the log, and for those who look
//! at their jobs.

use tutti_sched::controller::{Lags, Notice};

use super::job::JobRecord;
use crate::core::action::Action;
use crate::core::context::Context;
use crate::core::job_event::JobEvent;
use crate::members::{Members, NodeId};
use crate::message::{JobId, JobState};

/// A line and an event.
pub(super) fn report_late(cx: Context<'_>, notice: Notice) {
    let Some(members) = cx.local.members.as_ref().filter(|_| cx.local.is_controller()) else { return };
    let (node, event, text) = match notice {
        Notice::Late(node, job) => {
            (node, "node-late", format!("has not frozen job {job}, which is frozen on its other nodes"))
        }
        Notice::InTime(node) => (node, "node-in-time", "has frozen what it was late with".to_owned()),
        Notice::Expelled(node) => {
            (node, "node-expelled", "is late: switches continue without it, its jobs are frozen".to_owned())
        }
        Notice::Back(node) => (node, "node-back", "keeps up again, its jobs take their turns".to_owned()),
        // Who asked for it is answered when the ranks say so.
        Notice::Suspended(_) => return,
    };
    let name = members.name(node);
    let line = format!("node {name} {text}");
    let is_bad = matches!(notice, Notice::Late(..) | Notice::Expelled(_));
    cx.out.act(if is_bad { Action::Warn(line) } else { Action::Info(line) });
    cx.out.act(Action::Log(JobEvent { text, ..JobEvent::node(cx.local.wall_ms, event, &name) }));
}

/// The nodes that a job waits for, which stands still until then.
pub(super) fn keepers(lags: &Lags, members: &Members, id: JobId, job: &JobRecord) -> Vec<String> {
    if !matches!(job.state(), JobState::Running | JobState::Suspended) || !job.launch.terms.gang {
        return Vec::new();
    }
    let unfrozen = lags.unfrozen.iter().filter(|(late, _)| *late == id).map(|(_, node)| *node);
    let expelled = lags.expelled.iter().copied().filter(|node| job.launch.nodes.contains(node));
    let mut nodes: Vec<NodeId> = unfrozen.chain(expelled).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.into_iter().map(|node| members.name(node)).collect()
}
