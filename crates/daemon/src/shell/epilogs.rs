//! Epilogs that run on this node, and parts of jobs that wait for a place among them.
//!
//! Each account has [`OF_ACCOUNT_MAX`] places. So the processes of root's that a user causes by ending jobs
//! are few, however slow an epilog is, and nobody waits for another's.

use std::collections::{BTreeMap, VecDeque};

use super::script_files::Around;
use crate::core::event::Event;

/// Epilogs of one account that run at a time.
const OF_ACCOUNT_MAX: usize = 4;

/// A part of a job whose starter is dead.
#[derive(Debug)]
pub(super) struct Buried {
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
        let of_account = self.0.entry(buried.around.account).or_default();
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

    /// One that waits, of any account.
    pub(super) fn next(&mut self) -> Option<Buried> {
        self.0.values_mut().find_map(|of_account| of_account.waiting.pop_front())
    }

    pub(super) fn has_waiting(&self) -> bool {
        self.0.values().any(|of_account| !of_account.waiting.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::StarterEnd;
    use crate::message::JobId;

    fn buried(account: u32, job: u64) -> Buried {
        let around = Around { job, step: None, uid: account, gid: 1, nodes: Vec::new(), account };
        Buried { around, gone: Event::StarterGone(JobId(job), StarterEnd::Died("x".into())) }
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
        assert!(epilogs.end(8).is_none(), "those of another account do not wait for it");
        let next: Vec<u64> =
            std::iter::from_fn(|| epilogs.end(7)).map(|buried| buried.around.job).take(3).collect();
        assert_eq!(next, [10, 11, 12], "in the order in which they ended");
        assert_eq!(std::iter::from_fn(|| epilogs.next()).count(), 987);
        for _ in 0..OF_ACCOUNT_MAX {
            assert!(epilogs.end(7).is_none());
        }
        assert!(epilogs.0.is_empty(), "nothing is kept of who has none: {epilogs:?}");
    }
}
