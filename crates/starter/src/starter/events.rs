//! Events that the starter waits for, and what it does when they happen.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFlags, Timespec};
use rustix::process::Pid;
use tutti_shm::ticket::{Face, Notice};

use super::reconnect::Reconnect;
use super::{Starter, hold, idle, stuck};
use crate::foreign::Foreign;
use crate::launch;
use crate::memory_watch::MemoryWatch;
use crate::network_context::NetworkContext;
use crate::origin::MountedOrigin;
use crate::parts::Parts;
use crate::pmi::{Pmi, PmiEvent};
use crate::pmix::Pmix;
use crate::readiness::{PollList, Source, now_ns};
use crate::regions::Regions;
use crate::tickets::{AttachReply, Event, Tickets};
use tutti_os::Failure;
use tutti_os::cgroup::{Cgroup, UsedUp};
use tutti_os::descendants;
use tutti_protocol::wire::{self, Kind, Library, Report};

/// Orphans of the ranks are looked for, and their statuses taken, this long after a child's death. Only a job
/// that leaves many behind while it runs needs it at all.
const ORPHANS_NS: u64 = 1_000_000_000;

impl Starter {
    /// Waits until something happens or is due. Sources that are listed first are handled first.
    pub(super) fn wait(&mut self) -> Vec<(Source, PollFlags)> {
        let mut list = PollList::default();
        self.list_own(&mut list);
        self.list_ranks(&mut list);
        self.list_tickets(&mut list);
        self.list_data(&mut list);
        let timeout = self.due_ns().map(|due_ns| {
            let ns = due_ns.saturating_sub(now_ns());
            Timespec::try_from(Duration::from_nanos(ns)).expect("less than a century")
        });
        list.wait(timeout.as_ref())
    }

    /// Lists sources of the starter itself, and failures of starts.
    fn list_own<'a>(&'a self, list: &mut PollList<'a>) {
        let parts = &self.parts;
        if let Some(front) = &self.front {
            let write = if self.out.len() > self.sent { PollFlags::OUT } else { PollFlags::empty() };
            list.add(Source::Front, front.as_fd(), PollFlags::IN | write);
        }
        let mut add = |source, descriptor| list.add(source, descriptor, PollFlags::IN);
        add(Source::Signals, self.signals.descriptor());
        parts.regions.iter().for_each(|regions| add(Source::Regions, regions.control()));
        parts.silent.stopped.sockets().for_each(|(rank, socket)| add(Source::StandIn(rank), socket));
        let notices = self.origin.iter().filter_map(MountedOrigin::notices);
        notices.for_each(|pipe| add(Source::Origin, pipe));
        parts.failures.iter().for_each(|pipe| add(Source::Failures, pipe.as_fd()));
        for (index, spawning) in parts.spawnings.iter().enumerate().rev() {
            spawning.failures().into_iter().for_each(|pipe| add(Source::Spawning(index), pipe));
        }
    }

    /// Lists ends of ranks and what leads to them, and questions of foreign libraries.
    fn list_ranks<'a>(&'a self, list: &mut PollList<'a>) {
        let parts = &self.parts;
        // Before the deaths that come of it.
        let reached = parts.cgroup.iter().flat_map(Cgroup::reached);
        reached.for_each(|event| list.add(Source::Memory, event, PollFlags::IN));
        let alive = parts.ranks.alive().map(|(rank, pidfd)| (Source::Rank(rank), pidfd));
        let inner = parts.ranks.inner().map(|(rank, pidfd)| (Source::Inner(rank), pidfd));
        alive.chain(inner).for_each(|(source, pidfd)| list.add(source, pidfd, PollFlags::IN));
        for (rank, socket, flags) in parts.foreign.iter().flat_map(|foreign| foreign.pmi.polled()) {
            list.add(Source::Pmi(rank), socket, flags);
        }
        let pmix = parts.foreign.iter().filter_map(|foreign| foreign.pmix.as_ref()?.polled());
        pmix.for_each(|(control, flags)| list.add(Source::Pmix, control, flags));
    }

    /// Lists connections of ranks, and those that may become ranks.
    fn list_tickets<'a>(&'a self, list: &mut PollList<'a>) {
        let Some(tickets) = &self.parts.tickets else { return };
        let connections =
            tickets.connections().map(|(rank, connection)| (Source::Connection(rank), connection));
        // Highest first, since a handled one leaves the list; new ones only then.
        let pending: Vec<_> = tickets.pending().enumerate().collect();
        let pending =
            pending.into_iter().rev().map(|(index, connection)| (Source::Pending(index), connection));
        let listener = tickets.listener().into_iter().map(|listener| (Source::Listener, listener));
        let all = connections.chain(pending).chain(listener);
        all.for_each(|(source, connection)| list.add(source, connection, PollFlags::IN));
    }

    /// Lists output and input of ranks, and datagrams for those that cannot take them.
    fn list_data<'a>(&'a self, list: &mut PollList<'a>) {
        let parts = &self.parts;
        let streams = parts.streams.readable().filter(|_| !self.is_jammed());
        streams.for_each(|(index, descriptor)| list.add(Source::Stream(index), descriptor, PollFlags::IN));
        for descriptor in parts.inputs.writable() {
            list.add(Source::Input, descriptor, PollFlags::OUT);
        }
        let exited = parts.silent.exited.sockets().map(|(rank, socket)| (Source::Exited(rank), socket));
        let frozen = self.context.iter().flat_map(NetworkContext::sockets);
        let frozen = frozen.map(|(rank, socket)| (Source::Frozen(rank), socket));
        exited.chain(frozen).for_each(|(source, socket)| list.add(source, socket, PollFlags::IN));
    }

    /// When the next thing is due, if nothing happens before.
    fn due_ns(&self) -> Option<u64> {
        let parts = &self.parts;
        let own = [
            self.orphans_ns,
            self.linger_ns,
            self.reconnect.as_ref().and_then(Reconnect::due_ns),
            self.hold.as_ref().map(hold::Hold::due_ns),
            self.context.as_ref().and_then(NetworkContext::due_ns),
            self.watch.as_ref().map(stuck::Watch::due_ns),
            self.idle.as_ref().map(idle::IdleWatch::due_ns),
            self.memory_watch.as_ref().map(MemoryWatch::due_ns),
            self.spawn_due_ns(),
        ];
        let of_parts = [
            parts.streams.silence_ends_ns().filter(|_| !self.is_jammed()),
            parts.ranks.grace_ends_ns(),
            parts.connections.due_ns(),
            parts.tickets.as_ref().and_then(Tickets::due_ns),
            parts.foreign.as_ref().and_then(|foreign| foreign.pmix.as_ref()?.due_ns()),
            parts.foreign.as_ref().and_then(Foreign::unserved_due_ns),
        ];
        own.into_iter().chain(of_parts).flatten().min()
    }

    pub(super) fn handle(&mut self, source: Source, flags: PollFlags) {
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
            Source::Memory => {
                if self.parts.cgroup.iter_mut().any(Cgroup::handle_reached) {
                    self.memory_watch = Some(MemoryWatch::begin(now_ns()));
                }
            }
            // Clients see that all is gone; a rank that publishes anew starts another one.
            Source::Regions => self.parts.regions = None,
            Source::StandIn(rank) => {
                let Parts { silent, segment, peers, .. } = &mut self.parts;
                if let (Some(segment), Some((_, peers))) = (segment, peers) {
                    silent.stopped.handle_readable(rank, segment, peers.key());
                }
            }
            Source::Origin => {
                let lines = self.origin.iter_mut().flat_map(MountedOrigin::take_notices);
                let lines: Vec<String> = lines.collect();
                lines.into_iter().for_each(|line| self.report(&Report::Warning(line)));
            }
            Source::Listener => {
                self.parts.tickets.iter_mut().for_each(|tickets| tickets.handle_listener(now_ns()))
            }
            Source::Pending(index) => {
                let Parts { tickets, segment, pages, peers, sockets, .. } = &mut self.parts;
                if let (Some(tickets), Some(segment), Some(page)) = (tickets, segment, pages.turns_end()) {
                    let network = peers.as_ref().map(|(table, _)| (table.as_fd(), &sockets[..]));
                    let name = |rank: u32, pid: Pid| {
                        segment.name(rank as usize, pid.as_raw_nonzero().get().cast_unsigned());
                    };
                    let segment = segment.descriptor();
                    let reply = AttachReply { segment, page, network };
                    if let Some(event) = tickets.handle_pending(index, &reply, name) {
                        self.handle_event(event);
                    }
                }
            }
            Source::Connection(rank) => self.handle_notices(rank),
            Source::Pmi(rank) => self.run_pmi(|pmi| pmi.handle_ready(rank)),
            Source::Pmix => self.run_pmix(Pmix::handle_ready),
            Source::Failures => self.handle_failures(),
            Source::Spawning(index) => self.handle_spawning(index),
            Source::Stream(index) => {
                self.parts.streams.handle_readable(index, now_ns());
            }
            Source::Frozen(rank) => self.handle_frozen_socket(rank),
            Source::Exited(rank) => self.parts.silent.exited.handle_readable(rank),
            Source::Input => self.parts.inputs.handle_writable(),
            Source::Rank(_) | Source::Inner(_) => {}
        }
    }

    /// Frees what a dead rank had of the parallel slots.
    fn end_phases(&self, rank: u32) {
        self.parts.ranks.pid_of(rank).into_iter().for_each(|pid| self.parts.pages.end_phases(pid));
    }

    pub(super) fn handle_death(&mut self, source: Source) {
        match source {
            Source::Rank(rank) => {
                self.handle_notices(rank);
                self.run_pmi(|pmi| pmi.handle_death(rank));
                self.run_pmix(Pmix::handle_ready);
                self.await_pmix_end(rank);
                self.handle_failures();
                self.handle_spawnings();
                // One that could have come back has not said itself that it leaves, if it ended by _exit.
                if self.parts.ranks.is_withdrawn(rank) || self.parts.ranks.has_finalized(rank) {
                    self.parts.segment.iter().for_each(|segment| segment.mark_left(rank as usize));
                }
                self.note_separate();
                let ended = self.parts.ranks.handle_death(rank, now_ns());
                if self.parts.ranks.is_ended_alone(rank) {
                    self.parts.segment.iter().for_each(|segment| segment.mark_left(rank as usize));
                }
                self.announce_end(rank);
                self.parts.connections.forget(rank);
                if let Some(ended) = ended {
                    self.end_phases(rank);
                    self.handle_ended(ended);
                }
            }
            Source::Inner(rank) => {
                self.handle_notices(rank);
                self.parts.ranks.handle_inner_death(rank, now_ns());
            }
            _ => {}
        }
    }

    /// Whether processes are left whose parents have died.
    pub(super) fn has_orphans(&self) -> bool {
        let servers = [self.pmix_server(), self.parts.regions.as_ref().map(Regions::pid)];
        let is_ours = |child: &Pid| self.parts.ranks.contains(*child) || servers.contains(&Some(*child));
        !descendants::children_of(rustix::process::getpid()).iter().all(is_ours)
    }

    /// Notes which ranks have disconnected from all that are not of their MPI_COMM_WORLD. Of other nodes that
    /// is not known here: there all count as connected.
    pub(super) fn note_separate(&mut self) {
        let Parts { segment: Some(segment), ranks, .. } = &mut self.parts else { return };
        if self.alone {
            ranks.note_separate(|rank| segment.is_separate(rank));
        }
    }

    fn handle_notices(&mut self, rank: u32) {
        let events = self.parts.tickets.as_mut().map(|tickets| tickets.handle_rank(rank));
        events.into_iter().flatten().for_each(|event| self.handle_event(event));
    }

    /// Runs a step of the PMI server and acts on its events.
    pub(super) fn run_pmi(&mut self, step: impl FnOnce(&mut Pmi) -> Vec<PmiEvent>) {
        let Some(foreign) = &mut self.parts.foreign else { return };
        for event in step(&mut foreign.pmi) {
            self.log_debug(|| format!("PMI: {event:?}"));
            if let PmiEvent::Started(_) = event {
                self.note_library(Library::Pmi);
            }
            if let PmiEvent::Abort(..) | PmiEvent::NoPmi(_) = event {
                self.note_separate();
            }
            if let Some(ended) = self.parts.ranks.handle_pmi(&event) {
                self.handle_ended(ended);
                continue;
            }
            match event {
                PmiEvent::Full(rank, kib) => {
                    let rank = self.parts.ranks.world_rank(rank);
                    self.report(&Report::Warning(format!(
                        "rank {rank} has stored {kib} KiB over PMI, its share; more is refused"
                    )));
                }
                PmiEvent::Spawn(rank, commands) => self.spawn_over_pmi(rank, commands),
                PmiEvent::Name(rank, change) => self.change_name(rank, change),
                _ => {}
            }
        }
        let fence = self.parts.foreign.as_mut().and_then(|foreign| foreign.pmi.poll_fence());
        if let Some((fence, puts)) = fence {
            self.send_fence(fence, &puts);
        }
        self.send_words();
    }

    /// A rank has begun with MPI.
    pub(super) fn note_library(&mut self, library: Library) {
        if self.parts.foreign.as_mut().is_some_and(|foreign| foreign.note(library)) {
            self.report(&Report::Library(library));
        }
    }

    /// All ranks here are in a barrier of PMI, or a fence of PMIx.
    pub(super) fn send_fence(&mut self, fence: u32, puts: &[u8]) {
        self.log_debug(|| format!("all ranks here are in barrier {fence}, {} bytes", puts.len()));
        let mut frame = Vec::new();
        wire::put(&mut frame, Kind::Fence, fence, puts);
        if self.front.is_some() {
            self.out.extend(&frame);
        }
        self.reconnect.iter_mut().for_each(|reconnect| reconnect.keep_fence(frame.clone()));
        self.send();
    }

    fn handle_event(&mut self, event: Event) {
        self.log_debug(|| format!("{event:?}"));
        if let Event::Attached { face, .. } = event {
            self.note_library(match face {
                Face::Own => Library::Tutti,
                Face::Mpich => Library::TuttiMpich,
            });
        }
        let event = match event {
            Event::Connection { rank, connection } => {
                return self.parts.connections.handle(rank, connection);
            }
            Event::Regions { connection, .. } => return self.admit_owner(&connection),
            Event::StandIn { rank, socket } => return self.parts.silent.stopped.add(rank, socket),
            event => event,
        };
        if let Event::Notice { rank, notice: Notice::Finalized } = event {
            self.add_exited(rank);
        }
        if let Event::Spawn { rank, request } = &event {
            self.spawn(*rank, request);
        }
        if let Event::Notice { notice: Notice::Abort(_) | Notice::Fatal(_) | Notice::Exit(_), .. } = event {
            self.note_separate();
        }
        if let Some(ended) = self.parts.ranks.handle_event(&event, now_ns()) {
            self.handle_ended(ended);
        }
    }

    /// A rank wants to publish regions for other jobs.
    fn admit_owner(&mut self, connection: &OwnedFd) {
        if self.parts.regions.is_none() && !self.parts.ranks.is_ending() {
            match Regions::start() {
                Ok(regions) => self.parts.regions = Some(regions),
                // The rank sees that its connection is closed.
                Err(error) => self.log_debug(|| format!("cannot serve regions: {error}")),
            }
        }
        self.parts.regions.iter().for_each(|regions| regions.admit(connection.as_fd()));
    }

    /// A rank, counted on this node, has left; what still comes for it from other nodes is answered here.
    pub(super) fn add_exited(&mut self, rank: u32) {
        let Parts { segment, peers, sockets, silent, .. } = &mut self.parts;
        let (Some(segment), Some((_, peers))) = (segment, peers) else { return };
        let world_rank = segment.layout().numbers().rank_at(rank as usize);
        if let Some(socket) = sockets.get(rank as usize)
            && let Err(error) = silent.exited.take_over(rank, segment, peers, socket)
        {
            let text = format!("cannot answer for rank {world_rank}, which has left: {error}");
            self.report(&Report::Warning(text));
        }
    }

    pub(super) fn handle_ended(&mut self, mut ended: wire::Ended) {
        self.log_debug(|| format!("{ended:?}"));
        // Before its cgroup is killed by us.
        let used_up = self.used_up_behind(ended.cause);
        if self.parts.ranks.is_ending() {
            self.kill_but_filters(Some(ended.rank));
        } else {
            self.kill_ended();
            self.drop_asks();
        }
        let mut reports = Vec::new();
        match (used_up, &self.parts.memory) {
            (Some(UsedUp::User), _) => ended.cause = wire::Cause::UserMemory,
            (Some(UsedUp::Job), Some(limit)) => {
                ended.cause = wire::Cause::Memory;
                let text = format!("rank {} was killed: {}", ended.rank, limit.reached);
                reports.push(Report::Warning(text));
            }
            _ => {}
        }
        reports.push(Report::Ended(ended));
        self.report_all(&reports);
    }

    /// Owner of the limit of memory, if the kernel has killed the rank for one.
    fn used_up_behind(&self, cause: wire::Cause) -> Option<UsedUp> {
        let is_killed = matches!(cause, wire::Cause::Signal { signal: libc::SIGKILL, .. });
        self.parts.cgroup.as_ref().filter(|_| is_killed)?.used_up()
    }

    /// The user's memory is used up: if the kernel has killed a process of this job for it, the others go
    /// with it.
    fn watch_memory(&mut self, now_ns: u64) {
        let Some(cgroup) = self.parts.cgroup.as_ref() else { return };
        let Some(watch) = self.memory_watch.as_mut().filter(|watch| now_ns >= watch.due_ns()) else { return };
        let is_hit = cgroup.used_up().is_some();
        if is_hit {
            cgroup.kill();
        }
        if is_hit || !watch.goes_on(now_ns) {
            self.memory_watch = None;
        }
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
                self.poll_rank_stop();
            } else {
                self.log_debug(|| format!("signal {signal}: the job ends"));
                self.parts.ranks.set_ending(128 + signal as u8);
                self.kill();
            }
        }
    }

    fn look_for_unserved(&mut self, now_ns: u64) {
        let is_ending = self.parts.ranks.is_ending();
        let foreign = self.parts.foreign.as_mut().filter(|_| !is_ending);
        let line = foreign.and_then(|foreign| foreign.poll_unserved(now_ns));
        line.into_iter().for_each(|line| self.report(&Report::Warning(line)));
    }

    pub(super) fn handle_time(&mut self, now_ns: u64) {
        self.handle_away(now_ns);
        self.handle_hold_time(now_ns);
        self.handle_context_time(now_ns);
        self.handle_watch_time(now_ns);
        self.handle_idle_time(now_ns);
        self.handle_spawn_time(now_ns);
        self.look_at_pmix(now_ns);
        self.look_for_unserved(now_ns);
        self.watch_memory(now_ns);
        self.parts.tickets.iter_mut().for_each(|tickets| tickets.handle_time(now_ns));
        if let Some(jobs) = self.parts.connections.poll(now_ns) {
            self.report(&Report::Connected(jobs));
        }
        if self.parts.ranks.grace_ends_ns().is_some_and(|ends_ns| now_ns >= ends_ns) {
            self.note_separate();
        }
        if let Some(ended) = self.parts.ranks.handle_time(now_ns) {
            self.handle_ended(ended);
        }
        if self.orphans_ns.is_some_and(|due_ns| now_ns >= due_ns) {
            self.orphans_ns = None;
            let ranks = &self.parts.ranks;
            descendants::reap_orphans(|pid| ranks.contains(pid));
        }
    }
}
