use super::*;
use crate::demand::{Demand, Place};
use crate::scheduler::Config;

const JOB: JobId = JobId(1);
const CHILD: NodeId = NodeId(1);

const SECOND_NS: u64 = 1_000_000_000;

/// A job on both nodes that runs.
fn controller() -> Controller {
    let config = Config { mode: Mode::Strict, ..Config::default() };
    let mut scheduler = Scheduler::new(config).expect("the default can be");
    (0..2).for_each(|node| scheduler.handle_node(0, NodeId(node), 1, 0));
    let mut controller = Controller::new(scheduler, Tree::new(1, 2));
    controller.scheduler_mut().submit(0, JOB, &Demand::any(2, 2)).expect("it fits");
    controller.scheduler_mut().begin(0, JOB);
    let orders = down(&mut controller);
    assert!(orders.contains(&Order::Restore(JOB, Generation(1))), "{orders:?}");
    controller.handle_report(0, reached(Stage::Restored, 1));
    assert_eq!(down(&mut controller), [Order::Run(JOB, Generation(1))]);
    assert!(controller.is_complete());
    controller
}

fn reached(stage: Stage, generation: u64) -> Report {
    reached_in(0, stage, generation)
}

fn reached_in(membership: u64, stage: Stage, generation: u64) -> Report {
    let (generation, membership) = (Generation(generation), Membership(membership));
    Report::Reached { job: JOB, stage, generation, membership }
}

fn down(controller: &mut Controller) -> Vec<Order> {
    let all = std::iter::from_fn(|| controller.poll_down(0));
    all.filter_map(|down| if let Down::Order(order) = down { Some(order) } else { None }).collect()
}

/// After a daemon has come back its reports are of another time than those of the others, for as long as the
/// job runs.
#[test]
fn strict_switch_expels_no_node_for_a_job_that_is_to_run() {
    let mut controller = controller();
    controller.handle_report(10, Report::Late { node: CHILD, job: JOB, stage: Stage::Frozen });
    assert_eq!(down(&mut controller), []);
    controller.suspend(20, JOB);
    assert!(down(&mut controller).contains(&Order::Suspend(JOB, 1)));
    controller.handle_report(20 + SECOND_NS, Report::Late { node: CHILD, job: JOB, stage: Stage::Frozen });
    assert!(matches!(&down(&mut controller)[0], Order::Members(members) if members.expelled == [CHILD]));
}

#[test]
fn controller_joining_node_gets_per_job_orders() {
    let mut controller = controller();
    controller.handle_report(10, Report::ChildJoined { node: CHILD });
    let orders = down(&mut controller);
    assert!(matches!(orders[0], Order::Members(_)), "{orders:?}");
    assert!(orders.contains(&Order::Run(JOB, Generation(1))), "{orders:?}");
}

/// The daemon that would have said that a rank is awake is gone, and the one after it does not know that
/// anybody was told otherwise.
#[test]
fn controller_drops_idle_reports_of_lost_nodes() {
    let mut controller = controller();
    controller.handle_report(10, reached(Stage::Idle, 1));
    assert!(!controller.scheduler().is_wanted());
    controller.handle_report(20, Report::ChildJoined { node: CHILD });
    assert!(controller.scheduler().is_wanted());
    controller.handle_report(30, reached_in(1, Stage::Idle, 1));
    assert!(!controller.scheduler().is_wanted(), "who still sleeps says so again");
}

/// A chain of three nodes, overlapped switches, and a job on all of them that left its row at 0.
fn with_leaving_job() -> Controller {
    let mut scheduler = Scheduler::new(Config::default()).expect("the default can be");
    (0..3).for_each(|node| scheduler.handle_node(0, NodeId(node), 1, 0));
    let mut controller = Controller::new(scheduler, Tree::new(1, 3));
    controller.scheduler_mut().submit(0, JOB, &Demand::any(3, 3)).expect("it fits");
    controller.scheduler_mut().begin(0, JOB);
    down(&mut controller);
    controller.suspend(0, JOB);
    down(&mut controller);
    controller
}

fn notices(controller: &mut Controller, now_ns: u64) -> Vec<Notice> {
    std::iter::from_fn(|| controller.poll_notice(now_ns)).collect()
}

#[test]
fn controller_names_the_deepest_late_node_once() {
    let mut controller = with_leaving_job();
    let deepest = NodeId(2);
    controller.handle_report(SECOND_NS / 2, Report::Late { node: deepest, job: JOB, stage: Stage::Frozen });
    assert_eq!(notices(&mut controller, SECOND_NS - 1), [], "it takes less than a second");
    assert_eq!((controller.poll_lags(), controller.late_timeout()), (None, Some(SECOND_NS)));
    assert_eq!(notices(&mut controller, SECOND_NS), [Notice::Late(deepest, JOB)]);
    let lags = Lags { unfrozen: vec![(JOB, deepest)], expelled: Vec::new() };
    assert_eq!((controller.poll_lags(), controller.late_timeout()), (Some(lags), None));
    for node in [CHILD, deepest, CHILD] {
        controller.handle_report(2 * SECOND_NS, Report::Late { node, job: JOB, stage: Stage::Frozen });
        assert_eq!((notices(&mut controller, 9 * SECOND_NS), controller.poll_lags()), (vec![], None));
    }
    let generation = controller.scheduler().generation().0;
    controller.handle_report(10 * SECOND_NS, reached(Stage::Frozen, generation));
    assert_eq!(notices(&mut controller, 10 * SECOND_NS), [Notice::InTime(deepest)]);
    assert_eq!(controller.poll_lags(), Some(Lags::default()));
    // What comes late of it names nobody.
    controller.handle_report(11 * SECOND_NS, Report::Late { node: deepest, job: JOB, stage: Stage::Frozen });
    assert_eq!((notices(&mut controller, 20 * SECOND_NS), controller.poll_lags()), (vec![], None));
}

#[test]
fn controller_names_all_nodes_that_are_equally_late() {
    let mut controller = with_leaving_job();
    let deepest = NodeId(2);
    assert_eq!(controller.late_timeout(), Some(2 * SECOND_NS));
    assert_eq!(notices(&mut controller, 2 * SECOND_NS - 1), []);
    let all = notices(&mut controller, 2 * SECOND_NS);
    assert!(all.contains(&Notice::Late(deepest, JOB)), "{all:?}");
    assert!(controller.poll_lags().is_some_and(|lags| lags.unfrozen.contains(&(JOB, deepest))));
    controller.handle_node_lost(3 * SECOND_NS, deepest);
    assert!(!notices(&mut controller, 3 * SECOND_NS).contains(&Notice::InTime(deepest)), "it is lost");
    assert!(controller.poll_lags().is_some_and(|lags| !lags.unfrozen.contains(&(JOB, deepest))));
}

#[test]
fn controller_reports_expelled_instead_of_late() {
    let mut controller = controller();
    controller.suspend(10, JOB);
    down(&mut controller);
    controller.handle_report(10 + SECOND_NS, Report::Late { node: CHILD, job: JOB, stage: Stage::Frozen });
    down(&mut controller);
    assert_eq!(notices(&mut controller, 2 * SECOND_NS), [Notice::Expelled(CHILD)]);
    assert_eq!(controller.poll_lags(), Some(Lags { unfrozen: Vec::new(), expelled: vec![CHILD] }));
    let generation = controller.scheduler().generation();
    controller.handle_report(3 * SECOND_NS, Report::Here { node: CHILD, generation });
    assert_eq!(notices(&mut controller, 3 * SECOND_NS), [Notice::Back(CHILD)]);
    assert_eq!(controller.poll_lags(), Some(Lags::default()));
}

/// A new controller has known a node by its file, and its daemon is not back yet. The job that was found runs
/// there: it would have been taken for dead.
#[test]
fn controller_takeover_places_a_found_job_when_its_lost_node_is_back() {
    let mut scheduler = Scheduler::new(Config::default()).expect("the default can be");
    scheduler.handle_node(0, NodeId(0), 1, 0);
    let parts = vec![(NodeId(0), 1), (CHILD, 1)];
    let found = Demand { oversubscribe: true, ..Demand::at(Place::Given(parts)) }.awaiting_lost();
    let mut controller = Controller::new(scheduler, Tree::new(1, 1));
    controller.scheduler_mut().submit_running(0, JOB, &found).expect("it waits");
    assert_eq!(controller.handle_join_lost(), CHILD);
    assert_eq!(controller.scheduler().state(JOB), Some(JobState::Waiting));
    assert!(controller.tree().members().lost.contains(&CHILD));
    controller.handle_node_back(0, CHILD, 1, 0);
    assert_eq!(controller.scheduler().state(JOB), Some(JobState::Placed));
}

/// RESUME may have reached some of its nodes when the controller before died: the others would keep it frozen
/// for ever.
#[test]
fn controller_takeover_resends_suspend_state_to_all_nodes() {
    for suspended in [false, true] {
        let config = Config { generation: Generation(100), ..Config::default() };
        let mut scheduler = Scheduler::new(config).expect("the default can be");
        scheduler.handle_node(0, NodeId(0), 1, 0);
        let mut controller = Controller::new(scheduler, Tree::new(1, 1));
        controller.scheduler_mut().submit_running(0, JOB, &Demand::any(1, 1)).expect("it fits");
        controller.scheduler_mut().begin(0, JOB);
        down(&mut controller);
        if suspended {
            controller.suspend(0, JOB);
            assert!(down(&mut controller).contains(&Order::Suspend(JOB, 101)));
        }
        controller.handle_found(JOB);
        let order = if suspended { Order::Suspend(JOB, 102) } else { Order::Resume(JOB, 101) };
        assert_eq!(down(&mut controller), std::slice::from_ref(&order));
        controller.handle_daemon_back();
        assert!(down(&mut controller).contains(&order), "it is repeated for who comes later");
    }
}
