//! What is known of the stillness of a job: when a snapshot is to say whether it is a deadlock, and which.

use std::sync::Arc;

use tutti_snapshot::Snapshot;

use crate::message::Answer;

/// After a snapshot that could not be had, or has found nothing, the next is tried so much later, and twice
/// that the next time, up to the last of these: threads of a program may work while those that wait in the
/// library are still. Not for good: a rank that was frozen while its service thread looked at the network
/// counts as one that runs, and stands as still as before.
const RESEND_MS: (u64, u64) = (2_000, 120_000);
/// Another stillness is looked at no later than so long after the last look, so a deadlock is said some 10 s
/// after it has come.
const RETRY_MS: u64 = 8_000;

/// What is known of the stillness of a job.
#[derive(Debug, Default)]
pub(super) struct Stuck {
    /// By whose numbers it is still, in the order of nodes; empty: it is not.
    pub(super) stalled: Vec<u64>,
    /// The stillness for which a snapshot was asked for.
    pub(super) examined: Vec<u64>,
    /// When the next snapshot may be tried, and how long after it the one behind that.
    again_ms: (u64, u64),
    /// When the last one was had, or given up.
    pub(super) judged_ms: u64,
    /// Who waits for whom.
    pub(super) deadlock: Option<Arc<str>>,
    /// Its starter has found that, and tells the user.
    pub(super) by_starter: bool,
    /// What its user wants done with a job in a deadlock has been done.
    pub(super) acted: bool,
    /// The controller has told the user, and how many lines it has said.
    pub(super) reported: bool,
    pub(super) lines: usize,
}

impl Stuck {
    /// Who waits for whom, if its ranks wait for each other for ever.
    pub(super) fn deadlock(&self) -> Option<&str> {
        self.deadlock.as_deref()
    }

    /// By these numbers it is still; `own`: what its starter has found.
    pub(super) fn record(&mut self, numbers: Vec<u64>, own: Option<Arc<str>>) {
        if numbers != self.stalled {
            // What was found, or is being looked for, is of another stillness.
            (self.stalled, self.by_starter, self.deadlock) = (numbers, own.is_some(), own);
            let (next_ms, after_ms) = self.again_ms;
            self.again_ms = (next_ms.min(self.judged_ms + RETRY_MS), after_ms.min(RETRY_MS));
        }
    }

    /// A snapshot is to be tried.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        !self.stalled.is_empty() && self.deadlock.is_none() && now_ms >= self.again_ms.0
    }

    /// The snapshot that was taken for this.
    pub(super) fn handle_snapshot(&mut self, answer: &Answer, now_ms: u64) {
        let snapshot = as_snapshot(answer).filter(|_| self.examined == self.stalled);
        if let Some(found) = snapshot.and_then(|snapshot| snapshot.deadlock()) {
            (self.deadlock, self.again_ms) = (Some(found.line().into()), (0, 0));
            return;
        }
        let after_ms = self.again_ms.1.clamp(RESEND_MS.0, RESEND_MS.1);
        (self.again_ms, self.judged_ms) = ((now_ms + after_ms, 2 * after_ms), now_ms);
    }
}

fn as_snapshot(answer: &Answer) -> Option<Snapshot> {
    let Answer::Snapshot(text) = answer else { return None };
    // Its views are as long as their ranks need, whoever speaks in the place of starters (`View::bytes_max`).
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A snapshot of two ranks, of which each waits for the other; or one of them runs.
    fn snapshot(both: bool) -> Answer {
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
        Answer::Snapshot(format!(r#"{{"job":1,"command":"a","ranks":2,"taken_ms":0,"nodes":[{nodes}]}}"#))
    }

    /// Views that only who speaks in the place of a starter can have sent.
    #[test]
    fn deadlock_views_with_too_many_ranks_are_not_judged() {
        let Answer::Snapshot(both) = snapshot(true) else { panic!("a snapshot") };
        let found = |text: String| {
            let mut stuck = stalled([3, 4]);
            stuck.handle_snapshot(&Answer::Snapshot(text), 10);
            stuck.deadlock().is_some()
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

    fn stalled(numbers: [u64; 2]) -> Stuck {
        Stuck { stalled: numbers.to_vec(), examined: numbers.to_vec(), ..Stuck::default() }
    }

    #[test]
    fn deadlock_is_found_once_per_stall() {
        let mut stuck = stalled([3, 4]);
        assert!(stuck.is_due(10));
        stuck.handle_snapshot(&snapshot(true), 10);
        assert!(stuck.deadlock().is_some_and(|line| line.contains("rank 0 receives from rank 1")));
        assert!(!stuck.is_due(1_000_000));
        stuck.record(vec![3, 5], None);
        assert!(stuck.deadlock().is_none() && stuck.is_due(10), "another one");
    }

    #[test]
    fn deadlock_snapshot_of_an_earlier_stall_is_ignored() {
        let mut stuck = Stuck { examined: vec![1, 2], ..stalled([3, 4]) };
        stuck.handle_snapshot(&snapshot(true), 10);
        assert_eq!(stuck.deadlock(), None);
        assert!(stuck.is_due(10 + RESEND_MS.0));
    }

    #[test]
    fn deadlock_lasting_stall_is_examined_again() {
        let mut stuck = stalled([3, 4]);
        stuck.handle_snapshot(&snapshot(false), 10);
        assert!(stuck.deadlock().is_none() && !stuck.is_due(10 + RESEND_MS.0 - 1));
        assert!(stuck.is_due(10 + RESEND_MS.0), "a rank may have been seen awake that sleeps for ever");
        stuck.handle_snapshot(&snapshot(true), 10 + RESEND_MS.0);
        assert!(stuck.deadlock().is_some() && !stuck.is_due(u64::MAX));
    }

    #[test]
    fn deadlock_search_backs_off_per_stall() {
        let mut stuck = stalled([0, 1]);
        let mut now_ms = 10;
        for (round, after_ms) in [2_000, 4_000, 8_000, 8_000, 8_000].into_iter().enumerate() {
            stuck.handle_snapshot(&snapshot(false), now_ms);
            stuck.record(vec![round as u64 + 1, 9], None);
            stuck.examined.clone_from(&stuck.stalled);
            assert!(!stuck.is_due(now_ms + after_ms - 1) && stuck.is_due(now_ms + after_ms));
            now_ms += after_ms;
        }
        stuck.handle_snapshot(&Answer::Refused("node1 does not say what it sees".into()), now_ms);
        assert!(!stuck.is_due(now_ms + 1) && stuck.is_due(now_ms + RESEND_MS.1), "it was not judged");
    }

    #[test]
    fn deadlock_search_of_a_lasting_stall_settles_at_two_minutes() {
        let mut stuck = stalled([3, 4]);
        let mut now_ms = 10;
        for after_ms in [2, 4, 8, 16, 32, 64, 120, 120, 120].map(|seconds| seconds * 1_000) {
            stuck.handle_snapshot(&snapshot(false), now_ms);
            stuck.record(vec![3, 4], None);
            assert!(!stuck.is_due(now_ms + after_ms - 1) && stuck.is_due(now_ms + after_ms), "{after_ms}");
            now_ms += after_ms;
        }
        stuck.handle_snapshot(&snapshot(false), now_ms);
        stuck.record(vec![3, 5], None);
        assert!(!stuck.is_due(now_ms + RETRY_MS - 1) && stuck.is_due(now_ms + RETRY_MS));
        stuck.examined.clone_from(&stuck.stalled);
        stuck.handle_snapshot(&snapshot(false), now_ms + RETRY_MS);
        assert!(stuck.is_due(now_ms + 2 * RETRY_MS), "and so is the one after that");
        stuck.record(vec![3, 6], None);
        stuck.record(Vec::new(), None);
        assert!(!stuck.is_due(u64::MAX), "nobody is still");
    }
}
