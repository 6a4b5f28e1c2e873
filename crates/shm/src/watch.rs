//! Waiting for a word of memory that others change by plain stores: the sleeper pays, not the storer.
//!
//! ```text
//! storer                            sleeper
//! store the word                    watching += 1
//! w = watching; w != 0 ?            membarrier: a full fence in every process that has registered
//!   as the waker of a doorbell      sleep as at a doorbell; the word is what it looks at
//!                                   the wait is over: watching -= 1
//! ```
//!
//! Store and load of the storer have no fence between them. Either its load comes behind the membarrier: then
//! it sees `watching`, and the rest is the doorbell's promise. Or it comes before: then the fence stands
//! behind it, so behind the store too, and the sleeper's look, which comes later, sees the word.
//!
//! Every process that stores must have registered ([`register`]) before the first one sleeps. Where the
//! kernel refuses, nobody sleeps for long.
//!
//! | word | writer |
//! |---|---|
//! | `Endpoint::watching` | the rank, under its process lock |
//! | `Endpoint::stores_unnoticed` | the rank, once |
//!
//! A process that is frozen or killed between store and load has stored: the sleeper finds the word when it
//! is woken for another reason, or when the process goes on. `watching` of a killed rank is looked at by
//! nobody for long, since its job ends.

use crate::doorbell;
use crate::endpoint::Endpoint;
use crate::sync::Ordering;

/// The calling rank has stored to the memory of the rank of `endpoint`: wakes it if it waits for a word.
#[inline(always)]
pub fn notify(endpoint: &Endpoint) {
    #[cfg(not(loom))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    if endpoint.watching.load(Ordering::Relaxed) != 0 {
        wake(endpoint);
    }
}

#[cold]
fn wake(endpoint: &Endpoint) {
    doorbell::ring_if_sleeping(endpoint);
}

/// One more thread of the owner may sleep until a word changes. `barrier` is [`barrier`]; the caller holds
/// the process lock. Looks before this may have missed a store that rings nobody.
pub fn begin(endpoint: &Endpoint, barrier: impl FnOnce()) {
    endpoint.watching.store(endpoint.watching.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    barrier();
}

/// One fewer.
pub fn end(endpoint: &Endpoint) {
    endpoint.watching.store(endpoint.watching.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
}

/// From now on [`barrier`] of any process reaches this one; false where the kernel refuses.
#[cfg(not(loom))]
pub fn register() -> bool {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED)
}

/// A full fence in every thread that runs and whose process has registered; false where the kernel refuses.
/// Takes some microseconds.
#[cfg(not(loom))]
pub fn barrier() -> bool {
    membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED)
}

#[cfg(not(loom))]
fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes numbers alone.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
