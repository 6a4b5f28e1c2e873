//! The switch threads' own way from node to node: what happens when nothing gets through there, and when
//! strangers write to it.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::cluster::Cluster;
use crate::harness::{LIMIT, Running, await_that};
use crate::turns::Turns;

const LOST: &str = "no datagrams of the switch thread get through to node";
const AGAIN: &str = "datagrams of the switch thread get through to node 0 again";

/// Two jobs on all three nodes of a cluster that take turns of 5 ms.
fn two_jobs(cluster: &Cluster) -> Option<([Running; 2], Turns)> {
    let jobs = [1, 2].map(|job| {
        let running = cluster.start(&["run", "-N", "3", "-n", "3", "sh", "-c", "while :; do :; done"]);
        await_that("it runs", || cluster.job(job).contains("\"running\""));
        running
    });
    let mut turns = Turns::of(&[&jobs[0], &jobs[1]])?;
    turns.await_more(20, LIMIT);
    Some((jobs, turns))
}

fn log(cluster: &Cluster, node: u32) -> String {
    std::fs::read_to_string(cluster.folder.join(format!("node{node}.log"))).expect("its log")
}

/// Where a daemon hears others.
fn address(cluster: &Cluster, node: u32) -> SocketAddr {
    let log = log(cluster, node);
    let line = log.lines().find(|line| line.contains("listens on ")).expect("its first line");
    line.rsplit(' ').next().and_then(|address| address.parse().ok()).expect("an address")
}

/// A daemon's socket for datagrams, also ours from now on.
fn socket_of(daemon: Pid, address: SocketAddr) -> OwnedFd {
    let pidfd = pidfd_open(daemon, PidfdFlags::empty()).expect("it lives");
    let files =
        std::fs::read_dir(format!("/proc/{}/fd", daemon.as_raw_nonzero())).expect("it lives").flatten();
    let numbers = files.filter_map(|file| file.file_name().to_str()?.parse().ok());
    let sockets = numbers.filter_map(|number| pidfd_getfd(&pidfd, number, PidfdGetfdFlags::empty()).ok());
    let is_it = |socket: &OwnedFd| {
        let is_udp = rustix::net::sockopt::socket_type(socket)
            .is_ok_and(|kind| kind == rustix::net::SocketType::DGRAM);
        is_udp && rustix::net::getsockname(socket).is_ok_and(|name| SocketAddr::try_from(name) == Ok(address))
    };
    sockets.into_iter().find(is_it).expect("its socket for datagrams")
}

#[test]
fn switch_link_falls_back_to_tls_without_datagrams() {
    let cluster = Cluster::up("gang-lanes", 3, &["--slice", "5", "--slots", "1"]);
    let Some((_jobs, mut turns)) = two_jobs(&cluster) else { return };
    let socket = socket_of(cluster.daemon(1), address(&cluster, 1));
    // A socket that is connected gets datagrams of that address only, and sends as before.
    let nobody: SocketAddr = "127.0.0.1:9".parse().expect("an address");
    rustix::net::connect(&socket, &nobody).expect("it is a socket");
    await_that("both sides have noticed", || {
        log(&cluster, 0).contains(LOST) && log(&cluster, 1).contains(LOST)
    });
    turns.await_more(50, LIMIT);
    rustix::net::connect_unspec(&socket).expect("it is a socket");
    await_that("the way is used again", || {
        turns.look();
        log(&cluster, 1).contains(AGAIN)
    });
    turns.await_more(20, LIMIT);
}

#[test]
fn switch_link_refuses_unknown_senders() {
    let cluster = Cluster::up("gang-strangers", 3, &["--slice", "5", "--slots", "1"]);
    let Some((_jobs, mut turns)) = two_jobs(&cluster) else { return };
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let places = [0, 1, 2].map(|node| address(&cluster, node));
    let mut byte = 0_u8;
    for _ in 0..200 {
        for place in places {
            for length in [0, 1, 16, 31, 32, 33, 64, 1200, 9000] {
                byte = byte.wrapping_mul(141).wrapping_add(3);
                stranger.send_to(&vec![byte; length], place).expect("loopback takes all");
            }
        }
        turns.await_more(1, Duration::from_secs(20));
    }
    for node in 0..3 {
        await_that("it was said", || {
            log(&cluster, node).contains("refused at the switch thread's port so far: ")
        });
    }
}
