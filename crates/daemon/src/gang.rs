//! The gang switch of a node: a thread of its own, preferred by the kernel as far as it lets us, with the
//! agent of `tutti-sched` and the freezers of the jobs here; on the controller with the scheduler too.
//!
//! ```text
//! main loop --Command--> thread: [Controller -> ] Agent -> freeze, thaw, look      thread <--datagrams--> threads of its neighbours in the tree
//! ```
//!
//! The main loop tells it of nodes and jobs, and carries those of its words that datagrams do not
//! (`switch_links`). The thread never waits for the main loop: it sleeps in one `ppoll` until something is
//! said to it, a freezer has changed, or it is time.
//!
//! A job takes part from the moment when its ranks run on all its nodes until it ends. Its processes are in a
//! cgroup that only this thread freezes; the starter suspends the one inside it (`tutti_os::cgroup`). Where
//! no cgroup can be made it is stopped by signals (`stopper`).

pub(crate) mod admission;
mod bell;
mod binding;
mod calls;
mod cgroup_freezer;
mod clock;
mod command;
pub(crate) mod fetcher;
mod file_locks;
mod freeze_mechanism;
mod freeze_progress;
mod freeze_state;
mod job_freezer;
mod mailbox;
pub(crate) mod page;
mod phases;
mod proxy;
mod stopper;
mod switch_links;
mod switch_thread;
mod switcher;
mod turns;
pub(crate) mod wishes;
mod worker;

pub(crate) use clock::now_ns;
pub use command::{
    Command, ContextDone, Filling, GangSettings, LocalRanks, NodeResources, ServedJob, ServedReport,
    SwitchEvent,
};
pub use mailbox::{Outbox, Served};
pub(crate) use switch_links::LABEL;
pub use switch_links::{Neighbour, SECRET_BYTES, Secret, SwitchMessage};
pub use switcher::Switcher;
pub use turns::{Turn, Turns};
pub use tutti_protocol::turns::{TurnBatch, TurnKind};
pub use tutti_protocol::users::FreezeMethod;
