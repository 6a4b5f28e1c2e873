//! Puts that change a signal word of the PE when their data are there.

use core::ffi::c_int;

use crate::comparison::Comparison;
use crate::context::shmem_ctx_t;
use crate::context::world_pe;
use crate::element::{Awaited, Element, Integer, Swapped, bytes_of};
use crate::fault;
use crate::memory;
use crate::nodes::update;

const SIGNAL_SET: c_int = 0;
const SIGNAL_ADD: c_int = 1;

/// Copies elements to a PE, then sets its signal word (`SHMEM_SIGNAL_SET`) or adds to it
/// (`SHMEM_SIGNAL_ADD`): who sees the signal sees the data.
pub unsafe fn put_signal<T: Element>(
    ctx: shmem_ctx_t,
    dest: *mut T,
    source: *const T,
    nelems: usize,
    sig_addr: *mut u64,
    signal: u64,
    sig_op: c_int,
    pe: c_int,
) {
    let function = "put_signal";
    if sig_op != SIGNAL_SET && sig_op != SIGNAL_ADD {
        let what = format_args!("sig_op {sig_op} is neither SHMEM_SIGNAL_SET nor SHMEM_SIGNAL_ADD");
        fault::end(function, what);
    }
    let world = world_pe(function, ctx, pe);
    // The word is checked before anything is written.
    let _ = memory::element(function, "sig_addr", sig_addr.cast(), size_of::<u64>(), world);
    if nelems > 0 {
        let bytes = bytes_of::<T>(nelems);
        // SAFETY: the user gives so many elements.
        unsafe { memory::put(function, dest.cast(), source.cast(), bytes, world) };
    }
    // SAFETY: as the user's.
    unsafe { change_signal(function, sig_addr, signal, sig_op == SIGNAL_ADD, world) };
}

/// Sets a signal word of a PE of the world, or adds to it.
pub unsafe fn change_signal(function: &str, sig_addr: *mut u64, signal: u64, adds: bool, pe: c_int) {
    match memory::element(function, "sig_addr", sig_addr.cast(), size_of::<u64>(), pe) {
        Ok(at) => {
            // SAFETY: the word is inside the memory of the PE and aligned.
            unsafe {
                if adds {
                    u64::add(at.cast(), signal);
                } else {
                    u64::set(at.cast(), signal);
                }
            }
            memory::notify(pe);
        }
        Err(far) => {
            let how = if adds { update::ADD } else { update::SET };
            far.change(function, u64::ELEMENT, how, signal, false);
        }
    }
}

fn own_word(function: &str, sig_addr: *const u64) -> *mut u64 {
    memory::own(function, "sig_addr", sig_addr.cast(), size_of::<u64>());
    sig_addr.cast_mut()
}

/// The value of a signal word of this PE.
pub unsafe fn signal_fetch(sig_addr: *const u64) -> u64 {
    let word = own_word("signal_fetch", sig_addr);
    // SAFETY: just checked.
    unsafe { u64::fetch(word) }
}

/// Waits until a signal word of this PE compares as wanted; returns its value.
pub unsafe fn signal_wait_until(sig_addr: *mut u64, cmp: c_int, cmp_value: u64) -> u64 {
    let function = "signal_wait_until";
    let word = own_word(function, sig_addr);
    let comparison = Comparison::new(function, cmp);
    let mut found = 0;
    memory::wait_until(|| {
        // SAFETY: just checked.
        found = unsafe { u64::load(word) };
        comparison.holds(found, cmp_value)
    });
    found
}
