//! The symbols of the native interface; `bindings/native/tutti.h` declares them.

use core::ffi::{c_int, c_void};

use tutti_native::{board, phases, wait};

/// See `tutti_board.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_board_open() -> *const c_void {
    board::open().cast()
}

/// See `tutti.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_wait_until(
    flag: *const i64,
    comparison: c_int,
    value: i64,
    partner: i64,
) -> c_int {
    // SAFETY: as the user's.
    unsafe { wait::wait_until(flag, comparison, value, partner) }
}

/// See `tutti.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_progress(steps: u64, patience: u64) -> c_int {
    wait::progress(steps, patience)
}

/// See `tutti.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_parallel_begin() {
    phases::begin();
}

/// See `tutti.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_parallel_end() {
    phases::end();
}
