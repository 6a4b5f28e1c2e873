//! Two ranks that send each other records over a bad network while the cgroup freezer stops one or the other
//! at random: in the middle of system calls too, and for as long as timers take to fire.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tutti_channel::{Rank, SendError, Sink, Taken};
use tutti_runtime::net::Memory;
use tutti_testkit::Random;
use tutti_testkit::cgroup::Cgroup;
use tutti_testkit::stepper::{Child, Shareable, Shared};

use crate::nodes::Nodes;
use crate::records::{NoBulk, seed};

/// Records of each rank.
const RECORDS: u32 = 20_000;
/// On a crowded machine no more are sent after this.
const ENOUGH: Duration = Duration::from_secs(8);
/// Bytes of the longest record.
const RECORD_BYTES_MAX: u64 = 2000;

/// Words by which ranks and test inform each other.
struct Reported {
    /// Writer: the test. The ranks may begin; no more is to be sent.
    may_begin: AtomicU32,
    is_enough: AtomicU32,
    /// Writer: each rank. One more than the records it has sent, once it sends no more; whether it has
    /// received all, and all of its own is acknowledged.
    sent: [AtomicU32; 2],
    is_finished: [AtomicU32; 2],
}

// SAFETY: atomics, of which zeroes are valid values.
unsafe impl Shareable for Reported {}

/// The `n`-th record of a rank: its length and every byte follow from the number.
fn record(rank: usize, n: u32) -> Vec<u8> {
    let mut random = Random::new(u64::from(n) << 1 | rank as u64);
    let length = random.below(RECORD_BYTES_MAX + 1) as usize;
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| random.number().to_le_bytes()).collect();
    bytes.truncate(length);
    bytes
}

struct Received {
    from: usize,
    count: u32,
}

// SAFETY: it gives no place.
unsafe impl Memory for Received {}

impl Sink for Received {
    fn record(&mut self, from: Rank, found: &[u8]) -> Taken {
        assert_eq!(from, Rank(self.from as u32));
        assert!(
            found == record(self.from, self.count),
            "record {} of rank {} is another",
            self.count,
            self.from
        );
        self.count += 1;
        Taken::Yes
    }

    fn fragment(&mut self, _tag: u64, _offset: u64, _bytes: &[u8]) {
        panic!("no bulk message was accepted");
    }
}

fn rank(nodes: &Nodes, me: usize, reported: &Reported, seed: u64) {
    let faults = format!("loss=1%,dup=0.5%,reorder=2%,seed={seed}\0");
    // SAFETY: both are C strings; this process has one thread. (Rust's own function would wait for a lock
    // that a thread of the parent held at the fork.)
    unsafe { libc::setenv(c"TUTTI_FAULTS".as_ptr(), faults.as_ptr().cast(), 1) };
    let (_job, mut net) = nodes.enter(me);
    let (mut sent, mut received) = (0, Received { from: 1 - me, count: 0 });
    while reported.may_begin.load(Ordering::Acquire) == 0 {
        thread::yield_now();
    }
    while reported.is_finished.iter().any(|finished| finished.load(Ordering::Acquire) == 0) {
        if sent == RECORDS || reported.is_enough.load(Ordering::Relaxed) != 0 {
            reported.sent[me].store(sent + 1, Ordering::Release);
        } else {
            match net.try_send(1 - me, &record(me, sent), &[]) {
                Ok(()) => sent += 1,
                Err(SendError::Full) => thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
        net.receive(&mut received);
        net.handle_timeout();
        net.transmit(&mut NoBulk);
        let has_all = reported.sent[1 - me].load(Ordering::Acquire) == received.count + 1;
        let is_finished = has_all && reported.sent[me].load(Ordering::Relaxed) != 0 && net.is_quiet();
        if is_finished {
            reported.is_finished[me].store(1, Ordering::Release);
        }
    }
}

#[test]
fn records_survive_random_freezes_on_a_faulty_network() {
    let (seed, reported, nodes) = (seed("random freezes"), Shared::<Reported>::new(), Nodes::new());
    let mut random = Random::new(seed);
    let mut children = [0, 1].map(|me| Child::fork(|| rank(&nodes, me, &reported, seed)));
    let Some(cgroups) = Cgroup::hold(children[0].pid()).zip(Cgroup::hold(children[1].pid())) else {
        tutti_testkit::skip(tutti_testkit::Need::Cgroup, "no cgroup can be made here");
        return;
    };
    let cgroups = [cgroups.0, cgroups.1];
    reported.may_begin.store(1, Ordering::Release);
    let (began, mut freezes) = (Instant::now(), 0);
    while !children.iter_mut().all(Child::has_succeeded) {
        let victim = random.below(2) as usize;
        cgroups[victim].set_frozen(true);
        thread::sleep(Duration::from_micros([0, 50, 300, 4000][random.below(4) as usize]));
        cgroups[victim].set_frozen(false);
        freezes += 1;
        thread::sleep(Duration::from_micros(random.below(600)));
        reported.is_enough.store(u32::from(began.elapsed() > ENOUGH), Ordering::Relaxed);
        assert!(began.elapsed() < 5 * ENOUGH, "records are missing after {freezes} freezes");
    }
    let sent = [0, 1].map(|rank| reported.sent[rank].load(Ordering::Relaxed) - 1);
    println!("random freezes: {sent:?} records, {freezes} freezes, {:?}", began.elapsed());
    assert!(sent.iter().all(|sent| *sent > 0));
}
