//! Records that the two ranks send each other, and the report of the stepped one on itself.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

use tutti_channel::{Rank, Sink, Source, Taken};
use tutti_runtime::net::Memory;
use tutti_testkit::stepper::{Shareable, Shared};

/// Records to the stepped rank, at most.
const TAKEN_MAX: usize = 64;
/// Bytes of the longest of them, at most.
const TAKEN_BYTES_MAX: usize = 8 << 10;

/// The records of each rank, in order.
pub(crate) type Plan = [Vec<Vec<u8>>; 2];

/// The seed of a run, printed with its test.
pub(crate) fn seed(name: &str) -> u64 {
    print!("{name}: ");
    tutti_testkit::seed()
}

/// Records of these lengths, each unlike all others.
pub(crate) fn plan(lengths: [Vec<usize>; 2]) -> Plan {
    assert!(lengths[1].len() <= TAKEN_MAX);
    let mut rank = 0;
    lengths.map(|lengths| {
        rank += 1;
        let record =
            |(n, length)| (0..length).map(|i| (i * 7 + i / 251 + n * 31 + rank * 101) as u8).collect();
        lengths.into_iter().enumerate().map(record).collect()
    })
}

/// Report of the stepped rank, in memory that the test can see. Writer, where nothing else is said: the
/// stepped rank.
#[repr(C)]
pub(crate) struct Reported {
    /// Records that `try_send` has taken.
    pub sent: AtomicU32,
    /// Records that the sink has taken, each stored behind its bytes.
    taken: AtomicU32,
    /// The part to be stepped is over.
    pub is_done: AtomicU32,
    /// Writer: the test. The first stop may come.
    pub may_stop: AtomicU32,
    /// Writer: the test. The rank may leave when nothing of its own is under way.
    pub may_leave: AtomicU32,
    lengths: [AtomicU32; TAKEN_MAX],
    bytes: UnsafeCell<[[u8; TAKEN_BYTES_MAX]; TAKEN_MAX]>,
}

// SAFETY: zeroes are a valid value; the words are atomics; a record's bytes are read after `taken` counts it,
// and not written again.
unsafe impl Shareable for Reported {}

impl Reported {
    /// How many records it has taken.
    pub(crate) fn taken(&self) -> u32 {
        self.taken.load(Ordering::Acquire)
    }

    /// The `n`-th record that it has taken.
    pub(crate) fn record(&self, n: u32) -> &[u8] {
        assert!(n < self.taken());
        let length = self.lengths[n as usize].load(Ordering::Relaxed) as usize;
        // SAFETY: see `Shareable`: counted records are whole and stay as they are.
        let bytes = unsafe { &(&*self.bytes.get())[n as usize] };
        &bytes[..length]
    }
}

/// Takes the stepped rank's records: no judgement there, only copies, which the test judges.
pub(crate) struct Taker<'a>(pub &'a Shared<Reported>);

// SAFETY: it gives no place.
unsafe impl Memory for Taker<'_> {}

impl Sink for Taker<'_> {
    fn record(&mut self, _from: Rank, record: &[u8]) -> Taken {
        let n = self.0.taken.load(Ordering::Relaxed) as usize;
        assert!(n < TAKEN_MAX, "one record too many");
        // SAFETY: nobody reads this record before it is counted, and nobody else writes here.
        unsafe { (&mut *self.0.bytes.get())[n][..record.len()].copy_from_slice(record) };
        self.0.lengths[n].store(record.len() as u32, Ordering::Relaxed);
        self.0.taken.store(n as u32 + 1, Ordering::Release);
        Taken::Yes
    }

    fn fragment(&mut self, _tag: u64, _offset: u64, _bytes: &[u8]) {
        panic!("no bulk message was accepted");
    }
}

/// Of ranks that send no bulk messages.
pub(crate) struct NoBulk;

impl Source for NoBulk {
    fn read(&mut self, _tag: u64, _offset: u64, _into: &mut [u8]) {
        panic!("no bulk message was sent");
    }
}
