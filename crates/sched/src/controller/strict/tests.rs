use crate::controller::{Controller, Notice};
use crate::demand::{Demand, Place};
use crate::message::{Down, Mode, Order, Report, Stage};
use crate::scheduler::Config;
use crate::tree::Tree;
use crate::types::{JobId, NodeId};
use crate::{Event, Scheduler};

const MS: u64 = 1_000_000;
const SECOND_NS: u64 = 1000 * MS;

/// A strict controller of three nodes in a chain, each with a slot, and the time.
struct Bench {
    controller: Controller,
    now_ns: u64,
}

impl Bench {
    /// With jobs 1, 2, ... on these nodes.
    fn new(jobs: &[&[u32]]) -> Self {
        let config = Config { mode: Mode::Strict, ..Config::default() };
        let mut scheduler = Scheduler::new(config).expect("the default can be");
        (0..3).for_each(|node| scheduler.handle_node(0, NodeId(node), 1, 0));
        let mut bench = Bench { controller: Controller::new(scheduler, Tree::new(1, 3)), now_ns: 0 };
        for (job, nodes) in (1..).map(JobId).zip(jobs) {
            let place = Place::Given(nodes.iter().map(|node| (NodeId(*node), 1)).collect());
            let scheduler = bench.controller.scheduler_mut();
            scheduler.submit(0, job, &Demand::at(place)).expect("it fits");
            assert!(matches!(scheduler.poll_event(), Some(Event::Placed(..))));
            scheduler.begin(0, job);
        }
        bench
    }

    /// Orders that go down now.
    fn orders(&mut self) -> Vec<Order> {
        let all = std::iter::from_fn(|| self.controller.poll_down(self.now_ns));
        all.filter_map(|down| if let Down::Order(order) = down { Some(order) } else { None }).collect()
    }

    /// All that are ordered something have done it, but for these steps; what was ordered.
    fn obey(&mut self, but: &[(u64, Stage)]) -> Vec<Order> {
        let mut all = Vec::new();
        while let orders = self.orders()
            && !orders.is_empty()
        {
            for order in &orders {
                let left = match order {
                    Order::Switch(_) => {
                        self.controller.scheduler().leaving().map(|(job, _)| (job, Stage::Frozen)).collect()
                    }
                    Order::Save(job, _) => vec![(*job, Stage::Saved)],
                    Order::Restore(job, _) => vec![(*job, Stage::Restored)],
                    _ => Vec::new(),
                };
                for (job, stage) in left {
                    if !but.contains(&(job.0, stage)) {
                        self.reached(job, stage);
                    }
                }
            }
            all.extend(orders);
        }
        all
    }

    fn reached(&mut self, job: JobId, stage: Stage) {
        let (generation, membership) =
            (self.controller.scheduler().generation(), self.controller.tree().membership());
        self.controller.handle_report(self.now_ns, Report::Reached { job, stage, generation, membership });
    }

    fn late(&mut self, node: u32, job: u64, stage: Stage) {
        self.controller
            .handle_report(self.now_ns, Report::Late { node: NodeId(node), job: JobId(job), stage });
    }

    /// Goes on to the next time at which the controller has something to do.
    fn wait(&mut self) {
        self.now_ns = self.controller.poll_timeout().expect("the controller waits for something");
    }

    fn expelled(&self) -> Vec<u32> {
        self.controller.tree().members().expelled.iter().map(|node| node.0).collect()
    }

    fn running(&self) -> Vec<u64> {
        self.controller.scheduler().running().iter().map(|job| job.0).collect()
    }
}

#[test]
fn strict_switch_expels_late_node() {
    for (job, stage) in [(1, Stage::Frozen), (1, Stage::Saved), (2, Stage::Restored)] {
        let mut bench = Bench::new(&[&[0, 1], &[0, 1]]);
        bench.obey(&[]);
        assert_eq!(bench.running(), [1]);
        bench.wait();
        bench.obey(&[(job, stage)]);
        assert!(!bench.controller.is_complete(), "{stage:?}");
        let began_ns = bench.now_ns;
        bench.now_ns = began_ns + SECOND_NS - 1;
        bench.late(1, job, stage);
        assert!(bench.expelled().is_empty(), "it has a nanosecond left");
        bench.now_ns += 1;
        bench.late(1, job, stage);
        assert_eq!(bench.expelled(), [1], "{stage:?}");
        // What the others reach counts now.
        bench.reached(JobId(job), stage);
        bench.obey(&[]);
        assert!(bench.controller.is_complete(), "{stage:?}");
    }
}

#[test]
fn strict_switch_expels_no_node_for_an_unneeded_step() {
    let mut bench = Bench::new(&[&[0, 1], &[0, 1]]);
    bench.obey(&[]);
    bench.wait();
    bench.obey(&[(2, Stage::Restored)]);
    bench.now_ns += SECOND_NS;
    // Node 2 has no part in it, and what 1 is named for is over, or not yet.
    bench.late(1, 1, Stage::Frozen);
    bench.late(1, 1, Stage::Saved);
    bench.late(1, 2, Stage::Frozen);
    assert!(bench.expelled().is_empty());
    bench.late(1, 2, Stage::Restored);
    assert_eq!(bench.expelled(), [1]);
    // The others have had no time since.
    bench.late(1, 2, Stage::Restored);
    assert_eq!(bench.expelled(), [1]);
    bench.now_ns += SECOND_NS;
    bench.late(1, 2, Stage::Restored);
    assert_eq!(bench.expelled(), [1, 2], "it does not forward either");
}

#[test]
fn strict_switch_is_not_held_up_by_a_single_node_job() {
    for (job, stage) in [(2, Stage::Frozen), (2, Stage::Saved), (3, Stage::Restored)] {
        // Two jobs take turns on node 2, and one stays where it is.
        let mut bench = Bench::new(&[&[0], &[2], &[2], &[0]]);
        bench.obey(&[]);
        assert_eq!(bench.running(), [1, 2]);
        bench.wait();
        bench.obey(&[(job, stage)]);
        assert!(!bench.controller.is_complete());
        let began_ns = bench.now_ns;
        bench.wait();
        assert_eq!(bench.now_ns - began_ns, 2200 * MS, "{stage:?}");
        assert_eq!(bench.controller.poll_notice(bench.now_ns), None);
        bench.obey(&[(job, stage)]);
        assert!(bench.controller.is_complete(), "{stage:?}");
        assert_eq!((bench.expelled(), bench.running()), (vec![2], vec![4]), "{stage:?}");
        assert_eq!(bench.controller.poll_notice(bench.now_ns), Some(Notice::Expelled(NodeId(2))));
        assert_eq!(bench.controller.poll_notice(bench.now_ns), None);
        // Others go on, and take no step of those that stand still.
        bench.wait();
        let orders = bench.obey(&[]);
        assert!(bench.controller.is_complete() && bench.running() == [1]);
        assert!(orders.iter().all(|order| order.job() != Some(JobId(job))), "{orders:?}");
        // When it is back they take their turns again.
        let generation = bench.controller.scheduler().generation();
        bench.controller.handle_report(bench.now_ns, Report::Here { node: NodeId(2), generation });
        [2, 3].iter().for_each(|job| bench.reached(JobId(*job), Stage::Frozen));
        bench.obey(&[]);
        bench.wait();
        bench.obey(&[]);
        assert_eq!(bench.running().len(), 2);
    }
}

/// The next switch takes for granted that who stays in its row has been restored.
#[test]
fn strict_switch_restores_a_returning_node_before_the_next_switch() {
    let mut bench = Bench::new(&[&[2]]);
    bench.obey(&[(1, Stage::Restored)]);
    bench.now_ns += SECOND_NS;
    bench.late(2, 1, Stage::Restored);
    assert!(bench.controller.is_complete() && bench.expelled() == [2], "nobody waits for it");
    // It is back before anybody has asked what is to go down.
    let generation = bench.controller.scheduler().generation();
    bench.controller.handle_report(bench.now_ns, Report::Here { node: NodeId(2), generation });
    let orders = bench.obey(&[(1, Stage::Restored)]);
    assert!(orders.contains(&Order::Restore(JobId(1), generation)), "{orders:?}");
    assert!(!bench.controller.is_complete());
    bench.reached(JobId(1), Stage::Restored);
    assert!(bench.obey(&[]).contains(&Order::Run(JobId(1), generation)));
}

#[test]
fn strict_switch_gives_no_turn_on_an_expelled_node() {
    let mut bench = Bench::new(&[&[0, 2], &[0, 2]]);
    bench.obey(&[]);
    bench.wait();
    bench.obey(&[(1, Stage::Saved)]);
    bench.now_ns += SECOND_NS;
    bench.late(2, 1, Stage::Saved);
    bench.reached(JobId(1), Stage::Saved);
    bench.obey(&[]);
    let job = JobId(3);
    let scheduler = bench.controller.scheduler_mut();
    scheduler.submit(bench.now_ns, job, &Demand::at(Place::Given(vec![(NodeId(2), 1)]))).expect("it fits");
    assert!(matches!(scheduler.poll_event(), Some(Event::Placed(..))));
    scheduler.begin(bench.now_ns, job);
    bench.obey(&[]);
    assert!(bench.running().is_empty(), "all have a part there");
    let generation = bench.controller.scheduler().generation();
    bench.controller.handle_report(bench.now_ns, Report::Here { node: NodeId(2), generation });
    let orders = bench.obey(&[]);
    assert!(!bench.running().is_empty(), "{orders:?}");
}

/// Parents of a late node are named too, since what they would say is of those below them as well.
#[test]
fn strict_switch_does_not_expel_the_parent_of_a_late_node() {
    let mut bench = Bench::new(&[&[0, 1, 2], &[0, 1, 2]]);
    bench.obey(&[]);
    bench.wait();
    bench.obey(&[(1, Stage::Saved)]);
    bench.now_ns += SECOND_NS;
    bench.late(2, 1, Stage::Saved);
    bench.late(1, 1, Stage::Saved);
    assert_eq!(bench.expelled(), [2]);
    bench.now_ns += SECOND_NS;
    bench.late(1, 1, Stage::Saved);
    assert_eq!(bench.expelled(), [1, 2], "it has had its own time");
}

/// Each has been late for as long as the others.
#[test]
fn strict_switch_expels_several_late_nodes_together() {
    let mut bench = Bench::new(&[&[0, 1, 2], &[0, 1, 2]]);
    bench.obey(&[]);
    bench.wait();
    bench.obey(&[(1, Stage::Saved)]);
    bench.now_ns += SECOND_NS;
    bench.late(1, 1, Stage::Saved);
    bench.late(2, 1, Stage::Saved);
    assert_eq!(bench.expelled(), [1, 2]);
}

#[test]
fn strict_switch_continues_without_the_controllers_node() {
    let mut bench = Bench::new(&[&[0, 1], &[0, 1], &[1], &[1]]);
    bench.obey(&[]);
    bench.wait();
    bench.obey(&[(1, Stage::Frozen)]);
    bench.now_ns += SECOND_NS;
    bench.late(0, 1, Stage::Frozen);
    assert_eq!(bench.expelled(), [0]);
    bench.reached(JobId(1), Stage::Frozen);
    bench.obey(&[]);
    assert!(bench.controller.is_complete() && bench.running() == [3]);
}

#[test]
fn strict_switch_within_a_slice_keeps_its_rest() {
    let mut bench = Bench::new(&[&[0], &[1], &[0, 1]]);
    bench.obey(&[]);
    assert_eq!((bench.running(), bench.controller.scheduler().slice_end_ns()), (vec![1, 2], 100 * MS));
    bench.now_ns = 40 * MS;
    bench.controller.suspend(bench.now_ns, JobId(2));
    bench.obey(&[(2, Stage::Frozen)]);
    bench.now_ns = 45 * MS;
    bench.reached(JobId(2), Stage::Frozen);
    bench.obey(&[]);
    assert!(bench.controller.is_complete() && bench.running() == [1]);
    assert_eq!(bench.controller.scheduler().slice_end_ns(), 105 * MS, "60 of 100 ms");
    bench.wait();
    assert_eq!(bench.now_ns, 105 * MS);
    bench.obey(&[(3, Stage::Restored)]);
    bench.now_ns += MS;
    bench.reached(JobId(3), Stage::Restored);
    assert_eq!(bench.controller.scheduler().slice_end_ns(), 206 * MS, "a whole slice from RUN on");
    let account = bench.controller.scheduler().account(JobId(1)).expect("it is known");
    assert_eq!(account.service_ns, 100 * MS);
}
