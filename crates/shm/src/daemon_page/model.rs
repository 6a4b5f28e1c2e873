//! Loom: a rank reads library time while the job is thawed; whatever it sees, no time that the job has stood
//! still is in it.

use std::sync::Arc;

use super::*;
use crate::model::explore;

#[test]
fn daemon_page_model_time_is_never_torn_by_a_thaw() {
    explore("daemon page", None, || {
        // The second time is monotonic time.
        let shared = Arc::new((Lines::default(), AtomicU64::new(10)));
        let turns = shared.clone();
        let writing = loom::thread::spawn(move || {
            let (lines, monotonic_ns) = &*turns;
            let mut sums = Sums::default();
            sums.begin(&lines.turns, 10);
            monotonic_ns.store(30, Ordering::Release);
            sums.end(&lines.turns, 30, 0);
            monotonic_ns.store(31, Ordering::Release);
        });
        let (lines, monotonic_ns) = &*shared;
        let mut last = None;
        for _ in 0..2 {
            let mut looked = 0;
            let time = lines.clock(|| {
                looked = monotonic_ns.load(Ordering::Acquire);
                looked
            });
            // Until 30 it stands still, or has been; from 31 on it has been thawed.
            match looked {
                31 => assert_eq!(time, Time { ns: 11, thaw_count: 1 }),
                30 if time.ns == 10 => assert_eq!(time.thaw_count, 1),
                looked => assert_eq!(time.ns, looked),
            }
            assert!(last.is_none_or(|count| time.thaw_count >= count));
            last = Some(time.thaw_count);
        }
        writing.join().unwrap();
    });
}
