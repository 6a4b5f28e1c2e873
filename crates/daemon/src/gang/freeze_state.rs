//! How far the freezing of a job is on this node, as its freezer acts by it.
//!
//! ```text
//! Running --try_fill--> Filling --freeze--> Requested; thaw: Running
//! any that counts as frozen --lend--> Lent --give_back--> Requested, or Exempt as before; thaw: Running
//! Running --try_exempt--> Exempt --budget used up--.
//!    |  ^                   | thaw                 v
//!    |  '-------------------'                   Requested --try_assume--> Assumed
//!    '--freeze--------------------------------------^  |                     |
//!    |                                              |  '---- try_confirm ----'--> Confirmed; thaw: Running
//!    '--freeze, a rank has a lock of a file--> Unlocking; thaw: Running
//! ```

/// The state of a job freezer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FreezeState {
    /// Its ranks may run.
    #[default]
    Running,
    /// It sleeps and counts as frozen; its ranks may run for so long before it is frozen.
    Exempt {
        /// What is left of the time that it may use, in ns.
        budget_ns: u64,
    },
    /// It is a filler, behind everybody on its slots, and counts as frozen.
    Filling,
    /// It runs in the turn of another job, and counts as frozen.
    Lent {
        /// When that began.
        since_ns: u64,
        /// Rest of its own budget, if it slept before.
        before_ns: Option<u64>,
    },
    /// It is about to be told to freeze: ranks end accesses of files that they have locked.
    Unlocking,
    /// It was told to freeze.
    Requested {
        /// It has not been checked since, and the next step waits for it.
        is_unchecked: bool,
    },
    /// It was told to freeze, and that is enough: none of its ranks runs an instruction of its own.
    Assumed,
    /// It was seen frozen.
    Confirmed,
}

impl FreezeState {
    /// It was checked.
    pub(super) fn check(&mut self) {
        if let FreezeState::Requested { is_unchecked } = self {
            *is_unchecked = false;
        }
    }
}
