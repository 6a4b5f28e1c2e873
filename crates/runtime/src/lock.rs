//! The process lock: one for the whole library, taken only when several threads may come: those of the
//! program, or the service thread.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A futex lock: 0 free, 1 held, 2 held and somebody sleeps.
#[derive(Debug)]
pub struct Lock {
    word: AtomicU32,
    needed: AtomicBool,
}

impl Lock {
    /// A free lock that is not needed yet.
    pub const fn new() -> Self {
        Lock { word: AtomicU32::new(0), needed: AtomicBool::new(false) }
    }

    /// From now on several threads may come. Called before the second one can.
    pub fn need(&self) {
        self.needed.store(true, Ordering::Relaxed);
    }

    /// The same, by a caller that has acquired the lock and will release it.
    pub fn need_while_held(&self) {
        if !self.is_needed() {
            self.word.store(1, Ordering::Relaxed);
            self.need();
        }
    }

    /// Whether several threads may come.
    #[inline(always)]
    pub fn is_needed(&self) -> bool {
        self.needed.load(Ordering::Relaxed)
    }

    /// 0 while nobody holds it.
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Takes the lock.
    #[inline(always)]
    pub fn acquire(&self) {
        if self.is_needed() && self.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            self.acquire_slowly();
        }
    }

    /// Gives it back.
    #[inline(always)]
    pub fn release(&self) {
        if self.is_needed() && self.word.swap(0, Ordering::Release) == 2 {
            self.wake();
        }
    }

    #[cold]
    fn acquire_slowly(&self) {
        for _ in 0..100 {
            if self.word.load(Ordering::Relaxed) == 0
                && self.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            core::hint::spin_loop();
        }
        while self.word.swap(2, Ordering::Acquire) != 0 {
            // SAFETY: the word is static; without a time-out the other arguments are ignored.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.word.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    2,
                    0_usize,
                );
            }
        }
    }

    #[cold]
    fn wake(&self) {
        // SAFETY: the word is static.
        unsafe {
            libc::syscall(libc::SYS_futex, self.word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1)
        };
    }
}

impl Default for Lock {
    fn default() -> Self {
        Self::new()
    }
}
