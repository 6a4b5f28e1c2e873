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
    /// Ranks of the job may run.
    #[default]
    Running,
    /// Sleeps and counts as frozen; its ranks may run for so long before it is frozen.
    Exempt {
        /// Rest of the time that the job may use, in ns.
        budget_ns: u64,
    },
    /// Fills, behind everybody on its slots, and counts as frozen.
    Filling,
    /// Runs in the turn of another job, and counts as frozen.
    Lent {
        /// When that began.
        since_ns: u64,
        /// Rest of its own budget, if it slept before.
        before_ns: Option<u64>,
    },
    /// Waits to be ordered to freeze: ranks end accesses of files that they have locked.
    Unlocking,
    /// Told to freeze.
    Requested {
        /// Whether the job has not been checked since, and the next step waits for it.
        is_unchecked: bool,
    },
    /// Told to freeze, and that is enough: none of its ranks runs an instruction of its own.
    Assumed,
    /// Seen frozen.
    Confirmed,
}

impl FreezeState {
    /// Notes that the job was checked.
    pub(super) fn check(&mut self) {
        if let FreezeState::Requested { is_unchecked } = self {
            *is_unchecked = false;
        }
    }
}
