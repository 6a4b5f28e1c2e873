use std::time::{Duration, Instant};

use tutti_sched::{Down, Generation, JobId, Mode, Order, Stage, Switch, Version};

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

/// Two ends of one link, on the loopback interface.
struct Pair {
    parent: SwitchLinks,
    child: SwitchLinks,
    /// Messages that went over the link.
    over: Vec<(u64, Vec<u8>)>,
}

impl Pair {
    fn new() -> Self {
        let socket = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        let (above, below) = (socket(), socket());
        let secret = std::array::from_fn(|at| at as u8);
        let address = above.local_addr().unwrap();
        let (mut parent, mut child) = (SwitchLinks::new(Some(above)), SwitchLinks::new(Some(below)));
        let (link, there) = (LinkId(7), "127.0.0.1:9".parse().unwrap());
        parent.open(0, Neighbour { link, node: NodeId(3), is_parent: false, address: there, secret });
        child.open(0, Neighbour { link, node: NodeId(0), is_parent: true, address, secret });
        let mut pair = Pair { parent, child, over: Vec::new() };
        pair.await_that("both know that there is a way", |pair| {
            pair.parent.ends[0].switch_link.is_open() && pair.child.ends[0].switch_link.is_open()
        });
        pair
    }

    /// Both say and read what there is.
    fn turn(&mut self, now_ns: u64) -> Vec<Received> {
        let mut received = Vec::new();
        for links in [&mut self.child, &mut self.parent] {
            links.flush(now_ns, &mut |_, number, message| self.over.push((number, message.to_vec())));
            links.read(now_ns, &mut |message| received.push(message));
        }
        received
    }

    #[track_caller]
    fn await_that(&mut self, what: &str, is_so: impl Fn(&Pair) -> bool) {
        let limit = Instant::now() + Duration::from_secs(20);
        while !is_so(self) {
            assert!(Instant::now() < limit, "not within 20 s: {what}");
            self.turn(1000);
        }
    }

    #[track_caller]
    fn await_message(&mut self, now_ns: u64) -> Received {
        let limit = Instant::now() + Duration::from_secs(20);
        loop {
            assert!(Instant::now() < limit, "no message within 20 s");
            if let Some(message) = self.turn(now_ns).pop() {
                return message;
            }
        }
    }

    fn send_switch(&mut self, generation: u64) {
        let switch = Switch {
            version: Version(4),
            row: 1,
            generation: Generation(generation),
            at_ns: 0,
            mode: Mode::Overlapped,
            left_ns: 0,
        };
        let message = SwitchMessage::Sched(Down::Order(Order::Switch(switch)));
        self.parent.send_down(1000, NodeId(3), &message, 0, &mut |_, number, message| {
            self.over.push((number, message.to_vec()));
        });
    }
}

fn generation(received: &Received) -> u64 {
    match received {
        Received::Down(SwitchMessage::Sched(Down::Order(Order::Switch(switch)))) => switch.generation.0,
        other => panic!("no switch: {other:?}"),
    }
}

#[test]
fn switch_link_carries_both_directions_by_datagrams() {
    let mut pair = Pair::new();
    for number in 1..=200 {
        pair.send_switch(number);
        assert_eq!(generation(&pair.await_message(1000)), number);
        let report = Report::Reached {
            job: JobId(5),
            stage: Stage::Frozen,
            generation: Generation(number),
            membership: tutti_sched::Membership(2),
        };
        pair.child.send_up(1000, &report, 0, &mut |_, _, _| panic!("the link is not needed"));
        assert!(matches!(pair.await_message(1000), Received::Up(NodeId(3), sent) if sent == report));
    }
    assert_eq!(pair.over, []);
    assert_eq!((pair.parent.tally.by_link, pair.child.tally.unknown), (0, 0));
}

#[test]
fn switch_link_counts_forgeries_within_a_bound() {
    let mut pair = Pair::new();
    let port = pair.child.socket.as_ref().unwrap().local_addr().unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    // One real datagram, to be changed and to be said again.
    pair.send_switch(1);
    let (mut real, mut text) = ([0; BYTES], [0; switch_link::PAYLOAD_BYTES]);
    let end = &mut pair.parent.ends[0];
    let (number, length) = end.switch_link.poll(1000, &mut text).unwrap();
    real[seal::HEADER_BYTES..][..length].copy_from_slice(&text[..length]);
    let length = end.seal.seal(number, &mut real, length);
    let real = &real[..length];
    stranger.send_to(real, port).unwrap();
    assert_eq!(generation(&pair.await_message(1000)), 1);
    let mut random = tutti_testkit::Random::new(11);
    let mut draw = |bound: u64| random.below(bound);
    let mut now_ns = SECOND_NS;
    for round in 0..30_000 {
        let mut bytes = match round % 3 {
            0 => (0..draw(1500)).map(|_| draw(256) as u8).collect(),
            _ => real.to_vec(),
        };
        if round % 3 == 1 {
            let at = draw(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << draw(8);
        }
        stranger.send_to(&bytes, port).unwrap();
        now_ns += 200_000;
        pair.child.read(now_ns, &mut |message| panic!("believed: {message:?}"));
    }
    let Tally { received, unknown, forged, replayed, .. } = pair.child.tally;
    assert!(unknown > 9_000 && forged > 8_000 && replayed > 9_000, "{unknown} {forged} {replayed}");
    assert!(received < 20);
    assert!(pair.child.poll_log_line(now_ns).is_some_and(|line| line.contains("refused")));
    assert!(pair.child.poll_log_line(now_ns).is_none(), "once in a while");
    // A flood.
    now_ns += SECOND_NS;
    for _ in 0..REFUSED_MAX + 50 {
        stranger.send_to(b"?", port).unwrap();
    }
    for _ in 0..20 {
        pair.child.read(now_ns, &mut |_| {});
    }
    assert!(pair.child.socket(now_ns).is_none(), "nobody looks for a while");
    assert_eq!(pair.child.timeout_ns(now_ns).map(|at_ns| at_ns <= now_ns + PAUSE_NS), Some(true));
    assert_eq!(pair.child.tally.unknown, unknown + u64::from(REFUSED_MAX) + 1);
    assert!(pair.child.socket(now_ns + PAUSE_NS).is_some());
}

#[test]
fn switch_link_reports_flapping_rarely() {
    let mut pair = Pair::new();
    let socket = pair.child.socket.take();
    let mut now_ns = BEGIN_NS;
    // Nobody reads what the parent says.
    let silence = |pair: &mut Pair, now_ns: &mut u64| {
        pair.child.socket = None;
        pair.send_switch(1);
        while pair.parent.ends[0].switch_link.is_open() {
            *now_ns += 1_000_000;
            pair.parent.flush(*now_ns, &mut |_, _, _| {});
        }
    };
    let speech = |pair: &mut Pair, now_ns: &mut u64| {
        pair.child.socket = socket.as_ref().map(|socket| socket.try_clone().unwrap());
        let limit = Instant::now() + Duration::from_secs(20);
        while !pair.parent.ends[0].switch_link.is_open() {
            assert!(Instant::now() < limit, "not within 20 s");
            *now_ns += 1_000_000;
            pair.turn(*now_ns);
        }
    };
    silence(&mut pair, &mut now_ns);
    assert!(pair.parent.poll_log_line(now_ns).is_some_and(|line| line.starts_with("no datagrams")));
    speech(&mut pair, &mut now_ns);
    assert!(pair.parent.poll_log_line(now_ns).is_some_and(|line| line.ends_with("through to node 3 again")));
    let sent_ns = now_ns;
    while now_ns < sent_ns + LOG_NS / 2 {
        silence(&mut pair, &mut now_ns);
        assert_eq!(pair.parent.poll_log_line(now_ns), None);
        speech(&mut pair, &mut now_ns);
        assert_eq!(pair.parent.poll_log_line(now_ns), None);
    }
    silence(&mut pair, &mut now_ns);
    assert!(pair.parent.poll_log_line(sent_ns + LOG_NS).is_some_and(|line| line.starts_with("no datagrams")));
}

#[test]
fn switch_link_answers_the_newest_address() {
    let mut pair = Pair::new();
    let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let address = elsewhere.local_addr().unwrap();
    pair.child.socket = Some(elsewhere);
    let report = Report::Late { node: NodeId(3), job: JobId(7), stage: Stage::Frozen };
    pair.child.send_up(1000, &report, 0, &mut |_, _, _| panic!("there is a way"));
    pair.await_message(1000);
    assert_eq!(pair.parent.ends[0].address, Some(address));
    pair.send_switch(9);
    assert_eq!(generation(&pair.await_message(1000)), 9);
}

#[test]
fn switch_link_without_a_socket_uses_tls() {
    let mut pair = Pair::new();
    pair.parent.socket = None;
    pair.parent.close(LinkId(7));
    pair.send_switch(1);
    assert_eq!(pair.over, []);
    let secret = [1; SECRET_BYTES];
    let address = "127.0.0.1:9".parse().unwrap();
    pair.parent.open(0, Neighbour { link: LinkId(8), node: NodeId(3), is_parent: false, address, secret });
    pair.child.open(0, Neighbour { link: LinkId(8), node: NodeId(0), is_parent: true, address, secret });
    assert_eq!(pair.child.ends.len(), 1, "one link to the parent");
    pair.send_switch(2);
    let (number, message) = pair.over.pop().unwrap();
    assert_eq!(pair.child.take(LinkId(7), number, &message).map(|_| ()), None, "of the link before");
    assert_eq!(generation(&pair.child.take(LinkId(8), number, &message).unwrap()), 2);
    assert!(pair.child.take(LinkId(8), number, &message).is_none(), "once");
}

#[test]
fn switch_link_names_another_version() {
    let mut pair = Pair::new();
    pair.parent.send(1000, |_| true, &u64::MAX, 0, &mut |_, _, _| panic!("the link is not needed"));
    pair.await_that("it has come and is no message", |pair| pair.child.tally.undecodable == 1);
    assert!(pair.child.poll_log_line(1000).is_some_and(|line| line.contains("are of a later release")));
    assert_eq!(pair.child.poll_log_line(1000), None, "once in a while");
    pair.send_switch(2);
    assert_eq!(generation(&pair.await_message(1000)), 2);
}
