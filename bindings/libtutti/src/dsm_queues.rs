//! Functions of the C library for queues, semaphores and segments that the system keeps: what they hand to
//! the kernel may be shared memory. `tutticc` puts these in their place (`--wrap`), in the program's own
//! objects.

use core::ffi::{c_char, c_int, c_uint, c_ushort, c_void};

use crate::dsm_arguments::{Placed, counted, loaded, placing, plain, stored, text};

/// Requests of the System V calls that say what there is, beside those of the kind itself.
mod request {
    use core::ffi::c_int;

    pub(super) const OF_ALL: c_int = 3;
    pub(super) const MESSAGES_STAT: [c_int; 2] = [11, 13];
    pub(super) const MESSAGES_OF_ALL: c_int = 12;
    pub(super) const SEMAPHORES_STAT: [c_int; 2] = [18, 20];
    pub(super) const SEMAPHORES_OF_ALL: c_int = 19;
    pub(super) const SEGMENTS_STAT: [c_int; 2] = [13, 15];
    pub(super) const SEGMENTS_OF_ALL: c_int = 14;
    pub(super) const GET_ALL: c_int = 13;
    pub(super) const SET_ALL: c_int = 17;
}

/// Bytes of what the kernel says of all queues, of all semaphores, and of all segments: their limits, then
/// what is in use.
const MESSAGES_BYTES: usize = 32;
const SEMAPHORES_BYTES: usize = 40;
const SEGMENT_LIMITS_BYTES: usize = 72;
const SEGMENTS_BYTES: usize = 48;

placing! { if |result| result >= 0;
    __wrap_mq_open => libc::mq_open, (name: *const c_char = text(name), flags: c_int, mode: libc::mode_t,
        attributes: *mut libc::mq_attr = attributes_of(flags, attributes)) -> libc::mqd_t;
    __wrap___mq_open_2 => open_queue, (name: *const c_char = text(name), flags: c_int) -> libc::mqd_t;
    __wrap_mq_unlink => libc::mq_unlink, (name: *const c_char = text(name)) -> c_int;
    __wrap_mq_send => libc::mq_send, (queue: libc::mqd_t, from: *const c_char = loaded(from, bytes),
        bytes: usize, priority: c_uint) -> c_int;
    __wrap_mq_timedsend => libc::mq_timedsend, (queue: libc::mqd_t, from: *const c_char = loaded(from, bytes),
        bytes: usize, priority: c_uint, limit: *const libc::timespec = loaded(limit, 1)) -> c_int;
    __wrap_mq_receive => libc::mq_receive, (queue: libc::mqd_t, to: *mut c_char = counted(to, bytes),
        bytes: usize, priority: *mut c_uint = stored(priority, 1)) -> isize;
    __wrap_mq_timedreceive => libc::mq_timedreceive, (queue: libc::mqd_t,
        to: *mut c_char = counted(to, bytes), bytes: usize, priority: *mut c_uint = stored(priority, 1),
        limit: *const libc::timespec = loaded(limit, 1)) -> isize;
    __wrap_mq_getattr => libc::mq_getattr,
        (queue: libc::mqd_t, to: *mut libc::mq_attr = stored(to, 1)) -> c_int;
    __wrap_mq_setattr => libc::mq_setattr, (queue: libc::mqd_t,
        from: *const libc::mq_attr = loaded(from, 1), before: *mut libc::mq_attr = stored(before, 1)) -> c_int;
    __wrap_mq_notify => libc::mq_notify,
        (queue: libc::mqd_t, event: *const libc::sigevent = loaded(event, 1)) -> c_int;
    __wrap_msgctl => libc::msgctl, (queue: c_int, request: c_int,
        place: *mut libc::msqid_ds = of_queue(request, place)) -> c_int;
    __wrap_shmctl => libc::shmctl, (segment: c_int, request: c_int,
        place: *mut libc::shmid_ds = of_segment(request, place)) -> c_int;
    __wrap_semctl => libc::semctl, (set: c_int, number: c_int, request: c_int,
        place: *mut c_void = of_semaphores(set, request, place)) -> c_int;
    __wrap_semtimedop => semtimedop, (set: c_int,
        operations: *mut libc::sembuf = loaded(operations.cast_const(), count).cast_mut(), count: usize,
        limit: *const libc::timespec = loaded(limit, 1)) -> c_int;
}

/// Attributes of a queue that is made; else the argument may be anything.
fn attributes_of(flags: c_int, place: *mut libc::mq_attr) -> Placed<*mut libc::mq_attr> {
    if flags & libc::O_CREAT == 0 {
        return plain(place);
    }
    loaded(place.cast_const(), 1).cast_mut()
}

unsafe extern "C" {
    fn semtimedop(
        set: c_int,
        operations: *mut libc::sembuf,
        count: usize,
        limit: *const libc::timespec,
    ) -> c_int;
}

/// mq_open(3) that makes no queue, of programs that are compiled with `_FORTIFY_SOURCE`.
unsafe fn open_queue(name: *const c_char, flags: c_int) -> libc::mqd_t {
    // SAFETY: the program's call.
    unsafe { libc::mq_open(name, flags, 0 as libc::mode_t, core::ptr::null_mut::<libc::mq_attr>()) }
}

/// Memory that a request about one queue, set or segment, or about all of them, stores to or loads.
fn of_one<T>(request: c_int, place: *mut T, stat: [c_int; 2], all: [(c_int, usize); 2]) -> Placed<*mut T> {
    let of_all = all.into_iter().find(|(number, _)| *number == request);
    match of_all {
        Some((_, bytes)) => stored(place.cast::<u8>(), bytes).cast(),
        None if request == libc::IPC_STAT || stat.contains(&request) => stored(place, 1),
        None if request == libc::IPC_SET => loaded(place.cast_const(), 1).cast_mut(),
        None => plain(place),
    }
}

fn of_queue(request: c_int, place: *mut libc::msqid_ds) -> Placed<*mut libc::msqid_ds> {
    let all = [(request::OF_ALL, MESSAGES_BYTES), (request::MESSAGES_OF_ALL, MESSAGES_BYTES)];
    of_one(request, place, request::MESSAGES_STAT, all)
}

fn of_segment(request: c_int, place: *mut libc::shmid_ds) -> Placed<*mut libc::shmid_ds> {
    let all = [(request::OF_ALL, SEGMENT_LIMITS_BYTES), (request::SEGMENTS_OF_ALL, SEGMENTS_BYTES)];
    of_one(request, place, request::SEGMENTS_STAT, all)
}

/// The same of a set of semaphores; values of all have as many numbers as the set has.
unsafe fn of_semaphores(set: c_int, request: c_int, place: *mut c_void) -> Placed<*mut c_void> {
    if [request::GET_ALL, request::SET_ALL].contains(&request) {
        let values = place.cast::<c_ushort>();
        // SAFETY: zeroed is a value of this plain structure, and the kernel stores there.
        let count = unsafe {
            let mut found: libc::semid_ds = core::mem::zeroed();
            let is_known = libc::semctl(set, 0, libc::IPC_STAT, &raw mut found) >= 0;
            if is_known { found.sem_nsems as usize } else { 0 }
        };
        return if request == request::GET_ALL {
            stored(values, count).cast()
        } else {
            loaded(values.cast_const(), count).cast_mut().cast()
        };
    }
    let all = [(request::OF_ALL, SEMAPHORES_BYTES), (request::SEMAPHORES_OF_ALL, SEMAPHORES_BYTES)];
    of_one(request, place.cast::<libc::semid_ds>(), request::SEMAPHORES_STAT, all).cast()
}
