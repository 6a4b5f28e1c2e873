//! Connections that libpmix accepts. It listens at a TCP port of the loopback interface and takes the word
//! of whoever connects for which user and rank it is. So each is looked at before libpmix has it: one that is
//! not of this process's user is closed, and so are those of a rank that opens ever more: the job ends.
//!
//! libpmix calls `accept`. The program exports one (build.rs), which the loader finds before libc's.

use core::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use tutti_os::{TcpPeer, tcp_peer};

use super::numbers;
use super::silent::{self, Beginning};
use super::upcalls::UPCALLS;

/// Connections that may be open, about.
static LIMIT: AtomicU32 = AtomicU32::new(u32::MAX);

/// Limits the connections that are open.
pub(super) fn limit(connections: u32) {
    LIMIT.store(connections, Ordering::Relaxed);
}

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
    let accepted = unsafe { OwnedFd::from_raw_fd(accepted) };
    // SAFETY: libpmix has it open while it calls.
    let listener = unsafe { BorrowedFd::borrow_raw(listener) };
    match settle(accepted, listener) {
        Some(connection) => {
            let connection = numbers::give(connection).into_raw_fd();
            // SAFETY: our contract; the place has been written for a connection of the same family.
            unsafe { libc::getpeername(connection, address, length) };
            connection
        }
        None => {
            // SAFETY: the place is this thread's own.
            unsafe { *libc::__errno_location() = libc::EAGAIN };
            -1
        }
    }
}

/// The connection that libpmix gets, if any.
fn settle(accepted: OwnedFd, listener: BorrowedFd<'_>) -> Option<OwnedFd> {
    if let Some(kept) = silent::exchange(accepted.as_fd()) {
        return kept;
    }
    if is_of_stranger(accepted.as_fd()) {
        return None;
    }
    let limit = LIMIT.load(Ordering::Relaxed);
    // The kernel gives the lowest number that is free: below it are as many open descriptors. libpmix has
    // its connections under others.
    let others = limit.saturating_sub(accepted.as_raw_fd().unsigned_abs());
    if accepted.as_raw_fd().unsigned_abs() > limit || numbers::count(others as usize) > others as usize {
        UPCALLS.get().into_iter().for_each(|upcalls| upcalls.handle_crowd(limit));
        return None;
    }
    match silent::beginning(accepted.as_fd()) {
        Beginning::There => Some(accepted),
        Beginning::Never => None,
        Beginning::Missing(bytes) => silent::keep(accepted, bytes, listener).err(),
    }
}

/// Whether the kernel says that the other end is not of this user. Where it cannot say, libpmix looks alone.
fn is_of_stranger(connection: BorrowedFd<'_>) -> bool {
    match tcp_peer(connection) {
        Ok(TcpPeer::User(user)) => user != rustix::process::geteuid().as_raw(),
        Ok(TcpPeer::Elsewhere) => true,
        Ok(TcpPeer::Unknown) | Err(_) => false,
    }
}
