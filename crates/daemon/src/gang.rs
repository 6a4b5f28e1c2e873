//! The gang switch of a node: a thread of its own, preferred by the kernel as far as it lets us, with the
//! agent of `tutti-sched` and the freezers of the jobs here; on the controller with the scheduler too.
//!
//! ```text
//! main loop --Command--> thread: [Head -> ] Agent -> freeze, thaw, look      thread <--datagrams--> threads of its neighbours in the tree
//! ```
//!
//! The main loop tells it of nodes and jobs, and carries those of its words that datagrams do not
//! (`switch_links`). The thread never waits for the main loop: it sleeps in one `ppoll` until something is
//! said to it, a freezer has changed, or it is time.
//!
//! A job takes part from the moment when its ranks run on all its nodes until it ends. Its processes are in a
//! cgroup that only this thread freezes; the starter suspends the one inside it (`tutti_os::cgroup`). Where
//! no cgroup can be made it is stopped by signals (`stopper`).

use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::event::{EventfdFlags, eventfd};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tutti_os::PriorityClass;
use tutti_os::cgroup::JobGroup;
use tutti_sched::controller::{Lags, Notice};
use tutti_sched::{
    Config, Demand, Generation, JobId, Mode, NodeId, Policy, Scheduler, SubmitError, Version, Wait, Window,
};

use crate::core::LinkId;

pub(crate) mod admission;
mod binding;
mod cgroup_freezer;
mod freeze_state;
mod job_freezer;
mod mailbox;
pub(crate) mod page;
mod stopper;
mod switch_links;
mod switch_thread;
mod turns;
mod worker;

pub use mailbox::{Outbox, Served};
pub(crate) use switch_links::LABEL;
use switch_links::SwitchLinks;
pub use switch_links::{Neighbour, SECRET_BYTES, Secret, SwitchMessage};
use switch_thread::SwitchThread;
pub use turns::{Turn, Turns};
pub use tutti_protocol::turns::{TurnBatch, TurnKind};
pub use tutti_protocol::users::FreezeMethod;

/// How gangs are scheduled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GangSettings {
    /// How long a row of the matrix runs, in ns.
    pub slice_ns: u64,
    /// The paper's protocol, with a barrier after each step.
    pub strict: bool,
    /// Switch at the end of every slice, also to the same row.
    pub force_switch: bool,
    /// How jobs get their nodes and rows.
    pub policy: Policy,
}

impl Default for GangSettings {
    fn default() -> Self {
        GangSettings { slice_ns: 100_000_000, strict: false, force_switch: false, policy: Policy::default() }
    }
}

/// What a node has for jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeResources {
    /// It is there.
    pub alive: bool,
    /// Its cores.
    pub slots: u32,
    /// Its memory; 0: not known.
    pub memory_bytes: u64,
}

/// What the thread is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// The nodes of the cluster.
    Members {
        /// Ours.
        me: NodeId,
        /// Children of a node in the tree.
        arity: u32,
        /// By number.
        nodes: Vec<NodeResources>,
    },
    /// A job with parts on this node or below.
    Job(JobId, Vec<NodeId>),
    /// The ranks of a job run here.
    RanksStarted(JobId, Box<LocalRanks>),
    /// Nothing of a job is left here.
    PartEnded(JobId),
    /// Nothing of a job is left anywhere.
    JobForgotten(JobId),
    /// On the controller: a job wants nodes; or it runs already, on given ones.
    Submit(JobId, Box<Demand>, bool),
    /// On the controller: the ranks of a job run on all its nodes.
    JobStarted(JobId),
    /// On the controller: no rank of a job is left anywhere, or it does not wait any more.
    JobOver(JobId),
    /// On the controller: a job is suspended, or goes on.
    Suspend(JobId, bool),
    /// A link to a neighbour in the tree has come up.
    OpenLink(Neighbour),
    /// A link is gone.
    CloseLink(LinkId),
    /// A word that has come over a link, with its number.
    Message(LinkId, u64, Vec<u8>),
    /// The parent lives.
    ParentAlive,
    /// A child is there (again): it is told what is in force.
    ChildJoined(NodeId),
    /// On the controller: the machine is shared with daemons of other users, or no longer.
    Share(Option<Window>),
    /// The end: everything is thawed.
    Stop,
}

/// The ranks of a job that run here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalRanks {
    /// Whose they are.
    pub user: u32,
    /// Their cgroups, if they are in some: one, or one for each virtual node.
    pub groups: Vec<Arc<JobGroup>>,
    /// Their pids in order of ranks. Who says so may be a user: they count only as far as the kernel says the
    /// same.
    pub pids: Vec<u32>,
    /// The starters of those, as the kernel says.
    pub starters: Vec<u32>,
    /// Each has a core of its own, and is moved to those of the job's slots.
    pub bound: bool,
}

/// What the thread says.
#[derive(Clone, Debug, PartialEq)]
pub enum SwitchEvent {
    /// A word for the thread at the other end of a link, with its number. It comes by [`Outbox`].
    Relay(LinkId, u64, Vec<u8>),
    /// How a job's ranks here are held while others have the cores.
    Method(JobId, FreezeMethod),
    /// On the controller: the job has these nodes, and so many ranks on each.
    Placed(JobId, Vec<(NodeId, u32)>),
    /// On the controller: why the job has none yet.
    Waits(JobId, Wait),
    /// On the controller: it will never have any.
    Refused(JobId, SubmitError),
    /// On the controller: the slices that jobs have had. They come by [`Served`].
    Served(Vec<(JobId, u64)>),
    /// On the controller: a node has become late, is expelled, is back, or in time again.
    Notice(Notice),
    /// On the controller: whom jobs wait for that stand still.
    Lags(Lags),
    /// For the person who keeps the machines.
    LogLine(String),
}

/// The thread, as the main loop has it.
#[derive(Debug)]
pub struct Switcher {
    commands: mailbox::CommandSender,
    outbox: Outbox,
    served: Served,
    bell: OwnedFd,
    turns: Turns,
    priority_class: PriorityClass,
    wanted: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Switcher {
    /// Starts the thread; `emit` carries away what it says, but for its [`Outbox`], and must not wait.
    /// `socket` is for datagrams to its neighbours, does not block, and is where they expect it: at the
    /// address where they dial this daemon.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn start(
        gangs: &GangSettings,
        is_controller: bool,
        socket: Option<UdpSocket>,
        emit: impl Fn(SwitchEvent) + Send + 'static,
    ) -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (commands, receiver) = mailbox::commands();
        let (outbox, served) = (Outbox::new()?, Served::default());
        let turns = Turns::default();
        let controller =
            is_controller.then(|| scheduler(gangs)).transpose().map_err(std::io::Error::other)?;
        let wanted = Arc::new(AtomicBool::new(false));
        let endpoints = switch_thread::Endpoints {
            wanted: Arc::clone(&wanted),
            commands: receiver,
            bell: bell.try_clone()?,
            emit: Box::new(emit),
            outbox: mailbox::OutboxSender::new(outbox.clone()),
            served: served.clone(),
            switch_links: SwitchLinks::new(socket),
            turns: turns.clone(),
        };
        // From here: a thread is as preferred as who starts it.
        let (worker, worker_thread) = worker::Worker::start()?;
        let mut switch_thread = SwitchThread::new(endpoints, gangs.slice_ns, controller, worker);
        let (preferred, asked) = channel();
        let thread = std::thread::Builder::new().name("switch".into()).spawn(move || {
            switch_thread.run(&preferred);
            // It has been told to let all jobs go on, and ends when it has.
            drop(switch_thread);
            let _ = worker_thread.join();
        })?;
        let priority_class = asked.recv().map_err(std::io::Error::other)?;
        Ok(Switcher { commands, outbox, served, bell, turns, priority_class, wanted, thread: Some(thread) })
    }

    /// How far the kernel prefers it.
    pub fn priority_class(&self) -> PriorityClass {
        self.priority_class
    }

    /// What it says to its neighbours and does not go by datagram: each is a [`SwitchEvent::Relay`].
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// On the controller: the slices that jobs have had.
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// What it has done and nobody has taken yet.
    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    /// On the controller: a job takes its turns and does not sleep.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Tells it something.
    pub fn send(&self, command: Command) {
        self.commands.put(command);
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

impl Drop for Switcher {
    fn drop(&mut self) {
        self.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn scheduler(gangs: &GangSettings) -> Result<Scheduler, String> {
    // A controller that takes over knows nothing of the numbers of the one before. They grew by far less than
    // one each microsecond.
    let first = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
    let config = Config {
        slice_ns: gangs.slice_ns,
        policy: gangs.policy,
        mode: if gangs.strict { Mode::Strict } else { Mode::Overlapped },
        force_switch: gangs.force_switch,
        generation: Generation(first),
        version: Version(first),
        ..Config::default()
    };
    Scheduler::new(config).map_err(|error| error.to_string())
}

/// The time by which turns are recorded.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests;
