//! Logins to nodes: who has a job there lands in it, everybody else is refused (`tutti admit`). A shell is in
//! place of PAM's service.

use std::process::Output;

use tutti_testkit::await_that;
use tutti_tests::machines::Machines;

/// A login of this user on a machine, which then runs a line.
fn login(machines: &Machines, node: u32, (user, step): (&str, &str), then: &str) -> Output {
    machines.lab.node(node).sh(&format!("PAM_USER={user} PAM_TYPE={step} tutti admit && {then}"))
}

/// Checks that a login is refused, for this reason.
#[track_caller]
fn assert_refused(machines: &Machines, node: u32, who: (&str, &str), why: &str) {
    let ran = login(machines, node, who, "echo in");
    let text = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!ran.status.success() && ran.stdout.is_empty(), "{who:?} comes in");
    assert!(text.starts_with("tutti admit: ") && text.contains(why) && text.lines().count() == 1, "{text}");
}

#[test]
fn machines_login_lands_in_the_job_of_its_user_or_is_refused() {
    let Some(machines) = Machines::up("logins", 2, &[]) else { return };
    let (account, session) = (("alice", "account"), ("alice", "open_session"));
    let none = "alice has no job on this node";
    assert_refused(&machines, 0, account, none);
    assert_refused(&machines, 0, session, none);
    machines.tutti(0, &["submit", "-H", "node0:1", "-n", "1", "sleep", "1000"]).expect_success();
    await_that("its job runs", || login(&machines, 0, account, "true").status.success());
    // A part has a cgroup before its rank executes its program.
    await_that("its rank is there", || machines.lab.node(0).sh("pidof sleep").status.success());

    assert_refused(&machines, 1, account, none);
    assert_refused(&machines, 0, ("bob", "account"), "bob has no job on this node");
    assert_refused(&machines, 0, ("nobody-such", "account"), "nobody-such is no user of this node");
    for who in [("root", "account"), ("root", "open_session"), ("alice", "close_session")] {
        assert!(login(&machines, 0, who, "true").status.success(), "{who:?}");
    }
    let ran = login(&machines, 0, account, "cat /proc/$$/cgroup");
    assert!(!String::from_utf8_lossy(&ran.stdout).contains("tutti-job-"), "the account step moves nobody");
    // The login and what it starts are where the ranks are, in each hierarchy that the job has a place in.
    let ran = login(&machines, 0, session, "cat /proc/$$/cgroup; echo; cat /proc/$(pidof sleep)/cgroup");
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let of_part = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.contains("tutti-part-")).map(str::to_owned).collect()
    };
    let (own, of_rank) = text.split_once("\n\n").unwrap_or_else(|| panic!("{ran:?}"));
    assert_eq!(of_part(own), of_part(of_rank));
    assert!(own.lines().any(|line| line.starts_with("0::") && line.ends_with("/ranks")), "{own}");

    machines.tutti(0, &["suspend", "1"]).expect_success();
    await_that("its job is suspended", || !login(&machines, 0, account, "true").status.success());
    assert_refused(&machines, 0, session, "the job of alice on this node is suspended");
    machines.tutti(0, &["resume", "1"]).expect_success();
    await_that("its job goes on", || login(&machines, 0, account, "true").status.success());

    // It ends with the job.
    let line = "PAM_USER=alice PAM_TYPE=open_session tutti admit && exec sleep 2000";
    machines.lab.node(0).spawn(&["sh", "-c", line]);
    let logins = || machines.lab.node(0).sh("pgrep -cf '^sleep 2000'").stdout.starts_with(b"1");
    await_that("the login is there", logins);
    machines.tutti(0, &["kill", "1"]).expect_success();
    await_that("the login has ended", || !logins());
    assert_refused(&machines, 0, account, none);
    // Without root and without PAM it says what it is for.
    let ran = machines.lab.node(0).user("alice").sh("PAM_USER=alice PAM_TYPE=account tutti admit");
    assert!(String::from_utf8_lossy(&ran.stderr).contains("it is for root") && !ran.status.success());
    let ran = machines.lab.node(0).sh("tutti admit");
    assert!(String::from_utf8_lossy(&ran.stderr).contains("it is for pam_exec") && !ran.status.success());
}

/// A user who may make cgroups, as below a session of systemd, gives one the names of a job's.
#[test]
fn machines_login_by_cgroups_of_the_users_own_is_refused() {
    let Some(machines) = Machines::up("logins-forged", 1, &[]) else { return };
    let forge = "root=$(awk '/ - cgroup2 / {print $5; exit}' /proc/self/mountinfo)\n\
                 place=$root/session/tutti-part-0000000000000001/tutti-job-0000000000000001/ranks\n\
                 mkdir -p $place && (sleep 1000 & echo $! >$place/cgroup.procs; echo $place)";
    // As alice the processes, as root the cgroup: as if it had been given to her.
    let made = machines.lab.node(0).sh(&forge
        .replace("sleep 1000", "setpriv --reuid 1001 --clear-groups sleep 1000 </dev/null >/dev/null 2>&1"));
    assert!(made.status.success() && !made.stdout.is_empty(), "{made:?}");
    assert_refused(&machines, 0, ("alice", "account"), "alice has no job on this node");
}
