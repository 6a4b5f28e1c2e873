//! The scheduler of the simulated controller: what its switch thread has of it, without turns.

use tutti_sched::{Config, NodeId, Scheduler};

use crate::gang::admission::{Admission, Verdict, reservations};
use crate::gang::{Command, NodeResources, SwitchEvent};

/// Memory of each node.
pub(super) const MEMORY_BYTES: u64 = 1000;

#[derive(Debug)]
pub(super) struct Scheduling {
    scheduler: Scheduler,
    admission: Admission,
    nodes: Vec<NodeResources>,
}

impl Scheduling {
    pub(super) fn new() -> Self {
        let scheduler = Scheduler::new(Config::default()).expect("the default can be");
        Scheduling { scheduler, admission: Admission::default(), nodes: Vec::new() }
    }

    /// Handles what the main loop has said; returns what it is told.
    pub(super) fn handle(&mut self, now_ms: u64, command: Command) -> Vec<SwitchEvent> {
        let (now_ns, scheduler) = (now_ms * 1_000_000, &mut self.scheduler);
        match command {
            Command::Members { nodes, .. } => {
                for (at, resources) in nodes.iter().enumerate() {
                    let (node, before) = (NodeId(at as u32), self.nodes.get(at));
                    match (before.is_some_and(|before| before.alive), resources.alive) {
                        (false, true) => {
                            scheduler.handle_node(now_ns, node, resources.slots, resources.memory_bytes);
                            scheduler.handle_gpus(now_ns, node, resources.gpus);
                        }
                        (true, false) => drop(scheduler.handle_node_lost(now_ns, node)),
                        _ => {}
                    }
                }
                self.nodes = nodes;
                self.admission.nodes_changed();
            }
            Command::Submit(job, demand, runs) => {
                self.admission.submit(now_ns, scheduler, job, &demand, runs);
            }
            Command::Drain(nodes) => {
                scheduler.drain(now_ns, &nodes);
                self.admission.nodes_changed();
            }
            Command::Reserve(all) => {
                scheduler.reserve(now_ns, reservations(now_ns, all));
                self.admission.nodes_changed();
            }
            Command::Lasts(job, lasts_ns) => {
                scheduler.set_lasts(now_ns, job, lasts_ns);
                self.admission.nodes_changed();
            }
            Command::JobStarted(job) => self.admission.begin(now_ns, scheduler, job),
            Command::Suspend(job, true) => scheduler.suspend(now_ns, job),
            Command::Suspend(job, false) => scheduler.resume(now_ns, job),
            Command::Connected(one, other, connected) => {
                scheduler.set_connected(now_ns, one, other, connected)
            }
            Command::JobOver(job) | Command::JobForgotten(job) => {
                scheduler.end(now_ns, job);
                self.admission.end(job);
            }
            Command::Withdraw(job) => {
                scheduler.end(now_ns, job);
                self.admission.withdraw(now_ns, scheduler, job);
            }
            _ => {}
        }
        let verdicts = std::iter::from_fn(|| self.admission.poll(now_ns, &mut self.scheduler));
        verdicts
            .filter_map(|verdict| if let Verdict::Emit(event) = verdict { Some(event) } else { None })
            .collect()
    }

    /// Jobs that the scheduler still has.
    pub(super) fn leftovers(&self) -> Vec<String> {
        self.scheduler.jobs().map(|job| format!("the scheduler still has job {job}")).collect()
    }
}
