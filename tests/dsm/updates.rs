//! Memory whose stores go to all copies at a release, in place of notices that drop them.

use std::path::Path;

use tutti_tests::{Ran, Scratch, program, root, run};

use super::{LIMIT, PROGRAMS, compile, compile_twin, digest, launch, sum_of};

/// A run that counts, where copies of some pages, or of all, are updated or not.
fn counted(compiled: &Path, (ranks, nodes): (u32, u32), which: &str, arguments: &[&str]) -> Ran {
    let mut command = program("mpiexec");
    command.env("TUTTI_STATS", "json").env("TUTTI_DSM_UPDATE", which);
    command.args(["-n", &ranks.to_string(), "--virtual-nodes", &nodes.to_string()]).arg(compiled);
    run(command.args(arguments), LIMIT)
}

// Paper: C18, C22, C23
#[test]
fn dsm_updates_reach_copies_that_no_notice_drops() {
    let scratch = Scratch::new("dsm-updates");
    let source = "tests/dsm/programs/updates.c";
    // With notes, where the compiler is there, and without.
    for compiled in [compile_twin(source, &scratch), compile(source, &scratch)] {
        for (ranks, nodes) in [(2, 1), (3, 3), (4, 2)] {
            let arguments = [ranks.to_string()];
            let [marked, off] = ["marked", "off"].map(|which| {
                let ran = counted(&compiled, (ranks, nodes), which, &[&arguments[0]]).expect_success();
                assert_eq!(ran.stdout, "updates: 0 wrong\n", "{which}: {ran}");
                let names = ["update_records", "updates_taken", "fetched_units", "dropped_units"];
                names.map(|name| sum_of(&ran.stderr, name))
            });
            println!("{ranks} ranks on {nodes} nodes: marked {marked:?}, off {off:?}");
            assert_eq!(off[..2], [0, 0], "no update without the protocol");
            assert_eq!(marked[0], marked[1], "what a home sends a copy takes");
            if nodes > 1 {
                assert!(marked[0] > 0, "{marked:?}");
                // Six pages and a counter, of which each round drops copies; updated ones stay.
                assert!(off[3] > 100 && marked[3] * 2 < off[3], "{marked:?} {off:?}");
            }
        }
    }
}

// Paper: C23
#[test]
fn dsm_programs_give_the_sequential_result_where_all_copies_are_updated() {
    let scratch = Scratch::new("dsm-all-updates");
    for (source, arguments) in PROGRAMS {
        let compiled = compile_twin(source, &scratch);
        let with = |ranks: u32| -> Vec<String> {
            arguments.iter().map(|word| word.replace('%', &ranks.to_string())).collect()
        };
        let words = with(1);
        let alone = digest(launch(&compiled, 1, 1, &words.iter().map(String::as_str).collect::<Vec<_>>()));
        for (ranks, nodes) in [(3, 3), (4, 2)] {
            let words = with(ranks);
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            let ran = counted(&compiled, (ranks, nodes), "all", &words);
            assert!(sum_of(&ran.stderr, "update_records") > 0, "{ran}");
            assert_eq!(sum_of(&ran.stderr, "dropped_units"), 0, "no notice drops a copy: {ran}");
            assert_eq!(digest(ran), alone, "{source} on {ranks} ranks of {nodes} nodes");
        }
    }
}

#[test]
fn dsm_updates_go_on_in_a_job_that_is_checked() {
    let scratch = Scratch::new("dsm-updates-checked");
    let source = "tests/dsm/programs/updates.c";
    // With notes, where the compiler is there, and without.
    for compiled in [compile_twin(source, &scratch), compile(source, &scratch)] {
        for (ranks, nodes, which) in [(3, 3, "marked"), (4, 2, "all")] {
            let mut command = program("mpiexec");
            command.env("TUTTI_DSM_CHECK", "1").env("TUTTI_STATS", "json").env("TUTTI_DSM_UPDATE", which);
            command.args(["-n", &ranks.to_string(), "--virtual-nodes", &nodes.to_string()]);
            let ran = run(command.arg(&compiled).arg(ranks.to_string()), LIMIT).expect_success();
            assert_eq!(ran.stdout, "updates: 0 wrong\n", "{which}: {ran}");
            assert!(sum_of(&ran.stderr, "updates_taken") > 0, "{which}: {ran}");
        }
    }
    let wrong = scratch.path().join("wrong");
    let mut tutticc = program("tutticc");
    tutticc.args(["-g", "-O1", "--dsm=twin"]).arg(root().join("tests/dsm/programs/wrong.c"));
    run(tutticc.arg("-o").arg(&wrong), LIMIT).expect_success();
    let mut command = program("mpiexec");
    command.env("TUTTI_DSM_CHECK", "1").env("TUTTI_DSM_UPDATE", "all");
    command.args(["-n", "2", "--virtual-nodes", "2"]).arg(&wrong).arg("race");
    let ran = run(&mut command, LIMIT);
    assert!(!ran.status.success() && ran.stderr.matches("data race: rank ").count() == 1, "{ran}");
}

#[test]
fn dsm_updates_with_a_memory_limit_go_to_copies_that_are_there() {
    let scratch = Scratch::new("dsm-updates-limit");
    let compiled = compile_twin("examples/shared/lu.c.in", &scratch);
    let alone = digest(launch(&compiled, 1, 1, &["-n384", "-b16", "-p1"]));
    let mut command = program("mpiexec");
    command.env("TUTTI_DSM_COPIES", "256K").env("TUTTI_DSM_UPDATE", "all").env("TUTTI_STATS", "json");
    command.args(["-n", "2", "--virtual-nodes", "2"]).arg(&compiled).args(["-n384", "-b16", "-p2"]);
    let ran = run(&mut command, LIMIT);
    assert!(sum_of(&ran.stderr, "evicted_units") > 0, "{ran}");
    assert_eq!(digest(ran), alone);
}

// Paper: C22
#[test]
fn dsm_report_counts_what_homes_send_to_copies() {
    let scratch = Scratch::new("dsm-updates-report");
    let compiled = compile_twin("tests/dsm/programs/updates.c", &scratch);
    let reported = |which: &str| {
        let mut command = program("mpiexec");
        command.env("TUTTI_DSM_REPORT", scratch.path()).env("TUTTI_DSM_UPDATE", which);
        command.args(["-n", "2", "--virtual-nodes", "2"]).arg(&compiled).arg("2");
        run(&mut command, LIMIT).expect_success();
        let report = run(program("tutti").args(["dsm-report", "--json"]).arg(scratch.path()), LIMIT);
        let report: serde_json::Value =
            serde_json::from_str(&report.expect_success().stdout).expect("a report");
        ["records", "bytes", "taken"].map(|name| report["updates"][name].as_u64().expect("a count"))
    };
    let [records, bytes, taken] = reported("marked");
    // In each of twelve rounds but the first a home sends a byte with its place for each of its own words.
    assert!(records >= 11 && bytes > 11 * 2 * 1024 && records == taken, "{records}, {bytes}, {taken}");
    assert_eq!(reported("off"), [0; 3]);
}

#[test]
fn dsm_update_of_another_word_ends_with_a_line() {
    let scratch = Scratch::new("dsm-updates-word");
    let compiled = compile("examples/shared/sor.c", &scratch);
    let ran = counted(&compiled, (2, 2), "most", &[]);
    let expected = "TUTTI_DSM_UPDATE=most is none of off, marked and all";
    assert!(!ran.status.success() && ran.stderr.matches(expected).count() == 1, "{ran}");
}
