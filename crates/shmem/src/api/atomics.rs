//! Atomic operations: one instruction of the processor on the memory of the PE, atomic with all others.

use core::ffi::c_int;

use tutti_rma::accumulate::Update;

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

/// How elements change by a value: by an instruction on this node, by a record on another.
#[derive(Clone, Copy, Debug)]
pub struct Operator<T> {
    here: unsafe fn(*mut T, T) -> T,
    there: Update,
}

impl<T: Swapped> Operator<T> {
    /// Writes the value.
    pub const SWAP: Self = Operator { here: T::swap, there: update::SET };
}

impl<T: Integer> Operator<T> {
    /// Adds the value.
    pub const ADD: Self = Operator { here: T::add, there: update::ADD };
    /// A bitwise AND.
    pub const AND: Self = Operator { here: T::and, there: update::AND };
    /// A bitwise OR.
    pub const OR: Self = Operator { here: T::or, there: update::OR };
    /// A bitwise XOR.
    pub const XOR: Self = Operator { here: T::xor, there: update::XOR };
}

impl<T: Swapped> Operator<T> {
    /// Changes a value of a PE.
    #[inline(always)]
    pub fn apply(self, function: &str, ctx: shmem_ctx_t, dest: *mut T, value: T, pe: c_int) {
        // SAFETY: the address is inside the memory of the PE and aligned.
        let here = |at| unsafe {
            (self.here)(at, value);
        };
        change(function, ctx, dest, pe, here, |far| {
            far.change(function, T::ELEMENT, self.there, value, false);
        });
    }

    /// The same; returns what was there.
    #[inline(always)]
    pub fn fetch(self, function: &str, ctx: shmem_ctx_t, dest: *mut T, value: T, pe: c_int) -> T {
        // SAFETY: the address is inside the memory of the PE and aligned.
        let here = |at| unsafe { (self.here)(at, value) };
        change(function, ctx, dest, pe, here, |far| far.change(function, T::ELEMENT, self.there, value, true))
    }

    /// The same; what was there is in `fetch` at the next quiet.
    ///
    /// # Safety
    /// `fetch` is valid for writing until then.
    #[inline(always)]
    pub unsafe fn fetch_nbi(
        self,
        function: &str,
        ctx: shmem_ctx_t,
        fetch: *mut T,
        dest: *mut T,
        value: T,
        pe: c_int,
    ) {
        // SAFETY: the address is inside the memory of the PE and aligned; for the result our contract.
        let here = |at| unsafe { fetch.write((self.here)(at, value)) };
        change(function, ctx, dest, pe, here, |far| {
            // SAFETY: our contract.
            unsafe { far.change_nbi(function, T::ELEMENT, self.there, value, fetch) };
        });
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
