//! The process lock: one for the whole library, taken only when several threads may come: those of the
//! program, or the service thread.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A futex lock: 0 free, 1 held, 2 held and somebody sleeps.
#[derive(Debug)]
pub struct Lock {
    word: AtomicU32,
    needed: AtomicBool,
    /// Whether `owner` is kept: a handler of faults asks ([`Lock::is_held_by_caller`]).
    names_owner: AtomicBool,
    /// The thread that holds the lock, by [`thread_mark`]; 0: none does. Writer: the thread that holds it.
    owner: AtomicUsize,
}

impl Lock {
    /// A free lock that is not needed yet.
    pub const fn new() -> Self {
        Lock {
            word: AtomicU32::new(0),
            needed: AtomicBool::new(false),
            names_owner: AtomicBool::new(false),
            owner: AtomicUsize::new(0),
        }
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

    /// From now on [`Lock::is_held_by_caller`] has an answer. The lock is needed, and held by the caller.
    pub fn name_owner(&self) {
        self.owner.store(thread_mark(), Ordering::Relaxed);
        self.names_owner.store(true, Ordering::Relaxed);
    }

    /// Whether the calling thread holds the lock, as far as the owner is named: in a handler of a signal it
    /// may have interrupted a call of the library.
    pub fn is_held_by_caller(&self) -> bool {
        self.names_owner.load(Ordering::Relaxed) && self.owner.load(Ordering::Relaxed) == thread_mark()
    }

    /// Takes the lock.
    #[inline(always)]
    pub fn acquire(&self) {
        if !self.is_needed() {
            return;
        }
        if self.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.acquire_slowly();
        }
        if self.names_owner.load(Ordering::Relaxed) {
            self.owner.store(thread_mark(), Ordering::Relaxed);
        }
    }

    /// Takes the lock if it is needed and free within `patience`; whether it is held by the caller now. For a
    /// caller that may have interrupted its own thread inside the library, and must not wait for ever.
    pub fn acquire_within(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        while self.is_needed() {
            if self.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                if self.names_owner.load(Ordering::Relaxed) {
                    self.owner.store(thread_mark(), Ordering::Relaxed);
                }
                return true;
            }
            if Instant::now() >= end {
                break;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        false
    }

    /// Gives it back.
    #[inline(always)]
    pub fn release(&self) {
        if !self.is_needed() {
            return;
        }
        if self.names_owner.load(Ordering::Relaxed) {
            self.owner.store(0, Ordering::Relaxed);
        }
        if self.word.swap(0, Ordering::Release) == 2 {
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

/// A number that no other thread of the process has meanwhile.
fn thread_mark() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}

#[cfg(test)]
mod tests {
    use super::{Duration, Lock};

    #[test]
    fn lock_that_stays_held_is_not_waited_for_beyond_the_patience() {
        let (lock, patience) = (Lock::new(), Duration::from_millis(1));
        assert!(!lock.acquire_within(patience), "it is not needed");
        lock.need_while_held();
        assert!(!lock.acquire_within(patience));
        lock.release();
        assert!(lock.acquire_within(patience));
        assert!(!lock.acquire_within(patience));
        lock.release();
    }

    #[test]
    fn lock_knows_the_thread_that_holds_it() {
        let lock = Lock::new();
        lock.need_while_held();
        assert!(!lock.is_held_by_caller(), "the owner is not named yet");
        lock.name_owner();
        assert!(lock.is_held_by_caller());
        std::thread::scope(|scope| scope.spawn(|| assert!(!lock.is_held_by_caller())).join()).unwrap();
        lock.release();
        assert!(!lock.is_held_by_caller());
        lock.acquire();
        assert!(lock.is_held_by_caller());
    }
}
