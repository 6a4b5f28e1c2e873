//! The state of a network interface.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Whether an interface of the namespace in which a socket was opened is up and has a carrier
/// (`IFF_RUNNING`).
///
/// # Errors
/// When there is no such interface.
pub(crate) fn is_running(socket: BorrowedFd<'_>, name: &str) -> io::Result<bool> {
    // SAFETY: plain data, of which zeroes are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    let places = request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1);
    places.zip(name.bytes()).for_each(|(place, byte)| *place = byte as libc::c_char);
    // SAFETY: the kernel reads and writes the structure, which lives during the call; it then holds flags.
    unsafe {
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(i32::from(request.ifr_ifru.ifru_flags) & libc::IFF_RUNNING != 0)
    }
}
