//! Requests of the user: which request a handle names, whether it is done and why it has failed, and those
//! that stand for others.

use tutti_datatype::Buffer;

use super::{Engine, LOST};
use crate::abi::*;
use crate::error::{Error, Result};
use crate::request::extra::{Compound, Extra, Part};
use crate::request::partition::Partitioned;
use crate::request::{FINISHED_SEND, Named, Outcome, Request, RequestKind, Started};

impl Engine {
    /// Object that a request handle names.
    ///
    /// # Errors
    /// MPI_ERR_REQUEST when it names none.
    #[inline(always)]
    pub fn named_request(&self, handle: MPI_Request) -> Result<Named> {
        if handle == MPI_REQUEST_NULL {
            return Ok(Named::Null);
        }
        if handle == FINISHED_SEND {
            return Ok(Named::FinishedSend);
        }
        let index = self.requests.index(handle.0).ok_or_else(|| {
            Error::new(MPI_ERR_REQUEST, format_args!("request {:#x} is freed or was never one", handle.0))
        })?;
        let request = self.requests.get(index);
        let inactive = request.extra.is_some() && self.is_inactive(request);
        Ok(if inactive { Named::Inactive(index) } else { Named::Pending(index) })
    }

    /// Whether a request of the user is done.
    #[inline(always)]
    pub fn is_done(&self, index: u32) -> bool {
        let request = self.requests.get(index);
        request.done || (request.extra.is_some() && self.is_compound_done(request))
    }

    fn is_compound_done(&self, request: &Request) -> bool {
        match request.extra.as_deref() {
            Some(Extra::Compound(compound)) => compound.is_done(&self.requests),
            Some(Extra::Flush(attached)) => attached.is_empty(),
            Some(Extra::Remote(remote)) => remote.done.is_over(),
            Some(Extra::Partitioned(partitioned)) => partitioned.is_done(&self.requests),
            _ => false,
        }
    }

    /// Whether it is a persistent request that is not started.
    pub fn is_inactive(&self, request: &Request) -> bool {
        match request.extra.as_deref() {
            Some(Extra::Compound(compound)) => !compound.active,
            Some(Extra::Partitioned(partitioned)) => !partitioned.is_active(),
            _ => false,
        }
    }

    /// Whether it can be started again when it is completed.
    pub fn is_persistent(&self, index: u32) -> bool {
        match self.requests.get(index).extra.as_deref() {
            Some(Extra::Compound(compound)) => compound.is_persistent,
            Some(Extra::Partitioned(_)) => true,
            _ => false,
        }
    }

    /// The partitioned operation behind a request.
    pub fn partitioned(&self, index: u32) -> Option<&Partitioned> {
        match self.requests.get(index).extra.as_deref() {
            Some(Extra::Partitioned(partitioned)) => Some(partitioned),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn partitioned_mut(&mut self, index: u32) -> Option<&mut Partitioned> {
        match self.requests.get_mut(index).extra.as_deref_mut() {
            Some(Extra::Partitioned(partitioned)) => Some(partitioned),
            _ => None,
        }
    }

    /// The pending requests that a compound one stands for.
    pub fn pending_parts(&self, index: u32) -> impl Iterator<Item = u32> {
        let parts = self.compound(index).into_iter().flat_map(|compound| compound.parts);
        parts.filter_map(|part| if let Part::Pending(index) = part { Some(index) } else { None })
    }

    /// The compound behind a request.
    pub(crate) fn compound(&self, index: u32) -> Option<&Compound> {
        match self.requests.get(index).extra.as_deref() {
            Some(Extra::Compound(compound)) => Some(compound),
            _ => None,
        }
    }

    pub(crate) fn compound_mut(&mut self, index: u32) -> Option<&mut Compound> {
        match self.requests.get_mut(index).extra.as_deref_mut() {
            Some(Extra::Compound(compound)) => Some(compound),
            _ => None,
        }
    }

    /// A started send as a handle.
    #[inline(always)]
    pub fn send_handle(&self, started: Started) -> MPI_Request {
        match started {
            Started::Done => FINISHED_SEND,
            Started::Pending(index) => MPI_Request(self.requests.handle(index)),
        }
    }

    /// A started receive as a handle; from MPI_PROC_NULL it is finished at once.
    #[inline(always)]
    pub fn receive_handle(&mut self, started: Option<u32>) -> MPI_Request {
        let index = started.unwrap_or_else(|| {
            let mut request =
                Request::new(RequestKind::Receive, Buffer::empty(), 0, MPI_PROC_NULL, MPI_ANY_TAG);
            request.done = true;
            self.requests.insert(request)
        });
        MPI_Request(self.requests.handle(index))
    }

    /// Completes a request that is done, has no error and stands for itself; false when the general way must
    /// be gone.
    ///
    /// # Safety
    /// `status` is MPI_STATUS_IGNORE or valid for writing.
    #[inline(always)]
    pub unsafe fn try_complete_quickly(&mut self, handle: &mut MPI_Request, status: *mut MPI_Status) -> bool {
        let outcome = if *handle == FINISHED_SEND {
            Outcome::EMPTY
        } else {
            let Some(index) = self.requests.index(handle.0) else { return false };
            let request = self.requests.get(index);
            if !request.done || request.extra.is_some() || request.error != MPI_SUCCESS {
                return false;
            }
            let outcome = if status.is_null() { Outcome::EMPTY } else { request.outcome() };
            if request.is_plain {
                self.requests.free_plain(index);
            } else {
                self.requests.free(index);
            }
            outcome
        };
        *handle = MPI_REQUEST_NULL;
        // SAFETY: our contract.
        unsafe { outcome.write(status) };
        true
    }

    /// The same of a request whose message may be there and was not looked at yet.
    ///
    /// # Safety
    /// As [`Engine::try_complete_quickly`].
    #[inline(always)]
    pub unsafe fn try_complete_soon(&mut self, handle: &mut MPI_Request, status: *mut MPI_Status) -> bool {
        if let Some((index, request)) = self.requests.named(handle.0)
            && request.is_awaited()
        {
            let source = request.peer;
            if let Some((tag, bytes)) = self.take_awaited(index, source) {
                self.requests.free_plain(index);
                *handle = MPI_REQUEST_NULL;
                // SAFETY: our contract.
                unsafe { Outcome { source, tag, bytes, ..Outcome::EMPTY }.write(status) };
                return true;
            }
        }
        // SAFETY: our contract.
        unsafe { self.try_complete_quickly(handle, status) }
    }

    /// Whether a request is finished, without touching it.
    #[inline(always)]
    pub fn is_finished(&self, named: Named) -> bool {
        match named {
            Named::Null | Named::Inactive(_) | Named::FinishedSend => true,
            Named::Pending(index) => self.is_done(index),
        }
    }

    /// A request around parts that have been started.
    pub fn combine(&mut self, parts: [Part; 2]) -> u32 {
        self.insert_compound(Compound { is_persistent: false, parts, active: true })
    }

    /// A request that stands for others.
    pub(crate) fn insert_compound(&mut self, compound: Compound) -> u32 {
        let mut request =
            Request::new(RequestKind::Compound, Buffer::empty(), 0, MPI_ANY_SOURCE, MPI_ANY_TAG);
        request.extra = Some(Box::new(Extra::Compound(compound)));
        self.requests.insert(request)
    }

    /// The error of a request that is done, before its outcome is taken: of itself, or of the first of its
    /// parts that has one.
    #[cold]
    #[inline(never)]
    pub fn failure(&self, index: u32) -> Option<Error> {
        let request = self.requests.get(index);
        match request.extra.as_deref() {
            Some(Extra::Compound(_)) => self.pending_parts(index).find_map(|part| self.failure(part)),
            Some(Extra::Partitioned(partitioned)) => {
                let error = partitioned.under_way().find_map(|part| self.failure(part))?;
                let text = format!("{}, one partition of it", error.text);
                Some(Error { text: text.into(), ..error })
            }
            Some(Extra::Failed(text)) => Some(Error::new(request.error, text).in_context(request.context)),
            Some(Extra::Generalized(_)) => None,
            Some(Extra::Remote(remote)) => remote.error().map(|error| error.in_context(request.context)),
            _ if request.error == MPI_SUCCESS => None,
            _ => Some(outcome_error(&request.outcome(), request.buffer.bytes).in_context(request.context)),
        }
    }
}

/// The error of an outcome, as the result of a call.
///
/// # Errors
/// The outcome's.
#[inline(always)]
pub fn outcome_result(outcome: &Outcome, capacity: usize) -> Result<()> {
    if outcome.error == MPI_SUCCESS { Ok(()) } else { Err(outcome_error(outcome, capacity)) }
}

/// The error of an outcome that has one.
#[cold]
pub fn outcome_error(outcome: &Outcome, capacity: usize) -> Error {
    match outcome.error {
        MPI_ERR_TRUNCATE => Error::new(
            MPI_ERR_TRUNCATE,
            format_args!(
                "the message from rank {} with tag {} has {} bytes, the receive buffer has room for {capacity}",
                outcome.source, outcome.tag, outcome.bytes
            ),
        ),
        MPI_ERR_PROC_ABORTED => Error::new(MPI_ERR_PROC_ABORTED, LOST),
        MPI_ERR_NO_MEM => Error::new(
            MPI_ERR_NO_MEM,
            "there is no address space for the memory that the sender shares (ulimit -v)",
        ),
        class => Error::new(class, "the operation failed"),
    }
}
