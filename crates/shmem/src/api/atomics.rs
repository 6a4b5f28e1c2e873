//! Atomic operations: one instruction of the processor on the memory of the PE, atomic with all others.

use core::ffi::c_int;

use crate::context::shmem_ctx_t;
use crate::context::world_pe;
use crate::element::{Integer, Swapped};
use crate::memory;
use crate::nodes::{Far, update};

/// Changes a value of a PE by `here`, if it is on this node, and wakes the PE if it waits for that; else by
/// `there`.
#[inline(always)]
pub(crate) fn change<T, R>(
    function: &str,
    ctx: shmem_ctx_t,
    dest: *mut T,
    pe: c_int,
    here: impl FnOnce(*mut T) -> R,
    there: impl FnOnce(Far) -> R,
) -> R {
    let pe = world_pe(function, ctx, pe);
    match memory::element(function, "dest", dest.cast(), size_of::<T>(), pe) {
        Ok(at) => {
            let found = here(at.cast());
            memory::notify(pe);
            found
        }
        Err(far) => there(far),
    }
}

/// Reads a value of a PE whole.
#[inline]
pub unsafe fn atomic_fetch<T: Swapped>(ctx: shmem_ctx_t, source: *const T, pe: c_int) -> T {
    let pe = world_pe("atomic_fetch", ctx, pe);
    match memory::element("atomic_fetch", "source", source.cast(), size_of::<T>(), pe) {
        // SAFETY: the address is inside the memory of the PE and aligned.
        Ok(at) => unsafe { T::fetch(at.cast()) },
        Err(far) => {
            // SAFETY: a number of any bits is one; it is of no meaning.
            let none = unsafe { std::mem::zeroed::<T>() };
            far.change("atomic_fetch", T::ELEMENT, update::FETCH, none, true)
        }
    }
}

/// Writes a value of a PE whole.
#[inline]
pub unsafe fn atomic_set<T: Swapped>(ctx: shmem_ctx_t, dest: *mut T, value: T, pe: c_int) {
    // SAFETY: the address is inside the memory of the PE and aligned.
    change(
        "atomic_set",
        ctx,
        dest,
        pe,
        |at| unsafe { T::set(at, value) },
        |far| {
            far.change("atomic_set", T::ELEMENT, update::SET, value, false);
        },
    )
}

/// Writes a value of a PE if it is `cond` until then; returns what was there.
#[inline]
pub unsafe fn atomic_compare_swap<T: Integer>(
    ctx: shmem_ctx_t,
    dest: *mut T,
    cond: T,
    value: T,
    pe: c_int,
) -> T {
    // SAFETY: the address is inside the memory of the PE and aligned.
    change(
        "atomic_compare_swap",
        ctx,
        dest,
        pe,
        |at| unsafe { T::compare_swap(at, cond, value) },
        |far| far.compare_swap("atomic_compare_swap", cond, value),
    )
}

/// Writes a value of a PE; returns what was there.
#[inline]
pub unsafe fn atomic_swap<T: Swapped>(ctx: shmem_ctx_t, dest: *mut T, value: T, pe: c_int) -> T {
    // SAFETY: the address is inside the memory of the PE and aligned.
    change(
        "atomic_swap",
        ctx,
        dest,
        pe,
        |at| unsafe { T::swap(at, value) },
        |far| far.change("atomic_swap", T::ELEMENT, update::SET, value, true),
    )
}

/// Adds 1 to a value of a PE; returns what was there.
#[inline]
pub unsafe fn atomic_fetch_inc<T: Integer>(ctx: shmem_ctx_t, dest: *mut T, pe: c_int) -> T {
    // SAFETY: the address is inside the memory of the PE and aligned.
    change(
        "atomic_fetch_inc",
        ctx,
        dest,
        pe,
        |at| unsafe { T::add(at, T::ONE) },
        |far| far.change("atomic_fetch_inc", T::ELEMENT, update::ADD, T::ONE, true),
    )
}

/// Adds 1 to a value of a PE.
#[inline]
pub unsafe fn atomic_inc<T: Integer>(ctx: shmem_ctx_t, dest: *mut T, pe: c_int) {
    // SAFETY: the address is inside the memory of the PE and aligned.
    change(
        "atomic_inc",
        ctx,
        dest,
        pe,
        |at| unsafe { T::add(at, T::ONE) },
        |far| far.change("atomic_inc", T::ELEMENT, update::ADD, T::ONE, false),
    );
}

/// Adds to a value of a PE; returns what was there.
#[inline]
pub unsafe fn atomic_fetch_add<T: Integer>(ctx: shmem_ctx_t, dest: *mut T, value: T, pe: c_int) -> T {
    // SAFETY: the address is inside the memory of the PE and aligned.
    change(
        "atomic_fetch_add",
        ctx,
        dest,
        pe,
        |at| unsafe { T::add(at, value) },
        |far| far.change("atomic_fetch_add", T::ELEMENT, update::ADD, value, true),
    )
}

/// Adds to a value of a PE.
#[inline]
pub unsafe fn atomic_add<T: Integer>(ctx: shmem_ctx_t, dest: *mut T, value: T, pe: c_int) {
    // SAFETY: the address is inside the memory of the PE and aligned.
    change(
        "atomic_add",
        ctx,
        dest,
        pe,
        |at| unsafe { T::add(at, value) },
        |far| far.change("atomic_add", T::ELEMENT, update::ADD, value, false),
    );
}

/// Changes a value of a PE by a bitwise AND; returns what was there.
#[inline]
pub unsafe fn atomic_fetch_and<T: Integer>(ctx: shmem_ctx_t, dest: *mut T, value: T, pe: c_int) -> T {
    // SAFETY: the address is inside the memory of the PE and aligned.
    change(
        "atomic_fetch_and",
        ctx,
        dest,
        pe,
        |at| unsafe { T::and(at, value) },
        |far| far.change("atomic_fetch_and", T::ELEMENT, update::AND, value, true),
    )
}

/// Changes a value of a PE by a bitwise AND.
#[inline]
pub unsafe fn atomic_and<T: Integer>(ctx: shmem_ctx_t, dest: *mut T, value: T, pe: c_int) {
    // SAFETY: the address is inside the memory of the PE and aligned.
    change(
        "atomic_and",
        ctx,
        dest,
        pe,
        |at| unsafe { T::and(at, value) },
        |far| far.change("atomic_and", T::ELEMENT, update::AND, value, false),
    );
}

/// Changes a value of a PE by a bitwise OR; returns what was there.
#[inline]
pub unsafe fn atomic_fetch_or<T: Integer>(ctx: shmem_ctx_t, dest: *mut T, value: T, pe: c_int) -> T {
    // SAFETY: the address is inside the memory of the PE and aligned.
    change(
        "atomic_fetch_or",
        ctx,
        dest,
        pe,
        |at| unsafe { T::or(at, value) },
        |far| far.change("atomic_fetch_or", T::ELEMENT, update::OR, value, true),
    )
}

/// Changes a value of a PE by a bitwise OR.
#[inline]
pub unsafe fn atomic_or<T: Integer>(ctx: shmem_ctx_t, dest: *mut T, value: T, pe: c_int) {
    // SAFETY: the address is inside the memory of the PE and aligned.
    change(
        "atomic_or",
        ctx,
        dest,
        pe,
        |at| unsafe { T::or(at, value) },
        |far| far.change("atomic_or", T::ELEMENT, update::OR, value, false),
    );
}

/// Changes a value of a PE by a bitwise XOR; returns what was there.
#[inline]
pub unsafe fn atomic_fetch_xor<T: Integer>(ctx: shmem_ctx_t, dest: *mut T, value: T, pe: c_int) -> T {
    // SAFETY: the address is inside the memory of the PE and aligned.
    change(
        "atomic_fetch_xor",
        ctx,
        dest,
        pe,
        |at| unsafe { T::xor(at, value) },
        |far| far.change("atomic_fetch_xor", T::ELEMENT, update::XOR, value, true),
    )
}

/// Changes a value of a PE by a bitwise XOR.
#[inline]
pub unsafe fn atomic_xor<T: Integer>(ctx: shmem_ctx_t, dest: *mut T, value: T, pe: c_int) {
    // SAFETY: the address is inside the memory of the PE and aligned.
    change(
        "atomic_xor",
        ctx,
        dest,
        pe,
        |at| unsafe { T::xor(at, value) },
        |far| far.change("atomic_xor", T::ELEMENT, update::XOR, value, false),
    );
}

/// The same; what was found is in `fetch` at the next `shmem_quiet` at the latest.
#[inline]
pub unsafe fn atomic_fetch_nbi<T: Swapped>(ctx: shmem_ctx_t, fetch: *mut T, source: *const T, pe: c_int) {
    let pe = world_pe("atomic_fetch_nbi", ctx, pe);
    match memory::element("atomic_fetch_nbi", "source", source.cast(), size_of::<T>(), pe) {
        // SAFETY: the address is inside the memory of the PE and aligned; the user gives a place for a value.
        Ok(at) => unsafe { fetch.write(T::fetch(at.cast())) },
        Err(far) => {
            // SAFETY: a number of any bits is one; it is of no meaning.
            let none = unsafe { std::mem::zeroed::<T>() };
            // SAFETY: the user keeps the place until his next quiet.
            unsafe { far.change_nbi("atomic_fetch_nbi", T::ELEMENT, update::FETCH, none, fetch) };
        }
    }
}

/// The same; what was found is in `fetch` at the next `shmem_quiet` at the latest.
#[inline]
pub unsafe fn atomic_compare_swap_nbi<T: Integer>(
    ctx: shmem_ctx_t,
    fetch: *mut T,
    dest: *mut T,
    cond: T,
    value: T,
    pe: c_int,
) {
    // SAFETY: the address is inside the memory of the PE and aligned; the user keeps a place for a value.
    change(
        "atomic_compare_swap_nbi",
        ctx,
        dest,
        pe,
        |at| unsafe { fetch.write(T::compare_swap(at, cond, value)) },
        |far| unsafe { far.compare_swap_nbi("atomic_compare_swap_nbi", cond, value, fetch) },
    );
}

/// The same; what was found is in `fetch` at the next `shmem_quiet` at the latest.
#[inline]
pub unsafe fn atomic_swap_nbi<T: Swapped>(
    ctx: shmem_ctx_t,
    fetch: *mut T,
    dest: *mut T,
    value: T,
    pe: c_int,
) {
    // SAFETY: the address is inside the memory of the PE and aligned; the user keeps a place for a value.
    change(
        "atomic_swap_nbi",
        ctx,
        dest,
        pe,
        |at| unsafe { fetch.write(T::swap(at, value)) },
        |far| unsafe { far.change_nbi("atomic_swap_nbi", T::ELEMENT, update::SET, value, fetch) },
    );
}

/// The same; what was found is in `fetch` at the next `shmem_quiet` at the latest.
#[inline]
pub unsafe fn atomic_fetch_inc_nbi<T: Integer>(ctx: shmem_ctx_t, fetch: *mut T, dest: *mut T, pe: c_int) {
    // SAFETY: our caller's.
    unsafe { atomic_fetch_add_nbi(ctx, fetch, dest, T::ONE, pe) };
}

/// The same; what was found is in `fetch` at the next `shmem_quiet` at the latest.
#[inline]
pub unsafe fn atomic_fetch_add_nbi<T: Integer>(
    ctx: shmem_ctx_t,
    fetch: *mut T,
    dest: *mut T,
    value: T,
    pe: c_int,
) {
    // SAFETY: the address is inside the memory of the PE and aligned; the user keeps a place for a value.
    change(
        "atomic_fetch_add_nbi",
        ctx,
        dest,
        pe,
        |at| unsafe { fetch.write(T::add(at, value)) },
        |far| unsafe { far.change_nbi("atomic_fetch_add_nbi", T::ELEMENT, update::ADD, value, fetch) },
    );
}

/// The same; what was found is in `fetch` at the next `shmem_quiet` at the latest.
#[inline]
pub unsafe fn atomic_fetch_and_nbi<T: Integer>(
    ctx: shmem_ctx_t,
    fetch: *mut T,
    dest: *mut T,
    value: T,
    pe: c_int,
) {
    // SAFETY: the address is inside the memory of the PE and aligned; the user keeps a place for a value.
    change(
        "atomic_fetch_and_nbi",
        ctx,
        dest,
        pe,
        |at| unsafe { fetch.write(T::and(at, value)) },
        |far| unsafe { far.change_nbi("atomic_fetch_and_nbi", T::ELEMENT, update::AND, value, fetch) },
    );
}

/// The same; what was found is in `fetch` at the next `shmem_quiet` at the latest.
#[inline]
pub unsafe fn atomic_fetch_or_nbi<T: Integer>(
    ctx: shmem_ctx_t,
    fetch: *mut T,
    dest: *mut T,
    value: T,
    pe: c_int,
) {
    // SAFETY: the address is inside the memory of the PE and aligned; the user keeps a place for a value.
    change(
        "atomic_fetch_or_nbi",
        ctx,
        dest,
        pe,
        |at| unsafe { fetch.write(T::or(at, value)) },
        |far| unsafe { far.change_nbi("atomic_fetch_or_nbi", T::ELEMENT, update::OR, value, fetch) },
    );
}

/// The same; what was found is in `fetch` at the next `shmem_quiet` at the latest.
#[inline]
pub unsafe fn atomic_fetch_xor_nbi<T: Integer>(
    ctx: shmem_ctx_t,
    fetch: *mut T,
    dest: *mut T,
    value: T,
    pe: c_int,
) {
    // SAFETY: the address is inside the memory of the PE and aligned; the user keeps a place for a value.
    change(
        "atomic_fetch_xor_nbi",
        ctx,
        dest,
        pe,
        |at| unsafe { fetch.write(T::xor(at, value)) },
        |far| unsafe { far.change_nbi("atomic_fetch_xor_nbi", T::ELEMENT, update::XOR, value, fetch) },
    );
}
