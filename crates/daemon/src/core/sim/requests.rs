//! Requests of a hostile user that are nearly right: each is served or refused, and the jobs of another user
//! stay as they are.

use std::collections::BTreeMap;
use std::mem::discriminant;

use tutti_protocol::users::watch::Watch;

use super::scheduling::Scheduling;
use super::seeds;
use super::world::World;
use crate::core::Core;
use crate::core::action::Action;
use crate::core::clocks::Clocks;
use crate::core::event::Event;
use crate::core::record::StarterRecord;
use crate::ids::ClientId;
use crate::message::{
    Answer, Batch, Change, Control, JobId, JobRow, MESSAGE_BYTES_MAX, Request, Return, Submit, User,
};

/// User of the jobs that stay, who is the owner of the daemons too.
const HONEST: u32 = 1;
pub(super) const HOSTILE: u32 = 7;

/// A controller's core alone, with its jobs.
pub(super) struct Alone {
    pub(super) core: Core,
    pub(super) clocks: Clocks,
    clients: u64,
    /// The honest user's jobs as they were.
    pub(super) rows: Vec<String>,
    /// For a test in which jobs begin: places them.
    pub(super) scheduling: Option<Scheduling>,
    /// Jobs whose starters are here, in the order in which they have begun.
    pub(super) started: Vec<JobId>,
    /// Records of them, as they are kept for the next daemon.
    pub(super) records: BTreeMap<JobId, StarterRecord>,
}

impl Alone {
    /// A user asks for something, and goes; gives the answer, if there is one at once.
    pub(super) fn ask(&mut self, uid: u32, request: Request) -> Option<Answer> {
        let (client, mut answers) = self.begin(uid, request);
        answers.extend(self.handle(client, Event::ClientGone(client)));
        assert!(answers.len() <= 1, "{answers:?}");
        answers.pop()
    }

    /// A user asks for something, and stays.
    pub(super) fn begin(&mut self, uid: u32, request: Request) -> (ClientId, Vec<Answer>) {
        self.clients += 1;
        let client = ClientId(self.clients);
        let answers = self.handle(client, Event::Request(client, User::new(uid, uid), request));
        (client, answers)
    }

    /// Gives it an event, and what comes of that: the disk takes everything.
    pub(super) fn handle(&mut self, client: ClientId, event: Event) -> Vec<Answer> {
        let (mut events, mut answers) = (vec![event], Vec::new());
        while let Some(event) = events.pop() {
            self.core.handle(self.clocks, event);
            while let Some(action) = self.core.poll_action() {
                match action {
                    Action::Answer(to, answer) if to == client => answers.push(answer),
                    Action::Queue(job, _) => events.push(Event::Filed(job, Ok(()))),
                    Action::Gang(command) => {
                        let scheduling = self.scheduling.as_mut();
                        let placed = scheduling.map(|it| it.handle(self.clocks.wall_ms, command));
                        events.extend(placed.into_iter().flatten().rev().map(Event::Gang));
                    }
                    Action::Start(job, ..) | Action::Enrol(_, job) => self.started.push(job),
                    Action::RecordStarter(job, record) => drop(self.records.insert(job, *record)),
                    Action::End(job) => {
                        self.started.retain(|started| *started != job);
                        self.records.remove(&job);
                    }
                    Action::ToClient(_, bytes) => assert!(bytes.len() <= MESSAGE_BYTES_MAX),
                    Action::KeepDrains(_)
                    | Action::KeepReservations(_)
                    | Action::Reload(_)
                    | Action::Leave
                    | Action::GiveUp(_) => panic!("a user decides for the keeper: {action:?}"),
                    _ => {}
                }
            }
        }
        self.core.check_bounds();
        answers
    }

    /// The honest user's jobs that are not over, without what time and other users change of them.
    pub(super) fn jobs(&mut self) -> Vec<String> {
        let rows = match self.ask(HONEST, Request::Jobs { all: false }) {
            Some(Answer::Jobs(rows)) => rows,
            other => panic!("a list of jobs was awaited: {other:?}"),
        };
        let show = |row: JobRow| {
            let JobRow { job, state, name, limit_ms, ranks, nodes, status, weight, suspended, .. } = row;
            format!("{job} {state:?} {name} {limit_ms:?} {ranks} {nodes:?} {status:?} {weight} {suspended:?}")
        };
        rows.into_iter().filter(|row| row.uid == HONEST).map(show).collect()
    }
}

/// A controller on which the honest user has a job that runs and one that is held; gives the first.
pub(super) fn alone() -> (Alone, JobId, Submit) {
    // In some runs a starter cannot be started.
    let mut runs = (seeds(1)[0]..).take(50).map(run_alone);
    let is_it = |rows: &[String]| rows.len() == 2 && rows.iter().any(|row| row.contains("Running"));
    runs.find(|(alone, ..)| is_it(&alone.rows)).expect("a run in which the job begins")
}

fn run_alone(seed: u64) -> (Alone, JobId, Submit) {
    let mut world = World::new(seed, 1, 2);
    world.run_until(3_000);
    let mut batch = Batch::default();
    batch.rules_mut().held = true;
    world.submit_on(0, &[0], batch);
    let sample = world.submit();
    // It ends in the world's time, which goes no further.
    world.run_on(&[0]);
    world.run_until(world.now_ms + 300);
    let (core, _, clocks) = world.take_core(0).expect("it lives");
    let (clients, scheduling) = (1 << 40, world.take_scheduling(0));
    let (rows, started, records) = Default::default();
    let mut alone = Alone { core, clocks, clients, rows, scheduling, started, records };
    let Some(Answer::Jobs(rows)) = alone.ask(HONEST, Request::Jobs { all: true }) else {
        panic!("a list of jobs was awaited")
    };
    let job = rows.iter().map(|row| row.job).max().expect("it has a job");
    alone.rows = alone.jobs();
    (alone, job, sample)
}

/// The same without terms, of one rank.
pub(super) fn plain(submit: &Submit) -> Submit {
    let mut plain = submit.clone();
    (plain.terms, plain.batch, plain.output) = Default::default();
    plain.job.programs[0].ranks = 1;
    plain.nodes = Some(1);
    plain
}

/// Requests of each kind, about a job.
fn requests(job: JobId, submit: &Submit) -> Vec<Request> {
    let plain = plain(submit);
    let change = Change { weight: Some(7), name: Some("x".into()), ..Change::default() };
    let back = Return { job, coupled: true, places: vec![(0, 0)], pieces: 0 };
    let mut all = vec![
        Request::Run(Box::new(plain.clone())),
        Request::Submit(Box::new(submit.clone())),
        Request::Submit(Box::new(plain.clone())),
        Request::Enrol(Box::new(plain)),
        Request::Attach(job),
        Request::Logs(job),
        Request::Jobs { all: true },
        Request::Job(job),
        Request::Wait(job),
        Request::Snapshot(job),
        Request::Nodes,
        Request::Configuration,
        Request::Prices,
        Request::Reload,
        Request::Down,
        Request::Withdraw,
        Request::Drain("node0".into(), "mine".into()),
        Request::Undrain("node0".into()),
        Request::Token,
        Request::LogsFor(job, "0123456789abcdef".into()),
        Request::Change(job, change),
        Request::Watch(Box::<Watch>::default()),
        Request::Number,
        Request::Return(Box::new(back)),
        Request::Reserve(Box::default()),
        Request::Unreserve("x".into()),
        Request::Reservations,
    ];
    let controls = [
        Control::Suspend,
        Control::Resume,
        Control::Kill,
        Control::Signal(9),
        Control::Window(24, 80),
        Control::Detach,
        Control::Abandon,
        Control::End(100),
        Control::Hold,
        Control::Release,
        Control::Requeue,
        Control::SignalScript(9),
    ];
    all.extend(controls.map(|control| Request::Control(job, control)));
    all
}

/// Job of which a request wants what is its user's alone.
fn wanted(request: &Request) -> Option<JobId> {
    match request {
        Request::Control(job, _) | Request::Change(job, _) | Request::Attach(job) | Request::Logs(job) => {
            Some(*job)
        }
        Request::Return(back) => Some(back.job),
        _ => None,
    }
}

#[test]
fn requests_that_are_nearly_right_change_no_job_of_another_user() {
    let (mut alone, job, submit) = alone();
    // Nothing begins.
    alone.scheduling = None;
    let held = JobId(job.0 - 1);
    let before = alone.rows.clone();
    // As they are, then nearly.
    let right: Vec<Request> = [job, held].iter().flat_map(|job| requests(*job, &submit)).collect();
    let samples: Vec<Vec<u8>> =
        right.iter().map(|request| serde_json::to_vec(request).expect("a request")).collect();
    let (mut kinds, mut refused, mut served) = (BTreeMap::<String, u64>::new(), 0_u64, 0_u64);
    let mut ask = |alone: &mut Alone, request: Request, is_changed: bool| {
        if is_changed {
            *kinds.entry(format!("{:?}", discriminant(&request))).or_default() += 1;
        }
        let wanted = wanted(&request).filter(|wanted| [job, held].contains(wanted));
        let shown = format!("{request:?}");
        let answer = alone.ask(HOSTILE, request);
        let is_refusal = matches!(answer, Some(Answer::Refused(_) | Answer::Because(..)));
        assert!(wanted.is_none() || is_refusal, "{shown}: {answer:?}");
        *(if is_refusal { &mut refused } else { &mut served }) += 1;
    };
    for request in right {
        let shown = format!("{request:?}");
        ask(&mut alone, request, false);
        assert_eq!(alone.jobs(), before, "{shown}");
    }
    tutti_testkit::nearly::read_frames(&samples, |bytes| {
        if let Ok(request) = serde_json::from_slice::<Request>(bytes) {
            let is_changed = !samples.iter().any(|sample| sample == bytes);
            ask(&mut alone, request, is_changed);
            assert_eq!(alone.jobs(), before);
        }
    });
    println!("{} kinds, {refused} refused, {served} served", kinds.len());
    assert!(kinds.len() >= 4 && refused > 0 && served > 0, "{kinds:?}, {refused}, {served}");
}
