//! Homes of pages that move to the only rank that writes them.

use std::path::Path;

use tutti_tests::{Ran, Scratch, program, run};

use super::{LIMIT, compile, compile_twin, digest, launch, sum_of};

/// Pages that each rank writes.
const PAGES: u64 = 16;

fn counted(compiled: &Path, (ranks, nodes): (u64, u64), switch: &str, arguments: &[&str]) -> Ran {
    let mut command = program("mpiexec");
    command.env("TUTTI_STATS", "json").env("TUTTI_DSM_MIGRATE", switch);
    command.args(["-n", &ranks.to_string(), "--virtual-nodes", &nodes.to_string()]).arg(compiled);
    run(command.args(arguments), LIMIT).expect_success()
}

fn counts(ran: &Ran) -> [u64; 4] {
    ["homes_moved", "difference_records", "bytes", "records"].map(|name| sum_of(&ran.stderr, name))
}

#[test]
fn dsm_home_of_a_page_moves_to_the_only_rank_that_writes_it() {
    let scratch = Scratch::new("dsm-migration");
    let source = "tests/dsm/programs/migration.c";
    // With notes, where the compiler is there, and without.
    for compiled in [compile_twin(source, &scratch), compile(source, &scratch)] {
        for (ranks, nodes) in [(3, 3), (4, 2)] {
            let [on, off] = ["on", "off"].map(|switch| {
                let ran = counted(&compiled, (ranks, nodes), switch, &[&ranks.to_string()]);
                assert_eq!(ran.stdout, "migration: 0 wrong\n", "{switch}: {ran}");
                counts(&ran)
            });
            println!("{ranks} ranks, {nodes} nodes: homes, differences, bytes, records: {on:?}, off {off:?}");
            assert!(on[0] >= ranks * PAGES && off[0] == 0, "{on:?} {off:?}");
            // Two of twelve rounds go to the first homes, and readers fetch as ever.
            assert!(on[1] * 3 < off[1] && on[2] * 2 < off[2] && on[3] < off[3], "{on:?} {off:?}");
        }
    }
}

#[test]
fn dsm_lu_gives_the_sequential_result_with_homes_that_move() {
    let scratch = Scratch::new("dsm-migration-lu");
    let compiled = compile_twin("examples/shared/lu.c.in", &scratch);
    let alone = digest(launch(&compiled, 1, 1, &["-n384", "-b32", "-p1"]));
    let [on, off] = ["on", "off"].map(|switch| {
        let ran = counted(&compiled, (4, 4), switch, &["-n384", "-b32", "-p4"]);
        let counts = counts(&ran);
        assert_eq!(digest(ran), alone, "{switch}");
        counts
    });
    println!("homes, differences, bytes, records: on {on:?}, off {off:?}");
    assert!(on[0] > 40 && off[0] == 0, "{on:?} {off:?}");
    assert!(on[1] < off[1] && on[2] < off[2], "{on:?} {off:?}");
}
