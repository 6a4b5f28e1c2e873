//! Network namespaces for the virtual nodes of a job, joined as machines are: two by a cable (a pair of
//! veths), more by a switch (a bridge in a namespace of its own).
//!
//! Nothing here has a name outside. The namespaces exist as long as a process is in them or the front end
//! holds them open, and take their interfaces and addresses with them. So nothing is left behind, whichever
//! process is killed.
//!
//! ```text
//! node 0: lo, tutti 10.213.0.1/16 ---- tutti 10.213.0.2/16, lo :node 1            two nodes
//!
//! node i: lo, tutti 10.213.x.y/16 ---- port i, bridge :switch                     more
//! ```
//!
//! Every node gets permanent entries for the hardware addresses of all others. So there are no ARP requests,
//! and such entries do not count in the kernel's table of neighbours. That has 1024 places for all namespaces
//! together (`net.ipv4.neigh.default.gc_thresh3`).
//!
//! The caller is single-threaded: it goes into the namespaces and comes back.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::rtnetlink::{Message, Netlink, await_carrier};

/// Nodes, at most: each gets an entry for all others.
pub const NAMESPACES_MAX: u32 = 128;

/// All cables carry within this time.
const CARRIER_MAX: Duration = Duration::from_secs(5);
/// Number of the loopback interface in every namespace.
const LOOPBACK: u32 = 1;
/// Number of a node's cable. The kernel may have made other interfaces in a new namespace: their numbers are
/// low.
const CABLE: u32 = 1000;
/// Number of the bridge in the switch's namespace; its ports have the numbers after it.
const BRIDGE: u32 = 1000;

/// Why there are no namespaces.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// An ordinary user.
    #[error("--netns makes network namespaces and needs root; --virtual-nodes works for every user")]
    NotAllowed,
    /// The kernel refuses something else.
    #[error("cannot {action}: {source}")]
    System {
        /// Action that failed.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

fn failed<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> NetnsError {
    move |source| NetnsError::System { action, source: source.into() }
}

/// A namespace of a node.
#[derive(Debug)]
pub struct Namespace {
    descriptor: OwnedFd,
    /// Under which the node is reached.
    pub address: IpAddr,
}

/// The namespaces of a job.
#[derive(Debug)]
pub struct Namespaces {
    own: OwnedFd,
    /// By node.
    pub nodes: Vec<Namespace>,
    /// Namespace of the switch, which exists as long as this is open.
    switch: Option<OwnedFd>,
}

impl Namespaces {
    /// Makes and joins them. `mtus` is the longest packet of each node's cable; the last holds for the rest,
    /// none is the kernel's choice.
    ///
    /// # Errors
    /// When the kernel does not let us.
    pub fn create(nodes: u32, mtus: &[u32]) -> Result<Self, NetnsError> {
        assert!((1..=NAMESPACES_MAX).contains(&nodes));
        let own = current().map_err(failed("open this network namespace"))?;
        let made = (0..nodes + u32::from(nodes > 2)).map(|_| make()).collect::<Result<Vec<_>, _>>();
        // A process that may not make one has not left and could not come back either.
        let back = enter(&own);
        let mut made = made?;
        back.map_err(failed("return to this network namespace"))?;
        let switch = (nodes > 2).then(|| made.pop()).flatten();
        join(&made, switch.as_ref(), mtus).map_err(failed("join the network namespaces"))?;
        let alone = made.len() == 1;
        let nodes = made.into_iter().enumerate().map(|(node, (descriptor, _))| Namespace {
            descriptor,
            address: IpAddr::V4(if alone { Ipv4Addr::LOCALHOST } else { address_of(node as u32) }),
        });
        Ok(Namespaces { own, nodes: nodes.collect(), switch: switch.map(|(descriptor, _)| descriptor) })
    }

    /// Descriptors that must stay open while the nodes are to reach each other: their namespaces in order,
    /// and that of the switch. For a process that outlives this one.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.nodes.iter().map(|node| node.descriptor.as_fd()).chain(self.switch.iter().map(AsFd::as_fd))
    }

    /// Does something inside the namespace of a node, such as starting a process.
    ///
    /// # Errors
    /// When the kernel does not let us in or back.
    pub fn inside<T>(&self, node: usize, act: impl FnOnce() -> T) -> Result<T, NetnsError> {
        enter(&self.nodes[node].descriptor).map_err(failed("enter a network namespace"))?;
        let result = act();
        enter(&self.own).map_err(failed("return to this network namespace"))?;
        Ok(result)
    }
}

/// A namespace, and a socket in it that speaks with its network.
type Made = (OwnedFd, Netlink);

/// Makes a namespace and stays in it.
fn make() -> Result<Made, NetnsError> {
    crate::leave_network_namespace().map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM) => NetnsError::NotAllowed,
        _ => failed("make a network namespace")(error),
    })?;
    let descriptor = current().map_err(failed("open a network namespace"))?;
    let netlink = Netlink::open().map_err(failed("communicate with a network namespace"))?;
    netlink.request(Message::link(0, LOOPBACK, true)).map_err(failed("start a loopback interface"))?;
    Ok((descriptor, netlink))
}

fn current() -> rustix::io::Result<OwnedFd> {
    open("/proc/thread-self/ns/net", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

fn enter(namespace: &OwnedFd) -> rustix::io::Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
}

fn address_of(node: u32) -> Ipv4Addr {
    let [.., high, low] = (node + 1).to_be_bytes();
    Ipv4Addr::new(10, 213, high, low)
}

/// A hardware address of our own making (the second bit of the first byte), as the address above.
fn hardware_of(node: u32) -> [u8; 6] {
    let [a, b, c, d] = address_of(node).octets();
    [2, 0, a, b, c, d]
}

fn join(nodes: &[Made], switch: Option<&Made>, mtus: &[u32]) -> io::Result<()> {
    match (nodes, switch) {
        ([(_, one), (other, _)], None) => {
            one.request(Message::cable("tutti", CABLE, "tutti", CABLE, other))?
        }
        (_, None) => {}
        (_, Some((_, switch))) => {
            switch.request(Message::bridge("tutti", BRIDGE))?;
            switch.request(Message::link(0, BRIDGE, true))?;
            for (number, (node, _)) in (BRIDGE + 1..).zip(nodes) {
                switch.request(Message::cable(&format!("port{number}"), number, "tutti", CABLE, node))?;
                if let Some(longest) = mtus.iter().max() {
                    switch.request(Message::mtu(number, *longest))?;
                }
                switch.request(Message::link(BRIDGE, number, true))?;
            }
        }
    }
    if nodes.len() > 1 {
        for (node, (_, netlink)) in nodes.iter().enumerate() {
            if let Some(mtu) = mtus.get(node).or(mtus.last()) {
                netlink.request(Message::mtu(CABLE, *mtu))?;
            }
            netlink.request(Message::hardware(CABLE, hardware_of(node as u32)))?;
            netlink.request(Message::address(CABLE, address_of(node as u32), 16))?;
            netlink.request(Message::link(0, CABLE, true))?;
            for other in (0..nodes.len() as u32).filter(|other| *other as usize != node) {
                netlink.request(Message::neighbour(CABLE, address_of(other), hardware_of(other)))?;
            }
        }
        let until = Instant::now() + CARRIER_MAX;
        for (_, netlink) in nodes {
            await_carrier(netlink, "tutti", until)?;
        }
        for port in (BRIDGE + 1..).take(nodes.len()) {
            if let Some((_, netlink)) = switch {
                await_carrier(netlink, &format!("port{port}"), until)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// Permanent hardware addresses in this namespace.
    fn neighbours() -> io::Result<Vec<Ipv4Addr>> {
        /// ATF_COM and ATF_PERM (linux/if_arp.h).
        const FOR_GOOD: &str = "0x6";
        let table = std::fs::read_to_string("/proc/thread-self/net/arp")?;
        let mut known: Vec<Ipv4Addr> = table
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|words| words[2] == FOR_GOOD)
            .map(|words| words[0].parse().expect("an address"))
            .collect();
        known.sort_unstable();
        Ok(known)
    }

    #[test]
    fn netns_nodes_reach_each_other_only() {
        for nodes in [1, 2, 5] {
            // A thread of its own: a namespace is the thread's.
            let tried = std::thread::spawn(move || {
                let namespaces = Namespaces::create(nodes, &[])?;
                let bind = |node: usize| UdpSocket::bind((namespaces.nodes[node].address, 0)).unwrap();
                for node in 0..nodes {
                    let known = namespaces.inside(node as usize, || neighbours().unwrap())?;
                    let others = (0..nodes).filter(|other| nodes > 1 && *other != node);
                    assert_eq!(known, others.map(address_of).collect::<Vec<_>>(), "all others, for good");
                }
                if nodes == 1 {
                    assert!(namespaces.inside(0, || bind(0).local_addr().is_ok())?);
                    return Ok(());
                }
                for node in 0..nodes as usize {
                    let is_running =
                        |socket: UdpSocket| crate::sys::is_running(socket.as_fd(), "tutti").unwrap();
                    assert!(namespaces.inside(node, || is_running(bind(node)))?, "the link of node {node}");
                }
                let sockets: Vec<UdpSocket> = (0..nodes as usize)
                    .map(|node| namespaces.inside(node, || bind(node)))
                    .collect::<Result<_, _>>()?;
                for (from, sender) in sockets.iter().enumerate() {
                    for (to, receiver) in sockets.iter().enumerate().filter(|(to, _)| *to != from) {
                        // A link carries nothing for a moment after both of its ends are up.
                        receiver.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                        let deadline = Instant::now() + Duration::from_secs(20);
                        loop {
                            assert!(Instant::now() < deadline, "nothing comes from node {from} to node {to}");
                            sender.send_to(&[from as u8, to as u8], receiver.local_addr().unwrap()).unwrap();
                            let mut bytes = [0; 8];
                            let Ok((length, source)) = receiver.recv_from(&mut bytes) else { continue };
                            if bytes[..length] == [from as u8, to as u8] {
                                assert_eq!(source, sender.local_addr().unwrap());
                                break;
                            }
                        }
                    }
                }
                assert!(UdpSocket::bind((namespaces.nodes[0].address, 0)).is_err(), "we are back outside");
                Ok(())
            });
            match tried.join().unwrap() {
                Ok(()) => {}
                Err(error @ NetnsError::NotAllowed) => {
                    tutti_testkit::skip(tutti_testkit::Need::NetworkNamespace, error)
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}
