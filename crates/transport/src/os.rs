//! The system calls of UDP, with every `unsafe` of the crate: many messages per call, GSO and GRO, socket
//! options.
//!
//! Nothing here waits (MSG_DONTWAIT whatever the socket's flags say, since a rank can change them) and
//! nothing is interrupted: EINTR is tried again.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::mem::zeroed;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::{c_int, c_void, cmsghdr, iovec, mmsghdr, sockaddr_in, sockaddr_in6, socklen_t};

use crate::Outgoing;
use crate::clock;
use crate::stamps::{self, Mark};

mod placed;

pub(crate) use placed::PlacedReceiver;

/// Messages of one system call, at most.
pub(crate) const MESSAGES_MAX: usize = 32;
/// Parts of one message, at most: a head and a body for each of 64 segments.
const PARTS_MAX: usize = 128;
/// Room for control messages of one message: the length of joined datagrams, and when they came.
const CONTROL_WORDS: usize = 8;
/// Bytes of a receive buffer: the longest UDP datagram, or a run of them joined by the kernel.
const BUFFER_BYTES: usize = 65536;

/// An address as the kernel wants it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    storage: sockaddr_in6,
    bytes: socklen_t,
}

/// Key that distinguishes addresses: address (IPv4 mapped) and port.
pub(crate) type Key = (u128, u16);

/// The key of an address.
pub(crate) fn key_of(address: &SocketAddr) -> Key {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    (u128::from(ip), address.port())
}

const _: () = assert!(size_of::<sockaddr_in>() <= size_of::<sockaddr_in6>());

impl Address {
    const fn empty() -> Self {
        // SAFETY: zero is a valid value of this plain structure.
        Address { storage: unsafe { zeroed() }, bytes: size_of::<sockaddr_in6>() as socklen_t }
    }

    fn key(&self) -> Key {
        match c_int::from(self.storage.sin6_family) {
            libc::AF_INET => {
                // SAFETY: the kernel, or `from`, has stored a sockaddr_in here, which is the smaller one;
                // read unaligned.
                let v4 = unsafe { (&raw const self.storage).cast::<sockaddr_in>().read_unaligned() };
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                (u128::from(ip.to_ipv6_mapped()), u16::from_be(v4.sin_port))
            }
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(self.storage.sin6_addr.s6_addr);
                (u128::from(ip), u16::from_be(self.storage.sin6_port))
            }
            _ => (0, 0),
        }
    }
}

impl From<&SocketAddr> for Address {
    fn from(address: &SocketAddr) -> Self {
        let mut made = Address::empty();
        match address {
            SocketAddr::V4(v4) => {
                // SAFETY: zero is a valid value of this plain structure.
                let mut storage: sockaddr_in = unsafe { zeroed() };
                storage.sin_family = libc::AF_INET as libc::sa_family_t;
                storage.sin_port = v4.port().to_be();
                storage.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
                // SAFETY: it is the smaller structure (asserted above); written unaligned.
                unsafe { (&raw mut made.storage).cast::<sockaddr_in>().write_unaligned(storage) };
                made.bytes = size_of::<sockaddr_in>() as socklen_t;
            }
            SocketAddr::V6(v6) => {
                made.storage.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                made.storage.sin6_port = v6.port().to_be();
                made.storage.sin6_addr.s6_addr = v6.ip().octets();
                made.storage.sin6_scope_id = v6.scope_id();
            }
        }
        made
    }
}

/// Datagrams that travel as one message: `count` of the batch from `first` on, all to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lot {
    /// Index of the first.
    pub first: usize,
    /// How many.
    pub count: usize,
    /// Bytes of each but the last, which may be shorter; 0: a single datagram, no GSO.
    pub segment_bytes: u16,
}

/// A control message with the length of segments.
#[repr(C)]
#[derive(Clone, Copy)]
struct Segment {
    header: cmsghdr,
    bytes: u16,
    _rest: [u16; 3],
}

const _: () = assert!(size_of::<Segment>() == 24 && align_of::<Segment>() == align_of::<cmsghdr>());

/// Memory of the sending calls, reused.
pub(crate) struct Sender {
    headers: Vec<mmsghdr>,
    parts: Vec<iovec>,
    segments: Vec<Segment>,
}

// SAFETY: the pointers inside are written and used within one call only.
unsafe impl Send for Sender {}

impl Sender {
    /// With room for one call.
    pub(crate) fn new() -> Self {
        Sender {
            headers: Vec::with_capacity(MESSAGES_MAX),
            parts: Vec::with_capacity(MESSAGES_MAX * PARTS_MAX),
            segments: Vec::with_capacity(MESSAGES_MAX),
        }
    }

    /// Sends lots of a batch, at most [`MESSAGES_MAX`]; gives how many of the lots are gone, at least one.
    /// Without addresses they go where the socket is connected to: with one the kernel would look for the way
    /// again.
    ///
    /// # Errors
    /// The kernel's answer to the first lot.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        lots: &[Lot],
        batch: &[Outgoing<'_>],
        addresses: Option<&[Address]>,
    ) -> io::Result<usize> {
        assert!((1..=MESSAGES_MAX).contains(&lots.len()));
        self.headers.clear();
        self.parts.clear();
        self.segments.clear();
        for lot in lots {
            let peer = batch[lot.first].peer as usize;
            let address = addresses.map(|addresses| &addresses[peer]);
            self.add(lot, &batch[lot.first..lot.first + lot.count], address);
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let fd = socket.as_raw_fd();
        let begun_ns = stamps::begin();
        let sent = retry(|| {
            if let [header] = &self.headers[..] {
                // SAFETY: the header points to live slices (`batch`, `addresses` and our own vectors, which
                // `add` does not let grow); the kernel only reads them.
                let sent = unsafe { libc::sendmsg(fd, &header.msg_hdr, flags) };
                return if sent < 0 { -1 } else { 1 };
            }
            // SAFETY: as above; the kernel writes the lengths into the headers.
            let sent =
                unsafe { libc::sendmmsg(fd, self.headers.as_mut_ptr(), self.headers.len() as u32, flags) };
            sent as isize
        })? as usize;
        if let Some(begun_ns) = begun_ns {
            stamps::note(Mark::Sent, begun_ns, sent);
        }
        Ok(sent)
    }

    fn add(&mut self, lot: &Lot, datagrams: &[Outgoing<'_>], address: Option<&Address>) {
        // A vector that grew would move what headers point to.
        assert!(self.parts.len() + 2 * lot.count <= self.parts.capacity());
        assert!(self.segments.len() < self.segments.capacity());
        let first_part = self.parts.len();
        for datagram in datagrams {
            for bytes in [datagram.head, datagram.body] {
                if !bytes.is_empty() {
                    let iov_base = bytes.as_ptr().cast_mut().cast::<c_void>();
                    self.parts.push(iovec { iov_base, iov_len: bytes.len() });
                }
            }
        }
        // SAFETY: zero is a valid value of this plain structure.
        let mut header: mmsghdr = unsafe { zeroed() };
        if let Some(address) = address {
            header.msg_hdr.msg_name = ptr::from_ref(&address.storage).cast_mut().cast();
            header.msg_hdr.msg_namelen = address.bytes;
        }
        header.msg_hdr.msg_iov = self.parts[first_part..].as_mut_ptr();
        header.msg_hdr.msg_iovlen = (self.parts.len() - first_part) as _;
        if lot.segment_bytes > 0 {
            // SAFETY: zero is a valid value of this plain structure.
            let mut segment: Segment = unsafe { zeroed() };
            segment.header.cmsg_level = libc::SOL_UDP;
            segment.header.cmsg_type = libc::UDP_SEGMENT;
            segment.header.cmsg_len = (size_of::<cmsghdr>() + size_of::<u16>()) as _;
            segment.bytes = lot.segment_bytes;
            self.segments.push(segment);
            header.msg_hdr.msg_control = ptr::from_mut(self.segments.last_mut().expect("just pushed")).cast();
            header.msg_hdr.msg_controllen = size_of::<Segment>() as _;
        }
        self.headers.push(header);
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

/// Memory of the receiving calls, reused.
pub(crate) struct Receiver {
    headers: Vec<mmsghdr>,
    parts: Vec<iovec>,
    names: Vec<Address>,
    controls: Vec<[u64; CONTROL_WORDS]>,
    buffers: Vec<u8>,
    received: usize,
}

// SAFETY: the pointers inside lead to the vectors beside them, which are never exchanged.
unsafe impl Send for Receiver {}

/// A message that has arrived: one datagram, or several joined by the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    /// Where from.
    pub source: Key,
    /// The datagrams, one after the other; `None` when the message was cut off.
    pub bytes: Option<&'a [u8]>,
    /// Bytes of each datagram but the last.
    pub segment_bytes: usize,
}

impl Receiver {
    /// With buffers for so many messages.
    pub(crate) fn new(messages: usize) -> Self {
        assert!((1..=MESSAGES_MAX).contains(&messages));
        let mut buffers = vec![0_u8; messages * BUFFER_BYTES];
        let mut parts: Vec<iovec> = buffers
            .chunks_exact_mut(BUFFER_BYTES)
            .map(|buffer| iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() })
            .collect();
        let mut names = vec![Address::empty(); messages];
        let mut controls = vec![[0_u64; CONTROL_WORDS]; messages];
        let headers = (0..messages).map(|index| {
            // SAFETY: zero is a valid value of this plain structure.
            let mut header: mmsghdr = unsafe { zeroed() };
            header.msg_hdr.msg_iov = &mut parts[index];
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = ptr::from_mut(&mut names[index].storage).cast();
            header.msg_hdr.msg_control = controls[index].as_mut_ptr().cast();
            arm(&mut header);
            header
        });
        let headers = headers.collect();
        Receiver { headers, parts, names, controls, buffers, received: 0 }
    }

    /// Receives what has arrived, at most so many messages and as far as the buffers go; gives their number.
    /// One alone costs less than the first of several.
    ///
    /// # Errors
    /// The kernel's; WouldBlock when there is nothing.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, messages_max: usize) -> io::Result<usize> {
        // The kernel has overwritten lengths in those that it used.
        self.headers[..self.received].iter_mut().for_each(arm);
        self.received = 0;
        let fd = socket.as_raw_fd();
        let begun_ns = stamps::begin();
        let received = if messages_max == 1 {
            let header = &mut self.headers[0];
            retry(|| {
                // SAFETY: the header points into our own vectors, the buffer with its length.
                let bytes = unsafe { libc::recvmsg(fd, &mut header.msg_hdr, libc::MSG_DONTWAIT) };
                header.msg_len = bytes.max(0) as u32;
                if bytes < 0 { -1 } else { 1 }
            })?
        } else {
            let (headers, count) = (self.headers.as_mut_ptr(), messages_max.min(self.headers.len()) as u32);
            // SAFETY: the headers point into our own vectors, each buffer with its length.
            retry(|| unsafe {
                libc::recvmmsg(fd, headers, count, libc::MSG_DONTWAIT, ptr::null_mut()) as isize
            })?
        };
        self.received = received as usize;
        if let Some(begun_ns) = begun_ns {
            stamps::note_received(begun_ns, self.received, || arrived_ns(&self.headers[0].msg_hdr));
        }
        Ok(self.received)
    }

    /// A message of the last call.
    pub(crate) fn message(&self, index: usize) -> Message<'_> {
        assert!(index < self.received);
        let header = &self.headers[index];
        let length = (header.msg_len as usize).min(BUFFER_BYTES);
        let start = index * BUFFER_BYTES;
        let cut_off = header.msg_hdr.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
        Message {
            source: self.names[index].key(),
            bytes: (!cut_off).then(|| &self.buffers[start..start + length]),
            segment_bytes: segment_bytes(&header.msg_hdr).unwrap_or(length),
        }
    }
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Receiver { parts, controls, received, .. } = self;
        f.debug_struct("Receiver")
            .field("messages", &parts.len())
            .field("controls", &controls.len())
            .field("received", received)
            .finish_non_exhaustive()
    }
}

/// Makes a header ready to be received into.
fn arm(header: &mut mmsghdr) {
    header.msg_hdr.msg_namelen = size_of::<sockaddr_in6>() as socklen_t;
    header.msg_hdr.msg_controllen = size_of::<[u64; CONTROL_WORDS]>() as _;
    header.msg_hdr.msg_flags = 0;
}

/// When the kernel had a message (SO_TIMESTAMPNS), by the monotonic clock; 0 if it does not say.
fn arrived_ns(header: &libc::msghdr) -> u64 {
    // SAFETY: the kernel has filled the control buffer of a successful call; the walk stays inside its
    // length.
    let arrived = unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        loop {
            if control.is_null() {
                return 0;
            }
            if (*control).cmsg_level == libc::SOL_SOCKET && (*control).cmsg_type == libc::SCM_TIMESTAMPNS {
                break libc::CMSG_DATA(control).cast::<libc::timespec>().read_unaligned();
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    };
    // The kernel has it by the clock of the calendar.
    let ago_ns = clock::calendar_ns().saturating_sub(clock::ns_of(&arrived));
    clock::monotonic_ns().saturating_sub(ago_ns)
}

/// The length of the datagrams that the kernel has joined, if it has.
fn segment_bytes(header: &libc::msghdr) -> Option<usize> {
    // SAFETY: the kernel has filled the control buffer of a successful call; the walk stays inside its
    // length.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while !control.is_null() {
            if (*control).cmsg_level == libc::SOL_UDP && (*control).cmsg_type == libc::UDP_GRO {
                let bytes = libc::CMSG_DATA(control).cast::<c_int>().read_unaligned();
                return usize::try_from(bytes).ok().filter(|bytes| *bytes > 0);
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    None
}

/// Reads an option that is a number.
pub(crate) fn option(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut bytes = size_of::<c_int>() as socklen_t;
    // SAFETY: the value is as long as we say.
    retry(|| unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &mut bytes) as isize
    })?;
    Ok(value)
}

/// Sets an option that is a number.
pub(crate) fn set_option(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let bytes = size_of::<c_int>() as socklen_t;
    // SAFETY: the value is as long as we say.
    retry(|| unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), bytes) as isize
    })
    .map(drop)
}

/// Memory of a socket, as the kernel tells it (SO_MEMINFO).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Charged for datagrams that wait to be received.
    pub queued_bytes: u32,
    /// Datagrams dropped for want of room.
    pub dropped: u32,
}

/// Asks for [`Memory`]. Unlike SO_RXQ_OVFL it costs the datagrams nothing, and tells of drops also when none
/// comes after.
pub(crate) fn memory(socket: BorrowedFd<'_>) -> io::Result<Memory> {
    // linux/sock_diag.h: SK_MEMINFO_RMEM_ALLOC is the first word, SK_MEMINFO_DROPS the ninth.
    let mut words = [0_u32; 9];
    let mut bytes = size_of_val(&words) as socklen_t;
    // SAFETY: the words are as many as we say.
    retry(|| unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            (&raw mut words).cast(),
            &mut bytes,
        ) as isize
    })?;
    Ok(Memory { queued_bytes: words[0], dropped: words[8] })
}

/// Bytes of an IP packet that the interface of an address of this node takes; none if there is no such
/// interface.
pub(crate) fn mtu_of(address: IpAddr) -> Option<usize> {
    let name = interface_of(address)?;
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    // SAFETY: zero is a valid value of this plain structure; the name with its end fits (IFNAMSIZ), as the
    // kernel gave it; the kernel writes the union's MTU.
    unsafe {
        let mut request: libc::ifreq = zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes_with_nul()) {
            *to = *from as libc::c_char;
        }
        retry(|| libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) as isize).ok()?;
        usize::try_from(request.ifr_ifru.ifru_mtu).ok()
    }
}

/// Name of the interface on which an address of this node stands.
fn interface_of(address: IpAddr) -> Option<CString> {
    let mut list = ptr::null_mut();
    // SAFETY: the list is ours from here until it is freed; its addresses are as long as their families say,
    // if there are any.
    unsafe {
        retry(|| libc::getifaddrs(&mut list) as isize).ok()?;
        let (mut at, mut found) = (list, None);
        while let (Some(entry), None) = (at.as_ref(), &found) {
            if ip_of(entry.ifa_addr) == Some(address) {
                found = Some(CStr::from_ptr(entry.ifa_name).to_owned());
            }
            at = entry.ifa_next;
        }
        libc::freeifaddrs(list);
        found
    }
}

/// # Safety
/// `address` is null or leads to a socket address as long as its family says.
unsafe fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: our contract.
    unsafe {
        match c_int::from(address.as_ref()?.sa_family) {
            libc::AF_INET => {
                let v4 = address.cast::<sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                Some(Ipv6Addr::from(address.cast::<sockaddr_in6>().read_unaligned().sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

/// Lets a socket hear and address one peer only.
pub(crate) fn connect(socket: BorrowedFd<'_>, address: &Address) -> io::Result<()> {
    let name = (&raw const address.storage).cast();
    // SAFETY: the address is as long as we say.
    retry(|| unsafe { libc::connect(socket.as_raw_fd(), name, address.bytes) as isize }).map(drop)
}

/// Whether an error is the network's answer to something that was sent, which then counts as lost. It comes
/// with whatever call is next, also one that receives: what ICMP says of the way to a peer, a device that is
/// down, a filter or a route that forbids, an address that this node has lost.
pub(crate) fn is_answer_of_network(errno: c_int) -> bool {
    matches!(
        errno,
        libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::ENETDOWN
            | libc::ENONET
            | libc::ENOPROTOOPT
            | libc::EPROTO
            | libc::EPERM
            | libc::EACCES
            | libc::EADDRNOTAVAIL
    )
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
