//! Cables between machines and the bridge. The keeper is in the bridge's network namespace, which has
//! nothing else, so all of this is gone with it.
//!
//! ```text
//! machine: eth0 ---- veth ---- port1, bridge        plain: the kernel carries, at no cost
//! machine: eth0 ---- TAP --- Carrier --- TAP port1, bridge        with loss, delay, ...: a thread carries
//! ```
//!
//! A cut takes the link down: both sides notice. A silent cable looks well and carries nothing.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tutti_os::rtnetlink::{Message, Netlink};

use super::carrier::Carrier;
use super::control::LinkState;
use super::error::LabError;
use super::lane::Counts;
use super::sys;
use super::terms::Terms;

/// Number of the loopback interface in every namespace.
const LOOPBACK: u32 = 1;
/// Number of a machine's interface where its cable is plain.
const CABLE: u32 = 1000;
/// Number of the bridge.
const BRIDGE: u32 = 1000;
/// Name of the bridge.
const BRIDGE_NAME: &str = "tutti";
/// Name of a machine's interface.
pub(super) const INTERFACE: &str = "eth0";
/// Longest packet of the bridge and its ports: the machines' interfaces decide.
const BRIDGE_MTU: u32 = 9216;

/// Address of a machine.
pub(super) fn address_of(node: u32) -> Ipv4Addr {
    let [.., high, low] = (node + 1).to_be_bytes();
    Ipv4Addr::new(10, 214, high, low)
}

/// A hardware address of our own making (the second bit of the first byte), as the address above.
fn hardware_of(node: u32) -> [u8; 6] {
    let [a, b, c, d] = address_of(node).octets();
    [2, 0, a, b, c, d]
}

fn port_name(node: u32) -> String {
    format!("port{node}")
}

/// Does something in another network namespace, on a thread of its own.
fn inside<T: Send>(namespace: BorrowedFd<'_>, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let done = scope.spawn(move || {
            move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?;
            act()
        });
        done.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the lab has panicked")))
    })
}

fn number_of(name: &str) -> io::Result<u32> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    Ok(rustix::net::netdevice::name_to_index(&socket, name)?)
}

/// The bridge.
#[derive(Debug)]
pub(super) struct Bridge {
    netlink: Netlink,
    /// /dev/net/tun as it was found.
    tun: Option<File>,
    /// Carries the frames of cables that are not plain; begun with the first of them.
    carrier: Option<Arc<Carrier>>,
}

impl Bridge {
    /// Makes it in the namespace of this thread.
    pub(super) fn create() -> io::Result<Self> {
        let netlink = Netlink::open()?;
        netlink.request(Message::link(0, LOOPBACK, true))?;
        netlink.request(Message::bridge(BRIDGE_NAME, BRIDGE))?;
        netlink.request(Message::mtu(BRIDGE, BRIDGE_MTU))?;
        netlink.request(Message::link(0, BRIDGE, true))?;
        Ok(Bridge { netlink, tun: None, carrier: None })
    }

    /// Cables that are not plain need this.
    pub(super) fn open_tun() -> Result<File, LabError> {
        File::options().read(true).write(true).open("/dev/net/tun").map_err(|error| LabError::Tun { error })
    }

    /// Where it is, as long as the bridge is there: another opening belongs to the network namespace of the
    /// thread that opens it.
    fn tun(&mut self) -> io::Result<PathBuf> {
        let tun = match &self.tun {
            Some(tun) => tun,
            None => self.tun.insert(Self::open_tun().map_err(io::Error::other)?),
        };
        Ok(format!("/proc/self/fd/{}", tun.as_raw_fd()).into())
    }
}

/// A new interface in the network namespace of this thread.
fn tap(tun: &Path, name: &str) -> io::Result<OwnedFd> {
    let file = File::options().read(true).write(true).open(tun)?;
    rustix::io::ioctl_fionbio(&file, true)?;
    sys::make_tap(file.as_fd(), name)?;
    Ok(file.into())
}

/// Wire that carries the frames of a cable.
#[derive(Debug)]
enum Wire {
    Veth,
    /// The end in the machine; the other one is the carrier's.
    Taps {
        machine: Arc<OwnedFd>,
    },
}

/// The cable of a machine, while the machine is there.
#[derive(Debug)]
pub(super) struct Cable {
    node: u32,
    namespace: OwnedFd,
    wire: Wire,
    terms: Terms,
    state: LinkState,
}

impl Cable {
    /// Joins a machine, by its network namespace, with the bridge.
    pub(super) fn lay(
        bridge: &mut Bridge,
        node: u32,
        namespace: OwnedFd,
        terms: Terms,
        state: LinkState,
    ) -> io::Result<Self> {
        inside(namespace.as_fd(), || Netlink::open()?.request(Message::link(0, LOOPBACK, true)))?;
        let wire = Self::make_wire(bridge, node, &namespace, terms)?;
        let mut cable = Cable { node, namespace, wire, terms, state: LinkState::Up };
        cable.dress(bridge)?;
        cable.set_state(bridge, state)?;
        Ok(cable)
    }

    fn make_wire(bridge: &mut Bridge, node: u32, namespace: &OwnedFd, terms: Terms) -> io::Result<Wire> {
        let name = port_name(node);
        if terms.is_plain() {
            let number = BRIDGE + 1 + node;
            bridge.netlink.request(Message::cable(&name, number, INTERFACE, CABLE, namespace))?;
            return Ok(Wire::Veth);
        }
        let tun = bridge.tun()?;
        let port = tap(&tun, &name)?;
        let machine = inside(namespace.as_fd(), || tap(&tun, INTERFACE))?;
        let carrier = match &bridge.carrier {
            Some(carrier) => carrier,
            None => bridge.carrier.insert(Carrier::start()?),
        };
        let (machine, port) = (Arc::new(machine), Arc::new(port));
        carrier.add(node, machine.clone(), port, terms);
        Ok(Wire::Taps { machine })
    }

    /// Addresses and longest packets of both ends, which are then up.
    fn dress(&self, bridge: &Bridge) -> io::Result<()> {
        let (node, mtu) = (self.node, self.terms.mtu_bytes);
        inside(self.namespace.as_fd(), move || {
            let (netlink, number) = (Netlink::open()?, number_of(INTERFACE)?);
            netlink.request(Message::hardware(number, hardware_of(node)))?;
            netlink.request(Message::mtu(number, mtu))?;
            netlink.request(Message::address(number, address_of(node), 16))?;
            netlink.request(Message::link(0, number, true))
        })?;
        let number = number_of(&port_name(self.node))?;
        bridge.netlink.request(Message::mtu(number, BRIDGE_MTU))?;
        bridge.netlink.request(Message::link(BRIDGE, number, true))
    }

    /// Whether both ends say that it carries.
    pub(super) fn is_running(&self, bridge: &Bridge) -> io::Result<bool> {
        let here = bridge.netlink.is_running(&port_name(self.node))?;
        Ok(here && inside(self.namespace.as_fd(), || Netlink::open()?.is_running(INTERFACE))?)
    }

    /// Changes what it does.
    pub(super) fn set_terms(&mut self, bridge: &mut Bridge, terms: Terms) -> io::Result<()> {
        let (old, state) = (self.terms, self.state);
        match (&self.wire, terms.is_plain()) {
            (Wire::Veth, true) => {}
            (Wire::Taps { .. }, _) => {
                if let Some(carrier) = &bridge.carrier {
                    carrier.set_terms(self.node, terms);
                }
            }
            (Wire::Veth, false) => {
                // Sockets are bound to the address, which comes back at once.
                self.remove(bridge)?;
                self.wire = Self::make_wire(bridge, self.node, &self.namespace, terms)?;
                self.terms = terms;
                self.state = LinkState::Up;
                self.dress(bridge)?;
                return self.set_state(bridge, state);
            }
        }
        self.terms = terms;
        if old.mtu_bytes != terms.mtu_bytes {
            inside(self.namespace.as_fd(), move || {
                Netlink::open()?.request(Message::mtu(number_of(INTERFACE)?, terms.mtu_bytes))
            })?;
        }
        Ok(())
    }

    /// Cuts, mends or silences it.
    pub(super) fn set_state(&mut self, bridge: &Bridge, state: LinkState) -> io::Result<()> {
        let number = number_of(&port_name(self.node))?;
        match state {
            LinkState::Up => bridge.netlink.request(Message::link(BRIDGE, number, true))?,
            LinkState::Cut => bridge.netlink.request(Message::down(number))?,
            LinkState::Silent => {
                bridge.netlink.request(Message::link(0, number, true))?;
                bridge.netlink.request(Message::unplug(number))?;
            }
        }
        if let Wire::Taps { machine } = &self.wire {
            sys::set_carrier(machine.as_fd(), state != LinkState::Cut)?;
        }
        self.state = state;
        Ok(())
    }

    /// Silences it, just before it is taken away.
    pub(super) fn silence(&self, bridge: &Bridge) -> io::Result<()> {
        bridge.netlink.request(Message::unplug(number_of(&port_name(self.node))?))
    }

    /// Takes it away.
    pub(super) fn remove(&mut self, bridge: &Bridge) -> io::Result<()> {
        if let (Wire::Taps { .. }, Some(carrier)) = (&self.wire, &bridge.carrier) {
            carrier.remove(self.node);
        }
        bridge.netlink.request(Message::delete(number_of(&port_name(self.node))?))
    }

    /// Counts of its thread: frames from the machine, and to it.
    pub(super) fn counts(&self, bridge: &Bridge) -> Option<[Counts; 2]> {
        bridge.carrier.as_ref()?.counts(self.node)
    }
}
