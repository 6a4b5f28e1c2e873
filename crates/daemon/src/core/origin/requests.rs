//! What users of this node, and the daemon itself, ask the controller: asked again each second until it is
//! answered.

use tutti_protocol::wire::{self, Kind, Report};

use super::{Origin, RESEND_MS, files};
use crate::core::{Action, ClientId, Core};
use crate::members::NodeId;
use crate::message::{Answer, Control, JobId, Request, Routed, User};

/// In place of a user's program that is gone, or for what the daemon asks by itself.
pub(super) const NO_CLIENT: ClientId = ClientId(0);
/// Who has no answer for so long is told for whom he waits.
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
    /// Who waits knows for whom.
    notified: bool,
}

impl PendingRequest {
    /// Nothing is different afterwards.
    fn is_query(&self) -> bool {
        !matches!(
            self.request,
            Request::Run(_)
                | Request::Submit(_)
                | Request::Enrol(..)
                | Request::Control(..)
                | Request::Down
                // It may take days, and outlives a controller.
                | Request::Wait(_)
                | Request::Withdraw
        )
    }

    /// Who asks no more wants it no more. Of a job that is to run the controller may know: it is withdrawn,
    /// and ended if it has a number.
    fn ends_with_client(&self) -> bool {
        !matches!(self.request, Request::Run(_) | Request::Enrol(..))
    }
}

impl Origin {
    /// Whether one more request of a user's front ends may wait for the controller.
    pub(super) fn has_room(&self, user: User) -> bool {
        self.pending.values().filter(|pending| pending.user.uid == user.uid).count() < PENDING_MAX
    }

    /// What a user has asked at length and the controller has not answered.
    fn unanswered_bytes(&self, user: User) -> usize {
        let his = self.pending.values().filter(|pending| pending.user.uid == user.uid);
        his.map(|pending| pending.request.bytes()).sum()
    }
}

impl Core {
    pub(in crate::core) fn handle_request(&mut self, client: ClientId, user: User, request: Request) {
        match request {
            // A job that was submitted elsewhere the controller knows.
            Request::Logs(job) if self.origin.jobs.contains_key(&job) => self.answer_logs(client, user, job),
            Request::Attach(job) if self.origin.jobs.contains_key(&job) => self.attach(client, user, job),
            request if self.origin.unanswered_bytes(user) + request.bytes() > UNANSWERED_BYTES_MAX => {
                let text = "too many of your requests wait for the controller: try again later".into();
                self.act(Action::Answer(client, Answer::Refused(text)));
                self.act(Action::Release(client));
            }
            request => {
                self.origin.last_request = self.origin.last_request.wrapping_add(1);
                let request_id = self.origin.last_request;
                let now_ms = self.now_ms;
                let pending = PendingRequest {
                    client,
                    user,
                    request,
                    requested_ms: now_ms,
                    again: false,
                    since_ms: now_ms,
                    notified: false,
                };
                self.origin.pending.insert(request_id, pending);
                self.send_request(request_id);
            }
        }
    }

    pub(super) fn send_request(&mut self, request_id: u64) {
        let now_ms = self.now_ms;
        let Some(pending) = self.origin.pending.get_mut(&request_id) else { return };
        pending.requested_ms = now_ms;
        let again = std::mem::replace(&mut pending.again, true);
        let body =
            Routed::Request { request_id, user: pending.user, request: pending.request.clone(), again };
        self.route(NodeId::CONTROLLER, body);
    }

    /// What has no answer yet is asked again: it, or its answer, may have been lost.
    pub(super) fn resend_requests(&mut self) {
        let now_ms = self.now_ms;
        let pending = self.origin.pending.iter();
        let old = pending.filter(|(_, pending)| now_ms >= pending.requested_ms + RESEND_MS);
        let old: Vec<u64> = old.map(|(request_id, _)| *request_id).collect();
        old.into_iter().for_each(|request_id| self.send_request(request_id));
    }

    /// Who waits for a controller that does not answer hears so once; queries end.
    pub(super) fn notify_waiting(&mut self) {
        let (now_ms, silent_ms) = (self.now_ms, self.controller_silent_ms());
        let name = self.config.about.name.clone();
        let (mut notified, mut refused) = (Vec::new(), Vec::new());
        for (request_id, pending) in &mut self.origin.pending {
            // A snapshot and a job take their time, and a job that runs already does not wait.
            let waits_ms = match &pending.request {
                Request::Enrol(..) => continue,
                Request::Snapshot(_) | Request::Wait(_) => silent_ms.min(now_ms - pending.since_ms),
                _ => now_ms - pending.since_ms,
            };
            if pending.client == NO_CLIENT || waits_ms < NOTIFY_MS {
                continue;
            }
            if waits_ms >= QUERY_MS && pending.is_query() {
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
            self.act(Action::ToClient(client, frame));
        }
        for (request_id, client) in refused {
            self.origin.pending.remove(&request_id);
            let seconds = QUERY_MS / 1000;
            let text = format!(
                "the controller has not answered {name} for {seconds} s: requests wait until it does"
            );
            self.act(Action::Answer(client, Answer::Refused(text)));
            self.act(Action::Release(client));
        }
    }

    /// A user's program is gone: what it has asked is not to be done when nobody expects it any more.
    pub(super) fn withdraw_requests(&mut self, client: ClientId) {
        self.origin.pending.retain(|_, pending| pending.client != client || !pending.ends_with_client());
        let mut withdrawn = Vec::new();
        for (request_id, pending) in
            self.origin.pending.iter_mut().filter(|(_, pending)| pending.client == client)
        {
            pending.client = NO_CLIENT;
            if let Request::Run(_) = pending.request {
                pending.request = Request::Withdraw;
                withdrawn.push(*request_id);
            }
        }
        withdrawn.into_iter().for_each(|request_id| self.send_request(request_id));
    }

    /// A question of the daemon's own, whose answer nobody waits for.
    pub(in crate::core) fn post_request(&mut self, user: User, request: Request) {
        self.handle_request(NO_CLIENT, user, request);
    }

    pub(in crate::core) fn handle_answer(&mut self, request_id: u64, answer: Answer) {
        let Some(PendingRequest { client, user, request, .. }) = self.origin.pending.remove(&request_id)
        else {
            return;
        };
        let (answer, frames) = match answer {
            Answer::Snapshot(text) => (Answer::Done, frames_of(text.as_bytes())),
            answer => (answer, Vec::new()),
        };
        if let (Answer::Job(job), Request::Run(_) | Request::Submit(_) | Request::Withdraw) =
            (&answer, &request)
        {
            let entry = self.origin.jobs.entry(*job).or_default();
            entry.user = Some(user);
            entry.contact_ms = self.now_ms;
            entry.coupled = !matches!(request, Request::Submit(_));
            if matches!(&request, Request::Submit(submit) if submit.output.is_some()) {
                let journal = files::submitted(request_id);
                self.origin.journals.insert(*job, journal.clone());
                self.act(Action::RecordOutput(*job, Box::new(journal)));
            }
            let entry = self.origin.jobs.entry(*job).or_default();
            if entry.coupled && client == NO_CLIENT {
                let job = *job;
                self.post_request(user, Request::Control(job, Control::Abandon));
            } else if entry.coupled {
                entry.client = Some(client);
                self.origin.clients.insert(client, *job);
            }
        }
        if let (&Answer::Job(job), Request::Enrol(..)) = (&answer, &request) {
            let entry = self.origin.jobs.entry(job).or_default();
            (entry.user, entry.enrolled, entry.contact_ms) = (Some(user), true, self.now_ms);
            self.origin.enrolling.insert(job, Some(client).filter(|client| *client != NO_CLIENT));
            return self.try_to_enrol(job);
        }
        if let Answer::Origin(entry) = answer {
            return self.forward_to_origin(client, user, request, entry);
        }
        let stays = matches!((&answer, &request), (Answer::Job(_), Request::Run(_)));
        if client != NO_CLIENT {
            self.act(Action::Answer(client, answer));
            frames.into_iter().for_each(|frame| self.act(Action::ToClient(client, frame)));
            if !stays {
                self.act(Action::Release(client));
            }
        }
    }

    /// Who waits for the answer that a job takes part; the inner none: it has gone away.
    pub(in crate::core) fn take_enrolling(&mut self, job: JobId) -> Option<Option<ClientId>> {
        self.origin.enrolling.remove(&job)
    }

    /// A user wants something of a job whose home the controller has named.
    fn forward_to_origin(&mut self, client: ClientId, user: User, request: Request, entry: NodeId) {
        match request {
            _ if client == NO_CLIENT => {}
            Request::Logs(job) if Some(entry) == self.me => self.answer_logs(client, user, job),
            Request::Attach(job) if Some(entry) == self.me => self.attach(client, user, job),
            request => self.open_tunnel(client, user, request, entry),
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
