//! Reservations: who begins on a reserved node, and when.

use tutti_sched::{Config, Demand, JobId, JobState, NodeId, Reservation, Wait};

use crate::{Bench, SLICE_NS, given};

const FROM_NS: u64 = 100 * SLICE_NS;

fn reservation(number: u32, nodes: &[u32], from_ns: u64) -> Reservation {
    Reservation { number, nodes: nodes.iter().map(|node| NodeId(*node)).collect(), from_ns }
}

fn lasting(demand: Demand, lasts_ns: u64) -> Demand {
    Demand { time_max_ns: Some(lasts_ns), ..demand }
}

fn reserve(bench: &mut Bench, all: Vec<Reservation>) {
    bench.scheduler.reserve(bench.now_ns, all);
    bench.begin_placed();
}

#[test]
fn reserved_node_gets_no_job_that_could_still_run_when_it_begins() {
    let mut bench = Bench::plain(2, 1);
    reserve(&mut bench, vec![reservation(7, &[1], FROM_NS)]);
    let short = bench.submit(&lasting(given(&[(1, 1)]), FROM_NS));
    let long = bench.submit(&lasting(given(&[(1, 1)]), FROM_NS + 1));
    let endless = bench.submit(&Demand::any(2, 2));
    assert_eq!(bench.nodes(short), [1]);
    let wait = |requested, there| Some(Wait::Reserved { requested, there, reservation: 7 });
    assert_eq!(bench.scheduler.why_waits(long), wait(1, 0));
    assert_eq!(bench.scheduler.why_waits(endless), wait(2, 1));
    let text = bench.scheduler.why_waits(endless).unwrap().to_string();
    assert_eq!(text, "it needs 2 nodes, 1 is not reserved (tutti reserve)");
    // The other node is free, now and then.
    let elsewhere = bench.submit(&Demand::any(1, 1));
    assert_eq!(bench.nodes(elsewhere), [0]);
    bench.now_ns = 1;
    let late = bench.submit(&lasting(given(&[(1, 1)]), FROM_NS));
    assert_eq!(bench.scheduler.why_waits(late), wait(1, 0));
    // The reservation is over.
    bench.now_ns = 2 * FROM_NS;
    reserve(&mut bench, Vec::new());
    for job in [long, endless, late] {
        assert_eq!(bench.scheduler.state(job), Some(JobState::Active));
    }
    bench.check();
}

#[test]
fn reserved_node_gets_jobs_of_its_reservation_in_its_time() {
    let mut bench = Bench::plain(3, 1);
    let of = |number, demand: Demand| Demand { of_reservation: Some(number), ..demand };
    reserve(&mut bench, vec![reservation(7, &[1, 2], FROM_NS), reservation(8, &[2], 3 * FROM_NS)]);
    let before = bench.submit(&of(7, Demand::any(1, 1)));
    assert_eq!(
        bench.scheduler.why_waits(before),
        Some(Wait::Reserved { requested: 1, there: 0, reservation: 7 })
    );
    bench.now_ns = FROM_NS;
    reserve(&mut bench, vec![reservation(7, &[1, 2], FROM_NS), reservation(8, &[2], 3 * FROM_NS)]);
    assert_eq!(bench.nodes(before), [1], "a later reservation has the other one");
    let short = bench.submit(&lasting(of(7, Demand::any(2, 2)), FROM_NS));
    assert_eq!(bench.nodes(short), [1, 2]);
    let other = bench.submit(&of(9, Demand::any(1, 1)));
    assert_eq!(bench.scheduler.state(other), Some(JobState::Waiting), "there is no such reservation");
    // Jobs that have nodes keep them, also with a reservation that is made then.
    reserve(&mut bench, vec![reservation(9, &[0, 1, 2], 0)]);
    assert_eq!(bench.scheduler.state(before), Some(JobState::Active));
    assert_eq!(bench.nodes(other).len(), 1);
    bench.check();
}

/// A job that waits for its time blocks no other one meanwhile; one with a shorter time limit begins.
#[test]
fn reserved_nodes_hold_up_no_job_behind_one_that_needs_them() {
    let mut bench = Bench::new(2, 1, Config { bypass_max: 1, ..Config::default() });
    reserve(&mut bench, vec![reservation(7, &[1], FROM_NS)]);
    let wide = bench.submit(&Demand::any(2, 2));
    for _ in 0..5 {
        let job = bench.submit(&Demand::any(1, 1));
        assert_eq!(bench.scheduler.state(job), Some(JobState::Active));
    }
    bench.scheduler.set_lasts(0, wide, Some(FROM_NS));
    bench.begin_placed();
    assert_eq!(bench.scheduler.state(wide), Some(JobState::Active));
    bench.scheduler.set_lasts(0, JobId(99), None);
}

/// A job that runs already has its nodes, and room for its steps.
#[test]
fn reserved_node_keeps_a_job_that_runs_there() {
    let mut bench = Bench::plain(1, 2);
    reserve(&mut bench, vec![reservation(7, &[0], 0)]);
    bench.scheduler.submit_running(0, JobId(50), &given(&[(0, 2)])).unwrap();
    bench.begin_placed();
    assert_eq!(bench.scheduler.state(JobId(50)), Some(JobState::Active));
    let holder = tutti_sched::Holder { within: Some(JobId(50)), ..Default::default() };
    let step = bench.submit(&Demand { holder, ..given(&[(0, 1)]) });
    assert_eq!(bench.scheduler.state(step), Some(JobState::Active));
}
