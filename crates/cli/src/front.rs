//! `mpiexec`'s life: parse, check, start a starter for each node, then one poll loop until the job is over.
//! Of several starters it is the hub: they know nothing of each other.
//!
//! | from | what happens |
//! |---|---|
//! | a starter | output is written; while it cannot be, little more is read, so the ranks wait in their writes |
//! | a starter | the job ends on its node: it is killed on the others |
//! | all starters | where their ranks are reached: the addresses of all go to all, which start their ranks |
//! | all starters | all their ranks are in a barrier of PMI: what all have put goes to all |
//! | INT, TERM, HUP, QUIT | forwarded, to a stopped job after it runs again; a second one, or a second later: killed |
//! | TSTP | the job is stopped, then we are; CONT: both run again |
//! | USR1, USR2, WINCH | forwarded; the terminals of the ranks get the size of ours first |
//! | `~.` typed, HUP with --detach-on-hangup | a job of the cluster is left alone |
//! | stdin | read for the ranks that get it, a terminal only while we are in its foreground |
//! | the end of the daemon's wire | its successor is awaited, and told how far the output has come |
//! | our stdout has no reader | the job is killed, we die of SIGPIPE as any program of a pipeline does |

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::stdio::stdin;
use tutti_os::Signals;
use tutti_os::netns::Namespaces;
use tutti_os::stderr::print_line;
use tutti_protocol::wire::{Counted, Input, Kind, Used};

use crate::cluster::JobId;
pub use crate::description::Place;
use crate::link::Link;
use crate::options::Options;
use crate::origin::OriginServer;
use crate::stdio::{Labels, Stdio};

mod comeback;
mod command;
mod ending;
mod enrolment;
mod escape;
mod floor;
mod hub;
mod signals;
mod stall;
mod streams;
mod submission;
mod terminal;
mod watch;

use comeback::Comeback;
pub use command::{attach, run, start_daemon_if_missing, start_of};
use enrolment::Enrolment;
use escape::Escape;
use floor::Floor;
use stall::StallJudge;
pub use submission::{Submission, request_of, submission};
use terminal::{Keys, in_foreground};
use watch::Watch;

/// Stages of the job on the way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Running.
    Open,
    /// Asked to end by this signal.
    Requested(i32),
    /// Asked to end, since its time is over.
    TimedOut,
    /// We detach, it continues.
    Detaching,
    /// Being killed; this is our exit status.
    Killed(u8),
}

struct Front {
    name: &'static str,
    options: Options,
    /// By node.
    links: Vec<Link>,
    /// Serves the job's files.
    origin: Option<OriginServer>,
    /// Counts of the ranks of nodes that have left so far, if the user wants to know.
    counted: Option<Counted>,
    /// The switch between the nodes' namespaces works as long as we hold it.
    _namespaces: Option<Namespaces>,
    signals: Signals,
    stdio: Stdio,
    /// Stdin has not ended.
    input_open: bool,
    /// Output that waits, and which link is in the middle of a line longer than a frame.
    floor: Floor,
    end: End,
    /// The node on which the job ended by itself: only it is asked why.
    ender: Option<usize>,
    /// Whether it ended there with status 0: what the other nodes report is a consequence.
    ends_well: bool,
    /// Number of the last order of new ranks, and whether it is not known yet how they began.
    spawn: (u32, bool),
    /// No rank is left, and all starters know it.
    may_leave: bool,
    /// The first part with a reason why it does not start.
    refuser: Option<usize>,
    /// Says that its user has asked for its stop.
    wants_stop: bool,
    /// When we last got SIGCONT.
    continued: Option<Instant>,
    /// When patience, or the job's time, is over.
    deadline: Option<Instant>,
    /// The job's random number.
    job: u64,
    /// Number of the job in the cluster.
    number: Option<JobId>,
    /// The daemon in place of the starters of a job of the cluster.
    daemon: Option<Watch>,
    /// The way to its successor.
    comeback: Comeback,
    /// A job of this machine alone takes turns with the others on it.
    enrolment: Option<Enrolment>,
    /// Of a job on virtual nodes: whether it is in a deadlock, while no daemon looks.
    judge: Option<StallJudge>,
    /// The user's terminal is rank 0's.
    keys: Option<Keys>,
    /// Keys for a job of the cluster may hold the escape.
    escape: Option<Escape>,
    /// Exit status of the job: the first that was not 0.
    status: u8,
    /// Use of the processes of nodes, as their starters have said it.
    used: Option<Used>,
    /// Way to a rank 0 that was there before: it exits with the status that comes here if the job fails.
    adopted: Option<OwnedFd>,
    /// The job is idle, and what its user wants done then has been done.
    idle_acted: bool,
    /// A line about the end of the job, to stand behind all that ranks have written.
    late_notice: Option<String>,
}

impl Front {
    fn start(
        name: &'static str,
        options: Options,
        job: u64,
        ranks: u64,
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
        let labels = Labels::new(options.output.label, options.output.label_columns);
        let mut stdio = Stdio::new(labels, options.output.stdout.clone(), options.output.stderr.clone())
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
        // Before the job is sent to them, so that nothing of it has run when a file cannot be written.
        if let Err(text) = stdio.open(ranks) {
            links.into_iter().for_each(Link::abandon);
            return Err(text);
        }
        keys.iter_mut().for_each(Keys::take);
        stdio.raw = keys.is_some();
        let of_cluster = links.iter().any(Link::is_daemon);
        let comeback = Comeback::new(links.iter().find(|link| link.is_daemon()));
        let daemon =
            links.iter().find(|link| link.is_daemon()).and_then(|link| Watch::new(link.descriptor()));
        // The controller sees to that of a job of the cluster.
        let deadline = options.timeout.filter(|_| !of_cluster).map(|timeout| Instant::now() + timeout);
        // A job without input leaves that of its caller alone.
        let input_open = options.input != Input::None;
        Ok(Front {
            name,
            options,
            links,
            _namespaces: namespaces,
            signals,
            input_open,
            floor: Floor::default(),
            origin: None,
            counted: None,
            end: End::Open,
            ender: None,
            ends_well: false,
            spawn: (0, false),
            may_leave: false,
            refuser: None,
            wants_stop: false,
            continued: None,
            deadline,
            job,
            number: None,
            daemon,
            comeback,
            enrolment: None,
            judge: None,
            escape: (of_cluster && rustix::termios::isatty(stdin())).then(Escape::default),
            stdio,
            keys,
            status: 0,
            used: None,
            adopted: None,
            idle_acted: false,
            late_notice: None,
        })
    }

    /// Until the job is over; gives the exit status.
    fn run(&mut self) -> u8 {
        self.links.iter_mut().for_each(Link::send);
        loop {
            self.handle_frames();
            if self.is_written() && !self.links.iter().any(Link::is_alive) {
                return self.leave();
            }
            // What the frames say may be due at once, or a while later.
            self.judge_stall();
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
            self.watch_daemon();
            self.come_back();
            for (index, flags) in ready.links {
                if flags.contains(PollFlags::OUT) {
                    self.links[index].send();
                }
                let read = flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
                if read && self.floor.has_room(index) && !self.links[index].receive() {
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

    /// Whether all that has come is written.
    fn is_written(&self) -> bool {
        self.stdio.is_idle() && self.floor.is_empty()
    }

    fn wait(&mut self) -> Ready {
        let idle = self.stdio.is_idle();
        let input = self.input_open && self.takes_input() && in_foreground();
        let mut polled = vec![PollFd::from_borrowed_fd(self.signals.descriptor(), PollFlags::IN)];
        let mut listened = Vec::new();
        for (index, link) in self.links.iter().enumerate().filter(|(_, link)| link.is_connected()) {
            let send = if link.has_to_send() { PollFlags::OUT } else { PollFlags::empty() };
            // Not reading the wire is what makes ranks wait when our stdout does.
            let receive = if self.floor.has_room(index) { PollFlags::IN } else { PollFlags::empty() };
            // A link that is not read would report its end again and again.
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
        let wake_at = self.enrolment.as_ref().and_then(Enrolment::wake_at);
        let watch = self.daemon.as_ref().map(Watch::wake_at);
        let judge = self.judge.as_ref().and_then(|judge| judge.wake_at(self.may_judge()));
        let floor = self.floor.wake_at().filter(|_| idle);
        let wakes = [self.deadline, floor, wake_at, watch, judge, self.comeback.wake_at()];
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

    /// The first status that is not 0 is the job's, unless a rank has ended it well (shmem_global_exit).
    fn note(&mut self, status: u8) {
        if self.status == 0 && !self.ends_well {
            self.status = status;
        }
    }

    /// Sends something to all starters.
    fn put(&mut self, kind: Kind, number: u32, payload: &[u8]) {
        self.links.iter_mut().for_each(|link| link.put(kind, number, payload));
    }

    fn complain(&self, text: &str) {
        let return_first = if self.keys.as_ref().is_some_and(Keys::is_raw) { "\r" } else { "" };
        print_line(format_args!("{}: {text}{return_first}", self.name));
    }
}

struct Ready {
    /// Which links, and for what.
    links: Vec<(usize, PollFlags)>,
    signals: bool,
    output: bool,
    input: bool,
    /// Events for which the daemon of this node is ready.
    daemon: PollFlags,
}

fn libc_signal(signal: Signal) -> i32 {
    signal.as_raw()
}
