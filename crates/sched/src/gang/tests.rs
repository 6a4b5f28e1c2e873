use super::*;

const A: JobId = JobId(1);
const B: JobId = JobId(2);
const C: JobId = JobId(3);

/// A node with A and B on the same two slots, a plan with one row for each, A running in generation 1.
fn node(mode: Mode) -> NodeSwitch {
    let timing = Timing { silence_ns: 1_000_000_000, channel_ns: 0, ..Timing::default() };
    let mut node = NodeSwitch::new(NodeId(0), timing, 4);
    node.handle_plan(0, plan(1));
    order(&mut node, 0, switch(1, 0, mode));
    if mode == Mode::Strict {
        order(&mut node, 0, Order::Run(A, Generation(1)));
    }
    node.handle_job(0, A, Slots::first(2), false, Arrival::Running);
    node.handle_job(0, B, Slots::first(2), true, Arrival::Frozen);
    assert_eq!(actions(&mut node), [frozen(B, 1)]);
    assert!(node.is_thawed(A) && node.is_frozen(B));
    node
}

fn plan(version: u64) -> Plan {
    Plan { version: Version(version), rows: vec![vec![A], vec![B]], moved: Vec::new() }
}

fn switch(generation: u64, row: u32, mode: Mode) -> Order {
    Order::Switch(Switch { mode, ..to_row(1, row, generation) })
}

/// An overlapped switch to a row of a version.
fn to_row(version: u64, row: u32, generation: u64) -> Switch {
    Switch {
        version: Version(version),
        row,
        generation: Generation(generation),
        at_ns: 0,
        mode: Mode::Overlapped,
        left_ns: 0,
    }
}

fn actions(node: &mut NodeSwitch) -> Vec<Action> {
    std::iter::from_fn(|| node.poll_action()).collect()
}

/// Gives an order and returns what it causes after it has been forwarded.
fn order(node: &mut NodeSwitch, now_ns: u64, order: Order) -> Vec<Action> {
    node.handle_order(now_ns, &order);
    let mut all = actions(node);
    let forwarded = all.iter().position(|action| *action == Action::Forward(order.clone()));
    all.remove(forwarded.expect("an order is forwarded"));
    all
}

fn frozen(job: JobId, generation: u64) -> Action {
    Action::Reached(job, Stage::Frozen, Generation(generation))
}

#[test]
fn node_switch_job_in_all_rows_is_never_frozen() {
    let mut node = node(Mode::Overlapped);
    assert!(node.must_yield(A) && node.must_yield(B));
    let rows = vec![vec![A, C], vec![B, C]];
    node.handle_plan(10, Plan { version: Version(2), rows, ..Plan::default() });
    assert!(node.must_yield(C), "it is in force with its switch only");
    let next = to_row(2, 1, 2);
    node.handle_order(20, &Order::Switch(next));
    assert!(node.must_yield(A) && !node.must_yield(C));
}

#[test]
fn overlapped_switch_forwards_freezes_and_thaws() {
    let mut node = node(Mode::Overlapped);
    let next = switch(2, 1, Mode::Overlapped);
    node.handle_order(10, &next);
    assert_eq!(actions(&mut node), [Action::Forward(next), Action::Freeze(A), Action::Thaw(B)]);
    node.handle_change(50_010, A, JobChange::Frozen);
    assert_eq!(actions(&mut node), [frozen(A, 2)]);
    assert_eq!((node.lap().executed_ns, node.lap().frozen_ns), (10, 50_010));
}

#[test]
fn overlapped_switch_does_not_wait_for_a_slow_freezer() {
    let mut node = node(Mode::Overlapped);
    assert_eq!(order(&mut node, 0, switch(2, 1, Mode::Overlapped)), [Action::Freeze(A), Action::Thaw(B)]);
    node.handle_time(1_000_000_000);
    assert!(actions(&mut node).contains(&Action::Stuck(A)));
    node.handle_change(2_000_000_000, A, JobChange::Frozen);
    assert!(actions(&mut node).contains(&frozen(A, 2)));
}

/// If it were named, the controller would take it that it does not forward either.
#[test]
fn expelled_node_is_named_once() {
    let mut node = node(Mode::Strict);
    order(&mut node, 0, switch(2, 1, Mode::Strict));
    node.handle_contact(990_000_000);
    node.handle_time(1_000_000_000);
    assert!(actions(&mut node).contains(&Action::Stuck(A)));
    let members = |membership, expelled: &[NodeId]| {
        let (membership, expelled) = (Membership(membership), expelled.to_vec());
        Order::Members(crate::Members { membership, lost: Vec::new(), expelled })
    };
    order(&mut node, 1_000_000_000, members(1, &[NodeId(0)]));
    node.handle_contact(1_990_000_000);
    node.handle_time(2_000_000_000);
    assert_eq!(actions(&mut node), []);
    assert!(node.poll_timeout() > Some(2_000_000_000), "it does not wait for what is over");
    order(&mut node, 2_990_000_000, members(2, &[]));
    node.handle_time(3_000_000_000);
    assert_eq!(actions(&mut node), [Action::Stuck(A)], "somebody waits for it again");
}

/// Behind the write to its freezer no rank of it runs an instruction of its own: nobody has to know more.
#[test]
fn overlapped_switch_counts_a_requested_freeze_as_frozen() {
    let mut node = node(Mode::Overlapped);
    order(&mut node, 10, switch(2, 1, Mode::Overlapped));
    assert!(node.may_assume_frozen(A));
    node.handle_change(20, A, JobChange::FreezeRequested);
    assert_eq!(actions(&mut node), [frozen(A, 2)]);
    assert_eq!(order(&mut node, 30, switch(3, 0, Mode::Overlapped)), [Action::Freeze(B), Action::Thaw(A)]);
    node.handle_change(40, B, JobChange::FreezeRequested);
    assert_eq!(actions(&mut node), [frozen(B, 3)]);
    node.handle_change(50, B, JobChange::Frozen);
    assert_eq!(actions(&mut node), [], "it has been said");
    order(&mut node, 60, switch(4, 1, Mode::Overlapped));
    node.handle_change(70, A, JobChange::FreezeRequested);
    actions(&mut node);
    node.handle_time(60 + Timing::default().stuck_ns);
    assert_eq!(actions(&mut node), [Action::Stuck(A)], "who keeps the machines hears of it all the same");
}

#[test]
fn suspend_waits_for_a_confirmed_freeze() {
    let mut node = node(Mode::Overlapped);
    order(&mut node, 10, switch(2, 1, Mode::Overlapped));
    node.handle_change(20, A, JobChange::FreezeRequested);
    actions(&mut node);
    assert_eq!(order(&mut node, 30, Order::Suspend(A, 1)), []);
    assert!(!node.may_assume_frozen(A));
    node.handle_change(40, A, JobChange::Frozen);
    assert_eq!(actions(&mut node), [Action::Reached(A, Stage::Suspended, Generation(1))]);
}

/// Forced switches are to take the job off and put it on again: a write is not enough.
#[test]
fn forced_switch_waits_for_a_confirmed_freeze() {
    let mut node = node(Mode::Overlapped);
    node.handle_plan(0, Plan { version: Version(2), rows: vec![vec![A], vec![]], moved: Vec::new() });
    order(&mut node, 10, Order::Switch(to_row(2, 1, 2)));
    assert!(!node.is_thawed(A) && !node.may_assume_frozen(A));
}

#[test]
fn strict_switch_waits_for_a_confirmed_freeze() {
    let mut node = node(Mode::Strict);
    order(&mut node, 10, switch(2, 1, Mode::Strict));
    assert!(!node.may_assume_frozen(A));
}

#[test]
fn strict_switch_waits_for_every_order() {
    let mut node = node(Mode::Strict);
    assert_eq!(order(&mut node, 0, switch(2, 1, Mode::Strict)), [Action::Freeze(A)]);
    node.handle_time(300_000);
    assert_eq!(actions(&mut node), [], "B is not thawed by time");
    node.handle_change(400_000, A, JobChange::Frozen);
    assert_eq!(actions(&mut node), [frozen(A, 2)]);
    assert_eq!(order(&mut node, 0, Order::Save(A, Generation(2))), [Action::Save(A)]);
    assert_eq!(
        order(&mut node, 0, Order::Save(A, Generation(2))),
        [],
        "a repeated order is not executed again"
    );
    node.handle_change(0, A, JobChange::Saved);
    assert_eq!(actions(&mut node), [Action::Reached(A, Stage::Saved, Generation(2))]);
    assert_eq!(order(&mut node, 0, Order::Restore(B, Generation(1))), [], "of an older generation");
    assert_eq!(order(&mut node, 0, Order::Restore(B, Generation(2))), [Action::Restore(B)]);
    node.handle_change(0, B, JobChange::Restored);
    assert_eq!(actions(&mut node), [Action::Reached(B, Stage::Restored, Generation(2))]);
    assert_eq!(order(&mut node, 0, Order::Run(B, Generation(2))), [Action::Thaw(B)]);
}

/// A daemon that is new hears the orders in force before the starters of its jobs have come back.
#[test]
fn node_switch_orders_that_precede_their_job_are_kept() {
    let mut node = node(Mode::Strict);
    let (generation, at) = (Generation(2), Slots::first(1));
    node.handle_plan(0, Plan { version: Version(2), rows: vec![vec![C]], moved: Vec::new() });
    order(&mut node, 0, Order::Switch(Switch { mode: Mode::Strict, ..to_row(2, 0, 2) }));
    node.handle_change(10, A, JobChange::Frozen);
    actions(&mut node);
    assert_eq!(order(&mut node, 20, Order::Restore(C, Generation(1))), [], "an older one");
    assert_eq!(order(&mut node, 20, Order::Restore(C, generation)), []);
    node.handle_job(30, C, at, false, Arrival::Running);
    assert_eq!(actions(&mut node), [Action::Freeze(C)], "nobody has said RUN");
    node.handle_change(40, C, JobChange::Frozen);
    assert_eq!(actions(&mut node), [frozen(C, 2), Action::Restore(C)]);
    node.handle_change(0, C, JobChange::Restored);
    assert_eq!(actions(&mut node), [Action::Reached(C, Stage::Restored, generation)]);
    assert_eq!(order(&mut node, 50, Order::Run(C, generation)), [Action::Thaw(C)]);

    assert_eq!(order(&mut node, 60, Order::Suspend(JobId(4), 1)), []);
    assert_eq!(order(&mut node, 60, Order::Kill(JobId(5))), []);
    assert_eq!(order(&mut node, 60, Order::Run(JobId(6), generation)), []);
    node.handle_job_ended(70, JobId(6));
    node.handle_job(80, JobId(4), at, false, Arrival::Frozen);
    let suspended = Action::Reached(JobId(4), Stage::Suspended, Generation(1));
    assert_eq!(actions(&mut node), [suspended.clone(), frozen(JobId(4), 2), suspended]);
    node.handle_job(80, JobId(5), at, false, Arrival::Running);
    assert_eq!(actions(&mut node), [Action::Kill(JobId(5))]);
}

#[test]
fn node_switch_job_in_the_row_of_a_restarted_daemon_runs_on() {
    for stays in [true, false] {
        let mut node = node(Mode::Strict);
        let next = if stays { vec![B, C] } else { vec![B] };
        node.handle_plan(0, Plan { version: Version(2), rows: vec![vec![A, C], next], moved: Vec::new() });
        let strict =
            |row, generation| Order::Switch(Switch { mode: Mode::Strict, ..to_row(2, row, generation) });
        order(&mut node, 0, strict(0, 2));
        order(&mut node, 0, Order::Run(C, Generation(2)));
        order(&mut node, 10, strict(1, 3));
        order(&mut node, 20, strict(0, 4));
        node.handle_job(30, C, Slots::first(1), false, Arrival::Running);
        let frozen = actions(&mut node).contains(&Action::Freeze(C));
        assert_eq!(frozen, !stays, "it is said to whom comes into the row");
    }
}

#[test]
fn strict_switch_restores_a_job_that_ran_on_an_isolated_node() {
    let mut node = node(Mode::Strict);
    node.handle_time(1_000_000_000);
    node.handle_change(1_000_100_000, A, JobChange::Frozen);
    assert!(node.is_alone() && node.is_thawed(B));
    actions(&mut node);
    let generation = Generation(2);
    assert_eq!(
        order(&mut node, 2_000_000_000, switch(2, 1, Mode::Strict)),
        [frozen(A, 2), Action::Freeze(B)]
    );
    assert_eq!(order(&mut node, 2_000_000_000, Order::Restore(B, generation)), []);
    node.handle_change(2_000_100_000, B, JobChange::Frozen);
    assert_eq!(actions(&mut node), [frozen(B, 2), Action::Restore(B)]);
    node.handle_change(0, B, JobChange::Restored);
    assert_eq!(actions(&mut node), [Action::Reached(B, Stage::Restored, generation)]);
    assert_eq!(order(&mut node, 2_000_200_000, Order::Run(B, generation)), [Action::Thaw(B)]);
}

#[test]
fn expelled_node_stays_expelled_despite_a_stale_tree() {
    let mut node = node(Mode::Strict);
    let members = |membership, expelled: &[NodeId]| {
        let (membership, expelled) = (Membership(membership), expelled.to_vec());
        Order::Members(crate::Members { membership, lost: Vec::new(), expelled })
    };
    assert_eq!(order(&mut node, 0, members(3, &[NodeId(0)])), [Action::Here(Generation(1))]);
    assert_eq!(order(&mut node, 0, members(2, &[])), []);
    let after = order(&mut node, 0, switch(2, 0, Mode::Strict));
    assert_eq!(after, [Action::Here(Generation(2))], "the controller has not taken it back yet");
}

#[test]
fn node_switch_newest_generation_wins() {
    let mut node = node(Mode::Overlapped);
    // The backlog of a slow node: 3 is here before 2 could be executed, since the plan of 2 is not here.
    let two = to_row(2, 1, 2);
    assert_eq!(order(&mut node, 0, Order::Switch(two)), []);
    assert_eq!(order(&mut node, 0, switch(3, 0, Mode::Overlapped)), [frozen(B, 3)]);
    node.handle_plan(0, plan(2));
    assert_eq!(actions(&mut node), [], "2 is never executed");
    assert_eq!(order(&mut node, 0, Order::Switch(two)), []);
    assert!(node.is_thawed(A));
}

/// Plans of the node that was the parent before may still be on their way.
#[test]
fn node_switch_late_plan_does_not_replace_the_newest() {
    let mut node = node(Mode::Overlapped);
    order(&mut node, 0, switch(2, 0, Mode::Overlapped));
    let late = Plan { version: Version(2), rows: vec![vec![A]], ..Plan::default() };
    node.handle_plan(10, late);
    let newest = 20;
    node.handle_plan(20, plan(newest));
    (3..newest).for_each(|version| node.handle_plan(30, plan(version)));
    assert_eq!(order(&mut node, 40, Order::Switch(to_row(newest, 1, 3)))[0], Action::Freeze(A));
}

#[test]
fn node_switch_waits_for_plan_and_time() {
    let mut node = node(Mode::Overlapped);
    let at = Switch {
        version: Version(2),
        row: 1,
        generation: Generation(2),
        at_ns: 500,
        mode: Mode::Overlapped,
        left_ns: 0,
    };
    assert_eq!(order(&mut node, 0, Order::Switch(at)), []);
    node.handle_plan(10, plan(2));
    assert_eq!(actions(&mut node), []);
    assert_eq!(node.poll_timeout(), Some(500));
    node.handle_time(500);
    assert_eq!(actions(&mut node), [Action::Freeze(A), Action::Thaw(B)]);
}

#[test]
fn node_switch_thaws_a_job_that_was_still_freezing() {
    let mut node = node(Mode::Overlapped);
    order(&mut node, 0, switch(2, 1, Mode::Overlapped));
    node.handle_time(200_000);
    actions(&mut node);
    assert_eq!(order(&mut node, 300_000, switch(3, 0, Mode::Overlapped)), [Action::Freeze(B)]);
    node.handle_change(310_000, B, JobChange::Frozen);
    assert_eq!(actions(&mut node), [frozen(B, 3)]);
    node.handle_change(400_000, A, JobChange::Frozen);
    assert_eq!(actions(&mut node), [frozen(A, 3), Action::Thaw(A)]);
}

#[test]
fn kill_is_legal_in_any_state() {
    for state in ["thawed", "freezing", "frozen", "suspended", "saving"] {
        let mut node = node(Mode::Overlapped);
        if state != "thawed" {
            order(&mut node, 0, switch(2, 1, Mode::Overlapped));
        }
        if matches!(state, "frozen" | "suspended" | "saving") {
            node.handle_change(10, A, JobChange::Frozen);
        }
        match state {
            "suspended" => drop(order(&mut node, 20, Order::Suspend(A, 1))),
            "saving" => drop(order(&mut node, 20, Order::Save(A, Generation(2)))),
            _ => {}
        }
        actions(&mut node);
        let caused = order(&mut node, 30, Order::Kill(A));
        assert_eq!(caused[0], Action::Kill(A), "{state}");
        assert_eq!(order(&mut node, 30, Order::Kill(A)), [], "{state}: once");
        node.handle_job_ended(40, A);
        order(&mut node, 50, switch(3, 1, Mode::Overlapped));
        assert!(node.is_thawed(B), "{state}: B goes on");
    }
}

#[test]
fn suspend_and_resume_are_legal_in_any_state() {
    let mut node = node(Mode::Overlapped);
    assert_eq!(order(&mut node, 0, Order::Suspend(A, 1)), [Action::Freeze(A)]);
    assert_eq!(order(&mut node, 0, Order::Suspend(A, 1)), []);
    node.handle_change(10, A, JobChange::Frozen);
    let suspended = Action::Reached(A, Stage::Suspended, Generation(1));
    assert_eq!(actions(&mut node), [frozen(A, 1), suspended]);
    assert_eq!(order(&mut node, 20, Order::Resume(A, 2)), [Action::Thaw(A)], "it is in the row");
    assert_eq!(order(&mut node, 30, Order::Suspend(A, 1)), [], "old");
    order(&mut node, 40, switch(2, 1, Mode::Overlapped));
    node.handle_change(50, A, JobChange::Frozen);
    actions(&mut node);
    let again = Action::Reached(A, Stage::Suspended, Generation(3));
    assert_eq!(order(&mut node, 60, Order::Suspend(A, 3)), [again], "frozen already");
    assert_eq!(
        order(&mut node, 70, switch(3, 0, Mode::Overlapped)),
        [Action::Freeze(B)],
        "suspended in its own row"
    );
    node.handle_change(80, B, JobChange::Frozen);
    actions(&mut node);
    assert_eq!(order(&mut node, 90, Order::Resume(A, 4)), [Action::Thaw(A)]);
}

#[test]
fn idle_gang_is_found_after_a_millisecond() {
    let mut node = node(Mode::Overlapped);
    node.handle_change(0, A, JobChange::Asleep);
    assert_eq!(node.poll_timeout(), Some(1_000_000));
    node.handle_time(1_000_000);
    let idle = Action::Reached(A, Stage::Idle, Generation(1));
    assert_eq!(actions(&mut node), std::slice::from_ref(&idle));
    node.handle_time(2_000_000);
    assert_eq!(actions(&mut node), [], "said once");
    node.handle_change(3_000_000, A, JobChange::Awake);
    assert_eq!(actions(&mut node), [Action::Woken(A)]);
    node.handle_change(3_000_000, A, JobChange::Asleep);
    node.handle_time(3_999_999);
    assert_eq!(actions(&mut node), []);
    node.handle_time(4_000_000);
    assert_eq!(actions(&mut node), [idle]);
}

#[test]
fn idle_is_found_while_exempt_and_not_while_frozen() {
    let idle = Action::Reached(A, Stage::Idle, Generation(2));
    for (exempt, expected) in [(true, vec![idle]), (false, vec![])] {
        let mut node = node(Mode::Overlapped);
        node.handle_change(0, A, JobChange::Asleep);
        assert_eq!(
            order(&mut node, 500_000, switch(2, 1, Mode::Overlapped)),
            [Action::Freeze(A), Action::Thaw(B)]
        );
        if exempt {
            node.handle_change(500_000, A, JobChange::Exempt);
        } else {
            node.handle_change(500_000, A, JobChange::Frozen);
        }
        assert_eq!(actions(&mut node), [frozen(A, 2)], "it counts as frozen");
        node.handle_time(1_000_000);
        assert_eq!(actions(&mut node), expected);
    }
}

#[test]
fn suspended_exempt_job_is_not_found_idle() {
    let mut node = node(Mode::Overlapped);
    node.handle_change(0, A, JobChange::Asleep);
    order(&mut node, 500_000, switch(2, 1, Mode::Overlapped));
    node.handle_change(500_000, A, JobChange::Exempt);
    actions(&mut node);
    order(&mut node, 600_000, Order::Suspend(A, 1));
    node.handle_time(2_000_000);
    assert_eq!(actions(&mut node), []);
}

#[test]
fn isolated_node_runs_its_own_jobs_and_rejoins() {
    let mut node = node(Mode::Overlapped);
    node.handle_time(1_000_000_000);
    assert_eq!(actions(&mut node), [Action::Freeze(A), Action::Thaw(B)], "A is on other nodes too");
    node.handle_change(1_000_100_000, A, JobChange::Frozen);
    assert_eq!(actions(&mut node), [frozen(A, 1)]);
    assert!(node.is_alone());
    node.handle_contact(2_000_000_000);
    assert_eq!(actions(&mut node), [Action::Freeze(B), Action::Thaw(A)]);
    node.handle_change(2_000_100_000, B, JobChange::Frozen);
    assert_eq!(actions(&mut node), [frozen(B, 1)]);
}

#[test]
fn node_switch_reports_a_job_that_arrives_frozen() {
    let mut node = node(Mode::Overlapped);
    node.handle_job(0, JobId(3), Slots::first(1), false, Arrival::Frozen);
    node.handle_job(0, JobId(4), Slots::first(1), false, Arrival::Running);
    assert_eq!(actions(&mut node), [frozen(JobId(3), 1), Action::Freeze(JobId(4))]);
}

#[test]
fn node_switch_binds_a_moved_job_before_it_runs() {
    let mut node = node(Mode::Overlapped);
    let slots = Slots::first(4).without(&Slots::first(2));
    let moved = |job, node| crate::Moved { job, node: NodeId(node), slots };
    node.handle_plan(
        0,
        Plan {
            version: Version(2),
            rows: vec![vec![A, B]],
            moved: vec![moved(A, 1), moved(B, 0), moved(JobId(9), 0)],
        },
    );
    let both = to_row(2, 0, 2);
    assert_eq!(order(&mut node, 0, Order::Switch(both)), [Action::Bind(B, slots), Action::Thaw(B)]);
    // Nor does it matter whether the daemon hears of the plan or of the job first.
    node.handle_job(0, JobId(9), Slots::first(1), true, Arrival::Running);
    assert_eq!(actions(&mut node), [Action::Bind(JobId(9), slots), Action::Freeze(JobId(9))]);
}

#[test]
fn strict_switch_runs_no_job_during_restore() {
    let mut node = node(Mode::Strict);
    order(&mut node, 0, switch(2, 1, Mode::Strict));
    node.handle_change(0, A, JobChange::Frozen);
    actions(&mut node);
    assert_eq!(order(&mut node, 0, Order::Restore(B, Generation(2))), [Action::Restore(B)]);
    // A change of the tree repeats all that is in force: on the other nodes B has been restored, and runs.
    assert_eq!(order(&mut node, 0, Order::Run(B, Generation(2))), []);
    node.handle_change(10, B, JobChange::Restored);
    assert_eq!(actions(&mut node), [Action::Reached(B, Stage::Restored, Generation(2)), Action::Thaw(B)]);
}

/// A job and its step have the same slots, and are thawed together when their row comes.
#[test]
fn gang_thaws_a_job_and_its_step_on_the_same_slots() {
    let mut node = NodeSwitch::new(NodeId(0), Timing::default(), 4);
    let rows = vec![vec![A, C], vec![B]];
    node.handle_plan(0, Plan { version: Version(1), rows, moved: Vec::new() });
    order(&mut node, 0, Order::Switch(to_row(1, 1, 1)));
    node.handle_job(0, B, Slots::first(2), false, Arrival::Running);
    for job in [A, C] {
        node.handle_job(0, job, Slots::first(2), false, Arrival::Frozen);
    }
    actions(&mut node);
    let said = order(&mut node, 0, Order::Switch(to_row(1, 0, 2)));
    assert!(said.contains(&Action::Thaw(A)) && said.contains(&Action::Thaw(C)), "{said:?}");
    assert!(said.contains(&Action::Freeze(B)), "{said:?}");
}

/// A and B on the same slots by turns, and a service of B for which A waits in its own turn.
fn lending() -> NodeSwitch {
    let mut node = node(Mode::Overlapped);
    assert!(node.handle_wish(0, A, B, true));
    assert_eq!(actions(&mut node), [Action::Lend(B)]);
    assert_eq!(node.lender_of(B), Some(A));
    assert!(node.is_frozen(B) && !node.is_thawed(B), "it counts as frozen");
    node
}

#[test]
fn loan_ends_with_the_wish_and_begins_with_the_next() {
    let mut node = lending();
    assert!(node.handle_wish(1_000, A, B, true), "another process waits too");
    assert!(node.handle_wish(2_000, A, B, false));
    assert_eq!(actions(&mut node), []);
    assert!(node.handle_wish(3_000, A, B, false));
    assert_eq!(actions(&mut node), [Action::Return(B)]);
    assert!(!node.handle_wish(3_500, A, B, false), "it is given up");
    assert!(node.handle_wish(3_600, A, B, true));
    assert_eq!(actions(&mut node), [], "it is being frozen");
    node.handle_change(4_000, B, JobChange::FreezeRequested);
    assert_eq!(actions(&mut node), [frozen(B, 1), Action::Lend(B)]);
    node.handle_change(5_000, B, JobChange::Frozen);
    assert!(node.lender_of(B).is_some(), "that was said of the time before");
}

#[test]
fn loan_ends_with_the_turn_and_comes_back_with_it() {
    let mut node = lending();
    let said = order(&mut node, 1_000_000, switch(2, 1, Mode::Overlapped));
    assert_eq!(said, [Action::Freeze(A), Action::Thaw(B)], "it goes on in its own turn");
    assert!(node.lender_of(B).is_none());
    node.handle_change(1_100_000, A, JobChange::Frozen);
    actions(&mut node);
    let said = order(&mut node, 2_000_000, switch(3, 0, Mode::Overlapped));
    assert_eq!(said, [Action::Freeze(B), Action::Thaw(A)]);
    node.handle_change(2_100_000, B, JobChange::Frozen);
    assert_eq!(actions(&mut node), [frozen(B, 3), Action::Lend(B)]);
}

#[test]
fn loan_gives_way_to_a_third_job_and_to_orders() {
    // A third job comes to their slots.
    let mut node = lending();
    node.handle_job(500, C, Slots::first(2), true, Arrival::Frozen);
    let rows = vec![vec![A], vec![B], vec![C]];
    node.handle_plan(1_000, Plan { version: Version(2), rows, moved: Vec::new() });
    actions(&mut node);
    let said = order(&mut node, 2_000, Order::Switch(to_row(2, 2, 2)));
    assert_eq!(said, [Action::Freeze(A), Action::Return(B), Action::Thaw(C)]);
    // Who is suspended stands still before somebody hears of it.
    let mut node = lending();
    assert_eq!(order(&mut node, 1_000, Order::Suspend(B, 1)), [Action::Return(B)]);
    node.handle_change(2_000, B, JobChange::Frozen);
    assert_eq!(actions(&mut node), [frozen(B, 1), Action::Reached(B, Stage::Suspended, Generation(1))]);
    assert_eq!(order(&mut node, 3_000, Order::Resume(B, 2)), [Action::Lend(B)]);
    // The lender is suspended, or ends.
    assert_eq!(order(&mut node, 4_000, Order::Suspend(A, 1)), [Action::Freeze(A), Action::Return(B)]);
    let mut node = lending();
    node.handle_job_ended(1_000, A);
    assert_eq!(actions(&mut node), [Action::Return(B)]);
    assert!(!node.handle_wish(2_000, A, B, true), "it is gone");
    // Who dies is not stopped on the way.
    let mut node = lending();
    assert_eq!(order(&mut node, 1_000, Order::Kill(B)), [Action::Kill(B)]);
    assert!(node.lender_of(B).is_none());
}

#[test]
fn loan_of_a_sleeper_leaves_it_as_it_was() {
    let mut node = lending();
    node.handle_wish(1_000, A, B, false);
    assert_eq!(actions(&mut node), [Action::Return(B)]);
    node.handle_change(1_000, B, JobChange::Exempt);
    assert_eq!(actions(&mut node), [frozen(B, 1)]);
    assert!(node.is_exempt(B) && node.is_frozen(B));
    node.handle_time(2_000_000_000);
    assert!(!actions(&mut node).contains(&Action::Stuck(B)), "nothing is to be heard of it");
}

#[test]
fn loan_that_does_not_come_back_is_named() {
    let mut node = lending();
    node.handle_contact(2_900_000_000);
    node.handle_time(3_000_000_000);
    assert!(!actions(&mut node).contains(&Action::Stuck(B)), "it runs as it should");
    node.handle_wish(3_000_000_000, A, B, false);
    node.handle_contact(3_900_000_000);
    node.handle_time(4_000_000_000);
    let said = actions(&mut node);
    assert!(said.starts_with(&[Action::Return(B)]) && said.contains(&Action::Stuck(B)), "{said:?}");
}

#[test]
fn loan_of_what_is_lent_strict_or_of_oneself_is_none() {
    let mut node = lending();
    node.handle_job(500, C, Slots::first(2), true, Arrival::Frozen);
    actions(&mut node);
    for (lender, borrower) in [(B, C), (C, B), (A, C)] {
        assert!(node.handle_wish(1_000, lender, borrower, true));
        assert_eq!(actions(&mut node), [], "job {lender} has no turn, or has lent it");
    }
    assert!(!node.handle_wish(1_000, A, A, true) && !node.handle_wish(1_000, A, JobId(9), true));
    node.handle_wish(2_000, A, B, false);
    assert_eq!(actions(&mut node), [Action::Return(B), Action::Lend(C)], "it is the next one's");
    let mut strict = self::node(Mode::Strict);
    assert!(strict.handle_wish(0, A, B, true));
    assert_eq!(actions(&mut strict), []);
}
