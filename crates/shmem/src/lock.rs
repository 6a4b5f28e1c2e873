//! Distributed locks: a queue of PEs through the `long` that the program gives, zero at first.
//!
//! ```text
//! of every PE   | next: 31 bits, 1 + the PE that waits behind | signal: 1 bit, the lock is ours |
//! of the home   | tail: 32 bits, 1 + the PE that came last; 0: free | besides its own half       |
//! ```
//! The home of a lock follows from its place, so that several locks have several. A PE waits on its own half,
//! in its own memory. When nobody has the lock, all copies are zero.

use core::ffi::c_long;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use crate::fault;
use crate::memory;
use crate::start;

const SIGNAL: u32 = 1 << 31;

/// Locks that a thread of this PE has or waits for, where several threads may ask.
static BUSY: Mutex<Option<HashSet<usize>>> = Mutex::new(None);

struct Lock {
    function: &'static str,
    address: *mut c_long,
    me: u32,
    home: i32,
}

impl Lock {
    fn new(function: &'static str, address: *mut c_long) -> Self {
        let pes = memory::pes(function);
        // Also checks the address.
        memory::mapped(function, "lock", address.cast(), size_of::<c_long>(), pes.me as i32);
        let place = memory::heap_offset(address.cast()).unwrap_or(0) / size_of::<c_long>();
        Lock { function, address, me: pes.me as u32, home: (place % pes.count) as i32 }
    }

    fn half(&self, pe: i32, which: usize) -> &AtomicU32 {
        let at = memory::mapped(self.function, "lock", self.address.cast(), size_of::<c_long>(), pe);
        // SAFETY: the lock is aligned, has two halves, and is changed by these atomics alone.
        unsafe { AtomicU32::from_ptr(at.cast::<u32>().add(which)) }
    }

    fn tail(&self) -> &AtomicU32 {
        self.half(self.home, 1)
    }

    fn own(&self) -> &AtomicU32 {
        self.half(self.me as i32, 0)
    }

    /// Waits until no other thread of this PE is in the queue, or looks whether there is one.
    fn claim(&self, may_wait: bool) -> bool {
        if start::thread_level() < start::THREAD_MULTIPLE {
            return true;
        }
        loop {
            let mut busy = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
            if busy.get_or_insert_default().insert(self.address.addr()) {
                return true;
            }
            drop(busy);
            if !may_wait {
                return false;
            }
            std::thread::yield_now();
        }
    }

    fn unclaim(&self) {
        if let Some(busy) = BUSY.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            busy.remove(&self.address.addr());
        }
    }
}

/// Waits for a lock.
pub fn set(address: *mut c_long) {
    let lock = Lock::new("set_lock", address);
    lock.claim(true);
    let before = lock.tail().swap(lock.me + 1, SeqCst);
    if before == lock.me + 1 {
        fault::end(lock.function, format_args!("this PE has the lock {address:p} already"));
    }
    if before != 0 {
        lock.half(before as i32 - 1, 0).fetch_or(lock.me + 1, SeqCst);
        memory::notify(before as i32 - 1);
        memory::wait_until(|| lock.own().load(SeqCst) & SIGNAL != 0);
    }
}

/// Takes a lock if it is free; whether it was not.
pub fn test(address: *mut c_long) -> bool {
    let lock = Lock::new("test_lock", address);
    if lock.tail().load(SeqCst) != 0 || !lock.claim(false) {
        return true;
    }
    let is_held = lock.tail().compare_exchange(0, lock.me + 1, SeqCst, SeqCst).is_err();
    if is_held {
        lock.unclaim();
    }
    is_held
}

/// Hands a lock to the PE that waits longest.
pub fn clear(address: *mut c_long) {
    let lock = Lock::new("clear_lock", address);
    // What was done under the lock is seen by who has it next.
    memory::settle();
    let tail = lock.tail();
    if tail.load(SeqCst) == 0 {
        fault::end(lock.function, format_args!("nobody has the lock {address:p}"));
    }
    // The signal goes, a name that is written meanwhile stays: with none our half is zero before we leave.
    let next = lock.own().fetch_and(!SIGNAL, SeqCst) & !SIGNAL;
    if next == 0 && tail.compare_exchange(lock.me + 1, 0, SeqCst, SeqCst).is_ok() {
        lock.unclaim();
        return;
    }
    memory::wait_until(|| lock.own().load(SeqCst) & !SIGNAL != 0);
    let next = lock.own().swap(0, SeqCst) & !SIGNAL;
    lock.unclaim();
    lock.half(next as i32 - 1, 0).fetch_or(SIGNAL, SeqCst);
    memory::notify(next as i32 - 1);
}
