//! Start, end and queries.

use core::ffi::{c_char, c_int, c_void};

use crate::context;
use crate::memory;
use crate::pes;
use crate::start;
use crate::team::{self, shmem_team_t};
use tutti_runtime::end;
use tutti_shm::ticket::Notice;

const NAME: &[u8] = concat!("Tutti ", env!("CARGO_PKG_VERSION"), "\0").as_bytes();

/// Starts the library, for one thread. Called by all PEs once; takes the place in the job as `MPI_Init` does,
/// unless that was called.
pub unsafe fn init() {
    start::start("init", 0);
}

/// Starts the library for threads. Every level can be had.
pub unsafe fn init_thread(requested: c_int, provided: *mut c_int) -> c_int {
    if !(0..=start::THREAD_MULTIPLE).contains(&requested) {
        return -1;
    }
    let given = start::start("init_thread", requested);
    if !provided.is_null() {
        // SAFETY: the user gives a place for the level.
        unsafe { provided.write(given) };
    }
    0
}

/// The level of threads.
pub unsafe fn query_thread(provided: *mut c_int) {
    memory::pes("query_thread");
    // SAFETY: the user gives a place for the level.
    unsafe { provided.write(start::thread_level()) };
}

/// Whether the library runs.
pub unsafe fn query_initialized(initialized: *mut c_int) {
    // SAFETY: the user gives a place for the flag.
    unsafe { initialized.write(c_int::from(pes::started().is_some())) };
}

/// Starts the library; the number is ignored. The library ends with the process.
pub unsafe fn start_pes(_npes: c_int) {
    extern "C" fn finish() {
        if pes::started().is_some() {
            start::finish();
        }
    }
    if pes::started().is_none() {
        start::start("start_pes", 0);
        // SAFETY: the function is static and takes no argument.
        unsafe { libc::atexit(finish) };
    }
}

/// The number of this PE, from 0 on.
#[inline]
pub unsafe fn my_pe() -> c_int {
    memory::pes("my_pe").me as c_int
}

/// How many PEs there are.
#[inline]
pub unsafe fn n_pes() -> c_int {
    memory::pes("n_pes").count as c_int
}

/// Ends the library, when all PEs have come here and all operations are done. Ends MPI too if it was not the
/// program that started it. A second call does nothing, as programs expect that end by several ways.
pub unsafe fn finalize() {
    if pes::has_finished() {
        return;
    }
    memory::pes("finalize");
    start::finish();
}

/// Ends the job at once with a status.
pub unsafe fn global_exit(status: c_int) {
    memory::pes("global_exit");
    end::end(Notice::Exit(status as u32), status & 0xff)
}

/// Whether a PE can be reached: 1 if there is one with this number.
pub unsafe fn pe_accessible(pe: c_int) -> c_int {
    memory::pes("pe_accessible");
    c_int::from(pes::index(pe).is_some())
}

/// Whether an address names symmetric memory of a PE.
pub unsafe fn addr_accessible(addr: *const c_void, pe: c_int) -> c_int {
    memory::pes("addr_accessible");
    c_int::from(pes::index(pe).is_some() && memory::is_symmetric(addr.cast()))
}

/// The address at which symmetric memory of a PE can be read and written here. Null if there is none.
pub unsafe fn ptr(dest: *const c_void, pe: c_int) -> *mut c_void {
    memory::pes("ptr");
    memory::pointer(dest.cast(), pe).cast()
}

/// The same for a PE of a team.
pub unsafe fn team_ptr(team: shmem_team_t, dest: *const c_void, pe: c_int) -> *mut c_void {
    let members = team::get("team_ptr", team);
    match members.members.get(pe as u32 as usize) {
        Some(world) => memory::pointer(dest.cast(), *world as c_int).cast(),
        None => std::ptr::null_mut(),
    }
}

/// The version of the standard: 1.5.
pub unsafe fn info_get_version(major: *mut c_int, minor: *mut c_int) {
    // SAFETY: the user gives places for the numbers.
    unsafe {
        major.write(1);
        minor.write(5);
    }
}

/// The name of the library, in at most `SHMEM_MAX_NAME_LEN` bytes.
pub unsafe fn info_get_name(name: *mut c_char) {
    // SAFETY: the user gives a place of that length.
    unsafe { std::ptr::copy_nonoverlapping(NAME.as_ptr().cast(), name, NAME.len()) };
}

/// Does nothing: a profiling tool may define it.
pub unsafe fn pcontrol(_level: c_int) {}

/// Does nothing: caches are coherent.
pub unsafe fn cache() {}

/// Does nothing: caches are coherent.
pub unsafe fn cache_line(_dest: *mut c_void) {}

/// The context's team.
pub unsafe fn ctx_get_team(ctx: context::shmem_ctx_t, team: *mut shmem_team_t) -> c_int {
    let found = context::team_of("ctx_get_team", ctx);
    // SAFETY: the user gives a place for the handle.
    unsafe { team.write(found.unwrap_or(team::INVALID)) };
    if found.is_some() { 0 } else { -1 }
}
