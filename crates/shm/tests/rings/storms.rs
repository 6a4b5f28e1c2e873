//! Two processes play ping-pong and sleep whenever they wait, while both are frozen and thawed at random: by
//! SIGSTOP, and by the cgroup freezer where one may make a cgroup, which also reaches the states inside
//! system calls.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use tutti_shm::bulk_ring;
use tutti_shm::doorbell::{ring_if_sleeping, sleep_if};
use tutti_shm::envelope_ring;
use tutti_testkit::cgroup::Cgroup;
use tutti_testkit::stepper::{Child, DEADLINE};

use tutti_testkit::Random;

use crate::memory::{Memory, Message, put_chunk, take, take_chunk};
use crate::script::{Script, SharedScript};

/// Messages of the game, both directions counted.
const MESSAGES: u64 = 100_000;
/// On a crowded machine the game is ended before all are played.
const ENOUGH: Duration = Duration::from_secs(15);
/// Inline bytes of the message that ends the game.
const LAST: usize = 1;

struct Player<'a> {
    memory: &'a Memory,
    me: usize,
    script: &'a Script,
    out: (envelope_ring::Producer, bulk_ring::Producer),
    inbox: (envelope_ring::Consumer, bulk_ring::Consumer),
}

impl Player<'_> {
    /// Sends the `n`-th message, every eighth with a chunk.
    fn send(&mut self, n: u64, bytes: usize) {
        if n.is_multiple_of(8) {
            assert!(put_chunk(&mut self.out.1, n));
        }
        let message = Message::new(n, bytes);
        assert!(self.out.0.try_push(&message.envelope, &message.inline));
        ring_if_sleeping(self.memory.endpoint(1 - self.me));
    }

    /// Receives the `n`-th message and gives its bytes.
    fn receive(&mut self, n: u64, polls: u64) -> usize {
        let mut polled = 0;
        loop {
            if let Some(bytes) = take(&mut self.inbox.0, n) {
                assert!(!n.is_multiple_of(8) || take_chunk(&mut self.inbox.1, n));
                self.script.progress[self.me].store(n + 1, Ordering::Relaxed);
                return bytes;
            }
            polled += 1;
            if polled > polls {
                self.script.sleeps[self.me].fetch_add(1, Ordering::Relaxed);
                sleep_if(self.memory.endpoint(self.me), || !self.inbox.0.is_ready());
            }
        }
    }
}

fn play(memory: &Memory, me: usize, script: &Script, mut random: Random) {
    let mut player = Player { memory, me, script, out: memory.senders(me), inbox: memory.receivers(1 - me) };
    for n in 0.. {
        if me == 1 {
            let bytes = player.receive(n, random.below(60));
            player.send(n, bytes);
            if bytes == LAST {
                return;
            }
        } else {
            let over = n + 1 == MESSAGES / 2 || script.word.load(Ordering::Relaxed) != 0;
            let bytes = if over { LAST } else { 8 + random.below(100) as usize };
            player.send(n, bytes);
            assert_eq!(player.receive(n, random.below(60)), bytes);
            if over {
                return;
            }
        }
    }
}

/// A way to stop a process and to let it go on.
enum Freezer {
    Signals,
    /// One cgroup for each child.
    Cgroups([Cgroup; 2]),
}

impl Freezer {
    fn set(&self, children: &[Child; 2], victim: usize, frozen: bool) {
        match self {
            Freezer::Signals => children[victim].signal(if frozen { libc::SIGSTOP } else { libc::SIGCONT }),
            Freezer::Cgroups(cgroups) => cgroups[victim].set_frozen(frozen),
        }
    }
}

fn storm(name: &str, freezer: impl FnOnce(&[Child; 2]) -> Option<Freezer>) {
    let (memory, script) = (Memory::new(), SharedScript::new());
    let mut random = Random::new(tutti_testkit::seed());
    let mut children = [0, 1].map(|me| {
        Child::fork(|| {
            while script.gate.load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
            play(&memory.again(), me, &script, random.clone());
        })
    });
    let Some(freezer) = freezer(&children) else {
        tutti_testkit::skip(tutti_testkit::Need::Cgroup, format!("{name}: no cgroup can be made here"));
        return;
    };
    script.gate.store(1, Ordering::Release);
    let began = Instant::now();
    let (mut freezes, mut moved_at, mut last) = (0_u64, began, 0);
    while !children.iter_mut().all(Child::has_succeeded) {
        let victim = random.below(2) as usize;
        if !children[victim].has_succeeded() {
            freezer.set(&children, victim, true);
            pause(&mut random);
            freezer.set(&children, victim, false);
            freezes += 1;
        }
        pause(&mut random);
        let played = script.progress[0].load(Ordering::Relaxed);
        if played != last {
            (last, moved_at) = (played, Instant::now());
        }
        assert!(
            moved_at.elapsed() < DEADLINE,
            "{name}: both sleep after message {played}: a wake-up was lost"
        );
        script.word.store(u32::from(began.elapsed() > ENOUGH), Ordering::Relaxed);
    }
    let sleeps = [0, 1].map(|i| script.sleeps[i].load(Ordering::Relaxed));
    println!(
        "{name}: {} messages, {freezes} freezes, {sleeps:?} sleeps",
        2 * script.progress[0].load(Ordering::Relaxed)
    );
    drop(freezer);
}

/// Lets the players play on, or lie frozen: nothing, some microseconds or a third of a millisecond.
fn pause(random: &mut Random) {
    match random.below(4) {
        0 => {}
        1 => (0..random.below(5000)).for_each(|_| core::hint::spin_loop()),
        _ => thread::sleep(Duration::from_micros(random.below(300))),
    }
}

#[test]
fn random_stop_signals_lose_no_wakeup_and_no_message() {
    storm("SIGSTOP", |_| Some(Freezer::Signals));
}

#[test]
fn random_cgroup_freezes_lose_no_wakeup_and_no_message() {
    storm("cgroup.freeze", |children| {
        Some(Freezer::Cgroups([Cgroup::hold(children[0].pid())?, Cgroup::hold(children[1].pid())?]))
    });
}
