//! Locks, barriers and condition variables of threads, where they lie in shared memory: they order no process
//! of another node, so the job ends with a line that names the macro that does. `tutticc` puts these
//! functions in the place of those of the C library (`--wrap`), in the program's own objects.

use core::ffi::{c_int, c_void};

use tutti_dsm::keep;

use crate::dsm_arguments::{loaded, place_of};

/// Functions whose first argument is such an object, and the macro in their place.
macro_rules! refusing {
    ($($name:ident => $real:ident, $text:literal, $macro:literal, ($($argument:ident: $kind:ty $(= $placed:expr)?),*);)*) => {
        unsafe extern "C" {
            $(fn $real(object: *mut c_void, $($argument: $kind),*) -> c_int;)*
        }
        $(
            /// See the C library.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(object: *mut c_void, $($argument: $kind),*) -> c_int {
                keep::refuse_of_threads(object.addr(), $text, $macro);
                // SAFETY: the program's call, by other addresses of the same memory.
                unsafe { $real(object, $(place_of!($argument $(, $placed)?).value()),*) }
            }
        )*
    };
}

refusing! {
    __wrap_pthread_mutex_lock => pthread_mutex_lock, "pthread_mutex_lock", "LOCK", ();
    __wrap_pthread_mutex_trylock => pthread_mutex_trylock, "pthread_mutex_trylock", "LOCK", ();
    __wrap_pthread_mutex_timedlock => pthread_mutex_timedlock, "pthread_mutex_timedlock", "LOCK",
        (limit: *const libc::timespec = loaded(limit, 1));
    __wrap_pthread_mutex_clocklock => pthread_mutex_clocklock, "pthread_mutex_clocklock", "LOCK",
        (clock: libc::clockid_t, limit: *const libc::timespec = loaded(limit, 1));
    __wrap_pthread_spin_lock => pthread_spin_lock, "pthread_spin_lock", "LOCK", ();
    __wrap_pthread_spin_trylock => pthread_spin_trylock, "pthread_spin_trylock", "LOCK", ();
    __wrap_pthread_rwlock_rdlock => pthread_rwlock_rdlock, "pthread_rwlock_rdlock", "LOCK", ();
    __wrap_pthread_rwlock_wrlock => pthread_rwlock_wrlock, "pthread_rwlock_wrlock", "LOCK", ();
    __wrap_pthread_rwlock_tryrdlock => pthread_rwlock_tryrdlock, "pthread_rwlock_tryrdlock", "LOCK", ();
    __wrap_pthread_rwlock_trywrlock => pthread_rwlock_trywrlock, "pthread_rwlock_trywrlock", "LOCK", ();
    __wrap_pthread_rwlock_timedrdlock => pthread_rwlock_timedrdlock, "pthread_rwlock_timedrdlock", "LOCK",
        (limit: *const libc::timespec = loaded(limit, 1));
    __wrap_pthread_rwlock_timedwrlock => pthread_rwlock_timedwrlock, "pthread_rwlock_timedwrlock", "LOCK",
        (limit: *const libc::timespec = loaded(limit, 1));
    __wrap_pthread_rwlock_clockrdlock => pthread_rwlock_clockrdlock, "pthread_rwlock_clockrdlock", "LOCK",
        (clock: libc::clockid_t, limit: *const libc::timespec = loaded(limit, 1));
    __wrap_pthread_rwlock_clockwrlock => pthread_rwlock_clockwrlock, "pthread_rwlock_clockwrlock", "LOCK",
        (clock: libc::clockid_t, limit: *const libc::timespec = loaded(limit, 1));
    __wrap_pthread_barrier_wait => pthread_barrier_wait, "pthread_barrier_wait", "BARRIER", ();
    __wrap_pthread_cond_wait => pthread_cond_wait, "pthread_cond_wait", "CONDVARWAIT", (lock: *mut c_void);
    __wrap_pthread_cond_timedwait => pthread_cond_timedwait, "pthread_cond_timedwait", "CONDVARWAIT",
        (lock: *mut c_void, limit: *const libc::timespec = loaded(limit, 1));
    __wrap_pthread_cond_clockwait => pthread_cond_clockwait, "pthread_cond_clockwait", "CONDVARWAIT",
        (lock: *mut c_void, clock: libc::clockid_t, limit: *const libc::timespec = loaded(limit, 1));
    __wrap_pthread_cond_signal => pthread_cond_signal, "pthread_cond_signal", "CONDVARSIGNAL", ();
    __wrap_pthread_cond_broadcast => pthread_cond_broadcast, "pthread_cond_broadcast", "CONDVARBCAST", ();
    __wrap_sem_wait => sem_wait, "sem_wait", "WAITPAUSE", ();
    __wrap_sem_trywait => sem_trywait, "sem_trywait", "WAITPAUSE", ();
    __wrap_sem_timedwait => sem_timedwait, "sem_timedwait", "WAITPAUSE", (limit: *const libc::timespec = loaded(limit, 1));
    __wrap_sem_clockwait => sem_clockwait, "sem_clockwait", "WAITPAUSE",
        (clock: libc::clockid_t, limit: *const libc::timespec = loaded(limit, 1));
    __wrap_sem_post => sem_post, "sem_post", "SETPAUSE", ();
    __wrap_mtx_lock => mtx_lock, "mtx_lock", "LOCK", ();
    __wrap_mtx_timedlock => mtx_timedlock, "mtx_timedlock", "LOCK",
        (limit: *const libc::timespec = loaded(limit, 1));
    __wrap_mtx_trylock => mtx_trylock, "mtx_trylock", "LOCK", ();
    __wrap_cnd_wait => cnd_wait, "cnd_wait", "CONDVARWAIT", (lock: *mut c_void);
    __wrap_cnd_timedwait => cnd_timedwait, "cnd_timedwait", "CONDVARWAIT",
        (lock: *mut c_void, limit: *const libc::timespec = loaded(limit, 1));
    __wrap_cnd_signal => cnd_signal, "cnd_signal", "CONDVARSIGNAL", ();
    __wrap_cnd_broadcast => cnd_broadcast, "cnd_broadcast", "CONDVARBCAST", ();
}
