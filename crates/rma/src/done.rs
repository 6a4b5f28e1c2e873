//! Completion in the initiator's memory: a counter that the engine raises, and the first thing that went
//! wrong.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering::*};

use crate::wire::Refusal;

/// Words of the initiator. Several operations may share them.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Done {
    /// Operations that have ended, whatever became of them.
    pub count: AtomicI64,
    /// 0, or why the first one failed: -2 less the number of its [`Refusal`].
    pub status: AtomicI32,
    /// Zero.
    pub reserved: i32,
}

impl Done {
    /// An operation, or a part of one, has failed.
    pub fn fail(&self, refusal: Refusal) {
        let _ = self.status.compare_exchange(0, -2 - refusal as i32, AcqRel, Relaxed);
    }

    /// Why the first one failed, if one did.
    pub fn refusal(&self) -> Option<Refusal> {
        let failed = self.status.load(Acquire);
        Refusal::ALL.into_iter().find(|refusal| failed == -2 - *refusal as i32)
    }

    /// An operation has ended: behind its data and its status.
    pub fn end(&self) {
        self.count.fetch_add(1, AcqRel);
    }
}

/// Where such words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoneAt(NonNull<Done>);

impl DoneAt {
    /// Names them.
    ///
    /// # Safety
    /// They are there, and read and written by atomics alone, until every operation that was given them has
    /// ended.
    pub unsafe fn new(at: NonNull<Done>) -> Self {
        DoneAt(at)
    }

    /// The words.
    pub fn get(&self) -> &Done {
        // SAFETY: the contract of the constructor; an operation that has ended drops this value first.
        unsafe { self.0.as_ref() }
    }
}
