//! Functions of the C library that wait, and that ask the kernel for times, limits and numbers: what they are
//! given may be shared memory. `tutticc` puts these in their place (`--wrap`), in the program's own objects.

use core::ffi::{c_int, c_uint};

use crate::dsm_arguments::{counted, loaded, placing, stored};
use crate::dsm_signals::open_mask;

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
    __wrap_sched_setscheduler => libc::sched_setscheduler, (process: libc::pid_t, policy: c_int,
        from: *const libc::sched_param = loaded(from, 1)) -> c_int;
}

/// Sleeps leave the rest of their time there only where a signal has ended them.
const INTERRUPTED: fn(c_int) -> bool = |result| result != 0;

placing! { if INTERRUPTED;
    __wrap_nanosleep => libc::nanosleep, (time: *const libc::timespec = loaded(time, 1),
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
