use super::*;

const JOB: JobId = JobId(7);

/// Seven nodes in a binary tree, all with a part of the job.
struct Seven {
    mergers: Vec<Merger>,
    at_controller: Vec<Report>,
    sent: usize,
}

impl Seven {
    fn new() -> Self {
        let nodes: Vec<_> = (0..7).map(NodeId).collect();
        let mergers = nodes.iter().map(|&node| {
            let mut merger = Merger::new(node, Tree::new(2, 7), 1_000_000_000);
            merger.handle_job(0, JOB, &nodes);
            merger
        });
        Seven { mergers: mergers.collect(), at_controller: Vec::new(), sent: 0 }
    }

    /// Carries all reports up.
    fn carry(&mut self) {
        for from in (0..7).rev() {
            while let Some(report) = self.mergers[from].poll_report() {
                match self.mergers[from].tree().parent(NodeId(from as u32)) {
                    Some(parent) => {
                        self.sent += 1;
                        self.mergers[parent.0 as usize].handle_report(0, NodeId(from as u32), report);
                    }
                    None => self.at_controller.push(report),
                }
            }
        }
    }

    fn frozen(&mut self, node: usize, generation: u64) {
        self.mergers[node].handle_own(0, JOB, Stage::Frozen, Generation(generation));
    }

    fn members(&mut self, membership: u64, lost: &[u32], expelled: &[u32]) {
        let ids = |list: &[u32]| list.iter().map(|&node| NodeId(node)).collect();
        let members =
            Members { membership: Membership(membership), lost: ids(lost), expelled: ids(expelled) };
        for node in (0..7).filter(|node| !lost.contains(node)) {
            self.mergers[node as usize].handle_members(0, &members);
        }
    }
}

// Paper: S8
#[test]
fn barrier_reports_are_merged_in_inner_nodes() {
    let mut seven = Seven::new();
    for node in 0..7 {
        assert!(seven.at_controller.is_empty(), "before the last node nothing is complete");
        seven.frozen(node, 3);
        seven.carry();
    }
    assert_eq!(seven.sent, 6, "one report an edge");
    assert_eq!(seven.mergers[0].merged(JOB, Stage::Frozen), Some(Generation(3)));
    assert_eq!(seven.at_controller.len(), 1);
}

#[test]
fn barrier_skipped_generation_completes_with_a_later_one() {
    let mut seven = Seven::new();
    for node in 0..7 {
        seven.frozen(node, if node == 5 { 9 } else { 7 });
    }
    seven.carry();
    assert_eq!(seven.mergers[0].merged(JOB, Stage::Frozen), Some(Generation(7)));
    for node in 0..7 {
        seven.frozen(node, 8);
    }
    seven.carry();
    assert_eq!(seven.mergers[0].merged(JOB, Stage::Frozen), Some(Generation(8)), "9 at node 5 holds for 8");
}

#[test]
fn barrier_is_reevaluated_when_an_inner_node_is_lost() {
    let mut seven = Seven::new();
    for node in [0, 2, 3, 4, 5, 6] {
        seven.frozen(node, 1);
    }
    seven.carry();
    assert_eq!(seven.mergers[0].merged(JOB, Stage::Frozen), None, "node 1 lacks");
    seven.members(1, &[1], &[]);
    seven.carry();
    assert_eq!(seven.mergers[0].merged(JOB, Stage::Frozen), Some(Generation(1)));
}

#[test]
fn barrier_keeps_reports_of_an_early_adopted_child() {
    let mut seven = Seven::new();
    for node in 0..7 {
        seven.frozen(node, 1);
    }
    let members = Members { membership: Membership(1), lost: vec![NodeId(1)], expelled: Vec::new() };
    for node in [3, 4, 2, 5, 6] {
        seven.mergers[node].handle_members(0, &members);
        seven.carry();
    }
    assert_eq!(
        seven.mergers[0].merged(JOB, Stage::Frozen),
        None,
        "the controller does not know of the change yet"
    );
    seven.mergers[0].handle_members(0, &members);
    assert_eq!(seven.mergers[0].merged(JOB, Stage::Frozen), Some(Generation(1)));
}

#[test]
fn barrier_expels_and_names_a_late_child() {
    let mut seven = Seven::new();
    for node in [0, 1, 2, 3, 5, 6] {
        seven.frozen(node, 1);
    }
    seven.carry();
    for now_ns in [900_000_000, 1_050_000_000] {
        for merger in &mut seven.mergers {
            merger.handle_time(now_ns);
        }
        seven.carry();
    }
    assert_eq!(seven.at_controller, [late(4, Stage::Frozen)], "by its parent, not by the grandparent");
    seven.members(1, &[], &[4]);
    seven.carry();
    assert_eq!(seven.mergers[0].merged(JOB, Stage::Frozen), Some(Generation(1)));
    seven.members(2, &[], &[]);
    seven.carry();
    assert_eq!(seven.mergers[0].merged(JOB, Stage::Frozen), None, "it counts again");
}

fn late(node: u32, stage: Stage) -> Report {
    Report::Late { node: NodeId(node), job: JOB, stage }
}

#[test]
fn barrier_names_a_node_stuck_in_save_or_restore() {
    for stage in STEPS {
        let mut seven = Seven::new();
        (0..6).for_each(|node| seven.mergers[node].handle_own(0, JOB, stage, Generation(1)));
        seven.carry();
        assert_eq!(seven.mergers[2].poll_timeout(), Some(1_000_000_000));
        seven.mergers.iter_mut().for_each(|merger| merger.handle_time(1_000_000_000));
        seven.carry();
        assert_eq!(seven.at_controller, [late(6, stage)]);
    }
}

#[test]
fn barrier_names_a_late_controller() {
    let mut seven = Seven::new();
    (1..7).for_each(|node| seven.frozen(node, 1));
    seven.carry();
    seven.mergers[0].handle_time(1_100_000_000);
    seven.carry();
    assert_eq!(seven.at_controller, [late(0, Stage::Frozen)]);
}

/// A controller begins alone, and gives those below it as much time as one that has known them from the
/// beginning.
#[test]
fn barrier_patience_follows_the_size_of_the_tree() {
    let mut seven = Seven::new();
    seven.mergers[0] = Merger::new(NodeId(0), Tree::new(2, 1), 1_000_000_000);
    seven.mergers[0].handle_nodes(0, 7);
    seven.mergers[0].handle_job(0, JOB, &(0..7).map(NodeId).collect::<Vec<_>>());
    [0, 1, 2, 3, 5, 6].iter().for_each(|node| seven.frozen(*node, 1));
    seven.carry();
    seven.mergers.iter_mut().for_each(|merger| merger.handle_time(1_050_000_000));
    seven.carry();
    assert_eq!(seven.at_controller, [late(4, Stage::Frozen)]);
}

#[test]
fn barrier_one_active_part_makes_the_job_active() {
    let mut seven = Seven::new();
    for node in 0..7 {
        seven.mergers[node].handle_own(0, JOB, Stage::Idle, Generation(2));
    }
    seven.carry();
    assert_eq!(seven.at_controller.len(), 1);
    seven.mergers[6].handle_own_woken(JOB);
    seven.carry();
    assert_eq!(seven.at_controller[1], Report::Woken { job: JOB });
    assert_eq!(seven.mergers[0].merged(JOB, Stage::Idle), None);
    seven.mergers[6].handle_own(0, JOB, Stage::Idle, Generation(2));
    seven.carry();
    assert_eq!(seven.mergers[0].merged(JOB, Stage::Idle), Some(Generation(2)));
    assert_eq!(seven.at_controller.len(), 3);
}

#[test]
fn barrier_ignores_an_ended_part() {
    let mut seven = Seven::new();
    seven.mergers[5].handle_own_ended(0, JOB);
    for node in [0, 1, 2, 3, 4, 6] {
        seven.frozen(node, 3);
    }
    seven.carry();
    let frozen = |seven: &Seven| seven.mergers[0].merged(JOB, Stage::Frozen);
    assert_eq!(frozen(&seven), Some(Generation(3)));
    // Nor after a change of the tree.
    seven.members(1, &[], &[]);
    seven.carry();
    assert_eq!(frozen(&seven), Some(Generation(3)));
}

#[test]
fn barrier_keeps_reports_that_precede_the_local_part() {
    let mut seven = Seven::new();
    let nodes: Vec<_> = (0..7).map(NodeId).collect();
    (1..5).for_each(|node| seven.frozen(node, 3));
    [5, 6].iter().for_each(|node| seven.mergers[*node].handle_own_ended(0, JOB));
    seven.carry();
    seven.mergers[0].handle_job(0, JOB, &nodes);
    seven.frozen(0, 3);
    seven.carry();
    assert_eq!(seven.mergers[0].merged(JOB, Stage::Frozen), Some(Generation(3)));
}

#[test]
fn barrier_keeps_reports_of_an_unknown_job() {
    let mut seven = Seven::new();
    let nodes: Vec<_> = (0..7).map(NodeId).collect();
    seven.mergers[1] = Merger::new(NodeId(1), Tree::new(2, 7), 1_000_000_000);
    (0..7).filter(|node| *node != 1).for_each(|node| seven.frozen(node, 3));
    seven.carry();
    // It has heard of others that nobody knows.
    let (stage, generation, membership) = (Stage::Frozen, Generation(1), Membership(0));
    for job in 100..100 + UNKNOWN_MAX as u64 - 1 {
        let report = Report::Reached { job: JobId(job), stage, generation, membership };
        seven.mergers[1].handle_report(0, NodeId(3), report);
    }
    seven.mergers[1].handle_job(0, JOB, &nodes);
    seven.frozen(1, 3);
    seven.carry();
    assert_eq!(seven.mergers[0].merged(JOB, Stage::Frozen), Some(Generation(3)));
    assert!(seven.mergers[1].jobs.len() <= UNKNOWN_MAX);
}

#[test]
fn barrier_ended_part_makes_no_node_late() {
    let mut seven = Seven::new();
    seven.mergers[0].handle_own_ended(0, JOB);
    seven.mergers[3].handle_own_ended(0, JOB);
    seven.carry();
    seven.mergers.iter_mut().for_each(|merger| merger.handle_time(1 << 40));
    seven.carry();
    let late = seven.at_controller.iter().filter(|report| matches!(report, Report::Late { .. }));
    assert_eq!(late.count(), 0);
}

#[test]
fn barrier_includes_a_node_that_joined_later() {
    let nodes: Vec<_> = (0..3).map(NodeId).collect();
    let mut merger = Merger::new(NodeId(0), Tree::new(2, 2), 1_000_000_000);
    merger.handle_job(0, JOB, &nodes);
    let (stage, generation, membership) = (Stage::Frozen, Generation(1), Membership(0));
    let report = Report::Reached { job: JOB, stage, generation, membership };
    merger.handle_report(0, NodeId(1), report);
    merger.handle_nodes(0, 3);
    merger.handle_own(0, JOB, stage, generation);
    assert_eq!(merger.merged(JOB, stage), None, "node 2 has not said so");
    merger.handle_report(0, NodeId(2), report);
    assert_eq!(merger.merged(JOB, stage), Some(generation));
    assert_eq!(merger.children_of(JOB).collect::<Vec<_>>(), [NodeId(1), NodeId(2)]);
}
