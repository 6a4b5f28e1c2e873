//! How an operation ends, and what the elastic barrier has to look at.

use core::ffi::c_int;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use tutti_rma::done::Done;
use tutti_rma::done::DoneAt;
use tutti_rma::wire::Name;

use crate::status::OK;

/// How the end of an operation is to be known.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// The call waits for it.
    Wait,
    /// The next barrier says so.
    Posted,
    /// Note of the end.
    Noted(DoneAt),
}

impl End {
    /// The last argument of an operation.
    ///
    /// # Safety
    /// Contract of [`DoneAt::new`], unless it is null or -1.
    pub unsafe fn of(done: *mut Done) -> Option<Self> {
        if done.addr() == usize::MAX {
            return Some(End::Posted);
        }
        match NonNull::new(done) {
            None => Some(End::Wait),
            // SAFETY: our contract.
            Some(at) if at.is_aligned() => Some(End::Noted(unsafe { DoneAt::new(at) })),
            Some(_) => None,
        }
    }

    /// Ends an operation with a status, which the call returns: its completion has it too, whatever the
    /// reason.
    pub(crate) fn with(self, status: c_int) -> c_int {
        if let End::Noted(done) = self {
            let done = done.get();
            if status != OK {
                let _ = done.status.compare_exchange(0, status, AcqRel, Relaxed);
            }
            done.end();
        }
        status
    }
}

/// Operations that no fence which is over has covered, by what they work on.
///
/// Fences are numbered as they begin. An operation has the number of the last fence that began before it:
/// each later one covers it. What a fence covers stays here until that fence is seen to be over, so that
/// another one which begins meanwhile covers it too.
#[derive(Debug)]
pub(crate) struct Started {
    /// Number of the last fence that has begun.
    last: u32,
    /// Ranks, each with the last operation on it.
    ranks: Vec<(usize, u32)>,
    /// Regions with posted operations, each with the first one whose end no fence has seen and the last one.
    posted: Vec<(usize, Name, u32, u32)>,
}

pub(crate) static STARTED: Mutex<Started> = Mutex::new(Started::new());

/// The list of this rank.
pub(crate) fn started() -> MutexGuard<'static, Started> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a fence covers an operation with this number. Numbers begin again some day.
fn covers(fence: u32, operation: u32) -> bool {
    fence.wrapping_sub(operation).cast_signed() > 0
}

impl Started {
    const fn new() -> Self {
        Started { last: 0, ranks: Vec::new(), posted: Vec::new() }
    }

    /// An operation on a rank has been handed over.
    pub(crate) fn note(&mut self, to: usize) {
        match self.ranks.iter_mut().find(|(rank, _)| *rank == to) {
            Some((_, number)) => *number = self.last,
            None => self.ranks.push((to, self.last)),
        }
    }

    /// A posted operation on this region has been handed over.
    pub(crate) fn note_posted(&mut self, to: usize, name: Name) {
        self.note(to);
        match self.posted.iter_mut().find(|(rank, region, ..)| (*rank, *region) == (to, name)) {
            Some((.., number)) => *number = self.last,
            None => self.posted.push((to, name, self.last, self.last)),
        }
    }

    /// A fence begins: its number, and the ranks that it has to ask.
    pub(crate) fn begin_fence(&mut self) -> (u32, Vec<usize>) {
        self.last = self.last.wrapping_add(1);
        (self.last, self.ranks.iter().map(|(rank, _)| *rank).collect())
    }

    /// A fence is over: the regions with posted operations that it covers.
    pub(crate) fn end_fence(&mut self, fence: u32) -> Vec<(usize, Name)> {
        self.ranks.retain(|(_, last)| !covers(fence, *last));
        let mut covered = Vec::new();
        self.posted.retain_mut(|(rank, name, first, last)| {
            if covers(fence, *first) {
                covered.push((*rank, *name));
                *first = fence;
            }
            !covers(fence, *last)
        });
        covered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Name = Name { id: 1, generation: 0 };
    const B: Name = Name { id: 2, generation: 0 };

    #[test]
    fn fence_that_begins_while_another_is_open_covers_the_same_and_what_came_since() {
        let mut started = Started::new();
        started.note(3);
        let (first, ranks) = started.begin_fence();
        assert_eq!(ranks, [3]);
        started.note(4);
        let (second, ranks) = started.begin_fence();
        assert_eq!(ranks, [3, 4]);
        started.end_fence(first);
        assert_eq!(started.begin_fence().1, [4], "it has come since the first began");
        started.end_fence(second);
        assert!(started.begin_fence().1.is_empty());
        started.end_fence(first);
    }

    #[test]
    fn fence_gives_refusals_of_what_was_posted_before_it_and_leaves_the_others() {
        let mut started = Started::new();
        started.note_posted(3, A);
        let (first, _) = started.begin_fence();
        started.note_posted(3, B);
        let (second, _) = started.begin_fence();
        assert_eq!(started.end_fence(first), [(3, A)]);
        assert!(started.end_fence(first).is_empty());
        assert_eq!(started.end_fence(second), [(3, B)]);
    }

    #[test]
    fn fence_leaves_a_region_that_was_posted_to_before_and_again_after_it() {
        let mut started = Started::new();
        // Numbers that begin again.
        started.last = u32::MAX - 1;
        started.note_posted(3, A);
        let (first, _) = started.begin_fence();
        started.note_posted(3, A);
        assert_eq!(started.end_fence(first), [(3, A)]);
        assert!(started.end_fence(first).is_empty(), "what came since is another one's");
        let (second, ranks) = started.begin_fence();
        assert_eq!((second, ranks), (0, vec![3]));
        assert_eq!(started.end_fence(second), [(3, A)]);
        assert!(started.posted.is_empty() && started.ranks.is_empty());
    }
}
