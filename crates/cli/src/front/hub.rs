//! Frames of starters, or of the daemon in their place, and the messages to all that follow.

use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::Signal;
use tutti_protocol::paths;
use tutti_protocol::users::refusal::{Reason, read_answer};
use tutti_protocol::wire::{
    Cause, Ended, FrameHeader, Kind, Library, PUTS_BYTES_MAX, Reached, Report, Stalled,
};

use super::enrolment::{EnrolAction, Enrolment, Refusal};
use super::floor::Turn;
use super::stall::StallAction;
use super::{End, Front, Keys, libc_signal};
use crate::cluster::Answer;
use crate::link::{Link, State};

/// A report of this age may be older than the SIGCONT that came before it.
const OUTRUN: Duration = Duration::from_millis(200);

impl Front {
    /// Takes all frames for whose output there is room. What they say counts at once; output waits for our
    /// stdout and for the end of another node's long line.
    pub(super) fn handle_frames(&mut self) {
        loop {
            self.write_turns();
            let mut has_more = false;
            for index in 0..self.links.len() {
                while self.floor.has_room(index) && self.handle_frame(index) {
                    has_more = true;
                }
            }
            if !has_more && !self.judge_floor() {
                return;
            }
        }
    }

    /// Writes what may be written, as far as our stdout takes it.
    fn write_turns(&mut self) {
        while self.stdio.is_idle()
            && let Some(turn) = self.floor.poll_turn(Instant::now())
        {
            match turn {
                Turn::Output { kind, rank, bytes } => self.stdio.take(kind, rank, &bytes),
                Turn::Notice(text) => self.complain(&text),
            }
            // A file takes it at once; for a pipe the poll decides.
            while self.stdio.waits_for().is_none() && !self.stdio.is_idle() {
                self.write();
            }
        }
    }

    /// Looks what a link that has the floor and seems to be silent has sent, and was not read yet. Whether
    /// there was one.
    fn judge_floor(&mut self) -> bool {
        let silent = self.stdio.is_idle().then(|| self.floor.poll_silent(Instant::now())).flatten();
        if let Some(holder) = silent {
            let link = &self.links[holder];
            self.floor.judge(link.is_alive() && link.has_input(), Instant::now());
        }
        silent.is_some()
    }

    /// Says something about what a link has sent, behind the output that it has sent before.
    fn complain_behind(&mut self, index: usize, text: String) {
        match self.floor.is_waiting(index) || !self.stdio.is_idle() {
            true => self.floor.put(index, Turn::Notice(text)),
            false => self.complain(&text),
        }
    }

    /// Takes a frame of a link; `false` when there is none.
    fn handle_frame(&mut self, index: usize) -> bool {
        let (head, report) = match self.links[index].decoder.next_frame() {
            Ok(Some((FrameHeader { kind: kind @ (Kind::Output | Kind::Errors), rank, .. }, payload))) => {
                self.comeback.handle_output(payload.len());
                self.floor.put(index, Turn::Output { kind, rank, bytes: payload.to_vec() });
                self.write_turns();
                return true;
            }
            Ok(Some((FrameHeader { kind: Kind::Fence, rank, .. }, payload))) => {
                self.links[index].fence = Some((rank, payload.to_vec()));
                self.send_fence();
                return true;
            }
            Ok(Some((FrameHeader { kind: Kind::Ask, rank, .. }, payload))) => {
                let ask = (rank, payload.to_vec());
                self.links[index].asks.push_back(ask);
                self.send_spawn();
                return true;
            }
            Ok(Some((FrameHeader { kind: Kind::Spawned, rank, .. }, payload))) => {
                self.links[index].spawned = Some((rank, payload.to_vec()));
                self.send_spawn_end();
                return true;
            }
            Ok(Some((FrameHeader { kind: kind @ (Kind::Held | Kind::Released), .. }, payload))) => {
                let is_ours =
                    self.judge.as_mut().is_some_and(|judge| judge.handle_held(index, kind, payload));
                if let Some(enrolment) = self.enrolment.as_mut().filter(|_| !is_ours) {
                    enrolment.handle_held(kind, payload);
                }
                return true;
            }
            Ok(Some((head @ FrameHeader { kind: Kind::Answer, .. }, payload))) => {
                let answer = read_answer(head, payload);
                self.handle_answer(index, answer);
                return true;
            }
            Ok(Some((head, payload))) => (head, serde_json::from_slice::<Report>(payload).ok()),
            Ok(None) => return false,
            Err(error) => {
                self.complain(&format!("the starter is of another version: {error}"));
                self.kill(1);
                self.links[index].kill();
                return false;
            }
        };
        if let (Kind::Report, Some(report)) = (head.kind, report) {
            self.handle_report(index, report);
        }
        true
    }

    /// The daemon's answer to our request.
    fn handle_answer(&mut self, index: usize, answer: Option<Answer>) {
        match answer {
            Some(Answer::Job(job)) => {
                self.number = Some(job);
                if self.options.remarks.verbose {
                    self.complain(&format!("this is job {job}"));
                }
            }
            Some(Answer::Refused(text) | Answer::Because(_, text)) => {
                self.complain(&text);
                self.note(1);
                self.links[index].state = State::Over;
            }
            _ => {
                self.complain("the daemon is of another version");
                self.note(1);
                self.links[index].state = State::Over;
            }
        }
    }

    fn handle_report(&mut self, index: usize, report: Report) {
        // A user that ended the job knows why it ended; and what happens elsewhere after its end is only a
        // consequence.
        let is_news = self.end == End::Open && self.ender.is_none_or(|ender| ender == index);
        if self.links[index].is_daemon() && self.comeback.is_known(&report) {
            return;
        }
        match report {
            Report::Addresses(reached) => {
                self.links[index].reached = Some(reached);
                self.send_addresses();
            }
            Report::Started { pids, cores } => {
                self.links[index].input_room = true;
                self.print_places(index, &pids, &cores);
                if let Some(enrolment) = &mut self.enrolment {
                    enrolment.handle_started(index, pids, cores);
                }
            }
            Report::Later { pids, gone } => {
                if let Some(enrolment) = &mut self.enrolment {
                    enrolment.handle_later(pids, gone);
                }
            }
            Report::InputTaken => {
                self.links[index].input_room = true;
                self.comeback.handle_input_taken();
            }
            Report::Stands { node, place } => self.comeback.handle_place(node, place),
            Report::Pieces(pieces) => self.comeback.handle_pieces(pieces),
            Report::InputUnwanted => self.links[index].wants_input = false,
            Report::Suspended => self.handle_suspended(index),
            Report::Stopped => self.put(Kind::Suspend, 0, &[]),
            Report::Connected(jobs) => {
                self.enrolment.iter_mut().for_each(|enrolment| enrolment.handle_connected(index, &jobs));
            }
            // Our own reports to a daemon.
            Report::Continued => {}
            Report::Detached => {
                let job = self.number.map_or_else(String::new, |job| job.to_string());
                self.complain(&format!("job {job} continues; `tutti attach {job}` returns to it"));
                self.links[index].state = State::Over;
            }
            Report::Ending { status } => self.handle_ending(index, status),
            Report::Ended(ended) => self.handle_ended(index, ended, is_news),
            // Its end comes behind it; others may refuse the job before that.
            Report::Refused(text) if is_news && *self.refuser.get_or_insert(index) == index => {
                self.complain_behind(index, text);
            }
            Report::Refused(_) => {}
            Report::Warning(text) => self.complain_behind(index, text),
            Report::Library(library) => self.handle_library(index, library),
            Report::Counted(counted) => match &mut self.counted {
                Some(all) => all.add(&counted),
                none => *none = Some(counted),
            },
            Report::Stalled(stalled) => self.handle_stalled(index, stalled),
            Report::Idle(idle) => {
                self.links[index].idle = idle;
                self.handle_idle();
            }
            Report::Left => {
                self.links[index].left = true;
                self.send_leave();
            }
            Report::Empty(order) => {
                self.links[index].empty = Some(order);
                self.send_leave();
            }
            Report::Used(used) => self.used = Some(self.used.unwrap_or_default().and(used)),
            Report::End { status } => {
                self.note(status);
                self.links[index].state = State::Over;
                self.floor.handle_end(index);
            }
        }
    }

    /// A rank there ends the job: it is killed everywhere else.
    fn handle_ending(&mut self, index: usize, status: u8) {
        self.note(status);
        if self.ender.is_none() {
            self.ender = Some(index);
            self.ends_well = status == 0;
            let others = self.links.iter_mut().enumerate().filter(|(other, _)| *other != index);
            others.for_each(|(_, link)| link.put(Kind::Kill, 0, &[]));
        }
    }

    /// Prints the cause of the end, once.
    fn handle_ended(&mut self, index: usize, ended: Ended, is_news: bool) {
        self.note(ended.cause.status());
        let notice = ended.notice().filter(|_| is_news);
        match (notice, ended.cause) {
            // The rank's own line may be on its way yet.
            (Some(text), Cause::Fatal(_)) if self.adopted.is_none() => self.late_notice = Some(text),
            // Its status goes to the command that started it, behind this line.
            (Some(text), _) if self.adopted.is_some() => self.complain(&text),
            (Some(text), _) => self.complain_behind(index, text),
            (None, _) => {}
        }
        // Behind the line that says why.
        if let Some(adopted) = self.adopted.take_if(|_| self.ender.is_some()) {
            let _ = rustix::io::write(&adopted, &[self.status]);
        }
    }

    /// Keeps and shows the library that ranks run on.
    fn handle_library(&mut self, index: usize, library: Library) {
        self.enrolment.iter_mut().for_each(|enrolment| enrolment.handle_library(library));
        if self.options.remarks.verbose {
            let node = self.links[index].node;
            let node = node.map_or_else(String::new, |node| format!(" on node {node}"));
            self.complain(&format!("ranks{node} run on {library}"));
        }
    }

    /// A node's ranks stand still, or do no longer.
    fn handle_stalled(&mut self, index: usize, stalled: Option<Stalled>) {
        let is_deadlock = stalled.as_ref().is_some_and(|stalled| stalled.deadlock.is_some());
        self.judge.iter_mut().for_each(|judge| judge.handle_stalled(index, stalled.clone()));
        let enrolment = self.enrolment.as_mut();
        let line = enrolment.and_then(|enrolment| enrolment.handle_stalled(index, stalled));
        line.iter().for_each(|text| self.complain(text));
        if is_deadlock {
            self.handle_deadlock();
        }
    }

    /// The job is stopped on a node; when it is on all, we stop as well, and continue with it.
    fn handle_suspended(&mut self, index: usize) {
        self.links[index].suspended = true;
        // A daemon that has resumed us since may have been faster than its own report: there would be no
        // second SIGCONT.
        let outrun = self.links[index].is_daemon()
            && self.continued.take().is_some_and(|when| when.elapsed() < OUTRUN);
        // The front end of a step is frozen with the job whose script has started it: if it stopped too, what
        // resumes that one would not reach it.
        let follows = !self.options.step || std::mem::take(&mut self.wants_stop);
        if outrun || !follows {
            self.links[index].suspended = false;
        } else if self.links.iter().all(|link| link.suspended || !link.is_alive()) {
            self.keys.iter_mut().for_each(Keys::give_back);
            self.enrolment.iter_mut().for_each(|enrolment| enrolment.send_report(&Report::Stopped));
            // Stops here, until SIGCONT, which is read behind this and resumes the job.
            tutti_os::raise_default(libc_signal(Signal::TSTP));
            self.keys.iter_mut().for_each(Keys::take);
            self.links.iter_mut().for_each(|link| link.suspended = false);
            self.enrolment.iter_mut().for_each(|enrolment| enrolment.send_report(&Report::Continued));
        }
    }

    /// As soon as it is known where all ranks are reached, all nodes get the addresses; then they start them.
    fn send_addresses(&mut self) {
        let known: Option<Vec<_>> = self.links.iter().map(|link| link.reached.as_ref()).collect();
        let Some(known) = known else { return };
        let json = serde_json::to_vec(&Reached::of_all(known)).expect("addresses are serialisable");
        self.put(Kind::Peers, 0, &json);
    }

    /// As soon as all ranks of all nodes are in a barrier of PMI, all nodes get its end, and what the others
    /// have put.
    fn send_fence(&mut self) {
        // One that a node has given up is replaced by that node's next one.
        let mut numbers = self.links.iter().map(|link| link.fence.as_ref().map(|(number, _)| *number));
        let Some(number) = numbers.next().flatten() else { return };
        if !numbers.all(|other| other == Some(number)) {
            return;
        }
        let puts: Vec<_> = self.links.iter_mut().filter_map(|link| Some(link.fence.take()?.1)).collect();
        let bytes: usize = puts.iter().map(Vec::len).sum();
        if bytes > PUTS_BYTES_MAX {
            let line = "what the ranks of all nodes have put over PMI or PMIx for one barrier";
            self.complain(&format!(
                "{line} takes {bytes} bytes, and {PUTS_BYTES_MAX} are the most; the job is ended"
            ));
            return self.kill(1);
        }
        self.put(Kind::Fence, number, &puts.concat());
    }

    /// One order of new ranks after the other goes to all nodes.
    fn send_spawn(&mut self) {
        if self.spawn.1 {
            return;
        }
        let next =
            self.links.iter_mut().enumerate().find_map(|(node, link)| Some((node, link.asks.pop_front()?)));
        let Some((node, (number, ask))) = next else { return };
        self.spawn = (self.spawn.0 + 1, true);
        let payload = [&(node as u32).to_le_bytes()[..], &number.to_le_bytes(), &ask].concat();
        self.put(Kind::Spawn, self.spawn.0, &payload);
    }

    /// As soon as all nodes have said how their ranks began, all are told.
    fn send_spawn_end(&mut self) {
        let (order, _) = self.spawn;
        let known: Option<Vec<&[u8]>> = self
            .links
            .iter()
            .map(|link| link.spawned.as_ref().filter(|(of, _)| *of == order).map(|(_, line)| &line[..]))
            .collect();
        let Some(lines) = known else { return };
        let lines = lines.concat();
        self.put(Kind::SpawnEnd, order, &lines);
        self.spawn.1 = false;
        self.send_spawn();
        self.send_leave();
    }

    /// No rank is left on any node, and none is asked for: the starters may go. One that has left gets no
    /// ranks any more.
    fn send_leave(&mut self) {
        let (order, is_open) = self.spawn;
        let is_over = |link: &Link| link.left || link.empty == Some(order) || !link.is_alive();
        if !is_open && self.links.iter().all(is_over) && !std::mem::replace(&mut self.may_leave, true) {
            self.put(Kind::Leave, 0, &[]);
        }
    }

    fn print_places(&self, index: usize, pids: &[u32], cores: &[String]) {
        let Link { first_rank, node, .. } = &self.links[index];
        let node = node.map_or_else(String::new, |node| format!(" on node {node}"));
        for (rank, (pid, cores)) in (*first_rank..).zip(pids.iter().zip(cores)) {
            let place = if cores.is_empty() { "not bound".into() } else { format!("bound to cores {cores}") };
            if self.options.remarks.verbose {
                self.complain(&format!("rank {rank} is pid {pid}{node}, {place}"));
            } else if self.options.report_bindings {
                self.complain(&format!("rank {rank} is{node} {place}"));
            }
        }
    }

    /// No daemon judges the job, and it runs.
    pub(super) fn may_judge(&self) -> bool {
        let is_suspended = self.links.iter().any(|link| link.suspended);
        !self.is_with_daemon() && self.end == End::Open && !is_suspended
    }

    fn is_with_daemon(&self) -> bool {
        self.enrolment.as_ref().is_some_and(|enrolment| enrolment.number.is_some())
    }

    /// Whether the ranks of virtual nodes wait for each other for ever, while no daemon looks.
    pub(super) fn judge_stall(&mut self) {
        let (may_judge, is_with_daemon) = (self.may_judge(), self.is_with_daemon());
        let Some(judge) = &mut self.judge else { return };
        let actions = match is_with_daemon {
            true => judge.give_up().into_iter().collect(),
            false => judge.handle_time(Instant::now(), may_judge),
        };
        for action in actions {
            match action {
                StallAction::Put(kind, payload) => self.put(kind, 0, &payload),
                StallAction::Print(text) => {
                    // A daemon may have said so before.
                    if self.enrolment.as_mut().is_none_or(|enrolment| enrolment.is_new(&text)) {
                        self.complain(&text);
                    }
                }
                StallAction::Deadlock => self.handle_deadlock(),
            }
        }
    }

    /// A daemon that is stopped does not report it.
    pub(super) fn watch_daemon(&mut self) {
        let Some(pid) = self.daemon.as_mut().and_then(|watch| watch.handle_time(Instant::now())) else {
            return;
        };
        self.complain(&format!(
            "the daemon (pid {pid}) is stopped: the job cannot be watched or controlled until kill -CONT {pid} resumes it"
        ));
    }

    /// Serves the daemon of this node, which gives turns to a job that it has not started.
    pub(super) fn take_turns(&mut self, ready: PollFlags) {
        let Some(enrolment) = &mut self.enrolment else { return };
        enrolment.handle_time(Instant::now());
        if ready.contains(PollFlags::OUT) {
            enrolment.handle_writable();
        }
        let read = ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
        let actions = if read { enrolment.handle_readable() } else { Vec::new() };
        // A user who names a daemon, or a folder for one, expects turns.
        let is_expected = paths::is_named() || std::env::var_os(paths::FOLDER_VARIABLE).is_some();
        let remarks = &self.options.remarks;
        let is_told = |refusal: &Refusal| {
            let is_of_the_job = refusal.reason == Some(Reason::WithoutTurns);
            remarks.verbose || is_of_the_job || is_expected && !remarks.quiet
        };
        let refusal = enrolment.refusal.take().filter(is_told);
        if let Some(Refusal { text, .. }) = refusal {
            self.complain(&format!("the job runs without turns: {text}"));
        }
        if let Some(text) = self.enrolment.as_mut().and_then(Enrolment::poll_news) {
            self.complain(&text);
        }
        for action in actions {
            match action {
                EnrolAction::Put(kind, number, payload) => self.put(kind, number, &payload),
                EnrolAction::Deadlock(text) => {
                    self.complain(&text);
                    self.handle_deadlock();
                }
                EnrolAction::Kill => self.kill(128 + libc_signal(Signal::KILL) as u8),
            }
        }
    }
}
