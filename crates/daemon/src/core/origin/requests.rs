//! Requests of users of this node, and of the daemon itself, to the controller: repeated each second until
//! they are answered.

use tutti_protocol::wire::{self, Kind, Report};

use super::{Origin, RESEND_MS};
use crate::core::action::Action;
use crate::core::context::Context;
use crate::core::journal::Journal;
use crate::core::outbox::{Effect, NO_CLIENT};
use crate::ids::ClientId;
use crate::members::NodeId;
use crate::message::{Answer, Control, JobId, Request, Routed, User};

/// Time without an answer after which the asker is told for whom he waits.
const NOTIFY_MS: u64 = 3000;
/// A query is given up then: longer than the controller may take for a snapshot.
const QUERY_MS: u64 = 10_000;
/// Requests of a user that wait for the controller; beyond it what front ends want of their jobs is dropped.
const PENDING_MAX: usize = 1024;

/// Bytes of requests of a user that wait for the controller; a longer one is not taken beside others.
const UNANSWERED_BYTES_MAX: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) client: ClientId,
    pub(super) user: User,
    pub(super) request: Request,
    pub(super) requested_ms: u64,
    pub(super) again: bool,
    /// When it was asked first.
    since_ms: u64,
    /// Whether the asker has been told for whom he waits.
    notified: bool,
}

impl PendingRequest {
    /// Whether nothing is different afterwards.
    fn is_query(&self) -> bool {
        !matches!(
            self.request,
            Request::Run(_)
                | Request::Submit(_)
                | Request::Enrol(..)
                | Request::Control(..)
                | Request::Down
                | Request::Reload
                | Request::Drain(..)
                | Request::Undrain(_)
                | Request::Reserve(_)
                | Request::Unreserve(_)
                | Request::Change(..)
                // It may take days, and outlives a controller.
                | Request::Wait(_)
                | Request::Withdraw
        )
    }

    /// Whether it is an order to stop a job or to let it go on that a later one makes void: repeated after
    /// that one, it would undo it. Who waits for an answer gets one all the same.
    fn is_undone_by(&self, later: &Request) -> bool {
        let stops_or_goes_on = |request: &Request| match request {
            Request::Control(job, Control::Suspend | Control::Resume) => Some(*job),
            _ => None,
        };
        let job = stops_or_goes_on(later);
        self.client == NO_CLIENT && job.is_some() && stops_or_goes_on(&self.request) == job
    }

    /// Whether who asks no more wants it no more. Of a job that is to run the controller may know: it is
    /// withdrawn, and ended if it has a number.
    fn ends_with_client(&self) -> bool {
        !matches!(self.request, Request::Run(_) | Request::Enrol(..))
    }
}

impl Origin {
    /// Whether one more request of a user's front ends may wait for the controller.
    pub(super) fn has_room(&self, user: User) -> bool {
        self.pending.values().filter(|pending| pending.user.account() == user.account()).count() < PENDING_MAX
    }

    /// Bytes that a user has asked at length and the controller has not answered.
    fn unanswered_bytes(&self, user: User) -> usize {
        let his = self.pending.values().filter(|pending| pending.user.account() == user.account());
        his.map(|pending| pending.request.bytes()).sum()
    }
}

impl Origin {
    pub(in crate::core) fn handle_request(
        &mut self,
        cx: Context<'_>,
        client: ClientId,
        user: User,
        request: Request,
    ) {
        match request {
            // A job that was submitted elsewhere the controller knows.
            Request::Logs(job) if self.jobs.contains_key(&job) => self.answer_logs(cx, client, user, job),
            Request::Attach(job) if self.jobs.contains_key(&job) => self.attach(cx, client, user, job),
            Request::Return(back) if self.jobs.contains_key(&back.job) => {
                self.take_back(cx, client, user, &back);
            }
            request if self.unanswered_bytes(user) + request.bytes() > UNANSWERED_BYTES_MAX => {
                let text = "too many of your requests wait for the controller: try again later".into();
                cx.out.act(Action::Answer(client, Answer::Refused(text)));
                cx.out.act(Action::Release(client));
            }
            request => {
                self.last_request = self.last_request.wrapping_add(1);
                let request_id = self.last_request;
                let now_ms = cx.local.now_ms;
                let pending = PendingRequest {
                    client,
                    user,
                    request,
                    requested_ms: now_ms,
                    again: false,
                    since_ms: now_ms,
                    notified: false,
                };
                self.pending.insert(request_id, pending);
                self.send_request(cx, request_id);
            }
        }
    }

    pub(super) fn send_request(&mut self, cx: Context<'_>, request_id: u64) {
        let now_ms = cx.local.now_ms;
        let Some(pending) = self.pending.get_mut(&request_id) else { return };
        pending.requested_ms = now_ms;
        let again = std::mem::replace(&mut pending.again, true);
        let body =
            Routed::Request { request_id, user: pending.user, request: pending.request.clone(), again };
        cx.out.route(NodeId::CONTROLLER, body);
    }

    /// Repeats requests that have no answer yet: they, or their answers, may have been lost.
    pub(super) fn resend_requests(&mut self, cx: Context<'_>) {
        let now_ms = cx.local.now_ms;
        let pending = self.pending.iter();
        let old = pending.filter(|(_, pending)| now_ms >= pending.requested_ms + RESEND_MS);
        let old: Vec<u64> = old.map(|(request_id, _)| *request_id).collect();
        old.into_iter().for_each(|request_id| self.send_request(cx, request_id));
    }

    /// Tells who waits for a controller that does not answer that it is so, once; ends queries.
    pub(super) fn notify_waiting(&mut self, cx: Context<'_>) {
        let (now_ms, silent_ms) = (cx.local.now_ms, cx.local.controller_silent_ms());
        let name = cx.local.config.about.name.clone();
        let (mut notified, mut refused) = (Vec::new(), Vec::new());
        for (request_id, pending) in &mut self.pending {
            // A snapshot and a job take their time, and a job that runs already does not wait.
            let waits_ms = match &pending.request {
                Request::Enrol(..) => continue,
                Request::Snapshot(_) | Request::Wait(_) => silent_ms.min(now_ms - pending.since_ms),
                _ => now_ms - pending.since_ms,
            };
            if pending.client == NO_CLIENT || waits_ms < NOTIFY_MS {
                continue;
            }
            // A controller of an earlier release does not know this question.
            let is_watch = matches!(pending.request, Request::Watch(_));
            if is_watch || waits_ms >= QUERY_MS && pending.is_query() {
                refused.push((*request_id, pending.client));
            } else if !std::mem::replace(&mut pending.notified, true) {
                notified.push(pending.client);
            }
        }
        for client in notified {
            let seconds = NOTIFY_MS / 1000;
            let text = format!(
                "{name} waits for the controller, which has not answered for {seconds} s; Ctrl-C gives up"
            );
            let mut frame = Vec::new();
            wire::put_json(&mut frame, Kind::Report, &Report::Warning(text));
            cx.out.act(Action::ToClient(client, frame));
        }
        for (request_id, client) in refused {
            let asked = self.pending.remove(&request_id);
            let is_watch = asked.is_some_and(|asked| matches!(asked.request, Request::Watch(_)));
            let seconds = if is_watch { NOTIFY_MS } else { QUERY_MS } / 1000;
            let text = format!(
                "the controller has not answered {name} for {seconds} s: requests wait until it does"
            );
            cx.out.act(Action::Answer(client, Answer::Refused(text)));
            cx.out.act(Action::Release(client));
        }
    }

    /// A user's program is gone: what it has asked is not to be done when nobody expects it any more.
    pub(super) fn withdraw_requests(&mut self, cx: Context<'_>, client: ClientId) {
        self.pending.retain(|_, pending| pending.client != client || !pending.ends_with_client());
        let mut withdrawn = Vec::new();
        for (request_id, pending) in self.pending.iter_mut().filter(|(_, pending)| pending.client == client) {
            pending.client = NO_CLIENT;
            if let Request::Run(_) = pending.request {
                pending.request = Request::Withdraw;
                withdrawn.push(*request_id);
            }
        }
        withdrawn.into_iter().for_each(|request_id| self.send_request(cx, request_id));
    }

    /// Asks for something in the name of a user, who waits for no answer.
    pub(super) fn post_request(&mut self, cx: Context<'_>, user: User, request: Request) {
        self.pending.retain(|_, pending| !pending.is_undone_by(&request));
        self.handle_request(cx, NO_CLIENT, user, request);
    }

    pub(in crate::core) fn handle_answer(&mut self, cx: Context<'_>, request_id: u64, answer: Answer) {
        let Some(PendingRequest { client, user, request, .. }) = self.pending.remove(&request_id) else {
            return;
        };
        let (answer, frames) = match answer {
            // Those of this node go before the cluster's.
            Answer::Configuration(rows) => {
                (Answer::Configuration([cx.local.config.settings.clone(), rows].concat()), Vec::new())
            }
            Answer::Changes(mut changes) => {
                // Those of this node go before the cluster's, here too.
                let rows = changes.items.settings.take();
                changes.items.settings = rows.map(|rows| [cx.local.config.settings.clone(), rows].concat());
                (Answer::Changes(changes), Vec::new())
            }
            Answer::Snapshot(text) => (Answer::Done, frames_of(text.as_bytes())),
            answer => (answer, Vec::new()),
        };
        if let (Answer::Job(job), Request::Run(_) | Request::Submit(_) | Request::Withdraw) =
            (&answer, &request)
        {
            let entry = self.jobs.entry(*job).or_default();
            entry.user = Some(user);
            entry.contact_ms = cx.local.now_ms;
            entry.coupled = !matches!(request, Request::Submit(_));
            if matches!(&request, Request::Submit(submit) if submit.output.is_some()) {
                let journal = Journal::submitted(request_id);
                self.journals.insert(*job, journal.clone());
                cx.out.act(Action::RecordOutput(*job, Box::new(journal)));
            }
            let entry = self.jobs.entry(*job).or_default();
            if entry.coupled && client == NO_CLIENT {
                let job = *job;
                self.post_request(cx, user, Request::Control(job, Control::Abandon));
            } else if entry.coupled {
                entry.client = Some(client);
                self.clients.insert(client, *job);
            }
        }
        if let (&Answer::Job(job), Request::Enrol(..)) = (&answer, &request) {
            let entry = self.jobs.entry(job).or_default();
            (entry.user, entry.enrolled, entry.contact_ms) = (Some(user), true, cx.local.now_ms);
            self.enrolling.insert(job, Some(client).filter(|client| *client != NO_CLIENT));
            return cx.out.push(Effect::Enrol(job));
        }
        if let Answer::Origin(entry) = answer {
            return self.forward_to_origin(cx, client, user, request, entry);
        }
        let stays = matches!((&answer, &request), (Answer::Job(_), Request::Run(_)));
        if client != NO_CLIENT {
            let begun = if let (true, Answer::Job(job)) = (stays, &answer) { Some(*job) } else { None };
            cx.out.act(Action::Answer(client, answer));
            begun.into_iter().for_each(|job| self.begin_input(cx.out, job));
            frames.into_iter().for_each(|frame| cx.out.act(Action::ToClient(client, frame)));
            if !stays {
                cx.out.act(Action::Release(client));
            }
        }
    }

    /// Takes the client that waits for the answer that a job takes part; the inner none: it has gone away.
    pub(in crate::core) fn take_enrolling(&mut self, job: JobId) -> Option<Option<ClientId>> {
        self.enrolling.remove(&job)
    }

    /// A user wants something of a job whose home the controller has named.
    fn forward_to_origin(
        &mut self,
        cx: Context<'_>,
        client: ClientId,
        user: User,
        request: Request,
        entry: NodeId,
    ) {
        match request {
            _ if client == NO_CLIENT => {}
            Request::Logs(job) if Some(entry) == cx.local.me => self.answer_logs(cx, client, user, job),
            Request::Attach(job) if Some(entry) == cx.local.me => self.attach(cx, client, user, job),
            Request::Return(back) if Some(entry) == cx.local.me => {
                self.jobs.entry(back.job).or_default().user = Some(user);
                self.take_back(cx, client, user, &back);
            }
            request => cx.out.push(Effect::OpenTunnel(client, user, request, entry)),
        }
    }
}
/// Text as frames of output.
fn frames_of(text: &[u8]) -> Vec<Vec<u8>> {
    let frame = |piece: &[u8]| {
        let mut frame = Vec::new();
        wire::put(&mut frame, Kind::Output, 0, piece);
        frame
    };
    text.chunks(wire::DATA_BYTES_MAX).map(frame).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_to_go_on_takes_the_place_of_one_to_stop_that_is_not_answered_yet() {
        let pending = |client, request| PendingRequest {
            client,
            user: User::new(1, 1),
            request,
            requested_ms: 0,
            again: true,
            since_ms: 0,
            notified: false,
        };
        let order = |job, control| Request::Control(JobId(job), control);
        let stop = pending(NO_CLIENT, order(7, Control::Suspend));
        assert!(stop.is_undone_by(&order(7, Control::Resume)));
        assert!(stop.is_undone_by(&order(7, Control::Suspend)));
        assert!(pending(NO_CLIENT, order(7, Control::Resume)).is_undone_by(&order(7, Control::Suspend)));
        assert!(!stop.is_undone_by(&order(8, Control::Resume)), "of another job");
        assert!(!stop.is_undone_by(&order(7, Control::Signal(2))), "no order to go on");
        assert!(!pending(NO_CLIENT, order(7, Control::Kill)).is_undone_by(&order(7, Control::Resume)));
        let asked = pending(ClientId(1), order(7, Control::Suspend));
        assert!(!asked.is_undone_by(&order(7, Control::Resume)), "its asker waits for an answer");
    }
}
