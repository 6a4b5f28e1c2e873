//! The front end of a job at its origin: what it says, that it stops, goes away or leaves the job alone, and
//! who takes its place.

use tutti_protocol::wire::{self, Kind, Report};

use super::{Comeback, LateStop, Origin, OriginJob, Passed, Warned};
use crate::core::action::Action;
use crate::core::context::Context;
use crate::core::local::LocalNode;
use crate::ids::ClientId;
use crate::members::NodeId;
use crate::message::{Answer, Control, JobId, Request, Return, User};

impl OriginJob {
    /// For who looks at what it has written when it is over: what it was warned of while it ran, and how it
    /// has ended if that was not well.
    fn lines(&self, job: JobId) -> Vec<String> {
        let is_cause = |warned: &Warned| warned.number.is_some() && warned.number == self.cause_report;
        let warnings = self.warnings.iter().filter(|warned| self.over && !is_cause(warned));
        warnings.map(|warned| warned.text.clone()).chain(self.how_it_ended(job)).collect()
    }

    fn how_it_ended(&self, job: JobId) -> Option<String> {
        let (status, _) = self.end.as_ref().filter(|(status, _)| self.over && *status != 0)?;
        let cause = self.cause.as_ref().map_or_else(String::new, |cause| format!(": {cause}"));
        Some(format!("job {job} has ended with status {status}{cause}"))
    }
}

impl Origin {
    /// The front end of a job says something.
    pub(in crate::core) fn handle_frame(
        &mut self,
        cx: Context<'_>,
        client: ClientId,
        kind: Kind,
        number: u32,
        payload: &[u8],
    ) {
        let Some(&job) = self.clients.get(&client) else { return };
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        let Some(user) = entry.user else { return };
        let control = match kind {
            Kind::Suspend => Control::Suspend,
            Kind::Resume => {
                entry.front_stopped = false;
                Control::Resume
            }
            Kind::Window => Control::Window((number >> 16) as u16, number as u16),
            Kind::Detach => return self.detach(cx, client, job, user),
            Kind::Kill => Control::Kill,
            Kind::Signal => Control::Signal(number),
            Kind::Input => return self.put_input(cx, job, (number, payload)),
            _ => return,
        };
        // A front end that asks faster than it is answered is not asked for it.
        if self.has_room(user) {
            self.post_request(cx, user, Request::Control(job, control));
        }
    }

    /// The front end has been stopped by a signal that it cannot catch, or goes on.
    pub(in crate::core) fn handle_front_state(&mut self, cx: Context<'_>, client: ClientId, stopped: bool) {
        let Some(&job) = self.clients.get(&client) else { return };
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        if !stopped {
            entry.late_stop.handle_running();
        } else if !entry.suspended && entry.late_stop.take(cx.local.now_ms) {
            return cx.out.act(Action::Continue(client));
        }
        entry.front_stopped = stopped;
        if let Some(user) = entry.user.filter(|_| stopped && !entry.suspended) {
            self.post_request(cx, user, Request::Control(job, Control::Suspend));
        }
    }

    /// The front end goes, the job goes on as one that was submitted.
    fn detach(&mut self, cx: Context<'_>, client: ClientId, job: JobId, user: User) {
        self.report(cx.out, job, &Report::Detached);
        if let Some(entry) = self.jobs.get_mut(&job) {
            entry.coupled = false;
        }
        self.post_request(cx, user, Request::Control(job, Control::Detach));
        cx.out.act(Action::Release(client));
        self.handle_client_gone(cx, client);
    }

    /// A front end that is stopped already, or has just said that the job is to go on, is not ordered to
    /// stop.
    pub(super) fn stops_front_end(&self, job: JobId) -> bool {
        let resume = Request::Control(job, Control::Resume);
        let resumes = self.pending.values().any(|pending| pending.request == resume);
        !resumes && self.jobs.get(&job).is_some_and(|entry| !entry.front_stopped)
    }

    pub(in crate::core) fn handle_client_gone(&mut self, cx: Context<'_>, client: ClientId) {
        self.withdraw_requests(cx, client);
        let enrolling = self.enrolling.values_mut().find(|waiting| **waiting == Some(client));
        enrolling.into_iter().for_each(|waiting| *waiting = None);
        let Some(job) = self.clients.remove(&client) else { return };
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        entry.client = None;
        entry.front_stopped = false;
        entry.late_stop = LateStop::default();
        entry.in_flight_bytes = 0;
        let nodes: Vec<NodeId> = entry.streams.keys().copied().collect();
        if let Some(user) = entry.user.filter(|_| entry.coupled && !entry.over) {
            self.post_request(cx, user, Request::Control(job, Control::Abandon));
        }
        nodes.into_iter().for_each(|node| self.give_room(cx.out, job, node, false));
    }

    pub(super) fn answer_logs(&mut self, cx: Context<'_>, client: ClientId, user: User, job: JobId) {
        match self.visible(cx.local, user, job) {
            Err(text) => cx.out.act(Action::Answer(client, Answer::Refused(text))),
            Ok(entry) => {
                let mut frames: Vec<Vec<u8>> = entry.log.iter().map(|frame| frame.bytes.clone()).collect();
                for text in entry.lines(job) {
                    let mut frame = Vec::new();
                    wire::put_json(&mut frame, Kind::Report, &Report::Warning(text));
                    frames.push(frame);
                }
                cx.out.act(Action::Answer(client, Answer::Job(job)));
                frames.into_iter().for_each(|frame| cx.out.act(Action::ToClient(client, frame)));
            }
        }
        cx.out.act(Action::Release(client));
    }

    /// A user becomes the front end of a job that has none.
    pub(super) fn attach(&mut self, cx: Context<'_>, client: ClientId, user: User, job: JobId) {
        let refusal = match self.visible(cx.local, user, job) {
            Err(text) => Some(text),
            Ok(entry) if entry.over => {
                Some(format!("job {job} is over; `tutti logs {job}` shows what it wrote"))
            }
            Ok(entry) if entry.client.is_some() => Some(format!("job {job} has a front end already")),
            Ok(_) => None,
        };
        if let Some(text) = refusal {
            cx.out.act(Action::Answer(client, Answer::Refused(text)));
            return cx.out.act(Action::Release(client));
        }
        let entry = self.jobs.get_mut(&job).expect("it is visible");
        entry.client = Some(client);
        entry.comeback = Comeback::default();
        let frames: Vec<Passed> = entry.log.iter().cloned().collect();
        let (takes_input, room) = (!entry.input.takers.is_empty(), entry.input.waiting.is_empty());
        self.clients.insert(client, job);
        cx.out.act(Action::Answer(client, Answer::Job(job)));
        self.begin_input(cx.out, job);
        frames.into_iter().for_each(|frame| self.give_output(cx.out, job, frame));
        match (takes_input, room) {
            (false, _) => self.report(cx.out, job, &Report::InputUnwanted),
            (true, true) => self.report(cx.out, job, &Report::InputTaken),
            // What the last front end has said is still on its way.
            (true, false) => {}
        }
    }

    /// The front end of a job is back.
    pub(super) fn take_back(&mut self, cx: Context<'_>, client: ClientId, user: User, back: &Return) {
        let job = back.job;
        let refusal = match self.visible(cx.local, user, job) {
            Err(text) => Some(text),
            Ok(entry) if entry.client.is_some() => Some(format!("job {job} has a front end already")),
            Ok(_) => None,
        };
        if let Some(text) = refusal {
            cx.out.act(Action::Answer(client, Answer::Refused(text)));
            return cx.out.act(Action::Release(client));
        }
        let entry = self.jobs.get_mut(&job).expect("it is visible");
        (entry.client, entry.coupled, entry.contact_ms) = (Some(client), back.coupled, cx.local.now_ms);
        entry.comeback = Comeback::back_at(&back.places);
        entry.input.first = back.pieces;
        let (missed, gaps) = entry.missed();
        let reports = entry.reported.clone();
        let reads_nothing = !entry.streams.is_empty() && entry.input.takers.is_empty();
        let nodes: Vec<NodeId> = entry.streams.keys().copied().collect();
        let end =
            entry.end.as_ref().filter(|_| entry.over).map(|(status, _)| Report::End { status: *status });
        self.clients.insert(client, job);
        cx.out.act(Action::Answer(client, Answer::Job(job)));
        if back.pieces == 0 {
            self.begin_input(cx.out, job);
        }
        reports.iter().for_each(|report| self.report(cx.out, job, report));
        gaps.into_iter().for_each(|(node, bytes)| self.report_gap(cx, job, node, bytes));
        missed.into_iter().for_each(|frame| self.give_output(cx.out, job, frame));
        if reads_nothing {
            self.report(cx.out, job, &Report::InputUnwanted);
        }
        nodes.into_iter().for_each(|node| self.give_room(cx.out, job, node, true));
        if let Some(end) = end {
            self.report(cx.out, job, &end);
            self.clients.remove(&client);
            self.jobs.get_mut(&job).into_iter().for_each(|entry| entry.client = None);
            cx.out.act(Action::Release(client));
        }
    }

    /// Ends jobs whose front end does not come back, as when a front end dies. One that stands
    /// still may have a front end that does, too.
    pub(super) fn give_up_front_ends(&mut self, cx: Context<'_>) {
        let is_late = |entry: &OriginJob| {
            let may_stand = entry.suspended && entry.end.is_none();
            let until_ms = entry.comeback.until_ms.filter(|_| !entry.over && !may_stand);
            until_ms.is_some_and(|until_ms| cx.local.now_ms >= until_ms)
        };
        let late = self.jobs.iter().filter(|(_, entry)| is_late(entry));
        let late: Vec<JobId> = late.map(|(job, _)| *job).collect();
        for job in late {
            let Some(entry) = self.jobs.get_mut(&job) else { continue };
            entry.comeback = Comeback::default();
            if let Some(user) = entry.user {
                self.post_request(cx, user, Request::Control(job, Control::Abandon));
            }
        }
    }

    pub(super) fn visible(&self, local: &LocalNode, user: User, job: JobId) -> Result<&OriginJob, String> {
        match self.jobs.get(&job) {
            None => Err(format!("no job {job} was submitted on this node")),
            Some(entry) if entry.enrolled => {
                Err(format!("job {job} was started by mpiexec, which has its output and input"))
            }
            Some(entry) if local.may(user, entry.user) => Ok(entry),
            Some(_) => Err(format!("job {job} is another user's")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_job_that_is_over_say_its_cause_once_and_keep_what_ranks_have_said() {
        let cause = "node b does not answer any more";
        let warned = |number, text: &str| Warned { number, text: text.to_owned() };
        let mut job = OriginJob {
            over: true,
            warnings: vec![
                warned(Some(3), "node b does not answer any more; the job is ended"),
                warned(Some(4), "rank 1 says: node b does not answer any more"),
                warned(None, "node b does not answer any more, said an earlier controller"),
            ],
            end: Some((1, Vec::new())),
            cause: Some(cause.to_owned()),
            cause_report: Some(3),
            ..OriginJob::default()
        };
        let ended = "job 7 has ended with status 1: node b does not answer any more";
        let [_, rank, earlier] = &job.warnings[..] else { panic!("three warnings") };
        let (rank, earlier) = (rank.text.clone(), earlier.text.clone());
        assert_eq!(job.lines(JobId(7)), [rank.as_str(), &earlier, ended]);
        job.cause_report = None;
        assert_eq!(job.lines(JobId(7)).len(), 4, "no warning has said it");
        job.over = false;
        assert_eq!(job.lines(JobId(7)), [""; 0]);
    }
}
