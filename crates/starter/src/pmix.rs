//! The starter's side of the PMIx server ([`tutti_pmix`]), by which programs of Open MPI start: starts the
//! process, checks what it says, and ends the job with one line when it fails.
//!
//! ```text
//! start -> Starting --Ready--> Serving --the job is over--> killed, and its folder removed
//!             '---- Refused, end of file, silence ----> the job ends with one line
//! ```
//!
//! A program gets PMIx where its variables have [`LIBRARY_VARIABLE`]: `mpiexec` sets it for programs that
//! need Open MPI's library, a user for scripts. The server is a child of the starter in a session of its own.
//! It is frozen with the job only where a job is frozen by signals. It has the user's identity, and nothing
//! that it sends is believed: ranks are checked, texts cut.
//!
//! All files of the server and of its ranks (sessions, shared memory) are in one folder, which no other job
//! has.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use tutti_os::stat::Stat;
use tutti_pmix::wire::{Bound, Command, FromServer, Incoming, Newcomers, ToServer, encode};
use tutti_protocol::paths;
use tutti_protocol::wire::{Job, PUTS_BYTES_MAX};

use self::folder::Folder;
use self::setup::{become_server, describe, own_variables};
use crate::environment::Prepared;
use crate::readiness::now_ns;

mod folder;
mod setup;

pub use self::folder::{folders, sweep};
pub use crate::environment::LIBRARY_VARIABLE;

/// Name of the process until it is its program.
const NAME: &std::ffi::CStr = c"tutti-pmix";
/// From its start until the ranks may start, at most: it loads libraries, and looks at the machine.
const START_NS: u64 = 60_000_000_000;
/// Between two looks at whether it has been stopped.
const LOOK_NS: u64 = 1_000_000_000;
/// A freeze of the job by signals, which reaches one process after the other, is not seen so often in a row.
const STOPPED_LOOKS: u32 = 3;
/// From the death of a rank to that of the server which has caused it, at most.
const END_SEEN_NS: i64 = 50_000_000;
/// From the end of its socket to that of the process, about.
const END_WAIT_NS: i64 = 200_000_000;
/// From the end of the ranks to that of what they have sent, at most.
const FLUSH_NS: u64 = 2_000_000_000;
/// Of one poll.
const MAX_POLL_NS: u64 = 500_000_000;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// Of a line for the user.
const LINE_CHARS_MAX: usize = 2000;

/// An event that concerns others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PmixEvent {
    /// The ranks may start.
    Ready,
    /// A rank has called PMIx_Init. All ranks are counted in the job, and need not be of this node.
    Started(u32),
    /// A rank has called PMIx_Finalize.
    Finished(u32),
    /// The job is to end with this code.
    Abort(u32, u32),
    /// A rank has a text for the user.
    Text(u32, Vec<u8>),
    /// All ranks of this node are in the fence with this number, and have given this.
    Fence(u32, Vec<u8>),
    /// A piece of a word for the servers of all nodes.
    Word(Vec<u8>),
    /// The new ranks of this order may start, or why not.
    Admitted(u32, Result<(), String>),
    /// A rank wants more processes; [`Pmix::answer_spawn`] answers.
    Spawn {
        /// Number of the request.
        number: u32,
        /// The rank.
        rank: u32,
        /// Commands that they are to execute.
        commands: Vec<Command>,
    },
    /// Question of how long the job has stood still; [`Pmix::tell_frozen`] answers.
    Clock,
    /// All that dead ranks have sent is there.
    Flushed,
    /// The job cannot go on: one line of why.
    Failed(String),
}

/// The wish for a server: which libraries, and the variables of the program that has it.
#[derive(Debug)]
pub struct Wanted {
    libraries: Vec<String>,
    environment: Vec<CString>,
}

/// The server.
#[derive(Debug)]
pub struct Pmix {
    /// None: it has failed.
    control: Option<OwnedFd>,
    incoming: Incoming,
    /// Files that it may load.
    libraries: Vec<String>,
    /// Bytes that wait for room.
    out: Vec<u8>,
    pid: Pid,
    process: OwnedFd,
    /// Goes with the server.
    _folder: Folder,
    /// Variables that each rank gets beside those of libpmix.
    own: Vec<CString>,
    /// Variables of the ranks of this node; none: they cannot start yet.
    variables: Option<Vec<Vec<CString>>>,
    /// Ranks of this node that the job begins with.
    local: usize,
    /// Orders whose ranks it does not expect yet, and which of them are of this node.
    admitting: Vec<(u32, Vec<u32>)>,
    /// Whether this is the job's only node.
    alone: bool,
    started_ns: u64,
    look_ns: u64,
    /// At so many looks one after the other it was stopped.
    stopped_looks: u32,
}

/// Whether a program of a job needs PMIx.
pub fn wanted(job: &Job) -> Option<Wanted> {
    let prepared = job.programs.iter().filter_map(|program| Prepared::new(program).ok());
    prepared.into_iter().find_map(|prepared| {
        let list = prepared.libpmix?;
        let libraries: Vec<String> =
            list.to_string_lossy().split(':').filter(|name| !name.is_empty()).map(Into::into).collect();
        (!libraries.is_empty()).then_some(Wanted { libraries, environment: prepared.environment })
    })
}

impl Pmix {
    /// Starts the server of a job on this node. `universe`: how many ranks the user expects; `crowded`: ranks
    /// have no cores of their own.
    ///
    /// # Errors
    /// When the kernel gives no folder, process or socket.
    pub fn start(job: &Job, wanted: Wanted, universe: u32, crowded: bool) -> io::Result<Self> {
        let (control, own) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        ioctl_fionbio(&control, true)?;
        let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let folder = Folder::make(&job.name())?;
        let own_variables = own_variables(job, folder.path(), crowded, &wanted.environment);
        let program = paths::pmix();
        let forked = tutti_os::fork_helper(|| {
            tutti_os::hide_process(NAME, [&own, &null]);
            become_server(&program, &own, &null, &wanted.environment);
        });
        let (pid, process) = forked?;
        let libraries = wanted.libraries.clone();
        let description = describe(job, wanted.libraries, universe, folder.path());
        let mut pmix = Pmix {
            control: Some(control),
            incoming: Incoming::default(),
            libraries,
            out: encode(&ToServer::Begin(description)),
            pid,
            process,
            _folder: folder,
            own: own_variables,
            variables: None,
            local: job.local_ranks().count(),
            admitting: Vec::new(),
            alone: job.part.is_none(),
            started_ns: now_ns(),
            look_ns: now_ns() + LOOK_NS,
            stopped_looks: 0,
        };
        pmix.flush();
        Ok(pmix)
    }

    /// Process of the server.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// The ranks are dead: gives what they have sent before.
    pub fn flush_blocking(&mut self) -> Vec<PmixEvent> {
        self.out.extend(encode(&ToServer::Flush));
        let mut events = self.handle_ready();
        let ends_ns = now_ns() + FLUSH_NS;
        while !events.contains(&PmixEvent::Flushed)
            && let Some((control, flags)) = self.polled()
            && let left_ns @ 1.. = ends_ns.saturating_sub(now_ns())
        {
            let left = Timespec { tv_sec: 0, tv_nsec: left_ns.min(MAX_POLL_NS) as i64 };
            let _ = poll(&mut [PollFd::from_borrowed_fd(control, flags)], Some(&left));
            events.extend(self.handle_ready());
        }
        events
    }

    /// Waits a moment for the server's end: its ranks die of it, and may be seen before it.
    pub fn await_end(&mut self) -> Vec<PmixEvent> {
        if let Some(control) = &self.control {
            // The end of the other side is seen without being asked for.
            let mut polled =
                [PollFd::new(control, PollFlags::empty()), PollFd::new(&self.process, PollFlags::IN)];
            let _ = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: END_SEEN_NS }));
        }
        self.handle_ready()
    }

    /// Whether the ranks may start.
    pub fn is_ready(&self) -> bool {
        self.variables.is_some()
    }

    /// The variables of a rank, counted on this node.
    pub fn variables(&self, rank: u32) -> &[CString] {
        self.variables.as_ref().and_then(|all| all.get(rank as usize)).map_or(&[], Vec::as_slice)
    }

    /// Has it expect new ranks, of which these, counted on this node, are here: [`PmixEvent::Admitted`] says
    /// when they may start.
    pub fn admit(&mut self, new: Newcomers, local: Vec<u32>) {
        self.admitting.push((new.order, local));
        self.put(&ToServer::Admit(new));
    }

    /// Tells the server that there are no ranks of this order.
    pub fn dismiss(&mut self, order: u32) {
        self.put(&ToServer::Dismiss(order));
    }

    /// Clears the variables of these ranks, counted on this node: they have nothing of PMIx.
    pub fn forget_variables(&mut self, local: &[u32]) {
        let variables = self.variables.iter_mut().flatten().zip(0..);
        variables.filter(|(_, index)| local.contains(index)).for_each(|(list, _)| list.clear());
    }

    /// Tells what has become of the processes that a rank has asked for: the order that has started them.
    pub fn answer_spawn(&mut self, number: u32, order: Option<u32>) {
        self.put(&ToServer::Spawned { number, order });
    }

    /// A piece of a word of the server of a node.
    pub fn handle_word(&mut self, node: u32, piece: &[u8]) {
        self.put(&ToServer::Word { node, piece: piece.to_vec() });
    }

    /// How long the job has stood still by now.
    pub fn tell_frozen(&mut self, ns: u64) {
        self.put(&ToServer::Frozen(ns));
    }

    fn put(&mut self, message: &ToServer) {
        self.out.extend(encode(message));
        self.flush();
    }

    /// To be polled, then given to [`Self::handle_ready`].
    pub fn polled(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let write = if self.out.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        Some((self.control.as_ref()?.as_fd(), PollFlags::IN | write))
    }

    /// Handles that the server has sent something, or has room. Gives all that it has sent until now.
    pub fn handle_ready(&mut self) -> Vec<PmixEvent> {
        let mut events = Vec::new();
        self.flush();
        let mut bytes = vec![0; READ_BYTES];
        while let Some(control) = &self.control {
            match recv(control, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((read, _)) if read > 0 => {
                    self.incoming.extend(&bytes[..read]);
                    self.take_messages(&mut events);
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                _ => self.fail(self.end(), &mut events),
            }
        }
        events
    }

    /// All ranks of the job are in the fence with this number; this is what those of all nodes have given.
    /// The server passes over one that has ended.
    pub fn handle_fence(&mut self, number: u32, given: Vec<u8>) -> Vec<PmixEvent> {
        let mut events = Vec::new();
        if given.len() > PUTS_BYTES_MAX {
            self.fail(fence_excess(given.len()), &mut events);
        } else {
            self.put(&ToServer::Fenced { number, given });
        }
        events
    }

    /// When [`Self::handle_time`] is due.
    pub fn due_ns(&self) -> Option<u64> {
        self.control.as_ref().map(|_| self.look_ns)
    }

    /// Whether a signal has stopped it.
    pub fn is_stopped(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.is_stopped())
    }

    /// The time of [`Self::due_ns`]. `is_stopped`: a signal has stopped it, and not the job with it. The job
    /// ends when that is so at [`STOPPED_LOOKS`] looks one after the other.
    pub fn handle_time(&mut self, now_ns: u64, is_stopped: bool) -> Vec<PmixEvent> {
        let mut events = Vec::new();
        if now_ns < self.look_ns || self.control.is_none() {
            return events;
        }
        self.look_ns = now_ns + LOOK_NS;
        self.stopped_looks = if is_stopped { self.stopped_looks + 1 } else { 0 };
        let pid = self.pid.as_raw_nonzero();
        if self.stopped_looks >= STOPPED_LOOKS {
            let line = format!(
                "the PMIx server (tutti-pmix, pid {pid}) has been stopped by a signal: its ranks would wait for ever"
            );
            self.fail(line, &mut events);
        } else if !self.is_ready() && now_ns >= self.started_ns + START_NS {
            let line = format!(
                "the PMIx server (tutti-pmix, pid {pid}) is not ready after {} s",
                START_NS / 1_000_000_000
            );
            self.fail(line, &mut events);
        }
        events
    }

    fn flush(&mut self) {
        while let Some(control) = self.control.as_ref().filter(|_| !self.out.is_empty()) {
            match send(control, &self.out, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.out.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // Its end is seen where it is read from.
                Err(_) => self.out.clear(),
            }
        }
    }

    fn take_messages(&mut self, events: &mut Vec<PmixEvent>) {
        loop {
            match self.incoming.take() {
                Ok(Some(message)) => self.handle_message(message, events),
                Ok(None) => return,
                Err(_) => return self.fail("the PMIx server sent what is no message".into(), events),
            }
        }
    }

    fn handle_message(&mut self, message: FromServer, events: &mut Vec<PmixEvent>) {
        match message {
            FromServer::Ready(all) if self.variables.is_none() => {
                match self.take_variables(all).filter(|all| all.len() == self.local) {
                    Some(all) => {
                        self.variables = Some(all);
                        events.push(PmixEvent::Ready);
                    }
                    None => self.fail("the PMIx server sent no variables of the ranks".into(), events),
                }
            }
            FromServer::Ready(_) => {}
            FromServer::Refused(line) => self.fail(one_line(&line), events),
            FromServer::Full(bound) => self.fail(bound_line(bound).into(), events),
            FromServer::Crowded(limit) => self.fail(
                format!("the ranks have opened more connections to the PMIx server than it may have ({limit} on a node)"),
                events,
            ),
            FromServer::Connected(rank) => events.push(PmixEvent::Started(rank)),
            FromServer::Finalized(rank) => events.push(PmixEvent::Finished(rank)),
            FromServer::Abort { rank, status } => {
                events.push(PmixEvent::Abort(rank, status.cast_unsigned()));
            }
            FromServer::Word(piece) => events.push(PmixEvent::Word(piece)),
            FromServer::Spawn { number, rank, commands } => {
                events.push(PmixEvent::Spawn { number, rank, commands });
            }
            FromServer::Clock => events.push(PmixEvent::Clock),
            FromServer::Admitted { order, variables } => self.handle_admitted(order, variables, events),
            FromServer::NotAdmitted { order, line } => {
                self.admitting.retain(|(of, _)| *of != order);
                events.push(PmixEvent::Admitted(order, Err(one_line(&line))));
            }
            FromServer::Flushed => events.push(PmixEvent::Flushed),
            FromServer::Log { rank, text } => events.push(PmixEvent::Text(rank, text)),
            FromServer::Fence { number, given } if self.alone => {
                events.extend(self.handle_fence(number, given));
            }
            FromServer::Fence { number, given } => events.push(PmixEvent::Fence(number, given)),
        }
    }

    /// Lists of variables with those that each rank gets beside.
    fn take_variables(&self, all: Vec<Vec<String>>) -> Option<Vec<Vec<CString>>> {
        let of_rank = |list: Vec<String>| {
            let own = self.own.iter().cloned().map(Ok);
            list.into_iter().map(CString::new).chain(own).collect::<Result<_, _>>()
        };
        all.into_iter().map(of_rank).collect::<Result<_, _>>().ok()
    }

    fn handle_admitted(&mut self, order: u32, all: Vec<Vec<String>>, events: &mut Vec<PmixEvent>) {
        let Some(at) = self.admitting.iter().position(|(of, _)| *of == order) else { return };
        let (_, local) = self.admitting.remove(at);
        let all = self.take_variables(all).filter(|all| all.len() == local.len());
        let (Some(all), Some(variables)) = (all, &mut self.variables) else {
            return self.fail("the PMIx server sent no variables of new ranks".into(), events);
        };
        for (index, list) in local.into_iter().zip(all) {
            let index = index as usize;
            variables.resize_with(variables.len().max(index + 1), Vec::new);
            variables[index] = list;
        }
        events.push(PmixEvent::Admitted(order, Ok(())));
    }

    /// Ends the connection: nothing comes from the server any more.
    fn fail(&mut self, line: String, events: &mut Vec<PmixEvent>) {
        if self.control.take().is_some() {
            events.push(PmixEvent::Failed(line));
        }
    }

    /// How it has ended.
    fn end(&self) -> String {
        let mut polled = [PollFd::new(&self.process, PollFlags::IN)];
        let _ = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: END_WAIT_NS }));
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::PidFd(self.process.as_fd()), options).ok().flatten();
        let how = match status.map(|status| (status.terminating_signal(), status.exit_status())) {
            Some((Some(signal), _)) => format!("was killed by signal {signal}"),
            Some((None, Some(status))) => format!("has ended with status {status}"),
            _ => "has ended".into(),
        };
        let pid = self.pid.as_raw_nonzero();
        if !self.is_ready() {
            // It has done nothing of its own until then: the library is cut off, or not what it says it is.
            let libraries = self.libraries.join(", ");
            return format!(
                "the PMIx server (tutti-pmix, pid {pid}) {how} while it began with libpmix, the first of {libraries} that is \
                 there: a file of it is damaged, or another libpmix than it says (TUTTI_LIBPMIX names another file)"
            );
        }
        format!("the PMIx server (tutti-pmix, pid {pid}) {how}: programs of Open MPI cannot go on without it")
    }
}

impl Drop for Pmix {
    /// The job is over, on this node. Its folder goes with the value.
    fn drop(&mut self) {
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
    }
}

fn bound_line(bound: Bound) -> &'static str {
    match bound {
        Bound::Keys => "the ranks have put more keys and values over PMIx than a job may (256 MiB on a node)",
        Bound::Fence => {
            "the ranks have given more keys and values in one fence over PMIx than they may (32 MiB on a node)"
        }
        Bound::Word => {
            "the ranks ask more over PMIx in one request than the other nodes can be told (32 MiB)"
        }
    }
}

fn fence_excess(bytes: usize) -> String {
    format!(
        "what the ranks of all nodes have given in one fence over PMIx takes {bytes} bytes, and {PUTS_BYTES_MAX} are the most"
    )
}

/// A text as one line without control characters.
fn one_line(text: &str) -> String {
    let letters = text.chars().take(LINE_CHARS_MAX);
    letters.map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
