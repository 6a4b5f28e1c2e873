//! The starter's life: read the job, start the ranks, then one poll loop until nothing of the job is left.
//!
//! ```text
//! read Job -> prepare -> launch -> loop { frames, tickets, deaths, output, input } -> all ranks dead
//!      -> let filters of theirs end -> end what they left behind -> forward the rest of their output -> Report::End
//! ```
//!
//! In a job on several nodes the loop begins between prepare and launch, which waits for the addresses of all
//! ranks, and goes on without ranks as long as others may ask for some here.
//!
//! Single-threaded, no allocation of consequence, nothing here blocks but the poll. The front end's death
//! (end of file on the wire, or SIGTERM by parent-death signal) ends the job, but that of a daemon does not
//! (`reconnect`); the starter's own death kills the ranks by theirs.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{DumpableBehavior, Signal};

use crate::environment::wants_counters;
use crate::launch::{self, Launched, Ready};
use crate::memory_watch::MemoryWatch;
use crate::network_context::NetworkContext;
use crate::origin::{self, MountedOrigin};
use crate::parts::Parts;
use crate::pmix::Pmix;
use crate::readiness::now_ns;
use crate::spawning::Later;
use crate::unserved::Looks;
use reconnect::Reconnect;
use tutti_os::Signals;
use tutti_os::cgroup::Cgroup;
use tutti_os::descendants;
use tutti_os::stderr::print_line;
use tutti_protocol::wire::{Counted, Decoder, Report, Used};

mod absent;
mod contexts;
mod events;
mod front;
mod hold;
mod idle;
mod linger;
mod pmix;
mod reconnect;
mod spawn;
mod stuck;
mod suspension;
mod words;

/// Bytes on their way to the front end, about; beyond it no output of ranks is read.
const ROOM_BYTES: usize = 256 << 10;

/// Why the starter cannot work at all.
#[derive(Debug, thiserror::Error)]
pub enum StarterError {
    /// The kernel refused something without which there is no job.
    #[error("cannot {action}: {source}")]
    System {
        /// Action that was tried.
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
/// When there is no job to run. What happens to the job itself is reported to the front end.
pub fn run(front: OwnedFd) -> Result<(), StarterError> {
    let failed =
        |action| move |source: rustix::io::Errno| StarterError::System { action, source: source.into() };
    let (job, granted, decoder) = front::read_job(&front)?;
    // Before anybody may look into this process.
    let origin = origin::enter();
    // Its user may not look into it where it has descriptors of root's daemon: they are for the job, not for
    // a process that would leave its turns. Nor may it before, since the file of this program is not
    // readable. Elsewhere the user's own daemon and debugger may.
    let behaviour = match granted {
        Some(_) => DumpableBehavior::NotDumpable,
        None => DumpableBehavior::Dumpable,
    };
    rustix::process::set_dumpable_behavior(behaviour)
        .map_err(failed("say which processes may look into it"))?;
    // Out of the terminal's foreground group: Ctrl-C is for the front end, which forwards it.
    if job.pty {
        // The leader of a session whose terminal is to be rank 0's; its parent in another group, so that keys
        // can stop it.
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
    tutti_os::ignore_signal(libc::SIGXFSZ);
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
        reconnect: job.daemon.clone().map(Reconnect::new),
        decoder,
        out: Vec::new(),
        sent: 0,
        signals,
        frozen: false,
        suspended: false,
        owes_continue: false,
        hold: None,
        context: None,
        last_hold: 0,
        armed: None,
        watch: None,
        idle: None,
        refused: false,
        reaped: false,
        ready: None,
        later: Later::default(),
        ending_reported: false,
        hurried: false,
        linger_ns: None,
        alone: job.part.is_none(),
        counts: wants_counters(&job),
        may_leave: false,
        orphans_ns: None,
        memory_watch: None,
        origin: None,
        parts: Parts::default(),
    };
    starter.parts.cgroup = granted.map(Cgroup::from);
    let prepared = match origin {
        Ok(entered) => {
            starter.origin = entered.mounted;
            entered.warnings.into_iter().for_each(|text| starter.report(&Report::Warning(text)));
            launch::prepare(job, &mut starter.parts).map_err(|error| error.to_string())
        }
        Err(text) => Err(text),
    };
    match prepared {
        Ok(ready) => {
            if !starter.alone {
                starter.report(&Report::Addresses(ready.reached.clone()));
            }
            starter.ready = Some(ready);
            starter.launch_if_ready();
        }
        Err(text) => starter.refuse(text, 1),
    }
    // Frames that came together with the job are in the decoder already: no poll reports them.
    starter.handle_frames();
    starter.run();
    starter.finish();
    Ok(())
}

struct Starter {
    debug: bool,
    /// The wire; none when the front end is dead.
    front: Option<OwnedFd>,
    /// State for the next daemon; none: the front end is no daemon, or none is to follow.
    reconnect: Option<Reconnect>,
    decoder: Decoder,
    /// Frames on their way, the first `sent` bytes of which are gone.
    out: Vec<u8>,
    sent: usize,
    signals: Signals,
    frozen: bool,
    /// A user has suspended the job.
    suspended: bool,
    /// A user has resumed the job while a snapshot had it frozen: rank 0 still gets SIGCONT.
    owes_continue: bool,
    /// Hold for a snapshot, while the job is frozen for one.
    hold: Option<hold::Hold>,
    /// Channels of the ranks, while these are frozen for a strict switch.
    context: Option<NetworkContext>,
    /// Number of the last one.
    last_hold: u64,
    /// Values with which each rank was armed in the last hold that was reported (`tutti_shm::termination`).
    armed: Option<(u64, Vec<Option<u32>>)>,
    refused: bool,
    /// All ranks are dead, and nobody has their numbers for them any more.
    reaped: bool,
    /// Whether its ranks are still; none: there are none yet.
    watch: Option<stuck::Watch>,
    /// Whether anything of it works; none: its user does not want to know, or there are no ranks yet.
    idle: Option<idle::IdleWatch>,
    /// The job, until its ranks may start.
    ready: Option<Ready>,
    /// Ranks that others ask for.
    later: Later,
    /// The front end knows that the job is over.
    ending_reported: bool,
    /// The job is killed by its user or its cluster, or cannot start: nothing is waited for.
    hurried: bool,
    /// When to look again at what holds the output of dead ranks.
    linger_ns: Option<u64>,
    /// Whether this is the job's only node.
    alone: bool,
    /// The user wants to know what the ranks have counted; true: as JSON.
    counts: Option<bool>,
    /// No rank of the job is left anywhere.
    may_leave: bool,
    /// When to look for dead orphans.
    orphans_ns: Option<u64>,
    /// The memory of the user's jobs is used up, by version 1.
    memory_watch: Option<MemoryWatch>,
    /// Files of the origin that are mounted for its ranks.
    origin: Option<MountedOrigin>,
    parts: Parts,
}

impl Starter {
    /// Until all ranks are dead, and none can come.
    fn run(&mut self) {
        while self.ready.is_some() || !self.parts.ranks.all_dead() || self.may_get_ranks() {
            self.turn();
        }
    }

    /// Waits for whatever happens next, and handles it.
    fn turn(&mut self) {
        let ready = self.wait();
        // Order matters: what a rank sent before it died is handled before its death is judged, and so is a
        // failed exec.
        for (source, flags) in &ready {
            self.handle(*source, *flags);
        }
        for (source, _) in &ready {
            self.handle_death(*source);
        }
        self.handle_time(now_ns());
        self.forward();
        self.report_emptiness();
    }

    /// Starts the ranks as soon as everything is there that they need: on several nodes the addresses of all,
    /// for programs of Open MPI their server.
    fn launch_if_ready(&mut self) {
        let is_served =
            self.parts.foreign.iter().all(|foreign| foreign.pmix.as_ref().is_none_or(Pmix::is_ready));
        if !is_served || !(self.alone || self.parts.peers.is_some()) {
            return;
        }
        if let Some(ready) = self.ready.take() {
            self.launch(&ready);
            self.allow_later_ranks(ready.job);
        }
    }

    fn launch(&mut self, ready: &Ready) {
        match launch::launch(ready, &mut self.parts) {
            Ok(Launched { pids, cores }) => {
                self.log_debug(|| format!("started {} ranks", pids.len()));
                self.report(&Report::Started { pids, cores });
                self.watch = Some(stuck::Watch::from(now_ns()));
                let looks = ready.job.ranks() > 1 && ready.job.node() == 0;
                let foreign = self.parts.foreign.iter_mut().filter(|_| looks);
                foreign.for_each(|foreign| foreign.looks = Some(Looks::from(now_ns())));
                self.idle = ready.job.idle_ms.map(|ms| idle::IdleWatch::from(ms, now_ns()));
            }
            Err(error) => self.refuse(error.to_string(), 1),
        }
    }

    /// The job cannot start; one line of why.
    fn refuse(&mut self, text: String, status: u8) {
        // Before the end: the first reported end makes later ones its consequence.
        if !std::mem::replace(&mut self.refused, true) {
            self.report(&Report::Refused(text));
        }
        self.parts.ranks.set_ending(status);
        self.kill();
    }

    /// Counts of the ranks of this node, if the user wants to know and all have left the job.
    fn counted(&self) -> Option<Counted> {
        let mut counted = Counted::of_node(self.counts?);
        let ranks = self.parts.segment.as_ref()?.left_counters()?;
        ranks.iter().for_each(|values| counted.add_rank(values));
        Some(counted)
    }

    /// Ends what is left of the job and reports it.
    fn finish(&mut self) {
        self.look_for_daemon();
        // Its clients see that the owners are gone.
        self.parts.regions = None;
        self.end_pmix();
        self.linger();
        // Else whoever is left and waits for it would wait on in the kernel.
        self.origin = None;
        let parts = &self.parts;
        if parts.ranks.all_dead() {
            // No process names their pids any more.
            descendants::reap_all();
            self.reaped = true;
        }
        if descendants::any() {
            let kill = || {
                // The numbers of those that are reaped may be those of strangers.
                if !self.reaped {
                    parts.ranks.kill();
                }
                parts.cgroup.iter().for_each(Cgroup::kill);
            };
            // Killed together with the ranks, or forgotten by them: either way nothing stays behind.
            let left = descendants::end_all(None, kill);
            if let Some(first) = left.first() {
                let more = if left.len() > 1 { format!(" ({} in all)", left.len()) } else { String::new() };
                let named = descendants::name_with_state(*first);
                let text = format!("a process of the job does not die and is left behind: {named}{more}");
                self.report(&Report::Warning(text));
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
            if self.awaits_daemon() {
                self.turn();
            } else if self.out.len() > self.sent {
                self.wait_for_front();
            }
        }
        if let Some(counted) = self.counted() {
            self.report(&Report::Counted(counted));
        }
        if !self.alone {
            self.report(&Report::Left);
            while self.is_reachable() && !self.may_leave && !self.parts.ranks.is_ending() {
                self.turn();
            }
        }
        let status = self.parts.ranks.status();
        self.log_debug(|| format!("the job is over, status {status}"));
        let (cpu_us, largest_bytes) = tutti_os::used_by_children();
        self.report(&Report::Used(Used { cpu_us, largest_bytes }));
        self.report(&Report::End { status });
        // A daemon may need it all again, until it sends Leave.
        while self.awaits_daemon() {
            self.turn();
        }
        while self.front.is_some() && self.out.len() > self.sent {
            self.wait_for_front();
            self.send();
        }
    }

    /// Ends the job at once, and waits for nothing.
    fn kill(&mut self) {
        self.hurried = true;
        self.kill_all();
    }

    /// Kills every process of the job. Their deaths are seen by the loop.
    fn kill_all(&mut self) {
        self.announce_ending();
        if self.reaped {
            // Their numbers may be those of strangers by now.
            return;
        }
        match &self.parts.cgroup {
            Some(cgroup) => cgroup.kill(),
            None => descendants::signal_all(self.pmix_server(), Signal::KILL),
        }
        // A child that has just been made is not in its cgroup yet.
        self.parts.ranks.kill();
    }

    fn announce_ending(&mut self) {
        self.ready = None;
        if !std::mem::replace(&mut self.ending_reported, true) {
            self.report(&Report::Ending { status: self.parts.ranks.status() });
            self.parts.ranks.end_adopted(now_ns());
        }
    }

    fn log_debug(&self, what: impl FnOnce() -> String) {
        if self.debug {
            print_line(format_args!("tutti-starter[{}]: {}", std::process::id(), what()));
        }
    }
}
