//! The atomics that the rings are written with: the machine's, or loom's when the tests are built with
//! `--cfg loom`.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Stands between a sequentially consistent exchange of one word and a load of another: the exchange alone
/// orders them.
#[cfg(not(loom))]
#[inline(always)]
pub fn then_look() {}

/// Whether an exchange of a word orders all loads and stores before it and behind it, whatever their places.
pub const EXCHANGE_ORDERS_ALL: bool = cfg!(all(target_arch = "x86_64", not(loom)));

/// Loom takes sequentially consistent accesses for acquire and release, but knows fences.
#[cfg(loom)]
pub fn then_look() {
    fence(Ordering::SeqCst);
}

/// All loads and stores before it come before all behind it, as other processors see them. On x86 an exchange
/// does that at a third of what `mfence` costs.
#[cfg(not(loom))]
#[inline(always)]
pub fn full_fence() {
    if cfg!(target_arch = "x86_64") {
        let word = AtomicU32::new(0);
        std::hint::black_box(&word).swap(1, Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}
