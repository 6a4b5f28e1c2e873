//! What users of this node, and the daemon itself, ask the head: asked again each second until it is answered.

use tutti_protocol::wire::{self, Kind, Report};

use super::{AGAIN_MS, Homes, files};
use crate::core::{Action, ClientId, Core};
use crate::members::NodeId;
use crate::message::{Answer, Control, JobId, Request, Routed, User};

/// In place of a user's program that is gone, or for what the daemon asks by itself.
pub(super) const NOBODY: ClientId = ClientId(0);
/// Who has no answer for so long is told for whom he waits.
const TELL_MS: u64 = 3000;
/// A query is given up then: longer than the head may take for a snapshot.
const QUERY_MS: u64 = 10_000;
/// Questions that wait for the head; beyond it what front ends want of their jobs is dropped.
pub(super) const QUESTIONS_MAX: usize = 8192;

/// Bytes of requests of a user that wait for the head; a longer one is not taken beside others.
const UNANSWERED_BYTES_MAX: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct Question {
    pub(super) client: ClientId,
    pub(super) user: User,
    pub(super) request: Request,
    pub(super) asked_ms: u64,
    pub(super) again: bool,
    /// When it was asked first.
    since_ms: u64,
    /// Who waits knows for whom.
    told: bool,
}

impl Question {
    /// Nothing is different afterwards.
    fn is_query(&self) -> bool {
        !matches!(
            self.request,
            Request::Run(_)
                | Request::Submit(_)
                | Request::Enrol(..)
                | Request::Control(..)
                | Request::Down
                // It may take days, and outlives a head.
                | Request::Wait(_)
                | Request::Withdraw
        )
    }

    /// Who asks no more wants it no more. Of a job that is to run the head may know: it is withdrawn, and ended if it has a number.
    fn ends_with_client(&self) -> bool {
        !matches!(self.request, Request::Run(_) | Request::Enrol(..))
    }
}

impl Homes {
    /// What a user has asked at length and the head has not answered.
    fn owed_bytes(&self, user: User) -> usize {
        let his = self.questions.values().filter(|question| question.user.uid == user.uid);
        his.map(|question| question.request.bytes()).sum()
    }
}

impl Core {
    pub(in crate::core) fn handle_request(&mut self, client: ClientId, user: User, request: Request) {
        match request {
            // A job that was submitted elsewhere the head knows.
            Request::Logs(job) if self.home.homes.contains_key(&job) => self.answer_logs(client, user, job),
            Request::Attach(job) if self.home.homes.contains_key(&job) => self.attach(client, user, job),
            request if self.home.owed_bytes(user) + request.bytes() > UNANSWERED_BYTES_MAX => {
                let text = "too much that you have asked waits for the head: try again later".into();
                self.act(Action::Answer(client, Answer::Refused(text)));
                self.act(Action::Release(client));
            }
            request => {
                self.home.asked = self.home.asked.wrapping_add(1);
                let ask = self.home.asked;
                let now_ms = self.now_ms;
                let question = Question {
                    client,
                    user,
                    request,
                    asked_ms: now_ms,
                    again: false,
                    since_ms: now_ms,
                    told: false,
                };
                self.home.questions.insert(ask, question);
                self.ask(ask);
            }
        }
    }

    pub(super) fn ask(&mut self, ask: u64) {
        let now_ms = self.now_ms;
        let Some(question) = self.home.questions.get_mut(&ask) else { return };
        question.asked_ms = now_ms;
        let again = std::mem::replace(&mut question.again, true);
        let body = Routed::Ask { ask, user: question.user, request: question.request.clone(), again };
        self.route(NodeId::HEAD, body);
    }

    /// What has no answer yet is asked again: it, or its answer, may have been lost.
    pub(super) fn ask_again(&mut self) {
        let now_ms = self.now_ms;
        let questions = self.home.questions.iter();
        let old = questions.filter(|(_, question)| now_ms >= question.asked_ms + AGAIN_MS);
        let old: Vec<u64> = old.map(|(ask, _)| *ask).collect();
        old.into_iter().for_each(|ask| self.ask(ask));
    }

    /// Who waits for a head that does not answer hears so once; queries end.
    pub(super) fn tell_who_waits(&mut self) {
        let (now_ms, silent_ms) = (self.now_ms, self.head_silent_ms());
        let name = self.config.about.name.clone();
        let (mut told, mut refused) = (Vec::new(), Vec::new());
        for (ask, question) in &mut self.home.questions {
            // A snapshot and a job take their time, and a job that runs already does not wait.
            let waits_ms = match &question.request {
                Request::Enrol(..) => continue,
                Request::Snapshot(_) | Request::Wait(_) => silent_ms.min(now_ms - question.since_ms),
                _ => now_ms - question.since_ms,
            };
            if question.client == NOBODY || waits_ms < TELL_MS {
                continue;
            }
            if waits_ms >= QUERY_MS && question.is_query() {
                refused.push((*ask, question.client));
            } else if !std::mem::replace(&mut question.told, true) {
                told.push(question.client);
            }
        }
        for client in told {
            let seconds = TELL_MS / 1000;
            let text =
                format!("{name} waits for the head, which has not answered for {seconds} s; Ctrl-C gives up");
            let mut frame = Vec::new();
            wire::put_json(&mut frame, Kind::Report, &Report::Warning(text));
            self.act(Action::ToClient(client, frame));
        }
        for (ask, client) in refused {
            self.home.questions.remove(&ask);
            let seconds = QUERY_MS / 1000;
            let text = format!(
                "the head has not answered {name} for {seconds} s: nothing can be asked until it does"
            );
            self.act(Action::Answer(client, Answer::Refused(text)));
            self.act(Action::Release(client));
        }
    }

    /// A user's program is gone: what it has asked is not to be done when nobody expects it any more.
    pub(super) fn drop_questions(&mut self, client: ClientId) {
        self.home.questions.retain(|_, question| question.client != client || !question.ends_with_client());
        let mut withdrawn = Vec::new();
        for (ask, question) in
            self.home.questions.iter_mut().filter(|(_, question)| question.client == client)
        {
            question.client = NOBODY;
            if let Request::Run(_) = question.request {
                question.request = Request::Withdraw;
                withdrawn.push(*ask);
            }
        }
        withdrawn.into_iter().for_each(|ask| self.ask(ask));
    }

    /// A question of the daemon's own, whose answer nobody waits for.
    pub(in crate::core) fn demand(&mut self, user: User, request: Request) {
        self.handle_request(NOBODY, user, request);
    }

    pub(in crate::core) fn handle_answer(&mut self, ask: u64, answer: Answer) {
        let Some(Question { client, user, request, .. }) = self.home.questions.remove(&ask) else { return };
        let (answer, frames) = match answer {
            Answer::Snapshot(text) => (Answer::Done, frames_of(text.as_bytes())),
            answer => (answer, Vec::new()),
        };
        if let (Answer::Job(job), Request::Run(_) | Request::Submit(_) | Request::Withdraw) =
            (&answer, &request)
        {
            let home = self.home.homes.entry(*job).or_default();
            home.user = Some(user);
            home.heard_ms = self.now_ms;
            home.coupled = !matches!(request, Request::Submit(_));
            if matches!(&request, Request::Submit(submit) if submit.output.is_some()) {
                let journal = files::submitted(ask);
                self.home.journals.insert(*job, journal.clone());
                self.act(Action::KeepOutput(*job, Box::new(journal)));
            }
            let home = self.home.homes.entry(*job).or_default();
            if home.coupled && client == NOBODY {
                let job = *job;
                self.demand(user, Request::Control(job, Control::Abandon));
            } else if home.coupled {
                home.client = Some(client);
                self.home.clients.insert(client, *job);
            }
        }
        if let (&Answer::Job(job), Request::Enrol(..)) = (&answer, &request) {
            let home = self.home.homes.entry(job).or_default();
            (home.user, home.enrolled, home.heard_ms) = (Some(user), true, self.now_ms);
            self.home.enrolling.insert(job, Some(client).filter(|client| *client != NOBODY));
            return self.try_to_enrol(job);
        }
        if let Answer::Home(home) = answer {
            return self.send_home(client, user, request, home);
        }
        let stays = matches!((&answer, &request), (Answer::Job(_), Request::Run(_)));
        if client != NOBODY {
            self.act(Action::Answer(client, answer));
            frames.into_iter().for_each(|frame| self.act(Action::ToClient(client, frame)));
            if !stays {
                self.act(Action::Release(client));
            }
        }
    }

    /// Who waits for the answer that a job takes part; the inner none: it has gone away.
    pub(in crate::core) fn take_enrolling(&mut self, job: JobId) -> Option<Option<ClientId>> {
        self.home.enrolling.remove(&job)
    }

    /// A user wants something of a job whose home the head has named.
    fn send_home(&mut self, client: ClientId, user: User, request: Request, home: NodeId) {
        match request {
            _ if client == NOBODY => {}
            Request::Logs(job) if Some(home) == self.me => self.answer_logs(client, user, job),
            Request::Attach(job) if Some(home) == self.me => self.attach(client, user, job),
            request => self.open_tunnel(client, user, request, home),
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
