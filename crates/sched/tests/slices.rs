//! Slices as the switches that begin them tell of them: who waits for the end, and when that is.

use tutti_sched::{Config, Demand, Event, JobId, NodeId, Scheduler, Switch};

const MS: u64 = 1_000_000;

/// One slot, slices of 10 ms.
fn scheduler() -> Scheduler {
    let mut scheduler = Scheduler::new(Config { slice_ns: 10 * MS, ..Config::default() }).unwrap();
    scheduler.handle_node(0, NodeId(0), 1, 0);
    scheduler
}

fn begin(scheduler: &mut Scheduler, now_ns: u64, job: u64) {
    scheduler.submit(now_ns, JobId(job), &Demand::any(1, 1)).unwrap();
    while let Some(Event::Placed(job, _)) = scheduler.poll_event() {
        scheduler.begin(now_ns, job);
    }
}

fn switch(scheduler: &mut Scheduler, now_ns: u64) -> Switch {
    let running = scheduler.running().to_vec();
    let switch = scheduler.next_row(now_ns).expect("a switch is due");
    running.into_iter().for_each(|job| scheduler.handle_frozen(now_ns, job, switch.generation));
    switch
}

#[test]
fn switch_carries_the_length_of_its_slice() {
    let mut scheduler = scheduler();
    begin(&mut scheduler, 0, 1);
    assert_eq!(switch(&mut scheduler, 0).left_ns, 0, "it is alone");
    begin(&mut scheduler, 25 * MS, 2);
    // Its slice was over long ago.
    assert_eq!(switch(&mut scheduler, 25 * MS).left_ns, 10 * MS);
    assert_eq!(switch(&mut scheduler, 35 * MS).left_ns, 10 * MS);
    scheduler.end(38 * MS, JobId(1));
    assert_eq!(switch(&mut scheduler, 38 * MS).left_ns, 0, "the other one is alone now");
}
