//! Mail about jobs, for users who want some (`--mail-type`): what is said, and when. A command of the keeper
//! sends it ([`Action::SendMail`]).
//!
//! An array is one job here: its tasks cause no mail. Steps cause none either. A controller that takes a job
//! over says again that it has begun, if it does not know that another one did.

use tutti_protocol::mail::MailEvent;

use super::job::JobRecord;
use super::jobs::Jobs;
use crate::core::action::{Action, Letter};
use crate::core::local::LocalNode;
use crate::message::{EndKind, JobId};

/// Mail about what has just happened to a job, if its user wants some.
pub(super) fn of(jobs: &Jobs, local: &LocalNode, id: JobId, happened: MailEvent) -> Option<Action> {
    let job = jobs.get(id)?;
    let mail = job.launch.batch.mail();
    let is_part = job.launch.steps.owner.is_some() || job.array_id().is_some();
    let events = match happened {
        MailEvent::End => ended(job),
        other => vec![other],
    };
    let event = events.into_iter().find(|event| mail.events.contains(event)).filter(|_| !is_part)?;
    let user = job.launch.user;
    let to = match mail.to.is_empty() {
        true => (local.config.user_name)(user.uid),
        false => Some(mail.to.clone()),
    };
    let to = to?;
    let name = &job.launch.batch.name;
    let named = if name.is_empty() { String::new() } else { format!(" ({name})") };
    let status = job.end.status();
    let what = match event {
        MailEvent::Begin => "has begun".to_owned(),
        MailEvent::Requeue => "begins anew".to_owned(),
        MailEvent::TimeLimit => "has reached its time limit".to_owned(),
        MailEvent::End | MailEvent::Fail if status == 0 => "has ended with status 0".to_owned(),
        MailEvent::End | MailEvent::Fail => format!("has failed with status {status}"),
    };
    let mut text = format!("Job {id}{named} of {} {what}.\n\n", local.user_name(user.uid));
    let mut line = |what: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("{what:<10}{value}\n"));
        }
    };
    line("command", job.command());
    if let Some(members) = &local.members {
        let nodes = job.launch.places().into_iter().map(|(node, _)| node).collect::<Vec<_>>();
        line("nodes", &members.names(&nodes).join(" "));
    }
    if let Some((started_ms, ended_ms)) = job.started_ms().zip(job.ended_ms()) {
        line("ran", &format!("{} s", ended_ms.saturating_sub(started_ms) / 1000));
    }
    line("cause", job.end.cause().unwrap_or_default());
    let subject = format!("Tutti: job {id}{named} {what}");
    let (groups, session) = (job.launch.groups.clone(), job.launch.session.clone());
    Some(Action::SendMail(Box::new(Letter { job: id, user, groups, to, subject, text, session })))
}

/// Events that the end of a job is.
fn ended(job: &JobRecord) -> Vec<MailEvent> {
    let is_late = job.how_ended().is_some_and(|end| end.kind == EndKind::TimeLimit);
    let mut events = Vec::new();
    events.extend(is_late.then_some(MailEvent::TimeLimit));
    events.extend((job.end.status() != 0).then_some(MailEvent::Fail));
    events.push(MailEvent::End);
    events
}
