//! Machines, links and time: does what the Cores want, and what the run wants done to them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::SocketAddr;

use tutti_node::wire::{Binding, Inherits, Input, Job, Kind, Program, Report};

use super::scheduling::{MEMORY_BYTES, Scheduling};
use super::starter::{Fate, Starter};
use super::users::Client;
use crate::core::{Action, ClientId, Config, Core, Event, Kept, LinkId, Queued, TICK_MS};
use crate::members::{About, NodeId};
use crate::message::{Control, Enrolled, JobId, Launch, Message, Request, Submit, Terms, User};

/// splitmix64.
#[derive(Clone, Debug)]
pub(super) struct Random(pub u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}

/// What is going to happen.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most are events of Cores, and there are few at a time")]
enum Next {
    Tick(usize, u64),
    /// For a Core in this life; with a link only if that is still there.
    Core(usize, u64, Option<LinkId>, Event),
    Starter(usize, JobId),
    Takes(usize),
    Start(usize),
    Back(usize, JobId),
}

/// One end of a link.
#[derive(Debug)]
struct End {
    node: usize,
    life: u64,
    peer: LinkId,
    /// Nothing that is said arrives any more.
    silent: bool,
    /// When what was said last arrives.
    last_ms: u64,
}

#[derive(Debug)]
struct Machine {
    core: Option<Core>,
    life: u64,
    /// What its clock shows beyond ours.
    ahead_ms: i64,
    starters: BTreeMap<JobId, Starter>,
    files: BTreeMap<JobId, Kept>,
    /// Files of jobs that wait for nodes.
    queued: BTreeMap<JobId, Queued>,
    /// On the head.
    scheduling: Option<Scheduling>,
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
    asked: BTreeMap<(NodeId, u64), JobId>,
    fates: BTreeMap<JobId, (Fate, u64)>,
    /// Messages with states that have come to the head.
    pub states_at_head: u64,
    /// Nothing fails any more, and jobs end soon.
    peace: bool,
    /// Something has failed.
    troubled: bool,
    /// The head was killed: the next one cannot know what its front end was told.
    head_died: bool,
}

const LOST_MS: u64 = 2_000;
const START_MS: u64 = 1_700_000_000_000;

impl World {
    pub(super) fn new(seed: u64, nodes: usize, arity: u32) -> Self {
        let mut world = World {
            now_ms: 0,
            events: 0,
            random: Random(seed ^ 0x5eed),
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
            asked: BTreeMap::new(),
            fates: BTreeMap::new(),
            states_at_head: 0,
            peace: false,
            troubled: false,
            head_died: false,
        };
        for node in 0..nodes {
            world.machines.push(Machine {
                core: None,
                life: 0,
                ahead_ms: 0,
                starters: BTreeMap::new(),
                files: BTreeMap::new(),
                queued: BTreeMap::new(),
                scheduling: None,
            });
            world.start_daemon(node);
        }
        world
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

    fn clock(&self, node: usize) -> u64 {
        (START_MS + self.now_ms).saturating_add_signed(self.machines[node].ahead_ms)
    }

    fn start_daemon(&mut self, node: usize) {
        if self.machines[node].core.is_some() {
            return;
        }
        let life = self.number();
        let address = |port: usize| SocketAddr::from(([127, 0, 0, 1], port as u16 + 1));
        let machine = &mut self.machines[node];
        let files = machine.files.iter();
        let alive = |job: &JobId| machine.starters.contains_key(job);
        let kept: Vec<(JobId, Kept)> =
            files.map(|(job, kept)| (*job, Kept { alive: alive(job), ..kept.clone() })).collect();
        let back: Vec<JobId> = machine.starters.keys().copied().collect();
        let config = Config {
            about: About {
                name: format!("node{node}"),
                control: address(node),
                data: "127.0.0.1".parse().unwrap(),
                slots: 4,
                memory_bytes: MEMORY_BYTES,
                incarnation: life,
                preferred: Default::default(),
                machine: String::new(),
            },
            head: (node > 0).then(|| address(0)),
            arity: self.arity,
            lost_ms: LOST_MS,
            owner: 1,
            first_job: self.last_job + 1,
            kept,
            queued: machine.queued.iter().map(|(job, queued)| (*job, queued.clone())).collect(),
            policy: Default::default(),
        };
        let clock = self.clock(node);
        let machine = &mut self.machines[node];
        machine.scheduling = (node == 0).then(Scheduling::new);
        (machine.life, machine.core) = (life, Some(Core::new(config, clock)));
        for job in back {
            self.later(600, Next::Back(node, job));
        }
        self.later(TICK_MS, Next::Tick(node, life));
        self.act(node);
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
            Next::Tick(node, life) => {
                if self.machines[node].life == life && self.machines[node].core.is_some() {
                    let wait = TICK_MS + self.random.below(8);
                    self.push(self.now_ms + wait, Next::Tick(node, life));
                    let machine = &self.machines[node];
                    let is_due = |core: &Core| core.wait_ms(self.clock(node)) == 0;
                    if machine.core.as_ref().is_some_and(is_due) {
                        self.tell(node, Event::Tick);
                    }
                }
            }
            Next::Core(node, life, link, event) => {
                let is_there = link.is_none_or(|link| self.ends.contains_key(&link));
                if is_there && self.machines[node].life == life {
                    if let (Some(link), Event::LinkDown(_)) = (link, &event) {
                        self.ends.remove(&link);
                    }
                    let is_states = matches!(event, Event::Message(_, Message::States { .. }));
                    self.states_at_head += u64::from(node == 0 && is_states);
                    self.tell(node, event);
                }
            }
            Next::Starter(node, job) => self.starter_lives(node, job),
            Next::Takes(client) => {
                let taking = &mut self.clients[client];
                if taking.reads && !taking.gone && taking.waiting > 0 {
                    let (bytes, id, node) = (std::mem::take(&mut taking.waiting), taking.id, taking.node);
                    self.tell(node, Event::Taken(id, bytes));
                }
            }
            Next::Start(node) => self.start_daemon(node),
            Next::Back(node, job) => {
                let machine = &mut self.machines[node];
                if let Some(starter) = machine.starters.get_mut(&job).filter(|_| machine.core.is_some())
                    && !starter.connected
                {
                    let back = starter.come_back();
                    self.tell(node, Event::Back(job, back));
                }
            }
        }
    }

    fn starter_lives(&mut self, node: usize, job: JobId) {
        let peace = self.peace;
        let Some(starter) = self.machines[node].starters.get_mut(&job) else { return };
        if peace && starter.fate == Fate::Hangs {
            starter.fate = Fate::Ends;
        }
        let was_there = !starter.is_over();
        starter.live(&mut self.random);
        let left_well = was_there && starter.is_over() && starter.left_well();
        let frames = starter.say();
        if left_well {
            // S21: as long as one of its ranks may send, its sockets are open on all its nodes.
            let others = self.machines.iter().filter_map(|machine| machine.starters.get(&job));
            assert!(others.into_iter().all(Starter::is_dead), "node {node} leaves job {job}, others run");
        }
        self.later(60, Next::Starter(node, job));
        if !frames.is_empty() {
            self.tell(node, Event::Starter(job, frames));
        }
    }

    fn tell(&mut self, node: usize, event: Event) {
        let clock = self.clock(node);
        if let Some(core) = &mut self.machines[node].core {
            core.handle(clock, event);
            self.act(node);
        }
    }

    fn act(&mut self, node: usize) {
        while let Some(action) = self.machines[node].core.as_mut().and_then(Core::poll_action) {
            self.do_action(node, action);
        }
        if let Some(core) = &self.machines[node].core {
            core.check_bounds();
        }
    }

    fn do_action(&mut self, node: usize, action: Action) {
        let life = self.machines[node].life;
        match action {
            Action::Dial(address) => self.dial(node, usize::from(address.port()) - 1),
            Action::Send(link, message) => {
                let Some(end) = self.ends.get(&link).filter(|end| !end.silent) else { return };
                let (peer, last_ms) = (end.peer, end.last_ms);
                let at_ms = last_ms.max(self.now_ms + 1 + self.random.below(20));
                self.ends.get_mut(&link).unwrap().last_ms = at_ms;
                let Some((to, to_life)) = self.ends.get(&peer).map(|end| (end.node, end.life)) else {
                    return;
                };
                self.push(at_ms, Next::Core(to, to_life, Some(peer), Event::Message(peer, message)));
            }
            Action::Close(link) => self.close(link),
            Action::Answer(client, answer) => self.client(client, |client| client.answer(&answer)),
            Action::ToClient(client, bytes) => {
                self.client(client, |client| client.take(&bytes));
                if let Some(at) = self.clients.iter().position(|other| other.id == client) {
                    self.later(30, Next::Takes(at));
                }
            }
            Action::Release(client) => self.client(client, |client| client.released = true),
            Action::Start(job, launch, described) => {
                assert_eq!(self.started.insert((job, node), 1), None, "job {job} twice on node {node}");
                self.launches.insert(job, Launch::clone(&launch));
                let other = self.asked.insert((launch.home, launch.ask), job);
                assert!(other.is_none_or(|other| other == job), "one question, jobs {other:?} and {job}");
                self.check_company(node, &launch);
                let (fate, lines) = self.fate(job, &launch, node);
                if self.random.below(60) == 0 && !self.peace {
                    let gone = Event::StarterGone(job, "the starter died".into());
                    return self.later(50, Next::Core(node, life, None, gone));
                }
                self.machines[node].starters.insert(job, Starter::new(job.0, &described, fate, lines));
                self.later(60, Next::Starter(node, job));
            }
            Action::Enrol(_, job) => self.enrol(node, job),
            Action::ToStarter(job, kind, number, payload) => {
                if let Some(starter) =
                    self.machines[node].starters.get_mut(&job).filter(|starter| starter.connected)
                {
                    starter.hear(kind, number, &payload);
                }
            }
            Action::Listen(job) => {
                self.machines[node]
                    .starters
                    .get_mut(&job)
                    .into_iter()
                    .for_each(|starter| starter.listens = true);
            }
            Action::End(job) => {
                self.machines[node].starters.remove(&job);
                self.machines[node].files.remove(&job);
            }
            Action::Keep(job, kept) => drop(self.machines[node].files.insert(job, *kept)),
            Action::Queue(job, Some(queued)) => drop(self.machines[node].queued.insert(job, *queued)),
            Action::Queue(job, None) => drop(self.machines[node].queued.remove(&job)),
            Action::Gang(command) => {
                let now_ms = self.now_ms;
                let scheduling = self.machines[node].scheduling.as_mut();
                let said = scheduling.map_or_else(Vec::new, |scheduling| scheduling.handle(now_ms, command));
                // Whatever it says comes in order, and late.
                let at_ms = self.now_ms + 1;
                for said in said {
                    self.push(at_ms, Next::Core(node, life, None, Event::Gang(said)));
                }
            }
            Action::Log(event) => {
                if event.event == "submitted" {
                    self.last_job = self.last_job.max(event.job.unwrap().0);
                }
            }
            Action::Continue(_) | Action::Say(_) | Action::Lane(..) => {}
            Action::LogTurns(_) => {}
            Action::Leave => panic!("node {node} leaves"),
        }
    }

    /// Who is exclusive has no company, and memory is not given out twice. While everybody hears of everybody: who is cut off
    /// may run what the head holds for lost.
    fn check_company(&self, node: usize, launch: &Launch) {
        if self.troubled {
            return;
        }
        let alive = self.machines[node].starters.iter().filter(|(_, starter)| !starter.is_dead());
        let others: Vec<Terms> = alive.map(|(job, _)| self.launches[job].terms).collect();
        let is_alone =
            others.is_empty() || !launch.terms.exclusive && others.iter().all(|other| !other.exclusive);
        assert!(is_alone, "{:?} beside {others:?} on node {node}", launch.terms);
        let memory_bytes = others.iter().map(|other| other.memory_bytes).sum::<u64>();
        assert!(
            memory_bytes + launch.terms.memory_bytes <= MEMORY_BYTES,
            "{:?} beside {others:?}",
            launch.terms
        );
    }

    /// A job that runs already: it stops and goes on, and ends well or by the death of its mpiexec. When its daemon dies it
    /// goes on without one.
    fn enrol(&mut self, node: usize, job: JobId) {
        let life = self.machines[node].life;
        let ends_ms = 30 + self.random.below(3000);
        let stops = self.random.below(3) == 0;
        let dies = self.random.below(4) == 0;
        let mut say = |after_ms, report: &Report| {
            let frame = (Kind::Report, 0, serde_json::to_vec(report).unwrap());
            self.later(after_ms, Next::Core(node, life, None, Event::Starter(job, vec![frame])));
        };
        say(5, &Report::Started { pids: vec![1], cores: vec![String::new()] });
        if stops {
            say(10, &Report::Stopped);
            say(20, &Report::Continued);
        }
        if !dies {
            say(ends_ms, &Report::End { status: 0 });
        }
        let gone = Event::StarterGone(job, "its mpiexec has died".into());
        self.later(ends_ms + 1, Next::Core(node, life, None, gone));
    }

    fn fate(&mut self, job: JobId, launch: &Launch, node: usize) -> (Fate, u64) {
        let random = &mut self.random;
        let lines = random.below(25);
        let (fate, _) = *self.fates.entry(job).or_insert_with(|| match random.below(10) {
            0 => (Fate::Fails(3 + random.below(100) as u8), 0),
            1 => (Fate::Hangs, 0),
            2 if random.below(3) == 0 => (Fate::Refused, 0),
            _ => (Fate::Ends, 0),
        });
        // One part fails, the others wait for it.
        let me = self.machines[node].core.as_ref().and_then(Core::node);
        let is_first = me == launch.nodes.first().copied();
        match fate {
            Fate::Fails(_) | Fate::Refused if !is_first => (Fate::Hangs, lines),
            fate => (fate, lines),
        }
    }

    fn client(&mut self, id: ClientId, what: impl FnOnce(&mut Client)) {
        if let Some(client) = self.clients.iter_mut().find(|client| client.id == id && !client.gone) {
            what(client);
        }
    }

    fn dial(&mut self, from: usize, to: usize) {
        let life = self.machines[from].life;
        let is_there = self.machines.get(to).is_some_and(|machine| machine.core.is_some());
        if !is_there || !self.peace && self.random.below(20) == 0 {
            return self.later(50, Next::Core(from, life, None, Event::DialFailed));
        }
        let to_life = self.machines[to].life;
        let (near, far) = (LinkId(self.number()), LinkId(self.number()));
        let last_ms = self.now_ms + 5;
        self.ends.insert(near, End { node: from, life, peer: far, silent: false, last_ms });
        self.ends.insert(far, End { node: to, life: to_life, peer: near, silent: false, last_ms });
        self.push(self.now_ms + 2, Next::Core(to, to_life, Some(far), Event::Accepted(far)));
        self.push(self.now_ms + 4, Next::Core(from, life, Some(near), Event::Dialled(near)));
    }

    /// One side lets go: the other hears it, behind what was said.
    fn close(&mut self, link: LinkId) {
        let Some(end) = self.ends.remove(&link) else { return };
        if let Some(peer) = self.ends.get(&end.peer).filter(|_| !end.silent) {
            let at_ms = end.last_ms.max(self.now_ms + 1);
            self.push(at_ms, Next::Core(peer.node, peer.life, Some(end.peer), Event::LinkDown(end.peer)));
        }
    }

    fn any_link(&mut self) -> Option<LinkId> {
        // Nobody can tell one that breaks before it is made.
        let made = self.ends.iter().filter(|(_, end)| end.last_ms < self.now_ms);
        let links: Vec<LinkId> = made.map(|(link, _)| *link).collect();
        (!links.is_empty()).then(|| links[self.random.below(links.len() as u64) as usize])
    }

    /// What is under way is lost.
    pub(super) fn break_a_link(&mut self) {
        self.troubled = true;
        let Some(link) = self.any_link() else { return };
        let peer = self.ends[&link].peer;
        for link in [link, peer] {
            if let Some(End { node, life, .. }) = self.ends.remove(&link) {
                self.later(30, Next::Core(node, life, None, Event::LinkDown(link)));
            }
        }
    }

    pub(super) fn silence_a_link(&mut self) {
        self.troubled = true;
        let Some(link) = self.any_link() else { return };
        let peer = self.ends[&link].peer;
        for link in [link, peer] {
            self.ends.get_mut(&link).into_iter().for_each(|end| end.silent = true);
        }
    }

    pub(super) fn jump_a_clock(&mut self) {
        let node = self.random.below(self.machines.len() as u64) as usize;
        let jump = self.random.below(7_200_000) as i64 - 3_600_000;
        self.machines[node].ahead_ms += jump;
    }

    pub(super) fn kill_a_daemon(&mut self, also_the_head: bool) {
        self.troubled = true;
        let first = u64::from(!also_the_head);
        let node = (first + self.random.below(self.machines.len() as u64 - first)) as usize;
        if self.machines[node].core.take().is_none() {
            return;
        }
        self.head_died |= node == 0;
        let links: Vec<LinkId> =
            self.ends.iter().filter(|(_, end)| end.node == node).map(|(link, _)| *link).collect();
        links.into_iter().for_each(|link| self.close(link));
        for client in self.clients.iter_mut().filter(|client| client.node == node) {
            client.gone = true;
        }
        let jobs: Vec<JobId> = self.machines[node].starters.keys().copied().collect();
        for job in jobs {
            let survives = self.random.below(4) > 0;
            let starters = &mut self.machines[node].starters;
            if survives {
                starters.get_mut(&job).unwrap().connected = false;
            } else {
                starters.remove(&job);
            }
        }
        let most_ms = if self.random.below(2) == 0 { 800 } else { 9_000 };
        self.later(most_ms, Next::Start(node));
    }

    pub(super) fn a_user_vanishes(&mut self) {
        let open: Vec<usize> = (0..self.clients.len())
            .filter(|at| !self.clients[*at].gone && !self.clients[*at].released)
            .collect();
        if open.is_empty() {
            return;
        }
        let at = open[self.random.below(open.len() as u64) as usize];
        let what = self.random.below(3);
        let client = &mut self.clients[at];
        match what {
            0 => client.reads = !client.reads,
            _ => {
                client.gone = true;
                let (id, node) = (client.id, client.node);
                self.tell(node, Event::ClientGone(id));
            }
        }
        self.later(10, Next::Takes(at));
    }

    pub(super) fn user_does_something(&mut self) {
        let node = self.random.below(self.machines.len() as u64) as usize;
        if self.machines[node].core.is_none() {
            return;
        }
        let running: Vec<JobId> = self.launches.keys().rev().take(8).copied().collect();
        let mut some_job = running.get(self.random.below(8) as usize).copied();
        if self.random.below(3) == 0 && self.last_job > 0 {
            // Perhaps one that waits.
            some_job = Some(JobId(self.last_job - self.random.below(self.last_job.min(8))));
        }
        let request = match (self.random.below(15), some_job) {
            (14, _) => return self.user_enrols(node),
            (0..=3, _) => Request::Run(Box::new(self.submit())),
            (4..=5, _) => Request::Submit(Box::new(self.submit())),
            (6, Some(job)) => Request::Control(job, Control::Suspend),
            (7, Some(job)) => Request::Control(job, Control::Resume),
            (8, Some(job)) if self.random.below(3) == 0 => Request::Control(job, Control::Kill),
            (9, Some(job)) => Request::Control(job, Control::Signal(10)),
            (10, Some(job)) => Request::Attach(job),
            (11, Some(job)) => Request::Logs(job),
            (12, _) => Request::Jobs { all: true },
            (13, _) => return self.user_types(),
            _ => Request::Nodes,
        };
        let client = ClientId(self.number());
        let runs = matches!(request, Request::Run(_));
        self.clients.push(Client::new(client, node, runs));
        self.tell(node, Event::Request(client, User { uid: 1, gid: 1 }, request));
    }

    /// A job runs on a node and is to take part; perhaps it is over before the answer.
    fn user_enrols(&mut self, node: usize) {
        let client = ClientId(self.number());
        let request = Request::Enrol(Box::new(self.submit()), Enrolled::default());
        self.tell(node, Event::Request(client, User { uid: 1, gid: 1 }, request));
        if self.random.below(4) == 0 {
            let life = self.machines[node].life;
            let after_ms = self.random.below(20);
            self.later(after_ms, Next::Core(node, life, None, Event::ClientGone(client)));
        }
    }

    /// A piece of stdin for a job that wants one.
    fn user_types(&mut self) {
        let open =
            self.clients.iter_mut().find(|client| client.input_open && !client.gone && !client.released);
        if let Some(client) = open {
            client.input_open = false;
            let (id, node) = (client.id, client.node);
            self.tell(node, Event::Frame(id, Kind::Input, 0, b"typed".to_vec()));
        }
    }

    /// One job on all nodes; gives its front end.
    pub(super) fn run_one(&mut self) -> usize {
        let nodes = self.machines.len() as u32;
        let mut submit = self.submit();
        submit.job.programs[0].ranks = nodes;
        submit.nodes = Some(nodes);
        submit.terms = Terms::default();
        let client = ClientId(self.number());
        self.clients.push(Client::new(client, 0, true));
        self.tell(0, Event::Request(client, User { uid: 1, gid: 1 }, Request::Run(Box::new(submit))));
        self.clients.len() - 1
    }

    pub(super) fn all_ended_well(&self) -> bool {
        self.fates.values().all(|(fate, _)| *fate == Fate::Ends)
            && self.clients.iter().all(|client| client.end == Some(0))
    }

    pub(super) fn has_ended(&self, client: usize) -> bool {
        self.clients[client].end.is_some()
    }

    fn submit(&mut self) -> Submit {
        let nodes = 1 + self.random.below(self.machines.len() as u64) as u32;
        let ranks = nodes + self.random.below(4) as u32;
        let program = Program {
            file: "a.out".into(),
            arguments: vec!["a.out".into()],
            ranks,
            directory: None,
            inherits: Inherits::All,
            variables: Vec::new(),
        };
        let job = Job {
            id: self.number(),
            front_end: 0,
            programs: vec![program],
            input: if self.random.below(2) == 0 { Input::Rank(0) } else { Input::None },
            input_inherited: false,
            terminal: None,
            pty: false,
            binding: Binding::None,
            cores_per_rank: None,
            no_oversubscribe: false,
            part: None,
            debug: false,
            daemon: None,
            memory: None,
        };
        let (environment, directory) = (Vec::new(), "/".into());
        let terms = Terms {
            exclusive: self.random.below(10) == 0,
            memory_bytes: self.random.below(3) * self.random.below(MEMORY_BYTES / 2 + 10),
            gang: self.random.below(8) > 0,
            ..Terms::default()
        };
        Submit {
            terms,
            job,
            nodes: Some(nodes),
            per_node: None,
            hosts: Vec::new(),
            environment,
            directory,
            umask: 0o22,
            groups: Vec::new(),
        }
    }

    /// No more faults: everybody is there, everybody reads, and jobs end.
    pub(super) fn make_peace(&mut self) {
        self.peace = true;
        (0..self.machines.len()).for_each(|node| self.start_daemon(node));
        for at in 0..self.clients.len() {
            self.clients[at].reads = true;
            self.later(10, Next::Takes(at));
        }
        self.let_all_go_on();
    }

    /// No job stands still, and none that waits for a part that has failed.
    pub(super) fn let_all_go_on(&mut self) {
        let jobs: Vec<JobId> = self.launches.keys().copied().collect();
        for control in [Control::Resume, Control::Kill] {
            for job in &jobs {
                let is_stuck = self.fates.get(job).is_some_and(|(fate, _)| *fate == Fate::Hangs);
                if control == Control::Resume || is_stuck {
                    let client = ClientId(self.number());
                    self.clients.push(Client::new(client, 0, false));
                    let request = Request::Control(*job, control);
                    self.tell(0, Event::Request(client, User { uid: 1, gid: 1 }, request));
                }
            }
        }
    }

    /// Nothing is left to do.
    pub(super) fn is_quiet(&self) -> bool {
        let is_done = |client: &Client| client.gone || client.released;
        self.machines.iter().all(|machine| {
            let sees_all = |core: &Core| core.nodes_alive() == self.machines.len();
            machine.starters.is_empty()
                && machine.core.as_ref().is_some_and(|core| sees_all(core) && core.leftovers().is_empty())
        }) && self.clients.iter().all(is_done)
    }

    /// What must hold when all is quiet.
    pub(super) fn check_end(&self) {
        for (node, machine) in self.machines.iter().enumerate() {
            let core = machine.core.as_ref().expect("there is peace");
            let left = core.leftovers();
            assert!(
                left.is_empty(),
                "node {node} ({:?}) still has {left:#?}\n{}",
                core.node(),
                self.picture()
            );
            let starters: Vec<_> = machine.starters.values().collect();
            assert!(starters.is_empty(), "node {node} still runs {starters:#?}");
            assert!(machine.queued.is_empty(), "node {node} still queues {:?}", machine.queued.keys());
            let scheduled = machine.scheduling.as_ref().map_or_else(Vec::new, Scheduling::leftovers);
            assert!(scheduled.is_empty(), "{scheduled:?}");
            assert!(machine.files.is_empty(), "node {node} still keeps {:?}", machine.files.keys());
            assert_eq!(core.nodes_alive(), self.machines.len(), "as node {node} sees it\n{}", self.picture());
        }
        let keys: BTreeSet<u64> = self.launches.values().map(|launch| launch.key).collect();
        assert_eq!(keys.len(), self.launches.len(), "two jobs have one key");
        let numbers: BTreeSet<_> =
            self.machines.iter().filter_map(|machine| machine.core.as_ref()?.node()).collect();
        assert_eq!(numbers.len(), self.machines.len(), "two nodes have one number");
        self.clients.iter().for_each(|client| self.check_client(client));
    }

    fn check_client(&self, client: &Client) {
        if client.gone {
            return;
        }
        assert!(client.released && client.answered, "{client:?} waits for ever\n{}", self.picture());
        let Some(job) = client.job.filter(|_| client.runs) else { return };
        assert!(client.end.is_some(), "no end of {client:?}");
        assert!(client.started <= 1, "started twice: {client:?}");
        let says = |part| {
            client.lines.iter().any(
                |line| matches!(line, Report::Warning(text) | Report::Refused(text) if text.contains(part)),
            )
        };
        let said_twice = says("does not answer any more") && says("were lost with its daemon");
        assert!(self.head_died || !said_twice, "{client:?}");
        if self.troubled {
            return;
        }
        // One that was killed while it waited has none.
        let fate = self.fates.get(&job);
        let waits = |line: &&Report| matches!(line, Report::Warning(text) if text.contains(" waits: "));
        let lines: Vec<&Report> = client.lines.iter().filter(|line| !waits(line)).collect();
        assert!(lines.len() <= 1 && client.lines.len() <= 2, "{client:?} of a job that {fate:?}");
        if let Some(Report::Ended(ended)) = lines.first() {
            assert_eq!(client.end, Some(ended.cause.status()), "{client:?} of a job that {fate:?}");
        }
        if client.end == Some(0) {
            let launch = &self.launches[&job];
            let ranks = client.output().len() as u64;
            assert!(ranks <= launch.job.ranks(), "{client:?}");
        }
    }

    /// Where things stand, for who has to find out.
    fn picture(&self) -> String {
        let node = |machine: &Machine| match &machine.core {
            None => "dead\n".to_owned(),
            Some(core) => format!("{:?}: {}\n", core.node(), core.links_text()),
        };
        self.machines.iter().map(node).collect()
    }
}
