//! Epilogs that run on this node, and parts of jobs that wait for a place among them.
//!
//! Each account has [`OF_ACCOUNT_MAX`] places. So the processes of root's that a user causes by ending jobs
//! are few, however slow an epilog is, and nobody waits for another's. While some of an account's wait, no
//! starter of its begins here: they are no more than parts that ran at a time.
//!
//! ```text
//! the starter begins --the starter is dead--> (waits) --> the epilog begins
//! '-- file JOB.json in NAME.epilogs --------------------------------------'
//! ```
//!
//! What happens if the daemon stops right here: the next one finds the files of parts whose epilogs have not
//! begun ([`Owed::load`]), and begins them when their starters are dead. Between the begin of an epilog and
//! the end of its file there is a moment: an epilog may run twice, and none is left out. Where no file can be
//! written (a full disk) an epilog is left out only if the daemon is killed too.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::ShellError;
use super::records::Folder;
use super::script_files::Around;
use crate::core::event::Event;
use crate::message::JobId;

/// Epilogs of one account that run at a time.
const OF_ACCOUNT_MAX: usize = 4;

/// A part of a job whose starter is dead.
#[derive(Debug)]
pub(super) struct Buried {
    pub(super) job: JobId,
    pub(super) around: Around,
    /// Event for the core when its epilog begins.
    pub(super) gone: Event,
}

/// Epilogs of one account.
#[derive(Debug, Default)]
struct OfAccount {
    running: usize,
    waiting: VecDeque<Buried>,
}

/// Epilogs by account; none of an account without any.
#[derive(Debug, Default)]
pub(super) struct Epilogs(BTreeMap<u32, OfAccount>);

impl Epilogs {
    /// Gives a part back whose epilog begins now; one that has to wait is kept.
    pub(super) fn begin(&mut self, buried: Buried) -> Option<Buried> {
        let of_account = self.0.entry(buried.around.account()).or_default();
        if of_account.running >= OF_ACCOUNT_MAX {
            of_account.waiting.push_back(buried);
            return None;
        }
        of_account.running += 1;
        Some(buried)
    }

    /// Takes note of the end of one; gives the part whose epilog begins in its place.
    pub(super) fn end(&mut self, account: u32) -> Option<Buried> {
        let of_account = self.0.get_mut(&account)?;
        let next = of_account.waiting.pop_front();
        if next.is_none() {
            of_account.running -= 1;
            if of_account.running == 0 {
                self.0.remove(&account);
            }
        }
        next
    }

    pub(super) fn has_waiting(&self) -> bool {
        self.0.values().any(|of_account| !of_account.waiting.is_empty())
    }

    /// Whether some of this account wait.
    pub(super) fn has_waiting_of(&self, account: u32) -> bool {
        self.0.get(&account).is_some_and(|of_account| !of_account.waiting.is_empty())
    }
}

/// Content of the file of a part whose epilog has not begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owing {
    pub(super) around: Around,
    /// Process of the starter.
    pub(super) pid: u32,
    /// When that was started, in clock ticks since boot: pids are used again.
    pub(super) since: u64,
}

/// Files of parts whose epilogs have not begun, for the next daemon.
#[derive(Debug)]
pub(super) struct Owed(Folder);

impl Owed {
    /// The folder beside that of the records of starters.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn open(parts: &Path) -> Result<Self, ShellError> {
        Folder::open(&parts.with_extension("epilogs")).map(Owed)
    }

    /// Keeps a part, before its starter is notified of its job.
    pub(super) fn put(&self, job: JobId, owing: &Owing) {
        // The folder has said what is wrong; the daemon that goes on knows the part all the same.
        let _ = self.0.put(job, owing);
    }

    /// Removes the file of a part whose epilog has begun, or that has none.
    pub(super) fn remove(&self, job: JobId) {
        self.0.remove(job);
    }

    /// Parts that an earlier daemon has left, in the order in which they began. What cannot be read is
    /// removed, with a line.
    pub(super) fn load(&self) -> Vec<(JobId, Owing)> {
        let mut found = self.0.read_all::<Owing>();
        found.sort_by_key(|(job, _)| *job);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::StarterEnd;

    fn around(uid: u32, job: u64) -> Around {
        Around { job, step: None, uid, gid: 1, nodes: Vec::new(), account: Some(uid) }
    }

    fn buried(account: u32, job: u64) -> Buried {
        let gone = Event::StarterGone(JobId(job), StarterEnd::Died("x".into()));
        Buried { job: JobId(job), around: around(account, job), gone }
    }

    #[test]
    fn epilogs_of_an_account_wait_for_its_own_alone() {
        let mut epilogs = Epilogs::default();
        for job in 0..OF_ACCOUNT_MAX as u64 {
            assert!(epilogs.begin(buried(7, job)).is_some());
        }
        for job in 10..1000 {
            assert!(epilogs.begin(buried(7, job)).is_none());
        }
        assert!(epilogs.begin(buried(8, 1)).is_some() && epilogs.has_waiting());
        assert!(epilogs.has_waiting_of(7) && !epilogs.has_waiting_of(8) && !epilogs.has_waiting_of(9));
        assert!(epilogs.end(8).is_none(), "those of another account do not wait for it");
        let next: Vec<u64> =
            std::iter::from_fn(|| epilogs.end(7)).map(|buried| buried.around.job).take(3).collect();
        assert_eq!(next, [10, 11, 12], "in the order in which they ended");
        assert_eq!(std::iter::from_fn(|| epilogs.end(7)).count(), 987);
        // The last call above was the end of one already.
        for _ in 1..OF_ACCOUNT_MAX {
            assert!(!epilogs.0.is_empty() && epilogs.end(7).is_none());
        }
        assert!(epilogs.0.is_empty(), "nothing is kept of who has none: {epilogs:?}");
    }

    #[test]
    fn epilogs_that_are_owed_are_found_by_the_next_daemon_until_they_begin() {
        let scratch = tutti_testkit::Scratch::new("epilogs-owed");
        let parts = scratch.path().join("node0.parts");
        let owing = |job| Owing { around: around(7, job), pid: 5, since: 6 };
        let owed = Owed::open(&parts).unwrap();
        for job in [11, 2, 3] {
            owed.put(JobId(job), &owing(job));
        }
        owed.remove(JobId(3));
        // One that was being written, and rubbish.
        std::fs::write(scratch.path().join("node0.epilogs/new"), "{\"around\"").unwrap();
        std::fs::write(scratch.path().join("node0.epilogs/9.json"), "{}").unwrap();
        let next = Owed::open(&parts).unwrap();
        let both = [2, 11].map(|job| (JobId(job), owing(job)));
        assert_eq!(next.load(), both);
        let left = std::fs::read_dir(scratch.path().join("node0.epilogs")).unwrap().count();
        assert_eq!((next.load().len(), left), (2, 2), "rubbish is removed");
    }

    #[test]
    fn epilogs_owed_in_files_that_are_nearly_right_are_read_or_removed() {
        let scratch = tutti_testkit::Scratch::in_memory("epilogs-nearly");
        let parts = scratch.path().join("node0.parts");
        let owed = Owed::open(&parts).unwrap();
        let path = scratch.path().join("node0.epilogs/7.json");
        let samples: Vec<Vec<u8>> = (1..5)
            .map(|uid| {
                owed.put(JobId(7), &Owing { around: around(uid, 7), pid: 5, since: 6 });
                std::fs::read(&path).unwrap()
            })
            .collect();
        let (mut read, mut removed) = (0_u64, 0_u64);
        tutti_testkit::nearly::read_frames(&samples, |bytes| {
            std::fs::write(&path, bytes).unwrap();
            let found = owed.load().len();
            assert_eq!(found == 1, path.exists());
            *(if found == 1 { &mut read } else { &mut removed }) += 1;
        });
        assert!(read > 0 && removed > 0, "{read} read, {removed} removed");
    }
}
