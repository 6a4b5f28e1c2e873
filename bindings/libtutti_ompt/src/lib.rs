//! `libtutti_ompt.so`: a tool of OMPT (OpenMP 5.0, chapter 4) that LLVM's run time loads by
//! `OMP_TOOL_LIBRARIES`. It calls `tutti_parallel_begin` and `tutti_parallel_end` at parallel regions, in
//! jobs of `--phases`; anywhere else the run time is told that it has nothing to do.
//!
//! While others share the slots, threads that wait for the next region sleep at once (`kmp_set_blocktime`):
//! slots that are given back and spun on would be given to nobody. Alone they wait as the user has said.

use core::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed};

use tutti_shm::phases;

/// Numbers of `ompt_callbacks_t`.
const PARALLEL_BEGIN: c_int = 3;
const PARALLEL_END: c_int = 4;

type Lookup = unsafe extern "C" fn(*const c_char) -> Option<unsafe extern "C" fn()>;
type SetCallback = unsafe extern "C" fn(c_int, unsafe extern "C" fn()) -> c_int;
type GetBlocktime = unsafe extern "C" fn() -> c_int;
type SetBlocktime = unsafe extern "C" fn(c_int);

/// `ompt_start_tool_result_t`.
#[repr(C)]
struct Tool {
    initialize: unsafe extern "C" fn(Lookup, c_int, *mut c_void) -> c_int,
    finalize: extern "C" fn(*mut c_void),
    data: u64,
}

/// The run time's own wait, in ms, while it is replaced; -1: it is not.
static BLOCKTIME_MS: AtomicI32 = AtomicI32::new(-1);
static GET_BLOCKTIME: AtomicUsize = AtomicUsize::new(0);
static SET_BLOCKTIME: AtomicUsize = AtomicUsize::new(0);

/// The run time asks whether there is a tool.
#[unsafe(no_mangle)]
extern "C" fn ompt_start_tool(_version: c_uint, _runtime: *const c_char) -> *mut c_void {
    static TOOL: Tool = Tool { initialize, finalize, data: 0 };
    match std::env::var_os(phases::VARIABLE) {
        // The run time hands the place of `data` to us and changes nothing.
        Some(_) => (&raw const TOOL).cast_mut().cast(),
        None => std::ptr::null_mut(),
    }
}

unsafe extern "C" fn initialize(lookup: Lookup, _device: c_int, _data: *mut c_void) -> c_int {
    // SAFETY: the function that the run time gives us for this, with a name that ends with zero.
    let Some(set) = (unsafe { lookup(c"ompt_set_callback".as_ptr()) }) else { return 0 };
    // SAFETY: the type of that entry, by the standard.
    let set: SetCallback = unsafe { core::mem::transmute(set) };
    // SAFETY: the callbacks take what the standard says, of which they look at nothing; names end with zero.
    unsafe {
        let symbol = |name: &core::ffi::CStr| libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as usize;
        GET_BLOCKTIME.store(symbol(c"kmp_get_blocktime"), Relaxed);
        SET_BLOCKTIME.store(symbol(c"kmp_set_blocktime"), Relaxed);
        set(PARALLEL_BEGIN, begin);
        set(PARALLEL_END, end);
    }
    1
}

extern "C" fn finalize(_data: *mut c_void) {}

unsafe extern "C" fn begin() {
    phases::begin();
    let (is_shared, is_short) = (phases::is_shared(), BLOCKTIME_MS.load(Relaxed) >= 0);
    if is_shared != is_short {
        set_wait(is_shared);
    }
}

unsafe extern "C" fn end() {
    phases::end();
}

/// Threads sleep at once between regions, or wait as they did before.
#[cold]
fn set_wait(short: bool) {
    let (get, set) = (GET_BLOCKTIME.load(Relaxed), SET_BLOCKTIME.load(Relaxed));
    if get == 0 || set == 0 {
        return;
    }
    // SAFETY: what the run time exports under these names has these types.
    let (get, set): (GetBlocktime, SetBlocktime) = unsafe {
        (core::mem::transmute::<usize, GetBlocktime>(get), core::mem::transmute::<usize, SetBlocktime>(set))
    };
    // SAFETY: called by a thread of the run time, between regions.
    unsafe {
        if short {
            BLOCKTIME_MS.store(get().max(0), Relaxed);
            set(0);
        } else {
            set(BLOCKTIME_MS.swap(-1, Relaxed));
        }
    }
}
