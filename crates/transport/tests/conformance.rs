//! The contract of `Transport`, run on every implementation: each test makes a few ends that know each other
//! and looks at what arrives.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use tutti_transport::faults::{Faults, Faulty};
use tutti_transport::sim;
use tutti_transport::udp::{self, Udp};
use tutti_transport::{Arrival, Datagram, Outgoing, Places, Transport};

/// Time within which what is awaited comes.
const LIMIT: Duration = Duration::from_secs(20);

type Ends = Vec<Box<dyn Transport>>;

fn sockets(peers: usize) -> (Vec<std::os::fd::OwnedFd>, Vec<SocketAddr>) {
    (0..peers)
        .map(|_| udp::open(Ipv4Addr::LOCALHOST.into()).expect("a socket on the loopback interface"))
        .unzip()
}

fn udp_ends(peers: usize) -> Ends {
    let (sockets, table) = sockets(peers);
    let attach = |socket| Box::new(Udp::attach(socket, &table).expect("a UDP socket")) as Box<dyn Transport>;
    sockets.into_iter().map(attach).collect()
}

fn plain_udp_ends(peers: usize) -> Ends {
    let (sockets, table) = sockets(peers);
    let attach =
        |socket| Box::new(Udp::attach_plainly(socket, &table).expect("a UDP socket")) as Box<dyn Transport>;
    sockets.into_iter().map(attach).collect()
}

/// The same with two ends that know nobody but each other.
fn settled_udp_ends(peers: usize) -> Ends {
    let (sockets, table) = sockets(peers);
    let attach = |(own, socket): (usize, _)| {
        let mut end = Udp::attach(socket, &table).expect("a UDP socket");
        end.settle_on((peers - 1 - own) as u32).expect("a way");
        Box::new(end) as Box<dyn Transport>
    };
    sockets.into_iter().enumerate().map(attach).collect()
}

fn sim_ends(peers: usize) -> Ends {
    let ends = sim::network(peers, 1 << 20, 16 << 10);
    ends.into_iter().map(|end| Box::new(end) as Box<dyn Transport>).collect()
}

fn faultless_ends(peers: usize) -> Ends {
    let wrap = |(own, end): (usize, Box<dyn Transport>)| {
        Box::new(Faulty::new(end, Faults::default(), own as u32)) as Box<dyn Transport>
    };
    sim_ends(peers).into_iter().enumerate().map(wrap).collect()
}

/// Bytes that tell their number and place.
fn pattern(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (number * 31 + at * 7 + at / 251) as u8).collect()
}

/// Takes everything until `count` datagrams have come, and then whatever comes still.
fn collect(end: &mut dyn Transport, count: usize) -> Vec<(u32, Vec<u8>)> {
    let start = Instant::now();
    let mut arrived = Vec::new();
    loop {
        let mut taken = 0;
        let said = end
            .receive(&mut |Datagram { peer, bytes }| {
                taken += 1;
                arrived.push((peer, bytes.to_vec()));
            })
            .expect("a transport that works");
        assert_eq!(said, taken);
        if taken == 0 && arrived.len() >= count {
            return arrived;
        }
        assert!(start.elapsed() < LIMIT, "{count} datagrams were awaited, {} have come", arrived.len());
    }
}

/// Sends all of it, however often the transport says that there is no room.
fn send_all(end: &mut dyn Transport, batch: &[Outgoing<'_>]) {
    let start = Instant::now();
    let mut gone = 0;
    while gone < batch.len() {
        gone += end.send(&batch[gone..]).expect("a transport that works");
        assert!(start.elapsed() < LIMIT, "{gone} of {} datagrams are gone", batch.len());
    }
}

/// Every length from 1 byte to the longest arrives whole, with head and body in order.
fn transport_datagrams_of_every_length_arrive_whole(mut ends: Ends) {
    let longest = ends[0].datagram_bytes_max();
    assert!(longest >= 1200, "{longest}");
    for bytes in [1, 2, 3, 63, 64, 65, 1000, 1200, longest - 1, longest] {
        let data = pattern(bytes, bytes);
        for cut in [0, 1, bytes / 2, bytes] {
            let datagram = Outgoing { peer: 1, head: &data[..cut], body: &data[cut..] };
            send_all(&mut *ends[0], &[datagram]);
            assert!(collect(&mut *ends[1], 1) == [(0, data.clone())], "{bytes} bytes cut at {cut}");
        }
    }
    assert_eq!(ends[1].counters().dropped, 0);
}

/// A batch for several peers in lengths that do and do not make runs arrives in order at each, from the right
/// one.
fn transport_batches_arrive_in_order_from_the_right_peer(mut ends: Ends) {
    let peers = ends.len();
    let mut expected: Vec<Vec<(u32, Vec<u8>)>> = vec![Vec::new(); peers];
    let mut number = 0;
    for round in 0..40_usize {
        let from = round % peers;
        let data: Vec<(u32, Vec<u8>)> = (0..50)
            .map(|index| {
                number += 1;
                // To others only: not every transport reaches oneself when there are others.
                let to = (from + 1 + (if round % 2 == 0 { index / 9 } else { index }) % (peers - 1)) % peers;
                let bytes = if index % 7 == 6 { 1 + index } else { 100 + round };
                (to as u32, pattern(number, bytes))
            })
            .collect();
        let batch: Vec<Outgoing<'_>> = data
            .iter()
            .map(|(peer, bytes)| Outgoing { peer: *peer, head: &bytes[..1], body: &bytes[1..] })
            .collect();
        send_all(&mut *ends[from], &batch);
        for (to, bytes) in data {
            expected[to as usize].push((from as u32, bytes));
        }
        for (end, expected) in ends.iter_mut().zip(&mut expected) {
            let arrived = collect(&mut **end, expected.len());
            assert!(arrived == *expected, "round {round}: {} of {}", arrived.len(), expected.len());
            expected.clear();
        }
    }
}

/// Runs of one length, longer than any message of the kernel, arrive whole and in order.
fn transport_long_runs_arrive_whole(mut ends: Ends) {
    let longest = ends[0].datagram_bytes_max();
    for (count, bytes) in [(200, 40), (150, 1200), (40, longest), (3, longest), (65, 1)] {
        let count = count.min(ends[1].budget().datagrams(bytes));
        let data: Vec<Vec<u8>> = (0..count).map(|number| pattern(number, bytes)).collect();
        let batch: Vec<Outgoing<'_>> =
            data.iter().map(|bytes| Outgoing { peer: 1, head: bytes, body: &[] }).collect();
        send_all(&mut *ends[0], &batch);
        let arrived: Vec<Vec<u8>> =
            collect(&mut *ends[1], count).into_iter().map(|(_, bytes)| bytes).collect();
        assert!(arrived == data, "{count} of {bytes} bytes, {} came", arrived.len());
    }
    assert_eq!(ends[1].counters().dropped, 0);
}

/// Data lie where they are expected, or the datagrams come whole: also when others come than were expected,
/// and more.
fn transport_places_data_where_expected_or_delivers_it_whole(mut ends: Ends) {
    const HEAD: usize = 16;
    const EACH: usize = 1000;
    let mut memory = vec![0_u8; 8 * EACH - 300];
    let at = NonNull::new(memory.as_mut_ptr()).expect("memory");
    // SAFETY: the memory outlives the places, and is looked at only by what they give.
    let places = unsafe { Places::new(at, memory.len(), HEAD, EACH) };
    // Lengths of datagrams, and up to which of them they count as right.
    let cases: [(&[usize], usize); 8] = [
        (&[HEAD + EACH; 7], 7),
        (&[HEAD + EACH; 12], 7),
        (&[HEAD + EACH, HEAD + EACH, HEAD + 1], 9),
        (&[HEAD + EACH; 5], 2),
        (&[HEAD + EACH; 5], 0),
        (&[HEAD + 400; 5], 9),
        (&[HEAD], 9),
        (&[3, HEAD + EACH - 1, 5, HEAD + EACH, 1200], 9),
    ];
    for (lengths, right) in cases {
        let data: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(at, bytes)| pattern(at, *bytes)).collect();
        let batch: Vec<Outgoing<'_>> =
            data.iter().map(|bytes| Outgoing { peer: 1, head: bytes, body: &[] }).collect();
        send_all(&mut *ends[0], &batch);
        let (start, mut arrived) = (Instant::now(), Vec::new());
        while arrived.len() < data.len() {
            let mut came = 0;
            let said = ends[1].receive_placed(&places, &mut |arrival| {
                let (peer, bytes) = match arrival {
                    Arrival::Placed { index, .. } if arrived.len() >= right || index != came => return false,
                    Arrival::Placed { peer, head, data, index } => {
                        assert_eq!(head.len(), HEAD);
                        // SAFETY: a place that is there.
                        assert_eq!(data.as_ptr(), unsafe { at.as_ptr().add(index * EACH) });
                        (peer, [head, data].concat())
                    }
                    Arrival::Whole(datagram) => (datagram.peer, datagram.bytes.to_vec()),
                };
                assert_eq!(peer, 0);
                came += 1;
                arrived.push(bytes);
                true
            });
            assert_eq!(said.expect("a transport that works"), came);
            assert!(start.elapsed() < LIMIT, "{} of {lengths:?} have come", arrived.len());
        }
        assert!(arrived == data, "{lengths:?}, right up to {right}");
        // What was read is gone, however it was read.
        send_all(&mut *ends[0], &batch[..1]);
        assert!(collect(&mut *ends[1], 1) == [(0, data[0].clone())], "{lengths:?}");
    }
}

/// Datagrams within the budget are never dropped; those beyond it are, silently, and counted.
fn transport_budget_holds_and_drops_are_counted(mut ends: Ends) {
    for bytes in [1_usize, 200, 1200] {
        let fits = ends[1].budget().datagrams(bytes);
        assert!(fits >= 8, "{fits} datagrams of {bytes} bytes");
        let data = pattern(0, bytes);
        let one = Outgoing { peer: 1, head: &data, body: &[] };
        let before = ends[1].counters();
        send_all(&mut *ends[0], &vec![one; fits]);
        assert_eq!(collect(&mut *ends[1], fits).len(), fits, "{bytes} bytes");
        assert_eq!(ends[1].counters().dropped, before.dropped);
        // One by one: joined ones are charged less. The buffer holds more than the budget says, less than
        // three times as much.
        let many = 3 * fits;
        for _ in 0..many {
            send_all(&mut *ends[0], &[one]);
        }
        let arrived = collect(&mut *ends[1], fits).len();
        let dropped = ends[1].counters().dropped - before.dropped;
        assert!(arrived >= fits && arrived < many, "{arrived} of {many} arrived, {fits} fit");
        assert_eq!(arrived as u64 + dropped, many as u64, "{bytes} bytes");
    }
}

/// A transport from which nothing comes says so at once; one that can be waited on is readable when something
/// has come.
fn transport_reports_empty_and_arrival_wakes(mut ends: Ends) {
    let mut nothing = |_: Datagram<'_>| panic!("nothing was sent");
    assert_eq!(ends[1].receive(&mut nothing).expect("a transport that works"), 0);
    let data = pattern(1, 10);
    let waiting = ends[1].descriptor().map(|descriptor| {
        UdpSocket::from(descriptor.try_clone_to_owned().expect("a descriptor")).try_clone().expect("a socket")
    });
    send_all(&mut *ends[0], &[Outgoing { peer: 1, head: &data, body: &[] }]);
    if let Some(socket) = waiting {
        socket.set_nonblocking(false).expect("a socket");
        socket.set_read_timeout(Some(LIMIT)).expect("a socket");
        assert_eq!(socket.peek(&mut [0; 64]).expect("it is readable"), 10);
        socket.set_nonblocking(true).expect("a socket");
    }
    assert_eq!(collect(&mut *ends[1], 1), [(0, data)]);
    assert_eq!((ends[0].counters().sent, ends[1].counters().received), (1, 1));
    assert_eq!((ends[0].peers(), ends[1].peers()), (2, 2));
}

/// A datagram can be sent to oneself.
fn transport_loops_back_to_itself(mut ends: Ends) {
    send_all(&mut *ends[0], &[Outgoing { peer: 0, head: b"me", body: &[] }]);
    assert_eq!(collect(&mut *ends[0], 1), [(0, b"me".to_vec())]);
}

macro_rules! conformance {
    ($($transport:ident: $ends:ident, $peers_max:literal;)*) => { $(
        mod $transport {
            #[test]
            fn transport_datagrams_of_every_length_arrive_whole() {
                super::transport_datagrams_of_every_length_arrive_whole(super::$ends(2));
            }
            #[test]
            fn transport_batches_arrive_in_order_from_the_right_peer() {
                super::transport_batches_arrive_in_order_from_the_right_peer(super::$ends($peers_max));
            }
            #[test]
            fn transport_long_runs_arrive_whole() {
                super::transport_long_runs_arrive_whole(super::$ends(2));
            }
            #[test]
            fn transport_places_data_where_expected_or_delivers_it_whole() {
                super::transport_places_data_where_expected_or_delivers_it_whole(super::$ends(2));
            }
            #[test]
            fn transport_budget_holds_and_drops_are_counted() {
                super::transport_budget_holds_and_drops_are_counted(super::$ends(2));
            }
            #[test]
            fn transport_reports_empty_and_arrival_wakes() {
                super::transport_reports_empty_and_arrival_wakes(super::$ends(2));
            }
            #[test]
            fn transport_loops_back_to_itself() {
                super::transport_loops_back_to_itself(super::$ends(1));
            }
        }
    )* };
}

conformance! {
    over_udp: udp_ends, 3;
    over_udp_without_segmentation: plain_udp_ends, 3;
    over_udp_to_one_peer: settled_udp_ends, 2;
    in_memory: sim_ends, 3;
    without_a_fault: faultless_ends, 3;
}

#[test]
fn transport_drops_and_counts_unknown_senders() {
    let (mut sockets, table) = sockets(2);
    let mut end = Udp::attach(sockets.remove(1), &table).unwrap();
    let unknown_sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    unknown_sender.send_to(b"hello", table[1]).unwrap();
    let friend = UdpSocket::from(sockets.remove(0));
    friend.send_to(b"hello", table[1]).unwrap();
    assert_eq!(collect(&mut end, 1), [(0, b"hello".to_vec())]);
    // An empty datagram wakes and carries nothing.
    friend.send_to(b"", table[1]).unwrap();
    unknown_sender.send_to(b"hello", table[1]).unwrap();
    let start = Instant::now();
    while end.counters().unknown_senders < 2 {
        assert_eq!(end.receive(&mut |_| panic!("not from a stranger")).unwrap(), 0);
        assert!(start.elapsed() < LIMIT);
    }
}

#[test]
fn transport_treats_a_gone_peer_as_loss() {
    let (mut sockets, table) = sockets(2);
    drop(sockets.remove(1));
    let mut end = Udp::attach(sockets.remove(0), &table).unwrap();
    for _ in 0..10 {
        assert_eq!(end.send(&[Outgoing { peer: 1, head: b"hello", body: &[] }]).unwrap(), 1);
        assert_eq!(end.receive(&mut |_| panic!("from nobody")).unwrap(), 0);
    }
}

#[test]
fn transport_clears_blocking_mode_left_by_another_rank() {
    let (mut sockets, table) = sockets(1);
    let socket = sockets.remove(0);
    let other = UdpSocket::from(socket.as_fd().try_clone_to_owned().unwrap());
    let mut end = Udp::attach(socket, &table).unwrap();
    other.set_nonblocking(false).unwrap();
    assert_eq!(end.receive(&mut |_| panic!("nothing was sent")).unwrap(), 0);
}
