//! Sockets of daemons that were killed: they stay, and nobody answers there. A command that needs a daemon
//! says so; it never shows an empty table.

use std::os::unix::net::UnixListener;

use tutti_tests::{Scratch, program};

use crate::cluster::{Cluster, SLOWLY_LOST};
use crate::harness::{LIMIT, await_that};

/// Commands about what is now, which only a daemon knows.
const OF_NOW: [&[&str]; 14] = [
    &["ps"],
    &["ps", "--json"],
    &["ps", "-l"],
    &["ps", "--user", "root"],
    &["prices"],
    &["prices", "--json"],
    &["nodes"],
    &["nodes", "--json"],
    &["top", "--once"],
    &["top", "--json"],
    &["advise"],
    &["why", "1"],
    &["kill", "1"],
    &["snapshot", "1"],
];

#[track_caller]
fn expect_no_daemon(command: &mut std::process::Command, words: &[&str]) {
    let ran = tutti_tests::run(command, LIMIT);
    let line = format!("tutti {}: no daemon answers at ", words[0]);
    assert!(ran.stderr.starts_with(&line) && ran.stderr.lines().count() == 1, "{words:?}: {ran}");
    assert!(ran.code() != 0 && ran.stdout.is_empty(), "{words:?}: {ran}");
}

/// With and without a variable that names it.
#[test]
fn stale_socket_is_no_empty_table() {
    let scratch = Scratch::new("cluster-stale");
    let socket = scratch.path().join("tuttid.sock");
    drop(UnixListener::bind(&socket).expect("a socket"));
    for words in OF_NOW {
        let mut command = program("tutti");
        command.args(words).env("TUTTI_DIR", scratch.path());
        expect_no_daemon(command.env_remove("TUTTI_DAEMON"), words);
        expect_no_daemon(command.env("TUTTI_DAEMON", &socket), words);
    }
}

/// Jobs of its node go on meanwhile, and the next daemon answers as the one before did.
#[test]
fn commands_beside_a_killed_daemon_of_a_node_say_so_until_the_next() {
    let cluster = Cluster::up("cluster-dead-daemon", 2, &SLOWLY_LOST);
    let submitted = cluster.start(&["submit", "-N", "2", "-n", "2", "sleep", "3600"]);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    let gone = cluster.kill_daemon_as_it_is(1);
    for words in OF_NOW {
        expect_no_daemon(&mut cluster.command_on(1, words), words);
    }
    gone.start();
    for node in [0, 1] {
        await_that("the next daemon answers", || {
            let rows = |words: &[&str]| tutti_tests::run(&mut cluster.command_on(node, words), LIMIT).stdout;
            rows(&["ps", "--json"]).contains("\"running\"") && !rows(&["nodes"]).contains(" lost ")
        });
    }
    cluster.tutti(&["kill", "1"]).expect_success();
    submitted.mark.assert_nothing_left();
}
