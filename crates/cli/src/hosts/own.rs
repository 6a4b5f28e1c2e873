//! Whether a host is this machine: by its names, by its addresses, by the lines of /etc/hosts. No name server
//! is asked, so that a job starts without a network.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

use tutti_os::slurm;

use crate::engine::slurm::nodes;

/// Names of this machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Name that the kernel has.
    pub name: String,
    /// Name that Slurm gives it, on a node of an allocation.
    slurm: Option<String>,
    /// The nodes of the allocation: several may be of one machine, with its address.
    allocated: Vec<String>,
    /// The text of /etc/hosts.
    known: String,
}

impl Machine {
    /// Reads the names of this machine.
    pub fn this() -> Self {
        Machine {
            name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            slurm: slurm::variable("SLURMD_NODENAME"),
            allocated: nodes(&slurm::variable).unwrap_or_default(),
            known: std::fs::read_to_string("/etc/hosts").unwrap_or_default(),
        }
    }

    /// The host is this machine.
    pub fn is(&self, host: &str) -> bool {
        if let Some(address) = address(host) {
            return is_own(address);
        }
        if let Some(own) = self.slurm.as_ref().filter(|_| self.allocated.iter().any(|node| node == host)) {
            return own == host;
        }
        let names = [Some("localhost"), Some(self.name.as_str()), self.slurm.as_deref()];
        names.into_iter().flatten().any(|name| short(name).eq_ignore_ascii_case(short(host)))
            || self.addresses(host).any(is_own)
    }

    /// Addresses that the file of hosts has for a name.
    fn addresses(&self, host: &str) -> impl Iterator<Item = SocketAddr> {
        let lines = self.known.lines().map(|line| line.split('#').next().unwrap_or(line));
        lines.filter_map(move |line| {
            let mut words = line.split_ascii_whitespace();
            let first = words.next()?;
            words.any(|name| name.eq_ignore_ascii_case(host)).then(|| address(first))?
        })
    }
}

/// A name without its domain.
pub fn short(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// `10.0.0.1`, `::1`, `[::1]`, `fe80::1%eth0`; none: the host is a name.
fn address(host: &str) -> Option<SocketAddr> {
    let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let (text, interface) = inside.split_once('%').map_or((inside, None), |(text, name)| (text, Some(name)));
    let index = |name: &str| {
        let of_name = std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex"));
        name.parse().ok().or_else(|| of_name.ok()?.trim().parse().ok())
    };
    match text.parse::<IpAddr>().ok()? {
        IpAddr::V4(_) if interface.is_some() => None,
        IpAddr::V4(address) => Some(SocketAddr::new(address.into(), ANY_PORT)),
        IpAddr::V6(address) => {
            let address = address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4);
            let IpAddr::V6(address) = address else { return Some(SocketAddr::new(address, ANY_PORT)) };
            let scope = interface.and_then(index).unwrap_or(0);
            Some(SocketAddr::V6(SocketAddrV6::new(address, ANY_PORT, 0, scope)))
        }
    }
}

/// Port of an address that is only looked up: no packet is sent to it.
const ANY_PORT: u16 = 9;

/// The kernel would reach the address from that very address.
fn is_own(address: SocketAddr) -> bool {
    let ip = address.ip();
    if ip.is_loopback() {
        return true;
    }
    let any: IpAddr = if ip.is_ipv4() { [0, 0, 0, 0].into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    !ip.is_unspecified() && !ip.is_multicast() && source.is_ok_and(|source| source.ip() == ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_of_this_machine_has_several_names_and_addresses() {
        let machine = Machine {
            name: "here".into(),
            slurm: Some("n07".into()),
            allocated: vec!["n07".into(), "n08".into()],
            known: "127.0.1.1 alias n08 # other\n192.0.2.7 there\n".into(),
        };
        for host in [
            "localhost",
            "localhost.localdomain",
            "127.0.0.1",
            "127.0.0.2",
            "::1",
            "[::1]",
            "::ffff:127.0.0.1",
            "[::1%lo]",
            "here",
            "HERE",
            "here.example.org",
            "n07",
            "alias",
        ] {
            assert!(machine.is(host), "{host}");
        }
        for host in [
            "there",
            "other",
            "192.0.2.7",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "hereafter",
            "n08",
            "",
            "[::1",
            "2001:db8::1",
        ] {
            assert!(!machine.is(host), "{host}");
        }
    }
}
