//! Records between ranks of a node, in memory that they share. A rank that is in a call of shared memory
//! looks by itself; for one that computes, or waits elsewhere, a thread of the library does.
//!
//! | words | what they hold | writer |
//! |---|---|---|
//! | parked, by rank | 1: its thread sleeps | the thread; who wakes it |
//! | looking, by rank | 1: a call looks at the mail, and is woken by the rank's bell | the rank |
//! | sent, by pair | bytes that were put into its ring | the sender |
//! | waits, by pair | 1: a record found no room in the ring; 2: there is room again | the sender; the receiver |
//! | taken, by pair | bytes that were taken out | the receiver |
//!
//! ```text
//! sender     record -> sent -> fence -> bell of the rank -> looking? parked? -> parked = 0, wakes the thread
//! call       looking = 0 -> fence -> mail? -> takes it
//! receiver   takes records -> taken -> fence -> bell of the sender; waits = 1? -> 2, wakes as a sender does
//! thread     parked = 1 -> fence -> mail? waits = 2? -> sleeps while parked is 1
//! ```
//! Both sides write before they look, so a record and a sleeper do not miss each other. If a rank stops right
//! here (it is frozen with its node), the words stay, and it goes on.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use tutti_runtime::job::Job;

use crate::os;

/// Bytes of a ring: some of the longest records.
const RING_BYTES: usize = 64 << 10;
/// Bytes of words that one writer has to himself.
const LINE_BYTES: usize = 64;
/// The words of a rank: parked, looking.
const RANK_BYTES: usize = 2 * LINE_BYTES;
/// The words of a pair (sent, taken) and its ring.
const PAIR_BYTES: usize = 2 * LINE_BYTES + RING_BYTES;
/// Bytes before a record: its length. Records begin at multiples of it.
const HEAD_BYTES: usize = 8;

/// Bytes that the mail of so many ranks needs, zero at first.
pub(crate) fn bytes_for(ranks: usize) -> usize {
    (ranks * RANK_BYTES + ranks * ranks * PAIR_BYTES).next_multiple_of(crate::core::unit::UNIT_BYTES)
}

/// The mail of this rank.
#[derive(Debug)]
pub(crate) struct Mail {
    words: Words,
    job: Job,
    /// Ranks of this node.
    mates: Vec<usize>,
    record: Vec<u8>,
    /// By mate: where the last record of differences ends.
    marks: Vec<u64>,
}

/// Where everything lies; `me` is the place among the ranks of the node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    base: usize,
    me: usize,
    count: usize,
}

impl Words {
    fn parked(self, rank: usize) -> &'static AtomicU32 {
        os::word32(self.base + rank * RANK_BYTES)
    }

    fn looking(self, rank: usize) -> &'static AtomicU32 {
        os::word32(self.base + rank * RANK_BYTES + LINE_BYTES)
    }

    fn pair(self, from: usize, to: usize) -> usize {
        self.base + self.count * RANK_BYTES + (from * self.count + to) * PAIR_BYTES
    }

    fn sent(self, from: usize, to: usize) -> &'static AtomicU64 {
        os::word(self.pair(from, to))
    }

    fn waits(self, from: usize, to: usize) -> &'static AtomicU32 {
        os::word32(self.pair(from, to) + size_of::<u64>())
    }

    fn taken(self, from: usize, to: usize) -> &'static AtomicU64 {
        os::word(self.pair(from, to) + LINE_BYTES)
    }

    fn ring(self, from: usize, to: usize) -> usize {
        self.pair(from, to) + 2 * LINE_BYTES
    }

    /// Whether records wait for this rank.
    fn has_mail(self) -> bool {
        let has = |from| self.sent(from, self.me).load(Acquire) != self.taken(from, self.me).load(Relaxed);
        (0..self.count).any(has)
    }

    /// Wakes the thread of a rank whose program does not look.
    fn wake(self, mate: usize) {
        let parked = self.parked(mate);
        if self.looking(mate).load(SeqCst) == 0 && parked.load(SeqCst) == 1 && parked.swap(0, SeqCst) == 1 {
            os::futex_wake(parked);
        }
    }

    /// Whether there is room again for a record of this rank.
    fn takes_room(self) -> bool {
        let takes = |to| self.waits(self.me, to).compare_exchange(2, 0, SeqCst, SeqCst).is_ok();
        (0..self.count).filter(|to| takes(*to)).count() > 0
    }

    /// Sleeps until there may be mail, or room for some: the body of the thread.
    pub(crate) fn await_mail(self) {
        let parked = self.parked(self.me);
        parked.store(1, SeqCst);
        fence(SeqCst);
        let has_looker = self.looking(self.me).load(SeqCst) != 0;
        if !self.takes_room() && (!self.has_mail() || has_looker) {
            os::futex_wait(parked, 1);
        }
        parked.store(0, SeqCst);
    }
}

/// A place in a ring, and how many bytes follow it before the ring begins again.
fn place(ring: usize, at: u64) -> (usize, usize) {
    let offset = at as usize % RING_BYTES;
    (ring + offset, RING_BYTES - offset)
}

fn put(ring: usize, at: u64, bytes: &[u8]) {
    let (address, room) = place(ring, at);
    let (first, rest) = bytes.split_at(bytes.len().min(room));
    os::store(address, first);
    os::store(ring, rest);
}

fn get(ring: usize, at: u64, into: &mut [u8]) {
    let (address, room) = place(ring, at);
    let (first, rest) = into.split_at_mut(room.min(into.len()));
    os::load(address, first);
    os::load(ring, rest);
}

impl Mail {
    /// Mail at an address, where all ranks of the node see the same memory.
    pub(crate) fn new(base: usize, job: &Job, mates: Vec<usize>) -> Self {
        let me = mates.iter().position(|rank| *rank == job.rank()).expect("a rank is on its node");
        let words = Words { base, me, count: mates.len() };
        let marks = vec![0; mates.len()];
        Mail { words, job: job.clone(), mates, record: Vec::with_capacity(RING_BYTES), marks }
    }

    /// The words, for the thread.
    pub(crate) fn words(&self) -> Words {
        self.words
    }

    /// Whether a rank is another one of this node.
    pub(crate) fn is_for(&self, to: usize) -> bool {
        self.mates.contains(&to)
    }

    /// Puts a record into the ring of a mate and wakes it; false: there is no room yet.
    pub(crate) fn try_send(&mut self, to: usize, head: &[u8], body: &[u8]) -> bool {
        let words = self.words;
        let Some(mate) = self.mates.iter().position(|rank| *rank == to) else { return false };
        let (sent, ring) = (words.sent(words.me, mate), words.ring(words.me, mate));
        let length = head.len() + body.len();
        let whole = (HEAD_BYTES + length).next_multiple_of(HEAD_BYTES) as u64;
        let at = sent.load(Relaxed);
        let has_room = || at + whole - words.taken(words.me, mate).load(SeqCst) <= RING_BYTES as u64;
        if !has_room() {
            words.waits(words.me, mate).store(1, SeqCst);
            fence(SeqCst);
            if !has_room() {
                return false;
            }
        }
        put(ring, at, &(length as u64).to_ne_bytes());
        put(ring, at + HEAD_BYTES as u64, head);
        put(ring, at + (HEAD_BYTES + head.len()) as u64, body);
        sent.store(at + whole, Release);
        // With a fence behind what was published.
        self.job.ring(to);
        words.wake(mate);
        true
    }

    fn place_of(&self, to: usize) -> usize {
        self.mates.iter().position(|rank| *rank == to).expect("a rank of this node")
    }

    /// The last record to a mate is one that [`Mail::is_taken`] is about.
    pub(crate) fn mark(&mut self, to: usize) {
        let mate = self.place_of(to);
        self.marks[mate] = self.words.sent(self.words.me, mate).load(Relaxed);
    }

    /// Whether the mate has applied it.
    pub(crate) fn is_taken(&self, to: usize) -> bool {
        let mate = self.place_of(to);
        self.words.taken(self.words.me, mate).load(Acquire) >= self.marks[mate]
    }

    /// Takes in all records that have come.
    pub(crate) fn receive(&mut self, take: &mut dyn FnMut(usize, &[u8])) {
        let words = self.words;
        for from in 0..words.count {
            let (sent, taken) = (words.sent(from, words.me), words.taken(from, words.me));
            let ring = words.ring(from, words.me);
            let begin = taken.load(Relaxed);
            let mut at = begin;
            while at != sent.load(Acquire) {
                let mut length = [0; HEAD_BYTES];
                get(ring, at, &mut length);
                let length = (u64::from_ne_bytes(length) as usize).min(RING_BYTES - HEAD_BYTES);
                self.record.resize(length, 0);
                get(ring, at + HEAD_BYTES as u64, &mut self.record);
                at += (HEAD_BYTES + length).next_multiple_of(HEAD_BYTES) as u64;
                take(self.mates[from], &self.record);
                // What was taken has been applied.
                taken.store(at, Release);
            }
            if at != begin {
                // The sender may sleep until there is room again, or until its records have been applied.
                self.job.ring(self.mates[from]);
                if words.waits(from, words.me).compare_exchange(1, 2, SeqCst, SeqCst).is_ok() {
                    words.wake(from);
                }
            }
        }
    }

    /// From now on a call looks.
    pub(crate) fn begin_looking(&self) {
        self.words.looking(self.words.me).store(1, SeqCst);
    }

    /// No call looks any more; whether mail has come since.
    pub(crate) fn end_looking(&self) -> bool {
        self.words.looking(self.words.me).store(0, SeqCst);
        fence(SeqCst);
        self.words.has_mail()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_of_any_length_wraps_around_its_ring() {
        let ring = os::map_anywhere(RING_BYTES).expect("memory");
        let mut at = RING_BYTES as u64 - 24;
        for length in [5_usize, 8, 40, 9000] {
            let bytes: Vec<u8> = (0..length).map(|place| (place * 7) as u8).collect();
            put(ring, at, &bytes);
            let mut found = vec![0; length];
            get(ring, at, &mut found);
            assert_eq!(found, bytes);
            at += length as u64;
        }
    }
}
