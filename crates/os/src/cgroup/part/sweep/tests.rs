//! Sweeps beside parts that are held, left, or being made.

use rustix::fs::{AtFlags, unlinkat};

use super::super::STARTER;
use super::super::tests::{create, create_of, is_there, nest, start_in};
use super::*;
use crate::cgroup::INNER;
use crate::cgroup::user::UserLimit;

#[test]
fn part_group_sweep_counts_what_is_gone_and_what_is_left() {
    let Some(part) = create("unit-nested-swept") else { return };
    let (place, parent) = (part.place.clone(), part.parent.try_clone().unwrap());
    // The starter's is gone already, as when an earlier sweep had to stop.
    unlinkat(&part.directory, STARTER, AtFlags::REMOVEDIR).unwrap();
    nest(&part, "tutti-job-within/ranks");
    let mut spent = Sweep { removal: Removal::spent(), swept: Swept::default() };
    let mut sweep = Sweep::new();
    // Other tests sweep beside this one: they respect the lock.
    flock(&part.directory, FlockOperation::NonBlockingLockShared).unwrap();
    let removed = place.remove_unfinished(&mut spent.removal, &parent);
    spent.count(removed);
    assert_eq!(spent.swept.left, [Left { name: place.directory_name(), why: Why::Nested }]);
    let removed = place.remove_unfinished(&mut sweep.removal, &parent);
    sweep.count(removed);
    let removed = place.remove_unfinished(&mut sweep.removal, &parent);
    sweep.count(removed);
    assert_eq!(sweep.swept, Swept { removed: 1, left: Vec::new() }, "what is gone is not counted");
    assert!(open(&parent, &place.directory_name()).is_err());
}

#[test]
fn part_groups_are_swept_when_neither_daemon_nor_starter_is_left() {
    let Some(held) = create("unit-held") else { return };
    let (Some(started), Some(left), Some(empty)) =
        (create("unit-started"), create("unit-left"), create("unit-empty"))
    else {
        return;
    };
    let places = [&started, &left, &empty].map(|part| part.place().clone());
    let mut starter = start_in(&started.starter);
    let mut leftover = start_in(&open(&left.job, INNER).unwrap());
    drop((started, left, empty));
    let reaper = std::thread::spawn(move || leftover.wait().unwrap());
    // A child that was just forked has our descriptors, and so our locks, for a moment longer than it
    // seems.
    let deadline = Instant::now() + REMOVAL_MAX;
    while places[1..].iter().any(is_there) && Instant::now() < deadline {
        sweep_blocking();
    }
    assert!(!reaper.join().unwrap().success(), "what was left is killed");
    let there = places.each_ref().map(is_there);
    assert_eq!((is_there(held.place()), there), (true, [true, false, false]));
    starter.kill().unwrap();
    starter.wait().unwrap();
    while is_there(&places[0]) && Instant::now() < deadline {
        sweep_blocking();
    }
    assert!(!is_there(&places[0]));
    held.remove_blocking().unwrap();
}

#[test]
fn part_groups_of_a_user_are_swept() {
    let user = Some(UserLimit::new(54_322, u64::from(std::process::id()), Some(64 << 20)));
    let name = user.as_ref().unwrap().directory_name();
    let Some(part) = create_of("unit-user-swept", user.clone()) else { return };
    let (around, place) = (part.around.try_clone().unwrap(), part.place().clone());
    sweep_blocking();
    assert!(is_there(&place), "it is held");
    assert!(part.version1.iter().all(|group| group.open("cgroup.procs").is_ok()), "all of it");
    drop(part);
    // What a daemon leaves that is killed when it has made the group alone.
    let empty = UserLimit::new(54_323, u64::from(std::process::id()), None);
    drop(empty.make_in(&around).unwrap());
    let memory = own_directory("memory");
    drop(memory.as_ref().map(|memory| empty.make_in(memory).unwrap()));
    let deadline = Instant::now() + REMOVAL_MAX;
    let is_left = |directory: &OwnedFd| {
        [&name, &empty.directory_name()].iter().any(|name| user::open_directory(directory, name).is_ok())
    };
    while (is_left(&around) || memory.as_ref().is_some_and(is_left)) && Instant::now() < deadline {
        sweep_blocking();
    }
    assert!(!is_left(&around) && !memory.as_ref().is_some_and(is_left));
}

/// Another daemon begins, and sweeps, while this one makes the groups of a part.
#[test]
fn part_group_that_is_being_made_is_not_swept() {
    let Some(part) = create("unit-being-made") else { return };
    // As it is before all are there.
    for path in [format!("{}/{INNER}", name(&part.place.name)), name(&part.place.name)] {
        unlinkat(&part.directory, path, AtFlags::REMOVEDIR).unwrap();
    }
    sweep_blocking();
    assert!(open(&part.parent, &part.place.directory_name()).is_ok());
    assert!(part.version1.iter().all(|group| group.open("cgroup.procs").is_ok()), "these are there too");
    let (parent, place) = (part.parent.try_clone().unwrap(), part.place.clone());
    drop(part);
    let deadline = Instant::now() + REMOVAL_MAX;
    while open(&parent, &place.directory_name()).is_ok() && Instant::now() < deadline {
        sweep_blocking();
    }
    assert!(open(&parent, &place.directory_name()).is_err());
}

#[test]
fn part_groups_are_made_while_others_sweep() {
    let Some(first) = create("unit-made-beside") else { return };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sweeper = scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                sweep_blocking();
            }
        });
        for round in 0..200 {
            let part = create(&format!("unit-made-beside-{round}")).expect("it is made");
            let there = part.version1.iter().all(|group| group.open("cgroup.procs").is_ok());
            assert!(is_there(part.place()) && there, "round {round}");
            part.remove_blocking().unwrap();
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        sweeper.join().unwrap();
    });
    first.remove_blocking().unwrap();
}

/// A daemon that is killed while it makes the groups of a part leaves some of them.
#[test]
fn part_groups_that_were_never_finished_are_swept() {
    let user = UserLimit::new(54_324, u64::from(std::process::id()), Some(64 << 20));
    for (made, user) in (0..4).flat_map(|made| [(made, None), (made, Some(user.clone()))]) {
        let name_of_part = format!("unit-unfinished-{made}-{}", user.is_some());
        let Some(part) = create_of(&name_of_part, user) else { return };
        let (place, job) = (part.place().clone(), name(&part.place().name));
        let inner = [format!("{job}/{INNER}"), job, STARTER.to_owned()];
        for path in &inner[..3 - made.min(3)] {
            unlinkat(&part.directory, path, AtFlags::REMOVEDIR).unwrap();
        }
        let parent = part.parent.try_clone().unwrap();
        assert!(open(&parent, &place.directory_name()).is_ok());
        // From now on tests beside this one may sweep it, too.
        drop(part);
        let deadline = Instant::now() + REMOVAL_MAX;
        while open(&parent, &place.directory_name()).is_ok() && Instant::now() < deadline {
            sweep_blocking();
        }
        assert!(open(&parent, &place.directory_name()).is_err(), "{made} of its groups");
    }
}
