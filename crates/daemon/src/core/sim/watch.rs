//! Readers that follow jobs and nodes, in the simulated cluster: links break, daemons die, the controller is
//! replaced, answers get lost. Afterwards each has what the controller lists.

use tutti_protocol::users::watch::{Picture, Selection, Watch};

use super::world::World;
use super::{ALL, NONE, seeds};
use crate::message::{Batch, JobRow, JobState, NodeRow, Request};

/// A reader that has no answer for so long asks again.
const PATIENCE_MS: u64 = 15_000;

/// A reader at a node.
#[derive(Debug, Default)]
struct Reader {
    node: usize,
    selection: Selection,
    picture: Picture,
    /// Program of the reader that has asked, and since when.
    asked: Option<(usize, u64)>,
    answers: u64,
}

impl Reader {
    /// Takes an answer that has come, and asks the next question.
    fn step(&mut self, world: &mut World) {
        if let Some((client, since_ms)) = self.asked {
            let is_over = world.is_finished(client) || world.now_ms > since_ms + PATIENCE_MS;
            if !is_over {
                return;
            }
            if let Some(changes) = world.take_changes(client) {
                self.picture.take(changes);
                self.answers += 1;
            }
            self.asked = None;
        }
        if world.has_daemon(self.node) {
            let watch = Watch { since: self.picture.since(), selection: self.selection.clone() };
            let client = world.user_requests(self.node, Request::Watch(Box::new(watch)));
            self.asked = Some((client, world.now_ms));
        }
    }
}

fn readers(nodes: usize) -> Vec<Reader> {
    let waiting = Selection { states: vec![JobState::Waiting], ..Selection::default() };
    let reader = |node: usize, selection| Reader { node: node % nodes, selection, ..Reader::default() };
    vec![reader(0, Selection::default()), reader(1, waiting), reader(2, Selection::default())]
}

fn run(seed: u64, has_faults: bool) {
    let faults = if has_faults { ALL } else { NONE };
    let mut world = World::new(seed, 4, 2);
    world.run_until(3_000);
    let mut readers = readers(4);
    for step in 0..40_u64 {
        world.user_does_something();
        let is_time = |thousandths: u64| tutti_testkit::random::mix(seed ^ step << 20) % 100 < thousandths;
        if is_time(faults.breaks) {
            world.break_a_link();
        }
        if is_time(faults.deaths) {
            world.kill_a_daemon(faults.controller_dies);
        }
        world.run_until(world.now_ms + 100 + seed * step % 300);
        readers.iter_mut().for_each(|reader| reader.step(&mut world));
    }
    world.make_peace();
    world.run_until(world.now_ms + 10_000);
    // Jobs that stay: they are held.
    for node in [1, 2] {
        let mut batch = Batch::default();
        batch.rules_mut().held = true;
        world.submit_on(node, &[3], batch);
    }
    for _ in 0..60 {
        world.resume_all();
        world.run_until(world.now_ms + 3_000);
        readers.iter_mut().for_each(|reader| reader.step(&mut world));
    }
    let (jobs, nodes) = listed(&mut world);
    assert!(!jobs.is_empty(), "TUTTI_SIM_SEED={seed}: {jobs:?}");
    for reader in &readers {
        let shown: Vec<JobRow> = reader.picture.jobs().cloned().collect();
        let expected: Vec<JobRow> = jobs.iter().filter(|row| reader.selection.takes(row)).cloned().collect();
        assert_eq!(shown, expected, "TUTTI_SIM_SEED={seed}: {reader:?}");
        let shown: Vec<NodeRow> = reader.picture.nodes().cloned().collect();
        assert_eq!(shown, nodes, "TUTTI_SIM_SEED={seed}");
        assert!(reader.answers > 30, "TUTTI_SIM_SEED={seed}: {} answers", reader.answers);
    }
}

/// Jobs and nodes as the controller lists them.
fn listed(world: &mut World) -> (Vec<JobRow>, Vec<NodeRow>) {
    let jobs = world.user_requests(0, Request::Jobs { all: false });
    let nodes = world.user_requests(0, Request::Nodes);
    world.run_until(world.now_ms + 3_000);
    let jobs = world.rows(jobs).expect("the jobs are listed").to_vec();
    (jobs, world.nodes(nodes).expect("the nodes are listed").to_vec())
}

#[test]
fn cluster_sim_readers_see_what_the_controller_lists() {
    seeds(6).into_iter().for_each(|seed| run(seed, false));
}

#[test]
fn cluster_sim_readers_see_what_the_controller_lists_despite_faults() {
    seeds(20).into_iter().for_each(|seed| run(seed, true));
}
