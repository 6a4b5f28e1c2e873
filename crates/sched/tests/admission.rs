//! Admission to nodes: exclusive jobs, memory, jobs that take no turns, and the order of those that wait.
//! Under both policies.

use tutti_sched::shares::Owner;
use tutti_sched::{
    Bytes, Config, Demand, Event, Holder, JobId, JobState, NodeId, Place, Policy, Scheduler, Wait, could_hold,
};

const GIB: u64 = 1 << 30;
const POLICIES: [Policy; 2] = [Policy::RoundRobin, Policy::Dqt];

/// `nodes` nodes of 2 slots and 8 GiB; jobs begin as soon as they are placed.
struct Cluster {
    scheduler: Scheduler,
    next_job: u64,
}

impl Cluster {
    fn new(policy: Policy, nodes: u32) -> Self {
        let mut scheduler = Scheduler::new(Config { policy, bypass_max: 4, ..Config::default() }).unwrap();
        (0..nodes).for_each(|node| scheduler.handle_node(0, NodeId(node), 2, 8 * GIB));
        Cluster { scheduler, next_job: 1 }
    }

    fn submit(&mut self, demand: &Demand) -> JobId {
        let job = self.number();
        self.scheduler.submit(0, job, demand).unwrap();
        self.begin_placed();
        job
    }

    fn number(&mut self) -> JobId {
        self.next_job += 1;
        JobId(self.next_job - 1)
    }

    fn begin_placed(&mut self) {
        while let Some(Event::Placed(job, _)) = self.scheduler.poll_event() {
            self.scheduler.begin(0, job);
        }
    }

    fn end(&mut self, job: JobId) {
        self.scheduler.end(0, job);
        self.begin_placed();
    }

    fn waits(&self, job: JobId) -> bool {
        self.scheduler.state(job) == Some(JobState::Waiting)
    }

    fn why(&self, job: JobId) -> String {
        self.scheduler.why_waits(job).expect("it waits").to_string()
    }

    fn nodes(&self, job: JobId) -> Vec<u32> {
        self.scheduler.parts(job).unwrap().iter().map(|part| part.node.0).collect()
    }
}

fn exclusive(nodes: u32) -> Demand {
    Demand { exclusive: true, ..Demand::any(nodes, nodes) }
}

#[test]
fn admission_exclusive_job_waits_for_empty_nodes() {
    for policy in POLICIES {
        let mut cluster = Cluster::new(policy, 2);
        let first = cluster.submit(&Demand::any(2, 2));
        let alone = cluster.submit(&exclusive(2));
        assert_eq!(cluster.why(alone), "it is exclusive and needs 2 nodes without other jobs, 0 are empty");
        // It is passed by no more than four, so it is not starved.
        let later: Vec<_> = (0..6).map(|_| cluster.submit(&Demand::any(1, 1))).collect();
        assert_eq!(later.iter().filter(|job| cluster.waits(**job)).count(), 2, "{policy}");
        assert_eq!(cluster.why(later[5]), "job 2 waits longer, and has been passed often enough");
        cluster.end(first);
        later[..4].iter().for_each(|job| cluster.end(*job));
        assert!(!cluster.waits(alone) && cluster.waits(later[4]) && cluster.waits(later[5]), "{policy}");
        assert_eq!(cluster.why(later[4]), "it needs 1 node, 0 are not taken by an exclusive job (job 2)");
        cluster.scheduler.suspend(0, alone);
        assert!(cluster.waits(later[4]), "its nodes are its own also while it stands still");
        cluster.end(alone);
        assert!(!cluster.waits(later[4]) && !cluster.waits(later[5]), "{policy}");
    }
}

#[test]
fn admission_job_without_enough_live_nodes_blocks_no_other() {
    for policy in POLICIES {
        let mut cluster = Cluster::new(policy, 2);
        let first = cluster.submit(&Demand::any(2, 2));
        let alone = cluster.submit(&exclusive(2));
        for _ in 0..4 {
            cluster.submit(&Demand::at(Place::Given(vec![(NodeId(0), 1)])));
        }
        let behind = cluster.submit(&Demand::any(1, 1));
        assert!(cluster.waits(behind));
        cluster.scheduler.handle_node_lost(0, NodeId(1));
        assert_eq!(cluster.why(alone), "1 is of the 2 nodes that it needs up");
        cluster.end(first);
        assert!(!cluster.waits(behind) && cluster.waits(alone), "{policy}");
        cluster.scheduler.handle_node(0, NodeId(1), 2, 8 * GIB);
        assert!(matches!(
            cluster.scheduler.why_waits(alone),
            Some(Wait::Occupied { requested: 2, there: 1 })
        ));
    }
}

#[test]
fn admission_by_memory() {
    for policy in POLICIES {
        let mut cluster = Cluster::new(policy, 2);
        let needs = |gib: u64, nodes| Demand { memory_bytes: gib * GIB, ..Demand::any(nodes, nodes) };
        let wide = cluster.submit(&needs(5, 2));
        let waits = cluster.submit(&needs(4, 1));
        assert_eq!(
            cluster.why(waits),
            "it needs 4 GiB of memory on 1 node, 0 have so much left (at most 3 GiB)"
        );
        let fits = cluster.submit(&needs(3, 2));
        assert!(!cluster.waits(fits));
        cluster.end(wide);
        assert!(!cluster.waits(waits), "{policy}");
    }
    let nodes = [(NodeId(0), 2, 8 * GIB, 0), (NodeId(2), 2, 4 * GIB, 2)];
    let refused = |demand: &Demand| could_hold(nodes, demand).unwrap_err().to_string();
    assert_eq!(
        refused(&Demand { memory_bytes: 6 * GIB, ..Demand::any(2, 2) }),
        "6 GiB of memory on each of 2 nodes are more than this cluster has for jobs: 1 of its nodes have so much, the largest has 8 GiB"
    );
    let fewest = Demand { memory_bytes: 9 * GIB, ..Demand::at(Place::Fewest { ranks: 2 }) };
    assert!(refused(&fewest).starts_with("9 GiB of memory on one node is more than"), "{}", refused(&fewest));
    assert_eq!(Bytes(9 * GIB).to_string(), "9 GiB");
    assert_eq!(could_hold(nodes, &Demand { memory_bytes: 4 * GIB, ..Demand::any(2, 4) }), Ok(()));
}

#[test]
fn admission_job_without_turns_has_nodes_but_no_row() {
    for policy in POLICIES {
        let mut cluster = Cluster::new(policy, 2);
        let loose = Demand { gang: false, memory_bytes: GIB, ..Demand::any(1, 2) };
        let jobs = [0; 4].map(|_| cluster.submit(&loose));
        let mut nodes: Vec<u32> = jobs.iter().flat_map(|job| cluster.nodes(*job)).collect();
        nodes.sort_unstable();
        assert_eq!(nodes, [0, 0, 1, 1], "{policy}");
        let gang = cluster.submit(&Demand::any(2, 4));
        cluster.scheduler.next_row(0);
        assert_eq!(cluster.scheduler.plan().rows, [vec![gang]]);
        assert_eq!(cluster.scheduler.state(jobs[0]), Some(JobState::Placed));
        let alone = cluster.submit(&exclusive(1));
        assert!(cluster.waits(alone));
        cluster.end(gang);
        let there =
            |cluster: &Cluster, node| jobs.into_iter().filter(|job| cluster.nodes(*job) == [node]).collect();
        let of_last: Vec<JobId> = there(&cluster, 1);
        of_last.into_iter().for_each(|job| cluster.end(job));
        assert_eq!(cluster.nodes(alone), [1], "{policy}");
    }
}

#[test]
fn admission_running_job_is_placed_before_waiting_ones() {
    for policy in POLICIES {
        let mut cluster = Cluster::new(policy, 1);
        let alone = cluster.submit(&exclusive(1));
        let running = cluster.number();
        let here = Demand { oversubscribe: true, ..Demand::at(Place::Given(vec![(NodeId(0), 3)])) };
        cluster.scheduler.submit_running(0, running, &here).unwrap();
        assert!(cluster.waits(running));
        assert_eq!(cluster.scheduler.queue().count(), 0, "it does not wait for nodes");
        let later = cluster.submit(&Demand::any(1, 1));
        cluster.end(alone);
        assert!(!cluster.waits(running) && !cluster.waits(later), "{policy}");
    }
}

#[test]
fn admission_ranks_per_node_fill_all_nodes_but_the_last() {
    for policy in POLICIES {
        let mut cluster = Cluster::new(policy, 3);
        let ranks = |cluster: &Cluster, job| {
            cluster.scheduler.parts(job).unwrap().iter().map(|part| part.ranks).collect::<Vec<_>>()
        };
        let job = cluster.submit(&Demand::at(Place::PerNode { per_node: 2, ranks: 5 }));
        assert_eq!(ranks(&cluster, job), [2, 2, 1], "{policy}");
        let over = Demand { oversubscribe: true, ..Demand::at(Place::PerNode { per_node: 3, ranks: 6 }) };
        let job = cluster.submit(&over);
        assert_eq!(ranks(&cluster, job), [3, 3], "{policy}");
        let all = cluster.submit(&Demand { oversubscribe: true, ..Demand::at(Place::Fewest { ranks: 100 }) });
        assert_eq!(ranks(&cluster, all), [34, 33, 33], "{policy}");
    }
}

#[test]
fn credit_counts_turns_by_weight() {
    for policy in POLICIES {
        let mut cluster = Cluster::new(policy, 1);
        let jobs = [100, 300].map(|weight| cluster.submit(&Demand { weight, ..Demand::any(1, 2) }));
        let (mut now_ns, mut random) = (0_u64, tutti_testkit::Random::new(1));
        while cluster.scheduler.account(jobs[0]).unwrap().turns < 50 {
            let before = cluster.scheduler.running().to_vec();
            if let Some(switch) = cluster.scheduler.next_row(now_ns) {
                for job in before {
                    cluster.scheduler.handle_frozen(now_ns, job, switch.generation);
                }
            }
            // A machine that others keep busy: some slices are much too long.
            let over_ns = [0, 0, 0, 1_000_000_000][random.below(4) as usize];
            now_ns = cluster.scheduler.slice_end_ns().max(now_ns) + over_ns;
        }
        let turns = jobs.map(|job| cluster.scheduler.account(job).unwrap().turns);
        assert!(turns[1].abs_diff(3 * turns[0]) <= turns[0] / 2, "{turns:?}, {policy}");
    }
}

/// A step takes no room: neither does it count as one that passes, nor does it wait behind who was passed
/// often enough and waits for the step's own job.
#[test]
fn admission_step_waits_behind_no_other_job() {
    for policy in POLICIES {
        let mut cluster = Cluster::new(policy, 2);
        let script = cluster.submit(&Demand::any(2, 2));
        let alone = cluster.submit(&exclusive(2));
        let holder = Holder { within: Some(script), ..Holder::default() };
        let step = Demand { holder, ..Demand::at(Place::Given(vec![(NodeId(0), 1)])) };
        for _ in 0..10 {
            let step = cluster.submit(&step);
            assert!(!cluster.waits(step), "{policy}");
            cluster.end(step);
        }
        let later: Vec<_> = (0..6).map(|_| cluster.submit(&Demand::any(1, 1))).collect();
        assert_eq!(later.iter().filter(|job| cluster.waits(**job)).count(), 2, "{policy}");
        let behind = cluster.submit(&step);
        assert!(!cluster.waits(behind) && cluster.waits(alone), "{policy}");
    }
}

/// The same of a user.
fn of(user: u32, demand: Demand) -> Demand {
    let owner = Owner { user, ..Owner::default() };
    Demand { holder: Holder { owner, within: None }, ..demand }
}

fn on(node: u32) -> Demand {
    Demand::at(Place::Given(vec![(NodeId(node), 1)]))
}

/// A user waits for two of four nodes alone: when he has been passed often enough two are kept for him, and
/// all others go on being served on the rest.
#[test]
fn admission_wide_job_holds_up_no_more_nodes_than_it_needs() {
    for policy in POLICIES {
        let mut cluster = Cluster::new(policy, 4);
        let there = [0, 1, 2].map(|node| cluster.submit(&of(1, on(node))));
        let wide = cluster.submit(&of(2, exclusive(2)));
        let second = cluster.submit(&of(2, exclusive(2)));
        for at in 0..40 {
            let job = cluster.submit(&of(3 + at % 2, Demand::any(1, 1)));
            assert!(!cluster.waits(job), "{policy}: the {at}th waits: {}", cluster.why(job));
            assert!(at < 4 || cluster.nodes(job) != [3], "{policy}: a node that is kept");
            cluster.end(job);
        }
        let named = cluster.submit(&of(4, on(3)));
        assert_eq!(cluster.why(named), format!("job {wide} waits longer, and has been passed often enough"));
        assert!(cluster.waits(wide) && cluster.waits(second), "{policy}");
        cluster.end(there[0]);
        assert!(!cluster.waits(wide) && cluster.waits(second), "{policy}");
        assert_eq!(cluster.nodes(wide), [0, 3], "{policy}");
    }
}

/// The one node that is large enough has another job: the others are for whoever comes.
#[test]
fn admission_job_for_one_large_node_holds_up_no_others() {
    let mut cluster = Cluster::new(Policy::RoundRobin, 3);
    cluster.scheduler.handle_node(0, NodeId(3), 64, 8 * GIB);
    let large = Demand::at(Place::Given(vec![(NodeId(3), 64)]));
    let there = cluster.submit(&of(1, Demand { exclusive: true, ..large }));
    let waiting = cluster.submit(&of(2, Demand::any(1, 64)));
    assert!(cluster.waits(waiting));
    for at in 0..20 {
        let job = cluster.submit(&of(3, Demand::any(1, 1)));
        assert!(!cluster.waits(job), "the {at}th waits: {}", cluster.why(job));
        cluster.end(job);
    }
    cluster.end(there);
    assert!(!cluster.waits(waiting));
}

/// A job waits for all nodes. What ends before those who are there, by its time limit, delays it by nothing.
#[test]
fn admission_job_that_ends_in_time_passes_a_job_that_needs_all_nodes() {
    let lasts = |seconds: u64, demand| Demand { time_max_ns: Some(seconds * 1_000_000_000), ..demand };
    for policy in POLICIES {
        let mut cluster = Cluster::new(policy, 2);
        let there = cluster.submit(&of(1, lasts(100, on(0))));
        let wide = cluster.submit(&of(2, exclusive(2)));
        for _ in 0..4 {
            let job = cluster.submit(&of(3, Demand::any(1, 1)));
            cluster.end(job);
        }
        let [short, long, endless] =
            [lasts(100, on(1)), lasts(101, on(1)), on(1)].map(|demand| cluster.submit(&of(3, demand)));
        assert_eq!([short, long, endless].map(|job| cluster.waits(job)), [false, true, true], "{policy}");
        cluster.end(there);
        assert!(cluster.waits(wide), "{policy}");
        cluster.end(short);
        assert!(!cluster.waits(wide) && cluster.waits(long), "{policy}");
    }
}

/// A user whose own jobs keep his wide job waiting cannot stop others with it, for however long.
#[test]
fn admission_job_that_waits_for_its_own_users_jobs_holds_up_those_alone() {
    for policy in POLICIES {
        let mut cluster = Cluster::new(policy, 2);
        let own = cluster.submit(&of(1, on(0)));
        let wide = cluster.submit(&of(1, exclusive(2)));
        for _ in 0..40 {
            let other = cluster.submit(&of(2, Demand::any(2, 2)));
            assert!(!cluster.waits(other), "{policy}");
            cluster.end(other);
        }
        let later = cluster.submit(&of(1, Demand::any(1, 1)));
        assert!(cluster.waits(later) && cluster.waits(wide), "{policy}");
        cluster.end(own);
        assert!(!cluster.waits(wide), "{policy}");
        cluster.end(wide);
        assert!(!cluster.waits(later), "{policy}");
    }
}

/// A new controller finds an exclusive job when it has already given one of its nodes to another: both take
/// turns, and nobody else comes.
#[test]
fn admission_found_exclusive_job_has_its_turns() {
    let found = |demand: Demand| Demand { oversubscribe: true, ..demand }.awaiting_lost();
    let both = Demand::at(Place::Given(vec![(NodeId(0), 2), (NodeId(1), 2)]));
    for policy in POLICIES {
        // An exclusive one has come meanwhile, or one that is not.
        for comes in [on(0), Demand { exclusive: true, ..on(0) }] {
            let mut cluster = Cluster::new(policy, 1);
            let new = cluster.submit(&of(2, comes));
            let alone = found(of(1, Demand { exclusive: true, memory_bytes: 8 * GIB, ..both.clone() }));
            cluster.scheduler.submit_running(0, JobId(50), &alone).unwrap();
            cluster.scheduler.handle_node(0, NodeId(1), 2, GIB);
            cluster.begin_placed();
            assert_eq!(cluster.scheduler.state(JobId(50)), Some(JobState::Active), "{policy}");
            let later = cluster.submit(&of(3, Demand::any(1, 1)));
            assert!(cluster.waits(later), "{policy}");
            let mut had = [0; 2];
            for slice in 0..20 {
                let before = cluster.scheduler.running().to_vec();
                if let Some(switch) = cluster.scheduler.next_row(slice * 100_000_000) {
                    before.into_iter().for_each(|job| {
                        cluster.scheduler.handle_frozen(slice * 100_000_000, job, switch.generation);
                    });
                }
                let runs = |job| u64::from(cluster.scheduler.running().contains(&job));
                had = [had[0] + runs(new), had[1] + runs(JobId(50))];
            }
            assert_eq!(had, [10, 10], "{policy}");
            cluster.end(new);
            assert!(cluster.waits(later), "{policy}");
            cluster.end(JobId(50));
            assert!(!cluster.waits(later), "{policy}");
        }
        // The one that came is suspended meanwhile: when it is resumed it stands in one row.
        let mut cluster = Cluster::new(policy, 1);
        let new = cluster.submit(&of(2, Demand { exclusive: true, ..on(0) }));
        cluster.scheduler.suspend(0, new);
        let alone = found(of(1, Demand { exclusive: true, ..both.clone() }));
        cluster.scheduler.submit_running(0, JobId(50), &alone).unwrap();
        cluster.scheduler.handle_node(0, NodeId(1), 2, GIB);
        cluster.begin_placed();
        cluster.scheduler.resume(0, new);
        cluster.scheduler.next_row(0);
        let rows = &cluster.scheduler.plan().rows;
        let count = |job| rows.iter().filter(|row| row.contains(&job)).count();
        assert_eq!((count(new), count(JobId(50))), (1, 1), "{policy}: {rows:?}");
        // Of two exclusive ones that share a node the other one still keeps it when the first has ended.
        cluster.end(JobId(50));
        let later = cluster.submit(&of(3, on(0)));
        assert!(cluster.waits(later), "{policy}");
        // Before one of its nodes is back the other one is kept for it.
        let mut cluster = Cluster::new(policy, 1);
        let alone = found(Demand { exclusive: true, ..both.clone() });
        cluster.scheduler.submit_running(0, JobId(50), &alone).unwrap();
        let new = cluster.submit(&of(2, Demand::any(1, 1)));
        // When those come back that it waits for is not known.
        let limited = cluster.submit(&of(3, Demand { time_max_ns: Some(1), ..Demand::any(1, 1) }));
        assert!(cluster.waits(new) && cluster.waits(limited), "{policy}");
        cluster.scheduler.handle_node(0, NodeId(1), 2, 8 * GIB);
        cluster.begin_placed();
        assert!(cluster.waits(new) && !cluster.waits(JobId(50)), "{policy}");
        cluster.scheduler.next_row(0);
        assert_eq!(cluster.scheduler.running(), [JobId(50)]);
    }
}
