//! State that only some requests have: others that they stand for, functions of the user, data of their own.

use core::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::*;

use tutti_rma::done::{Done, DoneAt};
use tutti_rma::wire::Refusal;

use crate::abi::*;
use crate::attached::{Attached, Owned};
use crate::error::Error;
use crate::handle::Slab;
use crate::request::partition::Partitioned;
use crate::request::{Outcome, Request, Started, Suspect};

/// State of a request besides what the engine needs.
#[derive(Debug)]
pub enum Extra {
    /// Requests that it stands for.
    Compound(Compound),
    /// The user finishes it.
    Generalized(Generalized),
    /// The message's data, which belong to the request.
    Owned(Owned),
    /// A receive whose message has another type signature; only while the program is being checked.
    Suspect(Suspect),
    /// Buffer that must be empty before the request is done.
    Flush(Attached),
    /// Side of a partitioned message.
    Partitioned(Partitioned),
    /// An operation on the memory of a rank of another node.
    Remote(RemoteOperation),
    /// A collective operation that has failed: what the user gets.
    Failed(Box<str>),
}

impl Request {
    /// Whether it sends a message out of this buffer.
    pub fn is_from(&self, buffer: &Attached) -> bool {
        matches!(self.extra.as_deref(), Some(Extra::Owned(owned)) if buffer.holds(owned))
    }
}

/// Operation of those that a request stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Finished.
    Done(Outcome),
    /// Request that finishes it.
    Pending(u32),
}

/// A request that stands for others.
pub struct Compound {
    /// Whether it can be started again.
    pub(crate) is_persistent: bool,
    /// The first gives the status.
    pub(crate) parts: [Part; 2],
    /// Started and not completed.
    pub(crate) active: bool,
}

/// The functions of a generalized request.
#[derive(Clone, Copy, Debug)]
pub struct Generalized {
    /// Fills the status.
    pub query: MPI_Grequest_query_function,
    /// Frees what the user keeps.
    pub free: MPI_Grequest_free_function,
    /// Told of MPI_Cancel.
    pub cancel: MPI_Grequest_cancel_function,
    /// The user's pointer for all three.
    pub state: *mut c_void,
}

/// An operation on the memory of a rank of another node.
#[derive(Debug)]
pub struct RemoteOperation {
    /// Where its end is noted.
    pub done: Noted,
    /// The target's rank in the window.
    pub rank: usize,
}

impl RemoteOperation {
    /// Error of the operation, as the user gets it.
    pub(crate) fn error(&self) -> Option<Error> {
        self.done.refusal().map(|refusal| refused(refusal, self.rank))
    }

    /// How it has ended.
    pub(crate) fn outcome(&self) -> Outcome {
        let error = self.error().map_or(MPI_SUCCESS, |error| error.class);
        Outcome { error, ..Outcome::EMPTY }
    }
}

/// A rank of a window has refused an operation.
pub fn refused(refusal: Refusal, rank: usize) -> Error {
    if refusal == Refusal::Gone {
        let text = format_args!("rank {rank} has ended before an operation on its window");
        return Error::new(MPI_ERR_PROC_ABORTED, text);
    }
    let text = format_args!("rank {rank} has refused an operation on its window: {refusal}");
    Error::new(MPI_ERR_RMA_RANGE, text)
}

/// Words that an operation is noted in. They stay if it is given up.
#[derive(Debug)]
pub struct Noted(NonNull<Done>);

impl Noted {
    pub(crate) fn new() -> Self {
        Noted(NonNull::from(Box::leak(Box::default())))
    }

    pub(crate) fn at(&self) -> DoneAt {
        // SAFETY: the words go when an operation has ended that was given them, or none has been.
        unsafe { DoneAt::new(self.0) }
    }

    fn words(&self) -> &Done {
        // SAFETY: they are there as long as this value.
        unsafe { self.0.as_ref() }
    }

    /// Whether the operation has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.words().count.load(Acquire) != 0
    }

    /// Why it was refused.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.words().refusal()
    }

    /// Gives up asking. The operation may be under way, so the words stay.
    pub(crate) fn abandon(self) {
        std::mem::forget(self);
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        // SAFETY: from `Box::leak`, and given to nobody who still uses it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// A part that was finished when it started and has no status.
pub const NOTHING: Part = Part::Done(Outcome::EMPTY);

impl From<Started> for Part {
    fn from(started: Started) -> Self {
        match started {
            Started::Done => NOTHING,
            Started::Pending(index) => Part::Pending(index),
        }
    }
}

impl From<Option<u32>> for Part {
    fn from(received: Option<u32>) -> Self {
        received.map_or(Part::Done(Outcome::PROC_NULL), Part::Pending)
    }
}

impl fmt::Debug for Compound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compound")
            .field("persistent", &self.is_persistent)
            .field("parts", &self.parts)
            .field("active", &self.active)
            .finish()
    }
}

impl Compound {
    /// Whether all it stands for are done.
    pub(crate) fn is_done(&self, requests: &Slab<Request>) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Done(_) => true,
            Part::Pending(index) => requests.get(*index).done,
        })
    }
}
