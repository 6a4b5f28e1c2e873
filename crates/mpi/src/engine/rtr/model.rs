//! The race rule against random interleavings of one receiver and two senders: wildcards, two tags, small and
//! large messages, cancelled receives, senders that remember little. What decides is the engine's own code:
//! [`Matching`] and [`RtrReceiver`] at the receiver, [`RtrSender`] at the senders; only the rings and the two
//! words of a pair are simulated.
//!
//! The receiver matches in ring order, so what MPI demands is known: a message that was written to a
//! advertised receive must be the one that this receive gets. As a proof that the model can fail, the paper's
//! own numbering runs in it too.

use std::collections::VecDeque;

use tutti_datatype::Buffer;
use tutti_testkit::Random;

use super::*;
use crate::abi::MPI_ANY_SOURCE;
use crate::engine::matching::Matching;
use crate::engine::unexpected_message::{Body, SHORT_BYTES, Unexpected};
use crate::handle::{Kind, Slab};
use crate::request::{Request, RequestKind};

const SENDERS: usize = 2;
const STEPS: u32 = 60;
const LARGE: usize = 1000;
const CONTEXT: u32 = 7;

/// Which rule the run follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Ours.
    Replay,
    /// The paper's numbers, read naturally: a request is fresh if the receiver had taken all eager messages
    /// when it asked.
    Paper,
}

#[derive(Clone, Copy)]
struct Envelope {
    position: u64,
    tag: i32,
    large: bool,
    /// The advertised receive that it is written to.
    receive: Option<u64>,
}

/// State of a sender; each step may be the last before it is frozen for a while.
enum Doing {
    Nothing,
    /// Has stored its claim.
    Claimed {
        tag: i32,
        receive: AdvertisedReceive,
    },
    /// Has found the claim good.
    Writes {
        tag: i32,
        receive: AdvertisedReceive,
    },
}

struct Sender {
    rtr: RtrSender,
    doing: Doing,
    /// To the receiver, and how many are out.
    ring: VecDeque<Envelope>,
    position: u64,
    /// From the receiver: a request and the first one that is pending.
    requests: VecDeque<(AdvertisedReceive, u64)>,
    /// The words of the pair.
    claim: u64,
    void: u64,
    /// The paper's: requests as they came, eager messages put into the ring.
    paper_requests: Vec<AdvertisedReceive>,
    paper_eager: u64,
}

struct Receiver {
    requests: Slab<Request>,
    matching: Matching,
    advertising: Vec<RtrReceiver>,
    /// Position up to which each ring was read; the paper's number of eager messages taken.
    read: Vec<u64>,
    paper_eager: Vec<u64>,
    pending: Vec<u32>,
    /// A receive that is being cancelled: the two words have been looked at.
    cancelling: Option<(u32, u64)>,
}

#[derive(Default)]
struct Tally {
    sent: u32,
    received: u32,
    remote_write: u32,
    stale: u32,
    uncertain: u32,
    cancelled: u32,
    reordered: bool,
}

struct Run {
    rule: Rule,
    random: Random,
    senders: Vec<Sender>,
    receiver: Receiver,
    tally: Tally,
}

impl Run {
    fn new(rule: Rule, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let small_memory = rule == Rule::Replay && random.chance(300);
        let sender = || Sender {
            rtr: RtrSender {
                limits: if small_memory {
                    Limits { history: 3, sends_without_request: 4 }
                } else {
                    Limits::default()
                },
                ..RtrSender::default()
            },
            doing: Doing::Nothing,
            ring: VecDeque::new(),
            position: 0,
            requests: VecDeque::new(),
            claim: 0,
            void: 0,
            paper_requests: Vec::new(),
            paper_eager: 0,
        };
        let receiver = Receiver {
            requests: Slab::new(Kind::Request),
            matching: Matching::new(SENDERS),
            advertising: (0..SENDERS).map(|_| RtrReceiver::default()).collect(),
            read: vec![0; SENDERS],
            paper_eager: vec![0; SENDERS],
            pending: Vec::new(),
            cancelling: None,
        };
        let senders = (0..SENDERS).map(|_| sender()).collect();
        Run { rule, random, senders, receiver, tally: Tally::default() }
    }

    fn go(mut self) -> Tally {
        for _ in 0..STEPS {
            self.step();
            if self.tally.reordered {
                return self.tally;
            }
        }
        self.finish_cancel();
        for from in 0..SENDERS {
            while !matches!(self.senders[from].doing, Doing::Nothing) {
                self.send(from);
            }
            while self.take(from) {}
        }
        if self.tally.reordered {
            return self.tally;
        }
        let waiting = (0..SENDERS).map(|from| self.unexpected(from)).sum::<u32>();
        assert_eq!(self.tally.sent, self.tally.received + waiting, "every message is somewhere, once");
        self.tally
    }

    fn step(&mut self) {
        let who = self.random.below(10);
        match who {
            0..4 => {
                let from = self.random.below(SENDERS as u64) as usize;
                let idle = matches!(self.senders[from].doing, Doing::Nothing);
                if idle && self.random.chance(400) {
                    self.take_requests(from);
                } else {
                    self.send(from);
                }
            }
            _ if self.receiver.cancelling.is_some() => self.finish_cancel(),
            4..7 => self.post(),
            7 if self.rule == Rule::Replay && self.random.chance(80) => self.begin_cancel(),
            _ => {
                let from = self.random.below(SENDERS as u64) as usize;
                self.take(from);
            }
        }
    }

    fn take_requests(&mut self, from: usize) {
        let sender = &mut self.senders[from];
        while let Some((request, pending_from)) = sender.requests.pop_front() {
            if self.rule == Rule::Paper {
                sender.paper_requests.push(request);
                continue;
            }
            match sender.rtr.handle_request(request, pending_from, sender.void, sender.position) {
                Arrived::Usable => {}
                Arrived::Stale => self.tally.stale += 1,
                Arrived::Uncertain => self.tally.uncertain += 1,
            }
        }
    }

    /// One step of a sender.
    fn send(&mut self, from: usize) {
        let sender = &mut self.senders[from];
        match std::mem::replace(&mut sender.doing, Doing::Nothing) {
            Doing::Nothing => {
                let (tag, large) = (self.random.below(2) as i32, self.random.chance(500));
                if self.rule == Rule::Paper {
                    let remote_write = if large { sender.paper_find(tag) } else { None };
                    self.put(from, tag, large, remote_write);
                    return;
                }
                match sender.rtr.find(CONTEXT, tag).copied().filter(|_| large) {
                    Some(receive) => {
                        sender.claim = receive.number;
                        sender.doing = Doing::Claimed { tag, receive };
                    }
                    None => self.put(from, tag, large, None),
                }
            }
            Doing::Claimed { tag, receive } if receive.number > sender.void => {
                sender.doing = Doing::Writes { tag, receive };
            }
            Doing::Claimed { tag, .. } => {
                sender.rtr.void(sender.void);
                self.put(from, tag, true, None);
            }
            Doing::Writes { tag, receive } => self.put(from, tag, true, Some(receive.number)),
        }
    }

    fn put(&mut self, from: usize, tag: i32, large: bool, receive: Option<u64>) {
        let sender = &mut self.senders[from];
        sender.position += 1 + self.random.below(3);
        sender.ring.push_back(Envelope { position: sender.position, tag, large, receive });
        sender.paper_eager += u64::from(receive.is_none());
        if sender.rtr.remembers() {
            sender.rtr.record(sender.position, CONTEXT, tag);
        }
        self.tally.sent += 1;
        self.tally.remote_write += u32::from(receive.is_some());
    }

    /// The receiver posts a receive, and tells it if it may.
    fn post(&mut self) {
        let source = match self.random.below(8) {
            0 => MPI_ANY_SOURCE,
            n => n as i32 % SENDERS as i32,
        };
        let tag = if self.random.chance(200) { MPI_ANY_TAG } else { self.random.below(2) as i32 };
        let large = self.random.chance(700);
        let capacity = if large { LARGE } else { 1 };
        let buffer = Buffer::contiguous(std::ptr::null_mut(), capacity);
        let receiver = &mut self.receiver;
        let request = Request::new(RequestKind::Receive, buffer, CONTEXT, source, tag);
        if receiver.matching.take_unexpected(&request).is_some() {
            self.tally.received += 1;
            return;
        }
        let index = receiver.requests.insert(request);
        receiver.matching.post(&mut receiver.requests, index);
        receiver.pending.push(index);
        if source == MPI_ANY_SOURCE || !large {
            return;
        }
        let (advertising, sender) =
            (&mut receiver.advertising[source as usize], &mut self.senders[source as usize]);
        let may = match self.rule {
            Rule::Replay => receiver
                .matching
                .may_advertise(&receiver.requests, index, |rtr| advertising.is_advertised(rtr)),
            // The paper holds back only behind receives from any source.
            Rule::Paper => {
                let any = receiver.pending.iter().any(|&i| receiver.requests.get(i).peer == MPI_ANY_SOURCE);
                (!any).then_some(None)
            }
        };
        let Some(first) = may else { return };
        let number = advertising.upcoming();
        advertising.add(number);
        receiver.requests.get_mut(index).rtr = number;
        let seen = match self.rule {
            Rule::Replay => receiver.read[source as usize],
            Rule::Paper => receiver.paper_eager[source as usize],
        };
        let rtr = AdvertisedReceive {
            number,
            context: CONTEXT,
            tag,
            capacity,
            address: 0,
            seen,
            prefers_ring: false,
        };
        sender.requests.push_back((rtr, first.unwrap_or(number)));
    }

    /// The receiver takes the next envelope of a sender.
    fn take(&mut self, from: usize) -> bool {
        let Some(envelope) = self.senders[from].ring.pop_front() else { return false };
        let receiver = &mut self.receiver;
        receiver.read[from] = envelope.position;
        receiver.paper_eager[from] += u64::from(envelope.receive.is_none());
        let found = receiver.matching.take_posted(&mut receiver.requests, from, CONTEXT, envelope.tag);
        let rtr = found.map_or(0, |index| receiver.requests.get(index).rtr);
        if envelope.receive.is_some_and(|receive| receive != rtr) {
            self.tally.reordered = true;
            return true;
        }
        let Some(index) = found else {
            let body = Body::Short([0; SHORT_BYTES]);
            let (tag, bytes) = (envelope.tag, if envelope.large { LARGE } else { 1 });
            receiver.matching.keep(from, Unexpected { context: CONTEXT, tag, bytes, body });
            return true;
        };
        if rtr != 0 {
            receiver.advertising[from].matched(rtr, true);
        }
        receiver.pending.retain(|&pending| pending != index);
        receiver.requests.remove(index);
        self.tally.received += 1;
        true
    }

    fn begin_cancel(&mut self) {
        let receiver = &mut self.receiver;
        if receiver.pending.is_empty() {
            return;
        }
        let index = receiver.pending[self.random.below(receiver.pending.len() as u64) as usize];
        let request = receiver.requests.get(index);
        if request.rtr == 0 {
            assert!(receiver.matching.withdraw(&mut receiver.requests, index));
            self.forget(index);
            return;
        }
        let from = request.peer as usize;
        self.senders[from].void = receiver.advertising[from].void_all();
        receiver.cancelling = Some((index, 0));
    }

    fn finish_cancel(&mut self) {
        let Some((index, _)) = self.receiver.cancelling.take() else { return };
        let request = self.receiver.requests.get(index);
        let (from, rtr) = (request.peer as usize, request.rtr);
        let claimed = self.senders[from].claim;
        while self.take(from) {}
        if self.receiver.pending.contains(&index) && claimed != rtr {
            assert!(self.receiver.matching.withdraw(&mut self.receiver.requests, index));
            self.forget(index);
        }
    }

    fn forget(&mut self, index: u32) {
        self.receiver.pending.retain(|&pending| pending != index);
        self.receiver.requests.remove(index);
        self.tally.cancelled += 1;
    }

    /// Messages of a sender that wait at the receiver.
    fn unexpected(&mut self, from: usize) -> u32 {
        let any = Request::new(RequestKind::Receive, Buffer::empty(), CONTEXT, from as i32, MPI_ANY_TAG);
        let mut count = 0;
        while self.receiver.matching.take_unexpected(&any).is_some() {
            count += 1;
        }
        count
    }
}

impl Sender {
    /// The paper's look at the requests: what matches and reflects the latest message is written to, what is
    /// stale goes.
    fn paper_find(&mut self, tag: i32) -> Option<u64> {
        let latest = self.paper_eager;
        self.paper_requests.retain(|request| request.seen == latest);
        let found = self.paper_requests.iter().position(|request| request.takes(CONTEXT, tag))?;
        Some(self.paper_requests.remove(found).number)
    }
}

fn runs(rule: Rule, count: u64) -> (u64, Tally) {
    let base = tutti_testkit::seed();
    let (mut reordered, mut sum) = (0, Tally::default());
    for run in 0..count {
        let seed = base.wrapping_add(run);
        let tally = Run::new(rule, seed).go();
        assert!(
            rule == Rule::Paper || !tally.reordered,
            "run {run}: a message was written to another's receive"
        );
        reordered += u64::from(tally.reordered);
        sum.sent += tally.sent;
        sum.remote_write += tally.remote_write;
        sum.stale += tally.stale;
        sum.uncertain += tally.uncertain;
        sum.cancelled += tally.cancelled;
    }
    println!(
        "{count} runs: {} messages, {} written, {} requests stale, {} uncertain, {} receives cancelled, {reordered} runs reordered",
        sum.sent, sum.remote_write, sum.stale, sum.uncertain, sum.cancelled
    );
    (reordered, sum)
}

#[test]
fn rtr_model_no_message_overtakes() {
    let (_, sum) = runs(Rule::Replay, 150_000);
    assert!(
        sum.remote_write > sum.sent / 50,
        "the rule is of no use: {} of {} written",
        sum.remote_write,
        sum.sent
    );
    assert!(sum.stale > 0 && sum.uncertain > 0 && sum.cancelled > 0, "every case occurs");
}

#[test]
fn rtr_model_can_fail_with_the_papers_numbers() {
    let (reordered, _) = runs(Rule::Paper, 20_000);
    assert!(reordered > 200, "{reordered} of 20,000 runs");
}
