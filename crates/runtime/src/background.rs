//! Threads of the library itself.

use std::io;

/// Signals of a thread's own accesses to memory.
const FAULTS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Starts a thread that takes no signal of the program's, but for its own faults: a blocked fault ends the
/// process without a line.
///
/// # Errors
/// When there can be no more threads.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    spawn_with_stack(name, 256 << 10, body)
}

/// Starts such a thread with a stack of so many bytes: functions of the program may need a large one.
///
/// # Errors
/// When there can be no more threads, or no memory for the stack.
pub fn spawn_with_stack(
    name: &str,
    stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let builder = std::thread::Builder::new().name(name.into()).stack_size(stack_bytes);
    with_signals_blocked(|| builder.spawn(body)).map(drop)
}

/// A thread started by `action` takes no signal of the program's but for [`FAULTS`].
fn with_signals_blocked<T>(action: impl FnOnce() -> T) -> T {
    // SAFETY: zeroed is a valid signal set; the sets are valid during the calls, which change this thread's
    // mask and back.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        for fault in FAULTS {
            libc::sigdelset(&mut all, fault);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let value = action();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        value
    }
}
