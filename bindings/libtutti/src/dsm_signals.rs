//! Signals: those of faults stay the library's, and no mask of the program blocks them. `tutticc` puts these
//! functions in the place of those of the C library (`--wrap`), in the program's own objects.

use core::cell::Cell;
use core::ffi::c_int;

use tutti_dsm::fault;

use crate::dsm_arguments::{loaded, placing, stored};

/// Flag of an alternate stack that is off while a handler runs on it (Linux 4.7).
const SS_AUTODISARM: c_int = 1 << 31;

/// Takes the signals of faults out of a set: a blocked one would end the process.
fn unblock_faults(set: &mut libc::sigset_t) {
    for signal in [Some(libc::SIGSEGV), fault::signal()].into_iter().flatten() {
        // SAFETY: a valid set, and a signal.
        unsafe { libc::sigdelset(set, signal) };
    }
}

/// A mask of the program without the signals of faults; none: there is no mask.
///
/// # Safety
/// A valid set, or null.
pub(crate) unsafe fn open_mask(set: *const libc::sigset_t) -> Option<libc::sigset_t> {
    // SAFETY: our contract.
    let mut open = unsafe { *set.as_ref()? };
    unblock_faults(&mut open);
    Some(open)
}

/// sigaction(2): faults of shared memory stay the library's, whatever the program does about others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    before: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the program gives valid structures, or null.
    unsafe {
        if let Some(kept) = fault::set_program_action(signal, action.as_ref().copied()) {
            if let Some(before) = before.as_mut() {
                *before = kept;
            }
            return 0;
        }
        // A handler that touches shared memory faults inside.
        let mut without_faults = action.as_ref().copied();
        if let Some(action) = &mut without_faults {
            unblock_faults(&mut action.sa_mask);
        }
        let action = without_faults.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        libc::sigaction(signal, action, before)
    }
}

thread_local! {
    /// The alternate stack that the program has set, in a thread whose stack is the library's.
    static STACK: Cell<Option<libc::stack_t>> = const { Cell::new(None) };
}

/// sigaltstack(2): faults of shared memory keep their stack, on which the program's handlers run, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_sigaltstack(
    stack: *const libc::stack_t,
    before: *mut libc::stack_t,
) -> c_int {
    if !fault::has_stack() {
        // SAFETY: the program's call.
        return unsafe { libc::sigaltstack(stack, before) };
    }
    let none = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    // SAFETY: the program gives valid structures, or null.
    let (wanted, before) = unsafe { (stack.as_ref().copied(), before.as_mut()) };
    let kept = STACK.get();
    if let Some(wanted) = wanted {
        let is_off = wanted.ss_flags & libc::SS_DISABLE != 0;
        let error = if wanted.ss_flags & !(libc::SS_DISABLE | libc::SS_ONSTACK | SS_AUTODISARM) != 0 {
            libc::EINVAL
        } else if !is_off && wanted.ss_size < libc::MINSIGSTKSZ {
            libc::ENOMEM
        } else {
            0
        };
        if error != 0 {
            // SAFETY: a word of this thread.
            unsafe { *libc::__errno_location() = error };
            return -1;
        }
        STACK.set((!is_off).then_some(libc::stack_t { ss_flags: 0, ..wanted }));
    }
    if let Some(before) = before {
        *before = kept.unwrap_or(none);
    }
    0
}

/// signal(2), the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_signal(signal: c_int, function: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: the program gives a function.
    unsafe { set_function(signal, function, libc::SA_RESTART) }
}

/// The other names of signal(2) that keep the handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_bsd_signal(
    signal: c_int,
    function: libc::sighandler_t,
) -> libc::sighandler_t {
    // SAFETY: the program gives a function.
    unsafe { set_function(signal, function, libc::SA_RESTART) }
}

/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_ssignal(signal: c_int, function: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: the program gives a function.
    unsafe { set_function(signal, function, libc::SA_RESTART) }
}

/// signal(2) of programs in strict ISO C (`-std=c11`): the handler is called once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___sysv_signal(
    signal: c_int,
    function: libc::sighandler_t,
) -> libc::sighandler_t {
    // SAFETY: the program gives a function.
    unsafe { set_function(signal, function, libc::SA_RESETHAND | libc::SA_NODEFER) }
}

/// The same by its other name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_sysv_signal(
    signal: c_int,
    function: libc::sighandler_t,
) -> libc::sighandler_t {
    // SAFETY: the program gives a function.
    unsafe { set_function(signal, function, libc::SA_RESETHAND | libc::SA_NODEFER) }
}

unsafe fn set_function(signal: c_int, function: libc::sighandler_t, flags: c_int) -> libc::sighandler_t {
    // SAFETY: zeroed is a value of this plain structure; our callers give a function.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = function;
        action.sa_flags = flags;
        match __wrap_sigaction(signal, &action, &mut before) {
            0 => before.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}

/// sigprocmask(2): a fault of shared memory with its signal blocked would end the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_sigprocmask(
    how: c_int,
    set: *const libc::sigset_t,
    before: *mut libc::sigset_t,
) -> c_int {
    // SAFETY: the program's call.
    match unsafe { set_mask(how, set, before) } {
        0 => 0,
        error => {
            // SAFETY: the place is this thread's.
            unsafe { *libc::__errno_location() = error };
            -1
        }
    }
}

/// pthread_sigmask(3), the same; it gives the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_sigmask(
    how: c_int,
    set: *const libc::sigset_t,
    before: *mut libc::sigset_t,
) -> c_int {
    // SAFETY: the program's call.
    unsafe { set_mask(how, set, before) }
}

unsafe fn set_mask(how: c_int, set: *const libc::sigset_t, before: *mut libc::sigset_t) -> c_int {
    // SAFETY: the program gives valid sets, or null.
    unsafe {
        let mut given = set.as_ref().copied();
        if let Some(set) = given.as_mut().filter(|_| how != libc::SIG_UNBLOCK) {
            unblock_faults(set);
        }
        let mut found: libc::sigset_t = std::mem::zeroed();
        let given = given.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let error = libc::pthread_sigmask(how, given, &mut found);
        if error == 0
            && let Some(before) = before.as_mut()
        {
            let place = stored(std::ptr::from_mut(before), 1);
            place.value().write(found);
            place.note_stored(0);
        }
        error
    }
}

placing! { if |result| result >= 0;
    __wrap_sigpending => libc::sigpending, (to: *mut libc::sigset_t = stored(to, 1)) -> c_int;
    __wrap_sigsuspend => suspend, (set: *const libc::sigset_t) -> c_int;
    __wrap_sigwaitinfo => libc::sigwaitinfo, (set: *const libc::sigset_t = loaded(set, 1),
        found: *mut libc::siginfo_t = stored(found, 1)) -> c_int;
    __wrap_sigtimedwait => libc::sigtimedwait, (set: *const libc::sigset_t = loaded(set, 1),
        found: *mut libc::siginfo_t = stored(found, 1),
        limit: *const libc::timespec = loaded(limit, 1)) -> c_int;
    __wrap_signalfd => libc::signalfd, (queue: c_int, set: *const libc::sigset_t = loaded(set, 1),
        flags: c_int) -> c_int;
}

placing! { if |error| error == 0;
    __wrap_sigwait => libc::sigwait, (set: *const libc::sigset_t = loaded(set, 1),
        found: *mut c_int = stored(found, 1)) -> c_int;
}

unsafe fn suspend(set: *const libc::sigset_t) -> c_int {
    // SAFETY: the program's call; a mask of ours that lets faults through.
    unsafe { libc::sigsuspend(open_mask(set).as_ref().map_or(set, |set| set)) }
}
