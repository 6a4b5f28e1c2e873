//! Counts what loops over pending operations look at, in unit tests only: so a test holds that n operations
//! cost n times one. In the product this is nothing.

#[cfg(test)]
thread_local! {
    static STEPS: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// Counts operations that were looked at.
#[inline(always)]
pub fn count(_steps: u64) {
    #[cfg(test)]
    STEPS.set(STEPS.get() + _steps);
}

/// Number of operations that were looked at while `action` ran.
#[cfg(test)]
pub fn of(action: impl FnOnce()) -> u64 {
    let before = STEPS.get();
    action();
    STEPS.get() - before
}
