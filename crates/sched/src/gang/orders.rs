//! Orders for one job, and who is in the tree. A daemon that is new hears them before it hears of the job
//! from its starter, and the controller says them once: they are kept until the job is here. A strict switch
//! would wait for ever for who has not heard RESTORE.

use std::collections::VecDeque;

use super::{Action, NodeSwitch};
use crate::message::{Members, Order, Plan, Switch};
use crate::types::JobId;

/// Orders for jobs that are not here, the newest of each kind. Of a job that never comes they are forgotten
/// when it has ended, or pushed out by others.
#[derive(Clone, Debug)]
pub(super) struct Early {
    orders: VecDeque<Order>,
    most: usize,
}

/// Kinds of orders for a job.
const KINDS: usize = 5;

impl Early {
    /// With room for all orders of so many jobs.
    pub(super) fn new(jobs: usize) -> Self {
        Early { orders: VecDeque::with_capacity(KINDS * jobs), most: KINDS * jobs }
    }

    fn keep(&mut self, order: Order) {
        self.orders.retain(|other| other.job() != order.job() || kind(other) != kind(&order));
        if self.orders.len() == self.most {
            self.orders.pop_front();
        }
        self.orders.push_back(order);
    }

    fn take(&mut self, job: JobId) -> Option<Order> {
        let at = self.orders.iter().position(|order| order.job() == Some(job))?;
        self.orders.remove(at)
    }

    /// A switch is executed: RUN holds for as long as its job stays in the row, switch after switch.
    pub(super) fn handle_switch(&mut self, switch: &Switch, plan: &Plan, skipped: bool) {
        self.orders.retain(|order| match *order {
            Order::Run(_, generation) if generation >= switch.generation => true,
            Order::Run(job, _) => !skipped && plan.holds(switch.row, job),
            _ => true,
        });
    }

    pub(super) fn forget(&mut self, job: JobId) {
        self.orders.retain(|order| order.job() != Some(job));
    }
}

/// Of two orders of a kind the newer one holds.
fn kind(order: &Order) -> usize {
    match order {
        Order::Save(..) => 0,
        Order::Restore(..) => 1,
        Order::Run(..) => 2,
        Order::Suspend(..) | Order::Resume(..) => 3,
        Order::Kill(_) | Order::Switch(_) | Order::Members(_) => 4,
    }
}

impl NodeSwitch {
    /// An order for one job, whether it is here or not yet.
    pub(super) fn handle_job_order(&mut self, job: JobId, order: &Order) {
        let Some(at) = self.find(job) else { return self.early.keep(order.clone()) };
        let local = &mut self.jobs[at];
        match *order {
            Order::Save(_, generation) => local.channels.order_save(generation),
            Order::Restore(_, generation) => local.channels.order_restore(generation),
            Order::Run(_, generation) => local.place.order_run(generation),
            Order::Kill(_) => {
                if local.kill() {
                    self.actions.push_back(Action::Kill(job));
                }
            }
            Order::Suspend(_, serial) => self.suspend(at, serial, true),
            Order::Resume(_, serial) => self.suspend(at, serial, false),
            Order::Switch(_) | Order::Members(_) => unreachable!("{order:?} is for all jobs"),
        }
    }

    /// The job is here now: what was ordered of it before.
    pub(super) fn handle_early_orders(&mut self, job: JobId) {
        while let Some(order) = self.early.take(job) {
            self.handle_job_order(job, &order);
        }
        if let Some(local) = self.find_mut(job) {
            local.place.enter_with_run();
        }
    }

    /// An older state of the tree, from whoever was the parent then, says nothing of this node.
    pub(super) fn handle_members(&mut self, members: &Members) {
        if members.membership >= self.membership {
            self.membership = members.membership;
            self.expelled = members.expelled.binary_search(&self.me).is_ok();
            self.reported_here = None;
        }
    }

    fn suspend(&mut self, at: usize, serial: u64, suspended: bool) {
        if self.jobs[at].suspend(serial, suspended) {
            self.report_suspended(at);
        }
    }
}
