//! Abstract names under which daemons are found by others on their machine.

use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Listens on a name, or on one that nobody can foresee where somebody else has taken that: he is not
/// believed, and keeps nobody from being found.
pub(super) fn listen(name: &str) -> io::Result<UnixListener> {
    let bind = |name: &str| UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?);
    match bind(name) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let mut number = [0; 8];
            tutti_os::random::fill_random(&mut number)?;
            bind(&format!("{name}-{:x}", u64::from_ne_bytes(number)))
        }
        result => result,
    }
}
