//! Two users on one machine, neither of them root: each has a daemon of his own, both work, and neither can
//! do anything to the other.

use std::os::unix::fs::MetadataExt;

use rustix::process::{Pid, Signal, kill_process};
use tutti_tests::run;
use tutti_tests::users::{Users, daemons};

use crate::gangs::is_loop;
use crate::harness::{LIMIT, Running, await_that, state_of};

fn both(users: &Users) -> [u32; 2] {
    users.uids().try_into().expect("two")
}

fn loops(job: &Running) -> Vec<Pid> {
    job.mark.processes().into_iter().filter(|pid| is_loop(*pid)).collect()
}

fn is_still(pids: &[Pid]) -> bool {
    pids.iter().all(|pid| {
        let frozen = || {
            crate::harness::cgroup_of(*pid)
                .is_some_and(|inner| inner.parent().is_some_and(crate::gangs::is_frozen))
        };
        state_of(*pid) == Some('T') || frozen()
    })
}

#[test]
fn users_without_root_take_turns_and_are_isolated() {
    let Some(users) = Users::new("tutti-two-users", 2) else { return };
    let words = ["-n", "2", "sh", "-c", "while :; do :; done"];
    let uids = both(&users);
    let jobs = uids.map(|uid| Running::start_command(&mut users.command(uid, "mpiexec", &words)));
    for uid in uids {
        let running = || users.tutti(uid, &["ps", "--json"]).stdout.matches("\"running\"").count() == 1;
        await_that("each sees his own job", running);
    }
    let ranks = jobs.each_ref().map(|job| {
        await_that("its ranks work", || loops(job).len() == 2);
        loops(job)
    });
    await_turns(&ranks);
    // What is listed is what happens.
    let says = |words: &[&str]| users.tutti(uids[0], words).stdout;
    await_that("half of the time is his", || says(&["ps", "-l"]).contains("50.0% of the time: "));
    await_that("both have a price", || says(&["prices"]).matches("50.0%").count() >= 4);
    // By signals or not: nobody stays stopped, and the next daemon takes part again.
    for daemon in daemons(&users.folder(uids[0])) {
        kill_process(daemon, Signal::KILL).expect("it lives");
    }
    await_turns(&ranks);
    touch_nothing(&users, &ranks[0]);
    end_one_after_the_other(&users, jobs, &ranks);
}

#[track_caller]
fn await_turns(ranks: &[Vec<Pid>; 2]) {
    for _ in 0..3 {
        await_that("the second waits for the first", || is_still(&ranks[1]) && !is_still(&ranks[0]));
        await_that("the first waits for the second", || is_still(&ranks[0]) && !is_still(&ranks[1]));
    }
}

#[track_caller]
fn end_one_after_the_other(users: &Users, [first, second]: [Running; 2], ranks: &[Vec<Pid>; 2]) {
    let uids = both(users);
    let number = || {
        let listed = users.tutti(uids[0], &["ps", "--json"]).stdout;
        let listed: serde_json::Value = serde_json::from_str(&listed).ok()?;
        Some(listed[0]["job"].as_u64()?.to_string())
    };
    await_that("the next daemon knows it", || number().is_some());
    users.tutti(uids[0], &["kill", &number().expect("it runs")]).expect_success();
    assert_eq!(first.end().0, 137);
    let log = users.on_demand(uids[1]).join("tuttid.log");
    await_that("the second has the machine alone", || {
        std::fs::read_to_string(&log).is_ok_and(|log| log.contains("no other user's jobs share this machine"))
    });
    await_that("it goes on", || !is_still(&ranks[1]));
    second.signal(Signal::INT);
    assert_eq!(second.end().0, 130);
}

/// Checks that the second user can do nothing with the first one's job.
#[track_caller]
fn touch_nothing(users: &Users, ranks: &[Pid]) {
    let uids = both(users);
    let socket = users.on_demand(uids[0]).join("tuttid.sock");
    for words in
        [&["ps"][..], &["kill", "1"], &["suspend", "1"], &["attach", "1"], &["logs", "1"], &["submit", "id"]]
    {
        let mut command = users.command(uids[1], "tutti", words);
        users.refused(command.env("TUTTI_DAEMON", &socket), "another user's");
    }
    let pid = ranks[0].as_raw_nonzero();
    for script in [
        format!("kill -9 {pid}"),
        format!("kill -STOP {pid}"),
        format!("cat /proc/{pid}/environ"),
        format!("ls /proc/{pid}/fd/"),
        format!(
            "cat {0}/tuttid.log || cat {0}/cluster.key || ls {0}",
            socket.parent().expect("a folder").display()
        ),
    ] {
        let ran = run(users.foreign(uids[1], "sh").args(["-c", &script]), LIMIT);
        assert!(!ran.status.success() && ran.stdout.is_empty(), "{script}: {ran}");
    }
    assert!(ranks.iter().all(|pid| state_of(*pid).is_some_and(|state| state != 'Z')), "they live");
}

/// Usage of a cluster by two users is not forgotten with its controller.
#[test]
fn shares_survive_a_killed_controller() {
    let Some(users) = Users::new("tutti-used", 2) else { return };
    let folder = users.root().join("cluster");
    let up = ["--slots", "1", "--slice", "20", "--lost-after", "3"];
    let cluster = crate::Cluster::up_at(folder.clone(), users.programs().to_owned(), 1, &up);
    let start = |uid: u32| {
        let mut job = users.command(uid, "tutti", &["run", "-n", "1", "sh", "-c", "while :; do :; done"]);
        Running::start_command(job.env("TUTTI_DAEMON", folder.join("tuttid.sock")))
    };
    let used_ms = |uid: u32| {
        let prices = cluster.tutti(&["prices", "--json"]).stdout;
        let prices: serde_json::Value = serde_json::from_str(&prices).ok()?;
        let found = prices["users"].as_array()?.iter().find(|user| user["uid"] == uid)?;
        Some(found["used_ns"].as_u64()? / 1_000_000)
    };
    let uids = both(&users);
    let jobs = uids.map(start);
    await_that("both have used some seconds", || uids.iter().all(|uid| used_ms(*uid) > Some(2_500)));
    let file = folder.join("node0.used");
    let kept = || {
        let text = std::fs::read(&file).ok()?;
        let kept: serde_json::Value = serde_json::from_slice(&text).ok()?;
        let used = kept["used"].as_array()?.iter().map(|one| one[1].as_u64());
        used.min()?.map(|least_ns| least_ns / 1_000_000)
    };
    await_that("it is in the file", || kept() > Some(2_000));
    let numbers = cluster.tutti(&["ps", "--json"]).expect_success().stdout;
    let numbers: serde_json::Value = serde_json::from_str(&numbers).expect("JSON");
    for row in numbers.as_array().expect("a list") {
        cluster.tutti(&["kill", &row["job"].to_string()]).expect_success();
    }
    jobs.into_iter().for_each(|job| assert_eq!(job.end().0, 137));
    cluster.replace(0);
    await_that("the next controller answers", || cluster.tutti(&["ps"]).status.success());
    // Alone nobody pays, so what he has now is what he had.
    let job = start(uids[0]);
    await_that("his job runs", || used_ms(uids[0]).is_some());
    let found = used_ms(uids[0]);
    assert!(found > Some(1_800), "{found:?} ms of more than 2000");
    job.signal(Signal::INT);
    let _ = job.end();
}

#[test]
fn users_foreign_folders_are_refused_in_one_line() {
    let Some(users) = Users::new("tutti-stranger", 2) else { return };
    let [user, stranger] = both(&users);
    // He has a daemon where ours would be, and lets everybody in.
    let place = users.folder(stranger);
    let words = ["--listen", "127.0.0.1:0", "--dir", &place.display().to_string()];
    let mut daemon = users.command(stranger, "tuttid", &words).spawn().expect("tuttid");
    // The socket is there a moment before everybody may use it.
    await_that("everybody may ask it", || {
        place.join("tuttid.sock").metadata().is_ok_and(|socket| socket.mode() & 0o777 == 0o666)
    });
    let at_his = |name: &str, words: &[&str]| {
        let mut command = users.command(user, name, words);
        command.env("TUTTI_DIR", &place);
        command
    };
    for words in [&["ps"][..], &["submit", "id"], &["down"]] {
        let why = format!("is user {stranger}'s, which is neither you nor root: it is not asked");
        users.refused(&mut at_his("tutti", words), &why);
    }
    users.refused(&mut at_his("tutti", &["up"]), "is not this user's alone");
    // A job needs nobody.
    let mut shell = users.foreign(user, "bash");
    shell.env("TUTTI_DIR", &place);
    let mpiexec = users.programs().join("bin/mpiexec");
    let (ran, said) = crate::on_demand::run_without_turns(&mut shell, &mpiexec, &users.folder(user), "id -u");
    assert_eq!(ran.stdout, format!("{user}\n{user}\n"), "{ran}");
    assert!(said.contains("the job runs without turns: "), "{said}");
    let ran = run(&mut at_his("tutti", &["run", "-n", "1", "id", "-u"]), LIMIT);
    assert_eq!(ran.expect_success().stdout, format!("{user}\n"));
    daemon.kill().expect("it lives");
    daemon.wait().expect("it was ours");
}
