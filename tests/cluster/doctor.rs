//! `tutti doctor`: a line for each thing, and a status that agrees with them.

use serde_json::Value;
use tutti_tests::{Ran, program};

use crate::Cluster;
use crate::harness::LIMIT;

fn doctor(words: &[&str]) -> Ran {
    // No daemon is needed.
    tutti_tests::run(program("tutti").arg("doctor").args(words).env("TUTTI_DAEMON", "none"), LIMIT)
}

#[test]
fn doctor_lines_and_status_agree() {
    let ran = doctor(&["--json"]);
    let found: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let checks = found["checks"].as_array().expect("checks");
    let fixes = checks.iter().filter(|check| check["verdict"] == "fix").count();
    assert_eq!(ran.code(), i32::from(fixes > 0), "{ran}");
    assert_eq!(found["ok"], fixes == 0, "{ran}");
    for subject in ["version", "system calls", "cgroups", "memory limits", "real time", "memory lock", "UDP"]
    {
        let check = checks.iter().find(|check| check["subject"] == subject).expect(subject);
        assert_eq!(check["verdict"] == "ok", check["advice"].is_null(), "{check}");
    }
    let lines = doctor(&[]).stdout;
    let begins = ["OK   ", "MAY  ", "FIX  ", "      "];
    assert!(lines.lines().all(|line| begins.iter().any(|begin| line.starts_with(begin))), "{lines}");
    assert!(lines.lines().filter(|line| !line.starts_with(' ')).count() == checks.len(), "{lines}");
}

#[test]
fn doctor_names_a_program_that_cannot_run() {
    let ran = doctor(&["./no-such-program"]);
    assert_eq!(ran.code(), 1, "{ran}");
    assert!(
        ran.stdout.contains("FIX  program          cannot find the program ./no-such-program: no such file"),
        "{ran}"
    );
    let ran = doctor(&["--json", "/bin/sh"]);
    let found: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let program =
        found["checks"].as_array().expect("checks").iter().find(|check| check["subject"] == "program");
    assert_eq!(program.expect("the program")["verdict"], "ok");
}

#[test]
fn doctor_probes_all_pairs_of_nodes() {
    let cluster = Cluster::up("cluster-doctor", 3, &["--lost-after", "30"]);
    let ran = || -> Value {
        serde_json::from_str(&cluster.tutti(&["doctor", "--json", "/bin/sh"]).stdout).expect("JSON")
    };
    let of = |found: &Value, subject: &str| -> Vec<Value> {
        let checks = found["checks"].as_array().expect("checks").iter();
        checks.filter(|check| check["subject"] == subject).cloned().collect()
    };
    let found = ran();
    for subject in ["versions", "TCP", "UDP of daemons", "UDP of ranks", "clocks", "nodes' program"] {
        let checks = of(&found, subject);
        assert!(checks.len() == 1 && checks[0]["verdict"] == "ok", "{subject}: {found}");
    }
    assert!(of(&found, "TCP")[0]["found"].to_string().contains("6 pairs"), "{found}");
}
