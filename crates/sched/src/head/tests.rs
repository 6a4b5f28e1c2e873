use super::*;
use crate::demand::Demand;
use crate::scheduler::Config;

const JOB: JobId = JobId(1);
const CHILD: NodeId = NodeId(1);

/// A job on both nodes that runs.
fn head() -> Head {
    let config = Config { mode: Mode::Strict, ..Config::default() };
    let mut scheduler = Scheduler::new(config).expect("the default can be");
    (0..2).for_each(|node| scheduler.handle_node(0, NodeId(node), 1, 0));
    let mut head = Head::new(scheduler, Tree::new(1, 2));
    head.scheduler_mut().submit(0, JOB, &Demand::any(2, 2)).expect("it fits");
    head.scheduler_mut().begin(0, JOB);
    let orders = down(&mut head);
    assert!(orders.contains(&Order::Restore(JOB, Generation(1))), "{orders:?}");
    head.handle_report(0, reached(Stage::Restored, 1));
    assert_eq!(down(&mut head), [Order::Run(JOB, Generation(1))]);
    assert!(head.is_through());
    head
}

fn reached(stage: Stage, generation: u64) -> Report {
    reached_in(0, stage, generation)
}

fn reached_in(membership: u64, stage: Stage, generation: u64) -> Report {
    let (generation, membership) = (Generation(generation), Membership(membership));
    Report::Reached { job: JOB, stage, generation, membership }
}

fn down(head: &mut Head) -> Vec<Order> {
    let all = std::iter::from_fn(|| head.poll_down(0));
    all.filter_map(|down| if let Down::Order(order) = down { Some(order) } else { None }).collect()
}

/// After a daemon has come back its reports are of another time than those of the others, for as long as the job runs.
#[test]
fn nobody_is_expelled_for_a_job_that_is_to_run() {
    let mut head = head();
    head.handle_report(10, Report::Late { node: CHILD });
    assert_eq!(down(&mut head), []);
    head.suspend(20, JOB);
    assert!(down(&mut head).contains(&Order::Suspend(JOB, 1)));
    head.handle_report(30, Report::Late { node: CHILD });
    assert!(matches!(&down(&mut head)[0], Order::Members(members) if members.expelled == [CHILD]));
}

#[test]
fn who_comes_hears_what_jobs_were_ordered_one_by_one() {
    let mut head = head();
    head.handle_report(10, Report::Came { node: CHILD });
    let orders = down(&mut head);
    assert!(matches!(orders[0], Order::Members(_)), "{orders:?}");
    assert!(orders.contains(&Order::Run(JOB, Generation(1))), "{orders:?}");
}

/// The daemon that would have said that a rank is awake is gone, and the one after it does not know that anybody was told otherwise.
#[test]
fn nobody_is_thought_asleep_on_the_word_of_those_who_are_gone() {
    let mut head = head();
    head.handle_report(10, reached(Stage::Idle, 1));
    assert!(!head.scheduler().is_wanted());
    head.handle_report(20, Report::Came { node: CHILD });
    assert!(head.scheduler().is_wanted());
    head.handle_report(30, reached_in(1, Stage::Idle, 1));
    assert!(!head.scheduler().is_wanted(), "who still sleeps says so again");
}
