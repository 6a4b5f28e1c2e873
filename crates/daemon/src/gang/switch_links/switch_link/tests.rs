use tutti_testkit::Random;

use super::*;

/// Two switch links, a network between them that loses, repeats and reorders, and a link that does not.
struct World {
    random: Random,
    now_ns: u64,
    links: [SwitchLink; 2],
    /// Datagrams on their way: whom each is for, its number, what it says.
    network: Vec<(usize, u64, Vec<u8>)>,
    link: Vec<(usize, u64, Vec<u8>)>,
    taken: [Vec<Vec<u8>>; 2],
    sent: [Vec<Vec<u8>>; 2],
    by_link: u64,
    loss_percent: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        World {
            random: Random::new(seed),
            now_ns: 1_000_000_000,
            links: [SwitchLink::new(1_000_000_000), SwitchLink::new(1_000_000_000)],
            network: Vec::new(),
            link: Vec::new(),
            taken: Default::default(),
            sent: Default::default(),
            by_link: 0,
            loss_percent: 0,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn push(&mut self, from: usize, message: Vec<u8>) {
        self.push_with_ack_delay(from, message, 0);
    }

    fn push_with_ack_delay(&mut self, from: usize, message: Vec<u8>, ack_delay_ns: u64) {
        let (link, by_link) = (&mut self.link, &mut self.by_link);
        self.links[from].push(self.now_ns, &message, ack_delay_ns, &mut |number, message| {
            *by_link += 1;
            link.push((1 - from, number, message.to_vec()));
        });
        self.sent[from].push(message);
        self.poll(from);
    }

    fn poll(&mut self, from: usize) {
        let mut text = [0; PAYLOAD_BYTES];
        while let Some((number, length)) = self.links[from].poll(self.now_ns, &mut text) {
            if self.below(100) >= self.loss_percent {
                self.network.push((1 - from, number, text[..length].to_vec()));
            }
        }
    }

    /// Time goes on to the next thing that is due, at most so far.
    fn step(&mut self, limit_ns: u64) {
        let due = self.links.iter().filter_map(SwitchLink::timeout_ns).min().unwrap_or(limit_ns);
        self.now_ns = due.clamp(self.now_ns, limit_ns.max(self.now_ns));
        for at in 0..2 {
            let (link, by_link) = (&mut self.link, &mut self.by_link);
            self.links[at].handle_time(self.now_ns, &mut |number, message| {
                *by_link += 1;
                link.push((1 - at, number, message.to_vec()));
            });
            self.poll(at);
        }
    }

    fn arrive(&mut self, at: usize, repeated: bool) {
        let (to, number, text) =
            if repeated { self.network[at].clone() } else { self.network.swap_remove(at) };
        let taken = &mut self.taken[to];
        let text = Payload::parse(&text).expect("a switch link has made it");
        self.links[to].handle(self.now_ns, number, &text, &mut |message| taken.push(message.to_vec()));
        self.poll(to);
    }

    fn arrive_over_link(&mut self) {
        let (to, number, message) = self.link.remove(0);
        if self.links[to].take(number) {
            self.taken[to].push(message);
        }
    }

    /// Everything arrives at once, until nothing is left to be said.
    fn settle(&mut self, for_ns: u64) {
        let end_ns = self.now_ns + for_ns;
        while self.now_ns < end_ns {
            while !self.network.is_empty() || !self.link.is_empty() {
                if !self.network.is_empty() {
                    self.arrive(0, false);
                } else {
                    self.arrive_over_link();
                }
            }
            self.step(end_ns);
        }
    }
}

#[test]
fn switch_link_delivers_once_in_order_despite_faults() {
    for seed in 1..=2000 {
        let mut world = World::new(seed);
        for step in 0..400_u32 {
            match world.below(20) {
                0 => world.loss_percent = [0, 10, 50, 100][world.below(4) as usize],
                1..=8 => {
                    let (from, long) = (world.below(2) as usize, world.below(40) == 0);
                    let length = if long { MESSAGE_BYTES + 9 } else { 4 + world.below(200) as usize };
                    let mut message = vec![0; length];
                    message[..4].copy_from_slice(&step.to_le_bytes());
                    let ack_delay_ns = [0, 3_000_000, 90_000_000, 400_000_000][world.below(4) as usize];
                    world.push_with_ack_delay(from, message, ack_delay_ns);
                }
                9..=13 if !world.network.is_empty() => {
                    let (at, again) = (world.below(world.network.len() as u64), world.below(10) == 0);
                    world.arrive(at as usize, again);
                }
                14..=16 if !world.link.is_empty() => world.arrive_over_link(),
                _ => world.step(world.now_ns + 20_000_000),
            }
        }
        world.loss_percent = 0;
        world.settle(20_000_000_000);
        let [one, other] = &world.sent;
        assert_eq!(world.taken[1], *one, "seed {seed}");
        assert_eq!(world.taken[0], *other, "seed {seed}");
        assert!(world.links.iter().all(SwitchLink::is_open), "seed {seed}: datagrams get through again");
    }
}

#[test]
fn switch_link_uses_tls_only_while_datagrams_fail() {
    let mut world = World::new(7);
    world.settle(50_000_000);
    assert!(world.links.iter().all(SwitchLink::is_open));
    world.push(0, b"switch".to_vec());
    assert_eq!((world.by_link, world.network.len()), (0, 1));
    world.settle(50_000_000);
    assert_eq!((world.by_link, world.taken[1].len()), (0, 1));
    assert_eq!(
        world.links.each_ref().map(SwitchLink::timeout_ns),
        [None, None],
        "a quiet switch link wakes nobody"
    );
    world.loss_percent = 100;
    world.push(0, b"switch".to_vec());
    world.settle(71_000_000);
    assert_eq!((world.by_link, world.taken[1].len()), (1, 2), "after 70 ms");
    world.push(0, b"switch".to_vec());
    assert_eq!(world.by_link, 2, "at once");
    world.loss_percent = 0;
    world.settle(6_000_000_000);
    world.push(0, b"switch".to_vec());
    world.settle(1_000_000);
    assert_eq!((world.by_link, world.taken[1].len()), (2, 4));
}

/// How many have been sent.
fn datagrams(world: &World) -> u64 {
    world.links.iter().map(|switch_link| switch_link.datagram).sum()
}

/// A slice of 100 ms at whose end everybody is switched off and on again. What has been sent in it.
fn slice(world: &mut World) -> u64 {
    let before = datagrams(world);
    world.push(0, b"off".to_vec());
    world.settle(500_000);
    world.push(1, b"frozen".to_vec());
    world.settle(500_000);
    world.push_with_ack_delay(0, b"on".to_vec(), 99_000_000);
    world.settle(99_000_000);
    datagrams(world) - before
}

#[test]
fn switch_link_unacknowledged_message_costs_one_datagram() {
    let mut world = World::new(7);
    world.settle(50_000_000);
    for _ in 0..20 {
        assert_eq!(
            slice(&mut world),
            3,
            "nobody says that the last one has come: the next one follows in time"
        );
    }
    // In a row that stays the child asks once, when it hears no more, and then nobody wakes up for the switch
    // link.
    let before = world.links[1].datagram;
    world.settle(3_000_000_000);
    assert_eq!(world.links[1].datagram - before, 1);
    assert_eq!(world.links.each_ref().map(SwitchLink::timeout_ns), [None, None]);
    assert_eq!((world.by_link, world.taken[1].len()), (0, 40));
}

/// Datagrams of a turn of 100 ms of two jobs: a switch freezes one of them, and is answered.
fn turn(world: &mut World) -> u64 {
    let before = datagrams(world);
    world.push_with_ack_delay(0, b"switch".to_vec(), 100_000_000);
    world.settle(500_000);
    world.push_with_ack_delay(1, b"frozen".to_vec(), 99_000_000);
    world.settle(99_500_000);
    datagrams(world) - before
}

#[test]
fn switch_link_unacknowledged_exchange_costs_two_datagrams() {
    let mut world = World::new(7);
    world.settle(50_000_000);
    turn(&mut world);
    for _ in 0..20 {
        assert_eq!(turn(&mut world), 2);
    }
    assert_eq!((world.by_link, world.taken[0].len(), world.taken[1].len()), (0, 21, 21));
}

/// The one behind it is expected, so it is asked for.
#[test]
fn switch_link_lost_answer_is_repeated_within_a_slice() {
    let mut world = World::new(7);
    world.settle(50_000_000);
    turn(&mut world);
    turn(&mut world);
    world.push_with_ack_delay(0, b"switch".to_vec(), 100_000_000);
    world.settle(500_000);
    world.loss_percent = 100;
    world.push_with_ack_delay(1, b"frozen".to_vec(), 99_000_000);
    world.loss_percent = 0;
    let lost_ns = world.now_ns;
    while world.taken[0].len() < 3 {
        world.settle(1_000_000);
    }
    assert!(world.now_ns - lost_ns <= LATE_NS + 1_000_000, "{}", world.now_ns - lost_ns);
}

#[test]
fn switch_link_missing_message_is_requested() {
    let mut world = World::new(7);
    world.settle(50_000_000);
    slice(&mut world);
    world.loss_percent = 100;
    world.push_with_ack_delay(0, b"switch".to_vec(), 100_000_000);
    world.loss_percent = 0;
    let lost_ns = world.now_ns;
    while world.taken[1].len() < 3 {
        world.settle(1_000_000);
    }
    assert!(world.now_ns - lost_ns <= LATE_NS + 1_000_000, "not a slice later");
    assert_eq!(world.by_link, 0);
}

#[test]
fn switch_link_lost_message_comes_with_the_repeated_answer() {
    let mut world = World::new(7);
    world.settle(50_000_000);
    world.push(0, b"off".to_vec());
    world.settle(500_000);
    world.push(1, b"frozen".to_vec());
    world.arrive(0, false);
    world.loss_percent = 100;
    world.push_with_ack_delay(0, b"on".to_vec(), 100_000_000);
    world.loss_percent = 0;
    let lost_ns = world.now_ns;
    while world.taken[1].len() < 2 {
        world.settle(1_000_000);
    }
    assert!(world.now_ns - lost_ns <= RETRANSMIT_NS + 1_000_000);
}

#[test]
fn switch_link_message_falls_back_to_tls() {
    let mut world = World::new(7);
    world.settle(50_000_000);
    slice(&mut world);
    world.loss_percent = 100;
    world.push_with_ack_delay(0, b"switch".to_vec(), 100_000_000);
    world.settle(200_000_000);
    let (by_link, taken) = (world.by_link, world.taken[1].len());
    assert_eq!((by_link, taken), (2, 3), "with the one before, of which nobody has said that it has come");
}

#[test]
fn switch_link_dead_path_is_given_up_under_load() {
    let mut world = World::new(7);
    world.settle(50_000_000);
    world.loss_percent = 100;
    for _ in 0..15 {
        world.push(0, b"switch".to_vec());
        world.settle(6_000_000);
    }
    assert!(!world.links[0].is_open(), "after 70 ms, before there is no room for more");
    assert_eq!(world.taken[1].len(), 15);
}

#[test]
fn switch_link_one_way_path_is_not_used() {
    let mut world = World::new(9);
    for _ in 0..100 {
        world.network.retain(|(to, _, _)| *to == 1);
        world.settle(0);
        while !world.network.is_empty() {
            if world.network[0].0 == 1 { world.arrive(0, false) } else { drop(world.network.remove(0)) }
        }
        world.step(world.now_ns + 100_000_000);
    }
    assert!(!world.links[0].is_open() && !world.links[1].is_open());
    world.push(1, b"frozen".to_vec());
    assert_eq!(world.by_link, 1);
}

#[test]
fn switch_link_lies_do_no_harm() {
    let mut random = Random::new(3);
    let mut switch_link = SwitchLink::new(0);
    for _ in 0..200_000 {
        let mut bytes = [0_u8; 60];
        for byte in &mut bytes {
            *byte = if random.below(3) == 0 { random.number() as u8 } else { 0 };
        }
        let seed = random.number();
        let length = (seed >> 30) as usize % 61;
        if let Some(text) = Payload::parse(&bytes[..length]) {
            switch_link.handle(1, seed, &text, &mut |_| {});
        }
        if seed.is_multiple_of(7) {
            switch_link.push(1, &bytes[..20], seed % 200_000_000, &mut |_, _| {});
            switch_link.handle_time(seed % 1_000_000_000, &mut |_, _| {});
            while switch_link.poll(1, &mut [0; PAYLOAD_BYTES]).is_some() {}
        }
    }
}
