//! Single copies between the memories of two ranks of a node (`process_vm_readv`, `process_vm_writev`).
//!
//! The kernel allows them as it allows ptrace: same user, and under Yama only for descendants of the process that the target
//! named (we name the starter). Where it refuses, the caller uses the bulk ring.

use std::io;

/// Bytes of one call, so that a rank can be frozen soon whatever it copies (F7: 1 MiB takes 0.1 ms).
pub const CALL_BYTES_MAX: usize = 256 << 10;

/// Lets the ranks of the job copy from and to this process where Yama restricts it (F30).
pub fn allow_starter(starter_pid: u32) {
    const PR_SET_PTRACER: libc::c_int = 0x59616d61;
    if starter_pid != 0 {
        // SAFETY: prctl with plain numbers; where there is no Yama it fails without effect.
        unsafe { libc::prctl(PR_SET_PTRACER, libc::c_ulong::from(starter_pid), 0, 0, 0) };
    }
}

/// Copies `bytes` from address `from` of process `pid` to `to`; at most [`CALL_BYTES_MAX`]. Returns how many were copied.
///
/// # Safety
/// `to` is valid for writing `bytes` bytes.
///
/// # Errors
/// The kernel's: EPERM when copying is not allowed here, EFAULT for a bad remote address, ESRCH for a dead process.
pub unsafe fn read(pid: u32, from: u64, to: *mut u8, bytes: usize) -> io::Result<usize> {
    let bytes = bytes.min(CALL_BYTES_MAX);
    let local = libc::iovec { iov_base: to.cast(), iov_len: bytes };
    let remote = libc::iovec { iov_base: from as *mut libc::c_void, iov_len: bytes };
    // SAFETY: `to` by our contract; the kernel checks the remote address.
    let copied = unsafe { libc::process_vm_readv(pid as libc::pid_t, &local, 1, &remote, 1, 0) };
    if copied <= 0 { Err(io::Error::last_os_error()) } else { Ok(copied as usize) }
}
