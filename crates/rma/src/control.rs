//! The words beside a rank's memory in a window: its gate, its lock, and the counters of
//! post-start-complete-wait.
//!
//! ```text
//! | gate | lock | counters that rank 0 writes | counters that rank 1 writes | ...
//! ```
//!
//! | counter of rank `m` at rank `r` | counts |
//! |---|---|
//! | posted | how often `m` has opened its own memory to `r` (`MPI_Win_post`) |
//! | completed | how often `m` has ended its operations on `r` (`MPI_Win_complete`) |
//!
//! Each counter has one writer, and its reader keeps how many it has used up. Counters of ranks of other
//! nodes are written by a thread of the rank itself, which serves them.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use tutti_shm::LINE_BYTES;
use tutti_shm::gate::{self, Gate};
use tutti_shm::window_lock::{self, WindowLock};

/// Threads of a rank that use a window's gate at once: its program's, and the one that serves other nodes.
const THREADS: u32 = 2;

/// Where the words of one rank's memory lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    mates: u32,
    ranks: u32,
    lock_at: usize,
    counters_at: usize,
    bytes: usize,
}

/// Which thread of a rank uses a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    /// The program's, or whoever holds its lock.
    Program,
    /// The service thread.
    Service,
}

/// Event that one rank counts in another's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// The rank has opened its memory to the other.
    Posted,
    /// The rank has ended its operations on the other's memory.
    Completed,
}

#[repr(C, align(64))]
#[derive(Debug, Default)]
struct Counters([AtomicU64; 2]);

/// One rank's view of the words beside a mate's memory, or its own.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    at: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the words are atomics in memory that outlives the value (the constructor's contract).
unsafe impl Send for Control {}

impl Layout {
    /// The layout for `mates` ranks of the node that use the gate; `ranks`, on all nodes, may wait for the
    /// lock at once, and have counters.
    pub fn new(mates: u32, ranks: u32) -> Self {
        let lock_at = gate::bytes(THREADS * mates);
        let counters_at = lock_at + window_lock::bytes(ranks);
        let bytes = counters_at + ranks as usize * size_of::<Counters>();
        Layout { mates, ranks, lock_at, counters_at, bytes: bytes.next_multiple_of(LINE_BYTES) }
    }

    /// Bytes of the words, a multiple of a line.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Control {
    /// The words at `at`.
    ///
    /// # Safety
    /// There are so many bytes, zeroed before the first use, aligned to a line and valid for the life of the
    /// value, and every rank of the node uses them with the same layout.
    pub unsafe fn new(at: NonNull<u8>, layout: Layout) -> Self {
        Control { at, layout }
    }

    /// The gate, as a thread of mate `mate` sees it.
    pub fn gate(&self, mate: u32, thread: Thread) -> Gate {
        let slot = THREADS * mate + u32::from(thread == Thread::Service);
        // SAFETY: the gate's words are at the beginning (the constructor's contract); each thread has a slot
        // of its own.
        unsafe { Gate::new(self.at, THREADS * self.layout.mates, slot) }
    }

    /// The lock.
    pub fn lock(&self) -> WindowLock {
        // SAFETY: the words of the lock lie there (the constructor's contract); every rank waits once at
        // most.
        unsafe { WindowLock::new(self.at.add(self.layout.lock_at), self.layout.ranks) }
    }

    /// How many ranks have counters.
    pub fn ranks(&self) -> u32 {
        self.layout.ranks
    }

    /// Rank `rank` of the window counts. The caller then rings whose memory it is.
    pub fn add(&self, rank: u32, count: Count) {
        self.counter(rank, count).fetch_add(1, Ordering::SeqCst);
    }

    /// How often rank `rank` of the window has counted.
    pub fn get(&self, rank: u32, count: Count) -> u64 {
        self.counter(rank, count).load(Ordering::Acquire)
    }

    fn counter(&self, rank: u32, count: Count) -> &AtomicU64 {
        assert!(rank < self.layout.ranks, "rank {rank} of {}", self.layout.ranks);
        // SAFETY: the counters of the rank lie inside the words (the constructor's contract).
        let counters =
            unsafe { self.at.add(self.layout.counters_at).cast::<Counters>().add(rank as usize).as_ref() };
        &counters.0[usize::from(count == Count::Completed)]
    }
}

#[cfg(test)]
mod tests {
    use tutti_shm::window_lock::Mode;

    use super::*;

    #[repr(C, align(64))]
    #[derive(Clone)]
    struct Line([u8; LINE_BYTES]);

    #[test]
    fn control_words_do_not_overlap() {
        for (mates, ranks) in [(1, 1), (2, 2), (5, 5000), (64, 64)] {
            let layout = Layout::new(mates, ranks);
            let mut words = vec![Line([0; LINE_BYTES]); layout.bytes() / LINE_BYTES + 1];
            // SAFETY: so many zeroed lines, and one more, that live to the end of the round.
            let control = unsafe { Control::new(NonNull::from(&mut words[0]).cast(), layout) };
            let (lock, last) = (control.lock(), mates - 1);
            let tickets: Vec<_> = (0..ranks).map(|rank| lock.ask(Mode::Exclusive, rank)).collect();
            control.gate(last, Thread::Service).close(15);
            for mate in 0..ranks {
                assert_eq!(control.get(mate, Count::Posted) + control.get(mate, Count::Completed), 0);
                control.add(mate, Count::Completed);
            }
            control.gate(last, Thread::Service).open(15);
            control.gate(0, Thread::Program).close(0);
            control.gate(0, Thread::Program).open(0);
            for (rank, ticket) in tickets.into_iter().enumerate() {
                lock.enter(ticket);
                let next = lock.release(ticket);
                assert_eq!(next, (rank + 1 < ranks as usize).then_some(rank as u32 + 1));
            }
            let counted = |mate| (control.get(mate, Count::Posted), control.get(mate, Count::Completed));
            assert!((0..ranks).all(|mate| counted(mate) == (0, 1)));
            assert_eq!(words.last().unwrap().0, [0; LINE_BYTES], "nothing is written behind them");
        }
    }
}
