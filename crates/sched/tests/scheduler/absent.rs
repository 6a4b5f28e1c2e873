//! Jobs that take no turns for a while: suspended and idle ones, those of lost and late nodes, all while the
//! controller changes.

use tutti_sched::{Config, Demand, JobId, JobState, NodeId, Place, Switch, Wait};

use crate::{Bench, SLICE_NS, given};

#[test]
fn matrix_suspended_jobs_leave_and_return() {
    let mut bench = Bench::plain(1, 1);
    let (a, b) = (bench.submit(&Demand::any(1, 1)), bench.submit(&Demand::any(1, 1)));
    bench.run(4);
    bench.scheduler.suspend(bench.now_ns, a);
    bench.run(10);
    assert_eq!(bench.plan().rows, [vec![b]]);
    assert_eq!((bench.service(a), bench.service(b)), (2 * SLICE_NS, 12 * SLICE_NS));
    bench.scheduler.resume(bench.now_ns, a);
    bench.run(10);
    assert_eq!(
        (bench.service(a), bench.service(b)),
        (7 * SLICE_NS, 17 * SLICE_NS),
        "it has saved up nothing"
    );
    bench.check();
}

#[test]
fn matrix_of_suspended_jobs_switches_to_an_empty_row() {
    let mut bench = Bench::plain(1, 1);
    let a = bench.submit(&Demand::any(1, 1));
    bench.run(2);
    bench.scheduler.suspend(bench.now_ns, a);
    bench.turn();
    assert_eq!(bench.switches.last().unwrap().row, Switch::NOBODY);
    assert!(bench.scheduler.is_frozen(a));
    bench.scheduler.resume(bench.now_ns, a);
    bench.turn();
    assert_eq!(bench.scheduler.running(), [a]);
}

#[test]
fn matrix_jobs_of_a_lost_node_leave() {
    let mut bench = Bench::plain(2, 1);
    let both = bench.submit(&Demand::any(2, 2));
    let one = bench.submit(&given(&[(0, 1)]));
    bench.run(3);
    assert_eq!(bench.scheduler.handle_node_lost(bench.now_ns, NodeId(1)), [both]);
    let before = bench.service(one);
    bench.run(4);
    assert_eq!(bench.service(one) - before, 4 * SLICE_NS);
    assert_eq!(bench.scheduler.state(both), Some(JobState::Dying));
    bench.end(both);
    bench.check();
    assert!(bench.try_submit(&Demand::any(2, 2)).is_err());
    bench.scheduler.handle_node(bench.now_ns, NodeId(1), 1, 0);
    let again = bench.submit(&Demand::any(2, 2));
    assert_eq!(bench.scheduler.state(again), Some(JobState::Active));
}

/// A job that had its nodes before waits for them; a new one is refused.
#[test]
fn matrix_job_that_awaits_lost_nodes_is_not_refused() {
    let mut bench = Bench::plain(2, 1);
    bench.scheduler.handle_node_lost(0, NodeId(1));
    let again = Demand::awaiting_lost;
    let demands = [
        given(&[(1, 1)]),
        given(&[(0, 1), (7, 1)]),
        Demand::any(2, 2),
        Demand::at(Place::Fewest { ranks: 2 }),
    ];
    for demand in &demands {
        assert!(bench.try_submit(demand).is_err(), "{demand:?}");
    }
    let jobs: Vec<JobId> = demands.map(|demand| bench.submit(&again(demand))).into();
    assert_eq!(bench.scheduler.why_waits(jobs[0]), Some(Wait::Nodes { requested: 1, there: 0 }));
    assert_eq!(bench.scheduler.why_waits(jobs[2]), Some(Wait::Nodes { requested: 2, there: 1 }));
    // Others pass them.
    for _ in 0..20 {
        let job = bench.submit(&Demand::any(1, 1));
        assert_eq!(bench.scheduler.state(job), Some(JobState::Active));
        bench.end(job);
    }
    bench.scheduler.handle_node(0, NodeId(1), 1, 0);
    bench.begin_placed();
    let states = jobs.iter().map(|job| bench.scheduler.state(*job)).collect::<Vec<_>>();
    let (active, waiting) = (Some(JobState::Active), Some(JobState::Waiting));
    assert_eq!(states, [active, waiting, active, active], "node 7 is still not here");
    assert!(bench.try_submit(&again(Demand::any(1, 3))).is_ok(), "it waits for a larger node");
    assert!(bench.try_submit(&again(Demand::any(0, 1))).is_err());
}

#[test]
fn matrix_jobs_of_an_expelled_node_pause() {
    let mut bench = Bench::plain(2, 1);
    let both = bench.submit(&Demand::any(2, 2));
    let one = bench.submit(&given(&[(0, 1)]));
    bench.run(2);
    bench.scheduler.handle_node_expelled(bench.now_ns, NodeId(1));
    bench.run(6);
    assert_eq!((bench.service(both), bench.service(one)), (SLICE_NS, 7 * SLICE_NS));
    bench.scheduler.handle_node_back(bench.now_ns, NodeId(1));
    bench.run(6);
    assert_eq!((bench.service(both), bench.service(one)), (4 * SLICE_NS, 10 * SLICE_NS));
}

#[test]
fn matrix_late_job_pauses_and_keeps_its_credit() {
    let mut bench = Bench::plain(1, 1);
    let (a, b) = (bench.submit(&Demand::any(1, 1)), bench.submit(&Demand::any(1, 1)));
    assert!(bench.scheduler.next_row(0).is_some());
    let leaves = bench.scheduler.next_row(SLICE_NS).unwrap();
    assert_eq!(bench.scheduler.running(), [b]);
    for slice in 2..5 {
        assert_eq!(bench.scheduler.next_row(slice * SLICE_NS), None, "A has not said FROZEN");
    }
    bench.scheduler.handle_frozen(5 * SLICE_NS, a, leaves.generation);
    bench.now_ns = 5 * SLICE_NS;
    bench.run(3);
    assert_eq!(
        (bench.service(a), bench.service(b)),
        (4 * SLICE_NS, 4 * SLICE_NS),
        "A has had its three back"
    );
}

#[test]
fn idle_gang_gives_up_its_slice() {
    let mut bench = Bench::plain(1, 1);
    let (a, b) = (bench.submit(&Demand::any(1, 1)), bench.submit(&Demand::any(1, 1)));
    bench.turn();
    assert_eq!(bench.scheduler.running(), [a]);
    bench.now_ns += 1_000_000;
    let generation = bench.scheduler.generation();
    bench.scheduler.handle_idle(bench.now_ns, a, generation);
    bench.turn();
    assert_eq!(bench.scheduler.running(), [b], "early");
    bench.run(9);
    assert_eq!(bench.service(a), 1_000_000, "it is skipped");
    bench.run(3);
    assert!(bench.service(a) > SLICE_NS / 2, "what is frozen cannot say that a timer has run out");
    let before = bench.service(a);
    bench.scheduler.handle_woken(bench.now_ns, a);
    bench.run(10);
    assert!(bench.service(a) - before >= 4 * SLICE_NS);
}

#[test]
fn idle_machine_does_not_switch() {
    let mut bench = Bench::new(1, 1, Config { idle_recheck_ns: 0, ..Config::default() });
    let (a, b) = (bench.submit(&Demand::any(1, 1)), bench.submit(&Demand::any(1, 1)));
    for job in [a, b] {
        bench.turn();
        let generation = bench.scheduler.generation();
        bench.scheduler.handle_idle(bench.now_ns, job, generation);
    }
    let before = bench.switches.len();
    bench.run(10);
    assert_eq!((bench.switches.len(), bench.scheduler.next_at_ns()), (before, None));
    bench.scheduler.handle_woken(bench.now_ns, a);
    bench.turn();
    assert_eq!(bench.scheduler.running(), [a]);
}

#[test]
fn generations_continue_under_a_new_controller() {
    let config = Config { generation: tutti_sched::Generation(41), ..Config::default() };
    let mut bench = Bench::new(1, 1, config);
    bench.submit(&Demand::any(1, 1));
    bench.submit(&Demand::any(1, 1));
    bench.run(5);
    let generations: Vec<_> = bench.switches.iter().map(|switch| switch.generation.0).collect();
    assert_eq!(generations, (42..42 + generations.len() as u64).collect::<Vec<_>>());
}

/// Nodes whose daemons live on know their jobs under the slots of the controller before: two of them on one
/// slot would never run together.

#[test]
fn controller_takeover_plans_found_jobs_on_their_slots() {
    let mut bench = Bench::plain(1, 2);
    for job in [JobId(11), JobId(12)] {
        bench.scheduler.submit_running(0, job, &given(&[(0, 1)])).unwrap();
    }
    bench.begin_placed();
    bench.submit(&Demand::any(1, 1));
    bench.run(3);
    let plan = bench.scheduler.plan();
    let there = |job| bench.scheduler.parts(job).unwrap()[0].slots;
    let said: Vec<_> = plan.moved.iter().map(|moved| (moved.job, moved.slots)).collect();
    assert_eq!(said, [JobId(11), JobId(12)].map(|job| (job, there(job))));
    assert!(there(JobId(11)).is_disjoint(&there(JobId(12))));
}
