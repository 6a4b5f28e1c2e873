//! The life of the switch thread: what it hears, what it does, and what it waits for.

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
use tutti_os::{Rung, prefer_this_thread};
use tutti_sched::agent::{Agent, Output};
use tutti_sched::controller::Controller;
use tutti_sched::{Down, JobId, NodeId, Order, Part, Report, Scheduler, Stage};

use super::admission::{Admission, Verdict};
use super::brake::{Brake, Trouble};
use super::errands::Errands;
use super::lanes::{Heard, Lanes};
use super::post::{self, Orders, Served};
use super::turns::{Recorder, Turns};
use super::{Command, FreezeMethod, Said, Seat, Word, now_ns};

mod jobs;
mod tree;

use jobs::{Job, Rest, Slice, look_pause_ns};

/// Jobs on a node for which room is kept.
const JOBS: usize = 64;
/// Turns of the loop in [`BREATH`]; beyond it the thread rests for a tenth of it. It goes before everybody else, so it must not go
/// round and round, whatever is wrong: the machine would stand still.
const TURNS_MAX: u32 = 1000;
/// See [`TURNS_MAX`].
const BREATH: Duration = Duration::from_millis(10);
/// Descriptors that are polled: the bell, the socket, and cgroups that are being frozen. More of those are looked at by time.
const POLLED_MAX: usize = 2 + JOBS;
/// Words that found no room on their way to the main loop are tried again after so long.
const ROOM_NS: u64 = 1_000_000;
/// Between two words on who has had how many slices.
const SERVED_NS: u64 = 1_000_000_000;
/// A gang that has slept for so long gives up its slice: longer than a rank waits before it asks for a message that was lost.
const IDLE_NS: u64 = 20_000_000;

/// A node that knows who it is.
#[derive(Debug)]
struct Node {
    me: NodeId,
    agent: Agent,
    head: Option<Controller>,
    nodes: Vec<Seat>,
}

/// What joins the thread with the main loop and with its neighbours.
pub(super) struct Ends {
    /// See [`super::Switcher::is_wanted`].
    pub(super) wanted: Arc<AtomicBool>,
    pub(super) orders: Orders,
    pub(super) bell: OwnedFd,
    pub(super) say: Box<dyn Fn(Said) + Send>,
    pub(super) words: post::Sender,
    pub(super) served: Served,
    pub(super) lanes: Lanes,
    pub(super) turns: Turns,
}

pub(super) struct Life {
    wanted: Arc<AtomicBool>,
    orders: Orders,
    bell: OwnedFd,
    say: Box<dyn Fn(Said) + Send>,
    words: post::Sender,
    served: Served,
    served_ns: u64,
    lanes: Lanes,
    /// Words that have just come.
    heard: Vec<Heard>,
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
    errands: Errands,
    rest: Rest,
    stop: bool,
}

impl Life {
    /// On the head with the scheduler.
    pub(super) fn new(ends: Ends, slice_ns: u64, scheduler: Option<Scheduler>, errands: Errands) -> Self {
        Life {
            wanted: ends.wanted,
            orders: ends.orders,
            bell: ends.bell,
            say: ends.say,
            words: ends.words,
            served: ends.served,
            served_ns: 0,
            lanes: ends.lanes,
            heard: Vec::with_capacity(JOBS),
            scheduler,
            admission: Admission::default(),
            slice_ns,
            node: None,
            jobs: BTreeMap::new(),
            slice: Slice::default(),
            readable: true,
            recorder: Recorder::new(ends.turns),
            errands,
            rest: Rest::default(),
            stop: false,
        }
    }

    pub(super) fn live(&mut self, preferred: &Sender<Rung>) {
        let _ = preferred.send(prefer_this_thread());
        stay_in_memory();
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
            let mut heard = std::mem::take(&mut self.heard);
            if self.readable {
                self.lanes.read(now_ns, &mut |word| heard.push(word));
            }
            // Before the words: of what they speak the main loop has told us already.
            while let Some(command) = self.orders.take() {
                self.handle(now_ns, command);
            }
            heard.drain(..).for_each(|word| self.handle_contact(now_ns, word));
            self.heard = heard;
            // What rang for the end has been heard: nothing would end the wait.
            if self.stop {
                break;
            }
            self.look(now_ns);
            if let Some(node) = &mut self.node {
                node.agent.handle_time(now_ns);
            }
            self.turn(now_ns);
            self.flush();
            // Somebody may stand still already; if not, the kernel will tell of it.
            if self.confirm(now_ns, Brake::is_fresh) {
                self.turn(now_ns);
                self.flush();
            }
            self.slice.handle_time(now_ns);
            self.tell_slice();
            if let Some(text) = self.lanes.poll_news(now_ns) {
                (self.say)(Said::Line(text));
            }
            self.tell_of_jobs(now_ns);
            self.tell_of_trouble();
            self.wait();
        }
        self.jobs.values_mut().filter_map(|job| job.brake.as_mut()).for_each(|brake| {
            brake.thaw();
        });
    }

    /// A job whose cgroup the kernel does not freeze is held otherwise, or not at all.
    fn tell_of_trouble(&mut self) {
        let jobs = self.jobs.iter_mut();
        let jobs = jobs.filter_map(|(id, job)| Some((*id, job.brake.as_mut()?, &mut job.crowd)));
        for (job, brake, crowd) in jobs {
            if brake.is_crowd() && !std::mem::replace(crowd, true) {
                let text = "it has many processes, which are stopped one by one: it may be late at its turns";
                (self.say)(Said::Line(format!("job {job}: {text}")));
            }
            let Some(Trouble { error, by_signals }) = brake.take_trouble() else { continue };
            let what =
                if by_signals { "it is stopped by signals" } else { "it runs when it is not its turn" };
            (self.say)(Said::Held(
                job,
                if by_signals { FreezeMethod::Signals } else { FreezeMethod::Nothing },
            ));
            (self.say)(Said::Line(format!("job {job}: its cgroup cannot be frozen ({error}): {what}")));
        }
    }

    /// On the head, for whoever asks the main loop.
    fn tell_of_jobs(&mut self, now_ns: u64) {
        let Some(head) = self.node.as_ref().and_then(|node| node.head.as_ref()) else { return };
        self.wanted.store(head.scheduler().is_wanted(), Ordering::Relaxed);
        if now_ns >= self.served_ns + SERVED_NS {
            self.served_ns = now_ns;
            self.served.try_put(self.admission.served(head.scheduler()));
        }
    }

    fn handle(&mut self, now_ns: u64, command: Command) {
        match command {
            Command::Members { me, arity, nodes } => return self.handle_members(now_ns, me, arity, nodes),
            Command::Stop => return self.stop = true,
            Command::Job(job, nodes) => {
                self.jobs.entry(job).or_default().nodes = nodes;
                return self.settle(now_ns, job);
            }
            Command::Here(job, here) => {
                let entry = self.jobs.entry(job).or_default();
                entry.brake = Brake::of(&here, &self.errands);
                // The ranks of virtual nodes stay where they are.
                let group = if let [group] = &here.groups[..] { Some(Arc::clone(group)) } else { None };
                entry.bound = group.filter(|_| here.bound).map(|group| (Arc::from(here), group));
                let means = entry.brake.as_ref().map_or(FreezeMethod::Nothing, Brake::means);
                (self.say)(Said::Held(job, means));
                if means == FreezeMethod::Signals {
                    let text = format!("job {job} takes turns by signals: no cgroup can be made here");
                    (self.say)(Said::Line(text));
                }
                return self.settle(now_ns, job);
            }
            Command::Open(neighbour) => return self.lanes.open(now_ns, neighbour),
            Command::Close(link) => return self.lanes.close(link),
            Command::Word(link, number, word) => {
                let heard = self.lanes.take(link, number, &word);
                return heard.into_iter().for_each(|word| self.handle_contact(now_ns, word));
            }
            _ => {}
        }
        let Some(node) = &mut self.node else { return };
        match command {
            Command::Greet(child) => node.agent.handle_child(child),
            Command::Heard => node.agent.handle_contact(now_ns),
            Command::GoneHere(job) => {
                node.agent.handle_job_ended_here(now_ns, job);
                if let Some(job) = self.jobs.get_mut(&job) {
                    (job.brake, job.here) = (None, false);
                }
            }
            Command::Gone(job) => {
                node.agent.handle_job_ended(now_ns, job);
                if let Some(head) = &mut node.head {
                    head.handle_job_ended(now_ns, job);
                    self.admission.end(job);
                }
                self.jobs.remove(&job);
            }
            command => self.handle_as_head(now_ns, command),
        }
    }

    /// What only the head is told.
    fn handle_as_head(&mut self, now_ns: u64, command: Command) {
        let head = self.node.as_mut().and_then(|node| node.head.as_mut());
        let (Some(head), admission) = (head, &mut self.admission) else { return };
        match command {
            Command::Submit(job, demand, runs) => {
                admission.submit(now_ns, head.scheduler_mut(), job, &demand, runs);
            }
            Command::Begin(job) => admission.begin(now_ns, head.scheduler_mut(), job),
            Command::Over(job) => {
                head.handle_job_ended(now_ns, job);
                admission.end(job);
            }
            Command::Suspend(job, true) => head.suspend(now_ns, job),
            Command::Suspend(job, false) => head.resume(now_ns, job),
            Command::Share(window) => head.scheduler_mut().set_window(now_ns, window),
            _ => {}
        }
    }

    fn handle_contact(&mut self, now_ns: u64, heard: Heard) {
        match heard {
            Heard::Down(Word::Slots(job, parts)) => self.handle_slots(now_ns, job, parts),
            Heard::Down(Word::Sched(down)) => self.handle_down(now_ns, down),
            Heard::Up(child, report) => {
                if let Some(node) = &mut self.node {
                    node.agent.handle_report(now_ns, child, report);
                }
            }
        }
    }

    fn handle_down(&mut self, now_ns: u64, down: Down) {
        self.note(&down);
        if let Down::Order(Order::Suspend(job, _)) = &down
            && let Some(brake) = self.jobs.get_mut(job).and_then(|job| job.brake.as_mut())
        {
            if brake.dozes() {
                brake.freeze_blocking(now_ns);
            } else if brake.is_trusted() && brake.is_freezing() {
                brake.hurry(now_ns);
            }
        }
        if let Some(node) = &mut self.node {
            node.agent.handle_down(now_ns, down);
        }
    }

    fn say_down(&mut self, child: NodeId, word: &Word) {
        let (words, now_ns) = (&mut self.words, now_ns());
        // Behind these comes the next switch, at the end of the slice.
        let calm_ns = match word {
            Word::Sched(Down::Order(Order::Switch(switch))) => switch.left_ns,
            Word::Sched(Down::Order(Order::Run(..))) => self.slice.end_ns.saturating_sub(now_ns),
            _ => 0,
        };
        self.lanes.say_down(now_ns, child, word, calm_ns, &mut |link, number, word| {
            words.put(link, number, word);
        });
    }

    fn say_up(&mut self, report: &Report) {
        let (words, now_ns) = (&mut self.words, now_ns());
        // The next switch says that it has come, and brings the next one. Strict, somebody waits for it now.
        let is_strict = self.node.as_ref().is_some_and(|node| node.agent.switch().is_strict());
        let calm_ns = match report {
            Report::Reached { stage: Stage::Frozen, .. } if !is_strict => {
                self.slice.end_ns.saturating_sub(now_ns)
            }
            _ => 0,
        };
        self.lanes.say_up(now_ns, report, calm_ns, &mut |link, number, word| words.put(link, number, word));
    }

    fn flush(&mut self) {
        let words = &mut self.words;
        self.lanes.flush(now_ns(), &mut |link, number, word| words.put(link, number, word));
    }

    /// Jobs that have their place are launched, or begin; the main loop hears who waits.
    fn serve(&mut self, now_ns: u64) {
        while let Some(node) = &mut self.node
            && let Some(head) = &mut node.head
            && let Some(verdict) = self.admission.poll(now_ns, head.scheduler_mut())
        {
            match verdict {
                Verdict::Say(said) => (self.say)(said),
                Verdict::Begin(job, parts) => {
                    if self.admission.is_found(job) {
                        head.handle_found(job);
                    }
                    self.handle_slots(now_ns, job, parts);
                }
            }
        }
    }

    fn handle_slots(&mut self, now_ns: u64, job: JobId, parts: Vec<Part>) {
        let children = self.node.as_ref().map(|node| node.agent.tree().children(node.me)).unwrap_or_default();
        let word = Word::Slots(job, parts);
        children.into_iter().for_each(|child| self.say_down(child, &word));
        let Word::Slots(job, parts) = word else { unreachable!("it was just made") };
        self.jobs.entry(job).or_default().parts = parts;
        self.settle(now_ns, job);
    }

    fn note(&mut self, down: &Down) {
        let Down::Order(Order::Switch(switch)) = down else { return };
        let now_ns = now_ns();
        self.recorder.begin(switch.generation, now_ns);
        if switch.generation > self.slice.generation {
            let end_ns = if switch.left_ns == 0 { 0 } else { now_ns.saturating_add(switch.left_ns) };
            self.slice = Slice { generation: switch.generation, end_ns, is_new: true };
        }
    }

    /// Until nothing is left to be done now. What the node has decided is done before the head decides anew: a job would be thawed in
    /// a switch that is not its own.
    fn turn(&mut self, now_ns: u64) {
        loop {
            self.serve(now_ns);
            let Some(node) = &mut self.node else { return };
            if let Some(output) = node.agent.poll_output() {
                self.perform(now_ns, output);
                continue;
            }
            let Some(head) = &mut node.head else { return };
            let Some(down) = head.poll_down(now_ns) else {
                while let Some(notice) = head.poll_notice(now_ns) {
                    (self.say)(Said::Notice(notice));
                }
                if let Some(lags) = head.poll_lags() {
                    (self.say)(Said::Lags(lags));
                }
                return;
            };
            self.handle_down(now_ns, down);
        }
    }

    fn perform(&mut self, now_ns: u64, output: Output) {
        let Some(node) = &mut self.node else { return };
        match output {
            Output::Welcome(child) => self.say_slots(child),
            Output::Child(child, down) => self.say_down(child, &Word::Sched(down)),
            Output::Parent(report) => match &mut node.head {
                Some(head) => {
                    self.recorder.reached(&report);
                    head.handle_report(now_ns, report);
                }
                None => self.say_up(&report),
            },
            // What is to be said is said before anything that takes time.
            Output::Do(action) => {
                self.flush();
                self.act(&action);
            }
        }
    }

    fn wait(&mut self) {
        let now_ns = now_ns();
        let bell = (self.bell.as_fd(), PollFlags::IN);
        // What those below say leads to nothing before this node's own part stands still; those above wait for it too.
        let brakes = self.jobs.values().filter_map(|job| job.brake.as_ref());
        let awaited = brakes.filter_map(|brake| brake.awaited_until_ns(now_ns)).min();
        let holds_back = awaited.filter(|_| self.lanes.are_several());
        let socket = self.lanes.socket(now_ns).filter(|_| holds_back.is_none()).map(|fd| (fd, PollFlags::IN));
        let has_socket = socket.is_some();
        let freezing =
            self.jobs.values().filter_map(|job| job.brake.as_ref()).filter(|brake| brake.is_freezing());
        let mut wake_ns = freezing.clone().map(|brake| brake.look_ns()).min();
        let events = freezing.flat_map(Brake::events).map(|events| (events, PollFlags::PRI));
        let mut polled: [_; POLLED_MAX] =
            std::array::from_fn(|_| PollFd::from_borrowed_fd(bell.0, PollFlags::empty()));
        let mut count = 0;
        for ((fd, flags), place) in [bell].into_iter().chain(socket).chain(events).zip(&mut polled) {
            *place = PollFd::from_borrowed_fd(fd, flags);
            count += 1;
        }
        if let Some(node) = &self.node {
            let head = node.head.as_ref().and_then(Controller::poll_timeout);
            let look = look_pause_ns(&self.jobs, node).and_then(|pause_ns| {
                let looked_at = self.jobs.iter().filter(|(id, job)| {
                    job.here
                        && (node.agent.switch().is_thawed(**id)
                            || job.brake.as_ref().is_some_and(Brake::dozes))
                });
                let next = looked_at.map(|(_, job)| job.look_ns(pause_ns)).min();
                next.map(|look_ns| self.rest.put_off(look_ns))
            });
            wake_ns = [wake_ns, head, node.agent.poll_timeout(), look].into_iter().flatten().min();
        }
        let kept = (!self.words.try_put_kept()).then_some(now_ns + ROOM_NS);
        let others = [self.lanes.timeout_ns(now_ns), kept, self.slice.overdue_ns(), holds_back];
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

/// The thread waits for no page. Only where there is no limit: under one, what other threads ask for later would be refused.
fn stay_in_memory() {
    let may = |sets: CapabilitySets| sets.effective.contains(CapabilitySet::IPC_LOCK);
    if capabilities(None).is_ok_and(may) || getrlimit(Resource::Memlock).current.is_none() {
        // Pages come as they are touched, and stay.
        let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
    }
}
