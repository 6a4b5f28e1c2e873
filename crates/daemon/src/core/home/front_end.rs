//! The front end of a job at its home: what it says, that it stops, goes away or leaves the job alone, and who takes its place.

use tutti_protocol::wire::{self, Kind, Report};

use super::Home;
use super::questions::QUESTIONS_MAX;
use crate::core::{Action, ClientId, Core};
use crate::members::NodeId;
use crate::message::{Answer, Control, JobId, Request, User};

impl Home {
    /// For who looks at what it has written, if it did not end well.
    fn how_it_ended(&self, job: JobId) -> Option<String> {
        let (status, _) = self.end.as_ref().filter(|(status, _)| self.over && *status != 0)?;
        let cause = self.cause.as_ref().map_or_else(String::new, |cause| format!(": {cause}"));
        Some(format!("job {job} has ended with status {status}{cause}"))
    }
}

impl Core {
    /// The front end of a job says something.
    pub(in crate::core) fn handle_frame(
        &mut self,
        client: ClientId,
        kind: Kind,
        number: u32,
        payload: &[u8],
    ) {
        if self.put_into_tunnel(client, kind, number, payload) {
            return;
        }
        let Some(&job) = self.home.clients.get(&client) else { return };
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        let Some(user) = home.user else { return };
        let control = match kind {
            Kind::Suspend => Control::Suspend,
            Kind::Resume => {
                home.front_stopped = false;
                Control::Resume
            }
            Kind::Window => Control::Window((number >> 16) as u16, number as u16),
            Kind::Detach => return self.detach(client, job, user),
            Kind::Kill => Control::Kill,
            Kind::Signal => Control::Signal(number),
            Kind::Input => return self.put_input(job, payload),
            _ => return,
        };
        // A front end that asks faster than it is answered is not asked for it.
        if self.home.questions.len() < QUESTIONS_MAX {
            self.demand(user, Request::Control(job, control));
        }
    }

    /// The front end has been stopped by a signal that it cannot catch, or goes on (W25).
    pub(in crate::core) fn handle_front_state(&mut self, client: ClientId, stopped: bool) {
        if stopped && self.stop_at_tunnel(client) {
            return;
        }
        let Some(&job) = self.home.clients.get(&client) else { return };
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        home.front_stopped = stopped;
        if let Some(user) = home.user.filter(|_| stopped && !home.suspended) {
            self.demand(user, Request::Control(job, Control::Suspend));
        }
    }

    /// The front end goes, the job goes on as one that was submitted.
    fn detach(&mut self, client: ClientId, job: JobId, user: User) {
        self.tell(job, &Report::Detached);
        if let Some(home) = self.home.homes.get_mut(&job) {
            home.coupled = false;
        }
        self.demand(user, Request::Control(job, Control::Detach));
        self.act(Action::Release(client));
        self.handle_client_gone(client);
    }

    /// A front end that is stopped already, or has just said that the job is to go on, is not told to stop.
    pub(super) fn stops_front_end(&self, job: JobId) -> bool {
        let resume = Request::Control(job, Control::Resume);
        let resumes = self.home.questions.values().any(|question| question.request == resume);
        !resumes && self.home.homes.get(&job).is_some_and(|home| !home.front_stopped)
    }

    pub(in crate::core) fn handle_client_gone(&mut self, client: ClientId) {
        self.near_gone(client);
        self.drop_questions(client);
        let enrolling = self.home.enrolling.values_mut().find(|waiting| **waiting == Some(client));
        enrolling.into_iter().for_each(|waiting| *waiting = None);
        let Some(job) = self.home.clients.remove(&client) else { return };
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        home.client = None;
        home.front_stopped = false;
        home.under_way = 0;
        let nodes: Vec<NodeId> = home.streams.keys().copied().collect();
        if let Some(user) = home.user.filter(|_| home.coupled && !home.over) {
            self.demand(user, Request::Control(job, Control::Abandon));
        }
        nodes.into_iter().for_each(|node| self.give_room(job, node, false));
    }

    pub(super) fn answer_logs(&mut self, client: ClientId, user: User, job: JobId) {
        match self.visible(user, job) {
            Err(text) => self.act(Action::Answer(client, Answer::Refused(text))),
            Ok(home) => {
                let mut frames: Vec<Vec<u8>> = home.log.iter().cloned().collect();
                if let Some(text) = home.how_it_ended(job) {
                    let mut frame = Vec::new();
                    wire::put_json(&mut frame, Kind::Report, &Report::Warning(text));
                    frames.push(frame);
                }
                self.act(Action::Answer(client, Answer::Job(job)));
                frames.into_iter().for_each(|frame| self.act(Action::ToClient(client, frame)));
            }
        }
        self.act(Action::Release(client));
    }

    /// A user becomes the front end of a job that has none.
    pub(super) fn attach(&mut self, client: ClientId, user: User, job: JobId) {
        let refusal = match self.visible(user, job) {
            Err(text) => Some(text),
            Ok(home) if home.over => {
                Some(format!("job {job} is over; `tutti logs {job}` shows what it wrote"))
            }
            Ok(home) if home.client.is_some() => Some(format!("job {job} has a front end already")),
            Ok(_) => None,
        };
        if let Some(text) = refusal {
            self.act(Action::Answer(client, Answer::Refused(text)));
            return self.act(Action::Release(client));
        }
        let home = self.home.homes.get_mut(&job).expect("it is visible");
        home.client = Some(client);
        let frames: Vec<Vec<u8>> = home.log.iter().cloned().collect();
        let (takes_input, room) = (!home.input.takers.is_empty(), home.input.waiting.is_empty());
        self.home.clients.insert(client, job);
        self.act(Action::Answer(client, Answer::Job(job)));
        frames.into_iter().for_each(|frame| self.give(job, frame));
        match (takes_input, room) {
            (false, _) => self.tell(job, &Report::InputUnwanted),
            (true, true) => self.tell(job, &Report::InputTaken),
            // What the last front end has said is still on its way.
            (true, false) => {}
        }
    }

    fn visible(&self, user: User, job: JobId) -> Result<&Home, String> {
        match self.home.homes.get(&job) {
            None => Err(format!("no job {job} was submitted on this node")),
            Some(home) if home.enrolled => {
                Err(format!("job {job} was started by mpiexec, which has its output and input"))
            }
            Some(home) if self.may(user, home.user) => Ok(home),
            Some(_) => Err(format!("job {job} is another user's")),
        }
    }

    /// Whether a user may have a job of another's.
    pub(in crate::core) fn may(&self, user: User, owner: Option<User>) -> bool {
        user.uid == 0 || user.uid == self.config.owner || owner.is_some_and(|owner| owner.uid == user.uid)
    }
}
