//! Interfaces, bridges, cables and addresses of a network namespace: requests to the kernel (rtnetlink(7)),
//! one at a time, each answered before the next.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

use crate::sys;

/// The kernel says a moment after both ends are up that a cable carries: a rank that looked before (libfabric
/// does) would take another interface. One that does not come up is left as it is.
///
/// # Errors
/// When there is no such interface.
pub fn await_carrier(netlink: &Netlink, name: &str, until: Instant) -> io::Result<()> {
    while !netlink.is_running(name)? && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// A socket that speaks with the network of the namespace in which it was opened (rtnetlink(7)).
#[derive(Debug)]
pub struct Netlink(OwnedFd);

impl Netlink {
    /// One that speaks with the network of the namespace that the thread is in.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub fn open() -> rustix::io::Result<Self> {
        // Protocol 0 of this family is NETLINK_ROUTE.
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None).map(Netlink)
    }

    /// Whether an interface is up and has a carrier.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn is_running(&self, name: &str) -> io::Result<bool> {
        sys::is_running(self.0.as_fd(), name)
    }

    /// Sends a request and waits for the kernel's answer, which comes at once.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn request(&self, message: Message) -> io::Result<()> {
        send(&self.0, &message.finish(), SendFlags::empty())?;
        let mut answer = [0_u8; 4096];
        let (length, _) = recv(&self.0, &mut answer[..], RecvFlags::empty())?;
        // nlmsghdr, then the error of struct nlmsgerr.
        let word =
            |at: usize| answer[..length].get(at..at + 4).map(|word| word.try_into().expect("four bytes"));
        match word(16).map(i32::from_ne_bytes) {
            Some(0) => Ok(()),
            Some(error) => Err(io::Error::from_raw_os_error(-error)),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// A request to the kernel: header, a structure by its kind, attributes (length, kind, value, padded to four
/// bytes).
#[derive(Debug)]
pub struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: i32) -> Self {
        let flags = (flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        Message(bytes)
    }

    /// struct ifinfomsg: the interface, and its flags if it is to be changed.
    fn interface(&mut self, number: u32, up: bool) {
        let flags = if up { libc::IFF_UP as u32 } else { 0 };
        self.0.extend_from_slice(&[0; 4]);
        for word in [number, flags, flags] {
            self.0.extend_from_slice(&word.to_ne_bytes());
        }
    }

    /// Starts an interface; `master`, if not 0, is the bridge that it belongs to.
    #[must_use]
    pub fn link(master: u32, number: u32, up: bool) -> Self {
        let mut message = Message::new(libc::RTM_NEWLINK, 0);
        message.interface(number, up);
        if master > 0 {
            message.attribute(libc::IFLA_MASTER, &master.to_ne_bytes());
        }
        message
    }

    /// Takes an interface down: the other end of a cable loses its carrier.
    #[must_use]
    pub fn down(number: u32) -> Self {
        let mut message = Message::new(libc::RTM_NEWLINK, 0);
        message.0.extend_from_slice(&[0; 4]);
        for word in [number, 0, libc::IFF_UP as u32] {
            message.0.extend_from_slice(&word.to_ne_bytes());
        }
        message
    }

    /// Takes an interface out of its bridge.
    #[must_use]
    pub fn unplug(number: u32) -> Self {
        let mut message = Message::new(libc::RTM_NEWLINK, 0);
        message.interface(number, false);
        message.attribute(libc::IFLA_MASTER, &0_u32.to_ne_bytes());
        message
    }

    /// Removes an interface, and with a cable its other end.
    #[must_use]
    pub fn delete(number: u32) -> Self {
        let mut message = Message::new(libc::RTM_DELLINK, 0);
        message.interface(number, false);
        message
    }

    /// Sets the longest packet of an interface.
    #[must_use]
    pub fn mtu(number: u32, mtu: u32) -> Self {
        let mut message = Message::new(libc::RTM_NEWLINK, 0);
        message.interface(number, false);
        message.attribute(libc::IFLA_MTU, &mtu.to_ne_bytes());
        message
    }

    /// Sets the hardware address of an interface.
    #[must_use]
    pub fn hardware(number: u32, address: [u8; 6]) -> Self {
        let mut message = Message::new(libc::RTM_NEWLINK, 0);
        message.interface(number, false);
        message.attribute(libc::IFLA_ADDRESS, &address);
        message
    }

    /// The owner of an address on an interface's network: for good.
    #[must_use]
    pub fn neighbour(number: u32, address: Ipv4Addr, hardware: [u8; 6]) -> Self {
        let mut message = Message::new(libc::RTM_NEWNEIGH, libc::NLM_F_CREATE | libc::NLM_F_REPLACE);
        // struct ndmsg
        message.0.extend_from_slice(&[libc::AF_INET as u8, 0, 0, 0]);
        message.0.extend_from_slice(&number.to_ne_bytes());
        message.0.extend_from_slice(&libc::NUD_PERMANENT.to_ne_bytes());
        message.0.extend_from_slice(&[0; 2]);
        message.attribute(libc::NDA_DST, &address.octets());
        message.attribute(libc::NDA_LLADDR, &hardware);
        message
    }

    /// A bridge.
    #[must_use]
    pub fn bridge(name: &str, number: u32) -> Self {
        let mut message = Message::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        message.interface(number, false);
        message.attribute(libc::IFLA_IFNAME, name.as_bytes());
        message.nested(libc::IFLA_LINKINFO, |info| info.attribute(libc::IFLA_INFO_KIND, b"bridge"));
        message
    }

    /// A pair of veths, one end here, one in another namespace.
    #[must_use]
    pub fn cable(name: &str, number: u32, far_name: &str, far_number: u32, far: &OwnedFd) -> Self {
        /// Kind of the attribute that describes the other end (linux/veth.h).
        const VETH_INFO_PEER: u16 = 1;
        let mut message = Message::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        message.interface(number, false);
        message.attribute(libc::IFLA_IFNAME, name.as_bytes());
        message.nested(libc::IFLA_LINKINFO, |info| {
            info.attribute(libc::IFLA_INFO_KIND, b"veth");
            info.nested(libc::IFLA_INFO_DATA, |data| {
                data.nested(VETH_INFO_PEER, |peer| {
                    peer.interface(far_number, false);
                    peer.attribute(libc::IFLA_IFNAME, far_name.as_bytes());
                    peer.attribute(libc::IFLA_NET_NS_FD, &far.as_raw_fd().to_ne_bytes());
                });
            });
        });
        message
    }

    /// Gives an interface an address in a network.
    #[must_use]
    pub fn address(number: u32, address: Ipv4Addr, prefix_bits: u8) -> Self {
        let mut message = Message::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        // struct ifaddrmsg
        message.0.extend_from_slice(&[libc::AF_INET as u8, prefix_bits, 0, libc::RT_SCOPE_UNIVERSE]);
        message.0.extend_from_slice(&number.to_ne_bytes());
        message.attribute(libc::IFA_LOCAL, &address.octets());
        message.attribute(libc::IFA_ADDRESS, &address.octets());
        message
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.nested(kind, |message| message.0.extend_from_slice(value));
    }

    fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let begin = self.0.len();
        self.0.extend_from_slice(&[0; 2]);
        self.0.extend_from_slice(&kind.to_ne_bytes());
        fill(self);
        let length = (self.0.len() - begin) as u16;
        self.0[begin..begin + 2].copy_from_slice(&length.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[0..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}
