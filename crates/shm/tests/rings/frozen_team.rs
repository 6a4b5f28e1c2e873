//! The barrier of a team with one member standing still at every single instruction of it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tutti_shm::team_barrier::{TeamBarrier, TeamError};
use tutti_testkit::stepper::{Child, Shareable, Shared, Step, stop_here};

/// Memory that the two members share.
struct Team {
    barrier: TeamBarrier,
    passed: AtomicU64,
    /// How the child's last wait ended: 1 well.
    ended: AtomicU32,
}

// SAFETY: atomics only, and zeroes are a barrier that is none yet.
unsafe impl Shareable for Team {}

// Paper: R5
#[test]
fn r5_team_barrier_refuses_who_is_outside_the_mask() {
    let team: Shared<Team> = Shared::new();
    let barrier = &team.barrier;
    assert_eq!((barrier.wait(0), barrier.init(0)), (Err(TeamError::None), Err(TeamError::None)));
    barrier.init(0b101 | 1 << 63).unwrap();
    for outside in [1, 3, 62, 64, u32::MAX] {
        assert_eq!(barrier.wait(outside), Err(TeamError::Member), "{outside}");
    }
    assert_eq!(barrier.inside(), 0, "who is refused has not arrived");
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| barrier.wait(2));
        while barrier.inside() != 4 {
            std::thread::yield_now();
        }
        assert_eq!(barrier.wait(2), Err(TeamError::Member), "it has arrived already");
        assert_eq!(barrier.init(1), Err(TeamError::Busy));
        let second = scope.spawn(|| barrier.wait(63));
        while barrier.inside() != 4 | 1 << 63 {
            std::thread::yield_now();
        }
        assert!(!inside.is_finished(), "one is missing");
        barrier.wait(0).unwrap();
        inside.join().unwrap().unwrap();
        second.join().unwrap().unwrap();
    });
    // The mask may be another now.
    barrier.init(2).unwrap();
    barrier.wait(1).unwrap();
    assert_eq!(barrier.wait(0), Err(TeamError::Member));
}

/// The child is member 1, and is stopped one instruction later in each round; we are member 0. With it inside
/// or not: nobody passes before both have come, and both pass then.
// Paper: R8
#[test]
fn r8_team_barrier_holds_with_a_member_frozen_at_any_instruction() {
    for child_first in [true, false] {
        let team: Shared<Team> = Shared::new();
        team.barrier.init(0b11).unwrap();
        let mut child = Child::fork_traced(|| {
            for round in 1.. {
                stop_here();
                let ended = team.barrier.wait(1);
                team.ended.store(u32::from(ended.is_ok()), Ordering::SeqCst);
                team.passed.store(round, Ordering::SeqCst);
            }
        });
        child.wait_stopped();
        let (mut round, mut steps, mut inside, mut outside, mut over) = (0_u64, 0, 0, 0, false);
        while !over {
            round += 1;
            let mut ours = (!child_first).then(|| member(&team));
            if ours.is_some() {
                while team.barrier.inside() != 1 {
                    std::thread::yield_now();
                }
            }
            let mut asleep = false;
            for _ in 0..steps {
                asleep = child.step_or_sleep() == Step::Sleeps;
                // Behind it there is nothing new: it has passed, or sleeps.
                over = asleep || team.passed.load(Ordering::SeqCst) == round;
                if over {
                    break;
                }
            }
            // It stands still. It has arrived or not, and nothing changes that.
            let is_inside = team.barrier.inside() & 2 != 0;
            inside += u32::from(is_inside);
            if child_first {
                outside += u32::from(!is_inside);
                assert!(team.passed.load(Ordering::SeqCst) < round, "it has passed alone");
                let own = member(&team);
                if is_inside {
                    // It does not hold us up, although it stands still.
                    own.join().unwrap();
                    assert_eq!(team.barrier.inside(), 0);
                } else {
                    while team.barrier.inside() & 1 == 0 {
                        std::thread::yield_now();
                    }
                    assert!(!own.is_finished(), "we have passed alone");
                    ours = Some(own);
                }
            } else {
                let finished = ours.as_ref().is_some_and(std::thread::JoinHandle::is_finished);
                outside += u32::from(!finished);
            }
            if asleep {
                child.wait_until("the end of its sleep", |child| child.has_stopped().then_some(()));
            }
            child.go_on();
            child.wait_until("its next stop", |child| child.has_stopped().then_some(()));
            ours.into_iter().for_each(|ours| ours.join().unwrap());
            let ended = (team.passed.load(Ordering::SeqCst), team.ended.load(Ordering::SeqCst));
            assert_eq!((ended, team.barrier.inside()), ((round, 1), 0));
            // Most of the looks before the sleep are alike.
            steps += if steps < 60 { 1 } else { steps / 8 };
        }
        println!("frozen {round} times, inside {inside}, not yet through {outside}");
        assert!(round > 15 && inside + outside > 10);
    }
}

/// A thread that is member 0 once.
fn member(team: &Shared<Team>) -> std::thread::JoinHandle<()> {
    let team: &'static Team = {
        // SAFETY: each thread is joined before its round ends, and the mapping lives as long as the test.
        unsafe { &*std::ptr::from_ref::<Team>(team) }
    };
    std::thread::spawn(move || team.barrier.wait(0).expect("it is a member"))
}
