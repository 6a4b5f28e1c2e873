//! A user has hundreds of jobs that wait beside its limit: each end of one looks at all of them, and no other
//! user's job or question waits for that.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use tutti_tests::await_that;

use crate::Machine;
use crate::machine::ASK;

/// Jobs that are submitted at once.
const MANY: u32 = 200;

#[test]
fn hundreds_of_waiting_jobs_of_a_user_hold_up_no_other_users() {
    let scratch = tutti_tests::Scratch::new("hostile-queue");
    let file = scratch.path().join("tutti.toml");
    std::fs::write(&file, "[limits]\njobs = 1\n").expect("a file");
    let more = ["--config", file.to_str().expect("a path")];
    let Some(machine) = Machine::up("hostile-queue", 1, 2, &more) else { return };
    let request = machine.request(0, &["submit", "--output", "none", "-n", "1", "true"]).to_string();
    let submit = |machine: &Machine| {
        for _ in 0..MANY {
            let mut stream = UnixStream::connect(machine.socket()).expect("it lives");
            stream.set_read_timeout(Some(tutti_tests::LIMIT)).expect("a socket");
            stream.write_all(&Machine::frame(ASK, request.as_bytes())).expect("it lives");
            let mut bytes = [0; 512];
            let read = stream.read(&mut bytes).expect("an answer");
            let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
            assert!(text.contains("{\"Job\":"), "{text}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| machine.as_user(0, submit));
        await_that("it has jobs", || !machine.jobs().is_empty());
        for _ in 0..5 {
            machine.tutti(1, &["run", "-n", "1", "true"]).expect_success();
            machine.tutti(1, &["ps"]).expect_success();
        }
    });
    // They go on one after the other, in their order.
    let over = || {
        let text = machine.cluster.tutti(&["ps", "--all", "--json"]).expect_success().stdout;
        text.matches("\"status\": 0").count()
    };
    let first = over();
    await_that("the next of them end", || over() >= first + 10 || machine.jobs().is_empty());
    machine.tutti(1, &["run", "-n", "1", "true"]).expect_success();
}
