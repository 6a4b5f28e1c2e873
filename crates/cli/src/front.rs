//! `mpiexec`'s life: parse, check, start a starter for each node, then one poll loop until the job is over. Of several
//! starters it is the hub: they know nothing of each other.
//!
//! | from | what happens |
//! |---|---|
//! | a starter | output is written; while it cannot be, nothing more is read, so the ranks wait in their writes |
//! | a starter | the job ends on its node: it is killed on the others |
//! | all starters | where their ranks are reached: all are told of all, and start their ranks |
//! | all starters | all their ranks are in a barrier of PMI: all are told what all have put |
//! | INT, TERM, HUP, QUIT | forwarded, to a stopped job after it goes on; a second one, or [`PATIENCE`] later: killed |
//! | TSTP | the job is stopped, then we are; CONT: both go on |
//! | USR1, USR2, WINCH | forwarded; the terminals of the ranks get the size of ours first |
//! | `~.` typed, HUP with --detach-on-hangup | a job of the cluster is left alone |
//! | stdin | read for the ranks that get it, a terminal only while we are in its foreground (W25) |
//! | nobody reads our stdout | the job is killed, we die of SIGPIPE as any program of a pipeline does |

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::stdio::stdin;
use tutti_node::netns::Namespaces;
use tutti_node::os::{self, Signals};
use tutti_node::wire::{self, Head, Input, Kind, Reached, Report};

use crate::cluster::{self, Answer, JobId};
use crate::description;
use crate::link::{self, Link, State};
use crate::nodes::{Nodes, Wanted};
use crate::options::{self, Options, Request};
use crate::stdio::Stdio;

mod ending;
mod enrolment;
mod escape;
mod terminal;

use enrolment::{Enrolment, Wish};
use escape::Escape;
use terminal::{Keys, in_foreground};

/// A job that was asked to end has this time before it is killed.
const PATIENCE: Duration = Duration::from_secs(1);
/// A frame of this length without a newline at its end is a part of a long line.
const LONG_BYTES: usize = wire::DATA_BYTES_MAX / 2;
/// The rest of a long line has this time to follow before others speak.
const FLOOR: Duration = Duration::from_millis(500);
/// A report of this age may be older than the signal to go on that came before it.
const OUTRUN: Duration = Duration::from_millis(200);
/// Exit status of a wrong command line.
pub const USAGE: u8 = 2;

/// Runs the command line under the given name.
pub fn run(name: &'static str, arguments: Vec<OsString>) -> ExitCode {
    let mut options = match options::parse_as(&arguments, name == "tutti run") {
        Ok(Request::Run(options)) => with_environment(*options),
        Ok(Request::Version) => return crate::print(Some(format!("{}\n", options::VERSION)), ""),
        Ok(Request::Help) => return crate::print(Some(options::help(name)), ""),
        Err(error) => return refuse(name, &error.to_string(), USAGE),
    };
    options.cluster = name == "tutti run" && is_for_the_cluster(&options);
    if !options.foreign.is_empty() && !options.quiet {
        eprintln!("{name}: {} steers another launcher and is ignored here", options.foreign.join(", "));
    }
    match description::describe(&options) {
        Ok(described) => {
            match Front::start(name, options, described.job.id, || link::start_all(&described)) {
                Ok(mut front) => {
                    let is_local = !matches!(described.nodes, Nodes::Cluster(_));
                    let nodes = described.nodes.first_ranks().len();
                    front.enrolment =
                        is_local.then(|| Enrolment::new(&described.job, nodes, described.terms)).flatten();
                    ExitCode::from(front.go_on())
                }
                Err(error) => refuse(name, &error, 1),
            }
        }
        Err((text, status)) => refuse(name, &text, status),
    }
}

/// Becomes the front end of a job of the cluster.
pub fn attach(job: JobId) -> ExitCode {
    let name = "tutti attach";
    let words = [OsString::from("job")];
    let Ok(Request::Run(options)) = options::parse(&words) else {
        unreachable!("a program alone is a command line")
    };
    let link = || Ok((vec![Link::ask(&cluster::Request::Attach(job))?], None));
    match Front::start(name, *options, 0, link) {
        Ok(mut front) => ExitCode::from(front.go_on()),
        Err(error) => refuse(name, &error, 1),
    }
}

/// Parses and checks the command line of `tutti submit`.
///
/// # Errors
/// When it is wrong; it has been said, this is the exit status.
pub fn submission(arguments: &[OsString]) -> Result<cluster::Submit, ExitCode> {
    let name = "tutti submit";
    let mut options = match options::parse_as(arguments, true) {
        Ok(Request::Run(options)) => options,
        Ok(Request::Version) => return Err(crate::print(Some(format!("{}\n", options::VERSION)), "")),
        Ok(Request::Help) => return Err(crate::print(Some(options::help(name)), "")),
        Err(error) => return Err(refuse(name, &error.to_string(), USAGE)),
    };
    options.cluster = true;
    let described = description::describe(&options).map_err(|(text, status)| refuse(name, &text, status))?;
    let mut job = described.job;
    job.terminal = None;
    // Nobody types for it; who attaches only watches.
    job.input = Input::None;
    let nodes = match described.nodes {
        Nodes::Cluster(wanted) => wanted,
        _ => Wanted::default(),
    };
    cluster::submission(&job, &nodes, options.ranks_per_node, options.terms)
        .map_err(|text| refuse(name, &text, 1))
}

/// `tutti run` asks the cluster, if there is one and nothing else was said.
fn is_for_the_cluster(options: &Options) -> bool {
    let elsewhere = options.virtual_nodes.is_some()
        || options.namespaces.is_some()
        || std::env::var_os(crate::nodes::TRANSPORT_VARIABLE).is_some_and(|value| !value.is_empty());
    !elsewhere && cluster::is_there()
}

/// MPIEXEC_TIMEOUT is MPICH's.
fn with_environment(mut options: Options) -> Options {
    if options.timeout.is_none() {
        let seconds = std::env::var("MPIEXEC_TIMEOUT").ok().and_then(|seconds| seconds.parse::<u32>().ok());
        options.timeout =
            seconds.filter(|seconds| *seconds > 0).map(|seconds| Duration::from_secs(seconds.into()));
    }
    options
}

fn refuse(name: &str, text: &str, status: u8) -> ExitCode {
    eprintln!("{name}: {text}");
    ExitCode::from(status)
}

/// What becomes of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It runs.
    Open,
    /// It was asked to end by this signal.
    Asked(i32),
    /// We go, it goes on.
    Detaching,
    /// It is being killed; this is our exit status.
    Killed(u8),
}

struct Front {
    name: &'static str,
    options: Options,
    /// By node.
    links: Vec<Link>,
    /// The switch between the nodes' namespaces works as long as we hold it.
    _namespaces: Option<Namespaces>,
    signals: Signals,
    stdio: Stdio,
    /// Stdin has not ended.
    input_open: bool,
    /// The link that has begun to say a line longer than a frame, and until when the others wait for its rest.
    floor: Option<(usize, Instant)>,
    end: End,
    /// The node on which the job ended by itself: only it is asked why.
    ender: Option<usize>,
    /// When we were last told to go on.
    continued: Option<Instant>,
    /// When patience, or the job's time, is over.
    deadline: Option<Instant>,
    /// The job's random number.
    job: u64,
    /// Its number in the cluster.
    number: Option<JobId>,
    /// A job of this machine alone takes turns with the others on it.
    enrolment: Option<Enrolment>,
    /// The user's terminal is rank 0's.
    keys: Option<Keys>,
    /// What is typed to a job of the cluster may say that we are to go.
    escape: Option<Escape>,
    /// Exit status of the job: the first that was not 0.
    status: u8,
}

impl Front {
    fn start(
        name: &'static str,
        options: Options,
        job: u64,
        links: impl FnOnce() -> Result<(Vec<Link>, Option<Namespaces>), String>,
    ) -> Result<Self, String> {
        let system = |action: &'static str| move |error: io::Error| format!("cannot {action}: {error}");
        let wanted = [
            libc_signal(Signal::INT),
            libc_signal(Signal::TERM),
            libc_signal(Signal::HUP),
            libc_signal(Signal::QUIT),
            libc_signal(Signal::TSTP),
            libc_signal(Signal::CONT),
            libc_signal(Signal::USR1),
            libc_signal(Signal::USR2),
            libc_signal(Signal::WINCH),
        ];
        let mut stdio = Stdio::new(options.label, options.output_file.clone(), options.errors_file.clone())
            .map_err(system("use standard output"))?;
        // If a starter dies, what it leaves behind is ours to end.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| format!("cannot adopt orphans: {error}"))?;
        let mut keys = options.pty.then(Keys::new).transpose()?;
        let (links, namespaces) = links()?;
        let signals = match Signals::new(&wanted) {
            Ok(signals) => signals,
            Err(error) => {
                links.into_iter().for_each(Link::abandon);
                return Err(system("catch signals")(error));
            }
        };
        keys.iter_mut().for_each(Keys::take);
        stdio.raw = keys.is_some();
        let of_cluster = links.iter().any(Link::is_daemon);
        let deadline = options.timeout.map(|timeout| Instant::now() + timeout);
        Ok(Front {
            name,
            options,
            links,
            _namespaces: namespaces,
            signals,
            input_open: true,
            floor: None,
            end: End::Open,
            ender: None,
            continued: None,
            deadline,
            job,
            number: None,
            enrolment: None,
            escape: (of_cluster && rustix::termios::isatty(stdin())).then(Escape::default),
            stdio,
            keys,
            status: 0,
        })
    }

    /// Until the job is over; gives the exit status.
    fn go_on(&mut self) -> u8 {
        self.links.iter_mut().for_each(Link::send);
        loop {
            self.handle_frames();
            if self.stdio.is_idle() && !self.links.iter().any(Link::is_alive) {
                return self.leave();
            }
            let ready = self.wait();
            if ready.signals {
                self.handle_signals();
            }
            if ready.output && !self.stdio.is_idle() {
                self.write();
            }
            if ready.input {
                self.read_input();
            }
            self.take_turns(ready.daemon);
            for (index, flags) in ready.links {
                if flags.contains(PollFlags::OUT) {
                    self.links[index].send();
                }
                let read = flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
                if read && self.hears(index) && !self.links[index].receive() {
                    self.bury_starter(index);
                }
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
                && let Some(status) = self.handle_deadline()
            {
                return status;
            }
        }
    }

    /// Whether frames of a link may be taken now: not reading the wire is what makes ranks wait when our stdout does.
    fn hears(&self, index: usize) -> bool {
        self.stdio.is_idle() && self.floor.is_none_or(|(holder, _)| holder == index)
    }

    fn wait(&mut self) -> Ready {
        let idle = self.stdio.is_idle();
        let input = self.input_open && self.takes_input() && in_foreground();
        let mut polled = vec![PollFd::from_borrowed_fd(self.signals.descriptor(), PollFlags::IN)];
        let mut listened = Vec::new();
        for (index, link) in self.links.iter().enumerate().filter(|(_, link)| link.is_alive()) {
            let send = if link.has_to_send() { PollFlags::OUT } else { PollFlags::empty() };
            let receive = if self.hears(index) { PollFlags::IN } else { PollFlags::empty() };
            // One that we do not want to hear would tell of its end again and again.
            if !(send | receive).is_empty() {
                polled.push(PollFd::from_borrowed_fd(link.descriptor(), send | receive));
                listened.push(index);
            }
        }
        let output_at = self.stdio.waits_for().map(|descriptor| {
            polled.push(PollFd::from_borrowed_fd(descriptor, PollFlags::OUT));
            polled.len() - 1
        });
        let input_at = input.then(|| {
            polled.push(PollFd::from_borrowed_fd(stdin(), PollFlags::IN));
            polled.len() - 1
        });
        let daemon = self.enrolment.as_ref().and_then(Enrolment::link).map(|link| {
            let send = if link.has_to_send() { PollFlags::OUT } else { PollFlags::empty() };
            polled.push(PollFd::from_borrowed_fd(link.descriptor(), send | PollFlags::IN));
            polled.len() - 1
        });
        let look = self.enrolment.as_ref().and_then(Enrolment::look);
        let wakes = [self.deadline, self.floor.map(|(_, until)| until), look];
        let mut left =
            wakes.into_iter().flatten().min().map(|wake| wake.saturating_duration_since(Instant::now()));
        if !idle && output_at.is_none() {
            left = Some(Duration::ZERO);
        }
        let timeout = left.map(|left| Timespec::try_from(left).expect("less than a century"));
        if poll(&mut polled, timeout.as_ref()).is_err() {
            return Ready {
                links: Vec::new(),
                signals: false,
                output: false,
                input: false,
                daemon: PollFlags::empty(),
            };
        }
        let flags = |at: usize| polled[at].revents();
        Ready {
            links: listened.iter().enumerate().map(|(at, index)| (*index, flags(at + 1))).collect(),
            signals: !flags(0).is_empty(),
            output: output_at.map_or(!idle, |at| !flags(at).is_empty()),
            input: input_at.is_some_and(|at| !flags(at).is_empty()),
            daemon: daemon.map_or(PollFlags::empty(), flags),
        }
    }

    /// Takes frames until one has to wait for our stdout.
    fn handle_frames(&mut self) {
        if self.floor.is_some_and(|(_, until)| Instant::now() >= until) {
            self.floor = None;
        }
        let mut index = 0;
        while index < self.links.len() && self.stdio.is_idle() {
            let held = self.floor.is_some();
            if !self.hears(index) || !self.handle_frame(index) {
                index += 1;
            } else if held && self.floor.is_none() {
                // Those who waited for the end of the long line.
                index = 0;
            }
        }
    }

    /// Takes a frame of a link; `false` when there is none.
    fn handle_frame(&mut self, index: usize) -> bool {
        let (head, report) = match self.links[index].decoder.next_frame() {
            Ok(Some((head @ Head { kind: Kind::Output | Kind::Errors, .. }, payload))) => {
                let goes_on =
                    payload.last() != Some(&b'\n') && (self.floor.is_some() || head.bytes >= LONG_BYTES);
                self.stdio.take(head.kind, head.rank, payload);
                self.floor = goes_on.then(|| (index, Instant::now() + FLOOR));
                // A file takes it at once; for a pipe the poll decides.
                while self.stdio.waits_for().is_none() && !self.stdio.is_idle() {
                    self.write();
                }
                return true;
            }
            Ok(Some((Head { kind: Kind::Fence, rank, .. }, payload))) => {
                self.links[index].fence = Some((rank, payload.to_vec()));
                self.tell_fence();
                return true;
            }
            Ok(Some((Head { kind: kind @ (Kind::Held | Kind::Released), .. }, payload))) => {
                let payload = payload.to_vec();
                self.enrolment.iter_mut().for_each(|enrolment| enrolment.handle_held(kind, &payload));
                return true;
            }
            Ok(Some((Head { kind: Kind::Answer, .. }, payload))) => {
                let answer = serde_json::from_slice(payload).ok();
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
                if self.options.verbose {
                    self.complain(&format!("this is job {job}"));
                }
            }
            Some(Answer::Refused(text)) => {
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
        // Who asked the job to end knows why it ended; and what happens elsewhere after its end is only a consequence.
        let is_news = self.end == End::Open && self.ender.is_none_or(|ender| ender == index);
        match report {
            Report::Addresses(reached) => {
                self.links[index].reached = Some(reached);
                self.tell_addresses();
            }
            Report::Started { pids, cores } => {
                self.links[index].input_room = true;
                self.tell_places(index, &pids, &cores);
                if let Some(enrolment) = &mut self.enrolment {
                    enrolment.handle_started(index, pids, cores);
                }
            }
            Report::InputTaken => self.links[index].input_room = true,
            Report::InputUnwanted => self.links[index].wants_input = false,
            Report::Suspended => {
                self.links[index].suspended = true;
                // A daemon that has let us go on since may have been faster than its own report: nobody would do it again.
                let outrun = self.links[index].is_daemon()
                    && self.continued.take().is_some_and(|when| when.elapsed() < OUTRUN);
                if outrun {
                    self.links[index].suspended = false;
                } else if self.links.iter().all(|link| link.suspended || !link.is_alive()) {
                    self.keys.iter_mut().for_each(Keys::give_back);
                    self.enrolment.iter_mut().for_each(|enrolment| enrolment.say(&Report::Stopped));
                    // Stops here, until somebody continues us.
                    os::raise_default(libc_signal(Signal::TSTP));
                    self.keys.iter_mut().for_each(Keys::take);
                    self.links.iter_mut().for_each(|link| link.suspended = false);
                    self.put(Kind::Resume, 0, &[]);
                    self.enrolment.iter_mut().for_each(|enrolment| enrolment.say(&Report::Continued));
                }
            }
            Report::Stopped => self.put(Kind::Suspend, 0, &[]),
            // What we say ourselves, to a daemon.
            Report::Continued => {}
            Report::Detached => {
                let job = self.number.map_or_else(String::new, |job| job.to_string());
                self.complain(&format!("job {job} goes on; `tutti attach {job}` comes back to it"));
                self.links[index].state = State::Over;
            }
            Report::Ending { status } => {
                self.note(status);
                if self.ender.is_none() {
                    self.ender = Some(index);
                    let others = self.links.iter_mut().enumerate().filter(|(other, _)| *other != index);
                    others.for_each(|(_, link)| link.put(Kind::Kill, 0, &[]));
                }
            }
            Report::Ended(ended) => {
                self.note(ended.cause.status());
                if let Some(text) = ending::ended_text(&ended).filter(|_| is_news) {
                    self.complain(&text);
                }
            }
            Report::Refused(text) if is_news => self.complain(&text),
            Report::Refused(_) => {}
            Report::Warning(text) => self.complain(&text),
            Report::Still(still) => {
                let enrolment = self.enrolment.as_mut();
                let line = enrolment.and_then(|enrolment| enrolment.handle_still(index, still));
                line.iter().for_each(|text| self.complain(text));
            }
            Report::Left => {
                self.links[index].left = true;
                if self.links.iter().all(|link| link.left || !link.is_alive()) {
                    self.put(Kind::Leave, 0, &[]);
                }
            }
            Report::End { status } => {
                self.note(status);
                self.links[index].state = State::Over;
                self.floor = self.floor.filter(|(holder, _)| *holder != index);
            }
        }
    }

    /// What the daemon of this node has to do with a job that it has not started.
    fn take_turns(&mut self, ready: PollFlags) {
        let Some(enrolment) = &mut self.enrolment else { return };
        enrolment.handle_time(Instant::now());
        if ready.contains(PollFlags::OUT) {
            enrolment.handle_writable();
        }
        let read = ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
        let wishes = if read { enrolment.handle_readable() } else { Vec::new() };
        let refusal = enrolment.refusal.take().filter(|_| self.options.verbose);
        if let Some(text) = refusal {
            self.complain(&format!("the job runs without turns: {text}"));
        }
        for wish in wishes {
            match wish {
                Wish::Put(kind, number, payload) => self.put(kind, number, &payload),
                Wish::Say(text) => self.complain(&text),
                Wish::Kill => self.kill(128 + libc_signal(Signal::KILL) as u8),
            }
        }
    }

    /// The first status that is not 0 is the job's.
    fn note(&mut self, status: u8) {
        if self.status == 0 {
            self.status = status;
        }
    }

    /// As soon as it is known where all ranks are reached, all nodes are told; then they start them.
    fn tell_addresses(&mut self) {
        let known: Option<Vec<_>> = self.links.iter().map(|link| link.reached.as_ref()).collect();
        let Some(known) = known else { return };
        let json = serde_json::to_vec(&Reached::of_all(known)).expect("addresses are serialisable");
        self.put(Kind::Peers, 0, &json);
    }

    /// As soon as all ranks of all nodes are in a barrier of PMI, all nodes are told, and what the others have put.
    fn tell_fence(&mut self) {
        let number =
            self.links.iter().map(|link| link.fence.as_ref().map(|(number, _)| *number)).min().flatten();
        let Some(number) = number else { return };
        let puts: Vec<_> = self.links.iter_mut().filter_map(|link| Some(link.fence.take()?.1)).collect();
        self.put(Kind::Fence, number, &puts.concat());
    }

    fn tell_places(&self, index: usize, pids: &[u32], cores: &[String]) {
        let Link { first_rank, node, .. } = &self.links[index];
        let node = node.map_or_else(String::new, |node| format!(" on node {node}"));
        for (rank, (pid, cores)) in (*first_rank..).zip(pids.iter().zip(cores)) {
            let place = if cores.is_empty() { "not bound".into() } else { format!("bound to cores {cores}") };
            if self.options.verbose {
                self.complain(&format!("rank {rank} is pid {pid}{node}, {place}"));
            } else if self.options.report_bindings {
                self.complain(&format!("rank {rank} is{node} {place}"));
            }
        }
    }

    fn handle_signals(&mut self) {
        while let Some(number) = self.signals.next_signal() {
            let Some(signal) = Signal::from_named_raw(number) else { continue };
            if signal == Signal::TSTP {
                self.put(Kind::Suspend, 0, &[]);
            } else if signal == Signal::CONT {
                // Perhaps in the foreground again.
                self.keys.iter_mut().for_each(Keys::take);
                self.continued = Some(Instant::now());
                self.put(Kind::Resume, 0, &[]);
            } else if signal == Signal::WINCH {
                // A daemon signals the ranks by itself.
                if let Some(size) = terminal::window() {
                    self.put(Kind::Window, size, &[]);
                }
                let starters = self.links.iter_mut().filter(|link| !link.is_daemon());
                starters.for_each(|link| link.put(Kind::Signal, number as u32, &[]));
            } else if signal == Signal::HUP && self.options.detach_on_hangup {
                self.detach();
            } else if signal == Signal::USR1 || signal == Signal::USR2 {
                self.put(Kind::Signal, number as u32, &[]);
            } else if self.end == End::Open {
                self.end = End::Asked(number);
                self.deadline = Some(Instant::now() + PATIENCE);
                self.put(Kind::Resume, 0, &[]);
                self.put(Kind::Signal, number as u32, &[]);
            } else {
                self.kill(128 + number as u8);
            }
        }
    }

    /// We go, the job goes on.
    fn detach(&mut self) {
        if self.end == End::Open {
            self.end = End::Detaching;
            self.stdio.discard();
            self.deadline = Some(Instant::now() + PATIENCE);
            // One that stands still was stopped for our sake.
            self.put(Kind::Resume, 0, &[]);
            self.put(Kind::Detach, 0, &[]);
        }
    }

    fn write(&mut self) {
        let Err((kind, name, error)) = self.stdio.write() else { return };
        self.stdio.discard();
        if self.options.detach_on_hangup && error == rustix::io::Errno::IO {
            // The terminal is gone before its signal has come.
            self.detach();
        } else if error != rustix::io::Errno::PIPE {
            let reason = io::Error::from(error);
            self.complain(&format!("cannot write the job's output to {name}: {reason}; the job is ended"));
            self.kill(1);
        } else if kind == Kind::Output {
            self.kill(128 + libc_signal(Signal::PIPE) as u8);
        } else {
            self.kill(1);
        }
    }

    /// Somebody wants input, and all who do have taken the last piece.
    fn takes_input(&self) -> bool {
        let mut takers = self.links.iter().filter(|link| link.is_alive() && link.wants_input).peekable();
        takers.peek().is_some() && takers.all(|link| link.input_room && !link.has_to_send())
    }

    fn read_input(&mut self) {
        let mut bytes = vec![0_u8; wire::DATA_BYTES_MAX];
        let read = match rustix::io::read(stdin(), &mut bytes[..]) {
            Ok(read) => read,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return,
            Err(_) => 0,
        };
        self.input_open = read > 0;
        let mut typed = bytes[..read].to_vec();
        if let Some(escape) = self.escape.as_mut().filter(|_| read > 0) {
            let (passed, leaves) = escape.filter(&typed);
            if leaves {
                return self.detach();
            }
            if passed.is_empty() {
                return;
            }
            typed = passed;
        }
        for link in self.links.iter_mut().filter(|link| link.wants_input) {
            link.input_room = false;
            link.put(Kind::Input, 0, &typed);
        }
    }

    /// Says something to all starters.
    fn put(&mut self, kind: Kind, number: u32, payload: &[u8]) {
        self.links.iter_mut().for_each(|link| link.put(kind, number, payload));
    }

    fn complain(&self, text: &str) {
        let return_first = if self.keys.as_ref().is_some_and(Keys::is_raw) { "\r" } else { "" };
        // A closed terminal takes nothing any more.
        let _ = writeln!(io::stderr(), "{}: {text}{return_first}", self.name);
    }
}

struct Ready {
    /// Which links, and for what.
    links: Vec<(usize, PollFlags)>,
    signals: bool,
    output: bool,
    input: bool,
    /// What the daemon of this node is ready for.
    daemon: PollFlags,
}

fn libc_signal(signal: Signal) -> i32 {
    signal.as_raw()
}
