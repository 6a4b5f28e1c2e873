//! How far the core of the other rank is: whether a line that it has written comes quickly.
//!
//! Near cores share a cache; a line that one has written reaches the other in some 50 ns. Between far ones
//! (another chiplet or socket) it takes 130 ns and more, longer than from memory. In a virtual machine that
//! changes from one second to the next, so it is measured all the time: now and then, with data that are read
//! anyway.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A line that takes longer comes from a far core.
const FAR_NS: u64 = 90;
/// A line that takes less is in a cache of this core.
const HERE_NS: u64 = 20;
/// Lead in samples that makes a change: one of the other kind may have been disturbed.
const SURE: i8 = 2;

/// Whether [`Distance::measure`] does anything, where [`is_memory_nearer`].
static MEASURES: AtomicBool = AtomicBool::new(true);

/// All cores count as near from now on, in this process. For tests that step a process instruction by
/// instruction: the clock is read from a page that the kernel changes every few milliseconds, again and again
/// until it has not changed meanwhile; one who takes a step in longer than it takes the kernel to change it
/// never gets there.
pub fn stop_measuring() {
    MEASURES.store(false, Ordering::Relaxed);
}

/// Distance of one other core, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Distance {
    is_far: bool,
    votes: i8,
}

impl Distance {
    /// Whether it is far; near until the first samples.
    #[inline(always)]
    pub fn is_far(&self) -> bool {
        self.is_far
    }

    /// Measures by a line that the other core may have written since this one has read it; one that is still
    /// in the caches here tells nothing. `is_news` looks at it again and says whether the other core has.
    /// Nothing is measured where it would not matter: there all are near.
    ///
    /// # Safety
    /// The byte is valid for reading.
    #[inline(never)]
    pub unsafe fn measure(&mut self, byte: *const u8, is_news: impl FnOnce() -> bool) {
        if !is_memory_nearer() || !MEASURES.load(Ordering::Relaxed) {
            return;
        }
        // The clock orders what stands between two readings of it; what a reading takes is measured too.
        let begin = Instant::now();
        let before = Instant::now();
        // SAFETY: our contract.
        unsafe { byte.read_volatile() };
        let took = before.elapsed();
        if is_news() {
            self.learn(took.saturating_sub(before - begin).as_nanos() as u64);
        }
    }

    fn learn(&mut self, line_ns: u64) {
        if line_ns < HERE_NS {
            return;
        }
        let vote = if line_ns > FAR_NS { 1 } else { -1 };
        self.votes = (self.votes + vote).clamp(-SURE, SURE);
        if self.votes.abs() == SURE {
            self.is_far = self.votes > 0;
        }
    }
}

/// Whether a line that a far core wants next is best moved to memory. On AMD's processors it comes from there
/// in half the time that a far cache takes. On Intel's, whose cores share one last cache, all of it takes
/// twice as long (docs/benchmarks/2026-11-26.md).
#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
pub fn is_memory_nearer() -> bool {
    use std::sync::LazyLock;

    const CLFLUSHOPT: u32 = 1 << 23;
    static IS_NEARER: LazyLock<bool> = LazyLock::new(|| {
        use core::arch::x86_64::{__cpuid, __cpuid_count};
        let first = __cpuid(0);
        let [vendor, feature] = [first.ebx, if first.eax < 7 { 0 } else { __cpuid_count(7, 0).ebx }];
        let is_amd = [*b"Auth", *b"Hygo"].map(u32::from_le_bytes).contains(&vendor);
        is_amd && feature & CLFLUSHOPT != 0
    });
    *IS_NEARER
}

/// The same where there is no instruction for it, or it is not known to help.
#[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
pub fn is_memory_nearer() -> bool {
    false
}

/// Moves lines from the caches to memory, where [`is_memory_nearer`]; else nothing happens.
///
/// # Safety
/// The bytes are valid for reading.
pub unsafe fn flush(at: *const u8, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    {
        use crate::LINE_BYTES;
        if is_memory_nearer() {
            for line in (0..bytes).step_by(LINE_BYTES) {
                // SAFETY: our contract; the processor knows the instruction, which changes no data.
                unsafe {
                    core::arch::asm!("clflushopt [{}]", in(reg) at.add(line), options(nostack, preserves_flags));
                }
            }
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    let _ = (at, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_changes_after_several_samples() {
        let mut distance = Distance::default();
        let mut after = |samples: &[u64]| {
            samples.iter().for_each(|&line_ns| distance.learn(line_ns));
            distance.is_far()
        };
        assert!(!after(&[140]) && after(&[140]), "two slow lines");
        assert!(after(&[50, 140, 50, 50, 140, 140]), "a few quick ones among slow ones");
        assert!(after(&[5, 5, 5, 5, 5]), "lines that were here");
        assert!(!after(&[50, 50, 50, 50]), "near again");
        assert!(!after(&[9000, 50, 9000, 50]), "now and then disturbed");
    }
}
