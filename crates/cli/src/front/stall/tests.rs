//! The judge without starters: their frames are made here.

use super::*;

/// View by node `rank` of its one rank, which waits for the other, or runs.
fn view(rank: u32, waits: bool) -> String {
    let peer = 1 - rank;
    let wait = format!(r#"{{"what":"receive","matched":false,"peer":{peer},"tag":7,"context":0,"bytes":4}}"#);
    let any = format!(r#"[{{"all":[{wait}]}}]"#);
    let waiting = format!(r#"{{"waits":{{"any":{any},"more":false,"sure":true,"unasked":0}}}}"#);
    let doing = if waits { waiting } else { r#""runs""#.to_owned() };
    let view = format!(r#"{{"rank":{rank},"pid":1,"doing":{doing}}}"#);
    format!(r#"{{"node":{rank},"ranks":[{view}],"rings":[],"flows":[],"omitted":0}}"#)
}

struct Bench {
    judge: StallJudge,
    now_ms: u64,
}

impl Bench {
    /// Two nodes of a rank each, both of which are stalled.
    fn stalled() -> Self {
        let judge = StallJudge {
            ranks: 2,
            room: None,
            began: Instant::now(),
            stalled: vec![None; 2],
            stall: Stall::default(),
            taking: None,
            last_hold: 0,
            is_told: false,
            lines: 0,
        };
        let mut bench = Bench { judge, now_ms: 0 };
        (0..2).for_each(|node| bench.stall(node, Some(3)));
        bench
    }

    fn stall(&mut self, node: usize, number: Option<u64>) {
        self.judge.handle_stalled(node, number.map(|number| Stalled { number, ..Stalled::default() }));
    }

    fn pass(&mut self, ms: u64) -> Vec<StallAction> {
        self.pass_of(ms, true)
    }

    fn pass_of(&mut self, ms: u64, may_begin: bool) -> Vec<StallAction> {
        self.now_ms += ms;
        self.judge.handle_time(self.judge.began + Duration::from_millis(self.now_ms), may_begin)
    }

    fn held(&mut self, node: u32, waits: bool) {
        let payload = [&self.judge.last_hold.to_le_bytes()[..], view(node, waits).as_bytes()].concat();
        assert!(self.judge.handle_held(node as usize, Kind::Held, &payload));
    }

    fn released(&mut self, node: usize, whole: u64) {
        let payload = [self.judge.last_hold, whole].map(u64::to_le_bytes).concat();
        assert!(self.judge.handle_held(node, Kind::Released, &payload));
    }

    /// A snapshot from its beginning to its end; what comes of it.
    #[track_caller]
    fn examine(&mut self, both_wait: bool, whole: u64) -> Vec<StallAction> {
        assert!(matches!(self.pass(0)[..], [StallAction::Put(Kind::Hold, _)]));
        self.held(0, true);
        assert_eq!(self.pass(1), [], "one node has not looked");
        self.held(1, both_wait);
        assert!(matches!(self.pass(1)[..], [StallAction::Put(Kind::Release, _)]));
        assert_eq!(self.pass(1), [], "it is told once");
        self.released(0, 1);
        assert_eq!(self.pass(1), []);
        self.released(1, whole);
        self.pass(1)
    }
}

#[test]
fn virtual_nodes_deadlock_of_a_job_that_is_ending_is_not_said() {
    let mut bench = Bench::stalled();
    bench.pass(0);
    (0..2).for_each(|node| bench.held(node, true));
    bench.pass(1);
    // A rank fails while the snapshot is on its way.
    (0..2).for_each(|node| bench.released(node as usize, 1));
    assert_eq!(bench.pass_of(1, false), []);
    assert_eq!(bench.pass_of(100_000, false), []);
}

#[test]
fn virtual_nodes_deadlock_is_said_once_and_taken_back() {
    let mut bench = Bench::stalled();
    let actions = bench.examine(true, 1);
    let [StallAction::Print(line), StallAction::Deadlock] = &actions[..] else { panic!("{actions:?}") };
    assert!(line.contains("rank 0 receives from rank 1"), "{line}");
    assert_eq!((bench.pass(100_000), bench.judge.wake_at(true)), (vec![], None));
    bench.stall(1, None);
    assert_eq!(bench.pass(1), [StallAction::Print(DEADLOCK_ENDED.into())]);
    assert_eq!(bench.judge.wake_at(true), None, "a node works");
}

#[test]
fn virtual_nodes_whose_ranks_ran_meanwhile_are_looked_at_again() {
    for (both_wait, whole) in [(false, 1), (true, 0)] {
        let mut bench = Bench::stalled();
        assert_eq!(bench.examine(both_wait, whole), []);
        assert_eq!(bench.pass(1_000), []);
        let wake_at = bench.judge.wake_at(true).expect("it is as still as before");
        assert_eq!(bench.judge.wake_at(false), None, "nothing is begun while the job is suspended");
        bench.now_ms = wake_at.duration_since(bench.judge.began).as_millis() as u64;
        assert_eq!(bench.examine(true, 1).len(), 2);
    }
}

#[test]
fn virtual_nodes_snapshot_that_does_not_come_is_given_up() {
    let mut bench = Bench::stalled();
    assert!(matches!(bench.pass(0)[..], [StallAction::Put(Kind::Hold, _)]));
    bench.held(0, true);
    assert_eq!(bench.pass(SNAPSHOT_MS - 1), []);
    assert!(matches!(bench.pass(1)[..], [StallAction::Put(Kind::Release, _)]));
    // What comes too late is for nobody.
    bench.held(1, true);
    (0..2).for_each(|node| bench.released(node, 1));
    assert_eq!(bench.pass(1), []);
}

#[test]
fn virtual_nodes_are_judged_by_a_daemon_that_comes() {
    let mut bench = Bench::stalled();
    assert_eq!(bench.judge.give_up(), None);
    assert!(matches!(bench.pass(0)[..], [StallAction::Put(Kind::Hold, _)]));
    assert!(matches!(bench.judge.give_up(), Some(StallAction::Put(Kind::Release, _))));
    assert_eq!((bench.judge.give_up(), bench.judge.wake_at(false)), (None, None));
    // Of the daemon's own snapshot.
    let payload = [bench.judge.last_hold + 1, 1].map(u64::to_le_bytes).concat();
    assert!(!bench.judge.handle_held(0, Kind::Released, &payload));
    // It goes.
    assert_eq!(bench.examine(true, 1).len(), 2);
}
