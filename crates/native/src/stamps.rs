//! Stamps of operations, for programs ([`tutti_runtime::stamps`]): the calls of `tutti.h`.

use core::ffi::c_int;

use tutti_runtime::rank;
pub use tutti_runtime::stamps::Stamp;
use tutti_runtime::stamps::{self, OWN_MARKS};

use crate::status::*;

/// Keeps so many stamps from now on, and if `inner` those of the library too.
pub fn start(room: usize, inner: bool) -> c_int {
    let Some(rank) = rank::enter() else { return NOT_RUNNING };
    if !stamps::start(room, inner) {
        return INVALID;
    }
    if let Some(router) = &rank.router {
        router.borrow_mut().stamp_arrivals(inner);
    }
    OK
}

/// Keeps none any more; gives those that are kept.
pub fn stop() -> Result<(Vec<Stamp>, usize), c_int> {
    let Some(rank) = rank::enter() else { return Err(NOT_RUNNING) };
    if let Some(router) = &rank.router {
        router.borrow_mut().stamp_arrivals(false);
    }
    stamps::stop().ok_or(INVALID)
}

/// Notes a mark of the program, if stamps are kept.
pub fn mark(mark: u32) -> c_int {
    if mark < OWN_MARKS {
        return INVALID;
    }
    stamps::mark(mark);
    OK
}
