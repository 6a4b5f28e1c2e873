//! Machines, links and time: does what the Cores want, and what the run wants done to them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use tutti_shm::published::Status;
use tutti_shm::published::far::{Given, Wanted};
use tutti_testkit::Random;

use super::recorded::Recorded;
use super::scheduling::Scheduling;
use super::starter::Fate;
use super::users::Client;
use crate::core::Core;
use crate::core::action::Action;
use crate::core::clocks::Clocks;
use crate::core::config::TICK_MS;
use crate::core::event::Event;
use crate::ids::{ClientId, LinkId};
use crate::members::NodeId;
use crate::message::{JobId, Launch, Message, RegionPlace};

mod check;
mod files;
mod machines;
mod network;
mod workload;

pub(super) use machines::KEEP_MS;
use machines::Machine;
use network::End;

/// A disk takes so long for a file, at most.
const DISK_MS: u64 = 20;

/// Step that is going to happen.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a simulator")]
enum Next {
    Tick(usize, u64),
    /// For a Core in this incarnation; with a link only if that is still there.
    Core(usize, u64, Option<LinkId>, Event),
    Starter(usize, JobId),
    /// The disk of the controller has the next file of a job that waits.
    Files(usize, u64),
    /// The same disk has the list of reservations.
    Reservations(usize, u64),
    Takes(usize),
    /// A writer of output files does something.
    Writer(usize, u64, JobId),
    Start(usize),
    Reattach(usize, JobId),
    Nothing,
}

pub(super) struct World {
    pub now_ms: u64,
    pub events: u64,
    random: Random,
    arity: u32,
    machines: Vec<Machine>,
    ends: BTreeMap<LinkId, End>,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    nexts: BTreeMap<u64, Next>,
    clients: Vec<Client>,
    numbers: u64,
    last_job: u64,
    /// Launches that were carried out, and where.
    started: BTreeMap<(JobId, usize), u32>,
    launches: BTreeMap<JobId, Launch>,
    /// By question: submitted jobs.
    submitted: BTreeMap<(NodeId, u64), JobId>,
    fates: BTreeMap<JobId, (Fate, u64)>,
    /// Jobs that hang until peace is made, also where nothing else fails.
    kept_hanging: BTreeSet<JobId>,
    /// Ranks of a part, and the lines that each writes.
    lines: BTreeMap<(JobId, usize), (std::ops::Range<u64>, u64)>,
    /// Jobs that have got nodes.
    pub placed: u64,
    /// Jobs of whose start the log tells.
    starts_logged: BTreeSet<JobId>,
    /// Messages with states that have come to the controller.
    pub states_at_controller: u64,
    /// Parts without ranks that have got some again.
    pub refilled: u32,
    /// Users also say how long jobs may run and which others they wait for, and wait for jobs themselves:
    /// from this number.
    pub batch: Option<Random>,
    /// Users also hold jobs and release them: from this number.
    pub holds: Option<Random>,
    /// Tasks of an array that may have ranks at once, if that is to be held.
    pub at_once: Option<usize>,
    /// Starters of jobs that others wait for live as long as their daemons say.
    pub strict_order: bool,
    /// Jobs whose files the disk takes later, with those behind them, and those whose files it refuses.
    pub slow_files: BTreeSet<JobId>,
    pub refused_files: BTreeSet<JobId>,
    /// Whether nothing fails any more, and jobs end soon.
    peace: bool,
    /// Whether something has failed.
    troubled: bool,
    /// Clients of regions of other nodes that have been answered.
    given: Vec<(ClientId, Given)>,
    listed: Vec<(ClientId, String)>,
    /// The controller was killed: the next one cannot know what its front end was told.
    controller_died: bool,
    /// Samples of what is said and kept, for a test that wants them.
    pub recorded: Option<Recorded>,
}

impl World {
    pub(super) fn new(seed: u64, nodes: usize, arity: u32) -> Self {
        let mut world = World {
            now_ms: 0,
            events: 0,
            random: Random::new(seed ^ 0x5eed),
            arity,
            machines: Vec::new(),
            ends: BTreeMap::new(),
            queue: BinaryHeap::new(),
            nexts: BTreeMap::new(),
            clients: Vec::new(),
            numbers: 100,
            last_job: 0,
            started: BTreeMap::new(),
            launches: BTreeMap::new(),
            submitted: BTreeMap::new(),
            fates: BTreeMap::new(),
            kept_hanging: BTreeSet::new(),
            lines: BTreeMap::new(),
            placed: 0,
            starts_logged: BTreeSet::new(),
            states_at_controller: 0,
            refilled: 0,
            batch: None,
            holds: None,
            at_once: None,
            strict_order: false,
            slow_files: BTreeSet::new(),
            refused_files: BTreeSet::new(),
            peace: false,
            troubled: false,
            given: Vec::new(),
            listed: Vec::new(),
            controller_died: false,
            recorded: None,
        };
        for node in 0..nodes {
            world.machines.push(Machine::default());
            world.start_daemon(node);
        }
        world
    }

    /// A client at a node wants a region.
    pub(super) fn want_region(&mut self, node: usize, client: ClientId, wanted: Wanted) {
        self.deliver(node, Event::Region(client, 7, vec![7], wanted));
    }

    /// A client at a node wants all services.
    pub(super) fn want_services(&mut self, node: usize, client: ClientId) {
        self.deliver(node, Event::Services(client, 7));
    }

    /// Answers to clients about services.
    pub(super) fn take_listed(&mut self) -> Vec<(ClientId, String)> {
        std::mem::take(&mut self.listed)
    }

    /// Takes the answers that a client has been given.
    pub(super) fn take_given(&mut self, client: ClientId) -> Vec<Given> {
        let (own, others) = std::mem::take(&mut self.given).into_iter().partition(|(id, _)| *id == client);
        self.given = others;
        let own: Vec<(ClientId, Given)> = own;
        own.into_iter().map(|(_, given)| given).collect()
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn push(&mut self, at_ms: u64, next: Next) {
        let number = self.number();
        self.queue.push(Reverse((at_ms, number)));
        self.nexts.insert(number, next);
    }

    fn later(&mut self, most_ms: u64, next: Next) {
        let at_ms = self.now_ms + 1 + self.random.below(most_ms);
        self.push(at_ms, next);
    }

    pub(super) fn run_until(&mut self, end_ms: u64) {
        while let Some(Reverse((at_ms, number))) =
            self.queue.peek().copied().filter(|next| next.0.0 <= end_ms)
        {
            self.queue.pop();
            self.now_ms = self.now_ms.max(at_ms);
            self.events += 1;
            let next = self.nexts.remove(&number).expect("it was queued");
            self.happen(next);
        }
        self.now_ms = end_ms;
    }

    fn happen(&mut self, next: Next) {
        match next {
            Next::Tick(node, incarnation) => {
                if self.machines[node].incarnation == incarnation && self.machines[node].core.is_some() {
                    let wait = TICK_MS + self.random.below(8);
                    self.push(self.now_ms + wait, Next::Tick(node, incarnation));
                    let machine = &self.machines[node];
                    let is_due = |core: &Core| core.wait_ms(self.clock(node)) == 0;
                    if machine.core.as_ref().is_some_and(is_due) {
                        self.deliver(node, Event::Tick);
                    }
                }
            }
            Next::Core(node, incarnation, link, event) => {
                let is_there = link.is_none_or(|link| self.ends.contains_key(&link));
                if is_there && self.machines[node].incarnation == incarnation {
                    if let (Some(link), Event::LinkDown(_)) = (link, &event) {
                        self.ends.remove(&link);
                    }
                    let is_states = matches!(event, Event::Message(_, Message::States { .. }));
                    self.states_at_controller += u64::from(node == 0 && is_states);
                    self.deliver(node, event);
                }
            }
            Next::Starter(node, job) => self.step_starter(node, job),
            Next::Takes(client) => {
                let taking = &mut self.clients[client];
                if taking.reads && !taking.gone && taking.waiting > 0 {
                    let (bytes, id, node) = (std::mem::take(&mut taking.waiting), taking.id, taking.node);
                    self.deliver(node, Event::Taken(id, bytes));
                }
            }
            Next::Files(node, incarnation) => self.write_file(node, incarnation),
            Next::Reservations(node, incarnation) => {
                let machine = &mut self.machines[node];
                if machine.incarnation == incarnation && machine.keep_reservations() {
                    self.deliver(node, Event::ReservationsKept(Ok(())));
                }
            }
            Next::Writer(node, incarnation, job) if self.machines[node].incarnation == incarnation => {
                self.step_writer(node, job)
            }
            Next::Writer(..) => {}
            Next::Start(node) => self.start_daemon(node),
            Next::Nothing => {}
            Next::Reattach(node, job) => {
                let machine = &mut self.machines[node];
                if let Some(starter) = machine.starters.get_mut(&job).filter(|_| machine.core.is_some())
                    && !starter.connected
                {
                    let back = starter.come_back();
                    self.deliver(node, Event::Reattach(job, back));
                }
            }
        }
    }

    pub(super) fn deliver(&mut self, node: usize, event: Event) {
        let clocks = self.clocks(node);
        if let Some(core) = &mut self.machines[node].core {
            core.handle(clocks, event);
            self.act(node);
        }
    }

    /// A daemon's core for a test that asks it alone: with its links and its clocks.
    pub(super) fn take_core(&mut self, node: usize) -> Option<(Core, Vec<LinkId>, Clocks)> {
        let clocks = self.clocks(node);
        let links = self.ends.iter().filter(|(_, end)| end.node == node).map(|(link, _)| *link).collect();
        Some((self.machines[node].core.take()?, links, clocks))
    }

    /// The controller's scheduler, for a test that asks its core alone.
    pub(super) fn take_scheduling(&mut self, node: usize) -> Option<Scheduling> {
        self.machines[node].scheduling.take()
    }

    fn act(&mut self, node: usize) {
        while let Some(action) = self.machines[node].core.as_mut().and_then(Core::poll_action) {
            self.do_action(node, action);
            match &mut self.machines[node].dies_after {
                Some((0, most_ms)) => {
                    let most_ms = *most_ms;
                    self.replace_daemon(node, most_ms);
                }
                Some((left, _)) => *left -= 1,
                None => {}
            }
        }
        if let Some(core) = &self.machines[node].core {
            core.check_bounds();
        }
    }

    fn do_action(&mut self, node: usize, action: Action) {
        let incarnation = self.machines[node].incarnation;
        match action {
            Action::Dial(address) => self.dial(node, usize::from(address.port()) - 1),
            Action::Send(link, message) => self.send(link, message),
            Action::Close(link) => self.close(link),
            Action::Answer(client, answer) => self.client(client, |client| client.answer(&answer)),
            Action::ToClient(client, bytes) => {
                self.client(client, |client| client.take(&bytes));
                if let Some(at) = self.clients.iter().position(|other| other.id == client) {
                    self.later(30, Next::Takes(at));
                }
            }
            Action::Release(client) => self.client(client, |client| client.released = true),
            Action::Start(job, launch, described) => self.start(node, job, &launch, &described),
            Action::Enrol(_, job) => self.enrol(node, job),
            Action::ToStarter(job, kind, number, payload) => {
                if let Some(starter) =
                    self.machines[node].starters.get_mut(&job).filter(|starter| starter.connected)
                {
                    starter.receive(kind, number, &payload);
                    self.refilled += u32::from(std::mem::take(&mut starter.refilled));
                }
            }
            Action::Listen(job) => {
                let starter = self.machines[node].starters.get_mut(&job);
                starter.into_iter().for_each(|starter| starter.listens = true);
            }
            Action::End(job) => {
                self.machines[node].starters.remove(&job);
                self.machines[node].files.remove(&job);
            }
            Action::RecordStarter(job, record) => drop(self.machines[node].files.insert(job, *record)),
            Action::RecordOutput(job, journal) => {
                self.recorded.iter_mut().for_each(|recorded| recorded.note_journal(&journal));
                self.machines[node].journals.insert(job, *journal);
            }
            Action::ForgetOutput(job) => drop(self.machines[node].journals.remove(&job)),
            Action::OpenFiles(job, _, _, open) => self.open_files(node, job, &open),
            Action::WriteFiles(job, frames) => self.write_files(node, job, &frames),
            Action::CloseFiles(job) => drop(self.machines[node].writers.remove(&job)),
            Action::Queue(job, Some(queued)) => {
                self.machines[node].filing.push_back((job, Some(*queued)));
                self.later(DISK_MS, Next::Files(node, incarnation));
            }
            Action::LimitUsers => {}
            Action::KeepConfiguration(text) => {
                let at_ms = self.now_ms + DISK_MS;
                self.push(at_ms, Next::Core(node, incarnation, None, Event::ConfigurationKept(text)));
            }
            Action::Queue(job, None) => self.machines[node].remove_file(job),
            Action::KeepReservations(all) => {
                self.machines[node].keeping = Some(all);
                self.push(self.now_ms + DISK_MS, Next::Reservations(node, incarnation));
            }
            Action::Gang(command) => {
                let now_ms = self.now_ms;
                let scheduling = self.machines[node].scheduling.as_mut();
                let event = scheduling.map_or_else(Vec::new, |scheduling| scheduling.handle(now_ms, command));
                // Whatever it says comes in order, and late.
                let at_ms = self.now_ms + 1;
                for event in event {
                    self.push(at_ms, Next::Core(node, incarnation, None, Event::Gang(event)));
                }
            }
            Action::Log(event) => {
                if event.event == "submitted" {
                    self.last_job = self.last_job.max(event.job.unwrap().0);
                }
                self.placed += u64::from(event.event == "placed");
                match (event.event, event.job) {
                    ("started", Some(job)) => drop(self.starts_logged.insert(job)),
                    ("over", Some(job)) if event.status == Some(0) && self.launches.contains_key(&job) => {
                        assert!(self.starts_logged.contains(&job), "the log has no start of job {job}");
                    }
                    _ => {}
                }
            }
            Action::KeepNumbers(numbers) => {
                let before = std::mem::replace(&mut self.machines[node].numbers, numbers);
                let now = &self.machines[node].numbers;
                let is_same = |(name, number)| now.get(name) == Some(number);
                assert!(before.iter().all(is_same), "{before:?} is {now:?} now");
            }
            Action::GiveRegion(client, given) => self.given.push((client, given)),
            Action::GiveServices(client, text) => self.listed.push((client, text)),
            Action::ListServices(from, id) => {
                let services = vec![(7, format!("s{node}"))];
                self.later(5, Next::Core(node, incarnation, None, Event::ServicesListed(from, id, services)));
            }
            Action::ReachRegion(from, id, client) => {
                let place = RegionPlace { address: ([127, 0, 0, 1], 9).into(), key: [1, 2], proof: [3, 4] };
                let result = match client.name.as_str() {
                    "there" => Ok(place),
                    "silent" => return,
                    _ => Err(Status::Region as i32),
                };
                let event = Event::RegionReached(from, id, result);
                self.later(5, Next::Core(node, incarnation, None, event));
            }
            Action::Continue(_)
            | Action::Reload(_)
            | Action::KeepDrains(_)
            | Action::SendMail(_)
            | Action::Info(_)
            | Action::Warn(_)
            | Action::OpenSwitchLink(..)
            | Action::RanksStarted(..) => {}
            Action::LogTurns(_) | Action::ShowNode(..) => {}
            Action::Leave | Action::GiveUp(_) => panic!("node {node} leaves"),
        }
    }

    fn client(&mut self, id: ClientId, what: impl FnOnce(&mut Client)) {
        if let Some(client) = self.clients.iter_mut().find(|client| client.id == id && !client.gone) {
            what(client);
        }
    }

    /// A cluster that has begun, where nothing fails but what the run wants to.
    pub(super) fn calm(seed: u64, nodes: usize, arity: u32) -> Self {
        let mut world = World::new(seed, nodes, arity);
        world.run_until(5_000);
        world.let_nothing_else_fail();
        world
    }

    /// Lets nothing fail from now on but what the run wants to.
    pub(super) fn let_nothing_else_fail(&mut self) {
        self.peace = true;
    }

    /// No more faults: everybody is there, everybody reads, and jobs end.
    pub(super) fn make_peace(&mut self) {
        self.peace = true;
        self.kept_hanging.clear();
        self.machines.iter_mut().for_each(|machine| machine.dies_after = None);
        (0..self.machines.len()).for_each(|node| self.start_daemon(node));
        for at in 0..self.clients.len() {
            self.clients[at].reads = true;
            self.later(10, Next::Takes(at));
        }
        self.resume_all();
    }
}
