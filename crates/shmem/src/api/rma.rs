//! Remote memory access: contiguous, single, strided, in blocks.

use core::ffi::c_int;

use crate::context::shmem_ctx_t;
use crate::context::world_pe;
use crate::element::{Element, bytes_of};
use crate::fault;
use crate::memory::{self, Place};

/// Copies elements to a PE. When the call returns, `source` may be changed, and the copy is done.
#[inline]
pub unsafe fn put<T: Element>(ctx: shmem_ctx_t, dest: *mut T, source: *const T, nelems: usize, pe: c_int) {
    let pe = world_pe("put", ctx, pe);
    if nelems > 0 {
        // SAFETY: the user gives so many elements.
        unsafe { memory::put("put", dest.cast(), source.cast(), bytes_of::<T>(nelems), pe) };
    }
}

/// Copies elements to a PE; done at the next `shmem_quiet` at the latest.
#[inline]
pub unsafe fn put_nbi<T: Element>(
    ctx: shmem_ctx_t,
    dest: *mut T,
    source: *const T,
    nelems: usize,
    pe: c_int,
) {
    let pe = world_pe("put_nbi", ctx, pe);
    if nelems > 0 {
        // SAFETY: the user gives so many elements, which stay until the next quiet.
        unsafe { memory::put_nbi("put_nbi", dest.cast(), source.cast(), bytes_of::<T>(nelems), pe) };
    }
}

/// Writes one element to a PE.
#[inline]
pub unsafe fn p<T: Element>(ctx: shmem_ctx_t, dest: *mut T, value: T, pe: c_int) {
    let pe = world_pe("p", ctx, pe);
    // SAFETY: the value is ours.
    unsafe { memory::put("p", dest.cast(), (&raw const value).cast(), size_of::<T>(), pe) };
}

/// Copies elements from a PE.
#[inline]
pub unsafe fn get<T: Element>(ctx: shmem_ctx_t, dest: *mut T, source: *const T, nelems: usize, pe: c_int) {
    let pe = world_pe("get", ctx, pe);
    if nelems > 0 {
        // SAFETY: the user gives room for so many elements.
        unsafe { memory::get("get", dest.cast(), source.cast(), bytes_of::<T>(nelems), pe) };
    }
}

/// Copies elements from a PE; done at the next `shmem_quiet` at the latest.
#[inline]
pub unsafe fn get_nbi<T: Element>(
    ctx: shmem_ctx_t,
    dest: *mut T,
    source: *const T,
    nelems: usize,
    pe: c_int,
) {
    let pe = world_pe("get_nbi", ctx, pe);
    if nelems > 0 {
        // SAFETY: the user gives room for so many elements, until the next quiet.
        unsafe { memory::get_nbi("get_nbi", dest.cast(), source.cast(), bytes_of::<T>(nelems), pe) };
    }
}

/// Reads one element of a PE.
#[inline]
pub unsafe fn g<T: Element>(ctx: shmem_ctx_t, source: *const T, pe: c_int) -> T {
    let pe = world_pe("g", ctx, pe);
    let mut value = std::mem::MaybeUninit::<T>::uninit();
    // SAFETY: the place is ours, and filled by the copy.
    unsafe {
        memory::get("g", value.as_mut_ptr().cast(), source.cast(), size_of::<T>(), pe);
        value.assume_init()
    }
}

/// Blocks of elements with distances between their beginnings, here and there.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// From one block's beginning to the next one's where they go to.
    pub dest: isize,
    /// The same where they come from.
    pub source: isize,
    /// Elements of a block.
    pub elements: usize,
    /// How many there are.
    pub blocks: usize,
}

impl Blocks {
    /// Bytes from the first to the last at a distance.
    fn span<T>(&self, function: &str, distance: isize) -> usize {
        let Ok(distance) = usize::try_from(distance) else {
            fault::end(function, format_args!("the distance {distance} is negative"))
        };
        let last = (self.blocks - 1).checked_mul(distance).and_then(|last| last.checked_add(self.elements));
        last.map_or(usize::MAX, bytes_of::<T>)
    }

    /// The blocks at a distance, as bytes from the first and bytes.
    fn ranges<T>(self, distance: isize) -> impl Iterator<Item = (u64, usize)> {
        let each = (distance as usize * size_of::<T>()) as u64;
        (0..self.blocks as u64).map(move |block| (block * each, bytes_of::<T>(self.elements)))
    }
}

/// Copies blocks to a PE.
pub unsafe fn strided_put<T: Element>(
    function: &'static str,
    ctx: shmem_ctx_t,
    dest: *mut T,
    source: *const T,
    blocks: Blocks,
    pe: c_int,
) {
    let pe = world_pe(function, ctx, pe);
    if blocks.blocks == 0 || blocks.elements == 0 {
        return;
    }
    blocks.span::<T>(function, blocks.source);
    let span = blocks.span::<T>(function, blocks.dest);
    let place = memory::place(function, "dest", dest.cast(), span, pe);
    let bytes = bytes_of::<T>(blocks.elements);
    if let Place::Far(far) = place {
        let mut packed = vec![0; bytes * blocks.blocks];
        for (block, packed) in packed.chunks_mut(bytes).enumerate() {
            let from = source.wrapping_offset(block as isize * blocks.source);
            // SAFETY: the user gives so many elements at such distances; the piece has as many bytes.
            unsafe { std::ptr::copy_nonoverlapping(from.cast(), packed.as_mut_ptr(), bytes) };
        }
        return far.put_blocks(function, &packed, blocks.ranges::<T>(blocks.dest));
    }
    for block in 0..blocks.blocks as isize {
        let from = source.wrapping_offset(block * blocks.source);
        // SAFETY: the user gives so many elements at such distances; the place has the span.
        unsafe {
            match place {
                Place::Mapped(to) => {
                    let to = to.cast::<T>().wrapping_offset(block * blocks.dest);
                    tutti_shm::opened::copy(from.cast(), to.cast(), bytes);
                }
                Place::Private(_) | Place::Far(_) => {
                    let to = dest.wrapping_offset(block * blocks.dest);
                    memory::put(function, to.cast(), from.cast(), bytes, pe);
                }
            }
        }
    }
    memory::notify(pe);
}

/// Copies blocks from a PE.
pub unsafe fn strided_get<T: Element>(
    function: &'static str,
    ctx: shmem_ctx_t,
    dest: *mut T,
    source: *const T,
    blocks: Blocks,
    pe: c_int,
) {
    let pe = world_pe(function, ctx, pe);
    if blocks.blocks == 0 || blocks.elements == 0 {
        return;
    }
    blocks.span::<T>(function, blocks.dest);
    let span = blocks.span::<T>(function, blocks.source);
    let place = memory::place(function, "source", source.cast(), span, pe);
    let bytes = bytes_of::<T>(blocks.elements);
    if let Place::Far(far) = place {
        let mut packed = vec![0; bytes * blocks.blocks];
        far.get_blocks(function, &mut packed, blocks.ranges::<T>(blocks.source));
        for (block, packed) in packed.chunks(bytes).enumerate() {
            let to = dest.wrapping_offset(block as isize * blocks.dest);
            // SAFETY: the user gives room for so many elements at such distances.
            unsafe { std::ptr::copy_nonoverlapping(packed.as_ptr(), to.cast(), bytes) };
        }
        return;
    }
    for block in 0..blocks.blocks as isize {
        let to = dest.wrapping_offset(block * blocks.dest);
        // SAFETY: the user gives room for so many elements at such distances; the place has the span.
        unsafe {
            match place {
                Place::Mapped(from) => {
                    let from = from.cast::<T>().wrapping_offset(block * blocks.source);
                    tutti_shm::opened::copy(from.cast(), to.cast(), bytes);
                }
                Place::Private(_) | Place::Far(_) => {
                    let from = source.wrapping_offset(block * blocks.source);
                    memory::get(function, to.cast(), from.cast(), bytes, pe);
                }
            }
        }
    }
}
