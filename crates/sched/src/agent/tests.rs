use super::*;
use crate::message::{Plan, Stage, Switch};
use crate::types::{Generation, Version};

const CHILD: NodeId = NodeId(2);

fn outputs(agent: &mut Agent) -> Vec<Output> {
    std::iter::from_fn(|| agent.poll_output()).collect()
}

/// Messages that go down at a switch.
fn turn(number: u64) -> [Down; 2] {
    let (version, generation) = (Version(number), Generation(number));
    let switch = Switch { version, row: 0, generation, at_ns: 0, mode: crate::Mode::Overlapped, left_ns: 0 };
    [Down::Plan(Plan { version, ..Plan::default() }), Down::Order(Order::Switch(switch))]
}

#[test]
fn agent_unknown_child_gets_missed_orders_once_known() {
    let mut agent = Agent::new(NodeId(1), Tree::new(1, 2), Timing::default(), 1_000_000_000, 4);
    turn(1).into_iter().for_each(|down| agent.handle_down(0, down));
    assert_eq!(outputs(&mut agent), []);
    let greeting = |number| {
        let [plan, switch] = turn(number).map(|down| Output::Child(CHILD, down));
        [Output::Welcome(CHILD), plan, switch, Output::Parent(Report::ChildJoined { node: CHILD })]
    };
    agent.handle_child(CHILD);
    assert_eq!(outputs(&mut agent), greeting(1));
    turn(2).into_iter().for_each(|down| agent.handle_down(10, down));
    assert_eq!(outputs(&mut agent), [], "nobody has said that it is a child");
    agent.handle_nodes(20, 3);
    assert_eq!(outputs(&mut agent), greeting(2));
    turn(3).into_iter().for_each(|down| agent.handle_down(30, down));
    assert_eq!(outputs(&mut agent), turn(3).map(|down| Output::Child(CHILD, down)));
    agent.handle_nodes(40, 4);
    assert_eq!(outputs(&mut agent), [], "it is told once");
}

#[test]
fn agent_job_includes_a_node_missing_from_the_list() {
    let (job, slots) = (JobId(1), Slots::first(1));
    let mut agent = Agent::new(NodeId(1), Tree::new(1, 2), Timing::default(), 1_000_000_000, 4);
    agent.handle_child(CHILD);
    outputs(&mut agent);
    agent.handle_job(0, job, &[NodeId(1), CHILD], Some((slots, Arrival::Frozen)));
    let frozen =
        Report::Reached { job, stage: Stage::Frozen, generation: Generation(0), membership: Membership(0) };
    assert!(!outputs(&mut agent).contains(&Output::Parent(frozen)), "nobody has heard of the other part");
    let [_, switch] = turn(1);
    agent.handle_down(0, switch.clone());
    assert!(outputs(&mut agent).contains(&Output::Child(CHILD, switch)), "it is told what it is to do");
    agent.handle_report(0, CHILD, frozen);
    assert_eq!(outputs(&mut agent), [Output::Parent(frozen)]);
}

/// The plan of a switch goes down before it: who comes between the two has to have both.
#[test]
fn agent_child_joining_between_plan_and_switch_gets_both() {
    let mut agent = Agent::new(NodeId(1), Tree::new(1, 3), Timing::default(), 1_000_000_000, 4);
    let [plan, switch] = turn(1);
    agent.handle_down(0, plan.clone());
    outputs(&mut agent);
    agent.handle_child(CHILD);
    assert!(outputs(&mut agent).contains(&Output::Child(CHILD, plan)));
    agent.handle_down(0, switch.clone());
    assert_eq!(outputs(&mut agent), [Output::Child(CHILD, switch)]);
}
