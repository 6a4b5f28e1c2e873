//! The write protocol between nodes against random interleavings of one receiver and two senders. All that
//! decides is the engine's own code; only the channel is simulated, as it is for its owner: records come once
//! and in order, bulk messages in parts at any time, a FIFO or a table may be full. What the network loses,
//! repeats and reorders below that, the channel's own simulation has, with offered messages in it.
//!
//! Each step may be the last of a rank for a while. What MPI demands is checked at every record (a written
//! message matches the receive that it is written to) and at the end: every message is somewhere once, whole,
//! in order, and no other byte of a receive has changed.

use std::collections::{BTreeMap, VecDeque};
use std::ptr::NonNull;
use std::sync::LazyLock;

use tutti_channel::{BulkError, SendError};
use tutti_datatype::Buffer;
use tutti_runtime::router::Client;
use tutti_shm::envelope::HEAD_BYTES;
use tutti_shm::names::{NAMES_BYTES, Names};
use tutti_testkit::Random;

use super::*;
use crate::abi::{MPI_ANY_SOURCE, MPI_ERR_TRUNCATE};
use crate::engine::counters::Counters;
use crate::engine::matching::Matching;
use crate::engine::message::Message;
use crate::engine::remote_client::deliver;
use crate::request::{Request, RequestKind, Requests};

const RECEIVER: usize = 0;
const RANKS: usize = 3;
const STEPS: u32 = 60;
const CONTEXT: u32 = 7;
const SMALL: usize = 16;
const LARGE: usize = REMOTE_WRITE_BYTES_MIN + 8;
const LARGER: usize = LARGE + 24;
/// Bytes at either end of a message that say which it is.
const MARK: usize = 8;
const GUARD: u8 = 0xa5;

static TABLE: LazyLock<usize> =
    LazyLock::new(|| Box::leak(vec![[0_u64; 8]; NAMES_BYTES / 64 + 1].into_boxed_slice()).as_ptr() as usize);

fn names() -> Names {
    let at = NonNull::new((TABLE.next_multiple_of(64)) as *mut u8).expect("memory is not at 0");
    // SAFETY: zeroed and never used: nobody asks for a name here.
    unsafe { Names::new(at) }
}

/// Room for a bulk message.
struct Room {
    to: usize,
    from: usize,
    bytes: usize,
    tag: u64,
}

/// A bulk message on its way.
struct Flight {
    from: usize,
    to: usize,
    name: u64,
    bytes: usize,
    tag: u64,
    begun: bool,
}

struct Channel {
    random: Random,
    records: BTreeMap<(usize, usize), VecDeque<Vec<u8>>>,
    rooms: BTreeMap<u64, Room>,
    last: u64,
    flights: Vec<Flight>,
    /// Whether nothing is full any more.
    ending: bool,
}

/// Send of one rank.
struct Port<'a> {
    me: usize,
    channel: &'a mut Channel,
}

impl Port<'_> {
    fn is_full(&mut self, permille: u64) -> bool {
        !self.channel.ending && self.channel.random.chance(permille)
    }
}

impl Outlet for Port<'_> {
    fn try_send(&mut self, to: usize, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        if self.is_full(100) {
            return Err(SendError::Full);
        }
        self.channel.records.entry((self.me, to)).or_default().push_back([head, body].concat());
        Ok(())
    }

    fn accept_bulk(&mut self, from: usize, bytes: usize, tag: u64) -> Result<u64, BulkError> {
        if self.is_full(100) {
            return Err(BulkError::Full);
        }
        self.channel.last += 1;
        let (to, name) = (self.me, self.channel.last);
        self.channel.rooms.insert(name, Room { to, from, bytes, tag });
        Ok(name)
    }

    fn offer_bulk(&mut self, from: usize, bytes: usize, tag: u64) -> Result<u64, BulkError> {
        self.accept_bulk(from, bytes, tag)
    }

    fn confirm_bulk(&mut self, name: u64, bytes: usize) -> bool {
        if let Some(room) = self.channel.rooms.get_mut(&name) {
            assert!(bytes <= room.bytes, "{bytes} B come into a room of {}", room.bytes);
            room.bytes = bytes;
        }
        true
    }

    fn cancel_bulk(&mut self, name: u64) {
        self.channel.rooms.remove(&name);
    }

    fn send_bulk(&mut self, to: usize, name: u64, bytes: usize, tag: u64) -> Result<(), BulkError> {
        if self.is_full(100) {
            return Err(BulkError::Full);
        }
        self.channel.flights.push(Flight { from: self.me, to, name, bytes, tag, begun: false });
        Ok(())
    }
}

struct Rank {
    state: State,
    requests: Requests,
    matching: Matching,
    counters: Counters,
}

impl Rank {
    fn client(&mut self) -> RemoteClient<'_> {
        let Rank { state, requests, matching, counters } = self;
        RemoteClient { state, requests, matching, counters }
    }
}

/// A receive that was posted.
struct Posted {
    index: u32,
    source: i32,
    tag: i32,
    capacity: usize,
    memory: Vec<u8>,
}

#[derive(Default)]
struct Tally {
    sent: u64,
    written: u64,
    stale: u64,
    uncertain: u64,
    cancelled: u64,
    /// Written messages whose bytes were there before their records.
    early: u64,
    failed: Option<String>,
}

struct Run {
    random: Random,
    channel: Channel,
    ranks: Vec<Rank>,
    posted: Vec<Posted>,
    /// By sender: tag and bytes of each message.
    sent: Vec<Vec<(i32, usize)>>,
    memory: Vec<Vec<u8>>,
    /// Requests claim that nothing has crossed them.
    lies: bool,
    tally: Tally,
}

impl Run {
    fn new(seed: u64, lies: bool) -> Self {
        let mut random = Random::new(seed);
        let small_memory = random.chance(300);
        let rank = |_| {
            let mut state = State::new(RANKS, 1000, names());
            if small_memory {
                state.peers.iter_mut().for_each(|peer| peer.far.requests.limit());
            }
            Rank {
                state,
                requests: Requests::default(),
                matching: Matching::new(RANKS),
                counters: Counters::default(),
            }
        };
        let ranks = (0..RANKS).map(rank).collect();
        let channel = Channel {
            random: Random::new(random.number()),
            records: BTreeMap::new(),
            rooms: BTreeMap::new(),
            last: 0,
            flights: Vec::new(),
            ending: false,
        };
        let sent = vec![Vec::new(); RANKS];
        Run {
            random,
            channel,
            ranks,
            posted: Vec::new(),
            sent,
            memory: Vec::new(),
            lies,
            tally: Tally::default(),
        }
    }

    fn go(mut self, pool: &mut Vec<Vec<u8>>) -> Tally {
        for _ in 0..STEPS {
            self.step(pool);
            if self.tally.failed.is_some() {
                return self.tally;
            }
        }
        self.channel.ending = true;
        // A sender that has left answers nothing more.
        let leaves = self.random.chance(300);
        self.drain(leaves);
        if leaves {
            for from in 1..RANKS {
                self.ranks[RECEIVER].client().peer_exited(from);
            }
            self.drain(leaves);
        }
        if self.tally.failed.is_none() {
            self.check(leaves);
        }
        for rank in &self.ranks {
            self.tally.written += rank.counters.remote_write;
            self.tally.stale += rank.counters.stale;
            self.tally.uncertain += rank.counters.uncertain;
        }
        pool.append(&mut self.memory);
        pool.extend(self.posted.into_iter().map(|posted| posted.memory));
        self.tally
    }

    fn sender(&mut self) -> usize {
        1 + self.random.below(RANKS as u64 - 1) as usize
    }

    fn step(&mut self, pool: &mut Vec<Vec<u8>>) {
        let from = self.sender();
        match self.random.below(20) {
            0..4 => self.send(from, pool),
            4..7 => self.post(pool),
            7..11 => drop(self.carry(from, RECEIVER)),
            11..14 => drop(self.carry(RECEIVER, from)),
            14..16 => drop(self.fly()),
            16 => self.cancel(),
            _ => {
                let rank = self.random.below(RANKS as u64) as usize;
                self.advance(rank);
            }
        }
    }

    /// Steps of a rank at a look at its network.
    fn advance(&mut self, rank: usize) {
        let mut port = Port { me: rank, channel: &mut self.channel };
        let mut client = self.ranks[rank].client();
        client.settle_rooms(&mut port);
        client.push_bulk(&mut port);
        client.push_out(&mut port);
    }

    /// As [`Engine::send_to_node`].
    fn send(&mut self, from: usize, pool: &mut Vec<Vec<u8>>) {
        let tag = self.random.below(2) as i32;
        let bytes = [SMALL, LARGE, LARGE, LARGE, LARGER][self.random.below(5) as usize];
        let mode = if self.random.chance(200) { Mode::Synchronous } else { Mode::Standard };
        let mut memory = pool.pop().unwrap_or_else(|| vec![GUARD; LARGER]);
        let mark = (self.sent[from].len() as u64 | (from as u64) << 32).to_le_bytes();
        memory[..MARK].copy_from_slice(&mark);
        memory[bytes - MARK..bytes].copy_from_slice(&mark);
        self.sent[from].push((tag, bytes));
        self.tally.sent += 1;
        let buffer = Buffer::contiguous(memory.as_mut_ptr(), bytes);
        self.memory.push(memory);
        let message = Message { to: RECEIVER as u32, context: CONTEXT, tag, buffer: buffer.clone(), mode };
        let mut port = Port { me: from, channel: &mut self.channel };
        let mut client = self.ranks[from].client();
        if client.state.try_eager(&mut port, &message) {
            return;
        }
        let mut request = Request::new(RequestKind::Send, buffer, CONTEXT, RECEIVER as i32, tag);
        request.bytes = bytes;
        let index = client.requests.insert(request);
        client.state.put_off(RECEIVER, Outgoing::Send { request: index, mode });
        client.push_out(&mut port);
    }

    /// As [`Engine::receive`].
    fn post(&mut self, pool: &mut Vec<Vec<u8>>) {
        let source = match self.random.below(8) {
            0 => MPI_ANY_SOURCE,
            number => 1 + number as i32 % (RANKS as i32 - 1),
        };
        let tag = if self.random.chance(200) { MPI_ANY_TAG } else { self.random.below(2) as i32 };
        let capacity = [SMALL, LARGE, LARGE, LARGE, LARGER][self.random.below(5) as usize];
        let mut memory = pool.pop().unwrap_or_else(|| vec![GUARD; LARGER]);
        for end in [0..SMALL, LARGE - MARK..LARGER] {
            memory[end].fill(GUARD);
        }
        let buffer = Buffer::contiguous(memory.as_mut_ptr(), capacity);
        let request = Request::new(RequestKind::Receive, buffer, CONTEXT, source, tag);
        let mut port = Port { me: RECEIVER, channel: &mut self.channel };
        let client = &mut self.ranks[RECEIVER].client();
        let index = client.requests.insert(request);
        match client.matching.take_unexpected(client.requests.get(index)) {
            Some((from, found)) => deliver(client.state, client.requests, from, found, index),
            None => {
                client.matching.post(client.requests, index);
                if source != MPI_ANY_SOURCE && client.state.may_tell(source as usize, capacity) {
                    client.tell(&mut port, index);
                    client.push_out(&mut port);
                }
            }
        }
        self.posted.push(Posted { index, source, tag, capacity, memory });
    }

    /// As [`Engine::cancel`].
    fn cancel(&mut self) {
        if self.posted.is_empty() {
            return;
        }
        let index = self.posted[self.random.below(self.posted.len() as u64) as usize].index;
        let client = &mut self.ranks[RECEIVER].client();
        let request = client.requests.get(index);
        if request.done || !client.matching.is_posted(client.requests, index) {
            return;
        }
        let (from, number) = (request.peer, request.rtr);
        if number != 0 {
            client.cancel_advertised(from as usize, number);
        } else if client.matching.withdraw(client.requests, index) {
            client.requests.get_mut(index).cancelled = true;
            client.requests.finish(index);
        }
    }

    /// The next record from one rank to another is taken; whether there was one.
    fn carry(&mut self, from: usize, to: usize) -> bool {
        let Some(mut record) = self.channel.records.get_mut(&(from, to)).and_then(VecDeque::pop_front) else {
            return false;
        };
        if self.lies && record[0] == FAR_RTR {
            let sent = self.ranks[to].state.peers[from].far.sent;
            record[HEAD_BYTES + 16..HEAD_BYTES + 24].copy_from_slice(&sent.to_le_bytes());
        }
        let before = self.ranks[to].state.offers.list.len();
        if let Err(wrong) = self.ranks[to].client().take_record(from, &record) {
            self.tally.failed.get_or_insert(format!("record {} of {from} to {to}: {wrong:?}", record[0]));
        }
        let early = record[0] == FAR_WRITE && self.ranks[to].state.offers.list.len() < before;
        self.tally.early += u64::from(early);
        true
    }

    /// A bulk message goes on; whether there was one.
    fn fly(&mut self) -> bool {
        if self.channel.flights.is_empty() {
            return false;
        }
        let at = self.random.below(self.channel.flights.len() as u64) as usize;
        let flight = &mut self.channel.flights[at];
        let (from, to, bytes, tag, name) = (flight.from, flight.to, flight.bytes, flight.tag, flight.name);
        let is_first = !std::mem::replace(&mut flight.begun, true);
        let Some(room) = self.channel.rooms.get(&name) else {
            self.tally.failed.get_or_insert(format!("a message comes to room {name}, which was taken back"));
            return true;
        };
        assert!((room.from, room.to) == (from, to) && bytes <= room.bytes);
        // The end of a message that is shorter than its room is known when its record has come; until then it
        // is sent again.
        if !is_first && bytes < room.bytes {
            return false;
        }
        let (room, end) = (room.tag, if is_first { 0 } else { bytes - MARK });
        let mut mark = [0; MARK];
        self.ranks[from].client().read(tag, end as u64, &mut mark);
        self.ranks[to].client().fragment(room, end as u64, &mark);
        if !is_first {
            self.channel.flights.swap_remove(at);
            self.channel.rooms.remove(&name);
            self.ranks[to].client().bulk_received(room);
            self.ranks[from].client().bulk_sent(tag);
        }
        true
    }

    /// Everything comes that is under way; from the receiver nothing, if the senders leave.
    fn drain(&mut self, leaves: bool) {
        loop {
            let mut moved = false;
            for rank in 0..RANKS {
                self.advance(rank);
            }
            for from in 1..RANKS {
                moved |= self.carry(from, RECEIVER);
                moved |= !leaves && self.carry(RECEIVER, from);
            }
            // One that waits for its record is not the only one that may go on.
            moved |= (0..2 * self.channel.flights.len()).any(|_| self.fly());
            if !moved || self.tally.failed.is_some() {
                return;
            }
        }
    }

    fn check(&mut self, leaves: bool) {
        let rank = &mut self.ranks[RECEIVER];
        let mut seen = vec![vec![false; 0]; RANKS];
        for (from, sent) in self.sent.iter().enumerate() {
            seen[from].resize(sent.len(), false);
        }
        // The last message by the receives that ask for the same.
        let mut last = BTreeMap::new();
        let mut waiting = 0;
        for posted in &self.posted {
            let request = rank.requests.get(posted.index);
            let untouched = |at: usize| posted.memory[at..at + MARK].iter().all(|byte| *byte == GUARD);
            if request.cancelled {
                assert!(request.done && untouched(0) && untouched(posted.capacity - MARK));
                self.tally.cancelled += 1;
                continue;
            }
            let is_matched = !rank.matching.is_posted(&rank.requests, posted.index);
            if !request.done {
                // Where the senders have gone announced messages are not fetched any more.
                assert!(leaves || !is_matched, "a receive has its message and does not end");
                waiting += u32::from(!is_matched);
                continue;
            }
            let (from, bytes) = (request.peer as usize, request.bytes);
            assert_eq!(request.error == MPI_ERR_TRUNCATE, bytes > posted.capacity);
            let mark: [u8; MARK] = posted.memory[..MARK].try_into().unwrap();
            let number = u64::from_le_bytes(mark) as usize & 0xffff_ffff;
            assert_eq!(u64::from_le_bytes(mark) >> 32, from as u64, "the data are of the sender");
            assert_eq!(self.sent[from][number], (request.tag, bytes), "message {number} of {from}");
            assert!(!std::mem::replace(&mut seen[from][number], true), "it came twice");
            if bytes <= posted.capacity {
                assert_eq!(posted.memory[bytes - MARK..bytes], mark, "it is whole");
            }
            if bytes + MARK <= posted.capacity {
                assert!(untouched(posted.capacity - MARK), "bytes behind a message have changed");
            }
            if posted.source != MPI_ANY_SOURCE && posted.tag != MPI_ANY_TAG {
                let before = last.insert((from, posted.tag), number);
                if before.is_some_and(|before| before > number) {
                    self.tally.failed = Some(format!("message {number} of {from} was overtaken"));
                    return;
                }
            }
        }
        let all = seen.iter().flatten().filter(|seen| !**seen).count();
        let kept = rank.matching.unexpected_count();
        if !leaves {
            assert_eq!(all, kept, "every message is somewhere, once");
            assert!(rank.state.offers.list.iter().all(|offer| !offer.cancelled && !offer.landed));
            assert_eq!(waiting as usize, rank.matching.posted_count(&rank.requests));
            assert_eq!(rank.state.offers.list.len(), self.channel.rooms.len(), "rooms that nobody needs");
        }
        assert!(!rank.state.offers.list.iter().any(|offer| offer.cancelled && !offer.written));
    }
}

fn runs(count: u64, lies: bool) -> (u64, Tally) {
    let base = tutti_testkit::seed();
    let (mut failed, mut sum, mut pool) = (0, Tally::default(), Vec::new());
    for run in 0..count {
        let tally = Run::new(base.wrapping_add(run), lies).go(&mut pool);
        if let Some(reason) = tally.failed {
            assert!(lies, "run {run}: {reason}");
            failed += 1;
        }
        sum.sent += tally.sent;
        sum.written += tally.written;
        sum.stale += tally.stale;
        sum.uncertain += tally.uncertain;
        sum.cancelled += tally.cancelled;
        sum.early += tally.early;
    }
    println!(
        "{count} runs: {} messages, {} written, {} before their records; {} requests stale, {} uncertain, {} receives cancelled; {failed} failed",
        sum.sent, sum.written, sum.early, sum.stale, sum.uncertain, sum.cancelled
    );
    (failed, sum)
}

fn no_message_overtakes(count: u64) {
    let (_, sum) = runs(count, false);
    assert!(sum.written > sum.sent / 100, "the rule is of no use: {} of {}", sum.written, sum.sent);
    let every = [sum.stale, sum.uncertain, sum.cancelled, sum.early];
    assert!(every.iter().all(|count| *count > 0), "every case occurs: {every:?}");
}

#[test]
fn rtr_model_between_nodes_no_message_overtakes() {
    no_message_overtakes(20_000);
}

#[test]
#[ignore = "long: make soak-writes"]
fn rtr_model_between_nodes_soak() {
    let count = std::env::var("TUTTI_SIM_SEEDS").ok().and_then(|count| count.parse().ok());
    no_message_overtakes(count.unwrap_or(150_000));
}

/// A receiver that says it has seen all that was sent.
#[test]
fn rtr_model_between_nodes_can_fail() {
    let (failed, _) = runs(5_000, true);
    assert!(failed > 50, "{failed} of 5,000 runs");
}
