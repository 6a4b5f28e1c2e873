//! Sleep and wake with one side standing still at every single instruction of it, system calls included:
//! whoever should wake wakes.

use std::sync::atomic::Ordering;
use std::thread;

use tutti_shm::doorbell::{ring_if_sleeping, sleep_if};
use tutti_testkit::stepper::{Child, Step, stop_here};

use crate::memory::Memory;
use crate::script::SharedScript;

#[test]
fn frozen_sleeper_is_woken_from_any_instruction() {
    let (memory, script) = (Memory::new(), SharedScript::new());
    let mut child = Child::fork_traced(|| {
        tutti_shm::distance::stop_measuring();
        let memory = memory.again();
        for round in 1.. {
            stop_here();
            while script.word.load(Ordering::Acquire) != round {
                sleep_if(memory.endpoint(1), || script.word.load(Ordering::Acquire) != round);
            }
            script.operations.store(round, Ordering::Release);
        }
    });
    child.wait_stopped();
    let mut asleep = false;
    let (mut round, mut intended) = (0, 0);
    while !asleep {
        round += 1;
        // One instruction further than in the round before; the last round's last instruction is the sleep
        // itself.
        for _ in 1..round {
            asleep = child.step_or_sleep() == Step::Sleeps;
            if asleep {
                break;
            }
        }
        assert!(script.operations.load(Ordering::Acquire) < round, "it went on with nothing there");
        intended += u32::from(memory.endpoint(1).sleeping.load(Ordering::Relaxed) != 0);
        script.word.store(round, Ordering::Release);
        ring_if_sleeping(memory.endpoint(1));
        if asleep {
            child.wait_until("the end of the sleep", |child| child.has_stopped().then_some(()));
        }
        child.go_on();
        child.wait_until("the sleeper's wake-up", |child| child.has_stopped().then_some(()));
        assert_eq!(script.operations.load(Ordering::Acquire), round);
    }
    println!("frozen at {round} instructions, at {intended} of them with the intention to sleep published");
    assert!(round > 20 && intended > 5);
}

/// The waker stands still at every instruction; the sleeper sleeps already, or comes to its sleep just then.
fn freeze_the_waker(sleeps_before: bool) {
    let (memory, script) = (Memory::new(), SharedScript::new());
    let mut sleeper = Child::fork(|| {
        let memory = memory.again();
        for round in 1.. {
            while script.gate.load(Ordering::Acquire) < round {
                thread::yield_now();
            }
            while script.word.load(Ordering::Acquire) < round {
                sleep_if(memory.endpoint(1), || script.word.load(Ordering::Acquire) < round);
            }
            script.progress[1].store(round.into(), Ordering::Release);
        }
    });
    let mut waker = Child::fork_traced(|| {
        tutti_shm::distance::stop_measuring();
        let memory = memory.again();
        for round in 1.. {
            stop_here();
            script.word.store(round, Ordering::Release);
            ring_if_sleeping(memory.endpoint(1));
            script.operations.store(round, Ordering::Release);
        }
    });
    waker.wait_stopped();
    let awake = |round: u32| script.progress[1].load(Ordering::Acquire) >= round.into();
    let open_and_wait = |sleeper: &mut Child, round| {
        script.gate.store(round, Ordering::Release);
        sleeper.wait_until("sleep or success", |child| (awake(round) || child.sleeps()).then_some(()));
    };
    let (mut round, mut published_frozen) = (0, 0);
    while script.operations.load(Ordering::Acquire) == round {
        round += 1;
        if sleeps_before {
            open_and_wait(&mut sleeper, round);
            assert!(!awake(round), "it went on with nothing there");
        }
        for _ in 1..round {
            waker.step();
        }
        if !sleeps_before {
            open_and_wait(&mut sleeper, round);
        }
        // Frozen with the word published and the bell not rung: the sleeper may stay asleep until the waker
        // is thawed.
        published_frozen += u32::from(script.word.load(Ordering::Acquire) == round && !awake(round));
        if script.operations.load(Ordering::Acquire) == round {
            sleeper.wait_until("the wake-up", |_| awake(round).then_some(()));
            break;
        }
        waker.go_on();
        waker.wait_until("the waker's next stop", |child| child.has_stopped().then_some(()));
        sleeper.wait_until("the wake-up", |_| awake(round).then_some(()));
    }
    println!(
        "frozen at {round} instructions, at {published_frozen} of them published with the sleeper still asleep"
    );
    assert!(round > 20);
}

#[test]
fn frozen_waker_wakes_a_sleeper_from_any_instruction() {
    freeze_the_waker(true);
}

#[test]
fn frozen_waker_wakes_a_rank_that_falls_asleep_meanwhile() {
    freeze_the_waker(false);
}
