//! The numbers of a job's channels. All endpoints of a job must have the same datagram size, record count and
//! first number; the starter hands them out.

use crate::bulk::BULK_BYTES_MAX;
use crate::packet::{FRAGMENT_HEAD_BYTES, HEADER_BYTES, SHORT_BYTES, record_bytes};
use crate::pieces::cut_bytes;
use crate::types::Seq;

/// Ranks to which an endpoint may talk, at most.
pub const PEERS_MAX: usize = u16::MAX as usize;

/// Bytes that a datagram of a given size takes of a kernel receive buffer (its truesize). The transport
/// measures it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charges {
    /// `(datagram bytes at most, bytes charged)`, ascending; above the last one the charge grows in
    /// proportion.
    pub classes: [(u32, u32); 3],
}

impl Charges {
    /// Bytes of receive buffer that a datagram of `bytes` takes.
    #[inline]
    #[must_use]
    pub fn of(&self, bytes: usize) -> u32 {
        let bytes = bytes as u32;
        for (bytes_max, charge) in self.classes {
            if bytes <= bytes_max {
                return charge;
            }
        }
        let (bytes_max, charge) = self.classes[2];
        (u64::from(bytes) * u64::from(charge) / u64::from(bytes_max)) as u32
    }
}

impl Default for Charges {
    /// Measured on Linux 6.18: a receive buffer of 212,992 bytes holds 256 datagrams of 64 bytes, 92 of
    /// 1,400, 6 of 32 KiB.
    fn default() -> Self {
        Charges { classes: [(128, 832), (1500, 2304), (32768, 35498)] }
    }
}

/// The numbers of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of the longest datagram, our header included; 256 to 65,507. 1,448 keeps a record of 1,384 bytes
    /// and any Ethernet happy; more where the MTU allows.
    pub datagram_bytes: usize,
    /// Records in one send FIFO, at most; a power of two.
    pub fifo_records: u32,
    /// Bulk messages on their way out of this rank, at most.
    pub bulk_out_max: u32,
    /// Bulk messages accepted and not yet complete, at most.
    pub bulk_in_max: u32,
    /// Kernel receive buffer of this rank's socket in bytes of truesize.
    pub receive_buffer_bytes: u32,
    /// Bytes that a datagram takes of a receive buffer.
    pub charges: Charges,
    /// How long an acknowledgement may wait for a packet to ride on.
    pub ack_delay_ns: u64,
    /// Datagrams of a flow after which it is acknowledged at once; more than a message of several takes, so
    /// that its answer says so instead: an acknowledgement alone costs 5 us, just before that answer.
    pub ack_every_datagrams: u32,
    /// Shortest time without an acknowledgement before a probe; above the skew of a gang switch (1 ms).
    pub rto_ns_min: u64,
    /// Shortest and longest time between probes.
    pub probe_ns: (u64, u64),
    /// Fragments handed out in one call, at most: 64 is what UDP GSO takes.
    pub burst_datagrams: usize,
    /// Number of the first record of every flow. Any: tests start before the wrap.
    pub first_seq: Seq,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            datagram_bytes: 1448,
            fifo_records: 1024,
            bulk_out_max: 64,
            bulk_in_max: 256,
            receive_buffer_bytes: 212_992,
            charges: Charges::default(),
            ack_delay_ns: 250_000,
            ack_every_datagrams: 64,
            rto_ns_min: 1_500_000,
            probe_ns: (200_000, 10_000_000),
            burst_datagrams: 64,
            first_seq: Seq(0),
        }
    }
}

/// Why an endpoint cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The datagram size is out of range.
    #[error("datagrams of {0} bytes: from 256 to 65507 are possible")]
    DatagramBytes(usize),
    /// The number of records is no power of two or out of range.
    #[error("a FIFO of {0} records: a power of two from 2 to 65536 is possible")]
    FifoRecords(u32),
    /// The FIFO's memory does not hold a record of the longest datagram, or is no multiple of 8, or above 1
    /// GiB.
    #[error("a FIFO of {found} bytes: a multiple of 8, at least {least}, at most 1 GiB is possible")]
    FifoBytes {
        /// Bytes that were given.
        found: usize,
        /// Bytes that a longest record takes.
        least: usize,
    },
    /// No room for any bulk message, or for too many.
    #[error("{0} bulk messages at a time: from 1 to 65535 are possible")]
    BulkMessages(u32),
    /// No datagram may be handed out in a call.
    #[error("bursts of {0} datagrams: from 1 to 64 are possible")]
    Burst(usize),
    /// Too many peers.
    #[error("a rank talks to {PEERS_MAX} ranks of other nodes at most")]
    Peers,
    /// A rank stands twice among the peers, is the endpoint's own, or has too high a number.
    #[error("rank {0} cannot be a peer: it stands twice, is the endpoint's own, or its number is too high")]
    Peer(u32),
}

impl Config {
    /// Bytes of the longest record.
    #[must_use]
    pub fn record_bytes_max(&self) -> usize {
        (self.datagram_bytes - HEADER_BYTES - record_bytes(0)) & !7
    }

    /// Bytes of every fragment of a bulk message but the last.
    #[inline]
    #[must_use]
    pub fn fragment_bytes(&self) -> usize {
        (self.datagram_bytes - HEADER_BYTES - FRAGMENT_HEAD_BYTES) & !7
    }

    /// Bytes of a bulk message, at most: [`BULK_BYTES_MAX`], less where fragments are so small that they
    /// could not be counted.
    #[must_use]
    pub fn bulk_bytes_max(&self) -> u64 {
        BULK_BYTES_MAX.min(u64::from(u32::MAX / 2) * self.fragment_bytes() as u64)
    }

    /// Bytes of the shortest buffer that [`Endpoint::poll_transmit`](crate::Endpoint::poll_transmit) can be
    /// given: the longest datagram, in pieces where it may have to travel so.
    #[must_use]
    pub fn transmit_bytes_min(&self) -> usize {
        if self.datagram_bytes > SHORT_BYTES { cut_bytes(self.datagram_bytes) } else { self.datagram_bytes }
    }

    /// Bytes that the longest datagram takes of a receive buffer.
    #[must_use]
    pub fn charge_max(&self) -> u32 {
        self.charges.of(self.datagram_bytes)
    }

    /// Whether an endpoint can be made of these numbers.
    ///
    /// # Errors
    /// The number that is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !(256..=65507).contains(&self.datagram_bytes) {
            return Err(ConfigError::DatagramBytes(self.datagram_bytes));
        }
        if !self.fifo_records.is_power_of_two() || !(2..=65536).contains(&self.fifo_records) {
            return Err(ConfigError::FifoRecords(self.fifo_records));
        }
        for count in [self.bulk_out_max, self.bulk_in_max] {
            if !(1..=65535).contains(&count) {
                return Err(ConfigError::BulkMessages(count));
            }
        }
        if !(1..=64).contains(&self.burst_datagrams) {
            return Err(ConfigError::Burst(self.burst_datagrams));
        }
        Ok(())
    }

    /// Whether a FIFO of `bytes` can serve.
    ///
    /// # Errors
    /// It cannot.
    pub fn check_fifo(&self, bytes: usize) -> Result<(), ConfigError> {
        let least = record_bytes(self.record_bytes_max());
        if !bytes.is_multiple_of(8) || bytes < least || bytes > 1 << 30 {
            return Err(ConfigError::FifoBytes { found: bytes, least });
        }
        Ok(())
    }
}
