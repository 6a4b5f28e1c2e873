//! Updates of copies that are not there any more: their number, and what a copy that comes back sees.

use super::super::unit::{HOME_UNITS, UNIT_BYTES};
use super::program::{Op, Place};
use super::{Mutation, World};

/// A program in which all pages are updated, and ranks have room for three copies.
const SEED: u64 = 1;
/// Stores of the home, each behind a barrier, while the copy is not there.
const ROUNDS: u64 = 20;
/// Units that rank 1 loads first: more than it has room for.
const LOADED: usize = 8;

/// A byte of the first unit of the arena, whose home is rank 0.
const STORED: Place = Place::Fixed(40);

/// Seeds of programs that load and store in turns: a wrong one is found by few of them.
const SEEDS: u64 = 20;
/// Steps between seeds of that kind.
const STEP: u64 = 768;

/// In each round rank 0 stores to units of its own, each below a lock. Meanwhile rank 1, which has room for
/// few copies, loads other bytes of them; then it loads what was stored to those that it has.
fn turns(ranks: usize) -> Vec<Vec<Op>> {
    let barrier = || Op::Barrier { barrier: 0, count: ranks as u64 };
    let place = |unit: u64, at: usize| Place::Fixed(unit as usize * UNIT_BYTES + at);
    let mut scripts = vec![Vec::new(); ranks];
    for round in 0..ROUNDS {
        for turn in 0..24 {
            let (unit, value) = (turn * 5 % LOADED as u64, (round * 24 + turn) as u8);
            let store = Op::Store { place: place(unit, 40), value };
            scripts[0].extend([Op::Lock(1), store, Op::Unlock(1)]);
        }
        let loaded: Vec<u64> = (0..24).map(|load| (load * 3 + round) % LOADED as u64).collect();
        scripts[1].extend(loaded.iter().map(|unit| Op::Load { place: place(*unit, 80) }));
        scripts.iter_mut().for_each(|script| script.push(barrier()));
        scripts[1].extend(loaded.iter().rev().take(3).map(|unit| Op::Load { place: place(*unit, 40) }));
        scripts.iter_mut().for_each(|script| script.push(barrier()));
    }
    scripts
}

#[test]
fn dsm_simulation_finds_a_rank_that_leaves_what_it_has_asked_for() {
    let run = |seed: u64, left_out| {
        let mut world = World::new(SEED + STEP * seed, left_out);
        let scripts = turns(world.nodes.len());
        world.nodes.iter_mut().zip(scripts).for_each(|(node, script)| node.program = script);
        world.run()
    };
    (0..SEEDS).for_each(|seed| run(seed, None).unwrap_or_else(|what| panic!("seed {seed}: {what}")));
    let found = (0..SEEDS).find(|seed| run(*seed, Some(Mutation::LeftBehindFetch)).is_err());
    println!("found by seed {found:?}");
    assert!(found.is_some(), "homes may be told late");
}

/// Rank 0, the home, stores to its units and takes that back before it releases. Meanwhile rank 1 loads other
/// bytes of them; then it loads what was taken back.
fn taken_back(ranks: usize) -> Vec<Vec<Op>> {
    let place = |unit: usize, at: usize| Place::Fixed(unit * UNIT_BYTES + at);
    let mut scripts = vec![Vec::new(); ranks];
    for unit in 0..HOME_UNITS as usize {
        let store = |value| Op::Store { place: place(unit, 40), value };
        scripts[0].push(store(1));
        scripts[0].extend((0..40).map(|_| Op::Load { place: place(unit, 40) }));
        scripts[0].push(store(0));
        scripts[1].push(Op::Load { place: place(unit, 80) });
        scripts.iter_mut().for_each(|script| script.push(Op::Barrier { barrier: 0, count: ranks as u64 }));
        scripts[1].push(Op::Load { place: place(unit, 40) });
    }
    scripts
}

#[test]
fn dsm_simulation_finds_a_home_that_answers_with_what_it_takes_back() {
    let run = |seed: u64, left_out| {
        let mut world = World::new(SEED + STEP * seed, left_out);
        let scripts = taken_back(world.nodes.len());
        world.nodes.iter_mut().zip(scripts).for_each(|(node, script)| node.program = script);
        world.run()
    };
    (0..SEEDS).for_each(|seed| run(seed, None).unwrap_or_else(|what| panic!("seed {seed}: {what}")));
    let found = (0..SEEDS).find(|seed| run(*seed, Some(Mutation::UnreleasedSent)).is_err());
    println!("found by seed {found:?}");
    assert!(found.is_some(), "copies may hold what no update changes");
}

/// Rank 0 stores, round by round; rank 1 had a copy before, and has it again behind the last round.
fn scripts(ranks: usize) -> Vec<Vec<Op>> {
    let barrier = || Op::Barrier { barrier: 0, count: ranks as u64 };
    let store = |round: u64| Op::Store { place: STORED, value: 1 + (round % 2) as u8 };
    let mut scripts = vec![Vec::new(); ranks];
    scripts[1].extend((0..LOADED).map(|unit| Op::Load { place: Place::Fixed(unit * UNIT_BYTES) }));
    scripts.iter_mut().for_each(|script| script.push(barrier()));
    for round in 0..ROUNDS {
        scripts[0].push(store(round));
        scripts.iter_mut().for_each(|script| script.push(barrier()));
    }
    scripts[1].push(Op::Load { place: STORED });
    scripts.iter_mut().for_each(|script| script.push(barrier()));
    scripts[0].push(store(ROUNDS));
    scripts.iter_mut().for_each(|script| script.push(barrier()));
    scripts[1].push(Op::Load { place: STORED });
    scripts
}

/// Runs of bytes that came to rank 1 for units that it did not have.
fn unused(left_out: Option<Mutation>) -> u64 {
    let mut world = World::new(SEED, left_out);
    let scripts = scripts(world.nodes.len());
    world.nodes.iter_mut().zip(scripts).for_each(|(node, script)| node.program = script);
    world.run().unwrap_or_else(|what| panic!("{left_out:?}: {what}"));
    let counters = world.nodes[1].member.counters();
    assert!(counters.evicted_units > 0, "the copy made room for others: {counters:?}");
    assert!(counters.updates_taken > 0, "the copy that came back is updated: {counters:?}");
    counters.updates_unused
}

#[test]
fn dsm_simulation_sends_few_updates_to_copies_that_made_room() {
    // One tells the rank that its home updates it; others may be on their way meanwhile.
    let [few, all] = [None, Some(Mutation::AbsentUpdated)].map(unused);
    assert!((1..=4).contains(&few), "{few} updates of a copy that is not there");
    assert!(all >= ROUNDS, "{all}: each round has an update where homes are not told");
}
