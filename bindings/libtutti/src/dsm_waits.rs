//! Functions of the C library that wait, and that ask the kernel for times, limits and numbers: what they are
//! given may be shared memory. `tutticc` puts these in their place (`--wrap`), in the program's own objects.

use core::ffi::{c_char, c_int, c_uchar, c_uint, c_void};

use crate::dsm_arguments::{counted, loaded, placing, stored, text};
use crate::dsm_signals::open_mask;

/// Bytes of the memory that one byte of mincore(2) stands for.
const PAGE_BYTES: usize = 4096;

/// Longs of a set of descriptors below a number, which the kernel looks at.
fn longs_of(descriptors: c_int) -> usize {
    usize::try_from(descriptors).unwrap_or(0).div_ceil(u64::BITS as usize).min(1024 / u64::BITS as usize)
}

/// The part of a set of descriptors that the kernel looks at.
fn set(place: *mut libc::fd_set, descriptors: c_int) -> crate::dsm_arguments::Placed<*mut libc::fd_set> {
    stored(place.cast::<u64>(), longs_of(descriptors)).cast()
}

placing! { if |result| result >= 0;
    __wrap_poll => libc::poll, (descriptors: *mut libc::pollfd = stored(descriptors, count as usize),
        count: libc::nfds_t, limit_ms: c_int) -> c_int;
    __wrap_ppoll => poll_with_mask, (descriptors: *mut libc::pollfd = stored(descriptors, count as usize),
        count: libc::nfds_t, limit: *const libc::timespec = loaded(limit, 1),
        mask: *const libc::sigset_t) -> c_int;
    __wrap_select => libc::select, (end: c_int, read: *mut libc::fd_set = set(read, end),
        write: *mut libc::fd_set = set(write, end), except: *mut libc::fd_set = set(except, end),
        limit: *mut libc::timeval = stored(limit, 1)) -> c_int;
    __wrap_pselect => select_with_mask, (end: c_int, read: *mut libc::fd_set = set(read, end),
        write: *mut libc::fd_set = set(write, end), except: *mut libc::fd_set = set(except, end),
        limit: *const libc::timespec = loaded(limit, 1), mask: *const libc::sigset_t) -> c_int;
    __wrap_epoll_ctl => libc::epoll_ctl, (queue: c_int, operation: c_int, descriptor: c_int,
        event: *mut libc::epoll_event = loaded(event.cast_const(), 1).cast_mut()) -> c_int;
    __wrap_epoll_wait => libc::epoll_wait, (queue: c_int,
        events: *mut libc::epoll_event = counted(events, count.max(0) as usize), count: c_int,
        limit_ms: c_int) -> c_int;
    __wrap_epoll_pwait => epoll_with_mask, (queue: c_int,
        events: *mut libc::epoll_event = counted(events, count.max(0) as usize), count: c_int,
        limit_ms: c_int, mask: *const libc::sigset_t) -> c_int;
    __wrap_epoll_pwait2 => epoll_until, (queue: c_int,
        events: *mut libc::epoll_event = counted(events, count.max(0) as usize), count: c_int,
        limit: *const libc::timespec = loaded(limit, 1), mask: *const libc::sigset_t) -> c_int;
    __wrap_wait => libc::wait, (status: *mut c_int = stored(status, 1)) -> libc::pid_t;
    __wrap_waitpid => libc::waitpid, (child: libc::pid_t, status: *mut c_int = stored(status, 1),
        options: c_int) -> libc::pid_t;
    __wrap_wait4 => libc::wait4, (child: libc::pid_t, status: *mut c_int = stored(status, 1),
        options: c_int, usage: *mut libc::rusage = stored(usage, 1)) -> libc::pid_t;
    __wrap_wait3 => wait3, (status: *mut c_int = stored(status, 1), options: c_int,
        usage: *mut libc::rusage = stored(usage, 1)) -> libc::pid_t;
    __wrap_waitid => libc::waitid, (kind: libc::idtype_t, id: libc::id_t,
        found: *mut libc::siginfo_t = stored(found, 1), options: c_int) -> c_int;
    __wrap_clock_getres => libc::clock_getres, (clock: libc::clockid_t,
        step: *mut libc::timespec = stored(step, 1)) -> c_int;
    __wrap_getitimer => libc::getitimer, (which: c_int, to: *mut libc::itimerval = stored(to, 1)) -> c_int;
    __wrap_setitimer => libc::setitimer, (which: c_int, from: *const libc::itimerval = loaded(from, 1),
        before: *mut libc::itimerval = stored(before, 1)) -> c_int;
    __wrap_clock_settime => libc::clock_settime, (clock: libc::clockid_t,
        from: *const libc::timespec = loaded(from, 1)) -> c_int;
    __wrap_clock_adjtime => libc::clock_adjtime, (clock: libc::clockid_t,
        change: *mut libc::timex = stored(change, 1)) -> c_int;
    __wrap_adjtimex => libc::adjtimex, (change: *mut libc::timex = stored(change, 1)) -> c_int;
    __wrap_ntp_adjtime => libc::adjtimex, (change: *mut libc::timex = stored(change, 1)) -> c_int;
    __wrap_timer_create => libc::timer_create, (clock: libc::clockid_t,
        event: *mut libc::sigevent = loaded(event.cast_const(), 1).cast_mut(),
        to: *mut libc::timer_t = stored(to, 1)) -> c_int;
    __wrap_timer_settime => libc::timer_settime, (timer: libc::timer_t, flags: c_int,
        from: *const libc::itimerspec = loaded(from, 1),
        before: *mut libc::itimerspec = stored(before, 1)) -> c_int;
    __wrap_timer_gettime => libc::timer_gettime, (timer: libc::timer_t,
        to: *mut libc::itimerspec = stored(to, 1)) -> c_int;
    __wrap_timerfd_settime => libc::timerfd_settime, (timer: c_int, flags: c_int,
        from: *const libc::itimerspec = loaded(from, 1),
        before: *mut libc::itimerspec = stored(before, 1)) -> c_int;
    __wrap_timerfd_gettime => libc::timerfd_gettime, (timer: c_int,
        to: *mut libc::itimerspec = stored(to, 1)) -> c_int;
    __wrap_times => libc::times, (to: *mut libc::tms = stored(to, 1)) -> libc::clock_t;
    __wrap_getrusage => get_usage, (which: c_int, to: *mut libc::rusage = stored(to, 1)) -> c_int;
    __wrap_getrlimit => get_limit, (which: c_uint, to: *mut libc::rlimit = stored(to, 1)) -> c_int;
    __wrap_getrlimit64 => get_limit, (which: c_uint, to: *mut libc::rlimit = stored(to, 1)) -> c_int;
    __wrap_setrlimit => set_limit, (which: c_uint, from: *const libc::rlimit = loaded(from, 1)) -> c_int;
    __wrap_setrlimit64 => set_limit, (which: c_uint, from: *const libc::rlimit = loaded(from, 1)) -> c_int;
    __wrap_prlimit => change_limit, (process: libc::pid_t, which: c_uint,
        from: *const libc::rlimit = loaded(from, 1), before: *mut libc::rlimit = stored(before, 1)) -> c_int;
    __wrap_prlimit64 => change_limit, (process: libc::pid_t, which: c_uint,
        from: *const libc::rlimit = loaded(from, 1), before: *mut libc::rlimit = stored(before, 1)) -> c_int;
    __wrap_uname => libc::uname, (to: *mut libc::utsname = stored(to, 1)) -> c_int;
    __wrap_sysinfo => libc::sysinfo, (to: *mut libc::sysinfo = stored(to, 1)) -> c_int;
    __wrap_getgroups => libc::getgroups, (count: c_int,
        to: *mut libc::gid_t = counted(to, count.max(0) as usize)) -> c_int;
    __wrap_getresuid => libc::getresuid, (real: *mut libc::uid_t = stored(real, 1),
        effective: *mut libc::uid_t = stored(effective, 1), saved: *mut libc::uid_t = stored(saved, 1)) -> c_int;
    __wrap_getresgid => libc::getresgid, (real: *mut libc::gid_t = stored(real, 1),
        effective: *mut libc::gid_t = stored(effective, 1), saved: *mut libc::gid_t = stored(saved, 1)) -> c_int;
    __wrap_sched_getaffinity => libc::sched_getaffinity, (process: libc::pid_t, bytes: usize,
        to: *mut libc::cpu_set_t = stored(to.cast::<u8>(), bytes).cast()) -> c_int;
    __wrap_sched_setaffinity => libc::sched_setaffinity, (process: libc::pid_t, bytes: usize,
        from: *const libc::cpu_set_t = loaded(from.cast::<u8>(), bytes).cast()) -> c_int;
    __wrap_sched_getparam => libc::sched_getparam, (process: libc::pid_t,
        to: *mut libc::sched_param = stored(to, 1)) -> c_int;
    __wrap_sched_setparam => libc::sched_setparam, (process: libc::pid_t,
        from: *const libc::sched_param = loaded(from, 1)) -> c_int;
    __wrap_sched_rr_get_interval => libc::sched_rr_get_interval, (process: libc::pid_t,
        to: *mut libc::timespec = stored(to, 1)) -> c_int;
    __wrap_setgroups => libc::setgroups, (count: usize, from: *const libc::gid_t = loaded(from, count)) -> c_int;
    __wrap_sethostname => libc::sethostname,
        (from: *const c_char = loaded(from, bytes), bytes: usize) -> c_int;
    __wrap_setdomainname => libc::setdomainname,
        (from: *const c_char = loaded(from, bytes), bytes: usize) -> c_int;
    __wrap_mincore => libc::mincore, (address: *mut c_void, bytes: usize,
        to: *mut c_uchar = stored(to, bytes.div_ceil(PAGE_BYTES))) -> c_int;
    __wrap_sched_setscheduler => libc::sched_setscheduler, (process: libc::pid_t, policy: c_int,
        from: *const libc::sched_param = loaded(from, 1)) -> c_int;
}

unsafe extern "C" {
    fn pthread_getaffinity_np(thread: libc::pthread_t, bytes: usize, to: *mut libc::cpu_set_t) -> c_int;
    fn pthread_setaffinity_np(thread: libc::pthread_t, bytes: usize, from: *const libc::cpu_set_t) -> c_int;
    fn pthread_setschedparam(thread: libc::pthread_t, policy: c_int, from: *const libc::sched_param)
    -> c_int;
    fn pthread_setname_np(thread: libc::pthread_t, name: *const c_char) -> c_int;
    fn pthread_getname_np(thread: libc::pthread_t, to: *mut c_char, bytes: usize) -> c_int;
    fn pthread_timedjoin_np(
        thread: libc::pthread_t,
        result: *mut *mut c_void,
        limit: *const libc::timespec,
    ) -> c_int;
    fn pthread_clockjoin_np(
        thread: libc::pthread_t,
        result: *mut *mut c_void,
        clock: libc::clockid_t,
        limit: *const libc::timespec,
    ) -> c_int;
    fn thrd_sleep(time: *const libc::timespec, rest: *mut libc::timespec) -> c_int;
}

placing! { if |error| error == 0;
    __wrap_pthread_getaffinity_np => pthread_getaffinity_np, (thread: libc::pthread_t, bytes: usize,
        to: *mut libc::cpu_set_t = stored(to.cast::<u8>(), bytes).cast()) -> c_int;
    __wrap_pthread_setaffinity_np => pthread_setaffinity_np, (thread: libc::pthread_t, bytes: usize,
        from: *const libc::cpu_set_t = loaded(from.cast::<u8>(), bytes).cast()) -> c_int;
    __wrap_pthread_setschedparam => pthread_setschedparam, (thread: libc::pthread_t, policy: c_int,
        from: *const libc::sched_param = loaded(from, 1)) -> c_int;
    __wrap_pthread_setname_np => pthread_setname_np,
        (thread: libc::pthread_t, name: *const c_char = text(name)) -> c_int;
    __wrap_pthread_timedjoin_np => pthread_timedjoin_np, (thread: libc::pthread_t,
        result: *mut *mut c_void = stored(result, 1), limit: *const libc::timespec = loaded(limit, 1)) -> c_int;
    __wrap_pthread_clockjoin_np => pthread_clockjoin_np, (thread: libc::pthread_t,
        result: *mut *mut c_void = stored(result, 1), clock: libc::clockid_t,
        limit: *const libc::timespec = loaded(limit, 1)) -> c_int;
}

/// Room that the kernel wants for the name of a thread.
const THREAD_NAME_BYTES: usize = 16;

/// pthread_getname_np(3): the kernel stores all bytes of this thread's name, the C library the text of
/// others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_getname_np(
    thread: libc::pthread_t,
    to: *mut c_char,
    bytes: usize,
) -> c_int {
    let place = counted(to, bytes);
    // SAFETY: the program's call, by another address of the same memory; the text that it leaves has an end.
    unsafe {
        let error = pthread_getname_np(thread, place.value(), bytes);
        if error == 0 {
            let is_own = thread == libc::pthread_self();
            place.note_stored(if is_own { THREAD_NAME_BYTES } else { libc::strlen(place.value()) + 1 });
        }
        error
    }
}

/// prctl(2): the name of this thread is a text, or room for one; most others take numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_prctl(
    operation: c_int,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
) -> c_int {
    let pointer = core::ptr::with_exposed_provenance_mut::<c_char>(second);
    let place = match operation {
        // SAFETY: the program's text.
        libc::PR_SET_NAME => unsafe { text(pointer).cast_mut() },
        libc::PR_GET_NAME => stored(pointer, THREAD_NAME_BYTES),
        libc::PR_GET_PDEATHSIG | libc::PR_GET_CHILD_SUBREAPER => stored(pointer.cast::<c_int>(), 1).cast(),
        _ => crate::dsm_arguments::plain(pointer),
    };
    // SAFETY: the program's call, by another address of the same memory.
    unsafe {
        let result = libc::prctl(operation, place.value(), third, fourth, fifth);
        if result >= 0 {
            place.note_stored(0);
        }
        result
    }
}

/// Sleeps leave the rest of their time there only where a signal has ended them.
const INTERRUPTED: fn(c_int) -> bool = |result| result != 0;

placing! { if INTERRUPTED;
    __wrap_nanosleep => libc::nanosleep, (time: *const libc::timespec = loaded(time, 1),
        rest: *mut libc::timespec = stored(rest, 1)) -> c_int;
    __wrap_thrd_sleep => thrd_sleep, (time: *const libc::timespec = loaded(time, 1),
        rest: *mut libc::timespec = stored(rest, 1)) -> c_int;
    __wrap_clock_nanosleep => libc::clock_nanosleep, (clock: libc::clockid_t, flags: c_int,
        time: *const libc::timespec = loaded(time, 1),
        rest: *mut libc::timespec = stored(rest, 1)) -> c_int;
}

unsafe fn poll_with_mask(
    descriptors: *mut libc::pollfd,
    count: libc::nfds_t,
    limit: *const libc::timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    // SAFETY: the program's call; a mask of ours that lets faults through.
    unsafe { libc::ppoll(descriptors, count, limit, open_mask(mask).as_ref().map_or(mask, |mask| mask)) }
}

unsafe fn wait3(status: *mut c_int, options: c_int, usage: *mut libc::rusage) -> libc::pid_t {
    // SAFETY: the program's call.
    unsafe { libc::wait4(-1, status, options, usage) }
}

unsafe fn select_with_mask(
    end: c_int,
    read: *mut libc::fd_set,
    write: *mut libc::fd_set,
    except: *mut libc::fd_set,
    limit: *const libc::timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        libc::pselect(end, read, write, except, limit, open_mask(mask).as_ref().map_or(mask, |mask| mask))
    }
}

unsafe fn epoll_with_mask(
    queue: c_int,
    events: *mut libc::epoll_event,
    count: c_int,
    limit_ms: c_int,
    mask: *const libc::sigset_t,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        libc::epoll_pwait(queue, events, count, limit_ms, open_mask(mask).as_ref().map_or(mask, |mask| mask))
    }
}

/// epoll_pwait2, which older C libraries have not.
unsafe fn epoll_until(
    queue: c_int,
    events: *mut libc::epoll_event,
    count: c_int,
    limit: *const libc::timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    /// Bytes of a set of signals of the kernel.
    const MASK_BYTES: usize = 8;
    // SAFETY: as above.
    unsafe {
        let open = open_mask(mask);
        let mask = open.as_ref().map_or(mask, std::ptr::from_ref);
        libc::syscall(libc::SYS_epoll_pwait2, queue, events, count, limit, mask, MASK_BYTES) as c_int
    }
}

// Their kinds are numbers of other types in some C libraries.

unsafe fn get_usage(which: c_int, to: *mut libc::rusage) -> c_int {
    // SAFETY: the program's call.
    unsafe { libc::getrusage(which as _, to) }
}

unsafe fn get_limit(which: c_uint, to: *mut libc::rlimit) -> c_int {
    // SAFETY: the program's call.
    unsafe { libc::getrlimit(which as _, to) }
}

unsafe fn set_limit(which: c_uint, from: *const libc::rlimit) -> c_int {
    // SAFETY: the program's call.
    unsafe { libc::setrlimit(which as _, from) }
}

unsafe fn change_limit(
    process: libc::pid_t,
    which: c_uint,
    from: *const libc::rlimit,
    before: *mut libc::rlimit,
) -> c_int {
    // SAFETY: the program's call.
    unsafe { libc::prlimit(process, which as _, from, before) }
}
