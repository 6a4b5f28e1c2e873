//! Channels in a strict switch, step by step.

use super::*;
use crate::gang::{Arrival, Timing};
use crate::message::{Order, Plan, Switch};
use crate::types::{Generation, NodeId, Slots, Version};

const A: JobId = JobId(1);
/// A job with this node alone.
const B: JobId = JobId(2);
const WITHIN_NS: u64 = 500_000_000;
const SECOND: Generation = Generation(2);

fn actions(node: &mut NodeSwitch) -> Vec<Action> {
    std::iter::from_fn(|| node.poll_action()).filter(|action| !matches!(action, Action::Forward(_))).collect()
}

fn order(node: &mut NodeSwitch, now_ns: u64, order: Order) -> Vec<Action> {
    node.handle_order(now_ns, &order);
    actions(node)
}

fn to_row(generation: u64, row: u32) -> Order {
    let (version, generation) = (Version(1), Generation(generation));
    Order::Switch(Switch { version, row, generation, at_ns: 0, mode: Mode::Strict, left_ns: 0 })
}

fn reached(job: JobId, stage: Stage) -> Action {
    Action::Reached(job, stage, SECOND)
}

/// A node on which A has just been frozen for a switch to B.
fn node() -> NodeSwitch {
    let timing = Timing { silence_ns: 0, channel_ns: WITHIN_NS, ..Timing::default() };
    let mut node = NodeSwitch::new(NodeId(0), timing, 4);
    node.handle_plan(0, Plan { version: Version(1), rows: vec![vec![A], vec![B]], moved: Vec::new() });
    order(&mut node, 0, to_row(1, 0));
    order(&mut node, 0, Order::Run(A, Generation(1)));
    node.handle_job(0, A, Slots::first(2), false, Arrival::Running);
    node.handle_job(0, B, Slots::first(2), true, Arrival::Frozen);
    actions(&mut node);
    assert_eq!(order(&mut node, 0, to_row(2, 1)), [Action::Freeze(A)]);
    node.handle_change(10, A, JobChange::Frozen);
    node
}

// Paper: S14, S17
#[test]
fn strict_switch_says_frozen_when_channels_are_steady() {
    let mut node = node();
    assert_eq!(actions(&mut node), [Action::TestSteady(A)], "FROZEN is not said yet");
    node.handle_time(WITHIN_NS - 1);
    assert_eq!(actions(&mut node), []);
    assert_eq!(order(&mut node, 20, Order::Save(A, SECOND)), [], "they are not copied before");
    node.handle_change(30, A, JobChange::Steady);
    assert_eq!(actions(&mut node), [reached(A, Stage::Frozen), Action::Save(A)]);
    node.handle_change(30, A, JobChange::Steady);
    assert_eq!(actions(&mut node), [], "it is said once");
    node.handle_change(40, A, JobChange::Saved);
    assert_eq!(actions(&mut node), [reached(A, Stage::Saved)]);
    node.handle_time(9 * WITHIN_NS);
    assert!(!actions(&mut node).contains(&Action::Unanswered(A)), "all was answered");
}

#[test]
fn strict_switch_goes_on_without_an_answer_and_asks_no_more() {
    let mut node = node();
    assert_eq!(actions(&mut node), [Action::TestSteady(A)]);
    assert_eq!(node.poll_timeout(), Some(10 + WITHIN_NS));
    node.handle_time(10 + WITHIN_NS);
    assert_eq!(actions(&mut node), [Action::Unanswered(A), reached(A, Stage::Frozen)]);
    let saved = [Action::Unanswered(A), reached(A, Stage::Saved)];
    assert_eq!(order(&mut node, 0, Order::Save(A, SECOND)), saved, "nobody is asked");
    // The answer comes after all.
    node.handle_change(0, A, JobChange::Steady);
    assert_eq!(actions(&mut node), []);
    order(&mut node, 0, to_row(3, 0));
    let third = Generation(3);
    assert_eq!(order(&mut node, 0, Order::Restore(A, third)), [Action::Restore(A)], "it is asked again");
    let after_ns = 2 * WITHIN_NS;
    node.handle_time(after_ns);
    let restored = Action::Reached(A, Stage::Restored, third);
    assert_eq!(actions(&mut node), [Action::Unanswered(A), restored]);
    assert_eq!(
        order(&mut node, after_ns, Order::Run(A, third)),
        [Action::Thaw(A)],
        "it is not kept for ever"
    );
}

#[test]
fn strict_switch_of_a_job_of_one_node_asks_nothing_about_steady_channels() {
    let mut node = node();
    node.handle_change(20, A, JobChange::Steady);
    order(&mut node, 30, Order::Restore(B, SECOND));
    node.handle_change(30, B, JobChange::Restored);
    assert!(order(&mut node, 30, Order::Run(B, SECOND)).contains(&Action::Thaw(B)));
    assert_eq!(order(&mut node, 40, to_row(3, 0)), [Action::Freeze(B)]);
    node.handle_change(50, B, JobChange::Frozen);
    assert_eq!(actions(&mut node), [Action::Reached(B, Stage::Frozen, Generation(3))]);
}

#[test]
fn job_that_dies_in_its_steady_test_is_not_waited_for() {
    let mut node = node();
    actions(&mut node);
    assert_eq!(order(&mut node, 20, Order::Kill(A)), [Action::Kill(A)]);
    node.handle_time(2 * WITHIN_NS);
    assert_eq!(actions(&mut node), []);
    assert_eq!(node.poll_timeout(), None, "nothing is left to be done");
    node.handle_job_ended(0, A);
    node.handle_change(0, A, JobChange::Steady);
    assert_eq!(actions(&mut node), []);
}

#[test]
fn job_that_is_suspended_in_its_steady_test_is_said_to_be_at_once() {
    let mut node = node();
    actions(&mut node);
    let suspended = Action::Reached(A, Stage::Suspended, Generation(1));
    assert_eq!(order(&mut node, 20, Order::Suspend(A, 1)), std::slice::from_ref(&suspended));
    node.handle_change(30, A, JobChange::Steady);
    assert_eq!(actions(&mut node), [reached(A, Stage::Frozen), suspended]);
}
