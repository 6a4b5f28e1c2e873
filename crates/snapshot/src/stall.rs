//! Stillness of a job of several nodes, as far as it is known: when a snapshot is to say whether it is a
//! deadlock, and which. The cluster's controller has one for each job, and `mpiexec` for its virtual nodes.
//!
//! ```text
//! record(numbers of all nodes) -> is_due -> begin, and a snapshot without data -> handle_snapshot -> deadlock, has_terminated
//!                                    ^------------- later, while they are as still as before --'
//! ```
//!
//! It has no clock: times are the caller's, in ms.

use crate::deadlock::DeadlockNotice;
use crate::state::Snapshot;
use crate::termination::has_terminated;

/// After a snapshot that could not be had, or has found nothing, the next is tried so much later, and twice
/// that the next time, up to the last of these: threads of a program may work while those that wait in the
/// library are still. Not for good: a rank that was frozen while its service thread looked at the network
/// counts as one that runs, and stands as still as before.
const RESEND_MS: (u64, u64) = (2_000, 120_000);
/// Another stillness is looked at no later than so long after the last look, so a deadlock is said some 10 s
/// after it has come.
const RETRY_MS: u64 = 8_000;

/// Stillness of a job, as far as it is known.
#[derive(Debug, Default)]
pub struct Stall {
    /// By whose numbers it is still, in the order of nodes; empty: it is not.
    stalled: Vec<u64>,
    /// The stillness for which a snapshot was asked for.
    examined: Vec<u64>,
    /// When the next snapshot may be tried, and how long after it the one behind that.
    again_ms: (u64, u64),
    /// When the last one was had, or given up.
    judged_ms: u64,
    deadlock: Option<DeadlockNotice>,
    /// Whether it is no deadlock: the job has terminated, and its ranks want to be notified.
    has_terminated: bool,
}

impl Stall {
    /// The deadlock, if the job's ranks wait for each other for ever.
    pub fn deadlock(&self) -> Option<&DeadlockNotice> {
        self.deadlock.as_ref()
    }

    /// Whether the job has terminated, as of the last snapshot that was handled.
    pub fn has_terminated(&self) -> bool {
        self.has_terminated
    }

    /// By these numbers, one of each node, it is still; none: it is not. `own`: a starter of a job of one
    /// node has found this deadlock. Whether that is another stillness than before: what was found, or is
    /// being looked for, is not of it.
    pub fn record(&mut self, numbers: Vec<u64>, own: Option<DeadlockNotice>) -> bool {
        let is_new = numbers != self.stalled;
        if is_new {
            (self.stalled, self.deadlock, self.has_terminated) = (numbers, own, false);
            let (next_ms, after_ms) = self.again_ms;
            self.again_ms = (next_ms.min(self.judged_ms + RETRY_MS), after_ms.min(RETRY_MS));
        }
        is_new
    }

    /// From when on a snapshot is to be tried; none: it is not still, or it is known why.
    pub fn due_ms(&self) -> Option<u64> {
        let is_known = self.deadlock.is_some() || self.has_terminated;
        (!self.stalled.is_empty() && !is_known).then_some(self.again_ms.0)
    }

    /// A snapshot is to be tried.
    pub fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms().is_some_and(|at_ms| now_ms >= at_ms)
    }

    /// Begins a try for the stillness that is known now.
    pub fn begin(&mut self) {
        self.examined.clone_from(&self.stalled);
    }

    /// The snapshot that was taken for this; none: there is none to be had.
    pub fn handle_snapshot(&mut self, snapshot: Option<&Snapshot>, now_ms: u64) {
        let snapshot = snapshot.filter(|_| self.examined == self.stalled);
        if let Some((snapshot, found)) = snapshot.and_then(|snapshot| Some((snapshot, snapshot.deadlock()?)))
        {
            self.has_terminated = has_terminated(snapshot, &found);
            self.deadlock = (!self.has_terminated).then(|| found.notice());
            self.again_ms = (0, 0);
            return;
        }
        let after_ms = self.again_ms.1.clamp(RESEND_MS.0, RESEND_MS.1);
        (self.again_ms, self.judged_ms) = ((now_ms + after_ms, 2 * after_ms), now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A snapshot of two ranks, of which each waits for the other; or one of them runs.
    fn snapshot(both: bool) -> Snapshot {
        serde_json::from_str(&text(both)).expect("a snapshot")
    }

    /// The same as JSON.
    fn text(both: bool) -> String {
        let waits = |rank: u32, peer: u32| {
            let wait = format!(
                r#"{{"what":"receive","matched":false,"peer":{peer},"tag":7,"context":0,"bytes":4}}"#
            );
            let any = format!(r#"[{{"all":[{wait}]}}]"#);
            let waits = format!(r#"{{"waits":{{"any":{any},"more":false,"sure":true,"unasked":0}}}}"#);
            let doing = if both || rank == 0 { waits } else { r#""runs""#.to_owned() };
            let view = format!(r#"{{"rank":{rank},"pid":1,"doing":{doing}}}"#);
            format!(r#"{{"node":{rank},"ranks":[{view}],"rings":[],"flows":[],"omitted":0}}"#)
        };
        let nodes = format!("{},{}", waits(0, 1), waits(1, 0));
        format!(r#"{{"job":1,"command":"a","ranks":2,"taken_ms":0,"nodes":[{nodes}]}}"#)
    }

    /// Views that only who speaks in the place of a starter can have sent.
    #[test]
    fn deadlock_views_with_too_many_ranks_are_not_judged() {
        let both = text(true);
        let found = |text: String| {
            let mut stall = stalled([3, 4]);
            stall.handle_snapshot(serde_json::from_str(&text).ok().as_ref(), 10);
            stall.deadlock().is_some()
        };
        assert!(found(both.clone()));
        assert!(!found(both.replace(r#""ranks":2,"taken"#, r#""ranks":1,"taken"#)));
        let wait = r#"{"what":"receive","matched":false,"peer":null,"tag":7,"context":0,"bytes":4}"#;
        let (waits, all) = ([wait; 5_000].join(","), r#"[{"all":["#);
        assert!(!found(both.replacen(all, &format!("{all}{waits},"), 1)));
        let runs: Vec<String> =
            (2..100_000).map(|rank| format!(r#"{{"rank":{rank},"pid":1,"doing":"runs"}}"#)).collect();
        assert!(!found(both.replacen(r#""ranks":[{"#, &format!(r#""ranks":[{},{{"#, runs.join(",")), 1)));
    }

    fn stalled(numbers: [u64; 2]) -> Stall {
        Stall { stalled: numbers.to_vec(), examined: numbers.to_vec(), ..Stall::default() }
    }

    #[test]
    fn deadlock_is_found_once_per_stall() {
        let mut stall = stalled([3, 4]);
        assert!(stall.is_due(10));
        stall.handle_snapshot(Some(&snapshot(true)), 10);
        let notice = stall.deadlock().expect("both wait");
        assert!(notice.line.contains("rank 0 receives from rank 1"), "{notice:?}");
        assert_eq!(notice.cycle[..], [0, 1]);
        assert!(!stall.is_due(1_000_000));
        stall.record(vec![3, 5], None);
        assert!(stall.deadlock().is_none() && stall.is_due(10), "another one");
    }

    #[test]
    fn deadlock_snapshot_of_an_earlier_stall_is_ignored() {
        let mut stall = Stall { examined: vec![1, 2], ..stalled([3, 4]) };
        stall.handle_snapshot(Some(&snapshot(true)), 10);
        assert_eq!(stall.deadlock(), None);
        assert!(stall.is_due(10 + RESEND_MS.0));
    }

    #[test]
    fn deadlock_lasting_stall_is_examined_again() {
        let mut stall = stalled([3, 4]);
        stall.handle_snapshot(Some(&snapshot(false)), 10);
        assert!(stall.deadlock().is_none() && !stall.is_due(10 + RESEND_MS.0 - 1));
        assert!(stall.is_due(10 + RESEND_MS.0), "a rank may have been seen awake that sleeps for ever");
        stall.handle_snapshot(Some(&snapshot(true)), 10 + RESEND_MS.0);
        assert!(stall.deadlock().is_some() && !stall.is_due(u64::MAX));
    }

    #[test]
    fn deadlock_search_backs_off_per_stall() {
        let mut stall = stalled([0, 1]);
        let mut now_ms = 10;
        for (round, after_ms) in [2_000, 4_000, 8_000, 8_000, 8_000].into_iter().enumerate() {
            stall.handle_snapshot(Some(&snapshot(false)), now_ms);
            stall.record(vec![round as u64 + 1, 9], None);
            stall.examined.clone_from(&stall.stalled);
            assert!(!stall.is_due(now_ms + after_ms - 1) && stall.is_due(now_ms + after_ms));
            now_ms += after_ms;
        }
        stall.handle_snapshot(None, now_ms);
        assert!(!stall.is_due(now_ms + 1) && stall.is_due(now_ms + RESEND_MS.1), "it was not judged");
    }

    #[test]
    fn deadlock_search_of_a_lasting_stall_settles_at_two_minutes() {
        let mut stall = stalled([3, 4]);
        let mut now_ms = 10;
        for after_ms in [2, 4, 8, 16, 32, 64, 120, 120, 120].map(|seconds| seconds * 1_000) {
            stall.handle_snapshot(Some(&snapshot(false)), now_ms);
            stall.record(vec![3, 4], None);
            assert!(!stall.is_due(now_ms + after_ms - 1) && stall.is_due(now_ms + after_ms), "{after_ms}");
            now_ms += after_ms;
        }
        stall.handle_snapshot(Some(&snapshot(false)), now_ms);
        stall.record(vec![3, 5], None);
        assert!(!stall.is_due(now_ms + RETRY_MS - 1) && stall.is_due(now_ms + RETRY_MS));
        stall.examined.clone_from(&stall.stalled);
        stall.handle_snapshot(Some(&snapshot(false)), now_ms + RETRY_MS);
        assert!(stall.is_due(now_ms + 2 * RETRY_MS), "and so is the one after that");
        stall.record(vec![3, 6], None);
        stall.record(Vec::new(), None);
        assert!(!stall.is_due(u64::MAX), "nobody is still");
    }
}
