//! Record of what the switch thread has done lately, for the log: a ring of fixed size, written by the
//! thread, emptied by the main loop.
//!
//! The thread may not wait, allocate or write a log, so it leaves four words for each turn; when the ring is
//! full because the main loop has had no core for long, turns are counted as lost.
//!
//! | word | writer | meaning |
//! |---|---|---|
//! | `put` | the thread, after the record is whole | records ever put |
//! | `taken` | the main loop, after it has copied | records ever taken |
//! | `lost` | the thread | records that found no room |
//!
//! What if the thread stops right here: a record counts when `put` says so, the one behind it is nobody's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tutti_protocol::turns::{KINDS, TurnBatch, TurnKind};
use tutti_sched::{Generation, JobId, Report, Stage};

use super::clock::now_ns;

/// Records that wait for the main loop: seconds of switches, also with slices of 5 ms.
const CAPACITY: usize = 4096;

/// Record of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Kind of the turn.
    pub kind: TurnKind,
    /// When it began, by the node's monotonic clock.
    pub at_ns: u64,
    /// In this generation.
    pub generation: u64,
    /// With this job; 0: with all.
    pub job: u64,
    /// How long it took; 0: no time.
    pub took_ns: u64,
}

/// The ring; both ends hold it.
#[derive(Debug, Clone)]
pub struct Turns(Arc<Ring>);

#[derive(Debug)]
struct Ring {
    put: AtomicU64,
    taken: AtomicU64,
    lost: AtomicU64,
    records: Box<[[AtomicU64; 4]]>,
}

impl Default for Turns {
    fn default() -> Self {
        let records = (0..CAPACITY).map(|_| Default::default()).collect();
        let zero = AtomicU64::default;
        Turns(Arc::new(Ring { put: zero(), taken: zero(), lost: zero(), records }))
    }
}

impl Turns {
    /// The thread puts one.
    pub fn put(&self, turn: Turn) {
        let ring = &*self.0;
        let put = ring.put.load(Ordering::Relaxed);
        if put - ring.taken.load(Ordering::Acquire) >= CAPACITY as u64 {
            ring.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let kind = (turn.kind as u64) << 56 | turn.took_ns.min((1 << 56) - 1);
        let words = [turn.at_ns, turn.generation, turn.job, kind];
        for (word, value) in ring.records[put as usize % CAPACITY].iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        ring.put.store(put + 1, Ordering::Release);
    }

    /// Whether the ring is half full.
    pub fn is_half_full(&self) -> bool {
        let waiting = self.0.put.load(Ordering::Relaxed) - self.0.taken.load(Ordering::Relaxed);
        waiting >= CAPACITY as u64 / 2
    }

    /// The main loop takes them all. `wall_us` is the time since 1970 and `now_ns` that of the monotonic
    /// clock, now. None: nothing has been done.
    pub fn take(&self, wall_us: u64, now_ns: u64) -> Option<TurnBatch> {
        let ring = &*self.0;
        let (from, to) = (ring.taken.load(Ordering::Relaxed), ring.put.load(Ordering::Acquire));
        let read = |at: u64| {
            let words =
                ring.records[at as usize % CAPACITY].each_ref().map(|word| word.load(Ordering::Relaxed));
            let [at_ns, generation, job, kind] = words;
            let (kind, took_ns) = (KINDS[(kind >> 56) as usize], kind & ((1 << 56) - 1));
            Turn { kind, at_ns, generation, job, took_ns }
        };
        let turns: Vec<Turn> = (from..to).map(read).collect();
        ring.taken.store(to, Ordering::Release);
        let first_ns = turns.iter().map(|turn| turn.at_ns).min()?;
        let since_us = wall_us.saturating_sub(now_ns.saturating_sub(first_ns) / 1000);
        let clock_us = first_ns / 1000;
        // Moments are rounded, not differences: what came before something else does so in the log too.
        let short = |turn: &Turn| {
            let (from_us, to_us) = (turn.at_ns / 1000, (turn.at_ns + turn.took_ns) / 1000);
            (turn.kind, from_us - clock_us, turn.generation, turn.job, to_us - from_us)
        };
        let lost = ring.lost.swap(0, Ordering::Relaxed);
        Some(TurnBatch { since_us, clock_us, lost, turns: turns.iter().map(short).collect() })
    }
}

/// The thread's end of the ring.
#[derive(Debug)]
pub(super) struct Recorder {
    generation: Generation,
    turns: Turns,
}

impl Recorder {
    pub(super) fn new(turns: Turns) -> Self {
        Recorder { generation: Generation(0), turns }
    }

    /// A SWITCH holds from now on; one that was repeated does already.
    pub(super) fn begin(&mut self, generation: Generation, now_ns: u64) {
        if generation > self.generation {
            self.generation = generation;
            self.put(TurnKind::Switch, JobId(0), now_ns, now_ns);
        }
    }

    /// Records what was done with a job, from when to when.
    pub(super) fn put(&self, kind: TurnKind, job: JobId, from_ns: u64, to_ns: u64) {
        let took_ns = to_ns.saturating_sub(from_ns);
        self.turns.put(Turn { kind, at_ns: from_ns, generation: self.generation.0, job: job.0, took_ns });
    }

    /// On the controller: a barrier of all nodes of a job is complete, just now.
    pub(super) fn reached(&self, report: &Report) {
        let Report::Reached { job, stage, .. } = report else { return };
        let now_ns = now_ns();
        let kind = match stage {
            Stage::Frozen => TurnKind::Frozen,
            Stage::Saved => TurnKind::Saved,
            Stage::Restored => TurnKind::Restored,
            Stage::Idle | Stage::Suspended => return,
        };
        self.put(kind, *job, now_ns, now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thaw(at_ns: u64) -> Turn {
        Turn { kind: TurnKind::Thaw, at_ns, generation: 7, job: 3, took_ns: 12_400 }
    }

    #[test]
    fn turn_records_come_once_in_order() {
        let turns = Turns::default();
        assert_eq!(turns.take(1_000_000, 50_000), None);
        turns.put(thaw(10_000));
        turns.put(Turn { kind: TurnKind::Restored, at_ns: 25_000, generation: 8, job: 9, took_ns: 0 });
        let batch = turns.take(1_000_000, 50_000).unwrap();
        assert_eq!(batch.since_us, 1_000_000 - 40);
        assert_eq!(batch.turns, [(TurnKind::Thaw, 0, 7, 3, 12), (TurnKind::Restored, 15, 8, 9, 0)]);
        assert_eq!(turns.take(1_000_000, 50_000), None);
        let text = serde_json::to_string(&batch).unwrap();
        assert_eq!(
            text,
            r#"{"since_us":999960,"clock_us":10,"lost":0,"turns":[["thaw",0,7,3,12],["restored",15,8,9,0]]}"#
        );
        assert_eq!(serde_json::from_str::<TurnBatch>(&text).unwrap(), batch);
    }

    #[test]
    fn turn_records_without_room_are_counted() {
        let turns = Turns::default();
        (0..CAPACITY as u64 + 5).for_each(|at| turns.put(thaw(at * 1000)));
        assert!(turns.is_half_full());
        let batch = turns.take(0, 0).unwrap();
        assert_eq!((batch.lost, batch.turns.len()), (5, CAPACITY));
        turns.put(thaw(77_000));
        let batch = turns.take(0, 0).unwrap();
        assert_eq!((batch.lost, batch.turns.len()), (0, 1));
    }

    #[test]
    fn turn_records_are_never_torn() {
        const LAST: u64 = 200_000;
        let turns = Turns::default();
        let writer = turns.clone();
        let thread = std::thread::spawn(move || {
            for n in 1..=LAST {
                while writer.is_half_full() {
                    std::thread::yield_now();
                }
                writer.put(Turn {
                    kind: TurnKind::Freeze,
                    at_ns: n,
                    generation: n,
                    job: n,
                    took_ns: n * 1000,
                });
            }
        });
        let mut last = 0;
        while last < LAST {
            for (_, _, generation, job, took) in turns.take(0, 0).into_iter().flat_map(|taken| taken.turns) {
                assert_eq!((generation, job, took), (last + 1, last + 1, last + 1));
                last = job;
            }
        }
        thread.join().unwrap();
    }
}
