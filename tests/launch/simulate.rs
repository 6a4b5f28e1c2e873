//! `tutti simulate`: policies on workloads, without a daemon.

use tutti_tests::{LIMIT, Scratch, program, run};

/// Runs it with these words.
fn simulate(words: &[&str]) -> tutti_tests::Ran {
    run(program("tutti").arg("simulate").args(words), LIMIT)
}

fn rows(words: &[&str]) -> Vec<serde_json::Value> {
    let ran = simulate(&[words, &["--json"]].concat()).expect_success();
    let value: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    value["policies"].as_array().expect("a list").clone()
}

/// Made by hand: on four nodes 100 s of three, then 50 s of four, then 90 s and 100 s of one.
const LOG: &str = "; MaxNodes: 4\n1 0 -1 100 3 -1 -1 3 100\n2 1 -1 50 4 -1 -1 4 50\n3 2 -1 90 1 -1 -1 1 90\n\
                   4 3 -1 100 1 -1 -1 1 100\n5 4 -1 100 5 -1 -1 5 100\n6 5 -1 -1 1 -1 -1 1 100\nbroken\n";

#[test]
fn simulate_gives_the_schedule_that_is_made_by_hand() {
    let scratch = Scratch::new("simulate-log");
    let log = scratch.path().join("log.swf");
    std::fs::write(&log, LOG).expect("a file");
    let path = log.to_str().expect("a path");
    let rows = rows(&["--swf", path, "--nodes", "4", "--policy", "fifo,easy,matrix"]);
    let mean = |at: usize| rows[at]["response_mean_s"].as_f64().expect("a number");
    // Ends 100, 150, 240, 250; with backfilling 100, 150, 92, 250; submissions 0, 1, 2, 3.
    assert!((mean(0) - 183.5).abs() < 0.5 && (mean(1) - 146.5).abs() < 0.5, "{rows:?}");
    assert_eq!(rows[2]["jobs"], 4);
    let picture = scratch.path().join("slowdown.svg");
    let out = picture.to_str().expect("a path");
    let text = simulate(&["--swf", path, "--nodes", "4", "-o", out]).expect_success().stdout;
    for line in [
        "1 jobs are wider than 4 nodes and left out",
        "1 lines are left out, the first is line 7: no run time, or a negative one",
        "1 lines are left out, the first is line 8: not all numbers",
        "a switch costs nothing",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(std::fs::read_to_string(picture).expect("a picture").starts_with("<svg"));
}

#[test]
fn simulate_plays_months_of_a_model_and_wrong_words_are_one_line() {
    let rows = rows(&["--lublin", "300", "--nodes", "64"]);
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row["jobs"] == 300), "{rows:?}");
    let slowdown = |at: usize| rows[at]["slowdown_mean"].as_f64().expect("a number");
    assert!(slowdown(1) < slowdown(0), "backfilling helps: {rows:?}");
    let scratch = Scratch::new("simulate-empty");
    let empty = scratch.path().join("empty.swf");
    std::fs::write(&empty, "").expect("a file");
    let path = empty.to_str().expect("a path");
    for (words, text) in [
        (&["--lublin", "5", "--policy", "lifo"][..], "a policy is fifo, easy, matrix, dqt or matrix+fill"),
        (&["--lublin", "5", "--idle", "51"], "51 is not in 0..=50"),
        (&["--lublin", "0"], "0 is not in 1..=1000000"),
        (&["--swf", "/nowhere.swf"], "cannot read /nowhere.swf"),
        (&["--swf", "/"], "cannot read /: it is no file"),
        (&["--swf", path], "there is no job to simulate"),
    ] {
        let ran = simulate(words);
        assert!(ran.code() != 0 && ran.stderr.contains(text), "{ran}");
    }
}

#[test]
fn simulate_with_filling_prints_its_assumptions_and_is_faster() {
    let words = ["--lublin", "300", "--nodes", "64", "--policy", "matrix,matrix+fill"];
    let response = |more: &[&str]| {
        let rows = rows(&[&words, more].concat());
        [0, 1].map(|at: usize| rows[at]["response_mean_s"].as_f64().expect("a number"))
    };
    let [turns, filled] = response(&["--idle", "30"]);
    assert!(filled < turns, "{filled} {turns}");
    // Where nobody leaves anything there is nothing to fill, but for nodes between two rows.
    let [turns, filled] = response(&["--idle", "0"]);
    assert!((turns - filled).abs() < 1.0, "{filled} {turns}");
    let text = simulate(&words).expect_success().stdout;
    for line in ["300 drawn by seed 1 from 0 to 30 %, 0 by their time of processors", "cost nobody anything"]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
}
