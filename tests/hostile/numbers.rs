//! Numbers and names that a user sends are nobody's: what is another's is found by none of them.

use rustix::process::Pid;
use serde_json::json;
use tutti_tests::{await_that, state_of};

use crate::Machine;
use crate::harness::cgroup_of;

/// Value of a variable of a process.
pub fn variable(pid: Pid, name: &str) -> Option<String> {
    let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).ok()?;
    let text = String::from_utf8_lossy(&environment).into_owned();
    let found = text.split('\0').find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='))?;
    Some(found.to_owned())
}

pub fn is_alive(pid: Pid) -> bool {
    state_of(pid).is_some_and(|state| state != 'Z')
}

/// The number of a job on its node is public: it is in the name of its cgroup.
#[test]
fn job_id_of_a_submission_is_drawn_by_the_daemon() {
    let Some(machine) = Machine::up("hostile-id", 1, 1, &[]) else { return };
    let job = machine.cluster.start(&["run", "-n", "1", "sleep", "1000"]);
    machine.await_state(1, "running");
    let id_of = |pid| u64::from_str_radix(&variable(pid, "TUTTI_JOB")?, 16).ok();
    // A rank runs as soon as it is forked; its environment comes with the exec.
    let find = || job.mark.processes().into_iter().find_map(|pid| Some((pid, id_of(pid)?)));
    await_that("its rank has its number", || find().is_some());
    let (rank, id) = find().expect("it was just there");
    let cgroup = cgroup_of(rank);
    for words in [&["submit", "-n", "1", "true"][..], &["submit", "-n", "1", "no-such-program-anywhere"]] {
        let mut request = machine.request(0, &["submit", "-n", "1", "true"]);
        request["Submit"]["job"]["id"] = json!(id);
        request["Submit"]["job"]["programs"][0]["file"] = json!(words[3]);
        let (_stream, answer) = machine.ask(0, &request);
        let number = answer["Job"].as_u64().unwrap_or_else(|| panic!("{answer}")) as u32;
        machine.await_state(number, "over");
        assert!(is_alive(rank), "root's job was killed by a submission with its id");
        assert_eq!(machine.row(1)["state"], "running");
        assert!(cgroup.as_ref().is_none_or(|path| path.is_dir()), "its cgroup is there");
    }
    // Two submissions with one id are two jobs with two.
    let seen: Vec<u64> = [0, 1]
        .map(|_| {
            let mut request = machine.request(0, &["submit", "-n", "1", "sleep", "1000"]);
            request["Submit"]["job"]["id"] = json!(7);
            let (_stream, answer) = machine.ask(0, &request);
            let number = answer["Job"].as_u64().unwrap_or_else(|| panic!("{answer}")) as u32;
            machine.await_state(number, "running");
            let pid = machine.row(number)["pids"][0][1][0].as_i64().and_then(|pid| Pid::from_raw(pid as i32));
            let pid = pid.expect("a rank runs");
            await_that("it has a number", || id_of(pid).is_some());
            id_of(pid).expect("it was just there")
        })
        .to_vec();
    assert!(seen[0] != seen[1] && !seen.contains(&7) && !seen.contains(&id), "{seen:x?}");
    machine.cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(job.end().0, 137);
    await_that("its cgroup is gone", || cgroup.as_ref().is_none_or(|path| !path.exists()));
}
