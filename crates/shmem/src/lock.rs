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

use tutti_runtime::word_wait;

use crate::element::Swapped;
use crate::fault;
use crate::memory;
use crate::nodes::{Far, update};

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
        memory::own(function, "lock", address.cast(), size_of::<c_long>());
        let place = memory::heap_offset(address.cast()).unwrap_or(0) / size_of::<c_long>();
        Lock { function, address, me: pes.me as u32, home: (place % pes.count) as i32 }
    }

    /// Changes a half of a PE's copy: `here` if it is on this node, else `there`.
    fn change<R>(
        &self,
        pe: i32,
        which: usize,
        here: impl FnOnce(&AtomicU32) -> R,
        there: impl FnOnce(Far) -> R,
    ) -> R {
        let half = self.address.cast::<u32>().wrapping_add(which);
        match memory::element(self.function, "lock", half.cast(), size_of::<u32>(), pe) {
            Ok(at) => {
                // SAFETY: the lock is aligned, has two halves, and is changed by these atomics alone.
                let found = here(unsafe { AtomicU32::from_ptr(at.cast()) });
                memory::notify(pe);
                found
            }
            Err(far) => there(far),
        }
    }

    fn tail(&self) -> u32 {
        let fetch = |far: Far| far.change(self.function, u32::ELEMENT, update::FETCH, 0, true);
        self.change(self.home, 1, |tail| tail.load(SeqCst), fetch)
    }

    fn swap_tail(&self, value: u32) -> u32 {
        let swap = |far: Far| far.change(self.function, u32::ELEMENT, update::SET, value, true);
        self.change(self.home, 1, |tail| tail.swap(value, SeqCst), swap)
    }

    /// Whether the tail was `from` and is `to` now.
    fn replace_tail(&self, from: u32, to: u32) -> bool {
        let here = |tail: &AtomicU32| tail.compare_exchange(from, to, SeqCst, SeqCst).is_ok();
        self.change(self.home, 1, here, |far| far.compare_swap(self.function, from, to) == from)
    }

    /// Adds bits to the half of a PE.
    fn tell(&self, pe: u32, bits: u32) {
        let here = |half: &AtomicU32| {
            half.fetch_or(bits, SeqCst);
        };
        let there = |far: Far| {
            // It goes at once: somebody waits for it.
            far.change(self.function, u32::ELEMENT, update::OR, bits, true);
        };
        self.change(pe as i32, 0, here, there);
    }

    fn own(&self) -> &AtomicU32 {
        // SAFETY: the lock is this PE's copy, aligned, and its half is changed by atomics alone.
        unsafe { AtomicU32::from_ptr(self.address.cast::<u32>()) }
    }

    /// Waits until no other thread of this PE is in the queue, or looks whether there is one.
    fn claim(&self, may_wait: bool) -> bool {
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
    let before = lock.swap_tail(lock.me + 1);
    if before == lock.me + 1 {
        fault::end(lock.function, format_args!("this PE has the lock {address:p} already"));
    }
    if before != 0 {
        lock.tell(before - 1, lock.me + 1);
        memory::wait_until(|| lock.own().load(SeqCst) & SIGNAL != 0);
    }
}

/// Takes a lock if it is free; whether it was not.
pub fn test(address: *mut c_long) -> bool {
    let lock = Lock::new("test_lock", address);
    if lock.tail() != 0 || !lock.claim(false) {
        word_wait::looked_in_vain();
        return true;
    }
    let is_held = !lock.replace_tail(0, lock.me + 1);
    if is_held {
        lock.unclaim();
        word_wait::looked_in_vain();
    }
    is_held
}

/// Hands a lock to the PE that waits longest.
pub fn clear(address: *mut c_long) {
    let lock = Lock::new("clear_lock", address);
    // What was done under the lock is seen by who has it next.
    memory::quiet(lock.function);
    if lock.tail() == 0 {
        fault::end(lock.function, format_args!("nobody has the lock {address:p}"));
    }
    // The signal goes, a name that is written meanwhile stays: with none our half is zero before we leave.
    let next = lock.own().fetch_and(!SIGNAL, SeqCst) & !SIGNAL;
    if next == 0 && lock.replace_tail(lock.me + 1, 0) {
        lock.unclaim();
        return;
    }
    memory::wait_until(|| lock.own().load(SeqCst) & !SIGNAL != 0);
    let next = lock.own().swap(0, SeqCst) & !SIGNAL;
    lock.unclaim();
    lock.tell(next - 1, SIGNAL);
}
