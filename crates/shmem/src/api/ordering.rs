//! Order and completion.

use crate::context;
use crate::context::shmem_ctx_t;
use crate::memory;
use crate::start;

/// Operations on a PE before the call are seen there before those behind it. The processor keeps this order
/// of stores; the compiler is told to.
#[inline]
pub unsafe fn fence(ctx: shmem_ctx_t) {
    context::check("fence", ctx);
    memory::pes("fence");
    std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
}

/// All operations of this context are done, and seen by all PEs, when the call returns.
#[inline]
pub unsafe fn quiet(ctx: shmem_ctx_t) {
    context::check("quiet", ctx);
    memory::pes("quiet");
    memory::quiet("quiet");
}

/// All operations are done, then all PEs have come here.
pub unsafe fn barrier_all() {
    memory::pes("barrier_all");
    memory::quiet("barrier_all");
    start::barrier();
}

/// All PEs have come here, and see what each of them has stored.
pub unsafe fn sync_all() {
    memory::pes("sync_all");
    memory::settle();
    start::barrier();
}
