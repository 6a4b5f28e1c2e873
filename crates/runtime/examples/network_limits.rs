//! Limits of a job's network without any protocol, over the ranks' own UDP sockets: round trip of 4 B and
//! stream of 1 MiB pieces, polled; datagrams of one word each; a lone word every millisecond to a thread that
//! sleeps in a receive while its core computes. The limit of every figure between nodes.
//!
//! ```text
//! mpiexec --virtual-nodes 2 -n 2 network_limits        the loopback interface
//! mpiexec --netns 2 -n 2 network_limits                two network namespaces joined by a pair of veths
//! ```
//!
//! A line that begins with `limits` is read by `make bench`. A datagram that is lost ends the program: then
//! the figure would be one of something else.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use tutti_runtime::attach::attach;
use tutti_runtime::job::Job;
use tutti_transport::udp::Udp;
use tutti_transport::{Datagram, Outgoing, Transport};

const ROUND_TRIPS: usize = 20_000;
const PIECE_BYTES: usize = 1 << 20;
const PIECES: usize = 300;
/// Bytes on their way, at most, and after how many the receiver says so.
const WINDOW_BYTES: usize = 768 << 10;
const ACK_BYTES: usize = 128 << 10;
const HEAD: [u8; 32] = [7; 32];
/// Datagrams of one word each.
const WORDS: usize = 1_600 * WORDS_ACKED;
/// How many of them are on their way at most, and after how many the receiver says so.
const WORDS_WINDOW: usize = 512;
const WORDS_ACKED: usize = 128;
/// Lone words to a thread that sleeps.
const LONE: usize = 300;

fn main() {
    let job = Job::enter(attach().expect("started by mpiexec"));
    let network = job.network().expect("two nodes: mpiexec --virtual-nodes 2, or --netns 2");
    assert_eq!(job.ranks(), 2, "two ranks");
    for (way, plainly) in [("GSO and GRO", false), ("one by one", true)] {
        let socket = network.socket.try_clone().expect("a descriptor");
        let attach = if plainly { Udp::attach_plainly } else { Udp::attach };
        let mut end =
            End { udp: attach(socket, network.peers.addresses()).expect("a socket"), me: job.rank() as u32 };
        end.udp.settle_on(1 - end.me).expect("a way to the other rank");
        let longest = end.udp.datagram_bytes_max();
        if end.me == 0 {
            println!("datagrams of at most {longest} B, {:?}", end.udp.budget());
            let mut times = end.ping();
            times.sort_unstable();
            let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e6;
            println!("round trip 4 B: median {:.2} us, p99 {:.2} us", at(50), at(99));
            if !plainly {
                println!("limits what=network_rtt median_ns={:.0} p99_ns={:.0}", at(50) * 1e3, at(99) * 1e3);
            }
            let mut best: f64 = 0.0;
            for bytes in [longest, longest / 2, 1472].into_iter().filter(|bytes| *bytes <= longest) {
                let seconds = end.pour(bytes).as_secs_f64();
                let rate = (PIECES * PIECE_BYTES) as f64 / seconds / 1e9;
                println!("stream of 1 MiB, {way}, datagrams of {bytes} B: {rate:.2} GB/s");
                best = best.max(rate);
            }
            if !plainly {
                println!("limits what=network_stream median_gbs={best:.3}");
                let rate = WORDS as f64 / end.pour_words().as_secs_f64() / 1e6;
                println!("limits what=network_words median_mps={rate:.3} median_ns={:.0}", 1e3 / rate);
                let mut times = end.wake();
                times.sort_unstable();
                let at = |share: usize| times[times.len() * share / 100].as_nanos();
                println!("limits what=network_asleep median_ns={} p99_ns={}", at(50), at(99));
            }
        } else {
            end.pong();
            for bytes in [longest, longest / 2, 1472].into_iter().filter(|bytes| *bytes <= longest) {
                end.drink(bytes);
            }
            if !plainly {
                end.drink_words();
                end.sleep(&network.socket);
            }
        }
        end.meet();
    }
    job.leave();
}

struct End {
    udp: Udp,
    me: u32,
}

impl End {
    fn send(&mut self, batch: &[Outgoing<'_>]) {
        let mut gone = 0;
        while gone < batch.len() {
            gone += self.udp.send(&batch[gone..]).expect("a network");
        }
    }

    /// Waits for datagrams; gives their bytes.
    fn receive(&mut self) -> usize {
        let start = Instant::now();
        for looks in 0_u64.. {
            let mut bytes = 0;
            self.udp.receive(&mut |datagram: Datagram<'_>| bytes += datagram.bytes.len()).expect("a network");
            if bytes > 0 {
                return bytes;
            }
            if looks.is_multiple_of(1024) {
                assert!(
                    start.elapsed() < Duration::from_secs(5),
                    "a datagram was lost: {:?}",
                    self.udp.counters()
                );
            }
        }
        unreachable!("the loop returns")
    }

    fn word(&mut self) {
        self.send(&[Outgoing { peer: 1 - self.me, head: &[1; 4], body: &[] }]);
    }

    /// Both are here. Rank 1 speaks only when spoken to, so that no word is taken for another.
    fn meet(&mut self) {
        if self.me == 0 {
            self.word();
        }
        assert_eq!(self.receive(), 4);
        if self.me == 1 {
            self.word();
        }
    }

    fn ping(&mut self) -> Vec<Duration> {
        self.meet();
        let round = |_| {
            let start = Instant::now();
            self.word();
            assert_eq!(self.receive(), 4);
            start.elapsed()
        };
        (0..ROUND_TRIPS).map(round).collect()
    }

    fn pong(&mut self) {
        self.meet();
        for _ in 0..ROUND_TRIPS {
            assert_eq!(self.receive(), 4);
            self.word();
        }
    }

    /// Sends all pieces in datagrams of so many bytes.
    fn pour(&mut self, bytes: usize) -> Duration {
        self.meet();
        let data = vec![3_u8; PIECE_BYTES];
        let bodies: Vec<&[u8]> = data.chunks(bytes - HEAD.len()).collect();
        let batch: Vec<Outgoing<'_>> =
            bodies.iter().map(|body| Outgoing { peer: 1 - self.me, head: &HEAD, body }).collect();
        let each: usize = batch.iter().map(Outgoing::bytes).sum();
        let (mut sent, mut sent_bytes, mut acked) = (0, 0, 0);
        let start = Instant::now();
        while acked < PIECES * each / ACK_BYTES {
            let first = sent % batch.len();
            let room = (WINDOW_BYTES + acked * ACK_BYTES).saturating_sub(sent_bytes) / bytes;
            let count = room.min(batch.len() - first).min(PIECES * batch.len() - sent);
            if count > 0 {
                self.send(&batch[first..first + count]);
                sent += count;
                sent_bytes += batch[first..first + count].iter().map(Outgoing::bytes).sum::<usize>();
            } else {
                acked += self.receive() / 4;
            }
        }
        start.elapsed()
    }

    fn drink(&mut self, bytes: usize) {
        self.meet();
        let heads = PIECE_BYTES.div_ceil(bytes - HEAD.len()) * HEAD.len();
        let all = PIECES * (PIECE_BYTES + heads);
        let (mut received, mut told) = (0, 0);
        while received < all {
            received += self.receive();
            while (told + 1) * ACK_BYTES <= received {
                self.word();
                told += 1;
            }
        }
    }

    /// Sends words, each in a datagram and by a call of its own.
    fn pour_words(&mut self) -> Duration {
        self.meet();
        let (mut sent, mut acked) = (0, 0);
        let start = Instant::now();
        while acked < WORDS / WORDS_ACKED {
            if sent < WORDS && sent - acked * WORDS_ACKED < WORDS_WINDOW {
                self.send(&[Outgoing { peer: 1 - self.me, head: &[1; 8], body: &[] }]);
                sent += 1;
            } else {
                acked += self.receive() / 4;
            }
        }
        start.elapsed()
    }

    fn drink_words(&mut self) {
        self.meet();
        let (mut received, mut told) = (0, 0);
        while told < WORDS / WORDS_ACKED {
            received += self.receive() / 8;
            while told < received / WORDS_ACKED {
                self.word();
                told += 1;
            }
        }
    }

    /// A word each millisecond; the other rank sleeps until it comes, while its core computes.
    fn wake(&mut self) -> Vec<Duration> {
        self.meet();
        let round = |_| {
            let pause = Instant::now();
            while pause.elapsed() < Duration::from_millis(1) {
                std::hint::spin_loop();
            }
            let start = Instant::now();
            self.word();
            assert_eq!(self.receive(), 4);
            start.elapsed()
        };
        (0..LONE).map(round).collect()
    }

    fn sleep(&mut self, socket: &OwnedFd) {
        self.meet();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            for _ in 0..LONE {
                poll(&mut [PollFd::new(socket, PollFlags::IN)], None).expect("a socket");
                assert_eq!(self.receive(), 4);
                self.word();
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
