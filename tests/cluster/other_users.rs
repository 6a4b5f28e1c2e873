//! Jobs of others on this machine: those of other users' daemons, and those that no daemon knows any more.

use std::os::unix::net::UnixListener;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tutti_testkit::Scratch;
use tutti_tests::users::{Users, daemons};
use tutti_tests::{program, run};

use crate::harness::{Running, await_that};
use crate::on_demand::Laptop;

const WORDS: [&str; 5] = ["-n", "2", "sh", "-c", "sleep 1000 # secret"];

#[test]
fn ps_lists_other_users_jobs_without_arguments() {
    let Some(users) = Users::new("tutti-other-users", 3) else { return };
    let [first, second, third] = users.uids().try_into().expect("three");
    let one = Running::start_command(&mut users.command(first, "mpiexec", &WORDS));
    let other = Running::start_command(&mut users.command(second, "mpiexec", &WORDS));
    let mut open = users.command(third, "mpiexec", &WORDS);
    let open = Running::start_command(open.env("TUTTI_SHOW_ARGUMENTS", "1"));
    let listed = || users.tutti(first, &["ps"]).expect_success().stdout;
    let line_of = |number: &str| {
        let text = listed();
        text.lines().find(|line| line.split_whitespace().next() == Some(number)).map(str::to_owned)
    };
    for (uid, command) in [(second, "sh"), (third, "sh -c sleep 1000 # secret")] {
        let number = format!("{uid}/1");
        // A daemon that is slow to answer is left out of a list: the next one may lack it again.
        let mut line = String::new();
        await_that("its job is listed", || {
            line = line_of(&number).unwrap_or_default();
            line.contains("running")
        });
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(
            (words[1], words[2], words[3], words[5]),
            ("running", "2", "1", uid.to_string().as_str()),
            "{line}"
        );
        assert_eq!(words[8..].join(" "), command, "{line}");
    }
    // One's own are numbered as ever, and scripts get others only if they ask.
    await_that("its own job is listed", || line_of("1").is_some_and(|line| line.contains("# secret")));
    let rows = |words: &[&str]| -> Vec<Value> {
        serde_json::from_str(&users.tutti(first, words).expect_success().stdout).expect("JSON")
    };
    assert_eq!(rows(&["ps", "--json"]).len(), 1);
    await_that("those who ask get the others' too", || {
        let all = rows(&["ps", "--json", "--others"]);
        all.iter().any(|row| row["job"] == format!("{second}/1") && row["uid"] == second)
    });
    // Of a user who has no daemon too, and only those asked for.
    await_that("the second user's job is listed", || {
        let of_second = users.tutti(first, &["ps", "--user", &second.to_string()]).stdout;
        assert!(!of_second.contains(&format!("{third}/1")), "{of_second}");
        of_second.contains(&format!("{second}/1"))
    });
    for daemon in daemons(&users.folder(first)) {
        kill_process(daemon, Signal::TERM).expect("it lives");
    }
    await_that("others are listed without a daemon too", || line_of(&format!("{second}/1")).is_some());
    for job in [one, other, open] {
        job.signal(Signal::TERM);
        job.end();
    }
}

#[test]
fn ps_asks_again_where_a_daemon_leaves_at_that_moment() {
    let scratch = Scratch::new("leaving");
    let socket = scratch.path().join("tuttid.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let gone = socket.clone();
    let leaving = std::thread::spawn(move || {
        let (client, _) = listener.accept().expect("a client");
        std::fs::remove_file(gone).expect("the socket's file");
        drop((client, listener));
    });
    let mut ps = program("tutti");
    ps.args(["ps", "--json"]).env("TUTTI_DIR", scratch.path()).env_remove("TUTTI_DAEMON");
    let ran = run(&mut ps, Duration::from_secs(20)).expect_success();
    leaving.join().expect("it has been asked");
    assert_eq!(ran.stdout.trim(), "[]", "{ran}");
}

#[test]
fn history_outlives_an_on_demand_daemon() {
    let laptop = Laptop::new("laptop-history");
    // Long enough to take part in turns.
    let job = |status: &str| {
        let script = format!("while ! test -e \"$TUTTI_DIR/go{status}\"; do sleep 0.05; done; exit {status}");
        let running =
            Running::start_command(&mut laptop.command("mpiexec", &["-n", "1", "sh", "-c", &script]));
        let is_listed = || laptop.tutti(&["ps", "--json"]).stdout.contains("\"running\"");
        await_that("it takes part", is_listed);
        std::fs::write(laptop.folder().join(format!("go{status}")), "").expect("a file");
        assert_eq!(running.end().0, status.parse::<i32>().expect("a number"));
        await_that("it is over", || !is_listed());
    };
    job("3");
    laptop.end_daemon();
    assert_eq!(laptop.tutti(&["ps"]).expect_success().stdout.matches("over").count(), 0);
    let all = laptop.tutti(&["ps", "--all"]).expect_success().stdout;
    assert!(all.lines().any(|line| line.trim_start().starts_with("1  over(3)")), "{all}");
    let status = laptop.tutti(&["status", "1"]).expect_success().stdout;
    assert!(status.contains("status   3\n") && status.contains("ranks    1\n"), "{status}");
    let page = laptop.folder().join("page.html");
    laptop.tutti(&["timeline", "1", "-o", page.to_str().expect("text")]).expect_success();
    let unknown = laptop.tutti(&["status", "7"]);
    assert_eq!((unknown.code(), unknown.stderr.lines().count()), (1, 1), "{unknown}");
    // The next daemon goes on with the numbers, and what the last one knew is still there.
    job("4");
    let all: Vec<Value> =
        serde_json::from_str(&laptop.tutti(&["ps", "--all", "--json"]).expect_success().stdout)
            .expect("JSON");
    let found: Vec<_> = all.iter().map(|row| (row["job"].as_u64(), row["status"].as_u64())).collect();
    assert_eq!(found, [(Some(1), Some(3)), (Some(2), Some(4))]);
    let status = laptop.tutti(&["status", "1"]).expect_success().stdout;
    assert!(status.contains("status   3\n"), "{status}");
}
