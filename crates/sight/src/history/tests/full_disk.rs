//! The history on a file system that others have filled.

use std::io::Write;
use std::process::{Command, Stdio};

use tutti_testkit::{Need, Scratch, skip};

use super::*;

/// A file system of a mebibyte, as long as it is used.
struct Small(Scratch);

impl Small {
    fn new(name: &str) -> Option<Self> {
        let scratch = Scratch::new(name);
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "tutti-small"]).arg(scratch.path());
        let is_mounted = mount.stderr(Stdio::null()).status().is_ok_and(|done| done.success());
        is_mounted.then_some(Small(scratch))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Disk that others fill to the last byte, under the database, its log and the memory that they share.
#[test]
fn history_on_a_full_disk_goes_on_when_there_is_room() {
    let Some(small) = Small::new("history-full-disk") else {
        return skip(Need::Root, "a file system in memory cannot be mounted here");
    };
    let answers = samples::answers(BEGIN_MS as u64, [0, 0]);
    let event = |job: i64| {
        let (ms, text) = (BEGIN_MS + job, "x".repeat(2000));
        events(&[&format!(
            r#"{{"ms":{ms},"event":"submitted","job":{job},"uid":7,"ranks":1,"text":"{text}"}}"#
        )])
    };
    for has_begun in [false, true] {
        let folder = &small.0.path().join(if has_begun { "begun" } else { "new" });
        std::fs::create_dir(folder).expect("a folder");
        let mut history = History::open(folder, BOUNDS);
        if has_begun {
            assert!(put(&mut history, BEGIN_MS, &event(1), Some(&report(&answers))));
        }
        let ballast = folder.join("ballast");
        let mut file = std::fs::File::create(&ballast).expect("there is room");
        for bytes in [4096, 1] {
            while file.write(&vec![0; bytes]).is_ok() {}
        }
        let full: Vec<bool> = (2..100)
            .map(|job| put(&mut history, BEGIN_MS + job, &event(job), Some(&report(&answers))))
            .collect();
        assert!(full.ends_with(&[false, false]), "there is no room: {full:?}");
        // What is there is read all the same, or it is said that it cannot be.
        let _ = read::timeline(folder, ALL);
        drop(file);
        std::fs::remove_file(&ballast).expect("it is ours");
        let goes_on: Vec<bool> = (100..104)
            .map(|job| put(&mut history, BEGIN_MS + job, &event(job), Some(&report(&answers))))
            .collect();
        assert!(goes_on.ends_with(&[true]), "{goes_on:?}");
        let found = jobs(folder, ALL, &[], 1000);
        let listed = found["jobs"].as_array().expect("a list");
        assert!(listed.iter().any(|job| job["job"] == 103), "{found:#}");
        assert!(found["gaps"].as_array().is_some_and(|gaps| !gaps.is_empty()), "{found:#}");
    }
}
