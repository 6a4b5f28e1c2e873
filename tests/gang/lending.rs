//! Clients that lend the jobs of their services the rest of their own turns.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use rustix::fs::{CWD, Mode, mkfifoat};
use tutti_testkit::{Need, has_command};
use tutti_tests::{Scratch, compile_with};

use crate::Cluster;
use crate::harness::{Running, await_that};
use crate::turns::Turns;

/// Time of computing between two calls, in us.
const BETWEEN: &str = "1000";

struct Lending {
    cluster: Cluster,
    scratch: Scratch,
    server: Running,
    client: Running,
    turns: Turns,
}

impl Lending {
    /// A server that works and a client that computes, on one slot: the client has its turn, and the server
    /// stands still. None where there is no compiler, or no cgroup.
    #[track_caller]
    fn start(name: &str, slice_ms: &str, calls: &str) -> Option<Self> {
        if !has_command(Need::Cxx, "c++") {
            return None;
        }
        let cluster = Cluster::up(name, 1, &["--slice", slice_ms, "--slots", "1"]);
        let scratch = Scratch::new(&format!("{name}-files"));
        let program = compile_with("tutticxx", "tests/gang/programs/lending.cpp", scratch.path());
        let program = program.to_string_lossy();
        let service = format!("{name}-{}", std::process::id());
        let pipe = scratch.path().join("begin");
        mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).expect("a pipe");
        let mut begin = OpenOptions::new().read(true).write(true).open(&pipe).expect("the pipe");
        let mut server =
            cluster.start(&["run", "-n", "1", &program, "serve", &service, &pipe.to_string_lossy()]);
        server.await_line("lending: serving");
        let folder = scratch.path().to_string_lossy().into_owned();
        let words = ["run", "-n", "1", &program, "ask", &service, &folder, calls, BETWEEN];
        let mut client = cluster.start(&words);
        // The server sleeps until its worker is ordered to begin: the turn is the client's.
        client.await_line("lending: computes");
        let turns = Turns::of(&[&server, &client])?;
        begin.write_all(b"\n").expect("the pipe");
        await_that("the worker begins", || rustix::io::ioctl_fionread(&begin) == Ok(0));
        // If it has got a turn by now, this ends it.
        cluster.tutti(&["suspend", "1"]).expect_success();
        await_that("the server stands still", || turns.is_frozen(0));
        let both = Lending { cluster, scratch, server, client, turns };
        both.cluster.tutti(&["resume", "1"]).expect_success();
        Some(both)
    }

    fn tell(&self, what: &str) {
        let path: &Path = self.scratch.path();
        std::fs::write(path.join(what), "").expect("a scratch file");
    }

    fn has(&self, what: &str) -> bool {
        self.scratch.path().join(what).exists()
    }
}

// Paper: C28
#[test]
fn lending_serves_a_client_whose_server_has_no_turn() {
    let Some(mut both) = Lending::start("gang-lending", "3600000", "50") else { return };
    assert!(both.turns.is_frozen(0), "it is the client's hour");
    // Whoever answers from now on does it in that hour.
    both.tell("call");
    both.client.await_line("lending: answered");
    assert!(!both.turns.is_frozen(1), "it still is");
    await_that("the server stands still again", || both.turns.is_frozen(0));
    // One that is suspended is not lent anything: the call waits until it may be.
    both.cluster.tutti(&["suspend", "1"]).expect_success();
    both.tell("end");
    both.client.await_line("lending: stops it");
    assert!(!both.has("ended"), "nobody has answered");
    both.cluster.tutti(&["resume", "1"]).expect_success();
    let (client, server) = (both.client.end(), both.server.end());
    assert_eq!((client.0, server.0), (0, 0), "{client:?} {server:?}");
}

/// The daemon dies in the middle of calls: all are answered, in whosever turn.
#[test]
fn lending_goes_on_when_the_daemon_is_another() {
    let Some(both) = Lending::start("gang-lending-anew", "500", "300") else { return };
    both.tell("call");
    await_that("the first call is lent the turn", || !both.turns.is_frozen(0));
    both.cluster.replace(0);
    await_that("all calls are answered", || both.has("answered"));
    both.tell("end");
    await_that("the client ends", || both.has("ended"));
    both.client.mark.assert_nothing_left();
    both.server.mark.assert_nothing_left();
}

#[test]
fn lending_names_services_that_wait_for_each_other() {
    if !has_command(Need::Cxx, "c++") {
        return;
    }
    let cluster = Cluster::up("gang-lending-ring", 1, &["--slots", "3"]);
    let scratch = Scratch::new("gang-lending-ring-files");
    let program = compile_with("tutticxx", "tests/gang/programs/lending.cpp", scratch.path());
    let program = program.to_string_lossy();
    let names = ["one", "other"].map(|name| format!("ring-{name}-{}", std::process::id()));
    let serve = |own: &str, other: &str| {
        let mut job = cluster.start(&["run", "-n", "1", &program, "ring", own, other]);
        job.await_line("lending: serving");
        job
    };
    let jobs = [serve(&names[0], &names[1]), serve(&names[1], &names[0])];
    let poke = cluster.start(&["run", "-n", "1", &program, "poke", &names[0]]);
    let line = "job 1 waits for a service of job 2 waits for a service of job 1";
    await_that("the ring is named", || {
        std::fs::read_to_string(cluster.folder.join("node0.log")).is_ok_and(|log| log.contains(line))
    });
    for (number, job) in (1..).zip(jobs) {
        cluster.tutti(&["kill", &number.to_string()]).expect_success();
        assert_eq!(job.end().0, 137);
    }
    assert_ne!(poke.end().0, 0, "nobody has answered it");
}
