//! `libtutti_ompt.so`: a tool of OMPT (OpenMP 5.0, chapter 4) that LLVM's run time loads by
//! `OMP_TOOL_LIBRARIES`. It calls `tutti_parallel_begin` and `tutti_parallel_end` at parallel regions, in
//! jobs of `--phases`; anywhere else the run time is told that it has nothing to do.
//!
//! While others share the slots, threads that wait for the next region sleep at once (`kmp_set_blocktime`):
//! slots that are given back and spun on would be given to nobody. Alone they wait as the user has said.
//!
//! A process may have several run times, each with the scope of who has loaded it. So the functions of a run
//! time are looked up in the library that its entry `lookup` is in, and each has callbacks of its own. How
//! long threads wait is a setting of each thread that begins regions.
//!
//! Preloaded, it tells of the regions of gcc's OpenMP too ([`gomp`]).

mod gomp;

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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

/// Run times of a process whose threads are told to sleep; the phases of further ones are told all the same.
const RUN_TIMES_MAX: usize = 4;

/// The functions of a run time; 0: it has none.
struct RunTime {
    get_blocktime: AtomicUsize,
    set_blocktime: AtomicUsize,
}

/// In the order in which they asked.
static RUN_TIMES: [RunTime; RUN_TIMES_MAX] =
    [const { RunTime { get_blocktime: AtomicUsize::new(0), set_blocktime: AtomicUsize::new(0) } };
        RUN_TIMES_MAX];
/// How many have asked.
static ASKED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Own wait of this thread in each run time, in ms, while it is replaced; -1: it is not.
    static BLOCKTIMES_MS: [Cell<i32>; RUN_TIMES_MAX] = const { [const { Cell::new(-1) }; RUN_TIMES_MAX] };
}

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
    let number = ASKED.fetch_add(1, Relaxed);
    if let Some(run_time) = RUN_TIMES.get(number) {
        let symbols = symbols_beside(lookup as *const c_void, [c"kmp_get_blocktime", c"kmp_set_blocktime"]);
        run_time.get_blocktime.store(symbols[0], Relaxed);
        run_time.set_blocktime.store(symbols[1], Relaxed);
    }
    let begin = match number {
        0 => begin::<0>,
        1 => begin::<1>,
        2 => begin::<2>,
        3 => begin::<3>,
        _ => begin::<RUN_TIMES_MAX>,
    };
    // SAFETY: the callbacks take what the standard says, of which they look at nothing.
    unsafe {
        set(PARALLEL_BEGIN, begin);
        set(PARALLEL_END, end);
    }
    1
}

extern "C" fn finalize(_data: *mut c_void) {}

/// The addresses of these in the library that has this function, whoever else has such names; 0: it has none.
fn symbols_beside(function: *const c_void, names: [&CStr; 2]) -> [usize; 2] {
    // SAFETY: all its fields may be zero.
    let mut found: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: the address is only looked up; the name that is found stays as long as the library. A library
    // that is no file, but part of the program, is not found by its name: then null stands for the program.
    let library = unsafe {
        match libc::dladdr(function, &raw mut found) {
            0 => std::ptr::null_mut(),
            _ => libc::dlopen(found.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD),
        }
    };
    let scope = if library.is_null() { libc::RTLD_DEFAULT } else { library };
    // SAFETY: the scope is one, and names end with zero.
    let symbols = names.map(|name| unsafe { libc::dlsym(scope, name.as_ptr()) } as usize);
    if !library.is_null() {
        // SAFETY: it was opened here. Its code goes on existing, since it is calling us.
        unsafe { libc::dlclose(library) };
    }
    symbols
}

unsafe extern "C" fn begin<const RUN_TIME: usize>() {
    phases::begin();
    let Some(run_time) = RUN_TIMES.get(RUN_TIME) else { return };
    let is_shared = phases::is_shared();
    // A thread that is ending keeps its wait.
    let _ = BLOCKTIMES_MS.try_with(|blocktimes_ms| {
        let own_ms = &blocktimes_ms[RUN_TIME];
        if is_shared != (own_ms.get() >= 0) {
            run_time.set_wait(is_shared, own_ms);
        }
    });
}

unsafe extern "C" fn end() {
    phases::end();
}

impl RunTime {
    /// Threads of this thread's regions sleep at once between regions, or wait as they did before.
    #[cold]
    fn set_wait(&self, short: bool, own_ms: &Cell<i32>) {
        let (get, set) = (self.get_blocktime.load(Relaxed), self.set_blocktime.load(Relaxed));
        if get == 0 || set == 0 {
            return;
        }
        // SAFETY: what the run time exports under these names has these types.
        let (get, set): (GetBlocktime, SetBlocktime) = unsafe {
            (
                core::mem::transmute::<usize, GetBlocktime>(get),
                core::mem::transmute::<usize, SetBlocktime>(set),
            )
        };
        // SAFETY: called by a thread of the run time, between regions.
        unsafe {
            if short {
                own_ms.set(get().max(0));
                set(0);
            } else {
                set(own_ms.replace(-1));
            }
        }
    }
}
