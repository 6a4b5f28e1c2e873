//! On which nodes and in which row a job comes, and which demands are refused.

use tutti_sched::phases::Phases;
use tutti_sched::{Config, Demand, Holder, JobId, JobState, NodeId, Place, Policy, Slots, SubmitError};

use crate::{Bench, SLICE_NS, given};

// Paper: S2
#[test]
fn placement_picks_nodes_if_fewer_than_all() {
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
fn placement_exclusive_jobs_have_whole_nodes_in_all_rows() {
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

/// Jobs that share stand in one row, as long as each rank has a serial slot; who does not has a row of its
/// own.
#[test]
fn placement_jobs_with_phases_share_a_row_of_their_own() {
    let mut bench = Bench::new(1, 4, Config { fill_holes: false, ..Config::default() });
    let phases = |phases| Demand { phases: Some(phases), ..Demand::any(1, 1) };
    let hints = phases(Phases::Hints { yield_min_us: 0 });
    let sharing = [1, 2, 3].map(|_| bench.submit(&hints));
    let plain = bench.submit(&Demand::any(1, 1));
    let fourth = bench.submit(&hints);
    let sliced = bench.submit(&phases(Phases::Time));
    let mut rows = bench.plan().rows;
    rows.sort();
    assert_eq!(rows, [sharing.to_vec(), vec![plain], vec![fourth], vec![sliced]]);
    bench.run(8);
    for job in [sharing.as_slice(), &[plain, fourth, sliced]].concat() {
        assert_eq!(bench.service(job), 2 * SLICE_NS, "{job}");
    }
    let slots = |job| bench.scheduler.parts(job).unwrap()[0].slots;
    assert!(sharing.windows(2).all(|pair| slots(pair[0]).is_disjoint(&slots(pair[1]))));
    assert_eq!(slots(sliced).count(), 4);
    let refused = bench.try_submit(&Demand { phases: Some(Phases::Shared), ..Demand::any(1, 4) });
    assert_eq!(refused, Err(SubmitError::PhasesRanks { ranks: 4, most: 3, slots: 4 }));
    bench.end(sharing[0]);
    assert!(bench.plan().rows.contains(&vec![sharing[1], sharing[2], fourth]), "it moves to the free slot");
}

#[test]
fn placement_oversubscribes_only_when_requested() {
    let mut bench = Bench::plain(2, 2);
    let refused = bench.try_submit(&Demand::any(2, 8));
    assert_eq!(refused, Err(SubmitError::TooManyRanks { ranks: 4, most: 2 }));
    let job = bench.submit(&Demand { oversubscribe: true, ..Demand::any(2, 8) });
    let parts = bench.scheduler.parts(job).unwrap();
    assert!(parts.iter().all(|part| part.ranks == 4 && part.slots == Slots::first(2)));
}

#[test]
fn placement_suspended_jobs_keep_their_memory() {
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
        Err(SubmitError::TooMuchMemory { requested_bytes: 1001, nodes: 1, there: 0, most_bytes: 1000 })
    );
    bench.scheduler.handle_memory(c, NodeId(0), 400);
    let d = bench.submit(&needs(1));
    assert_eq!(bench.scheduler.state(d), Some(JobState::Waiting), "what was measured counts");
    bench.scheduler.handle_memory(c, NodeId(0), 100);
    bench.begin_placed();
    assert_eq!(bench.scheduler.state(d), Some(JobState::Active), "what was declared, at least");
}

#[test]
fn placement_waiting_job_is_passed_a_bounded_number_of_times() {
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

// Paper: S2
#[test]
fn dqt_places_jobs_in_the_least_loaded_partition() {
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
fn dqt_shorter_half_restarts_in_the_holes() {
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
fn matrix_unifies_rows_when_jobs_end() {
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
fn placement_moved_job_is_bound_at_once() {
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
fn placement_bad_demand_is_refused() {
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

/// A job and its steps are in the same rows, whoever of them sleeps, and each step has slots of its own.
#[test]
fn step_stands_in_the_rows_of_its_job() {
    for policy in [Policy::RoundRobin, Policy::Dqt] {
        let mut bench = Bench::new(2, 4, Config { policy, ..Config::default() });
        let job = bench.submit(&Demand { memory_bytes: 1000, ..Demand::any(2, 8) });
        let other = bench.submit(&Demand::any(2, 8));
        let within = |parts: &[(u32, u32)]| Demand {
            holder: Holder { within: Some(job), ..Holder::default() },
            ..given(parts)
        };
        let steps = [&[(0, 2), (1, 2)][..], &[(0, 2)], &[(0, 4)]].map(|parts| bench.submit(&within(parts)));
        let slots = |bench: &Bench, step: JobId| bench.scheduler.parts(step).unwrap()[0].slots;
        let [first, second, third] = steps.map(|step| slots(&bench, step));
        assert!(first.is_disjoint(&second), "{first:?} {second:?}");
        assert_eq!(first.with(&second), third, "what has no slots left shares them");
        let rows = bench.plan().rows;
        assert_eq!(rows, [vec![job, steps[0], steps[1], steps[2]], vec![other]]);
        // They share the time as two jobs do.
        bench.run(100);
        let (one, two) = (bench.service(steps[0]), bench.service(other));
        assert!(one.abs_diff(two) <= 2 * SLICE_NS, "{one} {two}");
        assert_eq!(bench.service(job), one);
        // What is suspended with its job comes back with it.
        for id in [job, steps[0], steps[1], steps[2]] {
            bench.scheduler.suspend(bench.now_ns, id);
        }
        assert_eq!(bench.plan().rows, [vec![other]]);
        for id in [job, steps[0], steps[1], steps[2]] {
            bench.scheduler.resume(bench.now_ns, id);
        }
        assert!(bench.plan().rows.contains(&vec![job, steps[0], steps[1], steps[2]]));
        // A step goes where its job goes.
        bench.end(other);
        let rows = bench.plan().rows;
        assert_eq!(rows, [vec![job, steps[0], steps[1], steps[2]]]);
        steps.into_iter().for_each(|step| bench.end(step));
        assert_eq!(bench.plan().rows, [vec![job]]);
        // No room is asked for a step, and there is none without its job.
        let more = bench.submit(&within(&[(1, 1)]));
        bench.end(job);
        assert_eq!(bench.plan().rows, Vec::<Vec<JobId>>::new());
        let orphan = bench.submit(&Demand {
            holder: Holder { within: Some(job), ..Holder::default() },
            ..given(&[(0, 1)])
        });
        assert_eq!(bench.scheduler.state(orphan), Some(JobState::Waiting));
        bench.end(more);
    }
}

/// Jobs that are there stay, with their steps; new ones go elsewhere or wait, and others pass them.
#[test]
fn drained_node_takes_nothing_new_and_keeps_what_it_has() {
    for policy in [Policy::RoundRobin, Policy::Dqt] {
        let mut bench = Bench::new(2, 2, Config { policy, bypass_max: 2, ..Config::default() });
        let old = bench.submit(&given(&[(0, 2)]));
        bench.scheduler.drain(0, &[NodeId(0), NodeId(7)]);
        let state = |bench: &Bench, job| bench.scheduler.state(job);
        let elsewhere = bench.submit(&Demand::any(1, 2));
        assert_eq!(bench.nodes(elsewhere), [1]);
        let named = bench.submit(&given(&[(0, 1)]));
        let wide = bench.submit(&Demand::any(2, 2));
        let why = |bench: &Bench, job| bench.scheduler.why_waits(job).unwrap().to_string();
        assert_eq!(why(&bench, named), "it needs 1 node, 0 are not drained (tutti nodes)");
        assert_eq!(why(&bench, wide), "it needs 2 nodes, 1 is not drained (tutti nodes)");
        // Nobody waits behind those.
        for _ in 0..5 {
            let passes = bench.submit(&Demand::any(1, 1));
            assert_eq!(bench.nodes(passes), [1]);
            bench.end(passes);
        }
        let holder = Holder { within: Some(old), ..Holder::default() };
        let step = bench.submit(&Demand { holder, ..given(&[(0, 1)]) });
        // One that ran under an earlier scheduler has its place too.
        bench.scheduler.submit_running(0, JobId(99), &given(&[(0, 1)])).unwrap();
        bench.begin_placed();
        assert_eq!([old, step, JobId(99)].map(|job| state(&bench, job)), [Some(JobState::Active); 3]);
        bench.run(10);
        assert!(bench.service(old) > 0);
        // It shares the slots of its job, which no other may.
        bench.end(step);
        for job in [old, JobId(99), elsewhere] {
            bench.scheduler.suspend(bench.now_ns, job);
            bench.scheduler.resume(bench.now_ns, job);
            assert_eq!(state(&bench, job), Some(JobState::Active));
        }
        bench.check();
        bench.scheduler.drain(bench.now_ns, &[]);
        bench.begin_placed();
        assert_eq!([named, wide].map(|job| state(&bench, job)), [Some(JobState::Active); 2]);
        bench.check();
    }
}

#[test]
fn step_of_an_exclusive_job_stands_in_all_rows() {
    let mut bench = Bench::plain(2, 2);
    let job = bench.submit(&Demand { exclusive: true, ..given(&[(0, 2)]) });
    let others = [0, 1].map(|_| bench.submit(&given(&[(1, 2)])));
    let step = bench
        .submit(&Demand { holder: Holder { within: Some(job), ..Holder::default() }, ..given(&[(0, 1)]) });
    let expected = others.map(|other| vec![job, other, step]).map(|mut row| {
        row.sort_unstable();
        row
    });
    assert_eq!(bench.plan().rows, expected);
    let outside = bench.submit(&given(&[(0, 1)]));
    assert_eq!(bench.scheduler.state(outside), Some(JobState::Waiting));
}

#[test]
fn placement_more_ranks_than_slots_share_a_node_only_where_none_has_room() {
    for policy in [Policy::RoundRobin, Policy::Dqt] {
        let mut bench = Bench::new(0, 0, Config { policy, ..Config::default() });
        bench.scheduler.handle_node(0, NodeId(0), 8, 1000);
        bench.scheduler.handle_node(0, NodeId(1), 16, 1000);
        let wide = Demand { oversubscribe: true, ..Demand::at(Place::Fewest { ranks: 16 }) };
        let jobs = [0; 3].map(|_| bench.submit(&wide));
        assert_eq!(jobs.map(|job| bench.nodes(job)), [[1]; 3], "{policy}");
        let wider = Demand { oversubscribe: true, ..Demand::any(1, 17) };
        let job = bench.submit(&wider);
        assert_eq!(bench.nodes(job).len(), 1, "{policy}");
    }
}

#[test]
fn placement_fewest_nodes_are_those_that_are_open() {
    let mut bench = Bench::new(0, 0, Config::default());
    for (node, slots) in [(0, 16), (1, 8), (2, 8)] {
        bench.scheduler.handle_node(0, NodeId(node), slots, 1000);
    }
    bench.scheduler.drain(0, &[NodeId(0)]);
    let wide = Demand { oversubscribe: true, ..Demand::at(Place::Fewest { ranks: 16 }) };
    let job = bench.submit(&wide);
    assert_eq!(bench.nodes(job), [1, 2]);
}

#[test]
fn placement_exclusive_job_runs_while_those_in_the_rows_sleep() {
    let mut bench = Bench::plain(2, 1);
    let sleeper = bench.submit(&given(&[(0, 1)]));
    bench.run(2);
    let generation = bench.switches.last().expect("it runs").generation;
    bench.scheduler.handle_idle(bench.now_ns, sleeper, generation);
    bench.run(2);
    let alone = bench.submit(&Demand { exclusive: true, ..given(&[(1, 1)]) });
    bench.run(3);
    assert!(bench.service(alone) > 0, "{:?}", bench.scheduler.running());
    bench.check();
}
