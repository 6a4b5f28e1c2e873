//! Distributed locks; see [`crate::lock`].

use core::ffi::{c_int, c_long};

use crate::lock;

/// Waits until this PE has the lock. PEs get it in the order in which they asked.
pub unsafe fn set_lock(lock: *mut c_long) {
    lock::set(lock);
}

/// Gives the lock up; all operations of this PE are done then.
pub unsafe fn clear_lock(lock: *mut c_long) {
    lock::clear(lock);
}

/// Takes the lock if it is free: 0, else 1.
pub unsafe fn test_lock(lock: *mut c_long) -> c_int {
    c_int::from(lock::test(lock))
}
