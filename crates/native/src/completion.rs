//! How an operation ends, and what the elastic barrier has to look at.

use core::ffi::c_int;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::*;
use std::sync::{Mutex, PoisonError};

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

/// Targets of posted operations whose end no barrier has seen.
pub(crate) static POSTED: Mutex<Vec<(usize, Name)>> = Mutex::new(Vec::new());
/// Ranks that have been worked on since the last barrier began.
pub(crate) static TOUCHED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

pub(crate) fn note_once<T: PartialEq>(list: &Mutex<Vec<T>>, value: T) {
    let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
    if !list.contains(&value) {
        list.push(value);
    }
}
