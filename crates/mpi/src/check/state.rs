//! State of the checker between calls.

use core::ffi::CStr;
use std::collections::HashSet;

use crate::handle::Slab;

/// State of the checker.
#[derive(Debug)]
pub struct Check {
    /// Which call made the objects of each kind; see [`Counts`].
    pub(super) kept: [Counts; KINDS],
    /// The call before the one that is being entered.
    pub(super) last_call: &'static CStr,
    pub(super) said: HashSet<String>,
    /// State of this rank's own waiting.
    pub(super) waiting: Waiting,
}

/// Kinds of objects whose makers are remembered.
const KINDS: usize = 5;
/// A call makes at most so many objects of a kind that the user sees.
const MADE_MAX: usize = 4;

/// The makers of the objects of one slab. They are looked for at the entry of the next call, where the last
/// one's objects stand at the places that were free; so no place that makes objects knows of this.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// By index: handle and function.
    makers: Vec<(usize, &'static CStr)>,
    /// Places at which the objects of the call will stand.
    next: [u32; MADE_MAX],
}

impl Counts {
    pub(super) fn look<T>(&mut self, slab: &Slab<T>, function: &'static CStr) {
        for index in self.next {
            let Some(handle) = slab.live_handle(index) else { continue };
            let at = index as usize;
            if self.makers.len() <= at {
                self.makers.resize(at + 1, (0, c""));
            }
            if self.makers[at].0 != handle {
                self.makers[at] = (handle, function);
            }
        }
        self.next = slab.next_indices();
    }

    pub(super) fn maker(&self, handle: usize, index: u32) -> Option<&'static CStr> {
        self.makers.get(index as usize).filter(|maker| maker.0 == handle).map(|maker| maker.1)
    }
}

impl Check {
    /// Makes an empty state.
    pub(super) fn new() -> Self {
        Check {
            kept: Default::default(),
            last_call: c"MPI_Init",
            said: HashSet::new(),
            waiting: Waiting::default(),
        }
    }
}

/// State of this rank's own waiting in the call that it is in.
#[derive(Debug, Default)]
pub struct Waiting {
    /// When the call began to wait, in library time: who is frozen does not wait.
    pub(super) since: Option<u64>,
    /// The hint of this call is printed.
    pub(super) is_hinted: bool,
}
