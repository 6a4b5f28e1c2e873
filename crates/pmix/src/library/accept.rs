//! Connections that libpmix accepts. It listens at a TCP port of the loopback interface and takes the word
//! of whoever connects for which user and rank it is. So each is looked at before libpmix has it: one that is
//! not of this process's user is closed.
//!
//! libpmix calls `accept`. The program exports one (build.rs), which the loader finds before libc's.

use core::ffi::c_int;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use tutti_os::{TcpPeer, tcp_peer};

/// A reference, without which the linker would leave the function out.
pub(super) const ACCEPT: unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> c_int =
    accept;

/// `accept(2)` without connections of other users: EAGAIN, as if none had come. After most other errors
/// libpmix closes its listener.
///
/// # Safety
/// As of `accept(2)`: address and length are null or valid.
#[unsafe(no_mangle)]
unsafe extern "C" fn accept(
    listener: c_int,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: our contract.
    let accepted = unsafe { libc::accept4(listener, address, length, libc::SOCK_CLOEXEC) };
    if accepted < 0 {
        return accepted;
    }
    // SAFETY: it has just been opened, and is known to this function alone.
    if unsafe { is_of_stranger(BorrowedFd::borrow_raw(accepted)) } {
        // SAFETY: as above; it is closed here.
        drop(unsafe { OwnedFd::from_raw_fd(accepted) });
        // SAFETY: the place is this thread's own.
        unsafe { *libc::__errno_location() = libc::EAGAIN };
        return -1;
    }
    accepted
}

/// Whether the kernel says that the other end is not of this user. Where it cannot say, libpmix looks alone.
fn is_of_stranger(connection: BorrowedFd<'_>) -> bool {
    match tcp_peer(connection) {
        Ok(TcpPeer::User(user)) => user != rustix::process::geteuid().as_raw(),
        Ok(TcpPeer::Elsewhere) => true,
        Ok(TcpPeer::Unknown) | Err(_) => false,
    }
}
