//! `tutti trace-op`: D10 and D12 of the checklist.

use serde_json::Value;
use tutti_tests::{Ran, Scratch, program, run};

use super::{LIMIT, compile};

/// Operations asked for; a multiple of the rounds.
const COUNT: u64 = 50;

fn trace(words: &[&str]) -> Ran {
    run(program("tutti").arg("trace-op").args(words).args(["--count", "50"]), LIMIT)
}

/// Attempts on a machine that others use too: one of them is left alone.
const TIMES: u32 = 20;

/// Between nodes a datagram that a busy machine is late to acknowledge is sent again, and its operation
/// counts as incomplete. Measured again until most operations are whole.
#[track_caller]
fn measured(words: &[&str]) -> Vec<Value> {
    for _ in 0..TIMES {
        let ran = trace(&[words, &["--json"]].concat()).expect_success();
        let reports: Vec<Value> =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"));
        let is_inside = |report: &Value| report["place"] == "inside a node";
        let is_whole = |report: &Value| report["operations"].as_u64() > Some(COUNT / 2);
        if reports.iter().all(|report| is_inside(report) || is_whole(report)) {
            return reports;
        }
    }
    panic!("most operations of {words:?} are incomplete in each of {TIMES} measurements");
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn is_same(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1.0 + other.abs() / 1e6
}

/// Every operation has all of its stamps or counts as incomplete, and the parts of the mean one add up to T.
#[track_caller]
fn adds_up(report: &Value) {
    let count = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("no {name}: {report}"));
    let (whole, incomplete) = (count("operations"), count("incomplete"));
    assert_eq!(whole + incomplete, COUNT, "{report}");
    assert!(incomplete == 0 || report["place"] != "inside a node", "{report}");
    let of = |name: &str| number(&report[name]["ns"]);
    let own = ["asks_ns", "given_ns", "rest_ns"].map(|name| number(&report[name]));
    let parts = of("ta") + of("tb") + of("tc") + own.iter().sum::<f64>();
    assert!(is_same(parts, of("t")), "{parts}: {report}");
    let shares: f64 = report["shares_ns"].as_object().expect("shares").values().map(number).sum();
    assert!(is_same(shares, of("t")), "{shares}: {report}");
    let percents = ["system_calls_percent", "between_percent", "library_percent"];
    assert!(is_same(percents.iter().map(|name| number(&report[name])).sum(), 100.0), "{report}");
    for name in ["t_p50_ns", "t_two_stamps_p50_ns", "t_bare_ns", "stamp_ns", "td_ns"] {
        assert!(number(&report[name]) > 0.0, "{name}: {report}");
    }
}

// Paper: D10, C1
#[test]
fn trace_op_parts_add_up_and_every_operation_has_its_stamps() {
    for operation in ["read", "write", "fetch-add"] {
        let reports = measured(&[operation]);
        assert_eq!(reports.len(), 2);
        reports.iter().for_each(adds_up);
        let calls = |report: &Value| {
            ["t", "ta", "tb", "tc"]
                .map(|part| number(&report[part]["send_ns"]) + number(&report[part]["recv_ns"]))
        };
        assert_eq!(calls(&reports[0]), [0.0; 4], "a system call inside a node: {}", reports[0]);
        let [t, ta, tb, tc] = calls(&reports[1]);
        assert!(ta > 0.0 && tb > 0.0 && tc > 0.0 && is_same(ta + tb + tc, t), "{}", reports[1]);
        assert_eq!(reports[1]["td_measured"], true, "{}", reports[1]);
        assert!(number(&reports[1]["td_ns"]) < number(&reports[1]["t"]["ns"]), "{}", reports[1]);
    }
}

/// Reads and writes of DSE in its two configurations; apart, the process has a part of its own.
// Paper: D10, D11
#[test]
fn trace_op_takes_dse_apart_with_its_kernel_in_the_process_and_apart() {
    for operation in ["read", "write"] {
        let reports = measured(&[operation, "--kernel", "one,apart", "--size", "16,64K"]);
        assert_eq!(reports.len(), 8);
        for report in &reports {
            adds_up(report);
            let of_process = ["asks_ns", "given_ns"].map(|name| number(&report[name]));
            let share = number(&report["shares_ns"]["A process"]);
            let in_calls = |part: &str| number(&report[part]["send_ns"]) + number(&report[part]["recv_ns"]);
            let is_inside = report["place"] == "inside a node";
            match report["kernel"].as_str() {
                Some("one") => assert_eq!((of_process, share), ([0.0; 2], 0.0), "{report}"),
                Some("apart") => {
                    assert!(of_process[0] > 0.0 && share > 0.0, "{report}");
                    assert!(number(&report["tc"]["send_ns"]) > 0.0, "the answer to the process: {report}");
                }
                other => panic!("{other:?}: {report}"),
            }
            assert_eq!(in_calls("ta") == 0.0, is_inside, "{report}");
            assert_eq!(in_calls("tb") == 0.0, is_inside, "{report}");
        }
    }
    for report in measured(&["write", "--kernel", "apart", "--target", "computes"]) {
        adds_up(&report);
    }
    let ran = trace(&["read", "--kernel", "apart", "--place", "virtual-nodes"]).expect_success();
    for begin in ["asks ", "given ", "Ta ", "Tc ", "A p"] {
        assert_eq!(ran.stdout.lines().filter(|line| line.starts_with(begin)).count(), 1, "{begin}: {ran}");
    }
}

#[test]
fn trace_op_takes_long_operations_and_computing_targets_apart() {
    let reports = measured(&["read", "--size", "1,64K,300000", "--place", "virtual-nodes"]);
    assert_eq!(
        reports.iter().map(|report| report["bytes"].as_u64()).collect::<Vec<_>>(),
        [Some(1), Some(65536), Some(300_000)]
    );
    reports.iter().for_each(adds_up);
    measured(&["write", "--size", "64K,300000", "--place", "virtual-nodes"]).iter().for_each(adds_up);
    for report in measured(&["write", "--size", "64K", "--target", "computes"]) {
        adds_up(&report);
        assert_eq!(report["target"], "computes");
    }
}

#[test]
fn trace_op_prints_bars_and_draws_a_picture() {
    let scratch = Scratch::new("trace-op");
    let picture = scratch.path().join("read.svg");
    let ran = trace(&["read", "-o", picture.to_str().expect("a name")]).expect_success();
    for begin in ["T ", "Ta ", "Tb ", "Tc ", "rest ", "Td ", "A ", "B ", "system calls "] {
        assert_eq!(ran.stdout.lines().filter(|line| line.starts_with(begin)).count(), 2, "{begin}: {ran}");
    }
    let svg = std::fs::read_to_string(&picture).expect("the picture");
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    assert!(svg.contains("read of 16 bytes between two virtual nodes"), "{svg}");
}

#[test]
fn trace_op_says_in_one_line_what_is_wrong() {
    for (words, text) in [
        (&["frobnicate"][..], "possible values: read, write, fetch-add"),
        (&[], "OPERATION"),
        (&["read", "--size", "0"], "expected a number of bytes from 1 to 16777216"),
        (&["read", "--size", "17M"], "expected a number of bytes"),
        (&["fetch-add", "--size", "16"], "a fetch-add is of 8 bytes"),
        (&["fetch-add", "--kernel", "apart"], "DSE has reads and writes, no fetch-add"),
        (&["read", "--kernel", "two"], "possible values: one, apart"),
        (&["read", "--place", "moon"], "possible values: node, virtual-nodes, netns, nodes"),
        (&["read", "--host", "a,b"], "--host is for --place nodes"),
        (&["read", "--place", "nodes", "--host", "a"], "--host names 1 nodes, expected two"),
    ] {
        let ran = trace(words);
        assert!(!ran.status.success() && ran.stdout.is_empty(), "{words:?}: {ran}");
        assert_eq!(ran.stderr.lines().count(), 1, "{words:?}: {ran}");
        assert!(ran.stderr.contains(text), "{words:?}: {ran}");
    }
}

// Paper: D12
#[test]
fn native_stamps_are_kept_in_memory_and_counted() {
    let scratch = Scratch::new("native-stamps");
    let compiled = compile("mpicc", "stamps", scratch.path());
    for way in [&["-n", "2"][..], &["-n", "2", "--virtual-nodes", "2"]] {
        let ran = run(program("mpiexec").args(way).arg(&compiled), LIMIT).expect_success();
        assert!(ran.stdout.contains("stamps: ok\n"), "{ran}");
    }
}
