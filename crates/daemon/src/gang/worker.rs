//! Work of the switch thread whose length users decide: how many processes and threads a job has nobody else
//! says. A thread of usual priority does it, so it takes the time of its own job's side of the machine and of
//! nobody's switch.
//!
//! ```text
//! switch thread: Errand -> queue -> this thread: the newest of each job, one after the other -> the crowd says that it stands still
//! ```
//!
//! The switch thread never waits for it: a job that is not through yet is late, which is said of it. What
//! happens if it stops right here: jobs of so many processes stay as they are, stopped or not; when the
//! daemon ends, their starters let them go on (`stopper`).

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use tutti_os::cgroup::JobGroup;
use tutti_sched::{JobId, Slots};

use super::binding::Cores;
use super::command::LocalRanks;

/// Work that lasts as long as users want.
pub(super) trait Errand: std::fmt::Debug + Send + Sync {
    /// Until nothing new is wished. In the thread of errands.
    fn obey(&self);
}

/// Task for the thread of errands.
#[derive(Debug)]
pub(super) enum Task {
    /// The ranks of a job move to the cores of these slots.
    Bind(JobId, Slots, Arc<LocalRanks>, Arc<JobGroup>),
    /// A job of many processes is stopped, or goes on, whichever it wishes by then.
    Crowd(Arc<dyn Errand>),
}

/// Where errands are left.
#[derive(Clone, Debug)]
pub(super) struct Worker(Sender<Task>);

impl Worker {
    /// Starts the thread. It ends when all who could leave something are gone and all that was left is done.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn start() -> io::Result<(Self, JoinHandle<()>)> {
        let (worker, queue) = channel();
        let thread = std::thread::Builder::new().name("errands".into()).spawn(move || run(&queue))?;
        Ok((Worker(worker), thread))
    }

    pub(super) fn put(&self, task: Task) {
        // Without the thread this is the end of the daemon.
        let _ = self.0.send(task);
    }
}

fn run(queue: &Receiver<Task>) {
    let cores = Cores::of_this_thread();
    while let Ok(first) = queue.recv() {
        // Who changes rows all the time is bound once.
        let (mut binds, mut crowds) = (BTreeMap::new(), Vec::new());
        for task in [first].into_iter().chain(queue.try_iter()) {
            match task {
                Task::Bind(job, slots, ranks, group) => drop(binds.insert(job, (slots, ranks, group))),
                Task::Crowd(crowd) => crowds.push(crowd),
            }
        }
        crowds.iter().for_each(|crowd| crowd.obey());
        binds.values().for_each(|(slots, ranks, group)| cores.bind(slots, ranks, group));
    }
}
