//! How a process is known to other launches: its name among all processes, and where it takes connections.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::seal;

/// The name of a process among those of all launches. Both sides of a connection order processes by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessName {
    /// Public number of the job.
    pub job: u64,
    /// World rank in it.
    pub rank: u32,
}

/// A process with where it takes connections, and what a connection must say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Name of the process.
    pub name: ProcessName,
    /// Key that a connection must send first. Whoever has the address may connect.
    pub key: u64,
    /// For processes of other nodes, if they can reach it.
    pub inet: Option<SocketAddr>,
}

impl Address {
    /// Words of an address.
    pub const WORDS: usize = 10;
    /// Bytes of an address.
    pub const BYTES: usize = 4 * Self::WORDS;

    /// As words, for messages.
    pub fn words(&self) -> [u32; Self::WORDS] {
        let (ip, port) = match self.inet {
            None => ([0; 16], 0),
            Some(address) => {
                let ip = match address.ip() {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                (ip.octets(), address.port())
            }
        };
        let part = |at: usize| u32::from_be_bytes([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
        let ProcessName { job, rank } = self.name;
        let halves = |long: u64| [long as u32, (long >> 32) as u32];
        let ([job_low, job_high], [key_low, key_high]) = (halves(job), halves(self.key));
        [job_low, job_high, rank, key_low, key_high, part(0), part(4), part(8), part(12), u32::from(port)]
    }

    /// From words; none of words that are no address.
    pub fn from_words(words: &[u32]) -> Option<Self> {
        let words: &[u32; Self::WORDS] = words.try_into().ok()?;
        let long = |at: usize| u64::from(words[at]) | u64::from(words[at + 1]) << 32;
        let mut ip = [0; 16];
        ip.chunks_exact_mut(4)
            .zip(&words[5..9])
            .for_each(|(to, word)| to.copy_from_slice(&word.to_be_bytes()));
        let port = u16::try_from(words[9]).ok()?;
        let inet = (port != 0).then(|| SocketAddr::new(Ipv6Addr::from(ip).to_canonical(), port));
        let address = Address { name: ProcessName { job: long(0), rank: words[2] }, key: long(3), inet };
        // Of each address there is one form only.
        (address.words() == *words).then_some(address)
    }

    /// As bytes, for sockets.
    pub fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes
            .chunks_exact_mut(4)
            .zip(self.words())
            .for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        bytes
    }

    /// From bytes; none of bytes that are no address.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let words =
            bytes.chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().expect("four bytes")));
        Self::from_words(&words.collect::<Vec<_>>()).filter(|_| bytes.len() == Self::BYTES)
    }

    /// The name of the abstract Unix socket on which the process takes connections of its node. Whoever has
    /// the address knows it, and nobody else can take it before: the number of a job is known to all.
    pub fn local_socket(&self) -> String {
        let ProcessName { job, rank } = self.name;
        let number = seal::number(self.key, &[&job.to_le_bytes()[..], &rank.to_le_bytes()].concat());
        format!("tutti-rank-{job:016x}-{rank}-{number:016x}")
    }
}

/// The first bytes of a connection: whom it is for, and whom it is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Key of the process that takes the connection.
    pub key: u64,
    /// The process that connects.
    pub from: Address,
}

impl Hello {
    const MAGIC: [u8; 8] = *b"tutti-g2";
    /// Bytes of it.
    pub const BYTES: usize = 16 + Address::BYTES;

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&Self::MAGIC);
        bytes[8..16].copy_from_slice(&self.key.to_le_bytes());
        bytes[16..].copy_from_slice(&self.from.bytes());
        bytes
    }

    /// Reads one; none of other bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_at_checked(8)?;
        let (key, from) = rest.split_first_chunk::<8>()?;
        let from = Address::from_bytes(from)?;
        (magic == Self::MAGIC).then(|| Hello { key: u64::from_le_bytes(*key), from })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(inet: Option<&str>) -> Address {
        Address {
            name: ProcessName { job: 0x0123_4567_89ab_cdef, rank: 7 },
            key: u64::MAX - 5,
            inet: inet.map(|text| text.parse().expect("an address")),
        }
    }

    #[test]
    fn guest_socket_name_is_known_to_whoever_has_the_address_alone() {
        let one = address(None);
        let name = one.local_socket();
        assert_eq!(name, Address { inet: Some("10.1.2.3:4".parse().unwrap()), ..one }.local_socket());
        assert_ne!(name, Address { key: one.key ^ 1, ..one }.local_socket());
        assert_ne!(name, Address { name: ProcessName { rank: 8, ..one.name }, ..one }.local_socket());
        assert!(!name.contains(&format!("{:x}", one.key)), "it does not tell the key: {name}");
    }

    #[test]
    fn guest_addresses_and_hellos_round_trip_and_others_are_refused() {
        for inet in [None, Some("10.1.2.3:4000"), Some("[fd00::7]:99")] {
            let address = address(inet);
            assert_eq!(Address::from_words(&address.words()), Some(address));
            assert_eq!(Address::from_bytes(&address.bytes()), Some(address));
            let hello = Hello { key: 3, from: address };
            let bytes = hello.encode();
            assert_eq!(Hello::decode(&bytes), Some(hello));
            for end in 0..bytes.len() {
                assert_eq!(Hello::decode(&bytes[..end]), None, "{end} bytes");
            }
            for at in 0..8 {
                let mut other = bytes;
                other[at] ^= 1;
                assert_eq!(Hello::decode(&other), None, "byte {at}");
            }
            let mut words = address.words();
            words[9] = 1 << 16;
            assert_eq!(Address::from_words(&words), None);
        }
        let mut words = address(None).words();
        words[8] = 1;
        assert_eq!(Address::from_words(&words), None, "an address of another form");
        assert_eq!(Address::from_words(&[0; 9]), None);
        assert_eq!(Address::from_bytes(&[0; Address::BYTES + 1]), None);
    }
}
