//! Abstract names under which daemons are found by others on their machine.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use tutti_shm::local_socket;

/// Listens on a name, or on one that nobody can foresee where somebody else has taken that: he is not
/// believed, and keeps nobody from being found.
pub(super) fn listen(name: &str) -> io::Result<UnixListener> {
    let bind = |name: &str| -> io::Result<UnixListener> {
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        local_socket::let_descriptors_pass(listener.as_fd(), false);
        Ok(listener)
    };
    match bind(name) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let mut number = [0; 8];
            tutti_os::random::fill_random(&mut number)?;
            bind(&format!("{name}-{:x}", u64::from_ne_bytes(number)))
        }
        result => result,
    }
}
