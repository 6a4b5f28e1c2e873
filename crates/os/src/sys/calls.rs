//! System calls that a thread's filter (seccomp) does not let through: each is refused with
//! EPERM and remembered, or the process ends with a line.
//!
//! The filter traps: the kernel sends SIGSYS to the thread in place of the call. The handler stores numbers
//! and changes the registers of the thread that was interrupted; nothing in it allocates or locks.

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// The kernel's word for a call that a filter has trapped.
const SYS_SECCOMP: c_int = 1;
/// Whether such a call ends the process.
static ENDS: AtomicBool = AtomicBool::new(false);
/// The number of the last one that was refused, and one more; 0: none.
static REFUSED: AtomicI64 = AtomicI64::new(0);
/// The first argument of that call.
static FIRST: AtomicI64 = AtomicI64::new(0);

/// The thread's registers: the number of the call, and where its result belongs.
///
/// # Safety
/// `context` is what the kernel has given a handler of signals.
#[cfg(target_arch = "x86_64")]
unsafe fn answer(context: *mut c_void, result: Option<i64>) -> i64 {
    // SAFETY: as above; nobody else has it while the handler runs.
    let register = unsafe {
        let context = context.cast::<libc::ucontext_t>();
        &mut (*context).uc_mcontext.gregs[libc::REG_RAX as usize]
    };
    let number = *register;
    *register = result.unwrap_or(number);
    // SAFETY: as above.
    FIRST.store(
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RDI as usize] },
        Ordering::Relaxed,
    );
    number
}

/// The same.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
unsafe fn answer(context: *mut c_void, result: Option<i64>) -> i64 {
    // SAFETY: as above; nobody else has it while the handler runs.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.regs };
    if let Some(result) = result {
        FIRST.store(registers[0] as i64, Ordering::Relaxed);
        registers[0] = result as u64;
    }
    registers[8] as i64
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
extern "C" fn handle(_signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives both to a handler with SA_SIGINFO.
    let is_trap = unsafe { (*info).si_code == SYS_SECCOMP };
    if !is_trap {
        // Somebody has sent the signal by hand.
        return;
    }
    let ends = ENDS.load(Ordering::Relaxed);
    // SAFETY: it is what the kernel has given.
    let number = unsafe { answer(context, (!ends).then_some(-i64::from(libc::EPERM))) };
    REFUSED.store(number + 1, Ordering::Relaxed);
    if ends {
        let mut line = *b"a thread has made a system call that its filter does not know: 0000\n";
        let (mut rest, end) = (number, line.len() - 1);
        for digit in line[end - 4..end].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        // SAFETY: plain system calls on memory of this function.
        unsafe {
            libc::write(2, line.as_ptr().cast(), line.len());
            libc::abort();
        }
    }
}

/// From now on calls that filters of this process's threads trap are refused with EPERM; `ends`: they end the
/// process. For the thread that gets a filter: the signal must reach it.
///
/// # Errors
/// When the kernel refuses, or the machine is of a kind that this does not know.
pub fn handle_trapped_calls(ends: bool) -> io::Result<()> {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        ENDS.store(ends, Ordering::Relaxed);
        // SAFETY: set and action are plain data, filled before they are used; the handler is as it must be.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = handle;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            if libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) < 0 {
                return Err(io::Error::last_os_error());
            }
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGSYS);
            match libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) {
                0 => Ok(()),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = (ends, &ENDS);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The number of the last call that was refused since this was asked last, and its first argument.
pub fn take_refused_call() -> Option<(i64, i64)> {
    // Mostly there is none, and nobody's cache line changes.
    if REFUSED.load(Ordering::Relaxed) == 0 {
        return None;
    }
    Some((REFUSED.swap(0, Ordering::Relaxed) - 1, FIRST.load(Ordering::Relaxed)))
}
