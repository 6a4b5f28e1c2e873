//! Fair shares in the rotation: users, not jobs, have the time; nobody starves.

use std::collections::BTreeMap;

use tutti_sched::shares::Owner;
use tutti_sched::{Config, Demand, Event, Holder, JobId, NodeId, Scheduler};

const SLICE_NS: u64 = 100_000_000;
const SECOND: u64 = 1_000_000_000;

struct Cluster {
    scheduler: Scheduler,
    now_ns: u64,
    owners: BTreeMap<JobId, u32>,
    /// When each job ran last, and the longest time that it waited.
    waits: BTreeMap<JobId, (u64, u64)>,
}

impl Cluster {
    fn new(nodes: u32, slots: u32) -> Self {
        let mut scheduler = Scheduler::new(Config::default()).unwrap();
        (0..nodes).for_each(|node| scheduler.handle_node(0, NodeId(node), slots, 0));
        Cluster { scheduler, now_ns: 0, owners: BTreeMap::new(), waits: BTreeMap::new() }
    }

    fn submit(&mut self, user: u32, demand: Demand) -> JobId {
        let job = JobId(self.owners.len() as u64 + 1);
        let owner = Owner { user, ..demand.holder.owner };
        self.scheduler
            .submit(self.now_ns, job, &Demand { holder: Holder { owner, within: None }, ..demand })
            .unwrap();
        self.owners.insert(job, user);
        self.waits.insert(job, (self.now_ns, 0));
        while let Some(Event::Placed(job, _)) = self.scheduler.poll_event() {
            self.scheduler.begin(self.now_ns, job);
        }
        job
    }

    fn run(&mut self, seconds: u64) {
        let end_ns = self.now_ns + seconds * SECOND;
        while self.now_ns < end_ns {
            let before = self.scheduler.running().to_vec();
            if let Some(switch) = self.scheduler.next_row(self.now_ns) {
                before.into_iter().for_each(|job| {
                    self.scheduler.handle_frozen(self.now_ns, job, switch.generation);
                });
            }
            for job in self.scheduler.running() {
                let (last_ns, longest_ns) = self.waits[job];
                let longest_ns = longest_ns.max(self.now_ns - last_ns);
                self.waits.insert(*job, (self.now_ns + SLICE_NS, longest_ns));
            }
            self.now_ns += SLICE_NS;
        }
        // What is still waiting counts too.
        for (last_ns, longest_ns) in self.waits.values_mut() {
            *longest_ns = (*longest_ns).max(self.now_ns.saturating_sub(*last_ns));
        }
    }

    fn served(&self, user: u32) -> u64 {
        let jobs = self.owners.iter().filter(|(_, owner)| **owner == user);
        jobs.map(|(job, _)| self.scheduler.account(*job).unwrap().service_ns).sum()
    }
}

/// In percent of what both have had, times 100.
fn part(cluster: &Cluster, before: [u64; 2], users: [u32; 2]) -> u64 {
    let had = [cluster.served(users[0]) - before[0], cluster.served(users[1]) - before[1]];
    had[0] * 10_000 / (had[0] + had[1])
}

#[test]
fn shares_one_job_against_sixteen_of_another_user_has_half_within_2_percent() {
    for order in [0, 1] {
        let mut cluster = Cluster::new(2, 2);
        for at in 0..17 {
            let user = if at == 16 * order { 1 } else { 2 };
            cluster.submit(user, Demand::any(2, 4));
        }
        cluster.run(600);
        let half = part(&cluster, [0, 0], [1, 2]);
        assert!((4900..=5100).contains(&half), "{half} of 10000");
    }
}

#[test]
fn shares_narrow_jobs_that_run_at_once_count_once() {
    let mut cluster = Cluster::new(1, 2);
    cluster.submit(1, Demand::any(1, 2));
    for _ in 0..16 {
        cluster.submit(2, Demand::any(1, 1));
    }
    cluster.run(600);
    // Of two slots: the wide one has both when it runs, two narrow ones have one each.
    let wide = cluster.served(1) * 2;
    let narrow = cluster.served(2);
    assert!(wide.abs_diff(narrow) * 50 <= wide, "{wide} {narrow}");
}

#[test]
fn shares_who_has_used_much_gets_less_until_it_is_forgotten() {
    let mut cluster = Cluster::new(1, 1);
    cluster.submit(1, Demand::any(1, 1));
    cluster.run(300);
    // Alone he has paid nothing.
    cluster.submit(2, Demand::any(1, 1));
    let before = [cluster.served(1), cluster.served(2)];
    cluster.run(100);
    let half = part(&cluster, before, [1, 2]);
    assert!((4900..=5100).contains(&half), "{half}: alone nobody pays");
    // The first has three shares of four for a while: afterwards he gets less than a half.
    for (job, share) in [(1, 300), (2, 100)] {
        cluster.scheduler.set_owner(JobId(job), Owner { user: job as u32, share, group: None });
    }
    cluster.run(600);
    for job in [1, 2] {
        cluster.scheduler.set_owner(JobId(job), Owner { user: job as u32, ..Owner::default() });
    }
    let before = [cluster.served(1), cluster.served(2)];
    cluster.run(60);
    let soon = part(&cluster, before, [1, 2]);
    assert!((3000..=4500).contains(&soon), "{soon} of 10000");
    cluster.run(6000);
    let before = [cluster.served(1), cluster.served(2)];
    cluster.run(600);
    let late = part(&cluster, before, [1, 2]);
    assert!((4900..=5100).contains(&late), "{late} of 10000");
}

/// Waits of jobs that can run last no more than a little over 30 s, or two rounds.
#[test]
fn shares_let_nobody_starve() {
    for seed in 0..1000_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let (nodes, slots) = (1 + random(4) as u32, 1 + random(4) as u32);
        let mut cluster = Cluster::new(nodes, slots);
        let jobs = 2 + random(20);
        for _ in 0..jobs {
            let user = random(5) as u32;
            let weight = [1, 100, 10_000][random(3) as usize];
            let share = [1, 100, 10_000][random(3) as usize];
            let group = (random(3) == 0).then(|| (random(2) as u32, 1 + random(10_000) as u32));
            let wide = 1 + random(u64::from(nodes)) as u32;
            let ranks = wide * (1 + random(u64::from(slots)) as u32);
            let owner = Owner { user, share, group };
            cluster.submit(
                user,
                Demand { weight, holder: Holder { owner, within: None }, ..Demand::any(wide, ranks) },
            );
        }
        cluster.run(120);
        let longest = cluster.waits.values().map(|(_, longest_ns)| *longest_ns).max().unwrap();
        assert!(longest <= 30 * SECOND + (jobs + 2) * SLICE_NS + SECOND, "seed {seed}: {longest} ns");
    }
}

/// A user who begins a new short job for each that ends has no more than one with a long job.
#[test]
fn shares_many_short_jobs_have_no_more_than_a_long_one() {
    const STEP_NS: u64 = SLICE_NS / 5;
    let mut cluster = Cluster::new(1, 1);
    let long = cluster.submit(1, Demand::any(1, 1));
    let mut short: Vec<JobId> = (0..4).map(|_| cluster.submit(2, Demand::any(1, 1))).collect();
    let mut ended_ns = 0;
    while cluster.now_ns < 120 * SECOND {
        let before = cluster.scheduler.running().to_vec();
        if let Some(switch) = cluster.scheduler.next_row(cluster.now_ns) {
            for job in before {
                cluster.scheduler.handle_frozen(cluster.now_ns, job, switch.generation);
            }
        }
        cluster.now_ns += STEP_NS;
        for job in &mut short {
            let served_ns = cluster.scheduler.account(*job).expect("it is there").service_ns;
            if served_ns >= 3 * STEP_NS {
                ended_ns += served_ns;
                cluster.scheduler.end(cluster.now_ns, *job);
                *job = cluster.submit(2, Demand::any(1, 1));
            }
        }
    }
    let served_ns = cluster.scheduler.account(long).expect("it is there").service_ns;
    let of_thousand = served_ns * 1000 / (served_ns + ended_ns);
    assert!((400..=600).contains(&of_thousand), "{of_thousand} of 1000");
}
