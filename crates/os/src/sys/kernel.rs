//! Features that this kernel, and the filters that a container puts before it, leave to a process: each is
//! tried.

use std::io;

use rustix::process::Pid;

/// `clone3` is there. It is called without arguments, which it refuses; a filter or an old kernel returns
/// another error.
pub fn has_clone3() -> bool {
    // SAFETY: with no structure and no bytes of it the call reads nothing and makes no process.
    let result = unsafe { libc::syscall(libc::SYS_clone3, 0, 0) };
    result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

/// Memory of a process of one's own can be read by `process_vm_readv`: a large message is then copied once.
pub fn has_process_vm() -> bool {
    let (from, mut to) = (*b"tutti", [0_u8; 5]);
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    // SAFETY: both places are as long as said and live for the call; the remote one is only read, and is this
    // process's own.
    let read =
        unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    read == from.len() as isize && to == from
}

/// Two processes use the same memory.
///
/// # Errors
/// When the kernel, or the filter of a container, does not say.
pub fn shares_memory(one: Pid, other: Pid) -> io::Result<bool> {
    const KCMP_VM: libc::c_int = 1;
    let pid = |pid: Pid| pid.as_raw_nonzero().get();
    // SAFETY: it compares what two numbers stand for, and reads and writes nothing of this process.
    match unsafe { libc::syscall(libc::SYS_kcmp, pid(one), pid(other), KCMP_VM, 0, 0) } {
        0 => Ok(true),
        order if order > 0 => Ok(false),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn kernel_has_what_the_other_tests_use() {
        // The starter's tests fork by it; where a filter forbids it they could not pass.
        assert!(super::has_clone3());
    }
}
