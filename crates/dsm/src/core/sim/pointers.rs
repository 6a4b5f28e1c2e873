//! Pointers to private memory in shared memory are found where a job is checked.

use super::super::unit::{HOME_UNITS, UNIT_BYTES};
use super::program::{Op, Place};
use super::{CHECKED, CODES, PRIVATE, World};

/// Rank 0 stores a word from an address on; then all meet.
fn stores(seed: u64, address: usize, word: u64) -> Result<(), String> {
    let mut world = World::new(4 * seed + CHECKED, None);
    let ranks = world.nodes.len();
    for node in &mut world.nodes {
        node.program = vec![Op::Barrier { barrier: 0, count: ranks as u64 }];
    }
    let bytes = word.to_le_bytes().into_iter().enumerate();
    let script = bytes.map(|(at, value)| Op::Store { place: Place::Fixed(address + at), value });
    let program = &mut world.nodes[0].program;
    *program = script.chain(program.clone()).collect();
    world.run()
}

#[test]
fn dsm_simulation_finds_pointers_to_private_memory() {
    let is_found = |ran: Result<(), String>| ran.is_err_and(|what| what.contains("other processes have"));
    // Codes of all kinds, with updates and without.
    for seed in 0..4 * CODES.len() as u64 {
        // At home with the one that stores, and away.
        for unit in [0, HOME_UNITS] {
            let address = unit as usize * UNIT_BYTES + 72;
            assert!(is_found(stores(seed, address, PRIVATE)), "seed {seed}, unit {unit}");
            assert_eq!(stores(seed, address, PRIVATE - 1), Ok(()), "seed {seed}: another number");
            assert_eq!(stores(seed, address + 4, PRIVATE), Ok(()), "seed {seed}: no place of a pointer");
        }
    }
}
