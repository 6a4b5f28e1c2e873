//! Budget of a receive buffer. The kernel charges a datagram by the memory that it occupies (truesize), not
//! by its bytes: 212992 bytes of buffer hold 256 datagrams of 64 B, 92 of 1400 B, 3 of 64 KiB. A
//! protocol that keeps what is on its way to one socket below the budget loses nothing there.

use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use crate::os;

/// Sizes whose charges are measured.
const CLASSES: [usize; 6] = [64, 512, 1472, 4096, 16384, 65507];
/// A network card's driver gives every datagram half a page and its header, however short it is.
const CARD_CHARGE_BYTES: usize = 2304;
/// In a smaller buffer all room is for what is on its way.
const HOLDING_BYTES_MIN: usize = 4 << 20;
/// The kernel's own account of a datagram (its sk_buff and the end of its data).
const OVERHEAD_BYTES: usize = 768;

/// Budget of a receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    receive_bytes: usize,
    /// Of the buffer, for what has been read.
    held_bytes: usize,
    /// By class.
    charges: [usize; CLASSES.len()],
}

impl Budget {
    /// A buffer of so many bytes in which each datagram is charged with its bytes and `overhead_bytes`.
    pub fn simple(receive_bytes: usize, overhead_bytes: usize) -> Self {
        Budget { receive_bytes, held_bytes: 0, charges: CLASSES.map(|bytes| bytes + overhead_bytes) }
    }

    /// Measures a socket that is bound to `address`: its buffer, and by a few datagrams over the loopback
    /// interface what the kernel charges.
    pub(crate) fn measure(socket: BorrowedFd<'_>, address: IpAddr) -> Self {
        let buffer = os::option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap_or(0).max(0) as usize;
        let measured = measure_charges(address);
        let estimate = |class: usize| CLASSES[class].next_power_of_two() + OVERHEAD_BYTES;
        let least = if address.is_loopback() { 0 } else { CARD_CHARGE_BYTES };
        let charge = |class: usize| measured.map_or_else(|| estimate(class), |all| all[class]).max(least);
        let held_bytes = if buffer >= HOLDING_BYTES_MIN { buffer / 4 } else { 0 };
        // What a reader has taken is given back when it is a quarter of the buffer or the queue is empty,
        // whichever is first.
        let receive_bytes = buffer / 4 * 3 - held_bytes;
        Budget { receive_bytes, held_bytes, charges: std::array::from_fn(charge) }
    }

    /// Bytes that datagrams on their way to a socket may be charged with together.
    pub fn receive_bytes(&self) -> usize {
        self.receive_bytes
    }

    /// Bytes of the buffer that messages may take which have been read and are not taken out yet.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Charge for a datagram of so many bytes.
    pub fn charge_bytes(&self, bytes: usize) -> usize {
        let class = CLASSES.iter().position(|class| bytes <= *class).unwrap_or(CLASSES.len() - 1);
        self.charges[class]
    }

    /// How many datagrams of so many bytes fit.
    pub fn datagrams(&self, bytes: usize) -> usize {
        self.receive_bytes / self.charge_bytes(bytes)
    }
}

/// Measures what the kernel charges for the longest datagram of each class; `None` when that cannot be found.
fn measure_charges(address: IpAddr) -> Option<[usize; CLASSES.len()]> {
    let receiver = UdpSocket::bind((address, 0)).ok()?;
    let sender = UdpSocket::bind((address, 0)).ok()?;
    sender.set_nonblocking(true).ok()?;
    receiver.set_nonblocking(true).ok()?;
    let to = receiver.local_addr().ok()?;
    let bytes = vec![0_u8; CLASSES[CLASSES.len() - 1]];
    let mut charges = [0; CLASSES.len()];
    for (charge, class) in charges.iter_mut().zip(CLASSES) {
        let before = os::memory(receiver.as_fd()).ok()?;
        sender.send_to(&bytes[..class.min(longest(address))], to).ok()?;
        let after = os::memory(receiver.as_fd()).ok()?;
        // To an address of this machine it has arrived when the call returns; if not (another thread of the
        // kernel may carry it), an estimate is as good.
        *charge = after.queued_bytes.checked_sub(before.queued_bytes).filter(|bytes| *bytes > 0)? as usize;
    }
    Some(charges)
}

/// Bytes of a UDP datagram, at most.
pub(crate) fn longest(address: IpAddr) -> usize {
    let header_bytes = if address.is_ipv4() { 20 + 8 } else { 40 + 8 };
    65535 - header_bytes
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn budget_matches_what_the_receive_buffer_holds() {
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let budget = Budget::measure(receiver.as_fd(), Ipv4Addr::LOCALHOST.into());
        let mut buffer = vec![0; 65536];
        receiver.set_nonblocking(true).unwrap();
        for bytes in [1, 64, 65, 1400, 9000, 65507] {
            let fits = budget.datagrams(bytes);
            assert!(fits > 0, "{budget:?}");
            for _ in 0..fits {
                sender.send_to(&buffer[..bytes], receiver.local_addr().unwrap()).unwrap();
            }
            let received = std::iter::from_fn(|| receiver.recv(&mut buffer).ok()).count();
            assert_eq!(received, fits, "{bytes} bytes, {budget:?}");
        }
        assert_eq!(os::memory(receiver.as_fd()).unwrap().dropped, 0);
    }

    #[test]
    fn budget_never_charges_longer_datagrams_less() {
        let budget = Budget::simple(1 << 20, 100);
        assert_eq!((budget.charge_bytes(1), budget.charge_bytes(65)), (164, 612));
        assert_eq!(budget.datagrams(64), (1 << 20) / 164);
        let charges: Vec<usize> = (1..65507).map(|bytes| budget.charge_bytes(bytes)).collect();
        assert!(charges.is_sorted());
    }
}
