//! The symmetric heap. All PEs call these functions in the same order with the same arguments.

use core::ffi::{c_long, c_void};

use tutti_mpi::abi::*;
use tutti_mpi::api;
use tutti_runtime::log;

use crate::fault;
use crate::memory;
use crate::size;
use crate::start;
use crate::team;

/// Instead of an alignment: the call gives memory back.
const GIVES_BACK: u64 = u64::MAX;

/// Waits for all PEs and ends the job if they have not asked for the same.
fn agree(function: &str, asked: [u64; 2]) {
    memory::quiet(function);
    let (world, comm) = (team::world(function), team::of_heap());
    // The largest number, and what is left to the top of the smallest.
    let mut bounds = [asked[0], !asked[0], asked[1], !asked[1]];
    let place = bounds.as_mut_ptr().cast::<c_void>();
    // SAFETY: the place has four numbers; errors end the job.
    unsafe { api::MPI_Allreduce(MPI_IN_PLACE.cast_const(), place, 4, MPI_UINT64_T, MPI_MAX, comm) };
    if bounds[0] == !bounds[1] && bounds[2] == !bounds[3] {
        return;
    }
    let mut all = vec![[0_u64; 2]; world.size()];
    // SAFETY: the place has two numbers for each PE.
    unsafe {
        api::MPI_Allgather(
            asked.as_ptr().cast(),
            2,
            MPI_UINT64_T,
            all.as_mut_ptr().cast(),
            2,
            MPI_UINT64_T,
            comm,
        )
    };
    let other = all.iter().position(|one| *one != all[0]).unwrap_or(0);
    if world.me == 0 {
        let show = |asked: [u64; 2]| match asked[1] {
            GIVES_BACK => format!("at offset {}", asked[0] as i64),
            1 => format!("{} bytes", asked[0]),
            align => format!("{} bytes aligned to {align}", asked[0]),
        };
        fault::end(
            function,
            format_args!(
                "all PEs must ask for the same, but PE 0 has {} and PE {other} {}",
                show(all[0]),
                show(all[other])
            ),
        );
    }
    fault::await_end()
}

/// Takes memory that all PEs have agreed on.
fn take(function: &str, bytes: usize, align: usize) -> *mut u8 {
    let taken = start::with_heap(|heap| (heap.allocate(bytes, align), heap.bytes(), heap.free_bytes()));
    match taken {
        Some((Some(offset), ..)) => memory::heap_address(offset),
        Some((None, size, free)) => {
            if team::world(function).me == 0 {
                log::line(format_args!(
                    "shmem_{function}: {bytes} bytes do not fit into the symmetric heap of {size} bytes, of which {free} are free; {} sets its size",
                    size::VARIABLE
                ));
            }
            std::ptr::null_mut()
        }
        None => std::ptr::null_mut(),
    }
}

fn allocate(function: &str, bytes: usize, align: usize) -> *mut c_void {
    memory::pes(function);
    agree(function, [bytes as u64, align as u64]);
    if bytes == 0 {
        return std::ptr::null_mut();
    }
    take(function, bytes, align).cast()
}

/// Takes symmetric memory. All PEs ask for the same size, and return when all have. Null if the size is 0 or
/// the heap has no room, which is also said on standard error.
pub unsafe fn malloc(size: usize) -> *mut c_void {
    allocate("malloc", size, 1)
}

/// Takes symmetric memory for atomic or signal variables. The hints change nothing: all memory is good for
/// both.
pub unsafe fn malloc_with_hints(size: usize, _hints: c_long) -> *mut c_void {
    allocate("malloc_with_hints", size, 1)
}

/// Takes symmetric memory that begins at a multiple of a power of two. Null if it is none, or the heap itself
/// is not aligned so far, which is also said on standard error.
pub unsafe fn align(alignment: usize, size: usize) -> *mut c_void {
    let pes = memory::pes("align");
    let most = start::with_heap(|heap| start::alignment(heap.bytes())).unwrap_or(0);
    if !alignment.is_power_of_two() || alignment > most {
        // PEs that ask for another alignment find that this one does not come.
        agree("align", [size as u64, alignment as u64]);
        if pes.me == 0 {
            let what = format_args!("the alignment {alignment} is no power of two up to {most}");
            log::line(format_args!("shmem_align: {what}"));
        }
        return std::ptr::null_mut();
    }
    allocate("align", size, alignment.max(2))
}

/// Takes symmetric memory for `count` elements, all zero.
pub unsafe fn calloc(count: usize, size: usize) -> *mut c_void {
    let bytes = count.checked_mul(size).unwrap_or(usize::MAX >> 1);
    let taken = allocate("calloc", bytes, 1);
    if !taken.is_null() {
        // SAFETY: the block has so many bytes, and no mate uses it before the barrier.
        unsafe { std::ptr::write_bytes(taken.cast::<u8>(), 0, bytes) };
        start::barrier();
    }
    taken
}

/// Changes the size of a block; its contents move along as far as they fit. Null if there is no room: the
/// block stays as it is.
pub unsafe fn realloc(ptr: *mut c_void, size: usize) -> *mut c_void {
    if ptr.is_null() {
        return allocate("realloc", size, 1);
    }
    if size == 0 {
        give_back("realloc", ptr);
        return std::ptr::null_mut();
    }
    let (offset, old) = block("realloc", ptr);
    agree("realloc", [size as u64, 1]);
    if start::with_heap(|heap| heap.resize(offset, size)) == Some(true) {
        return ptr;
    }
    let taken = take("realloc", size, 1);
    if taken.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: both blocks have so many bytes and are apart.
    unsafe { std::ptr::copy_nonoverlapping(ptr.cast(), taken, old.min(size)) };
    start::barrier();
    start::with_heap(|heap| heap.free(offset));
    taken.cast()
}

/// Gives symmetric memory back, when all PEs have come here. Null is allowed.
pub unsafe fn free(ptr: *mut c_void) {
    memory::pes("free");
    if !ptr.is_null() {
        give_back("free", ptr);
    }
}

fn give_back(function: &str, ptr: *mut c_void) {
    let (offset, _) = block(function, ptr);
    agree(function, [offset as u64, GIVES_BACK]);
    start::with_heap(|heap| heap.free(offset));
}

/// Offset and size of the block that begins at an address.
fn block(function: &str, ptr: *mut c_void) -> (usize, usize) {
    memory::pes(function);
    let found = memory::heap_offset(ptr.cast())
        .and_then(|offset| Some((offset, start::with_heap(|heap| heap.size_of(offset))??)));
    found.unwrap_or_else(|| {
        fault::end(function, format_args!("{ptr:p} is no block of the symmetric heap, or was given back"))
    })
}
