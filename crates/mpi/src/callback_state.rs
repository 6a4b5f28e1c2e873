//! State behind a function of the user: a face whose handles differ from ours gives ours a function of its
//! own, which needs to know the user's.
//!
//! The face announces the state right before it makes the operation or the error handler, on the same thread,
//! since the functions of the standard have no argument for it.

use std::cell::Cell;

thread_local! {
    static ANNOUNCED: Cell<usize> = const { Cell::new(0) };
}

/// Keeps a state for the next operation or error handler that this thread makes.
pub fn announce(state: usize) {
    ANNOUNCED.set(state);
}

/// The state that was announced, once; 0 for none.
pub(crate) fn take() -> usize {
    ANNOUNCED.take()
}
