//! Two engines, each with a segment and a thread of its own, over UDP on the loopback interface.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use tutti_datatype::Buffer;
use tutti_runtime::attach::{Network, Place};
use tutti_runtime::job::Job;
use tutti_runtime::net::Net;
use tutti_runtime::router::Router;
use tutti_shm::layout::Geometry;
use tutti_shm::peers::Peers;
use tutti_shm::segment::Segment;
use tutti_transport::udp;

use super::Engine;
use super::message::{Message, Mode, REMOTE_WRITE_BYTES_MIN};
use crate::abi::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_ERR_TRUNCATE};
use crate::request::{Request, RequestKind, Started};

pub(super) const CONTEXT: u32 = 40;

fn engine(rank: u32, socket: OwnedFd, addresses: &[SocketAddr]) -> Engine {
    let world_ranks = addresses.len() as u32;
    let geometry = Geometry {
        world_ranks,
        local_ranks: 1,
        first_rank: rank,
        node: rank,
        cores: 2,
        ..Geometry::default()
    };
    let peers = Peers::new(77, 8192, (0..world_ranks).collect(), world_ranks, addresses.to_vec()).unwrap();
    let job = Job::enter(Place {
        segment: Segment::create(geometry).unwrap(),
        page: None,
        local_rank: 0,
        network: Some(Network { peers, socket }),
        starter: None,
        remark: None,
        spawned: None,
    });
    let router = Net::open(&job).unwrap().map(|net| Rc::new(RefCell::new(Router::new(net, job.ranks()))));
    Engine::new(job, router, None)
}

/// Rank 1 of two. Rank 0 has an address, and is not there.
pub(super) fn single() -> Engine {
    let open = || udp::open(Ipv4Addr::LOCALHOST.into()).unwrap();
    let ((_absent, first), (socket, second)) = (open(), open());
    engine(1, socket, &[first, second])
}

fn data(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 251 + seed * 13) as u8).collect()
}

/// Runs `left` as rank 0 and `right` as rank 1; both go on making progress until nothing is owed.
pub(super) fn pair(left: impl FnOnce(&mut Engine) + Send, right: impl FnOnce(&mut Engine) + Send) {
    let (sockets, addresses): (Vec<OwnedFd>, Vec<SocketAddr>) =
        (0..2).map(|_| udp::open(Ipv4Addr::LOCALHOST.into()).unwrap()).unzip();
    let mut sockets = sockets.into_iter();
    let (first, second) = (sockets.next().unwrap(), sockets.next().unwrap());
    let flushed = AtomicU32::new(0);
    let run = |rank: u32, socket, play: Box<dyn FnOnce(&mut Engine) + Send + '_>| {
        let mut engine = engine(rank, socket, &addresses);
        play(&mut engine);
        let mut counted = false;
        // Who is done still acknowledges what the other sends.
        while flushed.load(Ordering::Acquire) < 2 {
            engine.progress(None);
            if !counted && engine.is_flushed() {
                counted = true;
                flushed.fetch_add(1, Ordering::AcqRel);
            }
        }
    };
    std::thread::scope(|scope| {
        let (left, right) = (Box::new(left), Box::new(right));
        scope.spawn(|| run(0, first, left));
        scope.spawn(|| run(1, second, right));
    });
}

pub(super) fn send(engine: &mut Engine, to: u32, tag: i32, data: &[u8], mode: Mode) -> Option<u32> {
    let buffer = Buffer::contiguous(data.as_ptr().cast_mut(), data.len());
    match engine.send(Message { to, context: CONTEXT, tag, buffer, mode }) {
        Started::Done => None,
        Started::Pending(request) => Some(request),
    }
}

pub(super) fn receive(engine: &mut Engine, from: i32, tag: i32, into: &mut [u8]) -> u32 {
    let buffer = Buffer::contiguous(into.as_mut_ptr(), into.len());
    engine.receive(Request::new(RequestKind::Receive, buffer, CONTEXT, from, tag))
}

fn finish(engine: &mut Engine, request: Option<u32>) -> Option<Request> {
    let request = request?;
    while !engine.requests.get(request).done {
        engine.progress(Some(engine.requests.get(request).peer.max(0) as usize));
    }
    Some(engine.requests.remove(request))
}

/// Around every limit: one record, several records, in bulk.
const SIZES: [usize; 12] =
    [0, 1, 40, 41, 1300, 8000, 8200, 20_000, 32 << 10, (32 << 10) + 1, 300_000, 5_000_000];

#[test]
fn remote_messages_of_every_size_arrive_in_order() {
    pair(
        |engine| {
            for (tag, bytes) in SIZES.into_iter().enumerate() {
                for mode in [Mode::Standard, Mode::Synchronous] {
                    let data = data(tag, bytes);
                    let request = send(engine, 1, tag as i32, &data, mode);
                    finish(engine, request);
                }
            }
        },
        |engine| {
            for (tag, bytes) in SIZES.into_iter().enumerate() {
                for round in 0..2 {
                    // The first is mostly unexpected.
                    if round == 0 {
                        std::thread::sleep(std::time::Duration::from_millis(2));
                        engine.progress(None);
                    }
                    let mut into = vec![0; bytes];
                    let source = if round == 0 { 0 } else { MPI_ANY_SOURCE };
                    let request = receive(engine, source, MPI_ANY_TAG, &mut into);
                    let request = finish(engine, Some(request)).unwrap();
                    assert_eq!((request.peer, request.tag, request.bytes), (0, tag as i32, bytes));
                    assert!(into == data(tag, bytes), "{bytes} bytes arrived changed");
                }
            }
        },
    );
}

#[test]
fn remote_longer_message_is_truncated() {
    pair(
        |engine| {
            for bytes in SIZES {
                let data = data(1, bytes);
                let request = send(engine, 1, 0, &data, Mode::Standard);
                finish(engine, request);
            }
        },
        |engine| {
            for bytes in SIZES {
                let room = bytes / 2;
                let mut into = vec![0xee; room + 64];
                let request = receive(engine, 0, 0, &mut into[..room]);
                let request = finish(engine, Some(request)).unwrap();
                assert_eq!(request.bytes, bytes);
                assert_eq!(request.error == MPI_ERR_TRUNCATE, bytes > room);
                assert_eq!(into[..room], data(1, bytes)[..room]);
                assert!(into[room..].iter().all(|byte| *byte == 0xee));
            }
        },
    );
}

#[test]
fn remote_floods_in_both_directions_end() {
    const MESSAGES: usize = 1200;
    let play = |me: u32| {
        move |engine: &mut Engine| {
            let other = 1 - me;
            let size = |number: usize| SIZES[number % 9];
            let mut sent = Vec::new();
            for number in 0..MESSAGES {
                let bytes = data(number + me as usize, size(number));
                let request = send(engine, other, number as i32, &bytes, Mode::Standard);
                sent.push((request, bytes));
            }
            // Backwards inside windows: most are unexpected, and many had to be announced.
            for window in (0..MESSAGES).collect::<Vec<_>>().chunks(100) {
                for &number in window.iter().rev() {
                    let mut into = vec![0; size(number)];
                    let request = receive(engine, other as i32, number as i32, &mut into);
                    finish(engine, Some(request));
                    assert!(into == data(number + other as usize, size(number)), "message {number}");
                }
            }
            for (request, _bytes) in sent {
                finish(engine, request);
            }
        }
    };
    pair(play(0), play(1));
}

/// Waits until both have come here.
fn meet(meeting: &AtomicU32, round: u32, engine: &mut Engine) {
    meeting.fetch_add(1, Ordering::AcqRel);
    while meeting.load(Ordering::Acquire) < 2 * round {
        engine.progress(None);
    }
}

/// Around the size from which messages are written.
const WRITTEN: [usize; 4] = [REMOTE_WRITE_BYTES_MIN + 1, REMOTE_WRITE_BYTES_MIN + 8192, 300_000, 3_000_001];

#[test]
fn remote_write_goes_to_the_receive_that_came_first() {
    let meeting = AtomicU32::new(0);
    pair(
        |engine| {
            for (round, bytes) in WRITTEN.into_iter().enumerate() {
                let data = data(round, bytes);
                meet(&meeting, round as u32 + 1, engine);
                // The receive is advertised by a datagram that is on its way.
                while engine.requests_advertised(1) == 0 {
                    engine.progress(None);
                }
                let mode = if round == 1 { Mode::Synchronous } else { Mode::Standard };
                let request = send(engine, 1, 5, &data, mode);
                finish(engine, request);
            }
            let all = WRITTEN.iter().sum::<usize>() as u64;
            let counters = engine.counters;
            assert_eq!((counters.remote_write, counters.written_bytes, counters.rendezvous), (4, all, 0));
        },
        |engine| {
            for (round, bytes) in WRITTEN.into_iter().enumerate() {
                let mut into = vec![0; bytes];
                let tag = if round == 2 { MPI_ANY_TAG } else { 5 };
                let request = receive(engine, 0, tag, &mut into);
                meet(&meeting, round as u32 + 1, engine);
                let request = finish(engine, Some(request)).unwrap();
                assert_eq!((request.peer, request.tag, request.bytes, request.error), (0, 5, bytes, 0));
                assert!(into == data(round, bytes), "{bytes} bytes arrived changed");
            }
            assert_eq!(engine.counters.rtr, 4);
        },
    );
}

#[test]
fn remote_write_leaves_alone_what_another_message_takes() {
    let meeting = AtomicU32::new(0);
    let room = WRITTEN[1];
    // A small message, and one that crosses the receive.
    let others = [100, 30_000];
    pair(
        |engine| {
            for (round, bytes) in others.into_iter().enumerate() {
                meet(&meeting, round as u32 + 1, engine);
                let data = data(round, bytes);
                let request = send(engine, 1, 5, &data, Mode::Standard);
                finish(engine, request);
            }
            assert_eq!(engine.counters.remote_write, 0);
        },
        |engine| {
            for (round, bytes) in others.into_iter().enumerate() {
                let mut into = vec![0xee; room];
                let request = receive(engine, 0, 5, &mut into);
                meet(&meeting, round as u32 + 1, engine);
                let request = finish(engine, Some(request)).unwrap();
                assert_eq!((request.bytes, request.error == MPI_ERR_TRUNCATE), (bytes, bytes > room));
                let here = bytes.min(room);
                assert!(into[..here] == data(round, bytes)[..here], "{bytes} bytes arrived changed");
                assert!(into[here..].iter().all(|byte| *byte == 0xee), "bytes behind the message changed");
            }
        },
    );
}

#[test]
fn remote_write_ends_where_message_or_receive_ends() {
    let meeting = AtomicU32::new(0);
    let room = WRITTEN[1];
    let others = [room - 1, REMOTE_WRITE_BYTES_MIN + 1, room, room + 1, 2 * room];
    pair(
        |engine| {
            for (round, bytes) in others.into_iter().enumerate() {
                meet(&meeting, round as u32 + 1, engine);
                while engine.requests_advertised(1) == 0 {
                    engine.progress(None);
                }
                let data = data(round, bytes);
                let request = send(engine, 1, 5, &data, Mode::Standard);
                finish(engine, request);
            }
            assert_eq!((engine.counters.remote_write, engine.counters.rendezvous), (5, 0));
        },
        |engine| {
            for (round, bytes) in others.into_iter().enumerate() {
                let mut into = vec![0xee; room + 100];
                let request = receive(engine, 0, 5, &mut into[..room]);
                meet(&meeting, round as u32 + 1, engine);
                let request = finish(engine, Some(request)).unwrap();
                assert_eq!((request.bytes, request.error == MPI_ERR_TRUNCATE), (bytes, bytes > room));
                let here = bytes.min(room);
                assert!(into[..here] == data(round, bytes)[..here], "{bytes} bytes arrived changed");
                assert!(into[here..].iter().all(|byte| *byte == 0xee), "bytes behind the message changed");
            }
        },
    );
}

/// A synchronous message is announced once; then its sender knows of the receives that come first.
#[test]
fn remote_write_has_synchronous_messages_of_every_size() {
    let sizes = [8, 0, 1, 1000, 20_000, REMOTE_WRITE_BYTES_MIN, 3, 100_000];
    let room = |bytes: usize| bytes.max(4);
    let meeting = AtomicU32::new(0);
    pair(
        |engine| {
            for (round, bytes) in sizes.into_iter().enumerate() {
                meet(&meeting, round as u32 + 1, engine);
                while round > 0 && engine.requests_advertised(1) == 0 {
                    engine.progress(None);
                }
                let data = data(round, bytes);
                let request = send(engine, 1, 5, &data, Mode::Synchronous);
                assert!(bytes > 1000 || round == 0 || request.is_none(), "{bytes} B wait for an answer");
                finish(engine, request);
                // Others between them are not advertised, and change nothing.
                let request = send(engine, 1, 6, &[7; 40], Mode::Standard);
                finish(engine, request);
            }
            let counters = engine.counters;
            assert_eq!((counters.remote_write, counters.rendezvous), (sizes.len() as u64 - 1, 1));
        },
        |engine| {
            for (round, bytes) in sizes.into_iter().enumerate() {
                let mut into = vec![0xee; room(bytes)];
                let request = receive(engine, 0, 5, &mut into);
                let mut other = [0; 40];
                let second = receive(engine, 0, 6, &mut other);
                meet(&meeting, round as u32 + 1, engine);
                let request = finish(engine, Some(request)).unwrap();
                assert_eq!((request.peer, request.tag, request.bytes, request.error), (0, 5, bytes, 0));
                assert!(into[..bytes] == data(round, bytes), "{bytes} bytes arrived changed");
                assert!(into[bytes..].iter().all(|byte| *byte == 0xee), "bytes behind the message changed");
                finish(engine, Some(second));
            }
            assert_eq!(engine.counters.rtr, sizes.len() as u64 - 1);
        },
    );
}

/// Eager messages turn it off again.
#[test]
fn remote_write_tells_no_receive_for_what_comes_eagerly() {
    let meeting = AtomicU32::new(0);
    let modes = [Mode::Synchronous, Mode::Standard, Mode::Standard, Mode::Standard];
    pair(
        |engine| {
            for (round, mode) in modes.into_iter().enumerate() {
                meet(&meeting, round as u32 + 1, engine);
                let data = data(round, 5000);
                let request = send(engine, 1, 5, &data, mode);
                finish(engine, request);
            }
            assert_eq!((engine.counters.remote_write, engine.counters.rendezvous), (0, 1));
        },
        |engine| {
            for round in 0..modes.len() {
                let mut into = vec![0; 5000];
                let request = receive(engine, 0, 5, &mut into);
                meet(&meeting, round as u32 + 1, engine);
                finish(engine, Some(request));
                assert!(into == data(round, 5000));
            }
            assert_eq!(engine.counters.rtr, 1);
        },
    );
}

#[test]
fn remote_write_is_cancelled_by_agreement() {
    let meeting = AtomicU32::new(0);
    let bytes = WRITTEN[0];
    pair(
        |engine| {
            meet(&meeting, 1, engine);
            meet(&meeting, 2, engine);
            // The second receive takes what the first would have.
            let data = data(2, bytes);
            let request = send(engine, 1, 5, &data, Mode::Standard);
            finish(engine, request);
        },
        |engine| {
            let (mut first, mut second) = (vec![0xee; bytes], vec![0; bytes]);
            let cancelled = receive(engine, 0, 5, &mut first);
            let kept = receive(engine, 0, 5, &mut second);
            meet(&meeting, 1, engine);
            engine.cancel(cancelled);
            // Once is enough.
            engine.cancel(cancelled);
            assert!(finish(engine, Some(cancelled)).unwrap().cancelled);
            meet(&meeting, 2, engine);
            let request = finish(engine, Some(kept)).unwrap();
            assert!(!request.cancelled && second == data(2, bytes));
            assert!(first.iter().all(|byte| *byte == 0xee));
        },
    );
}
