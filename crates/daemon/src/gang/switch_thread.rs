//! The incarnation of the switch thread: what it hears, what it does, and what it waits for.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities};
use tutti_os::{PriorityClass, prefer_this_thread};
use tutti_sched::agent::{Agent, Output};
use tutti_sched::controller::Controller;
use tutti_sched::{Down, JobId, NodeId, Order, Part, Report, Scheduler, Stage, Version};
use tutti_shm::board::JobLines;

use super::admission::{Admission, Verdict, reservations};
use super::calls::Refused;
use super::clock::now_ns;
use super::command::{Command, NodeResources, SwitchEvent};
use super::freeze_mechanism::FreezeFailure;
use super::job_freezer::JobFreezer;
use super::mailbox::{self, CommandReceiver, Served};
use super::phases::{Hold, Phases};
use super::switch_links::{Received, SwitchLinks, SwitchMessage};
use super::turns::{Recorder, Turns};
use super::wishes::Wish;
use super::worker::Worker;
use tutti_protocol::turns::TurnKind;
use tutti_protocol::users::FreezeMethod;

mod contexts;
mod jobs;
mod lending;
mod tree;

use jobs::{Job, PollPause, Slice, poll_interval_ns};

/// Jobs on a node for which room is kept.
const JOBS: usize = 64;
/// Turns of the loop in [`BREATH`]; beyond it the thread rests for a tenth of it. It goes before everybody
/// else, so it must not go round and round, whatever is wrong: the machine would stand still.
const TURNS_MAX: u32 = 1000;
/// See [`TURNS_MAX`].
const BREATH: Duration = Duration::from_millis(10);
/// Descriptors that are polled: the bell, the socket, and cgroups that are being frozen. More of those are
/// looked at by time.
const POLLED_MAX: usize = 2 + 2 * JOBS;
/// Words that found no room on their way to the main loop are tried again after so long.
const ROOM_NS: u64 = 1_000_000;
/// Between two words on who has had how many slices.
const SERVED_NS: u64 = 1_000_000_000;
/// A gang that has slept for so long gives up its slice: longer than a rank waits before it asks for a
/// message that was lost.
const IDLE_NS: u64 = 20_000_000;

/// A node that knows who it is.
#[derive(Debug)]
struct Node {
    me: NodeId,
    agent: Agent,
    controller: Option<Controller>,
    nodes: Vec<NodeResources>,
}

/// Connections of the thread with the main loop and with its neighbours.
pub(super) struct Endpoints {
    /// See [`super::Switcher::is_wanted`].
    pub(super) wanted: Arc<AtomicBool>,
    pub(super) commands: CommandReceiver,
    pub(super) bell: OwnedFd,
    pub(super) emit: Box<dyn Fn(SwitchEvent) + Send>,
    pub(super) outbox: mailbox::OutboxSender,
    pub(super) served: Served,
    pub(super) switch_links: SwitchLinks,
    pub(super) turns: Turns,
    /// The jobs on the board of the node, if it has one.
    pub(super) board: Option<JobLines>,
}

pub(super) struct SwitchThread {
    wanted: Arc<AtomicBool>,
    commands: CommandReceiver,
    bell: OwnedFd,
    emit: Box<dyn Fn(SwitchEvent) + Send>,
    outbox: mailbox::OutboxSender,
    served: Served,
    served_ns: u64,
    /// The version of the rows as of then.
    served_in: Option<Version>,
    switch_links: SwitchLinks,
    /// Words that have just come.
    received: Vec<Received>,
    /// The scheduler, until the node knows who it is.
    scheduler: Option<Scheduler>,
    admission: Admission,
    slice_ns: u64,
    node: Option<Node>,
    jobs: BTreeMap<JobId, Job>,
    slice: Slice,
    /// Datagrams may have come.
    readable: bool,
    recorder: Recorder,
    board: Option<JobLines>,
    phases: Phases,
    /// Processes that are heard, and whether the agent knows that they wait.
    wishes: Vec<(Wish, bool)>,
    worker: Worker,
    poll_pause: PollPause,
    refused: Refused,
    stop: bool,
}

impl SwitchThread {
    /// On the controller with the scheduler.
    pub(super) fn new(
        endpoints: Endpoints,
        slice_ns: u64,
        scheduler: Option<Scheduler>,
        worker: Worker,
    ) -> Self {
        SwitchThread {
            wanted: endpoints.wanted,
            commands: endpoints.commands,
            bell: endpoints.bell,
            emit: endpoints.emit,
            outbox: endpoints.outbox,
            served: endpoints.served,
            served_ns: 0,
            served_in: None,
            switch_links: endpoints.switch_links,
            received: Vec::with_capacity(JOBS),
            scheduler,
            admission: Admission::default(),
            slice_ns,
            node: None,
            jobs: BTreeMap::new(),
            slice: Slice::default(),
            readable: true,
            recorder: Recorder::new(endpoints.turns),
            board: endpoints.board,
            phases: Phases::default(),
            wishes: Vec::new(),
            worker,
            poll_pause: PollPause::default(),
            refused: Refused::default(),
            stop: false,
        }
    }

    pub(super) fn run(&mut self, preferred: &Sender<PriorityClass>) {
        let _ = preferred.send(prefer_this_thread());
        stay_in_memory();
        if let Some(text) = Refused::restrict_this_thread() {
            (self.emit)(SwitchEvent::LogLine(text));
        }
        let (mut turns, mut since) = (0, std::time::Instant::now());
        loop {
            turns += 1;
            if turns >= TURNS_MAX {
                if since.elapsed() < BREATH {
                    std::thread::sleep(BREATH / 10);
                }
                (turns, since) = (0, std::time::Instant::now());
            }
            let now_ns = now_ns();
            let mut received = std::mem::take(&mut self.received);
            if self.readable {
                self.switch_links.read(now_ns, &mut |message| received.push(message));
            }
            // Before the words: of what they speak the main loop has told us already.
            while let Some(command) = self.commands.take() {
                self.handle(now_ns, command);
            }
            received.drain(..).for_each(|message| self.handle_contact(now_ns, message));
            self.received = received;
            // What rang for the end has been heard: nothing would end the wait.
            if self.stop {
                break;
            }
            self.hear_wishes(now_ns);
            self.check(now_ns);
            if let Some(node) = &mut self.node {
                node.agent.handle_time(now_ns);
            }
            self.turn(now_ns);
            self.flush();
            // Somebody may stand still already; if not, the kernel will tell of it.
            if self.confirm(now_ns, JobFreezer::is_unchecked) {
                self.turn(now_ns);
                self.flush();
            }
            self.slice.handle_time(now_ns);
            self.publish_slice();
            self.share_slots();
            let refused = self.refused.poll_log_line();
            if let Some(text) = refused.or_else(|| self.switch_links.poll_log_line(now_ns)) {
                (self.emit)(SwitchEvent::LogLine(text));
            }
            self.publish_served(now_ns);
            self.report_failures();
            self.report_file_locks();
            self.wait();
        }
        self.jobs.values_mut().filter_map(|job| job.freezer.as_mut()).for_each(|freezer| {
            freezer.thaw();
        });
    }

    /// A job whose cgroup the kernel does not freeze is held otherwise, or not at all.
    fn report_failures(&mut self) {
        let jobs = self.jobs.iter_mut();
        let jobs = jobs.filter_map(|(id, job)| Some((*id, job.user, job.freezer.as_mut()?, &mut job.crowd)));
        for (job, user, freezer, crowd) in jobs {
            if freezer.is_crowd() && !std::mem::replace(crowd, true) {
                let text = "it has many processes, which are stopped one by one: it may be late at its turns";
                (self.emit)(SwitchEvent::UserLine(user, format!("job {job}: {text}")));
            }
            let Some(FreezeFailure { error, by_signals }) = freezer.take_failure() else { continue };
            let what = if by_signals { "it is stopped by signals" } else { "it also runs outside its turns" };
            (self.emit)(SwitchEvent::Method(
                job,
                if by_signals { FreezeMethod::Signals } else { FreezeMethod::Nothing },
            ));
            (self.emit)(SwitchEvent::UserLine(
                user,
                format!("job {job}: its cgroup cannot be frozen ({error}): {what}"),
            ));
        }
    }

    /// Jobs that were not frozen at once since a rank had a lock of a file, and those that were with one.
    fn report_file_locks(&mut self) {
        for (id, job) in &mut self.jobs {
            let Some(wait) = job.freezer.as_mut().and_then(JobFreezer::take_lock_wait) else { continue };
            let kind = if wait.is_kept { TurnKind::Locked } else { TurnKind::Unlock };
            self.recorder.put(kind, *id, wait.from_ns, wait.to_ns);
            if wait.is_kept && !std::mem::replace(&mut job.kept_lock, true) {
                let text = "who wants the same range waits for its next turn";
                (self.emit)(SwitchEvent::UserLine(
                    job.user,
                    format!("job {id} is frozen while a rank accesses a file that it has locked: {text}"),
                ));
            }
        }
    }

    /// Jobs that share parallel slots get them, and are held where they do not give them back.
    fn share_slots(&mut self) {
        self.phases.handle_time(now_ns());
        while let Some(Hold { job, held }) = self.phases.poll_hold() {
            let now_ns = now_ns();
            let user = self.jobs.get(&job).map_or(0, |job| job.user);
            let freezer = self.jobs.get_mut(&job).and_then(|job| job.freezer.as_mut());
            let is_held = freezer.is_some_and(|freezer| freezer.hold(now_ns, held));
            if held && self.phases.has_overstayed_first(job) {
                let then = if is_held { "is held" } else { "cannot be held without a cgroup" };
                (self.emit)(SwitchEvent::UserLine(
                    user,
                    format!("job {job} keeps the parallel slots that others want: it {then} in their turns"),
                ));
            }
        }
    }

    /// On the controller, for whoever asks the main loop.
    fn publish_served(&mut self, now_ns: u64) {
        let Some(controller) = self.node.as_ref().and_then(|node| node.controller.as_ref()) else { return };
        self.wanted.store(controller.scheduler().is_wanted(), Ordering::Relaxed);
        let scheduler = controller.scheduler();
        // With one job the thread may sleep on for hours after it has begun.
        let version = Some(scheduler.version());
        if now_ns >= self.served_ns + SERVED_NS || self.served_in != version {
            self.served_ns = now_ns;
            let is_put = self.served.try_put(self.admission.served(scheduler), scheduler);
            self.served_in = version.filter(|_| is_put);
        }
    }

    fn handle(&mut self, now_ns: u64, command: Command) {
        match command {
            Command::Members { me, arity, nodes } => return self.handle_members(now_ns, me, arity, nodes),
            Command::Stop => return self.stop = true,
            Command::Job(job, nodes) => {
                self.jobs.entry(job).or_default().nodes = nodes;
                return self.announce_job(now_ns, job);
            }
            Command::RanksStarted(job, is_here) => {
                let entry = self.jobs.entry(job).or_default();
                let user = is_here.account;
                entry.user = user;
                self.phases.leave(now_ns, job);
                // A line that it has already is free before it takes another.
                entry.freezer = None;
                entry.freezer = JobFreezer::of(&is_here, &self.worker);
                if let (Some(freezer), Some(board)) = (&mut entry.freezer, &mut self.board) {
                    freezer.show(board.begin(job.0, is_here.pids.len() as u64, now_ns));
                }
                // The ranks of virtual nodes stay where they are.
                let group = if let [group] = &is_here.groups[..] { Some(Arc::clone(group)) } else { None };
                entry.bound = group.filter(|_| is_here.bound).map(|group| (Arc::from(is_here), group));
                let method = entry.freezer.as_ref().map_or(FreezeMethod::Nothing, JobFreezer::method);
                (self.emit)(SwitchEvent::Method(job, method));
                self.end_filling(now_ns);
                if let Some(text) = self.why_not_fill(job) {
                    (self.emit)(SwitchEvent::UserLine(user, text));
                }
                if method == FreezeMethod::Signals {
                    let text = format!("job {job} takes turns by signals: no cgroup can be made here");
                    (self.emit)(SwitchEvent::UserLine(user, text));
                }
                return self.announce_job(now_ns, job);
            }
            Command::PartEnded(job) => return self.end_part(now_ns, job),
            Command::JobForgotten(job) => return self.forget_job(now_ns, job),
            Command::ContextDone(job, done) => return self.handle_context_done(now_ns, job, done),
            Command::Pages(job, pages) => return self.handle_pages(now_ns, job, &pages),
            Command::Wish(wish) => return self.wishes.push((wish, false)),
            Command::MayFill(job, may_fill) => return self.handle_may_fill(now_ns, job, may_fill),
            Command::OpenLink(neighbour) => return self.switch_links.open(now_ns, neighbour),
            Command::CloseLink(link) => return self.switch_links.close(link),
            Command::Message(link, number, message) => {
                let received = self.switch_links.take(link, number, &message);
                return received.into_iter().for_each(|message| self.handle_contact(now_ns, message));
            }
            _ => {}
        }
        let Some(node) = &mut self.node else { return };
        match command {
            Command::ChildJoined(child) => node.agent.handle_child(child),
            Command::ParentAlive => node.agent.handle_contact(now_ns),
            command => self.handle_as_controller(now_ns, command),
        }
    }

    /// The ranks of a job here have ended. A daemon that has just taken over may hear so before it knows
    /// which node it is.
    fn end_part(&mut self, now_ns: u64, job: JobId) {
        lending::forget(&mut self.wishes, job);
        self.phases.leave(now_ns, job);
        if let Some(node) = &mut self.node {
            node.agent.handle_job_ended_here(now_ns, job);
        }
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        (entry.freezer, entry.bound, entry.is_here) = (None, None, false);
        // Nobody but its ranks has named it, and nobody is to say that it is forgotten.
        if entry.nodes.is_empty() {
            self.jobs.remove(&job);
        }
    }

    /// A job is over on all nodes.
    fn forget_job(&mut self, now_ns: u64, job: JobId) {
        lending::forget(&mut self.wishes, job);
        if let Some(node) = &mut self.node {
            node.agent.handle_job_ended(now_ns, job);
            if let Some(controller) = &mut node.controller {
                controller.handle_job_ended(now_ns, job);
                self.admission.end(job);
            }
        }
        self.phases.leave(now_ns, job);
        self.jobs.remove(&job);
    }

    /// Handles a command that only the controller is given.
    fn handle_as_controller(&mut self, now_ns: u64, command: Command) {
        let controller = self.node.as_mut().and_then(|node| node.controller.as_mut());
        let (Some(controller), admission) = (controller, &mut self.admission) else { return };
        match command {
            Command::Submit(job, demand, runs) => {
                admission.submit(now_ns, controller.scheduler_mut(), job, &demand, runs);
            }
            Command::Drain(nodes) => {
                controller.scheduler_mut().drain(now_ns, &nodes);
                admission.nodes_changed();
            }
            Command::Reserve(all) => {
                let all = reservations(now_ns, all);
                controller.scheduler_mut().reserve(now_ns, all);
                admission.nodes_changed();
            }
            Command::Lasts(job, lasts_ns) => {
                controller.scheduler_mut().set_lasts(now_ns, job, lasts_ns);
                admission.nodes_changed();
            }
            Command::JobStarted(job) => admission.begin(now_ns, controller.scheduler_mut(), job),
            Command::JobOver(job) => {
                controller.handle_job_ended(now_ns, job);
                admission.end(job);
            }
            Command::Withdraw(job) => {
                controller.handle_job_ended(now_ns, job);
                admission.withdraw(now_ns, controller.scheduler_mut(), job);
            }
            Command::Weight(job, weight) => {
                // One out of range was refused before.
                let _ = controller.scheduler_mut().set_weight(now_ns, job, weight);
            }
            Command::Suspend(job, true) => controller.suspend(now_ns, job),
            Command::Suspend(job, false) => controller.resume(now_ns, job),
            Command::Connected(one, other, connected) => {
                controller.scheduler_mut().set_connected(now_ns, one, other, connected);
            }
            Command::Configure { slice_ns, half_life_ns } => {
                controller.scheduler_mut().set_slice(now_ns, slice_ns);
                controller.scheduler_mut().set_half_life(half_life_ns);
            }
            Command::RestoreUse(used, age_ns) => {
                controller.scheduler_mut().restore_use(now_ns, &used, age_ns);
            }
            Command::Use(node, found) => controller.scheduler_mut().handle_use(now_ns, node, &found),
            Command::Owner(job, owner) => controller.scheduler_mut().set_owner(job, owner),
            Command::Share(window) => controller.scheduler_mut().set_window(now_ns, window),
            _ => {}
        }
    }

    fn handle_contact(&mut self, now_ns: u64, received: Received) {
        match received {
            Received::Down(SwitchMessage::Slots(job, parts)) => self.handle_slots(now_ns, job, parts),
            Received::Down(SwitchMessage::Sched(down)) => self.handle_down(now_ns, down),
            Received::Up(child, report) => {
                if let Some(node) = &mut self.node {
                    node.agent.handle_report(now_ns, child, report);
                }
            }
        }
    }

    fn handle_down(&mut self, now_ns: u64, down: Down) {
        self.record_switch(&down);
        if let Down::Order(Order::Suspend(job, _)) = &down
            && let Some(freezer) = self.jobs.get_mut(job).and_then(|job| job.freezer.as_mut())
        {
            if freezer.is_exempt() {
                freezer.freeze_blocking(now_ns);
            } else if freezer.is_assumed() && freezer.is_freezing() {
                freezer.expedite(now_ns);
            }
        }
        if let Some(node) = &mut self.node {
            node.agent.handle_down(now_ns, down);
        }
    }

    fn send_down(&mut self, child: NodeId, message: &SwitchMessage) {
        let (outbox, now_ns) = (&mut self.outbox, now_ns());
        // Behind these comes the next switch, at the end of the slice.
        let ack_delay_ns = match message {
            SwitchMessage::Sched(Down::Order(Order::Switch(switch))) => switch.left_ns,
            SwitchMessage::Sched(Down::Order(Order::Run(..))) => self.slice.end_ns.saturating_sub(now_ns),
            _ => 0,
        };
        self.switch_links.send_down(now_ns, child, message, ack_delay_ns, &mut |link, number, message| {
            outbox.put(link, number, message);
        });
    }

    fn send_up(&mut self, report: &Report) {
        let (outbox, now_ns) = (&mut self.outbox, now_ns());
        // The next switch says that it has come, and brings the next one. Strict, somebody waits for it now.
        let is_strict = self.node.as_ref().is_some_and(|node| node.agent.switch().is_strict());
        let ack_delay_ns = match report {
            Report::Reached { stage: Stage::Frozen, .. } if !is_strict => {
                self.slice.end_ns.saturating_sub(now_ns)
            }
            _ => 0,
        };
        self.switch_links.send_up(now_ns, report, ack_delay_ns, &mut |link, number, message| {
            outbox.put(link, number, message)
        });
    }

    fn flush(&mut self) {
        let outbox = &mut self.outbox;
        self.switch_links.flush(now_ns(), &mut |link, number, message| outbox.put(link, number, message));
    }

    /// Jobs that have their place are launched, or begin; the main loop hears who waits.
    fn admit(&mut self, now_ns: u64) {
        while let Some(node) = &mut self.node
            && let Some(controller) = &mut node.controller
            && let Some(verdict) = self.admission.poll(now_ns, controller.scheduler_mut())
        {
            match verdict {
                Verdict::Emit(said) => (self.emit)(said),
                Verdict::Begin(job, parts) => {
                    if self.admission.is_found(job) {
                        controller.handle_found(job);
                    }
                    self.handle_slots(now_ns, job, parts);
                }
            }
        }
    }

    fn handle_slots(&mut self, now_ns: u64, job: JobId, parts: Vec<Part>) {
        let children = self.node.as_ref().map(|node| node.agent.tree().children(node.me)).unwrap_or_default();
        let message = SwitchMessage::Slots(job, parts);
        children.into_iter().for_each(|child| self.send_down(child, &message));
        let SwitchMessage::Slots(job, parts) = message else { unreachable!("it was just made") };
        self.jobs.entry(job).or_default().parts = parts;
        self.announce_job(now_ns, job);
    }

    fn record_switch(&mut self, down: &Down) {
        let Down::Order(Order::Switch(switch)) = down else { return };
        let now_ns = now_ns();
        self.recorder.begin(switch.generation, now_ns);
        if switch.generation > self.slice.generation {
            let end_ns = if switch.left_ns == 0 { 0 } else { now_ns.saturating_add(switch.left_ns) };
            self.slice = Slice { generation: switch.generation, end_ns, is_new: true };
        }
    }

    /// Until nothing is left to be done now. What the node has decided is done before the controller decides
    /// anew: a job would be thawed in a switch that is not its own.
    fn turn(&mut self, now_ns: u64) {
        loop {
            self.admit(now_ns);
            let Some(node) = &mut self.node else { return };
            if let Some(output) = node.agent.poll_output() {
                self.handle_output(now_ns, output);
                continue;
            }
            let Some(controller) = &mut node.controller else { return };
            let Some(down) = controller.poll_down(now_ns) else {
                while let Some(notice) = controller.poll_notice(now_ns) {
                    (self.emit)(SwitchEvent::Notice(notice));
                }
                if let Some(lags) = controller.poll_lags() {
                    (self.emit)(SwitchEvent::Lags(lags));
                }
                return;
            };
            self.handle_down(now_ns, down);
        }
    }

    fn handle_output(&mut self, now_ns: u64, output: Output) {
        let Some(node) = &mut self.node else { return };
        match output {
            Output::Welcome(child) => self.send_slots(child),
            Output::Child(child, down) => self.send_down(child, &SwitchMessage::Sched(down)),
            Output::Parent(report) => match &mut node.controller {
                Some(controller) => {
                    self.recorder.reached(&report);
                    controller.handle_report(now_ns, report);
                }
                None => self.send_up(&report),
            },
            // What is to be said is said before anything that takes time.
            Output::Do(action) => {
                self.flush();
                self.execute(&action);
            }
        }
    }

    fn wait(&mut self) {
        let now_ns = now_ns();
        let bell = (self.bell.as_fd(), PollFlags::IN);
        // What those below say leads to nothing before this node's own part stands still; those above wait
        // for it too.
        let freezers = self.jobs.values().filter_map(|job| job.freezer.as_ref());
        let awaited = freezers.filter_map(|freezer| freezer.awaited_until_ns(now_ns)).min();
        let holds_back = awaited.filter(|_| self.switch_links.has_several());
        let socket =
            self.switch_links.socket(now_ns).filter(|_| holds_back.is_none()).map(|fd| (fd, PollFlags::IN));
        let has_socket = socket.is_some();
        let freezing =
            self.jobs.values().filter_map(|job| job.freezer.as_ref()).filter(|freezer| freezer.is_freezing());
        let mut wake_ns = freezing.clone().map(|freezer| freezer.poll_ns()).min();
        let events = freezing.flat_map(JobFreezer::events).map(|events| (events, PollFlags::PRI));
        let mut polled: [_; POLLED_MAX] =
            std::array::from_fn(|_| PollFd::from_borrowed_fd(bell.0, PollFlags::empty()));
        let mut count = 0;
        for ((fd, flags), place) in [bell].into_iter().chain(socket).chain(events).zip(&mut polled) {
            *place = PollFd::from_borrowed_fd(fd, flags);
            count += 1;
        }
        if let Some(node) = &self.node {
            let controller = node.controller.as_ref().and_then(Controller::poll_timeout);
            let check = poll_interval_ns(&self.jobs, node).and_then(|pause_ns| {
                let polled = self.jobs.iter().filter(|(id, job)| {
                    job.is_here
                        && (node.agent.switch().is_thawed(**id)
                            || job.freezer.as_ref().is_some_and(JobFreezer::is_exempt))
                });
                let next = polled.map(|(_, job)| job.poll_ns(pause_ns)).min();
                next.map(|poll_ns| self.poll_pause.put_off(poll_ns))
            });
            wake_ns = [wake_ns, controller, node.agent.poll_timeout(), check].into_iter().flatten().min();
        }
        let overflow = (!self.outbox.try_put_overflow()).then_some(now_ns + ROOM_NS);
        let links = self.switch_links.timeout_ns(now_ns);
        let others = [links, overflow, self.slice.overdue_ns(), holds_back, self.phases.timeout_ns()];
        wake_ns = others.into_iter().chain([wake_ns]).flatten().min();
        let timeout = wake_ns.map(|wake_ns| {
            let left = Duration::from_nanos(wake_ns.saturating_sub(now_ns));
            Timespec::try_from(left).expect("less than a century")
        });
        let _ = poll(&mut polled[..count], timeout.as_ref());
        let is_ready = |at: usize| !polled[at].revents().is_empty();
        self.readable = if has_socket { is_ready(1) } else { holds_back.is_some() };
        if is_ready(0) {
            let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        }
    }
}

/// The thread waits for no page. Only where there is no limit: under one, what other threads ask for later
/// would be refused.
fn stay_in_memory() {
    let may = |sets: CapabilitySets| sets.effective.contains(CapabilitySet::IPC_LOCK);
    if capabilities(None).is_ok_and(may) || getrlimit(Resource::Memlock).current.is_none() {
        // Pages come as they are touched, and stay.
        let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
    }
}
