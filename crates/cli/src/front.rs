//! `mpiexec`'s life: parse, check, start the starter, then one poll loop until the job is over.
//!
//! | from | what happens |
//! |---|---|
//! | starter | output is written; while it cannot be, nothing more is read, so the ranks wait in their writes |
//! | INT, TERM, HUP, QUIT | forwarded, to a stopped job after it goes on; a second one, or [`PATIENCE`] later: killed |
//! | TSTP | the job is stopped, then we are; CONT: both go on |
//! | USR1, USR2, WINCH | forwarded |
//! | stdin | read for the ranks that get it, a terminal only while we are in its foreground (W25) |
//! | nobody reads our stdout | the job is killed, we die of SIGPIPE as any program of a pipeline does |

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, ExitCode};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::stdio::stdin;
use tutti_node::os::{self, Signals};
use tutti_node::wire::{self, Cause, Decoder, Ended, Head, Input, Job, Kind, Report};
use tutti_node::{cgroup, descendants};

use crate::description;
use crate::options::{self, Options, Request};
use crate::starter;
use crate::stdio::Stdio;

/// A job that was asked to end has this time before it is killed.
const PATIENCE: Duration = Duration::from_secs(1);
/// A killed job has this time to be gone before we leave without it.
const KILL_MAX: Duration = Duration::from_secs(5);
/// Exit status after a time-out, as timeout(1) has it.
const TIMED_OUT: u8 = 124;
/// Exit status of a wrong command line.
pub const USAGE: u8 = 2;

/// Runs the command line under the given name.
pub fn run(name: &'static str, arguments: Vec<OsString>) -> ExitCode {
    let options = match options::parse(&arguments) {
        Ok(Request::Run(options)) => with_environment(*options),
        Ok(Request::Version) => return crate::print(Some(format!("{}\n", options::VERSION)), ""),
        Ok(Request::Help) => return crate::print(Some(options::help(name)), ""),
        Err(error) => return refuse(name, &error.to_string(), USAGE),
    };
    if !options.foreign.is_empty() && !options.quiet {
        eprintln!("{name}: {} steers another launcher and is ignored here", options.foreign.join(", "));
    }
    match description::describe(&options) {
        Ok(job) => match Front::start(name, options, &job) {
            Ok(mut front) => ExitCode::from(front.go_on()),
            Err(error) => refuse(name, &error, 1),
        },
        Err((text, status)) => refuse(name, &text, status),
    }
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
    /// It is being killed; this is our exit status unless the job's own is to be used.
    Killed(Option<u8>),
}

struct Front {
    name: &'static str,
    options: Options,
    child: Child,
    wire: OwnedFd,
    decoder: Decoder,
    /// Frames on their way to the starter.
    out: VecDeque<u8>,
    signals: Signals,
    stdio: Stdio,
    /// Stdin is ours to read and forward.
    reads_input: bool,
    /// The starter has taken the last piece.
    input_room: bool,
    end: End,
    /// When patience, or the job's time, is over.
    deadline: Option<Instant>,
    /// The job's number.
    job: u64,
    status: Option<u8>,
}

impl Front {
    fn start(name: &'static str, options: Options, job: &Job) -> Result<Self, String> {
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
        let stdio = Stdio::new(options.label, options.output_file.clone(), options.errors_file.clone())
            .map_err(system("use standard output"))?;
        // If the starter dies, what it leaves behind is ours to end.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| format!("cannot adopt orphans: {error}"))?;
        let (child, wire) = starter::start().map_err(|error| error.to_string())?;
        let signals = Signals::new(&wanted).map_err(system("catch signals"))?;
        let mut out = Vec::new();
        wire::put_json(&mut out, Kind::Job, job);
        rustix::io::ioctl_fionbio(&wire, true).map_err(|error| format!("cannot use the wire: {error}"))?;
        let deadline = options.timeout.map(|timeout| Instant::now() + timeout);
        Ok(Front {
            name,
            reads_input: !job.input_inherited && job.input != Input::None,
            options,
            child,
            wire,
            decoder: Decoder::default(),
            out: out.into(),
            signals,
            stdio,
            input_room: true,
            end: End::Open,
            deadline,
            job: job.id,
            status: None,
        })
    }

    /// Until the job is over; gives the exit status.
    fn go_on(&mut self) -> u8 {
        self.send();
        loop {
            self.handle_frames();
            if self.stdio.is_idle()
                && let Some(status) = self.status
            {
                return self.leave(status);
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
            if ready.to_starter {
                self.send();
            }
            if ready.from_starter && self.receive().is_err() {
                return self.bury_starter();
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
                && let Some(status) = self.handle_deadline()
            {
                return status;
            }
        }
    }

    fn wait(&self) -> Ready {
        let idle = self.stdio.is_idle();
        let output = self.stdio.waits_for();
        let to_starter = if self.out.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        // Not reading the wire is what makes ranks wait when our stdout does; its end is seen in any case.
        let from_starter = if idle { PollFlags::IN } else { PollFlags::empty() };
        let input = self.reads_input && self.input_room && self.out.is_empty() && in_foreground();
        let mut polled = vec![
            PollFd::new(&self.wire, to_starter | from_starter),
            PollFd::from_borrowed_fd(self.signals.descriptor(), PollFlags::IN),
        ];
        let output_at = output.map(|descriptor| {
            polled.push(PollFd::from_borrowed_fd(descriptor, PollFlags::OUT));
            polled.len() - 1
        });
        let input_at = input.then(|| {
            polled.push(PollFd::from_borrowed_fd(stdin(), PollFlags::IN));
            polled.len() - 1
        });
        let mut left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if !idle && output.is_none() {
            left = Some(Duration::ZERO);
        }
        let timeout = left.map(|left| Timespec::try_from(left).expect("less than a century"));
        if poll(&mut polled, timeout.as_ref()).is_err() {
            return Ready::default();
        }
        let flags = |at: usize| polled[at].revents();
        Ready {
            from_starter: idle && flags(0).intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
            to_starter: flags(0).contains(PollFlags::OUT),
            signals: !flags(1).is_empty(),
            output: output_at.map_or(!idle, |at| !flags(at).is_empty()),
            input: input_at.is_some_and(|at| !flags(at).is_empty()),
        }
    }

    /// `Err`: the starter is dead.
    fn receive(&mut self) -> Result<(), ()> {
        let mut bytes = [0_u8; 64 << 10];
        match rustix::io::read(&self.wire, &mut bytes) {
            Ok(0) => Err(()),
            Ok(read) => {
                self.decoder.extend(&bytes[..read]);
                Ok(())
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(()),
            Err(_) => Err(()),
        }
    }

    /// Takes frames until one has to wait for our stdout.
    fn handle_frames(&mut self) {
        while self.stdio.is_idle() {
            let (head, report) = match self.decoder.next_frame() {
                Ok(Some((head @ Head { kind: Kind::Output | Kind::Errors, .. }, payload))) => {
                    self.stdio.take(head.kind, head.rank, payload);
                    // A file takes it at once; for a pipe the poll decides.
                    while self.stdio.waits_for().is_none() && !self.stdio.is_idle() {
                        self.write();
                    }
                    continue;
                }
                Ok(Some((head, payload))) => (head, serde_json::from_slice::<Report>(payload).ok()),
                Ok(None) => return,
                Err(error) => {
                    self.complain(&format!("the starter is of another version: {error}"));
                    self.kill(Some(1));
                    return;
                }
            };
            if let (Kind::Report, Some(report)) = (head.kind, report) {
                self.handle_report(report);
            }
        }
    }

    fn handle_report(&mut self, report: Report) {
        match report {
            Report::Started { pids, cores } => {
                for (rank, (pid, cores)) in pids.iter().zip(&cores).enumerate() {
                    let place =
                        if cores.is_empty() { "not bound".into() } else { format!("bound to cores {cores}") };
                    if self.options.verbose {
                        self.complain(&format!("rank {rank} is pid {pid}, {place}"));
                    } else if self.options.report_bindings {
                        self.complain(&format!("rank {rank} is {place}"));
                    }
                }
            }
            Report::InputTaken => self.input_room = true,
            Report::Suspended => {
                // Stops here, until somebody continues us.
                os::raise_default(libc_signal(Signal::TSTP));
                self.put(Kind::Resume, 0, &[]);
            }
            Report::Ended(ended) => {
                // Who asked the job to end knows why it ended.
                if self.end == End::Open {
                    self.complain(&ended_text(&ended));
                }
            }
            Report::Warning(text) | Report::Refused(text) => self.complain(&text),
            Report::End { status } => self.status = Some(status),
        }
    }

    fn handle_signals(&mut self) {
        while let Some(number) = self.signals.next_signal() {
            let Some(signal) = Signal::from_named_raw(number) else { continue };
            if signal == Signal::TSTP {
                self.put(Kind::Suspend, 0, &[]);
            } else if signal == Signal::CONT {
                self.put(Kind::Resume, 0, &[]);
            } else if signal == Signal::USR1 || signal == Signal::USR2 || signal == Signal::WINCH {
                self.put(Kind::Signal, number as u32, &[]);
            } else if self.end == End::Open {
                self.end = End::Asked(number);
                self.deadline = Some(Instant::now() + PATIENCE);
                self.put(Kind::Resume, 0, &[]);
                self.put(Kind::Signal, number as u32, &[]);
            } else {
                self.kill(Some(128 + number as u8));
            }
        }
    }

    /// Gives an exit status when nothing more can be waited for.
    fn handle_deadline(&mut self) -> Option<u8> {
        match self.end {
            End::Open => {
                let seconds = self.options.timeout.unwrap_or_default().as_secs_f64();
                self.complain(&format!("the job is ended: it did not finish within {seconds} seconds"));
                self.kill(Some(TIMED_OUT));
                None
            }
            End::Asked(signal) => {
                self.kill(Some(128 + signal as u8));
                None
            }
            End::Killed(status) => Some(self.leave_by_force(status.unwrap_or(1))),
        }
    }

    fn kill(&mut self, status: Option<u8>) {
        if !matches!(self.end, End::Killed(_)) {
            self.end = End::Killed(status);
            self.put(Kind::Kill, 0, &[]);
        }
        self.deadline = Some(Instant::now() + KILL_MAX);
    }

    fn write(&mut self) {
        let Err((kind, name, error)) = self.stdio.write() else { return };
        self.stdio.discard();
        if error != rustix::io::Errno::PIPE {
            let reason = io::Error::from(error);
            self.complain(&format!("cannot write the job's output to {name}: {reason}; the job is ended"));
            self.kill(Some(1));
        } else if kind == Kind::Output {
            self.kill(Some(128 + libc_signal(Signal::PIPE) as u8));
        } else {
            self.kill(Some(1));
        }
    }

    fn read_input(&mut self) {
        let mut bytes = vec![0_u8; wire::DATA_BYTES_MAX];
        match rustix::io::read(stdin(), &mut bytes[..]) {
            Ok(0) => {
                self.reads_input = false;
                self.put(Kind::Input, 0, &[]);
            }
            Ok(read) => {
                self.input_room = false;
                self.put(Kind::Input, 0, &bytes[..read]);
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => {
                self.reads_input = false;
                self.put(Kind::Input, 0, &[]);
            }
        }
    }

    fn put(&mut self, kind: Kind, number: u32, payload: &[u8]) {
        let mut frame = Vec::new();
        wire::put(&mut frame, kind, number, payload);
        self.out.extend(frame);
        self.send();
    }

    fn send(&mut self) {
        while !self.out.is_empty() {
            let (bytes, _) = self.out.as_slices();
            match rustix::net::send(&self.wire, bytes, rustix::net::SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.out.drain(..sent)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                // Its death is seen by reading.
                Err(_) => return self.out.clear(),
            }
        }
    }

    fn leave(&mut self, status: u8) -> u8 {
        let _ = self.child.wait();
        let status = match self.end {
            End::Killed(Some(own)) => own,
            _ => status,
        };
        let pipe = libc_signal(Signal::PIPE);
        for signal in [libc_signal(Signal::INT), libc_signal(Signal::TERM), libc_signal(Signal::HUP), pipe] {
            let caught = self.end == End::Asked(signal) || matches!(self.end, End::Killed(_));
            if caught && status == 128 + signal as u8 {
                // Who waits for us sees what it would see of any program: a shell's loop ends on Ctrl-C.
                os::raise_default(signal);
            }
        }
        status
    }

    fn leave_by_force(&mut self, status: u8) -> u8 {
        let _ = self.child.kill();
        self.end_leftovers();
        self.leave(status)
    }

    fn bury_starter(&mut self) -> u8 {
        // It is a plain process that anybody may have killed.
        let ended = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        self.end_leftovers();
        if self.end == End::Open {
            self.complain(&format!("the job's starter has died ({ended}); the job is ended"));
        }
        match self.end {
            End::Killed(Some(status)) => status,
            _ => 1,
        }
    }

    fn end_leftovers(&mut self) {
        descendants::end_all(|| {});
        cgroup::place(&cgroup::name(self.job)).iter().for_each(|path| cgroup::remove(path));
    }

    fn complain(&self, text: &str) {
        eprintln!("{}: {text}", self.name);
    }
}

#[derive(Default)]
struct Ready {
    from_starter: bool,
    to_starter: bool,
    signals: bool,
    output: bool,
    input: bool,
}

fn libc_signal(signal: Signal) -> i32 {
    signal.as_raw()
}

/// Reading a terminal from its background would stop us, and the job with us.
fn in_foreground() -> bool {
    match rustix::termios::tcgetpgrp(stdin()) {
        Ok(foreground) => foreground == rustix::process::getpgrp(),
        Err(_) => true,
    }
}

fn ended_text(ended: &Ended) -> String {
    let what = match ended.cause {
        Cause::Signal { signal, core_dumped } => {
            let dumped = if core_dumped { ", core dumped" } else { "" };
            format!("was killed by signal {signal} ({}{dumped})", os::signal_name(signal))
        }
        Cause::Status(status) => format!("exited with status {status}"),
        Cause::NotFinalized => "exited without calling MPI_Finalize".into(),
        Cause::Abort(code) => format!("called MPI_Abort({code})"),
        Cause::Vanished => "lost its MPI process without MPI_Finalize; its wrapper was ended".into(),
    };
    format!("rank {} (pid {}) {what}", ended.rank, ended.pid)
}
