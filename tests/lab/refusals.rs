//! Refusals of what is impossible: each is said in one line.

use std::process::Command;

use tutti_testkit::{LIMIT, Need, Scratch, skip_part};
use tutti_tests::run;

use crate::tutti_lab;

#[track_caller]
fn refused(command: &mut Command, why: &str) {
    let ran = run(command, LIMIT);
    assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{command:?}: {ran}");
    assert!(ran.stderr.starts_with("tutti-lab: ") && ran.stderr.contains(why), "{command:?}: {ran}");
}

#[test]
fn lab_command_refuses_in_one_line_what_it_cannot_do() {
    let scratch = Scratch::new("lab-refusals");
    let alone = |words: &[&str]| {
        let mut command = tutti_lab(words);
        command.env("TUTTI_LAB_DIR", scratch.path());
        command
    };
    refused(&mut alone(&["at", "0", "true"]), "no lab is running: tutti-lab up 3 starts one");
    refused(&mut alone(&["down"]), "no lab is running");
    refused(&mut alone(&["--lab", "zzzz", "status"]), "no lab zzzz is running");
    refused(&mut alone(&["up", "0", "--bare"]), "a lab has 1 to 64 machines, not 0");
    refused(&mut alone(&["up", "65", "--bare"]), "a lab has 1 to 64 machines, not 65");
    let wrong = run(&mut alone(&["up", "2", "--loss", "1"]), LIMIT);
    assert!(wrong.code() == 2 && wrong.stderr.contains("'1' is no share from 0% to 100%"), "{wrong}");
}

/// A shell in namespaces of its own, in which `prepare` is done before the command.
fn prepared(flags: &[&str], prepare: &str, words: &[&str], folder: &std::path::Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(flags).args(["sh", "-c", &format!("{prepare} && exec \"$@\""), "sh"]);
    command.arg(env!("CARGO_BIN_EXE_tutti-lab")).args(words).env("TUTTI_LAB_DIR", folder);
    command
}

#[test]
fn lab_without_a_tun_device_or_user_namespaces_says_so_in_one_line() {
    if !rustix::process::geteuid().is_root() {
        return skip_part(Need::Root, "only root can take away what the lab needs");
    }
    let scratch = Scratch::new("lab-without");
    let no_tun = "mount -t tmpfs none /dev/net";
    let lossy = ["up", "2", "--bare", "--loss", "1%"];
    let mut command = prepared(&["--mount"], no_tun, &lossy, scratch.path());
    refused(&mut command, "need /dev/net/tun (No such file or directory (os error 2)); plain cables do not");
    let mut plain = prepared(&["--mount"], no_tun, &["up", "2", "--bare"], scratch.path());
    run(&mut plain, LIMIT).expect_success();
    run(tutti_lab(&["down"]).env("TUTTI_LAB_DIR", scratch.path()), LIMIT).expect_success();

    let none = "echo 0 >/proc/sys/user/max_user_namespaces";
    let flags = ["--user", "--map-root-user", "--mount"];
    let mut command = prepared(&flags, none, &["up", "2", "--bare"], scratch.path());
    refused(&mut command, "user namespace");
    let left: Vec<_> = std::fs::read_dir(scratch.path()).expect("the folder").flatten().collect();
    assert!(left.is_empty(), "what was refused leaves {left:?}");
}

/// The kernel says that there is little.
#[test]
fn lab_of_64_machines_on_a_small_memory_is_explained_in_one_line() {
    if !rustix::process::geteuid().is_root() {
        return skip_part(Need::Root, "only root can hide what the kernel says");
    }
    let scratch = Scratch::new("lab-memory");
    let said = Scratch::new("lab-memory-said");
    let file = said.path().join("meminfo");
    std::fs::write(&file, "MemTotal: 262144 kB\nMemFree: 9000 kB\nMemAvailable: 102400 kB\n")
        .expect("a file");
    let little = format!("mount --bind '{}' /proc/meminfo", file.display());
    let mut up = prepared(&["--mount"], &little, &["up", "64", "--bare"], scratch.path());
    refused(&mut up, "64 machines need about 3072 MiB of memory, and 100 MiB are free: take fewer");
    let left: Vec<_> = std::fs::read_dir(scratch.path()).expect("the folder").flatten().collect();
    assert!(left.is_empty(), "what was refused leaves {left:?}");
}

/// Without root: a machine has one user, this one, whom it takes for root.
#[test]
fn lab_of_a_user_who_is_not_root_has_machines_with_one_user() {
    let Some(users) = tutti_tests::users::Users::new("tutti-lab-user", 1) else { return };
    let uid = users.uids()[0];
    let program = users.reachable(env!("CARGO_BIN_EXE_tutti-lab").as_ref());
    let lab = |words: &[&str]| {
        let mut command = users.foreign(uid, &program);
        command.args(words).env("TUTTI_LAB_DIR", users.folder(uid)).env("TUTTI_DIST", users.programs());
        run(&mut command, LIMIT)
    };
    let up = lab(&["up", "2", "--bare"]);
    if up.stderr.contains("this user may not make namespaces") {
        assert_eq!(up.stderr.lines().count(), 1, "{up}");
        return tutti_testkit::skip(Need::Lab, "users may not make user namespaces here");
    }
    up.expect_success();
    assert_eq!(lab(&["at", "1", "sh", "-c", "id -u; hostname"]).expect_success().stdout, "0\nnode1\n");
    let silent = lab(&["at", "1", "sh", "-c", "echo x >/tmp/x; ls /home /tmp"]).expect_success();
    assert!(silent.stdout.contains('x'), "{silent}");
    lab(&["pause", "1"]).expect_success();
    lab(&["resume", "1"]).expect_success();
    lab(&["kill", "1"]).expect_success();
    lab(&["boot", "1"]).expect_success();
    let alice = lab(&["at", "--user", "alice", "0", "true"]);
    assert!(alice.code() == 1 && alice.stderr.contains("the machines have no user alice"), "{alice}");
    lab(&["down"]).expect_success();
}
