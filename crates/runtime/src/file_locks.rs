//! Report of a rank's file locks: nobody freezes the rank for long while it has one, if that can be helped
//! ([`tutti_shm::report`], locks of files).

use std::sync::atomic::{AtomicU32, Ordering};

use tutti_shm::report::Report;

use crate::clock::Clock;
use crate::job::Job;

/// The locks of files of this rank.
#[derive(Debug)]
pub struct FileLocks {
    /// Of this rank, for the starter.
    report: &'static Report,
    /// Of all ranks of this node, for its daemon.
    node: &'static AtomicU32,
    clock: Clock,
}

impl FileLocks {
    /// Of the rank that this process is.
    pub fn of(job: &Job) -> Self {
        // SAFETY: the segment stays mapped until the process ends.
        let (report, node) = unsafe {
            (&*std::ptr::from_ref(job.report(job.rank())), &*std::ptr::from_ref(job.node_file_locks()))
        };
        FileLocks { report, node, clock: job.clock().clone() }
    }

    /// Before a lock is asked for. False: none is to be had now; it is asked again later.
    #[must_use]
    pub fn try_begin(&self) -> bool {
        self.node.fetch_add(1, Ordering::SeqCst);
        if !self.report.begin_file_lock() {
            self.node.fetch_sub(1, Ordering::SeqCst);
            return false;
        }
        let is_open = !self.clock.are_file_locks_closed();
        if !is_open {
            self.end();
        }
        is_open
    }

    /// The lock is given back, or was not to be had.
    pub fn end(&self) {
        self.report.end_file_lock();
        self.node.fetch_sub(1, Ordering::SeqCst);
    }
}
