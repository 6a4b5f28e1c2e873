//! The starter's life: read the job, start the ranks, then one poll loop until nothing of the job is left.
//!
//! ```text
//! read Job -> prepare -> launch -> loop { frames, tickets, deaths, output, input } -> all ranks dead
//!      -> end what they left behind -> forward the rest of their output -> Report::End
//! ```
//!
//! In a job on several nodes the loop begins between prepare and launch, which waits for the addresses of all ranks.
//!
//! Single-threaded, no allocation of consequence, nothing here blocks but the poll. The front end's death (end of file on
//! the wire, or SIGTERM by parent-death signal) ends the job, but that of a daemon does not (`lasting`); the starter's own
//! death kills the ranks by theirs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFlags, Timespec};
use rustix::process::{Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tutti_shm::daemon_page::{self, DaemonPage};
use tutti_shm::peers::Peers;
use tutti_shm::ticket::Notice;

use crate::cgroup::Cgroup;
use crate::descendants;
use crate::exited::Exited;
use crate::input::Inputs;
use crate::keeper::Keeper;
use crate::launch::{self, Launched, Ready};
use crate::os::{self, Failure, Signals};
use crate::output::Streams;
use crate::pmi::{Pmi, Said};
use crate::ranks::Ranks;
use crate::readiness::{PollList, Source, now_ns};
use crate::tickets::{Event, Gifts, Tickets};
use crate::wire::{self, Decoder, Kind, MemoryLimit, Report};
use lasting::Lasting;

mod front;
mod hold;
mod lasting;
mod stuck;

/// Bytes on their way to the front end, about; beyond it no output of ranks is read.
const ROOM_BYTES: usize = 256 << 10;
/// Orphans of the ranks are looked for, and their statuses taken, this long after a child's death. Only a job that leaves
/// many behind while it runs needs it at all.
const ORPHANS_NS: u64 = 1_000_000_000;

/// Why the starter cannot work at all.
#[derive(Debug, thiserror::Error)]
pub enum StarterError {
    /// The kernel refused something without which there is no job.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The front end is gone or speaks another protocol.
    #[error("the front end sent no job: {0}")]
    NoJob(String),
}

/// Runs a job that comes on `front`, to its end.
///
/// # Errors
/// When there is no job to run. What happens to the job itself is told to the front end.
pub fn run(front: OwnedFd) -> Result<(), StarterError> {
    let failed =
        |action| move |source: rustix::io::Errno| StarterError::System { action, source: source.into() };
    let (job, decoder) = front::read_job(&front)?;
    // Out of the terminal's foreground group: Ctrl-C is the front end's to hear and to forward.
    if job.pty {
        // The leader of a session whose terminal is to be rank 0's; its parent in another group, so that keys can stop it.
        let _ = rustix::process::setsid();
    }
    let _ = rustix::process::setpgid(None, None);
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(failed("adopt orphans"))?;
    if job.daemon.is_none() {
        rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
            .map_err(failed("watch the front end"))?;
        let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
        if parent as u32 != job.front_end {
            return Err(StarterError::NoJob("it has died".into()));
        }
    }
    os::ignore_signal(libc::SIGXFSZ);
    let wanted = [
        libc::SIGCHLD,
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
    ];
    let signals =
        Signals::new(&wanted).map_err(|source| StarterError::System { action: "catch signals", source })?;
    rustix::io::ioctl_fionbio(&front, true).map_err(failed("use the front end's socket"))?;

    let mut starter = Starter {
        debug: job.debug,
        front: Some(front),
        lasting: job.daemon.clone().map(Lasting::new),
        decoder,
        out: Vec::new(),
        sent: 0,
        signals,
        frozen: false,
        stands: daemon_page::Hold::default(),
        suspended: false,
        hold: None,
        last_hold: 0,
        watch: None,
        refused: false,
        ready: None,
        ending_told: false,
        alone: job.part.is_none(),
        may_leave: false,
        orphans_ns: None,
        parts: Parts::default(),
    };
    match launch::prepare(job, &mut starter.parts) {
        Ok(ready) if starter.alone => starter.launch(&ready),
        Ok(ready) => {
            starter.report(&Report::Addresses(ready.reached.clone()));
            starter.ready = Some(ready);
        }
        Err(error) => starter.refuse(error.to_string(), 1),
    }
    // Frames that came together with the job are in the decoder already: no poll will tell of them.
    starter.handle_frames();
    starter.go_on();
    starter.finish();
    Ok(())
}

/// What a launch makes.
#[derive(Debug, Default)]
pub struct Parts {
    /// The ranks forked so far.
    pub ranks: Ranks,
    /// Their output.
    pub streams: Streams,
    /// Their input.
    pub inputs: Inputs,
    /// The server by which programs of other MPIs start.
    pub pmi: Option<Pmi>,
    /// The socket for their tickets.
    pub tickets: Option<Tickets>,
    /// The terminal of rank 0, both sides, where it is the controlling one: held until the end, since its closing is a
    /// hang-up.
    pub terminal: Option<(OwnedFd, OwnedFd)>,
    /// The shared segment.
    pub segment: Option<tutti_shm::segment::Segment>,
    /// What the ranks are told of their turns, and the same file as they get it.
    pub page: Option<(DaemonPage, OwnedFd)>,
    /// In a job on several nodes the sockets of the ranks of this one. They stay open until the job ends: what is sent to a
    /// rank that has left is no error of the sender's (W8).
    pub sockets: Vec<OwnedFd>,
    /// The memfd with the addresses of all ranks, and what it says.
    pub peers: Option<(OwnedFd, Peers)>,
    /// Those of them that have left: they are answered for.
    pub exited: Exited,
    /// Where a child says that it could not become the program; closed when all have.
    pub failures: Option<OwnedFd>,
    /// The cgroup of them all.
    pub cgroup: Option<Cgroup>,
    /// What they may have of memory there; none: anything.
    pub memory: Option<MemoryLimit>,
    /// Who sees to what is left if this process and mpiexec are killed at once.
    pub keeper: Option<Keeper>,
    /// Names of programs by rank, for messages.
    pub names: Vec<String>,
}

struct Starter {
    debug: bool,
    /// The wire; none when the front end is dead.
    front: Option<OwnedFd>,
    /// What a daemon that follows this one is told; none: the front end is no daemon, or none is to follow.
    lasting: Option<Lasting>,
    decoder: Decoder,
    /// Frames on their way, the first `sent` bytes of which are gone.
    out: Vec<u8>,
    sent: usize,
    signals: Signals,
    frozen: bool,
    /// What the ranks are told of that.
    stands: daemon_page::Hold,
    /// A user has suspended the job.
    suspended: bool,
    /// It stands still for a snapshot.
    hold: Option<hold::Hold>,
    /// Number of the last one.
    last_hold: u64,
    refused: bool,
    /// Whether its ranks are still; none: there are none yet.
    watch: Option<stuck::Watch>,
    /// The job, until its ranks may start.
    ready: Option<Ready>,
    /// The front end knows that the job is over.
    ending_told: bool,
    /// This is the job's only node.
    alone: bool,
    /// No rank of the job is left anywhere.
    may_leave: bool,
    /// When to look for dead orphans.
    orphans_ns: Option<u64>,
    parts: Parts,
}

impl Starter {
    /// Until all ranks are dead.
    fn go_on(&mut self) {
        while self.ready.is_some() || !self.parts.ranks.all_dead() {
            self.turn();
        }
    }

    /// Waits for whatever happens next, and handles it.
    fn turn(&mut self) {
        let ready = self.wait();
        // Order matters: what a rank said before it died is heard before its death is judged, and so is a failed exec.
        for (source, flags) in &ready {
            self.handle(*source, *flags);
        }
        for (source, _) in &ready {
            self.handle_death(*source);
        }
        self.handle_time(now_ns());
        self.forward();
    }

    fn launch(&mut self, ready: &Ready) {
        match launch::launch(ready, &mut self.parts) {
            Ok(Launched { pids, cores }) => {
                self.say(|| format!("started {} ranks", pids.len()));
                self.report(&Report::Started { pids, cores });
                self.watch = Some(stuck::Watch::from(now_ns()));
            }
            Err(error) => self.refuse(error.to_string(), 1),
        }
    }

    /// The job cannot start; one line of why.
    fn refuse(&mut self, text: String, status: u8) {
        self.parts.ranks.set_ending(status);
        self.kill();
        if !std::mem::replace(&mut self.refused, true) {
            self.report(&Report::Refused(text));
        }
    }

    /// Ends what is left of the job and says so.
    fn finish(&mut self) {
        let parts = &self.parts;
        if parts.ranks.all_dead() {
            // Nobody names their pids any more.
            descendants::reap_all();
        }
        if descendants::any() {
            let kill = || {
                parts.ranks.kill();
                parts.cgroup.iter().for_each(Cgroup::kill);
            };
            // Killed together with the ranks, or forgotten by them: either way nothing stays behind.
            if !descendants::end_all(None, kill) {
                self.report(&Report::Warning("a process of the job does not die; it is left behind".into()));
            }
        }
        self.parts.cgroup = None;
        if let Some(keeper) = self.parts.keeper.take() {
            keeper.dismiss();
        }
        self.parts.tickets = None;
        while self.is_reachable() {
            let read = self.parts.streams.handle_end(now_ns());
            self.forward();
            if read && self.parts.streams.are_finished() {
                break;
            }
            if self.lasting.is_some() {
                self.turn();
            } else if self.out.len() > self.sent {
                self.wait_for_front();
            }
        }
        if !self.alone {
            self.report(&Report::Left);
            while self.is_reachable() && !self.may_leave && !self.parts.ranks.is_ending() {
                self.turn();
            }
        }
        let status = self.parts.ranks.status();
        self.say(|| format!("the job is over, status {status}"));
        self.report(&Report::End { status });
        // A daemon may need it all again, until it says that it does not.
        while self.lasting.is_some() {
            self.turn();
        }
        while self.front.is_some() && self.out.len() > self.sent {
            self.wait_for_front();
            self.send();
        }
    }

    fn wait(&mut self) -> Vec<(Source, PollFlags)> {
        let parts = &self.parts;
        let mut list = PollList::default();
        let mut add = |source, descriptor, flags| list.add(source, descriptor, flags);
        let jammed = self.is_jammed();
        if let Some(front) = &self.front {
            let write = if self.out.len() > self.sent { PollFlags::OUT } else { PollFlags::empty() };
            add(Source::Front, front.as_fd(), PollFlags::IN | write);
        }
        add(Source::Signals, self.signals.descriptor(), PollFlags::IN);
        parts.failures.iter().for_each(|pipe| add(Source::Failures, pipe.as_fd(), PollFlags::IN));
        for (rank, pidfd) in parts.ranks.alive() {
            add(Source::Rank(rank), pidfd, PollFlags::IN);
        }
        for (rank, pidfd) in parts.ranks.inner() {
            add(Source::Inner(rank), pidfd, PollFlags::IN);
        }
        for (rank, socket, flags) in parts.pmi.iter().flat_map(Pmi::polled) {
            add(Source::Pmi(rank), socket, flags);
        }
        if let Some(tickets) = &parts.tickets {
            for (rank, connection) in tickets.connections() {
                add(Source::Connection(rank), connection, PollFlags::IN);
            }
            // Highest first, since a handled one leaves the list; new ones only then.
            let pending: Vec<_> = tickets.pending().enumerate().collect();
            for (index, connection) in pending.into_iter().rev() {
                add(Source::Pending(index), connection, PollFlags::IN);
            }
            add(Source::Listener, tickets.listener(), PollFlags::IN);
        }
        if !jammed {
            for (index, descriptor) in parts.streams.readable() {
                add(Source::Stream(index), descriptor, PollFlags::IN);
            }
        }
        for descriptor in parts.inputs.writable() {
            add(Source::Input, descriptor, PollFlags::OUT);
        }
        for (rank, socket) in parts.exited.sockets() {
            add(Source::Exited(rank), socket, PollFlags::IN);
        }
        let silence_ns = parts.streams.silence_ends_ns().filter(|_| !jammed);
        let look_ns = self.lasting.as_ref().and_then(Lasting::look_ns);
        let hold_ns = self.hold.as_ref().map(hold::Hold::look_ns);
        let watch_ns = self.watch.as_ref().map(stuck::Watch::look_ns);
        let wake_ns = [silence_ns, parts.ranks.grace_ends_ns(), self.orphans_ns, look_ns, hold_ns, watch_ns];
        let timeout = wake_ns.into_iter().flatten().min().map(|wake_ns| {
            let ns = wake_ns.saturating_sub(now_ns());
            Timespec::try_from(Duration::from_nanos(ns)).expect("less than a century")
        });
        list.wait(timeout.as_ref())
    }

    fn handle(&mut self, source: Source, flags: PollFlags) {
        match source {
            Source::Front => {
                if flags.contains(PollFlags::OUT) {
                    self.send();
                }
                if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                    self.receive();
                }
            }
            Source::Signals => self.handle_signals(),
            Source::Listener => self.parts.tickets.iter_mut().for_each(Tickets::handle_listener),
            Source::Pending(index) => {
                let Parts { tickets, segment, page, peers, sockets, .. } = &mut self.parts;
                if let (Some(tickets), Some(segment), Some((_, page))) = (tickets, segment, page) {
                    let network = peers.as_ref().map(|(table, _)| (table.as_fd(), &sockets[..]));
                    let gifts = Gifts { segment: segment.descriptor(), page: page.as_fd(), network };
                    if let Some(event) = tickets.handle_pending(index, &gifts) {
                        self.handle_event(event);
                    }
                }
            }
            Source::Connection(rank) => self.hear(rank),
            Source::Pmi(rank) => self.hear_pmi(|pmi| pmi.handle_ready(rank)),
            Source::Failures => self.handle_failures(),
            Source::Stream(index) => {
                self.parts.streams.handle_readable(index, now_ns());
            }
            Source::Exited(rank) => self.parts.exited.handle_readable(rank),
            Source::Input => self.parts.inputs.handle_writable(),
            Source::Rank(_) | Source::Inner(_) => {}
        }
    }

    fn handle_death(&mut self, source: Source) {
        match source {
            Source::Rank(rank) => {
                self.hear(rank);
                self.hear_pmi(|pmi| pmi.handle_death(rank));
                self.handle_failures();
                if let Some(ended) = self.parts.ranks.handle_death(rank) {
                    self.handle_ended(ended);
                }
            }
            Source::Inner(rank) => {
                self.hear(rank);
                self.parts.ranks.handle_inner_death(rank, now_ns());
            }
            _ => {}
        }
    }

    fn hear(&mut self, rank: u32) {
        let events = self.parts.tickets.as_mut().map(|tickets| tickets.handle_rank(rank));
        events.into_iter().flatten().for_each(|event| self.handle_event(event));
    }

    /// The server of PMI gets on; what comes of it is told to whom it concerns.
    fn hear_pmi(&mut self, goes_on: impl FnOnce(&mut Pmi) -> Vec<Said>) {
        let Some(pmi) = &mut self.parts.pmi else { return };
        for said in goes_on(pmi) {
            self.say(|| format!("PMI: {said:?}"));
            if let Some(ended) = self.parts.ranks.handle_pmi(&said) {
                self.handle_ended(ended);
            } else if let Said::Line(text) = said {
                self.report(&Report::Warning(text));
            }
        }
        if let Some((fence, puts)) = self.parts.pmi.as_mut().and_then(Pmi::poll_fence) {
            self.say(|| format!("PMI: all ranks here are in barrier {fence}, {} bytes", puts.len()));
            let mut frame = Vec::new();
            wire::put(&mut frame, Kind::Fence, fence, &puts);
            if self.front.is_some() {
                self.out.extend(&frame);
            }
            self.lasting.iter_mut().for_each(|lasting| lasting.keep_fence(frame.clone()));
            self.send();
        }
    }

    fn handle_event(&mut self, event: Event) {
        self.say(|| format!("{event:?}"));
        if let Event::Notice { rank, notice: Notice::Finalized } = event {
            self.stand_in(rank);
        }
        if let Some(ended) = self.parts.ranks.handle_event(event, now_ns()) {
            self.handle_ended(ended);
        }
    }

    /// A rank, counted on this node, has left; what still comes for it from other nodes is answered here.
    fn stand_in(&mut self, rank: u32) {
        let Parts { segment, peers, sockets, exited, .. } = &mut self.parts;
        let (Some(segment), Some((_, peers))) = (segment, peers) else { return };
        let world_rank = segment.geometry().first_rank + rank;
        if let Some(socket) = sockets.get(rank as usize)
            && let Err(error) = exited.take_over(rank, segment, peers, socket)
        {
            let text = format!("nobody answers for rank {world_rank}, which has left: {error}");
            self.report(&Report::Warning(text));
        }
    }

    fn handle_ended(&mut self, mut ended: wire::Ended) {
        self.say(|| format!("{ended:?}"));
        // Before its cgroup is killed by us.
        let reached = self.memory_limit_behind(ended.cause);
        if self.parts.ranks.is_ending() {
            self.kill();
        }
        if let Some(reached) = reached {
            ended.cause = wire::Cause::Memory;
            self.report(&Report::Warning(format!("rank {} was killed: {reached}", ended.rank)));
        }
        self.report(&Report::Ended(ended));
    }

    /// What the user reads of a limit of memory, if the kernel has killed the rank for it.
    fn memory_limit_behind(&self, cause: wire::Cause) -> Option<String> {
        let is_killed = matches!(cause, wire::Cause::Signal { signal: libc::SIGKILL, .. });
        let Parts { memory: Some(limit), cgroup: Some(cgroup), .. } = &self.parts else { return None };
        (is_killed && cgroup.has_run_out()).then(|| limit.reached.clone())
    }

    fn handle_failures(&mut self) {
        let Some(pipe) = &self.parts.failures else { return };
        let mut bytes = [0_u8; Failure::BYTES];
        match rustix::io::read(pipe, &mut bytes) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Ok(Failure::BYTES) => {
                let Some(failure) = Failure::decode(&bytes) else { return };
                let Some(name) =
                    self.parts.ranks.index_of(failure.rank).and_then(|at| self.parts.names.get(at))
                else {
                    return;
                };
                let text = launch::failure_text(name, &failure);
                self.refuse(text, launch::failure_status(&failure));
            }
            _ => self.parts.failures = None,
        }
    }

    fn handle_signals(&mut self) {
        while let Some(signal) = self.signals.next_signal() {
            if signal == libc::SIGCHLD {
                self.orphans_ns.get_or_insert_with(|| now_ns() + ORPHANS_NS);
                self.look_for_stop();
            } else {
                self.say(|| format!("signal {signal}: the job ends"));
                self.parts.ranks.set_ending(128 + signal as u8);
                self.kill();
            }
        }
    }

    fn handle_time(&mut self, now_ns: u64) {
        self.handle_away(now_ns);
        self.handle_hold_time(now_ns);
        self.handle_watch_time(now_ns);
        if let Some(ended) = self.parts.ranks.handle_time(now_ns) {
            self.handle_ended(ended);
        }
        if self.orphans_ns.is_some_and(|look_ns| now_ns >= look_ns) {
            self.orphans_ns = None;
            let ranks = &self.parts.ranks;
            descendants::reap_orphans(|pid| ranks.contains(pid));
        }
    }

    /// A key may have stopped rank 0 at its terminal. Where there is no cgroup, SIGSTOP is the daemon's way to end a turn.
    fn look_for_stop(&mut self) {
        let watched = self.parts.terminal.is_some() && !self.frozen;
        let Some(pid) = self.parts.ranks.first_pid().filter(|_| watched) else { return };
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let Ok(Some(stopped)) = waitid(WaitId::Pid(pid), options) else { return };
        if self.parts.cgroup.is_some() || stopped.stopping_signal() != Some(libc::SIGSTOP) {
            self.report(&Report::Stopped);
        }
    }

    /// The job goes on; so does rank 0 where a key has stopped it.
    fn resume(&mut self) {
        self.suspended = false;
        self.settle_freeze();
        if self.frozen {
            return;
        }
        if let Some(pid) = self.parts.ranks.first_pid().filter(|_| self.parts.terminal.is_some()) {
            let _ = kill_process_group(pid, Signal::CONT);
        }
    }

    /// A daemon is gone: its turns are over.
    fn end_turn(&mut self) {
        self.parts.page.iter().for_each(|(page, _)| page.settle(now_ns()));
        match &self.parts.cgroup {
            Some(cgroup) => cgroup.thaw_outer(),
            None if self.frozen => {}
            None => descendants::signal_all(None, Signal::CONT),
        }
    }

    /// The job stands still while a user has suspended it, or for a snapshot.
    fn settle_freeze(&mut self) {
        self.freeze(self.suspended || self.hold.is_some());
    }

    fn freeze(&mut self, frozen: bool) {
        if frozen == self.frozen {
            return;
        }
        self.frozen = frozen;
        if let Some((page, _)) = &self.parts.page {
            let tell = if frozen { daemon_page::Hold::begin } else { daemon_page::Hold::end };
            tell(&mut self.stands, page, now_ns());
        }
        let by_cgroup = self.parts.cgroup.as_ref().is_some_and(|cgroup| cgroup.freeze(frozen));
        if !by_cgroup {
            descendants::signal_all(None, if frozen { Signal::STOP } else { Signal::CONT });
        }
    }

    /// Kills every process of the job at once. Their deaths are seen by the loop.
    fn kill(&mut self) {
        self.ready = None;
        if !std::mem::replace(&mut self.ending_told, true) {
            self.report(&Report::Ending { status: self.parts.ranks.status() });
        }
        match &self.parts.cgroup {
            Some(cgroup) => cgroup.kill(),
            None => {
                self.parts.ranks.kill();
                descendants::signal_all(None, Signal::KILL);
            }
        }
    }

    fn say(&self, what: impl FnOnce() -> String) {
        if self.debug {
            eprintln!("tutti-starter[{}]: {}", std::process::id(), what());
        }
    }
}
