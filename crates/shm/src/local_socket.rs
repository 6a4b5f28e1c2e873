//! Local sockets (`AF_UNIX`): packets, the descriptors that travel with them, and who is at the other end.
//!
//! A call that a signal has interrupted is made again.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Descriptors that come with one packet, at most: the kernel closes those beyond.
pub const DESCRIPTORS_MAX: usize = 4;

/// Words of a control buffer with room for a header and [`DESCRIPTORS_MAX`] descriptors.
const CONTROL_WORDS: usize = 4;
const _: () = assert!(size_of::<[u64; CONTROL_WORDS]>() >= 16 + DESCRIPTORS_MAX * size_of::<libc::c_int>());

/// The least time that is a limit: the kernel takes none for a wait without end.
const LEAST: Duration = Duration::from_millis(1);
/// The longest wait at once. More than it has passed only where the process was stopped: that was no wait.
const SLICE: Duration = Duration::from_millis(100);

/// A connection with whoever listens for packets under an abstract name. Close-on-exec.
///
/// The kernel keeps some connections for who listens; where it has no room more a caller waits, for ever if
/// that process is stopped: no longer than the limit, here.
///
/// # Errors
/// `ConnectionRefused` when nobody listens, `InvalidInput` when no socket can have the name, `WouldBlock`
/// when there was no room for so long.
pub fn connect(name: &str, limit: Duration) -> io::Result<OwnedFd> {
    connect_at(libc::SOCK_SEQPACKET, abstract_address(name)?, limit)
}

/// A connection with whoever listens for streams at a path. Close-on-exec.
///
/// # Errors
/// `InvalidInput` when no socket can have the path, `WouldBlock` as of [`connect`]; else as `connect(2)`.
pub fn connect_to(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    connect_at(libc::SOCK_STREAM, path_address(path)?, limit).map(UnixStream::from)
}

/// The same by address, whatever signals this process gets meanwhile.
fn connect_at(
    kind: libc::c_int,
    (address, bytes): (libc::sockaddr_un, libc::socklen_t),
    limit: Duration,
) -> io::Result<OwnedFd> {
    // SAFETY: a plain call; the fresh descriptor is owned by nobody else.
    let socket =
        unsafe { OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0))?) };
    let mut rest = limit;
    loop {
        let slice = rest.clamp(LEAST, SLICE);
        limit_sends(&socket, Some(slice))?;
        let began = Instant::now();
        let address = (&raw const address).cast();
        // SAFETY: the address is valid for its length.
        let Err(error) = checked(unsafe { libc::connect(socket.as_raw_fd(), address, bytes) }) else { break };
        if !matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) {
            return Err(error);
        }
        rest = rest.saturating_sub(began.elapsed().min(slice));
        if rest.is_zero() {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
    }
    limit_sends(&socket, None)?;
    Ok(socket)
}

/// Limits what waits for room at the other end; none: without end.
fn limit_sends(socket: &OwnedFd, limit: Option<Duration>) -> io::Result<()> {
    let limit = limit.unwrap_or_default();
    let value = libc::timeval {
        tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_usec: limit.subsec_micros().into(),
    };
    let bytes = size_of_val(&value) as libc::socklen_t;
    let value = (&raw const value).cast();
    // SAFETY: the value is valid for its length during the call.
    checked(unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDTIMEO, value, bytes)
    })
    .map(drop)
}

/// Address of a path, and its bytes.
fn path_address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: all zeros is a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let path = path.as_os_str().as_bytes();
    // A path ends with a zero; an empty one would be a name that the kernel chooses.
    if path.is_empty() || path.len() >= address.sun_path.len() || path.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    let bytes = std::mem::offset_of!(libc::sockaddr_un, sun_path) + path.len() + 1;
    Ok((address, bytes as libc::socklen_t))
}

/// Address of an abstract name, and its bytes.
///
/// # Errors
/// `InvalidInput` when no socket can have the name.
pub fn abstract_address(name: &str) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: all zeros is a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if name.len() >= address.sun_path.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // An abstract name begins with a zero.
    for (to, from) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let bytes = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    Ok((address, bytes as libc::socklen_t))
}

/// Lets descriptors pass with what comes over a connection, or over those that a listener will accept, or
/// not. Whoever lets go of the last descriptor of a file closes it, and may wait for that as long as who
/// has passed it likes (a TCP connection with SO_LINGER). The sender's call is refused then. Kernels
/// before Linux 6.16 cannot do that, and let them pass.
pub fn let_descriptors_pass(socket: BorrowedFd<'_>, do_pass: bool) {
    /// SO_PASSRIGHTS, which the C library does not name yet.
    const PASS_RIGHTS: libc::c_int = 83;
    let value = libc::c_int::from(do_pass);
    let bytes = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the value is valid for its length during the call. A kernel that does not know it says so.
    unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, PASS_RIGHTS, (&raw const value).cast(), bytes);
    }
}

/// Two ends of a connection for packets, both close-on-exec.
///
/// # Errors
/// When the kernel gives none.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel stores two fresh descriptors, which nobody else owns.
    unsafe {
        checked(libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()))?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Sends a packet; its bytes that have left, all of them where packets are kept whole.
///
/// # Errors
/// When the other end is gone, or the socket says so.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let sent = retry(|| unsafe {
        libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL)
    })?;
    Ok(sent as usize)
}

/// Sends a packet and a descriptor with it; its bytes that have left.
///
/// # Errors
/// The same.
pub fn send_with(socket: BorrowedFd<'_>, bytes: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<usize> {
    // SAFETY: zeroed is a valid value of these plain structures; the pointers stay valid during the call, in
    // which the kernel only reads the bytes; the control buffer is aligned for cmsghdr and has room for one
    // header and one descriptor.
    let sent = retry(|| unsafe {
        let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = [0_u64; CONTROL_WORDS];
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(size_of::<libc::c_int>() as u32) as usize;
        let first = libc::CMSG_FIRSTHDR(&header);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = libc::SCM_RIGHTS;
        (*first).cmsg_len = libc::CMSG_LEN(size_of::<libc::c_int>() as u32) as usize;
        libc::CMSG_DATA(first).cast::<libc::c_int>().write_unaligned(descriptor.as_raw_fd());
        libc::sendmsg(socket.as_raw_fd(), &header, libc::MSG_NOSIGNAL)
    })?;
    Ok(sent as usize)
}

/// Waits for a packet; its bytes, 0 when no more come. Descriptors that come with it, close-on-exec, are put
/// behind those that are there.
///
/// # Errors
/// When the socket says so.
pub fn receive(socket: BorrowedFd<'_>, into: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    // SAFETY: zeroed is a valid value of these plain structures; the pointers stay valid during the call; the
    // control buffer is aligned for cmsghdr, and the kernel writes within it; descriptors that arrive are
    // owned by nobody else.
    unsafe {
        let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let mut control = [0_u64; CONTROL_WORDS];
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        let received = retry(|| libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC))?;
        let first = libc::CMSG_FIRSTHDR(&header);
        if !first.is_null()
            && (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_RIGHTS
        {
            let bytes = (*first).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let numbers = libc::CMSG_DATA(first).cast::<libc::c_int>();
            for index in 0..bytes / size_of::<libc::c_int>() {
                descriptors.push(OwnedFd::from_raw_fd(numbers.add(index).read_unaligned()));
            }
        }
        Ok(received as usize)
    }
}

/// Takes a packet that is there; its bytes, 0 when no more come. Descriptors are left out.
///
/// # Errors
/// `WouldBlock` when none is there, or when the socket says so.
pub fn receive_now(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let received = retry(|| unsafe {
        libc::recv(socket.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT)
    })?;
    Ok(received as usize)
}

/// The process at the other end, and its user, by the kernel's word.
///
/// # Errors
/// When the kernel does not tell.
pub fn peer(socket: BorrowedFd<'_>) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes into the structure, whose length it is given, and which lives for the call.
    checked(unsafe {
        let into = (&raw mut peer).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, into, &mut length)
    })?;
    Ok(peer)
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn retry(mut call: impl FnMut() -> isize) -> io::Result<isize> {
    loop {
        let result = call();
        if result >= 0 {
            return Ok(result);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn descriptors_travel_with_their_packet_in_order() {
        let (one, other) = pair().unwrap();
        let pipes: Vec<_> = (0..2).map(|_| io::pipe().unwrap()).collect();
        for (at, (_, writer)) in pipes.iter().enumerate() {
            assert_eq!(send_with(one.as_fd(), &[at as u8; 3], writer.as_fd()).unwrap(), 3);
        }
        assert_eq!(send(one.as_fd(), b"bare").unwrap(), 4);
        drop(one);
        let (mut bytes, mut came) = ([0; 8], Vec::new());
        for at in 0..2 {
            assert_eq!(receive(other.as_fd(), &mut bytes, &mut came).unwrap(), 3);
            assert_eq!((bytes[0], came.len()), (at as u8, at + 1));
        }
        for ((mut reader, writer), descriptor) in pipes.into_iter().zip(came) {
            drop(writer);
            io::Write::write_all(&mut std::fs::File::from(descriptor), b"through").unwrap();
            let mut text = String::new();
            io::Read::read_to_string(&mut reader, &mut text).unwrap();
            assert_eq!(text, "through");
        }
        assert_eq!(receive_now(other.as_fd(), &mut bytes).unwrap(), 4);
        assert_eq!(receive_now(other.as_fd(), &mut bytes).unwrap(), 0);
    }

    #[test]
    fn packet_that_is_not_there_is_not_waited_for() {
        let (_one, other) = pair().unwrap();
        let none = receive_now(other.as_fd(), &mut [0; 8]).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn name_without_listener_and_long_name_are_refused() {
        let limit = Duration::from_secs(20);
        let nobody = connect("tutti-test/nobody-listens-here", limit).unwrap_err();
        assert_eq!(nobody.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(connect(&"x".repeat(108), limit).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        for path in ["", &"x".repeat(108), "a\0b"] {
            let refused = connect_to(Path::new(path), limit).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{path:?}");
        }
    }

    /// A stopped daemon or server: connections wait, and none is taken.
    #[test]
    fn connection_to_a_full_socket_is_awaited_for_the_limit_alone() {
        let folder = tutti_testkit::Scratch::new("connect");
        let path = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // SAFETY: a plain call.
        checked(unsafe { libc::listen(listener.as_raw_fd(), 1) }).unwrap();
        let limit = Duration::from_millis(50);
        let mut waiting = Vec::new();
        let full = loop {
            match connect_to(&path, limit) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock, "{full}, after {} connections", waiting.len());
        // Somebody is let in: there is room for one.
        let accepted = std::thread::spawn(move || listener.accept().map(|_| listener));
        let stream = connect_to(&path, Duration::from_secs(20)).unwrap();
        assert_eq!(stream.write_timeout().unwrap(), None);
        drop(accepted.join().unwrap());
    }

    /// A profiler's timer, or a debugger that stops and continues.
    #[test]
    fn connection_to_a_full_socket_is_given_up_under_signals_too() {
        use std::os::unix::thread::JoinHandleExt;
        extern "C" fn ignore(_: libc::c_int) {}
        // SAFETY: zeroed is a valid value of this plain structure; the handler does nothing.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as libc::sighandler_t;
            checked(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut())).unwrap();
        }
        let folder = tutti_testkit::Scratch::new("connect-signals");
        let path = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // SAFETY: a plain call.
        checked(unsafe { libc::listen(listener.as_raw_fd(), 1) }).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = connect_to(&path, Duration::from_millis(50)) {
            waiting.push(stream);
        }
        let connecting = std::thread::spawn(move || connect_to(&path, Duration::from_millis(300)));
        let began = Instant::now();
        while !connecting.is_finished() {
            assert!(began.elapsed() < Duration::from_secs(20), "the limit has no end");
            // SAFETY: the thread has not been joined, so its number is valid.
            unsafe { libc::pthread_kill(connecting.as_pthread_t(), libc::SIGUSR1) };
            std::thread::sleep(Duration::from_millis(1));
        }
        let full = connecting.join().unwrap().unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock, "{full}");
    }

    #[test]
    fn peer_is_this_process() {
        let (one, _other) = pair().unwrap();
        assert_eq!(peer(one.as_fd()).unwrap().pid, std::process::id() as i32);
    }
}
