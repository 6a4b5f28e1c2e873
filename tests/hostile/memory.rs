//! Memory that the controller keeps of a user: it has a bound in bytes.

use std::io::Write;

use rustix::process::Pid;
use serde_json::{Value, json};

use crate::Machine;
use crate::harness::await_that;
use crate::machine::ASK;

/// Bytes of the environment of each hostile submission.
const BYTES: usize = 7 << 20;
/// The controller's memory stays below this, in KiB.
pub const KIB_MAX: u64 = 64 << 10;

/// A field of a process's status, in KiB.
pub fn kib(pid: Pid, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).expect("it lives");
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.and_then(|text| text.trim().split(' ').next()?.parse().ok()).expect("a number")
}

/// A submission with an environment of so many bytes; another number, another environment.
pub fn submission(template: &Value, number: usize) -> String {
    // As long as the kernel lets a variable be.
    let value = "x".repeat(100 << 10);
    let mut environment = format!("[[\"NUMBER\",\"{number}\"]");
    for at in 0..BYTES / value.len() {
        environment += &format!(",[\"LONG_{at}\",\"{value}\"]");
    }
    template.to_string().replace("\"HERE\"", &(environment + "]"))
}

/// How many submissions of a kind were accepted, and the line for those that were not.
struct Answers {
    jobs: Vec<u32>,
    refusals: Vec<String>,
}

fn submit(machine: &Machine, user: usize, count: usize, number: impl Fn(usize) -> usize) -> Answers {
    let mut answers = Answers { jobs: Vec::new(), refusals: Vec::new() };
    let mut request = machine.request(user, &["submit", "-n", "1", "sleep", "1000"]);
    request["Submit"]["environment"] = json!("HERE");
    for at in 0..count {
        let (_stream, answer) = machine.ask_text(user, &submission(&request, number(at)));
        match (answer["Job"].as_u64(), answer["Refused"].as_str()) {
            (Some(job), _) => answers.jobs.push(job as u32),
            (None, Some(text)) => answers.refusals.push(text.to_owned()),
            _ => panic!("{answer}"),
        }
    }
    answers.refusals.sort();
    answers.refusals.dedup();
    answers
}

#[test]
fn memory_of_the_head_for_a_users_submissions_is_bounded() {
    let Some(machine) = Machine::up("hostile-memory", 1, 2, &[]) else { return };
    let daemon = machine.daemon(0);
    let check = |what: &str| {
        let (now, peak) = (kib(daemon, "VmRSS"), kib(daemon, "VmHWM"));
        println!("{what}: {now} KiB, at most {peak} KiB");
        assert!(peak < KIB_MAX, "{what}: the controller had {peak} KiB");
    };
    check("at first");
    // All others wait.
    machine.cluster.tutti(&["submit", "--exclusive", "-n", "1", "sleep", "1000"]).expect_success();
    machine.await_state(1, "running");
    let different = submit(&machine, 0, 12, |at| at);
    check("after 12 different environments");
    assert!((1..=2).contains(&different.jobs.len()), "{:?}", different.jobs);
    let hold = format!(
        "your {} jobs that are not over hold 16 MiB of arguments and environments: wait until some are over",
        different.jobs.len()
    );
    assert_eq!(different.refusals, [hold]);
    let kill = |jobs: &[u32]| {
        for job in jobs {
            machine.tutti(0, &["kill", &job.to_string()]).expect_success();
            machine.await_state(*job, "over");
        }
    };
    kill(&different.jobs);
    let same = submit(&machine, 0, 12, |_| 0);
    check("after 12 times the same environment");
    assert_eq!(
        (same.jobs.len(), &*same.refusals),
        (12, &[] as &[String]),
        "they have it once, on the disk too"
    );
    // Another user has room of its own.
    assert!(submit(&machine, 1, 1, |_| 1).refusals.is_empty());
    kill(&same.jobs);
    // What is over holds nothing.
    for round in 0..3 {
        let over = submit(&machine, 0, 2, |at| 100 + 2 * round + at);
        assert_eq!(over.refusals, [""; 0], "round {round}");
        kill(&over.jobs);
    }
    check("after 6 jobs that are over");
    // Requests that never come to their end.
    let half = Machine::frame(ASK, &vec![b'['; BYTES]);
    let unfinished: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = machine.connect(0);
            stream.set_write_timeout(Some(std::time::Duration::from_millis(200))).expect("a socket");
            // Refused in the middle of it, most of them.
            let _ = stream.write_all(&half[..half.len() - 1]);
            stream
        })
        .collect();
    check("after 20 requests without an end");
    drop(unfinished);
    await_that("what was long is given back", || kib(daemon, "VmRSS") < KIB_MAX / 3);
}

#[test]
fn memory_of_a_request_does_not_grow_with_its_words() {
    let Some(machine) = Machine::up("hostile-words", 1, 1, &[]) else { return };
    let daemon = machine.daemon(0);
    let mut request = machine.request(0, &["submit", "-n", "1", "true"]);
    for (what, path) in [("[\"\",\"\"],", "environment"), ("\"\",", "arguments"), ("1,", "numbers")] {
        let many = what.repeat((6 << 20) / what.len());
        let many: Value = json!({ "many": format!("[{}]", many.trim_end_matches(',')) });
        match path {
            "environment" => request["Submit"]["environment"] = json!("MANY"),
            "arguments" => request["Submit"]["job"]["programs"][0]["arguments"] = json!("MANY"),
            _ => request["Submit"]["directory"] = json!("MANY"),
        }
        let text = request.to_string().replace("\"MANY\"", many["many"].as_str().expect("text"));
        let answer = machine.ask_text(0, &text).1;
        assert_eq!(answer["Refused"], "a request of more than 262144 words", "{path}: {answer}");
        request = machine.request(0, &["submit", "-n", "1", "true"]);
        let peak = kib(daemon, "VmHWM");
        assert!(peak < KIB_MAX, "{path}: the controller had {peak} KiB");
    }
}

#[test]
fn memory_for_answers_that_a_user_does_not_read_is_bounded() {
    let Some(machine) = Machine::up("hostile-unread", 1, 2, &[]) else { return };
    let daemon = machine.daemon(0);
    for _ in 0..200 {
        machine.submit(0, &["-n", "1", "true"]);
    }
    let ask = Machine::frame(ASK, b"{\"Jobs\":{\"all\":true}}");
    let silent: Vec<_> = (0..400)
        .map(|_| {
            let mut stream = machine.connect(0);
            let _ = stream.write_all(&ask);
            stream
        })
        .collect();
    await_that("others are answered", || {
        let ran = machine.tutti(1, &["ps", "--all"]);
        ran.status.success() && ran.stdout.lines().count() > 200
    });
    let peak = kib(daemon, "VmHWM");
    println!("{} connections, {peak} KiB", silent.len());
    assert!(peak < KIB_MAX, "the controller had {peak} KiB");
}

/// Each task of an array has the names of its folder and its files for itself.
#[test]
fn memory_of_names_in_a_submission_is_bounded() {
    let Some(machine) = Machine::up("hostile-names", 1, 1, &[]) else { return };
    let daemon = machine.daemon(0);
    let words = ["submit", "--hold", "--array", "0-999", "-o", "out", "-e", "errors", "-n", "1", "true"];
    let request = machine.request(0, &words);
    let name = |bytes: usize| json!(format!("/{}", "a".repeat(bytes - 1)));
    for place in ["/Submit/directory", "/Submit/output/out", "/Submit/job/programs/0/file"] {
        let mut long = request.clone();
        *long.pointer_mut(place).unwrap_or_else(|| panic!("{place} in {request}")) = name(7 << 20);
        let (_stream, answer) = machine.ask(0, &long);
        let text = "the name of a folder or a file has 7340032 bytes: 4095 are possible at most";
        assert_eq!(answer["Refused"], text, "{place}");
    }
    let mut long = request;
    for place in ["/Submit/directory", "/Submit/output/out", "/Submit/output/errors"] {
        *long.pointer_mut(place).expect("it was there") = name(4000);
    }
    let (_stream, first) = machine.ask(0, &long);
    assert!(first["Job"].is_u64(), "{first}");
    let (_stream, second) = machine.ask(0, &long);
    assert!(second["Refused"].as_str().is_some_and(|text| text.contains("hold 16 MiB")), "{second}");
    // A name that comes later is as short as one of a submission.
    let change = json!({ "time_ms": null, "weight": null, "name": name(7 << 20), "begin_ms": null });
    let (_stream, changed) = machine.ask(0, &json!({ "Change": [first["Job"], change] }));
    assert_eq!(changed, "Done");
    let peak = kib(daemon, "VmHWM");
    println!("the controller had {peak} KiB");
    assert!(peak < 2 * KIB_MAX, "the controller had {peak} KiB");
    machine.tutti(0, &["kill", &first["Job"].to_string()]).expect_success();
}
