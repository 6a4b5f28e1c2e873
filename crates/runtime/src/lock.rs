//! The process lock: one for the whole library, taken only when several threads may come: those of the
//! program, or the service thread.
//!
//! ```text
//! alone      one thread calls; nothing is taken
//! watched    the threads of the program come one at a time, as far as is known: each notes that it is inside
//! needed     several may come at once: the lock is taken
//! ```
//!
//! The state is only ever raised. From *watched* any thread may raise it at any time: it waits until the
//! thread that is inside without the lock comes out, or waits and looks about. The note of that thread is a
//! plain store, so the one that raises has the kernel order the memory of all threads (`membarrier`). Where
//! the kernel does not, the lock is needed from the start.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering, compiler_fence};
use std::time::{Duration, Instant};

const ALONE: u8 = 0;
const WATCHED: u8 = 1;
const NEEDED: u8 = 2;

/// A thread may be about to go in without the lock.
const ENTERING: u8 = 1;
/// A thread is inside without the lock.
const INSIDE: u8 = 2;

/// Pause of a thread that waits for another one without a word to sleep on.
const PAUSE: Duration = Duration::from_micros(50);
/// After this time all threads see what another one has stored.
const SETTLE: Duration = Duration::from_millis(20);

/// A futex lock: 0 free, 1 held, 2 held and somebody sleeps.
#[derive(Debug)]
pub struct Lock {
    word: AtomicU32,
    /// ALONE, WATCHED, NEEDED.
    mode: AtomicU8,
    /// 0, ENTERING, INSIDE. Writers: threads that find the lock watched.
    visitor: AtomicU8,
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
            mode: AtomicU8::new(ALONE),
            visitor: AtomicU8::new(0),
            names_owner: AtomicBool::new(false),
            owner: AtomicUsize::new(0),
        }
    }

    /// From now on several threads of the program may come, one at a time. The caller is the only thread that
    /// uses the library.
    pub fn watch(&self) {
        if self.mode.load(Ordering::Relaxed) == ALONE {
            self.mode.store(if orders_memory() { WATCHED } else { NEEDED }, Ordering::Relaxed);
        }
    }

    /// The same, by a caller that has acquired the lock and will release it.
    pub fn watch_while_held(&self) {
        if self.mode.load(Ordering::Relaxed) != ALONE {
            return;
        }
        if !orders_memory() {
            return self.need_while_held();
        }
        self.visitor.store(INSIDE, Ordering::Relaxed);
        self.mode.store(WATCHED, Ordering::Relaxed);
    }

    /// From now on several threads may come at once. The caller does not hold the lock; others may, unless it
    /// is not even watched: then the caller is the only thread.
    pub fn need(&self) {
        match self.mode.load(Ordering::Relaxed) {
            ALONE => self.mode.store(NEEDED, Ordering::Relaxed),
            WATCHED => self.await_visitor(),
            _ => {}
        }
    }

    /// The same, by a caller that has acquired the lock and will release it.
    pub fn need_while_held(&self) {
        if self.is_needed() {
            return;
        }
        if self.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            self.mode.store(NEEDED, Ordering::SeqCst);
            return self.visitor.store(0, Ordering::Release);
        }
        // Another thread is about to raise it, and then waits for this one.
        while !self.is_needed() {
            std::thread::yield_now();
        }
    }

    /// Raises a watched lock: those that come meanwhile wait for the lock, which the caller has until whoever
    /// is inside without it is out.
    #[cold]
    fn await_visitor(&self) {
        if self.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.acquire_slowly();
        }
        if !self.is_needed() {
            self.mode.store(NEEDED, Ordering::SeqCst);
            if !order_memory() {
                // It did before. No processor keeps a store to itself for so long.
                std::thread::sleep(SETTLE);
            }
            while self.visitor.load(Ordering::Acquire) != 0 {
                std::thread::sleep(PAUSE);
            }
        }
        if self.word.swap(0, Ordering::Release) == 2 {
            self.wake();
        }
    }

    /// Whether several threads may come at once.
    #[inline(always)]
    pub fn is_needed(&self) -> bool {
        self.mode.load(Ordering::Relaxed) == NEEDED
    }

    /// Whether a thread gives something back when it leaves.
    #[inline(always)]
    pub fn is_noted(&self) -> bool {
        self.mode.load(Ordering::Relaxed) != ALONE
    }

    /// Whether a thread may be inside, as far as is known.
    pub fn may_be_held(&self) -> bool {
        let visitor = self.visitor.load(Ordering::Relaxed);
        self.is_needed() && self.word.load(Ordering::Relaxed) != 0 || visitor != 0
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
        if self.mode.load(Ordering::Relaxed) == ALONE || self.visits() {
            return;
        }
        if self.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.acquire_slowly();
        }
        if self.names_owner.load(Ordering::Relaxed) {
            self.owner.store(thread_mark(), Ordering::Relaxed);
        }
    }

    /// Goes in without the lock if it is watched; whether it is.
    #[inline(always)]
    fn visits(&self) -> bool {
        if self.mode.load(Ordering::Relaxed) != WATCHED {
            return false;
        }
        self.visitor.store(ENTERING, Ordering::Relaxed);
        // The processor's order is that of `order_memory`.
        compiler_fence(Ordering::SeqCst);
        let is_watched = self.mode.load(Ordering::Acquire) == WATCHED;
        self.visitor.store(if is_watched { INSIDE } else { 0 }, Ordering::Release);
        is_watched
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
            std::thread::sleep(PAUSE);
        }
        false
    }

    /// Gives it back.
    #[inline(always)]
    pub fn release(&self) {
        if self.mode.load(Ordering::Relaxed) == ALONE {
            return;
        }
        // Who has the lock finds no visitor inside: it was raised behind the last one.
        if self.visitor.load(Ordering::Relaxed) == INSIDE {
            return self.visitor.store(0, Ordering::Release);
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

/// Whether the kernel will order the memory of the threads of this process.
fn orders_memory() -> bool {
    // SAFETY: plain numbers.
    let is_registered = unsafe {
        libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0_u32, 0_u32)
            == 0
    };
    is_registered && order_memory()
}

/// Has every thread of this process pass a full barrier; whether the kernel has done so.
fn order_memory() -> bool {
    // SAFETY: plain numbers; the process has registered.
    unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0_u32, 0_u32) == 0 }
}

/// A number that no other thread of the process has meanwhile.
fn thread_mark() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}

#[cfg(test)]
mod tests {
    use std::cell::UnsafeCell;

    use super::{AtomicBool, Duration, Lock, Ordering};

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
    fn lock_that_is_raised_waits_for_the_thread_that_is_inside_without_it() {
        let lock = Lock::new();
        lock.watch();
        lock.acquire();
        let is_out = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let raised = scope.spawn(|| {
                lock.need();
                assert!(is_out.load(Ordering::Acquire), "the other thread is out");
                lock.acquire();
                lock.release();
            });
            while !lock.is_needed() && !raised.is_finished() {
                std::thread::yield_now();
            }
            assert!(lock.may_be_held());
            is_out.store(true, Ordering::Release);
            lock.release();
        });
        assert!(!lock.may_be_held());
    }

    #[test]
    fn lock_that_two_threads_raise_while_a_third_works_loses_no_step() {
        for _ in 0..50 {
            let (lock, steps) = (Lock::new(), Steps(UnsafeCell::new(0_u64)));
            lock.watch();
            let work = |raises: bool| {
                if raises {
                    lock.need();
                }
                for _ in 0..200 {
                    lock.acquire();
                    // SAFETY: under the lock, or alone inside.
                    unsafe { *steps.get() += 1 };
                    lock.release();
                }
            };
            let work = &work;
            std::thread::scope(|scope| {
                for raises in [false, true, true] {
                    scope.spawn(move || work(raises));
                }
            });
            // SAFETY: the threads have ended.
            assert_eq!(unsafe { *steps.get() }, 600);
        }
    }

    #[test]
    fn watched_lock_is_raised_by_its_holder() {
        let lock = Lock::new();
        lock.watch_while_held();
        assert!(lock.may_be_held() && !lock.is_needed());
        lock.need_while_held();
        assert!(lock.may_be_held() && lock.is_needed());
        lock.release();
        assert!(!lock.may_be_held());
    }

    /// A number that threads change in turns.
    struct Steps(UnsafeCell<u64>);

    // SAFETY: the tests change it under the lock.
    unsafe impl Sync for Steps {}

    impl Steps {
        fn get(&self) -> *mut u64 {
            self.0.get()
        }
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
