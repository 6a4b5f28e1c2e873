use serde_json::json;
use tutti_testkit::random::Random;

use super::*;

fn job(number: u64, uid: u32, state: JobState, turns: u64) -> JobRow {
    let value = json!({
        "job": number, "uid": uid, "state": state, "ranks": 2, "nodes": [], "command": "x",
        "submitted_ms": 1, "started_ms": null, "ended_ms": null, "status": null, "weight": 100,
        "exclusive": false, "memory_bytes": 0, "gang": true, "turns": turns, "waits": null, "pids": [],
    });
    serde_json::from_value(value).expect("a row")
}

fn node(number: u32, ranks: u64) -> NodeRow {
    let value = json!({ "node": number, "name": format!("n{number}"), "alive": true, "slots": 4,
        "ranks": ranks, "parent": null, "address": "127.0.0.1" });
    serde_json::from_value(value).expect("a node")
}

/// All that there is, as the controller would list it.
#[derive(Debug, Default)]
struct World {
    jobs: BTreeMap<JobId, JobRow>,
    places: BTreeMap<JobId, Place>,
    nodes: BTreeMap<NodeId, NodeRow>,
    prices: Prices,
    last_job: u64,
}

const STATES: [JobState; 3] = [JobState::Waiting, JobState::Running, JobState::Suspended];

impl World {
    fn change(&mut self, random: &mut Random) {
        let numbers: Vec<JobId> = self.jobs.keys().copied().collect();
        match (random.below(8), random.pick(&numbers)) {
            (0..=2, _) => {
                self.last_job += 1;
                let row = job(self.last_job, random.below(3) as u32, JobState::Waiting, 0);
                self.jobs.insert(row.job, row);
            }
            (3, Some(number)) => {
                self.jobs.remove(&number);
                self.places.remove(&number);
            }
            (4, Some(number)) => {
                let row = self.jobs.get_mut(&number).expect("it is there");
                row.state = STATES[random.below(3) as usize];
            }
            (5, Some(job)) => {
                let (served_ms, rows) = (random.below(4), vec![random.below(3) as u32]);
                self.places.insert(job, Place { job, served_ms, rows, ..Place::default() });
            }
            (6, _) => {
                let (number, ranks) = (random.below(4) as u32, random.below(3));
                if ranks == 0 {
                    self.nodes.remove(&NodeId(number));
                } else {
                    self.nodes.insert(NodeId(number), node(number, ranks));
                }
            }
            _ => self.prices.half_life_ms = random.below(3),
        }
    }

    fn digest_of(&self, key: Key) -> Option<u64> {
        match key {
            Key::Job(job) => self.jobs.get(&job).map(digest),
            Key::Place(job) => self.places.get(&job).map(digest),
            Key::Node(node) => self.nodes.get(&node).map(digest),
            Key::Prices => Some(digest(&self.prices)),
            Key::Settings => Some(0),
        }
    }

    fn keys(&self) -> Vec<Key> {
        let jobs = self.jobs.keys().map(|job| Key::Job(*job));
        let places = self.places.keys().map(|job| Key::Place(*job));
        let nodes = self.nodes.keys().map(|node| Key::Node(*node));
        jobs.chain(places).chain(nodes).chain([Key::Prices]).collect()
    }

    fn refresh(&self, ledger: &mut Ledger) {
        ledger.replace(self.keys().into_iter().map(|key| (key, self.digest_of(key).expect("it is there"))));
    }

    /// Answer as the controller makes it.
    fn answer(&self, ledger: &mut Ledger, watch: &Watch) -> Changes {
        let handed = Handed::new(ledger, watch, |key| self.digest_of(key));
        let mut items = Items::default();
        let mut gone = Vec::new();
        for key in handed.keys() {
            match key {
                Key::Job(job) if watch.selection.takes(&self.jobs[&job]) => {
                    items.jobs.push(self.jobs[&job].clone());
                }
                Key::Job(_) => gone.push(key),
                Key::Place(job) => items.places.push(self.places[&job].clone()),
                Key::Node(node) => items.nodes.push(self.nodes[&node].clone()),
                Key::Prices => items.prices = Some(Box::new(self.prices.clone())),
                Key::Settings => {}
            }
        }
        handed.changes(ledger, items, gone)
    }

    fn assert_is(&self, picture: &Picture, selection: &Selection) {
        let jobs: Vec<&JobRow> = self.jobs.values().filter(|row| selection.takes(row)).collect();
        assert_eq!(picture.jobs().collect::<Vec<_>>(), jobs);
        if selection.has(Part::Nodes) {
            assert_eq!(picture.nodes().collect::<Vec<_>>(), self.nodes.values().collect::<Vec<_>>());
        }
        if selection.has(Part::Places) {
            let places = self.places.values().cloned().collect();
            assert_eq!(picture.prices(), Prices { places, ..self.prices.clone() });
        }
    }
}

/// A reader, with answers that are on their way to it.
#[derive(Debug, Default)]
struct Reader {
    picture: Picture,
    selection: Selection,
    answers: VecDeque<Changes>,
}

impl Reader {
    fn question(&self) -> Watch {
        Watch { since: self.picture.since(), selection: self.selection.clone() }
    }
}

fn readers() -> Vec<Reader> {
    let selections = [
        Selection::default(),
        Selection { uids: vec![1], ..Selection::default() },
        Selection { states: vec![JobState::Running], parts: vec![Part::Jobs], ..Selection::default() },
        Selection { parts: vec![Part::Jobs, Part::Nodes], ..Selection::default() },
    ];
    selections.map(|selection| Reader { selection, ..Reader::default() }).into_iter().collect()
}

#[test]
fn watch_picture_is_the_list_after_any_changes_and_drops() {
    let seed = tutti_testkit::random::seed();
    for run in 0..200 {
        let mut random = Random::new(tutti_testkit::random::mix(seed ^ run));
        let (mut world, mut ledger, mut readers) = (World::default(), Ledger::new(1), readers());
        for step in 0..300 {
            match random.below(10) {
                0..=4 => world.change(&mut random),
                5 => world.refresh(&mut ledger),
                // A controller that has taken over, or has forgotten.
                6 if random.chance(50) => {
                    ledger = Ledger::new(2 + step);
                    world.refresh(&mut ledger);
                }
                6 if random.chance(50) => ledger.forget(),
                _ => {
                    let reader = &mut readers[random.below(4) as usize];
                    let answer = world.answer(&mut ledger, &reader.question());
                    reader.answers.push_back(answer);
                    match random.below(4) {
                        // Lost on its way.
                        0 => drop(reader.answers.pop_back()),
                        // Late: a newer one was asked for.
                        1 => {}
                        _ => reader.answers.drain(..).for_each(|answer| reader.picture.take(answer)),
                    }
                }
            }
        }
        for reader in &mut readers {
            reader.answers.clear();
            // The second one where the first was everything, since a late one had been taken.
            for _ in 0..2 {
                world.refresh(&mut ledger);
                reader.picture.take(world.answer(&mut ledger, &reader.question()));
            }
            world.assert_is(&reader.picture, &reader.selection);
            let quiet = world.answer(&mut ledger, &reader.question());
            assert!(quiet.is_empty(), "seed {seed}, run {run}: {quiet:?}");
        }
    }
}

#[test]
fn watch_reader_that_was_away_gets_the_number_of_missed_states() {
    let (mut world, mut ledger) = (World::default(), Ledger::new(7));
    let mut reader = Reader::default();
    world.jobs.insert(JobId(1), job(1, 1, JobState::Running, 1));
    world.refresh(&mut ledger);
    let first = world.answer(&mut ledger, &reader.question());
    assert_eq!((first.since, first.missed), (None, 0));
    reader.picture.take(first);
    for turns in 2..=6 {
        world.jobs.insert(JobId(1), job(1, 1, JobState::Running, turns));
        world.refresh(&mut ledger);
    }
    let late = world.answer(&mut ledger, &reader.question());
    assert_eq!((late.since.is_some(), late.missed, late.items.jobs.len()), (true, 4, 1));
    ledger.forget();
    let late = world.answer(&mut ledger, &reader.question());
    assert_eq!((late.since, late.missed), (None, 4), "it gets everything");
}

#[test]
fn watch_ledger_remembers_a_bounded_number_of_items_that_have_gone() {
    let mut ledger = Ledger::new(1);
    let key = |number: usize| Key::Job(JobId(number as u64));
    ledger.replace((0..3 * GONE_MAX).map(|number| (key(number), 1)));
    let seen = ledger.at();
    ledger.replace((0..2 * GONE_MAX + 1).map(|number| (key(number), 1)));
    assert_eq!(ledger.delta(Some(seen)).gone.len(), GONE_MAX - 1);
    ledger.replace([]);
    assert_eq!(ledger.gone.len(), GONE_MAX);
    let delta = ledger.delta(Some(seen));
    assert_eq!((delta.since, delta.changed.len(), delta.gone.len()), (None, 0, 0), "all is forgotten");
}

#[test]
fn watch_question_of_a_later_release_is_understood() {
    let text = r#"{"since": null, "selection": {"parts": ["Jobs"], "colour": 7}, "pace": 3}"#;
    let watch: Watch = serde_json::from_str(text).expect("a question");
    assert_eq!(watch.selection.parts, [Part::Jobs]);
    assert!(watch.selection.is_bounded());
    let many = Selection { uids: vec![1; SELECTED_MAX + 1], ..Selection::default() };
    assert!(!many.is_bounded());
}
