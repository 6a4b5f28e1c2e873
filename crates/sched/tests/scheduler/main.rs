//! The scheduler by itself: every FROZEN comes at once, time goes on by slices.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tutti_sched::{
    Config, ConfigError, Demand, Event, JobId, JobState, NodeId, Place, Plan, Policy, Scheduler, Slots,
    SubmitError, Switch, Window,
};

const SLICE_NS: u64 = 100_000_000;

/// A scheduler with its time; jobs begin as soon as they are placed.
struct Bench {
    scheduler: Scheduler,
    now_ns: u64,
    switches: Vec<Switch>,
    next_job: u64,
}

impl Bench {
    fn new(nodes: u32, slots: u32, config: Config) -> Self {
        let mut scheduler = Scheduler::new(config).unwrap();
        for node in 0..nodes {
            scheduler.handle_node(0, NodeId(node), slots, 1000);
        }
        Bench { scheduler, now_ns: 0, switches: Vec::new(), next_job: 1 }
    }

    fn plain(nodes: u32, slots: u32) -> Self {
        Bench::new(nodes, slots, Config::default())
    }

    fn submit(&mut self, demand: &Demand) -> JobId {
        self.try_submit(demand).unwrap()
    }

    fn try_submit(&mut self, demand: &Demand) -> Result<JobId, SubmitError> {
        let job = JobId(self.next_job);
        self.next_job += 1;
        self.scheduler.submit(self.now_ns, job, demand)?;
        self.begin_placed();
        Ok(job)
    }

    fn begin_placed(&mut self) {
        while let Some(Event::Placed(job, _)) = self.scheduler.poll_event() {
            self.scheduler.begin(self.now_ns, job);
        }
    }

    fn end(&mut self, job: JobId) {
        self.scheduler.end(self.now_ns, job);
        self.begin_placed();
    }

    /// Switches what is due, and has it frozen at once.
    fn turn(&mut self) {
        for _ in 0..3 {
            let before = self.scheduler.running().to_vec();
            let Some(switch) = self.scheduler.next_row(self.now_ns) else { break };
            let plan = self.scheduler.plan();
            assert_eq!(plan.version, switch.version, "the plan in force has the row");
            let row = plan.rows.get(switch.row as usize).cloned().unwrap_or_default();
            assert_eq!(row, self.scheduler.running());
            self.switches.push(switch);
            for job in before {
                if !self.scheduler.running().contains(&job) {
                    self.scheduler.handle_frozen(self.now_ns, job, switch.generation);
                }
            }
        }
    }

    fn run(&mut self, slices: u64) {
        for _ in 0..slices {
            self.turn();
            self.now_ns += SLICE_NS;
        }
        self.turn();
    }

    fn service(&self, job: JobId) -> u64 {
        self.scheduler.account(job).unwrap().service_ns
    }

    fn plan(&mut self) -> Plan {
        self.turn();
        self.scheduler.plan()
    }

    fn nodes(&self, job: JobId) -> Vec<u32> {
        let mut nodes: Vec<_> = self.scheduler.parts(job).unwrap().iter().map(|part| part.node.0).collect();
        nodes.sort_unstable();
        nodes
    }

    /// What must hold of every plan.
    fn check(&mut self) {
        let plan = self.plan();
        for row in &plan.rows {
            let mut taken: BTreeMap<NodeId, Slots> = BTreeMap::new();
            for &job in row {
                assert_eq!(self.scheduler.state(job), Some(JobState::Active), "{job} in a row");
                for part in self.scheduler.parts(job).unwrap() {
                    let here = taken.entry(part.node).or_default();
                    assert!(here.is_disjoint(&part.slots), "a slot of node {} twice in {row:?}", part.node);
                    *here = here.with(&part.slots);
                }
            }
        }
        for job in self.scheduler.jobs() {
            if self.scheduler.state(job) == Some(JobState::Active) {
                assert!(plan.rows.iter().any(|row| row.contains(&job)), "{job} is in no row of {plan:?}");
            }
        }
    }
}

fn given(parts: &[(u32, u32)]) -> Demand {
    Demand::at(Place::Given(parts.iter().map(|&(node, ranks)| (NodeId(node), ranks)).collect()))
}

#[test]
fn s2_the_scheduler_picks_the_nodes_if_fewer_than_all() {
    let mut bench = Bench::plain(4, 2);
    let job = bench.submit(&Demand::any(3, 5));
    let parts = bench.scheduler.parts(job).unwrap();
    assert_eq!(
        parts.iter().map(|part| (part.ranks, part.slots.count())).collect::<Vec<_>>(),
        [(2, 2), (2, 2), (1, 1)]
    );
    let fewest = bench.submit(&Demand::at(Place::Fewest { ranks: 3 }));
    assert_eq!(bench.nodes(fewest).len(), 2);
    let there = bench.submit(&given(&[(3, 2), (1, 1)]));
    assert_eq!(bench.nodes(there), [1, 3]);
}

#[test]
fn s20_all_ranks_of_a_gang_share_the_slice_in_the_matrix() {
    let mut bench = Bench::plain(2, 2);
    let (a, b) = (bench.submit(&Demand::any(2, 4)), bench.submit(&Demand::any(2, 4)));
    bench.run(10);
    assert_eq!(bench.plan().rows, [vec![a], vec![b]]);
    assert_eq!((bench.service(a), bench.service(b)), (5 * SLICE_NS, 5 * SLICE_NS));
    bench.check();
}

#[test]
fn with_one_row_there_is_no_switch_unless_forced() {
    let mut bench = Bench::plain(2, 2);
    let a = bench.submit(&Demand::any(2, 2));
    let b = bench.submit(&Demand::any(2, 2));
    bench.run(10);
    assert_eq!(bench.switches.len(), 1, "both fit into one row");
    assert_eq!(bench.scheduler.next_at_ns(), None);
    assert_eq!((bench.service(a), bench.service(b)), (10 * SLICE_NS, 10 * SLICE_NS));

    let mut bench = Bench::new(2, 2, Config { force_switch: true, ..Config::default() });
    bench.submit(&Demand::any(2, 2));
    bench.run(10);
    let off = bench.switches.iter().filter(|switch| switch.row == Switch::NOBODY).count();
    assert_eq!((bench.switches.len(), off), (21, 10), "off and on again at the end of each slice");
}

#[test]
fn generations_grow_by_one_and_go_on_after_a_change_of_head() {
    let config = Config { generation: tutti_sched::Generation(41), ..Config::default() };
    let mut bench = Bench::new(1, 1, config);
    bench.submit(&Demand::any(1, 1));
    bench.submit(&Demand::any(1, 1));
    bench.run(5);
    let generations: Vec<_> = bench.switches.iter().map(|switch| switch.generation.0).collect();
    assert_eq!(generations, (42..42 + generations.len() as u64).collect::<Vec<_>>());
}

/// Nodes whose daemons live on know their jobs under the slots of the head before: two of them on one slot would never run together.
#[test]
fn a_head_that_takes_over_says_in_its_plan_on_which_slots_those_run_that_it_found() {
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

#[test]
fn weights_are_shares_of_the_slices() {
    let mut bench = Bench::plain(1, 1);
    let jobs = [100, 300, 600].map(|weight| bench.submit(&Demand { weight, ..Demand::any(1, 1) }));
    bench.run(1000);
    for (job, share) in jobs.into_iter().zip([100, 300, 600]) {
        let slices = bench.service(job) / SLICE_NS;
        assert!(slices.abs_diff(share) <= 2, "{slices} of 1000 slices for a weight of {share}");
    }
    bench.scheduler.set_weight(bench.now_ns, jobs[0], 600).unwrap();
    let before = bench.service(jobs[0]);
    bench.run(1500);
    let slices = (bench.service(jobs[0]) - before) / SLICE_NS;
    assert!(slices.abs_diff(600) <= 2, "{slices} of 1500 slices");
}

#[test]
fn a_job_in_both_rows_runs_through_and_holes_are_filled() {
    let mut bench = Bench::plain(4, 1);
    let wide = bench.submit(&Demand::any(3, 3));
    let other = bench.submit(&Demand::any(3, 3));
    let free = bench.nodes(wide).iter().fold(6, |rest, node| rest - node);
    let small = bench.submit(&given(&[(free, 1)]));
    assert_eq!(bench.nodes(other), bench.nodes(wide), "best fit leaves the same node free");
    bench.run(10);
    assert_eq!(bench.service(small), 10 * SLICE_NS, "it is in both rows");
    assert_eq!(bench.service(wide), 5 * SLICE_NS);
    assert!(bench.plan().rows.iter().all(|row| row.contains(&small)));

    let mut bench = Bench::new(4, 1, Config { fill_holes: false, ..Config::default() });
    bench.submit(&Demand::any(3, 3));
    bench.submit(&Demand::any(3, 3));
    let small = bench.submit(&given(&[(3, 1)]));
    bench.run(10);
    assert_eq!(bench.service(small), 5 * SLICE_NS);
}

#[test]
fn rows_are_unified_when_jobs_end() {
    let mut bench = Bench::plain(1, 4);
    let jobs: Vec<_> = (0..4).map(|_| bench.submit(&Demand::any(1, 2))).collect();
    assert_eq!(bench.plan().rows.len(), 2);
    bench.end(jobs[1]);
    bench.end(jobs[2]);
    let plan = bench.plan();
    assert_eq!(plan.rows, [vec![jobs[0], jobs[3]]], "the two that are left run together");
    assert_eq!(plan.moved.len(), usize::from(!plan.moved.is_empty()));
    bench.check();
}

#[test]
fn a_job_that_is_moved_while_its_slice_is_over_is_bound_at_once() {
    let mut bench = Bench::plain(1, 2);
    // It has its slot, and is being launched.
    bench.scheduler.submit(0, JobId(99), &Demand::any(1, 1)).unwrap();
    bench.scheduler.poll_event();
    let (beside, moved) = (bench.submit(&Demand::any(1, 1)), bench.submit(&Demand::any(1, 1)));
    bench.run(3);
    assert_eq!(bench.scheduler.running(), [beside, moved]);
    bench.now_ns += SLICE_NS;
    bench.end(beside);
    bench.turn();
    let plan = bench.scheduler.plan();
    assert_eq!(plan.moved.iter().map(|moved| moved.job).collect::<Vec<_>>(), [moved]);
    assert_eq!(
        bench.switches.last().map(|switch| switch.version),
        Some(plan.version),
        "nobody waits for the end of the slice that begins now: there may be no later turn"
    );
}

#[test]
fn exclusive_jobs_have_whole_nodes_in_all_rows() {
    let mut bench = Bench::plain(3, 4);
    let exclusive = bench.submit(&Demand { exclusive: true, ..Demand::any(1, 2) });
    let shared: Vec<_> = (0..3).map(|_| bench.submit(&Demand::any(2, 8))).collect();
    bench.run(9);
    assert_eq!(bench.service(exclusive), 9 * SLICE_NS);
    for job in shared {
        assert_eq!(bench.service(job), 3 * SLICE_NS);
        assert!(!bench.nodes(job).contains(&bench.nodes(exclusive)[0]));
    }
    let waits = bench.submit(&Demand { exclusive: true, ..Demand::any(1, 2) });
    assert_eq!(bench.scheduler.state(waits), Some(JobState::Waiting), "no node is empty");
}

#[test]
fn ranks_are_more_than_slots_only_when_asked() {
    let mut bench = Bench::plain(2, 2);
    let refused = bench.try_submit(&Demand::any(2, 8));
    assert_eq!(refused, Err(SubmitError::TooManyRanks { ranks: 4, most: 2 }));
    let job = bench.submit(&Demand { oversubscribe: true, ..Demand::any(2, 8) });
    let parts = bench.scheduler.parts(job).unwrap();
    assert!(parts.iter().all(|part| part.ranks == 4 && part.slots == Slots::first(2)));
}

#[test]
fn suspended_jobs_leave_the_matrix_and_come_back() {
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
fn all_jobs_suspended_is_a_switch_to_nobody() {
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
fn a_job_waits_for_memory_and_suspended_jobs_keep_theirs() {
    let mut bench = Bench::plain(1, 1);
    let needs = |memory_bytes| Demand { memory_bytes, ..Demand::any(1, 1) };
    let (a, b, c) = (bench.submit(&needs(600)), bench.submit(&needs(600)), bench.submit(&needs(300)));
    let states = |bench: &Bench| [a, b, c].map(|job| bench.scheduler.state(job));
    assert_eq!(
        states(&bench),
        [JobState::Active, JobState::Waiting, JobState::Active].map(Some),
        "c passes b"
    );
    bench.scheduler.suspend(0, a);
    assert_eq!(bench.scheduler.state(b), Some(JobState::Waiting));
    bench.end(a);
    assert_eq!(bench.scheduler.state(b), Some(JobState::Active));
    let most = bench.try_submit(&needs(1001));
    assert_eq!(
        most,
        Err(SubmitError::TooMuchMemory { asked_bytes: 1001, nodes: 1, there: 0, most_bytes: 1000 })
    );
    bench.scheduler.handle_memory(c, NodeId(0), 400);
    let d = bench.submit(&needs(1));
    assert_eq!(bench.scheduler.state(d), Some(JobState::Waiting), "what was measured counts");
    bench.scheduler.handle_memory(c, NodeId(0), 100);
    bench.begin_placed();
    assert_eq!(bench.scheduler.state(d), Some(JobState::Active), "what was declared, at least");
}

#[test]
fn a_waiting_job_is_passed_a_bounded_number_of_times() {
    let mut bench = Bench::new(1, 1, Config { bypass_max: 4, ..Config::default() });
    let needs = |memory_bytes| Demand { memory_bytes, ..Demand::any(1, 1) };
    let first = bench.submit(&needs(500));
    let large = bench.submit(&needs(1000));
    let mut small: Vec<_> = (0..10).map(|_| bench.submit(&needs(10))).collect();
    let begun = |bench: &Bench, jobs: &[JobId]| {
        jobs.iter().filter(|&&job| bench.scheduler.state(job) == Some(JobState::Active)).count()
    };
    assert_eq!(begun(&bench, &small), 4);
    bench.end(first);
    for job in small.drain(..4) {
        assert_eq!(bench.scheduler.state(large), Some(JobState::Waiting));
        bench.end(job);
    }
    assert_eq!((bench.scheduler.state(large), begun(&bench, &small)), (Some(JobState::Active), 0));
    bench.end(large);
    assert_eq!(begun(&bench, &small), 6);
}

#[test]
fn the_jobs_of_a_lost_node_are_out_and_the_others_go_on() {
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

#[test]
fn the_jobs_of_an_expelled_node_are_left_out_until_it_is_back() {
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
fn a_job_that_is_not_frozen_is_left_out_and_keeps_its_credit() {
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
fn an_idle_gang_gives_up_its_slice_and_gets_a_look_now_and_then() {
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
fn a_machine_of_idle_jobs_stands_still_until_somebody_wakes() {
    let mut bench = Bench::new(1, 1, Config { look_ns: 0, ..Config::default() });
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
fn a_job_that_fits_beside_those_that_run_runs_at_once() {
    let mut bench = Bench::plain(1, 2);
    let a = bench.submit(&Demand::any(1, 1));
    bench.turn();
    bench.now_ns += 1_000_000;
    let b = bench.submit(&Demand::any(1, 1));
    bench.turn();
    assert_eq!(bench.scheduler.running(), [a, b]);
}

#[test]
fn s24_the_slice_is_a_setting() {
    for (slice_ns, allowed) in
        [(4_999_999, false), (5_000_000, true), (60_000_000_000, true), (3_600_000_000_001, false)]
    {
        let made = Scheduler::new(Config { slice_ns, ..Config::default() });
        assert_eq!(made.err(), (!allowed).then_some(ConfigError::Slice { slice_ns }));
    }
    let mut bench = Bench::new(1, 1, Config { slice_ns: 5_000_000, ..Config::default() });
    bench.submit(&Demand::any(1, 1));
    bench.submit(&Demand::any(1, 1));
    bench.turn();
    assert_eq!(bench.scheduler.next_at_ns(), Some(5_000_000));
}

#[test]
fn w16_schedulers_that_share_a_machine_run_their_jobs_in_their_own_windows_of_the_clock() {
    for count in 2..5 {
        let mut benches: Vec<Bench> = (0..count).map(|_| Bench::plain(1, 2)).collect();
        for (index, bench) in (0..).zip(&mut benches) {
            for _ in 0..2 {
                bench.submit(&Demand::any(1, 2));
            }
            bench.scheduler.set_window(0, Some(Window { index, count }));
        }
        let mut ran = vec![[0; 2]; count as usize];
        for step in 0..u64::from(count) * 40 {
            // Four looks a window.
            let now_ns = step * Window::NS / 4;
            for (index, bench) in benches.iter_mut().enumerate() {
                bench.now_ns = now_ns;
                bench.turn();
                let running = bench.scheduler.running();
                assert_eq!(running.len(), usize::from(step / 4 % u64::from(count) == index as u64), "{step}");
                running.iter().for_each(|job| ran[index][job.0 as usize - 1] += 1);
                let next_ns = bench.scheduler.next_at_ns().unwrap();
                assert!(next_ns > now_ns && next_ns % Window::NS == 0, "{step}: {next_ns}");
            }
        }
        assert_eq!(ran, vec![[20; 2]; count as usize]);
        // Who is alone again has the whole of it.
        let last = &mut benches[1];
        last.scheduler.set_window(last.now_ns, None);
        last.turn();
        assert_eq!(last.scheduler.running().len(), 1);
    }
}

#[test]
fn the_tree_places_jobs_in_the_least_loaded_partition_of_their_size() {
    let mut bench = Bench::new(8, 1, Config { policy: Policy::Dqt, fill_holes: false, ..Config::default() });
    let whole = bench.submit(&Demand::any(8, 8));
    let halves: Vec<_> = (0..2).map(|_| bench.submit(&Demand::any(4, 4))).collect();
    let odd = bench.submit(&Demand::any(3, 3));
    let single = bench.submit(&Demand::any(1, 1));
    assert_eq!(bench.nodes(halves[0]), [0, 1, 2, 3]);
    assert_eq!(bench.nodes(halves[1]), [4, 5, 6, 7]);
    assert_eq!(bench.nodes(odd), [0, 1, 2], "three nodes are of the class of four");
    assert_eq!(bench.nodes(single), [4], "the right half has the shorter cycle");
    let rows = bench.plan().rows;
    assert_eq!(rows, [vec![whole], vec![halves[0], halves[1]], vec![odd, single]]);
    bench.check();
}

#[test]
fn the_shorter_half_of_the_tree_begins_anew_in_the_holes() {
    let mut bench = Bench::new(2, 1, Config { policy: Policy::Dqt, ..Config::default() });
    let left = [(); 3].map(|()| bench.submit(&given(&[(0, 1)])));
    let right = bench.submit(&given(&[(1, 1)]));
    bench.run(30);
    assert_eq!(bench.service(right), 30 * SLICE_NS);
    for job in left {
        assert_eq!(bench.service(job), 10 * SLICE_NS);
    }
}

#[test]
fn bad_demands_are_refused_with_what_was_found() {
    let mut bench = Bench::plain(2, 2);
    let refusals = [
        (Demand::any(0, 1), "a job needs at least one node and one rank"),
        (Demand::any(2, 1), "1 ranks cannot be on 2 nodes"),
        (Demand::any(3, 3), "the job needs 3 nodes; 2 have the slots for it"),
        (Demand { weight: 0, ..Demand::any(1, 1) }, "a weight is 1 to 10000, not 0"),
        (given(&[(5, 1)]), "node 5 is not in the cluster"),
        (given(&[(1, 1), (1, 1)]), "node 1 is given twice"),
    ];
    for (demand, line) in refusals {
        assert_eq!(bench.try_submit(&demand).unwrap_err().to_string(), line);
    }
}

/// What may happen to a scheduler.
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
    fn no_slot_is_used_twice_and_no_job_is_lost(
        policy in prop_oneof![Just(Policy::RoundRobin), Just(Policy::Dqt)],
        fill_holes in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        run_steps(policy, fill_holes, steps);
    }

    #[test]
    fn every_job_gets_its_share_within_a_round(
        policy in prop_oneof![Just(Policy::RoundRobin), Just(Policy::Dqt)],
        demands in proptest::collection::vec((1_u32..9, 50_u32..400), 1..12),
    ) {
        run_shares(policy, &demands);
    }
}
