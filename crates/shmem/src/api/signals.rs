//! Puts that change a signal word of the PE when their data are there.

use core::ffi::c_int;

use crate::comparison::Comparison;
use crate::context::shmem_ctx_t;
use crate::context::world_pe;
use crate::element::{Awaited, Element, Integer, Swapped, bytes_of};
use crate::fault;
use crate::memory;

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
    let world = world_pe(function, ctx, pe);
    let word = memory::mapped(function, "sig_addr", sig_addr.cast(), size_of::<u64>(), world).cast::<u64>();
    if nelems > 0 {
        let bytes = bytes_of::<T>(nelems);
        // SAFETY: the user gives so many elements.
        unsafe { memory::put(function, dest.cast(), source.cast(), bytes, world) };
    }
    // SAFETY: the word is inside the memory of the PE and aligned.
    unsafe {
        match sig_op {
            SIGNAL_SET => u64::set(word, signal),
            SIGNAL_ADD => {
                u64::add(word, signal);
            }
            other => fault::end(
                function,
                format_args!("sig_op {other} is neither SHMEM_SIGNAL_SET nor SHMEM_SIGNAL_ADD"),
            ),
        }
    }
    memory::notify(world);
}

/// The same; `source` may be changed after the next `shmem_quiet`.
pub unsafe fn put_signal_nbi<T: Element>(
    ctx: shmem_ctx_t,
    dest: *mut T,
    source: *const T,
    nelems: usize,
    sig_addr: *mut u64,
    signal: u64,
    sig_op: c_int,
    pe: c_int,
) {
    // SAFETY: as the user's.
    unsafe { put_signal(ctx, dest, source, nelems, sig_addr, signal, sig_op, pe) }
}

fn own_word(function: &str, sig_addr: *const u64) -> *mut u64 {
    let me = memory::pes(function).me as c_int;
    memory::mapped(function, "sig_addr", sig_addr.cast(), size_of::<u64>(), me);
    sig_addr.cast_mut()
}

/// The value of a signal word of this PE.
pub unsafe fn signal_fetch(sig_addr: *const u64) -> u64 {
    let word = own_word("signal_fetch", sig_addr);
    // SAFETY: just checked.
    unsafe { u64::fetch(word) }
}

/// Sets a signal word of a PE.
pub unsafe fn signal_set(ctx: shmem_ctx_t, sig_addr: *mut u64, signal: u64, pe: c_int) {
    let pe = world_pe("signal_set", ctx, pe);
    let word = memory::mapped("signal_set", "sig_addr", sig_addr.cast(), size_of::<u64>(), pe);
    // SAFETY: the word is inside the memory of the PE and aligned.
    unsafe { u64::set(word.cast(), signal) };
    memory::notify(pe);
}

/// Adds to a signal word of a PE.
pub unsafe fn signal_add(ctx: shmem_ctx_t, sig_addr: *mut u64, signal: u64, pe: c_int) {
    let pe = world_pe("signal_add", ctx, pe);
    let word = memory::mapped("signal_add", "sig_addr", sig_addr.cast(), size_of::<u64>(), pe);
    // SAFETY: the word is inside the memory of the PE and aligned.
    unsafe { u64::add(word.cast(), signal) };
    memory::notify(pe);
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
