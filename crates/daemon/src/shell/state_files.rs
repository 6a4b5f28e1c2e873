//! Tests that whatever is nearly a file of a daemon's state is read or counts as none: those that the next
//! daemon reads after a crash. The files of numbers, owed epilogs and journals have such tests of their own.

use std::path::Path;

use tutti_protocol::reservation::Reservation;
use tutti_protocol::users::Drained;
use tutti_testkit::{Random, Scratch, nearly, seed};

use super::kept::{self, Until};
use super::{drains, filing, records, reservations, used};
use crate::core::sim::reports::{left_records, nearly_json};
use crate::message::JobId;

/// Gives a reader files that are nearly these; it says whether it has read something. Some are read, some
/// are not.
fn read_files(path: &Path, samples: &[Vec<u8>], mut read: impl FnMut() -> bool) {
    let (mut found, mut none) = (0_u64, 0_u64);
    let mut random = Random::new(seed());
    nearly::read_frames(samples, |bytes| {
        // Bytes that are nearly such a file, or one whose values are nearly right.
        let sample = &samples[random.below(samples.len() as u64) as usize];
        let whole = random.chance(500).then(|| nearly_json(&mut random, sample));
        std::fs::write(path, whole.as_deref().unwrap_or(bytes)).expect("a file");
        *(if read() { &mut found } else { &mut none }) += 1;
    });
    println!("{found} read, {none} none");
    assert!(found > 0 && none > 0, "{found} read, {none} none");
}

/// A file of a starter. None is alive, and none of the cgroups that they name is there: one that is not of a
/// starter of ours stays as it is, whatever is in the file.
#[test]
fn state_files_of_starters_that_are_nearly_right_are_read_or_removed() {
    let scratch = Scratch::in_memory("state-starters");
    let folder = records::Folder::open(scratch.path()).expect("a folder");
    let beside = scratch.path().join("beside");
    std::fs::create_dir(&beside).expect("a folder");
    let samples: Vec<Vec<u8>> = left_records()
        .into_iter()
        .flat_map(|record| [None, Some(beside.clone())].map(|cgroup| (record.clone(), cgroup)))
        .map(|(record, cgroup)| {
            let none = records::File::of_none(u32::MAX, 5);
            folder.put(JobId(7), &records::File { record: Some(record), cgroup, ..none }).expect("written");
            std::fs::read(scratch.path().join("7.json")).expect("it is there")
        })
        .collect();
    let path = scratch.path().join("7.json");
    read_files(&path, &samples, || {
        let found = folder.sweep();
        assert_eq!(found.len() == 1, path.exists(), "what is none is removed");
        for (job, file) in &found {
            let record = file.record.as_ref().expect("a file without is none");
            assert!(!record.alive && *job == JobId(7), "{file:?}");
            // The next daemon reads what this one keeps of it.
            folder.put(*job, file).expect("written");
        }
        assert_eq!(folder.sweep().len(), found.len());
        assert!(beside.is_dir(), "a folder that is no cgroup of ours stays");
        !found.is_empty()
    });
}

#[test]
fn state_file_of_a_daemon_that_is_nearly_right_gives_its_number_or_nothing() {
    let scratch = Scratch::in_memory("state-daemon");
    let (parts, path) = (scratch.path().join("node0.parts"), scratch.path().join("node0.life"));
    let samples: Vec<Vec<u8>> = (1..5)
        .map(|number| {
            records::Manifest::take(&parts, number);
            std::fs::read(&path).expect("written")
        })
        .collect();
    read_files(&path, &samples, || {
        let before = records::Manifest::take(&parts, 7).1;
        assert_eq!(records::Manifest::take(&parts, 8).1, Some(7));
        before.is_some()
    });
}

#[test]
fn state_files_of_waiting_jobs_that_are_nearly_right_are_read_or_none() {
    let scratch = Scratch::in_memory("state-queue");
    let folder = scratch.path().join("node0.queue");
    filing::Folder::open(&folder).expect("a folder");
    let (own, group) = filing::tests::samples();
    for (name, samples) in [("7.json", own), ("1.jobs", group)] {
        let path = folder.join(name);
        read_files(&path, &samples, || {
            let (_, queued) = filing::Folder::open(&folder).expect("a folder");
            !queued.is_empty()
        });
        let _ = std::fs::remove_file(path);
    }
}

#[test]
fn state_files_of_the_controller_that_are_nearly_right_are_read_or_none() {
    let scratch = Scratch::in_memory("state-controller");
    let folder = scratch.path().join("node0.queue");
    let written = |path: &Path| vec![std::fs::read(path).expect("written")];

    let path = folder.with_extension("used");
    used::UsedFile::new(&folder).keep(100_000, &[(7, 5), (1000, 1 << 60)]);
    read_files(&path, &written(&path), || {
        let (used, age_ns) = used::UsedFile::new(&folder).load(200_000);
        assert!(age_ns <= 200_000 * 1_000_000);
        !used.is_empty()
    });

    let path = drains::file(&folder);
    let drained = Drained { since_ms: 5, uid: 7, why: "disk".into() };
    let nodes = std::collections::BTreeMap::from([("node1", &drained), ("node2", &drained)]);
    kept::replace(&path, &nodes, Until::Renamed).expect("written");
    read_files(&path, &written(&path), || !drains::load(&path).is_empty());

    let path = reservations::file(&folder);
    let one = Reservation {
        name: "night".into(),
        nodes: vec!["node1".into()],
        from_ms: 1,
        until_ms: 2,
        users: vec![7],
        by: 7,
        number: 1,
    };
    kept::replace(&path, &vec![one], Until::Renamed).expect("written");
    read_files(&path, &written(&path), || !reservations::load(&path).is_empty());
}
