//! A job of this machine takes turns with the others on it: the daemon of this node gets to know of it, and
//! is started if there is none.
//!
//! ```text
//! Started --AFTER--> connect --Enrol--> Answer::Job -> Started, Stopped, Continued, Ended, End   (we: as its starter)
//!                     | nobody there: start one, look again   <- Suspend, Resume, Signal, Kill   (the daemon)
//! ```
//!
//! The job never waits for a daemon. Where it has no cgroup the daemon stops it by signals; its starter lets
//! it run again when the daemon is gone, on our message. Until it takes part, and after the daemon's death,
//! it runs under the kernel's scheduler.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use tutti_os::cgroup;
use tutti_protocol::job_numbers::JobNumbers;
use tutti_protocol::paths;
use tutti_protocol::public::ARGUMENTS_VARIABLE;
use tutti_protocol::users::refusal::{Reason, read_answer};
use tutti_protocol::wire::{self, CONNECTED_MAX, FrameHeader, Job, Kind, Library, Report, Stalled};
use tutti_snapshot::DEADLOCK_ENDED;

use super::watch::Watch;
use crate::cluster::{self, Answer, Batch, JobId, Request, Terms};
use crate::link::Link;
use crate::nodes::Wanted;

/// A job that is over by then needs no daemon.
const AFTER: Duration = Duration::from_millis(50);
/// Between two looks for a daemon, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(2));
/// A daemon that we have started leaves when it was not needed for so long.
const LEAVE_SECONDS: &str = "30";
/// A daemon that was started answers within this time; between two looks.
const START_MAX: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);
/// A cluster gives a number within this time, or the job begins without one.
const NUMBER_MAX: Duration = Duration::from_millis(500);
/// The daemon's log is begun anew beyond this size.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// Actions that the daemon wants of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnrolAction {
    /// A frame for the starters.
    Put(Kind, u32, Vec<u8>),
    /// The ranks wait for each other for ever: a line for the user.
    Deadlock(String),
    /// The job is to end.
    Kill,
}

/// The job's place in the turns of this machine.
#[derive(Debug)]
pub struct Enrolment {
    job: Job,
    terms: Terms,
    /// Only its name: its time is ours to see to.
    batch: Batch,
    /// Cgroups that its starters may have made.
    cgroups: Vec<PathBuf>,
    /// The report of each starter when its ranks ran.
    started: Vec<Option<(Vec<u32>, Vec<String>)>>,
    /// Pids of ranks that other ranks have asked for since.
    later: Vec<u32>,
    link: Option<Link>,
    /// The starters' frames of a snapshot, until all have come.
    held: Vec<Vec<u8>>,
    /// Whether the ranks of each starter are still.
    stalled: Vec<Option<Stalled>>,
    /// The launches that ranks of each starter are connected to.
    connected: Vec<Vec<u64>>,
    /// Libraries on which ranks have begun with MPI.
    libraries: Vec<Library>,
    /// Lines of the daemon that the user has, and whether the last still holds.
    printed: Vec<String>,
    stuck: bool,
    wake_at: Option<Instant>,
    between: Duration,
    /// Whether the daemon at the other end of the link is stopped.
    watched: Option<Watch>,
    /// A line for the user about it.
    news: Option<String>,
    /// The daemon that we have started.
    daemon: Option<Child>,
    /// The job's number, while it takes part.
    pub number: Option<JobId>,
    /// Why it does not take part.
    pub refusal: Option<Refusal>,
}

/// Why a job does not take part: a line for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub text: String,
    /// Reason of a daemon; none: it has said none, or none was asked.
    pub reason: Option<Reason>,
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Refusal { text, reason: None }
    }
}

impl Enrolment {
    /// For a job on this machine alone, with so many virtual nodes if it has any; none: the user wants no
    /// daemon.
    pub fn new(job: &Job, nodes: usize, terms: Terms, name: &str) -> Option<Self> {
        // What a rank of a job starts has that job's turns.
        if is_unused() || std::env::var_os("TUTTI_JOB").is_some() {
            return None;
        }
        let numbers: Vec<_> = if nodes == 0 { vec![None] } else { (0..nodes as u32).map(Some).collect() };
        let places = numbers
            .iter()
            .map(|node| cgroup::place(&cgroup::name(&tutti_os::cgroup::part_name(job.id, *node))));
        Some(Enrolment {
            job: job.clone(),
            terms,
            batch: Batch { name: name.into(), ..Batch::default() },
            cgroups: places.collect::<Option<_>>().unwrap_or_default(),
            started: vec![None; numbers.len()],
            later: Vec::new(),
            link: None,
            held: Vec::new(),
            stalled: vec![None; numbers.len()],
            connected: vec![Vec::new(); numbers.len()],
            libraries: Vec::new(),
            printed: Vec::new(),
            stuck: false,
            wake_at: None,
            between: RETRY.0,
            watched: None,
            news: None,
            daemon: None,
            number: None,
            refusal: None,
        })
    }

    /// The ranks of a starter run.
    pub fn handle_started(&mut self, index: usize, pids: Vec<u32>, cores: Vec<String>) {
        self.started[index] = Some((pids, cores));
        if self.started.iter().all(Option::is_some) {
            self.wake_at = Some(Instant::now() + AFTER);
        }
    }

    /// Ranks that other ranks have asked for are there.
    pub fn handle_later(&mut self, pids: Vec<u32>, gone: Vec<u32>) {
        self.later.retain(|pid| !gone.contains(pid));
        self.later.extend(&pids);
        self.send_report(&Report::Later { pids, gone });
    }

    /// The ranks of a starter are stalled, or no longer: the daemon gets this of all together. A line for the
    /// user if that was not expected.
    pub fn handle_stalled(&mut self, index: usize, stalled: Option<Stalled>) -> Option<String> {
        let before = self.all_stalled();
        self.stalled[index] = stalled;
        let now = self.all_stalled();
        if now != before {
            self.send_report(&Report::Stalled(now.clone()));
        }
        (now.is_none() && std::mem::take(&mut self.stuck))
            .then(|| DEADLOCK_ENDED.to_owned())
            .filter(|text| self.is_new(text))
    }

    /// The ranks of a starter are connected to these launches: the daemon gets those of all together.
    pub fn handle_connected(&mut self, index: usize, jobs: &[u64]) {
        self.connected[index] = jobs.to_vec();
        self.send_report(&Report::Connected(self.all_connected()));
    }

    /// Ranks have begun with MPI on this library.
    pub fn handle_library(&mut self, library: Library) {
        if library.note(&mut self.libraries) {
            self.send_report(&Report::Library(library));
        }
    }

    fn all_connected(&self) -> Vec<u64> {
        let all: BTreeSet<u64> = self.connected.iter().flatten().copied().collect();
        all.into_iter().take(CONNECTED_MAX).collect()
    }

    /// The user has not had this line, and has it from now on.
    pub fn is_new(&mut self, text: &str) -> bool {
        let is_new = !self.printed.iter().any(|printed| printed == text);
        if is_new {
            self.printed.push(text.to_owned());
        }
        is_new
    }

    fn all_stalled(&self) -> Option<Stalled> {
        let all: Vec<&Stalled> = self.stalled.iter().map(Option::as_ref).collect::<Option<_>>()?;
        let number = all.iter().fold(0, |sum: u64, stalled| sum.wrapping_add(stalled.number));
        let found = all.into_iter().find(|stalled| stalled.deadlock.is_some()).cloned();
        Some(found.map_or(Stalled { number, ..Stalled::default() }, |found| Stalled { number, ..found }))
    }

    /// When there is something to do.
    pub fn wake_at(&self) -> Option<Instant> {
        let watch = self.watched.as_ref().map(Watch::wake_at);
        self.wake_at.into_iter().chain(watch).min()
    }

    /// A line for the user.
    pub fn poll_news(&mut self) -> Option<String> {
        self.news.take()
    }

    /// While the daemon is stopped, so are the jobs that it has frozen.
    fn watch(&mut self, now: Instant) {
        if let Some(pid) = self.watched.as_mut().and_then(|watch| watch.handle_time(now)) {
            self.news = Some(format!(
                "the daemon (pid {pid}) is stopped, and programs that wait for their turn stay frozen with it: kill -CONT {pid} resumes it, kill -KILL {pid} lets the programs run without it"
            ));
        }
    }

    /// To be polled.
    pub fn link(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    /// The daemon that we have started: it belongs to others too.
    pub fn daemon(&self) -> Option<Pid> {
        self.daemon.as_ref().map(Pid::from_child)
    }

    /// Looks for a daemon when it is time, and starts one.
    pub fn handle_time(&mut self, now: Instant) {
        self.watch(now);
        if self.wake_at.is_none_or(|wake_at| now < wake_at) {
            return;
        }
        self.wake_at = None;
        let Some(wire) = connect() else { return self.start(now) };
        let request = self.request().and_then(|request| Link::over(wire, &request));
        match request {
            Ok(mut link) => {
                link.send();
                self.watched = Watch::new(link.descriptor());
                self.link = Some(link);
            }
            Err(text) => self.refusal = Some(text.into()),
        }
    }

    fn request(&self) -> Result<Request, String> {
        let mut submit = cluster::submission(&self.job, &Wanted::default(), None, self.terms, &self.batch)?;
        // A running job has its environment already.
        submit.environment.clear();
        submit.script.reserved = self.job.number;
        submit.job.programs.iter_mut().for_each(|program| program.variables.clear());
        submit.job.input = tutti_protocol::wire::Input::None;
        Ok(Request::Enrol(Box::new(submit)))
    }

    /// Starts a daemon, unless one was named or ours is still on its way.
    fn start(&mut self, now: Instant) {
        self.wake_at = Some(now + self.between);
        let is_first = self.between == RETRY.0;
        self.between = (self.between * 2).min(RETRY.1);
        if paths::is_named() && is_first {
            let (socket, variable) = (paths::socket(), paths::SOCKET_VARIABLE);
            let text = format!("no daemon answers at {} ({variable})", socket.display());
            self.refusal = Some(text.into());
        }
        if paths::is_named()
            || self.daemon.as_mut().is_some_and(|daemon| matches!(daemon.try_wait(), Ok(None)))
        {
            return;
        }
        match start_daemon() {
            Ok(daemon) => self.daemon = Some(daemon),
            Err(text) => (self.wake_at, self.refusal) = (None, Some(text.into())),
        }
    }

    /// Reads frames of the daemon.
    pub fn handle_readable(&mut self) -> Vec<EnrolAction> {
        let Some(link) = &mut self.link else { return Vec::new() };
        if !link.receive() {
            return self.lose();
        }
        let (mut actions, mut lines, mut answer) = (Vec::new(), Vec::new(), None);
        loop {
            match link.decoder.next_frame() {
                Ok(Some((head @ FrameHeader { kind: Kind::Answer, .. }, payload))) => {
                    answer = read_answer(head, payload);
                }
                // It is being ended here already.
                Ok(Some((FrameHeader { kind: Kind::Kill, rank: wire::SPARE_FILTERS, .. }, _))) => {}
                Ok(Some((FrameHeader { kind: Kind::Kill, .. }, _))) => actions.push(EnrolAction::Kill),
                Ok(Some((FrameHeader { kind: Kind::Report, .. }, payload))) => {
                    // A daemon says nothing else in reports to a front end that runs the ranks itself.
                    if let Ok(Report::Warning(text)) = serde_json::from_slice(payload) {
                        lines.push(text);
                    }
                }
                Ok(Some((
                    FrameHeader {
                        kind:
                            kind @ (Kind::Suspend
                            | Kind::Resume
                            | Kind::Signal
                            | Kind::Hold
                            | Kind::Release
                            | Kind::Terminated),
                        rank,
                        ..
                    },
                    payload,
                ))) => {
                    if kind == Kind::Hold {
                        self.held.clear();
                    }
                    actions.push(EnrolAction::Put(kind, rank, payload.to_vec()));
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => {
                    answer = Some(Answer::Refused("the daemon is of another version".into()));
                    break;
                }
            }
        }
        for text in lines {
            self.stuck = true;
            if self.is_new(&text) {
                actions.push(EnrolAction::Deadlock(text));
            }
        }
        match answer {
            Some(Answer::Job(job)) => {
                (self.number, self.between) = (Some(job), RETRY.0);
                let (pids, cores): (Vec<_>, Vec<_>) = self.started.iter().flatten().cloned().unzip();
                self.send_report(&Report::Started { pids: pids.concat(), cores: cores.concat() });
                self.send_report(&Report::Later { pids: self.later.clone(), gone: Vec::new() });
                self.send_report(&Report::Stalled(self.all_stalled()));
                self.send_report(&Report::Connected(self.all_connected()));
                for library in self.libraries.clone() {
                    self.send_report(&Report::Library(library));
                }
            }
            Some(Answer::Refused(text)) => self.leave(text.into()),
            Some(Answer::Because(reason, text)) => self.leave(Refusal { text, reason: Some(reason) }),
            _ => {}
        }
        actions
    }

    /// The job does not take part.
    fn leave(&mut self, refusal: Refusal) {
        (self.refusal, self.link, self.watched) = (Some(refusal), None, None);
    }

    /// Sends what can be sent.
    pub fn handle_writable(&mut self) {
        self.link.iter_mut().for_each(Link::send);
    }

    /// Sends a report to the daemon.
    pub fn send_report(&mut self, report: &Report) {
        if let Some(link) = self.link.as_mut().filter(|_| self.number.is_some()) {
            let payload = serde_json::to_vec(report).expect("reports are serialisable");
            link.put(Kind::Report, 0, &payload);
        }
    }

    /// A frame of a starter for a snapshot: the daemon gets it when those of all starters are here.
    pub fn handle_held(&mut self, kind: Kind, payload: &[u8]) {
        self.held.push(payload.to_vec());
        if self.held.len() < self.started.len() {
            return;
        }
        let held = std::mem::take(&mut self.held);
        let Some(number) = held[0].get(..8) else { return };
        let mut rests = held.iter().filter_map(|payload| payload.get(8..));
        let rest = match kind {
            // What the nodes see, one behind the other.
            Kind::Held => rests.collect::<Vec<_>>().join(&b","[..]),
            // It is whole if it is whole everywhere.
            _ => rests.by_ref().min().unwrap_or_default().to_vec(),
        };
        if let Some(link) = self.link.as_mut().filter(|_| self.number.is_some()) {
            link.put(kind, 0, &[number, &rest].concat());
        }
    }

    /// The daemon is gone, perhaps in the middle of another's turn: no rank stays frozen.
    fn lose(&mut self) -> Vec<EnrolAction> {
        (self.link, self.number, self.watched) = (None, None, None);
        self.cgroups.iter().for_each(|path| cgroup::thaw(path));
        self.wake_at = Some(Instant::now() + self.between);
        self.between = (self.between * 2).min(RETRY.1);
        vec![EnrolAction::Put(Kind::Thaw, 0, Vec::new())]
    }
}

/// The number of a job of this machine, before any daemon knows of it. That of the job of which it is a part,
/// else one that the cluster of this node gives, else the next one of the series. None: a cluster gives it
/// one when it takes part, or there is no folder for the series.
pub fn draw_number() -> Option<u64> {
    if std::env::var_os("TUTTI_JOB").is_some() {
        return std::env::var("TUTTI_JOBID").ok()?.parse().ok();
    }
    if !is_unused() && cluster::is_there() {
        return cluster::reserve_number(NUMBER_MAX);
    }
    JobNumbers::of(&paths::folder()).draw(1).ok()
}

/// The user wants no daemon.
fn is_unused() -> bool {
    std::env::var_os(paths::SOCKET_VARIABLE).is_some_and(|socket| socket == paths::NO_DAEMON)
}

/// The wire to the daemon of this node: the cluster's, else the one that was started on demand.
fn connect() -> Option<OwnedFd> {
    cluster::stream().ok().map(OwnedFd::from)
}

/// Starts the daemon of this user, where there is none and none was named, and waits until it answers.
pub fn start_daemon_if_missing() -> Result<(), String> {
    let is_wanted = || !paths::is_named() && !cluster::is_answered() && connect().is_none();
    if !is_wanted() {
        return Ok(());
    }
    let mut daemon = start_daemon()?;
    let deadline = Instant::now() + START_MAX;
    while is_wanted() {
        // Another one may have been faster: then ours leaves, and the other answers.
        let has_left = matches!(daemon.try_wait(), Ok(Some(_)));
        if Instant::now() >= deadline || has_left && !paths::on_demand().join(paths::SOCKET).exists() {
            return Err(format!(
                "the daemon of this user does not start: {} says why",
                paths::on_demand().join("tuttid.log").display()
            ));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

fn start_daemon() -> Result<Child, String> {
    let folder = paths::on_demand();
    let program = paths::daemon();
    let failed = |error| format!("cannot use the folder {}: {error}", folder.display());
    paths::make(&paths::folder(), rustix::process::geteuid().is_root()).map_err(failed)?;
    paths::make(&folder, false).map_err(failed)?;
    let log = folder.join("tuttid.log");
    let is_long = std::fs::metadata(&log).is_ok_and(|found| found.len() > LOG_BYTES_MAX);
    let log = paths::open_log(&log, is_long).map_err(failed)?;
    // It serves all jobs of the user: nothing of this one's environment is its business.
    let inherited =
        ["PATH", "HOME", "USER", "LANG", "TUTTI_LOG", "TUTTI_STARTER", "XDG_STATE_HOME", ARGUMENTS_VARIABLE];
    let inherited = inherited.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    Command::new(&program)
        .env_clear()
        .envs(inherited)
        .args(["--on-demand", "--listen", "127.0.0.1:0", "--leave-after", LEAVE_SECONDS, "--dir"])
        .arg(&folder)
        .arg("--state")
        .arg(&folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))
}
