use super::*;
use rustix::event::{PollFd, PollFlags, poll};
use tutti_shm::ticket::Face;

/// A job whose ranks run these scripts.
#[expect(
    clippy::zombie_processes,
    reason = "their statuses are looked at, not taken, as the starter does it"
)]
fn job(scripts: &[&str]) -> Ranks {
    let mut ranks = Ranks::default();
    for script in scripts {
        let child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        let pid = Pid::from_child(&child);
        ranks.add(pid, pidfd_open(pid, PidfdFlags::empty()).unwrap(), Origin::Launch);
    }
    ranks
}

fn die(ranks: &mut Ranks, rank: u32) -> Option<Cause> {
    {
        let (_, pidfd) = ranks.alive().find(|(alive, _)| *alive == rank).unwrap();
        poll(&mut [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)], None).unwrap();
    }
    ranks.handle_death(rank, 0).map(|ended| {
        assert_eq!(ended.rank, rank);
        ended.cause
    })
}

fn attach(ranks: &mut Ranks, rank: u32) {
    let pid = ranks.ranks[rank as usize].pid().unwrap();
    assert_eq!(ranks.handle_event(&Event::Attached { rank, pid, face: Face::Own }, 0), None);
}

fn notice(ranks: &mut Ranks, rank: u32, notice: Notice) -> Option<Cause> {
    ranks.handle_event(&Event::Notice { rank, notice }, 0).map(|ended| ended.cause)
}

#[test]
fn rank_exit_0_after_finalize_ends_no_job() {
    let mut ranks = job(&["exit 0", "exit 0"]);
    attach(&mut ranks, 1);
    assert_eq!(notice(&mut ranks, 1, Notice::Finalized), None);
    assert_eq!((die(&mut ranks, 0), die(&mut ranks, 1)), (None, None));
    assert!(ranks.all_dead() && !ranks.is_ending());
    assert_eq!(ranks.status(), 0);
}

#[test]
fn rank_first_failure_is_reported() {
    let mut ranks = job(&["exit 0", "exit 3", "kill -9 $$"]);
    attach(&mut ranks, 0);
    assert_eq!(die(&mut ranks, 0), Some(Cause::NotFinalized));
    assert!(ranks.is_ending());
    assert_eq!((die(&mut ranks, 1), die(&mut ranks, 2)), (None, None));
    assert_eq!(ranks.status(), 1);
}

#[test]
fn rank_failure_after_finalize_is_reported_only() {
    let mut ranks = job(&["exit 4", "kill -9 $$"]);
    attach(&mut ranks, 0);
    notice(&mut ranks, 0, Notice::Finalized);
    assert_eq!(die(&mut ranks, 0), Some(Cause::Status(4)));
    assert!(!ranks.is_ending());
    assert_eq!(die(&mut ranks, 1), Some(Cause::Signal { signal: 9, core_dumped: false }));
    assert!(ranks.is_ending());
    assert_eq!(ranks.status(), 4, "the first that was not 0");
}

#[test]
fn rank_abort_ends_the_job_at_once() {
    let mut ranks = job(&["exit 0"]);
    attach(&mut ranks, 0);
    assert_eq!(notice(&mut ranks, 0, Notice::Abort(9)), Some(Cause::Abort(9)));
    assert!(ranks.is_ending());
    assert_eq!(die(&mut ranks, 0), None);
    assert_eq!(ranks.status(), 9);
}

#[test]
fn rank_wrapper_gets_time_after_its_program_died() {
    let mut ranks = job(&["exec sleep 1000"]);
    let mut inner = std::process::Command::new("true").spawn().unwrap();
    let pid = Pid::from_child(&inner);
    inner.wait().unwrap();
    // Dead before it could be watched.
    assert_eq!(ranks.handle_event(&Event::Attached { rank: 0, pid, face: Face::Own }, 5), None);
    assert_eq!(ranks.grace_ends_ns(), Some(5 + WRAPPER_GRACE_NS));
    assert_eq!(ranks.handle_time(4 + WRAPPER_GRACE_NS), None);
    assert_eq!(ranks.handle_time(5 + WRAPPER_GRACE_NS).map(|ended| ended.cause), Some(Cause::Vanished));
    assert!(ranks.is_ending());
    // A child of the test that is no leader of a group gets the signal by its pidfd.
    ranks.kill();
    assert_eq!(die(&mut ranks, 0), None);
}

#[test]
fn rank_that_others_have_started_ends_the_job_without_mpi_init() {
    let mut ranks = job(&["exit 0", "exit 0"]);
    ranks.ranks[1].origin = Origin::Spawn(6);
    assert_eq!(die(&mut ranks, 0), None);
    assert!(!ranks.is_ending());
    assert_eq!(die(&mut ranks, 1), Some(Cause::NeverInit));
    assert!(ranks.is_ending());
    assert_eq!(ranks.status(), 1);
}

#[test]
fn rank_that_is_withdrawn_ends_without_a_trace() {
    let mut ranks = job(&["exit 0", "sleep 1000"]);
    ranks.ranks[1].origin = Origin::Spawn(6);
    ranks.withdraw(1);
    assert!(ranks.is_withdrawn(1));
    assert_eq!(die(&mut ranks, 1), None);
    assert!(!ranks.is_ending());
    assert_eq!(ranks.status(), 0);
}

#[test]
fn rank_that_was_there_before_ends_the_job_without_mpi_finalize() {
    for (finalizes, expected) in [(true, None), (false, Some(Cause::Gone))] {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let mut ranks = Ranks::default();
        ranks.adopt(Pid::from_child(&child)).unwrap();
        if finalizes {
            notice(&mut ranks, 0, Notice::Finalized);
        }
        // Signals of the job are not for it.
        ranks.kill();
        ranks.end_adopted(5);
        assert_eq!(child.try_wait().unwrap(), None);
        assert_eq!(ranks.handle_time(5 + WRAPPER_GRACE_NS), None);
        child.wait().unwrap();
        assert_eq!(ranks.handle_death(0, 0).map(|ended| ended.cause), expected);
        assert!(ranks.all_dead() && ranks.is_ending() != finalizes);
    }
}

#[test]
fn rank_that_was_never_there_has_ended_and_may_be_replaced() {
    let mut ranks = job(&["exit 0"]);
    ranks.add_absent(3);
    assert!(ranks.has_ended(1) && ranks.has_ended(2) && ranks.is_withdrawn(2));
    assert_eq!((ranks.count(), ranks.pids().count(), ranks.pid_of(1)), (3, 1, None));
    ranks.signal(Signal::CONT);
    assert_eq!(ranks.alive().count(), 1);
    let mut child = std::process::Command::new("sh").args(["-c", "exit 0"]).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    assert_eq!(ranks.replace(2, pid, pidfd, Origin::Spawn(6)), None, "no process was there before");
    assert_eq!(ranks.pid_of(2), Some(child.id()));
    assert!(!ranks.has_ended(2));
    assert_eq!(die(&mut ranks, 2), Some(Cause::NeverInit));
    assert!(child.wait().unwrap().success(), "its status was looked at, not taken");
}

#[test]
fn rank_whose_end_nothing_tells_has_ended() {
    let mut ranks = job(&["exit 0", "exit 0"]);
    attach(&mut ranks, 1);
    assert_eq!(notice(&mut ranks, 1, Notice::Finalized), None);
    for rank in [1, 0] {
        // As if SIGCHLD were ignored: the kernel forgets how children end.
        let pid = ranks.ranks[rank as usize].pid().unwrap();
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).unwrap();
        let expected = (rank == 0).then_some(Cause::Unknown);
        assert_eq!(die(&mut ranks, rank), expected, "rank {rank}");
    }
    assert!(ranks.all_dead() && ranks.is_ending());
    assert_eq!(ranks.status(), 1);
}

#[test]
fn rank_that_fails_ends_those_that_are_connected_with_it() {
    // Two that the job began with; two worlds of two that others have started.
    let cases: [(u32, &[usize], &[usize]); 6] = [
        // The first of the new worlds is apart, and one of it fails; then one of the old ones.
        (2, &[2, 3], &[2, 3]),
        (0, &[2, 3], &[0, 1, 4, 5]),
        (4, &[2, 3, 4, 5], &[4, 5]),
        // The others have not come to say it.
        (1, &[0, 1, 2, 3], &[0, 1]),
        // One of the world is not apart, so none is; nobody is apart.
        (2, &[2], &[]),
        (1, &[], &[]),
    ];
    for (failing, separate, ended) in cases {
        let mut ranks = job(&["exec sleep 100"; 6]);
        for (index, rank) in ranks.ranks.iter_mut().enumerate() {
            rank.mpi = Mpi::Attached;
            rank.origin = [Origin::Launch, Origin::Spawn(6), Origin::Spawn(12)][index / 2];
        }
        ranks.note_separate(|index| separate.contains(&index));
        let said = ranks.handle_event(&Event::Notice { rank: failing, notice: Notice::Abort(3) }, 0);
        assert_eq!(said.expect("it is said").rank, failing);
        let found: Vec<usize> = (0..6).filter(|rank| ranks.is_ended_alone(*rank as u32)).collect();
        assert_eq!(found, ended, "rank {failing} fails, apart are {separate:?}");
        assert_eq!((ranks.is_ending(), ranks.status()), (ended.is_empty(), 3));
        ranks.kill();
    }
}

/// Two ranks that the job began with, and two that they have started; all are in MPI.
fn two_worlds() -> Ranks {
    let mut ranks = job(&["exec sleep 100"; 4]);
    for (index, rank) in ranks.ranks.iter_mut().enumerate() {
        rank.mpi = Mpi::Attached;
        rank.origin = [Origin::Launch, Origin::Spawn(6)][index / 2];
    }
    ranks
}

#[test]
fn rank_that_fails_beside_one_of_its_world_ends_nothing_else() {
    for separate in [&[2, 3][..], &[0, 1, 2, 3]] {
        let mut ranks = two_worlds();
        ranks.note_separate(|index| separate.contains(&index));
        assert_eq!(notice(&mut ranks, 2, Notice::Abort(3)), Some(Cause::Abort(3)));
        assert_eq!(notice(&mut ranks, 3, Notice::Abort(4)), None);
        assert_eq!([0, 1, 2, 3].map(|rank| ranks.is_ended_alone(rank)), [false, false, true, true]);
        assert_eq!([0, 1, 2, 3].map(|rank| ranks.may_ask(rank)), [true, true, false, false]);
        assert_eq!((ranks.is_ending(), ranks.status()), (false, 3));
        ranks.kill();
    }
    let mut ranks = two_worlds();
    ranks.note_separate(|_| true);
    ranks.withdraw(3);
    assert_eq!(notice(&mut ranks, 3, Notice::Abort(4)), None, "it was taken back");
    assert_eq!((ranks.is_ending(), ranks.status()), (false, 0));
    ranks.kill();
}

#[test]
fn rank_that_fails_ends_a_job_of_which_a_part_is_on_other_nodes() {
    let mut ranks = two_worlds();
    notice(&mut ranks, 0, Notice::Finalized);
    notice(&mut ranks, 1, Notice::Finalized);
    assert_eq!(notice(&mut ranks, 2, Notice::Abort(3)), Some(Cause::Abort(3)));
    assert!(ranks.is_ending());
    ranks.kill();
}

#[test]
fn rank_that_has_not_disconnected_ends_those_that_have_finalized() {
    for (separate, is_ending) in [(&[][..], true), (&[0, 1], false), (&[2, 3], false)] {
        let mut ranks = two_worlds();
        ranks.note_separate(|index| separate.contains(&index));
        notice(&mut ranks, 0, Notice::Finalized);
        notice(&mut ranks, 1, Notice::Finalized);
        assert_eq!(notice(&mut ranks, 2, Notice::Abort(3)), Some(Cause::Abort(3)));
        assert_eq!(ranks.is_ending(), is_ending, "apart are {separate:?}");
        ranks.kill();
    }
}

#[test]
fn rank_that_has_ended_alone_may_be_replaced_if_others_had_started_it() {
    let mut ranks = two_worlds();
    ranks.note_separate(|index| index > 1);
    notice(&mut ranks, 2, Notice::Abort(3));
    assert!(!ranks.has_ended(2), "it is not dead");
    ranks.kill_ended(true);
    assert_eq!((die(&mut ranks, 2), die(&mut ranks, 3)), (None, None));
    assert!(ranks.has_ended(2) && ranks.has_ended(3) && !ranks.has_ended(0));
    ranks.kill();
}
