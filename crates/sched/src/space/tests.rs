use std::cell::Cell;

use tutti_testkit::{Random, seed};

use super::*;

thread_local! {
    /// Rows in which room for a group has been looked for.
    pub(super) static LOOKS: Cell<u64> = const { Cell::new(0) };
}

/// Rows in which each job stands alone or beside others: nodes of 4 slots.
struct Layout {
    machine: Machine,
    rows: Rows,
    residents: Residents,
}

impl Layout {
    fn new(nodes: u32) -> Self {
        let mut machine = Machine::default();
        (0..nodes).for_each(|node| machine.set(NodeId(node), 4, 1000));
        Layout { machine, rows: Rows::new(0, nodes), residents: Residents::new() }
    }

    /// A job with one rank on each slot, in the first row from `at` on that has room; `shared`: others with
    /// phases may have the slots, too.
    fn put(&mut self, job: u64, at: usize, parts: Vec<(u32, Slots)>, shared: bool) {
        let part =
            |(node, slots): (u32, Slots)| Part { node: NodeId(node), ranks: slots.count(), slots, shared };
        let parts: Vec<Part> = parts.into_iter().map(part).collect();
        let count = self.rows.rows.len();
        let at = (at.min(count)..count).find(|at| self.rows.rows[*at].is_free(&parts)).unwrap_or(count);
        self.rows.put(at, JobId(job), &parts);
        let slots = parts.iter().map(|part| u64::from(part.slots.count())).sum();
        let resident = Resident {
            parts,
            slots,
            weight: 1,
            exclusive: false,
            gang: true,
            fill: false,
            active: true,
            moved: false,
            within: None,
        };
        self.residents.insert(JobId(job), resident);
    }

    fn end(&mut self, job: JobId) {
        let resident = self.residents.remove(&job).expect("it has a place");
        self.rows.remove(job, &resident.parts);
    }

    fn jobs(&self) -> Vec<Vec<JobId>> {
        self.rows.iter().map(|row| row.jobs.clone()).collect()
    }

    fn parts(&self) -> Vec<(JobId, Vec<Part>)> {
        self.residents.iter().map(|(job, resident)| (*job, resident.parts.clone())).collect()
    }

    /// As [`Rows::compact`], with a look at every row for every group.
    fn compact_by_all_rows(&mut self, connected: &Connected) {
        let (rows, residents) = (&mut self.rows.rows, &mut self.residents);
        for from in (1..rows.len()).rev() {
            for group in connected.groups(&rows[from].jobs) {
                let place = |to: usize| Some((to, rows[to].move_all_here(&self.machine, residents, &group)?));
                if let Some((to, moves)) = (0..from).find_map(place) {
                    rows[from].remove_all(residents, &group);
                    rows[to].put_all(&moves);
                    settle(residents, moves);
                }
            }
        }
        rows.retain(|row| !row.jobs.is_empty());
    }
}

#[test]
fn rows_are_compacted_as_by_a_look_at_each() {
    let mut random = Random::new(seed());
    for _ in 0..300 {
        let nodes = 1 + random.below(3) as u32;
        let (mut one, mut other) = (Layout::new(nodes), Layout::new(nodes));
        let mut connected = Connected::default();
        let count = 2 + random.below(30);
        for job in 0..count {
            let first = random.below(nodes.into()) as u32;
            let last = first + random.below((nodes - first).into()) as u32;
            let parts: Vec<(u32, Slots)> = (first..=last)
                .map(|node| {
                    let from = random.below(4) as u32;
                    let until = from + 1 + random.below((4 - from).into()) as u32;
                    (node, Slots::first(until).without(&Slots::first(from)))
                })
                .collect();
            let at = random.below(6) as usize;
            let shared = random.chance(200);
            one.put(job, at, parts.clone(), shared);
            other.put(job, at, parts, shared);
            if random.chance(150) {
                connected.set(JobId(job), JobId(random.below(count)), true);
            }
        }
        for _ in 0..count / 3 {
            let job = *one.residents.keys().nth(random.below(one.residents.len() as u64) as usize).unwrap();
            one.end(job);
            other.end(job);
            one.rows.compact(&one.machine, &mut one.residents, &connected);
            other.compact_by_all_rows(&connected);
            assert_eq!(one.jobs(), other.jobs());
            assert_eq!(one.parts(), other.parts());
        }
    }
}

/// Thousands of jobs, each in a row of its own, of which one ends.
#[test]
fn rows_are_compacted_in_a_look_for_each_job() {
    let mut layout = Layout::new(1);
    let jobs = 2_000;
    (0..jobs).for_each(|job| layout.put(job, job as usize, vec![(0, Slots::first(3))], false));
    assert_eq!(layout.rows.len() as u64, jobs);
    layout.end(JobId(7));
    LOOKS.set(0);
    let connected = Connected::default();
    layout.rows.compact(&layout.machine, &mut layout.residents, &connected);
    let looks = LOOKS.get();
    println!("{looks} looks for {jobs} jobs");
    assert!(looks <= 2 * jobs, "{looks} looks for {jobs} jobs");
}
