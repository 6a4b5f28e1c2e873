//! Behaviour of users: they submit, run, stop, attach, type and vanish.

use tutti_protocol::array::{Array, InArray};
use tutti_protocol::wire::{Inherits, Input, Job, Kind, Program};

use super::{Next, World};
use crate::core::event::Event;
use crate::core::sim::scheduling::MEMORY_BYTES;
use crate::core::sim::starter::Fate;
use crate::core::sim::users::Client;
use crate::ids::ClientId;
use crate::message::output::Output;
use crate::message::{After, Batch, Control, Host, JobId, Request, Submit, Terms, User};

impl World {
    pub(in crate::core::sim) fn user_does_something(&mut self) {
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
        if let (Some(random), Some(job)) = (&mut self.batch, some_job)
            && random.below(8) == 0
        {
            self.user_requests(node, Request::Wait(job));
            return;
        }
        if let (Some(random), Some(job)) = (&mut self.holds, some_job)
            && random.below(6) == 0
        {
            let controls = [Control::Hold, Control::Release, Control::Requeue];
            let control = controls[random.below(3) as usize];
            self.user_requests(node, Request::Control(job, control));
            return;
        }
        let request = match (self.random.below(15), some_job) {
            (14, _) => return self.user_enrols(node),
            (0..=3, _) => Request::Run(Box::new(self.submit())),
            (4..=5, _) => {
                let mut submit = self.submit();
                self.make_array(&mut submit);
                Request::Submit(Box::new(submit))
            }
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
        self.user_requests(node, request);
    }

    /// Some submissions are arrays, of users that hold jobs.
    fn make_array(&mut self, submit: &mut Submit) {
        let Some(random) = self.holds.as_mut() else { return };
        if random.below(3) == 0 {
            let first = random.below(9) as u32;
            let tasks = (first..=first + random.below(5) as u32).collect();
            let array = Array { tasks, at_once: random.below(3) as u32 };
            submit.batch.set_array(InArray::Whole(array));
        }
    }

    /// A job runs on a node and is to take part; perhaps it is over before the answer.
    fn user_enrols(&mut self, node: usize) {
        let client = ClientId(self.number());
        let mut submit = self.submit();
        // An mpiexec asks for nothing more of a job that runs.
        let gang = submit.terms.gang;
        (submit.terms, submit.batch) = (Terms { gang, ..Terms::default() }, Batch::default());
        let request = Request::Enrol(Box::new(submit));
        self.deliver(node, Event::Request(client, User::new(1, 1), request));
        if self.random.below(4) == 0 {
            let incarnation = self.machines[node].incarnation;
            let after_ms = self.random.below(20);
            self.later(after_ms, Next::Core(node, incarnation, None, Event::ClientGone(client)));
        }
    }

    /// A piece of stdin for a job that wants one.
    fn user_types(&mut self) {
        let open =
            self.clients.iter_mut().find(|client| client.input_open && !client.gone && !client.released);
        if let Some(client) = open {
            client.input_open = false;
            let (id, node) = (client.id, client.node);
            self.deliver(node, Event::Frame(id, Kind::Input, 0, b"typed".to_vec()));
        }
    }

    pub(in crate::core::sim) fn a_user_vanishes(&mut self) {
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
                self.deliver(node, Event::ClientGone(id));
            }
        }
        self.later(10, Next::Takes(at));
    }

    /// One job on all nodes; gives its front end.
    pub(in crate::core::sim) fn run_one(&mut self) -> usize {
        self.run_on(&[])
    }

    /// One job of a rank for each of these nodes, of all if none is named; gives its front end.
    pub(in crate::core::sim) fn run_on(&mut self, nodes: &[usize]) -> usize {
        self.run_from(0, nodes)
    }

    /// The same for a front end of node `origin`.
    pub(in crate::core::sim) fn run_from(&mut self, origin: usize, nodes: &[usize]) -> usize {
        self.run_ranks(origin, nodes, 1)
    }

    /// The same with so many ranks for each of the nodes.
    pub(in crate::core::sim) fn run_ranks(&mut self, origin: usize, nodes: &[usize], per_node: u32) -> usize {
        let count = if nodes.is_empty() { self.machines.len() } else { nodes.len() } as u32;
        let mut submit = self.submit();
        submit.job.programs[0].ranks = count * per_node;
        submit.nodes = Some(count);
        submit.hosts = nodes.iter().map(|node| Host { name: format!("node{node}"), ranks: None }).collect();
        submit.terms = Terms::default();
        submit.batch = Batch::default();
        self.user_requests(origin, Request::Run(Box::new(submit)))
    }

    /// No job stands still, and none that waits for a part that has failed.
    pub(in crate::core::sim) fn resume_all(&mut self) {
        let jobs: Vec<JobId> = self.launches.keys().copied().collect();
        if self.holds.is_some() {
            for job in (1..=self.last_job).map(JobId) {
                let client = ClientId(self.number());
                self.clients.push(Client::new(client, 0, false));
                let request = Request::Control(job, Control::Release);
                self.deliver(0, Event::Request(client, User::new(1, 1), request));
            }
        }
        for control in [Control::Resume, Control::Kill] {
            for job in &jobs {
                let is_stuck = self.fates.get(job).is_some_and(|(fate, _)| *fate == Fate::Hangs);
                if control == Control::Resume || is_stuck {
                    let client = ClientId(self.number());
                    self.clients.push(Client::new(client, 0, false));
                    let request = Request::Control(*job, control);
                    self.deliver(0, Event::Request(client, User::new(1, 1), request));
                }
            }
        }
    }

    /// Batch terms that a batch user asks for a job, if there are any such users.
    fn batch_of_user(&mut self) -> Batch {
        let last_job = self.last_job;
        let Some(random) = &mut self.batch else { return Batch::default() };
        let mut after = Vec::new();
        if last_job > 0 && random.below(3) == 0 {
            for _ in 0..1 + random.below(3) {
                let job = JobId(last_job - random.below(last_job.min(6)));
                after.push(After { job, ok: random.below(2) == 0, not_ok: false });
            }
        }
        let time_ms = (random.below(5) == 0).then(|| 300 + random.below(6_000));
        let mut batch = Batch { time_ms, after, ..Batch::default() };
        batch.rules_mut().held = self.holds.as_mut().is_some_and(|random| random.below(12) == 0);
        batch
    }

    /// A user of a node asks for something; gives his program.
    pub(in crate::core::sim) fn user_requests(&mut self, node: usize, request: Request) -> usize {
        self.requests_as(1, node, request)
    }

    /// The same for a user by number.
    pub(in crate::core::sim) fn requests_as(&mut self, uid: u32, node: usize, request: Request) -> usize {
        let client = ClientId(self.number());
        let runs = matches!(request, Request::Run(_));
        self.clients.push(Client::new(client, node, runs));
        self.deliver(node, Event::Request(client, User::new(uid, uid), request));
        self.clients.len() - 1
    }

    /// A job of a rank for each of these nodes, that nobody waits for; gives its user's program.
    pub(in crate::core::sim) fn submit_on(&mut self, from: usize, nodes: &[usize], batch: Batch) -> usize {
        self.submit_as(1, from, nodes, batch)
    }

    /// The same for a user by number.
    pub(in crate::core::sim) fn submit_as(
        &mut self,
        uid: u32,
        from: usize,
        nodes: &[usize],
        batch: Batch,
    ) -> usize {
        let mut submit = self.submit();
        submit.job.programs[0].ranks = nodes.len() as u32;
        submit.nodes = Some(nodes.len() as u32);
        submit.hosts = nodes.iter().map(|node| Host { name: format!("node{node}"), ranks: None }).collect();
        (submit.terms, submit.batch) = (Terms::default(), batch);
        self.requests_as(uid, from, Request::Submit(Box::new(submit)))
    }

    pub(in crate::core::sim) fn submit(&mut self) -> Submit {
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
            input: if self.random.below(2) == 0 { Input::Rank(0) } else { Input::None },
            ..Job::of_programs(vec![program])
        };
        let (environment, directory) = (Default::default(), "/".into());
        let batch = self.batch_of_user();
        let terms = Terms {
            exclusive: self.random.below(10) == 0,
            memory_bytes: self.random.below(3) * self.random.below(MEMORY_BYTES / 2 + 10),
            gang: self.random.below(8) > 0,
            ..Terms::default()
        };
        let pattern = |name: &str| Some(name.into());
        let output = match self.random.below(4) {
            0 => None,
            1 => Some(Output { out: pattern("all-%j"), ..Output::default() }),
            _ => Some(Output { out: pattern("%r"), ..Output::default() }),
        };
        Submit {
            terms,
            batch,
            output,
            job,
            nodes: Some(nodes),
            per_node: None,
            hosts: Vec::new(),
            environment,
            directory,
            umask: 0o22,
            groups: Vec::new(),
            session: None,
            key: self.random.number(),
            script: Default::default(),
        }
    }
}
