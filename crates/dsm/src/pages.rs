//! Pages in bulk: one call allocates, frees or invalidates many runs, of small pages or of large ones.

use crate::arena::BASE;
use crate::core::blocks::{Attributes, PageSize, Protocol};
use crate::site::Site;
use crate::{failure, object, process};

/// Pages that follow each other, as the program names them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PageRun {
    /// Address of the first one. Writer: the program, and allocation.
    start: usize,
    /// How many bytes.
    bytes: usize,
}

/// Numbers of the operations, and of the attributes, in `parmacs.h`.
const ALLOCATE: i32 = 1;
const FREE: i32 = 2;
const INVALIDATE: i32 = 3;
const LARGE: u32 = 1;
const UPDATE: u32 = 2;

/// Does an operation on runs.
pub fn operate(operation: i32, runs: &mut [PageRun], attributes: u32, site: Site<'_>) {
    let attributes = match (operation, attributes) {
        (_, 0) => Attributes::default(),
        (ALLOCATE, bits) if bits & !(LARGE | UPDATE) == 0 => Attributes {
            size: if bits & LARGE == 0 { PageSize::Small } else { PageSize::Large },
            protocol: if bits & UPDATE == 0 { Protocol::Invalidate } else { Protocol::Update },
        },
        (ALLOCATE, _) => failure::end(format_args!(
            "{site}: G_PAGES with attributes {attributes:#x}: TUTTI_PAGES_4K, _2M and _UPDATE are known"
        )),
        _ => failure::end(format_args!("{site}: G_PAGES with attributes: those of allocation alone count")),
    };
    match operation {
        ALLOCATE => runs.iter_mut().enumerate().for_each(|(number, run)| {
            if run.bytes == 0 {
                failure::end(format_args!("{site}: G_PAGES: run {number} to allocate has no bytes"));
            }
            run.start = object::allocate_of(run.bytes as u64, attributes, site);
        }),
        FREE => runs.iter().for_each(|run| object::free(run.start, site)),
        INVALIDATE => {
            let ranges: Vec<_> =
                runs.iter().enumerate().map(|(number, run)| range(number, run, site)).collect();
            object::invalidate(&ranges, site);
        }
        _ => failure::end(format_args!(
            "{site}: G_PAGES with operation {operation}: TUTTI_PAGES_ALLOCATE, _FREE and _INVALIDATE are known"
        )),
    }
}

/// Place of a run in the arena.
fn range(number: usize, run: &PageRun, site: Site<'_>) -> std::ops::Range<u64> {
    let size = process::with(|running| running.heap.common.bytes());
    let begin = run.start.wrapping_sub(BASE) as u64;
    match begin.checked_add(run.bytes as u64) {
        Some(end) if end <= size => begin..end,
        _ => failure::end(format_args!(
            "{site}: G_PAGES: run {number} of {} bytes at {:#x} is not shared memory",
            run.bytes, run.start
        )),
    }
}
