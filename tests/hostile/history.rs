//! Histories of a user's jobs, which are not forgotten because another user has many.

use std::io::{Read, Write};

use serde_json::json;
use tutti_tests::await_that;

use crate::Machine;
use crate::machine::ASK;

/// More than the controller lists of one user.
const MANY: u32 = 1050;

#[test]
fn history_of_a_user_stays_while_another_has_a_thousand_jobs() {
    let Some(machine) = Machine::up("hostile-history", 1, 2, &[]) else { return };
    let first = machine.submit(0, &["--output", "none", "-n", "1", "sh", "-c", "echo kept; exit 7"]);
    machine.await_state(first, "over");
    let mut request = machine.request(1, &["submit", "-n", "1", "true"]);
    let request = json!({ "Enrol": request["Submit"].take() }).to_string();
    let last = machine.as_user(1, |machine| {
        let mut last = String::new();
        for _ in 0..MANY {
            let mut stream = std::os::unix::net::UnixStream::connect(machine.socket()).expect("it lives");
            stream.set_read_timeout(Some(tutti_tests::LIMIT)).expect("a socket");
            stream.write_all(&Machine::frame(ASK, request.as_bytes())).expect("it lives");
            let mut bytes = [0; 256];
            let read = stream.read(&mut bytes).expect("an answer");
            last = String::from_utf8_lossy(&bytes[..read]).into_owned();
        }
        last
    });
    assert!(last.contains("{\"Job\":"), "{last}");
    await_that("they are over", || machine.jobs().is_empty());
    let number = first.to_string();
    assert_eq!(machine.tutti(0, &["wait", &number]).code(), 7);
    let ran = machine.tutti(0, &["status", &number]).expect_success();
    assert!(ran.stdout.contains('7'), "{ran}");
    assert_eq!(machine.tutti(0, &["logs", &number]).expect_success().stdout, "kept\n");
    let rows = machine.cluster.tutti(&["ps", "--all"]).expect_success().stdout;
    assert!(rows.lines().any(|line| line.trim_start().starts_with(&format!("{number} "))), "it is listed");
    machine.tutti(0, &["submit", "--after", &number, "-n", "1", "true"]).expect_success();
    let next = machine.submit(0, &["--after-ok", &number, "-n", "1", "true"]);
    machine.await_state(next, "over");
    let row = machine.row(next);
    assert!(row["cause"].to_string().contains("dependency failed"), "the first ended with 7: {row}");
    // A job that never was has no status.
    let ran = machine.tutti(0, &["wait", "999999"]);
    assert_eq!((ran.code(), ran.stderr.as_str()), (127, "tutti wait: there is no job 999999\n"));
}
