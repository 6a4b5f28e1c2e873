//! Properties that hold whatever happens.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tutti_sched::{Config, Demand, JobId, NodeId, Policy};

use crate::{Bench, SLICE_NS, given};

/// Step that may happen to a scheduler.
#[derive(Clone, Debug)]
enum Step {
    Submit { nodes: u32, ranks: u32, weight: u32, memory: u64, exclusive: bool },
    Given { node: u32, ranks: u32 },
    End(usize),
    Suspend(usize),
    Resume(usize),
    Weight(usize, u32),
    Lose(u32),
    Return(u32),
    Expel(u32),
    Back(u32),
    Time(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (1_u32..6, 1_u32..20, 1_u32..1000, 0_u64..400, 0_u32..10).prop_map(|(nodes, ranks, weight, memory, exclusive)| {
            Step::Submit { nodes, ranks, weight, memory, exclusive: exclusive == 0 }
        }),
        2 => (0_u32..9, 1_u32..4).prop_map(|(node, ranks)| Step::Given { node, ranks }),
        4 => (0_usize..20).prop_map(Step::End),
        1 => (0_usize..20).prop_map(Step::Suspend),
        1 => (0_usize..20).prop_map(Step::Resume),
        1 => ((0_usize..20), 1_u32..1000).prop_map(|(job, weight)| Step::Weight(job, weight)),
        1 => (0_u32..9).prop_map(Step::Lose),
        1 => (0_u32..9).prop_map(Step::Return),
        1 => (0_u32..9).prop_map(Step::Expel),
        1 => (0_u32..9).prop_map(Step::Back),
        3 => (1_u64..300_000_000).prop_map(Step::Time),
    ]
}

fn run_steps(policy: Policy, fill_holes: bool, steps: Vec<Step>) {
    let mut bench = Bench::new(9, 3, Config { policy, fill_holes, ..Config::default() });
    let mut expelled = std::collections::BTreeSet::new();
    for step in steps {
        let jobs: Vec<_> = bench.scheduler.jobs().collect();
        let pick = |at: usize| jobs.get(at % jobs.len().max(1)).copied().unwrap_or(JobId(0));
        match step {
            Step::Submit { nodes, ranks, weight, memory, exclusive } => {
                let demand = Demand { weight, exclusive, memory_bytes: memory, ..Demand::any(nodes, ranks) };
                let _refused_or_not = bench.try_submit(&demand);
            }
            Step::Given { node, ranks } => drop(bench.try_submit(&given(&[(node, ranks)]))),
            Step::End(at) => bench.end(pick(at)),
            Step::Suspend(at) => bench.scheduler.suspend(bench.now_ns, pick(at)),
            Step::Resume(at) => bench.scheduler.resume(bench.now_ns, pick(at)),
            Step::Weight(at, weight) => bench.scheduler.set_weight(bench.now_ns, pick(at), weight).unwrap(),
            Step::Lose(node) => {
                for job in bench.scheduler.handle_node_lost(bench.now_ns, NodeId(node)) {
                    bench.end(job);
                }
                expelled.remove(&node);
            }
            Step::Return(node) => bench.scheduler.handle_node(bench.now_ns, NodeId(node), 3, 1000),
            Step::Expel(node) => {
                bench.scheduler.handle_node_expelled(bench.now_ns, NodeId(node));
                expelled.insert(node);
            }
            Step::Back(node) => {
                bench.scheduler.handle_node_back(bench.now_ns, NodeId(node));
                expelled.remove(&node);
            }
            Step::Time(ns) => bench.now_ns += ns,
        }
        bench.begin_placed();
        if expelled.is_empty() {
            bench.check();
        }
        bench.turn();
    }
}

/// With constant jobs, each gets its weight over the sum of the rows' weights, less one round.
fn run_shares(policy: Policy, demands: &[(u32, u32)]) {
    let mut bench = Bench::new(8, 1, Config { policy, ..Config::default() });
    let jobs: Vec<_> = demands
        .iter()
        .map(|&(nodes, weight)| {
            (bench.submit(&Demand { weight, ..Demand::any(nodes, nodes) }), u64::from(weight))
        })
        .collect();
    let weights: BTreeMap<_, _> = jobs.iter().copied().collect();
    let rows = bench.plan().rows;
    let total: u64 = rows.iter().map(|row| row.iter().map(|job| weights[job]).max().unwrap()).sum();
    let least = jobs.iter().map(|job| job.1).min().unwrap();
    let slices = 20 * total.div_ceil(least);
    bench.run(slices);
    for (job, weight) in jobs {
        let due = slices * weight / total;
        let had = bench.service(job) / SLICE_NS;
        let round = rows.len() as u64 + weight.div_ceil(least);
        assert!(
            had + round >= due,
            "{job} of weight {weight} has had {had} of {due} slices; {slices} in all, {rows:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn matrix_uses_no_slot_twice_and_loses_no_job(
        policy in prop_oneof![Just(Policy::RoundRobin), Just(Policy::Dqt)],
        fill_holes in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        run_steps(policy, fill_holes, steps);
    }

    #[test]
    fn matrix_every_job_gets_its_share_within_a_round(
        policy in prop_oneof![Just(Policy::RoundRobin), Just(Policy::Dqt)],
        demands in proptest::collection::vec((1_u32..9, 50_u32..400), 1..12),
    ) {
        run_shares(policy, &demands);
    }
}
