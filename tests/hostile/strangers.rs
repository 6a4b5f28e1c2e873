//! Connections of strangers to the control port hold places there: a node's daemon finds its way back
//! nevertheless.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tutti_tests::await_that;

use crate::Machine;

/// More than there are places for all.
const CONNECTIONS: usize = 400;

/// Keeps connections that say nothing, also in place of those that are closed.
fn hold(address: SocketAddr, goes_on: &AtomicBool, is_full: &AtomicBool) {
    let mut held: Vec<TcpStream> = Vec::new();
    while goes_on.load(Ordering::Relaxed) {
        held.retain(|stream| {
            let mut byte = [0];
            // Nothing has come, or it is closed.
            stream.peek(&mut byte).is_err()
        });
        while held.len() < CONNECTIONS {
            let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_secs(5)) else { break };
            stream.set_nonblocking(true).expect("a socket");
            held.push(stream);
        }
        is_full.store(true, Ordering::Relaxed);
        std::thread::yield_now();
    }
}

#[test]
fn daemon_comes_back_while_strangers_hold_all_places_of_the_control_port() {
    // Longer than the test waits for the node: the wait decides, and no time limit of the cluster's.
    let Some(machine) = Machine::up("hostile-strangers", 2, 1, &["--lost-after", "60"]) else { return };
    let log = std::fs::read_to_string(machine.cluster.folder.join("node0.log")).expect("its log");
    let line = log.lines().find(|line| line.contains("listens on ")).expect("its first line");
    let address: SocketAddr = line.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("an address");
    let job = machine.cluster.tutti(&["submit", "-N", "2", "-n", "2", "sleep", "1000"]).expect_success();
    let job: u32 = job.stdout.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number");
    machine.await_state(job, "running");
    let (goes_on, is_full) = (AtomicBool::new(true), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| machine.as_user(0, |_| hold(address, &goes_on, &is_full)));
        await_that("all places are held", || is_full.load(Ordering::Relaxed));
        machine.cluster.replace(1);
        let is_back = || {
            let text = machine.cluster.tutti(&["nodes", "--json"]).stdout;
            text.matches("\"alive\": true").count() == 2
        };
        await_that("the node is back", is_back);
        goes_on.store(false, Ordering::Relaxed);
    });
    assert_eq!(machine.row(job)["state"], "running", "{}", machine.row(job));
    machine.cluster.tutti(&["kill", &job.to_string()]).expect_success();
}
