//! Communicators that the program has freed while operations on them may still fail: their error handlers are
//! kept, since a freed communicator goes when its last operation has ended (MPI 7.4.3).

use super::{CONTEXTS_PER_COMM, Comms};
use crate::abi::*;
use crate::engine::Engine;
use crate::errhandler;
use crate::request::Request;
use crate::request::extra::{Compound, Extra};

/// A communicator that was freed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freed {
    context: u32,
    handle: MPI_Comm,
    errhandler: MPI_Errhandler,
}

impl Freed {
    /// Whether an operation on it may still fail.
    fn is_needed(&self, engine: &Engine) -> bool {
        let contexts = self.context..self.context + CONTEXTS_PER_COMM;
        engine.requests.iter().any(|(_, request)| contexts.contains(&request.context))
    }
}

/// Whether a request may be started again: it does not say which communicator is its own.
fn is_persistent(request: &Request) -> bool {
    match request.extra.as_deref() {
        Some(Extra::Compound(Compound { is_persistent, .. })) => *is_persistent,
        Some(Extra::Partitioned(_)) => true,
        _ => false,
    }
}

impl Comms {
    /// The program has freed a communicator, whose reference to its error handler is ours now.
    pub(super) fn keep_freed(&mut self, context: u32, handle: MPI_Comm, errhandler: MPI_Errhandler) {
        self.freed.push(Freed { context, handle, errhandler });
    }

    /// Contexts of freed communicators without an operation that may still fail.
    pub(super) fn ended(&self, engine: &Engine) -> Vec<u32> {
        if engine.requests.iter().any(|(_, request)| is_persistent(request)) {
            return Vec::new();
        }
        let ended = self.freed.iter().filter(|freed| !freed.is_needed(engine));
        ended.map(|freed| freed.context).collect()
    }

    /// Lets go of them.
    pub(super) fn forget_freed(&mut self, ended: &[u32]) {
        for freed in self.freed.extract_if(.., |freed| ended.contains(&freed.context)) {
            errhandler::release(freed.errhandler);
        }
    }

    /// The freed communicator of an operation, and its error handler.
    pub fn freed_with(&self, context: u32) -> Option<(MPI_Comm, MPI_Errhandler)> {
        let context = context - context % CONTEXTS_PER_COMM;
        let found = self.freed.iter().find(|freed| freed.context == context)?;
        Some((found.handle, found.errhandler))
    }
}
