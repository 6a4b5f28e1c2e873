use super::*;

const RIGHT: &str = "\n CG Benchmark Completed.\n Class           =                        S\n Time in seconds =                     0.05\n \
                     Verification    =               SUCCESSFUL\n";

#[test]
fn npb_run_counts_only_if_it_has_verified_itself() {
    let right = outcome(RIGHT, "noise\n{\"ranks\":[]}\n{\"job\":{\"ranks\":2}}\n").expect("it is right");
    assert_eq!((right.seconds, right.counted.expect("counters")["job"]["ranks"].as_u64()), (0.05, Some(2)));
    let wrong = RIGHT.replace("SUCCESSFUL", "UNSUCCESSFUL");
    assert_eq!(outcome(&wrong, ""), Err("it has not verified its result".into()));
    assert_eq!(outcome("", ""), Err("it has not verified its result".into()));
    let timeless = RIGHT.replace("Time in seconds", "Time");
    assert_eq!(outcome(&timeless, ""), Err("no time in its output".into()));
}

#[test]
fn npb_sources_that_are_none_and_classes_that_are_none_are_one_line() {
    let scratch = tutti_testkit::Scratch::new("npb-sources");
    let folder = scratch.path();
    for (source, class, said) in [
        (None, "S", "NPB's programs are not part of this tree"),
        (Some(Path::new("")), "S", "NPB's programs are not part of this tree"),
        (Some(folder), "S", "no sources of NPB 3.4 for MPI"),
    ] {
        let refused = check(source, class).expect_err(said);
        assert!(refused.contains(said) && refused.lines().count() == 1, "{refused}");
    }
    fs::create_dir_all(folder.join("config")).expect("a folder");
    fs::create_dir_all(folder.join("CG")).expect("a folder");
    fs::write(folder.join("CG/cg.f"), "").expect("a file");
    assert_eq!(check(Some(folder), "W"), Ok(folder.to_path_buf()));
    assert_eq!(check(Some(folder), "Z"), Err("--class Z: expected S, W, A or B".into()));
}

#[test]
fn npb_rows_of_the_paper_have_a_time_for_each_number_of_ranks() {
    let of_papers: Vec<_> = PROGRAMS.iter().filter(|program| program.is_of_papers()).collect();
    assert_eq!(of_papers.len(), 7);
    for program in of_papers {
        for times in program.of_papers.iter().flat_map(|of_papers| of_papers.times) {
            assert_eq!(times.len(), program.ranks("W").len(), "{}", program.name);
        }
    }
    let traffic = PROGRAMS.iter().find(|program| program.name == "DT").expect("data traffic");
    assert_eq!(CLASSES.map(|class| traffic.ranks(class).to_vec()), [[5], [11], [21], [43]]);
}

#[test]
fn npb_rates_are_those_of_the_whole_job() {
    let counted = serde_json::json!({"job": {"bytes_per_s": 2.5e6, "messages_per_s": 40, "written_percent": 53.3,
        "eager_percent": 10, "crossing_percent": 1}});
    let text = rates_table(&[(&PROGRAMS[2], Some((4, counted))), (&PROGRAMS[0], None)]);
    assert!(
        text.contains(
            "| CG | 12.69, 2138, 53.33 | 4 | 2.50 | 40.0 | 53.3 | 10.0 | 1.00 | 11.02 s, 14.59 s |"
        ),
        "{text}"
    );
    assert!(text.contains("| EP | 0, 4, 51.1 | - | - | - | - | - | - | 15.14 s, 16.25 s |"), "{text}");
    let text = rates_table(&[(&PROGRAMS[7], None)]);
    assert!(text.contains("| FT | - | - | - | - | - | - | - | - |"), "{text}");
}

/// Programs of our own in NPB's place (`npb/sources`): one that verifies itself and one that finds that it is
/// wrong. They are built in a folder of the test, with the tree that `make` leaves.
#[test]
fn npb_programs_are_built_run_and_counted_with_and_without_the_write_protocol() {
    if !tutti_testkit::has_command(tutti_testkit::Need::Fortran, "gfortran") {
        return;
    }
    let scratch = tutti_testkit::Scratch::new("npb-built");
    let root = Places::new().root;
    std::os::unix::fs::symlink(root.join("target/dist"), scratch.path().join("dist")).expect("a link");
    let source = scratch.path().join("npb-sources");
    copy(&root.join("bench/src/npb/sources"), &source).expect("a copy");
    // What another MPI has built there before is nothing to us.
    fs::create_dir_all(source.join("bin")).expect("a folder");
    fs::write(source.join("bin/cg.S.x"), "not ours").expect("a file");
    fs::write(source.join("CG/cg.o"), "not ours").expect("a file");
    let places = Places { root, target: scratch.path().to_path_buf() };
    let source = check(Some(&source), "S").expect("they look like NPB's");
    let npb = Npb { places: &places, kinds: &[Kind::Tutti], source, class: "S".into(), rounds: 1 };
    let program = |name| Program { name, ranks: Ranks::Any(&[1, 2]), argument: "", of_papers: None };

    let gradient = program("CG");
    let found = npb.measure(&gradient).expect("it is right");
    let text = npb.table(&gradient, &found);
    let is_root = rustix::process::geteuid().is_root();
    let ways = if is_root { &WAYS[..4] } else { &WAYS[..2] };
    assert_eq!(found.len(), ways.len(), "{text}");
    for ((way, by_ranks), expected) in found.iter().zip(ways) {
        assert_eq!(way.0, expected.0);
        assert_eq!(by_ranks.contains_key(&1), way.3 == Nodes::One, "{text}");
        let two = &by_ranks[&2][0];
        let written = two.counted.as_ref().expect("counters")["job"]["written"].as_u64().expect("a count");
        // Inside a node they are written where each rank has a core.
        match (way.2, way.3) {
            (true, _) => assert_eq!(written, 0, "{}", way.0),
            (false, Nodes::Two) => assert!(written >= 20, "{}: {written}", way.0),
            _ => {}
        }
        assert!(text.contains(&format!("\n| {} | ", way.0)), "{text}");
    }

    let wrong = npb.measure(&program("IS")).expect_err("it is wrong");
    assert_eq!(wrong, "IS.S, 1 ranks, SR, one node: it has not verified its result");
    // The one that was built before does not stand for sources that cannot be built.
    fs::write(npb.source.join("CG/cg.f90"), "this is no program\n").expect("a file");
    let refused = npb.measure(&gradient).expect_err("it is not built");
    assert!(refused.starts_with("CG with Tutti: ") && refused.lines().count() == 1, "{refused}");
}
