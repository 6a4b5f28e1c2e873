//! A rank that stood still does not take that for silence of the others: no timer fires because of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use tutti_channel::Source;
use tutti_runtime::attach::{Network, Place};
use tutti_runtime::job::Job;
use tutti_runtime::net::Net;
use tutti_shm::daemon_page::{DaemonPage, Page, Teller};
use tutti_shm::layout::Geometry;
use tutti_shm::peers::Peers;
use tutti_shm::segment::Segment;
use tutti_transport::udp;

/// Longer than anybody waits for an acknowledgement.
const STILL: Duration = Duration::from_millis(200);

/// No bulk messages are sent.
struct NoBulk;

impl Source for NoBulk {
    fn read(&mut self, _tag: u64, _offset: u64, _into: &mut [u8]) {
        panic!("no bulk message was sent");
    }
}

fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A rank of a job on two nodes, whose other rank never answers; and the daemon's way to tell it of its
/// turns.
fn rank() -> (Net, Teller, Job, [OwnedFd; 2]) {
    let open = || udp::open(Ipv4Addr::LOCALHOST.into()).expect("a socket on the loopback");
    let made: [(OwnedFd, SocketAddr); 2] = [open(), open()];
    let addresses = made.iter().map(|(_, address)| *address).collect();
    let geometry = Geometry { world_ranks: 2, local_ranks: 1, cores: 2, ..Geometry::default() };
    let page = DaemonPage::create().expect("a page");
    // SAFETY: no arguments.
    let user = unsafe { libc::geteuid() };
    let teller = DaemonPage::adopt(page.descriptor(), user, now_ns()).expect("our own page");
    let sockets = made.map(|(socket, _)| socket);
    let job = Job::enter(Place {
        segment: Segment::create(geometry).expect("a segment"),
        page: Some(Page::read(page.reading_end().expect("/proc").as_fd()).expect("our own page")),
        local_rank: 0,
        network: Some(Network {
            peers: Peers::new(0x5eed, 8192, vec![0, 1], 2, addresses).expect("two nodes of one rank"),
            socket: sockets[0].try_clone().expect("dup"),
        }),
        starter: None,
        remark: None,
        spawned: None,
    });
    let net = Net::open(&job).expect("a way").expect("two nodes");
    (net, teller, job, sockets)
}

#[test]
fn frozen_rank_sends_no_probe_when_thawed() {
    let (mut net, mut daemon, job, _sockets) = rank();
    for round in 1..=3 {
        // As if it had been frozen at the instruction before the first: what passes until it is told does not
        // count either.
        daemon.begin(now_ns());
        if round == 1 {
            net.try_send(1, b"head", b"body").expect("there is room");
            net.transmit(&mut NoBulk);
        }
        std::thread::sleep(STILL);
        daemon.end(now_ns());
        net.handle_timeout();
        net.transmit(&mut NoBulk);
        assert_eq!(net.traffic().probes, 0, "round {round}");
        assert!(net.timeout_ns().is_some(), "the answer is still due");
    }
    let reported = job.clock().turns();
    assert!(
        reported.thaw_count == 3 && reported.frozen_ns_total >= 3 * STILL.as_nanos() as u64,
        "{reported:?}"
    );
}

#[test]
fn running_rank_sends_a_probe_after_the_same_time() {
    let (mut net, _daemon, _job, _sockets) = rank();
    net.try_send(1, b"head", b"body").expect("there is room");
    net.transmit(&mut NoBulk);
    std::thread::sleep(STILL);
    net.handle_timeout();
    net.transmit(&mut NoBulk);
    assert_eq!(net.traffic().probes, 1);
}
