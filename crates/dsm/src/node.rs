//! Locks, barriers and flags of a job on one node: words that its ranks share. Memory is shared as it is, so
//! there is no protocol; whoever changes a word that others may wait for rings them.
//!
//! | words | what they hold | writer |
//! |---|---|---|
//! | next object | how many locks, barriers and flags there are | who makes one |
//! | ended | how many ranks come to nothing more | who ends |
//! | said | 1: a rank has said that others wait for ever | who says so |
//! | lock | 1 + the rank that holds it; 0: free | who takes it, its holder |
//! | barrier | how many have come (16 bits), of how many (16), the round (32) | who comes |
//! | flag | 1: set | who sets or clears it |
//! | heap | 1 + the rank that works on it | as a lock |

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use tutti_runtime::job::Job;
use tutti_runtime::rank;
use tutti_runtime::word_wait::{self, Storers};

use crate::core::violation::Violation;
use crate::{failure, os};

/// Locks, barriers and flags that a job on one node may have.
pub const OBJECTS_MAX: u64 = 1 << 18;
/// Words before those of the objects.
const HEAD_WORDS: usize = 8;
/// Bytes of all words.
pub const WORDS_BYTES: usize = (HEAD_WORDS + OBJECTS_MAX as usize) * size_of::<u64>();

const COUNT: u64 = 1 << 16;
const ROUND: u64 = 1 << 32;

/// The words, and the rank that uses them.
#[derive(Clone, Debug)]
pub struct Words {
    address: usize,
    job: Job,
}

impl Words {
    /// Words at an address, zero at first.
    pub fn new(address: usize, job: Job) -> Self {
        Words { address, job }
    }

    fn word(&self, place: usize) -> &AtomicU64 {
        os::word(self.address + place * size_of::<u64>())
    }

    fn object(&self, number: u64) -> &AtomicU64 {
        assert!(number < OBJECTS_MAX, "object {number} of a job on one node");
        self.word(HEAD_WORDS + number as usize)
    }

    /// How many objects there are.
    pub fn next(&self) -> &AtomicU64 {
        self.word(0)
    }

    /// How many bytes of the arena are taken: blocks of a job on one node are not given back.
    pub fn taken_bytes(&self) -> &AtomicU64 {
        self.word(1)
    }

    /// How many ranks come to nothing more: their process has ended.
    fn ended(&self) -> &AtomicU64 {
        self.word(2)
    }

    /// The process of this rank has ended: who waits for it at a barrier waits no longer.
    pub fn end(&self) {
        self.ended().fetch_add(1, SeqCst);
        self.ring();
    }

    /// Whether fewer ranks are left than are to meet.
    fn is_deserted(&self, count: u64) -> bool {
        let ended = self.ended().load(SeqCst);
        ended > 0 && count > (self.job.world().len() as u64).saturating_sub(ended)
    }

    /// Stores, and wakes those who wait for it.
    fn swap(&self, word: &AtomicU64, value: u64) -> u64 {
        let before = word.swap(value, SeqCst);
        self.ring();
        before
    }

    fn ring(&self) {
        let me = self.job.rank();
        self.job
            .present_ranks()
            .iter()
            .filter(|rank| *rank != me)
            .for_each(|rank| self.job.ring_after_swap(rank));
    }

    /// Takes a lock.
    ///
    /// # Errors
    /// When this rank has it.
    pub fn lock(&self, lock: u64) -> Result<(), Violation> {
        let (word, own) = (self.object(lock), self.job.rank() as u64 + 1);
        if word.load(SeqCst) == own {
            return Err(Violation::HeldAlready { lock, node: self.job.rank() });
        }
        wait(|| word.compare_exchange(0, own, SeqCst, SeqCst).is_ok());
        Ok(())
    }

    /// Gives a lock back.
    ///
    /// # Errors
    /// When this rank does not have it.
    pub fn unlock(&self, lock: u64) -> Result<(), Violation> {
        let (word, own) = (self.object(lock), self.job.rank() as u64 + 1);
        let found = word.load(SeqCst);
        if found != own {
            let holder = found.checked_sub(1).map(|holder| holder as usize);
            return Err(Violation::NotHeld { lock, node: self.job.rank(), holder });
        }
        self.swap(word, 0);
        Ok(())
    }

    /// Waits until so many ranks have come to a barrier.
    ///
    /// # Errors
    /// When others wait there as one of another number, or too few are left to come.
    pub fn barrier(&self, barrier: u64, count: u64) -> Result<(), Violation> {
        let word = self.object(barrier);
        let mut found = word.load(SeqCst);
        let round = loop {
            let (come, expected, round) = (found % COUNT, found % ROUND / COUNT, found / ROUND);
            if come > 0 && expected != count {
                return Err(Violation::BarrierCount {
                    barrier,
                    node: self.job.rank(),
                    found: count,
                    expected,
                });
            }
            let is_last = come + 1 == count;
            // The next round begins with nobody.
            let next = if is_last { (round + 1) * ROUND } else { round * ROUND + count * COUNT + come + 1 };
            match word.compare_exchange(found, next, SeqCst, SeqCst) {
                Ok(_) if is_last => {
                    self.ring();
                    return Ok(());
                }
                Ok(_) => break round,
                Err(changed) => found = changed,
            }
        };
        let is_over = || word.load(SeqCst) / ROUND != round;
        // One that has ended behind this round was its last: the round is looked at once more.
        wait(|| is_over() || self.is_deserted(count));
        if is_over() {
            return Ok(());
        }
        if self.word(3).swap(1, SeqCst) != 0 {
            // Another one that waits says so.
            failure::await_end();
        }
        let (node, nodes) = (self.job.rank(), self.job.world().len());
        let ended = self.ended().load(SeqCst) as usize;
        Err(Violation::Deserted { barrier, node, count, ended, nodes })
    }

    /// Sets a flag, or clears it.
    pub fn set(&self, flag: u64, is_set: bool) {
        self.swap(self.object(flag), u64::from(is_set));
    }

    /// Waits until a flag is set.
    pub fn wait(&self, flag: u64) {
        let word = self.object(flag);
        wait(|| word.load(SeqCst) != 0);
    }
}

fn wait(is_over: impl FnMut() -> bool) {
    debug_assert!(rank::enter().is_some(), "a rank that has left waits for others");
    word_wait::until(Storers::Calls, is_over);
}
