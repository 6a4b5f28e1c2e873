//! Pages that many processes store to at once, of several ranks on each node too: a picture that is drawn by
//! tiles (`programs/tiles.c`) is the same whoever draws what.

use std::path::{Path, PathBuf};

use tutti_tests::{Scratch, has_plugin, program, root, run};

use super::{LIMIT, digest};

fn compile(name: &str, options: &[&str], scratch: &Scratch) -> PathBuf {
    let compiled = scratch.path().join(name);
    let mut command = program("tutticc");
    command.args(["-std=gnu11", "-g", "-O2", "-Wall", "-Wextra", "-Werror"]).args(options);
    command.arg(root().join("tests/dsm/programs/tiles.c")).arg("-o").arg(&compiled);
    run(&mut command, LIMIT).expect_success();
    compiled
}

/// The digest of all frames on so many ranks and nodes; each tile was drawn once in each.
#[track_caller]
fn drawn(compiled: &Path, (ranks, nodes): (u32, u32), environment: &[(&str, &str)]) -> String {
    let mut command = program("mpiexec");
    command.envs(environment.iter().copied());
    command.args(["-n", &ranks.to_string(), "--virtual-nodes", &nodes.to_string()]).arg(compiled);
    let ran = run(command.arg(ranks.to_string()), LIMIT).expect_success();
    assert!(ran.stdout.starts_with("tiles: 0 wrong: "), "{ranks} on {nodes}: {ran}");
    digest(ran)
}

#[test]
fn dsm_pages_that_several_ranks_of_each_node_store_to_hold_the_stores_of_all() {
    let scratch = Scratch::new("dsm-tiles");
    let mut ways = vec![("twin", vec!["--dsm=twin"]), ("variables", vec!["--globals=shared", "-DVARIABLES"])];
    if has_plugin() {
        ways.extend([("adsm", vec!["--dsm=adsm"]), ("udsm", vec!["--dsm=udsm"])]);
    }
    let mut alone = None;
    for (name, options) in ways {
        let compiled = compile(name, &options, &scratch);
        let alone = alone.get_or_insert_with(|| drawn(&compiled, (1, 1), &[]));
        for (ranks, nodes) in [(3, 1), (2, 2), (4, 2), (7, 3)] {
            assert_eq!(drawn(&compiled, (ranks, nodes), &[]), *alone, "{name}: {ranks} on {nodes}");
        }
        // Not in a checked job: eight bytes of a picture may look like an address.
        let environment = ("TUTTI_DSM_BACKEND", "mprotect");
        assert_eq!(drawn(&compiled, (4, 2), &[environment]), *alone, "{name}: {environment:?}");
    }
}

#[test]
fn dsm_pages_that_several_ranks_store_to_are_right_though_datagrams_are_lost() {
    let scratch = Scratch::new("dsm-tiles-lost");
    let compiled = compile("lost", &["--dsm=twin"], &scratch);
    let library = tutti_tests::testing_library();
    let library = library.to_str().expect("a path in UTF-8");
    let faults = [("LD_PRELOAD", library), ("TUTTI_FAULTS", "loss=1%,dup=1%,reorder=1%")];
    assert_eq!(drawn(&compiled, (4, 2), &faults), drawn(&compiled, (1, 1), &[]));
}
