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
    for program in &PROGRAMS {
        for times in program.of_paper {
            assert_eq!(times.len(), program.ranks.len(), "{}", program.name);
        }
    }
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
}
