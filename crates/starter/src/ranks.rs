//! The ranks of a job on this node: the state of each, and which one ended the job. They are counted on this
//! node, from 0; users read world ranks.
//!
//! ```text
//! Alone --Attached--> Attached --Finalized--> Finalized          (over PMI: init, finalize; then init again)
//!                         '-----Abort-------> Aborted
//! ```
//!
//! | the rank's process | state | the job |
//! |---|---|---|
//! | exits with 0 | Alone, Finalized | the job continues |
//! | exits with 0 | Attached | ends: [`Cause::NotFinalized`] |
//! | exits with another status, or is killed | Alone, Attached | ends |
//! | exits with another status, or is killed | Finalized | the job continues: others may still write their results; the status is kept |
//! | - | Aborted | ends |
//! | exits with 0 | Alone, started by other ranks | ends: [`Cause::NeverInit`], since those wait for it |
//! | exits with 0 | Alone, and the others wait for it, perhaps over PMI or PMIx | ends: [`Cause::Absent`] |
//! | ends, and nothing says how | Alone, Attached | ends: [`Cause::Unknown`] |
//! | ends in any way | Attached, adopted: it was started without mpiexec | ends: [`Cause::Gone`] |
//! | ends in any way | withdrawn: one of those that were to start with it could not | the job continues |
//! | was never there: the kernel refused it | withdrawn, and dead | the job continues |
//!
//! Where a rank ends the job, and it has disconnected from others on one node (MPI 11.10.4), only those end
//! that are connected with it: the processes of one or several MPI_COMM_WORLD (`Ranks::end_connected`).

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, pidfd_send_signal, waitid,
};
use tutti_shm::numbers::Numbers;
use tutti_shm::ticket::Notice;

use crate::pmi::PmiEvent;
use crate::tickets::Event;
use tutti_os::stat::Stat;
use tutti_protocol::wire::{Cause, Ended};

/// After the death of a process that called MPI_Init below a wrapper, its wrapper has this time to end by
/// itself, which gives its status.
pub const WRAPPER_GRACE_NS: u64 = 1_000_000_000;

/// The end of a rank that a debugger holds back is asked for again after this time.
const LOOK_AGAIN_NS: u64 = 20_000_000;

/// How far a rank has come with MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    /// Rank that has not called MPI_Init, perhaps never will.
    Alone,
    /// Between MPI_Init and MPI_Finalize.
    Attached,
    /// After MPI_Finalize.
    Finalized,
    /// Rank that wants the job to end with this code.
    Aborted(u32),
}

/// One rank.
#[derive(Debug)]
pub struct Rank {
    /// None: it has got no process.
    process: Option<Process>,
    mpi: Mpi,
    dead: bool,
    origin: Origin,
    /// The process that called MPI_Init, when it is not the rank's own.
    inner: Option<OwnedFd>,
    /// Pid of that process.
    inner_pid: Option<Pid>,
    /// Whether it says that it is connected with its own MPI_COMM_WORLD alone.
    is_separate: bool,
    /// Time before which its end cannot be asked for.
    asked_again_ns: Option<u64>,
    /// When the inner process was seen dead without MPI_Finalize.
    inner_dead_ns: Option<u64>,
}

#[derive(Debug)]
struct Process {
    pid: Pid,
    /// Readable when it is dead.
    pidfd: OwnedFd,
}

impl Process {
    fn number(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }
}

impl Rank {
    fn of(pid: Pid, pidfd: OwnedFd, origin: Origin) -> Self {
        Rank { process: Some(Process { pid, pidfd }), dead: false, ..Rank::absent(origin) }
    }

    fn absent(origin: Origin) -> Self {
        Rank {
            process: None,
            mpi: Mpi::Alone,
            dead: true,
            origin,
            inner: None,
            inner_pid: None,
            is_separate: false,
            asked_again_ns: None,
            inner_dead_ns: None,
        }
    }

    fn pid(&self) -> Option<Pid> {
        self.process.as_ref().map(|process| process.pid)
    }
}

/// Why a rank is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The job began with it.
    Launch,
    /// Other ranks have started it, and wait for its MPI_Init. The context of its MPI_COMM_WORLD names that;
    /// 0: it is to take another rank's place.
    Spawn(u32),
    /// As before, but it was taken back.
    Withdrawn,
    /// Rank that has failed, or was connected with one that has; others of the job go on.
    Ended {
        /// Whether others had started it.
        is_later: bool,
    },
    /// Process that was there before the job, and is no child of the starter: it gets no signals from here,
    /// and how it ended is not known.
    Adopted,
}

impl Origin {
    fn is_spawn(self) -> bool {
        matches!(self, Origin::Spawn(_))
    }

    /// Whether its end is no matter of the job.
    fn is_over(self) -> bool {
        matches!(self, Origin::Withdrawn | Origin::Ended { .. })
    }

    /// Number of the rank's MPI_COMM_WORLD.
    fn world(self) -> Option<u32> {
        match self {
            Origin::Launch => Some(0),
            Origin::Spawn(world) => Some(world),
            Origin::Withdrawn | Origin::Ended { .. } | Origin::Adopted => None,
        }
    }
}

/// All ranks, and the state of the job.
#[derive(Debug, Default)]
pub struct Ranks {
    ranks: Vec<Rank>,
    /// World ranks of these ranks.
    numbers: Option<Numbers>,
    /// Exit status of the job: the first that was not 0.
    status: u8,
    ending: bool,
    /// Whether it is known of all ranks of the job what they say of their connections.
    knows_separate: bool,
    /// When an adopted rank is to have ended.
    adopted_ends_ns: Option<u64>,
}

impl Ranks {
    /// Makes the ranks of a node that has these world ranks.
    pub fn of(numbers: Numbers) -> Self {
        Ranks { numbers: Some(numbers), ..Ranks::default() }
    }

    /// Adds the next rank, which was there before and has called MPI_Init.
    ///
    /// # Errors
    /// When it is dead.
    pub fn adopt(&mut self, pid: Pid) -> std::io::Result<()> {
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        self.add(pid, pidfd, Origin::Adopted);
        self.ranks.iter_mut().for_each(|rank| rank.mpi = Mpi::Attached);
        Ok(())
    }

    /// Adds the next rank, just forked.
    pub fn add(&mut self, pid: Pid, pidfd: OwnedFd, origin: Origin) {
        self.ranks.push(Rank::of(pid, pidfd, origin));
    }

    /// Ranks up to so many that others have asked for have got no process, and get none any more: they have
    /// ended.
    pub fn add_absent(&mut self, count: usize) {
        while self.ranks.len() < count {
            self.ranks.push(Rank::absent(Origin::Withdrawn));
        }
    }

    /// Puts another process in the place of a rank that has ended, just forked; gives the pid of the former,
    /// if it had a process.
    ///
    /// # Panics
    /// When it has not ended.
    pub fn replace(&mut self, rank: u32, pid: Pid, pidfd: OwnedFd, origin: Origin) -> Option<u32> {
        assert!(self.has_ended(rank), "rank {rank} has not ended");
        let former = std::mem::replace(&mut self.ranks[rank as usize], Rank::of(pid, pidfd, origin));
        let former = former.process?;
        // Nobody names it any more.
        let _ = waitid(WaitId::PidFd(former.pidfd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        Some(former.number())
    }

    /// Whether a rank that others have started is dead, and had left before, was taken back or has ended
    /// alone.
    pub fn has_ended(&self, rank: u32) -> bool {
        let Some(rank) = self.ranks.get(rank as usize) else { return false };
        match rank.origin {
            Origin::Withdrawn => rank.dead,
            Origin::Spawn(_) => rank.dead && rank.mpi == Mpi::Finalized,
            Origin::Ended { is_later } => rank.dead && is_later,
            Origin::Launch | Origin::Adopted => false,
        }
    }

    /// Kills a rank, whose end is no matter of the job.
    pub fn withdraw(&mut self, rank: u32) {
        let rank = &mut self.ranks[rank as usize];
        rank.origin = Origin::Withdrawn;
        kill(rank);
    }

    /// Whether it has been taken back.
    pub fn is_withdrawn(&self, rank: u32) -> bool {
        // There is none yet, while others are forked.
        self.ranks.get(rank as usize).is_some_and(|rank| rank.origin == Origin::Withdrawn)
    }

    /// Whether it has ended, or is to, while others of the job go on.
    pub fn is_ended_alone(&self, rank: u32) -> bool {
        self.ranks.get(rank as usize).is_some_and(|rank| matches!(rank.origin, Origin::Ended { .. }))
    }

    /// Whether it may ask for more ranks: it runs, and is not about to be ended.
    pub fn may_ask(&self, rank: u32) -> bool {
        self.ranks.get(rank as usize).is_some_and(|rank| !rank.dead && !rank.origin.is_over())
    }

    /// Notes of each rank whether it says that it is connected with its own MPI_COMM_WORLD alone. All ranks
    /// of the job are of this node.
    pub fn note_separate(&mut self, says: impl Fn(usize) -> bool) {
        self.knows_separate = true;
        for (index, rank) in self.ranks.iter_mut().enumerate() {
            rank.is_separate = says(index);
        }
    }

    /// Whether it has called MPI_Init, and MPI_Finalize not yet.
    pub fn is_attached(&self, rank: u32) -> bool {
        self.ranks.get(rank as usize).is_some_and(|rank| rank.mpi == Mpi::Attached)
    }

    /// Whether it has called MPI_Finalize.
    pub fn has_finalized(&self, rank: u32) -> bool {
        self.ranks.get(rank as usize).is_some_and(|rank| rank.mpi == Mpi::Finalized)
    }

    /// Which of those of this node has a world rank.
    pub fn index_of(&self, rank: u32) -> Option<usize> {
        let found = self.numbers.map(|numbers| numbers.index_of(rank as usize));
        found.filter(|index| *index < self.ranks.len())
    }

    /// The place of a world rank of this node, which need not have been started.
    pub fn place_of(&self, rank: u32) -> u32 {
        self.numbers.map_or(rank, |numbers| numbers.index_of(rank as usize) as u32)
    }

    /// World rank of one of this node.
    pub fn world_rank(&self, index: u32) -> u32 {
        self.numbers.map_or(index, |numbers| numbers.rank_at(index as usize) as u32)
    }

    /// How many there are, those without a process among them.
    pub fn count(&self) -> usize {
        self.ranks.len()
    }

    /// The pids of those that have got a process, in their order.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.ranks.iter().filter_map(|rank| rank.process.as_ref().map(Process::number))
    }

    /// The pid of a rank, if it has got a process.
    pub fn pid_of(&self, rank: u32) -> Option<u32> {
        self.ranks.get(rank as usize)?.process.as_ref().map(Process::number)
    }

    /// Pid of the first rank, as long as it is alive.
    pub fn first_pid(&self) -> Option<Pid> {
        self.ranks.first().filter(|rank| !rank.dead).and_then(Rank::pid)
    }

    /// Whether a pid is a rank's.
    pub fn contains(&self, pid: Pid) -> bool {
        self.ranks.iter().any(|rank| rank.pid() == Some(pid))
    }

    /// Living ranks, to be polled for readability and given to [`Self::handle_death`].
    pub fn alive(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        let polled = |rank: &Rank| !rank.dead && rank.asked_again_ns.is_none();
        let alive = self.ranks.iter().enumerate().filter(move |(_, rank)| polled(rank));
        alive.filter_map(|(index, rank)| Some((index as u32, rank.process.as_ref()?.pidfd.as_fd())))
    }

    /// Processes below wrappers, to be polled and given to [`Self::handle_inner_death`].
    pub fn inner(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        let watched = self.ranks.iter().enumerate().filter(|(_, rank)| !rank.dead);
        watched.filter_map(|(index, rank)| Some((index as u32, rank.inner.as_ref()?.as_fd())))
    }

    /// No process of a rank is left.
    pub fn all_dead(&self) -> bool {
        self.ranks.iter().all(|rank| rank.dead)
    }

    /// The exit status of the job so far.
    pub fn status(&self) -> u8 {
        self.status
    }

    /// The job is over: deaths from now on are its consequence and not reported.
    pub fn set_ending(&mut self, status: u8) {
        if !self.ending {
            self.ending = true;
            if self.status == 0 {
                self.status = status;
            }
        }
    }

    /// Whether the job is over.
    pub fn is_ending(&self) -> bool {
        self.ending
    }

    /// Handles what a rank's connection brought. Gives what the user should read; the job ends if
    /// [`Self::is_ending`] is true then.
    pub fn handle_event(&mut self, event: &Event, now_ns: u64) -> Option<Ended> {
        match *event {
            Event::Spawn { .. }
            | Event::Connection { .. }
            | Event::Regions { .. }
            | Event::StandIn { .. }
            | Event::Notice { notice: Notice::Regions | Notice::StandIn, .. } => None,
            Event::Attached { rank, pid, .. } => {
                let rank = &mut self.ranks[rank as usize];
                rank.mpi = Mpi::Attached;
                if Some(pid) != rank.pid() {
                    // It may have died since: then there is nothing to watch any more.
                    rank.inner = pidfd_open(pid, PidfdFlags::empty()).ok();
                    rank.inner_pid = Some(pid);
                    rank.inner_dead_ns = rank.inner.is_none().then_some(now_ns);
                }
                None
            }
            Event::Notice { rank, notice: Notice::Finalized } => {
                let rank = &mut self.ranks[rank as usize];
                rank.mpi = Mpi::Finalized;
                rank.inner = None;
                rank.inner_dead_ns = None;
                None
            }
            Event::Notice { rank, notice: Notice::Abort(code) } => {
                self.ranks[rank as usize].mpi = Mpi::Aborted(code);
                self.judge(rank, Cause::Abort(code))
            }
            Event::Notice { rank, notice: Notice::Fatal(code) } => {
                self.ranks[rank as usize].mpi = Mpi::Aborted(code);
                self.judge(rank, Cause::Fatal(code))
            }
            Event::Notice { rank, notice: Notice::Exit(code) } => {
                self.ranks[rank as usize].mpi = Mpi::Aborted(code);
                self.judge(rank, Cause::Exit(code))
            }
        }
    }

    /// Handles what a rank sent over PMI. A wrapper may run several programs one after the other. Which
    /// process sends is not known, so its end is that of the rank's own process.
    pub fn handle_pmi(&mut self, event: &PmiEvent) -> Option<Ended> {
        let set = |rank: u32, mpi, ranks: &mut Self| ranks.ranks[rank as usize].mpi = mpi;
        match *event {
            PmiEvent::Started(rank) => set(rank, Mpi::Attached, self),
            PmiEvent::Finished(rank) => set(rank, Mpi::Finalized, self),
            PmiEvent::Abort(rank, code) => {
                set(rank, Mpi::Aborted(code), self);
                return self.judge(rank, Cause::Abort(code));
            }
            PmiEvent::NoPmi(rank) => {
                set(rank, Mpi::Aborted(1), self);
                return self.judge(rank, Cause::NoPmi);
            }
            PmiEvent::Full(..) | PmiEvent::Spawn(..) | PmiEvent::Name(..) => {}
        }
        None
    }

    /// A rank's process is dead. Its status is read, not taken: the pid stays the rank's as long as others
    /// may name it in `process_vm_readv`.
    pub fn handle_death(&mut self, rank: u32, now_ns: u64) -> Option<Ended> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let entry = &mut self.ranks[rank as usize];
        if entry.origin == Origin::Adopted {
            entry.dead = true;
            return if entry.mpi == Mpi::Finalized { None } else { self.judge(rank, Cause::Gone) };
        }
        let asked = waitid(WaitId::PidFd(entry.process.as_ref()?.pidfd.as_fd()), options);
        let status = match asked {
            Ok(Some(status)) => Some(status),
            // It is dead, but a debugger has not taken its end yet: that is not seen here before.
            Ok(None) | Err(rustix::io::Errno::INTR) => {
                entry.asked_again_ns = Some(now_ns + LOOK_AGAIN_NS);
                return None;
            }
            Err(_) => None,
        };
        entry.asked_again_ns = None;
        entry.dead = true;
        if entry.origin.is_over() {
            return None;
        }
        let Some(status) = status else {
            // The descriptor says that it is dead, and that is all.
            return if entry.mpi == Mpi::Finalized { None } else { self.judge(rank, Cause::Unknown) };
        };
        let cause = if let Some(signal) = status.terminating_signal() {
            Cause::Signal { signal, core_dumped: status.dumped() }
        } else {
            match (status.exit_status().unwrap_or(0), entry.mpi) {
                (0, Mpi::Attached) => Cause::NotFinalized,
                (0, Mpi::Alone) if entry.origin.is_spawn() => Cause::NeverInit,
                (0, _) => return None,
                (status, _) => Cause::Status(status),
            }
        };
        self.judge(rank, cause)
    }

    /// Whether a rank that the job began with has ended well without MPI_Init, so that it will never come.
    pub fn is_absent(&self, rank: u32) -> bool {
        let rank = self.ranks.get(rank as usize);
        rank.is_some_and(|rank| rank.dead && rank.mpi == Mpi::Alone && rank.origin == Origin::Launch)
    }

    /// The others wait for ever, and for ranks that are not there: the first that is absent ends the job.
    pub fn handle_wait_for_absent(&mut self) -> Option<Ended> {
        let absent = self.absent().next()?;
        self.judge(absent, Cause::Absent)
    }

    /// Absent ranks, in order.
    pub fn absent(&self) -> impl Iterator<Item = u32> {
        (0..self.ranks.len() as u32).filter(|rank| self.is_absent(*rank))
    }

    /// Ranks of this node wait for ever for a world rank, perhaps of another node, that is absent.
    pub fn handle_absent(&mut self, rank: u32, pid: u32) -> Option<Ended> {
        let cause = Cause::Absent;
        let is_first = !self.ending;
        self.set_ending(cause.status());
        is_first.then_some(Ended { rank, pid, cause })
    }

    /// Whether all living ranks that the job began with are between MPI_Init and MPI_Finalize, and there are
    /// some.
    pub fn have_living_begun(&self) -> bool {
        let of_launch = |rank: &&Rank| !rank.dead && rank.origin == Origin::Launch;
        let mut living = self.ranks.iter().filter(of_launch).peekable();
        living.peek().is_some() && living.all(|rank| rank.mpi == Mpi::Attached)
    }

    /// Whether a rank has ended.
    pub fn is_dead(&self, rank: u32) -> bool {
        self.ranks.get(rank as usize).is_some_and(|rank| rank.dead)
    }

    /// The process that called MPI_Init below a wrapper is dead.
    pub fn handle_inner_death(&mut self, rank: u32, now_ns: u64) {
        let rank = &mut self.ranks[rank as usize];
        rank.inner = None;
        if rank.mpi == Mpi::Attached {
            rank.inner_dead_ns = Some(now_ns);
        }
    }

    /// When the next time is over of a wrapper, or of an adopted rank whose job ends.
    pub fn grace_ends_ns(&self) -> Option<u64> {
        let running = self.ranks.iter().filter(|rank| !rank.dead && !self.ending);
        let wrappers = running.filter_map(|rank| Some(rank.inner_dead_ns? + WRAPPER_GRACE_NS));
        let held = self.ranks.iter().filter_map(|rank| rank.asked_again_ns);
        wrappers.chain(held).chain(self.adopted_ends_ns).min()
    }

    /// Ends the job for wrappers whose time is over.
    pub fn handle_time(&mut self, now_ns: u64) -> Option<Ended> {
        self.kill_adopted(now_ns);
        for rank in &mut self.ranks {
            rank.asked_again_ns = rank.asked_again_ns.filter(|again_ns| now_ns < *again_ns);
        }
        let over = self.ranks.iter().position(|rank| {
            !rank.dead && rank.inner_dead_ns.is_some_and(|dead_ns| now_ns >= dead_ns + WRAPPER_GRACE_NS)
        })?;
        self.judge(over as u32, Cause::Vanished)
    }

    /// The one that was there before the job learns of its end by itself. If it has not ended by then, it is
    /// killed.
    pub fn end_adopted(&mut self, now_ns: u64) {
        let adopted = self.ranks.iter().any(|rank| !rank.dead && rank.origin == Origin::Adopted);
        self.adopted_ends_ns = adopted.then_some(now_ns + WRAPPER_GRACE_NS);
    }

    fn kill_adopted(&mut self, now_ns: u64) {
        if self.adopted_ends_ns.is_some_and(|ends_ns| now_ns >= ends_ns) {
            self.adopted_ends_ns = None;
            let adopted = self.ranks.iter().filter(|rank| !rank.dead && rank.origin == Origin::Adopted);
            for process in adopted.filter_map(|rank| rank.process.as_ref()) {
                let _ = pidfd_send_signal(&process.pidfd, Signal::KILL);
            }
        }
    }

    fn judge(&mut self, rank: u32, cause: Cause) -> Option<Ended> {
        if self.ending || self.ranks[rank as usize].origin.is_over() {
            return None;
        }
        if self.status == 0 {
            self.status = cause.status();
        }
        let entry = &self.ranks[rank as usize];
        let (pid, has_left) = (entry.process.as_ref()?.number(), entry.mpi == Mpi::Finalized);
        self.ending = !has_left && !self.end_connected(rank);
        Some(Ended { rank: self.world_rank(rank), pid, cause })
    }

    /// Marks a rank that fails, and those that are connected with it, to be killed ([`Self::kill_ended`]), if
    /// there are others that are not; whether there are. All that have not said that they are apart count as
    /// connected, also behind MPI_Finalize: that does not part who has not disconnected before.
    fn end_connected(&mut self, rank: u32) -> bool {
        let is_unknown =
            |rank: &Rank| !rank.dead && matches!(rank.origin, Origin::Adopted | Origin::Spawn(0));
        if !self.knows_separate || self.ranks.iter().any(is_unknown) {
            return false;
        }
        let joined: BTreeSet<u32> = self
            .ranks
            .iter()
            .filter(|rank| !rank.is_separate)
            .filter_map(|rank| rank.origin.world())
            .collect();
        let world = |rank: &Rank| rank.origin.world().filter(|world| !joined.contains(world));
        let failed = world(&self.ranks[rank as usize]);
        let (connected, others): (Vec<usize>, Vec<usize>) = (0..self.ranks.len())
            .filter(|index| !self.ranks[*index].origin.is_over())
            .partition(|index| world(&self.ranks[*index]) == failed);
        if others.iter().all(|index| self.ranks[*index].dead) {
            return false;
        }
        for index in connected {
            let rank = &mut self.ranks[index];
            if rank.mpi != Mpi::Finalized {
                rank.origin = Origin::Ended { is_later: rank.origin.is_spawn() };
            }
        }
        true
    }

    /// Processes of the ranks that have ended alone: those of living ones, and the process groups of all.
    pub fn ended(&self) -> (Vec<Pid>, Vec<Pid>) {
        let ended = || self.ranks.iter().filter(|rank| matches!(rank.origin, Origin::Ended { .. }));
        let of = |rank: &Rank| {
            let inner = rank.inner_pid.filter(|_| rank.inner.is_some());
            rank.pid().filter(|_| !rank.dead).into_iter().chain(inner)
        };
        (ended().flat_map(of).collect(), ended().filter_map(Rank::pid).collect())
    }

    /// Kills the ranks that have ended alone; `groups`: and what else is in their process groups.
    pub fn kill_ended(&self, groups: bool) {
        for rank in self.ranks.iter().filter(|rank| matches!(rank.origin, Origin::Ended { .. })) {
            rank.inner.iter().for_each(|inner| _ = pidfd_send_signal(inner, Signal::KILL));
            match &rank.process {
                _ if groups => kill(rank),
                Some(process) if !rank.dead => _ = pidfd_send_signal(&process.pidfd, Signal::KILL),
                _ => {}
            }
        }
    }

    /// Sends a signal to the process group of every living rank.
    pub fn signal(&self, signal: Signal) {
        for rank in self.ranks.iter().filter(|rank| !rank.dead && rank.origin != Origin::Adopted) {
            let Some(process) = &rank.process else { continue };
            if kill_process_group(process.pid, signal).is_err() {
                // The child is still on its way to a group of its own.
                let _ = pidfd_send_signal(&process.pidfd, signal);
            }
        }
    }

    /// Signals the processes of the ranks, and nothing that they have started.
    pub fn signal_processes(&self, signal: Signal) {
        for rank in self.ranks.iter().filter(|rank| !rank.dead && rank.origin != Origin::Adopted) {
            rank.process.iter().for_each(|process| _ = pidfd_send_signal(&process.pidfd, signal));
        }
    }

    /// Whether a process is a rank's own, or the one that called MPI_Init below its wrapper.
    pub fn has_process(&self, pid: Pid) -> bool {
        self.ranks.iter().any(|rank| rank.pid() == Some(pid) || rank.inner_pid == Some(pid))
    }

    /// Whether a signal has stopped a rank.
    pub fn are_any_stopped(&self) -> bool {
        let living = self.ranks.iter().filter(|rank| !rank.dead).filter_map(Rank::pid);
        living.filter_map(Stat::of).any(|stat| stat.is_stopped())
    }

    /// Whether a process group is that of a rank that is dead, also where its death has not been handled yet.
    pub fn is_group_of_dead(&self, group: i32) -> bool {
        let is_dead =
            |rank: &Rank| rank.dead || rank.pid().and_then(Stat::of).is_some_and(|stat| stat.is_dead());
        let named = |rank: &&Rank| rank.pid().is_some_and(|pid| pid.as_raw_nonzero().get() == group);
        self.ranks.iter().find(named).is_some_and(is_dead)
    }

    /// Kills every rank, but not what else is in its process group.
    pub fn kill_processes(&self) {
        let living = self.ranks.iter().filter(|rank| !rank.dead && rank.origin != Origin::Adopted);
        for process in living.filter_map(|rank| rank.process.as_ref()) {
            let _ = pidfd_send_signal(&process.pidfd, Signal::KILL);
        }
    }

    /// Kills every rank, and the process groups of dead ones too: their children may still be there.
    pub fn kill(&self) {
        self.ranks.iter().filter(|rank| rank.origin != Origin::Adopted).for_each(kill);
    }
}

/// Kills a rank and its process group; that of a dead one may have children of it.
fn kill(rank: &Rank) {
    let Some(process) = &rank.process else { return };
    let _ = kill_process_group(process.pid, Signal::KILL);
    if !rank.dead {
        let _ = pidfd_send_signal(&process.pidfd, Signal::KILL);
    }
}

#[cfg(test)]
mod tests;
